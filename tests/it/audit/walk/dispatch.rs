//! The walk through what decides how pages are fetched: providers, workflows, benchmarks and suggestions.

use super::{Due, Walk};
use crate::audit::patch;
use crate::harness::web::Web;
use crate::harness::{collect, eventually, expect, get, post, text};
use crate::workflows::{at, chain, put};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const PROVIDERS: &str = "/api/v1/providers";
const SITE_SESSIONS: &str = "/api/v1/site-sessions";
const WORKFLOWS: &str = "/api/v1/workflows";
const BENCHMARKS: &str = "/api/v1/benchmarks";
const SUGGESTIONS: &str = "/api/v1/optimization/suggestions";
const PATIENCE: Duration = Duration::from_secs(60);

fn due<'a>(action: &'a str, resource: &'a str, key: &'a str) -> Due<'a> {
    Due { action, resource, actor: ("api_key", key) }
}

/// All of them; `/fast` of the web answers at once, everything else takes its time.
pub async fn dispatching(walk: &mut Walk<'_>, web: &Web, api: &Client, key: &str) {
    let new = json!({ "adapter": "direct", "name": "Second" });
    let reply = post(api, PROVIDERS, &new).await;
    let provider = text(&reply.json, "id").to_owned();
    walk.left("connectProvider", reply, due("provider.connected", &provider, key)).await;
    let one = format!("{PROVIDERS}/{provider}");
    let reply = patch(api, &one, &json!({ "name": "Second one" })).await;
    walk.left("updateProvider", reply, due("provider.updated", &provider, key)).await;

    let session =
        json!({ "domain": "shop.example", "kind": "headers", "values": { "Authorization": "Bearer 1" } });
    let reply = post(api, SITE_SESSIONS, &session).await;
    let session = text(&reply.json, "id").to_owned();
    walk.left("createSiteSession", reply, due("site_session.created", &session, key)).await;
    let reply = api.delete(&format!("{SITE_SESSIONS}/{session}")).await.unwrap();
    walk.left("deleteSiteSession", reply, due("site_session.deleted", &session, key)).await;

    graphs(walk, api, key, &provider).await;
    benchmarks(walk, web, api, key).await;
    suggestions(walk, web, api, key).await;

    let reply = api.delete(&one).await.unwrap();
    walk.left("disconnectProvider", reply, due("provider.disconnected", &provider, key)).await;
}

async fn graphs(walk: &mut Walk<'_>, api: &Client, key: &str, provider: &str) {
    let reply = post(api, WORKFLOWS, &json!({ "name": "One", "dag": chain(&[provider]) })).await;
    let id = text(&reply.json, "workflowId").to_owned();
    walk.left("createWorkflow", reply, due("workflow.created", &id, key)).await;
    let reply = put(api, &at(&id, ""), &json!({ "name": "Uno" })).await;
    walk.left("updateWorkflow", reply, due("workflow.updated", &id, key)).await;
    let reply = put(api, &at(&id, "/routing"), &json!({ "route": "domain:shop.example" })).await;
    walk.left("setWorkflowRoute", reply, due("workflow.routed", &id, key)).await;
    let reply = post(api, &at(&id, "/publish"), &json!({})).await;
    walk.left("publishWorkflow", reply, due("workflow.published", &id, key)).await;
    let reply = post(api, &at(&id, "/unpublish"), &json!({})).await;
    walk.left("unpublishWorkflow", reply, due("workflow.unpublished", &id, key)).await;
    let reply = post(api, &at(&id, "/clone"), &json!({})).await;
    let copy = text(&reply.json, "workflowId").to_owned();
    walk.left("cloneWorkflow", reply, due("workflow.cloned", &copy, key)).await;
    let reply = api.delete(&at(&copy, "")).await.unwrap();
    walk.left("deleteWorkflow", reply, due("workflow.archived", &copy, key)).await;
}

async fn benchmarks(walk: &mut Walk<'_>, web: &Web, api: &Client, key: &str) {
    let reply = post(api, BENCHMARKS, &json!({ "urls": [web.url("/slow")] })).await;
    let id = text(&reply.json, "id").to_owned();
    walk.left("startBenchmark", reply, due("benchmark.started", &id, key)).await;
    let reply = post(api, &format!("{BENCHMARKS}/{id}/cancel"), &json!({})).await;
    walk.left("cancelBenchmark", reply, due("benchmark.canceled", &id, key)).await;

    let started = expect(post(api, BENCHMARKS, &json!({ "urls": [web.url("/fast")] })).await, 201);
    let one = format!("{BENCHMARKS}/{}", text(&started, "id"));
    eventually("the benchmark is completed", PATIENCE, || async {
        (expect(get(api, &one).await, 200)["status"] == "completed").then_some(())
    })
    .await;
    let reply = post(api, &format!("{one}/generate-workflow"), &json!({ "mode": "suggest" })).await;
    let made = text(&reply.json, "workflowId").to_owned();
    walk.left("generateWorkflow", reply, due("workflow.created", &made, key)).await;
}

/// Two workflows that suggest, and a provider that comes: one suggestion is taken, the other one is not.
async fn suggestions(walk: &mut Walk<'_>, web: &Web, api: &Client, key: &str) {
    let mut smart = Vec::new();
    for name in ["applied", "dismissed"] {
        let reply = post(api, &at("smart", ""), &json!({ "name": name })).await;
        let id = text(&reply.json, "workflowId").to_owned();
        walk.left("createSmartWorkflow", reply, due("workflow.created", &id, key)).await;
        let reply = put(api, &at(&id, "/smart/mode"), &json!({ "mode": "suggest" })).await;
        walk.left("setSmartMode", reply, due("workflow.mode_set", &id, key)).await;
        smart.push(id);
    }
    expect(post(api, PROVIDERS, &json!({ "adapter": "direct", "name": "Third" })).await, 201);
    let ways = [
        ("applySuggestion", "apply", "suggestion.applied"),
        ("dismissSuggestion", "dismiss", "suggestion.dismissed"),
    ];
    for (workflow, (operation, way, done)) in smart.iter().zip(ways) {
        let open = format!("{SUGGESTIONS}?workflowId={workflow}&status=open");
        let (id, reply) = eventually("a suggestion is answered", PATIENCE, || async {
            // The worker looks when a job has taught it something.
            collect(api, &web.url("/fast")).await;
            let listed: Value = expect(get(api, &open).await, 200);
            let id = text(listed["items"].as_array()?.first()?, "id").to_owned();
            let reply = post(api, &format!("{SUGGESTIONS}/{id}/{way}"), &json!({})).await;
            // Another one may have taken its place in between.
            (reply.status != 409).then_some((id, reply))
        })
        .await;
        walk.left(operation, reply, due(done, &id, key)).await;
    }
}
