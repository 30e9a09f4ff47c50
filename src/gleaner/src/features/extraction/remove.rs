//! Results that people delete: one by its id, many by their ids or by what they are.

use super::rows::{RESULTS, RESULTS_BY_ID, ResultV4};
use super::service::delete;
use super::site::Site;
use crate::features::urls::check_page_type;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{ResultId, UrlId};
use base::limits::RESULTS_PER_DELETE_MAX;
use base::page::PageRequest;
use base::terms::PageType;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::chosen::{Chosen, page_by_page};
use server::permit::WorkflowsWrite;
use server::{Body, NoContent, Org, Path};
use store::Event;

/// Results removed by one operation: others' writes do not wait for a large deletion.
const STEP_ROWS: usize = 32;

pub(super) async fn delete_one(org: Org<WorkflowsWrite>, Path(id): Path<ResultId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        let row = tx.lookup(&RESULTS, &RESULTS_BY_ID, id)?;
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
// A member that is typed wrong and ignored would widen a deletion.
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "ResultDeleteFilter")]
pub(super) struct DeleteFilter {
    /// A registrable domain, or one host of it, which alone is meant then.
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

    /// Which results are meant.
    pub fn accepts(&self) -> impl Fn(&ResultV4) -> bool {
        // What is no host has no results.
        let site = self.domain.as_deref().map(Site::named);
        move |row| {
            site.as_ref().is_none_or(|site| site.as_ref().is_some_and(|site| site.has(row)))
                && self.page_type.is_none_or(|page_type| row.page_type == Some(page_type))
                && self.url_id.is_none_or(|url| row.url_id == Some(url))
                && self.tag.iter().flatten().all(|tag| row.tags.contains(tag))
                && self.from.is_none_or(|from| row.scraped_at >= from)
                && self.to.is_none_or(|to| row.scraped_at < to)
        }
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
    let chosen = Chosen::of(request.ids, request.filter, RESULTS_PER_DELETE_MAX, DeleteFilter::is_empty)?;
    let mut answer = DeletedResults { deleted: 0, missing: Vec::new(), next_cursor: None };
    match chosen {
        Chosen::Ids(ids) => {
            for step in ids.chunks(STEP_ROWS) {
                let (gone, missing) = remove(&org, step.to_vec()).await?;
                answer.deleted += gone;
                answer.missing.extend(missing);
            }
        }
        Chosen::Filter(filter) => {
            org.read(|tx| check_page_type(tx, "filter.pageType", filter.page_type))?;
            let accepts = filter.accepts();
            let org = &org;
            let find = |page: &PageRequest| {
                let found = org.read(|tx| tx.page(&RESULTS, page, &accepts))?;
                Ok(found.map(|row| row.id))
            };
            let go = |ids: Vec<ResultId>| async move {
                let mut gone = 0;
                for step in ids.chunks(STEP_ROWS) {
                    gone += remove(org, step.to_vec()).await?.0;
                }
                Ok(gone)
            };
            (answer.deleted, answer.next_cursor) = page_by_page(request.cursor, find, go).await?;
        }
    }
    Ok(Body(answer))
}

/// One operation: how many went, and which there were none of.
async fn remove(org: &Org<WorkflowsWrite>, ids: Vec<ResultId>) -> Result<(u64, Vec<ResultId>)> {
    let done = org.write_freeing(move |tx| {
        let (mut gone, mut missing) = (Vec::new(), Vec::new());
        for id in ids {
            match tx.lookup(&RESULTS, &RESULTS_BY_ID, id)? {
                Some(row) => {
                    delete(tx, row.job)?;
                    gone.push(id);
                }
                None => missing.push(id),
            }
        }
        let count = gone.len() as u64;
        if count > 0 {
            tx.audit(Event::new(Action::ResultDeleted).with("count", gone.len()).ids("ids", gone))?;
        }
        Ok((count, missing))
    });
    done.await
}
