//! Entries of an index without the rows behind them, and moving what an older release kept in another index.

use super::index_key::{IndexKey, Prefix, Seek, part_bytes};
use super::key::{Key, after_prefix, encoded};
use super::raw::{RawRow, View};
use super::readable::{damaged_key, owner, step};
use super::scope::{OrgScope, Scope};
use super::table::{AnyIndex, Index, OrgTable, Reach, SysTable};
use super::tx::{Order, OrgRead, OrgWrite, SysRead, SysWrite, index_entry};
use base::ids::OrgId;
use base::{Error, Result};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// One entry of an index of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<R, K> {
    /// What follows the prefix that was asked for in the index's key; none where that is damaged.
    pub rest: Option<R>,
    pub key: K,
}

/// One entry of a global index: whose row it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalEntry<K, I> {
    pub org: OrgId,
    pub key: K,
    /// What the index has it under; none where that is damaged.
    pub under: Option<I>,
}

/// A step of a walk through an index.
#[derive(Clone, Debug)]
pub struct IndexStep<I, E> {
    /// Those that could be read; the others are passed over.
    pub entries: Vec<E>,
    /// Where the next step goes on.
    pub next: Seek<I>,
    /// Whether it came to the end, so that a further step finds nothing.
    pub is_last: bool,
}

impl<I, E> IndexStep<I, E> {
    /// A step that was to look at `limit` entries from a place on, and found these, whose keys begin with `scope` bytes that
    /// are not the index's.
    fn over(
        index: &'static str,
        (found, scope): (Vec<RawRow>, usize),
        (from, limit): (&Seek<I>, usize),
        read: impl Fn(&[u8], &[u8]) -> Result<E>,
    ) -> Result<IndexStep<I, E>> {
        let step = step(index, found, limit, |entry, target| read(entry, target).map(Some))?;
        let is_last = step.more().is_none();
        let next = step.next.map_or_else(|| from.clone(), |last| Seek::behind_entry(last[scope..].to_vec()));
        Ok(IndexStep { entries: step.rows, next, is_last })
    }

    /// A step to where nothing can be.
    fn nowhere() -> IndexStep<I, E> {
        IndexStep { entries: Vec::new(), next: Seek::new(None), is_last: true }
    }
}

impl OrgRead<'_> {
    /// Up to `limit` entries of an index of `table` from a place on, of those whose keys begin with `prefix`, in their order.
    pub fn index_entries<K: Key, V, I: IndexKey, P: Prefix<I>>(
        &self,
        table: &OrgTable<K, V>,
        index: &Index<I, V>,
        prefix: P,
        from: &Seek<I>,
        limit: usize,
    ) -> Result<IndexStep<I, Entry<P::Rest, K>>> {
        debug_assert!(!index.form.unique && index.name().starts_with(table.name()));
        let seek = from.from.as_ref().filter(|_| !self.is_behind_fence());
        let Some(seek) = seek else { return Ok(IndexStep::nowhere()) };
        let first = self.index_prefix(index, &prefix);
        let low = [self.scope.prefix().as_slice(), seek].concat().max(first.clone());
        let end = after_prefix(&first);
        if end.as_ref().is_some_and(|end| low >= *end) {
            return Ok(IndexStep::nowhere());
        }
        let high = end.as_deref().map_or(Unbounded, Excluded);
        let found = self.view().scan(index.name(), Included(&low), high, false, limit)?;
        let found = (found, OrgScope::PREFIX_BYTES);
        IndexStep::over(index.name(), found, (from, limit), |entry, primary| {
            let key = K::decode(primary).ok_or_else(damaged_key)?;
            let rest = entry.get(first.len()..entry.len().saturating_sub(primary.len()));
            Ok(Entry { rest: rest.and_then(P::Rest::read), key })
        })
    }
}

impl SysRead<'_> {
    /// Up to `limit` entries of a global index from a place on, in the order of their keys; where `below` is given, of those
    /// whose first part is less.
    pub fn scan_global<K: Key, V, I: IndexKey>(
        &self,
        table: &OrgTable<K, V>,
        index: &Index<I, V>,
        from: &Seek<I>,
        below: Option<I::First>,
        limit: usize,
    ) -> Result<IndexStep<I, GlobalEntry<K, I>>> {
        debug_assert!(index.form.reach == Reach::Global && index.name().starts_with(table.name()));
        // An entry of a unique one ends with its key, from which the target would be cut.
        debug_assert!(!index.form.unique, "a unique index is looked up by its keys");
        let Some(low) = &from.from else { return Ok(IndexStep::nowhere()) };
        let end = below.map(|below| part_bytes(&below));
        if end.as_ref().is_some_and(|end| low >= end) {
            return Ok(IndexStep::nowhere());
        }
        let high = end.as_deref().map_or(Unbounded, Excluded);
        let found = self.view().scan(index.name(), Included(low), high, false, limit)?;
        IndexStep::over(index.name(), (found, 0), (from, limit), |entry, target| {
            let (org, key) = owner(target)?;
            let under = entry.get(..entry.len().saturating_sub(target.len())).and_then(I::read);
            Ok(GlobalEntry { org, key, under })
        })
    }

    /// The last key of one of the box's own tables.
    pub fn last_key<K: Key, V>(&self, table: &SysTable<K, V>) -> Result<Option<K>> {
        let last = self.scan_raw(table.name(), &[], None, Order::Descending, 1)?;
        let reason = || Error::internal("decode a key", format!("of table {}", table.name()));
        last.first().map(|(key, _)| K::decode(key).ok_or_else(reason)).transpose()
    }

    /// Up to `limit` keys of one of the box's own tables, in their order.
    pub fn own_keys<K: Key, V>(&self, table: &SysTable<K, V>, limit: usize) -> Result<Vec<K>> {
        let rows = self.scan_raw(table.name(), &[], None, Order::Ascending, limit)?;
        let key = |(key, _): (Vec<u8>, Vec<u8>)| {
            let reason = || Error::internal("decode a key", format!("of table {}", table.name()));
            K::decode(&key).ok_or_else(reason)
        };
        rows.into_iter().map(key).collect()
    }

    /// The keys of up to `limit` rows whose entries of an index begin with `prefix`, in the order of the index.
    pub fn lookup_keys<K: Key, V, I: IndexKey>(
        &self,
        table: &SysTable<K, V>,
        index: &Index<I, V>,
        prefix: impl Prefix<I>,
        limit: usize,
    ) -> Result<Vec<K>> {
        let prefix = self.index_prefix(index, &prefix);
        let entries = self.scan_raw(index.name(), &prefix, None, Order::Ascending, limit)?;
        let key = |(_, primary): (Vec<u8>, Vec<u8>)| {
            let reason = || Error::internal("decode a key", format!("of table {}", table.name()));
            K::decode(&primary).ok_or_else(reason)
        };
        entries.into_iter().map(key).collect()
    }
}

impl OrgWrite<'_> {
    /// Enters a row into an index that was declared after the row was stored.
    pub fn fill_index<K: Key, V, I: IndexKey>(&self, index: &Index<I, V>, key: &K, row: &V) {
        for index_key in &index.keys_of(row) {
            let (entry, target) = index_entry(index.form, &self.scope.prefix(), index_key, &encoded(key));
            self.raw().set(index.name(), entry, Some(target));
        }
    }
}

impl SysWrite<'_> {
    /// Removes up to `limit` entries of a global index that is declared no more, and gives the rows that they led to.
    pub fn retire_entries<K: Key>(&self, index: &'static str, limit: usize) -> Result<Vec<(OrgId, K)>> {
        let entries = self.raw().scan(index, Unbounded, Unbounded, false, limit)?;
        let mut rows = Vec::with_capacity(entries.len());
        for (key, target) in entries {
            let row = target.split_at_checked(OrgScope::PREFIX_BYTES);
            let row = row.and_then(|(org, primary)| Some((OrgId::decode(org)?, K::decode(primary)?)));
            rows.push(row.ok_or_else(|| Error::internal("decode a key", format!("of index {index}")))?);
            self.raw().set(index, key, None);
        }
        Ok(rows)
    }
}
