//! The console's rules: what may be submitted, how many at once, what a result is.
//!
//! A submitted statement is a row from the first moment and a driver (`run.rs`) that carries it to its end, whether
//! or not the caller waits. A statement that cannot be planned was never submitted: its row goes and the caller gets
//! an error.

use super::feed::SnapshotFeed;
use super::line::Line;
use super::rows::{QUERIES, QueryStatus, QueryV1, ScopeV1};
use super::run::{Driver, Live, Stage};
use crate::base::codec::Json;
use crate::base::ids::{OrgId, QueryId, UserId};
use crate::base::{Code, Error, Result};
use crate::engine::sql::{ErrorCode, QueryError, ResultError, ResultFile, TableName, Workers};
use crate::store::OrgStore;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long a caller who does not want to wait still waits for the plan, so that a statement that cannot run is
/// refused at once even on a busy box.
const PLAN_WAIT: Duration = Duration::from_secs(2);
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
    /// Days that results are kept.
    pub results_days: u64,
    /// How often new rows reach the tables.
    pub freshness: Duration,
}

/// The statements of the SQL console.
pub struct Queries {
    pub(super) settings: BiSettings,
    pub(super) workers: Arc<Workers>,
    pub(super) feed: Arc<SnapshotFeed>,
    lines: Mutex<HashMap<OrgId, Arc<Line>>>,
    /// Statements that have a driver.
    pub(super) live: Mutex<HashMap<QueryId, Arc<Live>>>,
    /// Tables whose example values are being looked for.
    pub(super) sampling: Mutex<HashSet<(OrgId, TableName)>>,
}

/// A statement that a caller wants run.
#[derive(Debug)]
pub struct NewQuery {
    pub sql: String,
    pub submitted_by: UserId,
    /// Only plan it.
    pub dry: bool,
    /// How long to wait for its end.
    pub wait: Duration,
}

/// One page of a result.
pub struct ResultPage {
    pub rows: Vec<Map<String, Value>>,
    pub page: u64,
    pub page_size: u64,
    pub total_rows: u64,
}

impl Queries {
    /// Statements that run in `workers` on the snapshots of `feed`.
    pub fn new(settings: BiSettings, workers: Arc<Workers>, feed: Arc<SnapshotFeed>) -> Queries {
        Queries {
            settings,
            workers,
            feed,
            lines: Mutex::default(),
            live: Mutex::default(),
            sampling: Mutex::default(),
        }
    }

    /// How long results are kept.
    pub(super) fn results_kept(&self) -> Duration {
        Duration::from_secs(self.settings.results_days.saturating_mul(86_400))
    }

    /// Takes a statement in and waits for it as long as the caller wants to; gives its row as it is then. A statement
    /// that cannot be planned is an error.
    pub async fn submit(self: &Arc<Self>, org: &OrgStore, new: NewQuery) -> Result<QueryV1> {
        let deadline = Instant::now() + new.wait;
        self.feed.settled().await?;
        let place = self.line(org.id()).enter().ok_or_else(|| {
            let most = self.settings.concurrency_per_org + self.settings.queue_per_org;
            Error::new(Code::TooManyQueries).message(format!(
                "{most} statements of this organization run or wait already; send it when one has ended."
            ))
        })?;
        let query = QueryV1 {
            id: QueryId::new(),
            sql: new.sql,
            scope: ScopeV1::Org,
            submitted_by: new.submitted_by,
            status: QueryStatus::Queued,
            dry: new.dry,
            plan: Json::default(),
            result: None,
            failure: None,
            query_sec_max: self.settings.max_query_sec,
            freshness_sec: None,
            created_at: org.clock().now(),
            started_at: None,
            finished_at: None,
        };
        let id = query.id;
        let mut watch = Driver::spawn(Arc::clone(self), org.clone(), query, place);
        wait_for_stage(&mut watch.stages, deadline).await;
        match watch.promise().await {
            Stage::Refused(error) => Err(refusal(*error)),
            Stage::Broken(reason) => Err(Error::unavailable(reason)),
            _ => org.read(|tx| tx.require(&QUERIES, &id)),
        }
    }

    /// Asks a statement to end, and waits a little for it; gives its row as it is then.
    pub async fn cancel(&self, org: &OrgStore, id: QueryId) -> Result<QueryV1> {
        let query = org.read(|tx| tx.require(&QUERIES, &id))?;
        let live = self.live.lock().get(&id).cloned();
        let Some(live) = live.filter(|_| !query.status.has_ended()) else { return Ok(query) };
        live.cancel();
        let mut stages = live.stages();
        let _ = tokio::time::timeout(CANCEL_WAIT, stages.wait_for(Stage::has_ended)).await;
        org.read(|tx| tx.require(&QUERIES, &id))
    }

    /// One page of a successful statement's rows. `not_ready` for any other, 404 once the result is too old.
    pub async fn page(&self, org: OrgId, query: &QueryV1, page: u64, page_size: u64) -> Result<ResultPage> {
        let not_ready = || {
            Error::new(Code::NotReady)
                .message(format!(
                    "The query is {}; only one that succeeded has results.",
                    query.status.name()
                ))
                .field("status", query.status.name())
        };
        let result = query.result.filter(|_| query.status == QueryStatus::Success).ok_or_else(not_ready)?;
        if query.dry {
            return Ok(ResultPage { rows: Vec::new(), page, page_size, total_rows: 0 });
        }
        if !result.kept {
            return Err(self.expired());
        }
        let path = self.workers.result_path(org.0, query.id.0);
        let read = tokio::task::spawn_blocking(move || ResultFile::open(&path)?.page(page, page_size)).await;
        match read.map_err(|e| Error::internal("read a result", e))? {
            Ok(rows) => Ok(ResultPage { rows, page, page_size, total_rows: result.rows }),
            Err(ResultError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Err(self.expired()),
            Err(error) => Err(Error::internal("read a result", error)),
        }
    }

    fn expired(&self) -> Error {
        let days = self.settings.results_days;
        Error::not_found("Result")
            .message(format!("Results are kept {days} days; submit the statement again."))
    }

    fn line(&self, org: OrgId) -> Arc<Line> {
        let new = || Arc::new(Line::new(self.settings.concurrency_per_org, self.settings.queue_per_org));
        Arc::clone(self.lines.lock().entry(org).or_insert_with(new))
    }
}

/// Waits until the statement has ended or `deadline`, and for its plan a little beyond that.
async fn wait_for_stage(stages: &mut watch::Receiver<Stage>, deadline: Instant) {
    let plan_deadline = deadline.max(Instant::now() + PLAN_WAIT);
    // An error means that the driver is gone; its last stage stands.
    let _ = timeout_at(plan_deadline, stages.wait_for(Stage::is_past_planning)).await;
    let _ = timeout_at(deadline, stages.wait_for(Stage::has_ended)).await;
}

/// Whether planning found the statement wanting, so that it is the request that fails and not the execution.
pub(super) fn is_refusal(error: &QueryError) -> bool {
    use ErrorCode::{InvalidSql, RlsDenied, SyntaxError, TooManyQueries};
    matches!(error.code, SyntaxError | InvalidSql | RlsDenied | TooManyQueries)
}

fn refusal(error: QueryError) -> Error {
    let code = match error.code {
        ErrorCode::SyntaxError => Code::SyntaxError,
        ErrorCode::RlsDenied => Code::RlsDenied,
        ErrorCode::TooManyQueries => Code::TooManyQueries,
        _ => Code::InvalidSql,
    };
    Error::new(code).message(error.message)
}
