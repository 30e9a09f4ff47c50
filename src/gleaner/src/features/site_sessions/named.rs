//! Who names a session, what it is found by, and what is learned of it when it was used; inside the caller's transaction.

use super::judge::SessionVerdict;
use super::rows::{NamedSessionV1, SITE_SESSIONS, SiteSessionState, SiteSessionV1, URL_SESSIONS};
use super::sealed;
use crate::features::events::{EventKind, NewEvent};
use base::clock::Timestamp;
use base::ids::{SiteSessionId, UrlId};
use base::permission::Permission;
use base::{Error, Result};
use fetch::SiteSession;
use secrets::keyring::Keyring;
use serde_json::json;
use std::sync::Arc;
use store::{Key, OrgRead, OrgTable, OrgWrite, readable};

pub(super) static EXPIRED: EventKind = EventKind::new(
    "site_session.expired",
    Permission::ProvidersRead,
    "A site does not accept a session any more: it asks for a login (`name`, `url` that was asked for).",
);

/// The session that is named under `key`, in [`JOB_SESSIONS`](super::JOB_SESSIONS) and its like.
pub fn named<K: Key>(
    tx: &OrgRead<'_>,
    table: &OrgTable<K, NamedSessionV1>,
    key: &K,
) -> Result<Option<SiteSessionId>> {
    Ok(tx.get(table, key)?.map(|row| row.session))
}

/// The same for what is shown: what cannot be read keeps nothing else from being shown.
pub fn shown<K: Key>(
    tx: &OrgRead<'_>,
    table: &OrgTable<K, NamedSessionV1>,
    key: &K,
) -> Result<Option<SiteSessionId>> {
    let row = readable("which site session something names", table.name(), tx.get(table, key))?;
    Ok(row.flatten().map(|row| row.session))
}

/// Writes down which session is named under `key`; none for none any more.
pub fn name<K: Key>(
    tx: &OrgWrite<'_>,
    table: &OrgTable<K, NamedSessionV1>,
    key: &K,
    session: Option<SiteSessionId>,
) -> Result<()> {
    match session {
        Some(session) => tx.put(table, key, &NamedSessionV1 { session }),
        None => tx.delete(table, key).map(drop),
    }
}

/// The session of this id; `field` names it where there is none.
pub fn known(tx: &OrgRead<'_>, field: &str, id: SiteSessionId) -> Result<SiteSessionV1> {
    let missing = || {
        let reason = format!("{field}: is no site session of this organization");
        Error::not_found(SITE_SESSIONS.noun()).message(reason)
    };
    tx.get(&SITE_SESSIONS, &id)?.ok_or_else(missing)
}

/// Whether there is a session of this id.
pub fn is_known(tx: &OrgRead<'_>, id: SiteSessionId) -> Result<bool> {
    Ok(tx.get(&SITE_SESSIONS, &id)?.is_some())
}

/// The session of this id, for something of `domain`.
pub fn known_for(tx: &OrgRead<'_>, field: &str, id: SiteSessionId, domain: &str) -> Result<SiteSessionV1> {
    let row = known(tx, field, id)?;
    if row.domain != domain {
        let reason = format!("is for {}, and the URL is of {domain}", row.domain);
        return Err(Error::invalid(field, reason));
    }
    Ok(row)
}

/// The session that a job of `domain` is sent with: the one that it names, else the one of its registered URL.
pub fn wanted(
    tx: &OrgRead<'_>,
    field: &str,
    (given, url): (Option<SiteSessionId>, Option<UrlId>),
    domain: &str,
) -> Result<Option<SiteSessionId>> {
    if let Some(id) = given {
        return known_for(tx, field, id, domain).map(|row| Some(row.id));
    }
    let Some(id) = url.map(|url| named(tx, &URL_SESSIONS, &url)).transpose()?.flatten() else {
        return Ok(None);
    };
    if !is_known(tx, id)? {
        return Err(Error::conflict(
            "The site session of the URL was deleted. Give the URL another one, or none (clear), with PATCH.",
        ));
    }
    Ok(Some(id))
}

/// A session that is to be sent.
pub enum OpenedSession {
    Ready(Arc<SiteSession>),
    /// It cannot be, and why: nobody is asked without it.
    Unusable(String),
}

/// The session of this id, opened.
pub fn open(tx: &OrgRead<'_>, keyring: &Keyring, id: SiteSessionId) -> Result<OpenedSession> {
    let Some(row) = tx.get(&SITE_SESSIONS, &id)? else {
        let reason = "its site session was deleted, and without it nobody is asked";
        return Ok(OpenedSession::Unusable(reason.to_owned()));
    };
    let now = tx.now();
    if let Some(end) = row.ends_at.filter(|end| *end <= now) {
        let reason = format!("the cookies of its site session are over since {end}");
        return Ok(OpenedSession::Unusable(reason));
    }
    Ok(match sealed::open(keyring, tx.org_id(), &row, now) {
        Ok(session) => OpenedSession::Ready(session),
        Err(error) => {
            tracing::error!(session = %id, %error, "a site session cannot be opened");
            OpenedSession::Unusable("its site session cannot be opened with the keys of this box".to_owned())
        }
    })
}

/// That a session was sent.
#[derive(Clone, Copy, Debug)]
pub struct SessionUse {
    pub session: SiteSessionId,
    pub at: Timestamp,
    pub verdict: SessionVerdict,
}

/// Writes down that a session was used for `url`, and what the site said of it.
pub fn note(tx: &OrgWrite<'_>, used: SessionUse, url: &str) -> Result<()> {
    // What cannot be read, or was deleted meanwhile, keeps no job from ending.
    let row = readable("a site session", used.session, tx.get(&SITE_SESSIONS, &used.session))?;
    let Some(mut row) = row.flatten() else { return Ok(()) };
    let is_newest = row.last_used_at.is_none_or(|last| last <= used.at);
    if !is_newest {
        return Ok(());
    }
    row.last_used_at = Some(used.at);
    let was = row.state;
    row.state = match used.verdict {
        SessionVerdict::Accepted => SiteSessionState::Ok,
        SessionVerdict::Refused => SiteSessionState::Expired,
        SessionVerdict::Unclear => was,
    };
    if row.state == SiteSessionState::Expired && was != SiteSessionState::Expired {
        let data = json!({ "name": row.name, "url": url });
        NewEvent::of(&EXPIRED, row.id).about(&row.domain, &[]).data(data).write(tx)?;
    }
    tx.put(&SITE_SESSIONS, &used.session, &row)
}
