//! What a table is: its name, its columns and their kinds.
//!
//! The catalogue is the authority on what a statement may see: a query gets exactly the tables that its pin was
//! made with, and a file that holds a column no table names any more cannot be read through it. Names and columns
//! are owned strings, because the tables of a page type carry the columns of the organization's own attributes.
//!
//! Arrow's schema marks every column nullable, whatever `ColumnSpec::nullable` says: a segment written before a
//! column existed reads as NULL there, and DataFusion would drop `IS NULL` on a column declared otherwise.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use serde::{Deserialize, Serialize};

/// The one catalog.
pub(super) const CATALOG: &str = "gleaner";
/// The one schema, so that `public.readings` is what `readings` is, as in PostgreSQL.
pub(super) const SCHEMA: &str = "public";

/// The tables of a session by their names.
pub(super) type TableMap = BTreeMap<String, Arc<dyn TableProvider>>;

/// Longest table name, in characters (data/docs/api.md, "The SQL console").
pub const TABLE_NAME_CHARS_MAX: usize = 128;

/// The kinds of value a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// UTF-8 text.
    Text,
    /// 64-bit signed integer.
    Int64,
    /// IEEE 754 double.
    Float64,
    /// True or false.
    Bool,
    /// Milliseconds since 1970 in UTC, stored without a zone: `date_trunc` on a zoned column costs six times as much.
    Timestamp,
    /// JSON in its text form.
    Json,
}

impl ColumnKind {
    /// The Arrow type in which segments store this kind.
    pub fn arrow_type(self) -> DataType {
        match self {
            Self::Text | Self::Json => DataType::Utf8,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, None),
        }
    }

    /// The PostgreSQL name of the type, as table descriptions show it.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int64 => "bigint",
            Self::Float64 => "double precision",
            Self::Bool => "boolean",
            Self::Timestamp => "timestamp",
            Self::Json => "json",
        }
    }
}

/// A table's name: a letter or underscore, then up to 127 letters, digits or underscores (ASCII).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName(Arc<str>);

/// The text does not have the form of a table name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTableName;

impl fmt::Display for InvalidTableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "A table name is a letter or underscore followed by up to 127 letters, digits or underscores.",
        )
    }
}

impl std::error::Error for InvalidTableName {}

impl TableName {
    /// Parses a name; the only way to get one.
    pub fn parse(text: &str) -> Result<Self, InvalidTableName> {
        let head = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let body = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if head && body && text.len() <= TABLE_NAME_CHARS_MAX {
            Ok(Self(text.into()))
        } else {
            Err(InvalidTableName)
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TableName {
    type Error = InvalidTableName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> Self {
        name.0.as_ref().to_owned()
    }
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSpec {
    /// The name, unique in its table.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// Whether a row may lack it; information for the reader, not enforced.
    pub nullable: bool,
    /// What it means, for people.
    pub description: Option<String>,
}

impl ColumnSpec {
    /// A nullable column without a description.
    pub fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), kind, nullable: true, description: None }
    }

    /// The same column, with a description.
    pub fn describe(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// The same column, said to be always filled.
    pub fn required(mut self) -> Self {
        self.nullable = false;
        self
    }
}

/// That a table's newest rows are kept in a table of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestOf {
    /// The table that keeps them.
    pub table: TableName,
    /// What it says about itself, for people.
    pub description: String,
    /// The column, of text, of which each value has one newest row; never NULL.
    pub by: String,
    /// The column, of times, that says which is newer; never NULL.
    pub at: String,
}

/// Columns that no stored row has a value in: a statement finds them in the organization's other tables. So rows that are the same
/// for everybody stand beside what one organization knows of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedColumns {
    /// Their names, as the table has them.
    pub names: Vec<String>,
    /// A query over the organization's stored tables that gives them, and the columns `by`. A value of those, taken together, is in one
    /// row at most.
    pub from: String,
    /// Columns of the table, too: a row has what stands beside the same values, and NULL where nothing does.
    pub by: Vec<String>,
}

/// One table as a statement sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Its name.
    pub name: TableName,
    /// What a row is, for people.
    pub description: String,
    /// Its columns, in the order in which `SELECT *` gives them.
    pub columns: Vec<ColumnSpec>,
    /// Grows whenever the set of columns changes.
    pub catalog_version: u64,
    /// Where its newest rows are kept, if they are.
    #[serde(default)]
    pub newest: Option<NewestOf>,
    /// Which of its rows belong to an agent: a condition over the organization's tables, in which `{agent}` stands for the
    /// agent's id. A table without one is not there for an agent's statements.
    #[serde(default)]
    pub agent_rows: Option<String>,
    /// Columns that are found elsewhere, if there are any.
    #[serde(default)]
    pub joined: Option<JoinedColumns>,
}

/// Where the id of an agent comes in [`TableSpec::agent_rows`].
pub(super) const AGENT_PLACE: &str = "{agent}";

impl TableSpec {
    /// The schema in which rows are stored.
    pub fn schema(&self) -> SchemaRef {
        let field = |column: &ColumnSpec| Field::new(&column.name, column.kind.arrow_type(), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The schema that a statement sees: text as views, which sort, join and group faster than whole strings.
    pub(super) fn shown_schema(&self) -> SchemaRef {
        let shown = |kind: ColumnKind| match kind.arrow_type() {
            DataType::Utf8 => DataType::Utf8View,
            other => other,
        };
        let field = |column: &ColumnSpec| Field::new(&column.name, shown(column.kind), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The table that keeps this one's newest rows.
    pub fn newest_table(&self) -> Option<TableSpec> {
        self.newest.as_ref().map(|newest| TableSpec {
            name: newest.table.clone(),
            description: newest.description.clone(),
            columns: self.columns.clone(),
            catalog_version: self.catalog_version,
            newest: None,
            agent_rows: self.agent_rows.clone(),
            joined: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_follow_the_pattern() {
        for good in ["readings", "_x", "A1_b", &"a".repeat(128)] {
            assert_eq!(TableName::parse(good).expect("a good name").as_str(), good);
        }
        for bad in ["", "1a", "a-b", "a.b", "é", "a b", "../x", &"a".repeat(129)] {
            assert_eq!(TableName::parse(bad), Err(InvalidTableName), "{bad:?}");
        }
    }
}
