//! What dispatching costs the box: jobs from the queue through a hosted provider and back, without a network to wait for.
//!
//! `cargo bench --bench overhead -- [JOBS]` (20,000 unless said otherwise) starts the real binary, fills its queue while
//! one job at a time is run, starts it again with its queue full, and counts how many jobs a second end from then on:
//! claimed, asked for at a simulator of ScrapingBee (tests/harness/src/vendors) in this process, parsed, kept with their
//! page, settled, all durable. The simulator and this counting share the machine with the box.
//!
//! Every URL has the same page, which is written once: that is dispatching and settling. With the word `own` each URL has a
//! page of its own, so that each is compressed, written and synced as well.
//!
//! `cargo bench --bench overhead -- waiting [JOBS]`: threads and memory while so many jobs stand on a wait node.
//!
//! `cargo bench --bench overhead -- fresh [lean] [JOBS_A_MINUTE]`: how soon the SQL console shows what jobs read; see [`fresh`].

use gleaner::admin;
use harness::Request;
use serde_json::{Value, json};
use server::client::Client;
use std::path::Path;
use std::time::{Duration, Instant};

mod fresh;

use harness::process::Process;
use harness::vendors::{Asked, Reply, SCRAPINGBEE, Simulator, Told, Vendor};
use harness::{expect, get, member, post, text};

const JOBS_DEFAULT: usize = 20_000;
const WAITING_DEFAULT: usize = 10_000;
const WAIT_MS: u32 = 60_000;
const DOMAINS: usize = 500;
const BATCH: usize = 1_000;
/// Jobs that run at once.
const CONCURRENCY: &str = "256";
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// When nothing more comes for this long, the count is wrong.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let number = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let is_asked = |mode: &str| std::env::args().any(|word| word == mode);
    if is_asked("waiting") {
        waiting(number.unwrap_or(WAITING_DEFAULT)).await;
    } else if is_asked("fresh") {
        fresh::fresh(number.unwrap_or(fresh::JOBS_PER_MINUTE), is_asked("lean")).await;
    } else {
        let vendor = if is_asked("own") { Vendor { answer: own_page, ..SCRAPINGBEE } } else { SCRAPINGBEE };
        dispatching(number.unwrap_or(JOBS_DEFAULT), vendor).await;
    }
}

/// The page, with the URL that was asked for at its end.
fn own_page(asked: &Asked) -> Told {
    let told = (SCRAPINGBEE.answer)(asked)?;
    let url = asked.param("url").unwrap_or_default();
    Some(Reply { body: format!("{}<p>{url}</p>", told.body), ..told })
}

/// Submits this many jobs over all domains, along a workflow or the built-in path.
async fn submit(client: &Client, jobs: usize, workflow: Option<&str>) {
    for batch in (0..jobs).collect::<Vec<_>>().chunks(BATCH) {
        let url = |n: &usize| format!("http://page.d{}.test/{n}", n % DOMAINS);
        let batch: Vec<_> = batch.iter().map(|n| json!({ "url": url(n), "workflowId": workflow })).collect();
        expect(post(client, "/api/v1/jobs/batch", &json!({ "jobs": batch })).await, 201);
    }
}

async fn waiting(jobs: usize) {
    let simulator = Simulator::open(SCRAPINGBEE).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let process = start(dir.path(), &simulator, CONCURRENCY);
    let client = owner(&process, &simulator).await;
    let providers = expect(get(&client, "/api/v1/providers").await, 200);
    let dag = json!({
        "nodes": [
            { "id": "start", "type": "start" },
            { "id": "wait", "type": "wait", "config": { "ms": WAIT_MS } },
            { "id": "ask", "type": "provider", "config": { "providerId": providers["items"][0]["id"] } },
            { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
            { "id": "bad", "type": "end", "config": { "status": "failed" } },
        ],
        "edges": [
            { "source": "start", "target": "wait", "type": "always" },
            { "source": "wait", "target": "ask", "type": "always" },
            { "source": "ask", "target": "ok", "type": "success" },
            { "source": "ask", "target": "bad", "type": "failure" },
        ],
    });
    let made = post(&client, "/api/v1/workflows", &json!({ "name": "patient", "dag": dag })).await.json;
    let workflow = text(&made, "workflowId");
    expect(post(&client, &format!("/api/v1/workflows/{workflow}/publish"), &json!({})).await, 200);
    // What the box needs for some jobs it has by then.
    submit(&client, BATCH, None).await;
    at_rest(&process.socket()).await;
    println!("nothing to do:      {}", standing(&process));
    submit(&client, jobs, Some(workflow)).await;
    at_rest(&process.socket()).await;
    println!("{jobs} jobs waiting: {}", standing(&process));
    assert_eq!(simulator.asked(), BATCH, "none of them has gone on");
    process.terminate();
}

async fn status(socket: &Path) -> Value {
    admin::call(socket, &Request::Status).await.expect("its status")
}

/// Until no job has run for some looks in a row.
async fn at_rest(socket: &Path) {
    let (begun, mut quiet) = (Instant::now(), 0);
    while quiet < 20 {
        tokio::time::sleep(LOOK_EVERY).await;
        let status = status(socket).await;
        quiet = if status["jobsRunning"] == 0 { quiet + 1 } else { 0 };
        assert!(begun.elapsed() < GIVE_UP_AFTER, "jobs go on running: {status}");
    }
}

fn standing(process: &Process) -> String {
    let own_mib = process.counted("RssAnon") / 1024;
    format!("{} threads, {own_mib} MiB of memory of its own", process.counted("Threads"))
}

async fn dispatching(jobs: usize, vendor: Vendor) {
    let simulator = Simulator::open(vendor).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let process = start(dir.path(), &simulator, "1");
    let client = owner(&process, &simulator).await;
    let begun = Instant::now();
    submit(&client, jobs, None).await;
    println!("{jobs} jobs queued in {:.1} s", begun.elapsed().as_secs_f64());
    process.terminate();
    let already = simulator.asked();

    let begun = Instant::now();
    let process = start(dir.path(), &simulator, CONCURRENCY);
    println!("started again after {:.1} s; its process is {}", begun.elapsed().as_secs_f64(), process.id());
    let before = status(&process.socket()).await;
    let begun = Instant::now();
    let (mut last, mut seen, mut next) = (Instant::now(), already, already + jobs / 10);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let asked = simulator.asked();
        if asked >= next {
            println!("{asked:6} asked for after {:.2} s", begun.elapsed().as_secs_f64());
            next = asked + jobs / 10;
        }
        if asked > seen {
            (last, seen) = (Instant::now(), asked);
        }
        let status = status(&process.socket()).await;
        if asked >= jobs && status["jobsRunning"] == 0 {
            let seconds = begun.elapsed().as_secs_f64();
            let done = (jobs - already) as f64;
            let spent = |name: &str| {
                let count = |status: &Value| status["store"][name].as_u64().unwrap_or_default();
                (count(&status) - count(&before)) as f64
            };
            println!(
                "{done} jobs in {seconds:.2} s: {:.0} a second; {:.2} operations a job in {} commits",
                done / seconds,
                spent("operations") / done,
                spent("commits")
            );
            break;
        }
        assert!(last.elapsed() < GIVE_UP_AFTER, "nothing comes any more: {asked} of {jobs}, {status}");
    }
    simulator.assert_understood();
    process.terminate();
}

fn start(folder: &Path, simulator: &Simulator, concurrency: &str) -> Process {
    let settings = [
        ("NETWORK__ALLOW", &*format!("[\"127.0.0.1/32:{}\"]", simulator.address.port())),
        ("DISPATCH__CONCURRENCY", concurrency),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "4"),
        ("LOG__LEVEL", "warn"),
    ];
    Process::start(&folder.join("data"), &settings)
}

/// An organization whose one provider is the simulator.
async fn owner(process: &Process, simulator: &Simulator) -> Client {
    let client = member(&process.client(), &process.socket(), "bench").await.api;
    let own = expect(get(&client, "/api/v1/providers").await, 200);
    let own = format!("/api/v1/providers/{}", text(&own["items"][0], "id"));
    assert_eq!(client.delete(&own).await.expect("an answer").status, 204);
    let provider = json!({
        "adapter": SCRAPINGBEE.id, "name": "Simulated", "baseUrl": simulator.url(),
        "credentials": { "apiKey": "good-key" },
    });
    expect(post(&client, "/api/v1/providers", &provider).await, 201);
    client
}
