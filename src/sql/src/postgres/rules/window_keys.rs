//! Windows by what is computed.
//!
//! Several functions over windows with one computed key: DataFusion works the key out once, in some of the windows only, and then
//! finds that they are not sorted alike, which ends the worker's thread. So what a window is parted and ordered by is worked out
//! in front of it, and named.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window};

/// Works the keys of all windows out in front of them.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut count = 0;
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Window(window) => window_over_columns(window, &mut count),
        // What is below may have other columns now.
        other => Transformed::no(other).map_data(LogicalPlan::recompute_schema),
    })
    .data()
}

fn window_over_columns(window: Window, count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new_for_projection();
    let mut keys: Vec<(Expr, Expr)> = Vec::new();
    let mut named = |key: &mut Expr| {
        if matches!(key, Expr::Column(_) | Expr::Literal(..)) || key.is_volatile() {
            return;
        }
        let place = keys.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            *count += 1;
            let name = format!("__window_key_{count}");
            keys.push((key.clone(), Expr::Column(name.into())));
            keys.len() - 1
        });
        *key = keys[place].1.clone();
    };
    let functions = window.window_expr.iter().map(|expr| {
        let saved = names.save(expr);
        let changed = expr.clone().transform_down(|mut part| {
            if let Expr::WindowFunction(function) = &mut part {
                let WindowFunctionParams { partition_by, order_by, .. } = &mut function.params;
                partition_by.iter_mut().for_each(&mut named);
                order_by.iter_mut().for_each(|by| named(&mut by.expr));
                return Ok(Transformed::yes(part));
            }
            Ok(Transformed::no(part))
        })?;
        Ok(saved.restore(changed.data))
    });
    let functions = functions.collect::<Result<Vec<_>>>()?;
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let columns = window.input.schema().columns().into_iter().map(Expr::Column);
    let keys = keys.into_iter().map(|(key, name)| key.alias(name.schema_name().to_string()));
    let front = Projection::try_new(columns.chain(keys).collect(), Arc::clone(&window.input))?;
    let front = Arc::new(LogicalPlan::Projection(front));
    Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(functions, front)?)))
}
