//! Leaving: exports of personal data, erasure of people and of organizations, and what is left of them: nothing.

mod crash;
mod export;
mod org;
mod person;
mod sessions;

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, PASSWORD, collect, eventually, expect, get, post, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ACCOUNT: &str = "/api/v1/account"; // deleteAccount
const EXPORT: &str = "/api/v1/account/export"; // requestAccountExport
const EXPORTS: &str = "/api/v1/account/exports"; // getAccountExport
const CURRENT: &str = "/api/v1/orgs/current"; // deleteOrg
const ME: &str = "/api/v1/auth/me";
const INVITES: &str = "/api/v1/orgs/current/invites";

/// How long an erasure may take here.
const DONE_MAX: Duration = Duration::from_secs(120);

pub async fn delete(client: &Client, path: &str, body: &Value) -> Reply {
    client.send(Method::DELETE, path, Some(body)).await.unwrap()
}

/// A person who came by invitation.
struct Joined {
    email: String,
    browser: Client,
    refresh: String,
}

async fn join(at: &Appliance, by: &Client, name: &str, role: &str) -> Joined {
    let email = format!("{name}@example.com");
    expect(post(by, INVITES, &json!({ "email": email, "role": role })).await, 201);
    let token = at.mailed_token("gli_").await;
    let person = json!({ "email": email, "password": PASSWORD, "name": name });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let joined = expect(post(&browser, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    Joined {
        email,
        browser: at.client().bearer(text(&joined, "accessToken")),
        refresh: text(&joined, "refreshToken").to_owned(),
    }
}

/// Pages whose words are those of their path: `/<marker>/<n>`.
pub async fn web() -> Web {
    Web::open(|path| {
        let (marker, number) = path.strip_prefix('/')?.split_once('/')?;
        let slow = if marker.starts_with("slow") { 3_000 } else { 0 };
        let page =
            format!("<title>{marker} {number}</title><h1>{marker} number {number}</h1><p>{marker}</p>");
        Some(Answer::html(page).after_ms(slow))
    })
    .await
}

async fn appliance(web: &Web) -> Appliance {
    let at = Appliance::start_with(&[
        ("NETWORK__ALLOW", &web.allow()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("DISPATCH__ROBOTS", "false"),
    ])
    .await;
    at.operator(schemas()).await;
    at
}

pub fn schemas() -> Request {
    let schemas = json!({ "schemas": [{ "pageType": "article", "attributes": [
        { "name": "headline", "xpaths": ["//h1"], "type": "text" },
        { "name": "teaser", "xpaths": ["//p"], "type": "text" },
    ]}]});
    Request::SchemaImport { json: schemas.to_string(), domain: Some("127.0.0.1".to_owned()) }
}

/// One of everything that an organization can have today, each with the marker in it.
pub async fn fill(client: &Client, web: &str, marker: &str) {
    let urls: Vec<_> = (0..6)
        .map(|n| json!({ "url": format!("{web}/{marker}/{n}"), "tags": [marker], "pageType": "article" }))
        .collect();
    expect(post(client, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    for n in 0..3 {
        let job = collect(client, &format!("{web}/{marker}/{n}")).await;
        assert_eq!(job["status"], "succeeded", "{job}");
    }
    expect(post(client, "/api/v1/api-keys", &json!({ "name": format!("key of {marker}") })).await, 201);
    // A page type of its own is a table of its own.
    let own = json!({ "name": "head", "xpaths": ["//h1"], "type": "text", "pageType": marker });
    expect(post(client, "/api/v1/extraction/attributes/a.example", &own).await, 201);
    let guest = json!({ "email": format!("guest-{marker}@example.com"), "role": "viewer" });
    expect(post(client, INVITES, &guest).await, 201);
    eventually("the results are found", Duration::from_secs(20), || async {
        let found = expect(get(client, &format!("/api/v1/extraction/results?q={marker}")).await, 200);
        (found["total"] == 3).then_some(())
    })
    .await;
    let sql = format!(
        "SELECT url, title, '{marker}' AS word FROM readings WHERE url LIKE '%{marker}%' ORDER BY url"
    );
    eventually("SQL has the rows", Duration::from_secs(20), || async {
        let body = json!({ "sql": sql, "waitMs": 10_000 });
        let answer = expect(post(client, "/api/v1/bi/queries", &body).await, 200);
        (answer["results"]["totalRows"] == 3).then_some(())
    })
    .await;
}

/// Everything that the organization sees of itself; the same before and after somebody else's erasure.
pub async fn inventory(client: &Client, marker: &str) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    for list in [
        "urls",
        "jobs",
        "api-keys",
        "extraction/results",
        "bi/queries",
        "orgs/current/invites",
        "plans/transactions",
    ] {
        let page = expect(get(client, &format!("/api/v1/{list}?limit=200")).await, 200);
        let mut items = page["items"].as_array().unwrap().clone();
        // Asking is a use of the key, and a restart forgets when exactly something was indexed.
        items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| {
            item.remove("lastUsedAt");
            item.remove("indexedAt");
        });
        assert!(!items.is_empty(), "{list} is empty");
        seen.push((list.to_owned(), Value::Array(items)));
    }
    let found = expect(get(client, &format!("/api/v1/extraction/results?q={marker}")).await, 200);
    assert_eq!(found["total"], 3);
    seen.push(("search".to_owned(), found["facets"].clone()));
    let queries = expect(get(client, "/api/v1/bi/queries").await, 200);
    let newest = text(&queries["items"][0], "jobId");
    let page = expect(get(client, &format!("/api/v1/bi/queries/{newest}/results")).await, 200);
    seen.push(("result page".to_owned(), page["rows"].clone()));
    seen
}

/// What a statement over several tables gives; it makes a row of its own, so it is no part of the inventory.
async fn sums(client: &Client) -> Value {
    let sql = "SELECT (SELECT count(*) FROM readings) AS readings, (SELECT count(*) FROM urls) AS urls, (SELECT count(*) \
               FROM jobs) AS jobs, (SELECT sum(amount) FROM credit_transactions) AS balance";
    let body = json!({ "sql": sql, "waitMs": 10_000 });
    expect(post(client, "/api/v1/bi/queries", &body).await, 200)["results"]["rows"][0].clone()
}

/// Every file below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A folder that is removed while we look is gone.
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries {
        let entry = entry.unwrap();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}

fn has(bytes: &[u8], needle: &str) -> bool {
    memchr::memmem::find(bytes, needle.as_bytes()).is_some()
}

/// Files in which one of the needles stands: in their bytes, in what those are when they are inflated, or in their path.
pub fn traces(data: &Path, needles: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in files(data) {
        let name = path.strip_prefix(data).unwrap().display().to_string();
        // What is removed while we look is gone.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let inflated = match path.extension().and_then(|kind| kind.to_str()) {
            Some("zst") => zstd::stream::decode_all(&*bytes).unwrap(),
            Some("zip") => export::unzip(&bytes).into_values().collect::<String>().into_bytes(),
            _ => Vec::new(),
        };
        for needle in needles {
            if has(&bytes, needle) || has(&inflated, needle) || name.contains(needle) {
                found.push(format!("{needle} in {name}"));
            }
        }
    }
    found.sort();
    found
}

/// Files in which an organization's id stands, as text or as its sixteen bytes, or whose path names it.
fn files_naming(data: &Path, org: &str) -> Vec<String> {
    let raw = org.parse::<uuid::Uuid>().unwrap().into_bytes();
    let mut found = Vec::new();
    for path in files(data) {
        let name = path.strip_prefix(data).unwrap().display().to_string();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if name.contains(org) || has(&bytes, org) || memchr::memmem::find(&bytes, &raw).is_some() {
            found.push(name);
        }
    }
    found
}

/// The erasures as the operator sees them, newest first.
async fn erasures(at: &Appliance) -> Vec<Value> {
    at.operator(Request::Erasures { limit: 20 }).await.as_array().unwrap().clone()
}

/// Waits until an erasure is done, and gives its receipt.
async fn receipt(at: &Appliance, id: &str) -> Value {
    eventually("the erasure is done", DONE_MAX, || async {
        let all = erasures(at).await;
        let erasure = all.into_iter().find(|erasure| erasure["id"] == id).expect("it is listed");
        (erasure["state"] == "done").then_some(erasure)
    })
    .await
}

/// Erases the member's organization, waits for the end and gives the receipt.
async fn erase(at: &Appliance, member: &Member, name: &str) -> Value {
    let started = expect(delete(&member.browser, CURRENT, &json!({ "confirmName": name })).await, 202);
    receipt(at, text(&started, "erasureId")).await
}
