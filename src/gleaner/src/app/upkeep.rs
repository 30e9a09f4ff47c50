//! What the box does for itself: watching disk, writer and feeds, forgetting change records that everybody has read,
//! readiness, gauges.

use super::selftest::SelfTest;
use super::watch::{Reserve, Watch};
use super::{certificates, process};
use crate::config::Config;
use crate::features::wiring::consumers;
use crate::features::{self, wiring};
use crate::log;
use base::clock::ClockReport;
use base::health::Health;
use futures::FutureExt;
use server::{Certificates, Metrics, Readiness, Services, panic_text};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::Store;

/// How often the disk is looked at (data/docs/engines.md, "Store").
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a look may take before the next one begins: a disk that hangs must not end the looking.
const LOOK_MAX: Duration = Duration::from_secs(20);
/// Change records removed by one write operation.
const FORGOTTEN_PER_WRITE: usize = 2_000;
/// Looks between two clean-ups of change records.
const LOOKS_PER_CLEANUP: u32 = 10;

/// Looks after the box until it is aborted. A look that fails or panics is one look; the next one comes all the same.
pub(super) async fn run(services: Arc<Services>, config: Config, watch: Arc<Watch>) {
    let mut looks = 0u32;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        looks = looks.wrapping_add(1);
        let look = AssertUnwindSafe(look(&services, &config, &watch, looks)).catch_unwind();
        match tokio::time::timeout(LOOK_MAX, look).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => tracing::error!(reason = panic_text(&*panic), "a look after the box failed"),
            Err(_) => {
                tracing::warn!(seconds = LOOK_MAX.as_secs(), "a look after the box did not end in time")
            }
        }
    }
}

async fn look(services: &Arc<Services>, config: &Config, watch: &Arc<Watch>, looks: u32) {
    let store = services.store();
    let folders = watched_folders(config);
    let reserve = Reserve { bytes: config.storage.reserve_mb << 20 };
    // On a thread that may hang with the disk.
    let looked = watch.clone();
    let seen = tokio::task::spawn_blocking(move || looked.look(&folders, &reserve)).await;
    match seen {
        Ok(seen) => {
            store.set_disk_full(seen.is_full);
            store.set_folder_gone(seen.is_gone);
        }
        Err(error) => tracing::warn!(%error, "the disk could not be looked at"),
    }
    follow_feeds(services, watch);
    if watch.clock_jumped(store.clock().report().jumps) {
        // A box that nobody writes to would not know of it after a restart.
        if let Err(error) = store.probe().await {
            tracing::debug!(%error, "a jump of the clock could not be written down");
        }
    }
    if store.writer().is_failing() && !store.disk_full() {
        // Whether it is over shows only when something is written, and nobody may come and write.
        if let Err(error) = store.probe().await {
            tracing::debug!(%error, "the store takes no writes yet");
        }
    }
    if looks.is_multiple_of(LOOKS_PER_CLEANUP) {
        forget(services, store).await;
    }
}

/// What the box cannot do without: where rows go, and what slices name.
fn watched_folders(config: &Config) -> Vec<PathBuf> {
    let data = &config.storage.data_dir;
    let needed = features::ALL.iter().flat_map(|feature| feature.folders).filter(|folder| folder.is_needed);
    std::iter::once(data.clone()).chain(needed.map(|folder| data.join(folder.name))).collect()
}

fn follow_feeds(services: &Services, watch: &Watch) {
    let now = services.clock().look();
    for consumer in consumers(services) {
        let position = consumer.reached();
        // Of a store that cannot be read, its own check tells.
        let Ok(next) = services.system().read(|tx| tx.changes(position, 1)) else { continue };
        // At least a moment, so that what waits is told from nothing that does.
        let lag =
            next.first().map_or(Duration::ZERO, |change| now.age(change.at).max(Duration::from_millis(1)));
        // What is filled anew stands at its position, and gets on nevertheless.
        watch.follow(consumer.name(), position.saturating_add(consumer.refilled()), lag);
    }
}

/// What must hold before the box calls itself ready, part by part.
pub(super) fn readiness(
    services: &Services,
    watch: &Arc<Watch>,
    self_test: &Arc<SelfTest>,
    certificates: Option<&Certificates>,
) -> Readiness {
    let (self_test, health) = (Arc::clone(self_test), services.service::<Health>());
    let read = services.store().clone();
    let writer = read.clone();
    let of = |look: fn(&Watch) -> Result<(), String>| {
        let watch = watch.clone();
        move || look(&watch)
    };
    let trunk = Readiness::default()
        .with_start("selfTest", move || self_test.check())
        .with("jobs", move || health.describe().map_or(Ok(()), Err))
        .with("store", move || {
            read.system().read(|tx| tx.changes_begin()).map(drop).map_err(|e| e.to_string())
        })
        .with("writer", move || writer.writer().trouble().map_or(Ok(()), Err))
        .with("disk", of(Watch::disk))
        .with("upkeep", of(Watch::upkeep));
    let trunk = match certificates.cloned() {
        Some(shown) => trunk.with_start("certificates", move || certificates::check(&shown)),
        None => trunk,
    };
    consumers(services).into_iter().fold(trunk, |ready, consumer| {
        let (watch, name) = (watch.clone(), consumer.name());
        ready.with(name, move || watch.feed(name))
    })
}

/// Removes the change records that every consumer has made durable.
async fn forget(services: &Services, store: &Store) {
    let Some(read) = consumers(services).iter().map(|consumer| consumer.durable()).min() else { return };
    loop {
        let gone = store.system().write_freeing(move |tx| tx.forget_changes(read, FORGOTTEN_PER_WRITE)).await;
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

/// Registers the gauges of store, disk, process and feeds, and those of the slices.
pub(super) fn measure(
    metrics: &Metrics,
    services: &Services,
    watch: &Arc<Watch>,
    certificates: Option<&Certificates>,
) {
    if let Some(shown) = certificates.cloned() {
        let help =
            "1 while the certificates' files cannot be used and those that were read before are shown.";
        metrics.gauge_of("gleaner_certificates_broken", help, &[], move || {
            f64::from(u8::from(shown.trouble().is_some()))
        });
    }
    measure_store(metrics, services.store());
    measure_clock(metrics, services.store());
    measure_machine(metrics, watch);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    metrics.gauge_of("gleaner_build_info", "1, with the version of the box.", &version, || 1.0);
    for consumer in consumers(services) {
        let (watch, name) = (watch.clone(), consumer.name());
        let help = "Age of the oldest change that a feed has not taken in.";
        metrics.gauge_of("gleaner_feed_lag_seconds", help, &[("feed", name)], move || watch.lag_sec(name));
    }
    for gauges in wiring::in_order().into_iter().filter_map(|feature| feature.gauges) {
        gauges(metrics, services);
    }
}

fn measure_store(metrics: &Metrics, store: &Store) {
    let gauge = |name, help, read: fn(&Store) -> f64| {
        let store = store.clone();
        metrics.gauge_of(name, help, &[], move || read(&store));
    };
    gauge("gleaner_store_file_bytes", "Size of the store's file.", |s| s.file_bytes() as f64);
    gauge("gleaner_store_oldest_read_seconds", "Age of the oldest read going on.", |s| {
        s.oldest_read().as_secs_f64()
    });
    gauge("gleaner_store_operations", "Write operations since the start.", |s| {
        s.stats().operations.load(Ordering::Relaxed) as f64
    });
    gauge("gleaner_store_commits", "Commits since the start.", |s| {
        s.stats().commits.load(Ordering::Relaxed) as f64
    });
    gauge("gleaner_store_failed_commits", "Commits that failed.", |s| {
        s.stats().failed_commits.load(Ordering::Relaxed) as f64
    });
    gauge("gleaner_store_sequence", "Number of the newest change record.", |s| *s.sequence().borrow() as f64);
    gauge("gleaner_store_writes_refused", "Writes answered 503 since the start.", |s| {
        s.writer().refused() as f64
    });
    gauge("gleaner_store_writer_up", "1 while the store takes writes, 0 while it fails or hangs.", |s| {
        f64::from(u8::from(s.writer().trouble().is_none() && !s.disk_full()))
    });
    gauge("gleaner_store_reopened", "Times that the store's file was opened again after a failure.", |s| {
        s.writer().reopened() as f64
    });
    gauge(
        "gleaner_store_passed_over",
        "Damaged rows that the box's own work has passed over since the start; `gleaner doctor` names them.",
        |_| store::passed_over() as f64,
    );
    gauge("gleaner_store_writer_restarts", "Times that the writer was started again after a panic.", |s| {
        s.writer().restarted() as f64
    });
}

fn measure_clock(metrics: &Metrics, store: &Store) {
    let gauge = |name, help, read: fn(ClockReport) -> f64| {
        let clock = store.clock().clone();
        metrics.gauge_of(name, help, &[], move || read(clock.report()));
    };
    gauge("gleaner_clock_jumps", "Jumps of the machine's clock since the box was founded.", |clock| {
        clock.jumps as f64
    });
    gauge(
        "gleaner_clock_ahead_seconds",
        "By how much dates are ahead of the box's own time: all jumps together.",
        |clock| clock.ahead_ms as f64 / 1e3,
    );
    gauge(
        "gleaner_clock_doubted_seconds",
        "For how long the machine says it was off, while that is not believed.",
        |clock| clock.doubted.map_or(0.0, |off| off.as_secs_f64()),
    );
}

fn measure_machine(metrics: &Metrics, watch: &Arc<Watch>) {
    let gauge =
        |name, help, read: Box<dyn Fn() -> f64 + Send + Sync>| metrics.gauge_of(name, help, &[], read);
    let room = |read: fn(disk::Room) -> f64| {
        let watch = watch.clone();
        Box::new(move || watch.room().map_or(f64::NAN, read)) as Box<dyn Fn() -> f64 + Send + Sync>
    };
    gauge("gleaner_disk_free_bytes", "Free space of the data folder's disk.", room(|room| room.bytes as f64));
    gauge(
        "gleaner_disk_free_inodes",
        "Files that the data folder's disk has room for; NaN where it does not count them.",
        room(|room| room.files.map_or(f64::NAN, |files| files as f64)),
    );
    gauge("process_open_fds", "Descriptors that the process has open.", Box::new(process::open_descriptors));
    gauge("process_max_fds", "Descriptors that it may have open.", Box::new(process::descriptors_max));
    gauge(
        "process_resident_memory_bytes",
        "Memory of the process, mapped files included.",
        Box::new(|| process::status_bytes("VmRSS")),
    );
    gauge(
        "gleaner_process_own_memory_bytes",
        "Memory of the process without mapped files.",
        Box::new(|| process::status_bytes("RssAnon")),
    );
    let began = process::now();
    let help = "When the box began, in seconds since 1970.";
    gauge("process_start_time_seconds", help, Box::new(move || began));
    gauge("process_threads", "Threads of the process.", Box::new(|| process::status_number("Threads")));
    gauge(
        "gleaner_log_lines_lost",
        "Lines of the log that could not be written.",
        Box::new(|| log::lost() as f64),
    );
}
