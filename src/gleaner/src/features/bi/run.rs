//! One statement from its row to its end.
//!
//! The driver is a task of its own, so a caller that goes away takes nothing with it. It writes the row as queued,
//! waits for its turn, lets a worker plan and run, and writes how that ended. A statement that ends at once is written once,
//! when it has ended: nobody has been told its id before, and a commit costs as much as a small statement does. What the
//! driver is at is told to whoever waits or asks, as a [`StatementState`], from which the row is written too. A statement
//! that cannot be planned was never submitted, and its row goes, unless its caller has been answered with its id
//! meanwhile: the two settle that by a [`RowDisposition`]. A driver that dies leaves a row that has not ended and no entry in the list of live ones: the tidying task finds it.
//!
//! The rows and the row that tells of them reach the disk side by side, and only then whoever waits hears of the end. Where
//! power fails in between, the row may be left without its rows, or with a part of them, which a checksum tells
//! (`engine::sql`): it answers then like one whose rows were given up.
//!
//! An Idempotency-Key is written with the row and goes with it, so of two requests with one key that come at once only
//! one becomes a statement, and a key whose statement was refused may be used again.

mod attempts;

use super::rows::{CoverageV1, QUERIES, QueryFailureV1, QueryV2, ResultV1, SUBMISSIONS, SubmissionV1};
use super::service::{Queries, is_refusal};
use super::state::{
    LiveStatement, Progress, RowDisposition, RunFacts, StatementState, StatementWatch, Withdrawal,
};
use super::submissions;
use super::watched::{EndedStatement, Ending};
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::QueryId;
use base::trace::{self, Span, SpanKind};
use base::{Code, Error, Result};
use futures::future::{Either, join, select};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sql::{Cap, ErrorCode, Outcome, Pin, PlanInfo, QueryError, QueueTicket, StatementHandle, Turn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::{Event, OrgStore, OrgWrite, Origin};
use tokio::sync::watch;
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

/// How a statement ended.
enum StatementEnd {
    /// It was only planned.
    Planned(Arc<RunFacts>),
    Outcome(Arc<RunFacts>, Outcome, Option<CoverageV1>),
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
    progress: watch::Sender<Progress>,
    disposition: Arc<Mutex<RowDisposition>>,
    canceled: watch::Receiver<bool>,
    /// From when its turn has come until its end is written. Its place of the box is let go of before, when nothing of it
    /// runs any more: what the disk then takes its time with concerns its own organization alone.
    turn: Option<Arc<Turn>>,
    /// Since it was planned.
    run: Option<Arc<RunFacts>>,
    /// When it ended, where that was before its row could be written.
    ended_at: Option<Timestamp>,
    /// When it came, and when its turn did.
    came: Instant,
    turn_came: Option<Instant>,
}

/// Takes the statement off the list of live ones, also when the driver panics.
struct LiveEntry {
    queries: Arc<Queries>,
    id: QueryId,
}

impl Drop for LiveEntry {
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
        ticket: QueueTicket,
    ) -> StatementWatch {
        let disposition = Arc::new(Mutex::new(RowDisposition::Open));
        let state = match ticket.is_first() {
            true => StatementState::Planning,
            false => StatementState::Queued { position: ticket.position() },
        };
        let (progress, told) = watch::channel(Progress { state, is_stored: false });
        let (cancel, canceled) = watch::channel(false);
        let live = LiveStatement {
            org: org.id(),
            cancel,
            progress: told.clone(),
            disposition: Arc::clone(&disposition),
        };
        queries.live.lock().insert(query.id, Arc::new(live));
        let listed = LiveEntry { queries: Arc::clone(&queries), id: query.id };
        let watch = StatementWatch { progress: told, disposition: Arc::clone(&disposition) };
        let driver = Driver {
            queries,
            org,
            query,
            more,
            is_begun: Arc::default(),
            progress,
            disposition,
            canceled,
            turn: None,
            run: None,
            ended_at: None,
            came: Instant::now(),
            turn_came: None,
        };
        // Whoever submitted it is who acts until its end, also when they have their answer.
        tokio::spawn(trace::carried(Origin::current().scope(async move {
            let _listed = listed;
            driver.drive(ticket).await;
        })));
        watch
    }

    async fn drive(mut self, ticket: QueueTicket) {
        let mut span = trace::child("sql.statement", SpanKind::Internal);
        let last = match span.scope(self.carry(ticket)).await {
            Ok(last) => last,
            Err(error) => {
                tracing::error!(query = %self.query.id, %error, "a statement could not be stored");
                let text = "The statement could not be stored; look before you send it again.";
                StatementState::Withdrawn(Withdrawal::Broken(text.to_owned()))
            }
        };
        // The next may go on before anybody is told that this one has ended.
        self.turn = None;
        self.watch(&last, &mut span);
        self.enter(last);
    }

    /// Tells the operator of it.
    fn watch(&self, last: &StatementState, span: &mut Span) {
        let Some(ending) = Ending::of(last) else { return };
        let turn_came = self.turn_came.unwrap_or_else(Instant::now);
        let (took, waited) = (turn_came.elapsed(), turn_came.saturating_duration_since(self.came));
        let (org, query, sql) = (self.org.id(), Some(self.query.id), self.query.sql.as_str());
        self.queries.watcher.tell(&EndedStatement { org, query, sql, took, waited, ending }, span);
    }

    /// It stands there from now on, for everybody who asks.
    fn enter(&mut self, state: StatementState) {
        state.tell(&mut self.query);
        self.progress.send_modify(|progress| progress.state = state);
    }

    async fn carry(&mut self, ticket: QueueTicket) -> Result<StatementState> {
        let begin = self.begin();
        // A key has to be this statement's before anything is done under it. What cannot be stored need not run. And what
        // waits for others of its own organization has the time to be stored first.
        let is_beside =
            self.query.submission_key.is_none() && !self.org.refuses_writes() && ticket.position() == 0;
        let ran = if is_beside {
            self.run_while(begin, ticket).await?
        } else if begin.await? {
            self.run(ticket).await
        } else {
            return Ok(StatementState::Withdrawn(Withdrawal::Replayed));
        };
        match ran {
            Ok(StatementEnd::Failed(error)) if self.run.is_none() && is_refusal(&error) => {
                self.refuse(Withdrawal::Refused(Box::new(error.clone())), failure(error)).await
            }
            Ok(end) => self.end(end).await,
            Err(error) => {
                tracing::error!(query = %self.query.id, %error, "a statement could not be carried through");
                let text = error.detail().unwrap_or("The statement could not be run.").to_owned();
                let failure =
                    QueryFailureV1 { code: "transient".to_owned(), message: text.clone(), retriable: true };
                self.refuse(Withdrawal::Broken(text), failure).await
            }
        }
    }

    /// Plans and runs, and writes the row beside that unless it ends before. Whatever is written of the statement later comes
    /// after its row, since writes keep their order. Fails when the row cannot be written.
    async fn run_while(
        &mut self,
        begin: impl Future<Output = Result<bool>>,
        ticket: QueueTicket,
    ) -> Result<Result<StatementEnd>> {
        let (begin, mut run) = (pin!(begin), pin!(self.run(ticket)));
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

    /// The statement was never submitted: its row goes. Or, if somebody was told its id, it has failed.
    async fn refuse(&mut self, refusal: Withdrawal, failure: QueryFailureV1) -> Result<StatementState> {
        let stays = {
            let mut disposition = self.disposition.lock();
            if *disposition == RowDisposition::Open {
                *disposition = RowDisposition::Goes;
            }
            *disposition == RowDisposition::Stays
        };
        if stays {
            let (run, at) = (self.run.clone(), self.end_time());
            return self.finish(StatementState::Failed { run, failure, at }).await;
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
        Ok(StatementState::Withdrawn(refusal))
    }

    /// Waits for its turn, plans and runs.
    async fn run(&mut self, ticket: QueueTicket) -> Result<StatementEnd> {
        if let Err(refused) = self.queries.workers.check(self.org.id().0, &self.query.sql) {
            return Ok(StatementEnd::Failed(refused));
        }
        let mut canceled = self.canceled.clone();
        let waiting = trace::child("sql.wait", SpanKind::Internal);
        let turn = tokio::select! {
            turn = ticket.turn() => turn,
            () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
        };
        let turn = match turn {
            Ok(turn) => Arc::new(turn),
            Err(closed) => return Ok(StatementEnd::Failed(closed)),
        };
        drop(waiting);
        self.turn_came = Some(Instant::now());
        self.turn = Some(Arc::clone(&turn));
        self.enter(StatementState::Planning);
        self.attempts(&turn).await
    }

    /// Counts what a structured aggregate has left out, in the snapshot that it read.
    async fn cover(
        &self,
        turn: &Turn,
        pin: Pin,
        sql: String,
        (run, outcome): (Arc<RunFacts>, Outcome),
    ) -> StatementEnd {
        let mut canceled = self.canceled.clone();
        let rows = tokio::select! {
            rows = self.queries.rows_in(turn, pin, sql) => rows,
            () = asked(&mut canceled) => return StatementEnd::Canceled,
        };
        match rows {
            Ok(rows) => StatementEnd::Outcome(run, outcome, rows.first().and_then(coverage)),
            Err(error) => StatementEnd::Failed(error),
        }
    }

    fn planned(&mut self, plan: &PlanInfo, freshness_sec: u64) -> Result<Arc<RunFacts>> {
        let plan = serde_json::to_value(plan).map_err(|e| Error::internal("write down a plan", e))?;
        let run = Arc::new(RunFacts { plan: Json(plan), freshness_sec, started_at: self.org.clock().now() });
        self.run = Some(Arc::clone(&run));
        Ok(run)
    }

    /// Waits for the end. A statement that takes longer is written as running meanwhile.
    async fn wait(
        &mut self,
        turn: &Turn,
        (run, running): (Arc<RunFacts>, StatementHandle),
        pin: Pin,
    ) -> Result<StatementEnd> {
        let (written, (end, ended_at)) = {
            let (driver, clock) = (&*self, self.org.clock());
            // A statement may end while the disk is busy with its row: it has ended then, and not when that is written.
            let ended = async {
                let end = driver.outcome(turn, run, running, pin).await;
                turn.rest();
                (end, clock.now())
            };
            let mut ended = pin!(ended);
            if let Ok((end, _)) = tokio::time::timeout(RUNNING_AFTER, &mut ended).await {
                return Ok(end);
            }
            tokio::join!(driver.store(), ended)
        };
        written?;
        self.ended_at = Some(ended_at);
        Ok(end)
    }

    /// How it ends, and the statement that counts what it leaves out.
    async fn outcome(
        &self,
        turn: &Turn,
        run: Arc<RunFacts>,
        mut running: StatementHandle,
        pin: Pin,
    ) -> StatementEnd {
        let (cancel, mut canceled) = (running.cancel_handle(), self.canceled.clone());
        let outcome = tokio::select! {
            outcome = &mut running => outcome,
            () = asked(&mut canceled) => {
                cancel.cancel();
                running.wait().await
            }
        };
        match (outcome, self.more.coverage.clone()) {
            (Ok(outcome), Some(sql)) => self.cover(turn, pin, sql, (run, outcome)).await,
            (Ok(outcome), None) => StatementEnd::Outcome(run, outcome, None),
            (Err(error), _) if error.code == ErrorCode::Canceled => StatementEnd::Canceled,
            (Err(error), _) => StatementEnd::Failed(error),
        }
    }

    /// When it ended: before now, where that is known.
    fn end_time(&self) -> Timestamp {
        self.ended_at.unwrap_or_else(|| self.org.clock().now())
    }

    async fn end(&mut self, end: StatementEnd) -> Result<StatementState> {
        let (at, run) = (self.end_time(), self.run.clone());
        let state = match end {
            StatementEnd::Planned(run) => {
                StatementState::Finished { run, result: ResultV1::default(), coverage: None, at }
            }
            StatementEnd::Failed(error) => StatementState::Failed { run, failure: failure(error), at },
            StatementEnd::Canceled => StatementState::Canceled { run, at },
            StatementEnd::Outcome(run, outcome, coverage) => {
                let result = ResultV1 {
                    rows: outcome.rows,
                    bytes: outcome.bytes,
                    cut_at_rows: outcome.truncated == Some(Cap::Rows),
                    cut_at_bytes: outcome.truncated == Some(Cap::Bytes),
                    kept: true,
                };
                let finished = StatementState::Finished { run, result, coverage, at };
                return self.end_with_rows(finished).await;
            }
        };
        self.finish(state).await
    }

    /// Brings the rows and the row that tells of them to the disk.
    async fn end_with_rows(&mut self, state: StatementState) -> Result<StatementState> {
        let (org, id) = (self.org.id(), self.query.id);
        let synced = self.queries.workers.sync_result(org.0, id.0);
        let (finished, synced) = join(self.finish(state), synced).await;
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
            let failure = QueryFailureV1 { retriable: true, ..failure(error.into()) };
            let failed = StatementState::Failed { run: self.run.clone(), failure, at: self.end_time() };
            return if is_nobodys { finished } else { self.finish(failed).await };
        }
        kept.make_room(org).await;
        finished
    }

    /// Writes how it ended.
    async fn finish(&mut self, state: StatementState) -> Result<StatementState> {
        state.tell(&mut self.query);
        for _ in 1..END_TRIES {
            match self.store().await {
                // Most of all it may be full of what this statement spilled, which is going. A statement of which nothing is
                // written yet need not wait for that: its caller is told at once.
                Err(error) if error.code() == Code::ServiceUnavailable && self.is_begun() => {
                    tokio::time::sleep(END_PAUSE).await;
                }
                stored => return stored.map(|_| state),
            }
        }
        self.store().await.map(|_| state)
    }

    fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Relaxed)
    }

    /// Writes the new row and its key; false, and nothing is written, when the key is taken.
    fn begin(&self) -> impl Future<Output = Result<bool>> + use<> {
        let (org, query, submission) = (self.org.clone(), self.query.clone(), self.more.submission.clone());
        let (is_begun, progress) = (Arc::clone(&self.is_begun), self.progress.clone());
        async move {
            is_begun.store(true, Ordering::Relaxed);
            let is_own = org.write(move |tx| {
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
            });
            let is_own = is_own.await?;
            progress.send_modify(|progress| progress.is_stored = is_own);
            Ok(is_own)
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
        self.progress.send_modify(|progress| progress.is_stored = is_there);
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
