//! Pages that lie elsewhere than in the local folder, and how they come and go.
//!
//! The local folder stays the first place: a page is kept there before anything names it, whatever becomes of it later.
//! Whoever knows another place ([`Elsewhere`]) takes pages along from here and is asked for those that are not here. The
//! promise between the two: a page is removed from one place only once it is durable in the other, so a reader who looks
//! here, there, and here again finds it wherever it is on its way.

use super::{BlobError, BlobHash, OrgBlobs, blocking, inflate};
use bytes::Bytes;
use std::fs;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// What a question to another place comes back with.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, BlobError>> + Send + 'a>>;

/// Another place of organizations' pages.
pub trait Elsewhere: Send + Sync {
    /// What a page takes there, if it is durable there; it counts as kept again. Does not wait for the place itself.
    fn keep_again(&self, org: Uuid, hash: &BlobHash) -> Option<u64>;

    /// The page as it is stored, compressed; none when it is not there. Ends in bounded time.
    fn fetch(&self, org: Uuid, hash: BlobHash) -> Answer<'_, Option<Bytes>>;

    /// Removes a page that was not kept (again) within `age`, or sees to it that it is removed; whether that is so.
    fn remove_untouched(&self, org: Uuid, hash: BlobHash, age: Duration) -> Answer<'_, bool>;
}

impl OrgBlobs {
    /// The page in the other place, if there is one.
    pub(super) async fn fetch_elsewhere(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        let Some(elsewhere) = self.store.elsewhere.get() else { return Ok(None) };
        let Some(stored) = elsewhere.fetch(self.org, *hash).await? else { return Ok(None) };
        let hash = *hash;
        blocking(move || inflate(&hash, &stored).map(Some)).await
    }

    /// A page as it is stored here, compressed, if it is here and sound.
    pub async fn stored_page(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        let (store, org, hash) = (Arc::clone(&self.store), self.org, *hash);
        blocking(move || {
            let Some(stored) = store.stored(org, &hash)? else {
                store.check()?;
                return Ok(None);
            };
            inflate(&hash, &stored)?;
            Ok(Some(Bytes::from(stored)))
        })
        .await
    }

    /// Keeps a page that comes compressed from elsewhere, and returns when it is on the disk. Errors: it is not the page.
    pub async fn keep_stored(&self, hash: &BlobHash, stored: Bytes) -> Result<(), BlobError> {
        let (store, org, hash) = (Arc::clone(&self.store), self.org, *hash);
        self.store.check()?;
        blocking(move || store.keep(org, &hash, &inflate(&hash, &stored)?).map(drop)).await?;
        if self.store.emptied.read().contains(&self.org) {
            self.delete(&hash).await?;
            return Err(BlobError::Emptied);
        }
        Ok(())
    }

    /// Removes a page here that is durable elsewhere; one that is not here is no error.
    pub async fn drop_local(&self, hash: &BlobHash) -> Result<(), BlobError> {
        let (store, org, hash) = (Arc::clone(&self.store), self.org, *hash);
        blocking(move || {
            let _alone = store.keeping.write();
            store.check()?;
            // It is found here again, and then it goes.
            if store.is_held() {
                return Ok(());
            }
            store.known.forget(org, &hash);
            match fs::remove_file(store.file(org, &hash)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(BlobError::from_io("remove a page that lies elsewhere", error))
                }
                _ => Ok(()),
            }
        })
        .await
    }
}

/// Whether these are the compressed bytes of this page. Inflates and hashes them.
pub fn is_page(hash: &BlobHash, stored: &[u8]) -> bool {
    inflate(hash, stored).is_ok()
}
