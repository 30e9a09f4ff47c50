//! The doctor of a box that runs: it is asked itself, finds what can be found meanwhile, and mends nothing under it.

use super::case::{Sound, flip, one};
use super::{gleaner, said};
use crate::harness::process::Process;
use serde_json::Value;
use std::fs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_box_is_asked_itself() {
    let sound = Sound::fill().await;
    let case = sound.copy();
    let process = Process::start(&case.data, &[]);
    let looked = gleaner(&case.data, &["doctor"], &[]);
    assert_eq!(looked.status.code(), Some(0), "{}", said(&looked));
    for part in ["folder ", "tables ", "audit ", "pages ", "kept ", "search ", "sql ", "nothing is wrong"] {
        assert!(said(&looked).contains(part), "no {part} in {}", said(&looked));
    }
    let refused = gleaner(&case.data, &["doctor", "--repair"], &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("stop it first"), "{}", said(&refused));

    // A page that is altered under it, and an export.
    flip(&one(&case.path("pages"), ".zst"));
    flip(&one(&case.path("exports"), ".csv"));
    let looked = gleaner(&case.data, &["doctor", "--json"], &[]);
    assert_eq!(looked.status.code(), Some(1), "{}", said(&looked));
    let report: Value = serde_json::from_slice(&looked.stdout).unwrap();
    assert!(report["isRunning"] == true && report["isSound"] == false, "{report}");
    let parts: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|one| one["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["pages", "kept"], "{report}");
    let by_admin = gleaner(&case.data, &["admin", "doctor"], &[]);
    assert_eq!(by_admin.status.code(), Some(1), "{}", said(&by_admin));
    let by_admin: Value = serde_json::from_slice(&by_admin.stdout).unwrap();
    assert_eq!(by_admin["findings"], report["findings"]);
    // What it serves meanwhile is never what was altered.
    assert_eq!(process.terminate(), Some(0));
    sound.serves(&case, "altered under it", &["page of", "export"]).await;
    assert!(fs::metadata(case.path("gleaner.redb")).unwrap().len() > 0);
}
