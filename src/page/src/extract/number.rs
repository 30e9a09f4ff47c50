//! Numbers as people write them.
//!
//! The first number of the text counts. Digits may be of any script with decimal digits that shops use. Which mark is the
//! decimal one is read from the number itself:
//! - both `.` and `,` stand there: the last one is decimal if it stands there once ("1.234,56", "1,234.56");
//! - one of them more than once: it groups ("1.234.567", "12,34,567"); anything that is no grouping (a date, a version, an IP
//!   address) is no number;
//! - one of them once: it groups when one to three digits, the first not 0, stand before it and exactly three after it, and it
//!   is not the decimal mark of the page's language (`de`: "1.204" → 1204, "2,125" → 2.125). Where the language is not known
//!   it is a comma that groups ("1,234" → 1234), and a point beside a currency whose countries group by points ("1.234 €" →
//!   1234, also on pages in English). Else it is decimal ("1,23" → 1.23, "0,125" → 0.125);
//! - spaces and apostrophes group where exactly three digits follow ("1 234,5", "1'234.50").
//!
//! A sign counts directly before the number or its currency sign ("-$5", "$-5"), unless a letter or digit stands before it
//! ("A-5" is 5). Parentheses do not negate: "(12)" beside stars is a count. A percentage keeps its number ("45 %" → 45).

use super::language::DecimalMark;

/// Digits of one number; more are no quantity.
const DIGITS_MAX: usize = 40;

/// Currencies (sign, code or short form) of countries that group by points.
const POINT_GROUPING: [&str; 20] = [
    "€", "eur", "r$", "brl", "₺", "try", "tl", "kr", "dkk", "nok", "isk", "₫", "vnd", "rp", "idr", "clp",
    "cop", "ars", "pyg", "rsd",
];

/// First code points of the decimal digits of scripts other than Latin, each followed by the nine others.
const DIGIT_ZEROS: [u32; 12] = [
    0x0660, // Arabic-Indic
    0x06F0, // Persian
    0x0966, // Devanagari
    0x09E6, // Bengali
    0x0AE6, // Gujarati
    0x0BE6, // Tamil
    0x0C66, // Telugu
    0x0E50, // Thai
    0x0ED0, // Lao
    0x1040, // Myanmar
    0x17E0, // Khmer
    0xFF10, // full width
];

/// A character as far as numbers are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Digit(u8),
    Point,
    Comma,
    /// Space or apostrophe; groups if it does anything. Different ones are not mixed within a number.
    Group(char),
    /// U+066B, decimal beyond doubt.
    Decimal,
    Minus,
    Currency,
    /// A letter.
    Word,
    Other,
}

fn sign(character: char) -> Sign {
    match character {
        '0'..='9' => Sign::Digit(character as u8 - b'0'),
        '.' | '\u{ff0e}' => Sign::Point,
        ',' | '\u{ff0c}' => Sign::Comma,
        '\u{66b}' => Sign::Decimal,
        '\u{66c}' => Sign::Group('\u{66c}'),
        '\'' | '\u{2019}' | '\u{2bc}' | '\u{b4}' => Sign::Group('\''),
        '-' | '\u{2212}' | '\u{2013}' | '\u{ff0d}' | '\u{fe63}' => Sign::Minus,
        '$' | '¢' | '£' | '¤' | '¥' | '₠'..='\u{20c0}' | '\u{fdfc}' | '\u{e3f}' => Sign::Currency,
        other if other.is_whitespace() => Sign::Group(' '),
        other => {
            let zero = DIGIT_ZEROS.iter().find(|zero| (u32::from(other).wrapping_sub(**zero)) < 10);
            match zero {
                Some(zero) => Sign::Digit((u32::from(other) - zero) as u8),
                None if other.is_alphanumeric() => Sign::Word,
                None => Sign::Other,
            }
        }
    }
}

/// The first number in a text, if there is one; `mark` is the decimal mark of the page's language, where it is known. See the
/// module page for the rules.
pub fn parse_number(text: &str, mark: Option<DecimalMark>) -> Option<f64> {
    let mut before = Vec::with_capacity(4);
    let mut rest = text.char_indices();
    // Where the number starts, and whether it starts with its decimal mark (".5").
    let start = loop {
        let (at, character) = rest.next()?;
        let current = sign(character);
        let follows_digit =
            || rest.clone().next().is_some_and(|(_, next)| matches!(sign(next), Sign::Digit(_)));
        let opens = match current {
            Sign::Digit(_) => true,
            Sign::Point | Sign::Decimal => !matches!(before.last(), Some(Sign::Word)) && follows_digit(),
            _ => false,
        };
        if opens {
            break at;
        }
        if before.len() == 4 {
            before.remove(0);
        }
        before.push(current);
    };
    let body: Vec<Sign> = text[start..].chars().map(sign).take(DIGITS_MAX * 2).collect();
    let (mut number, length) = magnitude(&body, text, mark)?;
    if let Some(power) = exponent(&text[start..], length) {
        number *= 10_f64.powi(power);
    }
    if !number.is_finite() {
        return None;
    }
    Some(if is_negative(&before) { -number } else { number })
}

/// Whether what stands before the number (its last four signs at most) makes it negative.
fn is_negative(before: &[Sign]) -> bool {
    let mut signs = before.iter().rev().skip_while(|sign| **sign == Sign::Currency);
    match signs.next() {
        Some(Sign::Minus) => {}
        // "- 5" at the very start.
        Some(Sign::Group(' ')) => return matches!(before, [Sign::Minus, Sign::Group(' ')]),
        _ => return false,
    }
    !matches!(signs.next(), Some(Sign::Word | Sign::Digit(_)))
}

/// Digits between marks.
struct Groups {
    /// Lengths of the runs of digits.
    lengths: Vec<usize>,
    /// The marks between them.
    marks: Vec<Sign>,
    digits: String,
    /// Signs used up.
    length: usize,
}

/// Reads runs of digits as long as marks and digits can belong to one number.
fn groups(body: &[Sign]) -> Groups {
    let mut groups = Groups { lengths: Vec::new(), marks: Vec::new(), digits: String::new(), length: 0 };
    let run = |from: usize| body[from..].iter().take_while(|sign| matches!(sign, Sign::Digit(_))).count();
    let mut at = 0;
    loop {
        let length = run(at);
        for digit in &body[at..at + length] {
            if let Sign::Digit(digit) = digit {
                groups.digits.push(char::from(b'0' + digit));
            }
        }
        groups.lengths.push(length);
        at += length;
        groups.length = at;
        let Some(mark) = body.get(at).copied() else { return groups };
        let next = run(at + 1);
        let goes_on = match mark {
            Sign::Point | Sign::Comma | Sign::Decimal => next > 0,
            Sign::Group(_) => {
                let grouped = groups.marks.iter().all(|known| *known == mark);
                next == 3 && grouped && (1..=3).contains(&groups.lengths[0])
            }
            _ => false,
        };
        if !goes_on {
            return groups;
        }
        groups.marks.push(mark);
        at += 1;
    }
}

/// The number that starts the signs, without its sign, and how many signs it takes up.
fn magnitude(body: &[Sign], text: &str, mark: Option<DecimalMark>) -> Option<(f64, usize)> {
    let groups = groups(body);
    if groups.digits.len() > DIGITS_MAX {
        return None;
    }
    let decimal_digits = decimal_digits(&groups, text, mark)?;
    let whole = groups.digits.len() - decimal_digits;
    let plain = format!("0{}.{}0", &groups.digits[..whole], &groups.digits[whole..]);
    Some((plain.parse().ok()?, groups.length))
}

/// How many of the digits stand behind the decimal mark; `None` where the marks make no number.
fn decimal_digits(groups: &Groups, text: &str, mark: Option<DecimalMark>) -> Option<usize> {
    let lengths = &groups.lengths;
    let last_length = *lengths.last()?;
    let Some(last) = groups.marks.last().copied() else { return Some(0) };
    let earlier = &groups.marks[..groups.marks.len() - 1];
    let is_mark = |mark: Sign| !matches!(mark, Sign::Group(_));
    if !is_mark(last) {
        return Some(0);
    }
    if last == Sign::Decimal {
        return are_groups(&lengths[..lengths.len() - 1]).then_some(last_length);
    }
    if earlier.is_empty() {
        let groups_by_three =
            last_length == 3 && (1..=3).contains(&lengths[0]) && !groups.digits.starts_with('0');
        let is_group = groups_by_three
            && match (last, mark) {
                (Sign::Comma, mark) => mark != Some(DecimalMark::Comma),
                (_, Some(DecimalMark::Comma)) => true,
                _ => groups_by_points(text),
            };
        return Some(if is_group { 0 } else { last_length });
    }
    let same = earlier.iter().all(|mark| *mark == earlier[0]);
    if !same {
        return None;
    }
    if earlier[0] == last {
        return are_groups(lengths).then_some(0);
    }
    are_groups(&lengths[..lengths.len() - 1]).then_some(last_length)
}

/// Threes after one to three digits, or India's twos before a final three.
fn are_groups(lengths: &[usize]) -> bool {
    let [first, middle @ .., last] = lengths else { return true };
    let by_threes = (1..=3).contains(first) && middle.iter().all(|length| *length == 3);
    let by_twos = (1..=2).contains(first) && middle.iter().all(|length| *length == 2);
    *last == 3 && (by_threes || by_twos)
}

fn groups_by_points(text: &str) -> bool {
    let lower = text.to_lowercase();
    POINT_GROUPING.iter().any(|currency| {
        lower.match_indices(currency).any(|(at, _)| {
            let is_letter = |character: Option<char>| character.is_some_and(char::is_alphabetic);
            !currency.starts_with(char::is_alphabetic)
                || !is_letter(lower[..at].chars().next_back())
                    && !is_letter(lower[at + currency.len()..].chars().next())
        })
    })
}

/// The power of ten of "1.5e3", as machines write it: no letter or digit may follow.
fn exponent(text: &str, signs: usize) -> Option<i32> {
    let mut rest = text.chars().skip(signs);
    if !matches!(rest.next(), Some('e' | 'E')) {
        return None;
    }
    let tail: String = rest.take(6).collect();
    let unsigned = tail.strip_prefix(['+', '-']).unwrap_or(&tail);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let ends = unsigned[digits..].chars().next().is_none_or(|next| !next.is_alphanumeric());
    let length = tail.len() - unsigned.len() + digits;
    (digits > 0 && digits <= 3 && ends).then(|| tail[..length].parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(text: &str, number: f64) {
        assert_eq!(parse_number(text, None), Some(number), "{text}");
    }

    /// What can be read both ways is read as the page's language has it; what cannot is not touched by it.
    #[test]
    fn the_language_decides_where_the_form_does_not() {
        let by = |mark: DecimalMark, text: &str| parse_number(text, Some(mark)).unwrap();
        for (text, comma, point) in [
            ("1.204 Bewertungen", 1204.0, 1.204),
            ("2,125 kg", 2.125, 2125.0),
            ("1.234", 1234.0, 1.234),
            ("1,234", 1.234, 1234.0),
            ("-12.500", -12_500.0, -12.5),
            ("999,999", 999.999, 999_999.0),
            // Beside such a currency an English page means thousands as well.
            ("1.234 €", 1234.0, 1234.0),
            ("€ 1,234", 1.234, 1234.0),
            // Nothing is ambiguous here.
            ("1.234,56", 1234.56, 1234.56),
            ("1,234.56", 1234.56, 1234.56),
            ("0.125", 0.125, 0.125),
            ("0,125", 0.125, 0.125),
            ("12.5", 12.5, 12.5),
            ("12,5", 12.5, 12.5),
            ("1234.567", 1234.567, 1234.567),
            ("1.234.567", 1_234_567.0, 1_234_567.0),
            ("1 234,5", 1234.5, 1234.5),
        ] {
            assert_eq!(by(DecimalMark::Comma, text), comma, "{text}");
            assert_eq!(by(DecimalMark::Point, text), point, "{text}");
        }
    }

    #[test]
    fn marks_of_many_countries() {
        is("1.234,56 €", 1234.56);
        is("1,234.56", 1234.56);
        is("$12", 12.0);
        is("1 234,5", 1234.5);
        is("1\u{a0}234\u{a0}567,89 zł", 1_234_567.89);
        is("1\u{202f}299 kr", 1299.0);
        is("1'234.50", 1234.5);
        is("CHF 1’234.–", 1234.0);
        is("12,34,567.50", 1_234_567.5);
        is("1,23,456", 123_456.0);
        is("1.234.567,8", 1_234_567.8);
        is("1,234,567", 1_234_567.0);
        is("R$ 1.299,00", 1299.0);
        is("5,- €", 5.0);
        is("EUR1.234,56", 1234.56);
    }

    #[test]
    fn one_mark_is_ambiguous() {
        is("1,234", 1234.0);
        is("1,23", 1.23);
        is("1,2345", 1.2345);
        is("1234,567", 1234.567);
        is("0,125", 0.125);
        is("1.234", 1.234);
        is("1.234 €", 1234.0);
        is("1.234 kr", 1234.0);
        is("1.234 krypton", 1.234);
        is("12.5", 12.5);
        is("1.", 1.0);
        is("Only 7, hurry", 7.0);
        is("1, 2, 3", 1.0);
    }

    #[test]
    fn signs() {
        is("-5", -5.0);
        is("-$5", -5.0);
        is("$-5.25", -5.25);
        is("\u{2212}3 °C", -3.0);
        is("- 5", -5.0);
        is("10-20", 10.0);
        is("A-5", 5.0);
        is("Price - 5", 5.0);
        is("(12)", 12.0);
        is("45 %", 45.0);
        is("4.5/5", 4.5);
        is("from .5 to 1", 0.5);
        is("approx.5", 5.0);
    }

    #[test]
    fn digits_of_other_scripts() {
        is("٣٫٥", 3.5);
        is("۱۲٬۳۴۵ تومان", 12345.0);
        is("１２，３４５円", 12345.0);
        is("₹१,२३४", 1234.0);
    }

    #[test]
    fn machine_forms() {
        is("1.5e3", 1500.0);
        is("2E-2", 0.02);
        is("3 eggs", 3.0);
        is("3e", 3.0);
        is("3e4x", 3.0);
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", "free", "1.2.3", "12.05.2024", "192.168.0.1", "1.234,567,8", "-", ".", "1,2.3,4"] {
            assert_eq!(parse_number(text, None), None, "{text}");
        }
        assert_eq!(parse_number(&"9".repeat(41), None), None);
        assert_eq!(parse_number(&"9".repeat(4000), None), None);
        is(&"9".repeat(40), 1e40);
    }

    #[test]
    fn any_text_is_survived() {
        let alphabet: Vec<char> = "0123456789.,' -$€e\u{a0}٣٫٬a()%\u{2212}１".chars().collect();
        let mut state = 7_u64;
        for _ in 0..50_000 {
            let mut text = String::new();
            for _ in 0..1 + state % 13 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            for mark in [None, Some(DecimalMark::Comma), Some(DecimalMark::Point)] {
                assert!(parse_number(&text, mark).is_none_or(f64::is_finite), "{text}");
            }
        }
    }

    #[test]
    fn every_small_price_reads_back() {
        for cents in (0..2_000_000_u32).step_by(997) {
            let (whole, rest) = (cents / 100, cents % 100);
            let value = f64::from(cents) / 100.0;
            let grouped = |mark: &str| {
                if whole >= 1000 {
                    format!("{}{mark}{:03}", whole / 1000, whole % 1000)
                } else {
                    whole.to_string()
                }
            };
            is(&format!("${}.{rest:02}", grouped(",")), value);
            is(&format!("{},{rest:02} €", grouped(".")), value);
            is(&format!("{},{rest:02} zł", grouped(" ")), value);
            is(&format!("CHF {}.{rest:02}", grouped("'")), value);
        }
    }
}
