//! Workflows as they are stored: one row that moves, and one for each version that never does.
//!
//! [`WORKFLOWS`] says what a workflow is now: its state, its route, which version counts. [`VERSIONS`] holds every graph it
//! ever had; jobs name the version that they walk, so those rows are never changed and never removed. That at most one
//! published workflow holds a route is an index, so two that publish at once cannot both win.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::ids::{AgentId, UserId, WorkflowId, WorkflowVersionId};
use dispatch::dag::{Dag, DagEdge, DagNode, NodeType};
use dispatch::rank::Strategy as RankStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use store::{Index, OrgTable};

base::words! {
    /// Where a workflow stands: only a published one is given jobs, an archived one was deleted or replaced and can be read.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum WorkflowStatus {
        Draft "draft",
        Published "published",
        Archived "archived",
    }
}

base::words! {
    /// What a smart workflow ranks providers by.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Strategy {
        SuccessRate "success_rate",
        Latency "latency",
        Cost "cost",
        #[default]
        Balanced "balanced",
    }
}

impl From<Strategy> for RankStrategy {
    fn from(strategy: Strategy) -> RankStrategy {
        match strategy {
            Strategy::SuccessRate => RankStrategy::SuccessRate,
            Strategy::Latency => RankStrategy::Latency,
            Strategy::Cost => RankStrategy::Cost,
            Strategy::Balanced => RankStrategy::Balanced,
        }
    }
}

base::words! {
    /// Who decides about a new ranking.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Mode {
        /// The worker writes a new version.
        #[default]
        Auto "auto",
        /// The worker writes a suggestion, and somebody applies it.
        Suggest "suggest",
    }
}

/// A workflow whose ranking is maintained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmartV1 {
    pub strategy: Strategy,
    pub mode: Mode,
}

/// A workflow as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowV1 {
    pub workflow_id: WorkflowId,
    /// The version that counts: the newest.
    pub version: u32,
    pub version_id: WorkflowVersionId,
    pub name: String,
    pub status: WorkflowStatus,
    /// `*` or `domain:<host>`.
    pub route: Option<String>,
    pub smart: Option<SmartV1>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub created_by: UserId,
    pub published_at: Option<Timestamp>,
}

impl Record for WorkflowV1 {}

impl WorkflowV1 {
    pub fn is_published(&self) -> bool {
        self.status == WorkflowStatus::Published
    }
}

/// One version. Never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VersionV1 {
    pub id: WorkflowVersionId,
    pub workflow_id: WorkflowId,
    pub version: u32,
    pub name: String,
    pub dag: DagV1,
    pub smart: Option<SmartV1>,
    pub created_at: Timestamp,
    /// None when the optimization worker wrote it.
    pub created_by: Option<UserId>,
}

impl Record for VersionV1 {}

/// A graph as it was drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DagV1 {
    pub nodes: Vec<NodeV1>,
    pub edges: Vec<EdgeV1>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeV1 {
    pub id: String,
    pub kind: String,
    pub config: Option<Json>,
    pub position: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeV1 {
    pub id: Option<String>,
    pub source: String,
    pub target: String,
    pub kind: String,
}

impl DagV1 {
    /// The agent that the graph binds its jobs to.
    pub fn agent(&self) -> Option<AgentId> {
        let start = self.nodes.iter().find(|node| node.kind == NodeType::Start.name())?;
        start.config.as_ref()?.0.get("agentId")?.as_str()?.parse().ok()
    }
}

impl From<&Dag> for DagV1 {
    fn from(dag: &Dag) -> DagV1 {
        let json = |members: &Option<Map<String, Value>>| members.clone().map(|map| Json(Value::Object(map)));
        let nodes = dag.nodes.iter().map(|node| NodeV1 {
            id: node.id.clone(),
            kind: node.kind.clone(),
            config: json(&node.config),
            position: json(&node.position),
        });
        let edges = dag.edges.iter().map(|edge| EdgeV1 {
            id: edge.id.clone(),
            source: edge.source.clone(),
            target: edge.target.clone(),
            kind: edge.kind.clone(),
        });
        DagV1 { nodes: nodes.collect(), edges: edges.collect() }
    }
}

impl From<DagV1> for Dag {
    fn from(row: DagV1) -> Dag {
        let map = |json: Option<Json>| match json {
            Some(Json(Value::Object(map))) => Some(map),
            _ => None,
        };
        let nodes = row.nodes.into_iter().map(|node| DagNode {
            id: node.id,
            kind: node.kind,
            config: map(node.config),
            position: map(node.position),
        });
        let edges = row.edges.into_iter().map(|edge| DagEdge {
            id: edge.id,
            source: edge.source,
            target: edge.target,
            kind: edge.kind,
        });
        Dag { nodes: nodes.collect(), edges: edges.collect() }
    }
}

/// The published workflow of a route.
pub static BY_ROUTE: Index<String, WorkflowV1> = Index::unique("workflows.by_route", |row, keys| {
    if let Some(route) = row.route.as_ref().filter(|_| row.is_published()) {
        keys.add(route);
    }
});

pub static WORKFLOWS: OrgTable<WorkflowId, WorkflowV1> =
    OrgTable::new("workflows", "Workflow").indexed(&[&BY_ROUTE]).fed();

/// The versions of a workflow by their number.
pub static BY_NUMBER: Index<(WorkflowId, u64), VersionV1> =
    Index::unique("workflow_versions.by_number", |row, keys| {
        keys.add((row.workflow_id, u64::from(row.version)));
    });

pub static VERSIONS: OrgTable<WorkflowVersionId, VersionV1> =
    OrgTable::new("workflow_versions", "Workflow version").indexed(&[&BY_NUMBER]);

/// That a job was bound to a version: its row is kept for as long as jobs of its time are. Written for versions of smart
/// workflows, of which others may go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VersionUseV1 {
    pub since: Timestamp,
}

impl Record for VersionUseV1 {}

pub static VERSION_USES: OrgTable<WorkflowVersionId, VersionUseV1> =
    OrgTable::new("workflow_version_uses", "Workflow version");
