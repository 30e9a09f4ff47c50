//! Objects in S3-compatible storage that an organization names: put, get, list, delete, each within a time.
//!
//! The protocol (signatures, checksums, listings) is object_store's. Its connections are ours: [`transport`] sends each request
//! through the box's own connector, so the address guard judges the endpoint as any other target, the organization's
//! connections are nobody else's, no environment variable names a proxy or a credential, and TLS is rustls on ring.
//!
//! **Time.** A request has [`Bounds::attempt`], longer for large bodies; an operation with all its tries has
//! [`Bounds::operation`]. Nothing waits longer, whatever the other side does.
//!
//! **Errors** say what whoever set the storage up can do about it ([`S3Fault`]), and never the secret.

mod bucket;
mod error;
mod settings;
mod transport;

pub use bucket::{Bounds, Bucket, Listed};
pub use error::{S3Error, S3Fault};
pub use settings::{
    ACCESS_KEY_BYTES_MAX, PREFIX_BYTES_MAX, REGION_BYTES_MAX, S3Checksum, S3Settings, SECRET_BYTES_MAX,
    SettingError,
};

/// The largest object that is read whole into memory: the largest page, compressed, and a little.
pub const OBJECT_BYTES_MAX: usize = 72 * 1024 * 1024;
