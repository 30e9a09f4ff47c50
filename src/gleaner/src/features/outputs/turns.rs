//! Whose turn it is to be sent to: in memory, made anew from the rows at a start.
//!
//! A turn is some deliveries of one output. Outputs go in two lanes: one whose last try went well is fast; a new one, and
//! one that failed, is slow until a try goes well. Each lane has its own places, so endpoints that hang wait for each other
//! and for nobody else. In a lane the organization with the fewest turns under way goes first; none has more than a share of
//! the places, and one that has none can begin one beyond them.

use base::clock::Moment;
use base::ids::{OrgId, OutputId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::sync::Notify;

/// Turns that are under way at once, of fast outputs and of slow ones; and those beyond, of organizations that have none.
pub(super) const FAST_MAX: usize = 24;
pub(super) const SLOW_MAX: usize = 96;
const BEYOND_MAX: usize = 8;
/// Turns of one organization, of each lane.
const FAST_OF_ORG: usize = FAST_MAX / 2;
const SLOW_OF_ORG: usize = SLOW_MAX / 4;
/// Deliveries of a turn that are under way at once, of a fast output; of a slow one it is one.
pub(super) const FAST_DELIVERIES: usize = 8;
/// Sockets that all of them take at most.
pub(super) const SOCKETS_MAX: u64 =
    ((FAST_MAX + BEYOND_MAX) * FAST_DELIVERIES + SLOW_MAX + BEYOND_MAX) as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Fast,
    Slow,
}

impl Lane {
    fn places(self) -> usize {
        match self {
            Lane::Fast => FAST_MAX,
            Lane::Slow => SLOW_MAX,
        }
    }

    fn of_org(self) -> usize {
        match self {
            Lane::Fast => FAST_OF_ORG,
            Lane::Slow => SLOW_OF_ORG,
        }
    }

    /// Deliveries of a turn.
    pub fn deliveries(self) -> usize {
        match self {
            Lane::Fast => FAST_DELIVERIES,
            Lane::Slow => 1,
        }
    }
}

/// A turn that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub org: OrgId,
    pub output: OutputId,
    pub lane: Lane,
}

/// An output that waits for a turn, or has one.
struct Slot {
    lane: Lane,
    due: Option<Moment>,
    is_running: bool,
}

/// The outputs of one organization.
#[derive(Default)]
struct OfOrg {
    slots: HashMap<OutputId, Slot>,
    /// Those that wait, by lane and time.
    waiting: [BTreeSet<(Moment, OutputId)>; 2],
    running: [usize; 2],
    /// When it last began a turn, counted over all.
    begun: u64,
}

#[derive(Default)]
struct Inner {
    orgs: BTreeMap<OrgId, OfOrg>,
    running: [usize; 2],
    begun: u64,
}

/// The turns of the box.
#[derive(Default)]
pub(super) struct Turns {
    inner: Mutex<Inner>,
    news: Notify,
}

impl OfOrg {
    fn set(&mut self, output: OutputId, due: Moment) {
        let slot =
            self.slots.entry(output).or_insert(Slot { lane: Lane::Slow, due: None, is_running: false });
        if slot.due.is_some_and(|known| known <= due) {
            return;
        }
        let before = slot.due.replace(due);
        if !slot.is_running {
            let waiting = &mut self.waiting[slot.lane as usize];
            before.map(|before| waiting.remove(&(before, output)));
            waiting.insert((due, output));
        }
    }
}

impl Turns {
    /// There is something for this output at a moment, or sooner than was known.
    pub fn set_due(&self, org: OrgId, output: OutputId, due: Moment) {
        self.inner.lock().orgs.entry(org).or_default().set(output, due);
        self.news.notify_one();
    }

    /// Waits until [`Turns::set_due`] says that there is something.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// The next turn, if there is one and a place for it.
    pub fn next(&self, now: Moment) -> Option<Turn> {
        let mut inner = self.inner.lock();
        [Lane::Fast, Lane::Slow].into_iter().find_map(|lane| inner.next(lane, now))
    }

    /// When the first output is due that waits for a turn.
    pub fn next_due(&self) -> Option<Moment> {
        let inner = self.inner.lock();
        let first = |waiting: &BTreeSet<(Moment, OutputId)>| waiting.first().map(|(due, _)| *due);
        inner.orgs.values().flat_map(|of_org| of_org.waiting.iter().filter_map(first)).min()
    }

    /// A turn has ended; `due` is when there is more for the output, as far as its rows say.
    pub fn ended(&self, turn: Turn, due: Option<Moment>, lane: Lane) {
        let mut inner = self.inner.lock();
        inner.running[turn.lane as usize] -= 1;
        let Some(of_org) = inner.orgs.get_mut(&turn.org) else { return };
        of_org.running[turn.lane as usize] -= 1;
        // There is none where the organization was forgotten meanwhile.
        if let Some(slot) = of_org.slots.get_mut(&turn.output) {
            let again = slot.due.take();
            (slot.is_running, slot.lane) = (false, lane);
            match due.into_iter().chain(again).min() {
                Some(due) => of_org.set(turn.output, due),
                None if lane == Lane::Slow => drop(of_org.slots.remove(&turn.output)),
                None => {}
            }
        }
        if of_org.slots.is_empty() && of_org.running == [0, 0] {
            inner.orgs.remove(&turn.org);
        }
    }

    /// Nothing of this organization is to be sent any more; turns that are under way end by themselves.
    pub fn forget(&self, org: OrgId) {
        let mut inner = self.inner.lock();
        if let Some(of_org) = inner.orgs.get_mut(&org) {
            of_org.slots.clear();
            of_org.waiting = Default::default();
            if of_org.running == [0, 0] {
                inner.orgs.remove(&org);
            }
        }
    }

    /// Turns under way.
    pub fn running(&self) -> usize {
        self.inner.lock().running.iter().sum()
    }
}

impl Inner {
    fn next(&mut self, lane: Lane, now: Moment) -> Option<Turn> {
        let (at, total) = (lane as usize, self.running[lane as usize]);
        if total >= lane.places() + BEYOND_MAX {
            return None;
        }
        let is_full = total >= lane.places();
        let due = self.orgs.iter().filter(|(_, of_org)| {
            let first = of_org.waiting[at].first();
            let most = if is_full { 1 } else { lane.of_org() };
            first.is_some_and(|(due, _)| *due <= now) && of_org.running[at] < most
        });
        let org = *due.min_by_key(|(_, of_org)| (of_org.running[at], of_org.begun))?.0;
        self.begun += 1;
        let begun = self.begun;
        let of_org = self.orgs.get_mut(&org)?;
        let (_, output) = of_org.waiting[at].pop_first()?;
        let slot = of_org.slots.get_mut(&output)?;
        (slot.is_running, slot.due) = (true, None);
        of_org.running[at] += 1;
        of_org.begun = begun;
        self.running[at] += 1;
        Some(Turn { org, output, lane })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_outputs_take_no_place_of_fast_ones_and_nobody_waits_for_another() {
        let turns = Turns::default();
        let (hostile, other, now) = (OrgId::new(), OrgId::new(), Moment(10));
        for _ in 0..200 {
            turns.set_due(hostile, OutputId::new(), now);
        }
        let mut held = Vec::new();
        while let Some(turn) = turns.next(now) {
            assert_eq!((turn.org, turn.lane), (hostile, Lane::Slow));
            held.push(turn);
        }
        assert_eq!(held.len(), SLOW_OF_ORG, "a share of the places, and no more");
        let good = OutputId::new();
        turns.set_due(other, good, now);
        let turn = turns.next(now).unwrap();
        assert_eq!((turn.org, turn.output), (other, good));
        // It went well: from now on it is fast, and not due before its time.
        turns.ended(turn, Some(Moment(20)), Lane::Fast);
        assert_eq!(turns.next(now), None);
        let turn = turns.next(Moment(20)).unwrap();
        assert_eq!((turn.output, turn.lane), (good, Lane::Fast));
        // What comes while it is under way is not forgotten.
        turns.set_due(other, good, Moment(21));
        assert_eq!(turns.next(Moment(30)).map(|turn| turn.org), None);
        turns.ended(turn, None, Lane::Fast);
        assert_eq!(turns.next(Moment(30)).unwrap().output, good);
        assert_eq!(turns.running(), SLOW_OF_ORG + 1);
        turns.forget(hostile);
        for turn in held {
            turns.ended(turn, Some(now), Lane::Slow);
        }
        assert_eq!((turns.running(), turns.next(now)), (1, None), "nothing of it is sent any more");
    }

    #[test]
    fn organizations_share_a_lane() {
        let (turns, now) = (Turns::default(), Moment(1));
        let orgs: Vec<_> = (0..8).map(|_| OrgId::new()).collect();
        for org in &orgs {
            (0..100).for_each(|_| turns.set_due(*org, OutputId::new(), now));
        }
        let given: Vec<_> = std::iter::from_fn(|| turns.next(now)).collect();
        for org in orgs {
            assert_eq!(given.iter().filter(|turn| turn.org == org).count(), SLOW_MAX / 8);
        }
        // One that has none has one although there is no place.
        let late = OrgId::new();
        (0..2).for_each(|_| turns.set_due(late, OutputId::new(), now));
        assert_eq!(turns.next(now).map(|turn| turn.org), Some(late));
        assert_eq!(turns.next(now), None);
    }
}
