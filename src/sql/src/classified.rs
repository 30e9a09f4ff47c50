//! How DataFusion's errors become those of statements.
//!
//! The texts are ours, customer-safe: DataFusion's own hold data values, column lists and plan internals. Only a
//! syntax error passes the parser's message on (data/docs/api.md, "The SQL console").

use std::io;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use super::errors::{ErrorCode, QueryError};
use super::names::QUOTED_CHARS_MAX;
use super::reasons::{
    CORRELATED, Reason, UNPLANNABLE, form_reason, part_reason, plan_reason, regex_reason, schema_reason,
    written_value,
};
use super::segment::SegmentError;

impl QueryError {
    /// The statement cannot be answered here, for a reason that is known.
    fn of(reason: Reason) -> Self {
        Self { about: reason.about, ..Self::invalid(reason.sentence) }
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
