//! How the file does: what readiness, the status and the metrics say of the writer, and whether reads fail.

use base::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A commit that takes longer is trouble: a disk that hangs, or one that is far too slow.
const COMMIT_MAX: Duration = Duration::from_secs(30);

/// The error of an operation on the file. A disk that fails is unavailable, which passes; all else is ours, or damage.
pub(super) fn file_failed(doing: &'static str, error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    match error {
        redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed => {
            Error::unavailable("the disk of the store has failed; it is opened again")
                .caused_by(format!("{doing}: {error}"))
        }
        redb::Error::Corrupted(what) => Error::internal(doing, format!("{what}: {DAMAGED}")),
        error => Error::internal(doing, error),
    }
}

pub(super) const DAMAGED: &str = "the store's file is damaged; `gleaner doctor` says more, with the box off";

/// What the writer is doing.
#[derive(Debug, Default)]
enum WriterActivity {
    /// Waiting for operations.
    #[default]
    Waiting,
    /// Deciding and committing since then.
    Writing(Instant),
    /// Ended: the store is closed.
    Ended,
}

/// How the writer is.
#[derive(Debug, Default)]
pub struct WriterHealth {
    doing: Mutex<WriterActivity>,
    /// What failed last, and since when nothing was stored; none since a commit went well.
    failing: Mutex<Option<(Instant, String)>>,
    refused: AtomicU64,
    reopened: AtomicU64,
    restarted: AtomicU64,
}

impl WriterHealth {
    pub(super) fn begins(&self) {
        *self.doing.lock() = WriterActivity::Writing(Instant::now());
    }

    pub(super) fn waits(&self) {
        *self.doing.lock() = WriterActivity::Waiting;
    }

    pub(super) fn ends(&self) {
        *self.doing.lock() = WriterActivity::Ended;
    }

    pub(super) fn fails(&self, reason: &str) {
        let mut failing = self.failing.lock();
        let since = failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *failing = Some((since, reason.to_owned()));
    }

    pub(super) fn goes_well(&self) {
        let mut failing = self.failing.lock();
        if let Some((since, _)) = failing.take() {
            drop(failing);
            tracing::info!(after_ms = since.elapsed().as_millis() as u64, "the store takes writes again");
        }
    }

    pub(super) fn refuses(&self, writes: u64) {
        self.refused.fetch_add(writes, Ordering::Relaxed);
    }

    pub(super) fn reopens(&self) {
        self.reopened.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn restarts(&self) {
        self.restarted.fetch_add(1, Ordering::Relaxed);
    }

    /// Why nothing can be written at the moment, for a person; none when all is well.
    pub fn trouble(&self) -> Option<String> {
        match &*self.doing.lock() {
            WriterActivity::Ended => return Some("the writer has ended".to_owned()),
            WriterActivity::Writing(since) if since.elapsed() > COMMIT_MAX => {
                let seconds = since.elapsed().as_secs();
                return Some(format!(
                    "a commit has been going on for {seconds} s: the disk hangs or is very slow"
                ));
            }
            WriterActivity::Writing(_) | WriterActivity::Waiting => {}
        }
        let failing = self.failing.lock();
        let (since, reason) = failing.as_ref()?;
        Some(format!("nothing was stored for {} s: {reason}", since.elapsed().as_secs()))
    }

    /// Whether the last commit failed and none went well since.
    pub fn is_failing(&self) -> bool {
        self.failing.lock().is_some()
    }

    /// Writes answered 503 since the start: a full queue or disk, a store that was being opened again, a failed commit.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How often the file was opened again since the start.
    pub fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// How often the writer was started again after a panic.
    pub fn restarted(&self) -> u64 {
        self.restarted.load(Ordering::Relaxed)
    }
}

/// Set when the file could not be read: every later read of it fails too, until it is opened again.
#[derive(Default)]
pub(super) struct ReadFailure(AtomicBool);

impl ReadFailure {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Notes a failure that is the disk's.
    pub(super) fn note<T>(&self, result: Result<T>) -> Result<T> {
        if result.as_ref().is_err_and(|error| error.code() == Code::ServiceUnavailable) {
            self.set();
        }
        result
    }
}
