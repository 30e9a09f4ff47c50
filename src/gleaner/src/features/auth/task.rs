//! Sweeping: what has expired is removed, a bounded number of rows per commit.

use super::limits::{FAILURE_WINDOW, FAILURES_BY_NEWEST, LOGIN_FAILURES, LoginFailuresV1};
use super::rows::{
    REFRESH_BY_END, REFRESH_TOKENS, RESETS, RESETS_BY_END, VERIFICATIONS, VERIFICATIONS_BY_END,
};
use base::Result;
use base::clock::Moment;
use server::task::TaskContext;
use store::System;

/// Removes expired refresh, verification and reset tokens, and login failures outside the window.
pub async fn sweep(context: TaskContext) -> Result<()> {
    sweep_all(context.system(), || context.stopping()).await.map(drop)
}

/// The same; gives how many rows went.
pub(super) async fn sweep_all(system: &System, stopping: impl Fn() -> bool) -> Result<u64> {
    let now = system.clock().moment();
    let stopping = &stopping;
    let outside = now.before(FAILURE_WINDOW);
    let newest = |row: &LoginFailuresV1| row.at.last().copied().unwrap_or(Moment(i64::MIN));
    Ok(system.sweep(&REFRESH_TOKENS, &REFRESH_BY_END, |row| row.expires_at, now, stopping).await?
        + system.sweep(&VERIFICATIONS, &VERIFICATIONS_BY_END, |row| row.expires_at, now, stopping).await?
        + system.sweep(&RESETS, &RESETS_BY_END, |row| row.expires_at, now, stopping).await?
        + system.sweep(&LOGIN_FAILURES, &FAILURES_BY_NEWEST, newest, outside, stopping).await?)
}
