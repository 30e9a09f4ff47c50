//! API keys over time: what their maker loses they lose, and being used costs no write.

use crate::harness::Request;
use crate::harness::{Appliance, expect, get, join, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const KEYS: &str = "/api/v1/api-keys";
const ME: &str = "/api/v1/auth/me";
const MEMBERS: &str = "/api/v1/orgs/current/members";

async fn key(maker: &Client, body: Value) -> (String, String) {
    let made = expect(post(maker, KEYS, &body).await, 201);
    (text(&made["apiKey"], "id").to_owned(), text(&made, "secret").to_owned())
}

async fn set_role(client: &Client, user: &str, role: &str) -> Reply {
    client.send(Method::PATCH, &format!("{MEMBERS}/{user}"), Some(&json!({ "role": role }))).await.unwrap()
}

async fn permissions(client: &Client) -> Vec<String> {
    let me = expect(get(client, ME).await, 200);
    me["permissions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_key_never_grants_more_than_its_maker_holds_at_the_time() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "admin").await;
    let (_, all) = key(&bob.browser, json!({ "name": "all" })).await;
    let some = json!({ "name": "some", "permissions": ["org:write", "jobs:read", "audit:read"] });
    let (_, some) = key(&bob.browser, some).await;
    let (all, some) = (at.client().bearer(&all), at.client().bearer(&some));
    assert_eq!(permissions(&some).await, ["jobs:read", "org:write", "audit:read"]);

    for (role, left) in [("editor", vec!["jobs:read"]), ("viewer", vec!["jobs:read"])] {
        expect(set_role(&ada.browser, &bob.id, role).await, 200);
        let held = permissions(&bob.browser).await;
        assert_eq!(permissions(&all).await, held, "{role}");
        assert!(!held.iter().any(|name| name.starts_with("org:")));
        assert_eq!(permissions(&some).await, left, "{role}");
        for client in [&all, &some] {
            refused(&get(client, KEYS).await, 403, "Insufficient permissions", "org:read");
            let more = post(client, KEYS, &json!({ "name": "more" })).await;
            refused(&more, 403, "Insufficient permissions", "org:write");
        }
    }
    let job = json!({ "url": "http://example.com" });
    refused(&post(&all, "/api/v1/jobs", &job).await, 403, "Insufficient permissions", "jobs:write");
    // It is the same key when its maker rises again, and still no more than it was made for.
    expect(set_role(&ada.browser, &bob.id, "owner").await, 200);
    assert_eq!(permissions(&some).await, ["jobs:read", "org:write", "audit:read"]);
    at.stop().await;
}

#[tokio::test]
async fn a_key_does_not_make_its_maker_leave() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "admin").await;
    let (_, narrow) = key(&bob.browser, json!({ "name": "narrow", "permissions": ["jobs:read"] })).await;
    let leave = at.client().bearer(&narrow).delete(&format!("{MEMBERS}/{}", bob.id)).await.unwrap();
    refused(&leave, 403, "Insufficient permissions", "org:write");
    expect(get(&bob.browser, MEMBERS).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn a_key_s_use_is_known_and_costs_no_write() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let (id, secret) = key(&ada.browser, json!({ "name": "busy" })).await;
    let busy = at.client().bearer(&secret);
    let last = async || {
        let list = expect(get(&ada.browser, KEYS).await, 200);
        let item = list["items"].as_array().unwrap().iter().find(|item| item["id"] == id.as_str()).cloned();
        item.unwrap()["lastUsedAt"].as_str().map(str::to_owned)
    };
    assert_eq!(last().await, None);
    let operations = async || at.operator(Request::Status).await["store"]["operations"].as_u64().unwrap();
    let before = operations().await;
    let mut used = Vec::new();
    for _ in 0..3 {
        for _ in 0..100 {
            expect(get(&busy, ME).await, 200);
        }
        used.push(last().await.unwrap());
        at.clock.advance(Duration::from_secs(1));
    }
    assert!(used.is_sorted() && used[0] < used[2], "{used:?}");
    // A box looks after itself now and then; three hundred uses would be three hundred operations.
    let written = operations().await - before;
    assert!(written < 150, "{written} write operations for 300 requests");
    at.stop().await;
}
