//! Crawls: sites are walked whole, nothing twice, nothing that is forbidden, within their bounds; also by a box that is killed.

mod led;
mod site;

use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::random::Random;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Request, eventually, expect, get, member, post, refused, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::client::Client;
use site::Shop;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const INPUTS: &str = "/api/v1/inputs";
const PATIENCE: Duration = Duration::from_secs(300);

async fn open_shop(items: usize) -> (Arc<Shop>, Web) {
    let shop = Arc::new(Shop::new(0x5eed_0014, items));
    let answering = shop.clone();
    let web = Web::open_hosts(move |_, target| answering.answer(target)).await;
    (shop, web)
}

/// Items are kept; lists, articles and tags are walked through; reviews are not asked for.
fn shop_crawl(web: &Web, more: Value) -> Value {
    let mut crawl = json!({
        "kind": "crawl", "name": "shop", "startUrls": [web.url("/")], "tags": ["shop"], "depth": 12, "maxPages": 6_000,
        "rules": [
            { "include": ["*/item/*/reviews"], "follow": false },
            { "include": ["*/item/*"], "keep": { "pageType": "product", "tags": ["item"] } },
            { "css": "head > link, main, nav" },
        ],
    });
    crawl.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    crawl
}

async fn make(api: &Client, new: &Value) -> String {
    text(&expect(post(api, INPUTS, new).await, 201), "id").to_owned()
}

async fn newest(api: &Client, input: &str) -> Value {
    let listed = expect(get(api, &format!("{INPUTS}/{input}/runs?limit=1")).await, 200);
    listed["items"][0].clone()
}

async fn begin(api: &Client, input: &str, request: &Value) -> Value {
    expect(post(api, &format!("{INPUTS}/{input}/run"), request).await, 202)
}

/// The run when it has ended.
async fn ended(api: &Client, input: &str) -> Value {
    let run = eventually("the run ends", PATIENCE, || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let run = newest(api, input).await;
        (run["status"] != "running").then_some(run)
    });
    let run = run.await;
    let sum: u64 = ["added", "changed", "unchanged", "duplicates", "filtered", "refused"]
        .iter()
        .map(|name| run[name].as_u64().unwrap())
        .sum();
    assert_eq!(run["found"], sum, "{run}");
    run
}

async fn run(api: &Client, input: &str, request: &Value) -> Value {
    let begun = begin(api, input, request).await;
    let run = ended(api, input).await;
    assert_eq!(run["id"], begun["id"]);
    run
}

async fn all(api: &Client, path: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(get(api, &format!("{path}{cursor}")).await, 200);
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn count(run: &Value, name: &str) -> u64 {
    run[name].as_u64().or(run["crawl"][name].as_u64()).unwrap_or_else(|| panic!("{name} of {run}"))
}

/// Every item of the shop is a URL, once, under its own address, with what the rule says and its newest job.
async fn has_all_items(api: &Client, shop: &Shop) {
    let urls = all(api, "/api/v1/urls?limit=200").await;
    let mut ids = BTreeSet::new();
    for url in &urls {
        let (_, id) = text(url, "url").rsplit_once("/item/").unwrap_or_else(|| panic!("{url} is no item"));
        let id: u32 = id.parse().unwrap_or_else(|_| panic!("{url} is not its own address"));
        assert!(ids.insert(id), "{url} is there twice");
        assert_eq!((&url["pageType"], &url["tags"]), (&json!("product"), &json!(["item", "shop"])), "{url}");
        assert_eq!(url["lastStatus"], "succeeded", "{url}");
        assert!(url["lastScrapedAt"].is_string(), "{url}");
    }
    let wanted: BTreeSet<u32> = shop.items.iter().copied().collect();
    assert_eq!(ids.len(), wanted.len(), "missing: {:?}", wanted.difference(&ids).take(5).collect::<Vec<_>>());
    assert_eq!(ids, wanted);
}

/// The three traps are named, nothing forbidden was asked for, and the bounds hold.
fn is_within_bounds(run: &Value, shop: &Shop) {
    let whys: BTreeSet<&str> =
        run["crawl"]["traps"].as_array().unwrap().iter().map(|trap| text(trap, "why")).collect();
    for why in ["calendar", "session", "endless"] {
        assert!(whys.contains(why), "{why} is not named: {}", run["crawl"]["traps"]);
    }
    assert!(count(run, "jobsCreated") <= 6_000 && count(run, "depthReached") <= 12, "{run}");
    for target in shop.asked().keys() {
        assert!(!target.starts_with("/private"), "{target} is forbidden");
        assert!(!target.ends_with("/reviews"), "{target} is not meant");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_of_five_thousand_pages_is_walked_whole() {
    let (shop, web) = open_shop(2_000).await;
    let at = Appliance::start_with(&[
        ("NETWORK__ALLOW", &web.allow()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64"),
    ])
    .await;
    let member = at.member("walker").await;
    let api = &member.api;
    let input = make(api, &shop_crawl(&web, json!({}))).await;
    let begun = Instant::now();
    let run = run(api, &input, &json!({})).await;
    let (took, pages) = (begun.elapsed(), count(&run, "pagesWalked"));
    println!("{pages} pages in {took:?}: {run}");
    assert_eq!((&run["status"], count(&run, "added")), (&json!("completed"), 2_000), "{run}");
    assert_eq!((count(&run, "pagesLeft"), count(&run, "pagesUnderWay")), (0, 0), "{run}");
    assert!(
        count(&run, "duplicates") > 0 && count(&run, "robotsRefused") > 0 && count(&run, "ledAway") > 0,
        "{run}"
    );
    has_all_items(api, &shop).await;
    is_within_bounds(&run, &shop);
    let twice: Vec<_> = shop.asked().into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.iter().all(|(target, _)| target == "/robots.txt"), "asked for twice: {twice:?}");
    let batch = expect(get(api, &format!("/api/v1/batches/{}", text(&run, "batchId"))).await, 200);
    assert_eq!(batch["source"], "crawl");
    assert_eq!(batch["byStatus"]["queued"], 0);

    // What is kept was read lately: only what is walked through is asked for again.
    let before = shop.asked();
    let again = self::run(api, &input, &json!({})).await;
    assert_eq!((&again["status"], count(&again, "added")), (&json!("unchanged"), 0), "{again}");
    assert!((1_700..=2_000).contains(&count(&again, "unchanged")), "{again}");
    for (target, times) in shop.asked() {
        let is_item = target.contains("/item/") || target.contains("tem/");
        let is_buy = target.ends_with("/buy");
        assert!(!is_item || is_buy || before.get(&target) == Some(&times), "{target} was asked for again");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_is_killed_twenty_times_walks_on_and_finds_the_same() {
    let (shop, web) = open_shop(2_000).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = web.allow();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "killed").await;
    let input = make(&process.client().bearer(&owner.key), &shop_crawl(&web, json!({}))).await;
    let begun = begin(&process.client().bearer(&owner.key), &input, &json!({})).await;
    let mut random = Random(0x5eed_2014);
    let mut kills = 0;
    for _ in 0..20 {
        // From the first page on: a run that waits for its turn is not killed in the midst of anything.
        let api = process.client().bearer(&owner.key);
        let before = shop.asked().values().sum::<usize>();
        let run = eventually("it walks on", PATIENCE, || async {
            let run = newest(&api, &input).await;
            let has_moved = shop.asked().values().sum::<usize>() > before + 5;
            (has_moved || run["status"] != "running").then_some(run)
        })
        .await;
        if run["status"] != "running" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(random.below(40) as u64)).await;
        process.kill();
        kills += 1;
        process = Process::start(&data, &settings);
    }
    // Where the test itself waits for a busy machine, the walk gets on between two kills.
    assert!(kills >= 10, "the walk ended after {kills} kills");
    let api = process.client().bearer(&owner.key);
    let run = ended(&api, &input).await;
    assert_eq!(run["id"], begun["id"], "it is one run");
    assert_eq!((&run["status"], count(&run, "added")), (&json!("completed"), 2_000), "{run}");
    assert_eq!((count(&run, "pagesLeft"), count(&run, "pagesFailed")), (0, 0), "{run}");
    has_all_items(&api, &shop).await;
    is_within_bounds(&run, &shop);
    // Nothing is counted or submitted twice, whatever was cut off.
    let batch = text(&run, "batchId");
    let jobs = all(&api, &format!("/api/v1/jobs?limit=200&batchId={batch}")).await;
    let urls: BTreeSet<&str> = jobs.iter().map(|job| text(job, "url")).collect();
    assert_eq!((jobs.len() as u64, urls.len()), (count(&run, "jobsCreated"), jobs.len()));
    let walked = count(&run, "pagesWalked") + count(&run, "pagesFailed") + count(&run, "robotsRefused");
    assert_eq!(walked, jobs.len() as u64, "{run}");
    assert_eq!(process.terminate(), Some(0));
}

async fn box_for(web: &Web) -> Appliance {
    let settings = [("NETWORK__ALLOW", &*web.allow()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    Appliance::start_with(&settings).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_where_credits_do_and_the_next_one_goes_on() {
    let (shop, web) = open_shop(800).await;
    let at = box_for(&web).await;
    let member = at.member("poor").await;
    let api = &member.api;
    let plan = |plan: &str| Request::OrgPlan { org: member.org_id.clone(), plan: plan.to_owned() };
    // It has 1,000 credits.
    at.operator(plan("trial")).await;
    let input = make(api, &shop_crawl(&web, json!({}))).await;
    let cut = self::run(api, &input, &json!({})).await;
    assert_eq!((&cut["status"], &cut["incomplete"]), (&json!("completed"), &json!(true)), "{cut}");
    assert!(text(&cut, "message").contains("pages are left"), "{cut}");
    let (found, left) = (count(&cut, "added"), count(&cut, "pagesLeft"));
    assert!(found > 0 && found < 800 && left > 0 && count(&cut, "jobsCreated") >= 1_000, "{cut}");
    let none = post(api, &format!("{INPUTS}/{input}/run"), &json!({})).await;
    assert_eq!(none.status, 402, "{}", none.text());
    at.operator(plan("team")).await;
    let before = shop.asked();
    let rest = self::run(api, &input, &json!({})).await;
    assert_eq!((&rest["status"], count(&rest, "pagesLeft")), (&json!("completed"), 0), "{rest}");
    assert_eq!(found + count(&rest, "added"), 800, "{rest}");
    has_all_items(api, &shop).await;
    let is_again = |(url, times): &(String, usize)| before.get(url).is_some_and(|was| was < times);
    let again: Vec<_> = shop.asked().into_iter().filter(is_again).collect();
    assert!(again.is_empty(), "it begins where the one before it ended: {again:?}");
    // Each run is told twice, as a crawl and not as any input.
    let mut told = all(api, "/api/v1/events?kind=crawl.*,input.*&limit=50").await;
    told.sort_by_key(|event| count(event, "seq"));
    let kinds: Vec<_> = told.iter().map(|event| text(event, "kind")).collect();
    assert_eq!(kinds, ["crawl.started", "crawl.completed", "crawl.started", "crawl.completed"], "{told:?}");
    for (event, run) in [(&told[1], &cut), (&told[3], &rest)] {
        let data = &event["data"];
        assert_eq!(event["subject"], json!({ "type": "crawl", "id": input }));
        assert_eq!([&data["runId"], &data["message"]], [&run["id"], &run["message"]], "{event}");
        let counts = ["added", "changed", "jobsCreated"].map(|name| (count(data, name), count(run, name)));
        assert!(counts.iter().all(|(told, was)| told == was), "{event} {run}");
        let walk = [count(data, "pages"), count(data, "left")];
        assert_eq!(walk, [count(run, "jobsCreated"), count(run, "pagesLeft")], "{event}");
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_reached_its_bound_is_gone_on_with_under_the_same_terms() {
    let (shop, web) = open_shop(400).await;
    let at = box_for(&web).await;
    let member = at.member("patient").await;
    let api = &member.api;
    let input = make(api, &shop_crawl(&web, json!({ "maxPages": 150 }))).await;
    let (mut added, mut runs) = (0, 0);
    loop {
        let run = self::run(api, &input, &json!({})).await;
        (added, runs) = (added + count(&run, "added"), runs + 1);
        assert!(count(&run, "jobsCreated") <= 150 && runs < 20, "{run}");
        if count(&run, "pagesLeft") == 0 {
            break;
        }
        assert!(text(&run, "message").starts_with("asked for 150 pages, as many as it may; "), "{run}");
        assert_eq!((count(&run, "jobsCreated"), &run["incomplete"]), (150, &json!(true)), "{run}");
    }
    assert!(runs > 3, "{runs}");
    assert_eq!(added, 400);
    has_all_items(api, &shop).await;
    // What is changed counts from the next run on, which begins at the start.
    let one = format!("{INPUTS}/{input}");
    self::run(api, &input, &json!({ "full": true })).await;
    expect(patch(api, &one, &json!({ "rules": [], "include": ["*/blog/*"], "maxPages": 1_000 })).await, 200);
    let other = self::run(api, &input, &json!({})).await;
    assert_eq!((count(&other, "pagesLeft"), &other["status"]), (0, &json!("completed")), "{other}");
    let kept = all(api, "/api/v1/urls?limit=200").await;
    let of_url = format!("/api/v1/extraction/results?urlId={}", text(&kept[0], "id"));
    eventually("the result of a page that was kept is found by its URL", PATIENCE, || async {
        let found = expect(get(api, &of_url).await, 200);
        (found["items"][0]["urlId"] == kept[0]["id"]).then_some(())
    })
    .await;
    let blogs = all(api, "/api/v1/urls?limit=200&q=/blog/").await.len();
    assert_eq!((blogs, count(&other, "added")), (100, 101), "the start and a hundred articles: {other}");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_is_canceled_with_its_batch_and_ends_with_its_input() {
    // Pages that are held until they are let go of.
    let web = Web::open_hosts(|_, target| {
        let links: String = (0..200).map(|n| format!("<a href=/p/{n}>{n}</a>")).collect();
        Some(match target {
            "/robots.txt" => return None,
            "/" => Answer::html(links),
            _ => Answer::html(format!("<title>{target}</title>")).held("pages"),
        })
    })
    .await;
    let at = box_for(&web).await;
    let (member, other) = (at.member("owner").await, at.member("curious").await);
    let api = &member.api;
    let new = json!({ "kind": "crawl", "startUrls": [web.url("/")] });
    let input = make(api, &new).await;
    let begun = begin(api, &input, &json!({})).await;
    let walking = eventually("pages are under way", PATIENCE, || async {
        let run = newest(api, &input).await;
        (count(&run, "pagesUnderWay") > 100).then_some(run)
    })
    .await;
    assert!(count(&walking, "pagesUnderWay") <= 128 && count(&walking, "pagesLeft") >= 72, "{walking}");
    assert_eq!((count(&walking, "pagesWalked"), count(&walking, "added")), (1, 1), "{walking}");
    refused(&post(api, &format!("{INPUTS}/{input}/run"), &json!({})).await, 409, "Conflict", "under way");
    // Nobody else sees anything of it.
    assert_eq!(get(&other.api, &format!("{INPUTS}/{input}/runs")).await.status, 404);
    let batch = format!("/api/v1/batches/{}", text(&begun, "id"));
    assert_eq!(get(&other.api, &batch).await.status, 404);
    expect(post(api, &format!("{batch}/cancel"), &json!({})).await, 202);
    let run = ended(api, &input).await;
    assert!(text(&run, "message").contains("canceled") && count(&run, "pagesLeft") >= 72, "{run}");
    eventually("none of its jobs runs", PATIENCE, || async {
        (expect(get(api, &batch).await, 200)["byStatus"]["running"] == 0).then_some(())
    })
    .await;

    let input = make(api, &new).await;
    let begun = begin(api, &input, &json!({})).await;
    eventually("pages are under way", PATIENCE, || async {
        (count(&newest(api, &input).await, "pagesUnderWay") > 100).then_some(())
    })
    .await;
    assert_eq!(api.delete(&format!("{INPUTS}/{input}")).await.unwrap().status, 204);
    let batch = format!("/api/v1/batches/{}", text(&begun, "id"));
    eventually("its jobs are canceled", PATIENCE, || async {
        let batch = expect(get(api, &batch).await, 200);
        (batch["byStatus"]["queued"] == 0 && batch["byStatus"]["running"] == 0).then_some(())
    })
    .await;
    web.release_all();
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crawl_is_told_is_checked_and_shown() {
    let at = Appliance::start().await;
    let member = at.member("reader").await;
    let api = &member.api;
    let start = "https://Shop.example:443/a/../list#top";
    let rules = json!([{ "css": "main a", "keep": { "tags": ["x"] } }, { "xpath": "//nav", "include": ["*?page=*"] }]);
    let new = json!({ "kind": "crawl", "startUrls": [start], "rules": rules, "cron": "@daily" });
    let made = expect(post(api, INPUTS, &new).await, 201);
    for (field, value) in [
        ("name", json!("shop.example")),
        ("url", Value::Null),
        ("startUrls", json!(["https://shop.example/list"])),
        ("depth", json!(5)),
        ("maxPages", json!(1_000)),
        ("revisitAfterSeconds", json!(604_800)),
        ("submitJobs", json!(true)),
        ("anyDomain", json!(false)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(made["rules"][0]["keep"], json!({ "pageType": null, "tags": ["x"] }));
    assert_eq!((&made["rules"][0]["follow"], &made["rules"][1]["follow"]), (&json!(false), &json!(true)));
    let one = format!("{INPUTS}/{}", text(&made, "id"));
    let read = get(api, &one).await;
    let tag = read.header("etag").to_owned();
    assert_eq!(expect(read, 200), made);
    let changed = expect(patch(api, &one, &json!({ "depth": 0, "rules": [] })).await, 200);
    assert_eq!(
        (&changed["depth"], &changed["rules"], &changed["maxPages"]),
        (&json!(0), &json!([]), &json!(1_000))
    );
    let late = patch(&api.header("if-match", &tag), &one, &json!({ "depth": 1 })).await;
    assert_eq!(late.status, 412, "{}", late.text());
    for (wrong, field) in [
        (json!({ "startUrls": [] }), "startUrls"),
        (json!({ "startUrls": vec![start; 101] }), "startUrls"),
        (json!({ "rules": [{ "css": "a:visited" }] }), "rules[0].css: has :visited"),
        (json!({ "rules": [{}, { "xpath": "//a[" }] }), "rules[1].xpath"),
        (json!({ "depth": 101 }), "depth: must be 0 to 100"),
        (json!({ "maxPages": 0 }), "maxPages: must be 1 to 100000"),
        (json!({ "maxPages": 100_001 }), "maxPages"),
        (json!({ "revisitAfterSeconds": 400_000_000 }), "revisitAfterSeconds"),
        (json!({ "url": start }), "url"),
        (json!({ "submitJobs": false }), "submitJobs"),
    ] {
        refused(&patch(api, &one, &wrong).await, 400, "Validation failed", field);
    }
    refused(&post(api, INPUTS, &json!({ "kind": "crawl" })).await, 400, "Validation failed", "startUrls");
    let inside = json!({ "kind": "crawl", "startUrls": [start, "http://10.0.0.1/"] });
    refused(&post(api, INPUTS, &inside).await, 400, "Invalid URL", "startUrls[1]");
    let feed = json!({ "kind": "feed", "url": start, "depth": 3 });
    refused(&post(api, INPUTS, &feed).await, 400, "Validation failed", "depth");
    let listed = expect(get(api, &format!("{INPUTS}?kind=crawl")).await, 200);
    assert_eq!(listed["items"], json!([changed]));
    at.stop().await;
}

/// Pages whose every part is as large or as wrong as it may be.
fn hostile(target: &str) -> Option<Answer> {
    let typed = |kind: &str, body: &str| Answer {
        headers: vec![("content-type".into(), kind.into())],
        ..Answer::html(body)
    };
    Some(match target {
        "/robots.txt" => return None,
        "/" => {
            let nested = "<div>".repeat(3_000);
            let long = "y".repeat(1_950);
            Answer::html(format!(
                "{nested}<a href=/deep/>d</a><a href='/long?{long}'>l</a><a href=/wide>w</a><a href=/bin>b</a>\
                 <a href='http://[::1/'>bad</a><a href=/loop/1>r</a><a href=/plain/0>p</a>"
            ))
        }
        // Links that are relative by mistake: each page has one part more.
        _ if target.starts_with("/deep/") => Answer::html(format!("{target}<a href='deep/'>on</a>")),
        _ if target.starts_with("/long") => Answer::html(format!("<a href='{target}yyyyyyyyyy'>on</a>")),
        "/wide" => Answer::html((0..7_000).map(|n| format!("<a href='/w/{n}'>x</a>")).collect::<String>()),
        "/bin" => typed("application/pdf", "<a href=/never>n</a>"),
        _ if target.starts_with("/loop/") => Answer::redirect(target),
        _ => Answer::html(format!("{target}<link rel=canonical href=/><a href='javascript:1'>j</a>")),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_site_ends_at_the_bounds() {
    let web = Web::open_hosts(|_, target| hostile(target)).await;
    let at = box_for(&web).await;
    let member = at.member("brave").await;
    let api = &member.api;
    let new = json!({
        "kind": "crawl", "startUrls": [web.url("/")], "depth": 100, "maxPages": 300, "exclude": ["*/wide"],
    });
    let input = make(api, &new).await;
    let run = self::run(api, &input, &json!({})).await;
    assert_eq!((&run["status"], count(&run, "pagesLeft")), (&json!("completed"), 0), "{run}");
    let traps = run["crawl"]["traps"].as_array().unwrap();
    let whys: BTreeSet<&str> = traps.iter().map(|trap| text(trap, "why")).collect();
    assert!(whys.contains("repeated") && whys.contains("long"), "{run}");
    assert_eq!((count(&run, "refused"), count(&run, "pagesFailed")), (1, 1), "{run}");
    let urls = all(api, "/api/v1/urls?limit=200").await;
    assert_eq!(urls.len() as u64, count(&run, "added"));
    let has = |part: &str| urls.iter().any(|url| text(url, "url").ends_with(part));
    assert!(has("/bin") && !has("/never"), "{run}");
    assert!(has("/plain/0"), "a page that says that it is the home page is not believed: {run}");

    let wide = json!({ "kind": "crawl", "startUrls": [web.url("/wide")], "maxPages": 300 });
    let input = make(api, &wide).await;
    let run = self::run(api, &input, &json!({})).await;
    assert_eq!((count(&run, "jobsCreated"), count(&run, "truncated")), (300, 2_000), "{run}");
    assert_eq!(count(&run, "pagesLeft"), 5_000 - 299, "{run}");
    at.stop().await;
}

/// What a crawl of one organization takes from another one is a share, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anothers_jobs_do_not_wait_for_a_crawl() {
    let (_shop, web) = open_shop(2_000).await;
    let at = box_for(&web).await;
    let (walker, other) = (at.member("walker").await, at.member("other").await);
    let input = make(&walker.api, &shop_crawl(&web, json!({}))).await;
    begin(&walker.api, &input, &json!({})).await;
    eventually("it walks", PATIENCE, || async {
        (count(&newest(&walker.api, &input).await, "pagesWalked") > 100).then_some(())
    })
    .await;
    let mut longest = Duration::ZERO;
    for n in 0..20 {
        let begun = Instant::now();
        let job = crate::harness::collect(&other.api, &web.url(&format!("/search?page={n}"))).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        longest = longest.max(begun.elapsed());
    }
    let run = newest(&walker.api, &input).await;
    println!(
        "the longest of 20 jobs beside a crawl: {longest:?}; {} pages walked",
        count(&run, "pagesWalked")
    );
    assert_eq!(run["status"], "running", "the crawl ended before it was measured: {run}");
    assert!(longest < Duration::from_secs(4), "a job of somebody else waited {longest:?}");
    assert_eq!(expect(get(&other.api, "/api/v1/urls").await, 200)["items"], json!([]));
    assert_eq!(expect(get(&other.api, INPUTS).await, 200)["items"], json!([]));
    at.stop().await;
}

/// Pages of real sites, each below its own host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_pages_are_walked_under_their_own_names() {
    // Beside the repository, or beside the folder of its worktrees.
    let here = crate::tidy::root();
    let beside = ["../shared", "../../shared"].map(|shared| here.join(shared).join("data/pages/by-domain"));
    let Some(domains) = beside.iter().find_map(|folder| std::fs::read_dir(folder).ok()) else {
        return println!("skipped: no shared pages here");
    };
    let mut pages = BTreeMap::new();
    let mut hosts = BTreeSet::new();
    for domain in domains.map(|entry| entry.unwrap()) {
        let host = format!("www.{}", domain.file_name().to_str().unwrap());
        let mut list = String::from("<title>saved</title>");
        for page in std::fs::read_dir(domain.path()).unwrap().map(|entry| entry.unwrap()) {
            let name = page.file_name().to_str().unwrap().to_owned();
            list += &format!("<p><a href='/saved/{name}'>{name}</a>");
            pages.insert(format!("{host}/saved/{name}"), std::fs::read_to_string(page.path()).unwrap());
        }
        pages.insert(format!("{host}/"), list);
        hosts.insert(host);
    }
    let (served, asked) = (Arc::new(pages), Arc::new(Mutex::new(Vec::new())));
    let (serving, told) = (served.clone(), asked.clone());
    let web = Web::open_hosts(move |host, target| {
        let page = format!("{}{target}", host.split(':').next().unwrap_or(host));
        told.lock().push(page.clone());
        serving.get(&page).map(|text| Answer::html(text.clone()))
    })
    .await;
    let names: Vec<_> = hosts.iter().map(|host| format!("\"{host}\" = [\"127.0.0.1\"]")).collect();
    let names = format!("{{ {} }}", names.join(", "));
    let settings = [("NETWORK__ALLOW", &*web.allow()), ("NETWORK__HOSTS", &*names)];
    let at = Appliance::start_with(&settings).await;
    let member = at.member("real").await;
    let api = &member.api;
    let port = web.address.port();
    let starts: Vec<_> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    // The links of the real pages are read and judged; those that lead elsewhere are not followed.
    let rules = json!([{ "include": ["*/saved/*"], "keep": { "pageType": "article" }, "follow": true }]);
    let new = json!({ "kind": "crawl", "startUrls": starts, "rules": rules });
    let input = make(api, &new).await;
    let run = self::run(api, &input, &json!({})).await;
    let saved = served.len() - hosts.len();
    println!("{saved} pages of {} sites: {run}", hosts.len());
    assert_eq!(
        (&run["status"], count(&run, "pagesFailed"), count(&run, "pagesLeft")),
        (&json!("completed"), 0, 0),
        "{run}"
    );
    assert_eq!(count(&run, "pagesWalked"), served.len() as u64, "{run}");
    assert_eq!(count(&run, "added") + count(&run, "duplicates"), saved as u64, "{run}");
    assert!(count(&run, "added") * 10 >= saved as u64 * 9, "most pages are one of their own: {run}");
    let urls = all(api, "/api/v1/urls?limit=200").await;
    let distinct: BTreeSet<_> = urls.iter().map(|url| text(url, "url").to_owned()).collect();
    assert_eq!((urls.len() as u64, distinct.len()), (count(&run, "added"), urls.len()));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for page in asked.lock().iter().filter(|page| !page.ends_with("/robots.txt")) {
        *seen.entry(page.clone()).or_default() += 1;
    }
    assert!(seen.iter().all(|(page, times)| *times == 1 && served.contains_key(page)), "{seen:?}");
    at.stop().await;
}

/// Pages that have nothing to keep themselves lead to others that do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_lists_are_no_traps() {
    let web = Web::open_hosts(|_, target| {
        let links = |prefix: &str, count: usize| {
            (0..count).map(|n| format!("<a href='{prefix}/{n}'>{n}</a>")).collect::<String>()
        };
        let parts: Vec<&str> = target.trim_matches('/').split('/').collect();
        Some(Answer::html(match parts.as_slice() {
            ["robots.txt"] => return None,
            [""] => links("/maker", 120),
            ["maker", _] => format!("{target} {}", links(&format!("{target}/year"), 2)),
            ["maker", maker, "year", year] => {
                format!("{target} {}", links(&format!("/car/{maker}/{year}"), 2))
            }
            _ => target.to_owned(),
        }))
    })
    .await;
    let at = box_for(&web).await;
    let member = at.member("lists").await;
    let api = &member.api;
    let rules = json!([{ "include": ["*/car/*"], "keep": {} }, {}]);
    let new = json!({ "kind": "crawl", "startUrls": [web.url("/")], "rules": rules });
    let input = make(api, &new).await;
    let run = self::run(api, &input, &json!({})).await;
    assert_eq!((count(&run, "added"), count(&run, "pagesWalked")), (480, 1 + 120 + 240 + 480), "{run}");
    assert_eq!((&run["crawl"]["traps"], count(&run, "depthReached")), (&json!([]), 3), "{run}");
    at.stop().await;
}
