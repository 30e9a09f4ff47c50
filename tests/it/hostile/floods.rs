//! Every list, text and object of every body as large as the body may be: whatever is checked, its bound comes before the
//! work. Two of these are always on their way, as many as there are threads that answer; somebody else's requests between
//! them show whether one holds a thread. What is too much work here takes minutes and hours, not seconds: a list that is
//! compared pairwise has a hundred thousand entries.

use super::bodies::LARGE;
use super::schemas::{Schemas, put};
use super::{Findings, Operation, call, encoded, operations, unhurt};
use crate::harness::{Appliance, Member, get};
use serde_json::{Value, json};
use server::client::Client;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;

const BODY_BYTES_MAX: usize = 1 << 20;
const BODY_BYTES_MAX_LARGE: usize = 8 << 20;
/// An answer takes no longer in a build without optimization, by the time that this process had all processors for itself:
/// what else the machine does is no fault of the box's.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(25);
const HEAD_BYTES: usize = 60 << 10;
/// What stands where the flood will be.
const PLACE: &str = "@flood@";

/// A body, or a query, and what is large in it.
struct Flood {
    name: String,
    method: String,
    path: String,
    body: Option<String>,
}

/// How long this process would have taken with all processors for itself: what it has used of them, over their number.
fn worked() -> Duration {
    // Behind the name, which may have blanks: ticks in user mode and in the kernel, of which Linux shows 100 a second.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at: &usize| fields[*at].parse::<u64>().unwrap()).sum();
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Duration::from_millis(ticks * 10 / processors)
}

/// Pieces made by number, joined by commas, up to so many bytes.
fn pieces(bytes: usize, piece: impl Fn(usize) -> String) -> String {
    let mut all = String::with_capacity(bytes);
    for number in 0.. {
        let next = piece(number);
        if all.len() + next.len() + 1 > bytes {
            break;
        }
        if number > 0 {
            all.push(',');
        }
        all.push_str(&next);
    }
    all
}

/// What may stand in the place of a field, as large as may be.
fn values(schemas: &Schemas<'_>, schema: &Value, bytes: usize) -> Vec<(&'static str, String)> {
    let text = |begin: &str, unit: &str| {
        format!("\"{begin}{}\"", unit.repeat((bytes - 2 - begin.len()) / unit.len()))
    };
    let list = |piece: &dyn Fn(usize) -> String| format!("[{}]", pieces(bytes - 2, piece));
    let plain = schemas.plain(schema);
    let all_kinds = schemas.types(schema);
    let is = |kind: &str| all_kinds.is_empty() || all_kinds.contains(&kind);
    let mut all = Vec::new();
    if is("array") {
        let item = schemas.right(&plain["items"]);
        all.push(match &item {
            Value::Object(_) => ("objects", list(&|_| item.to_string())),
            _ if plain["items"]["format"] == "uuid" => ("ids", list(&|_| format!("\"{}\"", Uuid::now_v7()))),
            _ => ("different texts", list(&|number| format!("\"{number:x}\""))),
        });
        all.push(("numbers", list(&|_| "0".to_owned())));
    }
    if is("string") && plain["enum"].is_null() && plain["format"] != "uuid" {
        all.push(("a text", text("", "x")));
        all.push(("brackets", text("http://", "(é,")));
    }
    if is("object") && plain["properties"].is_null() {
        all.push(("members", format!("{{{}}}", pieces(bytes - 2, |number| format!("\"{number:x}\":\"x\"")))));
        all.push((
            "a long member",
            format!("{{\"proxies\":{}}}", text("", "x").replacen("xxxxxxxxxxxxxx", "", 1)),
        ));
    }
    all
}

fn fields(schemas: &Schemas<'_>, schema: &Value, field: &str, all: &mut Vec<(String, Value)>) {
    if !field.is_empty() {
        all.push((field.to_owned(), schema.clone()));
    }
    let plain = schemas.plain(schema);
    for (name, property) in plain["properties"].as_object().into_iter().flatten() {
        let inner = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
        fields(schemas, property, &inner, all);
    }
    if plain["items"].is_object() && !field.is_empty() {
        fields(schemas, &plain["items"], &format!("{field}[0]"), all);
    }
}

/// A right body but for one field, which takes all the room.
fn bodies(document: &Value, operation: &Operation) -> Vec<Flood> {
    let schemas = Schemas(document);
    let Some(schema) = operation.spec["requestBody"]["content"]["application/json"].get("schema") else {
        return Vec::new();
    };
    let is_large = LARGE.contains(&operation.spec["operationId"].as_str().unwrap());
    let most = if is_large { BODY_BYTES_MAX_LARGE } else { BODY_BYTES_MAX };
    let mut named = Vec::new();
    fields(&schemas, schema, "", &mut named);
    let mut all = Vec::new();
    for (field, schema) in named {
        let mut body = schemas
            .right(operation.spec["requestBody"]["content"]["application/json"].get("schema").unwrap());
        put(&mut body, &field, Some(json!(PLACE)));
        let frame = body.to_string();
        for (kind, value) in values(&schemas, &schema, most - frame.len()) {
            all.push(Flood {
                name: format!("{field}: {kind}"),
                method: operation.method.clone(),
                path: operation.at(&Uuid::now_v7().to_string()),
                body: Some(frame.replace(&format!("\"{PLACE}\""), &value)),
            });
        }
    }
    all
}

/// A query as long as a head may be: many parameters, one of them many times, and one long.
fn queries(operation: &Operation) -> Vec<Flood> {
    if operation.method != "GET" {
        return Vec::new();
    }
    let path = operation.at(&Uuid::now_v7().to_string());
    let mut all = vec![pieces(HEAD_BYTES, |number| format!("p{number:x}=1")).replace(',', "&")];
    for parameter in operation.spec["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "query" {
            let name = parameter["name"].as_str().unwrap();
            all.push(pieces(HEAD_BYTES, |_| format!("{name}=x")).replace(',', "&"));
            all.push(format!("{name}={}", encoded(&"(x*".repeat(HEAD_BYTES / 8))));
        }
    }
    let flood = |query: String| Flood {
        name: query.chars().take(40).collect(),
        method: "GET".to_owned(),
        path: format!("{path}?{query}"),
        body: None,
    };
    all.into_iter().map(flood).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_fits_into_a_body_holds_up_others() {
    let appliance = Appliance::start().await;
    let (member, neighbour) = (appliance.member("floods").await, appliance.member("neighbour").await);
    let (document, operations) = operations();
    // Nothing of these is about their bodies' values, and they would end the person who asks.
    let ends = ["deleteAccount", "deleteOrg", "deleteCurrentOrg", "leaveOrg"];
    let operations = operations
        .iter()
        .filter(|operation| !ends.contains(&operation.spec["operationId"].as_str().unwrap_or_default()));
    let floods: Vec<Flood> = operations
        .flat_map(|operation| bodies(&document, operation).into_iter().chain(queries(operation)))
        .collect();
    let (todo, findings) = (Mutex::new(floods), Mutex::new(Findings::default()));
    let over = AtomicBool::new(false);
    let hostile = async {
        tokio::join!(send_all(&member, &todo, &findings), send_all(&member, &todo, &findings));
        over.store(true, Ordering::Relaxed);
    };
    let (answers, ()) = tokio::join!(watch(&neighbour.api, &over), hostile);
    let mut findings = findings.into_inner().unwrap();
    findings.check(answers > 20, "the neighbour", &format!("{answers} answers in all this time"));
    unhurt(&appliance, &mut findings).await;
    findings.report(250);
}

async fn send_all(member: &Member, todo: &Mutex<Vec<Flood>>, findings: &Mutex<Findings>) {
    loop {
        let next = todo.lock().unwrap().pop();
        let Some(flood) = next else { return };
        let begun = worked();
        let body = flood.body.map(|body| ("application/json", body.into_bytes()));
        let reply = call(&member.browser, &flood.method, &flood.path, body).await;
        let (took, plain) = (worked() - begun, flood.path.split('?').next().unwrap_or_default());
        let place = format!("{} {plain} {}", flood.method, flood.name);
        let mut findings = findings.lock().unwrap();
        findings.look(&place, plain, false, &reply);
        findings.check(took < ANSWER_TIME_MAX, &place, &format!("took {took:?}"));
    }
}

/// Somebody else's requests, one after the other, each in time.
async fn watch(client: &Client, over: &AtomicBool) -> usize {
    let mut answers = 0;
    while !over.load(Ordering::Relaxed) {
        let begun = worked();
        let reply = get(client, "/api/v1/urls").await;
        let took = worked() - begun;
        assert!(
            reply.status == 200 && took < ANSWER_TIME_MAX,
            "a neighbour waited {took:?}: {}",
            reply.text()
        );
        answers += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answers
}
