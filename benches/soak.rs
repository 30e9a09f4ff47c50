//! Memory of the appliance: idle, and over 20,000 jobs on the demo shop.
//!
//! `cargo bench --bench soak` (`-- 60000` for that many jobs) starts the real binary, waits, reads its resident memory,
//! then runs jobs in batches of the whole shop and reads it again every 2,000 jobs. What counts is that the later figures
//! do not grow. Settings come from the environment: `GLEANER_STORAGE__CACHE_MB=128 cargo bench --bench soak`.

use gleaner::admin::{self, Request};
use gleaner::demo::shop::Shop;
use gleaner::http::client::Client;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const JOBS_DEFAULT: usize = 20_000;
const REPORT_EVERY: usize = 2_000;
const SETTLE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    let shop = Shop::open().await.expect("the shop");
    let dir = tempfile::TempDir::new().expect("a temporary folder");
    let (mut child, url) = start(dir.path(), &shop);
    tokio::time::sleep(SETTLE).await;
    println!("idle, new box:            {}", memory(&child));
    let client = owner(&url, &dir.path().join("data/admin.sock")).await;
    let batch: Vec<_> =
        shop.pages.iter().map(|page| json!({ "url": format!("{}{}", shop.base(), page.path) })).collect();
    let begun = Instant::now();
    let (mut done, mut next) = (0, REPORT_EVERY);
    let jobs_wanted = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(JOBS_DEFAULT);
    while done < jobs_wanted {
        let jobs =
            client.post("/api/v1/jobs/batch", &json!({ "jobs": batch })).await.expect("an answer").json;
        let ids: Vec<Value> =
            jobs["jobs"].as_array().expect("jobs").iter().map(|job| job["id"].clone()).collect();
        wait(&client, &ids).await;
        done += ids.len();
        if done >= next {
            println!(
                "{done:6} jobs, {:5.0} a second: {}",
                done as f64 / begun.elapsed().as_secs_f64(),
                memory(&child)
            );
            next += REPORT_EVERY;
        }
    }
    tokio::time::sleep(SETTLE).await;
    println!("idle again:               {}", memory(&child));
    let sizes = ["gleaner.redb", "pages", "search", "snapshots"].map(|name| {
        format!("{name} {:.1} MiB", size(&dir.path().join("data").join(name)) as f64 / f64::from(1 << 20))
    });
    println!("on disk: {}", sizes.join(", "));
    child.kill().expect("the process is ours");
    child.wait().expect("it is reaped");
}

fn start(folder: &Path, shop: &Shop) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gleaner"))
        .arg("serve")
        .current_dir(folder)
        .env("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
        .env("GLEANER_STORAGE__DATA_DIR", folder.join("data"))
        .env("GLEANER_NETWORK__ALLOW", format!("[\"127.0.0.1/32:{}\"]", shop.address.port()))
        .env("GLEANER_DISPATCH__PER_DOMAIN_CONCURRENCY", "16")
        .env("GLEANER_LOG__LEVEL", "warn")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
    let line = lines.next().expect("it says where it listens").expect("text");
    let url = line.strip_prefix("Gleaner listens at ").expect("it says where it listens").to_owned();
    (child, url)
}

async fn owner(url: &str, socket: &Path) -> Client {
    let anonymous = Client::new(url);
    let email = "soak@example.com".to_owned();
    let person = json!({ "email": email, "password": "a long enough passphrase", "name": "Soak" });
    let login = anonymous.post("/api/v1/auth/register", &person).await.expect("an answer").json;
    let browser = anonymous.bearer(login["accessToken"].as_str().expect("a token"));
    let org = browser.post("/api/v1/orgs", &json!({ "name": "Soak" })).await.expect("an answer").json;
    admin::call(socket, &Request::UserVerify { email }).await.expect("a verified address");
    let json = gleaner::demo::SCHEMAS.to_owned();
    let import = Request::SchemaImport { json, domain: Some("127.0.0.1".to_owned()) };
    admin::call(socket, &import).await.expect("the schemas");
    let browser = anonymous.bearer(org["accessToken"].as_str().expect("a token"));
    let key = browser.post("/api/v1/api-keys", &json!({ "name": "soak" })).await.expect("an answer").json;
    anonymous.bearer(key["secret"].as_str().expect("a secret"))
}

async fn wait(client: &Client, ids: &[Value]) {
    loop {
        let polled = client.post("/api/v1/jobs/poll", &json!({ "ids": ids })).await.expect("an answer").json;
        let items = polled["items"].as_array().expect("items");
        assert!(items.iter().all(|job| job["status"] != "failed"), "a job failed: {polled}");
        if items.iter().all(|job| job["status"] == "succeeded") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Resident memory, and the part of it that is not files.
fn memory(child: &Child) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("its status");
    let read = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or_default() / 1024.0
    };
    format!("{:6.1} MiB resident, {:6.1} MiB of it its own", read("VmRSS"), read("RssAnon"))
}

fn size(path: &Path) -> u64 {
    if path.is_file() {
        return path.metadata().map_or(0, |meta| meta.len());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}
