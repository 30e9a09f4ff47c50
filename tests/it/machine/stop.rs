//! A box is told to stop while a page hangs: it goes soon, and the page's job runs again at the next start.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{collect, ended, eventually, expect, get, member, post, text};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
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

/// A request that comes a byte at a time is in flight for as long as its sender likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_hangs_leaves_the_others_their_time() {
    let web = Web::open(|path| {
        let page = Answer::html(format!("<title>{path}</title>"));
        Some(if path == "/hangs" { page.after_ms(3_600_000) } else { page })
    })
    .await;
    let dir = TempDir::new().unwrap();
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let allow = web.allow();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__ROBOTS", "false"),
        ("SERVER__SHUTDOWN_SEC", "16"),
        ("LOG__LEVEL", "info"),
    ];
    let stderr = std::fs::File::create(&log).unwrap();
    let process = Process::start_logging_to(&data, &settings, stderr.into());
    let owner = member(&process.client(), &process.socket(), "stop").await;
    let job = json!({ "url": web.url("/hangs"), "options": { "timeoutMs": 120_000 } });
    let job = expect(post(&owner.api, "/api/v1/jobs", &job).await, 201);
    eventually("the job runs", Duration::from_secs(30), || async {
        let path = format!("/api/v1/jobs/{}", text(&job, "id"));
        (expect(get(&owner.api, &path).await, 200)["status"] == "running").then_some(())
    })
    .await;
    let address = process.url.strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head =
        format!("POST /api/v1/auth/login HTTP/1.1\r\nhost: {address}\r\ncontent-length: 100000\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    eventually("the request is read", Duration::from_secs(30), || async {
        let metrics = get(&process.client(), "/metrics").await.text();
        // This one is running, too.
        metrics.lines().any(|line| line == "gleaner_http_requests_running 2").then_some(())
    })
    .await;
    std::thread::spawn(move || {
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    assert_eq!(process.terminate(), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    let hung = "still running after the time to drain";
    assert!(log.contains(hung) && log.contains("/api/v1/auth/login"), "the test can fail: {log}");
    assert!(log.contains("jobs that did not end in time are let go"), "{log}");
    assert!(!log.contains("still running when the time to drain was over"), "{log}");
}
