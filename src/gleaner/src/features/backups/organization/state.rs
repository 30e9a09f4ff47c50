//! Which organization is on its way back, and how far it is.

use backup::{BackupId, Passphrase};
use base::{Error, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is said where it ends because the box does.
pub(super) const STOPPED: &str = "the restore was stopped: the box ends";

/// What is wanted, checked.
pub(super) struct WantedOrganization {
    pub target: String,
    pub backup: Option<BackupId>,
    pub named: String,
    pub passphrase: Option<Passphrase>,
}

/// An organization on its way back.
pub(super) struct Coming {
    number: u64,
    pub wanted: WantedOrganization,
    phase: Mutex<&'static str>,
    pub pages: AtomicU64,
    pub rows: AtomicU64,
}

impl Coming {
    /// Says what is done now.
    pub fn enter(&self, phase: &'static str) {
        *self.phase.lock() = phase;
    }
}

/// The one that is on its way, and what came of the last.
#[derive(Default)]
pub struct Returns {
    running: Mutex<Option<Arc<Coming>>>,
    ended: Mutex<Option<(u64, Value)>>,
    numbers: AtomicU64,
}

impl Returns {
    /// Notes what is wanted, for the task; one at a time.
    pub(super) fn start(&self, wanted: WantedOrganization) -> Result<u64> {
        let mut running = self.running.lock();
        if let Some(other) = &*running {
            let other = &other.wanted.named;
            return Err(Error::conflict(format!("organization \"{other}\" is being restored; wait for it")));
        }
        let number = self.numbers.fetch_add(1, Ordering::SeqCst) + 1;
        let coming = Coming {
            number,
            wanted,
            phase: Mutex::new("waiting"),
            pages: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        };
        *running = Some(Arc::new(coming));
        Ok(number)
    }

    /// Where the one with this number stands.
    pub(super) fn state(&self, number: u64) -> Value {
        let running = self.running.lock().clone().filter(|running| running.number == number);
        let ended = self.ended.lock().clone().filter(|(ended, _)| *ended == number);
        json!({
            "running": running.map(|running| json!({
                "phase": *running.phase.lock(),
                "pages": running.pages.load(Ordering::Relaxed),
                "rows": running.rows.load(Ordering::Relaxed),
            })),
            "ended": ended.map(|(_, told)| told),
        })
    }

    /// The one that is wanted or on its way.
    pub(super) fn running(&self) -> Option<Arc<Coming>> {
        self.running.lock().clone()
    }

    /// Notes what came of it.
    pub(super) fn end(&self, coming: &Coming, told: Value) {
        *self.ended.lock() = Some((coming.number, told));
        *self.running.lock() = None;
    }
}
