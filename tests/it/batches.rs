//! Batches through HTTP: listBatches, getBatch, cancelBatch, retryBatch; and that their counters are what a recount says,
//! whatever happened and however often the box was killed.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, eventually, expect, get, member, post, refused, text};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const BATCHES: &str = "/api/v1/batches";
const PATIENCE: Duration = Duration::from_secs(120);
const STATUSES: [&str; 5] = ["queued", "running", "succeeded", "failed", "canceled"];

async fn submit(api: &Client, urls: impl Iterator<Item = String>) -> String {
    let jobs: Vec<_> = urls.map(|url| json!({ "url": url })).collect();
    text(&expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201), "batchId").to_owned()
}

async fn batch(api: &Client, id: &str) -> Value {
    expect(get(api, &format!("{BATCHES}/{id}")).await, 200)
}

/// The batch once all its jobs have ended.
async fn ended(api: &Client, id: &str) -> Value {
    eventually("the batch ends", PATIENCE, || async {
        let now = batch(api, id).await;
        (now["endedAt"].is_string() && now["isCanceling"] == false).then_some(now)
    })
    .await
}

/// The batch once its retry is over, and it has so many jobs.
async fn retried(api: &Client, id: &str, jobs: u64) -> Value {
    eventually("the retry is over", PATIENCE, || async {
        let now = batch(api, id).await;
        let is_over = now["retry"]["finishedAt"].is_string() && now["endedAt"].is_string();
        (is_over && now["jobs"] == jobs).then_some(now)
    })
    .await
}

/// All jobs of a batch, as their list shows them.
async fn jobs(api: &Client, id: &str, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/jobs?limit=200&batchId={id}&{query}&cursor={cursor}");
        let page = expect(get(api, &path).await, 200);
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return all,
        }
    }
}

/// The counters of a batch at rest are those of its jobs, one by one.
async fn agrees(api: &Client, id: &str) -> Value {
    let (shown, all) = (batch(api, id).await, jobs(api, id, "").await);
    for status in STATUSES {
        let counted = all.iter().filter(|job| job["status"] == status).count();
        assert_eq!(shown["byStatus"][status], counted, "{status}: {shown}");
        assert_eq!(jobs(api, id, &format!("status={status}")).await.len(), counted, "{status}");
    }
    assert_eq!(shown["jobs"], all.len());
    let mut errors = BTreeMap::<String, u64>::new();
    for job in all.iter().filter(|job| job["status"] == "failed") {
        let last = job["attempts"].as_array().unwrap().last();
        let kind = last.map(|last| format!("{} {}", last["outcome"], last["rule"])).unwrap_or_default();
        *errors.entry(kind).or_default() += 1;
    }
    for error in shown["errors"].as_array().unwrap() {
        let kind = match &error["outcome"] {
            Value::Null => String::new(),
            outcome => format!("{outcome} {}", error["rule"]),
        };
        assert_eq!(errors.remove(&kind).map(Value::from), Some(error["count"].clone()), "{shown}");
        let example =
            all.iter().find(|job| job["id"] == error["exampleJobId"]).expect("its example is a job of it");
        assert_eq!(example["status"], "failed");
    }
    assert!(errors.is_empty(), "{errors:?} in {shown}");
    shown
}

/// Pages that are there; `/gone/…` are not, and `/later/…` are once `back` says so; `/slow/…` take their time.
async fn web(back: &Arc<AtomicBool>) -> Web {
    let back = Arc::clone(back);
    Web::open(move |path| match path {
        "/robots.txt" => None,
        _ if path.starts_with("/gone/") => None,
        _ if path.starts_with("/later/") && !back.load(Ordering::Relaxed) => Some(Answer::status(410)),
        _ if path.starts_with("/slow/") => Some(Answer::html("<p>slow</p>").after_ms(150)),
        _ => Some(Answer::html(format!("<title>{path}</title>"))),
    })
    .await
}

async fn at_work(settings: &[(&str, &str)]) -> (Arc<AtomicBool>, Web, Appliance, Member) {
    let back = Arc::new(AtomicBool::new(false));
    let web = web(&back).await;
    let allow = web.allow();
    let base = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "32")];
    let settings: Vec<_> = base.iter().chain(settings).copied().collect();
    let at = Appliance::start_with(&settings).await;
    let member = at.member("together").await;
    (back, web, at, member)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_counted_and_what_failed_is_submitted_again_once() {
    let (back, web, at, member) = at_work(&[]).await;
    let api = &member.api;
    let new = json!({ "name": "Shoes of May", "jobs": (0..40).map(|n| {
        let kind = ["fine", "later"][n % 2];
        json!({ "url": web.url(&format!("/{kind}/{n}")), "tags": [kind], "externalId": format!("may-{n}") })
    }).collect::<Vec<_>>() });
    let made = expect(post(api, "/api/v1/jobs/batch", &new).await, 201);
    let id = text(&made, "batchId").to_owned();
    let job = expect(get(api, &format!("/api/v1/jobs/{}", text(&made["jobs"][0], "id"))).await, 200);
    assert_eq!(job["batchId"], id.as_str());
    let over = ended(api, &id).await;
    assert_eq!((&over["name"], &over["source"]), (&json!("Shoes of May"), &json!("api")));
    assert_eq!(over["byStatus"]["failed"], 20);
    assert!(over["ratePerSec"].as_f64().unwrap() > 0.0 && over["expectedEndAt"].is_null(), "{over}");
    let error = &agrees(api, &id).await["errors"][0];
    assert_eq!((&error["count"], &error["outcome"]), (&json!(20), &json!("target_error")));
    assert_eq!(jobs(api, &id, "tag=later&error=target_error").await.len(), 20);
    assert_eq!(jobs(api, &id, "tag=fine&error=target_error").await.len(), 0);
    // The same again is the same batch: nothing is made.
    let again = expect(post(api, "/api/v1/jobs/batch", &new).await, 201);
    assert_eq!(again, made);
    // What failed is tried once more, in the same batch, however often that is asked for.
    back.store(true, Ordering::Relaxed);
    let retry = format!("{BATCHES}/{id}/retry");
    for _ in 0..3 {
        let asked = expect(post(api, &retry, &json!({})).await, 202);
        assert!(asked["retry"]["requestedAt"].is_string(), "{asked}");
    }
    let over = retried(api, &id, 60).await;
    assert_eq!((&over["retry"]["submitted"], &over["retried"]), (&json!(20), &json!(20)));
    assert_eq!((&over["byStatus"]["succeeded"], &over["byStatus"]["failed"]), (&json!(40), &json!(20)));
    agrees(api, &id).await;
    expect(post(api, &retry, &json!({})).await, 202);
    assert_eq!(batch(api, &id).await["jobs"], 60);
    // What is gone for good fails again, and may be tried again: each time the newest alone.
    let gone = submit(api, (0..10).map(|n| web.url(&format!("/gone/{n}")))).await;
    ended(api, &gone).await;
    for jobs in [20, 30] {
        expect(post(api, &format!("{BATCHES}/{gone}/retry"), &json!({})).await, 202);
        assert_eq!(retried(api, &gone, jobs).await["retry"]["submitted"], 10);
    }
    // One job alone counts as well, and is not submitted by the batch once more.
    let failed = jobs(api, &gone, "status=failed").await;
    let newest = failed.iter().map(|job| text(job, "id")).max().unwrap();
    let alone = expect(post(api, &format!("/api/v1/jobs/{newest}/retry"), &json!({})).await, 201);
    assert_eq!(alone["batchId"], gone.as_str());
    ended(api, &gone).await;
    let shown = agrees(api, &gone).await;
    assert_eq!((&shown["retried"], &shown["jobs"]), (&json!(21), &json!(31)));
    let told = expect(get(api, "/api/v1/events?kind=batch.completed&limit=200").await, 200);
    assert_eq!(told["items"].as_array().unwrap().len(), 6, "{told}");
    // In the lists, and for nobody else.
    let all = expect(get(api, BATCHES).await, 200);
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    for query in ["isOpen=true", "source=schedule"] {
        assert_eq!(expect(get(api, &format!("{BATCHES}?{query}")).await, 200)["items"], json!([]), "{query}");
    }
    let eve = at.member("eve").await;
    assert_eq!(expect(get(&eve.api, BATCHES).await, 200)["items"], json!([]));
    for path in [format!("{BATCHES}/{id}/cancel"), format!("{BATCHES}/{id}/retry")] {
        refused(&post(&eve.api, &path, &json!({})).await, 404, "Batch not found", "");
    }
    assert_eq!(jobs(&eve.api, &id, "").await.len(), 0);
    refused(
        &post(api, &format!("{BATCHES}/{id}/cancel"), &json!({})).await,
        409,
        "Job has already ended",
        "",
    );
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_canceled_whole_and_takes_no_more() {
    // One at a time: most of them wait still when it is canceled.
    let (_, web, at, member) = at_work(&[("DISPATCH__PER_DOMAIN_CONCURRENCY", "1")]).await;
    let api = &member.api;
    let id = submit(api, (0..600).map(|n| web.url(&format!("/slow/{n}")))).await;
    let other = submit(api, (0..3).map(|n| web.url(&format!("/fine/{n}")))).await;
    let before = expect(get(api, "/api/v1/plans/current").await, 200);
    let asked = expect(post(api, &format!("{BATCHES}/{id}/cancel"), &json!({})).await, 202);
    assert!(asked["canceledAt"].is_string(), "{asked}");
    let over = ended(api, &id).await;
    assert!(over["byStatus"]["canceled"].as_u64().unwrap() > 500, "{over}");
    let over = agrees(api, &id).await;
    let canceled = over["byStatus"]["canceled"].as_u64().unwrap();
    let after = expect(get(api, "/api/v1/plans/current").await, 200);
    let credits = |plan: &Value| plan["remainingCredits"].as_u64().unwrap();
    assert!(credits(&after) >= credits(&before) + canceled - 8, "the credits are back");
    // Asked again it is the same; nothing is added to it.
    let again = expect(post(api, &format!("{BATCHES}/{id}/cancel"), &json!({})).await, 202);
    assert_eq!(again["canceledAt"], asked["canceledAt"]);
    refused(&post(api, &format!("{BATCHES}/{id}/retry"), &json!({})).await, 409, "Conflict", "was canceled");
    let one = text(&jobs(api, &id, "status=canceled").await[0], "id").to_owned();
    let alone = expect(post(api, &format!("/api/v1/jobs/{one}/retry"), &json!({})).await, 201);
    assert_eq!(alone["batchId"], Value::Null);
    assert_eq!(ended(api, &other).await["byStatus"]["succeeded"], 3, "another batch goes on");
    refused(&post(api, &format!("{BATCHES}/{other}/retry"), &json!({})).await, 409, "Conflict", "has failed");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedules_run_is_a_batch_and_credits_end_a_retry() {
    let (back, web, at, member) = at_work(&[]).await;
    let api = &member.api;
    let plan = crate::harness::Request::OrgPlan { org: member.org_id.clone(), plan: "trial".to_owned() };
    at.operator(plan).await;
    let urls: Vec<_> = (0..600).map(|n| web.url(&format!("/later/{n}"))).collect();
    expect(post(api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    let schedule = json!({ "name": "Later", "cron": "@yearly" });
    let schedule = expect(post(api, "/api/v1/schedules", &schedule).await, 201);
    let fired = format!("/api/v1/schedules/{}/trigger", text(&schedule, "id"));
    let run = text(&expect(post(api, &fired, &json!({})).await, 200), "scheduleRunId").to_owned();
    let over = ended(api, &run).await;
    assert_eq!((&over["source"], &over["isFilling"]), (&json!("schedule"), &json!(false)));
    assert_eq!((&over["jobs"], &over["byStatus"]["failed"]), (&json!(600), &json!(600)));
    agrees(api, &run).await;
    // There are not credits for all of them: as many as they last for are submitted, and it is said.
    back.store(true, Ordering::Relaxed);
    let credits = expect(get(api, "/api/v1/plans/current").await, 200)["remainingCredits"].as_u64().unwrap();
    assert!((1..600).contains(&credits), "{credits}");
    expect(post(api, &format!("{BATCHES}/{run}/retry"), &json!({})).await, 202);
    let over = retried(api, &run, 600 + credits).await;
    assert_eq!(over["retry"]["submitted"], credits);
    let said = format!("stopped after {credits} jobs, {} are left: ", 600 - credits);
    assert!(text(&over["retry"], "message").starts_with(&said), "{over}");
    agrees(api, &run).await;
    at.stop().await;
}

/// A small generator with a seed, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_between_parts_cancel_and_retry_nothing_twice() {
    let back = Arc::new(AtomicBool::new(false));
    let web = web(&back).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "32")];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "killed").await;
    let api = |process: &Process| process.client().bearer(&owner.key);
    let mut dice = Dice(0x5EED_0014);
    let (mut failed, mut canceled) = (Vec::new(), Vec::new());
    failed.push(submit(&api(&process), (0..400).map(|n| web.url(&format!("/later/{n}")))).await);
    ended(&api(&process), &failed[0]).await;
    for round in 0..6 {
        let client = api(&process);
        let urls = (0..300).map(|n| web.url(&format!("/slow/{round}/{n}")));
        let id = submit(&client, urls).await;
        expect(post(&client, &format!("{BATCHES}/{id}/cancel"), &json!({})).await, 202);
        canceled.push(id);
        if round == 0 {
            back.store(true, Ordering::Relaxed);
            expect(post(&client, &format!("{BATCHES}/{}/retry", failed[0]), &json!({})).await, 202);
        }
        tokio::time::sleep(Duration::from_millis(dice.below(120))).await;
        process.kill();
        process = Process::start(&data, &settings);
    }
    let client = api(&process);
    for id in &canceled {
        ended(&client, id).await;
        let shown = agrees(&client, id).await;
        assert_eq!((&shown["jobs"], &shown["byStatus"]["failed"]), (&json!(300), &json!(0)), "{shown}");
    }
    let over = eventually("the retry is over", PATIENCE, || async {
        let now = ended(&client, &failed[0]).await;
        now["retry"]["finishedAt"].is_string().then_some(now)
    })
    .await;
    assert_eq!((&over["retry"]["submitted"], &over["retried"]), (&json!(400), &json!(400)));
    let mut urls: Vec<_> = jobs(&client, &failed[0], "status=succeeded")
        .await
        .iter()
        .map(|job| text(job, "url").to_owned())
        .collect();
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), 400, "each page was tried once more");
    assert_eq!(agrees(&client, &failed[0]).await["jobs"], 800);
    assert_eq!(process.terminate(), Some(0));
}

/// Random histories: jobs that end well, fail, are canceled and retried alone or together, in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_are_what_a_recount_says_after_any_history() {
    let (back, web, at, member) = at_work(&[]).await;
    let api = &member.api;
    let mut dice = Dice(0xC0FF_EE01);
    let mut batches = Vec::new();
    for round in 0..40 {
        let kinds = ["fine", "gone", "later", "slow"];
        match dice.below(6) {
            0 | 1 => {
                let count = 1 + dice.below(12);
                let urls: Vec<_> = (0..count)
                    .map(|n| web.url(&format!("/{}/{round}/{n}", kinds[dice.below(4) as usize])))
                    .collect();
                batches.push(submit(api, urls.into_iter()).await);
            }
            _ if batches.is_empty() => {}
            2 => {
                let id = &batches[dice.below(batches.len() as u64) as usize];
                let reply = post(api, &format!("{BATCHES}/{id}/cancel"), &json!({})).await;
                assert!(matches!(reply.status.as_u16(), 202 | 409), "{}", reply.text());
            }
            3 => {
                let id = &batches[dice.below(batches.len() as u64) as usize];
                let reply = post(api, &format!("{BATCHES}/{id}/retry"), &json!({})).await;
                assert!(matches!(reply.status.as_u16(), 202 | 409), "{}", reply.text());
            }
            4 => {
                let id = &batches[dice.below(batches.len() as u64) as usize];
                let all = jobs(api, id, "").await;
                let job = text(&all[dice.below(all.len() as u64) as usize], "id");
                let what = ["cancel", "retry"][dice.below(2) as usize];
                let reply = post(api, &format!("/api/v1/jobs/{job}/{what}"), &json!({})).await;
                assert!(matches!(reply.status.as_u16(), 200 | 201 | 409), "{}", reply.text());
            }
            _ => {
                back.store(dice.below(2) == 0, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(dice.below(200))).await;
            }
        }
    }
    assert!(batches.len() > 5);
    for id in &batches {
        ended(api, id).await;
        agrees(api, id).await;
    }
    let missing = format!("{BATCHES}/{}", Uuid::now_v7());
    refused(&get(api, &missing).await, 404, "Batch not found", "");
    at.stop().await;
}
