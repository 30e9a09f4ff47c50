//! What a box does not do for the SQL console: exports beyond the caps, more of them than may wait, and statements that
//! nothing would hold in.

use super::exports::{ask, download_path, made};
use super::{QUERIES, refused, register, submit};
use crate::harness::Request;
use crate::harness::process::Process;
use crate::harness::{Appliance, binary, eventually, expect, get, member, post, text};
use gleaner::admin;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;
use tempfile::TempDir;

const WAIT: Duration = Duration::from_secs(60);
const FORMATS: [&str; 5] = ["xlsx", "csv", "jsonl", "parquet", "arrow"];

async fn export(client: &Client, id: &str) -> Value {
    expect(get(client, &format!("/api/v1/bi/exports/{id}")).await, 200)["export"].clone()
}

/// Columns take little room where text takes much: a result below the cap has exports beyond theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_beyond_the_byte_cap_is_the_requests_fault() {
    let bounds = [("BI__MAX_MB", "1"), ("BI__RESULTS_ORG_MB", "1"), ("BI__RESULTS_BOX_MB", "2")];
    let appliance = Appliance::start_with(&bounds).await;
    let client = appliance.member("large").await.api;
    register(&client, 450).await;
    // 202,500 rows: as text 8 bytes each at least as JSON, 6 as CSV, of which 2 can be known beforehand.
    let execution = expect(submit(&client, "SELECT true AS x FROM urls a CROSS JOIN urls b").await, 200);
    assert_eq!(execution["results"]["totalRows"], 202_500, "{execution}");
    let query = text(&execution, "jobId");
    let early = ask(&client, query, "jsonl").await;
    refused(&client, &early, 400, "invalid_sql", "byte cap of exports (1048576 bytes)").await;

    let asked = expect(ask(&client, query, "csv").await, 202);
    let id = text(&asked["export"], "id");
    let failed = eventually("the export has failed", WAIT, || async {
        let export = export(&client, id).await;
        assert_ne!(export["status"], "success", "{export}");
        (export["status"] == "failed").then_some(export)
    })
    .await;
    let error = &failed["error"];
    assert_eq!((&error["code"], &error["retriable"]), (&json!("invalid_sql"), &json!(false)), "{failed}");
    assert!(text(error, "message").contains("byte cap of exports (1048576 bytes)"), "{failed}");
    assert_eq!((&failed["byteSize"], &failed["downloadUrl"]), (&json!(null), &json!(null)));
    // It would be too large again, and that is known now.
    let again = ask(&client, query, "csv").await;
    refused(&client, &again, 400, "invalid_sql", "byte cap of exports (1048576 bytes)").await;
    // A denser format is the way out that the message names.
    assert!(made(&client, query, "parquet").await["byteSize"].as_u64().unwrap() < 1 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_whose_file_is_lost_is_made_anew() {
    let appliance = Appliance::start().await;
    let member = appliance.member("lost").await;
    let client = &member.api;
    let execution = expect(submit(client, "SELECT 1 AS one").await, 200);
    let query = text(&execution, "jobId");
    let folder = appliance.data_dir().join("exports").join(&member.org_id);
    for damage in [None, Some("")] {
        let first = made(client, query, "csv").await;
        assert_eq!(made(client, query, "csv").await["id"], first["id"], "while it is there it is given");
        let file = folder.join(format!("{}.csv", text(&first, "id")));
        match damage {
            None => std::fs::remove_file(&file).unwrap(),
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
        }
        let second = made(client, query, "csv").await;
        assert_ne!(second["id"], first["id"]);
        assert_eq!(get(client, &download_path(&second)).await.text(), "one\r\n1\r\n");
        let old = get(client, &format!("/api/v1/bi/exports/{}", text(&first, "id"))).await;
        refused(client, &old, 404, "not_found", "Export").await;
    }
}

/// While one export is being made, those that were asked for later wait: eight of an organization may be open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ninth_export_at_once_is_refused() {
    let appliance = Appliance::start().await;
    let client = appliance.member("many").await.api;
    let other = appliance.member("neighbour").await.api;
    // A spreadsheet of ten million cells: the first export goes on for much longer than the requests below take, and is
    // given up when the appliance drains.
    let columns: Vec<_> = (0..10).map(|n| format!("n + {n} AS c{n}")).collect();
    let large = format!("SELECT {} FROM unnest(range(0, 1000000)) AS t(n)", columns.join(", "));
    let body = json!({ "sql": large, "waitMs": 0 });
    let large = expect(post(&client, QUERIES, &body).await, 202);
    let large = text(&large, "jobId").to_owned();
    eventually("the rows are there", WAIT, || async {
        let execution = expect(get(&client, &format!("{QUERIES}/{large}")).await, 200);
        (execution["status"] == "success").then_some(())
    })
    .await;
    let small = expect(submit(&client, "SELECT 1 AS one").await, 200);
    let small = text(&small, "jobId");
    let theirs = expect(submit(&other, "SELECT 1 AS one").await, 200);
    let first = expect(ask(&client, &large, "xlsx").await, 202);
    let first = text(&first["export"], "id").to_owned();
    eventually("it is being made", WAIT, || async {
        (export(&client, &first).await["status"] == "running").then_some(())
    })
    .await;
    let rest = FORMATS[1..].iter().map(|format| (large.as_str(), *format));
    let open: Vec<_> = rest.chain(FORMATS[..3].iter().map(|format| (small, *format))).collect();
    assert_eq!(open.len(), 7);
    for (query, format) in open {
        let asked = expect(ask(&client, query, format).await, 202);
        assert_eq!(asked["export"]["status"], "queued", "{asked}");
        // One that is open already is given, and counts once.
        let again = expect(ask(&client, query, format).await, 202);
        assert_eq!(again["export"]["id"], asked["export"]["id"]);
    }
    let ninth = ask(&client, small, "parquet").await;
    refused(&client, &ninth, 429, "too_many_queries", "8 exports of this organization").await;
    assert_eq!(ninth.header("retry-after"), "");
    let again = expect(ask(&client, &large, "csv").await, 202);
    assert_eq!(again["export"]["status"], "queued", "one that is open is given also then");
    expect(ask(&other, text(&theirs, "jobId"), "csv").await, 202);
}

/// A filter that leaves a process and all it starts without Landlock, as an older kernel does.
fn no_landlock() -> BpfProgram {
    const CALLS: [libc::c_long; 3] =
        [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    let rules = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let arch = std::env::consts::ARCH.try_into().expect("a known processor");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, arch).expect("a filter");
    filter.try_into().expect("a program")
}

/// Starts the binary as if the kernel had no Landlock: the filter is one thread's, and goes on to what it starts.
fn start_unheld(data: &std::path::Path, settings: &[(&str, &str)]) -> Process {
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            seccompiler::apply_filter(&no_landlock()).expect("the kernel has filters");
            Process::start_binary(&binary(), data, settings)
        });
        starter.join().expect("it starts")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_insists_on_isolation_runs_nothing_without() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let process = start_unheld(&data, &[]);
    let person = member(&process.client(), &process.socket(), "unheld").await;
    let status = admin::call(&process.socket(), &Request::Status).await.expect("a status");
    assert_eq!(status["sql"]["sandbox"]["landlock"], "not_at_all", "{status}");
    let execution = expect(submit(&person.api, "SELECT 1 AS one").await, 200);
    assert_eq!(execution["status"], "success", "unless it insists, it runs them");
    let saved = json!({ "name": "one", "sql": "SELECT 1 AS one" });
    let saved = expect(post(&person.api, "/api/v1/bi/saved-queries", &saved).await, 201);
    assert_eq!(process.terminate(), Some(0));

    let process = start_unheld(&data, &[("BI__REQUIRE_SANDBOX", "true")]);
    let client = process.client().bearer(&person.key);
    let run = format!("/api/v1/bi/saved-queries/{}/run", text(&saved, "id"));
    for reply in [
        submit(&client, "SELECT 1 AS one").await,
        post(&client, QUERIES, &json!({ "sql": "SELECT 1", "dryRun": true })).await,
        post(&client, &run, &json!({})).await,
    ] {
        refused(&client, &reply, 403, "kill_switched", "cannot isolate").await;
    }
    let listed = expect(get(&client, QUERIES).await, 200);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "what is refused was never submitted");
    let page = format!("{QUERIES}/{}/results", text(&execution, "jobId"));
    assert_eq!(expect(get(&client, &page).await, 200)["rows"], json!([{ "one": 1 }]), "what was made stays");
    let table = expect(get(&client, "/api/v1/bi/tables/urls").await, 200);
    assert_eq!(table["rowCount"], 0);
    assert_eq!(process.terminate(), Some(0));
}
