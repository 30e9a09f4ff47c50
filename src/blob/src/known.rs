//! What this process has seen to be on the disk: pages that are sound and synced, folders whose names are.
//!
//! A page is believed to be sound as long as its file keeps its size; whoever changes bytes under a running box is found
//! out when the page is read.

use super::BlobHash;
use parking_lot::Mutex;
use std::collections::HashMap;
use uuid::Uuid;

/// Pages of one generation; two are kept, of 64 bytes an entry: 4 MiB at most.
const PAGES_MAX: usize = 32_768;
/// Folders of one generation; an organization has 256.
const FOLDERS_MAX: usize = 16_384;

/// The memory; bounded, what was not asked for longest goes first.
#[derive(Default)]
pub(super) struct KnownBlobs {
    pages: Mutex<GenerationalMap<(Uuid, BlobHash), u64>>,
    folders: Mutex<GenerationalMap<(Uuid, u8), ()>>,
}

impl KnownBlobs {
    /// The stored size of a page that was sound and synced when last seen.
    pub fn page(&self, org: Uuid, hash: &BlobHash) -> Option<u64> {
        self.pages.lock().get(&(org, *hash), PAGES_MAX)
    }

    pub fn keep_page(&self, org: Uuid, hash: &BlobHash, stored_size: u64) {
        self.pages.lock().insert((org, *hash), stored_size, PAGES_MAX);
    }

    /// Whether the names of this folder and of those above it are on the disk.
    pub fn has_folder(&self, org: Uuid, shard: u8) -> bool {
        self.folders.lock().get(&(org, shard), FOLDERS_MAX).is_some()
    }

    pub fn keep_folder(&self, org: Uuid, shard: u8) {
        self.folders.lock().insert((org, shard), (), FOLDERS_MAX);
    }

    pub fn forget_folder(&self, org: Uuid, shard: u8) {
        self.folders.lock().remove(&(org, shard));
    }

    pub fn forget(&self, org: Uuid, hash: &BlobHash) {
        self.pages.lock().remove(&(org, *hash));
    }

    pub fn forget_all(&self, org: Uuid) {
        self.pages.lock().retain(|(own, _)| *own != org);
        self.folders.lock().retain(|(own, _)| *own != org);
    }
}

/// A bounded map of two generations: what is asked for in the old one moves to the young one, and when that is full the old
/// one goes.
struct GenerationalMap<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for GenerationalMap<K, V> {
    fn default() -> Self {
        GenerationalMap { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: std::hash::Hash + Eq + Copy, V: Copy> GenerationalMap<K, V> {
    fn get(&mut self, key: &K, max: usize) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let value = self.old.remove(key)?;
        self.insert(*key, value, max);
        Some(value)
    }

    fn insert(&mut self, key: K, value: V, max: usize) {
        if self.young.len() >= max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.young.retain(|key, _| keep(key));
        self.old.retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let mut recent = GenerationalMap::default();
        for n in 0..1_000 {
            recent.insert(n, n, 10);
            assert_eq!(recent.get(&0, 10), Some(0), "asked for all along");
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        assert_eq!(recent.get(&500, 10), None);
        recent.retain(|key| *key != 0);
        assert_eq!(recent.get(&0, 10), None);
    }
}
