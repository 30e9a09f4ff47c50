//! The contract to the letter: small promises that nothing else holds anybody to.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, collect, ended, eventually, expect, get, post, refused, text};
use crate::workflows::{at, chain, direct, draft, put};
use http::Method;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::Duration;

const JOBS: &str = "/api/v1/jobs";
const BATCH: &str = "/api/v1/jobs/batch";

/// A site whose pages come after the test has ended, so that what jobs have reserved stays reserved.
async fn slow_site() -> (Web, Appliance) {
    let web = Web::open(|path| {
        path.starts_with("/slow")
            .then(|| Answer::html("late").after_ms(110_000))
            .or_else(|| (path == "/page").then(|| Answer::html("<title>A page</title>")))
    })
    .await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    (web, appliance)
}

/// A member of an organization with 1,000 credits.
async fn poor(appliance: &Appliance, name: &str) -> Member {
    let member = appliance.member(name).await;
    let plan = Request::OrgPlan { org: member.org_id.clone(), plan: "trial".to_owned() };
    appliance.operator(plan).await;
    member
}

fn slow_job(web: &Web, n: usize) -> Value {
    json!({ "url": web.url(&format!("/slow/{n}")), "options": { "timeoutMs": 120_000 } })
}

fn jobs(web: &Web, count: usize) -> Value {
    json!({ "jobs": (0..count).map(|n| slow_job(web, n)).collect::<Vec<_>>() })
}

/// Asserts a 402 about credits: what is left and what was needed.
fn too_dear(reply: &Reply, left: u64, needed: u64) {
    let said = format!("{left} credits are left; this needs {needed}.");
    refused(reply, 402, "QUOTA_EXCEEDED", &said);
    let told =
        (&reply.json["remainingCredits"], &reply.json["requiredCredits"], &reply.json["isTrialExpired"]);
    assert_eq!(told, (&json!(left), &json!(needed), &json!(false)), "{}", reply.text());
}

async fn set_price(api: &Client, provider: &str, credits: u64) {
    let price = json!({ "credits": { "standard": { "plain": credits } } });
    let path = format!("/api/v1/providers/{provider}");
    expect(api.send(Method::PATCH, &path, Some(&price)).await.unwrap(), 200);
}

async fn left(api: &Client) -> u64 {
    expect(get(api, "/api/v1/plans/current").await, 200)["remainingCredits"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_402_tells_the_balance_as_it_is_and_what_the_request_needs() {
    let (web, appliance) = slow_site().await;
    let member = poor(&appliance, "poor").await;
    let api = &member.api;
    let direct = direct(&member).await;
    expect(post(api, BATCH, &jobs(&web, 300)).await, 201);
    too_dear(&post(api, BATCH, &jobs(&web, 800)).await, 700, 800);
    assert_eq!(left(api).await, 700, "nothing of it was kept");
    set_price(api, &direct, 900).await;
    too_dear(&post(api, JOBS, &slow_job(&web, 0)).await, 700, 900);
    let urls: Vec<_> = (0..3).map(|n| web.url(&format!("/slow/{n}"))).collect();
    too_dear(&post(api, "/api/v1/benchmarks", &json!({ "urls": urls })).await, 700, 2_700);
    set_price(api, &direct, 700).await;
    expect(post(api, JOBS, &slow_job(&web, 0)).await, 201);
    set_price(api, &direct, 1).await;
    too_dear(&post(api, JOBS, &slow_job(&web, 0)).await, 0, 1);
    // What costs nothing by itself is refused without a price.
    let gated = post(api, "/api/v1/urls", &json!({ "urls": [web.url("/page")] })).await;
    refused(&gated, 402, "QUOTA_EXCEEDED", "0 credits are left. The next period begins at ");
    assert_eq!(gated.json.get("requiredCredits"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_of_the_job_that_took_the_last_credits_is_that_job() {
    let (web, appliance) = slow_site().await;
    let member = poor(&appliance, "last").await;
    let api = &member.api;
    set_price(api, &direct(&member).await, 1_000).await;
    let mut last = slow_job(&web, 0);
    last["externalId"] = json!("the-last");
    let made = expect(post(api, JOBS, &last).await, 201);
    assert_eq!(left(api).await, 0);
    let again = expect(post(api, JOBS, &last).await, 200);
    assert_eq!(again["id"], made["id"]);
    let batch = expect(post(api, BATCH, &json!({ "jobs": [last] })).await, 201);
    assert_eq!(batch["jobs"][0]["id"], made["id"]);
    last["priority"] = json!(9);
    refused(&post(api, JOBS, &last).await, 409, "Conflict", text(&made, "id"));
    too_dear(&post(api, JOBS, &slow_job(&web, 1)).await, 0, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_batch_names_no_job_that_was_never_made() {
    let (web, appliance) = slow_site().await;
    let member = appliance.member("rivals").await;
    let api = &member.api;
    let named = |n: usize, id: &str| {
        let mut job = slow_job(&web, n);
        job["externalId"] = json!(id);
        job
    };
    let rivals = json!({ "jobs": [named(0, "a"), named(1, "b"), named(2, "a")] });
    let refusal = post(api, BATCH, &rivals).await;
    refused(&refusal, 409, "Conflict", "jobs[2].externalId: jobs[0] has the same one and another body");
    assert!(!refusal.text().contains("job 0"), "{}", refusal.text());
    assert_eq!(expect(get(api, JOBS).await, 200)["items"], json!([]));
    let twins = json!({ "jobs": [named(0, "a"), named(0, "a")] });
    let made = expect(post(api, BATCH, &twins).await, 201);
    assert_eq!(made["jobs"][0]["id"], made["jobs"][1]["id"]);
    assert_eq!(left(api).await, 999_999, "and it is paid once");
}

/// Every page of a list, one item a page.
async fn one_by_one(api: &Client, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(get(api, &format!("{path}?limit=1{cursor}")).await, 200);
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= 1, "{path}: {page}");
        items.extend(found.iter().cloned());
        match page.get("nextCursor").unwrap_or_else(|| panic!("{path} has no nextCursor")) {
            Value::Null => return items,
            next => cursor = format!("&cursor={}", next.as_str().unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_the_box_come_in_pages_too() {
    let appliance = Appliance::start().await;
    let member = appliance.member("lists").await;
    for path in ["/api/v1/plans", "/api/v1/providers/catalog", "/api/v1/bi/tables"] {
        let whole = expect(get(&member.api, path).await, 200);
        assert_eq!(whole["nextCursor"], Value::Null, "{path}");
        let items = whole["items"].as_array().unwrap();
        let paged = one_by_one(&member.api, path).await;
        let names = |items: &[Value]| -> Vec<Value> {
            let name = |item: &Value| ["id", "adapter", "name"].map(|key| item[key].clone());
            items.iter().map(|item| json!(name(item))).collect()
        };
        assert_eq!(names(&paged), names(items), "{path}");
        let stale = get(&member.api, &format!("{path}?cursor=nonsense")).await;
        assert_eq!(stale.status, 400, "{path}");
    }
    // listPlans: every plan says its caps.
    let plans = expect(get(&member.api, "/api/v1/plans").await, 200);
    for plan in plans["items"].as_array().unwrap() {
        assert!(plan["limits"]["webhookUrlsPerDay"].as_u64().unwrap() > 0, "{plan}");
    }
    let current = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!(current["plan"]["limits"]["webhookUrlsPerDay"], 10_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_period_has_begun_for_whoever_looks() {
    let appliance = Appliance::start().await;
    let member = appliance.member("idle").await;
    appliance.clock.advance(Duration::from_secs(45 * 24 * 3600));
    let kinds = |ledger: &Value| -> Vec<String> {
        let rows = ledger["items"].as_array().unwrap().iter();
        rows.map(|row| text(row, "kind").to_owned()).collect()
    };
    // The first look after its end, before any task of the box has come by.
    let ledger = expect(get(&member.api, "/api/v1/plans/transactions").await, 200);
    assert_eq!(kinds(&ledger), ["grant", "adjust", "grant"]);
    appliance.clock.advance(Duration::from_secs(30 * 24 * 3600));
    let current = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    let now = appliance.clock.now().to_string();
    assert!(text(&current, "periodEndsAt") > now.as_str(), "{current} at {now}");
    let ledger = expect(get(&member.api, "/api/v1/plans/transactions").await, 200);
    assert_eq!(kinds(&ledger).len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_reads_the_same_every_way() {
    let appliance = Appliance::start().await;
    let member = appliance.member("versions").await;
    let api = &member.api;
    let id = draft(&member, "one", &chain(&[&direct(&member).await])).await;
    let first = expect(get(api, &at(&id, "")).await, 200);
    appliance.clock.advance(Duration::from_secs(3_600));
    let made = expect(put(api, &at(&id, ""), &json!({ "name": "two" })).await, 200);
    let listed = expect(get(api, &at(&id, "/versions")).await, 200);
    for other in [
        expect(get(api, &at(&id, "")).await, 200),
        expect(get(api, &at(&id, "/versions/2")).await, 200),
        listed["items"][0].clone(),
        expect(get(api, "/api/v1/workflows").await, 200)["items"][0].clone(),
    ] {
        assert_eq!(other, made);
    }
    assert!(text(&made, "createdAt") > text(&first, "createdAt"), "each version has its own moment");
    let old = expect(get(api, &at(&id, "/versions/1")).await, 200);
    for member in ["id", "createdAt", "createdBy", "dag", "name"] {
        assert_eq!(old[member], first[member], "{member}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_with_a_page_says_so() {
    let (web, appliance) = slow_site().await;
    let member = appliance.member("drawn").await;
    let mut dag = chain(&[&direct(&member).await]);
    for edge in dag["edges"].as_array_mut().unwrap() {
        if edge["target"] == "ok" {
            edge["target"] = json!("bad");
        }
    }
    dag["nodes"].as_array_mut().unwrap().retain(|node| node["id"] != "ok");
    let id = draft(&member, "thrown away", &dag).await;
    expect(post(&member.api, &at(&id, "/publish"), &json!({})).await, 200);
    let job = json!({ "url": web.url("/page"), "workflowId": id });
    let job = expect(post(&member.api, JOBS, &job).await, 201);
    let job = ended(&member.api, text(&job, "id")).await;
    assert_eq!(
        (&job["status"], &job["attempts"][0]["outcome"]),
        (&json!("failed"), &json!("success")),
        "{job}"
    );
    assert_eq!(job["error"], "the page arrived, and the workflow ends with failed there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_a_published_workflow_asks_is_not_lost_unawares() {
    let appliance = Appliance::start().await;
    let member = appliance.member("relied").await;
    let api = &member.api;
    let second = json!({ "adapter": "direct", "name": "Second" });
    let second = expect(post(api, "/api/v1/providers", &second).await, 201);
    let second = text(&second, "id").to_owned();
    let path = format!("/api/v1/providers/{second}");
    let delete = async |path: &str| api.send(Method::DELETE, path, None).await.unwrap();
    let id = draft(&member, "Shops", &chain(&[&direct(&member).await, &second])).await;
    expect(post(api, &at(&id, "/publish"), &json!({})).await, 200);
    refused(&delete(&path).await, 409, "Conflict", &format!("\"Shops\" ({id})"));
    expect(get(api, &path).await, 200);
    // Not one that is a draft, nor one that the box draws itself.
    expect(post(api, &at(&id, "/unpublish"), &json!({})).await, 200);
    expect(post(api, &at("smart", ""), &json!({})).await, 201);
    expect(post(api, &at(&id, "/publish"), &json!({})).await, 200);
    refused(&delete(&format!("{path}?force=false")).await, 409, "Conflict", "?force=true");
    assert_eq!(delete(&format!("{path}?force=true")).await.status, 204);
    assert_eq!(get(api, &path).await.status, 404);
    let bad = post(api, "/api/v1/providers", &json!({ "adapter": "direct", "maxConcurrency": 0 })).await;
    refused(&bad, 400, "Validation failed", "maxConcurrency: must be 1 to 1000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suggestion_that_no_longer_holds_is_taken_back() {
    let (web, appliance) = slow_site().await;
    let member = appliance.member("stale").await;
    let api = &member.api;
    let second = json!({ "adapter": "direct", "name": "Second" });
    let second = expect(post(api, "/api/v1/providers", &second).await, 201);
    let smart = expect(post(api, &at("smart", ""), &json!({ "mode": "suggest", "route": "*" })).await, 201);
    let id = text(&smart, "workflowId");
    let second = format!("/api/v1/providers/{}", text(&second, "id"));
    assert_eq!(api.send(Method::DELETE, &second, None).await.unwrap().status, 204);
    let open = "/api/v1/optimization/suggestions?status=open";
    let suggestion = eventually("a suggestion", Duration::from_secs(60), || async {
        collect(api, &web.url("/page")).await;
        let listed = expect(get(api, open).await, 200);
        listed["items"].as_array().unwrap().first().cloned()
    })
    .await;
    // The worker does it by itself now, so nobody is asked any more.
    expect(put(api, &at(id, "/smart/mode"), &json!({ "mode": "auto" })).await, 200);
    let one = format!("/api/v1/optimization/suggestions/{}", text(&suggestion, "id"));
    eventually("the suggestion is taken back", Duration::from_secs(60), || async {
        collect(api, &web.url("/page")).await;
        (expect(get(api, &one).await, 200)["status"] == "superseded").then_some(())
    })
    .await;
    assert_eq!(expect(get(api, open).await, 200)["items"], json!([]));
    refused(&post(api, &format!("{one}/apply"), &json!({})).await, 409, "Conflict", "superseded");
}
