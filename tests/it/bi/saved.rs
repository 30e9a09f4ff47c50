//! Saved queries: listSavedQueries, createSavedQuery, getSavedQuery, updateSavedQuery, deleteSavedQuery, runSavedQuery.

use super::{ENDLESS, QUERIES, refused, register, rows, submit};
use crate::harness::{Appliance, Member, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use server::task::Signals;
use std::time::Duration;
use uuid::Uuid;

const SAVED: &str = "/api/v1/bi/saved-queries";

async fn save(client: &Client, name: &str, sql: &str) -> Value {
    expect(post(client, SAVED, &json!({ "name": name, "sql": sql, "scopeKind": "org" })).await, 201)
}

fn run_path(saved: &Value) -> String {
    format!("{SAVED}/{}/run", text(saved, "id"))
}

/// Runs with an Idempotency-Key.
async fn run_as(client: &Client, saved: &Value, key: &str, body: &Value) -> Reply {
    post(&client.header("idempotency-key", key), &run_path(saved), body).await
}

async fn patch(client: &Client, saved: &Value, body: &Value) -> Reply {
    client.patch(&format!("{SAVED}/{}", text(saved, "id")), body).await.expect("an answer")
}

/// A key of the member's that may read and nothing else.
async fn reader(appliance: &Appliance, member: &Member) -> Client {
    let key = json!({ "name": "reads", "permissions": ["bi:read"] });
    let key = expect(post(&member.browser, "/api/v1/api-keys", &key).await, 201);
    appliance.client().bearer(text(&key, "secret"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_saved_changed_and_removed() {
    let appliance = Appliance::start().await;
    let member = appliance.member("saves").await;
    let client = &member.api;
    let body = json!({
        "name": "  Newest URLs ", "description": " what came last ", "sql": "SELECT url FROM urls", "scopeKind": "org"
    });
    let saved = expect(post(client, SAVED, &body).await, 201);
    assert_eq!((&saved["name"], &saved["description"]), (&json!("Newest URLs"), &json!("what came last")));
    assert_eq!((&saved["sql"], &saved["scopeKind"]), (&json!("SELECT url FROM urls"), &json!("org")));
    assert_eq!((&saved["scopeAgentId"], &saved["sourceQueryId"]), (&json!(null), &json!(null)));
    assert_eq!((&saved["createdBy"], &saved["createdAt"]), (&json!(member.user_id), &saved["updatedAt"]));
    let one = format!("{SAVED}/{}", text(&saved, "id"));
    assert_eq!(expect(get(client, &one).await, 200), saved);

    let taken = post(client, SAVED, &json!({ "name": "Newest URLs", "sql": "SELECT 1" })).await;
    refused(client, &taken, 409, "already_exists", "name: ").await;
    let other = save(client, "newest urls", "SELECT 2").await;
    let listed = expect(get(client, SAVED).await, 200);
    assert_eq!(listed["items"], json!([other, saved]), "newest first");
    refused(
        client,
        &patch(client, &other, &json!({ "name": "Newest URLs" })).await,
        409,
        "already_exists",
        "name: ",
    )
    .await;
    let renamed = json!({ "name": "Two", "description": "", "sql": "SELECT 22 AS n", "scopeKind": "org" });
    let changed = expect(patch(client, &other, &renamed).await, 200);
    assert_eq!((&changed["name"], &changed["description"]), (&json!("Two"), &json!(null)));
    assert_eq!((&changed["sql"], &changed["createdAt"]), (&json!("SELECT 22 AS n"), &other["createdAt"]));
    let same = expect(patch(client, &saved, &json!({ "name": null, "description": null })).await, 200);
    assert_eq!((&same["name"], &same["description"]), (&saved["name"], &saved["description"]));
    // The old name is free again, and a name of one's own is no conflict.
    save(client, "newest urls", "SELECT 3").await;
    expect(patch(client, &saved, &json!({ "name": "Newest URLs" })).await, 200);

    assert_eq!(client.delete(&one).await.unwrap().status, 204);
    refused(client, &get(client, &one).await, 404, "not_found", "Saved query").await;
    refused(client, &client.delete(&one).await.unwrap(), 404, "not_found", "Saved query").await;
    save(client, "Newest URLs", "SELECT 4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_saved_is_refused_and_named() {
    let appliance = Appliance::start().await;
    let member = appliance.member("unsaved").await;
    let client = &member.api;
    let long = "x".repeat(2_001);
    let large = format!("SELECT '{}'", "x".repeat(70_000));
    let deep = format!("SELECT {}1{}", "(".repeat(150), ")".repeat(150));
    for (body, code, part) in [
        (json!({ "sql": "SELECT 1" }), "invalid_input", "name: is required"),
        (json!({ "name": " ", "sql": "SELECT 1" }), "invalid_input", "name: "),
        (json!({ "name": "a\u{0}b", "sql": "SELECT 1" }), "invalid_input", "name: "),
        (json!({ "name": "n", "sql": "SELECT 1", "description": long }), "invalid_input", "description: "),
        (json!({ "name": "n" }), "invalid_sql", "sql: "),
        (json!({ "name": "n", "sql": " \n" }), "invalid_sql", "sql: "),
        (json!({ "name": "n", "sql": large }), "invalid_sql", "64 KiB"),
        (json!({ "name": "n", "sql": "SELEC 1" }), "syntax_error", "at Line: 1, Column: 1"),
        (
            json!({ "name": "n", "sql": "SELECT url\nFROM urls WHERE" }),
            "syntax_error",
            "at Line: 2, Column: 16",
        ),
        (json!({ "name": "n", "sql": "SELECT 'open" }), "syntax_error", "at Line: 1, Column: 8"),
        (json!({ "name": "n", "sql": "SELECT 1; SELECT 2" }), "invalid_sql", "one statement"),
        (json!({ "name": "n", "sql": "-- nothing" }), "invalid_sql", "no statement"),
        (json!({ "name": "n", "sql": "DELETE FROM urls" }), "invalid_sql", "Only queries"),
        (json!({ "name": "n", "sql": deep }), "invalid_sql", "nested too deeply"),
        (json!({ "name": "n", "sourceQueryId": Uuid::now_v7() }), "invalid_input", "sourceQueryId: "),
        (
            json!({ "name": "n", "sql": "SELECT 1", "scopeKind": "agent" }),
            "invalid_execution_context",
            "scopeAgentId: ",
        ),
        (
            json!({ "name": "n", "sql": "SELECT 1", "scopeKind": "agent", "scopeAgentId": Uuid::now_v7() }),
            "invalid_execution_context",
            "scopeAgentId: ",
        ),
        (
            json!({ "name": "n", "sql": "SELECT 1", "scopeKind": "x" }),
            "invalid_execution_context",
            "scopeKind: ",
        ),
    ] {
        refused(client, &post(client, SAVED, &body).await, 400, code, part).await;
    }
    assert_eq!(expect(get(client, SAVED).await, 200)["items"], json!([]));
    let saved = save(client, "kept", "SELECT 1").await;
    for (body, code, part) in [
        (json!({ "scopeKind": "agent" }), "invalid_execution_context", "scopeKind: "),
        (json!({ "scopeAgentId": Uuid::now_v7() }), "invalid_execution_context", "scopeAgentId: "),
        (json!({ "scopeAgentId": "7" }), "invalid_execution_context", "scopeAgentId: must be a UUID"),
        (json!({ "name": "" }), "invalid_input", "name: "),
        (json!({ "sql": "" }), "invalid_sql", "sql: "),
        (json!({ "sql": "SELECT FROM WHERE" }), "syntax_error", "line 1, column 13"),
    ] {
        refused(client, &patch(client, &saved, &body).await, 400, code, part).await;
    }
    assert_eq!(expect(get(client, &format!("{SAVED}/{}", text(&saved, "id"))).await, 200), saved);
    // Who may only read may run, and nothing else.
    let reader = reader(&appliance, &member).await;
    let body = json!({ "name": "n", "sql": "SELECT 1" });
    for reply in [
        post(&reader, SAVED, &body).await,
        patch(&reader, &saved, &body).await,
        reader.delete(&format!("{SAVED}/{}", text(&saved, "id"))).await.unwrap(),
    ] {
        refused(client, &reply, 403, "insufficient_permissions", "bi:write").await;
    }
    assert_eq!(expect(get(&reader, SAVED).await, 200)["items"], json!([saved]));
    let run = post(&reader, &run_path(&saved), &json!({ "waitMs": 10_000 })).await;
    assert_eq!(expect(run, 200)["status"], "success");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_says_what_it_is_a_run_of() {
    let appliance = Appliance::start().await;
    let client = appliance.member("runs").await.api;
    register(&client, 300).await;
    let first = expect(submit(&client, "SELECT count(*) AS n FROM urls").await, 200);
    let body = json!({ "name": "How many", "sourceQueryId": first["jobId"], "scopeKind": "org" });
    let saved = expect(post(&client, SAVED, &body).await, 201);
    assert_eq!((&saved["sql"], &saved["sourceQueryId"]), (&first["sqlPreview"], &first["jobId"]));
    // No body at all is as good as an empty one.
    let bare = client.send(http::Method::POST, &run_path(&saved), None).await.unwrap();
    let run = expect(bare, 200);
    assert_eq!((&run["status"], &run["results"]["rows"]), (&json!("success"), &json!([{ "n": 300 }])));
    assert_eq!((&run["savedQueryId"], &run["savedQueryName"]), (&saved["id"], &json!("How many")));
    assert_eq!((&run["sourceQueryId"], &run["scopeKind"]), (&first["jobId"], &json!("org")));
    assert_eq!((&run["scopeAgentId"], &run["submissionKey"]), (&json!(null), &json!(null)));
    assert_eq!((&run["replayed"], &run["dryRun"]["tables"]), (&json!(false), &json!(["urls"])));
    assert!(first.get("savedQueryId").is_none(), "no saved query's run");
    let got = expect(get(&client, &format!("{QUERIES}/{}", text(&run, "jobId"))).await, 200);
    assert_eq!((&got["savedQueryId"], &got["savedQueryName"]), (&saved["id"], &json!("How many")));
    // Another statement in its place, in its scope.
    let other = json!({ "sql": "SELECT 7 AS n", "waitMs": 10_000 });
    let run = expect(post(&client, &run_path(&saved), &other).await, 200);
    assert_eq!((&run["results"]["rows"], &run["savedQueryId"]), (&json!([{ "n": 7 }]), &saved["id"]));
    assert_eq!(expect(get(&client, &format!("{SAVED}/{}", text(&saved, "id"))).await, 200), saved);
    let later = expect(post(&client, &run_path(&saved), &json!({ "sql": ENDLESS, "waitMs": 0 })).await, 202);
    assert_eq!((&later["savedQueryId"], later.get("results")), (&saved["id"], None));
    expect(post(&client, &format!("{QUERIES}/{}/cancel", text(&later, "jobId")), &json!({})).await, 200);

    for (body, status, code, part) in [
        (json!({ "sql": "SELEC 1" }), 400, "syntax_error", ""),
        (json!({ "sql": "SELECT nothing FROM urls", "waitMs": 10_000 }), 400, "invalid_sql", "nothing"),
        (json!({ "sql": "SELECT 1 FROM nowhere", "waitMs": 10_000 }), 403, "rls_denied", "nowhere"),
        (json!({ "sql": 7 }), 400, "invalid_input", "sql: "),
        (json!({ "waitMs": 10_001 }), 400, "invalid_input", "waitMs: "),
        (json!({ "scopeKind": "agent" }), 400, "invalid_execution_context", "scopeKind: "),
        (json!({ "scopeAgentId": Uuid::now_v7() }), 400, "invalid_execution_context", "scopeAgentId: "),
        (json!({ "scopeKind": "box" }), 400, "invalid_execution_context", "scopeKind: "),
    ] {
        refused(&client, &post(&client, &run_path(&saved), &body).await, status, code, part).await;
    }
    // What is saved is the saved query's own fault.
    let beyond = save(&client, "beyond", "SELECT 1 FROM nowhere").await;
    let run = post(&client, &run_path(&beyond), &json!({ "waitMs": 10_000 })).await;
    refused(&client, &run, 409, "saved_query_not_executable", "nowhere").await;
    // Parameters, and tables and columns that may come yet, are no reason to refuse it.
    let priced = save(&client, "priced", "SELECT count(*) AS n FROM urls WHERE url <> $1 LIMIT $2").await;
    let values = json!({ "params": ["x", 1], "waitMs": 10_000 });
    assert_eq!(expect(post(&client, &run_path(&priced), &values).await, 200)["results"]["rows"][0]["n"], 300);
    let early = save(&client, "early", "SELECT p.margin FROM products p").await;
    let run = post(&client, &run_path(&early), &json!({ "waitMs": 10_000 })).await;
    refused(&client, &run, 400, "invalid_sql", "margin").await;
    let missing = json!({ "id": Uuid::now_v7() });
    refused(&client, &post(&client, &run_path(&missing), &json!({})).await, 404, "not_found", "Saved query")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_stands_for_one_run() {
    let appliance = Appliance::start().await;
    let client = appliance.member("keys").await.api;
    let other = appliance.member("elsewhere").await.api;
    register(&client, 3).await;
    let saved = save(&client, "count", "SELECT count(*) AS n FROM urls").await;
    let key = "4F9D6A2E-1f57-4c0b-9a55-0d0f6c1f7c21";
    let none = json!({ "waitMs": 10_000 });
    let first = expect(run_as(&client, &saved, key, &none).await, 200);
    assert_eq!(
        (&first["replayed"], &first["submissionKey"]),
        (&json!(false), &json!(key.to_ascii_lowercase()))
    );
    let more = json!({ "urls": ["https://shop.example/more"] });
    expect(post(&client, "/api/v1/urls", &more).await, 200);
    eventually("SQL sees it", Duration::from_secs(10), || async {
        (rows(&client, "SELECT count(*) AS n FROM urls").await[0]["n"] == 4).then_some(())
    })
    .await;
    let again = expect(run_as(&client, &saved, key, &none).await, 200);
    let mut expected = first.clone();
    expected["replayed"] = json!(true);
    assert_eq!(again, expected, "the same execution with the same rows");
    assert_eq!(
        expect(get(&client, QUERIES).await, 200)["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|query| query["submissionKey"].is_string())
            .count(),
        1
    );

    // The key belongs to that request: another saved query or another statement is refused.
    let sql = json!({ "sql": "SELECT 1" });
    let twin = save(&client, "twin", "SELECT count(*) AS n FROM urls").await;
    refused(&client, &run_as(&client, &saved, key, &sql).await, 409, "idempotency_conflict", "").await;
    refused(&client, &run_as(&client, &twin, key, &none).await, 409, "idempotency_conflict", "").await;
    // Another organization's key of the same text is its own.
    let theirs = save(&other, "count", "SELECT 9 AS n").await;
    let run = expect(run_as(&other, &theirs, key, &none).await, 200);
    assert_eq!((&run["replayed"], &run["results"]["rows"]), (&json!(false), &json!([{ "n": 9 }])));

    for bad in
        ["", "x", "123", "4f9d6a2e1f574c0b9a550d0f6c1f7c21", "urn:uuid:4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21"]
    {
        let reply = run_as(&client, &saved, bad, &none).await;
        refused(&client, &reply, 400, "invalid_idempotency_key", "UUID").await;
    }
    // A key whose run was refused was not used.
    let key = &Uuid::now_v7().to_string();
    let wrong = json!({ "sql": "SELECT nothing FROM urls", "waitMs": 10_000 });
    refused(&client, &run_as(&client, &saved, key, &wrong).await, 400, "invalid_sql", "nothing").await;
    assert_eq!(expect(run_as(&client, &saved, key, &none).await, 200)["replayed"], false);

    // One that has failed has been run.
    let key = &Uuid::now_v7().to_string();
    let failing = json!({ "sql": "SELECT 1 / (length(url) - length(url)) FROM urls", "waitMs": 10_000 });
    let failed = expect(run_as(&client, &saved, key, &failing).await, 200);
    let again = expect(run_as(&client, &saved, key, &failing).await, 200);
    assert_eq!((&failed["status"], &again["jobId"]), (&json!("failed"), &failed["jobId"]));

    // After a day the key is as good as new.
    appliance.clock.advance(Duration::from_secs(86_400));
    let key = "4F9D6A2E-1f57-4c0b-9a55-0d0f6c1f7c21";
    let fresh = expect(run_as(&client, &saved, key, &none).await, 200);
    assert_eq!((&fresh["replayed"], &fresh["results"]["rows"]), (&json!(false), &json!([{ "n": 4 }])));
    appliance.app().services().service::<Signals>().wake("bi.tidy");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(expect(run_as(&client, &saved, key, &none).await, 200)["jobId"], fresh["jobId"]);
}

/// What a key stands for is the run, whatever becomes of the saved query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_stands_for_its_run_after_the_saved_query_changed() {
    let appliance = Appliance::start().await;
    let client = appliance.member("changes").await.api;
    let saved = save(&client, "before", "SELECT 1 AS n").await;
    let (key, none) = (Uuid::now_v7().to_string(), json!({ "waitMs": 10_000 }));
    let first = expect(run_as(&client, &saved, &key, &none).await, 200);
    assert_eq!((&first["replayed"], &first["results"]["rows"]), (&json!(false), &json!([{ "n": 1 }])));
    let mut expected = first.clone();
    expected["replayed"] = json!(true);
    for change in [
        json!({ "name": "after", "sql": "SELECT 2 AS n" }),
        // What could not be run any more, and what is of another kind.
        json!({ "sql": "SELECT n FROM nowhere" }),
        json!({ "structured": { "table": "urls", "measures": [{ "fn": "count" }] } }),
    ] {
        expect(patch(&client, &saved, &change).await, 200);
        for _ in 0..2 {
            let again = expect(run_as(&client, &saved, &key, &none).await, 200);
            assert_eq!(again, expected, "after {change}: the run as it was, under the name it had");
        }
        // Another request under the key is another request still.
        let other = json!({ "sql": "SELECT 1 AS n" });
        refused(&client, &run_as(&client, &saved, &key, &other).await, 409, "idempotency_conflict", "").await;
    }
    let listed = expect(get(&client, QUERIES).await, 200);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "run once: {listed}");
    let fresh = expect(run_as(&client, &saved, &Uuid::now_v7().to_string(), &none).await, 200);
    assert_eq!(
        (&fresh["savedQueryName"], &fresh["results"]["rows"]),
        (&json!("after"), &json!([{ "count": 0 }]))
    );
    assert_eq!(client.delete(&format!("{SAVED}/{}", text(&saved, "id"))).await.unwrap().status, 204);
    let gone = run_as(&client, &saved, &key, &none).await;
    refused(&client, &gone, 404, "not_found", "Saved query").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_with_one_key_at_once_are_one_run() {
    let appliance =
        Appliance::start_with(&[("BI__CONCURRENCY_PER_ORG", "1"), ("BI__QUEUE_PER_ORG", "3")]).await;
    let client = appliance.member("at-once").await.api;
    register(&client, 300).await;
    let saved = save(&client, "now", "SELECT random() AS r").await;
    for round in 0..5 {
        let key = Uuid::now_v7().to_string();
        let body = json!({ "waitMs": 10_000 });
        let runs = (0..4).map(|_| run_as(&client, &saved, &key, &body));
        let runs: Vec<Value> =
            futures::future::join_all(runs).await.into_iter().map(|reply| expect(reply, 200)).collect();
        assert_eq!(runs.iter().filter(|run| run["replayed"] == false).count(), 1, "round {round}: {runs:?}");
        for run in &runs {
            assert_eq!(run["jobId"], runs[0]["jobId"], "round {round}");
            assert_eq!(run["results"]["rows"], runs[0]["results"]["rows"], "round {round}");
        }
    }
    // One that still runs is replayed as it stands, also when no more may be submitted.
    let slow = save(&client, "slow", ENDLESS).await;
    let key = Uuid::now_v7().to_string();
    let running = expect(run_as(&client, &slow, &key, &json!({ "waitMs": 0 })).await, 202);
    let short = json!({ "sql": "SELECT 1", "waitMs": 0 });
    let queued = futures::future::join_all((0..3).map(|_| post(&client, QUERIES, &short))).await;
    let queued: Vec<Value> = queued.into_iter().map(|reply| expect(reply, 202)).collect();
    let fresh = Uuid::now_v7().to_string();
    let full = run_as(&client, &slow, &fresh, &json!({ "waitMs": 0 })).await;
    refused(&client, &full, 429, "too_many_queries", "").await;
    assert_eq!(full.header("retry-after"), "");
    let again = expect(run_as(&client, &slow, &key, &json!({ "waitMs": 0 })).await, 202);
    assert_eq!((&again["replayed"], &again["jobId"]), (&json!(true), &running["jobId"]));
    let cancel = format!("{QUERIES}/{}/cancel", text(&running, "jobId"));
    expect(post(&client, &cancel, &json!({})).await, 200);
    let again = expect(run_as(&client, &slow, &key, &json!({ "waitMs": 10_000 })).await, 200);
    assert_eq!((&again["status"], &again["error"]["code"]), (&json!("canceled"), &json!("canceled")));
    for query in queued {
        let path = format!("{QUERIES}/{}", text(&query, "jobId"));
        eventually("those that waited have run", Duration::from_secs(10), || async {
            (expect(get(&client, &path).await, 200)["status"] == "success").then_some(())
        })
        .await;
    }
}
