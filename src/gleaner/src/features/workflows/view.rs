//! Workflows on the wire (data/docs/api.md, "Workflows").

use super::Connected;
use super::rows::{Mode, Strategy, WorkflowStatus};
use super::service::Current;
use base::clock::Timestamp;
use base::ids::{ProviderId, UserId, WorkflowId, WorkflowVersionId};
use dispatch::dag::{Dag, Fault, ParsedDag, Problem};
use schemars::JsonSchema;
use serde::Serialize;

/// A workflow, or one version of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowView {
    /// The version's own id: another one after every edit. No operation takes it, all take `workflowId`; jobs name it as
    /// `workflowVersionId`.
    id: WorkflowVersionId,
    /// The workflow's id, the same for all its versions: the `{id}` of every path, and what jobs name.
    workflow_id: WorkflowId,
    version: u32,
    name: String,
    /// Of a version that is not the newest: archived.
    status: WorkflowStatus,
    dag: Dag,
    #[serde(skip_serializing_if = "Option::is_none")]
    smart: Option<StrategyView>,
    route: Option<String>,
    /// When this version was written; that of version 1 is when the workflow was made.
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Who wrote this version; null for one that the optimization worker wrote.
    created_by: Option<UserId>,
    published_at: Option<Timestamp>,
}

/// How a smart workflow is kept.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StrategyView {
    strategy: Strategy,
    mode: Mode,
}

impl From<Current> for WorkflowView {
    fn from(Current { workflow, version }: Current) -> WorkflowView {
        WorkflowView {
            id: version.id,
            workflow_id: workflow.workflow_id,
            version: version.version,
            name: version.name,
            status: workflow.status,
            dag: version.dag.into(),
            smart: workflow.smart.map(|smart| StrategyView { strategy: smart.strategy, mode: smart.mode }),
            route: workflow.route,
            created_at: version.created_at,
            updated_at: workflow.updated_at,
            created_by: version.created_by,
            published_at: workflow.published_at,
        }
    }
}

impl WorkflowView {
    /// A version by its number. The newest one is the workflow as it is now; any other is out of use.
    pub fn of_version(current: Current) -> WorkflowView {
        let is_newest = current.workflow.version_id == current.version.id;
        let smart = current.version.smart;
        let view = WorkflowView::from(current);
        if is_newest {
            return view;
        }
        WorkflowView {
            status: WorkflowStatus::Archived,
            smart: smart.map(|smart| StrategyView { strategy: smart.strategy, mode: smart.mode }),
            route: None,
            updated_at: view.created_at,
            published_at: None,
            ..view
        }
    }
}

/// What was found in a graph.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValidationView {
    /// Whether it could be published as it is.
    valid: bool,
    errors: Vec<ProblemView>,
    warnings: Vec<ProblemView>,
    /// The most that one job could be charged, whatever it asks for; null for a graph that cannot be read.
    max_credits: Option<u64>,
    /// The providers that a job can come to.
    provider_ids: Vec<ProviderId>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProblemView {
    /// From the body's root: `dag.nodes[2].config.providerId`.
    path: String,
    #[schemars(extend("enum" = Fault::ALL.iter().map(|fault| fault.name()).collect::<Vec<_>>()))]
    code: &'static str,
    message: String,
}

impl From<Problem> for ProblemView {
    fn from(problem: Problem) -> ProblemView {
        ProblemView { path: problem.path, code: problem.fault.name(), message: problem.message }
    }
}

impl ValidationView {
    pub(super) fn new(
        reading: &ParsedDag,
        problems: Vec<Problem>,
        connected: &[Connected],
    ) -> ValidationView {
        let price = |id: ProviderId, tariff| {
            connected.iter().find(|provider| provider.id == id).map_or(0, |provider| provider.price(tariff))
        };
        let provider_ids = match &reading.graph {
            Some(graph) => graph.providers(),
            None => {
                let mut named: Vec<_> = reading.providers.iter().map(|mention| mention.id).collect();
                let mut seen = std::collections::HashSet::new();
                named.retain(|id| seen.insert(*id));
                named
            }
        };
        ValidationView {
            valid: problems.is_empty(),
            errors: problems.into_iter().map(ProblemView::from).collect(),
            warnings: reading.warnings.iter().cloned().map(ProblemView::from).collect(),
            max_credits: reading.graph.as_ref().map(|graph| graph.credits_max(None, price)),
            provider_ids,
        }
    }
}
