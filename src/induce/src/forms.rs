//! Normal forms: when a text on a page says the same as a value that is written differently.
//!
//! A value becomes keys, and two values are the same when they share one. JSON-LD says `PT1H30M`, `2021-03-04T10:00Z` and
//! `12.9` where the page says "1 hr 30 min", "4 March 2021" and "$12.90"; "03/04/2021" has two keys, because it can be read
//! in two ways.

use page::extract::{DecimalMark, parse_number};
use page::html::Document;
use url::Url;

use crate::times;

/// What a value is, and so which spellings of it are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// Letters and digits count, whatever their case and what stands between them.
    Text,
    /// The first number of a short text.
    Number,
    /// A day.
    Date,
    /// A length of time, in minutes.
    Duration,
    /// An address, without its scheme and fragment.
    Link,
    /// An image, whatever its size: the name of its file.
    Image,
    /// Whether something can be bought.
    Availability,
}

/// Longest text in which a number is looked for: a paragraph that has a number in it does not show that number.
const NUMBER_BYTES_MAX: usize = 48;
/// Longest text in which a date is looked for.
const DATE_BYTES_MAX: usize = 100;
/// Longest text in which a length of time is looked for.
const DURATION_BYTES_MAX: usize = 60;
/// Longest text that says whether something can be bought.
const AVAILABILITY_BYTES_MAX: usize = 60;
/// Longest text that is compared whole.
pub const TEXT_BYTES_MAX: usize = 32 << 10;
/// Longest address.
const LINK_BYTES_MAX: usize = 2048;

/// What a page's texts are read by: its address and the decimal mark of its language.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub base: &'a Url,
    pub mark: Option<DecimalMark>,
}

impl Form {
    /// The longest text that can have a key.
    pub fn bytes_max(self) -> usize {
        match self {
            Form::Text => TEXT_BYTES_MAX,
            Form::Number => NUMBER_BYTES_MAX,
            Form::Date => DATE_BYTES_MAX,
            Form::Duration => DURATION_BYTES_MAX,
            Form::Link | Form::Image => LINK_BYTES_MAX,
            Form::Availability => AVAILABILITY_BYTES_MAX,
        }
    }

    /// The keys of a text as it stands on a page; none where it is no such value.
    pub fn keys(self, text: &str, reading: Reading<'_>) -> Vec<String> {
        let text = text.trim();
        if text.is_empty() || text.len() > self.bytes_max() {
            return Vec::new();
        }
        match self {
            Form::Text => fold(text).into_iter().map(|key| format!("t:{key}")).collect(),
            Form::Number => parse_number(text, reading.mark).map(number_key).into_iter().collect(),
            Form::Date => times::dates(text).into_iter().map(|(y, m, d)| format!("d:{y}-{m}-{d}")).collect(),
            Form::Duration => {
                times::minutes(text).map(|minutes| format!("m:{minutes}")).into_iter().collect()
            }
            Form::Link => link_key(text, reading.base).into_iter().collect(),
            Form::Image => image_key(text, reading.base).into_iter().collect(),
            Form::Availability => availability(text).map(|word| format!("a:{word}")).into_iter().collect(),
        }
    }

    /// The keys of a value as structured data writes it: character references and tags in texts, numbers with a point.
    pub fn label_keys(self, text: &str, reading: Reading<'_>) -> Vec<String> {
        match self {
            Form::Text => self.keys(&plain(text), reading),
            Form::Number => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => number_keys(number, text),
                _ => self.keys(text, reading),
            },
            // An address of schema.org (`https://schema.org/InStock`) says it with its last part.
            Form::Availability => self.keys(text.rsplit(['/', '#']).next().unwrap_or(text), reading),
            _ => self.keys(text, reading),
        }
    }
}

/// A number and, where it has more than two decimal places, what it is shown as ("4.2727" as 4.27, 4.3 or, cut, 4.2).
fn number_keys(number: f64, text: &str) -> Vec<String> {
    let mut keys = vec![number_key(number)];
    if text.trim().split_once('.').is_some_and(|(_, places)| places.len() > 2) {
        keys.push(number_key((number * 100.0).round() / 100.0));
        keys.push(number_key((number * 10.0).floor() / 10.0));
    }
    if text.contains('.') {
        keys.push(number_key((number * 10.0).round() / 10.0));
    }
    keys
}

fn number_key(number: f64) -> String {
    format!("n:{:.4}", if number == 0.0 { 0.0 } else { number })
}

/// A label without tags and with its character references resolved, which some pages leave in their JSON.
pub fn plain(label: &str) -> String {
    if label.len() > TEXT_BYTES_MAX || !label.contains(['&', '<']) {
        return label.to_owned();
    }
    let document = Document::parse(label.to_owned());
    let once = document.string_value(Document::ROOT).to_owned();
    // Escaped twice: `&amp;#8217;`.
    if once.contains('&') && once.contains(';') {
        return Document::parse(once).string_value(Document::ROOT).to_owned();
    }
    once
}

/// Letters and digits in lower case; the text itself, without spaces, where it has none. Vulgar fractions are two numbers, as in
/// "1/2".
pub fn fold(text: &str) -> Option<String> {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '½' => folded.push_str("12"),
            '¼' => folded.push_str("14"),
            '¾' => folded.push_str("34"),
            '⅓' => folded.push_str("13"),
            '⅔' => folded.push_str("23"),
            '⅛' => folded.push_str("18"),
            other if other.is_ascii_alphanumeric() => folded.push(other.to_ascii_lowercase()),
            other if other.is_alphanumeric() => folded.extend(other.to_lowercase()),
            _ => {}
        }
    }
    if folded.is_empty() {
        folded = text.split_whitespace().collect();
    }
    (!folded.is_empty()).then_some(folded)
}

fn join(text: &str, base: &Url) -> Option<Url> {
    if text.contains(char::is_whitespace) {
        return None;
    }
    base.join(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

fn link_key(text: &str, base: &Url) -> Option<String> {
    let url = join(text, base)?;
    let host = url.host_str()?;
    let host = host.strip_prefix("www.").unwrap_or(host);
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("u:{host}{}{query}", url.path().trim_end_matches('/')))
}

/// Whether an address is that of an image by its ending, as links to images are.
pub fn is_image_address(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or(text).to_ascii_lowercase();
    ["jpg", "jpeg", "png", "webp", "gif", "avif"]
        .iter()
        .any(|ending| path.rsplit_once('.').is_some_and(|(_, own)| own == *ending))
}

/// The name of an image's file without its ending and what sizes add to it ("-1024x683", "_640x", "-scaled", "@2x"). Where that
/// is a size alone, the name of the folder ("photo-of-soup/650_1200.jpg").
fn image_key(text: &str, base: &Url) -> Option<String> {
    let url = join(text, base)?;
    // Services that scale images have the address in a parameter, and some in one segment of the path.
    let is_address = |text: &str| text.contains('/') && text.contains('.');
    let within = url
        .query_pairs()
        .take(16)
        .find(|(name, value)| matches!(&**name, "url" | "src" | "image" | "img") && is_address(value));
    let path = within.map_or_else(|| url.path().to_owned(), |(_, value)| value.into_owned());
    let path = path.split(['?', '#']).next().unwrap_or(&path).replace("%2F", "/").to_ascii_lowercase();
    let segments = path.rsplit('/').filter(|segment| !segment.is_empty());
    let mut stems = segments.take(5).map(image_stem);
    let named = stems.find(|stem| !is_size(stem)).filter(|stem| stem.len() >= 4);
    Some(format!("i:{}", named.unwrap_or(&path)))
}

/// A file's name without its ending and the size behind it.
fn image_stem(segment: &str) -> &str {
    let first = segment.split('.').next().unwrap_or(segment);
    let stem =
        if first.len() < 4 { segment.rsplit_once('.').map_or(segment, |(stem, _)| stem) } else { first };
    let stem = stem.strip_suffix("@2x").unwrap_or(stem);
    let bytes = stem.as_bytes();
    // "-300x200" and all behind it, "_640x" too.
    let is_cut = |at: &usize| {
        let rest = &bytes[at + 1..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        matches!(bytes[*at], b'-' | b'_') && (2..=5).contains(&digits) && rest.get(digits) == Some(&b'x')
    };
    let stem = (1..bytes.len()).find(is_cut).map_or(stem, |at| &stem[..at]);
    stem.strip_suffix("-scaled").unwrap_or(stem)
}

/// Whether a name is a size and nothing else ("650_1200", "w_500,h_300", "master").
fn is_size(stem: &str) -> bool {
    let is_part = |part: &str| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let letters = part.len() - digits.len();
        let is_count = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_word = matches!(
            part,
            "master"
                | "original"
                | "large"
                | "medium"
                | "small"
                | "thumb"
                | "full"
                | "public"
                | "crop"
                | "max"
        );
        is_word || letters <= 2 && is_count
    };
    // "1.jpg" and "2.jpg" are two images of one folder.
    let is_number = stem.len() < 3 && stem.bytes().all(|byte| byte.is_ascii_digit());
    !is_number && !stem.starts_with('0') && stem.split(['-', '_', ',', '.', ':', '=', 'x']).all(is_part)
}

/// Words of which one in a short text says whether something can be bought; the first that is there counts.
const AVAILABILITY_WORDS: [(&str, &str); 22] = [
    ("outofstock", "out"),
    ("soldout", "out"),
    ("notavailable", "out"),
    ("notinstock", "out"),
    ("unavailable", "out"),
    ("discontinued", "out"),
    ("ausverkauft", "out"),
    ("nichtverfügbar", "out"),
    ("épuisé", "out"),
    ("agotado", "out"),
    ("esaurito", "out"),
    ("uitverkocht", "out"),
    ("preorder", "pre"),
    ("backorder", "pre"),
    ("instock", "in"),
    ("available", "in"),
    ("instoreonly", "in"),
    ("onlineonly", "in"),
    ("auflager", "in"),
    ("lieferbar", "in"),
    ("enstock", "in"),
    ("oplager", "in"),
];

fn availability(text: &str) -> Option<&'static str> {
    let folded = fold(text)?;
    AVAILABILITY_WORDS.iter().find(|(word, _)| folded.contains(word)).map(|(_, says)| *says)
}

/// A stored value as the texts of which it was made; none for what has no text of its own.
pub fn texts_of(value: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(said) => Some(said.to_string()),
        _ => None,
    };
    match value {
        serde_json::Value::Array(members) => members.iter().filter_map(text).collect(),
        other => text(other).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(form: Form, label: &str, shown: &str) -> bool {
        let base = Url::parse("https://www.shop.example/a/b").unwrap();
        let reading = Reading { base: &base, mark: None };
        let keys = form.label_keys(label, reading);
        form.keys(shown, reading).iter().any(|key| keys.contains(key))
    }

    #[test]
    fn a_value_is_the_same_however_it_is_written() {
        for (form, label, shown) in [
            (Form::Text, "Fish &amp; Chips", "Fish & chips "),
            (Form::Text, "Mom&amp;#8217;s <b>pie</b>", "Mom’s pie"),
            (Form::Text, "1/2 cup  flour", "½ cup flour"),
            (Form::Number, "12.9", "$12.90"),
            (Form::Number, "1204.5", "1.204,50 €"),
            (Form::Number, "4.5", "4.5 out of 5 stars"),
            (Form::Date, "2021-03-04T10:00:00Z", "Published 4 March 2021"),
            (Form::Duration, "PT1H30M", "1 hr 30 min"),
            (Form::Link, "https://www.shop.example/c/", "http://shop.example/c#top"),
            (Form::Link, "https://www.shop.example/a/c", "c"),
            (Form::Image, "https://cdn.example/x/soup-1200x675.jpg?w=4", "/y/soup-300x200.webp"),
            (
                Form::Image,
                "https://i.example/b1/soup_pot/650_1200.jpg",
                "//i.example/b1/soup_pot/1366_521.jpg",
            ),
            (Form::Image, "/p/soup-scaled-1200x630-c-default.jpg", "/p/soup-scaled-500x500-c-default.jpg"),
            (Form::Image, "/p/soup.jpg", "/_next/image?url=https%3A%2F%2Fcdn.example%2Fsoup.jpg&w=640"),
            (Form::Availability, "https://schema.org/InStock", "In stock: 3 left"),
            (Form::Availability, "http://schema.org/OutOfStock", "Sold out"),
        ] {
            assert!(same(form, label, shown), "{form:?} {label} {shown}");
        }
    }

    #[test]
    fn another_value_is_not() {
        for (form, label, shown) in [
            (Form::Text, "Fish", "Fishes"),
            (Form::Number, "12.9", "129"),
            (
                Form::Number,
                "5",
                "of all the 5 boroughs of the city of New York this is the one that never sleeps",
            ),
            (Form::Date, "2021-03-04", "March 5, 2021"),
            (Form::Duration, "PT1H", "1"),
            (Form::Link, "https://www.shop.example/c", "mailto:c"),
            (Form::Image, "https://cdn.example/soup.jpg", "/stew.jpg"),
            (Form::Image, "https://cdn.example/soup/1.jpg", "https://cdn.example/soup/2.jpg"),
            (Form::Availability, "https://schema.org/InStock", "Not in stock"),
        ] {
            assert!(!same(form, label, shown), "{form:?} {label} {shown}");
        }
    }
}
