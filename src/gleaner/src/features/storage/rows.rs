//! Storages of an organization, which page lies in which, and objects that are to go, as they are stored.

use crate::features::extraction::PageKey;
use base::clock::Timestamp;
use base::codec::Record;
use s3::S3Checksum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// A checksum that is sent with each object beside its signature.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum ChecksumKind {
        /// No further one: the signature covers the bytes.
        None "none",
        Sha256 "sha256",
        /// CRC-64/NVME, which Amazon's own clients send.
        Crc64Nvme "crc64nvme",
    }
}

impl ChecksumKind {
    pub fn of_s3(self) -> Option<S3Checksum> {
        match self {
            ChecksumKind::None => None,
            ChecksumKind::Sha256 => Some(S3Checksum::Sha256),
            ChecksumKind::Crc64Nvme => Some(S3Checksum::Crc64Nvme),
        }
    }
}

/// A storage that pages go to, or still lie in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageV1 {
    /// Grows with each storage of the organization; pages name it.
    pub number: u64,
    pub bucket: String,
    pub endpoint: Option<String>,
    pub region: String,
    pub prefix: String,
    pub access_key_id: String,
    pub sealed_secret: Vec<u8>,
    pub path_style: bool,
    pub conditional_puts: bool,
    pub checksum: ChecksumKind,
    /// Whether new pages go there. Of the others pages are fetched, until none is left.
    pub is_target: bool,
    /// Grows with each change, so that a client that was made of the row is known to be old.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Record for StorageV1 {}

impl StorageV1 {
    /// Whether both are one place: what else there is of them says how it is spoken to.
    pub fn is_same_place(&self, other: &StorageV1) -> bool {
        (&self.bucket, &self.endpoint, &self.prefix) == (&other.bucket, &other.endpoint, &other.prefix)
            && (self.endpoint.is_some() || self.region == other.region)
    }
}

pub static STORAGES: OrgTable<u64, StorageV1> = OrgTable::new("page_storages", "Storage").uncounted();

/// That a page is durable in a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteV1 {
    pub storage: u64,
    /// Compressed.
    pub stored_size: u64,
    /// Whether it was looked for to be fetched and was not there: somebody else has removed it.
    pub is_missing: bool,
}

impl Record for RemoteV1 {}

/// The pages of a storage; those that are missing behind the others.
pub static BY_STORAGE: Index<(u64, u8), RemoteV1> =
    Index::new("remote_pages.by_storage", |row, keys| keys.add((row.storage, row.is_missing as u8)));

pub static REMOTE: OrgTable<PageKey, RemoteV1> =
    OrgTable::new("remote_pages", "Page").indexed(&[&BY_STORAGE]).uncounted();

/// An object that is to be removed from a storage, or was to be put there when the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectToGoV1 {
    pub since: Timestamp,
}

impl Record for ObjectToGoV1 {}

/// By storage and hash.
pub static OBJECTS_TO_GO: OrgTable<(u64, [u8; 32]), ObjectToGoV1> =
    OrgTable::new("page_objects_to_go", "Object").uncounted();

/// What lies in a storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageSumV1 {
    pub pages: u64,
    /// Compressed.
    pub bytes: u64,
}

impl Record for StorageSumV1 {}

pub static STORAGE_SUMS: OrgTable<u64, StorageSumV1> =
    OrgTable::new("page_storage_sums", "Storage").uncounted();
