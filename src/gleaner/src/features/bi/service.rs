//! The console's rules: what may be submitted, how many at once, what a result is.
//!
//! A submitted statement is a row from the first moment and a driver (`run.rs`) that carries it to its end, whether
//! or not the caller waits. A statement that cannot be planned was never submitted: its row goes and the caller gets
//! an error.

use super::computation_line::ComputationLine;
use super::content::Runnable;
use super::feed::SnapshotFeed;
use super::known_values::SamplesOfAgents;
use super::quiesce::ended;
use super::refusals::refusal;
use super::retention::ResultRetention;
use super::rows::{QUERIES, QueryStatus, QueryV2, SavedRunV1, ScopeV1, SubmissionV1};
use super::run::{Driver, StatementExtras};
use super::state::{LiveStatement, Progress, StatementState, StatementWatch, Withdrawal};
use super::submissions::{self, SubmissionKey};
use super::watched::{EndedStatement, Ending, StatementWatcher};
use crate::features::{AgentKnown, HorizonsOf};
use base::audit::Action;
use base::codec::Json;
use base::ids::{OrgId, QueryId, UserId};
use base::line::OrganizationLimit;
use base::trace::{self, SpanKind};
use base::{Code, Error, Result};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sql::{
    ErrorCode, Outcome, Pin, PlanInfo, QueryBackend, QueryError, ResultError, ResultFile, Statement, Turn,
    WorkerCounts, Workers,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use store::{Event, OrgStore};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// How long a caller who does not want to wait still waits for the plan, so that a statement that cannot run is
/// refused at once even on a busy box.
const PLAN_WAIT: Duration = Duration::from_secs(2);
/// Rows that a statement of the console's own gives at most.
pub(super) const OWN_ROWS_MAX: u64 = 200;
/// A result that has just been written is in memory, and one of at most this size is read at once instead of on a thread
/// that may block: the way there and back is a part of what a small statement takes.
const AT_HAND_BYTES_MAX: u64 = 64 << 10;
/// How long a cancellation waits for the statement's end.
const CANCEL_WAIT: Duration = Duration::from_secs(3);

/// What the `[bi]` section says about statements; what it says about their processes is the workers'.
#[derive(Clone, Debug)]
pub struct BiSettings {
    /// Seconds a statement may run; the workers see to it, results name it.
    pub max_query_sec: u64,
    /// Statements of one organization that run at once.
    pub concurrency_per_org: usize,
    /// Statements of one organization that wait beyond those.
    pub queue_per_org: usize,
    /// Days that statements are kept, with their results.
    pub results_days: u64,
}

/// The statements of the SQL console.
pub struct Queries {
    pub(super) settings: BiSettings,
    pub(super) workers: Arc<Workers>,
    pub(super) feed: Arc<SnapshotFeed>,
    /// What ended statements leave on the disk.
    pub(super) kept: Arc<ResultRetention>,
    /// Held while the kill switches are read and handed on, so that two operators at once end with both switches.
    pub(super) switching: Mutex<()>,
    /// Statements that have a driver.
    pub(super) live: Mutex<HashMap<QueryId, Arc<LiveStatement>>>,
    /// Tables and agents whose example values are being looked for.
    pub(super) sampling: Mutex<HashSet<(OrgId, String)>>,
    /// Example values that agents know.
    pub(super) samples_of_agents: SamplesOfAgents,
    /// Held by the look that goes on.
    pub(super) sample_turn: tokio::sync::Mutex<()>,
    /// Statements of the console's own, which have a result for a moment and never a row.
    pub(super) own: Mutex<HashSet<QueryId>>,
    /// In front of statements that other slices have run.
    pub(super) computing: ComputationLine,
    /// In front of statements that the box runs for an organization by itself.
    pub(super) standing: ComputationLine,
    /// What the operator is told of them.
    pub(super) watcher: StatementWatcher,
    /// Who knows where columns came late.
    pub(super) horizons: Vec<HorizonsOf>,
    /// Who knows which agents there are.
    pub(super) agents: Vec<AgentKnown>,
}

/// A statement that a caller wants run.
#[derive(Debug)]
pub struct NewQuery {
    pub content: Runnable,
    pub scope: ScopeV1,
    pub submitted_by: UserId,
    /// The saved statement that this is a run of.
    pub saved: Option<SavedRunV1>,
    /// The caller's Idempotency-Key.
    pub key: Option<SubmissionKey>,
    /// Only plan it.
    pub dry: bool,
    /// How long to wait for its end.
    pub wait: Duration,
}

/// A statement that was taken in.
#[derive(Debug)]
pub struct Submitted {
    pub query: QueryV2,
    /// It was submitted before, under the same key.
    pub replayed: bool,
}

/// One page of a result.
pub struct ResultPage {
    pub rows: Vec<Map<String, Value>>,
    pub page: u64,
    pub page_size: u64,
    /// None for a dry run: nobody knows how many rows there would be.
    pub total_rows: Option<u64>,
}

impl Queries {
    /// Statements that run in `workers` on the snapshots of `feed`.
    pub fn new(
        settings: BiSettings,
        workers: Arc<Workers>,
        feed: Arc<SnapshotFeed>,
        kept: Arc<ResultRetention>,
        watcher: StatementWatcher,
        (horizons, agents): (Vec<HorizonsOf>, Vec<AgentKnown>),
    ) -> Queries {
        Queries {
            settings,
            workers,
            feed,
            kept,
            switching: Mutex::default(),
            live: Mutex::default(),
            sampling: Mutex::default(),
            samples_of_agents: SamplesOfAgents::default(),
            sample_turn: tokio::sync::Mutex::default(),
            own: Mutex::default(),
            computing: ComputationLine::new(),
            standing: ComputationLine::new(),
            watcher,
            horizons,
            agents,
        }
    }

    /// What the workers are at, for the operator.
    pub fn worker_counts(&self) -> WorkerCounts {
        self.workers.counts()
    }

    /// Bytes of the results and exports that are kept.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    /// How long results are kept.
    pub(super) fn results_kept(&self) -> Duration {
        Duration::from_secs(self.settings.results_days.saturating_mul(86_400))
    }

    /// Takes a statement in and waits for it as long as the caller wants to; gives its row as it is then. A statement
    /// that cannot be planned is an error. One that was submitted under the same key before is not run again.
    pub async fn submit(self: &Arc<Self>, org: &OrgStore, new: NewQuery) -> Result<Submitted> {
        let deadline = Instant::now() + new.wait;
        if let Some(submitted) = self.replayed(org, new.key.as_ref(), new.wait).await? {
            return Ok(submitted);
        }
        self.feed.settled(org.id()).await?;
        let limit = OrganizationLimit {
            running: self.settings.concurrency_per_org,
            waiting: self.settings.queue_per_org,
        };
        let ticket = self.workers.enqueue(org.id().0, limit).map_err(refusal)?;
        let created_at = org.clock().now();
        let query = QueryV2 {
            id: QueryId::new(),
            sql: new.content.sql,
            structured: new.content.structured,
            scope: new.scope,
            submitted_by: new.submitted_by,
            saved: new.saved,
            submission_key: new.key.as_ref().map(|key| key.key),
            status: QueryStatus::Queued,
            dry: new.dry,
            plan: Json::default(),
            result: None,
            coverage: None,
            failure: None,
            query_sec_max: self.settings.max_query_sec,
            freshness_sec: None,
            created_at,
            started_at: None,
            finished_at: None,
        };
        let id = query.id;
        let submission =
            new.key.as_ref().map(|key| SubmissionV1 { query: id, request: key.request, created_at });
        let more = StatementExtras { submission, coverage: new.content.coverage };
        let watch = Driver::spawn(Arc::clone(self), org.clone(), query, more, ticket);
        if let StatementState::Withdrawn(Withdrawal::Replayed) = watched(watch, deadline).await? {
            // Another request with the key came in between; what it made answers, whatever becomes of it.
            let query = self.replay(org, new.key.as_ref(), deadline).await?;
            let query = query.ok_or_else(|| {
                Error::unavailable("Another request with this Idempotency-Key failed; send it again.")
            })?;
            return Ok(Submitted { query, replayed: true });
        }
        // The store may be slower than the caller's patience.
        let query = self.find_stored(org, id)?.ok_or_else(|| {
            Error::unavailable("The statement is not stored yet; look before you send it again.")
        })?;
        Ok(Submitted { query, replayed: false })
    }

    /// What was submitted under `key` before, waited for as long as the caller wants to. `idempotency_conflict` when that
    /// was another request.
    pub async fn replayed(
        &self,
        org: &OrgStore,
        key: Option<&SubmissionKey>,
        wait: Duration,
    ) -> Result<Option<Submitted>> {
        let query = self.replay(org, key, Instant::now() + wait).await?;
        Ok(query.map(|query| Submitted { query, replayed: true }))
    }

    /// The statement that was submitted under `key` before, once it has ended or at the deadline.
    async fn replay(
        &self,
        org: &OrgStore,
        key: Option<&SubmissionKey>,
        deadline: Instant,
    ) -> Result<Option<QueryV2>> {
        let Some(key) = key else { return Ok(None) };
        let Some(id) = org.read(|tx| submissions::earlier(tx, key))? else { return Ok(None) };
        let live = self.live.lock().get(&id).cloned();
        if let Some(live) = live {
            watched(live.watch(), deadline).await?;
        }
        self.find_stored(org, id)
    }

    /// A statement as it is now.
    pub(super) fn find(&self, org: &OrgStore, id: QueryId) -> Result<QueryV2> {
        // In this order: a driver leaves the list after its last row is written.
        let state = self.state(id);
        let row = org.read(|tx| tx.require(&QUERIES, &id))?;
        Ok(StatementState::told(state.as_ref(), row))
    }

    /// The same; none when there is no row of it (yet).
    fn find_stored(&self, org: &OrgStore, id: QueryId) -> Result<Option<QueryV2>> {
        let state = self.state(id);
        let row = org.read(|tx| tx.get(&QUERIES, &id))?;
        Ok(row.map(|row| StatementState::told(state.as_ref(), row)))
    }

    /// What a statement's driver is at; none when it has no driver (any more).
    pub(super) fn state(&self, id: QueryId) -> Option<StatementState> {
        self.live.lock().get(&id).map(|live| live.state())
    }

    /// What the drivers of an organization's statements are at. For a list: to be asked before the rows are read.
    pub(super) fn states(&self, org: OrgId) -> HashMap<QueryId, StatementState> {
        let live = self.live.lock();
        live.iter().filter(|(_, live)| live.org == org).map(|(id, live)| (*id, live.state())).collect()
    }

    /// Asks a statement to end, and waits a little for it; gives its row as it is then.
    pub async fn cancel(&self, org: &OrgStore, id: QueryId) -> Result<QueryV2> {
        let query = self.find(org, id)?;
        let live = self.live.lock().get(&id).cloned();
        let Some(live) = live.filter(|_| !query.status.has_ended()) else { return Ok(query) };
        let canceled = Arc::clone(&live);
        let noted = org.write(move |tx| {
            tx.after_commit(move |_| canceled.cancel());
            tx.audit(Event::new(Action::BiQueryCanceled).of(id))
        });
        noted.await?;
        let mut progress = live.progress.clone();
        let _ = tokio::time::timeout(CANCEL_WAIT, progress.wait_for(Progress::has_ended)).await;
        self.find(org, id)
    }

    /// Asks every statement of an organization that is being erased to end; whether one has not yet.
    pub(super) fn end_all(&self, org: OrgId) -> bool {
        let live = self.live.lock();
        let own = live.values().filter(|live| live.org == org).inspect(|live| live.cancel()).count();
        let is_sampled = self.sampling.lock().iter().any(|(sampled, _)| *sampled == org);
        self.samples_of_agents.forget(org);
        own > 0 || is_sampled
    }

    /// One page of a successful statement's rows. `not_ready` for any other, `transient` when its rows were given up or its
    /// file is damaged.
    pub async fn page(&self, org: OrgId, query: &QueryV2, page: u64, page_size: u64) -> Result<ResultPage> {
        self.page_read(org, query, page, page_size, 0).await
    }

    /// The same; a file of at most `at_hand_bytes_max` bytes is read where the caller is, without another thread.
    async fn page_read(
        &self,
        org: OrgId,
        query: &QueryV2,
        page: u64,
        page_size: u64,
        at_hand_bytes_max: u64,
    ) -> Result<ResultPage> {
        let Some(result) = query.result.filter(|_| query.status == QueryStatus::Success) else {
            return Err(not_ready(query.status));
        };
        if query.dry {
            return Ok(ResultPage { rows: Vec::new(), page, page_size, total_rows: Some(0) });
        }
        if !result.kept {
            return Err(given_up());
        }
        let path = self.workers.result_path(org.0, query.id.0);
        let read = move || ResultFile::open(&path)?.page(page, page_size);
        let rows = match result.bytes <= at_hand_bytes_max {
            true => read(),
            false => {
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|e| Error::internal("read a result", e))?
            }
        };
        let rows = rows.map_err(unreadable)?;
        Ok(ResultPage { rows, page, page_size, total_rows: Some(result.rows) })
    }

    /// The first page of a successful statement's rows, with fewer rows than asked for when they are larger than a page may
    /// be; the page says of what size it is.
    pub async fn first_page(&self, org: OrgId, submitted: &Submitted, page_size: u64) -> Result<ResultPage> {
        let (query, mut page_size) = (&submitted.query, page_size);
        let at_hand_bytes_max = if submitted.replayed { 0 } else { AT_HAND_BYTES_MAX };
        loop {
            match self.page_read(org, query, 0, page_size, at_hand_bytes_max).await {
                Err(error) if error.code() == Code::InvalidInput && page_size > 1 => page_size /= 2,
                page => return page,
            }
        }
    }

    /// The first rows of a statement of the console's own, of which nothing stays. Dropping the future ends it.
    pub(super) async fn rows_of(
        &self,
        pin: Pin,
        sql: String,
        rows_max: u64,
    ) -> Result<Vec<Map<String, Value>>, QueryError> {
        Ok(self.own_rows(None, pin, sql, rows_max).await?.rows)
    }

    /// The same in the turn of the statement that it belongs to.
    pub(super) async fn rows_in(
        &self,
        turn: &Turn,
        pin: Pin,
        sql: String,
    ) -> Result<Vec<Map<String, Value>>, QueryError> {
        Ok(self.own_rows(Some(turn), pin, sql, OWN_ROWS_MAX).await?.rows)
    }

    /// The first rows of such a statement, and what is known of it and of the others.
    pub(super) async fn own_rows(
        &self,
        turn: Option<&Turn>,
        pin: Pin,
        sql: String,
        rows_max: u64,
    ) -> Result<OwnRows, QueryError> {
        let (org, text, begun) = (OrgId(pin.organization()), sql.clone(), Instant::now());
        let mut span = trace::child("sql.own", SpanKind::Internal);
        let ran = span.scope(self.run_own(turn, pin, sql, rows_max)).await;
        let ending = Ending::of_rows(ran.as_ref().map(|own| (&own.plan, own.outcome.rows)));
        let (took, waited) = (begun.elapsed(), Duration::ZERO);
        let ended = EndedStatement { org, query: None, sql: &text, took, waited, ending };
        self.watcher.tell(&ended, &mut span);
        ran
    }

    async fn run_own(
        &self,
        turn: Option<&Turn>,
        pin: Pin,
        sql: String,
        rows_max: u64,
    ) -> Result<OwnRows, QueryError> {
        let failed = |e: &dyn std::fmt::Display| QueryError::new(ErrorCode::Internal, e.to_string());
        let id = QueryId::new();
        let path = self.workers.result_path(pin.organization(), id.0);
        self.own.lock().insert(id);
        let _listed = Own { queries: self, id };
        let statement = Statement { pin, sql, query_id: id.0 };
        let (plan, running) = match turn {
            Some(turn) => self.workers.start_in(turn, statement).await?,
            None => self.workers.start(statement).await?,
        };
        let outcome = running.wait().await?;
        let rows = tokio::task::spawn_blocking(move || {
            let rows = ResultFile::open(&path).and_then(|result| result.first_rows(rows_max));
            // What stays is nobody's, and the tidying task removes it.
            let _ = std::fs::remove_file(&path);
            rows
        });
        let rows = rows.await.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
        Ok(OwnRows { plan, outcome, rows })
    }
}

/// What a statement of the console's own gave.
pub(super) struct OwnRows {
    pub(super) plan: PlanInfo,
    pub(super) outcome: Outcome,
    pub(super) rows: Vec<Map<String, Value>>,
}

/// What the self-test asks, and what it must be told: rows are made, sorted and added up, and a text goes both ways.
const SELF_TEST: (&str, &str) = (
    "SELECT sum(n) AS n, max(word) AS word FROM (VALUES (1, 'a'), (41, 'b')) t (n, word)",
    r#"[{"n":42,"word":"b"}]"#,
);

impl Queries {
    /// Runs a statement of nobody's in a worker, as one of an organization is run, and looks at its result. False when it
    /// cannot be tried yet: the tables are being made anew, or others' statements fill the line.
    pub async fn self_test(&self) -> Result<bool> {
        let nobody = OrgId(Uuid::nil());
        if self.feed.settled(nobody).await.is_err() {
            return Ok(false);
        }
        let (pin, _) = self.feed.pin(nobody, Vec::new())?;
        let (sql, expected) = SELF_TEST;
        let rows = self.rows_of(pin, sql.to_owned(), OWN_ROWS_MAX).await;
        // Nothing of it stays: neither the worker, which is nobody else's and comes to rest first, nor the folder. One that
        // does not come to rest ends by itself.
        let _ = ended(|| self.workers.serves(nobody.0)).await;
        self.workers.forget(nobody.0).await;
        self.workers.warm();
        let _ = std::fs::remove_dir(self.workers.results_dir().join(nobody.to_string()));
        match rows {
            Ok(rows) if serde_json::to_string(&rows).is_ok_and(|rows| rows == expected) => Ok(true),
            Ok(rows) => Err(Error::internal("try a SQL statement", format!("the answer was {rows:?}"))),
            Err(error) if error.code == ErrorCode::TooManyQueries => Ok(false),
            Err(error) if matches!(error.code, ErrorCode::KillSwitched | ErrorCode::StatementSwitchedOff) => {
                Err(Error::new(Code::KillSwitched).message(error.message))
            }
            Err(error) => Err(Error::unavailable(format!("a SQL statement could not be run: {error}"))),
        }
    }
}

/// A statement of the console's own while it is looked at.
struct Own<'a> {
    queries: &'a Queries,
    id: QueryId,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.queries.own.lock().remove(&self.id);
    }
}

/// Only a query that succeeded has rows; the answer says where this one stands (data/docs/api.md, "The SQL console").
pub(super) fn not_ready(status: QueryStatus) -> Error {
    Error::new(Code::NotReady)
        .message(format!("The query is {}; only one that succeeded has results.", status.name()))
        .field("status", status.name())
}

/// The rows of a query that succeeded made room for others (`retention.rs`).
pub(super) fn given_up() -> Error {
    Error::new(Code::Transient).message(
        "The rows of this query were given up to make room for newer results; submit it again to have them.",
    )
}

/// The file of a result is gone or damaged (somebody cleared the folder, the disk is failing): the statement can simply
/// be sent again.
pub(super) fn unreadable(error: ResultError) -> Error {
    if let ResultError::TooLarge = error {
        return Error::invalid(
            "pageSize",
            format!("is too much: {error} Ask for fewer rows, or export the result"),
        );
    }
    tracing::error!(%error, cause = ?std::error::Error::source(&error), "a result cannot be read");
    if let ResultError::Io(cause) = &error
        && cause.kind() != std::io::ErrorKind::NotFound
    {
        return Error::new(Code::Transient)
            .message("The rows of this query cannot be read at the moment; ask for them again.")
            .caused_by(error);
    }
    Error::new(Code::Transient)
        .message("The rows of this query cannot be read any more; submit it again.")
        .caused_by(error)
}

/// Waits for the statement's end or until `deadline`, and gives its state then. The caller may be told the id after
/// that. A statement that was refused is an error.
async fn watched(mut watch: StatementWatch, deadline: Instant) -> Result<StatementState> {
    wait_for_progress(&mut watch.progress, deadline).await;
    match watch.promise().await {
        StatementState::Withdrawn(Withdrawal::Refused(error)) => Err(refusal(*error)),
        StatementState::Withdrawn(Withdrawal::Broken(reason)) => Err(Error::unavailable(reason)),
        state => Ok(state),
    }
}

/// Waits until the statement has ended or `deadline`, and for its plan a little beyond that.
async fn wait_for_progress(progress: &mut watch::Receiver<Progress>, deadline: Instant) {
    let plan_deadline = deadline.max(Instant::now() + PLAN_WAIT);
    // An error means that the driver is gone; its last state stands.
    let _ = timeout_at(plan_deadline, progress.wait_for(Progress::may_be_told)).await;
    let _ = timeout_at(deadline, progress.wait_for(Progress::has_ended)).await;
}

/// Whether planning found the statement wanting, so that it is the request that fails and not the execution.
pub(super) fn is_refusal(error: &QueryError) -> bool {
    use ErrorCode::{InvalidSql, KillSwitched, RlsDenied, StatementSwitchedOff, SyntaxError, TooManyQueries};
    matches!(
        error.code,
        SyntaxError | InvalidSql | RlsDenied | TooManyQueries | KillSwitched | StatementSwitchedOff
    )
}
