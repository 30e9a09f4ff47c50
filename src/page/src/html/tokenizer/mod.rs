//! Tokenization: the WHATWG's section 13.2.5, written as scans instead of a state for each character.
//!
//! Every scan jumps (memchr) to the next byte that can matter and hands ranges of the source to the tree builder. A run of
//! text between two tags is one piece, whatever ampersands and stray `<` it holds; it is copied to the side buffer only if
//! a character reference in it stands for something. The source has its newlines normalized before it gets here.

mod doctype;
mod markup;
mod raw;
mod tag;
#[cfg(test)]
mod tests;

use memchr::{memchr, memchr2};

use super::entities;
use super::tree::Parser;

/// What the tree builder wants read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TextMode {
    /// Ordinary markup.
    Data,
    /// Text with character references, up to the element's end tag.
    Rcdata,
    /// Text up to the element's end tag.
    Rawtext,
    /// As `Rawtext`, with the rules for `<!--` and nested `<script>`.
    Script,
    /// Text up to the end of the page.
    Plaintext,
}

impl Parser<'_> {
    /// Reads the source to its end, or until a budget stops it.
    pub(super) fn run(&mut self) {
        while self.position < self.source.len() && !self.stopped {
            if self.raw == TextMode::Data {
                self.data();
            } else {
                self.raw_text();
            }
            self.check_budget();
        }
    }

    /// A run of text (which may be empty) and the markup after it.
    #[inline]
    fn data(&mut self) {
        let start = self.position;
        let (end, references) = self.find_markup(start);
        if end > start {
            let (from, to) = if references {
                self.resolve_references(start, end, false)
            } else {
                (start as u32, end as u32)
            };
            self.characters(from, to);
        }
        self.position = end;
        if end < self.source.len() {
            self.markup(end);
        }
    }

    /// The next `<` that begins markup, and whether an ampersand comes before it.
    #[inline]
    fn find_markup(&self, start: usize) -> (usize, bool) {
        let bytes = self.source.as_bytes();
        let mut references = false;
        let mut from = start;
        if bytes[start] == b'<' && begins_markup(&bytes[start..]) {
            return (start, false);
        }
        loop {
            let rest = &bytes[from..];
            let found = if references { memchr(b'<', rest) } else { memchr2(b'<', b'&', rest) };
            let Some(offset) = found else { return (bytes.len(), references) };
            let at = from + offset;
            from = at + 1;
            if bytes[at] == b'&' {
                references = true;
            } else if begins_markup(&bytes[at..]) {
                return (at, references);
            }
        }
    }

    #[inline]
    fn markup(&mut self, at: usize) {
        match self.source.as_bytes()[at + 1] {
            b'/' => self.end_tag_at(at),
            b'!' => self.declaration_at(at),
            b'?' => self.processing_instruction_at(at),
            _ => self.start_tag_at(at),
        }
    }

    /// Replaces character references in a range of the source; gives the same range where there is nothing to replace.
    fn resolve_references(&mut self, start: usize, end: usize, in_attribute: bool) -> (u32, u32) {
        let source = self.source;
        let bytes = &source.as_bytes()[..end];
        let side_start = self.builder.side_end();
        let (mut copied, mut at) = (start, start);
        while let Some(offset) = memchr(b'&', &bytes[at..]) {
            let ampersand = at + offset;
            let Some(reference) = entities::read(&bytes[ampersand..], in_attribute) else {
                at = ampersand + 1;
                continue;
            };
            let side = self.builder.side_mut();
            side.push_str(&source[copied..ampersand]);
            reference.value.push_to(side);
            at = ampersand + reference.bytes;
            copied = at;
        }
        if self.builder.side_end() == side_start && copied == start {
            return (start as u32, end as u32);
        }
        self.builder.side_mut().push_str(&source[copied..end]);
        (side_start, self.builder.side_end())
    }

    /// Replaces NULs by U+FFFD, where the standard says so.
    #[inline]
    fn replace_nul(&mut self, (start, end): (u32, u32)) -> (u32, u32) {
        if !self.has_nul || memchr(0, self.builder.text(self.source, start, end).as_bytes()).is_none() {
            return (start, end);
        }
        let replaced = self.builder.text(self.source, start, end).replace('\0', "\u{FFFD}");
        let start = self.builder.side_end();
        self.builder.side_mut().push_str(&replaced);
        (start, self.builder.side_end())
    }
}

/// Whether a `<` begins a tag, a declaration or a processing instruction; otherwise it is text.
#[inline]
fn begins_markup(input: &[u8]) -> bool {
    match input.get(1) {
        Some(b'!' | b'?') => true,
        Some(b'/') => input.len() > 2,
        Some(byte) => byte.is_ascii_alphabetic(),
        None => false,
    }
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\x0C' | b'\r')
}

/// The position of the first byte at or after `at` that is no white space.
#[inline]
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && is_space(bytes[at]) {
        at += 1;
    }
    at
}
