//! Text functions, free of any document.

use std::borrow::Cow;

/// XML's white space, which is XPath's: not the form feed, not the no-break space.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Strips white space at both ends and makes every run of it one space; borrowed where nothing changes.
pub(super) fn normalize_space(text: Cow<'_, str>) -> Cow<'_, str> {
    let needs = |text: &str| {
        let bytes = text.as_bytes();
        let mut before_is_space = true;
        for byte in bytes {
            let space = is_space(*byte);
            if space && (before_is_space || *byte != b' ') {
                return true;
            }
            before_is_space = space;
        }
        before_is_space && !bytes.is_empty()
    };
    let text = match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches(SPACE)),
        owned => owned,
    };
    if !needs(&text) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for word in text.split(SPACE).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    Cow::Owned(out)
}

/// Characters of a text once its white space is normalized.
pub(super) fn normalized_length(text: &str) -> usize {
    let mut length = 0;
    let mut gap = false;
    for byte in text.bytes() {
        if is_space(byte) {
            gap = true;
            continue;
        }
        // Continuation bytes belong to a character that was counted.
        if byte & 0xc0 != 0x80 {
            length += 1 + usize::from(gap && length > 0);
            gap = false;
        }
    }
    length
}

/// Replaces each character of `from` by the one at its place in `to`, or drops it where `to` is shorter.
pub(super) fn translate(text: &str, from: &str, to: &str) -> String {
    if from.is_ascii() && to.is_ascii() {
        return translate_ascii(text, from.as_bytes(), to.as_bytes());
    }
    let mut table: Vec<(char, Option<char>)> = Vec::new();
    let mut replacements = to.chars();
    for character in from.chars() {
        table.push((character, replacements.next()));
    }
    // The first of several rules for one character counts: the sort is stable and the first one stays.
    table.sort_by_key(|(character, _)| *character);
    table.dedup_by_key(|(character, _)| *character);
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match table.binary_search_by_key(&character, |(known, _)| *known) {
            Ok(found) => out.extend(table[found].1),
            Err(_) => out.push(character),
        }
    }
    out
}

/// The common case (changing case, dropping commas) by a table of bytes.
fn translate_ascii(text: &str, from: &[u8], to: &[u8]) -> String {
    /// Not a byte of ASCII: the character is dropped.
    const DROP: u8 = 0xff;
    let mut table: [u8; 128] = std::array::from_fn(|byte| byte as u8);
    for (place, byte) in from.iter().enumerate().rev() {
        table[usize::from(*byte)] = to.get(place).copied().unwrap_or(DROP);
    }
    let mut out = String::with_capacity(text.len());
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let Some(replacement) = table.get(usize::from(byte)) else { continue };
        if *replacement == byte {
            continue;
        }
        out.push_str(&text[plain_from..at]);
        if *replacement != DROP {
            out.push(char::from(*replacement));
        }
        plain_from = at + 1;
    }
    out.push_str(&text[plain_from..]);
    out
}

/// Characters whose place p (from 1) has `round(start) <= p < round(start) + round(length)`, with IEEE's comparisons.
pub(super) fn substring(text: &str, start: f64, length: Option<f64>) -> &str {
    let from = round(start);
    let until = length.map_or(f64::INFINITY, |length| from + round(length));
    let inside = |place: usize| (place as f64) >= from && (place as f64) < until;
    let mut first = None;
    let mut end = text.len();
    for (place, (byte, _)) in text.char_indices().enumerate() {
        match (inside(place + 1), first) {
            (true, None) => first = Some(byte),
            (false, Some(_)) => {
                end = byte;
                break;
            }
            _ => {}
        }
    }
    first.map_or("", |first| &text[first..end])
}

/// Halves go up (section 4.4): `round(-2.5)` is -2.
pub(super) fn round(number: f64) -> f64 {
    let floor = number.floor();
    let rounded = if number - floor >= 0.5 { floor + 1.0 } else { floor };
    // From -0.5 up to zero the result is negative zero.
    if rounded == 0.0 { 0.0_f64.copysign(number) } else { rounded }
}

/// Whether a list of tokens has this one.
pub(super) fn has_token(list: &str, token: &str, html_space: bool) -> bool {
    let is_border = |byte: Option<u8>| byte.is_none_or(|byte| is_space(byte) || html_space && byte == 0xc);
    let bytes = list.as_bytes();
    let mut from = 0;
    while let Some(found) = memchr::memmem::find(&bytes[from..], token.as_bytes()) {
        let start = from + found;
        let end = start + token.len();
        let before = start.checked_sub(1).and_then(|at| bytes.get(at).copied());
        if is_border(before) && is_border(bytes.get(end).copied()) {
            return true;
        }
        from = start + 1;
    }
    false
}

/// Whether a language tag is the wanted one or a sublanguage of it, ignoring case.
pub(super) fn is_language(tag: &str, wanted: &str) -> bool {
    let (tag, wanted) = (tag.as_bytes(), wanted.as_bytes());
    tag.len() >= wanted.len()
        && tag[..wanted.len()].eq_ignore_ascii_case(wanted)
        && tag.get(wanted.len()).is_none_or(|byte| *byte == b'-')
}
