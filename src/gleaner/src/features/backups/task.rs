//! Backups by schedule.

use super::place::Wanted;
use super::service::{Backups, last};
use base::{Error, Result};
use server::task::TaskContext;

/// Begins a backup when the schedule has named a time since the last one was begun. What came due while the box was off is one
/// backup, as soon as it runs.
pub(super) async fn begin_due(context: TaskContext) -> Result<()> {
    let backups = context.service::<Backups>();
    let config = &backups.place().backup;
    let Some(times) = config.times()? else { return Ok(()) };
    if backups.is_running() || context.stopping() {
        return Ok(());
    }
    let last = last(context.system())?;
    // Before the first one there is nothing to count from: it is made at once, so that there is one.
    let is_due = times.after(last.tried_at).is_some_and(|time| time <= context.now());
    if !is_due {
        return Ok(());
    }
    let wanted = Wanted { target: config.target.clone(), passphrase: config.passphrase()?, full: false };
    match backups.start(context.services(), wanted) {
        // Somebody else began one in this moment.
        Err(error) if error.code() == base::Code::Conflict => Ok(()),
        started => started.map(drop).map_err(|error| Error::internal("begin a backup", error)),
    }
}
