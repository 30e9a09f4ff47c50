//! What the SQL console sees of monitors: one row each, without their statements.

use super::rows::{BoundV1, MONITORS, MonitorV1, OnV1, SourceV1, ValueV1};
use crate::console::{Column, ConsoleTable, View, ViewRows, int, optional_text, optional_time, text, time};
use base::Result;
use base::ids::MonitorId;
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const VIEW: View = View { source: "monitors", tables: || vec![TABLE.spec()], rows };

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Null, Cell::Float)
}

static TABLE: LazyLock<ConsoleTable<MonitorV1>> = LazyLock::new(|| {
    ConsoleTable::<MonitorV1>::new(
        "monitors",
        "Statements that the box runs by itself, and what they found out.",
        [
            Column::required("id", Kind::Text, "The monitor's id", |row| text(row.id)),
            Column::required("name", Kind::Text, "What people call it", |row| text(&row.name)),
            Column::nullable("saved_query_id", Kind::Text, "The saved query that it runs", |row| {
                optional_text(match &row.source {
                    SourceV1::Saved(id) => Some(id),
                    SourceV1::Sql(_) => None,
                })
            }),
            Column::required("value", Kind::Text, "rows, or a column of the result", |row| {
                match &row.condition.value {
                    ValueV1::Rows => text("rows"),
                    ValueV1::Column(name) => text(name),
                }
            }),
            Column::required("op", Kind::Text, "How it is compared", |row| {
                text(row.condition.operator.name())
            }),
            Column::nullable("threshold", Kind::Float64, "With which number", |row| {
                number(match row.condition.bound {
                    BoundV1::Threshold(threshold) => Some(threshold),
                    BoundV1::Change { .. } => None,
                })
            }),
            Column::nullable("change_percent", Kind::Float64, "Or with how many percent of change", |row| {
                number(match row.condition.bound {
                    BoundV1::Threshold(_) => None,
                    BoundV1::Change { percent, .. } => Some(percent),
                })
            }),
            Column::nullable("cron", Kind::Text, "When it runs, as a cron expression", |row| {
                optional_text(match &row.on {
                    OnV1::Cron { cron, .. } => Some(cron),
                    OnV1::Schedule(_) => None,
                })
            }),
            Column::nullable("schedule_id", Kind::Text, "The schedule after whose runs it runs", |row| {
                optional_text(match &row.on {
                    OnV1::Cron { .. } => None,
                    OnV1::Schedule(id) => Some(id),
                })
            }),
            Column::required("is_enabled", Kind::Bool, "Whether it runs", |row| Cell::Bool(row.is_enabled)),
            Column::required("state", Kind::Text, "ok, firing, no_data or error", |row| {
                text(row.state.name())
            }),
            Column::required("since", Kind::Timestamp, "Since when it is in that state", |row| {
                time(row.since)
            }),
            Column::nullable("reason", Kind::Text, "Why, where that is not the condition alone", |row| {
                optional_text(row.reason.as_ref())
            }),
            Column::nullable("last_run_at", Kind::Timestamp, "When it last ran", |row| {
                optional_time(row.last_run_at)
            }),
            Column::nullable("last_value", Kind::Float64, "What that gave", |row| number(row.last_value)),
            Column::required("missed", Kind::Int64, "Runs that were left out before it", |row| {
                int(row.missed.into())
            }),
            Column::required("created_at", Kind::Timestamp, "When it was made", |row| time(row.created_at)),
        ],
    )
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = MonitorId::decode(key) else { return Ok(Vec::new()) };
    Ok(vec![TABLE.rows(&tx.get(&MONITORS, &id)?)])
}
