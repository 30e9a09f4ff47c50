//! Jobs along workflows: which one a job takes, what each node does, what it costs, and that a waiting job holds nothing.

use crate::harness::Request;
use crate::harness::vendors::{SCRAPINGBEE, Simulator};
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, collect, ended, eventually, expect, get, post, refused, text};
use crate::workflows::{at, chain, direct, draft, put};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

/// A web that counts its visits: the first visits of `/flaky/N/…` fail, as many as N.
struct Shop {
    web: Web,
    visits: Arc<Mutex<HashMap<String, usize>>>,
}

impl Shop {
    async fn open() -> Shop {
        let visits: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let seen = visits.clone();
        let web = Web::open(move |path| {
            let visit = {
                let mut seen = seen.lock().unwrap();
                let count = seen.entry(path.to_owned()).or_default();
                *count += 1;
                *count
            };
            let mut parts = path.split('/').skip(1);
            Some(match parts.next().unwrap_or_default() {
                "flaky" if visit <= parts.next().unwrap().parse().unwrap() => Answer::status(503),
                "walled" => Answer::status(403),
                "gone" => Answer::status(404),
                "slow" => Answer::html("late").held("slow"),
                "robots.txt" => return None,
                _ => Answer::html(format!("<title>{path}</title>")),
            })
        })
        .await;
        Shop { web, visits }
    }

    fn visits(&self, path: &str) -> usize {
        self.visits.lock().unwrap().get(path).copied().unwrap_or(0)
    }
}

async fn start(shop: &Shop) -> Appliance {
    let hosts = "{ \"www.a.test\" = [\"127.0.0.1\"], \"b.test\" = [\"127.0.0.1\"] }";
    Appliance::start_with(&[
        ("NETWORK__ALLOW", &shop.web.allow()),
        ("NETWORK__HOSTS", hosts),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
    ])
    .await
}

/// Another provider of the box itself, at another price.
async fn connect(api: &Client, name: &str, price: u64) -> String {
    let new = json!({
        "adapter": "direct", "name": name, "credits": { "standard": { "plain": price, "render": price } },
    });
    text(&expect(post(api, "/api/v1/providers", &new).await, 201), "id").to_owned()
}

async fn published(member: &Member, name: &str, dag: &Value, route: Option<&str>) -> String {
    let id = draft(member, name, dag).await;
    if let Some(route) = route {
        expect(put(&member.api, &at(&id, "/routing"), &json!({ "route": route })).await, 200);
    }
    expect(post(&member.api, &at(&id, "/publish"), &json!({})).await, 200);
    id
}

async fn run(api: &Client, body: Value) -> Value {
    let job = expect(post(api, "/api/v1/jobs", &body).await, 201);
    ended(api, text(&job, "id")).await
}

fn outcomes(job: &Value) -> Vec<(&str, &str)> {
    let attempts = job["attempts"].as_array().unwrap();
    attempts.iter().map(|a| (a["nodeId"].as_str().unwrap_or("-"), text(a, "outcome"))).collect()
}

async fn credits_left(api: &Client) -> u64 {
    expect(get(api, "/api/v1/plans/current").await, 200)["remainingCredits"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_takes_the_workflow_that_is_meant() {
    let shop = Shop::open().await;
    let appliance = start(&shop).await;
    let member = appliance.member("which").await;
    let api = &member.api;
    let dag = chain(&[&direct(&member).await]);
    let port = shop.web.address.port();
    let of = async |url: &str| {
        let job = run(api, json!({ "url": format!("http://{url}") })).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        job["workflowId"].as_str().map(str::to_owned)
    };
    let (www, b) = (format!("www.a.test:{port}/x"), format!("b.test:{port}/x"));
    assert_eq!(of(&www).await, None, "the built-in path");
    let everybody = published(&member, "everybody", &dag, Some("*")).await;
    assert_eq!(of(&www).await, Some(everybody.clone()));
    let domain = published(&member, "domain", &dag, Some("domain:a.test")).await;
    assert_eq!((of(&www).await, of(&b).await), (Some(domain.clone()), Some(everybody.clone())));
    let host = published(&member, "host", &dag, Some("domain:www.a.test")).await;
    assert_eq!(of(&www).await, Some(host.clone()));
    let named = published(&member, "named", &dag, None).await;
    let job = run(api, json!({ "url": format!("http://{www}"), "workflowId": named })).await;
    assert_eq!(job["workflowId"], json!(named));
    let version = expect(get(api, &at(&named, "")).await, 200)["id"].clone();
    assert_eq!(job["workflowVersionId"], version);
    assert_eq!(outcomes(&job), [("p0", "success")]);
    expect(post(api, &at(&host, "/unpublish"), &json!({})).await, 200);
    assert_eq!(of(&www).await, Some(domain), "its route is free");

    // What is not published, not there or somebody else's.
    let other = appliance.member("other").await;
    let theirs = draft(&other, "theirs", &dag).await;
    let url = shop.web.url("/x");
    for id in [Uuid::now_v7().to_string(), theirs] {
        let refusal = post(api, "/api/v1/jobs", &json!({ "url": url, "workflowId": id })).await;
        refused(&refusal, 404, "Workflow not found", "workflowId: is no workflow of this organization");
        let upload = json!({ "urls": [{ "url": url, "workflowId": id }, shop.web.url("/y")] });
        let upload = expect(post(api, "/api/v1/urls", &upload).await, 200);
        assert_eq!(upload["invalid"][0]["index"], 0, "{upload}");
        assert!(text(&upload["invalid"][0], "reason").contains("workflowId"), "{upload}");
    }
    let refusal = post(api, "/api/v1/jobs", &json!({ "url": url, "workflowId": host })).await;
    refused(&refusal, 409, "Workflow is not published", "a draft");
    // A registered URL's workflow is its jobs'.
    let bound = json!({ "urls": [{ "url": shop.web.url("/bound"), "workflowId": named }] });
    assert_eq!(expect(post(api, "/api/v1/urls", &bound).await, 200)["created"], 1);
    assert_eq!(collect(api, &shop.web.url("/bound")).await["workflowId"], json!(named));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_follow_the_edges_and_only_a_delivery_is_charged() {
    let shop = Shop::open().await;
    let appliance = start(&shop).await;
    let member = appliance.member("edges").await;
    let api = &member.api;
    let first = direct(&member).await;
    let dear = connect(api, "Dear", 7).await;
    let flow = published(&member, "two", &chain(&[&first, &dear]), None).await;
    let with = |path: &str| json!({ "url": shop.web.url(path), "workflowId": flow });
    let begin = credits_left(api).await;
    let submitted = expect(post(api, "/api/v1/jobs", &with("/slow")).await, 201);
    assert_eq!(credits_left(api).await, begin - 7, "the most that it could be charged is held");
    shop.web.release("slow");
    let job = ended(api, text(&submitted, "id")).await;
    assert_eq!((outcomes(&job), &job["creditsCharged"]), (vec![("p0", "success")], &json!(1)));
    let job = run(api, with("/flaky/1/x")).await;
    assert_eq!(outcomes(&job), [("p0", "target_error"), ("p1", "success")]);
    assert_eq!((&job["creditsCharged"], &job["status"]), (&json!(7), &json!("succeeded")));
    assert_eq!(job["attempts"][1]["providerId"], json!(dear));
    let job = run(api, with("/walled")).await;
    assert_eq!(outcomes(&job), [("p0", "blocked"), ("p1", "blocked")]);
    assert_eq!((&job["creditsCharged"], &job["status"]), (&json!(0), &json!("failed")));
    // The target's own answer: nobody else is asked, and it is charged.
    let job = run(api, with("/gone")).await;
    assert_eq!((outcomes(&job), &job["creditsCharged"]), (vec![("p0", "target_error")], &json!(1)));
    assert_eq!(credits_left(api).await, begin - 1 - 7 - 1);
    // A provider that is gone is an attempt that fails; the next one is asked.
    let gone =
        api.send(http::Method::DELETE, &format!("/api/v1/providers/{first}?force=true"), None).await.unwrap();
    assert_eq!(gone.status, 204);
    let job = run(api, with("/x")).await;
    assert_eq!(outcomes(&job), [("p0", "provider_error"), ("p1", "success")]);
    assert!(text(&job["attempts"][0], "error").contains("not connected"), "{job}");
}

/// start → wait → (a flaky page, tried again) → race of both → ok | bad.
fn long_way(first: &str, second: &str, wait_ms: u64) -> Value {
    json!({
        "nodes": [
            { "id": "start", "type": "start" },
            { "id": "wait", "type": "wait", "config": { "ms": wait_ms } },
            { "id": "again", "type": "provider", "config": { "providerId": first, "retries": 2, "timeoutMs": 30_000 } },
            { "id": "tagged", "type": "condition", "config": { "field": "tag", "op": "eq", "value": "race" } },
            { "id": "race", "type": "race", "config": { "providerIds": [first, second] } },
            { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
            { "id": "bad", "type": "end", "config": { "status": "failed" } },
        ],
        "edges": [
            { "source": "start", "target": "wait", "type": "always" },
            { "source": "wait", "target": "again", "type": "always" },
            { "source": "again", "target": "ok", "type": "success" },
            { "source": "again", "target": "tagged", "type": "failure" },
            { "source": "tagged", "target": "race", "type": "true" },
            { "source": "tagged", "target": "bad", "type": "false" },
            { "source": "race", "target": "ok", "type": "success" },
            { "source": "race", "target": "bad", "type": "failure" },
        ],
    })
}

/// Both at once.
fn race_of(first: &str, second: &str) -> Value {
    json!({
        "nodes": [
            { "id": "start", "type": "start" },
            { "id": "race", "type": "race", "config": { "providerIds": [first, second] } },
            { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
            { "id": "bad", "type": "end", "config": { "status": "failed" } },
        ],
        "edges": [
            { "source": "start", "target": "race", "type": "always" },
            { "source": "race", "target": "ok", "type": "success" },
            { "source": "race", "target": "bad", "type": "failure" },
        ],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_node_does_its_work() {
    let shop = Shop::open().await;
    let appliance = start(&shop).await;
    let member = appliance.member("nodes").await;
    let api = &member.api;
    let (first, second) = (direct(&member).await, connect(api, "Second", 1).await);
    let flow = published(&member, "long", &long_way(&first, &second, 50), None).await;
    let with =
        |path: &str, tags: Value| json!({ "url": shop.web.url(path), "workflowId": flow, "tags": tags });
    let job = run(api, with("/flaky/2/a", json!([]))).await;
    assert_eq!(outcomes(&job), [("again", "target_error"), ("again", "target_error"), ("again", "success")]);
    assert_eq!(shop.visits("/flaky/2/a"), 3);
    let job = run(api, with("/flaky/3/b", json!([]))).await;
    assert_eq!((outcomes(&job).len(), &job["status"]), (3, &json!("failed")));
    // A provider that has failed five times in a row at a domain would rest there.
    assert_eq!(run(api, with("/fine/between", json!([]))).await["status"], "succeeded");
    let job = run(api, with("/flaky/3/c", json!(["race"]))).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    // The one that lost is not waited for, and stands there all the same.
    assert_eq!(outcomes(&job)[3..], [("race", "success"), ("race", "canceled")]);
    let numbers: Vec<_> = job["attempts"].as_array().unwrap().iter().map(|a| a["n"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5].map(Value::from));
    let (won, lost) = (&job["attempts"][3], &job["attempts"][4]);
    assert_ne!(won["providerId"], lost["providerId"]);
    assert!(text(lost, "error").contains("another provider of the race"), "{lost}");
    // A race that brings the target's own answer says so, and not what became of the one that lost.
    let flow = published(&member, "race", &race_of(&first, &second), None).await;
    let job = run(api, json!({ "url": shop.web.url("/gone"), "workflowId": flow })).await;
    assert_eq!(outcomes(&job), [("race", "target_error"), ("race", "canceled")]);
    assert_eq!((&job["creditsCharged"], &job["error"]), (&json!(1), &json!("answered 404")), "{job}");
    let mut hasty = long_way(&first, &second, 50);
    hasty["nodes"][2]["config"]["timeoutMs"] = json!(2_000);
    let flow = published(&member, "hasty", &hasty, None).await;
    let job = run(api, json!({ "url": shop.web.url("/slow"), "workflowId": flow })).await;
    assert_eq!(outcomes(&job), [("again", "timeout"); 3], "its node has less time than the job");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_hold_nothing_and_survive_a_restart() {
    let shop = Shop::open().await;
    let mut appliance = start(&shop).await;
    let member = appliance.member("waiting").await;
    let first = direct(&member).await;
    let flow =
        published(&member, "patient", &long_way(&first, &first_twin(&member).await, 4_000), None).await;
    let jobs: Vec<_> =
        (0..300).map(|i| json!({ "url": shop.web.url(&format!("/page/{i}")), "workflowId": flow })).collect();
    let batch = expect(post(&member.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    let ids: Vec<_> =
        batch["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").to_owned()).collect();
    // Every one of them was begun and put down again.
    eventually("all jobs wait", Duration::from_secs(30), || async {
        let status = appliance.operator(Request::Status).await;
        let begun = expect(get(&member.api, &format!("/api/v1/jobs/{}", ids[299])).await, 200);
        (status["jobsRunning"] == 0 && begun["startedAt"].is_string()).then_some(())
    })
    .await;
    let waiting = expect(get(&member.api, &format!("/api/v1/jobs/{}", ids[0])).await, 200);
    assert_eq!((&waiting["status"], waiting["attempts"].as_array().unwrap().len()), (&json!("queued"), 0));
    // One of them is canceled while it waits, and costs nothing.
    let path = format!("/api/v1/jobs/{}/cancel", ids[7]);
    assert_eq!(expect(post(&member.api, &path, &json!({})).await, 200)["status"], "canceled");
    appliance.restart().await;
    let client = appliance.client().bearer(&member.key);
    for (i, id) in ids.iter().enumerate() {
        let job = ended(&client, id).await;
        let expected = if i == 7 { "canceled" } else { "succeeded" };
        assert_eq!(job["status"], expected, "{job}");
    }
    assert_eq!(shop.visits("/page/7"), 0);
    let plan = expect(get(&client, "/api/v1/plans/current").await, 200);
    assert_eq!((&plan["remainingCredits"], &plan["usedThisPeriod"]), (&json!(1_000_000 - 299), &json!(299)));
}

async fn first_twin(member: &Member) -> String {
    connect(&member.api, "Twin", 1).await
}

/// A page that is not good enough is kept while another provider is asked, and delivered when nobody has a better one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extract_node_decides_by_quality() {
    let shop = Shop::open().await;
    let appliance = start(&shop).await;
    let member = appliance.member("quality").await;
    let api = &member.api;
    let schemas = json!({ "schemas": [{ "pageType": "article", "attributes": [
        { "name": "title", "xpaths": ["//title"], "type": "text" },
        { "name": "author", "xpaths": ["//i"], "type": "text" },
        { "name": "date", "xpaths": ["//b"], "type": "text" },
    ]}]});
    let import = Request::SchemaImport { json: schemas.to_string(), domain: Some("127.0.0.1".to_owned()) };
    assert_eq!(appliance.operator(import).await["created"], 1);
    let (first, second) = (direct(&member).await, connect(api, "Second", 7).await);
    let mut dag = chain(&[&first, &second]);
    dag["edges"][1]["target"] = json!("judge");
    dag["nodes"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "id": "judge", "type": "extract", "config": { "minQuality": 0.9 } }));
    for (kind, target) in [("success", "ok"), ("low_quality", "p1")] {
        let edge = json!({ "source": "judge", "target": target, "type": kind });
        dag["edges"].as_array_mut().unwrap().push(edge);
    }
    // What p1 cannot better is delivered as it is.
    let last =
        dag["edges"].as_array().unwrap().iter().position(|e| e["source"] == "p1" && e["type"] == "failure");
    let failing = dag.clone();
    let refusal = {
        let mut dag = failing;
        dag["edges"][last.unwrap()]["target"] = json!("ok");
        post(api, "/api/v1/workflows", &json!({ "name": "x", "dag": dag })).await
    };
    refused(&refusal, 400, "Invalid workflow", "without a page");
    let flow = published(&member, "judged", &dag, None).await;
    let job = run(api, json!({ "url": shop.web.url("/p"), "workflowId": flow, "pageType": "article" })).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(outcomes(&job), [("p0", "low_quality"), ("p1", "success")]);
    assert!(text(&job["attempts"][0], "error").contains("less than 0.90"), "{job}");
    assert_eq!(job["creditsCharged"], 7, "the one that delivered is charged");
    assert_eq!(shop.visits("/p"), 2);
}

/// A hosted provider at `base`, with a key that is good for whatever stands there.
async fn hosted(api: &Client, name: &str, base: &str) -> String {
    let new = json!({
        "adapter": "scrapingbee", "name": name, "baseUrl": base, "credentials": { "apiKey": "good-key" },
    });
    text(&expect(post(api, "/api/v1/providers", &new).await, 201), "id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hosted_service_says_of_a_sites_pace_holds_up_nobody_else() {
    let shop = Shop::open().await;
    // The vendor passes on that the target wants to be left alone for ten minutes.
    let vendor = Web::open(|_| {
        let mut busy = Answer::status(429);
        for (name, value) in [("spb-initial-status-code", "429"), ("spb-retry-after", "600")] {
            busy.headers.push((name.to_owned(), value.to_owned()));
        }
        Some(busy)
    })
    .await;
    let allow =
        format!("[\"127.0.0.1/32:{}\", \"127.0.0.1/32:{}\"]", shop.web.address.port(), vendor.address.port());
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
    let member = appliance.member("pace").await;
    let api = &member.api;
    let bee = hosted(api, "Bee", &vendor.url("")).await;
    let flow = published(&member, "bee", &chain(&[&bee]), None).await;
    let job = run(api, json!({ "url": shop.web.url("/x"), "workflowId": flow })).await;
    assert_eq!((outcomes(&job), &job["attempts"][0]["httpStatus"]), (vec![("p0", "blocked")], &json!(429)));
    // The box itself visits the same site now, and not in ten minutes.
    assert_eq!(collect(api, &shop.web.url("/x")).await["status"], "succeeded");
}

/// A provider that cannot be reached is passed over at once where there is another; one that is throttled too, and is waited
/// for where there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_be_asked_now_is_passed_over_or_waited_for() {
    let shop = Shop::open().await;
    let vendor = Simulator::open(SCRAPINGBEE).await;
    // Nobody listens here any more.
    let dead = Web::open(|_| None).await;
    let dead_url = dead.url("");
    let allow =
        [shop.web.address, vendor.address, dead.address].map(|at| format!("\"127.0.0.1/32:{}\"", at.port()));
    drop(dead);
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &format!("[{}]", allow.join(",")))]).await;
    let member = appliance.member("passed").await;
    let api = &member.api;
    let direct = direct(&member).await;
    let dead = hosted(api, "Dead", &dead_url).await;
    let flow = published(&member, "dead first", &chain(&[&dead, &direct]), None).await;
    let body = json!({ "url": shop.web.url("/x"), "workflowId": flow });
    let first = run(api, body.clone()).await;
    assert_eq!(outcomes(&first), [("p0", "provider_error"), ("p1", "success")]);
    // Its account rests now, and the next job does not wait for that to end. (A machine that takes longer for it than the
    // first pause lasts has a second one, which is longer.)
    let mut was_asked = true;
    for _ in 0..2 {
        let next = run(api, body.clone()).await;
        assert_eq!(outcomes(&next), [("p0", "provider_error"), ("p1", "success")]);
        was_asked &= next["attempts"][0]["rule"] != "not_asked";
    }
    assert!(!was_asked, "jobs wait for a provider that is down");

    // A plan that is used by too many at once. The only provider of a graph is asked again when it may be.
    let bee = hosted(api, "Bee", &vendor.url()).await;
    let key = async |key: &str| {
        let patch = json!({ "credentials": { "apiKey": key } });
        let path = format!("/api/v1/providers/{bee}");
        expect(api.send(http::Method::PATCH, &path, Some(&patch)).await.unwrap(), 200);
    };
    key("busy-key").await;
    let flow = published(&member, "bee", &chain(&[&bee]), None).await;
    let job = json!({ "url": "http://page.test/", "workflowId": flow });
    let id = text(&expect(post(api, "/api/v1/jobs", &job).await, 201), "id").to_owned();
    let path = format!("/api/v1/jobs/{id}");
    let waiting = eventually("it waits to ask again", Duration::from_secs(60), || async {
        let job = expect(get(api, &path).await, 200);
        (job["status"] == "queued" && job["attempts"].as_array().unwrap().len() == 1).then_some(job)
    })
    .await;
    assert_eq!(waiting["attempts"][0]["outcome"], "provider_error");
    key("good-key").await;
    let job = ended(api, &id).await;
    assert_eq!((&job["status"], &job["creditsCharged"]), (&json!("succeeded"), &json!(1)), "{job}");
    let all = outcomes(&job);
    assert_eq!(all.last(), Some(&("p0", "success")), "{job}");
    assert!(
        all.len() <= 6 && all[..all.len() - 1].iter().all(|one| *one == ("p0", "provider_error")),
        "{job}"
    );

    // In a race somebody else has seen the target, so it is lost, and nobody is asked again.
    key("busy-key").await;
    let raced = published(&member, "raced", &race_of(&bee, &direct), None).await;
    let job = run(api, json!({ "url": shop.web.url("/walled"), "workflowId": raced })).await;
    let mut all = outcomes(&job);
    all.sort_unstable();
    assert_eq!(all, [("race", "blocked"), ("race", "provider_error")], "{job}");

    // With another one behind it the graph goes on, and there is nothing to wait for.
    key("busy-key").await;
    let flow = published(&member, "bee first", &chain(&[&bee, &direct]), None).await;
    for rule in [json!("scrapingbee_throttled"), json!("not_asked")] {
        let job = run(api, json!({ "url": shop.web.url("/y"), "workflowId": flow })).await;
        assert_eq!(outcomes(&job), [("p0", "provider_error"), ("p1", "success")]);
        if rule == "scrapingbee_throttled" {
            assert_eq!(job["attempts"][0]["rule"], rule, "{job}");
        }
    }
}

/// Robots.txt is obeyed unless a node says otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_may_leave_robots_txt_aside() {
    let web = Web::open(|path| {
        Some(match path {
            "/robots.txt" => {
                let mut rules = Answer::html("User-agent: *\nDisallow: /private\n");
                rules.headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
                rules
            }
            path => Answer::html(format!("<title>{path}</title>")),
        })
    })
    .await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("robots").await;
    let direct = direct(&member).await;
    let obeying = published(&member, "obeying", &chain(&[&direct]), None).await;
    let mut dag = chain(&[&direct]);
    dag["nodes"][1]["config"]["robots"] = json!(false);
    let other = published(&member, "other", &dag, None).await;
    let of =
        async |flow: &str| run(&member.api, json!({ "url": web.url("/private"), "workflowId": flow })).await;
    let job = of(&obeying).await;
    assert_eq!((&job["status"], outcomes(&job)), (&json!("failed"), vec![("p0", "target_error")]));
    assert!(text(&job, "error").contains("robots.txt"), "{job}");
    assert_eq!(of(&other).await["status"], "succeeded");
    dag["nodes"][1]["config"]["robots"] = json!("no");
    let refusal = post(&member.api, "/api/v1/workflows", &json!({ "name": "x", "dag": dag })).await;
    refused(
        &refusal,
        400,
        "Invalid workflow",
        "dag.nodes[1].config.robots: bad_config: must be true or false",
    );
}
