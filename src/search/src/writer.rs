//! Changes into the index: staged, then committed together with the outbox position.
//!
//! **One writer, made when needed.** tantivy's writer costs about its budget and two threads, so it is made
//! by the first change and given up by [`SearchIndex::release_idle`]; an idle box keeps none.
//!
//! **A failed writer is thrown away.** After a full disk tantivy's writer refuses everything for ever. Any
//! error drops it with all that was staged, and the next change makes a new one; the caller goes on from
//! [`SearchIndex::position`].
//!
//! **Deleting is not erasing.** A deleted document stays in its segment's files until the segment is
//! rewritten. [`SearchIndex::remove_org`] rewrites each affected segment, collects the old files and checks
//! that the organization's term is in no segment any more.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::{Index, IndexWriter, TantivyError, Term};
use uuid::Uuid;

use super::schema::SearchChange;
use super::{SearchError, SearchIndex};

/// What the writer may hold in memory before it writes a segment, in bytes; tantivy's least is 15 MB. Commits
/// come several times a second, so a larger one would only stand by.
const WRITER_BUDGET_BYTES: usize = 16_000_000;
/// A segment in which this share is deleted is rewritten by the next merge.
const DELETED_SHARE_MAX: f32 = 0.3;
/// Rounds of rewriting before `remove_org` gives up; a background merge that holds a segment can cost one.
const ERASE_ROUNDS_MAX: usize = 5;
/// Wait between those rounds.
const ERASE_ROUND_PAUSE: Duration = Duration::from_millis(100);

/// The payload of a commit.
#[derive(Debug, Serialize, Deserialize)]
struct CommitPayload {
    /// The outbox position up to which the commit holds every change.
    position: u64,
}

/// The writer, when there is one.
#[derive(Default)]
pub(super) struct WriterState {
    writer: Option<IndexWriter>,
    /// The position to commit next; `None` when nothing is staged.
    staged: Option<u64>,
    staged_changes: usize,
    last_used: Option<Instant>,
}

/// What `remove_org` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrgRemoval {
    /// Documents that were visible before.
    pub documents: u64,
    /// Segments that held any of its documents; each was rewritten or dropped.
    pub segments: u64,
}

/// The position in the payload of the last commit; 0 when there is none.
pub(super) fn committed_position(index: &Index) -> Result<u64, TantivyError> {
    let Some(payload) = index.load_metas()?.payload else { return Ok(0) };
    let payload: CommitPayload = serde_json::from_str(&payload).map_err(|error| {
        TantivyError::SchemaError(format!("the commit's payload is not a position: {error}"))
    })?;
    Ok(payload.position)
}

impl SearchIndex {
    /// Takes the changes up to outbox position `position`, in their order; searches see them after the next
    /// commit. On an error nothing staged is kept: go on from [`SearchIndex::position`].
    pub fn stage(&self, changes: &[SearchChange], position: u64) -> Result<(), SearchError> {
        let mut state = self.inner.writer.lock();
        let staged = self.stage_into(&mut state, changes);
        self.keep_or_drop(&mut state, staged)?;
        state.staged = Some(position);
        state.staged_changes += changes.len();
        state.last_used = Some(Instant::now());
        Ok(())
    }

    /// Changes staged since the last commit, for the caller's rule of when to commit.
    pub fn staged_changes(&self) -> usize {
        self.inner.writer.lock().staged_changes
    }

    /// Makes what is staged durable and visible, and gives the new position. Without anything staged it does
    /// nothing. On an error nothing staged is kept: go on from [`SearchIndex::position`].
    pub fn commit(&self) -> Result<u64, SearchError> {
        let mut state = self.inner.writer.lock();
        let committed = self.commit_staged(&mut state);
        self.keep_or_drop(&mut state, committed)?;
        Ok(self.position())
    }

    /// `stage` and `commit` in one.
    pub fn apply(&self, changes: &[SearchChange], position: u64) -> Result<u64, SearchError> {
        self.stage(changes, position)?;
        self.commit()
    }

    /// Gives up a writer that has not been used for `idle`, and with it its memory and threads; waits for its
    /// last merges. True when there was one. Nothing staged is ever given up.
    pub fn release_idle(&self, idle: Duration) -> Result<bool, SearchError> {
        let mut state = self.inner.writer.lock();
        let unused = state.last_used.is_none_or(|used| used.elapsed() >= idle);
        if state.staged.is_some() || !unused {
            return Ok(false);
        }
        let Some(writer) = state.writer.take() else { return Ok(false) };
        writer.wait_merging_threads().map_err(SearchError::from_tantivy)?;
        // The merged segments replace those that the searcher still maps.
        self.inner.reader.reload().map_err(SearchError::from_tantivy)?;
        Ok(true)
    }

    /// Leaves an empty index that stands at position 0, whatever was there: what is damaged cannot be mended file by file.
    /// The caller feeds all rows.
    pub fn clear(&self) -> Result<(), SearchError> {
        let mut state = self.inner.writer.lock();
        *state = WriterState::default();
        let cleared = self.writer(&mut state).and_then(|writer| writer.delete_all_documents());
        let cleared = cleared.and_then(|_| self.commit_at(&mut state, 0));
        self.keep_or_drop(&mut state, cleared)
    }

    /// Removes an organization's documents from the index and from its files, committing what is staged too.
    /// Takes as long as rewriting the segments that hold any. The caller feeds no more changes of that
    /// organization. Errors: [`SearchError::NotErased`] when a running search still holds old segments; the
    /// documents are invisible by then.
    pub fn remove_org(&self, org: Uuid) -> Result<OrgRemoval, SearchError> {
        let mut state = self.inner.writer.lock();
        let erased = self.remove_term(&mut state, self.fields().org_term(org));
        self.keep_or_drop(&mut state, erased)?
    }

    /// The writer, made anew when there is none.
    fn writer<'a>(&self, state: &'a mut WriterState) -> Result<&'a mut IndexWriter, TantivyError> {
        if state.writer.is_none() {
            let options = IndexWriterOptions::builder()
                .num_worker_threads(1)
                .num_merge_threads(1)
                .memory_budget_per_thread(WRITER_BUDGET_BYTES)
                .build();
            let writer: IndexWriter = self.inner.index.writer_with_options(options)?;
            let mut merges = LogMergePolicy::default();
            merges.set_del_docs_ratio_before_merge(DELETED_SHARE_MAX);
            writer.set_merge_policy(Box::new(merges));
            state.writer = Some(writer);
        }
        state.writer.as_mut().ok_or(TantivyError::Poisoned)
    }

    fn stage_into(&self, state: &mut WriterState, changes: &[SearchChange]) -> Result<(), TantivyError> {
        let fields = *self.fields();
        let writer = self.writer(state)?;
        for change in changes {
            writer.delete_term(fields.key_term(change.org, change.id));
            let Some(document) = &change.document else { continue };
            if let Err(error) = writer.add_document(fields.document(change.org, change.id, document)) {
                // The indexing thread has died and only joining it tells why.
                return Err(writer.prepare_commit().err().unwrap_or(error));
            }
        }
        Ok(())
    }

    fn commit_staged(&self, state: &mut WriterState) -> Result<(), TantivyError> {
        let Some(position) = state.staged else { return Ok(()) };
        self.commit_at(state, position)
    }

    /// Commits with this position, shows the commit to searches and only then gives the position out.
    fn commit_at(&self, state: &mut WriterState, position: u64) -> Result<(), TantivyError> {
        let payload = format!(r#"{{"position":{position}}}"#);
        let mut prepared = self.writer(state)?.prepare_commit()?;
        prepared.set_payload(&payload);
        prepared.commit()?;
        self.inner.reader.reload()?;
        self.inner.position.store(position, Ordering::Release);
        (state.staged, state.staged_changes) = (None, 0);
        state.last_used = Some(Instant::now());
        Ok(())
    }

    /// Passes a success on; after an error drops the writer and goes back to what is committed.
    fn keep_or_drop<T>(
        &self,
        state: &mut WriterState,
        result: Result<T, TantivyError>,
    ) -> Result<T, SearchError> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        *state = WriterState::default();
        // The commit may have reached the disk before it failed, so what is there decides. If even that
        // cannot be read, the old position stands: the worst is that changes are applied twice, which does no
        // harm.
        if let (Ok(()), Ok(position)) = (self.inner.reader.reload(), committed_position(&self.inner.index)) {
            self.inner.position.store(position, Ordering::Release);
        }
        let error = SearchError::from_tantivy(error);
        if matches!(error, SearchError::NoSpace(_)) {
            self.collect_leftovers(state);
        }
        Err(error)
    }

    /// Frees the files that a cut-off commit left, which are what fills the disk now; only a writer may. Best
    /// effort: what cannot be removed yet goes with the next commit that succeeds.
    fn collect_leftovers(&self, state: &mut WriterState) {
        let _best_effort = self.writer(state).and_then(|writer| writer.garbage_collect_files().wait());
        *state = WriterState::default();
    }

    fn remove_term(
        &self,
        state: &mut WriterState,
        term: Term,
    ) -> Result<Result<OrgRemoval, SearchError>, TantivyError> {
        let documents = self.visible_with(&term)?;
        let segments = self.segments_with(&term)?.len() as u64;
        let position = state.staged.unwrap_or_else(|| self.position());
        self.writer(state)?.delete_term(term.clone());
        self.commit_at(state, position)?;
        let mut holding = self.segments_with(&term)?;
        for round in 0..ERASE_ROUNDS_MAX {
            if holding.is_empty() {
                break;
            }
            if round > 0 {
                std::thread::sleep(ERASE_ROUND_PAUSE);
            }
            for segment in holding {
                // One at a time, so that each keeps its size. A segment that a background merge has taken is
                // refused, and the next round looks again.
                let _refused = self.writer(state)?.merge(&[segment]).wait();
            }
            self.inner.reader.reload()?;
            holding = self.segments_with(&term)?;
        }
        if !holding.is_empty() {
            return Ok(Err(SearchError::NotErased { segments: holding.len() }));
        }
        let collected = self.writer(state)?.garbage_collect_files().wait()?;
        let kept = collected.failed_to_delete_files.len();
        Ok(if kept == 0 {
            Ok(OrgRemoval { documents, segments })
        } else {
            Err(SearchError::NotErased { segments: kept })
        })
    }

    /// The segments whose files hold documents with this term, deleted ones included.
    fn segments_with(&self, term: &Term) -> Result<Vec<tantivy::index::SegmentId>, TantivyError> {
        let mut holding = Vec::new();
        for segment in self.searcher().segment_readers() {
            if segment.inverted_index(term.field())?.doc_freq(term)? > 0 {
                holding.push(segment.segment_id());
            }
        }
        Ok(holding)
    }

    pub(super) fn visible_with(&self, term: &Term) -> Result<u64, TantivyError> {
        let query = tantivy::query::TermQuery::new(term.clone(), tantivy::schema::IndexRecordOption::Basic);
        Ok(self.searcher().search(&query, &tantivy::collector::Count)? as u64)
    }
}
