//! One change that somebody asked for, from the queue to its answer.

use super::super::view::WriteView;
use base::clock::Now;
use base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

/// An operation on its way through the writer.
pub(super) trait Operation: Send {
    /// Runs the closure. Its answer is kept until the batch is committed.
    fn decide(&mut self, view: &WriteView<'_>, now: &Now) -> bool;

    /// Answers the caller: with what was decided, or with the reason why the batch failed.
    fn answer(self: Box<Self>, failed: Option<&str>);
}

pub(super) struct Closure<F, T> {
    pub(super) run: Option<F>,
    pub(super) decided: Option<Result<T>>,
    pub(super) reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Operation for Closure<F, T>
where
    F: FnOnce(&WriteView<'_>, &Now) -> Result<T> + Send,
    T: Send,
{
    fn decide(&mut self, view: &WriteView<'_>, now: &Now) -> bool {
        let Some(run) = self.run.take() else { return false };
        let decided = catch_unwind(AssertUnwindSafe(|| run(view, now)))
            .unwrap_or_else(|panic| Err(Error::internal("run a write operation", panic_text(&*panic))));
        let accepted = decided.is_ok();
        self.decided = Some(decided);
        accepted
    }

    fn answer(self: Box<Self>, failed: Option<&str>) {
        let answer = match (failed, self.decided) {
            // A refusal stands whatever became of the batch: it wrote nothing.
            (_, Some(Err(refused))) => Err(refused),
            (None, Some(Ok(value))) => Ok(value),
            (Some(reason), _) => Err(Error::unavailable(reason)),
            (None, None) => Err(Error::internal("run a write operation", "it was never decided")),
        };
        // A caller that went away no longer wants to know.
        let _ = self.reply.send(answer);
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
