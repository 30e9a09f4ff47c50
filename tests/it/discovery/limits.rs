//! Pages that ask for more than a reading or a lesson may cost: what was left out is named, and the box stays usable.

use super::{LEARN, number, product};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, expect, get, post, text};
use serde_json::{Value, json};
use std::fmt::Write;

const TRY: &str = "/api/v1/extraction/test-xpath";
/// More elements and texts than a lesson looks at.
const MANY: usize = 160_000;

async fn hostile() -> Web {
    Web::open(|path| {
        if let Some(number) = number(path, "/long/") {
            let page = product(number, "");
            let bare = page.split("</script>").nth(1)?.to_owned();
            return Some(Answer::html(bare + &"<i>x</i>".repeat(MANY)));
        }
        let json = |body: String| {
            let mut answer = Answer::html(&body);
            answer.headers = vec![("content-type".into(), "application/json".into())];
            Some(answer)
        };
        match path {
            // Each of the nested elements has all of the text.
            "/deep" => Some(Answer::html("<div>".repeat(5_000) + &"some text ".repeat(1_000))),
            "/many" => Some(Answer::html("<div>".repeat(1_000_000))),
            "/attributes" => {
                let attributes = (0..140_000).fold(String::new(), |mut all, n| {
                    let _ = write!(all, " data-attribute-{n}=value-{n}");
                    all
                });
                Some(Answer::html(format!("<p{attributes}>one</p>")))
            }
            "/entities" => Some(Answer::html(format!("<p>{}</p>", "&amp;".repeat(900_000)))),
            "/arrays" => json("[".repeat(1_000_000) + &"]".repeat(1_000_000)),
            "/wide" => json(format!("[{}]", "{\"a\":[1,2,3]},".repeat(200_000) + "{\"a\":[]}")),
            _ => Some(Answer::html("<h1>small</h1>")),
        }
    })
    .await
}

/// What became of each attribute: its value, or the reason why there is none.
fn reasons(tried: &Value) -> Vec<(&str, &str)> {
    let errors = tried["attributeErrors"].as_array().unwrap();
    errors.iter().map(|error| (text(error, "name"), text(error, "reason"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_page_may_cost_is_said_by_name() {
    let web = hostile().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, other) = (at.member("ada").await, at.member("bob").await);
    let attributes = json!([
        { "name": "texts", "xpaths": ["//div"], "type": "text[]" },
        { "name": "all", "jsonPaths": ["$..*..*..*..*"], "type": "text[]" },
        { "name": "one", "xpaths": ["//p"], "jsonPaths": ["$[0].a[0]"], "type": "text" },
    ]);
    for (path, expected) in [
        ("/deep", vec![("texts", "budget"), ("all", "not_found"), ("one", "not_found")]),
        ("/many", vec![("texts", "not_found"), ("all", "not_found"), ("one", "not_found")]),
        ("/attributes", vec![("texts", "not_found"), ("all", "not_found")]),
        ("/entities", vec![("texts", "not_found"), ("all", "not_found"), ("one", "too_large")]),
        ("/wide", vec![("texts", "not_found"), ("all", "budget")]),
    ] {
        let job = collect(&member.api, &web.url(path)).await;
        assert_eq!(job["status"], "succeeded", "{path}: {job}");
        let asked = json!({ "domain": "127.0.0.1", "pageType": "product", "jobId": job["id"], "attributes": attributes });
        let tried = expect(post(&member.api, TRY, &asked).await, 200);
        assert_eq!(reasons(&tried), expected, "{path}: {}", tried["attributeErrors"]);
        for error in tried["attributeErrors"].as_array().unwrap() {
            let says = error["detail"].as_str().unwrap_or_default();
            assert!(
                error["reason"] != "budget" || says.contains("xpaths[0]") || says.contains("jsonPaths[0]"),
                "{error}"
            );
        }
        // Somebody else's page is read meanwhile, and all the same.
        assert_eq!(collect(&other.api, &web.url("/small")).await["status"], "succeeded", "{path}");
    }
    // JSON that is nested deeper than is read says so for each.
    let job = collect(&member.api, &web.url("/arrays")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let asked =
        json!({ "domain": "127.0.0.1", "pageType": "product", "jobId": job["id"], "attributes": attributes });
    let tried = expect(post(&member.api, TRY, &asked).await, 200);
    assert_eq!(reasons(&tried), [("texts", "unreadable"), ("all", "unreadable"), ("one", "unreadable")]);
    let detail = tried["attributeErrors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("recursion limit exceeded at line 1"), "{detail}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lesson_says_what_it_has_not_looked_at() {
    let web = hostile().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let mut examples = Vec::new();
    for (n, name, price) in [(0, "Block plane", "48,50 €"), (1, "Fine saw", "61,20 €")] {
        let job = collect(&member.api, &web.url(&format!("/long/{n}"))).await;
        examples.push(json!({ "jobId": job["id"], "values": { "title": name, "amount": price } }));
    }
    let lesson = json!({ "domain": "127.0.0.1", "pageType": "product", "examples": examples });
    let learned = expect(post(&member.api, LEARN, &lesson).await, 200);
    let notes = learned["notes"].to_string();
    assert!(notes.contains("150000 texts and attributes"), "{notes}");
    // What stands before that is learned.
    let values = learned["attributes"].as_array().unwrap();
    assert!(values.iter().any(|one| one["name"] == "title"), "{learned}");
    assert_eq!(get(&member.api, "/api/v1/extraction/attributes/127.0.0.1").await.status, 404);
    at.stop().await;
}
