//! Who is let in, as what, and which accounts are joined: what groups decide, and what somebody else's organization is safe from.

use super::{ME, ORG, governed, made, page, people, person, session_in, sign_in, signed_in, turned_away};
use crate::harness::identity::Identity;
use crate::harness::{Appliance, PASSWORD, Request, expect, get, post};
use base::permission::Role;
use serde_json::{Value, json};

async fn log(at: &Appliance, org: Option<&str>) -> Vec<(String, Value)> {
    let org = org.map(str::to_owned);
    let rows = at.operator(Request::Audit { org, limit: 100 }).await;
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| (row["action"].as_str().unwrap().to_owned(), row["details"].clone())).collect()
}

/// Whether a row of this action has these details among its own.
fn has(rows: &[(String, Value)], action: &str, details: &Value) -> bool {
    let fits = |found: &Value| details.as_object().unwrap().iter().all(|(name, value)| found[name] == *value);
    rows.iter().any(|(name, found)| name == action && fits(found))
}

/// Chooses a password with the token of a link.
async fn choose(at: &Appliance, token: &str) {
    let chosen = json!({ "token": token, "password": PASSWORD });
    expect(post(&at.client(), "/api/v1/auth/reset-password", &chosen).await, 200);
}

async fn login(at: &Appliance, email: &str) -> u16 {
    let shown = json!({ "email": email, "password": PASSWORD });
    post(&at.client(), "/api/v1/auth/login", &shown).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_decide_from_the_first_sign_in_to_the_last() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let ada = signed_in(&at, &provider, &person("ada", &["staff", "unknown"])).await;
    let me = expect(get(&ada, ME).await, 200);
    assert_eq!((&me["role"], &me["organization"]["name"]), (&json!("viewer"), &json!(ORG)));
    assert_eq!((&me["user"]["name"], &me["user"]["email"]), (&json!("ada"), &json!("ada@acme.example")));
    assert!(me["user"]["emailVerifiedAt"].is_string());
    // The highest of several; one text is a list of one.
    let ada = signed_in(&at, &provider, &person("ada", &["staff", "admins", "editors"])).await;
    assert_eq!(expect(get(&ada, ME).await, 200)["role"], "admin");
    let key = json!({ "name": "own", "kind": "personal" });
    let key = expect(post(&ada, "/api/v1/api-keys", &key).await, 201);
    let by_key = at.client().bearer(key["secret"].as_str().unwrap());
    expect(get(&by_key, ME).await, 200);
    let mut one = person("ada", &[]);
    one["groups"] = json!("editors");
    let ada = signed_in(&at, &provider, &one).await;
    assert_eq!(expect(get(&ada, ME).await, 200)["role"], "editor");
    // Their address at the provider is another one now; they are the same.
    let mut moved = person("ada", &["editors"]);
    moved["email"] = json!("ada.lovelace@acme.example");
    signed_in(&at, &provider, &moved).await;
    assert_eq!(people(&at).await.len(), 2);
    // Out of all groups: sessions, key and membership end.
    for _ in 0..2 {
        turned_away(
            &sign_in(&at, &provider, &person("ada", &["unknown"])).await,
            403,
            "may not use this box",
        );
        assert_eq!(get(&ada, ME).await.status, 401, "an earlier session");
        assert_eq!(get(&by_key, ME).await.status, 401, "a personal key");
    }
    assert_eq!(people(&at).await[0], ("ada@acme.example".to_owned(), None));
    // And in again; the key does not come back.
    let ada = signed_in(&at, &provider, &person("ada", &["staff"])).await;
    assert_eq!(expect(get(&ada, ME).await, 200)["role"], "viewer");
    assert_eq!(get(&by_key, ME).await.status, 401);
    let rows = log(&at, Some(ORG)).await;
    for (action, details) in [
        ("member.joined", json!({ "by": "provider", "role": "viewer" })),
        ("auth.login", json!({ "by": "provider" })),
        ("member.role_changed", json!({ "by": "provider", "from": "viewer", "to": "admin" })),
        ("member.role_changed", json!({ "by": "provider", "from": "admin", "to": "editor" })),
        ("member.removed", json!({ "by": "provider", "role": "editor", "keys": 1 })),
    ] {
        assert!(has(&rows, action, &details), "{action} {details}: {rows:?}");
    }
    let rows = log(&at, None).await;
    for (action, details) in [
        ("user.registered", json!({ "by": "provider" })),
        ("auth.provider_joined", json!({})),
        ("auth.login_refused", json!({ "by": "provider", "reason": "no_group" })),
    ] {
        assert!(has(&rows, action, &details), "{action} {details}: {rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_comes_in_without_an_address_that_counts() {
    let provider = Identity::open().await;
    let domains = ("OIDC__EMAIL_DOMAINS", r#"["acme.example"]"#);
    let (mut at, _) = governed(&provider, &[domains]).await;
    let with = |name: &str, value: Value| {
        let mut claims = person("bob", &["staff"]);
        claims[name] = value;
        claims
    };
    for (claims, status, said) in [
        (with("email", json!(null)), 403, "does not tell your email address"),
        (with("email", json!("bob")), 403, "does not tell your email address"),
        (with("email", json!("bob@acme.example\r\nBcc: eve@evil.example")), 403, "does not tell"),
        (with("email_verified", json!(false)), 403, "not verified"),
        (with("email_verified", json!(null)), 403, "not verified"),
        (with("email_verified", json!("yes")), 403, "not verified"),
        (with("email", json!("bob@evil.example")), 403, "not of a domain"),
        (with("email", json!("bob@sub.acme.example")), 403, "not of a domain"),
        (with("groups", json!(null)), 403, "may not use this box"),
        (with("groups", json!({ "staff": true })), 403, "may not use this box"),
        (with("groups", json!(["Staff", "staff "])), 403, "may not use this box"),
    ] {
        turned_away(&sign_in(&at, &provider, &claims).await, status, said);
    }
    let mut many = with("groups", json!(null));
    many["_claim_names"] = json!({ "groups": "src1" });
    turned_away(&sign_in(&at, &provider, &many).await, 502, "more groups than fit");
    assert_eq!(people(&at).await.len(), 1, "nobody but the owner");
    // A provider that does not say it, and whose operator does.
    at.set("OIDC__TRUST_EMAIL", "true");
    at.restart().await;
    turned_away(&sign_in(&at, &provider, &with("email_verified", json!(false))).await, 403, "not verified");
    signed_in(&at, &provider, &with("email_verified", json!(null))).await;
    // Everybody whom the provider lets in.
    at.set("OIDC__ROLE", "analyst");
    at.restart().await;
    let eve = signed_in(&at, &provider, &person("eve", &[])).await;
    assert_eq!(expect(get(&eve, ME).await, 200)["role"], "analyst");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_was_here_is_joined_on_the_operators_word_only() {
    let provider = Identity::open().await;
    let (mut at, owner) = governed(&provider, &[]).await;
    choose(&at, &owner).await;
    choose(&at, &made(&at, "bob@acme.example", Some((ORG, Role::Admin))).await).await;
    assert_eq!(login(&at, "bob@acme.example").await, 200);
    turned_away(
        &sign_in(&at, &provider, &person("bob", &["staff"])).await,
        403,
        "has an account here already",
    );
    at.set("OIDC__JOIN_ACCOUNTS", "true");
    at.restart().await;
    // Without a group nothing is joined, and nothing is lost.
    turned_away(&sign_in(&at, &provider, &person("bob", &[])).await, 403, "may not use this box");
    assert_eq!(login(&at, "bob@acme.example").await, 200);
    let bob = signed_in(&at, &provider, &person("bob", &["staff"])).await;
    assert_eq!(expect(get(&bob, ME).await, 200)["role"], "viewer");
    // The password counts no more, there is none by mail, and the operator is told why.
    assert_eq!(login(&at, "bob@acme.example").await, 401);
    let asked = json!({ "email": "bob@acme.example" });
    expect(post(&at.client(), "/api/v1/auth/forgot-password", &asked).await, 200);
    let outbox = at.operator(Request::Outbox { limit: 20 }).await;
    assert!(!outbox.to_string().contains("bob@acme.example"), "{outbox}");
    let erasing = json!({ "password": PASSWORD });
    let refused = bob.send(http::Method::DELETE, "/api/v1/account", Some(&erasing)).await.unwrap();
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("company's provider"), "{}", refused.text());
    // An owner's does count, for the day when the provider is away.
    let boss = signed_in(&at, &provider, &person("owner", &["staff"])).await;
    assert_eq!(expect(get(&boss, ME).await, 200)["role"], "owner", "the last one stays one");
    assert_eq!(login(&at, "owner@acme.example").await, 200);
    // Somebody who was given the address of another lets nobody into what was theirs.
    let mut heir = person("heir", &["admins"]);
    heir["email"] = json!("bob@acme.example");
    turned_away(&sign_in(&at, &provider, &heir).await, 403, "belongs to another account");
    // Without the provider passwords count as ever.
    at.set("OIDC__ISSUER", "");
    at.restart().await;
    assert_eq!(login(&at, "bob@acme.example").await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_registered_anothers_address_beforehand_gains_nothing() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[("OIDC__JOIN_ACCOUNTS", "true")]).await;
    let new = json!({ "email": "carol@acme.example", "password": PASSWORD, "name": "Mallory" });
    let mallory = expect(post(&at.client(), "/api/v1/auth/register", &new).await, 201);
    let thief = at.client().bearer(mallory["accessToken"].as_str().unwrap());
    expect(get(&thief, ME).await, 200);
    let carol = signed_in(&at, &provider, &person("carol", &["staff"])).await;
    assert_eq!(expect(get(&carol, ME).await, 200)["role"], "viewer");
    assert_eq!(get(&thief, ME).await.status, 401);
    assert_eq!(login(&at, "carol@acme.example").await, 401);
    let refresh = json!({ "refreshToken": mallory["refreshToken"] });
    assert_eq!(post(&at.client(), "/api/v1/auth/refresh", &refresh).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_organization_is_out_of_the_providers_reach() {
    let provider = Identity::open().await;
    let (mut at, _) = governed(&provider, &[("OIDC__JOIN_ACCOUNTS", "true")]).await;
    signed_in(&at, &provider, &person("ada", &["staff"])).await;
    // One that lives on the same box, registered by its own people, which takes the first one's name afterwards.
    let other = at.member("dora").await;
    let renamed = other.browser.patch("/api/v1/orgs/current", &json!({ "name": "ACME" })).await.unwrap();
    assert_eq!(renamed.status, 200, "{}", renamed.text());
    let before = get(&other.api, "/api/v1/audit-logs").await.json;
    // Who governs the provider says that they are its owner.
    let mut forged = person("dora", &["admins"]);
    forged["email"] = json!(other.email);
    let reply = sign_in(&at, &provider, &forged).await;
    turned_away(&reply, 403, "member of another organization");
    assert_eq!(expect(get(&other.browser, ME).await, 200)["role"], "owner");
    assert_eq!(get(&other.api, "/api/v1/audit-logs").await.json, before, "nothing is told there");
    // People go where they went before, also after a restart.
    for _ in 0..2 {
        let ada = signed_in(&at, &provider, &person("ada", &["staff"])).await;
        let me = expect(get(&ada, ME).await, 200);
        assert_ne!(me["organization"]["id"].as_str().unwrap(), other.org_id);
        let listed = expect(get(&ada, "/api/v1/jobs").await, 200);
        assert_eq!(listed["items"], json!([]));
        at.restart().await;
    }
    let members = at.operator(Request::UserList { org: Some(other.org_id.clone()), limit: 100 }).await;
    assert_eq!(members.as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_lead_to_several_organizations_and_a_person_is_in_one() {
    let provider = Identity::open().await;
    let groups = r#"{ staff = "viewer", lab = { organization = "Lab", role = "editor" }, shop = { organization = "Shop", role = "viewer" }, none = { organization = "Nowhere", role = "viewer" } }"#;
    let (at, _) = governed(&provider, &[("OIDC__GROUPS", groups)]).await;
    for (email, org) in [("lab@acme.example", "Lab"), ("shop@acme.example", "Shop")] {
        made(&at, email, Some((org, Role::Owner))).await;
    }
    let of = async |groups: &[&str]| {
        let ada = signed_in(&at, &provider, &person("ada", groups)).await;
        let me = expect(get(&ada, ME).await, 200);
        (me["organization"]["name"].as_str().unwrap().to_owned(), me["role"].as_str().unwrap().to_owned())
    };
    let both = (&["lab", "shop"][..], "several organizations");
    turned_away(&sign_in(&at, &provider, &person("ada", both.0)).await, 403, both.1);
    turned_away(
        &sign_in(&at, &provider, &person("ada", &["none"])).await,
        502,
        "no organization to sign in to",
    );
    assert_eq!(
        of(&["lab", "staff"]).await,
        (ORG.to_owned(), "viewer".to_owned()),
        "the section's goes first"
    );
    assert_eq!(of(&["lab"]).await, ("Lab".to_owned(), "editor".to_owned()), "moved");
    assert_eq!(
        of(&["shop", "lab", "staff"]).await,
        ("Lab".to_owned(), "editor".to_owned()),
        "stays where they are"
    );
    assert_eq!(of(&["shop"]).await, ("Shop".to_owned(), "viewer".to_owned()));
    let rows = log(&at, Some("Lab")).await;
    assert!(has(&rows, "member.removed", &json!({ "by": "provider" })), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_line_is_approved_by_who_came_through_the_provider() {
    let provider = Identity::open().await;
    let (at, _) = governed(&provider, &[]).await;
    let started = json!({ "hostname": "laptop" });
    let started = expect(post(&at.client(), "/api/v1/cli-auth/start", &started).await, 200);
    let begun = super::begin(&at, "/device%3Fuser_code%3DBCDF-GHJK").await;
    let mut claims = person("ada", &["editors"]);
    claims["nonce"] = json!(begun.nonce);
    provider.says(claims);
    let arrived = super::arrive(&at, &begun.cookie, &format!("code=c&state={}", begun.state)).await;
    assert_eq!(arrived.header("location"), "/console#/device?user_code=BCDF-GHJK", "back to where one was");
    let ada = page(&at, &session_in(&arrived));
    let approval = json!({ "user_code": started["user_code"] });
    expect(post(&ada, "/api/v1/cli-auth/approve", &approval).await, 200);
    let device = json!({ "device_code": started["device_code"] });
    let polled = expect(post(&at.client(), "/api/v1/cli-auth/poll", &device).await, 200);
    let key = polled["api_key"].as_str().unwrap_or_else(|| panic!("{polled}"));
    let command_line = at.client().bearer(key);
    assert_eq!(expect(get(&command_line, ME).await, 200)["role"], "editor");
    turned_away(&sign_in(&at, &provider, &person("ada", &[])).await, 403, "may not use this box");
    assert_eq!(get(&command_line, ME).await.status, 401, "its key ends with the membership");
}
