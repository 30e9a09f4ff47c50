//! The search index follows the store: [`SearchFeed`] reads the change records and applies the results they tell of.
//!
//! The index holds its own position in each commit, so this keeps none: whatever happened, it goes on behind
//! [`SearchIndex::position`], and applying a change again does no harm. An index that is new, that was wiped, or that
//! stands before the oldest change record still kept, is filled from the rows; until that is finished its commits carry
//! position 0, so a crash in the middle starts over and no change record is forgotten meanwhile.
//!
//! A document's id is its job's: that is the key that a change record names, also when the row is gone.

use super::rows::{RESULTS, ResultV1};
use crate::base::clock::Timestamp;
use crate::base::ids::{JobId, OrgId};
use crate::base::{Error, Result};
use crate::disk;
use crate::engine::search::{
    ResultQuery, SEARCH_TIME_MAX, SearchChange, SearchDocument, SearchError, SearchIndex,
};
use crate::store::{Key, System};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// Change records read in one transaction.
const CHANGES_PER_READ: usize = 1_000;
/// Rows read in one transaction; a row may take a megabyte.
const ROWS_PER_READ: usize = 64;
/// Changes of results in one commit at most (engines page, "Search").
const CHANGES_PER_COMMIT: usize = 5_000;
/// Change records of other tables that may pass before the position is committed for their sake alone, so that they can
/// be forgotten.
const IDLE_CHANGES_MAX: u64 = 4_096;
/// The writer's memory is given back when nothing was indexed for this long.
const WRITER_IDLE: Duration = Duration::from_secs(20);
/// Commits whose times are remembered: a quarter of an hour of the busiest box.
const COMMIT_TIMES_MAX: usize = 4_096;

/// The consumer that keeps the search index. Hung up in the services; one task drives it.
pub struct SearchFeed {
    system: System,
    index: SearchIndex,
    /// Every change of a result up to this number is committed in the index.
    reached: AtomicU64,
    times: Mutex<CommitTimes>,
    /// Held while rows are on their way into the index.
    feeding: Mutex<()>,
    /// The index is to be looked at: after a start, and after it failed in a way that may be damage.
    suspect: Mutex<Suspicion>,
}

/// Why the index is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    None,
    /// Files may have been altered while nobody served them.
    Start,
    /// Something failed: also count whether every result is in it.
    Failure,
}

/// When the index took in what.
struct CommitTimes {
    /// What the index held when this process began to remember.
    begin: u64,
    /// Position and time of each commit, ascending.
    commits: VecDeque<(u64, Timestamp)>,
}

impl SearchFeed {
    /// Opens the index in `dir` for the results of this store. An index that stands where this store never was (an older
    /// or newer copy of either was put back) is wiped, because what it holds beyond the rows could not be told.
    pub fn open(dir: PathBuf, system: System) -> Result<SearchFeed> {
        let index = SearchIndex::open(dir.clone()).map_err(search_error)?;
        let newest = *system.store().sequence().borrow();
        let begin = system.read(|tx| tx.changes_begin())?;
        let position = index.position();
        let (ahead, behind) = (position > newest, position + 1 < begin);
        let store = system.store().id().to_string();
        let stamp = stamp_in(&dir)?;
        let foreign = stamp.as_ref().is_some_and(|stamp| *stamp != store);
        let (at, wiped) = (dir.clone(), ahead || foreign || (behind && index.documents() > 0));
        let index = if wiped {
            tracing::warn!(
                position,
                newest,
                begin,
                foreign,
                "the search index does not fit the store: it is filled anew"
            );
            drop(index);
            match std::fs::remove_dir_all(&dir) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::internal("wipe the search index", e));
                }
                _ => SearchIndex::open(dir).map_err(search_error)?,
            }
        } else {
            index
        };
        if wiped || stamp.is_none() {
            disk::put(&at.join(STORE_FILE), &at.join(STORE_FILE_NEW), store.as_bytes())
                .map_err(|e| Error::internal("stamp the search index", e))?;
        }
        let position = index.position();
        Ok(SearchFeed {
            system,
            index,
            reached: AtomicU64::new(position),
            times: Mutex::new(CommitTimes { begin: position, commits: VecDeque::new() }),
            feeding: Mutex::default(),
            suspect: Mutex::new(Suspicion::Start),
        })
    }

    pub fn index(&self) -> &SearchIndex {
        &self.index
    }

    /// Every change of a result up to this number can be found. A result is pending while its `sequence` is greater.
    pub fn committed(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// What the index would go on behind after a crash: change records up to here are not needed for it any more.
    pub fn durable_position(&self) -> u64 {
        self.index.position()
    }

    /// When the result could first be found; none while it is pending. The times of the last commits are remembered; for a
    /// result that was indexed before them (or before the process started) it is the time of its extraction, which a
    /// running box is ahead of by less than a second.
    pub fn indexed_at(&self, row: &ResultV1) -> Option<Timestamp> {
        if row.sequence > self.committed() {
            return None;
        }
        let times = self.times.lock();
        let at = times.commits.partition_point(|(position, _)| *position < row.sequence);
        let remembered = row.sequence > times.begin;
        Some(times.commits.get(at).filter(|_| remembered).map_or(row.extracted_at, |(_, time)| *time))
    }

    /// Removes an organization that stands behind a fence from the index and its files; gives how many documents there
    /// were. Blocks for as long as rewriting the segments takes that hold any.
    pub fn remove_org(&self, org: OrgId) -> Result<u64> {
        // Whatever was read before the fence is in the index by now, and nothing is read behind it.
        let _feeding = self.feeding.lock();
        self.index.remove_org(org.0).map(|erased| erased.documents).map_err(search_error)
    }

    /// Applies every change there is and commits. Blocks; one call at a time. `stop` ends a long refill early.
    pub fn catch_up(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let _feeding = self.feeding.lock();
        let newest = *self.system.store().sequence().borrow();
        if self.committed() < newest {
            let caught_up = self.follow(stop);
            if caught_up.is_err() {
                // Whatever was staged is gone; the index knows where it stands.
                self.reached.store(self.index.position(), Ordering::Release);
                self.suspect_failure();
            }
            caught_up?;
        } else {
            self.index.release_idle(WRITER_IDLE).map_err(|e| self.failed(e))?;
        }
        if stop() { Ok(()) } else { self.look_if_suspect() }
    }

    /// Looks at the index if there is a reason to; one that is damaged, or lacks results, is filled anew.
    fn look_if_suspect(&self) -> Result<()> {
        let suspicion = *self.suspect.lock();
        if suspicion == Suspicion::None {
            return Ok(());
        }
        let why = match self.index.verify() {
            Ok(damaged) if damaged.is_empty() => self.lacks_results(suspicion)?,
            Ok(damaged) => Some(format!("damaged files: {}", damaged.join(", "))),
            Err(SearchError::Damaged(error)) => Some(error.to_string()),
            Err(error) => return Err(search_error(error)),
        };
        if let Some(why) = why {
            tracing::error!(why, "the search index is damaged and filled anew");
            self.index.clear().map_err(search_error)?;
            self.reached.store(self.index.position(), Ordering::Release);
        }
        *self.suspect.lock() = Suspicion::None;
        Ok(())
    }

    /// Whether the index has fewer or more documents than there are results, if that can be told now.
    fn lacks_results(&self, suspicion: Suspicion) -> Result<Option<String>> {
        if suspicion != Suspicion::Failure {
            return Ok(None);
        }
        let rows = self.system.store().entries(RESULTS.name())?;
        // Asked after the rows: whatever came between is not in the index yet.
        let is_even = self.committed() >= *self.system.store().sequence().borrow();
        let documents = self.index.documents();
        Ok((is_even && rows != documents).then(|| format!("{documents} documents for {rows} results")))
    }

    fn suspect_failure(&self) {
        *self.suspect.lock() = Suspicion::Failure;
    }

    /// An error of the index, which is looked at when it may be damaged.
    fn failed(&self, error: SearchError) -> Error {
        if matches!(error, SearchError::Damaged(_) | SearchError::Failed(_)) {
            self.suspect_failure();
        }
        search_error(error)
    }

    /// The same on the way to somebody who searches: what is damaged is mended soon.
    pub fn failed_search(&self, error: SearchError) -> Error {
        let mends = matches!(error, SearchError::Damaged(_) | SearchError::Failed(_));
        let failed = self.failed(error);
        if !mends {
            return failed;
        }
        let cause = failed.for_operator();
        tracing::error!(cause, "a search failed; the index is looked at");
        Error::unavailable(
            "The search index could not be read; it is looked at, and made anew if it is damaged.",
        )
        .caused_by(cause)
    }

    /// Takes a document of nobody's into the index, finds it and removes it again: two commits, through all that a result
    /// goes through. Blocks, also for as long as the index is being filled.
    pub fn self_test(&self) -> Result<()> {
        let _feeding = self.feeding.lock();
        let (nobody, id) = (Uuid::nil(), Uuid::now_v7());
        let probe = SearchDocument {
            job_id: id,
            url_id: None,
            url: "http://self-test.invalid/".to_owned(),
            domain: "self-test.invalid".to_owned(),
            page_type: None,
            tags: Vec::new(),
            quality: 0.0,
            changed: false,
            scraped_at_ms: self.system.clock().now().millis(),
            title: String::new(),
            text: id.simple().to_string(),
        };
        let set = |document| {
            let change = SearchChange { org: nobody, id, document };
            self.index.apply(&[change], self.index.position()).map_err(search_error)
        };
        set(Some(probe))?;
        let query = ResultQuery { q: Some(id.simple().to_string()), limit: 1, ..ResultQuery::default() };
        let found = self.index.org(nobody).search(&query).map_err(search_error);
        set(None)?;
        match found?.hits.as_slice() {
            [hit] if hit.id == id => Ok(()),
            _ => Err(Error::internal("try the search index", "what was indexed is not found")),
        }
    }

    fn follow(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let begin = self.system.read(|tx| tx.changes_begin())?;
        if self.committed() + 1 < begin && !self.refill(stop)? {
            return Ok(());
        }
        let mut position = self.committed();
        loop {
            let changes = self.system.read(|tx| tx.changes(position, CHANGES_PER_READ))?;
            let Some(last) = changes.last() else { break };
            position = last.sequence;
            let mut seen = HashSet::new();
            let keys: Vec<_> = changes
                .iter()
                .filter(|change| change.table == RESULTS.name())
                .filter_map(|change| Some((change.org, JobId::decode(&change.key)?)))
                .filter(|key| seen.insert(*key))
                .collect();
            for keys in keys.chunks(ROWS_PER_READ) {
                self.stage_rows(keys, self.index.position())?;
            }
            if self.index.staged_changes() >= CHANGES_PER_COMMIT {
                self.commit(position)?;
            }
        }
        if self.index.staged_changes() > 0 || position - self.index.position() >= IDLE_CHANGES_MAX {
            self.commit(position)?;
        }
        self.reached.store(position, Ordering::Release);
        Ok(())
    }

    /// Stages the rows as they are now.
    fn stage_rows(&self, keys: &[(OrgId, JobId)], position: u64) -> Result<()> {
        let changes = self.system.read(|tx| {
            let change = |(org, job): &(OrgId, JobId)| {
                let row = tx.org(*org).get(&RESULTS, job)?;
                Ok(SearchChange { org: org.0, id: job.0, document: row.as_ref().map(document) })
            };
            keys.iter().map(change).collect::<Result<Vec<_>>>()
        })?;
        self.index.stage(&changes, position).map_err(|e| self.failed(e))
    }

    /// Commits what is staged as everything up to `position`.
    fn commit(&self, position: u64) -> Result<()> {
        self.index.stage(&[], position).map_err(|e| self.failed(e))?;
        self.index.commit().map_err(|e| self.failed(e))?;
        let mut times = self.times.lock();
        times.commits.push_back((position, self.system.clock().now()));
        if times.commits.len() > COMMIT_TIMES_MAX
            && let Some((oldest, _)) = times.commits.pop_front()
        {
            times.begin = oldest;
        }
        drop(times);
        self.reached.store(position, Ordering::Release);
        Ok(())
    }

    /// Fills the index from the rows; whether it came to its end. Rows that change meanwhile are told again behind `begin`.
    fn refill(&self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let begin = *self.system.store().sequence().borrow();
        tracing::info!(begin, "filling the search index from the rows");
        let mut after: Option<(OrgId, JobId)> = None;
        loop {
            let rows = self.system.read(|tx| {
                tx.scan_all(&RESULTS, after.as_ref().map(|(org, job)| (*org, job)), ROWS_PER_READ)
            })?;
            let Some((org, job, _)) = rows.last() else { break };
            after = Some((*org, *job));
            let changes: Vec<_> = rows
                .iter()
                .map(|(org, job, row)| SearchChange { org: org.0, id: job.0, document: Some(document(row)) })
                .collect();
            self.index.stage(&changes, 0).map_err(|e| self.failed(e))?;
            if self.index.staged_changes() >= CHANGES_PER_COMMIT {
                self.index.commit().map_err(|e| self.failed(e))?;
            }
            if stop() {
                return Ok(false);
            }
        }
        self.commit(begin)?;
        Ok(true)
    }
}

/// Says of which store the index is.
const STORE_FILE: &str = "store";
const STORE_FILE_NEW: &str = "store.new";

/// The store that an index says it is of; none for one of an older release, or none at all.
fn stamp_in(dir: &std::path::Path) -> Result<Option<String>> {
    match std::fs::read_to_string(dir.join(STORE_FILE)) {
        Ok(stamp) => Ok(Some(stamp.trim().to_owned())),
        // Nobody can read it, so it is not this store's.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::internal("read the stamp of the search index", error)),
    }
}

/// A failure of the index on its way to a caller or the log.
pub fn search_error(error: SearchError) -> Error {
    match error {
        SearchError::NoSpace(_) => Error::unavailable("The disk is full.").caused_by(error),
        SearchError::NotErased { .. } => Error::unavailable(error.to_string()),
        SearchError::TooSlow => Error::invalid(
            "q",
            format!(
                "takes longer than {} s to look up; use fewer or rarer words, or a filter (domain, tag, from …)",
                SEARCH_TIME_MAX.as_secs()
            ),
        ),
        SearchError::CursorOfOtherSort => Error::invalid("cursor", "belongs to a list in another order"),
        other => Error::internal("use the search index", other),
    }
}

/// A result as the index takes it.
fn document(row: &ResultV1) -> SearchDocument {
    SearchDocument {
        job_id: row.job.0,
        url_id: row.url_id.map(|id| id.0),
        url: row.url.clone(),
        domain: row.domain.clone(),
        page_type: row.page_type.map(|page_type| page_type.name().to_owned()),
        tags: row.tags.clone(),
        quality: row.quality.map_or(0.0, |quality| quality.composite),
        changed: !row.changed.is_empty(),
        scraped_at_ms: row.scraped_at.millis(),
        title: row.title.clone().unwrap_or_default(),
        text: search_text(row),
    }
}

/// All values as text, one a line: what is searched.
fn search_text(row: &ResultV1) -> String {
    let mut text = String::new();
    add_text(&mut text, &row.values.0);
    text
}

/// The text of each attribute by itself: what highlights are cut from, so that none runs from one value into the next.
pub fn attribute_texts(row: &ResultV1) -> impl Iterator<Item = String> {
    row.values.0.as_object().into_iter().flat_map(serde_json::Map::values).map(|value| {
        let mut text = String::new();
        add_text(&mut text, value);
        text
    })
}

fn add_text(text: &mut String, value: &Value) {
    match value {
        Value::String(value) => {
            text.push_str(value);
            text.push('\n');
        }
        Value::Number(number) => {
            text.push_str(&number.to_string());
            text.push('\n');
        }
        Value::Array(members) => members.iter().for_each(|member| add_text(text, member)),
        Value::Object(members) => members.values().for_each(|member| add_text(text, member)),
        Value::Bool(_) | Value::Null => {}
    }
}
