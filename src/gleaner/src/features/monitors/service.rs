//! The rules of monitors, inside the caller's transaction.

use super::changes;
use super::judge::{Measured, judge};
use super::rows::{
    BoundV1, DueRunV1, MONITORS, MonitorPlaceV1, MonitorState, MonitorV1, OnV1, OverV1, PAST_VALUES, PLACE,
};
use crate::features::events::log_ends;
use crate::features::schedules::Times;
use base::Result;
use base::clock::Timestamp;
use base::ids::{MonitorId, ScheduleId};
use base::limits::MONITORS_PER_ORG_MAX;
use std::collections::HashSet;
use store::{OrgRead, OrgWrite};

/// Missed ticks that are counted.
const MISSED_MAX: usize = 1_000;

/// What is run next, and when it ticks from now on: it was made, switched on, or given other terms.
pub(super) fn begin(tx: &OrgWrite<'_>, row: &mut MonitorV1) -> Result<()> {
    row.revision += 1;
    row.decided_until = tx.now();
    row.next_at = next_tick(&row.on, tx.now());
    row.due = row.is_enabled.then(|| DueRunV1 { scheduled_for: tx.now(), missed: 0, tries: 0 });
    if matches!(row.on, OnV1::Schedule(_)) && tx.get(&PLACE, &())?.is_none() {
        // What ends from now on.
        tx.put(&PLACE, &(), &MonitorPlaceV1 { place: log_ends(tx)?.last })?;
    }
    Ok(())
}

/// What was known of its values is of other terms.
pub(super) fn forget_values(tx: &OrgWrite<'_>, row: &mut MonitorV1) -> Result<()> {
    (row.known_value, row.held) = (None, 0);
    tx.delete(&PAST_VALUES, &row.id).map(drop)
}

fn next_tick(on: &OnV1, now: Timestamp) -> Option<Timestamp> {
    match on {
        // What cannot be read any more is found out by its tick.
        OnV1::Cron { cron, timezone } => match Times::read(cron, timezone) {
            Ok(times) => times.after(now),
            Err(_) => Some(now),
        },
        OnV1::Schedule(_) => None,
    }
}

/// Decides what is due of a monitor: one run, however many ticks there were.
pub(super) fn tick(tx: &OrgWrite<'_>, id: MonitorId) -> Result<()> {
    let Some(mut row) = tx.get(&MONITORS, &id)?.filter(|row| row.is_enabled) else { return Ok(()) };
    let OnV1::Cron { cron, timezone } = &row.on else { return Ok(()) };
    let times = match Times::read(cron, timezone) {
        Ok(times) => times,
        Err(unreadable) => {
            row.next_at = None;
            return fail(tx, row, format!("its {} cannot be read: {}", unreadable.field, unreadable.reason));
        }
    };
    let (due, _) = times.newest(row.decided_until, tx.now(), MISSED_MAX);
    if let Some((last, missed)) = due.split_last() {
        let count = |ticks: usize| u32::try_from(ticks).unwrap_or(u32::MAX);
        row.due = Some(match row.due {
            // The run that waits, or goes on, is the one of these ticks.
            Some(waits) => DueRunV1 { missed: waits.missed.saturating_add(count(due.len())), ..waits },
            None => DueRunV1 { scheduled_for: *last, missed: count(missed.len()), tries: 0 },
        });
        row.decided_until = *last;
    }
    row.next_at = times.after(row.decided_until);
    tx.put(&MONITORS, &id, &row)
}

/// The clock went back, or the box has started: ticks come again that were decided ahead.
pub(super) fn reconcile(tx: &OrgWrite<'_>, id: MonitorId) -> Result<()> {
    let Some(mut row) = tx.get(&MONITORS, &id)?.filter(|row| row.decided_until > tx.now()) else {
        return Ok(());
    };
    row.decided_until = tx.now();
    row.next_at = next_tick(&row.on, tx.now());
    tx.put(&MONITORS, &id, &row)
}

/// Every monitor of an organization; one that cannot be read is passed over.
pub(super) fn all(tx: &OrgRead<'_>) -> Result<Vec<MonitorV1>> {
    let rows = tx.readable(&MONITORS, None, MONITORS_PER_ORG_MAX)?.rows;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Runs of these schedules have ended, as the log says up to a place.
pub(super) fn ended(tx: &OrgWrite<'_>, schedules: &HashSet<ScheduleId>, place: u64) -> Result<()> {
    for mut row in all(tx)? {
        if matches!(row.on, OnV1::Schedule(id) if schedules.contains(&id)) && row.is_enabled {
            let missed = row.due.map_or(0, |waits| waits.missed);
            // One that runs began before this: it runs once more.
            row.due = Some(DueRunV1 { scheduled_for: tx.now(), missed, tries: 0 });
            tx.put(&MONITORS, &row.id, &row)?;
        }
    }
    tx.put(&PLACE, &(), &MonitorPlaceV1 { place })
}

/// Something keeps a monitor from being run at all.
pub(super) fn fail(tx: &OrgWrite<'_>, mut row: MonitorV1, reason: String) -> Result<()> {
    let before = row.state;
    if before != MonitorState::Error {
        (row.state, row.since) = (MonitorState::Error, tx.now());
    }
    (row.reason, row.due) = (Some(reason), None);
    tx.put(&MONITORS, &row.id, &row)?;
    if before == MonitorState::Error { Ok(()) } else { changes::tell(tx, &row, before) }
}

/// Takes in what a run gave, unless the monitor has other terms meanwhile. Its event is there with the state or not at all.
pub(super) fn take(tx: &OrgWrite<'_>, began: &MonitorV1, measured: Measured) -> Result<()> {
    let Some(mut row) = tx.get(&MONITORS, &began.id)?.filter(|row| row.revision == began.revision) else {
        return Ok(());
    };
    let (Some(due), true) = (row.due, row.is_enabled) else { return Ok(()) };
    let is_later = began.due.is_none_or(|began| began.scheduled_for != due.scheduled_for);
    row.due = is_later.then_some(DueRunV1 { missed: 0, tries: 0, ..due });
    let mut past = tx.get(&PAST_VALUES, &row.id)?.unwrap_or_default();
    let (verdict, before) = (judge(&row, &past, measured, tx.moment()), row.state);
    if verdict.state != before {
        row.since = tx.now();
    }
    (row.state, row.reason, row.held) = (verdict.state, verdict.reason, verdict.held);
    (row.last_value, row.compared_with) = (verdict.value, verdict.compared_with);
    row.known_value = verdict.value.or(row.known_value);
    (row.last_run_at, row.missed) = (Some(tx.now()), due.missed);
    if let (BoundV1::Change { over: OverV1::Seconds(seconds), .. }, Some(value)) =
        (row.condition.bound, verdict.value)
    {
        past.add(seconds, tx.moment(), value);
        tx.put(&PAST_VALUES, &row.id, &past)?;
    }
    tx.put(&MONITORS, &row.id, &row)?;
    if row.state == before { Ok(()) } else { changes::tell(tx, &row, before) }
}

/// Notes that a run was tried in vain; how often by now.
pub(super) fn tried(tx: &OrgWrite<'_>, began: &MonitorV1) -> Result<u32> {
    let Some(mut row) = tx.get(&MONITORS, &began.id)?.filter(|row| row.revision == began.revision) else {
        return Ok(0);
    };
    let Some(due) = row.due.as_mut() else { return Ok(0) };
    due.tries = due.tries.saturating_add(1);
    let tries = due.tries;
    tx.put(&MONITORS, &row.id, &row)?;
    Ok(tries)
}
