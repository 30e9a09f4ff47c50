//! The reference that ships with the binary is the one that the code makes.

use crate::harness::{Appliance, expect, get};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/openapi.json")
}

/// `UPDATE_GOLDEN=1 cargo test` writes the document anew.
#[test]
fn the_golden_document_is_what_the_routes_say() {
    let document = gleaner::http::openapi::document(&gleaner::app::routes());
    let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden(), &text).unwrap();
    }
    let kept = std::fs::read_to_string(golden()).unwrap_or_default();
    assert!(
        kept == text,
        "data/openapi.json is not what the routes say; run UPDATE_GOLDEN=1 cargo test --test it contract"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_box_serves_it_and_a_page_for_every_code() {
    let appliance = Appliance::start().await;
    let client = appliance.client();
    // getOpenApi
    let served = expect(get(&client, "/api/v1/openapi.json").await, 200);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(golden()).unwrap()).unwrap();
    assert_eq!(served, kept);
    for code in gleaner::base::Code::ALL {
        let page = get(&client, &format!("/docs/errors/{}", code.name())).await;
        assert_eq!(page.status, 200, "{}", code.name());
        assert!(page.text().contains(code.name()), "{}", code.name());
    }
    assert_eq!(get(&client, "/docs").await.status, 200);
    assert_eq!(get(&client, "/healthz").await.text(), "ok\n");
    assert_eq!(get(&client, "/readyz").await.status, 200);
    let metrics = get(&client, "/metrics").await.text();
    for name in [
        "gleaner_store_file_bytes",
        "gleaner_search_position",
        "gleaner_snapshot_position",
        "gleaner_jobs_running",
    ] {
        assert!(metrics.contains(name), "{name} is not in the metrics");
    }
}

/// Every reference inside the document leads somewhere, and operation ids are unique.
#[test]
fn the_document_is_sound() {
    let document = gleaner::http::openapi::document(&gleaner::app::routes());
    assert_eq!(document["openapi"], "3.1.0");
    let mut references = Vec::new();
    collect(&document, &mut references);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let ids: Vec<_> = operations.filter_map(|operation| operation["operationId"].as_str()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

fn collect<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            references.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| collect(member, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}
