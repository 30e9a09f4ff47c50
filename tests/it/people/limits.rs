//! The limits of what needs no credential: who they count, what they let through, and what they do not tell.

use super::{statuses, together};
use crate::harness::Request;
use crate::harness::{Appliance, PASSWORD, expect, get, post, refused, text};
use serde_json::json;
use server::client::{Client, Reply};
use std::time::Duration;

const LOGIN: &str = "/api/v1/auth/login";
const FORGOT: &str = "/api/v1/auth/forgot-password";
const START: &str = "/api/v1/cli-auth/start";

async fn register(at: &Appliance) {
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
}

async fn log_in(client: &Client, email: &str, password: &str) -> Reply {
    post(client, LOGIN, &json!({ "email": email, "password": password })).await
}

/// A client that claims to come from somewhere.
fn from(at: &Appliance, addresses: &str) -> Client {
    at.client().header("x-forwarded-for", addresses)
}

fn wait(reply: &Reply) -> u64 {
    reply.header("retry-after").parse().unwrap_or_else(|_| panic!("no Retry-After: {}", reply.text()))
}

#[tokio::test]
async fn a_forwarded_address_is_believed_from_a_trusted_proxy_only() {
    // Nobody is trusted: whatever a caller claims, the peer is counted.
    let at = Appliance::start().await;
    register(&at).await;
    for n in 0..10 {
        let client = from(&at, &format!("198.51.100.{n}"));
        expect(log_in(&client, &format!("nobody{n}@example.com"), "not the passphrase").await, 401);
    }
    let limited = log_in(&from(&at, "203.0.113.77"), "ada@example.com", PASSWORD).await;
    refused(&limited, 429, "Too many failed logins", "15 minutes");
    at.stop().await;

    // The proxy is trusted: what stands left of the address that it saw was written by the caller.
    let at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\", \"10.0.0.0/8\"]")]).await;
    register(&at).await;
    for n in 0..10 {
        let client = from(&at, &format!("198.51.100.{n}, 203.0.113.9, 10.0.0.{n}"));
        expect(log_in(&client, &format!("nobody{n}@example.com"), "not the passphrase").await, 401);
    }
    expect(log_in(&from(&at, "192.0.2.4, 203.0.113.9"), "ada@example.com", PASSWORD).await, 429);
    expect(log_in(&from(&at, "203.0.113.9, 203.0.113.10"), "ada@example.com", PASSWORD).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn a_locked_address_says_nothing_about_an_account() {
    let at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]).await;
    register(&at).await;
    let mut locked = Vec::new();
    for (n, email) in ["ada@example.com", "nobody@example.com"].into_iter().enumerate() {
        for try_ in 0..10 {
            let reply = log_in(&from(&at, &format!("198.51.{n}.{try_}")), email, "not the passphrase").await;
            refused(&reply, 401, "Invalid email or password", "");
        }
        let client = from(&at, "203.0.113.9").header("x-request-id", "same");
        locked.push(log_in(&client, email, PASSWORD).await);
    }
    assert_eq!((locked[0].status.as_u16(), locked[0].text()), (429, locked[1].text()));
    assert!(wait(&locked[0]).abs_diff(wait(&locked[1])) <= 60);
    at.stop().await;
}

#[tokio::test]
async fn only_failures_count_and_a_refused_try_does_not_prolong_the_wait() {
    let at = Appliance::start().await;
    register(&at).await;
    for _ in 0..12 {
        expect(log_in(&at.client(), "ada@example.com", PASSWORD).await, 200);
    }
    for _ in 0..10 {
        expect(log_in(&at.client(), "ada@example.com", "not the passphrase").await, 401);
    }
    let first = wait(&log_in(&at.client(), "ada@example.com", PASSWORD).await);
    assert!((600..=900).contains(&first), "{first}");
    at.clock.advance(Duration::from_secs(600));
    for _ in 0..5 {
        expect(log_in(&at.client(), "ada@example.com", PASSWORD).await, 429);
    }
    at.clock.advance(Duration::from_secs(300));
    expect(log_in(&at.client(), "ada@example.com", PASSWORD).await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_does_not_slip_past_the_limit() {
    let at = Appliance::start().await;
    register(&at).await;
    let client = at.client();
    // A machine that cannot check so many passwords at once says 503, which is no try.
    let client = &client;
    let replies = together((0..24).map(|_| async move {
        let mut reply = log_in(client, "ada@example.com", "not the passphrase").await;
        for _ in 0..100 {
            if reply.status != 503 {
                break;
            }
            reply = log_in(client, "ada@example.com", "not the passphrase").await;
        }
        reply
    }))
    .await;
    assert_eq!(statuses(&replies), [(401, 10), (429, 14)]);
    at.stop().await;
}

#[tokio::test]
async fn a_mailbox_gets_three_resets_and_a_network_asks_thirty_times() {
    let mut at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]).await;
    register(&at).await;
    let forgot = async |at: &Appliance, from_: &str, email: &str| {
        post(&from(at, from_), FORGOT, &json!({ "email": email })).await
    };
    for _ in 0..3 {
        expect(forgot(&at, "192.0.2.1", "ada@example.com").await, 200);
    }
    let third = at.mailed_token("glp_").await;
    let fourth = expect(forgot(&at, "192.0.2.2", "ada@example.com").await, 200);
    assert!(fourth["message"].is_string());
    assert_eq!(at.mailed_token("glp_").await, third, "the fourth sends nothing, and says nothing");
    for n in 3..30 {
        expect(forgot(&at, "192.0.2.1", &format!("nobody{n}@example.com")).await, 200);
    }
    at.restart().await;
    let limited = forgot(&at, "192.0.2.1", "ada@example.com").await;
    refused(&limited, 429, "Too many password resets", "15 minutes");
    assert!((1..=900).contains(&wait(&limited)));
    let body = json!({ "token": third, "password": "another long passphrase" });
    expect(post(&at.client(), "/api/v1/auth/reset-password", &body).await, 200);
    at.clock.advance(Duration::from_secs(15 * 60));
    expect(forgot(&at, "192.0.2.1", "ada@example.com").await, 200);
    assert_ne!(at.mailed_token("glp_").await, third);
    let outbox = at.operator(Request::Outbox { limit: 100 }).await;
    assert!(outbox.as_array().unwrap().iter().all(|mail| mail["to"] == "ada@example.com"), "{outbox}");
    at.stop().await;
}

#[tokio::test]
async fn a_stranger_locks_nobody_out_and_leaves_their_links_alone() {
    let mut at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]).await;
    let person = json!({ "email": "ada@example.com", "password": PASSWORD, "name": "Ada" });
    let home = from(&at, "198.51.100.7");
    let ada = expect(post(&home, "/api/v1/auth/register", &person).await, 201);
    let stranger = from(&at, "203.0.113.9");
    for _ in 0..10 {
        expect(log_in(&stranger, "ada@example.com", "not the passphrase").await, 401);
    }
    expect(log_in(&stranger, "ada@example.com", "not the passphrase").await, 429);
    at.restart().await;
    let home = from(&at, "198.51.100.7");
    let again = expect(log_in(&home, "ada@example.com", PASSWORD).await, 200);
    // Where she has never been she comes in with a link, and is at home then.
    let away = from(&at, "192.0.2.44");
    refused(
        &log_in(&away, "ada@example.com", PASSWORD).await,
        429,
        "Too many failed logins",
        "or set a new password by a link that POST /api/v1/auth/forgot-password sends",
    );
    expect(post(&away, FORGOT, &json!({ "email": "ada@example.com" })).await, 200);
    let own = at.mailed_token("glp_").await;
    for n in 0..12 {
        let from_ = from(&at, &format!("203.0.113.{n}"));
        expect(post(&from_, FORGOT, &json!({ "email": "ada@example.com" })).await, 200);
    }
    assert_ne!(at.mailed_token("glp_").await, own, "the test can fail");
    let body = json!({ "token": own, "password": "another long passphrase" });
    expect(post(&away, "/api/v1/auth/reset-password", &body).await, 200);
    for session in [&ada, &again] {
        let browser = at.client().bearer(text(session, "accessToken"));
        expect(get(&browser, "/api/v1/auth/me").await, 401);
    }
    for n in 0..10 {
        let from_ = from(&at, &format!("203.0.113.{n}"));
        log_in(&from_, "ada@example.com", "not the passphrase").await;
    }
    let session = expect(log_in(&away, "ada@example.com", "another long passphrase").await, 200);
    // Who is logged in goes on with what asks for the password, wherever they are.
    let train = from(&at, "192.0.2.99").bearer(text(&session, "accessToken"));
    let account = "/api/v1/account";
    let with = |password: &str| Some(json!({ "password": password }));
    let wrong = train.send(http::Method::DELETE, account, with("a wrong passphrase").as_ref()).await.unwrap();
    refused(&wrong, 403, "Wrong password", "");
    let gone = train.send(http::Method::DELETE, account, with("another long passphrase").as_ref()).await;
    expect(gone.unwrap(), 202);
    at.stop().await;
}

#[tokio::test]
async fn logging_out_ends_the_access_token_at_once() {
    let at = Appliance::start().await;
    register(&at).await;
    let here = expect(log_in(&at.client(), "ada@example.com", PASSWORD).await, 200);
    let there = expect(log_in(&at.client(), "ada@example.com", PASSWORD).await, 200);
    let me = async |login: &serde_json::Value| {
        get(&at.client().bearer(text(login, "accessToken")), "/api/v1/auth/me").await
    };
    expect(me(&here).await, 200);
    let token = json!({ "refreshToken": here["refreshToken"] });
    expect(post(&at.client(), "/api/v1/auth/logout", &token).await, 200);
    refused(&me(&here).await, 401, "Invalid authentication token", "session has ended");
    expect(me(&there).await, 200);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_has_a_hundred_device_codes_at_a_time() {
    let at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]).await;
    let here = from(&at, "192.0.2.1");
    let host = json!({ "hostname": "laptop" });
    let replies = together((0..120).map(|_| post(&here, START, &host))).await;
    assert_eq!(statuses(&replies), [(200, 100), (429, 20)]);
    let codes: std::collections::BTreeSet<_> = replies
        .iter()
        .filter(|reply| reply.status == 200)
        .map(|reply| text(&reply.json, "user_code"))
        .collect();
    assert_eq!(codes.len(), 100, "no two are the same");
    let limited = replies.iter().find(|reply| reply.status == 429).unwrap();
    refused(limited, 429, "Too many codes", "");
    assert!((1..=600).contains(&wait(limited)));
    expect(post(&from(&at, "192.0.2.2"), START, &host).await, 200);
    at.clock.advance(Duration::from_secs(600));
    expect(post(&here, START, &host).await, 200);
    at.stop().await;
}
