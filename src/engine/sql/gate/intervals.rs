//! Comparing spans of time.
//!
//! `ended_at - started_at > INTERVAL '1 day'` is false in DataFusion even for 31 days: the difference is a number of
//! nanoseconds and the literal one day, and it compares field by field. PostgreSQL compares with 24 hours a day and 30
//! days a month. So where spans are compared, and one of them has months or days of its own, their lengths are.

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast};

use super::floats::ALIKE;
use crate::engine::sql::postgres::{span_length, span_of};

/// A comparison of spans.
pub(super) fn comparison(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => vec![&mut binary.left, &mut binary.right],
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(),
        _ => return Ok(Transformed::no(expr)),
    };
    let kind = |side: &Expr| side.get_type(schema).ok();
    if !sides.iter().any(|side| matches!(kind(side), Some(DataType::Interval(_)))) {
        return Ok(Transformed::no(expr));
    }
    // Only sides that are themselves spans: in `at + INTERVAL '1 month' > now()` a month must stay a month.
    for side in sides {
        *side = match kind(side) {
            Some(DataType::Interval(_) | DataType::Duration(_)) => span_length(std::mem::take(side)),
            Some(text) if text.is_string() => {
                span_length(cast(std::mem::take(side), DataType::Interval(IntervalUnit::MonthDayNano)))
            }
            _ => continue,
        };
    }
    Ok(Transformed::yes(expr))
}

/// Where the difference of two times and another span stand in each other's stead, both are spans: of days and the clock, as
/// PostgreSQL's difference is. DataFusion makes nanoseconds of it, which are 292 years at most.
pub(super) fn alike(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::ScalarFunction(call) if ALIKE.contains(&call.name()) => call.args.iter_mut().collect(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            results.chain(case.else_expr.as_deref_mut()).collect()
        }
        _ => return Transformed::no(expr),
    };
    let is =
        |side: &Expr, wanted: fn(&DataType) -> bool| side.get_type(schema).is_ok_and(|kind| wanted(&kind));
    if !sides.iter().any(|side| is(side, |kind| matches!(kind, DataType::Interval(_)))) {
        return Transformed::no(expr);
    }
    let mut changed = false;
    for side in sides {
        if is(side, |kind| matches!(kind, DataType::Duration(_))) {
            *side = span_of(std::mem::take(side));
            changed = true;
        }
    }
    Transformed::new_transformed(expr, changed)
}

pub(super) fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
