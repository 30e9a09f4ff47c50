//! Tables as they are described.

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Float,
    Bool,
    Time,
    Json,
}

/// A column as it is described.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub nullable: bool,
    pub description: String,
    /// Values that are known.
    pub samples: Vec<String>,
}

/// A table that can be asked about.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
}

impl Table {
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The column that rows are known by.
    pub(crate) fn label(&self) -> Option<usize> {
        ["name", "title", "headline", "url"].iter().find_map(|name| self.position(name))
    }
}
