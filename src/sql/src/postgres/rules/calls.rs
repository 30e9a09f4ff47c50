//! Calls as they are written before they are planned: functions that have another name, other arguments or another result in
//! DataFusion. Which of them is rewritten how says the table.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, UnaryOperator, Value, ValueWithSpan,
};

use super::regular::regular;
use super::written::{binary, call, literal, nested, number, taken, text};
use super::{dates, forms, patterns, sets};
use crate::postgres::table::{self, Row, Rule};
use crate::postgres::{TO_CHAR_OF_NUMBERS, is_picture, of_operator, translated_with};

/// The row of the function that is called.
pub(super) fn called(function: &Function) -> Option<&'static Row> {
    table::of(&function.name.0.last()?.as_ident()?.value.to_ascii_lowercase())
}

/// Rewrites a call in its place, or gives what stands in its stead.
pub(super) fn call_of(function: &mut Function) -> Option<Expr> {
    let row = called(function)?;
    if let Some(other) = row.calls.filter(|_| is_named(function, row.name)) {
        function.name = named(other);
    }
    match row.rule? {
        Rule::Now => Some(dates::now(true)),
        Rule::LocalNow => Some(dates::now(false)),
        Rule::TimePattern => of_pattern(function),
        Rule::Regular => {
            regular_of(function);
            None
        }
        Rule::Series => {
            sets::times(&mut function.args);
            None
        }
        Rule::Gathered => Some(call("to_json", vec![Expr::Function(function.clone())])),
        Rule::Signed => Some(signed(Expr::Function(function.clone()))),
        Rule::Pairs => forms::is_small(function).then(|| pairs(function)),
        Rule::Shares => shares(function),
        Rule::Neighbour => neighbour(function),
        Rule::MakeInterval => match &function.args {
            FunctionArguments::List(list) => dates::span(&list.args),
            _ => None,
        },
        rule => of_arguments(rule, function),
    }
}

/// What is done to the result of a function.
pub(super) fn around(function: &Function) -> Option<&'static str> {
    called(function)?.around
}

/// The rules that rest on the arguments alone.
fn of_arguments(rule: Rule, function: &mut Function) -> Option<Expr> {
    let each = |arguments: &mut [&mut Expr], name| {
        arguments.iter_mut().for_each(|expr| **expr = call(name, vec![taken(expr)]));
    };
    let mut arguments = arguments_of(function);
    match (rule, arguments.as_mut_slice()) {
        (Rule::Averaged, all) => each(all, "to_averaged"),
        (Rule::Shown, all) => each(all, "to_shown"),
        (Rule::Texts, all) => each(all, "to_text"),
        (Rule::Format, [first, rest @ ..]) => {
            **first = call("to_text", vec![taken(first)]);
            each(rest, "to_shown");
        }
        (Rule::Uniform, all) => all.iter_mut().for_each(|expr| signed_number(expr)),
        (Rule::DatePart, [field, time, ..]) => return dates::part_of_time(literal(field)?, time),
        (Rule::DateTrunc, [unit, time, zone]) if forms::is_small(*zone) => {
            return Some(dates::cut_there(unit, time, zone));
        }
        (Rule::MakeTimestamp, all) => return dates::timestamp(all.try_into().ok()?),
        (Rule::Padded, [_, length, ..]) if !matches!(length, Expr::Value(_)) => {
            **length = call("to_length", vec![taken(length)]);
        }
        (Rule::Mod, [left, right, ..]) => {
            let rest = binary(nested(taken(left)), BinaryOperator::Modulo, nested(taken(right)));
            return Some(nested(rest));
        }
        (Rule::Div, [left, right]) => return Some(quotient(left, right)),
        // No text has the letter of the number 0.
        (Rule::Chr, [code]) => {
            **code = call("to_within", vec![taken(code), number("1"), number("1114111")]);
        }
        (Rule::RegexpSubstr, [whole, pattern]) => {
            let pattern = text(&format!("({})", literal(pattern)?));
            let found = call("regexp_match", vec![taken(whole), pattern]);
            return Some(call("array_element", vec![found, number("1")]));
        }
        (Rule::Round, [_, digits, ..]) => match written_whole(digits) {
            Some(written) => **digits = number(&written),
            None => function.name = named("round_by"),
        },
        // Of a list of nothing there is none.
        (Rule::ArrayLength, [_, _, ..]) => {
            let length = call("nullif", vec![Expr::Function(function.clone()), number("0")]);
            return Some(cast_to(length, DataType::Int(None)));
        }
        (Rule::Age, [_]) => {
            let today = call("current_date", Vec::new());
            let FunctionArguments::List(list) = &mut function.args else { return None };
            list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(today)));
        }
        _ => {}
    }
    None
}

fn named(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

fn is_named(function: &Function, name: &str) -> bool {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|own| own.value.eq_ignore_ascii_case(name))
}

/// The arguments that have no names.
fn arguments_of(function: &mut Function) -> Vec<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return Vec::new() };
    let unnamed = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    unnamed.collect()
}

/// `percentile_cont(ARRAY[0.5, 0.9])`: a list of one call for each share.
fn shares(function: &mut Function) -> Option<Expr> {
    let whole = function.clone();
    let mut arguments = arguments_of(function);
    let [Expr::Array(shares)] = arguments.as_mut_slice() else { return None };
    if !forms::is_small(&whole) {
        return None;
    }
    let one = |share: &Expr| {
        let mut one = whole.clone();
        if let FunctionArguments::List(list) = &mut one.args {
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(share.clone()))];
        }
        Expr::Function(one)
    };
    Some(Expr::Array(Array { elem: shares.elem.iter().map(one).collect(), named: true }))
}

/// `div(a, b)`.
fn quotient(left: &mut Expr, right: &mut Expr) -> Expr {
    if !forms::is_small(left) || !forms::is_small(right) {
        let quotient = binary(nested(taken(left)), BinaryOperator::Divide, nested(taken(right)));
        return call("trunc", vec![quotient]);
    }
    // Without what is left over, so that no digit goes by way of a double.
    let [left, right] = [left, right].map(|side| nested(taken(side)));
    let rest = nested(binary(left.clone(), BinaryOperator::Modulo, right.clone()));
    let whole = nested(binary(left, BinaryOperator::Minus, rest));
    nested(binary(whole, BinaryOperator::Divide, right))
}

/// A time and a pattern of PostgreSQL's.
fn of_pattern(function: &mut Function) -> Option<Expr> {
    let is_to_char = is_named(function, "to_char");
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get_mut(1) else {
        return None;
    };
    let written = literal(pattern).map(str::to_owned);
    // Of a text with a pattern; the other one is ours.
    if is_named(function, "to_timestamp") {
        function.name = named("to_timestamp_micros");
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let pattern = list.args.get_mut(1)?;
    let written = written?;
    if is_to_char && is_picture(&written) {
        function.name = named(TO_CHAR_OF_NUMBERS);
    } else if let Some(translated) = patterns::strftime(&written) {
        *pattern = FunctionArg::Unnamed(FunctionArgExpr::Expr(text(&translated)));
    } else if is_to_char && forms::is_small(function) {
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
        && called(function).is_some_and(|row| row.is_unsigned)
    {
        *expr = signed(taken(expr));
    }
}

/// `lag(x, n, default)`, of which DataFusion takes a written default only: the default where there is no such row.
fn neighbour(function: &mut Function) -> Option<Expr> {
    let has_default = arguments_of(function).get(2).is_some_and(|default| !matches!(default, Expr::Value(_)));
    if !has_default || !forms::is_small(function) {
        return None;
    }
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
    Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: is_none, result: default }],
        else_result: Some(Box::new(with(None))),
    })
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
