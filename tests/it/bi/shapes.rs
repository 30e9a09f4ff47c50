//! What the reference says of the console is what the box does: each answer has the shape, the bounds and the formats of
//! its schema and nothing beside, each error a status and a code that its operation declares.

use super::{ENDLESS, QUERIES, register};
use crate::harness::Request;
use crate::harness::reference::Reference;
use crate::harness::{Appliance, eventually, expect, get, post, text};
use gleaner::features::bi::{KillSwitchOrder, KillTarget};
use http::Method;
use serde_json::{Value, json};
use server::client::Client;
use sql::Fingerprint;
use std::time::Duration;
use uuid::Uuid;

const WAIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_as_the_reference_says() {
    let settings = [("BI__CONCURRENCY_PER_ORG", "1"), ("BI__QUEUE_PER_ORG", "1"), ("BI__CONCURRENCY", "2")];
    let appliance = Appliance::start_with(&settings).await;
    let member = appliance.member("shapes").await;
    let client = &member.api;
    register(client, 30).await;
    let document = expect(get(client, "/api/v1/openapi.json").await, 200);
    let mut reference = Reference::new(document);
    let it = &mut reference;
    let (get_, post_, none) = (Method::GET, Method::POST, Uuid::now_v7().to_string());

    let body = json!({ "sql": "SELECT url FROM urls", "waitMs": 10_000 });
    let done = it.call(client, post_.clone(), QUERIES, "", Some(&body)).await;
    let done = text(&expect(done, 200), "jobId").to_owned();
    let structured =
        json!({ "table": "urls", "measures": [{ "fn": "count" }], "dimensions": [{ "column": "domain" }] });
    for body in [
        json!({ "structured": structured, "waitMs": 10_000 }),
        json!({ "sql": "SELECT 1", "dryRun": true, "waitMs": 10_000 }),
        json!({ "sql": "SELECT 1 / (length(url) - length(url)) FROM urls", "waitMs": 10_000 }),
        json!({ "sql": "SELEC" }),
        json!({ "sql": "SELECT nothing FROM urls" }),
        json!({ "sql": "SELECT 1 FROM nowhere" }),
        json!({ "sql": "SELECT 1", "scopeKind": "box" }),
        json!({ "sql": 1 }),
    ] {
        it.call(client, post_.clone(), QUERIES, "", Some(&body)).await;
    }
    let one = format!("{QUERIES}/{{id}}");
    let (results, manifest) = (format!("{one}/results"), format!("{one}/result-manifest"));
    let (exports, cancel) = (format!("{one}/exports"), format!("{one}/cancel"));
    let slow = json!({ "sql": ENDLESS.replace("urls d", "urls d, urls e, urls f"), "waitMs": 0 });
    let running = expect(it.call(client, post_.clone(), QUERIES, "", Some(&slow)).await, 202);
    let queued = expect(it.call(client, post_.clone(), QUERIES, "", Some(&slow)).await, 202);
    let (running, queued) = (text(&running, "jobId").to_owned(), text(&queued, "jobId").to_owned());
    let full = it.call(client, post_.clone(), QUERIES, "", Some(&slow)).await;
    assert_eq!(full.status, 429, "{}", full.text());
    for id in [&done, &running, &queued, &none] {
        for path in [&one, &results, &manifest] {
            it.call(client, get_.clone(), path, id, None).await;
        }
        it.call(client, post_.clone(), &exports, id, Some(&json!({ "format": "csv" }))).await;
    }
    for query in ["?page=0&pageSize=7", "?page=99", "?pageSize=5000", "?pageSize=0", "?page=x"] {
        it.call(client, get_.clone(), &format!("{results}{query}"), &done, None).await;
    }
    for id in [&queued, &running, &done, &none] {
        it.call(client, post_.clone(), &cancel, id, None).await;
    }
    for id in [&queued, &running] {
        eventually("it is canceled", WAIT, || async {
            let path = one.replace("{id}", id);
            (expect(get(client, &path).await, 200)["status"] == "canceled").then_some(())
        })
        .await;
        it.call(client, get_.clone(), &one, id, None).await;
        it.call(client, get_.clone(), &manifest, id, None).await;
    }
    it.call(client, get_.clone(), &format!("{QUERIES}?limit=200"), "", None).await;
    it.call(client, get_.clone(), &format!("{QUERIES}?limit=0"), "", None).await;

    let asked =
        expect(it.call(client, post_.clone(), &exports, &done, Some(&json!({ "format": "csv" }))).await, 202);
    let (export, file) = ("/api/v1/bi/exports/{id}", "/api/v1/bi/exports/{id}/download");
    let id = text(&asked["export"], "id").to_owned();
    eventually("the export is made", WAIT, || async {
        let made = expect(get(client, &export.replace("{id}", &id)).await, 200);
        (made["export"]["status"] == "success").then_some(())
    })
    .await;
    for id in [&id, &none] {
        it.call(client, get_.clone(), export, id, None).await;
        it.call(client, get_.clone(), file, id, None).await;
    }
    for (name, value) in [("range", "bytes=0-3"), ("range", "bytes=99999999-"), ("if-none-match", "*")] {
        it.call(&client.header(name, value), get_.clone(), file, &id, None).await;
    }

    let (tables, table) = ("/api/v1/bi/tables", "/api/v1/bi/tables/{name}");
    it.call(client, get_.clone(), tables, "", None).await;
    for name in ["urls", "readings", "nowhere", "1a"] {
        it.call(client, get_.clone(), table, name, None).await;
    }
    saved(it, client, &structured).await;
    switched_off(it, &appliance, client).await;
    let reader = json!({ "name": "reads", "permissions": ["urls:read"] });
    let reader = expect(post(&member.browser, "/api/v1/api-keys", &reader).await, 201);
    for client in [appliance.client(), appliance.client().bearer(text(&reader, "secret"))] {
        it.call(&client, get_.clone(), QUERIES, "", None).await;
    }
    reference.assert_kept();
}

/// Saved queries, with and without keys.
async fn saved(it: &mut Reference, client: &Client, structured: &Value) {
    let (saved, one) = ("/api/v1/bi/saved-queries", "/api/v1/bi/saved-queries/{id}");
    let (run, convert) = (format!("{one}/run"), format!("{one}/convert"));
    let mut ids = Vec::new();
    for body in [
        json!({ "name": "a", "sql": "SELECT 1 AS n" }),
        json!({ "name": "b", "structured": structured }),
        json!({ "name": "c", "sql": "SELECT 1 FROM nowhere", "description": "cannot be run" }),
        json!({ "name": "a", "sql": "SELECT 1" }),
        json!({ "name": "d", "structured": { "table": "nowhere", "measures": [{ "fn": "count" }] } }),
        json!({ "name": "d", "sql": "SELECT 1", "scopeKind": "agent" }),
        json!({ "name": "d" }),
        json!({ "name": "" }),
    ] {
        let reply = it.call(client, Method::POST, saved, "", Some(&body)).await;
        ids.extend(reply.json["id"].as_str().map(str::to_owned));
    }
    ids.push(Uuid::now_v7().to_string());
    let (key, other) = (Uuid::now_v7().to_string(), json!({ "sql": "SELECT 2 AS n" }));
    let keyed = client.header("idempotency-key", &key);
    for id in &ids {
        it.call(client, Method::GET, one, id, None).await;
        it.call(client, Method::POST, &convert, id, None).await;
        it.call(client, Method::POST, &run, id, None).await;
        let scoped = json!({ "scopeKind": "agent" });
        for body in [None, None, Some(&other), Some(&scoped)] {
            it.call(&keyed, Method::POST, &run, id, body).await;
        }
        it.call(&client.header("idempotency-key", "x"), Method::POST, &run, id, None).await;
        for body in [json!({ "description": "x" }), json!({ "scopeKind": "agent" }), json!({ "name": "b" })] {
            it.call(client, Method::PATCH, one, id, Some(&body)).await;
        }
    }
    it.call(client, Method::GET, saved, "", None).await;
    for id in &ids {
        it.call(client, Method::DELETE, one, id, None).await;
    }
}

/// Everything, and one statement.
async fn switched_off(it: &mut Reference, appliance: &Appliance, client: &Client) {
    let sql = "SELECT 7 AS switched";
    for (target, status) in
        [(KillTarget::Box, 403), (KillTarget::Statement(Fingerprint::of(sql).to_string()), 400)]
    {
        let order = KillSwitchOrder::Set { target: target.clone(), reason: "a test".into() };
        appliance.operator(Request::BiKillSwitch { order }).await;
        let reply = it.call(client, Method::POST, QUERIES, "", Some(&json!({ "sql": sql }))).await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
        assert_eq!(reply.json["error"]["code"], "kill_switched");
        let order = KillSwitchOrder::Clear { target };
        appliance.operator(Request::BiKillSwitch { order }).await;
    }
}
