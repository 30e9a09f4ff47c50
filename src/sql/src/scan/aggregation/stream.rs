//! The work of one partition: rows into groups, groups into states.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    UInt64Array,
};
use datafusion::arrow::compute::{cast, sum};
use datafusion::arrow::datatypes::{DataType, Float64Type, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use super::super::Scan;
use super::super::filter::{columns_of, external, over_columns};
use super::super::rows::{BATCHES_PER_TURN, PartitionScan, Selected, Step};
use super::groups::Groups;
use super::{Arguments, DictionaryAggregate};
use crate::segment::BATCH_ROWS_MAX;

/// The stream of one partition.
pub(super) fn stream(
    node: &DictionaryAggregate,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    Ok(giving(Arc::clone(&node.schema), Work::new(node, partition, context)?))
}

/// What a partition does between the batches that it gives out.
pub(super) trait Partition: Send + 'static {
    /// Looks at the next batch of the scan, and puts behind `out` what is ready to be given out; false at the end, after
    /// which it is not asked again.
    fn step(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<bool>;
}

/// Gives out what a partition comes to, in batches of a scan's size, and lets other tasks have their turn in between. An
/// error is the last thing that comes.
pub(super) fn giving(schema: SchemaRef, mut partition: impl Partition) -> SendableRecordBatchStream {
    let (mut out, mut ended) = (VecDeque::new(), false);
    let mut turn = move || {
        for _ in 0..BATCHES_PER_TURN {
            if let Some(part) = part(&mut out) {
                return Poll::Ready(Some(Ok(part)));
            }
            if ended {
                return Poll::Ready(None);
            }
            match partition.step(&mut out) {
                Ok(more) => ended = !more,
                Err(error) => {
                    ended = true;
                    out.clear();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Pending
    };
    let stream = futures::stream::poll_fn(move |task| {
        let next = turn();
        if next.is_pending() {
            task.waker().wake_by_ref();
        }
        next
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// The next part of what is to be given out.
fn part(out: &mut VecDeque<RecordBatch>) -> Option<RecordBatch> {
    let whole = out.pop_front()?;
    if whole.num_rows() <= BATCH_ROWS_MAX {
        return Some(whole);
    }
    out.push_front(whole.slice(BATCH_ROWS_MAX, whole.num_rows() - BATCH_ROWS_MAX));
    Some(whole.slice(0, BATCH_ROWS_MAX))
}

struct Work {
    scan: Scan,
    rows: PartitionScan,
    schema: SchemaRef,
    groups: Groups,
    /// The table's columns that arguments name.
    columns: Vec<usize>,
    columns_schema: SchemaRef,
    /// Over those columns.
    arguments: Vec<Arguments>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// How those that are simple enough take a batch of one group.
    sums: Vec<Option<Sums>>,
    reservation: MemoryReservation,
}

impl Work {
    fn new(node: &DictionaryAggregate, partition: usize, context: &Arc<TaskContext>) -> Result<Self> {
        let Some(aggregate) = node.aggregate.downcast_ref::<AggregateExec>() else {
            return internal_err!("a coded aggregation stands for none");
        };
        let named = node.arguments.iter().flat_map(|own| own.values.iter().chain(&own.filter));
        let columns = columns_of(named);
        let mut arguments = Vec::with_capacity(node.arguments.len());
        for own in &node.arguments {
            let values = own.values.iter().map(|value| over_columns(value, &columns));
            let filter = own.filter.as_ref().map(|filter| over_columns(filter, &columns)).transpose()?;
            arguments.push(Arguments { values: values.collect::<Result<_>>()?, filter });
        }
        let keys = aggregate.group_expr().group_schema(&aggregate.input().schema())?;
        Ok(Self {
            rows: PartitionScan::new(node.scan.clone(), partition)?,
            schema: Arc::clone(&node.schema),
            groups: Groups::new(&node.scan, &node.keys, keys)?,
            columns_schema: Arc::new(node.scan.table.project(&columns)?),
            columns,
            arguments,
            sums: aggregate.aggr_expr().iter().zip(&node.arguments).map(Sums::of_function).collect(),
            accumulators: aggregate.aggr_expr().iter().map(accumulator).collect::<Result<_>>()?,
            reservation: MemoryConsumer::new("DictionaryAggregate")
                .with_can_spill(true)
                .register(context.memory_pool()),
            scan: node.scan.clone(),
        })
    }

    fn take_in(&mut self, selected: &Selected, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        self.groups.find(selected)?;
        let opened = self.scan.sources[selected.source].open().map_err(external)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for field in self.columns_schema.fields() {
            let column = opened.column(selected.batch, field, selected.mask.as_ref(), true);
            columns.push(column.map_err(external)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(selected.count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.columns_schema), columns, &options)?;
        let groups = self.groups.len();
        if let Some(group) = self.groups.of_all {
            self.groups.of_rows.clear();
            if self.sums.iter().any(Option::is_none) {
                self.groups.of_rows.resize(selected.count, group);
            }
        }
        for ((accumulator, own), sums) in self.accumulators.iter_mut().zip(&self.arguments).zip(&self.sums) {
            let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch);
            let values = own.values.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
            if let (Some(sums), Some(group)) = (sums, self.groups.of_all) {
                accumulator.merge_batch(&sums.of(&values, selected.count)?, &[group], groups)?;
                continue;
            }
            let array = |value: ColumnarValue| value.into_array(selected.count);
            let values = values.into_iter().map(array).collect::<Result<Vec<_>>>()?;
            let filter = own.filter.as_ref().map(evaluate).transpose()?.map(array).transpose()?;
            let filter = filter.as_ref().and_then(|filter| filter.as_any().downcast_ref::<BooleanArray>());
            accumulator.update_batch(&values, &self.groups.of_rows, filter, groups)?;
        }
        let bytes: usize = self.accumulators.iter().map(|own| own.size()).sum();
        if self.reservation.try_resize(self.groups.bytes() + bytes).is_err() {
            // The second half puts together what comes in several parts.
            self.give_out(out)?;
        }
        Ok(())
    }

    /// Gives out all groups with their states, and begins anew.
    fn give_out(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<()> {
        let groups = self.groups.len();
        if groups == 0 {
            return Ok(());
        }
        let mut columns = self.groups.emit()?;
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        out.push_back(batch);
        self.reservation.free();
        Ok(())
    }
}

impl Partition for Work {
    fn step(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<bool> {
        match self.rows.step()? {
            Step::Nothing => {}
            Step::Rows(selected) => self.take_in(&selected, out)?,
            Step::End => {
                self.give_out(out)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a function makes of rows of one group: its state after them, which is merged. Row by row each would wait for the one
/// before it, for they all add to the same number.
enum Sums {
    /// `count(x)`
    Count,
    /// `avg(x)` of doubles.
    Average,
}

impl Sums {
    /// None for a function that takes its rows one by one.
    fn of_function((function, arguments): (&Arc<AggregateFunctionExpr>, &Arguments)) -> Option<Self> {
        if function.is_distinct() || arguments.filter.is_some() || arguments.values.len() != 1 {
            return None;
        }
        let state: Vec<DataType> =
            function.state_fields().ok()?.iter().map(|field| field.data_type().clone()).collect();
        match (function.fun().name(), state.as_slice()) {
            ("count", [DataType::Int64]) => Some(Self::Count),
            // Only the average of doubles has such a state.
            ("avg", [DataType::UInt64, DataType::Float64]) => Some(Self::Average),
            _ => None,
        }
    }

    fn of(&self, values: &[ColumnarValue], rows: usize) -> Result<Vec<ArrayRef>> {
        let Some(values) = values.first() else { return internal_err!("a function without an argument") };
        match (self, values) {
            (Self::Count, ColumnarValue::Scalar(value)) => {
                let count = if value.is_null() { 0 } else { rows };
                Ok(vec![Arc::new(Int64Array::from_value(count as i64, 1))])
            }
            (Self::Count, ColumnarValue::Array(values)) => {
                let count = values.len() - values.logical_null_count();
                Ok(vec![Arc::new(Int64Array::from_value(count as i64, 1))])
            }
            (Self::Average, values) => {
                let values = cast(&values.to_array(rows)?, &DataType::Float64)?;
                let doubles = values.as_primitive::<Float64Type>();
                let count = Some((doubles.len() - doubles.null_count()) as u64).filter(|count| *count > 0);
                Ok(vec![
                    Arc::new(UInt64Array::from(vec![count])),
                    Arc::new(Float64Array::from(vec![sum(doubles)])),
                ])
            }
        }
    }
}

fn accumulator(expr: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if expr.groups_accumulator_supported() {
        return expr.create_groups_accumulator();
    }
    let expr = Arc::clone(expr);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
}
