//! Outputs through HTTP: createOutput, listOutputs, getOutput, updateOutput, deleteOutput, testOutput, listDeliveries,
//! redeliver, recoverDeliveries, readFeed. Endpoints are on loopback, and verify what they are sent by themselves.

mod chats;
mod delta;
mod edges;
mod feeds;
mod files;
mod happened;
mod kills;
mod letters;
mod postgres;
mod postgres_away;
mod receiver;
mod retries;
mod s3;
mod sftp;
mod sshd;

use crate::audit::patch;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, Request, ended, eventually, expect, get, join, post, refused, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
pub use receiver::{Message, Receiver, Said};
use ring::hmac;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};
use server::client::Client;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub const OUTPUTS: &str = "/api/v1/outputs";
const PATIENCE: Duration = Duration::from_secs(30);

/// A box that may send to these places.
async fn boxed(places: &[std::net::SocketAddr]) -> Appliance {
    let rules: Vec<_> = places.iter().map(|place| format!("127.0.0.1/32:{}", place.port())).collect();
    let allow = json!(rules).to_string();
    Appliance::start_with(&[("NETWORK__ALLOW", &allow), ("DISPATCH__PER_DOMAIN_CONCURRENCY", "32")]).await
}

async fn output(api: &Client, url: &str, more: Value) -> Value {
    let mut new = json!({ "kind": "webhook", "url": url, "events": ["job.queued"] });
    new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    expect(post(api, OUTPUTS, &new).await, 201)
}

/// Causes this many events `job.queued`; gives the ids of their jobs.
async fn cause(api: &Client, count: usize) -> Vec<String> {
    let jobs: Vec<_> = (0..count).map(|n| json!({ "url": format!("http://nobody.invalid/{n}") })).collect();
    let batch = expect(post(api, "/api/v1/jobs/batch", &json!({ "jobs": jobs })).await, 201);
    batch["jobs"].as_array().unwrap().iter().map(|job| text(job, "id").to_owned()).collect()
}

async fn received(receiver: &Receiver, count: usize) -> Vec<Message> {
    eventually(&format!("{count} messages come"), PATIENCE, || async {
        (receiver.count() >= count).then(|| receiver.received())
    })
    .await
}

async fn deliveries(api: &Client, output: &Value) -> Vec<Value> {
    let path = format!("{OUTPUTS}/{}/deliveries?limit=200", text(output, "id"));
    expect(get(api, &path).await, 200)["items"].as_array().unwrap().clone()
}

async fn shown(api: &Client, output: &Value) -> Value {
    expect(get(api, &format!("{OUTPUTS}/{}", text(output, "id"))).await, 200)
}

/// Whether one of the message's signatures is that of the key: as the specification says it, and not as the box does.
fn is_signed(message: &Message, key: &str) -> bool {
    let (id, at) = (message.header("webhook-id"), message.header("webhook-timestamp"));
    let mut content = format!("{id}.{at}.").into_bytes();
    content.extend_from_slice(&message.body);
    message.header("webhook-signature").split(' ').any(|part| match part.split_once(',') {
        Some(("v1", signature)) => key.strip_prefix("whsec_").is_some_and(|secret| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(secret).unwrap());
            hmac::verify(&secret, &content, &STANDARD.decode(signature).unwrap()).is_ok()
        }),
        Some(("v1a", signature)) => key.strip_prefix("whpk_").is_some_and(|public| {
            let public = UnparsedPublicKey::new(&ED25519, STANDARD.decode(public).unwrap());
            public.verify(&content, &STANDARD.decode(signature).unwrap()).is_ok()
        }),
        _ => false,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_made_changed_listed_and_removed() {
    let at = Appliance::start().await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let api = &ada.api;
    let new = json!({
        "kind": "webhook", "url": "https://Hooks.example/in?x=1", "events": ["result.*", "job.failed", "job.failed"],
        "tags": ["shop"], "domain": "www.Shop.example", "pageTypes": ["product"],
        "condition": "drop(price) > 10% and stock > 0", "signatures": ["v1", "v1a"],
    });
    let made = expect(post(api, OUTPUTS, &new).await, 201);
    for (field, value) in [
        ("name", json!("hooks.example")),
        ("url", json!("https://hooks.example/in?x=1")),
        ("events", json!(["result.*", "job.failed"])),
        ("domain", json!("shop.example")),
        ("state", json!("ok")),
        ("pending", json!(0)),
        ("delivered", json!(0)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    let secret = text_of(&made["secrets"][0]);
    assert!(secret.starts_with("whsec_") && text_of(&made["secrets"][1]).starts_with("whpk_"));
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    let read = expect(get(api, &one).await, 200);
    assert_eq!(read["secrets"], Value::Null, "they are shown once");
    assert!(
        !read.to_string().contains(&secret) && secret.ends_with(text_of(&read["keys"][0]["ending"]).as_str())
    );
    assert_eq!(read["keys"][1]["publicKey"], made["secrets"][1]);
    let changed = json!({ "clear": ["domain", "condition"], "name": "Shop", "tags": [], "isEnabled": false });
    let changed = expect(patch(api, &one, &changed).await, 200);
    assert_eq!(
        (&changed["domain"], &changed["condition"], &changed["state"]),
        (&Value::Null, &Value::Null, &json!("disabled"))
    );
    let same = expect(patch(api, &one, &json!({ "name": "Shop" })).await, 200);
    assert_eq!(same["updatedAt"], changed["updatedAt"], "nothing is changed");
    for (wrong, field) in [
        (json!({ "events": [] }), "events"),
        (json!({ "events": ["job.exploded"] }), "events"),
        (json!({ "events": ["nothing.*"] }), "events"),
        (json!({ "condition": "price <" }), "at character 8"),
        (json!({ "condition": "price < 1 and fell(price)" }), "at character 15"),
        (json!({ "clear": ["condition"], "condition": "sale" }), "clear"),
        (json!({ "domain": "no domain" }), "domain"),
        (json!({ "name": " " }), "name"),
    ] {
        refused(&patch(api, &one, &wrong).await, 400, "Validation failed", field);
    }
    for (wrong, sentence, field) in [
        (json!({ "signatures": [] }), "Validation failed", "signatures"),
        (json!({ "signatures": ["v1", "v1"] }), "Validation failed", "signatures"),
        (json!({ "secret": "whsec_AAAA" }), "Validation failed", "secret"),
        (json!({ "secret": secret, "signatures": ["v1a"] }), "Validation failed", "secret"),
        (json!({ "url": "http://127.0.0.1:1/" }), "Invalid URL", "url"),
        (json!({ "url": "http://169.254.169.254/" }), "Invalid URL", "url"),
        (json!({ "url": "ftp://a.example/" }), "Invalid URL", "url"),
        (json!({ "url": at.app().url() }), "Invalid URL", "url"),
    ] {
        let mut body = json!({ "kind": "webhook", "url": "https://a.example/", "events": ["job.*"] });
        body.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        refused(&post(api, OUTPUTS, &body).await, 400, sentence, field);
    }
    // Somebody who may not change outputs, and somebody else's organization.
    let (_, viewer) = join_as(&at, &ada, "viewer").await;
    assert_eq!(patch(&viewer, &one, &json!({ "name": "mine" })).await.status, 403);
    for path in [one.clone(), format!("{one}/deliveries")] {
        assert_eq!(get(&eve.api, &path).await.status, 404);
    }
    assert_eq!(expect(get(&eve.api, OUTPUTS).await, 200)["items"], json!([]));
    assert_eq!(
        expect(get(api, &format!("{OUTPUTS}?isEnabled=false")).await, 200)["items"].as_array().unwrap().len(),
        1
    );
    assert_eq!(api.delete(&one).await.unwrap().status, 204);
    assert_eq!(get(api, &one).await.status, 404);
    at.stop().await;
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn join_as(at: &Appliance, owner: &Member, role: &str) -> (String, Client) {
    let joined = join(at, &owner.browser, "bob", role).await;
    (joined.id, joined.browser)
}

/// A product whose price falls by ten at each visit, and its box.
async fn shop(receiver: &Receiver) -> (Web, Appliance) {
    let web = falling_prices().await;
    let at = boxed(&[web.address, receiver.address]).await;
    reads_prices(&at).await;
    (web, at)
}

async fn falling_prices() -> Web {
    let visits = AtomicU32::new(0);
    Web::open(move |path| {
        if path == "/robots.txt" {
            return None;
        }
        let price = 200 - 10 * visits.fetch_add(1, Ordering::Relaxed);
        Some(Answer::html(format!("<title>{path}</title><b id=price>{price}</b>")))
    })
    .await
}

async fn reads_prices(at: &Appliance) {
    let schemas = json!({ "schemas": [{
        "pageType": "product",
        "attributes": [{ "name": "price", "type": "number", "xpaths": ["//b[@id='price']"] }],
    }] });
    at.operator(Request::SchemaImport { json: schemas.to_string(), domain: Some("127.0.0.1".to_owned()) })
        .await;
}

async fn visit(member: &Member, url: &str) -> Value {
    let job = json!({ "url": url, "pageType": "product", "tags": ["shop"] });
    let job = expect(post(&member.api, "/api/v1/jobs", &job).await, 201);
    ended(&member.api, text(&job, "id")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_that_falls_far_enough_is_told_signed_and_once() {
    let receiver = Receiver::open(|_| Said::status(204)).await;
    let (web, at) = shop(&receiver).await;
    let ada = at.member("ada").await;
    let terms = json!({
        "events": ["result.*"], "condition": "price < 185 and drop(price) >= 5%", "pageTypes": ["product"],
        "signatures": ["v1", "v1a"], "tags": ["shop"],
    });
    let made = output(&ada.api, &receiver.url("/hook"), terms).await;
    for _ in 0..4 {
        assert_eq!(visit(&ada, &web.url("/shoe")).await["status"], "succeeded");
    }
    // 200, 190, 180, 170: the last two are under 185.
    let messages = received(&receiver, 2).await;
    let message = messages[0].json();
    assert_eq!((&message["type"], &message["sequence"]), (&json!("result.changed"), &json!(1)));
    assert_eq!(message["data"]["changes"], json!([{ "name": "price", "from": 190, "to": 180 }]));
    assert_eq!(message["data"]["values"], json!({ "price": 180 }));
    assert!(messages.iter().all(|message| message.body.len() < 20_000));
    let link = text(&message, "link");
    let linked = expect(get(&ada.api, &link[link.find("/api/").unwrap()..]).await, 200);
    assert_eq!((&linked["id"], &linked["values"]["price"]), (&message["subject"]["id"], &json!(180)));
    let secrets: Vec<_> = made["secrets"].as_array().unwrap().iter().map(text_of).collect();
    for message in &messages {
        assert!(secrets.iter().all(|key| is_signed(message, key)), "{message:?}");
        assert!(
            message.header("webhook-id").starts_with("msg_") && !message.header("webhook-id").contains('.')
        );
        assert_eq!(message.header("content-type"), "application/json");
    }
    // While the key is replaced the old one signs too.
    let one = format!("{OUTPUTS}/{}", text(&made, "id"));
    let rotated = expect(patch(&ada.api, &one, &json!({ "rotateSecret": true })).await, 200);
    assert_eq!(
        (rotated["keys"].as_array().unwrap().len(), rotated["secrets"].as_array().unwrap().len()),
        (4, 2)
    );
    visit(&ada, &web.url("/shoe")).await;
    let third = received(&receiver, 3).await.remove(2);
    let new: Vec<_> = rotated["secrets"].as_array().unwrap().iter().map(text_of).collect();
    assert!(secrets.iter().chain(&new).all(|key| is_signed(&third, key)), "{third:?}");
    verified_by_the_package(&messages[0], &secrets[0]);
    // Afterwards it signs no more.
    at.clock.advance(Duration::from_secs(25 * 3_600));
    visit(&ada, &web.url("/shoe")).await;
    let fourth = received(&receiver, 4).await.remove(3);
    assert!(
        new.iter().all(|key| is_signed(&fourth, key)) && !secrets.iter().any(|key| is_signed(&fourth, key))
    );
    // Which of what has happened would have been let through.
    let dry = json!({ "dryRun": true, "condition": "price < 175" });
    let dry = expect(post(&ada.api, &format!("{one}/test"), &dry).await, 200);
    assert_eq!(dry["dryRun"]["delivered"], 3, "{dry}");
    let verdicts: Vec<_> =
        dry["dryRun"]["events"].as_array().unwrap().iter().map(|event| text(event, "verdict")).collect();
    assert_eq!((count(&verdicts, "no"), count(&verdicts, "unknown")), (3, 0), "{verdicts:?}");
    let dry = json!({ "dryRun": true, "condition": "rating > 4" });
    let dry = expect(post(&ada.api, &format!("{one}/test"), &dry).await, 200);
    assert_eq!(
        (&dry["dryRun"]["delivered"], text(&dry["dryRun"]["events"][1], "verdict")),
        (&json!(0), "unknown")
    );
    refused(
        &post(&ada.api, &format!("{one}/test"), &json!({ "dryRun": true, "condition": "price <" })).await,
        400,
        "Validation failed",
        "at character 8",
    );
    // The same of an output that is not saved (previewOutput), and is not saved by that.
    let terms = json!({ "events": ["result.changed"], "domain": "127.0.0.1", "condition": "price < 175" });
    let preview = format!("{OUTPUTS}/preview");
    let asked = expect(post(&ada.api, &preview, &terms).await, 200);
    assert_eq!(asked["delivered"], 3, "{asked}");
    let (eve, before) = (at.member("eve").await, expect(get(&ada.api, OUTPUTS).await, 200));
    assert_eq!(expect(post(&eve.api, &preview, &terms).await, 200)["events"], json!([]));
    assert_eq!(before["items"].as_array().unwrap().len(), 1);
    for (terms, named) in [
        (json!({ "events": ["result.changed"], "condition": "price <" }), "condition: "),
        (json!({ "events": ["no.such"] }), "events"),
        (json!({ "events": [] }), "events: "),
    ] {
        refused(&post(&ada.api, &preview, &terms).await, 400, "Validation failed", named);
    }
    let sent = expect(post(&ada.api, &format!("{one}/test"), &json!({})).await, 200);
    assert_eq!((&sent["sent"]["isDelivered"], &sent["sent"]["status"]), (&json!(true), &json!(204)));
    assert_eq!(received(&receiver, 5).await[4].json()["type"], "output.test");
    in_the_console(&ada, &made).await;
    at.stop().await;
}

fn count(all: &[&str], wanted: &str) -> usize {
    all.iter().filter(|one| **one == wanted).count()
}

async fn in_the_console(member: &Member, made: &Value) {
    let rows = eventually("SQL has the deliveries", PATIENCE, || async {
        let sql = "SELECT o.name, o.host, d.event_kind, d.state, d.last_status FROM deliveries d JOIN outputs o \
                   ON o.id = d.output_id ORDER BY d.sequence";
        let asked = json!({ "sql": sql, "waitMs": 10_000 });
        let answer = post(&member.api, "/api/v1/bi/queries", &asked).await;
        // 202 of a busy machine, 503 of tables that are behind: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        let results = &answer.json["results"];
        (results["totalRows"] == 4).then(|| results.to_string())
    })
    .await;
    assert!(rows.contains("result.changed") && rows.contains("delivered") && rows.contains("204"), "{rows}");
    let all = json!({ "sql": "SELECT * FROM outputs", "waitMs": 10_000 });
    let all = expect(post(&member.api, "/api/v1/bi/queries", &all).await, 200).to_string();
    assert!(!all.contains("whsec") && !all.contains("/hook") && all.contains(text(made, "id")), "{all}");
}

/// The package that the specification's authors publish accepts the message, and refuses it with a byte changed.
fn verified_by_the_package(message: &Message, secret: &str) {
    let Some(tools) = from_pypi(&["standardwebhooks==1.0.0"]) else { return };
    let script = "
import os
from standardwebhooks import Webhook
hook = Webhook(os.environ['SECRET'])
headers = {name: os.environ[name.replace('-', '_').upper()] for name in ('webhook-id', 'webhook-timestamp', 'webhook-signature')}
print(hook.verify(os.environ['BODY'], headers)['type'])
try:
    hook.verify(os.environ['BODY'] + ' ', headers)
except Exception as error:
    print(type(error).__name__)
";
    let mut python = Command::new("python3");
    python.args(["-c", script]).env("PYTHONPATH", tools.path()).env("SECRET", secret);
    python.env("BODY", String::from_utf8(message.body.to_vec()).unwrap());
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        python.env(name.replace('-', "_").to_uppercase(), message.header(name));
    }
    let said = python.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).split_whitespace().collect::<Vec<_>>(),
        ["result.changed", "WebhookVerificationError"],
        "{said:?}"
    );
}

/// A folder with packages of PyPI; none, with a message, where there is no way there.
fn from_pypi(packages: &[&str]) -> Option<TempDir> {
    let tools = TempDir::new().unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
        .arg(tools.path());
    pip.args(packages).stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = pip.status().is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: {} cannot be had from PyPI", packages.join(", "));
    }
    is_there.then_some(tools)
}
