//! Which stored pages came as they would have come to anybody.
//!
//! A platform schema is everybody's, so what teaches or mends one is what everybody can see: a page that the box has fetched as nobody.
//! Left out are pages of site sessions and of headers of the caller's own, because label texts and classes of a private page would
//! stand in XPaths that all can read; and pages that came by a way which the organization controls (its own proxies, a
//! vendor's address that it has replaced), because there it could say of any site what it likes. What cannot be told any more
//! (the job is gone) is left out as well.

use crate::features::extraction::{ResultV4, Site};
use crate::features::jobs::JOBS;
use crate::features::providers::is_vouched_for;
use crate::features::site_sessions::{self, JOB_SESSIONS};
use base::Result;
use base::web::{Domain, host_of};
use fetch::Outcome;
use store::{OrgRead, readable};

/// Why a page may not concern others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Private {
    /// Another site has answered.
    OtherSite,
    JobGone,
    SignedIn,
    OwnHeaders,
    /// The organization controls the way by which it came.
    OwnWay,
}

/// Why a page may not concern others; none where it came as it would have come to anybody.
pub fn why_private(tx: &OrgRead<'_>, site: &Site, row: &ResultV4) -> Result<Option<Private>> {
    let answered = host_of(&row.final_url);
    let is_of_site = match site.host == site.domain {
        true => Domain::parse(answered).is_ok_and(|domain| domain.as_str() == site.domain),
        false => answered == site.host,
    };
    if !is_of_site {
        return Ok(Some(Private::OtherSite));
    }
    let job = readable("a job", row.job, tx.get(&JOBS, &row.job))?.flatten();
    let Some(job) = job else { return Ok(Some(Private::JobGone)) };
    // One that cannot be read is one that there is.
    let session = site_sessions::named(tx, &JOB_SESSIONS, &row.job);
    if readable("which site session a job names", row.job, session)?.is_none_or(|session| session.is_some()) {
        return Ok(Some(Private::SignedIn));
    }
    if !job.options.headers.is_empty() {
        return Ok(Some(Private::OwnHeaders));
    }
    let delivered = job.attempts.iter().rfind(|attempt| attempt.outcome == Outcome::Success);
    let delivering = delivered.map(|attempt| (attempt.provider_id.as_str(), attempt.started_at));
    Ok((!is_vouched_for(tx, &row.provider, delivering)?).then_some(Private::OwnWay))
}
