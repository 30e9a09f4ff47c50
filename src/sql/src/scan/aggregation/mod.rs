//! Aggregations that group by codes instead of text.
//!
//! Domains, page types and URLs are stored as codes into a dictionary a segment. DataFusion groups by the text itself: for
//! each row it hashes and compares it. Here, right above a scan, a row's group is looked up by its codes, and only a
//! combination of codes that is new in its segment is looked up by its text. The node stands for the first half of an
//! aggregation (`AggregateMode::Partial`) and gives what that gives; accumulators and the second half are DataFusion's.
//!
//! Days and hours come in order, and the zones of a batch mostly say that it lies within one: then all of its rows are of one
//! group, and no time is cut to its day.
//!
//! It takes expressions as keys too, each over one column of text (`lower(domain)`), which are answered once a value. Where a
//! segment has the column as plain text (the young ones, which are not merged yet) its rows go the way of DataFusion's.
//! So the node is used where most rows are dictionary-encoded ([`DICTIONARY_ONE_OF`]).
//!
//! What was learned (10 million readings, 2 threads): grouping by 200 domains and by 100,000 URLs costs about the same
//! then, for what is left is the accumulators and a look into a table a row.

mod distinct;
mod eager;
mod groups;
mod stream;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
    replace_children_if_necessary,
};

pub(crate) use self::distinct::DistinctValues;
pub(crate) use self::eager::EagerAggregations;
use super::Scan;
use super::filter::{columns_of, is_dynamic, over_table};

/// The part of a table's rows that must be dictionary-encoded for the node to be worth it.
const DICTIONARY_ONE_OF: usize = 2;

/// Finds the aggregations that can group by codes.
#[derive(Debug)]
pub(crate) struct DictionaryAggregations;

impl PhysicalOptimizerRule for DictionaryAggregations {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match DictionaryAggregate::of(&node)? {
            Some(aggregate) => Ok(Transformed::yes(Arc::new(aggregate) as Arc<dyn ExecutionPlan>)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "dictionary_aggregations"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// One key of the groups.
#[derive(Clone, Debug)]
struct KeyExpr {
    /// Over the one column.
    expr: Arc<dyn PhysicalExpr>,
    /// The table's column.
    column: usize,
    /// It is the column itself.
    is_plain: bool,
    /// It never falls where the column, of times, grows: `date_trunc('day', scraped_at)`. A batch whose smallest and largest
    /// time have one key has one group, and most have, for rows come in the order of time.
    is_monotonic: bool,
}

/// The types of columns in which keys go up in steps.
const MONOTONIC_TYPES: &[DataType] = &[DataType::Timestamp(TimeUnit::Millisecond, None)];
/// The function whose result never falls where its second argument grows.
const MONOTONIC_FUNCTION: &str = "date_trunc";

/// One aggregate's arguments and condition, over the table's columns.
#[derive(Clone, Debug)]
struct Arguments {
    values: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

/// The first half of an aggregation over a scan, by codes.
#[derive(Debug)]
pub(super) struct DictionaryAggregate {
    /// What it stands for.
    aggregate: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    scan: Scan,
    keys: Vec<KeyExpr>,
    arguments: Vec<Arguments>,
}

impl DictionaryAggregate {
    /// In the place of `node`, if it is such an aggregation.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
        let groups = aggregate.group_expr();
        let is_simple = *aggregate.mode() == AggregateMode::Partial
            && groups.is_single()
            && !groups.is_empty()
            && aggregate.limit_options().is_none()
            && *aggregate.input_order_mode() == InputOrderMode::Linear
            && aggregate.aggr_expr().iter().all(|expr| expr.order_bys().is_empty());
        if !is_simple {
            return Ok(None);
        }
        let Some(below) = AggregateInput::of(aggregate.input()) else { return Ok(None) };
        if below.scan.fetch.is_some() || below.scan.wanted.is_some() {
            return Ok(None);
        }
        let monotonic = match groups.expr() {
            [(expr, _)] => below.monotonic_key(expr)?,
            _ => None,
        };
        let keys = match monotonic {
            Some(key) => vec![key],
            None => {
                let keys = groups.expr().iter().map(|(expr, _)| below.key(expr));
                let Some(keys) = keys.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
                keys
            }
        };
        let mut arguments = Vec::with_capacity(aggregate.aggr_expr().len());
        for (expr, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            let values = expr.expressions();
            let values = values.iter().map(|value| below.over_table(value));
            let filter = filter.as_ref().map(|filter| below.over_table(filter)).transpose()?;
            arguments.push(Arguments { values: values.collect::<Result<_>>()?, filter });
        }
        // What a projection draws once for a row must not be drawn anew for each argument.
        if arguments.iter().flat_map(|own| own.values.iter().chain(&own.filter)).any(is_volatile) {
            return Ok(None);
        }
        let scan = below.scan.clone();
        Ok(Some(Self { aggregate: Arc::clone(node), schema: node.schema(), scan, keys, arguments }))
    }
}

/// A scan under nodes that hand its rows on.
struct AggregateInput<'a> {
    scan: &'a Scan,
    /// What each projection on the way makes its columns of, the lowest first.
    projections: Vec<Vec<Arc<dyn PhysicalExpr>>>,
}

impl<'a> AggregateInput<'a> {
    /// Under nodes that hand on every row.
    fn of(node: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        Self::under(node, false)
    }

    /// Under nodes that hand on rows, or with `filters` some of them.
    fn under(node: &'a Arc<dyn ExecutionPlan>, filters: bool) -> Option<Self> {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            return Some(Self { scan, projections: Vec::new() });
        }
        if let Some(cooperative) = node.downcast_ref::<CooperativeExec>() {
            return Self::under(cooperative.input(), filters);
        }
        if let Some(filter) = node.downcast_ref::<FilterExec>().filter(|_| filters) {
            let mut below = Self::under(filter.input(), filters)?;
            if let Some(projection) = filter.projection() {
                let schema = filter.input().schema();
                let column = |index: &usize| -> Arc<dyn PhysicalExpr> {
                    Arc::new(Column::new(schema.field(*index).name(), *index))
                };
                below.projections.push(projection.iter().map(column).collect());
            }
            return Some(below);
        }
        let projection = node.downcast_ref::<ProjectionExec>()?;
        let mut below = Self::under(projection.input(), filters)?;
        below.projections.push(exprs(projection));
        Some(below)
    }

    /// An expression over the node's columns in terms of the table's.
    fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let over = |expr: Arc<dyn PhysicalExpr>, projection: &Vec<_>| substituted(&expr, projection);
        let expr = self.projections.iter().rev().try_fold(Arc::clone(expr), over)?;
        over_table(expr, &self.scan.projection, &self.scan.table)
    }

    /// A key, if it is one that codes can answer in most rows.
    fn key(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<KeyExpr>> {
        let expr = self.over_table(expr)?;
        let &[column] = columns_of([&expr]).as_slice() else { return Ok(None) };
        if *self.scan.table.field(column).data_type() != DataType::Utf8View
            || is_volatile(&expr)
            || is_dynamic(&expr)
        {
            return Ok(None);
        }
        if self.dictionary_rows(column)?.is_none() {
            return Ok(None);
        }
        let is_plain = expr.is::<Column>();
        let expr = super::filter::over_columns(&expr, &[column])?;
        Ok(Some(KeyExpr { expr, column, is_plain, is_monotonic: false }))
    }

    /// A key that goes up in steps.
    fn monotonic_key(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<KeyExpr>> {
        let expr = self.over_table(expr)?;
        let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() else { return Ok(None) };
        let [unit, time] = function.args() else { return Ok(None) };
        let Some(column) = time.downcast_ref::<Column>().map(Column::index) else { return Ok(None) };
        let is_monotonic = function.fun().name() == MONOTONIC_FUNCTION
            && unit.is::<Literal>()
            && MONOTONIC_TYPES.contains(self.scan.table.field(column).data_type());
        if !is_monotonic {
            return Ok(None);
        }
        let expr = super::filter::over_columns(&expr, &[column])?;
        Ok(Some(KeyExpr { expr, column, is_plain: false, is_monotonic }))
    }

    /// How many rows have a column as codes, if most do.
    fn dictionary_rows(&self, column: usize) -> Result<Option<usize>> {
        let field = self.scan.table.field(column);
        let (mut encoded, mut all) = (0, 0);
        for source in self.scan.sources.iter() {
            let opened = source.open().map_err(super::filter::external)?;
            all += source.rows;
            if opened.place(field).is_some_and(|place| opened.is_dictionary(place)) {
                encoded += source.rows;
            }
        }
        Ok((encoded > 0 && encoded >= all / DICTIONARY_ONE_OF).then_some(encoded))
    }
}

fn exprs(projection: &ProjectionExec) -> Vec<Arc<dyn PhysicalExpr>> {
    projection.expr().iter().map(|column| Arc::clone(&column.expr)).collect()
}

/// An expression over a projection's columns in terms of what the projection reads.
fn substituted(
    expr: &Arc<dyn PhysicalExpr>,
    projection: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>> {
    let substituted = Arc::clone(expr).transform_down(|node| {
        let of = |column: &Column| projection.get(column.index());
        match node.downcast_ref::<Column>().and_then(of) {
            Some(below) => Ok(Transformed::new(Arc::clone(below), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        }
    });
    substituted.data()
}

impl DisplayAs for DictionaryAggregate {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DictionaryAggregate: ")?;
        match self.aggregate.downcast_ref::<AggregateExec>() {
            Some(aggregate) => aggregate.fmt_as(format, f),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for DictionaryAggregate {
    fn name(&self) -> &str {
        "DictionaryAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.aggregate.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = replace_children_if_necessary(Arc::clone(&self.aggregate), children)?;
        Ok(match Self::of(&aggregate)? {
            Some(aggregate) => Arc::new(aggregate),
            None => aggregate,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        stream::stream(self, partition, &context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.aggregate.statistics_from_inputs(inputs, args)
    }
}

#[cfg(test)]
mod tests;
