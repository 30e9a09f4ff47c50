//! The rules of dashboards, inside the caller's transaction.

use super::rows::{DASHBOARDS, DashboardV1, RESULTS, RefreshV1, TileResultV1};
use crate::features::schedules::Times;
use base::Result;
use base::clock::Timestamp;
use base::ids::DashboardId;
use store::OrgWrite;

/// It shows something else than it did: it is made anew, and ticks from now on.
pub(super) fn begin(tx: &OrgWrite<'_>, row: &mut DashboardV1) {
    row.revision += 1;
    row.due = Some(tx.now());
    row.decided_until = tx.now();
    row.next_at = row.refresh.as_ref().and_then(|refresh| next_tick(refresh, tx.now()));
}

fn next_tick(refresh: &RefreshV1, after: Timestamp) -> Option<Timestamp> {
    // One that cannot be read any more, by another release, has no tick; people still make it anew by looking at it.
    Times::read(&refresh.cron, &refresh.timezone).ok()?.after(after)
}

/// What tiles showed that are others now, or gone, is shown no more.
pub(super) fn forget_results(tx: &OrgWrite<'_>, before: &DashboardV1, row: &DashboardV1) -> Result<()> {
    for tile in &before.tiles {
        let same = row
            .tiles
            .iter()
            .any(|now| (now.id, now.saved_query, &now.params) == (tile.id, tile.saved_query, &tile.params));
        if !same {
            tx.delete(&RESULTS, &(before.id, tile.id))?;
        }
    }
    Ok(())
}

/// Decides what is due: however many ticks there were, it is made anew once.
pub(super) fn tick(tx: &OrgWrite<'_>, id: DashboardId) -> Result<()> {
    let Some(mut row) = tx.get(&DASHBOARDS, &id)? else { return Ok(()) };
    let now = tx.now();
    if row.next_at.is_some_and(|next| next <= now) {
        row.due = row.due.or(Some(now));
        row.decided_until = now;
    }
    row.next_at = row.refresh.as_ref().and_then(|refresh| next_tick(refresh, row.decided_until));
    tx.put(&DASHBOARDS, &id, &row)
}

/// The clock went back, or the box has started: ticks come again that were decided ahead.
pub(super) fn reconcile(tx: &OrgWrite<'_>, id: DashboardId) -> Result<()> {
    let Some(mut row) = tx.get(&DASHBOARDS, &id)?.filter(|row| row.decided_until > tx.now()) else {
        return Ok(());
    };
    row.decided_until = tx.now();
    row.next_at = row.refresh.as_ref().and_then(|refresh| next_tick(refresh, tx.now()));
    tx.put(&DASHBOARDS, &id, &row)
}

/// What a tile shows now; with an error, what it showed before then.
pub(super) fn take(
    tx: &OrgWrite<'_>,
    began: &DashboardV1,
    tile: u64,
    found: std::result::Result<TileResultV1, String>,
) -> Result<bool> {
    let is_same = tx.get(&DASHBOARDS, &began.id)?.is_some_and(|row| row.revision == began.revision);
    if !is_same {
        return Ok(false);
    }
    let key = (began.id, tile);
    let row = match found {
        Ok(row) => row,
        Err(error) => {
            let before = tx.get(&RESULTS, &key)?;
            let empty = || TileResultV1 {
                at: tx.now(),
                freshness_sec: 0,
                columns: Vec::new(),
                rows: base::codec::Json(serde_json::json!([])),
                total_rows: 0,
                is_cut: false,
                error: None,
            };
            TileResultV1 { error: Some(error), ..before.unwrap_or_else(empty) }
        }
    };
    tx.put(&RESULTS, &key, &row)?;
    Ok(true)
}

/// All tiles have been made anew.
pub(super) fn finish(tx: &OrgWrite<'_>, began: &DashboardV1) -> Result<()> {
    let Some(mut row) = tx.get(&DASHBOARDS, &began.id)?.filter(|row| row.revision == began.revision) else {
        return Ok(());
    };
    (row.due, row.refreshed_at) = (None, Some(tx.now()));
    tx.put(&DASHBOARDS, &row.id, &row)
}
