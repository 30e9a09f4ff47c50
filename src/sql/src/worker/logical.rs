//! DataFusion's rules of logical plans, with ours around those that go wrong.
//!
//! - A condition that names no column is taken below an aggregate of all rows together. `SELECT … FROM (SELECT count(*) FROM t) AS q
//!   WHERE 1 = 2` has no row: below, the condition leaves out what is counted, and not the count. So no condition passes such an
//!   aggregate; below it stay those that were written there.
//! - What stands in a window's functions several times is worked out once, below the window. That may be a function of the
//!   window itself, if two of them have become alike, and no plan can hold it there. So of functions that are alike one is left,
//!   and it is given all their names.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr_rewriter::unalias;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window};
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
    use super::*;

    #[test]
    fn the_rules_that_go_wrong_have_ours_around_them() {
        let ours = rules().into_iter().filter(|rule| {
            let shown = format!("{rule:?}");
            shown.starts_with("KeptAbove") || shown.starts_with("OnceInWindow")
        });
        assert_eq!(ours.count(), 2);
    }
}
