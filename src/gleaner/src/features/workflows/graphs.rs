//! Graphs that were read once. A version never changes, so what was read from it stays true; a graph is found only by
//! whoever has read the version's id from a row of their own organization.

use super::rows::VERSIONS;
use base::ids::{ProviderId, WorkflowVersionId};
use base::{Error, Result};
use dispatch::dag::{Dag, Graph, draw};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use store::OrgRead;

/// What kept graphs may take in memory, of versions and of built-in paths each. Most take a few kilobytes; one that is
/// full of regular expressions takes as much as half of this.
const GRAPHS_BYTES_MAX: usize = 96 << 20;
/// What a graph takes beside itself: its key and its place.
const ENTRY_BYTES: usize = 256;

/// Reads versions into graphs. Hung up in the services.
#[derive(Default)]
pub struct Graphs {
    read: Mutex<GraphCache<WorkflowVersionId>>,
    /// Built-in paths by their providers.
    chains: Mutex<GraphCache<Vec<ProviderId>>>,
}

/// Graphs that were read, and what they take.
struct GraphCache<K> {
    graphs: HashMap<K, Arc<Graph>>,
    bytes: usize,
}

impl<K> Default for GraphCache<K> {
    fn default() -> Self {
        GraphCache { graphs: HashMap::new(), bytes: 0 }
    }
}

impl<K: Eq + Hash> GraphCache<K> {
    fn keep(&mut self, key: K, graph: &Arc<Graph>) {
        let bytes = graph.memory_bytes() + ENTRY_BYTES;
        if self.bytes + bytes > GRAPHS_BYTES_MAX {
            // Which ones are in use shows at once, and reading one again takes a fraction of a millisecond.
            *self = GraphCache::default();
        }
        // Two that read the same one at once count it once.
        if self.graphs.insert(key, graph.clone()).is_none() {
            self.bytes += bytes;
        }
    }
}

impl Graphs {
    /// The graph of a version that the organization has.
    pub fn of(&self, tx: &OrgRead<'_>, version: WorkflowVersionId) -> Result<Arc<Graph>> {
        if let Some(graph) = self.read.lock().graphs.get(&version) {
            return Ok(graph.clone());
        }
        let row = tx.require(&VERSIONS, &version)?;
        let graph = Arc::new(read(&row.dag.into())?);
        self.read.lock().keep(version, &graph);
        Ok(graph)
    }

    /// The built-in path through these providers.
    pub fn chain(&self, providers: &[ProviderId]) -> Result<Arc<Graph>> {
        if let Some(graph) = self.chains.lock().graphs.get(providers) {
            return Ok(graph.clone());
        }
        let graph = Arc::new(read(&draw::chain(providers))?);
        self.chains.lock().keep(providers.to_vec(), &graph);
        Ok(graph)
    }
}

fn read(dag: &Dag) -> Result<Graph> {
    let reading = Graph::read(dag);
    let first = reading.errors.first().map(|problem| format!("{}: {}", problem.path, problem.message));
    reading.graph.ok_or_else(|| Error::internal("read a stored graph", first.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A graph with so many conditions, each a regular expression.
    fn graph(conditions: usize) -> Arc<Graph> {
        let test = |i: usize| {
            let config = json!({ "field": "url", "op": "matches", "value": format!("x{i}+$") });
            json!({ "id": format!("c{i}"), "type": "condition", "config": config })
        };
        let end = |id: &str| json!({ "id": id, "type": "end", "config": { "status": "failed" } });
        let mut nodes = vec![json!({ "id": "start", "type": "start" }), end("end")];
        nodes.extend((0..conditions).map(test));
        let id = |i: usize| if i < conditions { format!("c{i}") } else { "end".to_owned() };
        let edge = |source: String, target: String, kind: &str| json!({ "source": source, "target": target, "type": kind });
        let mut edges = vec![edge("start".to_owned(), id(0), "always")];
        edges.extend(
            (0..conditions)
                .flat_map(|i| [edge(id(i), id(i + 1), "true"), edge(id(i), "end".to_owned(), "false")]),
        );
        let dag = serde_json::from_value(json!({ "nodes": nodes, "edges": edges })).unwrap();
        Arc::new(read(&dag).unwrap())
    }

    #[test]
    fn what_is_kept_is_bounded_by_what_it_takes() {
        let (large, small) = (graph(60), graph(0));
        assert!((40 << 20..GRAPHS_BYTES_MAX).contains(&large.memory_bytes()), "{}", large.memory_bytes());
        assert!(small.memory_bytes() < 2_000, "{}", small.memory_bytes());
        let mut kept = GraphCache::default();
        for key in 0..20_000 {
            kept.keep(key, &small);
        }
        assert_eq!(kept.graphs.len(), 20_000, "of small ones there is room for all that are in use");
        let before = kept.bytes;
        kept.keep(7, &small);
        assert_eq!(kept.bytes, before, "one that is there already takes nothing more");
        for key in 30_000..30_010 {
            kept.keep(key, &large);
            assert!(kept.graphs.contains_key(&key) && kept.bytes <= GRAPHS_BYTES_MAX);
        }
        assert!(kept.graphs.len() <= 3, "{}", kept.graphs.len());
    }
}
