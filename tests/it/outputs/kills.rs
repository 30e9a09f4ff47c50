//! `kill -9` while messages are sent: each event comes at least once, under one id however often.

use super::{OUTPUTS, Receiver, Said};
use crate::harness::process::Process;
use crate::harness::{eventually, expect, get, member, post, text};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tempfile::TempDir;

const KILLS: u64 = 30;
const JOBS_PER_ROUND: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_box_delivers_each_event_at_least_once_under_one_id() {
    // Slow enough that a kill meets messages that are under way.
    let receiver = Receiver::open(|_| Said { after: Duration::from_millis(40), ..Said::status(200) }).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = json!([format!("127.0.0.1/32:{}", receiver.address.port())]).to_string();
    let settings = [("NETWORK__ALLOW", allow.as_str())];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "kills").await;
    let api = process.client().bearer(&owner.key);
    let new = json!({ "kind": "webhook", "url": receiver.url("/"), "events": ["job.queued"] });
    let made = expect(post(&api, OUTPUTS, &new).await, 201);
    let mut caused = BTreeSet::new();
    for round in 0..KILLS {
        let api = process.client().bearer(&owner.key);
        let jobs: Vec<_> = (0..JOBS_PER_ROUND)
            .map(|n| json!({ "url": format!("http://nobody.invalid/{round}/{n}") }))
            .collect();
        let batch = expect(post(&api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
        caused.extend(batch["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").to_owned()));
        tokio::time::sleep(Duration::from_millis(60 + 17 * round)).await;
        process.kill();
        process = Process::start(&data, &settings);
    }
    let api = process.client().bearer(&owner.key);
    let messages = eventually("every event has come", Duration::from_secs(90), || async {
        let all = receiver.received();
        let come: BTreeSet<_> =
            all.iter().map(|message| text(&message.json()["subject"], "id").to_owned()).collect();
        (come.is_superset(&caused)).then_some(all)
    })
    .await;
    let (mut ids, mut bodies) = (BTreeMap::new(), BTreeMap::new());
    for message in &messages {
        let (event, id) = (message.json()["eventId"].to_string(), message.header("webhook-id").to_owned());
        assert_eq!(ids.entry(event).or_insert_with(|| id.clone()), &id, "one event has one id");
        assert_eq!(*bodies.entry(id).or_insert_with(|| message.body.clone()), message.body);
    }
    assert_eq!(ids.len(), caused.len());
    let sequences: BTreeSet<_> = messages.iter().map(|message| message.json()["sequence"].as_u64()).collect();
    assert_eq!(sequences, (1..=caused.len() as u64).map(Some).collect());
    eventually("the ledger says so", Duration::from_secs(30), || async {
        let view = expect(get(&api, &format!("{OUTPUTS}/{}", text(&made, "id"))).await, 200);
        (view["delivered"] == caused.len() && view["pending"] == 0 && view["missed"] == 0).then_some(())
    })
    .await;
    println!("{} messages for {} events over {KILLS} kills", messages.len(), caused.len());
    assert_eq!(process.terminate(), Some(0));
}
