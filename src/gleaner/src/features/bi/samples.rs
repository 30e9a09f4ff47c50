//! Example values of a table's columns (data/docs/api.md, "The SQL console").
//!
//! They are looked for when somebody asks for the table and the last ones are nearly a day old: a table that nobody looks
//! at costs nothing. The look is a statement like any other, in a worker, over the newest rows. Values that are older than
//! a day are not shown, so a caller who finds none waits a moment for the look.
//!
//! An agent knows values of its own rows only, by looks of its own in its scope. What belongs to an agent changes with every job, so
//! they are kept for a short time, in memory, and go with the process.

use super::known_values::ValuesOfAgent;
use super::rows::{SAMPLES, SamplesV1, ScopeV1};
use super::service::{OWN_ROWS_MAX, Queries};
use base::clock::Now;
use base::codec::Json;
use base::ids::{AgentId, OrgId};
use base::{Error, Result};
use serde_json::{Map, Value};
use sql::{ColumnKind, TableSpec, TableStatus};
use std::sync::Arc;
use std::time::Duration;
use store::OrgStore;
use tokio::task::JoinHandle;

/// Values of a column that are shown, and that an agent knows: people name any of a shop's brands.
const VALUES_MAX: usize = 5;
const VALUES_FOR_AGENT_MAX: usize = 40;
/// Longest text that is shown as an example.
const VALUE_CHARS_MAX: usize = 200;
/// How long they are shown: they are refreshed daily.
const KEPT: Duration = Duration::from_secs(86_400);
/// From this age on they are looked for anew, so that whoever comes by now and then finds some at any time.
const REFRESHED_AFTER: Duration = Duration::from_secs(20 * 3_600);
/// How long a caller waits for a look when there is nothing to show.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// Values that one agent knows.
const VALUES_OF_AGENT_MAX: usize = 4_000;

/// A look that is under way; another one for the same table or agent is not begun meanwhile.
struct Look {
    queries: Arc<Queries>,
    key: (OrgId, String),
}

impl Drop for Look {
    fn drop(&mut self) {
        self.queries.sampling.lock().remove(&self.key);
    }
}

impl Queries {
    /// What is known of a table's values, never older than a day. When they grow old a look begins; the caller waits a
    /// little for it when there is nothing to show without.
    pub(super) async fn samples(
        self: &Arc<Self>,
        org: &OrgStore,
        table: &TableStatus,
    ) -> Result<Option<SamplesV1>> {
        if table.row_count == 0 {
            // What its rows once said went with them.
            return Ok(None);
        }
        let known = self.known(org, &table.spec)?;
        if known.as_ref().is_some_and(|samples| is_fresh(samples, &table.spec, &org.clock().look())) {
            return Ok(known);
        }
        match (known, self.look(org, &table.spec)) {
            (None, Some(look)) => {
                // An error means that it takes longer, or has failed: it says so itself.
                let _ = tokio::time::timeout(LOOK_WAIT, look).await;
                self.known(org, &table.spec)
            }
            (known, _) => Ok(known),
        }
    }

    /// The values that may be shown.
    fn known(&self, org: &OrgStore, spec: &TableSpec) -> Result<Option<SamplesV1>> {
        let known = org.read(|tx| tx.get(&SAMPLES, &spec.name.to_string()))?;
        Ok(known.filter(|samples| org.clock().look().age(samples.sampled_at) < KEPT))
    }

    /// Begins a look, unless one for this table is under way.
    fn look(self: &Arc<Self>, org: &OrgStore, spec: &Arc<TableSpec>) -> Option<JoinHandle<()>> {
        let look = self.begin(org.id(), spec.name.to_string())?;
        let (org, spec) = (org.clone(), Arc::clone(spec));
        Some(tokio::spawn(async move {
            // One look at a time: what people ask goes before examples.
            let turn = look.queries.sample_turn.lock().await;
            if let Err(error) = look.queries.sample(&org, &spec).await {
                tracing::warn!(table = %spec.name, %error, "no example values were found");
            }
            drop(turn);
            drop(look);
        }))
    }

    fn begin(self: &Arc<Self>, org: OrgId, what: String) -> Option<Look> {
        let key = (org, what);
        let is_first = self.sampling.lock().insert(key.clone());
        is_first.then(|| Look { queries: Arc::clone(self), key })
    }

    /// What an agent knows of the values of its rows. When they grow old a look begins; the caller waits a little for it when
    /// there is nothing to know without.
    pub(super) async fn samples_of_agent(
        self: &Arc<Self>,
        org: &OrgStore,
        agent: AgentId,
    ) -> Arc<ValuesOfAgent> {
        let place = (org.id(), agent);
        let mut known = self.samples_of_agents.get(place);
        if known.as_ref().is_none_or(|known| !known.is_fresh()) {
            let look = self.look_for_agent(org, agent);
            if let Some(look) = look.filter(|_| known.is_none()) {
                // An error means that it takes longer, or has failed: it says so itself.
                let _ = tokio::time::timeout(LOOK_WAIT, look).await;
                known = self.samples_of_agents.get(place);
            }
        }
        known.map(|known| known.values).unwrap_or_default()
    }

    /// Begins a look for an agent, unless one is under way.
    fn look_for_agent(self: &Arc<Self>, org: &OrgStore, agent: AgentId) -> Option<JoinHandle<()>> {
        let look = self.begin(org.id(), agent.to_string())?;
        let org = org.clone();
        Some(tokio::spawn(async move {
            match look.queries.sample_for_agent(&org, agent).await {
                Ok(values) => look.queries.samples_of_agents.keep((org.id(), agent), values),
                Err(error) => tracing::warn!(%agent, %error, "no example values were found for an agent"),
            }
            drop(look);
        }))
    }

    async fn sample_for_agent(&self, org: &OrgStore, agent: AgentId) -> Result<ValuesOfAgent> {
        let (tables, _) = self.feed.tables(org)?;
        let (mut found, mut count) = (ValuesOfAgent::new(), 0);
        for TableStatus { spec, row_count, .. } in tables {
            if row_count == 0 || spec.agent_rows.is_none() || count >= VALUES_OF_AGENT_MAX {
                continue;
            }
            let (pin, _) = self.pinned(org, ScopeV1::Agent(agent))?;
            // A turn for each table: others who wait come in between.
            let turn = self.sample_turn.lock().await;
            let rows = self.rows_of(pin, first_rows(&spec), OWN_ROWS_MAX).await;
            drop(turn);
            let rows = rows.map_err(|e| Error::internal("sample a table for an agent", e))?;
            // Nobody asks for an id by its value, and there are as many as rows.
            let texts = spec
                .columns
                .iter()
                .filter(|column| column.kind == ColumnKind::Text && !column.name.ends_with("id"));
            let columns = texts
                .map(|column| (column.name.clone(), examples(&rows, &column.name, VALUES_FOR_AGENT_MAX).0));
            let mut known: Vec<(String, Value)> = Vec::new();
            for (name, values) in columns {
                let own = values.as_array().map_or(0, Vec::len);
                if own > 0 && count < VALUES_OF_AGENT_MAX {
                    count += own;
                    known.push((name, values));
                }
            }
            if !known.is_empty() {
                found.insert(spec.name.clone(), known);
            }
        }
        Ok(found)
    }

    async fn sample(&self, org: &OrgStore, spec: &Arc<TableSpec>) -> Result<()> {
        let (pin, _) = self.feed.pin(org.id(), vec![Arc::clone(spec)])?;
        let rows = self.rows_of(pin, first_rows(spec), OWN_ROWS_MAX).await;
        let rows = rows.map_err(|e| Error::internal("sample a table", e))?;
        let columns = spec
            .columns
            .iter()
            .map(|column| (column.name.clone(), examples(&rows, &column.name, VALUES_MAX)));
        let samples = SamplesV1 { sampled_at: org.clock().now(), columns: columns.collect() };
        let table = spec.name.to_string();
        org.write(move |tx| {
            tx.unaudited("samples are derived, and nobody's doing");
            tx.put(&SAMPLES, &table, &samples)
        })
        .await
    }
}

/// The statement of a look.
fn first_rows(spec: &TableSpec) -> String {
    format!("SELECT * FROM \"{}\" LIMIT {OWN_ROWS_MAX}", spec.name)
}

/// Whether samples need no new look: they will be good for a while, and are of these columns.
fn is_fresh(samples: &SamplesV1, spec: &TableSpec, now: &Now) -> bool {
    now.age(samples.sampled_at) < REFRESHED_AFTER
        && spec.columns.iter().all(|column| samples.columns.iter().any(|(name, _)| *name == column.name))
}

/// The first different values of a column that are not too long to be shown, at most so many.
fn examples(rows: &[Map<String, Value>], column: &str, values_max: usize) -> Json {
    let mut found: Vec<Value> = Vec::new();
    for value in rows.iter().filter_map(|row| row.get(column)) {
        let is_short = value.as_str().is_none_or(|text| text.chars().count() <= VALUE_CHARS_MAX);
        if !value.is_null() && is_short && !found.contains(value) {
            found.push(value.clone());
        }
        if found.len() == values_max {
            break;
        }
    }
    Json(Value::Array(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn examples_are_different_and_short() {
        let long = "x".repeat(VALUE_CHARS_MAX + 1);
        let rows: Vec<Map<String, Value>> = [json!(null), json!("a"), json!("a"), json!(long), json!(2)]
            .into_iter()
            .chain((0..9).map(|n| json!(n)))
            .map(|value| Map::from_iter([("c".to_owned(), value)]))
            .collect();
        assert_eq!(examples(&rows, "c", 5).0, json!(["a", 2, 0, 1, 3]));
        assert_eq!(examples(&rows, "other", 5).0, json!([]));
    }
}
