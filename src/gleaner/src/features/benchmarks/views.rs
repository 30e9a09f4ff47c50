//! What the SQL console sees of benchmarks: one row each, and one for each probe that has ended.

use super::rows::{BENCHMARKS, BenchmarkV1};
use crate::console::{
    Column, ConsoleTable, View, ViewRows, int, optional_int, optional_text, optional_time, text, time,
};
use crate::features::jobs::{AttemptV1, JOBS, JobV2};
use base::Result;
use base::ids::{BenchmarkId, JobId};
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const BENCHMARK_VIEW: View =
    View { source: "benchmarks", tables: || vec![BENCHMARK_TABLE.spec()], rows: benchmark_rows };

/// Probes are jobs.
pub(super) const PROBE_VIEW: View =
    View { source: "jobs", tables: || vec![PROBE_TABLE.spec()], rows: probe_rows };

static BENCHMARK_TABLE: LazyLock<ConsoleTable<BenchmarkV1>> = LazyLock::new(|| {
    ConsoleTable::<BenchmarkV1>::new(
        "benchmarks",
        "Comparisons of the connected providers.",
        [
            Column::required("id", Kind::Text, "The benchmark's id", |row| text(row.id)),
            Column::required(
                "status",
                Kind::Text,
                "pending, running, completed, failed or canceled",
                |row| Cell::from(row.status.name()),
            ),
            Column::required("url_count", Kind::Int64, "URLs that every provider fetched", |row| {
                int(row.urls.len() as u64)
            }),
            Column::required("provider_count", Kind::Int64, "Providers that were compared", |row| {
                int(row.providers.len() as u64)
            }),
            Column::required("total_probes", Kind::Int64, "One for each URL and provider", |row| {
                Cell::Int(row.total_probes.into())
            }),
            Column::required("completed_probes", Kind::Int64, "Those that have ended", |row| {
                Cell::Int(row.completed_probes.into())
            }),
            Column::required("failed_probes", Kind::Int64, "Those that brought no page", |row| {
                Cell::Int(row.failed_probes.into())
            }),
            Column::nullable("error", Kind::Text, "Why it failed", |row| optional_text(row.error.as_ref())),
            Column::required("created_at", Kind::Timestamp, "When it was started", |row| {
                time(row.created_at)
            }),
            Column::nullable("finished_at", Kind::Timestamp, "When it ended", |row| {
                optional_time(row.finished_at)
            }),
        ],
    )
});

/// A probe that has ended.
struct Probe {
    benchmark: BenchmarkId,
    job: JobV2,
    attempt: AttemptV1,
}

impl Probe {
    fn of(job: JobV2) -> Option<Probe> {
        let attempt = job.attempts.last().filter(|_| job.status.has_ended())?.clone();
        Some(Probe { benchmark: job.benchmark_id?, job, attempt })
    }
}

static PROBE_TABLE: LazyLock<ConsoleTable<Probe>> = LazyLock::new(|| {
    ConsoleTable::<Probe>::new(
        "benchmark_probes",
        "One row a probe that has ended.",
        [
            Column::required("benchmark_id", Kind::Text, "The benchmark", |row| text(row.benchmark)),
            Column::required("job_id", Kind::Text, "The job that the probe was", |row| text(row.job.id)),
            Column::required("url", Kind::Text, "The page", |row| Cell::from(row.job.url.as_str())),
            Column::required("domain", Kind::Text, "Its registrable domain", |row| {
                Cell::from(row.job.domain.as_str())
            }),
            Column::required("provider_id", Kind::Text, "Who was asked", |row| {
                Cell::from(row.attempt.provider_id.as_str())
            }),
            Column::required("outcome", Kind::Text, "success, blocked, timeout …", |row| {
                Cell::from(row.attempt.outcome.as_str())
            }),
            Column::nullable("http_status", Kind::Int64, "What the target answered", |row| {
                optional_int(row.attempt.http_status)
            }),
            Column::required("duration_ms", Kind::Int64, "How long it took", |row| {
                int(row.attempt.duration_ms)
            }),
            Column::required("bytes", Kind::Int64, "Received on the wire", |row| int(row.attempt.bytes)),
            Column::required("credits", Kind::Int64, "What it cost", |row| int(row.attempt.credits)),
            Column::nullable("error", Kind::Text, "What went wrong", |row| {
                optional_text(row.attempt.error.as_ref())
            }),
            Column::required("started_at", Kind::Timestamp, "When", |row| time(row.attempt.started_at)),
        ],
    )
});

fn benchmark_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = BenchmarkId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&BENCHMARKS, &id)?;
    Ok(vec![BENCHMARK_TABLE.rows(&row)])
}

fn probe_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    let job = tx.get(&JOBS, &id)?.filter(|job| job.benchmark_id.is_some());
    // Other jobs have nothing here, and never had.
    let Some(job) = job else { return Ok(Vec::new()) };
    Ok(vec![PROBE_TABLE.rows(&Probe::of(job))])
}
