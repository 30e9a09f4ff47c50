//! Sessions of browsers: beginConsoleSession, endConsoleSession, and when the cookie counts at the API.

use crate::harness::{Appliance, PASSWORD, expect, get, post, refused};
use base::clock::Timestamp;
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const SESSION: &str = "/console/session";
const ME: &str = "/api/v1/auth/me";

/// A client as a page of this box is one: its origin, and the header that only its own scripts can set.
fn page(at: &Appliance) -> Client {
    at.client().header("origin", at.app().url()).header("x-gleaner-session", "1")
}

fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie");
    set.split(';').next().unwrap().to_owned()
}

async fn signed_in(at: &Appliance, email: &str) -> String {
    let shown = json!({ "email": email, "password": PASSWORD });
    let reply = post(&page(at), SESSION, &shown).await;
    assert_eq!(reply.status, 204, "{}", reply.text());
    let set = reply.header("set-cookie").to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/;", "Max-Age=604800"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure"), "the page came over plain HTTP: {set}");
    cookie(&reply)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_calls_the_api_and_ends() {
    let at = Appliance::start().await;
    let member = at.member("ada").await;
    let cookie = signed_in(&at, &member.email).await;
    let browser = page(&at).header("cookie", &cookie);
    let me = expect(get(&browser, ME).await, 200);
    assert_eq!((&me["user"]["email"], &me["authMethod"]), (&json!(member.email), &json!("jwt")));
    // What only a person may do, and what a key may not.
    let made = post(&browser, "/api/v1/api-keys", &json!({ "name": "own", "kind": "personal" })).await;
    expect(made, 201);
    let other = format!("theme=dark; {cookie}; b=2");
    expect(get(&page(&at).header("cookie", &other), ME).await, 200);
    // A second one in this browser ends the first; both tabs go on with the new one.
    let shown = json!({ "email": member.email, "password": PASSWORD });
    let again = post(&browser, SESSION, &shown).await;
    assert_eq!(again.status, 204);
    refused(&get(&browser, ME).await, 401, "Invalid authentication token", "ended");
    let browser = page(&at).header("cookie", &self::cookie(&again));
    expect(get(&browser, ME).await, 200);
    let ended = browser.delete(SESSION).await.unwrap();
    assert_eq!(ended.status, 204);
    assert!(ended.header("set-cookie").contains("Max-Age=0"), "{}", ended.header("set-cookie"));
    assert_eq!(get(&browser, ME).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cookie_alone_proves_nothing() {
    let at = Appliance::start().await;
    let member = at.member("bob").await;
    let cookie = signed_in(&at, &member.email).await;
    let with = |pairs: &[(&str, &str)]| {
        let bare = at.client().header("cookie", &cookie);
        pairs.iter().fold(bare, |client, (name, value)| client.header(name, value))
    };
    let (own, header) = (at.app().url().to_owned(), ("x-gleaner-session", "1"));
    // Reading: the header is what no other site can send.
    assert_eq!(get(&with(&[]), ME).await.status, 401, "no header");
    assert_eq!(get(&with(&[header]), ME).await.status, 200, "a page reads without an origin");
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(get(&with(&[header, (name, value)]), ME).await.status, 401, "{name}: {value}");
    }
    // Writing: the origin must be there, too.
    let tags = json!({ "urls": ["https://example.com/"] });
    let write =
        async |pairs: &[(&str, &str)]| post(&with(pairs), "/api/v1/urls", &tags).await.status.as_u16();
    assert_eq!(write(&[]).await, 401);
    assert_eq!(write(&[("origin", &own)]).await, 401, "no header");
    assert_eq!(write(&[header]).await, 401, "no origin");
    assert_eq!(write(&[header, ("origin", "http://127.0.0.1:1")]).await, 401, "another port");
    assert_eq!(write(&[header, ("origin", &own)]).await, 200);
    // Two cookies of the name: one of them was put there by somebody else.
    let doubled = page(&at).header("cookie", &format!("{cookie}; {cookie}x"));
    assert_eq!(get(&doubled, ME).await.status, 401);
    // Whoever stole a refresh token out of an answer has no bearer by it, and a bearer beside the cookie goes first.
    let secret = cookie.split_once('=').unwrap().1;
    assert_eq!(get(&at.client().bearer(secret), ME).await.status, 401);
    assert_eq!(get(&with(&[header]).bearer("nonsense"), ME).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_begun_by_pages_of_the_box_only() {
    let at = Appliance::start().await;
    let member = at.member("cy").await;
    let shown = json!({ "email": member.email, "password": PASSWORD });
    for client in [
        at.client(),
        at.client().header("x-gleaner-session", "1"),
        at.client().header("origin", at.app().url()),
        at.client().header("origin", "https://evil.example").header("x-gleaner-session", "1"),
    ] {
        let reply = post(&client, SESSION, &shown).await;
        assert_eq!(reply.status, 403, "{}", reply.text());
        assert_eq!(reply.header("set-cookie"), "");
        assert_eq!(client.delete(SESSION).await.unwrap().status, 403);
    }
    let wrong = json!({ "email": member.email, "password": "not the right passphrase" });
    assert_eq!(post(&page(&at), SESSION, &wrong).await.status, 401);
    for bad in [
        json!({}),
        json!({ "email": member.email }),
        json!({ "refreshToken": "x", "email": "a", "password": "b" }),
    ] {
        assert_eq!(post(&page(&at), SESSION, &bad).await.status, 400, "{bad}");
    }
    // A link that is good once: a refresh token becomes a session, and nothing else any more.
    let login = expect(post(&at.client(), "/api/v1/auth/login", &shown).await, 200);
    let token = json!({ "refreshToken": login["refreshToken"] });
    let reply = post(&page(&at), SESSION, &token).await;
    assert_eq!(reply.status, 204);
    expect(get(&page(&at).header("cookie", &cookie(&reply)), ME).await, 200);
    assert_eq!(post(&page(&at), SESSION, &token).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_with_its_time_and_sees_its_own_organization() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let url = json!({ "urls": ["https://example.com/of-ada"] });
    expect(post(&ada.api, "/api/v1/urls", &url).await, 200);
    let listed = expect(get(&ada.api, "/api/v1/urls").await, 200);
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let browser = page(&at).header("cookie", &signed_in(&at, &eve.email).await);
    let hers: Value = expect(get(&browser, "/api/v1/urls").await, 200);
    assert_eq!(hers["items"], json!([]));
    for (method, body) in
        [(Method::GET, None), (Method::DELETE, None), (Method::PATCH, Some(json!({ "tags": [] })))]
    {
        let reply = browser.send(method, &format!("/api/v1/urls/{id}"), body.as_ref()).await.unwrap();
        assert_eq!(reply.status, 404, "{}", reply.text());
    }
    let before: Timestamp = at.clock.now();
    at.clock.advance(Duration::from_secs(7 * 24 * 3_600 + 1));
    assert!(at.clock.now() > before);
    assert_eq!(get(&browser, ME).await.status, 401);
}
