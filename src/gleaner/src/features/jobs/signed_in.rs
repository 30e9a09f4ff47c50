//! Jobs for pages behind a login: stored together with the site session that they are sent with, and refused where nobody
//! would send it.

use super::changes::put;
use super::rows::JobV2;
use crate::features::site_sessions::{self, JOB_SESSIONS};
use crate::features::workflows::Connected;
use base::ids::{ProviderId, SiteSessionId};
use base::{Error, Result};
use store::{OrgRead, OrgWrite};

/// Stores a new job, with the site session that it is sent with.
pub(super) fn put_new(tx: &OrgWrite<'_>, job: &JobV2, session: Option<SiteSessionId>) -> Result<()> {
    put(tx, job, None)?;
    match session {
        Some(_) => site_sessions::name(tx, &JOB_SESSIONS, &job.id, session),
        None => Ok(()),
    }
}

/// Refuses what nobody could ask for: none of the providers that are asked sends site sessions.
pub(super) fn refuse_without_sender(
    connected: &[Connected],
    asked: impl Fn(ProviderId) -> bool,
) -> Result<()> {
    if connected.iter().any(|provider| provider.sends_sessions && asked(provider.id)) {
        return Ok(());
    }
    Err(Error::conflict(
        "A site session is sent by the providers direct, proxy and browser alone, and the job would ask none of them.",
    ))
}

/// The session for a job that asks for what `old` asked for.
pub(super) fn of_old(tx: &OrgRead<'_>, old: &JobV2) -> Result<Option<SiteSessionId>> {
    let Some(id) = site_sessions::named(tx, &JOB_SESSIONS, &old.id)? else { return Ok(None) };
    match site_sessions::is_known(tx, id)? {
        true => Ok(Some(id)),
        false => {
            Err(Error::conflict("The site session of the job was deleted; submit a job with another one."))
        }
    }
}
