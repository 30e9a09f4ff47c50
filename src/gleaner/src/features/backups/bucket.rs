//! A repository in a bucket.

use backup::{Held, Listed, Target};
use base::{Error, Result};
use bytes::Bytes;
use fetch::connect::Resolver;
use fetch::{AddressGuard, AllowRule, Connector, FetchSettings};
use s3::{Bounds, Bucket, S3Error, S3Settings};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Objects of one listing.
const LISTED_AT_ONCE: usize = 10_000;

/// A bucket, asked from a thread that may wait.
pub(super) struct BucketTarget {
    name: String,
    bucket: Bucket,
    runtime: Handle,
}

impl BucketTarget {
    /// The operator says where backups go, so every address is theirs to choose.
    pub fn new(name: &str, settings: &S3Settings, runtime: Handle) -> Result<BucketTarget> {
        let everywhere = ["0.0.0.0/0", "::/0"].map(|network| network.parse::<AllowRule>());
        let everywhere = everywhere.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let everywhere = everywhere.map_err(|e| Error::internal("allow every address", e))?;
        let guard = AddressGuard::new(&everywhere, &[]);
        let connector = Arc::new(Connector::new(guard, Resolver::default(), &FetchSettings::default()));
        let bucket = Bucket::new(settings, connector, None, Bounds::BACKGROUND)
            .map_err(|error| failed(name, "", &error))?;
        Ok(BucketTarget { name: name.trim_end_matches('/').to_owned(), bucket, runtime })
    }

    fn failed(&self, key: &str, error: &S3Error) -> Error {
        failed(&self.name, key, error)
    }
}

fn failed(name: &str, key: &str, error: &S3Error) -> Error {
    Error::unavailable(format!("{name}/{key}: {error}"))
}

struct NotHeld;

impl Held for NotHeld {}

impl Target for BucketTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let put = self.bucket.put(key, Bytes::copy_from_slice(bytes));
        self.runtime.block_on(put).map_err(|error| self.failed(key, &error))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn get(&self, key: &str, _bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let found = self.runtime.block_on(self.bucket.get(key)).map_err(|error| self.failed(key, &error))?;
        Ok(found.map(|bytes| bytes.to_vec()))
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let some = self.bucket.list(folder, after.as_deref(), LISTED_AT_ONCE);
            let some = self.runtime.block_on(some).map_err(|error| self.failed(folder, &error))?;
            let count = some.len();
            after = some.last().map(|object| object.key.clone());
            listed.extend(some.into_iter().map(|object| Listed { key: object.key, bytes: object.size }));
            if count < LISTED_AT_ONCE {
                return Ok(listed);
            }
        }
    }

    fn remove(&self, key: &str) -> Result<()> {
        self.runtime.block_on(self.bucket.delete(key)).map_err(|error| self.failed(key, &error))
    }

    /// A bucket has no locks: a box makes one backup at a time, and each box has a prefix of its own.
    fn hold(&self) -> Result<Box<dyn Held>> {
        Ok(Box::new(NotHeld))
    }

    fn sweep(&self) -> Result<()> {
        Ok(())
    }
}
