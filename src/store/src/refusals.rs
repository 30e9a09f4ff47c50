//! Refusals, bounded: the first of its kind within a minute is a row at once, the others are counted and become one more row.
//!
//! Who is refused can ask again as fast as the box answers, so a row for each would let anybody with a credential fill
//! the disk and keep the writer busy. Two refusals are of one kind when they agree in chain, action, actor and resource;
//! of callers without a credential also in network. At most [`KINDS_MAX`] kinds are told apart at a time; what comes
//! beyond is counted together, by chain and action. Counts are in memory: a crash loses those of its last minute, never a
//! first row.

use super::event::{Event, ResourceV1};
use super::origin::{Actor, Origin};
use base::clock::{Moment, Now};
use base::ids::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long refusals of one kind are counted into one row.
const REFUSAL_WINDOW: Duration = Duration::from_secs(60);
/// Kinds that are told apart at a time: with the window it bounds what a flood from everywhere writes to some 120 MB a day.
const KINDS_MAX: usize = 256;

#[derive(PartialEq, Eq, Hash)]
pub(super) struct RefusalKind {
    pub(super) org: Option<OrgId>,
    action: &'static str,
    /// None where kinds are too many to be told apart.
    who: Option<(Actor, ResourceV1, Option<[u8; 8]>)>,
}

pub(super) struct RefusalCount {
    pub(super) since: Now,
    /// Those after the row that was written at once.
    pub(super) more: u64,
    pub(super) event: Event,
    pub(super) origin: Arc<Origin>,
}

/// The kinds of the last minute.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<RefusalKind, RefusalCount>>);

impl Refusals {
    /// Counts a refusal; whether it is the first of its kind, to be written now.
    pub(super) fn is_first(
        &self,
        org: Option<OrgId>,
        event: &Event,
        origin: &Arc<Origin>,
        now: &Now,
    ) -> bool {
        let mut kinds = self.0.lock();
        let mut kind = RefusalKind { org, action: event.action.name(), who: Some(who(event, origin)) };
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            kind.who = None;
        }
        let is_told_apart = kind.who.is_some();
        let mut is_new = false;
        let counted = kinds.entry(kind).or_insert_with(|| {
            is_new = true;
            let origin = if is_told_apart { Arc::clone(origin) } else { Origin::system() };
            RefusalCount { since: now.clone(), more: 0, event: event.clone(), origin }
        });
        if is_new && is_told_apart {
            return true;
        }
        counted.more += 1;
        false
    }

    /// Takes out what was counted and is older than the window, or everything.
    pub(super) fn take(&self, now: Moment, all: bool) -> Vec<(RefusalKind, RefusalCount)> {
        let mut kinds = self.0.lock();
        kinds
            .extract_if(|_, counted| all || now.since(counted.since.moment) >= REFUSAL_WINDOW)
            .filter(|(_, counted)| counted.more > 0)
            .collect()
    }

    /// Counts again what could not be written, with what was counted meanwhile.
    pub(super) fn put_back(&self, kind: RefusalKind, counted: RefusalCount) {
        match self.0.lock().entry(kind) {
            Entry::Occupied(mut since) => {
                let more = since.get().more;
                *since.get_mut() = RefusalCount { more: counted.more + more, ..counted };
            }
            Entry::Vacant(free) => drop(free.insert(counted)),
        }
    }
}

fn who(event: &Event, origin: &Origin) -> (Actor, ResourceV1, Option<[u8; 8]>) {
    let actor = event.actor.unwrap_or_else(|| origin.actor());
    let network = origin.ip().filter(|_| actor == Actor::Anonymous).map(|ip| match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [a, b, c, d, 0, 0, 0, 4]
        }
        // Whoever has one address of IPv6 has the 2^64 of its network.
        IpAddr::V6(ip) => {
            let mut network = [0; 8];
            network.copy_from_slice(&ip.octets()[..8]);
            network
        }
    });
    (actor, event.resource.clone(), network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::audit::Action;
    use base::clock::Timestamp;
    use base::ids::RequestId;

    fn from(ip: &str) -> Arc<Origin> {
        Origin::request(ip.parse().unwrap(), RequestId::accept(None))
    }

    #[test]
    fn the_first_of_a_kind_is_written_and_the_others_are_counted() {
        let refusals = Refusals::default();
        let (now, login) = (Now::from(Timestamp(1_000_000)), Event::new(Action::AuthLoginRefused));
        assert!(refusals.is_first(None, &login, &from("192.0.2.1"), &now));
        assert!(!refusals.is_first(None, &login, &from("192.0.2.1"), &now));
        assert!(!refusals.is_first(None, &login, &from("192.0.2.1"), &now));
        assert!(refusals.is_first(None, &login, &from("192.0.2.2"), &now), "another network");
        assert!(refusals.is_first(Some(OrgId::new()), &login, &from("192.0.2.1"), &now), "another chain");
        assert!(refusals.is_first(None, &login, &from("2001:db8::1"), &now));
        assert!(!refusals.is_first(None, &login, &from("2001:db8::2"), &now), "one network of IPv6");
        assert!(refusals.take(now.moment, false).is_empty(), "the minute is not over");
        let later = Now::from(Timestamp(1_000_000).after(REFUSAL_WINDOW));
        let mut counts: Vec<_> =
            refusals.take(later.moment, false).into_iter().map(|(_, counted)| counted.more).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 2]);
        assert!(refusals.is_first(None, &login, &from("192.0.2.1"), &later), "a new minute");
    }

    #[test]
    fn a_flood_from_everywhere_is_counted_together() {
        let refusals = Refusals::default();
        let (now, login) = (Now::from(Timestamp(1_000_000)), Event::new(Action::AuthLoginRefused));
        let first = (0..2_000u32)
            .filter(|n| {
                let [_, b, c, d] = n.to_be_bytes();
                refusals.is_first(None, &login, &from(&format!("10.{b}.{c}.{d}")), &now)
            })
            .count();
        assert_eq!(first, KINDS_MAX);
        let counted = refusals.take(now.moment, true);
        assert_eq!(counted.iter().map(|(_, counted)| counted.more).sum::<u64>(), 2_000 - KINDS_MAX as u64);
        assert_eq!(counted.len(), 1);
        assert_eq!(counted[0].1.origin.actor(), Actor::System);
    }
}
