//! DataFusion's rules of logical plans, with ours around those that go wrong.
//!
//! - A condition that names no column is taken below an aggregate of all rows together. `SELECT … FROM (SELECT count(*) FROM t) AS q
//!   WHERE 1 = 2` has no row: below, the condition leaves out what is counted, and not the count. So no condition passes such an
//!   aggregate; below it stay those that were written there.
//! - What stands in a window's functions several times is worked out once, below the window. That may be a function of the
//!   window itself, if two of them have become alike, and no plan can hold it there. So of functions that are alike one is left,
//!   and it is given all their names.
//! - What one side of a join determines is taken, above an aggregation, to determine every column of that: with `FROM readings r
//!   CROSS JOIN (SELECT maker AS m FROM products GROUP BY 1) q GROUP BY q.m, r.status`, a maker would have one status. `ORDER BY
//!   q.m, r.status` then left out the second, `GROUP BY` above lost keys, DISTINCT was dropped (seed 70119 of the random
//!   statements). So no rule hears of what determines what: after one rule has built a node anew nobody can tell any more
//!   whether it was such an aggregation that said so.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{FunctionalDependencies, Result};
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Projection, Window};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, for the session.
pub(super) fn rules() -> Vec<Rule> {
    Optimizer::new().rules.into_iter().flat_map(with_ours).collect()
}

fn with_ours(rule: Rule) -> Vec<Rule> {
    match rule.name() {
        "push_down_filter" => vec![Arc::new(KeptAbove(rule))],
        "common_sub_expression_eliminate" => vec![Arc::new(OnceInWindow), rule],
        // All of DataFusion's rules that ask for functional dependencies.
        "eliminate_duplicated_expr"
        | "eliminate_join"
        | "optimize_projections"
        | "replace_distinct_aggregate" => {
            vec![Arc::new(Undetermined(rule))]
        }
        _ => vec![rule],
    }
}

/// The rule of conditions.
#[derive(Debug)]
struct KeptAbove(Rule);

impl OptimizerRule for KeptAbove {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Filter(filter) if has_row_of_none(&filter.input) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// Whether it is an aggregate of all rows together, among others.
fn has_row_of_none(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty()
                || aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
        }
        // Two conditions become one on their way down.
        LogicalPlan::Filter(filter) => has_row_of_none(&filter.input),
        _ => false,
    }
}

/// A rule that asks what determines what.
#[derive(Debug)]
struct Undetermined(Rule);

impl OptimizerRule for Undetermined {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let plan = if is_determined(&plan)? { without_dependencies(plan)? } else { plan };
        self.0.rewrite(plan, config)
    }
}

/// Whether anything in it determines something.
fn is_determined(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(!node.schema().functional_dependencies().is_empty()))
}

fn without_dependencies(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|mut node| {
        let schema = match &mut node {
            LogicalPlan::Projection(node) => &mut node.schema,
            LogicalPlan::SubqueryAlias(node) => &mut node.schema,
            LogicalPlan::Aggregate(node) => &mut node.schema,
            LogicalPlan::Window(node) => &mut node.schema,
            LogicalPlan::Join(node) => &mut node.schema,
            LogicalPlan::Union(node) => &mut node.schema,
            LogicalPlan::Unnest(node) => &mut node.schema,
            LogicalPlan::Distinct(Distinct::On(node)) => &mut node.schema,
            // They have their input's, or none.
            _ => return Ok(Transformed::no(node)),
        };
        if !schema.functional_dependencies().is_empty() {
            let bare = schema.as_ref().clone();
            *schema = Arc::new(bare.with_functional_dependencies(FunctionalDependencies::empty())?);
        }
        Ok(Transformed::yes(node))
    })
    .data()
}

/// The rule of windows.
#[derive(Debug)]
struct OnceInWindow;

impl OptimizerRule for OnceInWindow {
    fn name(&self) -> &str {
        "once_in_window"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Window(window) => once(window),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn once(window: Window) -> Result<Transformed<LogicalPlan>> {
    let mut functions: Vec<Expr> = Vec::new();
    let mut places = Vec::new();
    for function in &window.window_expr {
        let bare = unalias(function.clone());
        let known = functions.iter().position(|known| unalias(known.clone()) == bare);
        places.push(known.unwrap_or(functions.len()));
        if known.is_none() {
            functions.push(function.clone());
        }
    }
    if functions.len() == window.window_expr.len() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let before = window.input.schema().fields().len();
    let names = window.schema.columns();
    let fewer = Window::try_new(functions, Arc::clone(&window.input))?;
    let columns = fewer.schema.columns();
    let own = places.into_iter().zip(&names[before..]).map(|(place, name)| {
        let column = columns[before + place].clone();
        match column == *name {
            true => Expr::Column(column),
            false => Expr::Column(column).alias_qualified(name.relation.clone(), &name.name),
        }
    });
    let own: Vec<Expr> = own.collect();
    let all = columns[..before].iter().cloned().map(Expr::Column).chain(own).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(
        all,
        Arc::new(LogicalPlan::Window(fewer)),
    )?)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn the_rules_that_go_wrong_have_ours_around_them() {
        let ours = rules().into_iter().filter(|rule| {
            let shown = format!("{rule:?}");
            ["KeptAbove", "OnceInWindow", "Undetermined"].iter().any(|own| shown.starts_with(own))
        });
        assert_eq!(ours.count(), 6);
    }

    /// Rows of one column of whole numbers, with our rules or without.
    async fn numbers(sql: &str, ours: bool) -> Vec<i64> {
        let mut state = SessionStateBuilder::new().with_default_features();
        if ours {
            state = state.with_optimizer_rules(rules());
        }
        let context = SessionContext::new_with_state(state.build());
        let rows = RecordBatch::try_from_iter([
            ("k", Arc::new(Int64Array::from(vec![1, 1, 2, 2])) as _),
            ("n", Arc::new(Int64Array::from(vec![30, 10, 20, 40])) as _),
        ]);
        context.register_batch("t", rows.expect("a batch")).expect("a table");
        let found = context.sql(sql).await.expect("a statement").collect().await.expect("rows");
        let column = |batch: &RecordBatch| {
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>().expect("whole numbers");
            column.values().to_vec()
        };
        found.iter().flat_map(column).collect()
    }

    #[tokio::test]
    async fn one_side_of_a_join_does_not_determine_the_other() {
        let pairs =
            "(SELECT q.k, t.n FROM t CROSS JOIN (SELECT k FROM t WHERE k = 1 GROUP BY 1) q GROUP BY 1, 2)";
        for (sql, expected) in [
            (format!("SELECT n FROM {pairs} p ORDER BY k, n"), vec![10, 20, 30, 40]),
            (format!("SELECT count(*) FROM (SELECT k, count(*) FROM {pairs} p GROUP BY k, n) z"), vec![4]),
            (format!("SELECT DISTINCT k FROM {pairs} p"), vec![1]),
        ] {
            assert_eq!(numbers(&sql, true).await, expected, "{sql}");
        }
        // Else there is nothing left to do here.
        let lost = format!("SELECT count(*) FROM (SELECT k, count(*) FROM {pairs} p GROUP BY k, n) z");
        assert_ne!(numbers(&lost, false).await, [4]);
    }
}
