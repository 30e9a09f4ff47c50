//! The variables of a path, as a look-up found them.

use std::borrow::Cow;

/// Variables of a path at most.
pub(crate) const VARIABLES_MAX: usize = 4;

/// The byte ranges of a path that its variables matched, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Captures {
    ranges: [(u32, u32); VARIABLES_MAX],
    len: usize,
}

impl Captures {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds the bytes from `start` to `end`; whether they can stand in a path.
    pub(crate) fn push(&mut self, start: usize, end: usize) -> Option<()> {
        *self.ranges.get_mut(self.len)? = (u32::try_from(start).ok()?, u32::try_from(end).ok()?);
        self.len += 1;
        Some(())
    }

    /// Forgets all behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Variable number `index` of `path`, percent-decoded.
    pub(crate) fn get<'a>(&self, path: &'a str, index: usize) -> Option<Cow<'a, str>> {
        let (start, end) = *self.ranges.get(..self.len)?.get(index)?;
        decode(path.get(start as usize..end as usize)?)
    }
}

/// Percent-decodes one segment (RFC 3986, 2.1); nothing when the escapes or the UTF-8 are broken.
pub(crate) fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let (pair, tail) = tail.split_at_checked(2)?;
            let hex = |digit: u8| (digit as char).to_digit(16);
            bytes.push(u8::try_from(hex(pair[0])? * 16 + hex(pair[1])?).ok()?);
            rest = tail;
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
