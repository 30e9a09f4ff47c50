//! Bytes to text, a window at a time: gzip, the bound on what is read, the encoding, and the place in the text.
//!
//! Encodings as RFC 7303 has them: byte order mark, transport, declaration, UTF-8. What calls itself UTF-16 without a NUL is
//! not. Bytes that are not UTF-8 where UTF-8 is due are read as windows-1252, one by one, because that is what they are when
//! an editor pasted them in.

use std::io::{Cursor, ErrorKind, Read};

use encoding_rs::{Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use flate2::read::MultiGzDecoder;

use crate::FeedError;
use crate::names::collapsed;
use crate::notes::{Notes, Place, Problem, shown};

const CHUNK_BYTES: usize = 16 * 1024;
/// Where magic bytes and the encoding's declaration are looked for.
const HEAD_BYTES: usize = 256;
/// How much of what is no document is looked at, for a title or for a document behind it.
const STRANGE_BYTES: usize = 4 * 1024;
/// What tells a page from a document, and an address from other text.
const BEGIN_BYTES: usize = 32;

/// What the text begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    Markup,
    Json,
    Text,
}

enum Form {
    Utf8,
    Other(Decoder, &'static Encoding),
}

/// The text of a document, of which a window is in memory.
pub(crate) struct Input<'r> {
    bytes: Box<dyn Read + 'r>,
    chunk: Box<[u8]>,
    form: Form,
    /// What the bytes are, where they are well known and no text.
    other: Option<&'static str>,
    /// Bytes read and not decoded: the document's first, or the beginning of a character.
    ahead: Vec<u8>,
    text: String,
    at: usize,
    place: Place,
    /// Bytes that may still be read.
    left: u64,
    limit: u64,
    ended: bool,
    is_flushed: bool,
    /// What ended it before its end, and whether bytes were not of their encoding, where the notes have not got it yet.
    broke: Option<Problem>,
    wrong: Option<Place>,
}

impl<'r> Input<'r> {
    pub(crate) fn open(bytes: Box<dyn Read + 'r>, charset: Option<&str>, limit: u64) -> Input<'r> {
        let mut input = Input {
            bytes,
            chunk: vec![0; CHUNK_BYTES].into(),
            form: Form::Utf8,
            other: None,
            ahead: Vec::new(),
            text: String::new(),
            at: 0,
            place: Place { line: 1, column: 1 },
            left: limit,
            limit,
            ended: false,
            is_flushed: false,
            broke: None,
            wrong: None,
        };
        input.read_head();
        if input.ahead.starts_with(b"\x1f\x8b") {
            let head = std::mem::take(&mut input.ahead);
            let packed = std::mem::replace(&mut input.bytes, Box::new(std::io::empty()));
            input.bytes = Box::new(MultiGzDecoder::new(Cursor::new(head).chain(packed)));
            // What broke in the packed head breaks again where it is unpacked, as an early end.
            (input.left, input.ended, input.broke) = (limit, false, None);
            input.read_head();
        }
        input.choose(charset);
        input
    }

    fn read_head(&mut self) {
        while self.ahead.len() < HEAD_BYTES && !self.ended {
            let read = self.read_chunk();
            self.ahead.extend_from_slice(&self.chunk[..read]);
        }
    }

    /// Reads into the chunk; 0 at the end.
    fn read_chunk(&mut self) -> usize {
        loop {
            // One more than is allowed, to tell a document that ends here from one that goes on.
            let room = usize::try_from(self.left + 1).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            match self.bytes.read(&mut self.chunk[..room]) {
                Ok(0) => self.ended = true,
                Ok(read) if read as u64 > self.left => {
                    self.broke = Some(Problem::TooLong { limit: self.limit });
                    self.ended = true;
                    let read = self.left as usize;
                    self.left = 0;
                    return read;
                }
                Ok(read) => {
                    self.left -= read as u64;
                    return read;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broke = Some(Problem::Cut { reason: shown(&error.to_string()) });
                    self.ended = true;
                }
            }
            return 0;
        }
    }

    fn choose(&mut self, charset: Option<&str>) {
        self.other = known_bytes(&self.ahead);
        let (encoding, mark) = match Encoding::for_bom(&self.ahead) {
            Some(found) => found,
            None => (encoding_without_mark(&self.ahead, charset), 0),
        };
        self.ahead.drain(..mark);
        if encoding != UTF_8 {
            self.form = Form::Other(encoding.new_decoder_without_bom_handling(), encoding);
        }
    }

    /// What the document is, from its first characters; stands on the first that counts afterwards.
    pub(crate) fn begin(&mut self, notes: &mut Notes) -> Result<Begins, FeedError> {
        if let Some(what) = self.other {
            return Err(FeedError::NotAFeed { what: what.to_owned() });
        }
        loop {
            let blank = self.rest().len() - self.rest().trim_start_matches(is_blank).len();
            self.advance(blank);
            if !self.rest().is_empty() {
                break;
            }
            if !self.fill() {
                self.settle(notes);
                return Err(match notes.first_break() {
                    Some(note) => FeedError::Broken(note),
                    None => FeedError::Empty,
                });
            }
        }
        self.need(BEGIN_BYTES);
        match self.rest().as_bytes()[0] {
            b'<' if is_html(self.rest()) => {
                self.need(STRANGE_BYTES);
                Err(FeedError::Html { title: title_of(self.strange()) })
            }
            b'<' if is_warning(self.rest()) => {
                self.begin_behind_text(notes).ok_or(FeedError::Html { title: None })
            }
            b'<' => Ok(Begins::Markup),
            b'{' | b'[' => Ok(Begins::Json),
            _ => self.begin_in_text(notes),
        }
    }

    /// As much of the beginning as is looked at where it is no document's.
    fn strange(&self) -> &str {
        &self.rest()[..self.rest().floor_char_boundary(STRANGE_BYTES)]
    }

    /// Plain text: addresses, or what a broken program wrote before its XML.
    fn begin_in_text(&mut self, notes: &mut Notes) -> Result<Begins, FeedError> {
        let head = self.rest();
        let starts = |word: &str| head.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
        if starts("http://") || starts("https://") {
            return Ok(Begins::Text);
        }
        if let Some(begins) = self.begin_behind_text(notes) {
            return Ok(begins);
        }
        let is_binary = self.strange().bytes().any(|byte| byte < 9);
        let what = if is_binary { "binary data" } else { "plain text that is no list of URLs" };
        Err(FeedError::NotAFeed { what: what.to_owned() })
    }

    /// Steps over what stands before the first thing that begins a document; nothing where none comes soon.
    fn begin_behind_text(&mut self, notes: &mut Notes) -> Option<Begins> {
        self.need(STRANGE_BYTES);
        let head = self.strange();
        let starts = ["<?xml", "<rss", "<feed", "<urlset", "<sitemapindex", "<rdf:RDF"];
        let skipped = starts.iter().filter_map(|word| head.find(word)).min()?;
        notes.add(self.place, Problem::LeadingText);
        self.advance(skipped);
        Some(Begins::Markup)
    }

    /// What is in memory and not yet taken.
    pub(crate) fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Takes `bytes` of the rest, which must end on a character.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let taken = &self.text[self.at..self.at + bytes];
        match memchr::memrchr(b'\n', taken.as_bytes()) {
            Some(last) => {
                self.place.line += memchr::memchr_iter(b'\n', taken.as_bytes()).count() as u64;
                self.place.column = 1 + taken[last + 1..].chars().count() as u64;
            }
            None => self.place.column += taken.chars().count() as u64,
        }
        self.at += bytes;
    }

    /// Decodes some more; false at the end.
    pub(crate) fn fill(&mut self) -> bool {
        self.text.drain(..self.at);
        self.at = 0;
        let before = self.text.len();
        while self.text.len() == before {
            if self.ended && self.ahead.is_empty() {
                return self.flush();
            }
            if !self.ended {
                let read = self.read_chunk();
                self.ahead.extend_from_slice(&self.chunk[..read]);
            }
            self.decode();
        }
        true
    }

    /// The last of a decoder: half a character becomes U+FFFD.
    fn flush(&mut self) -> bool {
        let Form::Other(decoder, _) = &mut self.form else { return false };
        if std::mem::replace(&mut self.is_flushed, true) {
            return false;
        }
        let before = self.text.len();
        self.text.reserve(16);
        let (_, _, had_errors) = decoder.decode_to_string(&[], &mut self.text, true);
        self.wrong = self.wrong.or(had_errors.then_some(self.place));
        self.text.len() > before
    }

    fn decode(&mut self) {
        let malformed = match &mut self.form {
            Form::Other(decoder, _) => {
                let room = decoder.max_utf8_buffer_length(self.ahead.len()).unwrap_or(CHUNK_BYTES * 4);
                self.text.reserve(room);
                let before = self.text.len();
                let (_, _, had_errors) = decoder.decode_to_string(&self.ahead, &mut self.text, false);
                self.ahead.clear();
                had_errors.then(|| before + self.text[before..].find('\u{FFFD}').unwrap_or(0))
            }
            Form::Utf8 => {
                let before = self.text.len();
                let (used, first) = decode_utf8(&self.ahead, self.ended, &mut self.text);
                self.ahead.drain(..used);
                first.map(|at| before + at)
            }
        };
        if let Some(at) = malformed.filter(|_| self.wrong.is_none()) {
            let place = self.place;
            let kept = self.at;
            // Where the reading will be when it comes to it.
            self.advance(at - kept);
            self.wrong = Some(self.place);
            (self.place, self.at) = (place, kept);
        }
    }

    /// Makes `bytes` be in memory, or all that there are.
    pub(crate) fn need(&mut self, bytes: usize) {
        while self.rest().len() < bytes && self.fill() {}
    }

    pub(crate) fn peek(&mut self) -> Option<u8> {
        if self.rest().is_empty() && !self.fill() {
            return None;
        }
        self.rest().bytes().next()
    }

    /// Takes everything up to a byte (of ASCII) at which `stops`, and keeps `bytes_max` of it.
    pub(crate) fn take_until(&mut self, stops: impl Fn(u8) -> bool, into: &mut String, bytes_max: usize) {
        loop {
            let rest = &self.text[self.at..];
            let end = rest.bytes().position(&stops);
            let length = end.unwrap_or(rest.len());
            crate::notes::push_bounded(into, &rest[..length], bytes_max);
            self.advance(length);
            if end.is_some() || !self.fill() {
                return;
            }
        }
    }

    /// Takes everything up to and with a pattern of ASCII; false where it does not come.
    pub(crate) fn skip_past(&mut self, pattern: &str) -> bool {
        loop {
            if let Some(found) = memchr::memmem::find(self.rest().as_bytes(), pattern.as_bytes()) {
                self.advance(found + pattern.len());
                return true;
            }
            // Its beginning may stand at the end of the window.
            let kept = self.rest().len().saturating_sub(pattern.len() - 1);
            self.advance(self.rest().floor_char_boundary(kept));
            if !self.fill() {
                self.advance(self.rest().len());
                return false;
            }
        }
    }

    /// Bytes of memory in use.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.chunk.len() + self.ahead.capacity() + self.text.capacity()
    }

    /// Tells the notes what the bytes did; for the end.
    pub(crate) fn settle(&mut self, notes: &mut Notes) {
        if let Some(place) = self.wrong.take() {
            let encoding = match &self.form {
                Form::Utf8 => UTF_8.name(),
                Form::Other(_, encoding) => encoding.name(),
            };
            notes.add(place, Problem::WrongEncoding { encoding });
        }
        if let Some(problem) = self.broke.take() {
            notes.add(self.place, problem);
        }
    }
}

/// The text as UTF-8, for who reads bytes and keeps count of lines himself.
impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest().is_empty() && !self.fill() {
            return Ok(0);
        }
        let rest = &self.text[self.at..];
        // Whole characters only: the buffer of a `BufReader` has room for one.
        let length = rest.floor_char_boundary(buffer.len());
        buffer[..length].copy_from_slice(&rest.as_bytes()[..length]);
        self.at += length;
        Ok(length)
    }
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{FEFF}'
}

/// Decodes UTF-8; gives how many bytes were used (all but the beginning of a character, if more may come) and where in the
/// new text the first byte of another encoding came to stand.
fn decode_utf8(bytes: &[u8], is_last: bool, text: &mut String) -> (usize, Option<usize>) {
    let (mut used, mut first) = (0, None);
    let before = text.len();
    while used < bytes.len() {
        let (valid, wrong) = match std::str::from_utf8(&bytes[used..]) {
            Ok(valid) => (valid, 0),
            Err(error) => {
                let valid = &bytes[used..used + error.valid_up_to()];
                let wrong = match error.error_len() {
                    Some(length) => length,
                    None if is_last => bytes.len() - used - valid.len(),
                    None => 0,
                };
                (std::str::from_utf8(valid).unwrap_or_default(), wrong)
            }
        };
        text.push_str(valid);
        used += valid.len();
        if wrong == 0 {
            break;
        }
        first = first.or(Some(text.len() - before));
        let (as_1252, _) = WINDOWS_1252.decode_without_bom_handling(&bytes[used..used + wrong]);
        text.push_str(&as_1252);
        used += wrong;
    }
    (used, first)
}

fn encoding_without_mark(head: &[u8], charset: Option<&str>) -> &'static Encoding {
    let told = charset.map(|label| label.trim().trim_matches(['"', '\''])).and_then(by_label);
    if head.starts_with(b"<\0") {
        return UTF_16LE;
    }
    if head.starts_with(b"\0<") {
        return UTF_16BE;
    }
    let has_nul = memchr::memchr(0, &head[..head.len().min(64)]).is_some();
    let found = told.or_else(|| by_label(&declared(head)?)).unwrap_or(UTF_8);
    // A program that keeps its texts in UTF-16 declares what it holds and writes UTF-8.
    if (found == UTF_16LE || found == UTF_16BE) && !has_nul { UTF_8 } else { found }
}

fn by_label(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label(label.as_bytes())
}

/// The encoding that an XML declaration names: `<?xml version="1.0" encoding="iso-8859-1"?>`.
fn declared(head: &[u8]) -> Option<String> {
    let start = head.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let rest = head[start..].strip_prefix(b"<?xml")?;
    let declaration = &rest[..memchr::memchr(b'>', rest)?];
    let at = memchr::memmem::find(declaration, b"encoding")? + "encoding".len();
    let value = declaration[at..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (quote, value) = value.split_first()?;
    let end = memchr::memchr(*quote, value)?;
    String::from_utf8(value[..end].to_vec()).ok()
}

/// Files that one is given by mistake, by their first bytes.
fn known_bytes(head: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 13] = [
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x89PNG", "a PNG image"),
        (b"GIF8", "a GIF image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"\x1f\x8b", "gzip in gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"BZh", "bzip2 data"),
        // Before UTF-16, whose mark is the beginning of this one.
        (b"\xff\xfe\0\0", "text in UTF-32"),
        (b"<\0\0\0", "text in UTF-32"),
        (b"\0\0\0<", "text in UTF-32"),
        (b"\0\0\xfe\xff", "text in UTF-32"),
        (b"\x4c\x6f\xa7\x94", "text in EBCDIC"),
    ];
    kinds.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| what)
}

/// Whether PHP says what it did not like, in HTML.
fn is_warning(head: &str) -> bool {
    head.starts_with("<br />") || head.starts_with("<br>") || head.starts_with("<b>")
}

fn is_html(head: &str) -> bool {
    let head = head.as_bytes();
    let starts = |word: &[u8]| head.len() >= word.len() && head[..word.len()].eq_ignore_ascii_case(word);
    starts(b"<!doctype html") || starts(b"<html") || starts(b"<head") || starts(b"<body")
}

/// The title of a page of HTML, if it stands at its beginning.
fn title_of(head: &str) -> Option<String> {
    let lower = head.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    Some(shown(&collapsed(&head[start..end]))).filter(|title| !title.is_empty())
}
