//! Inputs through HTTP: createInput, listInputs, getInput, updateInput, deleteInput, ingestUrls.

use crate::audit::patch;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, expect, get, post, refused, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};
use server::client::{Client, Reply};
use std::time::{SystemTime, UNIX_EPOCH};

const INPUTS: &str = "/api/v1/inputs";
const SECRET: [u8; 32] = [7; 32];

/// The path of a webhook, from the answer that made its token.
fn ingest_path(made: &Value) -> String {
    let address = text(made, "ingestUrl");
    address[address.find("/api/").unwrap()..].to_owned()
}

async fn webhook(api: &Client, more: Value) -> (String, String) {
    let mut new = json!({ "kind": "webhook" });
    new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = expect(post(api, INPUTS, &new).await, 201);
    (text(&made, "id").to_owned(), ingest_path(&made))
}

fn secs_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The message as its sender signs it.
async fn signed(client: &Client, path: &str, id: &str, at: u64, body: &Value) -> Reply {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
    let tag = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(tag));
    let client = client.header("webhook-id", id).header("webhook-timestamp", &at.to_string());
    post(&client.header("webhook-signature", &signature), path, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_are_made_changed_listed_and_removed() {
    let at = Appliance::start().await;
    let (member, other) = (at.member("reader").await, at.member("curious").await);
    let api = &member.api;
    let sitemap = json!({
        "kind": "sitemap", "url": "https://Shop.example/sitemap.xml", "include": ["*/products/*"],
        "tags": ["shop", "shop"], "cron": "0  6 * * *", "timezone": "europe/berlin", "submitJobs": true,
    });
    let made = expect(post(api, INPUTS, &sitemap).await, 201);
    for (field, value) in [
        ("name", json!("shop.example")),
        ("url", json!("https://shop.example/sitemap.xml")),
        ("tags", json!(["shop"])),
        ("cron", json!("0 6 * * *")),
        ("timezone", json!("Europe/Berlin")),
        ("isEnabled", json!(true)),
        ("anyDomain", json!(false)),
        ("ingestUrl", Value::Null),
        ("lastRunAt", Value::Null),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert!(made["nextRunAt"].is_string(), "{made}");
    let one = format!("{INPUTS}/{}", text(&made, "id"));
    let read = get(api, &one).await;
    let tag = read.header("etag").to_owned();
    assert_eq!(expect(read, 200), made);
    let changed = json!({ "clear": ["cron"], "isEnabled": false, "name": "Shop", "anyDomain": true });
    let changed = expect(patch(api, &one, &changed).await, 200);
    assert_eq!((&changed["cron"], &changed["nextRunAt"]), (&Value::Null, &Value::Null));
    assert_eq!((&changed["name"], &changed["include"]), (&json!("Shop"), &made["include"]));
    let late = patch(&api.header("if-match", &tag), &one, &json!({ "name": "late" })).await;
    assert_eq!(late.status, 412, "{}", late.text());
    for (wrong, field) in [
        (json!({ "cron": "every day" }), "cron"),
        (json!({ "timezone": "Mars" }), "timezone"),
        (json!({ "signingSecret": "whsec_AAAA" }), "signingSecret"),
        (json!({ "signingSecret": format!("whsec_{}", STANDARD.encode(SECRET)) }), "signingSecret"),
        (json!({ "rotateToken": true }), "rotateToken"),
        (json!({ "include": [""] }), "include[0]"),
        (json!({ "tags": [" "] }), "tags[0]"),
        (json!({ "clear": ["cron"], "cron": "@daily" }), "clear"),
        (json!({ "workflowId": "0198c1d2-6b3e-7c4a-9f10-2a4b6c8d0e1f" }), "workflowId"),
    ] {
        refused(&patch(api, &one, &wrong).await, 400, "Validation failed", field);
    }
    for (wrong, sentence, field) in [
        (json!({ "kind": "sitemap" }), "Validation failed", "url"),
        (json!({ "kind": "webhook", "url": "https://a.example/" }), "Validation failed", "url"),
        (
            json!({ "kind": "feed", "url": "https://a.example/", "anyDomain": true }),
            "Validation failed",
            "anyDomain",
        ),
        (json!({ "kind": "csv", "url": "http://127.0.0.1/" }), "Invalid URL", "url"),
        (json!({ "kind": "csv", "url": "ftp://a.example/" }), "Invalid URL", "url"),
    ] {
        refused(&post(api, INPUTS, &wrong).await, 400, sentence, field);
    }
    let listed = expect(get(api, &format!("{INPUTS}?kind=sitemap&isEnabled=false")).await, 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(expect(get(&other.api, INPUTS).await, 200)["items"], json!([]));
    assert_eq!(get(&other.api, &one).await.status, 404);
    assert_eq!(other.api.delete(&one).await.unwrap().status, 404);
    assert_eq!(api.delete(&one).await.unwrap().status, 204);
    assert_eq!(get(api, &one).await.status, 404);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_takes_in_what_it_is_sent() {
    let web = Web::open(|path| Some(Answer::html(format!("<title>{path}</title>")))).await;
    let at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = at.member("sender").await;
    let api = &member.api;
    let (id, path) = webhook(api, json!({ "tags": ["sent"], "submitJobs": true })).await;
    let shown = expect(get(api, &format!("{INPUTS}/{id}")).await, 200);
    assert_eq!(shown["ingestUrl"], Value::Null, "a token is shown once");
    let prefix = text(&shown, "tokenPrefix");
    assert!(path.contains(&format!("/webhooks/{prefix}")) && prefix.len() == 8, "{prefix}");
    let stranger = at.client();
    let (a, b) = (web.url("/a"), web.url("/b"));
    let body = json!({ "urls": [a, { "url": b, "tags": ["own"] }, a, "nonsense"] });
    let taken = expect(post(&stranger, &path, &body).await, 202);
    assert_eq!(
        (&taken["accepted"], &taken["duplicates"], &taken["jobsCreated"]),
        (&json!(2), &json!(1), &json!(2)),
        "{taken}"
    );
    assert_eq!((&taken["invalid"][0]["index"], &taken["invalid"][0]["url"]), (&json!(3), &json!("nonsense")));
    let batch = expect(get(api, &format!("/api/v1/batches/{}", text(&taken, "batchId"))).await, 200);
    assert_eq!((&batch["source"], &batch["jobs"]), (&json!("input"), &json!(2)), "{batch}");
    let urls = expect(get(api, "/api/v1/urls?tag=sent").await, 200);
    assert_eq!(urls["items"].as_array().unwrap().len(), 2);
    let again = expect(post(&stranger, &path, &json!({ "url": a })).await, 202);
    assert_eq!((&again["accepted"], &again["duplicates"]), (&json!(0), &json!(1)));
    assert_eq!(again["jobsCreated"], 1, "whoever sends a URL again wants it read again");
    let events = expect(get(api, "/api/v1/events?kind=input.ingested").await, 200);
    assert_eq!(
        events["items"][1]["data"],
        json!({ "accepted": 2, "duplicates": 1, "invalid": 1, "jobsCreated": 2 })
    );
    for (wrong, part) in [
        (json!({}), "urls: is missing"),
        (json!({ "urls": [] }), "urls: must have 1 to 10000"),
        (json!({ "url": a, "urls": [a] }), "url: give either"),
        (json!({ "urls": ["no", "neither"] }), "urls[0]: "),
    ] {
        let reply = post(&stranger, &path, &wrong).await;
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains(part), "{part}: {}", reply.text());
    }
    // A token that there is not is a path that there is not, whatever it looks like.
    let other = at.member("curious").await;
    let gone = webhook(&other.api, json!({})).await;
    assert_eq!(other.api.delete(&format!("{INPUTS}/{}", gone.0)).await.unwrap().status, 204);
    let unknown = ["/api/v1/webhooks/x/ingest", &gone.1, &format!("{}x{}", &path[..30], &path[31..])];
    let mut answers = Vec::new();
    for path in unknown {
        let reply = post(&stranger, path, &json!({ "url": a })).await;
        let id = reply.header("x-request-id").to_owned();
        answers.push((reply.status, reply.text().replace(&id, "")));
    }
    assert!(answers.iter().all(|answer| answer.0 == 404 && *answer == answers[0]), "{answers:?}");
    // Another token ends the first, and a webhook that is off takes nothing.
    let one = format!("{INPUTS}/{id}");
    let rotated = expect(patch(api, &one, &json!({ "rotateToken": true })).await, 200);
    assert_eq!(post(&stranger, &path, &json!({ "url": a })).await.status, 404);
    let path = ingest_path(&rotated);
    expect(post(&stranger, &path, &json!({ "url": a })).await, 202);
    expect(patch(api, &one, &json!({ "isEnabled": false })).await, 200);
    assert_eq!(post(&stranger, &path, &json!({ "url": a })).await.status, 409);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_webhook_takes_each_message_once() {
    let at = Appliance::start().await;
    let member = at.member("signer").await;
    let stranger = at.client();
    let secret = format!("whsec_{}", STANDARD.encode(SECRET));
    let (id, path) = webhook(&member.api, json!({ "signingSecret": secret })).await;
    let shown = get(&member.api, &format!("{INPUTS}/{id}")).await;
    assert!(!shown.text().contains("whsec") && shown.json["isSigned"] == true, "{}", shown.text());
    let body = json!({ "urls": ["https://example.com/1", "https://example.com/2"] });
    let now = secs_now();
    assert_eq!(post(&stranger, &path, &body).await.status, 401, "unsigned");
    assert_eq!(signed(&stranger, &path, "m1", now - 301, &body).await.status, 401, "too old");
    assert_eq!(signed(&stranger, &path, "m1", now + 302, &body).await.status, 401, "from the future");
    let forged = stranger.header("webhook-id", "m1").header("webhook-timestamp", &now.to_string());
    let forged = forged.header("webhook-signature", &format!("v1,{}", STANDARD.encode([1; 32])));
    assert_eq!(post(&forged, &path, &body).await.status, 401, "forged");
    assert_eq!(expect(signed(&stranger, &path, "m1", now, &body).await, 202)["accepted"], 2);
    let replayed = expect(signed(&stranger, &path, "m1", now, &body).await, 202);
    assert_eq!((&replayed["accepted"], &replayed["duplicates"]), (&json!(0), &json!(2)), "{replayed}");
    assert_eq!(replayed["message"], "the message was taken in before");
    let other = json!({ "url": "https://example.com/3" });
    assert_eq!(signed(&stranger, &path, "m1", now + 1, &other).await.status, 409, "an id is one message's");
    expect(signed(&stranger, &path, "m2", now, &other).await, 202);
    expect(patch(&member.api, &format!("{INPUTS}/{id}"), &json!({ "clear": ["signingSecret"] })).await, 200);
    expect(post(&stranger, &path, &body).await, 202);
    at.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_has_so_many_urls_and_what_would_pass_them_is_refused_whole() {
    let at = Appliance::start().await;
    let (busy, other) = (at.member("busy").await, at.member("other").await);
    let stranger = at.client();
    let (_, path) = webhook(&busy.api, json!({})).await;
    let (_, second) = webhook(&busy.api, json!({})).await;
    let plan = expect(get(&busy.api, "/api/v1/plans/current").await, 200);
    let limit = plan["plan"]["limits"]["webhookUrlsPerDay"].as_u64().unwrap();
    let urls = |count: u64, of: &str| json!({ "urls": (0..count).map(|n| format!("https://example.com/{of}/{n}")).collect::<Vec<_>>() });
    let mut sent = 0;
    while sent < limit {
        let count = (limit - sent).min(10_000);
        expect(post(&stranger, &path, &urls(count, &sent.to_string())).await, 202);
        sent += count;
    }
    let over = post(&stranger, &second, &urls(2, "over")).await;
    assert_eq!(over.status, 429, "{}", over.text());
    assert!(over.text().contains(&format!("limit {limit}, today {limit}, requested 2")), "{}", over.text());
    assert_eq!(over.header("retry-after"), "", "{}", over.text());
    let listed = expect(get(&busy.api, "/api/v1/urls?q=over").await, 200);
    assert_eq!(listed["items"], json!([]), "nothing of it was registered");
    let (_, theirs) = webhook(&other.api, json!({})).await;
    expect(post(&stranger, &theirs, &urls(2, "theirs")).await, 202);
    at.stop().await;
}
