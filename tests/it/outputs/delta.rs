//! What others read of files: deltalake, DuckDB, pandas and Spark see the console's rows; a table stays readable without its old
//! commits, and is written to after others have made a checkpoint of it.

use super::files::added;
use super::postgres::{PATIENCE, console, reads, shop, visit};
use super::{OUTPUTS, from_pypi, shown};
use crate::harness::web::Web;
use crate::harness::{Appliance, eventually, expect, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::path::Path;
use std::process::Command;

const READERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/outputs/readers.py");
/// Where packages may lie already that are too large to be fetched for a test (`pip install --target`).
const PACKAGES: &str = "GLEANER_READERS";

/// What a library reads of a folder; none, and a message, where it is absent.
fn read(packages: &Path, what: &str, folder: &Path) -> Option<Vec<String>> {
    let mut python = Command::new("python3");
    python.arg(READERS).arg(what).arg(folder).env("PYTHONPATH", packages);
    let said = python.output().unwrap();
    let told = String::from_utf8_lossy(&said.stderr);
    if said.status.code() == Some(3) {
        println!("skipped: {what}: {}", told.lines().last().unwrap_or_default());
        return None;
    }
    assert!(said.status.success(), "{what}: {told}");
    println!("read with {what}");
    Some(String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect())
}

/// Waits until an output has delivered so many rows, five a batch.
async fn all_out(api: &Client, made: &Value, count: usize) {
    eventually("all rows are out", PATIENCE, || async {
        let view = shown(api, made).await;
        (view["pending"] == 0 && view["delivered"] == count / 5).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_read_is_what_the_console_has() {
    const COUNT: usize = 130;
    let web = shop().await;
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    let at = Appliance::start_with(&settings).await;
    let ada = at.member("ada").await;
    reads(&ada.api, &["title", "price"]).await;
    let files = |format: &str, is_delta: bool| {
        let files = json!({ "format": format, "delta": is_delta, "path": format, "maxRows": 5 });
        json!({ "kind": "files", "events": ["result.*"], "pageTypes": ["product"], "files": files })
    };
    let delta = expect(post(&ada.api, OUTPUTS, &files("parquet", true)).await, 201);
    let lines = expect(post(&ada.api, OUTPUTS, &files("jsonl", false)).await, 201);
    let csv = expect(post(&ada.api, OUTPUTS, &files("csv", false)).await, 201);
    visit(&ada.api, &web, 0..COUNT / 2).await;
    let folder = at.data_dir().join("outputs").join(&ada.org_id);
    let (table, log) = (folder.join("parquet/products"), folder.join("parquet/products/_delta_log"));
    all_out(&ada.api, &delta, COUNT / 2).await;
    // A column that comes later, as a rule that is made later brings it.
    reads(&ada.api, &["title", "price", "maker"]).await;
    visit(&ada.api, &web, COUNT / 2..COUNT).await;
    all_out(&ada.api, &delta, COUNT).await;
    all_out(&ada.api, &csv, COUNT).await;
    all_out(&ada.api, &lines, COUNT).await;
    assert_eq!(added(&log), COUNT as u64);
    let expected = eventually("the console has them", PATIENCE, || async {
        let rows = console(&ada.api, "products", "result_id, title, price").await;
        (rows.len() == COUNT).then_some(rows)
    })
    .await;
    let last: Value = serde_json::from_slice(&std::fs::read(log.join("_last_checkpoint")).unwrap()).unwrap();
    assert_eq!(last["version"], 20, "26 commits: {last}");
    // A file's add each, the terms and the protocol.
    assert_eq!(last["size"], 21 + 2, "{last}");

    let (own, given);
    let packages = match std::env::var_os(PACKAGES) {
        Some(path) => {
            given = path;
            Path::new(&given)
        }
        None => {
            let Some(fetched) = from_pypi(&["deltalake==1.6.6", "pyarrow", "pandas", "duckdb"]) else {
                return;
            };
            own = fetched;
            own.path()
        }
    };
    for (what, folder) in [
        ("deltalake", &table),
        ("duckdb-delta", &table),
        ("duckdb-parquet", &table),
        ("pandas-parquet", &table),
        ("spark-parquet", &table),
        ("pandas-jsonl", &folder.join("jsonl")),
        ("spark-json", &folder.join("jsonl")),
        ("pandas-csv", &folder.join("csv")),
        ("spark-csv", &folder.join("csv")),
    ] {
        let Some(rows) = read(packages, what, folder) else { continue };
        assert_eq!(rows, expected, "{what}");
    }
    tidied(&ada.api, (&web, &delta), packages, &table, COUNT).await;
    assert_eq!(text(&shown(&ada.api, &delta).await, "state"), "ok");
    at.stop().await;
}

/// Without the commits that a checkpoint stands for, as who tidies a table leaves it, it is read and written to; first with the box's
/// own checkpoint, then with one that another program has made.
async fn tidied(api: &Client, (web, made): (&Web, &Value), packages: &Path, table: &Path, mut count: usize) {
    let (log, mut checkpoint) = (table.join("_delta_log"), 20_u64);
    for _ in 0..2 {
        for number in 0..=checkpoint {
            // Those of the first round are gone in the second.
            let _ = std::fs::remove_file(log.join(format!("{number:020}.json")));
        }
        if let Some(rows) = read(packages, "deltalake", table) {
            assert_eq!(rows.len(), count);
        }
        visit(api, web, count..count + 10).await;
        count += 10;
        all_out(api, made, count).await;
        if let Some(rows) = read(packages, "deltalake", table) {
            assert_eq!(rows.len(), count);
        }
        let Some(said) = read(packages, "deltalake-checkpoint", table) else { return };
        checkpoint = said[0].parse().unwrap();
    }
}
