//! `gleaner doctor` over a real data folder: it finds nothing in a sound one, and everything that somebody did to the log.

use crate::harness::Request;
use crate::harness::{Appliance, binary, expect, post};
use redb::{Database, ReadableDatabase, TableDefinition};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

type Bytes = &'static [u8];

const ROWS: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("audit");
const HEADS: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("audit_heads");
const JOBS_BY_STATUS: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("jobs.by_status");

/// Runs the binary over a data folder; gives its exit code and what it printed.
fn doctor(data: &Path, key: &Path) -> (Option<i32>, String) {
    let output = Command::new(binary())
        .arg("doctor")
        .current_dir(data.parent().unwrap())
        .env("GLEANER_STORAGE__DATA_DIR", data)
        .env("GLEANER_STORAGE__KEY_FILE", key)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

/// A data folder with two organizations that did things, and its key file.
async fn folder() -> (Appliance, PathBuf, PathBuf) {
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", "[]")]).await;
    for name in ["ada", "eve"] {
        let member = at.member(name).await;
        for n in 0..6 {
            let urls = json!({ "urls": [format!("https://shop.example/{name}/{n}")] });
            expect(post(&member.api, "/api/v1/urls", &urls).await, 200);
        }
        expect(post(&member.api, "/api/v1/jobs", &json!({ "url": "https://nowhere.invalid/" })).await, 201);
    }
    at.operator(Request::Status).await;
    let data = at.data_dir();
    at.pause().await;
    let key = data.with_extension("key");
    (at, data, key)
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(database: &Database, table: TableDefinition<'static, Bytes, Bytes>) -> Rows {
    let tx = database.begin_read().unwrap();
    let table = tx.open_table(table).unwrap();
    let range = table.range::<&[u8]>(..).unwrap();
    range.map(|entry| entry.unwrap()).map(|(k, v)| (k.value().to_vec(), v.value().to_vec())).collect()
}

/// Changes a table of a copy of the store and runs the doctor over it.
fn after(
    data: &Path,
    key: &Path,
    table: TableDefinition<'static, Bytes, Bytes>,
    change: impl FnOnce(&mut redb::Table<'_, Bytes, Bytes>, &Rows),
) -> (Option<i32>, String) {
    let copy = TempDir::new().unwrap();
    let file = copy.path().join("data/gleaner.redb");
    std::fs::create_dir(copy.path().join("data")).unwrap();
    std::fs::copy(data.join("gleaner.redb"), &file).unwrap();
    let database = Database::open(&file).unwrap();
    let all = rows(&database, table);
    let tx = database.begin_write().unwrap();
    change(&mut tx.open_table(table).unwrap(), &all);
    tx.commit().unwrap();
    drop(database);
    doctor(&copy.path().join("data"), key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_box_is_sound_and_every_tampering_is_found() {
    let (_at, data, key) = folder().await;
    let (code, printed) = doctor(&data, &key);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("3 chains") && printed.contains("nothing is wrong"), "{printed}");
    assert_eq!(doctor(&data, &key), (code, printed), "looking changes nothing");

    let found = |(code, printed): (Option<i32>, String), part: &str| {
        assert_eq!(code, Some(1), "{part}: {printed}");
        assert!(printed.contains(part), "\"{part}\" is not in {printed}");
        assert!(printed.contains("DAMAGED"), "{printed}");
    };
    // Keys are an organization's id and the row's number; the first organization's rows come first.
    let number = |key: &[u8]| u64::from_be_bytes(key[16..].try_into().unwrap());
    let at_of = |all: &Rows, n: u64| all.iter().position(|(key, _)| number(key) == n).unwrap();
    let last_of = |all: &Rows| all.iter().filter(|(key, _)| key[..16] == all[0].0[..16]).count() as u64;

    let changed = after(&data, &key, ROWS, |table, all| {
        let (key, mut value) = all[at_of(all, 4)].clone();
        let middle = value.len() / 2;
        value[middle] ^= 1;
        table.insert(key.as_slice(), value.as_slice()).unwrap();
    });
    found(changed, "row 4 ");
    let cut = after(&data, &key, ROWS, |table, all| {
        table.remove(all[at_of(all, 5)].0.as_slice()).unwrap();
    });
    found(cut, "row 5 is missing, in between");
    let tail = after(&data, &key, ROWS, |table, all| {
        table.remove(all[last_of(all) as usize - 1].0.as_slice()).unwrap();
    });
    found(tail, "is missing, at the end");
    let swapped = after(&data, &key, ROWS, |table, all| {
        let ((a, first), (b, second)) = (all[2].clone(), all[3].clone());
        table.insert(a.as_slice(), second.as_slice()).unwrap();
        table.insert(b.as_slice(), first.as_slice()).unwrap();
    });
    found(swapped, "row 3 was changed or moved");
    // From another organization's chain, with the right number.
    let foreign = after(&data, &key, ROWS, |table, all| {
        let theirs = all.iter().find(|(key, _)| key[..16] != all[0].0[..16] && number(key) == 3).unwrap();
        table.insert(all[2].0.as_slice(), theirs.1.as_slice()).unwrap();
    });
    found(foreign, "row 3 was changed or moved");
    let chain = after(&data, &key, ROWS, |table, all| {
        for (key, _) in all.iter().filter(|(key, _)| key[..16] == all[0].0[..16]) {
            table.remove(key.as_slice()).unwrap();
        }
    });
    found(chain, "are missing");
    let headless = after(&data, &key, HEADS, |table, all| {
        table.remove(all[0].0.as_slice()).unwrap();
    });
    found(headless, "the head row is missing");
    // The head row's own hash is no secret, but its seal is made with a key that is not in the data folder.
    let head = after(&data, &key, HEADS, |table, all| {
        let (key, mut value) = all[0].clone();
        // Version, then the first number, which is one byte for small ones.
        value[1] += 1;
        // And the checksum behind it, which is no secret either.
        let end = value.len() - 4;
        let sum = crc32fast::hash(&value[..end]).to_le_bytes();
        value[end..].copy_from_slice(&sum);
        table.insert(key.as_slice(), value.as_slice()).unwrap();
    });
    found(head, "its seal does not fit");
    // The same for every other table: an index that lost an entry.
    let index = after(&data, &key, JOBS_BY_STATUS, |table, all| {
        table.remove(all[0].0.as_slice()).unwrap();
    });
    found(index, "jobs.by_status");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_cannot_look_at_is_said() {
    let (mut at, data, key) = folder().await;
    let (code, printed) = doctor(&data.join("nothing"), &key);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("gleaner.redb is missing"), "{printed}");
    let (code, printed) = doctor(&data, &key.with_extension("lost"));
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("seals of the audit log are not checked"), "{printed}");
    at.restart().await;
    let (code, printed) = doctor(&data, &key);
    // A box that runs is asked itself.
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("are compared with the box off") && printed.contains("3 chains"), "{printed}");
    at.stop().await;
}
