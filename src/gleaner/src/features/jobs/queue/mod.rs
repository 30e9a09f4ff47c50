//! The fair queue: who runs next.
//!
//! Jobs stand in the durable index `jobs.queue`; here is, in memory, where in it somebody's turn may be. A *lane* is what
//! an organization has queued for one host. The rules:
//! - **Between organizations** a free slot goes to the one that has the fewest, so shares shrink as others come; runs
//!   that have begun are left alone. Who has less than an equal share begins beside the others when they hold all slots,
//!   with pages that never answer, say (`slots.rs`). An organization that a look finds nothing for pays with its turn.
//! - **Within a domain** organizations take turns (`gates.rs`).
//! - **Within an organization** the higher priority goes first, and lanes of one priority take turns. A priority never
//!   counts against another organization.
//!
//! A round costs by what can run: a lane whose jobs are not due sleeps, one whose domain or host is not to be visited
//! waits at a gate, and neither is looked at before its time. Memory is bounded, too: of an organization with more lanes
//! than [`LANES_PER_ORG_MAX`] the others are found by walking through its part of the index when it runs out of lanes, in
//! steps that its own turns pay for. A job that nobody told of is found by such a walk through everything, from time to
//! time ([`SWEEP_EVERY`]), so a lost signal costs a delay and no work.

mod entries;
mod gates;
mod inbox;
mod lane;
mod slots;

pub(super) use inbox::{Inbox, QueuedJob, RunSlot};
pub use slots::runs_max;

use super::rows::QUEUE_TABLE;
use base::Result;
use base::clock::Moment;
use base::ids::{JobId, OrgId};
use base::web::Domain;
use entries::{HostPrefix, HostScan};
use fetch::{Permit, Politeness, VisitWait};
use gates::DomainGate;
use lane::{Lane, LaneId, OrgQueue, ReadyReason, ScanProgress};
use slots::SlotCounts;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Seek, SysRead};

/// How often one round asks the store; what is left is the next round's.
const LOOKS_PER_ROUND: usize = 512;
/// Lanes that one step of a walk looks at.
const LANES_PER_STEP: usize = 16;
/// Lanes of an organization that are remembered although nothing of them can run now, some 200 bytes each.
const LANES_PER_ORG_MAX: usize = 1_024;
/// Jobs of a lane that are read at once: about as many as may visit a domain.
const ENTRIES_AT_ONCE: usize = 4;
/// How often the whole index is walked through for what nobody told of.
const SWEEP_EVERY: Duration = Duration::from_secs(5 * 60);
/// The same where somebody says that there is something, as after writes that failed.
const SWEEP_AGAIN: Duration = Duration::from_secs(2);

/// A job that a round may take.
pub(super) struct DueJob {
    pub job: JobId,
    pub permit: Permit,
    pub slot: RunSlot,
    /// As it was told, for when it cannot be taken after all.
    pub queued: QueuedJob,
}

/// What a round found.
#[derive(Default)]
pub(super) struct RoundResult {
    pub due: Vec<DueJob>,
    /// It ended at its bound; there may be more.
    pub is_cut: bool,
    /// How soon there may be something to do that nobody tells of.
    pub next_in: Option<Duration>,
}

/// What is remembered of the queue, and who has which slots.
pub(super) struct FairQueue {
    slots: SlotCounts,
    inbox: Arc<Inbox>,
    orgs: HashMap<OrgId, OrgQueue>,
    /// Organizations with something to look at: runs and misses, turn.
    active: BTreeSet<(usize, u64, OrgId)>,
    gates: HashMap<Domain, DomainGate>,
    timers: BTreeSet<(Instant, Domain)>,
    called: VecDeque<(Instant, Domain, LaneId)>,
    sleepers: BTreeSet<(Moment, LaneId)>,
    walks: BTreeSet<(Moment, OrgId)>,
    missed: Vec<OrgId>,
    /// Organizations that are passed over, and until when.
    paused: HashMap<OrgId, Instant>,
    counter: u64,
    swept: Option<Instant>,
    /// Somebody said that there may be more than is remembered.
    has_more: bool,
    /// Jobs whose rows cannot be read.
    passed_over: HashSet<JobId>,
    looks: u64,
}

impl FairQueue {
    pub fn new(slots: usize, inbox: Arc<Inbox>) -> FairQueue {
        FairQueue {
            slots: SlotCounts::new(slots),
            inbox,
            orgs: HashMap::new(),
            active: BTreeSet::new(),
            gates: HashMap::new(),
            timers: BTreeSet::new(),
            called: VecDeque::new(),
            sleepers: BTreeSet::new(),
            walks: BTreeSet::new(),
            missed: Vec::new(),
            paused: HashMap::new(),
            counter: 0,
            swept: None,
            has_more: false,
            passed_over: HashSet::new(),
            looks: 0,
        }
    }

    /// How often the store was asked since the start.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Takes in what was told since the last round. Before the read that the round works on begins.
    pub fn listen(&mut self, now: Moment) {
        let told = self.inbox.take();
        for (org, domain) in told.ended {
            self.run_ends(org, &domain);
            if let Some(own) = self.orgs.get_mut(&org) {
                self.slots.end(own.running);
                own.running = own.running.saturating_sub(1);
            }
            self.list(org);
        }
        for job in told.queued {
            self.note(&job, now);
        }
        self.has_more |= told.has_more;
        for job in &told.readable {
            self.passed_over.remove(job);
        }
        self.passed_over.extend(told.unreadable);
    }

    /// Slots that nobody has.
    pub fn free(&self) -> usize {
        self.slots.free()
    }

    /// Up to as many jobs as there are slots that may be given, each with leave to visit its domain.
    pub fn round(&mut self, tx: &SysRead<'_>, polite: &Politeness, now: Instant) -> Result<RoundResult> {
        self.wake(tx, polite, now)?;
        let (mut round, mut seen) = (RoundResult::default(), HashMap::new());
        let mut looks = 0;
        while self.free() > 0 {
            if looks >= LOOKS_PER_ROUND {
                round.is_cut = true;
                break;
            }
            let mut active = self.active.iter().map(|(.., org)| *org);
            let Some(org) = active.find(|org| self.may_start(*org)) else { break };
            let turn = self.count();
            let Some(own) = self.orgs.get_mut(&org) else { break };
            own.turn = turn;
            let first = own.ready.first().map(|(.., head)| LaneId { org, head: head.clone() });
            if tx.is_fenced(org) {
                self.forget(org, polite, now);
                continue;
            }
            let (due, cost) = match first {
                Some(lane) => self.look_at(tx, &lane, &mut seen, (polite, now))?,
                None => (None, self.step(tx, org)?),
            };
            looks += cost;
            self.looks += cost as u64;
            match due {
                Some(due) => round.due.push(due),
                None => self.miss(org),
            }
            self.list(org);
        }
        let sleeping = self.sleepers.first().map(|(at, _)| *at);
        let walking = self.walks.first().map(|(at, _)| *at);
        let next_at = sleeping.into_iter().chain(walking).min().map(|at| at.since(tx.moment()));
        let resumed = self.paused.values().min().copied();
        let next_gate = self.next_gate().into_iter().chain(resumed).min();
        let next_gate = next_gate.map(|at| at.saturating_duration_since(now));
        round.next_in = next_at.into_iter().chain(next_gate).min();
        Ok(round)
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn lane_mut(&mut self, lane: &LaneId) -> Option<&mut Lane> {
        self.orgs.get_mut(&lane.org)?.lanes.get_mut(&lane.head)
    }

    /// Passes an organization over until that moment: none of its jobs can begin before.
    pub fn pause(&mut self, org: OrgId, until: Instant) {
        self.paused.insert(org, until);
        self.list(org);
    }

    /// Whether the organization may have one more slot.
    fn may_start(&self, org: OrgId) -> bool {
        let running = self.orgs.get(&org).map_or(0, |own| own.running);
        !self.paused.contains_key(&org) && self.slots.may_begin(running)
    }

    fn miss(&mut self, org: OrgId) {
        if let Some(own) = self.orgs.get_mut(&org) {
            if own.misses == 0 {
                self.missed.push(org);
            }
            own.misses += 1;
        }
    }

    /// Puts the organization where it belongs among those with something to look at, and forgets it when there is nothing
    /// to remember.
    fn list(&mut self, org: OrgId) {
        let is_paused = self.paused.contains_key(&org);
        let Some(own) = self.orgs.get_mut(&org) else { return };
        let key = (own.has_hope() && !is_paused).then_some((own.running + own.misses, own.turn));
        if own.listed != key {
            if let Some((weight, turn)) = own.listed {
                self.active.remove(&(weight, turn, org));
            }
            if let Some((weight, turn)) = key {
                self.active.insert((weight, turn, org));
            }
            own.listed = key;
        }
        let is_idle = own.lanes.is_empty() && own.walk == ScanProgress::Done && own.walk_at.is_none();
        if key.is_none() && is_idle && own.running == 0 {
            self.orgs.remove(&org);
        }
    }

    /// Begins a round: what has slept long enough, what may be visited again.
    fn wake(&mut self, tx: &SysRead<'_>, polite: &Politeness, now: Instant) -> Result<()> {
        let over: Vec<_> =
            self.paused.iter().filter(|(_, until)| **until <= now).map(|(org, _)| *org).collect();
        for org in over {
            self.paused.remove(&org);
            self.list(org);
        }
        for org in std::mem::take(&mut self.missed) {
            if let Some(own) = self.orgs.get_mut(&org) {
                own.misses = 0;
            }
            self.list(org);
        }
        let every = if self.has_more { SWEEP_AGAIN } else { SWEEP_EVERY };
        if self.swept.is_none_or(|at| at.elapsed() >= every) {
            self.sweep(tx)?;
            (self.swept, self.has_more) = (Some(Instant::now()), false);
        }
        while let Some((at, _)) = self.sleepers.first()
            && *at <= tx.moment()
            && let Some((_, lane)) = self.sleepers.pop_first()
        {
            if let Some(known) = self.lane_mut(&lane) {
                known.asleep = None;
            }
            self.make_ready(&lane, ReadyReason::Hopes);
        }
        while let Some((at, _)) = self.walks.first()
            && *at <= tx.moment()
            && let Some((_, org)) = self.walks.pop_first()
        {
            if let Some(own) = self.orgs.get_mut(&org) {
                own.walk_at = None;
                own.walk_again();
            }
            self.list(org);
        }
        self.open_gates(polite, now);
        Ok(())
    }

    /// Has everybody's part of the index looked through.
    fn sweep(&mut self, tx: &SysRead<'_>) -> Result<()> {
        let mut last = None;
        while let Some(org) = tx.next_org(QUEUE_TABLE, last)? {
            self.looks += 1;
            last = Some(org);
            if !tx.is_fenced(org) {
                self.orgs.entry(org).or_insert_with(OrgQueue::new).walk_again();
                self.list(org);
            }
        }
        Ok(())
    }

    /// Somebody has queued a job.
    fn note(&mut self, job: &QueuedJob, now: Moment) {
        let Ok(domain) = Domain::parse(&job.domain) else { return };
        let lane = LaneId { org: job.org, head: HostPrefix::new(&job.domain, &job.host) };
        let is_due = job.run_at <= now;
        let own = self.orgs.entry(job.org).or_insert_with(OrgQueue::new);
        let has_room = own.lanes.len() < 2 * LANES_PER_ORG_MAX;
        match own.lanes.get_mut(&lane.head) {
            Some(known) if known.asleep.is_some_and(|at| is_due || job.run_at < at) => {
                known.rank = job.rank;
                if let Some(at) = known.asleep.take() {
                    self.sleepers.remove(&(at, lane.clone()));
                }
                if is_due {
                    self.make_ready(&lane, ReadyReason::Hopes);
                } else {
                    self.sleep(&lane, job.run_at);
                }
            }
            Some(known) if is_due && job.rank < known.rank => {
                known.rank = job.rank;
                if known.ready.as_ref().is_some_and(|(ready, ..)| *ready == ReadyReason::Hopes) {
                    self.unready(&lane);
                    self.make_ready(&lane, ReadyReason::Hopes);
                }
            }
            Some(_) => {}
            // What there is no room for is found by the walk.
            None if !has_room => own.walk_again(),
            None => {
                let known = Lane {
                    domain,
                    host: job.host.as_str().into(),
                    rank: job.rank,
                    ready: None,
                    waits: false,
                    asleep: None,
                };
                own.lanes.insert(lane.head.clone(), known);
                if is_due {
                    self.make_ready(&lane, ReadyReason::Hopes);
                } else {
                    self.sleep(&lane, job.run_at);
                }
            }
        }
        self.list(job.org);
    }

    fn make_ready(&mut self, lane: &LaneId, ready: ReadyReason) {
        self.unready(lane);
        let turn = self.count();
        if let Some(own) = self.orgs.get_mut(&lane.org)
            && let Some(known) = own.lanes.get_mut(&lane.head)
        {
            let key = (ready, known.rank, turn, lane.head.clone());
            known.ready = Some(key.clone());
            own.ready.insert(key);
        }
        self.list(lane.org);
    }

    fn unready(&mut self, lane: &LaneId) {
        if let Some(own) = self.orgs.get_mut(&lane.org)
            && let Some(key) = own.lanes.get_mut(&lane.head).and_then(|known| known.ready.take())
        {
            own.ready.remove(&key);
        }
    }

    /// Leaves a lane alone until one of its jobs is due; one too many is forgotten and found by a walk.
    fn sleep(&mut self, lane: &LaneId, until: Moment) {
        self.unready(lane);
        let Some(own) = self.orgs.get_mut(&lane.org) else { return };
        if own.lanes.len() > LANES_PER_ORG_MAX {
            own.lanes.remove(&lane.head);
            self.walk_at(lane.org, until);
        } else if let Some(known) = own.lanes.get_mut(&lane.head) {
            known.asleep = Some(until);
            self.sleepers.insert((until, lane.clone()));
        }
    }

    fn walk_at(&mut self, org: OrgId, at: Moment) {
        let Some(own) = self.orgs.get_mut(&org) else { return };
        if own.walk_at.is_none_or(|before| at < before) {
            if let Some(before) = own.walk_at.replace(at) {
                self.walks.remove(&(before, org));
            }
            self.walks.insert((at, org));
        }
    }

    /// Looks whether a lane has a job that can run, and takes it. Also gives how often the store was asked.
    fn look_at(
        &mut self,
        tx: &SysRead<'_>,
        lane: &LaneId,
        seen: &mut HashMap<LaneId, HostScan>,
        (polite, now): (&Politeness, Instant),
    ) -> Result<(Option<DueJob>, usize)> {
        let Some(known) = self.lane_mut(lane) else { return Ok((None, 1)) };
        let (domain, host) = (known.domain.clone(), known.host.clone());
        let is_called = matches!(known.ready, Some((ReadyReason::Called, ..)));
        // A visit that is begun puts off the next, so leave is asked for when there is a job for it and looked at before.
        let guest = self.guest(lane, &domain, now);
        let stopped = match polite.look(guest, &domain, &host, now) {
            Err(wait) => Some(Some(wait)),
            Ok(()) if !is_called && self.is_passed_over(lane, &domain, polite, now) => Some(None),
            Ok(()) => None,
        };
        if let Some(wait) = stopped {
            self.stop_at_gate(lane, &domain, wait, (polite, now), tx.moment());
            return Ok((None, 1));
        }
        let mut found = match seen.remove(lane) {
            Some(found) if !found.due.is_empty() => HostScan { looks: 0, ..found },
            before => {
                let most = ENTRIES_AT_ONCE.min(self.free());
                entries::look(tx, (lane.org, &lane.head), &self.passed_over, before, most)?
            }
        };
        let cost = found.looks.max(1);
        let Some((rank, job)) = found.due.pop_front() else {
            self.settle(lane, &domain, found.next_at, (polite, now));
            return Ok((None, cost));
        };
        if !is_called && self.is_outranked(lane, rank) {
            found.due.push_front((rank, job));
            seen.insert(lane.clone(), found);
            self.make_ready(lane, ReadyReason::Hopes);
            return Ok((None, cost));
        }
        let permit = match polite.try_acquire_as(guest, &domain, &host, now) {
            Ok(permit) => permit,
            Err(wait) => {
                self.stop_at_gate(lane, &domain, Some(wait), (polite, now), tx.moment());
                return Ok((None, cost));
            }
        };
        let queued = QueuedJob {
            org: lane.org,
            domain: domain.as_str().to_owned(),
            host: host.into(),
            rank,
            run_at: tx.moment(),
        };
        self.begin_run(lane.org, &domain);
        if found.is_all && found.due.is_empty() {
            self.settle(lane, &domain, found.next_at, (polite, now));
        } else {
            self.leave(lane, &domain);
            self.make_ready(lane, ReadyReason::Hopes);
            seen.insert(lane.clone(), found);
        }
        if is_called {
            self.call(&domain, polite, now);
        }
        let slot = RunSlot::new(self.inbox.clone(), lane.org, domain);
        Ok((Some(DueJob { job, permit, slot, queued }), cost))
    }

    /// Whether another lane of the organization has a job that comes before one of this rank; notes the rank.
    fn is_outranked(&mut self, lane: &LaneId, rank: u8) -> bool {
        let Some(own) = self.orgs.get_mut(&lane.org) else { return false };
        let Some(known) = own.lanes.get_mut(&lane.head) else { return false };
        let was = std::mem::replace(&mut known.rank, rank);
        let mut others = own.ready.iter().filter(|(.., head)| *head != lane.head);
        rank > was
            && others.next().is_some_and(|(ready, other, ..)| (*ready, *other) < (ReadyReason::Hopes, rank))
    }

    fn begin_run(&mut self, org: OrgId, domain: &Domain) {
        let own = self.orgs.entry(org).or_insert_with(OrgQueue::new);
        self.slots.begin(own.running);
        own.running += 1;
        self.run_begins(org, domain);
    }

    /// A lane waits at its domain's gate; where it may be long and there are many, a walk finds it again.
    fn stop_at_gate(
        &mut self,
        lane: &LaneId,
        domain: &Domain,
        wait: Option<VisitWait>,
        (polite, now): (&Politeness, Instant),
        clock: Moment,
    ) {
        let until = match wait {
            Some(VisitWait::NotBefore(at) | VisitWait::HostNotBefore(at)) => Some(at),
            Some(VisitWait::Busy) | None => None,
        };
        let lanes = self.orgs.get(&lane.org).map_or(0, |own| own.lanes.len());
        match until.filter(|_| lanes > LANES_PER_ORG_MAX) {
            Some(until) => {
                self.drop_lane(lane, domain);
                self.walk_at(lane.org, clock.after(until.saturating_duration_since(now)));
            }
            None => self.wait(lane, domain, wait),
        }
        self.call(domain, polite, now);
    }

    /// A lane has no job that is due: it sleeps until one is, or is forgotten.
    fn settle(
        &mut self,
        lane: &LaneId,
        domain: &Domain,
        next_at: Option<Moment>,
        (polite, now): (&Politeness, Instant),
    ) {
        match next_at {
            Some(at) => {
                self.leave(lane, domain);
                self.sleep(lane, at);
            }
            None => self.drop_lane(lane, domain),
        }
        self.call(domain, polite, now);
    }

    fn drop_lane(&mut self, lane: &LaneId, domain: &Domain) {
        self.leave(lane, domain);
        self.unready(lane);
        if let Some(own) = self.orgs.get_mut(&lane.org)
            && let Some(known) = own.lanes.remove(&lane.head)
            && let Some(at) = known.asleep
        {
            self.sleepers.remove(&(at, lane.clone()));
        }
    }

    /// An organization that is being erased.
    fn forget(&mut self, org: OrgId, polite: &Politeness, now: Instant) {
        let Some(own) = self.orgs.get_mut(&org) else { return };
        own.walk = ScanProgress::Done;
        if let Some(at) = own.walk_at.take() {
            self.walks.remove(&(at, org));
        }
        let lanes: Vec<_> =
            own.lanes.iter().map(|(head, lane)| (head.clone(), lane.domain.clone())).collect();
        for (head, domain) in lanes {
            self.drop_lane(&LaneId { org, head }, &domain);
            self.call(&domain, polite, now);
        }
        self.list(org);
    }

    /// One step of an organization's walk; gives how often the store was asked.
    fn step(&mut self, tx: &SysRead<'_>, org: OrgId) -> Result<usize> {
        let mut cost = 0;
        for _ in 0..LANES_PER_STEP {
            let Some(own) = self.orgs.get_mut(&org) else { break };
            let ScanProgress::At { from, again } = &mut own.walk else { break };
            let first = entries::first(tx, org, from)?;
            cost += 1;
            let Some(look) = first else {
                own.walk = match *again {
                    true => ScanProgress::At { from: Seek::start(), again: false },
                    false => ScanProgress::Done,
                };
                break;
            };
            *from = look.behind;
            let Some(first) = look.found else { continue };
            if own.lanes.contains_key(&first.head) {
                continue;
            }
            let (domain, host) = (first.domain, first.head.host().into());
            let lane = LaneId { org, head: first.head };
            let (mut rank, mut next_at) = (first.rank, None);
            if first.run_at > tx.moment() {
                let found = entries::look(tx, (org, &lane.head), &self.passed_over, None, 1)?;
                cost += found.looks;
                match found.due.front() {
                    Some((due, _)) => rank = *due,
                    None => next_at = found.next_at.or(Some(first.run_at)),
                }
            }
            let known = Lane { domain, host, rank, ready: None, waits: false, asleep: None };
            own.lanes.insert(lane.head.clone(), known);
            match next_at {
                Some(at) => self.sleep(&lane, at),
                None => self.make_ready(&lane, ReadyReason::Hopes),
            }
        }
        Ok(cost.max(1))
    }
}
