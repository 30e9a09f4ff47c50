//! Monitors on the wire: what a caller asks for, checked, and what is shown.

use super::rows::{BoundV1, ConditionV1, MonitorState, MonitorV1, OnV1, Operator, OverV1, SourceV1, ValueV1};
use crate::features::bi::StandingStatement;
use crate::features::schedules::{CRON_BYTES_MAX, Times, Unreadable, zone_name};
use base::clock::Timestamp;
use base::ids::{MonitorId, SavedQueryId, ScheduleId, UserId};
use base::limits::NAME_CHARS_MAX;
use base::name::Name;
use base::{Error, Result};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::{ColumnInfo, STATEMENT_BYTES_MAX};
use std::time::Duration;

/// Characters of a column's name.
const COLUMN_CHARS_MAX: usize = 128;
/// Characters of a duration.
const DURATION_CHARS_MAX: usize = 64;
/// Runs in which a condition must hold before it is told.
const RUNS_MAX: u32 = 100;
/// How long a monitor may look back.
const LOOK_BACK_MIN: Duration = Duration::from_secs(60);
const LOOK_BACK_MAX: Duration = Duration::from_secs(31 * 86_400);
/// The least time between two ticks, and how many of them are looked at for it.
const PACE_MIN: Duration = Duration::from_secs(60);
const TICKS_LOOKED_AT: usize = 12;
/// What stands for the value of the run before.
const PREVIOUS: &str = "previous";
/// What stands for the count of rows.
const ROWS: &str = "rows";
/// Types of columns that are numbers, by the names of PostgreSQL.
const NUMBERS: [&str; 7] =
    ["smallint", "integer", "bigint", "real", "double precision", "numeric", "boolean"];

/// When a value is to be told.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MonitorCondition")]
pub(super) struct ConditionView {
    /// `rows` is how many rows the statement gives; anything else names a column, of whose first row it is.
    #[schemars(length(min = 1, max = COLUMN_CHARS_MAX))]
    value: String,
    op: Operator,
    /// The number that the value is compared with. This or `changePercent`.
    #[serde(default)]
    threshold: Option<f64>,
    /// By how many percent the value has changed is compared with this: −30 with `lte` is a drop by 30 % or more.
    #[serde(default)]
    change_percent: Option<f64>,
    /// Since when, with `changePercent`: `previous` (the run before; the default), or a duration such as `6h` or `7d`: the
    /// newest value that is at least so old.
    #[serde(default)]
    #[schemars(length(min = 1, max = DURATION_CHARS_MAX))]
    over: Option<String>,
    /// In how many runs one after the other it must hold; 1 unless given. One run in which it does not ends it.
    #[serde(default)]
    #[schemars(range(min = 1, max = RUNS_MAX))]
    r#for: Option<u32>,
}

/// When a monitor runs: by a cron expression in a zone, or whenever a run of a schedule has ended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MonitorOn")]
pub(super) struct OnView {
    /// As a schedule's; a monitor runs once a minute at most. This or `scheduleId`.
    #[serde(default)]
    #[schemars(length(min = 1, max = CRON_BYTES_MAX))]
    cron: Option<String>,
    /// An IANA zone; UTC unless given.
    #[serde(default)]
    timezone: Option<String>,
    #[serde(default)]
    schedule_id: Option<ScheduleId>,
}

/// A monitor to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewMonitor {
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    /// One SELECT over the console's tables. This or `savedQueryId`.
    #[serde(default)]
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    sql: Option<String>,
    /// What is saved under this id whenever it runs, in its scope.
    #[serde(default)]
    saved_query_id: Option<SavedQueryId>,
    condition: ConditionView,
    on: OnView,
    /// True unless said otherwise.
    #[serde(default)]
    is_enabled: Option<bool>,
}

/// What is to be different. What is left out, or null, stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MonitorUpdate {
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    #[serde(default)]
    #[schemars(length(max = STATEMENT_BYTES_MAX))]
    sql: Option<String>,
    #[serde(default)]
    saved_query_id: Option<SavedQueryId>,
    #[serde(default)]
    condition: Option<ConditionView>,
    #[serde(default)]
    on: Option<OnView>,
    /// One that is switched on again runs at once, and goes on from there.
    #[serde(default)]
    is_enabled: Option<bool>,
}

/// Terms that were checked, but for what only the tables and rows of the organization can say.
pub(super) struct CheckedTerms {
    pub name: Option<String>,
    pub source: Option<SourceV1>,
    pub condition: Option<ConditionV1>,
    pub on: Option<OnV1>,
    pub is_enabled: Option<bool>,
}

impl NewMonitor {
    pub fn checked(self, now: Timestamp) -> Result<CheckedTerms> {
        let source = source(self.sql, self.saved_query_id)?
            .ok_or_else(|| Error::invalid("sql", "is required, or savedQueryId"))?;
        Ok(CheckedTerms {
            name: Some(Name::parse("name", &self.name)?.into_string()),
            source: Some(source),
            condition: Some(condition(self.condition)?),
            on: Some(on(self.on, now)?),
            is_enabled: self.is_enabled,
        })
    }
}

impl MonitorUpdate {
    pub fn checked(self, now: Timestamp) -> Result<CheckedTerms> {
        Ok(CheckedTerms {
            name: self.name.map(|name| Name::parse("name", &name)).transpose()?.map(Name::into_string),
            source: source(self.sql, self.saved_query_id)?,
            condition: self.condition.map(condition).transpose()?,
            on: self.on.map(|given| on(given, now)).transpose()?,
            is_enabled: self.is_enabled,
        })
    }
}

fn source(sql: Option<String>, saved: Option<SavedQueryId>) -> Result<Option<SourceV1>> {
    match (sql, saved) {
        (Some(_), Some(_)) => Err(Error::invalid("sql, savedQueryId", "send one of the two")),
        (Some(sql), None) if sql.trim().is_empty() => Err(Error::invalid("sql", "must not be empty")),
        (Some(sql), None) => Ok(Some(SourceV1::Sql(sql))),
        (None, saved) => Ok(saved.map(SourceV1::Saved)),
    }
}

fn condition(given: ConditionView) -> Result<ConditionV1> {
    let chars = given.value.chars().count();
    if chars == 0 || chars > COLUMN_CHARS_MAX || given.value.contains('\0') {
        let reason = format!("is `{ROWS}`, or the name of a column of 1 to {COLUMN_CHARS_MAX} characters");
        return Err(Error::invalid("condition.value", reason));
    }
    let value = if given.value == ROWS { ValueV1::Rows } else { ValueV1::Column(given.value) };
    for (field, number) in
        [("condition.threshold", given.threshold), ("condition.changePercent", given.change_percent)]
    {
        if number.is_some_and(|number| !number.is_finite()) {
            return Err(Error::invalid(field, "must be a finite number"));
        }
    }
    let bound = match (given.threshold, given.change_percent) {
        (Some(_), Some(_)) | (None, None) => {
            return Err(Error::invalid("condition", "needs threshold or changePercent, and not both"));
        }
        (Some(_), None) if given.over.is_some() => {
            return Err(Error::invalid("condition.over", "only goes with changePercent"));
        }
        (Some(threshold), None) => BoundV1::Threshold(threshold),
        (None, Some(percent)) => BoundV1::Change { percent, over: over(given.over.as_deref())? },
    };
    let runs = given.r#for.unwrap_or(1);
    if runs == 0 || runs > RUNS_MAX {
        return Err(Error::invalid("condition.for", format!("must be 1 to {RUNS_MAX} runs")));
    }
    Ok(ConditionV1 { value, operator: given.op, bound, runs })
}

fn over(given: Option<&str>) -> Result<OverV1> {
    let Some(text) = given.filter(|text| *text != PREVIOUS) else { return Ok(OverV1::Previous) };
    let wrong = |reason: &str| Error::invalid("condition.over", reason);
    let unreadable = || wrong("is `previous`, or a duration such as 6h or 7d");
    if text.len() > DURATION_CHARS_MAX {
        return Err(unreadable());
    }
    let span: Span = text.parse().map_err(|_| unreadable())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| unreadable())?;
    let duration = Duration::try_from(duration).map_err(|_| unreadable())?;
    if duration < LOOK_BACK_MIN || duration > LOOK_BACK_MAX {
        return Err(wrong("must be a minute to 31 days"));
    }
    Ok(OverV1::Seconds(duration.as_secs()))
}

fn on(given: OnView, now: Timestamp) -> Result<OnV1> {
    let (cron, id) = match (given.cron, given.schedule_id) {
        (Some(_), Some(_)) | (None, None) => {
            return Err(Error::invalid("on", "needs cron or scheduleId, and not both"));
        }
        (None, Some(_)) if given.timezone.is_some() => {
            return Err(Error::invalid("on.timezone", "only goes with cron"));
        }
        (cron, id) => (cron, id),
    };
    if let Some(id) = id {
        return Ok(OnV1::Schedule(id));
    }
    let cron = cron.unwrap_or_default().split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let zone = zone_name(given.timezone.as_deref().unwrap_or("UTC"));
    let timezone = zone.map_err(|reason| Error::invalid("on.timezone", reason))?.to_owned();
    let times = Times::parse(&cron, &timezone, now)
        .map_err(|Unreadable { field, reason }| Error::invalid(&format!("on.{field}"), reason))?;
    let mut at = now;
    for _ in 0..TICKS_LOOKED_AT {
        let Some(next) = times.after(at) else { break };
        if at != now && next.since(at) < PACE_MIN {
            return Err(Error::invalid("on.cron", "is too often: a monitor runs once a minute at most"));
        }
        at = next;
    }
    Ok(OnV1::Cron { cron, timezone })
}

/// Whether a statement with these columns has the value that a condition is about.
pub(super) fn check_value(condition: &ConditionV1, columns: &[ColumnInfo]) -> Result<()> {
    let ValueV1::Column(name) = &condition.value else { return Ok(()) };
    let Some(column) = columns.iter().find(|column| column.name == *name) else {
        let names: Vec<_> = columns.iter().take(20).map(|column| column.name.as_str()).collect();
        let reason = format!("is no column of the statement, which has {}", names.join(", "));
        return Err(Error::invalid("condition.value", reason));
    };
    match NUMBERS.contains(&column.type_name.as_str()) {
        true => Ok(()),
        false => {
            let reason = format!("is a column of the type {}, and must be a number", column.type_name);
            Err(Error::invalid("condition.value", reason))
        }
    }
}

impl From<&SourceV1> for StandingStatement {
    fn from(source: &SourceV1) -> StandingStatement {
        match source {
            SourceV1::Sql(sql) => StandingStatement::Sql(sql.clone()),
            SourceV1::Saved(id) => StandingStatement::Saved(*id),
        }
    }
}

impl From<&ConditionV1> for ConditionView {
    fn from(row: &ConditionV1) -> ConditionView {
        let (threshold, change) = match row.bound {
            BoundV1::Threshold(threshold) => (Some(threshold), None),
            BoundV1::Change { percent, over } => (None, Some((percent, over))),
        };
        let over = change.map(|(_, over)| match over {
            OverV1::Previous => PREVIOUS.to_owned(),
            OverV1::Seconds(seconds) => {
                format!("{:#}", SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
            }
        });
        ConditionView {
            value: match &row.value {
                ValueV1::Rows => ROWS.to_owned(),
                ValueV1::Column(name) => name.clone(),
            },
            op: row.operator,
            threshold,
            change_percent: change.map(|(percent, _)| percent),
            over,
            r#for: Some(row.runs),
        }
    }
}

impl From<&OnV1> for OnView {
    fn from(row: &OnV1) -> OnView {
        match row {
            OnV1::Cron { cron, timezone } => {
                OnView { cron: Some(cron.clone()), timezone: Some(timezone.clone()), schedule_id: None }
            }
            OnV1::Schedule(id) => OnView { cron: None, timezone: None, schedule_id: Some(*id) },
        }
    }
}

/// A statement that is run by itself, and what is to be told of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MonitorView {
    id: MonitorId,
    name: String,
    /// Null where it is a saved query.
    sql: Option<String>,
    saved_query_id: Option<SavedQueryId>,
    condition: ConditionView,
    on: OnView,
    is_enabled: bool,
    state: MonitorState,
    /// Since when it is in that state.
    since: Timestamp,
    /// Why, where that is not the condition alone.
    reason: Option<String>,
    /// Null before the first run.
    last_run_at: Option<Timestamp>,
    /// What the last run gave; null where it gave no value.
    last_value: Option<f64>,
    /// What that was compared with.
    compared_with: Option<f64>,
    /// Runs that were left out before the last one: the box was off, or the one before had not ended.
    missed: u32,
    /// The next tick; null for one that follows a schedule, or that is switched off.
    next_run_at: Option<Timestamp>,
    created_by: UserId,
    /// With whose permissions it runs: who changed it last.
    runs_as: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<MonitorV1> for MonitorView {
    fn from(row: MonitorV1) -> MonitorView {
        let (sql, saved_query_id) = match &row.source {
            SourceV1::Sql(sql) => (Some(sql.clone()), None),
            SourceV1::Saved(id) => (None, Some(*id)),
        };
        MonitorView {
            id: row.id,
            sql,
            saved_query_id,
            condition: (&row.condition).into(),
            on: (&row.on).into(),
            is_enabled: row.is_enabled,
            state: row.state,
            since: row.since,
            reason: row.reason,
            last_run_at: row.last_run_at,
            last_value: row.last_value,
            compared_with: row.compared_with,
            missed: row.missed,
            next_run_at: row.next_at.filter(|_| row.is_enabled),
            created_by: row.created_by,
            runs_as: row.runs_as,
            created_at: row.created_at,
            updated_at: row.updated_at,
            name: row.name,
        }
    }
}
