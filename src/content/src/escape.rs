//! What has to be escaped for Markdown to read a page's text as text.

/// Letters of an entity's name, at most, that is escaped: `&CounterClockwiseContourIntegral;` is the longest.
const ENTITY_BYTES_MAX: usize = 34;

/// Adds a word, or words with single spaces between, as text of a line.
pub fn escape(text: &str, is_in_table: bool, line: &mut String) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let is_mark = match byte {
            b'\\' | b'`' | b'*' | b'[' | b']' | b'<' | b'~' => true,
            // Within a word it is a letter (CommonMark 6.2, rules 2 and 4).
            b'_' => {
                !is_letter(at.checked_sub(1).and_then(|at| bytes.get(at))) || !is_letter(bytes.get(at + 1))
            }
            b'&' => begins_entity(&bytes[at..]),
            b'|' => is_in_table,
            _ => false,
        };
        if is_mark {
            line.push_str(&text[copied..at]);
            line.push('\\');
            copied = at;
        }
    }
    line.push_str(&text[copied..]);
}

fn is_letter(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
}

/// True for `&name;` and `&#1;`.
fn begins_entity(bytes: &[u8]) -> bool {
    let name = bytes.iter().skip(1).take(ENTITY_BYTES_MAX);
    let length = name.take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#').count();
    length > 0 && bytes.get(length + 1) == Some(&b';')
}

/// A line of a paragraph whose beginning is no mark of a block: a heading, an item, a rule, a quote, a table.
pub fn at_line_start(line: &str) -> String {
    let bytes = line.as_bytes();
    let ends_or_space = |at: usize| bytes.get(at).is_none_or(|byte| *byte == b' ');
    let is_mark = match bytes.first() {
        Some(b'#') => ends_or_space(bytes.iter().take_while(|byte| **byte == b'#').count()),
        Some(b'-' | b'+') => ends_or_space(1) || bytes.get(1) == Some(&b'-'),
        Some(b'=') => bytes.iter().all(|byte| matches!(byte, b'=' | b' ')),
        Some(b'>' | b'|') => true,
        // The second line of a table.
        Some(b':') => bytes.get(1) == Some(&b'-'),
        _ => false,
    };
    if is_mark {
        return format!("\\{line}");
    }
    // `1.` and `1)`; beyond nine digits it is no item.
    let digits = bytes.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 && matches!(bytes.get(digits), Some(b'.' | b')')) && ends_or_space(digits + 1) {
        return format!("{}\\{}", &line[..digits], &line[digits..]);
    }
    line.to_owned()
}

/// Adds the address of a link.
pub fn destination(target: &str, line: &mut String) {
    let is_bare = !target.contains(['(', ')']);
    if !is_bare {
        line.push('<');
    }
    for (at, byte) in target.bytes().enumerate() {
        match byte {
            b'\\' => line.push_str("%5C"),
            b'|' => line.push_str("%7C"),
            b'<' => line.push_str("%3C"),
            b'>' => line.push_str("%3E"),
            b'&' if begins_entity(&target.as_bytes()[at..]) => line.push_str("\\&"),
            b if b.is_ascii_control() || b == b' ' => {
                line.push_str(if b == b' ' { "%20" } else { "" });
            }
            // What `url` gives is ASCII.
            b if b.is_ascii() => line.push(char::from(b)),
            _ => {}
        }
    }
    if !is_bare {
        line.push('>');
    }
}

/// The longest run of backticks in a text.
fn backticks(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// Adds a code span; its backticks are more than any run in it.
pub fn code_span(text: &str, is_in_table: bool, line: &mut String) {
    if text.is_empty() {
        return;
    }
    let marks = "`".repeat(backticks(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    let text = if is_in_table { text.replace('|', "\\|") } else { text.to_owned() };
    line.push_str(&format!("{marks}{space}{text}{space}{marks}"));
}

/// The fence of a code block, longer than any run of backticks in it.
pub fn fence(text: &str) -> String {
    "`".repeat(backticks(text).max(2) + 1)
}
