//! JSON read and written with all digits of its numbers.

use serde_json::{Number, Value};

/// What stands before the digits of a number that is kept as a text, and in no text of JSON: PostgreSQL has none with it.
pub(super) const NUMBER: &str = "\u{0}";

/// JSON as a value, none where it is none. A number whose digits the value would not have (`1.50`, more than 64 bits) is kept as
/// a text behind [`NUMBER`].
pub(super) fn parse(text: &str) -> Option<Value> {
    let mut own = String::new();
    let (mut rest, mut kept) = (text, false);
    while let Some(at) = rest.find(|char: char| char == '"' || char == '-' || char.is_ascii_digit()) {
        let (before, found) = rest.split_at(at);
        own.push_str(before);
        let length = if found.starts_with('"') { length_of_text(found)? } else { length_of_number(found) };
        let (token, behind) = found.split_at(length);
        let is_same = token.starts_with('"')
            || serde_json::from_str::<Number>(token).map_or(true, |number| number.to_string() == token);
        if is_same {
            match token.contains("\\u0000") {
                // No text of PostgreSQL's has this character, and here it is the mark of a number.
                true => {
                    kept = true;
                    own.push_str(&without_mark(token));
                }
                false => own.push_str(token),
            }
        } else {
            kept = true;
            own.push_str(&format!("\"\\u0000{token}\""));
        }
        rest = behind;
    }
    if !kept {
        return serde_json::from_str(text).ok();
    }
    own.push_str(rest);
    serde_json::from_str(&own).ok()
}

/// A text of JSON with another character where the one of the number 0 is escaped.
fn without_mark(token: &str) -> String {
    let mut own = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        own.push_str(before);
        let is_mark = escape.starts_with("\\u0000");
        let length = if is_mark { 6 } else { 1 + escape[1..].chars().next().map_or(0, char::len_utf8) };
        let (escape, behind) = escape.split_at(length);
        own.push_str(if is_mark { "\\ufffd" } else { escape });
        rest = behind;
    }
    own.push_str(rest);
    own
}

/// Bytes of a text of JSON with its quotes; none when it does not end.
fn length_of_text(text: &str) -> Option<usize> {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map(|end| end + 2)
}

fn length_of_number(text: &str) -> usize {
    text.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count()
}

/// A value as JSON.
pub(super) fn written(value: &Value) -> String {
    let text = value.to_string();
    let mark = "\"\\u0000";
    if !text.contains(mark) {
        return text;
    }
    let mut parts = text.split(mark);
    let mut own = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, behind) = part.split_once('"').unwrap_or((part, ""));
        own.extend([digits, behind]);
    }
    own
}

/// A number, however it is kept.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.strip_prefix(NUMBER)?.parse().ok(),
        _ => None,
    }
}
