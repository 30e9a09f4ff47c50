//! What a transaction sees: a snapshot to read, or the open write transaction under an operation's own changes.
//!
//! A scan says how many rows it wants, always: nothing here can run away.

use super::after::CommitHook;
use super::bells::Bells;
use super::counts::{self, Growth, Growths, Used};
use super::health::{ReadFailure, file_failed};
use super::known::{Registry, interned};
use super::origin::Origin;
use super::quota::QuotaHook;
use super::raw::{Bytes, Overlay, RawRow, View, definition};
use super::shared::AuditShared;
use super::tracker::Tracker;
use base::ids::OrgId;
use base::{Error, Result};
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, TableError, TableHandle, WriteTransaction};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

fn failed(doing: &'static str) -> impl Fn(redb::StorageError) -> Error {
    move |e| file_failed(doing, e)
}

/// A committed snapshot. A table that nobody has written yet is empty.
pub(super) struct ReadView {
    tx: ReadTransaction,
    tables: RefCell<Vec<OpenTable>>,
    known: Arc<Registry>,
    trouble: Arc<ReadFailure>,
}

type OpenTable = (&'static str, Option<ReadOnlyTable<Bytes, Bytes>>);

impl ReadView {
    pub(super) fn new(tx: ReadTransaction, known: Arc<Registry>, trouble: Arc<ReadFailure>) -> ReadView {
        ReadView { tx, tables: RefCell::default(), known, trouble }
    }

    fn with_table<T>(
        &self,
        name: &'static str,
        run: impl FnOnce(&ReadOnlyTable<Bytes, Bytes>) -> Result<T>,
        absent: T,
    ) -> Result<T> {
        self.trouble.note(self.with_open(name, run, absent))
    }

    fn with_open<T>(
        &self,
        name: &'static str,
        run: impl FnOnce(&ReadOnlyTable<Bytes, Bytes>) -> Result<T>,
        absent: T,
    ) -> Result<T> {
        let mut tables = self.tables.borrow_mut();
        let at = match tables.iter().position(|(known, _)| *known == name) {
            Some(at) => at,
            None => {
                let table = match self.tx.open_table(definition(name)) {
                    Ok(table) => Some(table),
                    Err(TableError::TableDoesNotExist(_)) => None,
                    Err(e) => return Err(file_failed("open a table", e)),
                };
                tables.push((name, table));
                tables.len() - 1
            }
        };
        tables[at].1.as_ref().map_or(Ok(absent), run)
    }
}

impl View for ReadView {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.with_table(
            table,
            |table| Ok(table.get(key).map_err(failed("read a row"))?.map(|value| value.value().to_vec())),
            None,
        )
    }

    fn scan_within(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<RawRow>> {
        self.with_table(table, |table| collect(table, low, high, reverse, (limit, bytes_max)), Vec::new())
    }

    fn is_fenced(&self, org: OrgId) -> bool {
        self.known.fences.contains(&org)
    }
}

fn collect(
    table: &impl ReadableTable<Bytes, Bytes>,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
    reverse: bool,
    (limit, bytes_max): (usize, usize),
) -> Result<Vec<RawRow>> {
    if is_empty(low, high) {
        return Ok(Vec::new());
    }
    let mut range = table.range::<&[u8]>((low, high)).map_err(failed("scan rows"))?;
    let (mut rows, mut bytes) = (Vec::with_capacity(limit.min(256)), 0);
    while rows.len() < limit && bytes < bytes_max {
        let Some(entry) = (if reverse { range.next_back() } else { range.next() }) else { break };
        let (key, value) = entry.map_err(failed("scan rows"))?;
        let (key, value) = (key.value(), value.value());
        // redb believes a page's keys. In one that was damaged they may stand in any order, and rows would be left out,
        // come twice, or belong to somebody else.
        let last = rows.last().map(|(last, _): &RawRow| last.as_slice());
        let in_order = last.is_none_or(|last| if reverse { key < last } else { key > last });
        if !in_order || !is_within(key, low, high) {
            return Err(Error::internal("scan rows", OUT_OF_ORDER));
        }
        bytes += key.len() + value.len();
        rows.push((key.to_vec(), value.to_vec()));
    }
    Ok(rows)
}

/// What is said of a table whose keys contradict each other.
const OUT_OF_ORDER: &str =
    "the keys of a table are out of order: the store's file is damaged (`gleaner doctor` says more)";

fn is_within(key: &[u8], low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    (match low {
        Bound::Unbounded => true,
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
    }) && match high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
    }
}

/// Bounds that cross, which `BTreeMap::range` answers with a panic.
fn is_empty(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    use Bound::{Excluded, Included, Unbounded};
    match (low, high) {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(low), Included(high)) => low > high,
        (Included(low) | Excluded(low), Included(high) | Excluded(high)) => low >= high,
    }
}

/// The open write transaction of a batch: each table is opened once.
pub(super) struct Batch<'t> {
    tx: &'t WriteTransaction,
    tables: RefCell<HashMap<&'static str, redb::Table<'t, Bytes, Bytes>>>,
    next_sequence: Cell<u64>,
    dirty: Cell<bool>,
    /// What was known before the batch.
    known: Arc<Registry>,
    /// What its operations added.
    learned: RefCell<Registry>,
    tracker: Arc<Tracker>,
    /// What they added to the counts, which is written once for all of them.
    grown: RefCell<Growths>,
    trouble: Arc<ReadFailure>,
}

impl<'t> Batch<'t> {
    pub(super) fn new(
        tx: &'t WriteTransaction,
        next_sequence: u64,
        known: Arc<Registry>,
        tracker: Arc<Tracker>,
        trouble: Arc<ReadFailure>,
    ) -> Batch<'t> {
        Batch {
            tx,
            tables: RefCell::default(),
            next_sequence: Cell::new(next_sequence),
            dirty: Cell::new(false),
            known,
            learned: RefCell::default(),
            grown: RefCell::default(),
            tracker,
            trouble,
        }
    }

    /// What the operations added to what is known; it counts once they are committed.
    pub(super) fn learned(self) -> Registry {
        self.learned.into_inner()
    }

    /// The number that the next batch goes on with.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence.get()
    }

    /// Whether anything was written.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// Writes the counts that the operations changed. Called once, before the commit.
    pub(super) fn write_counts(&self) -> Result<()> {
        let mut counts = Overlay::new();
        for (org, table) in self.grown.borrow().keys() {
            // Of an organization behind a fence everything goes; a count that came back would stay.
            if !self.is_fenced(*org) {
                let used = self.used(*org, table)?;
                let row = (used != Used::default()).then(|| used.encode());
                counts.insert(counts::key(*org, table), row);
            }
        }
        self.grown.borrow_mut().clear();
        self.write(BTreeMap::from([(counts::TABLE, counts)]))
    }

    fn write(&self, changes: BTreeMap<&'static str, Overlay>) -> Result<()> {
        self.tracker.note(&changes);
        for (name, rows) in changes.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            self.dirty.set(true);
            self.with_table(name, |table| {
                for (key, value) in rows {
                    match value {
                        Some(value) => {
                            table.insert(key.as_slice(), value.as_slice()).map_err(failed("write a row"))?;
                        }
                        None => {
                            table.remove(key.as_slice()).map_err(failed("remove a row"))?;
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn with_table<T>(
        &self,
        name: &'static str,
        run: impl FnOnce(&mut redb::Table<'t, Bytes, Bytes>) -> Result<T>,
    ) -> Result<T> {
        let mut tables = self.tables.borrow_mut();
        if !tables.contains_key(name) {
            let table = self.tx.open_table(definition(name)).map_err(|e| file_failed("open a table", e));
            tables.insert(name, self.trouble.note(table)?);
        }
        self.trouble.note(run(tables.get_mut(name).expect("the table was opened above")))
    }
}

/// One operation's view: its own changes over the batch's open transaction, and the changes waiting to be applied.
pub(super) struct WriteView<'b> {
    batch: &'b dyn BatchView,
    overlay: RefCell<BTreeMap<&'static str, Overlay>>,
    told: Cell<u64>,
    learned: RefCell<Registry>,
    acting: OnceCell<(Arc<Origin>, Arc<AuditShared>)>,
    room: OnceCell<Arc<QuotaHook>>,
    audited: Cell<bool>,
    grown: RefCell<Growths>,
    exempt: Cell<bool>,
    after: RefCell<Vec<CommitHook>>,
    bells: OnceCell<Arc<Bells>>,
    rung: RefCell<BTreeSet<OrgId>>,
}

/// The batch without its transaction's lifetime, which redb's tables are invariant in.
pub(super) trait BatchView: View {
    fn next_sequence(&self) -> u64;

    /// The names of all tables, in order.
    fn tables(&self) -> Result<Vec<&'static str>>;

    /// Up to `limit` keys between two bounds, without the rows behind them.
    fn keys(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>>;

    /// Whether an index of this name was registered as global.
    fn knows_global(&self, index: &str) -> bool;

    fn apply(&self, decided: Decision) -> Result<()>;
}

/// What an operation decided.
pub(super) struct Decision {
    changes: BTreeMap<&'static str, Overlay>,
    /// Change records among them.
    told: u64,
    learned: Registry,
    grown: Growths,
}

impl View for Batch<'_> {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.with_table(table, |table| {
            Ok(table.get(key).map_err(failed("read a row"))?.map(|value| value.value().to_vec()))
        })
    }

    fn scan_within(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<RawRow>> {
        self.with_table(table, |table| collect(table, low, high, reverse, (limit, bytes_max)))
    }

    fn used(&self, org: OrgId, table: &str) -> Result<Used> {
        let kept = self.get(counts::TABLE, &counts::key(org, table))?;
        let kept = kept.map_or(Ok(Used::default()), |count| Used::decode(&count))?;
        let grown = self.grown.borrow();
        // Keys borrow a name for as long as the process lives; this one need not.
        let own = grown.range((org, "")..).take_while(|((owner, _), _)| *owner == org);
        let own = own.into_iter().find(|((_, name), _)| *name == table);
        Ok(kept.after(own.map_or(Growth::default(), |(_, growth)| *growth)))
    }

    fn is_fenced(&self, org: OrgId) -> bool {
        self.learned.borrow().says_fenced(org).unwrap_or_else(|| self.known.fences.contains(&org))
    }
}

impl BatchView for Batch<'_> {
    fn next_sequence(&self) -> u64 {
        self.next_sequence.get()
    }

    fn tables(&self) -> Result<Vec<&'static str>> {
        let listed = self.tx.list_tables().map_err(failed("list the tables"))?;
        let mut names: Vec<_> = listed.map(|table| interned(table.name())).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn keys(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        if is_empty(low, high) {
            return Ok(Vec::new());
        }
        self.with_table(table, |table| {
            let range = table.range::<&[u8]>((low, high)).map_err(failed("scan keys"))?;
            let key = |entry: redb::Result<(redb::AccessGuard<'_, Bytes>, _), _>| {
                entry.map(|(key, _)| key.value().to_vec()).map_err(failed("scan keys"))
            };
            range.take(limit).map(key).collect()
        })
    }

    fn knows_global(&self, index: &str) -> bool {
        self.known.globals.contains(index) || self.learned.borrow().globals.contains(index)
    }

    fn apply(&self, decided: Decision) -> Result<()> {
        self.learned.borrow_mut().add(decided.learned);
        self.write(decided.changes)?;
        let mut grown = self.grown.borrow_mut();
        for (of, by) in decided.grown {
            let sum = grown.entry(of).or_default();
            sum.rows += by.rows;
            sum.bytes += by.bytes;
        }
        self.next_sequence.set(self.next_sequence.get() + decided.told);
        Ok(())
    }
}

impl<'b> WriteView<'b> {
    pub(super) fn new(batch: &'b dyn BatchView) -> WriteView<'b> {
        WriteView {
            batch,
            overlay: RefCell::default(),
            told: Cell::new(0),
            learned: RefCell::default(),
            acting: OnceCell::new(),
            room: OnceCell::new(),
            audited: Cell::new(false),
            grown: RefCell::default(),
            exempt: Cell::new(false),
            after: RefCell::default(),
            bells: OnceCell::new(),
            rung: RefCell::default(),
        }
    }

    /// The names of all tables that are committed or of this batch, in order.
    pub(super) fn tables(&self) -> Result<Vec<&'static str>> {
        self.batch.tables()
    }

    /// Up to `limit` keys between two bounds as they were before this operation.
    pub(super) fn keys_before(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        self.batch.keys(table, low, high, limit)
    }

    /// Remembers that an index reaches across organizations, so that an erasure looks into it.
    pub(super) fn register_global(&self, index: &'static str) {
        if !self.batch.knows_global(index) && self.learned.borrow_mut().globals.insert(index) {
            self.set(super::known::GLOBALS, index.as_bytes().to_vec(), Some(Vec::new()));
        }
    }

    /// Puts the organization behind a fence, or takes that away.
    pub(super) fn fence(&self, org: OrgId, stands: bool) {
        if self.is_fenced(org) != stands {
            self.set(super::known::FENCES, org.0.as_bytes().to_vec(), stands.then(Vec::new));
            self.learned.borrow_mut().say(org, stands);
        }
    }

    /// Whose operation this is, and what all operations share of the audit log.
    pub(super) fn act_for(&self, origin: Arc<Origin>, shared: Arc<AuditShared>) {
        self.acting.get_or_init(|| (origin, shared));
    }

    pub(super) fn origin(&self) -> Arc<Origin> {
        self.acting.get().map_or_else(Origin::system, |(origin, _)| Arc::clone(origin))
    }

    /// None where nobody shares anything: in a migration.
    pub(super) fn shared(&self) -> Option<&AuditShared> {
        self.acting.get().map(|(_, shared)| &**shared)
    }

    /// An audit row was written, or is not due.
    pub(super) fn mark_audited(&self) {
        self.audited.set(true);
    }

    /// Whether the operation changes rows without having said anything to the audit log.
    pub(super) fn lacks_audit(&self) -> bool {
        !self.audited.get() && self.overlay.borrow().values().any(|rows| !rows.is_empty())
    }

    /// Who says whether an organization has room.
    pub(super) fn hold_to(&self, room: Arc<QuotaHook>) {
        self.room.get_or_init(|| room);
    }

    /// None where nobody is asked: in a migration.
    pub(super) fn room(&self) -> Option<&QuotaHook> {
        self.room.get().map(|room| &**room)
    }

    /// Notes that an organization's table grows.
    pub(super) fn grow(&self, org: OrgId, table: &'static str, by: Growth) {
        counts::grow(&mut self.grown.borrow_mut(), org, table, by);
    }

    /// What the operation adds so far, by organization and table.
    pub(super) fn grown(&self) -> std::cell::Ref<'_, Growths> {
        self.grown.borrow()
    }

    /// The operation may go beyond an organization's room: it ends or removes something.
    pub(super) fn exempt(&self) {
        self.exempt.set(true);
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.exempt.get()
    }

    /// Has something done once the operation is committed.
    pub(super) fn act_after(&self, act: CommitHook) {
        self.after.borrow_mut().push(act);
    }

    pub(super) fn take_after(&self) -> Vec<CommitHook> {
        let mut after = self.after.take();
        let rung = self.rung.take();
        if let Some(bells) = self.bells.get().filter(|_| !rung.is_empty()) {
            let bells = Arc::clone(bells);
            // Also where nobody knows whether it stands: whoever is woken looks.
            after.push(Box::new(move |_| bells.ring(&rung)));
        }
        after
    }

    /// Who is woken by what the operation rings.
    pub(super) fn wake_by(&self, bells: Arc<Bells>) {
        self.bells.get_or_init(|| bells);
    }

    /// Wakes who waits for news of the organization, once the operation is committed.
    pub(super) fn ring(&self, org: OrgId) {
        self.rung.borrow_mut().insert(org);
    }

    pub(super) fn set(&self, table: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.overlay.borrow_mut().entry(table).or_default().insert(key, value);
    }

    /// The number of a change record that the operation adds.
    pub(super) fn take_sequence(&self) -> u64 {
        let sequence = self.next_sequence();
        self.told.set(self.told.get() + 1);
        sequence
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.batch.next_sequence() + self.told.get()
    }

    /// Hands the operation's changes to the batch.
    pub(super) fn apply(self) -> Result<()> {
        self.batch.apply(Decision {
            changes: self.overlay.into_inner(),
            told: self.told.get(),
            learned: self.learned.into_inner(),
            grown: self.grown.into_inner(),
        })
    }
}

impl View for WriteView<'_> {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.overlay.borrow().get(table).and_then(|rows| rows.get(key)) {
            return Ok(value.clone());
        }
        self.batch.get(table, key)
    }

    /// Among rows that the operation has changed itself no bound of bytes is kept.
    fn scan_within(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<RawRow>> {
        if is_empty(low, high) {
            return Ok(Vec::new());
        }
        let overlay = self.overlay.borrow();
        let Some(own) = overlay.get(table).filter(|rows| !rows.is_empty()) else {
            return self.batch.scan_within(table, low, high, reverse, limit, bytes_max);
        };
        let own: Vec<_> = own.range::<[u8], _>((low, high)).collect();
        // Every one of the operation's own changes can hide at most one committed row.
        let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = self
            .batch
            .scan(table, low, high, reverse, limit.saturating_add(own.len()))?
            .into_iter()
            .collect();
        let full = rows.len() == limit.saturating_add(own.len());
        let edge = if reverse { rows.keys().next() } else { rows.keys().next_back() }.cloned();
        for (key, value) in own {
            // A change beyond the last committed row that was read may have unread rows before it.
            let beyond =
                full && edge.as_ref().is_some_and(|edge| if reverse { key < edge } else { key > edge });
            match value {
                Some(value) if !beyond => drop(rows.insert(key.clone(), value.clone())),
                Some(_) => {}
                None => drop(rows.remove(key)),
            }
        }
        let take = |iter: &mut dyn Iterator<Item = RawRow>| iter.take(limit).collect();
        Ok(if reverse { take(&mut rows.into_iter().rev()) } else { take(&mut rows.into_iter()) })
    }

    fn used(&self, org: OrgId, table: &str) -> Result<Used> {
        let before = self.batch.used(org, table)?;
        let grown = self.grown.borrow();
        let own = grown.range((org, "")..).take_while(|((owner, _), _)| *owner == org);
        let own = own.into_iter().find(|((_, name), _)| *name == table);
        Ok(before.after(own.map_or(Growth::default(), |(_, growth)| *growth)))
    }

    fn is_fenced(&self, org: OrgId) -> bool {
        self.learned.borrow().says_fenced(org).unwrap_or_else(|| self.batch.is_fenced(org))
    }
}
