//! One step's requests, side by side: who is asked when, who wins, and what is written down of all of them. A single provider
//! is a race of one.

use super::super::ask::{MadeAttempt, OpenRequest, ask_one, attempt_row};
use super::super::finish::PARKS_MAX;
use super::places::{BUSY_PAUSE, VisitPlaces};
use super::{PageAtHand, Run};
use crate::features::extraction::{DeliveredPage, RedirectV1};
use crate::features::providers::visits_itself;
use base::ids::ProviderId;
use base::{Error, Result};
use dispatch::dag::{AttemptSummary, Overrides};
use fetch::{Fault, Hop, Outcome};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a job that waits for a place in the browser looks whether others want the visit that it holds.
const WAIT_LOOK: Duration = Duration::from_secs(5);

/// When a request went out.
type Begun = Arc<OnceLock<OpenRequest>>;

/// What came of asking.
#[derive(Default)]
pub(super) struct AskResult {
    pub(super) seen: Vec<AttemptSummary>,
    /// An account was throttled.
    pub(super) is_throttled: bool,
    /// A redirect led to a host that is not to be visited before this moment.
    pub(super) left_alone_until: Option<Instant>,
    /// Not all were asked, for want of a visit: none can begin for so long.
    pub(super) unasked_for: Option<Duration>,
}

/// A race under way.
#[derive(Default)]
struct Race {
    /// When each one's request went out.
    begun: Vec<(ProviderId, Begun)>,
    ended: Vec<Begun>,
    /// What failed for want of something of the box's own.
    lacking: Vec<MadeAttempt>,
    asked: AskResult,
}

impl Run<'_> {
    /// Asks these providers at once, as far as the domain has places for their visits, until one of them has a final
    /// answer; what the others would have said is not waited for, and they are written down behind it. Who waits for a
    /// place begins with the next one, and is not asked when somebody wins before. Fails where the box itself lacked
    /// something: then nobody was asked. None where nobody was asked because the job, which waited for a place in the
    /// browser, gave its visit to others.
    pub(super) async fn ask(
        &mut self,
        node: &str,
        providers: &[ProviderId],
        options: &Overrides,
        rests: &[bool],
    ) -> Result<Option<AskResult>> {
        let request = self.request(options);
        let (dispatcher, org, wanted, url) = (self.dispatcher, self.org, &request, self.url.clone());
        let mut places = VisitPlaces::new(dispatcher, org.id(), &url, self.permit.take());
        let mut waiting: VecDeque<_> = providers.iter().copied().zip(rests.iter().copied()).collect();
        let mut race = Race::default();
        let mut asking = FuturesUnordered::new();
        let mut came = VecDeque::new();
        loop {
            let mut look_in = WAIT_LOOK;
            while let Some((provider, rests)) = waiting.front().copied().filter(|_| came.is_empty()) {
                if !race.asked.seen.is_empty() {
                    self.keep_racers(&mut race.asked.seen, &mut asking, &mut came).await?;
                    continue;
                }
                let permit = match places.take() {
                    Ok(permit) => permit,
                    Err(pause) if asking.is_empty() => {
                        race.asked.unasked_for = Some(pause);
                        break;
                    }
                    Err(pause) => {
                        look_in = pause.clamp(BUSY_PAUSE, WAIT_LOOK);
                        break;
                    }
                };
                waiting.pop_front();
                let own: Begun = Arc::default();
                self.trail.ask(self.node_id(node), provider, &own);
                race.begun.push((provider, own.clone()));
                asking.push(async move {
                    let providers = &dispatcher.parts().providers;
                    let made = ask_one(providers, org, (provider, rests), wanted, &own).await;
                    (own, permit, made)
                });
            }
            let next = match next_racer(look_in, &mut asking, &mut came).await {
                Ok(next) => next,
                Err(_elapsed) if race.ended.is_empty() && self.gives_up_its_wait(&race) => {
                    self.trail.none_open();
                    return Ok(None);
                }
                Err(_elapsed) => continue,
            };
            let Some((own, permit, made)) = next else { break };
            let is_needed = !waiting.is_empty() || asking.is_empty();
            places.give_back(permit, own.get().is_some(), is_needed);
            if self.hear(node, &mut race, own, made?) {
                break;
            }
        }
        drop(asking);
        self.permit = places.into_permit();
        self.close(node, race).map(Some)
    }

    /// Takes in what came of one request; whether it ends the race.
    fn hear(&mut self, node: &str, race: &mut Race, own: Begun, made: MadeAttempt) -> bool {
        race.ended.push(own.clone());
        if made.attempt.lack.is_some() {
            self.trail.made(&own, None);
            race.lacking.push(made);
            return false;
        }
        let asked = &mut race.asked;
        asked.is_throttled |= made.attempt.fault == Some(Fault::Throttled);
        asked.left_alone_until = asked.left_alone_until.max(made.attempt.left_alone_until);
        let is_final = made.attempt.is_final();
        asked.seen.push(self.note(node, made, &own));
        is_final
    }

    /// Writes those down whose requests were out when the race ended, behind the one that ended it.
    fn close(&mut self, node: &str, race: Race) -> Result<AskResult> {
        let Race { begun, ended, lacking, mut asked } = race;
        let has_ended = |own: &Begun| ended.iter().any(|other| Arc::ptr_eq(own, other));
        for (provider, own) in begun.iter().filter(|(_, own)| !has_ended(own)) {
            let lost = own.get().and_then(|begun| begun.lost(*provider));
            asked.seen.extend(lost.map(|made| self.note(node, made, own)));
        }
        self.trail.none_open();
        if !asked.seen.iter().any(AttemptSummary::is_final) {
            self.look_for_lack(&lacking)?;
        }
        Ok(asked)
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
    fn gives_up_its_wait(&self, race: &Race) -> bool {
        if !race.begun.iter().all(|(_, begun)| begun.get().is_some_and(OpenRequest::only_waits)) {
            return false;
        }
        let gives_way = || self.dispatcher.gives_way(self.org.id(), &self.url.domain(), true);
        self.dispatcher.stopping() || (self.row.parks < PARKS_MAX && gives_way())
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
    fn note(&mut self, node: &str, mut made: MadeAttempt, begun: &Begun) -> AttemptSummary {
        // What a hosted service passes on was said to its own machines, and in the answer of one that an organization runs
        // itself it could be anything: nobody else's visits depend on it.
        if visits_itself(&made.adapter) {
            made.attempt.tell(&self.dispatcher.parts().politeness, Instant::now());
        }
        self.note_session(&made);
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

    /// The nodes of the built-in path are nobody's drawing.
    fn node_id<'n>(&self, node: &'n str) -> Option<&'n str> {
        self.row.chain.is_none().then_some(node)
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
