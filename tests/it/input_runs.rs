//! Runs of inputs through HTTP: runInput, listInputRuns. Sites that are asked see every request's head, so what is sent back
//! of a document's validators is looked at there.

use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::{Appliance, Member, eventually, expect, get, member, post, refused, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::client::Client;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub(crate) const INPUTS: &str = "/api/v1/inputs";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a site answers: status, header lines, body.
pub(crate) type Answer = (u16, String, Vec<u8>);

/// A site that answers by the head of a request (its first line and headers in lower case), one request a connection.
pub(crate) struct Site {
    pub(crate) port: u16,
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub(crate) async fn open(answer: impl Fn(&str, u16) -> Answer + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (heads.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match socket.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
                    if head.starts_with("get /robots.txt ") {
                        let none =
                            b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                        return drop(socket.write_all(none).await);
                    }
                    seen.lock().push(head.clone());
                    let (status, headers, body) = answer(&head, port);
                    let length = if headers.contains("content-length") {
                        String::new()
                    } else {
                        format!("content-length: {}\r\n", body.len())
                    };
                    let line = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n{length}{headers}\r\n");
                    let _ = socket.write_all(line.as_bytes()).await;
                    let _ = socket.write_all(&body).await;
                    let _ = socket.shutdown().await;
                });
            }
        });
        Site { port, heads }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn allow(&self) -> String {
        format!("[\"127.0.0.1/32:{}\"]", self.port)
    }

    pub(crate) fn asked(&self) -> usize {
        self.heads.lock().len()
    }
}

pub(crate) fn xml(body: String) -> Answer {
    (200, "content-type: application/xml\r\n".to_owned(), body.into_bytes())
}

pub(crate) fn sitemap(urls: impl IntoIterator<Item = (String, Option<String>)>) -> String {
    let mut text = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">".to_owned();
    for (url, lastmod) in urls {
        let lastmod = lastmod.map_or(String::new(), |at| format!("<lastmod>{at}</lastmod>"));
        write!(text, "<url><loc>{url}</loc>{lastmod}</url>").unwrap();
    }
    text + "</urlset>"
}

pub(crate) async fn box_for(site: &Site, name: &str) -> (Appliance, Member) {
    let at = Appliance::start_with(&[
        ("NETWORK__ALLOW", &site.allow()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64"),
    ])
    .await;
    let member = at.member(name).await;
    (at, member)
}

pub(crate) async fn make(api: &Client, new: &Value) -> String {
    text(&expect(post(api, INPUTS, new).await, 201), "id").to_owned()
}

pub(crate) async fn newest(api: &Client, input: &str) -> Option<Value> {
    let listed = expect(get(api, &format!("{INPUTS}/{input}/runs")).await, 200);
    listed["items"].as_array().unwrap().first().cloned()
}

/// Runs an input and gives the run when it has ended.
pub(crate) async fn run(api: &Client, input: &str, request: &Value) -> Value {
    let begun = expect(post(api, &format!("{INPUTS}/{input}/run"), request).await, 202);
    let run = eventually("the run ends", PATIENCE, || async {
        newest(api, input).await.filter(|run| run["status"] != "running")
    })
    .await;
    assert_eq!(run["id"], begun["id"], "{run}");
    let sum: u64 = ["added", "changed", "unchanged", "duplicates", "filtered", "refused"]
        .iter()
        .map(|name| run[name].as_u64().unwrap())
        .sum();
    assert_eq!(run["found"], sum, "{run}");
    run
}

pub(crate) fn counts<const N: usize>(run: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| run[name].as_u64().unwrap_or_else(|| panic!("{name} of {run}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sitemap_is_read_once_and_then_asked_whether_it_has_changed() {
    let state = Arc::new(Mutex::new(("\"one\"".to_owned(), "2026-01-01".to_owned())));
    let now = state.clone();
    let site = Site::open(move |head, port| {
        let (etag, lastmod) = now.lock().clone();
        if head.starts_with("get /page") {
            return (200, "content-type: text/html\r\n".to_owned(), b"<title>page</title>".to_vec());
        }
        if head.contains(&format!("if-none-match: {etag}")) {
            return (304, String::new(), Vec::new());
        }
        let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
        let (status, _, body) = xml(sitemap([
            (at("/page/1"), Some(lastmod.clone())),
            (at("/page/2"), Some("2026-01-01".to_owned())),
            (at("/page/1#again"), None),
            (at("/private/3"), None),
            ("https://elsewhere.example/4".to_owned(), None),
            ("nonsense:".to_owned(), None),
        ]));
        (status, format!("content-type: text/xml\r\netag: {etag}\r\n"), body)
    })
    .await;
    let (at, member) = box_for(&site, "reader").await;
    let api = &member.api;
    let new = json!({
        "kind": "sitemap", "url": site.url("/sitemap.xml"), "exclude": ["*/private/*"], "tags": ["map"],
        "submitJobs": true,
    });
    let input = make(api, &new).await;
    let first = run(api, &input, &json!({})).await;
    assert_eq!((&first["status"], &first["format"]), (&json!("completed"), &json!("sitemap")), "{first}");
    let names =
        ["added", "changed", "unchanged", "duplicates", "filtered", "refused", "jobsCreated", "documents"];
    assert_eq!(counts(&first, names), [2, 0, 0, 1, 1, 2, 2, 1], "{first}");
    assert!(first["notes"].to_string().contains("elsewhere.example"), "{first}");
    let batch = expect(get(api, &format!("/api/v1/batches/{}", text(&first, "batchId"))).await, 200);
    assert_eq!((&batch["source"], &batch["jobs"]), (&json!("input"), &json!(2)));
    let urls = expect(get(api, "/api/v1/urls?tag=map").await, 200);
    assert_eq!(urls["items"].as_array().unwrap().len(), 2);
    let second = run(api, &input, &json!({})).await;
    assert_eq!((&second["status"], &second["httpStatus"]), (&json!("unchanged"), &json!(304)), "{second}");
    assert_eq!(counts(&second, ["notModified", "found", "jobsCreated"]), [1, 0, 0]);
    let full = run(api, &input, &json!({ "full": true })).await;
    assert_eq!(counts(&full, ["added", "changed", "unchanged"]), [0, 0, 2], "{full}");
    *state.lock() = ("\"two\"".to_owned(), "2026-02-01".to_owned());
    let changed = run(api, &input, &json!({})).await;
    assert_eq!(counts(&changed, ["added", "changed", "unchanged", "jobsCreated"]), [0, 1, 1, 1], "{changed}");
    // Other terms: what was got under the old ones does not count.
    expect(patch(api, &format!("{INPUTS}/{input}"), &json!({ "exclude": [] })).await, 200);
    let terms = run(api, &input, &json!({})).await;
    assert_eq!(counts(&terms, ["added", "filtered"]), [1, 0], "{terms}");
    let other = at.member("curious").await;
    assert_eq!(get(&other.api, &format!("{INPUTS}/{input}/runs")).await.status, 404);
    assert_eq!(post(&other.api, &format!("{INPUTS}/{input}/run"), &json!({})).await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_asks_only_for_what_changed_and_a_feed_for_its_pages() {
    let site = Site::open(|head, port| {
        let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
        let path = head.split(' ').nth(1).unwrap();
        match path {
            "/index.xml" => xml(format!(
                "<sitemapindex><sitemap><loc>{}</loc><lastmod>2020-01-01</lastmod></sitemap>\
                 <sitemap><loc>{}</loc></sitemap><sitemap><loc>https://elsewhere.example/x.xml</loc></sitemap>\
                 <sitemap><loc>{}</loc></sitemap></sitemapindex>",
                at("/old.xml"),
                at("/new.xml"),
                at("/gone.xml")
            )),
            "/old.xml" => xml(sitemap([(at("/old/1"), None)])),
            "/new.xml" => xml(sitemap([(at("/new/1"), None), (at("/new/2"), None)])),
            "/feed" => xml(format!(
                "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>f</title><link rel=\"next\" href=\"/feed2\"/>\
                 <entry><id>1</id><title>t</title><link href=\"{}\"/></entry></feed>",
                at("/post/1")
            )),
            "/feed2" => xml(format!(
                "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>f</title><link rel=\"next\" href=\"/feed\"/>\
                 <entry><id>2</id><title>t</title><link href=\"{}\"/></entry></feed>",
                at("/post/2")
            )),
            "/list.csv" => (
                200,
                "content-type: text/csv\r\n".to_owned(),
                format!("url,tags,colour\n{},a|b,red\nnonsense,,\n", at("/row/1")).into_bytes(),
            ),
            _ => (404, String::new(), Vec::new()),
        }
    })
    .await;
    let (at, member) = box_for(&site, "walker").await;
    let api = &member.api;
    let index = make(api, &json!({ "kind": "sitemap", "url": site.url("/index.xml") })).await;
    let first = run(api, &index, &json!({})).await;
    assert_eq!(counts(&first, ["documents", "added"]), [3, 3], "{first}");
    assert_eq!((&first["incomplete"], &first["format"]), (&json!(true), &json!("sitemap index")), "{first}");
    let notes = first["notes"].to_string();
    assert!(notes.contains("gone.xml") && notes.contains("1 sitemaps of other domains"), "{notes}");
    let before = site.asked();
    let second = run(api, &index, &json!({})).await;
    assert_eq!(second["status"], "unchanged", "{second}");
    let asked: Vec<_> =
        site.heads.lock()[before..].iter().map(|head| head.lines().next().unwrap().to_owned()).collect();
    assert!(!asked.iter().any(|line| line.contains("old.xml")), "its lastmod is old: {asked:?}");
    assert!(asked.iter().any(|line| line.contains("new.xml")), "{asked:?}");
    let feed = make(api, &json!({ "kind": "feed", "url": site.url("/feed") })).await;
    let read = run(api, &feed, &json!({})).await;
    assert_eq!(counts(&read, ["documents", "added"]), [2, 2], "{read}");
    let csv = make(api, &json!({ "kind": "csv", "url": site.url("/list.csv") })).await;
    let read = run(api, &csv, &json!({})).await;
    assert_eq!(counts(&read, ["added", "refused"]), [1, 1], "{read}");
    let row = expect(get(api, "/api/v1/urls?tag=b").await, 200);
    assert_eq!(row["items"][0]["metadata"], json!({ "colour": "red" }), "{row}");
    let again = run(api, &csv, &json!({})).await;
    assert_eq!(counts(&again, ["notModified", "added"]), [1, 0], "the same bytes: {again}");
    let webhook = make(api, &json!({ "kind": "webhook" })).await;
    refused(
        &post(api, &format!("{INPUTS}/{webhook}/run"), &json!({})).await,
        409,
        "Conflict",
        "does not run",
    );
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_or_hostile_is_a_reported_run() {
    const CASES: &[(&str, &str, &str)] = &[
        ("sitemap", "/html", "HTML page"),
        ("csv", "/html", "markup"),
        ("feed", "/empty", "is empty"),
        ("sitemap", "/status500", "answered 500"),
        ("feed", "/sitemap", "of the kind sitemap"),
        ("sitemap", "/rss", "of the kind feed"),
        ("csv", "/nothing", "no URLs"),
        ("csv", "/zip", "cannot be read"),
        ("sitemap", "/brotli", "encoding"),
        ("feed", "/loop", "redirect"),
    ];
    let site = Site::open(|head, port| {
        let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
        let path = head.split(' ').nth(1).unwrap().to_owned();
        match path.as_str() {
            "/html" => {
                (200, "content-type: text/html\r\n".to_owned(), b"<html><title>Log in</title>".to_vec())
            }
            "/empty" => xml(String::new()),
            "/status500" => (500, String::new(), b"oops".to_vec()),
            "/sitemap" => xml(sitemap([(at("/1"), None)])),
            "/rss" => xml("<rss version=\"2.0\"><channel><title>t</title></channel></rss>".to_owned()),
            "/nothing" => (200, "content-type: text/csv\r\n".to_owned(), b"url\n".to_vec()),
            "/zip" => (200, String::new(), b"\x1f\x8b\x08\0garbage that is no gzip".to_vec()),
            "/brotli" => (200, "content-encoding: br\r\n".to_owned(), b"x".to_vec()),
            "/loop" => (302, "location: /loop\r\n".to_owned(), Vec::new()),
            "/cut" => {
                let whole = sitemap((0..50).map(|n| (at(&format!("/cut/{n}")), None)));
                let half = whole.as_bytes()[..whole.len() / 2].to_vec();
                (200, format!("content-type: text/xml\r\ncontent-length: {}\r\n", whole.len()), half)
            }
            "/bomb" => xml(format!(
                "<!DOCTYPE a [<!ENTITY a \"{}\"><!ENTITY b \"&a;&a;&a;&a;\">]>{}<url><loc>{}</loc></url>",
                "x".repeat(1_000),
                "<urlset>".repeat(10_000),
                at("/bombed")
            )),
            "/gone" => (410, String::new(), Vec::new()),
            _ => (404, String::new(), Vec::new()),
        }
    })
    .await;
    let (at, member) = box_for(&site, "stoic").await;
    let api = &member.api;
    for (kind, path, reason) in CASES {
        let input = make(api, &json!({ "kind": kind, "url": site.url(path) })).await;
        let ended = run(api, &input, &json!({})).await;
        assert_eq!(ended["status"], "failed", "{path}: {ended}");
        assert!(text(&ended, "message").contains(reason), "{path}: {ended}");
        assert_eq!(ended["found"], 0, "{path}: {ended}");
    }
    for (path, is_incomplete) in [("/cut", true), ("/bomb", true)] {
        let input = make(api, &json!({ "kind": "sitemap", "url": site.url(path) })).await;
        let ended = run(api, &input, &json!({})).await;
        assert_eq!(ended["incomplete"], is_incomplete, "{path}: {ended}");
        assert_ne!(ended["status"], "running", "{path}: {ended}");
    }
    let cut = expect(get(api, "/api/v1/urls?q=/cut/").await, 200);
    assert!(cut["items"].as_array().unwrap().len() > 10, "what was whole is used");
    // Five in a row are told; a document that is gone for good ends its input.
    let failing = make(api, &json!({ "kind": "feed", "url": site.url("/empty") })).await;
    for _ in 0..5 {
        run(api, &failing, &json!({})).await;
    }
    let gone = make(api, &json!({ "kind": "feed", "url": site.url("/gone"), "cron": "@yearly" })).await;
    run(api, &gone, &json!({})).await;
    let shown = expect(get(api, &format!("{INPUTS}/{gone}")).await, 200);
    assert_eq!((&shown["isEnabled"], &shown["nextRunAt"]), (&json!(false), &Value::Null), "{shown}");
    assert!(text(&shown, "disabledReason").contains("410"), "{shown}");
    let told = expect(get(api, "/api/v1/events?kind=input.failing").await, 200);
    let told: Vec<_> =
        told["items"].as_array().unwrap().iter().map(|event| text(&event["subject"], "id")).collect();
    assert_eq!(told, [gone.as_str(), failing.as_str()]);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_runs_an_input_and_a_thousand_due_at_once_hold_nobody() {
    let site = Site::open(|head, port| match head.starts_with("get /slow") {
        true => {
            std::thread::sleep(Duration::from_millis(20));
            xml(sitemap([(format!("http://127.0.0.1:{port}/slow/1"), None)]))
        }
        false => xml(sitemap([(format!("http://127.0.0.1:{port}/quick/1"), None)])),
    })
    .await;
    let (at, busy) = box_for(&site, "busy").await;
    let other = at.member("other").await;
    for n in 0..300 {
        let new = json!({ "kind": "sitemap", "url": site.url(&format!("/slow{n}")), "cron": "* * * * * *" });
        make(&busy.api, &new).await;
    }
    let one = json!({ "kind": "sitemap", "url": site.url("/quick"), "cron": "* * * * * *" });
    let one = make(&other.api, &one).await;
    let begun = std::time::Instant::now();
    eventually("the other one's tick has run", PATIENCE, || async {
        let listed = expect(get(&other.api, &format!("{INPUTS}/{one}/runs?status=completed")).await, 200);
        (!listed["items"].as_array().unwrap().is_empty()).then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    let first = expect(get(&other.api, &format!("{INPUTS}/{one}/runs?limit=200")).await, 200);
    assert!(first["items"].as_array().unwrap().iter().all(|run| run["trigger"] == "cron"), "{first}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_a_run_doubles_nothing() {
    const URLS: usize = 3_000;
    let site = Site::open(|head, port| {
        if head.starts_with("get /page") {
            return (200, "content-type: text/html\r\n".to_owned(), b"<title>page</title>".to_vec());
        }
        xml(sitemap((0..URLS).map(|n| (format!("http://127.0.0.1:{port}/page/{n}"), None))))
    })
    .await;
    let folder = TempDir::new().unwrap();
    let allow = site.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__CONCURRENCY", "1")];
    let mut process = Process::start(folder.path(), &settings);
    let owner = member(&process.client(), &process.socket(), "killed").await;
    let (input, key) = {
        let new = json!({ "kind": "sitemap", "url": site.url("/sitemap.xml"), "submitJobs": true });
        (make(&owner.api, &new).await, owner.key.clone())
    };
    expect(post(&owner.api, &format!("{INPUTS}/{input}/run"), &json!({})).await, 202);
    let mut api = owner.api.clone();
    for kills in 1..=2_u64 {
        eventually("some of the run is done", PATIENCE, || async {
            let run = newest(&api, &input).await?;
            (run["added"].as_u64().unwrap() >= 300 * kills || run["status"] != "running").then_some(())
        })
        .await;
        process.kill();
        process = Process::start(folder.path(), &settings);
        api = process.client().bearer(&key);
    }
    let ended = eventually("the run ends", PATIENCE, || async {
        newest(&api, &input).await.filter(|run| run["status"] != "running")
    })
    .await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let found = counts(&ended, ["added", "jobsCreated", "jobsMissing", "found"]);
    assert_eq!(found[0] as usize, URLS, "{ended}");
    assert_eq!((found[1] + found[2]) as usize, URLS, "{ended}");
    let batch = expect(get(&api, &format!("/api/v1/batches/{}", text(&ended, "batchId"))).await, 200);
    assert_eq!(batch["jobs"].as_u64(), Some(found[1]), "{batch}");
    process.terminate();
}
