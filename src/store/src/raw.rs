//! Rows as bytes: what whoever keeps them and whoever asks for them share.

use super::counts::{self, Used};
use base::Result;
use base::ids::OrgId;
use redb::TableDefinition;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Key and value as redb has them.
pub(super) type RawRow = (Vec<u8>, Vec<u8>);

pub(super) type Bytes = &'static [u8];

pub(super) fn definition(name: &'static str) -> TableDefinition<'static, Bytes, Bytes> {
    TableDefinition::new(name)
}

/// Raw rows at one moment.
pub(super) trait View {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Up to `limit` rows between two bounds, from the high end when `reverse`.
    fn scan(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<RawRow>> {
        self.scan_within(table, low, high, reverse, limit, usize::MAX)
    }

    /// The same, ended by the row with which `bytes_max` of keys and values are reached: rows may be large.
    fn scan_within(
        &self,
        table: &'static str,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<RawRow>>;

    /// What an organization stores in a table; see `usage.rs`.
    fn used(&self, org: OrgId, table: &str) -> Result<Used> {
        self.get(counts::TABLE, &counts::key(org, table))?
            .map_or(Ok(Used::default()), |count| Used::decode(&count))
    }

    /// Whether the organization stands behind a fence: it has no rows any more for whoever does not erase them.
    fn is_fenced(&self, org: OrgId) -> bool;
}

/// New values by key; none where the row goes.
pub(super) type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
