//! Subqueries of one value for each row (`(SELECT count(*) FROM t WHERE t.id = u.id)`) in aggregates, groups, windows and
//! orders. DataFusion joins by them in SELECT and WHERE alone; so there they are worked out before, each as a column.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort};

/// Rewrites the plan and its subqueries.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut made = 0;
    plan.transform_up_with_subqueries(|node| {
        let is_kind =
            matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_));
        let is_sort = matches!(node, LogicalPlan::Sort(_));
        if !is_kind || !node.expressions().iter().any(|expr| has_subquery(expr, is_sort)) {
            return Ok(Transformed::no(node));
        }
        lifted(node, &mut made).map(Transformed::yes)
    })
    .data()
}

/// Whether an expression holds a subquery that has to be worked out before.
fn has_subquery(expr: &Expr, is_sort: bool) -> bool {
    expr.exists(|part| Ok(is_lifted(part, is_sort))).unwrap_or(false)
}

/// One that is tied to its row. In an order any: what is sorted in parts, and what the parts are put together by, would have to
/// be the same subquery.
fn is_lifted(expr: &Expr, is_sort: bool) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if is_sort || !subquery.outer_ref_columns.is_empty())
}

fn lifted(node: LogicalPlan, made: &mut usize) -> Result<LogicalPlan> {
    let [input] = node.inputs()[..] else { return Ok(node) };
    let input = input.clone();
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut values: Vec<(Expr, Column)> = Vec::new();
    let names = NamePreserver::new(&node);
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let node = node
        .map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_down(|part| {
                if !is_lifted(&part, is_sort) {
                    return Ok(Transformed::no(part));
                }
                let known = values.iter().find(|(value, _)| *value == part).map(|(_, column)| column.clone());
                let column = known.unwrap_or_else(|| {
                    *made += 1;
                    let column = Column::from_name(format!("__value_{made}"));
                    values.push((part, column.clone()));
                    column
                });
                Ok(Transformed::yes(Expr::Column(column)))
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?
        .data;
    let named = values.into_iter().map(|(value, column)| value.alias(column.name));
    let below = Projection::try_new(columns.iter().cloned().chain(named).collect(), Arc::new(input))?;
    let below = Arc::new(LogicalPlan::Projection(below));
    Ok(match node {
        LogicalPlan::Sort(sort) => {
            let sorted = Arc::new(LogicalPlan::Sort(Sort { input: below, ..sort }));
            LogicalPlan::Projection(Projection::try_new(columns, sorted)?)
        }
        other => {
            let made = other.with_new_exprs(other.expressions(), vec![Arc::unwrap_or_clone(below)])?;
            match made {
                // A window hands its input's columns on, and these are nobody's.
                LogicalPlan::Window(window) => {
                    let own = window
                        .window_expr
                        .iter()
                        .map(|expr| Expr::Column(Column::from_name(expr.schema_name().to_string())));
                    let shown = columns.into_iter().chain(own).collect();
                    LogicalPlan::Projection(Projection::try_new(
                        shown,
                        Arc::new(LogicalPlan::Window(window)),
                    )?)
                }
                other => other,
            }
        }
    })
}
