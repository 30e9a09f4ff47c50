//! How rows become files, and where these go, as it is stored.

use serde::{Deserialize, Serialize};
use sinks::files::FileFormat;

/// How rows become files, and in which folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilesV1 {
    pub format: FileFormat,
    pub is_delta: bool,
    /// Below the organization's folder.
    pub path: String,
    /// How long a row waits for others.
    pub every_minutes: u32,
    pub rows_max: u32,
}

/// How rows become files that leave the box, and where to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilesAwayV1 {
    /// Its `path` is below the place.
    pub files: FilesV1,
    pub place: PlaceV1,
}

/// A place for files that is not the box's own.
// Stored: variants are never reordered, and each struct is frozen with the row's version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PlaceV1 {
    S3(S3PlaceV1),
    Sftp(SftpPlaceV1),
}

/// A bucket of S3-compatible storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct S3PlaceV1 {
    /// None means Amazon's own of the region.
    pub endpoint: Option<String>,
    pub region: String,
    pub bucket: String,
    pub prefix: String,
    pub access_key_id: String,
    pub sealed_secret: Vec<u8>,
    pub path_style: bool,
    pub conditional_puts: bool,
}

/// A server that is spoken to over SFTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SftpPlaceV1 {
    pub host: String,
    pub port: u16,
    pub user: String,
    /// One of the two.
    pub sealed_password: Option<Vec<u8>>,
    pub sealed_key: Option<Vec<u8>>,
    /// By what the server is known.
    pub host_key: String,
    pub folder: String,
}
