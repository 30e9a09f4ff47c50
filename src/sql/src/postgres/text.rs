//! Values as PostgreSQL writes them: `2` and not `2.0`, `2026-03-01 12:00:00` without a `T`, `t` for true where texts are
//! put together.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use regex::Regex;

use super::{lists, strings};
use crate::spool::json as cells;

/// Doubles from this power of ten on are written with an exponent (PostgreSQL's `float8out`).
const EXPONENT_MIN: i32 = 15;
/// Those below this one too.
const EXPONENT_BELOW: i32 = -4;

/// `upper`, `lower` or `initcap`.
pub(super) fn lettered(letters: Letters) -> ScalarUDF {
    ScalarUDF::from(Lettered { letters, signature: Signature::string(1, Volatility::Immutable) })
}

pub(super) fn regexp_split_to_array() -> ScalarUDF {
    ScalarUDF::from(Split { signature: Signature::any(2, Volatility::Immutable) })
}

pub(super) fn to_bytea() -> ScalarUDF {
    ScalarUDF::from(Bytes { signature: Signature::any(1, Volatility::Immutable) })
}

/// A value as a cast to text gives it.
pub(super) fn written() -> ScalarUDF {
    udf(Style::Cast)
}

/// Whether DataFusion writes values of this type otherwise.
pub(super) fn is_shown_otherwise(kind: &DataType) -> bool {
    kind.is_floating()
        || matches!(
            kind,
            DataType::Timestamp(..)
                | DataType::Date32
                | DataType::Date64
                | DataType::Boolean
                | DataType::Duration(_)
                | DataType::Interval(_)
        )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// What a cast to text gives.
    Cast,
    /// What `concat` and its like write.
    Shown,
}

pub(super) fn udf(style: Style) -> ScalarUDF {
    ScalarUDF::from(Text { style, signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Text {
    style: Style,
    signature: Signature,
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        match self.style {
            Style::Cast => "to_text",
            Style::Shown => "to_shown",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        // A structure stays what it is: its cast is DataFusion's own affair.
        Ok(match arguments.first() {
            Some(kind) if is_structure(kind) => kind.clone(),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("a text of how many values?") };
        if is_structure(&value.data_type()) {
            return Ok(value.clone());
        }
        let values = value.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(self.written(&values)?))
    }
}

impl Text {
    fn written(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let as_item =
            |items: &ArrayRef| Text { style: Style::Shown, signature: self.signature.clone() }.written(items);
        Ok(match values.data_type() {
            kind if is_list(kind) => lists::texts(values, &as_item)?,
            kind if kind.is_floating() => doubles(values)?,
            DataType::Timestamp(..) => replaced(values, |text| in_era(&moment(text)))?,
            DataType::Date32 | DataType::Date64 => replaced(values, in_era)?,
            DataType::Duration(_) | DataType::Interval(_) => shown(values),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                shown(&cast(values, &DataType::Binary)?)
            }
            DataType::Boolean if self.style == Style::Shown => replaced(values, |text| text[..1].to_owned())?,
            _ => strings(values)?,
        })
    }
}

fn is_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

fn is_structure(kind: &DataType) -> bool {
    kind.is_nested() && !is_list(kind)
}

/// As the console's answers show it.
fn shown(values: &ArrayRef) -> ArrayRef {
    let text = |row| cells::value(values, row).as_str().map(str::to_owned);
    Arc::new((0..values.len()).map(text).collect::<StringArray>())
}

fn doubles(values: &ArrayRef) -> Result<ArrayRef> {
    if *values.data_type() != DataType::Float64 {
        // The shortest digits of a narrower number are not those of the double that it becomes.
        return replaced(values, |text| text.trim_end_matches(".0").to_owned());
    }
    let values = values.as_primitive::<Float64Type>();
    Ok(Arc::new(values.iter().map(|value| value.map(double)).collect::<StringArray>()))
}

/// A double in the fewest digits that lead back to it, as `float8out` writes them.
fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(EXPONENT_BELOW..EXPONENT_MIN).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

/// `2026-03-01T12:00:00.500Z` as `2026-03-01 12:00:00.5+00`.
fn moment(text: &str) -> String {
    let (text, zone) = text.strip_suffix('Z').map_or((text, ""), |text| (text, "+00"));
    let text = text.replacen('T', " ", 1);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{zone}")
}

/// A date or a time of a year below one, or of more than four digits: `-0043-03-15` as `0044-03-15 BC`, `+10000-01-01` without the
/// sign.
fn in_era(text: &str) -> String {
    if let Some(later) = text.strip_prefix('+') {
        return later.to_owned();
    }
    let (is_before, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let Some((year, rest)) = digits.split_once('-') else { return text.to_owned() };
    match year.parse::<i64>() {
        Ok(year) if is_before || year == 0 => format!("{:04}-{rest} BC", year + 1),
        _ => text.to_owned(),
    }
}

fn replaced(values: &ArrayRef, write: impl Fn(&str) -> String) -> Result<ArrayRef> {
    let texts = cast(values, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let written = (0..texts.len()).map(|row| texts.is_valid(row).then(|| write(texts.value(row))));
    Ok(Arc::new(written.collect::<StringArray>()))
}

/// The bytes that a text means as a `bytea`: `\x` and pairs of digits, or letters with `\\` and `\ooo`; none where it means none.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        return if digits.len().is_multiple_of(2) {
            digits.chunks_exact(2).map(byte).collect()
        } else {
            None
        };
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        if let Some(behind) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = behind;
            continue;
        }
        let digits = rest.get(..3)?;
        let value = digits
            .iter()
            .try_fold(0_u32, |value, digit| Some(value * 8 + char::from(*digit).to_digit(8)?))?;
        bytes.push(u8::try_from(value).ok()?);
        rest = &rest[3..];
    }
    Some(bytes)
}

/// `to_bytea(text)`: what a cast to `bytea` gives. Bytes stay what they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bytes {
    signature: Signature,
}

impl ScalarUDFImpl for Bytes {
    fn name(&self) -> &str {
        "to_bytea"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        if !values.data_type().is_string() {
            return Ok(ColumnarValue::Array(cast(&values, &DataType::Binary)?));
        }
        let texts = strings(&values)?;
        let bytes = texts.as_string::<i32>().iter().map(|text| match text.map(bytes_of) {
            Some(None) => exec_err!("a text cannot be cast to bytea"),
            other => Ok(other.flatten()),
        });
        Ok(ColumnarValue::Array(Arc::new(bytes.collect::<Result<BinaryArray>>()?)))
    }
}

/// How letters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Letters {
    Upper,
    Lower,
    /// The first of each word as a capital, the others small.
    Words,
}

/// `upper`, `lower`, `initcap`: a letter for a letter. DataFusion's write `ß` as `SS`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Lettered {
    letters: Letters,
    signature: Signature,
}

impl ScalarUDFImpl for Lettered {
    fn name(&self) -> &str {
        match self.letters {
            Letters::Upper => "upper",
            Letters::Lower => "lower",
            Letters::Words => "initcap",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("the letters of how many texts?") };
        let texts = strings(&value.to_array(args.number_rows)?)?;
        let texts = texts.as_string::<i32>();
        if let Some(lettered) = self.letters.at_once(texts)? {
            return Ok(ColumnarValue::Array(Arc::new(lettered)));
        }
        let lettered = texts.iter().map(|text| text.map(|text| self.letters.of(text)));
        Ok(ColumnarValue::Array(Arc::new(lettered.collect::<StringArray>())))
    }
}

impl Letters {
    /// All bytes of many texts in one go, where each is a letter and few are of other texts.
    fn at_once(self, texts: &StringArray) -> Result<Option<StringArray>> {
        let (offsets, bytes) = (texts.value_offsets(), texts.value_data());
        let own = match (offsets.first(), offsets.last()) {
            (Some(first), Some(last)) => usize::try_from(last - first).unwrap_or(0),
            _ => 0,
        };
        if self == Letters::Words || bytes.len() > own.saturating_mul(2) || !bytes.is_ascii() {
            return Ok(None);
        }
        let bytes =
            if self == Letters::Upper { bytes.to_ascii_uppercase() } else { bytes.to_ascii_lowercase() };
        let (offsets, nulls) = (texts.offsets().clone(), texts.nulls().cloned());
        Ok(Some(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?))
    }

    fn of(self, text: &str) -> String {
        match self {
            Letters::Upper if text.is_ascii() => return text.to_ascii_uppercase(),
            Letters::Lower if text.is_ascii() => return text.to_ascii_lowercase(),
            _ => {}
        }
        let mut begins = true;
        let letter = |letter: char| {
            let is_capital = self == Letters::Upper || self == Letters::Words && begins;
            begins = !letter.is_alphanumeric();
            if is_capital { one(letter.to_uppercase(), letter) } else { one(letter.to_lowercase(), letter) }
        };
        text.chars().map(letter).collect()
    }
}

/// The one letter that another becomes; itself where they would be several.
fn one(mut letters: impl Iterator<Item = char>, otherwise: char) -> char {
    match (letters.next(), letters.next()) {
        (Some(one), None) => one,
        _ => otherwise,
    }
}

/// `regexp_split_to_array(text, pattern)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Split {
    signature: Signature,
}

impl ScalarUDFImpl for Split {
    fn name(&self) -> &str {
        "regexp_split_to_array"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::new_list(DataType::Utf8, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, ColumnarValue::Scalar(pattern)] = args.args.as_slice() else {
            return exec_err!(
                "the pattern of regexp_split_to_array is a regex that is written in the statement"
            );
        };
        let texts = strings(&texts.to_array(args.number_rows)?)?;
        let texts = texts.as_string::<i32>();
        let pattern = pattern.try_as_str().flatten().map(Regex::new).transpose();
        let Ok(pattern) = pattern else { return exec_err!("a regex cannot be understood") };
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in 0..texts.len() {
            let found = pattern.as_ref().filter(|_| texts.is_valid(row));
            lists.append_option(found.map(|pattern| split(pattern, texts.value(row)).into_iter().map(Some)));
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}

/// What stands between the matches. One without a length counts neither at an end of the text nor right behind another.
fn split<'a>(pattern: &Regex, text: &'a str) -> Vec<&'a str> {
    let (mut parts, mut from, mut matched_to) = (Vec::new(), 0, None);
    for found in pattern.find_iter(text) {
        let at_end = found.start() == 0 || found.start() == text.len();
        if found.is_empty() && (at_end || matched_to == Some(found.start())) {
            continue;
        }
        parts.push(&text[from..found.start()]);
        from = found.end();
        matched_to = Some(from);
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_becomes_one_letter() {
        for (letters, text, expected) in [
            (Letters::Upper, "aé ß", "AÉ ß"),
            (Letters::Lower, "AÉ ẞ", "aé ß"),
            (Letters::Words, "ü ßa o'NEIL 2nd", "Ü ßa O'Neil 2nd"),
        ] {
            assert_eq!(letters.of(text), expected);
        }
        let texts = StringArray::from(vec![Some("ab"), None, Some("Cd"), Some("e")]).slice(1, 3);
        let upper = Letters::Upper.at_once(&texts).expect("texts").expect("all ASCII");
        assert_eq!(upper, StringArray::from(vec![None, Some("CD"), Some("E")]));
        assert!(Letters::Lower.at_once(&StringArray::from(vec!["é"])).expect("texts").is_none());
    }

    #[test]
    fn doubles_are_written_as_postgresql_writes_them() {
        for (value, expected) in [
            (2.0, "2"),
            (-0.5, "-0.5"),
            (0.1, "0.1"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.25e-5, "1.25e-05"),
            (0.0001, "0.0001"),
            (1e300, "1e+300"),
            (-0.0, "-0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), expected);
        }
        for (text, expected) in [
            ("\\x00ff", Some(vec![0, 255])),
            ("\\\\a\\001", Some(vec![92, 97, 1])),
            ("é", Some(vec![195, 169])),
            ("\\x0", None),
            ("\\9", None),
            ("\\777", None),
        ] {
            assert_eq!(bytes_of(text), expected, "{text}");
        }
        assert_eq!(moment("2026-03-01T12:00:00.500Z"), "2026-03-01 12:00:00.5+00");
        assert_eq!(moment("2026-03-01T12:00:00.000"), "2026-03-01 12:00:00");
        for (text, expected) in [
            ("-0043-03-15", "0044-03-15 BC"),
            ("0000-12-31 00:00:00", "0001-12-31 00:00:00 BC"),
            ("+10000-01-01", "10000-01-01"),
            ("2026-03-01", "2026-03-01"),
        ] {
            assert_eq!(in_era(text), expected);
        }
    }
}
