//! How often a statement is planned and run: once; again where rows that are on their way bring what it names, and where files
//! that it came upon were damaged.

use super::{Driver, StatementEnd, asked};
use crate::features::bi::state::StatementState;
use base::{Error, Result};
use sql::{ErrorCode, Statement, Turn};
use std::sync::Arc;
use std::time::Duration;

/// How long a statement that cannot be planned waits for the rows that are on their way to the tables.
const COLUMNS_WAIT: Duration = Duration::from_secs(2);

impl Driver {
    /// Plans and runs; again over files that were made anew where it came upon damaged ones.
    pub(super) async fn attempts(&mut self, turn: &Arc<Turn>) -> Result<StatementEnd> {
        match self.attempt_over_news(turn).await? {
            StatementEnd::Failed(error) if error.damage => {
                let (feed, org) = (Arc::clone(&self.queries.feed), self.org.id());
                tracing::warn!(query = %self.query.id, detail = error.detail, "a statement came upon damaged files");
                let healed = tokio::task::spawn_blocking(move || feed.heal(org)).await;
                match healed {
                    Ok(Ok(true)) => self.attempt(turn).await,
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

    /// Plans and runs; again when it names a column that there is not while rows are on their way to the tables: the first
    /// product of a box brings its columns. Who tries a statement while they type is told at once.
    async fn attempt_over_news(&mut self, turn: &Turn) -> Result<StatementEnd> {
        let end = self.attempt(turn).await;
        match &end {
            Ok(StatementEnd::Failed(error)) if error.code == ErrorCode::InvalidSql && !self.query.dry => {}
            _ => return end,
        }
        let (queries, mut canceled) = (Arc::clone(&self.queries), self.canceled.clone());
        if !queries.feed.is_behind() {
            return end;
        }
        let caught_up = tokio::select! {
            caught_up = queries.feed.caught_up(COLUMNS_WAIT) => caught_up,
            () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
        };
        if caught_up.is_err() { end } else { self.attempt(turn).await }
    }

    /// Plans and runs once; then the worker rests.
    async fn attempt(&mut self, turn: &Turn) -> Result<StatementEnd> {
        let end = self.plan_and_run(turn).await;
        turn.rest();
        end
    }

    async fn plan_and_run(&mut self, turn: &Turn) -> Result<StatementEnd> {
        self.ended_at = None;
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
                planned = self.queries.workers.plan_in(turn, statement) => planned,
                () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
            };
            return Ok(match planned {
                Ok(plan) => StatementEnd::Planned(self.planned(&plan, freshness_sec)?),
                Err(error) => StatementEnd::Failed(error),
            });
        }
        let started = tokio::select! {
            started = self.queries.workers.start_in(turn, statement) => started,
            () = asked(&mut canceled) => return Ok(StatementEnd::Canceled),
        };
        match started {
            Ok((plan, running)) => {
                let run = self.planned(&plan, freshness_sec)?;
                self.enter(StatementState::Running(Arc::clone(&run)));
                self.wait(turn, (run, running), pin).await
            }
            Err(error) => Ok(StatementEnd::Failed(error)),
        }
    }
}
