//! The tokens that messages carry, and e-mail verification, which is what the first of them is for.

use super::rows::{USERS, UserV1, VERIFICATIONS, VERIFICATIONS_BY_USER, VerificationV1};
use crate::features::mail::{self, Letter, MailKind, NewMail, SealedTokenV1};
use base::ids::UserId;
use base::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrets::keyring::Keyring;
use secrets::{Digest, random_bytes, sha256};
use std::time::Duration;
use store::{Order, SysWrite};

/// How long a verification token lives (data/docs/api.md, "People, organizations and keys").
pub const VERIFICATION_TIME: Duration = Duration::from_secs(24 * 3600);
/// Rows of one kind that a person can have at a time; there is one, and the number only bounds the scan.
const PER_USER_ROWS_MAX: usize = 16;

/// A token in the clear, on its way into a message, and as the message's row keeps it.
pub struct MailToken {
    text: String,
    sealed: SealedTokenV1,
}

impl MailToken {
    /// A new token for messages of this kind; its first characters say which.
    pub fn generate(kind: MailKind, keyring: &Keyring) -> Result<MailToken> {
        let prefix = match kind {
            MailKind::VerifyEmail => "glv_",
            MailKind::ResetPassword => "glp_",
            MailKind::Invite => "gli_",
            // That of who confirms is signed, and nothing is kept of it (`outputs`).
            MailKind::RechargeDecided | MailKind::OutputDisabled | MailKind::ConfirmRecipient => {
                return Err(Error::internal("make a token", "such a message carries none"));
            }
        };
        let bytes: [u8; 32] = random_bytes().map_err(|e| Error::internal("make a token", e))?;
        let text = format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes));
        Ok(MailToken { sealed: mail::seal(keyring, &text)?, text })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn digest(&self) -> Digest {
        sha256(self.text.as_bytes())
    }

    /// For the row of the message that carries it.
    pub fn sealed(&self) -> Option<&SealedTokenV1> {
        Some(&self.sealed)
    }
}

/// Sends `user` a fresh token, which ends the earlier ones: only the latest link works. `public_url` is the box's
/// address without a slash at the end.
pub fn send_verification(
    tx: &SysWrite<'_>,
    user: &UserV1,
    token: &MailToken,
    public_url: &str,
) -> Result<()> {
    forget_verifications(tx, user.id)?;
    let row = VerificationV1 {
        token: token.digest(),
        user: user.id,
        expires_at: tx.moment().after(VERIFICATION_TIME),
    };
    tx.put(&VERIFICATIONS, &row.token, &row)?;
    NewMail {
        about: user.id.into(),
        org: None,
        to: &user.email,
        letter: Letter::VerifyEmail { name: &user.name, url: public_url },
        token: token.sealed(),
        good_until: Some(row.expires_at),
    }
    .send(tx)
}

/// Uses up the verification token `text`; gives whose address it has verified, if it was good. A bad one changes nothing,
/// an old one is removed.
pub fn verify(tx: &SysWrite<'_>, text: &str) -> Result<Option<UserV1>> {
    let Some(row) = tx.get(&VERIFICATIONS, &sha256(text.as_bytes()))? else { return Ok(None) };
    tx.delete(&VERIFICATIONS, &row.token)?;
    if row.expires_at <= tx.moment() {
        return Ok(None);
    }
    let Some(mut user) = tx.get(&USERS, &row.user)? else { return Ok(None) };
    mark_verified(tx, &mut user)?;
    Ok(Some(user))
}

/// The address is the person's from now on; what was sent to find that out is done with.
pub fn mark_verified(tx: &SysWrite<'_>, user: &mut UserV1) -> Result<()> {
    forget_verifications(tx, user.id)?;
    if user.email_verified_at.is_none() {
        user.email_verified_at = Some(tx.now());
        tx.put(&USERS, &user.id, user)?;
    }
    Ok(())
}

/// Removes the outstanding tokens of a person, and the messages that carry them.
fn forget_verifications(tx: &SysWrite<'_>, user: UserId) -> Result<()> {
    let all = |key| -> Result<Vec<VerificationV1>> {
        tx.scan_index(&VERIFICATIONS, &VERIFICATIONS_BY_USER, key, Order::Ascending, PER_USER_ROWS_MAX)
    };
    for row in all(user)? {
        tx.delete(&VERIFICATIONS, &row.token)?;
    }
    mail::forget(tx, user, MailKind::VerifyEmail)
}
