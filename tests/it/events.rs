//! The log of events through HTTP: streamEvents, as a list and as a stream.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{
    Appliance, Member, Request as Operator, collect, ended, eventually, expect, get, join, looks_anew,
    member, post, refused, text,
};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use server::client::Client;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const EVENTS: &str = "/api/v1/events";
const PATIENCE: Duration = Duration::from_secs(60);

/// One event of a stream as it came.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    id: u64,
    name: String,
    data: Value,
}

/// A listener.
struct Stream {
    body: Incoming,
    text: String,
    /// Comments that came.
    beats: usize,
}

impl Stream {
    /// A stream, or the status and the text of a refusal.
    async fn open(
        base: &str,
        key: &str,
        query: &str,
        last: Option<&str>,
        h2: bool,
    ) -> Result<Stream, (u16, String)> {
        let pool: Pool<_, Empty<Bytes>> = Pool::builder(TokioExecutor::new()).http2_only(h2).build_http();
        let mut request = Request::get(format!("{base}{EVENTS}{query}"))
            .header("accept", "text/event-stream")
            .header("accept-encoding", "gzip, br, zstd")
            .header("authorization", format!("Bearer {key}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = pool.request(request.body(Empty::new()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        if status != 200 {
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            return Err((status, String::from_utf8_lossy(&bytes).into_owned()));
        }
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
        assert!(!response.headers().contains_key("content-encoding"), "it would wait in a compressor");
        Ok(Stream { body: response.into_body(), text: String::new(), beats: 0 })
    }

    async fn of(member: &Member, query: &str, last: Option<u64>) -> Stream {
        let last = last.map(|last| last.to_string());
        Stream::open(member.api.base(), &member.key, query, last.as_deref(), false).await.unwrap()
    }

    /// The next event; none at the end of the stream.
    async fn any(&mut self) -> Option<Told> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let mut told = Told { id: 0, name: String::new(), data: Value::Null };
                for line in frame.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => told.id = id.parse().unwrap(),
                        Some(("event", name)) => told.name = name.to_owned(),
                        Some(("data", data)) => told.data = serde_json::from_str(data).unwrap(),
                        Some(("retry", ms)) => assert_eq!(ms, "2000"),
                        Some(("", _)) => self.beats += 1,
                        _ => panic!("{line:?}"),
                    }
                }
                self.text = rest.to_owned();
                return Some(told);
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("something comes")?;
            self.text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }

    /// The next event that is not the stream's own.
    async fn next(&mut self) -> Option<Told> {
        loop {
            let told = self.any().await?;
            if !told.name.starts_with("stream.") {
                return Some(told);
            }
        }
    }

    async fn take(&mut self, count: usize) -> Vec<Told> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.next().await.expect("the stream goes on"));
        }
        all
    }
}

/// All events that a list shows, oldest first.
pub async fn listed(api: &Client, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(get(api, &format!("{EVENTS}?limit=200&{query}&cursor={cursor}")).await, 200);
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    all.reverse();
    all
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| text(event, "kind")).collect()
}

/// A product whose price is another one at each visit.
pub async fn shop(settings: &[(&str, &str)]) -> (Web, Appliance) {
    let visits = AtomicU32::new(0);
    let web = Web::open(move |path| {
        if matches!(path, "/gone" | "/robots.txt") {
            return None;
        }
        let price = visits.fetch_add(1, Ordering::Relaxed);
        let page = Answer::html(format!("<title>{path}</title><b id=price>{price}</b>"));
        Some(if path == "/late" { page.held("late") } else { page })
    })
    .await;
    let allow = web.allow();
    let base = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "32")];
    let settings: Vec<_> = base.iter().chain(settings).copied().collect();
    let at = Appliance::start_with(&settings).await;
    let schemas = json!({ "schemas": [{
        "pageType": "product",
        "attributes": [{ "name": "price", "type": "number", "xpaths": ["//b[@id='price']"] }],
    }] });
    at.operator(Operator::SchemaImport { json: schemas.to_string(), domain: Some("127.0.0.1".to_owned()) })
        .await;
    (web, at)
}

pub async fn visit(member: &Member, url: &str) -> Value {
    let job = json!({ "url": url, "pageType": "product", "tags": ["shop", "daily"] });
    let job = expect(post(&member.api, "/api/v1/jobs", &job).await, 201);
    ended(&member.api, text(&job, "id")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_is_written_down_and_told() {
    let (web, at) = shop(&[]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let mut stream = Stream::of(&ada, "", None).await;
    let mut other = Stream::of(&eve, "?after=0", None).await;
    assert_eq!(stream.any().await.unwrap().name, "stream.position");
    assert_eq!(other.any().await.unwrap().name, "stream.position");
    let first = visit(&ada, &web.url("/shoe")).await;
    let second = visit(&ada, &web.url("/shoe")).await;
    let gone = visit(&ada, &web.url("/gone")).await;
    assert_eq!((&first["status"], &gone["status"]), (&json!("succeeded"), &json!("failed")));
    let all = listed(&ada.api, "").await;
    let ran = ["job.queued", "job.started"];
    let expected = [ran, ["result.new", "job.succeeded"], ran, ["result.changed", "job.succeeded"], ran];
    let mut expected: Vec<_> = expected.concat();
    expected.push("job.failed");
    assert_eq!(kinds(&all), expected);
    // Places grow by one, and ids sort as they do.
    for (at, event) in all.iter().enumerate() {
        assert_eq!(event["seq"], at + 1);
    }
    assert!(all.is_sorted_by_key(|event| text(event, "id").to_owned()));
    let changed = &all[6];
    assert_eq!(changed["subject"], json!({ "type": "result", "id": second["resultId"] }));
    assert_eq!(changed["data"]["changes"], json!([{ "name": "price", "from": 0, "to": 1 }]));
    assert_eq!((&changed["domain"], &changed["tags"]), (&json!("127.0.0.1"), &json!(["shop", "daily"])));
    assert_eq!(all[10]["data"]["outcome"], "target_error");
    assert_eq!(all[0]["subject"], json!({ "type": "job", "id": first["id"] }));
    // The stream tells the same, in the same order, each under its place.
    for (told, event) in stream.take(all.len()).await.iter().zip(&all) {
        assert_eq!(
            (json!(told.id), &told.data, told.name.as_str()),
            (event["seq"].clone(), event, text(event, "kind"))
        );
    }
    // One that is canceled under way.
    let job = expect(
        post(&ada.api, "/api/v1/jobs", &json!({ "url": web.url("/late"), "tags": ["late"] })).await,
        201,
    );
    expect(post(&ada.api, &format!("/api/v1/jobs/{}/cancel", text(&job, "id")), &json!({})).await, 200);
    for (query, count) in [
        ("kind=job.*&tag=shop", 9),
        ("kind=job.failed,result.changed", 2),
        ("kind=job.failed&kind=result.new", 2),
        ("tag=shop&tag=late", 0),
        ("domain=127.0.0.1&kind=job.queued", 4),
        ("domain=example.com", 0),
        (&format!("subject={}", text(&first, "id")), 3),
        ("after=10", 1 + listed(&ada.api, "tag=late").await.len()),
    ] {
        assert_eq!(listed(&ada.api, query).await.len(), count, "{query}");
    }
    // The other organization heard of nothing: its own job is its first event.
    visit(&eve, &web.url("/shoe")).await;
    let told = other.take(4).await;
    assert_eq!(told.iter().map(|told| told.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(told[2].name, "result.new", "what another organization has read is no earlier result");
    web.release("late");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_gets_what_was_missed_in_order_and_once() {
    let (web, at) = shop(&[]).await;
    let ada = at.member("ada").await;
    for h2 in [false, true] {
        let mut stream = Stream::open(at.app().url(), &ada.key, "", None, h2).await.unwrap();
        let began = stream.any().await.unwrap();
        let mut seen = Vec::new();
        let mut last = began.id;
        for round in 0..3 {
            let urls: Vec<_> =
                (0..20).map(|n| json!({ "url": web.url(&format!("/{h2}/{round}/{n}")) })).collect();
            expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": urls })).await, 201);
            // It goes away in the middle of a round, wherever that is.
            for told in stream.take(7 + round).await {
                last = told.id;
                seen.push(told);
            }
            drop(stream);
            tokio::time::sleep(Duration::from_millis(300)).await;
            let place = last.to_string();
            stream = Stream::open(at.app().url(), &ada.key, "?after=0", Some(&place), h2).await.unwrap();
        }
        let due = format!("after={}", began.id);
        eventually("all jobs have ended", PATIENCE, || async {
            (listed(&ada.api, &format!("{due}&kind=job.succeeded")).await.len() == 60).then_some(())
        })
        .await;
        let all = listed(&ada.api, &due).await;
        seen.extend(stream.take(all.len() - seen.len()).await);
        let told: Vec<_> = seen.into_iter().map(|told| told.data).collect();
        assert_eq!(told, all);
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_kept_any_more_is_a_gap() {
    let (web, at) = shop(&[("EVENTS__ROWS_PER_ORG", "1000")]).await;
    let ada = at.member("ada").await;
    let urls: Vec<_> = (0..1_000).map(|n| json!({ "url": web.url(&format!("/{n}")) })).collect();
    let jobs = expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": urls })).await, 201);
    ended(&ada.api, text(&jobs["jobs"][0], "id")).await;
    at.clock.advance(Duration::from_secs(1));
    looks_anew(&at, "events.trim").await;
    let oldest = listed(&ada.api, "").await[0]["seq"].as_u64().unwrap();
    assert!(oldest > 1, "{oldest}");
    let mut stream = Stream::of(&ada, "", Some(1)).await;
    assert_eq!(stream.any().await.unwrap().name, "stream.position");
    let told = stream.any().await.unwrap();
    assert_eq!((told.name.as_str(), &told.data["from"]), ("stream.gap", &json!(1)));
    assert_eq!(told.data["missed"], told.id - 1);
    assert_eq!(stream.any().await.unwrap().id, told.id + 1, "it goes on behind it");
    // Who had seen no event yet has missed the same.
    let mut back = Stream::of(&ada, "", Some(0)).await;
    assert_eq!(back.any().await.unwrap().data["seq"], 0);
    let told = back.any().await.unwrap();
    assert_eq!((told.name.as_str(), &told.data["missed"]), ("stream.gap", &json!(told.id)));
    // From the oldest on is what was asked for, and no gap.
    let mut whole = Stream::of(&ada, "?after=0", None).await;
    whole.any().await.unwrap();
    assert_eq!(whole.any().await.unwrap().name.split('.').next(), Some("job"));
    // A place that is not there yet: of a box that was restored, or of somebody else.
    let mut ahead = Stream::of(&ada, "", Some(u64::MAX)).await;
    ahead.any().await.unwrap();
    let told = ahead.any().await.unwrap();
    assert!(told.name == "stream.gap" && text(&told.data, "message").contains("restored"), "{told:?}");
    // Old ones go by their age as well.
    let newest = listed(&ada.api, "").await.last().unwrap()["seq"].as_u64().unwrap();
    at.clock.advance(Duration::from_secs(8 * 24 * 3_600));
    eventually("everything of before is gone", PATIENCE, || async {
        looks_anew(&at, "events.trim").await;
        let oldest =
            listed(&ada.api, "").await.first().map_or(u64::MAX, |event| event["seq"].as_u64().unwrap());
        (oldest > newest).then_some(())
    })
    .await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_questions_are_refused_and_streams_are_few() {
    let settings = [("EVENTS__STREAMS_PER_ORG", "3"), ("EVENTS__STREAMS", "4")];
    let (web, at) = shop(&settings).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    visit(&ada, &web.url("/shoe")).await;
    let open = async |member: &Member, query: &str, last: Option<&str>| {
        Stream::open(member.api.base(), &member.key, query, last, false).await
    };
    for (query, last, field) in [
        ("", Some("garbage"), "Last-Event-ID"),
        ("", Some("-1"), "Last-Event-ID"),
        ("", Some("18446744073709551616"), "Last-Event-ID"),
        ("?after=x", None, "after"),
        ("?subject=x", None, "subject"),
        ("?kind=job.eaten", None, "kind"),
        ("?kind=nothing.*", None, "kind"),
        (&format!("?kind={}", "x".repeat(20_000)), None, "kind"),
        (&format!("?{}", "tag=a&".repeat(101)), None, "tag"),
    ] {
        let (status, said) = open(&eve, query, last).await.err().unwrap_or_default();
        assert!(
            status == 400 && said.contains(field) && said.len() < 2_000,
            "{query:.80}: {status} {said:.200}"
        );
    }
    // Filters at their limits hold.
    let many: String = (0..100).map(|n| format!("tag=t{n}&kind=job.*&")).collect();
    assert!(listed(&eve.api, &many).await.is_empty());
    // A key that may not read jobs is told nothing of them.
    let narrow = json!({ "name": "narrow", "permissions": ["schedules:read"] });
    let narrow =
        text(&expect(post(&ada.browser, "/api/v1/api-keys", &narrow).await, 201), "secret").to_owned();
    let narrow = at.client().bearer(&narrow);
    assert!(listed(&narrow, "").await.is_empty());
    refused(
        &get(&narrow, &format!("{EVENTS}?kind=job.*")).await,
        403,
        "Insufficient permissions",
        "jobs:read",
    );
    let blind = json!({ "name": "blind", "permissions": ["billing:read"] });
    let blind = text(&expect(post(&ada.browser, "/api/v1/api-keys", &blind).await, 201), "secret").to_owned();
    assert!(listed(&at.client().bearer(&blind), "").await.is_empty());
    // Ten thousand streams tried: three are open, the others are told to come later, and others have theirs.
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(open(&eve, "?after=0", None).await.unwrap());
    }
    let eager = eve.api.header("accept", "text/event-stream");
    for _ in 3..10_000 {
        let reply = get(&eager, EVENTS).await;
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, "30"), "{}", reply.text());
    }
    let mut own = open(&ada, "", None).await.unwrap();
    let (status, said) = open(&ada, "", None).await.err().unwrap();
    assert!(status == 429 && said.contains("The box has as many streams"), "{said}");
    visit(&ada, &web.url("/hat")).await;
    assert_eq!(own.take(1).await[0].name, "job.queued");
    for stream in &mut held {
        assert_eq!(stream.any().await.unwrap().name, "stream.position");
    }
    drop(held);
    eventually("a place comes back", PATIENCE, || async { open(&eve, "", None).await.ok().map(drop) }).await;
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_with_its_credential_and_with_the_box() {
    let (web, at) = shop(&[("SERVER__SHUTDOWN_SEC", "60")]).await;
    let ada = at.member("ada").await;
    let bob = join(&at, &ada.browser, "bob", "editor").await;
    let new = |permissions: Value| json!({ "name": "listener", "permissions": permissions });
    let made = expect(post(&ada.browser, "/api/v1/api-keys", &new(json!(["jobs:read"]))).await, 201);
    let open = async |key: &str| {
        let mut stream = Stream::open(at.app().url(), key, "", None, false).await.unwrap();
        stream.any().await.unwrap();
        stream
    };
    let mut revoked = open(text(&made, "secret")).await;
    let own = expect(
        post(&bob.browser, "/api/v1/api-keys", &json!({ "name": "own", "kind": "personal" })).await,
        201,
    );
    let (mut demoted, mut stays) = (open(text(&own, "secret")).await, open(&ada.key).await);
    let key = format!("/api/v1/api-keys/{}", text(&made["apiKey"], "id"));
    assert_eq!(ada.browser.delete(&key).await.unwrap().status, 204);
    let member = format!("/api/v1/orgs/current/members/{}", bob.id);
    expect(ada.browser.patch(&member, &json!({ "role": "viewer" })).await.unwrap(), 200);
    let began = Instant::now();
    visit(&ada, &web.url("/shoe")).await;
    assert_eq!((revoked.any().await, demoted.any().await), (None, None), "nothing more is told");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    stays.take(4).await;
    // Also where nothing happens: within seconds.
    let mut left = open(text(&own, "secret")).await;
    assert_eq!(ada.browser.delete(&member).await.unwrap().status, 204);
    let began = Instant::now();
    assert_eq!(left.any().await, None);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // A drain does not wait for listeners, who would have half a minute.
    let began = Instant::now();
    at.stop().await;
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(stays.any().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_idle_listeners_cost_little() {
    let dir = TempDir::new().unwrap();
    let settings = [("EVENTS__STREAMS_PER_ORG", "1000"), ("EVENTS__STREAMS", "2000")];
    let process = Process::start(&dir.path().join("data"), &settings);
    let owner = member(&process.client(), &process.socket(), "many").await;
    let open = async || {
        let mut stream = Stream::open(&process.url, &owner.key, "", None, false).await.unwrap();
        stream.any().await.unwrap();
        stream
    };
    // What the first ones cost is what the process needs for any.
    let mut held = vec![open().await, open().await];
    let before = process.counted("VmRSS");
    for _ in 0..998 {
        held.push(open().await);
    }
    let cost = process.counted("VmRSS").saturating_sub(before) / 1024;
    println!("1,000 idle listeners: {cost} MiB");
    assert!(cost < 40, "{cost} MiB");
    let job = json!({ "url": "https://shop.invalid/" });
    let job = expect(post(&process.client().bearer(&owner.key), "/api/v1/jobs", &job).await, 201);
    for stream in &mut held {
        assert_eq!(stream.next().await.unwrap().data["subject"]["id"], job["id"]);
    }
    drop(held);
    assert_eq!(process.terminate(), Some(0));
}

/// Whoever does not read holds up nobody and no memory, and then gets everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_slowly_gets_everything_in_the_end() {
    let (web, at) = shop(&[]).await;
    let ada = at.member("ada").await;
    let (mut slow, mut quick) = (Stream::of(&ada, "", None).await, Stream::of(&ada, "", None).await);
    let tags: Vec<_> = (0..30).map(|n| format!("{n}-{}", "x".repeat(60))).collect();
    let mut made = 0;
    for round in 0..4 {
        // 200 events of 2 KB each, and as many again when they run and end.
        let jobs: Vec<_> = (0..200)
            .map(|n| json!({ "url": web.url(&format!("/{round}/{n}")), "tags": tags, "priority": 0 }))
            .collect();
        made += jobs.len();
        expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
        quick.take(200).await;
    }
    let due = "kind=job.queued";
    let all = listed(&ada.api, due).await;
    assert_eq!(all.len(), made);
    let mut told = Vec::new();
    while told.len() < made {
        told.extend(slow.next().await.filter(|told| told.name == "job.queued").map(|told| told.data));
    }
    assert_eq!(told, all);
    at.stop().await;
}

/// The commands of the guide as typed, and a client from PyPI.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_and_a_client_of_others_read_the_stream() {
    let (web, at) = shop(&[]).await;
    let ada = at.member("ada").await;
    let guide = std::fs::read_to_string(crate::tidy::root().join("README.md")).unwrap();
    let typed =
        guide.lines().find(|line| line.starts_with("curl -N ")).expect("the README has it").to_owned();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("BOX", at.app().url()).env("KEY", &ada.key);
        command.stdout(std::process::Stdio::piped());
        command
    };
    visit(&ada, &web.url("/shoe")).await;
    let limited = typed.replace("curl -N ", "timeout 5 curl -sN ");
    let listening = run("bash", &["-c", &limited]).output().unwrap();
    let printed = String::from_utf8_lossy(&listening.stdout).into_owned();
    for part in ["retry: 2000", "event: job.queued", "event: result.new", "id: 4\n"] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
    let tools = TempDir::new().unwrap();
    let mut pip =
        run("python3", &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
    pip.arg(tools.path()).args(["httpx==0.28.1", "httpx-sse==0.4.0"]).stderr(std::process::Stdio::null());
    if !pip.status().is_ok_and(|status| status.success()) {
        println!("skipped: httpx-sse cannot be had from PyPI");
        return at.stop().await;
    }
    let script = "
import httpx, httpx_sse, os, json
headers = {'Authorization': 'Bearer ' + os.environ['KEY'], 'Last-Event-ID': '1'}
with httpx.Client(headers=headers, timeout=30) as client:
    with httpx_sse.connect_sse(client, 'GET', os.environ['BOX'] + '/api/v1/events') as source:
        told = []
        for event in source.iter_sse():
            body = event.json()
            if not event.event.startswith('stream.'):
                assert int(event.id) == body['seq'] and event.event == body['kind']
                told.append(body['seq'])
            if len(told) == 3:
                break
        print(json.dumps(told))
";
    let output = run("python3", &["-c", script]).env("PYTHONPATH", tools.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "[2, 3, 4]", "{output:?}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_the_log_and_its_places() {
    let (web, mut at) = shop(&[]).await;
    let ada = at.member("ada").await;
    assert_eq!(collect(&ada.api, &web.url("/hat")).await["status"], "succeeded");
    let before = listed(&ada.api, "").await;
    at.restart().await;
    let api = at.client().bearer(&ada.key);
    assert_eq!(listed(&api, "").await, before);
    let schedule = json!({ "name": "Soon", "cron": "* * * * * *", "isEnabled": false });
    let schedule = expect(post(&api, "/api/v1/schedules", &schedule).await, 201);
    let fired = format!("/api/v1/schedules/{}/trigger", text(&schedule, "id"));
    expect(post(&api, &fired, &json!({})).await, 200);
    let after = eventually("the run is over", PATIENCE, || async {
        let events = listed(&api, "kind=schedule.*").await;
        (events.len() == 2).then_some(events)
    })
    .await;
    assert_eq!(kinds(&after), ["schedule.started", "schedule.completed"]);
    assert_eq!(after[1]["data"]["status"], "no_urls");
    assert_eq!(after[0]["seq"], before.len() + 1);
    at.stop().await;
}
