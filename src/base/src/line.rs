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
//!
//! An organization may have a limit of its own ([`OrganizationLimit`]). Who is beyond it stands in the same line and keeps
//! nobody else from a place: it is passed over until one of its own has ended.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

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

/// What one organization may have of a line, however much of it is free.
#[derive(Clone, Copy, Debug)]
pub struct OrganizationLimit {
    /// Places at once; one at least.
    pub running: usize,
    /// How many may wait beyond those.
    pub waiting: usize,
}

/// Why somebody is not let into the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// Too many wait, one of its own among them.
    Full,
    /// Its organization has as many in the line as its own limit lets it have.
    OverLimit,
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
    /// Those of them that count against the organization's own limit.
    counted: HashMap<K, usize>,
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
    /// How many of its organization may have a place at once, itself among them.
    running_max: Option<usize>,
    arrival: u64,
    since: Instant,
    turn: oneshot::Sender<()>,
}

/// A place; given on when dropped.
#[derive(Debug)]
pub struct FairPermit<K: Copy + Eq + Hash> {
    line: Arc<FairSemaphore<K>>,
    organization: K,
    is_counted: bool,
}

/// One that an organization's own limit counts, whether it has a place or not. Dropping it lets the next of the
/// organization have its turn.
#[derive(Debug)]
pub struct LimitCount<K: Copy + Eq + Hash> {
    line: Arc<FairSemaphore<K>>,
    organization: K,
    is_counted: bool,
}

/// One who stands in the line, or has a place that it has not taken yet. Dropping it leaves the line.
#[derive(Debug)]
pub struct Ticket<K: Copy + Eq + Hash> {
    line: Arc<FairSemaphore<K>>,
    organization: K,
    running_max: Option<usize>,
    state: TicketState,
}

#[derive(Debug)]
enum TicketState {
    /// It has a place.
    Granted,
    Waiting {
        arrival: u64,
        since: Instant,
        turn: oneshot::Receiver<()>,
    },
    /// Its place was taken, or the line was closed.
    Done,
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
            counted: HashMap::new(),
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
        self.join(organization, None)?.turn().await
    }

    /// Takes a place, or one in the line; an organization's own limit binds those that join with one.
    pub fn join(
        self: &Arc<Self>,
        organization: K,
        limit: Option<OrganizationLimit>,
    ) -> Result<Ticket<K>, AcquireError> {
        self.join_line(organization, limit, true)
    }

    fn join_line(
        self: &Arc<Self>,
        organization: K,
        limit: Option<OrganizationLimit>,
        is_bounded: bool,
    ) -> Result<Ticket<K>, AcquireError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(AcquireError::Closed);
        }
        let running_max = limit.map(|limit| limit.running.max(1));
        let before = state.own_before(organization, u64::MAX);
        if let Some((limit, running_max)) = limit.zip(running_max)
            && before >= running_max.saturating_add(limit.waiting)
        {
            return Err(AcquireError::OverLimit);
        }
        let is_within = running_max.is_none_or(|most| before < most);
        let now = Instant::now();
        // Where one may be had at once nobody waits who could have it.
        let ticket_state = if is_within && state.may_have(organization, now, now) {
            state.give(organization, running_max.is_some());
            TicketState::Granted
        } else {
            // Who waits for its own organization takes nobody's room in the line.
            if is_within && is_bounded {
                let contending = state.contending();
                if contending.len() >= self.rules.waiting_max && contending.contains(&organization) {
                    return Err(AcquireError::Full);
                }
            }
            state.moments += 1;
            let arrival = state.moments;
            state.unserved_since.entry(organization).or_insert(arrival);
            let (sender, turn) = oneshot::channel();
            state.waiting.push(Waiter { organization, running_max, arrival, since: now, turn: sender });
            TicketState::Waiting { arrival, since: now, turn }
        };
        Ok(Ticket { line: Arc::clone(self), organization, running_max, state: ticket_state })
    }

    /// Takes a place back and gives it to the next.
    fn leave(&self, organization: K, is_counted: bool) {
        let mut state = self.state.lock();
        state.taken -= 1;
        lower(&mut state.held, organization);
        if is_counted {
            lower(&mut state.counted, organization);
        }
        state.next();
    }
}

/// Takes one off an organization's count.
fn lower<K: Eq + Hash>(counts: &mut HashMap<K, usize>, organization: K) {
    if let Some(count) = counts.get_mut(&organization) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&organization);
        }
    }
}

impl<K: Copy + Eq + Hash> Ticket<K> {
    /// Whether it had a place at once.
    pub fn is_granted(&self) -> bool {
        matches!(self.state, TicketState::Granted)
    }

    /// How many of its own organization have to end before it may have a place. None of them: it waits for a place alone,
    /// or has one. (Of others it says nothing: how busy they are is not for it to know.)
    pub fn position(&self) -> usize {
        let (TicketState::Waiting { arrival, .. }, Some(most)) = (&self.state, self.running_max) else {
            return 0;
        };
        let state = self.line.state.lock();
        (state.own_before(self.organization, *arrival) + 1).saturating_sub(most)
    }

    /// Waits for the place.
    pub async fn turn(mut self) -> Result<FairPermit<K>, AcquireError> {
        if let TicketState::Waiting { since, turn, .. } = &mut self.state {
            let came = match timeout_at(*since + self.line.rules.kept_after, &mut *turn).await {
                Ok(came) => came,
                Err(_elapsed) => {
                    // From now on a kept place may be for it.
                    self.line.state.lock().next();
                    turn.await
                }
            };
            came.map_err(|_| AcquireError::Closed)?;
        }
        self.state = TicketState::Done;
        let is_counted = self.running_max.is_some();
        Ok(FairPermit { line: Arc::clone(&self.line), organization: self.organization, is_counted })
    }
}

impl<K: Copy + Eq + Hash> FairPermit<K> {
    /// The place alone, and what the organization's own limit counts: a run may go on when it needs its place no more.
    pub fn split(mut self) -> (FairPermit<K>, LimitCount<K>) {
        let is_counted = std::mem::take(&mut self.is_counted);
        let count = LimitCount { line: Arc::clone(&self.line), organization: self.organization, is_counted };
        (self, count)
    }
}

impl<K: Copy + Eq + Hash> LimitCount<K> {
    /// Waits for a place once more, for a further part of what was let in already: it is not turned away because many
    /// wait, and not counted again.
    pub async fn place(&self) -> Result<FairPermit<K>, AcquireError> {
        self.line.join_line(self.organization, None, false)?.turn().await
    }
}

impl<K: Copy + Eq + Hash> Drop for LimitCount<K> {
    fn drop(&mut self) {
        if self.is_counted {
            let mut state = self.line.state.lock();
            lower(&mut state.counted, self.organization);
            state.next();
        }
    }
}

impl<K: Copy + Eq + Hash> SemaphoreState<K> {
    fn waits(&self, organization: K) -> bool {
        self.waiting.iter().any(|waiting| waiting.organization == organization)
    }

    fn held(&self, organization: K) -> usize {
        self.held.get(&organization).copied().unwrap_or(0)
    }

    fn counted(&self, organization: K) -> usize {
        self.counted.get(&organization).copied().unwrap_or(0)
    }

    /// How many of an organization that its limit counts have a place or came before `arrival`.
    fn own_before(&self, organization: K, arrival: u64) -> usize {
        let is_before = |waiting: &&Waiter<K>| {
            waiting.organization == organization && waiting.running_max.is_some() && waiting.arrival < arrival
        };
        self.counted(organization) + self.waiting.iter().filter(is_before).count()
    }

    /// Whether the organization's own limit lets this one have a place.
    fn is_within_limit(&self, waiting: &Waiter<K>) -> bool {
        waiting.running_max.is_none_or(|most| self.counted(waiting.organization) < most)
    }

    /// The organizations of those that wait for a place, and not for another one of their own to end.
    fn contending(&self) -> Vec<K> {
        let mut ahead: HashMap<K, usize> = HashMap::new();
        let contends = |waiting: &&Waiter<K>| {
            let Some(most) = waiting.running_max else { return true };
            let own = ahead.entry(waiting.organization).or_default();
            *own += 1;
            self.counted(waiting.organization) + *own <= most
        };
        self.waiting.iter().filter(contends).map(|waiting| waiting.organization).collect()
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

    fn give(&mut self, organization: K, is_counted: bool) {
        self.taken += 1;
        if is_counted {
            *self.counted.entry(organization).or_default() += 1;
        }
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
                let waiting = &self.waiting[*index];
                self.is_within_limit(waiting) && self.may_have(waiting.organization, waiting.since, now)
            };
            let Some(next) = (0..self.waiting.len()).filter(may_have).min_by_key(rank) else { return };
            let next = self.waiting.remove(next);
            self.give(next.organization, next.running_max.is_some());
            self.moments += 1;
            let moment = self.moments;
            if self.waits(next.organization) {
                self.unserved_since.insert(next.organization, moment);
            } else {
                self.unserved_since.remove(&next.organization);
            }
            // Whoever has gone away meanwhile gives the place back itself: its ticket is dropped and not done.
            let _ = next.turn.send(());
        }
    }
}

impl<K: Copy + Eq + Hash> Drop for Ticket<K> {
    fn drop(&mut self) {
        let is_counted = self.running_max.is_some();
        let (arrival, turn) = match &mut self.state {
            TicketState::Done => return,
            TicketState::Granted => return self.line.leave(self.organization, is_counted),
            TicketState::Waiting { arrival, turn, .. } => (*arrival, turn),
        };
        let mut state = self.line.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|waiting| waiting.arrival != arrival);
        let was_waiting = state.waiting.len() < before;
        if !state.waits(self.organization) {
            state.unserved_since.remove(&self.organization);
        }
        drop(state);
        if !was_waiting && turn.try_recv().is_ok() {
            // Its turn had come, and nobody will use it.
            self.line.leave(self.organization, is_counted);
        }
    }
}

impl<K: Copy + Eq + Hash> Drop for FairPermit<K> {
    fn drop(&mut self) {
        self.line.leave(self.organization, self.is_counted);
    }
}

#[cfg(test)]
mod tests;
