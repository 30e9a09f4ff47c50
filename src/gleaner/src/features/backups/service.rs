//! The part of the slice that hangs in the box's services: one backup at a time, and how the last ones went.

use super::place::{Done, Means, Place, Wanted, millis};
use super::rows::{BACKUPS, BackupsV1, GoodBackupV1};
use crate::features::mail::{self, Mailer};
use backup::Progress;
use base::clock::Timestamp;
use base::{Error, Result};
use blob::BlobStore;
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::Services;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::System;
use tokio::runtime::Handle;

/// Makes backups of the box that runs.
pub struct Backups {
    place: Place,
    running: Mutex<Option<Arc<Running>>>,
    /// What came of the last one that this process made, by its number.
    ended: Mutex<Option<(u64, Value)>>,
    numbers: AtomicU64,
    stop: AtomicBool,
}

struct Running {
    number: u64,
    target: String,
    began_at: Timestamp,
    progress: Progress,
}

/// The least time between two looks at whether a backup has ended.
const ENDED_LOOK: Duration = Duration::from_millis(50);

impl Backups {
    pub(super) fn new(place: Place) -> Backups {
        Backups {
            place,
            running: Mutex::default(),
            ended: Mutex::default(),
            numbers: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Begins a backup and gives its number; one at a time.
    pub fn start(self: &Arc<Self>, services: &Arc<Services>, wanted: Wanted) -> Result<u64> {
        // What is wrong with the target's name is said at once.
        self.place.repository(&wanted.target, &Handle::current())?;
        let mut running = self.running.lock();
        if self.stop.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the box is about to end"));
        }
        if let Some(other) = &*running {
            return Err(Error::conflict(format!(
                "a backup to {} is being made since {}; wait for it",
                other.target, other.began_at
            )));
        }
        let begun = Arc::new(Running {
            number: self.numbers.fetch_add(1, Ordering::SeqCst) + 1,
            target: wanted.target.clone(),
            began_at: services.clock().now(),
            progress: Progress::default(),
        });
        *running = Some(Arc::clone(&begun));
        let (own, services, number) = (Arc::clone(self), Arc::clone(services), begun.number);
        tokio::spawn(async move { own.carry(&services, begun, wanted).await });
        Ok(number)
    }

    async fn carry(self: Arc<Self>, services: &Arc<Services>, running: Arc<Running>, wanted: Wanted) {
        let began = Instant::now();
        let (own, store, begun) = (Arc::clone(&self), services.store().clone(), Arc::clone(&running));
        let (runtime, pages) = (Handle::current(), services.service::<BlobStore>());
        let made = tokio::task::spawn_blocking(move || {
            let stop = || own.stop.load(Ordering::SeqCst);
            let mut export = |take: store::TakeRows<'_>| store.export(&stop, take);
            let hold = || -> Box<dyn Any> { Box::new(pages.hold_removals()) };
            let means = Means { hold: &hold, stop: &stop, progress: &begun.progress, runtime: &runtime };
            own.place.back_up(&wanted, store.id(), &mut export, &means)
        });
        let made = made.await.unwrap_or_else(|e| Err(Error::internal("make a backup", e)));
        let told = match &made {
            Ok(done) => {
                let summary = &done.manifest.summary;
                tracing::info!(
                    place = running.target,
                    id = %done.manifest.id,
                    pages = summary.pages,
                    new_bytes = summary.new_bytes,
                    "a backup was made"
                );
                show(done, &running.target)
            }
            Err(error) => {
                let error = error.for_operator();
                tracing::error!(place = running.target, error, "a backup failed");
                json!({ "failure": error })
            }
        };
        self.remember(services, &running, &made, began.elapsed()).await;
        *self.ended.lock() = Some((running.number, told));
        *self.running.lock() = None;
        let failure = match &made {
            Err(error) if !self.stop.load(Ordering::SeqCst) => Some(error.for_operator()),
            Err(_) => None,
            Ok(done) => done.not_removed.clone(),
        };
        if let Some(failure) = failure {
            let mailer = services.service::<Mailer>();
            if let Err(error) =
                mail::tell_of_backup(&mailer, services.clock().now(), &running.target, &failure).await
            {
                let error = error.for_operator();
                tracing::warn!(error, "the operator could not be told that a backup failed");
            }
        }
    }

    async fn remember(
        &self,
        services: &Arc<Services>,
        running: &Running,
        made: &Result<Done>,
        took: Duration,
    ) {
        let tried_at = running.began_at;
        let good = made.as_ref().ok().map(|done| GoodBackupV1 {
            id: done.manifest.id.to_string(),
            target: running.target.clone(),
            moment: done.manifest.moment,
            pages: done.manifest.summary.pages,
            new_bytes: done.manifest.summary.new_bytes,
            took_ms: millis(took),
        });
        let failure = made.as_ref().err().map(Error::for_operator);
        let written = services.system().write_freeing(move |tx| {
            let before = tx.get(&BACKUPS, &())?.unwrap_or_default();
            let row = BackupsV1 { tried_at, good: good.or(before.good), failure };
            tx.put(&BACKUPS, &(), &row)
        });
        if let Err(error) = written.await {
            let error = error.for_operator();
            tracing::warn!(error, "how a backup went could not be stored");
        }
    }

    /// Where backups stand; of the one with this number, what came of it.
    pub(super) fn state(&self, system: &System, number: Option<u64>) -> Result<Value> {
        let running = self.running.lock().clone();
        let ended = self.ended.lock().clone();
        let is_wanted = |(ended, _): &(u64, Value)| number.is_none_or(|number| *ended == number);
        let last = last(system)?;
        Ok(json!({
            "target": Some(&self.place.backup.target).filter(|target| !target.is_empty()),
            "running": running.map(|running| json!({
                "number": running.number,
                "target": running.target,
                "beganAt": running.began_at,
                "pages": running.progress.pages.load(Ordering::Relaxed),
                "newPages": running.progress.new_pages.load(Ordering::Relaxed),
                "rows": running.progress.rows.load(Ordering::Relaxed),
                "writtenBytes": running.progress.written_bytes.load(Ordering::Relaxed),
            })),
            "ended": ended.filter(is_wanted).map(|(_, told)| told),
            "last": last.good.map(|good| json!({
                "id": good.id,
                "target": good.target,
                "moment": good.moment,
                "ageSec": Timestamp::by_machine().since(good.moment).as_secs(),
                "pages": good.pages,
                "newBytes": good.new_bytes,
                "tookMs": good.took_ms,
            })),
            "failure": last.failure,
        }))
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.lock().is_some()
    }

    /// Ends a backup that is being made, and begins no more.
    pub(super) async fn close(&self) {
        self.stop.store(true, Ordering::SeqCst);
        while self.is_running() {
            tokio::time::sleep(ENDED_LOOK).await;
        }
    }
}

/// How the last ones went.
pub(super) fn last(system: &System) -> Result<BackupsV1> {
    Ok(system.read(|tx| tx.get(&BACKUPS, &()))?.unwrap_or_default())
}

/// What came of a backup, as the operator reads it.
pub fn show(done: &Done, target: &str) -> Value {
    let mut shown = about(&done.manifest);
    shown["target"] = json!(target);
    if let Some(removed) = &done.removed {
        shown["removed"] = json!({
            "backups": removed.backups,
            "objects": removed.objects,
            "bytes": removed.bytes,
        });
    }
    if let Some(reason) = &done.not_removed {
        shown["notRemoved"] = json!(reason);
    }
    shown
}

/// A backup, as the operator reads it.
pub fn about(manifest: &backup::Manifest) -> Value {
    json!({
        "id": manifest.id,
        "moment": manifest.moment,
        "beganAt": manifest.began_at,
        "endedAt": manifest.ended_at,
        "version": manifest.version,
        "hasKey": manifest.has_key(),
        "summary": manifest.summary,
    })
}
