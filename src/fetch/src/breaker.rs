//! Circuit breakers: who is left alone for a while, and for how long.
//!
//! Two kinds, because two kinds of thing break. An **account** breaks by a [`Fault`]: a refused key or a spent plan will
//! be so at the next request too, whatever its target, so one is enough. A **provider at a domain** breaks by failures
//! in a row there (a block, a timeout, a broken way): one says little, because the web fails in clumps, so it takes
//! [`FAILURES_MAX`]. Either is a small machine without I/O and without a clock of its own:
//!
//! ```text
//!             failure(s)                 pause over, one asks
//!   closed ───────────────▶ open until ────────────────────────▶ half-open: one trial, everybody else waits
//!      ▲                        ▲                                   │            │
//!      └──── success ───────────┼────────── success ────────────────┘            │
//!                               └── failure: twice the pause, up to a limit ◀────┘
//! ```
//!
//! A trial that never reports (its job was canceled, say) blocks nobody: the half-open state gives out another one
//! after [`TRIAL_TIMEOUT`]. Nothing is stored: after a restart every breaker is closed, and a broken account breaks
//! again at its first request.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::outcome::{Fault, Outcome};

/// Failures in a row at one domain before a provider is left out there.
pub const FAILURES_MAX: u32 = 5;
/// The first pause of a provider at a domain, and its longest.
const DOMAIN_PAUSE: Duration = Duration::from_secs(30);
const DOMAIN_PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// How long a trial may stay silent before another is let through.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(150);
/// How soon somebody looks again while a trial is under way.
const TRIAL_LOOK: Duration = Duration::from_secs(1);
/// Breakers that are remembered in one table, some 100 bytes each.
const ENTRIES_MAX: usize = 16_384;

/// What an attempt says to a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerReport {
    /// It works.
    Good,
    /// It says nothing about this breaker.
    Neutral,
    /// It does not work. `at_once`: one is enough. `pause`: how long it is left alone the first time; it doubles with
    /// each failed trial up to `pause_max`.
    Bad { at_once: bool, pause: Duration, pause_max: Duration },
}

impl BreakerReport {
    /// What an attempt says about the account that made it.
    pub fn on_account(fault: Option<Fault>, retry_after: Option<Duration>) -> Self {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let (pause, pause_max) = match fault {
            None => return Self::Good,
            // The request was at fault and not the account.
            Some(Fault::Unsupported) => return Self::Neutral,
            Some(Fault::BadKey) => (minutes(5), minutes(60)),
            Some(Fault::NoCredits) => (minutes(15), minutes(60)),
            Some(Fault::Throttled) => (Duration::from_secs(2), minutes(1)),
            Some(Fault::Down) => (Duration::from_secs(15), minutes(5)),
        };
        // What the provider itself asks for is believed as far as it is plausible.
        let pause = retry_after.map_or(pause, |asked| asked.max(Duration::from_secs(1)).min(minutes(60)));
        Self::Bad { at_once: true, pause, pause_max: pause_max.max(pause) }
    }

    /// What an attempt says about its provider at the target's domain; `status` is the target's. A target in trouble is
    /// left alone like one that cannot be reached: it may be so for this visitor only.
    pub fn at_domain(outcome: Outcome, status: Option<u16>) -> Self {
        let bad = Self::Bad { at_once: false, pause: DOMAIN_PAUSE, pause_max: DOMAIN_PAUSE_MAX };
        match outcome {
            _ if outcome.is_targets_trouble(status) => bad,
            // The target answered: the way there works, whatever the answer is worth.
            Outcome::Success | Outcome::TargetError | Outcome::LowQuality => Self::Good,
            Outcome::ProviderError | Outcome::Canceled => Self::Neutral,
            Outcome::Blocked | Outcome::Timeout | Outcome::NetworkError => bad,
        }
    }
}

/// Whether a request may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// Not before this moment.
    NotBefore(Instant),
}

/// One breaker.
#[derive(Debug, Clone, Copy, Default)]
pub struct Breaker {
    failures: u32,
    state: BreakerState,
}

#[derive(Debug, Clone, Copy, Default)]
enum BreakerState {
    #[default]
    Closed,
    Open {
        until: Instant,
        pause: Duration,
    },
    HalfOpen {
        since: Instant,
        pause: Duration,
    },
}

impl Breaker {
    /// Asks for leave. In the half-open state the one that gets it is the trial.
    pub fn ask(&mut self, now: Instant) -> Admission {
        let leave = self.look(now);
        if leave == Admission::Go
            && let BreakerState::Open { pause, .. } | BreakerState::HalfOpen { pause, .. } = self.state
        {
            self.state = BreakerState::HalfOpen { since: now, pause };
        }
        leave
    }

    /// What [`ask`](Self::ask) would say, without taking the trial.
    pub fn look(&self, now: Instant) -> Admission {
        match self.state {
            BreakerState::Open { until, .. } if now < until => Admission::NotBefore(until),
            // The trial's answer may come at any moment; it is looked for soon.
            BreakerState::HalfOpen { since, .. } if now < since + TRIAL_TIMEOUT => {
                Admission::NotBefore((now + TRIAL_LOOK).min(since + TRIAL_TIMEOUT))
            }
            _ => Admission::Go,
        }
    }

    /// Enters what came of a request.
    pub fn report(&mut self, report: BreakerReport, now: Instant) {
        match report {
            BreakerReport::Good => *self = Self::default(),
            // The trial said nothing, so the next one may.
            BreakerReport::Neutral => {
                if let BreakerState::HalfOpen { pause, .. } = self.state {
                    self.state = BreakerState::Open { until: now, pause };
                }
            }
            BreakerReport::Bad { at_once, pause, pause_max } => {
                self.failures = self.failures.saturating_add(1);
                let next = match self.state {
                    BreakerState::Closed if at_once || self.failures >= FAILURES_MAX => pause,
                    BreakerState::Closed => return,
                    BreakerState::HalfOpen { pause: last, .. } => {
                        (last * 2).clamp(pause, pause_max.max(pause))
                    }
                    // Requests that were under way when it opened: they are not news.
                    BreakerState::Open { .. } => return,
                };
                self.state = BreakerState::Open { until: now + next, pause: next };
            }
        }
    }

    /// Whether there is nothing to remember.
    fn is_closed(&self) -> bool {
        self.failures == 0 && matches!(self.state, BreakerState::Closed)
    }
}

/// Breakers by key. A key without one is closed; memory is bounded by forgetting those that open first.
#[derive(Debug)]
pub struct Breakers<K> {
    entries: HashMap<K, Breaker>,
}

impl<K> Default for Breakers<K> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<K: Eq + Hash + Clone> Breakers<K> {
    /// Asks for leave; see [`Breaker::ask`].
    pub fn ask(&mut self, key: &K, now: Instant) -> Admission {
        self.entries.get_mut(key).map_or(Admission::Go, |breaker| breaker.ask(now))
    }

    /// Looks without asking; see [`Breaker::look`].
    pub fn look(&self, key: &K, now: Instant) -> Admission {
        self.entries.get(key).map_or(Admission::Go, |breaker| breaker.look(now))
    }

    /// Enters what came of a request.
    pub fn report(&mut self, key: &K, report: BreakerReport, now: Instant) {
        match self.entries.get_mut(key) {
            Some(breaker) => {
                breaker.report(report, now);
                if breaker.is_closed() {
                    self.entries.remove(key);
                }
            }
            None if matches!(report, BreakerReport::Bad { .. }) => {
                if self.entries.len() >= ENTRIES_MAX {
                    self.forget_some(now);
                }
                let mut breaker = Breaker::default();
                breaker.report(report, now);
                self.entries.insert(key.clone(), breaker);
            }
            None => {}
        }
    }

    /// Whether the pause of a breaker goes on.
    pub fn is_open(&self, key: &K, now: Instant) -> bool {
        let is_open =
            |breaker: &Breaker| matches!(breaker.state, BreakerState::Open { until, .. } if now < until);
        self.entries.get(key).is_some_and(is_open)
    }

    /// Closes every breaker whose key is `chosen`.
    pub fn reset(&mut self, chosen: impl Fn(&K) -> bool) {
        self.entries.retain(|key, _| !chosen(key));
    }

    /// Lets go of those that say "go" anyway, and of the sooner half of the others where that frees nothing.
    fn forget_some(&mut self, now: Instant) {
        self.entries.retain(|_, breaker| breaker.look(now) != Admission::Go);
        if self.entries.len() >= ENTRIES_MAX {
            let end = |breaker: &Breaker| match breaker.look(now) {
                Admission::Go => now,
                Admission::NotBefore(at) => at,
            };
            let mut ends: Vec<Instant> = self.entries.values().map(end).collect();
            ends.sort_unstable();
            let median = ends[ends.len() / 2];
            self.entries.retain(|_, breaker| end(breaker) > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn wait(leave: Admission, now: Instant) -> u64 {
        match leave {
            Admission::Go => 0,
            Admission::NotBefore(at) => (at - now).as_secs(),
        }
    }

    #[test]
    fn an_account_breaks_at_once_and_heals_by_one_trial() {
        let mut breaker = Breaker::default();
        let begin = Instant::now();
        let bad = BreakerReport::on_account(Some(Fault::BadKey), None);
        assert_eq!(breaker.ask(begin), Admission::Go);
        breaker.report(bad, begin);
        assert_eq!(wait(breaker.ask(begin), begin), 300);
        let later = begin + 300 * SECOND;
        assert_eq!(breaker.ask(later), Admission::Go, "the trial");
        assert_ne!(breaker.ask(later), Admission::Go, "everybody else waits for it");
        breaker.report(bad, later);
        assert_eq!(wait(breaker.ask(later), later), 600, "twice the pause");
        let again = later + 600 * SECOND;
        assert_eq!(breaker.ask(again), Admission::Go);
        breaker.report(BreakerReport::on_account(None, None), again);
        assert_eq!((breaker.ask(again), breaker.ask(again)), (Admission::Go, Admission::Go));
        assert!(breaker.is_closed());
    }

    #[test]
    fn pauses_end_at_their_limit_and_heed_retry_after() {
        let mut breaker = Breaker::default();
        let mut now = Instant::now();
        let bad = BreakerReport::on_account(Some(Fault::Throttled), None);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(breaker.ask(now), Admission::Go);
            breaker.report(bad, now);
            pauses.push(wait(breaker.look(now), now));
            now += pauses.last().copied().unwrap_or_default() as u32 * SECOND;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        let mut breaker = Breaker::default();
        breaker.report(BreakerReport::on_account(Some(Fault::Throttled), Some(90 * SECOND)), now);
        assert_eq!(wait(breaker.look(now), now), 90);
        let mut breaker = Breaker::default();
        breaker.report(BreakerReport::on_account(Some(Fault::Down), Some(SECOND * 999_999)), now);
        assert_eq!(wait(breaker.look(now), now), 3_600, "a plausible part of it");
    }

    #[test]
    fn a_domain_breaks_by_failures_in_a_row() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for outcome in [Outcome::Timeout, Outcome::Blocked, Outcome::NetworkError, Outcome::TargetError] {
            breaker.report(BreakerReport::at_domain(outcome, Some(503)), now);
        }
        assert_eq!(breaker.look(now), Admission::Go, "four are a clump");
        breaker.report(BreakerReport::at_domain(Outcome::TargetError, Some(404)), now);
        for _ in 0..FAILURES_MAX - 1 {
            breaker.report(BreakerReport::at_domain(Outcome::Blocked, None), now);
        }
        assert_eq!(breaker.look(now), Admission::Go, "an answer between them began the count anew");
        breaker.report(BreakerReport::at_domain(Outcome::ProviderError, None), now);
        assert_eq!(breaker.look(now), Admission::Go, "the account's fault is not the domain's");
        breaker.report(BreakerReport::at_domain(Outcome::Timeout, None), now);
        assert_eq!(wait(breaker.look(now), now), 30);
    }

    #[test]
    fn a_silent_trial_and_one_that_says_nothing_block_nobody() {
        let mut breaker = Breaker::default();
        let begin = Instant::now();
        breaker.report(BreakerReport::on_account(Some(Fault::Down), None), begin);
        let later = begin + 15 * SECOND;
        assert_eq!(breaker.ask(later), Admission::Go);
        assert_eq!(wait(breaker.ask(later), later), TRIAL_LOOK.as_secs());
        assert_eq!(breaker.ask(later + TRIAL_TIMEOUT), Admission::Go, "another trial");
        breaker.report(BreakerReport::Neutral, later + TRIAL_TIMEOUT);
        assert_eq!(breaker.ask(later + TRIAL_TIMEOUT), Admission::Go, "and another");
    }

    #[test]
    fn a_table_forgets_what_is_closed_and_stays_bounded() {
        let mut breakers = Breakers::default();
        let now = Instant::now();
        let bad =
            |secs| BreakerReport::Bad { at_once: true, pause: SECOND * secs, pause_max: SECOND * 999_999 };
        breakers.report(&0, bad(5), now);
        assert_ne!(breakers.ask(&0, now), Admission::Go);
        assert_eq!(breakers.ask(&1, now), Admission::Go, "others are not concerned");
        breakers.report(&0, BreakerReport::Good, now);
        assert!(breakers.entries.is_empty());
        for key in 0..ENTRIES_MAX as u32 + 100 {
            breakers.report(&key, bad(key + 1), now);
            assert!(breakers.entries.len() <= ENTRIES_MAX);
        }
        assert_ne!(breakers.look(&(ENTRIES_MAX as u32), now), Admission::Go, "the longest pauses are kept");
        breakers.reset(|key| key % 2 == 0);
        assert_eq!(breakers.look(&(ENTRIES_MAX as u32), now), Admission::Go);
        assert_ne!(breakers.look(&(ENTRIES_MAX as u32 + 1), now), Admission::Go);
    }
}
