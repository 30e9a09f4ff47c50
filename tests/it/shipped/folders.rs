//! What the box keeps is moved, unmounted or exchanged under it.

use super::{Place, ready};
use crate::harness::{eventually, get, post, text};
use serde_json::json;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_folder_that_went_away_is_missed_and_takes_no_writes() {
    let dir = TempDir::new().unwrap();
    let place = Place::at(dir.path());
    let served = place.serve();
    ready(&served).await;
    let client = served.client();
    let (data, aside) = (dir.path().join("data/var"), dir.path().join("data/aside"));
    let person = |name: &str| json!({ "email": format!("{name}@example.com"), "password": super::PASSWORD, "name": name });
    assert_eq!(post(&client, "/api/v1/auth/register", &person("ada")).await.status, 201);

    fs::rename(&data, &aside).unwrap();
    let failing = eventually("the folder is missed", Duration::from_secs(30), || async {
        let reply = get(&client, "/readyz").await;
        (reply.status == 503).then_some(reply.json)
    })
    .await;
    let reason = text(&failing["checks"], "disk");
    assert!(
        reason.contains(data.to_str().unwrap()) && reason.contains("moved, removed or unmounted"),
        "{reason}"
    );
    let refused = post(&client, "/api/v1/auth/register", &person("bob")).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("the data folder was moved or unmounted"), "{}", refused.text());

    fs::rename(&aside, &data).unwrap();
    let taken = eventually("writes are taken again", Duration::from_secs(30), || async {
        let reply = post(&client, "/api/v1/auth/register", &person("bob")).await;
        (reply.status == 201).then_some(reply.json)
    })
    .await;
    assert_eq!(taken["user"]["email"], "bob@example.com");
    ready(&served).await;
    assert_eq!(served.terminate(), Some(0));
}

/// With another box's keys a box would start, and open nothing of what its own have sealed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_box_s_key_file_is_refused_by_name() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for folder in [dir.path(), other.path()] {
        let place = Place::at(folder);
        let served = place.serve();
        place.done(&["admin", "user", "create", "ada@example.com", "--org", "Ada's"]);
        assert_eq!(served.terminate(), Some(0));
    }
    let place = Place::at(dir.path());
    let key = dir.path().join("data/var.key");
    let own = fs::read(&key).unwrap();
    fs::write(&key, fs::read(other.path().join("data/var.key")).unwrap()).unwrap();
    let (status, _, errors) = place.run(&["serve"]);
    assert_eq!(status, Some(1), "{errors}");
    for part in ["data/var.key are not those that", "gleaner.redb was written with", "storage.key_file"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    fs::write(&key, own).unwrap();
    let served = place.serve();
    ready(&served).await;
    assert_eq!(served.terminate(), Some(0));
    let (status, report, errors) = place.run(&["doctor"]);
    assert_eq!(status, Some(0), "the refused start has sealed nothing: {report}{errors}");
}
