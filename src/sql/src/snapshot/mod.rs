//! Snapshots: what statements read. One folder per organization under a root, fed from the outbox, rebuildable from
//! the store at any time.
//!
//! A folder holds immutable segments (`segment.rs`), deletion bitmaps and one manifest that covers all tables at one
//! outbox position. [`Snapshots::apply`] replaces the rows of the changed keys and publishes a new manifest; a
//! statement pins one snapshot for all its tables, so sums over two tables always agree inside it. The invariants:
//!
//! - a file that a manifest named is never changed, and stays as long as a pin holds it;
//! - the live rows of one key of one table lie in exactly one segment;
//! - changes at or below the manifest's position are skipped, so a consumer that died may replay;
//! - segments of a table are few: eight of one size class are merged into one of the next, beside the feed.

mod apply;
mod change;
mod coding;
mod files;
pub(crate) mod manifest;
mod merge;
mod newest;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use datafusion::arrow::error::ArrowError;
use parking_lot::Mutex;
use uuid::Uuid;

pub use self::change::{Applied, Changes, TableChange};
use self::files::FileNames;
use self::manifest::{SegmentEntry, Snapshot};
use super::catalog::TableSpec;
pub use super::segment::{Key, SegmentError};
use base::clock::JUMP_MIN;

/// A change could not be taken in.
#[derive(Debug)]
pub enum SnapshotError {
    /// A file could not be read or written, or is damaged.
    Segment(SegmentError),
    /// A row does not have the shape of its table: a defect of the caller, which names the place.
    Shape {
        /// The table.
        table: String,
        /// The column, or what is wrong with the row.
        column: String,
    },
}

impl SnapshotError {
    /// Whether files of the snapshot are at fault, so that it helps to make it anew. A disk that is full or gone is not.
    pub fn is_damage(&self) -> bool {
        use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        let missing = |error: &std::io::Error| matches!(error.kind(), InvalidData | NotFound | UnexpectedEof);
        match self {
            Self::Segment(SegmentError::Damaged(_)) => true,
            Self::Segment(SegmentError::Io(error) | SegmentError::Arrow(ArrowError::IoError(_, error))) => {
                missing(error)
            }
            Self::Segment(SegmentError::Arrow(_)) => true,
            Self::Shape { .. } => false,
        }
    }
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Segment(error) => error.fmt(f),
            Self::Shape { table, column } => {
                write!(f, "A row of {table} does not fit its table at {column}.")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Segment(error) => Some(error),
            Self::Shape { .. } => None,
        }
    }
}

impl<E: Into<SegmentError>> From<E> for SnapshotError {
    fn from(error: E) -> Self {
        Self::Segment(error.into())
    }
}

/// Under what stands, among organizations, the snapshot of tables that are the same for all of them. Every statement reads
/// it beside its organization's own. No organization has this id.
pub const SHARED: Uuid = Uuid::max();

/// All organizations' snapshots.
#[derive(Debug)]
pub struct Snapshots {
    root: PathBuf,
    organizations: Mutex<HashMap<Uuid, Arc<Organization>>>,
    /// The consumer had applied everything committed before this time.
    caught_up_at_ms: AtomicI64,
    /// Merges done; the next one is looked for behind the organization that had the last.
    merges: AtomicUsize,
}

#[derive(Debug)]
struct Organization {
    folder: PathBuf,
    current: ArcSwap<Snapshot>,
    /// Held while a new snapshot is made. The flag: the organization was removed, and this value is stale.
    writer: Mutex<bool>,
    /// The number of the next file.
    next_file: AtomicU64,
    /// Held while a merge writes into the folder.
    merging: Mutex<()>,
}

/// One organization's snapshot, held for the length of a statement: its files stay until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Pin {
    pub(super) organization: Uuid,
    /// Where its files lie.
    pub(super) folder: PathBuf,
    pub(super) snapshot: Arc<Snapshot>,
    /// Where the files of the tables lie that are the same for every organization, and what they are.
    pub(super) shared_folder: PathBuf,
    pub(super) shared: Arc<Snapshot>,
    pub(super) tables: Arc<Vec<Arc<TableSpec>>>,
    /// Only what belongs to this agent is seen.
    pub(super) agent: Option<Uuid>,
    /// What `now()` is in a statement, in milliseconds since 1970; none: when it begins, by the machine's clock.
    pub(super) now_ms: Option<i64>,
}

impl Pin {
    /// The same, for a statement whose `now()` is this time. The box has a clock of its own, by which its rows are dated.
    #[must_use]
    pub fn at(mut self, now_ms: i64) -> Pin {
        self.now_ms = Some(now_ms);
        self
    }

    /// The same, but of it only what belongs to an agent.
    #[must_use]
    pub fn of_agent(mut self, agent: Uuid) -> Pin {
        self.agent = Some(agent);
        self
    }

    /// The organization whose snapshot this is.
    pub fn organization(&self) -> Uuid {
        self.organization
    }

    /// The outbox position the snapshot stands at; 0 before the first change.
    pub fn position(&self) -> u64 {
        self.snapshot.position
    }

    /// When the newest change in it was committed, in milliseconds since 1970; 0 before the first change.
    pub fn committed_at_ms(&self) -> i64 {
        self.snapshot.committed_at_ms
    }
}

/// One table's state.
#[derive(Clone, Debug)]
pub struct TableStatus {
    /// The table.
    pub spec: Arc<TableSpec>,
    /// Its rows.
    pub row_count: u64,
    /// Bytes of its segments, deleted rows included.
    pub bytes: u64,
}

impl Snapshots {
    /// Opens the folder, creating it (mode 0700) if need be. Organizations are loaded when first asked for.
    pub fn open(root: PathBuf) -> Result<Self, SnapshotError> {
        disk::open_folder(&root)?;
        Ok(Self {
            root,
            organizations: Mutex::default(),
            caught_up_at_ms: AtomicI64::new(0),
            merges: AtomicUsize::new(0),
        })
    }

    /// Takes in changes up to and including `changes.position`, durably, and makes them visible all at once.
    /// Blocking (files are synced): call it on a thread that may block. On an error nothing has changed.
    pub fn apply(&self, organization: Uuid, changes: Changes) -> Result<Applied, SnapshotError> {
        loop {
            let state = self.organization(organization)?;
            let removed = state.writer.lock();
            if *removed {
                continue; // It was removed between the two lines above; begin anew on a fresh folder.
            }
            let old = state.current.load_full();
            if changes.position <= old.position {
                return Ok(Applied::Skipped);
            }
            let new = apply::apply(&state.names(), &old, &changes)?;
            state.replace(&old, new)?;
            return Ok(Applied::Published);
        }
    }

    /// The folder that holds an organization's folder under its id, and whatever the consumer keeps beside them.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes rows in without moving the position: how a snapshot is rebuilt from the store, page by page. A rebuild ends
    /// with an [`apply`](Self::apply) without changes, at the position at which it began. Blocking, like `apply`.
    pub fn fill(&self, organization: Uuid, rows: Vec<TableChange>) -> Result<(), SnapshotError> {
        loop {
            let state = self.organization(organization)?;
            let removed = state.writer.lock();
            if *removed {
                continue;
            }
            let old = state.current.load_full();
            let rows =
                Changes { position: old.position, committed_at_ms: old.committed_at_ms, changes: rows };
            let new = apply::apply(&state.names(), &old, &rows)?;
            return state.replace(&old, new);
        }
    }

    /// Rewrites every segment that holds deleted rows, so that no byte of them is left in the folder.
    pub fn compact(&self, organization: Uuid) -> Result<(), SnapshotError> {
        let state = self.organization(organization)?;
        let removed = state.writer.lock();
        if *removed {
            return Ok(());
        }
        let old = state.current.load_full();
        if let Some(new) = merge::compact(&state.names(), &old)? {
            state.replace(&old, new)?;
        }
        Ok(())
    }

    /// Does one merge that is due in any organization that is loaded; whether there was one. Blocking, and long: only
    /// the last step holds up that organization's feed.
    pub fn merge_next(&self) -> Result<bool, SnapshotError> {
        self.merge_one().map_err(|(_, error)| error)
    }

    /// The same; an error names the organization.
    pub fn merge_one(&self) -> Result<bool, (Uuid, SnapshotError)> {
        let organizations = self.organizations.lock();
        let mut loaded: Vec<_> = organizations.iter().map(|(id, state)| (*id, Arc::clone(state))).collect();
        drop(organizations);
        if !loaded.is_empty() {
            // Every organization has its turn, also beside one that always has something to merge.
            let turn = self.merges.fetch_add(1, Ordering::Relaxed) % loaded.len();
            loaded.rotate_left(turn);
        }
        for (id, state) in loaded {
            let seen = state.current.load_full();
            let Some((table, inputs)) = merge::next_due(&seen) else { continue };
            if state.merge(&table, &inputs).map_err(|error| (id, error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Pins the current snapshot. The statement will see exactly `tables`; one that has no rows yet is empty.
    pub fn pin(&self, organization: Uuid, tables: Vec<Arc<TableSpec>>) -> Result<Pin, SnapshotError> {
        let state = self.organization(organization)?;
        let (folder, snapshot) = (state.folder.clone(), state.current.load_full());
        let state = self.organization(SHARED)?;
        let (shared_folder, shared) = (state.folder.clone(), state.current.load_full());
        let tables = Arc::new(tables);
        Ok(Pin { organization, folder, snapshot, shared_folder, shared, tables, agent: None, now_ms: None })
    }

    /// The state of each of `tables` for this organization.
    pub fn tables(
        &self,
        organization: Uuid,
        tables: &[Arc<TableSpec>],
    ) -> Result<Vec<TableStatus>, SnapshotError> {
        let snapshot = self.organization(organization)?.current.load_full();
        let shared = self.organization(SHARED)?.current.load_full();
        let status = |spec: &Arc<TableSpec>| {
            let segments = segments_of(&snapshot, &shared, spec.name.as_str());
            TableStatus {
                spec: Arc::clone(spec),
                row_count: segments.iter().map(|segment| segment.live_rows() as u64).sum(),
                bytes: segments.iter().map(|segment| segment.bytes).sum(),
            }
        };
        Ok(tables.iter().map(status).collect())
    }

    /// Compares every file of an organization's snapshot with its checksums. Blocking: all of them are read.
    pub fn verify(&self, organization: Uuid) -> Result<(), SnapshotError> {
        Snapshots::compare(&self.organization(organization)?.current.load_full())
    }

    /// The same of a folder that nobody serves; the number of files that were looked at.
    pub fn inspect(folder: &Path) -> Result<usize, SnapshotError> {
        let Some((snapshot, _)) = manifest::read(folder)? else { return Ok(0) };
        Snapshots::compare(&snapshot)?;
        Ok(snapshot.files().count())
    }

    fn compare(snapshot: &Snapshot) -> Result<(), SnapshotError> {
        for entry in snapshot.tables.values().flatten() {
            // Opened anew: what this process has mapped may be what was there before.
            let segment = super::segment::Segment::open(&entry.file.path)?;
            segment.verify()?;
            if segment.rows() != entry.rows {
                return Err(SegmentError::Damaged("it has another number of rows").into());
            }
            entry.deleted_bits()?;
        }
        Ok(())
    }

    /// The outbox position of this organization's snapshot; 0 before the first change.
    pub fn position(&self, organization: Uuid) -> Result<u64, SnapshotError> {
        Ok(self.organization(organization)?.current.load().position)
    }

    /// The consumer says: everything committed before `now_ms` has been applied, for every organization.
    pub fn set_caught_up(&self, now_ms: i64) {
        let before = self.caught_up_at_ms.fetch_max(now_ms, Ordering::Relaxed);
        // Of a clock that was set back; what is a moment late comes after.
        if before.saturating_sub(now_ms) > JUMP_MIN.as_millis() as i64 {
            self.caught_up_at_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Upper bound, in whole seconds, on how stale what `pin` shows may be at `now_ms`.
    pub fn freshness_sec(&self, pin: &Pin, now_ms: i64) -> u64 {
        let current = self.organization(pin.organization).map(|o| o.current.load().position).unwrap_or(0);
        let mut as_of_ms = pin.committed_at_ms();
        if current == pin.position() {
            as_of_ms = as_of_ms.max(self.caught_up_at_ms.load(Ordering::Relaxed));
        }
        u64::try_from(now_ms - as_of_ms).unwrap_or(0).div_ceil(1000)
    }

    /// Removes everything of an organization at once; a statement that still runs on it may fail.
    pub fn remove(&self, organization: Uuid) -> Result<(), SnapshotError> {
        let state = self.organization(organization)?;
        // A merge must not write into the folder of the one that comes after.
        let _merging = state.merging.lock();
        let mut removed = state.writer.lock();
        *removed = true;
        self.organizations.lock().remove(&organization);
        state.current.store(Arc::new(Snapshot::default()));
        // The manifest goes first: whatever a crash leaves of the rest is then unnamed and goes at the next load.
        let gone = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        };
        fs::remove_file(state.folder.join(manifest::MANIFEST_FILE)).or_else(gone)?;
        fs::File::open(&state.folder).and_then(|folder| folder.sync_all()).or_else(gone)?;
        Ok(fs::remove_dir_all(&state.folder).or_else(gone)?)
    }

    fn organization(&self, id: Uuid) -> Result<Arc<Organization>, SnapshotError> {
        let mut organizations = self.organizations.lock();
        if let Some(state) = organizations.get(&id) {
            return Ok(Arc::clone(state));
        }
        let folder = self.root.join(id.to_string());
        let (snapshot, next_file) = manifest::load(&folder)?;
        let state = Arc::new(Organization {
            folder,
            current: ArcSwap::from_pointee(snapshot),
            writer: Mutex::new(false),
            next_file: AtomicU64::new(next_file),
            merging: Mutex::new(()),
        });
        organizations.insert(id, Arc::clone(&state));
        Ok(state)
    }
}

/// The segments of a table: of those that all organizations share, or the organization's own.
pub(super) fn segments_of<'s>(own: &'s Snapshot, shared: &'s Snapshot, table: &str) -> &'s [SegmentEntry] {
    shared.tables.get(table).or_else(|| own.tables.get(table)).map_or(&[][..], Vec::as_slice)
}

impl Organization {
    fn names(&self) -> FileNames<'_> {
        FileNames::new(&self.folder, &self.next_file)
    }

    /// Merges segments of a table into one; not if the organization was removed.
    fn merge(&self, table: &str, inputs: &[SegmentEntry]) -> Result<bool, SnapshotError> {
        let _merging = self.merging.lock();
        if *self.writer.lock() {
            return Ok(false);
        }
        let names = self.names();
        let merged = merge::merge(&names, inputs)?;
        let removed = self.writer.lock();
        let old = self.current.load_full();
        // Of an organization that was removed meanwhile, or inputs that were rewritten, there is nothing to replace.
        if !*removed && let Some(new) = merge::put_in_place(&names, &old, table, inputs, merged)? {
            self.replace(&old, new)?;
        }
        Ok(true)
    }

    /// Publishes `new` and retires the files that only `old` named.
    fn replace(&self, old: &Snapshot, new: Snapshot) -> Result<(), SnapshotError> {
        let prepared = manifest::prepare(&self.folder, &new, self.next_file.load(Ordering::Relaxed))?;
        prepared.rename()?;
        // From here on the folder names the new files, whatever else fails.
        new.files().for_each(|file| file.set_retired(false));
        let new = Arc::new(new);
        self.current.store(Arc::clone(&new));
        prepared.sync()?;
        old.files().for_each(|file| file.set_retired(true));
        new.files().for_each(|file| file.set_retired(false));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
