//! The organizations that people are members of: each one's own row, and the registry of all of them.
//!
//! The row lives in the organization's scope, where its slices find it; the registry is what the supervisor's loop over
//! organizations and the operator's list go through. Both are written by one operation of the orgs slice.

use crate::base::Result;
use crate::base::clock::Timestamp;
use crate::base::codec::Record;
use crate::base::ids::OrgId;
use crate::store::{Order, OrgTable, SysRead, SysTable};
use serde::{Deserialize, Serialize};

/// An organization, as its own slices read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrgV1 {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
}

impl Record for OrgV1 {}

/// The organization's only row of this table.
pub static ORG: OrgTable<(), OrgV1> = OrgTable::new("org", "Organization");

/// An organization in the registry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrgEntryV1 {
    pub id: OrgId,
    pub name: String,
    pub created_at: Timestamp,
}

impl Record for OrgEntryV1 {}

pub static ORGS: SysTable<OrgId, OrgEntryV1> = SysTable::new("orgs", "Organization");

const LIST_CHUNK_ROWS: usize = 1_000;

/// Every organization of the box, oldest first.
pub fn list_orgs(tx: &SysRead<'_>) -> Result<Vec<OrgEntryV1>> {
    let mut all: Vec<OrgEntryV1> = Vec::new();
    loop {
        let after = all.last().map(|entry| entry.id);
        let chunk = tx.scan(&ORGS, after.as_ref(), Order::Ascending, LIST_CHUNK_ROWS)?;
        let ended = chunk.len() < LIST_CHUNK_ROWS;
        all.extend(chunk.into_iter().map(|(_, entry)| entry));
        if ended {
            return Ok(all);
        }
    }
}
