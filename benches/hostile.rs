//! The corpus of hostile statements against a release build, while ordinary requests go on: `cargo bench --bench hostile`.
//!
//! It is the test's own (`tests/harness/src/hostile`): one second a statement, four senders, and from another organization fifty
//! ordinary requests a second in an open loop. What counts: every statement ends within its limit plus one second with
//! the right code, no ordinary request fails, their 99th percentile stays below 100 ms, and the server's memory below
//! 1 GiB. Takes a minute or two.

use harness::hostile::attack;

#[tokio::main]
async fn main() {
    println!("{} cores", std::thread::available_parallelism().map_or(0, usize::from));
    let found = attack().await;
    println!("{found}");
    for wrong in found.wrong.iter().chain(&found.failed) {
        println!("WRONG {wrong}");
    }
    assert_eq!(found.exit_code, Some(0), "the box lived, and ends well");
}
