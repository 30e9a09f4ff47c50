//! The walls around a worker, tested by a worker that is ordered to run against them.

use super::{Box_, MARKER, OURS, THEIRS};
use crate::harness::binary;
use sql::sandbox::{self, Holds};
use sql::{Attempt, SelfTest, SelfTestReport};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

/// What only Landlock refuses; on a kernel without it these attempts cannot be tested.
fn is_landlocks(attempt: &Attempt) -> bool {
    ["read ", "list ", "write "].iter().any(|verb| attempt.what.starts_with(verb))
}

#[tokio::test]
async fn the_kernel_refuses_what_no_worker_may() {
    let it = Box_::new(|_| {});
    let root = it.folder.path();
    let (ours, theirs) =
        (root.join("snapshots").join(OURS.to_string()), root.join("snapshots").join(THEIRS.to_string()));
    let own = root.join("own");
    std::fs::create_dir(&own).expect("a folder");
    let planted = root.join("planted.txt");
    std::fs::write(&planted, MARKER).expect("write");
    let results = root.join("results").join(THEIRS.to_string());
    std::fs::create_dir(&results).expect("a folder");
    let segment = std::fs::read_dir(&theirs).expect("a folder").flatten().next().expect("a file").path();
    let scratch = ours.join("scratch");
    std::fs::write(&scratch, "nobody needs it").expect("write");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let unix = root.join("listening.sock");
    let _listening = UnixListener::bind(&unix).expect("a listener");
    let order = SelfTest {
        read: ours,
        write: own,
        scratch,
        files: vec![
            planted,
            segment,
            PathBuf::from("/etc/passwd"),
            PathBuf::from("/proc/self/maps"),
            PathBuf::from(format!("/proc/{}/status", std::process::id())),
            binary(),
        ],
        folders: vec![theirs, results, root.to_owned(), root.join("results"), "/tmp".into()],
        tcp: tcp.local_addr().expect("an address"),
        unix,
    };
    let order = serde_json::to_string(&order).expect("JSON");
    let output = Command::new(binary())
        .args(["sql-worker", "--self-test", &order])
        .env("SECRET", MARKER)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: SelfTestReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.sandbox, sandbox::support(), "what the box says is what a worker has");
    assert!(report.attempts.len() > 25, "{}", report.attempts.len());
    let mut wrong = Vec::new();
    for attempt in &report.attempts {
        // An attempt that fails before the walls stand would prove nothing.
        if attempt.before.is_some() {
            wrong.push(format!("before the walls stood: {attempt:?}"));
        }
        let (needed, holds) = match is_landlocks(attempt) {
            true => ("Landlock", report.sandbox.landlock != Holds::NotAtAll),
            false => ("seccomp", report.sandbox.seccomp != Holds::NotAtAll),
        };
        if !attempt.allowed && !holds {
            println!("skipped, the kernel has no {needed}: {}", attempt.what);
            continue;
        }
        if attempt.after.is_none() != attempt.allowed {
            wrong.push(format!("behind the walls: {attempt:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A worker that serves is held by the very same walls.
#[tokio::test]
async fn a_worker_that_serves_is_locked_in() {
    let it = Box_::new(|settings| settings.concurrency_box = 1);
    it.first("SELECT count(*) FROM readings").await;
    it.assert_clean().await;
    let support = sandbox::support();
    let mut locked = 0;
    for process in super::workers::workers_in(it.folder.path()) {
        let status = std::fs::read_to_string(process.join("status")).expect("a status");
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        // One rests and is locked in, another may be fresh: it has no filter yet, and nothing to do.
        if field("Seccomp:").as_deref() == Some("2") {
            locked += 1;
            assert_eq!(field("NoNewPrivs:").as_deref(), Some("1"));
        }
    }
    if support.seccomp == Holds::NotAtAll {
        println!("skipped: the kernel has no seccomp");
    } else {
        assert_eq!(locked, 1);
    }
}
