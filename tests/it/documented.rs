//! What the reference says is what the box does, outside the SQL console (whose own test is `bi/shapes.rs`).

use crate::harness::Request;
use crate::harness::reference::Reference;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, eventually, expect, get, post, text};
use crate::tenancy;
use gleaner::features::bi::MOUNT;
use http::Method;
use serde_json::json;
use server::client::{Client, Reply};
use server::{PUBLIC_ROUTES, Route};
use std::time::Duration;
use uuid::Uuid;

const WAIT: Duration = Duration::from_secs(60);
const STRUCTURED: &str = "application/vnd.service.v1+json";
const OCTETS: &str = "application/octet-stream";

async fn reference(client: &Client) -> Reference {
    Reference::new(expect(get(client, "/api/v1/openapi.json").await, 200))
}

/// Every operation of the document.
fn operations() -> Vec<&'static Route> {
    let routes = gleaner::app::routes().into_iter().flat_map(|group| group.routes);
    routes.chain(PUBLIC_ROUTES).filter(|route| route.path().starts_with("/api/v1/")).collect()
}

/// Calls with a parameter that no operation has, and nothing else.
async fn unknown(client: &Client, route: &Route) -> Reply {
    let path = route.variables().fold(route.path().to_owned(), |path, variable| {
        path.replace(&format!("{{{variable}}}"), &Uuid::now_v7().to_string())
    });
    let method = route.method().parse().unwrap();
    client.send(method, &format!("{path}?zzUnknown=1"), None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_says_that_it_may_be_strict() {
    let at = Appliance::start().await;
    let owner = at.member("ada").await;
    let mut it = reference(&at.client()).await;
    let strict = owner.browser.header("prefer", "handling=strict");
    for client in [strict.clone(), strict.header("accept", STRUCTURED)] {
        for route in operations() {
            let reply = unknown(&client, route).await;
            let place = format!("{} {}: {}", route.method(), route.path(), reply.status);
            assert_eq!(reply.status, 400, "{place}: {}", reply.text());
            it.hold(&place, route.method(), route.path(), &reply);
        }
    }
    for route in operations() {
        let line = format!("{} {} 400 ", route.method(), route.path());
        let media_types = it.seen().iter().filter(|seen| seen.starts_with(&line)).count();
        assert_eq!(media_types, if MOUNT.holds(route.path()) { 1 } else { 2 }, "{line}");
    }
    it.assert_kept();
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_is_as_the_reference_says() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")))).await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let own = tenancy::seed(&at, &web, "own").await;
    let mut it = reference(&at.client()).await;
    for route in operations().into_iter().filter(|route| route.method() == "GET") {
        for client in [&own.member.api, &own.member.browser, &at.client()] {
            let Some(path) = own.path_of(route) else { continue };
            let reply = get(client, &path).await;
            it.hold(&format!("GET {path}: {}", reply.status), "GET", route.path(), &reply);
        }
        let missing = unknown(&own.member.api.header("accept", STRUCTURED), route).await;
        it.hold(
            &format!("GET {} of nobody: {}", route.path(), missing.status),
            "GET",
            route.path(),
            &missing,
        );
    }
    let read = it.seen().iter().filter(|seen| seen.contains(" 200 application/json")).count();
    assert!(read >= 30, "{read} of {:?}", it.seen());
    it.assert_kept();
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_402_is_as_the_reference_says_in_both_forms() {
    // What hangs gives no credits back.
    let web =
        Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")).after_ms(3_600_000))).await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("DISPATCH__ROBOTS", "false")]).await;
    let ada = at.member("ada").await;
    at.operator(Request::OrgPlan { org: ada.org_id.clone(), plan: "trial".to_owned() }).await;
    let mut it = reference(&at.client()).await;
    let jobs: Vec<_> = (0..1_000).map(|n| json!({ "url": web.url(&format!("/{n}")) })).collect();
    let jobs = json!({ "jobs": jobs });
    expect(post(&ada.api, "/api/v1/jobs/batch", &jobs).await, 201);
    for code in ["quota_exceeded", "payment_required"] {
        if code == "payment_required" {
            at.clock.advance(Duration::from_secs(15 * 86_400));
        }
        for client in [ada.api.clone(), ada.api.header("accept", STRUCTURED)] {
            let path = "/api/v1/jobs/batch";
            let reply = it.call(&client, Method::POST, path, "", Some(&jobs)).await;
            assert_eq!(reply.status, 402, "{}", reply.text());
            assert_eq!(
                (&reply.json["plan"], reply.json["remainingCredits"].is_u64()),
                (&json!("trial"), true)
            );
            let named = &reply.json["error"]["code"];
            assert!(*named == code || reply.json["error"] == "QUOTA_EXCEEDED", "{}", reply.text());
        }
    }
    for media_type in ["application/json", STRUCTURED] {
        assert!(it.seen().contains(&format!("POST /api/v1/jobs/batch 402 {media_type}")), "{:?}", it.seen());
    }
    it.assert_kept();
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_are_of_the_media_types_that_the_reference_names() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let mut it = reference(&at.client()).await;
    let raw = "/api/v1/raw/{token}";
    let (exports, file) = ("/api/v1/bi/exports/{id}", "/api/v1/bi/exports/{id}/download");
    let sql = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
    let query = expect(post(&ada.api, "/api/v1/bi/queries", &sql).await, 200);
    for (format, media_type) in [
        ("csv", "text/csv"),
        ("jsonl", "application/x-ndjson"),
        ("parquet", "application/vnd.apache.parquet"),
        ("arrow", "application/vnd.apache.arrow.file"),
        ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ] {
        let path = format!("/api/v1/bi/queries/{}/exports", text(&query, "jobId"));
        let asked = expect(post(&ada.api, &path, &json!({ "format": format })).await, 202);
        let id = text(&asked["export"], "id").to_owned();
        let made = eventually("the export is made", WAIT, || async {
            let made = expect(get(&ada.api, &exports.replace("{id}", &id)).await, 200);
            (made["export"]["status"] == "success").then_some(made)
        })
        .await;
        let link = text(&made["export"], "downloadUrl").strip_prefix(at.app().url()).unwrap().to_owned();
        for (name, value) in [("accept", "*/*"), ("range", "bytes=0-3"), ("accept", OCTETS)] {
            let own = it.call(&ada.api.header(name, value), Method::GET, file, &id, None).await;
            let linked = get(&at.client().header(name, value), &link).await;
            it.hold(&format!("GET the link to a {format}: {}", linked.status), "GET", raw, &linked);
            let expected = if value == OCTETS { OCTETS } else { media_type };
            for reply in [own, linked] {
                let told = reply.header("content-type").split(';').next().unwrap();
                assert_eq!(told, expected, "{format}, {name}: {value}");
            }
        }
    }
    let asked = expect(ada.browser.send(Method::POST, "/api/v1/account/export", None).await.unwrap(), 202);
    let made = eventually("the personal data is gathered", WAIT, || async {
        let path = format!("/api/v1/account/exports/{}", text(&asked, "id"));
        let made = expect(get(&ada.browser, &path).await, 200);
        (made["status"] == "success").then_some(made)
    })
    .await;
    let link = text(&made, "downloadUrl").strip_prefix(at.app().url()).unwrap().to_owned();
    let zip = get(&at.client(), &link).await;
    assert_eq!((zip.status.as_u16(), zip.header("content-type")), (200, "application/zip"));
    it.hold("GET the link to personal data", "GET", raw, &zip);
    let lines = ada.browser.header("accept", "application/x-ndjson");
    let log = it.call(&lines, Method::GET, "/api/v1/audit-logs", "", None).await;
    assert_eq!((log.status.as_u16(), log.header("content-type")), (200, "application/x-ndjson"));
    it.assert_kept();
    at.stop().await;
}
