//! What a caller is told of a statement that cannot run.

use base::{Code, Error};
use sql::{ErrorCode, QueryError};

/// The request's error for a statement that cannot be planned.
pub(super) fn refusal(error: QueryError) -> Error {
    let code = match error.code {
        ErrorCode::SyntaxError => Code::SyntaxError,
        ErrorCode::RlsDenied => Code::RlsDenied,
        ErrorCode::TooManyQueries => Code::TooManyQueries,
        // It is the statement that is at fault, and another one would do.
        ErrorCode::StatementSwitchedOff => {
            return Error::new(Code::KillSwitched).with_status(400).message(error.message);
        }
        ErrorCode::KillSwitched => Code::KillSwitched,
        _ => Code::InvalidSql,
    };
    Error::new(code).message(error.message)
}
