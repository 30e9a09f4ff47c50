//! Taking changes in: new rows become a segment, the rows they replace are marked deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, FixedSizeBinaryArray};

use super::change::{Changes, TableChange};
use super::files::{DeletionMarks, FileNames, finish};
use super::manifest::{SegmentEntry, Snapshot};
use super::{SnapshotError, merge, newest};
use crate::catalog::TableSpec;
use crate::cells::{self, Cell};
use crate::segment::{BATCH_ROWS_MAX, BATCH_TEXT_BYTES_MAX, Key, SegmentError, SegmentWriter, with_key};

/// Builds the snapshot after `changes`; nothing is visible until it is published.
pub(super) fn apply(
    names: &FileNames<'_>,
    old: &Snapshot,
    changes: &Changes,
) -> Result<Snapshot, SnapshotError> {
    // Durable: a manifest in a folder that a power loss forgets is lost too.
    disk::make_folder(names.folder)?;
    let derived = newest::derive(old, &changes.changes)?;
    let mut new = old.clone();
    let mut deleted = DeletionMarks::default();
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
    names: &FileNames<'_>,
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
