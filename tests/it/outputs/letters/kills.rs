//! `kill -9` while letters are sent: none is lost, and one that comes again is the same one.

use super::{OUTPUTS, expect, get, letters, post, text};
use crate::harness::process::Process;
use crate::harness::smtp::MailServer;
use crate::harness::{eventually, member};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tempfile::TempDir;

const KILLS: u64 = 8;
const OUTPUTS_PER_ROUND: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_box_loses_no_letter_and_sends_the_same_one_again_at_most() {
    let server = MailServer::plain().await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let settings = server.settings(dir.path());
    let mut settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    // Links in letters lead there, and each start of the test's box is at another port.
    settings.push(("SERVER__PUBLIC_URL", "https://box.example"));
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "kills").await;
    let mut made = Vec::new();
    for round in 0..KILLS {
        let api = process.client().bearer(&owner.key);
        for n in 0..OUTPUTS_PER_ROUND {
            let new = json!({
                "kind": "email", "events": ["job.queued"], "tags": [format!("r{round}")],
                "name": format!("output {round}-{n}"), "email": { "recipients": [owner.email] },
            });
            made.push(text(&expect(post(&api, OUTPUTS, &new).await, 201), "id").to_owned());
        }
        let job = json!({ "url": "http://nobody.invalid/", "tags": [format!("r{round}")] });
        expect(post(&api, "/api/v1/jobs", &job).await, 201);
        tokio::time::sleep(Duration::from_millis(60 + 45 * round)).await;
        process.kill();
        process = Process::start(&data, &settings);
    }
    let api = process.client().bearer(&owner.key);
    eventually("the ledger says that all are delivered", Duration::from_secs(90), || async {
        let mut all = 0;
        for id in &made {
            let view = expect(get(&api, &format!("{OUTPUTS}/{id}")).await, 200);
            all += usize::from(view["delivered"] == 1 && view["pending"] == 0 && view["missed"] == 0);
        }
        (all == made.len()).then_some(())
    })
    .await;
    let (mut ids, all) = (BTreeMap::new(), letters(&server, &owner.email));
    let mut outputs = BTreeMap::<String, String>::new();
    for letter in &all {
        let id = letter.header("message-id").unwrap();
        assert_eq!(
            ids.entry(id.clone()).or_insert_with(|| letter.data.clone()),
            &letter.data,
            "the same letter"
        );
        let plain = letter.parts().remove(0);
        let name = plain.split("from its output \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        assert_eq!(outputs.entry(name).or_insert(id.clone()), &id, "one letter of one output");
    }
    assert_eq!((ids.len(), outputs.len()), (made.len(), made.len()));
    println!("{} letters for {} over {KILLS} kills", all.len(), made.len());
    assert_eq!(process.terminate(), Some(0));
}
