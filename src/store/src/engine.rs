//! The database handle behind which the file can be closed and opened while the appliance runs.

use super::health::{DAMAGED, ReadFailure, file_failed};
use super::known::{Registry, interned};
use super::raw::definition;
use super::tracker::Tracker;
use super::untouched::Untouched;
use super::view::{Batch, ReadView};
use super::wipe::{beside, discard_leftovers};
use arc_swap::ArcSwap;
use base::{Error, Result};
use parking_lot::{Mutex, RwLock};
use redb::{
    Database, ReadableDatabase, ReadableTableMetadata, StorageBackend, TableHandle, WriteTransaction,
};
use std::fs::{Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the bytes are.
pub(super) enum Backing {
    File(PathBuf),
    /// The same, read and never written.
    Untouched(PathBuf),
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
struct IdleSnapshots {
    /// Counts commits, so that a snapshot from before one does not come back after it.
    commit: u64,
    /// Each with the file it is of, which must not be closed under it.
    views: Vec<(Arc<Database>, ReadView)>,
}

pub(super) struct DatabaseHandle {
    source: Backing,
    cache_bytes: usize,
    database: RwLock<Option<Arc<Database>>>,
    /// The file that is open; none where there is none.
    opened: Mutex<Option<disk::Found>>,
    idle: Mutex<IdleSnapshots>,
    /// Reads under way: when each began. A read that is held open makes the file grow.
    reads: Mutex<Vec<(u64, Instant)>>,
    next_read: AtomicU64,
    known: ArcSwap<Registry>,
    pub(super) tracker: Arc<Tracker>,
    pub(super) trouble: Arc<ReadFailure>,
}

/// How long a start waits for a file that another process has open: a program that the killed box was about to start holds
/// its files until it has begun.
const TAKEN_WAIT: Duration = Duration::from_secs(3);

impl DatabaseHandle {
    pub(super) fn open(source: Backing, cache_bytes: usize) -> Result<DatabaseHandle> {
        let database = open_when_free(&source, cache_bytes)?;
        let opened = match &source {
            Backing::File(path) | Backing::Untouched(path) => Some(disk::Found::at(path).map_err(not_there)?),
            Backing::Backend(_) => None,
        };
        let handle = DatabaseHandle {
            opened: Mutex::new(opened),
            source,
            cache_bytes,
            database: RwLock::new(Some(Arc::new(database))),
            idle: Mutex::default(),
            reads: Mutex::default(),
            next_read: AtomicU64::default(),
            known: ArcSwap::default(),
            tracker: Arc::default(),
            trouble: Arc::default(),
        };
        handle.known.store(Arc::new(handle.read(|view| Registry::load(view))?));
        // The snapshot of that read was made without knowing what it then found.
        handle.committed();
        Ok(handle)
    }

    /// Removes what a crash has left beside the file: nobody else is at work on it now that it is open.
    pub(super) fn clear_up(&self) {
        if let Some(path) = self.path() {
            discard_leftovers(path);
        }
    }

    /// The file, for a store that has one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.source {
            Backing::File(path) | Backing::Untouched(path) => Some(path),
            Backing::Backend(_) => None,
        }
    }

    pub(super) fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    /// The operations of one commit, on its open transaction.
    pub(super) fn batch<'t>(&self, tx: &'t WriteTransaction, next_sequence: u64) -> Batch<'t> {
        Batch::new(tx, next_sequence, self.known(), self.tracker.clone(), self.trouble.clone())
    }

    pub(super) fn known(&self) -> Arc<Registry> {
        self.known.load_full()
    }

    /// Takes in what a commit has made true.
    pub(super) fn learn(&self, learned: Registry) {
        if !learned.is_empty() {
            let mut known = Registry::clone(&self.known());
            known.add(learned);
            known.opened.clear();
            self.known.store(Arc::new(known));
        }
    }

    /// That the file under its name is the one that is open: what is stored otherwise would not be there after the next
    /// start, nor what it names in the folders beside it. Asked where something is written, since the one that looks after
    /// the box comes by once a second.
    pub(super) fn check_place(&self) -> Result<()> {
        self.opened.lock().as_ref().map_or(Ok(()), disk::Found::check).map_err(not_there)
    }

    /// Puts another open file, which has taken the name, into the place of this one; reads that go on keep the old one, which
    /// is given back.
    pub(super) fn replace(&self, database: Database, opened: disk::Found) -> Option<Arc<Database>> {
        *self.opened.lock() = Some(opened);
        let replaced = self.database.write().replace(Arc::new(database));
        self.committed();
        replaced
    }

    /// Whether a read failed in a way that only opening the file again ends.
    pub(super) fn is_troubled(&self) -> bool {
        self.trouble.is_set()
    }

    pub(super) fn set_troubled(&self) {
        self.trouble.set();
    }

    fn troubled(&self, doing: &'static str, error: impl Into<redb::Error>) -> Error {
        let error = file_failed(doing, error);
        if error.code() == base::Code::ServiceUnavailable {
            self.trouble.set();
        }
        error
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
                let tx = database.begin_read().map_err(|e| self.troubled("begin a read transaction", e))?;
                (database, ReadView::new(tx, self.known(), self.trouble.clone()))
            }
        };
        let id = self.next_read.fetch_add(1, Ordering::Relaxed);
        self.reads.lock().push((id, Instant::now()));
        let _ended = ReadGuard { handle: self, id };
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

    /// Whether every table but these is empty.
    pub(super) fn is_blank(&self, own: &[&str]) -> Result<bool> {
        let failed = |doing| move |e: redb::Error| file_failed(doing, e);
        let tx = self.database()?.begin_read().map_err(|e| failed("begin a read transaction")(e.into()))?;
        let tables = tx.list_tables().map_err(|e| failed("list the tables")(e.into()))?;
        for table in tables.filter(|table| !own.contains(&table.name())) {
            let table = tx
                .open_table(definition(interned(table.name())))
                .map_err(|e| failed("open a table")(e.into()))?;
            if !table.is_empty().map_err(|e| failed("look into a table")(e.into()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many entries a table has.
    pub(super) fn entries(&self, table: &'static str) -> Result<u64> {
        let tx = self.database()?.begin_read().map_err(|e| self.troubled("begin a read transaction", e))?;
        match tx.open_table(definition(table)) {
            Ok(table) => table.len().map_err(|e| self.troubled("count a table", e)),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(0),
            Err(e) => Err(self.troubled("open a table", e)),
        }
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

    /// Closes the file, whatever state it is in, and opens it again. Not while another one, or none, stands under its name.
    pub(super) fn reopen(&self) -> Result<()> {
        self.check_place()?;
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
        let database = open_database(&self.source, self.cache_bytes, false)?;
        // It could be exchanged while nobody had it open.
        self.check_place()?;
        self.trouble.clear();
        // A commit whose last step failed may have reached the file: its fences hold before anybody reads.
        let tx = database.begin_read().map_err(|e| file_failed("begin a read transaction", e))?;
        let view = ReadView::new(tx, Arc::default(), self.trouble.clone());
        self.known.store(Arc::new(Registry::load(&view)?));
        drop(view);
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

struct ReadGuard<'h> {
    handle: &'h DatabaseHandle,
    id: u64,
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let mut reads = self.handle.reads.lock();
        if let Some(at) = reads.iter().position(|(id, _)| *id == self.id) {
            reads.swap_remove(at);
        }
    }
}

/// Opens the file, and waits a moment for one that another process is about to let go.
fn open_when_free(source: &Backing, cache_bytes: usize) -> Result<Database> {
    let deadline = Instant::now() + TAKEN_WAIT;
    loop {
        match open_database(source, cache_bytes, true) {
            Err(error) if is_taken(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            opened => return opened,
        }
    }
}

/// What a caller is told whose change would be stored where nobody will look for it.
pub(super) const FOLDER_GONE: &str =
    "the data folder was moved or unmounted; nothing can be written until it is back";

fn not_there(error: std::io::Error) -> Error {
    Error::unavailable(FOLDER_GONE).caused_by(error)
}

const TAKEN: &str = "another process has the data folder open";

fn is_taken(error: &Error) -> bool {
    error.detail().is_some_and(|detail| detail.starts_with(TAKEN))
}

/// Why a file could not be opened, for whoever starts the box or looks at its data: what is wrong, where, and what to do.
fn cannot_open(source: &Backing, error: redb::DatabaseError) -> Error {
    let file = match source {
        Backing::File(path) | Backing::Untouched(path) => format!("the store {}", path.display()),
        Backing::Backend(_) => "the store".to_owned(),
    };
    let error = match redb::Error::from(error) {
        redb::Error::DatabaseAlreadyOpen => {
            return Error::unavailable(format!(
                "{TAKEN}, with {file}. If that is the box, `gleaner admin status` asks it while it runs; else stop it first"
            ));
        }
        redb::Error::Io(error) => error,
        error @ (redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_)) => {
            return damaged(&error);
        }
        error => return file_failed("open the store", error),
    };
    match error.kind() {
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => damaged(&error),
        _ => Error::unavailable(format!("{file} cannot be opened: {error}")),
    }
}

/// Whoever reports it says which file, and what to do.
fn damaged(error: &dyn std::fmt::Display) -> Error {
    Error::internal("open the store", format!("it is not a Gleaner store, or it is damaged: {error}"))
}

/// Opens the file; with `create` makes one where there is none, whose name is durable then. redb can panic on one that was
/// damaged by a disk which does not honour fsync.
pub(super) fn open_database(source: &Backing, cache_bytes: usize, create: bool) -> Result<Database> {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        match source {
            Backing::File(path) => {
                let mut open = OpenOptions::new();
                let file =
                    open.read(true).write(true).create(create).truncate(false).mode(0o600).open(path)?;
                let opened = file.metadata()?;
                let database = builder.create_file(file)?;
                // The lock is the file's and not the name's: a box that was dying may have put another file under the name
                // between the opening and the lock, and this one is about to be removed.
                if !is_at(&opened, path) {
                    return Err(redb::DatabaseError::DatabaseAlreadyOpen);
                }
                if create {
                    disk::sync_name(path)?;
                }
                Ok(database)
            }
            Backing::Untouched(path) => {
                let file = OpenOptions::new().read(true).write(true).open(path)?;
                builder.create_with_backend(Untouched::over(file)?)
            }
            Backing::Backend(make) => builder.create_with_backend(BoxedBackend(make())),
        }
    }));
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(error)) => Err(cannot_open(source, error)),
        Err(_) => Err(Error::internal("open the store", DAMAGED)),
    }
}

/// Whether it is this file that stands under the name.
fn is_at(file: &Metadata, path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (file.dev(), file.ino()))
}

/// See [`super::Store::found`]. Made under another name, because a file that is torn while redb lays it out cannot be told
/// from one that was damaged later.
pub(super) fn found(path: &Path) -> Result<()> {
    let failed =
        |e: std::io::Error| Error::unavailable(format!("the store {} cannot be made: {e}", path.display()));
    let draft = beside(path, "first");
    disk::remove(&draft).map_err(failed)?;
    drop(open_database(&Backing::File(draft.clone()), FOUND_CACHE_BYTES, true)?);
    disk::sync_file(&draft).map_err(failed)?;
    disk::rename(&draft, path).map_err(failed)
}

/// Page cache of a file without rows.
const FOUND_CACHE_BYTES: usize = 1 << 20;

/// redb takes its backend by value and by type.
#[derive(Debug)]
struct BoxedBackend(Box<dyn StorageBackend>);

impl StorageBackend for BoxedBackend {
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
