//! Who waits for statements that other slices have run (`computed.rs`): one of an organization runs at a time, and a few wait.

use base::ids::OrgId;
use base::line::{AcquireError, FairSemaphore, FairnessRules, OrganizationLimit, Ticket};
use base::{Code, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// Computations of all organizations at once: the box's queue of statements says how many of them run.
const AT_ONCE_MAX: usize = 256;
/// Computations of one organization that wait for its one before.
const OWN_WAITING_MAX: usize = 16;
/// Computations of all that wait, beside one of each organization.
const WAITING_MAX: usize = 1_024;

pub(super) struct ComputationLine(Arc<FairSemaphore<OrgId>>);

impl ComputationLine {
    pub(super) fn new() -> ComputationLine {
        ComputationLine(FairSemaphore::new(FairnessRules {
            places: AT_ONCE_MAX,
            kept: 0,
            kept_after: Duration::ZERO,
            waiting_max: WAITING_MAX,
        }))
    }

    /// A place in the line, if the organization may have one more.
    pub(super) fn enter(&self, org: OrgId) -> Result<Ticket<OrgId>> {
        let limit = OrganizationLimit { running: 1, waiting: OWN_WAITING_MAX };
        self.0.join(org, Some(limit)).map_err(ComputationLine::refused)
    }

    pub(super) fn refused(why: AcquireError) -> Error {
        match why {
            AcquireError::OverLimit => Error::new(Code::RateLimited)
                .message(format!(
                    "{OWN_WAITING_MAX} requests of this organization wait to be computed already."
                ))
                .header("retry-after", "1"),
            AcquireError::Full | AcquireError::Closed => busy(),
        }
    }
}

pub(super) fn busy() -> Error {
    Error::unavailable("Statements of the SQL console keep the box busy; ask again.")
}
