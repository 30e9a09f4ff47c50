//! Regular expressions in PostgreSQL's notation, as the engine's library takes them.
//!
//! What is written alike and means another thing: `.` and `[^a]` take a line's end too, `\y`, `\m` and `\M` are the borders of
//! words, `\Z` the end, `\b` a backspace and `\B` a backslash; in brackets `&&`, `--` and `[` are just those characters; a brace
//! without a number is itself. What a linear-time library cannot have (references back, looking ahead) is not translated.

/// What letters say of how a pattern is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
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
    pub(super) fn with(mut self, letters: &str) -> Option<Options> {
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

#[cfg(test)]
mod tests {
    use regex::Regex;

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
}
