//! Sitemaps and feeds: from bytes to the URLs that they announce.
//!
//! [`read`] takes bytes as they come and gives a [`Document`]. It knows sitemaps of sitemaps.org 0.9 (URL sets, indexes, plain
//! text), RSS 0.90 to 2.0, Atom 0.3 and 1.0, and JSON Feed 1 and 1.1, whatever their file's name or `Content-Type` says, also
//! behind gzip. It is forgiving as feed readers are, because half of all feeds break a rule: what was whole is kept, and
//! what was wrong is named with its place ([`Note`]).
//!
//! What a stranger's document may cost is bounded by [`Limits`]: bytes after unpacking, depth, attributes, lengths of texts,
//! entries. Nothing is built but the entries; memory beside them is a window of the text and one tag. A document type
//! declaration is read over: no entity that it declares is ever expanded, and nothing external is ever asked for.
//!
//! Work on bytes in memory: no runtime, no store, no network.
//!
//! Sources: sitemaps.org/protocol.html; the RSS specifications at rssboard.org (0.90 to 2.0) and
//! web.resource.org/rss/1.0; RSS 1.1 (inamidst.com/rss1.1); RFC 4287 (Atom), RFC 5005 (pages of feeds), the Atom 0.3 draft; jsonfeed.org/version/1.1;
//! RFC 7303 (which charset of XML holds); the advice of the W3C's feed validator, whose errors are what is forgiven here.

mod dates;
mod draft;
mod feed;
mod input;
mod json;
mod names;
mod notes;
mod sitemap;
mod xml;

use std::fmt;
use std::io::Read;

use base::web::WebUrl;

pub use dates::{Date, Precision};
pub use notes::{Note, Problem};

use input::Input;
use notes::Notes;
use xml::{Event, Reader};

/// What one document may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, unpacked. What stands behind them is not read.
    pub bytes: u64,
    /// Entries that are kept. Those behind them are counted.
    pub entries: usize,
    /// Bytes of one text: a title, an address, a category. The rest of it is dropped.
    pub text_bytes: usize,
    /// Categories of one entry. The rest is dropped.
    pub categories: usize,
    /// Elements in each other. A deeper document is read up to there.
    pub depth: usize,
    /// Attributes of one element. The rest is dropped.
    pub attributes: usize,
}

impl Default for Limits {
    /// The limits of sitemaps.org (50 MB unpacked, 50,000 URLs) and what no honest feed comes near.
    fn default() -> Limits {
        Limits {
            bytes: 52_428_800,
            entries: 50_000,
            text_bytes: 4096,
            categories: 64,
            depth: 128,
            attributes: 128,
        }
    }
}

/// Which standard a document follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Sitemap,
    SitemapIndex,
    TextSitemap,
    Rss090,
    Rss091,
    /// 0.92, and the drafts 0.93 and 0.94.
    Rss092,
    Rss10,
    /// A successor of 1.0 that few write, among the W3C's own examples.
    Rss11,
    Rss20,
    Atom03,
    Atom10,
    /// 1 and 1.1, which differ in nothing that is read here.
    JsonFeed,
}

impl Format {
    /// The name that people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Format::Sitemap => "sitemap",
            Format::SitemapIndex => "sitemap index",
            Format::TextSitemap => "text sitemap",
            Format::Rss090 => "RSS 0.90",
            Format::Rss091 => "RSS 0.91",
            Format::Rss092 => "RSS 0.92",
            Format::Rss10 => "RSS 1.0",
            Format::Rss11 => "RSS 1.1",
            Format::Rss20 => "RSS 2.0",
            Format::Atom03 => "Atom 0.3",
            Format::Atom10 => "Atom 1.0",
            Format::JsonFeed => "JSON Feed",
        }
    }

    /// Whether it lists a site's pages, or further sitemaps; else it is a feed.
    pub fn is_sitemap(self) -> bool {
        matches!(self, Format::Sitemap | Format::SitemapIndex | Format::TextSitemap)
    }
}

/// What a document announces. Texts are plain: markup taken out, white space collapsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub format: Format,
    /// Of the feed.
    pub title: Option<String>,
    /// In the document's order, doubles included.
    pub entries: Vec<Entry>,
    /// Entries without an address that can be fetched. The first of them stand in `notes`.
    pub refused: u64,
    /// Entries behind the last that was kept.
    pub truncated: u64,
    /// Where a feed that comes in pages goes on (RFC 5005, section 3).
    pub next: Option<WebUrl>,
    /// The first of its pages.
    pub first: Option<WebUrl>,
    /// Where the older entries of an archived feed are (RFC 5005, section 4).
    pub previous_archive: Option<WebUrl>,
    /// Whether the document was read to its end. One that broke off should be asked for again in full.
    pub complete: bool,
    /// What was wrong in it, in order: the first of each kind, of refused entries and dates the first few.
    pub notes: Vec<Note>,
    /// Problems beyond those in `notes`.
    pub notes_left_out: u64,
}

/// A page (or, of a sitemap index, a further sitemap) that a document announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Resolved against `xml:base` or the document's address.
    pub url: WebUrl,
    /// What the feed calls it by, for as long as it stands.
    pub id: Option<String>,
    pub title: Option<String>,
    pub published: Option<Date>,
    /// When it changed last: a sitemap's `lastmod` among others.
    pub updated: Option<Date>,
    pub categories: Vec<String>,
}

/// Why bytes are no document at all. `Display` completes a sentence that begins with "the document".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedError {
    /// Nothing but white space.
    Empty,
    /// A page for people, with its title: a login, an error, a site that moved.
    Html { title: Option<String> },
    /// Well-known bytes, or XML or JSON, of another kind.
    NotAFeed { what: String },
    /// It ends, or ceases to make sense, before it says what it is.
    Broken(Note),
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedError::Empty => f.write_str("is empty"),
            FeedError::Html { title: None } => f.write_str("is an HTML page, not a feed or a sitemap"),
            FeedError::Html { title: Some(title) } => {
                write!(f, "is an HTML page (\"{title}\"), not a feed or a sitemap")
            }
            FeedError::NotAFeed { what } => write!(f, "is {what}, not a feed or a sitemap"),
            FeedError::Broken(note) => write!(f, "breaks before it says what it is: {note}"),
        }
    }
}

impl std::error::Error for FeedError {}

/// Reads a sitemap or a feed that was found at `document`.
///
/// `charset` is what the transport said (the parameter of `Content-Type`), if anything; a byte order mark outranks it, and it
/// outranks the XML declaration (RFC 7303, section 3). A reader that fails, or gzip that does, ends the document there: a note
/// says so, and `complete` is false.
pub fn read<'r>(
    bytes: impl Read + 'r,
    document: &WebUrl,
    charset: Option<&str>,
    limits: &Limits,
) -> Result<Document, FeedError> {
    let mut notes = Notes::default();
    let mut input = Input::open(Box::new(bytes), charset, limits.bytes);
    let begins = input.begin(&mut notes)?;
    match begins {
        input::Begins::Json => json::read(input, document, limits, notes),
        input::Begins::Text => sitemap::read_text(input, limits, notes),
        input::Begins::Markup => read_xml(Reader::new(input, document, limits, notes), limits),
    }
}

/// The first element says which standard it is.
fn read_xml(mut reader: Reader<'_>, limits: &Limits) -> Result<Document, FeedError> {
    loop {
        match reader.next() {
            Event::Start => break,
            // Between declaration and root stands nothing that counts.
            Event::Text | Event::End => {}
            Event::Done => {
                let (notes, place) = reader.finish();
                let note = notes.first_break().unwrap_or(Note::at(place, Problem::NoElement));
                return Err(FeedError::Broken(note));
            }
        }
    }
    let tag = reader.tag();
    let local = tag.local().to_ascii_lowercase();
    match local.as_str() {
        "urlset" => Ok(sitemap::read(reader, Format::Sitemap, limits)),
        "sitemapindex" => Ok(sitemap::read(reader, Format::SitemapIndex, limits)),
        "html" => Err(FeedError::Html { title: html_title(reader) }),
        _ => match feed::format_of(tag) {
            Some(format) => Ok(feed::read(reader, format, limits)),
            None => Err(FeedError::NotAFeed { what: format!("XML with the root <{}>", tag.name()) }),
        },
    }
}

/// The title of an XHTML page, which comes early if at all.
fn html_title(mut reader: Reader<'_>) -> Option<String> {
    let mut title = String::new();
    let mut is_inside = false;
    loop {
        match reader.next() {
            Event::Start if reader.tag().local().eq_ignore_ascii_case("title") => is_inside = true,
            Event::Start if reader.tag().local().eq_ignore_ascii_case("body") => return None,
            Event::Start => {}
            Event::Text if is_inside => {
                notes::push_bounded(&mut title, reader.text(), notes::SHOWN_BYTES_MAX);
            }
            Event::Text => {}
            Event::End if is_inside => {
                return Some(names::collapsed(&title)).filter(|title| !title.is_empty());
            }
            Event::End => {}
            Event::Done => return None,
        }
    }
}
