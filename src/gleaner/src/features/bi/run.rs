//! One statement from its row to its end.
//!
//! The driver is a task of its own, so a caller that goes away takes nothing with it. It writes the row as queued,
//! waits for its turn, lets a worker plan and run, and writes how that ended. A statement that ends at once is written once,
//! when it has ended: nobody has been told its id before, and a commit costs as much as a small statement does. What the
//! driver is at is told to whoever waits, as a [`Stage`]. A statement that cannot be planned was never submitted, and its
//! row goes, unless its caller has been answered with its id meanwhile: the two settle that by a [`RowDisposition`]. A driver that
//! dies leaves a row that has not ended and no entry in the list of live ones: the tidying task finds it.
//!
//! The rows and the row that tells of them reach the disk side by side, and only then whoever waits hears of the end. Where
//! power fails in between, the row may be left without its rows, or with a part of them, which a checksum tells
//! (`engine::sql`): it answers then like one whose rows were given up.
//!
//! An Idempotency-Key is written with the row and goes with it, so of two requests with one key that come at once only
//! one becomes a statement, and a key whose statement was refused may be used again.

use super::line::StatementPermit;
use super::rows::{
    CoverageV1, QUERIES, QueryFailureV1, QueryStatus, QueryV2, ResultV1, SUBMISSIONS, SubmissionV1,
};
use super::service::{Queries, is_refusal};
use super::submissions;
use base::audit::Action;
use base::codec::Json;
use base::ids::{OrgId, QueryId};
use base::{Code, Error, Result};
use futures::future::{Either, join, select};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sql::{Cap, ErrorCode, Outcome, Pin, PlanInfo, QueryBackend, QueryError, Statement, StatementHandle};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Event, OrgStore, OrgWrite, Origin};
use tokio::sync::{OwnedSemaphorePermit, watch};
use uuid::Uuid;

/// Statements of an organization that are kept although it has used all its room, in bytes of their rows.
const STATEMENTS_BYTES_FREE: u64 = 64 << 20;

/// A statement that ends so soon after it was planned is never written as running: it saves a commit.
const RUNNING_AFTER: Duration = Duration::from_millis(100);

/// A statement that ends so soon is written once only. Shorter than [`RUNNING_AFTER`], since its row comes first.
const STORED_AFTER: Duration = Duration::from_millis(20);

/// How often the end of a statement is written again while the store takes nothing (its disk is full), and how long after
/// one another. After that the tidying task ends it.
const END_TRIES: u32 = 120;
const END_PAUSE: Duration = Duration::from_millis(500);

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
    /// It cannot be planned; there is no row any more.
    Refused(Box<QueryError>),
    /// Something of ours failed before it was planned; the text is for the caller.
    Broken(String),
    /// Another statement was submitted under the same key before; it answers, and there is no row of this one.
    Replayed,
}

impl Stage {
    pub(super) fn is_past_planning(&self) -> bool {
        !matches!(self, Stage::Planning)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Stage::Ended | Stage::Refused(_) | Stage::Broken(_) | Stage::Replayed)
    }
}

/// Whether a statement's row stays, which its caller and its driver settle between them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowDisposition {
    Open,
    /// The caller was told the id.
    Stays,
    /// The driver takes the row away; the caller hears so when it is gone.
    Goes,
}

/// What a caller holds while it waits.
pub(super) struct StatementWatch {
    pub(super) stages: watch::Receiver<Stage>,
    disposition: Arc<Mutex<RowDisposition>>,
}

impl StatementWatch {
    /// The stage now. Unless the statement was refused, its row stays from here on whatever comes: the caller is
    /// about to be told its id.
    pub(super) async fn promise(mut self) -> Stage {
        let goes = {
            let mut disposition = self.disposition.lock();
            if *disposition == RowDisposition::Open {
                *disposition = RowDisposition::Stays;
            }
            *disposition == RowDisposition::Goes
        };
        if goes {
            // An error means that the driver is gone; its last stage stands.
            let _ = self.stages.wait_for(Stage::has_ended).await;
        }
        self.stages.borrow().clone()
    }
}

/// The way to a driver.
pub(super) struct LiveStatement {
    pub(super) org: OrgId,
    cancel: watch::Sender<bool>,
    stages: watch::Receiver<Stage>,
    disposition: Arc<Mutex<RowDisposition>>,
}

impl LiveStatement {
    /// Asks for the statement's end.
    pub(super) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    pub(super) fn stages(&self) -> watch::Receiver<Stage> {
        self.stages.clone()
    }

    /// For another caller who waits for the same statement.
    pub(super) fn watch(&self) -> StatementWatch {
        StatementWatch { stages: self.stages.clone(), disposition: Arc::clone(&self.disposition) }
    }
}

/// How a statement ended.
enum StatementEnd {
    /// It was only planned.
    Planned,
    Outcome(Outcome),
    Failed(QueryError),
    Canceled,
}

/// What goes with a statement beside its row.
pub(super) struct StatementExtras {
    /// What stands behind its submission key.
    pub(super) submission: Option<SubmissionV1>,
    /// The statement that counts the readings it leaves out.
    pub(super) coverage: Option<String>,
}

/// Carries one statement.
pub(super) struct Driver {
    queries: Arc<Queries>,
    org: OrgStore,
    query: QueryV2,
    more: StatementExtras,
    /// Its row is written, or the writing of it has begun.
    is_begun: Arc<AtomicBool>,
    stage: watch::Sender<Stage>,
    disposition: Arc<Mutex<RowDisposition>>,
    canceled: watch::Receiver<bool>,
}

/// Takes the statement off the list of live ones, also when the driver panics.
struct Listed {
    queries: Arc<Queries>,
    id: QueryId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.queries.live.lock().remove(&self.id);
    }
}

impl Driver {
    /// Begins. The statement is on the list of live ones when this returns.
    pub(super) fn spawn(
        queries: Arc<Queries>,
        org: OrgStore,
        query: QueryV2,
        more: StatementExtras,
        place: StatementPermit,
    ) -> StatementWatch {
        let disposition = Arc::new(Mutex::new(RowDisposition::Open));
        let (stage, stages) = watch::channel(Stage::Planning);
        let (cancel, canceled) = watch::channel(false);
        let live = LiveStatement {
            org: org.id(),
            cancel,
            stages: stages.clone(),
            disposition: Arc::clone(&disposition),
        };
        queries.live.lock().insert(query.id, Arc::new(live));
        let listed = Listed { queries: Arc::clone(&queries), id: query.id };
        let watch = StatementWatch { stages, disposition: Arc::clone(&disposition) };
        let is_begun = Arc::default();
        let driver = Driver { queries, org, query, more, is_begun, stage, disposition, canceled };
        // Whoever submitted it is who acts until its end, also when they have their answer.
        tokio::spawn(Origin::current().scope(async move {
            let _listed = listed;
            driver.drive(place).await;
        }));
        watch
    }

    async fn drive(mut self, place: StatementPermit) {
        let last = match self.carry(&place).await {
            Ok(stage) => stage,
            Err(error) => {
                tracing::error!(query = %self.query.id, %error, "a statement could not be stored");
                Stage::Broken("The statement could not be stored; look before you send it again.".to_owned())
            }
        };
        // The next may go on before anybody is told that this one has ended.
        drop(place);
        self.stage.send_replace(last);
    }

    async fn carry(&mut self, place: &StatementPermit) -> Result<Stage> {
        let begin = self.begin();
        let (begin, slot) = match place.try_run() {
            // A key has to be this statement's before anything is done under it. And what cannot be stored need not run.
            Some(slot) if self.query.submission_key.is_none() && !self.org.disk_full() => {
                (Some(begin), Some(slot))
            }
            slot => {
                if !begin.await? {
                    return Ok(Stage::Replayed);
                }
                (None, if slot.is_some() { slot } else { self.turn(place).await })
            }
        };
        let Some(_slot) = slot else {
            self.end(StatementEnd::Canceled).await?;
            return Ok(Stage::Ended);
        };
        let ran = match begin {
            None => self.run().await,
            Some(begin) => self.run_while(begin).await?,
        };
        match ran {
            Ok(StatementEnd::Failed(error)) if self.query.started_at.is_none() && is_refusal(&error) => {
                self.refuse(Stage::Refused(Box::new(error.clone())), failure(error)).await
            }
            Ok(end) => {
                self.end(end).await?;
                Ok(Stage::Ended)
            }
            Err(error) => {
                tracing::error!(query = %self.query.id, %error, "a statement could not be carried through");
                let text = error.detail().unwrap_or("The statement could not be run.").to_owned();
                let failure =
                    QueryFailureV1 { code: "transient".to_owned(), message: text.clone(), retriable: true };
                self.refuse(Stage::Broken(text), failure).await
            }
        }
    }

    /// Plans and runs, and writes the row beside that unless it ends before. Whatever is written of the statement later comes
    /// after its row, since writes keep their order. Fails when the row cannot be written.
    async fn run_while(&mut self, begin: impl Future<Output = Result<bool>>) -> Result<Result<StatementEnd>> {
        let (begin, mut run) = (pin!(begin), pin!(self.run()));
        if let Ok(ran) = tokio::time::timeout(STORED_AFTER, &mut run).await {
            return Ok(ran);
        }
        match select(begin, run).await {
            Either::Left((begun, run)) => {
                begun?;
                Ok(run.await)
            }
            Either::Right((ran, begin)) => {
                begin.await?;
                Ok(ran)
            }
        }
    }

    /// Waits for the statement's turn; none when it was canceled meanwhile.
    async fn turn(&self, place: &StatementPermit) -> Option<OwnedSemaphorePermit> {
        self.stage.send_replace(Stage::Waiting);
        let mut canceled = self.canceled.clone();
        tokio::select! {
            slot = place.run() => slot,
            () = asked(&mut canceled) => None,
        }
    }

    /// The statement was never submitted: its row goes. Or, if somebody was told its id, it has failed.
    async fn refuse(&mut self, refusal: Stage, failure: QueryFailureV1) -> Result<Stage> {
        let stays = {
            let mut disposition = self.disposition.lock();
            if *disposition == RowDisposition::Open {
                *disposition = RowDisposition::Goes;
            }
            *disposition == RowDisposition::Stays
        };
        if stays {
            self.query.failure = Some(failure);
            self.finish(QueryStatus::Failed).await?;
            return Ok(Stage::Ended);
        }
        let (id, key) = (self.query.id, self.query.submission_key);
        let submitted = (!self.is_begun()).then(|| submitted(&self.query));
        self.org
            .write(move |tx| {
                if let Some(key) = key {
                    tx.delete(&SUBMISSIONS, &key)?;
                }
                match submitted {
                    Some(submitted) => tx.audit(submitted)?,
                    None => drop(tx.delete(&QUERIES, &id)?),
                }
                tx.audit(Event::new(Action::BiQueryRefused).of(id))
            })
            .await?;
        Ok(refusal)
    }

    /// Plans and runs. A statement that comes upon damaged files is run again over those that were made anew.
    async fn run(&mut self) -> Result<StatementEnd> {
        match self.attempt().await? {
            StatementEnd::Failed(error) if error.damage => {
                let (feed, org) = (Arc::clone(&self.queries.feed), self.org.id());
                tracing::warn!(query = %self.query.id, detail = error.detail, "a statement came upon damaged files");
                let healed = tokio::task::spawn_blocking(move || feed.heal(org)).await;
                match healed {
                    Ok(Ok(true)) => self.attempt().await,
                    Ok(Ok(false)) => Ok(StatementEnd::Failed(error)),
                    Ok(Err(failed)) => {
                        tracing::error!(error = %failed, "damaged SQL tables could not be made anew");
                        Ok(StatementEnd::Failed(error))
                    }
                    Err(failed) => Err(Error::internal("make SQL tables anew", failed)),
                }
            }
            end => Ok(end),
        }
    }

    /// Plans and runs once.
    async fn attempt(&mut self) -> Result<StatementEnd> {
        let feed = &self.queries.feed;
        let (pin, freshness_sec) = feed.pin(self.org.id(), feed.specs(&self.org)?)?;
        let pin = match self.query.scope.agent() {
            Some(agent) => pin.of_agent(agent.0),
            None => pin,
        };
        self.query.freshness_sec = Some(freshness_sec);
        let statement =
            Statement { pin: pin.clone(), sql: self.query.sql.clone(), query_id: self.query.id.0 };
        let mut canceled = self.canceled.clone();
        if self.query.dry {
            let planned = tokio::select! {
                planned = self.queries.workers.plan(statement) => planned,
                () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
            };
            return Ok(match planned {
                Ok(plan) => {
                    self.planned(&plan)?;
                    StatementEnd::Planned
                }
                Err(error) => StatementEnd::Failed(error),
            });
        }
        let started = tokio::select! {
            started = self.queries.workers.start(statement) => started,
            () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
        };
        match started {
            Ok((plan, running)) => {
                self.planned(&plan)?;
                let end = self.wait(running, canceled).await?;
                match (end, self.more.coverage.clone()) {
                    (StatementEnd::Outcome(outcome), Some(sql)) => self.cover(pin, sql, outcome).await,
                    (end, _) => Ok(end),
                }
            }
            Err(error) => Ok(StatementEnd::Failed(error)),
        }
    }

    /// Counts what a structured aggregate has left out, in the snapshot that it read.
    async fn cover(&mut self, pin: Pin, sql: String, outcome: Outcome) -> Result<StatementEnd> {
        let mut canceled = self.canceled.clone();
        let rows = tokio::select! {
            rows = self.queries.rows_of(pin, sql) => rows,
            () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
        };
        Ok(match rows {
            Ok(rows) => {
                self.query.coverage = rows.first().and_then(coverage);
                StatementEnd::Outcome(outcome)
            }
            Err(error) => StatementEnd::Failed(error),
        })
    }

    fn planned(&mut self, plan: &PlanInfo) -> Result<()> {
        let plan = serde_json::to_value(plan).map_err(|e| Error::internal("write down a plan", e))?;
        self.query.plan = Json(plan);
        self.query.started_at = Some(self.org.clock().now());
        self.query.status = QueryStatus::Running;
        Ok(())
    }

    /// Waits for the end. A statement that takes longer is written as running meanwhile.
    async fn wait(
        &mut self,
        mut running: StatementHandle,
        mut canceled: watch::Receiver<bool>,
    ) -> Result<StatementEnd> {
        let cancel = running.cancel_handle();
        let outcome = match tokio::time::timeout(RUNNING_AFTER, &mut running).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let clock = self.org.clock();
                // A statement may end while the disk is busy with its row: it has ended then, and not when that is written.
                let ended = async {
                    let outcome = tokio::select! {
                        outcome = &mut running => outcome,
                        () = asked(&mut canceled) => {
                            cancel.cancel();
                            running.wait().await
                        }
                    };
                    (outcome, clock.now())
                };
                let written = async {
                    // Nobody is told of a statement whose row could not be written.
                    if self.store().await? {
                        self.stage.send_replace(Stage::Running);
                    }
                    Ok(())
                };
                let (written, (outcome, ended_at)) = tokio::join!(written, ended);
                written?;
                self.query.finished_at = Some(ended_at);
                outcome
            }
        };
        Ok(match outcome {
            Ok(outcome) => StatementEnd::Outcome(outcome),
            Err(error) if error.code == ErrorCode::Canceled => StatementEnd::Canceled,
            Err(error) => StatementEnd::Failed(error),
        })
    }

    async fn end(&mut self, end: StatementEnd) -> Result<()> {
        let has_rows = matches!(end, StatementEnd::Outcome(_));
        let status = match end {
            StatementEnd::Planned => {
                self.query.result = Some(ResultV1::default());
                QueryStatus::Success
            }
            StatementEnd::Outcome(outcome) => {
                self.query.result = Some(ResultV1 {
                    rows: outcome.rows,
                    bytes: outcome.bytes,
                    cut_at_rows: outcome.truncated == Some(Cap::Rows),
                    cut_at_bytes: outcome.truncated == Some(Cap::Bytes),
                    kept: true,
                });
                QueryStatus::Success
            }
            StatementEnd::Failed(error) => {
                self.query.failure = Some(failure(error));
                QueryStatus::Failed
            }
            StatementEnd::Canceled => {
                let message = "The statement was canceled.".to_owned();
                self.query.failure =
                    Some(QueryFailureV1 { code: "canceled".to_owned(), message, retriable: true });
                QueryStatus::Canceled
            }
        };
        if !has_rows {
            return self.finish(status).await;
        }
        let (org, id) = (self.org.id(), self.query.id);
        let synced = self.queries.workers.sync_result(org.0, id.0);
        let (finished, synced) = join(self.finish(status), synced).await;
        let (kept, result) = (&self.queries.kept, self.queries.workers.result_path(org.0, id.0));
        kept.add_file(org, &result);
        // Without a row nobody would ever ask for it.
        let is_nobodys = finished.is_err() && !self.is_begun();
        if (is_nobodys || synced.is_err())
            && let Err(error) = kept.remove_file(org, &result)
        {
            tracing::warn!(query = %id, %error, "a result that nobody can have stays");
        }
        if let Err(error) = synced {
            tracing::error!(query = %id, %error, "a result could not be brought to the disk");
            self.query.result = None;
            self.query.failure = Some(QueryFailureV1 { retriable: true, ..failure(error.into()) });
            return if is_nobodys { finished } else { self.finish(QueryStatus::Failed).await };
        }
        kept.make_room(org).await;
        finished
    }

    async fn finish(&mut self, status: QueryStatus) -> Result<()> {
        self.query.status = status;
        self.query.finished_at.get_or_insert_with(|| self.org.clock().now());
        for _ in 1..END_TRIES {
            match self.store().await {
                // Most of all it may be full of what this statement spilled, which is going. A statement of which nothing is
                // written yet need not wait for that: its caller is told at once.
                Err(error) if error.code() == Code::ServiceUnavailable && self.is_begun() => {
                    tokio::time::sleep(END_PAUSE).await;
                }
                stored => return stored.map(drop),
            }
        }
        self.store().await.map(drop)
    }

    fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Relaxed)
    }

    /// Writes the new row and its key; false, and nothing is written, when the key is taken.
    fn begin(&self) -> impl Future<Output = Result<bool>> + use<> {
        let (org, query, submission) = (self.org.clone(), self.query.clone(), self.more.submission.clone());
        let is_begun = Arc::clone(&self.is_begun);
        async move {
            is_begun.store(true, Ordering::Relaxed);
            org.write(move |tx| {
                if let (Some(key), Some(submission)) = (query.submission_key, submission) {
                    if submissions::find(tx, &key)?.is_some() {
                        return Ok(false);
                    }
                    tx.put(&SUBMISSIONS, &key, &submission)?;
                }
                // A driver that was held up may have written more than that already.
                if tx.get(&QUERIES, &query.id)?.is_some() {
                    tx.unaudited("the statement's submission stands there already");
                    return Ok(true);
                }
                make_way(tx, false)?;
                tx.put(&QUERIES, &query.id, &query)?;
                tx.audit(submitted(&query))?;
                Ok(true)
            })
            .await
        }
    }

    /// Writes the row as it is now; false when there is none any more.
    async fn store(&self) -> Result<bool> {
        let (query, is_first) = (self.query.clone(), !self.is_begun());
        let is_there = self
            .org
            .write(move |tx| {
                // An organization that was erased meanwhile must not get a row back (and the store gives it no new one).
                let is_there = tx.get(&QUERIES, &query.id)?.is_some();
                if is_there || is_first {
                    make_way(tx, is_there)?;
                    tx.put(&QUERIES, &query.id, &query)?;
                }
                if is_first && !is_there {
                    tx.audit(submitted(&query))?;
                } else {
                    tx.unaudited("how a statement ended stands in its own row");
                }
                Ok(is_there || is_first)
            })
            .await?;
        self.is_begun.store(true, Ordering::Relaxed);
        Ok(is_there)
    }
}

/// Who has used all their room must see what they have: their statements are taken all the same, and their ends are written.
/// Statements go by themselves after some days; many long ones wait for that.
fn make_way(tx: &OrgWrite<'_>, is_there: bool) -> Result<()> {
    if is_there || tx.used(QUERIES.name())?.bytes < STATEMENTS_BYTES_FREE {
        tx.needs_no_room();
    }
    Ok(())
}

/// What the audit log says of a statement that came.
fn submitted(query: &QueryV2) -> Event {
    let event = Event::new(Action::BiQuerySubmitted).of(query.id).with("dryRun", query.dry);
    match &query.saved {
        Some(saved) => event.with("savedQueryId", Uuid::from(saved.id)),
        None => event,
    }
}

/// The row of a counting statement; none when nothing is left out.
fn coverage(row: &Map<String, Value>) -> Option<CoverageV1> {
    let rows = row.get("left_out")?.as_u64().filter(|rows| *rows > 0)?;
    Some(CoverageV1 { horizon: row.get("horizon")?.as_str()?.parse().ok()?, rows })
}

/// Waits until somebody asks for the end.
async fn asked(canceled: &mut watch::Receiver<bool>) {
    if canceled.wait_for(|canceled| *canceled).await.is_err() {
        // Nobody can ask any more.
        std::future::pending::<()>().await;
    }
}

/// An execution's own failure. Its codes are fewer than the HTTP errors': what is not among them is `transient`.
fn failure(error: QueryError) -> QueryFailureV1 {
    let code = match error.code {
        ErrorCode::InvalidSql | ErrorCode::Internal => ErrorCode::Transient,
        code => code,
    };
    QueryFailureV1 { code: code.wire_name().to_owned(), message: error.message, retriable: error.retriable }
}
