//! Pages as they were fetched: content-addressed, compressed objects, one tree an organization.
//!
//! An object's name is the SHA-256 of the page's own bytes: `<org>/<first two hex digits>/<hex>.zst`. So the
//! same page is kept once, a damaged object is told from a sound one by reading it, and a result row needs
//! the hash only. Organizations never share an object: one's erasure must not depend on another's pages, and
//! whether a page is "already there" must not tell one organization what another collects.
//!
//! **Durable before it is named.** A result row may be committed only after its page is on the disk, so
//! `put_page` returns after fsync. `object_store` 0.13 writes a temporary file and renames it, but syncs
//! nothing (seen in its `local.rs`); we sync the object's file and then each folder from it up to the root,
//! since a new name lives in its folder. A crash between the rename and the sync can leave a torn object
//! under a right name. No row names it yet, and `put_page` finds it out: an object that exists is taken only
//! after its content was inflated and hashed.
//!
//! **Who deletes.** The store counts no references. The caller deletes a page only when no row names its
//! hash, and decides so in the place where it also starts a `put_page` of the same organization.
//!
//! Compression, hashing and fsync run on tokio's blocking threads.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path as FilePath, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use parking_lot::RwLock;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

#[cfg(test)]
mod tests;

/// Largest page in bytes, before compression: nothing larger goes in, and nothing inflates beyond it.
pub const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// zstd's level: its default, about 300 MB/s and a fifth to a tenth of an HTML page.
const ZSTD_LEVEL: i32 = 3;
/// What zstd may add to bytes that do not compress (its own bound is 1/256 and a little).
const STORED_BYTES_MAX: u64 = (PAGE_BYTES_MAX + PAGE_BYTES_MAX / 128 + 1024) as u64;
/// The end of an object's name.
const SUFFIX: &str = ".zst";

/// SHA-256 of a page's own bytes. As text: 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash([u8; 32]);

impl BlobHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> BlobHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
        BlobHash(hash)
    }

    /// The hash that was kept as bytes.
    pub const fn from_bytes(hash: [u8; 32]) -> BlobHash {
        BlobHash(hash)
    }

    /// The hash as bytes, to be kept.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({self})")
    }
}

/// The text is not 64 lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobHashError;

impl fmt::Display for BlobHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page's hash is 64 lower-case hex digits")
    }
}

impl Error for BlobHashError {}

impl FromStr for BlobHash {
    type Err = BlobHashError;

    /// Reads exactly what `Display` writes, so that one hash has one name.
    fn from_str(text: &str) -> Result<BlobHash, BlobHashError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(BlobHashError),
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BlobHashError) };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().map_err(|_| BlobHashError)?;
        let mut hash = [0; 32];
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(BlobHash(hash))
    }
}

impl Serialize for BlobHash {
    /// Hex where people read it (JSON), 32 bytes where rows are stored.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for BlobHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BlobHash, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(BlobHash)
        }
    }
}

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
    objects: LocalFileSystem,
    root: PathBuf,
    /// Organizations whose pages were all removed: a page that was on its way meanwhile does not stay.
    emptied: RwLock<HashSet<Uuid>>,
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
        fs::create_dir_all(&root).map_err(|error| BlobError::from_io("open the folder of pages", error))?;
        let root =
            root.canonicalize().map_err(|error| BlobError::from_io("open the folder of pages", error))?;
        let objects = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| BlobError::from_store("open the folder of pages", error))?;
        Ok(BlobStore { inner: Arc::new(Inner { objects, root, emptied: RwLock::default() }) })
    }

    /// The pages of one organization.
    pub fn org(&self, org: Uuid) -> OrgBlobs {
        OrgBlobs { store: self.inner.clone(), org }
    }

    /// Removes what writes that were cut off left behind (`<name>#<n>`) and is older than `age`; gives their
    /// number. Reads every folder: for maintenance, not for the way of a request.
    pub async fn sweep_unfinished(&self, age: Duration) -> Result<u64, BlobError> {
        let root = self.inner.root.clone();
        blocking(move || {
            sweep(&root, age).map_err(|error| BlobError::from_io("sweep unfinished pages", error))
        })
        .await
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
        let byte_size = bytes.len() as u64;
        let hashed = bytes.clone();
        let hash = blocking(move || Ok(BlobHash::of(&hashed))).await?;
        let stored_size = match self.existing(&hash).await? {
            Some(stored_size) => stored_size,
            None => self.write(&hash, bytes).await?,
        };
        // Also for an object that was there: its writer may not have come to its own sync yet.
        let (store, path) = (self.store.clone(), self.path(&hash));
        blocking(move || store.sync(&path)).await?;
        // Asked when the page is there: whoever removes them all says so first, so one of the two sees the other.
        if self.store.emptied.read().contains(&self.org) {
            self.delete(&hash).await?;
            return Err(BlobError::Emptied);
        }
        Ok(BlobRef { hash, byte_size, stored_size })
    }

    /// The page, or `None` when the organization has none with this hash.
    /// Errors: [`BlobError::Corrupt`] when what is kept is not what was put in.
    pub async fn get_page(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        let Some(stored) = self.stored(hash).await? else { return Ok(None) };
        let hash = *hash;
        blocking(move || inflate(&hash, &stored)).await.map(Some)
    }

    /// Removes a page; false when there was none. See "Who deletes" above.
    pub async fn delete(&self, hash: &BlobHash) -> Result<bool, BlobError> {
        match self.store.objects.delete(&self.path(hash)).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(BlobError::from_store("delete a page", error)),
        }
    }

    /// Removes all pages of the organization for good, unfinished ones too, and gives what they took. From here on it
    /// takes none, as long as this process lives.
    pub async fn delete_all(&self) -> Result<BlobUsage, BlobError> {
        self.store.emptied.write().insert(self.org);
        let usage = self.usage().await?;
        let (root, folder) = (self.store.root.clone(), self.store.root.join(self.org.to_string()));
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
                _ => File::open(&root).and_then(|root| root.sync_all()),
            };
            removed.map_err(|error| BlobError::from_io("delete an organization's pages", error))
        })
        .await?;
        Ok(usage)
    }

    /// What the organization keeps. Reads its folders.
    pub async fn usage(&self) -> Result<BlobUsage, BlobError> {
        let prefix = Path::from(self.org.to_string());
        let add = |sum: BlobUsage, size: u64| BlobUsage {
            objects: sum.objects + 1,
            stored_bytes: sum.stored_bytes + size,
        };
        self.store
            .objects
            .list(Some(&prefix))
            .try_fold(BlobUsage::default(), async |sum, object| Ok(add(sum, object.size)))
            .await
            .map_err(|error| BlobError::from_store("measure an organization's pages", error))
    }

    fn path(&self, hash: &BlobHash) -> Path {
        let hex = hash.to_string();
        Path::from(format!("{}/{}/{hex}{SUFFIX}", self.org, &hex[..2]))
    }

    /// The stored size of a sound object; `None` when there is none or a damaged one, which is then written
    /// again.
    async fn existing(&self, hash: &BlobHash) -> Result<Option<u64>, BlobError> {
        let stored = match self.stored(hash).await {
            Ok(Some(stored)) => stored,
            Ok(None) | Err(BlobError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let hash = *hash;
        blocking(move || match inflate(&hash, &stored) {
            Ok(_) => Ok(Some(stored.len() as u64)),
            Err(BlobError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    /// Compresses and writes; gives the stored size.
    async fn write(&self, hash: &BlobHash, bytes: Bytes) -> Result<u64, BlobError> {
        let stored = blocking(move || {
            zstd::bulk::compress(&bytes, ZSTD_LEVEL)
                .map_err(|error| BlobError::from_io("compress a page", error))
        })
        .await?;
        let stored_size = stored.len() as u64;
        let put = self.store.objects.put(&self.path(hash), PutPayload::from(stored)).await;
        put.map_err(|error| BlobError::from_store("write a page", error))?;
        Ok(stored_size)
    }

    /// The object's bytes as they are kept.
    async fn stored(&self, hash: &BlobHash) -> Result<Option<Bytes>, BlobError> {
        let found = match self.store.objects.get(&self.path(hash)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(BlobError::from_store("read a page", error)),
        };
        if found.meta.size > STORED_BYTES_MAX {
            return Err(BlobError::Corrupt { hash: *hash, why: "it is larger than any page" });
        }
        found.bytes().await.map(Some).map_err(|error| BlobError::from_store("read a page", error))
    }
}

impl Inner {
    /// Makes an object and its name durable: the file, then its folders up to the root.
    fn sync(&self, path: &Path) -> Result<(), BlobError> {
        let doing = "make a page durable";
        let file =
            self.objects.path_to_filesystem(path).map_err(|error| BlobError::from_store(doing, error))?;
        let mut upwards = file.ancestors().take_while(|at| at.starts_with(&self.root));
        upwards
            .try_for_each(|at| File::open(at)?.sync_all())
            .map_err(|error| BlobError::from_io(doing, error))
    }
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

/// Removes `<root>/<org>/<two digits>/<name>#<n>` files older than `age`.
fn sweep(root: &FilePath, age: Duration) -> io::Result<u64> {
    let mut removed = 0;
    for org in folders(root)? {
        for shard in folders(&org)? {
            for file in fs::read_dir(shard)? {
                let file = file?;
                if file.file_name().to_string_lossy().contains('#') && is_older(&file, age)? {
                    fs::remove_file(file.path())?;
                    removed += 1;
                }
            }
        }
    }
    Ok(removed)
}

fn folders(parent: &FilePath) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

/// A modification time ahead of the clock is young.
fn is_older(file: &fs::DirEntry, age: Duration) -> io::Result<bool> {
    let modified = file.metadata()?.modified()?;
    Ok(SystemTime::now().duration_since(modified).is_ok_and(|passed| passed >= age))
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

/// Why a page could not be kept or read.
#[derive(Debug)]
pub enum BlobError {
    /// The disk, or the quota on it, is full. Nothing was kept; it can be tried again when there is space.
    NoSpace { doing: &'static str, source: Box<dyn Error + Send + Sync> },
    /// The page has this many bytes, more than [`PAGE_BYTES_MAX`].
    TooLarge { bytes: u64 },
    /// All pages of the organization were removed, and no more are taken.
    Emptied,
    /// What is kept under this hash is not the page.
    Corrupt { hash: BlobHash, why: &'static str },
    /// Another failure of the machine.
    Failed { doing: &'static str, source: Box<dyn Error + Send + Sync> },
}

impl BlobError {
    fn from_io(doing: &'static str, error: io::Error) -> BlobError {
        BlobError::sorted(doing, Box::new(error))
    }

    fn from_store(doing: &'static str, error: object_store::Error) -> BlobError {
        BlobError::sorted(doing, Box::new(error))
    }

    /// Looks through the causes for a full disk: object_store keeps the system's error some levels down.
    fn sorted(doing: &'static str, source: Box<dyn Error + Send + Sync>) -> BlobError {
        let mut cause: Option<&(dyn Error + 'static)> = Some(source.as_ref());
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
                return BlobError::NoSpace { doing, source };
            }
            cause = error.source();
        }
        BlobError::Failed { doing, source }
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlobError::NoSpace { doing, .. } => write!(f, "could not {doing}: no space left on the disk"),
            BlobError::TooLarge { bytes } => {
                write!(f, "the page has {bytes} bytes, more than the {PAGE_BYTES_MAX} that are kept")
            }
            BlobError::Emptied => f.write_str("the organization keeps no pages any more"),
            BlobError::Corrupt { hash, why } => write!(f, "the stored page {hash} is damaged: {why}"),
            BlobError::Failed { doing, .. } => write!(f, "could not {doing}"),
        }
    }
}

impl Error for BlobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BlobError::NoSpace { source, .. } | BlobError::Failed { source, .. } => Some(source.as_ref()),
            BlobError::TooLarge { .. } | BlobError::Corrupt { .. } | BlobError::Emptied => None,
        }
    }
}
