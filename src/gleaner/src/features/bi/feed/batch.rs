//! Change records into console rows.
//!
//! Records and rows are read in one transaction, so all rows of a batch are of one moment. A batch that reaches that
//! moment (`complete`) makes every organization's snapshot a state that the store has had; one that was cut, because
//! there was too much to hold at once, does not, and the feed says so until it has caught up.

use crate::features::{View, ViewRows};
use base::Result;
use base::ids::OrgId;
use ring::digest::{SHA256, digest};
use sql::{Cell, Key, TableChange, TableSpec};
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{OrgRead, SysRead};

/// Change records of one batch.
pub(super) const CHANGES_MAX: usize = 20_000;
/// What the rows of one batch may take, about, in bytes.
const ROWS_BYTES_MAX: usize = 64 << 20;
/// Bytes of a key that the log shows.
const SHOWN_KEY_BYTES: usize = 64;
/// What a cell takes beside its text, in bytes.
const CELL_BYTES: usize = 24;

/// What happened in one organization.
#[derive(Default)]
pub(super) struct OrgBatch {
    pub(super) committed_at_ms: i64,
    pub(super) changes: Vec<TableChange>,
}

/// Changes after some position.
pub(super) struct Batch {
    /// The position after the last of them.
    pub(super) end: u64,
    /// Nothing had been committed beyond `end` when the rows were read.
    pub(super) complete: bool,
    pub(super) orgs: BTreeMap<OrgId, OrgBatch>,
}

/// Turns stored rows into console rows.
pub(super) struct Reader<'a> {
    pub(super) views: &'a [&'static View],
    /// Counts the rows whose view failed.
    pub(super) quarantined: &'a AtomicU64,
}

/// Reads at most `changes_max` records after `after`: each row once, as it is now, however often it changed.
pub(super) fn read(tx: &SysRead<'_>, reader: &Reader<'_>, after: u64, changes_max: usize) -> Result<Batch> {
    let mut changes = tx.changes(after, changes_max + 1)?;
    let mut batch = Batch { end: after, complete: changes.len() <= changes_max, orgs: BTreeMap::new() };
    changes.truncate(changes_max);
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for (index, change) in changes.iter().enumerate() {
        batch.end = change.sequence;
        // Of an organization that is being erased there is nothing to show, and of a record that was blanked no table.
        if tx.is_fenced(change.org) || change.table.is_empty() {
            continue;
        }
        let org = batch.orgs.entry(change.org).or_default();
        org.committed_at_ms = org.committed_at_ms.max(change.at.millis());
        if seen.insert((change.org, change.table.as_str(), change.key.as_slice())) {
            bytes += reader.rows_of(&tx.org(change.org), &change.table, &change.key, &mut org.changes);
        }
        if bytes > ROWS_BYTES_MAX && index + 1 < changes.len() {
            batch.complete = false;
            break;
        }
    }
    Ok(batch)
}

impl Reader<'_> {
    /// Appends the console rows of one stored row, from every view of its table; gives their size in bytes, about.
    pub(super) fn rows_of(
        &self,
        tx: &OrgRead<'_>,
        source: &str,
        key: &[u8],
        into: &mut Vec<TableChange>,
    ) -> usize {
        let mut bytes = 0;
        for view in self.views.iter().filter(|view| view.source == source) {
            for ViewRows { table, mut rows } in self.viewed(view, tx, key) {
                rows.retain(|row| fits(&table, row));
                bytes += rows.iter().flatten().map(cell_bytes).sum::<usize>();
                into.push(TableChange { table, key: group_key(key), rows });
            }
        }
        bytes
    }

    /// What a view makes of a row. Where it fails, or panics, the row is left out of every table of the view, so that
    /// nothing old stands there for it; the next change of the row, or a rebuild, tries again.
    fn viewed(&self, view: &View, tx: &OrgRead<'_>, key: &[u8]) -> Vec<ViewRows> {
        let why = match catch_unwind(AssertUnwindSafe(|| (view.rows)(tx, key))) {
            Ok(Ok(rows)) => return rows,
            Ok(Err(error)) => error.for_operator(),
            Err(_) => "it panicked".to_owned(),
        };
        self.quarantined.fetch_add(1, Ordering::Relaxed);
        let shown: String = key.iter().take(SHOWN_KEY_BYTES).map(|byte| format!("{byte:02x}")).collect();
        tracing::error!(
            org = %tx.org_id(),
            table = view.source,
            key = shown,
            why,
            "a row could not be shown in the SQL tables and was left out"
        );
        (view.tables)()
            .into_iter()
            .map(|table| ViewRows { table: Arc::new(table), rows: Vec::new() })
            .collect()
    }
}

/// Whether a row has the shape of its table. One that has not is a defect of its view; it is left out and named in the
/// log, because one organization's odd row must not stop the feed of all.
fn fits(table: &TableSpec, row: &[Cell]) -> bool {
    let wrong = if row.len() == table.columns.len() {
        row.iter()
            .zip(&table.columns)
            .find(|(cell, column)| !cell.fits(column.kind))
            .map(|(_, column)| &*column.name)
    } else {
        Some("the number of cells")
    };
    if let Some(column) = wrong {
        tracing::error!(table = %table.name, column, "a row does not fit its console table and was left out");
    }
    wrong.is_none()
}

fn cell_bytes(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) => CELL_BYTES + text.len(),
        _ => CELL_BYTES,
    }
}

/// The key under which a row's console rows are grouped: ids as they are, any other key by its digest.
fn group_key(key: &[u8]) -> Key {
    key.try_into().unwrap_or_else(|_| {
        let mut group = Key::default();
        let length = group.len();
        group.copy_from_slice(&digest(&SHA256, key).as_ref()[..length]);
        group
    })
}
