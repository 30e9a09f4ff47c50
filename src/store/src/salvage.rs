//! A file with damaged pages, of which only such are damaged that hold what is made of rows.
//!
//! redb keeps a checksum of each page in the page above it, so what is whole can be proven: in memory, over the file as it is
//! (`untouched.rs`), every index and all counts are taken out, and redb checks what is left. Only where all of that is whole
//! are its rows copied into a new file, and the indexes made of them, before the new file takes the name. A file whose rows
//! are damaged is refused, and left as it is.

use super::check::AnyTable;
use super::counts;
use super::engine::{Backing, open_database};
use super::known::{FENCES, GLOBALS, interned};
use super::migrate::{self, MIGRATIONS};
use super::raw::definition;
use super::rewrite::has_room;
use super::wipe::beside;
use super::{META, Store};
use base::clock::Clock;
use base::{Error, Result};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableHandle};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Rows of one commit of the new file, bytes.
const COMMIT_BYTES: usize = 64 << 20;
/// What else the store itself keeps.
const OWN_TABLES: [&str; 12] = [
    META,
    FENCES,
    GLOBALS,
    "changes",
    "audit",
    "audit_heads",
    "audit.by_actor",
    "audit.by_resource",
    "audit_system",
    "audit_system_heads",
    "audit_system.by_actor",
    "audit_system.by_resource",
];

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Rows that were copied.
    pub rows: u64,
    /// Entries and counts that were made of them.
    pub derived: u64,
    /// Where the damaged file is kept.
    pub kept_as: PathBuf,
}

/// Makes the file at `path`, whose pages are damaged, anew from its rows, if those are whole: `tables` are all that there
/// are. An error says why not, and leaves the file as it was. No process may have it open.
pub fn salvage(
    path: &Path,
    tables: &[&dyn AnyTable],
    cache_bytes: usize,
    reserve_bytes: u64,
    clock: Clock,
) -> Result<Salvaged> {
    has_room(path, reserve_bytes)?;
    let proven = catch_unwind(AssertUnwindSafe(|| proven_rows(path, tables, cache_bytes)));
    let (from, names) = proven.unwrap_or_else(|_| Err(also_rows("its pages contradict each other")))?;
    let (new, aside) = (beside(path, "new"), beside(path, "damaged"));
    let failed = |e: std::io::Error| Error::unavailable(format!("the store cannot be made anew: {e}"));
    disk::remove(&new).map_err(failed)?;
    let made = make(&from, &names, &new, tables, cache_bytes, clock);
    drop(from);
    let (rows, derived) = match made {
        Ok(made) => made,
        Err(error) => {
            disk::remove(&new).map_err(failed)?;
            return Err(error);
        }
    };
    disk::rename(path, &aside).and_then(|()| disk::rename(&new, path)).map_err(failed)?;
    Ok(Salvaged { rows, derived, kept_as: aside })
}

fn also_rows(reason: impl std::fmt::Display) -> Error {
    Error::conflict(format!("rows are damaged too, not only what is made of them ({reason})"))
}

/// The file without what is made of rows, and the names of the tables that are left; an error where not all of that is whole.
fn proven_rows(
    path: &Path,
    tables: &[&dyn AnyTable],
    cache_bytes: usize,
) -> Result<(Database, Vec<&'static str>)> {
    let mut from = open_database(&Backing::Untouched(path.to_owned()), cache_bytes, false)?;
    let mut derived: HashSet<&'static str> = tables.iter().flat_map(|table| table.index_names()).collect();
    derived.insert(counts::TABLE);
    let known: HashSet<&str> = tables.iter().map(|table| table.name()).chain(OWN_TABLES).collect();
    let names = names(&from)?;
    let tx = from.begin_write().map_err(also_rows)?;
    for name in names.iter().filter(|name| derived.contains(*name)) {
        tx.delete_table(definition(name)).map_err(also_rows)?;
    }
    tx.commit().map_err(also_rows)?;
    // What was taken out is the only thing that differs: where that is not so, it is an error with two-phase commits.
    from.check_integrity().map_err(also_rows)?;
    let left: Vec<_> = names.into_iter().filter(|name| !derived.contains(name)).collect();
    let tx = from.begin_read().map_err(also_rows)?;
    for name in left.iter().filter(|name| !known.contains(*name)) {
        let table = tx.open_table(definition(name)).map_err(also_rows)?;
        // A damaged name makes a table of nobody's, and another one is missing.
        if !table.is_empty().map_err(also_rows)? {
            return Err(also_rows(format!(
                "a table has the name {name:?}, which this release does not know"
            )));
        }
    }
    drop(tx);
    Ok((from, left))
}

fn names(from: &Database) -> Result<Vec<&'static str>> {
    let tx = from.begin_read().map_err(also_rows)?;
    let listed = tx.list_tables().map_err(also_rows)?;
    Ok(listed.map(|table| interned(table.name())).collect())
}

/// Fills the new file, closes it, and gives its rows and what was made of them.
fn make(
    from: &Database,
    names: &[&'static str],
    new: &Path,
    tables: &[&dyn AnyTable],
    cache_bytes: usize,
    clock: Clock,
) -> Result<(u64, u64)> {
    let mut rows = 0;
    let to = open_database(&Backing::File(new.to_owned()), cache_bytes, true)?;
    for name in names {
        rows += copy(from, &to, name)?;
    }
    drop(to);
    let layout = {
        let store = super::Inspection::open(new, cache_bytes)?;
        store.layout()?.0
    };
    if layout as usize != MIGRATIONS.len() {
        let known = migrate::known();
        return Err(Error::unavailable(format!(
            "the folder has layout {layout}, and only one of {known} is made anew: use the release that wrote it"
        )));
    }
    let store = Store::open(new, cache_bytes, clock)?;
    let derived = store.mend(tables);
    store.close();
    let derived = derived?;
    disk::sync_file(new).map_err(|e| Error::unavailable(format!("the new file cannot be synced: {e}")))?;
    Ok((rows, derived))
}

/// Copies a table; every row is there once and in order, as many as the table says.
fn copy(from: &Database, to: &Database, name: &'static str) -> Result<u64> {
    let failed = |e: redb::Error| Error::unavailable(format!("the store cannot be made anew: {e}"));
    let read = from.begin_read().map_err(also_rows)?;
    let table = read.open_table(definition(name)).map_err(also_rows)?;
    let (due, mut rows, mut last) = (table.len().map_err(also_rows)?, 0, None::<Vec<u8>>);
    let mut all = table.iter().map_err(also_rows)?;
    loop {
        let tx = super::writer::begin(to)?;
        let mut into = tx.open_table(definition(name)).map_err(|e| failed(e.into()))?;
        let (mut bytes, mut is_over) = (0, true);
        for entry in all.by_ref() {
            let (key, value) = entry.map_err(also_rows)?;
            let (key, value) = (key.value(), value.value());
            if last.as_deref().is_some_and(|last| key <= last) {
                return Err(also_rows(format!("the keys of {name} are out of order")));
            }
            last = Some(key.to_vec());
            into.insert(key, value).map_err(|e| failed(e.into()))?;
            rows += 1;
            bytes += key.len() + value.len();
            if bytes >= COMMIT_BYTES {
                is_over = false;
                break;
            }
        }
        drop(into);
        tx.commit().map_err(|e| failed(e.into()))?;
        if is_over {
            break;
        }
    }
    if rows != due {
        return Err(also_rows(format!("{name} has {rows} rows and says that it has {due}")));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
