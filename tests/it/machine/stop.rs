//! A box is told to stop while a page hangs: it goes soon, and the page's job runs again at the next start.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{collect, ended, eventually, expect, get, member, post, text};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_hangs_does_not_hold_up_a_restart() {
    let visits = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&visits);
    let web = Web::open(move |path| {
        let page = Answer::html(format!("<title>{path}</title>"));
        // It hangs for the first who comes, for longer than anybody waits.
        let hangs = path == "/hangs" && counted.fetch_add(1, Ordering::Relaxed) == 0;
        Some(if hangs { page.after_ms(3_600_000) } else { page })
    })
    .await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__ROBOTS", "false"),
        // All of which it used to take.
        ("SERVER__SHUTDOWN_SEC", "600"),
    ];
    let process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "stop").await;
    collect(&owner.api, &web.url("/quick")).await;
    let job = json!({ "url": web.url("/hangs"), "options": { "timeoutMs": 120_000 } });
    let job = expect(post(&owner.api, "/api/v1/jobs", &job).await, 201);
    eventually("the page is asked for", Duration::from_secs(30), || async {
        (visits.load(Ordering::Relaxed) == 1).then_some(())
    })
    .await;
    let begun = Instant::now();
    assert_eq!(process.terminate(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(90), "it waited for the page: {:?}", begun.elapsed());
    let process = Process::start(&data, &settings);
    let client = process.client().bearer(&owner.key);
    let ended = ended(&client, text(&job, "id")).await;
    assert_eq!(text(&ended, "status"), "succeeded", "{ended}");
    assert_eq!(visits.load(Ordering::Relaxed), 2);
    let metrics = get(&process.client(), "/metrics").await.text();
    assert!(metrics.contains("gleaner_jobs_given_up 0"), "{metrics}");
    assert_eq!(process.terminate(), Some(0));
}
