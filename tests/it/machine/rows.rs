//! Rows that a disk has altered: one of every table of the box, and nobody but who asks for it notices. Every task goes
//! through, the box starts, and what others have goes on.

use crate::harness::smtp::MailServer;
use crate::harness::web::{Answer, Web};
use crate::harness::{
    Appliance, Member, by_task, collect, eventually, expect, get, looks_anew, post, ready, text,
};
use gleaner::features;
use serde_json::{Value, json};
use std::time::Duration;
use store::SysRead;
use store::fault::damage_first;
use tempfile::TempDir;

const RESULTS: &str = "/api/v1/extraction/results";
const QUERIES: &str = "/api/v1/bi/queries";
const FORGOT: &str = "/api/v1/auth/forgot-password";
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Activations that end with the process.
const LONG: [&str; 7] = [
    "jobs.dispatch",
    "bi.feed",
    "extraction.search_feed",
    "drift.feed",
    "outputs.follow",
    "outputs.send",
    "storage.move",
];
/// What the store itself keeps, but for the end of the box's own chain: everybody waits for that.
const OF_THE_STORE: [&str; 4] = ["audit", "audit_heads", "audit_system", "changes"];

fn page(path: &str) -> Option<Answer> {
    Some(Answer::html(format!("<title>{path}</title><h1>a page of the shop</h1>")))
}

/// Has every task look once more, and waits until each has, without one that failed.
async fn every_task_goes_through(at: &Appliance, when: &str) {
    let failed = by_task(at, "gleaner_task_failures_total").await;
    let tasks = features::ALL.iter().flat_map(|feature| feature.tasks).map(|task| task.name);
    for task in tasks.filter(|task| !LONG.contains(task)) {
        looks_anew(at, task).await;
    }
    assert_eq!(by_task(at, "gleaner_task_failures_total").await, failed, "{when}: a task failed");
}

/// A bit of everything that an organization and its people can have.
async fn fill(at: &Appliance, web: &Web, member: &Member) {
    for path in ["/same", "/same", "/other"] {
        let job = collect(&member.api, &web.url(path)).await;
        assert_eq!(text(&job, "status"), "succeeded", "{job}");
    }
    let urls = json!({ "urls": [{ "url": web.url("/listed"), "tags": ["a"] }] });
    expect(post(&member.api, "/api/v1/urls", &urls).await, 200);
    expect(
        post(&member.api, "/api/v1/workflows/smart", &json!({ "route": "*", "strategy": "latency" })).await,
        201,
    );
    let guest = json!({ "email": "guest@example.com", "role": "viewer" });
    expect(post(&member.browser, "/api/v1/orgs/current/invites", &guest).await, 201);
    let query = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
    let query = expect(post(&member.api, QUERIES, &query).await, 200);
    let path = format!("{QUERIES}/{}/exports", text(&query, "jobId"));
    expect(post(&member.api, &path, &json!({ "format": "csv" })).await, 202);
    let saved = json!({ "name": "one", "sql": "SELECT 1 AS one", "scopeKind": "org" });
    expect(post(&member.api, "/api/v1/bi/saved-queries", &saved).await, 201);
    expect(post(&member.browser, "/api/v1/account/export", &json!({})).await, 202);
    expect(post(&at.client(), FORGOT, &json!({ "email": member.email })).await, 200);
    let wrong = json!({ "email": member.email, "password": "not the password at all" });
    assert_eq!(post(&at.client(), "/api/v1/auth/login", &wrong).await.status, 401);
    let machine = json!({ "hostname": "laptop.example" });
    expect(post(&at.client(), "/api/v1/cli-auth/start", &machine).await, 200);
}

/// What somebody does all day.
async fn work_goes_on(at: &Appliance, web: &Web, mail: &MailServer, member: &Member, when: &str) {
    let job = collect(&member.api, &web.url(&format!("/{when}"))).await;
    assert_eq!(text(&job, "status"), "succeeded", "{when}: {job}");
    let id = text(&job, "resultId").to_owned();
    let is_in =
        |list: &Value| list["items"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == id));
    eventually(&format!("{when}: search finds it"), Duration::from_secs(60), || async {
        is_in(&get(&member.api, RESULTS).await.json).then_some(())
    })
    .await;
    let sql = format!("SELECT count(*) AS n FROM readings WHERE result_id = '{id}'");
    let ask = json!({ "sql": sql, "waitMs": 10_000 });
    eventually(&format!("{when}: SQL finds it"), Duration::from_secs(60), || async {
        let answer = post(&member.api, QUERIES, &ask).await;
        (answer.json["results"]["rows"][0]["n"] == 1).then_some(())
    })
    .await;
    let to =
        |mail: &MailServer| mail.received().iter().filter(|one| one.to == [member.email.clone()]).count();
    let before = to(mail);
    expect(post(&at.client(), FORGOT, &json!({ "email": member.email })).await, 200);
    eventually(&format!("{when}: mail arrives"), Duration::from_secs(60), || async {
        (to(mail) > before).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_damaged_row_of_every_table_stops_no_task_no_start_and_no_neighbour() {
    let (web, mail, folder) = (Web::open(page).await, MailServer::plain().await, TempDir::new().unwrap());
    let allow = web.allow();
    let of_mail = mail.settings(folder.path());
    let mut settings: Vec<_> = of_mail.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings.extend([
        ("NETWORK__ALLOW", allow.as_str()),
        ("DISPATCH__ROBOTS", "false"),
        ("RETENTION__RESULTS_DAYS", "10"),
        ("RETENTION__JOBS_DAYS", "10"),
        ("RETENTION__VERSIONS_PER_URL", "2"),
        ("AUDIT__RETENTION_DAYS", "10"),
    ]);
    let mut at = Appliance::start_with(&settings).await;
    // Ids grow with time: the first row of every table is the first member's.
    let (first, other) = (at.member("first").await, at.member("other").await);
    fill(&at, &web, &first).await;
    let old = collect(&other.api, &web.url("/old")).await;
    every_task_goes_through(&at, "whole").await;

    let system = at.app().services().system().clone();
    let tables = features::ALL.iter().flat_map(|feature| feature.tables).map(|table| table.name());
    let mut damaged = Vec::new();
    for table in tables.chain(OF_THE_STORE) {
        if system.write(move |tx| damage_first(tx, table)).await.unwrap() {
            damaged.push(table);
        }
    }
    assert!(damaged.len() > 25, "{damaged:?}");
    work_goes_on(&at, &web, &mail, &other, "damaged").await;
    every_task_goes_through(&at, "damaged").await;
    // From now on everything that was there is over.
    at.clock.advance(DAY * 31);
    every_task_goes_through(&at, "over").await;
    let path = format!("/api/v1/jobs/{}", text(&old, "id"));
    eventually("the neighbour's old job goes", Duration::from_secs(60), || async {
        (get(&other.api, &path).await.status == 404).then_some(())
    })
    .await;
    // Of the first member's, too, all but what is damaged.
    let left = |tx: &SysRead<'_>| {
        let jobs = tx.readable_all(&features::jobs::JOBS, None, 100)?;
        let results = tx.readable_all(&features::extraction::RESULTS, None, 100)?;
        let jobs_of_first = jobs.rows.iter().filter(|(org, ..)| org.to_string() == first.org_id).count();
        let results_of_first =
            results.rows.iter().filter(|(org, ..)| org.to_string() == first.org_id).count();
        Ok::<_, base::Error>(((jobs_of_first, jobs.passed_over), (results_of_first, results.passed_over)))
    };
    assert_eq!(system.read(left).unwrap(), ((0, 1), (0, 1)));
    drop(system);

    at.restart().await;
    let other = Member { api: at.client().bearer(&other.key), ..other };
    ready(&at.client()).await;
    work_goes_on(&at, &web, &mail, &other, "restarted").await;
    every_task_goes_through(&at, "restarted").await;
    let metrics = get(&at.client(), "/metrics").await.text();
    let passed = metrics.lines().find_map(|line| line.strip_prefix("gleaner_store_passed_over "));
    assert!(passed.is_some_and(|count| count.parse::<f64>().unwrap() > 0.0), "{passed:?}");
    at.stop().await;
}
