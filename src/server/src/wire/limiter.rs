//! How many connections there are at once, by where they come from and whether their caller is known.
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
use crate::wire::compression::{CompressorPermit, CompressorShare, Compressors};
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
pub(crate) struct ConnectionLimiter {
    per_address_max: usize,
    /// Of one address, those with a known caller among them.
    of_one_max: usize,
    table: Mutex<ConnectionTable>,
    dismissed: Counter,
    refused: Counter,
    compressors: Compressors,
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    connections: HashMap<u64, Arc<ClientConnection>>,
    addresses: HashMap<IpAddr, AddressCount>,
    /// The connection that was last sent away to make room and has not left yet, and when that was.
    leaving: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Default)]
struct AddressCount {
    all: usize,
    strangers: usize,
}

/// A connection, as the limiter and its requests know it.
pub struct ClientConnection {
    number: u64,
    ip: IpAddr,
    /// What it is counted under; none for a trusted proxy.
    network: Option<IpAddr>,
    known: AtomicBool,
    request_permits: Semaphore,
    queued: AtomicUsize,
    pub(crate) activity: Arc<Activity>,
    leave: Notify,
    /// Of its own, of those that all have.
    compressors: Arc<Semaphore>,
    limiter: Arc<ConnectionLimiter>,
}

/// A connection's place, given back when it is dropped.
pub(crate) struct ConnectionPermit(pub(crate) Arc<ClientConnection>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut table = self.0.limiter.table.lock();
        table.remove(&self.0);
        table.leaving.take_if(|(number, _)| *number == self.0.number);
    }
}

impl ConnectionLimiter {
    /// At most `per_address_max` strangers of one address, and at most half of `connections_max` of one address in all.
    pub(crate) fn new(
        connections_max: usize,
        per_address_max: usize,
        dismissed: Counter,
        refused: Counter,
    ) -> Arc<ConnectionLimiter> {
        let of_one_max = connections_max.div_ceil(2);
        let per_address_max = per_address_max.min(of_one_max);
        Arc::new(ConnectionLimiter {
            per_address_max,
            of_one_max,
            table: Mutex::default(),
            dismissed,
            refused,
            compressors: Compressors::new(),
        })
    }

    /// Lets a connection in, perhaps in the place of a silent one; none when its address has as many at work as it may.
    pub(crate) fn admit(self: &Arc<Self>, ip: IpAddr, is_trusted: bool) -> Option<ConnectionPermit> {
        let network = (!is_trusted).then(|| network_of(ip, ADDRESS_V4_BITS));
        let mut table = self.table.lock();
        if let Some(network) = network {
            let count = table.addresses.get(&network).copied().unwrap_or_default();
            let is_of = |connection: &ClientConnection| connection.network == Some(network);
            let silent = if count.strangers >= self.per_address_max {
                Some(table.stalest(|connection| {
                    is_of(connection) && !connection.is_known() && connection.activity.only_waits()
                }))
            } else if count.all >= self.of_one_max {
                Some(table.stalest(|connection| is_of(connection) && connection.activity.is_idle()))
            } else {
                None
            };
            match silent {
                None => {}
                Some(Some(silent)) => self.dismiss(&mut table, &silent),
                Some(None) => {
                    self.refused.inc();
                    return None;
                }
            }
        }
        table.next += 1;
        let connection = Arc::new(ClientConnection {
            number: table.next,
            ip,
            network,
            known: AtomicBool::new(is_trusted),
            request_permits: Semaphore::new(STRANGERS_TURNS),
            queued: AtomicUsize::new(0),
            activity: Arc::new(Activity::new()),
            leave: Notify::new(),
            compressors: Compressors::of_connection(is_trusted),
            limiter: Arc::clone(self),
        });
        table.connections.insert(connection.number, Arc::clone(&connection));
        if let Some(network) = network {
            let count = table.addresses.entry(network).or_default();
            count.all += 1;
            count.strangers += 1;
        }
        Some(ConnectionPermit(connection))
    }

    /// Sends a silent connection away, because the box has as many as it serves: a stranger's of the address that has most
    /// of them, else one that is idle. One at a time: while the last one still shakes out, nobody else has to go for the
    /// same newcomer, unless it takes longer than [`LEAVE_TIME_MAX`]. Whether one was sent away.
    pub(crate) fn make_room(&self, now: Instant) -> bool {
        let mut table = self.table.lock();
        if table.leaving.is_some_and(|(_, since)| now.saturating_duration_since(since) < LEAVE_TIME_MAX) {
            return false;
        }
        let most = table.addresses.values().map(|count| count.strangers).max().unwrap_or(0);
        let crowd = |connection: &ClientConnection, table: &ConnectionTable| {
            connection
                .network
                .and_then(|network| table.addresses.get(&network))
                .is_some_and(|c| c.strangers == most)
        };
        let stranger = table.stalest(|connection| {
            !connection.is_known() && connection.activity.only_waits() && crowd(connection, &table)
        });
        let found = stranger
            .or_else(|| {
                table.stalest(|connection| !connection.is_known() && connection.activity.only_waits())
            })
            .or_else(|| table.stalest(|connection| connection.activity.is_idle()));
        let Some(silent) = found else { return false };
        table.leaving = Some((silent.number, now));
        self.dismiss(&mut table, &silent);
        true
    }

    fn dismiss(&self, table: &mut ConnectionTable, connection: &Arc<ClientConnection>) {
        table.remove(connection);
        connection.tell_to_leave();
        self.dismissed.inc();
    }
}

impl ConnectionTable {
    /// Of those that `may` go the one that has been silent for longest.
    fn stalest(&self, may: impl Fn(&ClientConnection) -> bool) -> Option<Arc<ClientConnection>> {
        let fitting = self.connections.values().filter(|connection| may(connection));
        fitting.min_by_key(|connection| connection.activity.moved()).cloned()
    }

    fn remove(&mut self, connection: &ClientConnection) {
        if self.connections.remove(&connection.number).is_none() {
            return;
        }
        let Some(network) = connection.network else { return };
        if let Some(count) = self.addresses.get_mut(&network) {
            count.all -= 1;
            count.strangers -= usize::from(!connection.is_known());
            if count.all == 0 {
                self.addresses.remove(&network);
            }
        }
    }
}

impl ClientConnection {
    /// Where the connection comes from: the caller's address or a proxy's.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Whether it is a trusted proxy's, which says whose requests it passes on.
    pub(crate) fn is_proxy(&self) -> bool {
        self.network.is_none()
    }

    /// Whether a request on it has shown a good credential, or it is a trusted proxy's.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// A compressor for an answer on it, if one is left of that share; where nobody said whose it is, of a stranger's.
    pub(crate) fn compressor(&self, share: Option<CompressorShare>) -> Option<CompressorPermit> {
        let share = share.unwrap_or_else(|| CompressorShare::Address(network_of(self.ip, ADDRESS_V4_BITS)));
        self.limiter.compressors.take(&self.compressors, share)
    }

    /// A request on it has shown a good credential.
    pub(crate) fn introduce(&self) {
        if self.is_known() {
            return;
        }
        let mut table = self.limiter.table.lock();
        // Asked again under the lock: who counts it down does so once.
        if self.known.swap(true, Ordering::Relaxed) {
            return;
        }
        if table.connections.contains_key(&self.number)
            && let Some(count) = self.network.and_then(|network| table.addresses.get_mut(&network))
        {
            count.strangers -= 1;
        }
        self.request_permits.add_permits(STREAMS_MAX as usize);
    }

    /// Waits until a request may run here.
    pub(crate) async fn request_permit(&self) -> Result<Option<SemaphorePermit<'_>>> {
        if self.is_known() {
            return Ok(None);
        }
        if let Ok(request_permit) = self.request_permits.try_acquire() {
            return Ok(Some(request_permit));
        }
        let refused = || {
            Error::new(Code::RateLimited).header("retry-after", "1").message(format!(
                "Without a credential {STRANGERS_TURNS} requests run at a time on one connection, and \
                 {STRANGERS_WAITING_MAX} wait."
            ))
        };
        let _queued = QueuedRequest::begin(&self.queued).ok_or_else(refused)?;
        let _waiting = self.activity.wait();
        match tokio::time::timeout(TURN_TIME_MAX, self.request_permits.acquire()).await {
            Ok(request_permit) => Ok(request_permit.ok()),
            Err(_) => Err(refused()),
        }
    }

    /// Has the connection make room for another.
    pub(crate) fn tell_to_leave(&self) {
        self.leave.notify_one();
    }

    /// Whether a connection that is told to leave may be cut: nobody knows its caller and nothing is at work on it. A
    /// request may have begun since the limiter looked; that one is answered.
    pub(crate) fn may_be_cut(&self) -> bool {
        !self.is_known() && self.activity.only_waits()
    }

    /// Resolves when the connection is to make room for another.
    pub(crate) async fn is_dismissed(&self) {
        self.leave.notified().await;
    }
}

/// A place among the requests that wait for a turn.
struct QueuedRequest<'a>(&'a AtomicUsize);

impl QueuedRequest<'_> {
    fn begin(all: &AtomicUsize) -> Option<QueuedRequest<'_>> {
        let taken = all.fetch_add(1, Ordering::Relaxed);
        // Counted down again by the drop, also where there was no room.
        Some(QueuedRequest(all)).filter(|_| taken < STRANGERS_WAITING_MAX)
    }
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(connections_max: usize, per_address_max: usize) -> Arc<ConnectionLimiter> {
        ConnectionLimiter::new(connections_max, per_address_max, Counter::default(), Counter::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_dismissed(permit: &ConnectionPermit) -> bool {
        use futures::FutureExt;
        permit.0.is_dismissed().now_or_never().is_some()
    }

    #[test]
    fn the_longest_silent_stranger_of_an_address_makes_room() {
        let limiter = limiter(100, 2);
        let elsewhere = limiter.admit(ip("192.0.2.2"), false).unwrap();
        let first = limiter.admit(ip("192.0.2.1"), false).unwrap();
        let second = limiter.admit(ip("192.0.2.1"), false).unwrap();
        second.0.introduce();
        let third = limiter.admit(ip("192.0.2.1"), false).unwrap();
        assert!(!is_dismissed(&first), "one whose caller is known does not count");
        let _fourth = limiter.admit(ip("::ffff:192.0.2.1"), false).unwrap();
        assert!(is_dismissed(&first));
        assert!(!is_dismissed(&second) && !is_dismissed(&third) && !is_dismissed(&elsewhere));
        assert_eq!((limiter.dismissed.get(), limiter.refused.get()), (1, 0));
    }

    #[test]
    fn whoever_is_at_work_stays_and_the_newcomer_is_turned_away() {
        let limiter = limiter(100, 2);
        let both = [(); 2].map(|()| limiter.admit(ip("2001:db8:1:2::1"), false).unwrap());
        let works = [0, 1].map(|i: usize| both[i].0.activity.begin());
        assert!(limiter.admit(ip("2001:db8:1:2:ffff::7"), false).is_none(), "a /64 is one address");
        assert!(limiter.admit(ip("2001:db8:1:3::1"), false).is_some());
        let waits = both[1].0.activity.wait();
        assert!(limiter.admit(ip("2001:db8:1:2::1"), false).is_some());
        assert!(is_dismissed(&both[1]) && !is_dismissed(&both[0]), "one that waits for a body is silent");
        drop((works, waits));
        assert_eq!(limiter.refused.get(), 1);
    }

    #[test]
    fn a_known_caller_has_half_the_box_and_a_proxy_all_of_it() {
        let limiter = limiter(4, 4);
        let known = [(); 2].map(|()| {
            let permit = limiter.admit(ip("192.0.2.1"), false).unwrap();
            permit.0.introduce();
            permit
        });
        let _third = limiter.admit(ip("192.0.2.1"), false).unwrap();
        assert!(known.iter().any(is_dismissed));
        let proxy = [(); 4].map(|()| limiter.admit(ip("10.0.0.1"), true).unwrap());
        assert!(!proxy.iter().any(is_dismissed) && proxy[0].0.is_known());
    }

    #[test]
    fn the_crowd_makes_room_first_and_idle_ones_last() {
        let limiter = limiter(100, 50);
        let alone = limiter.admit(ip("192.0.2.9"), false).unwrap();
        let crowd = [(); 3].map(|()| limiter.admit(ip("192.0.2.1"), false).unwrap());
        let idle = limiter.admit(ip("192.0.2.5"), false).unwrap();
        idle.0.introduce();
        let mut now = Instant::now();
        let mut make_room = || {
            now += LEAVE_TIME_MAX;
            limiter.make_room(now)
        };
        for permit in &crowd[..2] {
            assert!(make_room());
            assert!(is_dismissed(permit));
        }
        assert!(make_room() && make_room());
        assert!(is_dismissed(&alone) && is_dismissed(&crowd[2]) && !is_dismissed(&idle));
        assert!(make_room() && is_dismissed(&idle));
        assert!(!make_room());
        drop((alone, crowd, idle));
        let table = limiter.table.lock();
        assert!(table.addresses.is_empty() && table.connections.is_empty());
    }

    #[test]
    fn one_newcomer_costs_one_connection_however_slowly_it_leaves() {
        let limiter = limiter(100, 50);
        let customers = [1, 2, 3, 4].map(|last| {
            let permit = limiter.admit(IpAddr::from([192, 0, 2, last]), false).unwrap();
            permit.0.introduce();
            permit
        });
        let gone = |places: &[ConnectionPermit]| places.iter().filter(|permit| is_dismissed(permit)).count();
        let now = Instant::now();
        assert!(limiter.make_room(now));
        // As the accept loop looks while its newcomer waits.
        for look in 1..10 {
            assert!(!limiter.make_room(now + Duration::from_millis(100 * look)));
        }
        assert_eq!(gone(&customers), 1);
        // Whoever does not leave at all is not waited for.
        let later = now + LEAVE_TIME_MAX;
        assert!(limiter.make_room(later));
        assert_eq!(gone(&customers), 1, "the next");
        assert!(!limiter.make_room(later));
        // The last one has left: the next newcomer is let in at once.
        let number = limiter.table.lock().leaving.unwrap().0;
        drop(Vec::from(customers).extract_if(.., |permit| permit.0.number == number).collect::<Vec<_>>());
        assert!(limiter.table.lock().leaving.is_none());
    }

    #[tokio::test]
    async fn a_stranger_has_few_turns_until_the_caller_is_known() {
        let limiter = limiter(100, 50);
        let permit = limiter.admit(ip("192.0.2.1"), false).unwrap();
        let mut request_permits = Vec::new();
        for _ in 0..STRANGERS_TURNS {
            request_permits.push(permit.0.request_permit().await.unwrap());
        }
        let wait = || {
            let connection = Arc::clone(&permit.0);
            tokio::spawn(async move {
                connection.request_permit().await.map(|request_permit| request_permit.is_some())
            })
        };
        let waiting: Vec<_> = (0..STRANGERS_WAITING_MAX).map(|_| wait()).collect();
        tokio::task::yield_now().await;
        assert!(!waiting.iter().any(|one| one.is_finished()));
        assert_eq!(wait().await.unwrap().unwrap_err().code(), Code::RateLimited, "one too many");
        permit.0.introduce();
        for one in waiting {
            assert!(one.await.unwrap().unwrap());
        }
        assert_eq!(permit.0.queued.load(Ordering::Relaxed), 0);
        assert!(permit.0.request_permit().await.unwrap().is_none());
    }
}
