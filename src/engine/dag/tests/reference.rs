//! The rules of a walk written down once more, plainly: a recursive interpreter of the drawing itself, without the
//! product's types. What differs between the two is wrong in one of them.

use crate::base::ids::ProviderId;
use crate::engine::dag::shape::{Dag, DagNode};
use crate::engine::fetch::Outcome;
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
    pub succeeded: bool,
    /// The number of the attempt that is delivered or was the target's answer.
    pub settled: Option<usize>,
    pub credits: u64,
}

/// The job, and how the world behaves: the same for both walks.
pub trait World {
    /// What the attempt of this number gives.
    fn attempt(&self, n: usize, provider: ProviderId) -> (Outcome, Option<u16>);
    /// In which order the attempts of a race end, the first of which has this number.
    fn order(&self, n: usize, count: usize) -> Vec<usize>;
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

    fn make(&mut self, node: &DagNode, provider: ProviderId, config: &Value) -> Outcome {
        let n = self.story.attempts.len() + 1;
        let (outcome, status) = self.world.attempt(n, provider);
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
        let delivers = matches!(outcome, Outcome::Success | Outcome::TargetError);
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
    fn answered(&mut self) {
        let n = self.story.attempts.len();
        self.story.settled = Some(n);
        self.story.credits = self.story.attempts[n - 1].credits;
    }

    fn provider(&mut self, node: &DagNode, config: &Value) {
        let provider = config["providerId"].as_str().unwrap().parse().unwrap();
        let mut left = config["retries"].as_u64().unwrap_or(0);
        loop {
            match self.make(node, provider, config) {
                Outcome::Success => return self.follow(node, &["success"]),
                Outcome::TargetError => return self.answered(),
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
        for at in self.world.order(first, ids.len()) {
            let (outcome, status) = self.world.attempt(first + at, ids[at]);
            self.note(node, ids[at], config, outcome, status);
            match outcome {
                Outcome::Success => return self.follow(node, &["success"]),
                Outcome::TargetError => return self.answered(),
                _ => {}
            }
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
