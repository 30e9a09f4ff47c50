//! Changing what hangs on a URL. Its text is what it is: another page is another URL.

use super::UrlView;
use super::derived::DerivedChanges;
use super::page_types::check_page_type;
use super::register::is_usable;
use super::rows::URLS;
use crate::features::site_sessions::{self, URL_SESSIONS};
use base::audit::Action;
use base::ids::{SiteSessionId, UrlId, WorkflowId};
use base::limits::{TAG_CHARS_MAX, TAGS_MAX};
use base::terms::PageType;
use base::{Error, Result, labels};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use server::permit::UrlsWrite;
use server::{Body, Etag, IfMatch, Org, Path};
use store::Event;

/// What is to be different. What is left out, or null, stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UrlUpdate")]
pub(super) struct UrlUpdate {
    /// All tags from now on; `[]` for none.
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    tags: Option<Vec<String>>,
    /// The whole object from now on, at most 16 KiB of JSON; `{}` for none.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    page_type: Option<PageType>,
    #[serde(default)]
    workflow_id: Option<WorkflowId>,
    /// A site session of the URL's domain: its jobs are sent with it, unless they name another one.
    #[serde(default)]
    site_session_id: Option<SiteSessionId>,
    /// What the URL is to have none of from now on.
    #[serde(default)]
    clear: Option<Vec<Clearable>>,
}

/// What null would mean if it did not mean that it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClearableOfUrl")]
pub(super) enum Clearable {
    PageType,
    WorkflowId,
    SiteSessionId,
}

pub(super) async fn update(
    org: Org<UrlsWrite>,
    Path(id): Path<UrlId>,
    condition: IfMatch,
    Body(update): Body<UrlUpdate>,
) -> Result<Body<UrlView>> {
    let tags = update.tags.map(|tags| labels::tags("tags", tags)).transpose()?;
    let metadata = match update.metadata {
        None => None,
        given => Some(labels::metadata("metadata", given)?),
    };
    let clears = |field| update.clear.iter().flatten().any(|clear| *clear == field);
    let (no_page_type, no_workflow) = (clears(Clearable::PageType), clears(Clearable::WorkflowId));
    let no_session = clears(Clearable::SiteSessionId);
    for (is_cleared, is_given, field) in [
        (no_page_type, update.page_type.is_some(), "pageType"),
        (no_workflow, update.workflow_id.is_some(), "workflowId"),
        (no_session, update.site_session_id.is_some(), "siteSessionId"),
    ] {
        if is_cleared && is_given {
            return Err(Error::invalid("clear", format!("names {field}, which is given as well")));
        }
    }
    let view = org.write(move |tx| {
        let before = tx.require(&URLS, &id)?;
        condition.check(&Etag::of(&UrlView::new(tx, before.clone())?)?)?;
        if let Some(workflow) = update.workflow_id
            && before.workflow_id != Some(workflow)
            && !is_usable(tx, workflow)?
        {
            return Err(Error::invalid("workflowId", format!("there is no workflow {workflow}")));
        }
        let had_session = site_sessions::shown(tx, &URL_SESSIONS, &id)?;
        let session = update.site_session_id.or(had_session).filter(|_| !no_session);
        if let Some(session) = session.filter(|_| session != had_session) {
            site_sessions::known_for(tx, "siteSessionId", session, &before.domain)?;
        }
        check_page_type(tx, "pageType", update.page_type.filter(|_| update.page_type != before.page_type))?;
        let mut row = before.clone();
        row.tags = tags.unwrap_or(row.tags);
        row.metadata = metadata.unwrap_or(row.metadata);
        row.page_type = update.page_type.or(row.page_type).filter(|_| !no_page_type);
        row.workflow_id = update.workflow_id.or(row.workflow_id).filter(|_| !no_workflow);
        if row == before && session == had_session {
            tx.unaudited("nothing is changed");
            return UrlView::new(tx, row);
        }
        site_sessions::name(tx, &URL_SESSIONS, &id, session)?;
        tx.put(&URLS, &id, &row)?;
        let mut changes = DerivedChanges::default();
        changes.note(Some(&before), Some(&row));
        changes.write(tx)?;
        tx.audit(Event::new(Action::UrlUpdated).of(id))?;
        UrlView::new(tx, row)
    });
    Ok(Body(view.await?))
}
