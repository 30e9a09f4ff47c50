//! What the box does for itself: watching the disk, forgetting change records that everybody has read, gauges.

use super::Parts;
use crate::config::Config;
use crate::features::bi::SnapshotFeed;
use crate::features::extraction::SearchFeed;
use crate::features::jobs::Dispatcher;
use crate::features::mail::{self, MailState};
use crate::http::{Metrics, Services};
use crate::store::{self, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the disk is looked at (engines page, "Store").
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Change records removed by one write operation.
const FORGOTTEN_PER_WRITE: usize = 2_000;
/// Looks between two clean-ups of change records.
const LOOKS_PER_CLEANUP: u32 = 10;

/// Looks after disk and outbox until it is aborted.
pub(super) async fn run(services: Arc<Services>, config: Config) {
    let store = services.store().clone();
    let mut looks = 0u32;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Some(free) = free_bytes(&config.storage.data_dir) {
            store.set_disk_full(free < config.storage.reserve_mb << 20);
        }
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS_PER_CLEANUP) {
            forget(&services, &store).await;
        }
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    match store::free_bytes(folder) {
        Ok(free) => Some(free),
        Err(error) => {
            tracing::warn!(%error, "the free space of the data folder could not be read");
            None
        }
    }
}

/// Removes the change records that every consumer has made durable.
async fn forget(services: &Services, store: &Store) {
    let read = services
        .service::<SearchFeed>()
        .durable_position()
        .min(services.service::<SnapshotFeed>().position());
    loop {
        let gone = store.system().write(move |tx| tx.forget_changes(read, FORGOTTEN_PER_WRITE)).await;
        match gone {
            Ok(FORGOTTEN_PER_WRITE) => {}
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "change records could not be forgotten");
                return;
            }
        }
    }
}

/// Registers the gauges of store, dispatcher and feeds.
pub(super) fn measure(metrics: &Metrics, store: &Store, parts: &Parts) {
    let gauge =
        |name, help, read: Box<dyn Fn() -> f64 + Send + Sync>| metrics.gauge_of(name, help, &[], read);
    let of = |store: &Store, read: fn(&Store) -> f64| {
        let store = store.clone();
        Box::new(move || read(&store)) as Box<dyn Fn() -> f64 + Send + Sync>
    };
    gauge("gleaner_store_file_bytes", "Size of the store's file.", of(store, |s| s.file_bytes() as f64));
    gauge(
        "gleaner_store_oldest_read_seconds",
        "Age of the oldest read going on.",
        of(store, |s| s.oldest_read().as_secs_f64()),
    );
    gauge(
        "gleaner_store_operations",
        "Write operations since the start.",
        of(store, |s| s.stats().operations.load(Ordering::Relaxed) as f64),
    );
    gauge(
        "gleaner_store_commits",
        "Commits since the start.",
        of(store, |s| s.stats().commits.load(Ordering::Relaxed) as f64),
    );
    gauge(
        "gleaner_store_failed_commits",
        "Commits that failed.",
        of(store, |s| s.stats().failed_commits.load(Ordering::Relaxed) as f64),
    );
    gauge(
        "gleaner_store_sequence",
        "Number of the newest change record.",
        of(store, |s| *s.sequence().borrow() as f64),
    );
    let (search, snapshots, dispatcher): (Arc<SearchFeed>, Arc<SnapshotFeed>, Arc<Dispatcher>) =
        (parts.search.clone(), parts.snapshots.clone(), parts.dispatcher.clone());
    gauge(
        "gleaner_search_position",
        "Change record up to which results can be found.",
        Box::new(move || search.committed() as f64),
    );
    gauge(
        "gleaner_snapshot_position",
        "Change record up to which SQL sees rows.",
        Box::new(move || snapshots.applied() as f64),
    );
    let mails = |state| {
        let system = store.system();
        // A store that is closing answers nothing; the next look at the page is another box's.
        Box::new(move || system.read(|tx| mail::waiting(tx, state)).unwrap_or(0) as f64)
    };
    for (what, _) in parts.retention.removed.all() {
        let retention = parts.retention.clone();
        let read = move || {
            let all = retention.removed.all();
            all.iter().find(|(name, _)| *name == what).map_or(0.0, |(_, count)| *count as f64)
        };
        metrics.gauge_of(
            "gleaner_retention_removed",
            "What was removed because its time was over, since the start.",
            &[("what", what)],
            read,
        );
    }
    gauge("gleaner_mail_waiting", "Messages that wait to be sent.", mails(MailState::Queued));
    gauge("gleaner_mail_failed", "Messages that failed in the last 30 days.", mails(MailState::Failed));
    gauge("gleaner_jobs_running", "Jobs running now.", Box::new(move || dispatcher.running() as f64));
}
