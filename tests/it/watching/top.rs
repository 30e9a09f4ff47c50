//! `gleaner admin top`: as text, as JSON, and at a terminal (a pseudo-terminal of Python's).

use super::{PATIENCE, admin, has};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{binary, eventually, expect, member, post};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A box with two organizations that have jobs which hang, and others that wait.
async fn busy() -> (TempDir, Process, Web) {
    let web = Web::open(|_| Some(Answer::html("<p>later</p>").held("held"))).await;
    let folder = TempDir::new().unwrap();
    let settings = [("NETWORK__ALLOW", web.allow()), ("DISPATCH__CONCURRENCY", "2".to_owned())];
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let process = Process::start(&folder.path().join("data"), &settings);
    for (name, count) in [("ada", 9), ("eve", 4)] {
        let of = member(&process.client(), &process.socket(), name).await;
        for n in 0..count {
            let job = json!({ "url": web.url(&format!("/{name}/{n}")), "options": { "timeoutMs": 120_000 } });
            expect(post(&of.api, "/api/v1/jobs", &job).await, 201);
        }
    }
    (folder, process, web)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_is_text_or_json() {
    let (_folder, process, _web) = busy().await;
    let look = || {
        let (code, printed, errors) = admin(&process.socket(), &["top", "--json"]);
        assert_eq!(code, Some(0), "{errors}");
        serde_json::from_str::<Value>(&printed).unwrap()
    };
    let seen = eventually("both have jobs that run", PATIENCE, || async {
        let seen = look();
        let orgs = seen["jobs"]["organizations"].as_array().unwrap();
        let sum = |key: &str| orgs.iter().map(|org| org[key].as_u64().unwrap()).sum::<u64>();
        // A look that comes while jobs begin may count one twice.
        let is_whole = orgs.len() == 2 && sum("running") + sum("queued") == 13;
        (is_whole && orgs.iter().all(|org| org["running"].as_u64() > Some(0))).then(|| seen.clone())
    })
    .await;
    assert_eq!((&seen["trouble"], &seen["jobs"]["isAll"]), (&json!([]), &json!(true)), "{seen}");
    let jobs = seen["jobs"]["organizations"].as_array().unwrap();
    assert_eq!(
        (&jobs[0]["name"], &jobs[1]["name"]),
        (&json!("ada"), &json!("eve")),
        "most to do first: {seen}"
    );
    for (part, key) in [
        ("memory", "ownBytes"),
        ("memory", "machineBytes"),
        ("disk", "freeBytes"),
        ("disk", "storeBytes"),
        ("requests", "answered"),
        ("store", "commits"),
    ] {
        assert!(seen[part][key].as_u64() > Some(0), "{part}.{key}: {seen}");
    }
    assert!(seen["perSec"]["commits"].is_number() && seen["feeds"].as_array().unwrap().len() >= 2, "{seen}");
    // Off a terminal it is one look, with or without being asked for one.
    for arguments in [&["top"][..], &["top", "--once"]] {
        let (code, text, errors) = admin(&process.socket(), arguments);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        for part in ["requests ", "/s commits", "jobs        ", "\nada ", "\neve ", "SECONDS"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && text.lines().all(|line| line == line.trim_end()), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_is_off_is_a_mistake_and_no_empty_view() {
    let folder = TempDir::new().unwrap();
    for arguments in [&["top"][..], &["top", "--once"], &["top", "--json"]] {
        let (code, printed, errors) = admin(&folder.path().join("admin.sock"), arguments);
        assert_eq!((code, printed.as_str()), (Some(1), ""));
        assert!(errors.contains("Is `gleaner serve` running?"), "{errors}");
    }
    let (code, _, errors) = admin(&folder.path().join("admin.sock"), &["top", "--every", "0"]);
    assert!(code == Some(2) && errors.contains("--every"), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_view_follows_the_terminal_and_gives_it_back() {
    if !has("python3") {
        return;
    }
    let (_folder, process, _web) = busy().await;
    let mut path = vec![binary().parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut python = Command::new("python3")
        .args(["-c", include_str!("top.py")])
        .arg(process.socket())
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let looking = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
        let told = lines.next().map(|line| line.unwrap());
        if told.is_some() {
            process.kill();
        }
        let away = lines.next().map(|line| line.unwrap());
        let output = python.wait_with_output().unwrap();
        (told, away, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    });
    let (told, away, code, errors) = looking.await.unwrap();
    assert_eq!(told.as_deref(), Some("shown resized undisturbed left interrupted"), "{errors}");
    assert_eq!((away.as_deref(), code), (Some("away"), Some(0)), "{errors}");
}
