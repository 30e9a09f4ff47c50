//! Site sessions: cookies and headers with which a site knows the organization, for pages behind a login.
//!
//! [`given`]: what people hand over, read; [`sealed`]: how it is kept; [`mod@named`]: who names a session, and what becomes of
//! it; [`mod@judge`]: what a site's answer says of it. Values are sealed before they reach a row and opened for the request
//! that carries them; nothing shows them again. `fetch::session` has where they go.

mod given;
mod judge;
mod named;
mod rows;
mod sealed;

pub use judge::{SessionVerdict, judge};
pub use named::{
    OpenedSession, SessionUse, is_known, known, known_for, name, named, note, open, shown, wanted,
};
pub use rows::{JOB_SESSIONS, SCHEDULE_SESSIONS, URL_SESSIONS};

use super::Feature;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::SiteSessionId;
use base::limits::{NAME_CHARS_MAX, SITE_SESSIONS_PER_ORG_MAX};
use base::name::Name;
use base::page::{Page, PageRequest};
use base::web::{Domain, WebUrl};
use base::{Code, Error, Result};
use rows::{BY_DOMAIN, SITE_SESSIONS, SiteSessionKind, SiteSessionState, SiteSessionV1};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrets::keyring::Keyring;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::permit::{ProvidersRead, ProvidersWrite};
use server::{Body, Created, Handler, Need, NoContent, Org, Path, Query, Route};
use store::Event;

pub static FEATURE: Feature = Feature {
    name: "site-sessions",
    uses: &["events"],
    tables: &[&SITE_SESSIONS, &JOB_SESSIONS, &URL_SESSIONS, &SCHEDULE_SESSIONS],
    routes: &[
        Route::get("/api/v1/site-sessions", "listSiteSessions", &Handler::new(list))
            .about("The site sessions, newest first; never what they consist of."),
        Route::post("/api/v1/site-sessions", "createSiteSession", &Handler::new(create))
            .about("Keeps cookies or headers for a domain, sealed and never shown again; jobs name it in their options.")
            .fails(&[Code::Conflict]),
        Route::delete("/api/v1/site-sessions/{id}", "deleteSiteSession", &Handler::new(delete))
            .about("Forgets a site session; jobs that name it fail without a request."),
    ],
    needs: &[Need::of::<Keyring>()],
    events: &[&named::EXPIRED],
    ..Feature::NONE
};

/// A site session to be kept. It has no `Debug`: its values are for nobody's eyes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewSiteSession {
    /// A host or a URL of the site: the session is for its registrable domain, with all hosts under that.
    domain: String,
    /// What to call it; the domain when left out.
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    kind: SiteSessionKind,
    /// Cookies: a list of objects (`name`, `value`, and where known `domain`, `hostOnly`, `path`, `secure`, `httpOnly`,
    /// `expires`), as browsers' extensions export it; or as a text the same JSON, a cookies.txt, or a `Cookie` header.
    /// Headers: an object, or lines as a text.
    #[schemars(schema_with = "values_schema")]
    values: Value,
}

fn values_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "description": "32 KiB of names and values at most, of 100 cookies or 32 headers." })
}

/// A site session, without what it consists of.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SiteSessionView {
    id: SiteSessionId,
    /// The registrable domain whose hosts it is sent to.
    domain: String,
    name: String,
    kind: SiteSessionKind,
    /// Of its cookies or headers, in order.
    names: Vec<String>,
    state: SiteSessionState,
    /// When the first of its cookies is over; null where none has an end.
    expires_at: Option<Timestamp>,
    /// When a job was last sent with it; known when the job has ended.
    last_used_at: Option<Timestamp>,
    created_at: Timestamp,
    /// Cookies that were not kept, being of other domains or over; in the answer to createSiteSession alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
}

impl SiteSessionView {
    fn new(row: SiteSessionV1, now: Timestamp) -> SiteSessionView {
        let is_over = row.ends_at.is_some_and(|end| end <= now);
        SiteSessionView {
            id: row.id,
            domain: row.domain,
            name: row.name,
            kind: row.kind,
            names: row.names,
            state: if is_over { SiteSessionState::Expired } else { row.state },
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
            created_at: row.created_at,
            left_out: None,
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct SiteSessionFilter {
    domain: Option<String>,
}

async fn list(
    org: Org<ProvidersRead>,
    Query(filter): Query<SiteSessionFilter>,
    page: PageRequest,
) -> Result<Body<Page<SiteSessionView>>> {
    let domain = filter.domain.map(Domain::of_filter);
    let rows = org.read(|tx| match &domain {
        Some(domain) => tx.page_by(&SITE_SESSIONS, &BY_DOMAIN, domain, &page, |_| true),
        None => tx.page(&SITE_SESSIONS, &page, |_| true),
    })?;
    let now = org.store().clock().now();
    Ok(Body(rows.map(|row| SiteSessionView::new(row, now))))
}

/// The registrable domain of what was given: a host, or a URL of the site.
fn domain_of(given: &str) -> Result<Domain> {
    let invalid = |reason: String| Error::invalid("domain", reason);
    let domain = match given.contains("://") {
        true => WebUrl::parse(given).map(|url| url.domain()),
        false => Domain::parse(given),
    };
    let domain = domain.map_err(|e| invalid(e.to_string()))?;
    if domain.is_public_suffix() {
        return Err(invalid(format!("{domain} is shared by many sites; name a host of one of them")));
    }
    Ok(domain)
}

async fn create(
    org: Org<ProvidersWrite>,
    Body(new): Body<NewSiteSession>,
) -> Result<Created<SiteSessionView>> {
    let domain = domain_of(&new.domain)?;
    let name = Name::parse("name", new.name.as_deref().unwrap_or(domain.as_str()))?;
    let now = org.store().clock().now();
    let given = match new.kind {
        SiteSessionKind::Cookies => given::cookies(&new.values, &domain, now)?,
        SiteSessionKind::Headers => given::headers(&new.values)?,
    };
    let id = SiteSessionId::new();
    let row = SiteSessionV1 {
        id,
        domain: domain.as_str().to_owned(),
        name: name.into_string(),
        kind: new.kind,
        names: given.names,
        sealed: sealed::seal(&org.service::<Keyring>(), (org.id(), id), &given.values)?,
        expires_at: given.expires_at,
        ends_at: given.ends_at,
        state: SiteSessionState::Unknown,
        last_used_at: None,
        created_at: now,
    };
    let stored = row.clone();
    org.write(move |tx| {
        if tx.count(&SITE_SESSIONS, SITE_SESSIONS_PER_ORG_MAX)? >= SITE_SESSIONS_PER_ORG_MAX {
            return Err(Error::conflict(format!(
                "An organization has at most {SITE_SESSIONS_PER_ORG_MAX} site sessions; delete one first."
            )));
        }
        tx.insert(&SITE_SESSIONS, &id, &stored)?;
        tx.audit(Event::new(Action::SiteSessionCreated).of(id).with("domain", stored.domain.as_str()))
    })
    .await?;
    Ok(Created(SiteSessionView { left_out: Some(given.left_out), ..SiteSessionView::new(row, now) }))
}

async fn delete(org: Org<ProvidersWrite>, Path(id): Path<SiteSessionId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        let row = tx.require(&SITE_SESSIONS, &id)?;
        tx.delete(&SITE_SESSIONS, &id)?;
        tx.audit(Event::new(Action::SiteSessionDeleted).of(id).with("domain", row.domain.as_str()))
    });
    deleted.await.map(|()| NoContent)
}
