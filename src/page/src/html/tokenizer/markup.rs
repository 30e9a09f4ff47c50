//! Comments, CDATA sections and processing instructions.

use memchr::{memchr, memmem};

use super::is_space;
use crate::html::tree::Parser;

impl Parser<'_> {
    /// `<!`: a comment, a doctype, a CDATA section where the current node is foreign, or a bogus comment.
    pub(super) fn declaration_at(&mut self, at: usize) {
        let rest = &self.source.as_bytes()[at + 2..];
        if rest.starts_with(b"--") {
            self.comment_at(at + 4);
        } else if rest.len() >= 7 && rest[..7].eq_ignore_ascii_case(b"doctype") {
            self.doctype_at(at + 9);
        } else if rest.starts_with(b"[CDATA[") && self.is_foreign() {
            self.cdata_at(at + 9);
        } else {
            self.bogus_comment(at + 2);
        }
    }

    /// What follows `<!--`.
    fn comment_at(&mut self, start: usize) {
        let (end, after) = comment_end(&self.source.as_bytes()[start..]);
        self.position = start + after;
        let (from, to) = self.replace_nul((start as u32, (start + end) as u32));
        self.comment(from, to);
    }

    /// Everything up to the next `>` as a comment.
    pub(super) fn bogus_comment(&mut self, start: usize) {
        let bytes = self.source.as_bytes();
        let end = memchr(b'>', &bytes[start..]).map_or(bytes.len(), |offset| start + offset);
        self.position = (end + 1).min(bytes.len());
        let (from, to) = self.replace_nul((start as u32, end as u32));
        self.comment(from, to);
    }

    fn cdata_at(&mut self, start: usize) {
        let bytes = self.source.as_bytes();
        let found = memmem::find(&bytes[start..], b"]]>").map(|offset| start + offset);
        let end = found.unwrap_or(bytes.len());
        self.position = found.map_or(bytes.len(), |end| end + 3);
        self.characters(start as u32, end as u32);
    }

    /// `<?`, as the standard reads it since June 2026: a processing instruction if a proper target follows.
    pub(super) fn processing_instruction_at(&mut self, at: usize) {
        let source = self.source;
        let bytes = source.as_bytes();
        let start = at + 2;
        if start == bytes.len() {
            self.position = start;
            return;
        }
        let is_target = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let length = bytes[start..].iter().take_while(|byte| is_target(byte)).count();
        let target = &source[start..start + length];
        let proper_start = target.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let Some(next) = bytes.get(start + length).copied().filter(|_| proper_start) else {
            if proper_start {
                self.position = bytes.len();
            } else {
                self.bogus_comment(at + 1);
            }
            return;
        };
        let forbidden = target.eq_ignore_ascii_case("xml") || target.eq_ignore_ascii_case("xml-stylesheet");
        if forbidden || !(is_space(next) || matches!(next, b'?' | b'>')) {
            return self.bogus_comment(at + 1);
        }
        let data = super::skip_space(bytes, start + length);
        let Some(offset) = memchr(b'>', &bytes[data..]) else {
            self.position = bytes.len();
            return;
        };
        self.position = data + offset + 1;
        let end = if source[data..data + offset].ends_with('?') { offset - 1 } else { offset };
        let (from, to) = self.replace_nul((data as u32, (data + end) as u32));
        let target = self.builder.names.intern(target);
        self.processing_instruction(target, from, to);
    }
}

/// Where a comment's data ends, and where reading goes on; `rest` is what follows `<!--`.
fn comment_end(rest: &[u8]) -> (usize, usize) {
    if rest.starts_with(b">") {
        return (0, 1);
    }
    if rest.starts_with(b"->") {
        return (0, 2);
    }
    let mut at = 0;
    while let Some(offset) = memchr(b'-', &rest[at..]) {
        let dash = at + offset;
        match &rest[dash + 1..] {
            [b'-', b'>', ..] => return (dash, dash + 3),
            [b'-', b'!', b'>', ..] => return (dash, dash + 4),
            _ => at = dash + 1,
        }
    }
    // At the end of the page an unfinished end of comment is no data.
    let unfinished: &[&[u8]] = &[b"--!", b"--", b"-"];
    let cut = unfinished.iter().find(|cut| rest.ends_with(cut)).map_or(0, |cut| cut.len());
    (rest.len() - cut, rest.len())
}
