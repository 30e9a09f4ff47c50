//! Rows of results as files: what is in them is what the console has, once, whatever is killed.

use super::postgres::{PATIENCE, console, reads, shop, visit};
use super::{OUTPUTS, deliveries, shown};
use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::{Appliance, eventually, expect, get, member, post, refused, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The files below a folder, but for manifests, logs and drafts.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.path().is_dir() {
            _ if name.starts_with(['_', '.']) => {}
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// The rows of JSON lines below a folder, as `id|title|price`.
pub(super) fn rows(folder: &Path) -> Vec<String> {
    let texts = files(folder).into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    let mut rows: Vec<_> = texts.flat_map(|text| lines_of(&text)).collect();
    rows.sort();
    rows
}

/// JSON lines, each as `id|title|price`.
pub(super) fn lines_of(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        format!("{}|{}|{}", super::text(&row, "result_id"), super::text(&row, "title"), row["price"])
    };
    text.lines().map(line).collect()
}

/// The rows that the commits of a Delta log add.
pub(super) fn added(log: &Path) -> u64 {
    let names = std::fs::read_dir(log).unwrap().flatten().map(|entry| entry.path());
    let commits = names.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let texts: Vec<_> = commits.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let actions =
        texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let statistics = actions.filter_map(|action| action["add"]["stats"].as_str().map(str::to_owned));
    statistics
        .map(|stats| serde_json::from_str::<Value>(&stats).unwrap()["numRecords"].as_u64().unwrap())
        .sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_result_is_in_one_file_whatever_is_killed() {
    let web = shop().await;
    let dir = TempDir::new().unwrap();
    let (data, out) = (dir.path().join("data"), dir.path().join("out"));
    let allow = json!([format!("127.0.0.1/32:{}", web.address.port())]).to_string();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64"),
        ("OUTPUTS__FOLDER", out.to_str().unwrap()),
    ];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "files").await;
    let api = process.client().bearer(&owner.key);
    reads(&api, &["title", "price"]).await;
    let lines = json!({
        "kind": "files", "events": ["job.succeeded"],
        "files": { "format": "jsonl", "path": "shop/lines", "maxRows": 7, "everyMinutes": 1 },
    });
    let delta = json!({ "kind": "files", "events": ["result.*"], "files": { "delta": true, "path": "delta", "maxRows": 10 } });
    let lines = expect(post(&api, OUTPUTS, &lines).await, 201);
    let delta = expect(post(&api, OUTPUTS, &delta).await, 201);
    let (per_round, rounds) = (35, 4);
    for round in 0..rounds {
        let api = process.client().bearer(&owner.key);
        visit(&api, &web, round * per_round..(round + 1) * per_round).await;
        tokio::time::sleep(Duration::from_millis(400 + 130 * round as u64)).await;
        process.kill();
        process = Process::start(&data, &settings);
    }
    let api = process.client().bearer(&owner.key);
    let count = per_round * rounds;
    let folder = out.join(&owner.org_id);
    eventually("all lines are there", PATIENCE, || async {
        (rows(&folder.join("shop/lines")).len() == count).then_some(())
    })
    .await;
    let expected = eventually("the console has them", PATIENCE, || async {
        let rows = console(&api, "products", "result_id, title, price").await;
        (rows.len() == count).then_some(rows)
    })
    .await;
    assert_eq!(rows(&folder.join("shop/lines")), expected);
    let log = folder.join("delta/products/_delta_log");
    eventually("the table has all rows", PATIENCE, || async {
        let is_settled = shown(&api, &delta).await["pending"] == 0;
        (is_settled && log.exists() && added(&log) >= count as u64).then_some(())
    })
    .await;
    let commits: Vec<_> = std::fs::read_dir(&log).unwrap().flatten().collect();
    assert_eq!(added(&log), count as u64);
    for made in [&lines, &delta] {
        eventually("nothing waits", PATIENCE, || async {
            (shown(&api, made).await["pending"] == 0).then_some(())
        })
        .await;
        // Sent again, a batch leaves nothing twice.
        for row in deliveries(&api, made).await.iter().take(3) {
            let path = format!("/api/v1/deliveries/{}/redeliver", text(row, "id"));
            expect(post(&api, &path, &json!({})).await, 202);
        }
        let since = json!({ "since": text(made, "createdAt") });
        expect(post(&api, &format!("{OUTPUTS}/{}/recover", text(made, "id")), &since).await, 202);
    }
    for made in [&lines, &delta] {
        eventually("what was sent again has gone", PATIENCE, || async {
            (shown(&api, made).await["pending"] == 0).then_some(())
        })
        .await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rows(&folder.join("shop/lines")), expected);
    assert_eq!(std::fs::read_dir(&log).unwrap().count(), commits.len());
    let names: BTreeSet<_> = files(&folder.join("shop/lines")).into_iter().collect();
    assert!(
        names.iter().all(|name| name.to_string_lossy().contains("/page_type=product/part-")),
        "{names:?}"
    );
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_stay_below_their_folder_and_within_their_room() {
    let web = shop().await;
    let allow = json!([format!("127.0.0.1/32:{}", web.address.port())]).to_string();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("OUTPUTS__FOLDER_MB_PER_ORG", "1")]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for (wrong, field) in [
        (json!({ "path": "../x" }), "files.path"),
        (json!({ "path": "/etc" }), "files.path"),
        (json!({ "path": "a//b" }), "files.path"),
        (json!({ "path": "a/b/c/d/e/f" }), "files.path"),
        (json!({ "path": "x".repeat(300) }), "files.path"),
        (json!({ "format": "csv", "delta": true }), "files.format"),
        (json!({ "everyMinutes": 0 }), "files.everyMinutes"),
        (json!({ "maxRows": 20_001 }), "files.maxRows"),
    ] {
        let new = json!({ "kind": "files", "events": ["result.*"], "files": wrong });
        refused(&post(&eve.api, OUTPUTS, &new).await, 400, "Validation failed", field);
    }
    let new = json!({ "kind": "files", "events": ["result.*"], "files": { "format": "csv", "maxRows": 5, "path": "all" } });
    let (of_ada, of_eve) =
        (expect(post(&ada.api, OUTPUTS, &new).await, 201), expect(post(&eve.api, OUTPUTS, &new).await, 201));
    let one = format!("{OUTPUTS}/{}", text(&of_eve, "id"));
    assert_eq!(get(&ada.api, &one).await.status, 404);
    refused(
        &patch(&eve.api, &one, &json!({ "files": { "delta": true } })).await,
        400,
        "Validation failed",
        "files.delta",
    );
    // Eve's folder is full; ada's outputs do not feel it.
    let folder = at.data_dir().join("outputs");
    std::fs::create_dir_all(folder.join(&eve.org_id)).unwrap();
    std::fs::write(folder.join(&eve.org_id).join("large"), vec![0; 2 << 20]).unwrap();
    for member in [&ada, &eve] {
        reads(&member.api, &["title", "price"]).await;
        visit(&member.api, &web, 0..10).await;
    }
    eventually("ada's files are there", PATIENCE, || async {
        (shown(&ada.api, &of_ada).await["delivered"] == 2).then_some(())
    })
    .await;
    let told = eventually("eve is told", PATIENCE, || async {
        shown(&eve.api, &of_eve).await["lastError"].as_str().map(str::to_owned)
    })
    .await;
    assert!(told.contains("outputs.folder_mb_per_org"), "{told}");
    assert_eq!((files(&folder.join(&ada.org_id)).len(), files(&folder.join(&eve.org_id)).len()), (2, 1));
    std::fs::remove_file(folder.join(&eve.org_id).join("large")).unwrap();
    eventually("eve's files are there", PATIENCE, || async {
        (shown(&eve.api, &of_eve).await["delivered"] == 2).then_some(())
    })
    .await;
    at.stop().await;
}
