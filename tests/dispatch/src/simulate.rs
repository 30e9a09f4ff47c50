//! A world whose providers change, and policies that live in it.
//!
//! Every pair of provider and domain has a chance of success that drifts slowly, and now and then breaks down: a provider
//! everywhere, or at one domain. Failures come in clumps. What happens depends on the seed and on nothing else, least of
//! all on the policy: all policies see the same jobs and the same luck.
//!
//! The learning policy is the product's own way: samples go to boards, boards make a plan, the plan is drawn as a graph,
//! the graph is read, and each job walks it. Losses are expectations over the true chances, so luck is not in them.

use base::ids::ProviderId;
use dispatch::dag::{self, AttemptSummary, Graph, JobFacts, Step, StepEvent, Walk};
use dispatch::rank::estimate::score;
use dispatch::rank::plan::DOMAIN_SAMPLES_MIN;
use dispatch::rank::{Board, DomainBoard, Evidence, Plan, Sample, Strategy};
use fetch::Outcome;
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// A small generator with a seed (SplitMix64).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 up to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.share() * limit as f64) as usize
    }
}

/// A time in which a provider is as good as gone: everywhere, or at one domain.
struct Breakdown {
    provider: usize,
    domain: Option<usize>,
    from: usize,
    until: usize,
}

/// What is true and nobody is told.
pub struct World {
    seed: u64,
    pub jobs: usize,
    pub domains: Vec<String>,
    pub ids: Vec<ProviderId>,
    /// By provider, then domain.
    base: Vec<Vec<Drift>>,
    breakdowns: Vec<Breakdown>,
    mean_ms: Vec<f64>,
    credits: Vec<u64>,
}

struct Drift {
    middle: f64,
    swing: f64,
    period: f64,
    phase: f64,
}

/// The chance that an attempt has its pair's present mood instead of luck of its own.
const MOOD_SHARE: f64 = 0.5;
/// Jobs of all domains that a mood lasts.
const MOOD_JOBS: usize = 60;

impl World {
    pub fn new(seed: u64, jobs: usize, domains: usize, providers: usize) -> World {
        let mut dice = Dice(seed);
        let mut base = Vec::new();
        for _ in 0..providers {
            let middle = dice.between(0.55, 0.95);
            let pairs = (0..domains).map(|_| Drift {
                middle: (middle + dice.between(-0.25, 0.2)).clamp(0.05, 0.97),
                swing: dice.between(0.0, 0.12),
                period: dice.between(20_000.0, 80_000.0),
                phase: dice.between(0.0, TAU),
            });
            base.push(pairs.collect());
        }
        let mut breakdowns = Vec::new();
        for _ in 0..jobs / 15_000 {
            let from = dice.below(jobs);
            let until = from + dice.below(8_000) + 4_000;
            breakdowns.push(Breakdown { provider: dice.below(providers), domain: None, from, until });
        }
        for _ in 0..jobs * domains / 50_000 {
            let from = dice.below(jobs);
            let until = from + dice.below(25_000) + 10_000;
            let (provider, domain) = (dice.below(providers), Some(dice.below(domains)));
            breakdowns.push(Breakdown { provider, domain, from, until });
        }
        World {
            seed,
            jobs,
            domains: (0..domains).map(|d| format!("shop-{d}.example")).collect(),
            ids: (0..providers).map(|i| ProviderId(uuid::Uuid::from_u128(i as u128 + 1))).collect(),
            base,
            breakdowns,
            mean_ms: (0..providers).map(|_| dice.between(400.0, 9_000.0)).collect(),
            credits: (0..providers).map(|_| [1, 1, 5, 10, 25][dice.below(5)]).collect(),
        }
    }

    fn dice(&self, purpose: u64, a: usize, b: usize) -> Dice {
        let mut dice = Dice(self.seed ^ (purpose << 56) ^ ((a as u64) << 24) ^ b as u64);
        dice.next();
        dice
    }

    fn domain_of(&self, job: usize) -> usize {
        self.dice(1, job, 0).below(self.domains.len())
    }

    fn is_broken(&self, provider: usize, domain: usize, job: usize) -> bool {
        self.breakdowns.iter().any(|down| {
            down.provider == provider
                && down.domain.is_none_or(|at| at == domain)
                && (down.from..down.until).contains(&job)
        })
    }

    /// The chance that a provider succeeds at a domain.
    fn chance(&self, provider: usize, domain: usize, job: usize) -> f64 {
        if self.is_broken(provider, domain, job) {
            return 0.03;
        }
        let drift = &self.base[provider][domain];
        let turn = (job as f64 / drift.period * TAU + drift.phase).sin();
        (drift.middle + drift.swing * turn).clamp(0.02, 0.985)
    }

    /// What an attempt gives.
    fn attempt(&self, provider: usize, domain: usize, job: usize) -> (bool, u64) {
        let mut own = self.dice(2 + provider as u64, job, domain);
        let mood = self.dice(100 + provider as u64, job / MOOD_JOBS, domain).share();
        let luck = if own.share() < MOOD_SHARE { mood } else { own.share() };
        let good = luck < self.chance(provider, domain, job);
        // Log-normal enough: the product of a few even factors.
        let spread = (0..4).map(|_| own.between(0.6, 1.45)).product::<f64>();
        (good, (self.mean_ms[provider] * spread) as u64)
    }

    fn worth(&self, strategy: Strategy, provider: usize, domain: usize, job: usize) -> f64 {
        let chance = self.chance(provider, domain, job);
        score(strategy, chance, self.mean_ms[provider], self.credits[provider] as f64)
    }

    /// The providers by what they are worth, best first.
    fn oracle(&self, strategy: Strategy, domain: usize, job: usize) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.ids.len()).collect();
        let worth = |provider: &usize| self.worth(strategy, *provider, domain, job);
        order.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        order
    }
}

/// Whoever decides in which order providers are asked.
pub trait Policy {
    fn order(&mut self, world: &World, job: usize, domain: usize) -> Vec<usize>;

    fn learn(&mut self, _world: &World, _domain: usize, _provider: usize, _good: bool, _duration_ms: u64) {}

    /// Whether the last order was one to find something out.
    fn is_trying(&self) -> bool {
        false
    }
}

/// Each job begins with the next provider.
pub struct RoundRobin;

impl Policy for RoundRobin {
    fn order(&mut self, world: &World, job: usize, _: usize) -> Vec<usize> {
        let count = world.ids.len();
        (0..count).map(|i| (job + i) % count).collect()
    }
}

/// Every job begins with the same provider.
pub struct Fixed;

impl Policy for Fixed {
    fn order(&mut self, world: &World, _: usize, _: usize) -> Vec<usize> {
        (0..world.ids.len()).collect()
    }
}

/// The product's way.
pub struct Learning {
    strategy: Strategy,
    /// Jobs from one look at the plan to the next.
    every: usize,
    overall: Board,
    boards: Vec<Board>,
    plan: Plan,
    graph: Option<Graph>,
    pub drawings: usize,
    last: Option<dag::Dag>,
    trying: bool,
    pub tried: usize,
}

impl Learning {
    pub fn new(world: &World, strategy: Strategy, every: usize) -> Learning {
        Learning {
            strategy,
            every,
            overall: Board::default(),
            boards: world.domains.iter().map(|_| Board::default()).collect(),
            plan: Plan::default(),
            graph: None,
            drawings: 0,
            last: None,
            trying: false,
            tried: 0,
        }
    }

    fn look(&mut self, world: &World) {
        let providers: Vec<_> = world.ids.iter().copied().zip(world.credits.iter().copied()).collect();
        let places: Vec<_> = world
            .domains
            .iter()
            .zip(&self.boards)
            .map(|(domain, board)| DomainBoard { domain, board })
            .collect();
        let evidence = Evidence {
            providers: &providers,
            overall: &self.overall,
            places: &places,
            strategy: self.strategy,
            domain_samples_min: DOMAIN_SAMPLES_MIN,
        };
        self.plan = evidence.plan(&self.plan);
        let traffic: BTreeMap<&str, u64> =
            places.iter().map(|place| (place.domain, place.board.count)).collect();
        let drawing = dag::draw::ranked(&self.plan, |domain| traffic.get(domain).copied().unwrap_or(0));
        if self.last.as_ref() != Some(&drawing) {
            let reading = Graph::read(&drawing);
            assert!(reading.graph.is_some() && reading.warnings.is_empty(), "{reading:?}");
            self.graph = reading.graph;
            self.last = Some(drawing);
            self.drawings += 1;
        }
    }
}

impl Policy for Learning {
    fn order(&mut self, world: &World, job: usize, domain: usize) -> Vec<usize> {
        if job.is_multiple_of(self.every) {
            self.look(world);
        }
        let graph = self.graph.as_ref().expect("the worker has looked");
        let facts = JobFacts {
            url: "http://shop.example/",
            domain: &world.domains[domain],
            page_type: None,
            tags: &[],
            job: (job as u128 * 0x9E37_79B9_7F4A_7C15_u128).to_be_bytes(),
        };
        let mut order = Vec::new();
        let mut walk = Walk::begin(graph, &facts);
        while let Step::Attempt { node, provider, .. } = walk.next(graph) {
            if order.is_empty() {
                self.trying = node.starts_with("try-");
            }
            order.push(world.ids.iter().position(|id| *id == provider).expect("a provider of the world"));
            let seen = AttemptSummary { outcome: Outcome::Blocked, http_status: None };
            walk.advance(graph, &facts, StepEvent::Attempted(seen)).expect("a walk that goes on");
        }
        self.tried += usize::from(self.trying);
        order
    }

    fn learn(&mut self, world: &World, domain: usize, provider: usize, good: bool, duration_ms: u64) {
        let sample =
            Sample { provider: world.ids[provider], good, duration_ms, credits: world.credits[provider] };
        self.overall.observe(&sample);
        self.boards[domain].observe(&sample);
    }

    fn is_trying(&self) -> bool {
        self.trying
    }
}

/// What a policy lost over a run, against the oracle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Sum over jobs of the best provider's worth less that of the one asked first.
    pub first: f64,
    /// Expected attempts that fail before a page comes, beyond the oracle's.
    pub wasted: f64,
    /// Jobs of one domain in a row that asked a provider first which had broken down: the most.
    pub moved_after_max: usize,
    /// How often a domain came to ask a broken one first.
    pub breakdowns: usize,
}

/// Runs a policy through the world.
pub fn run(world: &World, strategy: Strategy, policy: &mut dyn Policy) -> Losses {
    let mut losses = Losses::default();
    // By domain: for how many of its jobs in a row a provider has been asked first that is broken.
    let mut asking_broken = vec![0; world.domains.len()];
    for job in 0..world.jobs {
        let domain = world.domain_of(job);
        let order = policy.order(world, job, domain);
        let best = world.oracle(strategy, domain, job);
        let worth = |provider| world.worth(strategy, provider, domain, job);
        losses.first += worth(best[0]) - worth(order[0]);
        losses.wasted += wasted(world, &order, domain, job) - wasted(world, &best, domain, job);
        if !policy.is_trying() {
            let count = &mut asking_broken[domain];
            *count = if world.is_broken(order[0], domain, job) { *count + 1 } else { 0 };
            losses.breakdowns += usize::from(*count == 1);
            losses.moved_after_max = losses.moved_after_max.max(*count);
        }
        for (i, provider) in order.iter().enumerate() {
            if order[..i].contains(provider) {
                continue;
            }
            let (good, duration_ms) = world.attempt(*provider, domain, job);
            policy.learn(world, domain, *provider, good, duration_ms);
            if good {
                break;
            }
        }
    }
    losses
}

/// The expected number of attempts that fail before one succeeds, or of all when none does.
fn wasted(world: &World, order: &[usize], domain: usize, job: usize) -> f64 {
    let (mut alive, mut wasted) = (1.0, 0.0);
    for provider in order {
        let failure = 1.0 - world.chance(*provider, domain, job);
        wasted += alive * failure;
        alive *= failure;
    }
    wasted
}
