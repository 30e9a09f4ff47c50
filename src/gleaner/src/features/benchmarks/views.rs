//! What the SQL console sees of benchmarks: one row each, and one for each probe that has ended.

use super::rows::{BENCHMARKS, BenchmarkV1};
use crate::features::jobs::{JOBS, JobV1};
use crate::features::{View, ViewRows, column, console_table};
use base::Result;
use base::ids::{BenchmarkId, JobId};
use sql::{Cell, ColumnKind as Kind, TableSpec};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

pub(super) const BENCHMARK_VIEW: View =
    View { source: "benchmarks", tables: || vec![BENCHMARK_TABLE.as_ref().clone()], rows: benchmark_rows };

/// Probes are jobs.
pub(super) const PROBE_VIEW: View =
    View { source: "jobs", tables: || vec![PROBE_TABLE.as_ref().clone()], rows: probe_rows };

static BENCHMARK_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table(
        "benchmarks",
        "Comparisons of the connected providers.",
        vec![
            column("id", Kind::Text, "The benchmark's id").required(),
            column("status", Kind::Text, "pending, running, completed, failed or canceled").required(),
            column("url_count", Kind::Int64, "URLs that every provider fetched").required(),
            column("provider_count", Kind::Int64, "Providers that were compared").required(),
            column("total_probes", Kind::Int64, "One for each URL and provider").required(),
            column("completed_probes", Kind::Int64, "Those that have ended").required(),
            column("failed_probes", Kind::Int64, "Those that brought no page").required(),
            column("error", Kind::Text, "Why it failed"),
            column("created_at", Kind::Timestamp, "When it was started").required(),
            column("finished_at", Kind::Timestamp, "When it ended"),
        ],
    )
});

static PROBE_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table(
        "benchmark_probes",
        "One row a probe that has ended.",
        vec![
            column("benchmark_id", Kind::Text, "The benchmark").required(),
            column("job_id", Kind::Text, "The job that the probe was").required(),
            column("url", Kind::Text, "The page").required(),
            column("domain", Kind::Text, "Its registrable domain").required(),
            column("provider_id", Kind::Text, "Who was asked").required(),
            column("outcome", Kind::Text, "success, blocked, timeout …").required(),
            column("http_status", Kind::Int64, "What the target answered"),
            column("duration_ms", Kind::Int64, "How long it took").required(),
            column("bytes", Kind::Int64, "Received on the wire").required(),
            column("credits", Kind::Int64, "What it cost").required(),
            column("error", Kind::Text, "What went wrong"),
            column("started_at", Kind::Timestamp, "When").required(),
        ],
    )
});

fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn benchmark_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = BenchmarkId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&BENCHMARKS, &id)?;
    Ok(vec![ViewRows { table: BENCHMARK_TABLE.clone(), rows: row.iter().map(benchmark_cells).collect() }])
}

fn benchmark_cells(row: &BenchmarkV1) -> Vec<Cell> {
    vec![
        Cell::from(row.id.to_string()),
        Cell::from(row.status.name()),
        int(row.urls.len() as u64),
        int(row.providers.len() as u64),
        Cell::Int(row.total_probes.into()),
        Cell::Int(row.completed_probes.into()),
        Cell::Int(row.failed_probes.into()),
        row.error.as_deref().map_or(Cell::Null, Cell::from),
        Cell::Time(row.created_at.millis()),
        row.finished_at.map_or(Cell::Null, |at| Cell::Time(at.millis())),
    ]
}

fn probe_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    let job = tx.get(&JOBS, &id)?.filter(|job| job.benchmark_id.is_some());
    // Other jobs have nothing here, and never had.
    let Some(job) = job else { return Ok(Vec::new()) };
    Ok(vec![ViewRows { table: PROBE_TABLE.clone(), rows: probe_cells(&job).into_iter().collect() }])
}

fn probe_cells(job: &JobV1) -> Option<Vec<Cell>> {
    let attempt = job.attempts.last().filter(|_| job.status.has_ended())?;
    Some(vec![
        Cell::from(job.benchmark_id?.to_string()),
        Cell::from(job.id.to_string()),
        Cell::from(job.url.as_str()),
        Cell::from(job.domain.as_str()),
        Cell::from(attempt.provider_id.as_str()),
        Cell::from(attempt.outcome.as_str()),
        attempt.http_status.map_or(Cell::Null, |status| Cell::Int(status.into())),
        int(attempt.duration_ms),
        int(attempt.bytes),
        int(attempt.credits),
        attempt.error.as_deref().map_or(Cell::Null, Cell::from),
        Cell::Time(attempt.started_at.millis()),
    ])
}
