//! Tables as DataFusion reads them: mapped segments, newest first, without deleted rows.
//!
//! Not the listing table: it copies (2.1 GB for `LIMIT 200` over ten million rows). Segments are opened when the
//! stream reaches them; a scan decodes only the columns it needs, stops at its limit, and reports its exact number
//! of rows, so that `count(*)` reads nothing. Rows of a segment come in batches from its end (keys are time-ordered:
//! the newest first); each of several partitions takes every n-th batch.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{filter_record_batch, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::future::BoxFuture;

use super::protocol::{SegmentSource, TableSource};
use super::segment::{BATCH_ROWS_MAX, Segment, SegmentError};
use super::snapshot::manifest::read_bits;

/// A limit up to this many rows is read by one partition, so that it gets the newest rows and in order.
const ORDERED_LIMIT_ROWS_MAX: usize = 4 * BATCH_ROWS_MAX;

/// One table of the pinned snapshot.
#[derive(Debug)]
pub(super) struct SegmentTable {
    schema: SchemaRef,
    sources: Arc<Vec<Source>>,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    rows: usize,
    bytes: u64,
    deletions: Option<(PathBuf, u64, u64, usize)>,
    opened: OnceLock<Opened>,
}

#[derive(Debug)]
struct Opened {
    segment: Segment,
    /// One bit a row: set where the row lives.
    live: Option<BooleanBuffer>,
}

impl SegmentTable {
    /// The table over its segments, which the server lists oldest first.
    pub(super) fn new(table: TableSource) -> Self {
        let source = |segment: SegmentSource| Source {
            path: segment.path,
            rows: segment.rows,
            bytes: segment.bytes,
            deletions: segment.deletions.map(|d| (d.path, d.offset, d.bytes, d.rows)),
            opened: OnceLock::new(),
        };
        let sources = table.segments.into_iter().rev().map(source).collect();
        Self { schema: table.spec.schema(), sources: Arc::new(sources) }
    }
}

// Written out as `#[async_trait]` would: the crate is no dependency of ours.
impl TableProvider for SegmentTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        _filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'async_trait, Result<Arc<dyn ExecutionPlan>>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
        Self: 'async_trait,
    {
        let partitions = state.config().target_partitions();
        let scan = Scan::new(&self.schema, Arc::clone(&self.sources), projection, partitions).map(|scan| {
            let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.limited(limit));
            scan
        });
        Box::pin(std::future::ready(scan))
    }
}

/// The scan of a table.
#[derive(Clone, Debug)]
struct Scan {
    sources: Arc<Vec<Source>>,
    schema: SchemaRef,
    /// The share of the table's columns that is read, for estimates.
    columns_of: (usize, usize),
    fetch: Option<usize>,
    partitions: usize,
    properties: Arc<PlanProperties>,
}

impl Scan {
    fn new(
        table: &SchemaRef,
        sources: Arc<Vec<Source>>,
        projection: Option<&Vec<usize>>,
        partitions: usize,
    ) -> Result<Self> {
        let schema = match projection {
            Some(columns) => Arc::new(table.project(columns)?),
            None => Arc::clone(table),
        };
        let columns_of = (schema.fields().len(), table.fields().len().max(1));
        let rows: usize = sources.iter().map(|source| source.rows).sum();
        let partitions = if rows > BATCH_ROWS_MAX { partitions.max(1) } else { 1 };
        let properties = properties(&schema, partitions);
        Ok(Self { sources, schema, columns_of, fetch: None, partitions, properties })
    }

    fn limited(mut self, fetch: Option<usize>) -> Self {
        self.fetch = fetch;
        if self.is_ordered() {
            self.partitions = 1;
            self.properties = properties(&self.schema, 1);
        }
        self
    }
}

impl Scan {
    fn is_ordered(&self) -> bool {
        self.fetch.is_some_and(|rows| rows <= ORDERED_LIMIT_ROWS_MAX)
    }
}

fn properties(schema: &SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scan: segments={}, fetch={:?}", self.sources.len(), self.fetch)
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &str {
        "Scan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = Rows {
            scan: self.clone(),
            partition,
            source: 0,
            batches_left: None,
            rows_left: self.fetch.unwrap_or(usize::MAX),
        };
        let stream = futures::stream::iter(rows);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        if args.partition().is_none() || self.partitions == 1 {
            let rows: usize = self.sources.iter().map(|source| source.live_rows()).sum();
            let bytes: u64 = self.sources.iter().map(|source| source.bytes).sum();
            let bytes = bytes / self.columns_of.1 as u64 * self.columns_of.0 as u64;
            statistics.num_rows = Precision::Exact(rows.min(self.fetch.unwrap_or(usize::MAX)));
            statistics.total_byte_size = Precision::Inexact(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // The number of partitions stays what the plan was made for.
        Some(Arc::new(Self { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}

impl Source {
    fn live_rows(&self) -> usize {
        self.rows - self.deletions.as_ref().map_or(0, |(.., rows)| *rows)
    }

    fn open(&self) -> Result<&Opened, SegmentError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let segment = Segment::open(&self.path)?;
        let live = match &self.deletions {
            None => None,
            Some((path, offset, bytes, _)) => {
                let deleted = BooleanBuffer::new(read_bits(path, *offset, *bytes, self.rows)?, 0, self.rows);
                Some(!&deleted)
            }
        };
        if segment.rows() != self.rows {
            return Err(SegmentError::Damaged("it has another number of rows"));
        }
        Ok(self.opened.get_or_init(|| Opened { segment, live }))
    }
}

impl Opened {
    /// One batch with the columns of `schema`; one that the segment lacks, or has in another type, is NULL.
    fn batch(&self, batch: usize, schema: &SchemaRef) -> Result<RecordBatch, SegmentError> {
        let own = self.segment.schema();
        let places: Vec<Option<usize>> = schema
            .fields()
            .iter()
            .map(|field| {
                own.fields().find(field.name()).filter(|(_, found)| found.data_type() == field.data_type())
            })
            .map(|found| found.map(|(index, _)| index))
            .collect();
        let wanted: Vec<usize> = places.iter().copied().flatten().collect();
        let mut read = self.segment.read(batch, &wanted)?.into_iter();
        let (first, rows) = self.segment.batch_range(batch);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(places.len());
        for (place, field) in places.iter().zip(schema.fields()) {
            let found = place.and_then(|_| read.next());
            columns.push(found.unwrap_or_else(|| new_null_array(field.data_type(), rows)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let whole = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        let Some(live) = self.live.as_ref().map(|live| live.slice(first, rows)) else { return Ok(whole) };
        match live.count_set_bits() {
            all if all == rows => Ok(whole),
            _ => Ok(filter_record_batch(&whole, &BooleanArray::new(live, None))?),
        }
    }
}

/// The batches of one partition, one after the other.
struct Rows {
    scan: Scan,
    partition: usize,
    source: usize,
    batches_left: Option<usize>,
    rows_left: usize,
}

impl Rows {
    fn advance(&mut self) -> Result<Option<RecordBatch>, SegmentError> {
        while self.rows_left > 0 && self.source < self.scan.sources.len() {
            let opened = self.scan.sources[self.source].open()?;
            let left = self.batches_left.unwrap_or_else(|| opened.segment.batches());
            let Some(batch) = left.checked_sub(1) else {
                self.source += 1;
                self.batches_left = None;
                continue;
            };
            self.batches_left = Some(batch);
            if batch % self.scan.partitions != self.partition {
                continue;
            }
            let rows = opened.batch(batch, &self.scan.schema)?;
            if rows.num_rows() > 0 {
                let rows = self.cut(&rows)?;
                self.rows_left -= rows.num_rows();
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }
}

impl Rows {
    /// As many rows as are still wanted. A small limit gets them newest first, row by row: it says `LIMIT 200` and
    /// means the latest. A whole scan is not worth the copy.
    fn cut(&self, rows: &RecordBatch) -> Result<RecordBatch, SegmentError> {
        let wanted = rows.num_rows().min(self.rows_left);
        if !self.scan.is_ordered() {
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

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.rows_left = 0;
        }
        next.map_err(|error| DataFusionError::External(Box::new(error))).transpose()
    }
}
