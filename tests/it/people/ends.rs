//! What ends with what it came from: invitations with their inviter, links with whoever asked for them, a login with the
//! proxy it was given for; and what nobody gets by trying or by reading the disk.

use crate::harness::{Appliance, PASSWORD, eventually, expect, get, invite, join, post, refused, text};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;
use walk::files;

/// Every file of a folder.
mod walk {
    use std::path::{Path, PathBuf};

    pub fn files(folder: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
        }
        all
    }
}

async fn key(by: &Client, permissions: &[&str]) -> (String, String) {
    let key = json!({ "name": "narrow", "permissions": permissions });
    let made = expect(post(by, "/api/v1/api-keys", &key).await, 201);
    (text(&made["apiKey"], "id").to_owned(), text(&made, "secret").to_owned())
}

async fn accept(client: &Client, token: &str) -> Reply {
    post(client, "/api/v1/invites/accept", &json!({ "token": token })).await
}

async fn person(at: &Appliance, name: &str) -> Client {
    let new = json!({ "email": format!("{name}@example.com"), "password": PASSWORD, "name": name });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &new).await, 201);
    at.client().bearer(text(&login, "accessToken"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_gives_nobody_more_than_it_has_and_makes_no_owner() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let (_, narrow) = key(&owner.browser, &["org:read", "org:write"]).await;
    let narrow = at.client().bearer(&narrow);
    for role in ["owner", "admin", "editor", "viewer"] {
        let asked = json!({ "email": format!("{role}@example.com"), "role": role });
        refused(
            &post(&narrow, "/api/v1/orgs/current/invites", &asked).await,
            403,
            "Insufficient permissions",
            "",
        );
    }
    // One that may all that its maker may still makes no owner; a session of the owner's does.
    let asked = |role: &str| json!({ "email": format!("{role}@example.com"), "role": role });
    let refusal = post(&owner.api, "/api/v1/orgs/current/invites", &asked("owner")).await;
    refused(&refusal, 403, "Insufficient permissions", "owner");
    expect(post(&owner.api, "/api/v1/orgs/current/invites", &asked("admin")).await, 201);
    expect(post(&owner.browser, "/api/v1/orgs/current/invites", &asked("owner")).await, 201);
    let eve = join(&at, &owner.browser, "eve", "viewer").await;
    let path = format!("/api/v1/orgs/current/members/{}", eve.id);
    for (client, role, status) in [
        (&narrow, "editor", 403),
        (&owner.api, "owner", 403),
        (&owner.api, "editor", 200),
        (&owner.browser, "owner", 200),
        (&owner.api, "viewer", 403),
        (&owner.browser, "viewer", 200),
    ] {
        let changed = client.patch(&path, &json!({ "role": role })).await.unwrap();
        assert_eq!(changed.status, status, "{role}: {}", changed.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invitation_ends_with_its_inviter() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let admin = join(&at, &owner.browser, "bob", "admin").await;
    post(&admin.browser, "/api/v1/auth/resend-verification", &json!({})).await;
    let eve = person(&at, "eve").await;
    let zoe = person(&at, "zoe").await;
    let member = format!("/api/v1/orgs/current/members/{}", admin.id);
    let waiting = async || {
        let list = expect(get(&owner.browser, "/api/v1/orgs/current/invites").await, 200);
        list["items"].as_array().unwrap().len()
    };
    let token = invite(&at, &admin.browser, "eve@example.com", "admin").await;
    assert_eq!(waiting().await, 1);
    expect(owner.browser.patch(&member, &json!({ "role": "viewer" })).await.unwrap(), 200);
    assert_eq!(waiting().await, 0, "who is no administrator any more has invited nobody");
    refused(&accept(&eve, &token).await, 400, "Validation failed", "token");
    expect(owner.browser.patch(&member, &json!({ "role": "admin" })).await.unwrap(), 200);
    refused(&accept(&eve, &token).await, 400, "Validation failed", "token");

    let (to_eve, to_zoe) = (
        invite(&at, &admin.browser, "eve@example.com", "viewer").await,
        invite(&at, &owner.browser, "zoe@example.com", "viewer").await,
    );
    assert_eq!(owner.browser.delete(&member).await.unwrap().status, 204);
    assert_eq!(waiting().await, 1, "the owner's own");
    refused(&accept(&eve, &to_eve).await, 400, "Validation failed", "token");
    expect(accept(&zoe, &to_zoe).await, 200);
}

/// The path of the signed link to an export of a statement's result.
async fn link(client: &Client) -> (String, String) {
    let sql = json!({ "sql": "SELECT 1 AS one", "waitMs": 10000 });
    let execution = expect(post(client, "/api/v1/bi/queries", &sql).await, 200);
    let asked = format!("/api/v1/bi/queries/{}/exports", text(&execution, "jobId"));
    let export = expect(post(client, &asked, &json!({ "format": "csv" })).await, 202)["export"].clone();
    let path = format!("/api/v1/bi/exports/{}", text(&export, "id"));
    (path.clone(), link_of(client, &path).await)
}

async fn link_of(client: &Client, path: &str) -> String {
    let url = eventually("the export is made", Duration::from_secs(30), || async {
        let export = expect(get(client, path).await, 200)["export"].clone();
        export["downloadUrl"].as_str().map(str::to_owned)
    });
    url.await.strip_prefix(client.base()).expect("a link of this box").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_ends_with_what_let_its_asker_ask() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let public = at.client();
    let (path, _) = link(&owner.browser).await;
    let status = async |link: &str| get(&public, link).await.status.as_u16();

    let (id, secret) = key(&owner.browser, &["bi:read"]).await;
    let by_key = link_of(&at.client().bearer(&secret), &path).await;
    assert_eq!(status(&by_key).await, 200);
    assert_eq!(owner.browser.delete(&format!("/api/v1/api-keys/{id}")).await.unwrap().status, 204);
    assert_eq!(status(&by_key).await, 404, "with the key");

    let bob = join(&at, &owner.browser, "bob", "viewer").await;
    let bobs = link_of(&bob.browser, &path).await;
    assert_eq!(status(&bobs).await, 200);
    let member = format!("/api/v1/orgs/current/members/{}", bob.id);
    assert_eq!(owner.browser.delete(&member).await.unwrap().status, 204);
    assert_eq!(status(&bobs).await, 404, "with the membership");

    let owners = link_of(&owner.browser, &path).await;
    let account = expect(post(&owner.browser, "/api/v1/account/export", &json!({})).await, 202);
    let own = format!("/api/v1/account/exports/{}", text(&account, "id"));
    let zip = eventually("the export is made", Duration::from_secs(30), || async {
        let export = expect(get(&owner.browser, &own).await, 200);
        export["downloadUrl"].as_str().map(|url| url.strip_prefix(public.base()).unwrap().to_owned())
    })
    .await;
    assert_eq!((status(&owners).await, status(&zip).await), (200, 200));
    expect(post(&public, "/api/v1/auth/forgot-password", &json!({ "email": owner.email })).await, 200);
    let token = at.mailed_token("glp_").await;
    let new = json!({ "token": token, "password": "another long passphrase" });
    expect(post(&public, "/api/v1/auth/reset-password", &new).await, 200);
    assert_eq!((status(&owners).await, status(&zip).await), (404, 404), "with the sessions");

    let login = json!({ "email": owner.email, "password": "another long passphrase" });
    let login = expect(post(&public, "/api/v1/auth/login", &login).await, 200);
    let again = public.bearer(text(&login, "accessToken"));
    let last = link_of(&again, &path).await;
    assert_eq!(status(&last).await, 200);
    let confirmed = json!({ "confirmName": "ada" });
    let erased = again.send(http::Method::DELETE, "/api/v1/orgs/current", Some(&confirmed));
    expect(erased.await.unwrap(), 202);
    assert_eq!(status(&last).await, 404, "with the organization");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_of_a_message_stands_on_the_disk() {
    let mut at = Appliance::start().await;
    let owner = at.member("ada").await;
    expect(post(&at.client(), "/api/v1/auth/forgot-password", &json!({ "email": owner.email })).await, 200);
    let reset = at.mailed_token("glp_").await;
    let invited = invite(&at, &owner.browser, "eve@example.com", "viewer").await;
    person(&at, "zoe").await;
    let verification = at.mailed_token("glv_").await;
    at.pause().await;
    let folder = at.data_dir();
    for file in files(&folder) {
        let bytes = std::fs::read(&file).unwrap();
        for token in [&reset, &invited, &verification] {
            // Its beginning says only what kind it is of.
            let secret = &token.as_bytes()[4..];
            let stands = memchr::memmem::find(&bytes, secret).is_some();
            assert!(!stands, "{} holds a token", file.display());
        }
    }
    at.restart().await;
    assert_eq!(at.mailed_token("glp_").await, reset, "the operator still passes it on");
    let new = json!({ "token": reset, "password": "another long passphrase" });
    expect(post(&at.client(), "/api/v1/auth/reset-password", &new).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codes_of_a_command_line_are_not_guessed() {
    let at = Appliance::start().await;
    let (ada, bob) = (at.member("ada").await, at.member("bob").await);
    let started =
        expect(post(&at.client(), "/api/v1/cli-auth/start", &json!({ "hostname": "laptop" })).await, 200);
    let right = text(&started, "user_code");
    let guess = async |client: &Client, code: &str| -> Reply {
        get(client, &format!("/api/v1/cli-auth/info?user_code={code}")).await
    };
    let all = futures::future::join_all((0..40).map(|_| guess(&ada.browser, "BCDF-GHJK"))).await;
    let unknown = all.iter().filter(|reply| reply.status == 404).count();
    let limited = all.iter().filter(|reply| reply.status == 429).count();
    assert_eq!((unknown, limited), (10, 30), "also of guesses that are made at once");
    let wait = guess(&ada.browser, right).await;
    refused(&wait, 429, "Too many unknown codes", "15 minutes");
    assert!(wait.header("retry-after").parse::<u64>().unwrap() > 800);
    let approve = post(&ada.browser, "/api/v1/cli-auth/approve", &json!({ "user_code": right })).await;
    assert_eq!(approve.status, 429);
    assert_eq!(guess(&bob.browser, right).await.status, 200, "somebody else's guesses do not count");
    at.clock.advance(Duration::from_secs(901));
    let login = json!({ "email": ada.email, "password": PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &login).await, 200);
    let later = at.client().bearer(text(&login, "accessToken"));
    assert_eq!(guess(&later, "BCDF-GHJK").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_login_stays_with_its_proxy() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let new = json!({ "adapter": "proxy", "credentials": {
        "proxies": ["http://proxy.example:3128", "socks5://second.example:1080", "http://own:login@third.example:80"],
        "username": "ada", "password": "very secret",
    }});
    let made = expect(post(&owner.api, "/api/v1/providers", &new).await, 201);
    let path = format!("/api/v1/providers/{}", text(&made, "id"));
    let change = async |credentials: Value| -> Reply {
        owner.api.patch(&path, &json!({ "credentials": credentials })).await.unwrap()
    };
    for elsewhere in [
        "http://evil.example:3128",
        "http://proxy.example:3129",
        // The same place, to which it would now be said in the clear or in another protocol.
        "https://proxy.example:3128",
        "http://third.example:80",
    ] {
        let refusal = change(json!({ "proxies": ["http://proxy.example:3128", elsewhere] })).await;
        refused(&refusal, 400, "Validation failed", "credentials.proxies: [1]");
        let half = change(json!({ "proxies": [elsewhere], "username": "eve" })).await;
        refused(&half, 400, "Validation failed", "credentials.proxies: [0]");
    }
    expect(change(json!({ "proxies": ["socks5://second.example:1080"] })).await, 200);
    expect(change(json!({ "proxies": ["http://eve:own@evil.example:80"] })).await, 200);
    let given = json!({ "proxies": ["http://evil.example:80"], "username": "eve", "password": "her own" });
    expect(change(given).await, 200);
    expect(
        change(json!({ "proxies": ["http://evil.example:80"], "username": null, "password": null })).await,
        200,
    );
    expect(change(json!({ "proxies": ["http://other.example:80"] })).await, 200);
}
