//! Where a statement stands.
//!
//! Its driver (`run.rs`) sets one [`StatementState`]; what the API says of the statement (status, times, plan, result,
//! failure) follows from that and from nothing else, in its row ([`StatementState::tell`]) and in every answer about one
//! that lives. A row is written seldom and late, so an answer that was made of the row alone could call a statement
//! queued that runs.

use super::rows::{CoverageV1, QueryFailureV1, QueryStatus, QueryV2, ResultV1};
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::OrgId;
use parking_lot::Mutex;
use sql::QueryError;
use std::sync::Arc;
use tokio::sync::watch;

/// What is known of a statement since it was planned.
#[derive(Debug)]
pub(super) struct RunFacts {
    /// What planning found out.
    pub(super) plan: Json,
    /// How stale the rows may be that it reads.
    pub(super) freshness_sec: u64,
    pub(super) started_at: Timestamp,
}

/// Where a statement stands.
#[derive(Clone, Debug)]
pub(super) enum StatementState {
    /// It waits for its turn. So many of its own organization had to end first when it came; none: it waits for a place
    /// of the box alone.
    Queued {
        position: usize,
    },
    /// Its turn has come, and a worker plans it.
    Planning,
    /// It was planned and runs.
    Running(Arc<RunFacts>),
    Finished {
        run: Arc<RunFacts>,
        result: ResultV1,
        coverage: Option<CoverageV1>,
        at: Timestamp,
    },
    Failed {
        run: Option<Arc<RunFacts>>,
        failure: QueryFailureV1,
        at: Timestamp,
    },
    Canceled {
        run: Option<Arc<RunFacts>>,
        at: Timestamp,
    },
    /// It never became a statement: there is no row of it any more.
    Withdrawn(Withdrawal),
}

/// Why there is no row of a statement.
#[derive(Clone, Debug)]
pub(super) enum Withdrawal {
    /// It cannot be planned.
    Refused(Box<QueryError>),
    /// Something of ours failed before it was planned; the text is for the caller.
    Broken(String),
    /// Another statement was submitted under the same key before, and answers.
    Replayed,
}

impl StatementState {
    /// Whether nothing will change any more.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self, Self::Queued { .. } | Self::Planning | Self::Running(_))
    }

    /// Writes into the statement's row what follows from this.
    pub(super) fn tell(&self, row: &mut QueryV2) {
        let (status, run, ended) = match self {
            // A plan is what makes it more than a text that waits.
            Self::Queued { .. } | Self::Planning => (QueryStatus::Queued, None, None),
            Self::Running(run) => (QueryStatus::Running, Some(run), None),
            Self::Finished { run, result, coverage, at } => {
                row.coverage = *coverage;
                (QueryStatus::Success, Some(run), Some((Some(*result), None, *at)))
            }
            Self::Failed { run, failure, at } => {
                (QueryStatus::Failed, run.as_ref(), Some((None, Some(failure.clone()), *at)))
            }
            Self::Canceled { run, at } => {
                (QueryStatus::Canceled, run.as_ref(), Some((None, Some(canceled()), *at)))
            }
            Self::Withdrawn(_) => return,
        };
        row.status = status;
        if let Some(run) = run {
            row.plan = run.plan.clone();
            row.freshness_sec = Some(run.freshness_sec);
            row.started_at = Some(run.started_at);
        }
        if let Some((result, failure, at)) = ended {
            (row.result, row.failure, row.finished_at) = (result, failure, Some(at));
        }
    }

    /// The statement as it is: `row` when that says how it ended, and with what its driver is at else.
    pub(super) fn told(state: Option<&StatementState>, mut row: QueryV2) -> QueryV2 {
        if let Some(state) = state.filter(|_| !row.status.has_ended()) {
            state.tell(&mut row);
        }
        row
    }
}

fn canceled() -> QueryFailureV1 {
    let message = "The statement was canceled.".to_owned();
    QueryFailureV1 { code: "canceled".to_owned(), message, retriable: true }
}

/// What a driver tells those who wait.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) state: StatementState,
    /// Its row is on the disk.
    pub(super) is_stored: bool,
}

impl Progress {
    /// Whether a caller who does not want to wait may be answered: it is known whether the statement can be planned, or
    /// others of its organization have to end before that is looked at.
    pub(super) fn may_be_told(&self) -> bool {
        match self.state {
            StatementState::Planning => false,
            StatementState::Queued { position } => position > 0 && self.is_stored,
            StatementState::Running(_) => self.is_stored,
            _ => true,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.has_ended()
    }
}

/// Whether a statement's row stays, which its caller and its driver settle between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowDisposition {
    Open,
    /// The caller was told the id.
    Stays,
    /// The driver takes the row away; the caller hears so when it is gone.
    Goes,
}

/// What a caller holds while it waits.
pub(super) struct StatementWatch {
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) disposition: Arc<Mutex<RowDisposition>>,
}

impl StatementWatch {
    /// The state now. Unless the statement was refused, its row stays from here on whatever comes: the caller is
    /// about to be told its id.
    pub(super) async fn promise(mut self) -> StatementState {
        let goes = {
            let mut disposition = self.disposition.lock();
            if *disposition == RowDisposition::Open {
                *disposition = RowDisposition::Stays;
            }
            *disposition == RowDisposition::Goes
        };
        if goes {
            // An error means that the driver is gone; its last state stands.
            let _ = self.progress.wait_for(Progress::has_ended).await;
        }
        self.progress.borrow().state.clone()
    }
}

/// The way to a driver.
pub(super) struct LiveStatement {
    pub(super) org: OrgId,
    pub(super) cancel: watch::Sender<bool>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) disposition: Arc<Mutex<RowDisposition>>,
}

impl LiveStatement {
    /// Asks for the statement's end.
    pub(super) fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// Where it stands now.
    pub(super) fn state(&self) -> StatementState {
        self.progress.borrow().state.clone()
    }

    /// For another caller who waits for the same statement.
    pub(super) fn watch(&self) -> StatementWatch {
        StatementWatch { progress: self.progress.clone(), disposition: Arc::clone(&self.disposition) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::bi::rows::ScopeV1;
    use base::ids::{QueryId, UserId};
    use serde_json::json;

    fn stored_as_queued() -> QueryV2 {
        QueryV2 {
            id: QueryId::new(),
            sql: "SELECT 1".into(),
            structured: None,
            scope: ScopeV1::Org,
            submitted_by: UserId::new(),
            saved: None,
            submission_key: None,
            status: QueryStatus::Queued,
            dry: false,
            plan: Json::default(),
            result: None,
            coverage: None,
            failure: None,
            query_sec_max: 30,
            freshness_sec: None,
            created_at: Timestamp(0),
            started_at: None,
            finished_at: None,
        }
    }

    fn run() -> Arc<RunFacts> {
        Arc::new(RunFacts {
            plan: Json(json!({ "tables": ["urls"] })),
            freshness_sec: 3,
            started_at: Timestamp(7),
        })
    }

    #[test]
    fn one_that_runs_is_told_as_running_although_its_row_says_queued() {
        let told = StatementState::told(Some(&StatementState::Running(run())), stored_as_queued());
        assert_eq!((told.status, told.started_at), (QueryStatus::Running, Some(Timestamp(7))));
        assert_eq!((told.plan.0["tables"][0].as_str(), told.freshness_sec), (Some("urls"), Some(3)));
        let row = stored_as_queued();
        assert_eq!(StatementState::told(None, row.clone()), row, "nobody carries it");
    }

    #[test]
    fn an_end_is_told_whole_and_a_row_that_has_ended_stands() {
        let at = Timestamp(9);
        let failure =
            QueryFailureV1 { code: "transient".into(), message: "It failed.".into(), retriable: false };
        let result = ResultV1 { rows: 2, kept: true, ..ResultV1::default() };
        let finished = StatementState::Finished { run: run(), result, coverage: None, at };
        let failed = StatementState::Failed { run: Some(run()), failure, at };
        let canceled = StatementState::Canceled { run: None, at };
        let mut row = stored_as_queued();
        finished.tell(&mut row);
        assert_eq!((row.status, row.finished_at, row.result), (QueryStatus::Success, Some(at), Some(result)));
        // What was not brought to the disk has no result after all.
        failed.tell(&mut row);
        assert_eq!((row.status, row.result, row.failure.is_some()), (QueryStatus::Failed, None, true));
        let row = StatementState::told(Some(&canceled), stored_as_queued());
        assert_eq!(row.failure.as_ref().map(|failure| failure.code.as_str()), Some("canceled"));
        assert_eq!((row.started_at, row.finished_at), (None, Some(at)));
        let row = StatementState::told(Some(&StatementState::Running(run())), row);
        assert_eq!((row.status, row.started_at), (QueryStatus::Canceled, None));
    }

    #[test]
    fn who_does_not_wait_is_told_when_others_of_its_own_are_before() {
        let told = |state, is_stored| Progress { state, is_stored }.may_be_told();
        let queued = |position| StatementState::Queued { position };
        assert!(told(queued(1), true) && !told(queued(1), false) && !told(queued(0), true));
        assert!(told(StatementState::Running(run()), true) && !told(StatementState::Running(run()), false));
        assert!(!told(StatementState::Planning, true));
        assert!(told(StatementState::Withdrawn(Withdrawal::Replayed), false));
    }
}
