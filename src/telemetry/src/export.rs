//! The queue of spans, and the task that takes batches out of it.

use crate::encode;
use crate::post::{Post, Posted};
use crate::settings::Settings;
use base::trace::{EndedSpan, SpanSink};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout, timeout_at};

/// Spans that may wait; some 500 bytes each.
const WAITING_MAX: usize = 8_192;
/// Spans of a batch.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for others.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// How often a batch is tried.
const TRIES_MAX: u32 = 4;
/// The first pause between two tries, which doubles, and the longest that a collector may ask for.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a box that ends waits for what is on its way.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// How often the log says that spans do not arrive.
const TOLD_EVERY: Duration = Duration::from_secs(300);

/// What became of spans since the start.
#[derive(Debug, Default)]
pub struct ExportCounts {
    sent: AtomicU64,
    full: AtomicU64,
    lost: AtomicU64,
}

impl ExportCounts {
    /// Spans that the collector has taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Spans that were given up because so many waited.
    pub fn dropped_full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Spans that were given up because the collector did not take them.
    pub fn dropped_by_collector(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

enum Message {
    Span(Box<EndedSpan>),
    Flush(oneshot::Sender<()>),
}

/// Takes spans for the task that sends them.
pub struct Exporter {
    queue: mpsc::Sender<Message>,
    counts: Arc<ExportCounts>,
}

impl Exporter {
    /// Starts the task. An error says what is wrong with the settings.
    pub fn start(settings: Settings) -> Result<Exporter, String> {
        let post = Post::new(settings)?;
        let (queue, inbox) = mpsc::channel(WAITING_MAX);
        let counts = Arc::<ExportCounts>::default();
        tokio::spawn(run(inbox, post, Arc::clone(&counts)));
        Ok(Exporter { queue, counts })
    }

    pub fn counts(&self) -> &Arc<ExportCounts> {
        &self.counts
    }

    /// Spans that wait.
    pub fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Sends what waits now, as far as that goes within moments: for a box that ends.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let asked = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        let _ = timeout(FLUSH_MAX, asked).await;
    }
}

impl SpanSink for Exporter {
    fn take(&self, span: EndedSpan) {
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            self.counts.full.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn run(mut inbox: mpsc::Receiver<Message>, post: Post, counts: Arc<ExportCounts>) {
    let mut told = Told::default();
    loop {
        let (batch, then) = gather(&mut inbox).await;
        if !batch.is_empty() {
            let spans = batch.len() as u64;
            let body = Bytes::from(encode::request(&post.settings().resource, &batch));
            drop(batch);
            deliver(&post, body, spans, &counts, &mut told).await;
        }
        match then {
            Then::GoOn => {}
            Then::Tell(done) => {
                let _ = done.send(());
            }
            Then::End => return,
        }
    }
}

/// What follows a batch.
enum Then {
    GoOn,
    Tell(oneshot::Sender<()>),
    End,
}

/// The next batch.
async fn gather(inbox: &mut mpsc::Receiver<Message>) -> (Vec<EndedSpan>, Then) {
    let mut batch = Vec::new();
    let mut next = inbox.recv().await;
    let whole_at = tokio::time::Instant::now() + GATHERED_FOR;
    loop {
        match next {
            Some(Message::Span(span)) => batch.push(*span),
            Some(Message::Flush(done)) => return (batch, Then::Tell(done)),
            None => return (batch, Then::End),
        }
        if batch.len() >= BATCH_MAX {
            return (batch, Then::GoOn);
        }
        match timeout_at(whole_at, inbox.recv()).await {
            Ok(message) => next = message,
            Err(_elapsed) => return (batch, Then::GoOn),
        }
    }
}

/// Sends a batch, as often as it may be tried.
async fn deliver(post: &Post, body: Bytes, spans: u64, counts: &ExportCounts, told: &mut Told) {
    let mut pause = PAUSE_MIN;
    for tried in 1..=TRIES_MAX {
        let (reason, after) = match post.send(body.clone()).await {
            Posted::Taken { rejected } => {
                let rejected = rejected.min(spans);
                counts.sent.fetch_add(spans - rejected, Ordering::Relaxed);
                counts.lost.fetch_add(rejected, Ordering::Relaxed);
                return told.well(rejected);
            }
            Posted::Later { reason, after } if tried < TRIES_MAX => (reason, after),
            Posted::Later { reason, .. } | Posted::Refused { reason } => {
                counts.lost.fetch_add(spans, Ordering::Relaxed);
                return told.failed(&reason, spans);
            }
        };
        tracing::debug!(target: "gleaner::telemetry", reason, spans, "spans are sent again");
        sleep(after.unwrap_or(pause).clamp(PAUSE_MIN, PAUSE_MAX)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What the log has said of the collector.
#[derive(Default)]
struct Told {
    failed_at: Option<Instant>,
    /// Whether the last batch was lost.
    is_failing: bool,
}

impl Told {
    fn failed(&mut self, reason: &str, spans: u64) {
        self.is_failing = true;
        if self.failed_at.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
            return;
        }
        self.failed_at = Some(Instant::now());
        let text = "spans were lost: the collector did not take them";
        tracing::warn!(target: "gleaner::telemetry", reason, spans, "{text}");
    }

    fn well(&mut self, rejected: u64) {
        if rejected > 0 {
            return self.failed("it has refused a part", rejected);
        }
        if std::mem::take(&mut self.is_failing) {
            self.failed_at = None;
            tracing::info!(target: "gleaner::telemetry", "the collector takes spans again");
        }
    }
}
