//! Quotes that hold more together than somebody meant: what csv-core reads without a word, and RFC 4180 does not have.
//!
//! A stray quote (`5" pipe`) at the beginning of a field opens one that goes on over lines until the next quote, and the URLs
//! of those lines would be gone. It shows by text behind the closing quote, or by lines inside of the field that are records.

/// Letters that tell a URL by its scheme.
const SCHEME_BYTES: usize = 8;

/// Looks at the bytes of one record after the other, beside the reader that makes fields of them.
pub(super) struct QuoteScan {
    delimiter: u8,
    /// In which field the URL stands; none while that is not known.
    url_place: Option<usize>,
    state: State,
    /// The field that is being read, from 0.
    field: usize,
    begun: usize,
    line: usize,
    /// The last line with a letter.
    until: usize,
    before: u8,
    /// The line inside of a quoted field that is being read.
    inner: Option<InnerLine>,
    holds_records: bool,
    /// Field, from 1, and line of the first text behind a closing quote.
    behind: Option<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the beginning of a field.
    Begin,
    /// In one without quotes, where quotes are letters.
    Plain,
    Quoted,
    /// Behind a quote in a quoted field: it closes the field, or another one follows.
    Quote,
    /// Behind the closing quote and spaces.
    Closed,
}

/// A line that begins inside of a quoted field.
#[derive(Default)]
struct InnerLine {
    delimiters: usize,
    /// What the part behind the last delimiter begins with.
    begin: Vec<u8>,
    has_url: bool,
}

impl QuoteScan {
    pub(super) fn new(delimiter: u8) -> QuoteScan {
        QuoteScan {
            delimiter,
            url_place: None,
            state: State::Begin,
            field: 0,
            begun: 1,
            line: 1,
            until: 1,
            before: 0,
            inner: None,
            holds_records: false,
            behind: None,
        }
    }

    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Says in which field the URL stands.
    pub(super) fn url_stands_at(&mut self, place: usize) {
        self.url_place = Some(place);
    }

    /// A record begins on this line.
    pub(super) fn begin(&mut self, line: usize) {
        let url_place = self.url_place;
        *self = QuoteScan { url_place, begun: line, line, until: line, ..QuoteScan::new(self.delimiter) };
    }

    /// The next bytes of the record; `is_whole` where they are all of it.
    pub(super) fn look(&mut self, text: &[u8], is_whole: bool) {
        // Most records have no quotes.
        if is_whole && self.before == 0 && memchr::memchr(b'"', text).is_none() {
            return;
        }
        for byte in text {
            self.byte(*byte);
            self.before = *byte;
        }
    }

    fn byte(&mut self, byte: u8) {
        let is_end = matches!(byte, b'\r' | b'\n');
        if !is_end {
            self.until = self.line;
        }
        match self.state {
            State::Quoted if byte == b'"' => self.state = State::Quote,
            State::Quoted => self.inside(byte),
            State::Quote if byte == b'"' => {
                self.state = State::Quoted;
                self.inside(byte);
            }
            // The end of the record.
            _ if is_end => {}
            _ if byte == self.delimiter => {
                self.state = State::Begin;
                self.field += 1;
            }
            State::Begin if byte == b'"' => {
                self.state = State::Quoted;
                self.inner = None;
            }
            State::Begin => self.state = State::Plain,
            State::Quote | State::Closed if matches!(byte, b' ' | b'\t') => self.state = State::Closed,
            State::Quote | State::Closed => {
                self.behind.get_or_insert((self.field + 1, self.line));
                self.state = State::Plain;
            }
            State::Plain => {}
        }
    }

    /// A byte of a quoted field.
    fn inside(&mut self, byte: u8) {
        if matches!(byte, b'\r' | b'\n') {
            self.line += usize::from(byte == b'\r' || self.before != b'\r');
            self.inner = Some(InnerLine::default());
            return;
        }
        let Some(inner) = &mut self.inner else { return };
        if byte == self.delimiter {
            inner.delimiters += 1;
            inner.begin.clear();
        } else if inner.begin.len() < SCHEME_BYTES && !(inner.begin.is_empty() && byte == b' ') {
            inner.begin.push(byte.to_ascii_lowercase());
            let is_place = self.url_place.is_none_or(|place| place == inner.delimiters);
            let is_url = inner.begin.starts_with(b"http://") || inner.begin.starts_with(b"https://");
            inner.has_url |= is_place && is_url;
        }
        // A URL alone on its line may well be part of a note.
        self.holds_records |= inner.has_url && inner.delimiters > 0;
    }

    /// What is wrong with the quotes of the record that was looked at.
    pub(super) fn wrong(&self) -> Option<String> {
        if self.holds_records {
            return Some(format!(
                "has a quote that is not closed: it holds lines {} to {} together",
                self.begun, self.until
            ));
        }
        let (field, line) = self.behind?;
        Some(format!("has text behind the closing quote of column {field}, on line {line}"))
    }
}
