//! Dashboards on the wire: what a caller asks for, checked, and what is shown.

use super::layout::placed;
use super::rows::{ChartKind, ChartV1, DashboardV1, ParameterV1, PlaceV1, RefreshV1, TileResultV1, TileV1};
use crate::features::schedules::{CRON_BYTES_MAX, Times, Unreadable, zone_name};
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::{DashboardId, SavedQueryId, UserId};
use base::limits::{DASHBOARD_TILES_MAX, NAME_CHARS_MAX};
use base::name::Name;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::time::Duration;

/// Characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 2_000;
/// Parameters of a dashboard, and of a tile's statement.
const PARAMETERS_MAX: usize = 20;
/// Characters of a parameter's name, and bytes of a value.
const PARAMETER_CHARS_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 4 << 10;
/// Columns that a chart draws, and characters of a column's name.
const CHART_COLUMNS_MAX: usize = 10;
const COLUMN_CHARS_MAX: usize = 128;
/// The least time between two ticks, and how many of them are looked at for it.
const PACE_MIN: Duration = Duration::from_secs(60);
const TICKS_LOOKED_AT: usize = 12;

/// How a tile is drawn, by names of its result's columns.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "Chart")]
pub(super) struct ChartView {
    #[serde(rename = "type")]
    kind: ChartKind,
    #[schemars(length(min = 1, max = COLUMN_CHARS_MAX))]
    x: Option<String>,
    #[schemars(length(max = CHART_COLUMNS_MAX), inner(length(min = 1, max = COLUMN_CHARS_MAX)))]
    y: Vec<String>,
}

/// Where a tile is: cells of a grid of 12 columns, counted from 0.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TilePosition")]
pub(super) struct PositionView {
    /// 0 to 11.
    x: u16,
    /// 0 to 1,000.
    y: u16,
    /// 1 to 12, and no further than the last column.
    w: u16,
    /// 1 to 24.
    h: u16,
}

/// A value that tiles refer to by its name.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DashboardParameter")]
pub(super) struct ParameterView {
    #[schemars(length(min = 1, max = PARAMETER_CHARS_MAX))]
    name: String,
    /// A text, a number, a truth value or null.
    #[serde(default)]
    value: Value,
}

/// When a dashboard is made anew by itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DashboardRefresh")]
pub(super) struct RefreshView {
    /// As a schedule's; once a minute at most.
    #[schemars(length(min = 1, max = CRON_BYTES_MAX))]
    cron: String,
    /// An IANA zone; UTC unless given.
    #[serde(default)]
    timezone: Option<String>,
}

/// A tile as a caller gives it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewTile {
    /// That of a tile which is there and stays; the box numbers new ones.
    #[serde(default)]
    id: Option<u64>,
    /// The saved query's name unless given.
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    title: Option<String>,
    saved_query_id: SavedQueryId,
    /// The values of `$1`, `$2` …: each a text, a number, a truth value, null, or `{"parameter": "<name>"}`, one of the
    /// dashboard's.
    #[serde(default)]
    #[schemars(length(max = PARAMETERS_MAX))]
    params: Option<Vec<Value>>,
    /// A table unless given.
    #[serde(default)]
    chart: Option<ChartView>,
    /// Below the others unless given.
    #[serde(default)]
    position: Option<PositionView>,
}

/// A dashboard to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewDashboard {
    /// Unique in the organization.
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: String,
    #[serde(default)]
    #[schemars(length(max = DESCRIPTION_CHARS_MAX))]
    description: Option<String>,
    #[serde(default)]
    #[schemars(length(max = DASHBOARD_TILES_MAX))]
    tiles: Option<Vec<NewTile>>,
    #[serde(default)]
    #[schemars(length(max = PARAMETERS_MAX))]
    parameters: Option<Vec<ParameterView>>,
    #[serde(default)]
    refresh: Option<RefreshView>,
}

/// What is to be different. What is left out, or null, stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DashboardUpdate {
    #[serde(default)]
    #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
    name: Option<String>,
    /// An empty text removes it.
    #[serde(default)]
    #[schemars(length(max = DESCRIPTION_CHARS_MAX))]
    description: Option<String>,
    /// All of them: what is not among them is removed.
    #[serde(default)]
    #[schemars(length(max = DASHBOARD_TILES_MAX))]
    tiles: Option<Vec<NewTile>>,
    /// All of them.
    #[serde(default)]
    #[schemars(length(max = PARAMETERS_MAX))]
    parameters: Option<Vec<ParameterView>>,
    #[serde(default)]
    refresh: Option<RefreshView>,
    /// What the dashboard is to have none of from now on.
    #[serde(default)]
    clear: Option<Vec<Clearable>>,
}

/// What null would mean if it did not mean that it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClearableOfDashboard")]
pub(super) enum Clearable {
    Refresh,
}

impl NewDashboard {
    /// The same as a change of a dashboard that has nothing yet.
    pub fn update(self) -> DashboardUpdate {
        DashboardUpdate {
            name: Some(self.name),
            description: self.description,
            tiles: self.tiles,
            parameters: self.parameters,
            refresh: self.refresh,
            clear: None,
        }
    }
}

impl DashboardUpdate {
    /// Gives a row these terms. What it refers to is checked when it is written.
    pub fn apply(self, row: &mut DashboardV1, now: Timestamp) -> Result<()> {
        if let Some(name) = &self.name {
            row.name = Name::parse("name", name)?.into_string();
        }
        if let Some(text) = &self.description {
            row.description = description(text)?;
        }
        if let Some(given) = self.parameters {
            row.parameters = parameters(given)?;
        }
        if let Some(given) = self.tiles {
            row.tiles = tiles(given, row)?;
        }
        check_references(row)?;
        if self.clear.is_some_and(|clear| clear.contains(&Clearable::Refresh)) {
            if self.refresh.is_some() {
                return Err(Error::invalid("clear", "names refresh, which is given as well"));
            }
            row.refresh = None;
        }
        if let Some(given) = self.refresh {
            row.refresh = Some(refresh(given, now)?);
        }
        Ok(())
    }
}

fn description(text: &str) -> Result<Option<String>> {
    let text = text.trim();
    let chars = text.chars().count();
    if chars > DESCRIPTION_CHARS_MAX {
        let reason = format!("has {chars} characters; at most {DESCRIPTION_CHARS_MAX} are allowed");
        return Err(Error::invalid("description", reason));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn too_many(field: &str, count: usize, most: usize) -> Result<()> {
    match count > most {
        true => Err(Error::invalid(field, format!("has {count} entries; at most {most} are allowed"))),
        false => Ok(()),
    }
}

/// A text, a number, a truth value or null, of a bounded size.
fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array() && value.as_str().is_none_or(|text| text.len() <= VALUE_BYTES_MAX)
}

fn parameters(given: Vec<ParameterView>) -> Result<Vec<ParameterV1>> {
    too_many("parameters", given.len(), PARAMETERS_MAX)?;
    let mut names = HashSet::new();
    let mut all = Vec::new();
    for (at, ParameterView { name, value }) in given.into_iter().enumerate() {
        let chars = name.chars().count();
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if chars == 0 || chars > PARAMETER_CHARS_MAX || !is_name {
            let reason = format!("has 1 to {PARAMETER_CHARS_MAX} letters, digits and underscores");
            return Err(Error::invalid(&format!("parameters[{at}].name"), reason));
        }
        if !names.insert(name.clone()) {
            return Err(Error::invalid(&format!("parameters[{at}].name"), "is given twice"));
        }
        if !is_scalar(&value) {
            let reason =
                format!("is a text of {VALUE_BYTES_MAX} bytes at most, a number, a truth value or null");
            return Err(Error::invalid(&format!("parameters[{at}].value"), reason));
        }
        all.push(ParameterV1 { name, value: Json(value) });
    }
    Ok(all)
}

/// The name of the parameter that a tile's value is.
pub(super) fn referred(value: &Value) -> Option<&str> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get("parameter")?.as_str()
}

fn tiles(given: Vec<NewTile>, row: &mut DashboardV1) -> Result<Vec<TileV1>> {
    too_many("tiles", given.len(), DASHBOARD_TILES_MAX)?;
    let known: HashSet<u64> = row.tiles.iter().map(|tile| tile.id).collect();
    let (mut ids, mut all, mut places) = (HashSet::new(), Vec::new(), Vec::new());
    for (at, tile) in given.into_iter().enumerate() {
        let field = |name: &str| format!("tiles[{at}].{name}");
        let id = match tile.id {
            Some(id) if !known.contains(&id) => {
                return Err(Error::invalid(&field("id"), "is no tile of the dashboard"));
            }
            Some(id) => id,
            None => {
                row.next_tile += 1;
                row.next_tile
            }
        };
        if !ids.insert(id) {
            return Err(Error::invalid(&field("id"), "is given twice"));
        }
        let params = tile.params.unwrap_or_default();
        too_many(&field("params"), params.len(), PARAMETERS_MAX)?;
        if let Some(wrong) = params.iter().position(|value| !is_scalar(value) && referred(value).is_none()) {
            let reason = "is a text, a number, a truth value, null, or {\"parameter\": \"<name>\"}";
            return Err(Error::invalid(&field(&format!("params[{wrong}]")), reason));
        }
        let title = tile.title.as_deref().map(|title| Name::parse(&field("title"), title)).transpose()?;
        places.push(tile.position.map(|PositionView { x, y, w, h }| PlaceV1 { x, y, width: w, height: h }));
        all.push(TileV1 {
            id,
            title: title.map(Name::into_string),
            saved_query: tile.saved_query_id,
            params: Json(Value::Array(params)),
            chart: chart(&field("chart"), tile.chart.unwrap_or_default())?,
            place: PlaceV1 { x: 0, y: 0, width: 1, height: 1 },
        });
    }
    for (tile, place) in all.iter_mut().zip(placed(&places)?) {
        tile.place = place;
    }
    Ok(all)
}

fn chart(field: &str, given: ChartView) -> Result<ChartV1> {
    too_many(&format!("{field}.y"), given.y.len(), CHART_COLUMNS_MAX)?;
    let is_name = |name: &String| (1..=COLUMN_CHARS_MAX).contains(&name.chars().count());
    if !given.x.iter().chain(&given.y).all(is_name) {
        return Err(Error::invalid(field, format!("names columns by 1 to {COLUMN_CHARS_MAX} characters")));
    }
    Ok(ChartV1 { kind: given.kind, x: given.x, y: given.y })
}

/// Each parameter that a tile refers to is one of the dashboard's.
fn check_references(row: &DashboardV1) -> Result<()> {
    for (at, tile) in row.tiles.iter().enumerate() {
        for name in tile.params.0.as_array().into_iter().flatten().filter_map(referred) {
            if !row.parameters.iter().any(|parameter| parameter.name == name) {
                let name: String = name.chars().take(PARAMETER_CHARS_MAX).collect();
                let reason = format!("refers to \"{name}\", which is no parameter of the dashboard");
                return Err(Error::invalid(&format!("tiles[{at}].params"), reason));
            }
        }
    }
    Ok(())
}

fn refresh(given: RefreshView, now: Timestamp) -> Result<RefreshV1> {
    let cron = given.cron.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let zone = zone_name(given.timezone.as_deref().unwrap_or("UTC"));
    let timezone = zone.map_err(|reason| Error::invalid("refresh.timezone", reason))?.to_owned();
    let times = Times::parse(&cron, &timezone, now)
        .map_err(|Unreadable { field, reason }| Error::invalid(&format!("refresh.{field}"), reason))?;
    let ticks: Vec<_> =
        std::iter::successors(times.after(now), |tick| times.after(*tick)).take(TICKS_LOOKED_AT).collect();
    if ticks.windows(2).any(|pair| pair[1].since(pair[0]) < PACE_MIN) {
        return Err(Error::invalid("refresh.cron", "is too often: once a minute at most"));
    }
    Ok(RefreshV1 { cron, timezone })
}

/// What a tile showed last.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TileResultView {
    /// When the rows were asked for.
    refreshed_at: Timestamp,
    /// How old the tables may have been then.
    freshness_sec: u64,
    columns: Vec<TileColumnView>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    rows: Value,
    /// How many rows the statement gave.
    total_rows: u64,
    /// Whether there are more than these.
    is_truncated: bool,
    /// Why it could not be made anew the last time; the rows are from before then.
    error: Option<String>,
}

/// A column of a tile's rows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TileColumnView {
    name: String,
    /// By PostgreSQL's name.
    #[serde(rename = "type")]
    type_name: String,
}

/// A saved query on a dashboard.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TileView {
    id: u64,
    title: Option<String>,
    saved_query_id: SavedQueryId,
    #[schemars(with = "Vec<Value>")]
    params: Value,
    chart: ChartView,
    position: PositionView,
    /// What it showed last; null before it was made for the first time, and in lists.
    result: Option<TileResultView>,
}

/// Saved queries on one page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DashboardView {
    id: DashboardId,
    name: String,
    description: Option<String>,
    tiles: Vec<TileView>,
    parameters: Vec<ParameterView>,
    refresh: Option<RefreshView>,
    /// When all of its tiles were last made anew.
    refreshed_at: Option<Timestamp>,
    /// Whether they are being made anew, or wait for it.
    is_refreshing: bool,
    next_refresh_at: Option<Timestamp>,
    created_by: UserId,
    /// With whose permissions it is made anew: who changed it last.
    runs_as: UserId,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl DashboardView {
    /// A dashboard with what its tiles show, by their numbers.
    pub fn new(
        row: DashboardV1,
        mut result: impl FnMut(u64) -> Result<Option<TileResultV1>>,
    ) -> Result<DashboardView> {
        let tile = |tile: TileV1| {
            Ok(TileView {
                result: result(tile.id)?.map(TileResultView::from),
                id: tile.id,
                title: tile.title,
                saved_query_id: tile.saved_query,
                params: tile.params.0,
                chart: ChartView { kind: tile.chart.kind, x: tile.chart.x, y: tile.chart.y },
                position: PositionView {
                    x: tile.place.x,
                    y: tile.place.y,
                    w: tile.place.width,
                    h: tile.place.height,
                },
            })
        };
        let parameter = |one: ParameterV1| ParameterView { name: one.name, value: one.value.0 };
        Ok(DashboardView {
            id: row.id,
            name: row.name,
            description: row.description,
            tiles: row.tiles.into_iter().map(tile).collect::<Result<_>>()?,
            parameters: row.parameters.into_iter().map(parameter).collect(),
            refresh: row.refresh.map(|on| RefreshView { cron: on.cron, timezone: Some(on.timezone) }),
            refreshed_at: row.refreshed_at,
            is_refreshing: row.due.is_some(),
            next_refresh_at: row.next_at,
            created_by: row.created_by,
            runs_as: row.runs_as,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

impl From<TileResultV1> for TileResultView {
    fn from(row: TileResultV1) -> TileResultView {
        let column = |(name, type_name)| TileColumnView { name, type_name };
        TileResultView {
            refreshed_at: row.at,
            freshness_sec: row.freshness_sec,
            columns: row.columns.into_iter().map(column).collect(),
            rows: row.rows.0,
            total_rows: row.total_rows,
            is_truncated: row.is_cut,
            error: row.error,
        }
    }
}
