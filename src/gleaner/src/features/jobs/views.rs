//! What the SQL console sees of jobs: `jobs`, and `job_attempts` in long form.

use super::rows::{AttemptV1, JOBS, JobV2};
use super::view::has_result;
use crate::console::{
    BOUND_TO_AGENT, Column, ConsoleTable, View, ViewRows, int, optional_int, optional_text, optional_time,
    text, time,
};
use crate::features::extraction::RESULTS;
use base::Result;
use base::ids::JobId;
use base::terms::PageType;
use fetch::Outcome;
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

/// A job whose result goes says so, too: results stand under their jobs' ids.
pub(super) const RESULT_VIEW: View =
    View { source: "results", tables: || vec![JOB_TABLE.spec()], rows: without_result };

pub(super) const VIEW: View =
    View { source: "jobs", tables: || vec![JOB_TABLE.spec(), ATTEMPT_TABLE.spec()], rows };

static JOB_TABLE: LazyLock<ConsoleTable<JobV2>> = LazyLock::new(|| {
    let table = ConsoleTable::<JobV2>::new(
        "jobs",
        "Scrape requests and how they ended.",
        [
            Column::required("id", Kind::Text, "The job's id", |row| text(row.id)),
            Column::required("url", Kind::Text, "The page that was asked for", |row| {
                Cell::from(row.url.as_str())
            }),
            Column::required("domain", Kind::Text, "Its registrable domain", |row| {
                Cell::from(row.domain.as_str())
            }),
            Column::nullable("url_id", Kind::Text, "The registered URL", |row| optional_text(row.url_id)),
            Column::nullable("workflow_id", Kind::Text, "The workflow it was dispatched along", |row| {
                optional_text(row.workflow_id)
            }),
            Column::nullable("schedule_id", Kind::Text, "The schedule that fired it", |row| {
                optional_text(row.schedule_id)
            }),
            Column::nullable("schedule_run_id", Kind::Text, "The firing", |row| {
                optional_text(row.schedule_run_id)
            }),
            Column::nullable("batch_id", Kind::Text, "The jobs that it was submitted with", |row| {
                optional_text(row.batch_id)
            }),
            Column::required("status", Kind::Text, "queued, running, succeeded, failed or canceled", |row| {
                Cell::from(row.status.name())
            }),
            Column::required("priority", Kind::Int64, "0 (last) to 9 (first)", |row| {
                Cell::Int(row.priority.into())
            }),
            Column::nullable("page_type", Kind::Text, "product, article …", |row| {
                optional_text(row.page_type)
            }),
            Column::nullable("tags", Kind::Json, "Array of text", |row| {
                Cell::from(serde_json::Value::from(row.tags.clone()).to_string())
            }),
            Column::nullable("metadata", Kind::Json, "What the caller hung on it", |row| {
                text(&row.metadata.0)
            }),
            Column::nullable("external_id", Kind::Text, "The caller's own name for it", |row| {
                optional_text(row.external_id.as_ref())
            }),
            Column::required("attempt_count", Kind::Int64, "Requests that went out", |row| {
                int(row.attempts.len() as u64)
            }),
            Column::nullable("provider_id", Kind::Text, "Whose answer it ended with", |row| {
                optional_text(answered(row).map(|attempt| &attempt.provider_id))
            }),
            Column::nullable("result_id", Kind::Text, "What it extracted, while that is there", |row| {
                optional_text(row.result_id)
            }),
            Column::required("credits_charged", Kind::Int64, "What it cost", |row| int(row.credits_charged)),
            Column::nullable("error", Kind::Text, "Why it failed", |row| optional_text(row.error.as_ref())),
            Column::required("created_at", Kind::Timestamp, "When it was submitted", |row| {
                time(row.created_at)
            }),
            Column::nullable("started_at", Kind::Timestamp, "When its last run began", |row| {
                optional_time(row.started_at)
            }),
            Column::nullable("finished_at", Kind::Timestamp, "When it ended", |row| {
                optional_time(row.finished_at)
            }),
            Column::nullable(
                "duration_ms",
                Kind::Int64,
                "From the beginning of its last run to its end",
                |row| {
                    let span = row.finished_at.zip(row.started_at);
                    span.map_or(Cell::Null, |(end, start)| int(end.since(start).as_millis() as u64))
                },
            ),
        ],
    );
    table.version(4).seen_by_agents(BOUND_TO_AGENT)
});

/// The attempt that brought what the job ended with: the page, or the target's own answer that there is none. It is the one
/// that is charged.
fn answered(job: &JobV2) -> Option<&AttemptV1> {
    let brought = |outcome: Outcome| job.attempts.iter().rev().find(|attempt| attempt.outcome == outcome);
    brought(Outcome::Success)
        .or_else(|| brought(Outcome::LowQuality))
        .or_else(|| brought(Outcome::TargetError))
}

/// A request that went out for a job.
struct JobAttempt {
    job: JobId,
    domain: String,
    page_type: Option<PageType>,
    attempt: AttemptV1,
}

static ATTEMPT_TABLE: LazyLock<ConsoleTable<JobAttempt>> = LazyLock::new(|| {
    let table = ConsoleTable::<JobAttempt>::new(
        "job_attempts",
        "One row a request that went out for a job.",
        [
            Column::required("job_id", Kind::Text, "The job", |row| text(row.job)),
            Column::required("domain", Kind::Text, "The job's registrable domain", |row| {
                Cell::from(row.domain.as_str())
            }),
            Column::nullable("page_type", Kind::Text, "The job's page type", |row| {
                optional_text(row.page_type)
            }),
            Column::required("n", Kind::Int64, "1 for the first", |row| Cell::Int(row.attempt.n.into())),
            Column::required("provider_id", Kind::Text, "Who made it", |row| {
                Cell::from(row.attempt.provider_id.as_str())
            }),
            Column::required("started_at", Kind::Timestamp, "When", |row| time(row.attempt.started_at)),
            Column::required("duration_ms", Kind::Int64, "How long it took", |row| {
                int(row.attempt.duration_ms)
            }),
            Column::required("outcome", Kind::Text, "success, blocked, timeout …", |row| {
                Cell::from(row.attempt.outcome.as_str())
            }),
            Column::nullable("http_status", Kind::Int64, "What the target answered", |row| {
                optional_int(row.attempt.http_status)
            }),
            Column::required("bytes", Kind::Int64, "Received on the wire", |row| int(row.attempt.bytes)),
            Column::required("credits", Kind::Int64, "What it cost", |row| int(row.attempt.credits)),
            Column::nullable("rule", Kind::Text, "The detection rule that spoke", |row| {
                optional_text(row.attempt.rule.as_ref())
            }),
            Column::nullable("error", Kind::Text, "What went wrong", |row| {
                optional_text(row.attempt.error.as_ref())
            }),
        ],
    );
    table.version(2).seen_by_agents(format!("job_id IN (SELECT id FROM jobs WHERE {BOUND_TO_AGENT})"))
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    // Probes of benchmarks have a table of their own.
    let job = tx.get(&JOBS, &id)?.filter(|job| job.benchmark_id.is_none());
    let jobs = job_rows(tx, job.as_ref())?;
    let attempts: Vec<_> = job.into_iter().flat_map(attempts_of).collect();
    Ok(vec![jobs, ATTEMPT_TABLE.rows(&attempts)])
}

fn attempts_of(job: JobV2) -> impl Iterator<Item = JobAttempt> {
    let (id, domain, page_type) = (job.id, job.domain, job.page_type);
    job.attempts.into_iter().map(move |attempt| JobAttempt {
        job: id,
        domain: domain.clone(),
        page_type,
        attempt,
    })
}

/// The job of a result that is gone, once more; nothing while there is one, since the job's own change has told of it.
fn without_result(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = JobId::decode(key) else { return Ok(Vec::new()) };
    if tx.get(&RESULTS, &id)?.is_some() {
        return Ok(Vec::new());
    }
    let job = tx.get(&JOBS, &id)?.filter(|job| job.benchmark_id.is_none());
    Ok(vec![job_rows(tx, job.as_ref())?])
}

/// A job names its result while that is there.
fn job_rows(tx: &OrgRead<'_>, job: Option<&JobV2>) -> Result<ViewRows> {
    let Some(job) = job else { return Ok(JOB_TABLE.rows([])) };
    if job.result_id.is_some() && !has_result(tx, job)? {
        return Ok(JOB_TABLE.rows([&JobV2 { result_id: None, ..job.clone() }]));
    }
    Ok(JOB_TABLE.rows([job]))
}
