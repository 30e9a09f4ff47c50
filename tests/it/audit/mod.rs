//! The audit log over HTTP: a row for every change of state and every refusal, found, exported, and provable.

mod doctor;
mod walk;

use crate::harness::Request;
use crate::harness::{Appliance, Member, PASSWORD, eventually, expect, get, post, refused, text};
use base::audit::Action;
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const LOGS: &str = "/api/v1/audit-logs"; // listAuditLogs

/// The newest rows that a query finds.
async fn logs(client: &Client, query: &str) -> Vec<Value> {
    let page = expect(get(client, &format!("{LOGS}?limit=200&{query}")).await, 200);
    page["items"].as_array().unwrap().clone()
}

/// The newest rows of the box's own chain.
async fn box_logs(at: &Appliance) -> Vec<Value> {
    at.operator(Request::Audit { org: None, limit: 200 }).await.as_array().unwrap().clone()
}

fn of<'a>(rows: &'a [Value], action: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["action"] == action).collect()
}

/// Adds a member by invitation and gives their browser.
async fn join(at: &Appliance, owner: &Member, name: &str, role: &str) -> (String, Client) {
    let email = format!("{name}@example.com");
    let invite = json!({ "email": email, "role": role });
    expect(post(&owner.browser, "/api/v1/orgs/current/invites", &invite).await, 201);
    let token = at.mailed_token("gli_").await;
    let person = json!({ "email": email, "password": PASSWORD, "name": name });
    let login = expect(post(&at.client(), "/api/v1/auth/register", &person).await, 201);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let joined = expect(post(&browser, "/api/v1/invites/accept", &json!({ "token": token })).await, 200);
    (text(&login["user"], "id").to_owned(), at.client().bearer(text(&joined, "accessToken")))
}

async fn log_in(client: &Client, email: &str, password: &str) -> Reply {
    post(client, "/api/v1/auth/login", &json!({ "email": email, "password": password })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_logins_are_rows_of_the_account_and_of_the_box() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let wrong = log_in(&at.client(), &owner.email, "not the password").await;
    assert_eq!(wrong.status, 401);
    let rows = logs(&owner.browser, "action=auth.login_refused").await;
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((text(&row["actor"], "type"), &row["actor"]["id"]), ("anonymous", &Value::Null));
    assert_eq!((text(row, "resourceId"), text(row, "resourceType")), (owner.user_id.as_str(), "user"));
    assert_eq!(text(row, "requestId"), wrong.header("x-request-id"));
    assert_eq!((text(row, "ip"), text(&row["details"], "reason")), ("127.0.0.1", "password"));

    // Nobody has this address: the box's own chain, and not a word of what was typed.
    let unknown = log_in(&at.client(), "stranger@example.com", "whatever it is").await;
    assert_eq!(unknown.status, 401);
    let rows = box_logs(&at).await;
    let refused = of(&rows, "auth.login_refused");
    assert_eq!(refused.len(), 1);
    assert_eq!(text(refused[0], "requestId"), unknown.header("x-request-id"));
    assert!(!refused[0].to_string().contains("stranger"));
    assert_eq!(logs(&owner.browser, "action=auth.login_refused").await.len(), 1);

    // The others of the same minute are counted: one more row, whatever their number.
    for _ in 0..6 {
        assert_eq!(log_in(&at.client(), &owner.email, "not the password").await.status, 401);
    }
    assert_eq!(logs(&owner.browser, "action=auth.login_refused").await.len(), 1);
    at.clock.advance(Duration::from_secs(60));
    flush(&at);
    let login = expect(log_in(&at.client(), &owner.email, PASSWORD).await, 200);
    let browser = at.client().bearer(text(&login, "accessToken"));
    let rows = logs_when(&browser, "action=auth.login_refused", 2).await;
    assert_eq!((rows.len(), &rows[0]["details"]["repeated"]), (2, &json!(6)));
    // Too many: the limit's own refusals stand in the box's chain.
    for _ in 0..10 {
        log_in(&at.client(), &owner.email, "not the password").await;
    }
    assert_eq!(log_in(&at.client(), &owner.email, PASSWORD).await.status, 429);
    assert_eq!(of(&box_logs(&at).await, "auth.login_throttled").len(), 1);
    at.stop().await;
}

/// Lets the task that writes counted refusals look now.
fn flush(at: &Appliance) {
    at.app().services().service::<server::task::Signals>().wake("audit.refusals");
}

/// The rows that a query finds when there are this many.
async fn logs_when(client: &Client, query: &str, count: usize) -> Vec<Value> {
    eventually("the rows are there", Duration::from_secs(60), || async {
        let rows = logs(client, query).await;
        (rows.len() >= count).then_some(rows)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_permissions_are_rows_that_name_the_operation() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let (bob, browser) = join(&at, &owner, "bob", "viewer").await;
    let denied = post(&browser, "/api/v1/jobs", &json!({ "url": "https://shop.example/" })).await;
    refused(&denied, 403, "Insufficient permissions", "jobs:write");
    for _ in 0..20 {
        assert_eq!(get(&browser, LOGS).await.status, 403, "a viewer does not read the log");
    }
    let path = format!("/api/v1/orgs/current/members/{}", owner.user_id);
    assert_eq!(browser.delete(&path).await.unwrap().status, 403, "refused by the handler and not the gate");
    let rows = logs(&owner.browser, &format!("actor={bob}&action=access.denied")).await;
    let operations: Vec<_> = rows.iter().map(|row| text(row, "resourceId")).collect();
    assert_eq!(operations, ["removeMember", "listAuditLogs", "submitJob"], "newest first, one of a kind");
    let row = &rows[2];
    assert_eq!(text(row, "requestId"), denied.header("x-request-id"));
    assert_eq!((text(row, "resourceType"), text(&row["details"], "code")), ("operation", "auth_forbidden"));
    assert_eq!((text(&row["actor"], "type"), text(&row["actor"], "name")), ("user", "bob"));
    at.clock.advance(Duration::from_secs(60));
    flush(&at);
    let login = expect(log_in(&at.client(), &owner.email, PASSWORD).await, 200);
    let admin = at.client().bearer(text(&login, "accessToken"));
    let rows = logs_when(&admin, "action=access.denied", 4).await;
    assert_eq!((rows.len(), &rows[0]["details"]["repeated"]), (4, &json!(19)));
    // A key that allows less than its maker is refused, too, and it is the key that the row names.
    let key = json!({ "name": "reader", "permissions": ["jobs:read"] });
    let made = expect(post(&admin, "/api/v1/api-keys", &key).await, 201);
    let reader = at.client().bearer(text(&made, "secret"));
    assert_eq!(get(&reader, LOGS).await.status, 403);
    let id = text(&made["apiKey"], "id");
    let rows = logs(&admin, &format!("actor={id}")).await;
    assert_eq!((rows.len(), text(&rows[0], "action")), (1, "access.denied"));
    let actor = &rows[0]["actor"];
    assert_eq!((text(actor, "type"), text(actor, "id"), text(actor, "name")), ("api_key", id, "reader"));
    assert_eq!(text(actor, "userId"), owner.user_id);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_pages_and_bad_input() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    for n in 0..5 {
        let key = json!({ "name": format!("key {n}") });
        expect(post(&owner.browser, "/api/v1/api-keys", &key).await, 201);
        let urls = json!({ "urls": [format!("https://shop.example/{n}")] });
        expect(post(&owner.api, "/api/v1/urls", &urls).await, 200);
        at.clock.advance(Duration::from_secs(60));
    }
    assert_eq!(logs(&owner.browser, "action=url.created").await.len(), 5);
    assert_eq!(logs(&owner.browser, "resourceType=api_key").await.len(), 6, "and the harness's own");
    assert_eq!(logs(&owner.browser, "resourceType=api_key&action=url.created").await.len(), 0);
    let all = logs(&owner.browser, "").await;
    let by_owner = logs(&owner.browser, &format!("actor={}", owner.user_id)).await;
    assert_eq!(by_owner.len(), all.iter().filter(|row| row["actor"]["type"] != "operator").count());
    let key = text(&of(&all, "url.created")[0]["actor"], "id").to_owned();
    assert_eq!(logs(&owner.browser, &format!("actor={key}")).await.len(), 5);
    assert!(logs(&owner.browser, "actor=01900000-0000-7000-8000-000000000000").await.is_empty());
    let times: Vec<_> = all.iter().map(|row| text(row, "at")).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    let numbers: Vec<_> = all.iter().map(|row| row["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=all.len() as u64).rev().collect::<Vec<_>>(), "without gaps");

    let created = of(&all, "url.created");
    let (from, to) = (text(created[3], "at"), text(created[1], "at"));
    let window = logs(&owner.browser, &format!("from={from}&to={to}&action=url.created")).await;
    assert_eq!(window, [created[2].clone(), created[3].clone()], "from is in, to is not");

    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("{LOGS}?limit=2&action=url.created&cursor={cursor}");
        let page = expect(get(&owner.browser, &path).await, 200);
        seen.extend(page["items"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
        let urls = json!({ "urls": [format!("https://shop.example/more/{}", seen.len())] });
        expect(post(&owner.api, "/api/v1/urls", &urls).await, 200);
    }
    assert_eq!(
        seen,
        created.into_iter().cloned().collect::<Vec<_>>(),
        "rows that come meanwhile change nothing"
    );

    for (query, part) in [
        ("action=url.flown", "action: "),
        ("actor=ada", "actor: "),
        ("resourceType=shoe", "resourceType: must be one of access"),
        ("from=yesterday", "from: "),
        ("to=2026-13-01", "to: "),
        ("cursor=damaged", "cursor: "),
        ("limit=0", "limit: "),
    ] {
        let part = part.trim_end_matches("access");
        refused(&get(&owner.browser, &format!("{LOGS}?{query}")).await, 400, "Validation failed", part);
    }
    refused(&get(&at.client(), LOGS).await, 401, "Authentication required", "");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_export_is_the_whole_log_and_nobody_elses() {
    let at = Appliance::start().await;
    let (owner, other) = (at.member("ada").await, at.member("eve").await);
    // More than one page of the stream.
    for n in 0..450 {
        let urls = json!({ "urls": [format!("https://shop.example/{n}")] });
        expect(post(&owner.api, "/api/v1/urls", &urls).await, 200);
    }
    let lines = owner.browser.header("accept", "application/x-ndjson");
    let reply = get(&lines, LOGS).await;
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, "application/x-ndjson"));
    let exported: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = expect(get(&owner.browser, &format!("{LOGS}?limit=200&cursor={cursor}")).await, 200);
        paged.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert!(exported.len() > 450 && exported == paged, "{} lines, {} rows", exported.len(), paged.len());
    let urls = get(&lines, &format!("{LOGS}?action=url.created")).await.text();
    assert_eq!(urls.lines().count(), 450);
    let none = get(&lines, &format!("{LOGS}?to=2000-01-01T00:00:00Z")).await;
    assert_eq!((none.status.as_u16(), none.text().as_str()), (200, ""));
    refused(&get(&lines, &format!("{LOGS}?action=nothing")).await, 400, "Validation failed", "action");
    assert_eq!(get(&at.client().header("accept", "application/x-ndjson"), LOGS).await.status, 401);

    let theirs = logs(&other.browser, "").await;
    let mine: Vec<_> = exported.iter().map(|row| row["id"].clone()).collect();
    assert!(!theirs.is_empty() && theirs.iter().all(|row| !mine.contains(&row["id"])));
    assert!(logs(&other.browser, &format!("actor={}", owner.user_id)).await.is_empty());
    let foreign = get(&other.browser, &format!("{LOGS}?cursor={cursor}")).await;
    assert!(!foreign.text().contains(&owner.user_id), "another's cursor leads into one's own log");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_survives_a_restart_and_old_rows_are_pruned() {
    let mut at = Appliance::start_with(&[("AUDIT__RETENTION_DAYS", "30")]).await;
    let owner = at.member("ada").await;
    let before = logs(&owner.browser, "").await;
    at.restart().await;
    assert_eq!(logs(&at.client().bearer(&owner.key), "").await, before);
    at.clock.advance(Duration::from_secs(31 * 86_400));
    at.app().services().service::<server::task::Signals>().wake("audit.prune");
    let reader = at.client().bearer(&owner.key);
    let rows = crate::harness::eventually("old rows go", Duration::from_secs(10), || async {
        let rows = logs(&reader, "").await;
        (!of(&rows, "audit.pruned").is_empty()).then_some(rows)
    })
    .await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["details"]["count"], text(&rows[0]["actor"], "type")),
        (&json!(before.len()), "system")
    );
    at.stop().await;
}

/// The reference names every action, so that a reader of the log need not guess.
#[test]
fn the_vocabulary_stands_in_the_reference() {
    let document = server::openapi::document(&gleaner::app::routes());
    let operation = &document["paths"][LOGS]["get"];
    let parameter = operation["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "action");
    let text = parameter.unwrap().to_string();
    for action in Action::ALL {
        assert!(text.contains(&format!("\"{}\"", action.name())), "{} is not in {text}", action.name());
    }
    assert!(operation["responses"]["200"]["content"]["application/x-ndjson"].is_object());
}

/// Every action of the vocabulary is written by somebody.
#[test]
fn no_action_is_a_dead_word() {
    fn walk(folder: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, text);
            } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut text = String::new();
    walk(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("src"), &mut text);
    for action in Action::ALL {
        assert!(text.contains(&format!("Action::{action:?}")), "nothing writes {}", action.name());
    }
}

pub async fn patch(client: &Client, path: &str, body: &Value) -> Reply {
    client.send(Method::PATCH, path, Some(body)).await.unwrap()
}
