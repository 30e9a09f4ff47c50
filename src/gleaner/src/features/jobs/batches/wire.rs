//! Batches on the wire.

use crate::features::jobs::batch::{BatchErrorV1, BatchRetryV1, BatchSource, BatchStage, BatchV1};
use base::clock::{Now, Timestamp};
use base::ids::{BatchId, JobId};
use base::terms::JobStatus;
use fetch::Outcome;
use schemars::JsonSchema;
use serde::Serialize;

/// Kinds of failures that are shown.
const ERRORS_SHOWN: usize = 10;

/// Jobs that were submitted together, and how far they are.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchView {
    /// The batch of a schedule's run has the run's id.
    id: BatchId,
    name: Option<String>,
    source: BatchSource,
    created_at: Timestamp,
    jobs: u64,
    by_status: BatchCounts,
    /// How many of the failed ones were submitted again, as jobs of this batch.
    retried: u64,
    /// Jobs that end in a second, measured over about the last minute.
    rate_per_sec: f64,
    /// When all jobs will have ended if they go on as they do; null where nobody can say.
    expected_end_at: Option<Timestamp>,
    /// When the last job had ended; null while one has not, or more are to come.
    ended_at: Option<Timestamp>,
    /// Whether jobs are still being added.
    is_filling: bool,
    /// When its cancellation was asked for; it takes no more jobs from then on.
    canceled_at: Option<Timestamp>,
    /// Whether jobs are still to be canceled.
    is_canceling: bool,
    /// The newest retry; null where there was none.
    retry: Option<BatchRetryView>,
    /// The ten most frequent failures.
    #[schemars(length(max = ERRORS_SHOWN))]
    errors: Vec<BatchErrorView>,
    /// Failed jobs of kinds that are not listed.
    other_errors: u64,
}

/// How many jobs stand where. One that failed and was submitted again stays failed.
#[derive(Debug, Serialize, JsonSchema)]
struct BatchCounts {
    queued: u64,
    running: u64,
    succeeded: u64,
    failed: u64,
    canceled: u64,
}

/// Submitting again what had failed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BatchRetryView {
    requested_at: Timestamp,
    /// Null while it goes on.
    finished_at: Option<Timestamp>,
    /// Jobs that were made.
    submitted: u64,
    /// Jobs of which none could be made.
    refused: u64,
    /// Why not all were submitted: credits or room ended, or what the first refused one lacks.
    message: Option<String>,
}

/// Failures of one kind.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BatchErrorView {
    /// What became of the last attempt; null where nobody was asked.
    outcome: Option<Outcome>,
    /// The detection rule that spoke.
    rule: Option<String>,
    count: u64,
    /// The first of them.
    example_job_id: JobId,
}

impl From<BatchErrorV1> for BatchErrorView {
    fn from(row: BatchErrorV1) -> BatchErrorView {
        let BatchErrorV1 { outcome, rule, count, example } = row;
        BatchErrorView { outcome, rule, count, example_job_id: example }
    }
}

impl From<BatchRetryV1> for BatchRetryView {
    fn from(row: BatchRetryV1) -> BatchRetryView {
        BatchRetryView {
            requested_at: row.requested_at,
            finished_at: row.finished_at,
            submitted: row.submitted,
            refused: row.refused,
            message: row.message,
        }
    }
}

impl BatchView {
    pub(super) fn new(row: BatchV1, now: &Now) -> BatchView {
        let hidden: u64 = row.errors.iter().skip(ERRORS_SHOWN).map(|error| error.count).sum();
        BatchView {
            id: row.id,
            jobs: row.jobs(),
            by_status: BatchCounts {
                queued: row.count(JobStatus::Queued),
                running: row.count(JobStatus::Running),
                succeeded: row.count(JobStatus::Succeeded),
                failed: row.count(JobStatus::Failed),
                canceled: row.count(JobStatus::Canceled),
            },
            rate_per_sec: (row.rate.now(now.moment) * 1_000.0).round() / 1_000.0,
            expected_end_at: row.expected_end(now),
            is_canceling: row.stage == BatchStage::Cancel && row.ended_at.is_none(),
            other_errors: row.other_errors + hidden,
            errors: row.errors.into_iter().take(ERRORS_SHOWN).map(Into::into).collect(),
            name: row.name,
            source: row.source,
            created_at: row.created_at,
            retried: row.retried,
            ended_at: row.ended_at,
            is_filling: row.is_filling,
            canceled_at: row.canceled_at,
            retry: row.retry.map(Into::into),
        }
    }
}
