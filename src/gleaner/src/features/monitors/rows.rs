//! Monitors as they are stored, each with the state that it is in: the operation that takes in what a run gave writes both.

use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{MonitorId, SavedQueryId, ScheduleId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// What a monitor found out.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum MonitorState {
        /// The condition does not hold.
        Ok "ok",
        /// The condition holds.
        Firing "firing",
        /// The statement gave no value.
        NoData "no_data",
        /// The statement could not be run: `reason` says why.
        Error "error",
    }
}

base::words! {
    /// How a value is compared.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[schemars(rename = "MonitorOperator")]
    pub enum Operator {
        Eq "eq",
        Ne "ne",
        Lt "lt",
        Lte "lte",
        Gt "gt",
        Gte "gte",
    }
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceV1 {
    Sql(String),
    Saved(SavedQueryId),
}

/// Which number of the result it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueV1 {
    /// How many rows there are.
    Rows,
    /// This column of the first row.
    Column(String),
}

/// With what a value is compared to see by how much it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverV1 {
    /// The value of the run before.
    Previous,
    /// The newest value that is at least so many seconds old.
    Seconds(u64),
}

/// What the operator compares with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum BoundV1 {
    /// The value itself, with this number.
    Threshold(f64),
    /// By how many percent it has changed.
    Change { percent: f64, over: OverV1 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionV1 {
    pub value: ValueV1,
    pub operator: Operator,
    pub bound: BoundV1,
    /// In so many runs one after the other it must hold.
    pub runs: u32,
}

/// When it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnV1 {
    Cron {
        cron: String,
        timezone: String,
    },
    /// When a run of this schedule has ended.
    Schedule(ScheduleId),
}

/// A run that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueRunV1 {
    pub scheduled_for: Timestamp,
    /// Runs that were left out since the one before: the box was off, or that one had not ended.
    pub missed: u32,
    /// How often it was tried in vain.
    pub tries: u32,
}

/// A statement with a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MonitorV1 {
    pub id: MonitorId,
    pub name: String,
    pub source: SourceV1,
    pub condition: ConditionV1,
    pub on: OnV1,
    pub is_enabled: bool,
    pub created_by: UserId,
    /// With whose permissions it runs: who changed it last.
    pub runs_as: UserId,
    /// Grows with each change of what it looks for: what a run gave that began before counts for nothing.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub state: MonitorState,
    pub since: Timestamp,
    /// Why it is in that state, where that is not the condition alone.
    pub reason: Option<String>,
    pub last_run_at: Option<Timestamp>,
    /// What the last run gave, if it gave a value.
    pub last_value: Option<f64>,
    /// What that was compared with.
    pub compared_with: Option<f64>,
    /// The newest value that any run gave.
    pub known_value: Option<f64>,
    /// In how many runs one after the other the condition held up to the last.
    pub held: u32,
    /// Runs that were left out before the last one.
    pub missed: u32,
    /// Every tick up to here was decided, or was before the monitor's time.
    pub decided_until: Timestamp,
    pub next_at: Option<Timestamp>,
    pub due: Option<DueRunV1>,
}

impl Record for MonitorV1 {}

/// When monitors of all organizations have a tick to be decided.
pub static TICKS: Index<Timestamp, MonitorV1> = Index::global("monitors.ticks", |row, keys| {
    if let Some(next) = row.next_at.filter(|_| row.is_enabled) {
        keys.add(next);
    }
});

/// Monitors of all organizations that are to be run.
pub static TO_RUN: Index<Timestamp, MonitorV1> = Index::global("monitors.to_run", |row, keys| {
    if let Some(due) = row.due.filter(|_| row.is_enabled) {
        keys.add(due.scheduled_for);
    }
});

pub static MONITORS: OrgTable<MonitorId, MonitorV1> =
    OrgTable::new("monitors", "Monitor").indexed(&[&TICKS, &TO_RUN]).fed();

/// What a monitor's runs gave, oldest first; of one alone whose condition looks back for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastValuesV1 {
    pub values: Vec<(Moment, f64)>,
}

impl Record for PastValuesV1 {}

pub static PAST_VALUES: OrgTable<MonitorId, PastValuesV1> =
    OrgTable::new("monitor_values", "Monitor").uncounted();

/// Up to which place of the organization's log it was looked for schedules' runs that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorPlaceV1 {
    pub place: u64,
}

impl Record for MonitorPlaceV1 {}

pub static PLACE: OrgTable<(), MonitorPlaceV1> =
    OrgTable::new("monitor_places", "Place in the log").uncounted();
