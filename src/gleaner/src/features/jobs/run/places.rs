//! The visits of a domain that one step of a run makes: each holds a place of the domain and keeps its pauses.
//!
//! A race may be wider than its domain's limit. The step comes with the one place that its run was given; what more it
//! wants at once it gets as far as places are free and nobody else's turn is next. A place whose visit has ended serves the
//! step's next one, unless others go first. So one place is enough for any race, and no two races wait for each other.

use super::RunHost;
use base::ids::OrgId;
use base::web::WebUrl;
use fetch::{Permit, VisitWait};
use std::time::{Duration, Instant};

/// How soon a domain is looked at again that has no visit free.
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// The places that a step has and that nobody visits with.
pub(super) struct VisitPlaces<'a> {
    dispatcher: &'a dyn RunHost,
    org: OrgId,
    url: &'a WebUrl,
    /// Its turn has come, and no visit was made.
    ready: Option<Permit>,
    /// Its visit has ended.
    used: Option<Permit>,
}

impl<'a> VisitPlaces<'a> {
    /// With the place that the run has, whose turn has come.
    pub fn new(
        dispatcher: &'a dyn RunHost,
        org: OrgId,
        url: &'a WebUrl,
        ready: Option<Permit>,
    ) -> VisitPlaces<'a> {
        VisitPlaces { dispatcher, org, url, ready, used: None }
    }

    /// A place for one more visit, or for how long there is none; where others go first (zero) the place of a visit that
    /// has ended is theirs.
    pub fn take(&mut self) -> Result<Permit, Duration> {
        if let Some(permit) = self.ready.take() {
            return Ok(permit);
        }
        let (now, domain) = (Instant::now(), self.url.domain());
        let Some(permit) = self.used.take() else {
            if self.dispatcher.others_go_first(self.org, &domain) {
                return Err(Duration::ZERO);
            }
            let politeness = &self.dispatcher.parts().politeness;
            return politeness.try_acquire(&domain, self.url.host(), now).map_err(|wait| pause(wait, now));
        };
        if self.dispatcher.gives_way(self.org, &domain, true) {
            drop(permit);
            self.dispatcher.wake();
            return Err(Duration::ZERO);
        }
        let turn = permit.again(now).map_err(|wait| pause(wait, now));
        match turn {
            Ok(()) => Ok(permit),
            Err(pause) => {
                self.used = Some(permit);
                Err(pause)
            }
        }
    }

    /// Takes a place back: whether it was visited with, and whether the step has a use for it.
    pub fn give_back(&mut self, permit: Permit, was_used: bool, is_needed: bool) {
        let place = if was_used { &mut self.used } else { &mut self.ready };
        if is_needed && place.is_none() {
            *place = Some(permit);
        } else {
            drop(permit);
            self.dispatcher.wake();
        }
    }

    /// What the run keeps.
    pub fn into_permit(self) -> Option<Permit> {
        self.ready.or(self.used)
    }
}

/// How long to wait.
pub(super) fn pause(wait: VisitWait, now: Instant) -> Duration {
    match wait {
        VisitWait::NotBefore(at) | VisitWait::HostNotBefore(at) => at.saturating_duration_since(now),
        VisitWait::Busy => BUSY_PAUSE,
    }
}
