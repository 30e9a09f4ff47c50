//! What the SQL console sees of providers: never a credential, sealed or not.

use super::rows::{PROVIDERS, ProviderV1};
use crate::console::{Column, ConsoleTable, View, ViewRows, optional_int, optional_text, text, time};
use base::Result;
use base::ids::ProviderId;
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const VIEW: View = View { source: "providers", tables: || vec![PROVIDER_TABLE.spec()], rows };

static PROVIDER_TABLE: LazyLock<ConsoleTable<ProviderV1>> = LazyLock::new(|| {
    ConsoleTable::<ProviderV1>::new(
        "providers",
        "The connected providers, without their credentials.",
        [
            Column::required("id", Kind::Text, "The provider's id", |row| text(row.id)),
            Column::required("adapter", Kind::Text, "direct, proxy, browser, or a hosted service", |row| {
                Cell::from(row.adapter.as_str())
            }),
            Column::required("name", Kind::Text, "What the organization calls it", |row| {
                Cell::from(row.name.as_str())
            }),
            Column::nullable(
                "base_url",
                Kind::Text,
                "Where it is asked, unless at the vendor's own address",
                |row| optional_text(row.base_url.as_ref()),
            ),
            Column::nullable("max_concurrency", Kind::Int64, "Requests at once", |row| {
                optional_int(row.max_concurrency)
            }),
            Column::required("is_enabled", Kind::Bool, "Whether jobs go out through it", |row| {
                Cell::Bool(row.is_enabled)
            }),
            Column::required("created_at", Kind::Timestamp, "When it was connected", |row| {
                time(row.created_at)
            }),
            Column::required("updated_at", Kind::Timestamp, "When it was last changed", |row| {
                time(row.updated_at)
            }),
        ],
    )
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = ProviderId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&PROVIDERS, &id)?;
    Ok(vec![PROVIDER_TABLE.rows(&row)])
}
