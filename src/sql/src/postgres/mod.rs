//! What PostgreSQL has and DataFusion has not, or answers otherwise: the one home of what SQL means here.
//!
//! `table` has a row for each function, `rules` what a statement is rewritten by, in order, and the files beside them the
//! functions themselves. Operators are planned here, where the types are known: JSON (`->`, `->>`, `#>`, `#>>`, `?`, `@>`), overlapping lists,
//! exact division, a date plus a span of time, text put together with a number. The functions beside them are called by
//! name, most of them by what `rules/dialect.rs` makes of a statement. All of it was found by asking both the same
//! (`tests/it/bi/differential.rs`).

pub(crate) mod column_names;
mod digests;
mod first_of;
mod format;
mod json;
mod json_text;
mod lists;
mod moments;
mod notation;
mod numbers;
mod per_row;
mod picture;
mod regexes;
pub(crate) mod rules;
mod spans;
mod sums;
pub(crate) mod table;
mod text;
mod times;
mod totals;
mod zone;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::functions_nested::array_has::array_has_any_udf;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast as cast_expr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use self::numbers::Work;
use crate::errors::{QueryError, told};

pub(super) use self::json::{concatenation as json_concatenation, marked as json_marked};
pub(super) use self::notation::{of_operator, translated, translated_for, translated_with};
pub(super) use self::numbers::{plain, without_exponent};
pub(super) use self::picture::{NAME as TO_CHAR_OF_NUMBERS, is_picture};
pub(super) use self::spans::{length as span_length, picked as span_picked, span as span_of};
pub(super) use self::text::bytes_of;
pub(super) use self::times::without_zone;
pub(super) use self::totals::of_spans;

/// Plans the operators.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let expr = signed(expr, schema);
        // A type that cannot be told yet (a missing column) is reported by what comes after.
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let is_json = left.is_string();
        let is_span = |kind: &DataType| matches!(kind, DataType::Interval(_) | DataType::Duration(_));
        let is_computed = match expr.op {
            BinaryOperator::Plus | BinaryOperator::Minus => is_span(&left) && is_span(&right),
            BinaryOperator::Multiply | BinaryOperator::Divide => true,
            _ => false,
        };
        let expr = if is_computed { spelled_out(expr, [&left, &right]) } else { expr };
        let function = match expr.op {
            BinaryOperator::Arrow | BinaryOperator::LongArrow if is_json => {
                let as_text = expr.op == BinaryOperator::LongArrow;
                return Ok(PlannerResult::Planned(json::member_of(expr.left, as_text, expr.right)));
            }
            BinaryOperator::HashArrow if is_json => json::at_path(false),
            BinaryOperator::HashLongArrow if is_json => json::at_path(true),
            BinaryOperator::Question if is_json => json::has_key(),
            BinaryOperator::AtArrow if is_json && right.is_string() => json::contains(),
            BinaryOperator::PGOverlap => array_has_any_udf().as_ref().clone(),
            BinaryOperator::Divide if is_exact(&left, &right) => numbers::udf(Work::Divide),
            BinaryOperator::Divide
                if left.is_integer()
                    && right.is_integer()
                    && (sums::is_numeric(&expr.left, schema) || sums::is_numeric(&expr.right, schema)) =>
            {
                numbers::udf(Work::Divide)
            }
            BinaryOperator::Multiply if is_span(&left) && right.is_numeric() => spans::multiple(),
            BinaryOperator::Multiply if left.is_numeric() && is_span(&right) => {
                return Ok(PlannerResult::Planned(spans::multiple().call(vec![expr.right, expr.left])));
            }
            BinaryOperator::Divide if is_span(&left) && right.is_numeric() => spans::fraction(),
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
                if left.is_numeric() && right.is_numeric() && (left.is_floating() || right.is_floating()) =>
            {
                return Ok(PlannerResult::Planned(numbers::plain_of(expr)));
            }
            BinaryOperator::Plus | BinaryOperator::Minus => return Ok(dates(expr, &left, &right)),
            BinaryOperator::StringConcat => return Ok(concatenation(expr, &left, &right)),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])))
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(spans::date_part().call(args)))
    }
}

/// With differences of two times as spans of days and the clock, each of which is computed with by itself.
fn spelled_out(mut expr: RawBinaryExpr, kinds: [&DataType; 2]) -> RawBinaryExpr {
    for (side, kind) in [&mut expr.left, &mut expr.right].into_iter().zip(kinds) {
        if matches!(kind, DataType::Duration(_)) {
            *side = span_of(std::mem::take(side));
        }
    }
    expr
}

/// With numbers that have a sign: what counts (`cardinality`, `row_number`) has none in DataFusion, and beside a number that has
/// one becomes a decimal, whose quotient is exact.
fn signed(mut expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    for side in [&mut expr.left, &mut expr.right] {
        if side.get_type(schema).is_ok_and(|kind| kind.is_unsigned_integer()) {
            *side = cast_expr(std::mem::take(side), DataType::Int64);
        }
    }
    expr
}

/// Whether a quotient is one of `numeric`: of two numbers with a fixed point, or of one and a whole number.
fn is_exact(left: &DataType, right: &DataType) -> bool {
    let exact = |kind: &DataType| kind.is_integer() || matches!(kind, DataType::Decimal128(..));
    exact(left) && exact(right) && !(left.is_integer() && right.is_integer())
}

/// A date plus or minus a span is a timestamp in PostgreSQL.
fn dates(mut expr: RawBinaryExpr, left: &DataType, right: &DataType) -> PlannerResult<RawBinaryExpr> {
    let is_span = |kind: &DataType| matches!(kind, DataType::Interval(_) | DataType::Duration(_));
    let at_midnight = |date: Expr| cast_expr(date, DataType::Timestamp(TimeUnit::Microsecond, None));
    match (left, right) {
        (DataType::Date32, span) if is_span(span) => expr.left = at_midnight(expr.left),
        (span, DataType::Date32) if is_span(span) && expr.op == BinaryOperator::Plus => {
            expr.right = at_midnight(expr.right);
        }
        // All differences of one type: of two of them DataFusion makes nanoseconds, which are 292 years at most.
        (DataType::Timestamp(..), DataType::Timestamp(..) | DataType::Date32)
        | (DataType::Date32, DataType::Timestamp(..))
            if expr.op == BinaryOperator::Minus =>
        {
            let [left, right] = [(expr.left, left), (expr.right, right)].map(|(side, kind)| match kind {
                DataType::Date32 => at_midnight(side),
                _ => side,
            });
            let difference = binary_expr(left, Operator::Minus, right);
            return PlannerResult::Planned(cast_expr(difference, DataType::Duration(TimeUnit::Microsecond)));
        }
        _ => {}
    }
    PlannerResult::Original(expr)
}

/// `'a' || 0.5` is `a0.5` and not `a0.50`, whatever the number's type.
fn concatenation(mut expr: RawBinaryExpr, left: &DataType, right: &DataType) -> PlannerResult<RawBinaryExpr> {
    let needs = |own: &DataType, other: &DataType| other.is_string() && text::is_shown_otherwise(own);
    if needs(left, right) {
        expr.left = text::written().call(vec![expr.left]);
    } else if needs(right, left) {
        expr.right = text::written().call(vec![expr.right]);
    }
    PlannerResult::Original(expr)
}

/// How many of a unit a second has.
fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// What a function does not take, as it is told to who wrote the statement.
fn refused<T>(text: String) -> Result<T> {
    Err(told(QueryError::invalid(text)))
}

/// The values as text; NULLs stay.
fn strings(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(values, &DataType::Utf8)?)
}
