//! What the SQL console sees of workflows: one row each, as they are now.

use super::rows::{VERSIONS, WORKFLOWS, WorkflowV1};
use crate::console::{Column, ConsoleTable, View, ViewRows, optional_text, optional_time, text, time};
use base::Result;
use base::ids::{AgentId, WorkflowId};
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const VIEW: View = View { source: "workflows", tables: || vec![WORKFLOW_TABLE.spec()], rows };

/// A workflow, and the agent that its graph binds its jobs to.
struct Shown {
    workflow: WorkflowV1,
    agent: Option<AgentId>,
}

static WORKFLOW_TABLE: LazyLock<ConsoleTable<Shown>> = LazyLock::new(|| {
    let table = ConsoleTable::<Shown>::new(
        "workflows",
        "The workflows as they are now; jobs name them by id.",
        [
            Column::required("id", Kind::Text, "The stable id that jobs and schedules name", |row| {
                text(row.workflow.workflow_id)
            }),
            Column::required("version", Kind::Int64, "The number of the newest version", |row| {
                Cell::Int(row.workflow.version.into())
            }),
            Column::required("version_id", Kind::Text, "That version's own id", |row| {
                text(row.workflow.version_id)
            }),
            Column::required("name", Kind::Text, "What people call it", |row| {
                Cell::from(row.workflow.name.as_str())
            }),
            Column::required("status", Kind::Text, "draft, published or archived", |row| {
                Cell::from(row.workflow.status.name())
            }),
            Column::nullable("route", Kind::Text, "For which jobs it stands in: * or domain:<host>", |row| {
                optional_text(row.workflow.route.as_deref())
            }),
            Column::nullable("strategy", Kind::Text, "What a smart workflow ranks by", |row| {
                optional_text(row.workflow.smart.map(|smart| smart.strategy.name()))
            }),
            Column::nullable("mode", Kind::Text, "auto or suggest, of a smart workflow", |row| {
                optional_text(row.workflow.smart.map(|smart| smart.mode.name()))
            }),
            Column::required("created_at", Kind::Timestamp, "When it was made", |row| {
                time(row.workflow.created_at)
            }),
            Column::required("updated_at", Kind::Timestamp, "When it last changed", |row| {
                time(row.workflow.updated_at)
            }),
            Column::nullable("published_at", Kind::Timestamp, "When it was last published", |row| {
                optional_time(row.workflow.published_at)
            }),
            Column::nullable("agent_id", Kind::Text, "The agent that its jobs belong to", |row| {
                optional_text(row.agent)
            }),
        ],
    );
    table.version(2)
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = WorkflowId::decode(key) else { return Ok(Vec::new()) };
    let shown = match tx.get(&WORKFLOWS, &id)? {
        Some(workflow) => {
            let version = tx.get(&VERSIONS, &workflow.version_id)?;
            Some(Shown { agent: version.and_then(|version| version.dag.agent()), workflow })
        }
        None => None,
    };
    Ok(vec![WORKFLOW_TABLE.rows(&shown)])
}
