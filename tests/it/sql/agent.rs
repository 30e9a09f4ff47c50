//! Statements in the scope of an agent: what belongs to it is seen, and nothing else by any way.

use super::{Box_, OURS, table};
use serde_json::{Map, Value, json};
use sql::{
    Cell, ColumnKind, ErrorCode, QueryBackend, QueryError, ResultFile, Statement, TableChange, TableSpec,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

const AGENT: Uuid = Uuid::from_u128(0xa);
const OTHER: Uuid = Uuid::from_u128(0xb);

/// The tables of the box as their slices declare them, with those that keep newest rows.
fn declared() -> Vec<TableSpec> {
    let views = gleaner::features::ALL.iter().flat_map(|feature| feature.views);
    views
        .flat_map(|view| (view.tables)())
        .flat_map(|table| [table.newest_table(), Some(table)].into_iter().flatten())
        .collect()
}

/// The tables by their names, all columns text or JSON; agents see of them what the slices' own tables say.
fn specs() -> Vec<Arc<TableSpec>> {
    let declared = declared();
    let spec = |name, columns: &[&str]| {
        let columns: Vec<_> = columns
            .iter()
            .map(|name| (*name, if *name == "metadata" { ColumnKind::Json } else { ColumnKind::Text }))
            .collect();
        let mut spec = table(name, &columns);
        let own =
            declared.iter().find(|declared| declared.name.as_str() == name).expect("a table of a slice");
        Arc::make_mut(&mut spec).agent_rows = own.agent_rows.clone();
        spec
    };
    vec![
        spec("jobs", &["id", "url_id", "workflow_id", "metadata"]),
        spec("job_attempts", &["job_id", "outcome"]),
        spec("urls", &["id", "url", "workflow_id", "metadata"]),
        spec("url_tags", &["url_id", "tag"]),
        spec("readings", &["result_id", "job_id", "url_id"]),
        spec("reading_values", &["result_id", "url_id", "value_text"]),
        spec("products", &["result_id", "job_id", "url_id", "name"]),
        spec("credit_transactions", &["job_id", "amount"]),
        spec("workflows", &["id", "agent_id"]),
    ]
}

fn metadata(agent: Option<Uuid>) -> String {
    agent.map_or("{}".to_owned(), |agent| json!({ "agentId": agent }).to_string())
}

/// Six jobs on six URLs: of the agent, of another one, of nobody, of nobody on a URL of the agent's; along a workflow of the agent's,
/// and along one of the other's.
fn seeded() -> Box_ {
    let it = Box_::new(|_| {});
    let mut changes = Vec::new();
    let mut add = |table: &str, key: u8, cells: &[&str]| {
        let spec = specs().into_iter().find(|spec| spec.name.as_str() == table).expect("a table");
        let row = cells.iter().map(|cell| Cell::from(*cell)).collect();
        changes.push(TableChange { table: spec, key: [key; 16], rows: vec![row] });
    };
    add("workflows", 1, &["own", &AGENT.to_string()]);
    add("workflows", 2, &["theirs", &OTHER.to_string()]);
    add("workflows", 3, &["free", ""]);
    let owners = [
        (Some(AGENT), None, "free"),
        (Some(OTHER), None, "free"),
        (None, None, "free"),
        (None, Some(AGENT), "free"),
        (None, None, "own"),
        (None, None, "theirs"),
    ];
    for (n, (of_job, of_url, workflow)) in owners.into_iter().enumerate() {
        let key = n as u8 + 1;
        let [job, url, result] = ["job", "url", "result"].map(|kind| format!("{kind}{n}"));
        add("jobs", key, &[&job, &url, workflow, &metadata(of_job)]);
        add("job_attempts", key, &[&job, "success"]);
        add("urls", key, &[&url, &format!("https://shop.example/{n}"), "free", &metadata(of_url)]);
        add("url_tags", key, &[&url, &format!("tag{n}")]);
        add("readings", key, &[&result, &job, &url]);
        add("reading_values", key, &[&result, &url, &format!("value{n}")]);
        add("products", key, &[&result, &job, &url, &format!("product{n}")]);
        add("credit_transactions", key, &[&job, "1"]);
    }
    it.apply(OURS, 2, changes);
    it
}

impl Box_ {
    async fn of_agent(&self, agent: Option<Uuid>, sql: &str) -> Result<Vec<Map<String, Value>>, QueryError> {
        let pin = self.snapshots.pin(OURS, specs()).expect("pin");
        let pin = agent.map_or(pin.clone(), |agent| pin.of_agent(agent));
        let query_id = Uuid::now_v7();
        let (_, running) = self.workers.start(Statement { pin, sql: sql.to_owned(), query_id }).await?;
        running.wait().await?;
        let result = ResultFile::open(&self.workers.result_path(OURS, query_id)).expect("a result");
        Ok(result.page(0, 100).expect("a page"))
    }

    async fn texts(&self, agent: Option<Uuid>, sql: &str) -> Vec<String> {
        let rows = self.of_agent(agent, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.iter()
            .map(|row| row.values().next().and_then(Value::as_str).unwrap_or("NULL").to_owned())
            .collect()
    }
}

#[test]
fn the_tables_that_agents_may_see_are_declared() {
    let seen: BTreeSet<_> =
        declared().into_iter().filter(|table| table.agent_rows.is_some()).map(|table| table.name).collect();
    let seen: Vec<_> = seen.iter().map(|name| name.as_str()).collect();
    let expected = "articles job_attempts job_postings jobs latest_articles latest_job_postings latest_product_lists \
                    latest_products latest_readings latest_serps product_lists products reading_values readings serps \
                    url_tags urls";
    assert_eq!(seen.join(" "), expected);
}

#[tokio::test]
async fn an_agent_sees_what_belongs_to_it() {
    let it = seeded();
    for (sql, expected) in [
        ("SELECT id FROM jobs ORDER BY 1", &["job0", "job4"][..]),
        ("SELECT job_id FROM job_attempts ORDER BY 1", &["job0", "job4"]),
        ("SELECT id FROM urls ORDER BY 1", &["url0", "url3", "url4"]),
        ("SELECT tag FROM url_tags ORDER BY 1", &["tag0", "tag3", "tag4"]),
        ("SELECT result_id FROM readings ORDER BY 1", &["result0", "result3", "result4"]),
        ("SELECT value_text FROM reading_values ORDER BY 1", &["value0", "value3", "value4"]),
        ("SELECT name FROM products ORDER BY 1", &["product0", "product3", "product4"]),
        (
            "SELECT name FROM public.products WHERE true OR name > '' ORDER BY 1",
            &["product0", "product3", "product4"],
        ),
        (
            "SELECT DISTINCT p.name FROM jobs j FULL JOIN products p ON true ORDER BY 1",
            &["product0", "product3", "product4"],
        ),
        ("WITH urls AS (SELECT id FROM jobs) SELECT id FROM urls ORDER BY 1", &["job0", "job4"]),
        ("SELECT (SELECT max(id) FROM jobs)", &["job4"]),
    ] {
        assert_eq!(it.texts(Some(AGENT), sql).await, expected, "{sql}");
    }
    assert_eq!(it.texts(Some(OTHER), "SELECT name FROM products ORDER BY 1").await, ["product1", "product5"]);
    assert_eq!(it.texts(Some(Uuid::nil()), "SELECT name FROM products").await, Vec::<String>::new());
    // The same worker serves the whole organization next, and sees all again.
    assert_eq!(it.texts(None, "SELECT id FROM jobs").await.len(), 6);
    for sql in [
        "SELECT * FROM credit_transactions",
        "SELECT 1 FROM jobs WHERE id IN (SELECT job_id FROM credit_transactions)",
        "SELECT * FROM gleaner.public.jobs",
        "SELECT * FROM workflows",
    ] {
        let error = it.of_agent(Some(AGENT), sql).await.expect_err("it is refused");
        assert_eq!(error.code, ErrorCode::RlsDenied, "{sql}");
    }
    let count = it.of_agent(Some(AGENT), "SELECT count(*) FROM jobs, urls").await.expect("it runs");
    assert_eq!(count[0]["count"], 6);
    // How many rows the organization has is told to it, and not to an agent.
    let explained = "EXPLAIN SELECT p.name FROM products p WHERE p.job_id IN (SELECT id FROM jobs)";
    assert!(it.texts(None, explained).await.join("\n").contains("(6 rows)"));
    let lines = it.texts(Some(AGENT), explained).await.join("\n");
    assert!(lines.contains("Read products") && !lines.contains(" rows)"), "{lines}");
    it.assert_clean().await;
}
