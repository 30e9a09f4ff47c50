//! Memory of the appliance: idle, and over 20,000 jobs on the demo shop.
//!
//! `cargo bench --bench soak` (`-- 60000` for that many jobs) starts the real binary, waits, reads its resident memory,
//! then runs jobs in batches of the whole shop and reads it again every 2,000 jobs. What counts is that the later figures
//! do not grow. Settings come from the environment: `GLEANER_STORAGE__CACHE_MB=128 cargo bench --bench soak`.

use gleaner::admin;
use gleaner::demo::shop::Shop;
use harness::Request;
use serde_json::{Value, json};
use server::client::Client;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::process::Process;
use harness::{expect, member, post};

const JOBS_DEFAULT: usize = 20_000;
const REPORT_EVERY: usize = 2_000;
const SETTLE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    let shop = Shop::open().await.expect("the shop");
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let settings = [
        ("NETWORK__ALLOW", &*format!("[\"127.0.0.1/32:{}\"]", shop.address.port())),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "16"),
        ("LOG__LEVEL", "warn"),
    ];
    let process = Process::start(&dir.path().join("data"), &settings);
    tokio::time::sleep(SETTLE).await;
    println!("idle, new box:            {}", memory(&process));
    let client = member(&process.client(), &process.socket(), "soak").await.api;
    let json = gleaner::demo::SCHEMAS.to_owned();
    let import = Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) };
    admin::call(&process.socket(), &import).await.expect("the schemas");
    let batch: Vec<_> =
        shop.pages.iter().map(|page| json!({ "url": format!("{}{}", shop.base(), page.path) })).collect();
    let begun = Instant::now();
    let (mut done, mut next) = (0, REPORT_EVERY);
    let jobs_wanted = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(JOBS_DEFAULT);
    while done < jobs_wanted {
        let jobs = expect(post(&client, "/api/v1/jobs/batch", &json!({ "jobs": batch })).await, 201);
        let ids: Vec<Value> =
            jobs["jobs"].as_array().expect("jobs").iter().map(|job| job["id"].clone()).collect();
        wait(&client, &ids).await;
        done += ids.len();
        if done >= next {
            println!(
                "{done:6} jobs, {:5.0} a second: {}",
                done as f64 / begun.elapsed().as_secs_f64(),
                memory(&process)
            );
            next += REPORT_EVERY;
        }
    }
    tokio::time::sleep(SETTLE).await;
    println!("idle again:               {}", memory(&process));
    let sizes = ["gleaner.redb", "pages", "search", "snapshots"].map(|name| {
        format!("{name} {:.1} MiB", size(&dir.path().join("data").join(name)) as f64 / f64::from(1 << 20))
    });
    println!("on disk: {}", sizes.join(", "));
    process.kill();
}

async fn wait(client: &Client, ids: &[Value]) {
    loop {
        let polled = expect(post(client, "/api/v1/jobs/poll", &json!({ "ids": ids })).await, 200);
        let items = polled["items"].as_array().expect("items");
        assert!(items.iter().all(|job| job["status"] != "failed"), "a job failed: {polled}");
        if items.iter().all(|job| job["status"] == "succeeded") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Resident memory, and the part of it that is not files.
fn memory(process: &Process) -> String {
    let mib = |name: &str| process.counted(name) as f64 / 1024.0;
    format!("{:6.1} MiB resident, {:6.1} MiB of it its own", mib("VmRSS"), mib("RssAnon"))
}

fn size(path: &Path) -> u64 {
    if path.is_file() {
        return path.metadata().map_or(0, |meta| meta.len());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}
