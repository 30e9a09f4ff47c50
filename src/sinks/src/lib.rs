//! Where result rows leave in batches, so far as it is no matter of organizations: tables of a PostgreSQL server, and files in
//! a folder, in S3-compatible storage, or on a server that is spoken to over SFTP.
//!
//! What is written is a [`Batch`]: columns and rows as the SQL console has them. Writing one again does no harm: whoever calls
//! does so when a try was cut off, and each row is there once all the same.

mod bounded;
pub mod files;
pub mod postgres;
pub mod sftp;

use sql::{Cell, ColumnSpec};

/// The name of a file that is not whole yet; readers pass over what begins so.
pub(crate) fn draft_name(name: &str) -> String {
    format!("._{name}.part")
}

/// Some rows of one console table.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub columns: Vec<ColumnSpec>,
    /// Each has a cell for each column, in their order.
    pub rows: Vec<Vec<Cell>>,
}

impl Batch {
    /// Where a column stands.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}
