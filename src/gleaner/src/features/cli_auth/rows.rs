//! Device codes as they are stored: the device code as its SHA-256, the key's secret sealed and only until it is
//! delivered.

use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{ApiKeyId, OrgId};
use secrets::Digest;
use serde::{Deserialize, Serialize};
use store::{Index, SysTable};

/// One try of a command line to get a key.
#[derive(Clone, Serialize, Deserialize)]
pub struct DeviceCodeV1 {
    pub device: Digest,
    /// Eight letters.
    pub user_code: String,
    pub hostname: String,
    /// Of the caller's network.
    pub network: Digest,
    pub created_at: Timestamp,
    pub expires_at: Moment,
    pub polled_at: Option<Moment>,
    pub approval: Option<ApprovalV1>,
    pub delivered_at: Option<Timestamp>,
}

impl Record for DeviceCodeV1 {}

/// The key that an approval made.
#[derive(Clone, Serialize, Deserialize)]
pub struct ApprovalV1 {
    pub org: OrgId,
    pub key: ApiKeyId,
    /// The key's secret, sealed for this row; empty once it was delivered.
    pub sealed: Vec<u8>,
}

pub static BY_USER_CODE: Index<String, DeviceCodeV1> =
    Index::unique("device_codes.by_user_code", |row, keys| keys.add(&row.user_code));
pub static BY_END: Index<Moment, DeviceCodeV1> =
    Index::new("device_codes.by_end", |row, keys| keys.add(row.expires_at));
/// A network's codes, the one that ends first in front.
pub static BY_NETWORK: Index<(Digest, Moment), DeviceCodeV1> =
    Index::new("device_codes.by_network", |row, keys| {
        keys.add((&row.network, row.expires_at));
    });
pub static DEVICE_CODES: SysTable<Digest, DeviceCodeV1> =
    SysTable::new("device_codes", "Device code").indexed(&[&BY_USER_CODE, &BY_END, &BY_NETWORK]);
