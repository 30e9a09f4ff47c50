//! Dashboards: saved queries as tiles on one page, with what they last gave, made anew by cron or when somebody looks.
//!
//! [`wire`]: what a dashboard may be; [`layout`]: where its tiles are; [`service`]: the rules in the store; [`task`]: making them
//! anew. Statements run as the console's do (`features/bi/standing.rs`), and everybody of the organization who may read the
//! console's tables sees the same page.

mod layout;
mod rows;
mod service;
mod task;
mod wire;

use super::Feature;
use crate::features::bi::{Queries, SAVED_QUERIES};
use crate::features::wiring::Wiring;
use base::audit::Action;
use base::clock::Timestamp;
use base::ids::DashboardId;
use base::limits::DASHBOARDS_PER_ORG_MAX;
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use futures::future::BoxFuture;
use rows::{DASHBOARDS, DashboardV1, RESULTS, TileV1};
use schemars::JsonSchema;
use serde::Deserialize;
use server::permit::{BiRead, BiWrite};
use server::task::{Signals, TaskSpec};
use server::{Body, Created, Handler, Need, NoContent, Org, OrgContext, Path, Query, Route};
use std::time::Duration;
use store::{Event, OrgRead};
use task::Refreshes;
use wire::{DashboardUpdate, DashboardView, NewDashboard};

const TICK_EVERY: Duration = Duration::from_secs(1);
/// The least age that somebody who looks may ask for, in seconds.
const AGE_MIN_SEC: u64 = 10;

pub static FEATURE: Feature = Feature {
    name: "dashboards",
    uses: &["bi", "schedules"],
    open: Some(open),
    tables: &[&DASHBOARDS, &RESULTS],
    routes: &[
        Route::get("/api/v1/bi/dashboards", "listDashboards", &Handler::new(list))
            .about("The organization's dashboards without what they show, newest first."),
        Route::post("/api/v1/bi/dashboards", "createDashboard", &Handler::new(create))
            .about("Makes a dashboard of saved queries; what its tiles show is made at once, in the background.")
            .fails(&[Code::InvalidInput, Code::NotFound, Code::AlreadyExists, Code::Conflict]),
        Route::get("/api/v1/bi/dashboards/{id}", "getDashboard", &Handler::new(get))
            .about("One dashboard with what each tile showed last. With maxAgeSec, what is older is made anew in the background.")
            .fails(&[Code::InvalidInput]),
        Route::patch("/api/v1/bi/dashboards/{id}", "updateDashboard", &Handler::new(update))
            .about("Gives a dashboard other terms or tiles; what is left out stays. From then on it is made anew with the caller's permissions.")
            .fails(&[Code::InvalidInput, Code::NotFound, Code::AlreadyExists, Code::Conflict]),
        Route::delete("/api/v1/bi/dashboards/{id}", "deleteDashboard", &Handler::new(delete))
            .about("Removes a dashboard; its saved queries stay.")
            .fails(&[Code::NotFound]),
    ],
    tasks: &[
        TaskSpec::new("dashboards.tick", TICK_EVERY, |context| Box::pin(task::tick_all(context))),
        TaskSpec::new(task::REFRESH, TICK_EVERY, |context| Box::pin(task::refresh_all(context))),
    ],
    needs: &[Need::of::<Refreshes>(), Need::of::<Queries>()],
    ..Feature::NONE
};

/// Opens the slice's part.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        wiring.hang::<Refreshes>(Refreshes::default());
        Ok(())
    })
}

/// What is asked of one dashboard.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct AgeQuery {
    /// What is older than so many seconds is made anew in the background; 10 at least.
    #[schemars(range(min = AGE_MIN_SEC))]
    max_age_sec: Option<u64>,
}

async fn list(org: Org<BiRead>, page: PageRequest) -> Result<Body<Page<DashboardView>>> {
    let Page { items, next_cursor } = org.read(|tx| tx.page(&DASHBOARDS, &page, |_| true))?;
    let items = items.into_iter().map(|row| DashboardView::new(row, |_| Ok(None))).collect::<Result<_>>()?;
    Ok(Body(Page { items, next_cursor }))
}

/// A dashboard with what its tiles showed last.
fn viewed(tx: &OrgRead<'_>, row: DashboardV1) -> Result<DashboardView> {
    let id = row.id;
    DashboardView::new(row, |tile| tx.get(&RESULTS, &(id, tile)))
}

async fn get(
    org: Org<BiRead>,
    Path(id): Path<DashboardId>,
    Query(query): Query<AgeQuery>,
) -> Result<Body<DashboardView>> {
    let row = org.read(|tx| tx.require(&DASHBOARDS, &id))?;
    if let Some(age) = query.max_age_sec {
        if age < AGE_MIN_SEC {
            return Err(Error::invalid("maxAgeSec", format!("must be {AGE_MIN_SEC} at least")));
        }
        if is_older(&org, &row, Duration::from_secs(age)) {
            ask_anew(&org, id).await?;
        }
    }
    Ok(Body(org.read(|tx| viewed(tx, tx.require(&DASHBOARDS, &id)?))?))
}

fn is_older(org: &OrgContext, row: &DashboardV1, age: Duration) -> bool {
    let now = org.store().clock().look();
    let is_old = |at: Timestamp| now.age(at) > age;
    row.due.is_none() && !row.tiles.is_empty() && row.refreshed_at.is_none_or(is_old)
}

async fn ask_anew(org: &OrgContext, id: DashboardId) -> Result<()> {
    let asked = org.write(move |tx| {
        tx.unaudited("what a dashboard shows is made anew");
        let Some(mut row) = tx.get(&DASHBOARDS, &id)?.filter(|row| row.due.is_none()) else { return Ok(()) };
        row.due = Some(tx.now());
        tx.put(&DASHBOARDS, &id, &row)
    });
    asked.await?;
    org.service::<Signals>().wake(task::REFRESH);
    Ok(())
}

/// Saved queries that were not named before are the organization's.
fn check_queries(tx: &OrgRead<'_>, tiles: &[TileV1], before: &[TileV1]) -> Result<()> {
    for (at, tile) in tiles.iter().enumerate() {
        let is_known = before.iter().any(|known| known.saved_query == tile.saved_query);
        if !is_known && tx.get(&SAVED_QUERIES, &tile.saved_query)?.is_none() {
            let reason = format!("tiles[{at}].savedQueryId: is no saved query of this organization");
            return Err(Error::not_found(SAVED_QUERIES.noun()).message(reason));
        }
    }
    Ok(())
}

fn name_taken(error: Error) -> Error {
    match error.code() {
        Code::AlreadyExists => error.message("name: another dashboard has it"),
        _ => error,
    }
}

async fn create(org: Org<BiWrite>, Body(new): Body<NewDashboard>) -> Result<Created<DashboardView>> {
    let (user, now) = (org.principal().user(), org.store().clock().now());
    let mut row = DashboardV1 {
        id: DashboardId::new(),
        name: String::new(),
        description: None,
        tiles: Vec::new(),
        next_tile: 0,
        parameters: Vec::new(),
        refresh: None,
        created_by: user,
        runs_as: user,
        revision: 0,
        created_at: now,
        updated_at: now,
        refreshed_at: None,
        decided_until: now,
        next_at: None,
        due: None,
    };
    new.update().apply(&mut row, now)?;
    let made = org.write(move |tx| {
        if tx.count(&DASHBOARDS, DASHBOARDS_PER_ORG_MAX)? >= DASHBOARDS_PER_ORG_MAX {
            return Err(Error::conflict(format!(
                "An organization has at most {DASHBOARDS_PER_ORG_MAX} dashboards; delete one first."
            )));
        }
        check_queries(tx, &row.tiles, &[])?;
        (row.created_at, row.updated_at) = (tx.now(), tx.now());
        service::begin(tx, &mut row);
        tx.insert(&DASHBOARDS, &row.id, &row).map_err(name_taken)?;
        tx.audit(Event::new(Action::DashboardCreated).of(row.id))?;
        viewed(tx, row)
    });
    let view = made.await?;
    org.service::<Signals>().wake(task::REFRESH);
    Ok(Created(view))
}

async fn update(
    org: Org<BiWrite>,
    Path(id): Path<DashboardId>,
    Body(update): Body<DashboardUpdate>,
) -> Result<Body<DashboardView>> {
    let before = org.read(|tx| tx.require(&DASHBOARDS, &id))?;
    let mut row = before.clone();
    update.apply(&mut row, org.store().clock().now())?;
    let user = org.principal().user();
    let changed = org.write(move |tx| {
        let now = tx.require(&DASHBOARDS, &id)?;
        if now.revision != before.revision {
            return Err(Error::conflict(
                "The dashboard was changed meanwhile: ask for it and change it again.",
            ));
        }
        if row == before && now.runs_as == user {
            tx.unaudited("nothing is changed");
            return viewed(tx, now);
        }
        check_queries(tx, &row.tiles, &before.tiles)?;
        service::forget_results(tx, &before, &row)?;
        // A parameter's other value is another result of whoever refers to it; the old one is shown until that is there.
        let mut new =
            DashboardV1 { runs_as: user, updated_at: tx.now(), refreshed_at: now.refreshed_at, ..row };
        service::begin(tx, &mut new);
        tx.put(&DASHBOARDS, &id, &new).map_err(name_taken)?;
        tx.audit(Event::new(Action::DashboardUpdated).of(id))?;
        viewed(tx, new)
    });
    let view = changed.await?;
    org.service::<Signals>().wake(task::REFRESH);
    Ok(Body(view))
}

async fn delete(org: Org<BiWrite>, Path(id): Path<DashboardId>) -> Result<NoContent> {
    let deleted = org.write_freeing(move |tx| {
        let row = tx.require(&DASHBOARDS, &id)?;
        for tile in &row.tiles {
            tx.delete(&RESULTS, &(id, tile.id))?;
        }
        tx.delete(&DASHBOARDS, &id)?;
        tx.audit(Event::new(Action::DashboardDeleted).of(id))
    });
    deleted.await?;
    Ok(NoContent)
}
