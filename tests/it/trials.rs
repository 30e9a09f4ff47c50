//! Trying attributes on stored pages, through HTTP: testXpath, getJobResult.

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use uuid::Uuid;

const TEST: &str = "/api/v1/extraction/test-xpath";

async fn shop() -> Web {
    Web::open(|path| match path {
        "/many" => Some(Answer::html("<b>1</b>".repeat(1_000))),
        "/deep" => Some(Answer::html("<div>".repeat(200_000))),
        _ => {
            let name = path.strip_prefix("/plane/")?;
            let page = format!(
                "<title>{name}</title><h1 id=name>Plane {name}</h1><p class='price now'>from <b>$ 12.50</b></p>\
                 <a href='/next'>next</a>"
            );
            Some(Answer::html(page))
        }
    })
    .await
}

fn asked(attributes: Value) -> Value {
    json!({ "domain": "127.0.0.1", "pageType": "product", "attributes": attributes })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_is_mended_without_another_tool() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let api = &member.api;
    let name = json!([{ "name": "name", "xpaths": ["//h1"], "type": "text" }]);
    refused(&post(api, TEST, &asked(name.clone())).await, 404, "Page not found", "collect one");
    let first = collect(api, &web.url("/plane/first")).await;
    let second = collect(api, &web.url("/plane/second")).await;

    let attributes = json!([
        { "name": "name", "xpaths": ["//h2", "//h1"], "type": "text" },
        { "name": "price", "xpaths": ["//p", "//b"], "type": "number", "antiPatterns": ["^from"] },
        { "name": "next", "xpaths": ["//a/@href"], "type": "url" },
        { "name": "stock", "xpaths": ["//*[@class='stock']"], "type": "boolean" },
    ]);
    let tried = expect(post(api, TEST, &asked(attributes)).await, 200);
    // The newest page of the domain.
    assert_eq!((&tried["jobId"], &tried["url"]), (&second["id"], &json!(web.url("/plane/second"))));
    let values = json!({ "name": "Plane second", "price": 12.5, "next": web.url("/next") });
    assert_eq!(tried["values"], values);
    assert_eq!(tried["qualityScore"], json!({ "completeness": 0.75, "validation": 1.0, "composite": 0.85 }));
    assert_eq!(tried["attributeErrors"], json!([{ "name": "stock", "reason": "not_found", "detail": null }]));
    let of_name = &tried["attributes"][0];
    assert_eq!((&of_name["name"], &of_name["matched"]), (&json!("name"), &json!(1)));
    let nothing = json!({ "reason": "not_found", "detail": "it selects nothing", "nodes": 0, "first": null });
    assert_eq!(of_name["xpaths"][0], nothing);
    let heading =
        json!({ "tag": "h1", "id": "name", "classes": [], "attribute": null, "text": "Plane second" });
    assert_eq!(of_name["xpaths"][1], json!({ "reason": null, "detail": null, "nodes": 1, "first": heading }));
    let of_price = &tried["attributes"][1]["xpaths"][0];
    assert_eq!(
        (&of_price["reason"], &of_price["first"]["classes"]),
        (&json!("anti_pattern"), &json!(["price", "now"]))
    );
    assert_eq!(tried["attributes"][2]["xpaths"][0]["first"]["attribute"], "href");
    assert_eq!((&tried["attributes"][3]["matched"], &tried["outlinesOmitted"]), (&Value::Null, &json!(0)));

    // A job's own page; and nothing of all that is kept.
    let mut older = asked(name);
    older["jobId"] = first["id"].clone();
    let older = expect(post(api, TEST, &older).await, 200);
    assert_eq!((&older["jobId"], &older["values"]["name"]), (&first["id"], &json!("Plane first")));
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&first, "resultId"));
    assert_eq!(expect(get(api, &result).await, 200)["values"], json!({}));
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_tried_is_refused_by_name() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let job = collect(api, &web.url("/plane/mine")).await;
    let one = |xpath: &str| json!([{ "name": "a", "xpaths": [xpath], "type": "text" }]);
    let long = "x".repeat(17_000);
    let many: Vec<_> =
        (0..201).map(|n| json!({ "name": format!("a{n}"), "xpaths": ["//b"], "type": "text" })).collect();
    let patterned: Vec<_> = (0..50)
        .map(|n| format!("//b[re:test(., 'a{n}') or re:test(., 'b{n}') or re:test(., 'c')]"))
        .collect();
    for (attributes, part) in [
        (json!([]), "attributes: at least one"),
        (one("//b["), "attributes[0].xpaths[0]: "),
        (one(&long), "attributes[0].xpaths[0]: "),
        (json!([{ "name": "a", "xpaths": [], "type": "text" }]), "attributes[0].xpaths: at least one"),
        (json!(many), "attributes: more than 200"),
        (
            json!([{ "name": "a", "xpaths": ["//b"], "type": "text" }, { "name": "b", "xpaths": patterned, "type": "text" }]),
            "attributes[1]: more than 100 regular",
        ),
        (
            json!([{ "name": "a", "xpaths": ["//b"], "type": "text", "antiPatterns": ["("] }]),
            "attributes[0].antiPatterns[0]: ",
        ),
    ] {
        refused(&post(api, TEST, &asked(attributes)).await, 400, "Validation failed", part);
    }
    let mut wrong = asked(one("//b"));
    wrong["domain"] = json!("a b");
    refused(&post(api, TEST, &wrong).await, 400, "Validation failed", "domain: ");
    wrong["domain"] = json!("other.example");
    refused(&post(api, TEST, &wrong).await, 404, "Page not found", "");
    wrong["jobId"] = job["id"].clone();
    refused(&post(api, TEST, &wrong).await, 400, "Validation failed", "jobId: its page is of 127.0.0.1");

    // Somebody else's job is one that there is not, and somebody else's pages are none of the domain's.
    let mut foreign = asked(one("//h1"));
    refused(&post(&stranger.api, TEST, &foreign).await, 404, "Page not found", "");
    foreign["jobId"] = job["id"].clone();
    let of_foreign = post(&stranger.api, TEST, &foreign).await;
    foreign["jobId"] = json!(Uuid::now_v7());
    let of_missing = post(&stranger.api, TEST, &foreign).await;
    assert_eq!((of_foreign.status.as_u16(), of_foreign.text()), (404, of_missing.text()));

    // A page that has gone by itself, with its result.
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&job, "resultId"));
    assert_eq!(api.delete(&result).await.unwrap().status, 204);
    refused(&post(api, TEST, &asked(one("//h1"))).await, 404, "Page not found", "");
    at.stop().await;
}

/// Work is bounded by the page and not by the clock, and who asks for much of it waits for themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_trials_end_and_keep_nobody_waiting() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (busy, mine) = (at.member("busy").await, at.member("mine").await);
    for path in ["/deep", "/many"] {
        collect(&busy.api, &web.url(path)).await;
    }
    collect(&mine.api, &web.url("/plane/mine")).await;
    let heavy = asked(json!([
        { "name": "a", "xpaths": ["//b[count(preceding::b[. = 'x']) > 1]"], "type": "text" },
    ]));
    let done = Arc::new(AtomicUsize::new(0));
    let theirs: Vec<_> = (0..8)
        .map(|_| {
            let (api, heavy, done) = (busy.api.clone(), heavy.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let reply = post(&api, TEST, &heavy).await;
                done.fetch_add(1, Ordering::SeqCst);
                reply
            })
        })
        .collect();
    eventually("theirs have begun", Duration::from_secs(30), || async {
        (done.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    let own = asked(json!([{ "name": "name", "xpaths": ["//h1"], "type": "text" }]));
    let tried = expect(post(&mine.api, TEST, &own).await, 200);
    let before = done.load(Ordering::SeqCst);
    assert_eq!(tried["values"]["name"], "Plane mine");
    assert!(before < 8, "mine came after all of theirs");
    for reply in theirs {
        let reply = expect(reply.await.unwrap(), 200);
        assert_eq!(reply["values"], json!({}));
    }
    // As many XPaths as a request may have: an answer, and a bounded one. A page as deep as it is long.
    let try_on = async |path: &str, attributes: Value| {
        let jobs = expect(get(&busy.api, "/api/v1/jobs").await, 200);
        let job = jobs["items"].as_array().unwrap().iter().find(|job| text(job, "url").ends_with(path));
        let mut body = asked(attributes);
        body["jobId"] = job.unwrap()["id"].clone();
        post(&busy.api, TEST, &body).await
    };
    let xpaths = vec!["//u|//b"; 50];
    let many: Vec<_> =
        (0..200).map(|n| json!({ "name": format!("a{n}"), "xpaths": xpaths, "type": "text" })).collect();
    let reply = try_on("/many", json!(many)).await;
    assert!(reply.bytes.len() < 4 << 20, "{} bytes", reply.bytes.len());
    let tried = expect(reply, 200);
    assert_eq!(tried["attributes"].as_array().unwrap().len(), 200);
    let deep = json!([{ "name": "a", "xpaths": ["//div//div"], "type": "text" }]);
    let tried = expect(try_on("/deep", deep).await, 200);
    assert_eq!(tried["attributeErrors"][0]["reason"], "not_found", "{tried}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jobs_result_is_told_without_its_values() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let job = collect(&member.api, &web.url("/plane/one")).await;
    let path = format!("/api/v1/jobs/{}/result", text(&job, "id"));
    let told = eventually("the result is indexed", Duration::from_secs(10), || async {
        let reply = get(&member.api, &path).await;
        if reply.status == 202 {
            assert_eq!((reply.header("retry-after"), &reply.json["indexingPending"]), ("5", &json!(true)));
            return None;
        }
        Some(expect(reply, 200))
    })
    .await;
    assert_eq!((&told["id"], &told["jobId"]), (&job["resultId"], &job["id"]));
    assert_eq!((&told["pageType"], &told["quality"]), (&Value::Null, &Value::Null));
    assert!(told["byteSize"].as_u64() > Some(100) && told["storedSize"].as_u64() > Some(0), "{told}");
    assert!(text(&told, "contentType").starts_with("text/html") && told["indexedAt"].is_string(), "{told}");
    assert!(told.get("values").is_none());
    let foreign = get(&stranger.api, &path).await;
    refused(&foreign, 404, "Job not found", "");
    let failed = collect(&member.api, &web.url("/absent")).await;
    let path = format!("/api/v1/jobs/{}/result", text(&failed, "id"));
    refused(&get(&member.api, &path).await, 404, "Result not found", "");
    at.stop().await;
}
