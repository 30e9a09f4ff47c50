//! What learning loses in simulated worlds.

use dispatch::rank::Strategy;
use dispatch_oracle::simulate::{Fixed, Learning, RoundRobin, World, run};

/// `benches/dispatch.rs` in small; the figures of data/docs/benchmarks.md come from there.
#[test]
fn learning_loses_less_than_turns_and_a_fixed_order() {
    let (mut learned, mut turns, mut fixed) = (0.0, 0.0, 0.0);
    for seed in 1..=2 {
        let world = World::new(seed, 12_000, 6, 4);
        let mut policy = Learning::new(&world, Strategy::SuccessRate, 30);
        let losses = run(&world, Strategy::SuccessRate, &mut policy);
        assert!(losses.moved_after_max <= 50, "{losses:?}");
        assert!(policy.tried < world.jobs / 10, "{} jobs found out", policy.tried);
        learned += losses.first;
        turns += run(&world, Strategy::SuccessRate, &mut RoundRobin).first;
        fixed += run(&world, Strategy::SuccessRate, &mut Fixed).first;
    }
    assert!(learned * 3.0 < turns, "{learned} against {turns} by turns");
    assert!(learned * 2.0 < fixed, "{learned} against {fixed} in a fixed order");
    // Deterministic: the same seed, the same losses.
    let world = World::new(1, 2_000, 3, 3);
    let again = || run(&world, Strategy::Balanced, &mut Learning::new(&world, Strategy::Balanced, 10)).first;
    assert_eq!(again(), again());
}
