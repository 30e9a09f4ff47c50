//! Trying a provider: one page, kept nowhere and charged to nobody, and therefore few of them.
//!
//! A test visits a target as a job does: within the visits that its domain may have at once, after the pauses that its
//! host asked for, and heeding what it says. How many there are is bounded by organization and for the box.

use super::accounts::{Account, Providers};
use super::adapters::visits_itself;
use base::ids::OrgId;
use base::web::WebUrl;
use base::{Code, Error, Result};
use fetch::{Attempt, FetchRequest, Permit, Politeness, VisitWait};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Tests of one organization in [`WINDOW`].
pub(super) const TESTS_MAX: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Tests of one organization, and of all, at once.
const AT_ONCE_PER_ORG: usize = 2;
const AT_ONCE: usize = 8;
/// How long a test waits until it may visit the domain, and for a place in the browser; and how often it looks.
const VISIT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What organizations have tried lately.
pub(super) struct ProviderTests {
    by_org: Mutex<HashMap<OrgId, RecentTests>>,
    room: Arc<Semaphore>,
}

#[derive(Default)]
struct RecentTests {
    /// When tests began, oldest first, of the last [`WINDOW`].
    at: VecDeque<Instant>,
    running: usize,
}

impl Default for ProviderTests {
    fn default() -> Self {
        ProviderTests { by_org: Mutex::default(), room: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

/// A test under way.
struct TestPermit<'a> {
    trials: &'a ProviderTests,
    org: OrgId,
    _room: OwnedSemaphorePermit,
}

impl Drop for TestPermit<'_> {
    fn drop(&mut self) {
        if let Some(tried) = self.trials.by_org.lock().get_mut(&self.org) {
            tried.running -= 1;
        }
    }
}

impl ProviderTests {
    /// Begins a test, or refuses it with 429 and how long to wait.
    fn begin(&self, org: OrgId, now: Instant) -> Result<TestPermit<'_>> {
        let mut by_org = self.by_org.lock();
        by_org.retain(|_, tried| {
            while tried.at.front().is_some_and(|at| now.saturating_duration_since(*at) >= WINDOW) {
                tried.at.pop_front();
            }
            tried.running > 0 || !tried.at.is_empty()
        });
        let tried = by_org.entry(org).or_default();
        if tried.at.len() >= TESTS_MAX {
            let wait = tried.at.front().map_or(WINDOW, |at| WINDOW.saturating_sub(now - *at));
            return Err(refuse(format!("An organization tests providers {TESTS_MAX} times a minute."), wait));
        }
        let soon = Duration::from_secs(1);
        if tried.running >= AT_ONCE_PER_ORG {
            let message = format!("{AT_ONCE_PER_ORG} tests of your organization are under way.");
            return Err(refuse(message, soon));
        }
        let room = self.room.clone().try_acquire_owned();
        let room = room.map_err(|_| refuse("Other tests are under way on this box.".to_owned(), soon))?;
        tried.at.push_back(now);
        tried.running += 1;
        Ok(TestPermit { trials: self, org, _room: room })
    }
}

fn refuse(message: String, wait: Duration) -> Error {
    let seconds = wait.as_millis().div_ceil(1_000).max(1);
    Error::new(Code::RateLimited).message(message).header("retry-after", seconds.to_string())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organization_tests_so_often_and_others_all_the_same() {
        let trials = ProviderTests::default();
        let (one, other, now) = (OrgId::new(), OrgId::new(), Instant::now());
        for _ in 0..TESTS_MAX {
            drop(trials.begin(one, now).unwrap());
        }
        assert_eq!(trials.begin(one, now).err().unwrap().code(), Code::RateLimited);
        let _theirs = trials.begin(other, now).unwrap();
        let later = now + WINDOW;
        let _first = trials.begin(one, later).unwrap();
        let _second = trials.begin(one, later).unwrap();
        assert!(trials.begin(one, later).is_err(), "two at once");
        assert!(trials.by_org.lock().len() <= 2);
    }
}
