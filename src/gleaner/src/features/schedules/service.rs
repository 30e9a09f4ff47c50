//! The rules of schedules, inside the caller's transaction.

use super::changes;
use super::policy::{Decision, Dropped, Policy};
use super::rows::{
    BY_SCHEDULE, BY_TICK, OPEN, Overlap, RUNS, RunStage, RunStatus, SCHEDULES, ScheduleRunV1, ScheduleV1,
    Trigger,
};
use super::times::Times;
use base::Result;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{ScheduleId, ScheduleRunId};
use store::{Event, Order, OrgRead, OrgWrite, readable};

/// Runs of a schedule that wait for others to end; a tick beyond them is left out.
pub(super) const QUEUED_MAX: usize = 100;
/// Rows of runs that are kept of a schedule: a week of one that is due every minute.
pub(super) const RUNS_KEPT: u32 = 10_000;
/// Ticks with a row already that are passed over for the next one, after the clock went back.
const PASSED_MAX: usize = 5_000;
/// What is said of a tick that waited when its schedule was switched off.
pub(super) const SWITCHED_OFF: &str = "the schedule was switched off while it waited";
/// Characters of a message.
const MESSAGE_CHARS_MAX: usize = 500;

/// What a look at a schedule came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticked {
    /// Runs that begin.
    pub begun: u32,
    /// The schedule was switched off, since it cannot be read any more.
    pub disabled: bool,
}

/// Decides what is due of a schedule, with a row for each tick.
pub(super) fn tick(tx: &OrgWrite<'_>, id: ScheduleId) -> Result<Ticked> {
    let Some(mut row) = tx.get(&SCHEDULES, &id)?.filter(|row| row.is_enabled) else {
        return Ok(Ticked::default());
    };
    let Some(times) = read_or_disable(tx, &mut row)? else {
        return Ok(Ticked { begun: 0, disabled: true });
    };
    let now = tx.now();
    let decision = Policy::of(&row, &times).decide(row.decided_until, now);
    let mut begun = 0;
    write_dropped(tx, &mut row, &decision)?;
    for tick in &decision.fire {
        let run = begin(tx, &mut row, Trigger::Cron, *tick)?;
        begun += u32::from(run.is_some_and(|run| run.status == RunStatus::Running));
    }
    if let Some(until) = decision.until {
        row.decided_until = until;
    }
    set_next(tx, &mut row, &times)?;
    tx.put(&SCHEDULES, &id, &row)?;
    Ok(Ticked { begun, disabled: false })
}

/// The schedule's times; where they cannot be read it is switched off, alone.
fn read_or_disable(tx: &OrgWrite<'_>, row: &mut ScheduleV1) -> Result<Option<Times>> {
    let unreadable = match Times::read(&row.cron, &row.timezone) {
        Ok(times) => return Ok(Some(times)),
        Err(unreadable) => unreadable,
    };
    row.is_enabled = false;
    row.disabled_reason = Some(shortened(format!("{}: {}", unreadable.field, unreadable.reason)));
    (row.next_at, row.due_at) = (None, None);
    drop_waiting(tx, row.id, SWITCHED_OFF)?;
    tx.put(&SCHEDULES, &row.id, row)?;
    tx.audit(Event::new(Action::ScheduleDisabled).of(row.id).with("field", unreadable.field))?;
    changes::disabled(tx, row.id, row.disabled_reason.as_deref())?;
    Ok(None)
}

/// Rows for ticks that do not fire.
fn write_dropped(tx: &OrgWrite<'_>, row: &mut ScheduleV1, decision: &Decision) -> Result<()> {
    for (at, (tick, why)) in decision.dropped.iter().enumerate() {
        let mut message = match why {
            Dropped::MadeUp(by) => format!("missed; the run of {by} makes up for it"),
            Dropped::TooOld => {
                format!("missed, and older than catchUpSeconds ({})", row.catch_up_sec)
            }
            Dropped::Missed => "missed, and misfire is skip".to_owned(),
        };
        if at == 0 && decision.more_before {
            message.push_str("; so were ticks before it, which are not listed");
        }
        let skipped = ScheduleRunV1 {
            status: RunStatus::SkippedMisfire,
            finished_at: Some(tx.now()),
            message: Some(message),
            ..new_run(row, Trigger::Cron, *tick)
        };
        insert(tx, row, &skipped)?;
    }
    Ok(())
}

fn new_run(row: &ScheduleV1, trigger: Trigger, scheduled_for: Timestamp) -> ScheduleRunV1 {
    ScheduleRunV1 {
        id: ScheduleRunId::new(),
        schedule_id: row.id,
        trigger,
        scheduled_for,
        status: RunStatus::Running,
        stage: RunStage::Rest,
        fired_at: None,
        finished_at: None,
        urls: 0,
        position: 0,
        jobs_created: 0,
        succeeded: 0,
        failed: 0,
        canceled: 0,
        truncated: false,
        message: None,
    }
}

fn has_row(tx: &OrgRead<'_>, schedule: ScheduleId, tick: Timestamp) -> Result<bool> {
    tx.exists(&BY_TICK, (schedule, tick))
}

/// Writes a run's row, unless its tick has one, and lets the oldest go beyond those that are kept; whether it did.
fn insert(tx: &OrgWrite<'_>, row: &mut ScheduleV1, run: &ScheduleRunV1) -> Result<bool> {
    if has_row(tx, row.id, run.scheduled_for)? {
        return Ok(false);
    }
    tx.insert(&RUNS, &run.id, run)?;
    changes::tell(tx, run)?;
    row.runs = row.runs.saturating_add(1);
    if row.runs > RUNS_KEPT {
        // Those that are open may all be the oldest ones.
        let oldest = tx.readable_by(&RUNS, &BY_SCHEDULE, row.id, None, None, QUEUED_MAX + 3)?;
        for (id, _) in oldest.rows.iter().filter(|(_, old)| !old.status.is_open()).take(2) {
            tx.delete(&RUNS, id)?;
            row.runs -= 1;
        }
    }
    Ok(true)
}

/// The runs of a schedule that stand so, oldest tick first. One whose row is damaged is none: it would stand so for ever.
fn open_runs(tx: &OrgRead<'_>, id: ScheduleId, status: RunStatus) -> Result<Vec<ScheduleRunV1>> {
    let step = tx.readable_by(&RUNS, &OPEN, (id, status as u8), None, None, QUEUED_MAX + 1)?;
    Ok(step.rows.into_iter().map(|(_, run)| run).collect())
}

/// Ends the ticks that wait for the run before them: the schedule's terms let none wait any more.
pub(super) fn drop_waiting(tx: &OrgWrite<'_>, id: ScheduleId, why: &str) -> Result<()> {
    for mut run in open_runs(tx, id, RunStatus::Queued)? {
        if run.trigger == Trigger::Cron {
            run.status = RunStatus::SkippedOverlap;
            run.finished_at = Some(tx.now());
            run.message = Some(why.to_owned());
            tx.put(&RUNS, &run.id, &run)?;
            changes::tell(tx, &run)?;
        }
    }
    Ok(())
}

/// The run of a tick, or of a request: it begins, waits or is left out, as the schedule says. None where the tick has had
/// its row.
fn begin(
    tx: &OrgWrite<'_>,
    row: &mut ScheduleV1,
    trigger: Trigger,
    scheduled_for: Timestamp,
) -> Result<Option<ScheduleRunV1>> {
    let open = |status: RunStatus| Ok::<_, base::Error>(open_runs(tx, row.id, status)?.len());
    let (running, waiting) = (open(RunStatus::Running)?, open(RunStatus::Queued)?);
    let mut run = new_run(row, trigger, scheduled_for);
    match row.overlap {
        _ if running + waiting == 0 => start(tx, &mut run),
        Overlap::Queue if waiting < QUEUED_MAX => {
            run.status = RunStatus::Queued;
            run.message = Some("waits for the run before it to end".to_owned());
        }
        overlap => {
            run.status = RunStatus::SkippedOverlap;
            run.finished_at = Some(tx.now());
            run.message = Some(match overlap {
                Overlap::Skip => "the run before it has not ended, and overlap is skip".to_owned(),
                Overlap::Queue => format!("{QUEUED_MAX} runs wait already"),
            });
        }
    }
    if !insert(tx, row, &run)? {
        return Ok(None);
    }
    row.last_run_at = run.fired_at.or(row.last_run_at);
    Ok(Some(run))
}

fn start(tx: &OrgRead<'_>, run: &mut ScheduleRunV1) {
    run.status = RunStatus::Running;
    run.stage = RunStage::Resolve;
    run.fired_at = Some(tx.now());
    run.message = None;
}

/// A run at once, by the way of a tick.
pub(super) fn trigger(tx: &OrgWrite<'_>, id: ScheduleId) -> Result<ScheduleRunV1> {
    let mut row = tx.require(&SCHEDULES, &id)?;
    let mut at = tx.now();
    // Ticks are of whole seconds: no request takes the place of one.
    while at.millis() % 1_000 == 0 || has_row(tx, id, at)? {
        at = Timestamp(at.millis() + 1);
    }
    let run = begin(tx, &mut row, Trigger::Manual, at)?;
    tx.put(&SCHEDULES, &id, &row)?;
    run.ok_or_else(|| base::Error::internal("trigger a schedule", "its moment is taken"))
}

/// Ends a run, and lets the next one begin that waits for it; whether one did.
pub(super) fn end(
    tx: &OrgWrite<'_>,
    mut run: ScheduleRunV1,
    status: RunStatus,
    message: Option<String>,
) -> Result<bool> {
    run.status = status;
    run.stage = RunStage::Rest;
    run.finished_at = Some(tx.now());
    run.message = message.map(shortened).or(run.message);
    tx.put(&RUNS, &run.id, &run)?;
    changes::tell(tx, &run)?;
    let of = |status: RunStatus| open_runs(tx, run.schedule_id, status);
    if !of(RunStatus::Running)?.is_empty() {
        return Ok(false);
    }
    let Some(mut next) = of(RunStatus::Queued)?.into_iter().next() else { return Ok(false) };
    let Some(mut row) = tx.get(&SCHEDULES, &run.schedule_id)? else { return Ok(false) };
    start(tx, &mut next);
    tx.put(&RUNS, &next.id, &next)?;
    changes::tell(tx, &next)?;
    row.last_run_at = next.fired_at;
    tx.put(&SCHEDULES, &row.id, &row)?;
    Ok(true)
}

/// Notes when the schedule is due next: at the first tick without a row.
pub(super) fn set_next(tx: &OrgRead<'_>, row: &mut ScheduleV1, times: &Times) -> Result<()> {
    let mut next = times.after(row.decided_until);
    for _ in 0..PASSED_MAX {
        match next {
            Some(tick) if has_row(tx, row.id, tick)? => next = times.after(tick),
            _ => break,
        }
    }
    (row.next_at, row.due_at) = (next, next.map(|tick| Policy::of(row, times).due(tick)));
    Ok(())
}

/// From now on, whatever was before: the schedule is new, was switched on, or has other times.
pub(super) fn from_now(tx: &OrgRead<'_>, row: &mut ScheduleV1, times: &Times) -> Result<()> {
    row.decided_until = tx.now();
    set_next(tx, row, times)
}

/// Whether the clock or another release has changed what is next of a schedule.
pub(super) fn is_stale(tx: &OrgRead<'_>, row: &ScheduleV1) -> Result<bool> {
    if !row.is_enabled {
        return Ok(false);
    }
    let Ok(times) = Times::read(&row.cron, &row.timezone) else { return Ok(true) };
    let mut anew = row.clone();
    go_on(tx, &mut anew, &times)?;
    Ok(anew != *row)
}

/// Sets that right: a schedule's next tick is found anew, and where the clock went back, ticks come again that no row tells
/// of. Whether it was switched off because it cannot be read.
pub(super) fn reconcile(tx: &OrgWrite<'_>, id: ScheduleId) -> Result<bool> {
    let Some(mut row) = tx.get(&SCHEDULES, &id)?.filter(|row| row.is_enabled) else { return Ok(false) };
    let Some(times) = read_or_disable(tx, &mut row)? else { return Ok(true) };
    forget_dropped(tx, &mut row)?;
    go_on(tx, &mut row, &times)?;
    tx.put(&SCHEDULES, &id, &row)?;
    Ok(false)
}

/// Takes back the rows of ticks that were dropped because a clock stood too far ahead: their time is still to come.
fn forget_dropped(tx: &OrgWrite<'_>, row: &mut ScheduleV1) -> Result<()> {
    let newest = tx.scan_index(&RUNS, &BY_TICK, row.id, Order::Descending, PASSED_MAX);
    let newest = readable("the newest runs of a schedule", row.id, newest)?.unwrap_or_default();
    let now = tx.now();
    for run in newest.iter().take_while(|run| run.scheduled_for > now) {
        if run.status == RunStatus::SkippedMisfire {
            tx.delete(&RUNS, &run.id)?;
            row.runs = row.runs.saturating_sub(1);
        }
    }
    Ok(())
}

fn go_on(tx: &OrgRead<'_>, row: &mut ScheduleV1, times: &Times) -> Result<()> {
    row.decided_until = row.decided_until.min(tx.now());
    set_next(tx, row, times)
}

/// A message that has room in a row.
pub(super) fn shortened(text: String) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}
