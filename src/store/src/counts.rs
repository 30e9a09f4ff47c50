//! Counts of what organizations store, and what operations add to them; see `usage.rs`.

use base::ids::OrgId;
use base::{Error, Result};
use std::collections::BTreeMap;

/// organization (16) | name of a table, empty for all together → rows (8) | bytes (8)
pub(super) const TABLE: &str = "usage";
/// The name under which all tables together stand.
pub(super) const ALL_TABLES: &str = "";

/// What is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub rows: u64,
    pub bytes: u64,
}

impl Used {
    pub(super) fn add(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
    }

    pub(super) fn after(self, growth: Growth) -> Used {
        Used {
            rows: self.rows.saturating_add_signed(growth.rows),
            bytes: self.bytes.saturating_add_signed(growth.bytes),
        }
    }

    pub(super) fn encode(self) -> Vec<u8> {
        [self.rows.to_be_bytes(), self.bytes.to_be_bytes()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Used> {
        let (parts, []) = bytes.as_chunks::<8>() else { return Err(damaged()) };
        let [rows, bytes] = parts else { return Err(damaged()) };
        Ok(Used { rows: u64::from_be_bytes(*rows), bytes: u64::from_be_bytes(*bytes) })
    }
}

pub(super) fn damaged() -> Error {
    Error::internal("read what an organization stores", "a count is damaged")
}

/// By how much something grows; less than zero where it shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    pub rows: i64,
    pub bytes: i64,
}

/// What operations add to the counts, by organization and table.
pub(super) type Growths = BTreeMap<(OrgId, &'static str), Growth>;

/// Adds to a table's count and to that of all tables.
pub(super) fn grow(all: &mut Growths, org: OrgId, table: &'static str, by: Growth) {
    for name in [table, ALL_TABLES] {
        let sum = all.entry((org, name)).or_default();
        sum.rows += by.rows;
        sum.bytes += by.bytes;
    }
}

/// What puts one difference right: an entry as it should be, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    pub(super) table: &'static str,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

/// The fix of a count.
pub(super) fn count_fix(org: OrgId, table: &str, used: Used) -> Fix {
    let value = (used != Used::default()).then(|| used.encode());
    Fix { table: TABLE, key: key(org, table), value }
}

pub(super) fn key(org: OrgId, table: &str) -> Vec<u8> {
    [org.0.as_bytes().as_slice(), table.as_bytes()].concat()
}

/// What the operation under way adds to one organization, for whoever says whether there is room.
pub struct PendingGrowth {
    /// What all tables would have after it.
    pub total: Used,
    /// By how much that is more.
    pub growth: Growth,
    /// The tables it touches: what they would have, and by how much that is more.
    pub tables: Vec<(&'static str, Used, Growth)>,
}
