//! A person's own logins: which there are, and ending them from elsewhere.
//!
//! They are of a person, not of an organization, and for the person's own session alone: a key that was lost must not be able to
//! sign its maker out.

use super::rows::{RefreshFamilyV2, USERS, member_of};
use super::{networks, session};
use base::audit::Action;
use base::clock::{Now, Timestamp};
use base::ids::SessionId;
use base::page::Page;
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::Serialize;
use server::{Body, Browser, ClientIp, Handler, NoContent, Path, Route};
use store::Event;

pub(super) const LIST: Route = Route::get("/api/v1/account/sessions", "listSessions", &Handler::new(list))
    .about(
        "The caller's logins that have not ended, the newest first: never more than 100, all in one answer.",
    );
pub(super) const END: Route =
    Route::delete("/api/v1/account/sessions/{id}", "endSession", &Handler::new(end))
        .about("Ends one of the caller's logins with its tokens, at once.")
        .fails(&[Code::NotFound]);
pub(super) const END_OTHERS: Route =
    Route::delete("/api/v1/account/sessions", "endOtherSessions", &Handler::new(end_others)).about(
        "Ends every login of the caller but this one, with every access token and link that was handed out so far. A caller with an \
         access token refreshes it.",
    );

/// A login of a person.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionView {
    id: SessionId,
    /// Whether it is the one that asks.
    is_current: bool,
    /// Whether it came through the company's provider.
    is_by_provider: bool,
    created_at: Timestamp,
    /// When its tokens were last replaced. A browser's session keeps the one that it began with.
    refreshed_at: Timestamp,
    /// When it ends unless it is refreshed.
    expires_at: Timestamp,
}

impl SessionView {
    fn new(row: &RefreshFamilyV2, current: Option<SessionId>, now: &Now) -> SessionView {
        let id = SessionId(row.family);
        SessionView {
            id,
            is_current: current == Some(id),
            is_by_provider: row.provider.is_some(),
            created_at: row.created_at,
            refreshed_at: row.refreshed_at,
            expires_at: now.date_of(row.expires_at),
        }
    }
}

/// How many logins have ended.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EndedSessionsView {
    ended: usize,
}

async fn list(caller: Browser) -> Result<Body<Page<SessionView>>> {
    let principal = caller.principal();
    let (rows, now) = (caller.system().read(|tx| session::all_of(tx, principal.user()))?, caller.look());
    let items = rows.iter().map(|row| SessionView::new(row, principal.session(), &now)).collect();
    Ok(Body(Page { items, next_cursor: None }))
}

async fn end(caller: Browser, Path(id): Path<SessionId>) -> Result<NoContent> {
    let user = caller.principal().user();
    caller
        .system()
        .write_reserved(move |tx| {
            session::finish_one(tx, user, id)?;
            let org = tx.get(&USERS, &user)?.as_ref().and_then(member_of);
            tx.audit_in(org, Event::new(Action::AuthLogout).of(user).by(user))
        })
        .await?;
    Ok(NoContent)
}

async fn end_others(caller: Browser, ClientIp(ip): ClientIp) -> Result<Body<EndedSessionsView>> {
    let (id, current) = (caller.principal().user(), caller.principal().session());
    let ended = caller
        .system()
        .write_reserved(move |tx| {
            let mut user = tx.get(&USERS, &id)?.ok_or_else(|| Error::new(Code::AuthInvalid))?;
            let ended = session::end_others(tx, &mut user, current)?;
            tx.put(&USERS, &id, &user)?;
            // Whoever asks is at home where they ask from.
            networks::learn(tx, id, ip)?;
            let event = Event::new(Action::AuthLogout).of(id).by(id).with("sessions", ended);
            tx.audit_in(member_of(&user), event)?;
            Ok(ended)
        })
        .await?;
    Ok(Body(EndedSessionsView { ended }))
}
