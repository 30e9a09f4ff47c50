//! Resetting a password: a token that goes to the address, is good once and for an hour, and ends every session.
//!
//! Asking must not tell whether an address has an account (API page, section 2). So the same rows are written for both
//! in one commit, whose flush is nearly all of the time; what differs is the row of the message itself, and answers
//! leave at whole steps of time after the request, within the first of which both are ready. A token is one row per
//! address: asking again replaces it.

use super::email::Email;
use super::limits;
use super::mail::MailToken;
use super::password::{self, NewPassword};
use super::rows::{PasswordResetV1, RESETS, RESETS_BY_TOKEN, USERS, USERS_BY_EMAIL, UserV1};
use super::service::{Auth, member_of};
use super::session;
use crate::base::audit::Action;
use crate::base::ids::UserId;
use crate::base::{Error, Result};
use crate::engine::secret::sha256;
use crate::features::mail::{self, Letter, MailKind, NewMail};
use crate::store::{Event, SysRead, SysWrite};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long a reset token lives (API page, section 2).
pub(super) const RESET_TIME: Duration = Duration::from_secs(3600);
/// Answers to a request for a reset leave this far apart.
const ANSWER_STEP: Duration = Duration::from_millis(25);

impl Auth {
    /// Sends a reset token to the address if it has an account; the answer is the same if it has none.
    pub async fn forgot_password(&self, email: &str, ip: IpAddr) -> Result<()> {
        let email = Email::parse(email)?;
        let token = self.mail_token(MailKind::ResetPassword)?;
        let public_url = self.settings.public_url.clone();
        let begun = Instant::now();
        let counted = self
            .system
            .write(move |tx| {
                if limits::count_reset(tx, ip, &email)? {
                    request(tx, &email, &token, &public_url)?;
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
    pub async fn reset_password(&self, token: &str, password: &str) -> Result<()> {
        password::check_length(password)?;
        let token = sha256(token.as_bytes());
        // Junk costs neither a hash nor a commit.
        let (_, user) = self.system.read(|tx| good(tx, &token))?.ok_or_else(refused)?;
        let password = NewPassword::parse(password, &Email::parse(&user.email)?)?;
        let password_hash = self.passwords.hash(password).await?;
        let is_done = self
            .system
            .write(move |tx| {
                // Asked again: of two uses at once, one is the second.
                let Some((row, user)) = good(tx, &token)? else { return Ok(false) };
                replace(tx, &row, user, password_hash)?;
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

fn request(tx: &SysWrite<'_>, email: &Email, token: &MailToken, public_url: &str) -> Result<()> {
    let user = tx.lookup(&USERS, &USERS_BY_EMAIL, |key| key.str(email.as_str()))?;
    let row = begin(tx, email.as_str(), user.as_ref().map(|user| user.id), token, RESET_TIME)?;
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

/// Makes `token` the one with which the password of `user` can be replaced for that time; an earlier one ends, and so does
/// a message with it that was not sent.
pub(super) fn begin(
    tx: &SysWrite<'_>,
    address: &str,
    user: Option<UserId>,
    token: &MailToken,
    time: Duration,
) -> Result<PasswordResetV1> {
    let row = PasswordResetV1 {
        address: sha256(address.as_bytes()),
        token: token.digest(),
        user,
        expires_at: tx.moment().after(time),
    };
    tx.put(&RESETS, &row.address, &row)?;
    // Looked for also where there can be none.
    mail::forget(tx, user.unwrap_or(UserId(Uuid::nil())), MailKind::ResetPassword)?;
    Ok(row)
}

/// The request that a token belongs to and its person, if it is good now.
fn good(tx: &SysRead<'_>, token: &[u8; 32]) -> Result<Option<(PasswordResetV1, UserV1)>> {
    let row = tx.lookup(&RESETS, &RESETS_BY_TOKEN, |key| key.fixed(token))?;
    let Some(row) = row.filter(|row| row.expires_at > tx.moment()) else { return Ok(None) };
    let user = row.user.map(|id| tx.get(&USERS, &id)).transpose()?.flatten();
    Ok(user.map(|user| (row, user)))
}

fn replace(tx: &SysWrite<'_>, row: &PasswordResetV1, mut user: UserV1, password_hash: String) -> Result<()> {
    tx.delete(&RESETS, &row.address)?;
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
