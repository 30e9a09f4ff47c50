//! Registered URLs: what schedules and jobs point to.
//!
//! [`register`]: what an entry must be, and what becomes of it; [`upload`]: files of entries, read as they come; [`edit`],
//! [`edit_many`] and [`remove`]: one or many changed or taken away; [`derived`]: what is kept beside the rows, an index of their texts
//! ([`trigrams`]) and the counts of their tags ([`tags`]); [`mod@select`]: which URLs a schedule means.

mod chosen;
mod derived;
mod edit;
mod edit_many;
mod page_types;
mod register;
mod remove;
mod rows;
mod select;
mod tags;
mod trigrams;
mod upload;
mod views;

pub use page_types::{check_page_type, count_attributes, has_page_type, own_page_types, reserved};
pub use register::{
    EntryJudge, InvalidUrl, NewUrl, Registered, UrlCandidate, UrlDefaults, UrlEntry, WriteSize, is_usable,
    no_room, register_each,
};
pub use rows::{URLS, UrlV1};
pub use select::select;
pub use upload::{CsvFile, Line, WrongLine};

use super::Feature;
use crate::features::site_sessions::{self, URL_SESSIONS};
use crate::features::wiring::Wiring;
use base::clock::Timestamp;
use base::ids::{JobId, SiteSessionId, UrlId, WorkflowId};
use base::limits::{PAGE_SCAN_ROWS_MAX, UPLOAD_BYTES_MAX};
use base::page::{Page, PageRequest};
use base::terms::{JobStatus, PageType};
use base::web::{Domain, WebUrl, host_of};
use base::{Code, Result};
use fetch::AddressGuard;
use futures::future::BoxFuture;
use rows::{BY_DOMAIN, BY_TAG, BY_URL};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::permit::UrlsRead;
use server::task::TaskSpec;
use server::{Body, Handler, Need, Org, Path, Query, Route};
use std::time::Duration;
use store::{OrgRead, OrgWrite, readable};
use trigrams::Needle;
use upload::UploadTurns;

/// How often it is looked what deleted URLs left in the index.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

pub static FEATURE: Feature = Feature {
    name: "urls",
    uses: &["site_sessions", "workflows"],
    open: Some(open),
    tables: &[&URLS, &tags::TAG_COUNTS, &trigrams::BLOCKS, &trigrams::TRIGRAMS, &derived::DERIVED, &page_types::OWN_PAGE_TYPES],
    routes: &[
        Route::get("/api/v1/urls", "listUrls", &Handler::new(list))
            .about("The registered URLs, newest first."),
        Route::post("/api/v1/urls", "createUrls", &Handler::new(register::create))
            .about("Registers up to 10,000 URLs; tags of a known one are merged.")
            .large_body()
            .fails(&[Code::InvalidInput]),
        Route::post("/api/v1/urls/upload", "uploadUrls", &Handler::new(upload::upload))
            .about(
                "Registers the URLs of a CSV file (text/csv, with a header, or a URL a line) or of NDJSON \
                 (application/x-ndjson), as it is or in gzip or zstd (Content-Encoding, or application/gzip and \
                 application/zstd). It is read as it comes.",
            )
            .streamed_body(UPLOAD_BYTES_MAX, upload::TIME_MAX_SECS)
            .fails(&[Code::InvalidInput, Code::InvalidUrl]),
        Route::get("/api/v1/urls/tags", "listUrlTags", &Handler::new(tags::list))
            .about("The tags of the registered URLs, in order, with the number of URLs that have each."),
        Route::get("/api/v1/urls/{id}", "getUrl", &Handler::new(get)).about("One registered URL."),
        Route::patch("/api/v1/urls/{id}", "updateUrl", &Handler::new(edit::update))
            .about("Changes what hangs on a URL; what is left out stays.")
            .fails(&[Code::NotFound]),
        Route::delete("/api/v1/urls/{id}", "deleteUrl", &Handler::new(remove::delete_one))
            .about("Takes a URL from the list; its jobs and results stay.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/urls/update", "updateUrls", &Handler::new(edit_many::update_many)).about(
            "Changes many URLs at once, by their ids or by a filter: go on with nextCursor until it is null.",
        ),
        Route::post("/api/v1/urls/delete", "deleteUrls", &Handler::new(remove::delete_many)).about(
            "Takes URLs from the list by their ids or by a filter: go on with nextCursor until it is null.",
        ),
    ],
    tasks: &[TaskSpec::new("urls.sweep", SWEEP_EVERY, |context| Box::pin(derived::sweep(context)))],
    needs: &[Need::of::<AddressGuard>(), Need::of::<UploadTurns>()],
    views: &[views::VIEW],
    ..Feature::NONE
};

/// Opens the slice's part, and makes what an older release has not kept.
fn open<'w>(wiring: &'w mut Wiring<'_>) -> BoxFuture<'w, Result<()>> {
    Box::pin(async move {
        wiring.hang::<UploadTurns>(UploadTurns::new());
        derived::build_missing(&wiring.system()).await
    })
}

/// A registered URL on the wire.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UrlView {
    id: UrlId,
    url: String,
    /// The registrable domain.
    domain: String,
    host: String,
    tags: Vec<String>,
    #[schemars(with = "Map<String, Value>")]
    metadata: Value,
    page_type: Option<PageType>,
    workflow_id: Option<WorkflowId>,
    /// The site session that its jobs are sent with which name none themselves.
    site_session_id: Option<SiteSessionId>,
    last_job_id: Option<JobId>,
    /// When the page of its newest result was fetched: that result's scrapedAt.
    last_scraped_at: Option<Timestamp>,
    last_status: Option<JobStatus>,
    created_at: Timestamp,
}

impl UrlView {
    fn new(tx: &OrgRead<'_>, row: UrlV1) -> Result<UrlView> {
        Ok(UrlView {
            site_session_id: site_sessions::shown(tx, &URL_SESSIONS, &row.id)?,
            id: row.id,
            host: host_of(&row.url).to_owned(),
            url: row.url,
            domain: row.domain,
            tags: row.tags,
            metadata: row.metadata.0,
            page_type: row.page_type,
            workflow_id: row.workflow_id,
            last_job_id: row.last_job_id,
            last_scraped_at: row.last_scraped_at,
            last_status: row.last_status,
            created_at: row.created_at,
        })
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct UrlFilter {
    /// Part of the normalized URL; the letters A to Z in any case.
    q: Option<String>,
    /// Repeatable; all must match.
    tag: Vec<String>,
    domain: Option<String>,
    page_type: Option<PageType>,
    last_status: Option<JobStatus>,
}

async fn list(
    org: Org<UrlsRead>,
    Query(mut filter): Query<UrlFilter>,
    page: PageRequest,
) -> Result<Body<Page<UrlView>>> {
    filter.domain = filter.domain.map(Domain::of_filter);
    let views = org.read(|tx| {
        check_page_type(tx, "pageType", filter.page_type)?;
        let Page { items, next_cursor } = find_page(tx, &filter, &page)?;
        let items = items.into_iter().map(|row| UrlView::new(tx, row)).collect::<Result<_>>()?;
        Ok(Page { items, next_cursor })
    })?;
    Ok(Body(views))
}

/// A page of the URLs that a filter accepts, by the index that leads to the fewest others.
fn find_page(tx: &OrgRead<'_>, filter: &UrlFilter, page: &PageRequest) -> Result<Page<UrlV1>> {
    let needle = Needle::new(filter.q.as_deref().unwrap_or_default());
    let wanted = |row: &UrlV1| accepts(filter, &needle, row);
    if needle.is_indexed() && by_text(tx, filter, page)? {
        let within = filter.domain.iter().fold(needle.clone(), |needle, domain| needle.beside(domain));
        return trigrams::page(tx, &within, page, wanted);
    }
    match (filter.tag.first(), &filter.domain) {
        (Some(tag), _) => tx.page_by(&URLS, &BY_TAG, tag, page, wanted),
        (None, Some(domain)) => tx.page_by(&URLS, &BY_DOMAIN, domain, page, wanted),
        (None, None) => tx.page(&URLS, page, wanted),
    }
}

/// Whether the text leads rather than the first tag: not where one page can look at all that have the tag. A page that goes
/// on stays with what it began with.
fn by_text(tx: &OrgRead<'_>, filter: &UrlFilter, page: &PageRequest) -> Result<bool> {
    if page.cursor.is_some() {
        return Ok(page.position(trigrams::LIST).is_ok());
    }
    let Some(tag) = filter.tag.first() else { return Ok(true) };
    let count = readable("the count of a tag", tag, tags::urls_with(tx, tag))?;
    Ok(count.is_none_or(|count| count > PAGE_SCAN_ROWS_MAX as u64 / 2))
}

fn accepts(filter: &UrlFilter, needle: &Needle, row: &UrlV1) -> bool {
    needle.is_in(&row.url)
        && filter.tag.iter().all(|tag| row.tags.contains(tag))
        && filter.domain.as_ref().is_none_or(|domain| row.domain == *domain)
        && filter.page_type.is_none_or(|kind| row.page_type == Some(kind))
        && filter.last_status.is_none_or(|status| row.last_status == Some(status))
}

/// Whether a row that was found by a filter is still meant by it when it is changed.
fn is_meant(filter: Option<&UrlFilter>, row: &UrlV1) -> bool {
    filter.is_none_or(|filter| accepts(filter, &Needle::new(filter.q.as_deref().unwrap_or_default()), row))
}

async fn get(org: Org<UrlsRead>, Path(id): Path<UrlId>) -> Result<Body<UrlView>> {
    Ok(Body(org.read(|tx| UrlView::new(tx, tx.require(&URLS, &id)?))?))
}

/// The row of a normalized URL, if it is registered.
pub fn find(tx: &OrgRead<'_>, url: &WebUrl) -> Result<Option<UrlV1>> {
    tx.lookup(&URLS, &BY_URL, url.as_str())
}

/// Notes on the URL's row how its newest job ended, and when the page of its result was fetched, where that is its newest
/// reading; in the transaction that ends the job.
pub fn note_job(
    tx: &OrgWrite<'_>,
    url: UrlId,
    job: JobId,
    status: JobStatus,
    scraped_at: Option<Timestamp>,
) -> Result<()> {
    // The row may have been deleted while the job ran.
    let Some(mut row) = tx.get(&URLS, &url)? else { return Ok(()) };
    // Jobs may end in another order than they were submitted in.
    if row.last_job_id.is_none_or(|last| last <= job) {
        row.last_job_id = Some(job);
        row.last_status = Some(status);
    }
    row.last_scraped_at = scraped_at.or(row.last_scraped_at);
    tx.put(&URLS, &url, &row)
}
