//! Restoring a backup into folders that are empty.
//!
//! All of it is checked first, and the key opened. Then pages, files, key and configuration are put in place, and the store
//! last: a folder without its store is one that no box starts with. What fails on the way is taken back.

use crate::check::check;
use crate::files;
use crate::make::{CONFIG, KEY};
use crate::manifest::{Manifest, Sealing, SmallFile};
use crate::object::ObjectRef;
use crate::pages::{List, PageHash, Shelf};
use crate::repository::Repository;
use crate::rows::{self, RowsOf};
use crate::seal::Passphrase;
use base::{Error, Result};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Pages whose places are held in memory at once (some 100 bytes each); each pack is read once for so many.
const PAGES_AT_ONCE: usize = 2_000_000;

/// Where a backup is put.
pub struct Destination<'r> {
    /// The data folder: empty, or not there.
    pub data: &'r Path,
    /// The folder of pages in it.
    pub pages: &'r str,
    /// Where the key file goes; there must be none, unless the backup has none.
    pub key_file: &'r Path,
    /// Where the configuration goes, if the backup has one; there must be none.
    pub config: &'r Path,
    /// Opens what is sealed. None: it is left out.
    pub passphrase: Option<&'r Passphrase>,
    pub stop: &'r dyn Fn() -> bool,
}

/// What was put in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    pub pages: u64,
    pub files: u64,
    pub key: bool,
    pub config: bool,
}

/// What takes the rows, in order, and makes the store of them in the end.
pub trait Store {
    fn put(&mut self, rows: RowsOf) -> Result<()>;
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// Restores a backup; `store` is asked for when everything else is in place. Gives what was put there, and how many rows.
pub fn restore(
    repository: &Repository,
    backup: &Manifest,
    into: &Destination<'_>,
    store: &mut dyn FnMut() -> Result<Box<dyn Store>>,
) -> Result<(Restored, u64)> {
    let made = refuse_what_is_there(backup, into)?;
    let checked = check(repository, &[backup], into.stop)?;
    if !checked.findings.is_empty() {
        return Err(Error::conflict(format!(
            "backup {} is damaged, and nothing was restored: {}",
            backup.id,
            checked.findings.join("; ")
        )));
    }
    let opened = Opened {
        key: opened(repository, backup.key.as_ref(), KEY, into.passphrase)?,
        config: opened(repository, backup.config.as_ref(), CONFIG, into.passphrase)?,
    };
    let done = Restoring { repository, backup, into }.run(&opened, store);
    if done.is_err() {
        take_back(into, made, &opened);
    }
    done
}

/// What was sealed, or was not.
struct Opened {
    key: Option<Vec<u8>>,
    config: Option<Vec<u8>>,
}

fn opened(
    repository: &Repository,
    file: Option<&SmallFile>,
    what: &str,
    passphrase: Option<&Passphrase>,
) -> Result<Option<Vec<u8>>> {
    let Some(file) = file else { return Ok(None) };
    match (file.sealing, passphrase) {
        (Sealing::Open, _) => repository.object(&file.object).map(Some),
        (Sealing::Passphrase, Some(passphrase)) => {
            passphrase.open(what, &repository.object(&file.object)?).map(Some)
        }
        (Sealing::Passphrase, None) => Ok(None),
    }
}

/// Refuses to write over anything. Whether the data folder has to be made.
fn refuse_what_is_there(backup: &Manifest, into: &Destination<'_>) -> Result<bool> {
    let data = into.data.display();
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    let made = match fs::read_dir(into.data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            return Err(Error::invalid("storage.data_dir", format!("{data} cannot be looked into: {error}")));
        }
        Ok(mut entries) => {
            if entries.next().is_some() {
                let reason = format!("{data} is not empty; a backup is restored into an empty folder only");
                return Err(Error::invalid("storage.data_dir", reason));
            }
            false
        }
    };
    let takes_key = backup.key.is_some() && into.passphrase.is_some();
    if takes_key && is_there(into.key_file) {
        let reason = format!("{} is there already; move it away first", into.key_file.display());
        return Err(Error::invalid("storage.key_file", reason));
    }
    if backup.config.is_some() && is_there(into.config) {
        return Err(Error::conflict(format!(
            "{} is there already; move it away first",
            into.config.display()
        )));
    }
    Ok(made)
}

fn take_back(into: &Destination<'_>, made: bool, opened: &Opened) {
    let mut removed = Vec::new();
    if let Ok(entries) = fs::read_dir(into.data) {
        for entry in entries.flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            removed.push(if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) });
        }
    }
    if made {
        removed.push(fs::remove_dir(into.data));
    }
    if opened.key.is_some() {
        removed.push(fs::remove_file(into.key_file));
    }
    if opened.config.is_some() {
        removed.push(fs::remove_file(into.config));
    }
    for error in removed.into_iter().filter_map(io::Result::err) {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(%error, "something of a restore that failed could not be removed");
        }
    }
}

struct Restoring<'r> {
    repository: &'r Repository,
    backup: &'r Manifest,
    into: &'r Destination<'r>,
}

/// Where pages go that lie in a pack: where they lie, and which they are.
type Wanted = HashMap<ObjectRef, Vec<(u32, u32, Shelf, PageHash)>>;

impl Restoring<'_> {
    fn run(
        &self,
        opened: &Opened,
        store: &mut dyn FnMut() -> Result<Box<dyn Store>>,
    ) -> Result<(Restored, u64)> {
        let mut restored = Restored::default();
        disk::hold(self.into.data).map_err(|e| failed(self.into.data, &e))?;
        restored.pages = self.pages()?;
        restored.files = self.files()?;
        for (bytes, path, put) in [
            (&opened.key, self.into.key_file, &mut restored.key),
            (&opened.config, self.into.config, &mut restored.config),
        ] {
            if let Some(bytes) = bytes {
                disk::make_folder(disk::folder_of(path)).map_err(|e| failed(path, &e))?;
                let written = disk::write_synced(path, bytes, false).and_then(|()| disk::sync_name(path));
                written.map_err(|e| failed(path, &e))?;
                *put = true;
            }
        }
        let mut store = store()?;
        for run in &self.backup.rows {
            self.check()?;
            let parts = rows::read(&self.repository.inflated(run)?)?;
            parts.into_iter().try_for_each(|part| store.put(part))?;
        }
        Ok((restored, store.finish()?))
    }

    fn check(&self) -> Result<()> {
        if (self.into.stop)() { Err(Error::unavailable("the restore was stopped")) } else { Ok(()) }
    }

    fn pages(&self) -> Result<u64> {
        let (mut pages, mut count, mut wanted) = (0, 0, Wanted::new());
        for list in &self.backup.pages {
            for (shelf, shelved) in List::of(self.repository, list)?.shelves {
                count += shelved.len();
                pages += shelved.len() as u64;
                for (hash, lies) in shelved {
                    wanted.entry(lies.pack).or_default().push((lies.at, lies.bytes, shelf, hash));
                }
            }
            if count >= PAGES_AT_ONCE {
                self.unpack(std::mem::take(&mut wanted))?;
                count = 0;
            }
        }
        self.unpack(wanted)?;
        Ok(pages)
    }

    /// Puts pages in place. Their content is synced with the whole file system's once, before anything names them.
    fn unpack(&self, wanted: Wanted) -> Result<()> {
        let root = self.into.data.join(self.into.pages);
        for (pack, pages) in wanted {
            self.check()?;
            let bytes = self.repository.object(&pack)?;
            for (at, length, shelf, hash) in pages {
                let folder = shelf.folder(&root);
                let range = at as usize..at as usize + length as usize;
                let file = shelf.file(&root, &hash);
                let page = &bytes[range];
                let write = || match write_private(&file, page) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        disk::make_folder(&folder)?;
                        write_private(&file, page)
                    }
                    written => written,
                };
                write().map_err(|e| failed(&file, &e))?;
            }
        }
        let synced = fs::File::open(self.into.data).and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
        synced.map_err(|e| failed(self.into.data, &e))
    }

    fn files(&self) -> Result<u64> {
        for file in &self.backup.files {
            self.check()?;
            let Some(path) = files::inside(self.into.data, &file.path) else {
                return Err(Error::conflict(format!(
                    "{:?} is no path of a file in a data folder",
                    file.path
                )));
            };
            let write = || -> Result<()> {
                disk::make_folder(disk::folder_of(&path)).map_err(|e| failed(&path, &e))?;
                disk::write_synced(&path, &[], false).map_err(|e| failed(&path, &e))?;
                let mut open =
                    fs::OpenOptions::new().append(true).open(&path).map_err(|e| failed(&path, &e))?;
                for part in &file.parts {
                    let bytes = self.repository.object(part)?;
                    io::Write::write_all(&mut open, &bytes).map_err(|e| failed(&path, &e))?;
                }
                open.sync_all().and_then(|()| disk::sync_name(&path)).map_err(|e| failed(&path, &e))
            };
            write()?;
        }
        Ok(self.backup.files.len() as u64)
    }
}

/// Writes a file for its owner alone.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("{} cannot be written: {error}", path.display()))
}
