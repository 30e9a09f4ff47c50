//! Sweeping: what has expired is removed, a bounded number of rows per commit.

use super::limits::{FAILURE_WINDOW, FAILURES_BY_NEWEST, LOGIN_FAILURES};
use super::rows::{
    REFRESH_BY_END, REFRESH_TOKENS, RESETS, RESETS_BY_END, VERIFICATIONS, VERIFICATIONS_BY_END,
};
use base::Result;
use server::task::TaskContext;
use store::{Order, SysWrite};

const SWEEP_ROWS_MAX: usize = 256;

/// Removes expired refresh, verification and reset tokens, and login failures outside the window.
pub async fn sweep(context: TaskContext) -> Result<()> {
    // Each of the four kinds is asked for this many; fewer in all means that none had more.
    while context.system().write(sweep_some).await? >= SWEEP_ROWS_MAX && !context.stopping() {}
    Ok(())
}

/// Removes a bounded number of rows; returns how many.
pub(super) fn sweep_some(tx: &SysWrite<'_>) -> Result<usize> {
    let now = tx.moment();
    let mut swept = 0;
    for row in tx.scan_index(&REFRESH_TOKENS, &REFRESH_BY_END, |key| key, Order::Ascending, SWEEP_ROWS_MAX)? {
        if row.expires_at > now {
            break;
        }
        swept += usize::from(tx.delete(&REFRESH_TOKENS, &row.family)?);
    }
    for row in
        tx.scan_index(&VERIFICATIONS, &VERIFICATIONS_BY_END, |key| key, Order::Ascending, SWEEP_ROWS_MAX)?
    {
        if row.expires_at > now {
            break;
        }
        swept += usize::from(tx.delete(&VERIFICATIONS, &row.token)?);
    }
    for row in tx.scan_index(&RESETS, &RESETS_BY_END, |key| key, Order::Ascending, SWEEP_ROWS_MAX)? {
        if row.expires_at > now {
            break;
        }
        swept += usize::from(tx.delete(&RESETS, &row.address)?);
    }
    for row in
        tx.scan_index(&LOGIN_FAILURES, &FAILURES_BY_NEWEST, |key| key, Order::Ascending, SWEEP_ROWS_MAX)?
    {
        if row.at.last().is_some_and(|newest| now.since(*newest) < FAILURE_WINDOW) {
            break;
        }
        swept += usize::from(tx.delete(&LOGIN_FAILURES, &row.key)?);
    }
    Ok(swept)
}
