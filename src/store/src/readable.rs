//! Walks that pass over what cannot be read: work for all organizations, or for everybody at the start, must not end at one
//! damaged row. Who asks for a row gets its error all the same, and `gleaner doctor` names it.

use super::key::Key;
use super::table::{OrgTable, SysTable};
use super::tx::{InOrg, Scope, SysRead, decoded};
use base::Result;
use base::codec::Record;
use base::ids::OrgId;
use std::ops::Bound::{Excluded, Unbounded};

/// A step of such a walk.
pub struct Readable<T> {
    /// The rows that could be read.
    pub rows: Vec<T>,
    /// Where the next step goes on; none at the end of the table.
    pub next: Option<Vec<u8>>,
}

impl SysRead<'_> {
    /// The readable ones of up to `limit` rows of all organizations behind `after`, with their organizations and keys.
    pub fn readable_all<K: Key, V: Record>(
        &self,
        table: &OrgTable<K, V>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Readable<(OrgId, K, V)>> {
        self.readable(table.name(), after, limit, |key, value| {
            let (org, primary) = key.split_at_checked(InOrg::PREFIX_BYTES)?;
            Some((OrgId::decode(org)?, K::decode(primary)?, decoded(value).ok()?))
        })
    }

    /// The same of one of the box's own tables.
    pub fn readable_own<K: Key, V: Record>(
        &self,
        table: &SysTable<K, V>,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Readable<(K, V)>> {
        self.readable(table.name(), after, limit, |key, value| Some((K::decode(key)?, decoded(value).ok()?)))
    }

    fn readable<T>(
        &self,
        table: &'static str,
        after: Option<&[u8]>,
        limit: usize,
        read: impl Fn(&[u8], &[u8]) -> Option<T>,
    ) -> Result<Readable<T>> {
        let low = after.map_or(Unbounded, Excluded);
        let found = self.view().scan(table, low, Unbounded, false, limit)?;
        let mut rows = Vec::with_capacity(found.len());
        for (key, value) in &found {
            match read(key, value) {
                Some(row) => rows.push(row),
                None => tracing::error!(table, "a damaged row is passed over; `gleaner doctor` names it"),
            }
        }
        Ok(Readable { rows, next: found.into_iter().next_back().map(|(key, _)| key) })
    }
}
