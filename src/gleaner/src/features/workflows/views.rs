//! What the SQL console sees of workflows: one row each, as they are now.

use super::rows::{WORKFLOWS, WorkflowV1};
use crate::features::{View, ViewRows, column, console_table};
use base::Result;
use base::ids::WorkflowId;
use sql::{Cell, ColumnKind as Kind, TableSpec};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

pub(super) const VIEW: View =
    View { source: "workflows", tables: || vec![WORKFLOW_TABLE.as_ref().clone()], rows };

static WORKFLOW_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table(
        "workflows",
        "The workflows as they are now; jobs name them by id.",
        vec![
            column("id", Kind::Text, "The stable id that jobs and schedules name").required(),
            column("version", Kind::Int64, "The number of the newest version").required(),
            column("version_id", Kind::Text, "That version's own id").required(),
            column("name", Kind::Text, "What people call it").required(),
            column("status", Kind::Text, "draft, published or archived").required(),
            column("route", Kind::Text, "For which jobs it stands in: * or domain:<host>"),
            column("strategy", Kind::Text, "What a smart workflow ranks by"),
            column("mode", Kind::Text, "auto or suggest, of a smart workflow"),
            column("created_at", Kind::Timestamp, "When it was made").required(),
            column("updated_at", Kind::Timestamp, "When it last changed").required(),
            column("published_at", Kind::Timestamp, "When it was last published"),
        ],
    )
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = WorkflowId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&WORKFLOWS, &id)?;
    Ok(vec![ViewRows { table: WORKFLOW_TABLE.clone(), rows: row.iter().map(cells).collect() }])
}

fn cells(row: &WorkflowV1) -> Vec<Cell> {
    let word = |word: Option<&str>| word.map_or(Cell::Null, Cell::from);
    vec![
        Cell::from(row.workflow_id.to_string()),
        Cell::Int(row.version.into()),
        Cell::from(row.version_id.to_string()),
        Cell::from(row.name.as_str()),
        Cell::from(row.status.name()),
        word(row.route.as_deref()),
        word(row.smart.map(|smart| smart.strategy.name())),
        word(row.smart.map(|smart| smart.mode.name())),
        Cell::Time(row.created_at.millis()),
        Cell::Time(row.updated_at.millis()),
        row.published_at.map_or(Cell::Null, |at| Cell::Time(at.millis())),
    ]
}
