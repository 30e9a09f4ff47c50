//! Trying a provider: one page, kept nowhere and charged to nobody, and therefore few of them.
//!
//! A test visits a target as a job does: within the visits that its domain may have at once, after the pauses that its
//! host asked for, and heeding what it says. How many there are is bounded by organization and for the box.

use super::accounts::{Account, Providers};
use super::adapters::visits_itself;
use super::test_limits::refuse;
use base::ids::OrgId;
use base::web::WebUrl;
use base::{Error, Result};
use fetch::{Attempt, FetchRequest, Permit, Politeness, VisitWait};
use std::time::{Duration, Instant};

/// How long a test waits until it may visit the domain, and for a place in the browser; and how often it looks.
const VISIT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Leave to visit the URL's domain, when it comes soon.
async fn permit(polite: &Politeness, url: &WebUrl) -> Result<Permit> {
    let (domain, host, begun) = (url.domain(), url.host(), Instant::now());
    loop {
        let now = Instant::now();
        let until = match polite.try_acquire(&domain, host, now) {
            Ok(permit) => return Ok(permit),
            Err(VisitWait::Busy) => now + LOOK_EVERY,
            Err(VisitWait::NotBefore(at) | VisitWait::HostNotBefore(at)) => at,
        };
        if until > begun + VISIT_WITHIN {
            let message = format!("{host} is left alone for now; jobs and tests wait for it alike.");
            return Err(refuse(message, until.saturating_duration_since(now)));
        }
        tokio::time::sleep(until.saturating_duration_since(now).min(LOOK_EVERY)).await;
    }
}

impl Providers {
    /// Fetches a page through an account of the organization to see how that goes. 429 when it has tried often enough, or
    /// the page's domain may not be visited soon.
    pub(super) async fn try_page(
        &self,
        org: OrgId,
        account: &Account,
        request: FetchRequest,
    ) -> Result<Attempt> {
        let _turn = self.trials().begin(org, Instant::now())?;
        let polite = self.politeness();
        let _visit = permit(polite, &request.url).await?;
        let request = FetchRequest { patience: VISIT_WITHIN, ..request };
        let attempt = self.fetch(account, request).await;
        if visits_itself(&account.adapter.id) {
            attempt.tell(polite, Instant::now());
        }
        match attempt.lack {
            Some(part) => Err(Error::unavailable(format!("The box has no {} left.", part.name()))),
            None => Ok(attempt),
        }
    }
}
