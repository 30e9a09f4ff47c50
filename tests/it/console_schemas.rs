//! The platform's schemas as a table of the SQL console.

use crate::harness::Request;
use crate::harness::web::{Answer, Web};
use crate::harness::{Appliance, collect, eventually, expect, get, post};
use serde_json::{Value, json};
use server::client::Client;
use std::time::Duration;

const QUERIES: &str = "/api/v1/bi/queries";
const WAIT: Duration = Duration::from_secs(30);

async fn import(at: &Appliance, domain: &str, names: &[&str]) {
    let attribute = |name: &&str| json!({ "name": name, "xpaths": ["//h1"], "type": "text" });
    let attributes: Vec<_> = names.iter().map(attribute).collect();
    let schema =
        json!({ "pageType": "product", "attributes": attributes, "confidence": 0.5, "sampleCount": 7 });
    let json = json!({ "schemas": [schema] }).to_string();
    at.operator(Request::SchemaImport { json, domain: Some(domain.to_owned()) }).await;
}

async fn rows(client: &Client, sql: &str) -> Vec<Value> {
    let asked = json!({ "sql": sql, "waitMs": 10_000 });
    let answer = expect(post(client, QUERIES, &asked).await, 200);
    answer["results"]["rows"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

/// Waits until a statement gives these rows.
async fn gives(client: &Client, sql: &str, expected: &Value) {
    eventually(&format!("{sql} gives {expected}"), WAIT, || async {
        (json!(rows(client, sql).await) == *expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_sees_the_platforms_schemas_as_a_table() {
    let web = Web::open(|_| Some(Answer::html("<h1>Plane</h1>"))).await;
    let mut at = Appliance::start_with(&[("NETWORK__ALLOW", &web.allow())]).await;
    let (ada, eve) = (at.member("ada").await, at.member("eve").await);
    let count = "SELECT count(*) AS n FROM schemas";
    assert_eq!(rows(&ada.api, count).await, [json!({ "n": 0 })]);

    import(&at, "127.0.0.1", &["name"]).await;
    import(&at, "a.example", &["name", "maker"]).await;
    import(&at, "127.0.0.1", &["name", "price", "maker"]).await;
    let versions = "SELECT domain, page_type, version, is_current, attributes, attribute_count FROM schemas \
                    ORDER BY domain, version";
    let row = |domain: &str, version: u32, is_current: bool, names: &[&str]| {
        json!({ "domain": domain, "page_type": "product", "version": version, "is_current": is_current,
                "attributes": json!(names).to_string(), "attribute_count": names.len() })
    };
    let expected = json!([
        row("127.0.0.1", 1, false, &["name"]),
        row("127.0.0.1", 2, true, &["name", "price", "maker"]),
        row("a.example", 1, true, &["name", "maker"]),
    ]);
    // The same for both: what one of them has of its own, or reads, is not in it.
    let own = json!({ "attributes": [{ "name": "secret", "xpaths": ["//h1"], "type": "text" }] });
    let of_eve = eve.api.put("/api/v1/extraction/attributes/a.example", &own).await.unwrap();
    expect(of_eve, 200);
    for member in [&ada, &eve] {
        gives(&member.api, versions, &expected).await;
    }
    let listed = expect(get(&ada.api, "/api/v1/extraction/schemas?domain=a.example").await, 200);
    // A host that has none of its own is read by those of its domain.
    let of_host = get(&ada.api, "/api/v1/extraction/schemas?domain=www.a.example").await;
    assert_eq!(expect(of_host, 200), listed);
    let listed = &listed["items"][0];
    let told = rows(
        &ada.api,
        "SELECT id, confidence, discovered_by, sample_count, created_at, last_validated_at, expires_at \
         FROM schemas WHERE domain = 'a.example'",
    )
    .await;
    for (column, field) in [
        ("id", "id"),
        ("confidence", "confidence"),
        ("discovered_by", "discoveredBy"),
        ("sample_count", "sampleCount"),
        ("created_at", "createdAt"),
        ("last_validated_at", "lastValidatedAt"),
        ("expires_at", "expiresAt"),
    ] {
        assert_eq!(told[0][column], listed[field], "{column}");
    }
    // It is among the tables, joins with an organization's own, and outlives a restart.
    let tables = expect(get(&eve.api, "/api/v1/bi/tables/schemas").await, 200);
    assert_eq!((&tables["name"], &tables["rowCount"]), (&json!("schemas"), &json!(3)));
    collect(&ada.api, &web.url("/")).await;
    let joined = "SELECT s.version, count(*) AS n FROM readings r JOIN schemas s \
                  ON s.domain = r.domain AND s.version = r.schema_version GROUP BY 1";
    gives(&ada.api, joined, &json!([{ "version": 2, "n": 1 }])).await;
    gives(&eve.api, joined, &json!([])).await;
    at.restart().await;
    gives(&at.client().bearer(&eve.key), versions, &expected).await;
    at.stop().await;
}
