//! What a slice declares: a table, its secondary indexes, and whether its changes are told.
//!
//! An index is a function from a row to keys; `put` and `delete` keep it. A *global* index crosses organizations and
//! can be read through `System` only: the leases of jobs are one (`jobs.lease`), so leases and rows can never disagree.

use super::index_key::{IndexKey, IndexKeys};
use super::scope::{OrgScope, Scope, SystemScope};
use std::marker::PhantomData;

/// How far an index reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Inside the scope of its table: one organization, or the system.
    Scope,
    /// Across organizations.
    Global,
}

/// What there is to an index beside its keys.
#[derive(Clone, Copy)]
pub struct IndexForm {
    pub(super) name: &'static str,
    pub(super) unique: bool,
    pub(super) reach: Reach,
    /// The index that older releases kept in its place, and whose entries the first start moves.
    pub(super) before: Option<&'static str>,
}

/// A secondary index with keys `K` of rows `V`, declared beside its table.
pub struct Index<K, V> {
    pub(super) form: IndexForm,
    keys: fn(&V, &mut IndexKeys<K>),
}

impl<K, V> Index<K, V> {
    const fn of(
        name: &'static str,
        unique: bool,
        reach: Reach,
        keys: fn(&V, &mut IndexKeys<K>),
    ) -> Index<K, V> {
        Index { form: IndexForm { name, unique, reach, before: None }, keys }
    }

    /// An index named `table.what`; several rows may share a key.
    pub const fn new(name: &'static str, keys: fn(&V, &mut IndexKeys<K>)) -> Index<K, V> {
        Index::of(name, false, Reach::Scope, keys)
    }

    /// An index in which a key stands for one row; a second row is refused with `already_exists`.
    pub const fn unique(name: &'static str, keys: fn(&V, &mut IndexKeys<K>)) -> Index<K, V> {
        Index::of(name, true, Reach::Scope, keys)
    }

    /// An index over the rows of all organizations, readable through `System`.
    pub const fn global(name: &'static str, keys: fn(&V, &mut IndexKeys<K>)) -> Index<K, V> {
        Index::of(name, false, Reach::Global, keys)
    }

    /// A global index in which a key stands for one row of one organization.
    pub const fn global_unique(name: &'static str, keys: fn(&V, &mut IndexKeys<K>)) -> Index<K, V> {
        Index::of(name, true, Reach::Global, keys)
    }

    pub const fn name(&self) -> &'static str {
        self.form.name
    }

    /// Says which index older releases kept in its place: each of its entries stands for one that this one lacks until the
    /// first start has moved it.
    pub const fn instead_of(mut self, before: &'static str) -> Index<K, V> {
        self.form.before = Some(before);
        self
    }
}

/// An index of rows `V`, whatever its keys are: as its table keeps it.
pub trait AnyIndex<V>: Sync {
    fn form(&self) -> IndexForm;

    /// The keys of a row, as bytes.
    fn keys_of(&self, row: &V) -> Vec<Vec<u8>>;
}

impl<K: IndexKey, V> AnyIndex<V> for Index<K, V> {
    fn form(&self) -> IndexForm {
        self.form
    }

    fn keys_of(&self, row: &V) -> Vec<Vec<u8>> {
        let mut keys = IndexKeys::new();
        (self.keys)(row, &mut keys);
        keys.keys
    }
}

/// A table of rows `V` under keys `K` in scope `S`.
pub struct Table<S, K, V: 'static> {
    pub(super) name: &'static str,
    pub(super) noun: &'static str,
    pub(super) indexes: &'static [&'static dyn AnyIndex<V>],
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

    pub const fn indexed(mut self, indexes: &'static [&'static dyn AnyIndex<V>]) -> Self {
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
