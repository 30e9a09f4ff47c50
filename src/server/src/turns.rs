//! Turns for heavy work that requests ask for: organizations take turns, and one has one place at a time, however many
//! requests it sends. So what takes a second for one keeps nobody else waiting for longer than its fair share.

use crate::on_own_task;
use base::ids::OrgId;
use base::line::{AcquireError, FairPermit, FairSemaphore, FairnessRules, OrganizationLimit};
use base::{Code, Error, Result};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

/// The place that an organization has until it is dropped.
pub type Turn = FairPermit<OrgId>;

/// How many may wait for a kind of work, and what those beyond are told.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Requests of one organization that may wait.
    pub own_waiting_max: usize,
    /// Requests of all that may wait.
    pub waiting_max: usize,
    /// What waits, as in "More than 16 … of yours are under way.".
    pub noun: &'static str,
}

/// The turns of a box for one kind of work.
pub struct OrganizationTurns {
    places: Arc<FairSemaphore<OrgId>>,
    limits: TurnLimits,
}

impl OrganizationTurns {
    /// As many places as there are cores.
    pub fn new(limits: TurnLimits) -> OrganizationTurns {
        let places = available_parallelism().map_or(2, usize::from);
        let kept_after = Duration::from_secs(1);
        let rules = FairnessRules { places, kept: 0, kept_after, waiting_max: limits.waiting_max };
        OrganizationTurns { places: FairSemaphore::new(rules), limits }
    }

    /// Waits for a turn. Errors: `rate_limited` where too many requests of the organization wait already, `service_unavailable`
    /// where too many of all do.
    pub async fn next(&self, org: OrgId) -> Result<Turn> {
        let limit = OrganizationLimit { running: 1, waiting: self.limits.own_waiting_max };
        let limits = self.limits;
        let ticket = self.places.join(org, Some(limit)).map_err(|error| refused(error, limits))?;
        on_own_task(async move { ticket.turn().await.map_err(|error| refused(error, limits)) }).await
    }
}

fn refused(error: AcquireError, limits: TurnLimits) -> Error {
    let TurnLimits { own_waiting_max, noun, .. } = limits;
    match error {
        AcquireError::OverLimit => Error::new(Code::RateLimited)
            .message(format!("More than {own_waiting_max} {noun} of yours are under way."))
            .header("retry-after", "5"),
        AcquireError::Full | AcquireError::Closed => {
            Error::unavailable(format!("too many {noun} are under way")).header("retry-after", "5")
        }
    }
}
