//! Example values of a table's columns (interface spec, "BI table description").
//!
//! They are looked for when somebody asks for the table and the last ones are a day old: a table that nobody looks at
//! costs nothing. The look is a statement like any other, in a worker, over the newest rows; the caller does not wait
//! for it.

use super::rows::{SAMPLES, SamplesV1};
use super::service::{OWN_ROWS_MAX, Queries};
use crate::base::clock::Timestamp;
use crate::base::codec::Json;
use crate::base::ids::OrgId;
use crate::base::{Error, Result};
use crate::engine::sql::{TableName, TableSpec, TableStatus};
use crate::store::OrgStore;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Values of a column (interface spec, "Limits").
const VALUES_MAX: usize = 5;
/// Longest text that is shown as an example.
const VALUE_CHARS_MAX: usize = 200;
/// How long they are good.
const KEPT: Duration = Duration::from_secs(86_400);

/// A look that is under way; another one for the same table is not begun meanwhile.
struct Look {
    queries: Arc<Queries>,
    key: (OrgId, TableName),
}

impl Drop for Look {
    fn drop(&mut self) {
        self.queries.sampling.lock().remove(&self.key);
    }
}

impl Queries {
    /// What is known of a table's values. When that is nothing, or old, a look begins.
    pub(super) fn samples(
        self: &Arc<Self>,
        org: &OrgStore,
        table: &TableStatus,
    ) -> Result<Option<SamplesV1>> {
        if table.row_count == 0 {
            // What its rows once said went with them.
            return Ok(None);
        }
        let known = org.read(|tx| tx.get(&SAMPLES, &table.spec.name.to_string()))?;
        let now = org.clock().now();
        let is_good = known.as_ref().is_some_and(|samples| is_good(samples, &table.spec, now));
        let key = (org.id(), table.spec.name.clone());
        if !is_good && self.sampling.lock().insert(key.clone()) {
            let look = Look { queries: Arc::clone(self), key };
            let (org, spec) = (org.clone(), Arc::clone(&table.spec));
            tokio::spawn(async move {
                // One look at a time: what people ask goes before examples.
                let turn = look.queries.sample_turn.lock().await;
                if let Err(error) = look.queries.sample(&org, &spec).await {
                    tracing::warn!(table = %spec.name, %error, "no example values were found");
                }
                drop(turn);
                drop(look);
            });
        }
        Ok(known)
    }

    async fn sample(&self, org: &OrgStore, spec: &Arc<TableSpec>) -> Result<()> {
        let (pin, _) = self.feed.pin(org.id(), vec![Arc::clone(spec)])?;
        let sql = format!("SELECT * FROM \"{}\" LIMIT {OWN_ROWS_MAX}", spec.name);
        let rows = self.rows_of(pin, sql).await.map_err(|e| Error::internal("sample a table", e))?;
        let columns = spec.columns.iter().map(|column| (column.name.clone(), examples(&rows, &column.name)));
        let samples = SamplesV1 { sampled_at: org.clock().now(), columns: columns.collect() };
        let table = spec.name.to_string();
        org.write(move |tx| {
            tx.unaudited("samples are derived, and nobody's doing");
            tx.put(&SAMPLES, &table, &samples)
        })
        .await
    }
}

/// Whether samples are of this day and of these columns.
fn is_good(samples: &SamplesV1, spec: &TableSpec, now: Timestamp) -> bool {
    now.since(samples.sampled_at) < KEPT
        && spec.columns.iter().all(|column| samples.columns.iter().any(|(name, _)| *name == column.name))
}

/// The first different values of a column that are not too long to be shown.
fn examples(rows: &[Map<String, Value>], column: &str) -> Json {
    let mut found: Vec<Value> = Vec::new();
    for value in rows.iter().filter_map(|row| row.get(column)) {
        let is_short = value.as_str().is_none_or(|text| text.chars().count() <= VALUE_CHARS_MAX);
        if !value.is_null() && is_short && !found.contains(value) {
            found.push(value.clone());
        }
        if found.len() == VALUES_MAX {
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
        assert_eq!(examples(&rows, "c").0, json!(["a", 2, 0, 1, 3]));
        assert_eq!(examples(&rows, "other").0, json!([]));
    }
}
