//! PostgreSQL's regular expressions as those of the `regex` crate, which DataFusion takes: what is written otherwise there.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use super::dialect::{literal, text};

/// Whether an operator matches a regular expression.
pub(super) fn matches(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
    )
}

/// Rewrites a pattern that is written in the statement.
pub(super) fn rewrite(pattern: &mut Expr) {
    if let Some(own) = literal(pattern).map(translated) {
        *pattern = text(&own);
    }
}

/// The ends of words (`\m`, `\M`, `\y`, `\Y`, `[[:<:]]`, `[[:>:]]`) and of the text (`\Z`).
fn translated(pattern: &str) -> String {
    let mut own = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(first) = rest.chars().next() {
        let known = WORDS.iter().find(|(theirs, _)| !in_class && rest.starts_with(theirs));
        if let Some((theirs, ours)) = known {
            own.push_str(ours);
            rest = &rest[theirs.len()..];
            continue;
        }
        // What is escaped goes along with its backslash.
        let length = match first {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            plain => plain.len_utf8(),
        };
        match first {
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        // `[[:alpha:]]` ends with the second bracket.
        if let Some(end) = rest.strip_prefix("[:").filter(|_| in_class).and_then(|inner| inner.find(":]")) {
            own.push_str(&rest[..end + 4]);
            rest = &rest[end + 4..];
            continue;
        }
        own.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    own
}

const WORDS: &[(&str, &str)] = &[
    ("[[:<:]]", r"\b{start}"),
    ("[[:>:]]", r"\b{end}"),
    (r"\m", r"\b{start}"),
    (r"\M", r"\b{end}"),
    (r"\y", r"\b"),
    (r"\Y", r"\B"),
    (r"\Z", r"\z"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_words_are_found() {
        for (pattern, given, expected) in [
            (r"\mfoo", "a foo", true),
            (r"\mfoo", "afoo", false),
            (r"foo\M", "foo bar", true),
            (r"foo\M", "foobar", false),
            (r"\yfoo\y", "a foo.", true),
            (r"o\Yo", "foo", true),
            (r"[[:<:]]ba[rz][[:>:]]", "foo baz", true),
            (r"^[[:alpha:]_]+\Z", "ab_c", true),
            (r"\\m", r"\m", true),
            (r"[\\m]", "m", true),
        ] {
            let own = translated(pattern);
            let found = regex::Regex::new(&own).expect(&own).is_match(given);
            assert_eq!(found, expected, "{pattern} as {own} of {given}");
        }
    }
}
