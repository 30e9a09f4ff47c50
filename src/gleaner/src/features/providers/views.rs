//! What the SQL console sees of providers: never a credential, sealed or not.

use super::rows::{PROVIDERS, ProviderV1};
use crate::features::{View, ViewRows, column, console_table};
use base::Result;
use base::ids::ProviderId;
use sql::{Cell, ColumnKind as Kind, TableSpec};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

pub(super) const VIEW: View =
    View { source: "providers", tables: || vec![PROVIDER_TABLE.as_ref().clone()], rows };

static PROVIDER_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    console_table(
        "providers",
        "The connected providers, without their credentials.",
        vec![
            column("id", Kind::Text, "The provider's id").required(),
            column("adapter", Kind::Text, "direct, proxy, browser, or a hosted service").required(),
            column("name", Kind::Text, "What the organization calls it").required(),
            column("base_url", Kind::Text, "Where it is asked, unless at the vendor's own address"),
            column("max_concurrency", Kind::Int64, "Requests at once"),
            column("is_enabled", Kind::Bool, "Whether jobs go out through it").required(),
            column("created_at", Kind::Timestamp, "When it was connected").required(),
            column("updated_at", Kind::Timestamp, "When it was last changed").required(),
        ],
    )
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = ProviderId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&PROVIDERS, &id)?;
    Ok(vec![ViewRows { table: PROVIDER_TABLE.clone(), rows: row.iter().map(cells).collect() }])
}

fn cells(row: &ProviderV1) -> Vec<Cell> {
    vec![
        Cell::from(row.id.to_string()),
        Cell::from(row.adapter.as_str()),
        Cell::from(row.name.as_str()),
        row.base_url.as_deref().map_or(Cell::Null, Cell::from),
        row.max_concurrency.map_or(Cell::Null, |max| Cell::Int(max.into())),
        Cell::Bool(row.is_enabled),
        Cell::Time(row.created_at.millis()),
        Cell::Time(row.updated_at.millis()),
    ]
}
