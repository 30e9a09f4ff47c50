//! The part of the slice that hangs in the box's services: who reads pages from storages, and how each of them is.
//!
//! A storage that failed is left alone by readers: they are told at once what is wrong, and only the task that moves pages
//! asks it again ([`super::moving`]). So a dead storage costs its own organization one wait, and nobody else any.

use super::places;
use super::rows::{REMOTE, STORAGES, StorageV1};
use super::touched::Touched;
use crate::features::extraction::PageKey;
use base::clock::Timestamp;
use base::ids::OrgId;
use base::web::WebUrl;
use base::{Error, Result};
use blob::{Answer, BlobError, BlobHash, Elsewhere};
use bytes::Bytes;
use fetch::Connector;
use parking_lot::Mutex;
use s3::{Bounds, Bucket, S3Error, S3Fault, S3Settings};
use secrets::keyring::{Keyring, SealContext};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{System, readable};
use tokio::sync::Semaphore;

/// Pages of one organization that are read from its storages at once, and how long one more waits.
const READS_PER_ORG: usize = 16;
const READ_WAIT: Duration = Duration::from_secs(3);
/// Tests of an organization's storage that are under way at once.
const TESTS_PER_ORG: usize = 2;

/// How a storage fails.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    pub error: S3Error,
    pub since: Timestamp,
    /// Whether the log of events says so.
    pub is_told: bool,
}

/// What is known of an organization while the process lives.
pub(super) struct OrgState {
    clients: HashMap<(u64, bool), (u64, Bucket)>,
    pub failing: HashMap<u64, Failing>,
    pub is_running: bool,
    /// The next turn is wanted at once, whatever the one that runs says.
    pub is_wanted: bool,
    /// Turns that failed one after the other.
    pub failures: u32,
    pub not_before: Option<Instant>,
    /// Pages cannot be fetched back: the disk is at its reserve.
    pub lacks_room: bool,
    pub is_ended: bool,
    /// When removing what an erased organization has in its storages first failed.
    pub first_failed: Option<Instant>,
    reads: Arc<Semaphore>,
    tests: usize,
}

impl Default for OrgState {
    fn default() -> OrgState {
        OrgState {
            clients: HashMap::new(),
            failing: HashMap::new(),
            is_running: false,
            is_wanted: false,
            failures: 0,
            not_before: None,
            lacks_room: false,
            is_ended: false,
            first_failed: None,
            reads: Arc::new(Semaphore::new(READS_PER_ORG)),
            tests: 0,
        }
    }
}

/// Storages of all organizations. Hung up in the services.
pub struct Storages {
    pub(super) system: System,
    connector: Arc<Connector>,
    keyring: Arc<Keyring>,
    pub(super) touched: Touched,
    /// How old a local page must be to leave: what was just fetched is read again by what follows it.
    pub(super) upload_after: Duration,
    orgs: Mutex<HashMap<OrgId, OrgState>>,
}

impl Storages {
    pub(super) fn new(
        system: System,
        connector: Arc<Connector>,
        keyring: Arc<Keyring>,
        upload_after: Duration,
    ) -> Storages {
        let (touched, orgs) = (Touched::default(), Mutex::default());
        Storages { system, connector, keyring, touched, upload_after, orgs }
    }

    /// The organization's storages are others than they were: its turn comes at once.
    pub(super) fn look_again(&self, org: OrgId) {
        self.with(org, |state| (state.not_before, state.is_wanted) = (None, state.is_running));
    }

    /// Looks at, or changes, what is known of an organization.
    pub(super) fn with<T>(&self, org: OrgId, run: impl FnOnce(&mut OrgState) -> T) -> T {
        run(self.orgs.lock().entry(org).or_default())
    }

    /// The same without making a place for what is not known.
    pub(super) fn with_known<T>(&self, org: OrgId, run: impl FnOnce(&OrgState) -> T) -> T {
        match self.orgs.lock().get(&org) {
            Some(state) => run(state),
            None => run(&OrgState::default()),
        }
    }

    /// A number that no storage of the organization ever had: what was meant for one that is gone must not reach another.
    pub(super) fn next_number(&self, known: &[StorageV1]) -> u64 {
        let now = u64::try_from(self.system.clock().now().millis()).unwrap_or_default();
        known.iter().map(|row| row.number + 1).max().unwrap_or(1).max(now)
    }

    pub(super) fn forget(&self, org: OrgId) {
        self.touched.forget(org);
        self.orgs.lock().remove(&org);
    }

    /// Storages that do not work at the moment, and turns that are under way.
    pub(super) fn numbers(&self) -> (usize, usize) {
        let orgs = self.orgs.lock();
        (orgs.values().map(|org| org.failing.len()).sum(), orgs.values().filter(|org| org.is_running).count())
    }

    pub(super) fn seal(&self, org: OrgId, number: u64, secret: &str) -> Result<Vec<u8>> {
        let id = number.to_be_bytes();
        let sealed = self.keyring.seal(&place(&org, &id), secret.as_bytes());
        sealed.map_err(|e| Error::internal("seal the secret of a storage", e))
    }

    pub(super) fn open(&self, org: OrgId, row: &StorageV1) -> Result<String> {
        let id = row.number.to_be_bytes();
        let plain = self.keyring.open(&place(&org, &id), &row.sealed_secret);
        let plain = plain.map_err(|e| Error::internal("open the secret of a storage", e))?;
        String::from_utf8(plain).map_err(|e| Error::internal("open the secret of a storage", e))
    }

    /// A client of these settings, which is not kept.
    pub(super) fn client_of(
        &self,
        org: OrgId,
        settings: &S3Settings,
    ) -> std::result::Result<Bucket, S3Error> {
        Bucket::new(settings, Arc::clone(&self.connector), Some(org), Bounds::WAITED_FOR)
    }

    /// A client of a storage; `is_waited_for` is whether a caller waits for what it does.
    pub(super) fn client(&self, org: OrgId, row: &StorageV1, is_waited_for: bool) -> Result<Bucket> {
        let key = (row.number, is_waited_for);
        let kept = self.with(org, |state| state.clients.get(&key).cloned());
        if let Some((_, client)) = kept.filter(|(revision, _)| *revision == row.revision) {
            return Ok(client);
        }
        let settings = settings(row, self.open(org, row)?)?;
        let bounds = if is_waited_for { Bounds::WAITED_FOR } else { Bounds::BACKGROUND };
        let client = Bucket::new(&settings, Arc::clone(&self.connector), Some(org), bounds);
        let client = client.map_err(|e| Error::internal("speak to a storage", e))?;
        self.with(org, |state| state.clients.insert(key, (row.revision, client.clone())));
        Ok(client)
    }

    /// Notes that a storage failed.
    pub(super) fn note_failure(&self, org: OrgId, number: u64, error: &S3Error) {
        let since = self.system.clock().now();
        self.with(org, |state| {
            let failing = state.failing.entry(number).or_insert(Failing {
                error: error.clone(),
                since,
                is_told: false,
            });
            failing.error = error.clone();
        });
    }

    /// A place for a test; none when the organization has as many as it may.
    pub(super) fn test_place(self: &Arc<Storages>, org: OrgId) -> Option<TestPlace> {
        self.with(org, |state| {
            (state.tests < TESTS_PER_ORG).then(|| {
                state.tests += 1;
                TestPlace { storages: Arc::clone(self), org }
            })
        })
    }

    async fn read(&self, org: OrgId, hash: BlobHash) -> Result<Option<Bytes>, BlobError> {
        let away = |why: String| BlobError::Away { why };
        let unread = |error: Error| {
            tracing::error!(%org, error = %error.for_operator(), "where a page lies cannot be read");
            away("where it lies cannot be read".to_owned())
        };
        let key = PageKey(*hash.as_bytes());
        let found = self.system.org(org).read(|tx| {
            let Some(remote) = tx.get(&REMOTE, &key)? else { return Ok(None) };
            Ok(tx.get(&STORAGES, &remote.storage)?.map(|row| (remote, row)))
        });
        let Some((_, row)) = found.map_err(unread)? else { return Ok(None) };
        let (failing, reads) =
            self.with(org, |state| (state.failing.get(&row.number).cloned(), Arc::clone(&state.reads)));
        if let Some(failing) = failing {
            return Err(away(failing.error.to_string()));
        }
        let Ok(Ok(_place)) = tokio::time::timeout(READ_WAIT, reads.acquire_owned()).await else {
            return Err(away("too many pages are read from it at once".to_owned()));
        };
        let client = self.client(org, &row, true).map_err(unread)?;
        match client.get(&object_key(org, &hash)).await {
            Ok(Some(stored)) => Ok(Some(stored)),
            Ok(None) => {
                tracing::error!(%org, %hash, bucket = row.bucket, "a page is not in its storage any more");
                Ok(None)
            }
            Err(error) => {
                // That one object is too large says nothing of the others.
                if error.fault != S3Fault::TooLarge {
                    self.note_failure(org, row.number, &error);
                }
                Err(away(error.to_string()))
            }
        }
    }

    async fn remove(&self, org: OrgId, hash: BlobHash, age: Duration) -> Result<bool> {
        let key = PageKey(*hash.as_bytes());
        let own = self.system.org(org);
        if own.read(|tx| tx.get(&REMOTE, &key))?.is_none() {
            return Ok(true);
        }
        let Some(removing) = self.touched.remove(org, hash, age) else { return Ok(false) };
        let gone = own.write_freeing(move |tx| {
            tx.unaudited("a page that nobody names");
            if places::is_named(tx, key)? {
                return Ok(false);
            }
            tx.get(&REMOTE, &key)?.map_or(Ok(()), |row| places::leave(tx, key, row, true))?;
            Ok(true)
        });
        let gone = gone.await;
        drop(removing);
        gone
    }
}

impl Elsewhere for Storages {
    fn keep_again(&self, org: uuid::Uuid, hash: &BlobHash) -> Option<u64> {
        let (org, key) = (OrgId(org), PageKey(*hash.as_bytes()));
        let find = || {
            let row = self.system.org(org).read(|tx| tx.get(&REMOTE, &key));
            // What cannot be read is written anew.
            let row = readable("where a page lies", key, row).ok().flatten().flatten();
            row.filter(|row| !row.is_missing).map(|row| row.stored_size)
        };
        // Most organizations have no storage of their own, and nothing is to be remembered of them.
        find()?;
        self.touched.keep(org, *hash, find)
    }

    fn fetch(&self, org: uuid::Uuid, hash: BlobHash) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.read(OrgId(org), hash))
    }

    fn remove_untouched(&self, org: uuid::Uuid, hash: BlobHash, age: Duration) -> Answer<'_, bool> {
        Box::pin(async move {
            let removed = self.remove(OrgId(org), hash, age).await;
            removed.map_err(|error| BlobError::Away { why: error.for_operator() })
        })
    }
}

/// A test that is under way; dropping it gives its place back.
pub(super) struct TestPlace {
    storages: Arc<Storages>,
    org: OrgId,
}

impl Drop for TestPlace {
    fn drop(&mut self) {
        self.storages.with(self.org, |state| state.tests = state.tests.saturating_sub(1));
    }
}

fn place<'a>(org: &'a OrgId, id: &'a [u8]) -> SealContext<'a> {
    SealContext { org: org.0.as_bytes(), table: STORAGES.name(), id, field: "secret" }
}

/// The settings of a row.
pub(super) fn settings(row: &StorageV1, secret: String) -> Result<S3Settings> {
    let endpoint = row.endpoint.as_deref().map(WebUrl::parse).transpose();
    let endpoint = endpoint.map_err(|e| Error::internal("read the endpoint of a storage", e))?;
    Ok(S3Settings {
        endpoint,
        region: row.region.clone(),
        bucket: row.bucket.clone(),
        prefix: row.prefix.clone(),
        access_key_id: row.access_key_id.clone(),
        secret_access_key: secret,
        path_style: row.path_style,
        conditional_puts: row.conditional_puts,
        checksum: row.checksum.of_s3(),
    })
}

/// The folder of an organization's objects, so that several can share a bucket.
pub(super) fn folder(org: OrgId) -> String {
    format!("pages/{org}")
}

/// The object of a page.
pub(super) fn object_key(org: OrgId, hash: &BlobHash) -> String {
    let hex = hash.to_string();
    format!("{}/{}/{hex}.zst", folder(org), &hex[..2])
}
