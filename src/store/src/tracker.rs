//! Which rows change while the file is written anew.

use super::raw::Overlay;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

pub(super) type NotedKeys = BTreeSet<(&'static str, Vec<u8>)>;

/// Keys that the writer has changed since copying began.
#[derive(Default)]
pub(super) struct Tracker(Mutex<Option<NotedKeys>>);

impl Tracker {
    /// Notes the keys of an operation, if anybody copies.
    pub(super) fn note(&self, changes: &BTreeMap<&'static str, Overlay>) {
        if let Some(noted) = &mut *self.0.lock() {
            let keys = changes.iter().flat_map(|(table, rows)| rows.keys().map(|key| (*table, key.clone())));
            noted.extend(keys);
        }
    }

    pub(super) fn begin(&self) {
        *self.0.lock() = Some(NotedKeys::new());
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().as_ref().map_or(0, NotedKeys::len)
    }

    /// The keys noted so far; noting goes on.
    pub(super) fn take(&self) -> NotedKeys {
        self.0.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn end(&self) -> NotedKeys {
        self.0.lock().take().unwrap_or_default()
    }
}
