//! Jobs: submitted, queued durably, run by the dispatcher.

mod ask;
mod batch;
mod batches;
mod changes;
mod dispatch;
mod finish;
mod history;
mod open;
mod queue;
mod recovery;
mod retention;
mod rows;
mod run;
mod running;
mod scheduled;
mod signed_in;
mod submit;
#[cfg(test)]
mod tests;
mod view;
mod views;
mod walks;

pub use crate::features::providers::NOT_ASKED;
pub use batch::{BATCHES, BatchSource, BatchV1, close_run, of_run};
pub use dispatch::{DispatchSettings, Dispatcher};
use queue::runs_max;
pub use rows::{AttemptV1, BY_BENCHMARK, JOBS, JobV2, OptionsV1};
pub use run::DispatchParts;
pub use scheduled::{
    PageJob, RunCounts, RunJobs, RunPart, is_under_way, note_url, open_jobs, run_counts, submit_pages,
    submit_part,
};
pub use submit::{NewOptions, SubmitContext, cancel_job, options, probe};
pub use view::OptionsView;
pub use walks::JOB_OUTPUTS;

use super::{Feature, Holding};
use crate::features::billing::Retention;
use crate::features::extraction::{PendingView, ResultMetadata, metadata_of_job};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{BatchId, BenchmarkId, JobId, ResultId, ScheduleRunId, UrlId, WorkflowId};
use base::limits::{JOBS_PER_BATCH_MAX, JOBS_PER_POLL_MAX, NAME_CHARS_MAX};
use base::name::Name;
use base::page::{Page, PageRequest};
use base::terms::JobStatus;
use base::web::Domain;
use base::{Code, Error, Result};
use fetch::{AddressGuard, Outcome};
use rows::{BY_BATCH, BY_RUN, BY_STATUS, BY_URL};
use schemars::JsonSchema;
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};
use server::permit::{JobsRead, JobsWrite, Spends};
use server::task::TaskSpec;
use server::{Accepted, Body, Created, Either, Handler, Need, Org, OrgContext, Path, Query, Route, apart_if};
use std::time::Duration;
use store::{Event, OrgRead};
use submit::{NewJob, Submitted};
use uuid::Uuid;
use view::JobView;

pub static FEATURE: Feature = Feature {
    name: "jobs",
    open: Some(open::open),
    descriptors: Some(open::descriptors),
    status: Some(open::status),
    gauges: Some(open::gauges),
    look: Some(open::look),
    uses: &["billing", "events", "extraction", "providers", "site_sessions", "urls", "workflows"],
    tables: &[&JOBS, &BATCHES, &walks::WALKS, &JOB_OUTPUTS, &walks::PLANNED_STOP],
    routes: &[
        Route::get("/api/v1/jobs", "listJobs", &Handler::new(list))
            .about("The organization's jobs, newest first."),
        Route::post("/api/v1/jobs", "submitJob", &Handler::new(submit_one))
            .about("Submits a job; it is durable when the answer comes.")
            .fails(&[Code::InvalidUrl, Code::NotFound, Code::Conflict, Code::WorkflowDisabled]),
        Route::post("/api/v1/jobs/batch", "submitJobs", &Handler::new(submit_batch))
            .about("Submits up to 1,000 jobs, all or none.")
            .fails(&[Code::InvalidUrl, Code::NotFound, Code::Conflict, Code::WorkflowDisabled]),
        Route::post("/api/v1/jobs/poll", "pollJobs", &Handler::new(poll))
            .about("Where up to 500 jobs stand."),
        Route::get("/api/v1/jobs/{id}", "getJob", &Handler::new(get)).about("One job with its attempts."),
        Route::get("/api/v1/jobs/{id}/result", "getJobResult", &Handler::new(result))
            .about("What came of a job, without its values: sizes, quality and times; 202 while it is being indexed."),
        Route::post("/api/v1/jobs/{id}/cancel", "cancelJob", &Handler::new(cancel_one))
            .about("Ends a job that has not ended; its credits return.")
            .fails(&[Code::JobTerminal]),
        Route::post("/api/v1/jobs/{id}/retry", "retryJob", &Handler::new(retry))
            .about("A new job that asks for what an ended one asked for.")
            .fails(&[Code::Conflict]),
        Route::get("/api/v1/urls/{id}/history", "getUrlHistory", &Handler::new(history::history))
            .about("What happened to a registered URL: its jobs, oldest first, with their results and what those changed."),
        Route::get("/api/v1/batches", "listBatches", &Handler::new(batches::list))
            .about("Jobs that were submitted together, newest first."),
        Route::get("/api/v1/batches/{id}", "getBatch", &Handler::new(batches::get))
            .about("How far the jobs are that one request, or a schedule's run, submitted."),
        Route::post("/api/v1/batches/{id}/cancel", "cancelBatch", &Handler::new(batches::cancel))
            .about("Ends all jobs of a batch, bit by bit; it takes no more. Asked again, it changes nothing.")
            .fails(&[Code::JobTerminal]),
        Route::post("/api/v1/batches/{id}/retry", "retryBatch", &Handler::new(batches::retry))
            .about("Submits again what failed, each job once, bit by bit, as long as there are credits.")
            .fails(&[Code::Conflict]),
    ],
    tasks: &[
        TaskSpec::new("jobs.dispatch", Duration::from_secs(1), |context| {
            Box::pin(async move { context.service::<Dispatcher>().run(context).await })
        }),
        TaskSpec::new(batches::work::BATCH_WORK, BATCH_WORK_PERIOD, |context| {
            Box::pin(batches::work::work_all(context))
        }),
        TaskSpec::new("jobs.retention", RETENTION_PERIOD, |context| Box::pin(retention::round(context))),
    ],
    needs: &[
        Need::of::<Dispatcher>(),
        Need::of::<AddressGuard>(),
        Need::of::<SubmitContext>(),
        Need::of::<Retention>(),
        Need::of::<Keyring>(),
    ],
    events: changes::EVENTS,
    views: &[views::VIEW, views::RESULT_VIEW],
    holdings: &[Holding {
        name: "running jobs",
        remove: |context, org| {
            Box::pin(async move { context.service::<Dispatcher>().abandon_all(org).await })
        },
    }],
    ..Feature::NONE
};

/// How soon a batch is worked on whose signal was lost.
const BATCH_WORK_PERIOD: Duration = Duration::from_secs(5);
/// How soon what is due goes.
const RETENTION_PERIOD: Duration = Duration::from_secs(300);

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct JobFilter {
    status: Option<JobStatus>,
    url_id: Option<UrlId>,
    schedule_run_id: Option<ScheduleRunId>,
    workflow_id: Option<WorkflowId>,
    domain: Option<String>,
    /// The jobs of this batch, or of this schedule's run.
    batch_id: Option<BatchId>,
    /// With all of these tags.
    tag: Vec<String>,
    /// Failed, with this as the outcome of the last attempt.
    error: Option<Outcome>,
    /// The probes of this benchmark; they are in the list only when it is named.
    benchmark_id: Option<BenchmarkId>,
    /// Submitted at this moment or later.
    from: Option<Timestamp>,
    /// Submitted before this moment.
    to: Option<Timestamp>,
}

impl JobFilter {
    fn accepts(&self, job: &JobV2) -> bool {
        self.status.is_none_or(|status| job.status == status)
            && self.url_id.is_none_or(|url| job.url_id == Some(url))
            && self.schedule_run_id.is_none_or(|run| job.schedule_run_id == Some(run))
            && self.batch_id.is_none_or(|batch| job.batch_id == Some(batch))
            && self.tag.iter().all(|tag| job.tags.contains(tag))
            && self.error.is_none_or(|error| {
                let last = job.attempts.last().map(|attempt| attempt.outcome);
                job.status == JobStatus::Failed && last == Some(error)
            })
            && self.workflow_id.is_none_or(|workflow| job.workflow_id == Some(workflow))
            && self.benchmark_id == job.benchmark_id
            && self.domain.as_ref().is_none_or(|domain| job.domain == *domain)
            && self.from.is_none_or(|from| job.created_at >= from)
            && self.to.is_none_or(|to| job.created_at < to)
    }
}

async fn list(
    org: Org<JobsRead>,
    Query(mut filter): Query<JobFilter>,
    page: PageRequest,
) -> Result<Body<Page<JobView>>> {
    filter.domain = filter.domain.map(Domain::of_filter);
    let dispatcher = org.service::<Dispatcher>();
    let wanted = |job: &JobV2| filter.accepts(job);
    if let Some(benchmark) = filter.benchmark_id {
        let probes = |tx: &OrgRead<'_>| tx.page_by(&JOBS, &BY_BENCHMARK, benchmark, &page, wanted);
        return Ok(Body(viewed(&org, org.read(probes)?, &dispatcher)?));
    }
    if let Some(batch) = filter.batch_id {
        let jobs = |tx: &OrgRead<'_>| match filter.status {
            // Those that were submitted again stand elsewhere in the index.
            Some(status) if status != JobStatus::Failed => {
                tx.page_by(&JOBS, &BY_BATCH, (batch, status as u8), &page, wanted)
            }
            _ => tx.page_by(&JOBS, &BY_BATCH, batch, &page, wanted),
        };
        return Ok(Body(viewed(&org, org.read(jobs)?, &dispatcher)?));
    }
    if let Some(run) = filter.schedule_run_id {
        let jobs = |tx: &OrgRead<'_>| tx.page_by(&JOBS, &BY_RUN, run, &page, wanted);
        return Ok(Body(viewed(&org, org.read(jobs)?, &dispatcher)?));
    }
    let rows = org.read(|tx| match (filter.url_id, filter.status) {
        (Some(url), _) => tx.page_by(&JOBS, &BY_URL, url, &page, wanted),
        (None, Some(status)) => tx.page_by(&JOBS, &BY_STATUS, status as u8, &page, wanted),
        (None, None) => tx.page(&JOBS, &page, wanted),
    })?;
    Ok(Body(viewed(&org, rows, &dispatcher)?))
}

fn viewed(org: &OrgContext, rows: Page<JobV2>, dispatcher: &Dispatcher) -> Result<Page<JobView>> {
    let items = org.read(|tx| {
        rows.items.into_iter().map(|job| JobView::new(job, tx, dispatcher)).collect::<Result<_>>()
    })?;
    Ok(Page { items, next_cursor: rows.next_cursor })
}

/// One job as it stands.
fn view(org: &OrgContext, job: JobV2) -> Result<JobView> {
    let dispatcher = org.service::<Dispatcher>();
    org.read(|tx| JobView::new(job, tx, &dispatcher))
}

async fn get(org: Org<JobsRead>, Path(id): Path<JobId>) -> Result<Body<JobView>> {
    let job = org.read(|tx| tx.require(&JOBS, &id))?;
    Ok(Body(view(&org, job)?))
}

async fn result(
    org: Org<JobsRead>,
    Path(id): Path<JobId>,
) -> Result<Either<Body<ResultMetadata>, Accepted<PendingView>>> {
    org.read(|tx| tx.require(&JOBS, &id).map(drop))?;
    metadata_of_job(&org, id)
}

async fn submit_one(
    org: Org<Spends<JobsWrite>>,
    Body(new): Body<NewJob>,
) -> Result<Either<Created<JobView>, Body<JobView>>> {
    let checked = submit::check("", new, &org.service::<AddressGuard>())?;
    let context = org.service::<SubmitContext>();
    let submitted = org.write(move |tx| {
        let submitted = submit::submit(tx, &context, vec![checked], None)?.pop();
        if let Some(made) = submitted.as_ref().filter(|one| one.is_new) {
            tx.audit(Event::new(Action::JobSubmitted).of(made.job.id))?;
        }
        submitted.ok_or_else(|| Error::internal("submit a job", "none was made"))
    });
    let Submitted { job, is_new } = submitted.await?;
    let job = view(&org, job)?;
    Ok(if is_new { Either::Left(Created(job)) } else { Either::Right(Body(job)) })
}

/// Jobs that are checked on the spot; more are checked apart from the threads that answer.
const JOBS_AT_ONCE: usize = 50;

#[derive(Debug, Deserialize, JsonSchema)]
struct NewJobs {
    /// What people call the batch.
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    #[schemars(length(min = 1, max = JOBS_PER_BATCH_MAX))]
    jobs: Vec<NewJob>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SubmittedJobs {
    /// Under which they are asked for together. Of jobs that were all submitted before (`externalId`) the batch of the first
    /// one then; null where that one was submitted alone.
    batch_id: Option<BatchId>,
    jobs: Vec<SubmittedJob>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SubmittedJob {
    id: JobId,
    url: String,
}

async fn submit_batch(
    org: Org<Spends<JobsWrite>>,
    Body(batch): Body<NewJobs>,
) -> Result<Created<SubmittedJobs>> {
    let count = batch.jobs.len();
    if !(1..=JOBS_PER_BATCH_MAX).contains(&count) {
        return Err(Error::invalid(
            "jobs",
            format!("must have 1 to {JOBS_PER_BATCH_MAX} entries, not {count}"),
        ));
    }
    let name = batch.name.map(|name| Name::parse("name", &name)).transpose()?;
    let guard = org.service::<AddressGuard>();
    let check = move || {
        let jobs = (0..).zip(batch.jobs);
        let checked = jobs.map(|(i, job)| submit::check(&format!("jobs[{i}]."), job, &guard));
        checked.collect::<Result<Vec<_>>>()
    };
    let checked = apart_if(count > JOBS_AT_ONCE, check).await??;
    let context = org.service::<SubmitContext>();
    let submitted = org.write(move |tx| {
        let id = BatchId::new();
        let all = submit::submit(tx, &context, checked, Some((id, name)))?;
        let made: Vec<_> = all.iter().filter(|one| one.is_new).map(|one| one.job.id).collect();
        if !made.is_empty() {
            let event = Event::new(Action::JobBatchSubmitted).with("count", made.len());
            let event = event.with("batchId", Uuid::from(id));
            tx.audit(event.ids("ids", made.iter().copied()))?;
        }
        let first = all.first().and_then(|one| one.job.batch_id);
        let batch_id = if made.is_empty() { first } else { Some(id) };
        Ok((batch_id, all.into_iter().map(|one| one.job).collect::<Vec<_>>()))
    });
    let (batch_id, jobs) = submitted.await?;
    let jobs = jobs.into_iter().map(|job| SubmittedJob { id: job.id, url: job.url }).collect();
    Ok(Created(SubmittedJobs { batch_id, jobs }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct PollRequest {
    #[schemars(length(min = 1, max = JOBS_PER_POLL_MAX))]
    ids: Vec<JobId>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Polled {
    items: Vec<PolledJob>,
    /// Ids that are no job of this organization.
    missing: Vec<JobId>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PolledJob {
    id: JobId,
    status: JobStatus,
    result_id: Option<ResultId>,
    error: Option<String>,
}

async fn poll(org: Org<JobsRead>, Body(request): Body<PollRequest>) -> Result<Body<Polled>> {
    let count = request.ids.len();
    if !(1..=JOBS_PER_POLL_MAX).contains(&count) {
        return Err(Error::invalid(
            "ids",
            format!("must have 1 to {JOBS_PER_POLL_MAX} entries, not {count}"),
        ));
    }
    let mut answer = Polled { items: Vec::with_capacity(count), missing: Vec::new() };
    org.read(|tx| {
        for id in request.ids {
            match tx.get(&JOBS, &id)? {
                Some(job) => answer.items.push(PolledJob {
                    id,
                    status: job.status,
                    result_id: match view::has_result(tx, &job)? {
                        true => job.result_id,
                        false => None,
                    },
                    error: job.error,
                }),
                None => answer.missing.push(id),
            }
        }
        Ok(())
    })?;
    Ok(Body(answer))
}

async fn cancel_one(org: Org<JobsWrite>, Path(id): Path<JobId>) -> Result<Body<JobView>> {
    let context = org.service::<SubmitContext>();
    let canceled = org.write(move |tx| {
        tx.needs_no_room();
        let job = cancel_job(tx, &context, id)?;
        tx.audit(Event::new(Action::JobCanceled).of(id))?;
        Ok(job)
    });
    Ok(Body(view(&org, canceled.await?)?))
}

async fn retry(org: Org<Spends<JobsWrite>>, Path(id): Path<JobId>) -> Result<Created<JobView>> {
    let context = org.service::<SubmitContext>();
    let retried = org.write(move |tx| {
        let job = submit::retry(tx, &context, id)?;
        tx.audit(Event::new(Action::JobRetried).of(job.id).with("of", Uuid::from(id)))?;
        Ok(job)
    });
    Ok(Created(view(&org, retried.await?)?))
}
