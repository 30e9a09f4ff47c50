//! Requests at the body's limit: every list and every text, in monitors that are made and in those that are changed.

use super::{MONITORS, count_of_urls, make};
use crate::audit::patch;
use crate::harness::{Appliance, expect, get, post};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Beside the rest of the body, of which a MiB is taken.
const LARGE: usize = 1_040_000;
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_as_large_as_a_body_are_refused_soon_and_named_shortly() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let one = format!("{MONITORS}/{}", make(&ada.api, &count_of_urls("one")).await);
    let before = expect(get(&ada.api, &one).await, 200);
    let text = json!("x".repeat(LARGE));
    let spaces = json!(" ".repeat(LARGE));
    let nested = json!(format!("SELECT {}1{}", "(".repeat(LARGE / 2 - 100), ")".repeat(LARGE / 2 - 100)));
    let list = json!(format!("SELECT {}1", "1,".repeat(LARGE / 2 - 100)));
    let quoted = json!(format!("SELECT '{}'", "''".repeat(LARGE / 2 - 100)));
    let cases = [
        ("/name", &text, "name"),
        ("/name", &spaces, "name"),
        ("/sql", &text, ""),
        ("/sql", &spaces, ""),
        ("/sql", &nested, ""),
        ("/sql", &list, ""),
        ("/sql", &quoted, ""),
        ("/condition/value", &text, "condition.value"),
        ("/condition/op", &text, "op"),
        ("/condition/over", &text, "over"),
        ("/on/cron", &text, "on.cron"),
        ("/on/cron", &spaces, "on.cron"),
        ("/on/timezone", &text, "on.timezone"),
        ("/on/scheduleId", &text, "on.scheduleId"),
        ("/savedQueryId", &text, "savedQueryId"),
    ];
    for (path, value, named) in cases {
        let mut new = count_of_urls("new");
        let (parent, member) = path.rsplit_once('/').unwrap();
        let place = if parent.is_empty() { Some(&mut new) } else { new.pointer_mut(parent) };
        let place = place.unwrap().as_object_mut().unwrap();
        if member == "over" {
            place.remove("threshold");
            place.insert("changePercent".to_owned(), json!(-30));
        }
        place.insert(member.to_owned(), value.clone());
        let top = path.split('/').nth(1).unwrap();
        let change = json!({ top: new[top].clone() });
        for (what, begun, reply) in [
            ("made", Instant::now(), post(&ada.api, MONITORS, &new).await),
            ("changed", Instant::now(), patch(&ada.api, &one, &change).await),
        ] {
            // Two requests went out behind the first instant.
            assert!(begun.elapsed() < 2 * SOON, "{path}, {what}: {:?}", begun.elapsed());
            assert_eq!(reply.status, 400, "{path}, {what}: {}", head(&reply.text()));
            assert!(reply.text().contains(named), "{path}, {what}: {}", head(&reply.text()));
            assert!(reply.text().len() < 4_000, "{path}, {what}: {} bytes", reply.text().len());
        }
    }
    // Members that nobody knows, as many as there is room for.
    let mut odd = count_of_urls("odd");
    odd.as_object_mut().unwrap().extend((0..90_000).map(|n| (format!("a{n}"), json!(n))));
    let reply = post(&ada.api, MONITORS, &odd).await;
    assert!(reply.status.is_client_error() || reply.status == 201, "{}", head(&reply.text()));
    assert_eq!(expect(get(&ada.api, &one).await, 200)["sql"], before["sql"], "nothing was changed");
    // Beyond the limit, and beside somebody else, who is not kept waiting.
    let over = json!({ "name": "x".repeat(1 << 20) });
    assert_eq!(post(&ada.api, MONITORS, &over).await.status, 413);
    let begun = Instant::now();
    make(&eve.api, &count_of_urls("hers")).await;
    assert!(begun.elapsed() < SOON);
    at.stop().await;
}

fn head(text: &str) -> String {
    text.chars().take(300).collect()
}

/// The longest texts that are taken are kept and shown as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_at_their_own_limits_are_taken() {
    let at = Appliance::start().await;
    let ada = at.member("ada").await;
    let mut new = count_of_urls(&"ß".repeat(base::limits::NAME_CHARS_MAX));
    let statement = format!("SELECT count(*) AS n FROM urls WHERE url <> '{}'", "x".repeat(50_000));
    new["sql"] = json!(statement);
    let id = make(&ada.api, &new).await;
    let kept = expect(get(&ada.api, &format!("{MONITORS}/{id}")).await, 200);
    assert_eq!((&kept["sql"], &kept["name"]), (&json!(statement), &new["name"]));
    let longer: Value = json!({ "name": "ß".repeat(base::limits::NAME_CHARS_MAX + 1) });
    assert_eq!(patch(&ada.api, &format!("{MONITORS}/{id}"), &longer).await.status, 400);
    at.stop().await;
}
