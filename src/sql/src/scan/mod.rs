//! Tables as DataFusion reads them: mapped segments, newest first, without deleted rows.
//!
//! Not the listing table: it copies (2.1 GB for `LIMIT 200` over ten million rows). A scan decodes only the columns it
//! needs, checks conditions itself while it reads (`filter`), skips batches by their zones (`zones`), also those that a
//! running top-k or join has ruled out meanwhile, stops at its limit, and reports its exact number of rows, so that
//! `count(*)` reads nothing. Segments are opened when the stream reaches them.
//!
//! Rows come newest first: segments by their keys from the end, batches of a segment from its end (keys are
//! time-ordered). Where a top-k asks for the largest or smallest of a column, the batches that can hold them come first,
//! and the rest is mostly skipped. Of several partitions each takes every n-th batch.

mod aggregation;
mod filter;
mod rows;
mod shared_dictionaries;
mod source;
mod zones;

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::future::BoxFuture;

pub(super) use self::aggregation::{DictionaryAggregations, DistinctValues, EagerAggregations};
use self::filter::Condition;
pub(super) use self::shared_dictionaries::SharedDictionaries;
use self::source::Source;
pub(super) use self::source::forget_others;
use super::catalog::{NewestOf, TableSpec};
use super::protocol::TableSource;
use super::segment::BATCH_ROWS_MAX;

/// A limit up to this many rows is read by one partition, so that it gets the newest rows and in order.
const ORDERED_LIMIT_ROWS_MAX: usize = 4 * BATCH_ROWS_MAX;
/// The part of its rows that a scan with conditions is guessed to give.
const SELECTED_ONE_OF: usize = 5;

/// One table of the pinned snapshot.
#[derive(Debug)]
pub(super) struct SegmentTable {
    schema: SchemaRef,
    /// What it says of itself.
    pub(super) spec: Arc<TableSpec>,
    sources: Arc<Vec<Arc<Source>>>,
    known: Arc<LazyStatistics>,
    /// Which of its rows are kept in a table of their own, if any are.
    pub(super) newest: Option<NewestOf>,
    /// That table, if the statement may read it.
    pub(super) kept: OnceLock<Arc<SegmentTable>>,
}

/// What is known of a table's columns, looked up when it is asked for.
#[derive(Debug)]
struct LazyStatistics(Vec<OnceLock<ColumnStatistics>>);

impl SegmentTable {
    /// The table over its segments, which the server lists oldest first.
    pub(super) fn new(table: TableSource) -> Self {
        let schema = table.spec.shown_schema();
        let sources = table.segments.into_iter().rev().map(|segment| Arc::new(Source::new(segment)));
        let known = LazyStatistics(schema.fields().iter().map(|_| OnceLock::new()).collect());
        Self {
            sources: Arc::new(sources.collect()),
            known: Arc::new(known),
            newest: table.spec.newest.clone(),
            kept: OnceLock::new(),
            spec: Arc::new(table.spec),
            schema,
        }
    }

    /// Its rows, without those that are deleted.
    pub(super) fn rows(&self) -> usize {
        self.sources.iter().map(|source| source.live_rows()).sum()
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
        let scan = Scan::new(self, projection, partitions).map(|scan| {
            let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.limited(limit));
            scan
        });
        Box::pin(std::future::ready(scan))
    }
}

/// The largest (or smallest) values of a column are wanted first.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    column: usize,
    descending: bool,
}

/// The scan of a table.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    table: SchemaRef,
    sources: Arc<Vec<Arc<Source>>>,
    known: Arc<LazyStatistics>,
    /// The table's columns that come out.
    projection: Arc<Vec<usize>>,
    schema: SchemaRef,
    /// Conditions over the table's columns.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The same, ready to be asked; made by the first partition that runs.
    conditions: Arc<OnceLock<Arc<Vec<Condition>>>>,
    wanted: Option<Wanted>,
    fetch: Option<usize>,
    partitions: usize,
    /// Rows of text share their dictionary, because nobody keeps them.
    shares_dictionaries: bool,
    properties: Arc<PlanProperties>,
}

impl Scan {
    fn new(table: &SegmentTable, projection: Option<&Vec<usize>>, partitions: usize) -> Result<Self> {
        let columns = projection.cloned().unwrap_or_else(|| (0..table.schema.fields().len()).collect());
        let schema = Arc::new(table.schema.project(&columns)?);
        let rows: usize = table.sources.iter().map(|source| source.rows).sum();
        let partitions = if rows > BATCH_ROWS_MAX { partitions.max(1) } else { 1 };
        let properties = properties(&schema, partitions);
        Ok(Self {
            table: Arc::clone(&table.schema),
            sources: Arc::clone(&table.sources),
            known: Arc::clone(&table.known),
            projection: Arc::new(columns),
            schema,
            filters: Vec::new(),
            conditions: Arc::default(),
            wanted: None,
            fetch: None,
            partitions,
            shares_dictionaries: false,
            properties,
        })
    }

    fn limited(mut self, fetch: Option<usize>) -> Self {
        self.fetch = fetch;
        if self.is_ordered() {
            self.partitions = 1;
            self.properties = properties(&self.schema, 1);
        }
        self
    }

    /// Whether its rows come newest first, row by row.
    fn is_ordered(&self) -> bool {
        self.fetch.is_some_and(|rows| rows <= ORDERED_LIMIT_ROWS_MAX)
    }

    /// The same with other columns of the table.
    fn projected(&self, columns: Vec<usize>) -> Result<Self> {
        let schema = Arc::new(self.table.project(&columns)?);
        let properties = properties(&schema, self.partitions);
        Ok(Self { projection: Arc::new(columns), schema, properties, ..self.clone() })
    }

    fn conditions(&self) -> Result<Arc<Vec<Condition>>> {
        if let Some(conditions) = self.conditions.get() {
            return Ok(Arc::clone(conditions));
        }
        let conditions = self.filters.iter().map(|filter| Condition::new(filter, &self.table));
        let conditions = Arc::new(conditions.collect::<Result<Vec<_>>>()?);
        Ok(Arc::clone(self.conditions.get_or_init(|| conditions)))
    }

    fn column_statistics(&self, column: usize) -> ColumnStatistics {
        let known = &self.known.0[column];
        if let Some(known) = known.get() {
            return known.clone();
        }
        // What cannot be read shows when the rows are read.
        let found = zones::statistics(&self.sources, self.table.field(column))
            .unwrap_or_else(|_| ColumnStatistics::new_unknown());
        known.get_or_init(|| found).clone()
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
        write!(f, "Scan: segments={}, fetch={:?}", self.sources.len(), self.fetch)?;
        write!(f, ", wanted={:?}, shares_dictionaries={}, filters=[", self.wanted, self.shares_dictionaries)?;
        self.filters.iter().try_for_each(|filter| write!(f, "{filter}; "))?;
        f.write_str("]")
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
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if visit(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        rows::stream(self, partition)
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
            let (own, all) = (self.projection.len() as u64, self.table.fields().len().max(1) as u64);
            let bytes = usize::try_from(bytes / all * own).unwrap_or(usize::MAX);
            let fetch = self.fetch.unwrap_or(usize::MAX);
            statistics.total_byte_size = Precision::Inexact(bytes);
            statistics.num_rows = match self.filters.is_empty() {
                true => Precision::Exact(rows.min(fetch)),
                false => Precision::Inexact(rows.div_ceil(SELECTED_ONE_OF).min(fetch)),
            };
            statistics.column_statistics =
                self.projection.iter().map(|column| self.column_statistics(*column)).collect();
            if !self.filters.is_empty() || fetch < rows {
                let rows = statistics.num_rows;
                statistics = statistics.to_inexact();
                statistics.num_rows = rows;
            }
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

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut columns = Vec::with_capacity(projection.expr().len());
        for wanted in projection.expr() {
            match wanted.expr.downcast_ref::<Column>() {
                Some(column) if column.name() == wanted.alias => {
                    columns.push(self.projection[column.index()]);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Arc::new(self.projected(columns)?)))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        from_parents: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A limit counts the rows that come out: a condition that comes later must stay above it.
        if self.fetch.is_some() {
            return Ok(FilterPushdownPropagation::all_unsupported(from_parents));
        }
        let mut taken = Vec::with_capacity(from_parents.parent_filters.len());
        let mut filters = self.filters.clone();
        for parent in from_parents.parent_filters {
            if is_volatile(&parent.filter) {
                taken.push(PushedDown::No);
                continue;
            }
            filters.push(filter::over_table(parent.filter, &self.projection, &self.table)?);
            taken.push(PushedDown::Yes);
        }
        let node: Arc<dyn ExecutionPlan> =
            Arc::new(Self { filters, conditions: Arc::default(), ..self.clone() });
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(taken).with_updated_node(node))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let first = order.first().and_then(|first| Some((first.expr.downcast_ref::<Column>()?, first)));
        let Some((column, first)) = first else { return Ok(SortOrderPushdownResult::Unsupported) };
        if self.fetch.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let wanted = Wanted { column: self.projection[column.index()], descending: first.options.descending };
        let inner: Arc<dyn ExecutionPlan> = Arc::new(Self { wanted: Some(wanted), ..self.clone() });
        Ok(SortOrderPushdownResult::Inexact { inner })
    }
}

/// The schema of no columns, in which rows are only counted.
fn is_empty(schema: &Schema) -> bool {
    schema.fields().is_empty()
}
