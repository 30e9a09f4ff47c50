//! Where files of outputs are, and how much of them an organization may have.

use base::ids::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Batches that are written into files at once.
const WRITTEN_AT_ONCE: usize = 2;

pub struct Room {
    root: PathBuf,
    bytes_per_org: u64,
    /// Bytes that stay free on the disk.
    reserve_bytes: u64,
    /// What organizations have, as far as it was counted.
    used: Mutex<HashMap<OrgId, u64>>,
    pub places: Semaphore,
}

impl Room {
    pub fn new(root: PathBuf, bytes_per_org: u64, reserve_bytes: u64) -> Room {
        let places = Semaphore::new(WRITTEN_AT_ONCE);
        Room { root, bytes_per_org, reserve_bytes, used: Mutex::default(), places }
    }

    /// The folder of an organization.
    pub fn of(&self, org: OrgId) -> PathBuf {
        self.root.join(Uuid::from(org).to_string())
    }

    /// Why nothing more may be written for the organization, if so. Blocking.
    pub fn refuses(&self, org: OrgId) -> io::Result<Option<String>> {
        disk::make_folder(&self.root)?;
        if disk::free_bytes(&self.root)? < self.reserve_bytes {
            return Ok(Some("the disk of the box is full (storage.reserve_mb)".to_owned()));
        }
        let known = self.used.lock().get(&org).copied().filter(|used| *used < self.bytes_per_org);
        let used = match known {
            Some(used) => used,
            // Somebody may have taken files away.
            None => bytes_in(&self.of(org))?,
        };
        self.used.lock().insert(org, used);
        let is_full = used >= self.bytes_per_org;
        Ok(is_full.then(|| {
            let bytes = self.bytes_per_org >> 20;
            format!("the organization's files have {bytes} MB, which is as much as they may (outputs.folder_mb_per_org)")
        }))
    }

    pub fn add(&self, org: OrgId, bytes: u64) {
        *self.used.lock().entry(org).or_default() += bytes;
    }

    /// Removes what an organization has.
    pub fn erase(&self, org: OrgId) -> io::Result<()> {
        self.used.lock().remove(&org);
        match fs::remove_dir_all(self.of(org)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn bytes_in(folder: &Path) -> io::Result<u64> {
    let (mut all, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => folders.push(entry.path()),
                _ => all += entry.metadata().map_or(0, |found| found.len()),
            }
        }
    }
    Ok(all)
}
