//! Benchmarks as they are stored. A probe is a job that names its benchmark, so what a benchmark has found is read from
//! its jobs: each counts once, whatever happened to the process meanwhile.

use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{BenchmarkId, ProviderId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// Where a benchmark stands.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum BenchmarkStatus {
        /// No probe has begun.
        Pending "pending",
        Running "running",
        Completed "completed",
        /// No probe succeeded, or it could not go on.
        Failed "failed",
        Canceled "canceled",
    }
}

impl BenchmarkStatus {
    pub fn is_open(self) -> bool {
        matches!(self, BenchmarkStatus::Pending | BenchmarkStatus::Running)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkV1 {
    pub id: BenchmarkId,
    pub status: BenchmarkStatus,
    /// Normalized, each once.
    pub urls: Vec<String>,
    /// Those that were connected when it began, and what they were called.
    pub providers: Vec<(ProviderId, String)>,
    pub total_probes: u32,
    /// Probes that have ended, however.
    pub completed_probes: u32,
    /// Those among them that brought no page.
    pub failed_probes: u32,
    pub skipped_providers: Vec<ProviderId>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Record for BenchmarkV1 {}

/// The benchmark of an organization that has not ended: one at a time.
pub static OPEN: Index<u8, BenchmarkV1> = Index::unique("benchmarks.open", |row, keys| {
    if row.status.is_open() {
        keys.add(1_u8);
    }
});

/// The benchmarks of all organizations that have not ended, for the task that follows them.
pub static FOLLOWED: Index<Timestamp, BenchmarkV1> = Index::global("benchmarks.followed", |row, keys| {
    if row.status.is_open() {
        keys.add(row.created_at);
    }
});

pub static BENCHMARKS: OrgTable<BenchmarkId, BenchmarkV1> =
    OrgTable::new("benchmarks", "Benchmark").indexed(&[&OPEN, &FOLLOWED]).fed();
