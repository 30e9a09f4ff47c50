//! A repository in a folder.

use crate::target::{Held, Listed, Target};
use base::{Error, Result};
use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file that is locked while the repository is written to.
const LOCK: &str = "lock";
/// What the names of files that are being written end with.
const DRAFT: &str = ".part";

/// A folder, which is made when something is put.
pub struct FolderTarget {
    root: PathBuf,
    /// Folders with names that are not durable yet.
    unsettled: Mutex<BTreeSet<PathBuf>>,
    drafts: AtomicU64,
}

impl FolderTarget {
    /// The repository in this folder, whose path is absolute.
    pub fn at(root: &Path) -> FolderTarget {
        FolderTarget { root: root.to_owned(), unsettled: Mutex::default(), drafts: AtomicU64::new(0) }
    }

    fn failed(&self, key: &str, doing: &str, error: &io::Error) -> Error {
        let path = if key.is_empty() { self.root.clone() } else { self.root.join(key) };
        Error::unavailable(format!("{} cannot be {doing}: {error}", path.display()))
    }

    fn note(&self, folder: &Path) {
        self.unsettled.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(folder.to_owned());
    }

    /// Writes a file's content under its draft's name, durably.
    fn draft(&self, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        let nth = self.drafts.fetch_add(1, Ordering::Relaxed);
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}-{nth}{DRAFT}", std::process::id()));
        let draft = PathBuf::from(draft);
        let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk::make_folder(disk::folder_of(path))?;
                open()?
            }
            opened => opened?,
        };
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        // It is read again to be checked, and then from the disk; and what others read is worth more in memory.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Ok(draft)
    }

    fn walk(&self, folder: &Path, each: &mut dyn FnMut(&Path, u64) -> io::Result<()>) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let about = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about?,
            };
            if about.is_dir() {
                self.walk(&entry.path(), each)?;
            } else if about.is_file() {
                each(&entry.path(), about.len())?;
            }
        }
        Ok(())
    }
}

struct FolderLock(#[expect(dead_code, reason = "the lock is the open file's")] File);

impl Held for FolderLock {}

impl Target for FolderTarget {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(key);
        let put = self.draft(&path, bytes).and_then(|draft| {
            fs::rename(&draft, &path).inspect_err(|_| {
                let _ = fs::remove_file(&draft);
            })
        });
        put.map_err(|error| self.failed(key, "written", &error))?;
        self.note(disk::folder_of(&path));
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let folders = {
            let mut unsettled = self.unsettled.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::take(&mut *unsettled)
        };
        for folder in folders {
            match disk::sync_folder(&folder) {
                // Nothing was removed from where nothing ever was.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("", "made durable", &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn get(&self, key: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let read = || {
            let file = File::open(self.root.join(key))?;
            let mut bytes = Vec::new();
            // One byte more tells a file that is too long.
            (&file).take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
            io::Result::Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(self.failed(key, "read", &error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        let walked = self.walk(&self.root.join(folder), &mut |path, bytes| {
            if let Some(key) = path.strip_prefix(&self.root).ok().and_then(Path::to_str)
                && !key.ends_with(DRAFT)
            {
                listed.push(Listed { key: key.to_owned(), bytes });
            }
            Ok(())
        });
        walked.map_err(|error| self.failed(folder, "listed", &error))?;
        Ok(listed)
    }

    fn remove(&self, key: &str) -> Result<()> {
        let path = self.root.join(key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(key, "removed", &error)),
            _ => {
                self.note(disk::folder_of(&path));
                Ok(())
            }
        }
    }

    fn hold(&self) -> Result<Box<dyn Held>> {
        disk::make_folder(&self.root).map_err(|error| self.failed("", "made", &error))?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.root.join(LOCK));
        let lock = lock.map_err(|error| self.failed(LOCK, "opened", &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Box::new(FolderLock(lock))),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::unavailable(format!(
                "another backup is being written to {}, or old ones are being removed",
                self.root.display()
            ))),
            Err(error) => Err(self.failed(LOCK, "locked", &error.into())),
        }
    }

    fn sweep(&self) -> Result<()> {
        let mut left = Vec::new();
        let walked = self.walk(&self.root, &mut |path, _| {
            if path.to_string_lossy().ends_with(DRAFT) {
                left.push(path.to_owned());
            }
            Ok(())
        });
        let swept = walked.and_then(|()| left.iter().try_for_each(fs::remove_file));
        swept.map_err(|error| self.failed("", "swept", &error))
    }
}
