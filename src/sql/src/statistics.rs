//! Aggregations whose answer stands in the statistics: `SELECT count(*) FROM urls` reads no row.
//!
//! DataFusion's own rule looks below an aggregation for the one that reads its rows, and does not stop at the first: where that
//! has a FILTER, it goes on down and takes the answer of another one, in a subquery, for this one's. `SELECT count(*) FILTER
//! (WHERE n > 100) FROM (SELECT count(*) AS n FROM urls) t` could not be planned for the names that did not fit, and seed 60376 of
//! the random statements ended in a panic over their number. Here the first one is the one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::udaf::StatisticsArgs as AggregateStatistics;

type Plan = Arc<dyn ExecutionPlan>;

/// Ours in the stead of DataFusion's; any other rule as it is.
pub(super) fn in_stead(
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    match rule.name() {
        "aggregate_statistics" => Arc::new(KnownAggregates),
        _ => rule,
    }
}

/// The rule.
#[derive(Debug)]
struct KnownAggregates;

impl PhysicalOptimizerRule for KnownAggregates {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|node| {
            Ok(match known(&node)? {
                Some(row) => Transformed::new(row, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "known_aggregates"
    }

    /// A value that is known is not NULL, though the column might be.
    fn schema_check(&self) -> bool {
        false
    }
}

/// The one row of an aggregation, if the statistics of what it reads have all of it.
fn known(node: &Plan) -> Result<Option<Plan>> {
    let Some(aggregate) = reading(node) else { return Ok(None) };
    if !aggregate.group_expr().is_empty() || aggregate.filter_expr().iter().any(Option::is_some) {
        return Ok(None);
    }
    let read = StatisticsContext::new().compute(aggregate.input().as_ref(), &StatisticsArgs::new())?;
    let values = aggregate.aggr_expr().iter().map(|call| {
        let arguments = call.expressions();
        let field = call.field();
        let value = call.fun().value_from_stats(&AggregateStatistics {
            statistics: &read,
            return_type: field.data_type(),
            is_distinct: call.is_distinct(),
            exprs: arguments.as_slice(),
        })?;
        Some(ProjectionExpr { expr: lit(value), alias: call.name().to_owned() })
    });
    let Some(values) = values.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let row = Arc::new(PlaceholderRowExec::new(node.schema()));
    Ok(Some(Arc::new(ProjectionExec::try_new(values, row)?)))
}

/// What reads the rows of an aggregation that gives its end result: itself, or the first aggregation below it, which another
/// thread may run.
fn reading(node: &Plan) -> Option<&AggregateExec> {
    let end = node.downcast_ref::<AggregateExec>()?;
    if end.mode().output_mode() != AggregateOutputMode::Final {
        return None;
    }
    let mut reading = end;
    let mut below = node;
    while reading.mode().input_mode() != AggregateInputMode::Raw {
        below = match below.children().as_slice() {
            [only] => only,
            _ => return None,
        };
        match below.downcast_ref::<AggregateExec>() {
            Some(partial) if partial.mode().input_mode() == AggregateInputMode::Raw => reading = partial,
            Some(_) => return None,
            None => {}
        }
    }
    (end.group_expr().is_empty()).then_some(reading)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// The plan as text and the one value of the one row.
    async fn asked(sql: &str) -> (String, i64) {
        let state = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2)).state();
        let rules: Vec<_> = state.physical_optimizers().iter().cloned().map(in_stead).collect();
        let state = datafusion::execution::SessionStateBuilder::new_from_existing(state)
            .with_physical_optimizer_rules(rules)
            .build();
        let context = SessionContext::new_with_state(state);
        let numbers: RecordBatch =
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)])
                .expect("a batch");
        context.register_batch("numbers", numbers).expect("a table");
        let frame = context.sql(sql).await.expect("a statement");
        let plan = frame.create_physical_plan().await.expect("a plan");
        let text = displayable(plan.as_ref()).indent(false).to_string();
        let rows = collect(plan, context.task_ctx()).await.expect("rows");
        let [batch] = rows.as_slice() else { panic!("{} batches of {sql}", rows.len()) };
        let value = batch.column(0).as_any().downcast_ref::<Int64Array>().expect("whole numbers").value(0);
        (text, value)
    }

    #[tokio::test]
    async fn what_the_statistics_have_is_not_read() {
        for (sql, value) in [
            ("SELECT count(*) FROM numbers", 3),
            ("SELECT n + 1 FROM (SELECT count(*) AS n FROM numbers) t", 4),
        ] {
            let (plan, found) = asked(sql).await;
            assert!(plan.contains("PlaceholderRow") && !plan.contains("Aggregate"), "{sql}\n{plan}");
            assert_eq!(found, value, "{sql}");
        }
    }

    #[tokio::test]
    async fn an_aggregation_with_a_filter_is_not_taken_for_the_one_below() {
        for (sql, value) in [
            ("SELECT count(*) FILTER (WHERE n > 100) FROM (SELECT count(*) AS n FROM numbers) t", 0),
            (
                "SELECT count(n) FILTER (WHERE n > 2) FROM (SELECT count(*) AS n FROM numbers GROUP BY n % 2) t",
                0,
            ),
            ("SELECT max(n) FILTER (WHERE n < 3) FROM numbers", 2),
        ] {
            let (plan, found) = asked(sql).await;
            assert_eq!(found, value, "{sql}\n{plan}");
        }
    }
}
