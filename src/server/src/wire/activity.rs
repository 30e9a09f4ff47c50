//! What a connection does, counted as its requests go: for the watchdog that ends it, and for whoever needs its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the watchdog knows of a connection.
pub(crate) struct Activity {
    opened: Instant,
    running: AtomicI64,
    requests: AtomicU64,
    /// Milliseconds after `opened` at which a request began or ended, or a response moved.
    moved_ms: AtomicU64,
    /// Responses whose next part we have and the client has not taken.
    stalled: AtomicI64,
    /// Requests that wait for their turn, for room or for their body.
    waiting: AtomicI64,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity {
            opened: Instant::now(),
            running: AtomicI64::new(0),
            requests: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
            stalled: AtomicI64::new(0),
            waiting: AtomicI64::new(0),
        }
    }

    /// Notes that a request waits, for as long as what it gives is kept.
    pub(crate) fn wait(self: &Arc<Self>) -> WaitingRequest {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingRequest(Arc::clone(self))
    }

    /// Whether no request is at work here: there is none, or all wait for the client, to send its body or to take an answer.
    pub(crate) fn only_waits(&self) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed) + self.stalled.load(Ordering::Relaxed);
        waiting >= self.running.load(Ordering::Relaxed)
    }

    /// Whether it is kept alive and nothing else.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0
    }

    /// For how long nothing has happened here.
    pub(crate) fn quiet(&self) -> Duration {
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(moved)
    }

    /// Whether a request has ever come.
    pub(crate) fn has_asked(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether every request waits for its client to take the answer.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed) >= self.running.load(Ordering::Relaxed)
    }

    /// When something happened here last.
    pub(crate) fn moved(&self) -> Instant {
        self.opened + Duration::from_millis(self.moved_ms.load(Ordering::Relaxed))
    }

    /// How many requests have begun, if each of them was answered.
    pub(crate) fn answered(&self) -> Option<u64> {
        let is_quiet = self.running.load(Ordering::Relaxed) == 0;
        is_quiet.then(|| self.requests.load(Ordering::Relaxed))
    }

    /// Whether nothing runs, and nothing has begun since there were `requests`.
    pub(crate) fn is_quiet_since(&self, requests: u64) -> bool {
        self.answered() == Some(requests)
    }

    pub(crate) fn begin(self: &Arc<Self>) -> RunningRequest {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.touch();
        RunningRequest { activity: Arc::clone(self), sending: false }
    }

    fn touch(&self) {
        let ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(ms, Ordering::Relaxed);
    }
}

/// A request that waits.
pub(crate) struct WaitingRequest(Arc<Activity>);

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request on this connection, until its response is sent or given up.
pub(crate) struct RunningRequest {
    activity: Arc<Activity>,
    /// Whether a part of the response was handed over and the client has not asked for the next.
    sending: bool,
}

impl RunningRequest {
    /// Notes that the response moved.
    pub(crate) fn touch(&self) {
        self.activity.touch();
    }

    /// Notes whether a part of the response lies there, for the client to take.
    pub(crate) fn set_sending(&mut self, sending: bool) {
        if self.sending != sending {
            self.sending = sending;
            self.activity.stalled.fetch_add(if sending { 1 } else { -1 }, Ordering::Relaxed);
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.set_sending(false);
        self.activity.running.fetch_sub(1, Ordering::Relaxed);
        self.activity.touch();
    }
}
