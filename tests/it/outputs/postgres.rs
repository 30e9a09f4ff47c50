//! Rows of results in a table of a PostgreSQL server, which the test starts; skipped where the machine has none.

use super::{OUTPUTS, deliveries, shown};
use crate::audit::patch;
use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, eventually, expect, get, member, post, refused, text};
use postgres_server::Server;
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;
use tempfile::TempDir;

const SITE: &str = "/api/v1/extraction/attributes/127.0.0.1";
const ROUNDS: usize = 4;
/// Results of a round; and how many where this says 1, which takes minutes.
const PER_ROUND: usize = 250;
const PER_ROUND_LONG: usize = 25_000;
const LONG: &str = "GLEANER_LONG";
/// Kills of a round, each of the server and then of the box.
const KILLS: usize = 2;
/// Jobs that one request brings.
const JOBS: usize = 1_000;
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// What is compared with the console's rows.
pub(super) const COLUMNS: &str = "result_id, job_id, url, domain, page_type, title, price";

pub(super) fn server() -> Option<Server> {
    let server = Server::start()?;
    server.database("shop", "writer", "s3cret");
    Some(server)
}

/// `/plane/<n>` is a plane of that number.
pub(super) async fn shop() -> Web {
    Web::open(|path| {
        let name = path.strip_prefix("/plane/")?;
        let price: usize = name.bytes().map(usize::from).sum();
        Some(Answer::html(format!(
            "<h1>Plane \"{name}\" 'é' | ;</h1><b>$ {price}.5</b><em>Maker {name}</em>"
        )))
    })
    .await
}

pub(super) async fn reads(api: &Client, names: &[&str]) {
    let xpath = |name: &str| match name {
        "title" => json!({ "name": "title", "xpaths": ["//h1"], "type": "text" }),
        "price" => json!({ "name": "price", "xpaths": ["//b"], "type": "number" }),
        _ => json!({ "name": "maker", "xpaths": ["//em"], "type": "text" }),
    };
    let attributes: Vec<_> = names.iter().map(|name| xpath(name)).collect();
    expect(api.put(SITE, &json!({ "attributes": attributes })).await.unwrap(), 200);
}

pub(super) async fn visit(api: &Client, web: &Web, numbers: std::ops::Range<usize>) {
    let job = |n: usize| json!({ "url": web.url(&format!("/plane/{n}")), "pageType": "product" });
    let jobs: Vec<_> = numbers.map(job).collect();
    for some in jobs.chunks(JOBS) {
        expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": some })).await, 201);
    }
}

pub(super) fn terms(server: &Server, mode: &str) -> Value {
    json!({
        "kind": "postgres", "events": ["result.*"], "pageTypes": ["product"],
        "postgres": {
            "host": "127.0.0.1", "port": server.port, "database": "shop", "user": "writer", "password": "s3cret",
            "sslmode": "disable", "table": "planes", "mode": mode, "everySeconds": 1,
        },
    })
}

/// The console's rows, each as `a|b|c`; none where it asks to come again.
pub(super) async fn console(api: &Client, from: &str, columns: &str) -> Vec<String> {
    let asked =
        json!({ "sql": format!("SELECT {columns} FROM {from} ORDER BY result_id"), "waitMs": 10_000 });
    let answer = post(api, "/api/v1/bi/queries", &asked).await;
    // 202 of a busy machine, 503 of a box that has just started.
    if matches!(answer.status.as_u16(), 202 | 503) {
        return Vec::new();
    }
    let answer = expect(answer, 200);
    let names: Vec<_> = columns.split(", ").collect();
    let cell = |row: &Value, name: &str| match &row[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let id = text(&answer, "jobId");
    let mut console = Vec::new();
    for page in 0.. {
        let path = format!("/api/v1/bi/queries/{id}/results?page={page}&pageSize=1000");
        let page = expect(get(api, &path).await, 200);
        let rows = page["rows"].as_array().unwrap();
        let line = |row| names.iter().map(|name| cell(row, name)).collect::<Vec<_>>().join("|");
        console.extend(rows.iter().map(line));
        if page["hasMore"] != true {
            break;
        }
    }
    console
}

/// The console's rows, and the customer's.
async fn compared(api: &Client, server: &Server, from: &str, columns: &str) -> (Vec<String>, Vec<String>) {
    let theirs =
        server.sql("shop", &format!("SELECT {columns} FROM planes ORDER BY result_id COLLATE \"C\""));
    (console(api, from, columns).await, theirs.lines().map(str::to_owned).collect())
}

/// Waits until every result is there, and once.
pub(super) async fn all_there(api: &Client, server: &Server, count: usize, columns: &str) {
    // The pages are to be fetched first.
    let patience = PATIENCE + Duration::from_millis(20) * u32::try_from(count).unwrap();
    eventually(&format!("{count} rows are there"), patience, || async {
        (server.try_sql("shop", "SELECT count(*) FROM planes").as_deref() == Some(&count.to_string()))
            .then_some(())
    })
    .await;
    jobs_done(api, count).await;
    let (console, theirs) = compared(api, server, "products", columns).await;
    assert_eq!(console.len(), count);
    assert!(console == theirs, "{:?}", console.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs));
}

/// Kills of the box and of the server, and a column that begins half way. With `GLEANER_LONG=1` 100,000 results, and what it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_result_is_in_the_table_once_whatever_is_killed() {
    let Some(server) = server() else { return };
    let per_round =
        if std::env::var_os(LONG).is_some_and(|said| said == "1") { PER_ROUND_LONG } else { PER_ROUND };
    let begun = std::time::Instant::now();
    let web = shop().await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let allow =
        json!([format!("127.0.0.1/32:{}", web.address.port()), format!("127.0.0.1/32:{}", server.port)]);
    let allow = allow.to_string();
    let settings = [("NETWORK__ALLOW", allow.as_str()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "64")];
    let mut process = Process::start(&data, &settings);
    let owner = member(&process.client(), &process.socket(), "planes").await;
    let api = process.client().bearer(&owner.key);
    reads(&api, &["title", "price"]).await;
    let made = expect(post(&api, OUTPUTS, &terms(&server, "append")).await, 201);
    for round in 0..ROUNDS {
        let api = process.client().bearer(&owner.key);
        if round == ROUNDS / 2 {
            // What was asked for before is read as it was asked for.
            jobs_done(&api, round * per_round).await;
            reads(&api, &["title", "price", "maker"]).await;
        }
        visit(&api, &web, round * per_round..(round + 1) * per_round).await;
        for kill in 0..KILLS {
            tokio::time::sleep(Duration::from_millis(900 + 170 * (round + kill) as u64)).await;
            server.kill();
            tokio::time::sleep(Duration::from_millis(700)).await;
            process.kill();
            process = Process::start(&data, &settings);
            server.again();
        }
    }
    let api = process.client().bearer(&owner.key);
    let count = ROUNDS * per_round;
    all_there(&api, &server, count, &format!("{COLUMNS}, maker")).await;
    assert_eq!(server.sql("shop", "SELECT count(maker) FROM planes"), (count / 2).to_string());
    let view = shown(&api, &made).await;
    assert_eq!((&view["pending"], &view["failed"], &view["missed"]), (&json!(0), &json!(0), &json!(0)));
    println!("{count} results through {} kills of box and server: {:?}", ROUNDS * KILLS, begun.elapsed());
    assert_eq!(process.terminate(), Some(0));
}

/// Waits until so many jobs have ended.
async fn jobs_done(api: &Client, count: usize) {
    let patience = PATIENCE + Duration::from_millis(20) * u32::try_from(count).unwrap();
    eventually("the jobs have ended", patience, || async {
        let asked = json!({ "sql": "SELECT count(*) AS n FROM products", "waitMs": 10_000 });
        let answer = post(api, "/api/v1/bi/queries", &asked).await;
        (answer.status == 200 && answer.json["results"]["rows"][0]["n"] == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_server_is_in_the_ledger_until_it_is_mended() {
    let Some(server) = server() else { return };
    let web = shop().await;
    let rules =
        json!([format!("127.0.0.1/32:{}", web.address.port()), format!("127.0.0.1/32:{}", server.port)]);
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &rules.to_string())]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    reads(&ada.api, &["title", "price"]).await;
    let mut wrong = terms(&server, "upsert");
    wrong["postgres"]["password"] = json!("wr0ng");
    let made = expect(post(&ada.api, OUTPUTS, &wrong).await, 201);
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    assert_eq!((&made["postgres"]["hasPassword"], &made["secrets"]), (&json!(true), &json!([])));
    // Beside it an organization whose server never answers, and one that reads nothing of ada's.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut hanging = terms(&server, "append");
    hanging["postgres"]["port"] = json!(silent.local_addr().unwrap().port());
    assert_eq!(post(&eve.api, OUTPUTS, &hanging).await.status, 400, "network.allow has not opened it");
    assert_eq!(get(&eve.api, &one).await.status, 404);
    let tested = expect(post(&ada.api, &format!("{one}/test"), &json!({})).await, 200);
    assert!(!tested["sent"]["isDelivered"].as_bool().unwrap());
    assert!(text(&tested["sent"], "told").contains("password authentication failed"), "{tested}");
    visit(&ada.api, &web, 0..20).await;
    let told = eventually("the ledger says so", PATIENCE, || async {
        let rows = deliveries(&ada.api, &made).await;
        let told = rows.first().and_then(|row| row["attempts"][0]["told"].as_str().map(str::to_owned));
        told.filter(|_| rows[0]["state"] == "pending")
    })
    .await;
    assert!(
        told.contains("password authentication failed for user \"writer\"") && !told.contains("wr0ng"),
        "{told}"
    );
    // Whoever changes where it goes must know the password; who mends it is heard at once.
    let elsewhere = json!({ "postgres": { "host": "db.elsewhere.example" } });
    refused(&patch(&ada.api, &one, &elsewhere).await, 400, "Validation failed", "postgres.password");
    let mended = expect(patch(&ada.api, &one, &json!({ "postgres": { "password": "s3cret" } })).await, 200);
    assert!(!mended.to_string().contains("s3cret"), "{mended}");
    all_there(&ada.api, &server, 20, COLUMNS).await;
    // A page that comes again has one row, and what is newest in it.
    visit(&ada.api, &web, 0..10).await;
    server.sql("shop", "ALTER TABLE planes ADD COLUMN noted int DEFAULT 7");
    visit(&ada.api, &web, 20..30).await;
    eventually("ten more pages are there", PATIENCE, || async {
        (server.sql("shop", "SELECT count(*), count(noted) FROM planes") == "30|30").then_some(())
    })
    .await;
    let rows = deliveries(&ada.api, &made).await;
    let delivered = rows.iter().find(|row| row["state"] == "delivered").unwrap();
    // The last of its attempts, the oldest of which stands first; others went before where the server was slow.
    let last = delivered["attempts"].as_array().unwrap().last().unwrap();
    assert!(text(last, "told").contains("rows written"), "{delivered}");
    let id = text(delivered, "id");
    expect(post(&ada.api, &format!("/api/v1/deliveries/{id}/redeliver"), &json!({})).await, 202);
    expect(
        post(&ada.api, &format!("{one}/recover"), &json!({ "since": text(&made, "createdAt") })).await,
        202,
    );
    eventually("nothing waits", PATIENCE, || async {
        (shown(&ada.api, &made).await["pending"] == 0).then_some(())
    })
    .await;
    assert_eq!(server.sql("shop", "SELECT count(*) FROM planes"), "30");
    let all = json!({ "sql": "SELECT * FROM outputs", "waitMs": 10_000 });
    let all = expect(post(&ada.api, "/api/v1/bi/queries", &all).await, 200).to_string();
    assert!(all.contains("postgres") && !all.contains("s3cret"), "{all}");
    refuses(&ada.api, &server, &one).await;
    at.stop().await;
}

async fn refuses(api: &Client, server: &Server, one: &str) {
    let long = "x".repeat(64);
    for (wrong, field) in [
        (json!({ "events": ["job.*"] }), "events"),
        (json!({ "events": ["job.succeeded", "result.new"] }), "events"),
        (json!({ "pageTypes": ["product", "article"] }), "pageTypes"),
        (json!({ "url": "https://a.example/" }), "url"),
        (json!({ "postgres": null }), "postgres"),
        (json!({ "postgres": { "host": "db.example" } }), "postgres.database"),
        (
            json!({ "postgres": { "host": "a/b", "database": "d", "user": "u", "table": "t" } }),
            "postgres.host",
        ),
        (
            json!({ "postgres": { "host": "a", "database": "d", "user": "u", "table": long } }),
            "postgres.table",
        ),
        (
            json!({ "postgres": { "host": "a", "database": "d", "user": "u", "table": "t", "ca": "x" } }),
            "postgres.ca",
        ),
        (
            json!({ "postgres": { "host": "a", "database": "d", "user": "u", "table": "t", "everySeconds": 0 } }),
            "postgres.everySeconds",
        ),
    ] {
        let mut body = terms(server, "append");
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        refused(&post(api, OUTPUTS, &body).await, 400, "Validation failed", field);
    }
    let closed = json!({ "postgres": { "host": "169.254.169.254", "password": "x" } });
    refused(&patch(api, one, &closed).await, 400, "Invalid URL", "postgres.host");
    let of_webhook =
        json!({ "kind": "webhook", "url": "https://a.example/", "events": ["job.*"], "postgres": {} });
    refused(&post(api, OUTPUTS, &of_webhook).await, 400, "Validation failed", "postgres");
}
