//! Sends the corpus to a real server and ordinary requests beside it, and gives what it saw.
//!
//! The ordinary requests come from another organization in an open loop: one each 20 ms over several connections, whether
//! or not earlier ones are back, and each is timed from the moment at which it was due. So a server that stands still for a
//! second shows in fifty of them.

use super::statements::{Must, corpus};
use crate::process::Process;
use crate::{eventually, expect, get, member, post, text};
use serde_json::json;
use server::client::Client;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

const QUERIES: &str = "/api/v1/bi/queries";
const MARKER: &str = "MARKER-that-nobody-may-see";
/// The time limit of a statement.
const LIMIT: Duration = Duration::from_secs(1);
/// Longest wait for a statement's end: far beyond its limit, far below for ever.
const PATIENCE: Duration = Duration::from_secs(120);
/// Who send the corpus side by side: as many statements as one organization may run.
const SENDERS: usize = 4;
/// An ordinary request is due each time this is over: fifty a second.
const BEAT: Duration = Duration::from_millis(20);
/// Connection pools of the ordinary requests.
const CLIENTS: usize = 8;
/// Ordinary requests that may be under way; what is due beyond that is counted and not sent.
const UNDER_WAY_MAX: usize = 500;
/// Statements that are shown among those that ended latest.
const SHOWN: usize = 5;

/// What was seen.
pub struct Figures {
    pub statements: usize,
    /// Statements that did not end as they must.
    pub wrong: Vec<String>,
    /// How long statements ran, the longest first.
    pub ran: Vec<(Duration, String)>,
    /// How long ordinary requests took from when they were due, the shortest first.
    pub took: Vec<Duration>,
    /// Ordinary requests that were not sent because too many were under way.
    pub unsent: usize,
    pub failed: Vec<String>,
    /// The most memory that the server took.
    pub server_bytes: u64,
    pub lasted: Duration,
    pub exit_code: Option<i32>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantile = |of: usize| self.took.get(self.took.len() * of / 100).copied().unwrap_or_default();
        let longest = self.ran.first().map_or(Duration::ZERO, |(ran, _)| *ran);
        writeln!(
            f,
            "{} hostile statements in {:.0?}, {} not as they must; the longest ran {longest:.2?}, {:.2?} beyond its limit",
            self.statements,
            self.lasted,
            self.wrong.len(),
            longest.saturating_sub(LIMIT),
        )?;
        writeln!(
            f,
            "{} ordinary requests meanwhile ({:.0} a second), {} failed, {} unsent: p50 {:.1?}, p90 {:.1?}, p99 {:.1?}, \
             longest {:.1?}",
            self.took.len(),
            self.took.len() as f64 / self.lasted.as_secs_f64(),
            self.failed.len(),
            self.unsent,
            quantile(50),
            quantile(90),
            quantile(99),
            self.took.last().copied().unwrap_or_default(),
        )?;
        writeln!(f, "the server took {} MiB at most", self.server_bytes >> 20)?;
        for (ran, sql) in self.ran.iter().take(SHOWN) {
            writeln!(f, "  ran {ran:.2?}: {sql}")?;
        }
        Ok(())
    }
}

/// How a statement ended.
#[derive(Default)]
struct Ended {
    status: u16,
    /// `success`, or an error's code.
    code: String,
    /// Everything that the server answered.
    said: String,
    /// From when it began to run, as the server says, to when its end was seen here. Of one that ended while it was planned:
    /// from when it was sent.
    ran: Duration,
    was_planned: bool,
}

/// Sends a statement and waits for its end.
async fn outcome(client: &Client, sql: &str) -> Ended {
    let mut ended = Ended::default();
    loop {
        let sent = Instant::now();
        let reply = post(client, QUERIES, &json!({ "sql": sql, "waitMs": 10_000 })).await;
        ended.said.push_str(&reply.text());
        ended.status = reply.status.as_u16();
        match ended.status {
            200 | 202 => break poll(client, text(&reply.json, "jobId"), ended, sent).await,
            // Others of the corpus wait before it.
            429 => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => {
                ended.code = reply.json["error"]["code"].as_str().unwrap_or("?").to_owned();
                ended.ran = sent.elapsed();
                return ended;
            }
        }
    }
}

async fn poll(client: &Client, id: &str, mut ended: Ended, sent: Instant) -> Ended {
    ended.status = 200;
    loop {
        let reply = get(client, &format!("{QUERIES}/{id}")).await;
        ended.said.push_str(&reply.text());
        let execution = expect(reply, 200);
        let status = text(&execution, "status");
        if !matches!(status, "queued" | "running") {
            let failed = execution["error"]["code"].as_str();
            ended.code = failed.unwrap_or(status).to_owned();
            let started = execution["startedAt"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
            let ran = started.map(|at| jiff::Timestamp::now().duration_since(at));
            ended.was_planned = ran.is_some();
            ended.ran = ran.and_then(|ran| ran.try_into().ok()).unwrap_or_else(|| sent.elapsed());
            return ended;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// On a loaded machine also a statement that should be refused, or is harmless, may meet the small time limit.
async fn settled(client: &Client, sql: &str, must: Must) -> Ended {
    for _ in 0..30 {
        let ended = outcome(client, sql).await;
        if matches!(must, Must::End | Must::Bounded) || ended.code != "statement_timeout" {
            return ended;
        }
    }
    outcome(client, sql).await
}

fn verdict(must: Must, status: u16, code: &str) -> bool {
    match must {
        Must::Refuse(wanted) => (status == 400 || status == 403) && code == wanted,
        // One that reads no table may be refused for what it would come to (a text beyond 2 GiB).
        Must::End => {
            status == 200 && matches!(code, "statement_timeout" | "transient")
                || status == 400 && code == "invalid_sql"
        }
        Must::Bounded => status == 200 && matches!(code, "success" | "statement_timeout" | "transient"),
        Must::Survive => status == 200 && matches!(code, "success" | "transient") || code == "invalid_sql",
    }
}

/// What one sender saw.
#[derive(Default)]
struct Seen {
    wrong: Vec<String>,
    ran: Vec<(Duration, String)>,
    /// Statements that took longer than their limit and ended while they were planned: others may have been before them.
    waited: Vec<String>,
}

/// Sends what is left of the corpus, one statement after the other.
async fn send(client: Client, corpus: Arc<Vec<(String, Must)>>, next: Arc<AtomicUsize>) -> Seen {
    let mut seen = Seen::default();
    while let Some((sql, must)) = corpus.get(next.fetch_add(1, Ordering::Relaxed)) {
        let shown = shown(sql);
        let Ok(ended) = tokio::time::timeout(PATIENCE, settled(&client, sql, *must)).await else {
            seen.wrong.push(format!("{shown}: it does not end"));
            continue;
        };
        if !verdict(*must, ended.status, &ended.code) {
            seen.wrong.push(format!("{shown}: {} {}, but {must:?}", ended.status, ended.code));
        }
        if ended.said.to_uppercase().contains(&MARKER.to_uppercase()) {
            seen.wrong.push(format!("{shown}: it tells what it may not"));
        }
        match ended.was_planned || ended.ran <= LIMIT {
            true => seen.ran.push((ended.ran, shown)),
            false => seen.waited.push(sql.clone()),
        }
    }
    seen
}

fn shown(sql: &str) -> String {
    sql.chars().take(100).collect()
}

/// Ordinary requests until `stop`: how long each took, which failed, and how many were not sent.
async fn ordinary(clients: Vec<Client>, stop: Arc<AtomicBool>) -> (Vec<Duration>, Vec<String>, usize) {
    let paths = ["/api/v1/urls?limit=5", "/api/v1/jobs?limit=5", "/api/v1/bi/tables"];
    let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let (mut requests, mut unsent) = (JoinSet::new(), 0);
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for turn in 0.. {
        let due = beat.tick().await;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Ok(place) = Arc::clone(&under_way).try_acquire_owned() else {
            unsent += 1;
            continue;
        };
        let client = clients[turn % clients.len()].clone();
        requests.spawn(async move {
            let reply = get(&client, paths[turn % paths.len()]).await;
            drop(place);
            let failure = (reply.status != 200).then(|| format!("{} {}", reply.status, reply.text()));
            (due.elapsed(), failure)
        });
    }
    let (mut took, mut failed) = (Vec::new(), Vec::new());
    while let Some(request) = requests.join_next().await {
        let (time, failure) = request.expect("an ordinary request");
        took.push(time);
        failed.extend(failure);
    }
    took.sort_unstable();
    (took, failed, unsent)
}

/// Starts a server, lets the corpus loose on it, and ends it.
pub async fn attack() -> Figures {
    let folder = TempDir::new().expect("a folder");
    let planted = folder.path().join("planted.csv");
    std::fs::write(&planted, format!("a\n{MARKER}\n")).expect("written");
    let settings = [
        ("BI__MAX_QUERY_SEC", "1"),
        ("BI__MEMORY_MB", "64"),
        ("BI__SPILL_MB", "256"),
        ("BI__MAX_ROWS", "10000"),
        ("BI__QUEUE_PER_ORG", "16"),
        // The box's own environment, which no statement may see.
        ("NETWORK__CONTACT", MARKER),
    ];
    let process = Process::start(&folder.path().join("data"), &settings);
    let (client, socket) = (process.client(), process.socket());
    let (ours, theirs) =
        (member(&client, &socket, "hostile").await, member(&client, &socket, "neighbour").await);
    register(&ours.api, (0..300).map(|n| format!("https://shop{}.example/item/{n}", n % 7)).collect()).await;
    register(&theirs.api, vec![format!("https://{}.example/secret", MARKER.to_lowercase())]).await;
    // Both are in the tables before anything hostile begins.
    counted(&ours.api, 300).await;
    counted(&theirs.api, 1).await;

    let corpus = Arc::new(corpus(&planted.display().to_string(), &theirs.org_id));
    let began = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|_| process.client().bearer(&theirs.key)).collect();
    let others = tokio::spawn(ordinary(clients, Arc::clone(&stop)));
    let next = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| tokio::spawn(send(ours.api.clone(), Arc::clone(&corpus), Arc::clone(&next))))
        .collect();
    let mut all = Seen::default();
    for sender in senders {
        let seen = sender.await.expect("a sender");
        all.wrong.extend(seen.wrong);
        all.ran.extend(seen.ran);
        all.waited.extend(seen.waited);
    }
    let Seen { wrong, mut ran, waited } = all;
    for sql in waited {
        // Nobody is before it now.
        ran.push((outcome(&ours.api, &sql).await.ran, shown(&sql)));
    }
    let lasted = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (took, failed, unsent) = others.await.expect("the ordinary requests");
    ran.sort_unstable_by(|a, b| b.cmp(a));
    let server_bytes = process.memory_most_bytes();
    // It still answers, and rightly.
    counted(&ours.api, 300).await;
    let exit_code = process.terminate();
    Figures { statements: corpus.len(), wrong, ran, took, unsent, failed, server_bytes, lasted, exit_code }
}

async fn register(client: &Client, urls: Vec<String>) {
    expect(post(client, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
}

/// Waits until the console counts so many URLs.
async fn counted(client: &Client, urls: u64) {
    let body = json!({ "sql": "SELECT count(*) FROM urls", "waitMs": 10_000 });
    eventually("the URLs are counted", Duration::from_secs(60), || async {
        let reply = expect(post(client, QUERIES, &body).await, 200);
        (reply["results"]["rows"] == json!([{ "count": urls }])).then_some(())
    })
    .await;
}
