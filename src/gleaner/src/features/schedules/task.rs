//! The scheduler's work: ticks, submitting, following runs, and watching that no tick is forgotten.
//!
//! Ticks are decided apart from submitting, so a large run holds up nobody's tick. Both go in turns over the organizations
//! that have something due, a bounded number of each in a turn: one with ten thousand schedules due at once does not come
//! before another's one.

use super::changes;
use super::rows::{
    DUE, RUNS, RunStage, RunStatus, SCHEDULES, ScheduleRunV1, ScheduleV1, TO_FOLLOW, TO_SUBMIT,
};
use super::service::{self, Ticked};
use super::state::Scheduler;
use super::submit::{Step, step};
use crate::features::billing::{Retention, cutoff};
use crate::features::jobs::{self, SubmitContext};
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{OrgId, ScheduleId, ScheduleRunId, made_at};
use base::{Code, Result};
use futures::{StreamExt, stream};
use server::task::{Signals, TaskContext};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store::{Event, Index, Key, OrgStore, OrgTable, Seek, SysRead, System, is_unreadable};

pub(super) const TICK: &str = "schedules.tick";
pub(super) const SUBMIT: &str = "schedules.submit";

/// Schedules of one organization that are decided in one operation.
const TICKS_PER_TURN: usize = 20;
/// Runs of one organization that have a part submitted in one turn.
const RUNS_PER_TURN: usize = 8;
/// Organizations that have their turn at once: their operations share commits.
const TURNS_AT_ONCE: usize = 32;
/// Entries of one organization that one look takes in.
const ENTRIES_PER_ORG: usize = 1_000;
/// Entries that one look passes.
const LOOKED_MAX: usize = 200_000;
/// How long ticks are decided, or jobs submitted, before it is looked who is new.
const ROUNDS_TIME: Duration = Duration::from_secs(1);
/// Runs that are looked at in one step of following.
const FOLLOWED_PER_STEP: usize = 500;
/// Steps of following in one activation.
const FOLLOW_STEPS: usize = 8;
/// How long a tick may be overdue, by the box's own time, before it is reported.
const OVERDUE_AFTER: Duration = Duration::from_secs(60);
/// Rows of one operation of removing.
const REMOVED_PER_STEP: usize = 200;

/// What is due, by organization.
pub type Turns<K> = BTreeMap<OrgId, VecDeque<K>>;

/// The keys of the entries of a global index that begins with a time, up to `until`: of no organization more than its share,
/// so that what one of them has due, at whichever times, hides nothing of another.
pub fn entries<K: Key, V: Record>(
    tx: &SysRead<'_>,
    table: &'static OrgTable<K, V>,
    index: &'static Index<Timestamp, V>,
    until: Option<Timestamp>,
) -> Result<Vec<(OrgId, K, Option<Timestamp>)>> {
    let below = until.map(|until| Timestamp(until.millis().saturating_add(1)));
    let (mut from, mut found) = (Seek::start(), Vec::new());
    let (mut counts, mut looked) = (BTreeMap::<OrgId, usize>::new(), 0);
    while looked < LOOKED_MAX {
        let step = tx.scan_global(table, index, &from, below, ENTRIES_PER_ORG)?;
        looked += step.entries.len();
        let mut full = None;
        for entry in step.entries {
            let count = counts.entry(entry.org).or_default();
            *count += 1;
            full = entry.under.filter(|_| *count >= ENTRIES_PER_ORG).map(|time| (time, entry.org));
            if !tx.is_fenced(entry.org) && *count <= ENTRIES_PER_ORG {
                found.push((entry.org, entry.key, entry.under));
            }
        }
        if step.is_last {
            break;
        }
        from = match full {
            Some((time, org)) => Seek::behind_org(&time, org),
            None => step.next,
        };
    }
    Ok(found)
}

pub fn turns<K>(entries: Vec<(OrgId, K, Option<Timestamp>)>) -> Turns<K> {
    let mut all = Turns::new();
    for (org, key, _) in entries {
        all.entry(org).or_default().push_back(key);
    }
    all
}

/// Up to `most` of every organization.
pub fn next_turn<K>(turns: &mut Turns<K>, most: usize) -> Vec<(OrgId, Vec<K>)> {
    let round = turns.iter_mut().map(|(org, keys)| (*org, keys.drain(..most.min(keys.len())).collect()));
    let round = round.collect();
    turns.retain(|_, keys| !keys.is_empty());
    round
}

/// Does this for every organization with rows in a table; whether it could be done for all. One that fails keeps no other's.
pub async fn reconcile_each<F: Future<Output = Result<()>>>(
    system: &System,
    table: &'static str,
    reconcile: impl Fn(OrgStore) -> F,
) -> bool {
    let (mut last, mut all_done) = (None, true);
    loop {
        match system.read(|tx| tx.next_org(table, last)) {
            Ok(Some(org)) => {
                last = Some(org);
                if let Err(error) = reconcile(system.org(org)).await
                    && error.code() != Code::OrgNotFound
                {
                    tracing::warn!(%org, table, %error, "what was decided ahead could not be looked at anew, and is tried again");
                    all_done = false;
                }
            }
            Ok(None) => return all_done,
            Err(error) => {
                tracing::warn!(table, %error, "what was decided ahead could not be looked at anew, and is tried again");
                return false;
            }
        }
    }
}

/// Decides every tick that is due.
pub(super) async fn tick_all(context: TaskContext) -> Result<()> {
    let scheduler = context.service::<Scheduler>();
    let now = context.now();
    if scheduler.seen.is_new(now)
        && let Err(error) = reconcile_all(&context, &scheduler).await
    {
        scheduler.seen.forget();
        return Err(error);
    }
    let due = context.system().read(|tx| entries(tx, &SCHEDULES, &DUE, Some(now)))?;
    let due = due.into_iter().filter(|(org, id, _)| !scheduler.is_known_unreadable((*org, *id))).collect();
    let mut turns = turns(due);
    let begun = Arc::new(std::sync::atomic::AtomicU64::default());
    let until = Instant::now() + ROUNDS_TIME;
    while !turns.is_empty() && !context.stopping() {
        if Instant::now() > until {
            // Whoever has become due meanwhile is to have a turn, too.
            context.service::<Signals>().wake(TICK);
            break;
        }
        let round = next_turn(&mut turns, TICKS_PER_TURN);
        stream::iter(round)
            .for_each_concurrent(TURNS_AT_ONCE, |(org, ids)| {
                let (context, scheduler, begun) = (context.clone(), Arc::clone(&scheduler), begun.clone());
                async move {
                    let runs = tick_some(&context.system().org(org), &scheduler, ids).await;
                    begun.fetch_add(runs.into(), Ordering::Relaxed);
                }
            })
            .await;
        if begun.swap(0, Ordering::Relaxed) > 0 {
            context.service::<Signals>().wake(SUBMIT);
        }
    }
    match scheduler.undecided.swap(0, Ordering::Relaxed) {
        0 => {}
        count => {
            tracing::warn!(count, "ticks could not be decided, and are tried again: see the lines before")
        }
    }
    Ok(())
}

/// Decides what is due of these schedules: all in one operation, and where that fails each by itself. How many runs begin.
pub(super) async fn tick_some(org: &OrgStore, scheduler: &Scheduler, ids: Vec<ScheduleId>) -> u32 {
    let all = ids.clone();
    let ticked = org.write(move |tx| all.iter().map(|id| service::tick(tx, *id)).collect::<Result<Vec<_>>>());
    let mut ticked = match ticked.await {
        Ok(ticked) => ids.into_iter().zip(ticked).collect(),
        Err(error) if is_unreadable(&error) => one_by_one(org, scheduler, ids).await,
        Err(error) => {
            // One line tells of all: with a full disk there are as many as there are ticks.
            if scheduler.undecided.fetch_add(ids.len() as u64, Ordering::Relaxed) == 0 {
                tracing::warn!(org = %org.id(), %error, "ticks could not be decided");
            }
            return 0;
        }
    };
    for (id, _) in ticked.extract_if(.., |(_, ticked)| ticked.disabled) {
        note_disabled(org, scheduler, id);
    }
    let begun = ticked.iter().map(|(_, ticked)| ticked.begun).sum();
    scheduler.begun.fetch_add(u64::from(begun), Ordering::Relaxed);
    begun
}

fn note_disabled(org: &OrgStore, scheduler: &Scheduler, id: ScheduleId) {
    let reason = "it cannot be read any more and was switched off: see its disabledReason";
    if scheduler.is_unreadable((org.id(), id), reason) {
        tracing::warn!(org = %org.id(), schedule = %id, reason, "a schedule was switched off");
    }
}

/// One whose row is damaged keeps none of the others from its tick.
async fn one_by_one(
    org: &OrgStore,
    scheduler: &Scheduler,
    ids: Vec<ScheduleId>,
) -> Vec<(ScheduleId, Ticked)> {
    let mut all = Vec::new();
    for id in ids {
        match org.write(move |tx| service::tick(tx, id)).await {
            Ok(ticked) => all.push((id, ticked)),
            Err(error) if is_unreadable(&error) => damaged(org, scheduler, id, &error).await,
            Err(error) => tracing::warn!(org = %org.id(), schedule = %id, %error, "a tick is tried again"),
        }
    }
    all
}

/// Its row stays as it is, for whoever can mend it; nothing is tried with it until the box starts anew.
async fn damaged(org: &OrgStore, scheduler: &Scheduler, id: ScheduleId, error: &base::Error) {
    if !scheduler.is_unreadable((org.id(), id), "its row is damaged: `gleaner doctor` says more") {
        return;
    }
    tracing::error!(org = %org.id(), schedule = %id, %error, "a schedule cannot be read; it does not fire");
    let event = Event::new(Action::ScheduleDisabled).of(id).with("field", "row");
    let written = org.write(move |tx| {
        tx.audit(event)?;
        changes::disabled(tx, id, Some("its row is damaged"))
    });
    if let Err(error) = written.await {
        tracing::error!(org = %org.id(), schedule = %id, %error, "no audit row could be written for that");
    }
}

/// Looks at every schedule anew: the box has started, perhaps with another release, or its clock went back.
async fn reconcile_all(context: &TaskContext, scheduler: &Scheduler) -> Result<()> {
    let mut org = None;
    while let Some(id) = context.system().read(|tx| tx.next_org(SCHEDULES.name(), org))? {
        org = Some(id);
        tokio::task::yield_now().await;
        if !context.system().read(|tx| Ok(tx.is_fenced(id)))? {
            reconcile_org(&context.system().org(id), scheduler).await?;
        }
        if context.stopping() {
            scheduler.seen.forget();
            break;
        }
    }
    Ok(())
}

async fn reconcile_org(org: &OrgStore, scheduler: &Scheduler) -> Result<()> {
    let mut after = None::<Vec<u8>>;
    loop {
        let keys = org.read(|tx| tx.keys(SCHEDULES.name(), after.as_deref(), TICKS_PER_TURN))?;
        let is_end = keys.len() < TICKS_PER_TURN;
        after = keys.last().cloned();
        for id in keys.iter().filter_map(|key| ScheduleId::decode(key)) {
            reconcile_one(org, scheduler, id).await?;
            // Each reads a zone: those that answer requests have their turns between.
            tokio::task::yield_now().await;
        }
        if is_end {
            return Ok(());
        }
    }
}

async fn reconcile_one(org: &OrgStore, scheduler: &Scheduler, id: ScheduleId) -> Result<()> {
    // Looked at outside of the writer first: mostly nothing has changed.
    let looked = org.read(|tx| {
        let Some(row) = tx.get(&SCHEDULES, &id)? else { return Ok((None, false)) };
        let is_stale = service::is_stale(tx, &row)?;
        Ok((row.disabled_reason, is_stale))
    });
    match looked {
        Ok((Some(reason), _)) => drop(scheduler.is_unreadable((org.id(), id), &reason)),
        Ok((None, false)) => {}
        Ok((None, true)) => {
            if org.write(move |tx| service::reconcile(tx, id)).await? {
                note_disabled(org, scheduler, id);
            }
        }
        Err(error) if is_unreadable(&error) => damaged(org, scheduler, id, &error).await,
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Submits what runs have to submit, part by part, in turns.
pub(super) async fn submit_all(context: TaskContext) -> Result<()> {
    let scheduler = context.service::<Scheduler>();
    let mut failed = 0_u64;
    loop {
        let found = context.system().read(|tx| entries(tx, &RUNS, &TO_SUBMIT, None))?;
        let is_full = found.len() >= ENTRIES_PER_ORG;
        let found = found.into_iter().filter(|(_, run, _)| !scheduler.is_run_unreadable(*run)).collect();
        let mut turns = turns(found);
        let until = Instant::now() + ROUNDS_TIME;
        while !turns.is_empty() && Instant::now() < until {
            if context.stopping() {
                return Ok(());
            }
            let round = next_turn(&mut turns, RUNS_PER_TURN);
            let steps = round.into_iter().flat_map(|(org, runs)| runs.into_iter().map(move |run| (org, run)));
            let done: Vec<_> = stream::iter(steps)
                .map(|(org, run)| {
                    let context = context.clone();
                    let is_first = failed == 0;
                    async move { (org, run, step_or_say(&context, org, run, is_first).await) }
                })
                .buffer_unordered(TURNS_AT_ONCE)
                .collect()
                .await;
            for (org, run, goes_on) in done {
                match goes_on {
                    Some(true) => turns.entry(org).or_default().push_back(run),
                    Some(false) => {}
                    None => failed += 1,
                }
            }
        }
        // What failed is tried again in the next activation, and so is what begins from now on.
        if turns.is_empty() {
            if is_full && failed == 0 {
                context.service::<Signals>().wake(SUBMIT);
            }
            if failed > 0 {
                tracing::warn!(
                    failed,
                    "runs could not be submitted, and are tried again: see the lines before"
                );
            }
            return Ok(());
        }
    }
}

/// Whether a run has more to submit; none where it is tried again later.
async fn step_or_say(context: &TaskContext, org: OrgId, run: ScheduleRunId, says: bool) -> Option<bool> {
    let (scheduler, submit) = (context.service::<Scheduler>(), context.service::<SubmitContext>());
    match step(&context.system().org(org), &submit, scheduler.max_urls, run).await {
        Ok(Step::More) => Some(true),
        Ok(Step::Over { began, .. }) => {
            if began {
                context.service::<Signals>().wake(SUBMIT);
            }
            Some(false)
        }
        // It is being erased: its entries go by themselves.
        Err(error) if error.code() == Code::OrgNotFound => None,
        Err(error) if is_unreadable(&error) => {
            tracing::error!(%org, %run, %error, "a run's row is damaged; it is left alone");
            scheduler.run_is_unreadable(run);
            Some(false)
        }
        Err(error) => {
            if says {
                tracing::warn!(%org, %run, %error, "a run could not be submitted");
            }
            None
        }
    }
}

/// Ends runs whose jobs have ended.
pub(super) async fn follow_all(context: TaskContext) -> Result<()> {
    // A look goes on where the last one ended: runs that take long hide no others.
    let scheduler = context.service::<Scheduler>();
    let mut after = scheduler.followed.lock().take();
    for _ in 0..FOLLOW_STEPS {
        let place = after.clone();
        let step = context
            .system()
            .read(|tx| tx.readable_global(&RUNS, &TO_FOLLOW, None, place.as_deref(), FOLLOWED_PER_STEP))?;
        after = step.more();
        let over = step.rows.into_iter().filter_map(|(org, id, run)| {
            let own = context.system().org(org);
            let is_over = run.stage == RunStage::Follow && !own.read(|tx| jobs::is_under_way(tx, id)).ok()?;
            is_over.then_some((own, id))
        });
        let over: Vec<_> = over.collect();
        let began = stream::iter(over)
            .map(|(own, id)| async move {
                let ended = own.write(move |tx| finish(tx, id)).await;
                ended.inspect_err(|error| tracing::warn!(run = %id, %error, "a run could not be ended"))
            })
            .buffer_unordered(TURNS_AT_ONCE)
            // To the last one, whichever of them lets another begin.
            .fold(false, |any, ended| async move { any | ended.unwrap_or(false) })
            .await;
        if began {
            context.service::<Signals>().wake(SUBMIT);
        }
        if after.is_none() || context.stopping() {
            break;
        }
    }
    *scheduler.followed.lock() = after;
    Ok(())
}

/// Ends a run whose jobs have ended; whether another one begins.
pub(super) fn finish(tx: &store::OrgWrite<'_>, id: ScheduleRunId) -> Result<bool> {
    let Some(mut run) = tx.get(&RUNS, &id)?.filter(|run| run.stage == RunStage::Follow) else {
        return Ok(false);
    };
    if jobs::is_under_way(tx, id)? {
        return Ok(false);
    }
    let counts = jobs::run_counts(tx, id)?;
    (run.succeeded, run.failed, run.canceled) = (counts.succeeded, counts.failed, counts.canceled);
    let status = if run.position < run.urls { RunStatus::Failed } else { RunStatus::Completed };
    service::end(tx, run, status, None)
}

/// Reports ticks whose time has passed and that have no row, each once.
pub(super) async fn watch(context: TaskContext) -> Result<()> {
    let scheduler = context.service::<Scheduler>();
    let late = context.now().before(OVERDUE_AFTER);
    let found = context.system().read(|tx| entries(tx, &SCHEDULES, &DUE, Some(late)))?;
    let found = found.into_iter().map(|(org, id, due)| ((org, id), due));
    let found = found.filter(|(which, _)| !scheduler.is_known_unreadable(*which)).collect();
    for (org, id) in scheduler.overdue(found, context.moment(), OVERDUE_AFTER) {
        tracing::error!(%org, schedule = %id, "a schedule's time has passed, and nothing was decided about it");
        let own = context.system().org(org);
        let due = own.read(|tx| Ok(tx.get(&SCHEDULES, &id)?.and_then(|row: ScheduleV1| row.next_at)));
        let due = due.ok().flatten().map(|due| due.to_string());
        let event = Event::new(Action::ScheduleMissed).of(id);
        let event = event.with("scheduledFor", due.clone().unwrap_or_default());
        let written = own.write(move |tx| {
            tx.audit(event)?;
            changes::missed(tx, id, due)
        });
        if let Err(error) = written.await {
            tracing::error!(%org, schedule = %id, %error, "no audit row could be written for that");
        }
    }
    Ok(())
}

/// Removes runs whose time is over: they are kept as long as jobs are.
pub(super) async fn remove_old(context: TaskContext) -> Result<()> {
    let (retention, mut last) = (context.service::<Retention>(), None);
    while let Some(org) = context.system().read(|tx| tx.next_org(RUNS.name(), last))? {
        last = Some(org);
        // What is wrong with one organization keeps no other's rows.
        if let Err(error) = remove_old_of(&context, &retention, org).await {
            tracing::warn!(%org, %error, "old runs could not be removed; it is tried again");
        }
    }
    Ok(())
}

async fn remove_old_of(context: &TaskContext, retention: &Retention, org: OrgId) -> Result<()> {
    let own = context.system().org(org);
    let terms = own.read(|tx| retention.of(tx))?;
    let Some(before) = cutoff(context.moment(), terms.jobs_days) else { return Ok(()) };
    let mut after = None::<Vec<u8>>;
    while !context.stopping() {
        let step = own.read(|tx| tx.readable(&RUNS, after.as_deref(), REMOVED_PER_STEP))?;
        let (seen, more) = (step.rows.len(), step.more());
        let is_old = |id: ScheduleRunId| made_at(id.0).is_some_and(|made| made < before);
        let old: Vec<_> = step.rows.into_iter().take_while(|(id, _)| is_old(*id)).collect();
        after = more.filter(|_| old.len() == seen);
        let over = old.into_iter().filter(|(_, run)| !run.status.is_open()).map(|(_, run)| run).collect();
        own.write_each_freeing("a schedule's run", over, remove).await?;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

fn remove(tx: &store::OrgWrite<'_>, run: &ScheduleRunV1) -> Result<()> {
    if tx.delete(&RUNS, &run.id)?
        && let Some(mut row) = tx.get(&SCHEDULES, &run.schedule_id)?
    {
        row.runs = row.runs.saturating_sub(1);
        tx.put(&SCHEDULES, &row.id, &row)?;
    }
    Ok(())
}
