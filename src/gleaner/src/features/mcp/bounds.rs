//! How much of an answer a model is given at a time: what does not fit comes with the next cursor.

use serde_json::Value;

/// Characters of one answer: some 12,000 tokens. Clients warn of more, and some cut it off.
pub(super) const ANSWER_CHARS_MAX: usize = 48_000;
/// Characters of one cell, unless a single row would be too large with them.
const CELL_CHARS_MAX: usize = 2_000;
const NARROW_CELL_CHARS_MAX: usize = 100;

/// The first rows that fit into an answer; at least one. Long texts in them are cut, and say so.
pub(super) fn rows_that_fit(rows: Vec<Value>) -> Vec<Value> {
    let mut taken = Vec::new();
    let mut chars = 0;
    for mut row in rows {
        shorten(&mut row, CELL_CHARS_MAX);
        if taken.is_empty() && length(&row) > ANSWER_CHARS_MAX {
            shorten(&mut row, NARROW_CELL_CHARS_MAX);
        }
        chars += length(&row);
        if chars > ANSWER_CHARS_MAX && !taken.is_empty() {
            break;
        }
        taken.push(row);
    }
    taken
}

fn length(value: &Value) -> usize {
    value.to_string().len()
}

/// Cuts the texts of a value.
pub(super) fn shorten(value: &mut Value, chars_max: usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(chars_max) {
                let more = text[end..].chars().count();
                text.truncate(end);
                text.push_str(&format!("… ({more} more characters)"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, chars_max)),
        Value::Object(members) => members.values_mut().for_each(|member| shorten(member, chars_max)),
        _ => {}
    }
}

/// A part of a text, from a character on; where the next part begins, if there is one.
pub(super) fn part_of(text: &str, from: usize, chars_max: usize) -> (&str, Option<usize>) {
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let (start, end) = (place(from), place(from.saturating_add(chars_max)));
    (&text[start..end], (end < text.len()).then(|| from + chars_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_fit_and_one_is_always_there() {
        let rows: Vec<_> = (0..1_000).map(|n| json!({ "n": n, "text": "x".repeat(500) })).collect();
        let taken = rows_that_fit(rows.clone());
        assert!((80..=100).contains(&taken.len()), "{}", taken.len());
        assert_eq!(taken[..], rows[..taken.len()]);
        let wide: serde_json::Map<_, _> =
            (0..300).map(|n| (format!("c{n}"), json!("é".repeat(10_000)))).collect();
        let taken = rows_that_fit(vec![wide.clone().into(), wide.into()]);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0]["c7"].as_str().unwrap().chars().take_while(|&c| c == 'é').count(), 100);
        assert!(taken[0]["c7"].as_str().unwrap().ends_with("characters)"), "{}", taken[0]["c7"]);
        assert_eq!(rows_that_fit(Vec::new()), Vec::<Value>::new());
    }

    #[test]
    fn parts_of_a_text_follow_each_other() {
        let text = "äöü".repeat(7);
        let (mut whole, mut from) = (String::new(), Some(0));
        while let Some(at) = from {
            let (part, next) = part_of(&text, at, 4);
            whole.push_str(part);
            from = next;
        }
        assert_eq!(whole, text);
        assert_eq!(part_of(&text, 100, 4), ("", None));
        assert_eq!(part_of(&text, usize::MAX, usize::MAX), ("", None));
    }
}
