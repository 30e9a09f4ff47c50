//! Follows the change records: each new result, and each job that brought none, is counted once.
//!
//! Counting costs the operation that stores a result nothing. What is counted and how far that went are one operation, so a crash
//! neither misses nor doubles.

use super::low::{self, Graded, grade};
use super::rows::{BY_DOMAIN, DRIFT, DriftPositionV1, DriftV1, FETCHES, Fetched, POSITION};
use super::shape::shape;
use super::window::Seen;
use crate::features::extraction::{
    RESULTS, RESULTS_BY_DOMAIN, RESULTS_BY_URL, ResultV4, SchemaPair, is_readable, place_of_result,
    place_read_by, result_place, url_digest,
};
use crate::features::jobs::{JOBS, JobV2};
use base::Result;
use base::clock::Timestamp;
use base::ids::{JobId, OrgId, SchemaId};
use base::limits::DRIFT_WATCHED_MAX;
use base::page::PageRequest;
use base::terms::{JobStatus, PageType};
use base::web::host_of;
use fetch::Outcome;
use server::task::Consumer;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Key, Order, OrgRead, OrgWrite, SysRead, System, readable};

/// Change records of one operation.
const CHANGES_PER_READ: usize = 1_000;
/// How long what changes is gathered.
const PERIOD: Duration = Duration::from_millis(500);
/// Change records of others after which the position is stored for their sake alone.
const IDLE_CHANGES_MAX: u64 = 4_096;
/// Earlier results of a URL among which the last one of a type is looked for. Where so many are of none it is looked for no more: a
/// URL that is visited each minute would cost ever more.
const EARLIER_MAX: usize = 16;
/// Newest results of a domain among which those with addresses like a new page's are looked for.
const ALIKE_MAX: usize = 40;

/// The consumer that counts. Hung up in the services.
pub struct DriftFeed {
    system: System,
    reached: AtomicU64,
    durable: AtomicU64,
}

/// What a stretch of change records tells of one organization.
#[derive(Default)]
struct News {
    seen: Vec<(SchemaPair, Seen, Option<Graded>)>,
    fetched: Vec<(String, Fetched, Timestamp)>,
}

impl DriftFeed {
    /// Goes on where it stood; a folder that never counted begins with what comes now.
    pub fn open(system: System) -> Result<DriftFeed> {
        let newest = *system.store().sequence().borrow();
        let stands = readable("how far drift is counted", "", system.read(|tx| tx.get(&POSITION, &())))?;
        let position = stands.flatten().map_or(newest, |row| row.position.min(newest));
        Ok(DriftFeed { system, reached: AtomicU64::new(position), durable: AtomicU64::new(position) })
    }

    /// What the records behind a place tell, and the last of them.
    fn news(&self, tx: &SysRead<'_>, after: u64) -> Result<(HashMap<OrgId, News>, Option<u64>, bool)> {
        let changes = tx.changes(after, CHANGES_PER_READ)?;
        let last = changes.last().map(|change| change.sequence);
        let is_full = changes.len() == CHANGES_PER_READ;
        let mut news: HashMap<OrgId, News> = HashMap::new();
        let brought: HashSet<(OrgId, &[u8])> = changes
            .iter()
            .filter(|change| change.table == RESULTS.name())
            .map(|change| (change.org, change.key.as_slice()))
            .collect();
        let (mut asked, mut places) = (HashSet::new(), HashMap::new());
        for change in changes.iter().filter(|change| !change.deleted) {
            let Some(job) = JobId::decode(&change.key) else { continue };
            if change.table == RESULTS.name() {
                let row = readable("a result", job, tx.org(change.org).get(&RESULTS, &job))?.flatten();
                // A row that was changed later has told of itself before, under another number.
                if let Some(row) = row.filter(|row| row.sequence == change.sequence) {
                    let own = news.entry(change.org).or_default();
                    own.fetched.push((row.domain.clone(), Fetched::Page, row.scraped_at));
                    let own_tx = tx.org(change.org);
                    if let Some((page_type, seen)) = seen(&own_tx, &row)? {
                        let host = (change.org, host_of(&row.final_url).to_owned(), page_type);
                        let place = match places.get(&host) {
                            Some(place) => String::clone(place),
                            None => place_read_by(tx, &own_tx, (&host.1, &row.domain), page_type)?,
                        };
                        let graded = grade(tx, &row)?;
                        own.seen.push((SchemaPair::new(&place, page_type), seen, graded));
                        places.insert(host, place);
                    }
                }
            } else if change.table == JOBS.name()
                && !brought.contains(&(change.org, change.key.as_slice()))
                && asked.insert((change.org, job))
            {
                let row = readable("a job", job, tx.org(change.org).get(&JOBS, &job))?.flatten();
                let failed =
                    row.as_ref().and_then(|row| Some((row.domain.clone(), failure(row)?, row.finished_at?)));
                news.entry(change.org).or_default().fetched.extend(failed);
            }
        }
        Ok((news, last, is_full))
    }

    fn store(&self, news: HashMap<OrgId, News>, position: u64) -> Result<()> {
        self.system.write_blocking(move |tx| {
            for (org, news) in news {
                if !tx.is_fenced(org) {
                    count(&tx.org(org), news)?;
                }
            }
            tx.put(&POSITION, &(), &DriftPositionV1 { position })
        })?;
        self.durable.store(position, Ordering::Release);
        Ok(())
    }
}

/// What a result tells; none for one of which nothing was to be read. A page that is of no type any more, because nearly nothing
/// was found on it, lacks what the last one of its URL had; at its first visit, what pages with addresses like its own have.
fn seen(tx: &OrgRead<'_>, row: &ResultV4) -> Result<Option<(PageType, Seen)>> {
    // A body that broke off says nothing of its site.
    if row.is_unreadable() {
        return Ok(None);
    }
    if row.page_type.is_some() {
        return Ok(told(row));
    }
    let before = PageRequest { limit: EARLIER_MAX, cursor: Some(result_place(row)) };
    let was_read = |earlier: &ResultV4| earlier.page_type.is_some() && earlier.was_read();
    let earlier = tx.page_by(&RESULTS, &RESULTS_BY_URL, url_digest(&row.url), &before, |_| true);
    let earlier = readable("an earlier result of the URL", &row.url, earlier)?;
    let Some(earlier) = earlier else { return Ok(None) };
    let known = match earlier.items.is_empty() {
        true => alike(tx, row)?,
        false => earlier.items.into_iter().find(was_read),
    };
    Ok(known.as_ref().and_then(told).map(|(page_type, mut seen)| {
        seen.attributes.iter_mut().for_each(|(_, is_found)| *is_found = false);
        (page_type, Seen { at: row.scraped_at, ..seen })
    }))
}

/// The newest result of a type whose address is like that of a page of no type. None where most of those before were of no type: a site
/// whose articles nobody reads has them beside its products.
fn alike(tx: &OrgRead<'_>, row: &ResultV4) -> Result<Option<ResultV4>> {
    let is_page = is_readable(row.content_type.as_deref()) && (200..300).contains(&row.http_status);
    let (Some(own), true) = (shape(&row.url), is_page) else { return Ok(None) };
    // Of most domains nothing is read at all.
    let known = tx.scan_index(&DRIFT, &BY_DOMAIN, row.domain.clone(), Order::Ascending, 1);
    if readable("how pages of a domain are read", &row.domain, known)?.is_none_or(|rows| rows.is_empty()) {
        return Ok(None);
    }
    let newest = PageRequest { limit: ALIKE_MAX, cursor: Some(place_of_result(row)) };
    let of_domain = tx.page_by(&RESULTS, &RESULTS_BY_DOMAIN, &row.domain, &newest, |_| true);
    let of_domain = readable("the newest results of a domain", &row.domain, of_domain)?;
    let host = host_of(&row.final_url);
    let of_domain = of_domain.map(|page| page.items).unwrap_or_default();
    let of_host: Vec<ResultV4> =
        of_domain.into_iter().filter(|other| host_of(&other.final_url) == host).collect();
    let is_read = |other: &&ResultV4| other.page_type.is_some() && other.was_read();
    // The newest may be of the redesign themselves.
    let alike: Vec<&ResultV4> = of_host
        .iter()
        .filter(|other| shape(&other.url).as_ref() == Some(&own))
        .skip_while(|other| !is_read(other))
        .collect();
    let read = alike.iter().copied().filter(is_read).count();
    let Some(known) = alike.first().filter(|_| read * 2 > alike.len()) else { return Ok(None) };
    // What was read by something else than its type is read by now says nothing of that.
    let of_type = of_host.iter().filter(is_read).find(|other| other.page_type == known.page_type);
    let by = |one: &ResultV4| (one.schema, one.attributes_version);
    Ok(of_type.filter(|newest| by(newest) == by(known)).map(|_| ResultV4::clone(known)))
}

fn told(row: &ResultV4) -> Option<(PageType, Seen)> {
    let page_type = row.page_type.filter(|_| row.was_read())?;
    let errors: HashSet<&str> = row.attribute_errors.iter().map(|error| error.name.as_str()).collect();
    let values = row.values.0.as_object()?;
    let found = values.keys().map(|name| (name.clone(), !errors.contains(name.as_str())));
    let missing = row.attribute_errors.iter().filter(|error| !values.contains_key(&error.name));
    let attributes = found.chain(missing.map(|error| (error.name.clone(), false))).collect();
    let seen =
        Seen { schema: row.schema, own_version: row.attributes_version, attributes, at: row.scraped_at };
    Some((page_type, seen))
}

/// How a job ended that brought no page.
fn failure(job: &JobV2) -> Option<Fetched> {
    if job.status != JobStatus::Failed {
        return None;
    }
    match job.attempts.last()?.outcome {
        Outcome::Blocked => Some(Fetched::Blocked),
        Outcome::TargetError | Outcome::Timeout | Outcome::NetworkError | Outcome::ProviderError => {
            Some(Fetched::Failed)
        }
        Outcome::Success | Outcome::LowQuality | Outcome::Canceled => None,
    }
}

fn count(tx: &OrgWrite<'_>, news: News) -> Result<()> {
    let mut rows: BTreeMap<(String, String), (SchemaPair, DriftV1)> = BTreeMap::new();
    for (pair, seen, graded) in news.seen {
        let place = (pair.domain.clone(), pair.page_type.name().to_owned());
        if !rows.contains_key(&place) {
            let Some(row) = row_of(tx, &pair)? else { continue };
            rows.insert(place.clone(), (pair.clone(), row));
        }
        if let Some(graded) = graded {
            low::count(tx, &pair, graded)?;
        }
        if let Some((_, row)) = rows.get_mut(&place) {
            row.add(&seen, tx.moment());
        }
    }
    for (pair, row) in rows.into_values() {
        tx.put(&DRIFT, &pair, &row)?;
    }
    let mut fetches: BTreeMap<String, Vec<(Fetched, Timestamp)>> = BTreeMap::new();
    for (domain, fetched, at) in news.fetched {
        fetches.entry(domain).or_default().push((fetched, at));
    }
    for (domain, fetched) in fetches {
        let known = readable("how fetches of a domain end", &domain, tx.get(&FETCHES, &domain))?.flatten();
        let is_new = known.is_none();
        if is_new && tx.count(&FETCHES, DRIFT_WATCHED_MAX)? >= DRIFT_WATCHED_MAX {
            continue;
        }
        let before = known.unwrap_or_default();
        let mut row = before.clone();
        fetched.into_iter().for_each(|(fetched, at)| row.add(fetched, at));
        // Where all goes well, as mostly, nothing is written.
        if is_new || row != before {
            tx.put(&FETCHES, &domain, &row)?;
        }
    }
    Ok(())
}

/// The row of a pair, or a new one. None where there is no room for more. One that cannot be read begins anew.
fn row_of(tx: &OrgWrite<'_>, pair: &SchemaPair) -> Result<Option<DriftV1>> {
    let known = readable("how pages are read", &pair.domain, tx.get(&DRIFT, pair))?;
    if let Some(Some(row)) = known {
        return Ok(Some(row));
    }
    if known.is_some() && tx.count(&DRIFT, DRIFT_WATCHED_MAX)? >= DRIFT_WATCHED_MAX {
        return Ok(None);
    }
    Ok(Some(new_row(pair)))
}

/// A pair of which nothing is known.
pub(super) fn new_row(pair: &SchemaPair) -> DriftV1 {
    DriftV1 {
        id: SchemaId::new(),
        domain: pair.domain.clone(),
        page_type: pair.page_type,
        schema: None,
        own_version: None,
        attributes: Vec::new(),
        is_due: false,
        runs: 0,
        refusals: 0,
        not_before: None,
        is_told: false,
        last: None,
        rereading: None,
    }
}

impl Consumer for DriftFeed {
    fn name(&self) -> &'static str {
        "drift"
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    fn pause(&self, _: Instant, ended: Instant) -> Duration {
        PERIOD.saturating_sub(ended.elapsed())
    }

    fn rest(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    fn take(&self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let after = self.reached();
        let (news, last, is_full) = self.system.read(|tx| self.news(tx, after))?;
        let Some(last) = last else { return Ok(false) };
        if !news.is_empty() || last - self.durable() >= IDLE_CHANGES_MAX {
            self.store(news, last)?;
        }
        self.reached.store(last, Ordering::Release);
        Ok(is_full && !stop())
    }

    fn settle(&self) -> Result<()> {
        match self.reached() {
            reached if reached > self.durable() => self.store(HashMap::new(), reached),
            _ => Ok(()),
        }
    }

    /// Its rows go with the organization's.
    fn forget(&self, _: OrgId) -> Result<u64> {
        Ok(0)
    }
}
