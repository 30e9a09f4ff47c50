//! The few groups that are wanted, without doubles.
//!
//! `GROUP BY url ORDER BY max(price) DESC LIMIT 10` keeps ten groups and no more in DataFusion, by a heap that compares doubles
//! with `<` and finds them again with `==`: a NaN is none of the ten, or takes the place of the best, and as a group's key ends the
//! worker's thread. So groups by doubles, and doubles to be ordered by, are all kept, and sorted after.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's rule with ours around it; any other rule as it is.
pub(super) fn in_stead(rule: Rule) -> Rule {
    match rule.name() {
        "LimitAggregation" => Arc::new(ButDoubles(rule)),
        _ => rule,
    }
}

#[derive(Debug)]
struct ButDoubles(Rule);

impl PhysicalOptimizerRule for ButDoubles {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.optimize(plan, config)?.transform_up(|node| Ok(all_of_doubles(node))).data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// An aggregate that is to keep the first groups, over doubles, as one that keeps all.
fn all_of_doubles(node: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Transformed::no(node) };
    let is_cut = aggregate.limit_options().is_some_and(|limit| limit.descending().is_some());
    let has_doubles =
        aggregate.schema().fields().iter().any(|field| {
            matches!(field.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64)
        });
    match is_cut && has_doubles {
        true => Transformed::yes(Arc::new(aggregate.with_new_limit_options(None))),
        false => Transformed::no(node),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    use super::*;

    #[test]
    fn the_rule_that_goes_wrong_has_ours_around_it() {
        let ours = PhysicalOptimizer::new().rules.into_iter().map(in_stead);
        assert_eq!(ours.filter(|rule| format!("{rule:?}").starts_with("ButDoubles")).count(), 1);
    }
}
