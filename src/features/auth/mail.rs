//! Messages to people, and e-mail verification, which is the first of them.
//!
//! A message is a row written with what it tells of. Without a mail server the operator reads it with
//! `gleaner admin outbox` and passes it on.

use super::rows::{
    MAIL, MAIL_BY_ABOUT, MailKind, MailV1, USERS, UserV1, VERIFICATIONS, VERIFICATIONS_BY_USER,
    VerificationV1,
};
use crate::base::clock::Timestamp;
use crate::base::ids::{MailId, UserId};
use crate::base::{Error, Result};
use crate::engine::secret::{Digest, random_bytes, sha256};
use crate::store::{Order, SysRead, SysWrite};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use std::time::Duration;
use uuid::Uuid;

/// How long a verification token lives (API page, section 2).
pub const VERIFICATION_TIME: Duration = Duration::from_secs(24 * 3600);
/// How long a message is kept.
pub const MAIL_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Rows of one kind that a person can have at a time; there is one, and the number only bounds the scan.
const PER_USER_ROWS_MAX: usize = 16;

/// A token in the clear, on its way into a message.
pub struct MailToken(String);

impl MailToken {
    /// A new token for messages of this kind; its first characters say which.
    pub fn generate(kind: MailKind) -> Result<MailToken> {
        let prefix = match kind {
            MailKind::VerifyEmail => "glv_",
            MailKind::ResetPassword => "glp_",
            MailKind::Invite => "gli_",
        };
        let bytes: [u8; 32] = random_bytes().map_err(|e| Error::internal("make a token", e))?;
        Ok(MailToken(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn digest(&self) -> Digest {
        sha256(self.0.as_bytes())
    }
}

/// A message that is being written.
pub struct NewMail {
    /// The account or the invitation that it is about.
    pub about: Uuid,
    pub kind: MailKind,
    pub to: String,
    pub subject: String,
    pub text: String,
}

impl NewMail {
    /// Keeps the message; it goes out once what it tells of is durable, and not otherwise.
    pub fn send(self, tx: &SysWrite<'_>) -> Result<()> {
        let mail = MailV1 {
            id: MailId::new(),
            about: self.about,
            kind: self.kind,
            to: self.to,
            subject: self.subject,
            text: self.text,
            created_at: tx.now(),
        };
        tx.put(&MAIL, &mail.id, &mail)
    }
}

/// Removes the messages of a kind that are about an account or an invitation: what they carry is used up or replaced.
pub fn forget(tx: &SysWrite<'_>, about: impl Into<Uuid>, kind: MailKind) -> Result<()> {
    let about = about.into();
    let sent = tx.scan_index(
        &MAIL,
        &MAIL_BY_ABOUT,
        |key| key.id(about).u8(kind as u8),
        Order::Ascending,
        PER_USER_ROWS_MAX,
    )?;
    for mail in sent {
        tx.delete(&MAIL, &mail.id)?;
    }
    Ok(())
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
        expires_at: tx.now().after(VERIFICATION_TIME),
    };
    tx.put(&VERIFICATIONS, &row.token, &row)?;
    NewMail {
        about: user.id.into(),
        kind: MailKind::VerifyEmail,
        to: user.email.clone(),
        subject: "Verify your email address".to_owned(),
        text: verification_text(user, token, public_url),
    }
    .send(tx)
}

fn verification_text(user: &UserV1, token: &MailToken, public_url: &str) -> String {
    format!(
        "Hello {name},\n\n\
         somebody, probably you, registered this address at {public_url}. To verify it, send the token below within \
         24 hours:\n\n\
         curl -X POST {public_url}/api/v1/auth/verify-email -H 'Content-Type: application/json' \
         -d '{{\"token\":\"{token}\"}}'\n\n\
         If it was not you, do nothing.\n",
        name = user.name,
        token = token.as_str(),
    )
}

/// Uses up the verification token `text`; whether it was good. A bad one changes nothing, an old one is removed.
pub fn verify(tx: &SysWrite<'_>, text: &str) -> Result<bool> {
    let Some(row) = tx.get(&VERIFICATIONS, &sha256(text.as_bytes()))? else { return Ok(false) };
    tx.delete(&VERIFICATIONS, &row.token)?;
    if row.expires_at <= tx.now() {
        return Ok(false);
    }
    let Some(mut user) = tx.get(&USERS, &row.user)? else { return Ok(false) };
    mark_verified(tx, &mut user)?;
    Ok(true)
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
        tx.scan_index(
            &VERIFICATIONS,
            &VERIFICATIONS_BY_USER,
            |k| k.id(key),
            Order::Ascending,
            PER_USER_ROWS_MAX,
        )
    };
    for row in all(user)? {
        tx.delete(&VERIFICATIONS, &row.token)?;
    }
    forget(tx, user, MailKind::VerifyEmail)
}

/// A kept message as the operator reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptMail {
    pub id: MailId,
    pub to: String,
    pub subject: String,
    pub text: String,
    pub created_at: Timestamp,
}

/// The kept messages, newest first; what `gleaner admin outbox` prints.
pub fn kept_mail(tx: &SysRead<'_>, limit: usize) -> Result<Vec<KeptMail>> {
    let rows = tx.scan(&MAIL, None, Order::Descending, limit)?;
    Ok(rows
        .into_iter()
        .map(|(id, mail)| KeptMail {
            id,
            to: mail.to,
            subject: mail.subject,
            text: mail.text,
            created_at: mail.created_at,
        })
        .collect())
}
