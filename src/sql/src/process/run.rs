//! One statement in one worker: planning, running, and the end, whichever comes first.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::child::{ProcessExit, WorkerProcess};
use super::collect::take;
use super::disk_watch::{DiskClaim, DiskWatch};
use super::idle::IdlePool;
use super::kill_switch::{Fingerprint, KillSwitches};
use super::{RunningEntry, WorkerSettings, switched_off};
use crate::errors::{ErrorCode, QueryError};
use crate::protocol::{Outcome, PlanInfo, PlanRequest, Reply, Request, RunRequest};
use crate::snapshot::Pin;

/// How long a worker that broke off may take to be dead, so that its status tells why.
const DEATH_WAIT: Duration = Duration::from_secs(1);

/// A worker that has begun with a statement. Dropping it ends the worker, which is charged with the statement's slot and
/// snapshot until it is gone.
pub(super) struct WorkerSession {
    pub(super) worker: WorkerProcess,
    /// It has served a statement before.
    pub(super) has_rested: bool,
    pub(super) idle: Arc<IdlePool>,
    pub(super) settings: Arc<WorkerSettings>,
    pub(super) deadline: Instant,
    pub(super) organization: Uuid,
    pub(super) query_id: Uuid,
    pub(super) fingerprint: Fingerprint,
    pub(super) switches: watch::Receiver<Arc<KillSwitches>>,
    /// Where the result will stand.
    pub(super) result: PathBuf,
    pub(super) disk: Arc<DiskWatch>,
    pub(super) claim: DiskClaim,
    pub(super) listed: Arc<RunningEntry>,
}

/// Why a statement was not planned.
pub(super) enum PlanFailure {
    Failed(QueryError),
    /// Somebody (the kernel, when memory is short, or an operator) has killed a worker that had rested, before it said
    /// anything of this statement. Another worker may plan it.
    Killed(QueryError),
}

/// What ends the waiting for a worker.
enum RunEnd {
    Reply(io::Result<Reply>),
    Canceled,
    Switched(QueryError),
    /// The disk is short of space.
    NoDisk,
    Timeout,
}

impl WorkerSession {
    /// Lets the worker plan, and run what it has planned if `is_run`. On an error it is over.
    pub(super) async fn plan(
        mut self,
        sql: String,
        pin: &Pin,
        is_run: bool,
    ) -> Result<(PlanInfo, Self), PlanFailure> {
        let run = RunRequest { result: self.own_result(), rows_max: self.settings.rows_max };
        let (tables, run) = (self.worker.tell(pin), is_run.then_some(run));
        let request = PlanRequest { sql, tables, agent: pin.agent, now_ms: pin.now_ms, run };
        let end = match self.send(&Request::Plan(request)).await {
            Ok(()) => self.answer(None).await,
            Err(end) => end,
        };
        match end {
            RunEnd::Reply(Ok(Reply::Planned(info))) => Ok((info, self)),
            RunEnd::Reply(Err(broken)) if self.has_rested => {
                let killed = self.worker.ended(DEATH_WAIT).await.is_some_and(|ended| ended.was_killed());
                let error = self.died(broken).await;
                Err(if killed { PlanFailure::Killed(error) } else { PlanFailure::Failed(error) })
            }
            end => Err(PlanFailure::Failed(self.over(end).await)),
        }
    }

    /// Sends an order; a worker that does not read it is ended by the time limit.
    async fn send(&mut self, request: &Request) -> Result<(), RunEnd> {
        match tokio::time::timeout_at(self.deadline, self.worker.send(request)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(broken)) => Err(RunEnd::Reply(Err(broken))),
            Err(_) => Err(RunEnd::Timeout),
        }
    }

    /// Waits for the end of the run, whichever comes first.
    pub(super) async fn finish(mut self, canceled: watch::Receiver<bool>) -> Result<Outcome, QueryError> {
        let end = match self.answer(Some(canceled)).await {
            RunEnd::Reply(Ok(Reply::Finished(outcome))) => {
                match self.take_result(&outcome).await {
                    Ok(()) => self.rest(),
                    // Not the worker's fault, and its folder has to be emptied.
                    Err(error) => {
                        drop(self);
                        return Err(error);
                    }
                }
                return Ok(outcome);
            }
            end => end,
        };
        Err(self.over(end).await)
    }

    /// Waits for the worker's answer, its time, and those who may end it.
    async fn answer(&mut self, canceled: Option<watch::Receiver<bool>>) -> RunEnd {
        let mut switches = self.switches.clone();
        let switched = switched_off(&mut switches, self.organization, self.fingerprint);
        tokio::select! {
            biased;
            reply = self.worker.receive() => RunEnd::Reply(reply),
            () = told(canceled) => RunEnd::Canceled,
            error = switched => RunEnd::Switched(error),
            () = self.claim.must_end() => RunEnd::NoDisk,
            () = tokio::time::sleep_until(self.deadline) => RunEnd::Timeout,
        }
    }

    /// Takes the result from the worker, unless the disk has no room for it.
    async fn take_result(&self, outcome: &Outcome) -> Result<(), QueryError> {
        let (own, result, bytes) = (self.own_result(), self.result.clone(), outcome.bytes);
        let disk = Arc::clone(&self.disk);
        let taken = tokio::task::spawn_blocking(move || {
            if disk.has_no_room_for(bytes) {
                return Err(QueryError::out_of_disk());
            }
            take(&own, &result, bytes).map_err(QueryError::from)
        });
        taken.await.map_err(QueryError::internal)?
    }

    /// Where the worker writes the result: in its own folder, for it may write nowhere else.
    fn own_result(&self) -> PathBuf {
        self.worker.home().join(format!("{}.arrow", self.query_id))
    }

    /// The statement has ended well; the worker comes to rest while its caller goes on.
    pub(super) fn rest(self) {
        let Self { mut worker, idle, listed, claim, .. } = self;
        tokio::spawn(async move {
            drop((listed, claim));
            if worker.rest().await {
                let lease = worker.release();
                idle.give_back(worker);
                // In this order: whoever gets the slot finds the worker.
                drop(lease);
            }
        });
    }

    /// The statement has ended badly: says why, and ends the worker unless it only refused. The caller need not wait
    /// until the process is gone, which takes longer the more memory it holds; the slot does.
    async fn over(self, ended: RunEnd) -> QueryError {
        match ended {
            RunEnd::Timeout => QueryError::timed_out(self.settings.query_timeout),
            RunEnd::Canceled => QueryError::canceled(),
            RunEnd::NoDisk => QueryError::out_of_disk(),
            RunEnd::Switched(error) => error,
            RunEnd::Reply(Ok(Reply::Failed(error))) if error.code.is_refusal() => {
                self.rest();
                error
            }
            RunEnd::Reply(Ok(Reply::Failed(error))) => {
                if error.code == ErrorCode::Internal {
                    tracing::error!(detail = error.detail, query = %self.query_id, "a SQL statement failed inside");
                }
                error
            }
            RunEnd::Reply(Ok(_)) => QueryError::internal("a worker answered out of turn"),
            RunEnd::Reply(Err(broken)) => self.died(broken).await,
        }
    }

    /// It is dying or dead; it ends on its own, so that its status tells why.
    async fn died(mut self, broken: io::Error) -> QueryError {
        let ended = self.worker.ended(DEATH_WAIT).await;
        let stderr = ended.as_ref().map_or("", |ended| &ended.stderr);
        tracing::warn!(status = ?ended.as_ref().map(|ended| ended.status), stderr, %broken, "a SQL worker died");
        let detail = format!("{broken}; {stderr}");
        death(ended.as_ref()).with_detail(detail)
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
fn death(ended: Option<&ProcessExit>) -> QueryError {
    let stderr = ended.map_or("", |ended| &ended.stderr);
    if stderr.contains("overflowed its stack") {
        return QueryError::failed("The statement is nested too deeply.");
    }
    if stderr.contains("memory allocation of") || stderr.contains("Cannot allocate memory") {
        return QueryError::out_of_memory();
    }
    match ended.and_then(ProcessExit::signal) {
        // Our own kills never come here: the kernel's, when the box runs out of memory, or somebody at the box.
        Some(libc::SIGKILL) => QueryError::killed(),
        // A mapped file is shorter than it was, or its disk cannot be read.
        Some(libc::SIGBUS) => QueryError::damaged(),
        Some(libc::SIGSEGV | libc::SIGILL | libc::SIGABRT | libc::SIGFPE) => QueryError::crashed(),
        // It wrote more than a file may hold.
        Some(libc::SIGXFSZ) => QueryError::out_of_spill(),
        _ => QueryError::failed("The statement could not be run."),
    }
}
