//! Where files go: a folder of the box, a bucket, or the folder of a server that is spoken to over SFTP.
//!
//! Each of them has a file under its name when all of it is there, and not before. A key is a path below the shelf, with `/`
//! between its names.

use super::FileFault;
use crate::draft_name;
use crate::sftp::Sftp;
use bytes::Bytes;
use s3::Bucket;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Objects of one listing.
const LISTED: usize = 1_000;
/// Names in a folder that is listed: of a Delta log those since its last checkpoint.
const NAMES_MAX: usize = 50_000;
/// Bytes of a file that is read back: of a Delta log, and of its checkpoints.
pub(super) const READ_BYTES_MAX: u64 = 16 << 20;

/// A place for files.
pub enum Shelf {
    /// A folder of the box.
    Folder(PathBuf),
    /// Objects below the prefix of a bucket.
    Bucket {
        bucket: Bucket,
        /// Whether the storage keeps the condition that nothing may stand under a key.
        has_conditional_puts: bool,
    },
    /// A folder of somebody else's server.
    Server(Box<Sftp>),
}

/// Work on the disk, apart from the threads that answer.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileFault> + Send + 'static,
) -> Result<T, FileFault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| FileFault(format!("the files cannot be written: {error}")))?
}

fn draft_of(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    disk::folder_of(target).join(draft_name(&name))
}

impl Shelf {
    /// Where the `at`-th file of a batch is written before it gets its name: beside it in a folder of the box, else in `scratch`.
    pub(super) fn draft(&self, scratch: &Path, key: &str, at: usize) -> PathBuf {
        match self {
            Shelf::Folder(root) => draft_of(&root.join(key)),
            Shelf::Bucket { .. } | Shelf::Server(_) => scratch.join(at.to_string()),
        }
    }

    /// Whether there is a file of that key.
    pub async fn has(&mut self, key: &str) -> Result<bool, FileFault> {
        match self {
            Shelf::Folder(root) => {
                let path = root.join(key);
                apart(move || Ok(path.exists())).await
            }
            Shelf::Bucket { bucket, .. } => Ok(bucket.size(key).await?.is_some()),
            Shelf::Server(sftp) => Ok(sftp.has(key).await?),
        }
    }

    /// Takes in a file that was written as [`Shelf::draft`] says, in the place of one of that key.
    pub(super) async fn take(&mut self, draft: PathBuf, key: &str) -> Result<(), FileFault> {
        match self {
            Shelf::Folder(root) => {
                let target = root.join(key);
                apart(move || Ok(disk::rename(&draft, &target)?)).await
            }
            Shelf::Bucket { bucket, .. } => {
                let bytes = apart(move || Ok(fs::read(draft)?)).await?;
                Ok(bucket.put(key, bytes.into()).await?)
            }
            Shelf::Server(sftp) => {
                let mut file = tokio::fs::File::open(draft).await?;
                Ok(sftp.put(key, &mut file, None).await?)
            }
        }
    }

    /// Puts a file, in the place of one of that key. `writer` tells drafts of several writers apart.
    pub async fn put(&mut self, key: &str, bytes: Bytes, writer: &str) -> Result<(), FileFault> {
        match self {
            Shelf::Folder(root) => {
                let target = root.join(key);
                let draft = disk::folder_of(&target).join(draft_name(writer));
                apart(move || {
                    make_folders(disk::folder_of(&target))?;
                    Ok(disk::put(&target, &draft, &bytes)?)
                })
                .await
            }
            Shelf::Bucket { bucket, .. } => Ok(bucket.put(key, bytes).await?),
            Shelf::Server(sftp) => Ok(sftp.put(key, &mut &bytes[..], Some(writer)).await?),
        }
    }

    /// Puts a file unless there is one of that key; whether there was none. `writer` as in [`Shelf::put`]. A
    /// bucket without conditional puts replaces what is there: who uses it sees to it that nobody else writes.
    pub async fn put_new(&mut self, key: &str, bytes: Bytes, writer: &str) -> Result<bool, FileFault> {
        match self {
            Shelf::Folder(root) => {
                let target = root.join(key);
                let draft = disk::folder_of(&target).join(draft_name(writer));
                apart(move || link_new(&target, &draft, &bytes)).await
            }
            Shelf::Bucket { bucket, .. } => Ok(bucket.put_new(key, bytes).await?),
            Shelf::Server(sftp) => Ok(sftp.put_new(key, &bytes, writer).await?),
        }
    }

    /// The bytes of a file; none where there is none of that key.
    pub async fn get(&mut self, key: &str) -> Result<Option<Bytes>, FileFault> {
        let found = match self {
            Shelf::Folder(root) => {
                let path = root.join(key);
                apart(move || {
                    let found = match fs::metadata(&path) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                        found => found?,
                    };
                    match found.len() > READ_BYTES_MAX {
                        true => Err(too_large(&path.to_string_lossy())),
                        false => Ok(Some(Bytes::from(fs::read(&path)?))),
                    }
                })
                .await?
            }
            Shelf::Bucket { bucket, .. } => match bucket.size(key).await? {
                Some(size) if size > READ_BYTES_MAX => return Err(too_large(key)),
                Some(_) => bucket.get(key).await?,
                None => None,
            },
            Shelf::Server(sftp) => sftp.get(key, READ_BYTES_MAX).await?.map(Bytes::from),
        };
        Ok(found)
    }

    /// The names of the files in a folder, from one on; none where the folder is not there.
    pub async fn names(&mut self, folder: &str, from: &str) -> Result<Vec<String>, FileFault> {
        let mut names = match self {
            Shelf::Folder(root) => {
                let path = root.join(folder);
                apart(move || names_in(&path)).await?
            }
            Shelf::Bucket { bucket, .. } => names_of(bucket, folder, from).await?,
            Shelf::Server(sftp) => sftp.names(folder, NAMES_MAX).await?,
        };
        if names.len() >= NAMES_MAX {
            return Err(FileFault(format!("{folder} has more than {NAMES_MAX} files")));
        }
        names.retain(|name| name.as_str() >= from);
        names.sort_unstable();
        Ok(names)
    }

    /// Tries whether files can be put, replaced, read and, where `needs_new` says so, put under the condition that there is none.
    pub async fn probe(&mut self, name: &str, needs_new: bool) -> Result<(), FileFault> {
        let key = format!("{}/{}", super::MANIFESTS, draft_name(name));
        let first =
            Bytes::from_static(b"Gleaner has put this here to see whether it can; it may be removed.\n");
        self.put(&key, first.clone(), &format!("{name}-draft")).await?;
        let tried = self.probe_on(&key, &first, name, needs_new).await;
        // Who may not remove may write all the same.
        let _ = self.remove(&key).await;
        tried
    }

    async fn probe_on(
        &mut self,
        key: &str,
        first: &Bytes,
        name: &str,
        needs_new: bool,
    ) -> Result<(), FileFault> {
        if needs_new {
            self.keeps_condition(key, name).await?;
        }
        self.put(key, first.clone(), &format!("{name}-draft")).await?;
        match self.get(key).await? {
            Some(found) if found == first => Ok(()),
            Some(_) => Err(FileFault("other bytes came back than were written".to_owned())),
            None => Err(FileFault("a file that was written is not there".to_owned())),
        }
    }

    /// Whether the condition holds that a file is put only where there is none: there is one under this key.
    async fn keeps_condition(&mut self, key: &str, writer: &str) -> Result<(), FileFault> {
        if matches!(self, Shelf::Bucket { has_conditional_puts: false, .. }) {
            return Ok(());
        }
        let second =
            Bytes::from_static(b"Gleaner has put this in the place of another file, which must not be.\n");
        match self.put_new(key, second, &format!("{writer}-new")).await? {
            false => Ok(()),
            true => Err(FileFault(
                "the storage replaces an object although it is told not to (If-None-Match): a Delta log needs that; set \
                 conditionalPuts to false, and let nothing else write into the table"
                    .to_owned(),
            )),
        }
    }

    /// Removes a file; one that is not there is no error.
    pub async fn remove(&mut self, key: &str) -> Result<(), FileFault> {
        match self {
            Shelf::Folder(root) => {
                let path = root.join(key);
                apart(move || Ok(disk::remove(&path)?)).await
            }
            Shelf::Bucket { bucket, .. } => Ok(bucket.delete(key).await?),
            Shelf::Server(sftp) => Ok(sftp.remove(key).await?),
        }
    }
}

fn too_large(name: &str) -> FileFault {
    FileFault(format!("{name} has more than {} MB, which is more than is read back", READ_BYTES_MAX >> 20))
}

/// A file under a name that nobody has: a link fails where there is one.
fn link_new(target: &Path, draft: &Path, bytes: &[u8]) -> Result<bool, FileFault> {
    make_folders(disk::folder_of(target))?;
    disk::write_synced(draft, bytes, true)?;
    let linked = fs::hard_link(draft, target);
    fs::remove_file(draft)?;
    match linked {
        Ok(()) => {
            disk::sync_name(target)?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>, FileFault> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?
            .take(NAMES_MAX)
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect(),
    }
}

async fn names_of(bucket: &Bucket, folder: &str, from: &str) -> Result<Vec<String>, FileFault> {
    let below =
        |key: &str| key.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')).map(str::to_owned);
    // Behind what sorts before every name from there on.
    let mut after = (!from.is_empty()).then(|| format!("{folder}/{}", &from[..from.len() - 1]));
    let mut names = Vec::new();
    loop {
        let listed = bucket.list(folder, after.as_deref(), LISTED).await?;
        let is_last = listed.len() < LISTED;
        after = listed.last().map(|object| object.key.clone());
        names
            .extend(listed.iter().filter_map(|object| below(&object.key)).filter(|name| !name.contains('/')));
        if is_last || names.len() >= NAMES_MAX {
            return Ok(names);
        }
    }
}

/// A folder and those above it, each durable in the one above.
pub(super) fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    make_folders(disk::folder_of(folder))?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => disk::sync_name(folder),
    }
}
