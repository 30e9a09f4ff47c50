//! What the slice opens at a start: snapshots and their feed, SQL workers, results and exports.

use super::{
    BiSettings, Exports, Queries, ResultRetention, RetentionBounds, SnapshotFeed, load_kill_switches, recover,
};
use crate::config::Config;
use crate::features::wiring::{Consumer, Folder, StartTest, Wiring};
use crate::features::{ALL, View};
use base::{Error, Result};
use futures::future::BoxFuture;
use secrets::link::Links;
use serde_json::{Value, json};
use server::{Metrics, Services};
use sql::{Snapshots, WorkerSettings, Workers, box_memory_bytes, sandbox};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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
        let feed =
            wiring.hang::<SnapshotFeed>(SnapshotFeed::new(system.clone(), Arc::new(snapshots), views)?);
        let workers = Workers::new(worker_settings(config, wiring.exe))
            .map_err(|e| Error::internal("prepare SQL workers", e))?;
        warn_of_weak_walls(config);
        workers.warm();
        let horizons = ALL.iter().filter_map(|feature| feature.horizons).collect();
        let agents = ALL.iter().filter_map(|feature| feature.agents).collect();
        let workers = Arc::new(workers);
        let kept = open_kept(config, system.clone(), Arc::clone(&workers), wiring.data(EXPORTS)).await?;
        let queries = Queries::new(settings(config), workers, feed, Arc::clone(&kept), horizons, agents);
        let queries = wiring.hang::<Queries>(queries);
        let room = config.bi.results_org_mb.min(config.bi.results_box_mb) << 20;
        let bytes_max = config.bi.result_bytes_max().saturating_mul(EXPORT_FACTOR).min(room);
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
    let data = &config.storage.data_dir;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    WorkerSettings {
        exe: exe.to_owned(),
        query_timeout: Duration::from_secs(config.bi.max_query_sec),
        memory_bytes: config.bi.memory_mb << 20,
        memory_box_bytes: memory_box_bytes(config),
        spill_bytes_max: config.bi.spill_mb << 20,
        rows_max: config.bi.max_rows,
        bytes_max: config.bi.result_bytes_max(),
        spill_dir: data.join("spill"),
        results_dir: data.join("results"),
        reserve_bytes: config.storage.reserve_mb << 20,
        require_sandbox: config.bi.require_sandbox,
        concurrency_box: if config.bi.concurrency == 0 { cores } else { config.bi.concurrency },
    }
}

/// What all SQL workers together may take: what the configuration says, or two fifths of the box.
fn memory_box_bytes(config: &Config) -> u64 {
    match config.bi.memory_box_mb {
        0 => box_memory_bytes() / 5 * 2,
        mb => mb << 20,
    }
}

fn settings(config: &Config) -> BiSettings {
    BiSettings {
        max_query_sec: config.bi.max_query_sec,
        concurrency_per_org: config.bi.concurrency_per_org,
        queue_per_org: config.bi.queue_per_org,
        results_days: config.bi.results_days,
        freshness: Duration::from_millis(config.bi.freshness_ms),
    }
}

/// Says what the kernel lacks to hold a SQL worker.
fn warn_of_weak_walls(config: &Config) {
    let sandbox = sandbox::support();
    if let Some(warning) = sandbox.warning() {
        tracing::warn!("{warning}");
    }
    if config.bi.require_sandbox && !sandbox.isolates() {
        tracing::error!(
            "bi.require_sandbox is set and the kernel cannot isolate: every SQL statement is refused"
        );
    }
}

/// Counts the files of results and exports.
async fn open_kept(
    config: &Config,
    system: System,
    workers: Arc<Workers>,
    exports: PathBuf,
) -> Result<Arc<ResultRetention>> {
    let bounds = RetentionBounds {
        org_bytes_max: config.bi.results_org_mb << 20,
        box_bytes_max: config.bi.results_box_mb << 20,
    };
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
