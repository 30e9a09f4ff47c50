//! Statements that somebody gave another slice, which runs them for the organization by itself (monitors, dashboards).
//!
//! They are the console's in all that guards it: the same gate, tables, scopes, kill switches and limits, a worker of the
//! organization and a turn of the box's queue. They have no row and keep none of the organization's own statements out: one
//! of them runs at a time, behind a line of their own.

use super::computation_line::{ComputationLine, busy};
use super::content::{Content, Runnable};
use super::refusals::refusal;
use super::rows::{SAVED_QUERIES, ScopeV1};
use super::service::{OwnRows, Queries, is_refusal};
use base::ids::{QueryId, SavedQueryId};
use base::{Code, Error, Result};
use serde_json::{Map, Value};
use server::on_own_task;
use sql::{ColumnInfo, ErrorCode, Pin, QueryBackend, QueryError, Statement};
use std::sync::Arc;
use std::time::Duration;
use store::OrgStore;

/// How long a statement that is checked may take, its turns included.
const CHECK_WAIT: Duration = Duration::from_secs(20);
/// The same of one that is run.
const RUN_WAIT: Duration = Duration::from_secs(90);
/// How long it is waited until the tables have all that is committed: where that is looked at, and where it is needed.
const CHECK_CAUGHT_UP_WAIT: Duration = Duration::from_secs(2);
const CAUGHT_UP_WAIT: Duration = Duration::from_secs(30);

/// What is run.
#[derive(Clone, Debug)]
pub enum StandingStatement {
    Sql(String),
    /// Whatever is saved under this id when it is run.
    Saved(SavedQueryId),
}

/// What it gave.
#[derive(Debug)]
pub struct StandingRows {
    pub columns: Vec<ColumnInfo>,
    /// The first ones.
    pub rows: Vec<Map<String, Value>>,
    pub total_rows: u64,
    /// The result was cut at one of the console's caps: there are more.
    pub is_cut: bool,
    /// An upper bound on how old the tables were that it read.
    pub freshness_sec: u64,
}

/// Why it gave nothing; the text is for people.
#[derive(Debug)]
pub enum StandingFailure {
    /// It does not run as it is.
    Refused(String),
    /// It may run when it is tried again.
    Later(String),
}

impl Queries {
    /// Looks whether a statement can be run with these values for its parameters, and gives the columns of its result.
    pub async fn check_standing(
        self: &Arc<Self>,
        org: &OrgStore,
        statement: &StandingStatement,
        parameters: Vec<Value>,
    ) -> Result<Vec<ColumnInfo>> {
        let (runnable, scope) = self.resolved(org, statement, parameters)?;
        // Somebody waits for it: not behind what the box runs for the organization by itself.
        let ticket = self.computing.enter(org.id())?;
        let (queries, org) = (Arc::clone(self), org.clone());
        on_own_task(async move {
            let work = async {
                let _turn = ticket.turn().await.map_err(ComputationLine::refused)?;
                queries.feed.settled(org.id()).await?;
                // What was just saved may have brought a column; who asks is not kept waiting for others' rows.
                let _ = queries.feed.caught_up(CHECK_CAUGHT_UP_WAIT).await;
                let (pin, _) = queries.pinned(&org, scope)?;
                let statement = Statement { pin, sql: runnable.sql, query_id: QueryId::new().0 };
                let plan =
                    queries.workers.plan(statement).await.map_err(|error| match is_refusal(&error) {
                        true => refusal(error),
                        false => Error::unavailable(error.message),
                    })?;
                Ok(plan.columns)
            };
            tokio::time::timeout(CHECK_WAIT, work).await.unwrap_or_else(|_| Err(busy()))
        })
        .await
    }

    /// Runs a statement on tables that have everything that is committed now. For tasks: a handler would keep its turn of
    /// the box while it waits.
    pub async fn run_standing(
        self: &Arc<Self>,
        org: &OrgStore,
        statement: &StandingStatement,
        parameters: Vec<Value>,
        rows_max: u64,
    ) -> std::result::Result<StandingRows, StandingFailure> {
        let (runnable, scope) =
            self.resolved(org, statement, parameters).map_err(|error| match error.code() {
                Code::InternalError => later(&error),
                Code::NotFound => StandingFailure::Refused("its saved query was deleted".to_owned()),
                _ => StandingFailure::Refused(said(&error)),
            })?;
        let ticket = self.standing.enter(org.id()).map_err(|error| later(&error))?;
        let work = async {
            let turn = ticket.turn().await.map_err(ComputationLine::refused);
            let _turn = turn.map_err(|error| later(&error))?;
            self.feed.settled(org.id()).await.map_err(|error| later(&error))?;
            self.feed.caught_up(CAUGHT_UP_WAIT).await.map_err(|error| later(&error))?;
            self.run_now(org, scope, &runnable.sql, rows_max).await
        };
        tokio::time::timeout(RUN_WAIT, work).await.unwrap_or_else(|_| Err(later(&busy())))
    }

    /// The statement's text as it is now, and its scope.
    fn resolved(
        &self,
        org: &OrgStore,
        statement: &StandingStatement,
        parameters: Vec<Value>,
    ) -> Result<(Runnable, ScopeV1)> {
        let (content, scope) = match statement {
            StandingStatement::Sql(sql) => (Content::required(Some(sql.clone()), None)?, ScopeV1::Org),
            StandingStatement::Saved(id) => {
                let saved = org.read(|tx| tx.get(&SAVED_QUERIES, id))?.ok_or_else(|| {
                    Error::not_found(SAVED_QUERIES.noun())
                        .message("savedQueryId: is no saved query of this organization")
                })?;
                (Content::read(&saved.content)?, saved.scope)
            }
        };
        if let Some(agent) = scope.agent()
            && !self.has_agent(org, agent)?
        {
            return Err(Error::new(Code::SavedQueryNotExecutable).message("Its agent is gone."));
        }
        Ok((self.runnable(org, content.with_parameters(Some(parameters))?)?, scope))
    }

    /// The organization's tables as the scope has them, and how old they are.
    pub(super) fn pinned(&self, org: &OrgStore, scope: ScopeV1) -> Result<(Pin, u64)> {
        let (pin, freshness_sec) = self.feed.pin(org.id(), self.feed.specs(org)?)?;
        let pin = match scope.agent() {
            Some(agent) => pin.of_agent(agent.0),
            None => pin,
        };
        Ok((pin, freshness_sec))
    }

    async fn run_now(
        &self,
        org: &OrgStore,
        scope: ScopeV1,
        sql: &str,
        rows_max: u64,
    ) -> std::result::Result<StandingRows, StandingFailure> {
        let mut is_second = false;
        loop {
            let (pin, freshness_sec) = self.pinned(org, scope).map_err(|error| later(&error))?;
            match self.own_rows(None, pin, sql.to_owned(), rows_max).await {
                Ok(OwnRows { plan, outcome, rows }) => {
                    return Ok(StandingRows {
                        columns: plan.columns,
                        rows,
                        total_rows: outcome.rows,
                        is_cut: outcome.truncated.is_some(),
                        freshness_sec,
                    });
                }
                Err(error) if error.damage && !is_second => {
                    tracing::warn!(detail = error.detail, "a statement came upon damaged files");
                    let (feed, id) = (Arc::clone(&self.feed), org.id());
                    let healed = tokio::task::spawn_blocking(move || feed.heal(id)).await;
                    if !matches!(healed, Ok(Ok(true))) {
                        return Err(failed(error));
                    }
                    is_second = true;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

fn said(error: &Error) -> String {
    error.detail().unwrap_or_else(|| error.sentence()).to_owned()
}

fn later(error: &Error) -> StandingFailure {
    StandingFailure::Later(said(error))
}

fn failed(error: QueryError) -> StandingFailure {
    match error.code {
        ErrorCode::TooManyQueries => StandingFailure::Later(error.message),
        ErrorCode::StatementTimeout => StandingFailure::Refused(error.message),
        _ if is_refusal(&error) => StandingFailure::Refused(error.message),
        _ => StandingFailure::Later(error.message),
    }
}
