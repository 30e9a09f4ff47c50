//! Reading stored pages again, by the schema and the own attributes as they are now, and putting what they say into the rows.
//!
//! Named results are read as they are named. Without names a request goes on with a walk through the results of the site, from
//! the newest to the oldest, past those that were read by what holds now; where it stands is kept ([`BackfillV1`]), so that
//! requests one after the other come to the end. Changing a schema or an attribute begins another walk.
//!
//! Nothing of a page depends on when it is read, so a row comes out the same however often this is done, and the same as a
//! result of the page would be now. A row is changed as it is then: what else has happened to it meanwhile stays.

use super::body::is_readable;
use super::columns;
use super::compiled::CompiledSchema;
use super::history::result_before;
use super::rows::{RESULTS, RESULTS_BY_ID, RESULTS_BY_URL, ResultV4, SchemaPair, SchemaRefV1, url_digest};
use super::service::{COMPLETENESS_MIN, Extractor, Reading, changed, read_again, read_stored};
use super::site::{Site, has_page, place_of_result, results_of_site};
use super::turns::ReadingTurns;
use crate::features::urls::check_page_type;
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Record;
use base::ids::{JobId, ResultId};
use base::limits::HTML_BYTES_MAX;
use base::page::{Page, PageRequest};
use base::terms::PageType;
use base::web::host_of;
use base::{Error, Result};
use blob::BlobStore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::WorkflowsWrite;
use server::{Body, Org, Services};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Event, OrgStore, OrgTable, OrgWrite, Seek, readable};

/// Rows of one request, unless it says otherwise, and at most.
const ROWS_DEFAULT: usize = 20;
const ROWS_MAX: usize = 50;
/// Rows of one operation.
const STEP_ROWS: usize = 16;
/// How long a request goes on beginning with pages.
const GO_ON_MAX: Duration = Duration::from_secs(10);
/// What is said of a row that is there no more, and of one that may be readable another time.
const GONE: &str = "Result not found";
const NO_PAGE: &str = "What was fetched is no page.";
const UNREADABLE: &str = "It cannot be read at the moment.";
/// Pages of rows that one request looks through for those that are due.
const LOOKS_MAX: usize = 8;

/// Where a walk through the results of a site stands; gone when it has come to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackfillV1 {
    /// By what the pages are read in this walk.
    pub schema: Option<SchemaRefV1>,
    pub own_version: Option<u32>,
    /// Behind which row to go on.
    pub cursor: String,
    /// Whether a row could not be read that may be readable another time.
    pub has_failed: bool,
}

impl Record for BackfillV1 {}

/// By domain or host, and page type.
pub static BACKFILLS: OrgTable<SchemaPair, BackfillV1> = OrgTable::new("extraction_backfills", "Backfill");

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BackfillRequest {
    /// A registrable domain, or one host of it.
    domain: String,
    page_type: PageType,
    /// 1 to 50 results; without them the next ones that were read by another schema or by other attributes, the newest first.
    #[serde(default)]
    result_ids: Option<Vec<ResultId>>,
    /// 1 to 50 rows; 20 unless it is said.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "BackfillRowStatus")]
pub(super) enum RowStatus {
    /// It was read again; the row says what the page says by the schema as it is now.
    Updated,
    /// Its page is not kept, or no more.
    SkippedNoBlob,
    /// Its page is larger than 5 MB.
    SkippedTooLarge,
    Error,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BackfillRow")]
pub(super) struct RowView {
    pub id: ResultId,
    pub status: RowStatus,
    /// Attributes that have a value now and had none.
    pub new_fields: usize,
    /// Why it is an error; null otherwise.
    pub message: Option<String>,
}

/// What became of each row.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BackfillSummary {
    /// Rows that were updated.
    processed: usize,
    skipped: usize,
    failed: usize,
    results: Vec<RowView>,
    /// Whether no stored result of the page type is left that was read by another schema; the same request again goes on. True
    /// for a request that names its results.
    is_complete: bool,
}

impl BackfillSummary {
    fn add(&mut self, row: RowView) {
        match row.status {
            RowStatus::Updated => self.processed += 1,
            RowStatus::SkippedNoBlob | RowStatus::SkippedTooLarge => self.skipped += 1,
            RowStatus::Error => self.failed += 1,
        }
        self.results.push(row);
    }

    fn skip(&mut self, id: ResultId, status: RowStatus) {
        self.add(RowView { id, status, new_fields: 0, message: None });
    }

    fn fail(&mut self, id: ResultId, message: impl Into<String>) {
        let message = Some(message.into());
        self.add(RowView { id, status: RowStatus::Error, new_fields: 0, message });
    }
}

/// A row that is to be read again.
struct DueRow {
    id: ResultId,
    job: JobId,
    /// When it was read the last time.
    extracted_at: Timestamp,
    /// The cursor behind it.
    place: String,
    is_typed: bool,
}

impl From<ResultV4> for DueRow {
    fn from(row: ResultV4) -> DueRow {
        let place = place_of_result(&row);
        DueRow {
            id: row.id,
            job: row.job,
            extracted_at: row.extracted_at,
            place,
            is_typed: row.page_type.is_some(),
        }
    }
}

/// A walk that a request goes on with.
struct Walk {
    current: Arc<CompiledSchema>,
    /// Where it goes on behind the rows of this request; none at its end.
    next: Option<String>,
    has_failed: bool,
    /// When the last row was read that this request has come to, before it was read again.
    reached: Option<Timestamp>,
}

/// What a stored page says now.
pub(super) struct ReadRow {
    id: ResultId,
    job: JobId,
    page: [u8; 32],
    reading: Reading,
}

/// What became of the attempt to read a stored page again.
pub(super) enum Found {
    Read(Box<ReadRow>),
    NoPage,
    TooLarge,
    /// A page of which nobody said what it is, and which is not of the type that is looked for.
    OtherType,
    Refused(&'static str),
}

pub(super) async fn backfill(
    org: Org<WorkflowsWrite>,
    Body(asked): Body<BackfillRequest>,
) -> Result<Body<BackfillSummary>> {
    let site = Site::parse("domain", &asked.domain)?;
    let limit = rows_of(&asked)?;
    let extractor = org.service::<Extractor>();
    let page_type = asked.page_type;
    org.read(|tx| check_page_type(tx, "pageType", Some(page_type)))?;
    let current = extractor.schemas().of_type(org.store(), &site.host, &site.domain, page_type)?;
    let current = current.ok_or_else(|| Error::not_found("Schema"))?;
    let (turns, pages) = (org.service::<ReadingTurns>(), org.service::<BlobStore>());
    let summary = BackfillSummary::default();
    let mut run =
        Run { org: org.store(), extractor, turns, pages, site, page_type, summary, has_unfilled: false };
    match asked.result_ids {
        Some(ids) => run.read_named(&ids).await?,
        None => run.go_on(current, limit).await?,
    }
    Ok(Body(run.summary))
}

/// How many rows a request asks for.
fn rows_of(asked: &BackfillRequest) -> Result<usize> {
    let limit = asked.limit.unwrap_or(if asked.result_ids.is_some() { ROWS_MAX } else { ROWS_DEFAULT });
    if !(1..=ROWS_MAX).contains(&limit) {
        return Err(Error::invalid("limit", format!("must be from 1 to {ROWS_MAX}")));
    }
    let count = asked.result_ids.as_ref().map_or(1, Vec::len);
    if !(1..=limit).contains(&count) {
        return Err(Error::invalid("resultIds", format!("must have 1 to {limit} entries, not {count}")));
    }
    Ok(limit)
}

/// Reads named results of a site again for background work, as many at once as a request may name; gives how many have changed.
pub async fn read_again_named(
    services: &Services,
    org: &OrgStore,
    site: Site,
    page_type: PageType,
    ids: &[ResultId],
) -> Result<usize> {
    let (extractor, turns) = (services.service::<Extractor>(), services.service::<ReadingTurns>());
    let (pages, summary) = (services.service::<BlobStore>(), BackfillSummary::default());
    let mut run = Run { org, extractor, turns, pages, site, page_type, summary, has_unfilled: false };
    run.read_named(&ids[..ids.len().min(ROWS_MAX)]).await?;
    Ok(run.summary.processed)
}

/// One request under way.
struct Run<'a> {
    org: &'a OrgStore,
    extractor: Arc<Extractor>,
    turns: Arc<ReadingTurns>,
    pages: Arc<BlobStore>,
    site: Site,
    page_type: PageType,
    summary: BackfillSummary,
    /// A row of the type stays without what is new, because its page is gone or too large.
    has_unfilled: bool,
}

impl Run<'_> {
    /// Reads the rows that a request names.
    async fn read_named(&mut self, ids: &[ResultId]) -> Result<()> {
        let mut rest = self.named(ids)?.into_iter();
        let (step, _, cut) = self.read_some(&mut rest, false).await?;
        self.put(step, None).await?;
        for row in cut.into_iter().chain(rest) {
            self.summary.fail(row.id, "There was no time left for it: ask for it again.");
        }
        let places: HashMap<ResultId, usize> =
            ids.iter().enumerate().rev().map(|(at, id)| (*id, at)).collect();
        self.summary.results.sort_by_key(|row| places.get(&row.id).copied());
        self.summary.is_complete = true;
        Ok(())
    }

    /// Of named rows those that are the organization's and of the site and type; each other one is an error of its own.
    fn named(&mut self, ids: &[ResultId]) -> Result<Vec<DueRow>> {
        let rows: Vec<_> = self.org.read(|tx| {
            ids.iter().map(|id| Ok((*id, tx.lookup(&RESULTS, &RESULTS_BY_ID, *id)?))).collect::<Result<_>>()
        })?;
        let mut due: Vec<DueRow> = Vec::new();
        for (id, row) in rows {
            match row {
                None => self.summary.fail(id, GONE),
                Some(row) if !self.site.has(&row) => {
                    self.summary.fail(id, format!("Its page is of {}.", host_of(&row.url)));
                }
                Some(ResultV4 { page_type: Some(other), .. }) if other != self.page_type => {
                    self.summary.fail(id, format!("It is of page type {other}."));
                }
                // Named twice it is read once.
                Some(_) if due.iter().any(|known| known.id == id) => {}
                Some(row) => due.push(row.into()),
            }
        }
        Ok(due)
    }

    /// Goes on with the walk through the site's results.
    async fn go_on(&mut self, current: Arc<CompiledSchema>, limit: usize) -> Result<()> {
        let key = SchemaPair::new(&self.site.host, self.page_type);
        let stands = self.org.read(|tx| tx.get(&BACKFILLS, &key));
        let stands = readable("where a backfill stands", &key.domain, stands)?.flatten();
        let by_now = (current.schema_ref(), current.own_version);
        let stands = stands.filter(|at| (at.schema, at.own_version) == by_now);
        let has_failed = stands.as_ref().is_some_and(|at| at.has_failed);
        let (due, next) = self.due(stands.map(|at| at.cursor), limit)?;
        let mut walk = Walk { current, next, has_failed, reached: None };
        let mut rest = due.into_iter();
        let (step, last, cut) = self.read_some(&mut rest, true).await?;
        if cut.is_some() && last.is_none() {
            // The wait for a turn took all the time: the walk stands where it stood, and is not at its end.
            return Ok(());
        }
        if cut.is_some() {
            walk.next = last.as_ref().map(|last| last.place.clone());
        }
        walk.reached = last.map(|last| last.extracted_at);
        self.summary.is_complete = walk.next.is_none() && cut.is_none();
        self.put(step, Some(walk)).await
    }

    /// The next rows that were read by something else than what holds now, and where to go on behind them.
    fn due(&self, mut cursor: Option<String>, limit: usize) -> Result<(Vec<DueRow>, Option<String>)> {
        let mut due = Vec::new();
        for _ in 0..LOOKS_MAX {
            let page = PageRequest { limit: limit - due.len(), cursor };
            let found = self.stale(&page)?;
            due.extend(found.items.into_iter().map(DueRow::from));
            cursor = found.next_cursor;
            if cursor.is_none() || due.len() >= limit {
                break;
            }
        }
        Ok((due, cursor))
    }

    fn stale(&self, page: &PageRequest) -> Result<Page<ResultV4>> {
        type By = (Option<SchemaRefV1>, Option<u32>);
        let mut by_host: HashMap<String, Option<By>> = HashMap::new();
        let (schemas, store) = (self.extractor.schemas(), self.org);
        let mut is_stale = |row: &ResultV4| {
            if row.page_type.is_some_and(|page_type| page_type != self.page_type) {
                return false;
            }
            let host = host_of(&row.final_url);
            let now = by_host.entry(host.to_owned()).or_insert_with(|| {
                let found = schemas.of_type(store, host, &row.domain, self.page_type).ok().flatten();
                found.map(|schema| (schema.schema_ref(), schema.own_version))
            });
            now.is_some_and(|now| now != (row.schema, row.attributes_version))
        };
        self.org.read(|tx| results_of_site(tx, &self.site, page, &mut is_stale))
    }

    /// Reads rows one after the other, for as long as there is time, and puts some at a time. Gives what is still to be put,
    /// the last row that was read, and the one for which there was no time.
    async fn read_some(
        &mut self,
        rows: &mut impl Iterator<Item = DueRow>,
        is_walk: bool,
    ) -> Result<(Vec<ReadRow>, Option<DueRow>, Option<DueRow>)> {
        let begun = Instant::now();
        let (mut step, mut last) = (Vec::new(), None);
        for row in rows.by_ref() {
            let turn = match self.turns.next(self.org.id()).await {
                Ok(turn) if begun.elapsed() < GO_ON_MAX => turn,
                Err(error) if last.is_none() => return Err(error),
                _ => return Ok((step, last, Some(row))),
            };
            let found = self.read(&row, is_walk).await;
            drop(turn);
            match found {
                Ok(Found::Read(read)) => step.push(*read),
                Ok(Found::OtherType) => {}
                Ok(Found::NoPage) => {
                    self.has_unfilled |= row.is_typed;
                    self.summary.skip(row.id, RowStatus::SkippedNoBlob);
                }
                Ok(Found::TooLarge) => {
                    self.has_unfilled |= row.is_typed;
                    self.summary.skip(row.id, RowStatus::SkippedTooLarge);
                }
                Ok(Found::Refused(why)) => self.summary.fail(row.id, why),
                Err(error) => {
                    tracing::warn!(result = %row.id, %error, "a stored page could not be read again");
                    self.summary.fail(row.id, UNREADABLE);
                }
            }
            last = Some(row);
            if step.len() == STEP_ROWS {
                self.put(std::mem::take(&mut step), None).await?;
            }
        }
        Ok((step, last, None))
    }

    async fn read(&self, due: &DueRow, is_walk: bool) -> Result<Found> {
        let row = self.org.read(|tx| {
            let Some(row) = tx.get(&RESULTS, &due.job)? else { return Ok(None) };
            let is_kept = has_page(tx, &row)?;
            Ok(Some((row, is_kept)))
        })?;
        let Some((row, is_kept)) = row else { return Ok(Found::Refused(GONE)) };
        if let Some(reason) = unreadable(&row, is_kept) {
            return Ok(reason);
        }
        let host = host_of(&row.final_url);
        let schema = self.extractor.schemas().of_type(self.org, host, &row.domain, self.page_type)?;
        let Some(schema) = schema else { return Ok(Found::Refused("There is no schema for its host.")) };
        let pages = self.pages.org(self.org.id().0);
        let Some(page) = read_stored(&pages, &row.page).await? else { return Ok(Found::NoPage) };
        let (id, job, hash, is_typed) = (row.id, row.job, row.page.hash, row.page_type.is_some());
        let reading = tokio::task::spawn_blocking(move || read_again(schema, &row, &page));
        let reading = reading.await.map_err(|e| Error::internal("read a page again", e))??;
        let Some(reading) = reading else { return Ok(Found::Refused(NO_PAGE)) };
        if is_walk && !is_typed && reading.completeness() < COMPLETENESS_MIN {
            return Ok(Found::OtherType);
        }
        Ok(Found::Read(Box::new(ReadRow { id, job, page: hash, reading })))
    }

    /// Puts what pages say into their rows, and where the walk stands.
    async fn put(&mut self, step: Vec<ReadRow>, walk: Option<Walk>) -> Result<()> {
        if step.is_empty() && walk.is_none() {
            return Ok(());
        }
        let (site, page_type) = (self.site.clone(), self.page_type);
        let is_unreadable = |row: &RowView| row.message.as_deref() == Some(UNREADABLE);
        let failed_before = self.has_unfilled || self.summary.results.iter().any(is_unreadable);
        let done = self.org.write(move |tx| {
            let mut done = Vec::with_capacity(step.len());
            let mut updated = Vec::new();
            for read in step {
                let id = read.id;
                let new_fields = update(tx, read);
                if matches!(new_fields, Ok(Some(_))) {
                    updated.push(id);
                }
                done.push((id, new_fields));
            }
            let has_failed = failed_before || done.iter().any(|(_, new_fields)| new_fields.is_err());
            let moved = walk.map_or(Ok(false), |walk| advance(tx, &site, page_type, walk, has_failed))?;
            if moved || !updated.is_empty() {
                let event = Event::new(Action::ResultBackfilled).with("domain", site.host.as_str());
                let event = event.with("pageType", page_type.name()).with("count", updated.len());
                tx.audit(event.ids("ids", updated))?;
            }
            Ok(done)
        });
        for (id, new_fields) in done.await? {
            match new_fields {
                Ok(Some(new_fields)) => {
                    self.summary.add(RowView { id, status: RowStatus::Updated, new_fields, message: None });
                }
                Ok(None) => self.summary.fail(id, GONE),
                Err(error) => {
                    tracing::warn!(result = %id, %error, "a result could not be updated");
                    self.summary.fail(id, UNREADABLE);
                }
            }
        }
        Ok(())
    }
}

/// Why the page of a row is not read, if it is not.
pub(super) fn unreadable(row: &ResultV4, is_kept: bool) -> Option<Found> {
    if !is_kept {
        return Some(Found::NoPage);
    }
    if row.page.byte_size > HTML_BYTES_MAX as u64 {
        return Some(Found::TooLarge);
    }
    let is_page = is_readable(row.content_type.as_deref());
    (!is_page).then_some(Found::Refused(NO_PAGE))
}

/// Puts what a page says into its row as that is now; gives how many attributes have a value that had none. None when the row
/// is gone.
fn update(tx: &OrgWrite<'_>, read: ReadRow) -> Result<Option<usize>> {
    let Some(mut row) = tx.get(&RESULTS, &read.job)?.filter(|row| row.page.hash == read.page) else {
        return Ok(None);
    };
    let before = std::mem::take(&mut row.values);
    let attributes = Arc::clone(&read.reading.schema.attributes);
    read.reading.put_into(&mut row, tx.now());
    let had = |name: &str| before.0.get(name).is_some();
    let new_fields = row.values.0.as_object().into_iter().flatten().filter(|(name, _)| !had(name)).count();
    let earlier = readable("an earlier result of the URL", &row.url, result_before(tx, &row))?.flatten();
    row.changed = earlier.map(|earlier| changed(&earlier, &row)).unwrap_or_default();
    if let Some(page_type) = row.page_type {
        let grown = columns::grow(tx, page_type, &row.domain, &attributes);
        readable("a list of columns", page_type, grown)?;
    }
    tx.put(&RESULTS, &row.job, &row)?;
    // What the next visit changed is told against this row.
    let later = Seek::behind(&(url_digest(&row.url), row.place));
    let later = tx.index_entries(&RESULTS, &RESULTS_BY_URL, url_digest(&row.url), &later, 1)?;
    for entry in later.entries {
        let next = readable("a later result of the URL", &row.url, tx.get(&RESULTS, &entry.key))?.flatten();
        let Some(mut next) = next.filter(|next| !next.is_unreadable()) else { continue };
        let changes = changed(&row, &next);
        if next.changed != changes {
            next.changed = changes;
            tx.put(&RESULTS, &next.job, &next)?;
        }
    }
    Ok(Some(new_fields))
}

/// Notes where a walk stands, and up to when the columns of its attributes are filled; whether that has changed anything.
fn advance(
    tx: &OrgWrite<'_>,
    site: &Site,
    page_type: PageType,
    walk: Walk,
    has_failed: bool,
) -> Result<bool> {
    let key = SchemaPair::new(&site.host, page_type);
    let has_failed = walk.has_failed || has_failed;
    let is_end = walk.next.is_none();
    let mut moved = match walk.next {
        Some(cursor) => {
            let (schema, own_version) = (walk.current.schema_ref(), walk.current.own_version);
            tx.put(&BACKFILLS, &key, &BackfillV1 { schema, own_version, cursor, has_failed })?;
            true
        }
        None => tx.delete(&BACKFILLS, &key)?,
    };
    // Rows of the domain that this walk has not seen may lack a column as well: those of its other hosts, and those of another
    // page type in the same table.
    let shares_table = |other: &&PageType| {
        **other != page_type && columns::table_of(**other) == columns::table_of(page_type)
    };
    let sees_all = site.host == site.domain && !PageType::ALL.iter().any(|other| shares_table(&other));
    if sees_all && !has_failed && (is_end || walk.reached.is_some()) {
        let until = if is_end { None } else { walk.reached };
        let table = columns::table_of(page_type);
        moved |= columns::move_horizon(tx, &table, &site.domain, &walk.current.attributes, until)?;
    }
    Ok(moved)
}
