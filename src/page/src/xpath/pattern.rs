//! Regular expressions of `re:test`, `re:match` and `re:replace`, as Python's `re` spells them, on Rust's `regex`.
//!
//! Our users' patterns were written for lxml, which hands them to Python. Most mean the same in both; what differs and can
//! be said is rewritten here: `\Z`, `$` before a final newline, a `[` or a set operator inside a class, `{` that is no repetition. What takes more than
//! linear time (look-around, back-references) is refused with a message that names it.

use regex::{Regex, RegexBuilder};

/// Memory that one compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 512 << 10;

/// Memory that matching with one pattern may take for its lazily built automaton.
const AUTOMATON_BYTES_MAX: usize = 2 << 20;

/// Fuel is paid for bytes times positions (see [`positions`]), this many a unit. A pattern that defeats the automaton is
/// simulated at about 9 ns a byte and position; one that does not takes about 1 ns a byte and pays for what it might do.
const BYTE_POSITIONS_A_UNIT: u64 = 8;

/// A compiled regular expression that knows what it costs.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    positions: u64,
    /// It holds a `$`, which Python also lets match before a newline that ends the text.
    has_end: bool,
}

impl Pattern {
    /// Compiles a pattern with the flags of EXSLT (`i`; `g` is the caller's) and Python's `s`, `m`, `x`.
    ///
    /// The error is a sentence for the pattern's author.
    pub fn compile(pattern: &str, flags: &str) -> Result<Pattern, String> {
        let (translated, has_end) = translate(pattern)?;
        Pattern::build(&translated, flags, has_end)
    }

    /// Compiles a pattern in Rust's own spelling.
    pub(crate) fn build(translated: &str, flags: &str, has_end: bool) -> Result<Pattern, String> {
        let regex = RegexBuilder::new(translated)
            .case_insensitive(flags.contains('i'))
            .dot_matches_new_line(flags.contains('s'))
            .multi_line(flags.contains('m'))
            .ignore_whitespace(flags.contains('x'))
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(AUTOMATON_BYTES_MAX)
            .build()
            .map_err(|error| format!("wrong regular expression: {}", reason(&error)))?;
        Ok(Pattern { regex, positions: positions(translated), has_end })
    }

    /// Whether it matches somewhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text) || self.shortened(text).is_some_and(|shorter| self.regex.is_match(shorter))
    }

    /// The part of the text that is to be searched: without the newline that ends it where only that makes a match.
    pub fn searched<'t>(&self, text: &'t str) -> &'t str {
        self.shortened(text).filter(|_| !self.regex.is_match(text)).unwrap_or(text)
    }

    fn shortened<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.strip_suffix('\n').filter(|_| self.has_end)
    }

    /// Fuel for searching a text of so many bytes.
    pub fn cost(&self, bytes: usize) -> u64 {
        1 + (bytes as u64).saturating_mul(self.positions + 2) / BYTE_POSITIONS_A_UNIT
    }

    /// The compiled pattern itself.
    pub fn regex(&self) -> &Regex {
        &self.regex
    }
}

/// The last line of the error, which says what is wrong; the lines before it draw the pattern.
fn reason(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "it is too large".to_owned();
    }
    let text = error.to_string();
    let last = text.lines().last().unwrap_or("").trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// How many characters the pattern holds once its counted repetitions are written out: a bound of the states that a
/// simulation of it can be in at a time.
fn positions(translated: &str) -> u64 {
    // For each open group: the sum so far, and the size of the last atom in it, which a count would multiply.
    let mut open: Vec<(u64, u64)> = vec![(0, 0)];
    let mut rest = translated;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        let (sum, last) = open.last().copied().unwrap_or_default();
        let mut top = (sum.saturating_add(1), 1);
        match first {
            '\\' => taken += rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' => taken += class_length(&rest[1..]),
            '(' => {
                open.push((0, 0));
                top = (0, 0);
            }
            ')' if open.len() > 1 => {
                open.pop();
                let outer = open.last().map_or(0, |(outer, _)| *outer);
                top = (outer.saturating_add(sum), sum);
            }
            '*' | '+' | '?' | '|' | '^' | '$' => top = (sum, last),
            '{' => {
                let end = rest.find('}').unwrap_or(0);
                let most = rest[1..end.max(1)].split(',').filter_map(|count| count.parse::<u64>().ok()).max();
                let times = most.unwrap_or(1).max(1);
                let grown = last.saturating_mul(times);
                top = (sum.saturating_add(grown - last.min(grown)), grown);
                taken = end + 1;
            }
            _ => {}
        }
        if let Some(slot) = open.last_mut() {
            *slot = top;
        }
        rest = &rest[taken..];
    }
    open.iter().fold(0, |total, (sum, _)| total.saturating_add(*sum))
}

/// Bytes up to and including the bracket that closes a class.
fn class_length(body: &str) -> usize {
    let mut escaped = false;
    let end = body.char_indices().find(|(_, character)| {
        let closes = *character == ']' && !escaped;
        escaped = *character == '\\' && !escaped;
        closes
    });
    end.map_or(body.len(), |(at, _)| at + 1)
}

/// The pattern in Rust's spelling, and whether it holds a `$`.
fn translate(pattern: &str) -> Result<(String, bool), String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut class_depth = 0_usize;
    let mut has_end = false;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        let in_class = class_depth > 0;
        match first {
            '\\' => {
                let escaped = rest[1..].chars().next().ok_or("wrong regular expression: it ends in `\\`")?;
                taken += escaped.len_utf8();
                escape(escaped, in_class, &rest[..taken], &mut out)?;
            }
            '(' if !in_class && is_look_around(rest) => {
                return Err("wrong regular expression: look-around is not supported".to_owned());
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                class_depth = 1;
                out.push('[');
                // A `]` in the first place is a member.
                let negated = rest[1..].starts_with('^');
                let body = 1 + usize::from(negated);
                out.push_str(&rest[1..body]);
                taken = body;
                if rest[body..].starts_with(']') {
                    out.push_str("\\]");
                    taken += 1;
                }
            }
            ']' if in_class => {
                class_depth = 0;
                out.push(']');
            }
            // `&&`, `--` and `~~` are set operators in Rust and plain members in Python.
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(first);
            }
            '-' if in_class && rest[1..].starts_with('-') => out.push_str("\\-"),
            '{' if !in_class => taken = braces(rest, &mut out),
            '}' if !in_class => out.push_str("\\}"),
            other => out.push(other),
        }
        has_end |= first == '$' && !in_class;
        rest = &rest[taken..];
    }
    Ok((out, has_end))
}

fn escape(escaped: char, in_class: bool, both: &str, out: &mut String) -> Result<(), String> {
    match escaped {
        'Z' if !in_class => out.push_str("\\z"),
        '1'..='9' if !in_class => {
            return Err("wrong regular expression: back-references are not supported".to_owned());
        }
        'b' if in_class => out.push_str("\\x08"),
        '0' => out.push_str("\\x00"),
        // Python lets any other character be escaped; Rust refuses the ones that are nothing special.
        '<' | '>' => out.push(escaped),
        other if !other.is_ascii() => out.push(other),
        _ => out.push_str(both),
    }
    Ok(())
}

fn is_look_around(rest: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|start| rest.starts_with(start))
}

/// Writes what stands at an opening brace and tells how many bytes that was. `{2}`, `{2,}`, `{2,3}` and `{,3}` repeat,
/// `\p{..}` and `\x{..}` are Rust's; any other brace is itself.
fn braces(rest: &str, out: &mut String) -> usize {
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(end) = rest.find('}') {
        let body = &rest[1..end];
        let (least, most) = body.split_once(',').unwrap_or((body, body));
        if is_count(least) && (most.is_empty() || is_count(most)) || is_after_property(out) {
            out.push_str(&rest[..=end]);
            return end + 1;
        }
        if least.is_empty() && is_count(most) {
            out.push_str("{0,");
            out.push_str(&rest[2..=end]);
            return end + 1;
        }
    }
    out.push_str("\\{");
    1
}

/// True where the output ends in `\p`, `\P`, `\x`, `\u` or `\U`.
fn is_after_property(out: &str) -> bool {
    let Some(before) = out.strip_suffix(['p', 'P', 'x', 'u', 'U']) else { return false };
    let slashes = before.bytes().rev().take_while(|byte| *byte == b'\\').count();
    slashes % 2 == 1
}

/// Python's replacement template: `\1`, `\g<name>`, `\n`, `\\`; everything else, `$` included, is itself.
pub(super) fn expand(template: &str, captures: &regex::Captures<'_>, out: &mut String) {
    let mut rest = template;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escaped) = rest.chars().next() else {
            out.push('\\');
            return;
        };
        let digits = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let group = rest[..digits].parse().unwrap_or(usize::MAX);
            out.push_str(captures.get(group).map_or("", |found| found.as_str()));
            rest = &rest[digits..];
            continue;
        }
        if let Some((name, after)) = rest.strip_prefix("g<").and_then(|body| body.split_once('>')) {
            let found = match name.parse() {
                Ok(group) => captures.get(group),
                Err(_) => captures.name(name),
            };
            out.push_str(found.map_or("", |found| found.as_str()));
            rest = after;
            continue;
        }
        match escaped {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\\' => out.push('\\'),
            other => out.extend(['\\', other]),
        }
        rest = &rest[escaped.len_utf8()..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_what_repetition_makes_of_them() {
        let cases = [
            ("", 0),
            ("abc", 3),
            ("a*b+c?", 3),
            ("[^a-z\\]x]y", 2),
            ("a{3}", 3),
            ("(ab){2,5}c", 11),
            ("(a(bc){3}){4}", 28),
            ("\\d{1,3}(?:[.,]\\d{3})*", 8),
            ("a|b|c", 3),
            ("((x{9}){9}){9}", 729),
        ];
        for (pattern, expected) in cases {
            assert_eq!(positions(pattern), expected, "{pattern}");
        }
        assert_eq!(positions(&"(".repeat(3)), 0);
        assert!(positions("((((((x{999}){999}){999}){999}){999}){999}){999}") > 1 << 60);
    }

    #[test]
    fn python_spelling_is_understood() {
        let is = |pattern: &str, text: &str| Pattern::compile(pattern, "").unwrap().is_match(text);
        assert!(is(r"[[]", "["));
        assert!(is(r"[]a]", "]"));
        assert!(is(r"[^]a]", "b") && !is(r"^[^]a]$", "]"));
        assert!(is(r"a&&b[&&]", "a&&b&"));
        assert!(is(r"^x\Z", "x") && !is(r"x\Z", "x\n") && !is(r"[$]", "x\n") && !is(r"\$", "x\n"));
        assert!(is(r"x$", "x\n") && is(r"^\d+$|y", "12\n") && !is(r"x$", "x\n\n") && is(r"^$", "\n"));
        assert!(is(r"{a}", "{a}") && is(r"a{,2}$", "aa") && is(r"^\x{41}$", "A") && is(r"^\p{Lu}$", "Ä"));
        assert!(is(r"[\b]", "\u{8}"));
        assert!(is(r"\<\/\>\ä", "</>ä"));
    }

    #[test]
    fn templates_are_python_s() {
        let regex = Pattern::compile(r"(?P<first>a)(b)?", "").unwrap();
        let captures = regex.regex().captures("xa").unwrap();
        let expanded = |template: &str| {
            let mut out = String::new();
            expand(template, &captures, &mut out);
            out
        };
        assert_eq!(expanded(r"<\1\2\g<first>\g<1>$1\n\\\q"), "<aaa$1\n\\\\q");
        assert_eq!(expanded("end\\"), "end\\");
    }
}
