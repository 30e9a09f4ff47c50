//! Structured queries: what they give, what they leave out, and their text on a real PostgreSQL (convertSavedQuery).

use super::{QUERIES, refused, rows};
use crate::harness::Request;
use crate::harness::postgres::{Connection, Postgres, comparable};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, collect, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const SAVED: &str = "/api/v1/bi/saved-queries";
/// What would do harm if it ever stood outside of its quotes.
const HOSTILE: &[&str] = &[
    "'",
    "''",
    "\\'",
    "\\",
    "\"",
    "' OR '1'='1",
    "'; DROP TABLE products; --",
    "\\'; SELECT 1; --",
    "/* */ -- ",
    "$$; SELECT 1; $$",
    "%_",
    "\u{2019} \u{ff07} \u{feff}",
    "a\nb\tc\r",
    "E'\\x27'",
    "U&'\\0027'",
    "{{7*7}}",
];

/// A shop whose page `/plane/<n>` has a name, a price, and stock but for every fourth.
pub(super) async fn shop() -> Web {
    Web::open(|path| {
        let n: usize = path.strip_prefix("/plane/")?.parse().ok()?;
        let stock = if n % 4 == 3 { String::new() } else { format!("<i>{}</i>", n * 7 % 5) };
        let maker = ["Stanley", "Record's", "Veritas"][n % 3];
        Some(Answer::html(format!(
            "<h1>Plane No. {n}</h1><b>{}.5</b>{stock}<em>{maker}</em><u>{}</u>",
            (n * 37) % 100,
            n.is_multiple_of(2)
        )))
    })
    .await
}

fn schema(attributes: &[(&str, &str, &str)]) -> Value {
    let attribute =
        |(name, xpath, kind): &(&str, &str, &str)| json!({ "name": name, "xpaths": [xpath], "type": kind });
    let attributes: Vec<Value> = attributes.iter().map(attribute).collect();
    json!({ "schemas": [{ "pageType": "product", "attributes": attributes }] })
}

pub(super) async fn import(appliance: &Appliance, attributes: &[(&str, &str, &str)]) {
    let json = schema(attributes).to_string();
    appliance.operator(Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) }).await;
}

pub(super) async fn collected(web: &Web, client: &Client, pages: std::ops::Range<usize>, all: usize) {
    for n in pages {
        assert_eq!(collect(client, &web.url(&format!("/plane/{n}"))).await["status"], "succeeded");
    }
    eventually("SQL sees them", Duration::from_secs(10), || async {
        (rows(client, "SELECT count(*) AS n FROM products").await[0]["n"] == all).then_some(())
    })
    .await;
}

async fn run(client: &Client, structured: &Value) -> Reply {
    post(client, QUERIES, &json!({ "structured": structured, "waitMs": 10_000 })).await
}

async fn succeeded(client: &Client, structured: &Value) -> Value {
    let execution = expect(run(client, structured).await, 200);
    assert_eq!(execution["status"], "success", "{execution}");
    execution
}

pub(super) const ALL: &[(&str, &str, &str)] = &[
    ("name", "//h1", "text"),
    ("price", "//b", "number"),
    ("stock", "//i", "number"),
    ("maker", "//em", "text"),
    ("even", "//u", "boolean"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_aggregate_leaves_out_is_said() {
    let web = shop().await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let client = appliance.member("covers").await.api;
    import(&appliance, &ALL[..1]).await;
    collected(&web, &client, 0..3, 3).await;
    let before = appliance.clock.now();
    import(&appliance, ALL).await;
    let after = appliance.clock.now();
    collected(&web, &client, 3..6, 6).await;

    let average =
        json!({ "table": "products", "measures": [{ "fn": "avg", "column": "price" }, { "fn": "count" }] });
    let execution = succeeded(&client, &average).await;
    assert_eq!(execution["results"]["rows"], json!([{ "avg_price": 48.5, "count": 6 }]));
    assert_eq!(execution["dryRun"]["tables"], json!(["products"]));
    let coverage = &execution["results"]["historyCoverage"];
    assert_eq!(coverage["preHorizonRows"], 3, "{execution}");
    let horizon = text(coverage, "backfillHorizon");
    assert!(before.to_string().as_str() <= horizon && horizon <= after.to_string().as_str(), "{coverage}");
    let page = format!("{QUERIES}/{}/results", text(&execution, "jobId"));
    assert_eq!(expect(get(&client, &page).await, 200)["historyCoverage"], *coverage);

    let count = json!([{ "fn": "count" }]);
    let named = |n: usize| json!([{ "column": "name", "op": "eq", "value": format!("Plane No. {n}") }]);
    for (more, left_out) in [
        (json!({ "measures": count }), None),
        (json!({ "measures": [{ "fn": "max", "column": "name" }] }), None),
        (json!({ "measures": [{ "fn": "sum", "column": "stock" }] }), Some(3)),
        (json!({ "measures": [{ "fn": "count", "column": "even" }], "filters": named(1) }), Some(1)),
        (json!({ "measures": [{ "fn": "count", "column": "even" }], "filters": named(4) }), None),
        (json!({ "measures": count, "filters": [{ "column": "price", "op": "gt", "value": 1 }] }), Some(3)),
        (json!({ "measures": count, "filters": [{ "column": "price", "op": "is_null" }] }), None),
        (json!({ "measures": count, "dimensions": [{ "column": "maker" }] }), None),
    ] {
        let mut query = more.clone();
        query["table"] = json!("products");
        let execution = succeeded(&client, &query).await;
        let coverage = execution["results"].get("historyCoverage");
        assert_eq!(
            coverage.map(|coverage| coverage["preHorizonRows"].clone()),
            left_out.map(Value::from),
            "{more}"
        );
    }
    // SQL says nothing of the kind: who writes it sees the NULLs.
    let sql = json!({ "sql": "SELECT avg(price) FROM products", "waitMs": 10_000 });
    assert!(expect(post(&client, QUERIES, &sql).await, 200)["results"].get("historyCoverage").is_none());
    // A page that is collected again has what it lacked; the older reading of it still does not.
    collected(&web, &client, 0..1, 7).await;
    assert_eq!(succeeded(&client, &average).await["results"]["historyCoverage"]["preHorizonRows"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_structured_query_is_submitted_saved_and_refused() {
    let appliance = Appliance::start().await;
    let client = appliance.member("structured").await.api;
    super::register(&client, 30).await;
    let by_domain = json!({
        "table": "urls", "measures": [{ "fn": "count", "as": "urls" }], "dimensions": [{ "column": "domain" }]
    });
    let execution = succeeded(&client, &by_domain).await;
    assert_eq!(execution["results"]["rows"], json!([{ "domain": "shop.example", "urls": 30 }]));
    assert!(text(&execution, "sqlPreview").starts_with("SELECT \"domain\""), "{execution}");
    let dry = json!({ "structured": by_domain, "dryRun": true, "waitMs": 10_000 });
    assert_eq!(expect(post(&client, QUERIES, &dry).await, 200)["dryRun"]["columns"][1]["name"], "urls");

    let saved = json!({ "name": "by domain", "structured": by_domain, "scopeKind": "org" });
    let saved = expect(post(&client, SAVED, &saved).await, 201);
    assert_eq!((&saved["structured"]["table"], &saved["sql"]), (&json!("urls"), &json!(null)));
    let one = format!("{SAVED}/{}", text(&saved, "id"));
    let run = expect(post(&client, &format!("{one}/run"), &json!({ "waitMs": 10_000 })).await, 200);
    assert_eq!(run["results"]["rows"], execution["results"]["rows"]);
    let converted = expect(post(&client, &format!("{one}/convert"), &json!({})).await, 200);
    assert_eq!((&converted["dialect"], &converted["sql"]), (&json!("postgresql"), &execution["sqlPreview"]));
    // From a query that was submitted, as what it was.
    let copy = json!({ "name": "copy", "sourceQueryId": execution["jobId"] });
    let copy = expect(post(&client, SAVED, &copy).await, 201);
    assert_eq!((&copy["structured"], &copy["sql"]), (&saved["structured"], &json!(null)));
    let change = json!({ "sql": "SELECT 1 AS one" });
    let changed = expect(client.patch(&one, &change).await.unwrap(), 200);
    assert_eq!((&changed["structured"], &changed["sql"]), (&json!(null), &json!("SELECT 1 AS one")));
    let converted = post(&client, &format!("{one}/convert"), &json!({})).await;
    refused(&client, &converted, 400, "invalid_sql", "SQL already").await;

    let with = |field: &str, value: Value| {
        let mut query = by_domain.clone();
        query[field] = value;
        query
    };
    for (structured, status, code, part) in [
        (with("table", json!("nowhere")), 403, "rls_denied", "nowhere"),
        (with("table", json!("pg_catalog.pg_tables")), 403, "rls_denied", ""),
        (with("table", Value::Null), 400, "invalid_input", "structured.table: is required"),
        (with("limit", json!(0)), 400, "invalid_sql", "structured.limit: "),
        (with("limit", json!(-1)), 400, "invalid_input", "structured.limit: "),
        (with("measures", json!([{ "fn": "mode" }])), 400, "invalid_input", "structured.measures[0].fn: "),
        (
            with("measures", json!([{ "fn": "count", "column": "domian" }])),
            400,
            "invalid_sql",
            "structured.measures[0].column: there is no column \"domian\" in urls; did you mean \"domain\"?",
        ),
        (
            with("filters", json!([{ "column": "domain", "op": "like", "value": "x" }])),
            400,
            "invalid_input",
            "structured.filters[0].op: ",
        ),
        (json!("SELECT 1"), 400, "invalid_input", "structured: "),
    ] {
        for (path, body) in [
            (QUERIES, json!({ "structured": structured, "waitMs": 10_000 })),
            (SAVED, json!({ "name": "x", "structured": structured })),
        ] {
            refused(&client, &post(&client, path, &body).await, status, code, part).await;
        }
    }
    let both = json!({ "structured": by_domain, "sql": "SELECT 1" });
    refused(&client, &post(&client, QUERIES, &both).await, 400, "invalid_sql", "one of the two").await;
}

/// Every measure, bucket and operator, and names and values that are hostile.
fn questions() -> Vec<Value> {
    let mut all = vec![
        json!({ "measures": [
            { "fn": "count" }, { "fn": "count", "column": "stock" }, { "fn": "count_distinct", "column": "maker" },
            { "fn": "sum", "column": "price" }, { "fn": "avg", "column": "price" }, { "fn": "min", "column": "name" },
            { "fn": "max", "column": "price" }, { "fn": "median", "column": "price" }, { "fn": "p90", "column": "price" },
            { "fn": "p95", "column": "stock" }, { "fn": "max", "column": "schema_version" },
        ]}),
        json!({
            "measures": [{ "fn": "avg", "column": "price", "as": "p" }, { "fn": "count" }],
            "dimensions": [{ "column": "maker" }, { "column": "even" }],
            "orderBy": [{ "ref": "p", "dir": "desc" }, { "ref": "maker" }],
        }),
        json!({ "measures": [{ "fn": "sum", "column": "stock" }], "dimensions": [{ "column": "stock" }],
                "orderBy": [{ "ref": "sum_stock", "dir": "desc" }] }),
        json!({ "dimensions": [{ "column": "maker" }], "limit": 2 }),
    ];
    for bucket in ["hour", "day", "week", "month", "year"] {
        all.push(json!({
            "measures": [{ "fn": "count" }, { "fn": "min", "column": "scraped_at" }],
            "dimensions": [{ "column": "scraped_at", "bucket": bucket }],
        }));
    }
    let filters = [
        json!({ "column": "price", "op": "eq", "value": 37.5 }),
        json!({ "column": "price", "op": "ne", "value": 37.5 }),
        json!({ "column": "price", "op": "lt", "value": 40 }),
        json!({ "column": "price", "op": "lte", "value": 37.5 }),
        json!({ "column": "price", "op": "gt", "value": "1e1" }),
        json!({ "column": "price", "op": "gte", "value": 74.5 }),
        json!({ "column": "price", "op": "between", "value": [10, 50.5] }),
        json!({ "column": "price", "op": "lt", "value": "Infinity" }),
        json!({ "column": "stock", "op": "in", "value": [1, 2] }),
        json!({ "column": "stock", "op": "not_in", "value": [1, 2] }),
        json!({ "column": "stock", "op": "is_null" }),
        json!({ "column": "stock", "op": "not_null" }),
        json!({ "column": "even", "op": "eq", "value": true }),
        json!({ "column": "even", "op": "ne", "value": true }),
        json!({ "column": "maker", "op": "contains", "value": "e" }),
        json!({ "column": "maker", "op": "starts_with", "value": "Rec" }),
        json!({ "column": "maker", "op": "eq", "value": "Record's" }),
        json!({ "column": "maker", "op": "gt", "value": "S" }),
        json!({ "column": "schema_version", "op": "gte", "value": "-9223372036854775808" }),
        json!({ "column": "scraped_at", "op": "gt", "value": "2020-01-01" }),
        json!({ "column": "scraped_at", "op": "lt", "value": "9999-01-01T23:59:59Z" }),
        json!({ "column": "scraped_at", "op": "between", "value": ["2020-01-01", "2100-01-01T00:00:00+02:00"] }),
    ];
    let counted = |filter: Value| json!({ "measures": [{ "fn": "count" }, { "fn": "sum", "column": "price" }], "filters": [filter] });
    all.extend(filters.into_iter().map(counted));
    for text in HOSTILE {
        for op in ["eq", "ne", "contains", "starts_with"] {
            all.push(counted(json!({ "column": "maker", "op": op, "value": text })));
        }
        all.push(counted(json!({ "column": "maker", "op": "in", "value": [text, "Veritas"] })));
        if !text.chars().any(char::is_control) {
            all.push(json!({ "measures": [{ "fn": "count", "as": text }], "dimensions": [{ "column": "maker", "as": format!("{text}.") }] }));
        }
    }
    for question in &mut all {
        question["table"] = json!("products");
    }
    all
}

/// The table in PostgreSQL with the rows that the console shows.
pub(super) async fn copy_table(postgres: &mut Connection, client: &Client, table: &str) {
    let described = expect(get(client, &format!("/api/v1/bi/tables/{table}")).await, 200);
    let columns = described["columns"].as_array().unwrap();
    let definitions: Vec<String> = columns
        .iter()
        .map(|column| format!("\"{}\" {}", text(column, "name"), text(column, "type")))
        .collect();
    postgres.query(&format!("CREATE TABLE {table} ({})", definitions.join(", "))).unwrap();
    for row in rows(client, &format!("SELECT * FROM {table}")).await {
        let value = |column: &Value| match &row[text(column, "name")] {
            Value::Null => "NULL".to_owned(),
            Value::String(text) => format!("'{}'", text.replace('\'', "''")),
            other => other.to_string(),
        };
        let values: Vec<String> = columns.iter().map(value).collect();
        postgres.query(&format!("INSERT INTO {table} VALUES ({})", values.join(", "))).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_takes_the_text_and_gives_the_same() {
    let web = shop().await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let Member { api: client, .. } = appliance.member("converts").await;
    import(&appliance, ALL).await;
    collected(&web, &client, 0..24, 24).await;
    let server = Postgres::start();
    let mut postgres = server.as_ref().map(Postgres::connect);
    if let Some(postgres) = &mut postgres {
        copy_table(postgres, &client, "products").await;
    }
    let mut differences = Vec::new();
    let questions = questions();
    for (number, structured) in questions.iter().enumerate() {
        let execution = succeeded(&client, structured).await;
        let ours = execution["results"]["rows"].as_array().unwrap();
        let saved = json!({ "name": format!("question {number}"), "structured": structured });
        let saved = expect(post(&client, SAVED, &saved).await, 201);
        let convert = format!("{SAVED}/{}/convert", text(&saved, "id"));
        let converted = expect(post(&client, &convert, &json!({})).await, 200);
        let sql = text(&converted, "sql");
        let Some(postgres) = &mut postgres else { continue };
        match postgres.query(sql) {
            Ok(table) => {
                let ours: Vec<Vec<Value>> = ours
                    .iter()
                    .map(|row| row.as_object().unwrap().values().map(comparable).collect())
                    .collect();
                let theirs = table.values();
                if ours != theirs {
                    differences.push(format!("{sql}\n  ours   {ours:?}\n  theirs {theirs:?}"));
                }
            }
            Err(error) => differences.push(format!("{sql}\n  {error}")),
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {}:\n{}",
        differences.len(),
        questions.len(),
        differences.join("\n")
    );
    println!("{} questions", questions.len());
}
