//! Tables some of whose columns are found in others ([`JoinedColumns`]).
//!
//! Such a table is a view over what is stored under its name, planned in the worker: only for a statement in whose text the
//! name stands, since nearly none asks for one, and its plan takes as long as that of a small statement.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;

use crate::catalog::{ColumnSpec, JoinedColumns, TableMap, TableSpec};
use crate::errors::QueryError;
use crate::scan::SegmentTable;

/// The queries that `sql`'s tables of this kind are, by the tables' names.
pub(crate) fn queries(tables: &TableMap, sql: &str) -> Vec<(String, String)> {
    let query = |(name, provider): (&String, &Arc<dyn TableProvider>)| {
        let spec = &provider.downcast_ref::<SegmentTable>()?.spec;
        let joined = spec.joined.as_ref().filter(|_| names(sql, name))?;
        Some((name.clone(), query(spec, joined)))
    };
    tables.iter().filter_map(query).collect()
}

/// Whether the name stands in a statement at all, be it within a longer one.
fn names(sql: &str, table: &str) -> bool {
    let (sql, table) = (sql.as_bytes(), table.as_bytes());
    sql.windows(table.len()).any(|part| part.eq_ignore_ascii_case(table))
}

fn query(spec: &TableSpec, joined: &JoinedColumns) -> String {
    let column = |column: &ColumnSpec| match joined.names.contains(&column.name) {
        true => format!("other.\"{}\"", column.name),
        false => format!("own.\"{}\"", column.name),
    };
    let columns: Vec<String> = spec.columns.iter().map(column).collect();
    let same: Vec<String> =
        joined.by.iter().map(|name| format!("own.\"{name}\" = other.\"{name}\"")).collect();
    format!(
        "SELECT {} FROM \"{}\" AS own LEFT JOIN ({}) AS other ON {}",
        columns.join(", "),
        spec.name,
        joined.from,
        same.join(" AND ")
    )
}

/// The views over the tables that `stored` has under the same names.
pub(crate) async fn views(
    stored: &SessionState,
    queries: Vec<(String, String)>,
) -> Result<TableMap, QueryError> {
    let mut views = TableMap::new();
    for (table, query) in queries {
        let plan = stored.create_logical_plan(&query).await?;
        views.insert(table, Arc::new(ViewTable::new(plan, None)));
    }
    Ok(views)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_anywhere_in_a_statement_and_in_any_case() {
        for sql in
            ["SELECT * FROM schemas", "select * from public.\"Schemas\"", "SCHEMAS", "FROM schemas_of AS s"]
        {
            assert!(names(sql, "schemas"), "{sql}");
        }
        for sql in ["", "schema", "SELECT * FROM jobs", "sch emas"] {
            assert!(!names(sql, "schemas"), "{sql}");
        }
    }
}
