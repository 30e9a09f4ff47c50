//! Connected providers as they are stored.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::ids::ProviderId;
use serde::{Deserialize, Serialize};
use store::OrgTable;

/// A provider that an organization has connected. Its credentials are sealed one by one, each for its own field of this
/// row (see [`Keyring`](secrets::keyring::Keyring)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderV1 {
    pub id: ProviderId,
    /// `direct`, `proxy`, `browser`, or the id of a template.
    pub adapter: String,
    pub name: String,
    /// Where a hosted provider is asked instead of at its vendor's address.
    pub base_url: Option<String>,
    /// As given; what is missing takes the adapter's default.
    pub settings: Json,
    /// Name and sealed value.
    pub credentials: Vec<(String, Vec<u8>)>,
    /// Prices that replace the adapter's own, by tier.
    pub credits: Vec<PriceV1>,
    /// Requests at once.
    pub max_concurrency: Option<u32>,
    pub is_enabled: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Grows with every change, so that a running provider knows when it is out of date.
    pub revision: u32,
}

impl Record for ProviderV1 {}

/// What a delivery costs in one tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceV1 {
    pub tier: String,
    pub plain: u64,
    pub render: u64,
}

pub static PROVIDERS: OrgTable<ProviderId, ProviderV1> = OrgTable::new("providers", "Provider").fed();

/// That an organization was given what every new one starts with. Kept apart from the providers, so that one which was
/// disconnected does not come back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SeededV1 {
    pub at: Timestamp,
}

impl Record for SeededV1 {}

pub static SEEDED: OrgTable<(), SeededV1> = OrgTable::new("providers.seeded", "Provider").uncounted();
