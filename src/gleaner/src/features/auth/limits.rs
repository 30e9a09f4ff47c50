//! The login limit: ten failures per address and ten per account in fifteen minutes, then 429 until the window slides.
//!
//! Anybody can fail at a login with anybody's address, so the account's count closes the account to strangers only: to
//! networks from which the person has not logged in lately (see `networks.rs`). From one of theirs the network's own count
//! holds alone, and a person who is logged in and confirms their password has a count of their own. All guesses at one
//! account together are thereby bounded by ten, and ten for each network of its owner.
//!
//! Failures are rows, so a restart forgives nobody. Only failures count, and a refused try does not prolong the refusal.
//! An account is the address that was typed, whether it exists or not: the limit must not tell them apart. Rows are
//! bounded: one is at most ten times long, is made only by a password check (of which the box does a bounded number a
//! second), and is swept when its newest failure has left the window.
//!
//! Requests for a password reset are counted in the same rows under keys of their own: a person's mailbox gets three
//! messages in the time at most, and one network asks thirty times, so that the rows it leaves are bounded too. So are
//! repeated verification messages: whoever registers somebody else's address shall not flood it.

use super::email::Email;
use super::networks::{self, network};
use super::rows::{USERS, USERS_BY_EMAIL};
use crate::features::{Erased, Person};
use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::UserId;
use base::{Code, Error, Result};
use secrets::{Digest, sha256};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use store::{Index, SysRead, SysTable, SysWrite, readable};

/// See data/docs/api.md, "People, organizations and keys".
const FAILURES_MAX: usize = 10;
/// Reset messages to one address within the window.
const RESETS_PER_ACCOUNT_MAX: usize = 3;
/// Verification messages to one address within the window, beside the first.
const VERIFICATIONS_PER_ACCOUNT_MAX: usize = 3;
/// Requests for a reset from one network within the window.
const RESETS_PER_NETWORK_MAX: usize = 30;
/// See data/docs/api.md, "People, organizations and keys".
pub const FAILURE_WINDOW: Duration = Duration::from_secs(15 * 60);

/// The newest failures (or requests) under one key, oldest first.
#[derive(Clone, Serialize, Deserialize)]
pub struct LoginFailuresV1 {
    pub key: Digest,
    pub at: Vec<Moment>,
}

impl Record for LoginFailuresV1 {}

pub static FAILURES_BY_NEWEST: Index<LoginFailuresV1> =
    Index::new("login_failures.by_newest", |row, keys| {
        if let Some(&newest) = row.at.last() {
            keys.add(|key| key.moment(newest));
        }
    });
pub static LOGIN_FAILURES: SysTable<Digest, LoginFailuresV1> =
    SysTable::new("login_failures", "Login failures").indexed(&[&FAILURES_BY_NEWEST]);

/// Whose failures a try to log in counts among.
#[derive(Clone)]
pub struct LoginCounters {
    network: Digest,
    account: Digest,
    ip: IpAddr,
    email: String,
}

/// Whose failures a password counts among that somebody who is logged in is asked for once more.
#[derive(Clone)]
pub struct PasswordCounters {
    own: Digest,
    login: LoginCounters,
}

/// Codes that somebody typed and that there are not: of a person, and of a network, within the window.
const GUESSES_PER_USER_MAX: usize = 10;
const GUESSES_PER_NETWORK_MAX: usize = 30;

/// Whose guess a code counts among, that a person types off another screen.
#[derive(Clone, Copy)]
pub struct CodeGuesses {
    user: Digest,
    network: Digest,
}

impl CodeGuesses {
    pub fn of(user: UserId, ip: IpAddr) -> CodeGuesses {
        let user = sha256(&[b"code-user:".as_slice(), user.0.as_bytes()].concat());
        CodeGuesses { user, network: network("code-ip", ip) }
    }

    /// Refuses with 429 and `Retry-After` when either has no guesses left.
    pub fn check(&self, tx: &SysRead<'_>) -> Result<()> {
        let of_user = wait(tx, &self.user, GUESSES_PER_USER_MAX)?;
        let of_network = wait(tx, &self.network, GUESSES_PER_NETWORK_MAX)?;
        refuse_for(
            of_user.max(of_network),
            "Too many unknown codes",
            "Wait until some of the codes that there are not are 15 minutes old.",
        )
    }

    /// Counts a code that there is not.
    pub fn record(&self, tx: &SysWrite<'_>) -> Result<()> {
        record(tx, &self.user, GUESSES_PER_USER_MAX)?;
        record(tx, &self.network, GUESSES_PER_NETWORK_MAX)
    }
}

fn account(counter: &str, email: &str) -> Digest {
    sha256(&[counter.as_bytes(), b":", email.as_bytes()].concat())
}

/// A person has proved who they are in another way: their failed logins are forgotten.
pub fn forgive(tx: &SysWrite<'_>, email: &str) -> Result<()> {
    for counter in ["account", CONFIRMATIONS] {
        let key = account(counter, email);
        readable("a count of failed logins", hex(&key), tx.delete(&LOGIN_FAILURES, &key))?;
    }
    Ok(())
}

/// Counts the passwords that somebody who is logged in has got wrong.
const CONFIRMATIONS: &str = "confirm-account";

/// When something was counted under an address lately, and what.
pub fn times_of(tx: &SysRead<'_>, email: &str) -> Result<Vec<(&'static str, Timestamp)>> {
    let mut times = Vec::new();
    // A wrong password of somebody who is logged in counts as a failed login, too.
    for (what, counter) in [("failed login", "account"), ("password reset", "reset-account")] {
        times.extend(recent(tx, &account(counter, email))?.into_iter().map(|at| (what, tx.date_of(at))));
    }
    Ok(times)
}

/// Removes whatever was counted under a person's address until they asked to be erased; how many counters that were.
pub fn forget(tx: &SysWrite<'_>, person: &Person) -> Result<Erased> {
    let mut erased = Erased::default();
    for counter in ["account", "reset-account", CONFIRMATIONS] {
        let key = account(counter, &person.email);
        let row = readable("failed logins", person.id, tx.get(&LOGIN_FAILURES, &key))?;
        erased.left += u64::from(row.is_none());
        let Some(mut row) = row.flatten() else { continue };
        let before = row.at.len();
        let asked_at = tx.clock().moment_of(person.asked_at);
        row.at.retain(|at| *at > asked_at);
        if row.at.is_empty() {
            erased.removed += u64::from(tx.delete(&LOGIN_FAILURES, &key)?);
        } else if row.at.len() < before {
            tx.put(&LOGIN_FAILURES, &key, &row)?;
        }
    }
    Ok(erased)
}

impl LoginCounters {
    pub fn of(ip: IpAddr, email: &Email) -> LoginCounters {
        let email = email.as_str();
        let (network, account) = (network("ip", ip), account("account", email));
        LoginCounters { network, account, ip, email: email.to_owned() }
    }

    /// Refuses with 429 and `Retry-After` when either has no tries left; the account never has none for its owner's own
    /// networks.
    pub fn check(&self, tx: &SysRead<'_>) -> Result<()> {
        let of_network = wait(tx, &self.network, FAILURES_MAX)?;
        let mut of_account = wait(tx, &self.account, FAILURES_MAX)?;
        // Asked where it matters only: it is the one thing here that is another for an address without an account.
        if !of_account.is_zero() && self.is_from_home(tx)? {
            of_account = Duration::ZERO;
        }
        // A new password does not help whose own network has failed too often.
        let what_to_do = if of_network.is_zero() { WAIT_OR_RESET } else { WAIT };
        too_many_failures(of_network.max(of_account), what_to_do)
    }

    fn is_from_home(&self, tx: &SysRead<'_>) -> Result<bool> {
        match tx.lookup(&USERS, &USERS_BY_EMAIL, |key| key.str(&self.email))? {
            Some(user) => networks::knows(tx, user.id, self.ip),
            None => Ok(false),
        }
    }

    /// Counts a failure now.
    pub fn record(&self, tx: &SysWrite<'_>) -> Result<()> {
        [&self.network, &self.account].into_iter().try_for_each(|key| record(tx, key, FAILURES_MAX))
    }
}

impl PasswordCounters {
    pub fn of(ip: IpAddr, email: &Email) -> PasswordCounters {
        PasswordCounters { own: account(CONFIRMATIONS, email.as_str()), login: LoginCounters::of(ip, email) }
    }

    /// Refuses with 429 and `Retry-After` when the person has no tries left. What others failed at does not matter here.
    pub fn check(&self, tx: &SysRead<'_>) -> Result<()> {
        too_many_failures(wait(tx, &self.own, FAILURES_MAX)?, WAIT)
    }

    /// Counts a failure now, also as one of logging in: a found token is no way around that limit.
    pub fn record(&self, tx: &SysWrite<'_>) -> Result<()> {
        record(tx, &self.own, FAILURES_MAX)?;
        self.login.record(tx)
    }
}

/// What whoever is locked out can do.
const WAIT: &str = "Wait until some of the failed tries are 15 minutes old.";
/// The same where others may have failed at the account, elsewhere: a link to the mailbox lets its owner in at once, and the
/// network that it is used in is theirs from then on.
const WAIT_OR_RESET: &str = "Wait until some of the failed tries for this account are 15 minutes old, or set a new password \
    by a link that POST /api/v1/auth/forgot-password sends: it lets you in at once.";

fn too_many_failures(wait: Duration, what_to_do: &str) -> Result<()> {
    refuse_for(wait, "Too many failed logins", what_to_do)
}

/// Counts a request for a password reset; whether a message may be sent. Refuses with 429 when the network has asked too
/// often. What is done does not depend on whether there is such an account.
pub fn count_reset(tx: &SysWrite<'_>, ip: IpAddr, email: &Email) -> Result<bool> {
    let network = network("reset-ip", ip);
    refuse_for(
        wait(tx, &network, RESETS_PER_NETWORK_MAX)?,
        "Too many password resets",
        "Wait until some of your requests are 15 minutes old.",
    )?;
    let account = account("reset-account", email.as_str());
    let may_send = wait(tx, &account, RESETS_PER_ACCOUNT_MAX)?.is_zero();
    record(tx, &network, RESETS_PER_NETWORK_MAX)?;
    // A request that sends nothing does not prolong the wait.
    if may_send {
        record(tx, &account, RESETS_PER_ACCOUNT_MAX)?;
    }
    Ok(may_send)
}

/// Counts a repeated verification message to an address; 429 when it has got too many.
pub fn count_verification(tx: &SysWrite<'_>, email: &str) -> Result<()> {
    let account = account("verify-account", email);
    refuse_for(
        wait(tx, &account, VERIFICATIONS_PER_ACCOUNT_MAX)?,
        "Too many verification messages",
        "Look for the last one among unwanted mail, or wait until some of them are 15 minutes old.",
    )?;
    record(tx, &account, VERIFICATIONS_PER_ACCOUNT_MAX)
}

/// How long until fewer than `max` of a key's times are in the window.
fn wait(tx: &SysRead<'_>, key: &Digest, max: usize) -> Result<Duration> {
    let recent = recent(tx, key)?;
    let full = recent.len().checked_sub(max).map(|first| recent[first]);
    Ok(full.map_or(Duration::ZERO, |first| first.after(FAILURE_WINDOW).since(tx.moment())))
}

fn refuse_for(wait: Duration, title: &'static str, message: &str) -> Result<()> {
    if wait.is_zero() {
        return Ok(());
    }
    Err(Error::new(Code::RateLimited)
        .title(title)
        .message(message)
        .header("retry-after", wait.as_millis().div_ceil(1000).to_string()))
}

/// Adds this moment to a key's times, of which the newest `max` are kept.
fn record(tx: &SysWrite<'_>, key: &Digest, max: usize) -> Result<()> {
    let mut at = recent(tx, key)?;
    at.push(tx.moment());
    let surplus = at.len().saturating_sub(max);
    tx.put_over(&LOGIN_FAILURES, key, &LoginFailuresV1 { key: *key, at: at.split_off(surplus) })
}

/// A counter in the log.
fn hex(key: &Digest) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The failures inside the window.
fn recent(tx: &SysRead<'_>, key: &Digest) -> Result<Vec<Moment>> {
    // A damaged count must not lock a whole network out; the next failure begins it anew.
    let row = readable("a count of failed logins", hex(key), tx.get(&LOGIN_FAILURES, key))?.flatten();
    let mut at = row.map(|row| row.at).unwrap_or_default();
    at.retain(|time| tx.moment().since(*time) < FAILURE_WINDOW);
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_counts_as_one_and_accounts_apart_from_addresses() {
        let email = Email::parse("ada@example.com").unwrap();
        let of = |ip: &str| {
            let counters = LoginCounters::of(ip.parse().unwrap(), &email);
            [counters.network, counters.account]
        };
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1")[0], of("2001:db8:0:1::1")[0]);
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1")[0], of("10.0.0.2")[0]);
        assert_eq!(of("10.0.0.1")[1], of("10.0.0.2")[1]);
    }
}
