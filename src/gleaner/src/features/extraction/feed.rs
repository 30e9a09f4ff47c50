//! The search index follows the store: [`SearchFeed`] reads the change records and applies the results they tell of.
//!
//! The index holds its own position in each commit, so this keeps none: whatever happened, it goes on behind
//! [`SearchIndex::position`], and applying a change again does no harm. An index that is new, that was wiped, or that
//! stands before the oldest change record still kept, is filled from the rows; until that is finished its commits carry
//! position 0, so a crash in the middle starts over and no change record is forgotten meanwhile.
//!
//! A document's id is its job's: that is the key that a change record names, also when the row is gone.

use super::document::document;
use super::rows::{RESULTS, ResultV4};
use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{JobId, OrgId};
use base::{Code, Error, Result};
use parking_lot::Mutex;
use search::{ResultQuery, SEARCH_TIME_MAX, SearchChange, SearchDocument, SearchError, SearchIndex};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Key, Order, SysRead, SysTable, System, readable};
use uuid::Uuid;

/// Change records read in one transaction.
const CHANGES_PER_READ: usize = 1_000;
/// Rows read in one transaction; a row may take a megabyte.
const ROWS_PER_READ: usize = 64;
/// Changes of results in one commit at most (data/docs/engines.md, "Search").
const CHANGES_PER_COMMIT: usize = 5_000;
/// Change records of other tables that may pass before the position is committed for their sake alone, so that they can
/// be forgotten.
const IDLE_CHANGES_MAX: u64 = 4_096;
/// How long a self-test waits for rows that are on their way into the index.
const TRIED_WITHIN: Duration = Duration::from_secs(1);
/// The writer's memory is given back when nothing was indexed for this long.
const WRITER_IDLE: Duration = Duration::from_secs(20);

/// When the index took in results: everything up to the key, a number of a change record, that an earlier row does not
/// cover. Kept for as long as there is a result that it may speak of: what is said of one once is said for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedV1 {
    /// None: nobody noted it, in a release before this was kept.
    pub at: Option<Timestamp>,
}

impl Record for IndexedV1 {}

pub static INDEXED: SysTable<u64, IndexedV1> = SysTable::new("search_indexed", "Index commit");

/// The consumer that keeps the search index. Hung up in the services; one task drives it.
pub struct SearchFeed {
    system: System,
    index: SearchIndex,
    /// Every change of a result up to this number is committed in the index, and it is noted when.
    reached: AtomicU64,
    /// A commit whose time is not noted yet.
    unnoted: Mutex<Option<(u64, IndexedV1)>>,
    /// Results, and not only what is gone, are staged.
    has_staged: AtomicBool,
    /// Rows that the present filling of the index has taken in.
    filled: AtomicU64,
    /// Held while rows are on their way into the index.
    feeding: Mutex<()>,
    /// The index is to be looked at: after a start, and after it failed in a way that may be damage.
    suspect: Mutex<CheckReason>,
}

/// Why the index is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckReason {
    None,
    /// Files may have been altered while nobody served them.
    Start,
    /// Something failed: also count whether every result is in it.
    Failure,
    /// Its files are sound, and the count is still to be made: something came in meanwhile.
    Count,
}

/// What a look at the index says.
enum IndexVerdict {
    Sound,
    /// Why it is to be made anew.
    Damaged(String),
    /// It cannot be told now.
    Later,
}

/// Results of an organization that can be read.
fn readable_results(tx: &SysRead<'_>, org: OrgId) -> Result<u64> {
    let (mut count, mut after) = (0, None);
    loop {
        let keys = tx.org(org).keys(RESULTS.name(), after.as_deref(), ROWS_PER_READ)?;
        for key in keys.iter().filter_map(|key| JobId::decode(key)) {
            match tx.org(org).get(&RESULTS, &key) {
                Ok(row) => count += u64::from(row.is_some()),
                Err(error) if error.code() == Code::InternalError => {}
                Err(error) => return Err(error),
            }
        }
        match keys.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(count),
        }
    }
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
        let noted = system.read(|tx| tx.last_key(&INDEXED))?;
        let (reached, unnoted) = match noted {
            Some(noted) if noted >= position => (position, None),
            // The process died between a commit and its note; nobody was shown what it took in.
            Some(noted) => (noted, Some((position, IndexedV1 { at: Some(system.clock().now()) }))),
            None if position == 0 => (0, None),
            None => (position, Some((position, IndexedV1 { at: None }))),
        };
        Ok(SearchFeed {
            system,
            index,
            reached: AtomicU64::new(reached),
            unnoted: Mutex::new(unnoted),
            has_staged: AtomicBool::new(false),
            filled: AtomicU64::new(0),
            feeding: Mutex::default(),
            suspect: Mutex::new(CheckReason::Start),
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

    /// When the result could first be found; none while it is pending. The same for ever after: an index that is filled
    /// anew changes nothing of it. Where nobody noted it (see [`IndexedV1`]) it is the time of the extraction.
    pub fn indexed_at(&self, row: &ResultV4) -> Result<Option<Timestamp>> {
        self.system.read(|tx| self.noted(tx, row))
    }

    /// The rows, and when each could first be found.
    pub fn with_times(&self, rows: Vec<ResultV4>) -> Result<Vec<(ResultV4, Option<Timestamp>)>> {
        self.system.read(|tx| {
            let timed = rows.into_iter().map(|row| {
                let at = self.noted(tx, &row)?;
                Ok((row, at))
            });
            timed.collect()
        })
    }

    fn noted(&self, tx: &SysRead<'_>, row: &ResultV4) -> Result<Option<Timestamp>> {
        let before = row.sequence.checked_sub(1);
        let commit = tx.scan(&INDEXED, before.as_ref(), Order::Ascending, 1);
        let commit = readable("when results were indexed", row.sequence, commit)?.unwrap_or_default();
        Ok(match commit.first() {
            // Also while the index is filled anew.
            Some((_, commit)) => Some(commit.at.unwrap_or(row.extracted_at)),
            None => (row.sequence <= self.committed()).then_some(row.extracted_at),
        })
    }

    /// Removes an organization that stands behind a fence from the index and its files; gives how many documents there
    /// were. Blocks for as long as rewriting the segments takes that hold any.
    pub fn remove_org(&self, org: OrgId) -> Result<u64> {
        // Whatever was read before the fence is in the index by now, and nothing is read behind it.
        let _feeding = self.feeding.lock();
        self.index.remove_org(org.0).map(|erased| erased.documents).map_err(search_error)
    }

    /// Takes in the results of an organization that a backup brings back, before its fence goes. Blocks, and holds up what others
    /// have told for one commit at a time.
    pub fn recall_org(&self, org: OrgId) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let _feeding = self.feeding.lock();
            let position = self.committed().max(self.index.position());
            while self.index.staged_changes() < CHANGES_PER_COMMIT {
                let keys = self
                    .system
                    .read(|tx| tx.behind_fence(org).keys(RESULTS.name(), after.as_deref(), ROWS_PER_READ))?;
                let Some(last) = keys.last() else { return self.commit(position) };
                after = Some(last.clone());
                let jobs: Vec<_> = keys.iter().filter_map(|key| Some((org, JobId::decode(key)?))).collect();
                self.stage_rows(&jobs, self.index.position(), true)?;
            }
            self.commit(position)?;
        }
    }

    /// Applies every change there is and commits, and looks at the index if there is a reason to. Blocks; one call at a time.
    /// `stop` ends a long refill, and a long look, early.
    pub fn catch_up(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let applied = self.apply(stop);
        // What could not be read for a moment may come back; what is damaged fails the same way each time.
        let may_look = applied.as_ref().err().is_none_or(|error| error.code() == Code::InternalError);
        if may_look && !stop() {
            let looked = self.look_if_suspect(stop);
            return applied.and(looked);
        }
        applied
    }

    fn apply(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let _feeding = self.feeding.lock();
        self.note()?;
        if self.committed() >= *self.system.store().sequence().borrow() {
            return self.index.release_idle(WRITER_IDLE).map(drop).map_err(|e| self.failed(e));
        }
        self.follow(stop).inspect_err(|_| {
            // Whatever was staged is gone; the index knows where it stands.
            self.has_staged.store(false, Ordering::Relaxed);
            if self.unnoted.lock().is_none() {
                self.reached.store(self.index.position(), Ordering::Release);
            }
        })
    }

    /// Looks at the index if there is a reason to; one that is damaged, or lacks results, is emptied and filled anew.
    fn look_if_suspect(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        // What fails while it is looked at is a reason to look again.
        let suspicion = std::mem::replace(&mut *self.suspect.lock(), CheckReason::None);
        let looked = self.look(suspicion, stop);
        let left = *looked.as_ref().unwrap_or(&suspicion);
        let mut now = self.suspect.lock();
        if *now == CheckReason::None {
            *now = left;
        }
        looked.map(drop)
    }

    /// Gives what is still to be looked at.
    fn look(&self, suspicion: CheckReason, stop: &dyn Fn() -> bool) -> Result<CheckReason> {
        // Its files are read while it is fed and searched; that takes as long as it is large.
        let sound = match suspicion {
            CheckReason::None => return Ok(CheckReason::None),
            CheckReason::Count => IndexVerdict::Sound,
            CheckReason::Start | CheckReason::Failure => self.files(stop)?,
        };
        let _feeding = self.feeding.lock();
        let why = match (sound, suspicion) {
            (IndexVerdict::Later, _) => return Ok(suspicion),
            (IndexVerdict::Damaged(why), _) => why,
            (IndexVerdict::Sound, CheckReason::Failure | CheckReason::Count) => match self.documents(stop)? {
                IndexVerdict::Sound => return Ok(CheckReason::None),
                IndexVerdict::Later => return Ok(CheckReason::Count),
                IndexVerdict::Damaged(why) => why,
            },
            (IndexVerdict::Sound, _) => return Ok(CheckReason::None),
        };
        tracing::error!(why, "the search index is damaged and filled anew");
        self.index.clear().map_err(search_error)?;
        *self.unnoted.lock() = None;
        self.reached.store(self.index.position(), Ordering::Release);
        Ok(CheckReason::None)
    }

    /// Whether the files of the index are what was written.
    fn files(&self, stop: &dyn Fn() -> bool) -> Result<IndexVerdict> {
        match self.index.verify(stop) {
            Ok(None) => Ok(IndexVerdict::Later),
            Ok(Some(damaged)) if damaged.is_empty() => Ok(IndexVerdict::Sound),
            Ok(Some(damaged)) => Ok(IndexVerdict::Damaged(format!("damaged files: {}", damaged.join(", ")))),
            Err(SearchError::Damaged(error)) => Ok(IndexVerdict::Damaged(error.to_string())),
            Err(error) => Err(search_error(error)),
        }
    }

    /// Whether the index has a document for each result, as far as that can be told now: when it has taken in everything.
    /// Rows that cannot be read may be in it or not, and of an organization that is being erased one goes before the other.
    fn documents(&self, stop: &dyn Fn() -> bool) -> Result<IndexVerdict> {
        self.system.read(|tx| {
            if !tx.changes(self.committed(), 1)?.is_empty() {
                return Ok(IndexVerdict::Later);
            }
            let mut last = None;
            while let Some(org) = tx.next_org(RESULTS.name(), last)? {
                last = Some(org);
                if stop() {
                    return Ok(IndexVerdict::Later);
                }
                if tx.is_fenced(org) {
                    continue;
                }
                let documents = self.index.documents_of(org.0).map_err(search_error)?;
                let rows = tx.org(org).used(RESULTS.name())?.rows;
                if documents < rows && documents < readable_results(tx, org)? || documents > rows {
                    return Ok(IndexVerdict::Damaged(format!(
                        "{documents} documents for {rows} results of {org}"
                    )));
                }
            }
            Ok(IndexVerdict::Sound)
        })
    }

    fn suspect_failure(&self) {
        *self.suspect.lock() = CheckReason::Failure;
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

    /// Rows that were taken in since the index is being filled anew; 0 when it is not.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }

    /// Takes a document of nobody's into the index, finds it and removes it again: two commits, through all that a result
    /// goes through. False when it cannot be tried, because the index is taking in a lot; blocks for a second at most
    /// beside the trial itself.
    pub fn self_test(&self) -> Result<bool> {
        let Some(_feeding) = self.feeding.try_lock_for(TRIED_WITHIN) else { return Ok(false) };
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
            [hit] if hit.id == id => Ok(true),
            _ => Err(Error::internal("try the search index", "what was indexed is not found")),
        }
    }

    fn follow(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let begin = self.system.read(|tx| tx.changes_begin())?;
        if self.committed() + 1 < begin {
            let is_full = self.refill(stop);
            self.filled.store(0, Ordering::Relaxed);
            if !is_full? {
                return Ok(());
            }
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
                self.stage_rows(keys, self.index.position(), false)?;
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

    /// Stages the rows as they are now; those behind a fence are gone, unless their organization comes back.
    fn stage_rows(&self, keys: &[(OrgId, JobId)], position: u64, comes_back: bool) -> Result<()> {
        let changes = self.system.read(|tx| {
            let change = |(org, job): &(OrgId, JobId)| {
                let own = if comes_back { tx.behind_fence(*org) } else { tx.org(*org) };
                let row = match own.get(&RESULTS, job) {
                    // Nobody finds it, and it keeps nobody else's from being found.
                    Err(error) if error.code() == Code::InternalError => {
                        tracing::error!(%org, %job, %error, "a result cannot be read and is left out of the search index");
                        None
                    }
                    row => row?,
                };
                Ok(SearchChange { org: org.0, id: job.0, document: row.as_ref().map(document) })
            };
            keys.iter().map(change).collect::<Result<Vec<_>>>()
        })?;
        if changes.iter().any(|change| change.document.is_some()) {
            self.has_staged.store(true, Ordering::Relaxed);
        }
        self.index.stage(&changes, position).map_err(|e| self.failed(e))
    }

    /// Commits what is staged as everything up to `position`.
    fn commit(&self, position: u64) -> Result<()> {
        self.index.stage(&[], position).map_err(|e| self.failed(e))?;
        self.index.commit().map_err(|e| self.failed(e))?;
        if self.has_staged.swap(false, Ordering::Relaxed) {
            let now = self.system.clock().now();
            *self.unnoted.lock() = Some((position, IndexedV1 { at: Some(now) }));
            self.note()?;
        }
        self.reached.store(position, Ordering::Release);
        Ok(())
    }

    /// Notes when the last commit was, unless that was done. Only then is what it took in shown as indexed.
    fn note(&self) -> Result<()> {
        let Some((position, commit)) = *self.unnoted.lock() else { return Ok(()) };
        self.system.write_blocking(move |tx| {
            match readable("when results were indexed", position, tx.get(&INDEXED, &position))? {
                Some(Some(_)) => Ok(()),
                _ => tx.put(&INDEXED, &position, &commit),
            }
        })?;
        *self.unnoted.lock() = None;
        self.reached.fetch_max(position, Ordering::AcqRel);
        Ok(())
    }

    /// Forgets when results were indexed that are all gone: what was noted before that moment, at most so many rows. Gives how
    /// many those were. The newest note stays, for it says how far the index was shown.
    pub(super) async fn forget_times(&self, before: Moment, rows: usize) -> Result<usize> {
        let write = self.system.write_freeing(move |tx| {
            let oldest = tx.readable(&INDEXED, None, rows + 1)?;
            let is_over = |commit: &IndexedV1| commit.at.is_some_and(|at| tx.clock().moment_of(at) < before);
            // One of which nobody knows the time stands before those that are known to be over.
            let known = oldest.rows.len().saturating_sub(1).min(rows);
            let last = oldest.rows[..known].iter().rposition(|(_, commit)| is_over(commit));
            let over = last.map_or(0, |last| last + 1);
            for (position, _) in &oldest.rows[..over] {
                tx.delete(&INDEXED, position)?;
            }
            Ok(over)
        });
        write.await
    }

    /// Fills the index from the rows; whether it came to its end. Rows that change meanwhile are told again behind `begin`.
    fn refill(&self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let begin = *self.system.store().sequence().borrow();
        tracing::info!(begin, "filling the search index from the rows");
        let mut after = None;
        loop {
            let step = self.system.read(|tx| {
                let mut step = tx.readable_all(&RESULTS, after.as_deref(), ROWS_PER_READ)?;
                step.rows.retain(|(org, ..)| !tx.is_fenced(*org));
                Ok(step)
            })?;
            let Some(next) = step.next else { break };
            after = Some(next);
            let changes: Vec<_> = step
                .rows
                .iter()
                .map(|(org, job, row)| SearchChange { org: org.0, id: job.0, document: Some(document(row)) })
                .collect();
            self.has_staged.store(true, Ordering::Relaxed);
            self.filled.fetch_add(changes.len() as u64, Ordering::Relaxed);
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

/// Takes up to `rows_max` results into a new index in the folder `scratch`, and gives how many. Blocks, until then at most.
pub fn try_indexing(
    tx: &SysRead<'_>,
    scratch: &std::path::Path,
    rows_max: u64,
    until: Instant,
) -> Result<u64> {
    let index = SearchIndex::open(scratch.to_owned()).map_err(search_error)?;
    let (mut after, mut tried) = (None::<Vec<u8>>, 0);
    while tried < rows_max && Instant::now() < until {
        let step = tx.readable_all(&RESULTS, after.as_deref(), ROWS_PER_READ)?;
        let Some(next) = step.next else { break };
        after = Some(next);
        tried += step.rows.len() as u64;
        let change = |(org, job, row): &(OrgId, JobId, ResultV4)| SearchChange {
            org: org.0,
            id: job.0,
            document: Some(document(row)),
        };
        let changes: Vec<_> = step.rows.iter().map(change).collect();
        index.stage(&changes, 0).map_err(search_error)?;
    }
    index.commit().map_err(search_error)?;
    Ok(tried)
}

/// Says of which store the index is.
const STORE_FILE: &str = "store";
const STORE_FILE_NEW: &str = "store.new";

/// The store that an index says it is of; none for one of an older release, or none at all.
pub fn stamp_in(dir: &std::path::Path) -> Result<Option<String>> {
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
