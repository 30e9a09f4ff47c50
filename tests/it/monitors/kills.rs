//! `kill -9` in the midst of runs: what was due runs, and no change of a state is told twice.

use super::{MONITORS, read};
use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::{eventually, expect, get, member, post, text};
use serde_json::json;
use std::time::Duration;
use tempfile::TempDir;

const KILLS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_box_runs_what_was_due_and_tells_each_change_once() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let mut process = Process::start(&data, &[]);
    let owner = member(&process.client(), &process.socket(), "kills").await;
    let api = process.client().bearer(&owner.key);
    let new = |threshold: u64| {
        json!({
            "name": "n", "sql": "SELECT count(*) AS n FROM urls", "on": { "cron": "0 0 1 1 *" },
            "condition": { "value": "n", "op": "gte", "threshold": threshold },
        })
    };
    let id = text(&expect(post(&api, MONITORS, &new(0)).await, 201), "id").to_owned();
    for round in 0..KILLS {
        let api = process.client().bearer(&owner.key);
        // Each round another state: it runs at once with other terms.
        let change = json!({ "condition": new(if round % 2 == 0 { 5 } else { 0 })["condition"] });
        eventually("the box takes it", Duration::from_secs(60), || async {
            let reply = patch(&api, &format!("{MONITORS}/{id}"), &change).await;
            (reply.status == 200).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(5 + 23 * round)).await;
        process.kill();
        process = Process::start(&data, &[]);
    }
    let api = process.client().bearer(&owner.key);
    let expected = if KILLS.is_multiple_of(2) { "firing" } else { "ok" };
    eventually("the last terms have run", Duration::from_secs(90), || async {
        let monitor = read(&api, &id).await;
        let ran = monitor["lastRunAt"].as_str() > monitor["updatedAt"].as_str();
        (monitor["state"] == expected && ran).then_some(())
    })
    .await;
    let events = expect(get(&api, "/api/v1/events?kind=monitor.*&limit=200").await, 200);
    let mut kinds: Vec<_> =
        events["items"].as_array().unwrap().iter().map(|event| text(event, "kind")).collect();
    kinds.reverse();
    // A state that was cut off was never there; what is told alternates.
    assert!(!kinds.is_empty() && kinds.windows(2).all(|pair| pair[0] != pair[1]), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&if expected == "firing" { "monitor.firing" } else { "monitor.ok" }));
    assert_eq!(process.terminate(), Some(0));
}
