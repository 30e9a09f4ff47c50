//! Calls and patterns that are refused by how they are written: those that the engine would answer wrongly.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
};

use super::forms::innermost;
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
            Check::Share => wrong_share(argument(&function.args, 0)?),
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

/// A written share of the rows that is none, or the first such of a list.
fn wrong_share(share: &Expr) -> Option<String> {
    let written = match innermost(share) {
        Expr::Array(shares) => return shares.elem.iter().find_map(wrong_share),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", innermost(expr)),
        other => other.to_string(),
    };
    let is_beyond = written.parse::<f64>().is_ok_and(|share| !(0.0..=1.0).contains(&share));
    is_beyond
        .then(|| format!("A percentile of {} (write a share of the rows, from 0 to 1)", quoted(&written)))
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

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::of;

    #[test]
    fn a_share_of_the_rows_is_from_0_to_1() {
        let refused = |share: &str| {
            let call = format!("percentile_cont({share}) WITHIN GROUP (ORDER BY x)");
            let parsed =
                Parser::new(&PostgreSqlDialect {}).try_with_sql(&call).and_then(|mut all| all.parse_expr());
            of(&parsed.expect("it parses"))
        };
        for share in ["0", "1", "0.95", "ARRAY[0.1, 1.0]", "share"] {
            assert_eq!(refused(share), None);
        }
        for (share, part) in [("2", "of 2 "), ("-0.5", "of -0.5 "), ("ARRAY[0.5, (95)]", "of 95 ")] {
            assert!(
                refused(share).is_some_and(|told| told.contains(part) && told.contains("from 0 to 1")),
                "{share}"
            );
        }
    }
}
