//! Regular expressions of `re:test`, `re:match` and `re:replace`, as Python's `re` spells them, on Rust's `regex`.
//!
//! Our users' patterns were written for lxml, which hands them to Python. Most mean the same in both; what differs and can
//! be said is rewritten here: `\Z`, a `[` or a set operator inside a class, `{` that is no repetition. What takes more than
//! linear time (look-around, back-references) is refused with a message that names it.

use regex::{Regex, RegexBuilder};

/// Memory that one compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Memory that matching with one pattern may take for its lazily built automaton.
const AUTOMATON_BYTES_MAX: usize = 2 << 20;

/// Compiles a pattern with the flags of EXSLT (`i`; `g` is the caller's) and Python's `s`, `m`, `x`.
pub fn compile(pattern: &str, flags: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated)
        .case_insensitive(flags.contains('i'))
        .dot_matches_new_line(flags.contains('s'))
        .multi_line(flags.contains('m'))
        .ignore_whitespace(flags.contains('x'))
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build()
        .map_err(|error| format!("wrong regular expression: {}", reason(&error)))
}

/// The last line of the error, which says what is wrong; the lines before it draw the pattern.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or("").trim();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}

fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut class_depth = 0_usize;
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
        rest = &rest[taken..];
    }
    Ok(out)
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
