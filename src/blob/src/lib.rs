//! Pages as they were fetched: content-addressed, compressed objects, one tree an organization.
//!
//! An object's name is the SHA-256 of the page's own bytes: `<org>/<first two hex digits>/<hex>.zst`. So the
//! same page is kept once, a damaged object is told from a sound one by reading it, and a result row needs
//! the hash only. Organizations never share an object: one's erasure must not depend on another's pages, and
//! whether a page is "already there" must not tell one organization what another collects.
//!
//! **Durable before it is named.** A result row may be committed only after its page is on the disk, so
//! `put_page` returns after fsync: a file under another name, synced, renamed, and then its folders synced, since a new
//! name lives in its folder. (The crate object_store 0.13 syncs nothing, and takes a hop between threads for each step.)
//! An object that this process did not write is taken only after its content was inflated and hashed.
//!
//! **What a page costs that did not change** is a hash and one `stat`: [`known`] remembers what this process has seen
//! to be sound and synced. Without it each repeated page cost four flushes of the disk and five hops between threads.
//! A new page is one hop: hash, compression, file and syncs in one closure.
//!
//! **Who deletes.** The store counts no references. The caller removes a page when no row names its hash. Because a page is
//! kept before a row names it, [`OrgBlobs::remove_untouched`] leaves one that was kept again lately: keeping a page that is
//! there makes its file's time the present.
//!
//! **Where.** All names lie below the folder that was opened. When another one stands under its name, or none (it was
//! moved, or its disk unmounted), pages are neither kept nor removed nor said to be missing until it is back.
//!
//! Compression and fsync run on tokio's blocking threads; so does hashing a page of more than [`INLINE_BYTES_MAX`].

mod elsewhere;
mod error;
mod folders;
mod hash;
mod known;

pub use elsewhere::{Answer, Elsewhere, is_page};
pub use error::BlobError;
pub use hash::{BlobHash, BlobHashError};

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use folders::{measure, older, sweep};
use known::KnownBlobs;

#[cfg(test)]
mod tests;

/// Largest page in bytes, before compression: nothing larger goes in, and nothing inflates beyond it.
pub const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// zstd's level: its default, about 300 MB/s and a fifth to a tenth of an HTML page.
const ZSTD_LEVEL: i32 = 3;
/// What zstd may add to bytes that do not compress (its own bound is 1/256 and a little).
const STORED_BYTES_MAX: u64 = (PAGE_BYTES_MAX + PAGE_BYTES_MAX / 128 + 1024) as u64;
/// A page up to this size is hashed where it is asked for, which saves it a hop to another thread and back. A choice.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// The file that is written to see whether the folder takes pages, and its size.
const TRIED: &str = "try";
const TRIED_BYTES: usize = 64 << 10;
/// The end of an object's name.
const SUFFIX: &str = ".zst";

/// A page that is on the disk: what a row keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    pub hash: BlobHash,
    /// The page's own size in bytes.
    pub byte_size: u64,
    /// What it takes on the disk, compressed, in bytes.
    pub stored_size: u64,
}

/// What an organization keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobUsage {
    pub objects: u64,
    /// Compressed bytes.
    pub stored_bytes: u64,
}

/// All organizations' pages. Cheap to clone.
#[derive(Clone)]
pub struct BlobStore {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    /// The folder that was opened there; none where nobody writes.
    opened: Option<disk::Found>,
    known: KnownBlobs,
    /// Tells files apart that are being written.
    unfinished: AtomicU64,
    /// Organizations whose pages were all removed: a page that was on its way meanwhile does not stay.
    emptied: RwLock<HashSet<Uuid>>,
    /// Held shared while a page is kept, and alone by who removes one because it was not kept again for long.
    keeping: RwLock<()>,
    /// How many hold removals back.
    held: AtomicU64,
    /// Where pages lie that are not here.
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
}

/// One organization's pages; the only way to any page. Cheap to make and to clone.
#[derive(Clone)]
pub struct OrgBlobs {
    store: Arc<Inner>,
    org: Uuid,
}

impl BlobStore {
    /// Opens the pages kept under `root`, creating the folder as needed.
    pub fn open_local(root: PathBuf) -> Result<BlobStore, BlobError> {
        disk::open_folder(&root).map_err(|error| BlobError::from_io("open the folder of pages", error))?;
        let root =
            root.canonicalize().map_err(|error| BlobError::from_io("open the folder of pages", error))?;
        let opened =
            disk::Found::at(&root).map_err(|error| BlobError::from_io("open the folder of pages", error))?;
        let inner = Inner {
            root,
            opened: Some(opened),
            known: KnownBlobs::default(),
            unfinished: AtomicU64::new(0),
            emptied: RwLock::default(),
            keeping: RwLock::default(),
            held: AtomicU64::new(0),
            elsewhere: OnceLock::new(),
        };
        Ok(BlobStore { inner: Arc::new(inner) })
    }

    /// From now on pages that are not here are looked for there; once in the life of the store.
    pub fn look_elsewhere(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _ = self.inner.elsewhere.set(elsewhere);
    }

    /// From when this returns until what it gives is dropped no page is removed: what was to go stays for its next round, and
    /// removing all pages of an organization is an error, to be tried again.
    pub fn hold_removals(&self) -> HeldRemovals {
        self.inner.held.fetch_add(1, Ordering::SeqCst);
        // Whoever removes one at the moment has looked before.
        drop(self.inner.keeping.write());
        HeldRemovals(Arc::clone(&self.inner))
    }

    /// The pages of one organization.
    pub fn org(&self, org: Uuid) -> OrgBlobs {
        OrgBlobs { store: self.inner.clone(), org }
    }

    /// Writes a small file, syncs it and removes it again: whether the folder takes pages. Another process's try at the
    /// same time does no harm.
    pub async fn try_write(&self) -> Result<(), BlobError> {
        let (store, file) = (Arc::clone(&self.inner), self.inner.root.join(TRIED));
        blocking(move || {
            store.check()?;
            let tried = File::create(&file).and_then(|mut open| {
                open.write_all(&[0; TRIED_BYTES])?;
                open.sync_all()
            });
            let removed = fs::remove_file(&file);
            tried.and(removed).map_err(|error| BlobError::from_io("write a page", error))
        })
        .await
    }

    /// Removes what writes that were cut off left behind (`<name>#<n>`) and is older than `age`; gives their
    /// number. Reads every folder: for maintenance, not for the way of a request.
    pub async fn sweep_unfinished(&self, age: Duration) -> Result<u64, BlobError> {
        let store = Arc::clone(&self.inner);
        blocking(move || {
            store.check()?;
            sweep(&store.root, age).map_err(|error| BlobError::from_io("sweep unfinished pages", error))
        })
        .await
    }
}

/// Holds removals of pages back; see [`BlobStore::hold_removals`].
pub struct HeldRemovals(Arc<Inner>);

impl Drop for HeldRemovals {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tries to remove a folder into which pages that were on their way still come.
const REMOVE_TRIES_MAX: usize = 100;

impl OrgBlobs {
    /// Keeps a page and returns when it is on the disk, also when it was there before. Errors: larger than
    /// [`PAGE_BYTES_MAX`], disk full, or another failure of the disk; nothing is kept then.
    pub async fn put_page(&self, bytes: Bytes) -> Result<BlobRef, BlobError> {
        if bytes.len() > PAGE_BYTES_MAX {
            return Err(BlobError::TooLarge { bytes: bytes.len() as u64 });
        }
        self.store.check()?;
        let byte_size = bytes.len() as u64;
        let (store, org) = (self.store.clone(), self.org);
        let at_hand = (bytes.len() <= INLINE_BYTES_MAX).then(|| BlobHash::of(&bytes));
        let known = at_hand.and_then(|hash| Some((hash, store.known_size(org, &hash)?)));
        let (hash, stored_size) = match known {
            Some(known) => known,
            None => {
                blocking(move || {
                    let hash = at_hand.unwrap_or_else(|| BlobHash::of(&bytes));
                    let elsewhere = store.elsewhere.get().and_then(|there| there.keep_again(org, &hash));
                    Ok((hash, elsewhere.map_or_else(|| store.keep(org, &hash, &bytes), Ok)?))
                })
                .await?
            }
        };
        // Asked when the page is there: whoever removes them all says so first, so one of the two sees the other.
        if self.store.emptied.read().contains(&self.org) {
            self.delete(&hash).await?;
            return Err(BlobError::Emptied);
        }
        Ok(BlobRef { hash, byte_size, stored_size })
    }

    /// The page, or `None` when the organization has none with this hash.
    /// Errors: [`BlobError::Corrupt`] when what is kept is not what was put in, [`BlobError::Away`] when the other place
    /// that it lies in does not give it.
    pub async fn get_page(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        if let Some(page) = self.local_page(hash).await? {
            return Ok(Some(page));
        }
        match self.fetch_elsewhere(hash).await? {
            None if self.store.elsewhere.get().is_some() => self.local_page(hash).await,
            found => Ok(found),
        }
    }

    async fn local_page(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        let (store, org, hash) = (self.store.clone(), self.org, *hash);
        blocking(move || {
            let stored = store.stored(org, &hash);
            let page = stored.and_then(|stored| stored.map(|stored| inflate(&hash, &stored)).transpose());
            if matches!(page, Err(BlobError::Corrupt { .. })) {
                // The next time it is put it is written again.
                store.known.forget(org, &hash);
            }
            if matches!(page, Ok(None)) {
                store.check()?;
            }
            page
        })
        .await
    }

    /// Removes a page; false when there was none. See "Who deletes" above.
    pub async fn delete(&self, hash: &BlobHash) -> Result<bool, BlobError> {
        let (store, org, hash) = (self.store.clone(), self.org, *hash);
        blocking(move || {
            store.check()?;
            store.known.forget(org, &hash);
            match fs::remove_file(store.file(org, &hash)) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(BlobError::from_io("delete a page", error)),
            }
        })
        .await
    }

    /// Removes a page that was not kept (again) within the last `age`, wherever it lies; whether it is gone, or will be.
    pub async fn remove_untouched(&self, hash: &BlobHash, age: Duration) -> Result<bool, BlobError> {
        match self.store.elsewhere.get() {
            Some(there) => {
                Ok(self.remove_local(hash, age).await?
                    && there.remove_untouched(self.org, *hash, age).await?)
            }
            None => self.remove_local(hash, age).await,
        }
    }

    async fn remove_local(&self, hash: &BlobHash, age: Duration) -> Result<bool, BlobError> {
        let (store, org, hash) = (self.store.clone(), self.org, *hash);
        blocking(move || {
            let failed = |error| BlobError::from_io("remove a page", error);
            // Nobody keeps it between the look at its time and its end.
            let _alone = store.keeping.write();
            store.check()?;
            if store.is_held() {
                return Ok(false);
            }
            let file = store.file(org, &hash);
            match fs::metadata(&file).and_then(|found| found.modified()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
                Err(error) => Err(failed(error)),
                Ok(modified) if !is_past(modified, age) => Ok(false),
                Ok(_) => {
                    store.known.forget(org, &hash);
                    fs::remove_file(&file).map(|()| true).map_err(failed)
                }
            }
        })
        .await
    }

    /// The pages of one of the organization's 256 folders that were not kept within the last `age`, with what each takes on
    /// the disk.
    pub async fn older_than(&self, shard: u8, age: Duration) -> Result<Vec<(BlobHash, u64)>, BlobError> {
        let (store, folder) = (self.store.clone(), self.store.root.join(format!("{}/{shard:02x}", self.org)));
        blocking(move || {
            store.check()?;
            older(&folder, age).map_err(|error| BlobError::from_io("look through a folder of pages", error))
        })
        .await
    }

    /// Removes all pages of the organization for good, unfinished ones too, and gives what they took. From here on it
    /// takes none, as long as this process lives and nobody says [`OrgBlobs::admit`].
    pub async fn delete_all(&self) -> Result<BlobUsage, BlobError> {
        self.store.check()?;
        if self.store.is_held() {
            return Err(BlobError::Held);
        }
        self.store.emptied.write().insert(self.org);
        self.store.known.forget_all(self.org);
        let usage = self.usage().await?;
        let (store, folder) = (self.store.clone(), self.store.root.join(self.org.to_string()));
        blocking(move || {
            // A page on its way may come into a folder that was just emptied; there are only as many as were on their way.
            let mut removed = fs::remove_dir_all(&folder);
            for _ in 0..REMOVE_TRIES_MAX {
                match &removed {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        removed = fs::remove_dir_all(&folder);
                    }
                    _ => break,
                }
            }
            let removed = match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => File::open(&store.root).and_then(|root| root.sync_all()),
            };
            removed.map_err(|error| BlobError::from_io("delete an organization's pages", error))?;
            store.check()
        })
        .await?;
        Ok(usage)
    }

    /// Takes pages again after [`OrgBlobs::delete_all`]: the organization comes back from a backup.
    pub fn admit(&self) {
        self.store.emptied.write().remove(&self.org);
    }

    /// What the organization keeps. Reads its folders.
    pub async fn usage(&self) -> Result<BlobUsage, BlobError> {
        let (store, folder) = (self.store.clone(), self.store.root.join(self.org.to_string()));
        blocking(move || {
            store.check()?;
            measure(&folder).map_err(|error| BlobError::from_io("measure an organization's pages", error))
        })
        .await
    }
}

impl Inner {
    /// That the folder is where it was opened.
    fn check(&self) -> Result<(), BlobError> {
        let checked = self.opened.as_ref().map_or(Ok(()), disk::Found::check);
        checked.map_err(|error| BlobError::from_io("look for a page in its folder", error))
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) > 0
    }

    fn file(&self, org: Uuid, hash: &BlobHash) -> PathBuf {
        let hex = hash.to_string();
        self.root.join(format!("{org}/{}/{hex}{SUFFIX}", &hex[..2]))
    }

    /// The stored size of a page that this process knows to be on the disk, if its file still stands there.
    fn known_size(&self, org: Uuid, hash: &BlobHash) -> Option<u64> {
        let stored_size = self.known.page(org, hash)?;
        // Who asks may stand on a thread that others wait for, and whoever removes a page may wait for a slow disk.
        let _keeping = self.keeping.try_read()?;
        let file = File::open(self.file(org, hash)).ok()?;
        let found = file.metadata().ok()?;
        (found.len() == stored_size && touched(&file, &found).is_ok()).then_some(stored_size)
    }

    /// Makes the page durable under its name, unless it is, and gives the stored size. One that is there but damaged is
    /// written again.
    fn keep(&self, org: Uuid, hash: &BlobHash, bytes: &[u8]) -> Result<u64, BlobError> {
        let failed = |error| BlobError::from_io("write a page", error);
        if let Some(stored_size) = self.known_size(org, hash) {
            return Ok(stored_size);
        }
        let _keeping = self.keeping.read();
        let file = self.file(org, hash);
        let stored_size = match self.sound(org, hash, &file)? {
            Some(stored_size) => stored_size,
            None => {
                let stored = zstd::bulk::compress(bytes, ZSTD_LEVEL)
                    .map_err(|error| BlobError::from_io("compress a page", error))?;
                if self.write(&file, &stored).map_err(failed)? {
                    self.known.forget_folder(org, hash.as_bytes()[0]);
                }
                stored.len() as u64
            }
        };
        self.sync_folders(org, hash, &file).map_err(failed)?;
        // Known is only what was written where it will be looked for.
        self.check().inspect_err(|_| self.known.forget_folder(org, hash.as_bytes()[0]))?;
        self.known.keep_page(org, hash, stored_size);
        Ok(stored_size)
    }

    /// The stored size of a page that is there, whole and synced. One that the disk does not give back is none: it can be
    /// written anew. What the process lacks for the moment is an error.
    fn sound(&self, org: Uuid, hash: &BlobHash, file: &Path) -> Result<Option<u64>, BlobError> {
        let stored = match self.stored(org, hash) {
            Ok(Some(stored)) if inflate(hash, &stored).is_ok() => stored,
            Err(error) if error.is_of_the_process() => return Err(error),
            _ => return Ok(None),
        };
        // Its writer was another process, or has not come to its own sync yet.
        let kept = File::open(file).and_then(|file| {
            touched(&file, &file.metadata()?)?;
            file.sync_all()
        });
        match kept.map_err(|error| BlobError::from_io("write a page", error)) {
            Ok(()) => Ok(Some(stored.len() as u64)),
            Err(error) if error.is_of_the_process() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// An object's bytes as they are kept.
    fn stored(&self, org: Uuid, hash: &BlobHash) -> Result<Option<Vec<u8>>, BlobError> {
        let read = || {
            let file = File::open(self.file(org, hash))?;
            let mut stored = Vec::new();
            file.take(STORED_BYTES_MAX + 1).read_to_end(&mut stored)?;
            io::Result::Ok(stored)
        };
        match read() {
            Ok(stored) if stored.len() as u64 > STORED_BYTES_MAX => {
                Err(BlobError::Corrupt { hash: *hash, why: "it is larger than any page" })
            }
            Ok(stored) => Ok(Some(stored)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BlobError::from_io("read a page", error)),
        }
    }

    /// Writes an object whole under its name, its content synced before the name is; what stood there is replaced. Gives
    /// whether its folder had to be made.
    fn write(&self, file: &Path, stored: &[u8]) -> io::Result<bool> {
        let mut made = false;
        let (unfinished, mut open) = self.unfinished(file, &mut made)?;
        let written = open
            .write_all(stored)
            .and_then(|()| open.sync_all())
            .and_then(|()| fs::rename(&unfinished, file));
        if written.is_err() {
            // What stays all the same is swept later.
            let _ = fs::remove_file(&unfinished);
        }
        written.map(|()| made)
    }

    /// A new file beside `file`, `<name>#<n>`, in a folder that is `made` as needed.
    fn unfinished(&self, file: &Path, made: &mut bool) -> io::Result<(PathBuf, File)> {
        loop {
            let mut name = file.as_os_str().to_owned();
            name.push(format!("#{}", self.unfinished.fetch_add(1, Ordering::Relaxed)));
            let unfinished = PathBuf::from(name);
            match File::create_new(&unfinished) {
                Ok(open) => return Ok((unfinished, open)),
                // A former process left one of that name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.make_folders(file)?;
                    *made = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the folders of an object; never the one of all.
    fn make_folders(&self, file: &Path) -> io::Result<()> {
        let own: Vec<_> = file.ancestors().skip(1).take_while(|at| *at != self.root).collect();
        for folder in own.into_iter().rev() {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the object's name durable: its folder, and once in a process the folders above it up to the root.
    fn sync_folders(&self, org: Uuid, hash: &BlobHash, file: &Path) -> io::Result<()> {
        let shard = hash.as_bytes()[0];
        let is_known = self.known.has_folder(org, shard);
        let upwards = file.ancestors().skip(1).take_while(|at| at.starts_with(&self.root));
        let mut folders = upwards.take(if is_known { 1 } else { usize::MAX });
        folders.try_for_each(|at| File::open(at)?.sync_all())?;
        if !is_known {
            self.known.keep_folder(org, shard);
        }
        Ok(())
    }
}

/// Whether an organization's page is there and what was put in, in a folder that nobody serves. Errors: it is damaged, or
/// cannot be read.
pub fn inspect(root: &Path, org: Uuid, hash: &BlobHash) -> Result<bool, BlobError> {
    let pages = Inner {
        root: root.to_owned(),
        opened: None,
        known: KnownBlobs::default(),
        unfinished: AtomicU64::new(0),
        emptied: RwLock::default(),
        keeping: Default::default(),
        held: AtomicU64::new(0),
        elsewhere: OnceLock::new(),
    };
    let stored = pages.stored(org, hash)?;
    stored.map_or(Ok(false), |stored| inflate(hash, &stored).map(|_| true))
}

/// The page inside an object, if it is the one of that hash.
fn inflate(hash: &BlobHash, stored: &[u8]) -> Result<Bytes, BlobError> {
    let corrupt = |why| BlobError::Corrupt { hash: *hash, why };
    let mut bytes = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(stored)
        .map_err(|error| BlobError::from_io("inflate a page", error))?;
    let limit = PAGE_BYTES_MAX as u64 + 1;
    decoder.take(limit).read_to_end(&mut bytes).map_err(|_| corrupt("it does not inflate"))?;
    if bytes.len() > PAGE_BYTES_MAX {
        return Err(corrupt("it inflates beyond the largest page"));
    }
    if BlobHash::of(&bytes) != *hash {
        return Err(corrupt("its content has another hash"));
    }
    Ok(Bytes::from(bytes))
}

/// A time that lies as far ahead is past, too: it was written before the machine's clock was set back.
fn is_past(modified: SystemTime, age: Duration) -> bool {
    let passed = SystemTime::now().duration_since(modified);
    passed.unwrap_or_else(|ahead| ahead.duration()) >= age
}

/// How exact the time of a file is kept: a page that is kept again and again is not written to each time.
const TOUCHED_WITHIN: Duration = Duration::from_secs(60);

/// Makes the file's time the present.
fn touched(file: &File, found: &fs::Metadata) -> io::Result<()> {
    let now = SystemTime::now();
    if now.duration_since(found.modified()?).is_ok_and(|passed| passed < TOUCHED_WITHIN) {
        return Ok(());
    }
    file.set_modified(now)
}

/// Runs work that computes or blocks on tokio's blocking threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(BlobError::Failed { doing: "finish work on a page", source: Box::new(error) }),
    }
}
