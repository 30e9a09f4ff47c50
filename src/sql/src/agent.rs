//! What a statement in the scope of an agent sees (data/docs/api.md, "The SQL console").
//!
//! A job or URL belongs to an agent when its `metadata` says so: `{"agentId": "…"}`. The agent's statements see those, the
//! URLs of its jobs, and what hangs on them: attempts, tags, readings. Every other table is not there, so naming one is
//! refused like any other table that cannot be read. The tables are views over the organization's own, planned in the
//! worker, with a barrier before the statement's own conditions, so whatever a statement does with them, the rows beyond do not come in.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use uuid::Uuid;

use super::errors::QueryError;

/// More rows than any table has.
const ROWS_MAX: u64 = 1 << 50;

const JOBS: &str = "SELECT id FROM jobs WHERE metadata ->> 'agentId' = '{agent}'";
const JOB_URLS: &str = "SELECT url_id FROM jobs WHERE metadata ->> 'agentId' = '{agent}'";
const URLS: &str = "SELECT id FROM urls WHERE metadata ->> 'agentId' = '{agent}'";

/// The tables with the condition for their rows.
const VISIBLE: &[(&str, &str)] = &[
    ("jobs", "metadata ->> 'agentId' = '{agent}'"),
    ("job_attempts", "job_id IN ({jobs})"),
    ("urls", "metadata ->> 'agentId' = '{agent}' OR id IN ({job_urls})"),
    ("url_tags", "url_id IN ({urls}) OR url_id IN ({job_urls})"),
    ("readings", OF_READING),
    ("latest_readings", OF_READING),
    (
        "reading_values",
        "url_id IN ({urls}) OR result_id IN (SELECT result_id FROM readings WHERE job_id IN ({jobs}))",
    ),
    ("products", OF_READING),
    ("product_lists", OF_READING),
    ("serps", OF_READING),
    ("articles", OF_READING),
    ("job_postings", OF_READING),
    ("latest_products", OF_READING),
    ("latest_product_lists", OF_READING),
    ("latest_serps", OF_READING),
    ("latest_articles", OF_READING),
    ("latest_job_postings", OF_READING),
];
const OF_READING: &str = "job_id IN ({jobs}) OR url_id IN ({urls})";

/// The agent's tables, of those that `whole` has.
pub(super) async fn tables(
    whole: &SessionState,
    names: impl Fn(&str) -> bool,
    agent: Uuid,
) -> Result<BTreeMap<String, Arc<dyn TableProvider>>, QueryError> {
    let mut tables: BTreeMap<String, Arc<dyn TableProvider>> = BTreeMap::new();
    for (table, condition) in VISIBLE.iter().filter(|(table, _)| names(table)) {
        let condition = condition
            .replace("{jobs}", JOBS)
            .replace("{job_urls}", JOB_URLS)
            .replace("{urls}", URLS)
            .replace("{agent}", &agent.to_string());
        // With a limit that no table reaches: a condition of the statement is not asked of the rows that the view leaves out, of
        // which it could tell by failing, for it is not taken below one.
        let sql = format!("SELECT * FROM {table} WHERE {condition} LIMIT {ROWS_MAX}");
        let plan = whole.create_logical_plan(&sql).await?;
        tables.insert((*table).to_owned(), Arc::new(ViewTable::new(plan, None)));
    }
    Ok(tables)
}
