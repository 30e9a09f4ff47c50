//! The power goes, at any moment of a first and of a later run: what was answered is there.
//!
//! The binary as shipped works through its own files while every call on them is written down (shim.c). Then the disk is
//! built as it may have been after a cut at each of many points (disk.rs), and looked at: the store opens, every answered
//! job stands in it, every result that was shown has its page, every file of a statement's rows, of an export and of
//! personal data is there as its row says, and the keys are the same. At some of the points the box is started again and
//! asked: what was answered, search, and SQL.

use super::disk::{self, Disk, Record};
use super::shim::Shim;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Member, PASSWORD, ended, eventually, expect, get, member, post, text};
use base::clock::Clock;
use base::ids::{JobId, OrgId};
use base::terms::JobStatus;
use blob::{BlobHash, BlobStore};
use gleaner::features::extraction::RESULTS;
use gleaner::features::jobs::JOBS;
use gleaner::features::{account, bi};
use secrets::keyring::{KeyId, Keyring};
use serde_json::json;
use server::client::Client;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Store;
use tempfile::TempDir;

/// Points of each run at which the power goes (issue 12, "Holds when": 2,000 in all).
const POINTS: usize = 1_000;
/// Of these, points at which the box is started again.
const STARTS: usize = 12;

/// What was answered, and how long the journal was then.
enum Told {
    /// An organization and a key: whoever holds it is let in.
    Key,
    Submitted(JobId),
    Ended(JobId),
    /// A statement whose rows were shown, or an export of them or of personal data that was made: the file's name.
    File(String),
}

struct Run {
    told: Vec<(u64, Told)>,
    records: Vec<Record>,
    before: Disk,
    keys: Vec<KeyId>,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Pages that differ, so that each is a file of its own.
fn page(path: &str) -> Option<Answer> {
    let number: u32 = path.strip_prefix("/p/")?.parse().ok()?;
    Some(Answer::html(format!(
        "<title>page {number}</title><h1>{}</h1>",
        "word ".repeat(number as usize % 90)
    )))
}

/// Waits until what stands under a path has been made.
async fn is_made(client: &Client, path: &str, at: &str) {
    eventually("the export is made", Duration::from_secs(60), || async {
        let export = expect(get(client, path).await, 200);
        assert_ne!(export.pointer(at)?["status"], "failed", "{export}");
        (export.pointer(at)?["status"] == "success").then_some(())
    })
    .await;
}

/// Works with the box and writes down what it answered.
async fn work(owner: &Member, client: &Client, shim: &Shim, web: &Web, first: u32) -> Vec<(u64, Told)> {
    let mut told = Vec::new();
    for batch in 0..8 {
        let jobs: Vec<_> =
            (0..5).map(|n| json!({ "url": web.url(&format!("/p/{}", first + batch * 5 + n)) })).collect();
        let made = expect(post(client, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
        let at = shim.journal_length();
        let ids: Vec<JobId> =
            made["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").parse().unwrap()).collect();
        told.extend(ids.iter().map(|id| (at, Told::Submitted(*id))));
        for id in ids {
            let job = ended(client, &id.to_string()).await;
            assert_eq!(text(&job, "status"), "succeeded", "{job}");
            told.push((shim.journal_length(), Told::Ended(id)));
        }
        let sql =
            json!({ "sql": format!("SELECT url, {batch} AS n FROM jobs ORDER BY url"), "waitMs": 10_000 });
        let query = post(client, "/api/v1/bi/queries", &sql).await;
        if query.json["results"]["rows"].is_array() {
            let id = text(&query.json, "jobId").to_owned();
            told.push((shim.journal_length(), Told::File(id.clone())));
            let csv = json!({ "format": if batch % 2 == 0 { "csv" } else { "parquet" } });
            let export = expect(post(client, &format!("/api/v1/bi/queries/{id}/exports"), &csv).await, 202);
            let export = text(&export["export"], "id").to_owned();
            is_made(client, &format!("/api/v1/bi/exports/{export}"), "/export").await;
            told.push((shim.journal_length(), Told::File(export)));
        }
        let personal = post(&owner.browser, "/api/v1/account/export", &json!({})).await;
        if personal.status == 202 {
            let id = text(&personal.json, "id").to_owned();
            is_made(&owner.browser, &format!("/api/v1/account/exports/{id}"), "").await;
            told.push((shim.journal_length(), Told::File(id)));
        }
    }
    assert!(told.iter().any(|(_, told)| matches!(told, Told::File(_))), "no statement was answered");
    told
}

fn keys(path: &Path) -> Vec<KeyId> {
    Keyring::load(path).unwrap().signing_ids().collect()
}

/// One life of the box, from its start to the moment it is killed.
async fn live(root: &Path, shim: &Shim, web: &Web, owner: Option<&Member>, first: u32) -> (Run, Member) {
    let before = Disk::of(root);
    let allow = web.allow();
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "16"),
        ("DISPATCH__ROBOTS", "false"),
    ];
    let process = Process::start_under(&root.join("data"), &settings, &shim.environment());
    let mut told = Vec::new();
    let owner = match owner {
        Some(owner) => {
            told.push((0, Told::Key));
            owner.clone()
        }
        None => {
            let owner = member(&process.client(), &process.socket(), "power").await;
            told.push((shim.journal_length(), Told::Key));
            owner
        }
    };
    let login = json!({ "email": owner.email, "password": PASSWORD });
    let login = expect(post(&process.client(), "/api/v1/auth/login", &login).await, 200);
    let owner = Member { browser: process.client().bearer(text(&login, "accessToken")), ..owner };
    told.extend(work(&owner, &process.client().bearer(&owner.key), shim, web, first).await);
    process.kill();
    let records = disk::read(&shim.journal);
    (Run { told, records, before, keys: keys(&root.join("data.key")) }, owner)
}

/// What must hold of the disk at `root`.
fn look(root: &Path, org: OrgId, told: &[&Told], keys_before: &[KeyId]) -> Result<(), String> {
    if told.is_empty() {
        return Ok(());
    }
    let (data, key) = (root.join("data"), root.join("data.key"));
    let found: Vec<_> = Keyring::load(&key).map_err(|e| format!("the keys: {e}"))?.signing_ids().collect();
    if found != keys_before {
        return Err("the keys are others".to_owned());
    }
    // Not made anew by whoever looks.
    let bytes = std::fs::metadata(data.join("gleaner.redb")).map_err(|e| format!("the store's file: {e}"))?;
    if bytes.len() == 0 {
        return Err("the store's file is empty".to_owned());
    }
    let store = Store::open(&data.join("gleaner.redb"), 4 << 20, Clock::system())
        .map_err(|e| format!("the store: {}", e.for_operator()))?;
    let rows = store.system().org(org);
    let blobs = BlobStore::open_local(data.join("pages")).map_err(|e| format!("the pages: {e}"))?.org(org.0);
    let looked = told.iter().try_for_each(|told| match told {
        Told::Key => (!store.is_blank().unwrap()).then_some(()).ok_or("no organization".to_owned()),
        Told::Submitted(id) => {
            rows.read(|tx| tx.require(&JOBS, id)).map(drop).map_err(|e| format!("job {id}: {e}"))
        }
        Told::Ended(id) => {
            let (job, result) = rows
                .read(|tx| Ok((tx.require(&JOBS, id)?, tx.require(&RESULTS, id)?)))
                .map_err(|e| e.to_string())?;
            if job.status != JobStatus::Succeeded {
                return Err(format!("job {id} runs again"));
            }
            let hash = BlobHash::from_bytes(result.page.hash);
            let page = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(blobs.get_page(&hash))
            });
            match page {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err(format!("the page of job {id} is gone")),
                Err(e) => Err(format!("the page of job {id}: {e}")),
            }
        }
        Told::File(name) => {
            let files = kept(&store, &data)?;
            let (path, bytes) = files
                .iter()
                .find(|(path, _)| path.file_stem().is_some_and(|stem| stem == name.as_str()))
                .ok_or_else(|| format!("no row speaks of the file {name}"))?;
            match std::fs::metadata(path) {
                Ok(found) if found.len() == *bytes => Ok(()),
                Ok(found) => Err(format!("{} has {} bytes, not {bytes}", path.display(), found.len())),
                Err(e) => Err(format!("{}: {e}", path.display())),
            }
        }
    });
    store.close();
    looked
}

/// The files that rows speak of, and their lengths.
fn kept(store: &Store, data: &Path) -> Result<Vec<(PathBuf, u64)>, String> {
    let files = store.system().read(|tx| {
        let of_people = account::kept_files(tx, &data.join("account-exports"))?;
        let mut files: Vec<_> = of_people.into_iter().map(|(_, path, bytes)| (path, bytes)).collect();
        let of_statements = bi::retained_files(tx, &data.join("results"), &data.join("exports"))?;
        files.extend(of_statements.into_iter().map(|file| (file.path, file.bytes)));
        Ok(files)
    });
    files.map_err(|e| e.for_operator())
}

/// Starts the box over the disk and asks it.
async fn start(root: &Path, owner: &Member, told: &[&Told]) {
    let process = Process::start(&root.join("data"), &[]);
    let client = process.client().bearer(&owner.key);
    if told.is_empty() {
        // Nobody was answered: a new box.
        member(&process.client(), &process.socket(), "new").await;
    } else {
        for told in told {
            if let Told::Submitted(id) = told {
                expect(get(&client, &format!("/api/v1/jobs/{id}")).await, 200);
            }
        }
        follows(&client, told).await;
    }
    process.kill();
}

/// Search and SQL have what was answered, whatever became of their own files.
async fn follows(client: &Client, told: &[&Told]) {
    let results = told.iter().filter(|told| matches!(told, Told::Ended(_))).count() as u64;
    let jobs = told.iter().filter(|told| matches!(told, Told::Submitted(_))).count() as u64;
    let sql = json!({ "sql": "SELECT count(*) AS n FROM jobs", "waitMs": 10_000 });
    eventually("search and SQL have what was answered", Duration::from_secs(120), || async {
        let found = get(client, "/api/v1/extraction/results?limit=1").await;
        let counted = post(client, "/api/v1/bi/queries", &sql).await;
        let counted = counted.json["results"]["rows"][0]["n"].as_u64()?;
        (found.json["total"].as_u64()? >= results && counted >= jobs).then_some(())
    })
    .await;
}

/// A folder for a disk: in memory where there is such a place, because each is opened, which syncs, and none of them has to
/// outlive anything itself.
fn image() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Cuts the power at points of a run.
async fn cut(run: Run, owner: &Member, dice: &mut Dice) -> usize {
    let org: OrgId = owner.org_id.parse().unwrap();
    let mut points = BTreeSet::new();
    // The beginning, where folders and files are made, is looked at closely.
    points.extend((0..run.records.len()).take(POINTS / 4));
    while points.len() < POINTS.min(run.records.len()) {
        points.insert(dice.roll() as usize % run.records.len());
    }
    let start_every = points.len().div_ceil(STARTS);
    let mut disk = run.before;
    let (mut looked, mut failed) = (0, Vec::new());
    for (at, record) in run.records.iter().enumerate() {
        disk.apply(record);
        if !points.contains(&at) {
            continue;
        }
        let told: Vec<_> =
            run.told.iter().filter(|(length, _)| *length <= record.end).map(|(_, told)| told).collect();
        let temp = image();
        disk.after_power_cut(temp.path(), &mut || dice.roll());
        if let Err(why) = look(temp.path(), org, &told, &run.keys) {
            failed.push(format!("at record {at} ({} answers before it): {why}", told.len()));
        } else if looked % start_every == 0 {
            start(temp.path(), owner, &told).await;
        }
        looked += 1;
    }
    assert!(failed.is_empty(), "{} of {looked} cuts: {:#?}", failed.len(), &failed[..failed.len().min(20)]);
    looked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_outlives_the_power_at_2000_points() {
    let Some(first) = Shim::new("first") else { return };
    let web = Web::open(page).await;
    let mut dice = Dice(0x5EED_0022);
    let root = first.root().to_owned();
    let (run, owner) = live(&root, &first, &web, None, 0).await;
    let length = run.records.len();
    let looked = cut(run, &owner, &mut dice).await;
    println!("first run: {looked} cuts in {length} records");
    let later = first.again("later");
    let (run, owner) = live(&root, &later, &web, Some(&owner), 100).await;
    let length = run.records.len();
    let looked = cut(run, &owner, &mut dice).await;
    println!("later run: {looked} cuts in {length} records");
}
