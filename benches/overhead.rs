//! What dispatching costs the box: jobs from the queue through a hosted provider and back, without a network to wait for.
//!
//! `cargo bench --bench overhead -- [JOBS]` (20,000 unless said otherwise) starts the real binary, fills its queue while
//! one job at a time is run, starts it again with its queue full, and counts how many jobs a second end from then on:
//! claimed, asked for at a simulator of ScrapingBee (tests/it/harness/vendors) in this process, parsed, kept with their
//! page, settled, all durable. The simulator and this counting share the machine with the box.
//!
//! Every URL has the same page, which is written once: that is dispatching and settling. With the word `own` each URL has a
//! page of its own, so that each is compressed, written and synced as well.
//!
//! `cargo bench --bench overhead -- waiting [JOBS]`: threads and memory while so many jobs stand on a wait node.

use gleaner::admin::{self, Request};
use gleaner::http::client::Client;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../tests/it/harness/vendors/mod.rs"]
#[allow(dead_code, clippy::unwrap_used)] // A helper of the tests, which need more of it.
mod vendors;

use vendors::{Asked, Reply, SCRAPINGBEE, Simulator, Told, Vendor};

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
    if std::env::args().any(|word| word == "waiting") {
        waiting(number.unwrap_or(WAITING_DEFAULT)).await;
    } else {
        let own = std::env::args().any(|word| word == "own");
        let vendor = if own { Vendor { answer: own_page, ..SCRAPINGBEE } } else { SCRAPINGBEE };
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
        let reply = client.post("/api/v1/jobs/batch", &json!({ "jobs": batch })).await.expect("an answer");
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
}

async fn waiting(jobs: usize) {
    let simulator = Simulator::open(SCRAPINGBEE).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let socket = dir.path().join("data/admin.sock");
    let (child, url) = start(dir.path(), &simulator, CONCURRENCY);
    let client = owner(&url, &socket, &simulator).await;
    let providers = client.get("/api/v1/providers").await.expect("an answer").json;
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
    let made = client.post("/api/v1/workflows", &json!({ "name": "patient", "dag": dag })).await;
    let made = made.expect("an answer").json;
    let workflow = made["workflowId"].as_str().expect("an id");
    let publish = format!("/api/v1/workflows/{workflow}/publish");
    assert_eq!(client.post(&publish, &json!({})).await.expect("an answer").status, 200);
    // What the box needs for some jobs it has by then.
    submit(&client, BATCH, None).await;
    at_rest(&socket).await;
    println!("nothing to do:      {}", standing(&child));
    submit(&client, jobs, Some(workflow)).await;
    at_rest(&socket).await;
    println!("{jobs} jobs waiting: {}", standing(&child));
    assert_eq!(simulator.asked(), BATCH, "none of them has gone on");
    stop(child);
}

/// Until no job has run for some looks in a row.
async fn at_rest(socket: &Path) {
    let (begun, mut quiet) = (Instant::now(), 0);
    while quiet < 20 {
        tokio::time::sleep(LOOK_EVERY).await;
        let status = admin::call(socket, &Request::Status).await.expect("its status");
        quiet = if status["jobsRunning"] == 0 { quiet + 1 } else { 0 };
        assert!(begun.elapsed() < GIVE_UP_AFTER, "jobs go on running: {status}");
    }
}

fn standing(child: &Child) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("its status");
    let line = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or_default()
    };
    format!("{} threads, {} MiB of memory of its own", line("Threads"), line("RssAnon") / 1024)
}

async fn dispatching(jobs: usize, vendor: Vendor) {
    let simulator = Simulator::open(vendor).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let socket = dir.path().join("data/admin.sock");
    let (child, url) = start(dir.path(), &simulator, "1");
    let client = owner(&url, &socket, &simulator).await;
    let begun = Instant::now();
    submit(&client, jobs, None).await;
    println!("{jobs} jobs queued in {:.1} s", begun.elapsed().as_secs_f64());
    stop(child);
    let already = simulator.asked();

    let begun = Instant::now();
    let (child, _) = start(dir.path(), &simulator, CONCURRENCY);
    println!("started again after {:.1} s; its process is {}", begun.elapsed().as_secs_f64(), child.id());
    let before = admin::call(&socket, &Request::Status).await.expect("its status");
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
        let status = admin::call(&socket, &Request::Status).await.expect("its status");
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
    stop(child);
}

fn start(folder: &Path, simulator: &Simulator, concurrency: &str) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gleaner"))
        .arg("serve")
        .current_dir(folder)
        .env("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
        .env("GLEANER_STORAGE__DATA_DIR", folder.join("data"))
        .env("GLEANER_NETWORK__ALLOW", format!("[\"127.0.0.1/32:{}\"]", simulator.address.port()))
        .env("GLEANER_DISPATCH__CONCURRENCY", concurrency)
        .env("GLEANER_DISPATCH__PER_DOMAIN_CONCURRENCY", "4")
        .env("GLEANER_LOG__LEVEL", "warn")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
    let line = lines.next().expect("it says where it listens").expect("text");
    let url = line.strip_prefix("Gleaner listens at ").expect("it says where it listens").to_owned();
    (child, url)
}

/// Ends the box in an orderly way.
fn stop(mut child: Child) {
    let asked = Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
    assert!(asked.success());
    child.wait().expect("it ends");
}

/// An organization whose one provider is the simulator.
async fn owner(url: &str, socket: &Path, simulator: &Simulator) -> Client {
    let anonymous = Client::new(url);
    let email = "bench@example.com".to_owned();
    let person = json!({ "email": email, "password": "a long enough passphrase", "name": "Bench" });
    let login = anonymous.post("/api/v1/auth/register", &person).await.expect("an answer").json;
    let browser = anonymous.bearer(login["accessToken"].as_str().expect("a token"));
    let org = browser.post("/api/v1/orgs", &json!({ "name": "Bench" })).await.expect("an answer").json;
    admin::call(socket, &Request::UserVerify { email }).await.expect("a verified address");
    let browser = anonymous.bearer(org["accessToken"].as_str().expect("a token"));
    let key = browser.post("/api/v1/api-keys", &json!({ "name": "bench" })).await.expect("an answer").json;
    let client = anonymous.bearer(key["secret"].as_str().expect("a secret"));
    let own = client.get("/api/v1/providers").await.expect("an answer").json;
    let own = format!("/api/v1/providers/{}", own["items"][0]["id"].as_str().expect("an id"));
    assert_eq!(client.delete(&own).await.expect("an answer").status, 204);
    let provider = json!({
        "adapter": SCRAPINGBEE.id, "name": "Simulated", "baseUrl": simulator.url(),
        "credentials": { "apiKey": "good-key" },
    });
    assert_eq!(client.post("/api/v1/providers", &provider).await.expect("an answer").status, 201);
    client
}
