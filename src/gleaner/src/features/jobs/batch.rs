//! Batches as they are stored: jobs that were submitted together, and how far they are.
//!
//! What a batch says of its jobs is counted in the operation that changes a job, so it is exact at any moment and costs the
//! same for ten jobs as for a million.

use super::rows::JobV2;
use crate::features::events::{EventKind, NewEvent};
use base::clock::{Moment, Now, Timestamp};
use base::codec::Record;
use base::ids::{BatchId, JobId, ScheduleRunId};
use base::permission::Permission;
use base::terms::JobStatus;
use base::{Error, Result};
use fetch::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Index, OrgTable, OrgWrite, readable};

pub(super) static COMPLETED: EventKind = EventKind::new(
    "batch.completed",
    Permission::JobsRead,
    "All jobs of a batch have ended, however (`jobs`, `succeeded`, `failed`, `canceled`); again after each retry.",
);

/// Kinds of failures that a batch tells apart; those beyond them are counted together.
const ERRORS_MAX: usize = 32;
/// A rate is that of about the last minute.
const RATE_SECS: f64 = 60.0;

/// Where the jobs of a batch come from.
// Stored: variants are never reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchSource {
    /// One request that submitted them.
    Api,
    /// A schedule's run.
    Schedule,
    /// A crawl.
    Crawl,
    /// An upload of URLs.
    Upload,
    /// An input: a webhook's message, or a run.
    Input,
}

/// What is to be done with a batch.
// Stored: variants are never reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BatchStage {
    /// Nothing.
    Rest,
    /// Its jobs are to be canceled.
    Cancel,
    /// Those that have failed are to be submitted again.
    Retry,
}

/// Jobs that were submitted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchV1 {
    pub(super) id: BatchId,
    pub(super) name: Option<String>,
    pub(super) source: BatchSource,
    pub(super) created_at: Timestamp,
    /// How many jobs stand where, in the order of [`JobStatus`].
    pub(super) counts: [u64; 5],
    /// How many of the failed ones were submitted again.
    pub(super) retried: u64,
    /// The most frequent in front.
    pub(super) errors: Vec<BatchErrorV1>,
    /// Failures of kinds that found no place there.
    pub(super) other_errors: u64,
    pub(super) rate: RateV1,
    /// Whether jobs are still being added.
    pub(super) is_filling: bool,
    pub(super) stage: BatchStage,
    pub(super) canceled_at: Option<Timestamp>,
    pub(super) retry: Option<BatchRetryV1>,
    /// When its last job had ended; none while one has not.
    pub(super) ended_at: Option<Timestamp>,
}

impl Record for BatchV1 {}

/// A kind of failures, by the last attempt of the jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BatchErrorV1 {
    /// None where nobody was asked.
    pub outcome: Option<Outcome>,
    pub rule: Option<String>,
    pub count: u64,
    /// The first of them.
    pub example: JobId,
}

/// Submitting again what had failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BatchRetryV1 {
    pub requested_at: Timestamp,
    /// Jobs that are older than this one.
    pub below: JobId,
    /// How far the walk over them came.
    pub place: Option<Vec<u8>>,
    pub submitted: u64,
    pub refused: u64,
    /// Why not all were submitted.
    pub message: Option<String>,
    pub finished_at: Option<Timestamp>,
}

/// How many jobs end in a second: each counts the less, the longer ago it ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RateV1 {
    per_sec: f64,
    at: Moment,
    since: Moment,
}

impl RateV1 {
    fn new(now: Moment) -> RateV1 {
        RateV1 { per_sec: 0.0, at: now, since: now }
    }

    fn faded(&self, now: Moment) -> f64 {
        self.per_sec * (-now.since(self.at).as_secs_f64() / RATE_SECS).exp()
    }

    fn count(&mut self, now: Moment) {
        (self.per_sec, self.at) = (self.faded(now) + 1.0 / RATE_SECS, now);
    }

    /// Jobs a second. A batch that has just begun is measured by the time that it has had.
    pub fn now(&self, now: Moment) -> f64 {
        let age = now.since(self.since).as_secs_f64().max(1.0);
        self.faded(now) / (1.0 - (-age / RATE_SECS).exp())
    }
}

/// Batches of all organizations with which something is to be done.
pub(super) static WORK: Index<Timestamp, BatchV1> = Index::global("batches.work", |batch, keys| {
    let since = match batch.stage {
        BatchStage::Rest => None,
        BatchStage::Cancel => batch.canceled_at,
        BatchStage::Retry => batch.retry.as_ref().map(|retry| retry.requested_at),
    };
    if let Some(since) = since {
        keys.add(since);
    }
});

pub static BATCHES: OrgTable<BatchId, BatchV1> = OrgTable::new("batches", "Batch").indexed(&[&WORK]);

impl BatchV1 {
    fn new(tx: &OrgWrite<'_>, id: BatchId, source: BatchSource) -> BatchV1 {
        BatchV1 {
            id,
            name: None,
            source,
            created_at: tx.now(),
            counts: [0; 5],
            retried: 0,
            errors: Vec::new(),
            other_errors: 0,
            rate: RateV1::new(tx.moment()),
            is_filling: false,
            stage: BatchStage::Rest,
            canceled_at: None,
            retry: None,
            ended_at: None,
        }
    }

    pub(super) fn count(&self, status: JobStatus) -> u64 {
        self.counts[status as usize]
    }

    pub(super) fn jobs(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Jobs that have not ended.
    pub(super) fn open(&self) -> u64 {
        self.count(JobStatus::Queued) + self.count(JobStatus::Running)
    }

    /// Whether nothing more happens by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.open() == 0 && !self.is_filling && self.stage != BatchStage::Retry
    }

    /// Jobs that have failed and were not submitted again.
    pub(super) fn left_failed(&self) -> u64 {
        self.count(JobStatus::Failed).saturating_sub(self.retried)
    }

    /// When its jobs will have ended if they go on as they do.
    pub(super) fn expected_end(&self, now: &Now) -> Option<Timestamp> {
        let (open, rate) = (self.open(), self.rate.now(now.moment));
        // A year is as good as never.
        let secs = Some(open as f64 / rate).filter(|secs| open > 0 && *secs < 31_536_000.0)?;
        Some(now.date.after(std::time::Duration::from_secs_f64(secs)))
    }

    /// Refuses what would add to a batch that was canceled.
    pub(super) fn check_open(&self) -> Result<()> {
        match self.canceled_at {
            None => Ok(()),
            Some(_) => Err(Error::conflict("The batch was canceled; it takes no more jobs.")),
        }
    }

    /// Stores it; at its end it is told of.
    pub(super) fn store(mut self, tx: &OrgWrite<'_>) -> Result<()> {
        if !self.has_ended() {
            self.ended_at = None;
        } else if self.ended_at.is_none() && self.jobs() > 0 {
            self.ended_at = Some(tx.now());
            let count = |status| self.count(status);
            let data = json!({
                "jobs": self.jobs(),
                "succeeded": count(JobStatus::Succeeded),
                "failed": count(JobStatus::Failed),
                "canceled": count(JobStatus::Canceled),
            });
            NewEvent::of(&COMPLETED, self.id).data(data).write(tx)?;
        }
        tx.put(&BATCHES, &self.id, &self)
    }

    fn note_error(&mut self, job: &JobV2) {
        let last = job.attempts.last();
        let (outcome, rule) =
            (last.map(|attempt| attempt.outcome), last.and_then(|attempt| attempt.rule.clone()));
        let known = self.errors.iter().position(|error| error.outcome == outcome && error.rule == rule);
        match known {
            Some(at) => {
                self.errors[at].count += 1;
                self.errors.sort_by_key(|error| std::cmp::Reverse(error.count));
            }
            None if self.errors.len() < ERRORS_MAX => {
                self.errors.push(BatchErrorV1 { outcome, rule, count: 1, example: job.id });
            }
            None => self.other_errors += 1,
        }
    }
}

/// A batch for jobs that are written in the same operation.
pub(super) fn make(tx: &OrgWrite<'_>, id: BatchId, name: Option<String>) -> Result<()> {
    let batch = BatchV1 { name, ..BatchV1::new(tx, id, BatchSource::Api) };
    tx.insert(&BATCHES, &id, &batch)
}

/// Counts a job of the batch that stood in `was`, or is new. A batch that cannot be read keeps no job from its end.
pub(super) fn count(tx: &OrgWrite<'_>, id: BatchId, job: &JobV2, was: Option<JobStatus>) -> Result<()> {
    let Some(mut batch) = readable("a batch", id, tx.get(&BATCHES, &id))?.flatten() else { return Ok(()) };
    if let Some(was) = was {
        let before = &mut batch.counts[was as usize];
        *before = before.saturating_sub(1);
    }
    batch.counts[job.status as usize] += 1;
    if job.status.has_ended() {
        batch.rate.count(tx.moment());
    }
    if job.status == JobStatus::Failed {
        batch.note_error(job);
    }
    batch.store(tx)
}

/// Notes that a failed job of a batch was submitted again.
pub(super) fn note_retried(tx: &OrgWrite<'_>, old: &JobV2) -> Result<()> {
    let Some(id) = old.batch_id else { return Ok(()) };
    let Some(mut batch) = readable("a batch", id, tx.get(&BATCHES, &id))?.flatten() else { return Ok(()) };
    batch.retried += 1;
    batch.store(tx)
}

/// The batch of a schedule's run: it has the run's id.
pub fn of_run(run: ScheduleRunId) -> BatchId {
    BatchId(run.0)
}

/// Opens the batch of a run for more jobs; refused when it was canceled.
pub(super) fn open_run(tx: &OrgWrite<'_>, id: BatchId, source: BatchSource) -> Result<()> {
    match tx.get(&BATCHES, &id)? {
        Some(batch) => batch.check_open(),
        None => {
            let batch = BatchV1 { is_filling: true, ..BatchV1::new(tx, id, source) };
            tx.insert(&BATCHES, &id, &batch)
        }
    }
}

/// Notes that a run submits no more; where it submitted nothing there is no batch.
pub fn close_run(tx: &OrgWrite<'_>, id: BatchId) -> Result<()> {
    let Some(batch) = readable("a batch", id, tx.get(&BATCHES, &id))?.flatten() else { return Ok(()) };
    if batch.jobs() == 0 {
        return tx.delete(&BATCHES, &id).map(drop);
    }
    BatchV1 { is_filling: false, ..batch }.store(tx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_rate_is_that_of_the_last_minute() {
        let begin = Moment(0);
        let mut rate = RateV1::new(begin);
        assert_eq!(rate.now(begin), 0.0);
        // Ten a second, from the beginning on.
        for n in 1..=6_000_u64 {
            rate.count(begin.after(Duration::from_millis(n * 100)));
            if n == 50 {
                let now = rate.now(begin.after(Duration::from_secs(5)));
                assert!((9.0..11.0).contains(&now), "{now} after five seconds");
            }
        }
        let end = begin.after(Duration::from_secs(600));
        assert!((9.9..10.1).contains(&rate.now(end)), "{}", rate.now(end));
        assert!(rate.now(end.after(Duration::from_secs(300))) < 0.1, "nothing ended for five minutes");
    }
}
