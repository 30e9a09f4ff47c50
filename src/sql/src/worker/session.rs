//! The session statements are planned in: it holds one organization's tables, listed functions, and nothing else.
//!
//! No information schema but ours (`information`), no default catalog, no table factories, file formats, table functions or variables; the
//! catalog cannot be changed and the object-store registry knows no store. What DataFusion offers by default and
//! leaked when it was tried: `CREATE EXTERNAL TABLE`, `COPY … TO`, `SET datafusion.runtime.memory_limit`, SHOW,
//! information_schema, other catalogs. Here they have nothing to take hold of, even if the gate let one pass.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::temporal_conversions::timestamp_ms_to_datetime;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::config::{ConfigNonZeroUsize, Dialect};
use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SessionStateDefaults, TaskContext};
use datafusion::object_store::ObjectStore;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use url::Url;

use super::constants::FalseConstants;
use super::logical;
use super::pushdown;
use super::semi::OnceEach;
use super::statistics;
use crate::catalog::{CATALOG, SCHEMA, TableMap};
use crate::checked::CheckedArithmetic;
use crate::information::{self, INFORMATION, Specs};
use crate::limits::NESTING_MAX;
use crate::postgres::Operators;
use crate::postgres::column_names::ColumnNames;
use crate::postgres::table::registered;
use crate::protocol::{BindRequest, TableSource};
use crate::scan::{
    DictionaryAggregations, DistinctValues, EagerAggregations, SegmentTable, SharedDictionaries,
};

/// Parallel parts of a plan.
pub(super) const PARTITIONS: usize = 2;
/// Rows of a batch: that of the segments, which are then handed on as they are.
const BATCH_ROWS: usize = crate::segment::BATCH_ROWS_MAX;
/// The organization's tables over their segments.
pub(crate) fn segment_tables(tables: Vec<TableSource>) -> TableMap {
    let entry = |table: TableSource| (table.spec.name.to_string(), Arc::new(SegmentTable::new(table)));
    let tables: BTreeMap<String, Arc<SegmentTable>> = tables.into_iter().map(entry).collect();
    for table in tables.values() {
        let kept = table.newest.as_ref().and_then(|newest| tables.get(newest.table.as_str()));
        if let Some(kept) = kept.filter(|kept| kept.schema() == table.schema()) {
            // The cell of a new table is empty.
            let _ = table.kept.set(Arc::clone(kept));
        }
    }
    tables.into_iter().map(|(name, table)| (name, table as Arc<dyn TableProvider>)).collect()
}

/// The session of a worker: made once, with other tables for each statement. To make it anew and drop it was nearly half of
/// what planning a point query took (perf).
#[derive(Debug)]
pub(crate) struct Session {
    state: SessionState,
    tables: Arc<Tables>,
    /// What `now()` is, in milliseconds since 1970; none: the machine's time.
    now_ms: Option<i64>,
}

impl Session {
    pub(super) fn new(bound: &BindRequest) -> Result<Self> {
        let runtime = runtime(bound.memory_bytes, bound.home.clone(), bound.spill_bytes_max)?;
        let tables = Arc::<Tables>::default();
        let information = Arc::new(Information(Arc::clone(&tables)));
        let catalogs = Arc::new(CatalogList(Arc::new(Catalog { tables: Arc::clone(&tables), information })));
        let mut planners = SessionStateDefaults::default_expr_planners();
        planners.insert(0, Arc::new(CheckedArithmetic));
        planners.insert(0, Arc::new(Operators));
        let functions = registered();
        let state = SessionStateBuilder::new()
            .with_config(config(bound.memory_bytes)?)
            .with_runtime_env(runtime)
            .with_catalog_list(catalogs)
            .with_expr_planners(planners)
            .with_relation_planners(vec![Arc::new(ColumnNames)])
            .with_scalar_functions(functions.scalars.clone())
            .with_aggregate_functions(functions.aggregates.clone())
            .with_window_functions(functions.windows.clone())
            .with_optimizer_rules(logical::rules())
            .with_optimizer_rule(Arc::new(OnceEach))
            .with_physical_optimizer_rules(rules())
            .build();
        Ok(Self { state, tables, now_ms: None })
    }

    /// What `now()` means for the statements that begin from here on.
    pub(super) fn set_now(&mut self, now_ms: Option<i64>) {
        self.now_ms = now_ms;
    }

    /// The state in which a statement over `tables` is planned; what `now()` means for the whole of it is this moment, by the
    /// box's clock where that was told.
    pub(super) fn begin(&mut self, tables: TableMap) -> &SessionState {
        self.tables.0.lock().set(tables);
        self.state.mark_start_execution();
        if let Some(now) = self.now_ms.and_then(timestamp_ms_to_datetime) {
            self.state.execution_props_mut().query_execution_start_time = Some(now.and_utc());
        }
        &self.state
    }

    /// What a plan of this session runs in.
    pub(super) fn task_context(&self) -> Arc<TaskContext> {
        self.state.task_ctx()
    }

    /// Whether the last statement has given back all that it had of memory and disk.
    pub(super) fn is_clear(&self) -> bool {
        let runtime = self.state.runtime_env();
        runtime.memory_pool.reserved() == 0 && runtime.disk_manager.used_disk_space() == 0
    }

    /// The state itself, for a test that has one statement after the other over the same tables.
    #[cfg(test)]
    pub(crate) fn of(bound: &BindRequest, tables: TableMap) -> Result<SessionState> {
        let mut session = Self::new(bound)?;
        session.begin(tables);
        Ok(session.state)
    }
}

/// DataFusion's rules of physical plans with ours around them.
fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(FalseConstants), Arc::new(EagerAggregations)];
    let theirs = PhysicalOptimizer::new().rules;
    rules.extend(theirs.into_iter().map(pushdown::in_stead).map(statistics::in_stead));
    rules.push(Arc::new(DistinctValues));
    rules.push(Arc::new(DictionaryAggregations));
    rules.push(Arc::new(SharedDictionaries));
    rules
}

fn config(memory_bytes: u64) -> Result<SessionConfig> {
    let mut config = SessionConfig::new()
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_target_partitions(PARTITIONS)
        .with_batch_size(BATCH_ROWS);
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    // 0.1 + 0.2 is 0.3 in PostgreSQL, where a number with a point is exact.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.recursion_limit = ConfigNonZeroUsize::try_new(NESTING_MAX)?;
    // The check refuses what runs: whether a value can be NULL is told otherwise of `a IS NOT FALSE`, a cast in ROLLUP and
    // others by logical and by physical expressions.
    options.execution.skip_physical_aggregate_schema_check = true;
    // It keeps no more groups than a LIMIT wants, in a heap that compares doubles with `<` and finds them again with `==`: NaN is
    // lost, or ends the worker as a group's key; and beside DISTINCT and ORDER BY it was seen to keep the wrong ones (seeds
    // 30017 and 41038 of the random statements).
    options.optimizer.enable_topk_aggregation = false;
    // The default reserves 10 MB a partition before a sort has read a row: too much of a small pool.
    let share = usize::try_from(memory_bytes / 32).unwrap_or(usize::MAX);
    options.execution.sort_spill_reservation_bytes =
        options.execution.sort_spill_reservation_bytes.min(share);
    Ok(config)
}

fn runtime(memory_bytes: u64, spill_folder: PathBuf, spill_bytes_max: u64) -> Result<Arc<RuntimeEnv>> {
    let pool = FairSpillPool::new(usize::try_from(memory_bytes).unwrap_or(usize::MAX));
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![spill_folder]))
        .with_max_temp_directory_size(spill_bytes_max);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_disk_manager_builder(disk)
        .with_object_store_registry(Arc::new(NoStores))
        .build_arc()
}

/// A registry without object stores.
#[derive(Debug)]
struct NoStores;

impl ObjectStoreRegistry for NoStores {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, _: &Url) -> Result<Arc<dyn ObjectStore>> {
        exec_err!("there are no object stores")
    }
}

/// The list of the one catalog; nothing can be added.
#[derive(Debug)]
struct CatalogList(Arc<Catalog>);

impl CatalogProviderList for CatalogList {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::clone(&self.0) as Arc<dyn CatalogProvider>)
    }
}

/// The catalog of the one schema, and of what tells about its tables.
#[derive(Debug)]
struct Catalog {
    tables: Arc<Tables>,
    information: Arc<Information>,
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_owned(), INFORMATION.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::clone(&self.tables) as Arc<dyn SchemaProvider>),
            INFORMATION => Some(Arc::clone(&self.information) as Arc<dyn SchemaProvider>),
            _ => None,
        }
    }
}

/// The organization's tables, as the statement at hand sees them.
#[derive(Debug, Default)]
struct Tables(Mutex<VisibleTables>);

#[derive(Debug, Default)]
struct VisibleTables {
    tables: TableMap,
    /// What they say of themselves.
    specs: Specs,
}

impl VisibleTables {
    fn set(&mut self, tables: TableMap) {
        for (name, provider) in &tables {
            // What is not over segments (an agent's) is a view of the table of the same name that was there before.
            if let Some(table) = provider.downcast_ref::<SegmentTable>() {
                self.specs.insert(name.clone(), Arc::clone(&table.spec));
            }
        }
        self.tables = tables;
    }
}

/// What tells about the tables that the statement at hand sees.
#[derive(Debug)]
struct Information(Arc<Tables>);

impl SchemaProvider for Information {
    fn table_names(&self) -> Vec<String> {
        vec![information::COLUMNS.to_owned(), information::TABLES.to_owned()]
    }

    fn table<'life0, 'life1, 'async_trait>(
        &'life0 self,
        name: &'life1 str,
    ) -> BoxFuture<'async_trait, Result<Option<Arc<dyn TableProvider>>, DataFusionError>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        let seen = self.0.0.lock();
        let found = information::table(name, &seen.tables, &seen.specs);
        Box::pin(std::future::ready(found))
    }

    fn table_exist(&self, name: &str) -> bool {
        matches!(name, information::COLUMNS | information::TABLES)
    }
}

// Written out as `#[async_trait]` would: the crate is no dependency of ours.
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.0.lock().tables.keys().cloned().collect()
    }

    fn table<'life0, 'life1, 'async_trait>(
        &'life0 self,
        name: &'life1 str,
    ) -> BoxFuture<'async_trait, Result<Option<Arc<dyn TableProvider>>, DataFusionError>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        Self: 'async_trait,
    {
        let found = self.0.lock().tables.get(name).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn register_table(&self, _: String, _: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        plan_err!("tables cannot be registered")
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.lock().tables.contains_key(name)
    }
}
