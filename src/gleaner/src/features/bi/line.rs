//! How many statements of one organization run at once, and how many may wait (data/docs/sql.md, "Bounds").

use base::ids::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lines from which on those without a statement are forgotten.
const LINES_MIN: usize = 64;

/// The lines of all organizations. A line is remembered while a statement stands in it and a little longer: there are never
/// more than twice as many as those that are needed at once.
pub(super) struct Lines {
    running: usize,
    waiting: usize,
    known: Mutex<Known>,
}

struct Known {
    lines: HashMap<OrgId, Arc<Line>>,
    /// At so many those that nobody stands in go.
    sweep_at: usize,
}

impl Lines {
    /// Lines in which so many statements run at once, and so many may wait beyond them.
    pub(super) fn new(running: usize, waiting: usize) -> Lines {
        let known = Known { lines: HashMap::new(), sweep_at: LINES_MIN };
        Lines { running, waiting, known: Mutex::new(known) }
    }

    /// A place in an organization's line, if there is one.
    pub(super) fn enter(&self, org: OrgId) -> Option<StatementPermit> {
        let mut known = self.known.lock();
        if known.lines.len() >= known.sweep_at && !known.lines.contains_key(&org) {
            // Who has a place has its line.
            known.lines.retain(|_, line| Arc::strong_count(line) > 1);
            known.sweep_at = LINES_MIN.max(2 * known.lines.len());
        }
        let new = || Arc::new(Line::new(self.running, self.waiting));
        let line = Arc::clone(known.lines.entry(org).or_insert_with(new));
        line.enter()
    }

    /// Forgets the line of an organization that is gone.
    pub(super) fn forget(&self, org: OrgId) {
        self.known.lock().lines.remove(&org);
    }
}

/// One organization's places.
struct Line {
    /// Statements that run or wait.
    places: Arc<Semaphore>,
    /// Statements that run.
    slots: Arc<Semaphore>,
}

/// A place in the line; given back when dropped.
pub(super) struct StatementPermit {
    _place: OwnedSemaphorePermit,
    line: Arc<Line>,
}

impl Line {
    fn new(running: usize, waiting: usize) -> Line {
        let running = running.max(1);
        Line { places: Arc::new(Semaphore::new(running + waiting)), slots: Arc::new(Semaphore::new(running)) }
    }

    /// A place, if there is one.
    fn enter(self: Arc<Self>) -> Option<StatementPermit> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(StatementPermit { _place: place, line: self })
    }
}

impl StatementPermit {
    /// The right to run, if nobody is before.
    pub(super) fn try_run(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.line.slots).try_acquire_owned().ok()
    }

    /// Waits for the right to run; first come, first served.
    pub(super) async fn run(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.line.slots).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_and_slots_are_given_back() {
        let (lines, org) = (Lines::new(1, 1), OrgId::new());
        let (first, second) = (lines.enter(org).unwrap(), lines.enter(org).unwrap());
        assert!(lines.enter(org).is_none(), "one runs, one waits, a third is refused");
        assert!(lines.enter(OrgId::new()).is_some(), "another organization has a line of its own");
        let running = first.try_run().unwrap();
        assert!(second.try_run().is_none());
        drop(running);
        assert!(second.run().await.is_some());
        drop(first);
        assert!(lines.enter(org).is_some());
    }

    #[test]
    fn lines_that_nobody_stands_in_are_forgotten() {
        let (lines, org) = (Lines::new(1, 0), OrgId::new());
        let place = lines.enter(org).unwrap();
        for _ in 0..10 * LINES_MIN {
            drop(lines.enter(OrgId::new()).unwrap());
        }
        assert!(lines.known.lock().lines.len() <= LINES_MIN);
        assert!(lines.enter(org).is_none(), "the one that is in use is not");
        drop(place);
        assert!(lines.enter(org).is_some());
        // As many as are in use at once are known.
        let places: Vec<_> = (0..3 * LINES_MIN).map(|_| lines.enter(OrgId::new()).unwrap()).collect();
        assert!(lines.known.lock().lines.len() >= places.len());
        lines.forget(org);
    }
}
