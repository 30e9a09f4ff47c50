//! The same change of many URLs: of those that are named, or of all that a filter finds.

use super::chosen::ChosenBy;
use super::derived::DerivedChanges;
use super::edit::Clearable;
use super::page_types::check_page_type;
use super::register::is_usable;
use super::rows::{URLS, UrlV1};
use super::{UrlFilter, find_page, is_meant};
use crate::features::site_sessions::{self, URL_SESSIONS};
use base::audit::Action;
use base::ids::{UrlId, WorkflowId};
use base::limits::{TAG_CHARS_MAX, TAGS_MAX, URLS_PER_REQUEST_MAX};
use base::page::PageRequest;
use base::terms::PageType;
use base::{Error, Result, labels};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::chosen::{Chosen, page_by_page};
use server::permit::UrlsWrite;
use server::{Body, Org};
use std::sync::{Arc, Mutex, PoisonError};
use store::{Event, OrgWrite};

/// URLs changed by one operation: others' writes do not wait for a large change.
const STEP_ROWS: usize = 200;
/// Refusals that an answer has in full.
const REFUSALS_MAX: usize = 100;

/// What is to be different of which URLs. What is left out stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UrlsUpdate")]
pub(super) struct UrlsUpdate {
    /// 1 to 10,000 URLs. Either this or `filter`.
    #[serde(default)]
    ids: Option<Vec<UrlId>>,
    /// Every URL that matches all that is given, as in listUrls; at least one member.
    #[serde(default)]
    filter: Option<ChosenBy>,
    /// The `nextCursor` of the same change by the same filter that was not through.
    #[serde(default)]
    cursor: Option<String>,
    /// Tags that each has from now on, beside its own.
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    add_tags: Option<Vec<String>>,
    /// Tags that none has any longer.
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    remove_tags: Option<Vec<String>>,
    #[serde(default)]
    page_type: Option<PageType>,
    #[serde(default)]
    workflow_id: Option<WorkflowId>,
    /// What they are to have none of from now on.
    #[serde(default)]
    clear: Option<Vec<Clearable>>,
}

/// What came of it.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdatedUrls {
    /// URLs that are different now.
    updated: u64,
    /// URLs that were as asked already.
    unchanged: u64,
    /// URLs that could not be changed, and stay as they were.
    refused: u64,
    /// The first 100 of those, with the reason.
    refusals: Vec<UrlRefusal>,
    /// Ids that are no URL of the organization; empty for a change by filter.
    missing: Vec<UrlId>,
    /// Hand it back as `cursor`, with the same filter, to go on; null when everything that matched is through.
    next_cursor: Option<String>,
}

/// A URL that could not be changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UrlRefusal {
    id: UrlId,
    url: String,
    reason: String,
}

impl UpdatedUrls {
    fn add(&mut self, other: UpdatedUrls) {
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.refused += other.refused;
        self.refusals.extend(other.refusals);
        self.refusals.truncate(REFUSALS_MAX);
        self.missing.extend(other.missing);
    }
}

/// A checked change, the same for each URL.
struct Change {
    add: Vec<String>,
    remove: Vec<String>,
    page_type: Option<PageType>,
    workflow: Option<WorkflowId>,
    clear: Vec<Clearable>,
}

impl Change {
    fn of(request: &mut UrlsUpdate) -> Result<Change> {
        let tags = |field, given: Option<Vec<String>>| labels::tags(field, given.unwrap_or_default());
        let change = Change {
            add: tags("addTags", request.add_tags.take())?,
            remove: tags("removeTags", request.remove_tags.take())?,
            page_type: request.page_type,
            workflow: request.workflow_id,
            clear: request.clear.take().unwrap_or_default(),
        };
        if let Some(both) = change.add.iter().find(|tag| change.remove.contains(tag)) {
            return Err(Error::invalid(
                "removeTags",
                format!("names {both:?}, which is to be added as well"),
            ));
        }
        for (field, name, is_given) in [
            (Clearable::PageType, "pageType", change.page_type.is_some()),
            (Clearable::WorkflowId, "workflowId", change.workflow.is_some()),
        ] {
            if is_given && change.clears(field) {
                return Err(Error::invalid("clear", format!("names {name}, which is given as well")));
            }
        }
        let is_none = change.add.is_empty()
            && change.remove.is_empty()
            && change.page_type.is_none()
            && change.workflow.is_none()
            && change.clear.is_empty();
        if is_none {
            return Err(Error::invalid(
                "addTags",
                "is missing; give what is to be different: addTags, removeTags, pageType, workflowId or clear",
            ));
        }
        Ok(change)
    }

    fn clears(&self, field: Clearable) -> bool {
        self.clear.contains(&field)
    }

    /// The row as it is to be; or why it cannot be so.
    fn apply(&self, before: &UrlV1) -> std::result::Result<UrlV1, String> {
        let mut row = before.clone();
        row.tags.retain(|tag| !self.remove.contains(tag));
        let new = self.add.iter().filter(|tag| !before.tags.contains(tag));
        row.tags.extend(new.cloned());
        if row.tags.len() > TAGS_MAX {
            return Err(format!("it would have {} tags, more than {TAGS_MAX}", row.tags.len()));
        }
        row.page_type = self.page_type.or(row.page_type).filter(|_| !self.clears(Clearable::PageType));
        row.workflow_id = self.workflow.or(row.workflow_id).filter(|_| !self.clears(Clearable::WorkflowId));
        Ok(row)
    }

    /// One operation of the store. What `filter` no longer means when it is changed is left alone.
    fn write(&self, tx: &OrgWrite<'_>, ids: Vec<UrlId>, filter: Option<&UrlFilter>) -> Result<UpdatedUrls> {
        // Looked at each time: it may be removed while a long change goes on.
        if let Some(workflow) = self.workflow
            && !is_usable(tx, workflow)?
        {
            return Err(Error::invalid("workflowId", format!("there is no workflow {workflow}")));
        }
        check_page_type(tx, "pageType", self.page_type)?;
        let (mut told, mut changed) = (UpdatedUrls::default(), Vec::new());
        let mut changes = DerivedChanges::default();
        for id in ids {
            let Some(before) = tx.get(&URLS, &id)? else {
                // What a filter found and is gone now is no longer meant either.
                told.missing.extend(Some(id).filter(|_| filter.is_none()));
                continue;
            };
            if !is_meant(filter, &before) {
                continue;
            }
            let row = match self.apply(&before) {
                Ok(row) => row,
                Err(reason) => {
                    told.refused += 1;
                    told.refusals.push(UrlRefusal { id, url: before.url, reason });
                    continue;
                }
            };
            let loses_session = self.clears(Clearable::SiteSessionId)
                && site_sessions::shown(tx, &URL_SESSIONS, &id)?.is_some();
            if row == before && !loses_session {
                told.unchanged += 1;
                continue;
            }
            if loses_session {
                site_sessions::name(tx, &URL_SESSIONS, &id, None)?;
            }
            tx.put(&URLS, &id, &row)?;
            changes.note(Some(&before), Some(&row));
            changed.push(id);
        }
        changes.write(tx)?;
        told.updated = changed.len() as u64;
        match changed.is_empty() {
            true => tx.unaudited("nothing is changed"),
            false => {
                tx.audit(Event::new(Action::UrlUpdated).with("count", changed.len()).ids("ids", changed))?
            }
        }
        Ok(told)
    }
}

pub(super) async fn update_many(
    org: Org<UrlsWrite>,
    Body(mut request): Body<UrlsUpdate>,
) -> Result<Body<UpdatedUrls>> {
    let change = Arc::new(Change::of(&mut request)?);
    let filter = request.filter.map(UrlFilter::from);
    let chosen = Chosen::of(request.ids, filter, URLS_PER_REQUEST_MAX, UrlFilter::is_empty)?;
    let org = &org;
    let step = |ids: Vec<UrlId>, filter: Option<Arc<UrlFilter>>| {
        let change = Arc::clone(&change);
        org.write(move |tx| change.write(tx, ids, filter.as_deref()))
    };
    let mut answer = UpdatedUrls::default();
    match chosen {
        Chosen::Ids(ids) => {
            for ids in ids.chunks(STEP_ROWS) {
                answer.add(step(ids.to_vec(), None).await?);
            }
        }
        Chosen::Filter(filter) => {
            org.read(|tx| check_page_type(tx, "filter.pageType", filter.page_type))?;
            let filter = Arc::new(filter);
            let told = Mutex::new(answer);
            let find =
                |page: &PageRequest| org.read(|tx| Ok(find_page(tx, &filter, page)?.map(|row| row.id)));
            let go = |ids| {
                let (step, told) = (step(ids, Some(Arc::clone(&filter))), &told);
                async move {
                    let done = step.await?;
                    let count = done.updated;
                    told.lock().unwrap_or_else(PoisonError::into_inner).add(done);
                    Ok(count)
                }
            };
            let (_, next_cursor) = page_by_page(request.cursor, find, go).await?;
            answer = told.into_inner().unwrap_or_else(PoisonError::into_inner);
            answer.next_cursor = next_cursor;
        }
    }
    Ok(Body(answer))
}
