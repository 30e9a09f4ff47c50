//! What is stored of batches.

use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{EventId, JobId, OutputId};
use serde::{Deserialize, Serialize};
use store::OrgTable;

/// Some results of a batch: those of events from the chunk's key on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkV1 {
    /// The place in the log of the last of them.
    pub last: u64,
    /// The results, by their jobs.
    pub jobs: Vec<JobId>,
}

impl Record for ChunkV1 {}

/// By output, and by the place in the log of the first event. They stay as long as the delivery does.
pub static CHUNKS: OrgTable<(OutputId, u64), ChunkV1> =
    OrgTable::new("output_chunks", "Batch of an output").uncounted();

/// A batch that is not whole yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenBatchV1 {
    /// The places in the log of its first and its last event.
    pub first: u64,
    pub last: u64,
    /// The last event.
    pub event: EventId,
    pub event_kind: String,
    pub event_at: Timestamp,
    /// Up to here the log was looked at for it.
    pub until: u64,
    pub rows: u32,
    /// Bytes of the values.
    pub bytes: u64,
    pub begun: Moment,
}

impl Record for OpenBatchV1 {}

pub static OPEN: OrgTable<OutputId, OpenBatchV1> =
    OrgTable::new("output_batches", "Batch of an output").uncounted();
