//! What schedules cost: ten thousand that wait, and a thousand that are due in one second.
//!
//! `cargo bench --bench schedules` starts the real binary and speaks to it over HTTP.
//!
//! - *idle*: the processor time of a box with 10,000 schedules none of which is due, in percent of one core, beside that of
//!   the same box before it had any. What counts is less than 1 % (issue 14).
//! - *rush*: 1,000 of one organization are due in the same second, and one of another. What counts is that each has its row
//!   within one second and its job within five, and the other one like everybody.

use base::clock::Timestamp;
use harness::process::Process;
use harness::web::{Answer, Web};
use harness::{Member, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const SCHEDULES: &str = "/api/v1/schedules";
const IDLE: usize = 10_000;
const RUSH: usize = 1_000;
const MEASURED: Duration = Duration::from_secs(30);
/// From asking for the rush to its second.
const AHEAD_SEC: i64 = 40;
const CLOCK_TICKS_PER_SEC: f64 = 100.0;

#[tokio::main]
async fn main() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")))).await;
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let allow = web.allow();
    let process = Process::start(&dir.path().join("data"), &[("NETWORK__ALLOW", &allow)]);
    let busy = member(&process.client(), &process.socket(), "busy").await;
    let other = member(&process.client(), &process.socket(), "other").await;
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let bare = percent(&process).await;
    for _ in 0..IDLE - RUSH {
        make(&busy.api, &json!({ "name": "idle", "cron": "0 0 29 2 *" })).await;
    }
    let due = rush(&web, &busy, &other).await;
    let idle = percent(&process).await;
    println!("idle: {bare:.2} % of a core without schedules, {idle:.2} % with {IDLE} (target: under 1 %)");
    wait_until(due + 20_000).await;
    for (who, org) in [("1,000 schedules", &busy), ("one of another organization", &other)] {
        let runs = all(&org.api, &format!("{SCHEDULES}/runs")).await;
        let jobs = all(&org.api, "/api/v1/jobs").await;
        let rows = late(&runs, "firedAt", due);
        let queued = late(&jobs, "createdAt", due);
        println!(
            "rush, {who}: {} rows, the last {} ms behind the second (target: 1,000); {} jobs, the last {} ms (target: 5,000)",
            runs.len(),
            rows,
            jobs.len(),
            queued
        );
        assert_eq!(runs.len(), jobs.len(), "a row and a job for each");
    }
    process.kill();
}

/// What the process takes of one core in percent, over a while.
async fn percent(process: &Process) -> f64 {
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it runs");
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let at = |n: usize| fields[n].parse::<f64>().expect("a number");
        at(11) + at(12)
    };
    let before = ticks();
    tokio::time::sleep(MEASURED).await;
    (ticks() - before) / CLOCK_TICKS_PER_SEC / MEASURED.as_secs_f64() * 100.0
}

async fn make(api: &Client, new: &Value) {
    expect(post(api, SCHEDULES, new).await, 201);
}

/// Makes those that are due in one second; when that is.
async fn rush(web: &Web, busy: &Member, other: &Member) -> i64 {
    // Making them takes a while, too.
    let due = (Timestamp::by_machine().millis() / 1_000 + AHEAD_SEC + MEASURED.as_secs() as i64) * 1_000;
    let of_day = due / 1_000 % 86_400;
    let cron = format!("{} {} {} * * *", of_day % 60, of_day / 60 % 60, of_day / 3_600);
    for (org, count) in [(other, 1), (busy, RUSH)] {
        for n in 0..count {
            let tag = format!("rush{n}");
            let url = json!({ "urls": [{ "url": web.url(&format!("/{n}")), "tags": [tag] }] });
            expect(post(&org.api, "/api/v1/urls", &url).await, 200);
            make(&org.api, &json!({ "name": tag, "cron": cron, "tagFilters": [tag] })).await;
        }
    }
    due
}

async fn wait_until(millis: i64) {
    let left = millis - Timestamp::by_machine().millis();
    tokio::time::sleep(Duration::from_millis(left.max(0).unsigned_abs())).await;
}

async fn all(api: &Client, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(get(api, &format!("{path}?limit=200{cursor}")).await, 200);
        items.extend(page["items"].as_array().expect("a list").clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// Milliseconds from `due` to the last of these dates.
fn late(rows: &[Value], field: &str, due: i64) -> i64 {
    let dates = rows.iter().map(|row| text(row, field).parse::<Timestamp>().expect("a date").millis());
    dates.max().map_or(0, |last| last - due)
}
