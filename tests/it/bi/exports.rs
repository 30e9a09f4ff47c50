//! Exports: requestBiExport, getBiExport, downloadBiExport.

use super::{ENDLESS, QUERIES, refused, register, submit};
use crate::harness::refused as gone;
use crate::harness::{Appliance, eventually, expect, get, post, text};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use server::task::Signals;
use std::time::Duration;
use uuid::Uuid;

const FORMATS: &[(&str, &str)] = &[
    ("csv", "text/csv; charset=utf-8; header=present"),
    ("jsonl", "application/x-ndjson"),
    ("parquet", "application/vnd.apache.parquet"),
    ("arrow", "application/vnd.apache.arrow.file"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
];

pub(super) async fn ask(client: &Client, query: &str, format: &str) -> Reply {
    post(client, &format!("{QUERIES}/{query}/exports"), &json!({ "format": format })).await
}

/// An export that has succeeded.
pub(super) async fn made(client: &Client, query: &str, format: &str) -> Value {
    let asked = expect(ask(client, query, format).await, 202);
    let path = format!("/api/v1/bi/exports/{}", text(&asked["export"], "id"));
    eventually("the export is made", Duration::from_secs(20), || async {
        let export = expect(get(client, &path).await, 200)["export"].clone();
        assert_ne!(export["status"], "failed", "{export}");
        (export["status"] == "success").then_some(export)
    })
    .await
}

pub(super) fn download_path(export: &Value) -> String {
    format!("/api/v1/bi/exports/{}/download", text(export, "id"))
}

async fn method(client: &Client, method: Method, path: &str) -> Reply {
    client.send(method, path, None).await.expect("an answer")
}

/// The path of the signed link.
fn link<'a>(client: &Client, export: &'a Value) -> &'a str {
    text(export, "downloadUrl").strip_prefix(client.base()).expect("a link of this box")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_taken_away_in_every_format() {
    let appliance = Appliance::start().await;
    let member = appliance.member("exports").await;
    let client = &member.api;
    register(client, 450).await;
    let sql = "SELECT url, 1.50 AS exact, '=1+1' AS formula, NULL AS nothing FROM urls ORDER BY url";
    let execution = expect(submit(client, sql).await, 200);
    let query = text(&execution, "jobId");
    for (format, media_type) in FORMATS {
        let asked = expect(ask(client, query, format).await, 202)["export"].clone();
        assert_eq!((&asked["format"], &asked["queryId"]), (&json!(format), &json!(query)));
        assert_eq!((&asked["rowCount"], asked.get("error")), (&json!(450), None));
        let export = made(client, query, format).await;
        assert_eq!(export["id"], asked["id"], "the same request is the same export");
        assert!(text(&export, "finishedAt") < text(&export, "expiresAt"));
        let file = method(client, Method::GET, &download_path(&export)).await;
        assert_eq!((file.status.as_u16(), file.header("content-type")), (200, *media_type), "{format}");
        assert_eq!(export["byteSize"], file.bytes.len(), "{format}");
        assert_eq!(file.header("content-length"), file.bytes.len().to_string());
        let name = format!("attachment; filename=\"query-{query}.{format}\"");
        assert_eq!(
            (file.header("content-disposition"), file.header("accept-ranges")),
            (name.as_str(), "bytes")
        );
        let public = appliance.client();
        let by_link = method(&public, Method::GET, link(client, &export)).await;
        assert_eq!((by_link.status.as_u16(), &by_link.bytes), (200, &file.bytes), "{format}");
    }
    let csv = made(client, query, "csv").await;
    let text_of = |reply: Reply| String::from_utf8(reply.bytes.to_vec()).unwrap();
    let csv = text_of(get(client, &download_path(&csv)).await);
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!((lines.len(), lines[0]), (452, "url,exact,formula,nothing"));
    assert_eq!(lines[450], "https://shop.example/00449,1.50,'=1+1,");
    let jsonl = made(client, query, "jsonl").await;
    let jsonl = text_of(get(client, &download_path(&jsonl)).await);
    let last: Value = serde_json::from_str(jsonl.lines().last().unwrap()).unwrap();
    let page = expect(get(client, &format!("{QUERIES}/{query}/results?page=2")).await, 200);
    assert_eq!(Some(&last), page["rows"].as_array().unwrap().last());
    let files = std::fs::read_dir(appliance.data_dir().join("exports").join(&member.org_id)).unwrap();
    assert_eq!(files.count(), FORMATS.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_goes_on_where_it_broke_off() {
    let appliance = Appliance::start().await;
    let client = appliance.member("ranges").await.api;
    register(&client, 300).await;
    let execution = expect(submit(&client, "SELECT url, domain FROM urls ORDER BY url").await, 200);
    let export = made(&client, text(&execution, "jobId"), "csv").await;
    let path = download_path(&export);
    let whole = get(&client, &path).await;
    let (tag, modified) = (whole.header("etag").to_owned(), whole.header("last-modified").to_owned());
    let bytes = whole.bytes.clone();
    let size = bytes.len();
    assert!(tag.starts_with('"') && modified.ends_with("GMT"), "{tag} {modified}");
    let last = size - 1;
    for (range, first, end) in [
        ("bytes=0-0".to_owned(), 0, 1),
        ("bytes=100-".to_owned(), 100, size),
        ("bytes=100-199".to_owned(), 100, 200),
        ("bytes=-50".to_owned(), size - 50, size),
        (format!("bytes={last}-99999999"), last, size),
    ] {
        for condition in [None, Some(tag.as_str()), Some(modified.as_str())] {
            let mut asking = client.header("range", &range).header("accept-encoding", "gzip, br, zstd");
            if let Some(condition) = condition {
                asking = asking.header("if-range", condition);
            }
            let part = get(&asking, &path).await;
            assert_eq!(part.status, 206, "{range} {condition:?}");
            assert_eq!(part.header("content-range"), format!("bytes {first}-{}/{size}", end - 1));
            assert_eq!(
                (part.header("content-encoding"), &part.bytes[..]),
                ("", &bytes[first..end]),
                "{range}"
            );
            assert_eq!(
                (part.header("etag"), part.header("content-length")),
                (tag.as_str(), (end - first).to_string().as_str())
            );
        }
    }
    // Of another file, several at once, of something else, or nonsense: the whole one.
    for (name, value) in [
        ("if-range", "\"another\""),
        ("if-range", "Sat, 01 Jan 2000 00:00:00 GMT"),
        ("range", "bytes=0-1,5-9"),
        ("range", "items=0-1"),
        ("range", "bytes=9-1"),
        ("range", "bytes=x"),
    ] {
        let asking = if name == "range" { client.clone() } else { client.header("range", "bytes=0-9") };
        let all = get(&asking.header(name, value), &path).await;
        assert_eq!((all.status.as_u16(), &all.bytes), (200, &bytes), "{name}: {value}");
    }
    let beyond = get(&client.header("range", &format!("bytes={size}-")), &path).await;
    refused(&client, &beyond, 416, "invalid_input", "Range: ").await;
    assert_eq!(beyond.header("content-range"), format!("bytes */{size}"));
    let known = get(&client.header("if-none-match", &tag), &path).await;
    assert_eq!((known.status.as_u16(), known.bytes.len()), (304, 0));
    let head = method(&client.header("range", "bytes=0-9"), Method::HEAD, &path).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, size.to_string().as_str()));
    // Over the link as well.
    let public = appliance.client();
    let part = get(&public.header("range", "bytes=5-9"), link(&client, &export)).await;
    assert_eq!((part.status.as_u16(), &part.bytes[..]), (206, &bytes[5..10]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_leads_to_one_file_for_a_while() {
    let appliance = Appliance::start().await;
    let (mine, theirs) = (appliance.member("mine").await, appliance.member("theirs").await);
    let run = |client: Client| async move {
        text(&expect(submit(&client, "SELECT 7 AS n").await, 200), "jobId").to_owned()
    };
    let (query, foreign) = (run(mine.api.clone()).await, run(theirs.api.clone()).await);
    let export = made(&mine.api, &query, "csv").await;
    let other = made(&mine.api, &query, "jsonl").await;
    let their = made(&theirs.api, &foreign, "csv").await;
    let public = appliance.client();
    let own = link(&mine.api, &export);
    assert_eq!(get(&public, own).await.text(), "n\r\n7\r\n");
    let clock = appliance.clock.clone();
    // The link is the whole credential: one that is not as it was leads nowhere, also for a member.
    for bad in [format!("{own}x"), own[..own.len() - 1].to_owned(), own.replace("raw/", "raw/x")] {
        for client in [&public, &mine.api] {
            gone(&get(client, &bad).await, 404, "File not found", "ask for a new one");
        }
    }
    assert_ne!(get(&public, link(&mine.api, &other)).await.bytes, get(&public, own).await.bytes);
    assert_eq!(get(&public, link(&theirs.api, &their)).await.text(), "n\r\n7\r\n");
    // Another organization's export is a missing one.
    for path in [format!("/api/v1/bi/exports/{}", text(&their, "id")), download_path(&their)] {
        let foreign = get(&mine.api, &path).await;
        let missing = get(&mine.api, &path.replace(text(&their, "id"), &Uuid::now_v7().to_string())).await;
        refused(&public, &foreign, 404, "not_found", "Export").await;
        assert_eq!(foreign.json["error"]["message"], missing.json["error"]["message"]);
    }
    refused(&public, &ask(&mine.api, &foreign, "csv").await, 404, "not_found", "Query").await;
    let anonymous = get(&public, &download_path(&export)).await;
    assert_eq!((anonymous.status.as_u16(), anonymous.json["error"].is_string()), (401, true));

    clock.advance(Duration::from_secs(14 * 60));
    assert_eq!(get(&public, own).await.status, 200);
    clock.advance(Duration::from_secs(61));
    gone(&get(&public, own).await, 404, "File not found", "its time is over");
    let again = expect(get(&mine.api, &format!("/api/v1/bi/exports/{}", text(&export, "id"))).await, 200);
    assert_eq!(get(&public, link(&mine.api, &again["export"])).await.status, 200, "a new link");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_exported_is_refused_and_says_why() {
    let settings = [("BI__MAX_ROWS", "100"), ("BI__CONCURRENCY", "2")];
    let appliance = Appliance::start_with(&settings).await;
    let member = appliance.member("caps").await;
    let client = &member.api;
    register(client, 300).await;
    let cut = expect(submit(client, "SELECT url FROM urls").await, 200);
    let cut = text(&cut, "jobId");
    refused(client, &ask(client, cut, "csv").await, 400, "invalid_sql", "row cap of 100 rows").await;
    let page = expect(get(client, &format!("{QUERIES}/{cut}/results")).await, 200);
    let eligible = json!({
        "eligible": false, "hasWritePermission": true, "withinRowLimit": false, "withinByteLimit": true
    });
    assert_eq!((&page["exportEligibility"], &page["totalRows"]), (&eligible, &json!(100)));
    let fits = expect(submit(client, "SELECT url FROM urls LIMIT 100").await, 200);
    let fits = text(&fits, "jobId");
    expect(ask(client, fits, "csv").await, 202);

    let dry = json!({ "sql": "SELECT 1", "dryRun": true, "waitMs": 10_000 });
    let dry = expect(post(client, QUERIES, &dry).await, 200);
    refused(client, &ask(client, text(&dry, "jobId"), "csv").await, 400, "invalid_sql", "dry run").await;
    let failed = expect(submit(client, "SELECT 1 / (length(url) - length(url)) FROM urls").await, 200);
    let reply = ask(client, text(&failed, "jobId"), "csv").await;
    refused(client, &reply, 409, "not_ready", "failed").await;
    assert_eq!(reply.json["status"], "failed");
    let running = expect(post(client, QUERIES, &json!({ "sql": ENDLESS, "waitMs": 300 })).await, 202);
    let reply = ask(client, text(&running, "jobId"), "csv").await;
    refused(client, &reply, 409, "not_ready", "").await;
    let cancel = format!("{QUERIES}/{}/cancel", text(&running, "jobId"));
    expect(post(client, &cancel, &json!({})).await, 200);
    for (body, part) in [
        (json!({}), "format: is required"),
        (json!({ "format": "pdf" }), "format: must be one of"),
        (json!({ "format": ["csv"] }), "format: "),
    ] {
        let reply = post(client, &format!("{QUERIES}/{fits}/exports"), &body).await;
        refused(client, &reply, 400, "invalid_input", part).await;
    }
    let key = json!({ "name": "reads", "permissions": ["bi:read"] });
    let key = expect(post(&member.browser, "/api/v1/api-keys", &key).await, 201);
    let reader = appliance.client().bearer(text(&key, "secret"));
    refused(client, &ask(&reader, fits, "csv").await, 403, "insufficient_permissions", "bi:write").await;
    let export = made(client, fits, "csv").await;
    assert_eq!(get(&reader, &download_path(&export)).await.status, 200, "who may read may fetch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_survive_a_restart_and_go_in_time() {
    let mut appliance = Appliance::start().await;
    let member = appliance.member("keeps").await;
    let execution = expect(submit(&member.api, "SELECT 1 AS one").await, 200);
    let query = text(&execution, "jobId");
    let export = made(&member.api, query, "csv").await;
    let folder = appliance.data_dir().join("exports").join(&member.org_id);
    let file = folder.join(format!("{}.csv", text(&export, "id")));
    let (stray, part) =
        (folder.join(format!("{}.csv", Uuid::now_v7())), folder.join(format!("{}.part", Uuid::now_v7())));
    for path in [&stray, &part] {
        std::fs::copy(&file, path).unwrap();
    }
    appliance.restart().await;
    let api = appliance.client().bearer(&member.key);
    assert!(!part.exists(), "what was not finished goes at the start");
    assert_eq!(get(&api, &download_path(&export)).await.text(), "one\r\n1\r\n");
    // A result whose file is lost cannot be exported any more; that is a failed export and not a failed box.
    let lost = expect(submit(&api, "SELECT 2 AS two").await, 200);
    let results = appliance.data_dir().join("results").join(&member.org_id);
    std::fs::remove_file(results.join(format!("{}.arrow", text(&lost, "jobId")))).unwrap();
    let asked = expect(ask(&api, text(&lost, "jobId"), "csv").await, 202);
    let path = format!("/api/v1/bi/exports/{}", text(&asked["export"], "id"));
    let failed = eventually("the export has failed", Duration::from_secs(10), || async {
        let export = expect(get(&api, &path).await, 200)["export"].clone();
        (export["status"] == "failed").then_some(export)
    })
    .await;
    assert_eq!((&failed["error"]["code"], &failed["downloadUrl"]), (&json!("transient"), &json!(null)));
    let reply = get(&api, &format!("{path}/download")).await;
    refused(&api, &reply, 409, "not_ready", "failed").await;
    assert_eq!(reply.json["status"], "failed");

    appliance.clock.advance(Duration::from_secs(86_400));
    refused(&api, &get(&api, &download_path(&export)).await, 404, "not_found", "Export").await;
    appliance.app().services().service::<Signals>().wake("bi.tidy");
    eventually("the files are gone", Duration::from_secs(10), || async {
        (!file.exists() && !stray.exists()).then_some(())
    })
    .await;
    let again = made(&api, query, "csv").await;
    assert_ne!(again["id"], export["id"], "made anew from the result, which is still there");
}
