//! One statement in one worker: planning, running, and the end, whichever comes first.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::line::Slot;
use super::shelf::Shelf;
use super::switch::{Fingerprint, KillSwitches};
use super::worker::{Worker, end};
use super::{Listed, WorkerSettings, switched_off};
use crate::engine::sql::errors::{ErrorCode, QueryError};
use crate::engine::sql::protocol::{Outcome, PlanInfo, PlanRequest, Reply, Request, RunRequest};
use crate::engine::sql::snapshot::Pin;

/// How long a worker that broke off may take to be dead, so that its status tells why.
const DEATH_WAIT: Duration = Duration::from_secs(1);

/// A worker that has begun with a statement, and everything that must be held meanwhile.
pub(super) struct Session {
    pub(super) worker: Worker,
    pub(super) shelf: Arc<Shelf>,
    pub(super) settings: Arc<WorkerSettings>,
    pub(super) deadline: Instant,
    pub(super) pin: Pin,
    pub(super) query_id: Uuid,
    pub(super) fingerprint: Fingerprint,
    pub(super) switches: watch::Receiver<Arc<KillSwitches>>,
    /// Where the result will stand.
    pub(super) result: PathBuf,
    pub(super) listed: Listed,
    pub(super) slot: Slot,
}

/// What ends the waiting for a worker.
enum End {
    Reply(io::Result<Reply>),
    Canceled,
    Switched(QueryError),
    Timeout,
}

impl Session {
    /// Lets the worker plan. On an error it is over.
    pub(super) async fn plan(mut self, request: PlanRequest) -> Result<(PlanInfo, Self), QueryError> {
        if let Err(end) = self.send(&Request::Plan(request)).await {
            return Err(self.over(end).await);
        }
        match self.answer(None).await {
            End::Reply(Ok(Reply::Planned(info))) => Ok((info, self)),
            end => Err(self.over(end).await),
        }
    }

    /// Lets the worker run what it has planned.
    pub(super) async fn start(mut self) -> Result<Self, QueryError> {
        let run = RunRequest { result: self.own_result(), rows_max: self.settings.rows_max };
        match self.send(&Request::Run(run)).await {
            Ok(()) => Ok(self),
            Err(end) => Err(self.over(end).await),
        }
    }

    /// Sends an order; a worker that does not read it is ended by the time limit.
    async fn send(&mut self, request: &Request) -> Result<(), End> {
        match tokio::time::timeout_at(self.deadline, self.worker.process.send(request)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(broken)) => Err(End::Reply(Err(broken))),
            Err(_) => Err(End::Timeout),
        }
    }

    /// Waits for the end of the run, whichever comes first.
    pub(super) async fn finish(mut self, canceled: watch::Receiver<bool>) -> Result<Outcome, QueryError> {
        let end = match self.answer(Some(canceled)).await {
            End::Reply(Ok(Reply::Finished(outcome))) => match self.take_result(&outcome) {
                Ok(()) => {
                    self.rest();
                    return Ok(outcome);
                }
                Err(error) => End::Reply(Err(error)),
            },
            end => end,
        };
        Err(self.over(end).await)
    }

    /// Waits for the worker's answer, its time, and those who may end it.
    async fn answer(&mut self, canceled: Option<watch::Receiver<bool>>) -> End {
        let organization = self.pin.organization();
        let fingerprint = self.fingerprint;
        let mut switches = self.switches.clone();
        let switched = switched_off(&mut switches, organization, fingerprint);
        tokio::select! {
            biased;
            reply = self.worker.process.receive() => End::Reply(reply),
            () = told(canceled) => End::Canceled,
            error = switched => End::Switched(error),
            () = tokio::time::sleep_until(self.deadline) => End::Timeout,
        }
    }

    /// Takes the result, which must be a file and of the size that was told.
    fn take_result(&self, outcome: &Outcome) -> io::Result<()> {
        let own = self.own_result();
        let found = fs::symlink_metadata(&own)?;
        if !found.is_file() || found.len() != outcome.bytes {
            return Err(io::Error::other("the result is not what the worker said"));
        }
        fs::rename(&own, &self.result)
    }

    /// Where the worker writes the result: in its own folder, for it may write nowhere else.
    fn own_result(&self) -> PathBuf {
        self.worker.home.path().join(format!("{}.arrow", self.query_id))
    }

    /// The statement has ended well; the worker comes to rest while its caller goes on.
    pub(super) fn rest(self) {
        let Self { mut worker, shelf, pin, slot, listed, .. } = self;
        // The slot and the pin are held until the worker has let go of the statement.
        tokio::spawn(async move {
            drop(listed);
            if worker.rest().await {
                shelf.give_back(worker);
            } else {
                drop(end(worker).await);
            }
            drop((pin, slot));
        });
    }

    /// Ends the worker. The caller need not wait until the process is gone, which takes longer the more memory it holds;
    /// the slot does.
    fn kill(self) {
        let Self { mut worker, pin, slot, listed, .. } = self;
        worker.process.kill();
        tokio::spawn(async move {
            drop(listed);
            drop(end(worker).await);
            drop((pin, slot));
        });
    }

    /// The statement has ended badly: says why, and ends the worker unless it only refused.
    async fn over(self, ended: End) -> QueryError {
        let error = match ended {
            End::Timeout => {
                let limit = self.settings.query_timeout;
                self.kill();
                return QueryError::timed_out(limit);
            }
            End::Canceled => {
                self.kill();
                return QueryError::canceled();
            }
            End::Switched(error) => {
                self.kill();
                return error;
            }
            End::Reply(Ok(Reply::Failed(error))) if error.code.is_refusal() => {
                self.rest();
                return error;
            }
            End::Reply(Ok(Reply::Failed(error))) => error,
            End::Reply(Ok(_)) => QueryError::internal("a worker answered out of turn"),
            End::Reply(Err(broken)) => return self.died(broken).await,
        };
        let Self { worker, pin, slot, listed, .. } = self;
        let (_, stderr) = end(worker).await;
        if error.code == ErrorCode::Internal {
            tracing::error!(detail = error.detail, stderr, "a SQL statement failed inside");
        }
        drop((listed, pin, slot));
        error
    }

    /// It is dying or dead; it ends on its own, so that its status tells why.
    async fn died(self, broken: io::Error) -> QueryError {
        let Self { mut worker, pin, slot, listed, .. } = self;
        let status = worker.process.ended(DEATH_WAIT).await;
        let (killed, stderr) = end(worker).await;
        let status = status.unwrap_or(killed);
        tracing::warn!(?status, stderr, %broken, "a SQL worker died");
        drop((listed, pin, slot));
        death(status.ok(), &stderr).with_detail(format!("{broken}; {stderr}"))
    }
}

/// Ends when the statement is canceled; never, when nobody can do that.
async fn told(canceled: Option<watch::Receiver<bool>>) {
    if let Some(mut canceled) = canceled
        && canceled.wait_for(|canceled| *canceled).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// What a worker's death says about its statement.
fn death(status: Option<ExitStatus>, stderr: &str) -> QueryError {
    use std::os::unix::process::ExitStatusExt;
    if stderr.contains("overflowed its stack") {
        return QueryError::failed("The statement is nested too deeply.");
    }
    if stderr.contains("memory allocation of") || stderr.contains("Cannot allocate memory") {
        return QueryError::out_of_memory();
    }
    match status.and_then(|status| status.signal()) {
        // The kernel's own killer, when the box runs out of memory; our kills never come here.
        Some(libc::SIGKILL) => QueryError::out_of_memory(),
        // It wrote more than a file may hold.
        Some(libc::SIGXFSZ) => QueryError::failed("The statement used more than its disk space."),
        _ => QueryError::failed("The statement could not be run."),
    }
}
