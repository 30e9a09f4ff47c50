//! Columns that DataFusion takes for constant, and that are not.
//!
//! A column that is one value throughout is left out of sorts, of windows' orders and of groups' keys. It is believed of too many:
//! - Of a union whose sides have other constants in one column: `(SELECT 2, url FROM urls) UNION ALL (SELECT 1, url FROM readings)
//!   ORDER BY 1, 2 LIMIT 1` gave a row with 2.
//! - Of the side of an outer join that is filled up with NULL: `FROM jobs t1 FULL JOIN (SELECT count(*) FROM urls) t2(c0) ON
//!   t1.url_id = t2.c0 ORDER BY c0 IS NULL` (seed 50048 of the random statements).
//! - Of a key that is NULL in other grouping sets: `GROUP BY ROLLUP (status) HAVING status = 'x'`, or one that folds into a constant
//!   (seed 50039).
//!
//!
//! And an order is believed of what a frame that slides counts: `count(x) OVER (ORDER BY x ROWS 1 PRECEDING)` is 1, 2, 1, 0 over 1, 2
//! and two NULLs.
//!
//! So above such a node stands one that hands its rows on as they are, and says nothing of what is constant there, nor of an order
//! that rests on that.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::AcrossPartitions;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, Statistics,
};

/// The rule; before all others that ask what is constant.
#[derive(Debug)]
pub(super) struct FalseConstants;

impl PhysicalOptimizerRule for FalseConstants {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if !is_mixed(&node) && !fills_up(&node) && !slides(&node) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(Barrier::above(node)) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "false_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether it is a union of which a column is constant in each partition, and not in all of them together.
fn is_mixed(node: &Arc<dyn ExecutionPlan>) -> bool {
    let differs = |constant: &ConstExpr| constant.across_partitions == AcrossPartitions::Heterogeneous;
    node.downcast_ref::<UnionExec>().is_some()
        && node.equivalence_properties().constants().iter().any(differs)
}

/// Whether it puts a NULL where its input has another value.
fn fills_up(node: &Arc<dyn ExecutionPlan>) -> bool {
    let join = (node.downcast_ref::<HashJoinExec>().map(HashJoinExec::join_type))
        .or_else(|| node.downcast_ref::<NestedLoopJoinExec>().map(NestedLoopJoinExec::join_type));
    let sets = node.downcast_ref::<AggregateExec>().map(|aggregate| aggregate.group_expr());
    matches!(join, Some(JoinType::Left | JoinType::Right | JoinType::Full))
        || sets.is_some_and(|groups| groups.has_grouping_set())
}

/// Whether it aggregates over frames that lose rows at their beginning.
fn slides(node: &Arc<dyn ExecutionPlan>) -> bool {
    let window = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    let window = window.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr));
    let starts_open = |expr: &Arc<dyn WindowExpr>| expr.get_window_frame().start_bound.is_unbounded();
    window.is_some_and(|exprs| !exprs.iter().all(starts_open))
}

/// The node.
#[derive(Debug)]
struct Barrier {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Barrier {
    fn above(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = EquivalenceProperties::new(input.schema());
        let properties = Arc::new(input.properties().as_ref().clone().with_eq_properties(known));
        Self { input, properties }
    }
}

impl DisplayAs for Barrier {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Barrier")
    }
}

impl ExecutionPlan for Barrier {
    fn name(&self) -> &str {
        "Barrier"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Else a sort would be taken below, where it leaves the constants out of each side.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next();
        Ok(input.map_or(self, |input| Arc::new(Barrier::above(input))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Arc::new(Statistics::new_unknown(&self.schema())), Arc::clone))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::physical_plan::projection::ProjectionExec;

    use super::*;

    fn side(value: i64) -> Arc<dyn ExecutionPlan> {
        let row = Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())));
        Arc::new(ProjectionExec::try_new(vec![(lit(value), "a".to_owned())], row).expect("a projection"))
    }

    #[test]
    fn what_is_constant_in_one_side_is_not_in_the_union() {
        for (other, name) in [(1, "UnionExec"), (2, "Barrier")] {
            let union = UnionExec::try_new(vec![side(1), side(other)]).expect("a union");
            let plan = FalseConstants.optimize(union, &ConfigOptions::default()).expect("a plan");
            assert_eq!(plan.name(), name);
            let constants = plan.equivalence_properties().constants();
            assert_eq!(constants.len(), usize::from(other == 1));
        }
    }
}
