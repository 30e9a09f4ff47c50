//! What schedules tell in the organization's log of events: what became of each tick, in the operation that decides it.

use super::rows::{RunStatus, ScheduleRunV1};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::ids::ScheduleId;
use base::permission::Permission;
use serde_json::json;
use store::OrgWrite;

const fn kind(name: &'static str, about: &'static str) -> EventKind {
    EventKind::new(name, Permission::SchedulesRead, about)
}

static STARTED: EventKind = kind(
    "schedule.started",
    "A run began (`runId`, `trigger`, `scheduledFor`); it finds its URLs and submits jobs.",
);
static COMPLETED: EventKind = kind(
    "schedule.completed",
    "All jobs of a run have ended, however, or no URL matched (`runId`, `status`, `jobsCreated`, `succeeded`, `failed`, \
     `canceled`, `truncated`).",
);
static FAILED: EventKind = kind(
    "schedule.failed",
    "A run has ended that could not submit all its jobs (`runId`, `message`, and how many were submitted and ended how).",
);
static SKIPPED: EventKind = kind(
    "schedule.skipped",
    "A tick was left out, as the schedule's policy says (`runId`, `status`, `scheduledFor`, `message`).",
);
static MISSED: EventKind = kind(
    "schedule.missed",
    "A schedule's time passed and the box had decided nothing about it (`scheduledFor`).",
);
static DISABLED: EventKind = kind(
    "schedule.disabled",
    "The box found a schedule that it cannot read any more; it does not fire (`reason`).",
);

pub(super) static EVENTS: &[&EventKind] = &[&STARTED, &COMPLETED, &FAILED, &SKIPPED, &MISSED, &DISABLED];

/// Writes the event of a run whose status was just decided.
pub(super) fn tell(tx: &OrgWrite<'_>, run: &ScheduleRunV1) -> Result<()> {
    let kind = match run.status {
        // It waits: what becomes of it is told then.
        RunStatus::Queued => return Ok(()),
        RunStatus::Running => &STARTED,
        RunStatus::Completed | RunStatus::NoUrls => &COMPLETED,
        RunStatus::Failed => &FAILED,
        RunStatus::SkippedOverlap | RunStatus::SkippedMisfire => &SKIPPED,
    };
    let mut data = json!({
        "runId": run.id,
        "trigger": run.trigger.name(),
        "scheduledFor": run.scheduled_for.to_string(),
        "status": run.status.name(),
    });
    if matches!(run.status, RunStatus::Completed | RunStatus::NoUrls | RunStatus::Failed) {
        for (name, count) in [
            ("jobsCreated", run.jobs_created),
            ("succeeded", run.succeeded),
            ("failed", run.failed),
            ("canceled", run.canceled),
        ] {
            data[name] = count.into();
        }
        data["truncated"] = run.truncated.into();
    }
    if let Some(message) = &run.message {
        data["message"] = message.as_str().into();
    }
    NewEvent::of(kind, run.schedule_id).data(data).write(tx)
}

pub(super) fn missed(tx: &OrgWrite<'_>, id: ScheduleId, scheduled_for: Option<String>) -> Result<()> {
    NewEvent::of(&MISSED, id).data(json!({ "scheduledFor": scheduled_for })).write(tx)
}

pub(super) fn disabled(tx: &OrgWrite<'_>, id: ScheduleId, reason: Option<&str>) -> Result<()> {
    NewEvent::of(&DISABLED, id).data(json!({ "reason": reason })).write(tx)
}
