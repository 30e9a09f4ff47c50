//! What the steps of a turn work with: one organization's rows, pages and storages, and the time there is.

use super::places;
use super::rows::StorageV1;
use super::service::Storages;
use super::tell;
use crate::features::extraction::PageKey;
use base::ids::OrgId;
use base::{Code, Error, Result};
use blob::{BlobHash, BlobStore, OrgBlobs};
use s3::{Bucket, S3Error};
use server::task::TaskContext;
use std::time::{Duration, Instant};
use store::OrgStore;

/// A turn ends after this, as soon as it can.
const TURN_TIME: Duration = Duration::from_secs(20);
/// Pages of one step, and those of them that are under way at once.
pub(super) const STEP_PAGES: usize = 32;
pub(super) const PAGES_AT_ONCE: usize = 8;

/// What a step works with.
pub(super) struct Turn<'a> {
    context: &'a TaskContext,
    pub storages: &'a Storages,
    pub org: OrgId,
    pub rows: OrgStore,
    pub pages: OrgBlobs,
    until: Instant,
}

impl<'a> Turn<'a> {
    pub fn begin(context: &'a TaskContext, storages: &'a Storages, org: OrgId) -> Result<Turn<'a>> {
        if context.system().read(|tx| Ok(tx.is_fenced(org)))? {
            return Err(Error::new(Code::OrgNotFound));
        }
        let pages = context.service::<BlobStore>().org(org.0);
        let until = Instant::now() + TURN_TIME;
        Ok(Turn { context, storages, org, rows: context.system().org(org), pages, until })
    }

    pub fn is_over(&self) -> bool {
        Instant::now() > self.until
            || self.context.stopping()
            || self.storages.with(self.org, |state| state.is_ended)
    }

    pub fn client(&self, row: &StorageV1) -> Result<Bucket> {
        self.storages.client(self.org, row, false)
    }

    /// Notes what became of a step with a storage.
    pub async fn note(&self, row: &StorageV1, done: std::result::Result<(), S3Error>) -> Result<()> {
        let Err(error) = done else { return Ok(()) };
        self.storages.note_failure(self.org, row.number, &error);
        let is_told = self.storages.with(self.org, |state| {
            let failing = state.failing.get_mut(&row.number);
            failing.is_none_or(|failing| std::mem::replace(&mut failing.is_told, true))
        });
        if is_told { Ok(()) } else { tell::failing(&self.rows, row, &error).await }
    }

    /// Puts down that objects of these pages may be in a storage from now on.
    pub async fn intend(&self, number: u64, hashes: &[BlobHash]) -> Result<()> {
        let hashes = hashes.to_vec();
        let put_down = self.rows.write_freeing(move |tx| {
            tx.unaudited("objects that are to be put");
            hashes.into_iter().try_for_each(|hash| places::intend(tx, number, *hash.as_bytes()))
        });
        put_down.await
    }

    /// Changes the place of pages that are in a storage now; gives those that somebody names.
    pub async fn placed(&self, number: u64, put: Vec<(BlobHash, u64)>) -> Result<Vec<BlobHash>> {
        if put.is_empty() {
            return Ok(Vec::new());
        }
        // A job that has found one here goes on to name it, and it is there.
        put.iter().for_each(|(hash, _)| self.storages.touched.note(self.org, *hash));
        let placed = self.rows.write_freeing(move |tx| {
            tx.unaudited("pages lie elsewhere");
            let mut placed = Vec::with_capacity(put.len());
            for (hash, size) in put {
                let key = PageKey(*hash.as_bytes());
                // What nobody names any more stays here until it is swept; its object goes, as was put down.
                if places::is_named(tx, key)? {
                    places::place(tx, key, number, size)?;
                    placed.push(hash);
                }
            }
            Ok(placed)
        });
        placed.await
    }
}

/// Puts an object, or finds that it is there whole.
pub(super) async fn put_whole(
    client: &Bucket,
    key: &str,
    stored: bytes::Bytes,
) -> std::result::Result<(), S3Error> {
    let size = stored.len() as u64;
    if client.put_new(key, stored.clone()).await? || client.size(key).await? == Some(size) {
        return Ok(());
    }
    client.put(key, stored).await
}
