//! What went wrong with a server, in words for whoever owns it.

use fetch::FetchError;
use std::error::Error;
use std::fmt;
use tokio_postgres::error::SqlState;

/// Whose matter a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The server is away, or busy: the same will go well later.
    Away,
    /// It does not let us in.
    Refused,
    /// The table cannot be used as it is, or not by this user.
    Table,
    /// It does not take these rows.
    Rows,
}

/// Why a batch was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub told: String,
}

impl Fault {
    pub(super) fn away(told: String) -> Fault {
        Fault { kind: FaultKind::Away, told }
    }

    pub(super) fn table(told: String) -> Fault {
        Fault { kind: FaultKind::Table, told }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

impl Error for Fault {}

impl From<FetchError> for Fault {
    fn from(error: FetchError) -> Fault {
        let kind =
            if matches!(error, FetchError::Refused { .. }) { FaultKind::Refused } else { FaultKind::Away };
        Fault { kind, told: error.to_string() }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        let Some(said) = error.as_db_error() else {
            let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            return Fault::away(format!("{error}{source}"));
        };
        let code = said.code();
        let mut told = format!("{} (SQLSTATE {})", said.message(), code.code());
        for (name, text) in [("detail", said.detail()), ("hint", said.hint()), ("column", said.column())] {
            if let Some(text) = text {
                told = format!("{told}; {name}: {text}");
            }
        }
        Fault { kind: kind(code), told }
    }
}

/// What a code says; PostgreSQL's manual, appendix A.
fn kind(code: &SqlState) -> FaultKind {
    let is_busy = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    // A server may say anything, also what is no code.
    match code.code().get(..2).unwrap_or_default() {
        _ if is_busy.contains(code) => FaultKind::Away,
        // Connection exceptions, resources, an operator who steps in, and the system itself.
        "08" | "53" | "57" | "58" | "XX" => FaultKind::Away,
        // The login, and the database.
        "28" | "3D" => FaultKind::Refused,
        // Values, constraints, and limits of a row.
        "22" | "23" | "54" => FaultKind::Rows,
        _ => FaultKind::Table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_whose_matter_it_is() {
        for (code, expected) in [
            (SqlState::INVALID_PASSWORD, FaultKind::Refused),
            (SqlState::INVALID_CATALOG_NAME, FaultKind::Refused),
            (SqlState::INSUFFICIENT_PRIVILEGE, FaultKind::Table),
            (SqlState::UNDEFINED_TABLE, FaultKind::Table),
            (SqlState::DATATYPE_MISMATCH, FaultKind::Table),
            (SqlState::NOT_NULL_VIOLATION, FaultKind::Rows),
            (SqlState::STRING_DATA_RIGHT_TRUNCATION, FaultKind::Rows),
            (SqlState::ADMIN_SHUTDOWN, FaultKind::Away),
            (SqlState::TOO_MANY_CONNECTIONS, FaultKind::Away),
            (SqlState::T_R_DEADLOCK_DETECTED, FaultKind::Away),
            (SqlState::from_code("x"), FaultKind::Table),
            (SqlState::from_code("xß"), FaultKind::Table),
        ] {
            assert_eq!(kind(&code), expected, "{}", code.code());
        }
    }
}
