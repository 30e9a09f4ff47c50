//! Every row at one moment, for a backup, without a read that lives long.
//!
//! A read transaction over the whole walk would make the file grow by all that is written meanwhile, and a slow target would
//! hold it for hours. So rows are read as for a rewriting ([`super::rewrite`]): the writer notes the keys it changes, all
//! rows are walked some megabytes at a time, each in a read transaction of its own, and the noted keys are read again, as
//! they are by then, until few are left. The last of them are read in one more transaction that is begun between two
//! commits: what was given up to there, in the order in which it was given, is the store at that commit. The writer waits
//! for nothing but the beginning of that transaction.

use super::META;
use super::engine::DatabaseHandle;
use super::raw::definition;
use super::rewrite::tables;
use super::tracker::NotedKeys;
use super::writer::Writer;
use base::{Error, Result};
use redb::{Database, ReadTransaction, ReadableDatabase, TableError};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows of one read transaction, bytes, and how long it may take.
const CHUNK_BYTES: usize = 4 << 20;
const CHUNK_MAX: Duration = Duration::from_millis(200);
/// The share of its time for which the walk rests, so that others get at the disk and the processor.
const REST_SHARE: f64 = 0.25;
/// Noted keys at which they are read again before more rows are.
const NOTED_MANY: usize = 50_000;
/// Noted keys at which the writer is faster than whoever takes the rows: it is given up.
const NOTED_MAX: usize = 500_000;
/// Noted keys that may be left for the last transaction.
const NOTED_FEW: usize = 2_000;
/// Rounds of noted keys before the last transaction begins anyway.
const ROUNDS_MAX: usize = 10;

/// Rows on their way out, later ones in the place of earlier ones with the same table and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedRows {
    pub table: &'static str,
    /// By their keys; none where the row is gone.
    pub rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What an export gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows and index entries of the walk.
    pub rows: u64,
    /// Keys that were read again because they had changed meanwhile.
    pub again: u64,
    /// How long the writer waited for the last moment.
    pub pause: Duration,
}

/// Takes rows; an error ends the export.
pub type TakeRows<'t> = &'t mut dyn FnMut(ExportedRows) -> Result<()>;

/// See [`super::Store::export`].
pub(super) fn run(
    handle: &Arc<DatabaseHandle>,
    writer: &Writer,
    stop: &dyn Fn() -> bool,
    take: TakeRows<'_>,
) -> Result<Exported> {
    writer.alone(|handle| handle.tracker.begin())?;
    let done = Walk { handle, stop, exported: Exported::default() }.run(writer, take);
    if done.is_err() {
        handle.tracker.end();
    }
    done
}

/// Every row of a file that nobody writes to.
pub(super) fn run_at_rest(
    handle: &DatabaseHandle,
    stop: &dyn Fn() -> bool,
    take: TakeRows<'_>,
) -> Result<Exported> {
    let mut walk = Walk { handle, stop, exported: Exported::default() };
    for table in tables(handle)? {
        let mut after = None;
        while let Some(last) = walk.some_rows(table, after.take(), take)? {
            after = Some(last);
        }
    }
    Ok(walk.exported)
}

struct Walk<'w> {
    handle: &'w DatabaseHandle,
    stop: &'w dyn Fn() -> bool,
    exported: Exported,
}

impl Walk<'_> {
    fn run(mut self, writer: &Writer, take: TakeRows<'_>) -> Result<Exported> {
        for table in tables(self.handle)? {
            let mut after = None;
            loop {
                after = self.some_rows(table, after.take(), take)?;
                if self.handle.tracker.count() >= NOTED_MANY {
                    self.noted(writer.alone(|handle| handle.tracker.take())?, take)?;
                }
                if after.is_none() {
                    break;
                }
            }
        }
        for _ in 0..ROUNDS_MAX {
            if self.handle.tracker.count() <= NOTED_FEW {
                break;
            }
            // Between two commits: a key is noted before its commit, and read in between it would be what it was.
            self.noted(writer.alone(|handle| handle.tracker.take())?, take)?;
        }
        let (last, pause) = writer.alone(|handle| {
            let begun = Instant::now();
            let noted = handle.tracker.end();
            let tx = begin(handle).map(|(database, tx)| (database, tx, noted));
            (tx, begun.elapsed())
        })?;
        self.exported.pause = pause;
        // The file stays open as long as it is read, also when another one takes its place.
        let (_database, tx, noted) = last?;
        self.exported.again += noted.len() as u64;
        give(&tx, noted, take)?;
        // What the writer says of each commit is noted by nobody: number, clock.
        give_table(&tx, META, take)?;
        Ok(self.exported)
    }

    fn check(&self) -> Result<()> {
        if (self.stop)() {
            return Err(Error::unavailable("the export of the store was stopped"));
        }
        if self.handle.tracker.count() > NOTED_MAX {
            return Err(Error::unavailable(
                "more is written at the moment than can be taken; try again later, or with a faster target",
            ));
        }
        Ok(())
    }

    /// Gives some rows of a table behind `after`; the last key, unless the table has ended.
    fn some_rows(
        &mut self,
        table: &'static str,
        after: Option<Vec<u8>>,
        take: TakeRows<'_>,
    ) -> Result<Option<Vec<u8>>> {
        self.check()?;
        let begun = Instant::now();
        let (rows, last) = chunk(self.handle, table, after.as_deref())?;
        self.exported.rows += rows.len() as u64;
        if !rows.is_empty() {
            take(ExportedRows { table, rows })?;
        }
        // Of a table with a few rows nobody has felt anything.
        if last.is_some() {
            std::thread::sleep(begun.elapsed().mul_f64(REST_SHARE));
        }
        Ok(last)
    }

    /// Gives changed keys as they are now, each some in a transaction of their own.
    fn noted(&mut self, noted: NotedKeys, take: TakeRows<'_>) -> Result<()> {
        self.check()?;
        self.exported.again += noted.len() as u64;
        let mut noted = noted.into_iter().peekable();
        while noted.peek().is_some() {
            let part: NotedKeys = noted.by_ref().take(NOTED_FEW).collect();
            let mut given = Vec::new();
            let (_database, tx) = begin(self.handle)?;
            give(&tx, part, &mut |rows| {
                given.push(rows);
                Ok(())
            })?;
            drop(tx);
            given.into_iter().try_for_each(&mut *take)?;
        }
        Ok(())
    }
}

/// Rows with their keys, and the last key unless the table has ended.
type Chunk = (Vec<(Vec<u8>, Option<Vec<u8>>)>, Option<Vec<u8>>);

fn begin(handle: &DatabaseHandle) -> Result<(Arc<Database>, ReadTransaction)> {
    let database = handle.database()?;
    let tx = database.begin_read().map_err(failed)?;
    Ok((database, tx))
}

/// What one read transaction may take.
fn chunk(handle: &DatabaseHandle, table: &'static str, after: Option<&[u8]>) -> Result<Chunk> {
    let (_database, tx) = begin(handle)?;
    let from = tx.open_table(definition(table)).map_err(failed)?;
    let low = after.map_or(Bound::Unbounded, Bound::Excluded);
    let begun = Instant::now();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for entry in from.range::<&[u8]>((low, Bound::Unbounded)).map_err(failed)? {
        let (key, value) = entry.map_err(failed)?;
        let (key, value) = (key.value(), value.value());
        bytes += key.len() + value.len();
        rows.push((key.to_vec(), Some(value.to_vec())));
        if bytes >= CHUNK_BYTES || begun.elapsed() >= CHUNK_MAX {
            return Ok((rows, Some(key.to_vec())));
        }
    }
    Ok((rows, None))
}

/// Gives these keys as the transaction has them, some megabytes at a time.
fn give(tx: &ReadTransaction, noted: NotedKeys, take: TakeRows<'_>) -> Result<()> {
    let mut noted = noted.into_iter().peekable();
    while let Some((table, _)) = noted.peek() {
        let table = *table;
        let from = match tx.open_table(definition(table)) {
            Ok(from) => Some(from),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(failed(error)),
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK_BYTES
            && let Some((_, key)) = noted.next_if(|(next, _)| *next == table)
        {
            let value = from.as_ref().map(|from| from.get(key.as_slice())).transpose().map_err(failed)?;
            let value = value.flatten().map(|value| value.value().to_vec());
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            rows.push((key, value));
        }
        take(ExportedRows { table, rows })?;
    }
    Ok(())
}

/// Gives a small table whole.
fn give_table(tx: &ReadTransaction, table: &'static str, take: TakeRows<'_>) -> Result<()> {
    let from = tx.open_table(definition(table)).map_err(failed)?;
    let mut rows = Vec::new();
    for entry in from.range::<&[u8]>(..).map_err(failed)? {
        let (key, value) = entry.map_err(failed)?;
        rows.push((key.value().to_vec(), Some(value.value().to_vec())));
    }
    take(ExportedRows { table, rows })
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("read the store for a backup", error)
}

#[cfg(test)]
mod tests;
