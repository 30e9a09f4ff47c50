//! What is good once is good once also for callers who come at the same moment: exactly one wins.

use super::{statuses, together};
use crate::harness::{Appliance, PASSWORD, expect, get, invite, post, refused, text};
use serde_json::{Value, json};
use server::client::Client;

const ME: &str = "/api/v1/auth/me";
/// Callers at a time.
const CALLERS: usize = 8;

async fn register(at: &Appliance, name: &str) -> Value {
    let person = json!({ "email": format!("{name}@example.com"), "password": PASSWORD, "name": name });
    expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201)
}

async fn posts(client: &Client, path: &str, body: &Value) -> Vec<server::client::Reply> {
    together((0..CALLERS).map(|_| post(client, path, body))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_token_and_then_its_whole_login_ends() {
    let at = Appliance::start().await;
    let login = register(&at, "ada").await;
    let other = json!({ "email": "ada@example.com", "password": PASSWORD });
    let other = expect(post(&at.client(), "/api/v1/auth/login", &other).await, 200);
    let body = json!({ "refreshToken": login["refreshToken"] });
    let replies = posts(&at.client(), "/api/v1/auth/refresh", &body).await;
    assert_eq!(statuses(&replies), [(200, 1), (401, CALLERS - 1)]);
    let winner = replies.into_iter().find(|reply| reply.status == 200).unwrap().json;
    let next = json!({ "refreshToken": winner["refreshToken"] });
    refused(&post(&at.client(), "/api/v1/auth/refresh", &next).await, 401, "Invalid refresh token", "");
    // What whoever came second may have got of it ends with it, and the person's other login goes on.
    let access = get(&at.client().bearer(text(&winner, "accessToken")), ME).await;
    refused(&access, 401, "Invalid authentication token", "session has ended");
    let body = json!({ "refreshToken": other["refreshToken"] });
    expect(post(&at.client(), "/api/v1/auth/refresh", &body).await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_token() {
    let at = Appliance::start().await;
    register(&at, "ada").await;
    let body = json!({ "token": at.mailed_token("glv_").await });
    let replies = posts(&at.client(), "/api/v1/auth/verify-email", &body).await;
    assert_eq!(statuses(&replies), [(200, 1), (400, CALLERS - 1)]);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_token_and_the_winner_s_password_is_the_one_that_holds() {
    let at = Appliance::start().await;
    register(&at, "ada").await;
    expect(
        post(&at.client(), "/api/v1/auth/forgot-password", &json!({ "email": "ada@example.com" })).await,
        200,
    );
    let token = at.mailed_token("glp_").await;
    let passwords: Vec<_> = (0..4).map(|n| format!("lantern number {n} walks")).collect();
    let bodies: Vec<_> =
        passwords.iter().map(|password| json!({ "token": token, "password": password })).collect();
    let client = at.client();
    let replies =
        together(bodies.iter().map(|body| post(&client, "/api/v1/auth/reset-password", body))).await;
    assert_eq!(statuses(&replies), [(200, 1), (400, 3)]);
    for (password, reply) in passwords.iter().zip(&replies) {
        let credentials = json!({ "email": "ada@example.com", "password": password });
        let login = post(&at.client(), "/api/v1/auth/login", &credentials).await;
        assert_eq!(login.status == 200, reply.status == 200, "{}", login.text());
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invitation() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let token = invite(&at, &owner.browser, "eve@example.com", "editor").await;
    let eve = at.client().bearer(text(&register(&at, "eve").await, "accessToken"));
    let replies = posts(&eve, "/api/v1/invites/accept", &json!({ "token": token })).await;
    assert_eq!(statuses(&replies), [(200, 1), (409, CALLERS - 1)]);
    assert_eq!(expect(get(&eve, ME).await, 200)["role"], "editor");
    let members = expect(get(&owner.browser, "/api/v1/orgs/current/members").await, 200);
    assert_eq!(members["items"].as_array().unwrap().len(), 2);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_code_is_delivered() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let started =
        expect(post(&at.client(), "/api/v1/cli-auth/start", &json!({ "hostname": "laptop" })).await, 200);
    let code = json!({ "user_code": started["user_code"] });
    expect(post(&owner.browser, "/api/v1/cli-auth/approve", &code).await, 200);
    let device = json!({ "device_code": started["device_code"] });
    let replies = posts(&at.client(), "/api/v1/cli-auth/poll", &device).await;
    assert_eq!(statuses(&replies), [(200, 1), (410, CALLERS - 1)]);
    let winner = replies.into_iter().find(|reply| reply.status == 200).unwrap().json;
    expect(get(&at.client().bearer(text(&winner, "api_key")), ME).await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_approvals_that_lost_are_kept_and_can_be_deleted() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let started =
        expect(post(&at.client(), "/api/v1/cli-auth/start", &json!({ "hostname": "laptop" })).await, 200);
    let code = json!({ "user_code": started["user_code"] });
    let structured = owner.browser.header("accept", "application/vnd.service.v1+json");
    let replies = posts(&structured, "/api/v1/cli-auth/approve", &code).await;
    assert_eq!(statuses(&replies), [(200, 1), (410, CALLERS - 1)]);
    for lost in replies.iter().filter(|reply| reply.status == 410) {
        assert_eq!(lost.json["error"]["code"], "auth_code_consumed", "{}", lost.text());
    }
    let device = json!({ "device_code": started["device_code"] });
    let polled = expect(post(&at.client(), "/api/v1/cli-auth/poll", &device).await, 200);
    let cli = at.client().bearer(text(&polled, "api_key"));
    let list = expect(get(&owner.browser, "/api/v1/api-keys").await, 200);
    let keys: Vec<_> =
        list["items"].as_array().unwrap().iter().filter(|key| key["name"] == "CLI on laptop").collect();
    let prefix = &text(&polled, "api_key")[..8];
    assert!(keys.iter().any(|key| key["prefix"] == prefix), "the winner's key is in the list: {list}");
    for key in &keys {
        expect(get(&cli, ME).await, 200);
        if key["prefix"] != prefix {
            let path = format!("/api/v1/api-keys/{}", text(key, "id"));
            assert_eq!(owner.browser.delete(&path).await.unwrap().status, 204);
        }
    }
    expect(get(&cli, ME).await, 200);
    at.stop().await;
}
