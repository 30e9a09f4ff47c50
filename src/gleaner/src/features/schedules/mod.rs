//! Schedules: URLs that are scraped when a cron expression says so, every time, and a row for each time.
//!
//! [`cron`] and [`times`]: when; [`policy`]: what becomes of ticks that are due, late or missed; [`service`]: the rules in
//! the store; [`submit`]: a run's jobs, part by part; [`task`]: who does all that, in turns over the organizations.

mod changes;
mod config;
mod cron;
mod in_turns;
mod policy;
mod rows;
mod service;
mod state;
mod submit;
mod task;
#[cfg(test)]
mod tests;
mod times;
mod views;
mod wire;

pub use config::SchedulesConfig;
pub use cron::CRON_BYTES_MAX;
pub use in_turns::in_turns;
pub use rows::{Misfire, Overlap, RunStatus, SCHEDULES, ScheduleRunV1, ScheduleV1, Trigger};
pub use state::{Scheduler, SeenTime};
pub use task::{entries, next_turn, reconcile_each, turns};
pub use times::{Times, Unreadable, zone_name};

use super::{Feature, Holding};
use crate::config::SectionSpec;
use crate::features::billing::Retention;
use crate::features::jobs::{self, SubmitContext};
use crate::features::site_sessions::{self, SCHEDULE_SESSIONS};
use crate::features::urls::URLS;
use crate::features::wiring::Wiring;
use crate::features::workflows::{WORKFLOWS, WorkflowStatus};
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::{ScheduleId, ScheduleRunId, SiteSessionId, made_at};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};

use futures::future::BoxFuture;
use rows::{BY_SCHEDULE, PLANS, RUNS, RunStage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use server::permit::{Quota, SchedulesRead, SchedulesWrite, Verified};
use server::task::{Signals, TaskSpec};
use server::{
    Body, Created, Etag, Handler, IfMatch, Metrics, Need, NoContent, Org, OrgContext, Path, Query, Route,
    Services, apart,
};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store::{Event, OrgRead, OrgWrite};
use submit::Step;
use wire::{
    CheckedSchedule, NewSchedule, PreviewView, RunView, ScheduleView, ToggleRequest, ToggleView, TriggerView,
    keep_headers,
};

/// How soon a tick is seen.
const TICK_EVERY: Duration = Duration::from_secs(1);
const WATCH_EVERY: Duration = Duration::from_secs(30);
const REMOVE_EVERY: Duration = Duration::from_secs(300);
/// Ticks of a preview.
const PREVIEW_DEFAULT: usize = 10;
const PREVIEW_MAX: usize = 100;
/// How long a request to run at once waits for all jobs to be there; it says how many are.
const TRIGGER_WAIT: Duration = Duration::from_secs(20);
const TRIGGER_LOOK: Duration = Duration::from_millis(20);
/// By how much the id of a run may be older than its tick: both are taken from a clock, one after the other.
const MADE_BEFORE_MAX: Duration = Duration::from_secs(60);
/// Runs that go with a schedule in one operation.
const DELETED_PER_STEP: usize = 200;

pub static FEATURE: Feature = Feature {
    name: "schedules",
    uses: &["billing", "events", "jobs", "site_sessions", "urls", "workflows"],
    events: changes::EVENTS,
    sections: &[SectionSpec::of::<SchedulesConfig>()],
    open: Some(open),
    status: Some(status),
    gauges: Some(gauges),
    tables: &[&SCHEDULES, &RUNS, &PLANS],
    routes: &[
        Route::get("/api/v1/schedules", "listSchedules", &Handler::new(list))
            .about("The organization's schedules, newest first."),
        Route::post("/api/v1/schedules", "createSchedule", &Handler::new(create))
            .about("Makes a schedule; it fires from the next tick on.")
            .fails(&[Code::InvalidInput, Code::NotFound]),
        Route::get("/api/v1/schedules/runs", "listScheduleRuns", &Handler::new(list_runs))
            .about("What became of every tick, newest first."),
        Route::get("/api/v1/schedules/{id}", "getSchedule", &Handler::new(get)).about("One schedule."),
        Route::put("/api/v1/schedules/{id}", "updateSchedule", &Handler::new(update))
            .about("Gives a schedule other terms, all of them: what is left out has its default.")
            .fails(&[Code::InvalidInput, Code::NotFound]),
        Route::delete("/api/v1/schedules/{id}", "deleteSchedule", &Handler::new(delete))
            .about("Removes a schedule with its runs; their jobs and results stay.")
            .fails(&[Code::NotFound]),
        Route::get("/api/v1/schedules/{id}/preview", "previewSchedule", &Handler::new(preview))
            .about("When a schedule fires next."),
        Route::post("/api/v1/schedules/{id}/trigger", "triggerSchedule", &Handler::new(trigger))
            .about("Runs a schedule at once, by the way of a tick: its overlap policy holds.")
            .fails(&[Code::NotFound, Code::PaymentRequired, Code::QuotaExceeded]),
        Route::patch("/api/v1/schedules/{id}/toggle", "toggleSchedule", &Handler::new(toggle))
            .about("Switches a schedule on or off. Switched on it goes on with its cadence; nothing is made up for.")
            .fails(&[Code::InvalidInput, Code::NotFound]),
    ],
    tasks: &[
        TaskSpec::new(task::TICK, TICK_EVERY, |context| Box::pin(task::tick_all(context))),
        TaskSpec::new(task::SUBMIT, TICK_EVERY, |context| Box::pin(task::submit_all(context))),
        TaskSpec::new("schedules.follow", TICK_EVERY, |context| Box::pin(task::follow_all(context))),
        TaskSpec::new("schedules.watch", WATCH_EVERY, |context| Box::pin(task::watch(context))),
        TaskSpec::new("schedules.remove", REMOVE_EVERY, |context| Box::pin(task::remove_old(context))),
    ],
    needs: &[Need::of::<Scheduler>(), Need::of::<SubmitContext>(), Need::of::<Retention>()],
    views: &[views::SCHEDULE_VIEW, views::RUN_VIEW],
    holdings: &[Holding {
        name: "known schedules",
        remove: |context, org| {
            Box::pin(async move {
                context.service::<Scheduler>().forget(org);
                Ok(0)
            })
        },
    }],
    ..Feature::NONE
};

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        let config = wiring.config.section::<SchedulesConfig>();
        let scheduler = Scheduler::new(config.max_urls_per_run);
        wiring.hang::<Scheduler>(scheduler);
        Ok(())
    })
}

fn status(services: &Services) -> Vec<(&'static str, Value)> {
    let scheduler = services.service::<Scheduler>();
    let unreadable = scheduler.unreadable().into_iter();
    let unreadable: Vec<_> = unreadable
        .map(|((org, id), reason)| json!({ "org": org, "schedule": id, "reason": reason }))
        .collect();
    vec![
        ("schedulesOverdue", json!(scheduler.overdue_count())),
        ("schedulesMissed", json!(scheduler.missed())),
        ("schedulesSwitchedOff", json!(unreadable)),
    ]
}

fn gauges(metrics: &Metrics, services: &Services) {
    let scheduler = services.service::<Scheduler>();
    let (begun, missed, unreadable) = (scheduler.clone(), scheduler.clone(), scheduler.clone());
    metrics.gauge_of(
        "gleaner_schedule_runs_begun",
        "Runs that ticks let begin since the start.",
        &[],
        move || begun.begun.load(Ordering::Relaxed) as f64,
    );
    metrics.gauge_of(
        "gleaner_schedules_missed",
        "Ticks since the start whose time passed without a row.",
        &[],
        move || missed.missed() as f64,
    );
    metrics.gauge_of(
        "gleaner_schedules_overdue",
        "Schedules whose time has passed and about which nothing is decided yet.",
        &[],
        move || scheduler.overdue_count() as f64,
    );
    metrics.gauge_of(
        "gleaner_schedules_unreadable",
        "Schedules that cannot be read and do not fire.",
        &[],
        move || unreadable.unreadable().len() as f64,
    );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct ScheduleFilter {
    is_enabled: Option<bool>,
}

async fn list(
    org: Org<SchedulesRead>,
    Query(filter): Query<ScheduleFilter>,
    page: PageRequest,
) -> Result<Body<Page<ScheduleView>>> {
    let wanted = |row: &ScheduleV1| filter.is_enabled.is_none_or(|is_enabled| row.is_enabled == is_enabled);
    let views = org.read(|tx| {
        let Page { items, next_cursor } = tx.page(&SCHEDULES, &page, wanted)?;
        let items = items.into_iter().map(|row| ScheduleView::new(tx, row)).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    })?;
    Ok(Body(views))
}

async fn get(org: Org<SchedulesRead>, Path(id): Path<ScheduleId>) -> Result<Body<ScheduleView>> {
    Ok(Body(org.read(|tx| ScheduleView::new(tx, tx.require(&SCHEDULES, &id)?))?))
}

/// What a schedule refers to must be the organization's.
fn check_references(tx: &OrgRead<'_>, row: &ScheduleV1) -> Result<()> {
    if let Some(id) = row.workflow_id {
        let known = tx.get(&WORKFLOWS, &id)?.filter(|row| row.status != WorkflowStatus::Archived);
        if known.is_none() {
            let reason = "workflowId: is no workflow of this organization";
            return Err(Error::not_found(WORKFLOWS.noun()).message(reason));
        }
    }
    for (at, id) in row.url_ids.iter().flatten().enumerate() {
        if tx.get(&URLS, id)?.is_none() {
            let reason = format!("urlIds[{at}]: is not a registered URL");
            return Err(Error::not_found(URLS.noun()).message(reason));
        }
    }
    Ok(())
}

/// The site session that a schedule names must be there, unless it named that before.
fn check_session(
    tx: &OrgRead<'_>,
    session: Option<SiteSessionId>,
    before: Option<SiteSessionId>,
) -> Result<()> {
    match session.filter(|_| session != before) {
        Some(id) => site_sessions::known(tx, "options.siteSessionId", id).map(drop),
        None => Ok(()),
    }
}

async fn create(
    org: Org<Verified<SchedulesWrite>>,
    Body(new): Body<NewSchedule>,
) -> Result<Created<ScheduleView>> {
    let CheckedSchedule { mut row, session, times, .. } = new.checked(org.store().clock().now())?;
    let made = org.write(move |tx| {
        check_references(tx, &row)?;
        check_session(tx, session, None)?;
        row.created_at = tx.now();
        service::from_now(tx, &mut row, &times)?;
        tx.insert(&SCHEDULES, &row.id, &row)?;
        site_sessions::name(tx, &SCHEDULE_SESSIONS, &row.id, session)?;
        tx.audit(Event::new(Action::ScheduleCreated).of(row.id))?;
        ScheduleView::new(tx, row)
    });
    Ok(Created(made.await?))
}

async fn update(
    org: Org<SchedulesWrite>,
    Path(id): Path<ScheduleId>,
    condition: IfMatch,
    Body(new): Body<NewSchedule>,
) -> Result<Body<ScheduleView>> {
    let checked = new.checked(org.store().clock().now())?;
    let updated = org.write(move |tx| {
        let present = tx.require(&SCHEDULES, &id)?;
        condition.check(&Etag::of(&ScheduleView::new(tx, present.clone())?)?)?;
        let session = checked.session;
        check_session(tx, session, site_sessions::shown(tx, &SCHEDULE_SESSIONS, &id)?)?;
        let row = replaced(tx, present, checked)?;
        if row.overlap == Overlap::Skip {
            service::drop_waiting(tx, id, "overlap was made skip while it waited")?;
        }
        tx.put(&SCHEDULES, &id, &row)?;
        site_sessions::name(tx, &SCHEDULE_SESSIONS, &id, session)?;
        tx.audit(Event::new(Action::ScheduleUpdated).of(id))?;
        ScheduleView::new(tx, row)
    });
    let view = updated.await?;
    org.service::<Scheduler>().mended((org.id(), id));
    Ok(Body(view))
}

/// The schedule with other terms. It goes on with its ticks where those are the same.
fn replaced(tx: &OrgWrite<'_>, present: ScheduleV1, checked: CheckedSchedule) -> Result<ScheduleV1> {
    let CheckedSchedule { row: mut new, is_enabled, times, .. } = checked;
    if is_enabled.is_some_and(|is_enabled| is_enabled != present.is_enabled) {
        let reason = format!(
            "is {} and stays so here; PATCH /api/v1/schedules/{}/toggle changes it",
            present.is_enabled, present.id
        );
        return Err(Error::invalid("isEnabled", reason));
    }
    keep_headers(&mut new.options, &present.options)?;
    // What it names already may be gone meanwhile; what is new must be there.
    let is_new = |old: &ScheduleV1| (new.workflow_id, &new.url_ids) != (old.workflow_id, &old.url_ids);
    if is_new(&present) {
        check_references(tx, &new)?;
    }
    let same_times =
        (&new.cron, &new.timezone, new.jitter_sec) == (&present.cron, &present.timezone, present.jitter_sec);
    let mut row = ScheduleV1 {
        id: present.id,
        is_enabled: present.is_enabled,
        decided_until: present.decided_until,
        next_at: present.next_at,
        due_at: present.due_at,
        last_run_at: present.last_run_at,
        runs: present.runs,
        created_at: present.created_at,
        ..new
    };
    if !same_times {
        service::from_now(tx, &mut row, &times)?;
    }
    Ok(row)
}

async fn toggle(
    org: Org<Verified<SchedulesWrite>>,
    Path(id): Path<ScheduleId>,
    Body(request): Body<ToggleRequest>,
) -> Result<Body<ToggleView>> {
    let is_enabled = request.is_enabled;
    let toggled = org.write(move |tx| {
        let mut row = tx.require(&SCHEDULES, &id)?;
        if row.is_enabled == is_enabled {
            tx.unaudited("nothing is changed");
            return Ok(());
        }
        if is_enabled {
            let times = Times::read(&row.cron, &row.timezone);
            let times = times.map_err(|e| Error::invalid(e.field, e.reason))?;
            row.disabled_reason = None;
            service::from_now(tx, &mut row, &times)?;
        }
        if !is_enabled {
            service::drop_waiting(tx, id, service::SWITCHED_OFF)?;
        }
        row.is_enabled = is_enabled;
        tx.put(&SCHEDULES, &id, &row)?;
        tx.audit(Event::new(Action::ScheduleToggled).of(id).with("isEnabled", is_enabled.to_string()))
    });
    toggled.await?;
    org.service::<Scheduler>().mended((org.id(), id));
    Ok(Body(ToggleView { id, is_enabled }))
}

async fn delete(org: Org<SchedulesWrite>, Path(id): Path<ScheduleId>) -> Result<NoContent> {
    // The runs go first: a schedule whose removal is cut off is there, with fewer of them, and is removed by asking again.
    loop {
        let is_gone = org.write_freeing(move |tx| delete_some(tx, id)).await?;
        if is_gone {
            break;
        }
    }
    org.service::<Scheduler>().mended((org.id(), id));
    Ok(NoContent)
}

/// Removes some runs of a schedule, or the schedule itself where it has none any more; whether it did.
fn delete_some(tx: &OrgWrite<'_>, id: ScheduleId) -> Result<bool> {
    let mut row = tx.require(&SCHEDULES, &id)?;
    let mut runs = tx.readable_by(&RUNS, &BY_SCHEDULE, id, None, None, DELETED_PER_STEP)?;
    // Behind those that cannot be read, which stay.
    while runs.rows.is_empty()
        && let Some(after) = runs.more()
    {
        runs = tx.readable_by(&RUNS, &BY_SCHEDULE, id, None, Some(&after), DELETED_PER_STEP)?;
    }
    if runs.rows.is_empty() {
        tx.delete(&SCHEDULES, &id)?;
        tx.delete(&SCHEDULE_SESSIONS, &id)?;
        tx.audit(Event::new(Action::ScheduleDeleted).of(id))?;
        return Ok(true);
    }
    for (run, _) in runs.rows {
        tx.delete(&PLANS, &run)?;
        jobs::close_run(tx, jobs::of_run(run))?;
        tx.delete(&RUNS, &run)?;
    }
    // No tick comes between the steps.
    row.is_enabled = false;
    tx.put(&SCHEDULES, &id, &row)?;
    tx.unaudited("the step that removes the schedule itself has a row");
    Ok(false)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct PreviewQuery {
    /// 1 to 100; 10 unless said otherwise.
    #[schemars(range(min = 1, max = PREVIEW_MAX))]
    count: Option<usize>,
}

async fn preview(
    org: Org<SchedulesRead>,
    Path(id): Path<ScheduleId>,
    Query(query): Query<PreviewQuery>,
) -> Result<Body<PreviewView>> {
    let row = org.read(|tx| tx.require(&SCHEDULES, &id))?;
    let count = query.count.unwrap_or(PREVIEW_DEFAULT);
    if !(1..=PREVIEW_MAX).contains(&count) {
        return Err(Error::invalid("count", format!("must be 1 to {PREVIEW_MAX}")));
    }
    let times = Times::read(&row.cron, &row.timezone).map_err(|e| Error::conflict(e.reason))?;
    let mut at = org.store().clock().now();
    let mut fires = Vec::with_capacity(count);
    while fires.len() < count
        && let Some(next) = times.after(at)
    {
        fires.push(next);
        at = next;
    }
    Ok(Body(PreviewView { fires }))
}

async fn trigger(org: Org<Quota<SchedulesWrite>>, Path(id): Path<ScheduleId>) -> Result<Body<TriggerView>> {
    let run = org.write(move |tx| {
        let run = service::trigger(tx, id)?;
        tx.audit(Event::new(Action::ScheduleTriggered).of(id).with("runId", uuid::Uuid::from(run.id)))?;
        Ok(run)
    });
    let run = run.await?;
    let stopped = match run.stage {
        RunStage::Resolve => submit_now(&org, run.id).await?,
        _ => None,
    };
    let run = org.read(|tx| tx.require(&RUNS, &run.id))?;
    if run.jobs_created == 0
        && let Some(error) = stopped
        && matches!(error.code(), Code::PaymentRequired | Code::QuotaExceeded)
    {
        return Err(error);
    }
    let matched = run.status != RunStatus::NoUrls;
    Ok(Body(TriggerView {
        jobs_created: run.jobs_created,
        schedule_run_id: Some(run.id).filter(|_| matched),
        message: run.message.filter(|_| run.jobs_created == 0),
    }))
}

/// Submits the first part of a run, and waits while the others have their turns; what stopped it, if something did.
async fn submit_now(org: &OrgContext, run: ScheduleRunId) -> Result<Option<Error>> {
    let (own, context) = (org.store().clone(), org.service::<SubmitContext>());
    let (max_urls, signals) = (org.service::<Scheduler>().max_urls, org.service::<Signals>());
    // A task of its own acts for the box, as the one does that submits ticks, also where nobody waits any more.
    let first = tokio::spawn(async move {
        let step = submit::step(&own, &context, max_urls, run).await;
        signals.wake(task::SUBMIT);
        step
    });
    match first.await.map_err(|e| Error::internal("submit a schedule's run", e))?? {
        Step::Over { stopped, .. } => Ok(stopped),
        Step::More => {
            let until = Instant::now() + TRIGGER_WAIT;
            while Instant::now() < until && org.read(|tx| is_submitting(tx, run))? {
                tokio::time::sleep(TRIGGER_LOOK).await;
            }
            Ok(None)
        }
    }
}

fn is_submitting(tx: &OrgRead<'_>, run: ScheduleRunId) -> Result<bool> {
    let run = tx.get(&RUNS, &run)?;
    Ok(run.is_some_and(|run| matches!(run.stage, RunStage::Resolve | RunStage::Submit)))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct RunFilter {
    run_id: Option<ScheduleRunId>,
    schedule_id: Option<ScheduleId>,
    status: Option<RunStatus>,
    /// Only ticks from then on.
    from: Option<Timestamp>,
    /// Only ticks before then.
    to: Option<Timestamp>,
}

async fn list_runs(
    org: Org<SchedulesRead>,
    Query(filter): Query<RunFilter>,
    page: PageRequest,
) -> Result<Body<Page<RunView>>> {
    // Jobs are counted for runs that go on, and those may be many.
    let own = org.store().clone();
    let listed = apart(move || own.read(|tx| runs_page(tx, &filter, &page))).await??;
    Ok(Body(listed))
}

fn runs_page(tx: &OrgRead<'_>, filter: &RunFilter, page: &PageRequest) -> Result<Page<RunView>> {
    if filter.from.zip(filter.to).is_some_and(|(from, to)| from >= to) {
        return Err(Error::invalid("to", "is not after `from`"));
    }
    // No run is made before its tick, so behind one that was made well before `from` there is none that is wanted.
    let is_behind = Cell::new(false);
    let wanted = |run: &ScheduleRunV1| {
        let made = made_at(run.id.0).map(|made| tx.date_of(made).after(MADE_BEFORE_MAX));
        is_behind.set(is_behind.get() || filter.from.zip(made).is_some_and(|(from, made)| made < from));
        filter.schedule_id.is_none_or(|id| run.schedule_id == id)
            && filter.status.is_none_or(|status| run.status == status)
            && filter.from.is_none_or(|from| run.scheduled_for >= from)
            && filter.to.is_none_or(|to| run.scheduled_for < to)
    };
    let rows = match (filter.run_id, filter.schedule_id) {
        (Some(run), _) => {
            // A row alone has no second page: whatever cursor comes is none of this list's.
            page.position("schedule_run")?;
            let items = tx.get(&RUNS, &run)?.filter(wanted).into_iter().collect();
            Page { items, next_cursor: None }
        }
        (None, Some(id)) => tx.page_by(&RUNS, &BY_SCHEDULE, id, page, wanted)?,
        (None, None) => tx.page(&RUNS, page, wanted)?,
    };
    let view = |run: ScheduleRunV1| {
        let is_open = run.status == RunStatus::Running;
        let counts = is_open.then(|| jobs::run_counts(tx, run.id)).transpose()?;
        Ok(RunView::new(run, counts))
    };
    let items = rows.items.into_iter().map(view).collect::<Result<_>>()?;
    Ok(Page { items, next_cursor: rows.next_cursor.filter(|_| !is_behind.get()) })
}
