//! Every kind of call on files fails for a while, in every place where the box keeps something: no answer is a 500, nothing
//! that was answered is lost, nothing stays open, and the end of each fault shows without a restart.

use super::shim::{Fault, Shim};
use super::{gleaner, gleaner_under, said};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{eventually, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const EIO: Option<i32> = Some(5);
const EMFILE: Option<i32> = Some(24);
const ENOSPC: Option<i32> = Some(28);
/// Writes take half of what they are given.
const SHORT: Option<i32> = None;

/// Calls, place, error.
const FAULTS: &[(&str, &str, Option<i32>)] = &[
    ("S", "gleaner.redb", EIO),
    ("W", "gleaner.redb", EIO),
    ("W", "gleaner.redb", ENOSPC),
    ("W", "gleaner.redb", SHORT),
    ("T", "gleaner.redb", ENOSPC),
    ("G", "gleaner.redb", EIO),
    ("O", "gleaner.redb", EMFILE),
    ("C", "/pages", EMFILE),
    ("O", "/pages", EMFILE),
    ("W", "/pages", ENOSPC),
    ("W", "/pages", SHORT),
    ("S", "/pages", EIO),
    ("R", "/pages", EIO),
    ("M", "/pages", ENOSPC),
    ("C", "/snapshots", EMFILE),
    ("W", "/snapshots", ENOSPC),
    ("W", "/snapshots", SHORT),
    ("S", "/snapshots", EIO),
    ("R", "/snapshots", EIO),
    ("O", "/snapshots", EMFILE),
    ("C", "/search", EMFILE),
    ("O", "/search", EMFILE),
    ("W", "/search", ENOSPC),
    ("W", "/search", SHORT),
    ("S", "/search", EIO),
    ("R", "/results", EIO),
    ("S", "/results", EIO),
    ("M", "/data/exports", ENOSPC),
    ("C", "/data/exports", EIO),
    ("W", "/data/exports", ENOSPC),
    ("W", "/data/exports", SHORT),
    ("S", "/data/exports", EIO),
    ("R", "/data/exports", EIO),
    ("C", "/account-exports", ENOSPC),
    ("W", "/account-exports", EIO),
    ("S", "/account-exports", ENOSPC),
    ("R", "/account-exports", EIO),
    ("U", "/account-exports", EIO),
    // Descriptors are out everywhere.
    ("CO", "/data", EMFILE),
];

/// How long a fault lasts at least.
const LASTS: Duration = Duration::from_millis(600);
/// Faults that may meet nobody: of a store in the page cache nothing is read, a file grows now and then, and nobody opens one
/// that is open. Every other one is met by what `ask` asks for, by a feed that follows it, or by a box that tries whether its
/// trouble is over: soon, or when whoever met the one before has rested for some seconds.
const MAY_BE_IDLE: &[(&str, &str)] = &[("G", "gleaner.redb"), ("T", "gleaner.redb"), ("O", "gleaner.redb")];
/// How long such a one lasts.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Time in which everything must have ended that was begun under a fault: longer than a lease.
const SETTLE_MAX: Duration = Duration::from_secs(150);

fn page(path: &str) -> Option<Answer> {
    let number: u32 = path.strip_prefix("/p/")?.parse().ok()?;
    Some(Answer::html(format!("<title>page {number}</title><h1>number {number} of the faults</h1>")))
}

/// What was asked for and answered.
#[derive(Default)]
struct Asked {
    jobs: BTreeSet<String>,
    /// Of statements.
    exports: BTreeSet<String>,
    /// Of personal data, with whose.
    personal: BTreeSet<(usize, String)>,
}

/// Asks for a file of a statement's rows. What is refused is no fault.
async fn ask_export(client: &Client, query: &str, asked: &mut Asked) {
    let wanted = format!("/api/v1/bi/queries/{query}/exports");
    let export = post(client, &wanted, &json!({ "format": "csv" })).await;
    assert!(matches!(export.status.as_u16(), 202 | 400 | 409 | 429 | 503), "{}", export.text());
    if export.status == 202 {
        asked.exports.insert(text(&export.json["export"], "id").to_owned());
    }
}

/// Asks for a file of what is held on one of the people.
async fn ask_personal(people: &[Client], person: usize, asked: &mut Asked) {
    let export = post(&people[person], "/api/v1/account/export", &json!({})).await;
    assert!(matches!(export.status.as_u16(), 202 | 429 | 503), "{}", export.text());
    if export.status == 202 {
        asked.personal.insert((person, text(&export.json, "id").to_owned()));
    }
}

/// How an export has ended.
async fn end_of(client: &Client, path: String, at: &str) -> Option<Value> {
    let reply = get(client, &path).await;
    let status = if reply.status == 200 { reply.json.pointer(at)?["status"].clone() } else { Value::Null };
    // Of personal data the oldest make room.
    let status = if reply.status == 404 { json!("gone") } else { status };
    (!status.is_null() && status != "queued" && status != "running").then_some(status)
}

/// Every export that was answered ends, and afterwards one of each kind is made.
async fn exports_end(client: &Client, people: &[Client], asked: Asked) {
    eventually("every export ends", SETTLE_MAX, || async {
        for id in &asked.exports {
            end_of(client, format!("/api/v1/bi/exports/{id}"), "/export").await?;
        }
        for (person, id) in &asked.personal {
            end_of(&people[*person], format!("/api/v1/account/exports/{id}"), "").await?;
        }
        Some(())
    })
    .await;
    eventually("exports are made again", SETTLE_MAX, || async {
        let sql = json!({ "sql": "SELECT count(*) AS n FROM jobs", "waitMs": 10_000 });
        let query = post(client, "/api/v1/bi/queries", &sql).await;
        let mut fresh = Asked::default();
        ask_export(client, query.json["jobId"].as_str()?, &mut fresh).await;
        ask_personal(people, 0, &mut fresh).await;
        let (export, (_, personal)) = (fresh.exports.pop_first()?, fresh.personal.pop_first()?);
        for (client, path, at) in [
            (client, format!("/api/v1/bi/exports/{export}"), "/export"),
            (&people[0], format!("/api/v1/account/exports/{personal}"), ""),
        ] {
            let ended = eventually("it ends", SETTLE_MAX, || end_of(client, path.clone(), at)).await;
            if ended != "success" {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// Asks for everything that touches files; gives the jobs that were answered, and a statement that ran.
async fn ask(client: &Client, web: &Web, number: &mut u32) -> (Vec<String>, Option<String>) {
    *number += 2;
    let jobs: Vec<_> = (0..2).map(|n| json!({ "url": web.url(&format!("/p/{}", *number + n)) })).collect();
    let sql = json!({ "sql": "SELECT count(*) AS n FROM jobs", "waitMs": 200 });
    let submit = json!({ "jobs": jobs });
    let (made, listed, found, asked) = tokio::join!(
        post(client, "/api/v1/jobs/batch", &submit),
        get(client, "/api/v1/jobs?limit=5"),
        get(client, "/api/v1/extraction/results?limit=5"),
        post(client, "/api/v1/bi/queries", &sql)
    );
    for reply in [&made, &listed, &found, &asked] {
        assert_ne!(reply.status.as_u16(), 500, "{}", reply.text());
    }
    let ran = (asked.json["results"].is_object()).then(|| text(&asked.json, "jobId").to_owned());
    if made.status != 201 {
        assert_eq!(made.status, 503, "{}", made.text());
        return (Vec::new(), ran);
    }
    (made.json["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").to_owned()).collect(), ran)
}

async fn is_ready(process: &Process) -> Option<()> {
    let ready = get(&process.client(), "/readyz").await;
    (ready.status == 200).then_some(())
}

/// What became of jobs: how many are open, and which were lost.
async fn states(client: &Client, ids: &BTreeSet<String>) -> Option<Vec<Value>> {
    let mut all = Vec::new();
    let ids: Vec<_> = ids.iter().collect();
    for chunk in ids.chunks(500) {
        let polled = expect(post(client, "/api/v1/jobs/poll", &json!({ "ids": chunk })).await, 200);
        assert_eq!(polled["missing"], json!([]), "a job that was answered is gone");
        all.extend(polled["items"].as_array().unwrap().iter().cloned());
    }
    let open = |job: &Value| matches!(text(job, "status"), "queued" | "running");
    (!all.iter().any(open)).then_some(all)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_every_kind_pass_without_loss_or_restart() {
    let Some(shim) = Shim::new("faults") else { return };
    let web = Web::open(page).await;
    let allow = web.allow();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__ROBOTS", "false"),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("STORAGE__CACHE_MB", "1"),
        ("LOG__LEVEL", "off"),
    ];
    let data = shim.root().join("data");
    let process = Process::start_under(&data, &settings, &shim.with_faults());
    let owner = member(&process.client(), &process.socket(), "faults").await;
    let client = process.client().bearer(&owner.key);
    let mut people = vec![owner.browser.clone()];
    for person in 0..FAULTS.iter().filter(|(_, path, _)| *path == "/account-exports").count() {
        people.push(member(&process.client(), &process.socket(), &format!("person{person}")).await.browser);
    }
    let (mut asked, mut query, mut number) = (Asked::default(), None, 0);
    for (nth, (calls, path, error)) in FAULTS.iter().enumerate() {
        let before = shim.fired();
        shim.fail(&Fault { calls, path, error: *error, skip: 0, count: 1_000_000 });
        let begun = Instant::now();
        let waits = if MAY_BE_IDLE.contains(&(calls, path)) { IDLE_MAX } else { SETTLE_MAX };
        while begun.elapsed() < LASTS || (shim.fired() == before && begun.elapsed() < waits) {
            let (jobs, ran) = ask(&client, &web, &mut number).await;
            asked.jobs.extend(jobs);
            query = ran.or(query);
            match (*path, query.as_deref()) {
                ("/data/exports", Some(query)) => ask_export(&client, query, &mut asked).await,
                // Somebody else each time: who has got one waits for a minute.
                ("/account-exports", _) => {
                    ask_personal(&people, 1 + nth % (people.len() - 1), &mut asked).await
                }
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        shim.mend();
        let met = shim.fired() - before;
        println!("{calls} {path} {error:?}: met {met} times in {:?}", begun.elapsed());
        assert!(met > 0 || waits == IDLE_MAX, "nobody met the fault of {calls} at {path}");
        eventually("writes are taken again", SETTLE_MAX, || async {
            let url = json!({ "urls": [web.url("/p/1")] });
            (post(&client, "/api/v1/urls", &url).await.status == 200).then_some(())
        })
        .await;
    }
    let jobs = eventually("all answered jobs end", SETTLE_MAX, || states(&client, &asked.jobs)).await;
    assert!(jobs.len() > FAULTS.len(), "only {} jobs were answered", jobs.len());
    eventually("the box is ready", SETTLE_MAX, || is_ready(&process)).await;
    let succeeded = jobs.iter().filter(|job| job["status"] == "succeeded").count();
    agree(&client).await;
    assert!(asked.exports.len() > 4 && asked.personal.len() > 4, "{:?} {:?}", asked.exports, asked.personal);
    exports_end(&client, &people, asked).await;
    assert_eq!(process.terminate(), Some(0));
    let diagnosis = gleaner(&data, &["doctor"]);
    assert_eq!(diagnosis.status.code(), Some(0), "{}", said(&diagnosis));
    println!("{} answered jobs, {succeeded} succeeded, under {} faults", jobs.len(), FAULTS.len());
}

/// Search and the console have what the store has.
async fn agree(client: &Client) {
    let sql = json!({
        "sql": "SELECT count(*) AS jobs, sum(CASE WHEN status = 'succeeded' THEN 1 ELSE 0 END) AS done FROM jobs",
        "waitMs": 10_000
    });
    eventually("search and SQL agree with the store", SETTLE_MAX, || async {
        let answer = post(client, "/api/v1/bi/queries", &sql).await;
        let done = answer.json["results"]["rows"][0]["done"].as_u64()?;
        let found = get(client, "/api/v1/extraction/results?limit=1").await;
        (found.json["total"].as_u64()? == done && done > 0).then_some(())
    })
    .await;
}

/// Every kind of call on the file of the keys fails once, at the first start and at a later one: the box does not start, says
/// what failed where, and starts when it is over; with the keys that it had, if it had any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_cannot_be_written_or_read_start_no_box() {
    let Some(shim) = Shim::new("keys") else { return };
    let data = shim.root().join("data");
    let start = |calls: &str, path: &str, error: Option<i32>| {
        let environment = shim.with_faults();
        shim.fail(&Fault { calls, path, error, skip: 0, count: 1_000_000 });
        let output = gleaner_under(&data, &["serve"], &environment);
        assert!(shim.fired() > 0, "{calls} {path} met nobody");
        assert_eq!(output.status.code(), Some(1), "{calls} {path}: {}", said(&output));
        assert!(said(&output).contains("key"), "{calls} {path}: {}", said(&output));
    };
    // The draft of the file has the file's name in its own.
    for (calls, path, error) in [
        ("C", "data.key", EIO),
        ("C", "data.key", ENOSPC),
        ("W", "data.key", EIO),
        ("W", "data.key", ENOSPC),
        ("S", "data.key", EIO),
        ("L", "data.key", EIO),
        ("U", ".data.key", EIO),
        ("O", "data.key", EIO),
        ("O", "data.key", EMFILE),
    ] {
        start(calls, path, error);
    }
    let process = Process::start(&data, &[]);
    let owner = member(&process.client(), &process.socket(), "keys").await;
    process.kill();
    let before = std::fs::read(shim.root().join("data.key")).unwrap();
    for error in [EIO, EMFILE] {
        start("O", "data.key", error);
    }
    assert_eq!(std::fs::read(shim.root().join("data.key")).unwrap(), before);
    let left = std::fs::read_dir(shim.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.starts_with(".data.key")).collect();
    assert!(left.len() <= 1, "drafts with keys stay: {left:?}");
    let process = Process::start(&data, &[]);
    expect(get(&process.client().bearer(&owner.key), "/api/v1/jobs").await, 200);
    assert_eq!(process.terminate(), Some(0));
}
