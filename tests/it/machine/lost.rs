//! A store that is gone beside what is left of an earlier life is refused by name, and never a new box.

use super::{gleaner, said};
use crate::harness::process::Process;
use crate::harness::{expect, member, post};
use serde_json::json;
use std::fs;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_store_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let process = Process::start(&data, &[]);
    let owner = member(&process.client(), &process.socket(), "lost").await;
    let urls = json!({ "urls": ["https://shop.example/"] });
    expect(post(&owner.api, "/api/v1/urls", &urls).await, 200);
    assert_eq!(process.terminate(), Some(0));
    let (store, aside) = (data.join("gleaner.redb"), dir.path().join("aside.redb"));
    let refused = |what: &str, parts: &[&str]| {
        let before: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let started = gleaner(&data, &["serve"]);
        let said = said(&started);
        assert_eq!(started.status.code(), Some(1), "{what}: {said}");
        for part in parts {
            assert!(said.contains(part), "{what}: no \"{part}\" in {said}");
        }
        let after: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(before, after, "{what}: something was made or removed");
        let diagnosis = gleaner(&data, &["doctor"]);
        assert_eq!(diagnosis.status.code(), Some(1), "{what}: the doctor finds nothing wrong");
    };

    fs::rename(&store, &aside).unwrap();
    refused("missing", &["gleaner.redb is missing", "data.key", "search", "Mount the disk", "--new"]);
    fs::write(&store, "").unwrap();
    refused("empty", &["gleaner.redb is empty (0 bytes)", "data.key", "--new"]);
    assert!(said(&gleaner(&data, &["doctor"])).contains("0 bytes"));
    fs::remove_file(&store).unwrap();

    // A disk that is not mounted: its folder is empty, and the key beside it is not.
    let (mounted, bare) = (dir.path().join("mounted"), &data);
    fs::rename(&data, &mounted).unwrap();
    fs::create_dir(bare).unwrap();
    refused("not mounted", &["gleaner.redb is missing", "data.key of an earlier life of this box is there"]);
    fs::remove_dir(bare).unwrap();
    fs::rename(&mounted, &data).unwrap();

    // The key is gone too.
    fs::rename(dir.path().join("data.key"), dir.path().join("aside.key")).unwrap();
    refused("no key", &["gleaner.redb is missing", "search", "snapshots"]);
    fs::rename(dir.path().join("aside.key"), dir.path().join("data.key")).unwrap();

    // What is put back goes on as it was.
    fs::rename(&aside, &store).unwrap();
    let process = Process::start(&data, &[]);
    let found = process.client().bearer(&owner.key).get("/api/v1/urls").await.unwrap();
    assert_eq!(expect(found, 200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(process.terminate(), Some(0));

    // And who says so begins anew.
    fs::remove_file(&store).unwrap();
    let process = Process::start_with(&data, &[], &["--new"]);
    let gone = process.client().bearer(&owner.key).get("/api/v1/urls").await.unwrap();
    expect(gone, 401);
    let owner = member(&process.client(), &process.socket(), "anew").await;
    let urls = json!({ "urls": ["https://shop.example/anew"] });
    expect(post(&owner.api, "/api/v1/urls", &urls).await, 200);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_that_was_cut_off_is_gone_on_with() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    // Power was cut before the store's file had its name, or before it had a byte.
    for (file, bytes) in [("gleaner.redb.first", "torn"), ("gleaner.redb", "")] {
        fs::write(data.join(file), bytes).unwrap();
        let process = Process::start(&data, &[]);
        process.kill();
        // It had its store and was cut off before it had a key.
        fs::remove_file(dir.path().join("data.key")).unwrap_or_default();
        let blank = data.join("gleaner.redb");
        store::Store::found(&blank).unwrap();
        for folder in ["pages", "search", "snapshots", "results", "exports", "account-exports"] {
            let _ = fs::remove_dir_all(data.join(folder));
        }
        let process = Process::start(&data, &[]);
        member(&process.client(), &process.socket(), "first").await;
        assert_eq!(process.terminate(), Some(0));
        fs::remove_dir_all(&data).unwrap();
        fs::remove_file(dir.path().join("data.key")).unwrap();
        fs::create_dir(&data).unwrap();
    }
}
