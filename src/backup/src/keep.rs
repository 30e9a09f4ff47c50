//! Which backups stay, and what goes with those that do not.

use crate::manifest::{BackupId, Manifest};
use crate::object::ObjectId;
use crate::repository::{OBJECTS, Repository};
use base::clock::Timestamp;
use base::{Error, Result};
use std::collections::HashSet;
use std::time::Duration;

/// Which backups stay: the newest `last`, and those that are younger than `age`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// At least one.
    pub last: usize,
    pub age: Duration,
}

/// What went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub backups: Vec<BackupId>,
    /// Objects that no backup names any more, and their bytes.
    pub objects: u64,
    pub bytes: u64,
}

impl Keep {
    fn old<'m>(&self, backups: &'m [Manifest], now: Timestamp) -> Vec<&'m Manifest> {
        let count = backups.len().saturating_sub(self.last.max(1));
        backups.iter().take(count).filter(|backup| now.since(backup.moment) >= self.age).collect()
    }
}

/// Removes old backups from a repository that is held, and what nobody names then. Nothing goes while a manifest cannot be
/// read: nobody knows what it names.
pub fn remove_old(repository: &Repository, keep: &Keep, now: Timestamp) -> Result<Removed> {
    let listing = readable(repository)?;
    let old: Vec<_> = keep.old(&listing, now).into_iter().map(|backup| backup.id.clone()).collect();
    // Oldest first, each before what it names: a backup is whole or not there.
    for id in &old {
        repository.remove_manifest(id)?;
    }
    repository.target().settle()?;
    let mut removed = clear(repository)?;
    removed.backups = old;
    Ok(removed)
}

/// Removes objects that no backup names from a repository that is held: those of backups that were cut off or removed.
pub fn clear(repository: &Repository) -> Result<Removed> {
    let backups = readable(repository)?;
    let named: HashSet<ObjectId> =
        backups.iter().flat_map(|backup| backup.objects().map(|object| object.id)).collect();
    let mut removed = Removed::default();
    for file in repository.target().list(OBJECTS)? {
        if ObjectId::of_key(&file.key).is_some_and(|id| !named.contains(&id)) {
            repository.target().remove(&file.key)?;
            removed.objects += 1;
            removed.bytes += file.bytes;
        }
    }
    repository.target().sweep()?;
    repository.target().settle()?;
    Ok(removed)
}

fn readable(repository: &Repository) -> Result<Vec<Manifest>> {
    let listing = repository.list()?;
    match listing.damaged.first() {
        None => Ok(listing.backups),
        Some(damaged) => Err(Error::conflict(format!(
            "{damaged}. Nothing is removed while a backup cannot be read; remove that file if it is of no use"
        ))),
    }
}
