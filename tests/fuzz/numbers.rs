//! Numbers: people's (`parse_number`) and XPath's (`text_to_number`, `number_to_text`).

use page::extract::{Attribute, Schema, collapse_space, parse_number};
use page::html::Document;
use page::xpath::{Fuel, number_to_text, text_to_number};

use crate::Target;
use page_oracle::soup::Random;

#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Any text: nothing may break, and all readers agree on what white space is.
    Any,
    /// A price written as some country does; its value in hundredths.
    Written(i64),
    /// XPath's forms.
    Machine,
    /// The bits of a number.
    Bits(u64),
}

pub struct NumbersTarget;

const CHARACTERS: &str =
    "00112233445566778899....,,,,'  --+eE$€%()/:\u{a0}\u{202f}’٣٫٬０９．，−–\nabxkr\u{0}\u{e3f}१";
/// Grouping mark and decimal mark.
const STYLES: [(&str, &str); 12] = [
    (",", "."),
    (".", ","),
    (" ", ","),
    ("\u{a0}", ","),
    ("\u{202f}", ","),
    ("'", "."),
    ("’", "."),
    ("", "."),
    ("", ","),
    (" ", "."),
    ("\u{2009}", ","),
    ("，", "．"),
];
const BEFORE: [&str; 14] =
    ["", "", "$", "€ ", "Price: ", "from ", "R$ ", "CHF ", "USD\u{a0}", "only\n", "£", "≈", "(", "Rs. "];
const AFTER: [&str; 14] = [
    "",
    "",
    " €",
    " kr",
    " zł",
    " each",
    ", incl. VAT",
    " (12 reviews)",
    "/month",
    ".-",
    " USD",
    "%",
    ")",
    " 円",
];
/// First digits of some scripts.
const ZEROS: [char; 5] = ['0', '٠', '०', '０', '๐'];

fn written(random: &mut Random) -> (How, String) {
    let digits = 1 + random.below(9) as u32;
    let cents = (random.number() % 10_u64.pow(digits)) as i64;
    let (group, decimal) = STYLES[random.below(STYLES.len())];
    let whole = (cents / 100).to_string();
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped += group;
        }
        grouped.push(digit);
    }
    let plain = format!("{grouped}{decimal}{:02}", cents % 100);
    let zero = if random.below(4) == 0 { ZEROS[random.below(ZEROS.len())] } else { '0' };
    let script = |character: char| match character.to_digit(10) {
        Some(digit) => char::from_u32(zero as u32 + digit).unwrap_or(character),
        None => character,
    };
    let number: String = plain.chars().map(script).collect();
    let minus = if random.below(6) == 0 { "-" } else { "" };
    let signed = if minus.is_empty() { cents } else { -cents };
    let before = BEFORE[random.below(BEFORE.len())];
    (How::Written(signed), format!("{before}{minus}{number}{}", AFTER[random.below(AFTER.len())]))
}

impl Target for NumbersTarget {
    type How = How;

    fn generate(&self, random: &mut Random) -> (How, String) {
        let characters: Vec<char> = CHARACTERS.chars().collect();
        let text = |random: &mut Random, most: usize, from: &[char]| -> String {
            (0..random.below(most)).map(|_| from[random.below(from.len())]).collect()
        };
        match random.below(8) {
            0 => (How::Any, {
                let most = 1 + random.below(2000);
                text(random, most, &characters)
            }),
            1 | 2 => (How::Any, text(random, 24, &characters)),
            3 | 4 => written(random),
            5 => (
                How::Machine,
                text(random, 14, &['0', '1', '5', '9', '.', '-', ' ', '\t', '\u{a0}', 'e', '+']),
            ),
            6 => (How::Bits(random.number()), String::new()),
            _ => {
                let decimal =
                    (random.number() % 2_000_000) as f64 / [1.0, 10.0, 100.0, 1e7, 1e-9][random.below(5)];
                (How::Bits(decimal.to_bits()), String::new())
            }
        }
    }

    fn check(&self, how: How, text: &str) -> Result<(), String> {
        match how {
            How::Any => any(text),
            How::Written(cents) => {
                let (read, expected) = (parse_number(text, None), cents as f64 / 100.0);
                // Without the whole text (the shrinker takes some away) there is nothing to expect.
                (read == Some(expected)).then_some(()).ok_or_else(|| format!("{read:?}, not {expected}"))
            }
            How::Machine => {
                let (read, expected) = (text_to_number(text), reference(text));
                let same = read.to_bits() == expected.to_bits() || read.is_nan() && expected.is_nan();
                same.then_some(()).ok_or_else(|| format!("{read}, not {expected}"))
            }
            How::Bits(bits) => bits_round_trip(f64::from_bits(bits)),
        }
    }

    fn covered(&self) -> String {
        "any text, prices of many countries, XPath's numbers, round trips".to_owned()
    }
}

fn any(text: &str) -> Result<(), String> {
    let read = parse_number(text, None);
    if read.is_some_and(|number| !number.is_finite()) {
        return Err(format!("{read:?}"));
    }
    // The kernel as a whole says the same: text, tree, XPath, type.
    if text.contains(['<', '&', '\0', '\r']) {
        return Ok(());
    }
    let attribute: Attribute = serde_json::from_str(r#"{"name":"n","xpaths":["//p"],"type":"number"}"#)
        .map_err(|error| error.to_string())?;
    let schema = Schema::compile(&[attribute]).map_err(|error| error.to_string())?;
    let base = url::Url::parse("https://shop.example/").map_err(|error| error.to_string())?;
    let document = Document::parse(format!("<p>{text}</p>"));
    let found = schema.extract(&document, &base, &mut Fuel::for_page());
    let extracted = found.values.get("n").and_then(serde_json::Value::as_f64);
    let expected = parse_number(&collapse_space(text), None);
    let same = extracted == expected;
    same.then_some(()).ok_or_else(|| format!("extracted {extracted:?}, read {expected:?}"))
}

/// XPath 1.0, section 4.4, read character by character.
fn reference(text: &str) -> f64 {
    let is_space = |character: char| matches!(character, ' ' | '\t' | '\r' | '\n');
    let body = text.trim_matches(is_space);
    let (sign, digits) = body.strip_prefix('-').map_or((1.0, body), |rest| (-1.0, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = whole.chars().chain(fraction.chars()).all(|character| character.is_ascii_digit());
    if !all_digits || whole.len() + fraction.len() == 0 {
        return f64::NAN;
    }
    format!("0{whole}.{fraction}0").parse::<f64>().map_or(f64::NAN, |number| sign * number)
}

fn bits_round_trip(number: f64) -> Result<(), String> {
    let text = number_to_text(number);
    if !number.is_finite() {
        let expected = if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        return (text == expected).then_some(()).ok_or(text);
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    let back = text_to_number(&text);
    (plain && back == number).then_some(()).ok_or_else(|| format!("{number:e} became {text}, then {back:e}"))
}
