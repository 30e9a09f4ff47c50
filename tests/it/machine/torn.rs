//! Copies that were made while the box wrote: a mixture of pages from two moments.
//!
//! Such a copy is no backup, and may or may not open. What must hold: `gleaner doctor` comes to an end over each and finds
//! those that do not serve, and a start says what is wrong in words.

use super::said;
use crate::harness::process::Process;
use crate::harness::{binary, expect, member, post};
use serde_json::json;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PAGE_BYTES: usize = 4096;
/// Copies that are looked at.
const COPIES: u64 = 24;
/// How long the doctor may take over one of half a megabyte; it took for ever.
const DOCTOR_MAX: Duration = Duration::from_secs(180);
const START_MAX: Duration = Duration::from_secs(180);

/// Runs the doctor, and ends it when it does not end.
fn doctor(data: &Path, key: &Path) -> Output {
    let mut child = Command::new(binary())
        .arg("doctor")
        .current_dir(data)
        .env("GLEANER_STORAGE__DATA_DIR", data)
        .env("GLEANER_STORAGE__KEY_FILE", key)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > DOCTOR_MAX {
            child.kill().unwrap();
            panic!("the doctor did not end over {}", data.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Starts the box over a copy; gives what it says when it does not come up.
fn start(data: &Path, key: &Path) -> Option<String> {
    let mut child = Command::new(binary())
        .arg("serve")
        .current_dir(data)
        .env("GLEANER_SERVER__LISTEN", "127.0.0.1:0")
        .env("GLEANER_STORAGE__DATA_DIR", data)
        .env("GLEANER_STORAGE__KEY_FILE", key)
        .env("GLEANER_LOG__LEVEL", "error")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(std::io::BufRead::lines(out).next().and_then(Result::ok)));
    let Ok(line) = told.recv_timeout(START_MAX) else {
        child.kill().unwrap();
        panic!("the box neither came up nor ended over {}", data.display());
    };
    if line.is_some() {
        child.kill().unwrap();
        child.wait().unwrap();
        return None;
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    Some(said(&output))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_copy_is_looked_at_to_the_end_and_told_in_words() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let process = Process::start(&data, &[]);
    let owner = member(&process.client(), &process.socket(), "torn").await;
    let mut moments = Vec::new();
    for moment in 0..2 {
        for batch in 0..12 {
            let urls: Vec<_> =
                (0..40).map(|n| format!("https://shop.example/{moment}/{batch}/{n}")).collect();
            expect(post(&owner.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
        }
        moments.push(fs::read(data.join("gleaner.redb")).unwrap());
    }
    process.kill();
    let key = dir.path().join("data.key");
    let (mut found, mut refused, mut dice) = (0, 0, 0x7042_u64);
    for copy in 0..COPIES {
        let torn = dir.path().join(format!("torn-{copy}"));
        DirBuilder::new().mode(0o700).create(&torn).unwrap();
        let mut bytes = moments[1].clone();
        for (at, page) in moments[0].chunks(PAGE_BYTES).enumerate() {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            // The header comes from one moment, as a copy's first block does.
            if at > 0 && dice.is_multiple_of(3 + copy % 5) {
                bytes[at * PAGE_BYTES..][..page.len()].copy_from_slice(page);
            }
        }
        let file = torn.join("gleaner.redb");
        fs::write(&file, &bytes).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let looked = doctor(&torn, &key);
        found += u64::from(looked.status.code() == Some(1));
        assert!(fs::read(&file).unwrap() == bytes, "copy {copy}: a look has changed it");
        if let Some(said) = start(&torn, &key) {
            refused += 1;
            assert!(said.contains("is damaged") && said.contains("restore a backup"), "copy {copy}: {said}");
            assert_eq!(looked.status.code(), Some(1), "the doctor found nothing in copy {copy}: {said}");
        }
        fs::remove_dir_all(&torn).unwrap();
    }
    // How many of them serve is a matter of which pages were written between the two moments; that those which do not are
    // found was looked at above.
    assert!(found > 0, "the doctor found damage in none of {COPIES} torn copies");
    println!("{found} of {COPIES} torn copies found damaged, {refused} did not start");
}
