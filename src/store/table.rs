//! What a slice declares: a table, its secondary indexes, and whether its changes are told.
//!
//! An index is a function from a row to keys; `put` and `delete` keep it. A *global* index crosses organizations and
//! can be read through `System` only: the leases of jobs are one (`jobs.lease`), so leases and rows can never disagree.

use super::key::IndexKeys;
use super::tx::{InOrg, InSystem};
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
}

impl<V> Index<V> {
    /// An index named `table.what`; several rows may share a key.
    pub const fn new(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: false, reach: Reach::Scope, keys }
    }

    /// An index in which a key stands for one row; a second row is refused with `already_exists`.
    pub const fn unique(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: true, reach: Reach::Scope, keys }
    }

    /// An index over the rows of all organizations, readable through `System`.
    pub const fn global(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: false, reach: Reach::Global, keys }
    }

    /// A global index in which a key stands for one row of one organization.
    pub const fn global_unique(name: &'static str, keys: fn(&V, &mut IndexKeys)) -> Index<V> {
        Index { name, unique: true, reach: Reach::Global, keys }
    }
}

/// A table of rows `V` under keys `K` in scope `S`.
pub struct Table<S, K, V: 'static> {
    pub(super) name: &'static str,
    pub(super) noun: &'static str,
    pub(super) indexes: &'static [&'static Index<V>],
    pub(super) fed: bool,
    marker: PhantomData<fn(S, K)>,
}

/// A table whose rows belong to organizations.
pub type OrgTable<K, V> = Table<InOrg, K, V>;
/// A table of rows without an organization.
pub type SysTable<K, V> = Table<InSystem, K, V>;

impl<S, K, V> Table<S, K, V> {
    /// A table; `noun` is what an error calls a row ("Workflow not found").
    pub const fn new(name: &'static str, noun: &'static str) -> Self {
        Table { name, noun, indexes: &[], fed: false, marker: PhantomData }
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

impl<K, V> OrgTable<K, V> {
    /// Every change of a row is also a change record for the consumers (search, snapshots …).
    pub const fn fed(mut self) -> Self {
        self.fed = true;
        self
    }
}
