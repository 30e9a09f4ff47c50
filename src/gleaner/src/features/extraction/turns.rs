//! Whose pages are read on request: organizations take turns, and one has one place at a time, however many requests it sends.
//! So trying an XPath on a page that takes a second keeps nobody else from trying theirs.

use base::ids::OrgId;
use base::line::{AcquireError, FairPermit, FairSemaphore, FairnessRules, OrganizationLimit};
use base::{Code, Error, Result};
use server::on_own_task;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

/// Requests of one organization that may wait.
const OWN_WAITING_MAX: usize = 16;
/// Requests of all that may wait.
const WAITING_MAX: usize = 512;

/// The turns of a box.
pub struct ReadingTurns(Arc<FairSemaphore<OrgId>>);

/// Lasts until it is dropped.
pub type ReadingTurn = FairPermit<OrgId>;

impl Default for ReadingTurns {
    /// As many pages at once as there are cores.
    fn default() -> ReadingTurns {
        let places = available_parallelism().map_or(2, usize::from);
        let kept_after = Duration::from_secs(1);
        ReadingTurns(FairSemaphore::new(FairnessRules {
            places,
            kept: 0,
            kept_after,
            waiting_max: WAITING_MAX,
        }))
    }
}

impl ReadingTurns {
    /// Waits for a turn.
    pub async fn next(&self, org: OrgId) -> Result<ReadingTurn> {
        let limit = OrganizationLimit { running: 1, waiting: OWN_WAITING_MAX };
        let ticket = self.0.join(org, Some(limit)).map_err(refused)?;
        on_own_task(async move { ticket.turn().await.map_err(refused) }).await
    }
}

fn refused(error: AcquireError) -> Error {
    match error {
        AcquireError::OverLimit => Error::new(Code::RateLimited)
            .message(format!("More than {OWN_WAITING_MAX} requests of yours wait for pages to be read."))
            .header("retry-after", "5"),
        AcquireError::Full | AcquireError::Closed => {
            Error::unavailable("too many requests wait for pages to be read").header("retry-after", "5")
        }
    }
}
