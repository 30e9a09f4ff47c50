//! Resetting a password: a token that goes to the address, is good once and for an hour, and ends every session.
//!
//! Asking must not tell whether an address has an account (data/docs/api.md, "People, organizations and keys"). So the
//! same rows are written for both in one commit, whose flush is nearly all of the time; what differs is the row of the
//! message itself, and answers leave at whole steps of time after the request, within the first of which both are ready.
//!
//! Anybody can ask for anybody, so asking again leaves the earlier links as they are, or a stranger could keep a person
//! from ever using one. As many rows as can be asked for in an hour have a place each ([`place`]); using one ends all.

use super::email::Email;
use super::limits;
use super::mail::MailToken;
use super::networks;
use super::password::{self, NewPassword};
use super::provider;
use super::rows::member_of;
use super::rows::{PasswordResetV1, RESETS, RESETS_BY_TOKEN, USERS, USERS_BY_EMAIL, UserV1};
use super::service::Auth;
use super::session;
use crate::features::mail::{self, Letter, MailKind, NewMail};
use base::audit::Action;
use base::clock::Moment;
use base::ids::UserId;
use base::{Error, Result};
use secrets::{Digest, sha256};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use store::{Event, SysRead, SysWrite, readable};

/// How long a reset token lives (data/docs/api.md, "People, organizations and keys").
pub(super) const RESET_TIME: Duration = Duration::from_secs(3600);
/// Requests of one address that are good at a time: [`limits::count_reset`] lets three be made in fifteen minutes. One
/// more takes the place of the one that ends first.
const PLACES: u8 = 12;
/// Answers to a request for a reset leave this far apart.
const ANSWER_STEP: Duration = Duration::from_millis(25);

impl Auth {
    /// Sends a reset token to the address if it has an account; the answer is the same if it has none.
    pub async fn forgot_password(&self, email: &str, ip: IpAddr) -> Result<()> {
        let email = Email::parse(email)?;
        let token = self.mail_token(MailKind::ResetPassword)?;
        let public_url = self.settings.public_url.clone();
        let bars = self.bars_password();
        let begun = Instant::now();
        let counted = self
            .system
            .write(move |tx| {
                if limits::count_reset(tx, ip, &email)? {
                    request(tx, &email, &token, &public_url, bars)?;
                } else {
                    tx.unaudited("nothing is sent; the request is counted among the others of its address");
                }
                Ok(())
            })
            .await;
        tokio::time::sleep_until((begun + next_step(begun.elapsed())).into()).await;
        counted
    }

    /// Replaces the password of the person whom `token` was sent to. A token that is not good, and a password that may
    /// not be chosen, are a 400 that uses nothing up.
    pub async fn reset_password(&self, token: &str, password: &str, ip: IpAddr) -> Result<()> {
        password::check_length(password)?;
        let token = sha256(token.as_bytes());
        // Junk costs neither a hash nor a commit.
        let bars = self.bars_password();
        let user = self.system.read(|tx| good(tx, &token, bars))?.ok_or_else(refused)?;
        let password = NewPassword::parse(password, &Email::parse(&user.email)?)?;
        let password_hash = self.passwords.hash(password).await?;
        let is_done = self
            .system
            .write(move |tx| {
                // Asked again: of two uses at once, one is the second.
                let Some(user) = good(tx, &token, bars)? else { return Ok(false) };
                let id = user.id;
                replace(tx, user, password_hash)?;
                // The mailbox is theirs: whoever fails elsewhere does not lock them out here.
                networks::learn(tx, id, ip)?;
                Ok(true)
            })
            .await?;
        if is_done { Ok(()) } else { Err(refused()) }
    }
}

/// When an answer may go out that was ready `elapsed` after its request.
///
/// A message for a known address is written in a bigger commit than the count for an unknown one: by the medians of
/// `cargo bench --bench people` 0.93 ms against 0.81, from which nine of ten guesses were right. Both are ready within the
/// first step almost always, and then go out alike.
fn next_step(elapsed: Duration) -> Duration {
    let steps = elapsed.as_nanos() / ANSWER_STEP.as_nanos() + 1;
    ANSWER_STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

fn refused() -> Error {
    Error::invalid(
        "token",
        "is not valid any more; ask for a new message with POST /api/v1/auth/forgot-password",
    )
}

/// `bars`: whom the company's provider lets in is sent nothing; to whoever asked that looks like an address without an account.
fn request(tx: &SysWrite<'_>, email: &Email, token: &MailToken, public_url: &str, bars: bool) -> Result<()> {
    let user = tx.lookup(&USERS, &USERS_BY_EMAIL, email.as_str())?;
    let is_barred = match &user {
        Some(user) => bars && provider::bars(tx, user)?,
        None => false,
    };
    let user = user.filter(|_| !is_barred);
    let place = free_place(tx, email.as_str())?;
    let row = begin(tx, place, user.as_ref().map(|user| user.id), token, RESET_TIME)?;
    let event = Event::new(Action::AuthResetRequested);
    let Some(user) = user else { return tx.audit(event) };
    tx.audit_in(member_of(&user), event.of(user.id).about(user.id))?;
    NewMail {
        about: user.id.into(),
        org: None,
        to: &user.email,
        letter: Letter::ResetPassword { name: &user.name, url: public_url },
        token: token.sealed(),
        good_until: Some(row.expires_at),
    }
    .send(tx)
}

/// Where the `n`th request of an address stands. The first is where the only one was in earlier releases.
fn place(address: &str, n: u8) -> Digest {
    let first = sha256(address.as_bytes());
    if n == 0 { first } else { sha256(&[first.as_slice(), &[n]].concat()) }
}

/// The place for one more request of an address: one that is empty or over, or else that of the one that ends first.
fn free_place(tx: &SysRead<'_>, address: &str) -> Result<Digest> {
    let mut first = (Moment(i64::MAX), place(address, 0));
    for n in 0..PLACES {
        let place = place(address, n);
        let Some(row) = tx.get(&RESETS, &place)?.filter(|row| row.expires_at > tx.moment()) else {
            return Ok(place);
        };
        first = first.min((row.expires_at, place));
    }
    Ok(first.1)
}

/// Ends every request of an address; how many there were.
pub(super) fn end_all(tx: &SysWrite<'_>, address: &str) -> Result<u64> {
    let mut ended = 0;
    for n in 0..PLACES {
        let ending = tx.delete(&RESETS, &place(address, n));
        // With what cannot be read no password is replaced.
        ended += u64::from(readable("a password reset", n, ending)?.unwrap_or_default());
    }
    Ok(ended)
}

/// Makes `token` the only one with which the password of `user` can be replaced, for that time; earlier ones end, and so do
/// messages with them that were not sent.
pub(super) fn begin_afresh(
    tx: &SysWrite<'_>,
    user: &UserV1,
    token: &MailToken,
    time: Duration,
) -> Result<PasswordResetV1> {
    end_all(tx, &user.email)?;
    mail::forget(tx, user.id, MailKind::ResetPassword)?;
    begin(tx, place(&user.email, 0), Some(user.id), token, time)
}

/// Makes `token` one with which the password of `user` can be replaced for that time.
fn begin(
    tx: &SysWrite<'_>,
    place: Digest,
    user: Option<UserId>,
    token: &MailToken,
    time: Duration,
) -> Result<PasswordResetV1> {
    let expires_at = tx.moment().after(time);
    let row = PasswordResetV1 { address: place, token: token.digest(), user, expires_at };
    tx.put(&RESETS, &row.address, &row)?;
    Ok(row)
}

/// The person whom a token was sent to, if it is good now.
fn good(tx: &SysRead<'_>, token: &Digest, bars: bool) -> Result<Option<UserV1>> {
    let row = tx.lookup(&RESETS, &RESETS_BY_TOKEN, token)?;
    let Some(row) = row.filter(|row| row.expires_at > tx.moment()) else { return Ok(None) };
    let user = row.user.map(|id| tx.get(&USERS, &id)).transpose()?.flatten();
    // Let in by the provider since the message was sent.
    match user {
        Some(user) if bars && provider::bars(tx, &user)? => Ok(None),
        user => Ok(user),
    }
}

fn replace(tx: &SysWrite<'_>, mut user: UserV1, password_hash: String) -> Result<()> {
    end_all(tx, &user.email)?;
    mail::forget(tx, user.id, MailKind::ResetPassword)?;
    limits::forgive(tx, &user.email)?;
    user.password_hash = password_hash;
    session::end_all(tx, &mut user)?;
    tx.audit_in(member_of(&user), Event::new(Action::AuthPasswordReset).of(user.id).by(user.id))?;
    tx.put(&USERS, &user.id, &user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_at_whole_steps() {
        let step = |micros| next_step(Duration::from_micros(micros));
        assert_eq!(step(0), ANSWER_STEP);
        assert_eq!(step(930), step(810));
        assert_eq!(step(24_999), ANSWER_STEP);
        assert_eq!(step(25_000), 2 * ANSWER_STEP);
        assert!(next_step(Duration::from_secs(3600)) > Duration::from_secs(3600));
    }
}
