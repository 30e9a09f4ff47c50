//! `gleaner sql` at a terminal, typed at through a pseudo-terminal of Python's.

use super::{at_work, ended, shop};
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_asked_for_completed_and_remembered() {
    let is_there = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if !is_there.is_ok_and(|it| it.success()) {
        println!("skipped: Python is not installed");
        return;
    }
    let web = shop().await;
    let (at, _ada, desk) = at_work(&web).await;
    let mut python = desk.program("python3");
    python.arg("-c").arg(include_str!("prompt.py")).env("TERM", "xterm");
    let typed = ended(python).await;
    assert_eq!(typed.code, Some(0), "{}\n{}", typed.out, typed.err);
    assert_eq!(
        typed.out.trim(),
        "statement table completed continued refused described interrupted remembered left"
    );
    let history = desk.configurations().join("gleaner/sql_history");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&history).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "what was asked is for nobody else's eyes");
    at.stop().await;
}
