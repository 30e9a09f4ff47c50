//! URLs that are registered: what an entry must be, and what becomes of it. By `POST /urls` whole, by an upload ([`upload`](super::upload))
//! part by part.

use super::derived::DerivedChanges;
use super::find;
use super::page_types::check_page_type;
use super::rows::{URLS, UrlV1};
use crate::features::workflows::{self, WorkflowStatus};
use base::audit::Action;
use base::codec::Json;
use base::ids::{UrlId, WorkflowId};
use base::limits::{TAG_CHARS_MAX, TAGS_MAX, URLS_PER_REQUEST_MAX};
use base::terms::PageType;
use base::web::{Domain, URL_BYTES_MAX, WebUrl};
use base::{Code, Error, Result, labels};
use fetch::AddressGuard;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use server::permit::{Quota, UrlsWrite};
use server::{Body, Org, apart_if};
use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;
use store::{Event, OrgRead, OrgStore, OrgWrite};

/// Entries that are judged on the spot; more are judged apart from the threads that answer.
const ENTRIES_AT_ONCE: usize = 100;
/// Workflows of which it is noted whether they can be used; further ones are looked up again.
const WORKFLOWS_NOTED_MAX: usize = 1_000;
/// URLs registered by one write operation: a large upload must not hold up everybody else's writes.
const URLS_PER_WRITE: usize = 500;
/// Bytes of their normalized texts, likewise: each costs by its text as well, which is indexed.
const URL_BYTES_PER_WRITE: usize = 32 << 10;
/// What else hangs on them, likewise: bytes of tags and metadata, and so many more for each tag, which is indexed and counted.
const EXTRA_BYTES_PER_WRITE: usize = 256 << 10;
const BYTES_PER_TAG: usize = 64;

/// One entry of an upload.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
pub enum UrlEntry {
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
pub struct NewUrl {
    #[schemars(length(min = 1, max = URL_BYTES_MAX))]
    pub url: String,
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// At most 16 KiB of JSON.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default)]
    pub page_type: Option<PageType>,
    #[serde(default)]
    pub workflow_id: Option<WorkflowId>,
}

impl From<UrlEntry> for NewUrl {
    fn from(entry: UrlEntry) -> NewUrl {
        match entry {
            UrlEntry::Text(url) => {
                NewUrl { url, tags: None, metadata: None, page_type: None, workflow_id: None }
            }
            UrlEntry::Full(full) => full,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewUrls {
    #[schemars(length(min = 1, max = URLS_PER_REQUEST_MAX))]
    urls: Vec<UrlEntry>,
}

/// What became of an upload.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Registered {
    /// New rows.
    pub created: usize,
    /// Known URLs that gained a tag, metadata, a page type or a workflow.
    pub updated: usize,
    /// Known URLs that did not change, and repetitions within the request.
    pub duplicates: usize,
    pub invalid: Vec<InvalidUrl>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InvalidUrl {
    /// Position in the request.
    pub index: usize,
    pub url: String,
    pub reason: String,
}

/// An entry that may become a row.
pub struct UrlCandidate {
    /// Position in the request, or the line of an upload.
    pub index: usize,
    /// As it came.
    pub text: String,
    url: WebUrl,
    domain: Domain,
    tags: Vec<String>,
    metadata: Option<Json>,
    page_type: Option<PageType>,
    workflow_id: Option<WorkflowId>,
    defaults: UrlDefaults,
}

/// What a row is made with where its entry says nothing. A row that is there keeps its page type and workflow, and gains tags.
#[derive(Clone, Debug, Default)]
pub struct UrlDefaults {
    pub tags: Vec<String>,
    pub page_type: Option<PageType>,
    pub workflow_id: Option<WorkflowId>,
    /// Whether what the entries themselves say counts for new rows only, too.
    pub keeps_known: bool,
}

impl UrlCandidate {
    /// The normalized URL.
    pub fn url(&self) -> &WebUrl {
        &self.url
    }

    /// The candidate with these defaults, which the organization may use; or why it cannot have them.
    pub fn with(mut self, defaults: &UrlDefaults) -> Result<UrlCandidate, String> {
        let new = defaults.tags.iter().filter(|tag| !self.tags.contains(tag)).count();
        if self.tags.len() + new > TAGS_MAX {
            return Err(format!("tags: with those of the input they are more than {TAGS_MAX}"));
        }
        self.defaults = defaults.clone();
        Ok(self)
    }
}

/// How much a write operation has to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteSize {
    urls: usize,
    url_bytes: usize,
    extra_bytes: usize,
}

impl WriteSize {
    pub fn add(&mut self, entry: &UrlCandidate) {
        self.urls += 1;
        self.url_bytes += entry.url.as_str().len();
        self.extra_bytes += entry.tags.iter().map(|tag| tag.len() + BYTES_PER_TAG).sum::<usize>();
        self.extra_bytes += entry.metadata.as_ref().map_or(0, |metadata| metadata.0.to_string().len());
    }

    /// Whether nothing more is to be added.
    pub fn is_full(self) -> bool {
        self.urls >= URLS_PER_WRITE
            || self.url_bytes >= URL_BYTES_PER_WRITE
            || self.extra_bytes >= EXTRA_BYTES_PER_WRITE
    }
}

pub(super) async fn create(
    org: Org<Quota<UrlsWrite>>,
    Body(body): Body<NewUrls>,
) -> Result<Body<Registered>> {
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
        let chunk = next_chunk(&mut candidates);
        if let Some(full) = fill(org.store(), chunk, &mut answer).await? {
            if answer.created + answer.updated == 0 {
                return Err(full.error);
            }
            // What was registered by then stays, so the answer tells of both.
            let rest = candidates.map(|entry| (entry.index, entry.text));
            let reason = no_room(&full.error);
            let left = full.left.into_iter().chain(rest);
            let left = left.map(|(index, url)| InvalidUrl { index, url, reason: reason.clone() });
            answer.invalid.extend(left);
            break;
        }
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

/// As many as one operation registers.
fn next_chunk(candidates: &mut Peekable<impl Iterator<Item = UrlCandidate>>) -> Vec<UrlCandidate> {
    let (mut chunk, mut size) = (Vec::new(), WriteSize::default());
    while !size.is_full()
        && let Some(next) = candidates.next()
    {
        size.add(&next);
        chunk.push(next);
    }
    chunk
}

/// Why an entry was not registered for want of room.
pub fn no_room(full: &Error) -> String {
    format!("not registered: {}", full.detail().unwrap_or("there is no room left"))
}

/// The entries that may become rows, and what is wrong with the others.
fn judge(
    org: &OrgStore,
    entries: Vec<UrlEntry>,
    guard: &AddressGuard,
) -> Result<(Vec<UrlCandidate>, Registered)> {
    let mut answer = Registered::default();
    let mut candidates = Vec::with_capacity(entries.len());
    let mut judge = EntryJudge::new(org.clone());
    for (index, entry) in entries.into_iter().enumerate() {
        let entry = NewUrl::from(entry);
        let url = entry.url.clone();
        match judge.judge(index, &format!("urls[{index}]."), entry, guard)? {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => answer.invalid.push(InvalidUrl { index, url, reason }),
        }
    }
    Ok((candidates, answer))
}

/// Judges entries one by one.
pub struct EntryJudge {
    org: OrgStore,
    /// The workflows that entries named so far, and whether they can be used.
    workflows: BTreeMap<WorkflowId, bool>,
    /// The own page type that an entry named last and that there is.
    page_type: Option<PageType>,
}

impl EntryJudge {
    pub fn new(org: OrgStore) -> EntryJudge {
        EntryJudge { org, workflows: BTreeMap::new(), page_type: None }
    }

    /// The entry as what may become a row, or what is wrong with it; its fields are named behind `place`.
    pub fn judge(
        &mut self,
        index: usize,
        place: &str,
        entry: NewUrl,
        guard: &AddressGuard,
    ) -> Result<Result<UrlCandidate, String>> {
        let candidate = match candidate(index, place, entry, guard) {
            Ok(candidate) => candidate,
            Err(reason) => return Ok(Err(reason)),
        };
        Ok(match self.unknown_workflow(candidate.workflow_id)? {
            None => match self.unknown_page_type(&format!("{place}pageType"), candidate.page_type)? {
                None => Ok(candidate),
                Some(reason) => Err(reason),
            },
            Some(id) => Err(format!("{place}workflowId: there is no workflow {id}")),
        })
    }

    /// Why the organization does not have this page type. Each is looked up once.
    fn unknown_page_type(&mut self, field: &str, page_type: Option<PageType>) -> Result<Option<String>> {
        let Some(own) = page_type.filter(|own| own.is_own() && self.page_type != page_type) else {
            return Ok(None);
        };
        match self.org.read(|tx| check_page_type(tx, field, Some(own))) {
            Ok(()) => {
                self.page_type = page_type;
                Ok(None)
            }
            Err(error) if error.code() == Code::InvalidInput => {
                Ok(Some(error.detail().unwrap_or_default().to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// The id, when it is no workflow of the organization that can still be published. Each is looked up once.
    fn unknown_workflow(&mut self, id: Option<WorkflowId>) -> Result<Option<WorkflowId>> {
        let Some(id) = id else { return Ok(None) };
        let is_known = match self.workflows.get(&id) {
            Some(is_known) => *is_known,
            None => {
                let is_known = self.org.read(|tx| is_usable(tx, id))?;
                if self.workflows.len() < WORKFLOWS_NOTED_MAX {
                    self.workflows.insert(id, is_known);
                }
                is_known
            }
        };
        Ok((!is_known).then_some(id))
    }
}

/// Whether it is a workflow of the organization that can still be published.
pub fn is_usable(tx: &OrgRead<'_>, id: WorkflowId) -> Result<bool> {
    let row = tx.get(&workflows::WORKFLOWS, &id)?;
    Ok(row.is_some_and(|row| row.status != WorkflowStatus::Archived))
}

fn candidate(index: usize, place: &str, entry: NewUrl, guard: &AddressGuard) -> Result<UrlCandidate, String> {
    let url = WebUrl::parse(&entry.url).map_err(|e| e.to_string())?;
    guard.check_literal(&url).map_err(|refused| refused.to_string())?;
    let words = |e: Error| e.detail().unwrap_or_default().to_owned();
    Ok(UrlCandidate {
        index,
        text: entry.url,
        domain: url.domain(),
        url,
        tags: labels::tags(&format!("{place}tags"), entry.tags.unwrap_or_default()).map_err(words)?,
        metadata: match entry.metadata {
            None => None,
            given => Some(labels::metadata(&format!("{place}metadata"), given).map_err(words)?),
        },
        page_type: entry.page_type,
        workflow_id: entry.workflow_id,
        defaults: UrlDefaults::default(),
    })
}

/// Where the room ended.
pub(super) struct Full {
    pub(super) error: Error,
    /// Positions and texts of the candidates that were not registered.
    pub(super) left: Vec<(usize, String)>,
}

/// Registers candidates in the order in which they came, up to the first for which there is no room. Room is asked for an
/// operation as a whole, so one that is refused is done again in halves.
pub(super) async fn fill(
    org: &OrgStore,
    candidates: Vec<UrlCandidate>,
    done: &mut Registered,
) -> Result<Option<Full>> {
    let candidates: Arc<[UrlCandidate]> = candidates.into();
    let (mut begin, mut size) = (0, candidates.len());
    while begin < candidates.len() {
        let end = candidates.len().min(begin + size);
        let shared = Arc::clone(&candidates);
        match org.write(move |tx| register(tx, &shared[begin..end])).await {
            Ok(more) => {
                done.created += more.created;
                done.updated += more.updated;
                done.duplicates += more.duplicates;
                done.invalid.extend(more.invalid);
                begin = end;
            }
            Err(error) if error.code() != Code::QuotaExceeded => return Err(error),
            Err(_) if end - begin > 1 => size = (end - begin) / 2,
            Err(error) => {
                let left = candidates[begin..].iter().map(|entry| (entry.index, entry.text.clone()));
                return Ok(Some(Full { error, left: left.collect() }));
            }
        }
    }
    Ok(None)
}

/// Registers candidates in the order in which they came, in one operation.
fn register(tx: &OrgWrite<'_>, candidates: &[UrlCandidate]) -> Result<Registered> {
    register_each(tx, candidates.iter(), |_, _, _| Ok(()))
}

/// The same; `tell` hears of each that is registered by its place, and whether it is new.
pub fn register_each<'c>(
    tx: &OrgWrite<'_>,
    candidates: impl Iterator<Item = &'c UrlCandidate>,
    mut tell: impl FnMut(usize, UrlId, bool) -> Result<()>,
) -> Result<Registered> {
    let mut done = Registered::default();
    let (mut touched, mut changes) = (Vec::new(), DerivedChanges::default());
    for new in candidates {
        let more = new.defaults.tags.iter().filter(|tag| !new.tags.contains(tag));
        let tags: Vec<_> = new.tags.iter().chain(more).cloned().collect();
        let Some(mut row) = find(tx, &new.url)? else {
            let row = UrlV1 {
                id: UrlId::new(),
                url: new.url.as_str().to_owned(),
                domain: new.domain.as_str().to_owned(),
                tags,
                metadata: new.metadata.clone().unwrap_or_else(|| Json(Value::Object(Map::new()))),
                page_type: new.page_type.or(new.defaults.page_type),
                workflow_id: new.workflow_id.or(new.defaults.workflow_id),
                last_job_id: None,
                last_scraped_at: None,
                last_status: None,
                created_at: tx.now(),
            };
            tx.insert(&URLS, &row.id, &row)?;
            changes.note(None, Some(&row));
            touched.push(row.id);
            done.created += 1;
            tell(new.index, row.id, true)?;
            continue;
        };
        let before = row.clone();
        row.tags.extend(tags.into_iter().filter(|tag| !before.tags.contains(tag)));
        if row.tags.len() > TAGS_MAX {
            let (had, has) = (before.tags.len(), row.tags.len());
            let reason =
                format!("tags: the URL has {had} already and would have {has}; at most {TAGS_MAX} are kept");
            done.invalid.push(InvalidUrl { index: new.index, url: new.text.clone(), reason });
            continue;
        }
        if !new.defaults.keeps_known {
            row.metadata = new.metadata.clone().unwrap_or(row.metadata);
            row.page_type = new.page_type.or(row.page_type);
            row.workflow_id = new.workflow_id.or(row.workflow_id);
        }
        tell(new.index, row.id, false)?;
        if row == before {
            done.duplicates += 1;
        } else {
            tx.put(&URLS, &row.id, &row)?;
            changes.note(Some(&before), Some(&row));
            touched.push(row.id);
            done.updated += 1;
        }
    }
    changes.write(tx)?;
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
