//! Regular expressions in PostgreSQL's notation, as the engine's library takes them, and `regexp_replace`.
//!
//! What is written alike and means another thing: `.` and `[^a]` take a line's end too, `\y`, `\m` and `\M` are the borders of
//! words, `\Z` the end, `\b` a backspace and `\B` a backslash; in brackets `&&`, `--` and `[` are just those characters; a brace
//! without a number is itself. What a linear-time library cannot have (references back, looking ahead) is not translated.
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

use super::{refused, strings};
use crate::errors::quoted;

/// Longest pattern that is kept ready, and most of them, where each row has its own.
const KEPT_MAX: usize = 64;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::from(Pattern { signature: Signature::variadic_any(Volatility::Immutable) }),
        ScalarUDF::from(Match { signature: Signature::variadic_any(Volatility::Immutable) }),
        ScalarUDF::from(Numbered {
            is_place: false,
            signature: Signature::variadic_any(Volatility::Immutable),
        }),
        ScalarUDF::from(Numbered {
            is_place: true,
            signature: Signature::variadic_any(Volatility::Immutable),
        }),
        ScalarUDF::from(Replace { signature: Signature::variadic_any(Volatility::Immutable) }),
    ]
}

/// What letters say of how a pattern is read.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    ignores_case: bool,
    /// Blanks and comments are left out.
    is_expanded: bool,
    /// It is the text itself.
    is_literal: bool,
    /// A line's end is matched by no `.` and no `[^a]`.
    stops: bool,
    /// `^` and `$` are at every line.
    by_lines: bool,
}

impl Options {
    /// With what letters say, one after the other; none where one of them is none, or asks for what is not to be had.
    fn with(mut self, letters: &str) -> Option<Options> {
        for letter in letters.chars() {
            match letter {
                'i' => self.ignores_case = true,
                'c' => self.ignores_case = false,
                'x' => self.is_expanded = true,
                't' => self.is_expanded = false,
                'n' | 'm' => (self.stops, self.by_lines) = (true, true),
                's' => (self.stops, self.by_lines) = (false, false),
                'p' => (self.stops, self.by_lines) = (true, false),
                'w' => (self.stops, self.by_lines) = (false, true),
                'q' => self.is_literal = true,
                'e' => self.is_literal = false,
                _ => return None,
            }
        }
        Some(self)
    }
}

/// A pattern as the library takes it; none where a part of it has no counterpart there.
pub(crate) fn translated(pattern: &str) -> Option<String> {
    translated_with(pattern, "")
}

/// The same with flags; none also where one of them is none.
pub(crate) fn translated_with(pattern: &str, flags: &str) -> Option<String> {
    within(pattern, Options::default().with(flags)?, false)
}

/// The same for an operator, `~*` or `~`, which tells the library itself whether case matters.
pub(crate) fn translated_for(pattern: &str, ignores_case: bool) -> Option<String> {
    within(pattern, Options { ignores_case, ..Options::default() }, ignores_case)
}

/// A pattern that is read with `options`, where the library does or does not look at case by itself.
fn within(pattern: &str, mut options: Options, ignores_case: bool) -> Option<String> {
    let mut rest = pattern;
    if !options.is_literal {
        if rest.starts_with("***") {
            return None;
        }
        if let Some((letters, behind)) = rest.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
            && !letters.is_empty()
            && letters.bytes().all(|byte| byte.is_ascii_lowercase())
        {
            options = options.with(letters)?;
            rest = behind;
        }
    }
    let own = String::with_capacity(rest.len() + 8);
    let mut translation = Translation { own, any: false, options };
    if options.is_literal {
        // Nothing of it is left out.
        (translation.own, options.is_expanded) = (regex::escape(rest), false);
    } else {
        translation.all(rest)?;
    }
    let letters = [
        (options.ignores_case && !ignores_case, 'i'),
        (options.is_expanded, 'x'),
        (options.by_lines, 'm'),
        (translation.any && !options.stops, 's'),
    ];
    let letters: String = letters.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
    let minus = if ignores_case && !options.ignores_case { "-i" } else { "" };
    let letters = match letters.is_empty() && minus.is_empty() {
        true => letters,
        false => format!("(?{letters}{minus})"),
    };
    Some(format!("{letters}{}", translation.own))
}

/// A translated pattern for an operator. Of one that means a text DataFusion makes a LIKE, where a backslash means something else;
/// it makes none of a group. Nor does it see that case matters in one of `~*` that begins with `(?-i)`.
pub(crate) fn of_operator(translated: String) -> String {
    let (options, _) = translated.split_once(')').unwrap_or_default();
    let minds_case = options.starts_with("(?") && options.ends_with("-i");
    if minds_case || translated.contains("\\\\") || translated.contains("\\x") {
        format!("({translated})")
    } else {
        translated
    }
}

struct Translation {
    own: String,
    /// Whether a `.` stands in it.
    any: bool,
    options: Options,
}

/// Classes of letters as a `C.UTF-8` of PostgreSQL's has them, for brackets: digits of other scripts are letters there, no space
/// is one that must not be broken at, and marks above letters are none (seen by asking it of every letter that there is).
fn class_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => r"[\p{Alphabetic}\p{Nd}--[0-9\u{363}-\u{36f}]]",
        "alnum" => r"[\p{Alphabetic}\p{Nd}--[\u{363}-\u{36f}]]",
        "word" => r"[_\p{Alphabetic}\p{Nd}--[\u{363}-\u{36f}]]",
        "upper" => r"\p{Uppercase}\p{Lt}",
        "lower" => r"\p{Lowercase}\u{1c5}\u{1c8}\u{1cb}\u{1f2}",
        "digit" => "0-9",
        "xdigit" => "0-9A-Fa-f",
        "blank" => r"\t\x20",
        "space" => r"\t-\r\x20\u{1680}\u{2000}-\u{2006}\u{2008}-\u{200a}\u{2028}\u{2029}\u{205f}\u{3000}",
        "punct" => r"[\P{Cn}--[\p{Alphabetic}\p{Nd}\p{Cc}\p{Z}]]\u{363}-\u{36f}\u{a0}\u{2007}\u{202f}",
        "graph" => r"[\P{Cn}--[\p{Cc}\p{Z}]]\u{a0}\u{2007}\u{202f}",
        "print" => r"[\P{Cn}--[\p{Cc}\u{2028}\u{2029}]]",
        "cntrl" => r"\p{Cc}",
        _ => return None,
    })
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

impl Translation {
    fn all(&mut self, pattern: &str) -> Option<()> {
        let mut rest = pattern.chars().peekable();
        while let Some(char) = rest.next() {
            match char {
                '\\' => self.escape(&mut rest, false)?,
                '[' => match rest.clone().take(6).collect::<String>().as_str() {
                    border @ ("[:<:]]" | "[:>:]]") => {
                        self.own.push_str(if border == "[:<:]]" { "\\b{start}" } else { "\\b{end}" });
                        rest.by_ref().take(6).for_each(drop);
                    }
                    _ => self.class(&mut rest)?,
                },
                '(' if rest.peek() == Some(&'?') => {
                    let ahead: String = rest.clone().take(2).collect();
                    if ahead != "?:" {
                        return None;
                    }
                    self.own.push('(');
                }
                '{' if !rest.peek().is_some_and(char::is_ascii_digit) => self.own.push_str("\\{"),
                '.' => {
                    self.any = true;
                    self.own.push('.');
                }
                other => self.own.push(other),
            }
        }
        Some(())
    }

    fn escape(&mut self, rest: &mut Rest<'_>, in_class: bool) -> Option<()> {
        let escaped = rest.next()?;
        let number = |rest: &mut Rest<'_>, most: usize| {
            let mut digits = String::new();
            while digits.len() < most && rest.peek().is_some_and(char::is_ascii_hexdigit) {
                digits.extend(rest.next());
            }
            char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
        };
        let plain = match escaped {
            'm' if !in_class => return self.border("\\b{start}"),
            'M' if !in_class => return self.border("\\b{end}"),
            'y' if !in_class => return self.border("\\b"),
            'Y' if !in_class => return self.border("\\B"),
            'A' if !in_class => return self.border("\\A"),
            'Z' if !in_class => return self.border("\\z"),
            letter @ ('d' | 'w' | 's' | 'D' | 'W' | 'S') => {
                let class = class_of(match letter.to_ascii_lowercase() {
                    'd' => "digit",
                    'w' => "word",
                    _ => "space",
                })?;
                match (letter.is_ascii_lowercase(), in_class) {
                    (true, true) => self.own.push_str(class),
                    (true, false) => self.own.push_str(&format!("[{class}]")),
                    (false, false) => self.own.push_str(&format!("[^{class}]")),
                    (false, true) => return None,
                }
                return Some(());
            }
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => number(rest, 8)?,
            'u' => number(rest, 4)?,
            'U' => number(rest, 8)?,
            other if other.is_alphanumeric() => return None,
            other => other,
        };
        self.own.push_str(&regex::escape(&plain.to_string()));
        Some(())
    }

    fn border(&mut self, border: &str) -> Option<()> {
        self.own.push_str(border);
        Some(())
    }

    /// What stands in brackets.
    fn class(&mut self, rest: &mut Rest<'_>) -> Option<()> {
        self.own.push('[');
        if rest.next_if_eq(&'^').is_some() {
            self.own.push('^');
            if self.options.stops {
                self.own.push_str("\\n");
            }
        }
        let mut is_first = true;
        loop {
            let char = rest.next()?;
            match char {
                ']' if !is_first => break,
                '[' if rest.peek() == Some(&':') => {
                    let name: String = rest.by_ref().take_while(|char| *char != ']').collect();
                    let name = name.strip_prefix(':').and_then(|name| name.strip_suffix(':'))?;
                    self.own.push_str(class_of(match name {
                        // Where case does not matter, either stands for all letters, those without a case too.
                        "upper" | "lower" if self.options.ignores_case => "alpha",
                        name => name,
                    })?);
                }
                '[' if matches!(rest.peek(), Some('.' | '=')) => return None,
                '\\' => self.escape(rest, true)?,
                '-' if is_first || rest.peek() == Some(&']') => self.own.push_str("\\-"),
                '-' => self.own.push('-'),
                '[' | ']' | '&' | '~' | '^' => self.own.extend(['\\', char]),
                // The library leaves blanks out there, too.
                blank if self.options.is_expanded && (blank.is_whitespace() || blank == '#') => {
                    self.own.push_str(&format!("\\u{{{:x}}}", u32::from(blank)));
                }
                other => self.own.push(other),
            }
            is_first = false;
        }
        self.own.push(']');
        Some(())
    }
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
    fn patterns_mean_what_they_mean_in_postgresql() {
        for (pattern, text, expected) in [
            ("a.b", "a\nb", true),
            ("(?n)a.b", "a\nb", false),
            ("^b", "a\nb", false),
            ("(?n)^b", "a\nb", true),
            ("a$", "a\n", false),
            (r"\mfoo\M", "a foo b", true),
            (r"\mfoo\M", "afoo b", false),
            (r"\yfoo", "a foo", true),
            (r"foo\Z", "foo", true),
            (r"[[:<:]]ba[rz][[:>:]]", "foo baz", true),
            (r"[[:<:]]a", "ba", false),
            (r"o\Yo", "foo", true),
            (r"^[[:alpha:]_]+\Z", "ab_c", true),
            (r"[\\m]", "m", true),
            (r"[\&]", "&", true),
            ("[a&&b]", "&", true),
            ("[a[b]", "[", true),
            ("[]a]", "]", true),
            ("[^]a]", "]", false),
            ("[[:digit:]x]", "x", true),
            ("[a-c-]", "-", true),
            ("x{y", "x{y", true),
            ("x{2}", "xx", true),
            (r"\x41", "A", true),
            (r"a\B", r"a\", true),
            ("(?i)ABC", "abc", true),
            ("(?:a|b)c", "bc", true),
            (r"\.", "a", false),
            (r"^[[:alpha:]]+$", "über", true),
            (r"[[:upper:]]", "É", true),
            (r"[[:upper:]]", "日", false),
            (r"(?i)^[[:upper:]]+[[:lower:]]$", "é日É", true),
            (r"[^[:alnum:] ]", "Müller Söhne", false),
            (r"\d", "٣", false),
            (r"\s", "\u{a0}", false),
            (r"^[\s\w]+$", "é _1", true),
            (r"\W", "é", false),
            (r"^\D\S$", "é٣", true),
            ("(?n)a[^b]", "a\n", false),
            ("(?p)^b", "a\nb", false),
            ("(?w)^b.", "a\nb\n", true),
            ("(?q)a.", "ab", false),
            ("(?x)a b", "ab", true),
            ("(?x)a[ #]b", "a b", true),
        ] {
            let own = translated(pattern).unwrap_or_else(|| panic!("{pattern}"));
            let regex = Regex::new(&own).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} as {own} of {text:?}");
        }
        for (pattern, ignores_case, text, expected) in [
            ("[[:upper:]]", true, "日", true),
            ("[[:upper:]]", false, "日", false),
            ("(?c)a", true, "A", false),
            ("(?i)a", false, "A", true),
            ("(?i)a.", true, "A\n", true),
        ] {
            let own = translated_for(pattern, ignores_case).unwrap_or_else(|| panic!("{pattern}"));
            let regex = regex::RegexBuilder::new(&own).case_insensitive(ignores_case).build();
            let regex = regex.unwrap_or_else(|error| panic!("{own}: {error}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} as {own} of {text:?}");
        }
        for pattern in
            [r"(a)\1", "a(?=b)", "a(?!b)", "[[.a.]]", "***=a", r"\q", "[a", "[[:letter:]]", "(?b)a"]
        {
            assert_eq!(translated(pattern), None, "{pattern}");
        }
    }

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
