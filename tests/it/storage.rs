//! What an organization stores: caps of its plan, lists of heavy rows, what goes by itself, what people delete.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{
    Appliance, Member, collect, ended, eventually, expect, get, looks_anew, post, refused, text,
};
use serde_json::{Value, json};
use server::task::Signals;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const RESULTS: &str = "/api/v1/extraction/results";
const JOBS: &str = "/api/v1/jobs";
const URLS: &str = "/api/v1/urls";
const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn plan(member: &Member) -> Value {
    expect(get(&member.api, "/api/v1/plans/current").await, 200)
}

/// deleteUrl, deleteUrls
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_of_the_plan_is_named_holds_for_one_organization_and_ends_with_deleting() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    at.operator(Request::OrgPlan { org: "ada".to_owned(), plan: "trial".to_owned() }).await;
    let most = plan(&ada).await["plan"]["limits"]["urls"].as_u64().unwrap();
    assert_eq!(most, 20_000);
    let upload = |from: u64, tag: &str| {
        let urls: Vec<_> = (from..from + 10_000)
            .map(|n| json!({ "url": format!("https://shop.example/{n}"), "tags": [tag] }))
            .collect();
        json!({ "urls": urls })
    };
    expect(post(&ada.api, URLS, &upload(0, "old")).await, 200);
    expect(post(&ada.api, URLS, &upload(10_000, "new")).await, 200);
    let stored = plan(&ada).await["stored"].clone();
    assert_eq!(stored["urls"], 20_000, "{stored}");
    assert!(stored["storageBytes"].as_u64().unwrap() > 20_000 * 50, "{stored}");
    let one = json!({ "urls": ["https://shop.example/one-more"] });
    let over = post(&ada.api, URLS, &one).await;
    refused(&over, 402, "QUOTA_EXCEEDED", "20000 registered URLs (urls)");
    assert_eq!(over.json["plan"], "trial");
    // A known URL is changed all the same, and a neighbour has room of their own.
    let known = json!({ "urls": [{ "url": "https://shop.example/0", "pageType": "product" }] });
    assert_eq!(expect(post(&ada.api, URLS, &known).await, 200)["updated"], 1);
    expect(post(&eve.api, URLS, &one).await, 200);

    // One goes by its id, others by theirs, the rest by a filter, as many requests as that takes.
    let first = expect(get(&ada.api, &format!("{URLS}?limit=3&tag=new")).await, 200);
    let ids: Vec<_> =
        first["items"].as_array().unwrap().iter().map(|url| text(url, "id").to_owned()).collect();
    let path = format!("{URLS}/{}", ids[0]);
    assert_eq!(eve.api.delete(&path).await.unwrap().status, 404, "it is not theirs");
    assert_eq!(ada.api.delete(&path).await.unwrap().status, 204);
    assert_eq!(ada.api.delete(&path).await.unwrap().status, 404);
    let gone = expect(post(&ada.api, "/api/v1/urls/delete", &json!({ "ids": ids })).await, 200);
    assert_eq!((gone["deleted"].as_u64(), gone["missing"].clone()), (Some(2), json!([ids[0]])), "{gone}");
    expect(post(&ada.api, URLS, &one).await, 200);
    // A file that the room ends in: it is filled, what was changed by then stays, the rest is named, and where to go on.
    let known = (10_000..10_500).map(|n| format!("https://shop.example/{n},serp\n"));
    let more = (0..10).map(|n| format!("https://shop.example/more/{n},\n"));
    let file = format!("url,pageType\n{}{}", known.collect::<String>(), more.collect::<String>());
    let path = format!("{URLS}/upload");
    let uploaded = ada.api.send_bytes(http::Method::POST, &path, Some("text/csv"), file);
    let uploaded = expect(uploaded.await.unwrap(), 200);
    let counts =
        [&uploaded["created"], &uploaded["updated"], &uploaded["invalidTotal"], &uploaded["nextLine"]];
    assert_eq!(counts.map(|n| n.as_u64().unwrap()), [2, 500, 8, 504], "{uploaded}");
    assert!(text(&uploaded["invalid"][7], "reason").contains("20000 registered URLs"), "{uploaded}");
    let (mut deleted, mut cursor) = (0, Value::Null);
    for _ in 0..1_000 {
        let ask = json!({ "filter": { "tag": ["old"] }, "cursor": cursor });
        let done = expect(post(&ada.api, "/api/v1/urls/delete", &ask).await, 200);
        deleted += done["deleted"].as_u64().unwrap();
        cursor = done["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(deleted, 10_000);
    assert_eq!(plan(&ada).await["stored"]["urls"], 10_000);
    for (body, part) in [
        (json!({}), "ids: is missing"),
        (json!({ "ids": [] }), "1 to 10000"),
        (json!({ "filter": {} }), "filter: must have at least one member"),
        // Typed wrong it would be every URL with the tag.
        (json!({ "filter": { "tag": ["old"], "tga": ["x"] } }), "tga"),
        (json!({ "ids": ["x"], "filter": { "q": "x" } }), "ids"),
        (json!({ "filter": { "q": "x" }, "cursor": "damaged" }), "cursor"),
    ] {
        refused(&post(&ada.api, "/api/v1/urls/delete", &body).await, 400, "Validation failed", part);
    }
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_heavy_rows_ends_early_and_nothing_is_left_out() {
    let at = Appliance::start_with(&[("DISPATCH__CONCURRENCY", "1")]).await;
    let ada = at.member("ada").await;
    let filler = |bytes: usize| "f".repeat(bytes);
    let headers: serde_json::Map<_, _> = (0..4).map(|i| (format!("x-{i}"), json!(filler(4_000)))).collect();
    let job = json!({
        "url": "http://nowhere.invalid/",
        "options": { "headers": headers },
        "metadata": { "padding": filler(16_000) },
    });
    for _ in 0..4 {
        expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": vec![&job; 30] })).await, 201);
    }
    let (mut seen, mut cursor, mut pages) = (std::collections::BTreeSet::new(), String::new(), 0);
    loop {
        let page = get(&ada.api, &format!("{JOBS}?limit=200&cursor={cursor}")).await;
        assert!(page.text().len() < 2 << 20, "{} bytes in one page", page.text().len());
        let page = expect(page, 200);
        let items = page["items"].as_array().unwrap();
        assert!(!items.is_empty());
        seen.extend(items.iter().map(|job| text(job, "id").to_owned()));
        pages += 1;
        match page["nextCursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), 120);
    assert!((3..20).contains(&pages), "{pages}");
    // Not even one job may be heavier than a request's head.
    let headers: serde_json::Map<_, _> = (0..5).map(|i| (format!("x-{i}"), json!(filler(4_000)))).collect();
    let heavy = json!({ "url": "http://nowhere.invalid/", "options": { "headers": headers } });
    let answer = post(&ada.api, JOBS, &heavy).await;
    refused(&answer, 400, "Validation failed", "options.headers: take 20015 bytes together");
    at.stop().await;
}

fn pages(at: &Appliance, member: &Member) -> Vec<PathBuf> {
    let folder = at.data_dir().join("pages").join(&member.org_id);
    let shards =
        |folder: &Path| std::fs::read_dir(folder).map(|all| all.map(|one| one.unwrap().path()).collect());
    let shards: Vec<PathBuf> = shards(&folder).unwrap_or_default();
    shards
        .iter()
        .flat_map(|shard| std::fs::read_dir(shard).unwrap())
        .map(|file| file.unwrap().path())
        .collect()
}

/// Pages are told from fresh ones by their files' times.
fn grow_old(pages: &[PathBuf]) {
    for page in pages {
        std::fs::File::open(page).unwrap().set_modified(SystemTime::now() - DAY * 3).unwrap();
    }
}

async fn found(member: &Member) -> u64 {
    expect(get(&member.api, RESULTS).await, 200)["total"].as_u64().unwrap()
}

async fn until_found(member: &Member, count: u64) {
    eventually("search says so", Duration::from_secs(10), || async {
        (found(member).await == count).then_some(())
    })
    .await;
}

async fn until_sql_says(member: &Member, table: &str, count: u64) {
    let ask = json!({ "sql": format!("SELECT count(*) AS n FROM {table}"), "waitMs": 10_000 });
    eventually("the console says so", Duration::from_secs(10), || async {
        let answer = post(&member.api, "/api/v1/bi/queries", &ask).await;
        // 202 of a busy machine, 503 of a box that has just started: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        let answer = answer.json;
        (answer["results"]["rows"][0]["n"].as_u64() == Some(count)
            || answer.to_string().contains(&format!("\"n\":{count}}}")))
        .then_some(())
    })
    .await;
}

async fn until_pages(at: &Appliance, member: &Member, task: &str, count: usize) {
    eventually("pages go", Duration::from_secs(10), || async {
        at.app().services().service::<Signals>().wake(task);
        tokio::time::sleep(Duration::from_millis(50)).await;
        (pages(at, member).len() == count).then_some(())
    })
    .await;
}

/// deleteResult, deleteResults
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_results_leave_search_console_and_disk() {
    let web = Web::open(|path| match path {
        "/same/1" | "/same/2" => Some(Answer::html("<title>same</title>")),
        path => Some(Answer::html(format!("<title>{path}</title>"))),
    })
    .await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("DISPATCH__ROBOTS", "false")]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let mut results = Vec::new();
    for path in ["/same/1", "/same/2", "/a", "/b"] {
        let job = collect(&ada.api, &web.url(path)).await;
        results.push(text(&job, "resultId").to_owned());
    }
    until_found(&ada, 4).await;
    assert_eq!(pages(&at, &ada).len(), 3, "the same page is kept once");
    let stored = plan(&ada).await["stored"].clone();
    assert!(stored["pageBytes"].as_u64().unwrap() > 60, "{stored}");
    let path = |id: &str| format!("{RESULTS}/by-id/{id}");
    assert_eq!(eve.api.delete(&path(&results[0])).await.unwrap().status, 404, "it is not theirs");
    assert_eq!(ada.api.delete(&path(&results[0])).await.unwrap().status, 204);
    assert_eq!(ada.api.delete(&path(&results[0])).await.unwrap().status, 404);
    assert_eq!(get(&ada.api, &path(&results[0])).await.status, 404);
    until_found(&ada, 3).await;
    until_sql_says(&ada, "readings", 3).await;
    // Another result names the same page; a page that nobody names goes when it is no longer fresh.
    let by_ids = json!({ "ids": [results[2], results[0]] });
    let gone = expect(post(&ada.api, &format!("{RESULTS}/delete"), &by_ids).await, 200);
    assert_eq!((gone["deleted"].as_u64(), gone["missing"].clone()), (Some(1), json!([results[0]])), "{gone}");
    looks_anew(&at, "extraction.retention").await;
    assert_eq!(pages(&at, &ada).len(), 3, "a page that was kept a moment ago stays");
    grow_old(&pages(&at, &ada));
    until_pages(&at, &ada, "extraction.retention", 2).await;
    // The rest by a filter; what matches nothing stays.
    let ask = |filter: Value| json!({ "filter": filter });
    let path = format!("{RESULTS}/delete");
    let none = expect(post(&ada.api, &path, &ask(json!({ "domain": "other.example" }))).await, 200);
    assert_eq!((none["deleted"].as_u64(), none["nextCursor"].clone()), (Some(0), Value::Null));
    let gone = expect(post(&ada.api, &path, &ask(json!({ "domain": "127.0.0.1" }))).await, 200);
    assert_eq!(gone["deleted"], 2, "{gone}");
    until_found(&ada, 0).await;
    until_sql_says(&ada, "readings", 0).await;
    until_pages(&at, &ada, "extraction.retention", 0).await;
    assert_eq!(plan(&ada).await["stored"]["pageBytes"], 0);
    // A page that comes again is kept again.
    collect(&ada.api, &web.url("/same/1")).await;
    assert_eq!(pages(&at, &ada).len(), 1);
    refused(&post(&ada.api, &path, &ask(json!({}))).await, 400, "Validation failed", "filter");
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_for_days_goes_when_they_are_over() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")))).await;
    let settings = [
        ("NETWORK__ALLOW", web.allow()),
        ("DISPATCH__ROBOTS", "false".into()),
        ("RETENTION__RESULTS_DAYS", "30".into()),
    ];
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let mut at = Appliance::start_with(&settings).await;
    let ada = at.member("ada").await;
    let old = collect(&ada.api, &web.url("/old")).await;
    // Ids carry the machine's time, so the box's clock goes ahead.
    at.clock.advance(DAY * 31);
    let wake = |at: &Appliance, task: &str| at.app().services().service::<Signals>().wake(task);
    wake(&at, "extraction.retention");
    until_found(&ada, 0).await;
    let path = format!("{RESULTS}/{}", text(&old, "id"));
    eventually("the result goes", Duration::from_secs(10), || async {
        (get(&ada.api, &path).await.status == 404).then_some(())
    })
    .await;
    until_sql_says(&ada, "readings", 0).await;
    // The job has terms of its own.
    expect(get(&ada.api, &format!("{JOBS}/{}", text(&old, "id"))).await, 200);
    let status = at.operator(Request::Status).await;
    assert_eq!(status["retention"]["results"], 1, "{status}");
    grow_old(&pages(&at, &ada));
    until_pages(&at, &ada, "extraction.retention", 0).await;
    // A file goes before it is counted.
    eventually("the page is counted", Duration::from_secs(10), || async {
        let metrics = get(&at.client(), "/metrics").await.text();
        metrics.contains("gleaner_retention_removed{what=\"pages\"} 1").then_some(())
    })
    .await;

    at.set("RETENTION__RESULTS_DAYS", "0");
    at.set("RETENTION__JOBS_DAYS", "10");
    at.restart().await;
    // Tokens and keys of the past month are good: keys do not end.
    let job = format!("{JOBS}/{}", text(&old, "id"));
    let ada = Member { api: at.client().bearer(&ada.key), ..ada };
    eventually("the job goes", Duration::from_secs(10), || async {
        wake(&at, "jobs.retention");
        (get(&ada.api, &job).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(plan(&ada).await["retention"]["jobsDays"], 10);
    until_sql_says(&ada, "jobs", 0).await;

    // The newest results of a URL stay.
    at.set("RETENTION__JOBS_DAYS", "0");
    at.set("RETENTION__VERSIONS_PER_URL", "2");
    at.restart().await;
    let ada = Member { api: at.client().bearer(&ada.key), ..ada };
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(text(&collect(&ada.api, &web.url("/often")).await, "id").to_owned());
    }
    let other = text(&collect(&ada.api, &web.url("/once")).await, "id").to_owned();
    wake(&at, "extraction.retention");
    until_found(&ada, 3).await;
    for (job, status) in [(&jobs[0], 404), (&jobs[1], 404), (&jobs[2], 200), (&jobs[3], 200), (&other, 200)] {
        let path = format!("{RESULTS}/{job}");
        eventually("it is as the terms say", Duration::from_secs(10), || async {
            (get(&ada.api, &path).await.status == status).then_some(())
        })
        .await;
    }
    // Pages alone: the results stay.
    at.set("RETENTION__VERSIONS_PER_URL", "0");
    at.set("RETENTION__PAGES_DAYS", "5");
    at.restart().await;
    let ada = Member { api: at.client().bearer(&ada.key), ..ada };
    grow_old(&pages(&at, &ada));
    until_pages(&at, &ada, "extraction.retention", 0).await;
    assert_eq!(found(&ada).await, 3);
    let _ = ended(&ada.api, &other).await;
    at.stop().await;
}

/// A full disk is made emptier by deleting and by erasing, which a box that refused every write could not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_takes_what_removes() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")))).await;
    let allow = web.allow();
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("DISPATCH__ROBOTS", "false")]).await;
    let ada = at.member("ada").await;
    let job = collect(&ada.api, &web.url("/a")).await;
    expect(post(&ada.api, URLS, &json!({ "urls": ["https://shop.example/"] })).await, 200);
    let person = json!({ "email": ada.email, "password": crate::harness::PASSWORD });
    let login = expect(post(&at.client(), "/api/v1/auth/login", &person).await, 200);
    let token = text(&login, "accessToken").to_owned();
    // A reserve that no disk has.
    at.set("STORAGE__RESERVE_MB", "1048576");
    at.restart().await;
    let ada = Member { api: at.client().bearer(&ada.key), ..ada };
    let browser = at.client().bearer(&token);
    eventually("the disk is found to be full", Duration::from_secs(10), || async {
        let one = json!({ "urls": ["https://shop.example/more"] });
        (post(&ada.api, URLS, &one).await.status == 503).then_some(())
    })
    .await;
    // Who comes to make room gets in, goes on and out.
    let wrong = json!({ "email": ada.email, "password": "not the password at all" });
    assert_eq!(post(&at.client(), "/api/v1/auth/login", &wrong).await.status, 401);
    let login = expect(post(&at.client(), "/api/v1/auth/login", &person).await, 200);
    let refresh = json!({ "refreshToken": text(&login, "refreshToken") });
    let fresh = expect(post(&at.client(), "/api/v1/auth/refresh", &refresh).await, 200);
    let browser_of_today = at.client().bearer(text(&fresh, "accessToken"));
    assert_eq!(get(&browser_of_today, "/api/v1/auth/me").await.status, 200);
    let end = json!({ "refreshToken": text(&fresh, "refreshToken") });
    expect(post(&at.client(), "/api/v1/auth/logout", &end).await, 200);
    let listed = expect(get(&ada.api, URLS).await, 200);
    for url in listed["items"].as_array().unwrap() {
        assert_eq!(ada.api.delete(&format!("{URLS}/{}", text(url, "id"))).await.unwrap().status, 204);
    }
    let result = format!("{RESULTS}/by-id/{}", text(&job, "resultId"));
    assert_eq!(ada.api.delete(&result).await.unwrap().status, 204);
    let confirm = json!({ "confirmName": "ada" });
    let gone = browser.send(http::Method::DELETE, "/api/v1/orgs/current", Some(&confirm)).await.unwrap();
    assert_eq!(gone.status, 202, "{}", gone.text());
    eventually("its pages go", Duration::from_secs(10), || async {
        pages(&at, &ada).is_empty().then_some(())
    })
    .await;
    at.set("STORAGE__RESERVE_MB", "0");
    at.restart().await;
    eventually("it is erased", Duration::from_secs(60), || async {
        let all = at.operator(Request::Erasures { limit: 5 }).await;
        all.to_string().contains("\"done\"").then_some(())
    })
    .await;
    at.stop().await;
}
