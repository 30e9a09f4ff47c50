//! Start and end tags and their attributes.
//!
//! A second attribute of the same name is dropped: each name remembers the number of the last tag that had it, so the
//! check costs the same for half a million attributes as for one.

use memchr::{memchr, memchr2};

use super::{is_space, skip_space};
use crate::html::dom::AttributeRow;
use crate::html::dom::names::NameId;
use crate::html::tree::{Parser, Tag};

/// Ends a tag name: white space, `/`, `>`.
const TAG_END: u8 = 1;
/// Ends an attribute name: as a tag name, and `=`.
const ATTRIBUTE_END: u8 = 2;
/// Must be changed before the name is looked up: capitals and NUL.
const FOLD: u8 = 4;
/// Ends an unquoted value, or must be looked at there: white space, `>`, `&`.
const VALUE_STOP: u8 = 8;

static CLASS: [u8; 256] = {
    let mut table = [0_u8; 256];
    let ends = [b' ', b'\n', b'\t', 0x0C, b'\r', b'/', b'>'];
    let mut at = 0;
    while at < ends.len() {
        table[ends[at] as usize] |= TAG_END | ATTRIBUTE_END;
        if ends[at] != b'/' {
            table[ends[at] as usize] |= VALUE_STOP;
        }
        at += 1;
    }
    table[b'=' as usize] |= ATTRIBUTE_END;
    table[b'&' as usize] |= VALUE_STOP;
    table[0] |= FOLD;
    let mut capital = b'A';
    while capital <= b'Z' {
        table[capital as usize] |= FOLD;
        capital += 1;
    }
    table
};

/// Where a tag ended.
struct TagEnd {
    after: usize,
    self_closing: bool,
}

impl Parser<'_> {
    pub(super) fn start_tag_at(&mut self, at: usize) {
        let (name, end) = self.name_at(at + 1, TAG_END);
        let attributes_start = self.builder.attribute_mark();
        let Some(tag_end) = self.attributes_at(end) else {
            self.builder.drop_attributes(attributes_start);
            self.position = self.source.len();
            return;
        };
        self.position = tag_end.after;
        let attributes_end = self.builder.attribute_mark();
        self.start_tag(Tag { name, self_closing: tag_end.self_closing, attributes_start, attributes_end });
    }

    /// `</` with at least one byte after it.
    pub(super) fn end_tag_at(&mut self, at: usize) {
        let bytes = self.source.as_bytes();
        match bytes[at + 2] {
            b'>' => self.position = at + 3,
            first if first.is_ascii_alphabetic() => {
                let (name, end) = self.name_at(at + 2, TAG_END);
                if bytes.get(end) == Some(&b'>') {
                    self.position = end + 1;
                    return self.end_tag(name);
                }
                let mark = self.builder.attribute_mark();
                let tag_end = self.attributes_at(end);
                self.builder.drop_attributes(mark);
                self.position = tag_end.as_ref().map_or(bytes.len(), |tag_end| tag_end.after);
                if tag_end.is_some() {
                    self.end_tag(name);
                }
            }
            _ => self.bogus_comment(at + 2),
        }
    }

    /// Reads and interns a name; gives the position after it.
    #[inline]
    fn name_at(&mut self, start: usize, stop: u8) -> (NameId, usize) {
        let source = self.source;
        let bytes = source.as_bytes();
        let (mut end, mut seen) = (start, 0);
        while end < bytes.len() {
            let class = CLASS[bytes[end] as usize];
            if class & stop != 0 {
                break;
            }
            seen |= class;
            end += 1;
        }
        if seen & FOLD == 0 {
            return (self.builder.names.intern_at(source, start, end), end);
        }
        (self.fold_name(&source[start..end]), end)
    }

    #[cold]
    fn fold_name(&mut self, name: &str) -> NameId {
        self.scratch.clear();
        for character in name.chars() {
            self.scratch.push(if character == '\0' { '\u{FFFD}' } else { character.to_ascii_lowercase() });
        }
        self.builder.names.intern(&self.scratch)
    }

    /// Reads attributes up to the end of the tag; `None` where the page ends first.
    #[inline]
    fn attributes_at(&mut self, mut at: usize) -> Option<TagEnd> {
        let bytes = self.source.as_bytes();
        if bytes.get(at) == Some(&b'>') {
            return Some(TagEnd { after: at + 1, self_closing: false });
        }
        self.epoch += 1;
        loop {
            at = skip_space(bytes, at);
            match bytes.get(at)? {
                b'>' => return Some(TagEnd { after: at + 1, self_closing: false }),
                b'/' => {
                    at += 1;
                    if bytes.get(at) == Some(&b'>') {
                        return Some(TagEnd { after: at + 1, self_closing: true });
                    }
                }
                _ => at = self.attribute_at(at)?,
            }
        }
    }

    /// Reads one attribute; gives the position after it.
    #[inline]
    fn attribute_at(&mut self, start: usize) -> Option<usize> {
        let bytes = self.source.as_bytes();
        // An equals sign in front belongs to the name.
        let (name, end) =
            if bytes[start] == b'=' { self.odd_name_at(start) } else { self.name_at(start, ATTRIBUTE_END) };
        let mut at = end;
        if bytes.get(at).is_some_and(|byte| is_space(*byte)) {
            at = skip_space(bytes, at);
        }
        if *bytes.get(at)? != b'=' {
            self.add_attribute(name, (end as u32, end as u32));
            return Some(at);
        }
        at = skip_space(bytes, at + 1);
        let (value, after) = match *bytes.get(at)? {
            quote @ (b'"' | b'\'') => self.quoted_at(at + 1, quote)?,
            b'>' => ((at as u32, at as u32), at),
            _ => self.unquoted_at(at)?,
        };
        self.add_attribute(name, value);
        Some(after)
    }

    #[cold]
    fn odd_name_at(&mut self, start: usize) -> (NameId, usize) {
        let (_, end) = self.name_at(start + 1, ATTRIBUTE_END);
        let source = self.source;
        (self.fold_name(&source[start..end]), end)
    }

    #[inline]
    fn quoted_at(&mut self, start: usize, quote: u8) -> Option<((u32, u32), usize)> {
        let bytes = self.source.as_bytes();
        let mut end = start + memchr2(quote, b'&', &bytes[start..])?;
        let mut value = (start as u32, end as u32);
        if bytes[end] == b'&' {
            end += memchr(quote, &bytes[end..])?;
            value = self.resolve_references(start, end, true);
        }
        Some((self.replace_nul(value), end + 1))
    }

    fn unquoted_at(&mut self, start: usize) -> Option<((u32, u32), usize)> {
        let bytes = self.source.as_bytes();
        let mut references = false;
        let mut end = start;
        loop {
            match *bytes.get(end)? {
                b'&' => references = true,
                byte if CLASS[byte as usize] & VALUE_STOP != 0 => break,
                _ => {}
            }
            end += 1;
        }
        let value =
            if references { self.resolve_references(start, end, true) } else { (start as u32, end as u32) };
        Some((self.replace_nul(value), end))
    }

    #[inline]
    fn add_attribute(&mut self, name: NameId, (start, end): (u32, u32)) {
        let number = name.0 as usize;
        if number >= self.seen.len() {
            self.seen.resize((number + 1) * 2, 0);
        }
        if self.seen[number] != self.epoch {
            self.seen[number] = self.epoch;
            self.builder.push_attribute(AttributeRow { name, start, end });
        }
    }
}
