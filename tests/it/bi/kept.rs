//! What the disk holds of ended statements: the bounds of an organization and of the box, and a disk that is short.

use super::{QUERIES, refused, register, submit};
use crate::harness::Request;
use crate::harness::{Appliance, Member, eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::task::Signals;
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);
/// Some 350 KB of rows from the 450 URLs that are registered.
const LARGE: &str = "SELECT repeat(url, 28) AS text FROM urls";
const RESULTS_MIB: u64 = 1;

/// Runs the statement that gives much; its id.
async fn run(member: &Member) -> String {
    let execution = expect(submit(&member.api, LARGE).await, 200);
    assert_eq!(execution["status"], "success", "{execution}");
    text(&execution, "jobId").to_owned()
}

async fn page(member: &Member, id: &str) -> server::client::Reply {
    get(&member.api, &format!("{QUERIES}/{id}/results?pageSize=1")).await
}

/// Which of `ids` still have rows.
async fn kept(member: &Member, ids: &[String]) -> Vec<bool> {
    let mut kept = Vec::new();
    for id in ids {
        kept.push(page(member, id).await.status == 200);
    }
    kept
}

fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

async fn with_urls(appliance: &Appliance, name: &str) -> Member {
    let member = appliance.member(name).await;
    register(&member.api, 450).await;
    member
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_results_make_room_for_new_ones() {
    let bounds = [("BI__MAX_MB", "1"), ("BI__RESULTS_ORG_MB", "1"), ("BI__RESULTS_BOX_MB", "2")];
    let mut appliance = Appliance::start_with(&bounds).await;
    let mut first = with_urls(&appliance, "first").await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(run(&first).await);
    }
    assert_eq!(kept(&first, &ids).await, [true, true]);
    // What was there before the restart counts.
    appliance.restart().await;
    first.api = appliance.client().bearer(&first.key);
    for _ in 0..2 {
        ids.push(run(&first).await);
    }
    let now = kept(&first, &ids).await;
    assert!(!now[0] && now[3], "the oldest goes, the newest stays: {now:?}");
    let folder = appliance.data_dir().join("results").join(&first.org_id);
    assert!(bytes_in(&folder) <= RESULTS_MIB << 20, "{}", bytes_in(&folder));

    let gone = page(&first, &ids[0]).await;
    refused(&first.api, &gone, 409, "transient", "submit it again").await;
    assert!(gone.json.get("status").is_none(), "only not_ready says where a query stands");
    let wanted = json!({ "format": "csv" });
    let export = post(&first.api, &format!("{QUERIES}/{}/exports", ids[0]), &wanted).await;
    refused(&first.api, &export, 409, "transient", "submit it again").await;
    let manifest = |id: &str| {
        let (client, path) = (first.api.clone(), format!("{QUERIES}/{id}/result-manifest"));
        async move { expect(get(&client, &path).await, 200)["manifest"].clone() }
    };
    let (old, new) = (manifest(&ids[0]).await, manifest(&ids[3]).await);
    assert_eq!(
        (&old["status"], &old["rowCount"], &old["expiresAt"]),
        (&json!("success"), &json!(450), &Value::Null)
    );
    assert!(new["expiresAt"].is_string(), "{new}");
    let status = appliance.operator(Request::Status).await;
    let bytes = status["sql"]["keptBytes"].as_u64().expect("a number");
    assert!((1..=RESULTS_MIB << 20).contains(&bytes), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exports_count_and_go_like_results() {
    let bounds = [("BI__MAX_MB", "1"), ("BI__RESULTS_ORG_MB", "1"), ("BI__RESULTS_BOX_MB", "1")];
    let appliance = Appliance::start_with(&bounds).await;
    let first = with_urls(&appliance, "exporter").await;
    let id = run(&first).await;
    let export = post(&first.api, &format!("{QUERIES}/{id}/exports"), &json!({ "format": "csv" })).await;
    let path = format!("/api/v1/bi/exports/{}", text(&expect(export, 202)["export"], "id"));
    eventually("the export is made", WAIT, || async {
        let export = expect(get(&first.api, &path).await, 200);
        (export["export"]["status"] == "success").then_some(())
    })
    .await;
    // One more fits beside the two; the next one takes the first result's place, and the one after that the export's.
    let mut ids = vec![id];
    for _ in 0..3 {
        ids.push(run(&first).await);
    }
    assert_eq!(get(&first.api, &path).await.status, 404, "it is gone as if it had expired");
    let now = kept(&first, &ids).await;
    assert!(!now[0] && now[3], "{now:?}");
    let export =
        post(&first.api, &format!("{QUERIES}/{}/exports", ids[3]), &json!({ "format": "csv" })).await;
    expect(export, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_most_makes_room_for_the_box() {
    let bounds = [("BI__MAX_MB", "1"), ("BI__RESULTS_ORG_MB", "2"), ("BI__RESULTS_BOX_MB", "2")];
    let appliance = Appliance::start_with(&bounds).await;
    let (large, small) = (with_urls(&appliance, "large").await, with_urls(&appliance, "small").await);
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(run(&large).await);
    }
    assert_eq!(kept(&large, &ids).await, [true; 5]);
    let own = [run(&small).await, run(&small).await];
    let now = kept(&large, &ids).await;
    assert!(!now[0] && now[4], "{now:?}");
    assert_eq!(kept(&small, &own).await, [true, true], "nobody else pays for it");
}

/// Results and spilled runs stop before the disk's reserve is touched; whatever needs little goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_short_ends_what_takes_much_of_it_and_nothing_else() {
    let here = tempfile::TempDir::new().expect("a folder");
    let free_mib = disk::free_bytes(here.path()).expect("the disk is there") >> 20;
    // Four fifths of what is free: the store may write, statements would have to leave one and a half times as much.
    let reserve = (free_mib / 5 * 4).to_string();
    let appliance = Appliance::start_with(&[("STORAGE__RESERVE_MB", &reserve)]).await;
    let member = with_urls(&appliance, "short").await;
    let execution = expect(submit(&member.api, LARGE).await, 200);
    assert_eq!(execution["status"], "failed", "{execution}");
    let error = &execution["error"];
    assert_eq!((&error["code"], &error["retriable"]), (&json!("transient"), &json!(true)), "{execution}");
    assert!(text(error, "message").contains("disk space"), "{execution}");
    let few = expect(submit(&member.api, "SELECT url FROM urls ORDER BY url LIMIT 10").await, 200);
    assert_eq!(few["results"]["totalRows"], 10, "what takes a few blocks has its rows");
    let more = json!({ "urls": ["https://shop.example/more"] });
    expect(post(&member.api, "/api/v1/urls", &more).await, 200);
    let path = format!("{QUERIES}/{}/results", text(&execution, "jobId"));
    let none = get(&member.api, &path).await;
    refused(&member.api, &none, 409, "not_ready", "failed").await;
    assert_eq!(none.json["status"], "failed");
}

/// One file that cannot be removed keeps its own row and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_removed_does_not_stop_the_tidying() {
    let appliance = Appliance::start().await;
    let member = appliance.member("stuck").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let execution = expect(submit(&member.api, "SELECT 1 AS one").await, 200);
        ids.push(text(&execution, "jobId").to_owned());
    }
    let folder = appliance.data_dir().join("results").join(&member.org_id);
    let stuck = folder.join(format!("{}.arrow", ids[1]));
    std::fs::remove_file(&stuck).expect("removed");
    std::fs::create_dir(&stuck).expect("a folder in its place");
    appliance.clock.advance(Duration::from_secs(8 * 86_400));
    let api = {
        // The key does not age, the session does.
        appliance.client().bearer(&member.key)
    };
    appliance.app().services().service::<Signals>().wake("bi.tidy");
    for (id, status) in [(&ids[0], 404), (&ids[2], 404), (&ids[1], 200)] {
        let path = format!("{QUERIES}/{id}");
        eventually("the others are gone", WAIT, || async {
            (get(&api, &path).await.status == status).then_some(())
        })
        .await;
    }
}
