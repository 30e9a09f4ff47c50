//! The walk over the route table with two organizations: a foreign id and a missing one answer byte for byte alike.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, ended, eventually, expect, get, post, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use server::{Route, RouteGroup};
use std::time::Duration;
use uuid::Uuid;

/// Which seeded thing the variable of a path names; none for what all organizations share.
const VARIABLES: &[(&str, Option<&str>)] = &[
    // A person's own, and for their browser alone: tests/it/account/export.rs compares the answers.
    ("/api/v1/account/exports/{id}", None),
    // The same: tests/it/account/sessions.rs.
    ("/api/v1/account/sessions/{id}", None),
    ("/api/v1/agents/{id}", Some("agent")),
    ("/api/v1/api-keys/{id}", Some("key")),
    ("/api/v1/batches/{id}", Some("batch")),
    ("/api/v1/benchmarks/{id}", Some("benchmark")),
    ("/api/v1/bi/dashboards/{id}", Some("dashboard")),
    ("/api/v1/bi/exports/{id}", Some("export")),
    ("/api/v1/bi/queries/{id}", Some("query")),
    ("/api/v1/bi/saved-queries/{id}", Some("saved")),
    ("/api/v1/bi/tables/{name}", None),
    // A domain is nobody's: tests/it/attributes.rs compares the answers.
    ("/api/v1/extraction/attributes/{domain}", None),
    ("/api/v1/extraction/discoveries/{id}", Some("discovery")),
    ("/api/v1/extraction/results/by-id/{id}", Some("result")),
    ("/api/v1/extraction/results/{jobId}", Some("job")),
    ("/api/v1/extraction/schemas/{domain}/{pageType}", None),
    // Nobody is asked who they are: tests/it/outputs/feeds.rs compares the answers.
    ("/api/v1/feeds/{token}", None),
    ("/api/v1/inputs/{id}", Some("input")),
    ("/api/v1/jobs/{id}", Some("job")),
    ("/api/v1/optimization/suggestions/{id}", Some("suggestion")),
    ("/api/v1/deliveries/{id}", Some("delivery")),
    ("/api/v1/monitors/{id}", Some("monitor")),
    ("/api/v1/outputs/{id}", Some("output")),
    ("/api/v1/orgs/current/invites/{id}", Some("invite")),
    ("/api/v1/orgs/current/members/{userId}", Some("member")),
    ("/api/v1/providers/{id}", Some("provider")),
    ("/api/v1/raw/{token}", None),
    ("/api/v1/schedules/{id}", Some("schedule")),
    ("/api/v1/site-sessions/{id}", Some("session")),
    ("/api/v1/urls/{id}", Some("url")),
    ("/api/v1/webhooks/{token}", None),
    ("/api/v1/workflows/{id}", Some("workflow")),
];

/// What operations on one thing must be sent, where an empty object will not do.
const BODIES: &[(&str, &str)] = &[
    ("requestBiExport", r#"{"format":"csv"}"#),
    ("sendMessage", r#"{"text":"SELECT 1 AS one"}"#),
    ("setSmartMode", r#"{"mode":"auto"}"#),
    ("setWorkflowRoute", r#"{"route":"*"}"#),
    ("toggleSchedule", r#"{"isEnabled":false}"#),
    ("updateSchedule", r#"{"name":"taken over","cron":"@daily"}"#),
    ("testProvider", r#"{"url":"https://example.com/"}"#),
    ("recoverDeliveries", r#"{"since":"2026-01-01T00:00:00Z"}"#),
    ("updateOutput", r#"{"name":"taken over","isEnabled":false}"#),
    ("updateMember", r#"{"role":"viewer"}"#),
    ("updateProvider", r#"{"name":"taken over","isEnabled":false}"#),
    ("updateWorkflow", r#"{"name":"taken over"}"#),
];

/// One of everything an organization can have.
pub struct Seeded {
    pub member: Member,
    ids: Vec<(&'static str, String)>,
}

impl Seeded {
    /// The path of a route with this organization's own things in it; none where it has no such thing.
    pub fn path_of(&self, route: &Route) -> Option<String> {
        let Some(variable) = route.variables().next() else { return Some(route.path().to_owned()) };
        let (_, kind) = VARIABLES.iter().find(|(prefix, _)| route.path().starts_with(prefix))?;
        let path = route.path().replace(&format!("{{{variable}}}"), self.id((*kind)?));
        Some(path.replace("{version}", "1"))
    }

    fn id(&self, kind: &str) -> &str {
        &self
            .ids
            .iter()
            .find(|(known, _)| *known == kind)
            .unwrap_or_else(|| panic!("nothing seeds a {kind}"))
            .1
    }
}

/// A smart workflow about which something can be suggested: a provider of its ranking is gone.
async fn smart_workflow(member: &Member, name: &str) -> String {
    let second = json!({ "adapter": "direct", "name": "Second" });
    let second = expect(post(&member.api, "/api/v1/providers", &second).await, 201);
    let smart = json!({ "name": format!("/{name}"), "mode": "suggest" });
    let smart = expect(post(&member.api, "/api/v1/workflows/smart", &smart).await, 201);
    let second = format!("/api/v1/providers/{}", text(&second, "id"));
    assert_eq!(member.api.send(Method::DELETE, &second, None).await.unwrap().status, 204);
    text(&smart, "workflowId").to_owned()
}

/// An output that is told of jobs.
async fn output(member: &Member, web: &Web, name: &str) -> String {
    let new = json!({
        "kind": "webhook", "name": format!("/{name}"), "url": web.url("/hook"), "events": ["job.queued"],
    });
    text(&expect(post(&member.api, "/api/v1/outputs", &new).await, 201), "id").to_owned()
}

/// A delivery that was made to it.
async fn delivery(member: &Member, output: &str) -> String {
    eventually("a delivery is made", Duration::from_secs(20), || async {
        let made = expect(get(&member.api, &format!("/api/v1/outputs/{output}/deliveries")).await, 200);
        made["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await
}

pub async fn seed(appliance: &Appliance, web: &Web, name: &str) -> Seeded {
    let member = appliance.member(name).await;
    let url = web.url(&format!("/{name}"));
    let workflow = smart_workflow(&member, name).await;
    expect(post(&member.api, "/api/v1/urls", &json!({ "urls": [url] })).await, 200);
    let urls = expect(get(&member.api, "/api/v1/urls").await, 200);
    let output = output(&member, web, name).await;
    let together = json!({ "name": format!("/{name}"), "jobs": [{ "url": url }] });
    let batch = expect(post(&member.api, "/api/v1/jobs/batch", &together).await, 201);
    let job = ended(&member.api, text(&batch["jobs"][0], "id")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let job_id = text(&job, "id").to_owned();
    eventually("the result is indexed", Duration::from_secs(10), || async {
        (get(&member.api, &format!("/api/v1/extraction/results/{job_id}")).await.status == 200).then_some(())
    })
    .await;
    let benchmark = expect(post(&member.api, "/api/v1/benchmarks", &json!({ "urls": [url] })).await, 201);
    let suggestion = eventually("the worker suggests something", Duration::from_secs(30), || async {
        let listed = expect(get(&member.api, "/api/v1/optimization/suggestions").await, 200);
        listed["items"].as_array().unwrap().first().cloned()
    })
    .await;
    let query =
        post(&member.api, "/api/v1/bi/queries", &json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 })).await;
    let query = expect(query, 200);
    let export = format!("/api/v1/bi/queries/{}/exports", text(&query, "jobId"));
    let export = expect(post(&member.api, &export, &json!({ "format": "csv" })).await, 202);
    let saved = json!({ "name": format!("/{name}"), "sql": "SELECT 1 AS one", "scopeKind": "org" });
    let saved = expect(post(&member.api, "/api/v1/bi/saved-queries", &saved).await, 201);
    let keys = expect(get(&member.api, "/api/v1/api-keys").await, 200);
    let providers = expect(get(&member.api, "/api/v1/providers").await, 200);
    let invite = json!({ "email": format!("guest-of-{name}@example.com"), "role": "viewer" });
    let invite = expect(post(&member.api, "/api/v1/orgs/current/invites", &invite).await, 201);
    expect(
        post(
            &member.api,
            "/api/v1/plans/recharge-requests",
            &json!({ "credits": 1, "note": format!("/{name}") }),
        )
        .await,
        201,
    );
    let schedule = json!({ "name": format!("/{name}"), "cron": "0 0 1 1 *", "isEnabled": false });
    let schedule = expect(post(&member.api, "/api/v1/schedules", &schedule).await, 201);
    let input =
        json!({ "kind": "sitemap", "name": format!("/{name}"), "url": "https://example.com/sitemap.xml" });
    let input = expect(post(&member.api, "/api/v1/inputs", &input).await, 201);
    let session =
        json!({ "domain": "127.0.0.1", "name": format!("/{name}"), "kind": "cookies", "values": "a=1" });
    let session = expect(post(&member.api, "/api/v1/site-sessions", &session).await, 201);
    let agent = json!({ "name": format!("/{name}") });
    let agent = expect(post(&member.api, "/api/v1/agents", &agent).await, 201);
    let discovery = json!({ "domain": "127.0.0.1" });
    let discovery = expect(post(&member.api, "/api/v1/extraction/discover", &discovery).await, 202);
    let monitor = json!({
        "name": format!("/{name}"), "sql": "SELECT 1 AS one", "on": { "cron": "@daily" },
        "condition": { "value": "one", "op": "gt", "threshold": 5 },
    });
    let monitor = expect(post(&member.api, "/api/v1/monitors", &monitor).await, 201);
    let tiles = json!([{ "savedQueryId": saved["id"] }]);
    let dashboard = json!({ "name": format!("/{name}"), "tiles": tiles });
    let dashboard = expect(post(&member.api, "/api/v1/bi/dashboards", &dashboard).await, 201);
    let ids = vec![
        ("monitor", text(&monitor, "id").to_owned()),
        ("dashboard", text(&dashboard, "id").to_owned()),
        ("discovery", text(&discovery, "id").to_owned()),
        ("agent", text(&agent, "id").to_owned()),
        ("input", text(&input, "id").to_owned()),
        ("delivery", delivery(&member, &output).await),
        ("output", output),
        ("session", text(&session, "id").to_owned()),
        ("batch", text(&batch, "batchId").to_owned()),
        ("schedule", text(&schedule, "id").to_owned()),
        ("url", text(&urls["items"][0], "id").to_owned()),
        ("result", text(&job, "resultId").to_owned()),
        ("job", job_id),
        ("query", text(&query, "jobId").to_owned()),
        ("saved", text(&saved, "id").to_owned()),
        ("export", text(&export["export"], "id").to_owned()),
        ("key", text(&keys["items"][0], "id").to_owned()),
        ("invite", text(&invite, "id").to_owned()),
        ("provider", text(&providers["items"][0], "id").to_owned()),
        ("member", member.user_id.clone()),
        ("workflow", workflow),
        ("benchmark", text(&benchmark, "id").to_owned()),
        ("suggestion", text(&suggestion, "id").to_owned()),
    ];
    Seeded { member, ids }
}

/// Everything of an answer that a caller can see, without the request's own id.
fn seen(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let id = reply.header("x-request-id").to_owned();
    let mut headers: Vec<_> = reply
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "date"))
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort();
    (reply.status.as_u16(), headers, reply.text().replace(&id, "REQUEST-ID"))
}

async fn call(client: &Client, route: &Route, path: &str) -> Reply {
    let method: Method = route.method().parse().unwrap();
    let body = BODIES.iter().find(|(id, _)| *id == route.id()).map_or("{}", |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap();
    let body = matches!(method, Method::POST | Method::PUT | Method::PATCH).then_some(&body);
    client.send(method, path, body).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_id_is_a_missing_id_on_every_route() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>marker of {path}</title>")))).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let mine = seed(&appliance, &web, "mine").await;
    let theirs = seed(&appliance, &web, "theirs").await;
    let mut walked = 0;
    for RouteGroup { routes, .. } in gleaner::app::routes() {
        for route in routes.iter().filter(|route| route.variables().next().is_some()) {
            let known = VARIABLES.iter().find(|(prefix, _)| route.path().starts_with(prefix));
            let (_, kind) =
                known.unwrap_or_else(|| panic!("{} has a variable that nothing seeds", route.path()));
            let Some(kind) = kind else { continue };
            let variable = format!("{{{}}}", route.variables().next().unwrap());
            let at = |id: &str| route.path().replace(&variable, id);
            for client in [&mine.member.api, &mine.member.browser] {
                let foreign = call(client, route, &at(theirs.id(kind))).await;
                let missing = call(client, route, &at(&Uuid::now_v7().to_string())).await;
                let malformed = call(client, route, &at("not-an-id")).await;
                assert_eq!(seen(&foreign), seen(&missing), "{} {}", route.method(), route.path());
                assert_eq!(seen(&malformed), seen(&missing), "{} {}", route.method(), route.path());
                assert_eq!(foreign.status, 404, "{} {}", route.method(), route.path());
            }
            walked += 1;
        }
    }
    assert!(walked >= 10, "only {walked} routes were walked");
    ids_in_bodies(&mine.member.api, &theirs).await;
    // The walk deleted and canceled by foreign ids: everything of theirs is still there.
    for path in [
        format!("/api/v1/urls/{}", theirs.id("url")),
        format!("/api/v1/jobs/{}", theirs.id("job")),
        format!("/api/v1/batches/{}", theirs.id("batch")),
        format!("/api/v1/extraction/results/by-id/{}", theirs.id("result")),
        format!("/api/v1/bi/queries/{}", theirs.id("query")),
        format!("/api/v1/bi/saved-queries/{}", theirs.id("saved")),
        format!("/api/v1/providers/{}", theirs.id("provider")),
        format!("/api/v1/benchmarks/{}/results", theirs.id("benchmark")),
        format!("/api/v1/workflows/{}/versions/1", theirs.id("workflow")),
        format!("/api/v1/optimization/suggestions/{}", theirs.id("suggestion")),
        format!("/api/v1/schedules/{}/preview", theirs.id("schedule")),
        format!("/api/v1/inputs/{}", theirs.id("input")),
        format!("/api/v1/outputs/{}", theirs.id("output")),
        format!("/api/v1/monitors/{}", theirs.id("monitor")),
        format!("/api/v1/bi/dashboards/{}", theirs.id("dashboard")),
        format!("/api/v1/bi/exports/{}", theirs.id("export")),
        "/api/v1/orgs/current".to_owned(),
    ] {
        expect(get(&theirs.member.api, &path).await, 200);
    }
    lists_show_ones_own(&mine.member.api, "theirs").await;
    lists_show_ones_own(&theirs.member.api, "mine").await;
}

/// A foreign id in a body is answered as one that nobody has.
async fn ids_in_bodies(client: &Client, theirs: &Seeded) {
    let page = "https://example.com/";
    let one = |members: Value| {
        let mut job = json!({ "url": page });
        job.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        job
    };
    type Asked<'a> = (&'a str, &'a str, u16, &'a dyn Fn(&str) -> Value);
    let due = |members: Value| {
        let mut schedule = json!({ "name": "of others", "cron": "@daily" });
        schedule.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        schedule
    };
    let signed = |id: &str| json!({ "url": page, "options": { "siteSessionId": id } });
    let discovery = |id: &str| json!({ "domain": "127.0.0.1", "jobIds": [id] });
    let lesson = |id: &str| {
        let examples = [id, id].map(|id| json!({ "jobId": id, "values": { "a": "x" } }));
        json!({ "domain": "127.0.0.1", "pageType": "product", "examples": examples })
    };
    let wish =
        |id: &str| json!({ "domain": "127.0.0.1", "pageType": "product", "jobId": id, "element": "//h1" });
    let cases: [Asked<'_>; 15] = [
        ("/api/v1/extraction/discover", "job", 404, &discovery),
        ("/api/v1/extraction/learn", "job", 404, &lesson),
        ("/api/v1/extraction/propose-xpath", "job", 404, &wish),
        ("/api/v1/jobs", "workflow", 404, &|id| one(json!({ "workflowId": id }))),
        ("/api/v1/jobs", "url", 404, &|id| json!({ "urlId": id })),
        ("/api/v1/jobs/batch", "workflow", 404, &|id| json!({ "jobs": [one(json!({ "workflowId": id }))] })),
        ("/api/v1/jobs/batch", "url", 404, &|id| json!({ "jobs": [{ "urlId": id }] })),
        ("/api/v1/urls", "workflow", 400, &|id| json!({ "urls": [one(json!({ "workflowId": id }))] })),
        ("/api/v1/schedules", "workflow", 404, &|id| due(json!({ "workflowId": id }))),
        ("/api/v1/schedules", "url", 404, &|id| due(json!({ "urlIds": [id] }))),
        ("/api/v1/inputs", "workflow", 400, &|id| json!({ "kind": "webhook", "workflowId": id })),
        ("/api/v1/jobs", "session", 404, &|id| signed(id)),
        ("/api/v1/jobs/batch", "session", 404, &|id| json!({ "jobs": [signed(id)] })),
        ("/api/v1/schedules", "session", 404, &|id| due(json!({ "options": { "siteSessionId": id } }))),
        ("/api/v1/jobs/poll", "job", 200, &|id| json!({ "ids": [id] })),
    ];
    for (path, kind, status, body) in cases {
        let (foreign, missing) = (theirs.id(kind).to_owned(), Uuid::now_v7().to_string());
        let of_foreign = post(client, path, &body(&foreign)).await;
        let of_missing = post(client, path, &body(&missing)).await;
        assert_eq!(of_foreign.status, status, "{path}: {}", of_foreign.text());
        let (first, second) = (seen(&of_foreign), seen(&of_missing));
        assert_eq!(
            (first.0, first.1, first.2.replace(&foreign, "ID")),
            (second.0, second.1, second.2.replace(&missing, "ID")),
            "{path}"
        );
    }
}

/// No list, search or statement shows a word of the other organization.
async fn lists_show_ones_own(client: &Client, other: &str) {
    let lists = [
        "urls",
        "jobs",
        "batches",
        "api-keys",
        "extraction/results",
        "extraction/results?q=marker",
        "bi/queries",
        "bi/saved-queries",
        "orgs/current/invites",
        "orgs/current/members",
        "plans/recharge-requests",
        "providers",
        "workflows",
        "benchmarks",
        "schedules",
        "inputs",
        "outputs",
        "monitors",
        "bi/dashboards",
        "site-sessions",
        "optimization/suggestions",
    ];
    for list in lists {
        let reply = get(client, &format!("/api/v1/{list}")).await;
        assert!(!reply.text().contains(&format!("/{other}")), "{list}: {}", reply.text());
        assert_eq!(expect(reply, 200)["items"].as_array().unwrap().len(), 1, "{list}");
    }
    let told = expect(get(client, "/api/v1/events?limit=200").await, 200);
    assert!(
        !told["items"].as_array().unwrap().is_empty() && !told.to_string().contains(&format!("/{other}"))
    );
    let sql = "SELECT r.url, j.url AS job_url, u.url AS registered FROM readings r, jobs j, urls u";
    let answer = eventually("SQL has the rows", Duration::from_secs(10), || async {
        let answer = post(client, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        // 202 of a busy machine, 503 of tables that are behind: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        (answer.json["results"]["totalRows"] == 1).then_some(answer.json)
    })
    .await;
    assert!(!answer.to_string().contains(&format!("/{other}")), "{answer}");
}

/// Every operation with a credential says 401 without one, before it looks at anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_asks_for_a_credential() {
    const OPEN: &[&str] = &[
        "register",
        "login",
        "refreshTokens",
        "logout",
        "verifyEmail",
        "forgotPassword",
        "resetPassword",
        "startCliAuth",
        "pollCliAuth",
        "downloadRaw",
        "ingestUrls",
        "readFeed",
        "getOpenApi",
    ];
    let appliance = Appliance::start().await;
    let client = appliance.client();
    for RouteGroup { routes, .. } in gleaner::app::routes() {
        for route in routes.iter().filter(|route| !OPEN.contains(&route.id())) {
            let path = route.variables().fold(route.path().to_owned(), |path, variable| {
                path.replace(&format!("{{{variable}}}"), &Uuid::now_v7().to_string())
            });
            for (credential, sentence) in [
                ("", "Authentication required"),
                ("nonsense", "Invalid authentication token"),
                ("glk_0000000000000000000000_000000", "Invalid API key"),
            ] {
                let caller = if credential.is_empty() { client.clone() } else { client.bearer(credential) };
                let reply = call(&caller, route, &path).await;
                let place = format!("{} {} with \"{credential}\"", route.method(), route.path());
                assert_eq!(reply.status, 401, "{place}");
                assert!(reply.json["error"].is_string(), "{place}: a 401 is always flat");
                assert_eq!(reply.json["error"], sentence, "{place}");
            }
        }
    }
}
