//! Files that a disk has altered: wrong values are never served, what is made of the store is made anew when somebody comes
//! upon it, and the doctor names all of it.

use super::{gleaner, said};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Member, collect, eventually, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const ALL: &str = "SELECT url, domain, status, priority, created_at FROM jobs ORDER BY url, id";
const URLS: &str = "SELECT url, domain, page_type FROM urls ORDER BY url";
/// Flips in each file.
const FLIPS: usize = 3;

fn page(path: &str) -> Option<Answer> {
    let number: u32 = path.strip_prefix("/p/")?.parse().ok()?;
    Some(Answer::html(format!("<title>page {number}</title><h1>damage number {number}</h1>")))
}

/// All files under a folder; one that a box at work takes away meanwhile may be among them.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return all };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

fn flip(path: &Path, dice: &mut u64) {
    let mut bytes = fs::read(path).unwrap();
    if bytes.is_empty() {
        return;
    }
    for _ in 0..FLIPS {
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        let at = *dice as usize % bytes.len();
        bytes[at] ^= 1 << (*dice >> 40 & 7);
    }
    // Another inode: what a process has mapped stays as it was, as after a reboot it would not.
    let new = path.with_extension("flipped");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

/// Rows of a statement; none when the console asks to send it again.
async fn rows(client: &Client, sql: &str) -> Option<Value> {
    let answer = post(client, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
    assert!(matches!(answer.status.as_u16(), 200 | 202 | 409 | 503), "{}", answer.text());
    let rows = &answer.json["results"]["rows"];
    rows.is_array().then(|| rows.clone())
}

async fn filled(web: &Web, dir: &TempDir) -> (PathBuf, Process, Member) {
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__ROBOTS", "false")];
    let process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "damage").await;
    for n in 0..12 {
        let job = collect(&owner.api, &web.url(&format!("/p/{n}"))).await;
        assert_eq!(text(&job, "status"), "succeeded", "{job}");
    }
    let urls: Vec<_> = (0..150).map(|n| format!("https://shop{}.example/item/{n}", n % 7)).collect();
    expect(post(&owner.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    eventually("the console has every row", Duration::from_secs(60), || async {
        let rows =
            rows(&owner.api, "SELECT (SELECT count(*) FROM jobs) AS j, (SELECT count(*) FROM urls) AS u")
                .await?;
        (rows[0]["j"] == 12 && rows[0]["u"].as_u64()? >= 150).then_some(())
    })
    .await;
    (data, process, owner)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn altered_tables_are_never_served_and_made_anew() {
    let (web, dir) = (Web::open(page).await, TempDir::new().unwrap());
    let (data, process, owner) = filled(&web, &dir).await;
    let at_first = async |sql| eventually(sql, Duration::from_secs(60), || rows(&owner.api, sql)).await;
    let (jobs, urls) = (at_first(ALL).await, at_first(URLS).await);
    assert!(jobs.as_array().unwrap().len() == 12 && urls.as_array().unwrap().len() >= 150);
    let folder = data.join("snapshots").join(&owner.org_id);
    let agree = async |client: &Client, what: &str| {
        for (sql, expected) in [(ALL, &jobs), (URLS, &urls)] {
            let found = eventually(what, Duration::from_secs(90), || rows(client, sql)).await;
            assert_eq!(&found, expected, "{what}: other values were served");
        }
    };
    // Found by a statement of a box that runs: files that are gone, and files that are altered.
    let mut removed = 0;
    while removed == 0 {
        // The box may have put others in the place of those that were there a moment ago.
        let is_segment = |file: &&PathBuf| file.extension().is_some_and(|kind| kind == "arrow");
        removed =
            files(&folder).iter().filter(is_segment).filter(|file| fs::remove_file(file).is_ok()).count();
    }
    agree(&owner.api, "segments that are gone").await;
    assert_eq!(process.terminate(), Some(0));

    let mut dice = 0x0DD_B17_u64;
    for round in 0..8 {
        let mut kinds = Vec::new();
        for file in files(&folder) {
            // One kind of file in some rounds, all in others.
            let kind = file.extension().unwrap_or_default().to_string_lossy().into_owned();
            if round % 3 == 0 || kind == ["arrow", "bits", "json"][round % 3] {
                flip(&file, &mut dice);
                kinds.push(kind);
            }
        }
        if round == 0 {
            let diagnosis = gleaner(&data, &["doctor"]);
            assert_eq!(diagnosis.status.code(), Some(1), "{}", said(&diagnosis));
            assert!(said(&diagnosis).contains("SQL tables of organization"), "{}", said(&diagnosis));
        }
        let process = Process::start(&data, &[]);
        let client = process.client().bearer(&owner.key);
        agree(&client, &format!("round {round}, flipped: {kinds:?}")).await;
        assert_eq!(process.terminate(), Some(0));
    }
    let diagnosis = gleaner(&data, &["doctor"]);
    assert_eq!(diagnosis.status.code(), Some(0), "{}", said(&diagnosis));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_altered_index_is_made_anew_and_pages_and_exports_are_told() {
    let (web, dir) = (Web::open(page).await, TempDir::new().unwrap());
    let (data, process, owner) = filled(&web, &dir).await;
    // An export of half its length.
    let query = post(&owner.api, "/api/v1/bi/queries", &json!({ "sql": URLS, "waitMs": 10_000 })).await;
    let id = text(&expect(query, 200), "jobId").to_owned();
    let wanted = json!({ "format": "csv" });
    let path = format!("/api/v1/bi/queries/{id}/exports");
    let made = expect(post(&owner.api, &path, &wanted).await, 202);
    let export = text(&made["export"], "id").to_owned();
    let made = eventually("the export is made", Duration::from_secs(60), || async {
        let export = get(&owner.api, &format!("/api/v1/bi/exports/{export}")).await;
        (export.json["export"]["status"] == "success").then_some(export.json)
    })
    .await;
    let link = text(&made["export"], "downloadUrl").replace(&process.url, "");
    assert_eq!(process.client().get_raw(&link).await.unwrap().0, 200);
    expect(post(&owner.browser, "/api/v1/account/export", &json!({})).await, 202);
    let personal = eventually("the personal export is made", Duration::from_secs(60), || async {
        files(&data.join("account-exports"))
            .into_iter()
            .find(|file| file.extension().is_some_and(|kind| kind == "zip"))
    })
    .await;
    let file = files(&data.join("exports")).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert_ne!(process.client().get_raw(&link).await.unwrap().0, 200, "half an export was served");
    assert_eq!(process.terminate(), Some(0));
    let before = gleaner(&data, &["doctor"]);
    assert!(
        said(&before).contains("1 of personal data") && !said(&before).contains("account-exports"),
        "{}",
        said(&before)
    );
    fs::write(&personal, "").unwrap();

    let page = files(&data.join("pages")).remove(0);
    let whole = fs::read(&page).unwrap();
    let mut dice = 0x5EA_2C4_u64;
    flip(&page, &mut dice);
    for file in files(&data.join("search")) {
        if file
            .extension()
            .is_some_and(|kind| ["fast", "pos", "idx", "term"].iter().any(|known| kind == *known))
        {
            flip(&file, &mut dice);
        }
    }
    let diagnosis = gleaner(&data, &["doctor"]);
    let told = said(&diagnosis);
    assert_eq!(diagnosis.status.code(), Some(1), "{told}");
    for part in ["pages: the page of job", "search: ", "kept: ", "instead of", "account-exports"] {
        assert!(told.contains(part), "no \"{part}\" in {told}");
    }
    fs::write(&page, whole).unwrap();
    let process = Process::start(&data, &[]);
    let client = process.client().bearer(&owner.key);
    // By nothing, by a word of every title, and by a title.
    for (wanted, expected) in [("limit=5", 12), ("q=page", 12), ("q=%22page+7%22", 1)] {
        eventually("search finds every result", Duration::from_secs(90), || async {
            let found = get(&client, &format!("/api/v1/extraction/results?{wanted}")).await;
            assert!(matches!(found.status.as_u16(), 200 | 503), "{}", found.text());
            (found.status == 200 && found.json["total"] == expected).then_some(())
        })
        .await;
    }
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_altered_under_a_box_at_work_is_made_anew() {
    let (web, dir) = (Web::open(page).await, TempDir::new().unwrap());
    let (data, process, owner) = filled(&web, &dir).await;
    let total = async || {
        let found = get(&owner.api, "/api/v1/extraction/results?limit=1").await;
        assert!(matches!(found.status.as_u16(), 200 | 503), "{}", found.text());
        found.json["total"].as_u64()
    };
    eventually("every result is found", Duration::from_secs(60), || async {
        (total().await? == 12).then_some(())
    })
    .await;
    // In place, so that it is seen by the process that has the file mapped. Committing a result looks its key up there.
    let terms = files(&data.join("search"));
    for file in terms.iter().filter(|file| file.extension().is_some_and(|kind| kind == "term")) {
        let mut open = fs::OpenOptions::new().write(true).open(file).unwrap();
        let length = usize::try_from(open.metadata().unwrap().len()).unwrap();
        open.write_all(&vec![0x5A; length / 2]).unwrap();
    }
    for n in 12..15 {
        let job = collect(&owner.api, &web.url(&format!("/p/{n}"))).await;
        assert_eq!(text(&job, "status"), "succeeded", "{job}");
    }
    eventually("search finds every result again", Duration::from_secs(120), || async {
        (total().await? == 15).then_some(())
    })
    .await;
    assert_eq!(process.terminate(), Some(0));
}
