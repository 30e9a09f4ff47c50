//! The runs that go on here, and how each is told that its job was canceled.

use super::ask::AttemptLog;
use base::ids::{JobId, OrgId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::Notify;

type Key = (OrgId, JobId);

/// Of most jobs one run; of a job that was put back the earlier run may be about to end while the next one is claimed.
#[derive(Default)]
pub(super) struct RunRegistry(Mutex<HashMap<Key, Vec<Arc<RunHandle>>>>);

/// A run, as others see it.
#[derive(Default)]
pub(super) struct RunHandle {
    /// Tells it that its job was canceled.
    pub canceled: Notify,
    pub trail: AttemptLog,
}

impl RunRegistry {
    /// A run begins, or may: from here on it hears of a cancel.
    pub fn begin(&self, key: Key) -> Arc<RunHandle> {
        let run = Arc::<RunHandle>::default();
        self.0.lock().entry(key).or_default().push(Arc::clone(&run));
        run
    }

    /// A run is over, or never came to be.
    pub fn end(&self, key: Key, over: &Arc<RunHandle>) {
        let mut all = self.0.lock();
        if let Some(runs) = all.get_mut(&key) {
            runs.retain(|run| !Arc::ptr_eq(run, over));
            if runs.is_empty() {
                all.remove(&key);
            }
        }
    }

    /// Tells every run of the job that it is to end.
    pub fn abandon(&self, key: Key) {
        self.0.lock().get(&key).into_iter().flatten().for_each(|run| run.canceled.notify_one());
    }

    /// Whether a job that runs here only waits for a place in the browser.
    pub fn waits_for_place(&self, key: Key) -> bool {
        self.0.lock().get(&key).into_iter().flatten().any(|run| run.trail.waits_for_place())
    }

    pub fn ids(&self) -> HashSet<Key> {
        self.0.lock().keys().copied().collect()
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_cancel_is_heard_by_a_run_that_is_claimed_while_the_one_before_it_ends() {
        let (running, key) = (RunRegistry::default(), (OrgId::new(), JobId::new()));
        let heard = |run: &Arc<RunHandle>| run.canceled.notified().now_or_never().is_some();
        // Parked without a pause: the job is claimed again before its earlier run is forgotten.
        let first = running.begin(key);
        let second = running.begin(key);
        running.end(key, &first);
        assert_eq!((running.len(), running.ids().contains(&key)), (1, true));
        running.abandon(key);
        assert!(heard(&second) && !heard(&first));
        running.end(key, &second);
        assert_eq!(running.len(), 0);
        running.abandon(key);
        assert!(!heard(&second));
    }
}
