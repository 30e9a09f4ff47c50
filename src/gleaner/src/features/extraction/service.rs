//! From a fetched page to a result: keep the page, read it by a schema, say what changed.
//!
//! [`Extractor::process`] does the slow work outside of any transaction: the page is durable in the blob store before
//! anything names it. [`record`] runs inside the transaction that ends the job, so the job and its result become true
//! together, and what "the previous result" is cannot change in between.

use super::body::PageBody;
use super::changes;
use super::columns;
use super::compiled::{CompiledSchema, Schemas};
use super::draft::ResultDraft;
use super::pages;
use super::rows::{
    AttributeErrorV1, PageRefV1, PlatformSchemaV1, QualityV1, RESULTS, RESULTS_BY_URL, RedirectV1, ResultV2,
    ResultV3, ResultV4, SchemaRefV1, url_digest,
};
use super::schemas;
use base::clock::Timestamp;
use base::codec::Json;
use base::health::{Health, Part};
use base::ids::{JobId, ResultId, UrlId};
use base::terms::PageType;
use base::web::{Domain, WebUrl};
use base::{Code, Error, Result};
use blob::{BlobError, BlobHash, BlobRef, BlobStore, OrgBlobs};
use bytes::Bytes;
use page::extract::{AttributeError, Extraction, Reason};
use page::xpath::{Fuel, PAGE_FUEL_MAX};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Order, OrgStore, OrgWrite, Store, readable};
use tokio::sync::Semaphore;

/// A page whose type nobody named is read by the best schema of its domain, if that fills this share of its attributes.
pub const COMPLETENESS_MIN: f64 = 0.5;
/// A page up to this size is read where it arrives, which saves it a hop to another thread and back. A choice ...
const INLINE_BYTES_MAX: usize = 64 << 10;
/// ... unless its schemas take more work than this (1.5 ms by the estimate at [`Fuel`]): then it is read anew on a thread of
/// its own.
const INLINE_FUEL_MAX: u64 = 100_000;
/// All values of a result as JSON, in bytes; a row has its limit too, and the page itself is in the blob store.
const VALUES_BYTES_MAX: usize = 512 << 10;
/// Members of one list.
const LIST_MEMBERS_MAX: usize = 5_000;
/// Bytes of a title that are kept.
const TITLE_BYTES_MAX: usize = 500;
/// Bytes of an attribute error's reason.
const REASON_BYTES_MAX: usize = 300;
/// Results of a URL that are looked through for the one before: more than one only when jobs end out of order.
const PREVIOUS_ROWS_MAX: usize = 16;

/// A page that a provider delivered for a job.
#[derive(Clone, Debug)]
pub struct DeliveredPage {
    pub job: JobId,
    pub url_id: Option<UrlId>,
    /// The URL that was asked for.
    pub url: WebUrl,
    /// The URL that answered.
    pub final_url: WebUrl,
    /// The answers that led there.
    pub redirects: Vec<RedirectV1>,
    pub domain: Domain,
    /// What the job or the URL says it is.
    pub page_type: Option<PageType>,
    pub provider: String,
    pub http_status: u16,
    pub content_type: Option<String>,
    pub body: Bytes,
    pub tags: Vec<String>,
    pub scraped_at: Timestamp,
}

/// Reads pages. Hung up in the services; clones of what it holds are cheap.
pub struct Extractor {
    schemas: Arc<Schemas>,
    blobs: Arc<BlobStore>,
    /// As many pages at once as there are cores: a parsed page takes many times its size.
    room: Arc<Semaphore>,
    health: Health,
}

impl Extractor {
    /// `health` hears whether pages can be stored.
    pub fn new(store: Store, blobs: Arc<BlobStore>, health: Health) -> Extractor {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let schemas = Arc::new(Schemas::new(store.system()));
        Extractor { schemas, blobs, room: Arc::new(Semaphore::new(cores)), health }
    }

    /// Tries whether pages can be stored. 503 when not.
    pub async fn try_pages(&self) -> Result<()> {
        self.blobs.try_write().await.map_err(blob_error)
    }

    /// What a page that could not be stored says about the box.
    fn note_failure(&self, error: &BlobError) {
        let (BlobError::NoSpace { source, .. } | BlobError::Failed { source, .. }) = error else { return };
        let lacking = source.downcast_ref::<std::io::Error>().and_then(Part::lacking);
        self.health.report(lacking.unwrap_or(Part::Pages), format!("{error}: {source}"));
    }

    /// Platform schemas of every version, newest first; with each, when a page last confirmed it.
    pub fn list_schemas(
        &self,
        domain: Option<&str>,
        page_type: Option<PageType>,
        limit: usize,
    ) -> Result<Vec<(PlatformSchemaV1, Option<Timestamp>)>> {
        self.schemas.read(|tx| {
            let rows = schemas::list(tx, domain, page_type, limit)?;
            rows.into_iter().map(|row| schemas::with_confirmed(tx, row)).collect()
        })
    }

    /// The newest platform schema of a page type for a domain; 404 when there is none.
    pub fn find_schema(
        &self,
        domain: &str,
        page_type: PageType,
    ) -> Result<(PlatformSchemaV1, Option<Timestamp>)> {
        self.schemas.read(|tx| schemas::with_confirmed(tx, schemas::find(tx, domain, page_type)?))
    }

    /// What pages are read by.
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// Stores which schemas pages have confirmed since the last time.
    pub async fn keep_confirmed(&self) -> Result<()> {
        self.schemas.keep_confirmed().await
    }

    /// Keeps the page (it is on the disk when this returns) and extracts what a schema finds on it.
    /// Without a schema for the page the draft has no values and no quality. Fails with 413 for a page larger than the blob
    /// store takes, and with 503 when the disk does not take it at the moment.
    pub async fn process(&self, org: &OrgStore, page: DeliveredPage) -> Result<ResultDraft> {
        let kept = self.blobs.org(org.id().0).put_page(page.body.clone()).await;
        let kept = kept.inspect_err(|error| self.note_failure(error)).map_err(blob_error)?;
        let clock = org.clock().clone();
        if page.body.len() <= INLINE_BYTES_MAX {
            let mut fuel = Fuel::new(INLINE_FUEL_MAX);
            let read = read_page(&self.schemas, org, &page, &mut fuel)?;
            if fuel.left() > 0 {
                self.schemas.confirm(read.found.as_ref(), clock.now());
                return Ok(draft(page, kept, read, clock.now()));
            }
        }
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.map_err(|e| Error::internal("wait to extract a page", e))?;
        let (schemas, org) = (Arc::clone(&self.schemas), org.clone());
        tokio::task::spawn_blocking(move || {
            // One budget for all candidates: what a page may cost does not grow with the number of schemas.
            let read = read_page(&schemas, &org, &page, &mut Fuel::new(PAGE_FUEL_MAX));
            // A job that is canceled meanwhile makes no room before its page is let go of.
            drop(room);
            let read = read?;
            schemas.confirm(read.found.as_ref(), clock.now());
            Ok(draft(page, kept, read, clock.now()))
        })
        .await
        .map_err(|e| Error::internal("extract a page", e))?
    }
}

fn draft(page: DeliveredPage, kept: BlobRef, read: PageReading, now: Timestamp) -> ResultDraft {
    let mut row = plain_row(page, kept, read.title, now);
    let Some((schema, extraction)) = read.found else {
        row.attribute_errors = read.errors.into_iter().map(kept_error).collect();
        return ResultDraft { row, attributes: Arc::default(), attributes_version: None };
    };
    let reading = Reading::new(schema, extraction);
    let (attributes, attributes_version) =
        (Arc::clone(&reading.schema.attributes), reading.schema.own_version);
    let said = reading.said(row.page_type);
    row.page_type = said.page_type;
    row.schema = said.schema;
    row.quality = Some(said.quality);
    row.attribute_errors = said.attribute_errors;
    row.content_hash = said.content_hash;
    row.values = said.values;
    ResultDraft { row, attributes, attributes_version }
}

/// What a schema found on a page, within the limits of a row.
pub struct Reading {
    pub schema: Arc<CompiledSchema>,
    extraction: Extraction,
}

/// The same as rows keep it.
struct Said {
    page_type: Option<PageType>,
    schema: Option<SchemaRefV1>,
    quality: QualityV1,
    attribute_errors: Vec<AttributeErrorV1>,
    content_hash: [u8; 32],
    values: Json,
}

impl Reading {
    fn new(schema: Arc<CompiledSchema>, extraction: Extraction) -> Reading {
        let extraction = within_limits(extraction, schema.attributes.len());
        Reading { schema, extraction }
    }

    /// Share of the attributes with a value.
    pub fn completeness(&self) -> f64 {
        self.extraction.quality.completeness
    }

    /// Puts it in the place of what a row says of its page.
    pub fn put_into(self, row: &mut ResultV4, now: Timestamp) {
        row.attributes_version = self.schema.own_version;
        let said = self.said(row.page_type);
        row.page_type = said.page_type;
        row.schema = said.schema;
        row.quality = Some(said.quality);
        row.attribute_errors = said.attribute_errors;
        row.content_hash = said.content_hash;
        row.values = said.values;
        row.extracted_at = now;
    }

    fn said(self, page_type: Option<PageType>) -> Said {
        let quality = self.extraction.quality;
        Said {
            page_type: self.schema.page_type.or(page_type),
            schema: self.schema.schema_ref(),
            quality: QualityV1 {
                completeness: quality.completeness,
                validation: quality.validation,
                composite: quality.composite,
            },
            attribute_errors: self.extraction.errors.into_iter().map(kept_error).collect(),
            content_hash: hash_of_values(&self.extraction.values),
            values: Json(Value::Object(self.extraction.values)),
        }
    }
}

fn kept_error(error: AttributeError) -> AttributeErrorV1 {
    AttributeErrorV1 { reason: cut(&error.reason.join(&error.detail), REASON_BYTES_MAX), name: error.name }
}

/// What the stored page of a row says by a schema: the same as of a page that has just come. None when there is nothing that
/// could be read.
pub fn read_again(schema: Arc<CompiledSchema>, row: &ResultV4, page: &Bytes) -> Result<Option<Reading>> {
    let url = WebUrl::parse(&row.final_url).map_err(|e| Error::internal("read the URL of a result", e))?;
    let mut fuel = Fuel::new(PAGE_FUEL_MAX);
    let body = PageBody::read(page, row.content_type.as_deref(), &url, &mut fuel);
    Ok(body.filter(|body| !body.is_unreadable()).map(|body| {
        let extraction = body.extract(&schema.schema, &mut fuel);
        Reading::new(schema, extraction)
    }))
}

fn blob_error(error: BlobError) -> Error {
    match error {
        BlobError::NoSpace { .. } => Error::unavailable("The disk is full.").caused_by(error),
        BlobError::TooLarge { .. } => Error::new(Code::PayloadTooLarge).message(error.to_string()),
        BlobError::Emptied => Error::new(Code::OrgNotFound),
        BlobError::Failed { .. } | BlobError::Away { .. } => {
            Error::unavailable("The page could not be stored.").caused_by(error)
        }
        BlobError::Corrupt { .. } | BlobError::Held => Error::internal("keep a page", error),
    }
}

/// The page that a result names. None when it is gone, or when what lies there is damaged: it can only be fetched again.
pub async fn read_stored(pages: &OrgBlobs, page: &PageRefV1) -> Result<Option<Bytes>> {
    match pages.get_page(&BlobHash::from_bytes(page.hash)).await {
        Err(error @ BlobError::Corrupt { .. }) => {
            tracing::error!(%error, "a stored page is damaged");
            Ok(None)
        }
        Err(BlobError::Emptied) => Ok(None),
        Err(BlobError::Away { why }) => {
            Err(Error::unavailable(format!("The page lies in your organization's own storage: {why}.")))
        }
        Err(error) => Err(Error::unavailable("The page cannot be read at the moment.").caused_by(error)),
        Ok(found) => Ok(found),
    }
}

/// What a page says.
#[derive(Default)]
struct PageReading {
    title: Option<String>,
    found: Option<(Arc<CompiledSchema>, Extraction)>,
    /// Of a body that could not be read, for each attribute that would have been asked for: it was read by nothing, so that it stands
    /// in the way of no result that was.
    errors: Vec<AttributeError>,
}

fn read_page(
    schemas: &Schemas,
    org: &OrgStore,
    page: &DeliveredPage,
    fuel: &mut Fuel,
) -> Result<PageReading> {
    let body = PageBody::read(&page.body, page.content_type.as_deref(), &page.final_url, fuel);
    let Some(body) = body else { return Ok(PageReading::default()) };
    let candidates = schemas.of_page(org, page.final_url.host(), page.domain.as_str(), page.page_type)?;
    if body.is_unreadable() {
        let asked = if page.page_type.is_some() { candidates.last() } else { candidates.first() };
        let errors = asked.map(|schema| body.extract(&schema.schema, fuel).errors).unwrap_or_default();
        return Ok(PageReading { errors, ..PageReading::default() });
    }
    let title = body.title().map(|title| cut(&title, TITLE_BYTES_MAX)).filter(|title| !title.is_empty());
    let read = candidates.into_iter().map(|schema| {
        let extraction = body.extract(&schema.schema, fuel);
        (schema, extraction)
    });
    let found = match page.page_type {
        Some(_) => read.last(),
        None => {
            let (typed, untyped): (Vec<_>, Vec<_>) = read.partition(|(schema, _)| schema.page_type.is_some());
            let fits = |read: &(_, Extraction)| read.1.quality.completeness >= COMPLETENESS_MIN;
            let best = typed.into_iter().filter(fits).max_by(|(_, one), (_, other)| better(one, other));
            best.or_else(|| untyped.into_iter().next())
        }
    };
    Ok(PageReading { title, found, errors: Vec::new() })
}

/// Notes which registered URL the page of a job's result is: one that was registered because of it.
pub fn note_url(tx: &OrgWrite<'_>, job: JobId, url: UrlId) -> Result<()> {
    match readable("the result of a job", job, tx.get(&RESULTS, &job))?.flatten() {
        Some(row) if row.url_id.is_none() => tx.put(&RESULTS, &job, &ResultV4 { url_id: Some(url), ..row }),
        _ => Ok(()),
    }
}

/// The more complete reading is the better one; of two alike, the one that is valid, then the one that found more.
fn better(one: &Extraction, other: &Extraction) -> std::cmp::Ordering {
    let by = |score: fn(&Extraction) -> f64| score(one).total_cmp(&score(other));
    by(|extraction| extraction.quality.completeness)
        .then_with(|| by(|extraction| extraction.quality.validation))
        .then_with(|| one.values.len().cmp(&other.values.len()))
}

/// The row of a page of which nothing was read yet.
fn plain_row(page: DeliveredPage, kept: BlobRef, title: Option<String>, now: Timestamp) -> ResultV2 {
    ResultV2 {
        id: ResultId::new(),
        job: page.job,
        url_id: page.url_id,
        url: page.url.to_string(),
        final_url: page.final_url.to_string(),
        domain: page.domain.to_string(),
        page_type: page.page_type,
        schema: None,
        values: Json(Value::Object(Map::new())),
        quality: None,
        attribute_errors: Vec::new(),
        provider: page.provider,
        http_status: page.http_status,
        content_type: page.content_type,
        page: PageRefV1 {
            hash: *kept.hash.as_bytes(),
            byte_size: kept.byte_size,
            stored_size: kept.stored_size,
        },
        content_hash: *kept.hash.as_bytes(),
        changed: Vec::new(),
        title,
        tags: page.tags,
        scraped_at: page.scraped_at,
        extracted_at: now,
        sequence: 0,
        redirects: page.redirects,
    }
}

/// Drops values that a row has no room for; each leaves an error entry and counts as not found.
pub fn within_limits(mut extraction: Extraction, attributes: usize) -> Extraction {
    let mut room = VALUES_BYTES_MAX;
    let mut dropped = Vec::new();
    for (name, value) in &extraction.values {
        let bytes = name.len() + value.to_string().len();
        let members = value.as_array().map_or(1, Vec::len);
        if members > LIST_MEMBERS_MAX {
            let detail =
                format!("the list has {members} members, more than the {LIST_MEMBERS_MAX} that are kept");
            dropped.push((name.clone(), detail));
        } else if let Some(left) = room.checked_sub(bytes) {
            room = left;
        } else {
            let detail = format!(
                "the value takes {bytes} bytes, more than is left of the {VALUES_BYTES_MAX} for all values"
            );
            dropped.push((name.clone(), detail));
        }
    }
    if dropped.is_empty() {
        return extraction;
    }
    for (name, detail) in dropped {
        extraction.values.shift_remove(&name);
        extraction.errors.retain(|error| error.name != name);
        extraction.errors.push(AttributeError { name, reason: Reason::TooLarge, detail });
    }
    extraction.quality.completeness = extraction.values.len() as f64 / attributes.max(1) as f64;
    extraction.quality.composite =
        0.6 * extraction.quality.completeness + 0.4 * extraction.quality.validation;
    extraction
}

/// SHA-256 of the values as JSON with sorted names, so that a schema which lists its attributes in another order gives the
/// same hash for the same values.
fn hash_of_values(values: &Map<String, Value>) -> [u8; 32] {
    let sorted: BTreeMap<&String, &Value> = values.iter().collect();
    let mut text = String::new();
    for (name, value) in sorted {
        text.push_str(&Value::String(name.clone()).to_string());
        text.push(':');
        text.push_str(&value.to_string());
        text.push('\n');
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

/// The longest beginning of at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].trim().to_owned()
}

/// Stores a result in the transaction that ends its job, and gives its id, and when its page was fetched where that is its
/// URL's newest reading. A job that has a result already keeps that one.
pub fn record(tx: &OrgWrite<'_>, draft: ResultDraft) -> Result<(ResultId, Option<Timestamp>)> {
    if let Some(there) = tx.get(&RESULTS, &draft.row.job)? {
        return Ok((there.id, None));
    }
    let mut row = ResultV4::from(ResultV3::from(draft.row));
    row.attributes_version = draft.attributes_version;
    row.place = tx.clock().moment_of(row.scraped_at);
    // One that cannot be read counts as none: this page was fetched, and is worth keeping by itself.
    let newest = readable("an earlier result of the URL", &row.url, readings(tx, &row.url, 1))?;
    let newest = newest.and_then(|mut rows| rows.pop()).map(|newest| newest.place);
    // One ahead of the present is of a release that went by dates, and of a year that was wrong: what is read now comes
    // behind it all the same.
    if let Some(ahead) = newest.filter(|place| *place > tx.moment()) {
        row.place = ahead.after(Duration::from_millis(1));
    }
    let previous = readable("an earlier result of the URL", &row.url, previous(tx, &row))?.flatten();
    if let Some(previous) = previous.as_ref().filter(|_| !row.is_unreadable()) {
        row.changed = changed(previous, &row);
    }
    if let Some(page_type) = row.page_type.filter(|_| row.was_read()) {
        let grown = columns::grow(tx, page_type, &row.domain, &draft.attributes);
        // Without the list of columns the values are found in `readings`, as those beyond the last column are.
        readable("a list of columns", page_type, grown)?;
    }
    // Nothing else may be told between these two lines: the number is that of the row's own change record.
    row.sequence = tx.next_sequence();
    tx.put(&RESULTS, &row.job, &row)?;
    pages::name(tx, row.job, &row.page)?;
    if !row.is_unreadable() {
        changes::tell(tx, previous.as_ref(), &row)?;
    }
    let is_newest = newest.is_none_or(|newest| newest <= row.place);
    Ok((row.id, is_newest.then_some(row.scraped_at)))
}

/// Removes a job's result, and its page unless another result names it; whether there was one. Search and SQL follow.
pub fn delete(tx: &OrgWrite<'_>, job: JobId) -> Result<bool> {
    let row = readable("a result", job, tx.get(&RESULTS, &job))?.flatten();
    row.map(|row| changes::forget_gone(tx, &row)).transpose()?;
    let was = tx.delete(&RESULTS, &job)?;
    if was {
        pages::release(tx, job)?;
    }
    Ok(was)
}

/// The newest results of a URL.
fn readings(tx: &OrgWrite<'_>, url: &str, limit: usize) -> Result<Vec<ResultV4>> {
    tx.scan_index(&RESULTS, &RESULTS_BY_URL, url_digest(url), Order::Descending, limit)
}

/// The newest result of the same URL whose page was fetched before this one's, and could be read.
fn previous(tx: &OrgWrite<'_>, row: &ResultV4) -> Result<Option<ResultV4>> {
    // Almost always the newest is the one; only jobs that end out of order make it look further.
    for limit in [1, PREVIOUS_ROWS_MAX] {
        let rows = readings(tx, &row.url, limit)?;
        let ended = rows.len() < limit;
        let found = rows.into_iter().find(|other| other.place <= row.place && !other.is_unreadable());
        if found.is_some() || ended {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The attributes whose values differ: those of the new schema in its order, then those that are gone.
pub fn changed(previous: &ResultV4, row: &ResultV4) -> Vec<String> {
    let none = Map::new();
    let before = previous.values.0.as_object().unwrap_or(&none);
    let after = row.values.0.as_object().unwrap_or(&none);
    let new_or_other = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    new_or_other.map(|(name, _)| name).chain(gone).cloned().collect()
}
