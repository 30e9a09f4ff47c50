//! A box on which a part is dead does not call itself ready, and says which and why.

use super::ready;
use crate::harness::Request;
use crate::harness::{Appliance, binary, eventually, get, text};
use base::clock::Clock;
use gleaner::admin;
use gleaner::app::App;
use gleaner::config::Config;
use server::client::Client;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_whose_workers_die_is_not_ready_until_they_live() {
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("gleaner");
    symlink("/bin/false", &program).unwrap();
    let data = dir.path().join("data").display().to_string();
    let settings =
        [("SERVER__LISTEN", "127.0.0.1:0"), ("STORAGE__DATA_DIR", &data), ("STORAGE__RESERVE_MB", "0")];
    let env = settings.map(|(key, value)| (format!("GLEANER_{key}"), value.to_owned()));
    let config = Config::load(None, env).unwrap();
    let app = App::start_with(config, Clock::system(), program.clone()).await.unwrap();
    let client = Client::new(app.url());
    let state = async || {
        let status = admin::call(&app.socket(), &Request::Status).await.unwrap();
        text(&status["selfTest"]["sql"], "state").to_owned()
    };
    let metric = async |value: u8| {
        let page = get(&client, "/metrics").await.text();
        page.contains(&format!("gleaner_self_test_passed{{part=\"sql\"}} {value}\n"))
    };
    let failing = eventually("the self-test fails", Duration::from_secs(30), || async {
        let reply = get(&client, "/readyz").await;
        assert_eq!(reply.status, 503, "{}", reply.text());
        (reply.json["status"] == "failing").then_some(reply.json)
    })
    .await;
    let reason = text(&failing, "reason");
    assert!(reason.starts_with("selfTest: sql: a SQL statement could not be run"), "{failing}");
    assert_eq!(failing["checks"]["store"], "ok", "{failing}");
    assert_eq!((state().await.as_str(), metric(0).await), ("failed", true));

    std::fs::remove_file(&program).unwrap();
    symlink(binary(), &program).unwrap();
    eventually("the next try passes", Duration::from_secs(60), || async {
        (get(&client, "/readyz").await.status == 200).then_some(())
    })
    .await;
    assert_eq!((state().await.as_str(), metric(1).await), ("passed", true));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_called_by_its_name() {
    // A terabyte is to be kept free, which no disk of a test has.
    let appliance = Appliance::start_with(&[("STORAGE__RESERVE_MB", "1048576")]).await;
    let client = appliance.client();
    let full = eventually("the disk is full", Duration::from_secs(30), || async {
        let reply = get(&client, "/readyz").await;
        (reply.status == 503 && reply.json["checks"]["disk"] != "ok").then_some(reply.json)
    })
    .await;
    assert_eq!(full["status"], "failing", "{full}");
    assert!(text(&full, "reason").contains("free space"), "{full}");
    appliance.stop().await;
}

/// Each start tries anew, and leaves nothing of it behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_self_test_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let place = super::Place::at(dir.path());
    for _ in 0..2 {
        let served = place.serve();
        ready(&served).await;
        let status = place.done(&["admin", "status"]);
        assert_eq!(status["sql"]["workersResting"], 0, "{status}");
        let results = std::fs::read_dir(dir.path().join("data/var/results")).unwrap();
        assert_eq!(results.count(), 0);
        assert_eq!(served.terminate(), Some(0));
    }
}
