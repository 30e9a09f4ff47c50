//! The table of values in JSON in data/docs/sql.md, "What SQL answers look like in JSON", row by row.

use super::QUERIES;
use crate::harness::{Appliance, expect, post};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../data/docs/sql.md");

/// Statements of one value, the type that the plan names, and the value on the wire.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("SELECT 7::smallint", "smallint", json!(7)),
        ("SELECT 7::int", "integer", json!(7)),
        ("SELECT 9007199254740992", "bigint", json!(9_007_199_254_740_992_i64)),
        ("SELECT -9007199254740992", "bigint", json!(-9_007_199_254_740_992_i64)),
        ("SELECT 9007199254740993", "bigint", json!("9007199254740993")),
        ("SELECT -9223372036854775808", "bigint", json!("-9223372036854775808")),
        ("SELECT 0.1 + 0.2", "numeric", json!("0.3")),
        ("SELECT 12345678901234567890123.45", "numeric", json!("12345678901234567890123.45")),
        ("SELECT 1.5::float8", "double precision", json!(1.5)),
        ("SELECT 1.5::real", "real", json!(1.5)),
        ("SELECT 'NaN'::float8", "double precision", json!("NaN")),
        ("SELECT 'Infinity'::float8", "double precision", json!("Infinity")),
        ("SELECT '-Infinity'::float8", "double precision", json!("-Infinity")),
        ("SELECT TIMESTAMP '2026-11-20 09:30:00'", "timestamp", json!("2026-11-20T09:30:00.000Z")),
        (
            "SELECT TIMESTAMPTZ '2026-11-20 10:30:00+01'",
            "timestamp with time zone",
            json!("2026-11-20T09:30:00.000Z"),
        ),
        ("SELECT DATE '2026-11-20'", "date", json!("2026-11-20")),
        ("SELECT TIME '09:30:00'", "time", json!("09:30:00")),
        ("SELECT INTERVAL '1 month 2 days 03:04:05'", "interval", json!("1 mon 2 days 03:04:05")),
        ("SELECT true", "boolean", json!(true)),
        ("SELECT 'text'", "text", json!("text")),
        ("SELECT '{\"a\": {\"b\": 1}}'::json -> 'a'", "json", json!("{\"b\":1}")),
        ("SELECT '[1, 2]'::jsonb", "json", json!("[1, 2]")),
        ("SELECT '{\"a\": 1}'::json ->> 'a'", "text", json!("1")),
        ("SELECT json_build_object('a', 1)", "json", json!("{\"a\":1}")),
        ("SELECT round(15, -1)", "numeric", json!("20")),
        ("SELECT 1e308 * 10", "double precision", json!("Infinity")),
        ("SELECT x * 1e308 FROM (VALUES (100)) AS v(x)", "double precision", json!("Infinity")),
        ("SELECT decode('00ff', 'hex')", "bytea", json!("\\x00ff")),
        ("SELECT ARRAY[1, NULL, 9007199254740993]", "bigint[]", json!([1, null, "9007199254740993"])),
        ("SELECT named_struct('a', 1, 'b', ARRAY['x'])", "json", json!({ "a": 1, "b": ["x"] })),
        ("SELECT NULL::int", "integer", json!(null)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_what_the_page_says() {
    let appliance = Appliance::start().await;
    let client = appliance.member("values").await.api;
    let table = PAGE.split("What SQL answers look like in JSON").nth(1).expect("the section");
    let table = table.split("\n\n").nth(1).expect("the table");
    for (sql, kind, expected) in cases() {
        let execution = expect(post(&client, QUERIES, &json!({ "sql": sql, "waitMs": 10_000 })).await, 200);
        assert_eq!(execution["status"], "success", "{sql}: {execution}");
        let row = execution["results"]["rows"][0].as_object().expect("a row");
        assert_eq!(row.values().next(), Some(&expected), "{sql}");
        assert_eq!(execution["dryRun"]["columns"][0]["type"], kind, "{sql}");
        let named = format!("`{}`", kind.trim_end_matches("[]"));
        assert!(table.contains(&named), "the page's table says nothing of {kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_json_are_told_from_texts() {
    let appliance = Appliance::start().await;
    let client = appliance.member("json").await.api;
    let sql = "WITH q AS (SELECT metadata, url FROM urls UNION ALL SELECT metadata, url FROM jobs) \
        SELECT q.metadata, coalesce(q.metadata, '{}') AS a, q.metadata ->> 'b' AS b, q.metadata::text AS c, \
        CASE WHEN q.url IS NULL THEN q.metadata END AS d, (SELECT max(url) FROM jobs) AS e, j.metadata AS f, q.url AS g, \
        lag(q.metadata) OVER (ORDER BY q.url) AS h, jsonb_array_elements(q.metadata -> 'x') AS i \
        FROM q LEFT JOIN jobs j ON j.url = q.url ORDER BY q.url LIMIT 3";
    let asked = json!({ "sql": sql, "dryRun": true, "waitMs": 10_000 });
    let execution = expect(post(&client, QUERIES, &asked).await, 200);
    let columns = execution["dryRun"]["columns"].as_array().expect("columns").iter();
    let json: Vec<&str> = columns
        .filter(|column| column["type"] == "json")
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(json, ["metadata", "a", "d", "f", "h", "i"], "{execution}");
}
