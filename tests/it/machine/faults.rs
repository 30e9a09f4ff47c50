//! Every kind of call on files fails for a while, in every place where the box keeps something: no answer is a 500, nothing
//! that was answered is lost, nothing stays open, and the end of each fault shows without a restart.

use super::shim::{Fault, Shim};
use super::{gleaner, said};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{eventually, expect, get, member, post, text};
use gleaner::http::client::Client;
use serde_json::{Value, json};
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

/// Asks for everything that touches files; gives the jobs that were answered.
async fn ask(client: &Client, web: &Web, number: &mut u32) -> Vec<String> {
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
    if made.status != 201 {
        assert_eq!(made.status, 503, "{}", made.text());
        return Vec::new();
    }
    made.json["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").to_owned()).collect()
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
    let (mut answered, mut number) = (BTreeSet::new(), 0);
    for (calls, path, error) in FAULTS {
        let before = shim.fired();
        shim.fail(&Fault { calls, path, error: *error, skip: 0, count: 1_000_000 });
        let begun = Instant::now();
        let waits = if MAY_BE_IDLE.contains(&(calls, path)) { IDLE_MAX } else { SETTLE_MAX };
        while begun.elapsed() < LASTS || (shim.fired() == before && begun.elapsed() < waits) {
            answered.extend(ask(&client, &web, &mut number).await);
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
    let jobs = eventually("all answered jobs end", SETTLE_MAX, || states(&client, &answered)).await;
    assert!(jobs.len() > FAULTS.len(), "only {} jobs were answered", jobs.len());
    eventually("the box is ready", SETTLE_MAX, || is_ready(&process)).await;
    let succeeded = jobs.iter().filter(|job| job["status"] == "succeeded").count();
    agree(&client).await;
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
