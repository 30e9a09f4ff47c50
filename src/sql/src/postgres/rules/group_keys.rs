//! Grouping sets by what is computed: DataFusion finds a key of theirs, and of `grouping(…)`, by how it is written, and no longer
//! once its types are settled (`typed`). So what they have as keys is worked out in front of them, and named.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};

/// Works the keys of all grouping sets out in front of them.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut count = 0;
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) if is_told_apart(&aggregate) => {
            sets_over_columns(aggregate, &mut count)
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn is_grouping(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if call.func.name() == "grouping")
}

/// Whether the rows of an aggregate are asked which of its keys they have.
fn is_told_apart(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
        || aggregate.aggr_expr.iter().any(|expr| expr.exists(|part| Ok(is_grouping(part))).unwrap_or(false))
}

fn sets_over_columns(aggregate: Aggregate, count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let written = grouping_set_to_exprlist(&aggregate.group_expr)?;
    let mut keys: Vec<(Expr, Expr)> = Vec::new();
    for key in written.iter().filter(|key| !matches!(key, Expr::Column(_)) && !key.is_volatile()) {
        *count += 1;
        keys.push(((*key).clone(), Expr::Column(format!("__group_key_{count}").into())));
    }
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let named = |expr: Expr| {
        let named = expr.transform_down(|part| match keys.iter().find(|(key, _)| *key == part) {
            Some((_, column)) => Ok(Transformed::new(column.clone(), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(part)),
        });
        named.data()
    };
    let groups = aggregate.group_expr.iter().cloned().map(named).collect::<Result<Vec<_>>>()?;
    let names = NamePreserver::new_for_projection();
    let functions = aggregate.aggr_expr.iter().cloned().map(|expr| {
        let name = names.save(&expr);
        let changed = expr.transform_down(|part| match is_grouping(&part) {
            true => Ok(Transformed::new(named(part)?, true, TreeNodeRecursion::Jump)),
            false => Ok(Transformed::no(part)),
        })?;
        Ok(if changed.transformed { name.restore(changed.data) } else { changed.data })
    });
    let functions = functions.collect::<Result<Vec<_>>>()?;
    let columns = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let front = keys.iter().map(|(key, name)| key.clone().alias(name.schema_name().to_string()));
    let front = Projection::try_new(columns.chain(front).collect(), Arc::clone(&aggregate.input))?;
    let grouped = Aggregate::try_new(Arc::new(LogicalPlan::Projection(front)), groups, functions)?;
    // All under the names that they had; the number of the set is the aggregate's own.
    let own = grouped.schema.columns().into_iter().zip(aggregate.schema.columns());
    let own = own.filter(|(column, _)| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let own = own.map(|(column, name)| match column == name {
        true => Expr::Column(column),
        false => Expr::Column(column).alias_qualified(name.relation, name.name),
    });
    let own = own.collect();
    let shown = Projection::try_new(own, Arc::new(LogicalPlan::Aggregate(grouped)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}
