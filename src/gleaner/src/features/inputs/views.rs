//! What the SQL console sees of inputs and their runs: one row each.

use super::rows::{INPUTS, InputV1};
use super::runs::{InputRunV1, RUNS};
use crate::console::{Column, ConsoleTable, View, ViewRows, int, optional_text, optional_time, text, time};
use base::Result;
use base::ids::{InputId, InputRunId};
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const INPUT_VIEW: View =
    View { source: "inputs", tables: || vec![INPUT_TABLE.spec()], rows: input_rows };

pub(super) const RUN_VIEW: View =
    View { source: "input_runs", tables: || vec![RUN_TABLE.spec()], rows: run_rows };

static INPUT_TABLE: LazyLock<ConsoleTable<InputV1>> = LazyLock::new(|| {
    ConsoleTable::<InputV1>::new(
        "inputs",
        "Where URLs come in by themselves.",
        [
            Column::required("id", Kind::Text, "The input's id", |row| text(row.id)),
            Column::required("kind", Kind::Text, "webhook, sitemap, feed, csv or crawl", |row| {
                text(row.kind.name())
            }),
            Column::required("name", Kind::Text, "What people call it", |row| text(&row.name)),
            Column::nullable("url", Kind::Text, "The document that is asked for", |row| {
                optional_text(row.url.as_ref())
            }),
            Column::nullable("cron", Kind::Text, "When it runs by itself", |row| {
                optional_text(row.cron.as_ref())
            }),
            Column::required("timezone", Kind::Text, "The time zone of that", |row| text(&row.timezone)),
            Column::required("submit_jobs", Kind::Bool, "Whether URLs become jobs", |row| {
                Cell::Bool(row.submit_jobs)
            }),
            Column::required("is_enabled", Kind::Bool, "Whether it takes in or runs", |row| {
                Cell::Bool(row.is_enabled)
            }),
            Column::nullable("last_run_at", Kind::Timestamp, "When a run last began", |row| {
                optional_time(row.last_run_at)
            }),
            Column::required("created_at", Kind::Timestamp, "When it was made", |row| time(row.created_at)),
        ],
    )
});

static RUN_TABLE: LazyLock<ConsoleTable<InputRunV1>> = LazyLock::new(|| {
    ConsoleTable::<InputRunV1>::new(
        "input_runs",
        "One row a run of an input, also one that was left out.",
        [
            Column::required("id", Kind::Text, "The run's id", |run| text(run.id)),
            Column::required("input_id", Kind::Text, "The input", |run| text(run.input_id)),
            Column::required("trigger", Kind::Text, "cron or manual", |run| text(run.trigger.name())),
            Column::required(
                "status",
                Kind::Text,
                "running, completed, unchanged, failed, skipped_overlap or skipped_misfire",
                |run| text(run.status.name()),
            ),
            Column::required("scheduled_for", Kind::Timestamp, "The tick's own time", |run| {
                time(run.scheduled_for)
            }),
            Column::nullable("started_at", Kind::Timestamp, "When it began", |run| {
                optional_time(run.started_at)
            }),
            Column::nullable("finished_at", Kind::Timestamp, "When it ended", |run| {
                optional_time(run.finished_at)
            }),
            Column::required("documents", Kind::Int64, "Documents that were read", |run| {
                int(run.found.documents)
            }),
            Column::required("added", Kind::Int64, "URLs that were new", |run| int(run.found.added)),
            Column::required("changed", Kind::Int64, "Known URLs that had changed", |run| {
                int(run.found.changed)
            }),
            Column::required("unchanged", Kind::Int64, "Known URLs that had not", |run| {
                int(run.found.unchanged)
            }),
            Column::required("refused", Kind::Int64, "Entries that could not be registered", |run| {
                int(run.found.refused)
            }),
            Column::required("jobs_created", Kind::Int64, "Jobs that were submitted", |run| {
                int(run.jobs_created)
            }),
            Column::nullable("message", Kind::Text, "Why it was skipped, failed or did less", |run| {
                optional_text(run.message.as_ref())
            }),
        ],
    )
});

fn input_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = InputId::decode(key) else { return Ok(Vec::new()) };
    Ok(vec![INPUT_TABLE.rows(&tx.get(&INPUTS, &id)?)])
}

fn run_rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = InputRunId::decode(key) else { return Ok(Vec::new()) };
    Ok(vec![RUN_TABLE.rows(&tx.get(&RUNS, &id)?)])
}
