//! What the slice opens at a start: snapshots and their feed, SQL workers, results and exports.

use super::switch;
use super::{
    BiConfig, BiSettings, Exports, Queries, ResultRetention, RetentionBounds, SnapshotFeed, StatementWatcher,
    load_kill_switches, recover,
};
use crate::config::Config;
use crate::features::wiring::{Folder, StartTest, Wiring};
use crate::features::{ALL, View};
use base::ids::OrgId;
use base::{Error, Result};
use futures::future::BoxFuture;
use secrets::link::Links;
use serde_json::{Value, json};
use server::task::Consumer;
use server::{Metrics, Services};
use sql::{Snapshots, WorkerSettings, Workers, box_memory_bytes, sandbox};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::System;

/// A file may be so many times larger than the largest result that it is made of: text takes more room than columns.
const EXPORT_FACTOR: u64 = 4;

const EXPORTS: &str = "exports";
const SNAPSHOTS: &str = "snapshots";

pub(super) const FOLDERS: &[Folder] = &[
    Folder { name: SNAPSHOTS, is_needed: true },
    Folder { name: "results", is_needed: false },
    Folder { name: EXPORTS, is_needed: false },
];

/// Opens the slice's parts.
pub(super) fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let (config, system) = (wiring.config, wiring.system());
        let views: Vec<&'static View> = ALL.iter().flat_map(|feature| feature.views).collect();
        let snapshots =
            Snapshots::open(wiring.data(SNAPSHOTS)).map_err(|e| Error::internal("open the snapshots", e))?;
        let freshness = Duration::from_millis(config.section::<BiConfig>().freshness_ms);
        let shared = ALL.iter().flat_map(|feature| feature.shared_views).collect();
        let feed = SnapshotFeed::new(system.clone(), Arc::new(snapshots), views, shared)?;
        let own_tables = ALL.iter().find_map(|feature| feature.own_table);
        let feed = feed.with_own_tables(own_tables).fresh_within(freshness);
        let feed = wiring.hang::<SnapshotFeed>(feed);
        let workers = Workers::new(worker_settings(config, wiring.exe))
            .map_err(|e| Error::internal("prepare SQL workers", e))?;
        warn_of_weak_walls(config.section());
        workers.warm();
        let horizons = ALL.iter().filter_map(|feature| feature.horizons).collect();
        let agents = ALL.iter().filter_map(|feature| feature.agents).collect();
        let workers = Arc::new(workers);
        let kept =
            open_kept(config.section(), system.clone(), Arc::clone(&workers), wiring.data(EXPORTS)).await?;
        let bi: &BiConfig = config.section();
        let slow = Duration::from_millis(bi.slow_ms);
        let watcher = StatementWatcher::new(&wiring.part::<Metrics>(), slow, bi.slow_text);
        let known = (horizons, agents);
        let queries = Queries::new(settings(bi), workers, feed, Arc::clone(&kept), watcher, known);
        let queries = wiring.hang::<Queries>(queries);
        let room = bi.results_org_mb.min(bi.results_box_mb) << 20;
        let bytes_max = bi.result_bytes_max().saturating_mul(EXPORT_FACTOR).min(room);
        let (folder, links) = (wiring.data(EXPORTS), wiring.part::<Links>());
        let exports = Exports::open(folder, kept, links, wiring.url.to_owned(), bytes_max)
            .map_err(|e| Error::internal("prepare exports", e))?;
        wiring.hang::<Exports>(exports);
        recover(&system).await?;
        load_kill_switches(&system, &queries)?;
        Ok(())
    })
}

fn worker_settings(config: &Config, exe: &Path) -> WorkerSettings {
    let (data, bi) = (&config.storage.data_dir, config.section::<BiConfig>());
    WorkerSettings {
        exe: exe.to_owned(),
        query_timeout: Duration::from_secs(bi.max_query_sec),
        memory_bytes: bi.memory_mb << 20,
        memory_box_bytes: memory_box_bytes(bi),
        spill_bytes_max: bi.spill_mb << 20,
        rows_max: bi.max_rows,
        bytes_max: bi.result_bytes_max(),
        spill_dir: data.join("spill"),
        results_dir: data.join("results"),
        reserve_bytes: config.storage.reserve_mb << 20,
        require_sandbox: bi.require_sandbox,
        concurrency_box: concurrency_box(bi),
    }
}

/// How many statements run at once: what the configuration says, or as many as there are cores.
fn concurrency_box(bi: &BiConfig) -> usize {
    match bi.concurrency {
        0 => std::thread::available_parallelism().map_or(2, usize::from),
        given => given,
    }
}

/// Open files of a SQL worker, and of a spare one beside each that runs: pipes and the files it hands over.
const OF_WORKER: u64 = 12;

/// What SQL workers take of the open files.
pub(super) fn descriptors(config: &Config) -> u64 {
    2 * concurrency_box(config.section()) as u64 * OF_WORKER
}

/// What all SQL workers together may take: what the configuration says, or two fifths of the box.
fn memory_box_bytes(bi: &BiConfig) -> u64 {
    match bi.memory_box_mb {
        0 => box_memory_bytes() / 5 * 2,
        mb => mb << 20,
    }
}

fn settings(bi: &BiConfig) -> BiSettings {
    BiSettings {
        max_query_sec: bi.max_query_sec,
        concurrency_per_org: bi.concurrency_per_org,
        queue_per_org: bi.queue_per_org,
        results_days: bi.results_days,
    }
}

/// Says what the kernel lacks to hold a SQL worker.
fn warn_of_weak_walls(bi: &BiConfig) {
    let sandbox = sandbox::support();
    if let Some(warning) = sandbox.warning() {
        tracing::warn!("{warning}");
    }
    if bi.require_sandbox && !sandbox.isolates() {
        tracing::error!(
            "bi.require_sandbox is set and the kernel cannot isolate: every SQL statement is refused"
        );
    }
}

/// Counts the files of results and exports.
async fn open_kept(
    bi: &BiConfig,
    system: System,
    workers: Arc<Workers>,
    exports: PathBuf,
) -> Result<Arc<ResultRetention>> {
    let bounds =
        RetentionBounds { org_bytes_max: bi.results_org_mb << 20, box_bytes_max: bi.results_box_mb << 20 };
    let opened =
        tokio::task::spawn_blocking(move || ResultRetention::open(system, workers, exports, bounds)).await;
    let kept = opened.map_err(|e| Error::internal("count results", e))?;
    kept.map(Arc::new).map_err(|e| Error::internal("count results", e))
}

impl Consumer for SnapshotFeed {
    fn name(&self) -> &'static str {
        SNAPSHOTS
    }

    fn durable(&self) -> u64 {
        self.position()
    }

    fn reached(&self) -> u64 {
        self.applied()
    }

    fn pause(&self, begun: Instant, _: Instant) -> Duration {
        self.gathers(begun)
    }

    fn rest(&self) -> Option<Duration> {
        self.stores_within()
    }

    fn begin(&self) -> Result<()> {
        SnapshotFeed::begin(self)
    }

    fn take(&self, _: &dyn Fn() -> bool) -> Result<bool> {
        self.pass()
    }

    fn settle(&self) -> Result<()> {
        self.store_position()
    }

    fn forget(&self, org: OrgId) -> Result<u64> {
        self.remove_org(org)
    }

    fn recall(&self, org: OrgId) -> Result<()> {
        self.recall_org(org)
    }
}

/// A statement through a worker.
pub(super) const START_TEST: StartTest = StartTest {
    name: "sql",
    run: |services| Box::pin(async move { services.service::<Queries>().self_test().await }),
    partly: |_| None,
};

pub(super) fn status(services: &Services) -> Vec<(&'static str, Value)> {
    let position = services.service::<SnapshotFeed>().applied();
    vec![("sql", sql_status(services)), ("snapshotPosition", json!(position))]
}

/// Statements that a look shows.
const SHOWN_MAX: usize = 50;

pub(super) fn look(services: &Services) -> Vec<(&'static str, Value)> {
    let queries = services.service::<Queries>();
    let (counts, mut longest) = (queries.worker_counts(), switch::running(&queries));
    longest.truncate(SHOWN_MAX);
    let told = json!({ "running": counts.running, "waiting": counts.waiting, "longest": longest });
    vec![("statements", told)]
}

/// The SQL workers, and what the kernel holds them with.
fn sql_status(services: &Services) -> serde_json::Value {
    let workers = services.service::<Queries>().worker_counts();
    let feed = services.service::<SnapshotFeed>();
    let (publishing, merging) = feed.spent();
    let sandbox = sandbox::support();
    json!({
        "running": workers.running,
        "waiting": workers.waiting,
        "workersFresh": workers.fresh,
        "workersResting": workers.resting,
        "rowsLeftOut": feed.quarantined(),
        "publishingCpuMs": publishing.as_millis() as u64,
        "mergingCpuMs": merging.as_millis() as u64,
        "keptBytes": services.service::<Queries>().kept_bytes(),
        "sandbox": sandbox,
        "sandboxWarning": sandbox.warning(),
    })
}

pub(super) fn gauges(metrics: &Metrics, services: &Services) {
    let feed = services.service::<SnapshotFeed>();
    let help = "Change record up to which SQL sees rows.";
    metrics.gauge_of("gleaner_snapshot_position", help, &[], move || feed.applied() as f64);
}
