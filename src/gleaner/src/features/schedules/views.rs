//! What the SQL console sees of schedules and their runs: one row each.

use super::rows::{RUNS, SCHEDULES, ScheduleRunV1, ScheduleV1};
use crate::features::{View, ViewRows, column, console_table};
use base::Result;
use base::clock::Timestamp;
use base::ids::{ScheduleId, ScheduleRunId};
use sql::{Cell, ColumnKind as Kind, TableSpec};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

pub(super) const SCHEDULE_VIEW: View =
    View { source: "schedules", tables: || vec![SCHEDULE_TABLE.as_ref().clone()], rows: schedule_rows };

pub(super) const RUN_VIEW: View =
    View { source: "schedule_runs", tables: || vec![RUN_TABLE.as_ref().clone()], rows: run_rows };

static SCHEDULE_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table(
        "schedules",
        "Standing orders: which URLs are scraped when.",
        vec![
            column("id", Kind::Text, "The schedule's id").required(),
            column("name", Kind::Text, "What people call it").required(),
            column("cron", Kind::Text, "When, as a cron expression").required(),
            column("timezone", Kind::Text, "The time zone of that").required(),
            column("workflow_id", Kind::Text, "The workflow of its jobs, if it names one"),
            column("tag_filters", Kind::Json, "URLs with any of these tags; empty is every URL").required(),
            column("is_enabled", Kind::Bool, "Whether it fires").required(),
            column("disabled_reason", Kind::Text, "Why the box switched it off"),
            column("overlap", Kind::Text, "skip or queue, when the run before has not ended").required(),
            column("misfire", Kind::Text, "run_once or skip, for ticks that were missed").required(),
            column("catch_up_seconds", Kind::Int64, "How old a missed tick may be").required(),
            column("jitter_seconds", Kind::Int64, "By how much ticks are put off at most").required(),
            column("next_fire_at", Kind::Timestamp, "The next tick"),
            column("last_run_at", Kind::Timestamp, "When a run last began"),
            column("created_at", Kind::Timestamp, "When it was made").required(),
        ],
    )
});

static RUN_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table(
        "schedule_runs",
        "One row a tick of a schedule, also one that submitted nothing.",
        vec![
            column("id", Kind::Text, "The run's id").required(),
            column("schedule_id", Kind::Text, "The schedule").required(),
            column("trigger", Kind::Text, "cron or manual").required(),
            column(
                "status",
                Kind::Text,
                "queued, running, completed, no_urls, skipped_overlap, skipped_misfire or failed",
            )
            .required(),
            column("scheduled_for", Kind::Timestamp, "The tick's own time").required(),
            column("fired_at", Kind::Timestamp, "When it really began"),
            column("finished_at", Kind::Timestamp, "When its last job had ended"),
            column("jobs_created", Kind::Int64, "Jobs that were submitted").required(),
            column("succeeded", Kind::Int64, "Of those, once it has ended").required(),
            column("failed", Kind::Int64, "Of those, once it has ended").required(),
            column("canceled", Kind::Int64, "Of those, once it has ended").required(),
            column("truncated", Kind::Bool, "Whether more URLs matched than a run may have").required(),
            column("message", Kind::Text, "Why it was skipped, failed or submitted less"),
        ],
    )
});

fn text(text: Option<&str>) -> Cell {
    text.map_or(Cell::Null, Cell::from)
}

fn time(at: Option<Timestamp>) -> Cell {
    at.map_or(Cell::Null, |at| Cell::Time(at.millis()))
}

fn schedule_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = ScheduleId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&SCHEDULES, &id)?;
    Ok(vec![ViewRows { table: SCHEDULE_TABLE.clone(), rows: row.iter().map(schedule_cells).collect() }])
}

fn schedule_cells(row: &ScheduleV1) -> Vec<Cell> {
    vec![
        Cell::from(row.id.to_string()),
        Cell::from(row.name.as_str()),
        Cell::from(row.cron.as_str()),
        Cell::from(row.timezone.as_str()),
        row.workflow_id.map_or(Cell::Null, |id| Cell::from(id.to_string())),
        Cell::from(serde_json::json!(row.tag_filters).to_string()),
        Cell::Bool(row.is_enabled),
        text(row.disabled_reason.as_deref()),
        Cell::from(row.overlap.name()),
        Cell::from(row.misfire.name()),
        Cell::Int(i64::try_from(row.catch_up_sec).unwrap_or(i64::MAX)),
        Cell::Int(row.jitter_sec.into()),
        time(row.next_at.filter(|_| row.is_enabled)),
        time(row.last_run_at),
        Cell::Time(row.created_at.millis()),
    ]
}

fn run_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = ScheduleRunId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&RUNS, &id)?;
    Ok(vec![ViewRows { table: RUN_TABLE.clone(), rows: row.iter().map(run_cells).collect() }])
}

fn run_cells(run: &ScheduleRunV1) -> Vec<Cell> {
    vec![
        Cell::from(run.id.to_string()),
        Cell::from(run.schedule_id.to_string()),
        Cell::from(run.trigger.name()),
        Cell::from(run.status.name()),
        Cell::Time(run.scheduled_for.millis()),
        time(run.fired_at),
        time(run.finished_at),
        Cell::Int(run.jobs_created.into()),
        Cell::Int(run.succeeded.into()),
        Cell::Int(run.failed.into()),
        Cell::Int(run.canceled.into()),
        Cell::Bool(run.truncated),
        text(run.message.as_deref()),
    ]
}
