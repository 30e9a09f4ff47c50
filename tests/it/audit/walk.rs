//! Every operation that changes something, called with success: it leaves a row that names who, what, which thing and the
//! request. A route that is in neither list fails the walk, so a new one cannot be forgotten.
//!
//! That no operation of the store changes rows for a person without a row is held by the store itself in every test.

mod dispatch;

use super::{box_logs, logs, patch};
use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, PASSWORD, collect, ended, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::RouteGroup;
use server::client::{Client, Reply};
use std::collections::BTreeSet;
use std::time::Duration;

/// Operations that are no GET and leave no row, and why.
const SILENT: &[(&str, &str)] = &[
    ("convertSavedQuery", "reads a saved query and changes nothing"),
    ("pollJobs", "looks and changes nothing"),
    ("testXpath", "tries attributes on a stored page and keeps nothing"),
    ("previewOutput", "tries a filter on what has happened and keeps nothing"),
    ("proposeXpath", "reads stored pages and keeps nothing"),
    ("validateWorkflow", "looks and changes nothing"),
    ("testProvider", "fetches a page and keeps nothing"),
    ("refreshTokens", "a login goes on; its beginning, its end and a reused token have rows"),
    ("startCliAuth", "changes nothing before a person approves it, and anybody may call it"),
];

/// A row that must be there.
struct Due<'a> {
    action: &'a str,
    /// The id or name of the thing; any when empty.
    resource: &'a str,
    /// Type and id of who acted.
    actor: (&'a str, &'a str),
}

struct Walk<'a> {
    at: &'a Appliance,
    /// Reads the organization's log.
    reader: Client,
    walked: BTreeSet<&'static str>,
}

impl Walk<'_> {
    /// Asserts that an answer is a success and that its request left the row; gives the body.
    async fn left(&mut self, operation: &'static str, reply: Reply, due: Due<'_>) -> Value {
        assert!(reply.status.is_success(), "{operation}: {} {}", reply.status, reply.text());
        let id = reply.header("x-request-id").to_owned();
        let mut rows = logs(&self.reader, "").await;
        rows.extend(box_logs(self.at).await);
        let of_request: Vec<_> = rows.iter().filter(|row| row["requestId"] == id.as_str()).collect();
        let row = of_request.iter().find(|row| row["action"] == due.action);
        let row = row.unwrap_or_else(|| panic!("{operation} left no {}: {of_request:?}", due.action));
        assert!(due.resource.is_empty() || row["resourceId"] == due.resource, "{operation}: {row}");
        let actor = (row["actor"]["type"].as_str().unwrap(), row["actor"]["id"].as_str().unwrap_or(""));
        assert_eq!(actor, due.actor, "{operation}: {row}");
        assert_eq!(row["ip"], "127.0.0.1", "{operation}: {row}");
        assert!(row["action"].as_str().unwrap().contains('.') && row["resourceType"].is_string());
        self.walked.insert(operation);
        reply.json
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_that_changes_something_leaves_a_row() {
    let web = Web::open(|path| {
        let delay_ms = if path == "/fast" { 0 } else { 20_000 };
        Some(Answer::html("<title>a page</title>").after_ms(delay_ms))
    })
    .await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("DISPATCH__ROBOTS", "false")]).await;
    let owner = at.member("ada").await;
    let key = expect(get(&owner.browser, "/api/v1/auth/me").await, 200);
    assert_eq!(key["authMethod"], "jwt");
    let keys = expect(get(&owner.browser, "/api/v1/api-keys").await, 200);
    let key = text(&keys["items"][0], "id").to_owned();
    let mut walk = Walk { at: &at, reader: owner.api.clone(), walked: BTreeSet::new() };
    let bob = people(&mut walk, &owner.browser, &owner.user_id).await;
    organization(&mut walk, &owner.browser, &owner.user_id, &bob).await;
    recharges(&mut walk, &owner.browser, &owner.user_id).await;
    devices(&mut walk, &owner.browser, &owner.user_id).await;
    dispatch::dispatching(&mut walk, &web, &owner.api, &key).await;
    collecting(&mut walk, &web, &owner.api, &key).await;
    schedules(&mut walk, &owner.api, &key).await;
    inputs(&mut walk, &owner.api, &key).await;
    outputs(&mut walk, &web, &owner.api, &key).await;
    monitors(&mut walk, &owner.api, &key).await;
    dashboards(&mut walk, &owner.api, &key).await;
    storages(&mut walk, &owner.api, &owner.org_id, &key).await;
    console(&mut walk, &owner.api, &key).await;
    erasures(&mut walk).await;
    sessions(&mut walk, &owner.email, &owner.user_id).await;

    let mut forgotten = Vec::new();
    for RouteGroup { routes, .. } in gleaner::app::routes() {
        for route in routes.iter().filter(|route| route.method() != "GET") {
            let excused = SILENT.iter().any(|(id, _)| *id == route.id());
            assert!(!(excused && walk.walked.contains(route.id())), "{} leaves a row after all", route.id());
            if !excused && !walk.walked.contains(route.id()) {
                forgotten.push(format!("{} {} ({})", route.method(), route.path(), route.id()));
            }
        }
    }
    assert!(
        forgotten.is_empty(),
        "call these in this walk and say which row they leave, or say in SILENT why they leave none:\n  {}",
        forgotten.join("\n  ")
    );
    at.stop().await;
}

/// A second person: registers, verifies, joins and leaves again. Gives their id.
async fn people(walk: &mut Walk<'_>, owner: &Client, owner_id: &str) -> String {
    let at = walk.at;
    let person = json!({ "email": "bob@example.com", "password": PASSWORD, "name": "Bob" });
    let reply = post(&at.client(), "/api/v1/auth/register", &person).await;
    let id = text(&reply.json["user"], "id").to_owned();
    let bob = Due { action: "user.registered", resource: &id, actor: ("user", &id) };
    let login = walk.left("register", reply, bob).await;
    let browser = at.client().bearer(text(&login, "accessToken"));

    let reply = post(&browser, "/api/v1/auth/resend-verification", &json!({})).await;
    let due = Due { action: "auth.verification_sent", resource: &id, actor: ("user", &id) };
    walk.left("resendVerification", reply, due).await;
    let token = at.mailed_token("glv_").await;
    let reply = post(&at.client(), "/api/v1/auth/verify-email", &json!({ "token": token })).await;
    let due = Due { action: "user.verified", resource: &id, actor: ("user", &id) };
    walk.left("verifyEmail", reply, due).await;

    let invite = json!({ "email": "bob@example.com", "role": "viewer" });
    let reply = post(owner, "/api/v1/orgs/current/invites", &invite).await;
    let due = Due { action: "invite.created", resource: "", actor: ("user", owner_id) };
    let invited = walk.left("createInvite", reply, due).await;
    let row = &logs(owner, "action=invite.created").await[0];
    assert_eq!(row["resourceId"], invited["id"]);
    assert_eq!(
        (&row["details"]["role"], &row["details"]["email"]),
        (&json!("viewer"), &json!("bob@example.com"))
    );
    let token = at.mailed_token("gli_").await;
    let reply = post(&browser, "/api/v1/invites/accept", &json!({ "token": token })).await;
    let due = Due { action: "member.joined", resource: &id, actor: ("user", &id) };
    walk.left("acceptInvite", reply, due).await;

    let again = json!({ "email": "carol@example.com", "role": "viewer" });
    let second = expect(post(owner, "/api/v1/orgs/current/invites", &again).await, 201);
    let invite = text(&second, "id");
    let reply = owner.delete(&format!("/api/v1/orgs/current/invites/{invite}")).await.unwrap();
    let due = Due { action: "invite.deleted", resource: invite, actor: ("user", owner_id) };
    walk.left("deleteInvite", reply, due).await;
    id
}

async fn organization(walk: &mut Walk<'_>, owner: &Client, owner_id: &str, bob: &str) {
    let member = format!("/api/v1/orgs/current/members/{bob}");
    let reply = patch(owner, &member, &json!({ "role": "editor" })).await;
    let due = Due { action: "member.role_changed", resource: bob, actor: ("user", owner_id) };
    walk.left("updateMember", reply, due).await;
    let row = &logs(owner, "action=member.role_changed").await[0];
    assert_eq!(row["details"], json!({ "from": "viewer", "to": "editor" }));
    let reply = owner.delete(&member).await.unwrap();
    let due = Due { action: "member.removed", resource: bob, actor: ("user", owner_id) };
    walk.left("removeMember", reply, due).await;
    let reply = patch(owner, "/api/v1/orgs/current", &json!({ "name": "Renamed" })).await;
    let due = Due { action: "org.updated", resource: "", actor: ("user", owner_id) };
    walk.left("updateOrg", reply, due).await;
    let reply = post(owner, "/api/v1/api-keys", &json!({ "name": "another" })).await;
    let made = text(&reply.json["apiKey"], "id").to_owned();
    let due = Due { action: "api_key.created", resource: &made, actor: ("user", owner_id) };
    walk.left("createApiKey", reply, due).await;
    let reply = owner.delete(&format!("/api/v1/api-keys/{made}")).await.unwrap();
    let due = Due { action: "api_key.deleted", resource: &made, actor: ("user", owner_id) };
    walk.left("deleteApiKey", reply, due).await;

    // Somebody else's organization, whose log only its owner reads.
    let person = json!({ "email": "dora@example.com", "password": PASSWORD, "name": "Dora" });
    let login = expect(post(&walk.at.client(), "/api/v1/auth/register", &person).await, 201);
    let dora = walk.at.client().bearer(text(&login, "accessToken"));
    let reply = post(&dora, "/api/v1/orgs", &json!({ "name": "Dora's" })).await;
    let org = text(&reply.json["organization"], "id").to_owned();
    let reader = std::mem::replace(&mut walk.reader, dora);
    let id = text(&login["user"], "id");
    walk.left("createOrg", reply, Due { action: "org.created", resource: &org, actor: ("user", id) }).await;
    walk.reader = reader;
}

async fn devices(walk: &mut Walk<'_>, owner: &Client, owner_id: &str) {
    let anybody = walk.at.client();
    let started =
        expect(post(&anybody, "/api/v1/cli-auth/start", &json!({ "hostname": "laptop" })).await, 200);
    let code = json!({ "user_code": started["user_code"] });
    let reply = post(owner, "/api/v1/cli-auth/approve", &code).await;
    let due = Due { action: "cli_auth.approved", resource: "", actor: ("user", owner_id) };
    walk.left("approveCliAuth", reply, due).await;
    let key = logs(owner, "action=cli_auth.approved").await[0]["resourceId"].clone();
    let poll = json!({ "device_code": started["device_code"] });
    let reply = post(&anybody, "/api/v1/cli-auth/poll", &poll).await;
    let due = Due { action: "cli_auth.delivered", resource: key.as_str().unwrap(), actor: ("anonymous", "") };
    walk.left("pollCliAuth", reply, due).await;
}

async fn own_attributes(walk: &mut Walk<'_>, web: &Web, api: &Client, by_key: (&str, &str)) {
    let path = "/api/v1/extraction/attributes/127.0.0.1";
    let due = || Due { action: "attributes.saved", resource: "127.0.0.1", actor: by_key };
    let title = json!({ "name": "title", "xpaths": ["//title"], "type": "text", "pageType": "article" });
    let reply = api.put(path, &json!({ "attributes": [title] })).await.unwrap();
    walk.left("putDomainAttributes", reply, due()).await;
    let job = json!({ "url": web.url("/fast"), "pageType": "article" });
    let job = expect(post(api, "/api/v1/jobs", &job).await, 201);
    ended(api, text(&job, "id")).await;
    let heading = json!({ "name": "heading", "xpaths": ["//h1"], "type": "text" });
    let reply = post(api, path, &heading).await;
    walk.left("addDomainAttribute", reply, due()).await;
    let asked = json!({ "domain": "127.0.0.1", "pageType": "article" });
    let reply = post(api, "/api/v1/extraction/backfill", &asked).await;
    let due_of_rows = Due { action: "result.backfilled", resource: "", actor: by_key };
    walk.left("backfillResults", reply, due_of_rows).await;
    // Among them pages of which nobody had said what they are.
    assert!(logs(api, "action=result.backfilled").await[0]["details"]["count"].as_u64() >= Some(1));
    let reply = post(api, "/api/v1/extraction/discover", &json!({ "domain": "127.0.0.1" })).await;
    let due_of_discovery = Due { action: "discovery.started", resource: "", actor: by_key };
    walk.left("discoverSchema", reply, due_of_discovery).await;
    let second = expect(post(api, "/api/v1/jobs", &json!({ "url": web.url("/fast?2") })).await, 201);
    ended(api, text(&second, "id")).await;
    let examples: Vec<Value> =
        [&job, &second].map(|job| json!({ "jobId": job["id"], "values": { "taught": "a page" } })).into();
    let lesson = json!({ "domain": "127.0.0.1", "pageType": "article", "examples": examples, "save": true });
    let reply = post(api, "/api/v1/extraction/learn", &lesson).await;
    walk.left("learnFromExamples", reply, due()).await;
    expect(api.delete(&format!("{path}/taught")).await.unwrap(), 204);
    let reply = api.delete(&format!("{path}/heading")).await.unwrap();
    walk.left("deleteDomainAttribute", reply, due()).await;
    // As it was before.
    assert_eq!(api.delete(&format!("{path}/title")).await.unwrap().status, 204);
    expect(
        post(api, "/api/v1/extraction/results/delete", &json!({ "filter": { "domain": "127.0.0.1" } })).await,
        200,
    );
}

async fn collecting(walk: &mut Walk<'_>, web: &Web, api: &Client, key: &str) {
    let by_key = ("api_key", key);
    let results = "/api/v1/extraction/results";
    let job = collect(api, &web.url("/fast")).await;
    let result = text(&job, "resultId").to_owned();
    let reply = api.delete(&format!("{results}/by-id/{result}")).await.unwrap();
    let due = Due { action: "result.deleted", resource: &result, actor: by_key };
    walk.left("deleteResult", reply, due).await;
    let job = collect(api, &web.url("/fast")).await;
    let reply = post(api, &format!("{results}/delete"), &json!({ "ids": [job["resultId"]] })).await;
    let due = Due { action: "result.deleted", resource: "", actor: by_key };
    walk.left("deleteResults", reply, due).await;

    own_attributes(walk, web, api, by_key).await;
    let reply = post(api, "/api/v1/urls", &json!({ "urls": [web.url("/a")] })).await;
    walk.left("createUrls", reply, Due { action: "url.created", resource: "", actor: by_key }).await;
    let urls = expect(get(api, "/api/v1/urls").await, 200);
    assert_eq!(logs(api, "action=url.created").await[0]["resourceId"], urls["items"][0]["id"]);
    expect(post(api, "/api/v1/urls", &json!({ "urls": [web.url("/a")] })).await, 200);
    assert_eq!(logs(api, "action=url.created").await.len(), 1, "what changes nothing leaves nothing");
    let url = text(&urls["items"][0], "id").to_owned();
    let reply = api.patch(&format!("/api/v1/urls/{url}"), &json!({ "tags": ["x"] })).await.unwrap();
    walk.left("updateUrl", reply, Due { action: "url.updated", resource: &url, actor: by_key }).await;
    let reply = api.delete(&format!("/api/v1/urls/{url}")).await.unwrap();
    walk.left("deleteUrl", reply, Due { action: "url.deleted", resource: &url, actor: by_key }).await;
    expect(post(api, "/api/v1/urls", &json!({ "urls": [web.url("/a")] })).await, 200);
    let file = format!("url,tags\n{},uploaded\n", web.url("/a"));
    let reply =
        api.send_bytes(http::Method::POST, "/api/v1/urls/upload", Some("text/csv"), file).await.unwrap();
    walk.left("uploadUrls", reply, Due { action: "url.created", resource: "", actor: by_key }).await;
    let ask = json!({ "filter": { "domain": "127.0.0.1" } });
    let change = json!({ "filter": ask["filter"], "addTags": ["many"] });
    let reply = post(api, "/api/v1/urls/update", &change).await;
    walk.left("updateUrls", reply, Due { action: "url.updated", resource: "", actor: by_key }).await;
    let reply = post(api, "/api/v1/urls/delete", &ask).await;
    walk.left("deleteUrls", reply, Due { action: "url.deleted", resource: "", actor: by_key }).await;

    let job = json!({ "url": web.url("/a"), "externalId": "one" });
    let reply = post(api, "/api/v1/jobs", &job).await;
    let id = text(&reply.json, "id").to_owned();
    walk.left("submitJob", reply, Due { action: "job.submitted", resource: &id, actor: by_key }).await;
    expect(post(api, "/api/v1/jobs", &job).await, 200);
    let rows = logs(api, "action=job.submitted").await;
    let submissions = rows.iter().filter(|row| row["resourceId"] == id.as_str()).count();
    assert_eq!(submissions, 1, "the same submission again changes nothing");
    let reply = post(api, &format!("/api/v1/jobs/{id}/cancel"), &json!({})).await;
    walk.left("cancelJob", reply, Due { action: "job.canceled", resource: &id, actor: by_key }).await;
    let reply = post(api, &format!("/api/v1/jobs/{id}/retry"), &json!({})).await;
    let again = text(&reply.json, "id").to_owned();
    walk.left("retryJob", reply, Due { action: "job.retried", resource: &again, actor: by_key }).await;
    assert_eq!(logs(api, "action=job.retried").await[0]["details"]["of"], id.as_str());

    let jobs: Vec<_> = (0..30).map(|n| json!({ "url": web.url(&format!("/batch/{n}")) })).collect();
    let reply = post(api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await;
    let due = Due { action: "job.batch_submitted", resource: "", actor: by_key };
    let made = walk.left("submitJobs", reply, due).await;
    let rows = logs(api, "action=job.batch_submitted").await;
    assert_eq!((rows.len(), &rows[0]["details"]["count"]), (1, &json!(30)), "one row for a batch");
    let named = rows[0]["details"]["ids"].as_array().unwrap();
    assert_eq!((named.len(), &named[0]), (20, &made["jobs"][0]["id"]), "the first of them are named");

    let batch = text(&made, "batchId").to_owned();
    let reply = post(api, &format!("/api/v1/batches/{batch}/cancel"), &json!({})).await;
    walk.left("cancelBatch", reply, Due { action: "batch.canceled", resource: &batch, actor: by_key }).await;
    let nobody = json!({ "jobs": [{ "url": "http://nobody.invalid/" }] });
    let made = expect(post(api, "/api/v1/jobs/batch", &nobody).await, 201);
    let batch = text(&made, "batchId").to_owned();
    ended(api, text(&made["jobs"][0], "id")).await;
    let reply = post(api, &format!("/api/v1/batches/{batch}/retry"), &json!({})).await;
    walk.left("retryBatch", reply, Due { action: "batch.retried", resource: &batch, actor: by_key }).await;
}

async fn schedules(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let by_key = ("api_key", key);
    let path = "/api/v1/schedules";
    let new = json!({ "name": "one", "cron": "0 0 1 1 *", "tagFilters": ["nobody has it"] });
    let reply = post(api, path, &new).await;
    let id = text(&reply.json, "id").to_owned();
    let due = |action| Due { action, resource: &id, actor: by_key };
    walk.left("createSchedule", reply, due("schedule.created")).await;
    let one = format!("{path}/{id}");
    let reply = api.send(http::Method::PUT, &one, Some(&new)).await.unwrap();
    walk.left("updateSchedule", reply, due("schedule.updated")).await;
    let reply = patch(api, &format!("{one}/toggle"), &json!({ "isEnabled": false })).await;
    walk.left("toggleSchedule", reply, due("schedule.toggled")).await;
    let reply = post(api, &format!("{one}/trigger"), &json!({})).await;
    walk.left("triggerSchedule", reply, due("schedule.triggered")).await;
    let reply = api.delete(&one).await.unwrap();
    walk.left("deleteSchedule", reply, due("schedule.deleted")).await;
}

async fn inputs(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let by_key = ("api_key", key);
    let path = "/api/v1/inputs";
    let reply = post(api, path, &json!({ "kind": "webhook", "tags": ["sent"] })).await;
    let id = text(&reply.json, "id").to_owned();
    let address = text(&reply.json, "ingestUrl").to_owned();
    let due = |action| Due { action, resource: &id, actor: by_key };
    walk.left("createInput", reply, due("input.created")).await;
    let one = format!("{path}/{id}");
    let reply = patch(api, &one, &json!({ "name": "another" })).await;
    walk.left("updateInput", reply, due("input.updated")).await;
    let path = &address[address.find("/api/").unwrap()..];
    let reply = post(&walk.at.client(), path, &json!({ "url": "https://example.com/sent" })).await;
    let sent = Due { action: "url.created", resource: "", actor: ("anonymous", "") };
    walk.left("ingestUrls", reply, sent).await;
    let feed = json!({ "kind": "feed", "url": "http://nobody.invalid/feed" });
    let feed = text(&expect(post(api, "/api/v1/inputs", &feed).await, 201), "id").to_owned();
    let reply = post(api, &format!("/api/v1/inputs/{feed}/run"), &json!({})).await;
    let run = Due { action: "input.triggered", resource: &feed, actor: by_key };
    walk.left("runInput", reply, run).await;
    let reply = api.delete(&one).await.unwrap();
    walk.left("deleteInput", reply, due("input.deleted")).await;
}

async fn outputs(walk: &mut Walk<'_>, web: &Web, api: &Client, key: &str) {
    let (path, by_key) = ("/api/v1/outputs", ("api_key", key));
    let new = json!({ "kind": "webhook", "url": web.url("/fast"), "events": ["output.*", "input.*"] });
    let reply = post(api, path, &new).await;
    let id = text(&reply.json, "id").to_owned();
    let due = |action| Due { action, resource: &id, actor: by_key };
    walk.left("createOutput", reply, due("output.created")).await;
    let one = format!("{path}/{id}");
    let reply = patch(api, &one, &json!({ "name": "another" })).await;
    walk.left("updateOutput", reply, due("output.updated")).await;
    let reply = post(api, &format!("{one}/test"), &json!({})).await;
    walk.left("testOutput", reply, due("output.tested")).await;
    let reply = post(api, &format!("{one}/recover"), &json!({ "since": "2020-01-01T00:00:00Z" })).await;
    walk.left("recoverDeliveries", reply, due("output.recovered")).await;
    let delivery = eventually("what inputs have told is delivered", Duration::from_secs(20), || async {
        let made = expect(get(api, &format!("{one}/deliveries")).await, 200);
        made["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let reply = post(api, &format!("/api/v1/deliveries/{delivery}/redeliver"), &json!({})).await;
    let repeated = Due { action: "delivery.repeated", resource: &delivery, actor: by_key };
    walk.left("redeliver", reply, repeated).await;
    let reply = api.delete(&one).await.unwrap();
    walk.left("deleteOutput", reply, due("output.deleted")).await;
}

async fn monitors(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let (path, by_key) = ("/api/v1/monitors", ("api_key", key));
    let new = json!({
        "name": "one", "sql": "SELECT 1 AS one", "on": { "cron": "@daily" },
        "condition": { "value": "one", "op": "gt", "threshold": 5 },
    });
    let reply = post(api, path, &new).await;
    let id = text(&reply.json, "id").to_owned();
    let due = |action| Due { action, resource: &id, actor: by_key };
    walk.left("createMonitor", reply, due("monitor.created")).await;
    let one = format!("{path}/{id}");
    let reply = patch(api, &one, &json!({ "name": "another" })).await;
    walk.left("updateMonitor", reply, due("monitor.updated")).await;
    let reply = api.delete(&one).await.unwrap();
    walk.left("deleteMonitor", reply, due("monitor.deleted")).await;
}

async fn dashboards(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let (path, by_key) = ("/api/v1/bi/dashboards", ("api_key", key));
    let reply = post(api, path, &json!({ "name": "one" })).await;
    let id = text(&reply.json, "id").to_owned();
    let due = |action| Due { action, resource: &id, actor: by_key };
    walk.left("createDashboard", reply, due("dashboard.created")).await;
    let one = format!("{path}/{id}");
    let reply = patch(api, &one, &json!({ "name": "another" })).await;
    walk.left("updateDashboard", reply, due("dashboard.updated")).await;
    let reply = api.delete(&one).await.unwrap();
    walk.left("deleteDashboard", reply, due("dashboard.deleted")).await;
}

async fn storages(walk: &mut Walk<'_>, api: &Client, org: &str, key: &str) {
    let path = "/api/v1/storage";
    let new = json!({ "kind": "s3", "bucket": "pages", "endpoint": "http://storage.invalid",
        "accessKeyId": "id", "secretAccessKey": "secret" });
    let due = |action| Due { action, resource: org, actor: ("api_key", key) };
    let reply = api.put(path, &new).await.unwrap();
    walk.left("putStorage", reply, due("storage.changed")).await;
    let reply = api.send(http::Method::POST, &format!("{path}/test"), None).await.unwrap();
    walk.left("testStorage", reply, due("storage.tested")).await;
    let reply = api.delete(path).await.unwrap();
    walk.left("deleteStorage", reply, due("storage.removed")).await;
}

async fn console(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let path = "/api/v1/bi/queries";
    let urls: Vec<_> = (0..300).map(|n| format!("https://shop.example/{n}")).collect();
    expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    eventually("SQL sees the URLs", Duration::from_secs(10), || async {
        let count = json!({ "sql": "SELECT count(*) AS n FROM urls", "waitMs": 10_000 });
        let execution = expect(post(api, path, &count).await, 200);
        (execution["results"]["rows"][0]["n"].as_u64() >= Some(300)).then_some(())
    })
    .await;
    let endless = "SELECT count(*) FROM urls a, urls b, urls c, urls d WHERE a.url || b.url < c.url || d.url";
    let reply = post(api, path, &json!({ "sql": endless, "waitMs": 0 })).await;
    let id = text(&reply.json, "jobId").to_owned();
    let due = Due { action: "bi_query.submitted", resource: &id, actor: ("api_key", key) };
    walk.left("submitBiQuery", reply, due).await;
    let reply = post(api, &format!("{path}/{id}/cancel"), &json!({})).await;
    let due = Due { action: "bi_query.canceled", resource: &id, actor: ("api_key", key) };
    walk.left("cancelBiQuery", reply, due).await;
    saved_queries(walk, api, key).await;
    agents(walk, api, key).await;
    let refused = post(api, path, &json!({ "sql": "SELECT nothing FROM urls", "waitMs": 10_000 })).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let row = &logs(api, "action=bi_query.refused").await[0];
    assert_eq!(row["requestId"], refused.header("x-request-id"));
    // The text of a statement is nobody's business but its own row's.
    assert!(!logs(api, "resourceType=bi_query").await.iter().any(|row| row.to_string().contains("SELECT")));
}

/// A conversation, from its beginning to its end.
async fn agents(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let by_key = ("api_key", key);
    let reply = post(api, "/api/v1/agents", &json!({ "name": "one" })).await;
    let id = text(&reply.json, "id").to_owned();
    let due = Due { action: "agent.created", resource: &id, actor: by_key };
    walk.left("createAgent", reply, due).await;
    let one = format!("/api/v1/agents/{id}");
    let reply = post(api, &format!("{one}/messages"), &json!({ "text": "SELECT 1 AS one" })).await;
    let due = Due { action: "agent.asked", resource: &id, actor: by_key };
    walk.left("sendMessage", reply, due).await;
    let reply = api.delete(&one).await.unwrap();
    let due = Due { action: "agent.deleted", resource: &id, actor: by_key };
    walk.left("deleteAgent", reply, due).await;
}

async fn saved_queries(walk: &mut Walk<'_>, api: &Client, key: &str) {
    let by_key = ("api_key", key);
    let path = "/api/v1/bi/saved-queries";
    let reply = post(api, path, &json!({ "name": "one", "sql": "SELECT 1 AS one" })).await;
    let id = text(&reply.json, "id").to_owned();
    let due = Due { action: "saved_query.created", resource: &id, actor: by_key };
    walk.left("createSavedQuery", reply, due).await;
    let one = format!("{path}/{id}");
    let reply = patch(api, &one, &json!({ "name": "uno" })).await;
    let due = Due { action: "saved_query.updated", resource: &id, actor: by_key };
    walk.left("updateSavedQuery", reply, due).await;
    let run = api.header("idempotency-key", "4f9d6a2e-1f57-4c0b-9a55-0d0f6c1f7c21");
    let reply = post(&run, &format!("{one}/run"), &json!({})).await;
    walk.left("runSavedQuery", reply, Due { action: "bi_query.submitted", resource: "", actor: by_key })
        .await;
    assert_eq!(logs(api, "action=bi_query.submitted").await[0]["details"]["savedQueryId"], id.as_str());
    let body = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
    let query = expect(post(api, "/api/v1/bi/queries", &body).await, 200);
    let exports = format!("/api/v1/bi/queries/{}/exports", text(&query, "jobId"));
    let reply = post(api, &exports, &json!({ "format": "csv" })).await;
    let export = text(&reply.json["export"], "id").to_owned();
    let due = Due { action: "bi_export.requested", resource: &export, actor: by_key };
    walk.left("requestBiExport", reply, due).await;
    let reply = api.delete(&one).await.unwrap();
    let due = Due { action: "saved_query.deleted", resource: &id, actor: by_key };
    walk.left("deleteSavedQuery", reply, due).await;
}

/// More credits.
async fn recharges(walk: &mut Walk<'_>, owner: &Client, owner_id: &str) {
    let reply = post(owner, "/api/v1/plans/recharge-requests", &json!({ "credits": 1_000 })).await;
    let id = text(&reply.json, "id").to_owned();
    let due = Due { action: "recharge.requested", resource: &id, actor: ("user", owner_id) };
    walk.left("createRechargeRequest", reply, due).await;
    let decide = Request::RechargeDecide { id: id.parse().unwrap(), approve: true, note: None };
    walk.at.operator(decide).await;
    let row = &logs(owner, "action=recharge.approved").await[0];
    assert_eq!((&row["resourceId"], &row["actor"]["type"]), (&json!(id), &json!("operator")));
}

/// A person who takes their data and goes, and an organization that is ended: both have left the box's own chain a row.
async fn erasures(walk: &mut Walk<'_>) {
    let anybody = walk.at.client();
    let person = json!({ "email": "erika@example.com", "password": PASSWORD, "name": "Erika" });
    let login = expect(post(&anybody, "/api/v1/auth/register", &person).await, 201);
    let (id, browser) = (text(&login["user"], "id"), anybody.bearer(text(&login, "accessToken")));
    let reply = post(&browser, "/api/v1/account/export", &json!({})).await;
    let due = Due { action: "user.export_requested", resource: id, actor: ("user", id) };
    walk.left("requestAccountExport", reply, due).await;

    let delete = async |client: &Client, path: &str, body: Value| {
        client.send(http::Method::DELETE, path, Some(&body)).await.unwrap()
    };
    let reply = delete(&browser, "/api/v1/account", json!({ "password": PASSWORD })).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    // Found by its person: the erasure may have taken the address and the request's id out of the row already.
    let rows = box_logs(walk.at).await;
    let row = rows.iter().find(|row| row["action"] == "user.erased" && row["resourceId"] == id).unwrap();
    assert_eq!(row["actor"]["id"], id);
    walk.walked.insert("deleteAccount");

    let greta = walk.at.member("greta").await;
    let reply = delete(&greta.browser, "/api/v1/orgs/current", json!({ "confirmName": "greta" })).await;
    let due = Due { action: "org.erased", resource: "", actor: ("user", &greta.user_id) };
    walk.left("deleteOrg", reply, due).await;
}

/// Logging in and out, and a new password; last, because every other session ends.
async fn sessions(walk: &mut Walk<'_>, email: &str, id: &str) {
    let anybody = walk.at.client();
    let credentials = json!({ "email": email, "password": PASSWORD });
    let reply = post(&anybody, "/api/v1/auth/login", &credentials).await;
    let login =
        walk.left("login", reply, Due { action: "auth.login", resource: id, actor: ("user", id) }).await;
    let token = json!({ "refreshToken": login["refreshToken"] });
    let reply = post(&anybody, "/api/v1/auth/logout", &token).await;
    walk.left("logout", reply, Due { action: "auth.logout", resource: id, actor: ("user", id) }).await;

    let asking = expect(post(&anybody, "/api/v1/auth/login", &credentials).await, 200);
    let browser = anybody.bearer(text(&asking, "accessToken"));
    expect(post(&anybody, "/api/v1/auth/login", &credentials).await, 200);
    let list = expect(get(&browser, "/api/v1/account/sessions").await, 200);
    let items = list["items"].as_array().unwrap();
    let other = items.iter().find(|one| one["isCurrent"] == false).unwrap();
    let path = format!("/api/v1/account/sessions/{}", text(other, "id"));
    let due = || Due { action: "auth.logout", resource: id, actor: ("user", id) };
    let reply = browser.delete(&path).await.unwrap();
    walk.left("endSession", reply, due()).await;
    let reply = browser.delete("/api/v1/account/sessions").await.unwrap();
    walk.left("endOtherSessions", reply, due()).await;

    let login = expect(post(&anybody, "/api/v1/auth/login", &credentials).await, 200);
    let token = json!({ "refreshToken": login["refreshToken"] });
    expect(post(&anybody, "/api/v1/auth/refresh", &token).await, 200);
    let reused = post(&anybody, "/api/v1/auth/refresh", &token).await;
    assert_eq!(reused.status, 401);
    let row = &logs(&walk.reader, "action=auth.token_reused").await[0];
    assert_eq!((&row["resourceId"], &row["requestId"]), (&json!(id), &json!(reused.header("x-request-id"))));

    let reply = post(&anybody, "/api/v1/auth/forgot-password", &json!({ "email": email })).await;
    let due = Due { action: "auth.reset_requested", resource: id, actor: ("anonymous", "") };
    walk.left("forgotPassword", reply, due).await;
    let reset = json!({ "token": walk.at.mailed_token("glp_").await, "password": "another long passphrase" });
    let reply = post(&anybody, "/api/v1/auth/reset-password", &reset).await;
    let due = Due { action: "auth.password_reset", resource: id, actor: ("user", id) };
    walk.left("resetPassword", reply, due).await;
}
