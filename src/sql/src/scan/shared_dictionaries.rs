//! Scans whose text nobody keeps: they feed an aggregation, which copies the values it groups by.
//!
//! Rows of dictionary-encoded text can be views into the dictionary, without copying a byte. But whoever keeps batches (a sort, a
//! join) counts the whole dictionary once a batch and would run out of its memory on paper. So sharing a long
//! dictionary is for scans under an aggregation, with nothing between that keeps rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::Scan;

/// Nodes that hand rows on and keep none.
const PASSING: &[&str] = &["ProjectionExec", "FilterExec", "CoalesceBatchesExec", "CooperativeExec"];

/// Finds those scans.
#[derive(Debug)]
pub(crate) struct SharedDictionaries;

impl PhysicalOptimizerRule for SharedDictionaries {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            let input = sharing(Arc::clone(aggregate.input()))?;
            match input.transformed {
                true => Ok(Transformed::yes(replace_children_if_necessary(node, vec![input.data])?)),
                false => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "shared_dictionaries"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Makes the scan under nodes that only pass rows on one whose rows share their dictionaries.
fn sharing(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = node.downcast_ref::<Scan>() {
        if scan.shares_dictionaries {
            return Ok(Transformed::no(node));
        }
        let scan: Arc<dyn ExecutionPlan> = Arc::new(Scan { shares_dictionaries: true, ..scan.clone() });
        return Ok(Transformed::yes(scan));
    }
    let children = node.children();
    let [child] = children.as_slice() else { return Ok(Transformed::no(node)) };
    if !PASSING.contains(&node.name()) {
        return Ok(Transformed::no(node));
    }
    let child = sharing(Arc::clone(child))?;
    match child.transformed {
        true => Ok(Transformed::yes(replace_children_if_necessary(node, vec![child.data])?)),
        false => Ok(Transformed::no(node)),
    }
}
