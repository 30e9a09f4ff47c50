//! Results that people delete: one by its id, many by their ids or by what they are.

use super::rows::{RESULTS, RESULTS_BY_ID, ResultV2};
use super::service::delete;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{JobId, ResultId, UrlId};
use base::limits::{PAGE_ROWS_MAX, RESULTS_PER_DELETE_MAX};
use base::page::PageRequest;
use base::terms::PageType;
use base::web::Domain;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::WorkflowsWrite;
use server::{Body, NoContent, Org, Path};
use std::time::{Duration, Instant};
use store::Event;

/// Results removed by one operation: others' writes do not wait for a large deletion.
const STEP_ROWS: usize = 32;
/// How long one request goes on by a filter before it hands out a cursor. A choice.
const GO_ON_MAX: Duration = Duration::from_secs(2);

pub(super) async fn delete_one(org: Org<WorkflowsWrite>, Path(id): Path<ResultId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        let row = tx.lookup(&RESULTS, &RESULTS_BY_ID, |key| key.id(id))?;
        let row = row.ok_or_else(|| Error::not_found(RESULTS.noun()))?;
        delete(tx, row.job)?;
        tx.audit(Event::new(Action::ResultDeleted).of(id))
    });
    deleted.await.map(|()| NoContent)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeleteResults {
    /// 1 to 1,000 results. Either this or `filter`.
    #[serde(default)]
    ids: Option<Vec<ResultId>>,
    /// Every result that matches all that is given; at least one member.
    #[serde(default)]
    filter: Option<DeleteFilter>,
    /// The `nextCursor` of a deletion by the same filter that was not through.
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ResultDeleteFilter")]
struct DeleteFilter {
    domain: Option<String>,
    page_type: Option<PageType>,
    url_id: Option<UrlId>,
    /// All must be there.
    tag: Option<Vec<String>>,
    /// Scraped at or after this time.
    from: Option<Timestamp>,
    /// Scraped before this time.
    to: Option<Timestamp>,
}

impl DeleteFilter {
    fn is_empty(&self) -> bool {
        self.domain.is_none()
            && self.page_type.is_none()
            && self.url_id.is_none()
            && self.tag.as_ref().is_none_or(Vec::is_empty)
            && self.from.is_none()
            && self.to.is_none()
    }

    fn accepts(&self, row: &ResultV2) -> bool {
        self.domain.as_ref().is_none_or(|domain| row.domain == *domain)
            && self.page_type.is_none_or(|page_type| row.page_type == Some(page_type))
            && self.url_id.is_none_or(|url| row.url_id == Some(url))
            && self.tag.iter().flatten().all(|tag| row.tags.contains(tag))
            && self.from.is_none_or(|from| row.scraped_at >= from)
            && self.to.is_none_or(|to| row.scraped_at < to)
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletedResults {
    deleted: u64,
    /// Ids that are no result of the organization; empty for a deletion by filter.
    missing: Vec<ResultId>,
    /// Hand it back as `cursor`, with the same filter, to go on; null when everything that matched is gone.
    next_cursor: Option<String>,
}

pub(super) async fn delete_many(
    org: Org<WorkflowsWrite>,
    Body(request): Body<DeleteResults>,
) -> Result<Body<DeletedResults>> {
    match (request.ids, request.filter) {
        (Some(ids), None) => by_ids(org, ids).await.map(Body),
        (None, Some(mut filter)) => {
            if filter.is_empty() {
                return Err(Error::invalid("filter", "must have at least one member"));
            }
            filter.domain = filter.domain.map(Domain::of_filter);
            by_filter(org, filter, request.cursor).await.map(Body)
        }
        (Some(_), Some(_)) => Err(Error::invalid("filter", "give either ids or filter, not both")),
        (None, None) => Err(Error::invalid("ids", "is missing; give ids or filter")),
    }
}

async fn by_ids(org: Org<WorkflowsWrite>, mut ids: Vec<ResultId>) -> Result<DeletedResults> {
    let count = ids.len();
    if !(1..=RESULTS_PER_DELETE_MAX).contains(&count) {
        let reason = format!("must have 1 to {RESULTS_PER_DELETE_MAX} entries, not {count}");
        return Err(Error::invalid("ids", reason));
    }
    ids.sort_unstable();
    ids.dedup();
    let mut answer = DeletedResults { deleted: 0, missing: Vec::new(), next_cursor: None };
    for step in ids.chunks(STEP_ROWS) {
        let step = step.to_vec();
        let done = org.write_freeing(move |tx| {
            let (mut gone, mut missing) = (Vec::new(), Vec::new());
            for id in step {
                match tx.lookup(&RESULTS, &RESULTS_BY_ID, |key| key.id(id))? {
                    Some(row) => {
                        delete(tx, row.job)?;
                        gone.push(id);
                    }
                    None => missing.push(id),
                }
            }
            if !gone.is_empty() {
                let event = Event::new(Action::ResultDeleted).with("count", gone.len());
                tx.audit(event.ids("ids", gone.iter().copied()))?;
            }
            Ok((gone.len() as u64, missing))
        });
        let (deleted, missing) = done.await?;
        answer.deleted += deleted;
        answer.missing.extend(missing);
    }
    Ok(answer)
}

async fn by_filter(
    org: Org<WorkflowsWrite>,
    filter: DeleteFilter,
    cursor: Option<String>,
) -> Result<DeletedResults> {
    let begun = Instant::now();
    let mut page = PageRequest { limit: PAGE_ROWS_MAX, cursor };
    let mut answer = DeletedResults { deleted: 0, missing: Vec::new(), next_cursor: None };
    loop {
        let found = org.read(|tx| tx.page(&RESULTS, &page, |row| filter.accepts(row)))?;
        for step in found.items.chunks(STEP_ROWS) {
            let step: Vec<(JobId, ResultId)> = step.iter().map(|row| (row.job, row.id)).collect();
            let done = org.write_freeing(move |tx| {
                let mut gone = Vec::new();
                for (job, id) in step {
                    if delete(tx, job)? {
                        gone.push(id);
                    }
                }
                let count = gone.len() as u64;
                let event = Event::new(Action::ResultDeleted).with("count", gone.len());
                tx.audit(event.ids("ids", gone))?;
                Ok(count)
            });
            answer.deleted += done.await?;
        }
        match found.next_cursor {
            None => return Ok(answer),
            next if begun.elapsed() >= GO_ON_MAX => {
                return Ok(DeletedResults { next_cursor: next, ..answer });
            }
            next => page.cursor = next,
        }
    }
}
