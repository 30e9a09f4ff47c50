//! Patterns as the engine takes them: regular expressions of operators, `SIMILAR TO`, and LIKE with a sign of its own for what
//! stands for itself.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

use super::written::{binary, call, literal, nested, taken, text};
use crate::postgres::{of_operator, translated, translated_for};

/// Whether an operator takes a regular expression on its right.
pub(super) fn matches_regular(op: &BinaryOperator) -> bool {
    use BinaryOperator::{PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch};
    matches!(op, PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch)
}

/// A regular expression as the engine's library takes it, of an operator that does or does not look at case. One that cannot be
/// had is refused before (`refuse`).
pub(super) fn regular(pattern: &mut Expr, ignores_case: bool) {
    *pattern = match literal(pattern) {
        Some(written) => match translated_for(written, ignores_case) {
            Some(own) => text(&of_operator(own)),
            None => return,
        },
        None if ignores_case => call("to_regex", vec![taken(pattern), text("i")]),
        None => call("to_regex", vec![taken(pattern)]),
    };
}

/// `LIKE '50!%' ESCAPE '!'` with the backslash that LIKE has anyway; DataFusion knows no other.
pub(super) fn escaped(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) {
    let Some(Value::SingleQuotedString(escape)) = escape_char.as_ref().map(|value| &value.value) else {
        return;
    };
    let (Some(given), escape) = (literal(pattern), escape.chars().next()) else { return };
    let mut own = String::with_capacity(given.len() + 4);
    let mut chars = given.chars();
    while let Some(char) = chars.next() {
        match char {
            char if Some(char) == escape => {
                own.push('\\');
                own.extend(chars.next());
            }
            '\\' => own.push_str("\\\\"),
            plain => own.push(plain),
        }
    }
    *pattern = text(&own);
    *escape_char = None;
}

/// `SIMILAR TO` with a written pattern as the regular expression that it is; none where it cannot be told.
pub(super) fn similar(expr: &mut Expr) -> Option<Expr> {
    let Expr::SimilarTo { negated, expr: whole, pattern, escape_char: None } = expr else { return None };
    let pattern = similar_pattern(literal(pattern)?)?;
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    Some(nested(binary(taken(whole), op, text(&pattern))))
}

/// The pattern of a `SIMILAR TO`: `%` and `_` as in LIKE, `| * + ? { } ( ) [ ]` as in a regular expression, whose brackets are those
/// of PostgreSQL.
fn similar_pattern(pattern: &str) -> Option<String> {
    let mut own = String::from("^(?:");
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' => own.extend(['\\', chars.next()?]),
            '[' if in_class && chars.peek() == Some(&':') => {
                own.push('[');
                own.extend(chars.by_ref().take_while(|char| *char != ']'));
                own.push(']');
            }
            '[' | ']' => {
                in_class = char == '[';
                own.push(char);
            }
            plain if in_class => own.push(plain),
            '%' => own.push_str(".*"),
            '_' => own.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => own.push(char),
            '.' | '^' | '$' => own.extend(['\\', char]),
            plain => own.push(plain),
        }
    }
    own.push_str(")$");
    translated(&own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_similar_to_are_regular_expressions() {
        for (pattern, text, expected) in [
            ("a(b|c)+", "abcb", true),
            ("a", "abc", false),
            ("%item-(1|2)/_", "https://a.example/item-2/x", true),
            ("a.c", "abc", false),
            ("[a-c_]%", "_x", true),
            ("50\\%", "50%", true),
            ("50\\%", "50x", false),
            ("[[:alpha:]]+", "über", true),
            ("[^[:alpha:]_]", "é", false),
            ("a.%", "a.\n", true),
        ] {
            let regular = similar_pattern(pattern).expect("it ends");
            let found = regex::Regex::new(&regular).expect("a regular expression").is_match(text);
            assert_eq!(found, expected, "{pattern} as {regular} of {text}");
        }
        assert_eq!(similar_pattern("a\\"), None);
    }
}
