//! `kill -9` in every phase of erasures: each goes on where it was, and all end the same.

use super::*;
use crate::harness::process::Process;
use crate::harness::{member, post};
use gleaner::admin;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Kills at most; the phases that last longest are met long before.
const KILLS_MAX: u32 = 40;
/// Erasures at most: one that is over before it is seen is no round.
const ERASURES_MAX: usize = 60;
/// Kills of one erasure in the phase that is waited for; then it is let go on.
const KILLS_PER_ERASURE: u32 = 3;
/// Phases in which a kill must have come. The others are one or two commits long and may be missed.
const PHASES: &[&str] = &["outside", "rows", "sweep", "scrub"];

/// The state of the erasure, straight from the operator's socket.
async fn state(process: &Process, id: &str) -> String {
    let all = admin::call(&process.socket(), &Request::Erasures { limit: 100 }).await.unwrap();
    let erasure =
        all.as_array().unwrap().iter().find(|erasure| erasure["id"] == id).expect("it is listed").clone();
    text(&erasure, "state").to_owned()
}

/// Rows enough that phases last some milliseconds.
async fn fill_many(client: &Client, marker: &str) {
    for part in 0..3 {
        let urls: Vec<_> = (0..2_000).map(|n| format!("https://example.com/{marker}/{part}/{n}")).collect();
        expect(post(client, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_in_any_phase_goes_on_to_the_same_end() {
    let web = web().await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__ROBOTS", "false")];
    let mut process = Process::start(&data, &settings);
    admin::call(&process.socket(), &schemas()).await.unwrap();
    let kept = member(&process.client(), &process.socket(), "zqkept").await;
    fill(&kept.api, &web.url(""), "zqkept").await;
    let sums_before = sums(&kept.api).await;
    let before = inventory(&kept.api, "zqkept").await;

    let (mut kills, mut met, mut names) = (0, BTreeMap::new(), Vec::new());
    while kills < KILLS_MAX
        && names.len() < ERASURES_MAX
        && !PHASES.iter().all(|phase| met.contains_key(*phase))
    {
        // The phase that this round waits for; one that was met already is not waited for again.
        let wanted = PHASES.iter().find(|phase| !met.contains_key(**phase)).copied().unwrap();
        let name = format!("zqgone{}x", names.len());
        let gone = member(&process.client(), &process.socket(), &name).await;
        fill(&gone.api, &web.url(""), &name).await;
        fill_many(&gone.api, &name).await;
        let started = expect(delete(&gone.browser, CURRENT, &json!({ "confirmName": name })).await, 202);
        let id = text(&started, "erasureId").to_owned();
        names.push(name);
        let mut left = KILLS_PER_ERASURE;
        loop {
            let seen = state(&process, &id).await;
            if seen == wanted && left > 0 {
                process.kill();
                *met.entry(wanted.to_owned()).or_insert(0) += 1;
                (kills, left) = (kills + 1, left - 1);
                process = Process::start(&data, &settings);
            } else if seen == "done" {
                break;
            }
        }
    }
    assert!(PHASES.iter().all(|phase| met.contains_key(*phase)), "killed only in {met:?}");
    // And at moments that nobody chose.
    let gone = member(&process.client(), &process.socket(), "zqlast").await;
    fill_many(&gone.api, "zqlast").await;
    let started = expect(delete(&gone.browser, CURRENT, &json!({ "confirmName": "zqlast" })).await, 202);
    let id = text(&started, "erasureId").to_owned();
    names.push("zqlast".to_owned());
    for pause_ms in [3, 40, 110, 10, 70, 170, 25, 90] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        process.kill();
        process = Process::start(&data, &settings);
    }
    eventually("the last erasure is done", DONE_MAX, || async {
        (state(&process, &id).await == "done").then_some(())
    })
    .await;

    let all = admin::call(&process.socket(), &Request::Erasures { limit: 100 }).await.unwrap();
    assert_eq!(all.as_array().unwrap().len(), names.len());
    for erasure in all.as_array().unwrap() {
        assert_eq!((&erasure["state"], &erasure["left"]), (&json!("done"), &json!({})), "{erasure}");
    }
    let words: Vec<_> = names.iter().map(|name| format!("{name}/")).collect();
    let needles: Vec<_> = words.iter().map(String::as_str).collect();
    assert_eq!(traces(&data, &needles), Vec::<String>::new());
    let names: Vec<_> = files(&data).into_iter().map(|path| path.display().to_string()).collect();
    assert!(
        !names.iter().any(|name| name.ends_with("gleaner.redb.new") || name.ends_with("gleaner.redb.old")),
        "{names:#?}"
    );
    let api = process.client().bearer(&kept.key);
    assert_eq!(inventory(&api, "zqkept").await, before);
    assert_eq!(sums(&api).await, sums_before);
    assert_eq!(process.terminate(), Some(0));
}
