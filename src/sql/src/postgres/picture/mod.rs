//! `to_char(number, 'FM999,990.00')`: numbers by a picture (PostgreSQL's manual, table 9.28).
//!
//! `9` and `0` are places for digits, of which `0` is always filled; `.` and `D` the point, `,` and `G` the separators of groups,
//! `S`, `SG`, `MI`, `PL` and `PR` the sign, `L` the currency's (a blank, as in the C locale), `TH` the ending of an ordinal, `FM`
//! leaves out blanks and zeros that fill. Anything else stands for itself. `EEEE`, `RN`, `V`, `B` and `C` are not there.

mod shown;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::strings;
use crate::errors::{QueryError, told};

/// Digits of a double that mean something; PostgreSQL shows no more of one.
const DOUBLE_DIGITS: usize = 15;
/// Most places of a picture.
const PLACES_MAX: usize = 200;

/// The function's name in the session; people write `to_char`.
pub(crate) const NAME: &str = "to_char_number";

/// Whether a pattern of `to_char` is one for numbers: it has a place for a digit, and no part of one for times.
pub(crate) fn is_picture(pattern: &str) -> bool {
    let mut in_quotes = false;
    let mut chars = pattern.chars().peekable();
    let mut has_place = false;
    while let Some(char) = chars.next() {
        match char {
            '"' => in_quotes = !in_quotes,
            // `%Y`, `%.3f`
            '%' if !in_quotes => {
                let next = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
                            digit: fn(&char) -> bool| {
                    while chars.next_if(digit).is_some() {}
                };
                next(&mut chars, |char| matches!(char, '.' | '-' | '3' | '6' | '9'));
                if chars.peek().is_some_and(char::is_ascii_alphabetic) {
                    return false;
                }
            }
            '9' | '0' if !in_quotes => has_place = true,
            _ => {}
        }
    }
    has_place
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(ToChar { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    signature: Signature,
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(kind) if kind.is_numeric() || kind.is_null() => Ok(DataType::Utf8),
            _ => Err(told(
                QueryError::invalid(
                    "to_char with a picture of digits takes a number, and a time one like 'YYYY-MM-DD'.",
                )
                .about("to_char"),
            )),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values, pictures] = args.args.as_slice() else { return internal_err!("to_char of what?") };
        let values = values.to_array(args.number_rows)?;
        let pictures = strings(&pictures.to_array(args.number_rows)?)?;
        let pictures = pictures.as_string::<i32>();
        let mut last: Option<(String, Picture)> = None;
        let mut texts = Vec::with_capacity(values.len());
        for row in 0..values.len() {
            if values.is_null(row) || pictures.is_null(row) {
                texts.push(None);
                continue;
            }
            let given = pictures.value(row);
            if last.as_ref().is_none_or(|(known, _)| known != given) {
                let picture = Picture::parse(given)
                    .map_err(|why| told(QueryError::failed(format!("to_char: {why}.")).about("to_char")))?;
                last = Some((given.to_owned(), picture));
            }
            texts.push(match &last {
                Some((_, picture)) => Some(picture.show(&digits(&values, row, picture.behind)?)),
                None => None,
            });
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(texts))))
    }
}

/// A number in digits: none of them in front of the first that is not 0, except for one.
#[derive(Debug, PartialEq, Eq)]
struct Digits {
    is_negative: bool,
    /// Before the point; none when the number has no digits (NaN, infinity).
    before: Option<String>,
    behind: String,
}

/// A number rounded to so many digits behind the point.
fn digits(values: &ArrayRef, row: usize, behind: usize) -> Result<Digits> {
    let value = values.slice(row, 1);
    if value.data_type().is_floating() {
        let number = cast(&value, &DataType::Float64)?.as_primitive::<Float64Type>().value(0);
        if !number.is_finite() {
            return Ok(Digits { is_negative: number < 0.0, before: None, behind: String::new() });
        }
        let whole = format!("{:.0}", number.abs()).len();
        let behind = behind.min(DOUBLE_DIGITS.saturating_sub(whole));
        return Ok(parted(number < 0.0, &format!("{:.behind$}", number.abs())));
    }
    let scale = match value.data_type() {
        DataType::Decimal128(_, scale) => usize::try_from(*scale).unwrap_or(0),
        _ => 0,
    };
    let value = cast(&value, &DataType::Decimal128(38, i8::try_from(scale).unwrap_or(0)))?;
    let number = value.as_primitive::<Decimal128Type>().value(0);
    Ok(rounded(number, scale, behind))
}

/// `number / 10^scale` with so many digits behind the point, rounded half away from zero.
fn rounded(number: i128, scale: usize, behind: usize) -> Digits {
    let mut magnitude = number.unsigned_abs();
    if scale > behind {
        let cut = 10_u128.pow(u32::try_from(scale - behind).unwrap_or(0).min(38));
        let (whole, rest) = (magnitude / cut, magnitude % cut);
        magnitude = whole + u128::from(rest >= cut - rest);
    }
    let kept = scale.min(behind);
    let text = format!("{magnitude:0>width$}", width = kept + 1);
    let (before, fraction) = text.split_at(text.len() - kept);
    // What is rounded to nothing has no sign.
    parted(number < 0 && magnitude > 0, &format!("{before}.{fraction:0<behind$}"))
}

fn parted(is_negative: bool, text: &str) -> Digits {
    let (before, behind) = text.split_once('.').unwrap_or((text, ""));
    Digits { is_negative, before: Some(before.to_owned()), behind: behind.to_owned() }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A digit's place before the point; whether it is always filled.
    Before,
    /// One behind it.
    Behind {
        always: bool,
    },
    Point,
    Group,
    Currency,
    Minus,
    Plus,
    Sign,
    Ordinal {
        upper: bool,
    },
    Text(String),
}

/// Where the sign stands that goes with the digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignPlace {
    /// `S` in front of them.
    Anchored,
    /// `S` behind them.
    Behind,
    /// `PR`.
    Brackets,
    /// None is asked for: a minus, or a blank in its place.
    Usual,
    /// `MI`, `SG` have it.
    Elsewhere,
}

#[derive(Debug)]
struct Picture {
    parts: Vec<Part>,
    before: usize,
    behind: usize,
    has_point: bool,
    fill_mode: bool,
    /// From this place before the point on zeros are shown.
    zeros_from: Option<usize>,
    /// So many places behind the point have a `0` or stand before one that has.
    zeros_behind: usize,
    sign: SignPlace,
}

impl Picture {
    fn parse(text: &str) -> Result<Picture, String> {
        let mut picture = Picture {
            parts: Vec::new(),
            before: 0,
            behind: 0,
            has_point: false,
            fill_mode: false,
            zeros_from: None,
            zeros_behind: 0,
            sign: SignPlace::Usual,
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = picture.take(rest, first)?;
            rest = &rest[length..];
            if picture.before + picture.behind > PLACES_MAX {
                return Err(format!("a picture has at most {PLACES_MAX} digits"));
            }
        }
        Ok(picture)
    }

    /// Takes the next part in and gives its length in bytes.
    fn take(&mut self, rest: &str, first: char) -> Result<usize, String> {
        let begins =
            |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        for word in ["EEEE", "RN", "V", "B", "C"] {
            if begins(word) {
                return Err(format!("{word} in a picture of a number is not available here"));
            }
        }
        for word in ["FM", "MI", "PL", "SG", "PR", "TH"] {
            if begins(word) {
                self.word(word, rest)?;
                return Ok(2);
            }
        }
        match first {
            '9' | '0' if self.sign == SignPlace::Brackets => {
                return Err("9 and 0 stand in front of PR".to_owned());
            }
            '9' | '0' if self.has_point => {
                self.behind += 1;
                if first == '0' {
                    self.zeros_behind = self.behind;
                }
                self.parts.push(Part::Behind { always: first == '0' });
            }
            '9' | '0' => {
                if first == '0' {
                    self.zeros_from.get_or_insert(self.before);
                }
                self.before += 1;
                self.parts.push(Part::Before);
            }
            '.' | 'D' | 'd' if self.has_point => return Err("a picture has one point".to_owned()),
            '.' | 'D' | 'd' => {
                self.has_point = true;
                self.parts.push(Part::Point);
            }
            ',' | 'G' | 'g' => self.parts.push(Part::Group),
            'L' | 'l' => self.parts.push(Part::Currency),
            'S' | 's' => {
                let place =
                    if self.before == 0 && !self.has_point { SignPlace::Anchored } else { SignPlace::Behind };
                self.signed(place)?;
            }
            '"' => {
                let (inner, end) = match rest[1..].find('"') {
                    Some(end) => (&rest[1..=end], end + 2),
                    None => (&rest[1..], rest.len()),
                };
                self.parts.push(Part::Text(inner.to_owned()));
                return Ok(end);
            }
            plain => self.parts.push(Part::Text(plain.to_string())),
        }
        Ok(first.len_utf8())
    }

    fn word(&mut self, word: &str, rest: &str) -> Result<(), String> {
        match word {
            "FM" => self.fill_mode = true,
            "MI" => {
                self.signed(SignPlace::Elsewhere)?;
                self.parts.push(Part::Minus);
            }
            "PL" => self.parts.push(Part::Plus),
            "SG" => {
                self.signed(SignPlace::Elsewhere)?;
                self.parts.push(Part::Sign);
            }
            "PR" => self.signed(SignPlace::Brackets)?,
            _ => self.parts.push(Part::Ordinal { upper: rest.starts_with('T') }),
        }
        Ok(())
    }

    fn signed(&mut self, place: SignPlace) -> Result<(), String> {
        if self.sign != SignPlace::Usual {
            return Err("a picture has one of S, SG, MI and PR".to_owned());
        }
        self.sign = place;
        Ok(())
    }

    fn show(&self, number: &Digits) -> String {
        // What does not fit is shown as so many signs.
        let before = number.before.clone().filter(|before| before.len() <= self.before);
        let fits = before.is_some();
        let before = before.unwrap_or_else(|| "#".repeat(self.before));
        let behind = if fits { number.behind.clone() } else { "#".repeat(self.behind) };
        let relevant = match self.fill_mode && self.has_point {
            true => behind.trim_end_matches('0').len().max(self.zeros_behind),
            false => behind.len(),
        };
        shown::all(self, number, before, behind, relevant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A written number as a decimal of three digits behind the point.
    fn number(text: &str) -> (i128, usize) {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction:0<3}");
        (digits.parse().expect("digits"), 3)
    }

    /// A number, a picture, and what PostgreSQL 15 makes of them.
    #[rustfmt::skip]
    const SHOWN: &[(&str, &str, &str)] = &[
        ("0.004", "999", "   0"),
        ("111", "999TH", " 111TH"),
        ("-123", "999", "-123"),
        ("-0.004", "9999", "    0"),
        ("-1.5", "9999", "   -2"),
        ("-0.004", "000", " 000"),
        ("1", "000", " 001"),
        ("0.5", "0999", " 0001"),
        ("2.25", "0999", " 0002"),
        ("-12", "9990", "  -12"),
        ("-0.5", "9990", "   -1"),
        ("2", "FM999", "2"),
        ("3", "FM999", "3"),
        ("-5", "FM999,999.00", "-5.00"),
        ("100", "FM999,999.00", "100.00"),
        ("12", "999,999.99", "      12.00"),
        ("112", "999,999.99", "     112.00"),
        ("10.10", "9G999D99", "    10.10"),
        ("1000000", "9G999D99", " #,###.##"),
        ("10.10", "FM9G990D09", "10.1"),
        ("0.5", "FM9G990D09", "0.5"),
        ("100", "S999", "+100"),
        ("-5", "S999", "  -5"),
        ("999.999", "999S", "###+"),
        ("0", "999S", "  0+"),
        ("1234", "SG999", "+###"),
        ("12345.678", "SG999", "+###"),
        ("12", "999SG", " 12+"),
        ("1.5", "999SG", "  2+"),
        ("0", "MI999", "   0"),
        ("21", "MI999", "  21"),
        ("12345.678", "999MI", "### "),
        ("0.5", "999MI", "  1 "),
        ("11", "FM999MI", "11"),
        ("12", "FM999MI", "12"),
        ("100", "PL999", "+ 100"),
        ("13", "PL999", "+  13"),
        ("-123", "999PL", "-123 "),
        ("2", "999PL", "   2+"),
        ("112", "999PR", " 112 "),
        ("1234", "999PR", " ### "),
        ("-1.5", "FM999PR", "<2>"),
        ("0.004", "FM999PR", "0"),
        ("2.25", "999th", "   2nd"),
        ("-1", "999th", "  -1"),
        ("3", "FM999TH", "3RD"),
        ("-1", "FM999TH", "-1"),
        ("1.5", "L999", "    2"),
        ("12", "L999", "   12"),
        ("100", "$999", "$ 100"),
        ("0.5", "$999", "$   1"),
        ("13", "9.9", " #.#"),
        ("-123", "9.9", "-#.#"),
        ("100", "FM9.9", "#.#"),
        ("-0.004", "FM9.9", "0."),
        ("-5", "0.9", "-5.0"),
        ("21", "0.9", " #.#"),
        ("12", "FM0.9", "#.#"),
        ("-0.5", "FM0.9", "-0.5"),
        ("-5", ".99", "-.##"),
        ("0.05", ".99", " .##"),
        ("11", "FM.99", ".##"),
        ("21", "FM.99", ".##"),
        ("0.5", "990.99", "   0.50"),
        ("10.10", "990.99", "  10.10"),
        ("-0.004", "FM990.00", "0.00"),
        ("1.5", "FM990.00", "1.50"),
        ("-123", "FM990.09", "-123.0"),
        ("-1.5", "FM990.09", "-1.5"),
        ("3", "FM9999999", "3"),
        ("100", "FM9999999", "100"),
        ("1", "99.", "  1"),
        ("2", "99.", "  2"),
        ("-123", "9 999", "  -123"),
        ("13", "9 999", "    13"),
        ("1234", "9,999,999", "     1,234"),
        ("-1234", "9,999,999", "    -1,234"),
        ("2.25", "FM9,999,999", "2"),
        ("2", "FM9,999,999", "2"),
        ("1234", r#""n="999"#, "n= ###"),
        ("13", r#""n="999"#, "n=  13"),
        ("-123", r#"999"%""#, "-123%"),
        ("-0.004", r#"999"%""#, "   0%"),
        ("112", r#"FM999"%""#, "112%"),
        ("100", r#"FM999"%""#, "100%"),
        ("-5", r#"FM99.9"%""#, "-5.%"),
        ("-1.5", r#"FM99.9"%""#, "-1.5%"),
        ("11", "S9.99", "+#.##"),
        ("-1", "S9.99", "-1.00"),
        ("0.004", "9.99S", " .00+"),
        ("2", "9.99S", "2.00+"),
        ("0.004", "FMS9.99", "+0."),
        ("2.25", "FMS9.99", "+2.25"),
        ("-12", "00.00", "-12.00"),
        ("12", "00.00", " 12.00"),
        ("123", "FM00.00", "##.##"),
        ("2", "FM00.00", "02.00"),
        ("1.5", "9999.990", "    1.500"),
        ("123", "9999.990", "  123.000"),
        ("12", "FM9999.990", "12.000"),
        ("1.5", "FM9999.990", "1.500"),
        ("12345.678", "SG9.9", "+#.#"),
        ("0.5", "SG9.9", "+ .5"),
        ("123", "FM999,999,990.00", "123.00"),
        ("11", "FM999,999,990.00", "11.00"),
        ("112", "99,99", "  1,12"),
        ("-0.5", "99,99", "    -1"),
        ("1", "0,000", " 0,001"),
        ("2.25", "0,000", " 0,002"),
        ("-1.5", "9.999", "-1.500"),
        ("-1234", "9.999", "-#.###"),
        ("-0.5", "S0999", "-0001"),
        ("13", "S0999", "+0013"),
        ("-5", "-999", "-  -5"),
        ("12", "-999", "-  12"),
        ("-5", "999.9PR", "  <5.0>"),
        ("0.004", "999.9PR", "    .0 "),
        ("5", "FMPL9", "+5"),
        ("-1234", "FMPL9", "-#"),
        ("-0.004", "PLFM999", "+0"),
        ("10.10", "PLFM999", "+10"),
    ];

    #[test]
    fn numbers_are_shown_as_postgresql_15_shows_them() {
        for &(given, picture, expected) in SHOWN {
            let parsed = Picture::parse(picture).expect(picture);
            let (value, scale) = number(given);
            assert_eq!(parsed.show(&rounded(value, scale, parsed.behind)), expected, "{given} by {picture}");
        }
    }

    #[test]
    fn pictures_are_told_from_patterns_of_times() {
        for picture in ["999", "FM0", "99%", "\"%Y\"9", "9.9%"] {
            assert!(is_picture(picture), "{picture}");
        }
        for other in ["YYYY-MM-DD", "%Y-%m-%d", "%9f", "%.3f 9", "\"9\"", ""] {
            assert!(!is_picture(other), "{other}");
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        for picture in ["9.9EEEE", "RN", "9V9", "9.9.9", "S9S", "9MI9SG"] {
            assert!(Picture::parse(picture).is_err(), "{picture}");
        }
        assert_eq!(rounded(-5, 1, 0), parted(true, "1."), "half away from zero");
        assert_eq!(rounded(-4, 1, 0), parted(false, "0."), "nothing has no sign");
    }
}
