//! A storage backend that fails on purpose: the ground under the store's crash tests.
//!
//! It keeps two images of the file, what was written and what was synced. [`FaultyDisk::power_loss`] throws away a
//! random choice of the 512-byte sectors written since the last sync, which is what a disk may do;
//! [`FaultyDisk::fill_after`] lets a number of bytes through and then answers "no space left", as a full disk does.

use super::index_key::{IndexKey, Prefix, prefix_bytes};
use super::key::{Key, encoded};
use super::known::interned;
use super::raw::View;
use super::scope::Scope;
use super::table::{Index, Table};
use super::tx::{SysWrite, WriteTx, index_entry};
use base::codec::Record;
use base::{Error, Result};
use parking_lot::Mutex;
use redb::StorageBackend;
use std::collections::BTreeSet;
use std::io;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

const SECTOR_BYTES: usize = 512;

/// Flips a bit in the stored row under this key, beside all that watches over rows.
pub fn damage_row<S: Scope, K: Key, V: Record>(
    tx: &WriteTx<'_, S>,
    table: &Table<S, K, V>,
    key: &K,
) -> Result<()> {
    let key = [tx.scope.prefix(), encoded(key)].concat();
    let Some(mut row) = tx.raw().get(table.name(), &key)? else {
        return Err(Error::internal("damage a row", "there is none"));
    };
    if let Some(last) = row.last_mut() {
        *last ^= 1;
    }
    tx.raw().set(table.name(), key, Some(row));
    Ok(())
}

/// Flips a bit in the first row of the table of this name, whatever it holds; whether there was one.
pub fn damage_first(tx: &SysWrite<'_>, table: &str) -> Result<bool> {
    // Looking into a table that is not there would make it.
    if !tx.raw().tables()?.contains(&table) {
        return Ok(false);
    }
    let table = interned(table);
    let Some((key, mut row)) = tx.raw().scan(table, Unbounded, Unbounded, false, 1)?.pop() else {
        return Ok(false);
    };
    let Some(last) = row.last_mut() else { return Ok(false) };
    *last ^= 1;
    tx.raw().set(table, key, Some(row));
    tx.unaudited("a fault of the disk");
    Ok(true)
}

/// Puts an entry into an index that leads to this row without being the row's: what a bit that flips in
/// the key of an entry leaves.
pub fn stray_entry<S: Scope, K: Key, V: Record, I: IndexKey>(
    tx: &WriteTx<'_, S>,
    index: &Index<I, V>,
    index_key: impl Prefix<I, Rest = ()>,
    key: &K,
) {
    broken_entry(tx, index, &prefix_bytes(Vec::new(), &index_key), key);
}

/// Puts an entry into an index that leads to this row under bytes which need not be a key of the index.
pub fn broken_entry<S: Scope, K: Key, V: Record, I: IndexKey>(
    tx: &WriteTx<'_, S>,
    index: &Index<I, V>,
    index_key: &[u8],
    key: &K,
) {
    let (entry, target) = index_entry(index.form, &tx.scope.prefix(), index_key, &encoded(key));
    tx.raw().set(index.name(), entry, Some(target));
}

/// The simulated disk; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<Disk>>,
}

#[derive(Debug, Default)]
struct Disk {
    written: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: BTreeSet<usize>,
    /// Bytes that may still be written; none when the disk is endless.
    room: Option<u64>,
    syncs: u64,
    /// Syncs that still succeed; none when all do.
    sound_syncs: Option<u64>,
    /// After the sync that failed all succeed again.
    once: bool,
    reads_fail: bool,
}

impl FaultyDisk {
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    /// A backend over this disk, for [`super::Store::open_backend`].
    pub fn backend(&self) -> Box<dyn StorageBackend> {
        Box::new(self.clone())
    }

    /// Lets `bytes` more bytes through, then answers every write with "no space left". `None` ends that.
    pub fn fill_after(&self, bytes: Option<u64>) {
        self.state.lock().room = bytes;
    }

    /// Lets `count` more syncs succeed and then refuses them, though what was written is there. `None` ends that.
    pub fn fail_syncs_after(&self, count: Option<u64>) {
        let mut state = self.state.lock();
        (state.sound_syncs, state.once) = (count, false);
    }

    /// Lets `count` more syncs succeed and refuses the one behind them.
    pub fn fail_syncs_once_after(&self, count: u64) {
        let mut state = self.state.lock();
        (state.sound_syncs, state.once) = (Some(count), true);
    }

    /// Refuses every read, until it is told otherwise.
    pub fn fail_reads(&self, fail: bool) {
        self.state.lock().reads_fail = fail;
    }

    /// How often the file was synced.
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// A disk as it may be after the power went: everything synced, and of the rest the sectors that `keep` says.
    pub fn power_loss(&self, mut keep: impl FnMut() -> bool) -> FaultyDisk {
        let state = self.state.lock();
        let mut image = state.synced.clone();
        image.resize(state.written.len().max(image.len()), 0);
        for &sector in &state.dirty {
            let at = sector * SECTOR_BYTES;
            let end = (at + SECTOR_BYTES).min(state.written.len());
            if at < end && keep() {
                image[at..end].copy_from_slice(&state.written[at..end]);
            }
        }
        let disk = Disk { written: image.clone(), synced: image, ..Disk::default() };
        FaultyDisk { state: Arc::new(Mutex::new(disk)) }
    }
}

fn out_of_range() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "read past the end of the simulated file")
}

impl Disk {
    fn spend(&mut self, bytes: u64) -> io::Result<()> {
        let Some(room) = &mut self.room else { return Ok(()) };
        *room = room.checked_sub(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        Ok(())
    }
}

impl StorageBackend for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().written.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state.lock();
        if state.reads_fail {
            return Err(io::Error::other("the simulated disk cannot be read"));
        }
        let at = usize::try_from(offset).map_err(|_| out_of_range())?;
        let end = at.checked_add(out.len()).ok_or_else(out_of_range)?;
        out.copy_from_slice(state.written.get(at..end).ok_or_else(out_of_range)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let len = usize::try_from(len).map_err(|_| out_of_range())?;
        let grown = len.saturating_sub(state.written.len()) as u64;
        state.spend(grown)?;
        state.written.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if let Some(sound) = state.sound_syncs {
            let left = sound.checked_sub(1);
            state.sound_syncs = if state.once { left } else { Some(left.unwrap_or_default()) };
            if left.is_none() {
                // As Linux has it: what could not be written counts as written from then on, and is lost with the power
                // unless somebody writes it again.
                state.dirty.clear();
                return Err(io::Error::other("the simulated disk did not sync"));
            }
        }
        let Disk { written, synced, dirty, .. } = &mut *state;
        synced.resize(written.len(), 0);
        for sector in std::mem::take(dirty) {
            let at = sector * SECTOR_BYTES;
            let end = (at + SECTOR_BYTES).min(written.len());
            if at < end {
                synced[at..end].copy_from_slice(&written[at..end]);
            }
        }
        state.syncs += 1;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.spend(data.len() as u64)?;
        let at = usize::try_from(offset).map_err(|_| out_of_range())?;
        let end = at + data.len();
        if end > state.written.len() {
            return Err(out_of_range());
        }
        state.written[at..end].copy_from_slice(data);
        state.dirty.extend(at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
        Ok(())
    }
}
