//! How far a request is, for those who watch it from outside.
//!
//! Where the box has few places (the browser) a request may wait for one before its own time begins. Whoever is asked for
//! it meanwhile can say so, and what only waits has asked nobody yet: it can be given up, and leaves no attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// One request's; all clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Stage(Arc<Mutex<StageState>>);

#[derive(Debug, Default)]
struct StageState {
    is_waiting: bool,
    has_waited: bool,
    /// When its time began, as far as it had to wait for that.
    begun: Option<Instant>,
}

/// A wait; over when dropped.
#[derive(Debug)]
pub struct StageWait(Stage);

impl Drop for StageWait {
    fn drop(&mut self) {
        self.0.0.lock().is_waiting = false;
    }
}

impl Stage {
    /// The request waits for a place as long as what is given back lives.
    pub fn wait(&self) -> StageWait {
        let mut staged = self.0.lock();
        (staged.is_waiting, staged.has_waited) = (true, true);
        drop(staged);
        StageWait(self.clone())
    }

    /// It has its place, and its time begins.
    pub fn begin(&self) {
        self.0.lock().begun.get_or_insert_with(Instant::now);
    }

    /// Whether it waits for a place now.
    pub fn is_waiting(&self) -> bool {
        self.0.lock().is_waiting
    }

    /// Whether it has done nothing but waiting, so that nobody was asked for it.
    pub fn has_only_waited(&self) -> bool {
        let staged = self.0.lock();
        staged.has_waited && staged.begun.is_none()
    }

    /// How long it waited until its time began; zero where it had not to.
    pub fn waited(&self, since: Instant) -> Duration {
        self.0.lock().begun.map_or(Duration::ZERO, |begun| begun.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_begins_and_may_wait_again() {
        let stage = Stage::default();
        let since = Instant::now();
        assert!(!stage.is_waiting() && !stage.has_only_waited(), "what needs no place does not wait");
        let watched = stage.clone();
        let waiting = stage.wait();
        assert!(watched.is_waiting() && watched.has_only_waited());
        stage.begin();
        drop(waiting);
        assert!(!watched.is_waiting() && !watched.has_only_waited());
        let waited = watched.waited(since);
        let again = stage.wait();
        assert!(watched.is_waiting() && !watched.has_only_waited(), "somebody was asked before");
        stage.begin();
        drop(again);
        assert_eq!(watched.waited(since), waited, "its first beginning counts");
    }
}
