//! What pages said one after the other: the history of a URL, and the difference of two results.

use super::compare_text::{CONTEXT_WORDS, CONTEXT_WORDS_MAX, TextChange, compare_texts};
use super::history::{ChangedValue, changed_values, result_place, results_of_url, results_of_url_list};
use super::rows::{RESULTS, RESULTS_BY_ID, ResultV4};
use super::service::changed;
use super::views::hex;
use crate::features::urls::URLS;
use base::clock::Timestamp;
use base::ids::{JobId, ResultId, UrlId};
use base::limits::LIST_BYTES_MAX;
use base::page::{Page, PageRequest};
use base::terms::PageType;
use base::web::WebUrl;
use base::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use server::permit::WorkflowsRead;
use server::{Body, Org, Path, Query};
use store::OrgRead;

/// Whose history.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HistoryFilter {
    /// A URL, registered or not. Either this or `urlId`.
    url: Option<String>,
    url_id: Option<UrlId>,
}

/// A result of the URL.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExtractionHistoryEntry")]
pub(super) struct HistoryEntry {
    result_id: ResultId,
    job_id: JobId,
    page_type: Option<PageType>,
    schema_version: Option<u32>,
    attributes_version: Option<u32>,
    http_status: u16,
    content_hash: String,
    scraped_at: Timestamp,
    extracted_at: Timestamp,
    /// What differs from the result before; empty for the first.
    changed: Vec<ChangedValue>,
}

impl HistoryEntry {
    fn of(tx: &OrgRead<'_>, row: &ResultV4) -> Result<HistoryEntry> {
        Ok(HistoryEntry {
            result_id: row.id,
            job_id: row.job,
            page_type: row.page_type,
            schema_version: row.schema.map(|schema| schema.version),
            attributes_version: row.attributes_version,
            http_status: row.http_status,
            content_hash: hex(&row.content_hash),
            scraped_at: row.scraped_at,
            extracted_at: row.extracted_at,
            changed: changed_values(tx, row)?,
        })
    }
}

pub(super) async fn history(
    org: Org<WorkflowsRead>,
    Query(filter): Query<HistoryFilter>,
    page: PageRequest,
) -> Result<Body<Page<HistoryEntry>>> {
    page.position(results_of_url_list())?;
    let url = match (filter.url, filter.url_id) {
        (Some(text), None) => {
            WebUrl::parse(&text).map_err(|reason| Error::invalid("url", reason))?.into_string()
        }
        (None, Some(id)) => org.read(|tx| tx.require(&URLS, &id))?.url,
        (None, None) => return Err(Error::invalid("url", "is missing; give url or urlId")),
        (Some(_), Some(_)) => return Err(Error::invalid("urlId", "give either url or urlId, not both")),
    };
    Ok(Body(org.read(|tx| entries(tx, &url, &page))?))
}

/// A page of a URL's results. What they changed may be large and stand with small rows, so it counts as well.
fn entries(tx: &OrgRead<'_>, url: &str, page: &PageRequest) -> Result<Page<HistoryEntry>> {
    let found = results_of_url(tx, url, page, |_| true)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut rows = found.items.into_iter().peekable();
    while let Some(row) = rows.next() {
        let entry = HistoryEntry::of(tx, &row)?;
        let shown = serde_json::to_vec(&entry).map_err(|e| Error::internal("show a history", e))?;
        bytes += shown.len();
        items.push(entry);
        if bytes >= LIST_BYTES_MAX && rows.peek().is_some() {
            return Ok(Page { items, next_cursor: Some(result_place(&row)) });
        }
    }
    Ok(Page { items, next_cursor: found.next_cursor })
}

/// With which result.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct DiffFilter {
    /// The result to compare with.
    with: Option<ResultId>,
    /// Words of an equal text that are shown at each change, 0 to 100,000; 20 unless given.
    context: Option<usize>,
}

/// How one result differs from another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResultDiff")]
pub(super) struct DiffView {
    /// From the values of the result in the path to those of `with`.
    attributes: Vec<ChangedValue>,
    /// From the main text of its page to that of the other one, by words.
    text: Vec<TextChange>,
    /// Why there is no text, or what of it is not told; null where `text` says all.
    text_note: Option<String>,
}

pub(super) async fn diff(
    org: Org<WorkflowsRead>,
    Path(id): Path<ResultId>,
    Query(filter): Query<DiffFilter>,
) -> Result<Body<DiffView>> {
    let find = |id: ResultId| {
        let row = org.read(|tx| tx.lookup(&RESULTS, &RESULTS_BY_ID, id))?;
        row.ok_or_else(|| Error::not_found(RESULTS.noun()))
    };
    let one = find(id)?;
    let with = filter.with.ok_or_else(|| Error::invalid("with", "is missing"))?;
    let context = filter.context.unwrap_or(CONTEXT_WORDS);
    if context > CONTEXT_WORDS_MAX {
        return Err(Error::invalid("context", format!("must be from 0 to {CONTEXT_WORDS_MAX}")));
    }
    let other = find(with)?;
    let value = |row: &ResultV4, name: &str| -> Value { row.values.0.get(name).cloned().unwrap_or_default() };
    let names = changed(&one, &other);
    let changes = names.into_iter().map(|name| {
        let (from, to) = (value(&one, &name), value(&other, &name));
        ChangedValue { name, from, to }
    });
    let attributes = changes.collect();
    let (text, text_note) = compare_texts(&org, one, other, context).await?;
    Ok(Body(DiffView { attributes, text, text_note }))
}
