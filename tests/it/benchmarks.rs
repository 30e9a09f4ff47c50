//! Benchmarks and suggestions through HTTP: startBenchmark, listBenchmarks, getLatestBenchmark, getBenchmark,
//! getBenchmarkResults, cancelBenchmark, generateWorkflow, listSuggestions, getSuggestion, applySuggestion,
//! dismissSuggestion.

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, eventually, expect, get, member, post, refused, text};
use crate::workflows::{at, direct, put};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const BENCHMARKS: &str = "/api/v1/benchmarks";
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages for the box itself; a hosted provider that is asked under `/dead` refuses every key.
fn shop(path: &str) -> Option<Answer> {
    Some(match path {
        path if path.starts_with("/dead") => Answer::status(401),
        path if path.starts_with("/page") => Answer::html(format!("<title>{path}</title>")),
        path if path.starts_with("/slow") => Answer::html("late").after_ms(150),
        path if path.starts_with("/stuck") => Answer::html("never").after_ms(20_000),
        "/gone" => Answer::status(410),
        _ => return None,
    })
}

async fn connect(api: &Client, new: &Value) -> String {
    text(&expect(post(api, "/api/v1/providers", new).await, 201), "id").to_owned()
}

/// A hosted provider at `base` whose key is no good.
async fn connect_dead(api: &Client, web: &Web) -> String {
    let new = json!({
        "adapter": "scrapingbee", "name": "Dead", "baseUrl": web.url("/dead"), "credentials": { "apiKey": "x" },
    });
    connect(api, &new).await
}

async fn ended(api: &Client, id: &str) -> Value {
    eventually("the benchmark ends", PATIENCE, || async {
        let benchmark = expect(get(api, &format!("{BENCHMARKS}/{id}")).await, 200);
        (!matches!(text(&benchmark, "status"), "pending" | "running")).then_some(benchmark)
    })
    .await
}

/// An output of one kind of events, as a feed; its path.
async fn events_feed(api: &Client, kind: &str) -> String {
    let new = json!({ "kind": "feed", "events": [kind] });
    let made = expect(post(api, "/api/v1/outputs", &new).await, 201);
    let address = made["secrets"][0].as_str().unwrap().to_owned();
    format!("/api/v1/feeds/{}", address.rsplit('/').next().unwrap())
}

/// What a feed tells, once it tells something.
async fn told_in(at: &Appliance, path: &str) -> String {
    eventually("the output tells of it", PATIENCE, || async {
        Some(get(&at.client(), path).await.text()).filter(|feed| feed.contains("<item>"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_benchmark_compares_the_connected_providers() {
    let web = Web::open(shop).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("bench").await;
    let api = &member.api;
    let first = direct(&member).await;
    let second = connect(api, &json!({ "adapter": "direct", "name": "Second" })).await;
    let dead = connect_dead(api, &web).await;
    refused(&get(api, &format!("{BENCHMARKS}/latest")).await, 404, "Benchmark not found", "");
    let feed = events_feed(api, "benchmark.completed").await;
    let foreign = events_feed(&appliance.member("other").await.api, "benchmark.*").await;

    let urls =
        json!(["nonsense", web.url("/page/1"), web.url("/page/1"), web.url("/slow/2"), web.url("/gone")]);
    let started = expect(post(api, BENCHMARKS, &json!({ "urls": urls })).await, 201);
    assert_eq!(started["status"], "pending");
    assert_eq!(started["urls"].as_array().unwrap().len(), 3, "each once, and what is no URL left out");
    assert_eq!(started["providerIds"], json!([first, second, dead]));
    assert_eq!((&started["totalProbes"], &started["completedProbes"]), (&json!(9), &json!(0)));
    let id = text(&started, "id");
    let done = ended(api, id).await;
    assert_eq!((&done["status"], &done["error"]), (&json!("completed"), &Value::Null), "{done}");
    let told = told_in(&appliance, &feed).await;
    for part in ["status: completed", "completedProbes: 9", "failedProbes: 5"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(told.matches("<item>").count(), 1, "once");
    let others = get(&appliance.client(), &foreign).await.text();
    assert!(!others.contains("<item>"), "nobody else is told: {others}");
    // The target's own 410 is an answer and no page.
    assert_eq!((&done["completedProbes"], &done["failedProbes"]), (&json!(9), &json!(5)), "{done}");
    assert_eq!(done["skippedProviders"], json!([dead]));

    let results = expect(get(api, &format!("{BENCHMARKS}/{id}/results")).await, 200);
    assert_eq!((&results["benchmarkId"], &results["status"]), (&json!(id), &json!("completed")));
    assert_eq!(results["skippedProviders"], json!([dead]));
    let details = results["probeDetails"].as_array().unwrap();
    assert_eq!(details.len(), 9);
    let outcomes: BTreeSet<_> = details.iter().map(|probe| text(probe, "outcome")).collect();
    assert_eq!(outcomes, BTreeSet::from(["provider_error", "success", "target_error"]));
    let rollups = results["results"].as_array().unwrap();
    assert_eq!(rollups.len(), 6, "three over all, three at the one domain");
    let overall: Vec<_> = rollups.iter().filter(|rollup| rollup["domain"].is_null()).collect();
    assert_eq!(
        overall.iter().map(|rollup| rollup["rank"].clone()).collect::<Vec<_>>(),
        [1, 2, 3].map(Value::from)
    );
    let last = overall[2];
    assert_eq!(
        (&last["providerId"], &last["successes"], &last["score"]),
        (&json!(dead), &json!(0), &json!(0.0))
    );
    assert_eq!((&last["p50Ms"], &last["avgCredits"]), (&Value::Null, &Value::Null));
    assert_eq!((&overall[0]["probes"], &overall[0]["successes"]), (&json!(3), &json!(2)));
    assert!(overall[0]["p95Ms"].as_u64() >= Some(150), "{}", overall[0]);

    // Probes cost like jobs and make no results.
    let charged: u64 = details.iter().map(|probe| probe["credits"].as_u64().unwrap()).sum();
    let plan = expect(get(api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["usedThisPeriod"], charged);
    assert_eq!(plan["remainingCredits"].as_u64().unwrap(), 1_000_000 - charged);
    let found = expect(get(api, "/api/v1/extraction/results").await, 200);
    assert_eq!(found["total"], 0);
    assert_eq!(expect(get(api, &format!("{BENCHMARKS}/latest")).await, 200), done);
    assert_eq!(expect(get(api, BENCHMARKS).await, 200)["items"], json!([done]));

    let made =
        post(api, &format!("{BENCHMARKS}/{id}/generate-workflow"), &json!({ "name": "From it" })).await;
    let made = expect(made, 201);
    assert_eq!((&made["name"], &made["status"]), (&json!("From it"), &json!("published")));
    assert_eq!(made["smart"], json!({ "strategy": "balanced", "mode": "auto" }));
    let drawn = made["dag"].to_string();
    let place = |id: &str| drawn.find(id).unwrap_or_else(|| panic!("{id} is not in {drawn}"));
    assert!(place(&dead) < place(&first).max(place(&second)), "chains are drawn from their end: {drawn}");
    // The console sees it.
    let sql = "SELECT (SELECT count(*) FROM benchmarks WHERE status = 'completed') AS b, \
               (SELECT count(*) FROM benchmark_probes WHERE outcome = 'success') AS p, \
               (SELECT count(*) FROM workflows WHERE strategy = 'balanced') AS w";
    eventually("SQL has the rows", PATIENCE, || async {
        let answer = post(api, "/api/v1/bi/queries", &json!({ "sql": sql, "waitMs": 10_000 })).await;
        (expect(answer, 200)["results"]["rows"][0] == json!({ "b": 1, "p": 4, "w": 1 })).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_benchmark_is_refused_with_its_reason() {
    let web = Web::open(shop).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("nobench").await;
    let api = &member.api;
    let many: Vec<_> = (0..21).map(|i| web.url(&format!("/page/{i}"))).collect();
    for (urls, part) in [
        (json!([]), "urls: must have 1 to 20"),
        (json!(many), "urls: must have 1 to 20 entries, not 21"),
        (json!(["x", "file:///etc/passwd", "http://169.254.169.254/"]), "urls: none can be fetched"),
        (json!("x"), "urls: "),
    ] {
        refused(&post(api, BENCHMARKS, &json!({ "urls": urls })).await, 400, "Validation failed", part);
    }
    let stuck = json!({ "urls": [web.url("/stuck")] });
    let running = expect(post(api, BENCHMARKS, &stuck).await, 201);
    let refusal = post(api, BENCHMARKS, &stuck).await;
    refused(&refusal, 409, "Benchmark already running", text(&running, "id"));
    let id = text(&running, "id");
    let generate = format!("{BENCHMARKS}/{id}/generate-workflow");
    refused(&post(api, &generate, &json!({})).await, 409, "Conflict", "completed one");
    let canceled = expect(post(api, &format!("{BENCHMARKS}/{id}/cancel"), &json!({})).await, 200);
    assert_eq!((&canceled["status"], &canceled["completedProbes"]), (&json!("canceled"), &json!(0)));
    let refusal = post(api, &format!("{BENCHMARKS}/{id}/cancel"), &json!({})).await;
    refused(&refusal, 409, "Conflict", "canceled");
    let plan = expect(get(api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 1_000_000, "what was held is back");
    // The next one may begin, and the last provider is needed for it.
    let next = expect(post(api, BENCHMARKS, &json!({ "urls": [web.url("/page")] })).await, 201);
    assert_eq!(ended(api, text(&next, "id")).await["status"], "completed");
    let provider = direct(&member).await;
    let gone = api.send(http::Method::DELETE, &format!("/api/v1/providers/{provider}"), None).await.unwrap();
    assert_eq!(gone.status, 204);
    let refusal = post(api, BENCHMARKS, &json!({ "urls": [web.url("/page")] })).await;
    refused(&refusal, 400, "Validation failed", "no provider is connected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_benchmark_through_which_nothing_comes_has_failed() {
    let web = Web::open(shop).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("failbench").await;
    let started = expect(post(&member.api, BENCHMARKS, &json!({ "urls": [web.url("/gone")] })).await, 201);
    let done = ended(&member.api, text(&started, "id")).await;
    assert_eq!((&done["status"], &done["skippedProviders"]), (&json!("failed"), &done["providerIds"]));
    assert!(text(&done, "error").contains("no probe"), "{done}");
}

/// `kill -9` while probes run: the benchmark goes on, and every probe counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_benchmark_goes_on_and_counts_each_probe_once() {
    let web = Web::open(shop).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str())];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "killbench").await;
    let client = process.client().bearer(&owner.key);
    for name in ["Second", "Third"] {
        connect(&client, &json!({ "adapter": "direct", "name": name })).await;
    }
    let urls: Vec<_> = (0..20).map(|i| web.url(&format!("/slow/{i}"))).collect();
    let started = expect(post(&client, BENCHMARKS, &json!({ "urls": urls })).await, 201);
    let path = format!("{BENCHMARKS}/{}", text(&started, "id"));
    assert_eq!(started["totalProbes"], 60);
    let mut seen = 0;
    for round in 1..=3 {
        let client = process.client().bearer(&owner.key);
        seen = eventually("some probes have ended", PATIENCE, || async {
            let benchmark = expect(get(&client, &path).await, 200);
            let completed = benchmark["completedProbes"].as_u64().unwrap();
            (completed >= seen + 8).then_some(completed)
        })
        .await;
        assert!(seen < 60, "the benchmark was over in round {round} before it could be killed");
        process.kill();
        process = Process::start(&data, &settings);
    }
    let client = process.client().bearer(&owner.key);
    let after = expect(get(&client, &path).await, 200);
    assert!(after["completedProbes"].as_u64().unwrap() >= seen, "what was counted stays counted");
    let done = ended(&client, text(&started, "id")).await;
    assert_eq!(
        (&done["status"], &done["completedProbes"], &done["failedProbes"]),
        (&json!("completed"), &json!(60), &json!(0))
    );
    let results = expect(get(&client, &format!("{path}/results")).await, 200);
    let probes: BTreeSet<_> = results["probeDetails"]
        .as_array()
        .unwrap()
        .iter()
        .map(|probe| (text(probe, "url").to_owned(), text(probe, "providerId").to_owned()))
        .collect();
    assert_eq!((probes.len(), results["probeDetails"].as_array().unwrap().len()), (60, 60));
    let overall = results["results"].as_array().unwrap().iter().filter(|rollup| rollup["domain"].is_null());
    assert_eq!(overall.map(|rollup| rollup["probes"].as_u64().unwrap()).sum::<u64>(), 60);
    let plan = expect(get(&client, "/api/v1/plans/current").await, 200);
    assert_eq!((&plan["usedThisPeriod"], &plan["remainingCredits"]), (&json!(60), &json!(999_940)));
    assert_eq!(process.terminate(), Some(0));
}

/// A provider that begins to fail is moved back by the worker: by itself in auto mode, on somebody's word in suggest mode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_moves_a_broken_provider_back() {
    // The hosted provider is asked under /hosted and delivers; the pages themselves fail the box when they are told to.
    let failing = Arc::new(AtomicBool::new(false));
    let told = failing.clone();
    let web = Web::open(move |path| {
        Some(match path {
            path if path.starts_with("/hosted") => {
                let mut page = Answer::html("<title>by the hosted one</title>");
                page.headers.push(("spb-cost".to_owned(), "40".to_owned()));
                page
            }
            path if path.starts_with("/page") && told.load(Ordering::Relaxed) => Answer::status(503),
            path => Answer::html(format!("<title>{path}</title>")),
        })
    })
    .await;
    let appliance =
        Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8")])
            .await;
    let member = appliance.member("worker").await;
    let api = &member.api;
    let feed = events_feed(api, "suggestion.created").await;
    let own = direct(&member).await;
    let hosted = json!({
        "adapter": "scrapingbee", "name": "Hosted", "baseUrl": web.url("/hosted"), "credentials": { "apiKey": "x" },
    });
    let hosted = connect(api, &hosted).await;
    let smart = json!({ "mode": "suggest", "strategy": "success_rate", "route": "*" });
    let smart = expect(post(api, &at("smart", ""), &smart).await, 201);
    let id = text(&smart, "workflowId").to_owned();
    suggest_and_answer(api, &web, &id, (&own, &hosted), &failing).await;
    let told = told_in(&appliance, &feed).await;
    assert!(told.contains("workflowId") && told.contains(&id) && told.contains("expectedGain"), "{told}");

    // From here on the worker acts by itself.
    expect(put(api, &at(&id, "/smart/mode"), &json!({ "mode": "auto" })).await, 200);
    let before = expect(get(api, &at(&id, "")).await, 200)["version"].as_u64().unwrap();
    appliance.clock.advance(Duration::from_secs(3_600));
    failing.store(false, Ordering::Relaxed);
    let third = connect(api, &json!({ "adapter": "direct", "name": "Third" })).await;
    eventually("the worker writes a version with the new provider", PATIENCE, || async {
        collect(api, &web.url("/page/again")).await;
        let now = expect(get(api, &at(&id, "")).await, 200);
        (now["version"].as_u64().unwrap() > before && now["dag"].to_string().contains(&third)).then_some(())
    })
    .await;
    let newest = expect(get(api, &at(&id, "/versions?limit=1")).await, 200);
    assert_eq!(newest["items"][0]["createdBy"], Value::Null, "nobody wrote it");
}

async fn suggest_and_answer(
    api: &Client,
    web: &Web,
    workflow: &str,
    (own, hosted): (&str, &str),
    failing: &AtomicBool,
) {
    const SUGGESTIONS: &str = "/api/v1/optimization/suggestions";
    failing.store(true, Ordering::Relaxed);
    let open = format!("{SUGGESTIONS}?workflowId={workflow}&status=open");
    // Another workflow asks both, one after the other: what its jobs see teaches the worker.
    let dag = crate::workflows::chain(&[own, hosted]);
    let teacher = post(api, "/api/v1/workflows", &json!({ "name": "teacher", "dag": dag })).await;
    let teacher = text(&expect(teacher, 201), "workflowId").to_owned();
    expect(post(api, &at(&teacher, "/publish"), &json!({})).await, 200);
    let suggestion = eventually("a suggestion", PATIENCE, || async {
        let jobs: Vec<_> = (0..20)
            .map(|i| json!({ "url": web.url(&format!("/page/{i}")), "workflowId": teacher }))
            .collect();
        expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let listed = expect(get(api, &open).await, 200);
        listed["items"].as_array().unwrap().first().cloned()
    })
    .await;
    let id = text(&suggestion, "id").to_owned();
    let one = format!("{SUGGESTIONS}/{id}");
    assert_eq!(expect(get(api, &one).await, 200)["id"], suggestion["id"]);
    assert_eq!(suggestion["workflowId"], workflow);
    assert_ne!(suggestion["currentRanking"], suggestion["proposedRanking"]);
    assert!(suggestion["expectedGain"].as_f64().unwrap() > 0.0, "{suggestion}");
    let evidence = suggestion["evidence"].as_array().unwrap();
    let of = |id: &str| evidence.iter().find(|e| e["providerId"] == id && e["domain"].is_null()).unwrap();
    assert!(of(hosted)["score"].as_f64() > of(own)["score"].as_f64(), "{suggestion}");
    assert!(of(hosted)["samples"].as_u64() > Some(5), "{suggestion}");
    // What the organization is charged, and not what the vendor says that it billed in credits of its own.
    assert_eq!(of(hosted)["avgCredits"], 1.0, "{suggestion}");
    let before = expect(get(api, &at(workflow, "")).await, 200)["version"].as_u64().unwrap();
    let applied = expect(post(api, &format!("{one}/apply"), &json!({})).await, 200);
    assert_eq!(applied["status"], "applied");
    let after = expect(get(api, &at(workflow, "")).await, 200);
    assert_eq!(after["version"].as_u64(), Some(before + 1));
    for action in ["apply", "dismiss"] {
        let refusal = post(api, &format!("{one}/{action}"), &json!({})).await;
        refused(&refusal, 409, "Conflict", "applied");
    }
    for action in ["", "/apply", "/dismiss"] {
        let missing = format!("{SUGGESTIONS}/{}{action}", Uuid::now_v7());
        let reply =
            if action.is_empty() { get(api, &missing).await } else { post(api, &missing, &json!({})).await };
        refused(&reply, 404, "Suggestion not found", "");
    }
}
