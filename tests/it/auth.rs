//! Accounts over HTTP: register, log in, refresh, log out, verify, reset a password.

use crate::harness::Request;
use crate::harness::{Appliance, PASSWORD, expect, get, post, refused, text};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const REGISTER: &str = "/api/v1/auth/register"; // register
const LOGIN: &str = "/api/v1/auth/login"; // login
const REFRESH: &str = "/api/v1/auth/refresh"; // refreshTokens
const LOGOUT: &str = "/api/v1/auth/logout"; // logout
const VERIFY: &str = "/api/v1/auth/verify-email"; // verifyEmail
const RESEND: &str = "/api/v1/auth/resend-verification"; // resendVerification
const FORGOT: &str = "/api/v1/auth/forgot-password"; // forgotPassword
const RESET: &str = "/api/v1/auth/reset-password"; // resetPassword
const ME: &str = "/api/v1/auth/me"; // getMe

fn ada() -> Value {
    json!({ "email": " Ada@Example.com ", "password": PASSWORD, "name": "Ada" })
}

async fn log_in(client: &Client, email: &str, password: &str) -> Reply {
    post(client, LOGIN, &json!({ "email": email, "password": password })).await
}

async fn refresh(client: &Client, token: &str) -> Reply {
    post(client, REFRESH, &json!({ "refreshToken": token })).await
}

/// The verification token in the newest message that the operator reads.
async fn mailed_token(at: &Appliance) -> String {
    at.mailed_token("glv_").await
}

#[tokio::test]
async fn registering_answers_like_a_login() {
    let at = Appliance::start().await;
    let anybody = at.client();
    let made = expect(post(&anybody, REGISTER, &ada()).await, 201);
    let user = &made["user"];
    assert_eq!((text(user, "email"), text(user, "name")), ("ada@example.com", "Ada"));
    for null in ["emailVerifiedAt", "orgId", "orgName"] {
        assert!(user.as_object().unwrap().contains_key(null) && user[null].is_null(), "{null} in {user}");
    }
    assert_eq!((&made["permissions"], &made["expiresIn"]), (&json!([]), &json!(900)));

    let login = expect(log_in(&anybody, "ADA@example.com", PASSWORD).await, 200);
    assert_eq!(login["user"], made["user"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&login), keys(&made));
    let me = expect(get(&anybody.bearer(text(&login, "accessToken")), ME).await, 200);
    assert_eq!(me["user"], made["user"]);
    assert!(me["role"].is_null() && me["organization"].is_null());
    assert_eq!((text(&me, "authMethod"), &me["permissions"]), ("jwt", &json!([])));
    at.stop().await;
}

#[tokio::test]
async fn bad_registrations_are_named() {
    let at = Appliance::start().await;
    let anybody = at.client();
    for (body, part) in [
        (json!({}), "email: is required"),
        (json!({ "email": "ada@example.com", "name": "Ada" }), "password: is required"),
        (json!({ "email": 7, "password": PASSWORD, "name": "Ada" }), "email: must be a string"),
        (json!({ "email": "ada", "password": PASSWORD, "name": "Ada" }), "email: "),
        (
            json!({ "email": "ada@example.com", "password": "short", "name": "Ada" }),
            "password: must have at least 12",
        ),
        (json!({ "email": "ada@example.com", "password": "password1234", "name": "Ada" }), "most common"),
        (
            json!({ "email": "ada@example.com", "password": "ada@example.com", "name": "Ada" }),
            "email address",
        ),
        (json!({ "email": "ada@example.com", "password": PASSWORD, "name": "  " }), "name: "),
    ] {
        refused(&post(&anybody, REGISTER, &body).await, 400, "Validation failed", part);
    }
    expect(post(&anybody, REGISTER, &ada()).await, 201);
    let taken = post(&anybody, REGISTER, &ada()).await;
    refused(&taken, 409, "Email address is already registered", "");
    at.stop().await;
}

#[tokio::test]
async fn a_closed_box_says_so() {
    for (mode, part) in [("closed", "no new accounts"), ("invite", "by invitation")] {
        let at = Appliance::start_with(&[("AUTH__REGISTRATION", mode)]).await;
        refused(&post(&at.client(), REGISTER, &ada()).await, 403, "Registration is closed", part);
        at.stop().await;
    }
}

#[tokio::test]
async fn an_unknown_address_and_a_wrong_password_answer_alike() {
    let at = Appliance::start().await;
    let anybody = at.client().header("x-request-id", "same");
    expect(post(&anybody, REGISTER, &ada()).await, 201);
    let wrong = log_in(&anybody, "ada@example.com", "not the passphrase").await;
    let unknown = log_in(&anybody, "eve@example.com", "not the passphrase").await;
    refused(&wrong, 401, "Invalid email or password", "");
    assert_eq!((wrong.status, wrong.text()), (unknown.status, unknown.text()));
    refused(&log_in(&anybody, "ada", PASSWORD).await, 400, "Validation failed", "email: ");
    refused(
        &post(&anybody, LOGIN, &json!({ "email": "a@b.de" })).await,
        400,
        "Validation failed",
        "password",
    );
    at.stop().await;
}

#[tokio::test]
async fn failed_logins_are_limited_by_account_and_by_address_over_a_restart() {
    let mut at = Appliance::start_with(&[("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")]).await;
    expect(post(&at.client(), REGISTER, &ada()).await, 201);
    let from = |at: &Appliance, ip: &str| at.client().header("x-forwarded-for", ip);
    for n in 0..10 {
        let client = from(&at, &format!("198.51.100.{n}"));
        expect(log_in(&client, "ada@example.com", "not the passphrase").await, 401);
    }
    at.restart().await;
    let limited = log_in(&from(&at, "203.0.113.1"), "ada@example.com", PASSWORD).await;
    refused(&limited, 429, "Too many failed logins", "15 minutes");
    let wait: u64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=900).contains(&wait), "{wait}");

    for n in 0..10 {
        let email = format!("nobody{n}@example.com");
        expect(log_in(&from(&at, "203.0.113.2"), &email, "not the passphrase").await, 401);
    }
    expect(log_in(&from(&at, "203.0.113.2"), "eve@example.com", "not the passphrase").await, 429);
    expect(log_in(&from(&at, "203.0.113.3"), "eve@example.com", "not the passphrase").await, 401);
    at.clock.advance(Duration::from_secs(15 * 60));
    expect(log_in(&from(&at, "203.0.113.2"), "ada@example.com", PASSWORD).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn access_tokens_end_after_fifteen_minutes_and_refresh_tokens_rotate() {
    let at = Appliance::start().await;
    let anybody = at.client();
    let first = expect(post(&anybody, REGISTER, &ada()).await, 201);
    at.clock.advance(Duration::from_secs(15 * 60));
    let late = get(&anybody.bearer(text(&first, "accessToken")), ME).await;
    refused(&late, 401, "Invalid authentication token", "expired");

    let second = expect(refresh(&anybody, text(&first, "refreshToken")).await, 200);
    assert_eq!(second.as_object().unwrap().len(), 3, "accessToken, refreshToken, expiresIn: {second}");
    assert_eq!(second["expiresIn"], 900);
    expect(get(&anybody.bearer(text(&second, "accessToken")), ME).await, 200);
    let again = refresh(&anybody, text(&first, "refreshToken")).await;
    refused(&again, 401, "Invalid refresh token", "");
    let family = refresh(&anybody, text(&second, "refreshToken")).await;
    refused(&family, 401, "Invalid refresh token", "");

    let login = expect(log_in(&anybody, "ada@example.com", PASSWORD).await, 200);
    at.clock.advance(Duration::from_secs(7 * 24 * 3600));
    expect(refresh(&anybody, text(&login, "refreshToken")).await, 401);
    expect(refresh(&anybody, "nonsense").await, 401);
    refused(
        &post(&anybody, REFRESH, &json!({})).await,
        400,
        "Validation failed",
        "refreshToken: is required",
    );
    at.stop().await;
}

#[tokio::test]
async fn logging_out_ends_the_refresh_token() {
    let at = Appliance::start().await;
    let anybody = at.client();
    let login = expect(post(&anybody, REGISTER, &ada()).await, 201);
    let token = json!({ "refreshToken": login["refreshToken"] });
    for _ in 0..2 {
        assert!(expect(post(&anybody, LOGOUT, &token).await, 200)["message"].is_string());
    }
    expect(post(&anybody, REFRESH, &token).await, 401);
    expect(post(&anybody, LOGOUT, &json!({ "refreshToken": "unknown" })).await, 200);
    refused(
        &post(&anybody, LOGOUT, &json!({ "refreshToken": [] })).await,
        400,
        "Validation failed",
        "refreshToken",
    );
    at.stop().await;
}

#[tokio::test]
async fn only_the_latest_verification_message_works_and_once() {
    let at = Appliance::start().await;
    let anybody = at.client();
    let login = expect(post(&anybody, REGISTER, &ada()).await, 201);
    let ada = anybody.bearer(text(&login, "accessToken"));
    let first = mailed_token(&at).await;
    assert!(expect(post(&ada, RESEND, &json!({})).await, 200)["message"].is_string());
    let second = mailed_token(&at).await;
    let verify = async |token: &str| post(&anybody, VERIFY, &json!({ "token": token })).await;
    refused(&verify(&first).await, 400, "Validation failed", "token: ");
    assert!(expect(verify(&second).await, 200)["message"].is_string());
    refused(&verify(&second).await, 400, "Validation failed", "token: ");
    refused(&post(&anybody, VERIFY, &json!({})).await, 400, "Validation failed", "token: is required");
    let me = expect(get(&ada, ME).await, 200);
    assert!(text(&me["user"], "emailVerifiedAt").ends_with('Z'), "{me}");
    refused(&post(&ada, RESEND, &json!({})).await, 400, "Email address is already verified", "");

    let eve = json!({ "email": "eve@example.com", "password": PASSWORD, "name": "Eve" });
    let login = expect(post(&anybody, REGISTER, &eve).await, 201);
    let eve = anybody.bearer(text(&login, "accessToken"));
    for _ in 0..3 {
        expect(post(&eve, RESEND, &json!({})).await, 200);
    }
    let last = mailed_token(&at).await;
    let flood = post(&eve, RESEND, &json!({})).await;
    refused(&flood, 429, "Too many verification messages", "15 minutes");
    assert!((1..=900).contains(&flood.header("retry-after").parse::<u64>().unwrap()));
    assert_eq!(mailed_token(&at).await, last, "what is refused sends nothing and ends nothing");
    expect(verify(&last).await, 200);
    refused(&post(&anybody, RESEND, &json!({})).await, 401, "Authentication required", "Bearer");
    at.stop().await;
}

#[tokio::test]
async fn a_verification_token_ends_after_a_day() {
    let at = Appliance::start().await;
    expect(post(&at.client(), REGISTER, &ada()).await, 201);
    let token = mailed_token(&at).await;
    at.clock.advance(Duration::from_secs(24 * 3600));
    expect(post(&at.client(), VERIFY, &json!({ "token": token })).await, 400);
    at.stop().await;
}

#[tokio::test]
async fn a_credential_that_is_no_good_is_a_flat_401() {
    let at = Appliance::start().await;
    let anybody = at.client();
    let login = expect(post(&anybody, REGISTER, &ada()).await, 201);
    let token = text(&login, "accessToken");
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
    // {"alg":"none","typ":"at+jwt"} and {"alg":"HS512","typ":"at+jwt"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0";
    let hs512 = "eyJhbGciOiJIUzUxMiIsInR5cCI6ImF0K2p3dCJ9";
    for bad in [
        format!("{none}.{payload}."),
        format!("{none}.{payload}.{signature}"),
        format!("{hs512}.{payload}.{signature}"),
        format!("{header}.{payload}."),
        format!("{header}.{payload}.{}", signature.chars().rev().collect::<String>()),
        text(&login, "refreshToken").to_owned(),
        "glk_0000000000000000000000_000000".to_owned(),
        "x".to_owned(),
    ] {
        let reply = get(&anybody.bearer(&bad), ME).await;
        assert_eq!(reply.status.as_u16(), 401, "{bad}");
        assert!(reply.json["error"].is_string(), "{}", reply.text());
    }
    refused(&get(&anybody, ME).await, 401, "Authentication required", "");
    refused(
        &get(&anybody.header("authorization", "Basic eA=="), ME).await,
        401,
        "Authentication required",
        "",
    );
    at.stop().await;
}

#[tokio::test]
async fn sessions_survive_a_restart() {
    let mut at = Appliance::start().await;
    let login = expect(post(&at.client(), REGISTER, &ada()).await, 201);
    at.restart().await;
    let ada = at.client().bearer(text(&login, "accessToken"));
    expect(get(&ada, ME).await, 200);
    expect(refresh(&at.client(), text(&login, "refreshToken")).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn a_forgotten_password_is_replaced_and_every_session_ends() {
    let at = Appliance::start().await;
    let anybody = at.client();
    let first = expect(post(&anybody, REGISTER, &ada()).await, 201);
    let second = expect(log_in(&anybody, "ada@example.com", PASSWORD).await, 200);
    assert!(
        expect(post(&anybody, FORGOT, &json!({ "email": "ADA@example.com" })).await, 200)["message"]
            .is_string()
    );
    let token = at.mailed_token("glp_").await;
    let reset = async |token: &str, password: &str| {
        post(&anybody, RESET, &json!({ "token": token, "password": password })).await
    };
    refused(&reset(&token, "short").await, 400, "Validation failed", "password: must have at least 12");
    refused(&reset("glp_unknown", "another long passphrase").await, 400, "Validation failed", "token: ");
    assert!(expect(reset(&token, "another long passphrase").await, 200)["message"].is_string());
    refused(&reset(&token, "another long passphrase").await, 400, "Validation failed", "token: ");

    for old in [&first, &second] {
        let late = get(&anybody.bearer(text(old, "accessToken")), ME).await;
        refused(&late, 401, "Invalid authentication token", "session has ended");
        expect(refresh(&anybody, text(old, "refreshToken")).await, 401);
    }
    expect(log_in(&anybody, "ada@example.com", PASSWORD).await, 401);
    let fresh = expect(log_in(&anybody, "ada@example.com", "another long passphrase").await, 200);
    expect(get(&anybody.bearer(text(&fresh, "accessToken")), ME).await, 200);
    at.stop().await;
}

#[tokio::test]
async fn asking_for_a_reset_does_not_tell_who_has_an_account() {
    let at = Appliance::start().await;
    let anybody = at.client().header("x-request-id", "same");
    expect(post(&anybody, REGISTER, &ada()).await, 201);
    let known = post(&anybody, FORGOT, &json!({ "email": "ada@example.com" })).await;
    let unknown = post(&anybody, FORGOT, &json!({ "email": "eve@example.com" })).await;
    assert_eq!((known.status.as_u16(), known.text()), (200, unknown.text()));
    refused(&post(&anybody, FORGOT, &json!({ "email": "ada" })).await, 400, "Validation failed", "email: ");
    refused(&post(&anybody, RESET, &json!({})).await, 400, "Validation failed", "token: is required");
    let outbox = at.operator(Request::Outbox { limit: 10 }).await;
    assert!(outbox.as_array().unwrap().iter().all(|mail| mail["to"] == "ada@example.com"), "{outbox}");
    at.stop().await;
}

#[tokio::test]
async fn a_reset_token_ends_after_an_hour_and_keeps_over_a_restart_until_then() {
    let mut at = Appliance::start().await;
    expect(post(&at.client(), REGISTER, &ada()).await, 201);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        expect(post(&at.client(), FORGOT, &json!({ "email": "ada@example.com" })).await, 200);
        tokens.push(at.mailed_token("glp_").await);
    }
    at.restart().await;
    let reset = |n: usize| json!({ "token": tokens[n], "password": "another long passphrase" });
    // The earlier message is as good as the later one, and ends it.
    expect(post(&at.client(), RESET, &reset(0)).await, 200);
    expect(post(&at.client(), RESET, &reset(1)).await, 400);
    expect(post(&at.client(), FORGOT, &json!({ "email": "ada@example.com" })).await, 200);
    let late = at.mailed_token("glp_").await;
    at.clock.advance(Duration::from_secs(3600));
    let late = json!({ "token": late, "password": "yet another passphrase" });
    refused(&post(&at.client(), RESET, &late).await, 400, "Validation failed", "token: ");
    at.stop().await;
}
