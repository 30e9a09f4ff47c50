//! The login limit: ten failures per address and ten per account in fifteen minutes, then 429 until the window slides.
//!
//! Failures are rows, so a restart forgives nobody. Only failures count, and a refused try does not prolong the refusal.
//! An account is the address that was typed, whether it exists or not: the limit must not tell them apart. Rows are
//! bounded: one is at most ten times long, is made only by a password check (of which the box does a bounded number a
//! second), and is swept when its newest failure has left the window.

use super::email::Email;
use crate::base::clock::Timestamp;
use crate::base::codec::Record;
use crate::base::{Code, Error, Result};
use crate::engine::secret::{Digest, sha256};
use crate::store::{Index, SysRead, SysTable, SysWrite};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// API page, section 2.
const FAILURES_MAX: usize = 10;
/// API page, section 2.
pub const FAILURE_WINDOW: Duration = Duration::from_secs(15 * 60);

/// The newest failures under one key, oldest first.
#[derive(Clone, Serialize, Deserialize)]
pub struct LoginFailuresV1 {
    pub key: Digest,
    pub at: Vec<Timestamp>,
}

impl Record for LoginFailuresV1 {}

pub static FAILURES_BY_NEWEST: Index<LoginFailuresV1> =
    Index::new("login_failures.by_newest", |row, keys| {
        if let Some(&newest) = row.at.last() {
            keys.add(|key| key.time(newest));
        }
    });
pub static LOGIN_FAILURES: SysTable<Digest, LoginFailuresV1> =
    SysTable::new("login_failures", "Login failures").indexed(&[&FAILURES_BY_NEWEST]);

/// Whose failures a try counts among.
#[derive(Clone, Copy)]
pub struct Counters([Digest; 2]);

impl Counters {
    pub fn of(ip: IpAddr, email: &Email) -> Counters {
        // Whoever has one address of IPv6 has the 2^64 of its network.
        let network = match ip.to_canonical() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets()[..8].to_vec(),
        };
        let ip = sha256(&[b"ip:", network.as_slice()].concat());
        Counters([ip, sha256(&[b"account:", email.as_str().as_bytes()].concat())])
    }

    /// Refuses with 429 and `Retry-After` when either has no tries left.
    pub fn check(&self, tx: &SysRead<'_>) -> Result<()> {
        let mut wait = Duration::ZERO;
        for key in &self.0 {
            let recent = recent(tx, key)?;
            if recent.len() >= FAILURES_MAX {
                wait = wait.max(recent[recent.len() - FAILURES_MAX].after(FAILURE_WINDOW).since(tx.now()));
            }
        }
        if wait.is_zero() {
            return Ok(());
        }
        Err(Error::new(Code::RateLimited)
            .title("Too many failed logins")
            .message("Wait until some of your failed tries are 15 minutes old.")
            .header("retry-after", wait.as_millis().div_ceil(1000).to_string()))
    }

    /// Counts a failure now.
    pub fn record(&self, tx: &SysWrite<'_>) -> Result<()> {
        for key in &self.0 {
            let mut at = recent(tx, key)?;
            at.push(tx.now());
            let surplus = at.len().saturating_sub(FAILURES_MAX);
            tx.put(&LOGIN_FAILURES, key, &LoginFailuresV1 { key: *key, at: at.split_off(surplus) })?;
        }
        Ok(())
    }
}

/// The failures inside the window.
fn recent(tx: &SysRead<'_>, key: &Digest) -> Result<Vec<Timestamp>> {
    let mut at = tx.get(&LOGIN_FAILURES, key)?.map(|row| row.at).unwrap_or_default();
    at.retain(|time| tx.now().since(*time) < FAILURE_WINDOW);
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_counts_as_one_and_accounts_apart_from_addresses() {
        let email = Email::parse("ada@example.com").unwrap();
        let of = |ip: &str| Counters::of(ip.parse().unwrap(), &email).0;
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1")[0], of("2001:db8:0:1::1")[0]);
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1")[0], of("10.0.0.2")[0]);
        assert_eq!(of("10.0.0.1")[1], of("10.0.0.2")[1]);
    }
}
