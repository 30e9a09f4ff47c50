//! What a slice declares: a table, its secondary indexes, and whether its changes are told.
//!
//! An index is a function from a row to keys; `put` and `delete` keep it. A *global* index crosses organizations and
//! can be read through `System` only: the leases of jobs are one (`jobs.lease`), so leases and rows can never disagree.

use super::key::IndexKeys;
use super::tx::{OrgScope, Scope, SystemScope};
use std::marker::PhantomData;

/// How far an index reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Inside the scope of its table: one organization, or the system.
    Scope,
    /// Across organizations.
    Global,
}

/// A secondary index, declared beside its table.
pub struct Index<V> {
    pub(super) name: &'static str,
    pub(super) unique: bool,
    pub(super) reach: Reach,
    pub(super) keys: fn(&V, &mut IndexKeys),
    /// The index that older releases kept in its place, and whose entries the first start moves.
    pub(super) before: Option<&'static str>,
}

impl<V> Index<V> {
    /// An index named `table.what`; several rows may share a key.
    pub const fn new(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: false, reach: Reach::Scope, keys, before: None }
    }

    /// An index in which a key stands for one row; a second row is refused with `already_exists`.
    pub const fn unique(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: true, reach: Reach::Scope, keys, before: None }
    }

    /// An index over the rows of all organizations, readable through `System`.
    pub const fn global(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: false, reach: Reach::Global, keys, before: None }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Says which index older releases kept in its place: each of its entries stands for one that this one lacks until the
    /// first start has moved it.
    pub const fn instead_of(mut self, before: &'static str) -> Index<V> {
        self.before = Some(before);
        self
    }

    /// A global index in which a key stands for one row of one organization.
    pub const fn global_unique(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: true, reach: Reach::Global, keys, before: None }
    }
}

/// A table of rows `V` under keys `K` in scope `S`.
pub struct Table<S, K, V: 'static> {
    pub(super) name: &'static str,
    pub(super) noun: &'static str,
    pub(super) indexes: &'static [&'static Index<V>],
    pub(super) fed: bool,
    uncounted: bool,
    weight: Option<fn(&V) -> u64>,
    marker: PhantomData<fn(S, K)>,
}

/// A table whose rows belong to organizations.
pub type OrgTable<K, V> = Table<OrgScope, K, V>;
/// A table of rows without an organization.
pub type SysTable<K, V> = Table<SystemScope, K, V>;

impl<S, K, V> Table<S, K, V> {
    /// A table; `noun` is what an error calls a row ("Workflow not found").
    pub const fn new(name: &'static str, noun: &'static str) -> Self {
        Table { name, noun, indexes: &[], fed: false, uncounted: false, weight: None, marker: PhantomData }
    }

    pub const fn indexed(mut self, indexes: &'static [&'static Index<V>]) -> Self {
        self.indexes = indexes;
        self
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub const fn noun(&self) -> &'static str {
        self.noun
    }
}

impl<S: Scope, K, V> Table<S, K, V> {
    /// Whether what the organization has here counts as what it stores.
    pub(super) const fn is_counted(&self) -> bool {
        S::PREFIX_BYTES > 0 && !self.uncounted
    }

    /// Whether a change of a row asks what the row said.
    pub(super) const fn needs_rows(&self) -> bool {
        !self.indexes.is_empty() || self.weight.is_some()
    }

    /// What a row counts in bytes: its key, its value, and what it stands for.
    pub(super) fn size(&self, key: &[u8], value: &[u8], row: Option<&V>) -> u64 {
        let beside = self.weight.zip(row).map_or(0, |(weight, row)| weight(row));
        (key.len() + value.len()) as u64 + beside
    }
}

impl<K, V> OrgTable<K, V> {
    /// What is here is the box's book on the organization, or is bounded and goes by itself: it does not count as what
    /// the organization stores.
    pub const fn uncounted(mut self) -> Self {
        self.uncounted = true;
        self
    }

    /// Each row stands for so many bytes outside of the store, which count with it.
    pub const fn weighing(mut self, weight: fn(&V) -> u64) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Every change of a row is also a change record for the consumers (search, snapshots …).
    pub const fn fed(mut self) -> Self {
        self.fed = true;
        self
    }
}
