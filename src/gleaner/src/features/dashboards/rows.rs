//! Dashboards as they are stored, and what their tiles showed last.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::ids::{DashboardId, SavedQueryId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

base::words! {
    /// How a tile is drawn.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum ChartKind {
        #[default]
        Table "table",
        /// One number.
        Number "number",
        Line "line",
        Bar "bar",
        Scatter "scatter",
    }
}

/// What is drawn of a result: names of its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartV1 {
    pub kind: ChartKind,
    pub x: Option<String>,
    pub y: Vec<String>,
}

/// Where a tile is, in cells of a grid of twelve columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceV1 {
    pub x: u16,
    pub y: u16,
    pub width: u16,
    pub height: u16,
}

/// A saved query on a dashboard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileV1 {
    /// Its number on the dashboard, never given twice.
    pub id: u64,
    pub title: Option<String>,
    pub saved_query: SavedQueryId,
    /// The values of the statement's parameters, or which of the dashboard's they are: an array.
    pub params: Json,
    pub chart: ChartV1,
    pub place: PlaceV1,
}

/// A value that several tiles share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterV1 {
    pub name: String,
    pub value: Json,
}

/// When a dashboard is made anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshV1 {
    pub cron: String,
    pub timezone: String,
}

/// Saved queries on one page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DashboardV1 {
    pub id: DashboardId,
    pub name: String,
    pub description: Option<String>,
    pub tiles: Vec<TileV1>,
    /// The number of the next new tile.
    pub next_tile: u64,
    pub parameters: Vec<ParameterV1>,
    pub refresh: Option<RefreshV1>,
    pub created_by: UserId,
    /// With whose permissions it is made anew: who changed it last.
    pub runs_as: UserId,
    /// Grows with each change of what it shows.
    pub revision: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When all of its tiles were last made anew.
    pub refreshed_at: Option<Timestamp>,
    /// Every tick up to here was decided, or was before the dashboard's time.
    pub decided_until: Timestamp,
    pub next_at: Option<Timestamp>,
    /// Since when it is to be made anew.
    pub due: Option<Timestamp>,
}

impl Record for DashboardV1 {}

/// When dashboards of all organizations have a tick to be decided.
pub static TICKS: Index<Timestamp, DashboardV1> = Index::global("bi_dashboards.ticks", |row, keys| {
    if let Some(next) = row.next_at {
        keys.add(next);
    }
});

/// Dashboards of all organizations that are to be made anew.
pub static TO_REFRESH: Index<Timestamp, DashboardV1> =
    Index::global("bi_dashboards.to_refresh", |row, keys| {
        if let Some(due) = row.due {
            keys.add(due);
        }
    });

/// A name stands for one dashboard.
pub static BY_NAME: Index<String, DashboardV1> =
    Index::unique("bi_dashboards.by_name", |row, keys| keys.add(&row.name));

pub static DASHBOARDS: OrgTable<DashboardId, DashboardV1> =
    OrgTable::new("bi_dashboards", "Dashboard").indexed(&[&TICKS, &TO_REFRESH, &BY_NAME]);

/// What a tile shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileResultV1 {
    /// When the rows were asked for.
    pub at: Timestamp,
    pub freshness_sec: u64,
    /// Names and types.
    pub columns: Vec<(String, String)>,
    /// An array of objects.
    pub rows: Json,
    pub total_rows: u64,
    /// There are more rows than these.
    pub is_cut: bool,
    /// Why it was not made anew the last time; the rows are those from before then.
    pub error: Option<String>,
}

impl Record for TileResultV1 {}

/// By the dashboard and the tile's number.
pub static RESULTS: OrgTable<(DashboardId, u64), TileResultV1> =
    OrgTable::new("bi_dashboard_results", "Tile").uncounted();
