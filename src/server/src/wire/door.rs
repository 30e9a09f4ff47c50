//! Who gets through the door: connections, by where they come from and whether their caller is known.
//!
//! A connection is a stranger's until a request on it has shown a credential that is good. One address has so many
//! strangers' connections at once; one more takes the place of the one that has been silent for longest, and where all of
//! them are at work, it is turned away. So whoever opens connections and says nothing loses them to whoever speaks, also
//! when both stand behind one address. At the box's own cap the same is done over all addresses, beginning with the one
//! that has most; then connections that are kept alive and idle go.
//!
//! An address is an IPv4 address or a /64 of IPv6, which is what one customer of a provider has. Connections of trusted
//! proxies are those of many people and never counted by address.
//!
//! On a connection of a stranger a few requests run at a time, whatever HTTP/2 lets it open; the others wait, unread.

use crate::metrics::Counter;
use crate::wire::activity::Activity;
use base::network::network_of;
use base::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Requests that one HTTP/2 connection may have open: as many as RFC 9113, 6.5.2 recommends at least, which clients send
/// before they have heard of any limit.
pub(crate) const STREAMS_MAX: u32 = 100;
/// Requests that run at a time on a connection whose caller is not known, and that wait for their turn.
const STRANGERS_TURNS: usize = 8;
const STRANGERS_WAITING_MAX: usize = 24;
/// What is counted as one address: each of IPv4 by itself.
pub(crate) const ADDRESS_V4_BITS: u32 = 32;
/// How long the last connection that was sent away may take to leave before another one is.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(1);
/// How long one more waits for its turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);

/// The connections that are open.
pub(crate) struct Door {
    per_address_max: usize,
    /// Of one address, those with a known caller among them.
    of_one_max: usize,
    state: Mutex<State>,
    dismissed: Counter,
    refused: Counter,
}

#[derive(Default)]
struct State {
    next: u64,
    guests: HashMap<u64, Arc<Guest>>,
    addresses: HashMap<IpAddr, Count>,
    /// The connection that was last sent away to make room and has not left yet, and when that was.
    leaving: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    all: usize,
    strangers: usize,
}

/// A connection, as the door knows it.
pub struct Guest {
    number: u64,
    ip: IpAddr,
    /// What it is counted under; none for a trusted proxy.
    network: Option<IpAddr>,
    known: AtomicBool,
    turns: Semaphore,
    queued: AtomicUsize,
    pub(crate) activity: Arc<Activity>,
    leave: Notify,
    door: Arc<Door>,
}

/// A connection's place, given back when it is dropped.
pub(crate) struct Place(pub(crate) Arc<Guest>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.door.state.lock();
        state.remove(&self.0);
        state.leaving.take_if(|(number, _)| *number == self.0.number);
    }
}

impl Door {
    /// At most `per_address_max` strangers of one address, and at most half of `connections_max` of one address in all.
    pub(crate) fn new(
        connections_max: usize,
        per_address_max: usize,
        dismissed: Counter,
        refused: Counter,
    ) -> Arc<Door> {
        let of_one_max = connections_max.div_ceil(2);
        let per_address_max = per_address_max.min(of_one_max);
        Arc::new(Door { per_address_max, of_one_max, state: Mutex::default(), dismissed, refused })
    }

    /// Lets a connection in, perhaps in the place of a silent one; none when its address has as many at work as it may.
    pub(crate) fn admit(self: &Arc<Self>, ip: IpAddr, is_trusted: bool) -> Option<Place> {
        let network = (!is_trusted).then(|| network_of(ip, ADDRESS_V4_BITS));
        let mut state = self.state.lock();
        if let Some(network) = network {
            let count = state.addresses.get(&network).copied().unwrap_or_default();
            let is_of = |guest: &Guest| guest.network == Some(network);
            let silent = if count.strangers >= self.per_address_max {
                Some(state.stalest(|guest| is_of(guest) && !guest.is_known() && guest.activity.only_waits()))
            } else if count.all >= self.of_one_max {
                Some(state.stalest(|guest| is_of(guest) && guest.activity.is_idle()))
            } else {
                None
            };
            match silent {
                None => {}
                Some(Some(silent)) => self.dismiss(&mut state, &silent),
                Some(None) => {
                    self.refused.inc();
                    return None;
                }
            }
        }
        state.next += 1;
        let guest = Arc::new(Guest {
            number: state.next,
            ip,
            network,
            known: AtomicBool::new(is_trusted),
            turns: Semaphore::new(STRANGERS_TURNS),
            queued: AtomicUsize::new(0),
            activity: Arc::new(Activity::new()),
            leave: Notify::new(),
            door: Arc::clone(self),
        });
        state.guests.insert(guest.number, Arc::clone(&guest));
        if let Some(network) = network {
            let count = state.addresses.entry(network).or_default();
            count.all += 1;
            count.strangers += 1;
        }
        Some(Place(guest))
    }

    /// Sends a silent connection away, because the box has as many as it serves: a stranger's of the address that has most
    /// of them, else one that is idle. One at a time: while the last one still shakes out, nobody else has to go for the
    /// same newcomer, unless it takes longer than [`LEAVE_TIME_MAX`]. Whether one was sent away.
    pub(crate) fn make_room(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        if state.leaving.is_some_and(|(_, since)| now.saturating_duration_since(since) < LEAVE_TIME_MAX) {
            return false;
        }
        let most = state.addresses.values().map(|count| count.strangers).max().unwrap_or(0);
        let crowd = |guest: &Guest, state: &State| {
            guest
                .network
                .and_then(|network| state.addresses.get(&network))
                .is_some_and(|c| c.strangers == most)
        };
        let stranger =
            state.stalest(|guest| !guest.is_known() && guest.activity.only_waits() && crowd(guest, &state));
        let found = stranger
            .or_else(|| state.stalest(|guest| !guest.is_known() && guest.activity.only_waits()))
            .or_else(|| state.stalest(|guest| guest.activity.is_idle()));
        let Some(silent) = found else { return false };
        state.leaving = Some((silent.number, now));
        self.dismiss(&mut state, &silent);
        true
    }

    fn dismiss(&self, state: &mut State, guest: &Arc<Guest>) {
        state.remove(guest);
        guest.tell_to_leave();
        self.dismissed.inc();
    }
}

impl State {
    /// Of those that `may` go the one that has been silent for longest.
    fn stalest(&self, may: impl Fn(&Guest) -> bool) -> Option<Arc<Guest>> {
        let fitting = self.guests.values().filter(|guest| may(guest));
        fitting.min_by_key(|guest| guest.activity.moved()).cloned()
    }

    fn remove(&mut self, guest: &Guest) {
        if self.guests.remove(&guest.number).is_none() {
            return;
        }
        let Some(network) = guest.network else { return };
        if let Some(count) = self.addresses.get_mut(&network) {
            count.all -= 1;
            count.strangers -= usize::from(!guest.is_known());
            if count.all == 0 {
                self.addresses.remove(&network);
            }
        }
    }
}

impl Guest {
    /// Where the connection comes from: the caller's address or a proxy's.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Whether a request on it has shown a good credential, or it is a trusted proxy's.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// A request on it has shown a good credential.
    pub(crate) fn introduce(&self) {
        if self.is_known() {
            return;
        }
        let mut state = self.door.state.lock();
        // Asked again under the lock: who counts it down does so once.
        if self.known.swap(true, Ordering::Relaxed) {
            return;
        }
        if state.guests.contains_key(&self.number)
            && let Some(count) = self.network.and_then(|network| state.addresses.get_mut(&network))
        {
            count.strangers -= 1;
        }
        self.turns.add_permits(STREAMS_MAX as usize);
    }

    /// Waits until a request may run here.
    pub(crate) async fn turn(&self) -> Result<Option<SemaphorePermit<'_>>> {
        if self.is_known() {
            return Ok(None);
        }
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(Some(turn));
        }
        let refused = || {
            Error::new(Code::RateLimited).header("retry-after", "1").message(format!(
                "Without a credential {STRANGERS_TURNS} requests run at a time on one connection, and \
                 {STRANGERS_WAITING_MAX} wait."
            ))
        };
        let _queued = Queued::begin(&self.queued).ok_or_else(refused)?;
        let _waiting = self.activity.wait();
        match tokio::time::timeout(TURN_TIME_MAX, self.turns.acquire()).await {
            Ok(turn) => Ok(turn.ok()),
            Err(_) => Err(refused()),
        }
    }

    /// Has the connection make room for another.
    pub(crate) fn tell_to_leave(&self) {
        self.leave.notify_one();
    }

    /// Whether a connection that is told to leave may be cut: nobody knows its caller and nothing is at work on it. A
    /// request may have begun since the door looked; that one is answered.
    pub(crate) fn may_be_cut(&self) -> bool {
        !self.is_known() && self.activity.only_waits()
    }

    /// Resolves when the connection is to make room for another.
    pub(crate) async fn is_dismissed(&self) {
        self.leave.notified().await;
    }
}

/// A place among the requests that wait for a turn.
struct Queued<'a>(&'a AtomicUsize);

impl Queued<'_> {
    fn begin(all: &AtomicUsize) -> Option<Queued<'_>> {
        let taken = all.fetch_add(1, Ordering::Relaxed);
        // Counted down again by the drop, also where there was no room.
        Some(Queued(all)).filter(|_| taken < STRANGERS_WAITING_MAX)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(connections_max: usize, per_address_max: usize) -> Arc<Door> {
        Door::new(connections_max, per_address_max, Counter::default(), Counter::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_dismissed(place: &Place) -> bool {
        use futures::FutureExt;
        place.0.is_dismissed().now_or_never().is_some()
    }

    #[test]
    fn the_longest_silent_stranger_of_an_address_makes_room() {
        let door = door(100, 2);
        let elsewhere = door.admit(ip("192.0.2.2"), false).unwrap();
        let first = door.admit(ip("192.0.2.1"), false).unwrap();
        let second = door.admit(ip("192.0.2.1"), false).unwrap();
        second.0.introduce();
        let third = door.admit(ip("192.0.2.1"), false).unwrap();
        assert!(!is_dismissed(&first), "one whose caller is known does not count");
        let _fourth = door.admit(ip("::ffff:192.0.2.1"), false).unwrap();
        assert!(is_dismissed(&first));
        assert!(!is_dismissed(&second) && !is_dismissed(&third) && !is_dismissed(&elsewhere));
        assert_eq!((door.dismissed.get(), door.refused.get()), (1, 0));
    }

    #[test]
    fn whoever_is_at_work_stays_and_the_newcomer_is_turned_away() {
        let door = door(100, 2);
        let both = [(); 2].map(|()| door.admit(ip("2001:db8:1:2::1"), false).unwrap());
        let works = [0, 1].map(|i: usize| both[i].0.activity.begin());
        assert!(door.admit(ip("2001:db8:1:2:ffff::7"), false).is_none(), "a /64 is one address");
        assert!(door.admit(ip("2001:db8:1:3::1"), false).is_some());
        let waits = both[1].0.activity.wait();
        assert!(door.admit(ip("2001:db8:1:2::1"), false).is_some());
        assert!(is_dismissed(&both[1]) && !is_dismissed(&both[0]), "one that waits for a body is silent");
        drop((works, waits));
        assert_eq!(door.refused.get(), 1);
    }

    #[test]
    fn a_known_caller_has_half_the_box_and_a_proxy_all_of_it() {
        let door = door(4, 4);
        let known = [(); 2].map(|()| {
            let place = door.admit(ip("192.0.2.1"), false).unwrap();
            place.0.introduce();
            place
        });
        let _third = door.admit(ip("192.0.2.1"), false).unwrap();
        assert!(known.iter().any(is_dismissed));
        let proxy = [(); 4].map(|()| door.admit(ip("10.0.0.1"), true).unwrap());
        assert!(!proxy.iter().any(is_dismissed) && proxy[0].0.is_known());
    }

    #[test]
    fn the_crowd_makes_room_first_and_idle_ones_last() {
        let door = door(100, 50);
        let alone = door.admit(ip("192.0.2.9"), false).unwrap();
        let crowd = [(); 3].map(|()| door.admit(ip("192.0.2.1"), false).unwrap());
        let idle = door.admit(ip("192.0.2.5"), false).unwrap();
        idle.0.introduce();
        let mut now = Instant::now();
        let mut make_room = || {
            now += LEAVE_TIME_MAX;
            door.make_room(now)
        };
        for place in &crowd[..2] {
            assert!(make_room());
            assert!(is_dismissed(place));
        }
        assert!(make_room() && make_room());
        assert!(is_dismissed(&alone) && is_dismissed(&crowd[2]) && !is_dismissed(&idle));
        assert!(make_room() && is_dismissed(&idle));
        assert!(!make_room());
        drop((alone, crowd, idle));
        let state = door.state.lock();
        assert!(state.addresses.is_empty() && state.guests.is_empty());
    }

    #[test]
    fn one_newcomer_costs_one_connection_however_slowly_it_leaves() {
        let door = door(100, 50);
        let customers = [1, 2, 3, 4].map(|last| {
            let place = door.admit(IpAddr::from([192, 0, 2, last]), false).unwrap();
            place.0.introduce();
            place
        });
        let gone = |places: &[Place]| places.iter().filter(|place| is_dismissed(place)).count();
        let now = Instant::now();
        assert!(door.make_room(now));
        // As the accept loop looks while its newcomer waits.
        for look in 1..10 {
            assert!(!door.make_room(now + Duration::from_millis(100 * look)));
        }
        assert_eq!(gone(&customers), 1);
        // Whoever does not leave at all is not waited for.
        let later = now + LEAVE_TIME_MAX;
        assert!(door.make_room(later));
        assert_eq!(gone(&customers), 1, "the next");
        assert!(!door.make_room(later));
        // The last one has left: the next newcomer is let in at once.
        let number = door.state.lock().leaving.unwrap().0;
        drop(Vec::from(customers).extract_if(.., |place| place.0.number == number).collect::<Vec<_>>());
        assert!(door.state.lock().leaving.is_none());
    }

    #[tokio::test]
    async fn a_stranger_has_few_turns_until_the_caller_is_known() {
        let door = door(100, 50);
        let place = door.admit(ip("192.0.2.1"), false).unwrap();
        let mut turns = Vec::new();
        for _ in 0..STRANGERS_TURNS {
            turns.push(place.0.turn().await.unwrap());
        }
        let wait = || {
            let guest = Arc::clone(&place.0);
            tokio::spawn(async move { guest.turn().await.map(|turn| turn.is_some()) })
        };
        let waiting: Vec<_> = (0..STRANGERS_WAITING_MAX).map(|_| wait()).collect();
        tokio::task::yield_now().await;
        assert!(!waiting.iter().any(|one| one.is_finished()));
        assert_eq!(wait().await.unwrap().unwrap_err().code(), Code::RateLimited, "one too many");
        place.0.introduce();
        for one in waiting {
            assert!(one.await.unwrap().unwrap());
        }
        assert_eq!(place.0.queued.load(Ordering::Relaxed), 0);
        assert!(place.0.turn().await.unwrap().is_none());
    }
}
