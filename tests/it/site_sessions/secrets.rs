//! The box as it is shipped, at its most talkative: what lets somebody in is in no answer, no table, no log and no file.

use super::{COOKIE, OWN, SESSIONS, Site, TOKEN, keep};
use crate::harness::process::Process;
use crate::harness::{Member, ended, eventually, expect, get, member, post, text};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

const WAIT: Duration = Duration::from_secs(60);

/// Uses sessions in every way, well and badly.
async fn use_all(site: &Site, member: &Member) -> Vec<String> {
    let api = &member.api;
    let cookies = json!([
        { "name": "sid", "value": COOKIE, "path": "/" },
        { "name": "late", "value": COOKIE, "expires": "2100-01-01T00:00:00Z" },
    ]);
    let cookies = json!({ "domain": "shop.test", "name": "Shop", "kind": "cookies", "values": cookies });
    let headers = json!({ "domain": "shop.test", "kind": "headers", "values": format!("Authorization: Bearer {TOKEN}") });
    let mut ids = Vec::new();
    for session in [cookies, headers] {
        let id = keep(api, &session).await;
        for path in ["/orders", "/here", "/api", "/away"] {
            let headers = json!({ "X-Own": OWN, "Cookie": format!("own={OWN}") });
            let options = json!({ "siteSessionId": id, "headers": headers });
            let new = json!({ "url": site.url("www.shop.test", path), "options": options, "externalId": format!("{id}{path}") });
            let made = expect(post(api, "/api/v1/jobs", &new).await, 201);
            ids.push(text(&ended(api, text(&made, "id")).await, "id").to_owned());
        }
        // What is wrong is told without it.
        for wrong in [
            json!([{ "name": "a", "value": format!("{COOKIE}\n{TOKEN}") }]),
            json!(format!("{TOKEN}\t{COOKIE}\n")),
        ] {
            let body = json!({ "domain": "shop.test", "kind": "cookies", "values": wrong });
            let reply = post(api, SESSIONS, &body).await;
            assert_eq!(reply.status, 400);
            assert!(!reply.text().contains(TOKEN) && !reply.text().contains(COOKIE), "{}", reply.text());
        }
        for headers in
            [json!(format!("Cookie: {OWN}")), json!([OWN]), json!({ "X-Own": [OWN] }), json!({ "Host": OWN })]
        {
            let body = json!({ "url": site.url("shop.test", "/"), "options": { "headers": headers } });
            let reply = post(api, "/api/v1/jobs", &body).await;
            assert_eq!(reply.status, 400, "{}", reply.text());
            assert!(!reply.text().contains(OWN), "{}", reply.text());
        }
        site.is_open.store(false, Ordering::Relaxed);
        let options = json!({ "siteSessionId": id, "headers": { "X-Own": OWN } });
        let new = json!({ "jobs": [{ "url": site.url("shop.test", "/orders"), "options": options }] });
        let made = expect(post(api, "/api/v1/jobs/batch", &new).await, 201);
        ids.push(text(&ended(api, text(&made["jobs"][0], "id")).await, "id").to_owned());
        site.is_open.store(true, Ordering::Relaxed);
        let schedule = json!({ "name": "s", "cron": "@yearly", "options": options });
        expect(post(api, "/api/v1/schedules", &schedule).await, 201);
    }
    let visits = site.visits.lock();
    assert!(
        visits.iter().any(|visit| visit.cookie.contains(COOKIE))
            && visits.iter().any(|visit| visit.own == OWN)
    );
    assert!(visits.iter().any(|visit| visit.authorization.contains(TOKEN)), "else the test shows nothing");
    ids
}

/// Every GET, with the jobs' ids where one is wanted.
async fn every_answer(member: &Member, jobs: &[String]) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for group in gleaner::app::routes() {
        for route in
            group.routes.iter().filter(|route| route.method() == "GET" && route.path().starts_with("/api/"))
        {
            match route.variables().next() {
                None => paths.push(format!("{}?limit=200", route.path())),
                Some(variable) => {
                    let variable = format!("{{{variable}}}");
                    paths.extend(jobs.iter().map(|id| route.path().replace(&variable, id)));
                }
            }
        }
    }
    let mut answers = Vec::new();
    for client in [&member.api, &member.browser] {
        for path in &paths {
            // The stream goes on for ever; the list of the same is asked for by who accepts JSON.
            let reply = get(&client.header("accept", "application/json"), path).await;
            answers.push((path.clone(), reply.text()));
        }
    }
    answers
}

/// Every row of every table of the console.
async fn every_row(member: &Member) -> Vec<(String, String)> {
    let tables = expect(get(&member.api, "/api/v1/bi/tables").await, 200);
    let items = tables["items"].as_array().or(tables["tables"].as_array()).unwrap().clone();
    let mut answers = Vec::new();
    for name in items.iter().map(|table| text(table, "name")) {
        let asked = json!({ "sql": format!("SELECT * FROM \"{name}\""), "waitMs": 10_000 });
        let answer = post(&member.api, "/api/v1/bi/queries", &asked).await;
        assert_eq!(answer.json["status"], "success", "{name}: {}", answer.text());
        answers.push((format!("SQL {name}"), answer.text()));
    }
    assert!(answers.len() > 5, "{answers:?}");
    answers
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false if path.is_file() => found.push(path),
            false => {}
        }
    }
}

fn has(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|part| part == what.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lets_somebody_in_is_nowhere_to_be_read() {
    let site = Site::open().await;
    let dir = TempDir::new().unwrap();
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let settings = site.settings();
    let mut settings: Vec<(&str, &str)> =
        settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    settings.push(("LOG__LEVEL", "trace"));
    let stderr = Stdio::from(File::create(&log).unwrap());
    let process = Process::start_logging_to(&data, &settings, stderr);
    let member = member(&process.client(), &process.socket(), "secrets").await;
    let jobs = use_all(&site, &member).await;
    let count = json!({ "sql": "SELECT count(*) AS n FROM jobs", "waitMs": 10_000 });
    eventually("SQL has every job", WAIT, || async {
        let answer = post(&member.api, "/api/v1/bi/queries", &count).await;
        (answer.json["results"]["rows"][0]["n"].as_u64() == Some(jobs.len() as u64)).then_some(())
    })
    .await;
    let mut answers = every_answer(&member, &jobs).await;
    answers.extend(every_row(&member).await);
    let export =
        expect(member.browser.send(http::Method::POST, "/api/v1/account/export", None).await.unwrap(), 202);
    let link = eventually("the personal data is gathered", WAIT, || async {
        let path = format!("/api/v1/account/exports/{}", text(&export, "id"));
        let made = expect(get(&member.browser, &path).await, 200);
        (made["status"] == "success").then(|| text(&made, "downloadUrl").to_owned())
    })
    .await;
    let link = link.strip_prefix(&process.url).unwrap().to_owned();
    answers.push(("an export".to_owned(), get(&process.client(), &link).await.text()));
    let shown = answers.iter().map(|(_, text)| text.as_str()).collect::<String>();
    assert!(
        shown.contains("siteSessionId")
            && shown.contains("\"sid\"")
            && shown.contains("site_session.created")
    );
    for secret in [COOKIE, TOKEN, OWN] {
        for (path, text) in &answers {
            assert!(!text.contains(secret), "{path} shows {secret}: {text}");
        }
    }
    assert_eq!(process.terminate(), Some(0));
    let said = std::fs::read(&log).unwrap();
    assert!(has(&said, "TRACE") || has(&said, "DEBUG"), "nothing was logged: the test shows nothing");
    for secret in [COOKIE, TOKEN, OWN] {
        let lines = said.split(|byte| *byte == b'\n').filter(|line| has(line, secret));
        let lines: Vec<_> = lines.map(String::from_utf8_lossy).take(3).collect();
        assert!(lines.is_empty(), "the log shows {secret}: {lines:?}");
    }
    let mut kept = Vec::new();
    files(&data, &mut kept);
    let mut bytes = 0;
    for path in kept {
        let content = std::fs::read(&path).unwrap();
        bytes += content.len();
        for secret in [COOKIE, TOKEN] {
            assert!(!has(&content, secret), "{} holds {secret}", path.display());
        }
    }
    assert!(bytes > 1 << 16, "{bytes} bytes: nothing was kept");
    // A box that is started over its files opens what it has sealed.
    let process = Process::start(&data, &settings[..settings.len() - 1]);
    let listed: Value = expect(get(&member_at(&process, &member), SESSIONS).await, 200);
    let id = text(&listed["items"][0], "id").to_owned();
    let new = json!({ "url": site.url("shop.test", "/orders"), "options": { "siteSessionId": id } });
    let made = expect(post(&member_at(&process, &member), "/api/v1/jobs", &new).await, 201);
    assert_eq!(ended(&member_at(&process, &member), text(&made, "id")).await["status"], "succeeded");
}

fn member_at(process: &Process, member: &Member) -> server::client::Client {
    process.client().bearer(&member.key)
}
