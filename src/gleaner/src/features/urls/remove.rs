//! URLs that people take from the list: one, many by their ids, many by what they are. Jobs and results stay.

use super::chosen::ChosenBy;
use super::derived::DerivedChanges;
use super::page_types::check_page_type;
use super::rows::URLS;
use super::{UrlFilter, find_page, is_meant};
use crate::features::site_sessions::URL_SESSIONS;
use base::audit::Action;
use base::ids::UrlId;
use base::limits::URLS_PER_REQUEST_MAX;
use base::page::PageRequest;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::chosen::{Chosen, page_by_page};
use server::permit::UrlsWrite;
use server::{Body, NoContent, Org, Path};
use std::sync::Arc;
use store::{Event, OrgWrite};

/// URLs removed by one operation: others' writes do not wait for a large deletion.
const STEP_ROWS: usize = 200;

pub(super) async fn delete_one(org: Org<UrlsWrite>, Path(id): Path<UrlId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        let mut changes = DerivedChanges::default();
        if !take(tx, id, None, &mut changes)? {
            return Err(Error::not_found(URLS.noun()));
        }
        changes.write(tx)?;
        tx.audit(Event::new(Action::UrlDeleted).of(id))
    });
    deleted.await.map(|()| NoContent)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeleteUrls {
    /// 1 to 10,000 URLs. Either this or `filter`.
    #[serde(default)]
    ids: Option<Vec<UrlId>>,
    /// Every URL that matches all that is given, as in listUrls; at least one member.
    #[serde(default)]
    filter: Option<ChosenBy>,
    /// The `nextCursor` of a deletion by the same filter that was not through.
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletedUrls {
    deleted: u64,
    /// Ids that are no URL of the organization; empty for a deletion by filter.
    missing: Vec<UrlId>,
    /// Hand it back as `cursor`, with the same filter, to go on; null when everything that matched is gone.
    next_cursor: Option<String>,
}

pub(super) async fn delete_many(
    org: Org<UrlsWrite>,
    Body(request): Body<DeleteUrls>,
) -> Result<Body<DeletedUrls>> {
    let filter = request.filter.map(UrlFilter::from);
    let chosen = Chosen::of(request.ids, filter, URLS_PER_REQUEST_MAX, UrlFilter::is_empty)?;
    let mut answer = DeletedUrls { deleted: 0, missing: Vec::new(), next_cursor: None };
    match chosen {
        Chosen::Ids(ids) => {
            for step in ids.chunks(STEP_ROWS) {
                let (gone, missing) = remove(&org, step.to_vec(), None).await?;
                answer.deleted += gone;
                answer.missing.extend(missing);
            }
        }
        Chosen::Filter(filter) => {
            org.read(|tx| check_page_type(tx, "filter.pageType", filter.page_type))?;
            let (org, filter) = (&org, Arc::new(filter));
            let find =
                |page: &PageRequest| org.read(|tx| Ok(find_page(tx, &filter, page)?.map(|row| row.id)));
            let go = |ids| {
                let gone = remove(org, ids, Some(Arc::clone(&filter)));
                async move { gone.await.map(|(gone, _)| gone) }
            };
            (answer.deleted, answer.next_cursor) = page_by_page(request.cursor, find, go).await?;
        }
    }
    Ok(Body(answer))
}

/// One operation: how many went, and which there were none of. What `filter` no longer means when it is to go stays.
async fn remove(
    org: &Org<UrlsWrite>,
    ids: Vec<UrlId>,
    filter: Option<Arc<UrlFilter>>,
) -> Result<(u64, Vec<UrlId>)> {
    let done = org.write_freeing(move |tx| {
        let (mut gone, mut missing) = (Vec::new(), Vec::new());
        let mut changes = DerivedChanges::default();
        for id in ids {
            if take(tx, id, filter.as_deref(), &mut changes)? {
                gone.push(id);
            } else {
                missing.push(id);
            }
        }
        changes.write(tx)?;
        let count = gone.len() as u64;
        if count > 0 {
            tx.audit(Event::new(Action::UrlDeleted).with("count", gone.len()).ids("ids", gone))?;
        }
        Ok((count, missing))
    });
    done.await
}

/// Removes a row, if `filter` means it; whether there was one.
fn take(
    tx: &OrgWrite<'_>,
    id: UrlId,
    filter: Option<&UrlFilter>,
    changes: &mut DerivedChanges,
) -> Result<bool> {
    let Some(row) = tx.get(&URLS, &id)?.filter(|row| is_meant(filter, row)) else { return Ok(false) };
    changes.note(Some(&row), None);
    tx.delete(&URL_SESSIONS, &id)?;
    tx.delete(&URLS, &id)
}
