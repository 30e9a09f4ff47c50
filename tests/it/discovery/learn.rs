//! Attributes that are taught by examples.

use super::{LEARN, collect_all, number, product};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Pages that say nothing of themselves.
async fn shop() -> Web {
    Web::open(|path| {
        let number = number(path, "/p/")?;
        let page = product(number, "");
        let bare = page.split("</script>").nth(1)?.to_owned();
        let maker = ["Acme", "Blum", "Cobo", "Dahl", "Eska", "Fein"][number % 6];
        let tags: String =
            (0..=number % 3).map(|tag| format!("<li class=tag>tag {number}.{tag}</li>")).collect();
        Some(Answer::html(format!(
            "<html lang=de>{bare}<p class=by>By {maker} &amp; Sons</p><ul>{tags}</ul>"
        )))
    })
    .await
}

fn lesson(jobs: &[Value], save: Option<bool>) -> Value {
    json!({ "domain": "127.0.0.1", "pageType": "product", "save": save, "examples": [
        { "jobId": jobs[0]["id"], "values": { "title": "Block plane", "amount": "48,50 €", "maker": "Acme & Sons",
          "tags": ["tag 0.0"] } },
        { "url": jobs[1]["url"], "values": { "title": "Fine saw", "amount": "61,20 €", "maker": "Blum & Sons",
          "tags": ["tag 1.0", "tag 1.1"] } },
        { "jobId": jobs[2]["id"], "values": { "title": "Bench vice", "amount": "189,90 €", "maker": "Cobo & Sons",
          "tags": ["tag 2.0", "tag 2.1", "tag 2.2"] } },
    ] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taught_is_read_from_the_next_job_on() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, other) = (at.member("ada").await, at.member("bob").await);
    let api = &member.api;
    let jobs = collect_all(api, &web, "/p/", 0..5).await;
    let learned = expect(post(api, LEARN, &lesson(&jobs, None)).await, 200);
    let mut names: Vec<&str> =
        learned["attributes"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
    names.sort_unstable();
    assert_eq!(names, ["amount", "maker", "tags", "title"], "{learned:#}");
    assert_eq!((&learned["leftOut"], &learned["isSaved"]), (&json!([]), &json!(false)));
    for one in learned["attributes"].as_array().unwrap() {
        assert!(one["confidence"].as_f64().unwrap() > 0.5 && one["coverage"] == 1.0, "{one}");
    }
    // The other pages, the newest first.
    assert_eq!(learned["preview"].as_array().unwrap().len(), 2);
    let newest = &learned["preview"][0];
    assert_eq!(newest["jobId"], jobs[4]["id"]);
    let values = json!({ "amount": 33.75, "maker": "Eska & Sons", "tags": ["tag 4.0", "tag 4.1"], "title": "Paring chisel" });
    assert_eq!(newest["values"], values);
    // A list is one although each page that is told has one member of it.
    let lone = |job: &Value, tag: &str| json!({ "jobId": job["id"], "values": { "tags": [tag] } });
    let examples = json!([lone(&jobs[0], "tag 0.0"), lone(&jobs[3], "tag 3.0")]);
    let asked = json!({ "domain": "127.0.0.1", "pageType": "product", "examples": examples });
    let lists = expect(post(api, LEARN, &asked).await, 200);
    assert_eq!(lists["attributes"][0]["type"], "text[]", "{lists:#}");
    assert_eq!(lists["preview"][0]["values"], json!({ "tags": ["tag 4.0", "tag 4.1"] }), "{lists:#}");
    // Nothing of it was kept.
    let attributes = "/api/v1/extraction/attributes/127.0.0.1";
    assert_eq!(get(api, attributes).await.status, 404);

    let first = json!({ "name": "amount", "xpaths": ["//nothing"], "type": "text" });
    expect(post(api, attributes, &first).await, 201);
    expect(post(api, attributes, &json!({ "name": "kept", "xpaths": ["//nav"], "type": "text" })).await, 201);
    let saved = expect(post(api, LEARN, &lesson(&jobs, Some(true))).await, 200);
    assert_eq!((&saved["isSaved"], &saved["attributes"]), (&json!(true), &learned["attributes"]));
    let own = expect(get(api, attributes).await, 200);
    let of = |name: &str| {
        let all = own["attributes"].as_array().unwrap().iter().filter(|one| one["name"] == name);
        all.cloned().collect::<Vec<_>>()
    };
    assert_eq!(own["attributes"].as_array().unwrap().len(), 5, "{own:#}");
    assert_eq!(
        (&of("amount")[0]["type"], &of("amount")[0]["pageType"]),
        (&json!("number"), &json!("product"))
    );
    assert_eq!(of("kept").len(), 1);

    let next = json!({ "url": web.url("/p/5"), "pageType": "product" });
    let next = expect(post(api, "/api/v1/jobs", &next).await, 201);
    let next = crate::harness::ended(api, text(&next, "id")).await;
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&next, "resultId"));
    let values = expect(get(api, &result).await, 200)["values"].clone();
    assert_eq!(
        (&values["title"], &values["amount"], &values["maker"]),
        (&json!("Marking gauge"), &json!(19.1), &json!("Fein & Sons"))
    );
    eventually("SQL has the column", Duration::from_secs(30), || async {
        let asked = json!({ "sql": "SELECT amount FROM products WHERE amount = 19.1", "waitMs": 10_000 });
        let answer = post(api, "/api/v1/bi/queries", &asked).await;
        (answer.status == 200 && answer.json["results"]["totalRows"] == 1).then_some(())
    })
    .await;
    // Nobody else has learned anything.
    let theirs = collect(&other.api, &web.url("/p/5")).await;
    let result = format!("/api/v1/extraction/results/by-id/{}", text(&theirs, "resultId"));
    assert_eq!(expect(get(&other.api, &result).await, 200)["values"], json!({}));
    assert_eq!(get(&other.api, attributes).await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_lesson_is_refused_by_name() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (member, stranger) = (at.member("ada").await, at.member("eve").await);
    let api = &member.api;
    let jobs = collect_all(api, &web, "/p/", 0..3).await;
    let with = |path: &str, value: Value| {
        let mut body = lesson(&jobs, Some(true));
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    let example = lesson(&jobs, None)["examples"][0].clone();
    let long: Vec<String> = (0..201).map(|number| number.to_string()).collect();
    for (body, part) in [
        (
            with("/examples/1/values/title", json!("Moon saw")),
            "examples[1].values.title: \"Moon saw\" does not stand",
        ),
        (
            with("/examples/2/values/tags", json!(["tag 2.0", "tag 9"])),
            "examples[2].values.tags: \"tag 9\" does not",
        ),
        (with("/examples/0/values/title", json!(7)), "examples[0].values"),
        (with("/examples/0/values/title", json!(" ")), "examples[0].values.title: "),
        (with("/examples/0/values/tags", json!(long)), "examples[0].values.tags: has more than 200"),
        (with("/examples/0/values", json!({ "a b": "x" })), "examples[0].values.a b: "),
        (with("/examples/0/jobId", Value::Null), "examples[0]: must name"),
        (with("/examples/1/url", json!("x")), "examples[1].url: "),
        (with("/examples", json!([example])), "examples: must be 2 to 10"),
        (with("/examples", json!([example, example])), "examples[1].jobId: is the page of an earlier"),
        (with("/examples", json!(vec![example; 11])), "examples: must be 2 to 10"),
        (with("/domain", json!("other.example")), "examples[0].jobId: its page is of 127.0.0.1"),
        (with("/pageType", json!("No type")), "pageType"),
    ] {
        refused(&post(api, LEARN, &body).await, 400, "Validation failed", part);
    }
    refused(
        &post(api, LEARN, &with("/examples/1/url", json!(web.url("/none")))).await,
        404,
        "Page not found",
        "examples[1].url",
    );
    assert_eq!(get(api, "/api/v1/extraction/attributes/127.0.0.1").await.status, 404, "nothing was saved");

    // Somebody else's page is one that there is not.
    let foreign = post(&stranger.api, LEARN, &lesson(&jobs, None)).await;
    let missing = post(&stranger.api, LEARN, &with("/examples/0/jobId", json!(Uuid::now_v7()))).await;
    assert_eq!((foreign.status.as_u16(), foreign.text()), (404, missing.text()));
    at.stop().await;
}

/// As much as a body takes, in each of its lists and texts: a refusal or an answer, and soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lesson_as_large_as_a_body_ends() {
    let web = shop().await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("ada").await;
    let api = &member.api;
    let jobs = collect_all(api, &web, "/p/", 0..3).await;
    let two = |values: Value| {
        json!({ "domain": "127.0.0.1", "pageType": "product", "examples": [
            { "jobId": jobs[0]["id"], "values": values }, { "jobId": jobs[1]["id"], "values": values } ] })
    };
    let names: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("a{n}"), json!("Shop"))).collect();
    let fifty: serde_json::Map<String, Value> =
        (0..50).map(|n| (format!("a{n}"), json!(vec!["Shop"; 200]))).collect();
    for (values, status) in [
        (json!({ "a": "x".repeat(500_000) }), 400),
        (json!({ "a": vec!["x"; 100_000] }), 400),
        (json!({ "x".repeat(400_000): "Shop" }), 400),
        (Value::Object(names), 400),
        (Value::Object(fifty), 200),
    ] {
        let begun = Instant::now();
        let reply = post(api, LEARN, &two(values)).await;
        assert_eq!(reply.status, status, "{}", &reply.text()[..reply.text().len().min(300)]);
        assert!(begun.elapsed() < Duration::from_secs(60) && reply.text().len() < 300_000);
    }
    let reply = post(
        api,
        LEARN,
        &json!({ "domain": "127.0.0.1", "pageType": "product", "examples": vec![json!({}); 50_000] }),
    )
    .await;
    assert_eq!(reply.status, 400);
    let ids: Vec<_> = (0..20_000).map(|_| Uuid::now_v7()).collect();
    for body in [
        json!({ "domain": "127.0.0.1", "jobIds": ids }),
        json!({ "domain": "127.0.0.1", "urls": vec!["http://a.example/"; 40_000] }),
        json!({ "domain": "127.0.0.1", "urls": ["x".repeat(900_000)] }),
        json!({ "domain": "x".repeat(900_000) }),
    ] {
        let reply = post(api, super::DISCOVER, &body).await;
        assert!(reply.status == 400 && reply.text().len() < 5_000, "{}", reply.status);
    }
    at.stop().await;
}
