//! The main content of a result's page, made anew from the stored page whenever it is asked for.
//!
//! A page of megabytes takes a tenth of a second, so it is read apart from the threads that answer, in turns over the
//! organizations: one has one page read at a time, however many it asks for.

use super::body::is_document;
use super::rows::{RESULTS, RESULTS_BY_ID, ResultV4};
use super::service::read_stored;
use super::site::has_page;
use super::turns::ReadingTurns;
use ::page::html::Document;
use base::clock::Timestamp;
use base::ids::ResultId;
use base::limits::HTML_BYTES_MAX;
use base::web::WebUrl;
use base::{Code, Error, Result};
use blob::BlobStore;
use content::{CONTENT_BYTES_MAX, Content, Written};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::WorkflowsRead;
use server::{Body, Org, Path, Query};
use store::OrgRead;

/// How the content is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ContentFormat {
    /// CommonMark with GitHub's tables.
    #[default]
    Markdown,
    /// Without marks, links and images.
    Text,
    /// A few plain elements, without scripts, styles and attributes but addresses.
    Html,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentQuery {
    /// `markdown` unless given.
    #[serde(default)]
    format: Option<ContentFormat>,
}

/// The main content of a page: without navigation, comments, notices and what else stands beside it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentView {
    /// Where the page was found: links are resolved against it, or against the base that the page names.
    url: String,
    format: ContentFormat,
    /// The title of the content, which does not repeat it; null where the page has none.
    title: Option<String>,
    /// The language that the page declares (BCP 47); null where it declares none.
    language: Option<String>,
    content: String,
    /// True if there was more than an answer holds (2 MiB).
    is_truncated: bool,
    scraped_at: Timestamp,
}

pub async fn get_content(
    org: Org<WorkflowsRead>,
    Path(id): Path<ResultId>,
    Query(asked): Query<ContentQuery>,
) -> Result<Body<ContentView>> {
    let row = org.read(|tx| row_with_page(tx, id))?;
    let turn = org.service::<ReadingTurns>().next(org.id()).await?;
    let pages = org.service::<BlobStore>().org(org.id().0);
    let page = read_stored(&pages, &row.page).await?.ok_or_else(is_gone)?;
    let format = asked.format.unwrap_or_default();
    let work = move || {
        let view = content_of(row, format, &page);
        drop(turn);
        view
    };
    let view = tokio::task::spawn_blocking(work).await;
    view.map_err(|e| Error::internal("read the content of a page", e))?.map(Body)
}

/// The result, if its page is kept and can have content.
pub(super) fn row_with_page(tx: &OrgRead<'_>, id: ResultId) -> Result<ResultV4> {
    let row = tx.lookup(&RESULTS, &RESULTS_BY_ID, id)?;
    let row = row.ok_or_else(|| Error::not_found(RESULTS.noun()))?;
    if !has_page(tx, &row)? {
        return Err(is_gone());
    }
    if !is_document(row.content_type.as_deref()) {
        let message = "What was fetched is no page of text, so it has no content to show.";
        return Err(Error::not_found("Page").message(message));
    }
    if row.page.byte_size > HTML_BYTES_MAX as u64 {
        let message =
            format!("The page has {} bytes; the content is read of at most 5 MB.", row.page.byte_size);
        return Err(Error::new(Code::PayloadTooLarge).message(message));
    }
    Ok(row)
}

/// That the page of a result is not kept.
pub(super) fn is_gone() -> Error {
    Error::not_found("Page").message("The page of this result is not kept any more.")
}

/// The main content of a result's page as plain text, of at most `bytes_max` bytes.
pub(super) fn main_text(row: &ResultV4, page: &[u8], bytes_max: usize) -> Result<Written> {
    let url = WebUrl::parse(&row.final_url).map_err(|e| Error::internal("read the URL of a result", e))?;
    let document = Document::parse_bytes(page, row.content_type.as_deref());
    let written = Content::of(&document, Some(url.as_url())).text(bytes_max);
    Ok(Written { is_truncated: written.is_truncated || document.truncated().is_some(), ..written })
}

fn content_of(row: ResultV4, format: ContentFormat, page: &[u8]) -> Result<ContentView> {
    let url = WebUrl::parse(&row.final_url).map_err(|e| Error::internal("read the URL of a result", e))?;
    let document = Document::parse_bytes(page, row.content_type.as_deref());
    let content = Content::of(&document, Some(url.as_url()));
    let written = match format {
        ContentFormat::Markdown => content.markdown(CONTENT_BYTES_MAX),
        ContentFormat::Text => content.text(CONTENT_BYTES_MAX),
        ContentFormat::Html => content.html(CONTENT_BYTES_MAX),
    };
    Ok(ContentView {
        format,
        title: content.title().map(str::to_owned),
        language: content.language(),
        content: written.text,
        is_truncated: written.is_truncated || document.truncated().is_some(),
        scraped_at: row.scraped_at,
        url: row.final_url,
    })
}
