//! Whose upload goes on: what is read and written for an organization at once is what one step of one upload takes.

use base::Result;
use base::ids::OrgId;
use server::turns::{OrganizationTurns, Turn, TurnLimits};

/// The turns of a box, one service for all uploads.
pub(in crate::features::urls) struct UploadTurns(OrganizationTurns);

impl UploadTurns {
    pub(in crate::features::urls) fn new() -> UploadTurns {
        UploadTurns(OrganizationTurns::new(TurnLimits {
            own_waiting_max: 64,
            waiting_max: 1_024,
            noun: "uploads",
        }))
    }

    /// Waits for a turn, which lasts until it is dropped.
    pub(super) async fn next(&self, org: OrgId) -> Result<Turn> {
        self.0.next(org).await
    }
}
