//! What the box itself lacks at the moment: the one place that knows.
//!
//! A page that cannot be written or a socket that cannot be opened is no fault of the job that met it. Whoever meets
//! such a thing reports it here; whoever takes on new work looks here first, and takes none while something is wrong.
//! What is wrong is right again when it was tried once more and worked: each part of the box that reports names a way to
//! try it, and the dispatcher tries it from time to time (`features/jobs/dispatch.rs`).
//!
//! Nothing is stored: a box that starts is taken for sound until it meets trouble.

use parking_lot::Mutex;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Files of pages cannot be written.
    Pages,
    /// No descriptor is left for a file or a socket.
    Descriptors,
    /// The kernel has no memory left for a socket or a thread.
    Memory,
}

impl Part {
    pub const ALL: [Part; 3] = [Part::Pages, Part::Descriptors, Part::Memory];

    /// The name in logs, in the status and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Part::Pages => "pages",
            Part::Descriptors => "descriptors",
            Part::Memory => "memory",
        }
    }

    /// The part that an error of the operating system speaks of, when it is the box's own want and nobody else's: too
    /// many open files (of the process or of the machine), or no memory for a socket.
    pub fn lacking(error: &io::Error) -> Option<Part> {
        // The numbers of Linux (errno(3)): ENOMEM, ENFILE, EMFILE, ENOBUFS.
        match error.raw_os_error() {
            Some(23 | 24) => Some(Part::Descriptors),
            Some(12 | 105) => Some(Part::Memory),
            _ => None,
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub part: Part,
    /// What was met last, in words for the operator.
    pub reason: String,
    /// How long it has been so.
    pub lasts: Duration,
    /// How often it was met.
    pub times: u64,
}

/// The box's own health. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Health {
    cell: Arc<HealthState>,
}

#[derive(Debug)]
struct HealthState {
    troubles: Mutex<[Option<Occurrence>; Part::ALL.len()]>,
    is_well: watch::Sender<bool>,
}

#[derive(Clone, Debug)]
struct Occurrence {
    reason: String,
    since: Instant,
    times: u64,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            cell: Arc::new(HealthState { troubles: Mutex::default(), is_well: watch::Sender::new(true) }),
        }
    }
}

impl Health {
    /// Says that something is wrong; in the log once, until it is right again.
    pub fn report(&self, part: Part, reason: impl Display) {
        let mut troubles = self.cell.troubles.lock();
        let met = &mut troubles[part as usize];
        match met {
            Some(met) => {
                met.times += 1;
                met.reason = reason.to_string();
            }
            None => {
                let reason = reason.to_string();
                tracing::error!(
                    part = part.name(),
                    reason,
                    "the box is in trouble; it takes on no jobs until it is over"
                );
                *met = Some(Occurrence { reason, since: Instant::now(), times: 1 });
            }
        }
        self.cell.is_well.send_replace(false);
    }

    /// Says that something works.
    pub fn clear(&self, part: Part) {
        // The usual case, at every page that is kept: nothing to do, and no lock.
        if self.is_well() {
            return;
        }
        let mut troubles = self.cell.troubles.lock();
        if let Some(met) = troubles[part as usize].take() {
            let after_ms = u64::try_from(met.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(part = part.name(), after_ms, times = met.times, "the box's trouble is over");
        }
        self.cell.is_well.send_replace(troubles.iter().all(Option::is_none));
    }

    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        *self.cell.is_well.borrow()
    }

    /// Whether this part is in trouble.
    pub fn lacks(&self, part: Part) -> bool {
        !self.is_well() && self.cell.troubles.lock()[part as usize].is_some()
    }

    /// Waits until nothing is wrong.
    pub async fn well(&self) {
        // The sender lives as long as this does.
        let _ = self.cell.is_well.subscribe().wait_for(|is_well| *is_well).await;
    }

    /// Everything that is wrong.
    pub fn troubles(&self) -> Vec<Trouble> {
        let troubles = self.cell.troubles.lock();
        let trouble = |(part, met): (Part, &Option<Occurrence>)| {
            let met = met.as_ref()?;
            Some(Trouble { part, reason: met.reason.clone(), lasts: met.since.elapsed(), times: met.times })
        };
        Part::ALL.into_iter().zip(troubles.iter()).filter_map(trouble).collect()
    }

    /// What is wrong in one sentence; none when nothing is.
    pub fn describe(&self) -> Option<String> {
        let troubles = self.troubles();
        let texts: Vec<String> = troubles
            .iter()
            .map(|trouble| format!("{} (for {} s)", trouble.reason, trouble.lasts.as_secs()))
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn is_well_when_every_trouble_is_over() {
        let health = Health::default();
        assert!(health.is_well() && health.describe().is_none());
        health.report(Part::Pages, "no space");
        health.report(Part::Descriptors, "too many open files");
        health.report(Part::Pages, "an input/output error");
        let met: Vec<_> = health.troubles().iter().map(|t| (t.part, t.reason.clone(), t.times)).collect();
        assert_eq!(
            met,
            [
                (Part::Pages, "an input/output error".to_owned(), 2),
                (Part::Descriptors, "too many open files".to_owned(), 1)
            ]
        );
        let waiting = tokio::spawn({
            let health = health.clone();
            async move { health.well().await }
        });
        health.clear(Part::Pages);
        assert!(health.lacks(Part::Descriptors) && !health.lacks(Part::Pages));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        health.clear(Part::Descriptors);
        waiting.await.unwrap();
        assert!(health.is_well());
    }

    #[test]
    fn knows_the_boxs_own_wants_from_others() {
        let of = |code| Part::lacking(&io::Error::from_raw_os_error(code));
        assert_eq!(
            (of(24), of(23), of(12)),
            (Some(Part::Descriptors), Some(Part::Descriptors), Some(Part::Memory))
        );
        // Refused, unreachable, reset: the other side's.
        assert_eq!((of(111), of(113), of(104)), (None, None, None));
        // What was made by a program of the file system's numbers above is what the system says, too.
        let files: Vec<io::Result<std::fs::File>> = vec![std::fs::File::open("/nowhere/at/all")];
        assert!(files.iter().all(|file| file.as_ref().is_err_and(|e| Part::lacking(e).is_none())));
    }
}
