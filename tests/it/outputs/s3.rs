//! Rows of results as objects of a bucket. The server is `moto`; what it does not check is answered as Amazon would.

use super::files::lines_of;
use super::postgres::{PATIENCE, console, reads, shop, visit};
use super::{OUTPUTS, deliveries, shown};
use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, eventually, expect, get, member, post, refused, text};
use crate::own_storage::moto::{Moto, Road, Way};
use serde_json::{Value, json};
use server::client::Client;
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;

const SECRET: &str = "a-secret-that-nobody-sees";

fn allowed(web: &Web, places: &[SocketAddr]) -> String {
    let mut rules: Vec<String> = serde_json::from_str(&web.allow()).unwrap();
    rules.extend(places.iter().map(|place| format!("127.0.0.1/32:{}", place.port())));
    json!(rules).to_string()
}

fn bucket(url: &str, bucket: &str) -> Value {
    json!({ "bucket": bucket, "endpoint": url, "prefix": "from/gleaner", "accessKeyId": "AKIATEST",
        "secretAccessKey": SECRET })
}

fn terms(s3: Value, more: Value) -> Value {
    let mut files = json!({ "format": "jsonl", "path": "shop", "maxRows": 7, "everyMinutes": 1, "s3": s3 });
    files.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "kind": "files", "events": ["result.*"], "files": files })
}

/// The keys in a bucket below a folder.
async fn keys(moto: &Moto, bucket: &str, folder: &str) -> Vec<String> {
    let mut keys = moto.keys(bucket).await;
    keys.retain(|key| key.starts_with(folder));
    keys
}

/// The rows of JSON lines below a folder of a bucket, as `id|title|price`.
async fn rows(moto: &Moto, bucket: &str, folder: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for key in keys(moto, bucket, &format!("{folder}/date=")).await {
        rows.extend(lines_of(&moto.object(bucket, &key).await));
    }
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_result_is_in_one_object_whatever_is_killed_or_cut() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("shop").await;
    let (web, road) = (shop().await, Road::to(moto.address).await);
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow = allowed(&web, &[moto.address, road.address]);
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "bucket").await;
    let api = process.client().bearer(&owner.key);
    reads(&api, &["title", "price"]).await;
    let lines = expect(post(&api, OUTPUTS, &terms(bucket(&road.url(), "shop"), json!({}))).await, 201);
    let delta = json!({ "delta": true, "format": "parquet", "path": "table", "maxRows": 10 });
    let delta = expect(post(&api, OUTPUTS, &terms(bucket(&road.url(), "shop"), delta)).await, 201);
    let (per_round, rounds) = (35, 4);
    for round in 0..rounds {
        let api = process.client().bearer(&owner.key);
        visit(&api, &web, round * per_round..(round + 1) * per_round).await;
        tokio::time::sleep(Duration::from_millis(300 + 130 * round as u64)).await;
        // Cut in the middle of what is sent, or of the answer.
        road.is(Way::Cut);
        tokio::time::sleep(Duration::from_millis(400)).await;
        process.kill();
        road.is(Way::Open);
        process = Process::start(&data, &settings);
    }
    let api = process.client().bearer(&owner.key);
    let count = per_round * rounds;
    let expected = eventually("the console has them", PATIENCE, || async {
        let rows = console(&api, "products", "result_id, title, price").await;
        (rows.len() == count).then_some(rows)
    })
    .await;
    eventually("all objects are there", PATIENCE, || async {
        (rows(&moto, "shop", "from/gleaner/shop").await.len() == count).then_some(())
    })
    .await;
    for made in [&lines, &delta] {
        eventually("nothing waits", PATIENCE, || async {
            (shown(&api, made).await["pending"] == 0).then_some(())
        })
        .await;
        for row in deliveries(&api, made).await.iter().take(3) {
            let path = format!("/api/v1/deliveries/{}/redeliver", text(row, "id"));
            expect(post(&api, &path, &json!({})).await, 202);
        }
    }
    eventually("what was sent again has come", PATIENCE, || async {
        (shown(&api, &lines).await["pending"] == 0 && shown(&api, &delta).await["pending"] == 0).then_some(())
    })
    .await;
    assert_eq!(rows(&moto, "shop", "from/gleaner/shop").await, expected);
    let manifests = keys(&moto, "shop", "from/gleaner/shop/_manifest/").await;
    assert!(!manifests.is_empty() && manifests.iter().all(|key| key.ends_with(".jsonl")), "{manifests:?}");
    table_is_whole(&moto, count as u64).await;
    assert_eq!(process.terminate(), Some(0));
}

/// The commits of the Delta log follow each other, and add each row once; there is a checkpoint.
async fn table_is_whole(moto: &Moto, count: u64) {
    let log = keys(moto, "shop", "from/gleaner/table/products/_delta_log/").await;
    let commits: Vec<_> = log.iter().filter(|key| key.ends_with(".json")).collect();
    assert!(commits.len() >= 14, "{log:?}");
    let mut added = 0;
    for (number, key) in commits.iter().enumerate() {
        assert!(key.ends_with(&format!("/{number:020}.json")), "{log:?}");
        let object = moto.object("shop", key).await;
        for line in object.lines() {
            let action: Value = serde_json::from_str(line).unwrap();
            let Some(stats) = action["add"]["stats"].as_str() else { continue };
            added += serde_json::from_str::<Value>(stats).unwrap()["numRecords"].as_u64().unwrap();
        }
    }
    assert_eq!(added, count);
    assert!(log.iter().any(|key| key.ends_with(".checkpoint.parquet")), "{log:?}");
    assert!(log.iter().any(|key| key.ends_with("/_last_checkpoint")), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_bucket_is_in_the_ledger_and_nobody_elses_business() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("good").await;
    let (web, road) = (shop().await, Road::to(moto.address).await);
    let said = |status: u16, code: &str| Answer {
        status,
        body: format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>")
            .into(),
        ..Answer::html("")
    };
    let amazon = Web::open(move |path| {
        Some(match path.split('/').nth(1).unwrap_or_default() {
            "wrong-secret" => said(403, "SignatureDoesNotMatch"),
            "slow" => said(503, "SlowDown"),
            _ => said(404, "NoSuchBucket"),
        })
    })
    .await;
    let allow = allowed(&web, &[moto.address, road.address, amazon.address]);
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    for member in [&ada, &eve] {
        reads(&member.api, &["title", "price"]).await;
    }
    // Eve's place hangs from the beginning; ada's outputs do not feel it.
    road.is(Way::Hanging);
    let hanging: Vec<_> = (0..8).map(|n| json!({ "path": format!("hanging{n}"), "maxRows": 5 })).collect();
    for more in hanging {
        expect(post(&eve.api, OUTPUTS, &terms(bucket(&road.url(), "good"), more)).await, 201);
    }
    visit(&eve.api, &web, 0..10).await;
    let url = amazon.url("").trim_end_matches('/').to_owned();
    let mut outputs = Vec::new();
    for (name, told) in [
        ("wrong-secret", "the secret is wrong (SignatureDoesNotMatch)"),
        ("slow", "the storage asks to slow down (SlowDown)"),
        ("missing", "the bucket does not exist (NoSuchBucket)"),
    ] {
        let made =
            expect(post(&ada.api, OUTPUTS, &terms(bucket(&url, name), json!({ "maxRows": 5 }))).await, 201);
        assert!(!made.to_string().contains(SECRET), "{made}");
        let test = format!("{OUTPUTS}/{}/test", text(&made, "id"));
        let tested = expect(post(&ada.api, &test, &json!({})).await, 200);
        assert_eq!((&tested["sent"]["isDelivered"], text(&tested["sent"], "told")), (&json!(false), told));
        outputs.push((made, told));
    }
    let good = terms(bucket(&moto.url(), "good"), json!({ "maxRows": 5, "path": "fine" }));
    let good = expect(post(&ada.api, OUTPUTS, &good).await, 201);
    visit(&ada.api, &web, 0..10).await;
    eventually("ada's objects are there", PATIENCE, || async {
        (rows(&moto, "good", "from/gleaner/fine").await.len() == 10).then_some(())
    })
    .await;
    assert_eq!(shown(&ada.api, &good).await["failed"], 0);
    for (made, told) in &outputs {
        let row = eventually("the ledger says so", PATIENCE, || async {
            let row = deliveries(&ada.api, made).await.pop()?;
            row["attempts"][0]["told"].is_string().then_some(row)
        })
        .await;
        assert_eq!((text(&row["attempts"][0], "told"), text(&row, "state")), (*told, "pending"), "{row}");
    }
    // A storage that is mended is heard at once, and what waited goes.
    let (broken, _) = &outputs[2];
    let one = format!("{OUTPUTS}/{}", text(broken, "id"));
    let elsewhere = json!({ "files": { "s3": { "endpoint": moto.url() } } });
    refused(&patch(&ada.api, &one, &elsewhere).await, 400, "Validation failed", "files.s3.secretAccessKey");
    let mended =
        json!({ "files": { "s3": { "endpoint": moto.url(), "bucket": "good", "secretAccessKey": SECRET } } });
    assert!(!expect(patch(&ada.api, &one, &mended).await, 200).to_string().contains(SECRET));
    eventually("what waited is there", PATIENCE, || async {
        (rows(&moto, "good", "from/gleaner/shop").await.len() == 10).then_some(())
    })
    .await;
    assert_eq!(get(&eve.api, &one).await.status, 404);
    let all = json!({ "sql": "SELECT * FROM outputs", "waitMs": 10_000 });
    assert!(!expect(post(&ada.api, "/api/v1/bi/queries", &all).await, 200).to_string().contains(SECRET));
    what_cannot_be(&ada.api, &moto, &one).await;
    at.stop().await;
}

async fn what_cannot_be(api: &Client, moto: &Moto, one: &str) {
    let long = "x".repeat(900_000);
    for (field, value) in [
        ("bucket", json!("a")),
        ("bucket", Value::Null),
        ("bucket", json!(long)),
        ("region", json!("no region")),
        ("prefix", json!("../up")),
        ("prefix", json!("x".repeat(512))),
        ("accessKeyId", json!("")),
        ("accessKeyId", Value::Null),
        ("secretAccessKey", json!("")),
        ("secretAccessKey", Value::Null),
        ("secretAccessKey", json!(long)),
    ] {
        let mut s3 = bucket(&moto.url(), "good");
        s3[field] = value;
        let reply = post(api, OUTPUTS, &terms(s3, json!({}))).await;
        assert!(reply.text().len() < 2_000, "{field}");
        refused(&reply, 400, "Validation failed", &format!("files.s3.{field}"));
    }
    for closed in ["http://127.0.0.1:1", "http://169.254.169.254", "ftp://x.example"] {
        let new = terms(bucket(closed, "good"), json!({}));
        refused(&post(api, OUTPUTS, &new).await, 400, "Invalid URL", "files.s3.endpoint");
    }
    let path = terms(bucket(&format!("{}/x", moto.url()), "good"), json!({}));
    refused(&post(api, OUTPUTS, &path).await, 400, "Validation failed", "files.s3.endpoint");
    let both = terms(bucket(&moto.url(), "good"), json!({ "sftp": { "host": "a" } }));
    refused(&post(api, OUTPUTS, &both).await, 400, "Validation failed", "files.sftp");
    let sftp = json!({ "files": { "sftp": { "host": "files.example" } } });
    refused(&patch(api, one, &sftp).await, 400, "Validation failed", "files.sftp");
    let local = expect(post(api, OUTPUTS, &json!({ "kind": "files", "events": ["result.*"] })).await, 201);
    let s3 = json!({ "files": { "s3": { "bucket": "good" } } });
    let local = format!("{OUTPUTS}/{}", text(&local, "id"));
    refused(&patch(api, &local, &s3).await, 400, "Validation failed", "files.s3");
}

/// A storage that replaces what it was told not to is found out before a table's log is written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storage_that_keeps_no_condition_is_not_trusted_with_a_log() {
    let Some(moto) = Moto::start().await else { return };
    moto.make_bucket("plain").await;
    let (web, careless) = (shop().await, careless(moto.address).await);
    let allow = allowed(&web, &[careless]);
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &allow)]).await;
    let ada = at.member("ada").await;
    reads(&ada.api, &["title", "price"]).await;
    let delta = json!({ "delta": true, "format": "parquet", "path": "table", "maxRows": 5 });
    let new = terms(bucket(&format!("http://{careless}"), "plain"), delta);
    let made = expect(post(&ada.api, OUTPUTS, &new).await, 201);
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    let tested = expect(post(&ada.api, &format!("{one}/test"), &json!({})).await, 200);
    assert!(text(&tested["sent"], "told").contains("conditionalPuts"), "{tested}");
    visit(&ada.api, &web, 0..10).await;
    eventually("the ledger says so", PATIENCE, || async {
        let told = shown(&ada.api, &made).await["lastError"].as_str()?.to_owned();
        told.contains("If-None-Match").then_some(())
    })
    .await;
    assert!(keys(&moto, "plain", "from/gleaner/table/products").await.is_empty());
    // Said to be so, it is written to by one batch after the other.
    let alone = json!({ "files": { "s3": { "conditionalPuts": false } } });
    expect(patch(&ada.api, &one, &alone).await, 200);
    eventually("all rows are there", PATIENCE, || async {
        (shown(&ada.api, &made).await["delivered"] == 2).then_some(())
    })
    .await;
    let log = keys(&moto, "plain", "from/gleaner/table/products/_delta_log/").await;
    assert_eq!(log.len(), 2, "{log:?}");
    at.stop().await;
}

/// A way to a storage on which the condition is lost.
async fn careless(server: SocketAddr) -> SocketAddr {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let upstream = tokio::net::TcpStream::connect(server).await.ok()?;
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = upstream.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    let mut bytes = buffer[..count].to_vec();
                    let name = b"if-none-match";
                    let at = bytes.windows(name.len()).position(|part| part.eq_ignore_ascii_case(name));
                    // A header of that length which nobody knows. It is not signed for: of its name nobody is told.
                    if let Some(at) = at {
                        bytes[at..at + 2].copy_from_slice(b"zz");
                    }
                    to_server.write_all(&bytes).await.ok()?;
                }
                Some(())
            });
        }
    });
    address
}
