//! What a backup costs those who work meanwhile, and how long one takes that has little new.
//!
//! `cargo bench --bench backup` starts the real binary. With `GLEANER_BENCH_PAGES_GB` (2) pages of 20 kB lie in its data folder; it and
//! the backup take that much room each in the folder for temporary files.
//!
//! - *pages*: a first backup, and one with 1 % of the pages new. What counts is 20 GB in under a minute (issue 19).
//! - *pause*: jobs are submitted at a steady pace, 500 a second (`GLEANER_BENCH_PACE`), without and with a backup that is being made;
//!   the slowest answer of each. What counts is under 100 ms.

use harness::process::Process;
use harness::{binary, get, member};
use serde_json::{Value, json};
use server::client::Client;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PAGE_BYTES: usize = 20_000;
/// Of so many pages one is new in the second backup.
const NEW_OF: u64 = 100;
/// How long submits are measured without a backup.
const BARE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() {
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    let dir = TempDir::new().expect("a temporary folder");
    let data = dir.path().join("data");
    // Nothing is fetched: what is measured is the way of a submit.
    let settings = [("NETWORK__ALLOW", "[]"), ("STORAGE__RESERVE_MB", "0"), ("DISPATCH__CONCURRENCY", "1")];
    let process = Process::start(&data, &settings);
    let ada = member(&process.client(), &process.socket(), "ada").await;
    let gigabytes: u64 = setting("GLEANER_BENCH_PAGES_GB", 2);
    let pages = data.join("pages").join(&ada.org_id);
    let count = gigabytes * 1_000_000_000 / PAGE_BYTES as u64;
    let begun = Instant::now();
    make_pages(&pages, 0..count);
    println!("{count} pages of {PAGE_BYTES} bytes were made in {:.1} s", begun.elapsed().as_secs_f64());
    for (what, added) in [("first", 0), ("1 % new", count / NEW_OF), ("nothing new", 0)] {
        make_pages(&pages, count..count + added);
        let begun = Instant::now();
        let made = back_up(dir.path(), &data);
        println!(
            "pages, {what}: {:.1} s, {} pages of which {} new, {} MB written",
            begun.elapsed().as_secs_f64(),
            made["summary"]["pages"],
            made["summary"]["newPages"],
            made["summary"]["newBytes"].as_u64().unwrap_or_default() / 1_000_000
        );
    }
    let pace = setting("GLEANER_BENCH_PACE", 500);
    let api = process.client().bearer(&ada.key);
    let bare = submits(&api, pace, || async { tokio::time::sleep(BARE).await }).await;
    println!("pause, no backup: {bare}");
    let (folder, data) = (dir.path().to_owned(), data.clone());
    let with = submits(&api, pace, || async move {
        let made = tokio::task::spawn_blocking(move || {
            make_pages(&pages, count * 2..count * 2 + count / NEW_OF);
            back_up(&folder, &data)
        });
        let made = made.await.expect("it ends");
        println!(
            "  a backup with {} rows; writes waited {} us",
            made["summary"]["rows"], made["summary"]["pauseUs"]
        );
    });
    println!("pause, while backups are made: {}", with.await);
    assert_eq!(get(&process.client(), "/readyz").await.status, 200);
    process.kill();
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Files as the box keeps pages, with content that does not compress.
fn make_pages(root: &Path, numbers: std::ops::Range<u64>) {
    let mut bytes = vec![0; PAGE_BYTES];
    for number in numbers {
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for chunk in bytes.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes());
        }
        // A name of the form of a page's: a backup asks for no more.
        let name: String = bytes[..32].iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = root.join(&name[..2]);
        let file = folder.join(format!("{name}.zst"));
        if std::fs::write(&file, &bytes).is_err() {
            std::fs::create_dir_all(&folder).expect("a folder of pages");
            std::fs::write(&file, &bytes).expect("a page");
        }
    }
}

fn back_up(folder: &Path, data: &Path) -> Value {
    let mut command = Command::new(binary());
    command.args(["backup", "backups", "--without-key"]).current_dir(folder);
    command.env("GLEANER_STORAGE__DATA_DIR", data).stderr(Stdio::inherit());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "the backup failed");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// Submits jobs at a pace while something goes on; says what they took, counted from when each was due.
async fn submits<F: Future<Output = ()>>(api: &Client, pace: u64, meanwhile: impl FnOnce() -> F) -> String {
    let stop = Arc::new(AtomicBool::new(false));
    let (took, refused) = (Arc::<parking_lot::Mutex<Vec<u64>>>::default(), Arc::new(AtomicU64::new(0)));
    let (api, stopping, all, not) = (api.clone(), stop.clone(), took.clone(), refused.clone());
    let paced = tokio::spawn(async move {
        let (begun, mut sent) = (Instant::now(), Vec::new());
        for nth in 0u64.. {
            let due = begun + Duration::from_micros(nth * 1_000_000 / pace);
            tokio::time::sleep_until(due.into()).await;
            if stopping.load(Ordering::Relaxed) {
                break;
            }
            let (api, all, not) = (api.clone(), all.clone(), not.clone());
            sent.push(tokio::spawn(async move {
                let job = json!({ "url": format!("https://shop.example/{nth}") });
                let reply = api.post("/api/v1/jobs", &job).await;
                all.lock().push(u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX));
                if !reply.is_ok_and(|reply| reply.status == 201) {
                    not.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        for sent in sent {
            let _ = sent.await;
        }
        begun.elapsed()
    });
    meanwhile().await;
    stop.store(true, Ordering::Relaxed);
    let time = paced.await.expect("it ends");
    let mut took = std::mem::take(&mut *took.lock());
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    format!(
        "{} submits in {:.1} s ({} refused); p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, worst {:.1} ms (target: 100)",
        took.len(),
        time.as_secs_f64(),
        refused.load(Ordering::Relaxed),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}
