//! `kill -9` at random moments of a running collection: what was answered is kept, and done exactly once.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{eventually, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How often the process is killed (issue 2, "Holds when").
const KILLS: u32 = 50;
/// Time that everything gets to end after the last start.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// A small generator with a seed, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Pages that carry their own number, some slow, some gone: the numbers tell a lost result from a doubled one.
pub fn page(path: &str) -> Option<Answer> {
    let number: u32 = path.strip_prefix("/p/")?.parse().ok()?;
    if number.is_multiple_of(11) {
        return Some(Answer::status(404));
    }
    let slow = if number.is_multiple_of(5) { 40 } else { 0 };
    Some(Answer::html(format!("<title>page {number}</title><h1>number {number}</h1>")).after_ms(slow))
}

/// Submits jobs until it is told to stop or the process dies; what was answered 201 is what counts.
pub async fn submit(client: Client, web: String, first: u32, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut answered = Vec::new();
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let jobs: Vec<_> = (0..5).map(|i| json!({ "url": format!("{web}/p/{}", number + i) })).collect();
        number += 5;
        match client.post("/api/v1/jobs/batch", &json!({ "jobs": jobs })).await {
            Ok(reply) if reply.status == 201 => {
                answered.extend(
                    reply.json["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").to_owned()),
                );
            }
            // A refusal under load is an answer; a broken connection is the kill.
            Ok(reply) => assert!(reply.status == 503, "{}", reply.text()),
            Err(_) => break,
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_collection_ends_with_one_result_for_each_job() {
    let web = Web::open(page).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "16")];
    let mut dice = Dice(0x5EED_0002);
    let mut answered = BTreeSet::new();

    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "crash").await;
    for round in 0..4 * KILLS {
        // A machine that is slow to start answers little between two kills.
        if round >= KILLS && answered.len() > KILLS as usize {
            break;
        }
        let client = process.client().bearer(&owner.key);
        let stop = Arc::new(AtomicBool::new(false));
        let submitting = tokio::spawn(submit(client, web.url(""), round * 1_000, stop.clone()));
        tokio::time::sleep(Duration::from_millis(20 + dice.below(180))).await;
        process.kill();
        stop.store(true, Ordering::Relaxed);
        answered.extend(submitting.await.unwrap());
        process = Process::start(&data, &settings);
        if round % 10 == 9 {
            agrees(&process, &owner.key, &answered).await;
        }
    }
    assert!(answered.len() > KILLS as usize, "only {} jobs were answered", answered.len());
    agrees(&process, &owner.key, &answered).await;
    assert_eq!(process.terminate(), Some(0), "a drain ends with exit code 0");
}

/// Waits until every answered job has ended, then compares redb, ledger, search and SQL.
pub async fn agrees(process: &Process, key: &str, answered: &BTreeSet<String>) {
    let client = &process.client().bearer(key);
    let ids: Vec<_> = answered.iter().collect();
    let jobs = eventually("all answered jobs end", SETTLE_MAX, || async {
        let mut all = BTreeMap::new();
        for chunk in ids.chunks(500) {
            let polled = expect(post(client, "/api/v1/jobs/poll", &json!({ "ids": chunk })).await, 200);
            assert_eq!(polled["missing"], json!([]), "a job that was answered is gone");
            for job in polled["items"].as_array().unwrap() {
                if matches!(text(job, "status"), "queued" | "running") {
                    return None;
                }
                all.insert(text(job, "id").to_owned(), job.clone());
            }
        }
        Some(all)
    })
    .await;
    for (id, job) in &jobs {
        let succeeded = job["status"] == "succeeded";
        assert_eq!(succeeded, job["resultId"].is_string(), "job {id}: {job}");
    }
    // Jobs whose answer was lost with the process exist too: everything below counts all jobs of the organization.
    let all = all_jobs(client).await;
    assert!(answered.iter().all(|id| all.contains_key(id)));
    let succeeded = all.values().filter(|job| job["status"] == "succeeded").count();
    balances(client, &all).await;
    searchable(client, succeeded, &all).await;
    queryable(client, succeeded, all.len()).await;
}

async fn all_jobs(client: &Client) -> BTreeMap<String, Value> {
    eventually("no job is left", SETTLE_MAX, || async {
        let all = pages(client, "/api/v1/jobs?limit=200").await;
        let open = |job: &Value| matches!(text(job, "status"), "queued" | "running");
        (!all.iter().any(open))
            .then(|| all.into_iter().map(|job| (text(&job, "id").to_owned(), job)).collect())
    })
    .await
}

async fn pages(client: &Client, path: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(get(client, &format!("{path}{cursor}")).await, 200);
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

/// The balance is the sum of the ledger, no reserve is left, and each job was charged what its attempts say.
async fn balances(client: &Client, all: &BTreeMap<String, Value>) {
    let plan = expect(get(client, "/api/v1/plans/current").await, 200);
    let ledger = pages(client, "/api/v1/plans/transactions?limit=200").await;
    let sum: i64 = ledger.iter().map(|row| row["amount"].as_i64().unwrap()).sum();
    assert_eq!(plan["remainingCredits"].as_i64(), Some(sum));
    let mut of_job: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for row in &ledger {
        if let Some(job) = row["jobId"].as_str() {
            let entry = of_job.entry(job).or_default();
            entry.0 += row["amount"].as_i64().unwrap();
            entry.1 += 1;
        }
    }
    assert_eq!(of_job.len(), all.len(), "a job without a ledger entry, or an entry without a job");
    for (id, (amount, rows)) in of_job {
        assert_eq!(-amount, all[id]["creditsCharged"].as_i64().unwrap(), "job {id}");
        assert_eq!(rows, 2, "job {id} has one reserve and one settlement");
    }
}

async fn searchable(client: &Client, succeeded: usize, all: &BTreeMap<String, Value>) {
    let total = |found: &Value| found["total"].as_u64().unwrap() as usize;
    let path = "/api/v1/extraction/results?limit=200";
    eventually("search has every result", SETTLE_MAX, || async {
        (total(&expect(get(client, path).await, 200)) == succeeded).then_some(())
    })
    .await;
    let found = pages(client, path).await;
    let jobs: BTreeSet<_> = found.iter().map(|result| text(result, "jobId")).collect();
    assert_eq!(jobs.len(), found.len(), "a job has two results in search");
    assert_eq!(found.len(), succeeded);
    for result in &found {
        assert_eq!(all[text(result, "jobId")]["resultId"], result["id"]);
    }
}

async fn queryable(client: &Client, succeeded: usize, jobs: usize) {
    let sql = "SELECT (SELECT count(*) FROM readings) AS readings, (SELECT count(DISTINCT job_id) FROM readings) AS \
               distinct_jobs, (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM jobs WHERE status = \
               'succeeded') AS succeeded, (SELECT sum(amount) FROM credit_transactions) AS balance";
    let plan = expect(get(client, "/api/v1/plans/current").await, 200);
    let expected = json!({
        "readings": succeeded, "distinct_jobs": succeeded, "jobs": jobs, "succeeded": succeeded,
        "balance": plan["remainingCredits"],
    });
    eventually("SQL has every row", SETTLE_MAX, || async {
        let answer = post(client, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        (answer.json["results"]["rows"][0] == expected).then_some(())
    })
    .await;
}

/// Three racers, and a domain that takes one visit at a time: the first fails, and the box dies while the second is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_race_asks_nobody_again_who_has_failed() {
    let visits = Arc::new(AtomicUsize::new(0));
    let seen = visits.clone();
    let web = Web::open(move |path| {
        Some(match path {
            "/robots.txt" => return None,
            _ => match seen.fetch_add(1, Ordering::Relaxed) {
                0 => Answer::status(503),
                1 => Answer::html("<title>never read</title>").held("second"),
                _ => Answer::html("<title>page</title><h1>page</h1>"),
            },
        })
    })
    .await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "1")];
    let process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "race").await;
    let api = process.client().bearer(&owner.key);
    let mut racers = Vec::new();
    for name in ["First", "Second", "Third"] {
        let new = json!({ "adapter": "direct", "name": name });
        let made = expect(post(&api, "/api/v1/providers", &new).await, 201);
        racers.push(text(&made, "id").to_owned());
    }
    let dag = json!({
        "nodes": [
            { "id": "start", "type": "start" },
            { "id": "race", "type": "race", "config": { "providerIds": racers } },
            { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
            { "id": "bad", "type": "end", "config": { "status": "failed" } },
        ],
        "edges": [
            { "source": "start", "target": "race", "type": "always" },
            { "source": "race", "target": "ok", "type": "success" },
            { "source": "race", "target": "bad", "type": "failure" },
        ],
    });
    let flow = expect(post(&api, "/api/v1/workflows", &json!({ "name": "race", "dag": dag })).await, 201);
    let flow = text(&flow, "workflowId").to_owned();
    expect(post(&api, &format!("/api/v1/workflows/{flow}/publish"), &json!({})).await, 200);
    let job = json!({ "url": web.url("/page"), "workflowId": flow });
    let id = text(&expect(post(&api, "/api/v1/jobs", &job).await, 201), "id").to_owned();
    eventually("the second is asked", SETTLE_MAX, || async {
        (visits.load(Ordering::Relaxed) == 2).then_some(())
    })
    .await;
    process.kill();
    web.release_all();

    let process = Process::start(&data, &settings);
    let api = process.client().bearer(&owner.key);
    let path = format!("/api/v1/jobs/{id}");
    let job = eventually("the job ends", SETTLE_MAX, || async {
        let job = expect(get(&api, &path).await, 200);
        (!matches!(text(&job, "status"), "queued" | "running")).then_some(job)
    })
    .await;
    let attempts: Vec<_> = job["attempts"].as_array().unwrap().iter().collect();
    let of_first = attempts.iter().filter(|attempt| attempt["providerId"] == json!(racers[0])).count();
    assert_eq!((of_first, &job["status"]), (1, &json!("succeeded")), "{job}");
    assert_eq!(attempts[0]["providerId"], json!(racers[0]), "{job}");
    assert_eq!(attempts[0]["httpStatus"], 503, "its failure is written down: {job}");
    assert_eq!(visits.load(Ordering::Relaxed), 3, "{job}");
    assert_eq!(process.terminate(), Some(0));
}
