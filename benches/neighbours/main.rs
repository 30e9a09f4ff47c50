//! What an organization feels of a busy or hostile one beside it, and of strangers at the door.
//!
//! `cargo bench --bench neighbours [-- NAME …]` starts the real binary once for each of the [`attacks`], lets it go on for
//! some seconds, and meanwhile sends fifty ordinary requests a second for another organization, in an open loop: each is
//! timed from the moment at which it was due, so a box that stands still for a second shows in fifty of them. That
//! organization also submits jobs to a site that answers at once; how long each waits from its submit to its begin is
//! read from the job itself. Two attacks are about the queue alone, and there the jobs come all at once, so that a fair
//! share can be reckoned: what stands behind "share" is the worst job against it, or against a second where that is
//! more.
//!
//! What counts: the 99th percentile of the ordinary requests stays under 100 ms, none fails, and jobs begin
//! within twice their fair share. An attack that is answered something else than it is meant to be missed its aim (`aim`)
//! and fails the bench; so does a figure that is not reached. The table at the end is for
//! data/docs/benchmarks.md.

mod aim;
mod attacks;
mod ordinary;
mod strangers;
mod streams;

use aim::Outcome;
use attacks::{Attack, Work};
use gleaner::admin;
use harness::Request;
use harness::process::Process;
use harness::vendors::{SCRAPINGBEE, Simulator};
use harness::web::{Answer, Web};
use harness::{Member, eventually, expect, get, member, post, text};
use ordinary::{Ordinary, Spread};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::HashMap;
use std::fmt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long an attack goes on before and while it is measured.
const LEAD: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(15);
const JOB_EVERY: Duration = Duration::from_millis(250);
/// Host names that lead to the web server on loopback, each a domain of its own.
const HOSTS: usize = 200;
/// Jobs that the box runs at once: the default.
pub const SLOTS: usize = 32;
/// What is to be reached.
const P99_MAX_MS: f64 = 100.0;
const SHARE_MAX: f64 = 2.0;
/// Under a second nobody can tell a share from the time that a round takes.
const SHARE_LEAST: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// A box with two organizations and the web that they collect.
pub struct Stage {
    pub process: Process,
    pub web: Web,
    pub simulator: Simulator,
    pub hostile: Member,
    pub neighbour: Member,
    /// Visits of the web server by path, without the number that it ends with.
    visits: Arc<Mutex<HashMap<String, usize>>>,
    prepared: AtomicBool,
    over: AtomicBool,
}

impl Stage {
    async fn open(folder: &std::path::Path) -> Arc<Stage> {
        let port = Arc::new(OnceLock::new());
        let own = port.clone();
        let visits: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let seen = visits.clone();
        let web = Web::open(move |path| {
            let place = path.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
            *seen.lock().expect("nobody fails with it").entry(place).or_default() += 1;
            site(path, *own.get()?)
        })
        .await;
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
        let [prepared, over] = [false; 2].map(AtomicBool::new);
        Arc::new(Stage { process, web, simulator, hostile, neighbour, visits, prepared, over })
    }

    /// Says that the attack can be measured from now on.
    pub fn prepared(&self) {
        self.prepared.store(true, Ordering::Relaxed);
    }

    /// How often paths were visited that are this one, but for a number at the end.
    pub fn visits(&self, place: &str) -> usize {
        self.visits.lock().expect("nobody fails with it").get(place).copied().unwrap_or(0)
    }

    /// Waits for so many visits, but not for ever: who looks for them finds too few then.
    pub async fn until_visited(&self, place: &str, times: usize) {
        let begun = Instant::now();
        while self.visits(place) < times && begun.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(POLL).await;
        }
    }

    pub async fn until_over(&self) {
        while !self.is_over() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// One command on the operator's socket.
    pub async fn operator(&self, request: Request) {
        admin::call(&self.process.socket(), &request).await.expect("the operator's command");
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

/// One attack's line of the table.
struct Line {
    name: &'static str,
    what: &'static str,
    seen: Ordinary,
    began: Began,
    missed: Vec<String>,
}

impl Line {
    /// What was not reached, and why it would say nothing if it were.
    fn wrong(&self) -> Vec<String> {
        let mut wrong: Vec<_> = self.missed.iter().map(|why| format!("MISSED ITS AIM: {why}")).collect();
        let p99 = self.seen.spread().p99;
        if p99 >= P99_MAX_MS {
            wrong.push(format!("NOT REACHED: the 99th percentile is {p99:.0} ms"));
        }
        if self.seen.lost() > 0 {
            wrong.push(format!("NOT REACHED: {} ordinary requests failed", self.seen.lost()));
        }
        if self.began.share > SHARE_MAX {
            wrong.push(format!("NOT REACHED: a job began after {:.2} times its share", self.began.share));
        }
        if self.began.lost > 0 {
            wrong.push(format!("NOT REACHED: {} jobs were refused or never began", self.began.lost));
        }
        wrong
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seen, jobs) = (self.seen.spread(), &self.began.spread);
        write!(
            f,
            "| `{}`: {} | {:.1} / {:.1} / {:.1} | {:.0} / {:.0} | {:.2} |",
            self.name, self.what, seen.p50, seen.p99, seen.max, jobs.p50, jobs.max, self.began.share
        )
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut lines = Vec::new();
    for attack in attacks::ALL {
        if asked.is_empty() || asked.iter().any(|name| name == attack.name) {
            lines.push(run(attack).await);
        }
    }
    println!(
        "\n| attack | ordinary requests, ms: p50 / p99 / longest | jobs begin after, ms: p50 / longest | share |"
    );
    println!("|---|---|---|---|");
    lines.iter().for_each(|line| println!("{line}"));
    let wrong = lines.iter().flat_map(|line| line.wrong().into_iter().map(|why| (line.name, why)));
    let count = wrong.inspect(|(name, why)| println!("{name}: {why}")).count();
    if count > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn run(attack: &Attack) -> Line {
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let stage = Stage::open(dir.path()).await;
    let before = stage.process.memory_most_bytes();
    let under_way = tokio::spawn((attack.begin)(stage.clone()));
    let begun = Instant::now();
    while !stage.prepared.load(Ordering::Relaxed) && !under_way.is_finished() {
        assert!(begun.elapsed() < attacks::PREPARED_WITHIN, "{}: it is never prepared", attack.name);
        tokio::time::sleep(POLL).await;
    }
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
    let broken = |why: String| Outcome::did("nothing more").must(false, why);
    let done = match done {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => broken(format!("it broke: {error}")),
        Err(_) => broken("it did not end".to_owned()),
    };
    let grown = stage.process.memory_most_bytes().saturating_sub(before) >> 20;
    let line = Line { name: attack.name, what: attack.what, seen, began, missed: done.missed };
    println!("\n{}: {}", line.name, line.what);
    println!("  ordinary: {}", line.seen);
    println!("  jobs:     {}", line.began);
    println!("  hostile:  {}; the box grew by {grown} MiB", done.did);
    line.wrong().iter().for_each(|why| println!("  {why}"));
    if let Ok(stage) = Arc::try_unwrap(stage).map_err(drop) {
        stage.process.kill();
    }
    line
}

/// How the neighbour's jobs began.
struct Began {
    jobs: usize,
    spread: Spread,
    /// The worst of them against when it would have begun with its fair share.
    share: f64,
    /// Refused, or never begun.
    lost: usize,
}

impl Began {
    /// Each after so long, in the order of their beginnings.
    fn after(mut waits: Vec<Duration>, lost: usize, fair: fn(usize) -> Duration) -> Began {
        let spread = Spread::of(&mut waits);
        let of = |(n, wait): (usize, &Duration)| wait.as_secs_f64() / fair(n).max(SHARE_LEAST).as_secs_f64();
        let share = waits.iter().enumerate().map(of).fold(0.0, f64::max);
        Began { jobs: waits.len(), spread, share, lost }
    }
}

impl fmt::Display for Began {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Began { jobs, spread, share, lost } = self;
        write!(
            f,
            "{jobs}, begun after {spread}; the worst after {share:.2} times its share; {lost} refused or never"
        )
    }
}

/// One job after the other to a quick site, each of which is to begin at once.
async fn trickle(stage: &Stage) -> Began {
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
    let (waits, unbegun) = waited(client, &ids).await;
    Began::after(waits, refused + unbegun, |_| Duration::ZERO)
}

/// All jobs at once.
async fn heap(stage: &Stage, jobs: usize, path: &str, fair: fn(usize) -> Duration) -> Began {
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
    let (waits, unbegun) = waited(client, &ids).await;
    Began::after(waits, unbegun, fair)
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
