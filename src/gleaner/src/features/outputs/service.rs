//! The parts of the slice that hang in the box's services.

use super::filter::Selector;
use super::room::Room;
use super::rows::OutputV2;
use super::turns::Turns;
use base::clock::Moment;
use base::ids::{OrgId, OutputId};
use fetch::{Connector, Direct};
use parking_lot::Mutex;
use secrets::keyring::Keyring;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use store::Bell;

/// Tests of an organization's endpoints that are under way at once.
const TESTS_PER_ORG: usize = 4;

/// What delivers. Hung up in the services.
pub(super) struct Deliverer {
    pub direct: Arc<Direct>,
    pub keyring: Arc<Keyring>,
    /// How people reach the box, without a slash at the end.
    pub url: String,
    /// How long deliveries that have ended are kept, and how many of an organization there are at most.
    pub kept_for: Duration,
    pub rows_max: u64,
    pub turns: Turns,
    /// Where files go.
    pub room: Arc<Room>,
    /// The organizations that have outputs, each with what sounds when its log has grown.
    pub bells: Mutex<HashMap<OrgId, Bell>>,
    /// Those whose logs are to be looked at whether or not it has sounded.
    pub looked_for: Mutex<HashSet<OrgId>>,
    /// Filters as they were made of their rows, with the revision of those.
    selectors: Mutex<HashMap<OutputId, (u64, Arc<Selector>)>>,
    tests: Mutex<HashMap<OrgId, usize>>,
    /// When the first of an organization's batches that are not whole yet has waited long enough.
    batches: Mutex<HashMap<OrgId, Moment>>,
    /// Outputs that rest between two turns, and until when.
    resting: Mutex<HashMap<OutputId, Moment>>,
}

/// Filters that are remembered.
const SELECTORS_KEPT: usize = 10_000;
/// Outputs that rest, before those that do not any more are forgotten.
const RESTING_KEPT: usize = 10_000;

impl Deliverer {
    pub fn new(
        direct: Arc<Direct>,
        keyring: Arc<Keyring>,
        url: &str,
        (kept_for, rows_max): (Duration, u64),
        room: Room,
    ) -> Deliverer {
        Deliverer {
            direct,
            keyring,
            url: url.to_owned(),
            kept_for,
            rows_max,
            turns: Turns::default(),
            room: Arc::new(room),
            bells: Mutex::default(),
            looked_for: Mutex::default(),
            selectors: Mutex::default(),
            tests: Mutex::default(),
            batches: Mutex::default(),
            resting: Mutex::default(),
        }
    }

    pub fn connector(&self) -> &Connector {
        self.direct.connector()
    }

    /// The filter of an output.
    pub fn selector(&self, row: &OutputV2) -> Arc<Selector> {
        if let Some((revision, selector)) = self.selectors.lock().get(&row.id)
            && *revision == row.revision
        {
            return Arc::clone(selector);
        }
        // Patterns are compiled: not while others wait.
        let selector = Arc::new(Selector::of(row));
        let mut selectors = self.selectors.lock();
        if selectors.len() >= SELECTORS_KEPT {
            selectors.clear();
        }
        selectors.insert(row.id, (row.revision, Arc::clone(&selector)));
        selector
    }

    /// Lets an output rest until a moment.
    pub fn rest(&self, output: OutputId, until: Moment, now: Moment) {
        let mut resting = self.resting.lock();
        if resting.len() >= RESTING_KEPT {
            resting.retain(|_, until| *until > now);
        }
        resting.insert(output, until);
    }

    /// Until when an output rests.
    pub fn rests_until(&self, output: OutputId, now: Moment) -> Option<Moment> {
        self.resting.lock().get(&output).copied().filter(|until| *until > now)
    }

    /// The organization's outputs are others than they were, or are to look at the log anew.
    pub fn look_again(&self, org: OrgId) {
        self.looked_for.lock().insert(org);
    }

    /// A batch of the organization has waited long enough at that moment; none waits where there is none.
    pub fn expect_batch(&self, org: OrgId, at: Option<Moment>) {
        let mut batches = self.batches.lock();
        match at {
            Some(at) => drop(batches.insert(org, at)),
            None => drop(batches.remove(&org)),
        }
    }

    /// The organizations with a batch that has waited long enough; each is named once.
    pub fn batches_due(&self, now: Moment) -> Vec<OrgId> {
        let mut batches = self.batches.lock();
        let due: Vec<_> = batches.iter().filter(|(_, at)| **at <= now).map(|(org, _)| *org).collect();
        batches.retain(|org, _| !due.contains(org));
        due
    }

    /// Keeps nothing of an organization any more.
    pub fn forget(&self, org: OrgId) {
        self.turns.forget(org);
        self.bells.lock().remove(&org);
        self.looked_for.lock().remove(&org);
        self.batches.lock().remove(&org);
    }

    /// A place for a test of an endpoint; none when the organization has as many as it may.
    pub fn test_place(self: &Arc<Deliverer>, org: OrgId) -> Option<TestPlace> {
        let mut tests = self.tests.lock();
        let own = tests.entry(org).or_default();
        if *own >= TESTS_PER_ORG {
            return None;
        }
        *own += 1;
        Some(TestPlace { deliverer: Arc::clone(self), org })
    }
}

/// A test that is under way; dropping it gives its place back.
pub(super) struct TestPlace {
    deliverer: Arc<Deliverer>,
    org: OrgId,
}

impl Drop for TestPlace {
    fn drop(&mut self) {
        let mut tests = self.deliverer.tests.lock();
        match tests.get_mut(&self.org) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(tests.remove(&self.org)),
        }
    }
}
