//! One bucket: what is done with objects in it.

use crate::error::{S3Error, S3Fault};
use crate::settings::{S3Checksum, S3Settings};
use crate::transport::{Wire, heard};
use base::ids::OrgId;
use bytes::Bytes;
use fetch::Connector;
use futures::{StreamExt, TryStreamExt};
use http::header::HeaderValue;
use object_store::aws::{AmazonS3, AmazonS3Builder, Checksum, S3ConditionalPut};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long something may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// One request and its answer; large bodies have longer.
    pub attempt: Duration,
    /// How often a request is sent again after a failure that may pass.
    pub retries: usize,
    /// All of an operation, pauses included; puts of large bodies have longer.
    pub operation: Duration,
}

impl Bounds {
    /// For work that nobody waits for.
    pub const BACKGROUND: Bounds =
        Bounds { attempt: Duration::from_secs(30), retries: 3, operation: Duration::from_secs(120) };
    /// For what a request of the API waits for.
    pub const WAITED_FOR: Bounds =
        Bounds { attempt: Duration::from_secs(8), retries: 1, operation: Duration::from_secs(10) };
}

/// The first pause before a request is sent again, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);
/// A put may take a second longer for each of these bytes.
const PUT_BYTES_PER_SECOND_MIN: u64 = 256 << 10;
/// Deletions of one call that run at once.
const DELETES_AT_ONCE: usize = 8;

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key below the prefix.
    pub key: String,
    pub size: u64,
    /// When it was put, by the storage's clock, in seconds since 1970.
    pub modified: i64,
}

/// A client of one bucket. Keys are below the settings' prefix: names with `/` between. Cheap to clone.
#[derive(Clone)]
pub struct Bucket {
    store: AmazonS3,
    prefix: Path,
    bounds: Bounds,
    conditional_puts: bool,
}

impl Bucket {
    /// A client; nothing is asked yet. `owner` is whose connections are used.
    pub fn new(
        settings: &S3Settings,
        connector: Arc<Connector>,
        owner: Option<OrgId>,
        bounds: Bounds,
    ) -> Result<Bucket, S3Error> {
        let setting = |error: object_store::Error| S3Error::new(S3Fault::Setting, error.to_string());
        settings.check().map_err(|e| S3Error::new(S3Fault::Setting, format!("{} {}", e.field, e.reason)))?;
        let user_agent = HeaderValue::from_str(&fetch::user_agent(None))
            .unwrap_or_else(|_| HeaderValue::from_static("Gleaner"));
        let wire = Wire { connector, owner, attempt: bounds.attempt, user_agent };
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: PAUSE_FIRST, max_backoff: PAUSE_LONGEST, base: 2.0 },
            max_retries: bounds.retries,
            retry_timeout: bounds.operation,
        };
        let conditional =
            if settings.conditional_puts { S3ConditionalPut::ETagMatch } else { S3ConditionalPut::Disabled };
        let mut builder = AmazonS3Builder::new()
            .with_http_connector(wire)
            .with_retry(retry)
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_endpoint(settings.origin())
            .with_virtual_hosted_style_request(!settings.path_style)
            .with_region(&settings.region)
            .with_bucket_name(&settings.bucket)
            .with_access_key_id(&settings.access_key_id)
            .with_secret_access_key(&settings.secret_access_key)
            .with_conditional_put(conditional)
            .with_disable_tagging(true)
            // Not every server knows the request that deletes many at once.
            .with_disable_bulk_delete(true);
        if let Some(checksum) = settings.checksum {
            builder = builder.with_checksum_algorithm(match checksum {
                S3Checksum::Sha256 => Checksum::SHA256,
                S3Checksum::Crc64Nvme => Checksum::CRC64NVME,
            });
        }
        let store = builder.build().map_err(setting)?;
        let prefix =
            Path::parse(&settings.prefix).map_err(|e| S3Error::new(S3Fault::Setting, e.to_string()))?;
        Ok(Bucket { store, prefix, bounds, conditional_puts: settings.conditional_puts })
    }

    /// Puts an object, whole or not at all; what stood under its key is replaced.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<(), S3Error> {
        self.put_by(key, bytes, PutMode::Overwrite).await.map(|_| ())
    }

    /// Puts an object unless there is one under its key; whether there was none. A storage without conditional puts
    /// replaces what stood there.
    pub async fn put_new(&self, key: &str, bytes: Bytes) -> Result<bool, S3Error> {
        let mode = if self.conditional_puts { PutMode::Create } else { PutMode::Overwrite };
        self.put_by(key, bytes, mode).await
    }

    async fn put_by(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<bool, S3Error> {
        let path = self.path(key)?;
        let longer = Duration::from_secs(bytes.len() as u64 / PUT_BYTES_PER_SECOND_MIN);
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(&path, PutPayload::from_bytes(bytes), options);
        match self.within(self.bounds.operation + longer, put).await {
            Ok(_) => Ok(true),
            Err((Some(object_store::Error::AlreadyExists { .. }), _)) => Ok(false),
            Err((_, error)) => Err(error),
        }
    }

    /// The object, or none when there is none of that key.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, S3Error> {
        let path = self.path(key)?;
        let get = async { self.store.get(&path).await?.bytes().await };
        let found = self.within(self.bounds.operation, get).await;
        absent(found)
    }

    /// The object's size in bytes, or none when there is none of that key.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, S3Error> {
        let path = self.path(key)?;
        let ask = async {
            match self.store.head(&path).await {
                Ok(found) => Ok(found),
                Err(error @ object_store::Error::NotFound { .. }) => Err(error),
                // The answer to a HEAD has no body and so no code: that of a GET says why.
                Err(_) => {
                    let first = GetOptions { range: Some((0..1).into()), ..GetOptions::default() };
                    Ok(self.store.get_opts(&path, first).await?.meta)
                }
            }
        };
        let found = self.within(self.bounds.operation, ask).await;
        Ok(absent(found)?.map(|found| found.size))
    }

    /// At most `max` objects below a folder (empty: all), in the order of their keys, behind the key `after`.
    pub async fn list(&self, folder: &str, after: Option<&str>, max: usize) -> Result<Vec<Listed>, S3Error> {
        let below = if folder.is_empty() { self.prefix.clone() } else { self.path(folder)? };
        let below = (!below.is_root()).then_some(below);
        let found = match after {
            Some(after) => self.store.list_with_offset(below.as_ref(), &self.path(after)?),
            None => self.store.list(below.as_ref()),
        };
        let found = found.take(max).try_collect::<Vec<_>>();
        let found = self.within(self.bounds.operation, found).await.map_err(|(_, error)| error)?;
        Ok(found
            .into_iter()
            .map(|object| Listed {
                key: self.key(&object.location),
                size: object.size,
                modified: object.last_modified.timestamp(),
            })
            .collect())
    }

    /// Removes an object; one that is not there is no error.
    pub async fn delete(&self, key: &str) -> Result<(), S3Error> {
        let path = self.path(key)?;
        let deleted = self.within(self.bounds.operation, self.store.delete(&path)).await;
        absent(deleted).map(|_| ())
    }

    /// Removes objects, a few at a time; the first that fails ends it.
    pub async fn delete_each(&self, keys: Vec<String>) -> Result<(), S3Error> {
        let each = futures::stream::iter(keys).map(|key| async move { self.delete(&key).await });
        each.buffer_unordered(DELETES_AT_ONCE).try_collect::<()>().await
    }

    fn path(&self, key: &str) -> Result<Path, S3Error> {
        let whole = match self.prefix.as_ref() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        };
        Path::parse(whole).map_err(|error| S3Error::new(S3Fault::Setting, error.to_string()))
    }

    /// The key below the prefix.
    fn key(&self, path: &Path) -> String {
        let whole = path.as_ref();
        let below = whole.strip_prefix(self.prefix.as_ref()).unwrap_or(whole);
        below.trim_start_matches('/').to_owned()
    }

    /// An operation within its time. Of an error: object_store's own, and what was heard of it.
    async fn within<T>(
        &self,
        time: Duration,
        operation: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, (Option<object_store::Error>, S3Error)> {
        let (done, heard) = heard(timeout(time, Box::pin(operation))).await;
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                let shown = heard.unwrap_or_else(|| S3Error::new(S3Fault::NotS3, error.to_string()));
                Err((Some(error), shown))
            }
            // What kept it from its end says more than that it had none.
            Err(_elapsed) => {
                Err((None, heard.unwrap_or_else(|| S3Error::new(S3Fault::TimedOut, String::new()))))
            }
        }
    }
}

/// None where the server says that there is no such object. That there is no bucket is an error.
fn absent<T>(found: Result<T, (Option<object_store::Error>, S3Error)>) -> Result<Option<T>, S3Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err((Some(object_store::Error::NotFound { .. }), error))
            if !matches!(error.fault, S3Fault::NoBucket | S3Fault::NotS3) =>
        {
            Ok(None)
        }
        Err((_, error)) => Err(error),
    }
}
