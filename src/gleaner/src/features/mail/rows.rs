//! Messages as they are stored.
//!
//! The text of a message has to carry its link; the token of the link is kept beside the text, sealed with the box's key, and
//! put into its place when the message goes out (see `token.rs`). It goes when the message has been sent, when the token is
//! used or replaced, and after [`super::task::MAIL_KEPT`] at the latest.

use base::clock::{Moment, Timestamp};
use base::codec::{CodecError, Record, decode_body};
use base::ids::{MailId, OrgId};
use secrets::Digest;
use serde::{Deserialize, Serialize};
use store::{Index, SysTable};
use uuid::Uuid;

/// What a message is about. Stored by position: add at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailKind {
    VerifyEmail,
    ResetPassword,
    Invite,
    RechargeDecided,
    OutputDisabled,
    ConfirmRecipient,
}

impl MailKind {
    pub fn name(self) -> &'static str {
        match self {
            MailKind::VerifyEmail => "verify_email",
            MailKind::ResetPassword => "reset_password",
            MailKind::Invite => "invite",
            MailKind::RechargeDecided => "recharge_decided",
            MailKind::OutputDisabled => "output_disabled",
            MailKind::ConfirmRecipient => "confirm_recipient",
        }
    }
}

/// Where a message stands. Stored by position: add at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailState {
    /// Waits for the mail server, or for one to be configured.
    Queued,
    /// The mail server has taken it.
    Sent,
    /// The mail server refuses it, or it waited too long.
    Failed,
    /// For the operator alone: it is from a release that sent nothing.
    Kept,
}

impl MailState {
    pub fn name(self) -> &'static str {
        match self {
            MailState::Queued => "queued",
            MailState::Sent => "sent",
            MailState::Failed => "failed",
            MailState::Kept => "kept",
        }
    }
}

/// A message of the release that kept all of them for the operator.
#[derive(Clone, Serialize, Deserialize)]
pub struct MailV1 {
    pub id: MailId,
    pub about: Uuid,
    pub kind: MailKind,
    pub to: String,
    pub subject: String,
    pub text: String,
    pub created_at: Timestamp,
}

impl Record for MailV1 {}

/// A token that opens with the box's key only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedTokenV1 {
    /// Of the token; what is sealed opens beside it only.
    pub digest: Digest,
    pub sealed: Vec<u8>,
}

/// A message of the release that wrote tokens into the texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MailV2 {
    pub id: MailId,
    /// The account or the invitation that it is about.
    pub about: Uuid,
    /// In whose name it goes out.
    pub org: Option<OrgId>,
    pub kind: MailKind,
    pub to: String,
    /// Subject, text and HTML are empty when it was sent.
    pub subject: String,
    pub text: String,
    /// Empty: the text is all there is.
    pub html: String,
    pub created_at: Timestamp,
    pub state: MailState,
    /// Tries that were begun.
    pub attempts: u32,
    /// Of one that is queued.
    pub next_try_at: Moment,
    /// When it is of no use any more.
    pub good_until: Option<Moment>,
    /// When it is not tried any more.
    pub give_up_at: Moment,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// When it was sent, or failed.
    pub ended_at: Option<Timestamp>,
}

impl Record for MailV2 {
    const VERSION: u8 = 2;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MailV3 {
    pub id: MailId,
    /// The account or the invitation that it is about.
    pub about: Uuid,
    /// In whose name it goes out.
    pub org: Option<OrgId>,
    pub kind: MailKind,
    pub to: String,
    /// Subject, text and HTML are empty when it was sent.
    pub subject: String,
    pub text: String,
    /// Empty: the text is all there is.
    pub html: String,
    pub created_at: Timestamp,
    pub state: MailState,
    /// Tries that were begun.
    pub attempts: u32,
    /// Of one that is queued.
    pub next_try_at: Moment,
    /// When it is of no use any more.
    pub good_until: Option<Moment>,
    /// When it is not tried any more.
    pub give_up_at: Moment,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// When it was sent, or failed.
    pub ended_at: Option<Timestamp>,
    /// What belongs into the place that the text leaves for it.
    pub token: Option<SealedTokenV1>,
}

impl Record for MailV3 {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<MailV1>(body).map(MailV2::from).map(MailV3::from),
            2 => decode_body::<MailV2>(body).map(MailV3::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

impl From<MailV2> for MailV3 {
    /// Its token is sealed at the start of the box; see [`super::token::seal_old`].
    fn from(old: MailV2) -> MailV3 {
        MailV3 {
            id: old.id,
            about: old.about,
            org: old.org,
            kind: old.kind,
            to: old.to,
            subject: old.subject,
            text: old.text,
            html: old.html,
            created_at: old.created_at,
            state: old.state,
            attempts: old.attempts,
            next_try_at: old.next_try_at,
            good_until: old.good_until,
            give_up_at: old.give_up_at,
            last_error: old.last_error,
            ended_at: old.ended_at,
            token: None,
        }
    }
}

impl From<MailV1> for MailV2 {
    /// In that release moments were dates. It stays what it was, a message for the operator; sent, it could surprise somebody weeks later.
    fn from(old: MailV1) -> MailV2 {
        MailV2 {
            id: old.id,
            about: old.about,
            org: None,
            kind: old.kind,
            to: old.to,
            subject: old.subject,
            text: old.text,
            html: String::new(),
            created_at: old.created_at,
            state: MailState::Kept,
            attempts: 0,
            next_try_at: Moment(old.created_at.millis()),
            good_until: None,
            give_up_at: Moment(old.created_at.millis()).after(super::TRIED_FOR),
            last_error: None,
            ended_at: None,
        }
    }
}

/// Messages that carry something, by what they are about. On disk under the name it had when every one was about a user.
pub static MAIL_BY_ABOUT: Index<(Uuid, u8), MailV3> = Index::new("mail.by_user", |mail, keys| {
    if mail.state != MailState::Sent {
        keys.add((mail.about, mail.kind as u8));
    }
});
/// Rows of version 1 are in neither of these until they are written again; they end with [`super::task::MAIL_KEPT`].
pub static MAIL_BY_ADDRESS: Index<String, MailV3> =
    Index::new("mail.by_address", |mail, keys| keys.add(&mail.to));
pub static MAIL_BY_ORG: Index<OrgId, MailV3> = Index::new("mail.by_org", |mail, keys| {
    if let Some(org) = mail.org {
        keys.add(org);
    }
});
/// What waits, by when it is due; and what failed, by when.
pub static MAIL_BY_STATE: Index<(u8, Moment), MailV3> =
    Index::new("mail.by_state", |mail, keys| match mail.state {
        MailState::Queued => keys.add((mail.state as u8, mail.next_try_at)),
        MailState::Failed => {
            keys.add((mail.state as u8, Moment(mail.ended_at.unwrap_or(mail.created_at).millis())))
        }
        MailState::Sent | MailState::Kept => {}
    });
pub static MAIL: SysTable<MailId, MailV3> = SysTable::new("mail", "Message").indexed(&[
    &MAIL_BY_ABOUT,
    &MAIL_BY_ADDRESS,
    &MAIL_BY_ORG,
    &MAIL_BY_STATE,
]);
