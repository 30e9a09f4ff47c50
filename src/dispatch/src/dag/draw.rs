//! Graphs that the box draws itself: the built-in path, and what a smart workflow's plan looks like.
//!
//! A plan is drawn as
//!
//! ```text
//! start → explore ─────────────→ domain in […]? ─ true → a → c → b → failed
//!            │  (some per mille)      │ false
//!            └→ try b ── failure ─────┤
//!                                     └ domain in […]? … → b → a → c → failed
//! ```
//!
//! and every provider's success leads to the end that delivers. Chains that end alike share their end. A graph has at
//! most [`NODES_MAX`] nodes, so domains with little traffic keep only the first of their own order, or follow everybody's.

use super::shape::{Dag, DagEdge, DagNode, EdgeType, NodeType};
use super::{ATTEMPTS_MAX, NODES_MAX};
use crate::rank::plan::{CHAIN_MAX, Plan};
use base::ids::ProviderId;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

const START: &str = "start";
const EXPLORE: &str = "explore";
const SUCCEEDED: &str = "succeeded";
const FAILED: &str = "failed";

/// How many of its own first providers a domain keeps at best; the others follow in everybody's order.
const DEPTH_MAX: usize = 3;
/// Members of one condition's list.
const DOMAINS_PER_CONDITION: usize = 200;

/// The built-in path: the providers in this order, each once, until one delivers.
pub fn chain(providers: &[ProviderId]) -> Dag {
    let mut drawing = Drawing::default();
    let providers = &providers[..providers.len().min(ATTEMPTS_MAX as usize).min(NODES_MAX - 3)];
    drawing.node(START, NodeType::Start, Value::Null);
    let first = drawing.chain(providers);
    drawing.edge(START, EdgeType::Always, &first);
    drawing.ends(!providers.is_empty());
    drawing.dag
}

/// The graph of a plan. `busiest` says how much traffic a domain has; the least busy lose detail first.
pub fn ranked(plan: &Plan, busiest: impl Fn(&str) -> u64) -> Dag {
    let mut depths: Vec<(&str, usize)> =
        plan.domains.iter().map(|(domain, _)| (domain.as_str(), DEPTH_MAX)).collect();
    depths.sort_by_key(|(domain, _)| std::cmp::Reverse(busiest(domain)));
    loop {
        let dag = draw(plan, &depths);
        if dag.nodes.len() <= NODES_MAX {
            return dag;
        }
        // From the quietest on, each loses one place before any loses two.
        let deepest = depths.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        match depths.iter_mut().rev().find(|(_, depth)| *depth == deepest && deepest > 0) {
            Some((_, depth)) => *depth -= 1,
            None => return dag,
        }
    }
}

fn draw(plan: &Plan, depths: &[(&str, usize)]) -> Dag {
    let mut drawing = Drawing::default();
    let overall = &plan.overall[..plan.overall.len().min(CHAIN_MAX)];
    drawing.node(START, NodeType::Start, Value::Null);
    // Domains with the same order share a condition.
    let mut groups: BTreeMap<Vec<ProviderId>, Vec<&str>> = BTreeMap::new();
    for (domain, depth) in depths {
        let own = plan.of(domain).map_or(&[][..], Vec::as_slice);
        let own = &own[..own.len().min(*depth)];
        let rest = overall.iter().filter(|id| !own.contains(id)).copied();
        let order: Vec<_> = own.iter().copied().chain(rest).take(CHAIN_MAX).collect();
        if order != overall {
            groups.entry(order).or_default().push(domain);
        }
    }
    let tries: Vec<_> = plan.explore.iter().filter(|(_, share)| *share > 0).collect();
    let mut entry = drawing.chain(overall);
    let mut number = 0;
    for (order, mut domains) in groups {
        domains.sort_unstable();
        let first = drawing.chain(&order);
        for part in domains.chunks(DOMAINS_PER_CONDITION) {
            number += 1;
            let id = format!("domains-{number}");
            drawing.node(&id, NodeType::Condition, json!({ "field": "domain", "op": "in", "value": part }));
            drawing.edge(&id, EdgeType::True, &first);
            drawing.edge(&id, EdgeType::False, &entry);
            entry = id;
        }
    }
    let begin = if tries.is_empty() { entry.clone() } else { EXPLORE.to_owned() };
    drawing.edge(START, EdgeType::Always, &begin);
    drawing.explore(&tries, &entry);
    drawing.ends(!overall.is_empty());
    drawing.dag
}

/// A drawing in the making.
#[derive(Default)]
struct Drawing {
    dag: Dag,
    /// The node that asks a provider and leads on to another node when that fails.
    links: HashMap<(ProviderId, String), String>,
}

impl Drawing {
    fn node(&mut self, id: &str, kind: NodeType, config: Value) {
        let config = match config {
            Value::Object(members) => Some(members),
            _ => None::<Map<String, Value>>,
        };
        self.dag.nodes.push(DagNode {
            id: id.to_owned(),
            kind: kind.name().to_owned(),
            config,
            position: None,
        });
    }

    fn edge(&mut self, source: &str, kind: EdgeType, target: &str) {
        self.dag.edges.push(DagEdge {
            id: None,
            source: source.to_owned(),
            target: target.to_owned(),
            kind: kind.name().to_owned(),
        });
    }

    fn provider(&mut self, id: &str, provider: ProviderId, failure: &str) {
        self.node(id, NodeType::Provider, json!({ "providerId": provider }));
        self.edge(id, EdgeType::Success, SUCCEEDED);
        self.edge(id, EdgeType::Failure, failure);
    }

    /// The first node of a chain through these providers.
    fn chain(&mut self, providers: &[ProviderId]) -> String {
        let mut next = FAILED.to_owned();
        for provider in providers.iter().rev() {
            let link = (*provider, next);
            next = match self.links.get(&link) {
                Some(known) => known.clone(),
                None => {
                    let id = format!("provider-{}", self.links.len() + 1);
                    self.provider(&id, *provider, &link.1);
                    self.links.insert(link, id.clone());
                    id
                }
            };
        }
        next
    }

    /// A split that sends some jobs to another provider first; what fails there goes the usual way.
    fn explore(&mut self, tries: &[&(ProviderId, u32)], entry: &str) {
        if tries.is_empty() {
            return;
        }
        let explored: u32 = tries.iter().map(|(_, share)| *share).sum();
        let mut weights = Map::new();
        weights.insert(entry.to_owned(), json!(1_000u32.saturating_sub(explored).max(1)));
        self.edge(EXPLORE, EdgeType::Always, entry);
        for (i, (provider, share)) in tries.iter().enumerate() {
            let id = format!("try-{}", i + 1);
            weights.insert(id.clone(), json!(share));
            self.edge(EXPLORE, EdgeType::Always, &id);
            self.provider(&id, *provider, entry);
        }
        self.node(EXPLORE, NodeType::Split, json!({ "weights": weights, "by": "job" }));
    }

    /// The two ends; the one that succeeds only where something leads to it.
    fn ends(&mut self, succeeded: bool) {
        if succeeded {
            self.node(SUCCEEDED, NodeType::End, json!({ "status": "succeeded" }));
        }
        self.node(FAILED, NodeType::End, json!({ "status": "failed" }));
    }
}
