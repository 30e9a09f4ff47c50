//! New files of a snapshot: their names, segments that are closed, and bitmaps of deleted rows.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::manifest::{Deletions, SegmentEntry, Snapshot, StoredFile};
use crate::segment::{Key, SegmentError, SegmentWriter};

/// Hands out file names that were never used in this folder, to the feed and to merges at once.
pub(super) struct FileNames<'a> {
    pub(super) folder: &'a Path,
    next: &'a AtomicU64,
}

impl<'a> FileNames<'a> {
    pub(super) fn new(folder: &'a Path, next: &'a AtomicU64) -> Self {
        Self { folder, next }
    }

    pub(super) fn file(&self, prefix: char, extension: &str) -> Arc<StoredFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        StoredFile::unpublished(self.folder.join(format!("{prefix}{number:010}.{extension}")))
    }
}

/// Closes a new segment.
pub(super) fn finish(
    file: Arc<StoredFile>,
    writer: SegmentWriter,
) -> Result<Option<SegmentEntry>, SegmentError> {
    let written = writer.finish()?;
    Ok(written.map(|written| SegmentEntry {
        file,
        rows: written.rows,
        bytes: written.bytes,
        min_key: written.min_key,
        max_key: written.max_key,
        deletions: None,
        opened: Arc::default(),
    }))
}

/// Bitmaps that this change alters, by segment file.
#[derive(Default)]
pub(super) struct DeletionMarks {
    bits: HashMap<std::path::PathBuf, (Vec<u8>, usize)>,
}

impl DeletionMarks {
    /// Marks the rows of `keys` (ascending) in every segment that may hold one.
    pub(super) fn mark(&mut self, entries: &[SegmentEntry], keys: &[Key]) -> Result<(), SegmentError> {
        for entry in entries {
            let from = keys.partition_point(|key| *key < entry.min_key);
            let to = keys.partition_point(|key| *key <= entry.max_key);
            let mut row = 0;
            for key in &keys[from..to] {
                let found = entry.open()?.find(key, row)?;
                row = found.start;
                for row in found {
                    self.set(entry, row)?;
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, entry: &SegmentEntry, row: usize) -> Result<(), SegmentError> {
        if !self.bits.contains_key(&entry.file.path) {
            let old = entry.deletions.as_ref().map_or(0, |deletions| deletions.rows);
            self.bits.insert(entry.file.path.clone(), (entry.deleted_bits()?, old));
        }
        if let Some((bits, count)) = self.bits.get_mut(&entry.file.path) {
            let mask = 1 << (row % 8);
            *count += usize::from(bits[row / 8] & mask == 0);
            bits[row / 8] |= mask;
        }
        Ok(())
    }

    /// Writes all altered bitmaps into one file, so that a change costs one sync however many segments it touches.
    pub(super) fn store(
        &mut self,
        names: &FileNames<'_>,
        snapshot: &mut Snapshot,
    ) -> Result<(), SegmentError> {
        if self.bits.is_empty() {
            return Ok(());
        }
        let stored = names.file('d', "bits");
        let mut file = File::create_new(&stored.path)?;
        let mut offset = 0;
        for entry in snapshot.tables.values_mut().flatten() {
            let Some((bits, rows)) = self.bits.remove(&entry.file.path) else { continue };
            if rows < entry.rows {
                file.write_all(&bits)?;
            }
            let (bytes, sum) = (bits.len() as u64, crc32fast::hash(&bits));
            entry.deletions = Some(Deletions { file: Arc::clone(&stored), offset, bytes, rows, sum });
            offset += if rows < entry.rows { bytes } else { 0 };
        }
        file.sync_all()?;
        Ok(())
    }
}
