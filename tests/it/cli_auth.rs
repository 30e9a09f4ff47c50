//! The device flow over HTTP: start, look, approve, poll.

use crate::harness::{Appliance, Member, PASSWORD, expect, get, post, refused, text};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const START: &str = "/api/v1/cli-auth/start"; // startCliAuth
const INFO: &str = "/api/v1/cli-auth/info"; // getCliAuthInfo
const APPROVE: &str = "/api/v1/cli-auth/approve"; // approveCliAuth
const POLL: &str = "/api/v1/cli-auth/poll"; // pollCliAuth

async fn start(at: &Appliance) -> Value {
    expect(post(&at.client(), START, &json!({ "hostname": "laptop.example" })).await, 200)
}

async fn approve(client: &Client, code: &str) -> Reply {
    post(client, APPROVE, &json!({ "user_code": code })).await
}

async fn poll(at: &Appliance, started: &Value) -> Reply {
    post(&at.client(), POLL, &json!({ "device_code": started["device_code"] })).await
}

async fn status(member: &Member, started: &Value) -> String {
    let path = format!("{INFO}?user_code={}", text(started, "user_code"));
    text(&expect(get(&member.browser, &path).await, 200), "status").to_owned()
}

async fn keys(member: &Member) -> usize {
    let page = expect(get(&member.browser, "/api/v1/api-keys").await, 200);
    page["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_command_line_gets_a_key_once() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let started = start(&at).await;
    assert_eq!((&started["expires_in"], &started["interval"]), (&json!(600), &json!(5)));
    let code = text(&started, "user_code");
    assert!(code.len() == 9 && code.chars().all(|c| "BCDFGHJKLMNPQRSTVWXZ-".contains(c)), "{code}");
    let complete = text(&started, "verification_uri_complete");
    assert_eq!(complete, format!("{}?user_code={code}", text(&started, "verification_uri")));
    let page = get(&at.client(), complete.strip_prefix(at.app().url()).unwrap()).await;
    assert!(page.status == 200 && page.text().contains("Approve a command line"), "the page exists");

    let pending = poll(&at, &started).await;
    assert_eq!(pending.header("retry-after"), "5");
    assert_eq!(expect(pending, 202), json!({ "status": "pending", "interval": 5 }));
    let shown = expect(get(&owner.browser, &format!("{INFO}?user_code={}", code.to_lowercase())).await, 200);
    assert_eq!((text(&shown, "hostname"), text(&shown, "status")), ("laptop.example", "pending"));
    assert!(text(&shown, "expires_at").ends_with('Z'));

    let before = keys(&owner).await;
    let approved = expect(approve(&owner.browser, code).await, 200);
    assert_eq!(approved, json!({ "ok": true, "hostname": "laptop.example" }));
    assert_eq!((keys(&owner).await, status(&owner, &started).await.as_str()), (before + 1, "approved"));

    let fast = poll(&at, &started).await;
    refused(&fast, 429, "Polled too fast", "interval");
    assert!((1..=5).contains(&fast.header("retry-after").parse::<u32>().unwrap()));
    at.clock.advance(Duration::from_secs(5));
    let delivered = expect(poll(&at, &started).await, 200);
    assert_eq!((text(&delivered, "status"), text(&delivered, "org_name")), ("approved", "ada"));
    assert_eq!(text(&delivered, "org_id"), owner.org_id);
    let cli = at.client().bearer(text(&delivered, "api_key"));
    let me = expect(get(&cli, "/api/v1/auth/me").await, 200);
    assert_eq!((text(&me, "authMethod"), text(&me["user"], "id")), ("api_key", owner.user_id.as_str()));
    let listed = expect(get(&owner.browser, "/api/v1/api-keys").await, 200);
    assert_eq!(listed["items"][0]["name"], "CLI on laptop.example");

    at.clock.advance(Duration::from_secs(5));
    refused(&poll(&at, &started).await, 410, "Code already used", "cli-auth/start");
    assert_eq!(status(&owner, &started).await, "consumed");
    refused(&approve(&owner.browser, code).await, 410, "Code already used", "");
    at.stop().await;
}

#[tokio::test]
async fn a_code_ends_after_ten_minutes() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let (pending, approved) = (start(&at).await, start(&at).await);
    expect(approve(&owner.browser, text(&approved, "user_code")).await, 200);
    at.clock.advance(Duration::from_secs(600));
    let credentials = json!({ "email": owner.email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &credentials).await, 200);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let before = keys(&owner).await;
    for started in [&pending, &approved] {
        refused(&poll(&at, started).await, 410, "Code expired", "cli-auth/start");
        assert_eq!(status(&owner, started).await, "expired");
        refused(&approve(&browser, text(started, "user_code")).await, 410, "Code expired", "");
    }
    assert_eq!(keys(&owner).await, before, "who fails the check makes no key");
    at.stop().await;
}

#[tokio::test]
async fn codes_and_approvals_survive_a_restart() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    let started = start(&at).await;
    expect(approve(&owner.browser, text(&started, "user_code")).await, 200);
    at.restart().await;
    let delivered = expect(poll(&at, &started).await, 200);
    expect(get(&at.client().bearer(text(&delivered, "api_key")), "/api/v1/orgs/current").await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_approvals_one_wins_and_every_other_is_a_410() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let started = start(&at).await;
    let before = keys(&owner).await;
    let tries = (0..8).map(|_| approve(&owner.browser, text(&started, "user_code")));
    let mut statuses: Vec<_> =
        futures::future::join_all(tries).await.into_iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200], vec![410; 7]].concat());
    assert!((before + 1..=before + 8).contains(&keys(&owner).await), "a key that lost the race is kept");
    expect(poll(&at, &started).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn who_may_approve_and_what_is_unknown() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let started = start(&at).await;
    let code = text(&started, "user_code");
    refused(&approve(&owner.api, code).await, 403, "Insufficient permissions", "API key");
    let path = format!("{INFO}?user_code={code}");
    refused(&get(&owner.api, &path).await, 403, "Insufficient permissions", "API key");
    refused(&get(&at.client(), &path).await, 401, "Authentication required", "");
    refused(&approve(&at.client(), code).await, 401, "Authentication required", "");

    let person = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let without = at.client().bearer(text(&login, "accessToken"));
    refused(&approve(&without, code).await, 403, "No organization exists for this user", "");

    for unknown in ["BCDF-GHJK", "nonsense", "BCDF-GHJKL"] {
        refused(&approve(&owner.browser, unknown).await, 404, "Device code not found", "");
        let reply = get(&owner.browser, &format!("{INFO}?user_code={unknown}")).await;
        refused(&reply, 404, "Device code not found", "");
    }
    let reply = post(&at.client(), POLL, &json!({ "device_code": "gld_unknown" })).await;
    refused(&reply, 404, "Device code not found", "");
    refused(&get(&owner.browser, INFO).await, 400, "Validation failed", "user_code");
    for (path, field) in [(START, "hostname"), (POLL, "device_code")] {
        let reply = post(&at.client(), path, &json!({})).await;
        refused(&reply, 400, "Validation failed", &format!("{field}: is required"));
    }
    refused(&post(&owner.browser, APPROVE, &json!({})).await, 400, "Validation failed", "user_code: ");
    let empty = post(&at.client(), START, &json!({ "hostname": " " })).await;
    refused(&empty, 400, "Validation failed", "hostname: ");
    assert_eq!(status(&owner, &started).await, "pending", "nothing of this used the code up");
    at.stop().await;
}
