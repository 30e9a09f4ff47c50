//! Regular expressions in PostgreSQL's notation, as the engine's library takes them, and `regexp_replace`.
//!
//! What is written alike and means another thing: `.` and `[^a]` take a line's end too, `\y`, `\m` and `\M` are the borders of
//! words, `\Z` the end, `\b` a backspace and `\B` a backslash; in brackets `&&`, `--` and `[` are just those characters; a brace
//! without a number is itself. What a linear-time library cannot have (references back, looking ahead) is not translated.
//! In a replacement `\&` and `\1` are what was found, and a dollar sign is one.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::{Captures, Regex, RegexBuilder};

use super::strings;

/// Longest pattern that is kept ready, and most of them, where each row has its own.
const KEPT_MAX: usize = 64;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::from(Pattern { signature: Signature::any(1, Volatility::Immutable) }),
        ScalarUDF::from(Match { signature: Signature::variadic_any(Volatility::Immutable) }),
        ScalarUDF::from(Replace { signature: Signature::variadic_any(Volatility::Immutable) }),
    ]
}

/// A pattern as the library takes it; none where a part of it has no counterpart there.
pub(crate) fn translated(pattern: &str) -> Option<String> {
    let mut options = String::new();
    let mut rest = pattern;
    let mut any_ends_lines = false;
    if rest.starts_with("***") {
        return None;
    }
    if let Some((letters, behind)) = rest.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && !letters.is_empty()
        && letters.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        for letter in letters.chars() {
            match letter {
                'i' | 'x' => options.push(letter),
                'n' | 'm' => any_ends_lines = true,
                's' | 'c' | 't' => {}
                _ => return None,
            }
        }
        rest = behind;
    }
    let mut translation = Translation { own: String::with_capacity(rest.len() + 8), any: false };
    translation.all(rest)?;
    match (any_ends_lines, translation.any) {
        (true, _) => options.push('m'),
        (false, true) => options.push('s'),
        (false, false) => {}
    }
    let options = if options.is_empty() { options } else { format!("(?{options})") };
    Some(format!("{options}{}", translation.own))
}

/// A translated pattern for an operator. Of one that means a text DataFusion makes a LIKE, where a backslash means something else;
/// it makes none of a group.
pub(crate) fn of_operator(translated: String) -> String {
    if translated.contains("\\\\") || translated.contains("\\x") {
        format!("({translated})")
    } else {
        translated
    }
}

struct Translation {
    own: String,
    /// Whether a `.` stands in it.
    any: bool,
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
            'd' | 'w' | 's' => {
                self.own.extend(['\\', escaped]);
                return Some(());
            }
            'D' | 'W' | 'S' if !in_class => {
                self.own.extend(['\\', escaped]);
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
        }
        let mut is_first = true;
        loop {
            let char = rest.next()?;
            match char {
                ']' if !is_first => break,
                '[' if rest.peek() == Some(&':') => {
                    let name: String = rest.by_ref().take_while(|char| *char != ']').collect();
                    self.own.push_str(&format!("[{name}]"));
                }
                '[' if matches!(rest.peek(), Some('.' | '=')) => return None,
                '\\' => self.escape(rest, true)?,
                '-' if is_first || rest.peek() == Some(&']') => self.own.push_str("\\-"),
                '-' => self.own.push('-'),
                '[' | ']' | '&' | '~' | '^' => self.own.extend(['\\', char]),
                other => self.own.push(other),
            }
            is_first = false;
        }
        self.own.push(']');
        Some(())
    }
}

/// `to_regex(pattern)`, for patterns that are not written in the statement.
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
            match pattern.map(translated) {
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
            _ => datafusion::common::plan_err!("the function regexp_match takes two or three arguments"),
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
            if ready.len() > KEPT_MAX {
                ready.clear();
            }
            let key = (texts[1].value(row).to_owned(), flags.to_owned());
            let regex: &Regex = match ready.get(&key) {
                Some(regex) => regex,
                None => ready.entry(key).or_insert(compiled(texts[1].value(row), flags)?),
            };
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
            _ => datafusion::common::plan_err!("the function regexp_replace takes three to six arguments"),
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
            if ready.len() > KEPT_MAX {
                ready.clear();
            }
            let key = (pattern.to_owned(), flags.to_owned());
            let regex = match ready.get(&key) {
                Some(regex) => regex,
                None => ready.entry(key).or_insert(compiled(pattern, flags)?),
            };
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

fn compiled(pattern: &str, flags: &str) -> Result<Regex> {
    let own = match translated(pattern) {
        Some(own) => own,
        None => return exec_err!("a regex cannot be understood"),
    };
    let by_lines = flags.contains(['n', 'm']);
    let own = if by_lines { format!("(?-s){}", own.replacen("(?s)", "", 1)) } else { own };
    let mut builder = RegexBuilder::new(&own);
    builder.case_insensitive(flags.contains('i')).multi_line(by_lines).ignore_whitespace(flags.contains('x'));
    builder.build().or_else(|_| exec_err!("a regex cannot be understood"))
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
        let skipped = usize::try_from(self.start - 1).unwrap_or(usize::MAX);
        let from = text.char_indices().nth(skipped).map_or(text.len(), |(place, _)| place);
        let mut own = String::with_capacity(text.len());
        own.push_str(&text[..from]);
        let mut at = from;
        // Behind the first place the text begins only where PostgreSQL lets it: not at all.
        let found = regex.captures_iter(text).filter(|found| found.get_match().start() >= from);
        for (found, number) in found.zip(1_i64..) {
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
        ] {
            let own = translated(pattern).unwrap_or_else(|| panic!("{pattern}"));
            let regex = Regex::new(&own).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), expected, "{pattern} as {own} of {text:?}");
        }
        for pattern in [r"(a)\1", "a(?=b)", "a(?!b)", "[[.a.]]", "***=a", r"\q", "[a"] {
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
        ] {
            let regex = compiled(pattern, flags).expect("a regex");
            let which = Which { start: 1, nth: i64::from(!flags.contains('g')) };
            assert_eq!(which.replaced(&regex, text, replacement).expect("in range"), expected);
        }
        let which = Which { start: 2, nth: 2 };
        let regex = compiled("a", "").expect("a regex");
        assert_eq!(which.replaced(&regex, "aaaa", "b").expect("in range"), "aaba");
    }
}
