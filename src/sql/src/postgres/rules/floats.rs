//! Comparing doubles with exact numbers, and with lists.
//!
//! `0.1 + 0.2` is 0.3 in PostgreSQL, where a number with a point is exact, so such a number is read as a decimal. Compared
//! with a column of doubles it becomes a double there. DataFusion does it the other way round: it makes a decimal of each
//! value of the column, which loses digits, fails for NaN, takes ten times as long as the comparison (13 % of a filtering
//! statement was spent in `__fixdfti`), and hides the column from the zone maps. So the number is made a double beforehand.
//!
//! The same where a double and such a number come together in `coalesce` and its like, or as results of CASE.
//!
//! `x IN (…)` of more than a few numbers is looked up by their bits in DataFusion, where 0.0 is not -0.0 and a NaN only one
//! of the same bits. So a list that holds one of them gets the others, too.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit, not, or};

use super::intervals::compares;
use crate::postgres::table;

/// Most expressions that come of what is looked for in a list, when it is compared with the list's values one by one.
const COPIED_NODES_MAX: usize = 10_000;

/// A comparison of a double with an exact number, or in a list.
pub(super) fn comparison(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => vec![&mut binary.left, &mut binary.right],
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(),
        Expr::ScalarFunction(call) if table::is_uniform(call.name()) => call.args.iter_mut().collect(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            let changed = made_doubles(results.chain(case.else_expr.as_deref_mut()).collect(), schema);
            let compared = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
            let compared = case.expr.as_deref_mut().map(|of| std::iter::once(of).chain(compared).collect());
            let changed = compared.is_some_and(|sides| made_doubles(sides, schema)) || changed;
            return Transformed::new_transformed(expr, changed);
        }
        _ => return Transformed::no(expr),
    };
    let changed = made_doubles(sides, schema);
    match expr {
        Expr::InList(list) if is_double(&list.expr, schema) => listed(list, changed, schema),
        expr if changed => Transformed::yes(expr),
        expr => Transformed::no(expr),
    }
}

fn is_double(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Float32 | DataType::Float64))
}

/// Makes doubles of the exact numbers among what is compared, if there is a double among it, and nothing but numbers.
fn made_doubles(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let exact = |kind: &DataType| matches!(kind, DataType::Decimal128(..) | DataType::Decimal256(..));
    // A type that cannot be told (a column that is missing) is reported elsewhere.
    let Ok(kinds) = sides.iter().map(|side| side.get_type(schema)).collect::<Result<Vec<_>>>() else {
        return false;
    };
    let comparable = kinds.iter().all(|kind| kind.is_numeric() || *kind == DataType::Null);
    if !comparable || !kinds.iter().any(DataType::is_floating) || !kinds.iter().any(exact) {
        return false;
    }
    for (side, _) in sides.into_iter().zip(&kinds).filter(|(_, kind)| exact(kind)) {
        *side = match written(side) {
            Some(number) => lit(number),
            None => cast(std::mem::take(side), DataType::Float64),
        };
    }
    true
}

/// A written decimal as the nearest double.
fn written(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(
            value @ (ScalarValue::Decimal128(Some(_), ..) | ScalarValue::Decimal256(Some(_), ..)),
            _,
        ) => {
            // By its digits: dividing by the scale would round twice.
            value.cast_to(&DataType::Utf8).ok()?.try_as_str()??.parse().ok()
        }
        Expr::Negative(inner) => written(inner).map(|number| -number),
        _ => None,
    }
}

/// A list in which doubles are looked for.
fn listed(list: InList, changed: bool, schema: &DFSchema) -> Transformed<Expr> {
    let (mut constants, mut others) = (Vec::new(), Vec::new());
    for item in &list.list {
        match constant(item, schema) {
            Some(value) => constants.push(value),
            None => others.push(item.clone()),
        }
    }
    let is_zero = |value: &Option<f64>| *value == Some(0.0);
    let is_nan = |value: &Option<f64>| value.is_some_and(f64::is_nan);
    let special = constants.iter().any(|value| is_zero(value) || is_nan(value));
    // What is no constant yet may become one, and be any.
    if !special && (others.is_empty() || list.expr.is_volatile()) || !may_be_copied(&list.expr, others.len())
    {
        return Transformed::new_transformed(Expr::InList(list), changed);
    }
    if constants.iter().any(is_zero) {
        constants.retain(|value| !is_zero(value));
        constants.extend([Some(0.0), Some(-0.0)]);
    }
    if constants.iter().any(is_nan) {
        constants.retain(|value| !is_nan(value));
        constants.extend([Some(f64::NAN), Some(-f64::NAN)]);
    }
    let InList { expr, negated, .. } = list;
    if expr.is_volatile() {
        let constants = constants.into_iter().map(|value| lit(ScalarValue::Float64(value)));
        return Transformed::yes(expr.in_list(constants.chain(others).collect(), negated));
    }
    let mut parts: Vec<Expr> = others.into_iter().map(|item| expr.as_ref().clone().eq(item)).collect();
    if !constants.is_empty() {
        let constants = constants.into_iter().map(|value| lit(ScalarValue::Float64(value)));
        parts.push(expr.in_list(constants.collect(), false));
    }
    any_of(parts, negated)
}

/// Whether any of them holds, or none.
fn any_of(mut parts: Vec<Expr>, negated: bool) -> Transformed<Expr> {
    // As a tree that is not as deep as the list is long.
    while parts.len() > 1 {
        let mut left = parts.into_iter();
        parts = Vec::new();
        while let Some(part) = left.next() {
            parts.push(match left.next() {
                Some(other) => or(part, other),
                None => part,
            });
        }
    }
    let any = parts.pop().unwrap_or_else(|| lit(false));
    Transformed::yes(if negated { not(any) } else { any })
}

/// Whether an expression is small enough to be written so many times. Lists within lists would double with every level.
fn may_be_copied(expr: &Expr, times: usize) -> bool {
    let mut left = COPIED_NODES_MAX / times.max(1);
    let looked = expr.apply(|_| match left.checked_sub(1) {
        Some(less) => {
            left = less;
            Ok(TreeNodeRecursion::Continue)
        }
        None => Ok(TreeNodeRecursion::Stop),
    });
    matches!(looked, Ok(TreeNodeRecursion::Continue))
}

/// A number that is written in the statement, as a double; NULL too.
fn constant(expr: &Expr, schema: &DFSchema) -> Option<Option<f64>> {
    let literal = match expr {
        Expr::Literal(value, _) => value,
        Expr::Negative(inner) => return constant(inner, schema).map(|value| value.map(|value| -value)),
        Expr::Cast(cast) if is_double(expr, schema) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => value,
            inner => return constant(inner, schema),
        },
        _ => return None,
    };
    match literal.cast_to(&DataType::Float64).ok()? {
        ScalarValue::Float64(value) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::prelude::{col, lit};

    use super::*;

    fn schema() -> DFSchema {
        let fields =
            vec![Field::new("price", DataType::Float64, true), Field::new("n", DataType::Int64, true)];
        DFSchema::try_from(Schema::new(fields)).expect("a schema")
    }

    fn decimal(value: i128, scale: i8) -> Expr {
        Expr::Literal(ScalarValue::Decimal128(Some(value), 20, scale), None)
    }

    #[test]
    fn a_written_number_beside_a_double_is_a_double() {
        let schema = schema();
        let changed = comparison(col("price").gt(decimal(8, 1)), &schema);
        assert_eq!(changed.data, col("price").gt(lit(0.8)));
        let changed = comparison(
            col("price").between(Expr::Negative(Box::new(decimal(4, 1))), decimal(1_234_567_890_123, 12)),
            &schema,
        );
        assert_eq!(changed.data, col("price").between(lit(-0.4), lit(1.234567890123)));
        let changed = comparison(col("price").between(decimal(5, 1), lit(100_i64)), &schema);
        assert_eq!(changed.data, col("price").between(lit(0.5), lit(100_i64)));
        let changed = comparison(col("price").in_list(vec![decimal(1, 1), lit(2_i64)], false), &schema);
        assert_eq!(changed.data, col("price").in_list(vec![lit(0.1), lit(2_i64)], false));
        let changed = comparison(col("price").lt(decimal(1, 1) + decimal(2, 1)), &schema);
        assert_eq!(
            changed.data,
            col("price").lt(cast(decimal(1, 1) + decimal(2, 1), DataType::Float64)),
            "worked out exactly, then a double"
        );
        for same in [col("n").gt(decimal(8, 1)), decimal(1, 1).lt(decimal(2, 1)), col("price").gt(col("n"))] {
            assert!(!comparison(same.clone(), &schema).transformed, "{same}");
        }
    }

    #[test]
    fn lists_within_lists_do_not_double_with_every_level() {
        let schema = schema();
        let mut expr = col("price");
        for _ in 0..24 {
            let list = vec![col("n"), cast(col("n"), DataType::Float64)];
            expr = comparison(cast(expr, DataType::Float64).in_list(list, false), &schema).data;
        }
        let mut nodes = 0;
        let counted = expr.apply(|_| {
            nodes += 1;
            Ok(TreeNodeRecursion::Continue)
        });
        assert!(counted.is_ok() && nodes < 4 * COPIED_NODES_MAX, "{nodes}");
    }

    #[test]
    fn a_list_holds_every_zero_and_every_nan() {
        let schema = schema();
        let changed = comparison(col("price").in_list(vec![lit(1_i64), lit(0_i64)], true), &schema);
        let list = vec![lit(1.0), lit(0.0), lit(-0.0)];
        assert_eq!(changed.data, not(col("price").in_list(list, false)));
        let nan = cast(lit("NaN"), DataType::Float64);
        let changed = comparison(col("price").in_list(vec![nan, col("n")], false), &schema);
        let list = vec![lit(f64::NAN), lit(-f64::NAN)];
        assert_eq!(changed.data, or(col("price").eq(col("n")), col("price").in_list(list, false)));
        for same in [
            col("price").in_list(vec![lit(1.0), lit(2_i64)], true),
            col("n").in_list(vec![lit(0_i64), lit(1_i64)], false),
        ] {
            assert!(!comparison(same.clone(), &schema).transformed, "{same}");
        }
    }
}
