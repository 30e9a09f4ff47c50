//! Statements that other slices have run, to make an answer of what the console shows: so whoever asks the console the
//! same gets the same.
//!
//! Such a statement runs where the console's run, in a worker of its organization and in a turn of the box's queue, but is no
//! statement of the console: it has no row, does not count against `bi.concurrency_per_org`, and keeps none of the
//! organization's own out. For that an organization has one of them at a time, and a line of its own in front.

use super::computation_line::{ComputationLine, busy};
use super::service::Queries;
use base::{Code, Error, Result};
use serde_json::{Map, Value};
use server::on_own_task;
use sql::{ErrorCode, QueryError, with_parameters};
use std::sync::Arc;
use std::time::Duration;
use store::OrgStore;

/// How long a caller waits for an answer, its turns included.
const ANSWER_WAIT: Duration = Duration::from_secs(20);

/// What a computation gave.
#[derive(Debug)]
pub struct Computed {
    pub rows: Vec<Map<String, Value>>,
    /// An upper bound on how old the tables were that it read.
    pub freshness_sec: u64,
}

impl Queries {
    /// Runs a statement of ours with these values for its parameters, and gives its first `rows_max` rows. 503 where that
    /// cannot be now: the tables are being made anew, the box is busy, or the operator has switched statements off.
    pub async fn compute(
        self: &Arc<Self>,
        org: &OrgStore,
        statement: &str,
        values: &[Value],
        rows_max: u64,
    ) -> Result<Computed> {
        let sql = with_parameters(statement, values).map_err(failed)?;
        let ticket = self.computing.enter(org.id())?;
        let (queries, org) = (Arc::clone(self), org.clone());
        // Not in the handler: it would keep its turn of the box for as long as the handler waits for its own.
        on_own_task(async move {
            let work = async {
                let _turn = ticket.turn().await.map_err(ComputationLine::refused)?;
                queries.compute_now(&org, sql, rows_max).await
            };
            tokio::time::timeout(ANSWER_WAIT, work).await.unwrap_or_else(|_| Err(busy()))
        })
        .await
    }

    async fn compute_now(&self, org: &OrgStore, sql: String, rows_max: u64) -> Result<Computed> {
        self.feed.settled(org.id()).await?;
        match self.compute_once(org, sql.clone(), rows_max).await? {
            Ok(computed) => Ok(computed),
            Err(error) if error.damage => {
                tracing::warn!(detail = error.detail, "a computation came upon damaged files");
                let (feed, id) = (Arc::clone(&self.feed), org.id());
                let healed = tokio::task::spawn_blocking(move || feed.heal(id)).await;
                match healed.map_err(|e| Error::internal("make SQL tables anew", e))?? {
                    true => self.compute_once(org, sql, rows_max).await?.map_err(failed),
                    false => Err(failed(error)),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn compute_once(
        &self,
        org: &OrgStore,
        sql: String,
        rows_max: u64,
    ) -> Result<std::result::Result<Computed, QueryError>> {
        let (pin, freshness_sec) = self.feed.pin(org.id(), self.feed.specs(org)?)?;
        let rows = self.rows_of(pin, sql, rows_max).await;
        Ok(rows.map(|rows| Computed { rows, freshness_sec }))
    }
}

/// What a caller is told, who has not written the statement.
fn failed(error: QueryError) -> Error {
    match error.code {
        ErrorCode::KillSwitched | ErrorCode::StatementSwitchedOff => Error::new(Code::ServiceUnavailable)
            .message(format!("{} What is computed by its tables has no answer until then.", error.message)),
        ErrorCode::StatementTimeout | ErrorCode::Transient | ErrorCode::Canceled => Error::unavailable(
            format!("It could not be computed now: {} Ask again, or for a shorter time.", error.message),
        ),
        ErrorCode::TooManyQueries => busy(),
        _ => Error::internal("compute an answer by SQL", error),
    }
}
