//! Comparing doubles with numbers that are written out.
//!
//! `0.1 + 0.2` is 0.3 in PostgreSQL, where a number with a point is exact, so such a number is read as a decimal. Compared
//! with a column of doubles it becomes a double there. DataFusion does it the other way round: it makes a decimal of each
//! value of the column, which loses digits, takes ten times as long as the comparison (13 % of a filtering statement was
//! spent in `__fixdfti`), and hides the column from the zone maps. So the number is made a double beforehand.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::intervals::compares;

/// Rewrites every comparison of a double with a written number, in the plan and its subqueries.
pub(super) fn normalize(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewrite_node = |node: LogicalPlan| {
        let inputs = node.inputs();
        // A leaf's own expressions (a VALUES list, say) see no columns but its own.
        let schema = if inputs.is_empty() { node.schema().as_ref().clone() } else { merge_schema(&inputs) };
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            // One that is changed would be given its former name, and is no grouping set under a name.
            if matches!(expr, Expr::GroupingSet(_)) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| Ok(comparison(expr, &schema)))?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })
    };
    Ok(plan.transform_up_with_subqueries(rewrite_node)?.data)
}

fn comparison(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => vec![&mut binary.left, &mut binary.right],
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(),
        _ => return Transformed::no(expr),
    };
    // A type that cannot be told (a column that is missing) is reported elsewhere.
    let is_double = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
    if !sides.iter().all(|side| is_double(side) || written(side).is_some()) {
        return Transformed::no(expr);
    }
    let doubles = sides.iter().filter(|side| is_double(side)).count();
    if doubles == 0 || doubles == sides.len() {
        return Transformed::no(expr);
    }
    for side in &mut sides {
        if let Some(number) = written(side) {
            **side = Expr::Literal(ScalarValue::Float64(Some(number)), None);
        }
    }
    Transformed::yes(expr)
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn a_written_number_beside_a_double_is_a_double() {
        let fields =
            vec![Field::new("price", DataType::Float64, true), Field::new("n", DataType::Int64, true)];
        let schema = DFSchema::try_from(Schema::new(fields)).expect("a schema");
        let decimal = |value, scale| Expr::Literal(ScalarValue::Decimal128(Some(value), 20, scale), None);
        let changed = comparison(col("price").gt(decimal(8, 1)), &schema);
        assert_eq!(changed.data, col("price").gt(lit(0.8)));
        let changed = comparison(
            col("price").between(Expr::Negative(Box::new(decimal(4, 1))), decimal(1_234_567_890_123, 12)),
            &schema,
        );
        assert_eq!(changed.data, col("price").between(lit(-0.4), lit(1.234567890123)));
        let changed = comparison(col("price").in_list(vec![decimal(1, 1), decimal(2, 1)], false), &schema);
        assert_eq!(changed.data, col("price").in_list(vec![lit(0.1), lit(0.2)], false));
        for same in [col("n").gt(decimal(8, 1)), decimal(1, 1).lt(decimal(2, 1)), col("price").gt(col("n"))] {
            assert!(!comparison(same.clone(), &schema).transformed, "{same}");
        }
    }
}
