//! Comparing spans of time.
//!
//! `ended_at - started_at > INTERVAL '1 day'` is false in DataFusion even for 31 days: the difference is a number of
//! nanoseconds and the literal one day, and it compares field by field. PostgreSQL compares with 24 hours a day and 30
//! days a month. So where two spans are compared, the literals' days and months become hours beforehand.

use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const DAYS_PER_MONTH: i64 = 30;

/// A comparison of spans.
pub(super) fn comparison(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let sides: Vec<&mut Box<Expr>> = match &mut expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => vec![&mut binary.left, &mut binary.right],
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        _ => return Ok(Transformed::no(expr)),
    };
    let mut changed = false;
    for side in sides {
        // Only a side that is itself a span: in `at + INTERVAL '1 month' > now()` a month must stay a month.
        if matches!(side.get_type(schema), Ok(DataType::Interval(_))) {
            let flat = std::mem::take(&mut **side).transform_up(literal)?;
            changed |= flat.transformed;
            **side = flat.data;
        }
    }
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

pub(super) fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn literal(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), metadata) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let days = i64::from(span.months) * DAYS_PER_MONTH + i64::from(span.days);
    let nanos = days.checked_mul(NANOS_PER_DAY).and_then(|nanos| nanos.checked_add(span.nanoseconds));
    let Some(nanos) = nanos.filter(|_| days != 0) else { return Ok(Transformed::no(expr)) };
    let span = IntervalMonthDayNano::new(0, 0, nanos);
    let value = ScalarValue::IntervalMonthDayNano(Some(span));
    debug_assert_eq!(value.data_type(), DataType::Interval(IntervalUnit::MonthDayNano));
    Ok(Transformed::yes(Expr::Literal(value, metadata.clone())))
}
