//! Telling the operator that the disk has less room than its reserve, and that this is over.
//!
//! It goes past the queue: on a full disk no row is written. What could not be sent is tried again while it is true.

use super::Mailer;
use super::letters::disk_letter;
use super::outbox::send_now;
use base::Result;
use parking_lot::Mutex;
use server::task::TaskContext;
use std::time::{Duration, Instant};

/// How long it must be so before anybody is written to: a disk that is just at its reserve goes to and fro.
const STANDS: Duration = Duration::from_secs(10);
/// The pause after a message that could not be sent.
const PAUSE: Duration = Duration::from_secs(60);

/// What the operator was told last, and since when it is otherwise.
#[derive(Default)]
pub(super) struct DiskNews {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the operator was told that the disk is low.
    told: bool,
    differs_since: Option<Instant>,
    not_before: Option<Instant>,
}

impl DiskNews {
    /// Whether this is to be told now.
    fn is_due(&self, is_low: bool) -> bool {
        let mut state = self.state.lock();
        if state.told == is_low {
            state.differs_since = None;
            return false;
        }
        let since = *state.differs_since.get_or_insert_with(Instant::now);
        since.elapsed() >= STANDS && state.not_before.is_none_or(|time| time <= Instant::now())
    }

    fn note(&self, is_low: bool, was_sent: bool) {
        let mut state = self.state.lock();
        match was_sent {
            true => *state = State { told: is_low, ..State::default() },
            false => state.not_before = Some(Instant::now() + PAUSE),
        }
    }
}

/// Looks how the disk is, and writes to the operator when it is otherwise than they were told.
pub(super) async fn watch(context: TaskContext) -> Result<()> {
    let mailer = context.service::<Mailer>();
    let Some(operator) = mailer.operator.as_deref().filter(|_| mailer.smtp.is_some()) else { return Ok(()) };
    let is_low = context.system().store().disk_full();
    if !mailer.disk.is_due(is_low) {
        return Ok(());
    }
    let letter = disk_letter(is_low, &mailer.public_url)?;
    let sent = send_now(&mailer, context.now(), operator, letter).await;
    mailer.disk.note(is_low, sent.is_ok());
    if let Err(error) = sent {
        tracing::warn!(error = error.for_operator(), "the operator could not be told about the disk");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once_when_it_stands() {
        let news = DiskNews::default();
        assert!(!news.is_due(false), "that all is well is no news");
        assert!(!news.is_due(true), "it may be over in a moment");
        let before = Instant::now().checked_sub(STANDS).unwrap();
        news.state.lock().differs_since = Some(before);
        assert!(news.is_due(true));
        news.note(true, false);
        assert!(!news.is_due(true), "it rests after a failure");
        news.note(true, true);
        assert!(!news.is_due(true), "it was told");
        assert!(!news.is_due(false));
        news.state.lock().differs_since = Some(before);
        assert!(news.is_due(false));
        assert!(!news.is_due(true) && !news.is_due(false), "what was over in between begins anew");
    }
}
