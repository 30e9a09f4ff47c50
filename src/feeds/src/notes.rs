//! What was wrong in a document, and where.

use std::fmt;
use std::mem::{Discriminant, discriminant};

use base::web::UrlError;

/// How much of a document's own text a note repeats, in bytes.
pub(crate) const SHOWN_BYTES_MAX: usize = 120;
/// Refused entries, and dates that are none, of which each has its note.
const EACH_MAX: usize = 20;

/// A place in the unpacked and decoded text: line and column (in characters), both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// Something wrong, with its place in the unpacked and decoded text: line and column (in characters), both from 1. Of an item
/// of a JSON feed there is no place: its line is 0, and its column its number from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub line: u64,
    pub column: u64,
    pub problem: Problem,
}

impl Note {
    pub(crate) fn at(place: Place, problem: Problem) -> Note {
        Note { line: place.line, column: place.column, problem }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "item {}: {}", self.column, self.problem),
            line => write!(f, "line {line}, column {}: {}", self.column, self.problem),
        }
    }
}

/// What can be wrong in a document that is read all the same. Texts of the document are cut to a length that can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// An entry's address cannot be fetched.
    BadUrl {
        text: String,
        reason: UrlError,
    },
    /// An entry has no address.
    NoUrl,
    BadDate {
        text: String,
    },
    /// `&name;` that neither XML nor HTML knows; it was left as it is.
    UnknownReference {
        name: String,
    },
    /// An ampersand that should be `&amp;`.
    BareAmpersand,
    /// A `<` that should be `&lt;`.
    BareLessThan,
    /// A prefix without its `xmlns`; one that everybody uses is taken as everybody means it.
    UndeclaredPrefix {
        prefix: String,
    },
    /// Bytes that the encoding does not have; such of UTF-8 were read as windows-1252.
    WrongEncoding {
        encoding: &'static str,
    },
    /// Text before the document, such as a warning of the program that made it.
    LeadingText,
    /// An element that something else ended.
    Unclosed {
        name: String,
    },
    /// An end tag without its element.
    StrayEnd {
        name: String,
    },
    /// A tag that ends in another one, or with the text.
    BrokenTag {
        name: String,
    },
    /// More than the reader keeps of one element: attributes, names of namespaces.
    Crowded,
    TooDeep {
        limit: usize,
    },
    TooLong {
        limit: u64,
    },
    /// The bytes could not be read, or unpacked, any further.
    Cut {
        reason: String,
    },
    /// The document ends within an element.
    EndsInside {
        name: String,
    },
    /// Where JSON ceases to be JSON.
    BrokenJson {
        reason: String,
    },
    NoElement,
}

impl Problem {
    /// Whether what stands behind it was not read.
    fn ends(&self) -> bool {
        matches!(
            self,
            Problem::TooDeep { .. }
                | Problem::TooLong { .. }
                | Problem::Cut { .. }
                | Problem::EndsInside { .. }
                | Problem::BrokenJson { .. }
        )
    }

    /// How many of its kind have a note.
    fn notes_max(&self) -> usize {
        match self {
            Problem::BadUrl { .. } | Problem::NoUrl | Problem::BadDate { .. } => EACH_MAX,
            _ => 1,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::BadUrl { text, reason } => write!(f, "the URL {text:?} {reason}"),
            Problem::NoUrl => f.write_str("the entry has no link"),
            Problem::BadDate { text } => write!(f, "{text:?} is not a date"),
            Problem::UnknownReference { name } => write!(f, "&{name}; stands for nothing"),
            Problem::BareAmpersand => f.write_str("an ampersand that is not written &amp;"),
            Problem::BareLessThan => f.write_str("a < that is not written &lt;"),
            Problem::UndeclaredPrefix { prefix } => write!(f, "the prefix {prefix} is not declared"),
            Problem::WrongEncoding { encoding } => write!(f, "bytes that are not {encoding}"),
            Problem::LeadingText => f.write_str("text before the document"),
            Problem::Unclosed { name } => write!(f, "<{name}> is not closed"),
            Problem::StrayEnd { name } => write!(f, "</{name}> closes nothing"),
            Problem::BrokenTag { name } => write!(f, "the tag <{name}> does not end"),
            Problem::Crowded => f.write_str("an element with too many attributes or namespaces"),
            Problem::TooDeep { limit } => write!(f, "more than {limit} elements in each other"),
            Problem::TooLong { limit } => write!(f, "more than {limit} bytes"),
            Problem::Cut { reason } => write!(f, "the bytes break off: {reason}"),
            Problem::EndsInside { name } => write!(f, "the document ends inside <{name}>"),
            Problem::BrokenJson { reason } => write!(f, "not JSON: {reason}"),
            Problem::NoElement => f.write_str("there is no element"),
        }
    }
}

/// The notes of one document, bounded by kind.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) list: Vec<Note>,
    pub(crate) left_out: u64,
    /// How many of each kind are in the list.
    counts: Vec<(Discriminant<Problem>, usize)>,
}

impl Notes {
    pub(crate) fn add(&mut self, place: Place, problem: Problem) {
        let kind = discriminant(&problem);
        let at = self.counts.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.counts.push((kind, 0));
            self.counts.len() - 1
        });
        if self.counts[at].1 < problem.notes_max() {
            self.counts[at].1 += 1;
            self.list.push(Note::at(place, problem));
        } else {
            self.left_out += 1;
        }
    }

    /// Where the document broke off, if it did.
    pub(crate) fn first_break(&self) -> Option<Note> {
        self.list.iter().find(|note| note.problem.ends()).cloned()
    }
}

/// Appends what fits into `bytes_max`.
pub(crate) fn push_bounded(into: &mut String, text: &str, bytes_max: usize) {
    let room = bytes_max.saturating_sub(into.len());
    into.push_str(&text[..text.floor_char_boundary(room)]);
}

/// As much of a text as a note repeats.
pub(crate) fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned()
}
