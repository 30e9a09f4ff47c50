//! Room for bodies: how many bytes of requests the box holds at once, and whose they are.
//!
//! A body has its room before its first byte is read, and gives it back when the request was answered. Without room it
//! waits, unread, so the client waits as well; what the system's buffers hold meanwhile is bounded by the number of
//! connections. There are three rooms: one for callers who have shown a credential, one for small bodies of strangers (a
//! login), one for large ones, so that no stranger's megabyte keeps somebody from logging in. Of each nobody takes more
//! than a share: an organization of the first, an address of the others.

use crate::metrics::Metrics;
use base::ids::{OrgId, UserId};
use base::limits::BODY_BYTES_MAX_LARGE;
use base::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A stranger's body of at most so many bytes is a small one.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// Rooms of strangers: of small bodies and of large ones.
const SMALL_ROOM_BYTES: usize = 16 << 20;
const LARGE_ROOM_BYTES: usize = 32 << 20;
/// One of so many parts of a room is a holder's share.
const SHARES: usize = 8;
const KNOWN_SHARES: usize = 4;
/// Room is given in units of this.
const UNIT_BYTES: usize = 1 << 10;
/// How long a body waits for room.
const WAIT_TIME_MAX: Duration = Duration::from_secs(10);

/// Whose bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FairnessKey {
    Org(OrgId),
    User(UserId),
    /// Somebody without a credential; see [`base::network`].
    Address(IpAddr),
}

/// The rooms of a box.
pub(crate) struct BodyBudgets {
    known: Arc<BodyBudget>,
    small: Arc<BodyBudget>,
    large: Arc<BodyBudget>,
    wait_max: Duration,
}

struct BodyBudget {
    bytes: usize,
    units: Arc<Semaphore>,
    share: usize,
    holders: Mutex<HashMap<FairnessKey, Arc<Semaphore>>>,
}

/// Room that a request has.
pub(crate) struct BodyReservation {
    of_share: Option<OwnedSemaphorePermit>,
    #[allow(dead_code, reason = "held until dropped")]
    of_all: Option<OwnedSemaphorePermit>,
    room: Arc<BodyBudget>,
    key: FairnessKey,
}

impl BodyBudgets {
    /// `known_bytes` for callers with a credential.
    pub(crate) fn new(known_bytes: usize, metrics: &Metrics) -> BodyBudgets {
        // A large body must fit into a share.
        let share = (known_bytes / KNOWN_SHARES).max(BODY_BYTES_MAX_LARGE);
        let room = |name, bytes, share| {
            let room = BodyBudget::new(bytes, share);
            let asked = Arc::clone(&room);
            let about = "Bytes of bodies that requests under way have room for.";
            metrics.gauge_of("gleaner_http_body_bytes", about, &[("room", name)], move || {
                asked.held_bytes() as f64
            });
            room
        };
        BodyBudgets {
            known: room("known", known_bytes.max(share), share),
            small: room("strangers_small", SMALL_ROOM_BYTES, SMALL_ROOM_BYTES / SHARES),
            large: room("strangers_large", LARGE_ROOM_BYTES, LARGE_ROOM_BYTES / SHARES),
            wait_max: WAIT_TIME_MAX,
        }
    }

    /// Room for `bytes` of `key`'s; waits for it, and says after a while that there is none.
    pub(crate) async fn take(&self, key: FairnessKey, bytes: usize) -> Result<BodyReservation> {
        let room = match key {
            FairnessKey::Org(_) | FairnessKey::User(_) => &self.known,
            FairnessKey::Address(_) if bytes <= SMALL_BYTES_MAX => &self.small,
            FairnessKey::Address(_) => &self.large,
        };
        // What is more than a share would wait for ever for what cannot be.
        let units = u32::try_from(bytes.min(room.share).div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX);
        let own = room.key(key);
        let none = |error: Error| error.header("retry-after", "1");
        let of_share = tokio::time::timeout(self.wait_max, own.acquire_many_owned(units)).await;
        let Ok(Ok(of_share)) = of_share else {
            let share = room.share >> 20;
            return Err(none(Error::new(Code::RateLimited)).message(format!(
                "Bodies of yours that are under way take {share} MiB already, and no more are held at once. Nothing was done."
            )));
        };
        let mut held =
            BodyReservation { of_share: Some(of_share), of_all: None, room: Arc::clone(room), key };
        match tokio::time::timeout(self.wait_max, Arc::clone(&room.units).acquire_many_owned(units)).await {
            Ok(Ok(of_all)) => {
                held.of_all = Some(of_all);
                Ok(held)
            }
            _ => Err(none(Error::new(Code::ServiceUnavailable)).message(
                "The bodies of other requests take all the room that the box has for them. Nothing was done.",
            )),
        }
    }
}

impl BodyBudget {
    fn new(bytes: usize, share: usize) -> Arc<BodyBudget> {
        let units = Arc::new(Semaphore::new(bytes / UNIT_BYTES));
        Arc::new(BodyBudget { bytes, units, share, holders: Mutex::default() })
    }

    fn held_bytes(&self) -> usize {
        self.bytes.saturating_sub(self.units.available_permits() * UNIT_BYTES)
    }

    /// What of a holder's share is free.
    fn key(&self, key: FairnessKey) -> Arc<Semaphore> {
        let mut holders = self.holders.lock();
        let new = || Arc::new(Semaphore::new(self.share / UNIT_BYTES));
        Arc::clone(holders.entry(key).or_insert_with(new))
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        drop(self.of_share.take());
        let mut holders = self.room.holders.lock();
        // The map's own, and nobody else's: nothing is held and nobody waits.
        if holders.get(&self.key).is_some_and(|share| Arc::strong_count(share) == 1) {
            holders.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> FairnessKey {
        FairnessKey::Address(IpAddr::from([192, 0, 2, last]))
    }

    #[tokio::test]
    async fn nobody_takes_more_than_a_share_and_nobody_waits_for_ever() {
        let rooms = BodyBudgets {
            wait_max: Duration::from_millis(50),
            ..BodyBudgets::new(64 << 20, &Metrics::new())
        };
        let org = FairnessKey::Org(OrgId::new());
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(rooms.take(org, 8 << 20).await.unwrap());
        }
        let refused = rooms.take(org, 1).await.err().unwrap();
        assert_eq!(refused.code(), Code::RateLimited);
        assert!(refused.detail().unwrap().contains("16 MiB"));
        for _ in 0..3 {
            let other = FairnessKey::Org(OrgId::new());
            for _ in 0..2 {
                held.push(rooms.take(other, 8 << 20).await.unwrap());
            }
        }
        let full = rooms.take(FairnessKey::User(UserId::new()), 1).await.err().unwrap();
        assert_eq!(full.code(), Code::ServiceUnavailable);
        rooms.take(address(1), 300).await.expect("strangers have a room of their own");
        let waiting = rooms.take(org, 8 << 20);
        let (given, ()) = tokio::join!(waiting, async { drop(held.swap_remove(0)) });
        drop((given.unwrap(), held));
        assert!(rooms.known.holders.lock().is_empty());
        assert_eq!(rooms.known.units.available_permits(), 64 << 10);
    }

    #[tokio::test]
    async fn what_is_more_than_a_share_has_the_whole_share() {
        let rooms =
            BodyBudgets { wait_max: Duration::from_millis(50), ..BodyBudgets::new(8 << 20, &Metrics::new()) };
        let held = rooms.take(FairnessKey::Org(OrgId::new()), 10 << 20).await.expect("room");
        assert_eq!(rooms.known.units.available_permits(), 0);
        drop(held);
    }

    #[tokio::test]
    async fn a_login_does_not_wait_for_megabytes() {
        let rooms = BodyBudgets {
            wait_max: Duration::from_millis(50),
            ..BodyBudgets::new(64 << 20, &Metrics::new())
        };
        let mut held = Vec::new();
        for last in 0..8 {
            for _ in 0..4 {
                held.push(rooms.take(address(last), 1 << 20).await.unwrap());
            }
        }
        assert!(rooms.take(address(9), 1 << 20).await.is_err(), "the large room is full");
        assert!(rooms.take(address(9), SMALL_BYTES_MAX).await.is_ok());
        assert!(rooms.take(address(0), SMALL_BYTES_MAX).await.is_ok());
    }
}
