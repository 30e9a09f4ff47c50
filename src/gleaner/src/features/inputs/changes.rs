//! What inputs tell in the organization's log of events. A crawl is an input with events of its own: it is waited for, so its
//! end is told even if nothing was new.

use super::crawl_rows::{CRAWL_RUNS, CrawlRunV1};
use super::rows::{INPUTS, InputKind, InputV1};
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

pub(super) static EVENTS: &[&EventKind] =
    &[&INGESTED, &COMPLETED, &FAILED, &FAILING, &CRAWL_STARTED, &CRAWL_COMPLETED, &CRAWL_FAILED];

/// What a webhook's message came to.
pub(super) fn ingested(tx: &OrgWrite<'_>, input: &InputV1, counts: [usize; 4]) -> Result<()> {
    let [accepted, duplicates, invalid, jobs] = counts;
    let data =
        json!({ "accepted": accepted, "duplicates": duplicates, "invalid": invalid, "jobsCreated": jobs });
    NewEvent::of(&INGESTED, input.id).data(data).write(tx)
}

static COMPLETED: EventKind = kind(
    "input.completed",
    "A run of an input that is no crawl has ended, and something was new or had changed (`runId`, `added`, `changed`, `jobsCreated`, `message`).",
);
static FAILED: EventKind =
    kind("input.failed", "A run of an input that is no crawl has failed (`runId`, `message`).");
static FAILING: EventKind = kind(
    "input.failing",
    "Five runs of an input in a row have failed; or its document is gone for good, and it is switched off (`reason`).",
);

static CRAWL_STARTED: EventKind = kind("crawl.started", "A run of a crawl began (`runId`, `trigger`).");
static CRAWL_COMPLETED: EventKind = kind(
    "crawl.completed",
    "A run of a crawl has ended (`runId`, `added`, `changed`, `jobsCreated`, `pages` that were asked for, `failed`, `left`: pages that the next run begins with, `stopped`: why it asked for no more, `message`).",
);
static CRAWL_FAILED: EventKind = kind(
    "crawl.failed",
    "A run of a crawl has failed (`runId`, `message`, and the rest as of `crawl.completed`).",
);

/// A run of a crawl began. What a run of another kind does is over too soon to be told twice.
pub(super) fn started(tx: &OrgWrite<'_>, run: &InputRunV1) -> Result<()> {
    let data = json!({ "runId": run.id, "trigger": run.trigger });
    NewEvent::of(&CRAWL_STARTED, run.input_id).data(data).write(tx)
}

/// What a run came to. One in which nothing was new is told by nothing but its row, unless it is a crawl's.
pub(super) fn ended(tx: &OrgWrite<'_>, run: &InputRunV1) -> Result<()> {
    // One that failed before its first page has no walk, and one whose input was deleted no input.
    let walk = tx.get(&CRAWL_RUNS, &run.id)?;
    let is_crawl =
        walk.is_some() || tx.get(&INPUTS, &run.input_id)?.is_some_and(|input| input.kind == InputKind::Crawl);
    let kind = match (is_crawl, run.status) {
        (true, InputRunStatus::Completed | InputRunStatus::Unchanged) => &CRAWL_COMPLETED,
        (true, InputRunStatus::Failed) => &CRAWL_FAILED,
        (false, InputRunStatus::Completed) => &COMPLETED,
        (false, InputRunStatus::Failed) => &FAILED,
        _ => return Ok(()),
    };
    let mut data = json!({
        "runId": run.id,
        "added": run.found.added,
        "changed": run.found.changed,
        "jobsCreated": run.jobs_created,
        "message": run.message,
    });
    if is_crawl {
        let count = |of: fn(&CrawlRunV1) -> u64| json!(walk.as_ref().map_or(0, of));
        data["pages"] = count(|walk| walk.asked);
        data["failed"] = count(|walk| walk.failed);
        data["left"] = count(|walk| walk.left);
        data["stopped"] = json!(walk.as_ref().and_then(|walk| walk.stopped.clone()));
    }
    NewEvent::of(kind, run.input_id).data(data).write(tx)
}

pub(super) fn failing(tx: &OrgWrite<'_>, input: &InputV1, reason: &str) -> Result<()> {
    NewEvent::of(&FAILING, input.id).data(json!({ "reason": reason })).write(tx)
}
