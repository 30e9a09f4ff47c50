//! Conditions on their way down a plan, to the side that they belong to.
//!
//! DataFusion's own rule finds a condition's columns again by their names. A join of two tables that both have a `url` gives
//! two columns of that name, and a condition on the one goes to the other as soon as the plan has turned the sides round or
//! another node stands between: rows are lost, or too many come. So here a condition passes a node only where every column of
//! it is the one that its name finds; else it stays where it is. What the nodes do with a condition is theirs, as before.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

type Plan = Arc<dyn ExecutionPlan>;
type Condition = Arc<dyn PhysicalExpr>;

/// Ours in the stead of DataFusion's, whichever of its two phases a rule is for; any other rule as it is.
pub(super) fn in_stead(
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    match rule.name() {
        "FilterPushdown" => Arc::new(ConditionsDown(FilterPushdownPhase::Pre)),
        "FilterPushdown(Post)" => Arc::new(ConditionsDown(FilterPushdownPhase::Post)),
        _ => rule,
    }
}

/// The rule.
#[derive(Debug)]
struct ConditionsDown(FilterPushdownPhase);

impl PhysicalOptimizerRule for ConditionsDown {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        Ok(push(&plan, Vec::new(), config, self.0)?.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        match self.0 {
            FilterPushdownPhase::Pre => "conditions_down",
            FilterPushdownPhase::Post => "conditions_down_at_the_end",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Offers a node the conditions of its parents that it can tell apart; the others are not taken.
fn push(
    node: &Plan,
    given: Vec<Condition>,
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<FilterPushdownPropagation<Plan>> {
    let mut taken = vec![PushedDown::No; given.len()];
    let clear = given.into_iter().enumerate().filter(|(_, condition)| is_clear(condition, node));
    let (places, clear): (Vec<usize>, Vec<Condition>) = clear.unzip();
    let offered = offer(node, clear, config, phase)?;
    for (place, answer) in places.into_iter().zip(offered.filters) {
        taken[place] = answer;
    }
    Ok(FilterPushdownPropagation { filters: taken, updated_node: offered.updated_node })
}

/// Hands conditions, and the node's own, to its children, and asks the node what came of it.
fn offer(
    node: &Plan,
    given: Vec<Condition>,
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<FilterPushdownPropagation<Plan>> {
    let steady: Vec<usize> = (0..given.len()).filter(|place| is_steady(&given[*place])).collect();
    let asked = steady.iter().map(|place| Arc::clone(&given[*place])).collect();
    let described = node.gather_filters_for_pushdown(phase, asked, config)?;
    let (for_children, own) = (described.parent_filters(), described.self_filters());
    let old = node.children();
    if for_children.len() != old.len() || own.len() != old.len() {
        return internal_err!("{} spoke of other children than it has", node.name());
    }
    let mut answers: Vec<Vec<PushedDown>> = vec![Vec::new(); given.len()];
    let (mut children, mut of_own) = (Vec::new(), Vec::new());
    for ((child, from_parents), own) in old.into_iter().zip(for_children).zip(own) {
        let own_places: Vec<usize> = (0..own.len()).filter(|place| is_steady(&own[*place])).collect();
        let mut wanted: Vec<Condition> = own_places.iter().map(|place| Arc::clone(&own[*place])).collect();
        let mut places = Vec::new();
        for (place, described) in steady.iter().zip(from_parents) {
            if matches!(described.discriminant, PushedDown::Yes) {
                places.push(*place);
                wanted.push(described.predicate);
            }
        }
        let mut below = push(child, wanted, config, phase)?;
        children.push(below.updated_node.unwrap_or_else(|| Arc::clone(child)));
        let of_parents = below.filters.split_off(own_places.len());
        let mut own_answers = vec![PushedDown::No; own.len()];
        for (place, answer) in own_places.into_iter().zip(below.filters) {
            own_answers[place] = answer;
        }
        let with_own = own_answers.into_iter().zip(own);
        of_own.push(with_own.map(|(answer, own)| answer.wrap_expression(own)).collect());
        answers.iter_mut().for_each(|answers| answers.push(PushedDown::No));
        for (place, answer) in places.into_iter().zip(of_parents) {
            if let Some(last) = answers[place].last_mut() {
                *last = answer;
            }
        }
    }
    let updated = replace_children_if_necessary(Arc::clone(node), children)?;
    let parent_filters = given.into_iter().zip(answers);
    let parent_filters = parent_filters
        .map(|(filter, child_results)| ChildFilterPushdownResult { filter, child_results })
        .collect();
    let result = ChildPushdownResult { parent_filters, self_filters: of_own };
    let mut answer = updated.handle_child_pushdown_result(phase, result, config)?;
    if answer.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        answer.updated_node = Some(updated);
    }
    Ok(answer)
}

/// Whether a condition gives the same for the same row, wherever it is asked.
fn is_steady(condition: &Condition) -> bool {
    let mut steady = true;
    // The walk itself does not fail.
    let _ = condition.apply(|part| {
        steady &= !is_volatile(part);
        Ok(if steady { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    steady
}

fn is_clear(condition: &Condition, node: &Plan) -> bool {
    collect_columns(condition).iter().all(|column| finds(column, node))
}

/// Columns of a name.
fn count(schema: &Schema, name: &str) -> usize {
    schema.fields().iter().filter(|field| field.name() == name).count()
}

/// Whether a node that looks for this column of its rows by name, in them and in those of its children, finds it.
fn finds(column: &Column, node: &Plan) -> bool {
    let (schema, name) = (node.schema(), column.name());
    let stands_in =
        |schema: &Schema| schema.fields().get(column.index()).is_some_and(|field| field.name() == name);
    if !stands_in(&schema) {
        return false;
    }
    let children: Vec<_> = node.children().into_iter().map(|child| child.schema()).collect();
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        // It knows by their places which columns are of which side, and looks in that side by name.
        return children.iter().all(|side| count(side, name) <= 1) && is_shared(join, name, &children);
    }
    if count(&schema, name) != 1 {
        return false;
    }
    if node.downcast_ref::<ProjectionExec>().is_some() {
        // Whose columns are given what they are made of.
        return true;
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let key = aggregate.group_expr().expr().get(column.index());
        let key = key.and_then(|(key, _)| key.downcast_ref::<Column>());
        return key.is_some_and(|key| key.name() == name)
            && children.iter().all(|child| count(child, name) == 1);
    }
    let keeps_places = children.iter().all(|child| child.fields().len() == schema.fields().len());
    children.iter().all(|child| count(child, name) == 1 && (!keeps_places || stands_in(child)))
}

/// Whether a name that both sides of a semi join have is that of the column they are joined by: it is looked for in the side
/// that does not come out, too.
fn is_shared(join: &HashJoinExec, name: &str, sides: &[Arc<Schema>]) -> bool {
    if !matches!(join.join_type(), JoinType::LeftSemi | JoinType::RightSemi)
        || sides.iter().any(|side| count(side, name) == 0)
    {
        return true;
    }
    let is = |side: &Condition| side.downcast_ref::<Column>().is_some_and(|column| column.name() == name);
    join.on().iter().any(|(left, right)| is(left) && is(right))
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn both_phases_are_ours() {
        let rules: Vec<_> = PhysicalOptimizer::new().rules.into_iter().map(in_stead).collect();
        let named = |name: &str| rules.iter().filter(|rule| rule.name().contains(name)).count();
        assert_eq!((named("conditions_down"), named("FilterPushdown")), (2, 0));
    }
}
