//! Entries of an index without the rows behind them, and moving what an older release kept in another index.

use super::key::{IndexKeys, Key, KeyWriter, after_prefix, encoded};
use super::table::{Index, Reach, SysTable};
use super::tx::{Order, OrgRead, OrgScope, OrgWrite, Scope, SysRead, SysWrite, index_entry};
use super::view::View;
use base::ids::OrgId;
use base::{Error, Result};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// One entry of an index of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<K> {
    /// What the index made of the row.
    pub index_key: Vec<u8>,
    pub key: K,
}

impl OrgRead<'_> {
    /// Up to `limit` entries of an index whose keys are at least `from` and less than `below`, in key order.
    pub fn index_entries<K: Key, V>(
        &self,
        index: &Index<V>,
        from: &[u8],
        below: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry<K>>> {
        debug_assert!(index.reach == Reach::Scope && !index.unique);
        if self.is_behind_fence() {
            return Ok(Vec::new());
        }
        let prefix = self.scope.prefix();
        let low = [prefix.as_slice(), from].concat();
        let high = match below {
            Some(below) => Some([prefix.as_slice(), below].concat()),
            None => after_prefix(&prefix),
        };
        let (view, _) = self.audit_parts();
        let high = high.as_deref().map_or(Unbounded, Excluded);
        let rows = view.scan(index.name, Included(&low), high, false, limit)?;
        rows.into_iter().map(|(key, primary)| entry(index.name, &key, &primary)).collect()
    }
}

fn entry<K: Key>(index: &'static str, key: &[u8], primary: &[u8]) -> Result<Entry<K>> {
    let index_key = key.get(OrgScope::PREFIX_BYTES..key.len().saturating_sub(primary.len()));
    index_key
        .zip(K::decode(primary))
        .map(|(index_key, key)| Entry { index_key: index_key.to_vec(), key })
        .ok_or_else(|| Error::internal("decode a key", format!("of index {index}")))
}

impl SysRead<'_> {
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

    /// The keys of up to `limit` rows whose entries of an index start with the parts that `write` composes, in the order of
    /// the index.
    pub fn lookup_keys<K: Key, V>(
        &self,
        table: &SysTable<K, V>,
        index: &Index<V>,
        write: impl FnOnce(&mut KeyWriter) -> &mut KeyWriter,
        limit: usize,
    ) -> Result<Vec<K>> {
        let prefix = self.index_prefix(index, write);
        let entries = self.scan_raw(index.name, &prefix, None, Order::Ascending, limit)?;
        let key = |(_, primary): (Vec<u8>, Vec<u8>)| {
            let reason = || Error::internal("decode a key", format!("of table {}", table.name()));
            K::decode(&primary).ok_or_else(reason)
        };
        entries.into_iter().map(key).collect()
    }
}

impl OrgWrite<'_> {
    /// Enters a row into an index that was declared after the row was stored.
    pub fn fill_index<K: Key, V>(&self, index: &Index<V>, key: &K, row: &V) {
        let mut keys = IndexKeys::default();
        (index.keys)(row, &mut keys);
        for index_key in &keys.0 {
            let (entry, target) = index_entry(index, &self.scope.prefix(), index_key, &encoded(key));
            self.raw().set(index.name, entry, Some(target));
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
