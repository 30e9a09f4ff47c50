//! Scans of which only the different values matter: `count(DISTINCT domain)`, `max(title)`, without groups.
//!
//! An aggregate that takes no notice of a value that comes twice gets each value of a dictionary-encoded column once a segment, whatever
//! the number of rows: which codes occur is one bit a code. Columns are independent then, for each aggregate looks at one of
//! them: the batches hold each column's values side by side, the shorter ones filled up with a value of theirs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{filter, take};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};

use super::super::Scan;
use super::super::filter::{columns_of, external};
use super::super::rows::{PartitionScan, Selected, Step};
use super::AggregateInput;
use super::stream::{Partition, giving};

/// Aggregates that take no notice of a value that comes again, also without DISTINCT.
const DUPLICATE_INSENSITIVE: &[&str] =
    &["approx_distinct", "bit_and", "bit_or", "bool_and", "bool_or", "max", "min"];

/// Finds those scans.
#[derive(Debug)]
pub(crate) struct DistinctValues;

impl PhysicalOptimizerRule for DistinctValues {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(input) = distinct_input(&node)? else { return Ok(Transformed::no(node)) };
            let seen = Arc::clone(input).transform_down(|below| match below.downcast_ref::<Scan>() {
                Some(scan) => {
                    let seen: Arc<dyn ExecutionPlan> = Arc::new(DistinctScan { scan: scan.clone() });
                    Ok(Transformed::new(seen, true, TreeNodeRecursion::Stop))
                }
                None => Ok(Transformed::no(below)),
            });
            let replaced = replace_children_if_necessary(Arc::clone(&node), vec![seen.data()?])?;
            Ok(Transformed::new(replaced, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn name(&self) -> &str {
        "seen_values"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of an aggregation to which only the different values of dictionary-encoded columns matter.
fn distinct_input(node: &Arc<dyn ExecutionPlan>) -> Result<Option<&Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let applies = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single)
        && aggregate.group_expr().is_true_no_grouping()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && !aggregate.aggr_expr().is_empty()
        && aggregate.aggr_expr().iter().all(|expr| is_duplicate_insensitive(expr));
    let Some(below) = AggregateInput::of(aggregate.input()).filter(|_| applies) else { return Ok(None) };
    if below.scan.fetch.is_some() || below.scan.wanted.is_some() {
        return Ok(None);
    }
    for expr in aggregate.aggr_expr() {
        let mut columns = std::collections::BTreeSet::new();
        for value in expr.expressions() {
            // A constant needs no column, and what one names must be dictionary-encoded.
            if !columns_of([&value]).is_empty() && below.key(&value)?.is_none() {
                return Ok(None);
            }
            columns.extend(columns_of([&below.over_table(&value)?]));
        }
        if columns.len() != 1 {
            return Ok(None);
        }
    }
    // Whatever else is read would be cut to the length of the others.
    for index in 0..below.scan.schema.fields().len() {
        if below.dictionary_rows(below.scan.projection[index])?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(aggregate.input()))
}

fn is_duplicate_insensitive(expr: &AggregateFunctionExpr) -> bool {
    expr.order_bys().is_empty() && (expr.is_distinct() || DUPLICATE_INSENSITIVE.contains(&expr.fun().name()))
}

/// The scan, in which a value of a column comes once a segment.
#[derive(Debug)]
struct DistinctScan {
    scan: Scan,
}

impl DisplayAs for DistinctScan {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Distinct")?;
        self.scan.fmt_as(format, f)
    }
}

impl ExecutionPlan for DistinctScan {
    fn name(&self) -> &str {
        "DistinctScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.scan.apply_expressions(visit)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = PartitionScan::new(self.scan.clone(), partition)?;
        let seen = DistinctPartition { scan: self.scan.clone(), rows, segment: None };
        Ok(giving(Arc::clone(&self.scan.schema), seen))
    }
}

struct DistinctPartition {
    scan: Scan,
    rows: PartitionScan,
    segment: Option<Segment>,
}

/// What was seen of one segment.
struct Segment {
    source: usize,
    /// For each column whether a code was seen, NULL last; none where the column is not dictionary-encoded.
    columns: Vec<Option<(usize, Vec<bool>)>>,
}

impl Partition for DistinctPartition {
    fn step(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<bool> {
        match self.rows.step()? {
            Step::Nothing => {}
            Step::Rows(selected) => self.look(&selected, out)?,
            Step::End => {
                self.give_out(out)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl DistinctPartition {
    /// Notes the codes of a batch; gives it out itself where a column has no codes.
    fn look(&mut self, selected: &Selected, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let source = Arc::clone(&self.scan.sources[selected.source]);
        let opened = source.open().map_err(external)?;
        if self.segment.as_ref().is_none_or(|segment| segment.source != selected.source) {
            self.give_out(out)?;
            let mut columns = Vec::with_capacity(self.scan.schema.fields().len());
            for field in self.scan.schema.fields() {
                columns.push(match opened.place(field).filter(|place| opened.is_dictionary(*place)) {
                    None => None,
                    Some(place) => {
                        let values = opened.segment.dictionary(place).map_err(external)?.views.len();
                        Some((place, vec![false; values + 1]))
                    }
                });
            }
            self.segment = Some(Segment { source: selected.source, columns });
        }
        let Some(segment) = &mut self.segment else { return Ok(()) };
        if segment.columns.iter().any(Option::is_none) {
            out.push_back(self.rows.read(selected)?);
            return Ok(());
        }
        for (place, seen) in segment.columns.iter_mut().flatten() {
            let codes = opened.codes(selected.batch, *place).map_err(external)?;
            let null = seen.len() - 1;
            let mut note = |codes: &datafusion::arrow::array::Int32Array| match codes.nulls() {
                // Codes lie in the dictionary, which was checked when they were read.
                None => codes.values().iter().for_each(|code| seen[*code as usize] = true),
                Some(_) => codes.iter().for_each(|code| seen[code.map_or(null, |code| code as usize)] = true),
            };
            match &selected.mask {
                None => note(&codes),
                Some(mask) => {
                    let left = filter(&codes, mask)?;
                    left.as_any().downcast_ref().into_iter().for_each(note);
                }
            }
        }
        Ok(())
    }

    /// Gives out what was seen of the segment.
    fn give_out(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let Some(segment) = self.segment.take() else { return Ok(()) };
        let opened = self.scan.sources[segment.source].open().map_err(external)?;
        let mut columns: Vec<(usize, usize, Vec<u32>)> = Vec::with_capacity(segment.columns.len());
        for (place, seen) in segment.columns.into_iter().flatten() {
            let null = seen.len() - 1;
            let codes = seen.into_iter().enumerate().filter(|(_, seen)| *seen).map(|(code, _)| code as u32);
            columns.push((place, null, codes.collect()));
        }
        let rows = columns.iter().map(|(.., codes)| codes.len()).max().unwrap_or(0);
        if rows == 0 || columns.len() < self.scan.schema.fields().len() {
            return Ok(());
        }
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (place, null, codes) in columns {
            let filling = codes.first().copied();
            let all = codes.into_iter().chain(std::iter::repeat_with(|| filling).flatten());
            let known = |code: u32| (code as usize != null).then_some(code);
            let indices: UInt32Array = all.take(rows).map(known).collect();
            let dictionary = opened.segment.dictionary(place).map_err(external)?;
            arrays.push(take(&dictionary.views as &dyn Array, &indices, None)?);
        }
        out.push_back(RecordBatch::try_new(Arc::clone(&self.scan.schema), arrays)?);
        Ok(())
    }
}
