//! Hostile statements against the whole appliance, while ordinary requests go on.
//!
//! Each statement must end by itself or be ended, with a code that fits; no ordinary request may fail meanwhile; and
//! nothing that was planted beside the organization's own rows (in files, in the environment, in another organization)
//! may ever be seen. Nothing here asserts how long something took: a statement that is not ended never answers, and the
//! bounded wait for it fails. The figures are printed (`--nocapture`); those of a release build come from
//! `cargo bench --bench hostile`, which does the same.

use crate::harness::hostile::attack;

/// What the server itself may take; each bomb would take gigabytes if it went off in it.
const SERVER_BYTES_MAX: u64 = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_statements_end_and_nobody_else_notices() {
    let found = attack().await;
    println!("{found}");
    assert!(found.statements >= 110, "{}", found.statements);
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
    assert!(found.failed.is_empty(), "{:#?}", found.failed);
    assert!(found.took.len() > 100, "ordinary requests went on meanwhile");
    assert!(found.server_bytes < SERVER_BYTES_MAX, "the server took {} bytes", found.server_bytes);
    assert!(!std::path::Path::new("/tmp/gleaner-stolen.csv").exists());
    assert_eq!(found.exit_code, Some(0), "the box lived, and ends well");
}
