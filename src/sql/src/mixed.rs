//! Unions whose sides have other constants in one column.
//!
//! `(SELECT 2, url FROM urls) UNION ALL (SELECT 1, url FROM readings) ORDER BY 1, 2 LIMIT 1`: the first column is constant in each
//! side, and so in each partition of the union. DataFusion leaves it out of the sort, also where the partitions are merged, and
//! gives a row with 2. So above such a union stands a node that hands its rows on as they are, and says nothing of what is
//! constant in some of its partitions only, nor of an order that rests on that.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::AcrossPartitions;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, Statistics,
};

/// The rule; before all others that ask what is constant.
#[derive(Debug)]
pub(super) struct MixedUnions;

impl PhysicalOptimizerRule for MixedUnions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if node.downcast_ref::<UnionExec>().is_none() || !is_mixed(node.equivalence_properties()) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(Mixed::of(node)) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "mixed_unions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a column is constant in each partition, and not in all of them together.
fn is_mixed(known: &EquivalenceProperties) -> bool {
    known.constants().iter().any(|constant| constant.across_partitions == AcrossPartitions::Heterogeneous)
}

/// The node.
#[derive(Debug)]
struct Mixed {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Mixed {
    fn of(input: Arc<dyn ExecutionPlan>) -> Self {
        let mut known = input.equivalence_properties().clone();
        known.clear_per_partition_constants();
        known.clear_orderings();
        let properties = Arc::new(input.properties().as_ref().clone().with_eq_properties(known));
        Self { input, properties }
    }
}

impl DisplayAs for Mixed {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mixed")
    }
}

impl ExecutionPlan for Mixed {
    fn name(&self) -> &str {
        "Mixed"
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
        Ok(input.map_or(self, |input| Arc::new(Mixed::of(input))))
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
        for (other, name) in [(1, "UnionExec"), (2, "Mixed")] {
            let union = UnionExec::try_new(vec![side(1), side(other)]).expect("a union");
            let plan = MixedUnions.optimize(union, &ConfigOptions::default()).expect("a plan");
            assert_eq!(plan.name(), name);
            let constants = plan.equivalence_properties().constants();
            assert_eq!(constants.len(), usize::from(other == 1));
        }
    }
}
