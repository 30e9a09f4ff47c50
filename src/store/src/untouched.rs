//! A file that is read and never written: what looks at a store that nobody serves.
//!
//! redb writes when it opens a file that was not closed, and when it checks one. Both goes into memory here, and to nothing
//! when the file is closed, so that a look leaves every byte as it was: what is damaged stays as it was found, and a file of
//! an older release stays one. The file is locked like one that is written.

use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;

/// Bytes that are kept together.
const BLOCK_BYTES: u64 = 4_096;

/// The file, and what was written to it since it was opened.
#[derive(Debug)]
pub(super) struct Untouched {
    file: FileBackend,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    /// How long the file would be.
    len: u64,
    /// Up to here the file's own bytes count, where none were written.
    own: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Untouched {
    /// Nothing is written yet.
    pub(super) fn over(file: File) -> Result<Untouched, DatabaseError> {
        let file = FileBackend::new(file)?;
        let len = StorageBackend::len(&file)?;
        Ok(Untouched { file, written: Mutex::new(Written { len, own: len, blocks: BTreeMap::new() }) })
    }

    /// Reads what the file itself has at `offset`; zeros behind its end.
    fn own(&self, own: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(own.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (head, tail) = out.split_at_mut(there);
        tail.fill(0);
        if head.is_empty() { Ok(()) } else { self.file.read(offset, head) }
    }
}

/// The parts of a range of bytes in single blocks: the block, where in it, and where in the range.
fn blocks(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes {
            return None;
        }
        let place = offset + at as u64;
        let within = usize::try_from(place % BLOCK_BYTES).ok()?;
        let part = (BLOCK_BYTES as usize - within).min(bytes - at);
        at += part;
        Some((place / BLOCK_BYTES, within, at - part..at))
    })
}

impl StorageBackend for Untouched {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.own(written.own, offset, out)?;
        for (block, within, part) in blocks(offset, out.len()) {
            if let Some(kept) = written.blocks.get(&block) {
                out[part.clone()].copy_from_slice(&kept[within..within + part.len()]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock();
        written.len = len;
        written.own = written.own.min(len);
        written.blocks.split_off(&len.div_ceil(BLOCK_BYTES));
        if let Some(last) = written.blocks.get_mut(&(len / BLOCK_BYTES)) {
            last[usize::try_from(len % BLOCK_BYTES).unwrap_or(0)..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock();
        for (block, within, part) in blocks(offset, data.len()) {
            if !written.blocks.contains_key(&block) {
                let mut kept = vec![0; BLOCK_BYTES as usize];
                self.own(written.own, block * BLOCK_BYTES, &mut kept)?;
                written.blocks.insert(block, kept);
            }
            let kept = written.blocks.get_mut(&block).expect("it was put there above");
            kept[within..within + part.len()].copy_from_slice(&data[part]);
        }
        written.len = written.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let open = File::options().read(true).write(true).open(&path).unwrap();
        let over = Untouched::over(open).unwrap();
        let mut model = bytes.clone();
        let mut dice = 0x9E37_u64;
        for round in 0..400 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (dice >> 33) as usize % 14_000;
            match round % 5 {
                0 => {
                    over.set_len(at as u64).unwrap();
                    model.resize(at, 0);
                }
                1..3 => {
                    let data = vec![round as u8; (dice >> 20) as usize % 5_000];
                    over.write(at as u64, &data).unwrap();
                    if model.len() < at + data.len() {
                        model.resize(at + data.len(), 0);
                    }
                    model[at..at + data.len()].copy_from_slice(&data);
                }
                _ => {}
            }
            assert_eq!(over.len().unwrap(), model.len() as u64, "round {round}");
            let mut read = vec![0; model.len()];
            over.read(0, &mut read).unwrap();
            assert!(read == model, "round {round}");
        }
        assert!(over.read(model.len() as u64, &mut [0]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
