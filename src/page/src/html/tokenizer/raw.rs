//! Content that is text alone: RCDATA, RAWTEXT, script data, PLAINTEXT.

use memchr::{memchr, memchr2};

use super::{TextMode, is_space};
use crate::html::dom::names::NameId;
use crate::html::tree::Parser;

impl Parser<'_> {
    /// Reads the text up to the element's end tag (or the end of the page), then that tag.
    pub(super) fn raw_text(&mut self) {
        let start = self.position;
        let found = match self.raw {
            _ if self.raw_name == NameId::NONE => None,
            TextMode::Plaintext => None,
            TextMode::Script => self.script_end(start),
            _ => self.raw_end(start),
        };
        let end = found.unwrap_or(self.source.len());
        let range = if self.raw == TextMode::Rcdata {
            self.resolve_references(start, end, false)
        } else {
            (start as u32, end as u32)
        };
        let (from, to) = self.replace_nul(range);
        self.text(from, to, false);
        self.position = end;
        if found.is_some() {
            self.raw = TextMode::Data;
            self.end_tag_at(end);
        }
    }

    /// The next end tag of the element that is read as text.
    fn raw_end(&self, mut from: usize) -> Option<usize> {
        let bytes = self.source.as_bytes();
        let name = self.builder.names.text(self.raw_name).as_bytes();
        loop {
            let at = from + memchr(b'<', &bytes[from..])?;
            if bytes.get(at + 1) == Some(&b'/') && names_element(&bytes[at + 2..], name) {
                return Some(at);
            }
            from = at + 1;
        }
    }

    /// The end tag of a script: inside `<!-- … -->`, a `<script>` hides the end tag that closes it.
    fn script_end(&self, mut from: usize) -> Option<usize> {
        let bytes = self.source.as_bytes();
        let (mut escaped, mut nested) = (false, false);
        loop {
            let rest = &bytes[from..];
            let at = from + if escaped { memchr2(b'<', b'-', rest)? } else { memchr(b'<', rest)? };
            from = at + 1;
            let tail = &bytes[at..];
            if tail[0] == b'-' {
                if tail.starts_with(b"-->") {
                    (escaped, nested) = (false, false);
                }
            } else if tail.get(1) == Some(&b'/') {
                if names_element(&tail[2..], b"script") {
                    if !nested {
                        return Some(at);
                    }
                    nested = false;
                }
            } else if !escaped && tail.starts_with(b"<!--") {
                escaped = true;
                // The dashes that open may also close: `<!-->`.
                from = at + 2;
            } else if escaped && !nested && names_element(&tail[1..], b"script") {
                nested = true;
            }
        }
    }
}

/// Whether `input` starts with this name (lower case) as a tag would have it.
fn names_element(input: &[u8], name: &[u8]) -> bool {
    let Some(end) = input.get(name.len()) else { return false };
    (is_space(*end) || matches!(end, b'/' | b'>')) && input[..name.len()].eq_ignore_ascii_case(name)
}
