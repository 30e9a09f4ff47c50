//! How many accounts one network asks for: each costs a hash, a row and a message, and comes with an organization's credits.
//!
//! Counted in memory, by the hour: a restart forgives, and is not in a stranger's hands. Networks are a /24 of IPv4 and a /64
//! of IPv6, since whoever rents one address has its neighbours soon.

use base::clock::Moment;
use base::network::network_of;
use base::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

const HOUR_MS: i64 = 3_600_000;
/// Of an IPv4 address what is told apart.
const V4_BITS: u32 = 24;
/// Networks that are told apart within an hour; those after them share one count.
const NETWORKS_MAX: usize = 100_000;

/// The registrations of this hour.
pub struct Registrations {
    per_hour: u32,
    counts: Mutex<HourCounts>,
}

#[derive(Default)]
struct HourCounts {
    hour: i64,
    of: HashMap<IpAddr, u32>,
}

impl Registrations {
    pub fn new(per_hour: u32) -> Registrations {
        Registrations { per_hour, counts: Mutex::default() }
    }

    /// Counts one; 429 when its network has asked for as many in this hour as it may.
    pub fn count(&self, ip: IpAddr, now: Moment) -> Result<()> {
        let hour = now.millis().div_euclid(HOUR_MS);
        let mut counts = self.counts.lock();
        if counts.hour != hour {
            *counts = HourCounts { hour, of: HashMap::new() };
        }
        let mut network = network_of(ip, V4_BITS);
        if counts.of.len() >= NETWORKS_MAX && !counts.of.contains_key(&network) {
            network = Ipv6Addr::UNSPECIFIED.into();
        }
        let count = counts.of.entry(network).or_default();
        if *count >= self.per_hour {
            let wait = Moment((hour + 1) * HOUR_MS).since(now).as_millis().div_ceil(1000);
            return Err(Error::new(Code::RateLimited)
                .title("Too many registrations")
                .message(format!(
                    "Your network has asked for {} accounts within this hour; ask for an invitation, or wait.",
                    self.per_hour
                ))
                .header("retry-after", wait.to_string()));
        }
        *count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_so_many_an_hour() {
        let (all, now) = (Registrations::new(3), Moment(7 * HOUR_MS + 1_000));
        let count = |ip: &str, now| all.count(ip.parse().unwrap(), now);
        for ip in ["192.0.2.1", "192.0.2.200", "::ffff:192.0.2.7"] {
            count(ip, now).unwrap();
        }
        let refused = count("192.0.2.9", now).unwrap_err();
        assert_eq!((refused.code(), refused.headers()[0].1.as_str()), (Code::RateLimited, "3599"));
        count("192.0.3.1", now).unwrap();
        for _ in 0..3 {
            count("2001:db8::1", now).unwrap();
        }
        assert!(count("2001:db8::ffff:2", now).is_err() && count("2001:db8:0:1::1", now).is_ok());
        count("192.0.2.9", Moment(8 * HOUR_MS)).unwrap();
    }
}
