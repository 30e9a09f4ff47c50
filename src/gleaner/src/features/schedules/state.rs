//! What the scheduler knows beside the store: whether the clock went back, and what the operator is told.

use base::clock::{Moment, Timestamp};
use base::ids::{OrgId, ScheduleId, ScheduleRunId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// A schedule of an organization.
pub(super) type Which = (OrgId, ScheduleId);

/// Hung up in the services.
pub struct Scheduler {
    pub(super) max_urls: usize,
    pub(super) seen: SeenTime,
    /// Those that cannot be read, and why.
    unreadable: Mutex<BTreeMap<Which, String>>,
    overdue: Mutex<BTreeMap<Which, Overdue>>,
    /// Where following goes on.
    pub(super) followed: Mutex<Option<Vec<u8>>>,
    pub(super) begun: AtomicU64,
    missed: AtomicU64,
    /// Ticks that could not be decided, since that was last told.
    pub(super) undecided: AtomicU64,
    /// Runs whose row is damaged: nothing is tried with them until the box starts anew.
    unreadable_runs: Mutex<BTreeSet<ScheduleRunId>>,
}

/// When ticks were last looked for: what was decided ahead of a clock that went back is decided anew.
#[derive(Default)]
pub struct SeenTime(Mutex<Option<Timestamp>>);

impl SeenTime {
    /// Whether everything is to be looked at: at a start, and when dates went back. `now` counts from then on.
    pub fn is_new(&self, now: Timestamp) -> bool {
        let mut seen = self.0.lock();
        let is_new = seen.is_none_or(|seen| now < seen);
        *seen = Some(now);
        is_new
    }

    /// The look at everything did not come to its end, and is made again.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

/// A tick whose time has passed without a row.
struct Overdue {
    due: Option<Timestamp>,
    since: Moment,
    is_told: bool,
}

impl Scheduler {
    pub(super) fn new(max_urls: usize) -> Scheduler {
        Scheduler {
            max_urls,
            seen: SeenTime::default(),
            unreadable: Mutex::default(),
            overdue: Mutex::default(),
            followed: Mutex::default(),
            begun: AtomicU64::default(),
            missed: AtomicU64::default(),
            undecided: AtomicU64::default(),
            unreadable_runs: Mutex::default(),
        }
    }

    pub(super) fn run_is_unreadable(&self, run: ScheduleRunId) {
        self.unreadable_runs.lock().insert(run);
    }

    pub(super) fn is_run_unreadable(&self, run: ScheduleRunId) -> bool {
        self.unreadable_runs.lock().contains(&run)
    }

    /// Notes that a schedule cannot be read; whether that is news.
    pub(super) fn is_unreadable(&self, which: Which, reason: &str) -> bool {
        self.unreadable.lock().insert(which, reason.to_owned()).is_none()
    }

    pub(super) fn is_known_unreadable(&self, which: Which) -> bool {
        self.unreadable.lock().contains_key(&which)
    }

    /// People have changed or deleted it.
    pub(super) fn mended(&self, which: Which) {
        self.unreadable.lock().remove(&which);
    }

    /// Everything of the organization is gone.
    pub(super) fn forget(&self, org: OrgId) {
        self.unreadable.lock().retain(|(owner, _), _| *owner != org);
        self.overdue.lock().retain(|(owner, _), _| *owner != org);
    }

    /// Takes in which ticks are overdue now, by the time that they stand under; gives those that have been so for `least` by
    /// the box's own time, each once.
    pub(super) fn overdue(
        &self,
        found: Vec<(Which, Option<Timestamp>)>,
        now: Moment,
        least: std::time::Duration,
    ) -> Vec<Which> {
        let mut known = self.overdue.lock();
        let mut next = BTreeMap::new();
        let mut news = Vec::new();
        for (which, due) in found {
            let mut entry = match known.remove(&which) {
                Some(entry) if entry.due == due => entry,
                _ => Overdue { due, since: now, is_told: false },
            };
            if !entry.is_told && now.since(entry.since) >= least {
                entry.is_told = true;
                news.push(which);
            }
            next.insert(which, entry);
        }
        *known = next;
        self.missed.fetch_add(news.len() as u64, Ordering::Relaxed);
        news
    }

    /// Ticks whose time has passed and that have no row.
    pub(super) fn overdue_count(&self) -> usize {
        self.overdue.lock().len()
    }

    /// Ticks that were reported as missed since the start.
    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn unreadable(&self) -> Vec<(Which, String)> {
        self.unreadable.lock().iter().map(|(which, reason)| (*which, reason.clone())).collect()
    }
}
