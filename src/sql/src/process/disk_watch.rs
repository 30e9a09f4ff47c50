//! The disk that statements take while they run: what they spill, and results until they are finished.
//!
//! A statement may spill gigabytes, and the box needs its reserve of free space for rows that must not be lost. So while
//! statements run the free space is looked at, more often than they can use it up, and when it falls below what they
//! have to leave, the one that holds most of it is ended: its folder goes with it. One that holds next to nothing goes
//! on, and so does everything else in the box: the least that statements leave is more than the reserve at which the store
//! refuses to write.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

use disk::free_bytes;

/// How often the disk is looked at while statements run. In this time a fast disk takes some 40 MiB.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the folder of a statement that was ended may take to go before another one is.
const CLEAR_WAIT: Duration = Duration::from_millis(500);
/// A statement that holds less is not ended: every result takes a few blocks.
const HELD_BYTES_MIN: u64 = 64 << 10;
/// Folders in a worker's folder are looked into to this depth; DataFusion makes one.
const DEPTH_MAX: u32 = 4;
const BLOCK_BYTES: u64 = 512;

/// The disk of one box's statements.
#[derive(Debug)]
pub(super) struct DiskWatch {
    /// Where workers spill and where results are kept, which may be two disks.
    folders: [PathBuf; 2],
    /// What statements leave free.
    least_free_bytes: u64,
    state: Mutex<DiskState>,
}

#[derive(Debug, Default)]
struct DiskState {
    /// The folders of workers that have a statement, and how to tell it to end.
    holders: HashMap<Uuid, (PathBuf, watch::Sender<bool>)>,
    watched: bool,
    /// The folder of the one that was ended last, and since when it should be going.
    going: Option<(PathBuf, Instant)>,
}

/// A statement that may take disk, until this is dropped.
#[derive(Debug)]
pub(super) struct DiskClaim {
    disk: Arc<DiskWatch>,
    query_id: Uuid,
    told: watch::Receiver<bool>,
}

impl DiskWatch {
    /// Statements leave half as much again as the `reserve_bytes` at which the store stops; all of it when that is none.
    pub(super) fn new(folders: [PathBuf; 2], reserve_bytes: u64) -> Arc<Self> {
        let least_free_bytes = reserve_bytes.saturating_add(reserve_bytes / 2);
        Arc::new(Self { folders, least_free_bytes, state: Mutex::default() })
    }

    /// Puts a statement under watch, whose worker has `folder`.
    pub(super) fn hold(self: &Arc<Self>, query_id: Uuid, folder: &Path) -> DiskClaim {
        let (tell, told) = watch::channel(false);
        let mut state = self.state.lock();
        state.holders.insert(query_id, (folder.to_owned(), tell));
        if self.least_free_bytes > 0 && !std::mem::replace(&mut state.watched, true) {
            tokio::spawn(Arc::clone(self).watch());
        }
        drop(state);
        DiskClaim { disk: Arc::clone(self), query_id, told }
    }

    /// Whether less is free than statements have to leave.
    fn is_short(&self) -> bool {
        self.folders.iter().any(|folder| match free_bytes(folder) {
            Ok(free) => free < self.least_free_bytes,
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "the free space of a disk could not be read");
                false
            }
        })
    }

    /// Whether a result of so many bytes may not be kept.
    pub(super) fn has_no_room_for(&self, bytes: u64) -> bool {
        self.least_free_bytes > 0 && bytes >= HELD_BYTES_MIN && self.is_short()
    }

    async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            {
                let mut state = self.state.lock();
                if state.holders.is_empty() {
                    state.watched = false;
                    return;
                }
            }
            let disk = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || disk.look()).await {
                tracing::error!(%error, "the disk could not be looked at");
            }
        }
    }

    /// Ends the statement that holds most, when the disk is short and the last one that was ended has gone.
    fn look(&self) {
        if !self.is_short() {
            return;
        }
        let folders: Vec<(Uuid, PathBuf)> = {
            let mut state = self.state.lock();
            if state
                .going
                .as_ref()
                .is_some_and(|(folder, since)| since.elapsed() < CLEAR_WAIT && folder.exists())
            {
                return;
            }
            state.going = None;
            state.holders.iter().map(|(id, (folder, _))| (*id, folder.clone())).collect()
        };
        let held = folders.into_iter().map(|(id, folder)| (held_bytes(&folder, DEPTH_MAX), id));
        let Some((bytes, id)) = held.max().filter(|(bytes, _)| *bytes >= HELD_BYTES_MIN) else { return };
        let mut state = self.state.lock();
        if let Some((folder, tell)) = state.holders.get(&id) {
            tracing::warn!(query = %id, bytes, "the disk is short of space: the statement that holds most of it is ended");
            tell.send_replace(true);
            state.going = Some((folder.clone(), Instant::now()));
        }
    }
}

impl DiskClaim {
    /// Ends when the statement has to give its disk back; never, if it has not.
    pub(super) async fn must_end(&self) {
        // An error means that the watch is over, which it is not before this is dropped.
        if self.told.clone().wait_for(|told| *told).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for DiskClaim {
    fn drop(&mut self) {
        self.disk.state.lock().holders.remove(&self.query_id);
    }
}

/// What the files below `folder` take on the disk. What goes meanwhile takes nothing.
fn held_bytes(folder: &Path, depth_left: u32) -> u64 {
    let Some(depth_left) = depth_left.checked_sub(1) else { return 0 };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => held_bytes(&entry.path(), depth_left),
        Ok(metadata) => metadata.blocks().saturating_mul(BLOCK_BYTES),
        Err(_) => 0,
    });
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_one_that_holds_most_is_ended_and_no_other() {
        let root = tempfile::tempdir().expect("a folder");
        let homes = ["small", "large", "largest"].map(|name| root.path().join(name));
        for (home, bytes) in homes.iter().zip([100, 1 << 20, 2 << 20]) {
            fs::create_dir_all(home.join("datafusion")).expect("a folder");
            fs::write(home.join("datafusion").join("spilled"), vec![1; bytes]).expect("written");
        }
        // More than any disk has: it is short from the beginning.
        let disk = DiskWatch::new([root.path().to_owned(), root.path().to_owned()], 1 << 62);
        assert!(disk.has_no_room_for(HELD_BYTES_MIN) && !disk.has_no_room_for(HELD_BYTES_MIN - 1));
        let [small, large, largest] = homes.each_ref().map(|home| disk.hold(Uuid::now_v7(), home));
        largest.must_end().await;
        assert!(!*large.told.borrow(), "one at a time");
        fs::remove_dir_all(&homes[2]).expect("removed");
        drop(largest);
        large.must_end().await;
        fs::remove_dir_all(&homes[1]).expect("removed");
        drop(large);
        disk.look();
        assert!(!*small.told.borrow(), "it holds next to nothing");
        drop(small);
        assert!(disk.state.lock().holders.is_empty());
        let free = DiskWatch::new([root.path().to_owned(), root.path().to_owned()], 0);
        assert!(!free.has_no_room_for(u64::MAX), "no reserve, no bound");
    }
}
