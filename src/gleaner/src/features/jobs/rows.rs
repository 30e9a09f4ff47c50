//! Jobs as they are stored, and the queue that is an index of them.
//!
//! `jobs.queue` and `jobs.lease` are indexes of the job's own row: a queued job stands in the first, a running one in the
//! second, and because `put` keeps them, queue and row cannot disagree. An entry of the queue begins with the
//! organization, then the domain and the host, so that the dispatcher finds the next job of each by one seek, however
//! many jobs anybody has; what is next among them it keeps in memory (`queue/mod.rs`).

use base::clock::{Moment, Now, Timestamp};
use base::codec::{CodecError, Json, Record, decode_body};
use base::ids::{
    BatchId, BenchmarkId, JobId, ResultId, ScheduleId, ScheduleRunId, UrlId, WorkflowId, WorkflowVersionId,
};
use base::terms::{JobStatus, PageType};
use base::web::host_of;
use fetch::{CostSource, Outcome};
use serde::{Deserialize, Serialize};
use std::fmt;
use store::{Index, OrgTable};

/// How a page is to be fetched (data/docs/api.md, "Jobs and dispatch").
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionsV1 {
    pub render: bool,
    pub country: Option<String>,
    pub premium: bool,
    pub headers: Vec<(String, String)>,
    pub timeout_ms: u32,
}

impl fmt::Debug for OptionsV1 {
    /// Of the headers the names: what a job is sent with may be a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OptionsV1 { render, country, premium, headers, timeout_ms } = self;
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "Options {{ {render} {country:?} {premium} {names:?} {timeout_ms} ms }}")
    }
}

/// One request that went out for a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptV1 {
    pub n: u32,
    pub node_id: Option<String>,
    pub provider_id: String,
    pub started_at: Timestamp,
    pub duration_ms: u64,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub bytes: u64,
    pub credits: u64,
    pub cost_source: CostSource,
    pub rule: Option<String>,
    pub error: Option<String>,
}

/// A scrape request, as it was kept before there were batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobV1 {
    pub id: JobId,
    pub url: String,
    pub domain: String,
    pub url_id: Option<UrlId>,
    pub workflow_id: Option<WorkflowId>,
    pub workflow_version_id: Option<WorkflowVersionId>,
    pub schedule_id: Option<ScheduleId>,
    pub schedule_run_id: Option<ScheduleRunId>,
    pub benchmark_id: Option<BenchmarkId>,
    pub status: JobStatus,
    pub priority: u8,
    pub page_type: Option<PageType>,
    pub options: OptionsV1,
    pub tags: Vec<String>,
    pub metadata: Json,
    pub external_id: Option<String>,
    pub request_hash: Option<[u8; 32]>,
    pub attempts: Vec<AttemptV1>,
    pub result_id: Option<ResultId>,
    pub credits_reserved: u64,
    pub credits_charged: u64,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub run_at: Moment,
    pub run: u32,
    pub lease_until: Option<Moment>,
}

impl Record for JobV1 {}

/// A scrape request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobV2 {
    pub id: JobId,
    pub url: String,
    pub domain: String,
    pub url_id: Option<UrlId>,
    pub workflow_id: Option<WorkflowId>,
    pub workflow_version_id: Option<WorkflowVersionId>,
    pub schedule_id: Option<ScheduleId>,
    pub schedule_run_id: Option<ScheduleRunId>,
    pub benchmark_id: Option<BenchmarkId>,
    pub status: JobStatus,
    /// 0 (last) to 9 (first).
    pub priority: u8,
    pub page_type: Option<PageType>,
    pub options: OptionsV1,
    pub tags: Vec<String>,
    pub metadata: Json,
    pub external_id: Option<String>,
    /// SHA-256 of the request that made it, when it has an external id: the same body again is the same job.
    pub request_hash: Option<[u8; 32]>,
    pub attempts: Vec<AttemptV1>,
    pub result_id: Option<ResultId>,
    pub credits_reserved: u64,
    pub credits_charged: u64,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Not before this moment.
    pub run_at: Moment,
    /// How often it was taken from the queue. A finish that names another number comes from a run that was given up.
    pub run: u32,
    /// Until when its present run is trusted to be alive.
    pub lease_until: Option<Moment>,
    /// The jobs that it was submitted with.
    pub batch_id: Option<BatchId>,
    /// The job of the batch that asks once more for what this one failed to bring.
    pub retried_as: Option<JobId>,
}

impl JobV2 {
    /// When it was submitted, by the box's own time.
    pub fn made(&self, now: &Now) -> Moment {
        now.moment_of(self.created_at)
    }
}

impl Record for JobV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<JobV1>(body).map(JobV2::from),
            _ => Err(CodecError(format!("a job of version {version} is unknown to this release"))),
        }
    }
}

impl From<JobV1> for JobV2 {
    fn from(old: JobV1) -> JobV2 {
        JobV2 {
            id: old.id,
            url: old.url,
            domain: old.domain,
            url_id: old.url_id,
            workflow_id: old.workflow_id,
            workflow_version_id: old.workflow_version_id,
            schedule_id: old.schedule_id,
            schedule_run_id: old.schedule_run_id,
            benchmark_id: old.benchmark_id,
            status: old.status,
            priority: old.priority,
            page_type: old.page_type,
            options: old.options,
            tags: old.tags,
            metadata: old.metadata,
            external_id: old.external_id,
            request_hash: old.request_hash,
            attempts: old.attempts,
            result_id: old.result_id,
            credits_reserved: old.credits_reserved,
            credits_charged: old.credits_charged,
            error: old.error,
            created_at: old.created_at,
            started_at: old.started_at,
            finished_at: old.finished_at,
            run_at: old.run_at,
            run: old.run,
            lease_until: old.lease_until,
            batch_id: None,
            retried_as: None,
        }
    }
}

pub static BY_STATUS: Index<u8, JobV2> = Index::new("jobs.by_status", |job, keys| keys.add(job.status as u8));

pub static BY_URL: Index<UrlId, JobV2> = Index::new("jobs.by_url", |job, keys| {
    if let Some(url) = job.url_id {
        keys.add(url);
    }
});

pub static BY_EXTERNAL_ID: Index<String, JobV2> = Index::unique("jobs.by_external_id", |job, keys| {
    if let Some(id) = &job.external_id {
        keys.add(id);
    }
});

/// The probes of a benchmark.
pub static BY_BENCHMARK: Index<BenchmarkId, JobV2> = Index::new("jobs.by_benchmark", |job, keys| {
    if let Some(benchmark) = job.benchmark_id {
        keys.add(benchmark);
    }
});

/// The jobs of a schedule's run, by their status.
pub static BY_RUN: Index<(ScheduleRunId, u8), JobV2> = Index::new("jobs.by_run", |job, keys| {
    if let Some(run) = job.schedule_run_id {
        keys.add((run, job.status as u8));
    }
});

/// Where failed jobs stand in [`BY_BATCH`] that were submitted again.
const RETRIED: u8 = u8::MAX;

/// The jobs of a batch, by their status.
pub static BY_BATCH: Index<(BatchId, u8), JobV2> = Index::new("jobs.by_batch", |job, keys| {
    if let Some(batch) = job.batch_id {
        keys.add((batch, if job.retried_as.is_some() { RETRIED } else { job.status as u8 }));
    }
});

/// Domain, host, rank (the highest priority first) and time.
pub type QueueKey = (String, String, u8, Moment);

/// Queued jobs; see [`QueueKey`].
pub static QUEUE: Index<QueueKey, JobV2> = Index::new(QUEUE_TABLE, |job: &JobV2, keys| {
    if job.status == JobStatus::Queued {
        keys.add((&job.domain, host_of(&job.url), rank(job.priority), job.run_at));
    }
})
.instead_of(QUEUE_BEFORE);

/// The name of that index.
pub const QUEUE_TABLE: &str = "jobs.queue";

/// The queue as older releases kept it, in one index of all organizations; its entries are moved at the first start.
pub const QUEUE_BEFORE: &str = "jobs.ready";

/// Where a priority stands in the queue: 0 is served first.
pub fn rank(priority: u8) -> u8 {
    9 - priority.min(9)
}

pub static LEASE: Index<Moment, JobV2> = Index::global("jobs.lease", |job, keys| {
    if let Some(until) = job.lease_until {
        keys.add(until);
    }
});

pub static JOBS: OrgTable<JobId, JobV2> = OrgTable::new("jobs", "Job")
    .indexed(&[&BY_STATUS, &BY_URL, &BY_EXTERNAL_ID, &BY_BENCHMARK, &BY_RUN, &BY_BATCH, &QUEUE, &LEASE])
    .fed();
