//! Which sums are of type `numeric` in PostgreSQL, so that a quotient of them is exact: `sum(bigint)`.
//!
//! Here a sum of whole numbers is a `bigint`, so that it is a number in JSON, but `count(*) * 100 / sum(count(*)) OVER ()` must
//! be 65.2 and not 65. A whole number that is written out, as in `sum(CASE WHEN … THEN 1 ELSE 0 END)`, is an `integer` there,
//! its sum a `bigint`, and the quotient whole. It is seen where the sum stands beside the division; a sum that comes out of a
//! subquery is a `bigint` like any other.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Functions whose result has the type of what they are given.
const KEEPING: &[&str] = &["%", "*", "+", "-", "abs", "coalesce", "greatest", "least", "nullif"];

/// Whether an expression of whole numbers is a `numeric` in PostgreSQL.
pub(super) fn is_numeric(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::ScalarFunction(call) if call.name() == "to_plain" => {
            call.args.iter().any(|arg| is_numeric(arg, schema))
        }
        Expr::AggregateFunction(call) => {
            call.func.name() == "sum" && call.params.args.iter().any(|arg| is_bigint(arg, schema))
        }
        Expr::WindowFunction(call) => {
            call.fun.name() == "sum" && call.params.args.iter().any(|arg| is_bigint(arg, schema))
        }
        Expr::ScalarFunction(call) if KEEPING.contains(&call.name()) => {
            call.args.iter().any(|arg| is_numeric(arg, schema))
        }
        Expr::Alias(alias) => is_numeric(&alias.expr, schema),
        Expr::Negative(inner) => is_numeric(inner, schema),
        _ => false,
    }
}

/// Whether an expression is a `bigint` in PostgreSQL.
fn is_bigint(expr: &Expr, schema: &DFSchema) -> bool {
    if !matches!(expr.get_type(schema), Ok(DataType::Int64)) {
        return false;
    }
    match expr {
        Expr::Literal(..) => false,
        Expr::ScalarFunction(call) => {
            KEEPING.contains(&call.name()) && call.args.iter().any(|arg| is_bigint(arg, schema))
        }
        Expr::BinaryExpr(binary) => is_bigint(&binary.left, schema) || is_bigint(&binary.right, schema),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            results.into_iter().any(|result| is_bigint(result, schema))
        }
        // What counts the items of a list is an `integer` there.
        Expr::Cast(cast) if cast.expr.get_type(schema).is_ok_and(|kind| kind.is_unsigned_integer()) => false,
        Expr::Alias(alias) => is_bigint(&alias.expr, schema),
        Expr::Negative(inner) => is_bigint(inner, schema),
        // Columns, casts, counts.
        _ => true,
    }
}
