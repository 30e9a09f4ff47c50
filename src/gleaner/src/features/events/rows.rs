//! The log as it is stored: one row an event, and one row that says where the log begins and ends.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::ids::EventId;
use serde::{Deserialize, Serialize};
use store::OrgTable;
use uuid::Uuid;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventV1 {
    /// Its place in the organization's log: one more than that of the event before.
    pub seq: u64,
    pub id: EventId,
    pub kind: String,
    pub at: Timestamp,
    /// What it happened to; of which sort that is, its kind says.
    pub subject: Uuid,
    /// The registrable domain that it concerns.
    pub domain: Option<String>,
    pub tags: Vec<String>,
    /// An object.
    pub data: Json,
}

impl Record for EventV1 {}

/// By their places. They go from the front alone, so a log has no holes.
pub static EVENTS: OrgTable<u64, EventV1> = OrgTable::new("events", "Event");

/// Where an organization's log begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLogV1 {
    /// The place of the newest event; 0 before the first.
    pub last: u64,
    /// Events up to this place are gone.
    pub trimmed: u64,
}

impl Record for EventLogV1 {}

pub static LOGS: OrgTable<(), EventLogV1> = OrgTable::new("event_logs", "Event log").uncounted();

/// Some events that follow each other, from the one under whose place this row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventBlockV1 {
    /// The place of the last one.
    pub last: u64,
}

impl Record for EventBlockV1 {}

/// What the SQL console is told of the log, see `blocks.rs`.
pub static BLOCKS: OrgTable<u64, EventBlockV1> = OrgTable::new("event_blocks", "Events").uncounted().fed();
