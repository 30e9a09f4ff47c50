//! An organization is erased and the box killed at any call on its files: it goes on at its next start, says that it is
//! done, and then no byte of any file tells of the organization.
//!
//! The binary as shipped erases one organization while every call on files is written down (shim.c). Then its disk is built
//! as it stood after each of many of these calls, the box started over it and let go on to the end.

use super::disk::{self, Disk, Record};
use super::shim::Shim;
use crate::account::{delete, fill, schemas, traces, web};
use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::{eventually, expect, get, member, post, text};
use gleaner::admin;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Points at which the box is killed.
const KILLS: usize = 240;
/// Boxes that go on at a time.
const AT_ONCE: usize = 3;
/// How long one may take, beside others.
const DONE_MAX: Duration = Duration::from_secs(120);
/// What stands in everything that the organization has, and in nothing else.
const MARKER: &str = "zqerased";

const SETTINGS: [(&str, &str); 2] =
    [("DISPATCH__ROBOTS", "false"), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8")];

/// The erasures as the operator sees them.
async fn erasures(process: &Process) -> Vec<Value> {
    let all = admin::call(&process.socket(), &Request::Erasures { limit: 10 }).await.unwrap();
    all.as_array().unwrap().clone()
}

async fn is_done(process: &Process) -> Option<()> {
    let all = erasures(process).await;
    all.iter().all(|erasure| erasure["state"] == "done").then_some(())
}

/// Erases an organization that has one of everything; gives the disk before, what was done to it until the end, and the key
/// of an organization that stays.
async fn erase(shim: &Shim) -> (Disk, Vec<Record>, String) {
    let web = web().await;
    let allow = web.allow();
    let settings = [&SETTINGS[..], &[("NETWORK__ALLOW", allow.as_str())]].concat();
    let before = Disk::of(&shim.root());
    let process = Process::start_under(&shim.root().join("data"), &settings, &shim.environment());
    admin::call(&process.socket(), &schemas()).await.unwrap();
    let kept = member(&process.client(), &process.socket(), "zqkept").await;
    fill(&kept.api, &web.url(""), "zqkept").await;
    let gone = member(&process.client(), &process.socket(), MARKER).await;
    fill(&gone.api, &web.url(""), MARKER).await;
    let urls: Vec<_> = (0..400).map(|n| format!("https://example.com/{MARKER}/{n}")).collect();
    expect(post(&gone.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    // Jobs that wait, and one that is under way.
    let jobs: Vec<_> = (0..40).map(|n| json!({ "url": web.url(&format!("/slow{MARKER}/{n}")) })).collect();
    expect(post(&gone.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    let queries = expect(get(&gone.api, "/api/v1/bi/queries").await, 200);
    let query = text(&queries["items"][0], "jobId");
    let export =
        post(&gone.api, &format!("/api/v1/bi/queries/{query}/exports"), &json!({ "format": "csv" })).await;
    assert!(export.status.is_success(), "{}", export.text());
    expect(post(&gone.browser, "/api/v1/account/export", &json!({})).await, 202);
    let from = shim.journal_length();
    expect(delete(&gone.browser, "/api/v1/orgs/current", &json!({ "confirmName": MARKER })).await, 202);
    eventually("the erasure is done", DONE_MAX, || is_done(&process)).await;
    process.kill();
    let mut disk = before;
    let (earlier, later): (Vec<_>, Vec<_>) =
        disk::read(&shim.journal).into_iter().partition(|record| record.end <= from);
    earlier.iter().for_each(|record| disk.apply(record));
    (disk, later, kept.key)
}

/// Starts the box over a folder, kills it once more after `again`, lets it go on to the end, and gives what tells of the
/// organization then; none when it had not been told yet to erase it.
async fn go_on(root: &Path, key: &str, again: Option<Duration>) -> Option<Vec<String>> {
    let data = root.join("data");
    if let Some(pause) = again {
        let process = Process::start(&data, &SETTINGS);
        tokio::time::sleep(pause).await;
        process.kill();
    }
    let process = Process::start(&data, &SETTINGS);
    if erasures(&process).await.is_empty() {
        return None;
    }
    eventually("the erasure is done", DONE_MAX, || is_done(&process)).await;
    let api = process.client().bearer(key);
    let jobs = expect(get(&api, "/api/v1/jobs").await, 200);
    assert_eq!(jobs["items"].as_array().unwrap().len(), 3, "the other organization has what it had");
    let erasure = erasures(&process).await.remove(0);
    process.kill();
    let mut left = traces(&data, &[&format!("{MARKER}/"), &format!("of {MARKER}")]);
    if erasure["left"] != json!({}) {
        left.push(format!("its receipt says so: {erasure}"));
    }
    Some(left)
}

/// Every so many calls, and every one that gives, takes or changes a name of the store's file.
fn points(records: &[Record], many: usize) -> BTreeSet<usize> {
    let names =
        records.iter().enumerate().filter(|(_, record)| matches!(record.kind, b'C' | b'R' | b'L' | b'U'));
    let mut points: BTreeSet<usize> = names
        .filter(|(_, record)| record.names("gleaner.redb"))
        .flat_map(|(at, _)| [at.max(1) - 1, at])
        .collect();
    let rest = many.saturating_sub(points.len()).max(1);
    points.extend((0..rest).map(|nth| nth * records.len() / rest));
    points
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_wherever_the_box_is_killed() {
    let Some(shim) = Shim::new("erasing") else { return };
    let (mut disk, records, key) = erase(&shim).await;
    let many =
        std::env::var("GLEANER_ERASING_KILLS").ok().and_then(|many| many.parse().ok()).unwrap_or(KILLS);
    let points = points(&records, many);
    let (places, begun) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(AtomicUsize::new(0)));
    let (mut going, mut looked) = (JoinSet::new(), 0);
    for (at, record) in records.iter().enumerate() {
        disk.apply(record);
        if !points.contains(&at) {
            continue;
        }
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let temp = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        disk.as_it_stands(temp.path());
        let (key, begun) = (key.clone(), Arc::clone(&begun));
        looked += 1;
        if looked == 1 {
            let before = traces(&temp.path().join("data"), &[MARKER]);
            assert!(
                before.iter().any(|trace| trace.ends_with("gleaner.redb")),
                "the test can fail: {before:?}"
            );
        }
        // Every other one is killed again while it goes on: its first steps are those that clear up.
        let again = (looked % 2 == 0).then(|| Duration::from_millis(looked * 7 % 130));
        going.spawn(async move {
            let left = go_on(temp.path(), &key, again).await;
            begun.fetch_add(usize::from(left.is_some()), Ordering::Relaxed);
            drop(place);
            left.unwrap_or_default()
                .into_iter()
                .map(|what| format!("killed after call {at}: {what}"))
                .collect()
        });
    }
    let left: Vec<Vec<String>> = going.join_all().await;
    let left = left.concat();
    assert!(left.is_empty(), "{} traces: {:#?}", left.len(), &left[..left.len().min(40)]);
    let begun = begun.load(Ordering::Relaxed);
    println!("{begun} of {} kills in {} calls came while it was erased", points.len(), records.len());
    assert!(begun * 10 > points.len() * 9, "only {begun} of {} kills came while it was erased", points.len());
}
