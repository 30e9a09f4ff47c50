//! The slices: each capability in one place, and the list of them.
//!
//! A slice is data to the trunk: its routes, its background work, the parts it needs, and what the SQL console sees
//! of its rows. Adding one touches its own file, a line in [`ALL`] and its test module.

pub mod api_keys;
pub mod audit;
pub mod auth;
pub mod bi;
pub mod billing;
pub mod cli_auth;
pub mod extraction;
pub mod jobs;
pub mod mail;
pub mod orgs;
pub mod urls;

use crate::base::Result;
use crate::engine::sql::{Cell, ColumnKind, ColumnSpec, TableName, TableSpec};
use crate::http::{Need, Route};
use crate::store::{AnyTable, OrgRead};
use crate::task::TaskSpec;
use std::sync::Arc;

/// One capability.
pub struct Feature {
    /// The slice's name: the module's, and the tag in the reference.
    pub name: &'static str,
    /// Every table of its rows, for what goes through all of them (`gleaner doctor`).
    pub tables: &'static [&'static dyn AnyTable],
    pub routes: &'static [Route],
    pub tasks: &'static [TaskSpec],
    /// Parts that must hang in `Services` before this slice can work.
    pub needs: &'static [Need],
    /// What the SQL console sees of this slice's rows.
    pub views: &'static [View],
}

impl Feature {
    /// A slice with nothing in it, for `..Feature::NONE`.
    pub const NONE: Feature =
        Feature { name: "", tables: &[], routes: &[], tasks: &[], needs: &[], views: &[] };
}

/// How the rows of one fed table look as tables of the SQL console.
pub struct View {
    /// The store table whose change records this follows.
    pub source: &'static str,
    /// Every console table this fills, with the columns that every organization has.
    pub tables: fn() -> Vec<TableSpec>,
    /// The console rows of the row under `key` as it is now; none in a table means that it has none there (any more).
    /// Every table that the row could ever stand in is named, so that old rows are replaced.
    pub rows: fn(&OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>>,
}

/// The rows of one console table that come from one stored row.
pub struct ViewRows {
    pub table: Arc<TableSpec>,
    pub rows: Vec<Vec<Cell>>,
}

/// A console table's description.
///
/// # Panics
/// When the name is not a table's: it is a literal of ours.
pub fn console_table(name: &str, about: &str, columns: Vec<ColumnSpec>) -> Arc<TableSpec> {
    let name = TableName::parse(name).expect("a console table's name is a literal of ours");
    Arc::new(TableSpec { name, description: about.to_owned(), columns, catalog_version: 1 })
}

/// A nullable column with its description.
pub fn column(name: &str, kind: ColumnKind, about: &str) -> ColumnSpec {
    ColumnSpec::new(name, kind).describe(about)
}

/// Every slice of this release.
pub static ALL: &[&Feature] = &[
    &auth::FEATURE,
    &orgs::FEATURE,
    &api_keys::FEATURE,
    &cli_auth::FEATURE,
    &mail::FEATURE,
    &urls::FEATURE,
    &jobs::FEATURE,
    &extraction::FEATURE,
    &billing::FEATURE,
    &bi::FEATURE,
    &audit::FEATURE,
];
