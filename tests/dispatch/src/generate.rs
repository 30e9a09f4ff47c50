//! Random drawings: valid ones, ones that were spoilt in a known way, and nonsense.

use crate::provider;
use dispatch::dag::{Dag, DagEdge, EdgeType, Fault, NodeType};
use serde_json::{Value, json};

fn drawing(value: Value) -> Dag {
    serde_json::from_value(value).unwrap()
}

/// A small generator with a seed (SplitMix64), so that a failing case can be repeated.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Providers that drawings name.
pub const PROVIDERS: u8 = 6;

/// What drawings may have.
#[derive(Clone, Copy)]
pub struct Palette {
    pub outputs: bool,
    pub wait_ms_max: usize,
    /// The nearest of so many random targets is where an edge leads: with more of them, ways are longer.
    pub draws: usize,
}

/// Everything.
pub const ALL: Palette = Palette { outputs: true, wait_ms_max: 60_000, draws: 1 };

/// What is known of a node before its turn comes: edges only lead forward.
#[derive(Clone, Copy)]
struct Ahead {
    reached: bool,
    page: bool,
    /// The most attempts on a way to it.
    attempts: usize,
}

/// A valid drawing of up to `size` nodes between the start and the ends.
pub fn valid(dice: &mut Dice, size: usize, palette: Palette) -> Dag {
    let count = dice.below(size) + 1;
    let mut ahead = vec![Ahead { reached: false, page: true, attempts: 0 }; count];
    let mut nodes = vec![json!({ "id": "start", "type": "start" })];
    let mut edges = Vec::new();
    let mut ends = [false, false];
    // 0 is the start; i + 1 stands for the middle node i.
    for i in 0..=count {
        let here = match i {
            0 => Ahead { reached: true, page: false, attempts: 0 },
            _ => ahead[i - 1],
        };
        let id = if i == 0 { "start".to_owned() } else { format!("n{i}") };
        let kind = if i == 0 { NodeType::Start } else { middle(dice, here, palette) };
        let branches = if kind == NodeType::Split { dice.below(3) + 1 } else { 1 };
        let (must, may) = kind.edges();
        let drawn = must.iter().chain(may.iter().filter(|_| dice.one_in(2)));
        let drawn: Vec<EdgeType> = drawn.flat_map(|kind| vec![*kind; branches]).collect();
        let mut config = config(dice, kind, palette);
        let attempts = match kind {
            NodeType::Provider => config["retries"].as_u64().unwrap_or(0) as usize + 1,
            NodeType::Race => config["providerIds"].as_array().unwrap().len(),
            _ => 0,
        };
        let mut targets = Vec::new();
        for edge in drawn {
            let delivers = matches!(kind, NodeType::Provider | NodeType::Race) && edge == EdgeType::Success;
            let page = here.page || delivers;
            let to = (0..palette.draws).map(|_| i + dice.below(count - i + 2)).min().unwrap_or(i);
            let target = match ahead.get_mut(to) {
                Some(next) => {
                    if here.reached {
                        *next = Ahead {
                            reached: true,
                            page: next.page && page,
                            attempts: next.attempts.max(here.attempts + attempts),
                        };
                    }
                    format!("n{}", to + 1)
                }
                None => {
                    let succeeded = page && !dice.one_in(4);
                    ends[usize::from(succeeded)] = true;
                    if succeeded { "ok".to_owned() } else { "bad".to_owned() }
                }
            };
            // A split has one edge to a target.
            if kind == NodeType::Split && targets.contains(&target) {
                continue;
            }
            edges.push(json!({ "source": id, "target": target, "type": edge.name() }));
            targets.push(target);
        }
        if kind == NodeType::Split {
            let mut weights: Vec<_> = targets.iter().map(|_| dice.below(5)).collect();
            weights[0] += 1;
            config["weights"] = targets.into_iter().zip(weights).map(|(id, n)| (id, json!(n))).collect();
        }
        if i > 0 {
            nodes.push(json!({ "id": id, "type": kind.name(), "config": config }));
        }
    }
    for (id, status, drawn) in [("ok", "succeeded", ends[1]), ("bad", "failed", ends[0])] {
        if drawn {
            nodes.push(json!({ "id": id, "type": "end", "config": { "status": status } }));
        }
    }
    shuffle(dice, &mut nodes);
    shuffle(dice, &mut edges);
    drawing(json!({ "nodes": nodes, "edges": edges }))
}

fn shuffle(dice: &mut Dice, all: &mut [Value]) {
    for i in (1..all.len()).rev() {
        all.swap(i, dice.below(i + 1));
    }
}

fn middle(dice: &mut Dice, here: Ahead, palette: Palette) -> NodeType {
    use NodeType::{Condition, Extract, Output, Provider, Race, Split, Wait};
    loop {
        let kind = *dice.pick(&[Provider, Provider, Provider, Race, Condition, Split, Wait, Extract, Output]);
        let has_room = here.attempts < 26 || !matches!(kind, Provider | Race);
        let may_be = (kind != Extract || here.page) && (kind != Output || palette.outputs);
        if has_room && may_be {
            return kind;
        }
    }
}

fn config(dice: &mut Dice, kind: NodeType, palette: Palette) -> Value {
    let one = |dice: &mut Dice| provider(dice.below(usize::from(PROVIDERS)) as u8);
    match kind {
        NodeType::Provider => {
            let mut config = json!({ "providerId": one(dice), "retries": dice.below(3) });
            if dice.one_in(2) {
                config["render"] = json!(dice.one_in(2));
            }
            if dice.one_in(3) {
                config["premium"] = json!(dice.one_in(2));
            }
            config
        }
        NodeType::Race => {
            let first = dice.below(usize::from(PROVIDERS));
            let ids = (0..dice.below(4) + 1).map(|i| provider((first + i) as u8 % PROVIDERS));
            json!({ "providerIds": ids.collect::<Vec<_>>() })
        }
        NodeType::Condition => dice
            .pick(&[
                json!({ "field": "attempts", "op": "gt", "value": 2 }),
                json!({ "field": "attempts", "op": "eq", "value": 1 }),
                json!({ "field": "httpStatus", "op": "gte", "value": 500 }),
                json!({ "field": "httpStatus", "op": "is_null" }),
                json!({ "field": "httpStatus", "op": "ne", "value": 403 }),
                json!({ "field": "url", "op": "contains", "value": "7" }),
                json!({ "field": "tag", "op": "in", "value": ["daily", "weekly"] }),
                json!({ "field": "pageType", "op": "eq", "value": "product" }),
            ])
            .clone(),
        NodeType::Split => json!({ "by": if dice.one_in(2) { "job" } else { "url" } }),
        NodeType::Wait => json!({ "ms": dice.below(palette.wait_ms_max + 1) }),
        NodeType::Extract => json!({ "minQuality": dice.below(11) as f64 / 10.0 }),
        NodeType::Output => json!({ "outputId": provider(200 + dice.below(3) as u8) }),
        _ => Value::Null,
    }
}

/// Spoils a valid drawing in one way; the fault that must be among what is found, or none when it could not be spoilt so.
pub fn spoil(dice: &mut Dice, dag: &mut Dag) -> Option<Fault> {
    let node = dice.below(dag.nodes.len());
    let edge = dice.below(dag.edges.len());
    if dag.nodes.is_empty() || dag.edges.is_empty() {
        return None;
    }
    Some(match dice.below(10) {
        0 => {
            dag.nodes[node].kind = "scraper".to_owned();
            Fault::NodeTypeUnknown
        }
        1 => {
            dag.edges[edge].kind = "perhaps".to_owned();
            Fault::EdgeTypeUnknown
        }
        2 => {
            let start = dag.nodes.iter().position(|node| node.kind == "start")?;
            dag.nodes.remove(start);
            Fault::MissingStart
        }
        3 => {
            let twin = dag.nodes[node].clone();
            dag.nodes.push(twin);
            Fault::DuplicateId
        }
        4 => {
            dag.edges[edge].target = "nowhere".to_owned();
            Fault::DanglingEdge
        }
        5 => {
            // Back to its own source; a start has no way in, and this is one.
            let source = dag.edges[edge].source.clone();
            dag.edges[edge].target = source;
            Fault::Cycle
        }
        6 => {
            let is_single = |edge: &&DagEdge| {
                let source = dag.nodes.iter().find(|node| node.id == edge.source);
                source.is_some_and(|source| source.kind != "split")
                    && !matches!(edge.kind.as_str(), "blocked" | "timeout")
            };
            let single = dag.edges.iter().find(is_single)?.clone();
            dag.edges.retain(|edge| *edge != single);
            Fault::MissingEdge
        }
        7 => {
            let node = dag.nodes.iter_mut().find(|node| node.kind == "provider")?;
            node.config.as_mut()?.insert("retries".to_owned(), json!(99));
            Fault::BadConfig
        }
        8 => {
            let edge = dag.edges.iter().find(|edge| edge.kind != "always")?.clone();
            dag.edges.push(edge);
            Fault::BadConfig
        }
        _ => {
            // The end that delivers is put right behind the start.
            let ok = dag.nodes.iter().position(|node| node.id == "ok")?;
            let id = dag.nodes[ok].id.clone();
            let start = dag.edges.iter_mut().find(|edge| edge.source == "start")?;
            start.target = id;
            Fault::BadConfig
        }
    })
}

/// A drawing made without any care.
pub fn nonsense(dice: &mut Dice) -> Dag {
    let ids = ["start", "a", "b", "c", "d", "ok", "bad", ""];
    let kinds = ["start", "provider", "race", "split", "wait", "extract", "condition", "end", "end", "x"];
    let edge_kinds = ["always", "success", "failure", "true", "false", "blocked", "low_quality", "?"];
    let nodes = (0..dice.below(8)).map(|i| {
        let kind = *dice.pick(&kinds);
        let config = match NodeType::named(kind) {
            Some(NodeType::End) => {
                json!({ "status": if dice.one_in(2) { "succeeded" } else { "failed" } })
            }
            Some(kind) => config(dice, kind, ALL),
            None => json!({}),
        };
        let id = if dice.one_in(6) { *dice.pick(&ids) } else { ids[i] };
        json!({ "id": id, "type": kind, "config": config })
    });
    let nodes: Vec<_> = nodes.collect();
    let edges = (0..dice.below(12)).map(
        |_| json!({ "source": dice.pick(&ids), "target": dice.pick(&ids), "type": dice.pick(&edge_kinds) }),
    );
    drawing(json!({ "nodes": nodes, "edges": edges.collect::<Vec<_>>() }))
}
