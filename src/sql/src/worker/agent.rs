//! What a statement in the scope of an agent sees (data/docs/api.md, "The SQL console").
//!
//! Which rows of a table belong to an agent is the table's own to say ([`TableSpec::agent_rows`](crate::catalog::TableSpec)).
//! A table that says nothing is not there, so naming it is refused like any other table that cannot be read. The tables are
//! views over the organization's own, planned in the worker, with a barrier before the statement's own conditions, so
//! whatever a statement does with them, the rows beyond do not come in.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use uuid::Uuid;

use crate::catalog::{AGENT_PLACE, TableMap};
use crate::errors::QueryError;
use crate::scan::SegmentTable;

/// More rows than any table has.
const ROWS_MAX: u64 = 1 << 50;

/// The conditions of the tables that an agent may see, by the tables' names.
pub(crate) fn conditions(tables: &TableMap, agent: Uuid) -> BTreeMap<String, String> {
    let agent = agent.to_string();
    let condition = |provider: &Arc<dyn TableProvider>| {
        let rows = provider.downcast_ref::<SegmentTable>()?.spec.agent_rows.as_deref()?;
        Some(rows.replace(AGENT_PLACE, &agent))
    };
    let seen = tables.iter().filter_map(|(name, provider)| Some((name.clone(), condition(provider)?)));
    seen.collect()
}

/// The agent's tables over those of the `whole` organization.
pub(crate) async fn tables(
    whole: &SessionState,
    conditions: BTreeMap<String, String>,
) -> Result<TableMap, QueryError> {
    let mut tables = TableMap::new();
    for (table, condition) in conditions {
        // With a limit that no table reaches: a condition of the statement is not asked of the rows that the view leaves out, of
        // which it could tell by failing, for it is not taken below one.
        let sql = format!("SELECT * FROM \"{table}\" WHERE {condition} LIMIT {ROWS_MAX}");
        let plan = whole.create_logical_plan(&sql).await?;
        tables.insert(table, Arc::new(ViewTable::new(plan, None)));
    }
    Ok(tables)
}
