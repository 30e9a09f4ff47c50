//! The rules of runs, inside the caller's transaction.

use super::changes;
use super::crawl_rows::CRAWL_RUNS;
use super::rows::{INPUTS, InputKind, InputV1};
use super::runs::{
    BY_INPUT, DOCUMENTS, FoundV1, InputDocumentV1, InputRunStatus, InputRunV1, InputTrigger, OPEN, RUNS,
};
use crate::features::jobs;
use crate::features::schedules::Times;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{InputId, InputRunId};
use base::{Error, Result};
use std::time::Duration;
use store::{Event, OrgRead, OrgWrite};

/// Missed ticks that are written down one by one.
const MISSED_ROWS_MAX: usize = 100;
/// Rows of runs that are kept of an input.
const RUNS_KEPT: u32 = 10_000;
/// After so many failed runs in a row people are told.
const FAILING_AFTER: u32 = 5;
/// How often a run is begun anew after the box was ended in the middle of it.
const ATTEMPTS_MAX: u32 = 5;
/// Characters of a message.
const MESSAGE_CHARS_MAX: usize = 500;

/// A message that has room in a row.
pub(super) fn shortened(text: String) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

fn new_run(row: &InputV1, trigger: InputTrigger, scheduled_for: Timestamp) -> InputRunV1 {
    InputRunV1 {
        id: InputRunId::new(),
        input_id: row.id,
        trigger,
        is_full: false,
        scheduled_for,
        started_at: None,
        finished_at: None,
        status: InputRunStatus::Running,
        message: None,
        http_status: None,
        final_url: None,
        format: None,
        found: FoundV1::default(),
        is_incomplete: false,
        jobs_created: 0,
        jobs_missing: 0,
        notes: Vec::new(),
        attempts: 0,
    }
}

/// Decides what is due of an input, with a row for each tick: the newest one runs, and makes up for those before it.
pub(super) fn tick(tx: &OrgWrite<'_>, id: InputId) -> Result<()> {
    let Some(mut row) = tx.get(&INPUTS, &id)?.filter(|row| row.is_enabled) else { return Ok(()) };
    let Some(cron) = row.cron.clone() else { return Ok(()) };
    let times = match Times::read(&cron, &row.timezone) {
        Ok(times) => times,
        Err(unreadable) => {
            disable(tx, &mut row, format!("{}: {}", unreadable.field, unreadable.reason))?;
            tx.put(&INPUTS, &id, &row)?;
            return Ok(());
        }
    };
    let (due, _) = times.newest(row.decided_until, tx.now(), MISSED_ROWS_MAX);
    let Some((last, missed)) = due.split_last() else {
        row.next_at = times.after(row.decided_until);
        tx.put(&INPUTS, &id, &row)?;
        return Ok(());
    };
    for tick in missed {
        let message = format!("missed; the run of {last} makes up for it");
        skip(tx, &mut row, *tick, InputRunStatus::SkippedMisfire, message)?;
    }
    if tx.exists(&OPEN, id)? {
        let message = "the run before it has not ended".to_owned();
        skip(tx, &mut row, *last, InputRunStatus::SkippedOverlap, message)?;
    } else {
        let run = new_run(&row, InputTrigger::Cron, *last);
        insert(tx, &mut row, &run)?;
    }
    row.decided_until = *last;
    row.next_at = times.after(*last);
    tx.put(&INPUTS, &id, &row)
}

fn skip(
    tx: &OrgWrite<'_>,
    row: &mut InputV1,
    tick: Timestamp,
    status: InputRunStatus,
    message: String,
) -> Result<()> {
    let finished_at = Some(tx.now());
    let run =
        InputRunV1 { status, finished_at, message: Some(message), ..new_run(row, InputTrigger::Cron, tick) };
    insert(tx, row, &run)
}

/// Writes a new run, and lets the oldest go beyond those that are kept.
fn insert(tx: &OrgWrite<'_>, row: &mut InputV1, run: &InputRunV1) -> Result<()> {
    tx.insert(&RUNS, &run.id, run)?;
    row.runs = row.runs.saturating_add(1);
    if row.runs > RUNS_KEPT {
        let oldest = tx.readable_by(&RUNS, &BY_INPUT, row.id, None, None, 3)?;
        let over = oldest.rows.iter().filter(|(_, old)| old.status != InputRunStatus::Running).take(2);
        for (id, _) in over {
            tx.delete(&RUNS, id)?;
            tx.delete(&CRAWL_RUNS, id)?;
            row.runs -= 1;
        }
    }
    Ok(())
}

fn disable(tx: &OrgWrite<'_>, row: &mut InputV1, reason: String) -> Result<()> {
    row.is_enabled = false;
    row.next_at = None;
    tx.audit(Event::new(Action::InputDisabled).of(row.id))?;
    changes::failing(tx, row, &reason)?;
    row.disabled_reason = Some(shortened(reason));
    Ok(())
}

/// A run at once.
pub(super) fn trigger(tx: &OrgWrite<'_>, id: InputId, is_full: bool) -> Result<InputRunV1> {
    let mut row = tx.require(&INPUTS, &id)?;
    if row.kind == InputKind::Webhook {
        return Err(Error::conflict("A webhook does not run: it takes what it is sent."));
    }
    if tx.exists(&OPEN, id)? {
        return Err(Error::conflict("A run of the input is under way; one goes on at a time."));
    }
    let run = InputRunV1 { is_full, ..new_run(&row, InputTrigger::Manual, tx.now()) };
    insert(tx, &mut row, &run)?;
    tx.put(&INPUTS, &id, &row)?;
    Ok(run)
}

/// Begins a run, or begins it anew; none where it was begun too often, and was ended so.
pub(super) fn begin(tx: &OrgWrite<'_>, id: InputRunId) -> Result<Option<InputRunV1>> {
    let Some(mut run) = open_run(tx, id)? else { return Ok(None) };
    if run.attempts >= ATTEMPTS_MAX {
        let message = format!("was begun {ATTEMPTS_MAX} times and never came to its end");
        end(tx, run, Ending::failed(message))?;
        return Ok(None);
    }
    run.attempts += 1;
    // What was added and changed before is not found once more.
    run.found = FoundV1 { added: run.found.added, changed: run.found.changed, ..FoundV1::default() };
    run.notes.clear();
    run.is_incomplete = false;
    run.started_at = run.started_at.or(Some(tx.now()));
    tx.put(&RUNS, &id, &run)?;
    if let Some(mut row) = tx.get(&INPUTS, &run.input_id)? {
        row.last_run_at = Some(tx.now());
        tx.put(&INPUTS, &row.id, &row)?;
    }
    Ok(Some(run))
}

/// The run, while it has not ended and its input is there.
pub(super) fn open_run(tx: &OrgRead<'_>, id: InputRunId) -> Result<Option<InputRunV1>> {
    Ok(tx.get(&RUNS, &id)?.filter(|run| run.status == InputRunStatus::Running))
}

/// How a run ends.
pub(super) struct Ending {
    pub failure: Option<String>,
    /// What was told beside, of one that has come to its end.
    pub message: Option<String>,
    /// The host does not want to be asked before.
    pub not_before: Option<Duration>,
    /// The document is gone for good.
    pub is_gone: bool,
    /// What is remembered of the documents from now on.
    pub documents: Vec<([u8; 32], InputDocumentV1)>,
}

impl Ending {
    pub fn whole(message: Option<String>, documents: Vec<([u8; 32], InputDocumentV1)>) -> Ending {
        Ending { failure: None, message, not_before: None, is_gone: false, documents }
    }

    pub fn failed(message: String) -> Ending {
        Ending { failure: Some(message), ..Ending::whole(None, Vec::new()) }
    }
}

/// Ends a run.
pub(super) fn end(tx: &OrgWrite<'_>, mut run: InputRunV1, ending: Ending) -> Result<()> {
    let is_new = run.found.added + run.found.changed > 0;
    run.status = match (&ending.failure, is_new) {
        (Some(_), _) => InputRunStatus::Failed,
        (None, true) => InputRunStatus::Completed,
        (None, false) => InputRunStatus::Unchanged,
    };
    run.finished_at = Some(tx.now());
    run.message = ending.failure.clone().or(ending.message).or(run.message).map(shortened);
    tx.put(&RUNS, &run.id, &run)?;
    jobs::close_run(tx, run.batch())?;
    changes::ended(tx, &run)?;
    let Some(mut row) = tx.get(&INPUTS, &run.input_id)? else { return Ok(()) };
    for (key, document) in &ending.documents {
        tx.put(&DOCUMENTS, &(row.id, *key), document)?;
    }
    row.failures = match ending.failure {
        Some(_) => row.failures.saturating_add(1),
        None => 0,
    };
    if let Some(reason) = ending.failure {
        if ending.is_gone {
            disable(tx, &mut row, reason)?;
        } else if row.failures == FAILING_AFTER {
            changes::failing(tx, &row, &reason)?;
        }
    }
    if let (Some(next), Some(pause)) = (row.next_at, ending.not_before) {
        row.next_at = Some(next.max(tx.now().after(pause)));
    }
    tx.put(&INPUTS, &row.id, &row)
}
