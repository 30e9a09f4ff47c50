//! Logging in: what its time tells, and what a flood of it does to everybody else.
//!
//! `cargo bench --bench people` starts the real binary and speaks to it over HTTP as strangers would.
//!
//! - *timing*: 200 tries each, in a mixed order, of a login with an unknown address and with a wrong password, and of
//!   asking for a reset for a known and an unknown address. What counts is that the medians differ by less than 5 %, and
//!   that whoever has to tell the two apart from one time is right hardly more often than a coin.
//! - *flood*: 100 clients log in as fast as they are let, while a GET with an API key goes out every 10 ms, on time
//!   whether or not the last one is back. What counts is the 99th percentile of the GET: under 50 ms on two cores.
//!
//! Every try comes from an address of its own (through a trusted proxy's header), so that no limit answers instead.

use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use harness::process::Process;
use harness::{PASSWORD, member};

/// Tries of each kind (issue 4).
const TRIES: usize = 200;
/// Tries that are not measured: the first ones fill caches.
const WARM_UP: usize = 20;
/// Accounts; each is tried so seldom that no limit of accounts is reached.
const ACCOUNTS: usize = 100;
const CLIENTS: usize = 100;
const GET_EVERY: Duration = Duration::from_millis(10);
const CALM: Duration = Duration::from_secs(10);
const FLOOD: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() {
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    // The default settings, behind a proxy that it trusts.
    let settings = [("SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")];
    let process = Process::start(&dir.path().join("data"), &settings);
    let anybody = process.client();
    let strangers = Strangers { anybody: anybody.clone(), next: AtomicU32::new(0) };
    let accounts: Vec<String> = (0..ACCOUNTS).map(|n| format!("person{n}@example.com")).collect();
    for email in &accounts {
        let person = json!({ "email": email, "password": PASSWORD, "name": "Person" });
        let made = strangers.post("/api/v1/auth/register", &person).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    timing(&strangers, &accounts, Question::Login).await;
    timing(&strangers, &accounts, Question::Reset).await;
    let owner = member(&anybody, &process.socket(), "owner").await.api;
    flood(&owner, Arc::new(strangers), accounts).await;
    process.kill();
}

/// Callers who each come from an address of their own.
struct Strangers {
    anybody: Client,
    next: AtomicU32,
}

impl Strangers {
    async fn post(&self, path: &str, body: &Value) -> Reply {
        let [_, a, b, c] = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let from = format!("10.{a}.{b}.{c}");
        self.anybody.header("x-forwarded-for", &from).post(path, body).await.expect("an answer")
    }
}

/// What is asked about an address.
#[derive(Clone, Copy)]
enum Question {
    Login,
    Reset,
}

/// Asks about known and unknown addresses in a mixed order and compares the times.
async fn timing(strangers: &Strangers, accounts: &[String], question: Question) {
    let (path, status) = match question {
        Question::Login => ("/api/v1/auth/login", 401),
        Question::Reset => ("/api/v1/auth/forgot-password", 200),
    };
    let mut times = [Vec::new(), Vec::new()];
    let mut coin = 0x9E37_79B9_7F4A_7C15u64;
    for n in 0..TRIES + WARM_UP {
        coin ^= coin << 13;
        coin ^= coin >> 7;
        coin ^= coin << 17;
        let first = coin & 1 == 0;
        for known in [first, !first] {
            // As many unknown addresses as known ones, tried as often.
            let email = if known {
                accounts[n % accounts.len()].clone()
            } else {
                format!("nobody{}@example.com", n % accounts.len())
            };
            let body = match question {
                Question::Login => json!({ "email": email, "password": "not the passphrase" }),
                Question::Reset => json!({ "email": email }),
            };
            let begun = Instant::now();
            let reply = strangers.post(path, &body).await;
            let took = begun.elapsed();
            assert_eq!(reply.status, status, "{}", reply.text());
            if n >= WARM_UP {
                times[usize::from(known)].push(took);
            }
        }
    }
    let [mut unknown, mut known] = times;
    let right = guesses(&unknown, &known);
    let (unknown, known) = (Spread::of(&mut unknown), Spread::of(&mut known));
    let difference = (known.p50 / unknown.p50 - 1.0) * 100.0;
    let what = match question {
        Question::Login => "login, wrong password or unknown address",
        Question::Reset => "forgot-password",
    };
    println!("{what}, {TRIES} tries each:");
    println!("  known address    {known}");
    println!("  unknown address  {unknown}");
    println!(
        "  the medians differ by {difference:+.1} % (target: under 5 %); a guess from one time is right in {right:.0} %"
    );
}

/// How often, in percent, the larger of one time of each kind is the known address's, or the smaller: 50 says nothing.
fn guesses(unknown: &[Duration], known: &[Duration]) -> f64 {
    let pairs = unknown.iter().flat_map(|a| known.iter().map(move |b| b > a));
    let larger = pairs.filter(|larger| *larger).count() as f64;
    let share = larger / (unknown.len() * known.len()) as f64 * 100.0;
    share.max(100.0 - share)
}

/// Percentiles in milliseconds.
struct Spread {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Spread {
    fn of(times: &mut [Duration]) -> Spread {
        times.sort_unstable();
        let at = |share: f64| {
            let index = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1;
            times[index].as_secs_f64() * 1e3
        };
        Spread { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Spread { p50, p90, p99, max } = self;
        write!(f, "p50 {p50:7.2} ms, p90 {p90:7.2} ms, p99 {p99:7.2} ms, max {max:7.2} ms")
    }
}

/// An ordinary GET in calm, and while everybody logs in.
async fn flood(client: &Client, strangers: Arc<Strangers>, accounts: Vec<String>) {
    let urls: Vec<_> = (0..50).map(|n| format!("https://shop{n}.example/page")).collect();
    let made = client.post("/api/v1/urls", &json!({ "urls": urls })).await.expect("an answer");
    assert_eq!(made.status, 200, "{}", made.text());
    steady(client, CALM / 5).await;
    println!("GET /api/v1/urls (50 rows, API key) every {} ms:", GET_EVERY.as_millis());
    println!("  in calm          {}", Spread::of(&mut steady(client, CALM).await));

    let over = Arc::new(AtomicBool::new(false));
    let accounts = Arc::new(accounts);
    let begun = Instant::now();
    let crowd: Vec<_> = (0..CLIENTS)
        .map(|n| tokio::spawn(log_in_until(strangers.clone(), accounts.clone(), n, over.clone())))
        .collect();
    let mut times = steady(client, FLOOD).await;
    over.store(true, Ordering::Relaxed);
    let (mut logins, mut statuses) = (Vec::new(), std::collections::BTreeMap::new());
    for one in crowd {
        for (took, status) in one.await.expect("a client of the crowd") {
            logins.push(took);
            *statuses.entry(status).or_insert(0u32) += 1;
        }
    }
    let rate = logins.len() as f64 / begun.elapsed().as_secs_f64();
    println!("  in the flood     {} (target: p99 under 50 ms)", Spread::of(&mut times));
    println!("{CLIENTS} clients: {rate:.0} logins a second, {}", Spread::of(&mut logins));
    println!("  answers: {statuses:?}");
}

/// A GET at each tick for some time. Its time begins at the tick, so that waiting for a slow one is counted.
async fn steady(client: &Client, time: Duration) -> Vec<Duration> {
    let begun = Instant::now();
    let mut running = Vec::new();
    let mut ticks = tokio::time::interval(GET_EVERY);
    while begun.elapsed() < time {
        let tick = ticks.tick().await.into_std();
        let client = client.clone();
        running.push(tokio::spawn(async move {
            let reply = client.get("/api/v1/urls").await.expect("an answer");
            assert_eq!(reply.status, 200, "{}", reply.text());
            tick.elapsed()
        }));
    }
    let mut times = Vec::new();
    for one in running {
        times.push(one.await.expect("an answer"));
    }
    times
}

/// Logs in again and again, by turns with the right password and with a wrong one.
async fn log_in_until(
    strangers: Arc<Strangers>,
    accounts: Arc<Vec<String>>,
    n: usize,
    over: Arc<AtomicBool>,
) -> Vec<(Duration, u16)> {
    let mut answers = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let right = answers.len().is_multiple_of(2);
        let body = if right {
            json!({ "email": accounts[n % accounts.len()], "password": PASSWORD })
        } else {
            json!({ "email": format!("flood{n}x{}@example.com", answers.len()), "password": "not the passphrase" })
        };
        let begun = Instant::now();
        let reply = strangers.post("/api/v1/auth/login", &body).await;
        answers.push((begun.elapsed(), reply.status.as_u16()));
        if reply.status == 503 {
            // Clients that are told to come back do not come back at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    answers
}
