//! Where files of outputs are, how much of them an organization may have, and how many batches leave as files at once.

use base::ids::{OrgId, OutputId};
use base::line::{FairSemaphore, FairnessRules};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Batches that are written into files at once.
const WRITTEN_AT_ONCE: usize = 2;

/// Batches that are sent elsewhere as files at once: each holds its rows, or one file of them, in memory.
const AWAY: FairnessRules =
    FairnessRules { places: 6, kept: 2, kept_after: Duration::from_secs(1), waiting_max: 100_000 };
/// Where files are written before they are sent elsewhere.
const SCRATCH: &str = ".sending";
/// Outputs of which it is remembered that their place was tried, and tables whose lock is kept.
const KEPT: usize = 10_000;

/// Which outputs share places: one whose place hangs is to hold up none that does well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwayLane {
    /// The last try went well.
    Well,
    Unknown,
}

/// What keeps the batches of a folder apart, by organization and folder.
type Tables = HashMap<(OrgId, String), Arc<tokio::sync::Mutex<()>>>;

pub struct Room {
    root: PathBuf,
    bytes_per_org: u64,
    /// Bytes that stay free on the disk.
    reserve_bytes: u64,
    /// What organizations have, as far as it was counted.
    used: Mutex<HashMap<OrgId, u64>>,
    pub places: Semaphore,
    away: [Arc<FairSemaphore<OrgId>>; 2],
    tables: Mutex<Tables>,
    /// Outputs whose place holds to what a Delta log needs, as they were at that revision.
    proven: Mutex<HashMap<OutputId, u64>>,
}

impl Room {
    pub fn new(root: PathBuf, bytes_per_org: u64, reserve_bytes: u64) -> Room {
        // What a process that was killed has left.
        let _ = fs::remove_dir_all(root.join(SCRATCH));
        Room {
            root,
            bytes_per_org,
            reserve_bytes,
            used: Mutex::default(),
            places: Semaphore::new(WRITTEN_AT_ONCE),
            away: [FairSemaphore::new(AWAY), FairSemaphore::new(AWAY)],
            tables: Mutex::default(),
            proven: Mutex::default(),
        }
    }

    /// Places for batches that are sent elsewhere.
    pub fn away(&self, lane: AwayLane) -> &Arc<FairSemaphore<OrgId>> {
        &self.away[lane as usize]
    }

    /// A folder for the drafts of one batch, which its user makes and removes.
    pub fn scratch(&self) -> PathBuf {
        self.root.join(SCRATCH).join(Uuid::now_v7().to_string())
    }

    /// What keeps apart those who write into one folder.
    pub fn table(&self, org: OrgId, folder: String) -> Arc<tokio::sync::Mutex<()>> {
        let mut tables = self.tables.lock();
        if tables.len() >= KEPT {
            tables.retain(|_, table| Arc::strong_count(table) > 1);
        }
        Arc::clone(tables.entry((org, folder)).or_default())
    }

    /// Whether the place of an output was tried.
    pub fn is_proven(&self, output: OutputId, revision: u64) -> bool {
        self.proven.lock().get(&output) == Some(&revision)
    }

    pub fn prove(&self, output: OutputId, revision: u64) {
        let mut proven = self.proven.lock();
        if proven.len() >= KEPT {
            proven.clear();
        }
        proven.insert(output, revision);
    }

    /// The folder of an organization.
    pub fn of(&self, org: OrgId) -> PathBuf {
        self.root.join(Uuid::from(org).to_string())
    }

    /// Why nothing more may be written for the organization, if so; `is_kept` is whether it stays in its folder. Blocking.
    pub fn refuses(&self, org: OrgId, is_kept: bool) -> io::Result<Option<String>> {
        disk::make_folder(&self.root)?;
        if disk::free_bytes(&self.root)? < self.reserve_bytes {
            return Ok(Some("the disk of the box is full (storage.reserve_mb)".to_owned()));
        }
        if !is_kept {
            return Ok(None);
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

    /// Counts anew what an organization has, whose files were put in place beside this. One that cannot be looked into counts
    /// as empty, as it would at a start.
    pub fn recount(&self, org: OrgId) {
        let bytes = bytes_in(&self.of(org)).unwrap_or_default();
        self.used.lock().insert(org, bytes);
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
