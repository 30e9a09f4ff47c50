//! The way there and back belongs to one browser, once; and how a session that began that way ends.

use super::{ME, PLACE, arrive, begin, governed, page, person, session_in, sign_in, signed_in, turned_away};
use crate::harness::identity::{CLIENT, Identity, now};
use crate::harness::{Appliance, expect, get};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;
use url::Url;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_carries_what_the_answer_is_bound_to() {
    let provider = Identity::open().await;
    let more = [("SERVER__PUBLIC_URL", "https://box.example/tools"), ("OIDC__HIDE_PASSWORDS", "true")];
    let (at, _) = governed(&provider, &more).await;
    let about = expect(get(&at.client(), PLACE).await, 200);
    assert_eq!(about, json!({ "label": "Sign in with your company account", "hidesPasswords": true }));
    let begun = begin(&at, "/").await;
    let of = |name: &str| begun.url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    assert_eq!(begun.url.origin().ascii_serialization(), provider.issuer());
    assert_eq!(of("redirect_uri"), "https://box.example/tools/console/session/oidc/callback");
    assert_eq!(
        (of("response_type"), of("client_id"), of("code_challenge_method")),
        ("code".into(), CLIENT.into(), "S256".into())
    );
    assert_eq!(of("scope"), "openid profile email");
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(of(name).len(), 43, "{name}");
    }
    let reply = get(&at.client(), &format!("{PLACE}/begin")).await;
    let set = reply.header("set-cookie").to_owned();
    let parts = ["HttpOnly", "SameSite=Lax", "Secure", "Path=/tools/console/session/oidc;", "Max-Age=600"];
    for part in parts {
        assert!(set.contains(part), "{part}: {set}");
    }
    assert!(!set.contains(&of("state")) && reply.header("referrer-policy") == "no-referrer");
    // Whoever names another place comes back to the console.
    let elsewhere = begin(&at, "https%3A%2F%2Fevil.example%2F").await;
    let mut claims = person("ada", &["staff"]);
    claims["nonce"] = json!(elsewhere.nonce);
    provider.says(claims);
    let reply = arrive(&at, &elsewhere.cookie, &format!("code=c&state={}", elsewhere.state)).await;
    assert_eq!(reply.header("location"), "/tools/console#/");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_is_good_once_in_the_browser_that_began_it() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let not_begun = |reply: &Reply| turned_away(reply, 400, "was not begun here");
    let (mine, theirs) = (begin(&at, "/").await, begin(&at, "/").await);
    let mut claims = person("ada", &["staff"]);
    claims["nonce"] = json!(mine.nonce);
    provider.says(claims);
    let with = |state: &str| format!("code=c&state={state}");
    not_begun(&arrive(&at, "a=b", &with(&mine.state)).await);
    not_begun(&arrive(&at, &theirs.cookie, &with(&mine.state)).await);
    not_begun(&arrive(&at, &mine.cookie, &with(&theirs.state)).await);
    not_begun(&arrive(&at, &mine.cookie, "code=c").await);
    not_begun(&arrive(&at, &format!("{}; {}", mine.cookie, theirs.cookie), &with(&mine.state)).await);
    let mut changed = mine.cookie.clone();
    changed.push('A');
    not_begun(&arrive(&at, &changed, &with(&mine.state)).await);
    assert_eq!(
        provider.times_asked("/token"),
        0,
        "nobody who was not sent there costs the provider anything"
    );
    let reply = arrive(&at, &mine.cookie, &with(&mine.state)).await;
    let ada = page(&at, &session_in(&reply));
    expect(get(&ada, ME).await, 200);
    not_begun(&arrive(&at, &mine.cookie, &with(&mine.state)).await);
    // The token of one sign-in does not fit another.
    let fresh = begin(&at, "/").await;
    turned_away(&arrive(&at, &fresh.cookie, &with(&fresh.state)).await, 502, "does not hold");
    // Nor is one good that took too long.
    let late = begin(&at, "/").await;
    at.clock.advance(Duration::from_secs(600));
    not_begun(&arrive(&at, &late.cookie, &with(&late.state)).await);
    // Turned back at the provider, or an answer of another one's.
    let back = begin(&at, "/").await;
    let reply = arrive(&at, &back.cookie, &format!("error=access_denied&state={}", back.state)).await;
    turned_away(&reply, 403, "did not let you through");
    let mixed = begin(&at, "/").await;
    let from_elsewhere = format!("{}&iss=https%3A%2F%2Fevil.example", with(&mixed.state));
    turned_away(&arrive(&at, &mixed.cookie, &from_elsewhere).await, 502, "does not hold");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_a_network_are_bounded() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    for _ in 0..30 {
        assert_eq!(arrive(&at, "a=b", "code=c&state=s").await.status, 400);
    }
    turned_away(&arrive(&at, "a=b", "code=c&state=s").await, 429, "Too many sign-ins");
    turned_away(&sign_in(&at, &provider, &person("ada", &["staff"])).await, 429, "Too many sign-ins");
    at.clock.advance(Duration::from_secs(15 * 60));
    let mut claims = person("ada", &["staff"]);
    (claims["iat"], claims["exp"]) = (json!(now() + 900), json!(now() + 1_200));
    session_in(&sign_in(&at, &provider, &claims).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_after_its_hours_however_it_is_used() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[("OIDC__SESSION_HOURS", "3")]).await;
    let reply = sign_in(&at, &provider, &person("ada", &["staff"])).await;
    let cookie = session_in(&reply);
    let secret = cookie.split_once('=').unwrap().1.to_owned();
    let ada = page(&at, &cookie);
    expect(get(&ada, ME).await, 200);
    // Refreshed on the way: the end stays where it is.
    at.clock.advance(Duration::from_secs(2 * 3_600));
    let refresh = json!({ "refreshToken": secret });
    let pair = expect(crate::harness::post(&at.client(), "/api/v1/auth/refresh", &refresh).await, 200);
    // A minute before the end: the test itself takes time, too.
    at.clock.advance(Duration::from_secs(3_540));
    let next = page(&at, &format!("gleaner_session={}", pair["refreshToken"].as_str().unwrap()));
    expect(get(&next, ME).await, 200);
    at.clock.advance(Duration::from_secs(61));
    assert_eq!(get(&next, ME).await.status, 401);
    let refresh = json!({ "refreshToken": pair["refreshToken"] });
    assert_eq!(crate::harness::post(&at.client(), "/api/v1/auth/refresh", &refresh).await.status, 401);
}

/// Nobody knows a password of an account that the provider made: who has just signed in there needs none to erase it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_just_signed_in_erases_their_account_without_a_password() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let erase =
        async |who: &Client| who.send(Method::DELETE, "/api/v1/account", Some(&json!({}))).await.unwrap();
    let long_ago = signed_in(&at, &provider, &person("ada", &["staff"])).await;
    at.clock.advance(Duration::from_secs(601));
    let refusal = erase(&long_ago).await;
    assert_eq!(refusal.status, 403);
    assert!(refusal.text().contains("once more"), "{}", refusal.text());
    let owner = at.member("owner").await;
    let refusal = erase(&owner.browser).await;
    assert_eq!(refusal.status, 400);
    assert!(refusal.text().contains("password: is required"), "{}", refusal.text());
    let mut claims = person("ada", &["staff"]);
    (claims["iat"], claims["exp"]) = (json!(now() + 601), json!(now() + 1_200));
    let fresh = signed_in(&at, &provider, &claims).await;
    assert_eq!(erase(&fresh).await.status, 202);
    assert_eq!(get(&fresh, ME).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_out_leads_to_the_provider_and_the_provider_ends_sessions() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let ada = signed_in(&at, &provider, &person("ada", &["staff"])).await;
    // Another site's page signs nobody out.
    let forged = at.client().header("origin", "https://evil.example").delete(PLACE).await.unwrap();
    assert_eq!(forged.status, 403);
    let ended = expect(ada.delete(PLACE).await.unwrap(), 200);
    let lead = Url::parse(ended["leadTo"].as_str().unwrap()).unwrap();
    assert!(lead.as_str().starts_with(&format!("{}/end?client_id={CLIENT}&", provider.issuer())), "{lead}");
    let back = lead.query_pairs().find(|(key, _)| key == "post_logout_redirect_uri").unwrap().1.into_owned();
    assert_eq!(back, format!("{}/console", at.app().url()));
    assert_eq!(get(&ada, ME).await.status, 401);
    // By the provider: one of its sessions, then all of a person's.
    let of_session = async |subject: &str, session: &str| {
        let mut claims = person(subject, &["staff"]);
        claims["sid"] = json!(session);
        signed_in(&at, &provider, &claims).await
    };
    let (one, two, other) =
        (of_session("ada", "s1").await, of_session("ada", "s2").await, of_session("bob", "s3").await);
    let logout = |name: &str, value: Value, id: &str| {
        let mut claims = json!({
            "iss": provider.issuer(), "aud": CLIENT, "iat": now(), "exp": now() + 120, "jti": id,
            "events": { "http://schemas.openid.net/event/backchannel-logout": {} },
        });
        claims[name] = value;
        provider.token(&claims)
    };
    let first = logout("sid", json!("s1"), "j1");
    assert_eq!(told(&at, &first).await.status, 200);
    assert_eq!(get(&one, ME).await.status, 401);
    for still in [&two, &other] {
        expect(get(still, ME).await, 200);
    }
    assert_eq!(told(&at, &first).await.status, 400, "a second use");
    let id_token = person("bob", &["staff"]);
    for bad in [provider.token(&id_token), "nonsense".to_owned(), String::new()] {
        assert_eq!(told(&at, &bad).await.status, 400);
    }
    assert_eq!(told(&at, &logout("sub", json!("nobody"), "j2")).await.status, 200);
    expect(get(&other, ME).await, 200);
    assert_eq!(told(&at, &logout("sub", json!("ada"), "j3")).await.status, 200);
    assert_eq!(get(&two, ME).await.status, 401);
    expect(get(&other, ME).await, 200);
}

/// What the provider sends when sessions of its end.
async fn told(at: &Appliance, token: &str) -> Reply {
    let form = format!("logout_token={token}");
    let media = Some("application/x-www-form-urlencoded");
    at.client().send_bytes(Method::POST, &format!("{PLACE}/ended"), media, form).await.unwrap()
}
