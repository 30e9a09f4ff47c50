//! The box's line: how many statements run at once, how many may wait, and who is next.
//!
//! The next slot goes to the organization that runs the fewest statements, and among equals to the one that has gone
//! unserved for longest: since its last turn, or since it began to wait. So with more busy organizations than slots they
//! take turns, however many statements each has in the line: nobody waits for a second statement of another that came
//! later or was served later. Nor does an organization that fills the line keep others out of it: one statement of each
//! may wait however many others do.
//!
//! Statements may run as long as they are allowed to, so there is a place more than may run at once, kept for
//! organizations that have none running: their short statements go past others' long ones.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::errors::{ErrorCode, QueryError};

/// The line of one box.
#[derive(Debug)]
pub(super) struct Line {
    state: Mutex<State>,
    waiting_max: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Free places of those that are kept for organizations with nothing running.
    kept: usize,
    running: HashMap<Uuid, usize>,
    /// In the order of arrival.
    waiting: Vec<Waiting>,
    /// Since when each organization that waits has gone unserved: at its last turn, or when it began to wait.
    unserved_since: HashMap<Uuid, u64>,
    /// Counts arrivals and turns.
    moments: u64,
}

#[derive(Debug)]
struct Waiting {
    organization: Uuid,
    arrival: u64,
    turn: oneshot::Sender<Place>,
}

/// Which kind of place a statement has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Usual,
    Kept,
}

/// The right to run one statement; given on when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    line: Arc<Line>,
    organization: Uuid,
    place: Place,
}

/// One who waits; gone when dropped before its turn.
struct Wait<'a> {
    line: &'a Arc<Line>,
    organization: Uuid,
    arrival: u64,
    turn: oneshot::Receiver<Place>,
    done: bool,
}

impl Line {
    /// `running_max` for everybody, and `kept` for organizations with nothing running.
    pub(super) fn new(running_max: usize, kept: usize, waiting_max: usize) -> Arc<Self> {
        let state = State {
            free: running_max.max(1),
            kept,
            running: HashMap::new(),
            waiting: Vec::new(),
            unserved_since: HashMap::new(),
            moments: 0,
        };
        Arc::new(Self { state: Mutex::new(state), waiting_max })
    }

    /// Statements that wait.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Statements that run.
    pub(super) fn running(&self) -> usize {
        self.state.lock().running.values().sum()
    }

    /// Whether statements of an organization run or wait.
    pub(super) fn has(&self, organization: Uuid) -> bool {
        let state = self.state.lock();
        state.running.contains_key(&organization) || state.waits(organization)
    }

    /// Waits for a slot; `too_many_queries` when too many wait already, one of its own among them.
    pub(super) async fn enter(self: &Arc<Self>, organization: Uuid) -> Result<Slot, QueryError> {
        let mut wait = {
            let mut state = self.state.lock();
            if let Some(place) = state.take(organization) {
                return Ok(Slot { line: Arc::clone(self), organization, place });
            }
            if state.waiting.len() >= self.waiting_max && state.waits(organization) {
                return Err(QueryError {
                    retriable: true,
                    ..QueryError::new(
                        ErrorCode::TooManyQueries,
                        "Too many statements wait for their turn; send it later.",
                    )
                });
            }
            state.moments += 1;
            let arrival = state.moments;
            state.unserved_since.entry(organization).or_insert(arrival);
            let (sender, turn) = oneshot::channel();
            state.waiting.push(Waiting { organization, arrival, turn: sender });
            Wait { line: self, organization, arrival, turn, done: false }
        };
        let place = (&mut wait.turn).await.map_err(QueryError::internal)?;
        wait.done = true;
        Ok(Slot { line: Arc::clone(self), organization, place })
    }

    /// Takes a slot back and gives it to the next.
    fn leave(&self, organization: Uuid, place: Place) {
        let mut state = self.state.lock();
        if let Some(running) = state.running.get_mut(&organization) {
            *running -= 1;
            if *running == 0 {
                state.running.remove(&organization);
            }
        }
        match place {
            Place::Usual => state.free += 1,
            Place::Kept => state.kept += 1,
        }
        state.next();
    }
}

impl State {
    fn waits(&self, organization: Uuid) -> bool {
        self.waiting.iter().any(|waiting| waiting.organization == organization)
    }

    /// A place for one more statement of the organization, if it may have one.
    fn take(&mut self, organization: Uuid) -> Option<Place> {
        let place = if self.free > 0 {
            self.free -= 1;
            Place::Usual
        } else if self.kept > 0 && !self.running.contains_key(&organization) {
            self.kept -= 1;
            Place::Kept
        } else {
            return None;
        };
        *self.running.entry(organization).or_default() += 1;
        Some(place)
    }

    fn next(&mut self) {
        loop {
            let rank = |index: &usize| {
                let Waiting { organization, arrival, .. } = &self.waiting[*index];
                let running = self.running.get(organization).copied().unwrap_or(0);
                let since = self.unserved_since.get(organization).copied().unwrap_or(*arrival);
                (running, since, *arrival)
            };
            let Some(next) = (0..self.waiting.len()).min_by_key(rank) else { return };
            // Who runs least is first: where a kept place is not for that one, it is for nobody.
            let Some(place) = self.take(self.waiting[next].organization) else { return };
            let next = self.waiting.remove(next);
            self.moments += 1;
            let now = self.moments;
            if self.waits(next.organization) {
                self.unserved_since.insert(next.organization, now);
            } else {
                self.unserved_since.remove(&next.organization);
            }
            // Whoever has gone away meanwhile gives the slot back itself: its place is dropped and not done.
            let _ = next.turn.send(place);
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.line.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|waiting| waiting.arrival != self.arrival);
        let was_waiting = state.waiting.len() < before;
        if !state.waits(self.organization) {
            state.unserved_since.remove(&self.organization);
        }
        drop(state);
        if !was_waiting && let Ok(place) = self.turn.try_recv() {
            // Its turn had come, and nobody will use it.
            self.line.leave(self.organization, place);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.line.leave(self.organization, self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    #[tokio::test]
    async fn the_one_who_runs_least_is_next() {
        let line = Line::new(2, 0, 10);
        let (first, second) = (line.enter(A).await.expect("free"), line.enter(A).await.expect("free"));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (index, organization) in [A, A, B].into_iter().enumerate() {
            let (line, order) = (Arc::clone(&line), Arc::clone(&order));
            let before = index;
            tasks.push(tokio::spawn({
                let line = Arc::clone(&line);
                async move {
                    let slot = line.enter(organization).await.expect("a turn");
                    order.lock().push((organization, index));
                    drop(slot);
                }
            }));
            while line.waiting() <= before {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(*order.lock(), [(B, 2), (A, 0), (A, 1)]);
        drop(second);
        assert_eq!((line.running(), line.waiting()), (0, 0));
    }

    /// Lets statements in one after the other, one of each given organization, frees the slot that is taken and gives the
    /// order in which they have their turns.
    async fn order_of(line: &Arc<Line>, taken: Slot, arrivals: &[Uuid]) -> Vec<Uuid> {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (before, organization) in arrivals.iter().copied().enumerate() {
            let (own, order) = (Arc::clone(line), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let slot = own.enter(organization).await.expect("a turn");
                order.lock().push(organization);
                drop(slot);
            }));
            while line.waiting() <= before {
                tokio::task::yield_now().await;
            }
        }
        drop(taken);
        for task in tasks {
            task.await.expect("it ends");
        }
        order.lock().clone()
    }

    #[tokio::test]
    async fn more_busy_organizations_than_slots_take_turns() {
        const C: Uuid = Uuid::from_u128(3);
        const D: Uuid = Uuid::from_u128(4);
        // One slot, and three organizations that have more to run: whoever came with one statement, and last, has its turn
        // when every other has had one, and not when all of theirs have ended.
        let line = Line::new(1, 0, 100);
        let taken = line.enter(D).await.expect("free");
        let arrivals = [A, A, A, A, B, B, B, C, C, D];
        let order = order_of(&line, taken, &arrivals).await;
        assert_eq!(order, [A, B, C, D, A, B, C, A, B, A]);
        let state = line.state.lock();
        assert!(state.unserved_since.is_empty() && state.running.is_empty(), "nothing is remembered of them");
    }

    #[tokio::test]
    async fn who_comes_again_at_once_does_not_go_before_those_that_wait() {
        let line = Line::new(1, 0, 100);
        let taken = line.enter(A).await.expect("free");
        let served = Arc::new(Mutex::new(Vec::new()));
        let comes_again = |organization: Uuid, times: usize| {
            let (line, served) = (Arc::clone(&line), Arc::clone(&served));
            tokio::spawn(async move {
                for _ in 0..times {
                    let slot = line.enter(organization).await.expect("a turn");
                    served.lock().push(organization);
                    drop(slot);
                }
            })
        };
        let many = comes_again(A, 20);
        while line.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        let waits = comes_again(B, 2);
        while line.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        drop(taken);
        many.await.expect("it ends");
        waits.await.expect("it ends");
        let order = served.lock().clone();
        // B came second and is served second, and whenever it waits again it has the turn after the next.
        assert_eq!(order.iter().position(|organization| *organization == B), Some(1));
        assert!(order[..6].iter().filter(|organization| **organization == B).count() == 2, "{order:?}");
    }

    #[tokio::test]
    async fn who_goes_away_leaves_nothing() {
        let line = Line::new(1, 0, 1);
        let slot = line.enter(A).await.expect("free");
        let waiting = tokio::spawn({
            let line = Arc::clone(&line);
            async move { line.enter(B).await.map(drop) }
        });
        while line.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.enter(B).await.expect_err("full").code, ErrorCode::TooManyQueries);
        assert!(line.has(A) && line.has(B));
        waiting.abort();
        assert!(waiting.await.is_err());
        assert_eq!(line.waiting(), 0);
        drop(slot);
        drop(line.enter(B).await.expect("free again"));
        assert_eq!(line.running(), 0);
        assert!(!line.has(A) && !line.has(B));
    }

    #[tokio::test]
    async fn who_runs_nothing_has_a_place_beside_the_others() {
        const C: Uuid = Uuid::from_u128(3);
        let line = Line::new(2, 1, 10);
        let long = [line.enter(A).await.expect("free"), line.enter(A).await.expect("free")];
        let enter = |organization| {
            let line = Arc::clone(&line);
            tokio::spawn(async move { line.enter(organization).await.expect("a turn") })
        };
        let own = enter(A);
        while line.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        // At once, and not behind the one that came before.
        let beside = line.enter(B).await.expect("the kept place");
        let (second, third) = (enter(B), enter(C));
        while line.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.running(), 3);
        drop(beside);
        // The kept place goes to one of those with nothing running; both had one of their own in the line.
        let mut served = vec![second, third];
        while !served.is_empty() {
            let at = loop {
                match served.iter().position(tokio::task::JoinHandle::is_finished) {
                    Some(at) => break at,
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!(line.running(), 3);
            drop(served.remove(at).await.expect("a turn"));
        }
        assert_eq!((line.running(), line.waiting()), (2, 1), "the place is not for who runs already");
        drop(long);
        drop(own.await.expect("a turn"));
        assert_eq!((line.running(), line.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn one_organization_keeps_no_other_out() {
        let line = Line::new(1, 0, 2);
        let slot = line.enter(A).await.expect("free");
        let enter = |organization| {
            let line = Arc::clone(&line);
            tokio::spawn(async move { line.enter(organization).await.map(drop) })
        };
        let own = [enter(A), enter(A)];
        while line.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.enter(A).await.expect_err("full").code, ErrorCode::TooManyQueries);
        let other = enter(B);
        while line.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.enter(B).await.expect_err("full").code, ErrorCode::TooManyQueries);
        drop(slot);
        for waiting in own.into_iter().chain([other]) {
            waiting.await.expect("it ends").expect("its turn");
        }
        assert_eq!((line.running(), line.waiting()), (0, 0));
    }
}
