//! What the SQL console sees of URLs: `urls`, and `url_tags` in long form.

use super::rows::{URLS, UrlV1};
use crate::features::{NAMED_BY_METADATA, View, ViewRows, column, console_table, seen_by_agents};
use base::Result;
use base::ids::UrlId;
use sql::{Cell, ColumnKind as Kind, TableSpec};
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

pub(super) const VIEW: View =
    View { source: "urls", tables: || vec![URL_TABLE.as_ref().clone(), TAG_TABLE.as_ref().clone()], rows };

/// The URLs of an agent's jobs, which are the agent's too.
static OF_JOBS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT url_id FROM jobs WHERE {NAMED_BY_METADATA}"));

static URL_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    let mut table = console_table(
        "urls",
        "The registered URLs.",
        vec![
            column("id", Kind::Text, "The URL's id").required(),
            column("url", Kind::Text, "Normalized").required(),
            column("domain", Kind::Text, "Registrable domain").required(),
            column("metadata", Kind::Json, "What the caller hung on it"),
            column("page_type", Kind::Text, "product, article …"),
            column(
                "workflow_id",
                Kind::Text,
                "The workflow along which it is scraped, if it has one of its own",
            ),
            column("last_job_id", Kind::Text, "The newest job that ended"),
            column("last_status", Kind::Text, "How it ended"),
            column("last_scraped_at", Kind::Timestamp, "When a page last arrived"),
            column("created_at", Kind::Timestamp, "When it was registered").required(),
        ],
    );
    Arc::make_mut(&mut table).catalog_version = 2;
    seen_by_agents(table, format!("{NAMED_BY_METADATA} OR id IN ({})", *OF_JOBS))
});

static TAG_TABLE: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    let table = console_table(
        "url_tags",
        "One row a tag of a URL.",
        vec![
            column("url_id", Kind::Text, "The URL").required(),
            column("tag", Kind::Text, "The tag").required(),
        ],
    );
    let own = format!("SELECT id FROM urls WHERE {NAMED_BY_METADATA}");
    seen_by_agents(table, format!("url_id IN ({own}) OR url_id IN ({})", *OF_JOBS))
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = UrlId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&URLS, &id)?;
    let tags = row.iter().flat_map(|row| &row.tags);
    let tags = tags.map(|tag| vec![Cell::from(id.to_string()), Cell::from(tag.as_str())]).collect();
    Ok(vec![
        ViewRows { table: URL_TABLE.clone(), rows: row.iter().map(cells).collect() },
        ViewRows { table: TAG_TABLE.clone(), rows: tags },
    ])
}

fn cells(row: &UrlV1) -> Vec<Cell> {
    let text = |text: Option<String>| text.map_or(Cell::Null, Cell::from);
    vec![
        Cell::from(row.id.to_string()),
        Cell::from(row.url.as_str()),
        Cell::from(row.domain.as_str()),
        Cell::from(row.metadata.0.to_string()),
        text(row.page_type.map(|kind| kind.name().to_owned())),
        text(row.workflow_id.map(|id| id.to_string())),
        text(row.last_job_id.map(|id| id.to_string())),
        text(row.last_status.map(|status| status.name().to_owned())),
        row.last_scraped_at.map_or(Cell::Null, |at| Cell::Time(at.millis())),
        Cell::Time(row.created_at.millis()),
    ]
}
