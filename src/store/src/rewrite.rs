//! The file written anew, so that what was deleted is in no file any more.
//!
//! redb frees pages and keeps their bytes, in the file and in the slack of pages that live on (it copies a page whole to
//! change one row of it), and its own `compact` moves pages without wiping the rest. The only file that surely holds
//! nothing but the rows is one into which nothing else was ever written. So:
//! 1. the writer begins to note the keys it changes; from then on the rows are copied into `<file>.new`, some megabytes
//!    at a time, each in a read transaction of its own, while reads and writes go on;
//! 2. the noted keys are copied again, as they are by then, until few are left;
//! 3. between two commits of the writer the last ones are copied, `<file>.new` is committed and takes the file's name,
//!    and the store goes on with it: writes wait for some milliseconds, reads for none;
//! 4. the old file, kept as `<file>.old` meanwhile, is overwritten and removed when the last read of it has ended.
//!
//! A crash leaves the old file or the new one under the name, each whole: nothing is written between the last copy and
//! the renaming. What it leaves beside is cleared up at the next opening. Overwriting is a best effort (a disk that
//! writes elsewhere keeps the old blocks until it uses them again); that the folder holds no byte of it is not. A copy
//! that the disk has no room for is not begun.

use super::META;
use super::engine::{Backing, DatabaseHandle, open_database};
use super::known::{FENCES, interned};
use super::raw::definition;
use super::tracker::NotedKeys;
use super::wipe::{allocated_bytes, beside, discard, discard_leftovers, free_bytes_beside};
use super::writer::{Writer, begin};
use base::ids::OrgId;
use base::{Error, Result};
use disk::{remove, sync_name};
use memchr::memmem::Finder;
use redb::{Database, ReadableDatabase, ReadableTable, TableError, TableHandle};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows copied in one read transaction, bytes.
const CHUNK_BYTES: usize = 4 << 20;
/// How long such a transaction may take.
const CHUNK_MAX: Duration = Duration::from_millis(200);
/// Rows of one commit of the new file, bytes.
const COMMIT_BYTES: usize = 64 << 20;
/// The share of its time for which copying rests, so that others get at the disk.
const REST_SHARE: f64 = 0.25;
/// Page cache of the new file while it is filled.
const FILL_CACHE_BYTES: usize = 32 << 20;
/// Noted keys at which they are copied before more rows are.
const NOTED_MANY: usize = 50_000;
/// Noted keys at which the writer is faster than copying: it is given up.
const NOTED_MAX: usize = 500_000;
/// Noted keys that may be left for the moment in which writes wait.
const NOTED_FEW: usize = 500;
/// Rounds of copying noted keys before that moment comes anyway.
const ROUNDS_MAX: usize = 10;
/// How long reads of the old file are waited for.
const READERS_WAIT: Duration = Duration::from_secs(30);

/// How often the file was written anew.
const REWRITES: &[u8] = b"rewrites";

/// What writing the file anew did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Rows and index entries.
    pub rows: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    /// How long writes waited.
    pub pause: Duration,
    /// Tables with rows that still name what was looked for, and how many; without the fences, which must.
    pub naming: Vec<(String, u64)>,
}

/// Writes the file anew; see [`super::Store::rewrite`].
pub(super) fn run(
    handle: &Arc<DatabaseHandle>,
    writer: &Writer,
    looked_for: &[OrgId],
    limits: &RewriteLimits<'_>,
) -> Result<Rewritten> {
    let Some(path) = handle.path() else {
        return Err(Error::unavailable("this store has no file that could be written anew"));
    };
    handle.check_place()?;
    let bytes_before = handle.file_bytes();
    let (new, old) = (beside(path, "new"), beside(path, "old"));
    has_room(path, limits.reserve_bytes)?;
    discard_leftovers(path);
    let done = RewriteRun { handle, writer, path, new: &new, old: &old, limits }.run(looked_for);
    if done.is_err() {
        handle.tracker.end();
        // As it is: it holds what the store holds, and a disk that is full gets its room back at once.
        if let Err(error) = remove(&new) {
            tracing::warn!(%error, "an unfinished copy of the store could not be removed");
        }
    }
    Ok(Rewritten { bytes_before, bytes_after: handle.file_bytes(), ..done? })
}

/// What ends a rewriting early.
pub(super) struct RewriteLimits<'l> {
    /// The box drains.
    pub stop: &'l dyn Fn() -> bool,
    /// Writes are refused for want of room.
    pub full: &'l dyn Fn() -> bool,
    /// What must stay free on the disk.
    pub reserve_bytes: u64,
}

/// Refuses to begin a copy that would not fit: it would take the reserve, and every write of everybody be refused until it
/// gives up.
pub(super) fn has_room(path: &Path, reserve_bytes: u64) -> Result<()> {
    let failed = |error| Error::internal("look at the disk's room", error);
    let (taken, free) = (allocated_bytes(path).map_err(failed)?, free_bytes_beside(path).map_err(failed)?);
    // A quarter more: rows arrive while it is copied, and the new file grows in steps.
    let need = (taken / 4 * 5).saturating_add(reserve_bytes);
    if free >= need {
        return Ok(());
    }
    Err(Error::unavailable(format!(
        "the store is written anew as soon as the disk has room for a second copy: {} MiB are free and {} MiB needed, the reserve included",
        free >> 20,
        need >> 20
    )))
}

struct RewriteRun<'c> {
    handle: &'c Arc<DatabaseHandle>,
    writer: &'c Writer,
    path: &'c Path,
    new: &'c Path,
    old: &'c Path,
    limits: &'c RewriteLimits<'c>,
}

impl RewriteRun<'_> {
    fn run(&self, looked_for: &[OrgId]) -> Result<Rewritten> {
        // Alone: whatever was decided before is committed when noting begins, so that the copy sees it.
        self.writer.alone(|handle| handle.tracker.begin())?;
        // Into what a copy that was cut off has left nothing may be written: it may hold what has been erased since.
        remove(self.new).map_err(failed)?;
        let to = open_database(&Backing::File(self.new.to_owned()), FILL_CACHE_BYTES, true)?;
        let mut copy = Copy::new(self, &to, looked_for);
        copy.all_rows()?;
        for _ in 0..ROUNDS_MAX {
            if self.handle.tracker.count() <= NOTED_FEW {
                break;
            }
            copy.noted(self.take_noted()?)?;
        }
        let (rows, naming) = (copy.rows, copy.naming());
        // Closed and opened: the page cache of the new file is the store's from now on.
        drop(to);
        let to = open_database(&Backing::File(self.new.to_owned()), self.handle.cache_bytes(), false)?;
        let pause = self.take_its_place(to)?;
        Ok(Rewritten { rows, naming, pause, ..Rewritten::default() })
    }

    /// The keys noted so far, taken between two commits: a key is noted before its commit, and whoever read it in between
    /// would copy what it was and never hear of it again.
    fn take_noted(&self) -> Result<NotedKeys> {
        self.writer.alone(|handle| handle.tracker.take())
    }

    /// Steps 3 and 4; gives how long writes waited.
    fn take_its_place(&self, to: Database) -> Result<Duration> {
        let (path, new, old) = (self.path.to_owned(), self.new.to_owned(), self.old.to_owned());
        let (replaced, pause) = self.writer.alone(move |handle| {
            let begun = Instant::now();
            let noted = handle.tracker.end();
            let replaced = finish(handle, &to, noted).and_then(|()| {
                // What stands under the name is replaced: it has to be this store's.
                handle.check_place()?;
                let opened = disk::Found::at(&new).map_err(|e| Error::internal("find the new file", e))?;
                // Without a second name the old file just goes with its last reader.
                if let Err(error) = fs::hard_link(&path, &old) {
                    tracing::warn!(%error, "the old file of the store cannot be overwritten, only removed");
                }
                fs::rename(&new, &path).map_err(|e| Error::internal("rename the new file", e))?;
                // The name counts from here on, whatever else fails.
                Ok((handle.replace(to, opened.named(&path)), sync_name(&path)))
            });
            (replaced, begun.elapsed())
        })?;
        let (replaced, named) = replaced?;
        // A power cut could bring the old file back under the name: it must be whole then.
        if let Err(error) = named.or_else(|_| sync_name(self.path)) {
            tracing::error!(%error, "the new name of the store's file could not be made durable; the old file stays");
        } else if let Some(replaced) = replaced {
            let released = release(replaced, self.limits.stop);
            let wiped = if released { discard(self.old, self.limits.stop) } else { remove(self.old) };
            if let Err(error) = wiped {
                tracing::error!(%error, "the store's old file could not be removed; the next start tries it again");
            }
        }
        Ok(pause)
    }
}

/// Waits until nobody reads the old file any more and closes it; whether that came to pass.
fn release(mut database: Arc<Database>, stop: &dyn Fn() -> bool) -> bool {
    let deadline = Instant::now() + READERS_WAIT;
    loop {
        match Arc::try_unwrap(database) {
            Ok(database) => {
                drop(database);
                return true;
            }
            Err(shared) if Instant::now() < deadline && !stop() => {
                database = shared;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(_) => {
                tracing::warn!("a read of the store's old file did not end; the file is removed as it is");
                return false;
            }
        }
    }
}

/// Rows on their way into the new file.
struct Copy<'c> {
    copying: &'c RewriteRun<'c>,
    to: &'c Database,
    needles: Vec<Finder<'static>>,
    rows: u64,
    naming: BTreeMap<&'static str, u64>,
}

impl<'c> Copy<'c> {
    fn new(copying: &'c RewriteRun<'c>, to: &'c Database, looked_for: &[OrgId]) -> Copy<'c> {
        let forms = |org: &OrgId| {
            [Finder::new(org.0.as_bytes()).into_owned(), Finder::new(&org.to_string()).into_owned()]
        };
        let needles = looked_for.iter().flat_map(forms).collect();
        Copy { copying, to, needles, rows: 0, naming: BTreeMap::new() }
    }

    fn naming(&self) -> Vec<(String, u64)> {
        self.naming.iter().map(|(table, count)| ((*table).to_owned(), *count)).collect()
    }

    fn check(&self) -> Result<()> {
        let RewriteLimits { stop, full, .. } = self.copying.limits;
        if stop() || full() {
            return Err(Error::unavailable(
                "the box drains, or its disk is full; the store is written anew later",
            ));
        }
        if self.copying.handle.tracker.count() > NOTED_MAX {
            return Err(Error::unavailable(
                "too much is written at the moment; the store is written anew later",
            ));
        }
        Ok(())
    }

    fn all_rows(&mut self) -> Result<()> {
        for table in tables(self.copying.handle)? {
            let mut after: Option<Vec<u8>> = None;
            loop {
                after = self.some_rows(table, after)?;
                if self.copying.handle.tracker.count() >= NOTED_MANY {
                    let noted = self.copying.take_noted()?;
                    self.noted(noted)?;
                }
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Copies rows of one table behind `after` in one commit; the last key unless it came to the end.
    fn some_rows(&mut self, table: &'static str, after: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let tx = self.to.begin_write().map_err(failed)?;
        let mut after = after;
        {
            let mut into = tx.open_table(definition(table)).map_err(failed)?;
            let mut written = 0;
            while written < COMMIT_BYTES {
                self.check()?;
                let begun = Instant::now();
                let chunk = self.chunk(table, after.as_deref(), &mut into)?;
                written += chunk.bytes;
                after = chunk.last;
                if after.is_none() {
                    break;
                }
                std::thread::sleep(begun.elapsed().mul_f64(REST_SHARE));
            }
        }
        tx.commit().map_err(failed)?;
        Ok(after)
    }

    /// Copies what one read transaction may take.
    fn chunk(
        &mut self,
        table: &'static str,
        after: Option<&[u8]>,
        into: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    ) -> Result<CopiedChunk> {
        let database = self.copying.handle.database()?;
        let tx = database.begin_read().map_err(failed)?;
        let from = tx.open_table(definition(table)).map_err(failed)?;
        let low = after.map_or(Bound::Unbounded, Bound::Excluded);
        let begun = Instant::now();
        let mut chunk = CopiedChunk::default();
        for entry in from.range::<&[u8]>((low, Bound::Unbounded)).map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            let (key, value) = (key.value(), value.value());
            self.look(table, key, value);
            into.insert(key, value).map_err(failed)?;
            self.rows += 1;
            chunk.bytes += key.len() + value.len();
            if chunk.bytes >= CHUNK_BYTES || begun.elapsed() >= CHUNK_MAX {
                chunk.last = Some(key.to_vec());
                break;
            }
        }
        Ok(chunk)
    }

    fn look(&mut self, table: &'static str, key: &[u8], value: &[u8]) {
        let names = |needle: &Finder<'_>| needle.find(key).is_some() || needle.find(value).is_some();
        if table != FENCES && self.needles.iter().any(names) {
            *self.naming.entry(table).or_default() += 1;
        }
    }

    /// Copies changed keys as they are now.
    fn noted(&mut self, noted: NotedKeys) -> Result<()> {
        self.check()?;
        for (table, key) in &noted {
            self.look(table, key, &[]);
        }
        let tx = self.to.begin_write().map_err(failed)?;
        copy_keys(self.copying.handle, &tx, noted)?;
        tx.commit().map_err(failed)
    }
}

#[derive(Default)]
struct CopiedChunk {
    bytes: usize,
    /// The last key, unless the table has ended.
    last: Option<Vec<u8>>,
}

/// Brings the last keys over and makes the new file whole and durable.
fn finish(handle: &DatabaseHandle, to: &Database, noted: NotedKeys) -> Result<()> {
    let tx = begin(to)?;
    copy_keys(handle, &tx, noted)?;
    {
        // Something must be written for the commit to be one that opens fast after a crash.
        let mut meta = tx.open_table(definition(META)).map_err(failed)?;
        let count = meta.get(REWRITES).map_err(failed)?.and_then(|row| row.value().try_into().ok());
        let count = count.map_or(0, u64::from_be_bytes) + 1;
        meta.insert(REWRITES, count.to_be_bytes().as_slice()).map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

fn copy_keys(handle: &DatabaseHandle, to: &redb::WriteTransaction, noted: NotedKeys) -> Result<()> {
    let database = handle.database()?;
    let mut noted = noted.into_iter().peekable();
    while let Some((table, _)) = noted.peek() {
        let table = *table;
        let tx = database.begin_read().map_err(failed)?;
        let from = match tx.open_table(definition(table)) {
            Ok(from) => Some(from),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(e) => return Err(failed(e)),
        };
        let mut into = to.open_table(definition(table)).map_err(failed)?;
        let begun = Instant::now();
        while let Some((_, key)) = noted.next_if(|(next, _)| *next == table && begun.elapsed() < CHUNK_MAX) {
            let value = from.as_ref().map(|from| from.get(key.as_slice())).transpose().map_err(failed)?;
            match value.flatten() {
                Some(value) => drop(into.insert(key.as_slice(), value.value()).map_err(failed)?),
                None => drop(into.remove(key.as_slice()).map_err(failed)?),
            }
        }
    }
    Ok(())
}

/// The names of all tables of the file.
pub(super) fn tables(handle: &DatabaseHandle) -> Result<Vec<&'static str>> {
    let tx = handle.database()?.begin_read().map_err(failed)?;
    let listed = tx.list_tables().map_err(failed)?;
    Ok(listed.map(|table| interned(table.name())).collect())
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("write the store anew", error)
}

#[cfg(test)]
mod tests;
