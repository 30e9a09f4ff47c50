//! A store's file made of rows that were exported: what a restore writes.
//!
//! The file stands under another name until it is whole, and is given its own by [`Import::finish`], durably.

use super::META;
use super::engine::{Backing, open_database};
use super::known::interned;
use super::migrate;
use super::raw::definition;
use super::wipe::beside;
use super::writer::begin;
use base::{Error, Result};
use redb::{Database, ReadableDatabase, ReadableTable};
use std::path::{Path, PathBuf};

/// Page cache while rows come in.
const CACHE_BYTES: usize = 64 << 20;
/// Rows of one commit, bytes.
const COMMIT_BYTES: usize = 64 << 20;

/// How often this file was made of a backup.
const RESTORES: &[u8] = b"restores";

/// A file that is being made.
pub struct Import {
    database: Database,
    draft: PathBuf,
    path: PathBuf,
    waiting: Vec<ImportedRows>,
    waiting_bytes: usize,
    rows: u64,
}

/// Rows of one table, in the order in which they were exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedRows {
    pub table: String,
    pub rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Import {
    /// Begins a file that will stand at `path`, where there must be none.
    pub fn begin(path: &Path) -> Result<Import> {
        if path.exists() {
            return Err(Error::conflict(format!("{} is there already", path.display())));
        }
        let draft = beside(path, "first");
        disk::remove(&draft).map_err(|e| Error::internal("remove an unfinished store", e))?;
        let database = open_database(&Backing::File(draft.clone()), CACHE_BYTES, true)?;
        let path = path.to_owned();
        Ok(Import { database, draft, path, waiting: Vec::new(), waiting_bytes: 0, rows: 0 })
    }

    /// Puts rows in, in the order in which they were exported.
    pub fn put(&mut self, rows: ImportedRows) -> Result<()> {
        self.waiting_bytes += rows
            .rows
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len))
            .sum::<usize>();
        self.waiting.push(rows);
        if self.waiting_bytes >= COMMIT_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        let tx = self.database.begin_write().map_err(failed)?;
        for part in self.waiting.drain(..) {
            let mut table = tx.open_table(definition(interned(&part.table))).map_err(failed)?;
            for (key, value) in part.rows {
                match value {
                    Some(value) => {
                        self.rows += 1;
                        table.insert(key.as_slice(), value.as_slice()).map_err(failed)?;
                    }
                    None => drop(table.remove(key.as_slice()).map_err(failed)?),
                }
            }
        }
        self.waiting_bytes = 0;
        tx.commit().map_err(failed)
    }

    /// Makes the file whole and durable, and gives it its name. Gives how many rows were put in. Refuses one that a newer
    /// release has written.
    pub fn finish(mut self) -> Result<u64> {
        self.commit()?;
        let layout = {
            let tx = self.database.begin_read().map_err(failed)?;
            let meta = tx.open_table(definition(META)).map_err(failed)?;
            let row = meta.get(migrate::APPLIED).map_err(failed)?;
            migrate::number(row.as_ref().map(|row| row.value()))?
        };
        if layout > migrate::known() {
            return Err(Error::unavailable(format!(
                "the backup has layout {layout}, this release knows up to {}: it was made by a newer one",
                migrate::known()
            )));
        }
        // The last commit is one that opens fast after a crash.
        let tx = begin(&self.database)?;
        {
            let mut meta = tx.open_table(definition(META)).map_err(failed)?;
            let count = meta.get(RESTORES).map_err(failed)?.and_then(|row| row.value().try_into().ok());
            let count = count.map_or(0, u64::from_be_bytes) + 1;
            meta.insert(RESTORES, count.to_be_bytes().as_slice()).map_err(failed)?;
        }
        tx.commit().map_err(failed)?;
        let Import { database, draft, path, rows, .. } = self;
        drop(database);
        let named = disk::sync_file(&draft).and_then(|()| disk::rename(&draft, &path));
        named.map_err(|e| Error::internal("give the restored store its name", e))?;
        Ok(rows)
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("write the restored store", error)
}
