//! Example values that agents know of their own rows: kept for a short time, in memory, for a bounded number of agents.

use base::ids::{AgentId, OrgId};
use parking_lot::Mutex;
use serde_json::Value;
use sql::TableName;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the values are known that an agent's rows have, from which age on they are looked for anew, and that of none.
const KEPT_FOR_AGENT: Duration = Duration::from_secs(3_600);
const REFRESHED_FOR_AGENT: Duration = Duration::from_secs(600);
const NONE_FOR_AGENT: Duration = Duration::from_secs(20);
/// Agents whose values are known at a time.
const AGENTS_MAX: usize = 64;

/// Example values of columns, by table.
pub(super) type ValuesOfAgent = HashMap<TableName, Vec<(String, Value)>>;

/// What agents know of the values of their own rows.
#[derive(Default)]
pub(super) struct SamplesOfAgents(Mutex<HashMap<(OrgId, AgentId), SamplesOfAgent>>);

/// What one agent knows.
#[derive(Clone)]
pub(super) struct SamplesOfAgent {
    sampled_at: Instant,
    pub(super) values: Arc<ValuesOfAgent>,
}

impl SamplesOfAgents {
    pub(super) fn get(&self, place: (OrgId, AgentId)) -> Option<SamplesOfAgent> {
        let known = self.0.lock().get(&place).cloned();
        known.filter(|known| known.sampled_at.elapsed() < KEPT_FOR_AGENT)
    }

    /// Keeps what was found, in the place of what is oldest where there is no other.
    pub(super) fn keep(&self, place: (OrgId, AgentId), values: ValuesOfAgent) {
        let mut all = self.0.lock();
        all.retain(|_, known| known.sampled_at.elapsed() < KEPT_FOR_AGENT);
        while all.len() >= AGENTS_MAX && !all.contains_key(&place) {
            let oldest = all.iter().min_by_key(|(_, known)| known.sampled_at).map(|(place, _)| *place);
            let Some(oldest) = oldest else { break };
            all.remove(&oldest);
        }
        all.insert(place, SamplesOfAgent { sampled_at: Instant::now(), values: Arc::new(values) });
    }

    /// The organization is being erased.
    pub(super) fn forget(&self, org: OrgId) {
        self.0.lock().retain(|(own, _), _| *own != org);
    }
}

impl SamplesOfAgent {
    pub(super) fn is_fresh(&self) -> bool {
        let most = if self.values.is_empty() { NONE_FOR_AGENT } else { REFRESHED_FOR_AGENT };
        self.sampled_at.elapsed() < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_know_has_its_bound_and_goes_with_the_organization() {
        let (samples, one, other) = (SamplesOfAgents::default(), OrgId::new(), OrgId::new());
        let first = AgentId::new();
        samples.keep((one, first), ValuesOfAgent::new());
        assert!(samples.get((one, first)).is_some_and(|known| known.is_fresh()));
        assert!(samples.get((other, first)).is_none());
        let last = AgentId::new();
        for agent in (1..AGENTS_MAX).map(|_| AgentId::new()).chain([last]) {
            samples.keep((other, agent), ValuesOfAgent::new());
        }
        assert!(samples.get((one, first)).is_none() && samples.get((other, last)).is_some());
        assert_eq!(samples.0.lock().len(), AGENTS_MAX);
        samples.forget(other);
        assert!(samples.get((other, last)).is_none());
    }
}
