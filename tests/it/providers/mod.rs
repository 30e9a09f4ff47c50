//! Providers through HTTP: listProviderCatalog, listProviders, connectProvider, getProvider, updateProvider,
//! disconnectProvider, testProvider; and jobs that go out through them.

mod browser;
mod contract;
mod proxy;

use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, Member, ended, eventually, expect, get, post, refused, text};
use http::Method;
use serde_json::{Value, json};
use server::client::Reply;
use std::time::Duration;

async fn patch(member: &Member, id: &str, body: &Value) -> Reply {
    member.api.send(Method::PATCH, &format!("/api/v1/providers/{id}"), Some(body)).await.unwrap()
}

async fn delete(member: &Member, id: &str) -> Reply {
    member.api.send(Method::DELETE, &format!("/api/v1/providers/{id}"), None).await.unwrap()
}

async fn connect(member: &Member, body: &Value) -> Value {
    expect(post(&member.api, "/api/v1/providers", body).await, 201)
}

/// The id of the provider that every organization starts with.
async fn direct_id(member: &Member) -> String {
    let listed = expect(get(&member.api, "/api/v1/providers").await, 200);
    let items = listed["items"].as_array().unwrap();
    text(items.iter().find(|item| item["adapter"] == "direct").unwrap(), "id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalog_says_what_each_adapter_wants() {
    let appliance = Appliance::start().await;
    let member = appliance.member("catalog").await;
    let catalog = expect(get(&member.api, "/api/v1/providers/catalog").await, 200);
    let items = catalog["items"].as_array().unwrap();
    let find =
        |id: &str| items.iter().find(|item| item["adapter"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in [
        "direct",
        "proxy",
        "browser",
        "scraperapi",
        "scrapingbee",
        "scrapfly",
        "brightdata",
        "zyte",
        "oxylabs",
        "zenrows",
        "firecrawl",
        "scrapeops",
        "scrapedo",
    ] {
        let adapter = find(id);
        assert_eq!(adapter["settings"]["type"], "object", "{adapter}");
        assert!(adapter["credits"]["standard"]["plain"].is_u64(), "{adapter}");
    }
    let api = find("scraperapi");
    assert_eq!(api["credentials"]["required"], json!(["apiKey"]));
    assert_eq!(api["settings"]["properties"]["premiumTier"]["enum"], json!(["premium", "ultra"]));
    assert_eq!(api["credits"]["ultra"], json!({ "plain": 30, "render": 75 }));
    assert_eq!(find("direct")["baseUrl"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_is_connected_changed_and_disconnected() {
    let appliance = Appliance::start().await;
    let member = appliance.member("connect").await;
    let first = expect(get(&member.api, "/api/v1/providers").await, 200);
    assert_eq!(first["items"].as_array().unwrap().len(), 1, "a new organization starts with direct: {first}");
    assert_eq!(
        (&first["items"][0]["adapter"], &first["items"][0]["credentialsSet"]),
        (&json!("direct"), &json!(false))
    );

    let new = json!({
        "adapter": "scraperapi", "name": " Scraper ", "credentials": { "apiKey": "sk-very-secret" },
        "credits": { "premium": { "plain": 11 } }, "maxConcurrency": 5,
    });
    let made = connect(&member, &new).await;
    let id = text(&made, "id").to_owned();
    assert_eq!(
        (&made["name"], &made["credentialsSet"], &made["isEnabled"]),
        (&json!("Scraper"), &json!(true), &json!(true))
    );
    assert_eq!(made["settings"], json!({ "premiumTier": "premium" }), "defaults are shown");
    assert_eq!(made["credits"]["premium"], json!({ "plain": 11, "render": 25 }));
    assert_eq!(
        (&made["maxConcurrency"], &made["trouble"], &made["baseUrl"]),
        (&json!(5), &Value::Null, &Value::Null)
    );

    let change = json!({
        "settings": { "premiumTier": "ultra" }, "credits": {}, "maxConcurrency": 0, "isEnabled": false,
        "baseUrl": "https://gateway.example.com/api/", "name": "Other",
        "credentials": { "apiKey": "sk-very-secret" },
    });
    let elsewhere = json!({ "baseUrl": "https://gateway.example.com/api/" });
    let reply = patch(&member, &id, &elsewhere).await;
    refused(&reply, 400, "Validation failed", "credentials: must be given again when baseUrl changes");
    let changed = expect(patch(&member, &id, &change).await, 200);
    assert_eq!(changed["settings"]["premiumTier"], "ultra");
    assert_eq!(changed["credits"]["premium"], json!({ "plain": 10, "render": 25 }));
    assert_eq!((&changed["maxConcurrency"], &changed["isEnabled"]), (&Value::Null, &json!(false)));
    assert_eq!(
        (&changed["baseUrl"], &changed["name"]),
        (&json!("https://gateway.example.com/api/"), &json!("Other"))
    );
    let changed = expect(patch(&member, &id, &json!({ "baseUrl": "" })).await, 200);
    assert_eq!((&changed["baseUrl"], &changed["credentialsSet"]), (&Value::Null, &json!(true)));
    assert_eq!(expect(get(&member.api, &format!("/api/v1/providers/{id}")).await, 200), changed);

    // No answer, no console row and no file shows the key.
    let listed = get(&member.api, "/api/v1/providers").await;
    assert!(!listed.text().contains("very-secret"));
    let sql = json!({ "sql": "SELECT * FROM providers ORDER BY name", "waitMs": 10_000 });
    let rows = eventually("the console has both", Duration::from_secs(10), || async {
        let answer = post(&member.api, "/api/v1/bi/queries", &sql).await;
        // 202 of a busy machine, 503 of tables that are behind: asked again.
        assert!(matches!(answer.status.as_u16(), 200 | 202 | 503), "{}", answer.text());
        let results = &answer.json["results"];
        (results["totalRows"] == 2).then(|| results["rows"].clone())
    })
    .await;
    assert_eq!((&rows[1]["name"], &rows[1]["is_enabled"]), (&json!("Other"), &json!(false)));
    assert!(!rows.to_string().contains("secret") && rows[0].get("credentials").is_none());
    let store = std::fs::read(appliance.data_dir().join("gleaner.redb")).unwrap();
    assert!(!store.windows(11).any(|bytes| bytes == b"very-secret"), "the key lies open in the store");

    assert_eq!(delete(&member, &id).await.status, 204);
    refused(&get(&member.api, &format!("/api/v1/providers/{id}")).await, 404, "Provider not found", "");
    refused(&delete(&member, &id).await, 404, "Provider not found", "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_named() {
    let appliance = Appliance::start().await;
    let member = appliance.member("mistakes").await;
    let key = json!({ "apiKey": "k" });
    for (body, sentence, part) in [
        (json!({ "adapter": "nobody" }), "Validation failed", "adapter: must be one of direct"),
        (json!({ "adapter": "zyte" }), "Validation failed", "credentials.apiKey: is missing"),
        (
            json!({ "adapter": "zyte", "credentials": { "apiKey": 7 } }),
            "Validation failed",
            "credentials.apiKey: must be a text",
        ),
        (
            json!({ "adapter": "zyte", "credentials": { "apiKey": "a\r\nb" } }),
            "Validation failed",
            "control characters",
        ),
        (
            json!({ "adapter": "zyte", "credentials": { "apiKey": "k", "user": "u" } }),
            "Validation failed",
            "credentials.user: is not a field",
        ),
        (
            json!({ "adapter": "brightdata", "credentials": key }),
            "Validation failed",
            "settings.zone: is missing",
        ),
        (
            json!({ "adapter": "scraperapi", "credentials": key, "settings": { "premiumTier": "gold" } }),
            "Validation failed",
            "settings.premiumTier: must be one of premium, ultra",
        ),
        (
            json!({ "adapter": "scraperapi", "credentials": key, "credits": { "gold": { "plain": 1 } } }),
            "Validation failed",
            "credits.gold: is no tier",
        ),
        (
            json!({ "adapter": "zyte", "credentials": key, "baseUrl": "ftp://x.test" }),
            "Invalid URL",
            "baseUrl: scheme",
        ),
        (
            json!({ "adapter": "zyte", "credentials": key, "baseUrl": "http://127.0.0.1:1/" }),
            "Invalid URL",
            "baseUrl: the address 127.0.0.1 (loopback)",
        ),
        (
            json!({ "adapter": "zyte", "credentials": key, "baseUrl": "http://169.254.169.254/" }),
            "Invalid URL",
            "is never allowed",
        ),
        (
            json!({ "adapter": "direct", "baseUrl": "https://example.com" }),
            "Validation failed",
            "baseUrl: the adapter direct",
        ),
        (json!({ "adapter": "direct", "maxConcurrency": 1_001 }), "Validation failed", "maxConcurrency"),
        (json!({ "adapter": "direct", "name": "" }), "Validation failed", "name: must not be empty"),
    ] {
        refused(&post(&member.api, "/api/v1/providers", &body).await, 400, sentence, part);
    }
    let id = direct_id(&member).await;
    for (body, part) in [
        (json!({}), "nothing that can be changed"),
        (json!({ "adapter": "zyte" }), "nothing that can be changed"),
        (json!({ "settings": { "obeyRobots": "no" } }), "settings.obeyRobots: must be true or false"),
        (json!({ "credentials": { "apiKey": "k" } }), "credentials.apiKey: is not a field"),
        (json!({ "isEnabled": "yes" }), "isEnabled"),
    ] {
        refused(&patch(&member, &id, &body).await, 400, "Validation failed", part);
    }
    let path = format!("/api/v1/providers/{id}/test");
    refused(
        &post(&member.api, &path, &json!({ "url": "file:///x" })).await,
        400,
        "Invalid URL",
        "url: scheme",
    );
    refused(
        &post(&member.api, &path, &json!({ "url": "http://10.0.0.1/" })).await,
        400,
        "Invalid URL",
        "private",
    );
    refused(&post(&member.api, &path, &json!({})).await, 400, "Validation failed", "url");
    let reader = json!({ "name": "reader", "permissions": ["providers:read"] });
    let reader = expect(post(&member.browser, "/api/v1/api-keys", &reader).await, 201);
    let reader = appliance.client().bearer(text(&reader, "secret"));
    expect(get(&reader, "/api/v1/providers").await, 200);
    let refusal = post(&reader, "/api/v1/providers", &json!({ "adapter": "direct" })).await;
    refused(&refusal, 403, "Insufficient permissions", "providers:write");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_template_of_ones_own_keeps_the_box_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), "id = \"mine\"\n").unwrap();
    let data = tempfile::tempdir().unwrap();
    let env = [
        ("GLEANER_SERVER__LISTEN", "127.0.0.1:0".to_owned()),
        ("GLEANER_STORAGE__DATA_DIR", data.path().join("data").display().to_string()),
        ("GLEANER_PROVIDERS__DIR", folder.path().display().to_string()),
    ];
    let env = env.map(|(key, value)| (key.to_owned(), value));
    let config = gleaner::config::Config::load(None, env).unwrap();
    let refused = gleaner::app::App::start(config).await.err().expect("it does not start").for_operator();
    assert!(refused.contains("mine.toml") && refused.contains("missing field"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_is_tried_before_it_is_trusted() {
    let web = Web::open(|path| (path == "/page").then(|| Answer::html("<h1>Hello</h1>"))).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("trial").await;
    let id = direct_id(&member).await;
    let path = format!("/api/v1/providers/{id}/test");
    let tried = expect(post(&member.api, &path, &json!({ "url": web.url("/page") })).await, 200);
    assert_eq!(
        (&tried["outcome"], &tried["httpStatus"], &tried["pageBytes"]),
        (&json!("success"), &json!(200), &json!(14))
    );
    let tried = expect(post(&member.api, &path, &json!({ "url": web.url("/none") })).await, 200);
    assert_eq!((&tried["outcome"], &tried["httpStatus"]), (&json!("target_error"), &json!(404)));
    let plan = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 1_000_000, "a test charges nothing");
    let jobs = expect(get(&member.api, "/api/v1/jobs").await, 200);
    assert!(jobs["items"].as_array().unwrap().is_empty(), "a test is no job");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_without_providers_says_so_and_costs_nothing() {
    let web = Web::open(|_| Some(Answer::html("<h1>Hello</h1>"))).await;
    let appliance = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let member = appliance.member("lonely").await;
    let id = direct_id(&member).await;
    expect(patch(&member, &id, &json!({ "isEnabled": false })).await, 200);
    let refusal = post(&member.api, "/api/v1/jobs", &json!({ "url": web.url("/") })).await;
    refused(&refusal, 409, "Conflict", "No provider is connected and enabled");
    let plan = expect(get(&member.api, "/api/v1/plans/current").await, 200);
    assert_eq!(plan["remainingCredits"], 1_000_000);
    expect(
        patch(&member, &id, &json!({ "isEnabled": true, "credits": { "standard": { "plain": 7 } } })).await,
        200,
    );
    let submitted = expect(post(&member.api, "/api/v1/jobs", &json!({ "url": web.url("/") })).await, 201);
    let job = ended(&member.api, text(&submitted, "id")).await;
    assert_eq!((&job["status"], &job["creditsCharged"]), (&json!("succeeded"), &json!(7)), "{job}");
    assert_eq!(
        (&job["attempts"][0]["providerId"], &job["attempts"][0]["costSource"]),
        (&json!(id), &json!("table"))
    );
}
