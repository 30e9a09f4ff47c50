//! Hostile text where text is accepted: kept as it is or refused by name, and never a part of a key, a query or a header.

use super::{Findings, encoded, message, unhurt};
use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, PASSWORD, ended, eventually, expect, get, post, text};
use serde_json::{Value, json};
use std::time::Duration;

/// Text that means something to some parser on the way.
const HOSTILE: &[&str] = &[
    "'; DROP TABLE urls; --",
    "\" OR \"1\"=\"1",
    "\\'; SELECT 1",
    "x' UNION SELECT secret FROM api_keys --",
    "title:shoes AND (",
    "[a TO z]",
    "{a TO *}",
    "*",
    "*:*",
    "?",
    "/.*/",
    "a~2^3",
    "\"unbalanced",
    "(((",
    "-",
    "--",
    "OR",
    "AND NOT",
    "+-",
    "_exists_:url",
    "org:01890a5d",
    "{\"$gt\":\"\"}",
    "$where: 1",
    "../../etc/passwd",
    "..\\..\\x",
    "%00%ff%0d%0a",
    "<script>alert(1)</script>",
    "{{7*7}}${7*7}#{7*7}",
    "${jndi:ldap://x/a}",
    "=cmd|'/c calc'!A1",
    "a\u{200b}b",
    "\u{feff}bom",
    "e\u{301}",
    "\u{e9}",
    "𝕳𝖔𝖘𝖙",
    "👨‍👩‍👧‍👦",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{d7ff}\u{e000}",
    "İstanbul ß ǅ",
    "ﷺ",
    "null",
    "true",
    "0",
    "1e999",
    "__proto__",
    "constructor",
    "a|b",
    "a,b",
    "a b",
    "`ls`",
    "%s%n",
    "|",
    "~",
];
/// Text with characters that a name does not take.
const CONTROLS: &[&str] =
    &["a\u{0}b", "a\nb", "a\r\nX-Evil: 1", "a\tb", "\u{1b}[31m", "\u{7f}", "\u{85}", "\u{202e}gnp.exe"];

fn hostile<'a>() -> impl Iterator<Item = &'a str> {
    HOSTILE.iter().chain(CONTROLS).copied()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_kept_or_refused() {
    let appliance = Appliance::start().await;
    let member = appliance.member("names").await;
    let mut findings = Findings::default();
    for name in hostile().chain(["", " ", "\u{2003}"]) {
        let path = "/api/v1/api-keys";
        let reply = post(&member.browser, path, &json!({ "name": name })).await;
        if name.trim().is_empty() || base::printable::has_hidden(name) {
            findings.refused(&format!("key {name:?}"), path, &reply, 400, "name: ");
        } else {
            findings.check(reply.status == 201, name, &reply.text());
            findings.check(reply.json["apiKey"]["name"] == name.trim(), name, &reply.text());
        }
    }
    for note in hostile() {
        let path = "/api/v1/plans/recharge-requests";
        let reply = post(&member.browser, path, &json!({ "credits": 1, "note": note })).await;
        let note = note.trim();
        if note.chars().any(char::is_control) {
            findings.refused(&format!("note {note:?}"), path, &reply, 400, "note: ");
            continue;
        }
        findings.check(
            reply.status == 201 && reply.json["note"].as_str().unwrap_or_default() == note,
            note,
            &reply.text(),
        );
        // So that the number of those that wait is not what refuses the next one.
        let id = text(&reply.json, "id").parse().unwrap();
        let denied = Request::RechargeDecide { id, approve: false, note: Some(note.to_owned()) };
        let denied = appliance.operator(denied).await;
        findings.check(denied["answer"].as_str().unwrap_or_default() == note, note, &denied.to_string());
    }
    let permissions = json!({ "name": "k", "permissions": hostile().collect::<Vec<_>>() });
    let reply = post(&member.browser, "/api/v1/api-keys", &permissions).await;
    findings.refused("key permissions", "/api/v1/api-keys", &reply, 400, "permissions[0]: ");
    let past = json!({ "name": "k", "expiresAt": "-009999-01-01T00:00:00Z" });
    let reply = post(&member.browser, "/api/v1/api-keys", &past).await;
    findings.refused("key expiresAt", "/api/v1/api-keys", &reply, 400, "expiresAt: ");
    accounts(&appliance, &member, &mut findings).await;
    unhurt(&appliance, &mut findings).await;
    findings.report(100);
}

async fn accounts(appliance: &Appliance, member: &Member, findings: &mut Findings) {
    let client = appliance.client();
    let path = "/api/v1/auth/register";
    let good = json!({ "email": "new@example.com", "password": PASSWORD, "name": "New" });
    let with = |field: &str, value: &str| {
        let mut body = good.clone();
        body[field] = value.into();
        body
    };
    let long = "x".repeat(100_000);
    for value in hostile().chain([long.as_str(), ""]) {
        let reply = post(&client, path, &with("email", value)).await;
        findings.refused(&format!("email {value:?}"), path, &reply, 400, "email: ");
        for (path, field) in
            [("/api/v1/auth/verify-email", "token"), ("/api/v1/auth/refresh", "refreshToken")]
        {
            let reply = post(&client, path, &json!({ field: value })).await;
            findings.look(&format!("{path} {value:?}"), path, false, &reply);
            findings.check(matches!(reply.status.as_u16(), 400 | 401), path, &reply.text());
        }
        let start = post(&client, "/api/v1/cli-auth/start", &json!({ "hostname": value })).await;
        findings.look(&format!("hostname {value:?}"), "/api/v1/cli-auth/start", false, &start);
        findings.check(matches!(start.status.as_u16(), 200 | 400), "hostname", &start.text());
        // A head of more than 64 KiB is not read at all.
        let short: String = value.chars().take(500).collect();
        for code in
            [short.as_str(), &start.json["user_code"].as_str().unwrap_or_default().replace('-', &short)]
        {
            let path = format!("/api/v1/cli-auth/info?user_code={}", encoded(code));
            let reply = get(&member.browser, &path).await;
            findings.look(&path, "/api/v1/cli-auth/info", false, &reply);
            let is_known = reply.status == 200 && reply.json["hostname"] == value.trim();
            // Who guesses too often is told to wait.
            let is_refused = matches!(reply.status.as_u16(), 400 | 404 | 429);
            findings.check(is_known || is_refused, &path, &reply.text());
            let reply = post(&client, "/api/v1/cli-auth/poll", &json!({ "device_code": code })).await;
            findings.refused(&format!("poll {code:?}"), "/api/v1/cli-auth/poll", &reply, 404, "");
        }
        let invites = "/api/v1/orgs/current/invites";
        let reply = post(&member.browser, invites, &json!({ "email": value, "role": "viewer" })).await;
        findings.refused(&format!("invite {value:?}"), invites, &reply, 400, "email: ");
        let reply = post(&member.browser, "/api/v1/invites/accept", &json!({ "token": value })).await;
        findings.look(&format!("accept {value:?}"), "/api/v1/invites/accept", false, &reply);
        findings.check(reply.status == 409, "accept", &reply.text());
        let (forgot, reset) = ("/api/v1/auth/forgot-password", "/api/v1/auth/reset-password");
        let reply = post(&client, forgot, &json!({ "email": value })).await;
        findings.refused(&format!("forgot {value:?}"), forgot, &reply, 400, "email: ");
        let reply = post(&client, reset, &json!({ "token": value, "password": PASSWORD })).await;
        findings.refused(&format!("reset {value:?}"), reset, &reply, 400, "token: ");
        let reply = post(&client, "/api/v1/auth/logout", &json!({ "refreshToken": value })).await;
        findings.check(reply.status == 200, "logout", &reply.text());
    }
    for value in CONTROLS.iter().copied().chain([long.as_str(), " "]) {
        let reply = post(&client, path, &with("name", value)).await;
        findings.refused(&format!("name {value:?}"), path, &reply, 400, "name: ");
    }
    for value in ["short", &long] {
        let reply = post(&client, path, &with("password", value)).await;
        findings.refused(&format!("password {value:?}"), path, &reply, 400, "password: ");
    }
    for (email, password) in
        [(member.email.as_str(), "\u{0}"), ("' OR 1=1 --", PASSWORD), ("a\r\nBcc: b@example.com", "x")]
    {
        let login = json!({ "email": email, "password": password });
        let reply = post(&client, "/api/v1/auth/login", &login).await;
        findings.look("login", "/api/v1/auth/login", false, &reply);
        findings.check(matches!(reply.status.as_u16(), 400 | 401), email, &reply.text());
    }
    let name = "<b>'; DROP TABLE users; --\u{200f}";
    let mut body = with("email", "odd@example.com");
    body["name"] = name.into();
    let made = expect(post(&client, path, &body).await, 201);
    findings.check(made["user"]["name"] == name, "a person's name", &made.to_string());
    let person = client.bearer(text(&made, "accessToken"));
    let org = expect(post(&person, "/api/v1/orgs", &json!({ "name": name })).await, 201);
    findings.check(org["organization"]["name"] == name, "an organization's name", &org.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tags_and_metadata_come_back_unchanged() {
    let appliance = Appliance::start().await;
    let member = appliance.member("labels").await;
    let mut findings = Findings::default();
    let metadata = |text: &str| {
        let mut deep = json!(text);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        json!({ text: text, "deep": deep, "n": [0, -0.5, 1e308, u64::MAX, i64::MIN], "": null, "__proto__": {} })
    };
    for (i, tag) in HOSTILE.iter().enumerate() {
        let url = format!("https://labels.example.com/{i}");
        let body = json!({ "urls": [{ "url": url, "tags": [tag], "metadata": metadata(tag) }] });
        let made = post(&member.api, "/api/v1/urls", &body).await;
        findings.check(made.json["created"] == 1, tag, &made.text());
    }
    for (i, tag) in HOSTILE.iter().enumerate() {
        let found = get(&member.api, &format!("/api/v1/urls?tag={}", encoded(tag))).await;
        findings.check(found.json["items"].as_array().map(Vec::len) == Some(1), tag, &found.text());
        let item = &found.json["items"][0];
        findings.check(item["url"] == format!("https://labels.example.com/{i}"), tag, &found.text());
        findings.check(item["tags"] == json!([tag]), tag, &found.text());
        findings.check(item["metadata"] == metadata(tag), tag, &found.text());
        for filter in ["q", "domain"] {
            let none = get(&member.api, &format!("/api/v1/urls?{filter}={}", encoded(tag))).await;
            findings.look(tag, "/api/v1/urls", false, &none);
            let items = none.json["items"].as_array().map_or(usize::MAX, Vec::len);
            // A part of the URLs by chance, such as `0`.
            let is_part = filter == "q" && "https://labels.example.com/0123456789".contains(tag);
            findings.check(items == 0 || is_part, &format!("{filter}={tag}"), &none.text());
        }
    }
    for tag in CONTROLS.iter().copied().chain([" ", &"x".repeat(65)]) {
        let body = json!({ "urls": [{ "url": "https://labels.example.com/bad", "tags": ["good", tag] }] });
        let reply = post(&member.api, "/api/v1/urls", &body).await;
        findings.refused(&format!("tag {tag:?}"), "/api/v1/urls", &reply, 400, "tags[1]: ");
    }
    let bad = json!({ "urls": [{ "url": "https://labels.example.com/bad", "metadata": { "x": "y".repeat(20_000) } }] });
    let reply = post(&member.api, "/api/v1/urls", &bad).await;
    findings.refused("large metadata", "/api/v1/urls", &reply, 400, "urls[0].metadata: ");
    urls(&member, &mut findings).await;
    let all = expect(get(&member.api, "/api/v1/urls?q=bad").await, 200);
    findings.check(all["items"] == json!([]), "what was refused", &all.to_string());
    unhurt(&appliance, &mut findings).await;
    findings.report(300);
}

/// URLs that must not be fetched, or are none.
async fn urls(member: &Member, findings: &mut Findings) {
    let long = format!("https://bad.example.com/{}", "x".repeat(5_000));
    let mut bad = vec![
        "file:///etc/passwd",
        "http://127.0.0.1/bad",
        "http://[::ffff:169.254.169.254]/bad",
        "http://2130706433/bad",
        "http://0x7f.1/bad",
        "gopher://bad.example.com/",
        "javascript:alert(1)",
        "data:,bad",
        "http://a:b@bad.example.com/",
        "http://bad..example.com/",
        "http://bad.example.com:0/",
        "http://[fe80::1%25eth0]/bad",
        "http://bad.example.com:99999/",
        "//bad.example.com/",
        "http://",
        "http:// bad.example.com/",
        "http://\u{0}bad/",
        &long,
    ];
    bad.extend(hostile());
    for url in bad {
        let reply = post(&member.api, "/api/v1/urls", &json!({ "urls": [url] })).await;
        findings.refused(&format!("url {url:?}"), "/api/v1/urls", &reply, 400, "urls[0]: ");
        let reply = post(&member.api, "/api/v1/jobs", &json!({ "url": url })).await;
        findings.refused(&format!("job {url:?}"), "/api/v1/jobs", &reply, 400, "url: ");
        let batch = json!({ "jobs": [{ "url": "https://labels.example.com/" }, { "url": url }] });
        let reply = post(&member.api, "/api/v1/jobs/batch", &batch).await;
        findings.refused(&format!("batch {url:?}"), "/api/v1/jobs/batch", &reply, 400, "jobs[1].url: ");
    }
    let jobs = expect(get(&member.api, "/api/v1/jobs").await, 200);
    findings.check(jobs["items"] == json!([]), "jobs that were refused", &jobs.to_string());
}

/// Site sessions take what a request can carry, and say of the rest where it stands, never what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_site_sessions_are_kept_or_refused_by_their_place() {
    let appliance = Appliance::start().await;
    let member = appliance.member("sessions").await;
    let mut findings = Findings::default();
    let path = "/api/v1/site-sessions";
    let with =
        |kind: &str, values: Value| json!({ "domain": "shop.example", "kind": kind, "values": values });
    let long = "x".repeat(900_000);
    for value in hostile().chain([long.as_str()]) {
        let is_plain = value.len() < 1_000 && value.chars().all(|c| matches!(c, ' '..='~'));
        let cookie = with("cookies", json!([{ "name": "sid", "value": value }]));
        let header = with("headers", json!({ "X-Token": value }));
        for (body, fits) in [(cookie, is_plain && !value.contains(';')), (header, is_plain)] {
            let reply = post(&member.api, path, &body).await;
            let place = format!("{} {:?}", body["kind"], value.chars().take(20).collect::<String>());
            if !fits {
                findings.refused(&place, path, &reply, 400, "values");
                continue;
            }
            findings.check(reply.status == 201, &place, &reply.text());
            let is_told = value.len() > 8 && reply.text().contains(value);
            findings.check(!is_told, &place, &reply.text());
            let made = format!("{path}/{}", reply.json["id"].as_str().unwrap_or_default());
            findings.check(
                member.api.delete(&made).await.unwrap().status == 204,
                &place,
                "it is not deleted",
            );
        }
        for body in [
            json!({ "domain": value, "kind": "cookies", "values": "a=1" }),
            with(
                "cookies",
                json!([{ "name": value, "value": "1", "domain": value, "path": value, "expires": value }]),
            ),
            with("cookies", json!({ value: [value] })),
            with("cookies", json!(format!("# Netscape HTTP Cookie File\n{value}\t{value}"))),
            with("cookies", json!(format!("[{value}"))),
            with("headers", json!({ value: value, "Host": "x" })),
            with(value, json!("a=1")),
        ] {
            let reply = post(&member.api, path, &body).await;
            let place = body.to_string().chars().take(80).collect::<String>();
            findings.look(&place, path, false, &reply);
            findings.check(matches!(reply.status.as_u16(), 201 | 400 | 413), &place, &reply.text());
            if reply.status == 201 {
                let made = format!("{path}/{}", reply.json["id"].as_str().unwrap_or_default());
                member.api.delete(&made).await.unwrap();
            }
        }
    }
    let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
    for values in [
        deep,
        json!((0..100_000).map(|n| json!({ "n": n })).collect::<Vec<_>>()),
        json!((0..50_000).map(|n| format!("a{n}=1;")).collect::<String>()),
    ] {
        let reply = post(&member.api, path, &with("cookies", values)).await;
        findings.refused("many", path, &reply, if reply.status == 413 { 413 } else { 400 }, "");
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_jobs_searches_and_statements() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>page {path}</title><p>shoes</p>")))).await;
    let appliance =
        Appliance::start_with(&[("NETWORK__ALLOW", &web.allow()), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "8")])
            .await;
    let (mine, theirs) = (appliance.member("mine").await, appliance.member("theirs").await);
    let mut findings = Findings::default();
    let job = json!({ "url": web.url("/theirs") });
    let job = expect(post(&theirs.api, "/api/v1/jobs", &job).await, 201);
    ended(&theirs.api, text(&job, "id")).await;
    jobs(&web, &mine, &mut findings).await;
    eventually("the results are indexed", Duration::from_secs(20), || async {
        let found = expect(get(&mine.api, "/api/v1/extraction/results").await, 200);
        (found["total"] == HOSTILE.len()).then_some(())
    })
    .await;
    searches(&mine, &mut findings).await;
    statements(&mine, &mut findings).await;
    unhurt(&appliance, &mut findings).await;
    findings.report(300);
}

async fn jobs(web: &Web, member: &Member, findings: &mut Findings) {
    let path = "/api/v1/jobs";
    let mut ids = Vec::new();
    for (i, text_) in HOSTILE.iter().enumerate() {
        let body = json!({
            "url": web.url(&format!("/{i}")), "tags": [text_], "externalId": text_, "metadata": { *text_: text_ },
        });
        let job = expect(post(&member.api, path, &body).await, 201);
        let again = expect(post(&member.api, path, &body).await, 200);
        findings.check(job["id"] == again["id"], text_, "the same external id made another job");
        findings.check(job["tags"] == json!([text_]), text_, &job.to_string());
        let mut other = body;
        other["priority"] = json!(1);
        findings.refused(text_, path, &post(&member.api, path, &other).await, 409, "externalId: ");
        ids.push(text(&job, "id").to_owned());
    }
    for id in &ids {
        ended(&member.api, id).await;
    }
    let headers: [(&str, &str); 7] = [
        ("a\r\nb", "c"),
        ("", "c"),
        ("a b", "c"),
        ("a", "b\r\nX-Evil: 1"),
        ("a", "\u{0}"),
        (":authority", "x"),
        ("ü", "x"),
    ];
    for (name, value) in headers {
        let body = json!({ "url": web.url("/bad"), "options": { "headers": { name: value } } });
        let reply = post(&member.api, path, &body).await;
        findings.refused(&format!("header {name:?}"), path, &reply, 400, "options.headers.");
    }
    let long = "x".repeat(200_000);
    for (field, value) in [
        ("priority", json!(10)),
        ("externalId", json!("")),
        ("externalId", json!(long)),
        ("tags", json!([0, 1, 2, 3].map(|i| format!("{i}{long}")))),
        ("options.country", json!({ "country": "D\u{0}" })),
        ("options.timeoutMs", json!({ "timeoutMs": 0 })),
        ("options.headers", json!({ "headers": { long.clone(): "x" } })),
    ] {
        let mut body = json!({ "url": web.url("/bad") });
        body[field.split('.').next().unwrap()] = value;
        let reply = post(&member.api, path, &body).await;
        findings.refused(field, path, &reply, 400, field);
    }
    let nobodys = json!({ "url": web.url("/bad"), "workflowId": "01890a5d-ac96-774b-bcce-b302099a8057" });
    findings.refused("workflowId", path, &post(&member.api, path, &nobodys).await, 404, "workflowId");
}

/// What people type, and what attackers do: always an answer, always one's own, and no operator that the page of the
/// search does not name.
async fn searches(member: &Member, findings: &mut Findings) {
    let own = HOSTILE.len();
    let long = "shoes ".repeat(5_000);
    for q in hostile().chain([
        long.as_str(),
        "title:page",
        "body:shoes",
        "_all:shoes",
        "shoes AND",
        "url:*",
        "NOT shoes",
    ]) {
        for sort in ["newest", "relevance"] {
            let path = format!("/api/v1/extraction/results?sort={sort}&limit=200&q={}", encoded(q));
            let reply = get(&member.api, &path).await;
            findings.look(&path, &path, false, &reply);
            findings.check(reply.status == 200, &path, &reply.text());
            findings.check(reply.json["total"].as_u64() <= Some(own as u64), &path, &reply.text());
            findings.check(!reply.text().contains("/theirs"), &path, "another organization's result");
        }
        let tagged = format!("/api/v1/extraction/results?tag={}", encoded(q));
        let found = expect(get(&member.api, &tagged).await, 200);
        let expected = usize::from(HOSTILE.contains(&q));
        findings.check(found["total"] == expected, &tagged, &found.to_string());
        for filter in ["domain", "tag"] {
            let other = format!("/api/v1/extraction/results?{filter}={}%20zzz", encoded(q));
            let found = expect(get(&member.api, &other).await, 200);
            findings.check(found["total"] == 0, &other, &found.to_string());
        }
    }
    for q in ["*:*", "*", "?", "/.*/", "[a TO z]", "{a TO *}"] {
        let found =
            expect(get(&member.api, &format!("/api/v1/extraction/results?q={}", encoded(q))).await, 200);
        findings.check(found["total"] == 0, q, "it matched as an operator");
    }
}

async fn statements(member: &Member, findings: &mut Findings) {
    let path = "/api/v1/bi/queries";
    let run = async |sql: &str| post(&member.api, path, &json!({ "sql": sql, "waitMs": 10_000 })).await;
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let long = format!("SELECT '{}'", "x".repeat(900_000));
    for sql in [
        "",
        " ",
        ";",
        "'",
        "\u{0}",
        "SELECT 1; DROP TABLE urls",
        "DROP TABLE urls",
        "COPY urls TO '/tmp/gleaner-hostile.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "SELECT * FROM '/etc/passwd'",
        "SET a = 1",
        "SELECT * FROM api_keys",
        "SELECT * FROM \"urls\"\"; --\"",
        "SELECT \u{202e}1",
        "EXPLAIN ANALYZE",
        &deep,
        &long,
    ] {
        let reply = run(sql).await;
        findings.look(sql, path, false, &reply);
        let is_long = sql.len() > 100_000 && matches!(reply.status.as_u16(), 200 | 202);
        let is_refused = matches!(reply.status.as_u16(), 400 | 403);
        findings.check(is_refused || is_long, sql, &reply.text());
        findings.check(!message(&reply).contains("panicked"), sql, &reply.text());
    }
    findings.check(
        !std::path::Path::new("/tmp/gleaner-hostile.csv").exists(),
        "COPY",
        "a statement wrote a file",
    );
    for (field, value) in [
        ("scopeKind", json!("'")),
        ("scopeAgentId", json!("x")),
        ("structured", json!([])),
        ("waitMs", json!(10_001)),
    ] {
        let mut body = json!({ "sql": "SELECT 1" });
        body[field] = value;
        findings.refused(field, path, &post(&member.api, path, &body).await, 400, field);
    }
    let rows = eventually("the tables have the jobs", Duration::from_secs(15), || async {
        let answer = expect(run("SELECT tags FROM jobs ORDER BY created_at, id").await, 200);
        (answer["results"]["totalRows"] == HOSTILE.len()).then_some(answer["results"]["rows"].clone())
    })
    .await;
    // Tags are JSON: an array, or its text.
    let tag = |row: &Value| match &row["tags"] {
        Value::String(text) => serde_json::from_str::<Value>(text).unwrap_or_default()[0].clone(),
        tags => tags[0].clone(),
    };
    let kept: Vec<Value> = rows.as_array().unwrap().iter().map(tag).collect();
    findings.check(json!(kept) == json!(HOSTILE), "tags in SQL", &rows.to_string());
}
