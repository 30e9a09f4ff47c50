//! A graph as it travels and is stored, and the words of it (data/docs/api.md, "Workflow graph").
//!
//! A [`Dag`] promises nothing: it is what somebody sent. [`super::Graph`] is what was read from one and holds.

use super::{EDGES_MAX, NODE_ID_CHARS_MAX, NODES_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Nodes and edges as somebody drew them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dag {
    #[schemars(length(max = NODES_MAX))]
    pub nodes: Vec<DagNode>,
    #[schemars(length(max = EDGES_MAX))]
    pub edges: Vec<DagEdge>,
}

/// A node as it was drawn. How the reference describes it: `schema.rs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DagNode {
    /// 1 to 64 characters, unique among the nodes.
    pub id: String,
    /// start, condition, provider, race, split, wait, extract, output or end.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the type asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// Where an editor draws it; kept and never read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Map<String, Value>>,
}

/// An edge as it was drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DagEdge {
    /// Unique among the edges, for editors; kept and never read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = NODE_ID_CHARS_MAX))]
    pub id: Option<String>,
    /// The node that it leaves.
    pub source: String,
    /// The node that it leads to.
    pub target: String,
    /// As the source's type allows.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = EdgeType::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>()))]
    pub kind: String,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($variant),* }

        impl $name {
            /// Every one, in the order of the reference.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word on the wire.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// The one of this word.
            pub fn named(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

words! {
    /// What a node does.
    NodeType {
        Start "start",
        Condition "condition",
        Provider "provider",
        Race "race",
        Split "split",
        Wait "wait",
        Extract "extract",
        Output "output",
        End "end",
    }
}

words! {
    /// When an edge is taken.
    EdgeType {
        Always "always",
        True "true",
        False "false",
        Success "success",
        Failure "failure",
        Blocked "blocked",
        Timeout "timeout",
        LowQuality "low_quality",
    }
}

words! {
    /// What can be wrong with a graph.
    Fault {
        NodeTypeUnknown "node_type_unknown",
        EdgeTypeUnknown "edge_type_unknown",
        MissingStart "missing_start",
        DuplicateId "duplicate_id",
        DanglingEdge "dangling_edge",
        Cycle "cycle",
        Unreachable "unreachable",
        MissingEdge "missing_edge",
        ProviderNotConnected "provider_not_connected",
        OutputNotFound "output_not_found",
        BadConfig "bad_config",
    }
}

impl NodeType {
    /// The edges that must leave a node of this type, then those that may.
    pub fn edges(self) -> (&'static [EdgeType], &'static [EdgeType]) {
        use EdgeType::{Always, Blocked, Failure, False, LowQuality, Success, Timeout, True};
        match self {
            NodeType::Start | NodeType::Split | NodeType::Wait | NodeType::Output => (&[Always], &[]),
            NodeType::Condition => (&[True, False], &[]),
            NodeType::Provider => (&[Success, Failure], &[Blocked, Timeout]),
            NodeType::Race => (&[Success, Failure], &[]),
            NodeType::Extract => (&[Success, LowQuality], &[]),
            NodeType::End => (&[], &[]),
        }
    }

    /// The members of its `config`.
    pub fn members(self) -> &'static [&'static str] {
        match self {
            NodeType::Start => &["agentId"],
            NodeType::Condition => &["field", "op", "value"],
            NodeType::Provider => {
                &["providerId", "render", "country", "premium", "timeoutMs", "retries", "robots"]
            }
            NodeType::Race => &["providerIds", "timeoutMs", "robots"],
            NodeType::Split => &["weights", "by"],
            NodeType::Wait => &["ms"],
            NodeType::Extract => &["minQuality"],
            NodeType::Output => &["outputId"],
            NodeType::End => &["status"],
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From the body's root: `dag.nodes[2].config.providerId`.
    pub path: String,
    pub fault: Fault,
    /// For a person.
    pub message: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, fault: Fault, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), fault, message: message.into() }
    }
}

/// The names of a list as one reads them: `a, b or c`.
pub(super) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    match names.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// A word with its article, as it stands in a sentence.
pub(super) fn with_article(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// A text of the caller's in a message, cut so that a long one does not become a long answer.
pub(super) fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let cut: String = text.chars().take(CHARS_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}
