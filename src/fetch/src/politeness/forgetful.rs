//! A memory with a bound: what there is nothing left to remember about is forgotten, and of the others those whose end is
//! nearest.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// Domains, and hosts, that are remembered at once, some 200 bytes each.
pub(super) const REMEMBERED_MAX: usize = 65_536;
/// The least number of them at which it is worth looking for ones to forget.
pub(super) const SWEEP_FLOOR: usize = 1024;

/// Something that may be forgotten.
pub(super) trait Forgettable: Default {
    /// The moment from which on there is nothing to remember; none when there never was. An error while it must be kept.
    fn ends(&self) -> Result<Option<Instant>, ()>;
}

/// Records by key, of which those go first that there is least to remember about.
pub(super) struct ForgetfulMap<K, M> {
    pub(super) entries: HashMap<K, M>,
    sweep_at: usize,
}

impl<K, M> Default for ForgetfulMap<K, M> {
    fn default() -> Self {
        ForgetfulMap { entries: HashMap::new(), sweep_at: SWEEP_FLOOR }
    }
}

impl<K: Eq + Hash, M: Forgettable> ForgetfulMap<K, M> {
    pub(super) fn look<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&M>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    /// The record, made when missing; from time to time this forgets others.
    pub(super) fn of(&mut self, key: K, now: Instant) -> &mut M {
        if self.entries.len() >= self.sweep_at && !self.entries.contains_key(&key) {
            self.sweep(now);
        }
        self.entries.entry(key).or_default()
    }

    fn sweep(&mut self, now: Instant) {
        self.entries.retain(|_, memory| !matches!(memory.ends(), Ok(end) if end.is_none_or(|at| at <= now)));
        if self.entries.len() >= REMEMBERED_MAX {
            let mut ends: Vec<Instant> =
                self.entries.values().filter_map(|memory| memory.ends().ok().flatten()).collect();
            ends.sort_unstable();
            if let Some(median) = ends.get(ends.len() / 2).copied() {
                self.entries.retain(|_, memory| match memory.ends() {
                    Ok(end) => end.is_some_and(|at| at > median),
                    Err(()) => true,
                });
            }
        }
        // Doubling keeps the cost of sweeping constant per entry, whatever share of them survives.
        self.sweep_at = (self.entries.len() * 2).clamp(SWEEP_FLOOR, REMEMBERED_MAX);
    }
}
