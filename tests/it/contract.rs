//! The reference that ships with the binary is the one that the code makes.

use crate::harness::{Appliance, expect, get, ready};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join("data/openapi.json")
}

/// `UPDATE_GOLDEN=1 cargo test` writes the document anew.
#[test]
fn the_golden_document_is_what_the_routes_say() {
    let document = server::openapi::document(&gleaner::app::routes());
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
    for code in base::Code::ALL {
        let page = get(&client, &format!("/docs/errors/{}", code.name())).await;
        assert_eq!(page.status, 200, "{}", code.name());
        assert!(page.text().contains(code.name()), "{}", code.name());
    }
    assert_eq!(get(&client, "/docs").await.status, 200);
    assert_eq!(get(&client, "/healthz").await.text(), "ok\n");
    ready(&client).await;
    let metrics = get(&client, "/metrics").await.text();
    for name in [
        "gleaner_store_file_bytes",
        "gleaner_search_position",
        "gleaner_snapshot_position",
        "gleaner_jobs_running",
        "gleaner_jobs_queued",
        "gleaner_jobs_given_up",
        "gleaner_feed_lag_seconds",
        "gleaner_disk_free_bytes",
        "gleaner_disk_free_inodes",
        "gleaner_store_writes_refused",
        "gleaner_store_writer_up",
        "process_open_fds",
        "process_max_fds",
        "process_resident_memory_bytes",
        "gleaner_process_own_memory_bytes",
    ] {
        assert!(metrics.contains(name), "{name} is not in the metrics");
    }
}

/// Every reference inside the document leads somewhere, and operation ids are unique.
#[test]
fn the_document_is_sound() {
    let document = server::openapi::document(&gleaner::app::routes());
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

/// Whoever reads the document has the box and its pages, and none of the papers that it was built from.
#[test]
fn the_document_speaks_to_its_reader() {
    const NOT_THEIRS: [&str; 15] = [
        "interface spec",
        "interface page",
        "api page",
        "api.md",
        "architecture page",
        "engines page",
        "specification,",
        ", section ",
        // The name of an action may end like that.
        " stored:",
        "stored by",
        "stored with",
        "variants are",
        "[`",
        "crate::",
        "super::",
    ];
    let document = server::openapi::document(&gleaner::app::routes());
    let mut found = Vec::new();
    descriptions(&document, "", &mut |place, text| {
        let lower = format!(" {}", text.to_lowercase());
        let words = NOT_THEIRS.iter().filter(|word| lower.contains(**word));
        found.extend(words.map(|word| format!("{place}: {word:?} in {text:?}")));
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
    let pages = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/errors")).unwrap();
    for page in pages.map(|page| page.unwrap().path()) {
        let text = std::fs::read_to_string(&page).unwrap().to_lowercase();
        for word in NOT_THEIRS {
            assert!(!text.contains(word), "{}: {word:?}", page.display());
        }
    }
}

fn descriptions(value: &Value, place: &str, tell: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let place = format!("{place}/{name}");
                match member {
                    Value::String(text) if name == "description" || name == "summary" => tell(&place, text),
                    other => descriptions(other, &place, tell),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| descriptions(item, place, tell)),
        _ => {}
    }
}

/// What generators of clients stumble over: each was met by one.
#[test]
fn the_document_is_one_that_generators_read() {
    let document = server::openapi::document(&gleaner::app::routes());
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        assert!(
            !name.ends_with(|last: char| last.is_ascii_digit()),
            "{name} is told from another by a number"
        );
    }
    let mut wrong = Vec::new();
    for (name, schema) in schemas {
        walk_schema(schema, &format!("schemas.{name}"), &mut wrong);
    }
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let place = format!("{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                walk_schema(&parameter["schema"], &format!("{place} {}", parameter["name"]), &mut wrong);
            }
            let bodies =
                operation["responses"].as_object().unwrap().values().chain([&operation["requestBody"]]);
            for (media, content) in bodies.filter_map(|body| body["content"].as_object()).flatten() {
                assert!(!media.contains('*'), "{place}: {media}");
                walk_schema(&content["schema"], &format!("{place} {media}"), &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nodes are told apart by their type.
    let node = &schemas["DagNode"];
    assert_eq!(node["discriminator"]["propertyName"], "type");
    let mapping = node["discriminator"]["mapping"].as_object().unwrap();
    assert_eq!(mapping.len(), 9);
    for (kind, reference) in mapping {
        let variant = document.pointer(reference.as_str().unwrap().trim_start_matches('#')).unwrap();
        assert_eq!(variant["properties"]["type"]["enum"], serde_json::json!([kind]));
    }
    // Limits are stated.
    let stated = |pointer: &str| document.pointer(&format!("/components/schemas/{pointer}")).cloned();
    for (pointer, limit) in [
        ("NewJob/properties/priority/maximum", 9),
        ("NewJob/properties/externalId/maxLength", 128),
        ("NewJob/properties/tags/maxItems", 32),
        ("NewJob/properties/tags/items/maxLength", 64),
        ("NewJobs/properties/jobs/maxItems", 1_000),
        ("NewOptions/properties/timeoutMs/minimum", 100),
        ("NewUrls/properties/urls/maxItems", 10_000),
        ("PollRequest/properties/ids/maxItems", 500),
        ("Dag/properties/nodes/maxItems", 64),
        ("ProviderConfig/properties/retries/maximum", 5),
        ("WaitConfig/properties/ms/maximum", 60_000),
        ("NewBenchmark/properties/urls/maxItems", 20),
        ("NewProvider/properties/maxConcurrency/minimum", 1),
        ("NewWorkflowRequest/properties/name/maxLength", 200),
    ] {
        assert_eq!(stated(pointer), Some(Value::from(limit)), "{pointer}");
    }
}

/// Collects what is sound in a schema and not understood by all.
fn walk_schema(schema: &Value, place: &str, wrong: &mut Vec<String>) {
    let Some(members) = schema.as_object() else {
        if !schema.is_null() && *schema != Value::Bool(false) {
            wrong.push(format!("{place} is {schema}"));
        }
        return;
    };
    for (key, member) in members {
        let place = format!("{place}.{key}");
        match (key.as_str(), member) {
            ("const", _) => wrong.push(format!("{place} instead of an enum")),
            ("properties", Value::Object(properties)) => {
                for (name, schema) in properties {
                    if schema.get("default").is_some() {
                        wrong
                            .push(format!("{place}.{name} has a default, so that it counts as always there"));
                    }
                    walk_schema(schema, &format!("{place}.{name}"), wrong);
                }
            }
            ("oneOf" | "anyOf" | "allOf", Value::Array(choices)) => {
                if choices.iter().all(|choice| choice["enum"].is_array()) {
                    wrong.push(format!("{place} instead of one enum"));
                }
                choices.iter().for_each(|choice| walk_schema(choice, &place, wrong));
            }
            ("items" | "additionalProperties", schema) => walk_schema(schema, &place, wrong),
            _ => {}
        }
    }
}
