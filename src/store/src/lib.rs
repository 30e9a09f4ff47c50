//! The store: redb behind organizations, a writer thread, indexes, and the outbox.
//!
//! Invariants:
//! - redb is named in this folder only; its handle never leaves it.
//! - A row of an organization is reached through [`OrgStore`], which is minted from a [`Principal`] or by the
//!   supervisor through [`System::org`]. `System` is held by auth, by the supervisor and, for reading platform
//!   schemas, by extraction.
//! - A transaction never awaits: reads and writes are closures. What must hold together is written by one closure.
//! - Nobody is answered before the commit that makes the answer true.
//! - No read lives longer than its closure. Long walks go page by page, each in a transaction of its own.
//! - An organization behind a fence shows no rows and takes none, whoever still holds a way to it.

mod after;
mod audit;
mod bells;
mod changes;
mod check;
mod counts;
mod engine;
mod entries;
mod erase;
mod event;
mod export;
pub mod fault;
mod health;
mod import;
mod index_key;
mod inspect;
mod key;
mod known;
mod measure;
mod mend;
mod migrate;
mod origin;
mod paging;
mod passed;
mod principal;
mod quota;
mod raw;
mod readable;
mod refusals;
mod returning;
mod rewrite;
mod salvage;
mod scope;
mod shared;
mod table;
mod tracker;
mod tx;
mod untouched;
mod usage;
mod view;
mod wipe;
mod writer;

pub use after::Committed;
pub use audit::{AuditEntry, AuditFilter, ChainReport, CheckSeal, ErasedParts};
pub use bells::Bell;
pub use changes::Change;
pub use check::{AnyTable, TableFinding, TableReport};
pub use counts::{Fix, Growth, PendingGrowth, Used};
pub use entries::{Entry, GlobalEntry, IndexStep};
pub use erase::ErasedRows;
pub use event::{Detail, Event};
pub use export::{Exported, ExportedRows, TakeRows};
pub use health::WriterHealth;
pub use import::{Import, ImportedRows};
pub use index_key::{IndexKey, IndexKeys, NoPart, Prefix, Seek};
pub use inspect::Inspection;
pub use key::{AsPart, Key, KeyPart, LastText, Name};
pub use measure::rows_written_per_second;
pub use migrate::{MIGRATIONS, Migration};
pub use origin::{Actor, Origin};
pub use passed::{is_unreadable, pass_over, passed_over, readable};
pub use principal::{AuthMethod, Identity, Principal};
pub use readable::Readable;
pub use returning::{AUDIT_TABLES, BackupRow, Brought, META_TABLE, backup_layout, is_own_book};
pub use rewrite::Rewritten;
pub use salvage::{Salvaged, salvage};
pub use scope::{OrgScope, SystemScope};
pub use shared::SealCheck;
pub use table::{Index, OrgTable, SysTable, Table};
pub use tx::{Order, OrgRead, OrgWrite, SysRead, SysWrite};
pub use usage::QuotaCheck;
pub use writer::WriterStats;

use base::clock::{Clock, Now};
use base::ids::OrgId;
use base::limits::READ_TX_MS_MAX;
use base::trace::{self, SpanKind};
use base::{Code, Error, Result};
use engine::{Backing, DatabaseHandle};
use parking_lot::Mutex;
use raw::View;
use redb::StorageBackend;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use uuid::Uuid;
use view::WriteView;
use writer::{Writer, writer_gone};

/// The store's own table: the layout's version, the outbox's bookkeeping.
const META: &str = "meta";

/// The open store; clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Arc<DatabaseHandle>,
    writer: Writer,
    id: Uuid,
    clock: Clock,
    /// Held while the file is written anew.
    rewriting: Mutex<()>,
    reserve_bytes: AtomicU64,
    audit: Arc<shared::AuditShared>,
    room: Arc<quota::QuotaHook>,
    bells: Arc<bells::Bells>,
}

/// The page cache of a store over a backend of the caller's.
const BACKEND_CACHE_BYTES: usize = 16 << 20;

impl Store {
    /// Opens or creates the file and brings its layout up to date. Fails when another process has it open, when it
    /// is damaged, and when a newer release has written it.
    ///
    /// `cache_bytes` is how large the page cache may grow; it fills as the file does and then stays.
    pub fn open(path: &Path, cache_bytes: usize, clock: Clock) -> Result<Store> {
        let source = Backing::File(path.to_owned());
        // What was torn can make redb panic anywhere on the way.
        let opened = catch_unwind(AssertUnwindSafe(|| Store::start(source, cache_bytes, clock, MIGRATIONS)));
        let damaged = match opened {
            Ok(Err(error)) if error.code() == Code::InternalError => error.for_operator(),
            Ok(opened) => return opened,
            Err(panic) => writer::panic_text(&*panic),
        };
        Err(Error::unavailable(format!(
            "the store {} is damaged. Keep a copy of the data folder as it is, then restore a backup; `gleaner doctor` \
             says more of what is wrong. A copy that was made while the box ran is no backup. ({damaged})",
            path.display()
        )))
    }

    /// Tells this store from every other, also from the one that stood under the same name before: what is made of a
    /// store (index, snapshots) carries it. It is as old as the file, or as the first release that gave one.
    pub fn id(&self) -> Uuid {
        self.inner.id
    }

    /// Whether nobody has written a row yet, the box itself included.
    pub fn is_blank(&self) -> Result<bool> {
        self.inner.handle.is_blank(&[META, known::FENCES, known::GLOBALS])
    }

    /// How writing goes.
    pub fn writer(&self) -> &WriterHealth {
        &self.inner.writer.health
    }

    /// How many rows a table, or entries an index, has; without a walk. None of an unknown name.
    pub fn entries(&self, table: &'static str) -> Result<u64> {
        self.inner.handle.entries(table)
    }

    /// Makes the file of a new box at `path`, whole or not at all, and its name durable. What stands there must have been
    /// found to be nothing worth keeping.
    pub fn found(path: &Path) -> Result<()> {
        engine::found(path)
    }

    /// Writes and commits something, to find out whether writing works again.
    pub async fn probe(&self) -> Result<()> {
        let written = self.inner.writer.submit(|view, now| {
            view.set(META, b"probe".to_vec(), Some(now.date.0.to_be_bytes().to_vec()));
            Ok(())
        })?;
        written.await.map_err(writer_gone)?
    }

    /// A store over a backend of the caller's; how tests put faults under it. `make` is called at each opening.
    pub fn open_backend(
        make: impl Fn() -> Box<dyn StorageBackend> + Send + Sync + 'static,
        clock: Clock,
        migrations: &'static [Migration],
    ) -> Result<Store> {
        Store::start(Backing::Backend(Box::new(make)), BACKEND_CACHE_BYTES, clock, migrations)
    }

    fn start(
        source: Backing,
        cache_bytes: usize,
        clock: Clock,
        migrations: &'static [Migration],
    ) -> Result<Store> {
        let handle = Arc::new(DatabaseHandle::open(source, cache_bytes)?);
        handle.clear_up();
        handle.read(|view| writer::resume_clock(view, &clock))?;
        migrate::run(&handle, &clock, migrations)?;
        let id = identity(&handle)?;
        let writer = Writer::start(handle.clone(), clock.clone())?;
        Ok(Store {
            inner: Arc::new(Inner {
                handle,
                writer,
                id,
                clock,
                rewriting: Mutex::default(),
                reserve_bytes: AtomicU64::default(),
                audit: Arc::default(),
                room: Arc::default(),
                bells: Arc::default(),
            }),
        })
    }

    /// The rows of the caller's organization; `org_not_found` for a caller without one.
    pub fn org(&self, principal: &Principal) -> Result<OrgStore> {
        let org = principal.org.ok_or_else(|| Error::new(Code::OrgNotFound))?;
        Ok(OrgStore { store: self.clone(), org })
    }

    /// The rows without an organization, and the way into each organization for background work.
    pub fn system(&self) -> System {
        System { store: self.clone() }
    }

    /// What seals the ends of audit chains from now on, with a key that is not in the data folder, and what says of the second
    /// bytes whether they are such a seal of the first; said once, before anything is written.
    pub fn seal_audit(
        &self,
        make: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
        check: impl Fn(&[u8], &[u8]) -> SealCheck + Send + Sync + 'static,
    ) {
        self.inner.audit.seal_with(make, check);
    }

    /// Who says whether an organization has room for what a request adds; said once, before anything is served.
    pub fn limit_room(&self, room: Box<QuotaCheck>) {
        self.inner.room.set(usage::within_operations(room));
    }

    /// The number of the newest committed change record, to wait on.
    pub fn sequence(&self) -> watch::Receiver<u64> {
        self.inner.writer.sequence.clone()
    }

    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub fn stats(&self) -> &WriterStats {
        &self.inner.writer.stats
    }

    /// Age of the oldest read still going on; a read held open makes the file grow.
    pub fn oldest_read(&self) -> Duration {
        self.inner.handle.oldest_read()
    }

    /// Size of the store's file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.inner.handle.file_bytes()
    }

    /// Refuses writes (503) while the disk has less room than its reserve.
    pub fn set_disk_full(&self, full: bool) {
        if self.inner.writer.disk_full.swap(full, Ordering::Relaxed) != full {
            tracing::warn!(full, "the disk's reserve of free space");
        }
    }

    /// Refuses writes (503), also those that free room, while the folder of the data is not the one any more that was
    /// opened: what would be written would not be there after the next start.
    pub fn set_folder_gone(&self, gone: bool) {
        if self.inner.writer.folder_gone.swap(gone, Ordering::Relaxed) != gone {
            tracing::error!(gone, "the data folder under its name");
        }
    }

    /// That the store's file stands where it was opened, so that what is named beside it goes where it will be looked for.
    /// Asked before files are removed or made of which rows tell: where a folder is missing, so is nothing of an
    /// organization's. 503 while it does not.
    pub fn check_place(&self) -> Result<()> {
        self.inner.handle.check_place()
    }

    /// What the store leaves free on its disk when it needs room for itself.
    pub fn keep_free(&self, reserve_bytes: u64) {
        self.inner.reserve_bytes.store(reserve_bytes, Ordering::Relaxed);
    }

    pub fn disk_full(&self) -> bool {
        self.inner.writer.disk_full.load(Ordering::Relaxed)
    }

    /// Writes every row into a fresh file and puts that into the place of the present one: what was deleted or changed
    /// before is then in no file any more. Reads and writes go on meanwhile. Blocks for as long as copying takes; `stop`
    /// ends it early, with an error and without an effect. `looked_for`: organizations of which no row should be left.
    /// 503 when the disk has no room for a second copy beside its reserve.
    pub fn rewrite(&self, looked_for: &[OrgId], stop: &dyn Fn() -> bool) -> Result<Rewritten> {
        let _alone = self.inner.rewriting.lock();
        let limits = rewrite::RewriteLimits {
            stop,
            full: &|| self.disk_full(),
            reserve_bytes: self.inner.reserve_bytes.load(Ordering::Relaxed),
        };
        rewrite::run(&self.inner.handle, &self.inner.writer, looked_for, &limits)
    }

    /// Gives every row of the file as it is at one moment, the end of the walk, while reads and writes go on: rows that change
    /// meanwhile are given again, so that a later one takes the place of an earlier one with the same table and key. No read
    /// lives longer than some megabytes take. Blocks for as long as taking them takes; `stop` ends it early, with an error.
    pub fn export(&self, stop: &dyn Fn() -> bool, take: TakeRows<'_>) -> Result<Exported> {
        // The same notes of what changes serve a rewriting.
        let _alone = self.inner.rewriting.lock();
        export::run(&self.inner.handle, &self.inner.writer, stop, take)
    }

    /// Commits what waits and closes the file. Later calls answer 503.
    pub fn close(&self) {
        self.inner.writer.stop();
        self.inner.handle.close();
    }

    fn read<T>(&self, run: impl FnOnce(&view::ReadView, Now) -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let now = self.inner.clock.look();
        let result = self.inner.handle.read(|view| run(view, now));
        if self.inner.handle.is_troubled() {
            self.inner.writer.heal();
        }
        let took = begun.elapsed();
        if took > Duration::from_millis(READ_TX_MS_MAX) {
            tracing::warn!(ms = took.as_millis() as u64, "a read transaction lived too long");
        }
        result
    }

    /// The operation with what every one has: whose it is, the seal of its audit rows, room, and whom it wakes.
    fn audited<T, F: FnOnce(&WriteView<'_>, Now) -> Result<T>>(
        &self,
        run: F,
    ) -> impl FnOnce(&WriteView<'_>, &Now) -> Result<T> + use<T, F> {
        let (origin, shared) = (Origin::current(), Arc::clone(&self.inner.audit));
        let (room, bells) = (Arc::clone(&self.inner.room), Arc::clone(&self.inner.bells));
        move |view, now| {
            let actor = origin.actor();
            view.act_for(origin, shared);
            view.hold_to(room);
            view.wake_by(bells);
            let value = run(view, now.clone())?;
            audit::check_operation(view, actor)?;
            usage::check(view, actor, now)?;
            Ok(value)
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        frees: bool,
        run: impl FnOnce(&WriteView<'_>, Now) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let audited = self.audited(run);
        let writer = &self.inner.writer;
        // From here to the commit that has it.
        let mut span = trace::child("store.commit", SpanKind::Internal);
        let answer = if frees { writer.submit_freeing(audited) } else { writer.submit(audited) };
        let written = async { answer?.await.map_err(writer_gone)? }.await;
        if let Err(error) = &written {
            span.fail(error.code().name());
        }
        written
    }
}

/// Where the store's id stands.
const STORE_ID: &[u8] = b"store_id";

/// The file's id; one that has none gets it.
fn identity(handle: &DatabaseHandle) -> Result<Uuid> {
    let found = handle.read(|view| view.get(META, STORE_ID))?;
    if let Some(id) = found.and_then(|bytes| Uuid::from_slice(&bytes).ok()) {
        return Ok(id);
    }
    let id = Uuid::new_v4();
    let next_sequence = handle.read(|view| changes::last(view))? + 1;
    writer::commit_one(handle, next_sequence, |view| {
        view.set(META, STORE_ID.to_vec(), Some(id.as_bytes().to_vec()));
        Ok(())
    })?;
    Ok(id)
}

/// The rows of one organization.
#[derive(Clone)]
pub struct OrgStore {
    store: Store,
    org: OrgId,
}

impl OrgStore {
    pub fn id(&self) -> OrgId {
        self.org
    }

    /// Runs `run` on a snapshot. It must not take long: see the invariants above.
    pub fn read<T>(&self, run: impl FnOnce(&OrgRead<'_>) -> Result<T>) -> Result<T> {
        self.store.read(|view, now| run(&OrgRead::new(view, OrgScope(self.org), now)))
    }

    /// Runs `run` on the open write transaction; what it put becomes durable before this returns, or nothing does.
    pub async fn write<T: Send + 'static>(
        &self,
        run: impl FnOnce(&OrgWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let org = self.org;
        self.store.write(false, move |view, now| run(&OrgWrite::new(view, OrgScope(org), now))).await
    }

    /// The same for what removes rows: it is taken also while the disk has no more than its reserve, so that a full box
    /// can be made emptier.
    pub async fn write_freeing<T: Send + 'static>(
        &self,
        run: impl FnOnce(&OrgWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let org = self.org;
        self.store.write(true, move |view, now| run(&OrgWrite::new(view, OrgScope(org), now))).await
    }

    /// What sounds when an operation has rung it for this organization ([`OrgWrite::ring`]).
    pub fn bell(&self) -> Bell {
        self.store.inner.bells.listen(self.org)
    }

    /// Whether writes are refused because the disk has less room than its reserve.
    pub fn disk_full(&self) -> bool {
        self.store.disk_full()
    }

    /// Whether writes are refused before anybody looks at them.
    pub fn refuses_writes(&self) -> bool {
        self.store.disk_full() || self.store.check_place().is_err()
    }

    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }
}

/// The rows without an organization.
#[derive(Clone)]
pub struct System {
    store: Store,
}

impl System {
    /// Runs `run` on a snapshot.
    pub fn read<T>(&self, run: impl FnOnce(&SysRead<'_>) -> Result<T>) -> Result<T> {
        self.store.read(|view, now| run(&SysRead::new(view, SystemScope, now)))
    }

    /// Runs `run` on the open write transaction; what it put becomes durable before this returns, or nothing does.
    pub async fn write<T: Send + 'static>(
        &self,
        run: impl FnOnce(&SysWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.store.write(false, move |view, now| run(&SysWrite::new(view, SystemScope, now))).await
    }

    /// The same for what removes rows: it is taken also while the disk has no more than its reserve.
    pub async fn write_freeing<T: Send + 'static>(
        &self,
        run: impl FnOnce(&SysWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.store.write(true, move |view, now| run(&SysWrite::new(view, SystemScope, now))).await
    }

    /// The same for what somebody needs who comes to make room on a full box, and what is bounded by itself (a person's
    /// logins are few, and guesses are limited): it may use the reserve.
    pub async fn write_reserved<T: Send + 'static>(
        &self,
        run: impl FnOnce(&SysWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write_freeing(run).await
    }

    /// The same, for a thread outside the runtime; blocks until the commit.
    pub fn write_blocking<T: Send + 'static>(
        &self,
        run: impl FnOnce(&SysWrite<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let audited = self.store.audited(move |view, now| run(&SysWrite::new(view, SystemScope, now)));
        self.store.inner.writer.submit(audited)?.blocking_recv().map_err(writer_gone)?
    }

    /// One organization's rows, for background work that goes from organization to organization.
    pub fn org(&self, org: OrgId) -> OrgStore {
        OrgStore { store: self.store.clone(), org }
    }

    /// A caller whose credential the auth slice has checked.
    pub fn principal(&self, identity: Identity) -> Principal {
        Principal::new(identity)
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }
}

#[cfg(test)]
mod tests;
