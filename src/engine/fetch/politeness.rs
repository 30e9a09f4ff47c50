//! How often a registrable domain may be visited, whichever provider goes there.
//!
//! Per domain: so many visits at once, a least pause between the starts of two visits (the operator's, or the longer
//! one that robots.txt asks for), and no visit at all while the target asked to be left alone (`Retry-After`). The
//! keeper answers at once and never waits: the dispatcher puts a job back with the time it was told, so no worker is
//! held. Time is an argument, which makes the rules testable and keeps all jobs of one dispatch round on one clock.
//!
//! Memory is bounded: a domain about which there is nothing left to remember is forgotten, and when more than
//! [`DOMAINS_MAX`] have something to remember, the pauses that end first are forgotten first. A domain with a visit
//! going on is never forgotten, and those are as few as there are workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::base::web::Domain;

/// Domains that are remembered at once, some 200 bytes each.
const DOMAINS_MAX: usize = 65_536;
/// The least number of domains at which it is worth looking for ones to forget.
const SWEEP_FLOOR: usize = 1024;
/// The longest that a target can keep the box away by one `Retry-After`.
pub const HOLD_MAX: Duration = Duration::from_secs(60 * 60);

/// Why a visit may not begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not before this moment.
    NotBefore(Instant),
    /// As many visits as allowed are going on; one of them has to end first.
    Busy,
}

/// Keeps count of the visits to every domain. Cheap to clone; all clones are one keeper.
#[derive(Clone)]
pub struct Politeness {
    shared: Arc<Shared>,
}

struct Shared {
    per_domain_concurrency: u32,
    min_delay: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    domains: HashMap<Domain, Visits>,
    sweep_at: usize,
}

#[derive(Default)]
struct Visits {
    running: u32,
    /// When the next visit may begin, by the pause between visits.
    next_at: Option<Instant>,
    /// Until when the target wants no visit.
    held_until: Option<Instant>,
    /// What robots.txt asks for.
    crawl_delay: Duration,
}

impl Visits {
    /// The moment before which no visit may begin.
    fn not_before(&self) -> Option<Instant> {
        self.next_at.max(self.held_until)
    }

    fn is_forgettable(&self, now: Instant) -> bool {
        self.running == 0 && self.not_before().is_none_or(|at| at <= now)
    }
}

impl Politeness {
    /// `per_domain_concurrency`: visits at once, at least one. `min_delay`: the least pause between the starts of two.
    pub fn new(per_domain_concurrency: u32, min_delay: Duration) -> Self {
        let state = Mutex::new(State { domains: HashMap::new(), sweep_at: SWEEP_FLOOR });
        let per_domain_concurrency = per_domain_concurrency.max(1);
        Self { shared: Arc::new(Shared { per_domain_concurrency, min_delay, state }) }
    }

    /// Begins a visit, which lasts until the permit is dropped, or says when to ask again.
    pub fn try_acquire(&self, domain: &Domain, now: Instant) -> Result<Permit, Wait> {
        let mut state = self.shared.state.lock();
        let visits = state.visits(domain, now);
        if let Some(at) = visits.not_before().filter(|at| *at > now) {
            return Err(Wait::NotBefore(at));
        }
        if visits.running >= self.shared.per_domain_concurrency {
            return Err(Wait::Busy);
        }
        visits.running += 1;
        let delay = self.shared.min_delay.max(visits.crawl_delay);
        visits.next_at = (!delay.is_zero()).then(|| now + delay);
        Ok(Permit { shared: Arc::clone(&self.shared), domain: domain.clone() })
    }

    /// Lets no visit begin until `until` (a target's `Retry-After`), at most [`HOLD_MAX`] from `now`. A shorter hold
    /// never cuts a longer one short.
    pub fn hold(&self, domain: &Domain, now: Instant, until: Instant) {
        let until = until.min(now + HOLD_MAX);
        if until > now {
            let mut state = self.shared.state.lock();
            let visits = state.visits(domain, now);
            visits.held_until = visits.held_until.max(Some(until));
        }
    }

    /// Notes the pause that the domain's robots.txt asks for, zero when it asks for none. A new pause counts from now.
    pub fn set_crawl_delay(&self, domain: &Domain, now: Instant, delay: Duration) {
        let mut state = self.shared.state.lock();
        let visits = state.visits(domain, now);
        if visits.crawl_delay != delay {
            visits.crawl_delay = delay;
            visits.next_at = visits.next_at.max(Some(now + delay));
        }
    }

    /// How many domains are remembered (a gauge for the metrics).
    pub fn domain_count(&self) -> usize {
        self.shared.state.lock().domains.len()
    }
}

impl State {
    /// The domain's record, made when missing; from time to time this forgets others.
    fn visits(&mut self, domain: &Domain, now: Instant) -> &mut Visits {
        if !self.domains.contains_key(domain) {
            if self.domains.len() >= self.sweep_at {
                self.sweep(now);
            }
            self.domains.insert(domain.clone(), Visits::default());
        }
        self.domains.entry(domain.clone()).or_default()
    }

    fn sweep(&mut self, now: Instant) {
        self.domains.retain(|_, visits| !visits.is_forgettable(now));
        if self.domains.len() >= DOMAINS_MAX {
            let mut ends: Vec<Instant> =
                self.domains.values().filter(|v| v.running == 0).filter_map(Visits::not_before).collect();
            ends.sort_unstable();
            if let Some(median) = ends.get(ends.len() / 2).copied() {
                self.domains.retain(|_, v| v.running > 0 || v.not_before().is_some_and(|at| at > median));
            }
        }
        // Doubling keeps the cost of sweeping constant per domain, whatever share of them survives.
        self.sweep_at = (self.domains.len() * 2).clamp(SWEEP_FLOOR, DOMAINS_MAX);
    }
}

/// A visit under way; dropping it ends the visit.
#[must_use = "dropping a permit ends the visit"]
pub struct Permit {
    shared: Arc<Shared>,
    domain: Domain,
}

impl Permit {
    /// The domain that is being visited.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Begins a further visit in the place of the one that has ended, as far as pauses are concerned: who holds a permit
    /// need not queue behind others, and still may not come too soon.
    pub fn again(&self, now: Instant) -> Result<(), Wait> {
        let min_delay = self.shared.min_delay;
        let mut state = self.shared.state.lock();
        let visits = state.visits(&self.domain, now);
        if let Some(at) = visits.not_before().filter(|at| *at > now) {
            return Err(Wait::NotBefore(at));
        }
        let delay = min_delay.max(visits.crawl_delay);
        visits.next_at = (!delay.is_zero()).then(|| now + delay);
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(visits) = self.shared.state.lock().domains.get_mut(&self.domain) {
            visits.running = visits.running.saturating_sub(1);
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn domain(text: &str) -> Domain {
        Domain::parse(text).unwrap()
    }

    #[test]
    fn limits_visits_at_once_per_domain() {
        let polite = Politeness::new(2, Duration::ZERO);
        let now = Instant::now();
        let (a, b) = (domain("a.com"), domain("b.com"));
        let first = polite.try_acquire(&a, now).unwrap();
        let _second = polite.try_acquire(&domain("www.a.com"), now).unwrap();
        assert_eq!(polite.try_acquire(&a, now).unwrap_err(), Wait::Busy);
        let _other = polite.try_acquire(&b, now).unwrap();
        drop(first);
        let _third = polite.try_acquire(&a, now).unwrap();
        assert_eq!(polite.try_acquire(&a, now).unwrap_err(), Wait::Busy);
    }

    #[test]
    fn a_further_visit_keeps_the_pauses() {
        let polite = Politeness::new(1, SECOND);
        let (a, now) = (domain("a.com"), Instant::now());
        let permit = polite.try_acquire(&a, now).unwrap();
        assert_eq!(permit.again(now + SECOND / 2), Err(Wait::NotBefore(now + SECOND)));
        assert_eq!(permit.again(now + SECOND), Ok(()), "the one permit is its own");
        assert_eq!(polite.try_acquire(&a, now + SECOND).unwrap_err(), Wait::NotBefore(now + 2 * SECOND));
        polite.hold(&a, now + SECOND, now + 9 * SECOND);
        assert_eq!(permit.again(now + 3 * SECOND), Err(Wait::NotBefore(now + 9 * SECOND)));
    }

    #[test]
    fn pauses_between_visits() {
        let polite = Politeness::new(2, SECOND);
        let (a, now) = (domain("a.com"), Instant::now());
        drop(polite.try_acquire(&a, now).unwrap());
        assert_eq!(polite.try_acquire(&a, now + SECOND / 2).unwrap_err(), Wait::NotBefore(now + SECOND));
        drop(polite.try_acquire(&a, now + SECOND).unwrap());
        // robots.txt asks for more, and is heard from the next visit on; it cannot ask for less.
        polite.set_crawl_delay(&a, now + SECOND, 5 * SECOND);
        assert_eq!(polite.try_acquire(&a, now + 2 * SECOND).unwrap_err(), Wait::NotBefore(now + 6 * SECOND));
        drop(polite.try_acquire(&a, now + 6 * SECOND).unwrap());
        assert_eq!(polite.try_acquire(&a, now + 7 * SECOND).unwrap_err(), Wait::NotBefore(now + 11 * SECOND));
        polite.set_crawl_delay(&a, now + 7 * SECOND, 5 * SECOND);
        assert_eq!(polite.try_acquire(&a, now + 7 * SECOND).unwrap_err(), Wait::NotBefore(now + 11 * SECOND));
    }

    #[test]
    fn leaves_a_target_alone_that_asked_for_it() {
        let polite = Politeness::new(2, Duration::ZERO);
        let (a, now) = (domain("a.com"), Instant::now());
        polite.hold(&a, now, now + 30 * SECOND);
        polite.hold(&a, now, now + 10 * SECOND);
        assert_eq!(polite.try_acquire(&a, now).unwrap_err(), Wait::NotBefore(now + 30 * SECOND));
        assert!(polite.try_acquire(&domain("b.com"), now).is_ok());
        assert!(polite.try_acquire(&a, now + 30 * SECOND).is_ok());
        polite.hold(&a, now, now + 100 * HOLD_MAX);
        assert_eq!(polite.try_acquire(&a, now).unwrap_err(), Wait::NotBefore(now + HOLD_MAX));
    }

    #[test]
    fn forgets_what_there_is_nothing_to_remember_about() {
        let polite = Politeness::new(1, Duration::ZERO);
        let now = Instant::now();
        let kept = polite.try_acquire(&domain("kept.com"), now).unwrap();
        let held = domain("held.com");
        polite.hold(&held, now, now + 60 * SECOND);
        for n in 0..20_000 {
            drop(polite.try_acquire(&domain(&format!("d{n}.com")), now).unwrap());
        }
        assert!(polite.domain_count() <= SWEEP_FLOOR + 1, "{}", polite.domain_count());
        assert_eq!(polite.try_acquire(kept.domain(), now).unwrap_err(), Wait::Busy);
        assert!(polite.try_acquire(&held, now).is_err());
    }

    #[test]
    fn stays_bounded_when_every_domain_holds() {
        let polite = Politeness::new(1, Duration::ZERO);
        let now = Instant::now();
        let late = domain("late.com");
        polite.hold(&late, now, now + HOLD_MAX);
        for n in 0..DOMAINS_MAX as u32 + 10 {
            polite.hold(&domain(&format!("d{n}.com")), now, now + SECOND + Duration::from_millis(n.into()));
        }
        assert!(polite.domain_count() <= DOMAINS_MAX);
        assert!(polite.try_acquire(&late, now).is_err(), "the longest hold is remembered");
    }

    #[test]
    fn many_threads_never_pass_the_limit() {
        let polite = Politeness::new(3, Duration::ZERO);
        let (a, running) = (domain("a.com"), std::sync::atomic::AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        if let Ok(_permit) = polite.try_acquire(&a, Instant::now()) {
                            use std::sync::atomic::Ordering::SeqCst;
                            assert!(running.fetch_add(1, SeqCst) < 3);
                            running.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
    }
}
