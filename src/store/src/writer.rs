//! The writer: one thread owns the write transaction and commits in groups.
//!
//! It takes the first waiting operation, drains up to [`WRITER_BATCH_MAX`] more without a timer, lets each decide on
//! the open transaction and applies what it decided, commits once with fsync and only then answers everybody
//! (data/docs/engines.md, "Store": 25 times one transaction a request at 256 callers). Large operations make a commit of
//! fewer: what has not decided within [`DECIDE_MAX`] waits for the next one. An operation that is refused or
//! panics leaves nothing behind and costs its neighbours nothing, because its changes are collected beside the
//! transaction until it has returned.
//!
//! redb refuses every write after a failed commit, also when a full disk has room again, and every read after a failed
//! one. The writer then closes the file and opens it anew in process; until it is open, writes are answered with 503.
//! A file that keeps failing is opened again at growing pauses, in which writes are refused at once and reads go on.
//!
//! A commit whose last sync failed may stand all the same. Every commit carries a number, so the file that was opened
//! again tells; who asked for it is answered by what is there, after one more commit that was synced.
//!
//! Nothing of the writer's ends its thread: a panic is caught, and the writer goes on with the next operations.

mod operation;

pub(super) use operation::panic_text;
use operation::{Closure, Operation};

use super::after::{CommitHook, Committed};
use super::engine::{DatabaseHandle, FOLDER_GONE};
use super::health::{WriterHealth, file_failed};
use super::raw::{View, definition};
use super::view::WriteView;
use super::{META, changes};
use base::clock::{Clock, ClockStateV1, Now};
use base::codec::{decode, encode};
use base::ids;
use base::limits::{WRITER_BATCH_MAX, WRITER_QUEUE_MAX};
use base::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// How long the operations of one commit may take to decide; none is cut off, but no further one begins.
const DECIDE_MAX: Duration = Duration::from_millis(100);
/// The pause after a file was opened again in vain; it doubles with each more.
const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest of these pauses, within which the end of a disk's trouble is found out.
const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(4);
/// Failures further apart than this do not follow each other.
const FAILURES_APART: Duration = Duration::from_secs(60);
/// How often the queue is looked into while the writer pauses.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The number of the newest commit.
const COMMITS: &[u8] = b"commits";
/// Where the clock stood at that one.
const CLOCK: &[u8] = b"clock";

/// What a caller is told whose change cannot be stored now.
const NOT_STORED: &str = "the change could not be stored; nothing of it was kept";
const NOT_KNOWN: &str = "the disk failed while the change was stored, and whether it was is not known yet; look before you try again";
const REOPENING: &str = "the store's disk has failed; nothing can be written until it works again";

/// What the writer has done since it began.
#[derive(Debug, Default)]
pub struct WriterStats {
    pub operations: AtomicU64,
    pub commits: AtomicU64,
    /// Time spent in commits, microseconds.
    pub commit_us: AtomicU64,
    pub failed_commits: AtomicU64,
}

/// What comes through the queue.
enum WriterMessage {
    Operation(Box<dyn Operation>),
    /// Work between two commits: everything that came before is committed, nothing that comes after has begun.
    Alone(ExclusiveWork),
    /// A read failed: the file must be opened again.
    Heal,
}

type ExclusiveWork = Box<dyn FnOnce(&DatabaseHandle) + Send>;

/// The queue to the writer thread.
pub(super) struct Writer {
    queue: parking_lot::Mutex<Option<mpsc::Sender<WriterMessage>>>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
    pub(super) stats: Arc<WriterStats>,
    pub(super) sequence: watch::Receiver<u64>,
    /// Set while the disk has less room than its reserve.
    pub(super) disk_full: Arc<AtomicBool>,
    pub(super) folder_gone: AtomicBool,
    pub(super) health: Arc<WriterHealth>,
}

impl Writer {
    pub(super) fn start(handle: Arc<DatabaseHandle>, clock: Clock) -> Result<Writer> {
        let last = handle.read(|view| changes::last(view))?;
        let (queue, inbox) = mpsc::channel(WRITER_QUEUE_MAX);
        let (tell, sequence) = watch::channel(last);
        let (stats, health) = (Arc::new(WriterStats::default()), Arc::new(WriterHealth::default()));
        let commits = handle.read(|view| commits(view))?;
        let state = WriterThread {
            handle,
            clock,
            tell,
            stats: stats.clone(),
            health: health.clone(),
            next_sequence: last + 1,
            commits,
            committing: false,
            failures: 0,
            failed_at: None,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || state.live(inbox))
            .map_err(|e| Error::internal("start the writer thread", e))?;
        Ok(Writer {
            queue: parking_lot::Mutex::new(Some(queue)),
            thread: parking_lot::Mutex::new(Some(thread)),
            stats,
            sequence,
            disk_full: Arc::default(),
            folder_gone: AtomicBool::default(),
            health,
        })
    }

    /// Hands an operation over; the receiver gets its answer after the commit. 503 when the queue is full, the disk
    /// is, or the store is closing.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        run: impl FnOnce(&WriteView<'_>, &Now) -> Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        if self.disk_full.load(Ordering::Relaxed) {
            self.health.refuses(1);
            return Err(Error::unavailable("the disk is full; nothing can be written until it has room"));
        }
        self.submit_freeing(run)
    }

    /// The same for what makes room: taken while the disk has no more than its reserve, which is there for that too.
    pub(super) fn submit_freeing<T: Send + 'static>(
        &self,
        run: impl FnOnce(&WriteView<'_>, &Now) -> Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        if self.folder_gone.load(Ordering::Relaxed) {
            self.health.refuses(1);
            return Err(Error::unavailable(FOLDER_GONE));
        }
        let (reply, answer) = oneshot::channel();
        let operation: Box<dyn Operation> = Box::new(Closure { run: Some(run), decided: None, reply });
        let queue = self.queue.lock().clone().ok_or_else(|| Error::unavailable("the store is closing"))?;
        queue.try_send(WriterMessage::Operation(operation)).map_err(|_| {
            self.health.refuses(1);
            Error::unavailable("too many writes are waiting")
        })?;
        Ok(answer)
    }

    /// Makes the writer open the file again because a read of it failed.
    pub(super) fn heal(&self) {
        if let Some(queue) = self.queue.lock().as_ref() {
            // A full queue wakes the writer too, and it looks for itself.
            let _ = queue.try_send(WriterMessage::Heal);
        }
    }

    /// Runs `run` on the writer's thread between two commits and gives its result; writes wait meanwhile. Blocks: for a
    /// thread outside the runtime.
    pub(super) fn alone<T: Send + 'static>(
        &self,
        run: impl FnOnce(&DatabaseHandle) -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |handle: &DatabaseHandle| {
            let _ = reply.send(run(handle));
        });
        let queue = self.queue.lock().clone().ok_or_else(|| Error::unavailable("the store is closing"))?;
        queue
            .blocking_send(WriterMessage::Alone(work))
            .map_err(|_| Error::unavailable("the store is closing"))?;
        answer.blocking_recv().map_err(writer_gone)
    }

    /// Lets the waiting operations finish and ends the thread.
    pub(super) fn stop(&self) {
        drop(self.queue.lock().take());
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread had panicked");
        }
    }
}

/// What an operation's receiver says when the writer is gone.
pub(super) fn writer_gone(_: oneshot::error::RecvError) -> Error {
    Error::unavailable(
        "the store was closed, or failed, before the change was confirmed; look before you try again",
    )
}

/// The number of the newest commit.
fn commits(view: &dyn View) -> Result<u64> {
    let number = view.get(META, COMMITS)?;
    // An older release did not count.
    Ok(number.and_then(|bytes| bytes.as_slice().try_into().ok()).map_or(0, u64::from_be_bytes))
}

/// Has the clock, and ids, go on from where the file's newest commit left them.
pub(super) fn resume_clock(view: &dyn View, clock: &Clock) -> Result<()> {
    if let Some(bytes) = view.get(META, CLOCK)? {
        let state: ClockStateV1 =
            decode(&bytes).map_err(|e| Error::internal("read where the clock stood", e))?;
        ids::go_on_from(state.newest_id_ms);
        clock.resume(Some(&state), None);
        return Ok(());
    }
    // An older release wrote ids and dates by the machine's clock.
    let newest =
        changes::read(view, changes::last(view)?.saturating_sub(1), 1)?.pop().map(|change| change.at);
    if let Some(ms) = newest.and_then(|at| u64::try_from(at.millis()).ok()) {
        ids::go_on_from(ms);
    }
    clock.resume(None, newest);
    Ok(())
}

/// Runs one operation in a transaction of its own on the calling thread: what migrations do before there is a writer.
pub(super) fn commit_one(
    handle: &DatabaseHandle,
    next_sequence: u64,
    run: impl FnOnce(&WriteView<'_>) -> Result<()>,
) -> Result<()> {
    let database = handle.database()?;
    let tx = begin(&database)?;
    let learned = {
        let open = handle.batch(&tx, next_sequence);
        let view = WriteView::new(&open);
        run(&view)?;
        view.apply()?;
        open.write_counts()?;
        open.learned()
    };
    tx.commit().map_err(|e| file_failed("commit", e))?;
    handle.learn(learned);
    handle.committed();
    Ok(())
}

pub(super) fn begin(database: &redb::Database) -> Result<redb::WriteTransaction> {
    let mut tx = database.begin_write().map_err(|e| file_failed("begin a write transaction", e))?;
    // Opening after a crash takes milliseconds instead of a walk over the whole file, and the two-phase commit
    // that comes with it closes the gap redb documents for hostile content (data/docs/engines.md, "Store").
    tx.set_quick_repair(true);
    Ok(tx)
}

type OperationQueue = VecDeque<Box<dyn Operation>>;

/// What the thread has taken from the queue.
#[derive(Default)]
struct PendingWork {
    waiting: OperationQueue,
    /// What is being committed.
    batch: Vec<Box<dyn Operation>>,
    /// What those have to have done once they are committed.
    after: Vec<CommitHook>,
    alone: Option<ExclusiveWork>,
}

impl PendingWork {
    /// Does what has to follow the commit, and then answers those that asked for it; `failed` where nothing of it stands, or
    /// may not. A panic in what is done ends nothing but itself.
    fn answer(&mut self, committed: Option<Committed>, failed: Option<&str>) {
        for act in self.after.drain(..) {
            let Some(committed) = committed else { continue };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| act(committed))) {
                tracing::error!(reason = panic_text(&*panic), "what follows a commit failed");
            }
        }
        for operation in self.batch.drain(..) {
            operation.answer(failed);
        }
    }

    /// Puts a message where it waits.
    fn sort(&mut self, message: WriterMessage) {
        match message {
            WriterMessage::Operation(operation) => self.waiting.push_back(operation),
            WriterMessage::Alone(run) => self.alone = Some(run),
            WriterMessage::Heal => {}
        }
    }
}

struct WriterThread {
    handle: Arc<DatabaseHandle>,
    clock: Clock,
    tell: watch::Sender<u64>,
    stats: Arc<WriterStats>,
    health: Arc<WriterHealth>,
    next_sequence: u64,
    /// The number of the newest commit.
    commits: u64,
    /// Between the beginning of a commit and its good end.
    committing: bool,
    /// Times in a row that the file was opened again without a commit that went well.
    failures: u32,
    failed_at: Option<Instant>,
}

/// A batch that failed.
struct BatchFailure {
    reason: String,
    /// Its commit had begun, so it may stand.
    committing: bool,
}

impl WriterThread {
    /// The thread's life: a panic outside an operation costs those that wait an answer, and not the box its writer.
    fn live(mut self, mut inbox: mpsc::Receiver<WriterMessage>) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run(&mut inbox))) {
            let reason = panic_text(&*panic);
            self.health.restarts();
            tracing::error!(reason, "the writer failed and was started again");
            // The transaction went with the panic; the file is opened again before anything else.
            self.handle.set_troubled();
        }
        self.health.ends();
    }

    fn run(&mut self, inbox: &mut mpsc::Receiver<WriterMessage>) {
        let mut taken = PendingWork::default();
        loop {
            if self.handle.is_troubled() {
                self.health.fails("the store's file could not be read");
                self.reopen(&mut taken, inbox, false);
            }
            if taken.waiting.is_empty() {
                if let Some(run) = taken.alone.take() {
                    self.run_alone(run);
                }
                let Some(first) = inbox.blocking_recv() else { return };
                taken.sort(first);
            }
            while taken.waiting.len() < WRITER_BATCH_MAX
                && taken.alone.is_none()
                && let Ok(next) = inbox.try_recv()
            {
                taken.sort(next);
            }
            if !taken.waiting.is_empty() && !self.handle.is_troubled() {
                self.batch(&mut taken, inbox);
            }
        }
    }

    /// Commits what waits and answers it.
    fn batch(&mut self, taken: &mut PendingWork, inbox: &mut mpsc::Receiver<WriterMessage>) {
        if self.handle.check_place().is_err() {
            self.health.refuses(taken.waiting.len() as u64);
            return taken.waiting.drain(..).for_each(|operation| operation.answer(Some(FOLDER_GONE)));
        }
        self.health.begins();
        let decided = catch_unwind(AssertUnwindSafe(|| self.commit(taken)));
        let committing = std::mem::take(&mut self.committing);
        let failed = match decided {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(BatchFailure { reason: error.for_operator(), committing }),
            Err(panic) => Some(BatchFailure { reason: panic_text(&*panic), committing }),
        };
        self.health.waits();
        self.stats.operations.fetch_add(taken.batch.len() as u64, Ordering::Relaxed);
        let Some(failed) = failed else {
            return taken.answer(Some(Committed::Stands), None);
        };
        self.stats.failed_commits.fetch_add(1, Ordering::Relaxed);
        self.health.fails(&failed.reason);
        if taken.batch.is_empty() {
            // It failed before anybody could decide; nobody is left waiting for a disk that may stay broken.
            taken.batch.extend(taken.waiting.drain(..));
        }
        let stands = if failed.committing { self.stands() } else { Ok(false) };
        // Before anybody is told: whoever is refused and reads a moment later must find a file that can be read.
        let opened = match stands {
            Ok(_) if failed.committing => true,
            _ => self.try_open(),
        };
        let (reason, operations) = (failed.reason.as_str(), taken.batch.len());
        let (committed, answer) = match &stands {
            Ok(true) => {
                tracing::warn!(reason, operations, "a commit failed at its end and stands all the same");
                (Some(Committed::Stands), None)
            }
            Ok(false) => {
                tracing::error!(reason, operations, "a commit failed; nothing of it was kept");
                (None, Some(NOT_STORED))
            }
            Err(unknown) => {
                let unknown = unknown.for_operator();
                tracing::error!(
                    reason,
                    operations,
                    unknown,
                    "a commit failed; whether it stands is not known"
                );
                (Some(Committed::Perhaps), Some(NOT_KNOWN))
            }
        };
        if answer.is_some() {
            self.health.refuses(operations as u64);
        }
        taken.answer(committed, answer);
        if !matches!(stands, Ok(true)) {
            self.reopen(taken, inbox, opened);
        }
    }

    /// Opens the file again to see whether the commit that failed at its end stands, and makes sure of it with one more
    /// that is synced. An error: nobody knows yet.
    fn stands(&mut self) -> Result<bool> {
        let due = self.commits + 1;
        self.open_again()?;
        if self.commits != due {
            return Ok(false);
        }
        let database = self.handle.database()?;
        let tx = begin(&database)?;
        self.count(&tx)?;
        tx.commit().map_err(|e| file_failed("commit", e))?;
        self.handle.committed();
        self.commits += 1;
        self.went_well();
        Ok(true)
    }

    fn went_well(&mut self) {
        self.failures = 0;
        self.health.goes_well();
    }

    /// Writes the number of the commit that the transaction will be.
    fn count(&self, tx: &redb::WriteTransaction) -> Result<()> {
        let mut meta = tx.open_table(definition(META)).map_err(|e| file_failed("open a table", e))?;
        let number = (self.commits + 1).to_be_bytes();
        meta.insert(COMMITS, number.as_slice()).map_err(|e| file_failed("number a commit", e))?;
        let state = self.clock.state(ids::newest_ms());
        let state = encode(&state).map_err(|e| Error::internal("write where the clock stands", e))?;
        meta.insert(CLOCK, state.as_slice()).map_err(|e| file_failed("write where the clock stands", e))?;
        Ok(())
    }

    /// A panic of it must not end the writer.
    fn run_alone(&self, run: ExclusiveWork) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&self.handle))) {
            tracing::error!(reason = panic_text(&*panic), "work between two commits failed");
        }
    }

    /// Lets the operations that wait decide, applies them, moves them to the batch, and commits once. An empty batch
    /// commits nothing.
    fn commit(&mut self, taken: &mut PendingWork) -> Result<()> {
        let PendingWork { waiting, batch, after, .. } = taken;
        let database = self.handle.database()?;
        let tx = begin(&database)?;
        let now = self.clock.look();
        let begun = Instant::now();
        let (next_sequence, dirty, learned) = {
            let open = self.handle.batch(&tx, self.next_sequence);
            while let Some(operation) = waiting.pop_front() {
                batch.push(operation);
                let view = WriteView::new(&open);
                if batch.last_mut().is_some_and(|operation| operation.decide(&view, &now)) {
                    after.append(&mut view.take_after());
                    view.apply()?;
                }
                if begun.elapsed() > DECIDE_MAX {
                    break;
                }
            }
            open.write_counts()?;
            (open.next_sequence(), open.is_dirty(), open.learned())
        };
        if !dirty {
            return tx.abort().map_err(|e| file_failed("end an empty transaction", e));
        }
        self.count(&tx)?;
        let begun = Instant::now();
        self.committing = true;
        let committed = tx.commit();
        if committed.is_ok() {
            self.handle.learn(learned);
        }
        // A commit that failed may have reached the file all the same.
        self.handle.committed();
        committed.map_err(|e| file_failed("commit", e))?;
        self.committing = false;
        self.commits += 1;
        self.went_well();
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stats.commits.fetch_add(1, Ordering::Relaxed);
        self.stats.commit_us.fetch_add(took, Ordering::Relaxed);
        if next_sequence != self.next_sequence {
            self.next_sequence = next_sequence;
            self.tell.send_replace(next_sequence - 1);
        }
        Ok(())
    }

    /// Opens the file again and takes its numbers.
    fn open_again(&mut self) -> Result<()> {
        self.health.reopens();
        self.handle.reopen()?;
        let (last, commits) = self.handle.read(|view| Ok((changes::last(view)?, commits(view)?)))?;
        self.next_sequence = last + 1;
        self.commits = commits;
        // The commit that failed may have reached the disk all the same.
        self.tell.send_replace(last);
        Ok(())
    }

    /// Opens the file anew (unless it `was` just now), so that reads go on, and lets a pause pass that grows with every
    /// time that this did not help; answers what arrives meanwhile with 503.
    fn reopen(&mut self, taken: &mut PendingWork, inbox: &mut mpsc::Receiver<WriterMessage>, was: bool) {
        if self.failed_at.is_some_and(|at| at.elapsed() > FAILURES_APART) {
            self.failures = 0;
        }
        let mut was = was;
        loop {
            let opened = std::mem::take(&mut was) || self.try_open();
            let pause = match self.failures {
                // Nothing is known of the disk yet: the next commit tells.
                0 if opened => Duration::ZERO,
                n => REOPEN_PAUSE_MIN.saturating_mul(1 << n.min(8)).min(REOPEN_PAUSE_MAX),
            };
            self.failures += 1;
            // After the attempt, which may have taken long itself.
            self.failed_at = Some(Instant::now());
            while self.failed_at.is_some_and(|at| at.elapsed() < pause) && !inbox.is_closed() {
                self.refuse(taken, inbox);
                std::thread::sleep(LOOK_EVERY);
            }
            // A read of the file that was just opened may have failed in the pause.
            if opened && !self.handle.is_troubled() {
                return;
            }
            self.refuse(taken, inbox);
            if inbox.is_closed() {
                return;
            }
        }
    }

    fn try_open(&mut self) -> bool {
        match self.open_again() {
            Ok(()) => {
                tracing::warn!("the store was opened again");
                true
            }
            Err(error) => {
                let error = error.for_operator();
                tracing::error!(error, "the store could not be opened again");
                self.health.fails(&error);
                false
            }
        }
    }

    /// Refuses what waits and what has arrived.
    fn refuse(&self, taken: &mut PendingWork, inbox: &mut mpsc::Receiver<WriterMessage>) {
        while let Ok(message) = inbox.try_recv() {
            taken.sort(message);
        }
        // Work that wanted to be alone is dropped: whoever waits for it is told so by that.
        taken.alone = None;
        self.health.refuses(taken.waiting.len() as u64);
        for operation in taken.waiting.drain(..) {
            operation.answer(Some(REOPENING));
        }
    }
}
