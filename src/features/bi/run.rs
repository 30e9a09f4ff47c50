//! One statement from its row to its end.
//!
//! The driver is a task of its own, so a caller that goes away takes nothing with it. It writes the row as queued, waits for
//! its turn, lets a worker plan and run, and writes how that ended. What it is at is told to whoever waits, as a [`Stage`];
//! a stage is told only when the row says it too. A driver that dies leaves a row that says "running" and is not in the
//! list of live ones: the tidying task finds it.

use super::line::Place;
use super::rows::{QUERIES, QueryFailureV1, QueryStatus, QueryV1, ResultV1};
use super::service::{Bi, is_refusal};
use crate::base::codec::Json;
use crate::base::ids::{OrgId, QueryId};
use crate::base::{Error, Result};
use crate::engine::sql::{Cap, ErrorCode, Outcome, PlanInfo, QueryBackend, QueryError, Running, Statement};
use crate::store::OrgStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A statement that ends so soon after it was planned is never written as running: it saves a commit.
const RUNNING_AFTER: Duration = Duration::from_millis(100);

/// What a driver is at.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Its row is not written yet, or its turn has come and it is being planned.
    Planning,
    /// It waits for others of its organization.
    Waiting,
    /// It was planned and runs.
    Running,
    /// It has ended, and its row says how.
    Ended,
    /// It cannot be planned; there is no row.
    Refused(Box<QueryError>),
    /// It could not be stored; there is no row, or one that the tidying task will end.
    Broken(String),
}

impl Stage {
    pub(super) fn is_past_planning(&self) -> bool {
        !matches!(self, Stage::Planning)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Stage::Ended | Stage::Refused(_) | Stage::Broken(_))
    }
}

/// The way to a driver.
pub(super) struct Live {
    pub(super) org: OrgId,
    cancel: watch::Sender<bool>,
    stages: watch::Receiver<Stage>,
}

impl Live {
    /// Asks for the statement's end.
    pub(super) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    pub(super) fn stages(&self) -> watch::Receiver<Stage> {
        self.stages.clone()
    }
}

/// How a statement ended.
enum End {
    /// It was only planned.
    Planned,
    Outcome(Outcome),
    Failed(QueryError),
    Canceled,
}

/// Carries one statement.
pub(super) struct Driver {
    bi: Arc<Bi>,
    org: OrgStore,
    query: QueryV1,
    stage: watch::Sender<Stage>,
    canceled: watch::Receiver<bool>,
}

/// Takes the statement off the list of live ones, also when the driver panics.
struct Listed {
    bi: Arc<Bi>,
    id: QueryId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.bi.live.lock().remove(&self.id);
    }
}

impl Driver {
    /// Begins. The statement is on the list of live ones when this returns.
    pub(super) fn spawn(bi: Arc<Bi>, org: OrgStore, query: QueryV1, place: Place) -> watch::Receiver<Stage> {
        let (stage, stages) = watch::channel(Stage::Planning);
        let (cancel, canceled) = watch::channel(false);
        let live = Live { org: org.id(), cancel, stages: stages.clone() };
        bi.live.lock().insert(query.id, Arc::new(live));
        let listed = Listed { bi: Arc::clone(&bi), id: query.id };
        let driver = Driver { bi, org, query, stage, canceled };
        tokio::spawn(async move {
            let _listed = listed;
            driver.drive(place).await;
        });
        stages
    }

    async fn drive(mut self, place: Place) {
        let last = match self.carry(&place).await {
            Ok(stage) => stage,
            Err(error) => {
                tracing::error!(query = %self.query.id, %error, "a statement could not be carried through");
                Stage::Broken("The statement could not be stored; look before you send it again.".to_owned())
            }
        };
        // The next may go on before anybody is told that this one has ended.
        drop(place);
        self.stage.send_replace(last);
    }

    async fn carry(&mut self, place: &Place) -> Result<Stage> {
        self.store(QUERY_NEW).await?;
        let slot = match place.try_run() {
            Some(slot) => Some(slot),
            None => {
                self.stage.send_replace(Stage::Waiting);
                let mut canceled = self.canceled.clone();
                tokio::select! {
                    slot = place.run() => slot,
                    () = asked(&mut canceled) => None,
                }
            }
        };
        let end = match slot {
            None => End::Canceled,
            Some(_slot) => {
                if matches!(*self.stage.borrow(), Stage::Waiting) {
                    // From here on it is planned; who did not want to wait has gone.
                    self.query.started_at = None;
                }
                match self.run().await? {
                    End::Failed(error) if is_refusal(&error) && self.query.plan == Json::default() => {
                        return self.refuse(error).await;
                    }
                    end => end,
                }
            }
        };
        self.end(end).await?;
        Ok(Stage::Ended)
    }

    /// A statement that could not be planned leaves no row, unless somebody was told of one already.
    async fn refuse(&mut self, error: QueryError) -> Result<Stage> {
        if matches!(*self.stage.borrow(), Stage::Waiting) {
            self.end(End::Failed(error)).await?;
            return Ok(Stage::Ended);
        }
        let id = self.query.id;
        self.org.write(move |tx| tx.delete(&QUERIES, &id)).await?;
        Ok(Stage::Refused(Box::new(error)))
    }

    /// Plans and runs.
    async fn run(&mut self) -> Result<End> {
        let tables = self.bi.specs(&self.org)?;
        let (pin, freshness_sec) = self.bi.feed().pin(self.org.id(), tables)?;
        self.query.freshness_sec = Some(freshness_sec);
        let statement = Statement { pin, sql: self.query.sql.clone(), query_id: self.query.id.0 };
        let mut canceled = self.canceled.clone();
        if self.query.dry {
            let planned = tokio::select! {
                planned = self.bi.workers.plan(statement) => planned,
                () = asked(&mut canceled) => return Ok(End::Canceled),
            };
            return Ok(match planned {
                Ok(plan) => {
                    self.planned(&plan)?;
                    End::Planned
                }
                Err(error) => End::Failed(error),
            });
        }
        let started = tokio::select! {
            started = self.bi.workers.start(statement) => started,
            () = asked(&mut canceled) => return Ok(End::Canceled),
        };
        match started {
            Ok((plan, running)) => {
                self.planned(&plan)?;
                self.wait(running, canceled).await
            }
            Err(error) => Ok(End::Failed(error)),
        }
    }

    fn planned(&mut self, plan: &PlanInfo) -> Result<()> {
        let plan = serde_json::to_value(plan).map_err(|e| Error::internal("write down a plan", e))?;
        self.query.plan = Json(plan);
        self.query.started_at = Some(self.org.clock().now());
        self.query.status = QueryStatus::Running;
        Ok(())
    }

    async fn wait(&mut self, mut running: Running, mut canceled: watch::Receiver<bool>) -> Result<End> {
        let cancel = running.cancel_handle();
        let mut told = false;
        let outcome = loop {
            tokio::select! {
                outcome = &mut running => break outcome,
                () = asked(&mut canceled), if !*self.canceled.borrow_and_update() || !told => {
                    cancel.cancel();
                    break running.wait().await;
                }
                () = tokio::time::sleep(RUNNING_AFTER), if !told => {
                    self.store(QUERY_KNOWN).await?;
                    self.stage.send_replace(Stage::Running);
                    told = true;
                }
            }
        };
        Ok(match outcome {
            Ok(outcome) => End::Outcome(outcome),
            Err(error) if error.code == ErrorCode::Canceled => End::Canceled,
            Err(error) => End::Failed(error),
        })
    }

    async fn end(&mut self, end: End) -> Result<()> {
        let query = &mut self.query;
        match end {
            End::Planned => {
                query.status = QueryStatus::Success;
                query.result = Some(ResultV1 { rows: 0, bytes: 0, cut_at_rows: false, cut_at_bytes: false, kept: false });
            }
            End::Outcome(outcome) => {
                query.status = QueryStatus::Success;
                query.result = Some(ResultV1 {
                    rows: outcome.rows,
                    bytes: outcome.bytes,
                    cut_at_rows: outcome.truncated == Some(Cap::Rows),
                    cut_at_bytes: outcome.truncated == Some(Cap::Bytes),
                    kept: true,
                });
            }
            End::Failed(error) => {
                query.status = QueryStatus::Failed;
                query.failure = Some(failure(error));
            }
            End::Canceled => {
                query.status = QueryStatus::Canceled;
                let message = "The statement was canceled.".to_owned();
                query.failure = Some(QueryFailureV1 { code: "canceled".to_owned(), message, retriable: true });
            }
        }
        query.finished_at = Some(self.org.clock().now());
        self.store(QUERY_KNOWN).await
    }

    /// Writes the row as it is now.
    async fn store(&self, is_new: bool) -> Result<()> {
        let query = self.query.clone();
        self.org
            .write(move |tx| {
                // An organization that was erased meanwhile must not get a row back.
                if is_new || tx.get(&QUERIES, &query.id)?.is_some() {
                    tx.put(&QUERIES, &query.id, &query)?;
                }
                Ok(())
            })
            .await
    }
}

const QUERY_NEW: bool = true;
const QUERY_KNOWN: bool = false;

/// Waits until somebody asks for the end.
async fn asked(canceled: &mut watch::Receiver<bool>) {
    if canceled.wait_for(|canceled| *canceled).await.is_err() {
        // Nobody can ask any more.
        std::future::pending::<()>().await;
    }
}

/// An execution's own failure. Its codes are fewer than the HTTP errors': what is not among them is `transient`.
pub(super) fn failure(error: QueryError) -> QueryFailureV1 {
    let code = match error.code {
        ErrorCode::InvalidSql | ErrorCode::Internal => ErrorCode::Transient,
        code => code,
    };
    QueryFailureV1 { code: code.wire_name().to_owned(), message: error.message, retriable: error.retriable }
}
