//! Walks through graphs.

use super::super::walk::{AttemptSummary, Step, StepEvent, Walk, WalkEnd, WrongEvent};
use super::super::{NodeKind, Overrides, draw};
use super::*;
use fetch::Outcome;

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
        assert_eq!(walk.clone().advance(&graph, facts, StepEvent::Noted), Err(WrongEvent));
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
        let NodeKind::Condition { test, .. } = &graph.nodes()[5].work else { panic!("not a condition") };
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
    let only = |n: u8| move |asked: ProviderId, _: &Overrides| asked == provider(n);
    assert!(walk.goes_on(&graph, &facts, only(2)));
    assert!(!walk.goes_on(&graph, &facts, only(1)), "it is about those behind the present node");
    let premium = |_: ProviderId, options: &Overrides| options.premium != Some(true);
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
