//! Paths, queries, methods and credentials that no honest client sends.

use super::schemas::Schemas;
use super::{Findings, Operation, STRUCTURED, address, call, encoded, inventory, operations, raw, unhurt};
use crate::harness::{Appliance, Member, expect, get, post, text};
use serde_json::{Value, json};
use server::client::Client;
use std::collections::BTreeSet;
use uuid::Uuid;

const METHODS: &[&str] =
    &["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "BREW", "get", "X-!#$%&'*+"];

/// What stands in the place of a path's variable, percent-encoded.
fn odd_segments() -> Vec<String> {
    let mut all: Vec<String> = [
        "0",
        "-1",
        "null",
        "undefined",
        "*",
        ".",
        "..",
        "...",
        "%2e",
        "%2e%2e",
        "%2f",
        "..%2f..%2fetc%2fpasswd",
        "%5c",
        "%00",
        "a%00b",
        "%0d%0aX-Evil:%201",
        "%",
        "%2",
        "%zz",
        "%c0%af",
        "%ff",
        "%ed%a0%80",
        "%f0%9f%92%a9",
        "%20",
        "a+b",
        "a;b=c",
        "a,b",
        "'",
        "%22",
        "%27%20OR%201=1--",
        "%3Cscript%3E",
        "$ref",
        "{id}",
        "%7Bid%7D",
        "~",
        "@",
        ":",
        "01890a5dac96774bbcceb302099a8057",
        "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057",
        "01890A5D-AC96-774B-BCCE-B302099A8057",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "99999999999999999999",
    ]
    .map(str::to_owned)
    .to_vec();
    all.extend([
        "x".repeat(20_000),
        "%41".repeat(5_000),
        "a/".repeat(2_000),
        "/".to_owned(),
        "a//b".to_owned(),
    ]);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_paths_and_methods_find_nothing() {
    let appliance = Appliance::start().await;
    let member = appliance.member("paths").await;
    let before = inventory(&member).await;
    let (document, operations) = operations();
    let mut findings = Findings::default();
    for operation in operations.iter().filter(|operation| operation.has_variables()) {
        segments(&member, operation, &mut findings).await;
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        let known: BTreeSet<_> =
            methods.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        other_methods(&member, path, &known, &mut findings).await;
        paths_around(&member, path, &mut findings).await;
    }
    // A percent-encoded letter is the letter, in the path and for its envelope.
    for path in ["/api/v1/b%69/queries?limit=0", "/%61pi/v1/bi/queries?limit=0"] {
        let reply = get(&member.browser, path).await;
        findings.check(reply.json["error"]["code"] == "invalid_input", path, &reply.text());
    }
    assert_eq!(inventory(&member).await, before);
    unhurt(&appliance, &mut findings).await;
    findings.report(1_000);
}

async fn segments(member: &Member, operation: &Operation, findings: &mut Findings) {
    // The console says of a name that no table can have that it is none.
    let statuses: &[u16] = if operation.path.ends_with("tables/{name}") { &[400, 404] } else { &[404] };
    for segment in odd_segments() {
        let path = operation.at(&segment);
        let place = operation.place(&format!("with {segment:?}"));
        let reply = call(&member.browser, &operation.method, &path, None).await;
        findings.look(&place, &path, false, &reply);
        let status = reply.status.as_u16();
        // `a//b` and its like may stand where another path begins, whose methods are others. Much is a host name.
        let is_fine = Uuid::parse_str(&segment).is_ok() || operation.path.ends_with("{domain}");
        let lacks_body = status == 400 && operation.spec["requestBody"].is_object() && is_fine;
        let expected = statuses.contains(&status) || lacks_body || (segment.contains('/') && status == 405);
        findings.check(expected, &place, &format!("{status} {}", reply.text()));
    }
    let path = operation.at("%00");
    let reply = call(&member.browser.header("accept", STRUCTURED), &operation.method, &path, None).await;
    findings.look(&operation.place("structured"), &path, true, &reply);
}

async fn other_methods(member: &Member, path: &str, known: &BTreeSet<String>, findings: &mut Findings) {
    let allowed = |list: &str| {
        let mut names: BTreeSet<String> = list.split(", ").map(str::to_owned).collect();
        let options = names.remove("OPTIONS");
        options && names.remove("HEAD") == known.contains("GET") && names == *known
    };
    let filled = path.replace(['{', '}'], "");
    for method in METHODS.iter().filter(|method| !known.contains(**method)) {
        let place = format!("{method} {path}");
        let reply = call(&member.browser, method, &filled, Some(("application/json", b"{".to_vec()))).await;
        findings.refused(&place, path, &reply, 405, "");
        findings.check(allowed(reply.header("allow")), &place, reply.header("allow"));
    }
    let options = call(&member.browser, "OPTIONS", &filled, None).await;
    findings.check(options.status == 204 && allowed(options.header("allow")), path, "OPTIONS");
    let head = call(&member.browser, "HEAD", &filled, None).await;
    findings.check(head.bytes.is_empty() && head.status.as_u16() < 500, path, "HEAD");
}

/// Paths that look like this one and are not it.
async fn paths_around(member: &Member, path: &str, findings: &mut Findings) {
    let filled = path.replace(['{', '}'], "");
    let around = [
        format!("{filled}/"),
        format!("{filled}//"),
        format!("/{filled}"),
        filled.replacen("/api", "//api", 1),
        filled.replacen("/v1", "/v1/.", 1),
        filled.replacen("/v1", "/../api/v1", 1),
        filled.replacen("/v1", "/V1", 1),
        format!("{filled}%00"),
        format!("{filled}%2f"),
        format!("{filled};a=b"),
        format!("{filled}.json"),
    ];
    for other in around {
        let reply = get(&member.browser, &other).await;
        findings.look(&format!("GET {other}"), &other, false, &reply);
        // The last segment of some paths is a variable, whose value it then is; a table's name is then refused as one.
        let expected = matches!(reply.status.as_u16(), 404 | 405)
            || (path.ends_with('}') && reply.status == 400)
            || (path.ends_with("/{pageType}") && reply.status == 404);
        findings.check(expected, &format!("GET {other}"), &format!("{} {}", reply.status, reply.text()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_query_parameters_are_named() {
    let appliance = Appliance::start().await;
    let member = appliance.member("queries").await;
    let query = json!({ "sql": "SELECT 1 AS one", "waitMs": 10_000 });
    let query = expect(post(&member.api, "/api/v1/bi/queries", &query).await, 200);
    let smart = expect(post(&member.api, "/api/v1/workflows/smart", &json!({})).await, 201);
    // Something that is there: a list of a thing that is not says so, whatever else is wrong.
    expect(post(&member.api, "/api/v1/urls", &json!({ "urls": ["https://a.example/"] })).await, 200);
    let url = expect(get(&member.api, "/api/v1/urls").await, 200)["items"][0].clone();
    let input = expect(post(&member.api, "/api/v1/inputs", &json!({ "kind": "webhook" })).await, 201);
    let output = json!({ "kind": "webhook", "url": "https://a.example/", "events": ["job.*"] });
    let output = expect(post(&member.api, "/api/v1/outputs", &output).await, 201);
    let agent = expect(post(&member.api, "/api/v1/agents", &json!({})).await, 201);
    let feed = json!({ "kind": "feed", "events": ["job.*"] });
    let feed = expect(post(&member.api, "/api/v1/outputs", &feed).await, 201);
    let token = feed["secrets"][0].as_str().and_then(|address| address.rsplit('/').next()).unwrap();
    let at = |operation: &Operation| {
        operation.at(match operation.path.split('/').nth(3) {
            Some("workflows") => text(&smart, "workflowId"),
            Some("urls") => text(&url, "id"),
            Some("inputs") => text(&input, "id"),
            Some("outputs") => text(&output, "id"),
            Some("agents") => text(&agent, "id"),
            Some("feeds") => token,
            _ => text(&query, "jobId"),
        })
    };
    let (document, operations) = operations();
    let mut findings = Findings::default();
    let schemas = Schemas(&document);
    for operation in &operations {
        for parameter in operation.query() {
            let path = at(operation);
            bad_values(&member, operation, &path, parameter, &schemas, &mut findings).await;
        }
        if operation.method == "GET" {
            junk(&member, operation, &at(operation), &mut findings).await;
        }
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(500);
}

/// Values that a parameter of this schema cannot have.
fn bad_for(name: &str, schema: &Value) -> Vec<String> {
    let words: &[&str] = match (name, schema["type"].as_str(), schema["format"].as_str()) {
        ("cursor", ..) => {
            &["x", "AAAA", "%", "\u{0}", "ünïcode", "=====", "null", "../..", "AAAAAAAAAAAAAAAA"]
        }
        ("limit" | "pageSize", ..) => &["0", "-1", "ten", "1e3", "1.5", "0x10", "٣", "NaN", "1 2", "--1"],
        (_, Some("integer"), _) => {
            &["-1", "ten", "1e3", "1.5", "0x10", "٣", "NaN", "99999999999999999999999"]
        }
        (_, Some("number"), _) => &["x", "NaN", "inf", "-inf", "1e999", "1,5", "-1", "2", "infinity", "nan"],
        (_, Some("boolean"), _) => &["maybe", "2", "TRUE", "yes", "null", "\u{0}"],
        (_, Some("string"), Some("date-time")) => &[
            "yesterday",
            "2026-13-01",
            "2026-02-30",
            "99999999999999",
            "2026-01-01T25:00:00Z",
            "-1",
            "2026",
            "now()",
            "2026-01-01T00:00:00",
            "+999999-01-01T00:00:00Z",
            "\u{0}",
            "2026-01-01T00:00:00+99:00",
        ],
        (_, Some("string"), Some("uuid")) => &["x", "0", "null", "' OR 1=1", "\u{0}", "*"],
        // Also a name that an organization could have given one of its own.
        ("pageType", ..) => &["x", "PRODUCT", "null", "0", "\u{0}", "a,b", "real_estate"],
        (_, Some("string"), _) if schema.get("enum").is_some() => {
            &["x", "PRODUCT", "null", "0", "\u{0}", "a,b"]
        }
        _ => &[],
    };
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if !all.is_empty() {
        all.push("9".repeat(20_000) + "x");
    }
    all
}

async fn bad_values(
    member: &Member,
    operation: &Operation,
    path: &str,
    parameter: &Value,
    schemas: &Schemas<'_>,
    findings: &mut Findings,
) {
    let name = text(parameter, "name");
    let schema = schemas.plain(&parameter["schema"]);
    let named = format!("{name}: ");
    for value in bad_for(name, &schema) {
        let place = operation.place(&format!("?{name}={value:?}"));
        let at = format!("{path}?{name}={}", encoded(&value));
        let reply = call(&member.browser, &operation.method, &at, None).await;
        findings.refused(&place, path, &reply, 400, &named);
    }
    if schema["type"] == "array" {
        return;
    }
    let fitting = match schemas.right(&parameter["schema"]) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let at = format!("{path}?{name}={fitting}&{name}={fitting}");
    let reply = call(&member.browser, &operation.method, &at, None).await;
    findings.refused(&operation.place(&format!("?{name} twice")), path, &reply, 400, &named);
    if matches!(name, "limit" | "pageSize") {
        for large in ["201", "18446744073709551616", "9".repeat(200).as_str()] {
            let reply =
                call(&member.browser, &operation.method, &format!("{path}?{name}={large}"), None).await;
            let is_clamped =
                reply.status == 200 || (name == "pageSize" && large.len() > 3 && reply.status == 400);
            let is_clamped = is_clamped
                || (operation.needs_more()
                    && reply.status == 400
                    && reply.text().contains("url: is missing"));
            findings.check(is_clamped, &operation.place(&format!("?{name}={large}")), &reply.text());
        }
    }
}

/// Query strings that are none: ignored, as unknown parameters are.
async fn junk(member: &Member, operation: &Operation, path: &str, findings: &mut Findings) {
    let long = format!("a={}", "x".repeat(30_000));
    let many = "a&".repeat(15_000);
    for query in [
        "", "&&&", "=", "=x", "%", "%zz=%ff", "a=%00", "?", "???", "a[b]=c", "limit", "limit=", "cursor=",
        &long, &many,
    ] {
        let reply = call(&member.browser, &operation.method, &format!("{path}?{query}"), None).await;
        let place = operation.place(&format!("?{query}"));
        findings.look(&place, path, false, &reply);
        let lacks_required = operation.query().any(|one| one["required"] == true);
        let is_name =
            (path.contains("/bi/tables/") || lacks_required || operation.needs_more()) && reply.status == 400;
        findings.check(is_name || matches!(reply.status.as_u16(), 200 | 202 | 404), &place, &reply.text());
    }
    let page =
        call(&member.browser, &operation.method, &format!("{path}?page=18446744073709551615"), None).await;
    findings.look(&operation.place("?page at the end of numbers"), path, false, &page);
}

/// Cursors of other lists, other filters, and other organizations: refused, or a place in one's own rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_leads_nowhere_but_on() {
    let appliance = Appliance::start().await;
    let (mine, theirs) = (appliance.member("mine").await, appliance.member("theirs").await);
    for (member, name) in [(&mine, "mine"), (&theirs, "theirs")] {
        let urls: Vec<_> = (0..6)
            .map(|i| {
                json!({ "url": format!("https://{name}{}.example.com/{i}", i % 2), "tags": ["a", "m", "z", format!("t{i}")] })
            })
            .collect();
        expect(post(&member.api, "/api/v1/urls", &json!({ "urls": urls })).await, 200);
        for i in 0..3 {
            let invite = json!({ "email": format!("{i}@{name}.example.com"), "role": "viewer" });
            expect(post(&member.api, "/api/v1/orgs/current/invites", &invite).await, 201);
            expect(post(&member.api, "/api/v1/api-keys", &json!({ "name": format!("k{i}") })).await, 201);
        }
    }
    let mut findings = Findings::default();
    let (document, operations) = operations();
    let mut cursors = BTreeSet::new();
    let mut lists = Vec::new();
    for member in [&theirs, &mine] {
        let smart = expect(post(&member.api, "/api/v1/workflows/smart", &json!({})).await, 201);
        let url = expect(get(&member.api, "/api/v1/urls?limit=1").await, 200)["items"][0].clone();
        let input = expect(post(&member.api, "/api/v1/inputs", &json!({ "kind": "webhook" })).await, 201);
        let output = json!({ "kind": "webhook", "url": "https://a.example/", "events": ["job.*"] });
        let output = expect(post(&member.api, "/api/v1/outputs", &output).await, 201);
        let agent = expect(post(&member.api, "/api/v1/agents", &json!({})).await, 201);
        let of_member = |operation: &Operation| {
            let id = match operation.path.split('/').nth(3) {
                Some("urls") => text(&url, "id"),
                Some("inputs") => text(&input, "id"),
                Some("outputs") => text(&output, "id"),
                Some("agents") => text(&agent, "id"),
                _ => text(&smart, "workflowId"),
            };
            narrowed(operation, id, &Schemas(&document))
        };
        lists = operations.iter().filter(|operation| operation.is_list()).flat_map(of_member).collect();
        for list in &lists {
            let page = expect(get(&member.browser, &format!("{list}limit=1")).await, 200);
            cursors.extend(page["nextCursor"].as_str().map(str::to_owned));
        }
    }
    assert!(cursors.len() >= 12, "only {} lists have a second page", cursors.len());
    for list in &lists {
        for cursor in &cursors {
            let path = format!("{list}limit=200&cursor={cursor}");
            let reply = get(&mine.browser, &path).await;
            findings.look(&path, &path, false, &reply);
            findings.check(matches!(reply.status.as_u16(), 200 | 400), &path, &reply.text());
            findings.check(!reply.text().contains("theirs"), &path, &reply.text());
            let damaged = format!("{list}limit=200&cursor=A{cursor}");
            findings.refused(&damaged, &damaged, &get(&mine.browser, &damaged).await, 400, "cursor: ");
        }
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(5_000);
}

/// The list as it is, and narrowed by each of its parameters, ready for another one. `id` stands for its variables.
fn narrowed(operation: &Operation, id: &str, schemas: &Schemas<'_>) -> Vec<String> {
    let path = operation.at(id);
    let mut all = vec![format!("{path}?")];
    for parameter in operation.query() {
        let name = text(parameter, "name");
        let schema = schemas.plain(&parameter["schema"]);
        let values = match (name, schema["enum"].as_array()) {
            ("limit" | "cursor", _) => Vec::new(),
            // What there are rows of.
            ("tag", _) => ["a", "m", "z"].map(str::to_owned).to_vec(),
            ("domain", _) => vec!["example.com".to_owned()],
            ("q", _) => vec!["example".to_owned()],
            // Texts of which few are allowed.
            ("actor", _) => vec![Uuid::now_v7().to_string()],
            ("resourceType", _) => vec!["url".to_owned()],
            // A period begins before its end, which is now unless it is given.
            ("from", _) => vec!["2024-02-03T04:05:06Z".to_owned()],
            ("timezone", _) => vec!["Europe/Berlin".to_owned()],
            ("sort", Some(names)) if names.contains(&json!("relevance")) => vec!["relevance&q=a".to_owned()],
            ("pageType", _) => ["product", "bestseller"].map(str::to_owned).to_vec(),
            (_, Some(names)) => [names.first(), names.last()]
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => vec![match schemas.right(&parameter["schema"]) {
                Value::String(text) => text,
                // Repeatable; once is enough.
                Value::Array(values) => values[0].as_str().unwrap_or("text").to_owned(),
                other => other.to_string(),
            }],
        };
        all.extend(values.into_iter().map(|value| format!("{path}?{name}={value}&")));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_credentials_are_a_flat_401() {
    let appliance = Appliance::start().await;
    let member = appliance.member("bearers").await;
    let before = inventory(&member).await;
    let (_, operations) = operations();
    let mut findings = Findings::default();
    let (key, long) = (&member.key, "x".repeat(40_000));
    let lines: Vec<Vec<u8>> = [
        "Authorization:",
        "Authorization: ",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Bearer  \t",
        "Authorization: Basic YTpi",
        "Authorization: Digest x",
        "Authorization: Negotiate",
        "Authorization: Token x",
        "Authorization: Bearer null",
        "Authorization: Bearer undefined",
        "Authorization: Bearer ..",
        "Authorization: Bearer a.b.c",
        "Authorization: Bearer eyJhbGciOiJub25lIn0.e30.",
        "Authorization: Bearer glk_",
        "Authorization: Bearer ' OR 1=1 --",
        "Authorization: Bearer ü",
    ]
    .iter()
    .map(|line| line.as_bytes().to_vec())
    .chain([
        b"Authorization: Bearer \xff\xfe".to_vec(),
        format!("Authorization: Bearer {long}").into_bytes(),
        format!("Authorization: Bearer {key}x").into_bytes(),
        format!("Authorization: Bearer {key} {key}").into_bytes(),
        format!("Authorization: Bearer {key}, Bearer {key}").into_bytes(),
        format!("Authorization: {key}").into_bytes(),
        format!("Authorization: Bearer{key}").into_bytes(),
        format!("Authorization: Bearer\u{a0}{key}").into_bytes(),
        format!("Authorization: Bearer {key}\r\nAuthorization: Bearer {key}").into_bytes(),
        format!("Authorization: Bearer {key}\r\nAuthorization: Basic YTpi").into_bytes(),
        format!("Authorization: Basic YTpi\r\nAuthorization: Bearer {key}").into_bytes(),
        format!("Proxy-Authorization: Bearer {key}").into_bytes(),
        format!("X-Api-Key: {key}").into_bytes(),
        format!("Cookie: token={key}").into_bytes(),
    ])
    .collect();
    for operation in operations.iter().filter(|operation| operation.spec["security"] != json!([])) {
        for line in &lines {
            let path = operation.at(&Uuid::now_v7().to_string());
            let head = format!("{} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", operation.method);
            let tail = b"\r\nAccept: application/vnd.service.v1+json\r\nContent-Length: 0\r\n\r\n";
            let answer = raw(address(&appliance), &[head.as_bytes(), line, tail].concat()).await;
            let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            let flat = body["error"].is_string();
            let holds = answer.starts_with("HTTP/1.1 401") && flat && answer.contains("x-request-id");
            findings.check(holds, &operation.place(&String::from_utf8_lossy(line)), &answer);
        }
    }
    assert_eq!(inventory(&member).await, before);
    unhurt(&appliance, &mut findings).await;
    findings.report(500);
}

/// Headers that handlers and the trunk read, with what nobody means by them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_headers_change_nothing() {
    let appliance = Appliance::start().await;
    let member = appliance.member("headers").await;
    let (_, operations) = operations();
    let mut findings = Findings::default();
    let long = "x,".repeat(10_000);
    let odd = |client: &Client| -> Vec<Client> {
        let values =
            ["", "*", "\"", "W/", "\"\",\"", "a;q=", ";;q=NaN", "0", "-1", "bytes=0-1,2-", ",,,", &long];
        let names = [
            "if-none-match",
            "if-match",
            "accept",
            "accept-encoding",
            "range",
            "x-request-id",
            "x-forwarded-for",
            "forwarded",
            "origin",
            "referer",
            "cookie",
            "x-http-method-override",
            "idempotency-key",
            "if-modified-since",
        ];
        names.iter().flat_map(|name| values.map(|value| client.header(name, value))).collect()
    };
    for operation in operations.iter().filter(|operation| operation.method == "GET") {
        let path = operation.at(&Uuid::now_v7().to_string());
        for (number, client) in odd(&member.browser).into_iter().enumerate() {
            let reply = call(&client, "GET", &path, None).await;
            let place = operation.place(&format!("header {number}"));
            findings.look(&place, &path, false, &reply);
            let status = reply.status.as_u16();
            findings.check(
                matches!(status, 200 | 304 | 400 | 404),
                &place,
                &format!("{status} {}", reply.text()),
            );
            findings.check(reply.header("x-request-id").len() <= 128, &place, "a long request id came back");
        }
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(1_000);
}
