//! The site session that a job names: opened before each visit, since it may have been deleted meanwhile, and what the site
//! said of it, which is written down when the job ends.

use super::super::ask::{MadeAttempt, request};
use super::Run;
use crate::features::site_sessions::{self, JOB_SESSIONS, OpenedSession, SessionUse};
use base::Result;
use base::ids::{JobId, SiteSessionId};
use dispatch::dag::Overrides;
use fetch::{FetchRequest, SiteSession};
use secrets::keyring::Keyring;
use std::sync::Arc;
use store::OrgRead;

/// What a run knows of its job's session.
#[derive(Default)]
pub(super) struct RunSession {
    named: Option<SiteSessionId>,
    /// None where the job names none, or where it cannot be sent.
    pub(super) opened: Option<Arc<SiteSession>>,
    /// Why it cannot be sent.
    unusable: Option<String>,
    /// The newest request that it was sent with.
    pub(super) used: Option<SessionUse>,
}

impl RunSession {
    pub(super) fn load(tx: &OrgRead<'_>, keyring: &Keyring, job: JobId) -> Result<RunSession> {
        let named = site_sessions::named(tx, &JOB_SESSIONS, &job)?;
        let mut session = RunSession { named, ..RunSession::default() };
        session.open(tx, keyring)?;
        Ok(session)
    }

    /// Opens it as it is now.
    fn open(&mut self, tx: &OrgRead<'_>, keyring: &Keyring) -> Result<()> {
        let Some(id) = self.named else { return Ok(()) };
        (self.opened, self.unusable) = match site_sessions::open(tx, keyring, id)? {
            OpenedSession::Ready(session) => (Some(session), None),
            OpenedSession::Unusable(reason) => (None, Some(reason)),
        };
        Ok(())
    }
}

impl Run<'_> {
    /// What a provider is asked.
    pub(super) fn request(&self, options: &Overrides) -> FetchRequest {
        FetchRequest { session: self.session.opened.clone(), ..request(&self.job, &self.url, options) }
    }

    /// Opens the job's session for the next visit; why there is none to be made, if it cannot be sent.
    pub(super) fn open_session(&mut self) -> Result<Option<String>> {
        if self.session.named.is_none() {
            return Ok(None);
        }
        let keyring = self.dispatcher.parts().keyring.clone();
        let (org, session) = (self.org, &mut self.session);
        org.read(|tx| session.open(tx, &keyring))?;
        Ok(self.session.unusable.clone())
    }

    /// Notes what an attempt says of the session.
    pub(super) fn note_session(&mut self, made: &MadeAttempt) {
        if let (Some(session), Some(verdict)) = (self.session.named, made.verdict) {
            self.session.used = Some(SessionUse { session, at: made.started_at, verdict });
        }
    }
}
