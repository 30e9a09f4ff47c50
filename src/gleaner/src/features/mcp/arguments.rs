//! What a tool is called with, read into its own type; what is wrong with it is told by name.

use super::on_behalf::{Asked, Refused};
use base::ids::QueryId;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The arguments of a tool as its type.
pub(super) fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Asked<T> {
    server::input::typed(&Value::Object(arguments)).map_err(|error| {
        let told = error.detail().unwrap_or(error.sentence());
        Refused { status: 400, told: format!("The arguments cannot be read: {told}") }
    })
}

/// A place in rows: the statement that has them, and how many were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowCursor {
    pub statement: QueryId,
    pub row: u64,
}

impl RowCursor {
    pub fn parse(text: &str) -> Asked<RowCursor> {
        let parsed = text
            .split_once('.')
            .and_then(|(id, row)| Some(RowCursor { statement: id.parse().ok()?, row: row.parse().ok()? }));
        parsed.ok_or_else(|| Refused::argument("cursor", "is none that this tool gave"))
    }

    pub fn text(self) -> String {
        format!("{}.{}", self.statement, self.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back() {
        let cursor = RowCursor { statement: QueryId(uuid::Uuid::from_u128(7)), row: 250 };
        assert_eq!(RowCursor::parse(&cursor.text()), Ok(cursor));
        for text in ["", ".", "7", "x.1", "00000000-0000-0000-0000-000000000007.-1"] {
            assert!(RowCursor::parse(text).unwrap_err().told.starts_with("cursor: "), "{text}");
        }
    }
}
