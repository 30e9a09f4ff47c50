//! Discoveries of others beside one's own, and of a process that was killed.

use super::{DISCOVER, collect_all, discovered, number, over, product};
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, expect, get, member, post, refused, text};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Small pages, and pages that show what they say in thousands of places.
async fn shop() -> Web {
    Web::open(|path| {
        let small = number(path, "/p/").map(|number| product(number, ""));
        let large = || {
            let number = number(path, "/large/")?;
            let page = product(number, "");
            let name = page.split("<h1>").nth(1)?.split("</h1>").next()?.to_owned();
            let crowd = format!("<p>{name}</p><i>12,00 €</i>").repeat(3_000);
            Some(page.replace("</body>", &format!("{crowd}</body>")))
        };
        let deep = || {
            let number = number(path, "/deep/")?;
            let around = "<div><span class=a>".repeat(60_000);
            Some(product(number, "").replace("<h1>", &format!("{around}<h1>")))
        };
        small.or_else(large).or_else(deep).map(Answer::html)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_discoveries_of_one_keep_nobody_waiting() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    collect_all(&busy.api, &web, "/large/", 0..5).await;
    collect_all(&mine.api, &web, "/p/", 0..4).await;
    let asked = json!({ "domain": "127.0.0.1" });
    let mut theirs = Vec::new();
    for _ in 0..20 {
        theirs.push(expect(post(&busy.api, DISCOVER, &asked).await, 202));
    }
    let own = discovered(&mine.api, &asked).await;
    assert_eq!(own["status"], "succeeded", "{own:#}");
    let mut open = 0;
    for one in &theirs {
        let path = format!("/api/v1/extraction/discoveries/{}", text(one, "id"));
        let one = expect(get(&busy.api, &path).await, 200);
        open += usize::from(one["status"] == "pending");
    }
    assert!(open > 0, "mine came after all of theirs");
    // Some of them end while more are asked for.
    let mut is_refused = false;
    for _ in 0..200 {
        is_refused = is_refused || post(&busy.api, DISCOVER, &asked).await.status == 429;
    }
    assert!(is_refused, "no more than twenty wait");
    refused(&post(&mine.api, DISCOVER, &json!({ "domain": "" })).await, 400, "Validation failed", "domain");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discovery_outlives_the_process() {
    let web = shop().await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str())];
    let process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "ada").await;
    let api = process.client().bearer(&owner.key);
    collect_all(&api, &web, "/large/", 0..4).await;
    let asked = json!({ "domain": "127.0.0.1" });
    let mut started: Vec<Value> = Vec::new();
    for _ in 0..4 {
        started.push(expect(post(&api, DISCOVER, &asked).await, 202));
    }
    let path = |one: &Value| format!("/api/v1/extraction/discoveries/{}", text(one, "id"));
    loop {
        let first = expect(get(&api, &path(&started[0])).await, 200);
        if first["status"] != "pending" {
            break;
        }
    }
    let last = expect(get(&api, &path(&started[3])).await, 200);
    assert!(matches!(text(&last, "status"), "pending" | "running"), "{last}");
    process.kill();
    let process = Process::start(&data, &settings);
    let api = process.client().bearer(&owner.key);
    for one in &started {
        let found = over(&api, one).await;
        assert_eq!(
            (&found["status"], &found["schema"]["version"]),
            (&json!("succeeded"), &json!(1)),
            "{found:#}"
        );
    }
    let listed = expect(get(&api, "/api/v1/extraction/schemas").await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "they all say the same");
}

/// Pages that are made to cost much: an end within the work that a discovery may do, and an answer that says what became of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_nest_without_end_teach_or_do_not() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    collect_all(&member.api, &web, "/deep/", 0..3).await;
    let found = discovered(&member.api, &json!({ "domain": "127.0.0.1", "pageType": "product" })).await;
    assert_eq!(found["sample"].as_array().unwrap().len(), 3, "{found:#}");
    assert!(found["status"] == "succeeded" || found["error"].is_string(), "{found:#}");
    at.stop().await;
}
