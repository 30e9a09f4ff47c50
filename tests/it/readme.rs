//! The README keeps its word: its tour is run as written, its links lead somewhere.

use crate::harness::binary;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tour_runs_as_written() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is not installed");
        return;
    }
    let text = readme();
    let tour = text.split("<!-- tour: begin -->").nth(1).unwrap().split("<!-- tour: end -->").next().unwrap();
    let script = tour.trim().strip_prefix("```sh\n").unwrap().strip_suffix("```").unwrap();
    let web = Web::open(|_| Some(Answer::html("<h1>Of gleaning</h1><a href=/next>next</a>"))).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let process = Process::start(&data, &[("NETWORK__ALLOW", &web.allow())]);
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let (folder, address, page) = (dir.path().to_owned(), process.url.clone(), web.url("/article"));
    let script = format!("set -euo pipefail\n{script}");
    let run = move || {
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(script)
            .current_dir(folder)
            .env("PATH", path)
            .env("BOX", address)
            .env("PAGE", page);
        command.env("GLEANER_STORAGE__DATA_DIR", data).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "\"created\":1",
        "\"status\":\"succeeded\"",
        "Of gleaning",
        "\"pages\":1",
        "\"remainingCredits\":999999",
    ] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
}

#[test]
fn files_that_it_names_exist() {
    let text = readme();
    let links =
        text.match_indices("](").map(|(at, found)| text[at + found.len()..].split(')').next().unwrap());
    for link in links.filter(|link| !link.starts_with("http")) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(link).exists(), "README.md links to {link}");
    }
}
