//! Jobs on the wire (data/docs/api.md, "Jobs and dispatch").

use super::dispatch::Dispatcher;
use super::rows::{AttemptV1, JobV2, OptionsV1};
use crate::features::extraction::RESULTS_BY_ID;
use crate::features::site_sessions::{self, JOB_SESSIONS};
use base::Result;
use base::clock::Timestamp;
use base::ids::{
    BatchId, BenchmarkId, JobId, OrgId, ResultId, ScheduleId, ScheduleRunId, SiteSessionId, UrlId,
    WorkflowId, WorkflowVersionId,
};
use base::terms::{JobStatus, PageType};
use base::web::host_of;
use fetch::{CostSource, Outcome, PauseReason};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use store::OrgRead;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    id: JobId,
    url: String,
    /// The registrable domain.
    domain: String,
    host: String,
    url_id: Option<UrlId>,
    workflow_id: Option<WorkflowId>,
    workflow_version_id: Option<WorkflowVersionId>,
    schedule_id: Option<ScheduleId>,
    schedule_run_id: Option<ScheduleRunId>,
    benchmark_id: Option<BenchmarkId>,
    /// The jobs that it was submitted with: a request's, or those of a schedule's run, whose id it then is.
    batch_id: Option<BatchId>,
    status: JobStatus,
    #[schemars(range(max = 9))]
    priority: u8,
    page_type: Option<PageType>,
    options: OptionsView,
    tags: Vec<String>,
    #[schemars(with = "Map<String, Value>")]
    metadata: Value,
    external_id: Option<String>,
    attempts: Vec<AttemptView>,
    /// Null where it made none, and where that is gone.
    result_id: Option<ResultId>,
    /// Whether it made a result that was deleted since, or whose time was over.
    result_deleted: bool,
    credits_charged: u64,
    error: Option<String>,
    /// What a queued job waits for: null for one that waits for its turn only. And what one waits for that runs: null
    /// unless that is a place in the box's browser.
    waiting: Option<WaitingView>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

/// Until when a job waits at least, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitingView {
    /// Null where nobody can say.
    until: Option<Timestamp>,
    reason: WaitingReason,
    /// The host that asked for the pause; null where nobody did.
    asked_by: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WaitingReason {
    /// The host answered with Retry-After.
    RetryAfter,
    /// The host's robots.txt names a Crawl-delay.
    CrawlDelay,
    /// Its workflow waits, or it is tried again then.
    RunAt,
    /// The organization stores as much as its plan allows (`limits` of `GET /plans/current`); the job begins when there is
    /// room for what it brings.
    NoRoom,
    /// Jobs of the organization visit the domain already, as many as may at once (`dispatch.per_domain_concurrency`).
    DomainBusy,
    /// As many pages are open in the box's browser as may be; organizations take turns. It counts against no time limit.
    BrowserPlace,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OptionsView {
    render: bool,
    country: Option<String>,
    premium: bool,
    /// Names only: what a job is sent with may be a login, so every value is `***`.
    headers: BTreeMap<String, String>,
    timeout_ms: u32,
    /// The site session that it is sent with, its own or its URL's; what that consists of is shown nowhere.
    site_session_id: Option<SiteSessionId>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AttemptView {
    n: u32,
    node_id: Option<String>,
    provider_id: String,
    started_at: Timestamp,
    duration_ms: u64,
    outcome: Outcome,
    http_status: Option<u16>,
    /// Received on the wire.
    bytes: u64,
    credits: u64,
    cost_source: CostSource,
    /// The detection rule that spoke.
    rule: Option<String>,
    error: Option<String>,
}

impl OptionsView {
    pub fn new(row: OptionsV1, site_session_id: Option<SiteSessionId>) -> OptionsView {
        OptionsView {
            render: row.render,
            country: row.country,
            premium: row.premium,
            headers: row.headers.into_iter().map(|(name, _)| (name, "***".to_owned())).collect(),
            timeout_ms: row.timeout_ms,
            site_session_id,
        }
    }
}

impl From<AttemptV1> for AttemptView {
    fn from(row: AttemptV1) -> AttemptView {
        AttemptView {
            n: row.n,
            node_id: row.node_id,
            provider_id: row.provider_id,
            started_at: row.started_at,
            duration_ms: row.duration_ms,
            outcome: row.outcome,
            http_status: row.http_status,
            bytes: row.bytes,
            credits: row.credits,
            cost_source: row.cost_source,
            rule: row.rule,
            error: row.error,
        }
    }
}

impl WaitingView {
    fn of(row: &JobV2, (dispatcher, org): (&Dispatcher, OrgId)) -> Option<WaitingView> {
        let unknown_end = |reason| Some(WaitingView { until: None, reason, asked_by: None });
        if row.status == JobStatus::Running && dispatcher.waits_for_place(org, row.id) {
            return unknown_end(WaitingReason::BrowserPlace);
        }
        if row.status != JobStatus::Queued {
            return None;
        }
        if dispatcher.is_full(org) {
            return unknown_end(WaitingReason::NoRoom);
        }
        let host = host_of(&row.url);
        if let Some((until, why)) = dispatcher.asked_pause(host) {
            let reason = match why {
                PauseReason::RetryAfter => WaitingReason::RetryAfter,
                PauseReason::CrawlDelay => WaitingReason::CrawlDelay,
            };
            return Some(WaitingView { until: Some(until), reason, asked_by: Some(host.to_owned()) });
        }
        let now = dispatcher.look_at_clock();
        if row.run_at > now.moment {
            let until = Some(now.date_of(row.run_at));
            return Some(WaitingView { until, reason: WaitingReason::RunAt, asked_by: None });
        }
        let busy = WaitingView { until: None, reason: WaitingReason::DomainBusy, asked_by: None };
        dispatcher.fills(org, &row.domain).then_some(busy)
    }
}

impl JobView {
    /// A job of this organization as its rows say now.
    pub fn new(row: JobV2, tx: &OrgRead<'_>, dispatcher: &Dispatcher) -> Result<JobView> {
        let has_result = has_result(tx, &row)?;
        Ok(JobView {
            waiting: WaitingView::of(&row, (dispatcher, tx.org_id())),
            result_id: row.result_id.filter(|_| has_result),
            result_deleted: row.result_id.is_some() && !has_result,
            id: row.id,
            host: host_of(&row.url).to_owned(),
            url: row.url,
            domain: row.domain,
            url_id: row.url_id,
            workflow_id: row.workflow_id,
            workflow_version_id: row.workflow_version_id,
            schedule_id: row.schedule_id,
            schedule_run_id: row.schedule_run_id,
            benchmark_id: row.benchmark_id,
            batch_id: row.batch_id,
            status: row.status,
            priority: row.priority,
            page_type: row.page_type,
            options: OptionsView::new(row.options, site_sessions::shown(tx, &JOB_SESSIONS, &row.id)?),
            tags: row.tags,
            metadata: row.metadata.0,
            external_id: row.external_id,
            attempts: row.attempts.into_iter().map(AttemptView::from).collect(),
            credits_charged: row.credits_charged,
            error: row.error,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
        })
    }
}

/// Whether there is the result that the job made: it may have been deleted, or gone when its time was over.
pub(super) fn has_result(tx: &OrgRead<'_>, job: &JobV2) -> Result<bool> {
    match job.result_id {
        Some(id) => tx.exists(&RESULTS_BY_ID, id),
        None => Ok(false),
    }
}
