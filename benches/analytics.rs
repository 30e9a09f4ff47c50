//! What each answer of analytics takes over two million jobs (data/docs/api.md, "Analytics").
//!
//! ```text
//! cargo bench --bench analytics [-- JOBS [ROUNDS]]
//! ```
//!
//! The jobs are of 100 days and 200 domains, with their attempts, results, values and changes of the balance, in the
//! snapshot of one organization (`tests/harness/src/collected.rs`). Asked is the real binary over HTTP, each question of
//! the default 30 days and of all 100, in turns; medians, and the slowest.

use harness::collected::{CollectedJob, fill};
use harness::process::Process;
use harness::{eventually, expect, get, member, post};
use serde_json::json;
use std::time::{Duration, Instant};

/// 2026-01-01T00:00:00Z.
const BEGIN_MS: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
const DAYS: i64 = 100;

const QUESTIONS: &[&str] = &[
    "overview?",
    "overview?domain=shop190.example&",
    "timeseries?metric=jobs&",
    "timeseries?metric=jobs&timezone=Europe/Berlin&",
    "timeseries?metric=successRate&interval=week&timezone=Europe/Berlin&",
    "timeseries?metric=latencyP95&timezone=Europe/Berlin&",
    "timeseries?metric=jobs&tag=red&",
    "timeseries?metric=bytes&interval=month&",
    "timeseries?metric=quality&",
    "providers?",
    "domains?",
    "domains?sort=latencyP95&limit=200&",
    "credits?timezone=Europe/Berlin&",
    "credits?groupBy=domain&",
    "quality?",
    "quality?groupBy=attribute&",
];

fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let jobs = arguments.first().copied().unwrap_or(2_000_000);
    let rounds = arguments.get(1).copied().unwrap_or(15);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(jobs, rounds));
}

async fn measure(jobs: u64, rounds: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let process = Process::start(folder.path(), &[]);
    let person = member(&process.client(), &process.socket(), "bench").await;
    eventually("the console knows the organization", Duration::from_secs(30), || async {
        let sql = json!({ "sql": "SELECT id FROM providers", "waitMs": 10_000 });
        let reply = post(&person.api, "/api/v1/bi/queries", &sql).await;
        (reply.json["results"]["totalRows"].as_u64() > Some(0)).then_some(())
    })
    .await;
    process.terminate();
    let (begun, step) = (Instant::now(), DAYS * DAY_MS);
    let at = |n: u64| BEGIN_MS + (i128::from(n) * i128::from(step) / i128::from(jobs)) as i64;
    let organization = person.org_id.parse().expect("an id");
    fill(&folder.path().join("snapshots"), organization, (0..jobs).map(|n| CollectedJob::new(n, at(n), 200)));
    eprintln!("{jobs} jobs in {:.0} s", begun.elapsed().as_secs_f64());

    let process = Process::start(folder.path(), &[]);
    let client = process.client().bearer(&person.key);
    let day = |days: i64| base::clock::Timestamp(BEGIN_MS + days * DAY_MS).to_string();
    println!("{:<75} {:>9} {:>9}", "milliseconds", "median", "slowest");
    for question in QUESTIONS {
        for from in [DAYS - 30, 0] {
            let path = format!("/api/v1/analytics/{question}from={}&to={}", day(from), day(DAYS));
            let mut took = Vec::new();
            // The first is not counted: it brings files into memory.
            for _ in 0..=rounds {
                let begun = Instant::now();
                expect(get(&client, &path).await, 200);
                took.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            took.remove(0);
            took.sort_by(f64::total_cmp);
            let name = format!("{question} {} days", DAYS - from);
            println!("{name:<75} {:>9.1} {:>9.1}", took[took.len() / 2], took[took.len() - 1]);
        }
    }
    process.terminate();
}
