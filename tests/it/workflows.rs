//! Workflows through HTTP: listWorkflows, createWorkflow, createSmartWorkflow, validateWorkflow, getWorkflow,
//! updateWorkflow, deleteWorkflow, cloneWorkflow, publishWorkflow, unpublishWorkflow, setWorkflowRoute,
//! listWorkflowVersions, getWorkflowVersion, setSmartMode.

use crate::harness::{Appliance, Member, expect, get, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use uuid::Uuid;

const WORKFLOWS: &str = "/api/v1/workflows";

pub async fn put(client: &Client, path: &str, body: &Value) -> Reply {
    client.send(Method::PUT, path, Some(body)).await.expect("an answer")
}

async fn delete(client: &Client, path: &str) -> Reply {
    client.send(Method::DELETE, path, None).await.expect("an answer")
}

/// The id of the built-in provider, which every organization begins with.
pub async fn direct(member: &Member) -> String {
    let providers = expect(get(&member.api, "/api/v1/providers").await, 200);
    text(&providers["items"][0], "id").to_owned()
}

/// One provider after the other until one delivers.
pub fn chain(providers: &[&str]) -> Value {
    let mut nodes = vec![json!({ "id": "start", "type": "start" })];
    let mut edges = vec![json!({ "source": "start", "target": "p0", "type": "always" })];
    for (i, provider) in providers.iter().enumerate() {
        let id = format!("p{i}");
        let next = if i + 1 < providers.len() { format!("p{}", i + 1) } else { "bad".to_owned() };
        nodes.push(json!({ "id": id, "type": "provider", "config": { "providerId": provider } }));
        edges.push(json!({ "source": id, "target": "ok", "type": "success" }));
        edges.push(json!({ "source": id, "target": next, "type": "failure" }));
    }
    nodes.push(json!({ "id": "ok", "type": "end", "config": { "status": "succeeded" } }));
    nodes.push(json!({ "id": "bad", "type": "end", "config": { "status": "failed" } }));
    json!({ "nodes": nodes, "edges": edges })
}

/// Makes a draft; gives its workflowId.
pub async fn draft(member: &Member, name: &str, dag: &Value) -> String {
    let made = post(&member.api, WORKFLOWS, &json!({ "name": name, "dag": dag })).await;
    text(&expect(made, 201), "workflowId").to_owned()
}

pub fn at(id: &str, what: &str) -> String {
    format!("{WORKFLOWS}/{id}{what}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_goes_from_draft_to_published_and_back() {
    let appliance = Appliance::start().await;
    let member = appliance.member("flows").await;
    let api = &member.api;
    let dag = chain(&[&direct(&member).await]);
    let made =
        post(api, WORKFLOWS, &json!({ "name": " Shops ", "dag": dag, "route": "domain:Shop.Example" })).await;
    let made = expect(made, 201);
    assert_eq!(
        (&made["name"], &made["status"], &made["version"]),
        (&json!("Shops"), &json!("draft"), &json!(1))
    );
    assert_eq!((&made["route"], &made["dag"]), (&json!("domain:shop.example"), &dag));
    assert!(made.get("smart").is_none() && made["publishedAt"].is_null());
    assert_ne!(made["id"], made["workflowId"]);
    let id = text(&made, "workflowId");
    // The version's own id is no name of the workflow.
    refused(&get(api, &at(text(&made, "id"), "")).await, 404, "Workflow not found", "");

    let live = expect(post(api, &at(id, "/publish"), &json!({})).await, 200);
    assert_eq!(live["status"], "published");
    let again = expect(post(api, &at(id, "/publish"), &json!({})).await, 200);
    assert_eq!(again["publishedAt"], live["publishedAt"], "publishing twice is publishing once");
    assert_eq!(expect(get(api, &at(id, "")).await, 200), again);

    // An edit is a new version, live at once, with another id; the old one stays as it was.
    let edited = expect(put(api, &at(id, ""), &json!({ "name": "Shops 2" })).await, 200);
    assert_eq!((&edited["version"], &edited["status"]), (&json!(2), &json!("published")));
    assert_ne!(edited["id"], made["id"]);
    let versions = expect(get(api, &at(id, "/versions")).await, 200);
    let numbers: Vec<_> =
        versions["items"].as_array().unwrap().iter().map(|v| v["version"].clone()).collect();
    assert_eq!(numbers, [json!(2), json!(1)]);
    let first = expect(get(api, &at(id, "/versions/1")).await, 200);
    assert_eq!((&first["id"], &first["name"], &first["dag"]), (&made["id"], &json!("Shops"), &dag));
    assert_eq!(first["status"], "archived");
    for number in ["0", "3", "x", "-1", "99999999999"] {
        let reply = get(api, &at(id, &format!("/versions/{number}"))).await;
        refused(&reply, 404, "Workflow version not found", "");
    }

    let copy = expect(post(api, &at(id, "/clone"), &json!({})).await, 201);
    assert_eq!(
        (&copy["status"], &copy["route"], &copy["version"]),
        (&json!("draft"), &Value::Null, &json!(1))
    );
    assert_ne!(copy["workflowId"], made["workflowId"]);

    let back = expect(post(api, &at(id, "/unpublish"), &json!({})).await, 200);
    assert_eq!((&back["status"], &back["route"]), (&json!("draft"), &json!("domain:shop.example")));
    assert_eq!(delete(api, &at(id, "")).await.status, 204);
    assert_eq!(delete(api, &at(id, "")).await.status, 204);
    assert_eq!(expect(get(api, &at(id, "")).await, 200)["status"], "archived");
    expect(get(api, &at(id, "/versions/1")).await, 200);
    for (reply, part) in [
        (post(api, &at(id, "/publish"), &json!({})).await, "archived"),
        (post(api, &at(id, "/unpublish"), &json!({})).await, "archived"),
        (put(api, &at(id, ""), &json!({ "name": "x" })).await, "archived"),
        (put(api, &at(id, "/routing"), &json!({ "route": "*" })).await, "archived"),
    ] {
        refused(&reply, 409, "Conflict", part);
    }
    let listed = expect(get(api, WORKFLOWS).await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "the copy");
    let archived = expect(get(api, &format!("{WORKFLOWS}?status=archived")).await, 200);
    assert_eq!(archived["items"].as_array().unwrap().len(), 1);
    refused(&get(api, &format!("{WORKFLOWS}?status=live")).await, 400, "Validation failed", "status");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_is_checked_before_it_is_kept() {
    let appliance = Appliance::start().await;
    let member = appliance.member("checked").await;
    let api = &member.api;
    let direct = direct(&member).await;
    let unknown = Uuid::now_v7().to_string();
    let good = chain(&[&direct]);

    let validation = expect(post(api, &at("validate", ""), &json!({ "dag": good })).await, 200);
    assert_eq!((&validation["valid"], &validation["maxCredits"]), (&json!(true), &json!(1)));
    assert_eq!(validation["providerIds"], json!([direct]));
    let mut bad = chain(&[&direct, &unknown]);
    bad["nodes"][1]["type"] = json!("scrape");
    bad["edges"][2]["target"] = json!("nowhere");
    bad["nodes"].as_array_mut().unwrap().push(json!({ "id": "w", "type": "wait", "config": { "ms": -1 } }));
    let validation = expect(post(api, &at("validate", ""), &json!({ "dag": bad })).await, 200);
    assert_eq!((&validation["valid"], &validation["maxCredits"]), (&json!(false), &Value::Null));
    let found: Vec<_> = validation["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (text(error, "path"), text(error, "code")))
        .collect();
    for expected in [
        ("dag.nodes[1].type", "node_type_unknown"),
        ("dag.edges[2].target", "dangling_edge"),
        ("dag.nodes[5].config.ms", "bad_config"),
        ("dag.nodes[5]", "missing_edge"),
        ("dag.nodes[2].config.providerId", "provider_not_connected"),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
    }
    assert_eq!(validation["warnings"][0]["code"], "unreachable");

    let refusal = post(api, WORKFLOWS, &json!({ "name": "x", "dag": bad })).await;
    refused(&refusal, 400, "Unknown node type", "dag.nodes[1].type");
    let mut endless = good.clone();
    endless["edges"][2]["target"] = json!("p0");
    let refusal = post(api, WORKFLOWS, &json!({ "name": "x", "dag": endless })).await;
    refused(&refusal, 400, "Invalid workflow", "dag.nodes[1]: cycle: ");
    let refusal = post(api, WORKFLOWS, &json!({ "name": "", "dag": good })).await;
    refused(&refusal, 400, "Validation failed", "name: ");
    let refusal = post(api, WORKFLOWS, &json!({ "name": "x", "dag": good, "route": "example.com" })).await;
    refused(&refusal, 400, "Validation failed", "route: ");
    assert!(expect(get(api, WORKFLOWS).await, 200)["items"].as_array().unwrap().is_empty());

    // A draft may wait for its provider; a published workflow may not.
    let id = draft(&member, "waiting", &chain(&[&unknown])).await;
    let refusal = post(api, &at(&id, "/publish"), &json!({})).await;
    refused(&refusal, 400, "Invalid workflow", "provider_not_connected");
    expect(put(api, &at(&id, ""), &json!({ "dag": good })).await, 200);
    expect(post(api, &at(&id, "/publish"), &json!({})).await, 200);
    let refusal = put(api, &at(&id, ""), &json!({ "dag": chain(&[&unknown]) })).await;
    refused(&refusal, 400, "Invalid workflow", "provider_not_connected");
    assert_eq!(expect(get(api, &at(&id, "")).await, 200)["version"], 2);
    refused(&put(api, &at(&id, ""), &json!({})).await, 400, "Validation failed", "nothing to change");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_meets_its_condition_or_changes_nothing() {
    let appliance = Appliance::start().await;
    let member = appliance.member("etags").await;
    let id = draft(&member, "one", &chain(&[&direct(&member).await])).await;
    let seen = get(&member.api, &at(&id, "")).await;
    let tag = seen.header("etag").to_owned();
    let with_tag = member.api.header("if-match", &tag);
    expect(put(&with_tag, &at(&id, ""), &json!({ "name": "two" })).await, 200);
    let late = put(&with_tag, &at(&id, ""), &json!({ "name": "three" })).await;
    refused(&late, 412, "Precondition failed", "changed");
    let now = get(&member.api, &at(&id, "")).await;
    assert_eq!((&now.json["name"], &now.json["version"]), (&json!("two"), &json!(2)));
    let known = member.api.header("if-none-match", now.header("etag"));
    assert_eq!(get(&known, &at(&id, "")).await.status, 304);
    expect(put(&member.api, &at(&id, ""), &json!({ "name": "four" })).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_published_workflow_holds_a_route() {
    let appliance = Appliance::start().await;
    let member = appliance.member("routes").await;
    let api = &member.api;
    let dag = chain(&[&direct(&member).await]);
    let first = draft(&member, "first", &dag).await;
    let second = draft(&member, "second", &dag).await;
    // Drafts may want the same one.
    for id in [&first, &second] {
        let set = expect(put(api, &at(id, "/routing"), &json!({ "route": "*" })).await, 200);
        assert_eq!(set, json!({ "workflowId": id, "route": "*" }));
    }
    expect(post(api, &at(&first, "/publish"), &json!({})).await, 200);
    let refusal = post(api, &at(&second, "/publish"), &json!({})).await;
    refused(&refusal, 409, "Conflict", "\"first\"");
    expect(put(api, &at(&second, "/routing"), &json!({ "route": null })).await, 200);
    expect(post(api, &at(&second, "/publish"), &json!({})).await, 200);
    let refusal = put(api, &at(&second, "/routing"), &json!({ "route": "*" })).await;
    refused(&refusal, 409, "Conflict", "\"first\"");
    let refusal = put(api, &at(&second, "/routing"), &json!({ "route": 7 })).await;
    refused(&refusal, 400, "Validation failed", "route");
    refused(
        &put(api, &at(&second, "/routing"), &json!({})).await,
        400,
        "Validation failed",
        "route: is required",
    );
    // Unpublishing frees the route and keeps it.
    expect(post(api, &at(&first, "/unpublish"), &json!({})).await, 200);
    expect(put(api, &at(&second, "/routing"), &json!({ "route": "*" })).await, 200);
    refused(&post(api, &at(&first, "/publish"), &json!({})).await, 409, "Conflict", "\"second\"");

    // Two that publish at once on one route: one wins, the other is told who did. Again and again.
    for round in 0..20 {
        let route = json!({ "route": format!("domain:race-{round}.example") });
        let (a, b) = (draft(&member, "a", &dag).await, draft(&member, "b", &dag).await);
        for id in [&a, &b] {
            expect(put(api, &at(id, "/routing"), &route).await, 200);
        }
        let (pa, pb) = (at(&a, "/publish"), at(&b, "/publish"));
        let empty = json!({});
        let (one, other) = tokio::join!(post(api, &pa, &empty), post(api, &pb, &empty));
        let mut statuses = [one.status.as_u16(), other.status.as_u16()];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "round {round}: {} {}", one.text(), other.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_smart_workflow_is_drawn_by_the_box() {
    let appliance = Appliance::start().await;
    let member = appliance.member("smart").await;
    let api = &member.api;
    let direct = direct(&member).await;
    let smart =
        expect(post(api, &at("smart", ""), &json!({ "route": "*", "strategy": "latency" })).await, 201);
    assert_eq!((&smart["status"], &smart["route"]), (&json!("published"), &json!("*")));
    assert_eq!(smart["smart"], json!({ "strategy": "latency", "mode": "auto" }));
    let drawn = smart["dag"].to_string();
    assert!(drawn.contains(&direct), "{drawn}");
    let validation = expect(post(api, &at("validate", ""), &json!({ "dag": smart["dag"] })).await, 200);
    assert_eq!((&validation["valid"], &validation["warnings"]), (&json!(true), &json!([])));
    let id = text(&smart, "workflowId");
    refused(&put(api, &at(id, ""), &json!({ "name": "mine" })).await, 409, "Conflict", "read-only");
    let mode = expect(put(api, &at(id, "/smart/mode"), &json!({ "mode": "suggest" })).await, 200);
    assert_eq!(mode, json!({ "mode": "suggest" }));
    assert_eq!(expect(get(api, &at(id, "")).await, 200)["smart"]["mode"], "suggest");
    refused(
        &put(api, &at(id, "/smart/mode"), &json!({ "mode": "off" })).await,
        400,
        "Validation failed",
        "mode",
    );
    // A copy is there to be edited.
    let copy = expect(post(api, &at(id, "/clone"), &json!({})).await, 201);
    assert!(copy.get("smart").is_none());
    let copy_id = text(&copy, "workflowId");
    expect(put(api, &at(copy_id, ""), &json!({ "name": "mine" })).await, 200);
    let refusal = put(api, &at(copy_id, "/smart/mode"), &json!({ "mode": "auto" })).await;
    refused(&refusal, 400, "Validation failed", "not a smart workflow");
    // Its route is taken, and nothing is left behind.
    let before = expect(get(api, WORKFLOWS).await, 200)["items"].as_array().unwrap().len();
    let refusal = post(api, &at("smart", ""), &json!({ "route": "*" })).await;
    refused(&refusal, 409, "Conflict", "belongs to");
    assert_eq!(expect(get(api, WORKFLOWS).await, 200)["items"].as_array().unwrap().len(), before);
    // Without a provider there is nothing to rank.
    assert_eq!(delete(api, &format!("/api/v1/providers/{direct}")).await.status, 204);
    let refusal = post(api, &at("smart", ""), &json!({})).await;
    refused(&refusal, 400, "Validation failed", "no provider is connected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_reads_workflows_and_changes_none() {
    let appliance = Appliance::start().await;
    let member = appliance.member("flowviewer").await;
    let dag = chain(&[&direct(&member).await]);
    let id = draft(&member, "one", &dag).await;
    let key = json!({ "name": "reader", "permissions": ["workflows:read"] });
    let key = expect(post(&member.browser, "/api/v1/api-keys", &key).await, 201);
    let reader = appliance.client().bearer(text(&key, "secret"));
    expect(get(&reader, &at(&id, "")).await, 200);
    expect(post(&reader, &at("validate", ""), &json!({ "dag": dag })).await, 200);
    for reply in [
        post(&reader, WORKFLOWS, &json!({ "name": "x", "dag": dag })).await,
        post(&reader, &at(&id, "/publish"), &json!({})).await,
        put(&reader, &at(&id, ""), &json!({ "name": "x" })).await,
        delete(&reader, &at(&id, "")).await,
    ] {
        refused(&reply, 403, "Insufficient permissions", "workflows:write");
    }
}
