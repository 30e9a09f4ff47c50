//! The database handle behind which the file can be closed and opened while the appliance runs.

use super::known::Known;
use super::rewrite::{self, Tracker};
use super::view::ReadView;
use crate::base::{Error, Result};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadableDatabase, StorageBackend};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the bytes are.
pub(super) enum Source {
    File(PathBuf),
    /// Makes a backend anew at each opening: how tests put faults under the store.
    Backend(Box<dyn Fn() -> Box<dyn StorageBackend> + Send + Sync>),
}

/// How long a closing waits for reads that are still going on.
const READERS_WAIT: Duration = Duration::from_secs(2);

/// Snapshots kept for the next reads; more than read at once are not worth keeping.
const IDLE_VIEWS_MAX: usize = 16;

/// Snapshots of the newest commit that nobody reads at the moment.
///
/// Between two commits every snapshot is the same, and in a profile of point reads through HTTP opening tables was a tenth
/// of all (`perf record` of `cargo bench -- 'read/job'`). A commit ends them all, so none of them keeps pages from being used again for longer than a
/// fresh one would.
#[derive(Default)]
struct Idle {
    /// Counts commits, so that a snapshot from before one does not come back after it.
    commit: u64,
    /// Each with the file it is of, which must not be closed under it.
    views: Vec<(Arc<Database>, ReadView)>,
}

pub(super) struct Handle {
    source: Source,
    cache_bytes: usize,
    database: RwLock<Option<Arc<Database>>>,
    idle: Mutex<Idle>,
    /// Reads under way: when each began. A read that is held open makes the file grow.
    reads: Mutex<Vec<(u64, Instant)>>,
    next_read: AtomicU64,
    known: ArcSwap<Known>,
    pub(super) tracker: Arc<Tracker>,
}

impl Handle {
    pub(super) fn open(source: Source, cache_bytes: usize) -> Result<Handle> {
        let database = open_database(&source, cache_bytes)?;
        let handle = Handle {
            source,
            cache_bytes,
            database: RwLock::new(Some(Arc::new(database))),
            idle: Mutex::default(),
            reads: Mutex::default(),
            next_read: AtomicU64::default(),
            known: ArcSwap::default(),
            tracker: Arc::default(),
        };
        handle.known.store(Arc::new(handle.read(|view| Known::load(view))?));
        // The snapshot of that read was made without knowing what it then found.
        handle.committed();
        Ok(handle)
    }

    /// Removes what a crash has left beside the file: nobody else is at work on it now that it is open.
    pub(super) fn clear_up(&self) {
        if let Some(path) = self.path() {
            rewrite::discard_leftovers(path);
        }
    }

    /// The file, for a store that has one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Backend(_) => None,
        }
    }

    pub(super) fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    pub(super) fn known(&self) -> Arc<Known> {
        self.known.load_full()
    }

    /// Takes in what a commit has made true.
    pub(super) fn learn(&self, learned: Known) {
        if !learned.is_empty() {
            let mut known = Known::clone(&self.known());
            known.add(learned);
            self.known.store(Arc::new(known));
        }
    }

    /// Puts another open file into the place of this one; reads that go on keep the old one, which is given back.
    pub(super) fn replace(&self, database: Database) -> Option<Arc<Database>> {
        let replaced = self.database.write().replace(Arc::new(database));
        self.committed();
        replaced
    }

    pub(super) fn database(&self) -> Result<Arc<Database>> {
        self.database.read().clone().ok_or_else(|| Error::unavailable("the store is being opened again"))
    }

    /// Runs `run` on a snapshot.
    pub(super) fn read<T>(&self, run: impl FnOnce(&ReadView) -> Result<T>) -> Result<T> {
        // In this order: a snapshot of a file that is replaced meanwhile does not come back as one of the new file.
        let (commit, idle) = {
            let mut idle = self.idle.lock();
            (idle.commit, idle.views.pop())
        };
        let (database, view) = match idle {
            Some(kept) => kept,
            None => {
                let database = self.database()?;
                let tx = database.begin_read().map_err(|e| Error::internal("begin a read transaction", e))?;
                (database, ReadView::new(tx, self.known()))
            }
        };
        let id = self.next_read.fetch_add(1, Ordering::Relaxed);
        self.reads.lock().push((id, Instant::now()));
        let _ended = Ended { handle: self, id };
        let result = run(&view);
        let mut idle = self.idle.lock();
        if idle.commit == commit && idle.views.len() < IDLE_VIEWS_MAX {
            idle.views.push((database, view));
        }
        result
    }

    /// Ends the snapshots that are kept: there is a newer commit, and whoever made it is answered after this.
    pub(super) fn committed(&self) {
        let ended = {
            let mut idle = self.idle.lock();
            idle.commit += 1;
            std::mem::take(&mut idle.views)
        };
        drop(ended);
    }

    /// Walks all pages and compares checksums; whether they are whole. Nobody may read or write meanwhile.
    pub(super) fn check_pages(&self) -> Result<bool> {
        let mut place = self.database.write();
        self.committed();
        let database = place.as_mut().and_then(Arc::get_mut);
        let database = database.ok_or_else(|| Error::unavailable("the store is in use"))?;
        database.check_integrity().map_err(|e| Error::internal("check the store's pages", e))
    }

    /// Age of the oldest read that is still going on.
    pub(super) fn oldest_read(&self) -> Duration {
        self.reads.lock().iter().map(|(_, begun)| begun.elapsed()).max().unwrap_or_default()
    }

    /// Closes the file, whatever state it is in, and opens it again.
    pub(super) fn reopen(&self) -> Result<()> {
        let mut place = self.database.write();
        self.committed();
        if let Some(mut old) = place.take() {
            let deadline = Instant::now() + READERS_WAIT;
            loop {
                match Arc::try_unwrap(old) {
                    Ok(database) => {
                        drop(database);
                        break;
                    }
                    Err(shared) if Instant::now() < deadline => {
                        old = shared;
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Err(shared) => {
                        *place = Some(shared);
                        return Err(Error::unavailable("a read did not end in time"));
                    }
                }
            }
        }
        let database = open_database(&self.source, self.cache_bytes)?;
        // A commit whose last step failed may have reached the file: its fences hold before anybody reads.
        let tx = database.begin_read().map_err(|e| Error::internal("begin a read transaction", e))?;
        self.known.store(Arc::new(Known::load(&ReadView::new(tx, Arc::default()))?));
        *place = Some(Arc::new(database));
        Ok(())
    }

    /// Closes the file for good.
    pub(super) fn close(&self) {
        let mut place = self.database.write();
        self.committed();
        drop(place.take());
    }

    /// Size of the file in bytes; zero for a store that has none.
    pub(super) fn file_bytes(&self) -> u64 {
        self.path().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |meta| meta.len())
    }
}

struct Ended<'h> {
    handle: &'h Handle,
    id: u64,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut reads = self.handle.reads.lock();
        if let Some(at) = reads.iter().position(|(id, _)| *id == self.id) {
            reads.swap_remove(at);
        }
    }
}

/// Opens the file. redb can panic on one that was damaged by a disk which does not honour fsync.
pub(super) fn open_database(source: &Source, cache_bytes: usize) -> Result<Database> {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        match source {
            Source::File(path) => builder.create(path),
            Source::Backend(make) => builder.create_with_backend(Boxed(make())),
        }
    }));
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(redb::DatabaseError::DatabaseAlreadyOpen)) => {
            Err(Error::unavailable("another process has the data folder open"))
        }
        Ok(Err(error)) => Err(Error::internal("open the store", error)),
        Err(_) => Err(Error::internal("open the store", "the file is damaged; restore it from a backup")),
    }
}

/// redb takes its backend by value and by type.
#[derive(Debug)]
struct Boxed(Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }
}
