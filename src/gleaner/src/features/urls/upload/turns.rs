//! Whose upload goes on: organizations take turns, and one has one turn at a time, however many uploads it sends. So what is
//! read and written for it at once is what one step of one upload takes.

use base::ids::OrgId;
use base::line::{AcquireError, FairPermit, FairSemaphore, FairnessRules, OrganizationLimit};
use base::{Code, Error, Result};
use server::on_own_task;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

/// Steps of one organization that may wait.
const OWN_WAITING_MAX: usize = 64;
/// Steps of all that may wait.
const WAITING_MAX: usize = 1_024;

/// The turns of a box.
pub(in crate::features::urls) struct UploadTurns(Arc<FairSemaphore<OrgId>>);

impl UploadTurns {
    /// As many steps at once as there are cores.
    pub(in crate::features::urls) fn new() -> UploadTurns {
        let places = available_parallelism().map_or(2, usize::from);
        let kept_after = Duration::from_secs(1);
        UploadTurns(FairSemaphore::new(FairnessRules {
            places,
            kept: 0,
            kept_after,
            waiting_max: WAITING_MAX,
        }))
    }

    /// Waits for a turn, which lasts until it is dropped.
    pub(super) async fn next(&self, org: OrgId) -> Result<FairPermit<OrgId>> {
        let limit = OrganizationLimit { running: 1, waiting: OWN_WAITING_MAX };
        let ticket = self.0.join(org, Some(limit)).map_err(refused)?;
        on_own_task(async move { ticket.turn().await.map_err(refused) }).await
    }
}

fn refused(error: AcquireError) -> Error {
    match error {
        AcquireError::OverLimit => Error::new(Code::RateLimited)
            .message(format!("More than {OWN_WAITING_MAX} uploads of yours are under way."))
            .header("retry-after", "5"),
        AcquireError::Full | AcquireError::Closed => {
            Error::unavailable("too many uploads are under way").header("retry-after", "5")
        }
    }
}
