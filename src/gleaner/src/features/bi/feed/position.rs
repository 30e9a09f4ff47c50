//! How far the feed has come, in a file beside the snapshots it speaks of: whoever wipes the folder wipes it too.
//!
//! The file may lag behind the snapshots and never leads them: it is written after they are durable. It also says for
//! which shape of the console's tables they were made, so that a release with other columns makes them anew.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

const FILE: &str = "feed.json";
const FILE_NEW: &str = "feed.new";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredPosition {
    /// Every change record up to this one is in the snapshots.
    pub(super) position: u64,
    /// Digest of the tables and their columns.
    pub(super) shape: String,
}

/// The stored position; none when there is no file, or when nobody can read it, which a rebuild mends.
pub(super) fn load(root: &Path) -> io::Result<Option<StoredPosition>> {
    match fs::read(root.join(FILE)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces it durably: a crash leaves the old one or the new one.
pub(super) fn store(root: &Path, position: &StoredPosition) -> io::Result<()> {
    disk::put(&root.join(FILE), &root.join(FILE_NEW), &serde_json::to_vec(position)?)
}

/// Removes it durably: the snapshots are about to be made anew.
pub(super) fn remove(root: &Path) -> io::Result<()> {
    disk::remove(&root.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_again_and_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()).unwrap(), None);
        let position = StoredPosition { position: 7, shape: "s".into() };
        store(folder.path(), &position).unwrap();
        assert_eq!(load(folder.path()).unwrap(), Some(position));
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(load(folder.path()).unwrap(), None);
        remove(folder.path()).unwrap();
        remove(folder.path()).unwrap();
    }
}
