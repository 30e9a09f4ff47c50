//! What PostgreSQL writes otherwise than DataFusion, rewritten before it is planned.
//!
//! Only forms whose meaning does not depend on types are rewritten here; operators are planned where the types are known
//! (`postgres`). Names of result columns are settled before (`names`), so a rewritten expression keeps the name
//! that PostgreSQL gives it. Each form was seen to fail, or to be answered wrongly, against PostgreSQL 15.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, Query, Select, Statement,
    TableFactor, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::calls::{around, call_of, signed_number};
use super::casts::{cast_expr, cast_once, in_words, typed_string};
use super::quantified::{exists, no_row, not_in, quantified, without_columns};
use super::regular::{escaped, matches_regular, regular, similar};
use super::written::{binary, call, is, literal, nested, number, taken, text};
use super::{dates, forms, joins, literals, predicates, sets, tuples};
use crate::postgres::without_exponent;

/// Rewrites the whole statement, subqueries included.
pub(super) fn rewrite(statement: &mut Statement) {
    // The visitor never breaks.
    let _ = statement.visit(&mut Dialect);
}

struct Dialect;

impl VisitorMut for Dialect {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        joins::merge(query);
        predicates::open_in_order(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        predicates::open_in_select(select);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        predicates::in_order(query);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        sets::in_projection(select);
        predicates::in_select(select);
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        let joined = joins.filter_map(|join| joins::condition_mut(&mut join.join_operator));
        joined.chain(&mut select.selection).chain(&mut select.having).for_each(without_columns);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(rows) = sets::in_from(factor) {
            *factor = rows.factor();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        let text = match &mut value.value {
            Value::EscapedStringLiteral(text) | Value::UnicodeStringLiteral(text) => std::mem::take(text),
            Value::DollarQuotedString(quoted) => std::mem::take(&mut quoted.value),
            _ => return ControlFlow::Continue(()),
        };
        value.value = Value::SingleQuotedString(text);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        not_in(expr);
        cast_once(expr);
        turned_round(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, .. } => cast_expr(expr),
            Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
                if name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| is(name, "array")) =>
            {
                if let Some(other) = predicates::array_of(query) {
                    *expr = other;
                }
            }
            Expr::Function(function) => {
                if let Some(other) = call_of(function) {
                    *expr = other;
                } else if let Some(around) = around(function) {
                    *expr = call(around, vec![taken(expr)]);
                }
            }
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter_mut().for_each(|when| signed_number(&mut when.result));
                else_result.as_deref_mut().into_iter().for_each(signed_number);
            }
            Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. })
                if literals::is_beyond_decimals(digits) =>
            {
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(text(digits)),
                    data_type: DataType::DoublePrecision,
                    array: false,
                    format: None,
                };
            }
            Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
                // DataFusion counts the digits before the point of one with an exponent as negative ones behind it.
                if let Some(plain) = without_exponent(digits) {
                    *digits = plain;
                }
            }
            Expr::TypedString(_) => typed_string(expr),
            Expr::Interval(interval) => {
                if let Some(words) = literal(&interval.value).and_then(in_words) {
                    *interval.value = text(&words);
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                *expr = call("timezone", vec![taken(time_zone), taken(timestamp)]);
            }
            Expr::Extract { field, expr: time, .. } => {
                if let Some(part) = dates::part_of_time(&field.to_string(), time) {
                    *expr = part;
                }
            }
            Expr::Substring { expr: whole, substring_from: Some(pattern), substring_for: None, .. }
                if literal(pattern).is_some() =>
            {
                let found = call("regexp_match", vec![taken(whole), taken(pattern)]);
                *expr = call("array_element", vec![found, number("1")]);
            }
            Expr::UnaryOp { .. } => signed(expr),
            Expr::BinaryOp { op: BinaryOperator::PGExp, .. } => literals::power(expr),
            Expr::Collate { expr: inner, collation } if forms::is_by_bytes(collation) => *expr = taken(inner),
            Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
                if let Some(other) = forms::overlaps(left, right) {
                    *expr = other;
                }
            }
            _ => compared(expr),
        }
        ControlFlow::Continue(())
    }
}

/// An operator before its operand.
fn signed(expr: &mut Expr) {
    let minus = || nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number("1")) });
    match expr {
        // By its text DataFusion turns the first part of a span round only.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if matches!(&**inner, Expr::Interval(_)) => {
            *expr = nested(binary(taken(inner), BinaryOperator::Multiply, minus()));
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
            *expr = nested(binary(nested(taken(inner)), BinaryOperator::PGBitwiseXor, minus()));
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, .. } => literals::power(expr),
        _ => compared(expr),
    }
}

/// What compares, puts together or looks through.
fn compared(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { op, right, .. } if matches_regular(op) => {
            regular(right, matches!(op, BinaryOperator::PGRegexIMatch | BinaryOperator::PGRegexNotIMatch));
        }
        Expr::Subquery(query) => forms::first_value(query),
        Expr::BinaryOp {
            op:
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq,
            ..
        }
        | Expr::InList { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => {
            if let Some(other) = tuples::compared(expr) {
                *expr = other;
            }
        }
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => {
            if let Some(other) = forms::like_any(expr) {
                *expr = other;
            }
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            escaped(pattern, escape_char);
        }
        Expr::AnyOp { .. } | Expr::AllOp { .. } | Expr::SimilarTo { .. } => {
            let other = literals::of_list(expr).or_else(|| quantified(expr));
            if let Some(other) = other.or_else(|| similar(expr)) {
                *expr = other;
            }
        }
        Expr::InSubquery { expr: left, subquery, negated } => {
            if let Some(members) = forms::members(left) {
                *expr = match negated {
                    true => no_row(subquery, members),
                    false => exists((**subquery).clone(), members, false, |left, right| {
                        binary(left, BinaryOperator::Eq, right)
                    }),
                };
            }
        }
        _ => {}
    }
}

/// `-(b - a)` as `a - b`: the engine knows no opposite of a difference of two times.
fn turned_round(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr
        && let Expr::Nested(inner) = inner.as_mut()
        && let Expr::BinaryOp { left, op: BinaryOperator::Minus, right } = inner.as_mut()
    {
        *expr = nested(binary(taken(right), BinaryOperator::Minus, nested(taken(left))));
    }
}

#[cfg(test)]
mod tests {
    use super::super::written::parsed;
    use super::*;

    fn rewritten(sql: &str) -> String {
        let mut statement = parsed(sql);
        rewrite(&mut statement);
        statement.to_string()
    }

    #[test]
    fn casts_to_one_type_are_one_cast() {
        let casts = |of: &str| rewritten(&format!("SELECT a{of} FROM t"));
        assert_eq!(casts(&"::varchar(3)".repeat(100)), casts("::varchar(3)"));
        assert_ne!(casts("::varchar(3)::varchar(2)"), casts("::varchar(2)"));
    }

    #[test]
    fn the_opposite_of_a_difference_is_one() {
        assert_eq!(rewritten("SELECT -(a - b) FROM t"), "SELECT (b - (a)) FROM t");
        assert_eq!(rewritten("SELECT -(a - b - c) FROM t"), "SELECT (c - (a - b)) FROM t");
    }

    #[test]
    fn forms_within_forms_do_not_double_with_every_level() {
        let zone = |inner: &str| format!("date_trunc('day', at, {inner})");
        let shares = |inner: &str| format!("percentile_cont(ARRAY[1, 1]) WITHIN GROUP (ORDER BY {inner})");
        let pairs = |inner: &str| format!("json_object_agg(1, 1) FILTER (WHERE {inner} IS NULL)");
        let grows: [&dyn Fn(&str) -> String; 3] = [&zone, &shares, &pairs];
        for grow in grows {
            // Twelve levels would make four thousand copies.
            let nested = (0..12).fold("x".to_owned(), |inner, _| grow(&inner));
            let length = rewritten(&format!("SELECT {nested} FROM t")).len();
            assert!(length < 40_000, "{length} bytes of {nested}");
        }
    }

    #[test]
    fn forms_are_rewritten_and_others_left_alone() {
        for (sql, expected) in [
            ("SELECT a::int, '1'::int, a::text", "SELECT to_whole(a)::INT, '1'::INT, to_text(a)::TEXT"),
            (
                "SELECT a::varchar(3), 1e15::float8",
                "SELECT left(to_text(a), 3)::TEXT, '1000000000000000'::FLOAT8",
            ),
            ("SELECT '{}'::jsonb", "SELECT as_json('{}'::TEXT)"),
            ("SELECT a::float, a::float(20)", "SELECT to_plain(a::DOUBLE PRECISION), to_plain(a::FLOAT(20))"),
            (
                "SELECT sign(a), every(b), avg(c)",
                "SELECT signum(a), bool_and(b), to_plain(avg(to_averaged(c)))",
            ),
            (
                "SELECT INTERVAL '1 day -03:04:05.5', '01:30'::interval",
                "SELECT INTERVAL '1 day -03 hours -04 minutes -05.5 seconds', '01 hours 30 minutes'::INTERVAL",
            ),
            ("SELECT mod(a + 1, 2), localtimestamp", "SELECT ((a + 1) % (2)), CAST(now() AS TIMESTAMP(6))"),
            (
                "SELECT a::timestamptz, TIMESTAMPTZ '2026-01-01'",
                "SELECT timezone('UTC', a::TIMESTAMP(6)), timezone('UTC', TIMESTAMP(6) '2026-01-01')",
            ),
            ("SELECT json_agg(a ORDER BY b)", "SELECT to_json(array_agg(a ORDER BY b))"),
            ("SELECT to_char(a, 'YYYY-MM')", "SELECT to_char(a, '%Y-%m')"),
            ("SELECT a AT TIME ZONE 'UTC'", "SELECT timezone('UTC', a)"),
            ("SELECT 1 WHERE a LIKE '5!%\\%' ESCAPE '!'", "SELECT 1 WHERE a LIKE '5\\%\\\\%'"),
            (
                "SELECT 1 WHERE a > ALL (SELECT b FROM t)",
                "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM (SELECT b FROM t) AS \"__q\" (\"__1\") WHERE (a > \"__1\") IS NOT TRUE)",
            ),
            (
                "SELECT 1 WHERE (a, c) IN (SELECT b, d FROM t)",
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM (SELECT b, d FROM t) AS \"__q\" (\"__1\", \"__2\") WHERE a = \"__1\" AND c = \"__2\")",
            ),
            (
                "SELECT n FROM generate_series(1, 5) AS n",
                "SELECT n FROM UNNEST(generate_series(1, 5)) AS n (n)",
            ),
            ("SELECT generate_series(1, 3)", "SELECT unnest(generate_series(1, 3))"),
            ("SELECT unnest(generate_series(1, 3))", "SELECT unnest(generate_series(1, 3))"),
            (
                "SELECT 1 FROM jsonb_array_elements('[]'::jsonb) AS e",
                "SELECT 1 FROM UNNEST(json_elements(as_json('[]'::TEXT))) AS e (e)",
            ),
            (
                "SELECT x, a.y FROM a FULL JOIN b USING (x) WHERE x > 1 ORDER BY x",
                "SELECT coalesce(a.x, b.x) AS x, a.y FROM a FULL JOIN b USING(x) WHERE coalesce(a.x, b.x) > 1 ORDER BY x",
            ),
            (
                "SELECT count(*) FROM a RIGHT JOIN b USING (x) GROUP BY x ORDER BY x",
                "SELECT count(*) FROM a RIGHT JOIN b USING(x) GROUP BY b.x ORDER BY b.x",
            ),
            (
                "SELECT (SELECT b.x FROM b WHERE b.y = a.y ORDER BY b.z DESC LIMIT 1) FROM a",
                "SELECT (SELECT first_value(b.x ORDER BY b.z DESC) FROM b WHERE b.y = a.y) FROM a",
            ),
            (
                "SELECT (SELECT b.x FROM b ORDER BY b.z DESC LIMIT 1) FROM a",
                "SELECT (SELECT b.x FROM b ORDER BY b.z DESC LIMIT 1) FROM a",
            ),
            (
                "SELECT json_agg(json_build_object('a', b))",
                "SELECT to_json(array_agg(json_build_object('a', b)))",
            ),
            (
                "SELECT make_interval(days => 3, hours => n)",
                "SELECT ((INTERVAL '1 day' * (3)) + (INTERVAL '1 hour' * (n)))",
            ),
            ("SELECT a = ANY (ARRAY[1]), b < ALL ('{1,2}')", "SELECT a IN (1), all_lt(b, ARRAY['1', '2'])"),
            (
                "SELECT 1e300 > a, 1e20",
                "SELECT CAST('1e300' AS DOUBLE PRECISION) > a, 100000000000000000000.",
            ),
            (
                "SELECT (a, b) = (1, NULL), ROW(a, b) <> (1, 2)",
                "SELECT ((((a) = (1)) AND ((b) = (NULL)))), ((((a) <> (1)) OR ((b) <> (2))))",
            ),
            ("SELECT (a, b) < (1, 2)", "SELECT ((((a) < (1)) OR (((a) = (1)) AND ((b) < (2)))))"),
            ("SELECT (a, b) NOT IN ((1, 2))", "SELECT (NOT ((((a) = (1)) AND ((b) = (2)))))"),
            ("SELECT -2 ^ 2, 2 ^ -1 ^ 2, -a ^ b ^ c", "SELECT -2 ^ 2, 2 ^ -1 ^ 2, -a ^ b ^ c"),
            (r"SELECT '\x00ff'::bytea, a::bytea", "SELECT X'00ff', to_bytea(a)"),
            ("SELECT '{1,NULL}'::int[]", "SELECT ARRAY['1', NULL]::INT[]"),
            ("SELECT a ~ 'x.y', b ~* c", "SELECT a ~ '(?s)x.y', b ~* to_regex(c, 'i')"),
            ("SELECT regexp_like(a, 'x.[^y]', 'n')", "SELECT regexp_like(a, '(?m)x.[^\\ny]')"),
            ("SELECT ~a", "SELECT ((a) # (-1))"),
            (
                "SELECT INTERVAL 'P1Y2M3DT-4H5.5S'",
                "SELECT INTERVAL '1 years 2 months 3 days -4 hours 5.5 seconds'",
            ),
            (
                "SELECT 1 WHERE (a, c) NOT IN (SELECT b, d FROM t)",
                "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM (SELECT b, d FROM t) AS \"__q\" (\"__1\", \"__2\") WHERE (a = \"__1\") IS NOT FALSE AND (c = \"__2\") IS NOT FALSE)",
            ),
            ("SELECT -INTERVAL '1 day 2 hours'", "SELECT (INTERVAL '1 day 2 hours' * (-1))"),
            (
                "SELECT lag(a, 2, b) OVER (ORDER BY c)",
                "SELECT CASE WHEN lag(1, 2) OVER (ORDER BY c) IS NULL THEN b ELSE lag(a, 2) OVER (ORDER BY c) END",
            ),
            (
                "SELECT 1 WHERE 'a' NOT IN (SELECT b FROM t)",
                "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM (SELECT b FROM t) AS \"__q\" (\"__1\") WHERE ('a' = \"__1\") IS NOT FALSE)",
            ),
            ("SELECT array_length(a, 1)", "SELECT CAST(nullif(array_length(a, 1), 0) AS INT)"),
            (
                "SELECT to_char(a, 'DD-MON Day')",
                "SELECT (to_char(a, '%d-') || upper(to_char(a, '%b')) || to_char(a, ' ') || rpad(to_char(a, '%A'), 9))",
            ),
            ("SELECT string_agg(a, ',')", "SELECT to_text(string_agg(a, ','))"),
            ("SELECT round(a), round(a, -(1)), round(a, b)", "SELECT round(a), round(a, -1), round_by(a, b)"),
            (r"SELECT a ~ '\\\\', '-0'::float8", r"SELECT a ~ '(\\\\)', '0'::FLOAT8"),
            (
                "SELECT make_timestamp(y, 1, 2, 3, 4, 5.5), a COLLATE \"C\"",
                "SELECT (CAST(make_date(y, 1, 2) AS TIMESTAMP(6)) + ((INTERVAL '1 hour' * (to_within(3, 0, 24))) + (INTERVAL '1 minute' * (to_within(4, 0, 59))) + (INTERVAL '1 second' * (to_within(5.5, 0, 60))))), a",
            ),
            (
                "SELECT (a, b) OVERLAPS (c, INTERVAL '1 day')",
                "SELECT (((least(a, (b)) = least(c, ((c) + INTERVAL '1 day')) AND (a) IS NOT NULL AND ((b)) IS NOT NULL AND (c) IS NOT NULL AND (((c) + INTERVAL '1 day')) IS NOT NULL) OR (least(a, (b)) < greatest(c, ((c) + INTERVAL '1 day')) AND least(c, ((c) + INTERVAL '1 day')) < greatest(a, (b)))) OR nullif((a) IS NULL OR ((b)) IS NULL OR (c) IS NULL OR (((c) + INTERVAL '1 day')) IS NULL, true))",
            ),
            ("SELECT substring(a FROM 2), substring(a, 2)", "SELECT SUBSTRING(a FROM 2), SUBSTRING(a, 2)"),
            ("SELECT $$it's$$, E'a\\n'", "SELECT 'it''s', 'a\n'"),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
        for (any, within) in [
            ("SELECT a = ANY (SELECT b FROM t)", "SELECT a IN (SELECT b FROM t)"),
            ("SELECT 1 ORDER BY a <> ALL (SELECT b FROM t)", "SELECT 1 ORDER BY a NOT IN (SELECT b FROM t)"),
        ] {
            assert_eq!(rewritten(any), rewritten(within));
        }
    }
}
