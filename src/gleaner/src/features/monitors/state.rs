//! What monitors need beside the store. Hung up in the services.

use crate::features::schedules::SeenTime;
use base::ids::{MonitorId, OrgId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use store::{Bell, OrgStore};

/// Where the log of an organization is looked at.
struct Listener {
    bell: Bell,
    /// Up to this place it was looked at; behind what is stored, nothing was there to be stored for.
    place: u64,
}

/// Who listens to schedules, and what rests.
#[derive(Default)]
pub(super) struct Watch {
    /// The organizations that have monitors of schedules.
    listeners: Mutex<HashMap<OrgId, Listener>>,
    /// Those whose logs are to be looked at whether or not a bell has sounded.
    looked_for: Mutex<HashSet<OrgId>>,
    /// Monitors that are not to be tried again before.
    resting: Mutex<HashMap<MonitorId, Instant>>,
    /// Monitors that cannot be read: nothing is tried with them until the box starts anew.
    broken: Mutex<HashSet<MonitorId>>,
    /// The latest time at which ticks were looked for.
    pub seen: SeenTime,
}

impl Watch {
    /// An organization has monitors of schedules, or others than it had.
    pub fn listen(&self, org: &OrgStore) {
        let mut listeners = self.listeners.lock();
        listeners.entry(org.id()).or_insert_with(|| Listener { bell: org.bell(), place: 0 });
        self.looked_for.lock().insert(org.id());
    }

    /// The log of this organization is to be looked at again.
    pub fn look_again(&self, org: OrgId) {
        self.looked_for.lock().insert(org);
    }

    /// The organizations whose logs have grown, or are to be looked at.
    pub fn due(&self) -> HashSet<OrgId> {
        let mut due: HashSet<OrgId> = self.looked_for.lock().drain().collect();
        for (org, listener) in self.listeners.lock().iter_mut() {
            if listener.bell.has_changed().unwrap_or(false) {
                listener.bell.borrow_and_update();
                due.insert(*org);
            }
        }
        due
    }

    /// How far a log was looked at.
    pub fn place(&self, org: OrgId) -> u64 {
        self.listeners.lock().get(&org).map_or(0, |listener| listener.place)
    }

    pub fn set_place(&self, org: OrgId, place: u64) {
        if let Some(listener) = self.listeners.lock().get_mut(&org) {
            listener.place = place;
        }
    }

    /// It has no monitors of schedules any more, or is gone.
    pub fn forget(&self, org: OrgId) {
        self.listeners.lock().remove(&org);
        self.looked_for.lock().remove(&org);
    }

    /// Leaves a monitor alone for so long.
    pub fn rest(&self, monitor: MonitorId, pause: Duration) {
        self.resting.lock().insert(monitor, Instant::now() + pause);
    }

    /// Leaves it alone until the box starts anew.
    pub fn give_up(&self, monitor: MonitorId) {
        self.broken.lock().insert(monitor);
    }

    /// Whether a monitor may be run now.
    pub fn is_awake(&self, monitor: MonitorId) -> bool {
        let mut resting = self.resting.lock();
        match resting.get(&monitor) {
            Some(until) if *until > Instant::now() => return false,
            Some(_) => drop(resting.remove(&monitor)),
            None => {}
        }
        !self.broken.lock().contains(&monitor)
    }
}
