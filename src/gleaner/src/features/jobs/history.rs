//! What happened to a URL: its jobs and what came of them, oldest first.
//!
//! A result may outlive its job, and a URL that was removed and registered again is the same page. So results without a job
//! of the URL stand in front of its jobs: their jobs were removed before any of those was, or they are of an earlier
//! registration.

use super::rows::{BY_URL, JOBS, JobV1};
use crate::features::extraction::{
    ChangedValue, RESULTS, ResultV3, changed_values, results_of_url, results_of_url_list,
};
use crate::features::urls::{URLS, UrlV1};
use base::Result;
use base::clock::Timestamp;
use base::ids::{JobId, ResultId, ScheduleRunId, UrlId};
use base::page::{Page, PageRequest, encode_cursor};
use base::terms::JobStatus;
use schemars::JsonSchema;
use serde::Serialize;
use server::permit::WorkflowsRead;
use server::{Body, Org, Path};
use store::OrgRead;

/// One visit of a URL, or the try of one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UrlHistoryEntry")]
pub(super) struct HistoryView {
    job_id: JobId,
    /// Where the job stands; `succeeded` where it is gone and its result is not.
    status: JobStatus,
    /// When the job was submitted; where it is gone, when its page was fetched.
    at: Timestamp,
    finished_at: Option<Timestamp>,
    /// Why the job failed.
    error: Option<String>,
    schedule_run_id: Option<ScheduleRunId>,
    /// What follows is null or empty where there is no result.
    result_id: Option<ResultId>,
    scraped_at: Option<Timestamp>,
    http_status: Option<u16>,
    provider: Option<String>,
    /// What differs from the URL's result before.
    changed: Vec<ChangedValue>,
}

impl HistoryView {
    fn of_job(tx: &OrgRead<'_>, job: JobV1) -> Result<HistoryView> {
        let result = tx.get(&RESULTS, &job.id)?;
        let own = HistoryView {
            job_id: job.id,
            status: job.status,
            at: job.created_at,
            finished_at: job.finished_at,
            error: job.error,
            schedule_run_id: job.schedule_run_id,
            result_id: None,
            scraped_at: None,
            http_status: None,
            provider: None,
            changed: Vec::new(),
        };
        match result {
            Some(result) => own.with(tx, result),
            None => Ok(own),
        }
    }

    fn of_result(tx: &OrgRead<'_>, result: ResultV3) -> Result<HistoryView> {
        let own = HistoryView {
            job_id: result.job,
            status: JobStatus::Succeeded,
            at: result.scraped_at,
            finished_at: None,
            error: None,
            schedule_run_id: None,
            result_id: None,
            scraped_at: None,
            http_status: None,
            provider: None,
            changed: Vec::new(),
        };
        own.with(tx, result)
    }

    fn with(self, tx: &OrgRead<'_>, result: ResultV3) -> Result<HistoryView> {
        Ok(HistoryView {
            result_id: Some(result.id),
            scraped_at: Some(result.scraped_at),
            http_status: Some(result.http_status),
            changed: changed_values(tx, &result)?,
            provider: Some(result.provider),
            ..self
        })
    }
}

pub(super) async fn history(
    org: Org<WorkflowsRead>,
    Path(id): Path<UrlId>,
    page: PageRequest,
) -> Result<Body<Page<HistoryView>>> {
    Ok(Body(org.read(|tx| {
        let url = tx.require(&URLS, &id)?;
        entries(tx, &url, &page)
    })?))
}

fn entries(tx: &OrgRead<'_>, url: &UrlV1, page: &PageRequest) -> Result<Page<HistoryView>> {
    let (mut items, mut rest) = (Vec::new(), page.clone());
    if page.cursor.is_none() || page.position(results_of_url_list()).is_ok() {
        // One whose job cannot be read is shown with its job, or as its error.
        let is_alone = |result: &ResultV3| {
            let job = tx.get(&JOBS, &result.job);
            job.is_ok_and(|job| job.is_none_or(|job| job.url_id != Some(url.id)))
        };
        let found = results_of_url(tx, &url.url, page, is_alone)?;
        for result in found.items {
            items.push(HistoryView::of_result(tx, result)?);
        }
        if found.next_cursor.is_some() {
            return Ok(Page { items, next_cursor: found.next_cursor });
        }
        // Before the first of the URL's jobs.
        let begin = [*url.id.0.as_bytes(), [0; 16]].concat();
        rest = PageRequest {
            limit: page.limit - items.len(),
            cursor: Some(encode_cursor(BY_URL.name(), &begin)),
        };
        if rest.limit == 0 {
            let has_jobs = tx.exists(&BY_URL, url.id)?;
            return Ok(Page { items, next_cursor: rest.cursor.filter(|_| has_jobs) });
        }
    }
    let found = tx.page_by_oldest(&JOBS, &BY_URL, url.id, &rest, |_| true)?;
    for job in found.items {
        items.push(HistoryView::of_job(tx, job)?);
    }
    Ok(Page { items, next_cursor: found.next_cursor })
}
