//! What a statement can fail with, and how DataFusion's errors become that.
//!
//! The texts are ours, customer-safe: DataFusion's own hold data values, column lists and plan internals. Only a
//! syntax error passes the parser's message on (data/docs/api.md, "The SQL console").

use std::fmt;
use std::io;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use serde::{Deserialize, Serialize};

use super::names::QUOTED_CHARS_MAX;
pub(super) use super::names::quoted;
use super::reasons::{
    CORRELATED, Reason, UNPLANNABLE, form_reason, part_reason, plan_reason, regex_reason, schema_reason,
    written_value,
};
use super::segment::SegmentError;

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

    /// The statement cannot be answered here, for a reason that is known.
    fn of(reason: Reason) -> Self {
        Self { about: reason.about, ..Self::invalid(reason.sentence) }
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

    /// An error that showed while the statement was planned. What fails then fails whatever the rows are, so it is the
    /// statement that is refused; and values in it are the statement's own.
    pub(super) fn while_planned(self) -> Self {
        let is_limit =
            [Self::out_of_memory(), Self::out_of_spill()].iter().any(|one| one.message == self.message);
        if self.code != ErrorCode::Transient || self.retriable || is_limit {
            return self;
        }
        let told = self.detail.as_deref().and_then(written_value);
        let Self { message, about, detail, .. } = self;
        let own = told.map_or_else(|| Self { about, ..Self::invalid(message) }, Self::of);
        Self { detail, ..own }
    }

    /// An error of the optimizer, which sees a statement whose names have all been found: a name that it misses is one of
    /// its own.
    pub(super) fn while_optimized(error: DataFusionError, names_outside: bool) -> Self {
        match error.find_root() {
            DataFusionError::SchemaError(..) => {
                let why = if names_outside { CORRELATED } else { UNPLANNABLE };
                Self::invalid(why).with_detail(error)
            }
            _ => Self::from(error).while_planned(),
        }
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

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let classified = classify(error.find_root());
        classified.with_detail(error)
    }
}

impl From<io::Error> for QueryError {
    fn from(error: io::Error) -> Self {
        io_error(&error).with_detail(error)
    }
}

fn io_error(error: &io::Error) -> QueryError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return QueryError::out_of_disk();
    }
    // DataFusion's own bound on what a statement spills.
    if error.kind() == io::ErrorKind::Other && error.to_string().contains("during the spilling process") {
        return QueryError::out_of_spill();
    }
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM) => QueryError::out_of_breath(),
        _ => QueryError::internal("a file could not be read or written"),
    }
}

fn classify(root: &DataFusionError) -> QueryError {
    match root {
        DataFusionError::SQL(error, _) => syntax_error(error),
        DataFusionError::SchemaError(error, _) => QueryError::of(schema_reason(error)),
        DataFusionError::Plan(text) => QueryError::of(plan_reason(text)),
        DataFusionError::NotImplemented(text) => QueryError::of(form_reason(text)),
        // It would fail again, and elsewhere: what it takes apart is at fault, not the box.
        DataFusionError::Internal(_) | DataFusionError::Substrait(_) => QueryError::invalid(UNPLANNABLE),
        DataFusionError::Diagnostic(_, error) => classify(error.find_root()),
        DataFusionError::Configuration(_) => {
            QueryError::invalid("The statement holds a setting that is not available here.")
        }
        DataFusionError::ResourcesExhausted(text) => resources_text(text),
        DataFusionError::ArrowError(error, _) => arrow_error(error),
        DataFusionError::IoError(error) => io_error(error),
        DataFusionError::Execution(text) => match part_reason(text) {
            Some(reason) => QueryError::of(reason),
            None => QueryError::failed(execution_text(text)),
        },
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => classify(first.find_root()),
            None => QueryError::internal("an empty list of errors"),
        },
        DataFusionError::External(error) => match error.downcast_ref::<QueryError>() {
            Some(own) => own.clone(),
            None => match (error.downcast_ref::<SegmentError>(), regex_reason(&error.to_string())) {
                (Some(error), _) => segment_error(error),
                (None, Some(reason)) => QueryError::of(reason),
                (None, None) => QueryError::internal("an external error"),
            },
        },
        // A panic in one of DataFusion's tasks.
        DataFusionError::ExecutionJoin(_) => QueryError::failed("The statement could not be run."),
        _ => QueryError::internal("an error without a class"),
    }
}

fn segment_error(error: &SegmentError) -> QueryError {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    match error {
        SegmentError::Damaged(_) => QueryError::damaged(),
        SegmentError::Io(error) if matches!(error.kind(), InvalidData | NotFound | UnexpectedEof) => {
            QueryError::damaged()
        }
        SegmentError::Io(error) => io_error(error),
        SegmentError::Arrow(error) => arrow_error(error),
    }
}

fn syntax_error(error: &ParserError) -> QueryError {
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => QueryError::new(
            ErrorCode::SyntaxError,
            text.chars().take(4 * QUOTED_CHARS_MAX).collect::<String>(),
        ),
        ParserError::RecursionLimitExceeded => QueryError::invalid("The statement is nested too deeply."),
    }
}

fn resources_text(text: &str) -> QueryError {
    if text.contains("disk") || text.contains("spill") {
        return QueryError::out_of_spill();
    }
    QueryError::out_of_memory()
}

fn arrow_error(error: &ArrowError) -> QueryError {
    match error {
        ArrowError::DivideByZero => QueryError::failed("The statement divided by zero."),
        ArrowError::ArithmeticOverflow(_) => QueryError::failed("A number went out of its type's range."),
        ArrowError::CastError(_) | ArrowError::ParseError(_) => {
            QueryError::failed("A value could not be converted to the type that is asked for.")
        }
        ArrowError::ComputeError(text) if text.contains("regular expression") || text.contains("Regex") => {
            QueryError::invalid("A regular expression cannot be understood.")
        }
        ArrowError::ComputeError(text) if text.contains("verflow") => {
            QueryError::failed("A number went out of its type's range.")
        }
        ArrowError::ComputeError(_) | ArrowError::InvalidArgumentError(_) => {
            QueryError::failed("A value could not be computed.")
        }
        ArrowError::IoError(_, error) => io_error(error),
        ArrowError::MemoryError(_) | ArrowError::OffsetOverflowError(_) => QueryError::out_of_memory(),
        ArrowError::NotYetImplemented(_) => {
            QueryError::invalid("The statement uses a form that is not available here.")
        }
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => classify(inner.find_root()),
            None => QueryError::internal("an external error"),
        },
        _ => QueryError::internal("an arrow error"),
    }
}

fn execution_text(text: &str) -> &'static str {
    let lower = text.to_ascii_lowercase();
    for (mark, own) in [
        ("divide by zero", "The statement divided by zero."),
        ("division by zero", "The statement divided by zero."),
        ("overflow", "A number went out of its type's range."),
        ("more than one row", "A subquery used as a value gave more than one row."),
        ("regex", "A regular expression cannot be understood."),
        ("cast", "A value could not be converted to the type that is asked for."),
        ("pars", "A value could not be converted to the type that is asked for."),
    ] {
        if lower.contains(mark) {
            return own;
        }
    }
    "A value could not be computed."
}

#[cfg(test)]
mod tests {
    use datafusion::common::{Column, SchemaError};

    use super::*;
    use crate::names::nearest_name;

    #[test]
    fn the_nearest_column_is_named_and_no_other() {
        let valid = [Column::from_name("price"), Column::from_name("secret_cost")];
        let error = DataFusionError::SchemaError(
            Box::new(SchemaError::FieldNotFound {
                field: Box::new(Column::from_name("Prise")),
                valid_fields: valid.to_vec(),
            }),
            Box::new(None),
        );
        let own = QueryError::from(error);
        assert_eq!(own.message, "There is no column \"Prise\"; did you mean \"price\"?");
        assert_eq!((own.code, own.retriable), (ErrorCode::InvalidSql, false));
        assert_eq!(nearest_name("zzz", valid.iter().map(Column::name)), None);
    }

    #[test]
    fn what_spills_too_much_is_told_so() {
        let text =
            "The used disk space during the spilling process has exceeded the allowable limit of 256.0 MB.";
        let error = ArrowError::IoError("Io error".to_owned(), io::Error::other(text));
        let own = QueryError::from(DataFusionError::ArrowError(Box::new(error), None));
        assert_eq!(own.message, "The statement used more than its disk space.");
        assert_eq!((own.code, own.retriable), (ErrorCode::Transient, false));
    }

    #[test]
    fn what_the_box_is_short_of_may_be_tried_again() {
        for (errno, part) in [
            (libc::ENOSPC, "disk"),
            (libc::EDQUOT, "disk"),
            (libc::EMFILE, "too much"),
            (libc::EAGAIN, "too much"),
        ] {
            let own = QueryError::from(io::Error::from_raw_os_error(errno));
            assert_eq!((own.code, own.retriable), (ErrorCode::Transient, true), "{own:?}");
            assert!(own.message.contains(part), "{own:?}");
        }
        let spilling = DataFusionError::IoError(io::ErrorKind::StorageFull.into());
        assert!(QueryError::from(spilling).retriable);
        let writing = ArrowError::IoError(String::new(), io::ErrorKind::StorageFull.into());
        assert!(QueryError::from(DataFusionError::from(writing)).retriable);
        assert_eq!(QueryError::from(io::Error::other("odd")).code, ErrorCode::Internal);
    }

    #[test]
    fn what_fails_while_it_is_planned_is_the_statements_fault() {
        let cast = ArrowError::CastError("Cannot cast string 'abc' to value of Int64 type".into());
        let own = QueryError::from(DataFusionError::from(cast)).while_planned();
        assert_eq!((own.code, own.message.as_str()), (ErrorCode::InvalidSql, "'abc' is not a bigint."));
        let own = QueryError::from(DataFusionError::from(ArrowError::DivideByZero)).while_planned();
        assert_eq!((own.code, own.retriable), (ErrorCode::InvalidSql, false));
        let own = QueryError::from(DataFusionError::Internal("Physical input schema …".to_owned()));
        assert_eq!((own.code, own.message.as_str()), (ErrorCode::InvalidSql, UNPLANNABLE));
        for other in [QueryError::out_of_disk(), QueryError::internal("x"), QueryError::canceled()] {
            assert_eq!(other.clone().while_planned(), other);
        }
    }

    #[test]
    fn data_values_never_reach_the_message() {
        let text = "Cannot cast string 'SECRET' to value of Int64 type";
        let own = QueryError::from(DataFusionError::from(ArrowError::CastError(text.into())));
        assert_eq!(own.code, ErrorCode::Transient);
        assert!(
            !own.message.contains("SECRET") && own.detail.is_some_and(|detail| detail.contains("SECRET"))
        );
    }
}
