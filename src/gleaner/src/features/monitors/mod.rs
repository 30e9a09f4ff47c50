//! Monitors: statements that the box runs by itself, and that say when what they find is not as it should be.
//!
//! [`wire`]: what a monitor may be; [`judge`]: what a value means; [`service`]: the rules in the store; [`task`]: when they
//! run; [`changes`]: what is told. Statements run as the console's do (`features/bi/standing.rs`), with the permissions that
//! whoever changed the monitor last has then.

mod changes;
mod judge;
mod rows;
mod service;
mod state;
mod task;
mod views;
mod wire;

use super::{Feature, Holding};
use crate::features::bi::{Queries, StandingStatement};
use crate::features::schedules::SCHEDULES;
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::ids::MonitorId;
use base::limits::MONITORS_PER_ORG_MAX;
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use futures::future::BoxFuture;
use rows::{ConditionV1, MONITORS, MonitorState, MonitorV1, OnV1, PAST_VALUES, PLACE, SourceV1};
use schemars::JsonSchema;
use serde::Deserialize;
use server::permit::{BiRead, BiWrite, Verified};
use server::task::{Signals, TaskSpec};
use server::{Body, Created, Entitlement, Handler, Need, NoContent, Org, OrgContext, Path, Query, Route};
use state::Watch;
use std::time::Duration;
use store::{Event, OrgRead};
use wire::{CheckedTerms, MonitorUpdate, MonitorView, NewMonitor};

/// What a plan must have: statements are the console's.
const ENTITLEMENT: Entitlement = Entitlement("sqlConsole");
const TICK_EVERY: Duration = Duration::from_secs(1);
/// How soon it is seen that a run of a schedule has ended.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// How often all monitors are looked for anew.
const FIND_EVERY: Duration = Duration::from_secs(30);

pub static FEATURE: Feature = Feature {
    name: "monitors",
    uses: &["bi", "events", "schedules"],
    open: Some(open),
    tables: &[&MONITORS, &PAST_VALUES, &PLACE],
    routes: &[
        Route::get("/api/v1/monitors", "listMonitors", &Handler::new(list))
            .plan(ENTITLEMENT)
            .about("The organization's monitors, newest first."),
        Route::post("/api/v1/monitors", "createMonitor", &Handler::new(create))
            .plan(ENTITLEMENT)
            .about("Makes a monitor: it runs once, and from then on by its times or after its schedule's runs.")
            .fails(STATEMENT_FAILS),
        Route::get("/api/v1/monitors/{id}", "getMonitor", &Handler::new(get))
            .plan(ENTITLEMENT)
            .about("One monitor, with the state that it is in."),
        Route::patch("/api/v1/monitors/{id}", "updateMonitor", &Handler::new(update))
            .plan(ENTITLEMENT)
            .about("Gives a monitor other terms, or switches it on or off; what is left out stays. From then on it runs with the caller's permissions.")
            .fails(STATEMENT_FAILS),
        Route::delete("/api/v1/monitors/{id}", "deleteMonitor", &Handler::new(delete))
            .plan(ENTITLEMENT)
            .about("Removes a monitor; its events stay.")
            .fails(&[Code::NotFound]),
    ],
    tasks: &[
        TaskSpec::new("monitors.find", FIND_EVERY, |context| Box::pin(task::find_all(context))),
        TaskSpec::new("monitors.tick", TICK_EVERY, |context| Box::pin(task::tick_all(context))),
        TaskSpec::new("monitors.follow", FOLLOW_EVERY, |context| Box::pin(task::follow_all(context))),
        TaskSpec::new(task::RUN, TICK_EVERY, |context| Box::pin(task::run_all(context))),
    ],
    events: changes::EVENTS,
    views: &[views::VIEW],
    holdings: &[Holding {
        name: "monitors that listen",
        remove: |context, org| {
            Box::pin(async move {
                context.service::<Watch>().forget(org);
                Ok(0)
            })
        },
    }],
    needs: &[Need::of::<Watch>(), Need::of::<Queries>()],
    ..Feature::NONE
};

const STATEMENT_FAILS: &[Code] = &[
    Code::InvalidInput,
    Code::InvalidSql,
    Code::SyntaxError,
    Code::RlsDenied,
    Code::KillSwitched,
    Code::SavedQueryNotExecutable,
    Code::NotFound,
    Code::Conflict,
    Code::RateLimited,
    Code::ServiceUnavailable,
];

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        wiring.hang::<Watch>(Watch::default());
        Ok(())
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct MonitorFilter {
    #[schemars(with = "Option<MonitorState>")]
    state: Option<MonitorState>,
    is_enabled: Option<bool>,
}

async fn list(
    org: Org<BiRead>,
    Query(filter): Query<MonitorFilter>,
    page: PageRequest,
) -> Result<Body<Page<MonitorView>>> {
    let wanted = |row: &MonitorV1| {
        filter.state.is_none_or(|state| row.state == state)
            && filter.is_enabled.is_none_or(|is_enabled| row.is_enabled == is_enabled)
    };
    Ok(Body(org.read(|tx| tx.page(&MONITORS, &page, wanted))?.map(MonitorView::from)))
}

async fn get(org: Org<BiRead>, Path(id): Path<MonitorId>) -> Result<Body<MonitorView>> {
    Ok(Body(org.read(|tx| tx.require(&MONITORS, &id))?.into()))
}

/// The statement must run, and have the value.
async fn check_statement(org: &OrgContext, source: &SourceV1, condition: &ConditionV1) -> Result<()> {
    let statement = StandingStatement::from(source);
    let queries = org.service::<Queries>();
    let columns = queries.check_standing(org.store(), &statement, Vec::new()).await?;
    wire::check_value(condition, &columns)
}

/// What a monitor refers to must be the organization's.
fn check_schedule(tx: &OrgRead<'_>, on: &OnV1) -> Result<()> {
    match on {
        OnV1::Schedule(id) if tx.get(&SCHEDULES, id)?.is_none() => {
            let reason = "on.scheduleId: is no schedule of this organization";
            Err(Error::not_found(SCHEDULES.noun()).message(reason))
        }
        _ => Ok(()),
    }
}

async fn create(org: Org<Verified<BiWrite>>, Body(new): Body<NewMonitor>) -> Result<Created<MonitorView>> {
    let terms = new.checked(org.store().clock().now())?;
    let CheckedTerms {
        name: Some(name),
        source: Some(source),
        condition: Some(condition),
        on: Some(on),
        is_enabled,
    } = terms
    else {
        return Err(Error::internal("make a monitor", "its terms are not whole"));
    };
    org.read(|tx| check_schedule(tx, &on))?;
    check_statement(&org, &source, &condition).await?;
    let user = org.principal().user();
    let made = org.write(move |tx| {
        if tx.count(&MONITORS, MONITORS_PER_ORG_MAX)? >= MONITORS_PER_ORG_MAX {
            return Err(Error::conflict(format!(
                "An organization has at most {MONITORS_PER_ORG_MAX} monitors; delete one first."
            )));
        }
        check_schedule(tx, &on)?;
        let now = tx.now();
        let mut row = MonitorV1 {
            id: MonitorId::new(),
            name,
            source,
            condition,
            on,
            is_enabled: is_enabled.unwrap_or(true),
            created_by: user,
            runs_as: user,
            revision: 0,
            created_at: now,
            updated_at: now,
            state: MonitorState::Ok,
            since: now,
            reason: None,
            last_run_at: None,
            last_value: None,
            compared_with: None,
            known_value: None,
            held: 0,
            missed: 0,
            decided_until: now,
            next_at: None,
            due: None,
        };
        service::begin(tx, &mut row)?;
        tx.insert(&MONITORS, &row.id, &row)?;
        tx.audit(Event::new(Action::MonitorCreated).of(row.id))?;
        Ok(row)
    });
    let row = made.await?;
    run_soon(&org, &row);
    Ok(Created(row.into()))
}

/// Who has it is known to who follows schedules, and what is due is run.
fn run_soon(org: &OrgContext, row: &MonitorV1) {
    if matches!(row.on, OnV1::Schedule(_)) {
        org.service::<Watch>().listen(org.store());
    }
    org.service::<Signals>().wake(task::RUN);
}

async fn update(
    org: Org<BiWrite>,
    Path(id): Path<MonitorId>,
    Body(update): Body<MonitorUpdate>,
) -> Result<Body<MonitorView>> {
    let terms = update.checked(org.store().clock().now())?;
    let before = org.read(|tx| tx.require(&MONITORS, &id))?;
    let mut row = before.clone();
    row.name = terms.name.unwrap_or(row.name);
    row.source = terms.source.unwrap_or(row.source);
    row.condition = terms.condition.unwrap_or(row.condition);
    row.on = terms.on.unwrap_or(row.on);
    row.is_enabled = terms.is_enabled.unwrap_or(row.is_enabled);
    let is_other_statement = (&row.source, &row.condition) != (&before.source, &before.condition);
    if is_other_statement {
        check_statement(&org, &row.source, &row.condition).await?;
    }
    let user = org.principal().user();
    let changed = org.write(move |tx| {
        let now = tx.require(&MONITORS, &id)?;
        if now.revision != before.revision || now.name != before.name {
            return Err(Error::conflict(
                "The monitor was changed meanwhile: ask for it and change it again.",
            ));
        }
        if row == before && user == now.runs_as {
            tx.unaudited("nothing is changed");
            return Ok(now);
        }
        if row.on != before.on {
            check_schedule(tx, &row.on)?;
        }
        // Terms are of the request; the state is what runs have found out meanwhile.
        let mut new = MonitorV1 {
            name: row.name,
            source: row.source,
            condition: row.condition,
            on: row.on,
            is_enabled: row.is_enabled,
            runs_as: user,
            updated_at: tx.now(),
            ..now
        };
        if is_other_statement {
            service::forget_values(tx, &mut new)?;
        }
        service::begin(tx, &mut new)?;
        tx.put(&MONITORS, &id, &new)?;
        tx.audit(Event::new(Action::MonitorUpdated).of(id))?;
        Ok(new)
    });
    let row = changed.await?;
    run_soon(&org, &row);
    Ok(Body(row.into()))
}

async fn delete(org: Org<BiWrite>, Path(id): Path<MonitorId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        tx.require(&MONITORS, &id)?;
        tx.delete(&MONITORS, &id)?;
        tx.delete(&PAST_VALUES, &id)?;
        tx.audit(Event::new(Action::MonitorDeleted).of(id))
    });
    deleted.await?;
    Ok(NoContent)
}
