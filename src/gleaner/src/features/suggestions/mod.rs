//! Suggestions: better rankings for smart workflows, and the worker that finds them.

mod rows;
mod service;
mod task;

pub use rows::{SUGGESTIONS, SuggestionStatus, SuggestionV1};

use super::Feature;
use crate::features::workflows::{PlanV1, ProviderDirectory};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{ProviderId, SuggestionId, WorkflowId};
use base::page::{Page, PageRequest};
use base::{Code, Result};
use rows::{BY_WORKFLOW, EvidenceV1};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{WorkflowsRead, WorkflowsWrite};
use server::task::TaskSpec;
use server::{Body, Handler, Need, Org, Path, Query, Route};
use std::time::Duration;
use store::Event;
use uuid::Uuid;

/// How soon what jobs have taught is taken in.
const LEARN_EVERY: Duration = Duration::from_secs(2);
/// How often every smart workflow is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);

pub static FEATURE: Feature = Feature {
    name: "suggestions",
    uses: &["events", "workflows"],
    events: &[&service::CREATED],
    tables: &[&SUGGESTIONS],
    routes: &[
        Route::get("/api/v1/optimization/suggestions", "listSuggestions", &Handler::new(list))
            .about("Better rankings for smart workflows in suggest mode, newest first."),
        Route::get("/api/v1/optimization/suggestions/{id}", "getSuggestion", &Handler::new(get))
            .about("One suggestion with its evidence."),
        Route::post("/api/v1/optimization/suggestions/{id}/apply", "applySuggestion", &Handler::new(apply))
            .about("Makes the proposed ranking the workflow's new version.")
            .fails(&[Code::NotFound, Code::Conflict]),
        Route::post(
            "/api/v1/optimization/suggestions/{id}/dismiss",
            "dismissSuggestion",
            &Handler::new(dismiss),
        )
        .about("Turns a suggestion down; the same one is not made again.")
        .fails(&[Code::NotFound, Code::Conflict]),
    ],
    tasks: &[
        TaskSpec::new("suggestions.learn", LEARN_EVERY, |context| Box::pin(task::learn_and_look(context))),
        TaskSpec::new("suggestions.look", LOOK_EVERY, |context| Box::pin(task::look_at_all(context))),
    ],
    needs: &[Need::of::<ProviderDirectory>()],
    ..Feature::NONE
};

/// In which order providers are asked at a domain.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RankingView {
    /// Null is every domain without an order of its own.
    domain: Option<String>,
    provider_ids: Vec<ProviderId>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EvidenceView {
    provider_id: ProviderId,
    /// Null is over all.
    domain: Option<String>,
    samples: u64,
    success_rate: f64,
    p50_ms: Option<u64>,
    p95_ms: Option<u64>,
    avg_credits: f64,
    /// By the workflow's strategy, from 0 to 1, at the lower end of the interval.
    score: f64,
    /// Where the rate of success lies.
    interval: [f64; 2],
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SuggestionView {
    id: SuggestionId,
    workflow_id: WorkflowId,
    status: SuggestionStatus,
    current_ranking: Vec<RankingView>,
    proposed_ranking: Vec<RankingView>,
    evidence: Vec<EvidenceView>,
    /// How much better the first provider's score is, on average over the traffic.
    expected_gain: f64,
    created_at: Timestamp,
    resolved_at: Option<Timestamp>,
}

fn ranking(plan: PlanV1) -> Vec<RankingView> {
    let everybody = RankingView { domain: None, provider_ids: plan.overall };
    let domains = plan
        .domains
        .into_iter()
        .map(|(domain, provider_ids)| RankingView { domain: Some(domain), provider_ids });
    std::iter::once(everybody).chain(domains).collect()
}

impl From<EvidenceV1> for EvidenceView {
    fn from(row: EvidenceV1) -> EvidenceView {
        EvidenceView {
            provider_id: row.provider,
            domain: row.domain,
            samples: row.samples,
            success_rate: row.success_rate,
            p50_ms: row.p50_ms,
            p95_ms: row.p95_ms,
            avg_credits: row.avg_credits,
            score: row.score,
            interval: [row.low, row.high],
        }
    }
}

impl From<SuggestionV1> for SuggestionView {
    fn from(row: SuggestionV1) -> SuggestionView {
        SuggestionView {
            id: row.id,
            workflow_id: row.workflow_id,
            status: row.status,
            current_ranking: ranking(row.current),
            proposed_ranking: ranking(row.proposed),
            evidence: row.evidence.into_iter().map(EvidenceView::from).collect(),
            expected_gain: row.expected_gain,
            created_at: row.created_at,
            resolved_at: row.resolved_at,
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct SuggestionFilter {
    workflow_id: Option<WorkflowId>,
    status: Option<SuggestionStatus>,
}

async fn list(
    org: Org<WorkflowsRead>,
    Query(filter): Query<SuggestionFilter>,
    page: PageRequest,
) -> Result<Body<Page<SuggestionView>>> {
    let wanted = |row: &SuggestionV1| filter.status.is_none_or(|status| row.status == status);
    let rows = org.read(|tx| match filter.workflow_id {
        Some(workflow) => tx.page_by(&SUGGESTIONS, &BY_WORKFLOW, workflow, &page, wanted),
        None => tx.page(&SUGGESTIONS, &page, wanted),
    })?;
    Ok(Body(rows.map(SuggestionView::from)))
}

async fn get(org: Org<WorkflowsRead>, Path(id): Path<SuggestionId>) -> Result<Body<SuggestionView>> {
    Ok(Body(org.read(|tx| tx.require(&SUGGESTIONS, &id))?.into()))
}

async fn apply(org: Org<WorkflowsWrite>, Path(id): Path<SuggestionId>) -> Result<Body<SuggestionView>> {
    let (directory, by) = (org.service::<ProviderDirectory>(), org.principal().user());
    let applied = org.write(move |tx| {
        let (row, current) = service::apply(tx, &directory, id, by)?;
        let event = Event::new(Action::SuggestionApplied).of(id);
        tx.audit(
            event.with("workflowId", Uuid::from(row.workflow_id)).with("version", current.version.version),
        )?;
        Ok(row)
    });
    Ok(Body(applied.await?.into()))
}

async fn dismiss(org: Org<WorkflowsWrite>, Path(id): Path<SuggestionId>) -> Result<Body<SuggestionView>> {
    let by = org.principal().user();
    let dismissed = org.write(move |tx| {
        let row = service::dismiss(tx, id, by)?;
        let event = Event::new(Action::SuggestionDismissed).of(id);
        tx.audit(event.with("workflowId", Uuid::from(row.workflow_id)))?;
        Ok(row)
    });
    Ok(Body(dismissed.await?.into()))
}
