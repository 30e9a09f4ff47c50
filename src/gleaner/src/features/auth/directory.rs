//! The organizations that people are members of: each one's own row, the registry of all of them, and who is invited.
//!
//! The row lives in the organization's scope, where its slices find it; the registry is what the supervisor's loop over
//! organizations and the operator's list go through. Both are written by one operation of the orgs slice, which writes
//! invitations too; a registration reads them.

use super::rows::USERS;
use base::Result;
use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{InviteId, OrgId, UserId};
use base::permission::{Permission, Role};
use secrets::{Digest, sha256};
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable, SysRead, SysTable};

/// An organization, as its own slices read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrgV1 {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
}

impl Record for OrgV1 {}

/// The organization's only row of this table.
pub static ORG: OrgTable<(), OrgV1> = OrgTable::new("org", "Organization").uncounted();

/// An organization in the registry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrgEntryV1 {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
}

impl Record for OrgEntryV1 {}

pub static ORGS: SysTable<OrgId, OrgEntryV1> = SysTable::new("orgs", "Organization");

/// An invitation that was sent and not accepted yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InviteV1 {
    pub id: InviteId,
    /// Of the token in the message.
    pub token: Digest,
    /// In its one spelling. Only the account of this address can use the invitation.
    pub email: String,
    pub role: Role,
    pub invited_by: UserId,
    pub created_at: Timestamp,
    pub expires_at: Moment,
}

impl Record for InviteV1 {}

pub static INVITES_BY_TOKEN: Index<Digest, InviteV1> =
    Index::global_unique("invites.by_token", |row, keys| keys.add(row.token));
/// One invitation of an organization to an address at a time.
pub static INVITES_BY_EMAIL: Index<String, InviteV1> =
    Index::unique("invites.by_email", |row, keys| keys.add(&row.email));
pub static INVITES_BY_END: Index<Moment, InviteV1> =
    Index::global("invites.by_end", |row, keys| keys.add(row.expires_at));
pub static INVITES: OrgTable<InviteId, InviteV1> =
    OrgTable::new("invites", "Invite").indexed(&[&INVITES_BY_TOKEN, &INVITES_BY_EMAIL, &INVITES_BY_END]);

/// The invitation behind a token and its organization, if it is good now.
pub fn good_invite(tx: &SysRead<'_>, token: &str) -> Result<Option<(OrgId, InviteV1)>> {
    let digest = sha256(token.as_bytes());
    let found = tx.lookup_global(&INVITES, &INVITES_BY_TOKEN, digest)?;
    let Some((org, invite)) = found.filter(|(_, invite)| invite.expires_at > tx.moment()) else {
        return Ok(None);
    };
    Ok(inviter_stands(tx, org, &invite)?.then_some((org, invite)))
}

/// Whether whoever sent an invitation could send it now: it is their word that lets somebody in.
pub fn inviter_stands(tx: &SysRead<'_>, org: OrgId, invite: &InviteV1) -> Result<bool> {
    let membership = tx.get(&USERS, &invite.invited_by)?.and_then(|user| user.membership);
    let Some((_, role)) = membership.filter(|(member_of, _)| *member_of == org) else { return Ok(false) };
    let is_administrator = role.permissions().contains(Permission::OrgWrite);
    Ok(is_administrator && (role == Role::Owner || invite.role != Role::Owner))
}

const LIST_CHUNK_ROWS: usize = 1_000;

/// Every organization of the box, oldest first.
pub fn list_orgs(tx: &SysRead<'_>) -> Result<Vec<OrgEntryV1>> {
    let (mut all, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let step = tx.readable(&ORGS, after.as_deref(), LIST_CHUNK_ROWS)?;
        after = step.more();
        all.extend(step.rows.into_iter().map(|(_, entry)| entry));
        if after.is_none() {
            return Ok(all);
        }
    }
}
