//! How many sign-ins may fail from one network: each can cost the provider a request. Counted in memory; a restart forgives.

use crate::features::auth::network;
use base::clock::Moment;
use parking_lot::Mutex;
use secrets::Digest;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Failures of one network within the window.
const FAILURES_MAX: u32 = 30;
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Networks that are told apart within the window; those after them share one count.
const NETWORKS_MAX: usize = 100_000;

/// The failures of the present window.
#[derive(Default)]
pub struct Failures(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    began_at: Moment,
    of: HashMap<Digest, u32>,
}

impl Counts {
    fn turn_over(&mut self, now: Moment) {
        if now.since(self.began_at) >= WINDOW {
            *self = Counts { began_at: now, of: HashMap::new() };
        }
    }

    fn key(&self, ip: IpAddr) -> Digest {
        let own = network("oidc", ip);
        let is_room = self.of.len() < NETWORKS_MAX || self.of.contains_key(&own);
        if is_room { own } else { Digest::default() }
    }
}

impl Failures {
    pub fn are_too_many(&self, ip: IpAddr, now: Moment) -> bool {
        let mut counts = self.0.lock();
        counts.turn_over(now);
        let key = counts.key(ip);
        counts.of.get(&key).is_some_and(|count| *count >= FAILURES_MAX)
    }

    pub fn count(&self, ip: IpAddr, now: Moment) {
        let mut counts = self.0.lock();
        counts.turn_over(now);
        let key = counts.key(ip);
        *counts.of.entry(key).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_fails_so_often_in_a_window() {
        let (failures, begun) = (Failures::default(), Moment(1_000_000_000));
        let [one, neighbour, other]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::2", "192.0.2.1"].map(|ip| ip.parse().unwrap());
        for _ in 0..FAILURES_MAX {
            assert!(!failures.are_too_many(one, begun));
            failures.count(one, begun);
        }
        assert!(failures.are_too_many(one, begun) && failures.are_too_many(neighbour, begun));
        assert!(!failures.are_too_many(other, begun));
        assert!(!failures.are_too_many(one, begun.after(WINDOW)));
    }
}
