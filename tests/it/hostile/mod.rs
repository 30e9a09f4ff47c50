//! Hostile input to every operation of a running appliance: a walk over the route table and the document made from it.
//!
//! Whatever comes, an answer is never a 5xx, wears the envelope of its path, carries a request id, stays short, and says
//! which field is wrong; what was refused left nothing behind. Defects of one walk are collected and reported together.

mod bodies;
mod floods;
mod hardening;
mod requests;
mod schemas;
mod sockets;
mod strangers;
mod values;

use crate::harness::{Appliance, Member, expect, get, ready};
use serde_json::Value;
use server::client::{Client, Reply};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const STRUCTURED: &str = "application/vnd.service.v1+json";
/// A refusal is a sentence or two, however long what it refuses was.
const REFUSAL_BYTES_MAX: usize = 8 << 10;
/// A server that says nothing for this long waits for more.
const RAW_WAIT: Duration = Duration::from_secs(5);
/// Characters of a place or an answer that a report shows.
const SHOWN_CHARS_MAX: usize = 300;

/// What one walk found wrong.
#[derive(Default)]
struct Findings {
    found: Vec<String>,
    looked_at: usize,
}

impl Findings {
    fn add(&mut self, place: &str, what: &str) {
        let cut = |text: &str| text.chars().take(SHOWN_CHARS_MAX).collect::<String>();
        self.found.push(format!("{}: {}", cut(place), cut(what)));
    }

    /// Looks at what holds for every answer to a request without or with `Accept:` [`STRUCTURED`].
    fn look(&mut self, place: &str, path: &str, structured: bool, reply: &Reply) {
        self.looked_at += 1;
        if let Err(what) = sound(path, structured, reply) {
            self.add(place, &format!("{what}: {} {}", reply.status, reply.text()));
        }
    }

    /// Looks at an answer that must be a refusal with this status, whose text has `part`.
    fn refused(&mut self, place: &str, path: &str, reply: &Reply, status: u16, part: &str) {
        self.look(place, path, false, reply);
        if reply.status != status || !message(reply).contains(part) {
            let what = format!("not {status} with \"{part}\": {} {}", reply.status, reply.text());
            self.add(place, &what);
        }
    }

    fn check(&mut self, holds: bool, place: &str, what: &str) {
        self.looked_at += 1;
        if !holds {
            self.add(place, what);
        }
    }

    /// Ends the walk, which must have looked at this many answers at least.
    fn report(self, looked_at_min: usize) {
        assert!(
            self.found.is_empty(),
            "{} of {} answers are wrong:\n  {}",
            self.found.len(),
            self.looked_at,
            self.found.join("\n  ")
        );
        assert!(self.looked_at >= looked_at_min, "only {} answers were looked at", self.looked_at);
    }
}

/// What a refusal says, in either envelope.
fn message(reply: &Reply) -> &str {
    let error = &reply.json["error"];
    let flat = || reply.json["message"].as_str().or(error.as_str());
    error["message"].as_str().or_else(flat).unwrap_or_default()
}

/// What every answer is held to.
fn sound(path: &str, structured: bool, reply: &Reply) -> Result<(), &'static str> {
    let id = reply.header("x-request-id");
    if id.is_empty() {
        return Err("no request id");
    }
    if reply.header("x-content-type-options") != "nosniff" {
        return Err("a browser may guess what it is");
    }
    if !["no-store", "private, no-cache"].contains(&reply.header("cache-control")) {
        return Err("others may keep it");
    }
    if !reply.header("content-security-policy").contains("frame-ancestors 'none'") {
        return Err("it may be shown inside another page");
    }
    if reply.status.as_u16() >= 500 {
        return Err("a failure of ours");
    }
    if reply.status.as_u16() < 400 {
        return Ok(());
    }
    if reply.bytes.len() > REFUSAL_BYTES_MAX {
        return Err("a refusal as long as a page");
    }
    let console = path.starts_with("/api/v1/bi/");
    let flat = reply.status == 401 || !(console || structured);
    let media = if structured && !console && !flat { STRUCTURED } else { "application/json" };
    if reply.header("content-type") != media {
        return Err("another media type than the envelope's");
    }
    let error = &reply.json["error"];
    if flat {
        let message = &reply.json["message"];
        if !error.is_string() || !(message.is_string() || message.is_null()) {
            return Err("not flat");
        }
    } else {
        let texts =
            ["code", "message", "docs_url", "request_id"].map(|name| error[name].as_str().unwrap_or(""));
        if texts.contains(&"") || texts[3] != id {
            return Err("not structured");
        }
    }
    if reply.status == 401 && reply.header("www-authenticate") != "Bearer" {
        return Err("a 401 without its scheme");
    }
    Ok(())
}

/// One operation of the document.
#[derive(Clone)]
struct Operation {
    method: String,
    path: String,
    /// As the document has it.
    spec: Value,
}

impl Operation {
    /// The path with `value` in the place of each variable.
    fn at(&self, value: &str) -> String {
        let filled = self.path.split('/').map(|part| if part.starts_with('{') { value } else { part });
        filled.collect::<Vec<_>>().join("/")
    }

    /// The path with ids of nothing that there is, and tokens that nobody was given.
    fn at_nothing(&self) -> String {
        let is_token = self.path.contains("{token}");
        self.at(&if is_token { format!("glw_{}", "A".repeat(43)) } else { uuid::Uuid::now_v7().to_string() })
    }

    fn place(&self, case: &str) -> String {
        format!("{} {} {case}", self.method, self.path)
    }

    fn has_variables(&self) -> bool {
        self.path.contains('{')
    }

    /// What its query may have.
    fn query(&self) -> impl Iterator<Item = &Value> {
        self.spec["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "query")
    }

    /// Whether it answers with a page of rows and a cursor to go on, of whatever there is.
    fn is_list(&self) -> bool {
        self.query().any(|parameter| parameter["name"] == "cursor") && !self.needs_more()
    }

    /// Whether it needs one of several parameters, of which the document can require none.
    fn needs_more(&self) -> bool {
        self.spec["operationId"] == "getExtractionHistory"
    }
}

/// The document and its operations, which are those of the route table.
fn operations() -> (Value, Vec<Operation>) {
    let routes = gleaner::app::routes();
    let document = server::openapi::document(&routes);
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, spec) in methods.as_object().unwrap() {
            operations.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                spec: spec.clone(),
            });
        }
    }
    let routed = routes.iter().map(|group| group.routes.len()).sum::<usize>();
    assert!(operations.len() > routed, "the document has every route, and its own");
    (document, operations)
}

async fn call(client: &Client, method: &str, path: &str, body: Option<(&str, Vec<u8>)>) -> Reply {
    let (media, bytes) = body.map_or((None, Vec::new()), |(media, bytes)| (Some(media), bytes));
    client.send_bytes(method.parse().unwrap(), path, media, bytes).await.expect("an answer")
}

/// Text as it may stand in a query.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Sends bytes as they are and reads until the server closes; one that waits for more is told that there is none.
pub async fn raw(address: SocketAddr, request: &[u8]) -> String {
    let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let mut answer = Vec::new();
    // A server that has heard enough closes; that is its right.
    let write = async { drop(writer.write_all(request).await) };
    let read = async {
        let mut part = vec![0; 16 << 10];
        while let Ok(Ok(1..)) = timeout(RAW_WAIT, reader.read(&mut part))
            .await
            .map(|read| read.inspect(|bytes| answer.extend_from_slice(&part[..*bytes])))
        {}
    };
    tokio::join!(write, read);
    let _ = writer.shutdown().await;
    let _ = timeout(Duration::from_secs(30), reader.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn address(appliance: &Appliance) -> SocketAddr {
    appliance.app().url().trim_start_matches("http://").parse().unwrap()
}

/// How many of everything an organization has. What is refused may stand in its audit log: that one is left out.
async fn inventory(member: &Member) -> Vec<(String, usize)> {
    let mut counts = Vec::new();
    let (_, operations) = operations();
    let lists = operations.into_iter().filter(|operation| operation.is_list() && !operation.has_variables());
    for Operation { path, .. } in lists.filter(|operation| operation.path != "/api/v1/audit-logs") {
        let page = expect(get(&member.browser, &format!("{path}?limit=200")).await, 200);
        counts.push((path, page["items"].as_array().unwrap().len()));
    }
    counts
}

/// The appliance lives, and no route has answered with a failure of ours.
async fn unhurt(appliance: &Appliance, findings: &mut Findings) {
    let client = appliance.client();
    assert_eq!(get(&client, "/healthz").await.status, 200);
    ready(&client).await;
    let metrics = get(&client, "/metrics").await.text();
    assert!(metrics.contains("gleaner_http_requests_total{"), "{metrics}");
    for line in metrics.lines().filter(|line| line.contains("status=\"5xx\"") && !line.ends_with(" 0")) {
        findings.add("metrics", line);
    }
}
