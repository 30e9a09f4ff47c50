//! Backups while two organizations collect: each is one moment, and the box dies in the middle of one.

use super::{Lab, WAIT};
use crate::crash::{agrees, page, submit};
use crate::harness::web::Web;
use crate::harness::{eventually, get, member, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Restores of the ordinary run, and with `GLEANER_LONG=1` (issue 19, "Holds when").
const RESTORES: usize = 3;
const RESTORES_LONG: usize = 20;

fn restores() -> usize {
    if std::env::var_os("GLEANER_LONG").is_some() { RESTORES_LONG } else { RESTORES }
}

/// Submits until it is stopped, in runs that end, so that what was answered is known between them.
async fn collect_on(
    client: server::client::Client,
    web: String,
    first: u32,
    answered: Arc<parking_lot::Mutex<BTreeSet<String>>>,
    stop: Arc<AtomicBool>,
) {
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let ended = Arc::new(AtomicBool::new(false));
        let run = tokio::spawn(submit(client.clone(), web.clone(), number, ended.clone()));
        tokio::time::sleep(Duration::from_millis(40)).await;
        ended.store(true, Ordering::Relaxed);
        let taken = run.await.unwrap();
        answered.lock().extend(taken);
        number += 10_000;
        // What a restored box has to end, it ends within the time of a test.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_backup_under_load_is_one_moment() {
    let web = Web::open(page).await;
    let allow = web.allow();
    let mut lab = Lab::new(&[("NETWORK__ALLOW", &allow), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "16")]);
    lab.settings.push(("STORAGE__RESERVE_MB", "0".to_owned()));
    let process = lab.start("first");
    let mut owners = Vec::new();
    for name in ["ada", "eve"] {
        owners.push(member(&process.client(), &process.socket(), name).await);
    }
    let mut taken: Vec<(String, Vec<BTreeSet<String>>)> = Vec::new();
    for round in 0..restores() {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut answered, mut runs) = (Vec::new(), Vec::new());
        for (nth, owner) in owners.iter().enumerate() {
            let known = Arc::new(parking_lot::Mutex::new(BTreeSet::new()));
            let first = (round as u32 * 2 + nth as u32) * 1_000_000;
            let client = process.client().bearer(&owner.key);
            runs.push(tokio::spawn(collect_on(client, web.url(""), first, known.clone(), stop.clone())));
            answered.push(known);
        }
        eventually("both collect", WAIT, || async {
            answered.iter().all(|known| known.lock().len() >= 10).then_some(())
        })
        .await;
        // Everything acknowledged up to here is in it.
        let before: Vec<_> = answered.iter().map(|known| known.lock().clone()).collect();
        let made = tokio::task::block_in_place(|| lab.back_up("first"));
        stop.store(true, Ordering::Relaxed);
        for run in runs {
            run.await.unwrap();
        }
        assert!(answered[0].lock().len() > before[0].len(), "collecting went on meanwhile");
        let earlier = taken.last().map(|(_, sets)| sets.clone()).unwrap_or_default();
        let all = before.into_iter().enumerate().map(|(nth, mut set)| {
            set.extend(earlier.get(nth).into_iter().flatten().cloned());
            set
        });
        taken.push((text(&made, "id").to_owned(), all.collect()));
    }
    process.kill();
    let whole = lab.done("first", &["backup", "verify", "backups"]);
    assert_eq!(whole["whole"].as_array().unwrap().len(), taken.len());
    for (nth, (id, sets)) in taken.iter().enumerate() {
        let name = format!("restored{nth}");
        lab.restore(&name, id);
        lab.is_sound(&name);
        let process = lab.start(&name);
        for (owner, answered) in owners.iter().zip(sets) {
            agrees(&process, &owner.key, answered).await;
        }
        assert_eq!(process.terminate(), Some(0));
        lab.is_sound(&name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_dies_in_a_backup_leaves_none_and_makes_the_next() {
    let web = super::pages().await;
    let allow = web.allow();
    let lab = Lab::new(&[("NETWORK__ALLOW", &allow)]);
    let mut process = lab.start("first");
    let ada = member(&process.client(), &process.socket(), "ada").await;
    for n in 0..20 {
        crate::harness::collect(&process.client().bearer(&ada.key), &web.url(&format!("/{n}"))).await;
    }
    let good = lab.back_up("first");
    for round in 0..6u64 {
        let mut typed = std::process::Command::new(crate::harness::binary());
        typed.args(["backup", "backups", "--passphrase-file", "passphrase", "--full"]);
        typed.current_dir(lab.folder.path()).env("GLEANER_STORAGE__DATA_DIR", lab.data("first"));
        let mut typed = typed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Somewhere in it, also before and behind.
        tokio::time::sleep(Duration::from_millis(60 + round * 130)).await;
        process.kill();
        typed.wait().unwrap();
        process = lab.start("first");
    }
    let listed = lab.done("first", &["backup", "list", "backups"]);
    assert_eq!(listed["damaged"], Value::Array(Vec::new()), "none is half a one");
    assert_eq!(listed["backups"][0]["id"], good["id"]);
    lab.done("first", &["backup", "verify", "backups"]);
    let next = lab.back_up("first");
    assert_eq!(next["summary"]["pages"], 20, "{next}");
    process.kill();
    lab.restore("second", text(&next, "id"));
    lab.is_sound("second");
    let process = lab.start("second");
    let api = process.client().bearer(&ada.key);
    super::answers(&api, 20).await;
    assert_eq!(get(&api, "/api/v1/jobs").await.status, 200);
}
