//! The one queue of statements: a statement has a ticket until its turn comes, and its turn until its end is written.
//!
//! The organization's limit and the box's places are both rules of this queue (`base::line`). What a turn holds is let go
//! of one by one: the place when no process is left that ran the statement, and the organization's count when whoever
//! has the turn is done with it. Neither waits for the other, so a disk that takes its time with what statements leave
//! keeps no place from anybody.

use std::sync::Arc;

use base::line::{AcquireError, FairPermit, LimitCount, OrganizationLimit, Ticket};
use parking_lot::Mutex;
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
        let (permit, count) = permit.split();
        Ok(Turn { count, place: Mutex::new(Some(Place::of(permit))) })
    }
}

/// The turn of a statement, also of those that belong to it: they go one after the other. Dropping it says that all of
/// that has ended, and its organization may have another one.
#[derive(Debug)]
pub struct Turn {
    count: LimitCount<Uuid>,
    /// Until it is rested; beside this, workers have it.
    place: Mutex<Option<Arc<Place>>>,
}

/// A place of the box.
#[derive(Debug)]
struct Place {
    _permit: FairPermit<Uuid>,
    /// One worker at a time: the place is that of one process.
    worker: Arc<Semaphore>,
}

impl Place {
    fn of(permit: FairPermit<Uuid>) -> Arc<Place> {
        Arc::new(Place { _permit: permit, worker: Arc::new(Semaphore::new(1)) })
    }
}

/// What a worker process holds of a turn until it is at rest or gone.
#[derive(Debug)]
pub(super) struct WorkerSlot {
    _worker: OwnedSemaphorePermit,
    _place: Arc<Place>,
}

impl Turn {
    /// The right to let a worker run, once the one before it under this turn is at rest or gone. A turn that was rested
    /// waits for a place again.
    pub(super) async fn worker_slot(&self) -> Result<WorkerSlot, QueryError> {
        let held = self.place.lock().clone();
        let place = match held {
            Some(place) => place,
            None => {
                let permit = self.count.place().await.map_err(|why| turned_away(why, None))?;
                Arc::clone(self.place.lock().insert(Place::of(permit)))
            }
        };
        let worker = Arc::clone(&place.worker).acquire_owned().await.map_err(QueryError::internal)?;
        Ok(WorkerSlot { _worker: worker, _place: place })
    }

    /// Nothing is to be run for now: the place is another's as soon as no process is left that ran. The statement still
    /// counts for its organization.
    pub fn rest(&self) {
        drop(self.place.lock().take());
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
