//! Whether a job had better wait than ask, and for how long: who of its graph would be asked now, who is left alone, and who has
//! no room.

use super::super::ask::connected;
use super::super::finish::PARKS_MAX;
use super::super::rows::AttemptV1;
use super::super::walks::facts;
use super::Run;
use super::race::AskResult;
use crate::features::providers::{Availability, NOT_ASKED};
use base::Result;
use base::ids::ProviderId;
use dispatch::dag::{Graph, Overrides, Step};
use fetch::{Fault, LEFT_ALONE, Outcome};
use std::time::{Duration, Instant};

/// A provider that is left alone for longer than this is not waited for, unless its account is only throttled.
const COOLING_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often a job asks those again whose accounts were throttled.
const AGAIN_MAX: usize = 5;
/// How soon a job is looked at again whose provider has no room for another request, and how many times that at most.
const CROWDED_PAUSE: Duration = Duration::from_millis(500);
const CROWDED_STEPS_MAX: u32 = 20;
/// The least and the longest time after which a job is looked at again that nobody could be asked for.
pub(super) const POSTPONE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5 * 60));

/// What a job waits for. Only waiting for somebody who may never come back is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// Its turn at the domain, the time that its graph names, a host that said for how long.
    InTurn,
    /// A provider that is left alone.
    ForOneLeftAlone,
    /// A provider that has as many requests as its account may have.
    ForRoom,
}

impl Run<'_> {
    /// Those of a race that were not asked before the job was put down in the midst of it.
    pub(super) fn unasked(&self, racers: &[ProviderId]) -> Vec<ProviderId> {
        let asked: Vec<&str> = self.newest(self.walk.tries as usize).map(|made| &*made.provider_id).collect();
        racers.iter().filter(|racer| !asked.contains(&&*racer.to_string())).copied().collect()
    }

    /// The newest attempts, so many.
    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = &AttemptV1> + Clone {
        self.job.attempts.iter().chain(&self.made).rev().take(count)
    }

    /// Which of these are not asked because they have failed in a row at this domain: others go first, but better they than
    /// nobody.
    pub(super) fn rests(&self, graph: &Graph, providers: &[ProviderId]) -> Vec<bool> {
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
    pub(super) fn cooling(&self, graph: &Graph, providers: &[ProviderId]) -> Option<Duration> {
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
    pub(super) fn again(
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
        Ok(account.lacks(&self.request(options)).is_none())
    }

    /// For how long the job should wait because each of these has as many requests as its account may have. It waits in
    /// the queue: one that waited here would hold a slot of the box and a visit of the domain. Those that have waited long
    /// look less often.
    pub(super) fn crowded(&self, providers: &[ProviderId]) -> Option<Duration> {
        let is_crowded =
            |provider: &ProviderId| self.dispatcher.parts().providers.is_crowded(self.org.id(), *provider);
        let pause = CROWDED_PAUSE * (self.row.crowded + 1).min(CROWDED_STEPS_MAX);
        providers.iter().all(is_crowded).then_some(pause)
    }
}
