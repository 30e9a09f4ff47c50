//! Names of a statement: how one stands in a message, which one was meant, and how two columns get different ones.

use std::collections::HashSet;

/// Longest piece of a statement quoted in a message, in characters.
pub(super) const QUOTED_CHARS_MAX: usize = 128;

/// A piece of the statement, cut and cleaned so that it can stand in a message.
pub(super) fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The valid name with the fewest edits, if it is close enough to be meant.
pub(super) fn nearest_name<'a>(name: &str, valid: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let short = valid.filter(|valid| valid.len() <= QUOTED_CHARS_MAX);
    let near = short.map(|valid| (edits(name, valid), valid)).min()?;
    (near.0 <= name.chars().count().div_ceil(3).max(1)).then_some(near.1)
}

/// Levenshtein distance, upper and lower case alike.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(QUOTED_CHARS_MAX).flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, right) in b.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, left) in a.iter().enumerate() {
            let changed = diagonal + usize::from(*left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

/// `name`, or `name_2`, `name_3` … when it is taken; the answer is then taken.
pub(super) fn unique(name: &str, used: &mut HashSet<String>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 2;
    while !used.insert(candidate.clone()) {
        candidate = format!("{name}_{number}");
        number += 1;
    }
    candidate
}
