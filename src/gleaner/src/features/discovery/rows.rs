//! Discoveries as they are stored.

use base::clock::{Moment, Timestamp};
use base::codec::{Json, Record};
use base::ids::{DiscoveryId, JobId};
use base::terms::PageType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// Where a discovery stands.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum DiscoveryStatus {
        Pending "pending",
        Running "running",
        /// The pages have taught something. Whether it became a schema says `schema`, and why not `notSaved`.
        Succeeded "succeeded",
        /// The pages have taught nothing; `error` says why.
        Failed "failed",
    }
}

impl DiscoveryStatus {
    pub fn is_open(self) -> bool {
        matches!(self, DiscoveryStatus::Pending | DiscoveryStatus::Running)
    }
}

/// That a schema is to be found out, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoveryV1 {
    pub id: DiscoveryId,
    pub status: DiscoveryStatus,
    /// A registrable domain, or one host of it.
    pub domain: String,
    /// None where the pages are to say it.
    pub page_type: Option<PageType>,
    /// The jobs whose pages are to teach; none for the newest pages.
    pub jobs: Vec<JobId>,
    pub sample_size: u32,
    /// How often it was begun: one that ends the process each time is not begun for ever.
    pub runs: u32,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// When it ended, by the box's own time.
    pub ended: Option<Moment>,
    /// Once it has ended, what came of it, as the interface tells it.
    pub outcome: Option<Json>,
}

impl Record for DiscoveryV1 {}

impl DiscoveryV1 {
    /// One that nobody has begun to work off.
    pub fn new(
        domain: String,
        page_type: Option<PageType>,
        jobs: Vec<JobId>,
        sample_size: u32,
        created_at: Timestamp,
    ) -> DiscoveryV1 {
        DiscoveryV1 {
            id: DiscoveryId::new(),
            status: DiscoveryStatus::Pending,
            domain,
            page_type,
            jobs,
            sample_size,
            runs: 0,
            created_at,
            started_at: None,
            finished_at: None,
            ended: None,
            outcome: None,
        }
    }
}

/// Those that have not ended, oldest first.
pub static OPEN: Index<Timestamp, DiscoveryV1> = Index::global("discoveries.open", |row, keys| {
    if row.status.is_open() {
        keys.add(row.created_at);
    }
});

/// How many of an organization have not ended.
pub static OWN_OPEN: Index<u8, DiscoveryV1> = Index::new("discoveries.own_open", |row, keys| {
    if row.status.is_open() {
        keys.add(1_u8);
    }
});

/// Those that have ended, by when.
pub static ENDED: Index<Moment, DiscoveryV1> = Index::global("discoveries.ended", |row, keys| {
    if let Some(ended) = row.ended {
        keys.add(ended);
    }
});

pub static DISCOVERIES: OrgTable<DiscoveryId, DiscoveryV1> =
    OrgTable::new("discoveries", "Discovery").indexed(&[&OPEN, &OWN_OPEN, &ENDED]);
