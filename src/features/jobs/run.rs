//! One run of a job: from where its walk stands to its end, or to where it has to wait.
//!
//! What a step brings is kept in memory as long as the run goes on without another attempt, and written before the next
//! attempt begins: a process that dies never repeats an attempt that failed. A run that has to wait (a wait node, a domain
//! that wants to be left alone) writes where it stands and ends; the job is in the queue again with a time, and nothing
//! holds it meanwhile.

use super::dispatch::Dispatcher;
use super::finish::{self, Ended, Progress};
use super::rows::{AttemptV1, JobV1};
use super::walks::{self, PositionV1, WalkV1, facts};
use crate::base::clock::Timestamp;
use crate::base::ids::ProviderId;
use crate::base::terms::JobStatus;
use crate::base::web::WebUrl;
use crate::base::{Code, Error, Result};
use crate::engine::dag::{Ending, Event, Graph, Overrides, Seen, Step, Walk};
use crate::engine::fetch::{Attempt, FetchRequest, Outcome, Permit, Wait};
use crate::features::extraction::{self, ResultDraft, Scraped};
use crate::features::providers::{self, PROVIDERS, Path, Providers, Standing, visits_itself};
use crate::store::{OrgStore, OrgWrite};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the end of a run is tried to be written; within the lease, or another run would begin meanwhile.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// Time between two such tries.
const WRITE_EVERY: Duration = Duration::from_millis(200);
/// How soon a job is looked at again whose domain has no visit free.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// A provider that is left alone for no longer than this is waited for; for one that is, the next is tried.
const COOLING_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a job waits for providers that are left alone.
pub(super) const PARKS_MAX: u32 = 50;
/// How soon a job is looked at again whose provider has no room for another request, and how many times that at most.
const CROWDED_PAUSE: Duration = Duration::from_millis(500);
const CROWDED_STEPS_MAX: u32 = 20;
/// The least and the longest time after which a job is looked at again that nobody could be asked for.
const POSTPONE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5 * 60));
/// What stands in the place of a detection rule where a provider was not asked at all.
pub const NOT_ASKED: &str = "not_asked";

/// The newest page that an attempt brought.
enum PageAtHand {
    Scraped(Box<Scraped>),
    Draft(Box<ResultDraft>),
}

/// A run under way.
pub(super) struct Run<'a> {
    dispatcher: &'a Dispatcher,
    org: &'a OrgStore,
    job: JobV1,
    url: WebUrl,
    graph: Arc<Graph>,
    walk: Walk,
    row: WalkV1,
    /// Attempts that are not written yet.
    made: Vec<AttemptV1>,
    page: Option<PageAtHand>,
    answer_charge: u64,
    /// Why the job fails without an attempt.
    reason: Option<String>,
    /// Leave to visit the domain; given back as soon as no visit follows at once.
    permit: Option<Permit>,
}

/// Where a run can begin.
pub(super) enum Begin<'a> {
    Run(Box<Run<'a>>),
    /// Nobody can be asked before this moment, and why.
    Postponed(Timestamp, String),
}

impl<'a> Run<'a> {
    /// Goes on where the job stands.
    pub fn load(
        dispatcher: &'a Dispatcher,
        org: &'a OrgStore,
        job: JobV1,
        permit: Permit,
    ) -> Result<Begin<'a>> {
        let url = WebUrl::parse(&job.url).map_err(|e| Error::internal("read a job's URL", e))?;
        let (mut row, held) = org.read(|tx| {
            let row = walks::load(tx, job.id)?;
            let has_page = row.position.as_ref().is_some_and(|position| position.page.is_some());
            let held = if has_page { extraction::held(tx, job.id)? } else { None };
            Ok((row, held))
        })?;
        let mut reason = None;
        let graph = match (&row.chain, job.workflow_version_id) {
            (Some(chain), _) => dispatcher.graphs.chain(chain)?,
            (None, Some(version)) => org.read(|tx| dispatcher.graphs.of(tx, version))?,
            (None, None) => {
                let request = request(&job, &url, &Overrides::default());
                let rows = org.read(providers::enabled)?;
                let chain = match dispatcher.providers.path(org.id(), &rows, &request, &url.domain()) {
                    Path::Try(accounts) => accounts.iter().map(|account| account.id).collect(),
                    Path::Nobody { reason: said } => {
                        reason = Some(said);
                        Vec::new()
                    }
                    Path::Later { until, reason } => {
                        let wait = until.saturating_duration_since(Instant::now());
                        tracing::debug!(job = %job.id, reason, "nobody can be asked now; the job waits");
                        let run_at = org.clock().now().after(wait.clamp(POSTPONE.0, POSTPONE.1));
                        return Ok(Begin::Postponed(run_at, reason));
                    }
                };
                let graph = dispatcher.graphs.chain(&chain)?;
                row.chain = Some(chain);
                graph
            }
        };
        let walk = match row.position.clone() {
            Some(position) => position.into(),
            None => Walk::begin(&graph, &facts(&job)),
        };
        Ok(Begin::Run(Box::new(Run {
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
            reason,
            permit: Some(permit),
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
                    return self.park(pause).await;
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
                    if let Some(pause) = self.cooling(provider).or_else(|| self.crowded(provider)) {
                        return self.park(pause).await;
                    }
                    let seen = self.ask(node, &[provider], options).await?;
                    let seen = seen
                        .first()
                        .copied()
                        .ok_or_else(|| Error::internal("ask a provider", "it said nothing"))?;
                    self.advance(&graph, Event::Attempted(seen))?;
                }
                Step::Race { node, providers, options } => {
                    let seen = self.ask(node, providers, options).await?;
                    self.advance(&graph, Event::Raced(&seen))?;
                }
                Step::Wait { ms } => {
                    self.advance(&graph, Event::Waited)?;
                    return self.park(Duration::from_millis(ms.into())).await;
                }
                Step::Extract { min_quality } => {
                    let quality = self.draft().await?.and_then(|draft| draft.quality());
                    self.note_quality(quality, min_quality);
                    self.advance(&graph, Event::Judged(quality))?;
                }
                Step::Output { .. } => self.advance(&graph, Event::Noted)?,
                Step::End(ending) => return self.end(ending).await,
            }
        }
    }

    fn advance(&mut self, graph: &Graph, event: Event<'_>) -> Result<()> {
        self.walk
            .advance(graph, &facts(&self.job), event)
            .map_err(|e| Error::internal("walk a job's graph", e))
    }

    /// Whether the domain may be visited once more now, or for how long it may not.
    fn next_visit(&mut self) -> Result<(), Duration> {
        let now = Instant::now();
        let leave = match &self.permit {
            Some(permit) => permit.again(now),
            None => {
                let permit = self.dispatcher.politeness.try_acquire(&self.url.domain(), now);
                permit.map(|permit| self.permit = Some(permit))
            }
        };
        match leave {
            Ok(()) => Ok(()),
            Err(Wait::NotBefore(at)) => Err(at.saturating_duration_since(now)),
            Err(Wait::Busy) => Err(BUSY_PAUSE),
        }
    }

    /// For how long the job should wait for a provider that is left alone for a moment, such as one that is throttled.
    fn cooling(&self, provider: ProviderId) -> Option<Duration> {
        let standing = self.dispatcher.providers.standing(self.org.id(), provider, &self.url.domain());
        let Standing::Cooling { until, trouble } = standing else { return None };
        let passes = trouble.is_none_or(|trouble| !trouble.fault.needs_somebody());
        let pause = until.saturating_duration_since(Instant::now()).max(POSTPONE.0);
        (passes && pause <= COOLING_WAIT_MAX && self.row.parks < PARKS_MAX).then_some(pause)
    }

    /// For how long the job should wait because the provider has as many requests as its account may have. It waits in the
    /// queue: one that waited here would hold a slot of the box and a visit of the domain. Those that have waited long look
    /// less often.
    fn crowded(&self, provider: ProviderId) -> Option<Duration> {
        let pause = CROWDED_PAUSE * (self.row.parks + 1).min(CROWDED_STEPS_MAX);
        self.dispatcher.providers.is_crowded(self.org.id(), provider).then_some(pause)
    }

    /// Asks these providers at once until one of them has a final answer; what the others would have said is not waited
    /// for.
    async fn ask(&mut self, node: &str, providers: &[ProviderId], options: &Overrides) -> Result<Vec<Seen>> {
        let request = request(&self.job, &self.url, options);
        let (dispatcher, org, asked) = (self.dispatcher, self.org, &request);
        let mut asking: FuturesUnordered<_> =
            providers.iter().map(|provider| ask_one(&dispatcher.providers, org, *provider, asked)).collect();
        let mut came = Vec::new();
        while let Some(made) = asking.next().await {
            let made = made?;
            let is_final = made.attempt.outcome.is_final();
            came.push(made);
            if is_final {
                break;
            }
        }
        drop(asking);
        Ok(came.into_iter().map(|made| self.note(node, made)).collect())
    }

    /// Writes an attempt down and takes its page.
    fn note(&mut self, node: &str, made: Made) -> Seen {
        let Made { provider, adapter, started_at, attempt } = made;
        // What a hosted service passes on was said to its own machines, and in the answer of one that an organization runs
        // itself it could be anything: nobody else's visits depend on it.
        if visits_itself(&adapter) {
            self.dispatcher.heed(&self.url.domain(), &attempt);
        }
        let n = self.job.attempts.len() + self.made.len() + 1;
        let seen = Seen { outcome: attempt.outcome, http_status: attempt.http_status };
        self.made.push(AttemptV1 {
            n: u32::try_from(n).unwrap_or(u32::MAX),
            // The nodes of the built-in path are nobody's drawing.
            node_id: self.row.chain.is_none().then(|| node.to_owned()),
            provider_id: provider.to_string(),
            started_at,
            duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
            outcome: attempt.outcome,
            http_status: attempt.http_status,
            bytes: attempt.bytes,
            credits: attempt.credits,
            cost_source: attempt.cost_source,
            rule: attempt.rule,
            error: attempt.error,
        });
        match (attempt.outcome, attempt.page) {
            (Outcome::Success, Some(page)) => {
                self.row.page_charge = attempt.charge;
                self.page = Some(PageAtHand::Scraped(Box::new(Scraped {
                    job: self.job.id,
                    url_id: self.job.url_id,
                    url: self.url.clone(),
                    final_url: page.url,
                    domain: self.url.domain(),
                    page_type: self.job.page_type,
                    provider: adapter,
                    http_status: attempt.http_status.unwrap_or_default(),
                    content_type: page.headers.content_type,
                    body: page.body,
                    tags: self.job.tags.clone(),
                    scraped_at: started_at,
                })));
            }
            _ => self.answer_charge = attempt.charge,
        }
        seen
    }

    /// The page at hand as a result, made once.
    async fn draft(&mut self) -> Result<Option<&ResultDraft>> {
        if let Some(PageAtHand::Scraped(page)) = &self.page {
            let draft = self.dispatcher.extractor.process(self.org, Scraped::clone(page)).await?;
            self.page = Some(PageAtHand::Draft(Box::new(draft)));
        }
        Ok(match &self.page {
            Some(PageAtHand::Draft(draft)) => Some(draft),
            _ => None,
        })
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
    async fn progress(&mut self, parked: bool) -> Result<Progress> {
        let held = match self.walk.page {
            Some(_) => self.draft().await?.cloned(),
            None => None,
        };
        self.row.position = Some(PositionV1::from(&self.walk));
        if parked {
            self.row.parks += 1;
        }
        self.job.attempts.append(&mut self.made);
        Ok(Progress { row: self.row.clone(), attempts: self.job.attempts.clone(), held })
    }

    /// Writes where the job stands before its next attempt.
    async fn keep_progress(&mut self) -> Result<()> {
        let progress = self.progress(false).await?;
        let (id, run) = (self.job.id, self.job.run);
        self.write(move |tx| finish::keep(tx, id, run, progress.clone())).await
    }

    /// Puts the job back into the queue for later.
    async fn park(mut self, pause: Duration) -> Result<()> {
        let progress = self.progress(true).await?;
        let (id, run) = (self.job.id, self.job.run);
        let run_at = self.org.clock().now().after(pause);
        self.write(move |tx| finish::park(tx, id, run, progress.clone(), run_at)).await
    }

    async fn end(mut self, ending: Ending) -> Result<()> {
        let is_probe = self.job.benchmark_id.is_some();
        let (status, charged) = match ending {
            Ending::Delivered { .. } => (JobStatus::Succeeded, self.row.page_charge),
            Ending::Answered { .. } => (JobStatus::Failed, self.answer_charge),
            Ending::Failed | Ending::Lost => (JobStatus::Failed, 0),
        };
        let draft = match status {
            // A probe is there to be measured: it makes no result.
            JobStatus::Succeeded if !is_probe => self.draft().await?.cloned(),
            _ => None,
        };
        self.job.attempts.append(&mut self.made);
        let error = match (status, self.job.attempts.last()) {
            (JobStatus::Succeeded, _) => None,
            (_, None) => {
                Some(self.reason.take().unwrap_or_else(|| "the workflow asks no provider".to_owned()))
            }
            (_, Some(last)) => {
                Some(last.error.clone().unwrap_or_else(|| last.outcome.as_str().replace('_', " ")))
            }
        };
        let ended = Ended {
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
                Err(error) if error.code() == Code::ServiceUnavailable && Instant::now() < deadline => {
                    tokio::time::sleep(WRITE_EVERY).await;
                }
                ended => return ended,
            }
        }
    }
}

/// An attempt, and who made it.
struct Made {
    provider: ProviderId,
    adapter: String,
    started_at: Timestamp,
    attempt: Attempt,
}

/// One request through one provider, unless it cannot or must not be asked, which is its failure.
async fn ask_one(
    providers: &Providers,
    org: &OrgStore,
    provider: ProviderId,
    request: &FetchRequest,
) -> Result<Made> {
    let started_at = org.clock().now();
    let row = org.read(|tx| tx.get(&PROVIDERS, &provider))?.filter(|row| row.is_enabled);
    let account = match row {
        Some(row) => providers.account(org.id(), &row).map_err(|e| e.for_operator()),
        None => Err("the provider is not connected, or not enabled".to_owned()),
    };
    let adapter = account.as_ref().map(|account| account.adapter.id.clone()).unwrap_or_default();
    let not_asked = |error: String| Attempt {
        rule: Some(NOT_ASKED.to_owned()),
        ..Attempt::failed(Outcome::ProviderError, error)
    };
    let attempt = match account {
        Err(error) => not_asked(error),
        Ok(account) => match providers.standing(org.id(), provider, &request.url.domain()) {
            Standing::Cooling { trouble, .. } => {
                let why = trouble.map_or(String::new(), |trouble| format!(" ({})", trouble.error));
                not_asked(format!("{} is left alone for a while{why}", account.name))
            }
            _ => match account.lacks(request) {
                Some(lack) => not_asked(lack),
                None => providers.fetch(&account, request.clone()).await,
            },
        },
    };
    Ok(Made { provider, adapter, started_at, attempt })
}

fn request(job: &JobV1, url: &WebUrl, options: &Overrides) -> FetchRequest {
    let asked = &job.options;
    let mut headers = http::HeaderMap::new();
    for (name, value) in &asked.headers {
        // Both were checked when the job was submitted.
        if let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.parse()) {
            headers.insert(name, value);
        }
    }
    FetchRequest {
        url: url.clone(),
        headers,
        timeout: Duration::from_millis(options.timeout_ms.unwrap_or(asked.timeout_ms).into()),
        robots: true,
        render: options.render.unwrap_or(asked.render),
        country: options.country.clone().or_else(|| asked.country.clone()),
        premium: options.premium.unwrap_or(asked.premium),
    }
}
