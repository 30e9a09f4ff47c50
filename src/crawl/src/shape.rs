//! Traps: places in a site that go on for ever and have nothing new.
//!
//! Pages are told apart by the *shape* of their address: what a program fills in (numbers, dates, tokens, long texts) is
//! replaced by its kind. All months of a calendar have one shape, all pages of a list, all pages under session ids. Whether a
//! shape still brings something is counted where pages are kept; here stands what can be told from an address alone.

use base::web::WebUrl;
use std::collections::HashMap;

/// Bytes of an address that is walked to.
pub const WALKED_URL_BYTES_MAX: usize = 2_000;
/// How often one segment may stand in a path.
const SAME_SEGMENT_MAX: usize = 3;
/// Segments of a path.
const SEGMENTS_MAX: usize = 40;
/// Characters from which a text of letters and digits without a word in it is a token.
const TOKEN_CHARS_MIN: usize = 16;
/// Years that a calendar may lie ahead, or behind.
const YEARS_AHEAD_MAX: i32 = 3;
const YEARS_BEHIND_MAX: i32 = 40;

/// Whether a text is made by a program to be unique: hexadecimal digits, or letters and digits mixed.
pub fn is_token(text: &str) -> bool {
    let plain = text.replace('-', "");
    let is_alphanumeric = plain.bytes().all(|b| b.is_ascii_alphanumeric());
    let digits = plain.bytes().filter(u8::is_ascii_digit).count();
    let letters = plain.len() - digits;
    // A word with a number at its end is none.
    let turns =
        plain.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit());
    plain.len() >= TOKEN_CHARS_MIN && is_alphanumeric && digits >= 3 && letters >= 1 && turns.count() >= 3
}

/// The kind of a text, where it is one that a program fills in.
fn kind(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return None;
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Some("{n}");
    }
    if is_date(text) {
        return Some("{date}");
    }
    if is_token(text) {
        return Some("{token}");
    }
    let is_long = text.len() > 40 || text.bytes().filter(|b| matches!(b, b'-' | b'_' | b'+')).count() > 2;
    is_long.then_some("{text}")
}

/// `2026-11-23`, `2026-11`, `20261123` with other signs between them.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split(['-', '_', '.']).collect();
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    match parts.as_slice() {
        [year, rest @ ..] if (1..=2).contains(&rest.len()) => {
            year.len() == 4
                && number(year).is_some_and(|year| (1900..2200).contains(&year))
                && rest.iter().all(|part| part.len() <= 2 && number(part).is_some_and(|part| part <= 31))
        }
        _ => false,
    }
}

/// A part of a path, with its digits as one.
fn shape_of_segment(segment: &str) -> String {
    if let Some(kind) = kind(segment) {
        return kind.to_owned();
    }
    let mut shape = String::with_capacity(segment.len());
    let mut was_digit = false;
    for c in segment.chars() {
        match (c.is_ascii_digit(), was_digit) {
            (true, false) => shape.push_str("{n}"),
            (true, true) => {}
            (false, _) => shape.push(c),
        }
        was_digit = c.is_ascii_digit();
    }
    shape
}

/// The shape of an address.
pub fn shape(url: &WebUrl) -> String {
    let segments: Vec<_> = url.as_url().path().split('/').map(shape_of_segment).collect();
    let mut shape = format!("{}{}", url.authority(), segments.join("/"));
    let query = url.as_url().query().unwrap_or_default();
    let mut names: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let kind = if value.is_empty() { "" } else { kind(value).unwrap_or("{text}") };
            format!("{}={kind}", shape_of_segment(name))
        })
        .collect();
    names.sort_unstable();
    for (at, name) in names.iter().enumerate() {
        shape.push(if at == 0 { '?' } else { '&' });
        shape.push_str(name);
    }
    shape
}

/// What a trap is called by its shape; of one without any sign `barren`, since its last pages brought nothing new.
pub fn name_of(shape: &str) -> &'static str {
    let (path, query) = shape.split_once('?').unwrap_or((shape, ""));
    if path.contains("{token}") || query.contains("{token}") {
        "session"
    } else if shape.contains("{date}") || path.contains("{n}/{n}") || path.contains("calendar") {
        "calendar"
    } else if query.contains("{n}") {
        "endless"
    } else {
        "barren"
    }
}

/// What is wrong with an address by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is too long.
    Long,
    /// Its path goes round in a circle.
    Repeated,
    /// It is a date that is years away.
    Calendar,
}

impl Fault {
    /// What it is called in a run.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Long => "long",
            Fault::Repeated => "repeated",
            Fault::Calendar => "calendar",
        }
    }
}

/// What keeps an address from being walked to, if anything does. `year` is that of now.
pub fn fault(url: &WebUrl, year: i32) -> Option<Fault> {
    if url.as_str().len() > WALKED_URL_BYTES_MAX {
        return Some(Fault::Long);
    }
    let segments: Vec<_> = url.as_url().path().split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.len() > SEGMENTS_MAX || has_circle(&segments) {
        return Some(Fault::Repeated);
    }
    let query = url.as_url().query().unwrap_or_default();
    let values = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
    let is_far = |written: i32| written > year + YEARS_AHEAD_MAX || written < year - YEARS_BEHIND_MAX;
    let dated = segments.iter().copied().chain(values).filter(|text| is_date(text));
    let mut years = dated.filter_map(|text| text.get(..4)?.parse::<i32>().ok());
    // `/2031/7`: a year and a month in two segments.
    let mut pairs = segments.windows(2).filter_map(|pair| {
        let (year, month) = (pair[0], pair[1].parse::<u8>().ok()?);
        let is_year = year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit());
        let year = year.parse::<i32>().ok().filter(|year| is_year && (1900..2200).contains(year))?;
        (1..=12).contains(&month).then_some(year)
    });
    (years.any(is_far) || pairs.any(is_far)).then_some(Fault::Calendar)
}

/// Whether a segment stands in the path more often than it may, numbers aside, or one part of the path follows itself twice.
fn has_circle(segments: &[&str]) -> bool {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for segment in segments.iter().filter(|segment| kind(segment).is_none()) {
        let count = counts.entry(segment).or_default();
        *count += 1;
        if *count > SAME_SEGMENT_MAX {
            return true;
        }
    }
    (2..=segments.len() / 3).any(|length| {
        segments
            .windows(3 * length)
            .any(|part| part[..length] == part[length..2 * length] && part[..length] == part[2 * length..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap()
    }

    #[test]
    fn what_a_program_fills_in_has_one_shape() {
        for (address, wanted) in [
            ("https://a.example/list/17?page=3&sort=price", "a.example/list/{n}?page={n}&sort={text}"),
            ("https://a.example/list/9?sort=name&page=44", "a.example/list/{n}?page={n}&sort={text}"),
            ("https://a.example/calendar/2026-11-23", "a.example/calendar/{date}"),
            ("https://a.example/item-17/x", "a.example/item-{n}/x"),
            ("https://a.example/s/9f86d081884c7d659a2feaa0/list", "a.example/s/{token}/list"),
            ("https://a.example/blue-kettle", "a.example/blue-kettle"),
            ("https://a.example/a-very-blue-kettle", "a.example/{text}"),
            ("https://a.example:8443/?q", "a.example:8443/?q="),
        ] {
            assert_eq!(shape(&url(address)), wanted, "{address}");
        }
    }

    #[test]
    fn tokens_are_told_from_words_and_numbers() {
        for token in
            ["9f86d081884c7d659a2feaa0", "lit3py55t21z5v55vlm25s55", "550e8400-e29b-41d4-a716-446655440000"]
        {
            assert!(is_token(token), "{token}");
        }
        for none in
            ["internationalisation", "1234567890123456", "kettles-and-pans-2026", "abc123", "", "a1b2c3"]
        {
            assert!(!is_token(none), "{none}");
        }
    }

    #[test]
    fn an_address_that_is_a_trap_by_itself_is_named() {
        for (address, wanted) in [
            ("https://a.example/a/a/a/a", Some(Fault::Repeated)),
            ("https://a.example/a/b/a/b/a/b", Some(Fault::Repeated)),
            ("https://a.example/a/b/a/b", None),
            ("https://a.example/1/1/1/1", None),
            ("https://a.example/calendar/2031-05", Some(Fault::Calendar)),
            ("https://a.example/calendar/2031/5", Some(Fault::Calendar)),
            ("https://a.example/calendar/2027/5", None),
            ("https://a.example/?day=1920-01-01", Some(Fault::Calendar)),
            ("https://a.example/2090", None),
            ("https://a.example/part/2090/77", None),
        ] {
            assert_eq!(fault(&url(address), 2026), wanted, "{address}");
        }
        let long = format!("https://a.example/{}", "x".repeat(WALKED_URL_BYTES_MAX));
        assert_eq!(fault(&url(&long), 2026), Some(Fault::Long));
        let deep = format!("https://a.example{}", (0..50).map(|n| format!("/p{n}")).collect::<String>());
        assert_eq!(fault(&url(&deep), 2026), Some(Fault::Repeated));
    }

    #[test]
    fn traps_have_names() {
        assert_eq!(name_of("a.example/s/{token}/list"), "session");
        assert_eq!(name_of("a.example/calendar/{n}/{n}"), "calendar");
        assert_eq!(name_of("a.example/list?page={n}"), "endless");
        assert_eq!(name_of("a.example/item/{n}/buy"), "barren");
    }
}
