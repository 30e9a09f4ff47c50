//! From sums to what is believed, and from there to a score.
//!
//! A provider's rate of success at a domain is shrunk towards its rate overall, as if that had been seen in
//! [`PRIOR_WEIGHT`] attempts there: a domain with three attempts is mostly judged by the rest of the web, one with three
//! hundred by itself. A score is taken at the lower end of a confidence interval, so that few attempts never beat many by
//! luck; the upper end says whether trying is worth it.

use super::board::{Arm, Board};
use base::ids::ProviderId;

/// Attempts that the overall rate counts for at a domain.
const PRIOR_WEIGHT: f64 = 25.0;
/// Attempts that the guess about an unknown provider counts for, and the guess.
const GUESS_WEIGHT: f64 = 4.0;
const GUESS: f64 = 0.6;
/// How far the interval reaches down and up, in standard deviations. Down it is what a provider is ranked first by, and
/// caution there keeps the box with what it knows; up it is what makes a try worthwhile. Both, like the other numbers here,
/// were chosen with `benches/dispatch.rs`.
const DEVIATIONS_DOWN: f64 = 0.5;
const DEVIATIONS_UP: f64 = 2.0;
/// Attempts overall below which a provider is not ranked before one that has them.
pub const SAMPLES_MIN: u64 = 12;
/// A delivery that takes this long is worth half as much, by strategy.
const HALF_LATENCY_MS: f64 = 3_000.0;
const HALF_BALANCED_MS: f64 = 25_000.0;
/// A delivery that costs this much is worth half as much, by strategy.
const HALF_COST: f64 = 2.0;
const HALF_BALANCED_COST: f64 = 60.0;
/// The duration that is assumed where none is known, ms.
const DURATION_MS_GUESS: f64 = 4_000.0;

/// What providers are ranked by (data/docs/api.md, "Workflows").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    SuccessRate,
    Latency,
    Cost,
    Balanced,
}

/// What is believed of one provider at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub provider: ProviderId,
    /// Attempts at this place, ever.
    pub samples: u64,
    /// Attempts anywhere, ever.
    pub samples_overall: u64,
    /// Of the attempts at this place; shrunk as described above.
    pub success_rate: f64,
    /// Where the rate lies with some confidence.
    pub interval: (f64, f64),
    /// Of deliveries, ms; none without any.
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
    /// Of an attempt, whatever came of it, ms.
    pub mean_ms: f64,
    /// Of a delivery.
    pub avg_credits: f64,
    /// From 0 to 1; by the strategy, at the interval's lower end.
    pub score: f64,
    /// The score at the upper end.
    pub hope: f64,
    /// It has broken down at this place.
    pub is_broken: bool,
}

/// What is believed of a provider at a domain (`place`), or anywhere when there is none. `price` is what a delivery
/// costs as long as none has been paid for.
pub fn estimate(
    provider: ProviderId,
    overall: &Board,
    place: Option<&Board>,
    strategy: Strategy,
    price: u64,
) -> Estimate {
    let anywhere = overall.arm(provider);
    let here = place.map_or_else(|| anywhere.clone(), |board| board.arm(provider));
    let (rate, weight) = match &anywhere {
        None => (GUESS, GUESS_WEIGHT),
        Some(arm) => {
            let weight = arm.weight + GUESS_WEIGHT;
            ((arm.good + GUESS * GUESS_WEIGHT) / weight, weight)
        }
    };
    let (rate, weight) = match (&here, place) {
        (_, None) => (rate, weight),
        (here, Some(_)) => {
            let (good, seen) = here.as_ref().map_or((0.0, 0.0), |arm| (arm.good, arm.weight));
            // What is not known overall cannot be certain here.
            let prior = PRIOR_WEIGHT.min(weight);
            ((good + rate * prior) / (seen + prior), seen + prior)
        }
    };
    let deviation = (rate * (1.0 - rate) / (weight + 1.0)).sqrt();
    let interval =
        ((rate - DEVIATIONS_DOWN * deviation).max(0.0), (rate + DEVIATIONS_UP * deviation).min(1.0));
    let sums = [here.as_ref(), anywhere.as_ref()];
    let mean_ms = blend(sums, |arm| (arm.time_ms, arm.weight)).unwrap_or(DURATION_MS_GUESS);
    let avg_credits = blend(sums, |arm| (arm.credits, arm.good)).unwrap_or(price as f64);
    let samples = |arm: &Option<Arm>| arm.as_ref().map_or(0, |arm| arm.samples);
    let quantile = |share| sums.into_iter().flatten().find_map(|arm| arm.quantile_ms(share));
    Estimate {
        provider,
        samples: samples(&here),
        samples_overall: samples(&anywhere),
        success_rate: rate,
        interval,
        p50_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        mean_ms,
        avg_credits,
        score: score(strategy, interval.0, mean_ms, avg_credits),
        hope: score(strategy, interval.1, mean_ms, avg_credits),
        is_broken: here.as_ref().is_some_and(Arm::is_broken),
    }
}

/// The ratio of two sums here, or overall where there is too little of it here.
fn blend(sums: [Option<&Arm>; 2], of: impl Fn(&Arm) -> (f64, f64)) -> Option<f64> {
    let ratio = |weight_min: f64| {
        let mut known = sums.into_iter().flatten().map(&of).filter(|(_, weight)| *weight >= weight_min);
        known.next().map(|(sum, weight)| sum / weight)
    };
    ratio(3.0).or_else(|| ratio(0.5))
}

/// What an attempt is worth that succeeds with this chance, takes this long and costs this much if it does.
pub fn score(strategy: Strategy, success: f64, mean_ms: f64, credits: f64) -> f64 {
    let halved = |value: f64, half: f64| half / (half + value.max(0.0));
    success
        * match strategy {
            Strategy::SuccessRate => 1.0,
            Strategy::Latency => halved(mean_ms, HALF_LATENCY_MS),
            Strategy::Cost => halved(credits, HALF_COST),
            Strategy::Balanced => halved(mean_ms, HALF_BALANCED_MS) * halved(credits, HALF_BALANCED_COST),
        }
}
