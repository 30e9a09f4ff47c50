//! What happened to a URL: its jobs and what came of them, oldest first.
//!
//! A result may outlive its job, and a URL that was removed and registered again is the same page. So results without a job
//! of the URL stand in front of its jobs: their jobs were removed before any of those was, or they are of an earlier
//! registration.

use super::rows::{BY_URL, JOBS, JobV2};
use crate::features::extraction::{
    ChangedValue, RESULTS, ResultV4, changed_values, result_place, results_of_url, results_of_url_list,
};
use crate::features::urls::{URLS, UrlV1};
use base::clock::Timestamp;
use base::ids::{JobId, ResultId, ScheduleRunId, UrlId};
use base::limits::{LIST_BYTES_MAX, LIST_SCAN_BYTES_MAX};
use base::page::{Page, PageRequest, encode_cursor};
use base::terms::JobStatus;
use base::{Error, Result};
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
    fn of_job(job: JobV2) -> HistoryView {
        HistoryView {
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
        }
    }

    fn of_result(result: &ResultV4) -> HistoryView {
        HistoryView {
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
        }
    }

    fn with(self, tx: &OrgRead<'_>, result: ResultV4) -> Result<HistoryView> {
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

/// A page that is being filled. What a result changed may be large, and stand on a page of small rows.
#[derive(Default)]
struct HistoryFill {
    items: Vec<HistoryView>,
    /// Bytes of what is shown, and of the results that were read for it.
    bytes: usize,
    read_bytes: usize,
}

impl HistoryFill {
    fn push(&mut self, entry: HistoryView, read_bytes: usize) -> Result<()> {
        let shown = serde_json::to_vec(&entry).map_err(|e| Error::internal("show a URL's history", e))?;
        self.bytes += shown.len();
        self.read_bytes += read_bytes;
        self.items.push(entry);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes >= LIST_BYTES_MAX || self.read_bytes >= LIST_SCAN_BYTES_MAX
    }

    fn page(self, next_cursor: Option<String>) -> Page<HistoryView> {
        Page { items: self.items, next_cursor }
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

pub(super) fn entries(tx: &OrgRead<'_>, url: &UrlV1, page: &PageRequest) -> Result<Page<HistoryView>> {
    let (mut fill, mut rest) = (HistoryFill::default(), page.clone());
    if page.cursor.is_none() || page.position(results_of_url_list()).is_ok() {
        // One whose job cannot be read is shown with its job, or as its error.
        let is_alone = |result: &ResultV4| {
            let job = tx.get(&JOBS, &result.job);
            job.is_ok_and(|job| job.is_none_or(|job| job.url_id != Some(url.id)))
        };
        let found = results_of_url(tx, &url.url, page, is_alone)?;
        for result in found.items {
            let place = result_place(&result);
            fill.push(HistoryView::of_result(&result).with(tx, result)?, 0)?;
            if fill.is_full() {
                return Ok(fill.page(Some(place)));
            }
        }
        if found.next_cursor.is_some() {
            return Ok(fill.page(found.next_cursor));
        }
        // Before the first of the URL's jobs.
        let begin = job_place(url, [0; 16]);
        rest = PageRequest { limit: page.limit - fill.items.len(), cursor: Some(begin) };
        if rest.limit == 0 {
            let has_jobs = tx.exists(&BY_URL, url.id)?;
            return Ok(fill.page(rest.cursor.filter(|_| has_jobs)));
        }
    }
    let found = tx.page_by_oldest(&JOBS, &BY_URL, url.id, &rest, |_| true)?;
    let mut jobs = found.items.into_iter().peekable();
    while let Some(job) = jobs.next() {
        let (id, result) = (job.id, tx.get_sized(&RESULTS, &job.id)?);
        let own = HistoryView::of_job(job);
        match result {
            None => fill.push(own, 0)?,
            Some((result, size)) => fill.push(own.with(tx, result)?, size)?,
        }
        if fill.is_full() && jobs.peek().is_some() {
            return Ok(fill.page(Some(job_place(url, *id.0.as_bytes()))));
        }
    }
    Ok(fill.page(found.next_cursor))
}

/// The cursor behind a job of the URL.
fn job_place(url: &UrlV1, job: [u8; 16]) -> String {
    encode_cursor(BY_URL.name(), &[*url.id.0.as_bytes(), job].concat())
}
