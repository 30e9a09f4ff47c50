//! What boards, estimates and plans promise, one by one; in simulated worlds: `tests/dispatch`.

use super::board::{Board, Sample};
use super::estimate::{Strategy, estimate};
use super::plan::{DOMAIN_SAMPLES_MIN, DomainBoard, EXPLORE_PERMILLE, EXPLORE_PERMILLE_COLD, Evidence, Plan};
use crate::dag;
use base::ids::ProviderId;
use fetch::Outcome;
use uuid::Uuid;

fn provider(n: u128) -> ProviderId {
    ProviderId(Uuid::from_u128(n))
}

fn sample(n: u128, good: bool) -> Sample {
    Sample { provider: provider(n), good, duration_ms: 1_000, credits: 5 }
}

/// A board that has seen so many attempts, of which every `fails_every`th failed.
fn board(arms: &[(u128, usize, usize)]) -> Board {
    let mut board = Board::default();
    for (n, attempts, fails_every) in arms {
        for i in 1..=*attempts {
            board.observe(&sample(*n, i % fails_every != 0));
        }
    }
    board
}

fn evidence<'a>(
    providers: &'a [(ProviderId, u64)],
    overall: &'a Board,
    places: &'a [DomainBoard<'a>],
    strategy: Strategy,
) -> Evidence<'a> {
    Evidence { providers, overall, places, strategy, domain_samples_min: DOMAIN_SAMPLES_MIN }
}

fn plan(overall: &Board, places: &[DomainBoard<'_>], strategy: Strategy, current: &Plan) -> Plan {
    let providers: Vec<_> = (1..=3).map(|n| (provider(n), 1)).collect();
    evidence(&providers, overall, places, strategy).plan(current)
}

#[test]
fn few_attempts_never_beat_many_by_luck() {
    let overall = board(&[(1, 200, 10), (2, 4, 1_000)]);
    let of = |n| estimate(provider(n), &overall, None, Strategy::SuccessRate, 1);
    assert!(of(1).score > of(2).score, "90 % of 200 against 4 of 4: {:?} {:?}", of(1), of(2));
    assert!(of(2).hope > of(1).score, "it is worth a try");
    let order = plan(&overall, &[], Strategy::SuccessRate, &Plan::default()).overall;
    assert_eq!(order[0], provider(1));
    // With as many attempts it does.
    let overall = board(&[(1, 200, 10), (2, 200, 100)]);
    let order = plan(&overall, &[], Strategy::SuccessRate, &Plan::default()).overall;
    assert_eq!(order[..2], [provider(2), provider(1)]);
}

#[test]
fn a_domain_with_few_attempts_is_judged_by_the_rest_of_the_web() {
    let overall = board(&[(1, 300, 10), (2, 300, 3)]);
    let here = board(&[(1, 1, 1), (2, 1, 1_000)]);
    let of = |n, place| estimate(provider(n), &overall, place, Strategy::SuccessRate, 1).success_rate;
    assert!(of(1, Some(&here)) > of(2, Some(&here)), "a failure against a success proves nothing");
    let here = board(&[(1, 90, 1), (2, 90, 1_000)]);
    assert!(of(2, Some(&here)) > of(1, Some(&here)) + 0.5, "ninety do");
    let places = [DomainBoard { domain: "hard.example", board: &here }];
    let found = plan(&overall, &places, Strategy::SuccessRate, &Plan::default());
    assert_eq!(found.overall[0], provider(1));
    assert_eq!(found.of("hard.example").unwrap()[0], provider(2));
    // Too little traffic for an order of its own.
    let quiet = board(&[(1, DOMAIN_SAMPLES_MIN as usize - 1, 1)]);
    let places = [DomainBoard { domain: "quiet.example", board: &quiet }];
    assert!(plan(&overall, &places, Strategy::SuccessRate, &Plan::default()).domains.is_empty());
}

#[test]
fn two_that_are_alike_do_not_change_places() {
    let mut current =
        plan(&board(&[(1, 200, 10), (2, 200, 11)]), &[], Strategy::SuccessRate, &Plan::default());
    let first = current.overall[0];
    let mut changes = 0;
    for turn in 0..50 {
        // Now one is a little better, now the other.
        let (a, b) = if turn % 2 == 0 { (10, 11) } else { (11, 10) };
        let next = plan(&board(&[(1, 200, a), (2, 200, b)]), &[], Strategy::SuccessRate, &current);
        changes += usize::from(next.overall[0] != current.overall[0]);
        current = next;
    }
    assert_eq!((changes, current.overall[0]), (0, first));
    let next = plan(&board(&[(1, 200, 2), (2, 200, 3)]), &[], Strategy::SuccessRate, &current);
    assert_eq!(next.overall[0], provider(2), "a real difference does change it");
}

#[test]
fn a_collapse_and_a_recovery_are_noticed_within_a_dozen_attempts() {
    let mut board = board(&[(1, 300, 12)]);
    let rate = |board: &Board| {
        estimate(provider(1), &Board::default(), Some(board), Strategy::SuccessRate, 1).success_rate
    };
    assert!(rate(&board) > 0.85);
    let until = |board: &mut Board, good: bool, is_so: &dyn Fn(f64) -> bool| {
        (1..100).find(|_| {
            board.observe(&sample(1, good));
            is_so(rate(board))
        })
    };
    let down = until(&mut board, false, &|rate| rate < 0.45).unwrap();
    assert!(down <= 8, "{down} attempts");
    for _ in 0..100 {
        board.observe(&sample(1, false));
    }
    let up = until(&mut board, true, &|rate| rate > 0.55).unwrap();
    assert!(up <= 12, "{up} attempts");
    // A clump of failures that a rate of 80 % makes now and then changes little.
    let mut clumpy = Board::default();
    for i in 0..300 {
        clumpy.observe(&sample(1, i % 20 > 3));
    }
    assert!((0.7..0.86).contains(&rate(&clumpy)), "{}", rate(&clumpy));
}

#[test]
fn an_arm_that_nobody_tries_becomes_unknown_again() {
    let mut board = board(&[(1, 200, 20), (2, 200, 2)]);
    let weight = |board: &Board| board.arm(provider(2)).unwrap().weight;
    let before = weight(&board);
    for _ in 0..5_000 {
        board.observe(&sample(1, true));
    }
    assert!(weight(&board) < before / 5.0, "{before} → {}", weight(&board));
}

#[test]
fn a_strategy_ranks_by_what_it_is_named_after() {
    let mut overall = Board::default();
    // Slow and sure, fast and less sure, cheap and worse.
    for i in 0..200 {
        for (n, fails_every, duration_ms, credits) in [(1, 50, 9_000, 25), (2, 8, 400, 10), (3, 4, 6_000, 1)]
        {
            let good = i % fails_every != 0;
            overall.observe(&Sample { provider: provider(n), good, duration_ms, credits });
        }
    }
    let first = |strategy| plan(&overall, &[], strategy, &Plan::default()).overall[0];
    assert_eq!(first(Strategy::SuccessRate), provider(1));
    assert_eq!(first(Strategy::Latency), provider(2));
    assert_eq!(first(Strategy::Cost), provider(3));
    let of = |n| estimate(provider(n), &overall, None, Strategy::Latency, 0);
    assert!((300..500).contains(&of(2).p50_ms.unwrap()), "{:?}", of(2));
    assert!((7_000..11_000).contains(&of(1).p95_ms.unwrap()), "{:?}", of(1));
    assert_eq!((of(1).avg_credits.round(), of(3).avg_credits.round()), (25.0, 1.0));
    assert!(estimate(provider(9), &overall, None, Strategy::Cost, 7).avg_credits == 7.0, "its price");
}

#[test]
fn finding_out_is_bounded() {
    let share = |plan: &Plan| plan.explore.iter().map(|(_, share)| share).sum::<u32>();
    let cold = plan(&Board::default(), &[], Strategy::Balanced, &Plan::default());
    assert!((1..=EXPLORE_PERMILLE_COLD).contains(&share(&cold)), "{cold:?}");
    let known = board(&[(1, 300, 20), (2, 300, 4), (3, 300, 2)]);
    let places = [DomainBoard { domain: "a.example", board: &known }];
    let known = plan(&known, &places, Strategy::Balanced, &cold);
    assert!((1..=EXPLORE_PERMILLE).contains(&share(&known)), "{known:?}");
    assert!(known.explore.iter().all(|(id, _)| *id != provider(1)), "the first needs no try: {known:?}");
    let alone = [(provider(1), 1)];
    let evidence = Evidence {
        domain_samples_min: 1,
        providers: &alone,
        overall: &Board::default(),
        places: &[],
        strategy: Strategy::Cost,
    };
    assert!(evidence.plan(&Plan::default()).explore.is_empty());
}

#[test]
fn a_board_stays_bounded() {
    let mut board = Board::default();
    for n in 0..1_000 {
        board.observe(&sample(n, n % 3 == 0));
    }
    assert_eq!(board.arms.len(), super::board::ARMS_MAX);
    assert!(board.arms.contains_key(&provider(999)) && !board.arms.contains_key(&provider(0)));
}

/// A hundred domains that all want another order: what is drawn is a graph, and the busiest keep most of theirs.
#[test]
fn a_plan_with_many_orders_still_fits_a_graph() {
    let ids: Vec<_> = (1..=10).map(provider).collect();
    let rotated = |n: usize| (0..10).map(|i| ids[(i * 3 + n) % 10]).collect::<Vec<_>>();
    let mut domains: Vec<_> = (0..100).map(|n| (format!("d{n:02}.example"), rotated(n))).collect();
    domains.sort();
    let plan = Plan { overall: ids.clone(), domains, explore: ids.iter().map(|id| (*id, 4)).collect() };
    let traffic = |domain: &str| 1_000 - domain[1..3].parse::<u64>().unwrap();
    let drawing = dag::draw::ranked(&plan, traffic);
    let reading = dag::Graph::read(&drawing);
    let graph = reading.graph.unwrap_or_else(|| panic!("{:?}", reading.errors));
    assert!(reading.warnings.is_empty() && graph.nodes().len() <= dag::NODES_MAX);
    let order = |domain: &str| {
        let facts =
            dag::JobFacts { url: "http://x.example/", domain, page_type: None, tags: &[], job: [3; 16] };
        let mut walk = dag::Walk::begin(&graph, &facts);
        let mut order = Vec::new();
        while let dag::Step::Attempt { node, provider, .. } = walk.next(&graph) {
            order.extend((!node.starts_with("try-")).then_some(provider));
            let seen = dag::AttemptSummary { outcome: Outcome::Timeout, http_status: None };
            walk.advance(&graph, &facts, dag::StepEvent::Attempted(seen)).unwrap();
        }
        order
    };
    assert_eq!(order("d01.example")[0], rotated(1)[0]);
    assert_eq!(order("unknown.example"), ids[..8]);
    for n in 0..100 {
        let found = order(&format!("d{n:02}.example"));
        let mut unique = found.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 8, "each once: {found:?}");
    }
}

/// A benchmark has ranked providers at a domain that no job has been to yet.
#[test]
fn a_domains_order_stays_until_its_own_attempts_say_otherwise() {
    let overall = board(&[(1, 200, 10), (2, 200, 8), (3, 200, 6)]);
    let of_domain = |order: [u128; 3]| ("bench.example".to_owned(), order.map(provider).to_vec());
    let current = Plan { domains: vec![of_domain([3, 2, 1])], ..Plan::default() };
    let next = plan(&overall, &[], Strategy::SuccessRate, &current);
    assert_eq!(next.overall[0], provider(1));
    assert_eq!(next.domains, [of_domain([3, 2, 1])], "nothing is known of it");
    let few = board(&[(3, DOMAIN_SAMPLES_MIN as usize - 1, 1)]);
    let places = [DomainBoard { domain: "bench.example", board: &few }];
    assert_eq!(plan(&overall, &places, Strategy::SuccessRate, &next).domains, next.domains, "too little is");
    let many = board(&[(1, 60, 100), (2, 60, 3), (3, 60, 1)]);
    let places = [DomainBoard { domain: "bench.example", board: &many }];
    let found = plan(&overall, &places, Strategy::SuccessRate, &next);
    assert_eq!(found.of("bench.example").unwrap_or(&found.overall)[0], provider(1));
    // Who was disconnected is left out, and who is new stands at the end.
    let current = Plan { domains: vec![of_domain([9, 3, 2])], ..next };
    let kept = plan(&overall, &[], Strategy::SuccessRate, &current);
    assert_eq!(kept.domains, [of_domain([3, 2, 1])]);
}
