//! Nothing of the box waits for its log, or dies of it.

use crate::harness::process::Process;
use crate::harness::{eventually, expect, get, member, post, ready};
use serde_json::json;
use std::fs::OpenOptions;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// Works the box at the most talkative level and sees that all of it goes on.
async fn works(stderr: Stdio) {
    let dir = TempDir::new().unwrap();
    let settings = [("LOG__LEVEL", "info,gleaner=trace,hyper=trace,tantivy=debug")];
    let process = Process::start_logging_to(&dir.path().join("data"), &settings, stderr);
    let owner = member(&process.client(), &process.socket(), "log").await;
    for n in 0..60 {
        let urls = json!({ "urls": [format!("https://shop.example/{n}")] });
        expect(post(&owner.api, "/api/v1/urls", &urls).await, 200);
    }
    let asked = json!({ "sql": "SELECT count(*) AS n FROM urls", "waitMs": 10_000 });
    eventually("the console has every row", Duration::from_secs(60), || async {
        let answer = post(&owner.api, "/api/v1/bi/queries", &asked).await;
        (answer.json["results"]["rows"][0]["n"] == 60).then_some(())
    })
    .await;
    // A start over what is there, and upkeep's looks, are logged too.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let ready = ready(&process.client()).await;
    assert!(ready["checks"]["writer"] == "ok" && ready["checks"]["upkeep"] == "ok", "{ready}");
    let metrics = get(&process.client(), "/metrics").await.text().to_owned();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("gleaner_log_lines_lost "));
    assert!(lost.unwrap().parse::<u64>().unwrap() > 0, "nothing was logged: the test shows nothing");
    assert_eq!(process.terminate(), Some(0), "a drain ends with exit code 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_reader_is_gone_is_no_matter() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    works(Stdio::from(writer)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_disk_is_full_is_no_matter() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    works(Stdio::from(full)).await;
}
