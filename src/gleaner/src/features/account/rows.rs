//! What is stored of erasures and of exports of personal data.
//!
//! An erasure's row is its plan while it runs and its receipt for ever after: it holds ids and counts, and nothing of what
//! was erased.

use base::clock::{Moment, Timestamp};
use base::codec::{CodecError, Record, decode_body};
use base::ids::{AccountExportId, ErasureId, OrgId, UserId};
use serde::{Deserialize, Serialize};
use store::{Index, SysTable};

/// Whose traces go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubjectV1 {
    Organization {
        id: OrgId,
    },
    Person {
        id: UserId,
        /// By which messages and invitations are found; empty as soon as they are gone.
        email: String,
        /// Where they were a member last.
        org: Option<OrgId>,
    },
}

/// What an erasure is at. Stored by position: add at the end. Every one can be begun anew without harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PhaseV1 {
    /// Takes an organization's entries out of queues and other indexes across organizations.
    Queues,
    /// Ends what runs for it and removes what slices hold outside of the store.
    Outside,
    /// Removes the rows: an organization's, or those that tell a person.
    Rows,
    /// Looks once more at everything, for what was still on its way.
    Sweep,
    /// Waits for the store's file to be written anew without what was removed.
    Scrub,
    Done,
}

impl PhaseV1 {
    pub fn name(self) -> &'static str {
        match self {
            PhaseV1::Queues => "queues",
            PhaseV1::Outside => "outside",
            PhaseV1::Rows => "rows",
            PhaseV1::Sweep => "sweep",
            PhaseV1::Scrub => "scrub",
            PhaseV1::Done => "done",
        }
    }
}

/// An erasure under way, or its receipt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErasureV1 {
    pub id: ErasureId,
    pub subject: SubjectV1,
    /// A pseudonym once that person is erased too.
    pub requested_by: UserId,
    pub requested_at: Timestamp,
    pub phase: PhaseV1,
    /// Which of a phase's parts is next.
    pub part: u32,
    /// Where that part goes on; empty at its beginning.
    pub place: Vec<u8>,
    /// What was removed, by table or by what a slice calls it.
    pub removed: Vec<(String, u64)>,
    /// Tables in whose rows the organization's id was found after everything was removed; of a person, damaged rows that may be
    /// theirs. Empty, or there is a defect.
    pub left: Vec<(String, u64)>,
    /// Why the last try failed.
    pub error: Option<String>,
    pub failures: u32,
    pub finished_at: Option<Timestamp>,
}

impl Record for ErasureV1 {}

impl ErasureV1 {
    pub fn new(subject: SubjectV1, requested_by: UserId, now: Timestamp) -> ErasureV1 {
        let phase = match subject {
            SubjectV1::Organization { .. } => PhaseV1::Queues,
            SubjectV1::Person { .. } => PhaseV1::Rows,
        };
        ErasureV1 {
            id: ErasureId::new(),
            subject,
            requested_by,
            requested_at: now,
            phase,
            part: 0,
            place: Vec::new(),
            removed: Vec::new(),
            left: Vec::new(),
            error: None,
            failures: 0,
            finished_at: None,
        }
    }

    /// Adds to what was removed.
    pub fn count(&mut self, name: &str, removed: u64) {
        add(&mut self.removed, name, removed);
    }

    /// Adds to what could not be read and is left.
    pub fn count_left(&mut self, name: &str, left: u64) {
        add(&mut self.left, name, left);
    }

    /// Goes on with the beginning of another phase. What walks over rows finds anew what is left.
    pub fn enter(&mut self, phase: PhaseV1) {
        (self.phase, self.part, self.place) = (phase, 0, Vec::new());
        if matches!(phase, PhaseV1::Rows | PhaseV1::Sweep) {
            self.left.clear();
        }
    }
}

fn add(counts: &mut Vec<(String, u64)>, name: &str, more: u64) {
    if more == 0 {
        return;
    }
    match counts.iter_mut().find(|(known, _)| known == name) {
        Some((_, count)) => *count += more,
        None => counts.push((name.to_owned(), more)),
    }
}

/// Those that are not done, oldest first.
pub static ERASURES_OPEN: Index<Timestamp, ErasureV1> = Index::new("erasures.open", |row, keys| {
    if row.phase != PhaseV1::Done {
        keys.add(row.requested_at);
    }
});
pub static ERASURES: SysTable<ErasureId, ErasureV1> =
    SysTable::new("erasures", "Erasure").indexed(&[&ERASURES_OPEN]);

/// Where an export stands. Stored by position: add at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExportStatusV1 {
    Queued,
    Running,
    Success,
    Failed,
}

/// An export of what is held on a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccountExportV1 {
    pub id: AccountExportId,
    pub user: UserId,
    pub status: ExportStatusV1,
    pub requested_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// When row and file go.
    pub expires_at: Moment,
    pub byte_size: u64,
}

impl Record for AccountExportV1 {}

/// The same, with the organizations of whose things it tells: an export goes when one of them is erased.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccountExportV2 {
    pub id: AccountExportId,
    pub user: UserId,
    pub status: ExportStatusV1,
    pub requested_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// When row and file go.
    pub expires_at: Moment,
    pub byte_size: u64,
    /// Known when it is made; none for one of the first version, which goes with any organization.
    pub orgs: Option<Vec<OrgId>>,
}

impl Record for AccountExportV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<AccountExportV1>(body).map(AccountExportV2::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

impl From<AccountExportV1> for AccountExportV2 {
    fn from(old: AccountExportV1) -> AccountExportV2 {
        AccountExportV2 {
            id: old.id,
            user: old.user,
            status: old.status,
            requested_at: old.requested_at,
            finished_at: old.finished_at,
            expires_at: old.expires_at,
            byte_size: old.byte_size,
            orgs: None,
        }
    }
}

impl AccountExportV2 {
    /// Whether nobody has made it yet.
    pub fn is_open(&self) -> bool {
        matches!(self.status, ExportStatusV1::Queued | ExportStatusV1::Running)
    }

    /// Whether its file may tell of an organization's things. One that is not made yet will not.
    pub fn tells_of(&self, org: OrgId) -> bool {
        !self.is_open() && self.orgs.as_ref().is_none_or(|orgs| orgs.contains(&org))
    }
}

/// A person's exports, oldest first.
pub static EXPORTS_BY_USER: Index<(UserId, Timestamp), AccountExportV2> =
    Index::new("account_exports.by_user", |row, keys| {
        keys.add((row.user, row.requested_at));
    });
/// Those that nobody has made yet, oldest first.
pub static EXPORTS_OPEN: Index<Timestamp, AccountExportV2> =
    Index::new("account_exports.open", |row, keys| {
        if row.is_open() {
            keys.add(row.requested_at);
        }
    });
pub static EXPORTS_BY_END: Index<Moment, AccountExportV2> =
    Index::new("account_exports.by_end", |row, keys| keys.add(row.expires_at));
pub static EXPORTS: SysTable<AccountExportId, AccountExportV2> =
    SysTable::new("account_exports", "Export").indexed(&[&EXPORTS_BY_USER, &EXPORTS_OPEN, &EXPORTS_BY_END]);
