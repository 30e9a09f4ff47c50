//! `regexp_match`, `regexp_replace`, `regexp_count` and `regexp_instr`, over patterns in PostgreSQL's notation (`notation`).
//!
//! In a replacement `\&` and `\1` are what was found, and a dollar sign is one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::{Captures, Regex};

use super::notation::{Options, of_operator, translated_for, translated_with};
use super::{refused, strings};
use crate::errors::quoted;

/// Longest pattern that is kept ready, and most of them, where each row has its own.
const KEPT_MAX: usize = 64;

pub(super) fn to_regex() -> ScalarUDF {
    ScalarUDF::from(Pattern { signature: Signature::variadic_any(Volatility::Immutable) })
}

pub(super) fn regexp_match() -> ScalarUDF {
    ScalarUDF::from(Match { signature: Signature::variadic_any(Volatility::Immutable) })
}

/// `regexp_instr` or `regexp_count`.
pub(super) fn numbered(is_place: bool) -> ScalarUDF {
    ScalarUDF::from(Numbered { is_place, signature: Signature::variadic_any(Volatility::Immutable) })
}

pub(super) fn regexp_replace() -> ScalarUDF {
    ScalarUDF::from(Replace { signature: Signature::variadic_any(Volatility::Immutable) })
}

/// `to_regex(pattern)`, for patterns that are not written in the statement; `to_regex(pattern, 'i')` for an operator that does not
/// look at case.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pattern {
    signature: Signature,
}

impl ScalarUDFImpl for Pattern {
    fn name(&self) -> &str {
        "to_regex"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let patterns = strings(&args.args[0].to_array(args.number_rows)?)?;
        let mut own = StringBuilder::new();
        for pattern in patterns.as_string::<i32>() {
            match pattern.map(|pattern| translated_for(pattern, args.args.len() > 1)) {
                None => own.append_null(),
                Some(Some(translated)) => own.append_value(of_operator(translated)),
                Some(None) => return exec_err!("a regex cannot be understood"),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(own.finish())))
    }
}

/// `regexp_match(text, pattern)`, then flags: what the groups of the first match took, NULL for one that took nothing, or the
/// whole match where there are no groups.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Match {
    signature: Signature,
}

impl ScalarUDFImpl for Match {
    fn name(&self) -> &str {
        "regexp_match"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.len() {
            2 | 3 => Ok(DataType::new_list(DataType::Utf8, true)),
            _ => plan_err!("the function regexp_match takes two or three arguments"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts = args.args.iter().map(|arg| strings(&arg.to_array(rows)?)).collect::<Result<Vec<_>>>()?;
        let texts: Vec<&StringArray> = texts.iter().map(|texts| texts.as_string::<i32>()).collect();
        let mut ready = HashMap::new();
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in 0..rows {
            if texts.iter().any(|texts| texts.is_null(row)) {
                lists.append_null();
                continue;
            }
            let flags = texts.get(2).map_or("", |flags| flags.value(row));
            let regex = ready_for(&mut ready, texts[1].value(row), flags, self.name())?;
            let first = usize::from(regex.captures_len() > 1);
            let found = regex.captures(texts[0].value(row));
            lists.append_option(found.map(|found| {
                let groups = (first..found.len()).map(|group| found.get(group));
                groups.map(|group| group.map(|part| part.as_str().to_owned())).collect::<Vec<_>>()
            }));
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}

/// `regexp_replace(text, pattern, replacement)`, then flags, or from where on, which one, and flags.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Replace {
    signature: Signature,
}

impl ScalarUDFImpl for Replace {
    fn name(&self) -> &str {
        "regexp_replace"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.len() {
            3..=6 => Ok(DataType::Utf8),
            _ => plan_err!("the function regexp_replace takes three to six arguments"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let texts = arrays[..3].iter().map(strings).collect::<Result<Vec<_>>>()?;
        let texts: Vec<&StringArray> = texts.iter().map(|texts| texts.as_string::<i32>()).collect();
        let is_number = |array: &ArrayRef| array.data_type().is_integer();
        let numbers = arrays[3..].iter().take_while(|array| is_number(array));
        let numbers = numbers.map(|array| Ok(cast(array, &DataType::Int64)?)).collect::<Result<Vec<_>>>()?;
        let numbers: Vec<&Int64Array> =
            numbers.iter().map(|array| array.as_primitive::<Int64Type>()).collect();
        let flags = arrays.get(3 + numbers.len()).map(strings).transpose()?;
        let mut ready = HashMap::new();
        let mut own = StringBuilder::new();
        for row in 0..rows {
            let is_null = arrays.iter().any(|array| array.is_null(row));
            if is_null {
                own.append_null();
                continue;
            }
            let flags = flags.as_ref().map_or("", |flags| flags.as_string::<i32>().value(row));
            let pattern = texts[1].value(row);
            let regex = ready_for(&mut ready, pattern, flags, self.name())?;
            let which = Which {
                start: numbers.first().map_or(1, |numbers| numbers.value(row)),
                nth: match numbers.get(1) {
                    Some(numbers) => numbers.value(row),
                    None => i64::from(!flags.contains('g')),
                },
            };
            own.append_value(which.replaced(regex, texts[0].value(row), texts[2].value(row))?);
        }
        Ok(ColumnarValue::Array(Arc::new(own.finish())))
    }
}

/// A pattern with its flags, ready; of which `g` is one only where all matches can be meant.
fn compiled(pattern: &str, flags: &str, function: &str) -> Result<Regex> {
    let is_global = flags.contains('g');
    if is_global && function != "regexp_replace" {
        return refused(format!("The flag g is not one of {function}."));
    }
    let flags: String = flags.chars().filter(|flag| *flag != 'g').collect();
    if Options::default().with(&flags).is_none() {
        return refused(format!("\"{}\" are no flags of a regular expression.", quoted(&flags)));
    }
    let own = translated_with(pattern, &flags).and_then(|own| Regex::new(&own).ok());
    own.map_or_else(|| exec_err!("a regex cannot be understood"), Ok)
}

/// The matches in a text from a place on, as PostgreSQL goes through them: one without a length may stand right behind another.
/// `^` is where the text begins, wherever is looked from.
struct Found<'a> {
    regex: &'a Regex,
    text: &'a str,
    at: Option<usize>,
}

impl<'a> Iterator for Found<'a> {
    type Item = Captures<'a>;

    fn next(&mut self) -> Option<Captures<'a>> {
        let found = self.regex.captures_at(self.text, self.at?)?;
        let place = found.get_match();
        let end = place.end();
        self.at = match place.is_empty() {
            true => self.text[end..].chars().next().map(|char| end + char.len_utf8()),
            false => Some(end),
        };
        Some(found)
    }
}

/// The matches from a character on, counted from one.
fn found_from<'a>(regex: &'a Regex, text: &'a str, start: i64) -> Found<'a> {
    let skipped = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let mut places = text.char_indices().map(|(place, _)| place).chain([text.len()]);
    Found { regex, text, at: places.nth(skipped) }
}

/// Which of the matches are replaced.
struct Which {
    /// From which character on is looked, counted from one.
    start: i64,
    /// The how many-th is replaced; zero means all.
    nth: i64,
}

impl Which {
    fn replaced(&self, regex: &Regex, text: &str, replacement: &str) -> Result<String> {
        if self.start < 1 || self.nth < 0 {
            return exec_err!("regexp_replace counts characters and matches from one");
        }
        let mut own = String::with_capacity(text.len());
        let mut at = 0;
        for (found, number) in found_from(regex, text, self.start).zip(1_i64..) {
            if self.nth == 0 || self.nth == number {
                let place = found.get_match();
                own.push_str(&text[at..place.start()]);
                expand(&found, replacement, &mut own);
                at = place.end();
            }
            if self.nth == number {
                break;
            }
        }
        own.push_str(&text[at..]);
        Ok(own)
    }
}

/// `regexp_count(text, pattern, start, flags)`: how many matches there are; `regexp_instr(text, pattern, start, n, end, flags, group)`:
/// at which character the n-th begins or, with an `end` of 1, what stands behind it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Numbered {
    is_place: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Numbered {
    fn name(&self) -> &str {
        if self.is_place { "regexp_instr" } else { "regexp_count" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let most = if self.is_place { 7 } else { 4 };
        match arguments.len() {
            count if (2..=most).contains(&count) => Ok(DataType::Int64),
            _ => plan_err!("the function {} takes two to {most} arguments", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let of_flags = if self.is_place { 5 } else { 3 };
        let texts = [arrays.first(), arrays.get(1), arrays.get(of_flags)].map(|array| array.map(strings));
        let [texts, patterns, flags] = texts.map(Option::transpose);
        let (texts, patterns, flags) = (texts?, patterns?, flags?);
        let (Some(texts), Some(patterns)) = (&texts, &patterns) else {
            return exec_err!("{} got no pattern", self.name());
        };
        let number = |place: usize| arrays.get(place).map(|array| cast(array, &DataType::Int64)).transpose();
        let numbers = [number(2)?, number(3).ok().flatten(), number(4)?, number(6)?];
        let given = |which: usize, row: usize, otherwise: i64| {
            let is_flags = !self.is_place && which == 1;
            let numbers = numbers[which].as_ref().filter(|_| !is_flags);
            numbers.map_or(otherwise, |numbers| numbers.as_primitive::<Int64Type>().value(row))
        };
        let mut ready = HashMap::new();
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            if arrays.iter().any(|array| array.is_null(row)) {
                found.push(None);
                continue;
            }
            let flags = flags.as_ref().map_or("", |flags| flags.as_string::<i32>().value(row));
            let pattern = patterns.as_string::<i32>().value(row);
            let regex = ready_for(&mut ready, pattern, flags, self.name())?;
            let (start, nth) = (given(0, row, 1), given(1, row, 1));
            let (end, group) = (given(2, row, 0), given(3, row, 0));
            if start < 1 || nth < 1 || !matches!(end, 0 | 1) || group < 0 {
                return exec_err!("{} counts characters and matches from one", self.name());
            }
            let text = texts.as_string::<i32>().value(row);
            let mut matches = found_from(regex, text, start);
            if !self.is_place {
                found.push(i64::try_from(matches.count()).ok());
                continue;
            }
            let nth = matches.nth(usize::try_from(nth - 1).unwrap_or(usize::MAX));
            let part = nth.and_then(|found| found.get(usize::try_from(group).ok()?));
            let place = part.map(|part| if end == 1 { part.end() } else { part.start() });
            found.push(Some(place.map_or(0, |place| text[..place].chars().count() as i64 + 1)));
        }
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(found))))
    }
}

/// A pattern with its flags, made ready once.
fn ready_for<'a>(
    ready: &'a mut HashMap<(String, String), Regex>,
    pattern: &str,
    flags: &str,
    function: &str,
) -> Result<&'a Regex> {
    if ready.len() > KEPT_MAX {
        ready.clear();
    }
    match ready.entry((pattern.to_owned(), flags.to_owned())) {
        Entry::Occupied(kept) => Ok(kept.into_mut()),
        Entry::Vacant(place) => Ok(place.insert(compiled(pattern, flags, function)?)),
    }
}

/// `\&` is all that was found, `\1` a part of it, `\\` a backslash; another backslash is one.
fn expand(found: &Captures<'_>, replacement: &str, own: &mut String) {
    let mut chars = replacement.chars().peekable();
    while let Some(char) = chars.next() {
        let group = match (char, chars.peek()) {
            ('\\', Some('&')) => 0,
            ('\\', Some(digit @ '1'..='9')) => *digit as usize - '0' as usize,
            ('\\', Some('\\')) => {
                chars.next();
                own.push('\\');
                continue;
            }
            _ => {
                own.push(char);
                continue;
            }
        };
        chars.next();
        own.push_str(found.get(group).map_or("", |part| part.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_name_what_was_found() {
        for (text, pattern, replacement, flags, expected) in [
            ("abc", "b", r"[\&]", "", "a[b]c"),
            ("abcb", "(b)", r"<\1\\>", "g", r"a<b\>c<b\>"),
            ("abc", "b", "$1", "", "a$1c"),
            ("abc", "b", r"\x", "", r"a\xc"),
            ("abc", "b", r"x\", "", r"ax\c"),
            ("aBc", "b", "-", "i", "a-c"),
            ("a\nb", "a.b", "-", "n", "a\nb"),
            ("aaa", "a", "b", "", "baa"),
            ("baaac", "a*", "X", "g", "XbXXcX"),
            ("a.b", ".", "X", "q", "aXb"),
            ("a\nb", "[^a]", "X", "gn", "a\nX"),
        ] {
            let regex = compiled(pattern, flags, "regexp_replace").expect("a regex");
            let which = Which { start: 1, nth: i64::from(!flags.contains('g')) };
            assert_eq!(which.replaced(&regex, text, replacement).expect("in range"), expected);
        }
        let which = Which { start: 2, nth: 2 };
        let regex = compiled("a", "", "regexp_replace").expect("a regex");
        assert_eq!(which.replaced(&regex, "aaaa", "b").expect("in range"), "aaba");
        let which = Which { start: 2, nth: 1 };
        for (pattern, expected) in [("aa", "aX"), ("^a", "aaa")] {
            let regex = compiled(pattern, "", "regexp_replace").expect("a regex");
            assert_eq!(which.replaced(&regex, "aaa", "X").expect("in range"), expected);
        }
        assert!(compiled("a", "y", "regexp_replace").is_err() && compiled("a", "g", "regexp_like").is_err());
    }
}
