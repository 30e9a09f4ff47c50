//! API keys as they are stored: never the secret, only its SHA-256.

use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use base::ids::{ApiKeyId, UserId};
use base::permission::Permissions;
use schemars::JsonSchema;
use secrets::Digest;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

/// Whose a key is.
// Stored by position: add at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// The organization's: made, seen and ended by those who look after its keys.
    #[default]
    Organization,
    /// A member's own: made by themselves, seen and ended by them and by those who look after keys.
    Personal,
}

/// A long-lived key of an organization, before there were personal ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApiKeyV1 {
    pub id: ApiKeyId,
    pub name: String,
    pub secret: Digest,
    /// The first characters of the secret, by which people tell keys apart.
    pub prefix: String,
    /// Who made it. Without their membership the key is worth nothing.
    pub maker: UserId,
    /// What it allows; of that, it grants what its maker's role holds at the time.
    pub permissions: Permissions,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// As of the last flush; see `usage.rs`.
    pub last_used_at: Option<Timestamp>,
}

impl Record for ApiKeyV1 {}

/// A long-lived key of an organization.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApiKeyV2 {
    pub id: ApiKeyId,
    pub name: String,
    pub secret: Digest,
    /// The first characters of the secret, by which people tell keys apart.
    pub prefix: String,
    /// Who made it. Without their membership the key is worth nothing.
    pub maker: UserId,
    pub kind: KeyKind,
    /// What it allows; of that, it grants what its maker's role holds at the time.
    pub permissions: Permissions,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// As of the last flush; see `usage.rs`.
    pub last_used_at: Option<Timestamp>,
}

impl Record for ApiKeyV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<ApiKeyV1>(body).map(ApiKeyV2::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

impl From<ApiKeyV1> for ApiKeyV2 {
    fn from(old: ApiKeyV1) -> ApiKeyV2 {
        ApiKeyV2 {
            id: old.id,
            name: old.name,
            secret: old.secret,
            prefix: old.prefix,
            maker: old.maker,
            kind: KeyKind::Organization,
            permissions: old.permissions,
            created_at: old.created_at,
            expires_at: old.expires_at,
            last_used_at: old.last_used_at,
        }
    }
}

pub static BY_SECRET: Index<[u8; 32], ApiKeyV2> =
    Index::global_unique("api_keys.by_secret", |key, keys| keys.add(key.secret));
pub static API_KEYS: OrgTable<ApiKeyId, ApiKeyV2> =
    OrgTable::new("api_keys", "API key").indexed(&[&BY_SECRET]);

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec;

    #[test]
    fn a_key_from_before_there_were_kinds_is_the_organization_s() {
        let old = ApiKeyV1 {
            id: ApiKeyId::new(),
            name: "CI".to_owned(),
            secret: [7; 32],
            prefix: "glk_abcd".to_owned(),
            maker: UserId::new(),
            permissions: Permissions::NONE,
            created_at: Timestamp(5),
            expires_at: Some(Timestamp(9)),
            last_used_at: None,
        };
        let read: ApiKeyV2 = codec::decode(&codec::encode(&old).unwrap()).unwrap();
        assert_eq!((read.id, read.kind, read.expires_at), (old.id, KeyKind::Organization, old.expires_at));
    }
}
