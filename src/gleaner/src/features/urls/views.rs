//! What the SQL console sees of URLs: `urls`, and `url_tags` in long form.

use super::rows::{URLS, UrlV1};
use crate::console::{
    BOUND_TO_AGENT, Column, ConsoleTable, View, ViewRows, optional_text, optional_time, text, time,
};
use base::Result;
use base::ids::UrlId;
use sql::{Cell, ColumnKind as Kind};
use std::sync::LazyLock;
use store::{Key, OrgRead};

pub(super) const VIEW: View =
    View { source: "urls", tables: || vec![URL_TABLE.spec(), TAG_TABLE.spec()], rows };

/// The URLs of an agent's jobs, which are the agent's too.
static OF_JOBS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT url_id FROM jobs WHERE {BOUND_TO_AGENT}"));

static URL_TABLE: LazyLock<ConsoleTable<UrlV1>> = LazyLock::new(|| {
    let table = ConsoleTable::<UrlV1>::new(
        "urls",
        "The registered URLs.",
        [
            Column::required("id", Kind::Text, "The URL's id", |row| text(row.id)),
            Column::required("url", Kind::Text, "Normalized", |row| Cell::from(row.url.as_str())),
            Column::required("domain", Kind::Text, "Registrable domain", |row| {
                Cell::from(row.domain.as_str())
            }),
            Column::nullable("metadata", Kind::Json, "What the caller hung on it", |row| {
                text(&row.metadata.0)
            }),
            Column::nullable("page_type", Kind::Text, "product, article …", |row| {
                optional_text(row.page_type)
            }),
            Column::nullable(
                "workflow_id",
                Kind::Text,
                "The workflow along which it is scraped, if it has one of its own",
                |row| optional_text(row.workflow_id),
            ),
            Column::nullable("last_job_id", Kind::Text, "The newest job that ended", |row| {
                optional_text(row.last_job_id)
            }),
            Column::nullable("last_status", Kind::Text, "How it ended", |row| {
                optional_text(row.last_status.map(|status| status.name()))
            }),
            Column::nullable("last_scraped_at", Kind::Timestamp, "When a page last arrived", |row| {
                optional_time(row.last_scraped_at)
            }),
            Column::required("created_at", Kind::Timestamp, "When it was registered", |row| {
                time(row.created_at)
            }),
        ],
    );
    table.version(2).seen_by_agents(format!("{BOUND_TO_AGENT} OR id IN ({})", *OF_JOBS))
});

/// A tag of a URL.
struct UrlTag {
    url: UrlId,
    tag: String,
}

static TAG_TABLE: LazyLock<ConsoleTable<UrlTag>> = LazyLock::new(|| {
    let table = ConsoleTable::<UrlTag>::new(
        "url_tags",
        "One row a tag of a URL.",
        [
            Column::required("url_id", Kind::Text, "The URL", |row| text(row.url)),
            Column::required("tag", Kind::Text, "The tag", |row| Cell::from(row.tag.as_str())),
        ],
    );
    let own = format!("SELECT id FROM urls WHERE {BOUND_TO_AGENT}");
    table.seen_by_agents(format!("url_id IN ({own}) OR url_id IN ({})", *OF_JOBS))
});

fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let Some(id) = UrlId::decode(key) else { return Ok(Vec::new()) };
    let row = tx.get(&URLS, &id)?;
    let tags = row.iter().flat_map(|row| &row.tags);
    let tags: Vec<_> = tags.map(|tag| UrlTag { url: id, tag: tag.clone() }).collect();
    Ok(vec![URL_TABLE.rows(&row), TAG_TABLE.rows(&tags)])
}
