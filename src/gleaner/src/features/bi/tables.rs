//! The console's tables: those that every organization has, and those that an organization's own rows brought.
//!
//! A view says which tables everybody has, with the columns that everybody has. Rows may come with a wider table (a
//! page type with an organization's own attributes): its description is kept in the organization's catalogue before
//! the rows are published, so a statement never meets a segment whose columns nobody knows. Of two descriptions of
//! one table the one with the higher version counts.

use super::rows::CATALOG;
use crate::features::{OwnTable, SharedView, View};
use base::Result;
use sql::{TableName, TableSpec};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::OrgRead;

/// Tables of one organization beyond those that everybody has.
const BROUGHT_TABLES_MAX: usize = 1_000;

/// The tables of this release.
#[derive(Debug)]
pub(super) struct Tables {
    shared: BTreeMap<TableName, Arc<TableSpec>>,
    own_table: Option<OwnTable>,
}

impl Tables {
    pub(super) fn new(views: &[&'static View], everybodys: &[&'static SharedView]) -> Tables {
        let mut shared: BTreeMap<TableName, Arc<TableSpec>> = BTreeMap::new();
        // A table whose newest rows are kept brings the table that keeps them.
        let with_newest = |spec: TableSpec| [spec.newest_table(), Some(spec)].into_iter().flatten();
        let of_views = views.iter().flat_map(|view| (view.tables)());
        let of_everybody = everybodys.iter().map(|view| (view.table)());
        for spec in of_views.chain(of_everybody).flat_map(with_newest) {
            let newer =
                shared.get(&spec.name).is_none_or(|known| known.catalog_version < spec.catalog_version);
            if newer {
                shared.insert(spec.name.clone(), Arc::new(spec));
            }
        }
        Tables { shared, own_table: None }
    }

    /// The same, with what says of tables that only one organization has.
    pub(super) fn with_own(self, own_table: Option<OwnTable>) -> Tables {
        Tables { own_table, ..self }
    }

    /// The version of a table that everybody has; 0 for any other.
    pub(super) fn shared_version(&self, name: &TableName) -> u64 {
        self.shared.get(name).map_or(0, |spec| spec.catalog_version)
    }

    /// Every table of one organization, by name.
    pub(super) fn of(&self, tx: &OrgRead<'_>) -> Result<Vec<Arc<TableSpec>>> {
        let mut tables = self.shared.clone();
        for (name, row) in tx.readable(&CATALOG, None, BROUGHT_TABLES_MAX)?.rows {
            let Ok(name) = TableName::parse(&name) else { continue };
            if row.version > self.shared_version(&name) {
                let mut spec = row.spec(name.clone());
                // Which table keeps its newest rows is the release's to say, what of it an agent sees, and what is joined to it; the first has the
                // same columns. Of a table that not everybody has its slice says so, and whether it is there.
                if let Some(shared) = self.shared.get(&name) {
                    spec.newest = shared.newest.clone();
                    spec.agent_rows = shared.agent_rows.clone();
                    spec.joined = shared.joined.clone();
                } else {
                    let known = match self.own_table {
                        Some(complete) => complete(tx, spec)?,
                        None => Some(spec),
                    };
                    let Some(known) = known else { continue };
                    spec = known;
                }
                if let Some(kept) = spec.newest_table() {
                    tables.insert(kept.name.clone(), Arc::new(kept));
                }
                tables.insert(name, Arc::new(spec));
            }
        }
        Ok(tables.into_values().collect())
    }

    /// What the columns are made of, as a text that changes with them.
    pub(super) fn shape(&self) -> String {
        let mut text = String::new();
        for spec in self.shared.values() {
            text.push_str(&format!("{}.{}:", spec.name, spec.catalog_version));
            for column in &spec.columns {
                text.push_str(&format!("{} {},", column.name, column.kind.type_name()));
            }
            text.push('\n');
        }
        text
    }
}
