//! Registered URLs: what schedules and jobs point to.

mod remove;
mod rows;
mod select;
mod views;

pub use rows::{URLS, UrlV1};
pub use select::select;

use super::Feature;
use crate::features::workflows::{self, WorkflowStatus};
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::{JobId, UrlId, WorkflowId};
use base::limits::{TAG_CHARS_MAX, TAGS_MAX, URLS_PER_REQUEST_MAX};
use base::page::{Page, PageRequest};
use base::terms::{JobStatus, PageType};
use base::web::{Domain, URL_BYTES_MAX, WebUrl, host_of};
use base::{Code, Error, Result, labels};
use fetch::AddressGuard;
use rows::{BY_DOMAIN, BY_TAG, BY_URL};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::permit::{Quota, UrlsRead, UrlsWrite};
use server::{Body, Handler, Need, Org, Path, Query, Route, apart_if};
use std::collections::BTreeMap;
use std::fmt;
use store::{Event, OrgRead, OrgStore, OrgWrite};

pub static FEATURE: Feature = Feature {
    name: "urls",
    uses: &["workflows"],
    tables: &[&URLS],
    routes: &[
        Route::get("/api/v1/urls", "listUrls", &Handler::new(list))
            .about("The registered URLs, newest first."),
        Route::post("/api/v1/urls", "createUrls", &Handler::new(create))
            .about("Registers up to 10,000 URLs; tags of a known one are merged.")
            .large_body()
            .fails(&[Code::InvalidInput]),
        Route::get("/api/v1/urls/{id}", "getUrl", &Handler::new(get)).about("One registered URL."),
        Route::delete("/api/v1/urls/{id}", "deleteUrl", &Handler::new(remove::delete_one))
            .about("Takes a URL from the list; its jobs and results stay.")
            .fails(&[Code::NotFound]),
        Route::post("/api/v1/urls/delete", "deleteUrls", &Handler::new(remove::delete_many)).about(
            "Takes URLs from the list by their ids or by a filter: go on with nextCursor until it is null.",
        ),
    ],
    needs: &[Need::of::<AddressGuard>()],
    views: &[views::VIEW],
    ..Feature::NONE
};

/// Entries that are judged on the spot; more are judged apart from the threads that answer.
const ENTRIES_AT_ONCE: usize = 100;
/// URLs registered by one write operation: a large upload must not hold up everybody else's writes.
const URLS_PER_WRITE: usize = 500;

/// One entry of an upload.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
enum UrlEntry {
    Text(String),
    Full(NewUrl),
}

/// By hand, because serde's untagged enums forget which member of an object was wrong.
impl<'de> Deserialize<'de> for UrlEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UrlEntryVisitor)
    }
}

struct UrlEntryVisitor;

impl<'de> Visitor<'de> for UrlEntryVisitor {
    type Value = UrlEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL or an object with a url")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<UrlEntry, E> {
        Ok(UrlEntry::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<UrlEntry, A::Error> {
        NewUrl::deserialize(MapAccessDeserializer::new(members)).map(UrlEntry::Full)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NewUrl {
    #[schemars(length(min = 1, max = URL_BYTES_MAX))]
    url: String,
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    tags: Option<Vec<String>>,
    /// At most 16 KiB of JSON.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    page_type: Option<PageType>,
    #[serde(default)]
    workflow_id: Option<WorkflowId>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct NewUrls {
    #[schemars(length(min = 1, max = URLS_PER_REQUEST_MAX))]
    urls: Vec<UrlEntry>,
}

/// What became of an upload.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Registered {
    /// New rows.
    created: usize,
    /// Known URLs that gained a tag, metadata, a page type or a workflow.
    updated: usize,
    /// Known URLs that did not change, and repetitions within the request.
    duplicates: usize,
    invalid: Vec<InvalidUrl>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InvalidUrl {
    /// Position in the request.
    index: usize,
    url: String,
    reason: String,
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
    last_job_id: Option<JobId>,
    /// When the page of its newest result was fetched: that result's scrapedAt.
    last_scraped_at: Option<Timestamp>,
    last_status: Option<JobStatus>,
    created_at: Timestamp,
}

impl From<UrlV1> for UrlView {
    fn from(row: UrlV1) -> UrlView {
        UrlView {
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
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct UrlFilter {
    /// Part of the URL.
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
    let wanted = |row: &UrlV1| accepts(&filter, row);
    let rows = org.read(|tx| match (filter.tag.first(), &filter.domain) {
        (Some(tag), _) => tx.page_by(&URLS, &BY_TAG, tag, &page, wanted),
        (None, Some(domain)) => tx.page_by(&URLS, &BY_DOMAIN, domain, &page, wanted),
        (None, None) => tx.page(&URLS, &page, wanted),
    })?;
    Ok(Body(rows.map(UrlView::from)))
}

fn accepts(filter: &UrlFilter, row: &UrlV1) -> bool {
    filter.q.as_ref().is_none_or(|q| row.url.contains(q.as_str()))
        && filter.tag.iter().all(|tag| row.tags.contains(tag))
        && filter.domain.as_ref().is_none_or(|domain| row.domain == *domain)
        && filter.page_type.is_none_or(|kind| row.page_type == Some(kind))
        && filter.last_status.is_none_or(|status| row.last_status == Some(status))
}

async fn get(org: Org<UrlsRead>, Path(id): Path<UrlId>) -> Result<Body<UrlView>> {
    Ok(Body(org.read(|tx| tx.require(&URLS, &id))?.into()))
}

/// An entry that may become a row.
struct UrlCandidate {
    /// Position in the request.
    index: usize,
    /// As it came.
    text: String,
    url: WebUrl,
    domain: Domain,
    tags: Vec<String>,
    metadata: Option<Json>,
    page_type: Option<PageType>,
    workflow_id: Option<WorkflowId>,
}

async fn create(org: Org<Quota<UrlsWrite>>, Body(body): Body<NewUrls>) -> Result<Body<Registered>> {
    let count = body.urls.len();
    if !(1..=URLS_PER_REQUEST_MAX).contains(&count) {
        return Err(Error::invalid(
            "urls",
            format!("must have 1 to {URLS_PER_REQUEST_MAX} entries, not {count}"),
        ));
    }
    let (guard, store) = (org.service::<AddressGuard>(), org.store().clone());
    let judged = apart_if(count > ENTRIES_AT_ONCE, move || judge(&store, body.urls, &guard));
    let (candidates, mut answer) = judged.await??;
    let mut candidates = candidates.into_iter().peekable();
    while candidates.peek().is_some() {
        let chunk: Vec<_> = candidates.by_ref().take(URLS_PER_WRITE).collect();
        let tried: Vec<_> = chunk.iter().map(|entry| (entry.index, entry.text.clone())).collect();
        let done = match org.write(move |tx| register(tx, chunk)).await {
            Ok(done) => done,
            // What was registered by then stays, so the answer tells of both.
            Err(full) if full.code() == Code::QuotaExceeded && answer.created + answer.updated > 0 => {
                let rest = candidates.map(|entry| (entry.index, entry.text));
                let reason = format!("not registered: {}", full.detail().unwrap_or("there is no room left"));
                let left = tried.into_iter().chain(rest);
                let left = left.map(|(index, url)| InvalidUrl { index, url, reason: reason.clone() });
                answer.invalid.extend(left);
                break;
            }
            Err(error) => return Err(error),
        };
        answer.created += done.created;
        answer.updated += done.updated;
        answer.duplicates += done.duplicates;
        answer.invalid.extend(done.invalid);
    }
    // The parts of the answer are of two looks at the entries; a reader expects them in the order of the request.
    answer.invalid.sort_by_key(|invalid| invalid.index);
    match answer.invalid.first() {
        Some(first) if answer.invalid.len() == count => {
            Err(Error::new(Code::InvalidUrl).message(match first.reason.starts_with("urls[") {
                true => first.reason.clone(),
                false => format!("urls[0]: {}", first.reason),
            }))
        }
        _ => Ok(Body(answer)),
    }
}

/// The entries that may become rows, and what is wrong with the others.
fn judge(
    org: &OrgStore,
    entries: Vec<UrlEntry>,
    guard: &AddressGuard,
) -> Result<(Vec<UrlCandidate>, Registered)> {
    let mut answer = Registered::default();
    let mut candidates = Vec::with_capacity(entries.len());
    let mut known = BTreeMap::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let entry = match entry {
            UrlEntry::Text(url) => {
                NewUrl { url, tags: None, metadata: None, page_type: None, workflow_id: None }
            }
            UrlEntry::Full(full) => full,
        };
        let text = entry.url.clone();
        match candidate(index, entry, guard) {
            Ok(candidate) => match unknown_workflow(org, &mut known, candidate.workflow_id)? {
                None => candidates.push(candidate),
                Some(id) => {
                    let reason = format!("urls[{index}].workflowId: there is no workflow {id}");
                    answer.invalid.push(InvalidUrl { index, url: text, reason });
                }
            },
            Err(reason) => answer.invalid.push(InvalidUrl { index, url: text, reason }),
        }
    }
    Ok((candidates, answer))
}

fn candidate(index: usize, entry: NewUrl, guard: &AddressGuard) -> Result<UrlCandidate, String> {
    let url = WebUrl::parse(&entry.url).map_err(|e| e.to_string())?;
    guard.check_literal(&url).map_err(|refused| refused.to_string())?;
    let field = format!("urls[{index}]");
    let words = |e: Error| e.detail().unwrap_or_default().to_owned();
    Ok(UrlCandidate {
        index,
        text: entry.url,
        domain: url.domain(),
        url,
        tags: labels::tags(&format!("{field}.tags"), entry.tags.unwrap_or_default()).map_err(words)?,
        metadata: match entry.metadata {
            None => None,
            given => Some(labels::metadata(&format!("{field}.metadata"), given).map_err(words)?),
        },
        page_type: entry.page_type,
        workflow_id: entry.workflow_id,
    })
}

/// The id, when it is no workflow of the organization that can still be published. Each is looked up once.
fn unknown_workflow(
    org: &OrgStore,
    known: &mut BTreeMap<WorkflowId, bool>,
    id: Option<WorkflowId>,
) -> Result<Option<WorkflowId>> {
    let Some(id) = id else { return Ok(None) };
    let is_known = match known.get(&id) {
        Some(is_known) => *is_known,
        None => {
            let row = org.read(|tx| tx.get(&workflows::WORKFLOWS, &id))?;
            let is_known = row.is_some_and(|row| row.status != WorkflowStatus::Archived);
            known.insert(id, is_known);
            is_known
        }
    };
    Ok((!is_known).then_some(id))
}

fn register(tx: &OrgWrite<'_>, candidates: Vec<UrlCandidate>) -> Result<Registered> {
    let mut done = Registered::default();
    let mut touched = Vec::new();
    for new in candidates {
        let Some(mut row) = find(tx, &new.url)? else {
            let row = UrlV1 {
                id: UrlId::new(),
                url: new.url.as_str().to_owned(),
                domain: new.domain.as_str().to_owned(),
                tags: new.tags,
                metadata: new.metadata.unwrap_or_else(|| Json(Value::Object(Map::new()))),
                page_type: new.page_type,
                workflow_id: new.workflow_id,
                last_job_id: None,
                last_scraped_at: None,
                last_status: None,
                created_at: tx.now(),
            };
            tx.insert(&URLS, &row.id, &row)?;
            touched.push(row.id);
            done.created += 1;
            continue;
        };
        let before = row.clone();
        row.tags.extend(new.tags.into_iter().filter(|tag| !before.tags.contains(tag)));
        if row.tags.len() > TAGS_MAX {
            let (had, has) = (before.tags.len(), row.tags.len());
            let reason =
                format!("tags: the URL has {had} already and would have {has}; at most {TAGS_MAX} are kept");
            done.invalid.push(InvalidUrl { index: new.index, url: new.text, reason });
            continue;
        }
        row.metadata = new.metadata.unwrap_or(row.metadata);
        row.page_type = new.page_type.or(row.page_type);
        row.workflow_id = new.workflow_id.or(row.workflow_id);
        if row == before {
            done.duplicates += 1;
        } else {
            tx.put(&URLS, &row.id, &row)?;
            touched.push(row.id);
            done.updated += 1;
        }
    }
    let event = Event::new(Action::UrlCreated);
    match touched.as_slice() {
        [] => {}
        [one] => tx.audit(event.of(*one).with("created", done.created).with("updated", done.updated))?,
        _ => {
            let event = event.with("created", done.created).with("updated", done.updated);
            tx.audit(event.ids("ids", touched))?;
        }
    }
    Ok(done)
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
