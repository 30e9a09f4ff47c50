//! Statements that cannot be answered: each is refused when it is sent, with its reason, what it is about and its place.

use super::{QUERIES, refused, register, submit};
use crate::harness::{Appliance, expect, post};
use serde_json::json;

/// A statement, and parts of what is said of it.
const REFUSALS: &[(&str, &[&str])] = &[
    ("SELECT prise FROM products", &["\"prise\"", "(line 1, column 8)"]),
    ("SELECT u.urll\nFROM urls u", &["\"urll\" in \"u\"", "did you mean \"u.url\"", "(line 1, column 8)"]),
    (
        "SELECT urls.url FROM urls u",
        &["no table or alias \"urls\"", "did you mean \"u.url\"", "line 1, column 8"],
    ),
    ("SELECT 1,\n  lenght(url) FROM urls", &["\"lenght\"", "Did you mean length?", "(line 2, column 3)"]),
    ("SELECT len(url) FROM urls", &["\"len\"", "Use length.", "(line 1, column 8)"]),
    (
        "SELECT domain, url, count(*) FROM urls GROUP BY domain",
        &["url\" must appear in GROUP BY", "column 16"],
    ),
    ("SELECT domain FROM urls GROUP BY domain HAVING length(url) > 3", &["url", "GROUP BY"]),
    ("SELECT abs(url) FROM urls", &["abs(text)", "(line 1, column 8)"]),
    ("SELECT url + 1 FROM urls", &["+", "cast"]),
    ("SELECT url FROM urls ORDER BY 9", &["number 9", "1 of SELECT", "(line 1, column 31)"]),
    ("SELECT url FROM urls UNION SELECT url, domain FROM urls", &["different numbers of columns"]),
    ("SELECT 'abc'::int", &["'abc' is not", "(line 1, column 8)"]),
    ("SELECT 1 / 0", &["divided by zero"]),
    ("SELECT 'x' ~ '('", &["regular expression"]),
    ("SELECT url.x FROM readings", &["before a point"]),
    ("SELECT url FROM urls WHERE url = $1", &["$1", "none is given"]),
    ("SELECT to_char(1, '9.99EEEE')", &["EEEE"]),
    ("SELECT to_char(url, '999') FROM urls", &["to_char", "number", "column 8"]),
    ("SELECT format('%s %s', 'a')", &["format", "fewer arguments"]),
    ("SELECT url FROM urls FOR UPDATE", &["FOR UPDATE"]),
    ("SELECT url\nFROM urls TABLESAMPLE BERNOULLI (5)", &["TABLESAMPLE", "line 2"]),
    ("EXPLAIN ANALYZE SELECT 1", &["EXPLAIN ANALYZE", "column 9"]),
    (
        "SELECT u.url, x.n FROM urls u, LATERAL (SELECT count(*) AS n FROM jobs j WHERE j.url > u.url) x",
        &["equality"],
    ),
];

/// What said nothing, and what may not be said any more.
const GENERAL: &[&str] = &[
    "The statement could not be run.",
    "A function is not available here, or its arguments have types that it does not take.",
    "The statement uses a form that is not available here.",
    "check its names, types and clauses",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_answered_is_refused_with_its_reason_and_its_place() {
    let appliance = Appliance::start().await;
    let client = appliance.member("reasons").await.api;
    register(&client, 5).await;
    let mut wrong = Vec::new();
    for (sql, parts) in REFUSALS {
        let reply = submit(&client, sql).await;
        let message = reply.json["error"]["message"].as_str().unwrap_or_default();
        let says = parts.iter().all(|part| message.contains(part))
            && !GENERAL.iter().any(|general| message.contains(general));
        if reply.status != 400 || reply.json["error"]["code"] != "invalid_sql" || !says {
            wrong.push(format!("{sql}\n  {} {}\n  for {parts:?}", reply.status, reply.text()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), REFUSALS.len(), wrong.join("\n"));
    // Of a table that is missing only one of the caller's own is ever meant.
    let denied = submit(&client, "SELECT * FROM redings").await;
    refused(&client, &denied, 403, "rls_denied", "Did you mean \"readings\"? (line 1, column 15)").await;
    // What depends on the rows is the execution's own failure; it is not to be sent again.
    let execution = expect(submit(&client, "SELECT 1 / (length(url) - length(url)) FROM urls").await, 200);
    assert_eq!((&execution["status"], &execution["error"]["retriable"]), (&json!("failed"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_given_with_the_statement() {
    let appliance = Appliance::start().await;
    let client = appliance.member("parameters").await.api;
    register(&client, 12).await;
    let ask = |sql: &'static str, params: serde_json::Value| {
        let client = client.clone();
        async move { post(&client, QUERIES, &json!({ "sql": sql, "params": params, "waitMs": 10_000 })).await }
    };
    let like = ask(
        "SELECT count(*) AS n, $2::int + 1 AS m, $3 AS t, $4 IS NULL AS e FROM urls WHERE url LIKE $1 AND created_at > $5",
        json!(["%0000_", -3, "it's $1; DROP TABLE urls --", null, "2020-01-01"]),
    );
    let execution = expect(like.await, 200);
    let row = &execution["results"]["rows"][0];
    assert_eq!((&row["n"], &row["m"], &row["e"]), (&json!(10), &json!(-2), &json!(true)), "{execution}");
    assert_eq!(row["t"], "it's $1; DROP TABLE urls --");
    for (sql, params, part) in [
        ("SELECT $1, $2", json!([1]), "the parameter $2, and one is given"),
        ("SELECT $1", json!([1, 2]), "has 2 values"),
        ("SELECT 1", json!([1]), "has 1 values"),
        ("SELECT $1", json!([{ "a": 1 }]), "params[0]: "),
    ] {
        refused(&client, &ask(sql, params).await, 400, "invalid_sql", part).await;
    }
    let body = json!({ "structured": { "table": "urls", "measures": [{ "fn": "count" }] }, "params": [1] });
    refused(&client, &post(&client, QUERIES, &body).await, 400, "invalid_sql", "params: ").await;
    let saved =
        json!({ "name": "by length", "sql": "SELECT count(*) AS n FROM urls WHERE length(url) = $1" });
    let saved = expect(post(&client, "/api/v1/bi/saved-queries", &saved).await, 201);
    let run = format!("/api/v1/bi/saved-queries/{}/run", saved["id"].as_str().unwrap());
    let ran = expect(post(&client, &run, &json!({ "params": [26], "waitMs": 10_000 })).await, 200);
    assert_eq!(ran["results"]["rows"], json!([{ "n": 12 }]), "{ran}");
    refused(&client, &post(&client, &run, &json!({})).await, 400, "invalid_sql", "$1").await;
}
