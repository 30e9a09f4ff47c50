//! What inputs tell in the organization's log of events.

use super::rows::InputV1;
use super::runs::{InputRunStatus, InputRunV1};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::permission::Permission;
use serde_json::json;
use store::OrgWrite;

const fn kind(name: &'static str, about: &'static str) -> EventKind {
    EventKind::new(name, Permission::IntegrationsRead, about)
}

static INGESTED: EventKind = kind(
    "input.ingested",
    "A webhook has taken in a message (`accepted`, `duplicates`, `invalid`, `jobsCreated`).",
);

pub(super) static EVENTS: &[&EventKind] = &[&INGESTED, &COMPLETED, &FAILED, &FAILING];

/// What a webhook's message came to.
pub(super) fn ingested(tx: &OrgWrite<'_>, input: &InputV1, counts: [usize; 4]) -> Result<()> {
    let [accepted, duplicates, invalid, jobs] = counts;
    let data =
        json!({ "accepted": accepted, "duplicates": duplicates, "invalid": invalid, "jobsCreated": jobs });
    NewEvent::of(&INGESTED, input.id).data(data).write(tx)
}

static COMPLETED: EventKind = kind(
    "input.completed",
    "A run of an input has ended, and something was new or had changed (`runId`, `added`, `changed`, `jobsCreated`, `message`).",
);
static FAILED: EventKind = kind("input.failed", "A run of an input has failed (`runId`, `message`).");
static FAILING: EventKind = kind(
    "input.failing",
    "Five runs of an input in a row have failed; or its document is gone for good, and it is switched off (`reason`).",
);

/// What a run came to. One in which nothing was new is told by nothing but its row.
pub(super) fn ended(tx: &OrgWrite<'_>, run: &InputRunV1) -> Result<()> {
    let kind = match run.status {
        InputRunStatus::Completed => &COMPLETED,
        InputRunStatus::Failed => &FAILED,
        _ => return Ok(()),
    };
    let data = json!({
        "runId": run.id,
        "added": run.found.added,
        "changed": run.found.changed,
        "jobsCreated": run.jobs_created,
        "message": run.message,
    });
    NewEvent::of(kind, run.input_id).data(data).write(tx)
}

pub(super) fn failing(tx: &OrgWrite<'_>, input: &InputV1, reason: &str) -> Result<()> {
    NewEvent::of(&FAILING, input.id).data(json!({ "reason": reason })).write(tx)
}
