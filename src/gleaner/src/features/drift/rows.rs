//! What is known of how well pages are read, as it is stored: a row for each domain and page type, small and bounded.

use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::SchemaId;
use base::terms::PageType;
use base::web::Domain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable, SysTable};

use crate::features::extraction::{SchemaPair, SchemaRefV1};

base::words! {
    /// How an attribute does beside its own past.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum DriftState: ALL {
        Ok "ok",
        /// It is found on fewer pages than it was; nobody has looked why yet.
        Drifting "drifting",
        /// The pages still show its values, and its expressions do not find them.
        Broken "broken",
        /// Most fetches of the domain failed lately, so nothing can be said of the attribute.
        Outage "outage",
        /// The site turns visitors away, or answers with pages that are something else.
        Blocked "blocked",
        /// The pages do not show it any more.
        Absent "absent",
        /// It is being found again on stored pages.
        Repairing "repairing",
        /// It has new expressions, and has not been seen on enough pages since.
        Repaired "repaired",
    }
}

base::words! {
    /// What came of looking at an attribute.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum RepairResult {
        /// It has new expressions.
        Repaired "repaired",
        /// It is broken, and nothing was found that could be trusted; `reason` says why.
        Refused "refused",
        /// Its expressions give what the newest pages show.
        Right "right",
        /// The pages do not show its last known values.
        Absent "absent",
        /// The pages are something else.
        OtherPage "other_page",
    }
}

/// How one attribute was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeDriftV1 {
    pub name: String,
    /// The newest results, a bit each, the newest last: whether there was a valid value.
    pub recent: u16,
    pub recent_count: u8,
    /// The results before those, in sums that forget.
    pub past_found: f64,
    pub past_count: f64,
    pub state: DriftState,
    /// Since when it is in this state; none while it never was in another.
    pub since: Option<Timestamp>,
    /// Somebody has looked why it is not found, and it was not found since.
    pub is_tried: bool,
}

/// What became of one attribute when somebody looked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeRepairV1 {
    pub name: String,
    pub result: RepairResult,
    pub reason: Option<String>,
}

/// The last time that somebody looked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepairV1 {
    pub at: Timestamp,
    pub attributes: Vec<AttributeRepairV1>,
    /// The platform's schema before and after; the same where it was not changed.
    pub from: Option<SchemaRefV1>,
    pub to: Option<SchemaRefV1>,
    /// The state of the own attributes before and after.
    pub own_from: Option<u32>,
    pub own_to: Option<u32>,
    /// Pages that were looked at.
    pub pages: u32,
    /// Results that were read again since.
    pub reread: u32,
}

/// How far the results that a repair concerns were read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RereadingV1 {
    /// Behind which result to go on.
    pub cursor: Option<String>,
    /// Results that were looked at.
    pub looked: u32,
}

/// How pages of one type of a domain are read, in one organization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftV1 {
    /// What events of it are about.
    pub id: SchemaId,
    /// A registrable domain, or the host of it whose own schema reads the pages.
    pub domain: String,
    pub page_type: PageType,
    /// By what the newest results were read.
    pub schema: Option<SchemaRefV1>,
    pub own_version: Option<u32>,
    pub attributes: Vec<AttributeDriftV1>,
    /// Somebody is to look at it.
    pub is_due: bool,
    /// How often that was begun without coming to an end.
    pub runs: u32,
    /// How often nothing could be mended, one after the other, and before when it is not tried again.
    pub refusals: u32,
    pub not_before: Option<Moment>,
    /// The event of this drift was written.
    pub is_told: bool,
    pub last: Option<RepairV1>,
    pub rereading: Option<RereadingV1>,
}

impl Record for DriftV1 {}

/// Rows that somebody is to look at: an organization's behind one another.
pub static DUE: Index<u8, DriftV1> = Index::global("drift.due", |row, keys| {
    if row.is_due {
        keys.add(1_u8);
    }
});

/// Rows whose results are being read again.
pub static REREADING: Index<u8, DriftV1> = Index::global("drift.rereading", |row, keys| {
    if row.rereading.is_some() {
        keys.add(1_u8);
    }
});

impl DriftV1 {
    /// Whether it is not to be looked at yet, though it is due: the last look failed.
    pub fn is_put_off(&self, now: Moment) -> bool {
        self.not_before.is_some_and(|until| until > now)
    }

    /// The registrable domain of its site.
    pub fn registrable(&self) -> String {
        Domain::parse(&self.domain).map_or_else(|_| self.domain.clone(), |domain| domain.to_string())
    }
}

/// Rows of a registrable domain.
pub static BY_DOMAIN: Index<String, DriftV1> =
    Index::new("drift.by_domain", |row, keys| keys.add(row.registrable()));

pub static DRIFT: OrgTable<SchemaPair, DriftV1> =
    OrgTable::new("drift", "Drift").indexed(&[&DUE, &REREADING, &BY_DOMAIN]).uncounted().fed();

/// How many of the newest results, one behind the other, the platform's schema has read badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowV1 {
    pub schema: SchemaRefV1,
    pub pages: u32,
}

impl Record for LowV1 {}

pub static LOW: OrgTable<SchemaPair, LowV1> = OrgTable::new("drift_low", "Bad readings").uncounted();

base::words! {
    /// How a fetch ended.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Fetched {
        Page "page",
        Failed "failed",
        Blocked "blocked",
    }
}

/// How the newest fetches of a domain ended, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FetchesV1 {
    pub newest: Vec<Fetched>,
    /// Since when most of them end as they do.
    pub since: Option<Timestamp>,
}

impl Record for FetchesV1 {}

pub static FETCHES: OrgTable<String, FetchesV1> = OrgTable::new("drift_fetches", "Fetches").uncounted().fed();

/// How far the change records were taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftPositionV1 {
    pub position: u64,
}

impl Record for DriftPositionV1 {}

pub static POSITION: SysTable<(), DriftPositionV1> = SysTable::new("drift_position", "Position");
