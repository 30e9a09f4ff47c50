//! A data folder that an older release has written: it opens, shows everything that was in it, and takes more; and again.
//!
//! The folders are in `tests/data/boxes`, each written by the binary of its day and named by it. A change of what is stored
//! adds one, written by the release before; none is ever changed.

use super::{gleaner, said};
use crate::harness::process::Process;
use crate::harness::{eventually, expect, get, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use zip::ZipArchive;

fn boxes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("tests/data/boxes");
    let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

/// Lays the folder out as its box left it.
fn unpack(archive: &Path) -> TempDir {
    let root = TempDir::new().unwrap();
    ZipArchive::new(File::open(archive).unwrap()).unwrap().extract(root.path()).unwrap();
    let owned = fs::Permissions::from_mode(0o600);
    fs::set_permissions(root.path().join("data.key"), owned).unwrap();
    root
}

/// The items of a list, newest first.
async fn items(client: &Client, list: &str) -> Vec<Value> {
    let page = expect(get(client, &format!("/api/v1/{list}?limit=200")).await, 200);
    page["items"].as_array().unwrap().clone()
}

/// Looks at everything and adds a URL; `start` counts from 0.
async fn look(process: &Process, told: &Value, start: usize) {
    let login = json!({ "email": told["email"], "password": told["password"] });
    let login = expect(post(&process.client(), "/api/v1/auth/login", &login).await, 200);
    let (browser, api) =
        (process.client().bearer(text(&login, "accessToken")), process.client().bearer(text(told, "key")));
    let number = |name: &str| told[name].as_u64().unwrap();
    assert_eq!(items(&api, "urls").await.len() as u64, number("urls") + start as u64);
    let jobs = items(&api, "jobs").await;
    assert_eq!(jobs.len() as u64, number("jobs"));
    for job in &jobs {
        assert_eq!(text(job, "status"), "succeeded");
        expect(get(&api, &format!("/api/v1/extraction/results/by-id/{}", text(job, "resultId"))).await, 200);
    }
    assert_eq!(text(&items(&browser, "api-keys").await[0], "name"), "fixture");
    assert!(items(&api, "plans/transactions").await.len() as u64 >= 2 * number("jobs"));
    for list in ["bi/queries", "providers", "workflows", "audit-logs"] {
        items(&browser, list).await;
    }
    // What came before there was an index of domains stands in it.
    let title = json!({ "name": "title", "xpaths": ["//title"], "type": "text" });
    let tried = json!({ "domain": jobs[0]["domain"], "pageType": "article", "attributes": [title] });
    let tried = expect(post(&api, "/api/v1/extraction/test-xpath", &tried).await, 200);
    assert!(text(&tried["values"], "title").starts_with("fixture "), "{tried}");
    assert!(jobs.iter().any(|job| job["id"] == tried["jobId"]), "{tried}");
    // The same request as then is answered with the job of then.
    let again = json!({ "url": format!("{}0", text(told, "page")), "externalId": "older-0" });
    let again = expect(post(&api, "/api/v1/jobs", &again).await, 200);
    assert!(jobs.iter().any(|job| job["id"] == again["id"]), "{again}");
    let url = format!("https://new.example/{start}");
    expect(post(&api, "/api/v1/urls", &json!({ "urls": [url] })).await, 200);
    let expected: Vec<_> =
        (0..number("results")).map(|n| json!({ "title": format!("fixture {n}") })).collect();
    eventually("search and SQL have everything", Duration::from_secs(120), || async {
        let found = get(&api, "/api/v1/extraction/results?q=fixture").await;
        let sql = json!({ "sql": "SELECT title FROM readings ORDER BY url", "waitMs": 10_000 });
        let rows = post(&api, "/api/v1/bi/queries", &sql).await.json["results"]["rows"].clone();
        let counted = json!({ "sql": "SELECT count(*) AS n FROM urls", "waitMs": 10_000 });
        let urls =
            post(&api, "/api/v1/bi/queries", &counted).await.json["results"]["rows"][0]["n"].as_u64()?;
        (found.json["total"] == number("results")
            && rows == json!(expected)
            && urls == number("urls") + start as u64 + 1)
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_older_releases_is_opened_and_kept() {
    for archive in boxes() {
        println!("{}", archive.display());
        let root = unpack(&archive);
        let told: Value = serde_json::from_slice(&fs::read(root.path().join("box.json")).unwrap()).unwrap();
        let data = root.path().join("data");
        // Where its pages were; nobody is there any more.
        let place = text(&told, "page").trim_start_matches("http://").trim_end_matches("/p/");
        let allow = format!("[\"{}\"]", place.replace(':', "/32:"));
        for start in 0..2 {
            let process = Process::start(&data, &[("NETWORK__ALLOW", allow.as_str())]);
            look(&process, &told, start).await;
            assert_eq!(process.terminate(), Some(0));
        }
        let diagnosis = gleaner(&data, &["doctor"]);
        assert_eq!(diagnosis.status.code(), Some(0), "{}", said(&diagnosis));
    }
}
