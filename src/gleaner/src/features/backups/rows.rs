//! What the box remembers of its backups.

use base::clock::Timestamp;
use base::codec::Record;
use base::ids::OrgId;
use serde::{Deserialize, Serialize};
use store::SysTable;

/// How the last backups went, whoever asked for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupsV1 {
    /// When the last one was begun, good or not.
    pub tried_at: Timestamp,
    pub good: Option<GoodBackupV1>,
    /// Why the last one failed; none where it went well.
    pub failure: Option<String>,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoodBackupV1 {
    pub id: String,
    pub target: String,
    pub moment: Timestamp,
    pub pages: u64,
    pub new_bytes: u64,
    pub took_ms: u64,
}

impl Record for BackupsV1 {}

pub(super) static BACKUPS: SysTable<(), BackupsV1> = SysTable::new("backups", "Backups");

/// The organization that is being brought back, if one is. The row stands from before its first row is put in place until it
/// is opened: one that nobody carries on is of a process that died, and what that left is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComingV1 {
    pub org: OrgId,
    pub backup: String,
    pub began_at: Timestamp,
}

impl Record for ComingV1 {}

pub(super) static COMING: SysTable<(), ComingV1> =
    SysTable::new("organization_coming_back", "Organization that comes back");
