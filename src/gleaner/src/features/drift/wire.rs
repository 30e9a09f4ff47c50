//! How drift is told.

use super::rows::{AttributeDriftV1, DriftState, DriftV1, FetchesV1, RepairResult, RepairV1};
use crate::features::extraction::DRIFT_WORST_FIRST;
use base::clock::Timestamp;
use base::terms::PageType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DriftFilter {
    /// A registrable domain.
    pub domain: Option<String>,
    pub page_type: Option<PageType>,
}

/// How pages of one type of a domain are read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Drift")]
pub(super) struct DriftView {
    /// A registrable domain, or the host of it whose own schema reads the pages.
    domain: String,
    page_type: PageType,
    /// The worst of its attributes' states.
    state: DriftState,
    /// Since when it is so; null where it never was otherwise.
    since: Option<Timestamp>,
    /// The version of the platform's schema by which the newest result was read; null without one.
    schema_version: Option<u32>,
    /// The version of the own attributes that were merged in; null without any.
    attributes_version: Option<u32>,
    attributes: Vec<AttributeDriftView>,
    /// The last time that somebody looked why attributes were not found; null where that never was necessary.
    last_repair: Option<RepairView>,
}

/// How one attribute does beside its own past.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AttributeDrift")]
pub(super) struct AttributeDriftView {
    name: String,
    state: DriftState,
    since: Option<Timestamp>,
    /// The newest results, ten at most.
    recent: ShareView,
    /// Those before; they stand still while the attribute is not well.
    baseline: ShareView,
}

/// On how many pages an attribute had a valid value.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FoundShare")]
pub(super) struct ShareView {
    pages: u32,
    /// From 0 to 1; null without pages.
    found: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DriftRepair")]
pub(super) struct RepairView {
    at: Timestamp,
    attributes: Vec<AttributeRepairView>,
    /// The platform schema's version before and after; the same where it was left as it is.
    from_version: Option<u32>,
    to_version: Option<u32>,
    /// The version of the own attributes before and after.
    attributes_from_version: Option<u32>,
    attributes_to_version: Option<u32>,
    /// Stored pages that were looked at.
    pages: u32,
    /// Results that were read again since.
    backfilled: u32,
    /// Whether more may be read again.
    is_backfilling: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AttributeRepair")]
pub(super) struct AttributeRepairView {
    name: String,
    result: RepairResult,
    /// Why it was refused: `not_found`, `too_few_pages`, `too_little_evidence`, `ambiguous`, `no_agreement`, `implausible`,
    /// `unsupported`, `not_better`, `budget`, `too_often`, `no_attribute`, `interrupted`; null otherwise.
    reason: Option<String>,
}

impl DriftView {
    pub fn new(row: DriftV1, fetches: &FetchesV1) -> DriftView {
        let is_backfilling = row.rereading.is_some();
        let attributes: Vec<_> =
            row.attributes.iter().map(|attribute| AttributeDriftView::new(attribute, fetches)).collect();
        let worst = attributes.iter().min_by_key(|attribute| rank(attribute.state));
        DriftView {
            state: worst.map_or(DriftState::Ok, |worst| worst.state),
            since: worst.and_then(|worst| worst.since),
            domain: row.domain,
            page_type: row.page_type,
            schema_version: row.schema.map(|schema| schema.version),
            attributes_version: row.own_version,
            attributes,
            last_repair: row.last.map(|last| RepairView::new(last, is_backfilling)),
        }
    }
}

/// Which of several states is told first: the smallest.
fn rank(state: DriftState) -> usize {
    let known = DRIFT_WORST_FIRST.iter().position(|name| *name == state.name());
    known.unwrap_or(DRIFT_WORST_FIRST.len())
}

impl AttributeDriftView {
    fn new(row: &AttributeDriftV1, fetches: &FetchesV1) -> AttributeDriftView {
        // While no pages come, nothing that was well can be said to be.
        let (state, since) = match fetches.trouble().filter(|_| row.state == DriftState::Ok) {
            Some(trouble) => (trouble, fetches.since),
            None => (row.state, row.since),
        };
        let share = |pages: f64, found: Option<f64>| ShareView {
            pages: pages.round() as u32,
            found: found.map(|found| (found * 1_000.0).round() / 1_000.0),
        };
        AttributeDriftView {
            name: row.name.clone(),
            state,
            since,
            recent: share(f64::from(row.recent_count), row.recent_share()),
            baseline: share(row.past_count, row.past_share()),
        }
    }
}

impl RepairView {
    fn new(row: RepairV1, is_backfilling: bool) -> RepairView {
        let attributes = row.attributes.into_iter().map(|one| AttributeRepairView {
            name: one.name,
            result: one.result,
            reason: one.reason,
        });
        RepairView {
            at: row.at,
            attributes: attributes.collect(),
            from_version: row.from.map(|schema| schema.version),
            to_version: row.to.map(|schema| schema.version),
            attributes_from_version: row.own_from,
            attributes_to_version: row.own_to,
            pages: row.pages,
            backfilled: row.reread,
            is_backfilling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_rank_of_its_own() {
        let mut ranks: Vec<usize> = DriftState::ALL.iter().map(|state| rank(*state)).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..DRIFT_WORST_FIRST.len()).collect::<Vec<_>>());
    }
}
