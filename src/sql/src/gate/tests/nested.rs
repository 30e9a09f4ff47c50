//! Forms within forms are read in a time that does not double with every level: the server itself reads what is to be kept.

use std::time::Duration;

use super::worked;
use crate::gate::parse;

/// Levels of which the deeper ones are asked for.
const LEVELS: usize = 10;

/// What stands around what, in an expression, in FROM or as a statement.
const FORMS: &[(&str, &str)] = &[
    ("f(", ")"),
    ("f(1, ", ", a)"),
    ("f(a => ", ")"),
    ("f(DISTINCT ", " ORDER BY b)"),
    ("f(a) OVER (PARTITION BY ", ")"),
    ("f(a) FILTER (WHERE ", ")"),
    ("(", ")"),
    ("(1, ", ")"),
    ("ROW(", ", 1)"),
    ("ARRAY[", ", 1]"),
    ("(ARRAY[1])[", "]"),
    ("CASE WHEN ", " THEN 1 ELSE 2 END"),
    ("CASE WHEN a THEN ", " END"),
    ("CASE WHEN a THEN 1 ELSE ", " END"),
    ("CAST(", " AS text)"),
    ("EXTRACT(day FROM ", ")"),
    ("SUBSTRING(", " FROM 1 FOR 2)"),
    ("SUBSTRING(a FROM ", ")"),
    ("POSITION(", " IN a)"),
    ("OVERLAY(a PLACING ", " FROM 1)"),
    ("TRIM(BOTH 'x' FROM ", ")"),
    ("CEIL(", ")"),
    ("FLOOR(", ")"),
    ("NOT (", ")"),
    ("-(", ")"),
    ("INTERVAL '1 day' * (", ")"),
    ("(a IN (", "))"),
    ("(a IN (1, ", "))"),
    ("a = ANY ((", "))"),
    ("(a BETWEEN (", ") AND 1)"),
    ("(SELECT ", ")"),
    ("(a IN (SELECT ", "))"),
    ("EXISTS (SELECT 1 WHERE ", ")"),
    ("ARRAY(SELECT ", ")"),
    ("(SELECT a FROM (SELECT ", " AS a) q)"),
    ("(WITH q AS (SELECT ", " AS a) SELECT a FROM q)"),
    ("(SELECT a FROM t JOIN u ON ", ")"),
    ("(SELECT a FROM t ORDER BY ", " LIMIT 1)"),
    ("(SELECT a FROM f(", ") AS q)"),
    ("(SELECT a FROM t, LATERAL (SELECT ", ") q)"),
    ("(SELECT a UNION SELECT ", ")"),
    ("(VALUES (", "))"),
];

/// The same in FROM, and around whole queries: what is outermost, and what stands around what.
const QUERIES: &[(&str, &str, &str, &str)] = &[
    ("SELECT a FROM ", "(", "t JOIN u ON true", ")"),
    ("SELECT a FROM ", "(t JOIN ", "u", " ON true)"),
    ("SELECT a FROM ", "(SELECT a FROM ", "t", ") q"),
    ("", "(", "SELECT 1", ")"),
    ("SELECT 1 UNION ", "(SELECT 1 UNION ", "SELECT 2", ")"),
];

fn takes(form: (&str, &str), levels: usize) -> Duration {
    takes_query(("SELECT ", form.0, "a", form.1), levels)
}

fn takes_query((begins, open, inner, close): (&str, &str, &str, &str), levels: usize) -> Duration {
    let sql = format!("{begins}{}{inner}{}", open.repeat(levels), close.repeat(levels));
    let began = worked();
    parse(&sql, 1_000).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    worked() - began
}

#[test]
fn what_is_nested_twice_as_deep_is_not_read_a_thousand_times_as_long() {
    let reading = || {
        let is_slow = |flat: Duration, deep: Duration| deep > flat * 16 + Duration::from_millis(50);
        let forms = FORMS.iter().filter(|form| is_slow(takes(**form, LEVELS), takes(**form, 2 * LEVELS)));
        let queries = QUERIES
            .iter()
            .filter(|form| is_slow(takes_query(**form, LEVELS), takes_query(**form, 2 * LEVELS)));
        forms.map(|form| form.0).chain(queries.map(|form| form.1)).collect::<Vec<_>>()
    };
    let thread = std::thread::Builder::new().stack_size(crate::gate::PARSE_STACK_BYTES * 4).spawn(reading);
    let slow = thread.expect("a thread").join().expect("read");
    assert!(slow.is_empty(), "{slow:?}");
}
