//! Functions that have another name, other arguments or another result in DataFusion.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, UnaryOperator, Value, ValueWithSpan,
};

use super::casts::MOMENT;
use super::dialect::regular;
use super::written::{binary, call, is, literal, nested, number, taken, text};
use super::{forms, patterns, sets};
use crate::postgres::{TO_CHAR_OF_NUMBERS, is_picture, of_operator, translated_with};

/// Functions that are there under another name.
const RENAMED: &[(&str, &str)] = &[
    ("array_remove", "array_remove_all"),
    ("array_to_json", "to_json"),
    ("ceiling", "ceil"),
    ("every", "bool_and"),
    ("gen_random_uuid", "uuid"),
    ("json_agg", "array_agg"),
    ("jsonb_agg", "array_agg"),
    ("sign", "signum"),
    ("variance", "var"),
];

/// Functions that give numbers without a sign. Beside one that has it, in `coalesce` or CASE, they become decimals, whose
/// quotient is exact.
const COUNTS: &[&str] = &["approx_distinct", "list_position", "regr_count"];

/// The same of rows. They stay as they are where they stand alone: the first row of each is found by them (`newest`).
const NUMBERS: &[&str] = &["dense_rank", "ntile", "rank", "row_number"];

/// Aggregates whose doubles may be a NaN with a sign, which is no other there.
const OF_DOUBLES: &[&str] = &[
    "avg",
    "corr",
    "covar_pop",
    "covar_samp",
    "median",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var",
    "var_pop",
    "var_samp",
    "variance",
];

/// Functions whose second argument is a regular expression; others are ours and take it as it is.
pub(super) const PATTERNED: &[&str] = &["regexp_like", "regexp_split_to_array", "regexp_split_to_table"];

/// Rewrites a call in its place, or gives what stands in its stead.
pub(super) fn call_of(function: &mut Function) -> Option<Expr> {
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    match name.as_str() {
        "localtimestamp" => return Some(now(false)),
        "now" | "current_timestamp" | "clock_timestamp" | "statement_timestamp" | "transaction_timestamp" => {
            return Some(now(true));
        }
        // Of a text with a pattern; the other one is ours.
        "to_timestamp" if arguments_of(function) > 1 => {
            function.name = ObjectName::from(vec![Ident::new("to_timestamp_micros")]);
        }
        _ => {}
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
    if PATTERNED.contains(&name.as_str()) {
        regular_of(function);
    }
    if matches!(name.as_str(), "to_char" | "to_date" | "to_timestamp") {
        return of_pattern(function, &name);
    }
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
        "date_part" => {
            let (field, time) = (arguments.next()?, arguments.next()?);
            let field = literal(field)?;
            return part_of_time(field, time);
        }
        "lpad" | "rpad" => {
            if let Some(length) = arguments.nth(1).filter(|length| !matches!(length, Expr::Value(_))) {
                *length = call("to_length", vec![taken(length)]);
            }
        }
        "lag" | "lead"
            if is_small && arguments.nth(2).is_some_and(|default| !matches!(default, Expr::Value(_))) =>
        {
            return Some(neighbour(function));
        }
        "array_length" if arguments.nth(1).is_some() => {
            // Of a list of nothing there is none.
            let length = call("nullif", vec![Expr::Function(function.clone()), number("0")]);
            return Some(cast_to(length, DataType::Int(None)));
        }
        name if COUNTS.contains(&name) => return Some(signed(Expr::Function(function.clone()))),
        "coalesce" | "greatest" | "least" | "nullif" => arguments.for_each(signed_number),
        "mod" => {
            let (left, right) = (arguments.next()?, arguments.next()?);
            let rest = binary(nested(taken(left)), BinaryOperator::Modulo, nested(taken(right)));
            return Some(nested(rest));
        }
        "round" => {
            let digits = arguments.nth(1)?;
            match written_whole(digits) {
                Some(written) => *digits = number(&written),
                None => function.name = ObjectName::from(vec![Ident::new("round_by")]),
            }
        }
        "age" if arguments.next().is_some() && arguments.next().is_none() => {
            let today = call("current_date", Vec::new());
            let FunctionArguments::List(list) = &mut function.args else { return None };
            list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(today)));
        }
        "json_object_agg" | "jsonb_object_agg" if is_small => return Some(pairs(function)),
        "json_agg" | "jsonb_agg" => {
            return Some(call("to_json", vec![Expr::Function(function.clone())]));
        }
        _ => {}
    }
    None
}

/// What is done to the result of a function.
pub(super) fn around(function: &Function) -> Option<&'static str> {
    let name = function.name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    match name.as_str() {
        // The type that it has in DataFusion is here that of JSON.
        "string_agg" => Some("to_text"),
        name if OF_DOUBLES.contains(&name) => Some("to_plain"),
        _ => None,
    }
}

/// A time and a pattern of PostgreSQL's.
fn of_pattern(function: &mut Function, name: &str) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get_mut(1) else {
        return None;
    };
    let written = literal(pattern)?.to_owned();
    if name == "to_char" && is_picture(&written) {
        function.name = ObjectName::from(vec![Ident::new(TO_CHAR_OF_NUMBERS)]);
    } else if let Some(translated) = patterns::strftime(&written) {
        *pattern = text(&translated);
    } else if name == "to_char" && forms::is_small(function) {
        return patterns::pieces(&written).map(|pieces| with_names(function, pieces));
    }
    None
}

/// `to_char` with names that `strftime` does not write so, put together.
fn with_names(function: &Function, pieces: Vec<patterns::Piece>) -> Expr {
    let of = |pattern: &str| {
        let mut part = function.clone();
        if let FunctionArguments::List(list) = &mut part.args
            && let Some(own) = list.args.get_mut(1)
        {
            *own = FunctionArg::Unnamed(FunctionArgExpr::Expr(text(pattern)));
        }
        Expr::Function(part)
    };
    let parts = pieces.into_iter().map(|piece| match piece {
        patterns::Piece::Plain(pattern) => of(&pattern),
        patterns::Piece::Name { strftime, letters, width } => {
            let name = match letters {
                patterns::Letters::Mixed => of(strftime),
                patterns::Letters::Upper => call("upper", vec![of(strftime)]),
                patterns::Letters::Lower => call("lower", vec![of(strftime)]),
            };
            if width == 0 { name } else { call("rpad", vec![name, number(&width.to_string())]) }
        }
        patterns::Piece::Number { strftime, plus, by, width } => {
            let sum = binary(signed(of(strftime)), BinaryOperator::Plus, number(&plus.to_string()));
            let whole = binary(nested(sum), BinaryOperator::Divide, number(&by.to_string()));
            let digits = call("to_text", vec![whole]);
            match width {
                1 => digits,
                _ => call("lpad", vec![digits, number(&width.to_string()), text("0")]),
            }
        }
    });
    let whole = parts.reduce(|whole, part| binary(whole, BinaryOperator::StringConcat, part));
    nested(whole.unwrap_or_else(|| text("")))
}

/// `now()` to the microsecond, as a point in time or as what a clock in UTC shows.
fn now(zoned: bool) -> Expr {
    let now = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("now", Vec::new())),
        data_type: MOMENT,
        array: false,
        format: None,
    };
    if zoned { call("timezone", vec![text("UTC"), now]) } else { now }
}

/// `json_object_agg(name, value)` of a list of names and one of values.
fn pairs(function: &Function) -> Expr {
    let (mut names, mut values) = (function.clone(), function.clone());
    for (one, keep) in [(&mut names, 0), (&mut values, 1)] {
        one.name = ObjectName::from(vec![Ident::new("array_agg")]);
        if let FunctionArguments::List(list) = &mut one.args {
            list.args = list.args.get(keep).cloned().into_iter().collect();
        }
    }
    call("json_object", vec![Expr::Function(names), Expr::Function(values)])
}

/// The digits of a whole number that is written out.
fn written_whole(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse::<i64>().ok().map(|_| digits.clone())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            written_whole(expr).map(|digits| format!("-{digits}"))
        }
        Expr::Nested(inner) => written_whole(inner),
        _ => None,
    }
}

/// As a number with a sign.
pub(super) fn signed(count: Expr) -> Expr {
    cast_to(count, DataType::BigInt(None))
}

fn cast_to(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// A row's number beside numbers that have a sign.
pub(super) fn signed_number(expr: &mut Expr) {
    if let Expr::Function(function) = expr
        && function.over.is_some()
        && let Some(name) = function.name.0.last().and_then(|part| part.as_ident())
        && NUMBERS.iter().any(|number| is(name, number))
    {
        *expr = signed(taken(expr));
    }
}

/// `lag(x, n, default)`, of which DataFusion takes a written default only: the default where there is no such row.
fn neighbour(function: &Function) -> Expr {
    let with = |first: Option<Expr>| {
        let mut other = function.clone();
        if let FunctionArguments::List(list) = &mut other.args {
            list.args.truncate(2);
            if let (Some(first), Some(place)) = (first, list.args.first_mut()) {
                *place = FunctionArg::Unnamed(FunctionArgExpr::Expr(first));
            }
        }
        Expr::Function(other)
    };
    let default = match &function.args {
        FunctionArguments::List(list) => match list.args.get(2) {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(default))) => default.clone(),
            _ => Expr::value(Value::Null),
        },
        _ => Expr::value(Value::Null),
    };
    let is_none = Expr::IsNull(Box::new(with(Some(number("1")))));
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: is_none, result: default }],
        else_result: Some(Box::new(with(None))),
    }
}

fn arguments_of(function: &Function) -> usize {
    match &function.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    }
}

/// The pattern of a function over regular expressions, and its flags in it. What cannot be had is refused before (`refuse`).
fn regular_of(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let mut arguments = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let Some(pattern) = arguments.nth(1) else { return };
    let flags = arguments.next().and_then(|flags| literal(flags).map(str::to_owned));
    if let (Some(flags), Some(written)) = (flags, literal(pattern))
        && let Some(own) = translated_with(written, &flags)
    {
        *pattern = text(&of_operator(own));
        list.args.truncate(2);
    } else {
        regular(pattern, false);
    }
}

/// PostgreSQL's other names of the parts of times.
const PARTS: &[(&str, &str)] = &[
    ("c", "century"),
    ("cent", "century"),
    ("centuries", "century"),
    ("d", "day"),
    ("days", "day"),
    ("dec", "decade"),
    ("decades", "decade"),
    ("decs", "decade"),
    ("h", "hour"),
    ("hours", "hour"),
    ("hr", "hour"),
    ("hrs", "hour"),
    ("m", "minute"),
    ("mil", "millennium"),
    ("millennia", "millennium"),
    ("mils", "millennium"),
    ("min", "minute"),
    ("mins", "minute"),
    ("minutes", "minute"),
    ("mon", "month"),
    ("mons", "month"),
    ("months", "month"),
    ("qtr", "quarter"),
    ("w", "week"),
    ("weeks", "week"),
    ("y", "year"),
    ("years", "year"),
    ("yr", "year"),
    ("yrs", "year"),
];

/// `extract(part FROM time)`: seconds and milliseconds with their fractions, of which DataFusion gives whole ones; other parts
/// under the names that it knows. None of one that stays as it is.
pub(super) fn part_of_time(part: &str, time: &mut Expr) -> Option<Expr> {
    let part = part.trim().to_ascii_lowercase();
    let microseconds = |time: &mut Expr| call("date_part", vec![text("microsecond"), taken(time)]);
    match part.as_str() {
        "s" | "sec" | "second" | "seconds" | "secs" => Some(fraction(microseconds(time), "1000000")),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => {
            Some(fraction(microseconds(time), "1000"))
        }
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Some(microseconds(time)),
        other => {
            let place = PARTS.binary_search_by_key(&other, |(name, _)| name).ok()?;
            Some(call("date_part", vec![text(PARTS[place].1), taken(time)]))
        }
    }
}

/// A count as a fraction of something larger.
fn fraction(count: Expr, per: &str) -> Expr {
    nested(binary(cast_to(count, DataType::DoublePrecision), BinaryOperator::Divide, number(per)))
}
