//! What PostgreSQL writes otherwise than DataFusion, rewritten before it is planned.
//!
//! Only forms whose meaning does not depend on types are rewritten here; operators are planned where the types are known
//! (`engine/sql/postgres`). Names of result columns are settled before (`names`), so a rewritten expression keeps the name
//! that PostgreSQL gives it. Each form was seen to fail, or to be answered wrongly, against PostgreSQL 15.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, Select, SetExpr,
    Statement, TableAlias, TableAliasColumnDef, TableFactor, TimezoneInfo, UnaryOperator, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

use crate::engine::sql::postgres::{TO_CHAR_OF_NUMBERS, is_picture};

use super::{forms, joins, patterns, predicates, regexes, sets};

/// `float(24)` is the widest of the narrow ones.
const FLOAT4_BITS_MAX: u64 = 24;

/// Functions that are there under another name.
const RENAMED: &[(&str, &str)] = &[
    ("array_remove", "array_remove_all"),
    ("array_to_json", "to_json"),
    ("ceiling", "ceil"),
    ("clock_timestamp", "now"),
    ("every", "bool_and"),
    ("gen_random_uuid", "uuid"),
    ("json_agg", "array_agg"),
    ("jsonb_agg", "array_agg"),
    ("sign", "signum"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
    ("variance", "var"),
];

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
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        predicates::in_order(query);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        sets::in_projection(select);
        predicates::in_select(select);
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

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, .. }
                if is_zoned(data_type) =>
            {
                *data_type = DataType::Timestamp(None, TimezoneInfo::None);
                *expr = call("timezone", vec![text("UTC"), taken(expr)]);
            }
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } => {
                cast(inner, data_type);
            }
            Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
                if name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| is(name, "array")) =>
            {
                if let Some(other) = predicates::array_of(query) {
                    *expr = other;
                }
            }
            Expr::Function(function) => {
                pattern_of(function);
                if let Some(other) = call_of(function) {
                    *expr = other;
                }
            }
            Expr::TypedString(typed) if typed.data_type == DataType::Uuid => typed.data_type = DataType::Text,
            Expr::TypedString(typed) if is_zoned(&typed.data_type) => {
                typed.data_type = DataType::Timestamp(None, TimezoneInfo::None);
                *expr = call("timezone", vec![text("UTC"), taken(expr)]);
            }
            Expr::Interval(interval) => {
                if let Some(words) = literal(&interval.value).and_then(in_words) {
                    *interval.value = text(&words);
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                *expr = call("timezone", vec![taken(time_zone), taken(timestamp)]);
            }
            Expr::Extract { field, .. }
                if matches!(field, DateTimeField::Second | DateTimeField::Seconds) =>
            {
                *field = DateTimeField::Microsecond;
                *expr = seconds(taken(expr));
            }
            Expr::Substring { expr: whole, substring_from: Some(pattern), substring_for: None, .. }
                if literal(pattern).is_some() =>
            {
                regexes::rewrite(pattern);
                let found = call("regexp_match", vec![taken(whole), taken(pattern)]);
                *expr = call("array_element", vec![found, number("1")]);
            }
            Expr::Subquery(query) => forms::first_value(query),
            Expr::BinaryOp { op, right, .. } if regexes::matches(op) => regexes::rewrite(right),
            Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right }
                if forms::is_json(left) && forms::is_json(right) =>
            {
                json_value(left);
                json_value(right);
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
                if let Some(other) = quantified(expr).or_else(|| forms::similar(expr)) {
                    *expr = other;
                }
            }
            Expr::InSubquery { expr: left, subquery, negated: false } => {
                if let Expr::Tuple(members) = left.as_mut() {
                    let members = std::mem::take(members);
                    *expr = exists((**subquery).clone(), members, false, |left, right| {
                        binary(left, BinaryOperator::Eq, right)
                    });
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The regular expression of a `regexp_…` function, as the engine has it.
fn pattern_of(function: &mut Function) {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    let FunctionArguments::List(list) = &mut function.args else { return };
    if name.is_some_and(|name| name.value.to_ascii_lowercase().starts_with("regexp_"))
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get_mut(1)
    {
        regexes::rewrite(pattern);
    }
}

/// Takes an expression out of its place.
pub(super) fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

pub(super) fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}

pub(super) fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

pub(super) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// Whether a type is that of points in time.
fn is_zoned(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone))
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The text of a literal.
pub(super) fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// Whether an unquoted identifier is this word.
pub(super) fn is(name: &Ident, word: &str) -> bool {
    name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word)
}

/// A cast to a whole number rounds; one to text writes as PostgreSQL does; JSON is text here.
fn cast(inner: &mut Expr, data_type: &mut DataType) {
    let is_literal = matches!(inner, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    match data_type {
        DataType::Int(_)
        | DataType::Integer(_)
        | DataType::BigInt(_)
        | DataType::SmallInt(_)
        | DataType::Int2(_)
        | DataType::Int4(_)
        | DataType::Int8(_)
            if !is_literal =>
        {
            *inner = call("to_whole", vec![taken(inner)]);
        }
        DataType::Text | DataType::String(_) | DataType::Varchar(None) | DataType::CharacterVarying(None)
            if !is_literal =>
        {
            *inner = call("to_text", vec![taken(inner)]);
        }
        DataType::Varchar(Some(length)) | DataType::CharacterVarying(Some(length)) => {
            let digits = length.to_string();
            let whole = call("to_text", vec![taken(inner)]);
            let length = digits.split(' ').next().filter(|digits| digits.parse::<u32>().is_ok());
            *inner = match length {
                Some(length) => call("left", vec![whole, number(length)]),
                None => whole,
            };
            *data_type = DataType::Text;
        }
        // By way of a decimal it would be another double than the one that its digits mean.
        DataType::DoublePrecision
        | DataType::Float8
        | DataType::Float(_)
        | DataType::Real
        | DataType::Float4 => {
            // Without bits, or with more than a narrow one has, it is a wide one.
            let is_wide = match data_type {
                DataType::Float(ExactNumberInfo::None) => true,
                DataType::Float(ExactNumberInfo::Precision(bits)) => *bits > FLOAT4_BITS_MAX,
                _ => false,
            };
            if is_wide {
                *data_type = DataType::DoublePrecision;
            }
            if let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = inner {
                *inner = text(digits);
            }
        }
        DataType::Interval { .. } => {
            if let Some(words) = literal(inner).and_then(in_words) {
                *inner = text(&words);
            }
        }
        // Text like any other; the other name is how `forms` knows it again.
        DataType::JSON | DataType::JSONB => *data_type = DataType::String(None),
        // Ids are texts in the tables.
        DataType::Uuid => *data_type = DataType::Text,
        _ => {}
    }
}

/// Rewrites a call in its place, or gives what stands in its stead.
fn call_of(function: &mut Function) -> Option<Expr> {
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    if name == "localtimestamp" {
        return Some(call("now", Vec::new()));
    }
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        function.name = ObjectName::from(vec![Ident::new(*new)]);
    }
    if let Some(other) = forms::call_of(function, &name) {
        return Some(other);
    }
    if name == "generate_series" {
        sets::times(&mut function.args);
    }
    let is_plain = function.over.is_none();
    let is_small = forms::is_small(function);
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let mut arguments = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    match name.as_str() {
        "avg" => arguments.for_each(|expr| *expr = call("to_averaged", vec![taken(expr)])),
        "concat" | "concat_ws" => arguments.for_each(|expr| *expr = call("to_shown", vec![taken(expr)])),
        "format" => {
            for (place, expr) in arguments.enumerate() {
                *expr = call(if place == 0 { "to_text" } else { "to_shown" }, vec![taken(expr)]);
            }
        }
        "quote_literal" | "quote_nullable" => {
            arguments.for_each(|expr| *expr = call("to_text", vec![taken(expr)]));
        }
        "to_char" | "to_date" | "to_timestamp" => {
            let pattern = arguments.nth(1)?;
            if name == "to_char" && literal(pattern).is_some_and(is_picture) {
                function.name = ObjectName::from(vec![Ident::new(TO_CHAR_OF_NUMBERS)]);
            } else if let Some(translated) = literal(pattern).and_then(patterns::strftime) {
                *pattern = text(&translated);
            }
        }
        "date_part" => {
            let (field, time) = (arguments.next()?, arguments.next()?);
            if literal(field).is_some_and(|field| field.eq_ignore_ascii_case("second")) {
                return Some(seconds(call("date_part", vec![text("microsecond"), taken(time)])));
            }
        }
        "mod" => {
            let (left, right) = (arguments.next()?, arguments.next()?);
            let rest = binary(nested(taken(left)), BinaryOperator::Modulo, nested(taken(right)));
            return Some(nested(rest));
        }
        "age" if arguments.next().is_some() && arguments.next().is_none() => {
            let today = call("current_date", Vec::new());
            let FunctionArguments::List(list) = &mut function.args else { return None };
            list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(today)));
        }
        "json_build_object" | "jsonb_build_object" | "json_build_array" | "jsonb_build_array" | "to_json"
        | "to_jsonb" => arguments.for_each(json_value),
        "json_object_agg" | "jsonb_object_agg" if is_plain && is_small => {
            arguments.for_each(json_value);
            let (mut names, mut values) = (function.clone(), function.clone());
            for (one, keep) in [(&mut names, 0), (&mut values, 1)] {
                one.name = ObjectName::from(vec![Ident::new("array_agg")]);
                if let FunctionArguments::List(list) = &mut one.args {
                    list.args = list.args.get(keep).cloned().into_iter().collect();
                }
            }
            return Some(call("json_object", vec![Expr::Function(names), Expr::Function(values)]));
        }
        "json_agg" | "jsonb_agg" if is_plain => {
            arguments.for_each(json_value);
            return Some(call("to_json", vec![Expr::Function(function.clone())]));
        }
        _ => {}
    }
    None
}

/// A value that is JSON is put into JSON as it is.
fn json_value(expr: &mut Expr) {
    if forms::is_json(expr) {
        *expr = call("json_value", vec![taken(expr)]);
    }
}

/// `extract(second …)` with its fraction; DataFusion gives whole seconds.
fn seconds(microseconds: Expr) -> Expr {
    let double = DataType::DoublePrecision;
    let microseconds = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(microseconds),
        data_type: double,
        array: false,
        format: None,
    };
    nested(binary(microseconds, BinaryOperator::Divide, number("1000000")))
}

/// The clock's part of a span (`1 day 03:04:05`) in words, which is all that DataFusion reads; none when it has none.
fn in_words(span: &str) -> Option<String> {
    let mut has_clock = false;
    let part = |part: &str| {
        let (sign, digits) = part.strip_prefix('-').map_or(("", part), |rest| ("-", rest));
        let fields: Vec<&str> = digits.trim_start_matches('+').split(':').collect();
        let is_number = |field: &&str| {
            !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        if !matches!(fields.len(), 2 | 3) || !fields.iter().all(is_number) {
            return part.to_owned();
        }
        has_clock = true;
        let units = fields.iter().zip(["hours", "minutes", "seconds"]);
        units.map(|(field, unit)| format!("{sign}{field} {unit}")).collect::<Vec<_>>().join(" ")
    };
    let words = span.split_whitespace().map(part).collect::<Vec<_>>().join(" ");
    has_clock.then_some(words)
}

/// `LIKE '50!%' ESCAPE '!'` with the backslash that LIKE has anyway; DataFusion knows no other.
fn escaped(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) {
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

/// `x > ANY (subquery)` and `x > ALL (subquery)` by EXISTS; DataFusion's own answer is wrong.
fn quantified(expr: &mut Expr) -> Option<Expr> {
    let (left, op, right, is_all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return None,
    };
    let Expr::Subquery(query) = right.as_mut() else { return None };
    let (query, op) = ((**query).clone(), op.clone());
    Some(exists(query, vec![taken(left)], is_all, |left, right| {
        let compared = binary(left, op.clone(), right);
        match is_all {
            true => Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(compared)))),
            false => compared,
        }
    }))
}

/// `[NOT] EXISTS (SELECT 1 FROM (query) AS "__q"("__1", …) WHERE condition(members[0], "__1") AND …)`.
fn exists(query: Query, members: Vec<Expr>, negated: bool, condition: impl Fn(Expr, Expr) -> Expr) -> Expr {
    let columns: Vec<Ident> = (1..=members.len()).map(|n| Ident::with_quote('"', format!("__{n}"))).collect();
    let compared = members.into_iter().zip(&columns);
    let compared = compared.map(|(member, column)| condition(member, Expr::Identifier(column.clone())));
    let all = compared.reduce(|all, one| binary(all, BinaryOperator::And, one));
    let mut template = template();
    if let SetExpr::Select(select) = template.body.as_mut() {
        select.selection = all;
        let alias = TableAlias {
            explicit: true,
            name: Ident::with_quote('"', "__q"),
            columns: columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect(),
            at: None,
        };
        if let Some(TableFactor::Derived { subquery, alias: own, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            (**subquery, *own) = (query, Some(alias));
        }
    }
    let exists = Expr::Exists { subquery: Box::new(template), negated: false };
    match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(exists) },
        false => exists,
    }
}

/// A query to be filled in.
pub(super) fn template() -> Query {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT 1 FROM (SELECT 1) AS q");
    match parsed.map(|mut statements| statements.pop()) {
        Ok(Some(Statement::Query(query))) => *query,
        other => unreachable!("a constant text is one query, and not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str) -> String {
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("it parses").remove(0);
        rewrite(&mut statement);
        statement.to_string()
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
            ("SELECT a::varchar(3), 1e15::float8", "SELECT left(to_text(a), 3)::TEXT, '1e15'::FLOAT8"),
            ("SELECT '{}'::jsonb", "SELECT '{}'::STRING"),
            ("SELECT a::float, a::float(20)", "SELECT a::DOUBLE PRECISION, a::FLOAT(20)"),
            ("SELECT sign(a), every(b), avg(c)", "SELECT signum(a), bool_and(b), avg(to_averaged(c))"),
            (
                "SELECT INTERVAL '1 day -03:04:05.5', '01:30'::interval",
                "SELECT INTERVAL '1 day -03 hours -04 minutes -05.5 seconds', '01 hours 30 minutes'::INTERVAL",
            ),
            ("SELECT mod(a + 1, 2), localtimestamp", "SELECT ((a + 1) % (2)), now()"),
            (
                "SELECT a::timestamptz, TIMESTAMPTZ '2026-01-01'",
                "SELECT timezone('UTC', a::TIMESTAMP), timezone('UTC', TIMESTAMP '2026-01-01')",
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
                "SELECT 1 FROM UNNEST(json_elements('[]'::STRING)) AS e (e)",
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
                "SELECT to_json(array_agg(json_value(json_build_object('a', b))))",
            ),
            (
                "SELECT make_interval(days => 3, hours => n)",
                "SELECT ((INTERVAL '1 day' * (3)) + (INTERVAL '1 hour' * (n)))",
            ),
            ("SELECT a = ANY (ARRAY[1])", "SELECT a = ANY(ARRAY[1])"),
            ("SELECT substring(a FROM 2), substring(a, 2)", "SELECT SUBSTRING(a FROM 2), SUBSTRING(a, 2)"),
            ("SELECT $$it's$$, E'a\\n'", "SELECT 'it''s', 'a\n'"),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }
}
