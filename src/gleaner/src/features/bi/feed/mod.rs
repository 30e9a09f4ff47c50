//! Keeps the snapshots in step with the store.
//!
//! The feed follows the change records: it reads the rows they speak of as they are now, and publishes each
//! organization's new snapshot. Its position is the number of the last record that is in all snapshots.
//!
//! - Nothing is missed or doubled, whenever the process dies: each snapshot knows its own position and skips what it
//!   has, the feed's own position is stored after the snapshots are durable, and applying a record twice puts the
//!   same rows.
//! - A snapshot that is given to a statement is a state that the store has had. While it is not (the feed is being
//!   rebuilt, or has more of the organization to catch up with than it can hold at once), the organization's statements
//!   are refused with "try again", and nobody else's.
//! - A row whose view fails is left out, named in the log and counted: one organization's odd row must not stop the
//!   feed of all. Nor does one organization's damaged file: what cannot take its changes in, or cannot be merged, is
//!   made anew from the store.
//! - Records that were forgotten before the feed came to them, a wiped or damaged folder, a store older than the
//!   snapshots and a release with other columns all have one cure: a rebuild from the rows themselves.

pub mod ahead;
mod batch;
mod position;
mod rebuild;
mod shared;
mod spent;
#[cfg(test)]
mod tests;

use super::rows::{CATALOG, CatalogTableV1};
use super::tables::Tables;
use crate::features::{OwnTable, SharedView, View};
use base::clock::Timestamp;
use base::ids::OrgId;
use base::{Error, Result};
use parking_lot::Mutex;
use position::StoredPosition;
use ring::digest::{SHA256, digest};
use spent::Spent;
use sql::{
    Changes, Pin, SNAPSHOT_FORMAT, SnapshotError, Snapshots, TableChange, TableName, TableSpec, TableStatus,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{OrgStore, System, readable};
use tokio::sync::watch;
use uuid::Uuid;

/// How long a first change waits for others, so that what belongs together costs one round of fsyncs.
const GATHER: Duration = Duration::from_millis(20);
/// How soon new rows become visible, unless it is said otherwise.
const FRESHNESS: Duration = Duration::from_millis(500);
/// How often the position is stored. A crash makes the feed look at the changes of so long again.
const STORE_EVERY: Duration = Duration::from_secs(5);

/// How long a request waits for a feed that is catching up.
const SETTLE_WAIT: Duration = Duration::from_secs(3);

/// How often it is looked whether what was committed is in the snapshots, by who waits for it.
const CAUGHT_UP_LOOK: Duration = Duration::from_millis(10);

/// Follows the store's changes into the snapshots.
pub struct SnapshotFeed {
    system: System,
    snapshots: Arc<Snapshots>,
    views: Vec<&'static View>,
    shared: Vec<&'static SharedView>,
    tables: Tables,
    /// Records up to this one are in the snapshots.
    applied: AtomicU64,
    /// What the file says of `applied`.
    stored: AtomicU64,
    doubt: watch::Sender<SuspectSnapshots>,
    /// Rows that were left out because their view failed.
    quarantined: AtomicU64,
    progress: Mutex<Progress>,
    /// Held while rows are on their way into the snapshots.
    feeding: Mutex<()>,
    /// Held while the shared tables are brought up to date.
    sharing: Mutex<()>,
    publishing: Spent,
    merging: Spent,
    /// How soon new rows become visible, give or take the time to write them.
    freshness: Duration,
}

/// Whose snapshots are not a state that the store has had.
#[derive(Default)]
struct SuspectSnapshots {
    everyone: bool,
    of: HashSet<OrgId>,
}

impl SuspectSnapshots {
    fn is_about(&self, org: OrgId) -> bool {
        self.everyone || self.of.contains(&org)
    }

    fn is_none(&self) -> bool {
        !self.everyone && self.of.is_empty()
    }
}

#[derive(Default)]
struct Progress {
    /// The stored position was read, and what had to be rebuilt was.
    begun: bool,
    stored_at: Option<Instant>,
    /// Whose rebuild began and did not end: what is there of them is a part, whatever its position says.
    unmade: HashSet<OrgId>,
    /// The newest version of each table that is known to stand in the catalogue.
    versions: HashMap<(OrgId, TableName), u64>,
}

impl SnapshotFeed {
    /// A feed of `snapshots` through `views`, and of what all organizations share. It does nothing until its task runs.
    pub fn new(
        system: System,
        snapshots: Arc<Snapshots>,
        views: Vec<&'static View>,
        shared: Vec<&'static SharedView>,
    ) -> Result<SnapshotFeed> {
        let missing = |view: &&&'static View| (view.tables)().is_empty();
        if let Some(view) = views.iter().find(missing) {
            return Err(Error::internal(
                "read the console's views",
                format!("that of {} has no table", view.source),
            ));
        }
        Ok(SnapshotFeed {
            system,
            snapshots,
            tables: Tables::new(&views, &shared),
            views,
            shared,
            applied: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            doubt: watch::Sender::new(SuspectSnapshots { everyone: true, of: HashSet::new() }),
            quarantined: AtomicU64::new(0),
            progress: Mutex::default(),
            feeding: Mutex::default(),
            sharing: Mutex::default(),
            publishing: Spent::default(),
            merging: Spent::default(),
            freshness: FRESHNESS,
        })
    }

    /// The same, with what says of tables that only one organization has.
    pub(super) fn with_own_tables(self, own: Option<OwnTable>) -> SnapshotFeed {
        SnapshotFeed { tables: self.tables.with_own(own), ..self }
    }

    /// The same, with new rows visible so soon.
    pub(super) fn fresh_within(self, freshness: Duration) -> SnapshotFeed {
        SnapshotFeed { freshness, ..self }
    }

    /// How long what changes is gathered after a pass that began then.
    pub(super) fn gathers(&self, begun: Instant) -> Duration {
        self.freshness.saturating_sub(begun.elapsed()).max(GATHER.min(self.freshness))
    }

    /// How soon the position is stored, while that is behind what was taken in.
    pub(super) fn stores_within(&self) -> Option<Duration> {
        (self.position() < self.applied()).then_some(STORE_EVERY)
    }

    /// Change records up to this one are of no more use to the feed, whatever happens: they may be forgotten.
    pub fn position(&self) -> u64 {
        self.stored.load(Ordering::Acquire)
    }

    /// Change records up to this one are in the snapshots.
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Does one merge of the snapshots' segments, if one is due. An organization whose segments cannot be merged because
    /// they are damaged is rebuilt.
    pub(super) fn merge_next(&self) -> Result<bool> {
        // Before it is known where the feed stands, nothing could be rebuilt as of there.
        if !self.progress.lock().begun {
            return Ok(false);
        }
        let (org, error) = match self.merging.count(|| self.snapshots.merge_one()) {
            Ok(merged) => return Ok(merged),
            Err((org, error)) => (OrgId(org), error),
        };
        {
            let _feeding = self.feeding.lock();
            // What is being erased must not come back.
            if !self.system.read(|tx| Ok(tx.is_fenced(org)))? {
                self.mend(org, self.applied(), "merge the segments of a snapshot", error)?;
            }
        }
        while self.pass()? {}
        Ok(true)
    }

    /// A statement has come upon a file that is missing or damaged: looks at all files of the organization, and makes
    /// its tables anew if so. Whether the statement may be run again. Blocking.
    pub(super) fn heal(&self, org: OrgId) -> Result<bool> {
        if !self.progress.lock().begun {
            return Ok(false);
        }
        {
            let _feeding = self.feeding.lock();
            self.heal_shared()?;
            let Err(error) = self.snapshots.verify(org.0) else { return Ok(true) };
            if self.system.read(|tx| Ok(tx.is_fenced(org)))? {
                return Ok(false);
            }
            self.mend(org, self.applied(), "answer a statement", error)?;
        }
        while self.pass()? {}
        Ok(true)
    }

    /// Looks at the files of every organization's snapshot: how many organizations there are, and whose are damaged. Blocking.
    pub(crate) fn verify_all(&self) -> Result<(usize, Vec<(OrgId, String)>)> {
        let (organizations, mut damaged) = (self.folders()?, Vec::new());
        for org in &organizations {
            if let Err(error) = self.snapshots.verify(org.0) {
                damaged.push((*org, error.to_string()));
            }
        }
        Ok((organizations.len(), damaged))
    }

    /// CPU time that publishing and merging have taken since the start.
    pub fn spent(&self) -> (Duration, Duration) {
        (self.publishing.so_far(), self.merging.so_far())
    }

    /// Rows that were left out since the start, because their view failed.
    pub fn quarantined(&self) -> u64 {
        self.quarantined.load(Ordering::Relaxed)
    }

    /// Waits a little until an organization's statements can be answered; 503 while a rebuild, or a large backlog of its
    /// own, goes on.
    pub async fn settled(&self, org: OrgId) -> Result<()> {
        let mut doubt = self.doubt.subscribe();
        let settled = tokio::time::timeout(SETTLE_WAIT, doubt.wait_for(|doubt| !doubt.is_about(org)));
        settled.await.map(drop).map_err(|_| catching_up())
    }

    /// Whether something is committed that is not in the snapshots.
    pub(super) fn is_behind(&self) -> bool {
        self.applied() < *self.system.store().sequence().borrow()
    }

    /// Waits until everything is in the snapshots that is committed now.
    pub(super) async fn caught_up(&self, within: Duration) -> Result<()> {
        let newest = *self.system.store().sequence().borrow();
        let caught_up = async {
            while self.applied() < newest {
                tokio::time::sleep(CAUGHT_UP_LOOK).await;
            }
        };
        tokio::time::timeout(within, caught_up).await.map_err(|_| catching_up())
    }

    fn is_consistent(&self) -> bool {
        self.doubt.borrow().is_none()
    }

    /// The tables of an organization, by name.
    pub(super) fn specs(&self, org: &OrgStore) -> Result<Vec<Arc<TableSpec>>> {
        org.read(|tx| self.tables.of(tx))
    }

    /// Every table of an organization with its size, and an upper bound in seconds on how stale they are.
    pub(super) fn tables(&self, org: &OrgStore) -> Result<(Vec<TableStatus>, u64)> {
        let specs = self.specs(org)?;
        let (_, freshness_sec) = self.pin(org.id(), Vec::new())?;
        let tables = self.snapshots.tables(org.id().0, &specs);
        Ok((tables.map_err(|e| Error::internal("read a snapshot", e))?, freshness_sec))
    }

    /// Pins an organization's snapshot, with an upper bound in seconds on how stale it is. 503 while there is none
    /// that is a state that the store has had.
    pub(super) fn pin(&self, org: OrgId, tables: Vec<Arc<TableSpec>>) -> Result<(Pin, u64)> {
        let now = self.note_caught_up();
        let pin = {
            // As long as this is held no snapshot becomes doubtful.
            let doubt = self.doubt.borrow();
            if doubt.is_about(org) {
                return Err(catching_up());
            }
            self.snapshots
                .pin(org.0, tables)
                .map_err(|e| Error::internal("pin a snapshot", e))?
                .at(now.millis())
        };
        let freshness_sec = self.snapshots.freshness_sec(&pin, now.millis());
        Ok((pin, freshness_sec))
    }

    /// Notes that the snapshots have everything, if so, and gives the moment for which that holds.
    fn note_caught_up(&self) -> Timestamp {
        // The time first: what is committed after it is none of its business.
        let now = self.system.clock().now();
        let newest = *self.system.store().sequence().borrow();
        if self.is_consistent() && self.applied() >= newest {
            self.snapshots.set_caught_up(now.millis());
        }
        now
    }

    /// Removes the snapshot of an organization that stands behind a fence; gives how many files there were.
    pub(super) fn remove_org(&self, org: OrgId) -> Result<u64> {
        // Whatever was read before the fence is in the snapshot by now, and nothing is read behind it.
        let _feeding = self.feeding.lock();
        let files = std::fs::read_dir(self.snapshots.root().join(org.to_string()));
        let files = files.map_or(0, |files| files.count() as u64);
        self.reset(org)?;
        let mut progress = self.progress.lock();
        progress.unmade.remove(&org);
        progress.versions.retain(|(known, _), _| *known != org);
        Ok(files)
    }

    /// Reads where the feed stands and rebuilds what cannot be followed from there. Once.
    pub(super) fn begin(&self) -> Result<()> {
        let _feeding = self.feeding.lock();
        if self.progress.lock().begun {
            return Ok(());
        }
        let stored = position::load(self.snapshots.root())
            .map_err(|e| Error::internal("read the feed's position", e))?;
        let newest = *self.system.store().sequence().borrow();
        let oldest = self.system.read(|tx| tx.changes_begin())?;
        let stored = stored.filter(|stored| {
            stored.shape == self.shape() && stored.position <= newest && stored.position + 1 >= oldest
        });
        let from = match stored {
            Some(stored) => {
                self.rebuild_missing(newest)?;
                stored.position
            }
            None => {
                position::remove(self.snapshots.root())
                    .map_err(|e| Error::internal("remove the feed's position", e))?;
                self.rebuild_all(newest)?;
                newest
            }
        };
        self.refresh_shared()?;
        self.applied.store(from, Ordering::Release);
        self.store_position()?;
        self.progress.lock().begun = true;
        Ok(())
    }

    /// Takes in one batch; whether there may be more at once.
    pub(super) fn pass(&self) -> Result<bool> {
        self.take_in(batch::CHANGES_MAX)
    }

    fn take_in(&self, changes_max: usize) -> Result<bool> {
        let _feeding = self.feeding.lock();
        let (complete, mended) = self.publishing.count(|| self.publish(changes_max))?;
        if complete {
            // What was rebuilt just now has newer rows than its position says, until the next pass.
            self.doubt.send_replace(SuspectSnapshots { everyone: false, of: mended });
        }
        let go_on = !complete || !self.is_consistent();
        self.note_caught_up();
        let due = self.progress.lock().stored_at.is_none_or(|at| at.elapsed() >= STORE_EVERY);
        if due {
            self.store_position()?;
        }
        Ok(go_on)
    }

    /// Publishes one batch. Whether it reached the newest record, and whose snapshots had to be rebuilt.
    fn publish(&self, changes_max: usize) -> Result<(bool, HashSet<OrgId>)> {
        let after = self.applied();
        let mut mended = HashSet::new();
        let unmade: Vec<OrgId> = self.progress.lock().unmade.iter().copied().collect();
        for org in unmade {
            // What is being erased must not come back.
            if !self.system.read(|tx| Ok(tx.is_fenced(org)))? {
                self.remake(org, after)?;
                mended.insert(org);
            }
        }
        let batch = self.system.read(|tx| batch::read(tx, &self.reader(), after, changes_max))?;
        if !batch.complete {
            self.doubt.send_modify(|doubt| doubt.of.extend(batch.orgs.keys()));
        }
        for (org, rows) in batch.orgs {
            self.keep_tables(org, &rows.changes)?;
            let changes =
                Changes { position: batch.end, committed_at_ms: rows.committed_at_ms, changes: rows.changes };
            if let Err(error) = self.snapshots.apply(org.0, changes) {
                self.mend(org, batch.end, "apply changes to a snapshot", error)?;
                mended.insert(org);
            }
        }
        self.applied.store(batch.end, Ordering::Release);
        Ok((batch.complete, mended))
    }

    /// Rebuilds an organization's snapshot, as of a position, if the error says that its files are damaged; everybody
    /// else's feed would stand still as long as they are. Any other error is handed on. The caller is feeding; what is
    /// rebuilt stays in doubt until a pass has come after it.
    fn mend(&self, org: OrgId, position: u64, doing: &'static str, error: SnapshotError) -> Result<()> {
        if !error.is_damage() {
            return Err(Error::internal(doing, error));
        }
        tracing::error!(%org, %error, doing, "an organization's SQL tables are damaged, and made anew from the store");
        self.doubt.send_modify(|doubt| {
            doubt.of.insert(org);
        });
        self.remake(org, position)
    }

    /// Rebuilds an organization's snapshot. Where that fails half way, the next pass begins with it again.
    fn remake(&self, org: OrgId, position: u64) -> Result<()> {
        self.progress.lock().unmade.insert(org);
        self.rebuild(org, position)?;
        self.progress.lock().unmade.remove(&org);
        Ok(())
    }

    fn reader(&self) -> batch::Reader<'_> {
        batch::Reader { views: &self.views, quarantined: &self.quarantined }
    }

    /// Nobody's snapshots are a state of the store, for now.
    fn doubt_all(&self) {
        self.doubt.send_modify(|doubt| doubt.everyone = true);
    }

    /// Keeps the description of each table that is wider than what the catalogue says, before its rows are published.
    fn keep_tables(&self, org: OrgId, changes: &[TableChange]) -> Result<()> {
        let mut newer: HashMap<&TableName, &Arc<TableSpec>> = HashMap::new();
        let mut progress = self.progress.lock();
        for TableChange { table, .. } in changes {
            let known = progress.versions.get(&(org, table.name.clone())).copied();
            let known = known.unwrap_or_else(|| self.tables.shared_version(&table.name));
            let found = newer.get(&table.name).map_or(known, |spec| spec.catalog_version);
            if table.catalog_version > found {
                newer.insert(&table.name, table);
            }
        }
        if newer.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = newer
            .values()
            .map(|spec| (spec.name.as_str().to_owned(), CatalogTableV1::from(&***spec)))
            .collect();
        self.system.write_blocking(move |tx| {
            let tx = tx.org(org);
            for (name, row) in &rows {
                // A damaged description is written anew: it must not keep everybody's tables from going on.
                let old = readable("the description of a table", name, tx.get(&CATALOG, name))?.flatten();
                if old.is_none_or(|old| old.version < row.version) {
                    tx.put(&CATALOG, name, row)?;
                }
            }
            Ok(())
        })?;
        for (name, spec) in newer {
            progress.versions.insert((org, name.clone()), spec.catalog_version);
        }
        Ok(())
    }

    pub(super) fn store_position(&self) -> Result<()> {
        let position = self.applied();
        if position != self.position() || self.progress.lock().stored_at.is_none() {
            let stored = StoredPosition { position, shape: self.shape() };
            position::store(self.snapshots.root(), &stored)
                .map_err(|e| Error::internal("store the feed's position", e))?;
            self.stored.store(position, Ordering::Release);
        }
        self.progress.lock().stored_at = Some(Instant::now());
        Ok(())
    }

    /// A digest of what the snapshots are made of, and of the form of their files.
    fn shape(&self) -> String {
        shape_of(&self.tables, &self.views, self.system.store().id())
    }
}

/// What the snapshots of these tables are made for: those of another shape are made anew.
fn shape_of(tables: &Tables, views: &[&'static View], store: Uuid) -> String {
    let mut text = tables.shape();
    text.push_str(&format!("format {SNAPSHOT_FORMAT}\n"));
    // Numbers alone do not tell the snapshots of another life of the store.
    text.push_str(&format!("store {store}\n"));
    for view in views {
        text.push_str(view.source);
        text.push('\n');
    }
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn catching_up() -> Error {
    Error::unavailable("The SQL tables are catching up with the store; try again shortly.")
}
