//! The README keeps its word: its tour is run as written, its links lead somewhere.

use crate::harness::binary;
use crate::harness::web::{Answer, Web};
use crate::shipped::Place;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("README.md")).unwrap()
}

/// The tour, as a script that stops at its first failure.
fn tour() -> String {
    let text = readme();
    let tour = text.split("<!-- tour: begin -->").nth(1).unwrap().split("<!-- tour: end -->").next().unwrap();
    let script = tour.trim().strip_prefix("```sh\n").unwrap().strip_suffix("```").unwrap();
    format!("set -euo pipefail\n{script}")
}

/// Runs the tour as typed where the box was started; gives whether it came to its end, what it printed, and its errors.
async fn take(folder: &Path, address: &str, page: String) -> (bool, String, String) {
    let mut command = Command::new("bash");
    command.arg("-c").arg(tour()).current_dir(folder).env_clear();
    command.env("PATH", std::env::var("PATH").unwrap()).env("GLEANER", binary());
    command.env("BOX", address).env("PAGE", page);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tour_runs_as_written_and_again() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is not installed");
        return;
    }
    let web = Web::open(|path| match path {
        "/gone" => None,
        _ => Some(Answer::html("<h1>Of gleaning</h1><a href=/next>next</a>")),
    })
    .await;
    let dir = TempDir::new().unwrap();
    // The default configuration, but for the port and for the page, which is on this machine.
    let served = Place::at(dir.path()).with("GLEANER_NETWORK__ALLOW", web.allow()).serve();
    for (total, left) in [(1, 999_999), (2, 999_998)] {
        let (ended, printed, errors) = take(dir.path(), &served.url, web.url("/article")).await;
        assert!(ended, "{printed}\n{errors}");
        for part in [
            "\"status\":\"succeeded\"",
            "Of gleaning",
            &format!("\"total\":{total}"),
            &format!("\"pages\":{total}"),
            &format!("\"remainingCredits\":{left}"),
        ] {
            assert!(printed.contains(part), "{part} is not in {printed}");
        }
    }
    // Pages that cannot be had: a port that nobody listens at and no rule opens, and one that is not there.
    for (page, why) in
        [("http://127.0.0.1:1/".to_owned(), "does not take a job"), (web.url("/gone"), "was not fetched: ")]
    {
        let (ended, printed, errors) = take(dir.path(), &served.url, page).await;
        assert!(
            !ended && errors.contains(why) && errors.contains("et PAGE to a page that"),
            "{printed}\n{errors}"
        );
    }
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn files_that_it_names_exist() {
    let text = readme();
    let links =
        text.match_indices("](").map(|(at, found)| text[at + found.len()..].split(')').next().unwrap());
    for link in links.filter(|link| !link.starts_with("http")) {
        assert!(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(link).exists(),
            "README.md links to {link}"
        );
    }
}
