//! Tables of the SQL console: which columns they have, and what a stored row has in each.

use base::Result;
use base::clock::Timestamp;
use sql::{Cell, ColumnKind, ColumnSpec, JoinedColumns, NewestOf, TableName, TableSpec};
use std::sync::Arc;
use store::{OrgRead, SysRead};

/// How the rows of one fed table look as tables of the SQL console.
pub struct View {
    /// The store table whose change records this follows.
    pub source: &'static str,
    /// Every console table this fills, with the columns that every organization has.
    pub tables: fn() -> Vec<TableSpec>,
    /// The console rows of the row under `key` as it is now; none in a table means that it has none there (any more).
    /// Every table that the row could ever stand in is named, so that old rows are replaced.
    pub rows: fn(&OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>>,
}

/// A table of the SQL console that is the same for every organization: rows of the platform.
pub struct SharedView {
    pub table: fn() -> TableSpec,
    /// A number, at least 1, that grows with every change of the rows.
    pub version: fn(&SysRead<'_>) -> Result<u64>,
    /// All rows as they are now, each under the same key each time. A row never goes.
    pub rows: fn(&SysRead<'_>) -> Result<Vec<KeyedRow>>,
}

/// A row of a console table, and the key that it stands under.
pub type KeyedRow = (sql::Key, Vec<Cell>);

/// The rows of one console table that come from one stored row.
pub struct ViewRows {
    pub table: Arc<TableSpec>,
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a console table, with what a row has in it.
pub struct Column<R> {
    spec: ColumnSpec,
    cell: fn(&R) -> Cell,
}

impl<R> Column<R> {
    /// A column that may be empty.
    pub fn nullable(name: &str, kind: ColumnKind, about: &str, cell: fn(&R) -> Cell) -> Column<R> {
        Column { spec: column(name, kind, about), cell }
    }

    /// A column that every row has something in.
    pub fn required(name: &str, kind: ColumnKind, about: &str, cell: fn(&R) -> Cell) -> Column<R> {
        Column { spec: column(name, kind, about).required(), cell }
    }

    /// Name, kind and description.
    pub fn spec(&self) -> &ColumnSpec {
        &self.spec
    }

    /// What the row has in it.
    pub fn cell(&self, row: &R) -> Cell {
        (self.cell)(row)
    }
}

/// A console table of rows that are made of `R`.
pub struct ConsoleTable<R> {
    spec: Arc<TableSpec>,
    cells: Vec<fn(&R) -> Cell>,
}

impl<R> ConsoleTable<R> {
    /// A table; see [`console_table`].
    pub fn new<const N: usize>(name: &str, about: &str, columns: [Column<R>; N]) -> ConsoleTable<R> {
        let cells = columns.iter().map(|column| column.cell).collect();
        let specs = columns.into_iter().map(|column| column.spec).collect();
        ConsoleTable { spec: console_table(name, about, specs), cells }
    }

    /// The number of this set of columns: it grows whenever that changes.
    pub fn version(mut self, number: u64) -> ConsoleTable<R> {
        Arc::make_mut(&mut self.spec).catalog_version = number;
        self
    }

    /// Its newest rows are kept, too.
    pub fn newest(mut self, newest: NewestOf) -> ConsoleTable<R> {
        Arc::make_mut(&mut self.spec).newest = Some(newest);
        self
    }

    /// Some of its columns are found in the organization's other tables. What rows have in them is not read.
    pub fn joined(mut self, joined: JoinedColumns) -> ConsoleTable<R> {
        Arc::make_mut(&mut self.spec).joined = Some(joined);
        self
    }

    /// An agent's statements see the rows that fulfil this; see [`TableSpec::agent_rows`].
    pub fn seen_by_agents(mut self, rows: impl Into<String>) -> ConsoleTable<R> {
        self.spec = seen_by_agents(self.spec, rows);
        self
    }

    /// What it is called, and its columns.
    pub fn spec(&self) -> TableSpec {
        self.spec.as_ref().clone()
    }

    /// The row that this one comes to.
    pub fn row(&self, row: &R) -> Vec<Cell> {
        self.cells.iter().map(|cell| cell(row)).collect()
    }

    /// The rows that these come to.
    pub fn rows<'r>(&self, rows: impl IntoIterator<Item = &'r R>) -> ViewRows
    where
        R: 'r,
    {
        let rows = rows.into_iter().map(|row| self.row(row)).collect();
        ViewRows { table: Arc::clone(&self.spec), rows }
    }
}

/// A console table's description.
///
/// # Panics
/// When the name is not a table's: it is a literal of ours.
pub fn console_table(name: &str, about: &str, columns: Vec<ColumnSpec>) -> Arc<TableSpec> {
    let name = table_name(name);
    let description = about.to_owned();
    Arc::new(TableSpec {
        name,
        description,
        columns,
        catalog_version: 1,
        newest: None,
        agent_rows: None,
        joined: None,
    })
}

/// Belongs to the agent whose id its own `metadata` names, or the graph of its workflow; for [`TableSpec::agent_rows`] of tables
/// with both columns.
pub const BOUND_TO_AGENT: &str = "metadata ->> 'agentId' = '{agent}' OR \
    workflow_id IN (SELECT id FROM workflows WHERE agent_id = '{agent}')";

/// The table, of which an agent's statements see the rows that fulfil this.
pub fn seen_by_agents(table: Arc<TableSpec>, rows: impl Into<String>) -> Arc<TableSpec> {
    Arc::new(TableSpec { agent_rows: Some(rows.into()), ..Arc::unwrap_or_clone(table) })
}

/// A console table's name.
///
/// # Panics
/// When it is not one: it is a literal of ours.
pub fn table_name(name: &str) -> TableName {
    TableName::parse(name).expect("a console table's name is a literal of ours")
}

/// A nullable column with its description.
pub fn column(name: &str, kind: ColumnKind, about: &str) -> ColumnSpec {
    ColumnSpec::new(name, kind).describe(about)
}

/// What reads so.
pub fn text(value: impl ToString) -> Cell {
    Cell::from(value.to_string())
}

pub fn optional_text(value: Option<impl ToString>) -> Cell {
    value.map_or(Cell::Null, text)
}

pub fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

pub fn optional_int(value: Option<impl Into<i64>>) -> Cell {
    value.map_or(Cell::Null, |value| Cell::Int(value.into()))
}

pub fn time(at: Timestamp) -> Cell {
    Cell::Time(at.millis())
}

pub fn optional_time(at: Option<Timestamp>) -> Cell {
    at.map_or(Cell::Null, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_column_in_their_order() {
        let table = ConsoleTable::<(u64, Option<Timestamp>)>::new(
            "things",
            "Things.",
            [
                Column::required("n", ColumnKind::Int64, "Which", |row| int(row.0)),
                Column::nullable("ended_at", ColumnKind::Timestamp, "When it ended", |row| {
                    optional_time(row.1)
                }),
                Column::required("name", ColumnKind::Text, "Its name", |row| text(row.0)),
            ],
        );
        let table = table.version(3).seen_by_agents("n = 1");
        let rows = table.rows(&[(u64::MAX, None), (2, Some(Timestamp(7)))]);
        let name = Cell::from("18446744073709551615");
        assert_eq!(rows.rows[0], [Cell::Int(i64::MAX), Cell::Null, name]);
        assert_eq!(rows.rows[1], [Cell::Int(2), Cell::Time(7), Cell::from("2")]);
        let columns: Vec<_> =
            rows.table.columns.iter().map(|column| (&*column.name, column.nullable)).collect();
        assert_eq!(columns, [("n", false), ("ended_at", true), ("name", false)]);
        for row in &rows.rows {
            assert!(row.iter().zip(&rows.table.columns).all(|(cell, column)| cell.fits(column.kind)));
        }
        let spec = table.spec();
        assert_eq!((spec.catalog_version, spec.agent_rows.as_deref()), (3, Some("n = 1")));
    }
}
