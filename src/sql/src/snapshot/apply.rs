//! Taking changes in: new rows become a segment, the rows they replace are marked deleted.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{ArrayRef, FixedSizeBinaryArray};

use super::manifest::{Deletions, SegmentEntry, Snapshot, StoredFile};
use super::{SnapshotError, merge, newest};
use crate::catalog::TableSpec;
use crate::cells::{self, Cell};
use crate::segment::{BATCH_ROWS_MAX, BATCH_TEXT_BYTES_MAX, Key, SegmentError, SegmentWriter, with_key};

/// Changes of one organization, in outbox order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The outbox position after the last of them.
    pub position: u64,
    /// When the last of them was committed, in milliseconds since 1970.
    pub committed_at_ms: i64,
    /// The changes; of two with the same table and key the later one counts.
    pub changes: Vec<TableChange>,
}

/// All rows of one key of one table, as they now are.
#[derive(Clone, Debug)]
pub struct TableChange {
    /// The table.
    pub table: Arc<TableSpec>,
    /// The key that groups the rows; time-ordered identifiers make applying cheap.
    pub key: Key,
    /// The rows, each with a cell per column of the table; none means that the key is gone.
    pub rows: Vec<Vec<Cell>>,
}

/// What became of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// They are visible and durable.
    Published,
    /// The snapshot already stands at or behind their position.
    Skipped,
}

/// Hands out file names that were never used in this folder, to the feed and to merges at once.
pub(super) struct Names<'a> {
    folder: &'a Path,
    next: &'a AtomicU64,
}

impl<'a> Names<'a> {
    pub(super) fn new(folder: &'a Path, next: &'a AtomicU64) -> Self {
        Self { folder, next }
    }

    pub(super) fn file(&self, prefix: char, extension: &str) -> Arc<StoredFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        StoredFile::unpublished(self.folder.join(format!("{prefix}{number:010}.{extension}")))
    }
}

/// Builds the snapshot after `changes`; nothing is visible until it is published.
pub(super) fn apply(names: &Names<'_>, old: &Snapshot, changes: &Changes) -> Result<Snapshot, SnapshotError> {
    // Durable: a manifest in a folder that a power loss forgets is lost too.
    disk::make_folder(names.folder)?;
    let derived = newest::derive(old, &changes.changes)?;
    let mut new = old.clone();
    let mut deleted = Deleted::default();
    let mut latest: BTreeMap<&str, BTreeMap<Key, &TableChange>> = BTreeMap::new();
    for change in changes.changes.iter().chain(&derived) {
        check_shape(change)?;
        latest.entry(change.table.name.as_str()).or_default().insert(change.key, change);
    }
    for (table, changed) in &latest {
        let entries = new.tables.entry((*table).to_owned()).or_default();
        let keys: Vec<Key> = changed.keys().copied().collect();
        deleted.mark(entries, &keys)?;
        // Rows that were written for another version of the table have other columns: a segment each.
        let mut versions: BTreeMap<u64, Vec<&TableChange>> = BTreeMap::new();
        for change in changed.values().filter(|change| !change.rows.is_empty()) {
            versions.entry(change.table.catalog_version).or_default().push(change);
        }
        for rows in versions.values() {
            entries.extend(write_rows(names, &rows[0].table, rows)?);
        }
    }
    deleted.store(names, &mut new)?;
    for table in latest.keys() {
        if let Some(entries) = new.tables.get_mut(*table) {
            entries.retain(|entry| entry.live_rows() > 0);
            merge::merge_overdue(names, entries)?;
        }
    }
    new.position = changes.position;
    new.committed_at_ms = new.committed_at_ms.max(changes.committed_at_ms);
    Ok(new)
}

fn check_shape(change: &TableChange) -> Result<(), SnapshotError> {
    let table = &change.table;
    let refuse = |column: String| Err(SnapshotError::Shape { table: table.name.to_string(), column });
    for row in &change.rows {
        if row.len() != table.columns.len() {
            return refuse(format!(
                "the number of cells ({} for {} columns)",
                row.len(),
                table.columns.len()
            ));
        }
        if let Some((_, column)) =
            row.iter().zip(&table.columns).find(|(cell, column)| !cell.fits(column.kind))
        {
            return refuse(column.name.clone());
        }
    }
    Ok(())
}

/// Writes the rows of changes that share a table version and come in key order.
fn write_rows(
    names: &Names<'_>,
    table: &TableSpec,
    changes: &[&TableChange],
) -> Result<Option<SegmentEntry>, SnapshotError> {
    let schema = with_key(table.schema().fields().iter().map(|field| field.as_ref().clone()));
    let file = names.file('s', "arrow");
    let mut writer = SegmentWriter::create(&file.path, &schema, Vec::new())?;
    let mut batch: Vec<(&Key, &[Cell])> = Vec::new();
    let mut text_bytes = 0;
    let mut flush = |batch: &mut Vec<(&Key, &[Cell])>| -> Result<(), SnapshotError> {
        if batch.is_empty() {
            return Ok(());
        }
        let keys = FixedSizeBinaryArray::try_from_iter(batch.iter().map(|(key, _)| key))
            .map_err(SegmentError::from)?;
        let mut columns: Vec<ArrayRef> = vec![Arc::new(keys)];
        for (index, spec) in table.columns.iter().enumerate() {
            columns.push(cells::column(spec, batch.iter().map(|(_, row)| &row[index])));
        }
        batch.clear();
        Ok(writer.write(columns)?)
    };
    for change in changes {
        for row in &change.rows {
            let row_text_bytes: usize = row.iter().map(Cell::text_bytes).sum();
            if batch.len() == BATCH_ROWS_MAX || text_bytes + row_text_bytes > BATCH_TEXT_BYTES_MAX {
                flush(&mut batch)?;
                text_bytes = 0;
            }
            text_bytes += row_text_bytes;
            batch.push((&change.key, row));
        }
    }
    flush(&mut batch)?;
    Ok(finish(file, writer)?)
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
pub(super) struct Deleted {
    bits: HashMap<std::path::PathBuf, (Vec<u8>, usize)>,
}

impl Deleted {
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
    pub(super) fn store(&mut self, names: &Names<'_>, snapshot: &mut Snapshot) -> Result<(), SegmentError> {
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
