//! Schedules and their runs as they are stored.
//!
//! A run's row is made in the transaction that decides its tick, so `(schedule, scheduledFor)` is unique by an index and a
//! schedule never has a tick decided without a row. What a run submits is a plan of its own, written once; how far it came
//! stands in the run's row, in the transaction that makes the jobs of a part.

use crate::features::jobs::OptionsV1;
use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{ScheduleId, ScheduleRunId, UrlId, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// What happens to a tick whose schedule's run before has not ended.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Overlap {
        /// It is left out.
        #[default]
        Skip "skip",
        /// It waits.
        Queue "queue",
    }
}

base::words! {
    /// What happens to ticks that were missed: the box was off, or its clock was set forward.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Misfire {
        /// One run makes up for all of them.
        #[default]
        RunOnce "run_once",
        /// They are left out.
        Skip "skip",
    }
}

/// A standing order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleV1 {
    pub id: ScheduleId,
    pub name: String,
    pub cron: String,
    pub timezone: String,
    pub workflow_id: Option<WorkflowId>,
    /// Any of them; empty is every URL.
    pub tag_filters: Vec<String>,
    /// These alone.
    pub url_ids: Option<Vec<UrlId>>,
    pub options: OptionsV1,
    pub is_enabled: bool,
    /// Why the box switched it off.
    pub disabled_reason: Option<String>,
    pub overlap: Overlap,
    pub misfire: Misfire,
    pub catch_up_sec: u64,
    pub jitter_sec: u32,
    /// Every tick up to here has its row, or was before the schedule's time.
    pub decided_until: Timestamp,
    /// The next tick.
    pub next_at: Option<Timestamp>,
    /// When it is to fire: later than the tick by its jitter.
    pub due_at: Option<Timestamp>,
    pub last_run_at: Option<Timestamp>,
    /// Rows of runs that are kept.
    pub runs: u32,
    pub created_at: Timestamp,
}

impl Record for ScheduleV1 {}

/// When schedules of all organizations are due.
pub static DUE: Index<Timestamp, ScheduleV1> = Index::global("schedules.due", |row, keys| {
    if let Some(due) = row.due_at.filter(|_| row.is_enabled) {
        keys.add(due);
    }
});

pub static SCHEDULES: OrgTable<ScheduleId, ScheduleV1> =
    OrgTable::new("schedules", "Schedule").indexed(&[&DUE]).fed();

base::words! {
    /// Who let a run begin.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Trigger {
        Cron "cron",
        Manual "manual",
    }
}

base::words! {
    /// Where a run stands.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum RunStatus {
        /// It waits for the run before it to end.
        Queued "queued",
        /// Jobs are submitted, or have not ended.
        Running "running",
        /// All its jobs have ended, however.
        Completed "completed",
        /// No URL matched.
        NoUrls "no_urls",
        /// The run before had not ended.
        SkippedOverlap "skipped_overlap",
        /// The tick was missed.
        SkippedMisfire "skipped_misfire",
        /// Not every job could be submitted: `message` says why.
        Failed "failed",
    }
}

impl RunStatus {
    pub fn is_open(self) -> bool {
        matches!(self, RunStatus::Queued | RunStatus::Running)
    }
}

/// What is to be done for a run.
// Stored: variants are never reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunStage {
    /// Its URLs are to be found.
    Resolve,
    /// Jobs are to be submitted.
    Submit,
    /// Its jobs are under way.
    Follow,
    /// Nothing.
    Rest,
}

/// What became of one tick, or of one request to run at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRunV1 {
    pub id: ScheduleRunId,
    pub schedule_id: ScheduleId,
    pub trigger: Trigger,
    /// The tick's own time, without jitter.
    pub scheduled_for: Timestamp,
    pub status: RunStatus,
    pub stage: RunStage,
    /// When it really began.
    pub fired_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// URLs that are to be submitted.
    pub urls: u32,
    /// How many of them have had their turn.
    pub position: u32,
    pub jobs_created: u32,
    pub succeeded: u32,
    pub failed: u32,
    pub canceled: u32,
    pub truncated: bool,
    pub message: Option<String>,
}

impl Record for ScheduleRunV1 {}

/// A tick has one row.
pub static BY_TICK: Index<(ScheduleId, Timestamp), ScheduleRunV1> =
    Index::unique("schedule_runs.by_tick", |run, keys| {
        keys.add((run.schedule_id, run.scheduled_for));
    });

/// The runs of a schedule, oldest first.
pub static BY_SCHEDULE: Index<ScheduleId, ScheduleRunV1> =
    Index::new("schedule_runs.by_schedule", |run, keys| {
        keys.add(run.schedule_id);
    });

/// Those of a schedule that have not ended, by their status, oldest tick first.
pub static OPEN: Index<(ScheduleId, u8, Timestamp), ScheduleRunV1> =
    Index::new("schedule_runs.open", |run, keys| {
        if run.status.is_open() {
            keys.add((run.schedule_id, run.status as u8, run.scheduled_for));
        }
    });

/// Runs of all organizations that have jobs to submit.
pub static TO_SUBMIT: Index<Timestamp, ScheduleRunV1> =
    Index::global("schedule_runs.to_submit", |run, keys| {
        if matches!(run.stage, RunStage::Resolve | RunStage::Submit) {
            keys.add(run.fired_at.unwrap_or(run.scheduled_for));
        }
    });

/// Runs of all organizations whose jobs are under way.
pub static TO_FOLLOW: Index<Timestamp, ScheduleRunV1> =
    Index::global("schedule_runs.to_follow", |run, keys| {
        if run.stage == RunStage::Follow {
            keys.add(run.fired_at.unwrap_or(run.scheduled_for));
        }
    });

pub static RUNS: OrgTable<ScheduleRunId, ScheduleRunV1> = OrgTable::new("schedule_runs", "Schedule run")
    .indexed(&[&BY_TICK, &BY_SCHEDULE, &OPEN, &TO_SUBMIT, &TO_FOLLOW])
    .fed();

/// What a run submits: made when it begins, so that what is changed of the schedule or of tags meanwhile changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPlanV1 {
    pub workflow_id: Option<WorkflowId>,
    pub options: OptionsV1,
    /// In this order, each once.
    pub urls: Vec<UrlId>,
}

impl Record for RunPlanV1 {}

pub static PLANS: OrgTable<ScheduleRunId, RunPlanV1> = OrgTable::new("schedule_plans", "Plan of a run");
