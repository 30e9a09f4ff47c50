//! What the learning of provider rankings loses against an oracle that knows the truth, beside round robin and a fixed
//! order with failover.
//!
//! `cargo bench --bench dispatch -- [SEED] [JOBS]`: 20 domains, 6 providers whose quality drifts and breaks down, 100,000
//! jobs, five worlds from the seed on (1 unless said otherwise). Deterministic: the same arguments print the same losses.

use dispatch::rank::Strategy;
use dispatch_oracle::simulate::{Fixed, Learning, Losses, RoundRobin, World, run};
use std::time::Instant;

const WORLDS: u64 = 5;
const JOBS: usize = 100_000;
const DOMAINS: usize = 20;
const PROVIDERS: usize = 6;
/// Jobs between two looks of the optimization worker: five of each domain.
const EVERY: usize = 100;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let seed = numbers.next().unwrap_or(1);
    let jobs = numbers.next().map_or(JOBS, |jobs| jobs as usize);
    println!("{DOMAINS} domains, {PROVIDERS} providers, {jobs} jobs, worlds {seed} to {}", seed + WORLDS - 1);
    for (name, strategy) in [
        ("success_rate", Strategy::SuccessRate),
        ("balanced", Strategy::Balanced),
        ("latency", Strategy::Latency),
        ("cost", Strategy::Cost),
    ] {
        println!("\nstrategy {name}");
        println!("world   learned  by turns     fixed   of turns  of fixed   moved after  drawings  tried");
        let mut sums = [0.0; 6];
        let mut nanoseconds = 0;
        for world in seed..seed + WORLDS {
            let world_ = World::new(world, jobs, DOMAINS, PROVIDERS);
            let mut policy = Learning::new(&world_, strategy, EVERY);
            let begun = Instant::now();
            let learned = run(&world_, strategy, &mut policy);
            nanoseconds += begun.elapsed().as_nanos();
            let turns = run(&world_, strategy, &mut RoundRobin);
            let fixed = run(&world_, strategy, &mut Fixed);
            let all = [learned, turns, fixed];
            for (i, losses) in all.iter().enumerate() {
                sums[i] += losses.first;
                sums[i + 3] += losses.wasted;
            }
            print_line(&world.to_string(), all.map(|losses| losses.first), &learned, &policy);
        }
        println!(
            "all   {:>9.0} {:>9.0} {:>9.0}   {:>7.1}%  {:>7.1}%",
            sums[0],
            sums[1],
            sums[2],
            100.0 * sums[0] / sums[1],
            100.0 * sums[0] / sums[2]
        );
        println!(
            "failed attempts beyond the oracle's: {:.0} learned, {:.0} by turns ({:.1}%), {:.0} fixed ({:.1}%)",
            sums[3],
            sums[4],
            100.0 * sums[3] / sums[4],
            sums[5],
            100.0 * sums[3] / sums[5]
        );
        println!(
            "{} ns a job, the world's own work included",
            nanoseconds / u128::from(WORLDS) / jobs as u128
        );
    }
}

fn print_line(world: &str, [learned, turns, fixed]: [f64; 3], losses: &Losses, policy: &Learning) {
    println!(
        "{world:>5} {learned:>9.0} {turns:>9.0} {fixed:>9.0}   {:>7.1}%  {:>7.1}%   {:>4} of {:>4}  {:>8}  {:>5}",
        100.0 * learned / turns,
        100.0 * learned / fixed,
        losses.moved_after_max,
        losses.breakdowns,
        policy.drawings,
        policy.tried
    );
}
