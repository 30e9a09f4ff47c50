//! The work of dashboards: ticks, and making anew what their tiles show, tile by tile, in turns over the organizations.

use super::rows::{DASHBOARDS, DashboardV1, TICKS, TO_REFRESH, TileResultV1, TileV1};
use super::service;
use super::wire::referred;
use crate::features::bi::{Queries, StandingFailure, StandingRows, StandingStatement, lacks};
use crate::features::schedules::{entries, in_turns, next_turn, turns};
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::{DashboardId, OrgId};
use base::limits::{DASHBOARDS_PER_ORG_MAX, TILE_ROWS_MAX};
use base::{Code, Result};
use parking_lot::Mutex;
use serde_json::Value;
use server::task::{Signals, TaskContext};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use store::{Key, OrgStore, OrgWrite, is_unreadable};

pub(super) const REFRESH: &str = "dashboards.refresh";

/// Dashboards of one organization that are decided in one operation.
const TICKS_PER_TURN: usize = 50;
/// Bytes of a tile's rows as JSON.
const TILE_BYTES_MAX: usize = 128 << 10;
/// How long one rests that could not be made anew, and how often it is tried.
const REST: Duration = Duration::from_secs(10);
const TRIES_MAX: u32 = 5;
/// Characters of an error.
const ERROR_CHARS_MAX: usize = 500;

/// What rests. Hung up in the services.
#[derive(Default)]
pub(super) struct Refreshes {
    resting: Mutex<HashMap<DashboardId, Instant>>,
    /// How often each was tried in vain.
    tries: Mutex<HashMap<DashboardId, u32>>,
    /// The latest time at which ticks were looked for.
    seen: Mutex<Option<Timestamp>>,
}

impl Refreshes {
    fn rest(&self, id: DashboardId) {
        self.resting.lock().insert(id, Instant::now() + REST);
    }

    /// Counts a try; whether it is to be tried again.
    fn tries_again(&self, id: DashboardId, is_whole: bool) -> bool {
        let mut tries = self.tries.lock();
        let count = tries.get(&id).map_or(1, |count| count + 1);
        if is_whole || count >= TRIES_MAX {
            tries.remove(&id);
            return false;
        }
        tries.insert(id, count);
        true
    }

    fn is_awake(&self, id: DashboardId) -> bool {
        let mut resting = self.resting.lock();
        match resting.get(&id) {
            Some(until) if *until > Instant::now() => false,
            Some(_) => resting.remove(&id).is_some(),
            None => true,
        }
    }

    /// Whether dates went back since ticks were last looked for, or were never looked for.
    fn is_new_time(&self, now: Timestamp) -> bool {
        let mut seen = self.seen.lock();
        seen.replace(now).is_none_or(|seen| now < seen)
    }
}

/// Decides every tick that is due.
pub(super) async fn tick_all(context: TaskContext) -> Result<()> {
    let now = context.now();
    if context.service::<Refreshes>().is_new_time(now) {
        let mut last = None;
        while let Some(org) = context.system().read(|tx| tx.next_org(DASHBOARDS.name(), last))? {
            last = Some(org);
            let own = context.system().org(org);
            let keys = own.read(|tx| tx.keys(DASHBOARDS.name(), None, DASHBOARDS_PER_ORG_MAX))?;
            let ids = keys.iter().filter_map(|key| DashboardId::decode(key)).collect();
            decide(&own, ids, service::reconcile).await;
        }
    }
    let due = context.system().read(|tx| entries(tx, &DASHBOARDS, &TICKS, Some(now)))?;
    let mut turns = turns(due);
    while !turns.is_empty() && !context.stopping() {
        for (org, ids) in next_turn(&mut turns, TICKS_PER_TURN) {
            decide(&context.system().org(org), ids, service::tick).await;
        }
        context.service::<Signals>().wake(REFRESH);
    }
    Ok(())
}

/// Decides about these dashboards, each by itself where a row of them is damaged.
async fn decide(org: &OrgStore, ids: Vec<DashboardId>, change: fn(&OrgWrite<'_>, DashboardId) -> Result<()>) {
    let all = ids.clone();
    let decided = org.write(move |tx| all.iter().try_for_each(|id| change(tx, *id))).await;
    if let Err(error) = decided {
        if is_unreadable(&error) {
            for id in ids {
                if let Err(error) = org.write(move |tx| change(tx, id)).await {
                    tracing::warn!(org = %org.id(), dashboard = %id, %error, "a dashboard could not be decided about");
                }
            }
        } else if error.code() != Code::OrgNotFound {
            tracing::warn!(org = %org.id(), %error, "ticks of dashboards could not be decided, and are tried again");
        }
    }
}

/// Makes anew what is due.
pub(super) async fn refresh_all(context: TaskContext) -> Result<()> {
    let refreshes = context.service::<Refreshes>();
    let find = || {
        let mut found = context.system().read(|tx| entries(tx, &DASHBOARDS, &TO_REFRESH, None))?;
        found.retain(|(_, id, _)| refreshes.is_awake(*id));
        Ok(found)
    };
    let act = |org: OrgId, id: DashboardId| {
        let (context, refreshes) = (context.clone(), refreshes.clone());
        async move {
            if let Err(error) = refresh(&context, &context.system().org(org), id).await {
                // It stays due.
                refreshes.rest(id);
                if error.code() != Code::OrgNotFound {
                    tracing::warn!(%org, dashboard = %id, %error, "a dashboard could not be made anew");
                }
            }
        }
    };
    in_turns(&context, find, act).await
}

async fn refresh(context: &TaskContext, own: &OrgStore, id: DashboardId) -> Result<()> {
    let Some(row) = own.read(|tx| tx.get(&DASHBOARDS, &id))?.filter(|row| row.due.is_some()) else {
        return Ok(());
    };
    let lack = lacks(context, own, row.runs_as)?;
    let mut is_whole = true;
    for tile in &row.tiles {
        if context.stopping() {
            // It is due when the box is back.
            return Ok(());
        }
        let found = match &lack {
            Some(why) => {
                let why = format!("{why}; whoever changes the dashboard has it made anew from then on");
                Err(StandingFailure::Refused(why))
            }
            None => show(context, own, &row, tile).await,
        };
        is_whole &= !matches!(found, Err(StandingFailure::Later(_)));
        let found = found.map_err(|failure| {
            let (StandingFailure::Refused(why) | StandingFailure::Later(why)) = failure;
            why.chars().take(ERROR_CHARS_MAX).collect::<String>()
        });
        let (began, number) = (row.clone(), tile.id);
        if !own.write(move |tx| service::take(tx, &began, number, found)).await? {
            return Ok(());
        }
    }
    let refreshes = context.service::<Refreshes>();
    if refreshes.tries_again(id, is_whole) {
        refreshes.rest(id);
        return Ok(());
    }
    own.write(move |tx| service::finish(tx, &row)).await
}

/// What a tile shows now, or why that is not known.
async fn show(
    context: &TaskContext,
    own: &OrgStore,
    row: &DashboardV1,
    tile: &TileV1,
) -> std::result::Result<TileResultV1, StandingFailure> {
    let at = context.now();
    let statement = StandingStatement::Saved(tile.saved_query);
    let queries = context.service::<Queries>();
    let found = queries.run_standing(own, &statement, values(row, tile), TILE_ROWS_MAX).await?;
    Ok(shown(at, found))
}

/// The values of a tile's statement, with those of the dashboard in their places.
fn values(row: &DashboardV1, tile: &TileV1) -> Vec<Value> {
    let of = |value: &Value| match referred(value) {
        None => value.clone(),
        Some(name) => {
            let known = row.parameters.iter().find(|parameter| parameter.name == name);
            known.map_or(Value::Null, |parameter| parameter.value.0.clone())
        }
    };
    tile.params.0.as_array().into_iter().flatten().map(of).collect()
}

/// As many of the rows as a tile has room for.
fn shown(at: Timestamp, found: StandingRows) -> TileResultV1 {
    let StandingRows { columns, rows, total_rows, is_cut, freshness_sec } = found;
    let (mut bytes, mut kept) = (0, Vec::new());
    for row in rows {
        let row = Value::Object(row);
        bytes += row.to_string().len() + 1;
        if bytes > TILE_BYTES_MAX {
            break;
        }
        kept.push(row);
    }
    TileResultV1 {
        at,
        freshness_sec,
        columns: columns.into_iter().map(|column| (column.name, column.type_name)).collect(),
        is_cut: is_cut || (kept.len() as u64) < total_rows,
        rows: Json(Value::Array(kept)),
        total_rows,
        error: None,
    }
}
