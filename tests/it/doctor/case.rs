//! A box with a bit of everything, copies of it that are damaged, and what each of them answers.

use super::{gleaner, said};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Member, collect, eventually, expect, get, member, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// What damages a box, or one file of it.
pub type Harm = fn(&Case);
pub type HarmToFile = fn(&Path);
/// A file of a box.
pub type Place = fn(&Case) -> PathBuf;
/// Parts of a finding.
pub type Words<'a> = &'a [&'a str];

pub const JOBS: usize = 8;
const SQL: [&str; 2] = [
    "SELECT url, domain, status, priority FROM jobs ORDER BY url, id",
    "SELECT url, domain, page_type FROM urls ORDER BY url",
];
const PATIENCE: Duration = Duration::from_secs(90);

fn page(path: &str) -> Option<Answer> {
    let number: u32 = path.strip_prefix("/p/")?.parse().ok()?;
    Some(Answer::html(format!("<title>page {number}</title><h1>number {number}</h1><p>some text of it</p>")))
}

/// All files under a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return all };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// The first file under a folder whose name ends so.
pub fn one(folder: &Path, end: &str) -> PathBuf {
    let found = files(folder).into_iter().find(|file| file.to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} in {}", folder.display()))
}

/// Flips a bit in the middle of a file.
pub fn flip(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    fs::write(file, bytes).unwrap();
}

/// Cuts a file to half its length.
pub fn cut(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

/// What a box answers to one question; none where it does not, or asks to come again.
type Answers = BTreeMap<String, Option<String>>;

/// A box that was filled and is off.
pub struct Sound {
    dir: TempDir,
    pub owner: Member,
    export: String,
    query: String,
    results: Vec<String>,
    answers: Answers,
}

/// A copy of it.
pub struct Case {
    dir: TempDir,
    pub data: PathBuf,
    pub org: String,
}

impl Sound {
    pub async fn fill() -> Sound {
        let (web, dir) = (Web::open(page).await, TempDir::new().unwrap());
        let data = dir.path().join("data");
        let allow = web.allow();
        let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__ROBOTS", "false")];
        let process = Process::start(&data, &settings);
        let owner = member(&process.client(), &process.socket(), "sound").await;
        let mut results = Vec::new();
        for n in 0..JOBS {
            let job = collect(&owner.api, &web.url(&format!("/p/{n}"))).await;
            assert_eq!(text(&job, "status"), "succeeded", "{job}");
            results.push(text(&job, "resultId").to_owned());
        }
        let urls: Vec<_> = (0..60).map(|n| format!("https://shop{}.example/item/{n}", n % 7)).collect();
        expect(post(&owner.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
        eventually("the console has every row", PATIENCE, || async {
            let asked = json!({ "sql": "SELECT count(*) AS n FROM urls", "waitMs": 10_000 });
            let answer = post(&owner.api, "/api/v1/bi/queries", &asked).await;
            (answer.json["results"]["rows"][0]["n"].as_u64()? >= 60).then_some(())
        })
        .await;
        let asked = json!({ "sql": SQL[1], "waitMs": 10_000 });
        let query =
            text(&expect(post(&owner.api, "/api/v1/bi/queries", &asked).await, 200), "jobId").to_owned();
        let path = format!("/api/v1/bi/queries/{query}/exports");
        let made = expect(post(&owner.api, &path, &json!({ "format": "csv" })).await, 202);
        let export = text(&made["export"], "id").to_owned();
        eventually("the export is made", PATIENCE, || async {
            let export = get(&owner.api, &format!("/api/v1/bi/exports/{export}")).await;
            (export.json["export"]["status"] == "success").then_some(())
        })
        .await;
        expect(post(&owner.browser, "/api/v1/account/export", &json!({})).await, 202);
        eventually("the personal export is made", PATIENCE, || async {
            files(&data.join("account-exports"))
                .into_iter()
                .find(|file| file.extension().is_some_and(|e| e == "zip"))
        })
        .await;
        eventually("every result is found", PATIENCE, || async {
            let found = get(&owner.api, "/api/v1/extraction/results?limit=1").await;
            (found.json["total"] == JOBS).then_some(())
        })
        .await;
        let mut sound = Sound { dir, owner, export, query, results, answers: Answers::new() };
        sound.answers = sound.ask(&process.client().bearer(&sound.owner.key)).await;
        assert!(sound.answers.values().all(Option::is_some), "{:?}", sound.answers);
        assert_eq!(process.terminate(), Some(0));
        let looked = gleaner(&sound.dir.path().join("data"), &["doctor"], &[]);
        assert_eq!(looked.status.code(), Some(0), "{}", said(&looked));
        sound
    }

    /// A copy with the same key.
    pub fn copy(&self) -> Case {
        self.copy_into(TempDir::new().unwrap())
    }

    pub fn copy_into(&self, dir: TempDir) -> Case {
        for name in ["data", "data.key"] {
            let copied =
                Command::new("cp").arg("-a").arg(self.dir.path().join(name)).arg(dir.path()).status();
            assert!(copied.unwrap().success());
        }
        Case { data: dir.path().join("data"), dir, org: self.owner.org_id.clone() }
    }

    /// Everything that a user of the box could ask.
    async fn ask(&self, client: &Client) -> Answers {
        let mut answers = Answers::new();
        let ok = |status: u16, body: String| (status == 200).then_some(body);
        for list in ["jobs?limit=100", "urls?limit=100", "extraction/results?q=page&limit=50"] {
            let answer = get(client, &format!("/api/v1/{list}")).await;
            let mut ids: Vec<_> = answer.json["items"]
                .as_array()
                .map(|items| {
                    items.iter().map(|item| item["id"].to_string() + &item["url"].to_string()).collect()
                })
                .unwrap_or_default();
            ids.sort();
            answers.insert(list.to_owned(), ok(answer.status.as_u16(), ids.join(" ")));
        }
        for sql in SQL {
            let answer = post(client, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
            let rows = &answer.json["results"]["rows"];
            answers.insert(sql.to_owned(), rows.is_array().then(|| rows.to_string()));
        }
        for result in &self.results {
            let path = format!("/api/v1/extraction/results/by-id/{result}/html");
            let answer = get(client, &path).await;
            // The link in it is made anew each time: what it leads to is what counts.
            let page = match answer.json["url"].as_str().or(answer.json["htmlUrl"].as_str()) {
                Some(link) => {
                    let at = link.find("/api/v1/").unwrap_or(0);
                    let (status, body) = client.get_raw(&link[at..]).await.unwrap();
                    ok(status.as_u16(), String::from_utf8_lossy(&body).into_owned())
                }
                None => ok(answer.status.as_u16(), answer.text()),
            };
            answers.insert(format!("page of {result}"), page);
        }
        let kept = get(client, &format!("/api/v1/bi/queries/{}/results", self.query)).await;
        let rows = kept.json["results"]["rows"].to_string();
        answers.insert("kept result".to_owned(), ok(kept.status.as_u16(), rows));
        let path = format!("/api/v1/bi/exports/{}/download", self.export);
        let (status, body) = client.get_raw(&path).await.unwrap();
        answers.insert("export".to_owned(), ok(status.as_u16(), String::from_utf8_lossy(&body).into_owned()));
        answers
    }

    /// Starts a copy and holds that nothing which it answers is wrong; `missing` says which it need not answer, by their
    /// beginnings. The others come to be what they were.
    pub async fn serves(&self, case: &Case, what: &str, missing: &[&str]) {
        let process = Process::start(&case.data, &[]);
        let client = process.client().bearer(&self.owner.key);
        let exempt = |name: &str| missing.iter().any(|missing| name.starts_with(missing));
        eventually(what, PATIENCE, || async {
            let answers = self.ask(&client).await;
            let mut is_all = true;
            for (name, due) in &self.answers {
                let is = &answers[name];
                // A search that is filled anew says so, and finds less meanwhile.
                let is_found_later = name.starts_with("extraction/results");
                if is.is_some() && is != due && !is_found_later && !exempt(name) {
                    panic!("{what}: a wrong answer to {name}: {is:?} instead of {due:?}");
                }
                is_all &= is == due || exempt(name);
                // Of what is lost there is no answer, or the right one.
                if is.is_some()
                    && ["page of", "export", "kept result"].iter().any(|kind| name.starts_with(kind))
                {
                    assert_eq!(is, due, "{what}: a wrong answer to {name}");
                }
            }
            is_all.then_some(())
        })
        .await;
        assert_eq!(process.terminate(), Some(0), "{what}");
    }
}

impl Case {
    pub fn path(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    pub fn key(&self) -> PathBuf {
        self.dir.path().join("data.key")
    }

    pub fn doctor(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = gleaner(&self.data, &[&["doctor"], arguments].concat(), &[]);
        (output.status.code(), said(&output))
    }

    /// The doctor names it, and a look changes nothing of the store.
    pub fn named(&self, what: &str, code: i32, parts: &[&str]) -> String {
        let store = fs::read(self.path("gleaner.redb")).ok();
        let (found, told) = self.doctor(&[]);
        assert_eq!(found, Some(code), "{what}: {told}");
        for part in parts {
            assert!(told.contains(part), "{what}: no \"{part}\" in {told}");
        }
        assert!(store == fs::read(self.path("gleaner.redb")).ok(), "{what}: a look has changed the store");
        let (_, as_json) = self.doctor(&["--json"]);
        if code != 2 {
            let report: Value =
                serde_json::from_str(as_json.trim()).unwrap_or_else(|e| panic!("{what}: {e}: {as_json}"));
            assert_eq!(report["isSound"], code == 0, "{what}: {report}");
        }
        told
    }

    /// A repair mends all of it, and a look after that finds nothing.
    pub fn mended(&self, what: &str) -> String {
        let (code, told) = self.doctor(&["--repair"]);
        assert_eq!(code, Some(0), "{what}: {told}");
        let (code, after) = self.doctor(&[]);
        assert_eq!(code, Some(0), "{what}, after the repair: {after}");
        assert!(!after.contains("DAMAGED"), "{what}: {after}");
        told
    }

    /// A repair says that it cannot be mended, and what to do.
    pub fn not_mended(&self, what: &str, parts: &[&str]) {
        let (code, told) = self.doctor(&["--repair"]);
        assert_eq!(code, Some(1), "{what}: {told}");
        for part in parts {
            assert!(told.contains(part), "{what}: no \"{part}\" in {told}");
        }
    }

    /// A start says why not.
    pub fn refused(&self, what: &str, parts: &[&str]) {
        let started = gleaner(&self.data, &["serve"], &[]);
        let told = said(&started);
        assert_eq!(started.status.code(), Some(1), "{what}: {told}");
        for part in parts {
            assert!(told.contains(part), "{what}: no \"{part}\" in {told}");
        }
    }
}
