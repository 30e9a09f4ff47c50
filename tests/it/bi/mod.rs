//! The SQL console through HTTP: submitBiQuery, listBiQueries, getBiQuery, cancelBiQuery, getBiResults, getBiManifest,
//! listBiTables, getBiTable; exports, saved and structured queries, and the shapes of all answers in modules of their own.

mod caps;
mod catalog;
pub(crate) mod differential;
mod exports;
mod kept;
mod places;
mod reasons;
mod saved;
mod shapes;
mod structured;
mod values;

use crate::harness::process::Process;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, PASSWORD, collect, eventually, expect, get, member, post, text};
use base::clock::Timestamp;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use server::task::Signals;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

const QUERIES: &str = "/api/v1/bi/queries";
/// A statement that does not end by itself in any test's time, over tables of a few hundred rows.
const ENDLESS: &str =
    "SELECT count(*) FROM urls a, urls b, urls c, urls d WHERE a.url || b.url < c.url || d.url";

async fn submit(client: &Client, sql: &str) -> Reply {
    post(client, QUERIES, &json!({ "sql": sql, "waitMs": 10_000 })).await
}

/// The rows of a statement that must succeed at once.
async fn rows(client: &Client, sql: &str) -> Vec<Value> {
    let execution = expect(submit(client, sql).await, 200);
    assert_eq!(execution["status"], "success", "{execution}");
    execution["results"]["rows"].as_array().unwrap().clone()
}

/// Registers URLs and waits until SQL sees all of them.
async fn register(client: &Client, count: usize) {
    let urls: Vec<_> = (0..count).map(|n| format!("https://shop.example/{n:05}")).collect();
    expect(post(client, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
    eventually("SQL sees the URLs", Duration::from_secs(10), || async {
        (rows(client, "SELECT count(*) FROM urls").await[0]["count"] == count).then_some(())
    })
    .await;
}

/// Asserts an error in the console's envelope, whose page is served.
async fn refused(client: &Client, reply: &Reply, status: u16, code: &str, part: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    let error = &reply.json["error"];
    assert_eq!(error["code"], code, "{}", reply.text());
    assert!(text(error, "message").contains(part), "\"{part}\" is not in {}", reply.text());
    assert_eq!(text(error, "request_id"), reply.header("x-request-id"));
    let page = text(error, "docs_url").strip_prefix(client.base()).expect("a page of this box");
    assert_eq!(get(client, page).await.status, 200, "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_paged_described_and_stays_as_it_is() {
    let appliance = Appliance::start().await;
    let client = appliance.member("pages").await.api;
    register(&client, 450).await;
    let sql = "SELECT url, domain FROM urls ORDER BY url";
    let execution = expect(submit(&client, sql).await, 200);
    let first = &execution["results"];
    assert_eq!((&execution["replayed"], &execution["submissionKey"]), (&json!(false), &json!(null)));
    assert_eq!(execution["sqlPreview"], sql);
    assert_eq!(execution["dryRun"]["tables"], json!(["urls"]));
    assert_eq!(execution["dryRun"]["columns"][0], json!({ "name": "url", "type": "text" }));
    assert_eq!((first["totalRows"].as_i64(), first["hasMore"].as_bool()), (Some(450), Some(true)));
    assert_eq!((&first["page"], &first["pageSize"]), (&json!(0), &json!(200)));
    assert_eq!(first["rows"][199], json!({ "url": "https://shop.example/00199", "domain": "shop.example" }));
    assert!(first.get("exportEligibility").is_none() && first.get("historyCoverage").is_none());

    let one = format!("{QUERIES}/{}", text(&execution, "jobId"));
    let page = |query: &'static str| {
        let (client, path) = (client.clone(), format!("{one}/results{query}"));
        async move { get(&client, &path).await }
    };
    let before = expect(page("?page=2").await, 200);
    assert_eq!((before["rows"].as_array().unwrap().len(), &before["hasMore"]), (50, &json!(false)));
    let eligible = json!({
        "eligible": true, "hasWritePermission": true, "withinRowLimit": true, "withinByteLimit": true
    });
    assert_eq!(before["exportEligibility"], eligible);
    let all = expect(page("?pageSize=5000").await, 200);
    assert_eq!((all["rows"].as_array().unwrap().len(), &all["pageSize"]), (450, &json!(1000)));
    assert_eq!(expect(page("?page=99").await, 200)["rows"], json!([]));
    for (query, field) in [("?page=-1", "page"), ("?pageSize=0", "pageSize"), ("?pageSize=ten", "pageSize")] {
        refused(&client, &page(query).await, 400, "invalid_input", field).await;
    }
    let manifest = expect(get(&client, &format!("{one}/result-manifest?pageSize=100")).await, 200);
    let manifest = &manifest["manifest"];
    assert_eq!((&manifest["status"], &manifest["rowCount"]), (&json!("success"), &json!(450)));
    assert_eq!((&manifest["totalPages"], &manifest["maxQuerySec"]), (&json!(5), &json!(30)));
    // How long the feed takes is the machine's affair.
    assert!(
        manifest["byteSize"].as_u64().unwrap() > 10_000 && manifest["freshnessSec"].as_u64().unwrap() <= 60
    );
    assert!(text(manifest, "completedAt") < text(manifest, "expiresAt"));

    let more = json!({ "urls": ["https://shop.example/00000a", "https://shop.example/9"] });
    expect(post(&client, "/api/v1/urls", &more).await, 200);
    eventually("SQL sees them", Duration::from_secs(5), || async {
        (rows(&client, "SELECT count(*) FROM urls").await[0]["count"] == 452).then_some(())
    })
    .await;
    assert_eq!(expect(page("?page=2").await, 200), before, "pages of a finished query never change");
    let got = expect(get(&client, &one).await, 200);
    assert!(got.get("results").is_none() && got["status"] == "success");
    let listed = expect(get(&client, &format!("{QUERIES}?status=success&limit=200")).await, 200);
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(|item| **item == got).count(), 1);
    assert_eq!(expect(get(&client, &format!("{QUERIES}?to=2020-01-01")).await, 200)["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_run_is_refused_and_never_listed() {
    let appliance = Appliance::start().await;
    let client = appliance.member("refusals").await.api;
    let planted = appliance.data_dir().join("planted.csv");
    std::fs::write(&planted, "MARKER").unwrap();
    let planted = planted.display();
    let statements: Vec<(String, u16, &str)> = [
        ("SELEC 1", 400, "syntax_error"),
        ("SELECT url FROM urls WHERE", 400, "syntax_error"),
        ("SELECT 1 FROM WHERE", 400, "syntax_error"),
        ("SELECT count(*) FROM urls JOIN group ON true", 400, "syntax_error"),
        ("SELECT 1 FROM \"where\"", 403, "rls_denied"),
        ("SELECT nothing FROM urls", 400, "invalid_sql"),
        ("", 400, "invalid_sql"),
        ("SELECT 1; SELECT 2", 400, "invalid_sql"),
        ("DELETE FROM urls", 400, "invalid_sql"),
        ("COPY (SELECT 1) TO '/tmp/gleaner-leak.csv'", 400, "invalid_sql"),
        ("EXPLAIN ANALYZE SELECT 1", 400, "invalid_sql"),
        ("SELECT $1", 400, "invalid_sql"),
        ("SET datafusion.runtime.memory_limit = '100G'", 400, "invalid_sql"),
        ("SELECT version()", 400, "invalid_sql"),
        ("SELECT * FROM information_schema.views", 403, "rls_denied"),
        ("SELECT * FROM pg_catalog.pg_tables", 403, "rls_denied"),
        ("SELECT * FROM nowhere", 403, "rls_denied"),
        ("SELECT 1 FROM bi_queries", 403, "rls_denied"),
        ("SELECT * FROM \"/etc/passwd\"", 403, "rls_denied"),
    ]
    .into_iter()
    .map(|(sql, status, code)| (sql.to_owned(), status, code))
    .chain([
        (format!("SELECT * FROM '{planted}'"), 403, "rls_denied"),
        (format!("SELECT * FROM read_csv('{planted}')"), 400, "invalid_sql"),
        (format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{planted}'"), 400, "invalid_sql"),
        (format!("SELECT {}1", "1+".repeat(2_000)), 400, "invalid_sql"),
        (format!("SELECT '{}'", "x".repeat(70_000)), 400, "invalid_sql"),
        (format!("SELECT '{}'", "x".repeat(1_000_000)), 400, "invalid_sql"),
    ])
    .collect();
    for (sql, status, code) in &statements {
        let reply = submit(&client, sql).await;
        refused(&client, &reply, *status, code, "").await;
        assert!(!reply.text().contains("MARKER"), "{sql}");
    }
    for (body, status, code, part) in [
        (json!({}), 400, "invalid_sql", "sql"),
        (json!({ "structured": { "table": "urls" } }), 400, "invalid_sql", "structured.measures"),
        (
            json!({ "sql": "SELECT 1", "scopeKind": "agent" }),
            400,
            "invalid_execution_context",
            "scopeAgentId",
        ),
        (json!({ "sql": "SELECT 1", "scopeKind": "box" }), 400, "invalid_execution_context", "scopeKind"),
        (
            json!({ "sql": "SELECT 1", "scopeKind": "agent", "scopeAgentId": Uuid::now_v7() }),
            400,
            "invalid_execution_context",
            "scopeAgentId: there is no such agent",
        ),
        (
            json!({ "sql": "SELECT 1", "scopeAgentId": Uuid::now_v7() }),
            400,
            "invalid_execution_context",
            "scopeAgentId",
        ),
        (json!({ "sql": "SELECT 1", "waitMs": 10_001 }), 400, "invalid_input", "waitMs"),
        (json!({ "sql": 1 }), 400, "invalid_input", "sql"),
    ] {
        refused(&client, &post(&client, QUERIES, &body).await, status, code, part).await;
    }
    assert_eq!(expect(get(&client, QUERIES).await, 200)["items"], json!([]));
    assert!(!std::path::Path::new("/tmp/gleaner-leak.csv").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mount_guard_speaks_before_the_handler() {
    let appliance = Appliance::start().await;
    let (client, person) =
        (appliance.client(), json!({ "email": "guard@example.com", "password": PASSWORD, "name": "guard" }));
    let login = expect(post(&client, "/api/v1/auth/register", &person).await, 201);
    let alone = client.bearer(text(&login, "accessToken"));
    refused(&client, &get(&alone, QUERIES).await, 403, "no_org", "").await;
    let org = expect(post(&alone, "/api/v1/orgs", &json!({ "name": "guard" })).await, 201);
    let unverified = client.bearer(text(&org, "accessToken"));
    refused(&client, &get(&unverified, QUERIES).await, 403, "email_not_verified", "").await;
    refused(&client, &submit(&unverified, "SELECT 1").await, 403, "email_not_verified", "").await;
    let member = appliance.member("narrow").await;
    let key = json!({ "name": "urls only", "permissions": ["urls:read"] });
    let key = expect(post(&member.browser, "/api/v1/api-keys", &key).await, 201);
    let narrow = client.bearer(text(&key, "secret"));
    refused(&client, &get(&narrow, QUERIES).await, 403, "insufficient_permissions", "bi:read").await;
    let key = json!({ "name": "reads", "permissions": ["bi:read"] });
    let key = expect(post(&member.browser, "/api/v1/api-keys", &key).await, 201);
    let reader = client.bearer(text(&key, "secret"));
    let execution = expect(submit(&reader, "SELECT 1 AS one").await, 200);
    let page = expect(get(&reader, &format!("{QUERIES}/{}/results", text(&execution, "jobId"))).await, 200);
    assert_eq!(page["exportEligibility"]["hasWritePermission"], false);
    assert_eq!(page["exportEligibility"]["eligible"], false);
    // A 401 is flat everywhere.
    let anonymous = get(&client, QUERIES).await;
    assert_eq!((anonymous.status.as_u16(), anonymous.json["error"].is_string()), (401, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_while_running_is_the_executions_own() {
    let appliance = Appliance::start_with(&[("BI__MAX_QUERY_SEC", "5")]).await;
    let client = appliance.member("failures").await.api;
    register(&client, 300).await;
    let sql = "SELECT 1 / (length(url) - length(url)) AS x FROM urls";
    let execution = expect(submit(&client, sql).await, 200);
    assert_eq!((&execution["status"], &execution["error"]["code"]), (&json!("failed"), &json!("transient")));
    assert_eq!(execution["error"]["retriable"], false, "{execution}");
    let one = format!("{QUERIES}/{}", text(&execution, "jobId"));
    let results = get(&client, &format!("{one}/results")).await;
    refused(&client, &results, 409, "not_ready", "failed").await;
    assert_eq!(results.json["status"], "failed");
    let manifest = expect(get(&client, &format!("{one}/result-manifest")).await, 200);
    for field in ["rowCount", "byteSize", "completedAt", "totalPages"] {
        assert_eq!(manifest["manifest"][field], json!(null), "{field}");
    }
    let endless = submit(&client, ENDLESS).await;
    let endless = format!("{QUERIES}/{}", text(&endless.json, "jobId"));
    // It has five seconds once it runs.
    let execution = eventually("it has failed", Duration::from_secs(60), || async {
        let execution = expect(get(&client, &endless).await, 200);
        (execution["status"] == "failed").then_some(execution)
    })
    .await;
    assert_eq!(execution["error"]["code"], "statement_timeout", "{execution}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_statement_is_canceled_and_its_place_given_back() {
    let settings = [("BI__CONCURRENCY_PER_ORG", "1"), ("BI__QUEUE_PER_ORG", "1"), ("BI__CONCURRENCY", "2")];
    let appliance = Appliance::start_with(&settings).await;
    let client = appliance.member("cancels").await.api;
    let other = appliance.member("neighbour").await.api;
    register(&client, 300).await;
    let now = json!({ "sql": ENDLESS, "waitMs": 0 });
    let running = expect(post(&client, QUERIES, &now).await, 202);
    let running = format!("{QUERIES}/{}", text(&running, "jobId"));
    eventually("it is running", Duration::from_secs(5), || async {
        let execution = expect(get(&client, &running).await, 200);
        (execution["status"] == "running").then(|| assert_eq!(execution["dryRun"]["tables"], json!(["urls"])))
    })
    .await;
    let results = get(&client, &format!("{running}/results")).await;
    assert_eq!((results.status.as_u16(), &results.json["status"]), (409, &json!("running")));

    let queued = expect(post(&client, QUERIES, &now).await, 202);
    assert_eq!((&queued["status"], &queued["dryRun"]["tables"]), (&json!("queued"), &json!(null)));
    let queued = format!("{QUERIES}/{}", text(&queued, "jobId"));
    let manifest = expect(get(&client, &format!("{queued}/result-manifest")).await, 200);
    let manifest = &manifest["manifest"];
    assert_eq!((&manifest["status"], &manifest["rowCount"]), (&json!("queued"), &json!(null)));
    assert!(manifest["freshnessSec"].is_u64() && manifest["maxQuerySec"] == 30, "{manifest}");
    let third = post(&client, QUERIES, &now).await;
    refused(&client, &third, 429, "too_many_queries", "").await;
    assert_eq!(third.header("retry-after"), "");
    assert_eq!(rows(&other, "SELECT 1 AS one").await[0]["one"], 1, "another organization is not held up");

    for path in [&queued, &running] {
        let canceled = eventually("it is canceled", Duration::from_secs(60), || async {
            let canceled = expect(post(&client, &format!("{path}/cancel"), &json!({})).await, 200);
            (canceled == json!({ "status": "canceled" })).then_some(canceled)
        })
        .await;
        let execution = expect(get(&client, path).await, 200);
        assert_eq!(
            (&execution["status"], &execution["error"]["code"]),
            (&json!("canceled"), &json!("canceled"))
        );
        assert_eq!(expect(post(&client, &format!("{path}/cancel"), &json!({})).await, 200), canceled);
    }
    let done = expect(submit(&client, "SELECT count(*) FROM urls").await, 200);
    let done = format!("{QUERIES}/{}/cancel", text(&done, "jobId"));
    assert_eq!(expect(post(&client, &done, &json!({})).await, 200), json!({ "status": "success" }));
}

/// The row of a statement is written anew some time after it began to run. Whoever is answered in that time is told what
/// it is at all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_runs_is_not_called_queued() {
    const WAIT_MS: i64 = 800;
    let settings = [("BI__CONCURRENCY_PER_ORG", "1"), ("BI__QUEUE_PER_ORG", "1"), ("BI__CONCURRENCY", "2")];
    let appliance = Appliance::start_with(&settings).await;
    let client = appliance.member("begins").await.api;
    register(&client, 300).await;
    let first = expect(post(&client, QUERIES, &json!({ "sql": ENDLESS, "waitMs": 0 })).await, 202);
    let mut before = text(&first, "jobId").to_owned();
    // The next one's turn comes shortly before its caller is answered.
    for early_ms in [30, 60, 90, 120, 200] {
        let sent = Timestamp::by_machine();
        let (asking, body) = (client.clone(), json!({ "sql": ENDLESS, "waitMs": WAIT_MS }));
        let asked = tokio::spawn(async move { post(&asking, QUERIES, &body).await });
        tokio::time::sleep(Duration::from_millis((WAIT_MS - early_ms) as u64)).await;
        expect(post(&client, &format!("{QUERIES}/{before}/cancel"), &json!({})).await, 200);
        let answer = expect(asked.await.expect("an answer"), 202);
        before = text(&answer, "jobId").to_owned();
        let running = eventually("it runs", Duration::from_secs(20), || async {
            let execution = expect(get(&client, &format!("{QUERIES}/{before}")).await, 200);
            (execution["status"] == "running").then_some(execution)
        })
        .await;
        let listed = expect(get(&client, &format!("{QUERIES}?status=running")).await, 200);
        assert_eq!(listed["items"][0]["jobId"], running["jobId"], "{listed}");
        if answer["status"] == "queued" {
            let started: Timestamp = text(&running, "startedAt").parse().expect("a time");
            let answered = sent.millis() + WAIT_MS;
            assert!(started.millis() + 5 >= answered, "it ran for {} ms", answered - started.millis());
        } else {
            let of = |execution: &Value| (execution["status"].clone(), execution["startedAt"].clone());
            assert_eq!(of(&answer), of(&running));
        }
    }
    expect(post(&client, &format!("{QUERIES}/{before}/cancel"), &json!({})).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_plans_and_runs_nothing() {
    let appliance = Appliance::start().await;
    let client = appliance.member("dry").await.api;
    let sql = "SELECT domain, count(*) FROM urls GROUP BY domain";
    let body = json!({ "sql": sql, "dryRun": true, "waitMs": 10_000 });
    let execution = expect(post(&client, QUERIES, &body).await, 200);
    assert_eq!(execution["status"], "success");
    assert!(execution.get("results").is_none());
    assert_eq!(execution["dryRun"]["statement"], "SELECT");
    assert_eq!(execution["dryRun"]["columns"][1], json!({ "name": "count", "type": "bigint" }));
    let page = expect(get(&client, &format!("{QUERIES}/{}/results", text(&execution, "jobId"))).await, 200);
    assert_eq!((&page["rows"], &page["totalRows"], &page["hasMore"]), (&json!([]), &json!(0), &json!(false)));
    let manifest = get(&client, &format!("{QUERIES}/{}/result-manifest", text(&execution, "jobId"))).await;
    let manifest = expect(manifest, 200)["manifest"].clone();
    assert_eq!(
        (&manifest["rowCount"], &manifest["byteSize"], &manifest["totalPages"]),
        (&page["totalRows"], &json!(0), &json!(0)),
        "the manifest and the pages say the same"
    );
    assert_eq!(page["exportEligibility"]["eligible"], false, "there is nothing to export");
    let body = json!({ "sql": "SELECT nothing FROM urls", "dryRun": true, "waitMs": 10_000 });
    refused(&client, &post(&client, QUERIES, &body).await, 400, "invalid_sql", "nothing").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_described_with_examples_of_ones_own() {
    let appliance = Appliance::start().await;
    let client = appliance.member("tables").await.api;
    let other = appliance.member("others").await.api;
    register(&client, 20).await;
    let list = expect(get(&client, "/api/v1/bi/tables").await, 200);
    let urls = list["items"].as_array().unwrap().iter().find(|table| table["name"] == "urls").unwrap();
    assert_eq!((&urls["rowCount"], &urls["catalogVersion"]), (&json!(20), &json!(2)));
    // How long the feed takes is the machine's affair.
    assert!(urls["freshnessSec"].is_u64() && !text(urls, "description").is_empty());
    for name in
        ["jobs", "job_attempts", "readings", "latest_readings", "products", "credit_transactions", "url_tags"]
    {
        let path = format!("/api/v1/bi/tables/{name}");
        let table = expect(get(&client, &path).await, 200);
        assert!(!table["columns"].as_array().unwrap().is_empty(), "{name}");
    }
    let sampled = eventually("examples are found", Duration::from_secs(10), || async {
        let table = expect(get(&client, "/api/v1/bi/tables/urls").await, 200);
        table["columns"][1].get("sampleValues").is_some().then_some(table)
    })
    .await;
    let column = &sampled["columns"][1];
    assert_eq!(
        (&column["name"], &column["type"], &column["nullable"]),
        (&json!("url"), &json!("text"), &json!(false))
    );
    assert_eq!(column["sampleValues"].as_array().unwrap().len(), 5);
    let example = column["sampleValues"][0].as_str().unwrap();
    assert!(example.starts_with("https://shop.example/"), "{example}");
    let theirs = expect(get(&other, "/api/v1/bi/tables/urls").await, 200);
    assert_eq!(theirs["rowCount"], 0);
    assert!(theirs["columns"][1].get("sampleValues").is_none());
    for bad in ["1a", "a-b", "a.b", "%C3%A9", &"a".repeat(129)] {
        let reply = get(&client, &format!("/api/v1/bi/tables/{bad}")).await;
        refused(&client, &reply, 400, "invalid_table_name", "").await;
    }
    refused(&client, &get(&client, "/api/v1/bi/tables/nowhere").await, 404, "not_found", "Table").await;
}

/// Examples are refreshed daily: none that is shown is older than a day, whenever somebody comes by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_are_at_most_a_day_old() {
    let appliance = Appliance::start().await;
    let client = appliance.member("samples").await.api;
    register(&client, 5).await;
    let domains = || async {
        let table = expect(get(&client, "/api/v1/bi/tables/urls").await, 200);
        let domain = table["columns"].as_array().unwrap().iter().find(|column| column["name"] == "domain");
        domain.expect("a column").get("sampleValues").cloned()
    };
    let old = eventually("examples are found", Duration::from_secs(20), domains).await;
    assert_eq!(old, json!(["shop.example"]));
    let new = json!({ "urls": ["https://new.test/"] });
    expect(post(&client, "/api/v1/urls", &new).await, 200);
    eventually("SQL sees it", Duration::from_secs(20), || async {
        (rows(&client, "SELECT count(*) FROM urls").await[0]["count"] == 6).then_some(())
    })
    .await;
    assert_eq!(domains().await, Some(old), "they are of this day");
    appliance.clock.advance(Duration::from_secs(86_400));
    // A loaded machine may take longer than the caller waits; what it shows then is nothing, and not what is old.
    let new = eventually("new ones are found", Duration::from_secs(20), || async {
        let shown = domains().await;
        assert_ne!(shown, Some(json!(["shop.example"])));
        shown
    })
    .await;
    assert_eq!(new.as_array().map(Vec::len), Some(2), "{new}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collected_page_is_soon_in_the_tables_of_its_organization_alone() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>page {path}</title>")))).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (mine, theirs) = (appliance.member("mine").await.api, appliance.member("theirs").await.api);
    for (client, path) in [(&mine, "/mine"), (&theirs, "/theirs")] {
        let job = collect(client, &web.url(path)).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        let sql = "SELECT j.url, j.status, a.outcome, r.url AS read FROM jobs j \
                   JOIN job_attempts a ON a.job_id = j.id JOIN readings r ON r.job_id = j.id";
        let found = eventually("the job is in the tables", Duration::from_secs(5), || async {
            let found = rows(client, sql).await;
            (!found.is_empty() && found[0]["status"] == "succeeded").then_some(found)
        })
        .await;
        let url = web.url(path);
        assert_eq!(found, [json!({ "url": url, "status": "succeeded", "outcome": "success", "read": url })]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_survive_a_restart_and_go_when_they_are_old() {
    let mut appliance = Appliance::start().await;
    let client = appliance.member("keeps").await;
    register(&client.api, 30).await;
    let execution = expect(submit(&client.api, "SELECT url FROM urls ORDER BY url").await, 200);
    let path = format!("{QUERIES}/{}", text(&execution, "jobId"));
    let before = expect(get(&client.api, &format!("{path}/results")).await, 200);
    appliance.restart().await;
    let api = appliance.client().bearer(&client.key);
    assert_eq!(expect(get(&api, &format!("{path}/results")).await, 200), before);
    assert_eq!(rows(&api, "SELECT count(*) FROM urls").await[0]["count"], 30);

    let file = appliance.data_dir().join("results").join(&client.org_id);
    let file = file.join(format!("{}.arrow", text(&execution, "jobId")));
    let tidy = || appliance.app().services().service::<Signals>().wake("bi.tidy");
    // A result that no row speaks of, as a crash leaves it.
    let stray = file.with_file_name(format!("{}.arrow", Uuid::now_v7()));
    std::fs::copy(&file, &stray).unwrap();
    tidy();
    eventually("the stray result is gone", Duration::from_secs(5), || async {
        (!stray.exists()).then_some(())
    })
    .await;
    assert!(file.exists());
    appliance.clock.advance(Duration::from_secs(8 * 86_400));
    tidy();
    eventually("the statement is gone", Duration::from_secs(5), || async {
        (get(&api, &path).await.status == 404).then_some(())
    })
    .await;
    assert!(!file.exists(), "the result goes before its row");
    for path in [format!("{path}/results"), format!("{path}/result-manifest")] {
        refused(&api, &get(&api, &path).await, 404, "not_found", "").await;
    }
    assert_eq!(expect(get(&api, QUERIES).await, 200)["items"], json!([]));
    let fresh = expect(submit(&api, "SELECT 1 AS one").await, 200);
    tidy();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(expect(get(&api, QUERIES).await, 200)["items"][0]["jobId"], fresh["jobId"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_whose_file_is_lost_or_damaged_says_to_send_it_again() {
    let appliance = Appliance::start().await;
    let member = appliance.member("lost").await;
    for damage in [&b""[..], b"no result"] {
        let execution = expect(submit(&member.api, "SELECT 1 AS one").await, 200);
        let id = text(&execution, "jobId");
        let file = appliance.data_dir().join("results").join(&member.org_id).join(format!("{id}.arrow"));
        std::fs::remove_file(&file).unwrap();
        if !damage.is_empty() {
            std::fs::write(&file, damage).unwrap();
        }
        let page = get(&member.api, &format!("{QUERIES}/{id}/results")).await;
        refused(&member.api, &page, 409, "transient", "submit it again").await;
        assert!(page.json.get("status").is_none(), "only not_ready has a status beside it");
    }
}

/// Processes that serve statements of the box with this folder, whoever is their parent.
fn workers_of(data: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    let is_own = |line: &String| {
        let mut arguments = line.split('\0').skip(1);
        arguments.next() == Some("sql-worker")
            && arguments.next().is_some_and(|home| Path::new(home).starts_with(data))
    };
    lines.filter(is_own).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_process_was_killed_has_failed_and_may_be_sent_again() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let process = Process::start(&data, &[]);
    let person = member(&process.client(), &process.socket(), "killed").await;
    register(&person.api, 300).await;
    let done = expect(submit(&person.api, "SELECT count(*) FROM urls").await, 200);
    let running = expect(post(&person.api, QUERIES, &json!({ "sql": ENDLESS, "waitMs": 300 })).await, 202);
    assert!(workers_of(&data) > 0, "somebody serves it");
    process.kill();
    // What ran goes with the server, also while it computes.
    eventually("its workers are gone", Duration::from_secs(60), || async {
        (workers_of(&data) == 0).then_some(())
    })
    .await;

    let process = Process::start(&data, &[]);
    let api = process.client().bearer(&person.key);
    let execution = expect(get(&api, &format!("{QUERIES}/{}", text(&running, "jobId"))).await, 200);
    assert_eq!(execution["status"], "failed", "{execution}");
    assert_eq!(execution["error"]["code"], "transient");
    assert_eq!(execution["error"]["retriable"], true);
    let page = expect(get(&api, &format!("{QUERIES}/{}/results", text(&done, "jobId"))).await, 200);
    assert_eq!(page["rows"], json!([{ "count": 300 }]));
    assert_eq!(rows(&api, "SELECT count(*) FROM urls").await[0]["count"], 300);
    assert_eq!(process.terminate(), Some(0));
}

/// A small statement can have enormous rows, names and results; what the server holds of them is bounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enormous_rows_and_pages_are_refused_with_their_limit() {
    let appliance = Appliance::start().await;
    let client = appliance.member("enormous").await.api;
    for sql in [
        // Six characters for one, and 32 bytes of memory for a bit of the file.
        "SELECT repeat(chr(1), 2000000) AS x",
        "SELECT array_repeat(NULL, 1000000) AS x",
        "SELECT repeat('x', 9000000) AS x",
    ] {
        let execution = expect(submit(&client, sql).await, 200);
        assert_eq!(execution["status"], "failed", "{sql}: {execution}");
        assert!(text(&execution["error"], "message").contains("larger than 8 MiB"), "{sql}: {execution}");
    }
    let wide = "SELECT repeat('x', 1000000) AS x FROM unnest(range(0, 40)) AS t(n)";
    let execution = expect(submit(&client, wide).await, 200);
    assert_eq!(execution["status"], "success", "{}", execution["error"]);
    let first = &execution["results"];
    assert_eq!(
        (&first["pageSize"], first["rows"].as_array().unwrap().len(), &first["hasMore"]),
        (&json!(12), 12, &json!(true)),
        "as many as a page holds"
    );
    let results = format!("{QUERIES}/{}/results", text(&execution, "jobId"));
    let whole = get(&client, &format!("{results}?pageSize=1000")).await;
    refused(&client, &whole, 400, "invalid_input", "pageSize: is too much").await;
    let second = expect(get(&client, &format!("{results}?pageSize=12&page=1")).await, 200);
    assert_eq!(second["rows"].as_array().unwrap().len(), 12);

    let named = format!("SELECT 1 AS \"{}\"", "k".repeat(50_000));
    let execution = expect(submit(&client, &named).await, 200);
    assert_eq!(text(&execution["dryRun"]["columns"][0], "name").len(), 128, "{execution}");
    let columns: Vec<_> = (0..600).map(|n| format!("{n} AS c{n}")).collect();
    let many = format!("WITH t AS (SELECT {}) SELECT * FROM t AS a, t AS b, t AS c", columns.join(", "));
    refused(&client, &submit(&client, &many).await, 400, "invalid_sql", "1800 columns").await;
}
