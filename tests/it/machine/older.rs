//! A data folder that an older release has written: it opens, shows everything that was in it, and takes more; and again.
//!
//! The folders are in `tests/data/boxes`, each written by the binary of its day and named by it. A change of what is stored
//! adds one, written by the release before; none is ever changed. One of this release is written by
//! `GLEANER_NEW_BOX=$PWD/tests/data/boxes/DAY.zip cargo test -p gleaner --test it -- older::a_folder_of_this_release`.

use super::{gleaner, said};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{PASSWORD, ended, eventually, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

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
        open(&archive).await;
    }
}

/// Opens a box twice, with everything that is in it.
async fn open(archive: &Path) {
    println!("{}", archive.display());
    let root = unpack(archive);
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
    // Archives hold no modes: the first start takes from others what they may do, on a thread of its own.
    let diagnosis = gleaner(&data, &["doctor"]);
    assert_eq!(diagnosis.status.code(), Some(0), "{}", said(&diagnosis));
}

const URLS: usize = 30;
const JOBS: usize = 6;

fn page(path: &str) -> Option<Answer> {
    let number: u32 = path.strip_prefix("/p/")?.parse().ok()?;
    let text = format!("<h1>Fixture number {number}</h1><p>A page of an older box.</p>");
    Some(Answer::html(format!("<html lang=\"en\"><title>fixture {number}</title>{text}")))
}

/// A box with a bit of everything, off; what there is to know of it is in `box.json`.
async fn fill(root: &Path) {
    let (web, data) = (Web::open(page).await, root.join("data"));
    let allow = web.allow();
    let process = Process::start(&data, &[("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__ROBOTS", "false")]);
    let owner = member(&process.client(), &process.socket(), "older").await;
    let key = expect(post(&owner.browser, "/api/v1/api-keys", &json!({ "name": "fixture" })).await, 201);
    for n in 0..JOBS {
        let new = json!({ "url": web.url(&format!("/p/{n}")), "externalId": format!("older-{n}") });
        let job = expect(post(&owner.api, "/api/v1/jobs", &new).await, 201);
        ended(&owner.api, text(&job, "id")).await;
    }
    let urls: Vec<_> = (0..URLS).map(|n| format!("https://shop{}.example/{n}", n % 4)).collect();
    expect(post(&owner.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    let asked = json!({ "sql": "SELECT url FROM urls ORDER BY url", "waitMs": 10_000 });
    let query = expect(post(&owner.api, "/api/v1/bi/queries", &asked).await, 200);
    let path = format!("/api/v1/bi/queries/{}/exports", text(&query, "jobId"));
    expect(post(&owner.api, &path, &json!({ "format": "csv" })).await, 202);
    expect(post(&owner.browser, "/api/v1/account/export", &json!({})).await, 202);
    expect(
        post(&owner.api, "/api/v1/workflows/smart", &json!({ "route": "*", "strategy": "latency" })).await,
        201,
    );
    let files_in = |folder: &str| fs::read_dir(data.join(folder)).map_or(0, Iterator::count);
    eventually("exports are made and everything is found", Duration::from_secs(120), || async {
        let found = get(&owner.api, "/api/v1/extraction/results?q=fixture").await;
        (files_in("account-exports") > 0 && files_in("exports") > 0 && found.json["total"] == JOBS)
            .then_some(())
    })
    .await;
    let told = json!({
        "key": key["secret"], "email": owner.email, "password": PASSWORD, "page": web.url("/p/"),
        "urls": URLS, "jobs": JOBS, "results": JOBS,
    });
    assert_eq!(process.terminate(), Some(0));
    fs::write(root.join("box.json"), serde_json::to_vec_pretty(&told).unwrap()).unwrap();
}

/// Puts a folder with its key into an archive.
fn pack(root: &Path, archive: &Path) {
    fn walk(zip: &mut ZipWriter<File>, root: &Path, folder: &Path) {
        let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                zip.add_directory(name, SimpleFileOptions::default()).unwrap();
                walk(zip, root, &path);
            } else if path.is_file() {
                zip.start_file(name, SimpleFileOptions::default()).unwrap();
                zip.write_all(&fs::read(path).unwrap()).unwrap();
            }
        }
    }
    let mut zip = ZipWriter::new(File::create_new(archive).unwrap());
    walk(&mut zip, root, root);
    zip.finish().unwrap();
}

/// What this release writes opens like what earlier ones have written. With `GLEANER_NEW_BOX` the folder is kept there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_this_release_is_packed_and_opened() {
    let (root, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fill(root.path()).await;
    let archive = match std::env::var_os("GLEANER_NEW_BOX") {
        Some(path) => PathBuf::from(path),
        None => place.path().join("box.zip"),
    };
    pack(root.path(), &archive);
    drop(root);
    open(&archive).await;
}
