//! What a statement can fail with. How DataFusion's errors become that is in `classified`.

use std::fmt;

use datafusion::error::DataFusionError;
use serde::{Deserialize, Serialize};

pub(super) use super::names::quoted;

/// What went wrong, in the terms of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The text is not SQL.
    SyntaxError,
    /// It is SQL, but cannot be answered here.
    InvalidSql,
    /// It names a table that this organization cannot read; whether it exists elsewhere is not said.
    RlsDenied,
    /// It ran into its time limit.
    StatementTimeout,
    /// It failed while running.
    Transient,
    /// It was canceled.
    Canceled,
    /// Too many statements wait for a worker.
    TooManyQueries,
    /// The operator has switched it off.
    KillSwitched,
    /// The operator has switched statements of its form off, and no others.
    StatementSwitchedOff,
    /// A defect of ours.
    #[serde(rename = "internal_error")]
    Internal,
}

impl ErrorCode {
    /// The name on the wire.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::SyntaxError => "syntax_error",
            Self::InvalidSql => "invalid_sql",
            Self::RlsDenied => "rls_denied",
            Self::StatementTimeout => "statement_timeout",
            Self::Transient => "transient",
            Self::Canceled => "canceled",
            Self::TooManyQueries => "too_many_queries",
            Self::KillSwitched | Self::StatementSwitchedOff => "kill_switched",
            Self::Internal => "internal_error",
        }
    }
}

impl ErrorCode {
    /// The name inside an execution's `error` object, which knows fewer codes than the HTTP envelope: whatever shows
    /// only while a statement runs is `transient` there.
    pub fn execution_name(self) -> &'static str {
        match self {
            Self::InvalidSql | Self::Internal => Self::Transient.wire_name(),
            other => other.wire_name(),
        }
    }

    /// Whether the statement itself is at fault and planning found it out: a 400 or 403 at submission. Everything
    /// else is an execution that failed.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::SyntaxError | Self::InvalidSql | Self::RlsDenied)
    }
}

/// Why a statement has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryError {
    /// The code.
    pub code: ErrorCode,
    /// A sentence for the customer.
    pub message: String,
    /// Whether the same statement may succeed when sent again.
    pub retriable: bool,
    /// What happened inside, for the log and never for the client: it may hold values of rows.
    pub detail: Option<String>,
    /// The piece of the statement that it is about, until its place is told in the message.
    #[serde(skip)]
    pub(super) about: Option<String>,
    /// The worker says that a file of the SQL tables is missing or not what was written. Whoever acts on it looks for
    /// themselves: a worker may say anything.
    #[serde(default)]
    pub damage: bool,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}

impl QueryError {
    /// An error that will come again with the same statement.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retriable: false, detail: None, about: None, damage: false }
    }

    /// The statement cannot be answered here.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidSql, message)
    }

    /// The statement failed while it ran, and would again.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Transient, message)
    }

    /// A defect of ours or of the machine; `detail` goes to the log.
    pub(super) fn internal(detail: impl fmt::Display) -> Self {
        Self::new(ErrorCode::Internal, "The statement could not be run.").with_detail(detail)
    }

    /// The same for a table that is missing, another organization's, a system catalog's or a file.
    pub(super) fn denied(name: &str) -> Self {
        let message = format!("There is no table \"{}\" that this organization can read.", quoted(name));
        Self::new(ErrorCode::RlsDenied, message)
    }

    pub(super) fn out_of_memory() -> Self {
        Self::failed("The statement used more than its memory.")
    }

    /// A column of what it holds at once is beyond the offsets of Arrow's arrays, which have 32 bits.
    pub(super) fn out_of_offsets() -> Self {
        Self::failed(
            "The statement holds more than 2 GiB of text, or two billion elements of lists, in one column of one step. Ask \
             for shorter texts, or for fewer rows at once.",
        )
    }

    /// Its process was ended from outside.
    pub(super) fn killed() -> Self {
        let what = "The statement's process was ended from outside: by the system when the box ran out of memory, or by \
                    its operator. Send the statement again later, and for less at once if that happens again.";
        Self { retriable: true, ..Self::failed(what) }
    }

    /// Its process broke down.
    pub(super) fn crashed() -> Self {
        let what = "The statement's process broke down. The box's log says how; nobody else's statements were touched.";
        Self { retriable: true, ..Self::failed(what) }
    }

    pub(super) fn out_of_spill() -> Self {
        Self::failed("The statement used more than its disk space.")
    }

    /// The disk has no room for what the statement spills or gives. Later it may have.
    pub(super) fn out_of_disk() -> Self {
        let what = "The box is short of disk space for what this statement holds; send it again later.";
        Self { retriable: true, ..Self::failed(what) }
    }

    /// The box is short of something else than disk: files it may have open, processes, memory.
    pub(super) fn out_of_breath() -> Self {
        let what = "The box has too much to do at the moment; send the statement again later.";
        Self { retriable: true, ..Self::failed(what) }
    }

    /// A file of the SQL tables cannot be read any more. It is made anew from the store.
    pub(super) fn damaged() -> Self {
        let what =
            "A file of the SQL tables is damaged; they are made anew. Send the statement again shortly.";
        Self { retriable: true, damage: true, ..Self::failed(what) }
    }

    pub(super) fn timed_out(limit: std::time::Duration) -> Self {
        let message = format!("The statement ran longer than its limit of {} seconds.", limit.as_secs_f64());
        Self::new(ErrorCode::StatementTimeout, message)
    }

    pub(super) fn canceled() -> Self {
        Self::new(ErrorCode::Canceled, "The statement was canceled.")
    }

    /// It is about this piece of the statement.
    pub(super) fn about(mut self, piece: &str) -> Self {
        self.about = Some(piece.to_owned());
        self
    }

    pub(super) fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }
}

/// An error of a function of ours, for the customer as it is.
pub(super) fn told(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
