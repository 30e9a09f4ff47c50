//! Random graphs and random providers: the walk and the plain interpreter tell the same story; what is no graph is never
//! read as one.

use base::ids::ProviderId;
use base::terms::PageType;
use dispatch::dag::{
    ATTEMPTS_MAX, AttemptSummary, Dag, Fault, Graph, JobFacts, NODES_MAX, NodeKind, Overrides, Step,
    StepEvent, Tariff, Walk, WalkEnd,
};
use dispatch_oracle::generate::{ALL, Dice, nonsense, spoil, valid};
use dispatch_oracle::reference::{self, Asked, Made, Story, World};
use fetch::Outcome;

const CASES: u64 = 3_000;

/// A world made from a seed: whatever is asked for the same number has the same answer.
struct Random {
    seed: u64,
    url: String,
    tags: Vec<String>,
    job: [u8; 16],
    page_type: Option<PageType>,
    render: bool,
    premium: bool,
}

impl Random {
    fn new(seed: u64) -> Random {
        let mut dice = Dice(seed);
        Random {
            seed: dice.number(),
            url: format!("http://example.com/{}", dice.below(1_000)),
            tags: ["daily", "other"][..dice.below(3)].iter().map(|tag| (*tag).to_owned()).collect(),
            job: [dice.below(256) as u8; 16],
            page_type: dice.one_in(2).then_some(PageType::Product),
            render: dice.one_in(2),
            premium: dice.one_in(2),
        }
    }

    fn dice(&self, purpose: u64, n: usize) -> Dice {
        Dice(self.seed ^ (purpose << 32) ^ n as u64)
    }

    fn facts(&self) -> JobFacts<'_> {
        JobFacts {
            url: &self.url,
            domain: "example.com",
            page_type: self.page_type,
            tags: &self.tags,
            job: self.job,
        }
    }
}

impl World for Random {
    fn attempt(&self, asked: &Asked<'_>) -> (Outcome, Option<u16>) {
        let Asked { n, node, tries, provider } = *asked;
        use Outcome::{Blocked, NetworkError, ProviderError, Success, TargetError, Timeout};
        let who = u64::from(provider.0.as_bytes()[0]) + ((tries as u64) << 8) + ((node.len() as u64) << 12);
        let mut dice = self.dice(1 + who, n);
        let common = [Success, Blocked, Blocked, Timeout, Timeout, NetworkError, NetworkError, ProviderError];
        let outcome = if dice.one_in(10) { TargetError } else { *dice.pick(&common) };
        let status = match outcome {
            Success => Some(200),
            TargetError => Some(if dice.one_in(2) { 404 } else { 503 }),
            Blocked => Some(403),
            _ => None,
        };
        (outcome, status)
    }

    fn order(&self, n: usize, _: &str, count: usize) -> Vec<usize> {
        let mut dice = self.dice(100, n);
        let mut order: Vec<_> = (0..count).collect();
        for i in (1..count).rev() {
            order.swap(i, dice.below(i + 1));
        }
        order
    }

    fn quality(&self, n: usize) -> Option<f64> {
        let mut dice = self.dice(101, n);
        (!dice.one_in(5)).then(|| dice.below(11) as f64 / 10.0)
    }

    fn price(&self, provider: ProviderId, render: bool, premium: bool) -> u64 {
        let base = u64::from(provider.0.as_bytes()[0]) + 1;
        base * if premium { 25 } else { 1 } + if render { 9 } else { 0 }
    }

    fn job(&self) -> (&str, [u8; 16], &[String], Option<&str>, bool, bool) {
        let page_type = self.page_type.as_ref().map(PageType::name);
        (&self.url, self.job, &self.tags, page_type, self.render, self.premium)
    }
}

/// Drives the state machine through the world. Whenever the dice say so the walk is taken apart and put together again
/// from what a row would hold, as after a restart.
fn drive(graph: &Graph, world: &Random, dice: &mut Dice) -> Story {
    let facts = world.facts();
    let mut story = Story::default();
    let mut walk = Walk::begin(graph, &facts);
    let mut trail = Trail::default();
    loop {
        if dice.one_in(3) {
            walk = Walk { outputs: walk.outputs.clone(), ..walk };
            assert_eq!(walk.next(graph), walk.clone().next(graph));
        }
        trail.go(graph, &walk, &mut story.path);
        type Came = (Outcome, Option<u16>);
        let mut make = |node: &str, provider: ProviderId, options: &Overrides, (outcome, status): Came| {
            let render = options.render.unwrap_or(world.render);
            let premium = options.premium.unwrap_or(world.premium);
            let delivers = outcome.is_final(status);
            let credits = if delivers { world.price(provider, render, premium) } else { 0 };
            story.attempts.push(Made { node: node.to_owned(), provider, outcome, status, credits });
            AttemptSummary { outcome, http_status: status }
        };
        let first = walk.attempts as usize + 1;
        let advanced = match walk.next(graph) {
            Step::Attempt { node, provider, options } => {
                let came = world.attempt(&Asked { n: first, node, tries: walk.tries as usize, provider });
                let seen = make(node, provider, options, came);
                walk.advance(graph, &facts, StepEvent::Attempted(seen))
            }
            Step::Race { node, providers, options } => {
                let mut seen = Vec::new();
                let mut asking = providers.to_vec();
                for at in world.order(first, node, providers.len()) {
                    let provider = providers[at];
                    let came = world.attempt(&Asked { n: first + at, node, tries: 0, provider });
                    asking.retain(|other| *other != provider);
                    seen.push(make(node, provider, options, came));
                    if came.0.is_final(came.1) {
                        break;
                    }
                }
                let won = seen.last().is_some_and(AttemptSummary::is_final);
                for lost in asking.into_iter().filter(|_| won) {
                    seen.push(make(node, lost, options, (Outcome::Canceled, None)));
                }
                walk.advance(graph, &facts, StepEvent::Raced(&seen))
            }
            Step::Wait { ms } => {
                story.waited_ms += u64::from(ms);
                walk.advance(graph, &facts, StepEvent::Waited)
            }
            Step::Extract { min_quality } => {
                let page = walk.page.unwrap() as usize;
                let quality = world.quality(page);
                story.poor.extend(quality.filter(|quality| *quality < min_quality).map(|_| page));
                walk.advance(graph, &facts, StepEvent::Judged(quality))
            }
            Step::Output { .. } => walk.advance(graph, &facts, StepEvent::Noted),
            Step::End(ending) => {
                let settled = match ending {
                    WalkEnd::Delivered { attempt } | WalkEnd::Answered { attempt } => Some(attempt as usize),
                    WalkEnd::Failed => None,
                    WalkEnd::Lost => panic!("a walk that was read does not get lost"),
                };
                story.succeeded = matches!(ending, WalkEnd::Delivered { .. });
                story.settled = settled;
                story.credits = settled.map_or(0, |n| story.attempts[n - 1].credits);
                story.outputs = walk.outputs.iter().map(ToString::to_string).collect();
                return story;
            }
        };
        advanced.unwrap();
    }
}

/// Fills in the nodes that a walk passes without stopping, so that whole paths can be compared: between two stops there is
/// exactly one way through conditions and splits, the one that the reference took; it must be one that the graph has.
#[derive(Default)]
struct Trail {
    last: Option<usize>,
}

impl Trail {
    fn go(&mut self, graph: &Graph, walk: &Walk, path: &mut Vec<String>) {
        if self.last != Some(walk.at) {
            self.last = Some(walk.at);
            path.push(graph.nodes()[walk.at].id.clone());
        }
    }
}

/// The stops of a path: nodes that only decide are left out.
fn stops(dag: &Dag, path: &[String]) -> Vec<String> {
    let passes = |id: &String| {
        let kind = &dag.nodes.iter().find(|node| node.id == *id).unwrap().kind;
        matches!(kind.as_str(), "start" | "condition" | "split")
    };
    path.iter().filter(|id| !passes(id)).cloned().collect()
}

#[test]
fn the_walk_tells_the_story_of_the_plain_interpreter() {
    let (mut endings, mut attempts) = ([0usize; 3], 0);
    for seed in 0..CASES {
        let mut dice = Dice(seed);
        let dag = valid(&mut dice, 40, ALL);
        let reading = Graph::read(&dag);
        let drawn = || serde_json::to_string(&dag).unwrap();
        let graph =
            reading.graph.as_ref().unwrap_or_else(|| panic!("seed {seed}: {:?} {}", reading.errors, drawn()));
        assert!(graph.nodes().len() <= NODES_MAX && graph.attempts_max() <= ATTEMPTS_MAX);
        for turn in 0..4 {
            let world = Random::new(seed * 4 + turn);
            let mut expected = reference::walk(&dag, &world);
            let found = drive(graph, &world, &mut dice);
            expected.path = stops(&dag, &expected.path);
            assert_eq!(found, expected, "seed {seed}, turn {turn}: {}", drawn());
            let tariff = Tariff { render: world.render, premium: world.premium };
            let price = |id, tariff: Tariff| world.price(id, tariff.render, tariff.premium);
            let most = graph.credits_max(Some(tariff), price);
            assert!(found.credits <= most, "seed {seed}: charged {} of at most {most}", found.credits);
            assert_eq!(most, reference::dearest(&dag, &world));
            assert!(most <= graph.credits_max(None, price));
            assert!(found.attempts.len() <= graph.attempts_max() as usize);
            endings[if found.succeeded { 0 } else { 1 + usize::from(found.settled.is_some()) }] += 1;
            attempts += found.attempts.len();
        }
    }
    // The worlds are mixed enough to have seen everything.
    assert!(endings.iter().all(|count| *count > 200), "{endings:?}");
    assert!(attempts > 10_000, "{attempts}");
}

#[test]
fn a_spoilt_graph_is_never_read() {
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    for seed in 0..CASES {
        let mut dice = Dice(seed ^ 0xBAD);
        let mut dag = valid(&mut dice, 20, ALL);
        let Some(fault) = spoil(&mut dice, &mut dag) else { continue };
        let reading = Graph::read(&dag);
        let drawn = || serde_json::to_string(&dag).unwrap();
        assert!(reading.graph.is_none(), "seed {seed}: {} was not seen in {}", fault.name(), drawn());
        let found = reading.errors.iter().any(|problem| problem.fault == fault);
        // A back edge may be a second edge of its node's, or be hidden by it.
        assert!(found || fault == Fault::Cycle, "seed {seed}: no {} in {:?}", fault.name(), reading.errors);
        *seen.entry(fault.name()).or_default() += 1;
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}

/// Whatever is thrown at the reader: it answers, and a graph that it gives has what a graph promises.
#[test]
fn nonsense_is_refused_or_holds() {
    let mut read = 0;
    for seed in 0..40_000 {
        let mut dice = Dice(seed ^ 0xF00D);
        let mut dag = nonsense(&mut dice);
        if dice.one_in(3) {
            dag = valid(&mut dice, 8, ALL);
            for _ in 0..dice.below(3) {
                spoil(&mut dice, &mut dag);
            }
        }
        let reading = Graph::read(&dag);
        assert_eq!(reading.graph.is_some(), reading.errors.is_empty());
        let Some(graph) = reading.graph else { continue };
        read += 1;
        promises(&dag, &graph);
        drive(&graph, &Random::new(seed), &mut dice);
    }
    assert!(read > 1_000, "only {read} of them were graphs");
}

fn promises(dag: &Dag, graph: &Graph) {
    assert_eq!(graph.nodes().len(), dag.nodes.len());
    let starts = graph.nodes().iter().filter(|node| matches!(node.work, NodeKind::Start { .. })).count();
    assert_eq!(starts, 1);
    let mut ids: Vec<_> = graph.nodes().iter().map(|node| &node.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), graph.nodes().len());
    // Following edges from anywhere for as many steps as there are nodes comes to an end.
    for first in &dag.nodes {
        let mut open = vec![first.id.as_str()];
        for _ in 0..dag.nodes.len() {
            let next = dag.edges.iter().filter(|edge| open.contains(&edge.source.as_str()));
            open = next.map(|edge| edge.target.as_str()).collect();
        }
        assert!(open.is_empty(), "a cycle from {}", first.id);
    }
}
