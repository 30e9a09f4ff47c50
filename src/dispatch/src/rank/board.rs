//! What is known of providers at one place: the attempts of one domain, or of all together.
//!
//! A [`Board`] holds an [`Arm`] for each provider (as in "many-armed bandit"). Sums are discounted, because providers
//! change: an arm forgets a little with each of its own attempts ([`OWN_WINDOW`]) and, more slowly, with each attempt of
//! any provider at the place ([`PLACE_WINDOW`]), so that one which is never tried becomes unknown again.
//!
//! Discounting alone follows a collapse too slowly. Each arm therefore remembers its last attempts one by one; when they
//! are all but impossible for what the sums say ([`SURPRISE`]), the sums are thrown away and begin anew with those
//! attempts. That holds for a recovery as much as for a collapse.

use base::ids::ProviderId;
use std::collections::BTreeMap;

/// Own attempts after which an arm has forgotten all but a third of what it knew.
pub const OWN_WINDOW: f64 = 150.0;
/// The same in attempts of anybody at the place.
pub const PLACE_WINDOW: f64 = 1_000.0;
/// How unlikely the last attempts must be before they are believed rather than the sums.
const SURPRISE: f64 = 5e-5;
/// Who delivers less often than this after a breakdown is broken.
const BROKEN_RATE: f64 = 0.15;
/// How many of the last attempts are looked at: a short look sees a collapse, a longer one a worsening.
const LOOKS: [u32; 4] = [5, 8, 12, 20];
/// Providers of one board; an organization connects a handful.
pub const ARMS_MAX: usize = 64;

/// Buckets of the latency histogram: from 20 ms on, each 1.4 times the one before; the last holds everything beyond
/// three minutes.
pub const BUCKETS: usize = 28;
const BUCKET_MS_FIRST: f64 = 20.0;
const BUCKET_RATIO: f64 = 1.4;

/// What one attempt says about its provider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub provider: ProviderId,
    /// Whether it brought the page, or the target's own answer.
    pub good: bool,
    pub duration_ms: u64,
    /// What a delivery costs; of no account for others.
    pub credits: u64,
}

/// One provider at one place. All numbers but `samples` are discounted.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Attempts.
    pub weight: f64,
    /// Good ones among them.
    pub good: f64,
    /// Time of all attempts, ms.
    pub time_ms: f64,
    /// Credits of the good ones.
    pub credits: f64,
    /// Good attempts by duration.
    pub latency: [f32; BUCKETS],
    /// The last attempts as bits, the newest lowest, 1 for good.
    pub recent: u32,
    /// How many of the bits are attempts.
    pub recent_len: u32,
    /// Attempts ever, not discounted.
    pub samples: u64,
    /// The board's count up to which the sums are discounted.
    pub at: u64,
    /// The board's count when the sums last began anew; 0 when they never did.
    pub changed_at: u64,
}

impl Arm {
    fn new(at: u64) -> Arm {
        Arm {
            weight: 0.0,
            good: 0.0,
            time_ms: 0.0,
            credits: 0.0,
            latency: [0.0; BUCKETS],
            recent: 0,
            recent_len: 0,
            samples: 0,
            at,
            changed_at: 0,
        }
    }

    fn scale(&mut self, factor: f64) {
        self.weight *= factor;
        self.good *= factor;
        self.time_ms *= factor;
        self.credits *= factor;
        self.latency.iter_mut().for_each(|count| *count *= factor as f32);
    }

    /// The arm as it is at the board's count `now`.
    fn aged(&self, now: u64) -> Arm {
        let mut arm = self.clone();
        arm.age(now);
        arm
    }

    fn age(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at);
        if passed > 0 {
            self.scale((-(passed as f64) / PLACE_WINDOW).exp());
            self.at = now;
        }
    }

    fn observe(&mut self, sample: &Sample, now: u64) {
        self.age(now);
        self.scale(1.0 - 1.0 / OWN_WINDOW);
        self.recent = (self.recent << 1) | u32::from(sample.good);
        self.recent_len = (self.recent_len + 1).min(u32::BITS);
        self.samples += 1;
        // Before the sample is in the sums: they are what it is compared with.
        let surprising = self.surprise();
        self.weight += 1.0;
        self.time_ms += sample.duration_ms as f64;
        if sample.good {
            self.good += 1.0;
            self.credits += sample.credits as f64;
            self.latency[bucket(sample.duration_ms)] += 1.0;
        }
        if let Some(look) = surprising {
            self.begin_anew(look);
        }
    }

    /// How many of the last attempts contradict the sums, if they do.
    fn surprise(&self) -> Option<u32> {
        // A handful of attempts says nothing that others could contradict.
        let before = self.weight;
        if before < 8.0 {
            return None;
        }
        let rate = ((self.good + 1.0) / (before + 2.0)).clamp(0.02, 0.98);
        LOOKS.into_iter().filter(|look| *look <= self.recent_len).find(|look| {
            let good = (self.recent & ones(*look)).count_ones();
            let expected = rate * f64::from(*look);
            let chance = if f64::from(good) < expected {
                (0..=good).map(|n| binomial(*look, n, rate)).sum::<f64>()
            } else {
                (good..=*look).map(|n| binomial(*look, n, rate)).sum::<f64>()
            };
            chance < SURPRISE
        })
    }

    /// Keeps of the sums as much as the last `look` attempts weigh, at their rate of success.
    fn begin_anew(&mut self, look: u32) {
        let good = f64::from((self.recent & ones(look)).count_ones());
        let rate = if self.good > 0.0 { good / self.good } else { 0.0 };
        let time = self.time_ms / self.weight.max(1.0);
        self.weight = f64::from(look);
        self.time_ms = time * self.weight;
        self.credits *= rate;
        self.latency.iter_mut().for_each(|count| *count *= rate as f32);
        self.good = good;
        self.changed_at = self.at;
        // What was believed once is not to surprise again.
        self.recent_len = look;
    }

    /// Whether it has broken down here: its sums began anew, and there is next to nothing good in them since.
    pub fn is_broken(&self) -> bool {
        self.changed_at > 0 && self.good < BROKEN_RATE * self.weight
    }

    /// The duration that this share of the good attempts stays under, ms; none without any.
    pub fn quantile_ms(&self, share: f64) -> Option<u64> {
        let total: f64 = self.latency.iter().map(|count| f64::from(*count)).sum();
        if total < 0.5 {
            return None;
        }
        let mut left = share * total;
        for (i, count) in self.latency.iter().enumerate() {
            left -= f64::from(*count);
            if left <= 1e-9 {
                return Some(middle_ms(i));
            }
        }
        Some(middle_ms(BUCKETS - 1))
    }
}

/// The providers at one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    /// Attempts of all arms, ever.
    pub count: u64,
    pub arms: BTreeMap<ProviderId, Arm>,
}

impl Board {
    /// Takes in one attempt.
    pub fn observe(&mut self, sample: &Sample) {
        if self.arms.len() >= ARMS_MAX && !self.arms.contains_key(&sample.provider) {
            // The one that was tried longest ago makes room; it is most probably gone.
            let oldest = self.arms.iter().min_by_key(|(_, arm)| arm.at).map(|(id, _)| *id);
            oldest.and_then(|id| self.arms.remove(&id));
        }
        self.count += 1;
        let now = self.count;
        self.arms.entry(sample.provider).or_insert_with(|| Arm::new(now)).observe(sample, now);
    }

    /// What is known of a provider now.
    pub fn arm(&self, provider: ProviderId) -> Option<Arm> {
        self.arms.get(&provider).map(|arm| arm.aged(self.count))
    }
}

fn ones(count: u32) -> u32 {
    u32::MAX.checked_shr(u32::BITS - count.clamp(1, u32::BITS)).unwrap_or(u32::MAX)
}

/// The chance of exactly `k` of `n` at `rate`.
fn binomial(n: u32, k: u32, rate: f64) -> f64 {
    let ways = (0..k).fold(1.0, |ways, i| ways * f64::from(n - i) / f64::from(i + 1));
    ways * rate.powi(k as i32) * (1.0 - rate).powi((n - k) as i32)
}

fn bucket(duration_ms: u64) -> usize {
    let ratio = (duration_ms as f64 / BUCKET_MS_FIRST).max(1.0);
    ((ratio.ln() / BUCKET_RATIO.ln()) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket on its logarithmic scale, ms.
fn middle_ms(bucket: usize) -> u64 {
    (BUCKET_MS_FIRST * BUCKET_RATIO.powf(bucket as f64 + 0.5)) as u64
}
