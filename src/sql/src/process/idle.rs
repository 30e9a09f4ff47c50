//! Workers that wait for work.
//!
//! Two kinds: fresh ones, which belong to nobody and may become anybody's, and bound ones, which have served an
//! organization and serve it again or nobody. There are at most as many of each as statements run at once; the
//! bound one that has rested longest goes first. A fresh one has run nothing, and a bound one that grew has been ended
//! (`WorkerProcess::rest`), so what waits takes little: the memory of the box is planned for those that run.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::child::{Binding, WorkerProcess, WorkerSpawner};
use crate::errors::QueryError;

/// The waiting workers of one box.
#[derive(Debug)]
pub(super) struct IdlePool {
    spawner: WorkerSpawner,
    each_max: usize,
    state: Mutex<IdleWorkers>,
}

#[derive(Debug, Default)]
struct IdleWorkers {
    fresh: Vec<WorkerProcess>,
    /// Fresh ones that are being started.
    coming: usize,
    /// The one that has rested longest first.
    bound: VecDeque<WorkerProcess>,
    closed: bool,
}

impl IdlePool {
    pub(super) fn new(spawner: WorkerSpawner, each_max: usize) -> Arc<Self> {
        Arc::new(Self { spawner, each_max: each_max.max(1), state: Mutex::default() })
    }

    /// A worker that may serve under `binding`: one of its own, else a fresh one, else a new one. Whether it is new: any
    /// other has waited, and may have died since.
    pub(super) async fn take(
        self: &Arc<Self>,
        binding: Binding,
    ) -> Result<(WorkerProcess, bool), QueryError> {
        let found = {
            let mut state = self.state.lock();
            let mut found = None;
            let mut index = state.bound.len();
            while index > 0 && found.is_none() {
                index -= 1;
                let own = state.bound[index].bound;
                if own.is_none_or(|own| own.organization != binding.organization) {
                    continue;
                }
                // The newest first; one that is dead, or walled into a folder that is gone, is of no use.
                found = state.bound.remove(index).filter(|worker| own == Some(binding) && worker.is_alive());
            }
            while found.is_none()
                && let Some(worker) = state.fresh.pop()
            {
                found = Some(worker).filter(WorkerProcess::is_alive);
            }
            found
        };
        let taken = match found {
            Some(worker) => (worker, false),
            None => (self.spawner.spawn().await?, true),
        };
        self.restock();
        Ok(taken)
    }

    /// Takes a worker back that has come to rest.
    pub(super) fn give_back(&self, worker: WorkerProcess) {
        let mut state = self.state.lock();
        if state.closed || worker.bound.is_none() {
            return;
        }
        state.bound.push_back(worker);
        if state.bound.len() > self.each_max {
            state.bound.pop_front();
        }
    }

    /// Ends the workers that rest for an organization, and waits until they are gone: they have its segments mapped,
    /// and a file that somebody has mapped stays on the disk.
    pub(super) async fn forget(&self, organization: Uuid) {
        let own = {
            let mut state = self.state.lock();
            let is_own = |worker: &WorkerProcess| {
                worker.bound.is_some_and(|binding| binding.organization == organization)
            };
            let (own, others) = std::mem::take(&mut state.bound).into_iter().partition::<Vec<_>, _>(is_own);
            state.bound = others.into();
            own
        };
        for worker in own {
            worker.end().await;
        }
    }

    /// Starts fresh workers until enough wait. Does not wait for them.
    pub(super) fn restock(self: &Arc<Self>) {
        let missing = {
            let mut state = self.state.lock();
            let there = state.fresh.len() + state.coming;
            let missing = if state.closed { 0 } else { self.each_max.saturating_sub(there) };
            state.coming += missing;
            missing
        };
        for _ in 0..missing {
            let idle = Arc::clone(self);
            tokio::spawn(async move {
                let spawned = idle.spawner.spawn().await;
                let mut state = idle.state.lock();
                state.coming -= 1;
                match spawned {
                    Ok(worker) if !state.closed => state.fresh.push(worker),
                    Ok(_) => {}
                    // The next statement tries again, and its caller hears of it.
                    Err(error) => {
                        tracing::warn!(%error, detail = error.detail, "no SQL worker can be started")
                    }
                }
            });
        }
    }

    /// How many of both kinds can wait.
    pub(super) fn waiting_max(&self) -> usize {
        2 * self.each_max
    }

    /// Workers that wait: fresh and bound.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.fresh.len(), state.bound.len())
    }

    /// Ends all that wait and keeps none from now on.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.fresh.clear();
        state.bound.clear();
    }
}
