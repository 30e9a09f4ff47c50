//! From a drawing to a [`Graph`], or to everything that is wrong with it at once.

use super::config::NodeConfig;
use super::flow::{self, OutEdges};
use super::shape::{Dag, DagNode, EdgeType, Fault, NodeType, Problem, one_of, quoted, with_article};
use super::{
    ATTEMPTS_MAX, Condition, DAG_BYTES_MAX, EDGES_MAX, Graph, NODE_ID_CHARS_MAX, NODES_MAX, Node, NodeIndex,
    NodeKind, Overrides, ProviderEdges, QUALITY_MIN_DEFAULT, RACE_MAX, RETRIES_MAX, SplitBy, TIMEOUT_MS_MAX,
    TIMEOUT_MS_MIN, WAIT_MS_MAX, WEIGHT_MAX,
};
use base::ids::{AgentId, OutputId, ProviderId};
use std::collections::{HashMap, HashSet};

/// A place in the drawing that names something an organization has or has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameReference<T> {
    /// `dag.nodes[2].config.providerId`
    pub path: String,
    pub id: T,
}

/// What was read from a drawing.
#[derive(Debug)]
pub struct ParsedDag {
    /// Present when there are no errors.
    pub graph: Option<Graph>,
    /// In the order of the drawing: nodes, edges, then the whole.
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
    pub providers: Vec<NameReference<ProviderId>>,
    pub outputs: Vec<NameReference<OutputId>>,
}

impl ParsedDag {
    /// What the graph names and the organization does not have.
    pub fn missing(
        &self,
        connected: impl Fn(ProviderId) -> bool,
        has_output: impl Fn(OutputId) -> bool,
    ) -> Vec<Problem> {
        let providers = self.providers.iter().filter(|mention| !connected(mention.id)).map(|mention| {
            let message = format!("no connected provider has the id {}", mention.id);
            Problem::new(&mention.path, Fault::ProviderNotConnected, message)
        });
        let outputs = self.outputs.iter().filter(|mention| !has_output(mention.id)).map(|mention| {
            let message = format!("no output has the id {}", mention.id);
            Problem::new(&mention.path, Fault::OutputNotFound, message)
        });
        providers.chain(outputs).collect()
    }

    fn fail(&mut self, path: impl Into<String>, fault: Fault, message: impl Into<String>) {
        self.errors.push(Problem::new(path, fault, message));
    }
}

/// An edge whose ends and type are known.
struct Edge {
    kind: EdgeType,
    target: NodeIndex,
}

/// The drawing while it is read.
struct DagReader<'a> {
    dag: &'a Dag,
    reading: ParsedDag,
    /// The first node of each id.
    places: HashMap<&'a str, NodeIndex>,
    kinds: Vec<Option<NodeType>>,
    edges: Vec<Vec<Edge>>,
}

impl Graph {
    /// Reads a drawing.
    pub fn read(dag: &Dag) -> ParsedDag {
        let reading = ParsedDag {
            graph: None,
            errors: Vec::new(),
            warnings: Vec::new(),
            providers: Vec::new(),
            outputs: Vec::new(),
        };
        let mut reader = DagReader {
            dag,
            reading,
            places: HashMap::new(),
            kinds: Vec::new(),
            edges: dag.nodes.iter().map(|_| Vec::new()).collect(),
        };
        if reader.has_room() {
            reader.ids();
            reader.kinds();
            reader.edges();
            let works = reader.works();
            reader.whole(works);
        }
        reader.reading
    }
}

impl<'a> DagReader<'a> {
    /// Whether the drawing is small enough to be looked at; everything after this is bounded by it.
    fn has_room(&mut self) -> bool {
        let (nodes, edges) = (self.dag.nodes.len(), self.dag.edges.len());
        if nodes > NODES_MAX {
            let message = format!("has {nodes} nodes; at most {NODES_MAX} are allowed");
            self.reading.fail("dag.nodes", Fault::BadConfig, message);
        }
        if edges > EDGES_MAX {
            let message = format!("has {edges} edges; at most {EDGES_MAX} are allowed");
            self.reading.fail("dag.edges", Fault::BadConfig, message);
        }
        if !self.reading.errors.is_empty() {
            return false;
        }
        let bytes = serde_json::to_vec(self.dag).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > DAG_BYTES_MAX {
            let message = format!("takes {bytes} bytes of JSON; at most {DAG_BYTES_MAX} are kept");
            self.reading.fail("dag", Fault::BadConfig, message);
        }
        bytes <= DAG_BYTES_MAX
    }

    fn ids(&mut self) {
        for (i, node) in self.dag.nodes.iter().enumerate() {
            let path = format!("dag.nodes[{i}].id");
            if !is_id(&node.id) {
                self.reading.fail(path, Fault::BadConfig, bad_id());
            } else if let Some(first) = self.places.get(node.id.as_str()) {
                let message = format!("{} is also the id of dag.nodes[{first}]", quoted(&node.id));
                self.reading.fail(path, Fault::DuplicateId, message);
            } else {
                self.places.insert(&node.id, i);
            }
        }
    }

    fn kinds(&mut self) {
        let mut starts = Vec::new();
        for (i, node) in self.dag.nodes.iter().enumerate() {
            let kind = NodeType::named(&node.kind);
            if kind.is_none() {
                let known = one_of(NodeType::ALL.iter().map(|kind| kind.name()));
                let message = format!("{} is not a node type; one is {known}", quoted(&node.kind));
                self.reading.fail(format!("dag.nodes[{i}].type"), Fault::NodeTypeUnknown, message);
            }
            if kind == Some(NodeType::Start) {
                starts.push(i);
            }
            self.kinds.push(kind);
        }
        match starts[..] {
            [_] => {}
            [] => self.reading.fail("dag.nodes", Fault::MissingStart, "no node has the type \"start\""),
            [first, ref others @ ..] => {
                for i in others {
                    let message =
                        format!("is a second start beside dag.nodes[{first}]; a walk begins at one");
                    self.reading.fail(format!("dag.nodes[{i}]"), Fault::MissingStart, message);
                }
            }
        }
    }

    fn edges(&mut self) {
        let mut ids = HashSet::new();
        for (i, edge) in self.dag.edges.iter().enumerate() {
            let path = format!("dag.edges[{i}]");
            if let Some(id) = &edge.id {
                if !is_id(id) {
                    self.reading.fail(format!("{path}.id"), Fault::BadConfig, bad_id());
                } else if !ids.insert(id) {
                    let message = format!("{} is the id of another edge, too", quoted(id));
                    self.reading.fail(format!("{path}.id"), Fault::DuplicateId, message);
                }
            }
            let [source, target] = [("source", &edge.source), ("target", &edge.target)].map(|(end, id)| {
                let place = self.places.get(id.as_str()).copied();
                if place.is_none() {
                    let message = format!("there is no node {}", quoted(id));
                    self.reading.fail(format!("{path}.{end}"), Fault::DanglingEdge, message);
                }
                place
            });
            let kind = self.edge_kind(&path, &edge.kind, source);
            if let (Some(source), Some(target), Some(kind)) = (source, target, kind) {
                self.add_edge(&path, source, Edge { kind, target });
            }
        }
    }

    /// The type of an edge that leaves `source`, if it is one that a node of that type has.
    fn edge_kind(&mut self, path: &str, name: &str, source: Option<NodeIndex>) -> Option<EdgeType> {
        let path = format!("{path}.type");
        let Some(kind) = EdgeType::named(name) else {
            let known = one_of(EdgeType::ALL.iter().map(|kind| kind.name()));
            let message = format!("{} is not an edge type; one is {known}", quoted(name));
            self.reading.fail(path, Fault::EdgeTypeUnknown, message);
            return None;
        };
        let source = self.kinds[source?]?;
        let (must, may) = source.edges();
        if must.contains(&kind) || may.contains(&kind) {
            return Some(kind);
        }
        let known = one_of(must.iter().chain(may).map(|kind| kind.name()));
        let message = format!("no {name} edge leaves a node of type {}, only {known}", source.name());
        self.reading.fail(path, Fault::EdgeTypeUnknown, message);
        None
    }

    fn add_edge(&mut self, path: &str, source: NodeIndex, edge: Edge) {
        // A split has as many edges as branches; every other node one of each type.
        let is_split = self.kinds[source] == Some(NodeType::Split);
        let is_twin = |other: &Edge| other.kind == edge.kind && (!is_split || other.target == edge.target);
        if self.edges[source].iter().any(is_twin) {
            let id = quoted(&self.dag.nodes[source].id);
            let where_to = if is_split { " to the same node" } else { "" };
            let message = format!("is a second {} edge from {id}{where_to}", edge.kind.name());
            self.reading.fail(path, Fault::BadConfig, message);
        } else {
            self.edges[source].push(edge);
        }
    }

    /// What each node does; none for a node with which something is wrong.
    fn works(&mut self) -> Vec<Option<NodeKind>> {
        let dag = self.dag;
        (0..).zip(&dag.nodes).map(|(place, node)| self.work(place, node)).collect()
    }

    fn work(&mut self, place: NodeIndex, node: &'a DagNode) -> Option<NodeKind> {
        let kind = self.kinds[place]?;
        let path = format!("dag.nodes[{place}]");
        let mut config = NodeConfig::new(path.clone(), node.config.as_ref());
        config.warn_of_others(kind, &mut self.reading.warnings);
        let missing: Vec<_> =
            kind.edges().0.iter().filter(|kind| self.target(place, **kind).is_none()).collect();
        let work = self.read_work(kind, place, &mut config);
        self.reading.errors.append(&mut config.problems);
        for edge in &missing {
            let message = format!(
                "{}: {} node needs the edge {}",
                quoted(&node.id),
                with_article(kind.name()),
                edge.name()
            );
            self.reading.fail(&path, Fault::MissingEdge, message);
        }
        work.filter(|_| missing.is_empty())
    }

    fn target(&self, place: NodeIndex, kind: EdgeType) -> Option<NodeIndex> {
        self.edges[place].iter().find(|edge| edge.kind == kind).map(|edge| edge.target)
    }

    /// Where a required edge leads. One that is missing is reported by the caller, and the node is then not used.
    fn must(&self, place: NodeIndex, kind: EdgeType) -> NodeIndex {
        self.target(place, kind).unwrap_or(place)
    }

    fn read_work(
        &mut self,
        kind: NodeType,
        place: NodeIndex,
        config: &mut NodeConfig<'a>,
    ) -> Option<NodeKind> {
        let next = self.must(place, EdgeType::Always);
        let (success, failure) = (self.must(place, EdgeType::Success), self.must(place, EdgeType::Failure));
        Some(match kind {
            NodeType::Start => {
                // It binds the jobs to an agent, which is nothing that a walk asks.
                if let Some(agent) = config.optional("agentId") {
                    config.parse_id::<AgentId>("agentId", agent, "an agent")?;
                }
                NodeKind::Start { next }
            }
            NodeType::Condition => NodeKind::Condition {
                test: Condition::read(config)?,
                on_true: self.must(place, EdgeType::True),
                on_false: self.must(place, EdgeType::False),
            },
            NodeType::Provider => {
                let provider = config.id::<ProviderId>("providerId", "a provider");
                if let Some(id) = provider {
                    self.reading.providers.push(NameReference { path: config.at("providerId"), id });
                }
                let options = overrides(config);
                let retries = config.number("retries", 0..=RETRIES_MAX);
                let edges = ProviderEdges {
                    success,
                    failure,
                    blocked: self.target(place, EdgeType::Blocked),
                    timeout: self.target(place, EdgeType::Timeout),
                };
                NodeKind::Provider {
                    provider: provider?,
                    options: options?,
                    retries: retries?.unwrap_or(0),
                    edges,
                }
            }
            NodeType::Race => {
                let providers = self.racers(config);
                let timeout_ms = config.number("timeoutMs", TIMEOUT_MS_MIN..=TIMEOUT_MS_MAX);
                let robots = config.flag("robots");
                let options = Overrides { timeout_ms: timeout_ms?, robots: robots?, ..Overrides::default() };
                NodeKind::Race { providers: providers?, options, success, failure }
            }
            NodeType::Split => self.split(place, config)?,
            NodeType::Wait => {
                config.required("ms")?;
                NodeKind::Wait { ms: config.number("ms", 0..=WAIT_MS_MAX)?.unwrap_or_default(), next }
            }
            NodeType::Extract => NodeKind::Extract {
                min_quality: min_quality(config)?,
                success,
                low_quality: self.must(place, EdgeType::LowQuality),
            },
            NodeType::Output => {
                let output = config.id::<OutputId>("outputId", "an output")?;
                self.reading.outputs.push(NameReference { path: config.at("outputId"), id: output });
                NodeKind::Output { output, next }
            }
            NodeType::End => end(config)?,
        })
    }

    fn racers(&mut self, config: &mut NodeConfig<'_>) -> Option<Vec<ProviderId>> {
        let Some(members) = config.required("providerIds")?.as_array() else {
            config.wrong("providerIds", "must be an array");
            return None;
        };
        if !(1..=RACE_MAX).contains(&members.len()) {
            config.wrong("providerIds", format!("must have 1 to {RACE_MAX} members, not {}", members.len()));
            return None;
        }
        let mut providers = Vec::new();
        for (i, member) in members.iter().enumerate() {
            let name = format!("providerIds[{i}]");
            let Some(id) = config.parse_id::<ProviderId>(&name, member, "a provider") else { continue };
            self.reading.providers.push(NameReference { path: config.at(&name), id });
            if providers.contains(&id) {
                config.wrong(&name, "is named twice");
            } else {
                providers.push(id);
            }
        }
        (providers.len() == members.len()).then_some(providers)
    }

    fn split(&mut self, place: NodeIndex, config: &mut NodeConfig<'_>) -> Option<NodeKind> {
        let by = match config.optional("by").map(|value| value.as_str()) {
            None | Some(Some("url")) => SplitBy::Url,
            Some(Some("job")) => SplitBy::Job,
            Some(_) => {
                config.wrong("by", "must be url or job");
                return None;
            }
        };
        let Some(weights) = config.required("weights")?.as_object() else {
            config.wrong("weights", "must be an object of node ids and weights");
            return None;
        };
        let before = config.problems.len();
        let mut branches = Vec::new();
        for edge in &self.edges[place] {
            let id = &self.dag.nodes[edge.target].id;
            match weights.get(id).map(|weight| weight.as_u64().and_then(|n| u32::try_from(n).ok())) {
                Some(Some(weight)) if weight <= WEIGHT_MAX => branches.push((edge.target, weight)),
                Some(_) => {
                    let message =
                        format!("the weight of {} must be a whole number from 0 to {WEIGHT_MAX}", quoted(id));
                    config.wrong("weights", message);
                }
                None => config.wrong("weights", format!("{} has an edge and no weight", quoted(id))),
            }
        }
        for target in weights.keys() {
            let known = self.edges[place].iter().any(|edge| self.dag.nodes[edge.target].id == *target);
            if !known {
                config.wrong("weights", format!("{} has a weight and no edge", quoted(target)));
            }
        }
        if config.problems.len() > before {
            return None;
        }
        if branches.iter().all(|(_, weight)| *weight == 0) {
            config.wrong("weights", "must have one that is not zero");
            return None;
        }
        Some(NodeKind::Split { branches, by })
    }

    /// What holds for the whole drawing, and the graph when everything does.
    fn whole(&mut self, works: Vec<Option<NodeKind>>) {
        let out: OutEdges = self
            .edges
            .iter()
            .map(|edges| edges.iter().map(|edge| (edge.kind, edge.target)).collect())
            .collect();
        let order = flow::topological(&out);
        if let Err(cycle) = &order {
            let ids: Vec<_> =
                cycle.iter().chain(cycle.first()).map(|place| quoted(&self.dag.nodes[*place].id)).collect();
            let path = format!("dag.nodes[{}]", cycle.first().copied().unwrap_or_default());
            let message = format!("leads back to itself: {}", ids.join(" → "));
            self.reading.fail(path, Fault::Cycle, message);
        }
        let Some(start) = self.kinds.iter().position(|kind| *kind == Some(NodeType::Start)) else { return };
        let reachable = flow::reachable(&out, start);
        for (i, node) in self.dag.nodes.iter().enumerate().filter(|(i, _)| !reachable[*i]) {
            let message = format!("no way leads from the start to {}", quoted(&node.id));
            self.reading.warnings.push(Problem::new(format!("dag.nodes[{i}]"), Fault::Unreachable, message));
        }
        let works: Option<Vec<NodeKind>> = works.into_iter().collect();
        let (Some(works), Ok(order), true) = (works, order, self.reading.errors.is_empty()) else { return };
        self.pages(&out, &works, &order, &reachable);
        let attempts_max = flow::attempts_max(&out, &works, &order, &reachable);
        if attempts_max > ATTEMPTS_MAX {
            let message =
                format!("one job could make {attempts_max} attempts; at most {ATTEMPTS_MAX} are allowed");
            self.reading.fail("dag", Fault::BadConfig, message);
        }
        if self.reading.errors.is_empty() {
            let ids = self.dag.nodes.iter().map(|node| node.id.clone());
            let nodes = ids.zip(works).map(|(id, work)| Node { id, work }).collect();
            self.reading.graph = Some(Graph { nodes, start, reachable, attempts_max });
        }
    }

    /// An extract node reads a page and an end delivers one: on every way to them there must be one.
    fn pages(&mut self, out: &OutEdges, works: &[NodeKind], order: &[NodeIndex], reachable: &[bool]) {
        let page = flow::page_at_hand(out, works, order, reachable);
        for (i, work) in works.iter().enumerate().filter(|(i, _)| reachable[*i] && !page[*i]) {
            if matches!(work, NodeKind::Extract { .. } | NodeKind::End { succeeded: true }) {
                let message = format!(
                    "{} can be reached without a page: a provider or race must have succeeded on every way to it",
                    quoted(&self.dag.nodes[i].id)
                );
                self.reading.fail(format!("dag.nodes[{i}]"), Fault::BadConfig, message);
            }
        }
    }
}

fn overrides(config: &mut NodeConfig<'_>) -> Option<Overrides> {
    let (render, premium, robots) = (config.flag("render"), config.flag("premium"), config.flag("robots"));
    let timeout_ms = config.number("timeoutMs", TIMEOUT_MS_MIN..=TIMEOUT_MS_MAX);
    let country = match config.optional("country").map(|value| value.as_str()) {
        None => Some(None),
        Some(Some(code)) if code.len() == 2 && code.bytes().all(|b| b.is_ascii_alphabetic()) => {
            Some(Some(code.to_ascii_uppercase()))
        }
        Some(_) => {
            config.wrong("country", "must be a country code of two letters, such as DE");
            None
        }
    };
    Some(Overrides {
        render: render?,
        country: country?,
        premium: premium?,
        timeout_ms: timeout_ms?,
        robots: robots?,
    })
}

fn end(config: &mut NodeConfig<'_>) -> Option<NodeKind> {
    match config.text("status")? {
        "succeeded" => Some(NodeKind::End { succeeded: true }),
        "failed" => Some(NodeKind::End { succeeded: false }),
        other => {
            let message = format!("must be succeeded or failed, not {}", quoted(other));
            config.wrong("status", message);
            None
        }
    }
}

fn min_quality(config: &mut NodeConfig<'_>) -> Option<f64> {
    let Some(value) = config.optional("minQuality") else { return Some(QUALITY_MIN_DEFAULT) };
    let quality = value.as_f64().filter(|quality| (0.0..=1.0).contains(quality));
    if quality.is_none() {
        config.wrong("minQuality", "must be a number from 0 to 1");
    }
    quality
}

fn is_id(id: &str) -> bool {
    (1..=NODE_ID_CHARS_MAX).contains(&id.chars().count()) && !id.chars().any(char::is_control)
}

fn bad_id() -> String {
    format!("must have 1 to {NODE_ID_CHARS_MAX} characters and no control characters")
}
