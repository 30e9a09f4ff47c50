//! Whose pages are read on request: trying an XPath on a page that takes a second keeps nobody else from trying theirs.

use base::Result;
use base::ids::OrgId;
use server::turns::{OrganizationTurns, Turn, TurnLimits};

/// The turns of a box, one service for all that reads stored pages.
pub struct ReadingTurns(OrganizationTurns);

/// Lasts until it is dropped.
pub type ReadingTurn = Turn;

impl ReadingTurns {
    pub fn new() -> ReadingTurns {
        ReadingTurns(OrganizationTurns::new(TurnLimits {
            own_waiting_max: 16,
            waiting_max: 512,
            noun: "requests to read pages",
        }))
    }

    /// Waits for a turn.
    pub async fn next(&self, org: OrgId) -> Result<ReadingTurn> {
        self.0.next(org).await
    }
}
