//! What a snapshot is told: rows as they now are, and up to where.

use std::sync::Arc;

use crate::catalog::TableSpec;
use crate::cells::Cell;
use crate::segment::Key;

/// Changes of one organization, in outbox order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The outbox position after the last of them.
    pub position: u64,
    /// When the last of them was committed, in milliseconds since 1970.
    pub committed_at_ms: i64,
    /// The changes; of two with the same table and key the later one counts.
    pub changes: Vec<TableChange>,
}

/// All rows of one key of one table, as they now are.
#[derive(Clone, Debug)]
pub struct TableChange {
    /// The table.
    pub table: Arc<TableSpec>,
    /// The key that groups the rows; time-ordered identifiers make applying cheap.
    pub key: Key,
    /// The rows, each with a cell per column of the table; none means that the key is gone.
    pub rows: Vec<Vec<Cell>>,
}

/// What became of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// They are visible and durable.
    Published,
    /// The snapshot already stands at or behind their position.
    Skipped,
}
