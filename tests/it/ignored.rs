//! What is ignored of a request is told: on every operation, and refused to whoever asks for that (data/docs/api.md,
//! "Unknown names").

use crate::harness::{Appliance, expect, get, post, text};
use crate::workflows::{chain, direct};
use http::Method;
use serde_json::{Value, json};
use server::Route;
use server::client::{Client, Reply};
use uuid::Uuid;

/// Not the name of anything.
const UNKNOWN: &str = "zzUnknown";

async fn call(client: &Client, route: &Route) -> Reply {
    let path = route.variables().fold(route.path().to_owned(), |path, variable| {
        path.replace(&format!("{{{variable}}}"), &Uuid::now_v7().to_string())
    });
    let method: Method = route.method().parse().unwrap();
    let has_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
    let body = json!({ UNKNOWN: 1 });
    client.send(method, &format!("{path}?{UNKNOWN}=1"), has_body.then_some(&body)).await.unwrap()
}

fn message(reply: &Reply) -> &str {
    reply.json["error"]["message"].as_str().or(reply.json["message"].as_str()).unwrap_or_default()
}

/// Every operation of the box, asked for something that it does not have. None is asked for anything that it has, so that
/// the walk changes nothing but what an operation without a body does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_names_what_it_ignores_and_refuses_it_to_the_strict() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let strict = owner.browser.header("prefer", "respond-async, handling=strict");
    let routes: Vec<_> = gleaner::app::routes().into_iter().flat_map(|group| group.routes).collect();
    for route in &routes {
        let place = format!("{} {}", route.method(), route.path());
        let refused = call(&strict, route).await;
        assert_eq!(refused.status, 400, "{place}: {}", refused.text());
        assert!(message(&refused).starts_with("zzUnknown: is not known; "), "{place}: {}", refused.text());
        assert_eq!(refused.header("x-ignored-fields"), "", "{place}: it was not ignored");
    }
    // Who ends every other session needs another token afterwards.
    let other = at.member("eve").await;
    for route in &routes {
        let caller = if route.id() == "endOtherSessions" { &other } else { &owner };
        let reply = call(&caller.browser, route).await;
        let place = format!("{} {}: {}", route.method(), route.path(), reply.status);
        assert_eq!(reply.header("x-ignored-fields"), UNKNOWN, "{place}");
        assert_eq!(reply.header("preference-applied"), "", "{place}");
    }
    // Who may not ask is told that first.
    let stranger = at.client().header("prefer", "handling=strict");
    assert_eq!(get(&stranger, "/api/v1/jobs?zz=1").await.status, 401);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_nested_is_named_by_its_path() {
    let at = Appliance::start().await;
    let member = at.member("typos").await;
    let (api, strict) = (&member.api, member.api.header("prefer", "handling=strict"));
    let job = json!({
        "url": "https://shop.example/", "prioritty": 9, "options": { "rendr": true, "headers": { "X-Any": "1" } },
        "metadata": { "any": { "thing": 1 } }, "tags": null, "workflow_id": null,
    });
    let made = post(api, "/api/v1/jobs", &job).await;
    assert_eq!(made.header("x-ignored-fields"), "prioritty, options.rendr, workflow_id");
    expect(made, 201);
    let refused = post(&strict, "/api/v1/jobs", &job).await;
    let known =
        "prioritty: is not known; known are externalId, metadata, options, pageType, priority, tags, url";
    assert_eq!(refused.status, 400);
    assert!(message(&refused).starts_with(known), "{}", refused.text());
    assert!(message(&refused).ends_with("Nor is any of options.rendr, workflow_id."), "{}", refused.text());
    assert_eq!(expect(get(api, "/api/v1/jobs").await, 200)["items"].as_array().unwrap().len(), 1);

    let batch = json!({ "jobs": [{ "url": "https://shop.example/" }, { "url": "https://shop.example/", "prio": 1 }] });
    assert_eq!(post(api, "/api/v1/jobs/batch", &batch).await.header("x-ignored-fields"), "jobs[1].prio");
    let urls = json!({ "urls": ["https://a.example/", { "url": "https://b.example/", "label": "x" }] });
    assert_eq!(post(api, "/api/v1/urls", &urls).await.header("x-ignored-fields"), "urls[1].label");

    // The members of a node's config are those of its type.
    let mut dag = chain(&[&direct(&member).await]);
    dag["nodes"][1]["config"]["retires"] = json!(2);
    dag["nodes"][2]["config"]["retries"] = json!(2);
    dag["nodes"][0]["positon"] = json!({ "x": 1 });
    dag["nodes"][0]["position"] = json!({ "x": 1, "any": "thing" });
    let workflow = json!({ "name": "typed", "dag": dag });
    let made = post(api, "/api/v1/workflows", &workflow).await;
    assert_eq!(
        made.header("x-ignored-fields"),
        "dag.nodes[0].positon, dag.nodes[1].config.retires, dag.nodes[2].config.retries"
    );
    expect(made, 201);
    let refused = post(&strict, "/api/v1/workflows", &workflow).await;
    assert!(message(&refused).starts_with("dag.nodes[0].positon: is not known; known are config, id, "));

    let listed = get(api, "/api/v1/jobs?limit=1&stauts=queued&priority=9").await;
    assert_eq!(listed.header("x-ignored-fields"), "stauts, priority");
    let refused = get(&strict, "/api/v1/jobs?stauts=queued").await;
    assert!(
        message(&refused).contains("known are batchId, benchmarkId, cursor, domain, "),
        "{}",
        refused.text()
    );
    let fine = get(&strict, "/api/v1/jobs?limit=1&status=queued").await;
    assert_eq!((fine.header("preference-applied"), fine.header("x-ignored-fields")), ("handling=strict", ""));
    // What was mistyped is told beside what was then missing.
    let wrong = post(api, "/api/v1/jobs", &json!({ "ulr": "https://shop.example/" })).await;
    assert_eq!((wrong.status.as_u16(), wrong.header("x-ignored-fields")), (400, "ulr"));
    assert!(text(&wrong.json, "message").starts_with("url: is missing"));
    let nothing: Value = json!({ "url": "https://shop.example/" });
    assert_eq!(post(api, "/api/v1/jobs", &nothing).await.header("x-ignored-fields"), "");
    at.stop().await;
}
