//! Reading, walking and drawing graphs: tables of what each rule says. Random graphs against a plain interpreter are
//! in `tests/dispatch`.

mod walks;

use super::shape::{Dag, Fault};
use super::{Graph, JobFacts, ParsedDag, Tariff};
use base::ids::ProviderId;
use base::terms::PageType;
use serde_json::{Value, json};
use uuid::Uuid;

/// The provider of this number.
fn provider(n: u8) -> ProviderId {
    ProviderId(Uuid::from_bytes([n; 16]))
}

fn dag(value: Value) -> Dag {
    serde_json::from_value(value).unwrap()
}

/// start → a → (b on failure) → ok | bad.
fn two() -> Value {
    json!({
        "nodes": [
            { "id": "start", "type": "start" },
            { "id": "a", "type": "provider", "config": { "providerId": provider(1) } },
            { "id": "b", "type": "provider", "config": { "providerId": provider(2) } },
            { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
            { "id": "bad", "type": "end", "config": { "status": "failed" } },
        ],
        "edges": [
            { "source": "start", "target": "a", "type": "always" },
            { "source": "a", "target": "ok", "type": "success" },
            { "source": "a", "target": "b", "type": "failure" },
            { "source": "b", "target": "ok", "type": "success" },
            { "source": "b", "target": "bad", "type": "failure" },
        ],
    })
}

/// `two` with one place set, or an element taken away where the value is none.
fn changed(pointer: &str, value: Option<Value>) -> Dag {
    let mut drawing = two();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match (drawing.pointer_mut(parent).unwrap(), value) {
        (Value::Array(items), Some(value)) if name == "-" => items.push(value),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        (Value::Array(items), None) => drop(items.remove(name.parse().unwrap())),
        (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value)),
        (Value::Object(members), None) => drop(members.shift_remove(name)),
        (other, _) => panic!("{pointer} is not in {other}"),
    }
    dag(drawing)
}

fn errors(reading: &ParsedDag) -> Vec<(&str, &str)> {
    reading.errors.iter().map(|problem| (problem.path.as_str(), problem.fault.name())).collect()
}

fn facts<'a>(url: &'a str, tags: &'a [String]) -> JobFacts<'a> {
    JobFacts { url, domain: "example.com", page_type: Some(PageType::Product), tags, job: [7; 16] }
}

#[test]
fn a_whole_graph_is_read() {
    let reading = Graph::read(&dag(two()));
    assert_eq!((errors(&reading), reading.warnings.len()), (vec![], 0));
    let graph = reading.graph.unwrap();
    assert_eq!(graph.providers(), [provider(1), provider(2)]);
    assert_eq!(graph.attempts_max(), 2);
    let price = |id: ProviderId, tariff: Tariff| match (id == provider(2), tariff.render, tariff.premium) {
        (false, ..) => 1,
        (true, false, false) => 5,
        (true, true, false) => 10,
        (true, ..) => 75,
    };
    let asked = |render, premium| graph.credits_max(Some(Tariff { render, premium }), price);
    assert_eq!((asked(false, false), asked(true, false), asked(true, true)), (5, 10, 75));
    assert_eq!(graph.credits_max(None, price), 75, "what a job could ask for");
    // A node's own word counts more than the job's.
    let fixed = changed(
        "/nodes/2/config",
        Some(json!({ "providerId": provider(2), "render": false, "premium": false })),
    );
    let fixed = Graph::read(&fixed).graph.unwrap();
    assert_eq!(fixed.credits_max(Some(Tariff { render: true, premium: true }), price), 5);
    // What is not connected is named with its place; the graph is one all the same.
    let reading = Graph::read(&dag(two()));
    let missing = reading.missing(|id| id == provider(1), |_| false);
    assert_eq!(
        (missing[0].path.as_str(), missing[0].fault),
        ("dag.nodes[2].config.providerId", Fault::ProviderNotConnected)
    );
    assert_eq!(missing.len(), 1);
}

/// One thing wrong at a time: the code, at the place.
#[test]
fn every_fault_is_found_where_it_is() {
    let node = |id: &str, kind: &str, config: Value| json!({ "id": id, "type": kind, "config": config });
    let edge =
        |source: &str, target: &str, kind: &str| json!({ "source": source, "target": target, "type": kind });
    let id = provider(1);
    let on = |config: Value| ("/nodes/1/config", Some(config));
    type Change<'a> = (&'a str, Option<Value>);
    type Fault = (&'static str, &'static str);
    let cases: Vec<(Change<'_>, &[Fault])> = vec![
        (("/nodes/1/type", Some(json!("scrape"))), &[("dag.nodes[1].type", "node_type_unknown")]),
        (("/nodes/1/type", Some(json!("Provider"))), &[("dag.nodes[1].type", "node_type_unknown")]),
        (
            ("/edges/1/type", Some(json!("done"))),
            &[("dag.edges[1].type", "edge_type_unknown"), ("dag.nodes[1]", "missing_edge")],
        ),
        (
            ("/edges/1/type", Some(json!("true"))),
            &[("dag.edges[1].type", "edge_type_unknown"), ("dag.nodes[1]", "missing_edge")],
        ),
        (("/nodes/0", None), &[("dag.nodes", "missing_start"), ("dag.edges[0].source", "dangling_edge")]),
        (
            ("/nodes/-", Some(node("s2", "start", Value::Null))),
            &[("dag.nodes[5]", "missing_start"), ("dag.nodes[5]", "missing_edge")],
        ),
        (
            ("/nodes/-", Some(node("ok", "end", json!({ "status": "failed" })))),
            &[("dag.nodes[5].id", "duplicate_id")],
        ),
        (
            ("/edges/1/target", Some(json!("nowhere"))),
            &[("dag.edges[1].target", "dangling_edge"), ("dag.nodes[1]", "missing_edge")],
        ),
        (("/edges/3/target", Some(json!("a"))), &[("dag.nodes[2]", "cycle")]),
        (("/edges/4", None), &[("dag.nodes[2]", "missing_edge")]),
        (("/edges/-", Some(edge("a", "bad", "success"))), &[("dag.edges[5]", "bad_config")]),
        (("/edges/-", Some(edge("ok", "bad", "always"))), &[("dag.edges[5].type", "edge_type_unknown")]),
        (
            ("/nodes/0/id", Some(json!(""))),
            &[
                ("dag.nodes[0].id", "bad_config"),
                ("dag.edges[0].source", "dangling_edge"),
                ("dag.nodes[0]", "missing_edge"),
            ],
        ),
        (
            ("/nodes/3/config", Some(json!({ "status": "done" }))),
            &[("dag.nodes[3].config.status", "bad_config")],
        ),
        (("/nodes/3/config", None), &[("dag.nodes[3].config.status", "bad_config")]),
        (("/edges/2/target", Some(json!("ok"))), &[("dag.nodes[3]", "bad_config")]),
        (on(json!({})), &[("dag.nodes[1].config.providerId", "bad_config")]),
        (on(json!({ "providerId": "direct" })), &[("dag.nodes[1].config.providerId", "bad_config")]),
        (on(json!({ "providerId": id, "retries": 6 })), &[("dag.nodes[1].config.retries", "bad_config")]),
        (on(json!({ "providerId": id, "retries": -1 })), &[("dag.nodes[1].config.retries", "bad_config")]),
        (
            on(json!({ "providerId": id, "timeoutMs": 99 })),
            &[("dag.nodes[1].config.timeoutMs", "bad_config")],
        ),
        (on(json!({ "providerId": id, "render": "yes" })), &[("dag.nodes[1].config.render", "bad_config")]),
        (on(json!({ "providerId": id, "country": "DEU" })), &[("dag.nodes[1].config.country", "bad_config")]),
        (
            on(json!({ "providerId": 7, "premium": 1, "country": 2, "timeoutMs": [], "retries": {} })),
            &[
                ("dag.nodes[1].config.providerId", "bad_config"),
                ("dag.nodes[1].config.premium", "bad_config"),
                ("dag.nodes[1].config.timeoutMs", "bad_config"),
                ("dag.nodes[1].config.country", "bad_config"),
                ("dag.nodes[1].config.retries", "bad_config"),
            ],
        ),
    ];
    for ((pointer, value), expected) in cases {
        let drawing = changed(pointer, value.clone());
        let reading = Graph::read(&drawing);
        assert_eq!(errors(&reading), expected, "{pointer} = {value:?}: {:?}", reading.errors);
        assert!(reading.graph.is_none());
        assert!(
            reading.errors.iter().all(|problem| !problem.message.is_empty() && problem.message.len() < 400)
        );
    }
}

/// A graph whose second node is `kind` with `config`; its edges lead where they may.
fn with_node(kind: &str, config: Value, edges: &[&str]) -> Dag {
    let edge = |kind: &&str| json!({ "source": "x", "target": if *kind == "success" { "ok" } else { "bad" }, "type": kind });
    let mut drawing = two();
    drawing["nodes"].as_array_mut().unwrap().push(json!({ "id": "x", "type": kind, "config": config }));
    drawing["edges"].as_array_mut().unwrap().extend(edges.iter().map(edge));
    drawing["edges"][1]["target"] = json!("x");
    dag(drawing)
}

#[test]
fn every_config_is_checked() {
    let condition = |field: &str, op: &str, value: Value| {
        (json!({ "field": field, "op": op, "value": value }), "condition", &["true", "false"][..])
    };
    let split = |weights: Value| (json!({ "weights": weights }), "split", &["always"][..]);
    let race = |ids: Value| (json!({ "providerIds": ids }), "race", &["success", "failure"][..]);
    let extract = |config: Value| (config, "extract", &["success", "low_quality"][..]);
    let wait = |config: Value| (config, "wait", &["always"][..]);
    let (p, q) = (provider(1), provider(2));
    let good = [
        condition("url", "contains", json!("/p/")),
        condition("url", "matches", json!("^https?://[^/]+/p/\\d+$")),
        condition("domain", "in", json!(["www.Example.com", "münchen.de"])),
        condition("pageType", "not_in", json!(["serp"])),
        condition("pageType", "is_null", Value::Null),
        condition("tag", "eq", json!("daily")),
        condition("attempts", "gte", json!(2)),
        condition("httpStatus", "between", json!([500, 599])),
        split(json!({ "bad": 3 })),
        race(json!([p, q])),
        extract(json!({})),
        extract(json!({ "minQuality": 0.25 })),
        wait(json!({ "ms": 60_000 })),
    ];
    for (config, kind, edges) in good {
        let reading = Graph::read(&with_node(kind, config.clone(), edges));
        assert!(reading.graph.is_some(), "{kind} {config}: {:?}", reading.errors);
        assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    }
    let bad = [
        (condition("host", "eq", json!("x")), "field"),
        (condition("url", "gt", json!("x")), "op"),
        (condition("attempts", "contains", json!(1)), "op"),
        (condition("url", "eq", json!(7)), "value"),
        (condition("url", "eq", json!("")), "value"),
        (condition("url", "eq", Value::Null), "value"),
        (condition("url", "in", json!([])), "value"),
        (condition("url", "in", json!(["a", 7])), "value[1]"),
        (condition("url", "matches", json!("(")), "value"),
        (condition("url", "matches", json!("(?=x)")), "value"),
        (condition("url", "matches", json!("a{1000}{1000}")), "value"),
        (condition("domain", "eq", json!("not a host")), "value"),
        (condition("pageType", "eq", json!("poem")), "value"),
        (condition("attempts", "eq", json!(1.5)), "value"),
        (condition("httpStatus", "between", json!([599, 500])), "value"),
        (condition("httpStatus", "between", json!([500])), "value"),
        (split(json!({})), "weights"),
        (split(json!({ "bad": 0 })), "weights"),
        (split(json!({ "bad": -1 })), "weights"),
        (split(json!({ "bad": 1, "ok": 1 })), "weights"),
        (split(json!([1])), "weights"),
        ((json!({ "weights": { "bad": 1 }, "by": "moon" }), "split", &["always"][..]), "by"),
        (race(json!([])), "providerIds"),
        (race(json!([p, p])), "providerIds[1]"),
        (race(json!([p, "x"])), "providerIds[1]"),
        (race(json!("x")), "providerIds"),
        (extract(json!({ "minQuality": 1.1 })), "minQuality"),
        (extract(json!({ "minQuality": "high" })), "minQuality"),
        (wait(json!({})), "ms"),
        (wait(json!({ "ms": 60_001 })), "ms"),
        ((json!({ "outputId": "x" }), "output", &["always"][..]), "outputId"),
    ];
    for ((config, kind, edges), member) in bad {
        let reading = Graph::read(&with_node(kind, config.clone(), edges));
        let path = format!("dag.nodes[5].config.{member}");
        let first = reading.errors.first().unwrap_or_else(|| panic!("{kind} {config} was read"));
        assert_eq!(
            (first.path.as_str(), first.fault),
            (path.as_str(), Fault::BadConfig),
            "{config}: {first:?}"
        );
    }
    let output = json!({ "outputId": provider(9) });
    let reading = Graph::read(&with_node("output", output, &["always"]));
    assert_eq!(reading.missing(|_| true, |_| false)[0].fault, Fault::OutputNotFound);
}

#[test]
fn what_does_no_harm_is_a_warning() {
    let mut drawing = two();
    drawing["nodes"][1]["config"]["timeoutMS"] = json!(5);
    drawing["nodes"].as_array_mut().unwrap().push(
        json!({ "id": "lost", "type": "end", "config": { "status": "succeeded", "why": 1 }, "position": { "x": 1 } }),
    );
    let reading = Graph::read(&dag(drawing));
    let warnings: Vec<_> =
        reading.warnings.iter().map(|problem| (problem.path.as_str(), problem.fault.name())).collect();
    let expected = [
        ("dag.nodes[1].config.timeoutMS", "bad_config"),
        ("dag.nodes[5].config.why", "bad_config"),
        ("dag.nodes[5]", "unreachable"),
    ];
    assert_eq!(warnings, expected);
    assert!(reading.graph.is_some());
}

#[test]
fn a_drawing_has_its_limits() {
    let chain = |count: usize, retries: u32| {
        let mut nodes = vec![json!({ "id": "start", "type": "start" })];
        let mut edges = vec![json!({ "source": "start", "target": "p0", "type": "always" })];
        for i in 0..count {
            let config = json!({ "providerId": provider(1), "retries": retries });
            nodes.push(json!({ "id": format!("p{i}"), "type": "provider", "config": config }));
            let next = if i + 1 < count { format!("p{}", i + 1) } else { "bad".to_owned() };
            edges.push(json!({ "source": format!("p{i}"), "target": "ok", "type": "success" }));
            edges.push(json!({ "source": format!("p{i}"), "target": next, "type": "failure" }));
        }
        nodes.push(json!({ "id": "ok", "type": "end", "config": { "status": "succeeded" } }));
        nodes.push(json!({ "id": "bad", "type": "end", "config": { "status": "failed" } }));
        Graph::read(&dag(json!({ "nodes": nodes, "edges": edges })))
    };
    assert_eq!(chain(32, 0).graph.unwrap().attempts_max(), 32);
    assert_eq!(errors(&chain(33, 0)), [("dag", "bad_config")]);
    assert_eq!(errors(&chain(6, 5)), [("dag", "bad_config")]);
    assert_eq!(errors(&chain(62, 0)), [("dag.nodes", "bad_config")]);
    let large = changed("/nodes/1/position", Some(json!({ "x": "y".repeat(300_000) })));
    assert_eq!(errors(&Graph::read(&large)), [("dag", "bad_config")]);
    let many = json!({ "nodes": vec![json!({ "id": "", "type": "?" }); 10_000], "edges": [] });
    assert_eq!(errors(&Graph::read(&dag(many))), [("dag.nodes", "bad_config")]);
    let empty = Graph::read(&Dag::default());
    assert_eq!(errors(&empty), [("dag.nodes", "missing_start")]);
}
