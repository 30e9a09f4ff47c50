//! Reading, walking and drawing graphs: tables of what each rule says. Random graphs against a plain interpreter are
//! in `tests/dispatch`.

use super::draw;
use super::shape::{Dag, Fault};
use super::walk::{AttemptSummary, Step, StepEvent, Walk, WalkEnd};
use super::{Graph, JobFacts, ParsedDag, Tariff};
use base::ids::ProviderId;
use base::terms::PageType;
use fetch::Outcome;
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

/// Walks with answers given in order; what was asked of whom, and how it ended.
fn run(
    drawing: &Dag,
    facts: &JobFacts<'_>,
    answers: &[(Outcome, Option<u16>)],
) -> (Vec<ProviderId>, WalkEnd) {
    let graph = Graph::read(drawing).graph.unwrap();
    let mut walk = Walk::begin(&graph, facts);
    let (mut asked, mut answers) = (Vec::new(), answers.iter());
    loop {
        let event = match walk.next(&graph) {
            Step::Attempt { provider, .. } => {
                asked.push(provider);
                let (outcome, http_status) = *answers.next().expect("no further attempt");
                StepEvent::Attempted(AttemptSummary { outcome, http_status })
            }
            Step::Wait { .. } => StepEvent::Waited,
            Step::Extract { .. } => StepEvent::Judged(Some(0.4)),
            Step::End(ending) => {
                assert!(answers.next().is_none(), "an attempt was not made");
                return (asked, ending);
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(walk.clone().advance(&graph, facts, StepEvent::Noted), Err(super::walk::WrongEvent));
        walk.advance(&graph, facts, event).unwrap();
    }
}

#[test]
fn a_walk_takes_the_edge_of_the_outcome() {
    use Outcome::*;
    let facts = facts("http://example.com/", &[]);
    let (a, b) = (provider(1), provider(2));
    let two = dag(two());
    let run = |answers: &[(Outcome, Option<u16>)]| run(&two, &facts, answers);
    assert_eq!(run(&[(Success, Some(200))]), (vec![a], WalkEnd::Delivered { attempt: 1 }));
    assert_eq!(
        run(&[(Blocked, Some(403)), (Success, None)]),
        (vec![a, b], WalkEnd::Delivered { attempt: 2 })
    );
    assert_eq!(run(&[(TargetError, Some(404))]), (vec![a], WalkEnd::Answered { attempt: 1 }));
    assert_eq!(run(&[(Timeout, None), (TargetError, None)]), (vec![a, b], WalkEnd::Answered { attempt: 2 }));
    assert_eq!(run(&[(NetworkError, None), (ProviderError, None)]), (vec![a, b], WalkEnd::Failed));
    // A target that says that it is in trouble has not given its final answer.
    let trouble = (TargetError, Some(503));
    assert_eq!(run(&[trouble, (Success, Some(200))]), (vec![a, b], WalkEnd::Delivered { attempt: 2 }));
    assert_eq!(run(&[trouble, (TargetError, Some(500))]), (vec![a, b], WalkEnd::Failed));
    assert_eq!(run(&[trouble, (TargetError, Some(404))]), (vec![a, b], WalkEnd::Answered { attempt: 2 }));
}

#[test]
fn a_node_tries_again_what_may_pass() {
    use Outcome::*;
    let facts = facts("http://example.com/", &[]);
    let (a, b) = (provider(1), provider(2));
    let again = changed("/nodes/1/config", Some(json!({ "providerId": a, "retries": 2 })));
    assert_eq!(
        run(&again, &facts, &[(Blocked, None), (Timeout, None), (Success, None)]),
        (vec![a, a, a], WalkEnd::Delivered { attempt: 3 })
    );
    assert_eq!(
        run(
            &again,
            &facts,
            &[(Blocked, None), (TargetError, Some(502)), (NetworkError, None), (Success, None)]
        ),
        (vec![a, a, a, b], WalkEnd::Delivered { attempt: 4 })
    );
    assert_eq!(
        run(&again, &facts, &[(ProviderError, None), (Success, None)]),
        (vec![a, b], WalkEnd::Delivered { attempt: 2 })
    );
}

#[test]
fn a_page_of_low_quality_stays_at_hand() {
    use Outcome::*;
    let facts = facts("http://example.com/", &[]);
    let mut drawing = two();
    drawing["nodes"].as_array_mut().unwrap().push(json!({ "id": "x", "type": "extract" }));
    drawing["edges"][1]["target"] = json!("x");
    drawing["edges"][4]["target"] = json!("bad");
    for (kind, target) in [("success", "ok"), ("low_quality", "again")] {
        let edge = json!({ "source": "x", "target": target, "type": kind });
        drawing["edges"].as_array_mut().unwrap().push(edge);
    }
    let again = json!({ "id": "again", "type": "provider", "config": { "providerId": provider(3) } });
    drawing["nodes"].as_array_mut().unwrap().push(again);
    for kind in ["success", "failure"] {
        let edge = json!({ "source": "again", "target": "ok", "type": kind });
        drawing["edges"].as_array_mut().unwrap().push(edge);
    }
    let drawing = dag(drawing);
    let (a, c) = (provider(1), provider(3));
    let walk = |answer| run(&drawing, &facts, &[(Success, None), (answer, None)]);
    assert_eq!(walk(Success), (vec![a, c], WalkEnd::Delivered { attempt: 2 }));
    assert_eq!(walk(Blocked), (vec![a, c], WalkEnd::Delivered { attempt: 1 }));
}

#[test]
fn conditions_read_the_job() {
    let tags = ["daily".to_owned(), "shoes".to_owned()];
    let facts = facts("https://www.example.com/p/17?x=1", &tags);
    let untagged = JobFacts { tags: &[], page_type: None, ..facts };
    let test = |field: &str, op: &str, value: Value| {
        let config = json!({ "field": field, "op": op, "value": value });
        let graph = Graph::read(&with_node("condition", config, &["true", "false"])).graph.unwrap();
        let super::NodeKind::Condition { test, .. } = &graph.nodes()[5].work else {
            panic!("not a condition")
        };
        test.clone()
    };
    for (field, op, value, with, without) in [
        ("url", "contains", json!("/p/"), true, true),
        ("url", "starts_with", json!("http://"), false, false),
        ("url", "ends_with", json!("x=1"), true, true),
        ("url", "matches", json!("/p/[0-9]+"), true, true),
        ("url", "matches", json!("^/p/"), false, false),
        ("domain", "eq", json!("shop.EXAMPLE.com"), true, true),
        ("domain", "ne", json!("example.com"), false, false),
        ("domain", "ends_with", json!(".com"), true, true),
        ("pageType", "eq", json!("product"), true, false),
        ("pageType", "ne", json!("product"), false, true),
        ("pageType", "is_null", Value::Null, false, true),
        ("tag", "eq", json!("shoes"), true, false),
        ("tag", "ne", json!("shoes"), false, true),
        ("tag", "in", json!(["weekly", "daily"]), true, false),
        ("tag", "not_in", json!(["weekly"]), true, true),
        ("tag", "contains", json!("hoe"), true, false),
        ("tag", "not_null", Value::Null, true, false),
    ] {
        let test = test(field, op, value.clone());
        let place = format!("{field} {op} {value}");
        assert_eq!(test.holds(&facts, 0, None), with, "{place}");
        assert_eq!(test.holds(&untagged, 0, None), without, "{place} without");
    }
    for (field, op, value, none, two_of_503) in [
        ("attempts", "eq", json!(0), true, false),
        ("attempts", "gt", json!(1), false, true),
        ("attempts", "lte", json!(1), true, false),
        ("httpStatus", "gte", json!(500), false, true),
        ("httpStatus", "lt", json!(500), false, false),
        ("httpStatus", "ne", json!(503), true, false),
        ("httpStatus", "is_null", Value::Null, true, false),
        ("httpStatus", "in", json!([429, 503]), false, true),
        ("httpStatus", "between", json!([500, 503]), false, true),
    ] {
        let test = test(field, op, value.clone());
        let place = format!("{field} {op} {value}");
        assert_eq!(test.holds(&facts, 0, None), none, "{place} at first");
        assert_eq!(test.holds(&facts, 2, Some(503)), two_of_503, "{place} after two");
    }
}

/// The share of each branch, and that a URL never changes sides: the hash is pinned.
#[test]
fn a_split_is_even_and_stable() {
    let drawing = |by: &str| {
        let node = |n: u8| json!({ "id": format!("p{n}"), "type": "provider", "config": { "providerId": provider(n) } });
        let mut edges = vec![json!({ "source": "start", "target": "split", "type": "always" })];
        for n in 1..=3 {
            edges.push(json!({ "source": "split", "target": format!("p{n}"), "type": "always" }));
            edges.push(json!({ "source": format!("p{n}"), "target": "ok", "type": "success" }));
            edges.push(json!({ "source": format!("p{n}"), "target": "bad", "type": "failure" }));
        }
        let weights = json!({ "p1": 70, "p2": 30, "p3": 0 });
        Graph::read(&dag(json!({
            "nodes": [
                { "id": "start", "type": "start" },
                { "id": "split", "type": "split", "config": { "weights": weights, "by": by } },
                node(1), node(2), node(3),
                { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
                { "id": "bad", "type": "end", "config": { "status": "failed" } },
            ],
            "edges": edges,
        })))
        .graph
        .unwrap()
    };
    let side = |graph: &Graph, url: &str, job: u8| {
        let walk = Walk::begin(graph, &JobFacts { job: [job; 16], ..facts(url, &[]) });
        graph.nodes()[walk.at].id.clone()
    };
    let (by_url, by_job) = (drawing("url"), drawing("job"));
    let urls: Vec<_> = (0..4_000).map(|i| format!("http://example.com/{i}")).collect();
    let firsts = urls.iter().filter(|url| side(&by_url, url, 1) == "p1").count();
    assert!((2_700..2_900).contains(&firsts), "{firsts} of 4,000 at 70 %");
    assert!(urls.iter().all(|url| side(&by_url, url, 1) == side(&by_url, url, 2)));
    let jobs: Vec<_> = (0..=255).map(|job| side(&by_job, &urls[0], job)).collect();
    assert!(
        jobs.contains(&"p1".to_owned())
            && jobs.contains(&"p2".to_owned())
            && !jobs.contains(&"p3".to_owned())
    );
    let pinned: String = urls[..12].iter().map(|url| side(&by_url, url, 1).remove(1)).collect();
    assert_eq!(pinned, PINNED_SIDES);
}

const PINNED_SIDES: &str = "112111112222";

#[test]
fn the_built_in_path_tries_each_provider_once() {
    use Outcome::*;
    let facts = facts("http://example.com/", &[]);
    let ids: Vec<_> = (1..=3).map(provider).collect();
    let path = draw::chain(&ids);
    assert_eq!(
        run(&path, &facts, &[(Timeout, None), (Blocked, None), (ProviderError, None)]),
        (ids, WalkEnd::Failed)
    );
    assert_eq!(run(&draw::chain(&[]), &facts, &[]), (vec![], WalkEnd::Failed));
    let many: Vec<_> = (0..200).map(provider).collect();
    assert_eq!(Graph::read(&draw::chain(&many)).graph.unwrap().attempts_max(), 32);
}

/// start → a → b → ok | bad, where `b` is the provider of this number.
fn failing_over_to(second: u8) -> Graph {
    let config = json!({ "providerId": provider(second), "premium": true });
    Graph::read(&changed("/nodes/2/config", Some(config))).graph.unwrap()
}

#[test]
fn a_graph_goes_on_where_somebody_else_can_be_asked() {
    let facts =
        JobFacts { url: "http://x.test/", domain: "x.test", page_type: None, tags: &[], job: [0; 16] };
    let graph = failing_over_to(2);
    let walk = Walk::begin(&graph, &facts);
    let only = |n: u8| move |asked: ProviderId, _: &super::Overrides| asked == provider(n);
    assert!(walk.goes_on(&graph, &facts, only(2)));
    assert!(!walk.goes_on(&graph, &facts, only(1)), "it is about those behind the present node");
    let premium = |_: ProviderId, options: &super::Overrides| options.premium != Some(true);
    assert!(!walk.goes_on(&graph, &facts, premium), "what its node asks for counts");
    let again = failing_over_to(1);
    assert!(
        Walk::begin(&again, &facts).goes_on(&again, &facts, only(1)),
        "the same one, asked for something else"
    );
    // At the last one nobody is left, and a page that is at hand is something.
    let mut last = walk.clone();
    let failed = AttemptSummary { outcome: Outcome::Timeout, http_status: None };
    last.advance(&graph, &facts, StepEvent::Attempted(failed)).unwrap();
    assert!(!last.goes_on(&graph, &facts, |_, _| true));
    let pause = json!({ "id": "b", "type": "wait", "config": { "ms": 5 } });
    let mut drawing = two();
    drawing["nodes"][2] = pause;
    drawing["edges"] = json!([
        { "source": "start", "target": "a", "type": "always" }, { "source": "a", "target": "ok", "type": "success" },
        { "source": "a", "target": "b", "type": "failure" }, { "source": "b", "target": "bad", "type": "always" },
    ]);
    let graph = Graph::read(&dag(drawing)).graph.unwrap();
    let walk = Walk::begin(&graph, &facts);
    assert!(walk.goes_on(&graph, &facts, |_, _| false), "a pause is the drawing's own answer");
}

#[test]
fn a_walk_that_stays_counts_its_attempts_and_does_the_same_again() {
    let facts =
        JobFacts { url: "http://x.test/", domain: "x.test", page_type: None, tags: &[], job: [0; 16] };
    let retries = changed("/nodes/1/config/retries", Some(json!(1)));
    let graph = Graph::read(&retries).graph.unwrap();
    let mut walk = Walk::begin(&graph, &facts);
    let step = walk.next(&graph);
    walk.stay(&[AttemptSummary { outcome: Outcome::ProviderError, http_status: None }; 3]);
    assert_eq!((walk.next(&graph), walk.attempts, walk.tries), (step, 3, 0));
    let timeout = StepEvent::Attempted(AttemptSummary { outcome: Outcome::Timeout, http_status: None });
    walk.advance(&graph, &facts, timeout).unwrap();
    assert_eq!((walk.next(&graph), walk.attempts), (step, 4), "its tries are all left");
    let success = StepEvent::Attempted(AttemptSummary { outcome: Outcome::Success, http_status: Some(200) });
    walk.advance(&graph, &facts, success).unwrap();
    assert_eq!(walk.next(&graph), Step::End(WalkEnd::Delivered { attempt: 5 }));
}

#[test]
fn who_lost_a_race_counts_and_changes_nothing() {
    let drawing = json!({
        "nodes": [
            { "id": "start", "type": "start" },
            { "id": "race", "type": "race", "config": { "providerIds": [provider(1), provider(2), provider(3)] } },
            { "id": "ok", "type": "end", "config": { "status": "succeeded" } },
            { "id": "bad", "type": "end", "config": { "status": "failed" } },
        ],
        "edges": [
            { "source": "start", "target": "race", "type": "always" },
            { "source": "race", "target": "ok", "type": "success" },
            { "source": "race", "target": "bad", "type": "failure" },
        ],
    });
    let graph = Graph::read(&dag(drawing)).graph.unwrap();
    let facts =
        JobFacts { url: "http://x.test/", domain: "x.test", page_type: None, tags: &[], job: [0; 16] };
    let seen = |outcome, http_status| AttemptSummary { outcome, http_status };
    let lost = seen(Outcome::Canceled, None);
    for (outcome, ending) in [
        (Outcome::Success, WalkEnd::Delivered { attempt: 2 }),
        (Outcome::TargetError, WalkEnd::Answered { attempt: 2 }),
        (Outcome::Blocked, WalkEnd::Failed),
    ] {
        let mut walk = Walk::begin(&graph, &facts);
        let came = [seen(Outcome::Timeout, None), seen(outcome, Some(200)), lost];
        walk.advance(&graph, &facts, StepEvent::Raced(&came)).unwrap();
        assert_eq!((walk.next(&graph), walk.attempts), (Step::End(ending), 3), "{outcome:?}");
    }
}
