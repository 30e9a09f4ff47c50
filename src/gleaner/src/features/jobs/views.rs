//! What the SQL console sees of jobs: `jobs`, and `job_attempts` in long form.

use super::rows::{AttemptV1, JOBS, JobV1};
use super::view::has_result;
use crate::features::extraction::RESULTS;
use crate::features::{NAMED_BY_METADATA, View, ViewRows, column, console_table, seen_by_agents};
use base::Result;
use base::ids::JobId;
use sql::{Cell, ColumnKind as Kind, TableSpec};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

/// A job whose result goes says so, too: results stand under their jobs' ids.
pub(super) const RESULT_VIEW: View =
    View { source: "results", tables: || vec![JOB_TABLE.as_ref().clone()], rows: without_result };

pub(super) const VIEW: View = View {
    source: "jobs",
    tables: || vec![JOB_TABLE.as_ref().clone(), ATTEMPT_TABLE.as_ref().clone()],
    rows,
};

static JOB_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    let mut table = console_table(
        "jobs",
        "Scrape requests and how they ended.",
        vec![
            column("id", Kind::Text, "The job's id").required(),
            column("url", Kind::Text, "The page that was asked for").required(),
            column("domain", Kind::Text, "Its registrable domain").required(),
            column("url_id", Kind::Text, "The registered URL"),
            column("workflow_id", Kind::Text, "The workflow it was dispatched along"),
            column("schedule_id", Kind::Text, "The schedule that fired it"),
            column("schedule_run_id", Kind::Text, "The firing"),
            column("status", Kind::Text, "queued, running, succeeded, failed or canceled").required(),
            column("priority", Kind::Int64, "0 (last) to 9 (first)").required(),
            column("page_type", Kind::Text, "product, article …"),
            column("tags", Kind::Json, "Array of text"),
            column("metadata", Kind::Json, "What the caller hung on it"),
            column("external_id", Kind::Text, "The caller's own name for it"),
            column("attempt_count", Kind::Int64, "Requests that went out").required(),
            column("result_id", Kind::Text, "What it extracted, while that is there"),
            column("credits_charged", Kind::Int64, "What it cost").required(),
            column("error", Kind::Text, "Why it failed"),
            column("created_at", Kind::Timestamp, "When it was submitted").required(),
            column("started_at", Kind::Timestamp, "When its last run began"),
            column("finished_at", Kind::Timestamp, "When it ended"),
        ],
    );
    Arc::make_mut(&mut table).catalog_version = 2;
    seen_by_agents(table, NAMED_BY_METADATA)
});

static ATTEMPT_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    let table = console_table(
        "job_attempts",
        "One row a request that went out for a job.",
        vec![
            column("job_id", Kind::Text, "The job").required(),
            column("n", Kind::Int64, "1 for the first").required(),
            column("provider_id", Kind::Text, "Who made it").required(),
            column("started_at", Kind::Timestamp, "When").required(),
            column("duration_ms", Kind::Int64, "How long it took").required(),
            column("outcome", Kind::Text, "success, blocked, timeout …").required(),
            column("http_status", Kind::Int64, "What the target answered"),
            column("bytes", Kind::Int64, "Received on the wire").required(),
            column("credits", Kind::Int64, "What it cost").required(),
            column("rule", Kind::Text, "The detection rule that spoke"),
            column("error", Kind::Text, "What went wrong"),
        ],
    );
    seen_by_agents(table, format!("job_id IN (SELECT id FROM jobs WHERE {NAMED_BY_METADATA})"))
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    // Probes of benchmarks have a table of their own.
    let job = tx.get(&JOBS, &id)?.filter(|job| job.benchmark_id.is_none());
    let attempts =
        job.iter().flat_map(|job| &job.attempts).map(|attempt| attempt_cells(id, attempt)).collect();
    Ok(vec![
        ViewRows { table: JOB_TABLE.clone(), rows: job_rows(tx, job.as_ref())? },
        ViewRows { table: ATTEMPT_TABLE.clone(), rows: attempts },
    ])
}

/// The job of a result that is gone, once more; nothing while there is one, since the job's own change has told of it.
fn without_result(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    if tx.get(&RESULTS, &id)?.is_some() {
        return Ok(Vec::new());
    }
    let job = tx.get(&JOBS, &id)?.filter(|job| job.benchmark_id.is_none());
    Ok(vec![ViewRows { table: JOB_TABLE.clone(), rows: job_rows(tx, job.as_ref())? }])
}

fn job_rows(tx: &OrgRead<'_>, job: Option<&JobV1>) -> Result<Vec<Vec<Cell>>> {
    let Some(job) = job else { return Ok(Vec::new()) };
    Ok(vec![job_cells(job, has_result(tx, job)?)])
}

fn text(value: Option<impl ToString>) -> Cell {
    value.map_or(Cell::Null, |value| Cell::from(value.to_string()))
}

fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn job_cells(job: &JobV1, has_result: bool) -> Vec<Cell> {
    vec![
        Cell::from(job.id.to_string()),
        Cell::from(job.url.as_str()),
        Cell::from(job.domain.as_str()),
        text(job.url_id),
        text(job.workflow_id),
        text(job.schedule_id),
        text(job.schedule_run_id),
        Cell::from(job.status.name()),
        Cell::Int(job.priority.into()),
        text(job.page_type),
        Cell::from(serde_json::Value::from(job.tags.clone()).to_string()),
        Cell::from(job.metadata.0.to_string()),
        text(job.external_id.as_ref()),
        int(job.attempts.len() as u64),
        text(job.result_id.filter(|_| has_result)),
        int(job.credits_charged),
        text(job.error.as_ref()),
        Cell::Time(job.created_at.millis()),
        job.started_at.map_or(Cell::Null, |at| Cell::Time(at.millis())),
        job.finished_at.map_or(Cell::Null, |at| Cell::Time(at.millis())),
    ]
}

fn attempt_cells(id: JobId, attempt: &AttemptV1) -> Vec<Cell> {
    vec![
        Cell::from(id.to_string()),
        Cell::Int(attempt.n.into()),
        Cell::from(attempt.provider_id.as_str()),
        Cell::Time(attempt.started_at.millis()),
        int(attempt.duration_ms),
        Cell::from(attempt.outcome.as_str()),
        attempt.http_status.map_or(Cell::Null, |status| Cell::Int(status.into())),
        int(attempt.bytes),
        int(attempt.credits),
        text(attempt.rule.as_ref()),
        text(attempt.error.as_ref()),
    ]
}
