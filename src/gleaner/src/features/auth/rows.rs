//! What is stored of people: accounts, refresh tokens, verification and reset tokens.
//!
//! Secrets that were handed out are here as SHA-256 only.

use base::clock::{Moment, Timestamp};
use base::codec::{CodecError, Record, decode_body};
use base::ids::{OrgId, UserId};
use base::permission::Role;
use secrets::Digest;
use serde::{Deserialize, Serialize};
use store::{Index, SysTable};
use uuid::Uuid;

/// A person's account.
#[derive(Clone, Serialize, Deserialize)]
pub struct UserV1 {
    pub id: UserId,
    /// In its one spelling; unique.
    pub email: String,
    pub name: String,
    /// A PHC string.
    pub password_hash: String,
    pub email_verified_at: Option<Timestamp>,
    /// The organization and the role in it; none before onboarding and after removal.
    pub membership: Option<(OrgId, Role)>,
    pub created_at: Timestamp,
    /// Access tokens issued before this are refused.
    pub sessions_valid_from: Moment,
}

/// The organization in whose audit chain it stands what a person does.
pub(super) fn member_of(user: &UserV1) -> Option<OrgId> {
    user.membership.map(|(org, _)| org)
}

impl Record for UserV1 {}

pub static USERS_BY_EMAIL: Index<String, UserV1> =
    Index::unique("users.by_email", |user, keys| keys.add(&user.email));
/// The members of an organization.
pub static USERS_BY_ORG: Index<(OrgId, UserId), UserV1> = Index::new("users.by_org", |user, keys| {
    if let Some((org, _)) = user.membership {
        keys.add((org, user.id));
    }
});
pub static USERS: SysTable<UserId, UserV1> =
    SysTable::new("users", "User").indexed(&[&USERS_BY_EMAIL, &USERS_BY_ORG]);

/// A login as releases before sign-in with the company's accounts wrote it.
#[derive(Clone, Serialize, Deserialize)]
struct RefreshFamilyV1 {
    pub family: Uuid,
    pub user: UserId,
    /// Of the newest token's secret.
    pub secret: Digest,
    pub created_at: Timestamp,
    pub refreshed_at: Timestamp,
    pub expires_at: Moment,
}

/// One login's chain of refresh tokens, of which only the newest is good. See `session.rs`.
#[derive(Clone, Serialize, Deserialize)]
pub struct RefreshFamilyV2 {
    pub family: Uuid,
    pub user: UserId,
    /// Of the newest token's secret.
    pub secret: Digest,
    pub created_at: Timestamp,
    pub refreshed_at: Timestamp,
    pub expires_at: Moment,
    /// What bounds a login through the company's provider; none for one by password.
    pub provider: Option<ProviderLoginV1>,
}

impl Record for RefreshFamilyV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<RefreshFamilyV1>(body).map(RefreshFamilyV2::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

impl From<RefreshFamilyV1> for RefreshFamilyV2 {
    fn from(old: RefreshFamilyV1) -> RefreshFamilyV2 {
        RefreshFamilyV2 {
            family: old.family,
            user: old.user,
            secret: old.secret,
            created_at: old.created_at,
            refreshed_at: old.refreshed_at,
            expires_at: old.expires_at,
            provider: None,
        }
    }
}

/// A login through the company's provider: however often it is refreshed, it ends, so that the provider is asked again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ProviderLoginV1 {
    pub ends_at: Moment,
    /// The provider's own session, where it names those, as a hash together with the provider.
    pub session: Option<Digest>,
}

/// A person's logins, the one that ends first in front.
pub static REFRESH_BY_USER: Index<(UserId, Moment), RefreshFamilyV2> =
    Index::new("refresh_tokens.by_user", |row, keys| keys.add((row.user, row.expires_at)));
pub static REFRESH_BY_END: Index<Moment, RefreshFamilyV2> =
    Index::new("refresh_tokens.by_end", |row, keys| keys.add(row.expires_at));
/// The logins of one session at the provider.
pub static REFRESH_BY_PROVIDER: Index<Digest, RefreshFamilyV2> =
    Index::new("refresh_tokens.by_provider", |row, keys| {
        if let Some(session) = row.provider.and_then(|login| login.session) {
            keys.add(session);
        }
    });
pub static REFRESH_TOKENS: SysTable<Uuid, RefreshFamilyV2> = SysTable::new("refresh_tokens", "Refresh token")
    .indexed(&[&REFRESH_BY_USER, &REFRESH_BY_END, &REFRESH_BY_PROVIDER]);

/// An account of the company's provider and the person whom it lets in, under the SHA-256 of both of its names.
#[derive(Clone, Serialize, Deserialize)]
pub struct ProviderAccountV1 {
    pub key: Digest,
    pub issuer: String,
    /// The provider's name of the person, which stays when their address changes.
    pub subject: String,
    pub user: UserId,
    pub joined_at: Timestamp,
    pub signed_in_at: Timestamp,
}

impl Record for ProviderAccountV1 {}

/// At most one a person.
pub static PROVIDER_ACCOUNTS_BY_USER: Index<UserId, ProviderAccountV1> =
    Index::unique("provider_accounts.by_user", |row, keys| keys.add(row.user));
pub static PROVIDER_ACCOUNTS: SysTable<Digest, ProviderAccountV1> =
    SysTable::new("provider_accounts", "Provider account").indexed(&[&PROVIDER_ACCOUNTS_BY_USER]);

/// An outstanding e-mail verification, under the SHA-256 of its token.
#[derive(Clone, Serialize, Deserialize)]
pub struct VerificationV1 {
    pub token: Digest,
    pub user: UserId,
    pub expires_at: Moment,
}

impl Record for VerificationV1 {}

pub static VERIFICATIONS_BY_USER: Index<UserId, VerificationV1> =
    Index::new("verifications.by_user", |row, keys| keys.add(row.user));
pub static VERIFICATIONS_BY_END: Index<Moment, VerificationV1> =
    Index::new("verifications.by_end", |row, keys| keys.add(row.expires_at));
pub static VERIFICATIONS: SysTable<Digest, VerificationV1> =
    SysTable::new("verifications", "Verification").indexed(&[&VERIFICATIONS_BY_USER, &VERIFICATIONS_BY_END]);

/// A request to reset a password, under one of the places of the address that was typed (SHA-256, see `reset.rs`). There are
/// some for an address without an account too, so that the same is written for both; their tokens were given to nobody.
#[derive(Clone, Serialize, Deserialize)]
pub struct PasswordResetV1 {
    pub address: Digest,
    pub token: Digest,
    pub user: Option<UserId>,
    pub expires_at: Moment,
}

impl Record for PasswordResetV1 {}

pub static RESETS_BY_TOKEN: Index<Digest, PasswordResetV1> =
    Index::unique("password_resets.by_token", |row, keys| keys.add(row.token));
pub static RESETS_BY_END: Index<Moment, PasswordResetV1> =
    Index::new("password_resets.by_end", |row, keys| keys.add(row.expires_at));
pub static RESETS: SysTable<Digest, PasswordResetV1> =
    SysTable::new("password_resets", "Password reset").indexed(&[&RESETS_BY_TOKEN, &RESETS_BY_END]);
