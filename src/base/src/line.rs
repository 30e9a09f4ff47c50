//! A line in front of few places: how many are taken at once, and who is next.
//!
//! The next place goes to the organization that has the fewest, and among equals to the one that has gone unserved for
//! longest: since its last turn, or since it began to wait. So with more busy organizations than places they take turns,
//! however many each has in the line: nobody waits for a second turn of another that came later or was served later. And
//! while others wait, nobody gets more than a share: who has one place more than another who waits is behind that one.
//! Nor does an organization that fills the line keep others out of it: one of each may wait however many others do.
//!
//! Who has a place keeps it for as long as it likes, so there are some beside the others ([`FairnessRules::kept`]), for
//! organizations with less than their share: what these want goes past what takes others long. The last of them is for
//! one that has no place at all.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// How a line is kept.
#[derive(Clone, Copy, Debug)]
pub struct FairnessRules {
    /// Places for everybody; at least one.
    pub places: usize,
    /// Places beside those, for organizations with less than their share.
    pub kept: usize,
    /// How long one of them waits before it may have one of the kept places.
    pub kept_after: Duration,
    /// How many wait at most, beside one of each organization.
    pub waiting_max: usize,
}

/// Why somebody is not let into the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// Too many wait, one of its own among them.
    Full,
    /// Nobody gets a place any more.
    Closed,
}

/// One line; `K` tells organizations apart.
#[derive(Debug)]
pub struct FairSemaphore<K: Copy + Eq + Hash> {
    state: Mutex<SemaphoreState<K>>,
    rules: FairnessRules,
}

#[derive(Debug)]
struct SemaphoreState<K> {
    rules: FairnessRules,
    is_closed: bool,
    taken: usize,
    /// Places that each organization has.
    held: HashMap<K, usize>,
    /// In the order of arrival.
    waiting: Vec<Waiter<K>>,
    /// Since when each organization that waits has gone unserved: at its last turn, or when it began to wait.
    unserved_since: HashMap<K, u64>,
    /// Counts arrivals and turns.
    moments: u64,
}

#[derive(Debug)]
struct Waiter<K> {
    organization: K,
    arrival: u64,
    since: Instant,
    turn: oneshot::Sender<()>,
}

/// A place; given on when dropped.
#[derive(Debug)]
pub struct FairPermit<K: Copy + Eq + Hash> {
    line: Arc<FairSemaphore<K>>,
    organization: K,
}

/// One who waits; gone when dropped before its turn.
struct PendingAcquire<'a, K: Copy + Eq + Hash> {
    line: &'a Arc<FairSemaphore<K>>,
    organization: K,
    arrival: u64,
    turn: oneshot::Receiver<()>,
    is_done: bool,
}

impl<K: Copy + Eq + Hash> FairSemaphore<K> {
    /// A line in which nobody stands.
    pub fn new(rules: FairnessRules) -> Arc<Self> {
        let rules = FairnessRules { places: rules.places.max(1), ..rules };
        let state = SemaphoreState {
            rules,
            is_closed: false,
            taken: 0,
            held: HashMap::new(),
            waiting: Vec::new(),
            unserved_since: HashMap::new(),
            moments: 0,
        };
        Arc::new(Self { state: Mutex::new(state), rules })
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.state.lock().taken
    }

    /// How many places there are, the kept ones among them.
    pub fn places(&self) -> usize {
        self.rules.places + self.rules.kept
    }

    /// Whether an organization has a place or waits for one.
    pub fn has(&self, organization: K) -> bool {
        let state = self.state.lock();
        state.held.contains_key(&organization) || state.waits(organization)
    }

    /// Whether nobody gets a place any more.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Turns everybody away, also those that wait. Who has a place keeps it.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.waiting.clear();
        state.unserved_since.clear();
    }

    /// Waits for a place.
    pub async fn enter(self: &Arc<Self>, organization: K) -> Result<FairPermit<K>, AcquireError> {
        let mut wait = {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(AcquireError::Closed);
            }
            let now = Instant::now();
            // Where one may be had at once nobody waits who could have it.
            if state.may_have(organization, now, now) {
                state.give(organization);
                return Ok(FairPermit { line: Arc::clone(self), organization });
            }
            if state.waiting.len() >= self.rules.waiting_max && state.waits(organization) {
                return Err(AcquireError::Full);
            }
            state.moments += 1;
            let arrival = state.moments;
            state.unserved_since.entry(organization).or_insert(arrival);
            let (sender, turn) = oneshot::channel();
            state.waiting.push(Waiter { organization, arrival, since: now, turn: sender });
            PendingAcquire { line: self, organization, arrival, turn, is_done: false }
        };
        let turn = match timeout(self.rules.kept_after, &mut wait.turn).await {
            Ok(turn) => turn,
            Err(_elapsed) => {
                // From now on a kept place may be for it.
                self.state.lock().next();
                (&mut wait.turn).await
            }
        };
        turn.map_err(|_| AcquireError::Closed)?;
        wait.is_done = true;
        Ok(FairPermit { line: Arc::clone(self), organization })
    }

    /// Takes a place back and gives it to the next.
    fn leave(&self, organization: K) {
        let mut state = self.state.lock();
        state.taken -= 1;
        if let Some(held) = state.held.get_mut(&organization) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&organization);
            }
        }
        state.next();
    }
}

impl<K: Copy + Eq + Hash> SemaphoreState<K> {
    fn waits(&self, organization: K) -> bool {
        self.waiting.iter().any(|waiting| waiting.organization == organization)
    }

    fn held(&self, organization: K) -> usize {
        self.held.get(&organization).copied().unwrap_or(0)
    }

    /// Whether one of the organization, which has waited since then, may have a place now.
    fn may_have(&self, organization: K, since: Instant, now: Instant) -> bool {
        let FairnessRules { places, kept, kept_after, .. } = self.rules;
        if self.taken < places {
            return true;
        }
        let left = (places + kept).saturating_sub(self.taken);
        if left == 0 || since + kept_after > now {
            return false;
        }
        match self.held(organization) {
            0 => true,
            held => left > 1 && held < self.share(organization),
        }
    }

    /// How many places are an organization's share, with itself among those that want some. Never none.
    fn share(&self, organization: K) -> usize {
        let waiting = self.waiting.iter().map(|waiting| waiting.organization);
        let parties: HashSet<K> = self.held.keys().copied().chain(waiting).chain([organization]).collect();
        (self.rules.places / parties.len()).max(1)
    }

    fn give(&mut self, organization: K) {
        self.taken += 1;
        *self.held.entry(organization).or_default() += 1;
    }

    /// Gives what may be given.
    fn next(&mut self) {
        loop {
            let now = Instant::now();
            let rank = |index: &usize| {
                let Waiter { organization, arrival, .. } = &self.waiting[*index];
                let since = self.unserved_since.get(organization).copied().unwrap_or(*arrival);
                (self.held(*organization), since, *arrival)
            };
            let may_have = |index: &usize| {
                let Waiter { organization, since, .. } = &self.waiting[*index];
                self.may_have(*organization, *since, now)
            };
            let Some(next) = (0..self.waiting.len()).filter(may_have).min_by_key(rank) else { return };
            let next = self.waiting.remove(next);
            self.give(next.organization);
            self.moments += 1;
            let moment = self.moments;
            if self.waits(next.organization) {
                self.unserved_since.insert(next.organization, moment);
            } else {
                self.unserved_since.remove(&next.organization);
            }
            // Whoever has gone away meanwhile gives the place back itself: its wait is dropped and not done.
            let _ = next.turn.send(());
        }
    }
}

impl<K: Copy + Eq + Hash> Drop for PendingAcquire<'_, K> {
    fn drop(&mut self) {
        if self.is_done {
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
        if !was_waiting && self.turn.try_recv().is_ok() {
            // Its turn had come, and nobody will use it.
            self.line.leave(self.organization);
        }
    }
}

impl<K: Copy + Eq + Hash> Drop for FairPermit<K> {
    fn drop(&mut self) {
        self.line.leave(self.organization);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinHandle;

    const A: u8 = 1;
    const B: u8 = 2;
    const C: u8 = 3;
    const D: u8 = 4;

    /// A line whose kept places can be had at once.
    fn line(places: usize, kept: usize, waiting_max: usize) -> Arc<FairSemaphore<u8>> {
        FairSemaphore::new(FairnessRules { places, kept, kept_after: Duration::ZERO, waiting_max })
    }

    /// Lets one of the organization wait, and returns when it stands in the line.
    async fn waits(
        line: &Arc<FairSemaphore<u8>>,
        organization: u8,
    ) -> JoinHandle<Result<FairPermit<u8>, AcquireError>> {
        let (own, before) = (Arc::clone(line), line.waiting());
        let waiting = tokio::spawn(async move { own.enter(organization).await });
        while line.waiting() <= before {
            tokio::task::yield_now().await;
        }
        waiting
    }

    #[tokio::test]
    async fn the_one_who_runs_least_is_next() {
        let line = line(2, 0, 10);
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
        assert_eq!((line.taken(), line.waiting()), (0, 0));
    }

    /// Lets statements in one after the other, one of each given organization, frees the slot that is taken and gives the
    /// order in which they have their turns.
    async fn order_of(line: &Arc<FairSemaphore<u8>>, taken: FairPermit<u8>, arrivals: &[u8]) -> Vec<u8> {
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
        // One slot, and three organizations that have more to run: whoever came with one statement, and last, has its turn
        // when every other has had one, and not when all of theirs have ended.
        let line = line(1, 0, 100);
        let taken = line.enter(D).await.expect("free");
        let arrivals = [A, A, A, A, B, B, B, C, C, D];
        let order = order_of(&line, taken, &arrivals).await;
        assert_eq!(order, [A, B, C, D, A, B, C, A, B, A]);
        let state = line.state.lock();
        assert!(state.unserved_since.is_empty() && state.held.is_empty(), "nothing is remembered of them");
    }

    #[tokio::test]
    async fn who_comes_again_at_once_does_not_go_before_those_that_wait() {
        let line = line(1, 0, 100);
        let taken = line.enter(A).await.expect("free");
        let served = Arc::new(Mutex::new(Vec::new()));
        let comes_again = |organization: u8, times: usize| {
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
        let line = line(1, 0, 1);
        let slot = line.enter(A).await.expect("free");
        let waiting = tokio::spawn({
            let line = Arc::clone(&line);
            async move { line.enter(B).await.map(drop) }
        });
        while line.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.enter(B).await.expect_err("full"), AcquireError::Full);
        assert!(line.has(A) && line.has(B));
        waiting.abort();
        assert!(waiting.await.is_err());
        assert_eq!(line.waiting(), 0);
        drop(slot);
        drop(line.enter(B).await.expect("free again"));
        assert_eq!(line.taken(), 0);
        assert!(!line.has(A) && !line.has(B));
    }

    #[tokio::test]
    async fn who_runs_nothing_has_a_place_beside_the_others() {
        let line = line(2, 1, 10);
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
        assert_eq!(line.taken(), 3);
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
            assert_eq!(line.taken(), 3);
            drop(served.remove(at).await.expect("a turn"));
        }
        assert_eq!((line.taken(), line.waiting()), (2, 1), "the place is not for who runs already");
        drop(long);
        drop(own.await.expect("a turn"));
        assert_eq!((line.taken(), line.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn one_organization_keeps_no_other_out() {
        let line = line(1, 0, 2);
        let slot = line.enter(A).await.expect("free");
        let enter = |organization| {
            let line = Arc::clone(&line);
            tokio::spawn(async move { line.enter(organization).await.map(drop) })
        };
        let own = [enter(A), enter(A)];
        while line.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.enter(A).await.expect_err("full"), AcquireError::Full);
        let other = enter(B);
        while line.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(line.enter(B).await.expect_err("full"), AcquireError::Full);
        drop(slot);
        for waiting in own.into_iter().chain([other]) {
            waiting.await.expect("it ends").expect("its turn");
        }
        assert_eq!((line.taken(), line.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn who_has_less_than_a_share_waits_a_while_for_a_place_beside_the_others() {
        let for_ever = Duration::from_secs(3_600);
        let line = FairSemaphore::new(FairnessRules {
            places: 4,
            kept: 2,
            kept_after: for_ever,
            waiting_max: usize::MAX,
        });
        let mut endless = Vec::new();
        for _ in 0..4 {
            endless.push(line.enter(A).await.expect("free"));
        }
        let own = waits(&line, A).await;
        // Two of B: only when they have waited may one have a place beside those of A.
        let (first, second) = (waits(&line, B).await, waits(&line, B).await);
        line.state.lock().next();
        assert_eq!((line.taken(), line.waiting()), (4, 3));
        line.state.lock().rules.kept_after = Duration::ZERO;
        line.state.lock().next();
        let first = first.await.expect("it ends").expect("a kept place");
        // B has less than its share still, but the last kept place is for those that have none.
        assert_eq!((line.taken(), line.waiting()), (5, 2));
        let third = line.enter(C).await.expect("the last kept place");
        assert_eq!((line.taken(), line.waiting()), (6, 2));
        drop(third);
        assert_eq!((line.taken(), line.waiting()), (5, 2));
        // What ends of the others makes up for the place beside them; then the kept one can be had again.
        drop(endless.pop());
        let second = second.await.expect("it ends").expect("B, with less than its share");
        assert_eq!((line.taken(), line.waiting()), (5, 1));
        drop((first, second));
        drop(own.await.expect("it ends").expect("A, as nobody else wants it"));
        assert_eq!((line.taken(), line.waiting()), (3, 0));
    }

    #[tokio::test]
    async fn a_kept_place_is_had_after_its_time_although_nobody_leaves() {
        let kept_after = Duration::from_millis(20);
        let line =
            FairSemaphore::new(FairnessRules { places: 1, kept: 1, kept_after, waiting_max: usize::MAX });
        let taken = line.enter(A).await.expect("free");
        let begun = Instant::now();
        let beside = line.enter(B).await.expect("the kept place");
        assert!(begun.elapsed() >= kept_after && line.taken() == 2);
        drop((taken, beside));
    }

    #[tokio::test]
    async fn nobody_gets_more_than_a_share_while_others_wait() {
        let line = line(4, 0, usize::MAX);
        let mut of_a = Vec::new();
        for _ in 0..4 {
            of_a.push(line.enter(A).await.expect("free"));
        }
        let mut more_of_a = Vec::new();
        let mut of_others = Vec::new();
        for organization in [B, B, B, C, C, C] {
            more_of_a.push(waits(&line, A).await);
            of_others.push((organization, waits(&line, organization).await));
        }
        for _ in 0..3 {
            drop(of_a.pop());
        }
        let held = |organization| line.state.lock().held(organization);
        // Three share four places: one each, and the fourth to who has gone unserved for longest.
        assert_eq!([A, B, C].map(held), [2, 1, 1]);
        for waiting in more_of_a.into_iter().chain(of_others.into_iter().map(|(_, waiting)| waiting)) {
            waiting.abort();
            drop(waiting.await);
        }
        drop(of_a);
        assert_eq!(
            (line.taken(), line.waiting()),
            (0, 0),
            "who goes away leaves nothing, also with its turn in hand"
        );
    }

    #[tokio::test]
    async fn a_line_that_is_closed_turns_everybody_away() {
        let line = line(1, 0, 10);
        let slot = line.enter(A).await.expect("free");
        let waiting = waits(&line, B).await;
        line.close();
        assert_eq!(waiting.await.expect("it ends").expect_err("closed"), AcquireError::Closed);
        assert_eq!(line.enter(A).await.expect_err("closed"), AcquireError::Closed);
        assert!(line.is_closed() && line.taken() == 1);
        drop(slot);
        assert_eq!((line.taken(), line.waiting()), (0, 0));
    }
}
