//! Graphs that were read once. A version never changes, so what was read from it stays true; a graph is found only by
//! whoever has read the version's id from a row of their own organization.

use super::rows::VERSIONS;
use crate::base::ids::{ProviderId, WorkflowVersionId};
use crate::base::{Error, Result};
use crate::engine::dag::{Dag, Graph, draw};
use crate::store::OrgRead;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Graphs that are kept; one takes some tens of kilobytes, and some megabytes when it is full of expressions.
const GRAPHS_MAX: usize = 128;

/// Reads versions into graphs. Hung up in the services.
#[derive(Default)]
pub struct Graphs {
    read: Mutex<HashMap<WorkflowVersionId, Arc<Graph>>>,
    /// Built-in paths by their providers.
    chains: Mutex<HashMap<Vec<ProviderId>, Arc<Graph>>>,
}

impl Graphs {
    /// The graph of a version that the organization has.
    pub fn of(&self, tx: &OrgRead<'_>, version: WorkflowVersionId) -> Result<Arc<Graph>> {
        if let Some(graph) = self.read.lock().get(&version) {
            return Ok(graph.clone());
        }
        let row = tx.require(&VERSIONS, &version)?;
        let graph = Arc::new(read(&row.dag.into())?);
        keep(&mut self.read.lock(), version, &graph);
        Ok(graph)
    }

    /// The built-in path through these providers.
    pub fn chain(&self, providers: &[ProviderId]) -> Result<Arc<Graph>> {
        if let Some(graph) = self.chains.lock().get(providers) {
            return Ok(graph.clone());
        }
        let graph = Arc::new(read(&draw::chain(providers))?);
        keep(&mut self.chains.lock(), providers.to_vec(), &graph);
        Ok(graph)
    }
}

fn keep<K: Eq + Hash>(graphs: &mut HashMap<K, Arc<Graph>>, key: K, graph: &Arc<Graph>) {
    if graphs.len() >= GRAPHS_MAX {
        // Which ones are in use shows at once, and reading one again takes a fraction of a millisecond.
        graphs.clear();
    }
    graphs.insert(key, graph.clone());
}

fn read(dag: &Dag) -> Result<Graph> {
    let reading = Graph::read(dag);
    let first = reading.errors.first().map(|problem| format!("{}: {}", problem.path, problem.message));
    reading.graph.ok_or_else(|| Error::internal("read a stored graph", first.unwrap_or_default()))
}
