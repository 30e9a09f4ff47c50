//! The rows of one partition of a scan, batch by batch.

use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{BatchCoalescer, take};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    CastExpr, DynamicFilterTracker, DynamicFilterTracking, TryCastExpr,
};
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use super::filter::{Condition, external};
use super::{Scan, is_empty, zones};
use crate::segment::BATCH_ROWS_MAX;

/// Batches that are looked at before other tasks get their turn, although no row came out.
pub(super) const BATCHES_PER_TURN: usize = 32;
/// Batches between two looks at whether a condition has changed: making a predicate of it costs some of them.
const BATCHES_PER_LOOK: usize = 8;

/// The stream of one partition.
pub(super) fn stream(scan: &Scan, partition: usize) -> Result<SendableRecordBatchStream> {
    let mut rows = PartitionScan::new(scan.clone(), partition)?;
    let stream = futures::stream::poll_fn(move |context| match rows.turn() {
        Ok(Turn::Rows(batch)) => Poll::Ready(Some(Ok(batch))),
        Ok(Turn::End) => Poll::Ready(None),
        Ok(Turn::Later) => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Err(error) => {
            rows.ended = true;
            Poll::Ready(Some(Err(error)))
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&scan.schema), stream)))
}

/// Whether every cast in a condition grows where its column grows, so that the zones may be asked. `PruningPredicate` takes
/// that of every cast between texts, and between anything else: of a time to its hour and minute it is not so.
fn keeps_order(expr: &Arc<dyn PhysicalExpr>, table: &Schema) -> bool {
    let is_moment =
        |kind: &DataType| matches!(kind, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    let mut kept = true;
    let looked = expr.apply(|node| {
        if let Some(cast) = node.downcast_ref::<CastExpr>() {
            let (from, to) = (cast.expr().data_type(table)?, cast.cast_type());
            kept &= (from.is_numeric() && to.is_numeric())
                || (is_moment(&from) && is_moment(to))
                || (from.is_string() && to.is_string());
        }
        kept &= node.downcast_ref::<TryCastExpr>().is_none();
        Ok(if kept { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    kept && looked.is_ok()
}

enum Turn {
    Rows(RecordBatch),
    /// Nothing yet.
    Later,
    End,
}

/// What the next batch holds.
pub(super) enum Step {
    /// No wanted row, or it is another partition's.
    Nothing,
    Rows(Selected),
    /// There is no next batch.
    End,
}

/// The wanted rows of one batch, one at least.
pub(super) struct Selected {
    /// The segment, by its place among the table's.
    pub(super) source: usize,
    pub(super) batch: usize,
    /// Which rows; all, if none is given.
    pub(super) mask: Option<BooleanArray>,
    pub(super) count: usize,
}

/// Which batches of a segment can be skipped, as the zones and the conditions said at some moment.
struct Pruned {
    source: usize,
    /// The state of the conditions that it was made for.
    state: u64,
    kept: Vec<bool>,
}

pub(super) struct PartitionScan {
    scan: Scan,
    partition: usize,
    /// What is worked out of a condition is so for all partitions.
    conditions: Arc<Vec<Condition>>,
    predicate: Option<Arc<PruningPredicate>>,
    tracker: Option<DynamicFilterTracker>,
    /// Grows whenever a condition changes.
    state: u64,
    pruned: Option<Pruned>,
    /// Every batch in the order in which they are wanted; none when they come newest first.
    order: Option<Vec<(usize, usize)>>,
    /// The place in `order`, or the segment.
    at: usize,
    batches_left: Option<usize>,
    looked_at: usize,
    rows_left: usize,
    small: Option<BatchCoalescer>,
    ended: bool,
}

impl PartitionScan {
    pub(super) fn new(scan: Scan, partition: usize) -> Result<Self> {
        let conditions = scan.conditions()?;
        let order = match scan.wanted {
            None => None,
            Some(wanted) => {
                let field = scan.table.field(wanted.column);
                Some(zones::by_values(&scan.sources, field, wanted.descending)?)
            }
        };
        // What conditions leave of a batch may be a few rows: they are gathered.
        let gathers = !scan.filters.is_empty() && !is_empty(&scan.schema);
        let target = scan.fetch.map_or(BATCH_ROWS_MAX, |fetch| fetch.clamp(1, BATCH_ROWS_MAX));
        let small = gathers.then(|| BatchCoalescer::new(Arc::clone(&scan.schema), target));
        let mut rows = Self {
            rows_left: scan.fetch.unwrap_or(usize::MAX),
            partition,
            conditions,
            predicate: None,
            tracker: None,
            state: 0,
            pruned: None,
            order,
            at: 0,
            batches_left: None,
            looked_at: 0,
            small,
            ended: false,
            scan,
        };
        if !rows.scan.filters.is_empty() {
            let all = conjunction(rows.scan.filters.iter().cloned());
            if let DynamicFilterTracking::Watching(tracker) = DynamicFilterTracking::classify(&all) {
                rows.tracker = Some(tracker);
            }
            rows.predict();
        }
        Ok(rows)
    }

    /// Makes the predicate that is held against the zones, of the conditions as they are now.
    fn predict(&mut self) {
        let ordered = self.scan.filters.iter().filter(|filter| keeps_order(filter, &self.scan.table));
        let all = conjunction(ordered.cloned());
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.scan.table));
        self.predicate = builder.build(all);
        self.state += 1;
    }

    fn turn(&mut self) -> Result<Turn> {
        for _ in 0..BATCHES_PER_TURN {
            if let Some(batch) = self.small.as_mut().and_then(BatchCoalescer::next_completed_batch) {
                return Ok(Turn::Rows(batch));
            }
            if self.ended {
                return Ok(Turn::End);
            }
            let selected = match if self.rows_left == 0 { Step::End } else { self.step()? } {
                Step::Nothing => continue,
                Step::Rows(selected) => selected,
                Step::End => {
                    self.ended = true;
                    if let Some(small) = &mut self.small {
                        small.finish_buffered_batch()?;
                    }
                    continue;
                }
            };
            let rows = self.cut(&self.read(&selected)?)?;
            self.rows_left -= rows.num_rows();
            match &mut self.small {
                None => return Ok(Turn::Rows(rows)),
                Some(small) => small.push_batch(rows)?,
            }
        }
        Ok(Turn::Later)
    }

    /// Looks at the next batch.
    pub(super) fn step(&mut self) -> Result<Step> {
        let Some((source, batch)) = self.next_batch()? else { return Ok(Step::End) };
        if batch % self.scan.partitions != self.partition || !self.may_hold(source, batch)? {
            return Ok(Step::Nothing);
        }
        self.select(source, batch)
    }

    /// The next batch, whoever takes it: its segment and its place there.
    fn next_batch(&mut self) -> Result<Option<(usize, usize)>> {
        if let Some(order) = &self.order {
            let next = order.get(self.at).copied();
            self.at += 1;
            return Ok(next);
        }
        while let Some(source) = self.scan.sources.get(self.at) {
            let left = match self.batches_left {
                Some(left) => left,
                None => source.open().map_err(external)?.segment.batches(),
            };
            if let Some(batch) = left.checked_sub(1) {
                self.batches_left = Some(batch);
                return Ok(Some((self.at, batch)));
            }
            self.at += 1;
            self.batches_left = None;
        }
        Ok(None)
    }

    /// Whether the zones leave it possible that the batch holds a wanted row.
    fn may_hold(&mut self, source: usize, batch: usize) -> Result<bool> {
        self.looked_at += 1;
        if self.looked_at.is_multiple_of(BATCHES_PER_LOOK)
            && self.tracker.as_mut().is_some_and(DynamicFilterTracker::changed)
        {
            self.predict();
        }
        let Some(predicate) = &self.predicate else { return Ok(true) };
        let fresh = |pruned: &&Pruned| pruned.source == source && pruned.state == self.state;
        if self.pruned.as_ref().filter(fresh).is_none() {
            let opened = self.scan.sources[source].open().map_err(external)?;
            let kept = zones::kept(predicate, opened, &self.scan.table);
            self.pruned = Some(Pruned { source, state: self.state, kept });
        }
        Ok(self.pruned.as_ref().is_none_or(|pruned| pruned.kept.get(batch).copied().unwrap_or(true)))
    }

    /// Which rows of a batch are wanted.
    fn select(&self, source: usize, batch: usize) -> Result<Step> {
        let opened = self.scan.sources[source].open().map_err(external)?;
        let rows = opened.segment.batch_range(batch).1;
        let mut selected: Option<BooleanBuffer> = opened.live(batch);
        let mut others = Vec::new();
        for condition in self.conditions.iter() {
            match condition.select_by_codes(source, opened, batch)? {
                None => others.push(condition),
                Some(wanted) => {
                    selected = Some(match selected {
                        Some(selected) => &wanted & &selected,
                        None => wanted,
                    });
                }
            }
        }
        for condition in others {
            match selected.as_ref().map_or(rows, BooleanBuffer::count_set_bits) {
                0 => return Ok(Step::Nothing),
                all if all == rows => selected = None,
                _ => {}
            }
            selected = Some(condition.select(opened, batch, selected)?);
        }
        if selected.as_ref().is_some_and(|selected| selected.count_set_bits() == rows) {
            selected = None;
        }
        let mask = selected.map(|selected| BooleanArray::new(selected, None));
        let count = mask.as_ref().map_or(rows, BooleanArray::true_count);
        if count == 0 {
            return Ok(Step::Nothing);
        }
        Ok(Step::Rows(Selected { source, batch, mask, count }))
    }

    /// The wanted rows of a batch.
    pub(super) fn read(&self, selected: &Selected) -> Result<RecordBatch> {
        let opened = self.scan.sources[selected.source].open().map_err(external)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.scan.schema.fields().len());
        for field in self.scan.schema.fields() {
            let column =
                opened.column(selected.batch, field, selected.mask.as_ref(), self.scan.shares_dictionaries);
            columns.push(column.map_err(external)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(selected.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.scan.schema), columns, &options)?)
    }

    /// As many rows as are still wanted. A small limit gets them newest first, row by row: it says `LIMIT 200` and
    /// means the latest. A whole scan is not worth the copy.
    fn cut(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let wanted = rows.num_rows().min(self.rows_left);
        if !self.scan.is_ordered() || self.order.is_some() {
            return Ok(rows.slice(0, wanted));
        }
        let last = rows.num_rows();
        let newest = UInt32Array::from_iter_values((last - wanted..last).rev().map(|row| row as u32));
        let columns =
            rows.columns().iter().map(|column| take(column, &newest, None)).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(wanted));
        Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &options)?)
    }
}
