//! From a text to a typed JSON value.

use std::borrow::Cow;

use serde_json::{Number, Value as Json};
use url::Url;

use super::Reason;
use super::language::DecimalMark;
use super::number::parse_number;
use super::schema::AttributeType;

/// Texts of all values of a page together, in bytes. Lists of nested elements would otherwise grow with the square of the
/// page.
pub const VALUE_BYTES_MAX: usize = 8 << 20;

/// Characters of a refused text that its error entry shows.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Largest integer that JSON readers take without loss: 2^53.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Bytes of a text in which a number is looked for: it is compared with every currency there is.
const NUMBER_BYTES_MAX: usize = 64 << 10;

/// Bytes of a link. Pages name images by addresses longer than any that is fetched, and nobody by one that is longer.
const LINK_BYTES_MAX: usize = 16 << 10;

/// Bytes of a link's host as it is written: a name has 253 in its ASCII form. What takes it there (UTS 46, Punycode) takes the
/// square of its length.
const HOST_BYTES_MAX: usize = 1 << 10;

/// Why a text is not taken as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueRefusal {
    /// It is not of the attribute's type.
    Type(Reason, String),
    /// Work or room has run out.
    Budget(String),
}

/// Bytes that the values of a page may still take.
pub(super) struct ByteBudget {
    bytes: usize,
}

impl ByteBudget {
    pub(super) fn for_page() -> ByteBudget {
        ByteBudget { bytes: VALUE_BYTES_MAX }
    }

    pub(super) fn take(&mut self, value: &Json) -> Result<(), ValueRefusal> {
        // What the JSON value itself takes in memory counts as well.
        let bytes = size_of::<Json>() + value.as_str().map_or(0, str::len);
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => {
                Err(ValueRefusal::Budget("the values of the page are longer than 8 MB in all".to_owned()))
            }
        }
    }
}

/// Strips white space at both ends and makes every run of it one space.
///
/// White space is Unicode's, the no-break space included: a value that looks empty is empty.
pub fn collapse_space(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let mut before_is_space = false;
    let is_collapsed = text.chars().all(|character| {
        let space = character.is_whitespace();
        let fine = !space || character == ' ' && !before_is_space;
        before_is_space = space;
        fine
    });
    if is_collapsed {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    Cow::Owned(out)
}

/// Fuel for making a value of a text, beside what looking at it has cost: about what it takes in node visits.
pub(super) fn cost(kind: AttributeType, text: &str, base: &Url) -> u64 {
    let bytes = |bytes: usize| bytes as u64;
    match kind {
        AttributeType::Text | AttributeType::TextList | AttributeType::Boolean => bytes(text.len()) / 8,
        // Some twenty looks at what is read of it.
        AttributeType::Number => bytes(text.len().min(NUMBER_BYTES_MAX)) / 2,
        AttributeType::Url | AttributeType::UrlList => {
            let read = bytes(text.len().min(LINK_BYTES_MAX) + base.as_str().len());
            let host = bytes(written_host(text).len().min(HOST_BYTES_MAX));
            30 + read + host * host / 64
        }
    }
}

/// The host of a link as it stands there, user name and port included; empty where the link names none.
fn written_host(link: &str) -> &str {
    // A browser takes a backslash for a slash (URL Standard, "relative slash state").
    let is_slash = |byte: u8| matches!(byte, b'/' | b'\\');
    let bytes = link.as_bytes();
    let Some(at) = bytes.windows(2).position(|pair| pair.iter().all(|byte| is_slash(*byte))) else {
        return "";
    };
    let rest = link[at..].trim_start_matches(['/', '\\']);
    &rest[..rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len())]
}

/// Whether resolving a link takes a bounded time: it has at most so many bytes, and a host that can be one.
pub(super) fn is_joinable(link: &str, bytes_max: usize) -> bool {
    link.len() <= bytes_max && written_host(link).len() <= HOST_BYTES_MAX
}

/// Makes a value of a text without surplus white space that is not blank. `mark` counts for numbers only.
pub(super) fn coerce(
    kind: AttributeType,
    text: &str,
    base: &Url,
    mark: Option<DecimalMark>,
) -> Result<Json, ValueRefusal> {
    match kind {
        AttributeType::Text | AttributeType::TextList => Ok(Json::String(text.to_owned())),
        AttributeType::Url | AttributeType::UrlList => url(text, base),
        AttributeType::Boolean => Ok(Json::Bool(boolean(text))),
        AttributeType::Number => parse_number(&text[..text.floor_char_boundary(NUMBER_BYTES_MAX)], mark)
            .map(json_number)
            .ok_or_else(|| {
                ValueRefusal::Type(Reason::NotANumber, format!("`{}` is not a number", shown(text)))
            }),
    }
}

/// A JSON number; an integer where it is one (12, not 12.0).
pub(super) fn json_number(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() <= INTEGER_MAX {
        return Json::Number(Number::from(number as i64));
    }
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

/// Resolves a link. Only web addresses count: `javascript:`, `mailto:` and `data:` lead to no page.
fn url(text: &str, base: &Url) -> Result<Json, ValueRefusal> {
    let refuse = |why: &str| ValueRefusal::Type(Reason::NotAUrl, format!("`{}` is {why}", shown(text)));
    if !is_joinable(text, LINK_BYTES_MAX) {
        return Err(refuse("too long for a link"));
    }
    let url = base.join(text).map_err(|_| refuse("not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("not a web address"));
    }
    Ok(Json::String(url.into()))
}

/// Words that say no. Whatever else stands there, something stands there: true.
const FALSE_WORDS: [&str; 22] = [
    "false",
    "no",
    "0",
    "n",
    "off",
    "none",
    "null",
    "nein",
    "non",
    "outofstock",
    "soldout",
    "discontinued",
    "unavailable",
    "notavailable",
    "notinstock",
    "nostock",
    "currentlyunavailable",
    "temporarilyoutofstock",
    "reserved",
    "disabled",
    "inactive",
    "nolongeravailable",
];

/// True and false words, schema.org's ItemAvailability (with or without its address), else presence.
fn boolean(text: &str) -> bool {
    let bare = ["https://schema.org/", "http://schema.org/", "schema:"]
        .iter()
        .find_map(|prefix| text.get(prefix.len()..).filter(|_| starts_with(text, prefix)))
        .unwrap_or(text);
    let is_letter = |character: &char| character.is_alphanumeric();
    // "Out of stock", "out-of-stock" and "OutOfStock" are one word here; long texts are nobody's "no".
    let word: String = bare.chars().filter(is_letter).flat_map(char::to_lowercase).take(40).collect();
    !FALSE_WORDS.contains(&word.as_str())
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    let mut characters = text.chars();
    let mut start: String = characters.by_ref().take(SHOWN_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        start.push('…');
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_collapsed() {
        assert_eq!(collapse_space("  a \n\t b\u{a0}\u{a0}c "), "a b c");
        assert!(matches!(collapse_space(" plain text "), Cow::Borrowed("plain text")));
        assert_eq!(collapse_space("\u{a0}\u{2003}"), "");
    }

    #[test]
    fn booleans_speak_schema_org() {
        for text in
            ["false", "No", "0", "Out of stock", "https://schema.org/OutOfStock", "http://schema.org/SoldOut"]
        {
            assert!(!boolean(text), "{text}");
        }
        for text in ["true", "yes", "1", "In stock", "https://schema.org/InStock", "PreOrder", "Add to cart"]
        {
            assert!(boolean(text), "{text}");
        }
    }

    #[test]
    fn urls_are_resolved_and_only_web_addresses_pass() {
        let base = Url::parse("https://shop.example/a/b.html").unwrap();
        let ok = |text: &str| url(text, &base).unwrap();
        assert_eq!(ok("../c?x=1"), "https://shop.example/c?x=1");
        assert_eq!(ok("//cdn.example/i.png"), "https://cdn.example/i.png");
        assert!(matches!(url("javascript:void(0)", &base), Err(ValueRefusal::Type(Reason::NotAUrl, _))));
        assert!(matches!(
            url("data:image/png;base64,AA", &base),
            Err(ValueRefusal::Type(Reason::NotAUrl, _))
        ));
        assert!(matches!(url("https://", &base), Err(ValueRefusal::Type(Reason::NotAUrl, _))));
    }

    #[test]
    fn a_host_is_found_as_it_is_written() {
        for (link, host) in [
            ("https://a.example/b//c", "a.example"),
            ("//u:p@a:80?x=//y", "u:p@a:80"),
            ("\\\\a\\b", "a"),
            ("http:////a#b", "a"),
            ("/b/c", ""),
            ("x", ""),
        ] {
            assert_eq!(written_host(link), host, "{link}");
        }
        let base = Url::parse("https://shop.example/").unwrap();
        for long in ["x".repeat(LINK_BYTES_MAX + 1), format!("//{}/", "ü".repeat(600))] {
            assert!(matches!(url(&long, &base), Err(ValueRefusal::Type(Reason::NotAUrl, _))));
        }
    }

    #[test]
    fn integers_stay_integers() {
        assert_eq!(json_number(12.0).to_string(), "12");
        assert_eq!(json_number(-0.5).to_string(), "-0.5");
        assert_eq!(json_number(-0.0).to_string(), "0");
        assert_eq!(json_number(1e300).to_string(), "1e+300");
    }

    #[test]
    fn room_ends() {
        let mut room = ByteBudget { bytes: 2 * size_of::<Json>() + 3 };
        assert!(room.take(&Json::from("abc")).is_ok());
        assert!(matches!(room.take(&Json::from("d")), Err(ValueRefusal::Budget(_))));
    }
}
