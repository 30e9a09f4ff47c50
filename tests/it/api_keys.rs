//! API keys over HTTP.

use crate::harness::{Appliance, Member, expect, get, join, post, refused, text};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const KEYS: &str = "/api/v1/api-keys"; // listApiKeys, createApiKey
const ME: &str = "/api/v1/auth/me";

/// deleteApiKey
async fn delete(client: &Client, id: &str) -> u16 {
    client.delete(&format!("{KEYS}/{id}")).await.unwrap().status.as_u16()
}

async fn key(owner: &Member, body: Value) -> (Value, String) {
    let made = expect(post(&owner.browser, KEYS, &body).await, 201);
    (made["apiKey"].clone(), text(&made, "secret").to_owned())
}

#[tokio::test]
async fn a_key_is_shown_once_and_speaks_for_its_maker() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let (made, secret) =
        key(&owner, json!({ "name": " CI ", "permissions": ["jobs:read", "jobs:write"] })).await;
    assert_eq!((text(&made, "name"), text(&made, "prefix")), ("CI", &secret[..8]));
    assert_eq!(made["permissions"], json!(["jobs:read", "jobs:write"]));
    assert_eq!(text(&made, "createdBy"), owner.user_id);
    assert!(made["lastUsedAt"].is_null() && made["expiresAt"].is_null());

    let api = at.client().bearer(&secret);
    let me = expect(get(&api, ME).await, 200);
    assert_eq!((text(&me, "authMethod"), text(&me["user"], "id")), ("api_key", owner.user_id.as_str()));
    assert_eq!(me["permissions"], made["permissions"]);
    expect(get(&api, "/api/v1/jobs").await, 200);
    refused(&get(&api, "/api/v1/urls").await, 403, "Insufficient permissions", "urls:read");
    refused(&get(&api, KEYS).await, 403, "Insufficient permissions", "org:read");

    let list = get(&owner.browser, KEYS).await;
    assert!(!list.text().contains(&secret), "a list shows a secret");
    let list = expect(list, 200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "the harness's own and this one");
    assert_eq!(items[0]["id"], made["id"], "newest first");
    assert!(text(&items[0], "lastUsedAt").ends_with('Z'), "the use is known before it is written");
    let page = expect(get(&owner.browser, &format!("{KEYS}?limit=1")).await, 200);
    let next = format!("{KEYS}?limit=1&cursor={}", text(&page, "nextCursor"));
    assert_eq!(expect(get(&owner.browser, &next).await, 200)["items"][0]["id"], items[1]["id"]);
    at.stop().await;
}

#[tokio::test]
async fn the_last_use_survives_a_restart() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    expect(get(&owner.api, ME).await, 200);
    let last = |list: Value| text(&list["items"][0], "lastUsedAt").to_owned();
    let before = last(expect(get(&owner.browser, KEYS).await, 200));
    at.restart().await;
    let credentials = json!({ "email": owner.email, "password": crate::harness::PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
    let browser = at.client().bearer(text(&login, "accessToken"));
    assert_eq!(last(expect(get(&browser, KEYS).await, 200)), before);
    at.stop().await;
}

#[tokio::test]
async fn a_deleted_or_expired_key_ends_at_once() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let (made, secret) = key(&owner, json!({ "name": "gone" })).await;
    let api = at.client().bearer(&secret);
    expect(get(&api, ME).await, 200);
    assert_eq!(delete(&owner.browser, text(&made, "id")).await, 204);
    refused(&get(&api, ME).await, 401, "Invalid API key", "");
    assert_eq!(delete(&owner.browser, text(&made, "id")).await, 404);

    let end = at.clock.now().after(Duration::from_secs(60)).to_string();
    let (made, secret) = key(&owner, json!({ "name": "short", "expiresAt": end })).await;
    assert_eq!(text(&made, "expiresAt"), end);
    let api = at.client().bearer(&secret);
    expect(get(&api, ME).await, 200);
    at.clock.advance(Duration::from_secs(60));
    refused(&get(&api, ME).await, 401, "Invalid API key", "expired");
    let mistyped = format!("{}x", &secret[..secret.len() - 1]);
    refused(&get(&at.client().bearer(&mistyped), ME).await, 401, "Invalid API key", "");
    at.stop().await;
}

#[tokio::test]
async fn a_foreign_key_and_a_random_id_are_the_same_404() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let (made, secret) = key(&ada, json!({ "name": "hers" })).await;
    let same = eve.browser.header("x-request-id", "same");
    let foreign = same.delete(&format!("{KEYS}/{}", text(&made, "id"))).await.unwrap();
    let random = same.delete(&format!("{KEYS}/01900000-0000-7000-8000-000000000000")).await.unwrap();
    assert_eq!((foreign.status.as_u16(), foreign.text()), (404, random.text()));
    refused(&foreign, 404, "API key not found", "");
    expect(get(&at.client().bearer(&secret), ME).await, 200);
    let listed = get(&eve.browser, KEYS).await.text();
    assert!(!listed.contains(text(&made, "id")));
    at.stop().await;
}

#[tokio::test]
async fn bad_input_and_wrong_credentials() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    for (body, part) in [
        (json!({}), "name: is required"),
        (json!({ "name": "" }), "name: "),
        (json!({ "name": "x", "permissions": [] }), "permissions: "),
        (json!({ "name": "x", "permissions": ["jobs:read", "jobs:fly"] }), "permissions[1]: \"jobs:fly\""),
        (json!({ "name": "x", "permissions": "jobs:read" }), "permissions"),
        (json!({ "name": "x", "expiresAt": "2020-01-01T00:00:00Z" }), "expiresAt: must be in the future"),
        (json!({ "name": "x", "expiresAt": "tomorrow" }), "expiresAt: "),
    ] {
        refused(&post(&owner.browser, KEYS, &body).await, 400, "Validation failed", part);
    }
    // A key makes keys that allow no more than it does itself.
    let (_, secret) =
        key(&owner, json!({ "name": "maker", "permissions": ["org:write", "jobs:read"] })).await;
    let maker = at.client().bearer(&secret);
    let more = post(&maker, KEYS, &json!({ "name": "x", "permissions": ["urls:write"] })).await;
    refused(&more, 403, "Insufficient permissions", "urls:write");
    let all = expect(post(&maker, KEYS, &json!({ "name": "x" })).await, 201);
    assert_eq!(all["apiKey"]["permissions"], json!(["jobs:read", "org:write"]));

    let anybody = at.client();
    refused(&get(&anybody, KEYS).await, 401, "Authentication required", "");
    refused(&post(&anybody, KEYS, &json!({ "name": "x" })).await, 401, "Authentication required", "");
    assert_eq!(delete(&anybody, "01900000-0000-7000-8000-000000000000").await, 401);
    assert_eq!(delete(&owner.browser, "no-id").await, 404);
    at.stop().await;
}

/// A member who looks after no keys has some of their own, and never more than they may do themselves.
#[tokio::test]
async fn a_personal_key_is_its_maker_s_and_goes_as_they_do() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let vera = join(&at, &owner.browser, "vera", "viewer").await;
    let walt = join(&at, &owner.browser, "walt", "editor").await;
    let (_, theirs) = key(&owner, json!({ "name": "the organization's" })).await;
    refused(
        &post(&vera.browser, KEYS, &json!({ "name": "x" })).await,
        403,
        "Insufficient permissions",
        "org:write",
    );
    let personal = json!({ "name": "laptop", "kind": "personal" });
    let made = expect(post(&vera.browser, KEYS, &personal).await, 201);
    assert_eq!(
        (text(&made["apiKey"], "kind"), text(&made["apiKey"], "createdBy")),
        ("personal", vera.id.as_str())
    );
    let api = at.client().bearer(text(&made, "secret"));
    expect(get(&api, "/api/v1/jobs").await, 200);
    refused(
        &post(&api, "/api/v1/urls", &json!({ "urls": [] })).await,
        403,
        "Insufficient permissions",
        "urls:write",
    );
    // No key makes a personal one: it would outlive the key that it came from.
    let by_key = post(&at.client().bearer(&theirs), KEYS, &personal).await;
    refused(&by_key, 403, "Insufficient permissions", "signed in");
    let more = json!({ "name": "x", "kind": "personal", "permissions": ["jobs:write"] });
    refused(&post(&vera.browser, KEYS, &more).await, 403, "Insufficient permissions", "jobs:write");
    refused(
        &post(&vera.browser, KEYS, &json!({ "name": "x", "kind": "mine" })).await,
        400,
        "Validation failed",
        "kind",
    );

    // They see their own; another member sees none of it, and who looks after keys sees all.
    let names = |list: Value| {
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|key| text(key, "name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(expect(get(&vera.browser, KEYS).await, 200)), ["laptop"]);
    assert_eq!(names(expect(get(&walt.browser, KEYS).await, 200)), Vec::<String>::new());
    assert_eq!(names(expect(get(&owner.browser, KEYS).await, 200)).len(), 3);
    // So it is with ending them; and who may not see a key does not learn whether there is one.
    let id = text(&made["apiKey"], "id").to_owned();
    let same = walt.browser.header("x-request-id", "same");
    let foreign = same.delete(&format!("{KEYS}/{id}")).await.unwrap();
    let random = same.delete(&format!("{KEYS}/01900000-0000-7000-8000-000000000000")).await.unwrap();
    assert_eq!((foreign.status.as_u16(), foreign.text()), (403, random.text()));
    assert_eq!(delete(&vera.browser, &id).await, 204);
    refused(&get(&api, ME).await, 401, "Invalid API key", "");

    // What its maker may not do any more, it may not either, and with the membership it ends.
    let made = expect(post(&walt.browser, KEYS, &personal).await, 201);
    let api = at.client().bearer(text(&made, "secret"));
    refused(&post(&api, "/api/v1/urls", &json!({ "urls": [] })).await, 400, "Validation failed", "urls");
    let member = format!("/api/v1/orgs/current/members/{}", walt.id);
    expect(owner.browser.patch(&member, &json!({ "role": "viewer" })).await.unwrap(), 200);
    refused(
        &post(&api, "/api/v1/urls", &json!({ "urls": [] })).await,
        403,
        "Insufficient permissions",
        "urls:write",
    );
    for n in 1..20 {
        let one = json!({ "name": format!("key {n}"), "kind": "personal" });
        expect(post(&walt.browser, KEYS, &one).await, 201);
    }
    refused(&post(&walt.browser, KEYS, &personal).await, 409, "Conflict", "20 personal API keys");
    assert_eq!(owner.browser.delete(&member).await.unwrap().status, 204);
    refused(&get(&api, ME).await, 401, "Invalid API key", "");
    assert_eq!(names(expect(get(&owner.browser, KEYS).await, 200)).len(), 2);
    at.stop().await;
}
