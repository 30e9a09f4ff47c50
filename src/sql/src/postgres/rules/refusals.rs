//! Calls and patterns that are refused by how they are written: those that the engine would answer wrongly.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use super::regular::{matches_regular, similar};
use super::{calls, patterns, written};
use crate::errors::quoted;
use crate::postgres::table::Check;
use crate::postgres::{is_picture, translated, translated_with};

/// What of an expression is not available here, if it is a call or a pattern that is not.
pub(crate) fn of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::SimilarTo { .. } if similar(&mut expr.clone()).is_none() => Some(
            "SIMILAR TO with ESCAPE, or a pattern that is no text (use ~ with a regular expression)".to_owned(),
        ),
        Expr::BinaryOp { op, right, .. } if matches_regular(op) => regular_expression(right),
        Expr::Substring { substring_from: Some(pattern), substring_for: None, .. } => {
            regular_expression(pattern)
        }
        Expr::Function(function) => match calls::called(function)?.check? {
            Check::Regular { flags, takes_global } => {
                let pattern = argument(&function.args, 1)?;
                wrong_flags(&function.args, flags, takes_global).or_else(|| regular_expression(pattern))
            }
            Check::ToChar => to_char_pattern(&function.args),
            Check::DistinctPairs => is_distinct(function).then(|| {
                "json_object_agg with DISTINCT (put SELECT DISTINCT of the names and values in a subquery, and the \
                 aggregate around it)"
                    .to_owned()
            }),
        },
        _ => None,
    }
}

/// An argument without a name.
fn argument(arguments: &FunctionArguments, place: usize) -> Option<&Expr> {
    let FunctionArguments::List(list) = arguments else { return None };
    match list.args.get(place)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Whether pairs are told apart: here names and values are gathered each by themselves.
fn is_distinct(function: &Function) -> bool {
    match &function.args {
        FunctionArguments::List(list) => list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
        _ => false,
    }
}

/// A written regular expression has a counterpart in the engine's library, which answers in linear time.
fn regular_expression(pattern: &Expr) -> Option<String> {
    let known = written::literal(pattern).is_none_or(|text| translated(text).is_some());
    (!known).then(|| {
        "A regular expression that refers back (\\1), looks ahead (?=), names a collating element or has an escape that \
         PostgreSQL does not know"
            .to_owned()
    })
}

/// Flags that are written in the statement, the first text from a place on, and are none that are known.
fn wrong_flags(arguments: &FunctionArguments, from: usize, takes_global: bool) -> Option<String> {
    let FunctionArguments::List(list) = arguments else { return None };
    let mut behind = (from..list.args.len()).filter_map(|place| argument(arguments, place));
    let flags = behind.find_map(written::literal)?;
    let plain = if takes_global { flags.replace('g', "") } else { flags.to_owned() };
    let known = translated_with("", &plain).is_some();
    (!known).then(|| format!("A regular expression with the flags \"{}\"", quoted(flags)))
}

/// DataFusion's `to_char` takes `%Y-%m-%d` and gives any other pattern back as it is, so what cannot be translated is
/// refused.
fn to_char_pattern(arguments: &FunctionArguments) -> Option<String> {
    let pattern = argument(arguments, 1).and_then(written::literal);
    let known = |text: &str| text.contains('%') || is_picture(text) || patterns::pieces(text).is_some();
    let known = pattern.is_some_and(known);
    (!known).then(|| {
        "to_char with this pattern (write one like 'YYYY-MM-DD HH24:MI:SS', '%Y-%m-%d' or, of a number, 'FM999,990.00')"
            .to_owned()
    })
}
