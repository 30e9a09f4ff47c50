//! One run of a job: from where its walk stands to its end, or to where it has to wait.
//!
//! What a step brings is kept in memory as long as the run goes on without another attempt, and written before the next
//! attempt begins: a process that dies never repeats an attempt that failed. A run that has to wait (a wait node, a domain
//! that wants to be left alone) writes where it stands and ends; the job is in the queue again with a time, and nothing
//! holds it meanwhile.
//!
//! A provider that is left alone for something that passes (its account is throttled, it is down) is passed over as long
//! as the graph has somebody else. Where it has nobody else, the job waits for it; and one whose own request was the one
//! too many asks again. Waiting is bounded in times ([`PARKS_MAX`]), and asking again in attempts ([`AGAIN_MAX`]).

mod places;

use super::ask::{AttemptLog, MadeAttempt, OpenRequest, ask_one, attempt_row, connected, request};
use super::finish::{self, JobEnd, PARKS_MAX, RunProgress};
use super::rows::{AttemptV1, JobV2};
use super::walks::{self, PositionV1, WalkV3, facts};
use crate::features::extraction::{self, DeliveredPage, Extractor, RedirectV1, ResultDraft};
use crate::features::providers::{self, Availability, NOT_ASKED, Path, Providers, visits_itself};
use crate::features::workflows::Graphs;
use base::clock::Moment;
use base::health::Health;
use base::ids::{OrgId, ProviderId};
use base::terms::JobStatus;
use base::web::{Domain, WebUrl};
use base::{Code, Error, Result};
use dispatch::dag::{AttemptSummary, Graph, Overrides, Step, StepEvent, Walk, WalkEnd};
use fetch::{Fault, Hop, LEFT_ALONE, Outcome, Permit, Politeness};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use places::{BUSY_PAUSE, VisitPlaces};
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::{OrgStore, OrgWrite};

/// How long a run keeps what it has while the box cannot write it, unless the box drains. Nobody else runs the job
/// meanwhile: a lease is looked at only where the run is not under way here. The pages so kept are as few as
/// jobs run at once, since a box that cannot write takes none.
const WRITE_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Time between two such tries.
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// How often a job that waits for a place in the browser looks whether others want the visit that it holds.
const WAIT_LOOK: Duration = Duration::from_secs(5);

/// A provider that is left alone for longer than this is not waited for, unless its account is only throttled.
const COOLING_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a job asks those again whose accounts were throttled.
const AGAIN_MAX: usize = 5;
/// How soon a job is looked at again whose provider has no room for another request, and how many times that at most.
const CROWDED_PAUSE: Duration = Duration::from_millis(500);
const CROWDED_STEPS_MAX: u32 = 20;
/// The least and the longest time after which a job is looked at again that nobody could be asked for.
const POSTPONE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5 * 60));

/// The newest page that an attempt brought.
enum PageAtHand {
    Scraped(Box<DeliveredPage>),
    Draft(Box<ResultDraft>),
}

/// What runs work with.
pub struct DispatchParts {
    pub providers: Arc<Providers>,
    pub graphs: Arc<Graphs>,
    pub politeness: Politeness,
    pub extractor: Arc<Extractor>,
    pub health: Health,
}

/// What a run asks of the dispatcher that began it.
pub(super) trait RunHost: Send + Sync {
    fn parts(&self) -> &DispatchParts;

    /// Says that there may be something to do.
    fn wake(&self);

    /// Says that a job stands in the queue, after the commit that put it there.
    fn queued(&self, org: OrgId, job: &JobV2);

    /// Whether others go first where a run of the organization wants to visit the domain once more; `keeps`: with the
    /// visit that it has.
    fn gives_way(&self, org: OrgId, domain: &Domain, keeps: bool) -> bool;

    /// Whether others go first where a run that has visits of the domain wants another one beside them. It loses nothing
    /// by that.
    fn others_go_first(&self, org: OrgId, domain: &Domain) -> bool;

    /// Whether the box drains: nothing is waited for any more.
    fn stopping(&self) -> bool;
}

/// A run under way.
pub(super) struct Run<'a> {
    dispatcher: &'a dyn RunHost,
    org: &'a OrgStore,
    job: JobV2,
    url: WebUrl,
    graph: Arc<Graph>,
    walk: Walk,
    row: WalkV3,
    /// Attempts that are not written yet.
    made: Vec<AttemptV1>,
    page: Option<PageAtHand>,
    answer_charge: u64,
    /// What attempts of this run that brought an answer are charged if they are the one that is; by their number.
    charges: Vec<(u32, u64)>,
    /// Why the job fails without an attempt.
    reason: Option<String>,
    /// Leave to visit the domain; given back as soon as no visit follows at once.
    permit: Option<Permit>,
    trail: &'a AttemptLog,
}

/// Where a run can begin.
pub(super) enum RunStart<'a> {
    Run(Box<Run<'a>>),
    /// Nobody can be asked before this moment, and why.
    Postponed(Moment, String),
}

impl<'a> Run<'a> {
    /// Goes on where the job stands.
    pub fn load(
        dispatcher: &'a dyn RunHost,
        org: &'a OrgStore,
        job: JobV2,
        (permit, trail): (Permit, &'a AttemptLog),
    ) -> Result<RunStart<'a>> {
        let url = WebUrl::parse(&job.url).map_err(|e| Error::internal("read a job's URL", e))?;
        let (mut row, held) = org.read(|tx| {
            let row = walks::load(tx, job.id)?;
            let has_page = row.position.as_ref().is_some_and(|position| position.page.is_some());
            let held = if has_page { extraction::held(tx, job.id)? } else { None };
            Ok((row, held))
        })?;
        let mut reason = None;
        let graph = match (&row.chain, job.workflow_version_id) {
            (Some(chain), _) => dispatcher.parts().graphs.chain(chain)?,
            (None, Some(version)) => org.read(|tx| dispatcher.parts().graphs.of(tx, version))?,
            (None, None) => {
                let request = request(&job, &url, &Overrides::default());
                let rows = org.read(providers::enabled)?;
                let chain = match dispatcher.parts().providers.path(org.id(), &rows, &request, &url.domain())
                {
                    Path::Try(accounts) => accounts.iter().map(|account| account.id).collect(),
                    Path::Nobody { reason: said } => {
                        reason = Some(said);
                        Vec::new()
                    }
                    Path::Later { until, reason } => {
                        let wait = until.saturating_duration_since(Instant::now());
                        tracing::debug!(job = %job.id, reason, "nobody can be asked now; the job waits");
                        let run_at = org.clock().moment().after(wait.clamp(POSTPONE.0, POSTPONE.1));
                        return Ok(RunStart::Postponed(run_at, reason));
                    }
                };
                let graph = dispatcher.parts().graphs.chain(&chain)?;
                row.chain = Some(chain);
                graph
            }
        };
        let walk = match row.position.clone() {
            Some(position) => position.into(),
            None => Walk::begin(&graph, &facts(&job)),
        };
        Ok(RunStart::Run(Box::new(Run {
            dispatcher,
            org,
            job,
            url,
            graph,
            walk,
            row,
            made: Vec::new(),
            page: held.map(|draft| PageAtHand::Draft(Box::new(draft))),
            answer_charge: 0,
            charges: Vec::new(),
            reason,
            permit: Some(permit),
            trail,
        })))
    }

    /// Walks to the end, or to where the job has to wait.
    pub async fn go(mut self: Box<Self>) -> Result<()> {
        let graph = Arc::clone(&self.graph);
        let mut visits = 0;
        loop {
            let step = self.walk.next(&graph);
            if matches!(step, Step::Attempt { .. } | Step::Race { .. }) {
                visits += 1;
                // Work of the box's own may have given the leave back, in this run or where an earlier one stood.
                if (visits > 1 || self.permit.is_none())
                    && let Err(pause) = self.next_visit()
                {
                    return self.park(pause, WaitReason::InTurn).await;
                }
                if visits > 1 {
                    self.keep_progress().await?;
                }
            } else if self.permit.take().is_some() {
                // What follows is the box's own work; others may visit meanwhile.
                self.dispatcher.wake();
            }
            match step {
                Step::Attempt { node, provider, options } => {
                    let seen = match self.visit(&graph, node, &[provider], options).await? {
                        VisitOutcome::Seen(seen) => seen,
                        VisitOutcome::Later(pause, waits) => return self.park(pause, waits).await,
                    };
                    let seen = seen
                        .first()
                        .copied()
                        .ok_or_else(|| Error::internal("ask a provider", "it said nothing"))?;
                    self.advance(&graph, StepEvent::Attempted(seen))?;
                }
                Step::Race { node, providers, options } => {
                    let unasked = self.unasked(providers);
                    match self.visit(&graph, node, &unasked, options).await? {
                        VisitOutcome::Seen(seen) => self.advance(&graph, StepEvent::Raced(&seen))?,
                        VisitOutcome::Later(pause, waits) => return self.park(pause, waits).await,
                    }
                }
                Step::Wait { ms } => {
                    self.advance(&graph, StepEvent::Waited)?;
                    return self.park(Duration::from_millis(ms.into()), WaitReason::InTurn).await;
                }
                Step::Extract { min_quality } => {
                    let quality = self.draft().await?.and_then(|draft| draft.quality());
                    self.note_quality(quality, min_quality);
                    self.advance(&graph, StepEvent::Judged(quality))?;
                }
                Step::Output { .. } => self.advance(&graph, StepEvent::Noted)?,
                Step::End(ending) => return self.end(ending).await,
            }
        }
    }

    fn advance(&mut self, graph: &Graph, event: StepEvent<'_>) -> Result<()> {
        self.walk
            .advance(graph, &facts(&self.job), event)
            .map_err(|e| Error::internal("walk a job's graph", e))
    }

    /// Whether the domain may be visited once more now, or for how long it may not. A job whose turn it was is not served
    /// again and again while others wait for the domain: it takes its turns like them, and none (zero) is its pause.
    fn next_visit(&mut self) -> Result<(), Duration> {
        let now = Instant::now();
        let domain = self.url.domain();
        if self.dispatcher.gives_way(self.org.id(), &domain, self.permit.is_some()) {
            return Err(Duration::ZERO);
        }
        let leave = match &self.permit {
            Some(permit) => permit.again(now),
            None => {
                let host = self.url.host();
                let permit = self.dispatcher.parts().politeness.try_acquire(&domain, host, now);
                permit.map(|permit| self.permit = Some(permit))
            }
        };
        leave.map_err(|wait| places::pause(wait, now))
    }

    /// Those of a race that were not asked before the job was put down in the midst of it.
    fn unasked(&self, racers: &[ProviderId]) -> Vec<ProviderId> {
        let asked: Vec<&str> = self.newest(self.walk.tries as usize).map(|made| &*made.provider_id).collect();
        racers.iter().filter(|racer| !asked.contains(&&*racer.to_string())).copied().collect()
    }

    /// The newest attempts, so many.
    fn newest(&self, count: usize) -> impl Iterator<Item = &AttemptV1> + Clone {
        self.job.attempts.iter().chain(&self.made).rev().take(count)
    }

    /// Asks these providers, unless the job had better wait for them.
    async fn visit(
        &mut self,
        graph: &Graph,
        node: &str,
        providers: &[ProviderId],
        options: &Overrides,
    ) -> Result<VisitOutcome> {
        if providers.is_empty() {
            return Ok(VisitOutcome::Seen(Vec::new()));
        }
        if let Some(pause) = self.cooling(graph, providers) {
            return Ok(VisitOutcome::Later(pause, WaitReason::ForOneLeftAlone));
        }
        if let Some(pause) = self.crowded(providers) {
            return Ok(VisitOutcome::Later(pause, WaitReason::ForRoom));
        }
        self.row.crowded = 0;
        let rests = self.rests(graph, providers);
        let Some(asked) = self.ask(node, providers, options, &rests).await? else {
            return Ok(VisitOutcome::Later(Duration::ZERO, WaitReason::InTurn));
        };
        if let Some(pause) = asked.unasked_for {
            self.walk.put_down(&asked.seen);
            return Ok(VisitOutcome::Later(pause, WaitReason::InTurn));
        }
        if (asked.is_throttled || asked.left_alone_until.is_some())
            && let Some((pause, waits)) = self.again(graph, providers, &asked)
        {
            self.walk.stay(&asked.seen);
            if matches!(self.walk.next(graph), Step::Race { .. }) {
                // All of it runs again, what was asked before it was put down included.
                self.walk.tries = 0;
            }
            return Ok(VisitOutcome::Later(pause, waits));
        }
        Ok(VisitOutcome::Seen(asked.seen))
    }

    /// Which of these are not asked because they have failed in a row at this domain: others go first, but better they than
    /// nobody.
    fn rests(&self, graph: &Graph, providers: &[ProviderId]) -> Vec<bool> {
        let (domain, org) = (self.url.domain(), self.org.id());
        let standing = |provider| self.dispatcher.parts().providers.standing(org, provider, &domain);
        let is_weak = |provider: &ProviderId| matches!(standing(*provider), Availability::WeakHere);
        let weak: Vec<bool> = providers.iter().map(is_weak).collect();
        if !weak.contains(&true) {
            return weak;
        }
        let is_ready = |provider, options: &Overrides| {
            matches!(standing(provider), Availability::Ready)
                && self.can_ask(provider, options).unwrap_or(false)
        };
        let has_others = providers.iter().any(|provider| matches!(standing(*provider), Availability::Ready))
            || self.walk.goes_on(graph, &facts(&self.job), is_ready);
        if has_others { weak } else { vec![false; providers.len()] }
    }

    /// For how long the job should wait when all of these are left alone for something that passes, and the graph has
    /// nobody else.
    fn cooling(&self, graph: &Graph, providers: &[ProviderId]) -> Option<Duration> {
        let domain = self.url.domain();
        let mut soonest = None;
        for provider in providers {
            match self.dispatcher.parts().providers.standing(self.org.id(), *provider, &domain) {
                Availability::Cooling { until, trouble } => {
                    let fault = trouble.map(|trouble| trouble.fault);
                    let pause = until.saturating_duration_since(Instant::now()).max(POSTPONE.0);
                    // A benchmark is not to stand still for hours, and who is down may stay so.
                    let may_last = fault == Some(Fault::Throttled) && self.job.benchmark_id.is_none();
                    let passes = fault.is_none_or(|fault| !fault.needs_somebody());
                    if passes && (may_last || pause <= COOLING_WAIT_MAX) {
                        soonest = Some(soonest.map_or(pause, |soonest: Duration| soonest.min(pause)));
                    }
                }
                Availability::Ready | Availability::WeakHere => return None,
            }
        }
        let pause = soonest.filter(|_| self.row.cooled < PARKS_MAX)?.min(POSTPONE.1);
        (!self.goes_on(graph)).then_some(pause)
    }

    /// For how long the job should wait to ask these again: none of them told anything of the target, one for being
    /// throttled, or because a redirect led to a host that is left alone for a while.
    fn again(
        &self,
        graph: &Graph,
        providers: &[ProviderId],
        asked: &AskResult,
    ) -> Option<(Duration, WaitReason)> {
        let tells_nothing = |attempt: &&AttemptV1| {
            attempt.outcome == Outcome::ProviderError || attempt.rule.as_deref() == Some(LEFT_ALONE)
        };
        let is_race = matches!(self.walk.next(graph), Step::Race { .. });
        let before = if is_race { self.walk.tries as usize } else { 0 };
        let just_made = self.newest(before + asked.seen.len());
        if !just_made.clone().all(|attempt| tells_nothing(&attempt)) || self.goes_on(graph) {
            return None;
        }
        let attempts = self.job.attempts.iter().chain(&self.made);
        if attempts.filter(tells_nothing).count() > AGAIN_MAX {
            return None;
        }
        if let Some(until) = asked.left_alone_until {
            let pause = until.saturating_duration_since(Instant::now());
            // A benchmark is not to stand still for hours.
            let may_last = self.job.benchmark_id.is_none() || pause <= COOLING_WAIT_MAX;
            return may_last.then_some((pause.max(POSTPONE.0), WaitReason::InTurn));
        }
        // Or it has just lost its place at the provider to another request, and nobody is at fault.
        let was_crowded = just_made.into_iter().any(|attempt| attempt.rule.as_deref() == Some(NOT_ASKED));
        let crowded = was_crowded.then_some((CROWDED_PAUSE, WaitReason::ForRoom));
        let cooling = self.cooling(graph, providers).map(|pause| (pause, WaitReason::ForOneLeftAlone));
        cooling.or(crowded)
    }

    /// Whether the graph has somebody else, or something else to do, where the present node's providers fail.
    fn goes_on(&self, graph: &Graph) -> bool {
        let can_ask = |provider, options: &Overrides| self.can_ask(provider, options).unwrap_or(false);
        self.walk.goes_on(graph, &facts(&self.job), can_ask)
    }

    /// Whether a provider would be asked now.
    fn can_ask(&self, provider: ProviderId, options: &Overrides) -> Result<bool> {
        let providers = &self.dispatcher.parts().providers;
        let standing = providers.standing(self.org.id(), provider, &self.url.domain());
        if matches!(standing, Availability::Cooling { .. }) {
            return Ok(false);
        }
        let Some(row) = connected(self.org, provider)? else { return Ok(false) };
        let account = providers.account(self.org.id(), &row)?;
        Ok(account.lacks(&request(&self.job, &self.url, options)).is_none())
    }

    /// For how long the job should wait because each of these has as many requests as its account may have. It waits in
    /// the queue: one that waited here would hold a slot of the box and a visit of the domain. Those that have waited long
    /// look less often.
    fn crowded(&self, providers: &[ProviderId]) -> Option<Duration> {
        let is_crowded =
            |provider: &ProviderId| self.dispatcher.parts().providers.is_crowded(self.org.id(), *provider);
        let pause = CROWDED_PAUSE * (self.row.crowded + 1).min(CROWDED_STEPS_MAX);
        providers.iter().all(is_crowded).then_some(pause)
    }

    /// Asks these providers at once, as far as the domain has places for their visits, until one of them has a final
    /// answer; what the others would have said is not waited for, and they are written down behind it. Who waits for a
    /// place begins with the next one, and is not asked when somebody wins before. Fails where the box itself lacked
    /// something: then nobody was asked. None where nobody was asked because the job, which waited for a place in the
    /// browser, gave its visit to others.
    async fn ask(
        &mut self,
        node: &str,
        providers: &[ProviderId],
        options: &Overrides,
        rests: &[bool],
    ) -> Result<Option<AskResult>> {
        let request = request(&self.job, &self.url, options);
        let (dispatcher, org, asked, url) = (self.dispatcher, self.org, &request, self.url.clone());
        let mut places = VisitPlaces::new(dispatcher, org.id(), &url, self.permit.take());
        let mut waiting: VecDeque<_> = providers.iter().copied().zip(rests.iter().copied()).collect();
        // When each one's request went out.
        let mut begun: Vec<(ProviderId, Arc<OnceLock<OpenRequest>>)> = Vec::new();
        let mut asking = FuturesUnordered::new();
        let (mut seen, mut ended, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
        let mut came = VecDeque::new();
        let (mut is_throttled, mut left_alone_until, mut unasked_for) = (false, None, None);
        loop {
            let mut look_in = WAIT_LOOK;
            while let Some((provider, rests)) = waiting.front().copied().filter(|_| came.is_empty()) {
                if !seen.is_empty() {
                    self.keep_racers(&mut seen, &mut asking, &mut came).await?;
                    continue;
                }
                let permit = match places.take() {
                    Ok(permit) => permit,
                    Err(pause) if asking.is_empty() => {
                        unasked_for = Some(pause);
                        break;
                    }
                    Err(pause) => {
                        look_in = pause.clamp(BUSY_PAUSE, WAIT_LOOK);
                        break;
                    }
                };
                waiting.pop_front();
                let own: Arc<OnceLock<OpenRequest>> = Arc::default();
                self.trail.ask(self.node_id(node), provider, &own);
                begun.push((provider, own.clone()));
                asking.push(async move {
                    let providers = &dispatcher.parts().providers;
                    let made = ask_one(providers, org, (provider, rests), asked, &own).await;
                    (own, permit, made)
                });
            }
            let next = match next_racer(look_in, &mut asking, &mut came).await {
                Ok(next) => next,
                Err(_elapsed) if ended.is_empty() && self.gives_up_its_wait(&begun) => {
                    self.trail.none_open();
                    return Ok(None);
                }
                Err(_elapsed) => continue,
            };
            let Some((own, permit, made)) = next else { break };
            let is_needed = !waiting.is_empty() || asking.is_empty();
            places.give_back(permit, own.get().is_some(), is_needed);
            let made = made?;
            ended.push(own.clone());
            if made.attempt.lack.is_some() {
                self.trail.made(&own, None);
                lacking.push(made);
                continue;
            }
            is_throttled |= made.attempt.fault == Some(Fault::Throttled);
            left_alone_until = left_alone_until.max(made.attempt.left_alone_until);
            let is_final = made.attempt.is_final();
            seen.push(self.note(node, made, &own));
            if is_final {
                break;
            }
        }
        let has_ended = |own: &Arc<OnceLock<OpenRequest>>| ended.iter().any(|other| Arc::ptr_eq(own, other));
        drop(asking);
        self.permit = places.into_permit();
        for (provider, own) in begun.iter().filter(|(_, own)| !has_ended(own)) {
            let lost = own.get().and_then(|begun| begun.lost(*provider));
            seen.extend(lost.map(|made| self.note(node, made, own)));
        }
        self.trail.none_open();
        if !seen.iter().any(AttemptSummary::is_final) {
            self.look_for_lack(&lacking)?;
        }
        Ok(Some(AskResult { seen, is_throttled, left_alone_until, unasked_for }))
    }

    /// Writes the racers down that have ended without an answer, before another one begins: a process that dies asks none
    /// of them again. Those under way go on meanwhile; what `came` of them is taken in afterwards.
    async fn keep_racers<F: Future>(
        &mut self,
        seen: &mut Vec<AttemptSummary>,
        asking: &mut FuturesUnordered<F>,
        came: &mut VecDeque<F::Output>,
    ) -> Result<()> {
        self.walk.put_down(&std::mem::take(seen));
        let mut kept = pin!(self.keep_progress());
        loop {
            tokio::select! {
                kept = &mut kept => return kept,
                Some(next) = asking.next(), if !asking.is_empty() => came.push_back(next),
            }
        }
    }

    /// Whether a job for which nobody was asked yet, because all of its requests wait for a place in the browser, goes back
    /// into the queue: others could use the visit of the domain that it holds meanwhile, or the box drains.
    fn gives_up_its_wait(&self, begun: &[(ProviderId, Arc<OnceLock<OpenRequest>>)]) -> bool {
        if !begun.iter().all(|(_, begun)| begun.get().is_some_and(OpenRequest::only_waits)) {
            return false;
        }
        let gives_way = || self.dispatcher.gives_way(self.org.id(), &self.url.domain(), true);
        self.dispatcher.stopping() || (self.row.parks < PARKS_MAX && gives_way())
    }

    /// The nodes of the built-in path are nobody's drawing.
    fn node_id<'n>(&self, node: &'n str) -> Option<&'n str> {
        self.row.chain.is_none().then_some(node)
    }

    /// An attempt that failed for want of something of the box's own is none.
    fn look_for_lack(&self, came: &[MadeAttempt]) -> Result<()> {
        let lacking = came.iter().find_map(|made| Some((made.attempt.lack?, made)));
        let Some((part, made)) = lacking else { return Ok(()) };
        let error = made.attempt.error.clone().unwrap_or_default();
        self.dispatcher
            .parts()
            .health
            .report(part, format!("the box has no {} left; a job met: {error}", part.name()));
        Err(Error::unavailable(format!("The box has no {} left.", part.name())))
    }

    /// Writes an attempt down and takes its page.
    fn note(
        &mut self,
        node: &str,
        mut made: MadeAttempt,
        begun: &Arc<OnceLock<OpenRequest>>,
    ) -> AttemptSummary {
        // What a hosted service passes on was said to its own machines, and in the answer of one that an organization runs
        // itself it could be anything: nobody else's visits depend on it.
        if visits_itself(&made.adapter) {
            made.attempt.tell(&self.dispatcher.parts().politeness, Instant::now());
        }
        let n = self.job.attempts.len() + self.made.len() + 1;
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let seen = AttemptSummary { outcome: made.attempt.outcome, http_status: made.attempt.http_status };
        let (charge, page) = (made.attempt.charge, made.attempt.page.take());
        let (adapter, started_at) = (std::mem::take(&mut made.adapter), made.started_at);
        let row = attempt_row(n, self.node_id(node).map(str::to_owned), made);
        self.trail.made(begun, Some(&row));
        self.made.push(row);
        if seen.is_final() {
            self.charges.push((n, charge));
        }
        match (seen.outcome, page) {
            (Outcome::Success, Some(page)) => {
                self.row.page_charge = charge;
                self.page = Some(PageAtHand::Scraped(Box::new(DeliveredPage {
                    job: self.job.id,
                    url_id: self.job.url_id,
                    url: self.url.clone(),
                    final_url: page.url,
                    redirects: page.redirects.into_iter().map(redirect).collect(),
                    domain: self.url.domain(),
                    page_type: self.job.page_type,
                    provider: adapter,
                    http_status: seen.http_status.unwrap_or_default(),
                    content_type: page.headers.content_type,
                    body: page.body,
                    tags: self.job.tags.clone(),
                    scraped_at: started_at,
                })));
            }
            (Outcome::TargetError, _) if seen.is_final() => self.answer_charge = charge,
            _ => {}
        }
        seen
    }

    /// The page at hand as a result, made once.
    async fn draft(&mut self) -> Result<Option<&ResultDraft>> {
        if let Some(PageAtHand::Scraped(page)) = &self.page {
            let draft = self.keep(page).await?;
            self.page = Some(PageAtHand::Draft(Box::new(draft)));
        }
        Ok(match &self.page {
            Some(PageAtHand::Draft(draft)) => Some(draft),
            _ => None,
        })
    }

    /// Stores the page and reads it. While it cannot be stored this waits: what was fetched is here, and another run would
    /// visit the target again.
    async fn keep(&self, page: &DeliveredPage) -> Result<ResultDraft> {
        let deadline = Instant::now() + WRITE_WITHIN;
        loop {
            let kept = self.dispatcher.parts().extractor.process(self.org, page.clone()).await;
            match kept {
                Err(error) if self.may_wait(&error, deadline) => tokio::time::sleep(WRITE_EVERY).await,
                kept => return kept,
            }
        }
    }

    /// Whether what failed is tried again: the box could not do it for the moment.
    fn may_wait(&self, error: &Error, deadline: Instant) -> bool {
        let passes = error.code() == Code::ServiceUnavailable;
        passes && Instant::now() < deadline && !self.dispatcher.stopping()
    }

    /// An attempt whose page is not good enough has failed after all.
    fn note_quality(&mut self, quality: Option<f64>, min_quality: f64) {
        let (Some(quality), Some(n)) = (quality.filter(|quality| *quality < min_quality), self.walk.page)
        else {
            return;
        };
        let mut attempts = self.job.attempts.iter_mut().chain(&mut self.made);
        if let Some(attempt) = attempts.find(|attempt| attempt.n == n) {
            attempt.outcome = Outcome::LowQuality;
            attempt.error = Some(format!("the quality is {quality:.2}, less than {min_quality:.2}"));
        }
    }

    /// What has to be true before the job goes on, in a row.
    async fn progress(&mut self, parked: Option<WaitReason>) -> Result<RunProgress> {
        let held = match self.walk.page {
            Some(_) => self.draft().await?.cloned(),
            None => None,
        };
        self.row.position = Some(PositionV1::from(&self.walk));
        self.row.parks += u32::from(parked.is_some());
        self.row.cooled += u32::from(parked == Some(WaitReason::ForOneLeftAlone));
        self.row.crowded += u32::from(parked == Some(WaitReason::ForRoom));
        self.job.attempts.append(&mut self.made);
        Ok(RunProgress { row: self.row.clone(), attempts: self.job.attempts.clone(), held })
    }

    /// Writes where the job stands before its next attempt.
    async fn keep_progress(&mut self) -> Result<()> {
        let progress = self.progress(None).await?;
        let (id, run) = (self.job.id, self.job.run);
        self.write(move |tx| finish::keep(tx, id, run, progress.clone())).await
    }

    /// Puts the job back into the queue for later; without a pause, where it stood among its organization's.
    async fn park(mut self, pause: Duration, waits: WaitReason) -> Result<()> {
        let progress = self.progress(Some(waits)).await?;
        let (id, run) = (self.job.id, self.job.run);
        let run_at = match pause {
            Duration::ZERO => self.job.run_at,
            _ => self.org.clock().moment().after(pause),
        };
        self.write(move |tx| finish::park(tx, id, run, progress.clone(), run_at)).await?;
        self.job.run_at = run_at;
        self.dispatcher.queued(self.org.id(), &self.job);
        Ok(())
    }

    async fn end(mut self, ending: WalkEnd) -> Result<()> {
        let is_probe = self.job.benchmark_id.is_some();
        let (status, charged) = match ending {
            WalkEnd::Delivered { .. } => (JobStatus::Succeeded, self.row.page_charge),
            WalkEnd::Answered { .. } => (JobStatus::Failed, self.answer_charge),
            WalkEnd::Failed | WalkEnd::Lost => (JobStatus::Failed, 0),
        };
        let draft = match status {
            // A probe is there to be measured: it makes no result.
            JobStatus::Succeeded if !is_probe => self.draft().await?.cloned(),
            _ => None,
        };
        self.job.attempts.append(&mut self.made);
        let answered = match ending {
            WalkEnd::Answered { attempt } => Some(attempt),
            _ => None,
        };
        // A race's losers stand behind the one that says how it ended.
        let telling = |attempt: &&AttemptV1| match answered {
            Some(n) => attempt.n == n,
            None => attempt.outcome != Outcome::Canceled,
        };
        let error = match (status, self.job.attempts.iter().rfind(telling)) {
            (JobStatus::Succeeded, _) => None,
            (_, None) => {
                Some(self.reason.take().unwrap_or_else(|| "the workflow asks no provider".to_owned()))
            }
            (_, Some(last)) => Some(why_failed(last)),
        };
        // Of a page that an earlier run brought, the walk's row knows what it costs.
        self.charges.extend(self.walk.page.map(|n| (n, self.row.page_charge)));
        let ended = JobEnd {
            charges: std::mem::take(&mut self.charges),
            attempts: std::mem::take(&mut self.job.attempts),
            outputs: std::mem::take(&mut self.walk.outputs),
            status,
            charged,
            error,
            draft,
        };
        let (id, run) = (self.job.id, self.job.run);
        self.write(move |tx| finish::finish(tx, id, run, ended.clone())).await
    }

    /// Writes something of the run. While the store refuses writes this waits: what was fetched is here, and a second
    /// run would visit the target again.
    async fn write(
        &self,
        change: impl Fn(&OrgWrite<'_>) -> Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        let deadline = Instant::now() + WRITE_WITHIN;
        loop {
            let change = change.clone();
            match self.org.write(move |tx| change(tx)).await {
                Err(error) if self.may_wait(&error, deadline) => tokio::time::sleep(WRITE_EVERY).await,
                ended => return ended,
            }
        }
    }
}

/// The racer that ended next, if one does within this time; none when nobody is under way.
async fn next_racer<F: Future>(
    within: Duration,
    asking: &mut FuturesUnordered<F>,
    came: &mut VecDeque<F::Output>,
) -> Result<Option<F::Output>, tokio::time::error::Elapsed> {
    match came.pop_front() {
        Some(next) => Ok(Some(next)),
        None => tokio::time::timeout(within, asking.next()).await,
    }
}

fn redirect(hop: Hop) -> RedirectV1 {
    RedirectV1 { url: hop.url.to_string(), http_status: hop.status }
}

/// Why a job failed whose last attempt was this one.
fn why_failed(last: &AttemptV1) -> String {
    match (&last.error, last.outcome, last.http_status) {
        (Some(error), ..) => error.clone(),
        (None, Outcome::Success, _) => "the page arrived, and the workflow ends with failed there".to_owned(),
        (None, outcome, Some(status)) => {
            format!("{}: the answer was HTTP {status}", outcome.as_str().replace('_', " "))
        }
        (None, outcome, None) => outcome.as_str().replace('_', " "),
    }
}

/// What came of asking.
struct AskResult {
    seen: Vec<AttemptSummary>,
    /// An account was throttled.
    is_throttled: bool,
    /// A redirect led to a host that is not to be visited before this moment.
    left_alone_until: Option<Instant>,
    /// Not all were asked, for want of a visit: none can begin for so long.
    unasked_for: Option<Duration>,
}

/// What came of a visit of the domain.
enum VisitOutcome {
    Seen(Vec<AttemptSummary>),
    /// The job had better wait for so long.
    Later(Duration, WaitReason),
}

/// What a job waits for. Only waiting for somebody who may never come back is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitReason {
    /// Its turn at the domain, the time that its graph names, a host that said for how long.
    InTurn,
    /// A provider that is left alone.
    ForOneLeftAlone,
    /// A provider that has as many requests as its account may have.
    ForRoom,
}
