//! Tables with a Delta log in a folder: checkpoints, several that write, what others may have done to a table, and batches again.

use super::{FileFormat, Layout, Part, Place, Shelf, write};
use crate::Batch;
use serde_json::Value;
use sql::{Cell, ColumnKind, ColumnSpec};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn layout(writer: &str) -> Layout {
    Layout { format: FileFormat::Parquet, is_delta: true, writer: writer.to_owned() }
}

fn place(number: u64) -> Place {
    Place { first: number * 10, last: number * 10 + 9, at_ms: 1_700_000_000_000 + number as i64 }
}

fn part(number: u64, more: &[&str]) -> Part {
    let mut columns = vec![
        ColumnSpec::new("result_id", ColumnKind::Text),
        ColumnSpec::new("scraped_at", ColumnKind::Timestamp),
    ];
    columns.extend(more.iter().map(|name| ColumnSpec::new(*name, ColumnKind::Float64)));
    let mut row = vec![Cell::from(format!("r{number}").as_str()), Cell::Time(1_700_000_000_000)];
    row.extend(more.iter().map(|_| Cell::Float(1.5)));
    Part {
        table: "products".to_owned(),
        page_type: Some("product".to_owned()),
        batch: Batch { columns, rows: vec![row] },
    }
}

async fn put(root: &Path, writer: &str, number: u64, more: &[&str]) -> Result<bool, String> {
    let mut shelf = Shelf::Folder(root.to_owned());
    let parts = vec![part(number, more)];
    let written = write(&mut shelf, &root.join("scratch"), &layout(writer), place(number), parts).await;
    written.map(|entries| entries.is_some()).map_err(|fault| fault.to_string())
}

fn log(root: &Path) -> PathBuf {
    root.join("products/_delta_log")
}

fn commits(root: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(log(root)).unwrap().flatten().map(|entry| entry.path());
    let mut commits: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    commits.sort();
    commits
}

/// How often each file was added.
fn adds(root: &Path) -> BTreeMap<String, usize> {
    let mut adds = BTreeMap::new();
    for commit in commits(root) {
        for line in fs::read_to_string(commit).unwrap().lines() {
            let action: Value = serde_json::from_str(line).unwrap();
            if let Some(path) = action["add"]["path"].as_str() {
                *adds.entry(path.to_owned()).or_default() += 1;
            }
        }
    }
    adds
}

fn last(root: &Path) -> Option<u64> {
    let said = fs::read(log(root).join("_last_checkpoint")).ok()?;
    serde_json::from_slice::<Value>(&said).unwrap()["version"].as_u64()
}

fn forget_manifests(root: &Path) {
    fs::remove_dir_all(root.join("_manifest")).unwrap();
}

#[tokio::test]
async fn a_table_has_checkpoints_and_lives_on_them() {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    for number in 0..=10 {
        assert_eq!(last(root), None);
        assert!(put(root, "w", number, &[]).await.unwrap());
    }
    assert_eq!(last(root), Some(10));
    for number in 11..=23 {
        assert!(put(root, "w", number, &["price"]).await.unwrap());
    }
    assert_eq!(last(root), Some(20));
    assert_eq!(adds(root).len(), 24);
    // Whoever tidies the table leaves what comes after the checkpoint.
    for commit in &commits(root)[..=20] {
        fs::remove_file(commit).unwrap();
    }
    // A batch of long ago again, with its manifest and without.
    assert!(!put(root, "w", 3, &[]).await.unwrap());
    forget_manifests(root);
    assert!(put(root, "w", 3, &[]).await.unwrap());
    assert_eq!(commits(root).len(), 3, "its file is in the table");
    for number in 24..=30 {
        assert!(put(root, "w", number, &["price", "rating"]).await.unwrap());
    }
    assert_eq!(last(root), Some(30));
    let checkpoint = fs::read(log(root).join(format!("{:020}.checkpoint.parquet", 30))).unwrap();
    assert_eq!((&checkpoint[..4], &checkpoint[checkpoint.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    let said: Value = serde_json::from_slice(&fs::read(log(root).join("_last_checkpoint")).unwrap()).unwrap();
    assert_eq!(said["size"], 31 + 2, "a file each, the terms and the protocol: {said}");
    let newest = fs::read_to_string(commits(root).last().unwrap()).unwrap();
    assert!(!newest.contains("metaData"), "the terms are those of before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_write_into_one_table_and_none_is_lost() {
    let dir = TempDir::new().unwrap();
    let writers = (0..4).map(|writer| {
        let root = dir.path().to_owned();
        tokio::spawn(async move {
            for number in 0..10 {
                put(&root, &format!("w{writer}"), number, &[]).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let adds = adds(dir.path());
    assert_eq!((adds.len(), commits(dir.path()).len()), (40, 40));
    assert!(adds.values().all(|count| *count == 1), "{adds:?}");
    assert!(last(dir.path()).unwrap() >= 30);
}

#[tokio::test]
async fn what_others_have_done_to_a_table_is_respected() {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    for number in 0..12 {
        put(root, "w", number, &[]).await.unwrap();
    }
    // A file that somebody has taken out, as who makes one of many does, is not put in again.
    let taken = adds(root).into_keys().next().unwrap();
    let commit = format!(
        "{{\"remove\":{{\"path\":\"{taken}\",\"deletionTimestamp\":1700000000000,\"dataChange\":false}}}}\n"
    );
    fs::write(log(root).join(format!("{:020}.json", 12)), commit).unwrap();
    forget_manifests(root);
    for number in 0..12 {
        put(root, "w", number, &[]).await.unwrap();
    }
    assert_eq!(commits(root).len(), 13);
    // A checkpoint that is damaged is not needed where all commits are there, and is where they are not.
    fs::write(log(root).join(format!("{:020}.checkpoint.parquet", 10)), b"PAR1 nonsense PAR1").unwrap();
    assert!(put(root, "w", 12, &[]).await.unwrap());
    assert_eq!(last(root), Some(13), "there is a new one");
    fs::write(log(root).join(format!("{:020}.checkpoint.parquet", 13)), b"PAR1 nonsense PAR1").unwrap();
    let first = log(root).join(format!("{:020}.json", 0));
    let kept = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    let fault = put(root, "w", 13, &[]).await.unwrap_err();
    assert!(fault.contains("checkpoint"), "{fault}");
    fs::write(&first, kept).unwrap();
    assert!(put(root, "w", 13, &[]).await.unwrap());
    // A newer protocol is not written.
    let newer = "{\"protocol\":{\"minReaderVersion\":3,\"minWriterVersion\":7,\"readerFeatures\":[\"deletionVectors\"],\
                 \"writerFeatures\":[\"deletionVectors\"]}}\n";
    fs::write(log(root).join(format!("{:020}.json", commits(root).len())), newer).unwrap();
    let fault = put(root, "w", 14, &[]).await.unwrap_err();
    assert!(fault.contains("newer protocol (reader 3, writer 7)"), "{fault}");
}

#[tokio::test]
async fn other_types_and_other_tables_are_refused() {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    put(root, "w", 0, &["price"]).await.unwrap();
    let mut other = part(1, &[]);
    other.batch.columns.push(ColumnSpec::new("price", ColumnKind::Text));
    other.batch.rows[0].push(Cell::from("dear"));
    let mut shelf = Shelf::Folder(root.to_owned());
    let fault = write(&mut shelf, &root.join("s"), &layout("w"), place(1), vec![other]).await.unwrap_err();
    assert!(fault.to_string().contains("the column price"), "{fault}");
    fs::write(log(root).join(format!("{:020}.json", 1)), "not JSON\n").unwrap();
    assert!(put(root, "w", 2, &[]).await.unwrap_err().contains("is not JSON"));
    fs::rename(log(root).join(format!("{:020}.json", 1)), log(root).join(format!("{:020}.json", 2))).unwrap();
    assert!(put(root, "w", 2, &[]).await.unwrap_err().contains("lacks a commit"));
}
