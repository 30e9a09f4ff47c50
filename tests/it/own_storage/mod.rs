//! Pages in storage of an organization's own: getStorage, putStorage, deleteStorage, testStorage. The server is `moto`.

pub mod moto;

use crate::harness::process::Process;
use crate::harness::random::Random;
use crate::harness::web::{Answer, Web};
use crate::harness::{
    Appliance, Member, PASSWORD, collect, eventually, expect, get, member, post, refused, text,
};
use moto::{Moto, Road, Way};
use serde_json::{Value, json};
use server::client::{Client, Reply};
use server::task::Signals;
use std::path::Path;
use std::time::{Duration, Instant};

const STORAGE: &str = "/api/v1/storage";
const RESULTS: &str = "/api/v1/extraction/results";
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "a-secret-that-nobody-sees";

/// A web of pages that are all different.
async fn pages() -> Web {
    Web::open(|path| Some(Answer::html(format!("<title>{path}</title><p>What {path} says.")))).await
}

async fn boxed(web: &Web, places: &[std::net::SocketAddr]) -> Appliance {
    let allow = allowed(web, places);
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("STORAGE__UPLOAD_AFTER_SEC", "0"),
    ];
    Appliance::start_with(&settings).await
}

fn allowed(web: &Web, places: &[std::net::SocketAddr]) -> String {
    let mut rules: Vec<String> = serde_json::from_str(&web.allow()).unwrap();
    rules.extend(places.iter().map(|place| format!("127.0.0.1/32:{}", place.port())));
    json!(rules).to_string()
}

fn s3(url: &str, bucket: &str) -> Value {
    json!({ "kind": "s3", "bucket": bucket, "endpoint": url, "prefix": "gleaner/test",
        "accessKeyId": "AKIATEST", "secretAccessKey": SECRET })
}

async fn put(api: &Client, body: &Value) -> Reply {
    api.put(STORAGE, body).await.unwrap()
}

async fn shown(api: &Client) -> Value {
    let reply = get(api, STORAGE).await;
    assert!(!reply.text().contains(SECRET));
    expect(reply, 200)
}

/// Waits until all pages lie where they are to lie, and this many in storages.
async fn moved(api: &Client, remote: u64) -> Value {
    eventually("pages are moved", PATIENCE, || async {
        let now = shown(api).await;
        (now["move"]["state"] == "done" && now["remote"]["pages"] == remote).then_some(now)
    })
    .await
}

async fn results(api: &Client) -> Vec<String> {
    let listed = expect(get(api, &format!("{RESULTS}?limit=200")).await, 200);
    listed["items"].as_array().unwrap().iter().map(|row| text(row, "id").to_owned()).collect()
}

async fn content(api: &Client, result: &str) -> Reply {
    get(api, &format!("{RESULTS}/by-id/{result}/content?format=text")).await
}

async fn all_readable(api: &Client, count: usize) {
    let ids = eventually("results are found", PATIENCE, || async {
        let ids = results(api).await;
        (ids.len() == count).then_some(ids)
    })
    .await;
    for id in ids {
        assert!(text(&expect(content(api, &id).await, 200), "content").contains("says"));
    }
}

/// The files of an organization's pages in the box.
fn files(data: &Path, org: &str) -> usize {
    let shards = std::fs::read_dir(data.join("pages").join(org)).into_iter().flatten().flatten();
    let files = shards.flat_map(|shard| std::fs::read_dir(shard.path()).into_iter().flatten().flatten());
    // What a kill has left unfinished is no page.
    files.filter(|file| file.file_name().to_string_lossy().ends_with(".zst")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_box_keeps_pages_itself_and_says_how_much() {
    let web = pages().await;
    let at = boxed(&web, &[]).await;
    let ada = at.member("ada").await;
    let fresh = shown(&ada.api).await;
    assert_eq!((&fresh["kind"], &fresh["bucket"]), (&json!("local"), &Value::Null), "{fresh}");
    assert_eq!(fresh["local"], json!({ "pages": 0, "bytes": 0 }));
    assert_eq!(fresh["move"]["state"], "done");
    collect(&ada.api, &web.url("/one")).await;
    let now = shown(&ada.api).await;
    assert_eq!(now["local"]["pages"], 1);
    assert!(now["local"]["bytes"].as_u64().unwrap() > 10, "{now}");
    assert_eq!(ada.api.delete(STORAGE).await.unwrap().status, 204, "it is so already");
    refused(
        &post(&ada.api, &format!("{STORAGE}/test"), &json!({ "kind": "local" })).await,
        404,
        "Storage not found",
        "",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_go_into_a_storage_and_come_back_and_are_read_all_the_while() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("first").await;
    moto.make_bucket("second").await;
    let web = pages().await;
    let mut at = boxed(&web, &[moto.address]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for n in 0..4 {
        collect(&ada.api, &web.url(&format!("/{n}"))).await;
        collect(&eve.api, &web.url(&format!("/{n}"))).await;
    }
    let tried = expect(post(&ada.api, &format!("{STORAGE}/test"), &s3(&moto.url(), "first")).await, 200);
    assert_eq!(tried["isOk"], true, "{tried}");
    let steps: Vec<_> = tried["steps"].as_array().unwrap().iter().map(|step| text(step, "step")).collect();
    assert_eq!(steps, ["put", "put_if_absent", "get", "list", "delete"]);
    assert!(moto.keys("first").await.is_empty(), "nothing is left of a test");

    let kept = expect(put(&ada.api, &s3(&moto.url(), "first")).await, 200);
    assert_eq!((&kept["kind"], &kept["accessKeyId"]), (&json!("s3"), &json!("AKIATEST")), "{kept}");
    let there = moved(&ada.api, 4).await;
    assert_eq!(there["local"], json!({ "pages": 0, "bytes": 0 }), "{there}");
    assert_eq!((files(&at.data_dir(), &ada.org_id), files(&at.data_dir(), &eve.org_id)), (0, 4));
    let keys = moto.keys("first").await;
    assert!(keys.len() == 4 && keys.iter().all(|key| key.starts_with("gleaner/test/pages/")), "{keys:?}");
    all_readable(&ada.api, 4).await;
    all_readable(&eve.api, 4).await;
    assert_eq!(shown(&eve.api).await["kind"], "local", "another organization's is its own");

    // A page that is known there is not kept anew, and one that is new goes there too.
    collect(&ada.api, &web.url("/0")).await;
    collect(&ada.api, &web.url("/4")).await;
    moved(&ada.api, 5).await;
    assert_eq!(moto.keys("first").await.len(), 5);

    // Into another bucket, the key kept; then back.
    let mut other = s3(&moto.url(), "second");
    other["checksum"] = json!("sha256");
    expect(put(&ada.api, &other).await, 200);
    moved(&ada.api, 5).await;
    eventually("nothing is left in the first", PATIENCE, || async {
        moto.keys("first").await.is_empty().then_some(())
    })
    .await;
    assert_eq!(moto.keys("second").await.len(), 5);
    all_readable(&ada.api, 6).await;
    // Without a secret the one that is kept goes on.
    other.as_object_mut().unwrap().remove("secretAccessKey");
    assert_eq!(expect(post(&ada.api, &format!("{STORAGE}/test"), &other).await, 200)["isOk"], true);
    let in_use = ada.api.send(http::Method::POST, &format!("{STORAGE}/test"), None).await.unwrap();
    assert_eq!(expect(in_use, 200)["isOk"], true);
    // A page that no result names any more goes there as well; what was kept again lately is known to a process while it lives.
    let gone = collect(&ada.api, &web.url("/gone")).await;
    moved(&ada.api, 6).await;
    let path = format!("{RESULTS}/by-id/{}", text(&gone, "resultId"));
    assert_eq!(ada.api.delete(&path).await.unwrap().status, 204);
    at.restart().await;
    let (ada_api, eve_api) = (at.client().bearer(&ada.key), at.client().bearer(&eve.key));
    eventually("its object is removed", PATIENCE, || async {
        at.app().services().service::<Signals>().wake("extraction.retention");
        (moto.keys("second").await.len() == 5).then_some(())
    })
    .await;
    assert_eq!(ada_api.delete(STORAGE).await.unwrap().status, 204);
    moved(&ada_api, 0).await;
    assert!(moto.keys("second").await.is_empty());
    assert_eq!(files(&at.data_dir(), &ada.org_id), 5);
    all_readable(&ada_api, 6).await;
    let events = expect(get(&ada_api, "/api/v1/events?kind=storage.*").await, 200).to_string();
    assert!(events.contains("storage.moved") && events.contains("first"), "{events}");
    let events = expect(get(&eve_api, "/api/v1/events?kind=storage.*").await, 200);
    assert_eq!(events["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_storage_loses_nothing_answers_in_time_and_is_nobody_elses_business() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("one").await;
    moto.make_bucket("two").await;
    let road = Road::to(moto.address).await;
    let web = pages().await;
    let at = boxed(&web, &[moto.address, road.address]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    expect(put(&ada.api, &s3(&road.url(), "one")).await, 200);
    expect(put(&eve.api, &s3(&moto.url(), "two")).await, 200);
    collect(&ada.api, &web.url("/early")).await;
    moved(&ada.api, 1).await;
    for way in [Way::Hanging, Way::Cut] {
        road.is(way);
        let early = eventually("it is found", PATIENCE, || async { results(&ada.api).await.pop() }).await;
        let began = Instant::now();
        let away = content(&ada.api, &early).await;
        refused(&away, 503, "Service unavailable", "your organization's own storage");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let began = Instant::now();
        refused(
            &content(&ada.api, &early).await,
            503,
            "Service unavailable",
            "your organization's own storage",
        );
        // A try at the storage would take its eight seconds.
        assert!(began.elapsed() < Duration::from_secs(6), "who asks again is told at once");
        // Jobs go on, and so does the neighbour with a storage that works.
        let (mine, theirs) = (web.url(&format!("/late{}", way as u8)), web.url(&format!("/{}", way as u8)));
        assert_eq!(collect(&ada.api, &mine).await["status"], "succeeded");
        let began = Instant::now();
        collect(&eve.api, &theirs).await;
        moved(&eve.api, u64::from(way as u8)).await;
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
        let now = shown(&ada.api).await;
        assert_eq!((&now["move"]["state"], &now["local"]["pages"]), (&json!("failing"), &json!(1)), "{now}");
        assert!(now["move"]["error"]["message"].as_str().unwrap().contains("storage"), "{now}");
        eventually("the log says so", PATIENCE, || async {
            let told = expect(get(&ada.api, "/api/v1/events?kind=storage.failing").await, 200);
            (told["items"].as_array().unwrap().len() >= way as usize).then_some(())
        })
        .await;
        road.is(Way::Open);
        moved(&ada.api, 1 + u64::from(way as u8)).await;
        expect(content(&ada.api, &early).await, 200);
    }
    let events = expect(get(&ada.api, "/api/v1/events?kind=storage.*").await, 200).to_string();
    assert!(events.contains("storage.failing") && events.contains("storage.recovered"), "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_that_only_a_reader_met_is_told_as_well() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("one").await;
    let road = Road::to(moto.address).await;
    let web = pages().await;
    let at = boxed(&web, &[road.address]).await;
    let ada = at.member("ada").await;
    expect(put(&ada.api, &s3(&road.url(), "one")).await, 200);
    collect(&ada.api, &web.url("/early")).await;
    moved(&ada.api, 1).await;
    let early = eventually("it is found", PATIENCE, || async { results(&ada.api).await.pop() }).await;
    road.is(Way::Cut);
    refused(&content(&ada.api, &early).await, 503, "Service unavailable", "your organization's own storage");
    road.is(Way::Open);
    let kinds = eventually("both are told", PATIENCE, || async {
        let told = expect(get(&ada.api, "/api/v1/events?kind=storage.*").await, 200);
        let kinds: Vec<String> =
            told["items"].as_array().unwrap().iter().map(|event| text(event, "kind").to_owned()).collect();
        (kinds.len() >= 2).then_some(kinds)
    })
    .await;
    for kind in ["storage.failing", "storage.recovered"] {
        assert_eq!(kinds.iter().filter(|one| *one == kind).count(), 1, "{kinds:?}");
    }
    expect(content(&ada.api, &early).await, 200);
}

/// A server that computes the signature of each request itself, and lets nobody in with another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_wrong_is_said_so_and_a_right_one_is_let_in() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("one").await;
    let (key, secret) = moto.closed().await;
    let web = pages().await;
    let at = boxed(&web, &[moto.address]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let with = |secret: &str| {
        let mut settings = s3(&moto.url(), "one");
        (settings["accessKeyId"], settings["secretAccessKey"]) = (json!(key), json!(secret));
        settings
    };
    let wrong = with(SECRET);
    for (settings, fault) in [(&wrong, "bad_secret"), (&s3(&moto.url(), "one"), "bad_access_key")] {
        let tried = expect(post(&ada.api, &format!("{STORAGE}/test"), settings).await, 200);
        assert_eq!((&tried["isOk"], text(&tried["steps"][0], "fault")), (&json!(false), fault), "{tried}");
    }
    let tried = expect(post(&ada.api, &format!("{STORAGE}/test"), &with(&secret)).await, 200);
    // moto leaves the query out of what it signs, so a listing is refused with any secret.
    let well = tried["steps"].as_array().unwrap().iter().filter(|step| step["isOk"] == true);
    let well: Vec<_> = well.map(|step| text(step, "step")).collect();
    assert_eq!(well, ["put", "put_if_absent", "get", "delete"], "{tried}");
    // Who put a wrong one keeps every page here, is told why, and nobody else is.
    expect(put(&ada.api, &wrong).await, 200);
    collect(&ada.api, &web.url("/one")).await;
    eventually("the box says what is wrong", PATIENCE, || async {
        let now = shown(&ada.api).await;
        (now["move"]["error"]["fault"] == "bad_secret" && now["local"]["pages"] == 1).then_some(())
    })
    .await;
    collect(&eve.api, &web.url("/two")).await;
    assert_eq!(shown(&eve.api).await["move"]["state"], "done", "a neighbour hears nothing of it");
    all_readable(&ada.api, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_says_which_step_failed_and_why() {
    let said = |status: u16, code: &str| Answer {
        status,
        body: format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>")
            .into(),
        ..Answer::html("")
    };
    let web = Web::open(move |path| {
        Some(match path.split('/').nth(1).unwrap_or_default() {
            "wrong-secret" => said(403, "SignatureDoesNotMatch"),
            "wrong-key" => said(403, "InvalidAccessKeyId"),
            "denied" => said(403, "AccessDenied"),
            "slow" => said(503, "SlowDown"),
            "elsewhere" => said(301, "PermanentRedirect"),
            "a-web-site" => Answer::status(404),
            _ => said(404, "NoSuchBucket"),
        })
    })
    .await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = boxed(&web, &[nobody]).await;
    let ada = at.member("ada").await;
    let (url, nobody) = (web.url(""), format!("http://{nobody}"));
    let (url, nobody) = (url.as_str(), nobody.as_str());
    let cases = [
        (url, "missing", "no_such_bucket", "the bucket does not exist"),
        (url, "wrong-secret", "bad_secret", "the secret is wrong"),
        (url, "wrong-key", "bad_access_key", "access key id is unknown"),
        (url, "denied", "access_denied", "may not do this"),
        (url, "slow", "slow_down", "slow down"),
        (url, "elsewhere", "wrong_region", "another region"),
        (url, "a-web-site", "not_s3", "no S3-compatible storage"),
        (nobody, "missing", "unreachable", "cannot be reached"),
        ("http://storage.invalid", "missing", "address_refused", "may not be connected to"),
    ];
    for (url, bucket, fault, message) in cases {
        let tried = post(&ada.api, &format!("{STORAGE}/test"), &s3(url, bucket)).await;
        assert!(!tried.text().contains(SECRET));
        let tried = expect(tried, 200);
        assert_eq!(tried["isOk"], false, "{tried}");
        let step = &tried["steps"][0];
        assert_eq!((text(step, "step"), text(step, "fault")), ("put", fault), "{tried}");
        assert!(text(step, "message").contains(message), "{tried}");
        assert_eq!(tried["steps"].as_array().unwrap().len(), 1, "it ends there: {tried}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_cannot_be_are_named() {
    let web = pages().await;
    let at = boxed(&web, &[]).await;
    let ada = at.member("ada").await;
    let url = web.url("").trim_end_matches('/').to_owned();
    let with = |field: &str, value: Value| {
        let mut body = s3(&url, "pages");
        body[field] = value;
        body
    };
    let long = "x".repeat(900_000);
    let wrong = [
        ("bucket", json!("a")),
        ("bucket", json!(long)),
        ("region", json!("no region")),
        ("region", json!(long)),
        ("prefix", json!("../up")),
        ("prefix", json!(long)),
        ("accessKeyId", json!("")),
        ("accessKeyId", json!(long)),
        ("secretAccessKey", json!("")),
        ("secretAccessKey", json!(long)),
        ("checksum", json!("md4")),
        ("kind", json!("tape")),
    ];
    for (field, value) in wrong {
        for reply in [
            put(&ada.api, &with(field, value.clone())).await,
            post(&ada.api, &format!("{STORAGE}/test"), &with(field, value.clone())).await,
        ] {
            assert_eq!(reply.status, 400, "{field}: {}", &reply.text()[..reply.text().len().min(300)]);
            assert!(reply.text().contains(field) && reply.text().len() < 2_000, "{field}");
        }
    }
    for closed in ["http://127.0.0.1:1", "http://169.254.169.254", "ftp://x.example", long.as_str()] {
        let reply = put(&ada.api, &with("endpoint", json!(closed))).await;
        assert_eq!(reply.status, 400, "{}", &reply.text()[..reply.text().len().min(300)]);
        assert!(reply.text().contains("endpoint"));
    }
    let mut bare = s3(&url, "pages");
    bare.as_object_mut().unwrap().remove("secretAccessKey");
    let reply = put(&ada.api, &bare).await;
    assert!(reply.status == 400 && reply.text().contains("secretAccessKey"), "{}", reply.text());
    assert_eq!(shown(&ada.api).await["kind"], "local", "nothing of it was taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_the_middle_of_moves_lose_no_page() {
    const PAGES: usize = 60;
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("killed").await;
    let web = pages().await;
    let dir = tempfile::TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = allowed(&web, &[moto.address]);
    let settings = [
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8"),
        ("STORAGE__UPLOAD_AFTER_SEC", "0"),
        ("STORAGE__RESERVE_MB", "0"),
    ];
    let mut box_ = Process::start(&data, &settings);
    let ada = member(&box_.client(), &box_.socket(), "ada").await;
    let jobs: Vec<_> = (0..PAGES).map(|n| json!({ "url": web.url(&format!("/{n}")) })).collect();
    expect(post(&ada.api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    all_readable(&ada.api, PAGES).await;
    let again = |box_: &Process, ada: &Member| box_.client().bearer(&ada.key);
    for round in 0..6u64 {
        let api = again(&box_, &ada);
        if round % 2 == 0 {
            expect(put(&api, &s3(&moto.url(), "killed")).await, 200);
        } else {
            assert_eq!(api.delete(STORAGE).await.unwrap().status, 204);
        }
        tokio::time::sleep(Duration::from_millis(150 + 170 * round)).await;
        box_.kill();
        box_ = Process::start(&data, &settings);
        let api = again(&box_, &ada);
        // Some are here, some there, and all of them are read.
        all_readable(&api, PAGES).await;
    }
    let api = again(&box_, &ada);
    expect(put(&api, &s3(&moto.url(), "killed")).await, 200);
    moved(&api, PAGES as u64).await;
    assert_eq!((moto.keys("killed").await.len(), files(&data, &ada.org_id)), (PAGES, 0));
    all_readable(&api, PAGES).await;

    // An organization that is erased leaves nothing there.
    let login = json!({ "email": ada.email, "password": PASSWORD });
    let login = expect(post(&box_.client(), "/api/v1/auth/login", &login).await, 200);
    let browser = box_.client().bearer(text(&login, "accessToken"));
    let org = text(&expect(get(&browser, "/api/v1/orgs/current").await, 200), "name").to_owned();
    let gone = browser
        .send(http::Method::DELETE, "/api/v1/orgs/current", Some(&json!({ "confirmName": org })))
        .await;
    expect(gone.unwrap(), 202);
    eventually("its objects are removed", PATIENCE, || async {
        moto.keys("killed").await.is_empty().then_some(())
    })
    .await;
}

/// What an organization's pages take has a bound: the oldest go, and it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_bytes_an_organizations_oldest_pages_go() {
    let web = Web::open(|path| {
        let mut random = Random(path.len() as u64 * 7 + path.bytes().map(u64::from).sum::<u64>());
        let words = (0..40_000).map(|_| format!("{:x} ", random.number()));
        Some(Answer::html(format!("<title>{path}</title><p>says {}", words.collect::<String>())))
    })
    .await;
    let allow = web.allow();
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("RETENTION__PAGES_MB", "1")]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let mut jobs = Vec::new();
    for n in 0..4 {
        jobs.push(collect(&ada.api, &web.url(&format!("/{n}"))).await);
    }
    let of_eve = collect(&eve.api, &web.url("/0")).await;
    let before = shown(&ada.api).await["local"].clone();
    let one = before["bytes"].as_u64().unwrap() / 4;
    let stays = (1 << 20) / one;
    assert!((1..4).contains(&stays), "{before}");
    let now = eventually("the oldest pages go", PATIENCE, || async {
        at.app().services().service::<Signals>().wake("extraction.retention");
        let now = shown(&ada.api).await["local"].clone();
        (now["pages"] == stays).then_some(now)
    })
    .await;
    assert!(now["bytes"].as_u64().unwrap() <= 1 << 20, "{now}");
    assert_eq!(content(&ada.api, text(&jobs[0], "resultId")).await.status, 404, "its page is gone");
    expect(get(&ada.api, &format!("{RESULTS}/by-id/{}", text(&jobs[0], "resultId"))).await, 200);
    for (api, job) in [(&ada.api, &jobs[3]), (&eve.api, &of_eve)] {
        expect(get(api, &format!("{RESULTS}/by-id/{}/html", text(job, "resultId"))).await, 200);
    }
    let told = expect(get(&ada.api, "/api/v1/events?kind=retention.removed").await, 200);
    let pages: u64 =
        told["items"].as_array().unwrap().iter().map(|e| e["data"]["pages"].as_u64().unwrap()).sum();
    assert_eq!(pages, 4 - stays, "{told}");
}
