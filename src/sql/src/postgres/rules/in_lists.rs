//! Items of `x IN (…)` that are no constants (`postgres/per_row.rs` says why they are marked).

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;

use crate::postgres::per_row::{self, per_row};

/// Marks what differs from row to row among the items of a list. Columns, cast or not, need no mark.
pub(super) fn marked(mut expr: Expr) -> Transformed<Expr> {
    let mut changed = false;
    if let Expr::InList(list) = &mut expr {
        for item in list.list.iter_mut().filter(|item| !is_plain(item) && !is_constant(item)) {
            *item = per_row(std::mem::take(item));
            changed = true;
        }
    }
    Transformed::new_transformed(expr, changed)
}

/// Whether it is a column, a written value, a cast of one, or marked already.
fn is_plain(item: &Expr) -> bool {
    match item {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(cast) => is_plain(&cast.expr),
        Expr::ScalarFunction(call) => call.name() == per_row::NAME,
        _ => false,
    }
}

/// Whether an expression is one value, whichever row it is of: DataFusion then computes it as it plans.
fn is_constant(expr: &Expr) -> bool {
    let differs = expr.exists(|part| {
        let of_rows = matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Unnest(_)
                | Expr::GroupingSet(_)
        );
        Ok(of_rows || part.is_volatile_node())
    });
    !differs.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{cast, col, lit, when};

    use super::*;

    #[test]
    fn what_differs_from_row_to_row_is_marked_once() {
        let case = when(col("done"), lit(1_i64)).end().unwrap();
        let list = vec![
            case.clone(),
            lit(2_i64),
            lit(1_i64) + lit(2_i64),
            col("n"),
            cast(col("n"), datafusion::arrow::datatypes::DataType::Int64),
        ];
        let given = marked(col("id").in_list(list.clone(), true));
        let mut expected = list;
        expected[0] = per_row(case);
        assert_eq!(given.data, col("id").in_list(expected, true));
        assert!(!marked(given.data).transformed);
    }
}
