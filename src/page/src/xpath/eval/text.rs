//! Text functions, free of any document.

use std::borrow::Cow;

/// XML's white space, which is XPath's: not the form feed, not the no-break space.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

#[inline]
fn is_space(byte: u8) -> bool {
    // Without short circuits, for the sake of the loops that are to become vector code.
    (byte == b' ') | (byte == b'\t') | (byte == b'\r') | (byte == b'\n')
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

/// Whether the text, once its white space is normalized, starts with `wanted` (or, with `whole`, is `wanted`).
///
/// Mostly the first character tells, so this is far cheaper than the normalized copy that it stands for: an expression
/// such as `//*[starts-with(normalize-space(text()), 'By ')]` took a quarter of a schema's time with it.
pub(super) fn normalized_matches(text: &str, wanted: &str, whole: bool) -> bool {
    let mut rest = wanted.as_bytes();
    let (mut started, mut gap) = (false, false);
    for byte in text.bytes() {
        if is_space(byte) {
            gap = started;
            continue;
        }
        if gap {
            match rest.split_first() {
                Some((b' ', after)) => rest = after,
                Some(_) => return false,
                None => return !whole,
            }
        }
        match rest.split_first() {
            Some((first, after)) if *first == byte => rest = after,
            Some(_) => return false,
            None => return !whole,
        }
        (started, gap) = (true, false);
    }
    rest.is_empty()
}

/// Whether a text holds nothing but white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.bytes().all(is_space)
}

/// Bytes that one counter of a byte's width can count.
const COUNTED_BYTES_MAX: usize = 255;

/// Characters of a text once its white space is normalized: those that are no space, and one space between words.
///
/// Without branches and with counters of one byte, so that the compiler makes vector code of it: one such expression over
/// the `<body>` reads the whole page.
pub(super) fn normalized_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (Some(first), Some((_, before))) = (bytes.first(), bytes.split_last()) else { return 0 };
    // Continuation bytes belong to a character that was counted.
    let is_character = |byte: &u8| u8::from(!is_space(*byte) & (byte & 0xc0 != 0x80));
    let characters = bytes.chunks(COUNTED_BYTES_MAX).map(|chunk| chunk.iter().map(is_character).sum::<u8>());
    let starts =
        before.chunks(COUNTED_BYTES_MAX).zip(bytes[1..].chunks(COUNTED_BYTES_MAX)).map(|(before, here)| {
            let pairs = before.iter().zip(here);
            pairs.map(|(before, here)| u8::from(is_space(*before) & !is_space(*here))).sum::<u8>()
        });
    let words = usize::from(!is_space(*first)) + starts.map(usize::from).sum::<usize>();
    characters.map(usize::from).sum::<usize>() + words.saturating_sub(1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_normalized_copy_agrees_with_it() {
        let alphabet = [" ", "\t", "\n", "\r", "a", "b", "é", "\u{a0}", " ", "By", "\u{c}", "𝄞"];
        let mut state = 11_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..20_000 {
            // Some are longer than a counter of one byte counts to.
            let length = if round % 50 == 0 { 700 } else { next(9) };
            let text: String = (0..length).map(|_| alphabet[next(alphabet.len())]).collect();
            let normalized = normalize_space(Cow::Borrowed(&text)).into_owned();
            assert_eq!(normalized_length(&text), normalized.chars().count(), "{text:?}");
            assert_eq!(is_blank(&text), normalized.is_empty(), "{text:?}");
            let cut = normalized.floor_char_boundary(next(normalized.len() + 1));
            let other: String = (0..next(4)).map(|_| alphabet[next(alphabet.len())]).collect();
            for wanted in [&normalized[..cut], normalized.as_str(), "", "By ", " ", &other, &text] {
                let starts = normalized_matches(&text, wanted, false);
                assert_eq!(starts, normalized.starts_with(wanted), "{text:?} {wanted:?}");
                assert_eq!(
                    normalized_matches(&text, wanted, true),
                    normalized == wanted,
                    "{text:?} {wanted:?}"
                );
            }
        }
    }
}
