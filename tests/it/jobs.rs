//! Jobs through HTTP: submitJob, submitJobs, pollJobs, listJobs, getJob, cancelJob, retryJob.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, ended, eventually, expect, get, post, refused, text};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn shop(path: &str) -> Option<Answer> {
    let far = "http://169.254.169.254/latest/meta-data/";
    Some(match path {
        "/page" => Answer::html("<title>A page</title><h1>Hello</h1>"),
        "/gone" => Answer::status(410),
        "/busy" => Answer::status(503),
        "/walled" => Answer::status(403),
        "/slow" => Answer::html("late").after_ms(60_000),
        "/to-metadata" => Answer::redirect(far),
        "/to-mapped" => Answer::redirect("http://[::ffff:169.254.169.254]/"),
        "/to-file" => Answer::redirect("file:///etc/passwd"),
        "/to-name" => Answer::redirect("http://inside.test/"),
        "/to-page" => Answer::redirect("/page"),
        "/round" => Answer::redirect("/round"),
        _ => return None,
    })
}

async fn start(web: &Web) -> Appliance {
    let hosts = "{ \"inside.test\" = [\"10.9.8.7\"], \"meta.test\" = [\"169.254.169.254\"] }";
    Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("NETWORK__HOSTS", hosts)]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_from_queued_to_its_result() {
    let web = Web::open(shop).await;
    let appliance = start(&web).await;
    let member = appliance.member("jobs").await;
    expect(post(&member.api, "/api/v1/urls", &json!({ "urls": [web.url("/page")] })).await, 200);
    let new = json!({ "url": web.url("/page"), "priority": 9, "tags": ["a"], "metadata": { "order": 7 } });
    let submitted = expect(post(&member.api, "/api/v1/jobs", &new).await, 201);
    assert_eq!((&submitted["status"], &submitted["priority"]), (&json!("queued"), &json!(9)));
    assert!(submitted["urlId"].is_string(), "a registered URL is recognized");
    let job = ended(&member.api, text(&submitted, "id")).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(job["attempts"][0]["outcome"], "success");
    assert_eq!(job["attempts"][0]["httpStatus"], 200);
    assert_eq!(job["creditsCharged"], 1);
    assert_eq!(job["metadata"], json!({ "order": 7 }));
    let url = expect(get(&member.api, &format!("/api/v1/urls/{}", text(&job, "urlId"))).await, 200);
    assert_eq!((&url["lastJobId"], &url["lastStatus"]), (&job["id"], &json!("succeeded")));
    assert_eq!(url["lastScrapedAt"], job["attempts"][0]["startedAt"]);

    let redirected = collect(&member.api, &web.url("/to-page")).await;
    assert_eq!(redirected["status"], "succeeded");
    // getCurrentPlan
    let plan = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!((&plan["remainingCredits"], &plan["usedThisPeriod"]), (&json!(999_998), &json!(2)));
    // listPlans, listTransactions
    let ledger = expect(get(&member.api, "/api/v1/plans/transactions?kind=reserve").await, 200);
    assert_eq!(ledger["items"].as_array().unwrap().len(), 2);
    let plans = expect(get(&member.api, "/api/v1/plans").await, 200);
    assert!(plans["items"].as_array().unwrap().iter().any(|plan| plan["id"] == "appliance"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_told_apart_and_cost_what_they_should() {
    let web = Web::open(shop).await;
    let appliance = start(&web).await;
    let member = appliance.member("failures").await;
    for (path, outcome, credits, part) in [
        ("/gone", "target_error", 1, "410"),
        ("/missing", "target_error", 1, "404"),
        ("/walled", "blocked", 0, "403"),
        ("/busy", "target_error", 0, "503"),
        ("/round", "target_error", 0, "redirects"),
        ("/to-metadata", "target_error", 0, "never allowed"),
        ("/to-mapped", "target_error", 0, "never allowed"),
        ("/to-file", "target_error", 0, "http or https"),
        ("/to-name", "network_error", 0, "has no address to fetch from"),
    ] {
        let job = collect(&member.api, &web.url(path)).await;
        assert_eq!(job["status"], "failed", "{path}: {job}");
        assert_eq!(job["attempts"][0]["outcome"], outcome, "{path}: {job}");
        assert_eq!(job["creditsCharged"], credits, "{path}: {job}");
        assert!(
            text(&job, "error").contains(part),
            "{path}: \"{part}\" is not in \"{}\"",
            text(&job, "error")
        );
        assert_eq!(job["resultId"], Value::Null);
    }
    let named = collect(&member.api, "http://meta.test/").await;
    assert_eq!(named["status"], "failed", "{named}");
    assert!(!text(&named, "error").contains("169.254"), "a name's address is not told: {named}");
    let slow = json!({ "url": web.url("/slow"), "options": { "timeoutMs": 200 } });
    let slow = expect(post(&member.api, "/api/v1/jobs", &slow).await, 201);
    let slow = ended(&member.api, text(&slow, "id")).await;
    assert_eq!(slow["attempts"][0]["outcome"], "timeout", "{slow}");
}

/// getJob, listJobs, pollJobs, the console's `jobs`: a result that was deleted is named by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_result_was_deleted_says_so() {
    let web = Web::open(shop).await;
    let appliance = start(&web).await;
    let member = appliance.member("deleted").await;
    let api = &member.api;
    let (gone, kept) = (collect(api, &web.url("/page")).await, collect(api, &web.url("/page")).await);
    assert_eq!((gone["resultId"].is_string(), &gone["resultDeleted"]), (true, &json!(false)));
    let told = async || {
        let sql = json!({ "sql": "SELECT id, result_id FROM jobs ORDER BY created_at", "waitMs": 10_000 });
        let answer = post(api, "/api/v1/bi/queries", &sql).await;
        let rows = answer.json["results"]["rows"].as_array()?.clone();
        (rows.len() == 2).then(|| rows.iter().map(|row| row["result_id"].clone()).collect::<Vec<_>>())
    };
    let wait = Duration::from_secs(60);
    let both = [gone["resultId"].clone(), kept["resultId"].clone()];
    eventually("the console has both", wait, || async { told().await.filter(|told| *told == both) }).await;
    let path = format!("/api/v1/extraction/results/by-id/{}", text(&gone, "resultId"));
    assert_eq!(api.send(http::Method::DELETE, &path, None).await.unwrap().status, 204);

    let job = expect(get(api, &format!("/api/v1/jobs/{}", text(&gone, "id"))).await, 200);
    assert_eq!((&job["resultId"], &job["resultDeleted"]), (&Value::Null, &json!(true)));
    assert_eq!(job["status"], "succeeded", "what came of it stays");
    let listed = expect(get(api, "/api/v1/jobs").await, 200);
    let of = |job: &Value| (job["resultId"].clone(), job["resultDeleted"].clone());
    assert_eq!(of(&listed["items"][0]), (kept["resultId"].clone(), json!(false)));
    assert_eq!(of(&listed["items"][1]), (Value::Null, json!(true)));
    let ids = json!({ "ids": [gone["id"], kept["id"]] });
    let polled = expect(post(api, "/api/v1/jobs/poll", &ids).await, 200);
    let polled: Vec<_> =
        polled["items"].as_array().unwrap().iter().map(|one| one["resultId"].clone()).collect();
    let left = [Value::Null, kept["resultId"].clone()];
    assert_eq!(polled, left);
    eventually("the console follows", wait, || async { told().await.filter(|told| *told == left) }).await;
    appliance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_never_fetches_itself() {
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", "[\"127.0.0.0/8\"]")]).await;
    let member = appliance.member("itself").await;
    let url = format!("{}/api/v1/jobs", appliance.app().url());
    refused(
        &post(&member.api, "/api/v1/jobs", &json!({ "url": url })).await,
        400,
        "Invalid URL",
        "appliance itself",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_submissions_are_refused_with_the_field() {
    let appliance = Appliance::start().await;
    let member = appliance.member("badjobs").await;
    let page = "https://example.com/";
    for (body, sentence, part) in [
        (json!({}), "Validation failed", "url: is missing"),
        (json!({ "url": page, "urlId": uuid::Uuid::now_v7() }), "Validation failed", "not both"),
        (json!({ "url": "file:///etc/passwd" }), "Invalid URL", "http or https"),
        (json!({ "url": "http://127.0.0.1/" }), "Invalid URL", "loopback"),
        (json!({ "url": "http://[::ffff:169.254.169.254]/" }), "Invalid URL", "never allowed"),
        (json!({ "url": "http://0x7f.1/" }), "Invalid URL", "loopback"),
        (json!({ "url": "http://u:p@example.com/" }), "Invalid URL", "user name"),
        (json!({ "url": page, "priority": 10 }), "Validation failed", "priority"),
        (json!({ "url": page, "priority": "high" }), "Validation failed", "priority"),
        (json!({ "url": page, "pageType": "poem" }), "Validation failed", "pageType"),
        (json!({ "url": page, "externalId": "" }), "Validation failed", "externalId"),
        (json!({ "url": page, "options": { "timeoutMs": 1 } }), "Validation failed", "options.timeoutMs"),
        (json!({ "url": page, "options": { "country": "Germany" } }), "Validation failed", "options.country"),
        (
            json!({ "url": page, "options": { "headers": { "a b": "c" } } }),
            "Validation failed",
            "options.headers",
        ),
        (
            json!({ "url": page, "options": { "headers": { "X-A": "1", "x-a": "2" } } }),
            "Validation failed",
            "options.headers.x-a: is given twice",
        ),
        (json!({ "url": page, "tags": ["a\nb"] }), "Validation failed", "tags[0]"),
        (json!({ "url": page, "metadata": { "k": "x".repeat(20_000) } }), "Validation failed", "metadata"),
    ] {
        refused(&post(&member.api, "/api/v1/jobs", &body).await, 400, sentence, part);
    }
    // What the box writes itself is not dropped in silence.
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "HTTP2-Settings",
        "Proxy-Authorization",
        "Accept-Encoding",
    ] {
        let one = json!({ "url": page, "options": { "headers": { name: "x", "Accept": "text/html" } } });
        let part = format!("options.headers.{name}: is written by the box itself: ");
        refused(&post(&member.api, "/api/v1/jobs", &one).await, 400, "Validation failed", &part);
        let batch = post(&member.api, "/api/v1/jobs/batch", &json!({ "jobs": [{ "url": page }, one] })).await;
        refused(&batch, 400, "Validation failed", &format!("jobs[1].{part}"));
    }
    let missing = json!({ "urlId": uuid::Uuid::now_v7() });
    refused(&post(&member.api, "/api/v1/jobs", &missing).await, 404, "URL not found", "urlId");
    let missing = json!({ "url": page, "workflowId": uuid::Uuid::now_v7() });
    refused(&post(&member.api, "/api/v1/jobs", &missing).await, 404, "Workflow not found", "workflowId");
    let large = json!({ "url": page, "metadata": { "k": "x".repeat(2 << 20) } });
    assert_eq!(post(&member.api, "/api/v1/jobs", &large).await.status, 413);
    let viewless =
        member.api.send_bytes(http::Method::POST, "/api/v1/jobs", Some("text/plain"), "{}").await.unwrap();
    assert_eq!(viewless.status, 415);
    assert!(expect(get(&member.api, "/api/v1/jobs").await, 200)["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_all_or_nothing() {
    let web = Web::open(shop).await;
    let appliance = start(&web).await;
    let member = appliance.member("batch").await;
    let page = json!({ "url": web.url("/page") });
    let half = json!({ "jobs": [page, { "url": "http://10.0.0.1/" }] });
    refused(&post(&member.api, "/api/v1/jobs/batch", &half).await, 400, "Invalid URL", "jobs[1].url");
    let gone = json!({ "jobs": [page, { "urlId": uuid::Uuid::now_v7() }] });
    refused(&post(&member.api, "/api/v1/jobs/batch", &gone).await, 404, "URL not found", "");
    refused(
        &post(&member.api, "/api/v1/jobs/batch", &json!({ "jobs": [] })).await,
        400,
        "Validation failed",
        "jobs",
    );
    assert!(expect(get(&member.api, "/api/v1/jobs").await, 200)["items"].as_array().unwrap().is_empty());

    let whole = json!({ "jobs": vec![page; 30] });
    let batch = expect(post(&member.api, "/api/v1/jobs/batch", &whole).await, 201);
    let ids: Vec<_> = batch["jobs"].as_array().unwrap().iter().map(|job| text(job, "id")).collect();
    for id in &ids {
        assert_eq!(ended(&member.api, id).await["status"], "succeeded");
    }
    let unknown = uuid::Uuid::now_v7().to_string();
    let asked: Vec<_> = ids.iter().copied().chain([unknown.as_str()]).collect();
    let polled = expect(post(&member.api, "/api/v1/jobs/poll", &json!({ "ids": asked })).await, 200);
    assert_eq!(polled["items"].as_array().unwrap().len(), 30);
    assert_eq!(polled["missing"], json!([unknown]));
    refused(
        &post(&member.api, "/api/v1/jobs/poll", &json!({ "ids": ["x"] })).await,
        400,
        "Validation failed",
        "ids[0]",
    );
    let listed = expect(get(&member.api, "/api/v1/jobs?status=succeeded&limit=200").await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 30);
    let none = expect(get(&member.api, "/api/v1/jobs?from=2100-01-01").await, 200);
    assert!(none["items"].as_array().unwrap().is_empty());
    refused(&get(&member.api, "/api/v1/jobs?from=soon").await, 400, "Validation failed", "from");
    refused(&get(&member.api, "/api/v1/jobs?status=lost").await, 400, "Validation failed", "status");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_id_makes_a_retry_safe() {
    let web = Web::open(shop).await;
    let appliance = start(&web).await;
    let member = appliance.member("external").await;
    let body = json!({ "url": web.url("/page"), "externalId": "order-1" });
    let first = expect(post(&member.api, "/api/v1/jobs", &body).await, 201);
    let again = expect(post(&member.api, "/api/v1/jobs", &body).await, 200);
    assert_eq!(first["id"], again["id"]);
    // The same request however its members are ordered, and another one however little differs.
    let spelled = async |body: String| {
        let media = Some("application/json");
        member.api.send_bytes(http::Method::POST, "/api/v1/jobs", media, body).await.unwrap()
    };
    let url = web.url("/page");
    let order = spelled(format!(
        r#"{{"url":"{url}","externalId":"o2","metadata":{{"a":1,"b":{{"x":[{{"m":1,"n":2}}],"y":null}}}},"options":{{"headers":{{"X-A":"1","X-B":"2"}},"render":false}}}}"#
    ));
    let order = expect(order.await, 201);
    let reordered = spelled(format!(
        r#"{{"options":{{"render":false,"headers":{{"X-B":"2","X-A":"1"}}}},"metadata":{{"b":{{"y":null,"x":[{{"n":2,"m":1}}]}},"a":1}},"externalId":"o2","url":"{url}"}}"#
    ));
    assert_eq!(expect(reordered.await, 200)["id"], order["id"]);
    for other in
        [r#"{"a":1,"b":{"x":[{"m":1,"n":3}],"y":null}}"#, r#"{"a":1,"b":{"x":[{"m":1},{"n":2}],"y":null}}"#]
    {
        let options = r#"{"headers":{"X-A":"1","X-B":"2"},"render":false}"#;
        let body = format!(r#"{{"url":"{url}","externalId":"o2","metadata":{other},"options":{options}}}"#);
        refused(&spelled(body).await, 409, "Conflict", "another body");
    }
    let other = json!({ "url": web.url("/gone"), "externalId": "order-1" });
    refused(&post(&member.api, "/api/v1/jobs", &other).await, 409, "Conflict", "another body");
    ended(&member.api, text(&first, "id")).await;
    ended(&member.api, text(&order, "id")).await;
    let plan = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 999_998, "answers after the first cost nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_canceled_and_run_again() {
    let web = Web::open(shop).await;
    let appliance = start(&web).await;
    let member = appliance.member("cancel").await;
    let slow = expect(post(&member.api, "/api/v1/jobs", &json!({ "url": web.url("/slow") })).await, 201);
    let at = |job: &Value, action: &str| format!("/api/v1/jobs/{}/{action}", text(job, "id"));
    refused(&post(&member.api, &at(&slow, "retry"), &json!({})).await, 409, "Conflict", "has ended");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let canceled = expect(post(&member.api, &at(&slow, "cancel"), &json!({})).await, 200);
    assert_eq!(canceled["status"], "canceled");
    refused(
        &post(&member.api, &at(&slow, "cancel"), &json!({})).await,
        409,
        "Job has already ended",
        "canceled",
    );
    let plan = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 1_000_000);

    let gone = collect(&member.api, &web.url("/gone")).await;
    let again = expect(post(&member.api, &at(&gone, "retry"), &json!({})).await, 201);
    assert_ne!(again["id"], gone["id"]);
    assert_eq!(ended(&member.api, text(&again, "id")).await["status"], "failed");
    // The run itself ends with the cancel and not with the page, a minute later, and changes nothing.
    let asked = Instant::now();
    while appliance.operator(Request::Status).await["jobsRunning"] != 0 {
        assert!(asked.elapsed() < Duration::from_secs(20), "the slot is free before the page comes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let job = expect(get(&member.api, &format!("/api/v1/jobs/{}", text(&slow, "id"))).await, 200);
    assert_eq!((&job["status"], &job["resultId"]), (&json!("canceled"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_may_look_and_not_submit() {
    let appliance = Appliance::start().await;
    let member = appliance.member("reader").await;
    let key = json!({ "name": "reader", "permissions": ["jobs:read"] });
    let key = expect(post(&member.browser, "/api/v1/api-keys", &key).await, 201);
    let reader = appliance.client().bearer(text(&key, "secret"));
    expect(get(&reader, "/api/v1/jobs").await, 200);
    let refusal = post(&reader, "/api/v1/jobs", &json!({ "url": "https://example.com/" })).await;
    refused(&refusal, 403, "Insufficient permissions", "jobs:write");
    refused(&get(&reader, "/api/v1/urls").await, 403, "Insufficient permissions", "urls:read");
}
