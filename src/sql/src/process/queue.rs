//! The one queue of statements: a statement has a ticket until its turn comes, and its turn until it has ended.
//!
//! The organization's limit and the box's places are both rules of this queue (`base::line`). What a turn holds is let go
//! of in two steps: when the statement has ended its organization may have another one, and the place is another's when
//! no process is left that ran it.

use std::sync::Arc;

use base::line::{AcquireError, FairPermit, OrganizationLimit, Ticket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::errors::{ErrorCode, QueryError};

/// A statement in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct QueueTicket(pub(super) Ticket<Uuid>);

impl QueueTicket {
    /// Whether its turn has come without waiting.
    pub fn is_first(&self) -> bool {
        self.0.is_granted()
    }

    /// How many statements of its own organization have to end before it may run; none when it waits for a place alone.
    pub fn position(&self) -> usize {
        self.0.position()
    }

    /// Waits for its turn.
    pub async fn turn(self) -> Result<Turn, QueryError> {
        let permit = self.0.turn().await.map_err(|why| turned_away(why, None))?;
        Ok(Turn(Arc::new(TurnShared { permit, worker: Arc::new(Semaphore::new(1)) })))
    }
}

/// The turn of a statement, also of those that belong to it: they go one after the other. Dropping it says that all of
/// that has ended.
#[derive(Debug)]
pub struct Turn(Arc<TurnShared>);

#[derive(Debug)]
struct TurnShared {
    permit: FairPermit<Uuid>,
    /// One worker at a time: the place is that of one process.
    worker: Arc<Semaphore>,
}

/// What a worker process holds of a turn until it is at rest or gone.
#[derive(Debug)]
pub(super) struct WorkerSlot {
    _worker: OwnedSemaphorePermit,
    _turn: Arc<TurnShared>,
}

impl Turn {
    /// The right to let a worker run, once the one before it under this turn is at rest or gone.
    pub(super) async fn worker_slot(&self) -> Result<WorkerSlot, QueryError> {
        let worker = Arc::clone(&self.0.worker).acquire_owned().await.map_err(QueryError::internal)?;
        Ok(WorkerSlot { _worker: worker, _turn: Arc::clone(&self.0) })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.permit.uncount();
    }
}

/// Why a statement may not even wait.
pub(super) fn turned_away(why: AcquireError, limit: Option<OrganizationLimit>) -> QueryError {
    let message = match (why, limit) {
        (AcquireError::Closed, _) => return QueryError::internal("the queue is closed"),
        (AcquireError::OverLimit, Some(limit)) => {
            let most = limit.running.max(1).saturating_add(limit.waiting);
            format!("{most} statements of this organization run or wait already; send it when one has ended.")
        }
        _ => "Too many statements wait for their turn; send it later.".to_owned(),
    };
    QueryError { retriable: true, ..QueryError::new(ErrorCode::TooManyQueries, message) }
}
