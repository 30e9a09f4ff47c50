//! Transactions as slices see them: rows of one scope, read or written.
//!
//! `OrgRead` and `OrgWrite` put the organization in front of every key, so no function takes an organization and a
//! row id together, and a missing row and somebody else's are one look-up with one answer.

use super::after::Committed;
use super::changes;
use super::counts::Growth;
use super::index_key::{IndexKey, Prefix, prefix_bytes};
use super::key::{Key, after_prefix, encoded};
use super::raw::{RawRow, View};
use super::scope::{OrgScope, Scope, SystemScope};
use super::table::{Index, IndexForm, OrgTable, Reach, Table};
use super::view::WriteView;
use base::clock::{Moment, Now, Timestamp};
use base::codec::{self, Record};
use base::ids::OrgId;
use base::limits::VALUE_BYTES_MAX;
use base::{Code, Error, Result};
use std::ops::Deref;
use std::time::Duration;

/// Rows of one scope at one moment.
pub struct ReadTx<'v, S> {
    view: &'v dyn View,
    pub(super) scope: S,
    now: Now,
    /// The organization is being erased, or was: it takes no rows.
    fenced: bool,
    /// It shows none either, except to what erases them.
    hidden: bool,
}

/// Rows of one organization.
pub type OrgRead<'v> = ReadTx<'v, OrgScope>;
/// Rows without an organization, and the global indexes.
pub type SysRead<'v> = ReadTx<'v, SystemScope>;

/// In which direction a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first: oldest first for ids.
    Ascending,
    /// Largest key first: newest first for ids.
    Descending,
}

impl<'v, S: Scope> ReadTx<'v, S> {
    pub(super) fn new(view: &'v dyn View, scope: S, now: Now) -> Self {
        let fenced = scope.org().is_some_and(|org| view.is_fenced(org));
        ReadTx { view, scope, now, fenced, hidden: fenced }
    }

    /// The date at which this transaction began: for what is written down, and for dates that somebody named.
    pub fn now(&self) -> Timestamp {
        self.now.date
    }

    /// The moment at which it began: for what waits, lasts or ends after a while.
    pub fn moment(&self) -> Moment {
        self.now.moment
    }

    /// The whole look at the clock.
    pub fn clock(&self) -> &Now {
        &self.now
    }

    /// The date of a moment, to be shown.
    pub fn date_of(&self, moment: Moment) -> Timestamp {
        self.now.date_of(moment)
    }

    /// For how long a date that the box wrote has been past.
    pub fn age(&self, date: Timestamp) -> Duration {
        self.now.age(date)
    }

    /// Whether the scope is an organization that was erased or is being erased.
    pub fn is_behind_fence(&self) -> bool {
        self.fenced
    }

    pub(super) fn view(&self) -> &'v dyn View {
        self.view
    }

    fn key<K: Key>(&self, key: &K) -> Vec<u8> {
        let mut bytes = self.scope.prefix();
        key.encode(&mut bytes);
        bytes
    }

    /// The row under `key`, if this scope has one.
    pub fn get<K: Key, V: Record>(&self, table: &Table<S, K, V>, key: &K) -> Result<Option<V>> {
        self.get_raw(table.name, &self.key(key))?.map(|bytes| decoded(&bytes)).transpose()
    }

    /// The row under `key`, and how many bytes it takes.
    pub fn get_sized<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        key: &K,
    ) -> Result<Option<(V, usize)>> {
        let bytes = self.get_raw(table.name, &self.key(key))?;
        bytes.map(|bytes| Ok((decoded(&bytes)?, bytes.len()))).transpose()
    }

    /// The row under `key`, or the 404 that a missing row and a foreign one share.
    pub fn require<K: Key, V: Record>(&self, table: &Table<S, K, V>, key: &K) -> Result<V> {
        self.get(table, key)?.ok_or_else(|| Error::not_found(table.noun))
    }

    /// The row for which `index` holds this key; the first one if it does for several.
    pub fn lookup<K: Key, V: Record, I: IndexKey>(
        &self,
        table: &Table<S, K, V>,
        index: &Index<I, V>,
        key: impl Prefix<I, Rest = ()>,
    ) -> Result<Option<V>> {
        let (prefix, index) = (self.index_prefix(index, &key), index.form);
        let primary = if index.unique {
            self.get_raw(index.name, &prefix)?
        } else {
            self.scan_raw(index.name, &prefix, None, Order::Ascending, 1)?.pop().map(|(_, primary)| primary)
        };
        primary.map_or(Ok(None), |primary| self.by_primary(table, &primary))
    }

    /// Whether `index` has any row whose key begins with `prefix`.
    pub fn exists<V: Record, I: IndexKey>(
        &self,
        index: &Index<I, V>,
        prefix: impl Prefix<I>,
    ) -> Result<bool> {
        let prefix = self.index_prefix(index, &prefix);
        Ok(!self.scan_raw(index.name(), &prefix, None, Order::Ascending, 1)?.is_empty())
    }

    /// Up to `limit` rows of the table after `after` (exclusive).
    pub fn scan<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        after: Option<&K>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let prefix = self.scope.prefix();
        let after = after.map(|key| self.key(key));
        self.scan_raw(table.name, &prefix, after.as_deref(), order, limit)?
            .into_iter()
            .map(|(key, value)| Ok((primary_key(table.name, &key[prefix.len()..])?, decoded(&value)?)))
            .collect()
    }

    /// Up to `limit` rows whose index keys begin with `prefix`, in the order of the index.
    pub fn scan_index<K: Key, V: Record, I: IndexKey>(
        &self,
        table: &Table<S, K, V>,
        index: &Index<I, V>,
        prefix: impl Prefix<I>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<V>> {
        let prefix = self.index_prefix(index, &prefix);
        let mut rows = Vec::new();
        for (_, primary) in self.scan_raw(index.name(), &prefix, None, order, limit)? {
            rows.extend(self.by_primary(table, &primary)?);
        }
        Ok(rows)
    }

    /// How many rows the scope has in `table`, counting no further than `max`.
    pub fn count<K: Key, V: Record>(&self, table: &Table<S, K, V>, max: usize) -> Result<usize> {
        self.count_raw(table.name, &self.scope.prefix(), max)
    }

    /// How many entries `index` has whose keys begin with `prefix`, counting no further than `max`.
    pub fn count_index<V: Record, I: IndexKey>(
        &self,
        index: &Index<I, V>,
        prefix: impl Prefix<I>,
        max: usize,
    ) -> Result<usize> {
        self.count_raw(index.name(), &self.index_prefix(index, &prefix), max)
    }

    /// Entries between the first that begins with `first` and the last that begins with `last`, behind `after`.
    pub(super) fn scan_between(
        &self,
        table: &'static str,
        first: &[u8],
        last: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<RawRow>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        if self.hidden {
            return Ok(Vec::new());
        }
        let low = after.filter(|after| *after >= first).map_or(Included(first), Excluded);
        let end = after_prefix(last);
        self.view.scan(table, low, end.as_deref().map_or(Unbounded, Excluded), false, limit)
    }

    fn count_raw(&self, table: &'static str, prefix: &[u8], max: usize) -> Result<usize> {
        let (mut total, mut after) = (0, None::<Vec<u8>>);
        while total < max {
            let chunk = (max - total).min(1_024);
            let entries = self.scan_raw(table, prefix, after.as_deref(), Order::Ascending, chunk)?;
            total += entries.len();
            if entries.len() < chunk {
                break;
            }
            after = entries.into_iter().next_back().map(|(key, _)| key);
        }
        Ok(total)
    }

    pub(super) fn by_primary<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        primary: &[u8],
    ) -> Result<Option<V>> {
        Ok(self.by_primary_sized(table, primary)?.map(|(row, _)| row))
    }

    /// The row, and how many bytes it takes.
    pub(super) fn by_primary_sized<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        primary: &[u8],
    ) -> Result<Option<(V, usize)>> {
        let key = [self.scope.prefix().as_slice(), primary].concat();
        self.get_raw(table.name, &key)?.map(|bytes| Ok((decoded(&bytes)?, bytes.len()))).transpose()
    }

    fn get_raw(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.hidden { Ok(None) } else { self.view.get(table, key) }
    }

    pub(super) fn index_prefix<V, I: IndexKey>(
        &self,
        index: &Index<I, V>,
        prefix: &impl Prefix<I>,
    ) -> Vec<u8> {
        debug_assert!(index.form.reach == Reach::Scope, "a global index is read through System");
        prefix_bytes(self.scope.prefix(), prefix)
    }

    pub(super) fn scan_raw(
        &self,
        table: &'static str,
        prefix: &[u8],
        after: Option<&[u8]>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<RawRow>> {
        self.scan_raw_within(table, prefix, after, order, (limit, usize::MAX))
    }

    /// The same, ended by the row with which the second bound, of bytes, is reached.
    pub(super) fn scan_raw_within(
        &self,
        table: &'static str,
        prefix: &[u8],
        after: Option<&[u8]>,
        order: Order,
        max: (usize, usize),
    ) -> Result<Vec<RawRow>> {
        if self.hidden {
            return Ok(Vec::new());
        }
        scan_prefix(self.view, table, prefix, after, order, max)
    }
}

fn scan_prefix(
    view: &dyn View,
    table: &'static str,
    prefix: &[u8],
    after: Option<&[u8]>,
    order: Order,
    (limit, bytes_max): (usize, usize),
) -> Result<Vec<RawRow>> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let end = after_prefix(prefix);
    let end = end.as_deref();
    let (low, high) = match (order, after) {
        (Order::Ascending, Some(key)) if key >= prefix => (Excluded(key), end.map_or(Unbounded, Excluded)),
        (Order::Descending, Some(key)) if end.is_none_or(|end| key < end) => {
            (Included(prefix), Excluded(key))
        }
        _ => (Included(prefix), end.map_or(Unbounded, Excluded)),
    };
    view.scan_within(table, low, high, order == Order::Descending, limit, bytes_max)
}

impl SysRead<'_> {
    /// The row, and its organization, for which a unique global index holds this key.
    pub fn lookup_global<K: Key, V: Record, I: IndexKey>(
        &self,
        table: &OrgTable<K, V>,
        index: &Index<I, V>,
        key: impl Prefix<I, Rest = ()>,
    ) -> Result<Option<(OrgId, V)>> {
        debug_assert!(index.form.reach == Reach::Global && index.form.unique);
        let key = prefix_bytes(Vec::new(), &key);
        let Some(target) = self.view.get(index.name(), &key)? else { return Ok(None) };
        let org = org_of(&target)?;
        if self.view.is_fenced(org) {
            return Ok(None);
        }
        let row = self.view.get(table.name, &target)?.map(|bytes| decoded(&bytes)).transpose()?;
        Ok(row.map(|row| (org, row)))
    }

    /// The first organization after `after` that has a row in the table of this name.
    pub fn next_org(&self, table: &'static str, after: Option<OrgId>) -> Result<Option<OrgId>> {
        use std::ops::Bound::{Included, Unbounded};
        let low = match after {
            None => Some(Vec::new()),
            Some(org) => after_prefix(&OrgScope(org).prefix()),
        };
        let Some(low) = low else { return Ok(None) };
        let first = self.view.scan(table, Included(&low), Unbounded, false, 1)?;
        first.first().map(|(key, _)| org_of(key)).transpose()
    }

    /// Change records after `after`, oldest first, at most `limit`.
    pub fn changes(&self, after: u64, limit: usize) -> Result<Vec<changes::Change>> {
        changes::read(self.view, after, limit)
    }

    /// The number of the oldest change record that is still kept, or of the next one when none is.
    pub fn changes_begin(&self) -> Result<u64> {
        changes::begin(self.view)
    }

    /// The rows of one organization within this same moment.
    pub fn org(&self, org: OrgId) -> OrgRead<'_> {
        ReadTx::new(self.view, OrgScope(org), self.now.clone())
    }

    /// Whether the organization was erased or is being erased: it shows no rows and takes none.
    pub fn is_fenced(&self, org: OrgId) -> bool {
        self.view.is_fenced(org)
    }

    /// The rows of one organization, also behind its fence: for what erases them.
    pub fn behind_fence(&self, org: OrgId) -> OrgRead<'_> {
        ReadTx { hidden: false, ..ReadTx::new(self.view, OrgScope(org), self.now.clone()) }
    }
}

impl OrgRead<'_> {
    /// The last key of a table, without the row behind it.
    pub fn last_key<K: Key, V>(&self, table: &OrgTable<K, V>) -> Result<Option<K>> {
        let prefix = self.scope.prefix();
        let last = self.scan_raw(table.name, &prefix, None, Order::Descending, 1)?;
        last.first().map(|(key, _)| primary_key(table.name, &key[prefix.len()..])).transpose()
    }

    /// The organization whose rows these are.
    pub fn org_id(&self) -> OrgId {
        self.scope.0
    }

    /// Up to `limit` keys of the table of this name after `after`, as change records carry them: for rebuilding what
    /// follows a table whose rows only its own slice can read.
    pub fn keys(&self, table: &'static str, after: Option<&[u8]>, limit: usize) -> Result<Vec<Vec<u8>>> {
        let prefix = self.scope.prefix();
        let after = after.map(|key| [prefix.as_slice(), key].concat());
        let rows = self.scan_raw(table, &prefix, after.as_deref(), Order::Ascending, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key[prefix.len()..].to_vec()).collect())
    }
}

/// Rows of one scope, and changes to them that become true together or not at all.
pub struct WriteTx<'v, S> {
    rows: ReadTx<'v, S>,
    view: &'v WriteView<'v>,
}

/// A write transaction of one organization.
pub type OrgWrite<'v> = WriteTx<'v, OrgScope>;
/// A write transaction over rows without an organization.
pub type SysWrite<'v> = WriteTx<'v, SystemScope>;

impl<'v, S> Deref for WriteTx<'v, S> {
    type Target = ReadTx<'v, S>;

    fn deref(&self) -> &ReadTx<'v, S> {
        &self.rows
    }
}

impl<'v, S: Scope> WriteTx<'v, S> {
    pub(super) fn new(view: &'v WriteView<'v>, scope: S, now: Now) -> Self {
        WriteTx { rows: ReadTx::new(view, scope, now), view }
    }

    /// The view itself, for what the store keeps beside the slices' tables.
    pub(super) fn raw(&self) -> &'v WriteView<'v> {
        self.view
    }

    /// Stores `row` under `key`, replacing one that is there. A key that a unique index has already is refused.
    pub fn put<K: Key, V: Record>(&self, table: &Table<S, K, V>, key: &K, row: &V) -> Result<()> {
        let full = self.key(key);
        // Only indexes and counts ask what was there.
        let is_asked = table.is_counted() || !table.indexes.is_empty();
        let old = if is_asked { self.view.get(table.name, &full)? } else { None };
        self.replace(table, key, full, old, row)
    }

    /// Stores a row whatever stands there, also over one that cannot be read: for what is worth less than going on, such as
    /// counters. Index entries of what could not be read stay, and lead to this row.
    pub fn put_over<K: Key, V: Record>(&self, table: &Table<S, K, V>, key: &K, row: &V) -> Result<()> {
        let full = self.key(key);
        let old = self.view.get(table.name, &full)?.filter(|old| decoded::<V>(old).is_ok());
        self.replace(table, key, full, old, row)
    }

    /// Stores a row that must be new: `already_exists` when the key is taken.
    pub fn insert<K: Key, V: Record>(&self, table: &Table<S, K, V>, key: &K, row: &V) -> Result<()> {
        let full = self.key(key);
        if self.view.get(table.name, &full)?.is_some() {
            return Err(taken(table));
        }
        self.replace(table, key, full, None, row)
    }

    fn replace<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        key: &K,
        full: Vec<u8>,
        old: Option<Vec<u8>>,
        row: &V,
    ) -> Result<()> {
        if self.rows.fenced {
            return Err(Error::new(Code::OrgNotFound));
        }
        let bytes = codec::encode(row).map_err(|e| Error::internal("encode a row", e))?;
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(Error::new(Code::PayloadTooLarge).message(format!(
                "{} would take {} bytes; at most {VALUE_BYTES_MAX} are stored",
                table.noun,
                bytes.len()
            )));
        }
        let before = old.as_deref();
        let old = match table.needs_rows() {
            true => before.map(decoded::<V>).transpose()?,
            false => None,
        };
        if !table.indexes.is_empty() {
            self.reindex(table, key, old.as_ref(), Some(row))?;
        }
        let was = before.map(|before| table.size(&full, before, old.as_ref()));
        self.count_growth(table, was, Some(table.size(&full, &bytes, Some(row))));
        self.view.set(table.name, full, Some(bytes));
        self.tell(table, key, false);
        Ok(())
    }

    /// Removes the row under `key`; whether there was one.
    pub fn delete<K: Key, V: Record>(&self, table: &Table<S, K, V>, key: &K) -> Result<bool> {
        let full = self.key(key);
        let Some(old) = self.rows.get_raw(table.name, &full)? else { return Ok(false) };
        let row = if table.needs_rows() { Some(decoded::<V>(&old)?) } else { None };
        if !table.indexes.is_empty() {
            self.reindex(table, key, row.as_ref(), None)?;
        }
        self.count_growth(table, Some(table.size(&full, &old, row.as_ref())), None);
        self.view.set(table.name, full, None);
        self.tell(table, key, true);
        Ok(true)
    }

    /// Counts a row that takes the place of another one; see `usage.rs`.
    fn count_growth<K, V>(&self, table: &Table<S, K, V>, was: Option<u64>, is: Option<u64>) {
        if let (true, Some(org)) = (table.is_counted(), self.scope.org()) {
            let signed = |bytes: Option<u64>| i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX);
            let rows = i64::from(is.is_some()) - i64::from(was.is_some());
            self.view.grow(org, table.name, Growth { rows, bytes: signed(is) - signed(was) });
        }
    }

    /// Says that the operation ends or removes something, and so goes through also where an organization has used all
    /// its room.
    pub fn needs_no_room(&self) {
        self.view.exempt();
    }

    fn tell<K: Key, V>(&self, table: &Table<S, K, V>, key: &K, deleted: bool) {
        if let (true, Some(org)) = (table.fed, self.scope.org()) {
            changes::tell(self.view, org, table.name, &encoded(key), deleted, self.now.date);
        }
    }

    fn reindex<K: Key, V: Record>(
        &self,
        table: &Table<S, K, V>,
        key: &K,
        old: Option<&V>,
        new: Option<&V>,
    ) -> Result<()> {
        let primary = encoded(key);
        // Nothing is changed before every index has agreed: a caller may go on after a refusal.
        let mut changes = Vec::new();
        for (index, form) in table.indexes.iter().map(|index| (index, index.form())) {
            let keys = |row: Option<&V>| row.map(|row| index.keys_of(row)).unwrap_or_default();
            let (index, before, after) = (form, keys(old), keys(new));
            for key in before.iter().filter(|key| !after.contains(key)) {
                changes.push((index.name, self.entry(index, key, &primary).0, None));
            }
            for key in after.iter().filter(|key| !before.contains(key)) {
                let (entry, target) = self.entry(index, key, &primary);
                if index.reach == Reach::Global {
                    self.view.register_global(index.name);
                }
                if index.unique && self.view.get(index.name, &entry)?.is_some_and(|held| held != target) {
                    return Err(taken(table));
                }
                changes.push((index.name, entry, Some(target)));
            }
        }
        for (index, entry, target) in changes {
            self.view.set(index, entry, target);
        }
        Ok(())
    }

    fn entry(&self, index: IndexForm, key: &[u8], primary: &[u8]) -> (Vec<u8>, Vec<u8>) {
        index_entry(index, &self.scope.prefix(), key, primary)
    }

    /// Has `act` run once this operation is committed, or may be; not where it was refused or nothing of it was kept. It runs
    /// on the writer's thread: short, and without a write of its own.
    pub fn after_commit(&self, act: impl FnOnce(Committed) + Send + 'static) {
        self.view.act_after(Box::new(act));
    }

    /// The number that the next change record of this operation will carry.
    pub fn next_sequence(&self) -> u64 {
        self.view.next_sequence()
    }
}

impl OrgWrite<'_> {
    /// Wakes who waits for news of the organization ([`super::OrgStore::bell`]), once this operation is committed.
    pub fn ring(&self) {
        self.view.ring(self.org_id());
    }
}

impl SysWrite<'_> {
    /// One organization's rows within this same transaction.
    pub fn org(&self, org: OrgId) -> OrgWrite<'_> {
        WriteTx::new(self.view, OrgScope(org), self.clock().clone())
    }

    /// Removes the change records up to and including `sequence`; every consumer must be past it.
    pub fn forget_changes(&self, sequence: u64, limit: usize) -> Result<usize> {
        changes::forget(self.view, sequence, limit)
    }
}

/// An index entry of a row in a scope: its key and what it points to.
pub(super) fn index_entry(index: IndexForm, scope: &[u8], key: &[u8], primary: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let tail: &[u8] = if index.unique { &[] } else { primary };
    match index.reach {
        Reach::Scope => ([scope, key, tail].concat(), primary.to_vec()),
        Reach::Global if index.unique => (key.to_vec(), [scope, primary].concat()),
        Reach::Global => ([key, scope, tail].concat(), [scope, primary].concat()),
    }
}

fn taken<S, K, V>(table: &Table<S, K, V>) -> Error {
    Error::new(Code::AlreadyExists).title(format!("{} already exists", table.noun))
}

pub(super) fn decoded<V: Record>(bytes: &[u8]) -> Result<V> {
    let told = "A stored row is damaged. The box's operator finds it with `gleaner doctor`.";
    codec::decode(bytes).map_err(|e| Error::internal("decode a row", e).message(told))
}

fn primary_key<K: Key>(table: &'static str, bytes: &[u8]) -> Result<K> {
    K::decode(bytes).ok_or_else(|| Error::internal("decode a key", format!("of table {table}")))
}

fn org_of(key: &[u8]) -> Result<OrgId> {
    key.get(..16)
        .and_then(OrgId::decode)
        .ok_or_else(|| Error::internal("decode a key", "it names no organization"))
}
