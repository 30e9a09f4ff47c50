//! How many statements of one organization run at once, and how many may wait (interface spec, "Limits").

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One organization's places.
pub(super) struct Line {
    /// Statements that run or wait.
    places: Arc<Semaphore>,
    /// Statements that run.
    slots: Arc<Semaphore>,
}

/// A place in the line; given back when dropped.
pub(super) struct Place {
    _place: OwnedSemaphorePermit,
    slots: Arc<Semaphore>,
}

impl Line {
    pub(super) fn new(running: usize, waiting: usize) -> Line {
        let running = running.max(1);
        Line { places: Arc::new(Semaphore::new(running + waiting)), slots: Arc::new(Semaphore::new(running)) }
    }

    /// A place, if there is one.
    pub(super) fn enter(&self) -> Option<Place> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Place { _place: place, slots: Arc::clone(&self.slots) })
    }
}

impl Place {
    /// The right to run, if nobody is before.
    pub(super) fn try_run(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    /// Waits for the right to run; first come, first served.
    pub(super) async fn run(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_and_slots_are_given_back() {
        let line = Line::new(1, 1);
        let (first, second) = (line.enter().unwrap(), line.enter().unwrap());
        assert!(line.enter().is_none(), "one runs, one waits, a third is refused");
        let running = first.try_run().unwrap();
        assert!(second.try_run().is_none());
        drop(running);
        assert!(second.run().await.is_some());
        drop(first);
        assert!(line.enter().is_some());
    }
}
