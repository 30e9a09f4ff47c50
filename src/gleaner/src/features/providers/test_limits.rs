//! How many tests of providers there may be: of an organization in a time, and of all at once.

use base::ids::OrgId;
use base::{Code, Error, Result};
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
pub(super) struct TestPermit<'a> {
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
    pub(super) fn begin(&self, org: OrgId, now: Instant) -> Result<TestPermit<'_>> {
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

/// The refusal of a test, and after how long to ask again.
pub(super) fn refuse(message: String, wait: Duration) -> Error {
    let seconds = wait.as_millis().div_ceil(1_000).max(1);
    Error::new(Code::RateLimited).message(message).header("retry-after", seconds.to_string())
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
