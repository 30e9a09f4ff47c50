//! Jobs of a run, a schedule's or an input's: submitted in parts, and counted. A crawl's are of pages that may not be registered.

use super::batch::{self, BATCHES, BatchSource, of_run};
use super::rows::{BY_RUN, JOBS, JobV2, OptionsV1};
use super::signed_in;
use super::submit::{SubmitContext, new_job, priced};
use crate::features::urls::UrlV1;
use crate::features::{billing, extraction, site_sessions, urls, workflows};
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::{BatchId, JobId, ScheduleId, ScheduleRunId, SiteSessionId, UrlId, WorkflowId};
use base::terms::{JobStatus, PageType};
use base::web::WebUrl;
use base::{Code, Error, Result};
use serde_json::json;
use store::{OrgRead, OrgWrite, readable};

/// Bytes of the address of the page on which a crawl found another; a longer one is not noted.
const FOUND_ON_BYTES_MAX: usize = 2_000;

/// What the jobs of a run have in common.
#[derive(Clone, Debug)]
pub struct RunJobs {
    pub batch: BatchId,
    pub source: BatchSource,
    /// The schedule and its run, where it is one.
    pub schedule: Option<(ScheduleId, ScheduleRunId)>,
    /// Else the URL's own, else by its route.
    pub workflow_id: Option<WorkflowId>,
    pub options: OptionsV1,
    /// Else the URL's own.
    pub session: Option<SiteSessionId>,
}

impl RunJobs {
    /// Those of a schedule's run.
    pub fn of_schedule(
        schedule: ScheduleId,
        run: ScheduleRunId,
        workflow_id: Option<WorkflowId>,
        options: OptionsV1,
    ) -> RunJobs {
        let (batch, source) = (of_run(run), BatchSource::Schedule);
        RunJobs { batch, source, schedule: Some((schedule, run)), workflow_id, options, session: None }
    }
}

/// What came of a part.
#[derive(Debug, Default)]
pub struct RunPart {
    /// Jobs that were made.
    pub made: u32,
    /// URLs that could have none, and why the first of them could not.
    pub refused: u32,
    pub refusal: Option<String>,
    /// Why the rest of the run cannot be submitted either.
    pub stopped: Option<Error>,
}

/// A page that a crawl asks for, registered or not.
#[derive(Clone, Debug)]
pub struct PageJob {
    pub url: WebUrl,
    /// What it is where the URL's row does not say.
    pub page_type: Option<PageType>,
    pub tags: Vec<String>,
    /// The page whose link led there; a crawl's jobs say it in their metadata.
    pub found_on: Option<String>,
}

impl PageJob {
    /// What its job has as metadata: `foundOn`, unless the address is longer than any that is of use there.
    fn metadata(&self) -> Json {
        match self.found_on.as_ref().filter(|url| url.len() <= FOUND_ON_BYTES_MAX) {
            Some(url) => Json(json!({ "foundOn": url })),
            None => Json(json!({})),
        }
    }
}

/// Writes a job for each of these URLs and reserves its credits, one after the other, until credits or room end. A URL that
/// can have none keeps no other from its own.
pub fn submit_part(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    run: &RunJobs,
    urls: &[UrlId],
) -> Result<RunPart> {
    submit_each(tx, context, run, urls, |id| registered_job(tx, context, run, *id)).map(|(part, _)| part)
}

/// The same for pages; gives the job of each in front of where it stopped, none for one that could have none.
pub fn submit_pages(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    run: &RunJobs,
    pages: &[PageJob],
) -> Result<(RunPart, Vec<Option<JobId>>)> {
    submit_each(tx, context, run, pages, |page| {
        let found = readable("a URL of a crawl", &page.url, urls::find(tx, &page.url))?;
        let Some(row) = found else { return Ok(Err("a URL's row is damaged")) };
        let made = job_of(tx, context, run, &page.url, row.as_ref())?;
        Ok(made.map(|NewJob { job, session }| {
            let page_type = job.page_type.or(page.page_type);
            NewJob {
                job: JobV2 { page_type, tags: page.tags.clone(), metadata: page.metadata(), ..job },
                session,
            }
        }))
    })
}

/// A job that is not written yet.
struct NewJob {
    job: JobV2,
    session: Option<SiteSessionId>,
}

/// Such a job; or what of its URL is damaged. Damage of what all URLs need is an error.
type Made = Result<Result<NewJob, &'static str>>;

fn submit_each<T>(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    run: &RunJobs,
    all: &[T],
    make: impl Fn(&T) -> Made,
) -> Result<(RunPart, Vec<Option<JobId>>)> {
    let (mut part, mut ids) = (RunPart::default(), Vec::with_capacity(all.len()));
    match tx.ask_room() {
        Err(full) if full.code() == Code::QuotaExceeded => {
            part.stopped = Some(full);
            return Ok((part, ids));
        }
        asked => asked?,
    }
    if let Err(closed) = batch::open_run(tx, run.batch, run.source) {
        if closed.code() != Code::Conflict {
            return Err(closed);
        }
        part.stopped = Some(closed);
        return Ok((part, ids));
    }
    let mut made = Vec::with_capacity(all.len());
    for one in all {
        let written = make(one).and_then(|job| match job {
            Ok(job) => paid(tx, context, job).map(Ok),
            Err(damaged) => Ok(Err(damaged)),
        });
        match written {
            Ok(Ok(job)) => {
                ids.push(Some(job.id));
                made.push(job);
                continue;
            }
            Ok(Err(damaged)) => part.refuse(damaged.to_owned()),
            Err(error) if matches!(error.code(), Code::PaymentRequired | Code::QuotaExceeded) => {
                part.stopped = Some(error);
                break;
            }
            Err(error)
                if matches!(
                    error.code(),
                    Code::Conflict | Code::NotFound | Code::WorkflowDisabled | Code::InvalidInput
                ) =>
            {
                part.refuse(error.detail().unwrap_or("it cannot be submitted").to_owned());
            }
            Err(error) => return Err(error),
        }
        ids.push(None);
    }
    part.made = u32::try_from(made.len()).unwrap_or(u32::MAX);
    context.dispatcher.queued_after(tx, made.iter());
    Ok((part, ids))
}

impl RunPart {
    fn refuse(&mut self, reason: String) {
        self.refused += 1;
        self.refusal.get_or_insert(reason);
    }
}

/// The job of one registered URL.
fn registered_job(tx: &OrgWrite<'_>, context: &SubmitContext, run: &RunJobs, id: UrlId) -> Made {
    let gone = || Error::not_found(urls::URLS.noun()).message("a URL was deleted meanwhile");
    let Some(row) = readable("a URL of a run", id, tx.get(&urls::URLS, &id))? else {
        return Ok(Err("a URL's row is damaged"));
    };
    let row = row.ok_or_else(gone)?;
    let Ok(url) = WebUrl::parse(&row.url) else { return Ok(Err("a URL's row is damaged")) };
    job_of(tx, context, run, &url, Some(&row))
}

fn job_of(
    tx: &OrgWrite<'_>,
    context: &SubmitContext,
    run: &RunJobs,
    url: &WebUrl,
    row: Option<&UrlV1>,
) -> Made {
    let found = match run.workflow_id.or(row.and_then(|row| row.workflow_id)) {
        None => readable("the workflow for a URL", url, workflows::routed(tx, url))?,
        Some(workflow) => {
            let missing = || Error::not_found(workflows::WORKFLOWS.noun()).message("its workflow is gone");
            let found = readable("a workflow", workflow, workflows::dispatchable(tx, workflow))?;
            found.map(|found| found.ok_or_else(missing)).transpose()?.map(Some)
        }
    };
    let Some(workflow) = found else { return Ok(Err("its workflow's row is damaged")) };
    let job = JobV2 {
        url_id: row.map(|row| row.id),
        page_type: row.and_then(|row| row.page_type),
        schedule_id: run.schedule.map(|(schedule, _)| schedule),
        schedule_run_id: run.schedule.map(|(_, run)| run),
        batch_id: Some(run.batch),
        ..new_job(tx, url, run.options.clone())
    };
    let (named, domain) = ((run.session, row.map(|row| row.id)), url.domain());
    let session = site_sessions::wanted(tx, "options.siteSessionId", named, domain.as_str())?;
    let job = priced(tx, context, job, (workflow, session))?;
    Ok(Ok(NewJob { job, session }))
}

/// Writes a job and reserves its credits.
fn paid(tx: &OrgWrite<'_>, context: &SubmitContext, new: NewJob) -> Result<JobV2> {
    let NewJob { job, session } = new;
    // Before it is written: one that cannot be paid leaves nothing.
    let plan = billing::plan_of(&context.plans, &billing::account(tx)?)?;
    billing::reserve(tx, plan, &[(job.id, job.credits_reserved)])?;
    signed_in::put_new(tx, &job, session)?;
    Ok(job)
}

/// Notes which registered URL the page of an ended job is: one that was registered because of it.
pub fn note_url(tx: &OrgWrite<'_>, id: JobId, url: UrlId, scraped_at: Option<Timestamp>) -> Result<()> {
    let Some(job) = readable("a job", id, tx.get(&JOBS, &id))?.flatten() else { return Ok(()) };
    if job.url_id.is_some() {
        return Ok(());
    }
    let status = job.status;
    tx.put(&JOBS, &id, &JobV2 { url_id: Some(url), ..job })?;
    extraction::note_url(tx, id, url)?;
    urls::note_job(tx, url, id, status, scraped_at)
}

/// Jobs of a batch that have not ended; none where there is no such batch.
pub fn open_jobs(tx: &OrgRead<'_>, batch: BatchId) -> Result<u64> {
    Ok(tx.get(&BATCHES, &batch)?.map_or(0, |batch| batch.open()))
}

/// How far the jobs of a run are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    pub succeeded: u32,
    pub failed: u32,
    pub canceled: u32,
}

/// Whether a job of the run waits or runs.
pub fn is_under_way(tx: &OrgRead<'_>, run: ScheduleRunId) -> Result<bool> {
    let has = |status: JobStatus| tx.exists(&BY_RUN, (run, status as u8));
    Ok(has(JobStatus::Queued)? || has(JobStatus::Running)?)
}

/// How the jobs of a run have ended so far.
pub fn run_counts(tx: &OrgRead<'_>, run: ScheduleRunId) -> Result<RunCounts> {
    let count = |status: JobStatus| {
        let count = tx.count_index(&BY_RUN, (run, status as u8), usize::MAX)?;
        Ok::<_, Error>(u32::try_from(count).unwrap_or(u32::MAX))
    };
    Ok(RunCounts {
        succeeded: count(JobStatus::Succeeded)?,
        failed: count(JobStatus::Failed)?,
        canceled: count(JobStatus::Canceled)?,
    })
}
