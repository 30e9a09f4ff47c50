//! How often a registrable domain and its hosts may be visited, whichever provider goes there.
//!
//! Per registrable domain: so many visits at once, and the operator's least pause between the starts of two. Per host,
//! because a pause belongs to whoever asked for it: the pause that its robots.txt asks for (`Crawl-delay`), and no visit
//! at all while it asked to be left alone (`Retry-After`). What one host of a redirect chain says holds for that host and
//! for nobody before it, and no host can ask for more than [`VisitLimits::pause_max`]. The keeper answers at once and never
//! waits: the dispatcher asks again when it was told to, so no worker is held. Time is an argument, which makes the rules
//! testable and keeps all jobs of one dispatch round on one clock.
//!
//! Memory is bounded: what there is nothing left to remember about is forgotten, and when more than [`forgetful::REMEMBERED_MAX`]
//! have something to remember, the pauses that end first are forgotten first. A domain with a visit going on is never
//! forgotten, and those are as few as there are workers.

mod forgetful;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use base::web::Domain;
use forgetful::{ForgetfulMap, Forgettable};

/// The longest pause that a host can ask for, unless the operator says otherwise.
pub const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// How the box behaves towards those it visits.
#[derive(Debug, Clone, Copy)]
pub struct VisitLimits {
    /// Visits at once to one registrable domain, at least one.
    pub per_domain_concurrency: u32,
    /// The least pause between the starts of two visits to one registrable domain.
    pub min_delay: Duration,
    /// The longest pause that a host is granted, by `Retry-After` or by its robots.txt.
    pub pause_max: Duration,
}

/// Who wants to visit a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitorKind {
    Usual,
    /// Somebody whom others' long visits keep out: begins beside them, up to as many again as the limit allows. A page that
    /// has not answered for seconds is no load that the limit spares its site.
    KeptOut,
}

impl VisitLimits {
    /// So many visits at once with so long a pause between their starts, and pauses of up to [`PAUSE_MAX`].
    pub fn new(per_domain_concurrency: u32, min_delay: Duration) -> Self {
        Self { per_domain_concurrency: per_domain_concurrency.max(1), min_delay, pause_max: PAUSE_MAX }
    }

    fn of(&self, guest: VisitorKind) -> VisitLimits {
        let times = match guest {
            VisitorKind::Usual => 1,
            VisitorKind::KeptOut => 2,
        };
        VisitLimits { per_domain_concurrency: self.per_domain_concurrency.saturating_mul(times), ..*self }
    }
}

/// Why a visit may not begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitWait {
    /// No visit of the domain before this moment.
    NotBefore(Instant),
    /// No visit of this host before this moment; others of the domain are free.
    HostNotBefore(Instant),
    /// As many visits as allowed are going on; one of them has to end first.
    Busy,
}

/// Why a host is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseReason {
    /// It answered with `Retry-After`.
    RetryAfter,
    /// Its robots.txt names a `Crawl-delay`.
    CrawlDelay,
}

/// Keeps count of the visits to every domain. Cheap to clone; all clones are one keeper.
#[derive(Clone)]
pub struct Politeness {
    shared: Arc<PolitenessShared>,
}

struct PolitenessShared {
    pace: VisitLimits,
    state: Mutex<VisitState>,
}

#[derive(Default)]
struct VisitState {
    domains: ForgetfulMap<Domain, DomainVisits>,
    hosts: ForgetfulMap<Box<str>, HostPauses>,
    /// Domains that somebody was turned away from because they were busy, and that are not so any more.
    freed: Vec<Domain>,
    /// Domains whose turn was given back.
    returned: Vec<Domain>,
}

#[derive(Default)]
struct DomainVisits {
    running: u32,
    /// When the next visit may begin, by the operator's pause between visits.
    next_at: Option<Instant>,
    /// Somebody was told that it is busy.
    is_wanted: bool,
}

#[derive(Default)]
struct HostPauses {
    /// When the next visit may begin, by `crawl_delay`.
    next_at: Option<Instant>,
    /// Until when the host wants no visit.
    held_until: Option<Instant>,
    /// What its robots.txt asks for.
    crawl_delay: Duration,
}

impl HostPauses {
    fn not_before(&self) -> Option<Instant> {
        self.next_at.max(self.held_until)
    }
}

impl Forgettable for DomainVisits {
    fn ends(&self) -> Result<Option<Instant>, ()> {
        if self.running > 0 { Err(()) } else { Ok(self.next_at) }
    }
}

impl Forgettable for HostPauses {
    fn ends(&self) -> Result<Option<Instant>, ()> {
        Ok(self.not_before())
    }
}

impl Politeness {
    pub fn new(pace: VisitLimits) -> Self {
        let pace = VisitLimits { per_domain_concurrency: pace.per_domain_concurrency.max(1), ..pace };
        Self { shared: Arc::new(PolitenessShared { pace, state: Mutex::default() }) }
    }

    /// Begins a visit to a host of the domain, which lasts until the permit is dropped, or says when to ask again.
    pub fn try_acquire(&self, domain: &Domain, host: &str, now: Instant) -> Result<Permit, VisitWait> {
        self.try_acquire_as(VisitorKind::Usual, domain, host, now)
    }

    /// The same for a guest.
    pub fn try_acquire_as(
        &self,
        guest: VisitorKind,
        domain: &Domain,
        host: &str,
        now: Instant,
    ) -> Result<Permit, VisitWait> {
        let mut state = self.shared.state.lock();
        state.look(&self.shared.pace.of(guest), domain, host, now)?;
        let visits = state.domains.of(domain.clone(), now);
        visits.running += 1;
        let turn = state.begin(&self.shared.pace, domain, host, now);
        Ok(Permit { shared: Arc::clone(&self.shared), domain: domain.clone(), host: host.into(), turn })
    }

    /// What [`Politeness::try_acquire`] would say, without beginning a visit. Who is told that the domain is busy finds it
    /// in [`Politeness::take_freed`] when it is so no longer.
    pub fn look(
        &self,
        guest: VisitorKind,
        domain: &Domain,
        host: &str,
        now: Instant,
    ) -> Result<(), VisitWait> {
        self.shared.state.lock().look(&self.shared.pace.of(guest), domain, host, now)
    }

    /// Begins a visit to a further host of a domain that is being visited, as far as the host's own pauses are concerned.
    pub fn enter(&self, host: &str, now: Instant) -> Result<(), VisitWait> {
        let mut state = self.shared.state.lock();
        state.look_at_host(host, now)?;
        state.begin_at_host(host, now);
        Ok(())
    }

    /// How many visits to one domain may go on at once.
    pub fn at_once(&self) -> u32 {
        self.shared.pace.per_domain_concurrency
    }

    /// How many visits to the domain may begin beside those that are going on.
    pub fn free(&self, domain: &Domain) -> u32 {
        let state = self.shared.state.lock();
        let running = state.domains.look(domain).map_or(0, |visits| visits.running);
        self.shared.pace.per_domain_concurrency.saturating_sub(running)
    }

    /// Domains that somebody was turned away from and that have had a visit end since.
    pub fn take_freed(&self) -> Vec<Domain> {
        std::mem::take(&mut self.shared.state.lock().freed)
    }

    /// Domains at which a turn was given back since ([`Permit::unused`]): what was said of their pauses meanwhile is not so.
    pub fn take_returned(&self) -> Vec<Domain> {
        std::mem::take(&mut self.shared.state.lock().returned)
    }

    /// Lets no visit of the host begin until `until` (its `Retry-After`), as far as it is granted. A shorter hold never
    /// cuts a longer one short.
    pub fn hold(&self, host: &str, now: Instant, until: Instant) {
        let until = until.min(now + self.shared.pace.pause_max);
        if until > now {
            let mut state = self.shared.state.lock();
            let pauses = state.hosts.of(host.into(), now);
            pauses.held_until = pauses.held_until.max(Some(until));
        }
    }

    /// Notes the pause that the host's robots.txt asks for, zero when it asks for none. A new pause counts from now.
    pub fn set_crawl_delay(&self, host: &str, now: Instant, delay: Duration) {
        let delay = delay.min(self.shared.pace.pause_max);
        let mut state = self.shared.state.lock();
        if delay.is_zero() && state.hosts.look(host).is_none() {
            return;
        }
        let pauses = state.hosts.of(host.into(), now);
        if pauses.crawl_delay != delay {
            pauses.crawl_delay = delay;
            pauses.next_at = if delay.is_zero() { None } else { pauses.next_at.max(Some(now + delay)) };
        }
    }

    /// Until when the host is left alone because it asked for that, and by what.
    pub fn asked_pause(&self, host: &str, now: Instant) -> Option<(Instant, PauseReason)> {
        let state = self.shared.state.lock();
        let pauses = state.hosts.look(host)?;
        let until = pauses.not_before().filter(|until| *until > now)?;
        let is_hold = pauses.held_until == Some(until);
        Some((until, if is_hold { PauseReason::RetryAfter } else { PauseReason::CrawlDelay }))
    }

    /// How many domains and hosts are remembered (a gauge for the metrics).
    pub fn remembered(&self) -> usize {
        let state = self.shared.state.lock();
        state.domains.entries.len() + state.hosts.entries.len()
    }
}

impl VisitState {
    fn look(
        &mut self,
        pace: &VisitLimits,
        domain: &Domain,
        host: &str,
        now: Instant,
    ) -> Result<(), VisitWait> {
        self.look_at_host(host, now)?;
        let Some(visits) = self.domains.entries.get_mut(domain) else { return Ok(()) };
        if let Some(until) = visits.next_at.filter(|until| *until > now) {
            return Err(VisitWait::NotBefore(until));
        }
        if visits.running >= pace.per_domain_concurrency {
            visits.is_wanted = true;
            return Err(VisitWait::Busy);
        }
        Ok(())
    }

    fn look_at_host(&self, host: &str, now: Instant) -> Result<(), VisitWait> {
        match self.hosts.look(host).and_then(HostPauses::not_before) {
            Some(until) if until > now => Err(VisitWait::HostNotBefore(until)),
            _ => Ok(()),
        }
    }

    /// Notes that a visit begins, and gives what it puts off.
    fn begin(&mut self, pace: &VisitLimits, domain: &Domain, host: &str, now: Instant) -> VisitStart {
        let mut turn = VisitStart::default();
        if !pace.min_delay.is_zero() {
            turn.domain = Some(Postponement::by(
                &mut self.domains.of(domain.clone(), now).next_at,
                now + pace.min_delay,
            ));
        }
        turn.host = self.begin_at_host(host, now);
        turn
    }

    fn begin_at_host(&mut self, host: &str, now: Instant) -> Option<Postponement> {
        let pauses = self.hosts.entries.get_mut(host).filter(|pauses| !pauses.crawl_delay.is_zero())?;
        let until = now + pauses.crawl_delay;
        Some(Postponement::by(&mut pauses.next_at, until))
    }
}

/// When the next visit might have begun, and when it may begin now.
#[derive(Clone, Copy)]
struct Postponement {
    before: Option<Instant>,
    until: Instant,
}

impl Postponement {
    fn by(next_at: &mut Option<Instant>, until: Instant) -> Postponement {
        Postponement { before: next_at.replace(until), until }
    }

    /// Takes it back, unless somebody else has put it off since.
    fn take_back(self, next_at: &mut Option<Instant>) {
        if *next_at == Some(self.until) {
            *next_at = self.before;
        }
    }
}

/// What a visit puts off as it begins.
#[derive(Clone, Copy, Default)]
struct VisitStart {
    domain: Option<Postponement>,
    host: Option<Postponement>,
}

/// A visit under way; dropping it ends the visit.
#[must_use = "dropping a permit ends the visit"]
pub struct Permit {
    shared: Arc<PolitenessShared>,
    domain: Domain,
    host: Box<str>,
    turn: VisitStart,
}

impl Permit {
    /// The domain that is being visited.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Begins a further visit in the place of the one that has ended, as far as pauses are concerned: who holds a permit
    /// need not queue behind others, and still may not come too soon.
    pub fn again(&self, now: Instant) -> Result<(), VisitWait> {
        let mut state = self.shared.state.lock();
        // Its own place is not asked for again.
        let pace = VisitLimits { per_domain_concurrency: u32::MAX, ..self.shared.pace };
        state.look(&pace, &self.domain, &self.host, now)?;
        state.begin(&pace, &self.domain, &self.host, now);
        Ok(())
    }

    /// Gives the turn back of a visit that nobody made: the next one may begin as if this had not been.
    pub fn unused(self) {
        let mut state = self.shared.state.lock();
        if let (Some(put_off), Some(visits)) = (self.turn.domain, state.domains.entries.get_mut(&self.domain))
        {
            put_off.take_back(&mut visits.next_at);
        }
        if let (Some(put_off), Some(pauses)) = (self.turn.host, state.hosts.entries.get_mut(&self.host)) {
            put_off.take_back(&mut pauses.next_at);
        }
        state.returned.push(self.domain.clone());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Some(visits) = state.domains.entries.get_mut(&self.domain) {
            visits.running = visits.running.saturating_sub(1);
            if std::mem::take(&mut visits.is_wanted) {
                state.freed.push(self.domain.clone());
            }
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::forgetful::{REMEMBERED_MAX, SWEEP_FLOOR};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn domain(text: &str) -> Domain {
        Domain::parse(text).unwrap()
    }

    fn polite(per_domain: u32, min_delay: Duration) -> Politeness {
        Politeness::new(VisitLimits::new(per_domain, min_delay))
    }

    /// A visit to the host that is the whole domain.
    fn visit(polite: &Politeness, place: &str, now: Instant) -> Result<Permit, VisitWait> {
        polite.try_acquire(&domain(place), place, now)
    }

    #[test]
    fn limits_visits_at_once_per_domain() {
        let polite = polite(2, Duration::ZERO);
        let now = Instant::now();
        let first = visit(&polite, "a.com", now).unwrap();
        let _second = visit(&polite, "www.a.com", now).unwrap();
        assert_eq!(visit(&polite, "a.com", now).unwrap_err(), VisitWait::Busy);
        let _other = visit(&polite, "b.com", now).unwrap();
        assert_eq!((polite.free(&domain("a.com")), polite.free(&domain("b.com"))), (0, 1));
        assert!(polite.take_freed().is_empty());
        drop(first);
        assert_eq!(polite.take_freed(), [domain("a.com")], "somebody was turned away there");
        let _third = visit(&polite, "a.com", now).unwrap();
        assert_eq!(visit(&polite, "a.com", now).unwrap_err(), VisitWait::Busy);
        assert!(polite.take_freed().is_empty());
    }

    #[test]
    fn a_further_visit_keeps_the_pauses() {
        let polite = polite(1, SECOND);
        let now = Instant::now();
        let permit = visit(&polite, "a.com", now).unwrap();
        assert_eq!(permit.again(now + SECOND / 2), Err(VisitWait::NotBefore(now + SECOND)));
        assert_eq!(permit.again(now + SECOND), Ok(()), "the one permit is its own");
        let late = visit(&polite, "a.com", now + SECOND).unwrap_err();
        assert_eq!(late, VisitWait::NotBefore(now + 2 * SECOND));
        polite.hold("a.com", now + SECOND, now + 9 * SECOND);
        assert_eq!(permit.again(now + 3 * SECOND), Err(VisitWait::HostNotBefore(now + 9 * SECOND)));
    }

    #[test]
    fn a_turn_that_nobody_used_is_given_back() {
        let polite = polite(2, SECOND);
        let now = Instant::now();
        polite.set_crawl_delay("a.com", now, 9 * SECOND);
        let at = now + 9 * SECOND;
        let unused = visit(&polite, "a.com", at).unwrap();
        assert_eq!(
            visit(&polite, "a.com", at + SECOND).unwrap_err(),
            VisitWait::HostNotBefore(at + 9 * SECOND)
        );
        assert_eq!(visit(&polite, "www.a.com", at).unwrap_err(), VisitWait::NotBefore(at + SECOND));
        assert!(polite.take_returned().is_empty());
        unused.unused();
        assert_eq!((polite.take_returned(), polite.free(&domain("a.com"))), (vec![domain("a.com")], 2));
        let used = visit(&polite, "a.com", at).unwrap();
        drop(used);
        assert_eq!(
            visit(&polite, "a.com", at + SECOND).unwrap_err(),
            VisitWait::HostNotBefore(at + 9 * SECOND)
        );
        // What others have put off meanwhile stays.
        let unused = visit(&polite, "b.com", at).unwrap();
        drop(visit(&polite, "b.com", at + SECOND).unwrap());
        unused.unused();
        assert_eq!(visit(&polite, "b.com", at + SECOND).unwrap_err(), VisitWait::NotBefore(at + 2 * SECOND));
    }

    #[test]
    fn a_further_host_has_pauses_of_its_own() {
        let polite = polite(1, Duration::ZERO);
        let now = Instant::now();
        let _visit = visit(&polite, "a.com", now).unwrap();
        polite.set_crawl_delay("www.a.com", now, SECOND);
        assert_eq!(polite.enter("www.a.com", now), Err(VisitWait::HostNotBefore(now + SECOND)));
        assert_eq!(polite.enter("www.a.com", now + SECOND), Ok(()), "the domain's one visit is its own");
        assert_eq!(polite.enter("www.a.com", now + SECOND), Err(VisitWait::HostNotBefore(now + 2 * SECOND)));
    }

    #[test]
    fn pauses_between_visits() {
        let polite = polite(2, SECOND);
        let now = Instant::now();
        drop(visit(&polite, "a.com", now).unwrap());
        assert_eq!(
            visit(&polite, "a.com", now + SECOND / 2).unwrap_err(),
            VisitWait::NotBefore(now + SECOND)
        );
        drop(visit(&polite, "a.com", now + SECOND).unwrap());
        // robots.txt asks for more, and is heard from the next visit on; it cannot ask for less.
        polite.set_crawl_delay("a.com", now + SECOND, 5 * SECOND);
        let asked = |at: Instant| VisitWait::HostNotBefore(at);
        assert_eq!(visit(&polite, "a.com", now + 2 * SECOND).unwrap_err(), asked(now + 6 * SECOND));
        drop(visit(&polite, "a.com", now + 6 * SECOND).unwrap());
        assert_eq!(visit(&polite, "a.com", now + 7 * SECOND).unwrap_err(), asked(now + 11 * SECOND));
        polite.set_crawl_delay("a.com", now + 7 * SECOND, 5 * SECOND);
        assert_eq!(visit(&polite, "a.com", now + 7 * SECOND).unwrap_err(), asked(now + 11 * SECOND));
        polite.set_crawl_delay("a.com", now + 7 * SECOND, Duration::ZERO);
        drop(visit(&polite, "a.com", now + 7 * SECOND).unwrap());
    }

    #[test]
    fn a_pause_is_the_hosts_that_asked_for_it_and_no_longer_than_is_granted() {
        let polite =
            Politeness::new(VisitLimits { pause_max: 60 * SECOND, ..VisitLimits::new(2, Duration::ZERO) });
        let now = Instant::now();
        polite.hold("evil.a.com", now, now + 30 * SECOND);
        polite.hold("evil.a.com", now, now + 10 * SECOND);
        let refused = visit(&polite, "evil.a.com", now).unwrap_err();
        assert_eq!(refused, VisitWait::HostNotBefore(now + 30 * SECOND));
        assert_eq!(polite.asked_pause("evil.a.com", now), Some((now + 30 * SECOND, PauseReason::RetryAfter)));
        assert!(visit(&polite, "a.com", now).is_ok() && visit(&polite, "www.a.com", now).is_ok());
        assert_eq!(polite.asked_pause("a.com", now), None);
        assert!(visit(&polite, "evil.a.com", now + 30 * SECOND).is_ok());
        polite.hold("evil.a.com", now, now + 999_999 * SECOND);
        assert_eq!(
            visit(&polite, "evil.a.com", now).unwrap_err(),
            VisitWait::HostNotBefore(now + 60 * SECOND)
        );
        polite.set_crawl_delay("slow.a.com", now, 999_999 * SECOND);
        assert_eq!(polite.asked_pause("slow.a.com", now), Some((now + 60 * SECOND, PauseReason::CrawlDelay)));
    }

    #[test]
    fn forgets_what_there_is_nothing_to_remember_about() {
        let polite = polite(1, Duration::ZERO);
        let now = Instant::now();
        let kept = visit(&polite, "kept.com", now).unwrap();
        polite.hold("held.com", now, now + 60 * SECOND);
        for n in 0..20_000 {
            drop(visit(&polite, &format!("d{n}.com"), now).unwrap());
            polite.set_crawl_delay(&format!("d{n}.com"), now, Duration::ZERO);
        }
        assert!(polite.remembered() <= SWEEP_FLOOR + 2, "{}", polite.remembered());
        assert_eq!(visit(&polite, kept.domain().as_str(), now).unwrap_err(), VisitWait::Busy);
        assert!(visit(&polite, "held.com", now).is_err());
    }

    #[test]
    fn stays_bounded_when_every_host_holds() {
        let polite = polite(1, Duration::ZERO);
        let now = Instant::now();
        polite.hold("late.com", now, now + PAUSE_MAX);
        for n in 0..REMEMBERED_MAX as u32 + 10 {
            polite.hold(&format!("d{n}.com"), now, now + SECOND + Duration::from_millis(n.into()));
        }
        assert!(polite.remembered() <= REMEMBERED_MAX);
        assert!(visit(&polite, "late.com", now).is_err(), "the longest hold is remembered");
    }

    #[test]
    fn many_threads_never_pass_the_limit() {
        let polite = polite(3, Duration::ZERO);
        let running = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        if let Ok(_permit) = visit(&polite, "a.com", Instant::now()) {
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
