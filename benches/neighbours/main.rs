//! What an organization feels of a busy or hostile one beside it, and of strangers at the door.
//!
//! `cargo bench --bench neighbours [-- NAME …]` starts the real binary once for each of the [`attacks`], lets it go on for
//! some seconds, and meanwhile sends fifty ordinary requests a second for another organization, in an open loop: each is
//! timed from the moment at which it was due, so a box that stands still for a second shows in fifty of them. That
//! organization also submits jobs to a site that answers at once; how long each waits from its submit to its begin is
//! read from the job itself. Two attacks are about the queue alone, and there the jobs come all at once, so that a fair
//! share can be reckoned: what stands behind "fair" is that share, and what behind "times" the worst job against it.
//!
//! What counts (issue 12): the 99th percentile of the ordinary requests stays under 100 ms, none fails, and jobs begin
//! within twice their fair share.

mod attacks;
#[path = "../../tests/it/harness/mod.rs"]
#[allow(dead_code, clippy::unwrap_used)] // A helper of the tests, which need more of it.
mod harness;
mod ordinary;

use attacks::{Attack, Work};
use harness::process::Process;
use harness::vendors::{SCRAPINGBEE, Simulator};
use harness::web::{Answer, Web};
use harness::{Member, eventually, expect, get, member, post, text};
use ordinary::{Ordinary, Spread};
use serde_json::{Value, json};
use server::client::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long an attack goes on before and while it is measured.
const LEAD: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(15);
const JOB_EVERY: Duration = Duration::from_millis(250);
/// Host names that lead to the web server on loopback, each a domain of its own.
const HOSTS: usize = 200;
/// Jobs that the box runs at once: the default.
pub const SLOTS: usize = 32;

/// A box with two organizations and the web that they collect.
pub struct Stage {
    pub process: Process,
    pub web: Web,
    pub simulator: Simulator,
    pub hostile: Member,
    pub neighbour: Member,
    over: AtomicBool,
}

impl Stage {
    async fn open(folder: &std::path::Path) -> Arc<Stage> {
        let port = Arc::new(OnceLock::new());
        let own = port.clone();
        let web = Web::open(move |path| site(path, *own.get()?)).await;
        port.set(web.address.port()).expect("set once");
        let simulator = Simulator::open(SCRAPINGBEE).await;
        let allow = format!(
            "[\"127.0.0.1/32:{}\", \"127.0.0.1/32:{}\"]",
            web.address.port(),
            simulator.address.port()
        );
        let names = (0..HOSTS).flat_map(|n| [format!("a{n}.test"), format!("b{n}.test")]);
        let hosts: Vec<_> = names.map(|name| format!("\"{name}\" = [\"127.0.0.1\"]")).collect();
        let hosts = format!("{{ {} }}", hosts.join(", "));
        let process = Process::start(
            &folder.join("data"),
            &[("NETWORK__ALLOW", &allow), ("NETWORK__HOSTS", &hosts), ("DISPATCH__ROBOTS", "false")],
        );
        let hostile = member(&process.client(), &process.socket(), "hostile").await;
        let neighbour = member(&process.client(), &process.socket(), "neighbour").await;
        let urls: Vec<_> = (0..100).map(|n| format!("https://shop{n}.example/page")).collect();
        expect(post(&neighbour.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
        Arc::new(Stage { process, web, simulator, hostile, neighbour, over: AtomicBool::new(false) })
    }

    /// Whether the measuring is over: an attack ends then.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// A page of the web server under one of its names.
    pub fn page(&self, host: &str, path: &str) -> String {
        format!("http://{host}.test:{}{path}", self.web.address.port())
    }
}

/// What the paths of the web server on this port answer.
fn site(path: &str, port: u16) -> Option<Answer> {
    Some(match path.split('/').nth(1).unwrap_or_default() {
        "robots.txt" => return None,
        "silent" => Answer::html("late").after_ms(60_000),
        "second" => Answer::html("<title>Slow</title>").after_ms(1_000),
        "half" => Answer::html("<title>Slow</title>").after_ms(500),
        "away" => Answer::redirect(&format!("http://a1.test:{port}/rest")),
        "rest" => {
            let mut answer = Answer::status(429);
            answer.headers.push(("retry-after".to_owned(), "3600".to_owned()));
            answer
        }
        "base" => Answer::html(hostile_base()),
        _ => Answer::html("<title>Page</title><h1>Hello</h1>"),
    })
}

/// A base address of a megabyte, and ten thousand links that are resolved against it.
fn hostile_base() -> String {
    let links: String = (0..10_000).map(|n| format!("<a href='../{n}'>x</a>")).collect();
    format!("<base href='http://a.test/{}'>{links}", "a/".repeat(500_000))
}

#[tokio::main]
async fn main() {
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for attack in attacks::ALL {
        if asked.is_empty() || asked.iter().any(|name| name == attack.name) {
            run(attack).await;
        }
    }
}

async fn run(attack: &Attack) {
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let stage = Stage::open(dir.path()).await;
    let before = stage.process.memory_most_bytes();
    let under_way = tokio::spawn((attack.begin)(stage.clone()));
    tokio::time::sleep(LEAD).await;
    let clients = (0..8).map(|_| stage.process.client().bearer(&stage.neighbour.key)).collect();
    let ordinary = tokio::spawn(Ordinary::measure(clients, LASTS));
    let began = match attack.work {
        Work::Trickle => trickle(&stage).await,
        Work::Heap { jobs, path, fair } => heap(&stage, jobs, path, fair).await,
    };
    let seen = ordinary.await.expect("the ordinary requests");
    stage.over.store(true, Ordering::Relaxed);
    let done = tokio::time::timeout(Duration::from_secs(60), under_way).await;
    let done = done.map_or_else(|_| "did not end".to_owned(), |done| done.expect("the attack"));
    println!("\n{}: {}", attack.name, attack.what);
    println!("  ordinary: {seen}");
    println!("  jobs:     {began}");
    let grown = stage.process.memory_most_bytes().saturating_sub(before) >> 20;
    println!("  hostile:  {done}; the box grew by {grown} MiB");
    if let Ok(stage) = Arc::try_unwrap(stage).map_err(drop) {
        stage.process.kill();
    }
}

/// One job after the other to a quick site, and how long each waited before it began.
async fn trickle(stage: &Stage) -> String {
    let client = &stage.neighbour.api;
    let mut ticks = tokio::time::interval(JOB_EVERY);
    let (mut ids, mut refused) = (Vec::new(), 0);
    for n in 0..(LASTS.as_millis() / JOB_EVERY.as_millis()) as usize {
        ticks.tick().await;
        let url = stage.page(&format!("b{}", n % HOSTS), &format!("/quick/{n}"));
        let job = post(client, "/api/v1/jobs", &json!({ "url": url })).await;
        match job.status.as_u16() {
            201 => ids.push(text(&job.json, "id").to_owned()),
            _ => refused += 1,
        }
    }
    let (mut waits, unbegun) = waited(client, &ids).await;
    format!("{}, begun after {}; {unbegun} never, {refused} refused", ids.len(), Spread::of(&mut waits))
}

/// All jobs at once, and the worst of them against when it would have begun with its fair share.
async fn heap(stage: &Stage, jobs: usize, path: &str, fair: fn(usize) -> Duration) -> String {
    let client = &stage.neighbour.api;
    let url = |n: usize| {
        // A path that begins with a host's name is at one site, the others at a site each.
        match path.split_once(':') {
            Some((host, path)) => stage.page(host, &format!("{path}/{n}")),
            None => stage.page(&format!("b{}", n % HOSTS), &format!("{path}/{n}")),
        }
    };
    let batch: Vec<_> = (0..jobs).map(|n| json!({ "url": url(n) })).collect();
    let made = expect(post(client, "/api/v1/jobs/batch", &json!({ "jobs": batch })).await, 201);
    let ids: Vec<_> =
        made["jobs"].as_array().expect("jobs").iter().map(|job| text(job, "id").to_owned()).collect();
    let (mut waits, unbegun) = waited(client, &ids).await;
    waits.sort_unstable();
    // Under a second nobody can tell a share from the time that a round takes.
    let least = Duration::from_secs(1);
    let times =
        waits.iter().enumerate().map(|(n, wait)| wait.as_secs_f64() / fair(n).max(least).as_secs_f64());
    let worst = times.fold(0.0, f64::max);
    let last = fair(waits.len().saturating_sub(1));
    let spread = Spread::of(&mut waits);
    format!(
        "{jobs} at once, begun after {spread}; the last is fair after {last:.1?}, the worst {worst:.2} times; {unbegun} never"
    )
}

/// How long each job waited from its submit to its begin, and how many never began.
async fn waited(client: &Client, ids: &[String]) -> (Vec<Duration>, usize) {
    let (mut waits, mut unbegun) = (Vec::new(), 0);
    for id in ids {
        let job = tokio::time::timeout(Duration::from_secs(100), begun(client, id)).await;
        let Ok(job) = job else {
            unbegun += 1;
            continue;
        };
        let at = |field: &str| text(&job, field).parse::<jiff::Timestamp>().expect("a time");
        waits.push(at("startedAt").duration_since(at("createdAt")).try_into().unwrap_or_default());
    }
    (waits, unbegun)
}

async fn begun(client: &Client, id: &str) -> Value {
    eventually("the job begins", Duration::from_secs(120), || async {
        let job = expect(get(client, &format!("/api/v1/jobs/{id}")).await, 200);
        job["startedAt"].is_string().then_some(job)
    })
    .await
}
