//! The rules of a walk written down once more, plainly: a recursive interpreter of the drawing itself, without the
//! product's types. What differs between the two is wrong in one of them.

use base::ids::ProviderId;
use dispatch::dag::{Dag, DagNode};
use fetch::Outcome;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// One attempt as both walks write it down.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub node: String,
    pub provider: ProviderId,
    pub outcome: Outcome,
    pub status: Option<u16>,
    pub credits: u64,
}

/// Everything that a walk does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    /// The nodes, in the order in which they were come to.
    pub path: Vec<String>,
    pub attempts: Vec<Made>,
    pub waited_ms: u64,
    pub outputs: Vec<String>,
    /// The attempts whose pages were found too poor, as often as they were.
    pub poor: Vec<usize>,
    pub succeeded: bool,
    /// The number of the attempt that is delivered or was the target's answer.
    pub settled: Option<usize>,
    pub credits: u64,
}

/// One request.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its number; in a race by the place in the drawing.
    pub n: usize,
    pub node: &'a str,
    /// How often its node has asked before.
    pub tries: usize,
    pub provider: ProviderId,
}

/// The job, and how the world behaves: the same for both walks.
pub trait World {
    /// What an attempt gives.
    fn attempt(&self, asked: &Asked<'_>) -> (Outcome, Option<u16>);
    /// In which order the attempts of a race end, the first of which has this number.
    fn order(&self, n: usize, node: &str, count: usize) -> Vec<usize>;
    /// The quality of the page that this attempt brought.
    fn quality(&self, n: usize) -> Option<f64>;
    fn price(&self, provider: ProviderId, render: bool, premium: bool) -> u64;
    fn job(&self) -> (&str, [u8; 16], &[String], Option<&str>, bool, bool);
}

pub fn walk(dag: &Dag, world: &dyn World) -> Story {
    let start = dag.nodes.iter().find(|node| node.kind == "start").unwrap();
    let mut teller = Teller { dag, world, story: Story::default(), page: None, status: None };
    teller.visit(start);
    teller.story
}

/// The most that the drawing can charge: the dearest delivery on any way.
pub fn dearest(dag: &Dag, world: &dyn World) -> u64 {
    let start = dag.nodes.iter().find(|node| node.kind == "start").unwrap();
    let mut open = vec![start.id.as_str()];
    let mut seen: Vec<&str> = Vec::new();
    let mut most = 0;
    while let Some(id) = open.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        open.extend(dag.edges.iter().filter(|edge| edge.source == id).map(|edge| edge.target.as_str()));
        let node = dag.nodes.iter().find(|node| node.id == id).unwrap();
        let config = Value::Object(node.config.clone().unwrap_or_default());
        let (_, _, _, _, render, premium) = world.job();
        let render = config["render"].as_bool().unwrap_or(render);
        let premium = config["premium"].as_bool().unwrap_or(premium);
        let ids = config["providerIds"].as_array().cloned().unwrap_or_default();
        for id in ids.iter().chain([&config["providerId"]]).filter_map(Value::as_str) {
            most = most.max(world.price(id.parse().unwrap(), render, premium));
        }
    }
    most
}

struct Teller<'a> {
    dag: &'a Dag,
    world: &'a dyn World,
    story: Story,
    page: Option<usize>,
    status: Option<u16>,
}

impl<'a> Teller<'a> {
    fn follow(&mut self, node: &DagNode, kinds: &[&str]) {
        let of =
            |kind: &&str| self.dag.edges.iter().find(|edge| edge.source == node.id && edge.kind == *kind);
        let edge = kinds.iter().find_map(of).unwrap();
        self.visit_id(&edge.target);
    }

    fn visit_id(&mut self, id: &str) {
        let node = self.dag.nodes.iter().find(|node| node.id == id).unwrap();
        self.visit(node);
    }

    fn visit(&mut self, node: &'a DagNode) {
        self.story.path.push(node.id.clone());
        let config = node.config.clone().unwrap_or_default();
        match node.kind.as_str() {
            "start" => self.follow(node, &["always"]),
            "wait" => {
                self.story.waited_ms += config["ms"].as_u64().unwrap();
                self.follow(node, &["always"]);
            }
            "output" => {
                let id = config["outputId"].as_str().unwrap().to_owned();
                if !self.story.outputs.contains(&id) {
                    self.story.outputs.push(id);
                }
                self.follow(node, &["always"]);
            }
            "condition" => {
                let holds = self.holds(&Value::Object(config));
                self.follow(node, &[if holds { "true" } else { "false" }]);
            }
            "split" => {
                let target = self.side(node, &Value::Object(config));
                self.visit_id(&target);
            }
            "extract" => {
                let least = config.get("minQuality").and_then(Value::as_f64).unwrap_or(0.5);
                let quality = self.world.quality(self.page.unwrap());
                let good = quality.is_none() || quality.unwrap() >= least;
                if !good {
                    self.story.poor.extend(self.page);
                }
                self.follow(node, &[if good { "success" } else { "low_quality" }]);
            }
            "provider" => self.provider(node, &Value::Object(config)),
            "race" => self.race(node, &Value::Object(config)),
            "end" => {
                if config["status"] == "succeeded" {
                    let n = self.page.unwrap();
                    self.story.succeeded = true;
                    self.story.settled = Some(n);
                    self.story.credits = self.story.attempts[n - 1].credits;
                }
            }
            other => panic!("{other}"),
        }
    }

    fn make(&mut self, node: &DagNode, provider: ProviderId, tries: usize, config: &Value) -> Outcome {
        let n = self.story.attempts.len() + 1;
        let (outcome, status) = self.world.attempt(&Asked { n, node: &node.id, tries, provider });
        self.note(node, provider, config, outcome, status);
        outcome
    }

    fn note(
        &mut self,
        node: &DagNode,
        provider: ProviderId,
        config: &Value,
        outcome: Outcome,
        status: Option<u16>,
    ) {
        let (_, _, _, _, render, premium) = self.world.job();
        let render = config["render"].as_bool().unwrap_or(render);
        let premium = config["premium"].as_bool().unwrap_or(premium);
        let delivers = is_answer(outcome, status);
        let credits = if delivers { self.world.price(provider, render, premium) } else { 0 };
        self.story.attempts.push(Made { node: node.id.clone(), provider, outcome, status, credits });
        if status.is_some() {
            self.status = status;
        }
        if outcome == Outcome::Success {
            self.page = Some(self.story.attempts.len());
        }
    }

    /// The target's own answer: nothing comes after it.
    fn answered(&mut self, n: usize) {
        self.story.settled = Some(n);
        self.story.credits = self.story.attempts[n - 1].credits;
    }

    fn provider(&mut self, node: &DagNode, config: &Value) {
        let provider = config["providerId"].as_str().unwrap().parse().unwrap();
        let retries = config["retries"].as_u64().unwrap_or(0);
        let mut left = retries;
        loop {
            match self.make(node, provider, (retries - left) as usize, config) {
                Outcome::Success => return self.follow(node, &["success"]),
                Outcome::TargetError
                    if is_answer(Outcome::TargetError, self.story.attempts.last().unwrap().status) =>
                {
                    return self.answered(self.story.attempts.len());
                }
                Outcome::ProviderError => return self.follow(node, &["failure"]),
                Outcome::Blocked if left == 0 => return self.follow(node, &["blocked", "failure"]),
                Outcome::Timeout if left == 0 => return self.follow(node, &["timeout", "failure"]),
                _ if left == 0 => return self.follow(node, &["failure"]),
                _ => left -= 1,
            }
        }
    }

    fn race(&mut self, node: &DagNode, config: &Value) {
        let ids: Vec<ProviderId> = config["providerIds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_str().unwrap().parse().unwrap())
            .collect();
        let first = self.story.attempts.len() + 1;
        let order = self.world.order(first, &node.id, ids.len());
        for (i, &at) in order.iter().enumerate() {
            let asked = Asked { n: first + at, node: &node.id, tries: 0, provider: ids[at] };
            let (outcome, status) = self.world.attempt(&asked);
            self.note(node, ids[at], config, outcome, status);
            if !is_answer(outcome, status) {
                continue;
            }
            // Its number is the answer's; those that were slower stand behind it, in the order of the drawing.
            let n = self.story.attempts.len();
            let mut slower = order[i + 1..].to_vec();
            slower.sort_unstable();
            for at in slower {
                self.note(node, ids[at], config, Outcome::Canceled, None);
            }
            return match outcome {
                Outcome::Success => self.follow(node, &["success"]),
                _ => self.answered(n),
            };
        }
        self.follow(node, &["failure"]);
    }

    fn holds(&self, config: &Value) -> bool {
        let (url, _, tags, page_type, _, _) = self.world.job();
        let value = &config["value"];
        match (config["field"].as_str().unwrap(), config["op"].as_str().unwrap()) {
            ("attempts", "gt") => self.story.attempts.len() as u64 > value.as_u64().unwrap(),
            ("attempts", "eq") => self.story.attempts.len() as u64 == value.as_u64().unwrap(),
            ("httpStatus", "gte") => self.status.is_some_and(|s| u64::from(s) >= value.as_u64().unwrap()),
            ("httpStatus", "is_null") => self.status.is_none(),
            ("httpStatus", "ne") => self.status.map(u64::from) != value.as_u64(),
            ("url", "contains") => url.contains(value.as_str().unwrap()),
            ("tag", "in") => tags.iter().any(|tag| value.as_array().unwrap().contains(&tag.as_str().into())),
            ("pageType", "eq") => page_type == value.as_str(),
            (field, op) => panic!("{field} {op}"),
        }
    }

    /// The branch into whose share the hash falls.
    fn side(&self, node: &DagNode, config: &Value) -> String {
        let (url, job, ..) = self.world.job();
        let key = if config["by"] == "job" { job.to_vec() } else { url.as_bytes().to_vec() };
        let hash = digest(&SHA256, &[node.id.as_bytes(), &[0], &key].concat());
        let number = u64::from_be_bytes(hash.as_ref()[..8].try_into().unwrap());
        let edges: Vec<_> = self.dag.edges.iter().filter(|edge| edge.source == node.id).collect();
        let weight = |target: &str| config["weights"][target].as_u64().unwrap();
        let total: u64 = edges.iter().map(|edge| weight(&edge.target)).sum();
        let mut point = (u128::from(number) * u128::from(total)) >> 64;
        for edge in edges {
            let share = u128::from(weight(&edge.target));
            if point < share {
                return edge.target.clone();
            }
            point -= share;
        }
        unreachable!("the shares make up the whole")
    }
}

/// The page, or the target's own answer that is not about its passing troubles.
fn is_answer(outcome: Outcome, status: Option<u16>) -> bool {
    match outcome {
        Outcome::Success => true,
        Outcome::TargetError => status.is_none_or(|status| status < 500),
        _ => false,
    }
}
