//! Suggestions as they are stored.

use crate::features::workflows::PlanV1;
use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{ProviderId, SuggestionId, UserId, WorkflowId, WorkflowVersionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// Where a suggestion stands; only an open one can be applied or dismissed.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum SuggestionStatus {
        Open "open",
        Applied "applied",
        Dismissed "dismissed",
        /// A newer one took its place.
        Superseded "superseded",
    }
}

/// Another ranking for a smart workflow, and what speaks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuggestionV1 {
    pub id: SuggestionId,
    pub workflow_id: WorkflowId,
    /// The version that the current ranking is of.
    pub version_id: WorkflowVersionId,
    pub status: SuggestionStatus,
    pub current: PlanV1,
    pub proposed: PlanV1,
    pub evidence: Vec<EvidenceV1>,
    /// How much better the first provider's score is, on average over the traffic.
    pub expected_gain: f64,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    pub resolved_by: Option<UserId>,
}

impl Record for SuggestionV1 {}

/// What is known of one provider at one domain, or over all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvidenceV1 {
    pub provider: ProviderId,
    pub domain: Option<String>,
    pub samples: u64,
    pub success_rate: f64,
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
    pub avg_credits: f64,
    pub score: f64,
    pub low: f64,
    pub high: f64,
}

/// The suggestions of a workflow, oldest first.
pub static BY_WORKFLOW: Index<WorkflowId, SuggestionV1> =
    Index::new("suggestions.by_workflow", |row, keys| {
        keys.add(row.workflow_id);
    });

/// The one of a workflow that is open.
pub static OPEN: Index<WorkflowId, SuggestionV1> = Index::unique("suggestions.open", |row, keys| {
    if row.status == SuggestionStatus::Open {
        keys.add(row.workflow_id);
    }
});

pub static SUGGESTIONS: OrgTable<SuggestionId, SuggestionV1> =
    OrgTable::new("suggestions", "Suggestion").indexed(&[&BY_WORKFLOW, &OPEN]).fed();
