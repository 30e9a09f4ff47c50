//! Sitemaps and feeds: broken ones of all kinds, in which nothing may break.
//!
//! Oracles: a text reads alike as UTF-8 and as UTF-16, at once and in pieces; what is kept is within the limits; a document that is
//! cut gives a beginning of the whole one's entries.

use std::io::Read;

use ::feeds::{Document, Entry, FeedError, Format, Limits, read};
use base::web::WebUrl;

use crate::Target;
use page_oracle::soup::Random;

/// How the text is cut short for the last oracle: in parts of 256.
#[derive(Clone, Copy, Debug)]
pub struct How(u8);

pub struct FeedsTarget {
    document: WebUrl,
    limits: Limits,
}

const WORDS: [&str; 78] = [
    "<",
    ">",
    "</",
    "/>",
    "&",
    ";",
    "\"",
    "'",
    "=",
    " ",
    "\n",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "]",
    "<?x",
    "?>",
    "<!DOCTYPE x [",
    "<!ENTITY a 'b'>",
    "&a;",
    "&amp;",
    "&nbsp;",
    "&#65;",
    "&#xD800;",
    "ü",
    "🍵",
    "\u{0}",
    "\u{FFFD}",
    "<rss version='2.0'>",
    "<channel>",
    "</channel>",
    "<item>",
    "</item>",
    "<link>",
    "</link>",
    "<title>",
    "</title>",
    "<guid isPermaLink='false'>",
    "</guid>",
    "<pubDate>",
    "</pubDate>",
    "Fri, 02 Jan 2004 03:04:05 GMT",
    "2004-01-02T03:04:05Z",
    "<category>",
    "</category>",
    "<dc:date>",
    "</dc:date>",
    "http://a.example/1",
    "../2?x=1&y=2",
    "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>",
    "<url>",
    "</url>",
    "<loc>",
    "</loc>",
    "<lastmod>",
    "</lastmod>",
    "<sitemapindex>",
    "<sitemap>",
    "</sitemap>",
    "<feed xmlns='http://www.w3.org/2005/Atom'>",
    "<entry>",
    "</entry>",
    "<link href='/x'/>",
    "<link rel='next' href='y'/>",
    "<title type='html'>",
    "<updated>",
    "</updated>",
    " xmlns:a='urn:b'",
    " xml:base='/c/'",
    "<a:b>",
    "</a:b>",
    "{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[",
    "{\"url\":\"/1\",\"title\":\"x\"}",
    ",",
    "]}",
    "\"tags\":[\"a\"]",
    "\\ud83c",
];
const BEGINNINGS: [&str; 9] = [
    "<rss><channel>",
    "<?xml version='1.0'?><rss version='2.0'><channel><title>t</title><item>",
    "<urlset><url><loc>",
    "<sitemapindex><sitemap>",
    "<feed xmlns='http://www.w3.org/2005/Atom'><entry>",
    "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'><item>",
    "{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[",
    "http://a.example/1\n",
    "",
];

/// Bytes as a slow line brings them.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(buffer.len()).min(self.0.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

impl FeedsTarget {
    pub fn new() -> FeedsTarget {
        let document = WebUrl::parse("https://feeds.example.org/all.xml").expect("an address");
        let limits = Limits {
            entries: 5,
            text_bytes: 40,
            categories: 2,
            depth: 9,
            attributes: 3,
            ..Limits::default()
        };
        FeedsTarget { document, limits }
    }

    fn read(&self, bytes: impl Read, limits: &Limits) -> Result<Document, FeedError> {
        read(bytes, &self.document, None, limits)
    }

    fn hold_limits(&self, bytes: &[u8]) -> Result<(), String> {
        let Ok(found) = self.read(bytes, &self.limits) else { return Ok(()) };
        let within = |entry: &Entry| {
            let texts = [&entry.id, &entry.title].into_iter().flatten().chain(&entry.categories);
            // A title of HTML may be longer than what was written: `&fjlig;` is not, but some names are.
            texts.clone().all(|text| text.len() <= self.limits.text_bytes * 2)
                && entry.categories.len() <= self.limits.categories
        };
        if found.entries.len() > self.limits.entries || !found.entries.iter().all(within) {
            return Err(format!("beyond the limits: {found:?}"));
        }
        if found.entries.len() < self.limits.entries && found.truncated > 0 {
            return Err(format!("truncated before the limit: {found:?}"));
        }
        Ok(())
    }

    /// A document that is cut gives a beginning of the whole one's entries.
    fn hold_beginning(&self, text: &str, whole: &Document, how: How) -> Result<(), String> {
        let end = text.floor_char_boundary(text.len() * usize::from(how.0) / 256);
        let Ok(cut) = self.read(&text.as_bytes()[..end], &Limits::default()) else { return Ok(()) };
        // The end of a text that is left open is looked for only so far: a line may be half of one.
        let sure = cut.entries.len().saturating_sub(usize::from(whole.format == Format::TextSitemap));
        if cut.format == whole.format && cut.entries[..sure] != whole.entries[..sure.min(whole.entries.len())]
        {
            return Err(format!("up to {end}: {:?} is no beginning of {:?}", cut.entries, whole.entries));
        }
        Ok(())
    }
}

impl Target for FeedsTarget {
    type How = How;

    fn generate(&self, random: &mut Random) -> (How, String) {
        let mut text = random.pick(&BEGINNINGS).to_owned();
        for _ in 0..random.below(120) {
            text.push_str(random.pick(&WORDS));
        }
        (How(random.below(256) as u8), text)
    }

    fn check(&self, how: How, text: &str) -> Result<(), String> {
        // The mark of UTF-16 and a NUL are that of UTF-32.
        if text.starts_with('\0') {
            return Ok(());
        }
        // With a mark each, so that both know what they are.
        let marked = format!("\u{FEFF}{text}");
        let wide: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let limits = Limits::default();
        let found = self.read(marked.as_bytes(), &limits);
        for (name, again) in [
            ("as UTF-16", self.read(wide.as_slice(), &limits)),
            ("in pieces of 7", self.read(Pieces(marked.as_bytes(), 7), &limits)),
            ("as UTF-16 in pieces of 3", self.read(Pieces(&wide, 3), &limits)),
        ] {
            if again != found {
                return Err(format!("{name}: {again:?} instead of {found:?}"));
            }
        }
        self.hold_limits(marked.as_bytes())?;
        match &found {
            Ok(whole) => self.hold_beginning(&marked, whole, how),
            Err(_) => Ok(()),
        }
    }

    fn covered(&self) -> String {
        format!("{} beginnings, {} words", BEGINNINGS.len(), WORDS.len())
    }
}
