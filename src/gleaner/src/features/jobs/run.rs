//! One run of a job: from where its walk stands to its end, or to where it has to wait.
//!
//! What a step brings is kept in memory as long as the run goes on without another attempt, and written before the next
//! attempt begins: a process that dies never repeats an attempt that failed. A run that has to wait (a wait node, a domain
//! that wants to be left alone) writes where it stands and ends; the job is in the queue again with a time, and nothing
//! holds it meanwhile.
//!
//! A provider that is left alone for something that passes (its account is throttled, it is down) is passed over as long
//! as the graph has somebody else. Where it has nobody else, the job waits for it; and one whose own request was the one
//! too many asks again. Waiting is bounded in times ([`finish::PARKS_MAX`]), and asking again in attempts ([`waits`]).

mod places;
mod race;
mod session;
mod waits;

use super::ask::{AttemptLog, request};
use super::finish::{self, JobEnd, RunProgress};
use super::rows::{AttemptV1, JobV2};
use super::walks::{self, PositionV1, WalkV3, facts};
use crate::features::extraction::{self, DeliveredPage, Extractor, ResultDraft};
use crate::features::providers::{self, NOT_ASKED, Path, Providers};
use crate::features::workflows::Graphs;
use base::clock::Moment;
use base::health::Health;
use base::ids::{OrgId, ProviderId};
use base::terms::JobStatus;
use base::trace::{self, Span, SpanKind, Tracer};
use base::web::{Domain, WebUrl};
use base::{Code, Error, Result};
use dispatch::dag::{AttemptSummary, Graph, Overrides, Step, StepEvent, Walk, WalkEnd};
use fetch::{FetchRequest, Outcome, Permit, Politeness};
use secrets::keyring::Keyring;
use session::RunSession;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OrgStore, OrgWrite};
use waits::{POSTPONE, WaitReason};

/// How long a run keeps what it has while the box cannot write it, unless the box drains. Nobody else runs the job
/// meanwhile: a lease is looked at only where the run is not under way here. The pages so kept are as few as
/// jobs run at once, since a box that cannot write takes none.
const WRITE_WITHIN: Duration = Duration::from_secs(10 * 60);
/// Time between two such tries.
const WRITE_EVERY: Duration = Duration::from_millis(200);
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
    /// What opens site sessions.
    pub keyring: Arc<Keyring>,
    pub tracer: Tracer,
}

impl DispatchParts {
    /// The span of one run of a job, which begins a trace.
    pub(super) fn span(&self, org: OrgId, job: &JobV2) -> Span {
        let mut span = self.tracer.begin("job.run", SpanKind::Internal, None);
        span.set_with("gleaner.org_id", || org.to_string());
        span.set_with("gleaner.job_id", || job.id.to_string());
        span.set("gleaner.run", i64::from(job.run));
        span
    }
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
    session: RunSession,
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
        let (mut row, held, session) = org.read(|tx| {
            let row = walks::load(tx, job.id)?;
            let session = RunSession::load(tx, &dispatcher.parts().keyring, job.id)?;
            let has_page = row.position.as_ref().is_some_and(|position| position.page.is_some());
            let held = if has_page { extraction::held(tx, job.id)? } else { None };
            Ok((row, held, session))
        })?;
        let mut reason = None;
        let graph = match (&row.chain, job.workflow_version_id) {
            (Some(chain), _) => dispatcher.parts().graphs.chain(chain)?,
            (None, Some(version)) => org.read(|tx| dispatcher.parts().graphs.of(tx, version))?,
            (None, None) => {
                let wishes = request(&job, &url, &Overrides::default());
                let request = FetchRequest { session: session.opened.clone(), ..wishes };
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
            session,
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
                if let Some(reason) = self.open_session()? {
                    self.reason = Some(reason);
                    return self.end(WalkEnd::Failed).await;
                }
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
            let span = trace::child("job.extract", SpanKind::Internal);
            let kept = self.dispatcher.parts().extractor.process(self.org, page.clone());
            let kept = span.scope(kept).await;
            drop(span);
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
        // Who is not sent a site session says nothing of the page.
        let is_signed_in = self.session.opened.is_some();
        let asked = |attempt: &&AttemptV1| {
            telling(attempt) && !(is_signed_in && attempt.rule.as_deref() == Some(NOT_ASKED))
        };
        let attempts = &self.job.attempts;
        let last = attempts.iter().rfind(asked).or_else(|| attempts.iter().rfind(telling));
        let error = match (status, self.reason.take(), last) {
            (JobStatus::Succeeded, ..) => None,
            (_, Some(reason), _) => Some(reason),
            (_, None, None) => Some("the workflow asks no provider".to_owned()),
            (_, None, Some(last)) => Some(why_failed(last)),
        };
        // Of a page that an earlier run brought, the walk's row knows what it costs.
        self.charges.extend(self.walk.page.map(|n| (n, self.row.page_charge)));
        let ended = JobEnd {
            charges: std::mem::take(&mut self.charges),
            attempts: std::mem::take(&mut self.job.attempts),
            outputs: std::mem::take(&mut self.walk.outputs),
            session: self.session.used,
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

/// What came of a visit of the domain.
enum VisitOutcome {
    Seen(Vec<AttemptSummary>),
    /// The job had better wait for so long.
    Later(Duration, WaitReason),
}
