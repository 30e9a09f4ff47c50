//! Workflow graphs: what a job does, drawn as nodes and edges (data/docs/api.md, "Workflow graph").
//!
//! - [`shape`]: a graph as it travels, and its words (how the reference describes it: `schema.rs`); [`read`]: from there to a [`Graph`], or everything that is wrong;
//! - [`Graph`]: a graph that holds. There is no other way to one than reading, so whoever has one may rely on it: it has
//!   one start, every node has its edges, there is no cycle, an end that succeeds and an extract node are only reached with
//!   a page, at most [`NODES_MAX`] nodes and [`ATTEMPTS_MAX`] attempts on any way;
//! - [`walk`]: the way of one job through a graph as a state machine without I/O. The state is a few numbers that are
//!   stored with the job, so that a waiting job holds nothing and a walk goes on after a restart where it stood;
//! - [`condition`]: what condition nodes ask; [`draw`]: graphs that the box draws itself.
//!
//! Which providers and outputs an organization has is not known here: [`ParsedDag`] names those that the graph wants.

pub mod condition;
mod config;
pub mod draw;
mod flow;
pub mod read;
mod schema;
pub mod shape;
#[cfg(test)]
mod tests;
pub mod walk;

pub use condition::{Condition, JobFacts};
pub use read::{NameReference, ParsedDag};
pub use shape::{Dag, DagEdge, DagNode, EdgeType, Fault, NodeType, Problem};
pub use walk::{AttemptSummary, Step, StepEvent, Walk, WalkEnd};

use base::ids::{OutputId, ProviderId};

/// Nodes of a graph (data/docs/api.md, "Workflow graph").
pub const NODES_MAX: usize = 64;
/// Edges of a graph: more than the nodes can have, so only a mistake meets it.
pub const EDGES_MAX: usize = 512;
/// Attempts that one job can make on any way through a graph.
pub const ATTEMPTS_MAX: u32 = 32;
/// Bytes of a graph as JSON: a version row has its limit too.
pub const DAG_BYTES_MAX: usize = 256 << 10;
/// Characters of a node's or an edge's id.
pub const NODE_ID_CHARS_MAX: usize = 64;
/// Further tries of one provider node.
pub const RETRIES_MAX: u32 = 5;
/// Providers of one race.
pub const RACE_MAX: usize = 8;
/// Longest wait of a wait node (data/docs/api.md, "Workflow graph").
pub const WAIT_MS_MAX: u32 = 60_000;
/// Least time that an attempt may be given.
pub const TIMEOUT_MS_MIN: u32 = 100;
/// Most time that an attempt may be given.
pub const TIMEOUT_MS_MAX: u32 = 120_000;
/// Largest weight of a split's branch.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// The quality that an extract node asks for unless its config says otherwise.
pub const QUALITY_MIN_DEFAULT: f64 = 0.5;

/// A node's place in its graph, which is its place in the drawing.
pub type NodeIndex = usize;

/// A graph that holds; see the module page for what that means.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) start: NodeIndex,
    pub(super) reachable: Vec<bool>,
    pub(super) attempts_max: u32,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: String,
    pub work: NodeKind,
}

/// What a node does, and where it leads.
#[derive(Clone, Debug)]
pub enum NodeKind {
    Start {
        next: NodeIndex,
    },
    Condition {
        test: Condition,
        on_true: NodeIndex,
        on_false: NodeIndex,
    },
    Provider {
        provider: ProviderId,
        options: Overrides,
        retries: u32,
        edges: ProviderEdges,
    },
    Race {
        providers: Vec<ProviderId>,
        options: Overrides,
        success: NodeIndex,
        failure: NodeIndex,
    },
    Split {
        /// Where to, and with which weight, in the order of the edges.
        branches: Vec<(NodeIndex, u32)>,
        by: SplitBy,
    },
    Wait {
        ms: u32,
        next: NodeIndex,
    },
    Extract {
        min_quality: f64,
        success: NodeIndex,
        low_quality: NodeIndex,
    },
    Output {
        output: OutputId,
        next: NodeIndex,
    },
    End {
        succeeded: bool,
    },
}

/// Where a provider node leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderEdges {
    pub success: NodeIndex,
    pub failure: NodeIndex,
    /// What `failure` takes when they are not drawn.
    pub blocked: Option<NodeIndex>,
    pub timeout: Option<NodeIndex>,
}

/// What a node says about how a page is fetched; the job's own options fill in the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    pub render: Option<bool>,
    pub country: Option<String>,
    pub premium: Option<bool>,
    pub timeout_ms: Option<u32>,
    /// `false`: the target's robots.txt is not asked, whatever the provider's settings say.
    pub robots: Option<bool>,
}

/// What a split's choice hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBy {
    /// A URL always goes the same way.
    Url,
    /// Each job has a choice of its own, the same again when it runs again.
    Job,
}

/// What the tariff of a request hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tariff {
    pub render: bool,
    pub premium: bool,
}

impl Graph {
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Attempts on the way that makes the most.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// What the graph takes in memory, bytes: an upper bound that counts a regular expression as large as one may be.
    pub fn memory_bytes(&self) -> usize {
        let of_node = |node: &Node| size_of::<Node>() + node.id.len() + node.work.memory_bytes();
        size_of::<Graph>() + self.reachable.len() + self.nodes.iter().map(of_node).sum::<usize>()
    }

    /// The providers that a job can come to, each once, in the order of the drawing.
    pub fn providers(&self) -> Vec<ProviderId> {
        let mut all = Vec::new();
        for (provider, _) in self.uses() {
            if !all.contains(&provider) {
                all.push(provider);
            }
        }
        all
    }

    /// Every provider that a job can come to, with what the node says about the request.
    fn uses(&self) -> impl Iterator<Item = (ProviderId, &Overrides)> {
        let nodes = self.nodes.iter().zip(&self.reachable).filter(|(_, reachable)| **reachable);
        nodes.flat_map(|(node, _)| {
            let (providers, options) = match &node.work {
                NodeKind::Provider { provider, options, .. } => {
                    (std::slice::from_ref(provider), Some(options))
                }
                NodeKind::Race { providers, options, .. } => (providers.as_slice(), Some(options)),
                _ => (&[][..], None),
            };
            providers.iter().filter_map(move |provider| Some((*provider, options?)))
        })
    }

    /// The most credits that a job can be charged: only the attempt that delivers is, so the dearest one it can come to.
    /// `job` is what the job asks for; without it, whatever a job could ask for. `price` is what one delivery costs.
    pub fn credits_max(&self, job: Option<Tariff>, price: impl Fn(ProviderId, Tariff) -> u64) -> u64 {
        let both = [false, true];
        let of_use = |(provider, options): (ProviderId, &Overrides)| {
            let choices = |fixed: Option<bool>, asked: Option<bool>| match fixed.or(asked) {
                Some(given) => both.into_iter().filter(move |flag| *flag == given).collect::<Vec<_>>(),
                None => both.to_vec(),
            };
            let renders = choices(options.render, job.map(|job| job.render));
            let premiums = choices(options.premium, job.map(|job| job.premium));
            let tariffs = renders
                .into_iter()
                .flat_map(|render| premiums.iter().map(move |&premium| Tariff { render, premium }));
            tariffs.map(|tariff| price(provider, tariff)).max().unwrap_or(0)
        };
        self.uses().map(of_use).max().unwrap_or(0)
    }
}

impl NodeKind {
    pub fn kind(&self) -> NodeType {
        match self {
            NodeKind::Start { .. } => NodeType::Start,
            NodeKind::Condition { .. } => NodeType::Condition,
            NodeKind::Provider { .. } => NodeType::Provider,
            NodeKind::Race { .. } => NodeType::Race,
            NodeKind::Split { .. } => NodeType::Split,
            NodeKind::Wait { .. } => NodeType::Wait,
            NodeKind::Extract { .. } => NodeType::Extract,
            NodeKind::Output { .. } => NodeType::Output,
            NodeKind::End { .. } => NodeType::End,
        }
    }

    /// What the node keeps beside itself, bytes.
    fn memory_bytes(&self) -> usize {
        match self {
            NodeKind::Condition { test, .. } => test.memory_bytes(),
            NodeKind::Race { providers, .. } => providers.len() * size_of::<ProviderId>(),
            NodeKind::Split { branches, .. } => branches.len() * size_of::<(NodeIndex, u32)>(),
            _ => 0,
        }
    }

    /// The most attempts that one visit of the node makes.
    fn attempts_max(&self) -> u32 {
        match self {
            NodeKind::Provider { retries, .. } => retries + 1,
            NodeKind::Race { providers, .. } => u32::try_from(providers.len()).unwrap_or(u32::MAX),
            _ => 0,
        }
    }
}
