//! Bodies: what is no JSON, JSON of another shape, one wrong field at a time, too large, of the wrong type, compressed.

use super::schemas::Schemas;
use super::{Findings, Operation, STRUCTURED, address, call, inventory, operations, raw, unhurt};
use crate::harness::{Appliance, Member, PASSWORD, expect, get, post, text};
use serde_json::{Map, Value, json};
use uuid::Uuid;

const JSON: &str = "application/json";
const LEVELS: usize = 10_000;
/// The limit of a body, and of a large one (data/docs/api.md, "Conventions").
const BODY_BYTES_MAX: usize = 1 << 20;
const BODY_BYTES_MAX_LARGE: usize = 8 << 20;
/// Operations that take large bodies.
pub(super) const LARGE: &[&str] = &["createUrls", "testXpath"];
/// Operations that need nothing of their body, so that an object without a known member is right and then meets the
/// missing id, or makes what needs nothing.
const OPTIONAL: &[&str] = &[
    "generateWorkflow",
    "runSavedQuery",
    "updateProvider",
    "updateSavedQuery",
    "updateUrl",
    "updateInput",
    "ingestUrls",
    "runInput",
    "updateOutput",
    "updateMonitor",
    "updateDashboard",
    "createAgent",
    "testStorage",
    "testOutput",
    "redeliver",
];

/// What no operation takes, by a name for the report.
fn never_json() -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<(&str, Vec<u8>)> = [
        "",
        " \n",
        "{",
        "}",
        "nonsense",
        "NaN",
        "{\"a\":NaN}",
        "-Infinity",
        "01",
        "1.",
        "'a'",
        "{a:1}",
        "{\"a\":1,}",
        "[1,]",
        "{} {}",
        "\"\\ud800\"",
        "\"\\x\"",
        "\u{feff}{}",
        "\u{0}",
        "{\"\u{0}\":1}",
        "\"a\nb\"",
        "/* */ {}",
        "name=a&b=c",
        "<a/>",
        "--boundary",
    ]
    .into_iter()
    .map(|text| (text, text.as_bytes().to_vec()))
    .collect();
    all.extend([
        ("invalid UTF-8", b"{\"name\":\"\xff\xfe\"}".to_vec()),
        ("overlong UTF-8", b"{\"name\":\"\xc0\xaf\"}".to_vec()),
        ("UTF-16", b"\xff\xfe{\0}\0".to_vec()),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0C\xbf\xa6\xa3\x02\0\0\0".to_vec()),
        ("deep arrays", [vec![b'['; LEVELS], vec![b']'; LEVELS]].concat()),
        ("deep objects", format!("{}1{}", "{\"a\":".repeat(LEVELS), "}".repeat(LEVELS)).into_bytes()),
        ("open arrays", vec![b'['; 500_000]),
    ]);
    all
}

/// JSON that is no object, or an object that lacks what is required.
fn other_shapes() -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<(&str, Vec<u8>)> = [
        "null",
        "true",
        "[]",
        "[{}]",
        "[[]]",
        "[\"text\"]",
        "0",
        "-1.5",
        "1e400",
        "\"text\"",
        "{}",
        "{\"a\":{}}",
    ]
    .into_iter()
    .map(|text| (text, text.as_bytes().to_vec()))
    .collect();
    all.extend([
        ("a long number", vec![b'9'; 5_000]),
        ("a long text", format!("\"{}\"", "x".repeat(900_000)).into_bytes()),
        ("a long name", format!("{{\"{}\":1}}", "x".repeat(900_000)).into_bytes()),
        ("many members", {
            let members: Vec<_> = (0..50_000).map(|i| format!("\"a{i}\":{i}")).collect();
            format!("{{{}}}", members.join(",")).into_bytes()
        }),
        ("a lone surrogate", b"{\"name\":\"\\ud800\",\"token\":\"\\udfff\"}".to_vec()),
        ("lists in a list", json!([[["x"]], {"a": [null]}]).to_string().into_bytes()),
    ]);
    all
}

fn is_optional(operation: &Operation) -> bool {
    OPTIONAL.contains(&operation.spec["operationId"].as_str().unwrap())
}

/// The schema of an operation's body.
fn body_schema(operation: &Operation) -> Option<&Value> {
    operation.spec["requestBody"]["content"][JSON].get("schema")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_wrong_are_refused_and_leave_nothing() {
    let appliance = Appliance::start().await;
    let member = appliance.member("bodies").await;
    let login = json!({ "email": member.email, "password": PASSWORD });
    let login = expect(post(&appliance.client(), "/api/v1/auth/login", &login).await, 200);
    let token = text(&login, "accessToken").to_owned();
    // Without a provider nothing can be ranked, so that what needs nothing of its body makes nothing either.
    let providers = expect(get(&member.browser, "/api/v1/providers").await, 200);
    let own = format!("/api/v1/providers/{}", text(&providers["items"][0], "id"));
    assert_eq!(call(&member.browser, "DELETE", &own, None).await.status, 204);
    let before = inventory(&member).await;
    let (document, operations) = operations();
    let mut findings = Findings::default();
    // What ends every other session ends the token that asks, too.
    let leaver = appliance.member("leaver").await;
    for operation in operations.iter().filter(|operation| operation.method != "GET") {
        if operation.path == "/api/v1/account/sessions" {
            shapes(&leaver, operation, &mut findings).await;
            continue;
        }
        shapes(&member, operation, &mut findings).await;
        if let Some(schema) = body_schema(operation) {
            fields(&member, operation, &Schemas(&document), schema, &mut findings).await;
            media(&member, operation, &mut findings).await;
            sizes(&appliance, &member, &token, operation, &mut findings).await;
        }
    }
    // A conversation is begun by an object with nothing in it.
    let begun = expect(get(&member.browser, "/api/v1/agents?limit=200").await, 200);
    for agent in begun["items"].as_array().unwrap() {
        let path = format!("/api/v1/agents/{}", text(agent, "id"));
        assert_eq!(call(&member.browser, "DELETE", &path, None).await.status, 204);
    }
    assert_eq!(inventory(&member).await, before, "what was refused left something behind");
    unhurt(&appliance, &mut findings).await;
    findings.report(1_500);
}

async fn shapes(member: &Member, operation: &Operation, findings: &mut Findings) {
    let path = operation.at_nothing();
    let takes_body = body_schema(operation).is_some();
    for (name, body) in never_json().into_iter().chain(other_shapes()) {
        let place = operation.place(&format!("body {name:?}"));
        let is_object =
            body.trim_ascii().is_empty() || serde_json::from_slice::<Map<String, Value>>(&body).is_ok();
        let reply = call(&member.browser, &operation.method, &path, Some((JSON, body))).await;
        let is_right = is_optional(operation) && (reply.status == 404 || (is_object && reply.status == 201));
        if takes_body && !is_right {
            findings.refused(&place, &path, &reply, 400, "");
        } else {
            findings.look(&place, &path, false, &reply);
        }
    }
    let client = member.browser.header("accept", STRUCTURED);
    for body in [&b"nonsense"[..], b"{}"] {
        let reply = call(&client, &operation.method, &path, Some((JSON, body.to_vec()))).await;
        findings.look(&operation.place("structured"), &path, true, &reply);
    }
}

/// One field wrong at a time: the refusal names it.
async fn fields(
    member: &Member,
    operation: &Operation,
    schemas: &Schemas<'_>,
    schema: &Value,
    findings: &mut Findings,
) {
    let path = operation.at_nothing();
    let wrong = schemas.wrong(schema);
    assert!(wrong.len() > 3, "{}: its schema has no fields", operation.path);
    for case in wrong {
        // Entries are judged one by one, once it is known whose they are, and nobody has this token.
        if case.field.starts_with("urls[") && operation.spec["operationId"] == "ingestUrls" {
            continue;
        }
        let text = case.body.to_string();
        let place = operation.place(&format!("{} in {text}", case.field));
        let reply = call(&member.browser, &operation.method, &path, Some((JSON, text.into_bytes()))).await;
        if is_drawn(&case.field) {
            // A drawing is judged as a whole, and the least of its faults may not be the first that is told; what is told
            // of each is for the tests of graphs.
            findings.look(&place, &path, false, &reply);
            continue;
        }
        findings.refused(&place, &path, &reply, 400, &format!("{}: ", case.field));
    }
}

/// Whether a field is a part of a graph that only the reading of the whole graph can judge.
fn is_drawn(field: &str) -> bool {
    ["dag.nodes[0].type", "dag.nodes[0].config", "dag.edges[0].type"]
        .iter()
        .any(|part| field.starts_with(part))
}

async fn media(member: &Member, operation: &Operation, findings: &mut Findings) {
    let path = operation.at_nothing();
    let body = b"{\"name\":7}".to_vec();
    for media in
        ["text/plain", "application/xml", "application/x-www-form-urlencoded", "json", "", ";", "*/*"]
    {
        let reply = call(&member.browser, &operation.method, &path, Some((media, body.clone()))).await;
        findings.refused(&operation.place(&format!("as {media:?}")), &path, &reply, 415, "");
    }
    for media in ["application/json; charset=utf-16", "APPLICATION/JSON;", "application/merge-patch+json"] {
        let reply = call(&member.browser, &operation.method, &path, Some((media, body.clone()))).await;
        let status = if is_optional(operation) && reply.status == 404 { 404 } else { 400 };
        findings.refused(&operation.place(&format!("as {media:?}")), &path, &reply, status, "");
    }
    for coding in ["gzip", "br", "zstd", "deflate", "x", "gzip, gzip", "identity, gzip"] {
        let client = member.browser.header("content-encoding", coding);
        let reply = call(&client, &operation.method, &path, Some((JSON, body.clone()))).await;
        findings.refused(&operation.place(&format!("coded {coding}")), &path, &reply, 415, "");
    }
}

/// A caller who still writes a large body sees why it was refused, and not a broken connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_a_large_body_sees_the_refusal() {
    let appliance = Appliance::start().await;
    let (client, id) = (appliance.client(), Uuid::now_v7());
    let mut findings = Findings::default();
    for (path, status) in [
        ("/api/v1/jobs".to_owned(), 401),
        (format!("/api/v1/jobs/{id}/cancel"), 401),
        ("/api/v1/nothing".to_owned(), 404),
        ("/api/v1/openapi.json".to_owned(), 405),
    ] {
        for _ in 0..5 {
            let body = vec![b' '; 12 << 20];
            let reply = call(&client, "POST", &path, Some((JSON, body))).await;
            findings.refused(&path, &path, &reply, status, "");
        }
    }
    unhurt(&appliance, &mut findings).await;
    findings.report(20);
}

/// One byte too many, with a length and in chunks; and one less, which is read.
async fn sizes(
    appliance: &Appliance,
    member: &Member,
    token: &str,
    operation: &Operation,
    findings: &mut Findings,
) {
    let path = operation.at_nothing();
    let is_large = LARGE.contains(&operation.spec["operationId"].as_str().unwrap());
    let most = if is_large { BODY_BYTES_MAX_LARGE } else { BODY_BYTES_MAX };
    let body = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2)).into_bytes();
    let too_large = call(&member.browser, &operation.method, &path, Some((JSON, body(most + 1)))).await;
    findings.refused(&operation.place("too large"), &path, &too_large, 413, "larger than");
    let fits = call(&member.browser, &operation.method, &path, Some((JSON, body(most)))).await;
    findings.refused(&operation.place("as large as may be"), &path, &fits, 400, "");
    let mut request = format!(
        "{} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n",
        operation.method,
        token,
        most + 1
    )
    .into_bytes();
    request.extend(body(most + 1));
    request.extend_from_slice(b"\r\n0\r\n\r\n");
    let answer = raw(address(appliance), &request).await;
    let place = operation.place("too large in chunks");
    findings.check(answer.starts_with("HTTP/1.1 413") && answer.contains("x-request-id"), &place, &answer);
}
