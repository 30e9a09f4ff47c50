//! The parts of the slice that hang in the box's services.

use super::filter::Selector;
use super::letter_places::LetterPlaces;
use super::room::Room;
use super::rows::OutputV2;
use super::turns::Turns;
use crate::features::mail::Mailer;
use base::clock::Moment;
use base::ids::{OrgId, OutputId};
use fetch::{Connector, Direct};
use parking_lot::Mutex;
use secrets::keyring::Keyring;
use secrets::link::Links;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use store::Bell;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Tests of an organization's endpoints that are under way at once.
const TESTS_PER_ORG: usize = 4;

/// What delivers. Hung up in the services.
pub(super) struct Deliverer {
    pub direct: Arc<Direct>,
    pub keyring: Arc<Keyring>,
    pub mailer: Arc<Mailer>,
    pub links: Arc<Links>,
    /// Connections for letters.
    pub letters: Arc<LetterPlaces>,
    /// Letters of an organization in an hour.
    pub letters_per_hour: u32,
    /// How people reach the box, without a slash at the end.
    pub url: String,
    /// How long deliveries that have ended are kept, and how many of an organization there are at most.
    pub kept_for: Duration,
    pub rows_max: u64,
    pub turns: Turns,
    /// Where files go.
    pub room: Arc<Room>,
    /// The organizations that have outputs, each with what hears when its log has grown.
    bells: Mutex<HashMap<OrgId, Listener>>,
    /// Those whose logs are to be looked at.
    looked_for: Mutex<HashSet<OrgId>>,
    /// Sounds when there is one.
    wake: Notify,
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

/// What a [`Deliverer`] is made of.
pub(super) struct DelivererParts<'a> {
    pub direct: Arc<Direct>,
    pub keyring: Arc<Keyring>,
    pub mailer: Arc<Mailer>,
    pub links: Arc<Links>,
    pub url: &'a str,
    pub kept_for: Duration,
    pub rows_max: u64,
    pub letters_per_hour: u32,
    pub room: Room,
}

impl Deliverer {
    pub fn new(parts: DelivererParts<'_>) -> Deliverer {
        Deliverer {
            direct: parts.direct,
            keyring: parts.keyring,
            mailer: parts.mailer,
            links: parts.links,
            letters: Arc::default(),
            letters_per_hour: parts.letters_per_hour,
            url: parts.url.to_owned(),
            kept_for: parts.kept_for,
            rows_max: parts.rows_max,
            turns: Turns::default(),
            room: Arc::new(parts.room),
            bells: Mutex::default(),
            looked_for: Mutex::default(),
            wake: Notify::new(),
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
        self.wake.notify_one();
    }

    /// The organizations whose logs are to be looked at; each is named once.
    pub fn to_look_at(&self) -> Vec<OrgId> {
        self.looked_for.lock().drain().collect()
    }

    /// Waits until [`Deliverer::look_again`] names an organization.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Hears from now on when the organization's log grows: its outputs look at it then.
    pub fn listen_to(self: &Arc<Deliverer>, org: OrgId, bell: impl FnOnce() -> Bell) {
        let mut bells = self.bells.lock();
        if bells.get(&org).is_some_and(|listener| !listener.0.is_finished()) {
            return;
        }
        // What hears holds nothing of the box that would keep it from ending.
        let (mut bell, deliverer) = (bell(), Arc::downgrade(self));
        let hears = tokio::spawn(async move {
            while bell.changed().await.is_ok() {
                let Some(deliverer) = deliverer.upgrade() else { return };
                deliverer.look_again(org);
            }
        });
        bells.insert(org, Listener(hears));
    }

    /// The organization has no outputs: who makes one says so.
    pub fn ignore(&self, org: OrgId) {
        self.bells.lock().remove(&org);
    }

    /// A batch of the organization has waited long enough at that moment; none waits where there is none.
    pub fn expect_batch(&self, org: OrgId, at: Option<Moment>) {
        let mut batches = self.batches.lock();
        match at {
            Some(at) => drop(batches.insert(org, at)),
            None => drop(batches.remove(&org)),
        }
    }

    /// When the first batch of all has waited long enough.
    pub fn next_batch(&self) -> Option<Moment> {
        self.batches.lock().values().min().copied()
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

/// Hears an organization's bell, until it is dropped.
struct Listener(JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
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
