//! Extraction: results of jobs, the schemas that made them, and finding them again.
//!
//! The jobs slice hands a fetched page to [`Extractor::process`] and puts the draft into the transaction that ends the job
//! with [`record`]. From there on everything follows the change record of that row: the search index ([`SearchFeed`]) and
//! the SQL console ([`views`]). A result is shown by its job only when it can also be found; until then the answer is 202.

mod attributes;
mod backfill;
mod body;
mod changes;
mod column_rows;
mod columns;
mod commands;
mod compare;
mod compare_text;
mod compiled;
mod document;
mod draft;
mod erase;
mod feed;
mod held;
mod held_rows;
mod history;
mod main_content;
mod mend;
mod open;
mod pages;
mod remove;
mod retention;
mod rows;
mod schema_changes;
mod schemas;
mod schemas_table;
mod service;
mod site;
mod stored;
#[cfg(test)]
mod tests;
mod text_rows;
mod texts;
mod trial;
mod turns;
mod views;
mod wire;

pub use attributes::save_beside;
pub use backfill::read_again_named;
pub use body::{JSON_LOOKED_AT_BYTES_MAX, is_document, is_readable, page_of};
pub use changes::tell_gone;
pub use columns::table_of;
pub use draft::ResultDraft;
pub use feed::{SearchFeed, stamp_in as index_is_of, try_indexing};
pub use held::{drop_held, held, hold};
pub use history::{ChangedValue, changed_values, result_place, results_of_url, results_of_url_list};
pub use mend::{ReadBy, mend_own, place_read_by, read_by};
pub use pages::adopt as adopt_pages;
pub use pages::{PAGES, PageKey, is_known_page, keeps_page, pages_to_adopt};
pub use rows::{
    DiscoveredBy, PlatformSchemaV1, RESULTS, RESULTS_BY_DOMAIN, RESULTS_BY_ID, RESULTS_BY_URL, RedirectV1,
    ResultV4, SchemaPair, SchemaRefV1, url_digest,
};
pub use schemas::{
    Adoption, ImportSummary, ImportedSchema, ProposedSchema, adopt_repair, adopt_schema, attributes_of,
    export_schemas, import_schemas, schema_to_beat,
};
pub use schemas_table::DRIFT_WORST_FIRST;
pub use service::{DeliveredPage, Extractor, note_url, read_stored, record};
pub use site::{
    Site, domains_to_fill, has_page, newest_page, newest_page_of_url, place_of_result, results_of_site,
};
pub use turns::ReadingTurns;
pub use views::{plain_rows, typed_rows};
pub use wire::{PendingView, ResultMetadata, ResultView};

use crate::features::billing::Retention;
use crate::features::urls::check_page_type;
use crate::features::wiring::ConsumerSpec;
use crate::features::{Comeback, Feature};
use base::ids::{JobId, ResultId};
use base::limits::LIST_BYTES_MAX;
use base::page::{PageRequest, decode_cursor, encode_cursor};
use base::terms::PageType;
use base::web::Domain;
use base::{Code, Error, Result};
use blob::BlobStore;
use search::{ResultQuery, Sort, SortKey, highlights};
use server::path_ids;
use server::permit::WorkflowsRead;
use server::task::TaskSpec;
use server::{Accepted, Body, Either, Handler, Need, Org, OrgContext, Path, Query, Route};
use std::sync::Arc;
use std::time::Duration;
use stored::PageLinks;
use texts::Texts;
use uuid::Uuid;
use wire::{
    FacetCount, FacetsView, FoundResult, RETRY_AFTER_SECS, ResultFilter, ResultList, SchemaFilter,
    SchemaList, SchemaView, SortBy,
};

pub static FEATURE: Feature = Feature {
    name: "extraction",
    uses: &["billing", "events", "raw", "urls"],
    events: changes::EVENTS,
    open: Some(open::open),
    commands: Some(commands::COMMANDS),
    folders: open::FOLDERS,
    consumer: Some(ConsumerSpec::of::<SearchFeed>("extraction.search_feed", FEED_RETRY_MAX, "search documents")),
    start_test: Some(open::START_TEST),
    status: Some(open::status),
    gauges: Some(open::gauges),
    tables: &[
        &RESULTS,
        &rows::PLATFORM_SCHEMAS,
        &rows::SCHEMA_HEADS,
        &rows::SCHEMAS_CONFIRMED,
        &changes::GONE_PAGES,
        &schema_changes::SCHEMA_CHANGES,
        &text_rows::TEXTS,
        &text_rows::TEXT_SUMS,
        &rows::COLUMNS,
        &rows::DOMAIN_COLUMNS,
        &rows::LATE_COLUMNS,
        &held_rows::HELD,
        &feed::INDEXED,
        &pages::PAGES,
        &pages::NAMINGS,
        &pages::UNNAMED,
        &pages::ADOPTION,
        &site::DOMAINS_FILLED,
        &attributes::OWN_ATTRIBUTES,
        &attributes::OWN_HEADS,
        &backfill::BACKFILLS,
    ],
    routes: &[
        Route::get("/api/v1/extraction/results", "listResults", &Handler::new(list_results))
            .about("Lists and searches results."),
        Route::get("/api/v1/extraction/results/{jobId}", "getResultByJob", &Handler::new(get_result_by_job))
            .about("The result of a job; 202 while it is being indexed."),
        Route::get("/api/v1/extraction/results/by-id/{id}", "getResult", &Handler::new(get_result))
            .about("A result by its own id."),
        Route::get("/api/v1/extraction/results/by-id/{id}/html", "getResultHtml", &Handler::new(stored::get_html))
            .secret()
            .about("A link to a result's page as it was fetched, good for five minutes; it gives a file to save."),
        Route::get("/api/v1/extraction/results/by-id/{id}/diff", "diffResults", &Handler::new(compare::diff))
            .about("How the values of another result, and the words of its page, differ from a result's.")
            .fails(&[Code::NotFound, Code::RateLimited]),
        Route::get("/api/v1/extraction/history", "getExtractionHistory", &Handler::new(compare::history))
            .about("What the results of a URL said one after the other, oldest first.")
            .fails(&[Code::NotFound]),
        Route::get(
            "/api/v1/extraction/results/by-id/{id}/content",
            "getResultContent",
            &Handler::new(main_content::get_content),
        )
        .about("The main content of a result's page, as Markdown, text or clean HTML.")
        .fails(&[Code::NotFound, Code::PayloadTooLarge, Code::RateLimited]),
        Route::delete("/api/v1/extraction/results/by-id/{id}", "deleteResult", &Handler::new(remove::delete_one))
            .about("Deletes a result, and its page unless another result names it. Search and SQL follow within seconds.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/extraction/results/delete", "deleteResults", &Handler::new(remove::delete_many))
            .about("Deletes results by their ids or by a filter, bit by bit: go on with nextCursor until it is null."),
        Route::get("/api/v1/extraction/schemas", "listSchemas", &Handler::new(list_schemas))
            .about("Lists the platform's schemas, newest first."),
        Route::get("/api/v1/extraction/schemas/{domain}/{pageType}", "getSchema", &Handler::new(get_schema))
            .about("The newest schema of a page type of a domain.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/extraction/test-xpath", "testXpath", &Handler::new(trial::test_xpath))
            .about("Tries attributes on a stored page, and says of each XPath what it selects. Nothing is fetched or kept.")
            .large_body()
            .fails(&[Code::NotFound, Code::PayloadTooLarge, Code::RateLimited]),
        Route::get("/api/v1/extraction/attributes", "listAttributes", &Handler::new(attributes::list))
            .about("The organization's own attributes, domain by domain."),
        Route::get("/api/v1/extraction/attributes/{domain}", "getDomainAttributes", &Handler::new(attributes::get))
            .about("The organization's own attributes for a domain, or for one host of it.")
            .fails(&[Code::NotFound]),
        Route::put("/api/v1/extraction/attributes/{domain}", "putDomainAttributes", &Handler::new(attributes::put))
            .about("Replaces the organization's own attributes for a domain. They hold for pages from now on.")
            .fails(&[Code::NotFound, Code::RateLimited]),
        Route::post("/api/v1/extraction/attributes/{domain}", "addDomainAttribute", &Handler::new(attributes::add))
            .about("Adds one attribute to those of a domain.")
            .fails(&[Code::NotFound, Code::Conflict, Code::RateLimited]),
        Route::delete(
            "/api/v1/extraction/attributes/{domain}/{name}",
            "deleteDomainAttribute",
            &Handler::new(attributes::remove),
        )
        .about("Removes one of the organization's own attributes; the platform's of its name holds again.")
        .fails(&[Code::NotFound]),
        Route::post("/api/v1/extraction/backfill", "backfillResults", &Handler::new(backfill::backfill))
            .about("Reads stored pages again by the schema and attributes as they are now, some rows a request.")
            .fails(&[Code::NotFound, Code::RateLimited]),
    ],
    tasks: &[
        TaskSpec::new("extraction.retention", RETENTION_PERIOD, |context| Box::pin(retention::round(context))),
        TaskSpec::new("extraction.schemas_confirmed", CONFIRMED_PERIOD, |context| {
            Box::pin(async move { context.service::<Extractor>().keep_confirmed().await })
        }),
        TaskSpec::new("extraction.texts", TEXTS_PERIOD, |context| Box::pin(texts::fill(context))),
        TaskSpec::new("extraction.orphans", ORPHANS_PERIOD, |context| Box::pin(retention::orphans(context))),
    ],
    needs: &[
        Need::of::<Extractor>(),
        Need::of::<SearchFeed>(),
        Need::of::<BlobStore>(),
        Need::of::<Retention>(),
        Need::of::<ReadingTurns>(),
        Need::of::<PageLinks>(),
        Need::of::<Texts>(),
    ],
    views: views::VIEWS,
    shared_views: schemas_table::SHARED_VIEWS,
    comeback: Comeback { rows: Some((RESULTS.name(), rows::as_of_now)), ..Comeback::NONE },
    holdings: erase::HOLDINGS,
    links: stored::LINKS,
    horizons: Some(columns::horizons),
    own_table: Some(views::own_table),
    ..Feature::NONE
};

/// How soon it is kept that pages have confirmed schemas.
const CONFIRMED_PERIOD: Duration = Duration::from_secs(5);
/// How soon texts of new pages are made.
const TEXTS_PERIOD: Duration = Duration::from_secs(2);
/// How soon what is due goes.
const RETENTION_PERIOD: Duration = Duration::from_secs(300);
/// How often folders are looked through for pages that no row knows.
const ORPHANS_PERIOD: Duration = Duration::from_secs(24 * 3_600);
/// The longest pause of a feed that fails: results are found again within it once the disk works.
const FEED_RETRY_MAX: Duration = Duration::from_secs(2);
/// The name in the cursors of the list of results.
const RESULT_LIST: &str = "extraction_results";
/// The name that cursors of the list of schemas would have.
const SCHEMA_LIST: &str = "extraction_schemas";
/// Pieces of text that are shown of a result that was found.
const HIGHLIGHTS_MAX: usize = 3;

/// A job as the key of its result: a malformed id is a result that does not exist.
struct JobOfResult(JobId);

impl From<Uuid> for JobOfResult {
    fn from(id: Uuid) -> Self {
        JobOfResult(JobId(id))
    }
}

path_ids! { JobOfResult, "Result"; }

async fn list_results(
    org: Org<WorkflowsRead>,
    Query(filter): Query<ResultFilter>,
    page: PageRequest,
) -> Result<Body<ResultList>> {
    let feed = org.service::<SearchFeed>();
    org.read(|tx| check_page_type(tx, "pageType", filter.page_type))?;
    let query = result_query(filter, &page)?;
    let search = feed.index().org(org.id().0);
    let fed = Arc::clone(&feed);
    let (query, found) = tokio::task::spawn_blocking(move || {
        let found = search.search(&query).map_err(|e| fed.failed_search(e));
        (query, found)
    })
    .await
    .map_err(|e| Error::internal("search", e))?;
    let found = found?;
    let (rows, next) = org.read(|tx| {
        let (mut rows, mut bytes) = (Vec::with_capacity(found.hits.len()), 0);
        for (place, hit) in found.hits.iter().enumerate() {
            // A result that was removed since the last commit is not shown.
            if let Some((row, size)) = tx.get_sized(&RESULTS, &JobId(hit.id))? {
                bytes += size;
                rows.push(row);
            }
            if bytes >= LIST_BYTES_MAX && place + 1 < found.hits.len() {
                return Ok((rows, Some(hit.sort_key)));
            }
        }
        Ok((rows, found.next))
    })?;
    let items = feed
        .with_times(rows)?
        .into_iter()
        .map(|(row, indexed_at)| FoundResult {
            highlights: query.q.as_deref().map(|q| highlights_of(&row, q)).unwrap_or_default(),
            result: ResultView::new(row, indexed_at),
        })
        .collect();
    Ok(Body(ResultList {
        items,
        next_cursor: next.map(|key| encode_cursor(RESULT_LIST, &cursor_bytes(&key))),
        total: found.total,
        facets: FacetsView {
            domain: FacetCount::list(found.facets.domain),
            page_type: FacetCount::list(found.facets.page_type),
        },
    }))
}

fn result_query(filter: ResultFilter, page: &PageRequest) -> Result<ResultQuery> {
    if filter.min_quality.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
        return Err(Error::invalid("minQuality", "must be from 0 to 1"));
    }
    let after = match page.cursor.as_deref() {
        None => None,
        Some(text) => Some(
            cursor_key(&decode_cursor(RESULT_LIST, text)?)
                .ok_or_else(|| Error::invalid("cursor", "is damaged or belongs to another list"))?,
        ),
    };
    // Results stand under their registrable domain, so a host finds its domain's; what is no domain finds nothing.
    let domain = filter.domain.map(Domain::of_filter);
    Ok(ResultQuery {
        q: filter.q.filter(|q| !q.trim().is_empty()),
        domain,
        page_type: filter.page_type.map(|page_type| page_type.name().to_owned()),
        url_id: filter.url_id.map(|id| id.0),
        job_id: None,
        tags: filter.tag,
        min_quality: filter.min_quality,
        changed: filter.changed,
        from_ms: filter.from.map(|time| time.millis()),
        to_ms: filter.to.map(|time| time.millis()),
        sort: match filter.sort.unwrap_or_default() {
            SortBy::Newest => Sort::Newest,
            SortBy::Relevance => Sort::Relevance,
        },
        limit: page.limit,
        after,
    })
}

/// order (1) | rank (8) | id (16)
fn cursor_bytes(key: &SortKey) -> Vec<u8> {
    let mut bytes = vec![u8::from(key.sort == Sort::Relevance)];
    bytes.extend_from_slice(&key.rank.to_be_bytes());
    bytes.extend_from_slice(key.id.as_bytes());
    bytes
}

fn cursor_key(bytes: &[u8]) -> Option<SortKey> {
    let (&[sort], rest) = bytes.split_first_chunk::<1>()?;
    let (rank, id) = rest.split_first_chunk::<8>()?;
    Some(SortKey {
        sort: if sort == 0 { Sort::Newest } else { Sort::Relevance },
        rank: i64::from_be_bytes(*rank),
        id: Uuid::from_slice(id).ok()?,
    })
}

/// Pieces of the title and of the values, as long as there is room for more.
fn highlights_of(row: &ResultV4, q: &str) -> Vec<String> {
    let title = row.title.clone().into_iter();
    let mut pieces: Vec<String> = Vec::new();
    for text in title.chain(document::attribute_texts(row)) {
        for piece in highlights(text.trim_end(), q) {
            // A title often says again what a value says.
            if pieces.len() < HIGHLIGHTS_MAX && !pieces.contains(&piece) {
                pieces.push(piece);
            }
        }
        if pieces.len() == HIGHLIGHTS_MAX {
            break;
        }
    }
    pieces
}

async fn get_result_by_job(
    org: Org<WorkflowsRead>,
    Path(JobOfResult(job)): Path<JobOfResult>,
) -> Result<Either<Body<ResultView>, Accepted<PendingView>>> {
    let feed = org.service::<SearchFeed>();
    let row = org.read(|tx| tx.require(&RESULTS, &job))?;
    Ok(match feed.indexed_at(&row)? {
        None => Either::Right(Accepted::new(PendingView::new(&row)).retry_after(RETRY_AFTER_SECS)),
        indexed_at => Either::Left(Body(ResultView::new(row, indexed_at))),
    })
}

/// What there is of a job's result, without its values; 202 while it is being indexed.
pub fn metadata_of_job(
    org: &OrgContext,
    job: JobId,
) -> Result<Either<Body<ResultMetadata>, Accepted<PendingView>>> {
    let row = org.read(|tx| tx.require(&RESULTS, &job))?;
    Ok(match org.service::<SearchFeed>().indexed_at(&row)? {
        None => Either::Right(Accepted::new(PendingView::new(&row)).retry_after(RETRY_AFTER_SECS)),
        indexed_at => Either::Left(Body(ResultMetadata::new(&row, indexed_at))),
    })
}

async fn get_result(org: Org<WorkflowsRead>, Path(id): Path<ResultId>) -> Result<Body<ResultView>> {
    let feed = org.service::<SearchFeed>();
    let row = org.read(|tx| tx.lookup(&RESULTS, &RESULTS_BY_ID, id))?;
    let row = row.ok_or_else(|| Error::not_found(RESULTS.noun()))?;
    let indexed_at = feed.indexed_at(&row)?;
    Ok(Body(ResultView::new(row, indexed_at)))
}

async fn list_schemas(
    org: Org<WorkflowsRead>,
    Query(filter): Query<SchemaFilter>,
    page: PageRequest,
) -> Result<Body<SchemaList>> {
    // The list of the spec has one page and so gives no cursor: whatever comes as one is another list's.
    page.position(SCHEMA_LIST)?;
    org.read(|tx| check_page_type(tx, "pageType", filter.page_type))?;
    let extractor = org.service::<Extractor>();
    let rows = extractor.list_schemas(filter.domain.as_deref(), filter.page_type, page.limit)?;
    let views = rows.into_iter().map(|(row, confirmed)| SchemaView::new(row, confirmed));
    Ok(Body(SchemaList { items: views.collect::<Result<_>>()? }))
}

async fn get_schema(
    org: Org<WorkflowsRead>,
    Path((domain, page_type)): Path<(String, String)>,
) -> Result<Body<SchemaView>> {
    let missing = || Error::not_found("Schema");
    let page_type = PageType::named(&page_type).ok_or_else(missing)?;
    let (row, confirmed) = org.service::<Extractor>().find_schema(&domain, page_type)?;
    Ok(Body(SchemaView::new(row, confirmed)?))
}
