//! What led where: the jobs of a crawl name the page on which their own was found first.

use super::{all, box_for, make};
use crate::harness::text;
use crate::harness::web::{Answer, Web};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_says_which_one_led_to_it() {
    let page = |links: &str| Some(Answer::html(format!("<title>a page</title>{links}")));
    let web = Web::open(move |path| match path {
        "/" => page("<a href=/a>a</a> <a href=/b>b</a>"),
        "/a" => page("<p>a</p><a href=/c>c</a>"),
        "/b" => page("<p>b</p><a href=/c>c</a> <a href=/>home</a>"),
        "/c" => page("<p>c</p>"),
        _ => None,
    })
    .await;
    let at = box_for(&web).await;
    let api = at.member("ada").await.api;
    let input = make(&api, &json!({ "kind": "crawl", "startUrls": [web.url("/")], "depth": 5 })).await;
    let run = super::run(&api, &input, &json!({})).await;
    let jobs = all(&api, &format!("/api/v1/jobs?limit=200&batchId={}", text(&run, "batchId"))).await;
    let led: BTreeMap<&str, &Value> =
        jobs.iter().map(|job| (text(job, "url"), &job["metadata"]["foundOn"])).collect();
    assert_eq!(led.len(), 4, "{led:?}");
    assert_eq!(led[web.url("/").as_str()], &json!(null), "the start was found nowhere");
    for leaf in ["/a", "/b"] {
        assert_eq!(led[web.url(leaf).as_str()], &json!(web.url("/")), "{leaf}");
    }
    // Whichever of the two was read first.
    let above = led[web.url("/c").as_str()].as_str().unwrap();
    assert!([web.url("/a"), web.url("/b")].iter().any(|one| one == above), "{above}");
    at.stop().await;
}
