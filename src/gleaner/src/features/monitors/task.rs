//! The work of monitors: ticks, schedules whose runs have ended, and runs.
//!
//! Runs go in turns over the organizations, one of each at a time: one with two hundred monitors due, or with statements that
//! take their thirty seconds, keeps nobody else's waiting. What a run gave and that it is done are one operation, so a box that
//! is killed in the middle runs it again and tells nothing twice.

use super::judge::Measured;
use super::rows::{MONITORS, MonitorV1, OnV1, PLACE, TICKS, TO_RUN, ValueV1};
use super::service;
use super::state::Watch;
use crate::features::bi::{Queries, StandingFailure, StandingRows, lacks};
use crate::features::events::{events_behind, log_ends};
use crate::features::schedules::{SCHEDULES, entries, in_turns, next_turn, reconcile_each, turns};
use base::ids::{MonitorId, OrgId, ScheduleId};
use base::{Code, Result};
use serde_json::Value;
use server::task::{Signals, TaskContext};
use std::collections::HashSet;
use std::time::Duration;
use store::{Key, OrgStore, OrgWrite, is_unreadable, readable};

pub(super) const RUN: &str = "monitors.run";

/// Monitors of one organization that are decided in one operation.
const TICKS_PER_TURN: usize = 50;
/// How often a run is tried that cannot be made now.
const TRIES_MAX: u32 = 5;
/// How long it rests after the first try; after each further one twice as long.
const REST: Duration = Duration::from_secs(5);
/// Events of one look.
const EVENTS_PER_LOOK: usize = 500;
/// Events without a meaning for monitors that are passed before their place is stored.
const UNSTORED_MAX: u64 = 2_000;
/// What tells that a run of a schedule has ended.
const ENDED: [&str; 2] = ["schedule.completed", "schedule.failed"];
/// Characters of a reason.
const REASON_CHARS_MAX: usize = 500;

/// Decides every tick that is due.
pub(super) async fn tick_all(context: TaskContext) -> Result<()> {
    let now = context.now();
    let watch = context.service::<Watch>();
    if watch.seen.is_new(now) && !reconcile_all(&context).await {
        watch.seen.forget();
    }
    let due = context.system().read(|tx| entries(tx, &MONITORS, &TICKS, Some(now)))?;
    let mut turns = turns(due);
    while !turns.is_empty() && !context.stopping() {
        for (org, ids) in next_turn(&mut turns, TICKS_PER_TURN) {
            if let Err(error) = decide(&context.system().org(org), ids, service::tick).await {
                tracing::warn!(%org, %error, "ticks of monitors could not be decided, and are tried again");
            }
        }
        context.service::<Signals>().wake(RUN);
    }
    Ok(())
}

/// Decides about these monitors in one operation; where a row of them is damaged, about each by itself.
async fn decide(
    org: &OrgStore,
    ids: Vec<MonitorId>,
    change: fn(&OrgWrite<'_>, MonitorId) -> Result<()>,
) -> Result<()> {
    let all = ids.clone();
    match org.write(move |tx| all.iter().try_for_each(|id| change(tx, *id))).await {
        Err(error) if is_unreadable(&error) => {
            for id in ids {
                if let Err(error) = org.write(move |tx| change(tx, id)).await {
                    tracing::warn!(org = %org.id(), monitor = %id, %error, "a monitor could not be decided about");
                }
            }
            Ok(())
        }
        Err(error) if error.code() != Code::OrgNotFound => Err(error),
        _ => Ok(()),
    }
}

/// Looks at every monitor anew; whether all of them could be looked at.
async fn reconcile_all(context: &TaskContext) -> bool {
    reconcile_each(context.system(), MONITORS.name(), async |own: OrgStore| {
        let keys = own.read(|tx| tx.keys(MONITORS.name(), None, base::limits::MONITORS_PER_ORG_MAX))?;
        decide(&own, keys.iter().filter_map(|key| MonitorId::decode(key)).collect(), service::reconcile).await
    })
    .await
}

/// Finds who has monitors of schedules: at a start, and now and then. One whose schedule is gone says so.
pub(super) async fn find_all(context: TaskContext) -> Result<()> {
    let (watch, mut last) = (context.service::<Watch>(), None);
    while let Some((org, is_fenced)) = context
        .system()
        .read(|tx| Ok(tx.next_org(MONITORS.name(), last)?.map(|org| (org, tx.is_fenced(org)))))?
    {
        last = Some(org);
        if context.stopping() {
            return Ok(());
        }
        if is_fenced {
            continue;
        }
        let own = context.system().org(org);
        if let Some(error) = find(&watch, &own).await.err().filter(|error| error.code() != Code::OrgNotFound)
        {
            tracing::warn!(%org, %error, "the monitors of an organization could not be looked at");
        }
    }
    Ok(())
}

async fn find(watch: &Watch, own: &OrgStore) -> Result<()> {
    let (of_schedules, gone) = own.read(|tx| {
        let (mut count, mut gone) = (0, Vec::new());
        for row in service::all(tx)? {
            let OnV1::Schedule(id) = row.on else { continue };
            count += 1;
            if row.is_enabled
                && readable("a schedule", id, tx.get(&SCHEDULES, &id))?.is_some_and(|row| row.is_none())
            {
                gone.push(row.id);
            }
        }
        Ok((count, gone))
    })?;
    if of_schedules > 0 {
        watch.listen(own);
    } else {
        watch.forget(own.id());
    }
    for id in gone {
        own.write(move |tx| {
            let row = tx.get(&MONITORS, &id)?.filter(|row| row.is_enabled);
            let Some(row) = row else { return Ok(()) };
            let OnV1::Schedule(schedule) = row.on else { return Ok(()) };
            let reason = "its schedule was deleted".to_owned();
            match tx.get(&SCHEDULES, &schedule)?.is_none() && row.reason.as_ref() != Some(&reason) {
                true => service::fail(tx, row, reason),
                false => Ok(()),
            }
        })
        .await?;
    }
    Ok(())
}

/// Looks at the logs that have grown for runs of schedules that have ended.
pub(super) async fn follow_all(context: TaskContext) -> Result<()> {
    let watch = context.service::<Watch>();
    for org in watch.due() {
        match follow(&context, &watch, &context.system().org(org)).await {
            Ok(false) => {}
            // There is more: it goes on behind the others.
            Ok(true) => watch.look_again(org),
            Err(error) if error.code() == Code::OrgNotFound => watch.forget(org),
            Err(error) => {
                tracing::warn!(%org, %error, "the log of an organization could not be followed for its monitors");
                watch.look_again(org);
            }
        }
        if context.stopping() {
            break;
        }
    }
    Ok(())
}

/// Looks at one log; whether there is more.
async fn follow(context: &TaskContext, watch: &Watch, own: &OrgStore) -> Result<bool> {
    let known = watch.place(own.id());
    let (stored, until, last, ended) = own.read(|tx| {
        let ends = log_ends(tx)?;
        let stored = tx.get(&PLACE, &())?.map_or(ends.last, |row| row.place);
        let begins = stored.max(known).clamp(ends.trimmed, ends.last);
        let (events, until) = events_behind(tx, begins, EVENTS_PER_LOOK)?;
        let ended = events.iter().filter(|event| ENDED.contains(&event.kind.as_str()));
        let ended: HashSet<_> = ended.map(|event| ScheduleId(event.subject)).collect();
        Ok((stored, until.max(begins), ends.last, ended))
    })?;
    if !ended.is_empty() || until > stored.saturating_add(UNSTORED_MAX) {
        own.write(move |tx| service::ended(tx, &ended, until)).await?;
        context.service::<Signals>().wake(RUN);
    }
    watch.set_place(own.id(), until);
    Ok(until < last)
}

/// Runs what is due, in turns, until nothing is.
pub(super) async fn run_all(context: TaskContext) -> Result<()> {
    let watch = context.service::<Watch>();
    let find = || {
        let mut found = context.system().read(|tx| entries(tx, &MONITORS, &TO_RUN, None))?;
        found.retain(|(_, id, _)| watch.is_awake(*id));
        Ok(found)
    };
    let act = |org: OrgId, id: MonitorId| {
        let (context, watch) = (context.clone(), watch.clone());
        async move {
            match run(&context, &context.system().org(org), id).await {
                Ok(()) => {}
                Err(error) if error.code() == Code::OrgNotFound => watch.forget(org),
                Err(error) => {
                    tracing::warn!(%org, monitor = %id, %error, "a monitor could not be run, and is tried again");
                    watch.rest(id, REST);
                    if is_unreadable(&error) {
                        watch.give_up(id);
                    }
                }
            }
        }
    };
    in_turns(&context, find, act).await
}

/// Runs one monitor, and takes in what it gave.
async fn run(context: &TaskContext, own: &OrgStore, id: MonitorId) -> Result<()> {
    let row = own.read(|tx| tx.get(&MONITORS, &id))?;
    let Some(row) = row.filter(|row| row.is_enabled && row.due.is_some()) else { return Ok(()) };
    let measured = match measure(context, own, &row).await? {
        Ok(measured) => measured,
        Err(later) => {
            let (watch, began) = (context.service::<Watch>(), row.clone());
            let tries = own.write(move |tx| service::tried(tx, &began)).await?;
            if tries < TRIES_MAX {
                watch.rest(id, REST * 2_u32.saturating_pow(tries.saturating_sub(1)));
                return Ok(());
            }
            Measured::Failed(format!("it was tried {tries} times in vain: {later}"))
        }
    };
    let measured = match measured {
        Measured::Failed(why) => Measured::Failed(shortened(why)),
        measured => measured,
    };
    own.write(move |tx| service::take(tx, &row, measured)).await
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(REASON_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// What a monitor's statement gives now; an error says that it cannot be known at the moment.
async fn measure(
    context: &TaskContext,
    own: &OrgStore,
    row: &MonitorV1,
) -> Result<std::result::Result<Measured, String>> {
    if let Some(why) = lacks(context, own, row.runs_as)? {
        let why = format!("{why}; whoever changes the monitor runs it from then on");
        return Ok(Ok(Measured::Failed(why)));
    }
    let queries = context.service::<Queries>();
    let ran = queries.run_standing(own, &(&row.source).into(), Vec::new(), 1).await;
    Ok(match ran {
        Ok(rows) => Ok(value(&row.condition.value, &rows)),
        Err(StandingFailure::Refused(why)) => Ok(Measured::Failed(why)),
        Err(StandingFailure::Later(why)) => Err(why),
    })
}

/// The number that a monitor is about.
fn value(wanted: &ValueV1, found: &StandingRows) -> Measured {
    let column = match wanted {
        ValueV1::Rows => return Measured::Value(found.total_rows as f64),
        ValueV1::Column(column) => column,
    };
    let Some(first) = found.rows.first() else {
        return Measured::Nothing("the statement gave no rows".to_owned());
    };
    let number = match first.get(column) {
        None => return Measured::Failed(format!("the statement has no column {column} any more")),
        Some(Value::Null) => return Measured::Nothing(format!("{column} is null")),
        Some(Value::Number(number)) => number.as_f64(),
        // What a double cannot hold exactly travels as a text.
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Bool(is_true)) => Some(f64::from(u8::from(*is_true))),
        Some(_) => None,
    };
    match number {
        Some(number) if number.is_finite() => Measured::Value(number),
        Some(_) => Measured::Nothing(format!("{column} is no finite number")),
        None => Measured::Failed(format!("{column} is no number")),
    }
}
