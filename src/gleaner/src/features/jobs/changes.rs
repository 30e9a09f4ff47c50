//! Storing a job together with what tells of it: the counters of its batch, and the events of the organization's log.
//!
//! Every change of a job's status goes through [`put`], so counters, log and rows cannot disagree.

use super::batch;
use super::rows::{JOBS, JobV2};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::permission::Permission;
use base::terms::JobStatus;
use serde_json::{Map, Value};
use store::OrgWrite;

static QUEUED: EventKind = EventKind::new(
    "job.queued",
    Permission::JobsRead,
    "A job was submitted, by a request, a retry or a schedule's run (`url`, `batchId`, which is a run's id).",
);
static STARTED: EventKind =
    EventKind::new("job.started", Permission::JobsRead, "A run of a job began (`run`, 1 for the first).");
static SUCCEEDED: EventKind = EventKind::new(
    "job.succeeded",
    Permission::JobsRead,
    "A job ended well (`url`, `resultId`, `attempts`, `creditsCharged`).",
);
static FAILED: EventKind = EventKind::new(
    "job.failed",
    Permission::JobsRead,
    "A job ended without what it was for (`url`, `error`, `outcome` of its last attempt, `attempts`).",
);
static CANCELED: EventKind =
    EventKind::new("job.canceled", Permission::JobsRead, "A job was canceled before its end (`url`).");

pub(super) static EVENTS: &[&EventKind] =
    &[&QUEUED, &STARTED, &SUCCEEDED, &FAILED, &CANCELED, &batch::COMPLETED];

/// Characters of a job's error in its event.
const ERROR_CHARS_MAX: usize = 500;

/// Stores a job whose status was another one, or that is new.
pub(super) fn put(tx: &OrgWrite<'_>, job: &JobV2, was: Option<JobStatus>) -> Result<()> {
    match was {
        None => tx.insert(&JOBS, &job.id, job)?,
        Some(_) => tx.put(&JOBS, &job.id, job)?,
    }
    // Probes of benchmarks are no jobs of anybody's.
    if was == Some(job.status) || job.benchmark_id.is_some() {
        return Ok(());
    }
    // Its own event comes before the one that its batch has ended.
    write_event(tx, job, was)?;
    job.batch_id.map_or(Ok(()), |id| batch::count(tx, id, job, was))
}

fn write_event(tx: &OrgWrite<'_>, job: &JobV2, was: Option<JobStatus>) -> Result<()> {
    let kind = match job.status {
        // One that goes back into the queue to wait is not submitted again.
        JobStatus::Queued if was.is_some() => return Ok(()),
        JobStatus::Queued => &QUEUED,
        JobStatus::Running => &STARTED,
        JobStatus::Succeeded => &SUCCEEDED,
        JobStatus::Failed => &FAILED,
        JobStatus::Canceled => &CANCELED,
    };
    let data = Value::Object(data_of(job));
    NewEvent::of(kind, job.id).about(&job.domain, &job.tags).data(data).write(tx)
}

/// What an event says of its job: little, since there are several of each.
fn data_of(job: &JobV2) -> Map<String, Value> {
    let mut data = Map::new();
    if job.status == JobStatus::Running {
        data.insert("run".to_owned(), job.run.into());
        return data;
    }
    data.insert("url".to_owned(), job.url.as_str().into());
    if let Some(batch) = job.batch_id {
        data.insert("batchId".to_owned(), batch.to_string().into());
    }
    if matches!(job.status, JobStatus::Succeeded | JobStatus::Failed) {
        data.insert("attempts".to_owned(), job.attempts.len().into());
        data.insert("creditsCharged".to_owned(), job.credits_charged.into());
    }
    if let Some(result) = job.result_id {
        data.insert("resultId".to_owned(), result.to_string().into());
    }
    if job.status == JobStatus::Failed {
        let error = job.error.as_ref().map(|error| error.chars().take(ERROR_CHARS_MAX).collect::<String>());
        data.insert("error".to_owned(), error.into());
        let outcome = job.attempts.last().map(|attempt| attempt.outcome.as_str());
        data.insert("outcome".to_owned(), outcome.into());
    }
    data
}
