//! API keys as they are stored: never the secret, only its SHA-256.

use crate::base::clock::Timestamp;
use crate::base::codec::Record;
use crate::base::ids::{ApiKeyId, UserId};
use crate::base::permission::Permissions;
use crate::engine::secret::Digest;
use crate::store::{Index, OrgTable};
use serde::{Deserialize, Serialize};

/// A long-lived key of an organization.
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

pub static BY_SECRET: Index<ApiKeyV1> =
    Index::global_unique("api_keys.by_secret", |key, keys| keys.add(|out| out.fixed(&key.secret)));
pub static API_KEYS: OrgTable<ApiKeyId, ApiKeyV1> =
    OrgTable::new("api_keys", "API key").indexed(&[&BY_SECRET]);
