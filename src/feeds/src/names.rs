//! Namespaces as what they mean, references as what they stand for, and text as people read it.

use base::web::WebUrl;
use page::html::{Document as Page, Namespace as PageNamespace, NodeId, named_character};

/// The namespaces that matter here; others are told apart by a hash, so that nothing is kept of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    None,
    Xml,
    Sitemap,
    Rdf,
    /// RSS 0.90 and 1.0, and what some feeds declare for 2.0.
    Rss090,
    Rss10,
    Rss20,
    Atom03,
    Atom10,
    DublinCore,
    DublinTerms,
    FeedBurner,
    Pheedo,
    /// An extension that is passed over.
    Extension,
    Other(u64),
}

impl Namespace {
    /// By the address that a document declares. Case, `https` and a missing slash at the end are forgiven.
    pub(crate) fn of(uri: &str) -> Namespace {
        let uri = uri.trim().to_ascii_lowercase();
        let bare =
            uri.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches(['/', '#']);
        match bare.trim_start_matches("www.") {
            "" => Namespace::None,
            "w3.org/xml/1998/namespace" => Namespace::Xml,
            "sitemaps.org/schemas/sitemap/0.9"
            | "sitemaps.org/schemas/sitemap/0.84"
            | "google.com/schemas/sitemap/0.84"
            | "google.com/schemas/sitemap/0.9" => Namespace::Sitemap,
            "w3.org/1999/02/22-rdf-syntax-ns" => Namespace::Rdf,
            "my.netscape.com/rdf/simple/0.9" | "channel.netscape.com/rdf/simple/0.9" => Namespace::Rss090,
            "purl.org/rss/1.0" => Namespace::Rss10,
            "backend.userland.com/rss2"
            | "blogs.law.harvard.edu/tech/rss"
            | "cyber.law.harvard.edu/rss/rss.html"
            | "purl.org/net/rss1.1"
            | "my.netscape.com/publish/formats/rss-0.91.dtd" => Namespace::Rss20,
            "purl.org/atom/ns" => Namespace::Atom03,
            "w3.org/2005/atom" => Namespace::Atom10,
            "purl.org/dc/elements/1.1" | "purl.org/dc/elements/1.0" => Namespace::DublinCore,
            "purl.org/dc/terms" => Namespace::DublinTerms,
            "rssnamespace.org/feedburner/ext/1.0" => Namespace::FeedBurner,
            "pheedo.com/namespace/pheedo" => Namespace::Pheedo,
            other => Namespace::Other(hash(other)),
        }
    }

    /// What a prefix means that a document uses and does not declare.
    pub(crate) fn of_usual_prefix(prefix: &str) -> Option<Namespace> {
        Some(match prefix {
            "xml" => Namespace::Xml,
            "rdf" => Namespace::Rdf,
            "rss" => Namespace::Rss10,
            "atom" | "a10" | "atom10" => Namespace::Atom10,
            "dc" => Namespace::DublinCore,
            "dcterms" | "dct" => Namespace::DublinTerms,
            "feedburner" => Namespace::FeedBurner,
            "pheedo" => Namespace::Pheedo,
            "content" | "media" | "image" | "video" | "news" | "xhtml" | "itunes" | "slash" | "wfw"
            | "sy" | "thr" | "georss" | "creativeCommons" => Namespace::Extension,
            _ => return None,
        })
    }

    pub(crate) fn is_atom(self) -> bool {
        matches!(self, Namespace::Atom03 | Namespace::Atom10)
    }
}

/// FNV-1a: tells names apart that nobody means to confuse; who does confuses his own document.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The longest name between `&` and `;` that is looked up.
pub(crate) const REFERENCE_BYTES_MAX: usize = 40;

/// What stands between `&` and `;`, as text: numbers, the five names of XML, the names of HTML. Nothing that a document declares.
pub(crate) fn character(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let point = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        // As browsers do: 128 to 159 are what windows-1252 has there, and what is no character shows that it is none.
        let point = point.ok().filter(|_| !number.starts_with('+'))?;
        return Some(match point {
            0x80..=0x9f => {
                encoding_rs::WINDOWS_1252.decode_without_bom_handling(&[point as u8]).0.into_owned()
            }
            0 => '\u{FFFD}'.to_string(),
            _ => char::from_u32(point).unwrap_or('\u{FFFD}').to_string(),
        });
    }
    match name {
        "apos" => Some("'".to_owned()),
        _ => named_character(name).map(str::to_owned),
    }
}

/// The value of an attribute with its references resolved; what stands for nothing stays as it is.
pub(crate) fn resolved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let window = &rest.as_bytes()[..rest.len().min(REFERENCE_BYTES_MAX)];
        let end = window.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#');
        match end.filter(|end| window[*end] == b';').and_then(|end| Some((end, character(&rest[..end])?))) {
            Some((end, value)) => {
                out.push_str(&value);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

/// Text with white space and control characters collapsed into single spaces, and none at its ends.
pub(crate) fn collapsed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// What people read of a text that may be HTML; nothing where there is nothing to read.
pub(crate) fn plain(text: &str, is_html: bool) -> Option<String> {
    let shown = if is_html && text.contains(['<', '&']) {
        let page = Page::parse_fragment(text.to_owned(), "div", PageNamespace::Html);
        collapsed(page.string_value(NodeId(0)))
    } else {
        collapsed(text)
    };
    Some(shown).filter(|shown| !shown.is_empty())
}

/// An absolute web address, if the text is one.
pub(crate) fn absolute(text: &str) -> Option<WebUrl> {
    WebUrl::parse(text).ok()
}
