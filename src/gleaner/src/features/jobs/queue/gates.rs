//! The turns within a domain: who of those that wait for it is next.
//!
//! A domain has few visits at once. Whoever finds none free waits at the domain's gate; when one is free the gate calls
//! somebody: of the organization that has the fewest of the domain's visits, and of those the one that has waited
//! longest. Who was not called leaves a free visit to those who were, so a queue of one organization never stands in
//! front of another's job, however long it is. A call that is not followed within [`CALL_MAX`] (its organization has no
//! slot) goes to the next.
//!
//! Visits may last as long as a job's time, and an organization's own proxy that never answers holds them for nothing. So
//! an organization that has no visit of a domain waits [`KEPT_OUT_MAX`] for one to end and then begins beside the others.

use super::{FairQueue, LaneId, ReadyReason};
use base::ids::OrgId;
use base::web::Domain;
use fetch::{Politeness, VisitWait, VisitorKind};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a free visit is kept for who was called.
const CALL_MAX: Duration = Duration::from_secs(1);
/// How long visits of others keep an organization out of a domain at which it has none.
const KEPT_OUT_MAX: Duration = Duration::from_secs(2);

/// Who waits for a visit of a domain.
pub(super) struct Waiter {
    lane: LaneId,
    /// Its place in the line.
    place: u64,
    since: Instant,
    /// Its host wants no visit before this moment.
    not_before: Option<Instant>,
    /// Since when a visit is kept for it.
    called: Option<Instant>,
}

/// One domain with runs or waiters.
#[derive(Default)]
pub(super) struct DomainGate {
    waiters: Vec<Waiter>,
    /// Runs by organization.
    running: HashMap<OrgId, u32>,
    /// When it is looked at again.
    timer: Option<Instant>,
}

impl DomainGate {
    fn running(&self, org: OrgId) -> u32 {
        self.running.get(&org).copied().unwrap_or(0)
    }
}

impl FairQueue {
    /// Whether visits that are free are others' before the lane's, which waits at no gate yet.
    pub(super) fn is_passed_over(
        &self,
        lane: &LaneId,
        domain: &Domain,
        polite: &Politeness,
        now: Instant,
    ) -> bool {
        let Some(gate) = self.gates.get(domain) else { return false };
        let own = gate.running(lane.org);
        let mut others = 0;
        for waiter in &gate.waiters {
            let goes_first = waiter.lane != *lane
                && gate.running(waiter.lane.org) <= own
                && waiter.not_before.is_none_or(|at| at <= now)
                && self.may_start(waiter.lane.org);
            others += u32::from(goes_first);
        }
        others > 0 && others >= polite.free(domain)
    }

    /// Whether a run of the organization that has visited the domain, and wants to visit it once more, has others before it
    /// ([`FairQueue::others_go_first`]). Where it has, its organization goes to the end of the line: what else it has queued
    /// there may have stood in it for longer.
    pub fn gives_way(&mut self, org: OrgId, domain: &Domain, polite: &Politeness, keeps: bool) -> bool {
        let gives = self.others_go_first(org, domain, polite, keeps);
        if gives {
            let place = self.count();
            let waiters = self.gates.get_mut(domain).into_iter().flat_map(|gate| &mut gate.waiters);
            waiters.filter(|waiter| waiter.lane.org == org).for_each(|waiter| waiter.place = place);
        }
        gives
    }

    /// Whether others could begin now and go before a run of the organization that is at the domain: of organizations with
    /// fewer runs there, and, unless it `keeps` the visit that it has, those whom a free visit is kept for.
    pub fn others_go_first(&self, org: OrgId, domain: &Domain, polite: &Politeness, keeps: bool) -> bool {
        let Some(gate) = self.gates.get(domain) else { return false };
        let (own, now) = (gate.running(org), Instant::now());
        let goes_first = |waiter: &&Waiter| {
            waiter.lane.org != org
                && waiter.not_before.is_none_or(|at| at <= now)
                && self.may_start(waiter.lane.org)
                && (gate.running(waiter.lane.org) < own || (!keeps && waiter.called.is_some()))
        };
        let others = gate.waiters.iter().filter(goes_first).count();
        let free = polite.free(domain) as usize;
        if keeps { others > free } else { others > 0 && others >= free }
    }

    /// How many runs of the organization are at a domain.
    pub fn running_at(&self, org: OrgId, domain: &Domain) -> u32 {
        self.gates.get(domain).map_or(0, |gate| gate.running(org))
    }

    /// Whether somebody of the organization waits at a domain's gate.
    #[cfg(test)]
    pub fn is_waiting(&self, org: OrgId, domain: &Domain) -> bool {
        let of_org = |gate: &DomainGate| gate.waiters.iter().any(|waiter| waiter.lane.org == org);
        self.gates.get(domain).is_some_and(of_org)
    }

    /// Lets a lane wait at its domain's gate; one that was called keeps its place in the line.
    pub(super) fn wait(&mut self, lane: &LaneId, domain: &Domain, wait: Option<VisitWait>) {
        let place = self.count();
        let Some(known) = self.lane_mut(lane) else { return };
        known.waits = true;
        self.unready(lane);
        let gate = self.gates.entry(domain.clone()).or_default();
        let (not_before, look_at) = match wait {
            Some(VisitWait::HostNotBefore(at)) => (Some(at), Some(at)),
            Some(VisitWait::NotBefore(at)) => (None, Some(at)),
            Some(VisitWait::Busy) | None => (None, None),
        };
        match gate.waiters.iter_mut().find(|waiter| waiter.lane == *lane) {
            Some(waiter) => (waiter.called, waiter.not_before) = (None, not_before),
            None => {
                let since = Instant::now();
                gate.waiters.push(Waiter { lane: lane.clone(), place, since, not_before, called: None });
            }
        }
        if let Some(at) = look_at {
            self.set_timer(domain, at);
        }
    }

    fn set_timer(&mut self, domain: &Domain, at: Instant) {
        let gate = self.gates.entry(domain.clone()).or_default();
        if gate.timer.is_some_and(|timer| timer <= at) {
            return;
        }
        if let Some(before) = gate.timer.replace(at) {
            self.timers.remove(&(before, domain.clone()));
        }
        self.timers.insert((at, domain.clone()));
    }

    /// A lane waits no longer: it has its visit, or no job.
    pub(super) fn leave(&mut self, lane: &LaneId, domain: &Domain) {
        if let Some(gate) = self.gates.get_mut(domain) {
            gate.waiters.retain(|waiter| waiter.lane != *lane);
        }
        if let Some(known) = self.lane_mut(lane) {
            known.waits = false;
        }
    }

    /// What a lane is to the domain at whose gate it may wait.
    pub(super) fn guest(&self, lane: &LaneId, domain: &Domain, now: Instant) -> VisitorKind {
        let Some(gate) = self.gates.get(domain).filter(|gate| gate.running(lane.org) == 0) else {
            return VisitorKind::Usual;
        };
        let waiter = gate.waiters.iter().find(|waiter| waiter.lane == *lane);
        match waiter.is_some_and(|waiter| waiter.since + KEPT_OUT_MAX <= now) {
            true => VisitorKind::KeptOut,
            false => VisitorKind::Usual,
        }
    }

    /// Calls as many as there are free visits, and who is kept out; nobody else when none is free.
    pub(super) fn call(&mut self, domain: &Domain, polite: &Politeness, now: Instant) {
        self.call_next(domain, polite, now);
        let Some(gate) = self.gates.get(domain) else { return };
        let soon = gate
            .waiters
            .iter()
            .filter(|waiter| waiter.called.is_none() && gate.running(waiter.lane.org) == 0)
            .map(|waiter| waiter.since + KEPT_OUT_MAX)
            .filter(|at| *at > now)
            .min();
        if let Some(at) = soon {
            self.set_timer(domain, at);
        }
    }

    fn call_next(&mut self, domain: &Domain, polite: &Politeness, now: Instant) {
        let Some(gate) = self.gates.get(domain) else { return };
        let called = gate.waiters.iter().filter(|waiter| waiter.called.is_some()).count();
        if called == gate.waiters.len() {
            self.close(domain);
            return;
        }
        let mut free = (polite.free(domain) as usize).saturating_sub(called);
        if free == 0 && called > 0 {
            // Who was called leaves soon, with a visit or without one.
            return;
        }
        while let Some((lane, host)) = self.next_in_line(domain, now) {
            // Where none is free this is how the end of one is told: only to who was turned away.
            let looked = polite.look(self.guest(&lane, domain, now), domain, &host, now);
            let mut waiters = self.gates.get_mut(domain).into_iter().flat_map(|gate| &mut gate.waiters);
            let Some(waiter) = waiters.find(|waiter| waiter.lane == lane) else { return };
            match looked {
                Ok(()) => {
                    (waiter.called, waiter.not_before) = (Some(now), None);
                    self.called.push_back((now, domain.clone(), lane.clone()));
                    self.make_ready(&lane, ReadyReason::Called);
                    free = free.saturating_sub(1);
                    if free == 0 {
                        return;
                    }
                }
                Err(VisitWait::HostNotBefore(at)) => {
                    waiter.not_before = Some(at);
                    self.set_timer(domain, at);
                }
                Err(VisitWait::NotBefore(at)) => {
                    self.set_timer(domain, at);
                    return;
                }
                Err(VisitWait::Busy) => return,
            }
        }
    }

    /// Who is to be called next, and its host: none where everybody was, or waits for a host.
    fn next_in_line(&self, domain: &Domain, now: Instant) -> Option<(LaneId, Box<str>)> {
        let gate = self.gates.get(domain)?;
        let waiting = gate
            .waiters
            .iter()
            .filter(|waiter| waiter.called.is_none() && waiter.not_before.is_none_or(|at| at <= now));
        let order = |waiter: &&Waiter| {
            let org = waiter.lane.org;
            (!self.may_start(org), gate.running(org), waiter.place)
        };
        let lane = &waiting.min_by_key(order)?.lane;
        let host = self.orgs.get(&lane.org)?.lanes.get(&lane.head)?.host.clone();
        Some((lane.clone(), host))
    }

    /// Forgets a gate at which nobody waits and through which nobody went.
    fn close(&mut self, domain: &Domain) {
        if let Some(gate) = self.gates.get(domain)
            && gate.waiters.is_empty()
            && gate.running.is_empty()
        {
            if let Some(at) = gate.timer {
                self.timers.remove(&(at, domain.clone()));
            }
            self.gates.remove(domain);
        }
    }

    pub(super) fn run_begins(&mut self, org: OrgId, domain: &Domain) {
        let gate = self.gates.entry(domain.clone()).or_default();
        *gate.running.entry(org).or_default() += 1;
    }

    pub(super) fn run_ends(&mut self, org: OrgId, domain: &Domain) {
        if let Some(gate) = self.gates.get_mut(domain)
            && let Some(count) = gate.running.get_mut(&org)
        {
            *count -= 1;
            if *count == 0 {
                gate.running.remove(&org);
                // It may be kept out by others from now on.
                let own = gate.waiters.iter().filter(|waiter| waiter.lane.org == org);
                if let Some(at) = own.map(|waiter| waiter.since + KEPT_OUT_MAX).min() {
                    self.set_timer(domain, at);
                }
            }
        }
        self.close(domain);
    }

    /// Looks at the domains that have a visit free by now, and takes back calls that nobody followed.
    pub(super) fn open_gates(&mut self, polite: &Politeness, now: Instant) {
        let mut open = polite.take_freed();
        for domain in polite.take_returned() {
            // Whom a turn kept out that nobody used need not wait for its end.
            let waiters = self.gates.get_mut(&domain).into_iter().flat_map(|gate| &mut gate.waiters);
            waiters.for_each(|waiter| waiter.not_before = None);
            open.push(domain);
        }
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, domain)) = self.timers.pop_first()
        {
            if let Some(gate) = self.gates.get_mut(&domain) {
                gate.timer = None;
            }
            open.push(domain);
        }
        while let Some((at, ..)) = self.called.front()
            && *at + CALL_MAX <= now
            && let Some((at, domain, lane)) = self.called.pop_front()
        {
            let place = self.count();
            let mut waiters = self.gates.get_mut(&domain).into_iter().flat_map(|gate| &mut gate.waiters);
            let unheard = waiters.find(|waiter| waiter.lane == lane && waiter.called == Some(at));
            if let Some(waiter) = unheard {
                (waiter.called, waiter.place) = (None, place);
                self.unready(&lane);
                open.push(domain);
            }
        }
        for domain in open {
            self.call(&domain, polite, now);
        }
    }

    /// When a gate is to be looked at again.
    pub(super) fn next_gate(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}
