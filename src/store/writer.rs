//! The writer: one thread owns the write transaction and commits in groups.
//!
//! It takes the first waiting operation, drains up to [`WRITER_BATCH_MAX`] more without a timer, lets each decide on
//! the open transaction and applies what it decided, commits once with fsync and only then answers everybody
//! (engines page, "Store": 25 times one transaction a request at 256 callers). Large operations make a commit of
//! fewer: what has not decided within [`DECIDE_MAX`] waits for the next one. An operation that is refused or
//! panics leaves nothing behind and costs its neighbours nothing, because its changes are collected beside the
//! transaction until it has returned.
//!
//! redb refuses every write after a failed commit, also when a full disk has room again. The writer then closes the
//! file and opens it anew in process; until it is open, writes are answered with 503.

use super::changes;
use super::engine::Handle;
use super::view::{Batch, WriteView};
use crate::base::clock::{Clock, Timestamp};
use crate::base::limits::{WRITER_BATCH_MAX, WRITER_QUEUE_MAX};
use crate::base::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// How long the operations of one commit may take to decide; none is cut off, but no further one begins.
const DECIDE_MAX: Duration = Duration::from_millis(100);
/// How often a file that could not be opened again is tried once more.
const REOPEN_EVERY: Duration = Duration::from_millis(250);

/// An operation on its way through the writer.
trait Operation: Send {
    /// Runs the closure. Its answer is kept until the batch is committed.
    fn decide(&mut self, view: &WriteView<'_>, now: Timestamp) -> bool;

    /// Answers the caller: with what was decided, or with the reason why the batch failed.
    fn answer(self: Box<Self>, failed: Option<&str>);
}

struct Closure<F, T> {
    run: Option<F>,
    decided: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Operation for Closure<F, T>
where
    F: FnOnce(&WriteView<'_>, Timestamp) -> Result<T> + Send,
    T: Send,
{
    fn decide(&mut self, view: &WriteView<'_>, now: Timestamp) -> bool {
        let Some(run) = self.run.take() else { return false };
        let decided = catch_unwind(AssertUnwindSafe(|| run(view, now)))
            .unwrap_or_else(|panic| Err(Error::internal("run a write operation", panic_text(&*panic))));
        let accepted = decided.is_ok();
        self.decided = Some(decided);
        accepted
    }

    fn answer(self: Box<Self>, failed: Option<&str>) {
        let answer = match (failed, self.decided) {
            // A refusal stands whatever became of the batch: it wrote nothing.
            (_, Some(Err(refused))) => Err(refused),
            (None, Some(Ok(value))) => Ok(value),
            (Some(reason), _) => Err(Error::unavailable(reason)),
            (None, None) => Err(Error::internal("run a write operation", "it was never decided")),
        };
        // A caller that went away no longer wants to know.
        let _ = self.reply.send(answer);
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

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
enum Message {
    Operation(Box<dyn Operation>),
    /// Work between two commits: everything that came before is committed, nothing that comes after has begun.
    Alone(Alone),
}

type Alone = Box<dyn FnOnce(&Handle) + Send>;

/// The queue to the writer thread.
pub(super) struct Writer {
    queue: parking_lot::Mutex<Option<mpsc::Sender<Message>>>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
    pub(super) stats: Arc<WriterStats>,
    pub(super) sequence: watch::Receiver<u64>,
    /// Set while the disk has less room than its reserve.
    pub(super) disk_full: Arc<AtomicBool>,
}

impl Writer {
    pub(super) fn start(handle: Arc<Handle>, clock: Clock) -> Result<Writer> {
        let last = handle.read(|view| changes::last(view))?;
        let (queue, inbox) = mpsc::channel(WRITER_QUEUE_MAX);
        let (tell, sequence) = watch::channel(last);
        let stats = Arc::new(WriterStats::default());
        let mut state = State { handle, clock, tell, stats: stats.clone(), next_sequence: last + 1 };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || state.run(inbox))
            .map_err(|e| Error::internal("start the writer thread", e))?;
        Ok(Writer {
            queue: parking_lot::Mutex::new(Some(queue)),
            thread: parking_lot::Mutex::new(Some(thread)),
            stats,
            sequence,
            disk_full: Arc::default(),
        })
    }

    /// Hands an operation over; the receiver gets its answer after the commit. 503 when the queue is full, the disk
    /// is, or the store is closing.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        run: impl FnOnce(&WriteView<'_>, Timestamp) -> Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        if self.disk_full.load(Ordering::Relaxed) {
            return Err(Error::unavailable("the disk is full; nothing can be written until it has room"));
        }
        self.submit_freeing(run)
    }

    /// The same for what makes room: taken while the disk has no more than its reserve, which is there for that too.
    pub(super) fn submit_freeing<T: Send + 'static>(
        &self,
        run: impl FnOnce(&WriteView<'_>, Timestamp) -> Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        let (reply, answer) = oneshot::channel();
        let operation: Box<dyn Operation> = Box::new(Closure { run: Some(run), decided: None, reply });
        let queue = self.queue.lock().clone().ok_or_else(|| Error::unavailable("the store is closing"))?;
        queue
            .try_send(Message::Operation(operation))
            .map_err(|_| Error::unavailable("too many writes are waiting"))?;
        Ok(answer)
    }

    /// Runs `run` on the writer's thread between two commits and gives its result; writes wait meanwhile. Blocks: for a
    /// thread outside the runtime.
    pub(super) fn alone<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Handle) -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |handle: &Handle| {
            let _ = reply.send(run(handle));
        });
        let queue = self.queue.lock().clone().ok_or_else(|| Error::unavailable("the store is closing"))?;
        queue.blocking_send(Message::Alone(work)).map_err(|_| Error::unavailable("the store is closing"))?;
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
    Error::unavailable("the store is closing")
}

/// Runs one operation in a transaction of its own on the calling thread: what migrations do before there is a writer.
pub(super) fn commit_one(
    handle: &Handle,
    next_sequence: u64,
    run: impl FnOnce(&WriteView<'_>) -> Result<()>,
) -> Result<()> {
    let database = handle.database()?;
    let tx = begin(&database)?;
    let learned = {
        let open = Batch::new(&tx, next_sequence, handle.known(), handle.tracker.clone());
        let view = WriteView::new(&open);
        run(&view)?;
        view.apply()?;
        open.write_counts()?;
        open.learned()
    };
    tx.commit().map_err(|e| Error::internal("commit", e))?;
    handle.learn(learned);
    handle.committed();
    Ok(())
}

pub(super) fn begin(database: &redb::Database) -> Result<redb::WriteTransaction> {
    let mut tx = database.begin_write().map_err(|e| Error::internal("begin a write transaction", e))?;
    // Opening after a crash takes milliseconds instead of a walk over the whole file, and the two-phase commit
    // that comes with it closes the gap redb documents for hostile content (engines page, "Store").
    tx.set_quick_repair(true);
    Ok(tx)
}

/// Puts a message where it waits.
fn sort(message: Message, waiting: &mut VecDeque<Box<dyn Operation>>, alone: &mut Option<Alone>) {
    match message {
        Message::Operation(operation) => waiting.push_back(operation),
        Message::Alone(run) => *alone = Some(run),
    }
}

struct State {
    handle: Arc<Handle>,
    clock: Clock,
    tell: watch::Sender<u64>,
    stats: Arc<WriterStats>,
    next_sequence: u64,
}

impl State {
    fn run(&mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut waiting: VecDeque<Box<dyn Operation>> = VecDeque::with_capacity(WRITER_BATCH_MAX);
        let mut batch = Vec::with_capacity(WRITER_BATCH_MAX);
        let mut alone = None;
        loop {
            if waiting.is_empty() {
                if let Some(run) = alone.take() {
                    self.run_alone(run);
                }
                let Some(first) = inbox.blocking_recv() else { return };
                sort(first, &mut waiting, &mut alone);
            }
            while waiting.len() < WRITER_BATCH_MAX
                && alone.is_none()
                && let Ok(next) = inbox.try_recv()
            {
                sort(next, &mut waiting, &mut alone);
            }
            if waiting.is_empty() {
                continue;
            }
            let failed = match catch_unwind(AssertUnwindSafe(|| self.commit(&mut waiting, &mut batch))) {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(panic) => Some(panic_text(&*panic)),
            };
            self.stats.operations.fetch_add(batch.len() as u64, Ordering::Relaxed);
            if let Some(reason) = &failed {
                self.stats.failed_commits.fetch_add(1, Ordering::Relaxed);
                tracing::error!(reason, operations = batch.len(), "a commit failed; nothing of it was kept");
            }
            if failed.is_some() && batch.is_empty() {
                // It failed before anybody could decide; nobody is left waiting for a disk that may stay broken.
                batch.extend(waiting.drain(..));
            }
            let answer = failed.as_ref().map(|_| "the change could not be stored; nothing of it was kept");
            for operation in batch.drain(..) {
                operation.answer(answer);
            }
            if failed.is_some() {
                self.reopen(&mut waiting, &mut inbox);
            }
        }
    }

    /// A panic of it must not end the writer.
    fn run_alone(&self, run: Alone) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&self.handle))) {
            tracing::error!(reason = panic_text(&*panic), "work between two commits failed");
        }
    }

    /// Lets the operations that wait decide, applies them, moves them to `batch`, and commits once. An empty batch
    /// commits nothing.
    fn commit(
        &mut self,
        waiting: &mut VecDeque<Box<dyn Operation>>,
        batch: &mut Vec<Box<dyn Operation>>,
    ) -> Result<()> {
        let database = self.handle.database()?;
        let tx = begin(&database)?;
        let now = self.clock.now();
        let begun = Instant::now();
        let (next_sequence, dirty, learned) = {
            let open = Batch::new(&tx, self.next_sequence, self.handle.known(), self.handle.tracker.clone());
            while let Some(operation) = waiting.pop_front() {
                batch.push(operation);
                let view = WriteView::new(&open);
                if batch.last_mut().is_some_and(|operation| operation.decide(&view, now)) {
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
            return tx.abort().map_err(|e| Error::internal("end an empty transaction", e));
        }
        let begun = Instant::now();
        let committed = tx.commit();
        if committed.is_ok() {
            self.handle.learn(learned);
        }
        // A commit that failed may have reached the file all the same.
        self.handle.committed();
        committed.map_err(|e| Error::internal("commit", e))?;
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stats.commits.fetch_add(1, Ordering::Relaxed);
        self.stats.commit_us.fetch_add(took, Ordering::Relaxed);
        if next_sequence != self.next_sequence {
            self.next_sequence = next_sequence;
            self.tell.send_replace(next_sequence - 1);
        }
        Ok(())
    }

    /// Opens the file anew, answering what arrives meanwhile with 503.
    fn reopen(&mut self, waiting: &mut VecDeque<Box<dyn Operation>>, inbox: &mut mpsc::Receiver<Message>) {
        loop {
            let opened = self.handle.reopen().and_then(|()| self.handle.read(|view| changes::last(view)));
            match opened {
                Ok(last) => {
                    self.next_sequence = last + 1;
                    // The commit that failed may have reached the disk all the same.
                    self.tell.send_replace(last);
                    tracing::warn!("the store was opened again");
                    return;
                }
                Err(error) => tracing::error!(%error, "the store could not be opened again"),
            }
            // Work that wanted to be alone is dropped: whoever waits for it is told so by that.
            let arrived = std::iter::from_fn(|| inbox.try_recv().ok());
            let arrived = arrived.filter_map(|message| match message {
                Message::Operation(operation) => Some(operation),
                Message::Alone(_) => None,
            });
            for operation in waiting.drain(..).chain(arrived) {
                operation.answer(Some("the store is being opened again"));
            }
            if inbox.is_closed() {
                return;
            }
            std::thread::sleep(REOPEN_EVERY);
        }
    }
}
