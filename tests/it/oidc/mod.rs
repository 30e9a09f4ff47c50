//! Sign-in with the company's accounts: aboutProvider, beginProviderSignIn, finishProviderSignIn, endProviderSession,
//! providerSessionEnded. Providers are one that says what a test wants, and a real one (npm's `oidc-provider`).

mod browser;
mod hostile;
mod people;
mod real;
mod sessions;

use crate::harness::identity::Identity;
use crate::harness::{Appliance, Request, expect, get};
use base::permission::Role;
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use url::Url;

const PLACE: &str = "/console/session/oidc";
const ME: &str = "/api/v1/auth/me";
const ORG: &str = "Acme";

/// A box whose people sign in through `provider`, with these keys more; and the owner of the organization that they belong to.
async fn governed(provider: &Identity, more: &[(&str, &str)]) -> (Appliance, String) {
    let issuer = provider.issuer();
    let mut settings = vec![
        ("OIDC__ISSUER", issuer.as_str()),
        ("OIDC__CLIENT_ID", "gleaner"),
        ("OIDC__CLIENT_SECRET", "a secret of the tests"),
        ("OIDC__ORGANIZATION", ORG),
        ("OIDC__GROUPS", r#"{ admins = "admin", staff = "viewer", editors = "editor" }"#),
    ];
    settings.retain(|(key, _)| more.iter().all(|(other, _)| other != key));
    settings.extend(more);
    let at = Appliance::start_with(&settings).await;
    let owner = made(&at, "owner@acme.example", Some((ORG, Role::Owner))).await;
    (at, owner)
}

/// An account that the operator makes; gives the token with which its password is chosen.
async fn made(at: &Appliance, email: &str, member: Option<(&str, Role)>) -> String {
    let (org, role) = member.map(|(org, role)| (org.to_owned(), role)).unzip();
    let told = at.operator(Request::UserCreate { email: email.to_owned(), name: None, org, role }).await;
    told["token"].as_str().unwrap().to_owned()
}

/// What a person's token says.
fn person(subject: &str, groups: &[&str]) -> Value {
    json!({
        "sub": subject, "email": format!("{subject}@acme.example"), "email_verified": true, "name": subject, "groups": groups,
    })
}

/// A browser on its way through the provider.
struct Begun {
    cookie: String,
    state: String,
    nonce: String,
    url: Url,
}

async fn begin(at: &Appliance, to: &str) -> Begun {
    let reply = get(&at.client(), &format!("{PLACE}/begin?to={to}")).await;
    assert_eq!(reply.status, 303, "{}", reply.text());
    let url = Url::parse(reply.header("location")).unwrap();
    let of = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    Begun { cookie, state: of("state"), nonce: of("nonce"), url }
}

async fn arrive(at: &Appliance, cookie: &str, query: &str) -> Reply {
    get(&at.client().header("cookie", cookie), &format!("{PLACE}/callback?{query}")).await
}

/// All of a sign-in as the provider tells of the person; `claims` may say another nonce.
async fn sign_in(at: &Appliance, provider: &Identity, claims: &Value) -> Reply {
    let begun = begin(at, "/").await;
    let mut said = claims.clone();
    if said.get("nonce").is_none() {
        said["nonce"] = json!(begun.nonce);
    }
    provider.says(said);
    arrive(at, &begun.cookie, &format!("code=c&state={}", begun.state)).await
}

/// The cookie of the session that began.
fn session_in(reply: &Reply) -> String {
    assert_eq!(reply.status, 303, "{}", reply.text());
    let set: Vec<_> =
        reply.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    let session = set.iter().find(|set| set.starts_with("gleaner_session=")).expect("a session");
    for part in ["HttpOnly", "SameSite=Strict"] {
        assert!(session.contains(part), "{session}");
    }
    assert!(
        set.iter().any(|set| set.starts_with("gleaner_signin=;") && set.contains("Max-Age=0")),
        "{set:?}"
    );
    session.split(';').next().unwrap().to_owned()
}

/// A page of the box with this session.
fn page(at: &Appliance, session: &str) -> Client {
    at.client().header("origin", at.app().url()).header("x-gleaner-session", "1").header("cookie", session)
}

/// Signs in, and gives a page with the session.
async fn signed_in(at: &Appliance, provider: &Identity, claims: &Value) -> Client {
    page(at, &session_in(&sign_in(at, provider, claims).await))
}

/// Refused with a page for people that says this; nobody is signed in.
fn turned_away(reply: &Reply, status: u16, said: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    assert!(reply.text().contains(said), "{said}: {}", reply.text());
    assert!(reply.header("content-type").starts_with("text/html"));
    let sets = reply.headers.get_all("set-cookie").iter();
    assert!(!sets.map(|set| set.to_str().unwrap()).any(|set| set.starts_with("gleaner_session")));
}

/// The box's people as the operator lists them: address and role.
async fn people(at: &Appliance) -> Vec<(String, Option<String>)> {
    let listed = at.operator(Request::UserList { org: None, limit: 100 }).await;
    let of =
        |user: &Value| (user["email"].as_str().unwrap().to_owned(), user["role"].as_str().map(str::to_owned));
    let mut all: Vec<_> = listed.as_array().unwrap().iter().map(of).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_shipped_there_is_no_provider() {
    let at = Appliance::start().await;
    let about = expect(get(&at.client(), PLACE).await, 200);
    assert_eq!(about, json!({ "label": null, "hidesPasswords": false }));
    turned_away(&get(&at.client(), &format!("{PLACE}/begin")).await, 404, "no sign-in with company accounts");
    turned_away(&arrive(&at, "gleaner_signin=x", "code=c&state=s").await, 404, "no sign-in");
    let (client, ended) = (at.client(), format!("{PLACE}/ended"));
    let form =
        client.send_bytes(Method::POST, &ended, Some("application/x-www-form-urlencoded"), "logout_token=x");
    assert_eq!(form.await.unwrap().status, 404);
    // Signing out by the same way as everywhere.
    let member = at.member("ada").await;
    let shown = json!({ "email": member.email, "password": crate::harness::PASSWORD });
    let begun = page(&at, "a=b").post("/console/session", &shown).await.unwrap();
    let cookie = begun.header("set-cookie").split(';').next().unwrap().to_owned();
    let ended = expect(page(&at, &cookie).delete(PLACE).await.unwrap(), 200);
    assert_eq!(ended, json!({ "leadTo": null }));
    assert_eq!(get(&page(&at, &cookie), ME).await.status, 401);
}
