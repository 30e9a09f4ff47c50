//! Background work: following the store, and tidying up.

use super::rows::{KEPT, LIVE, QUERIES, QueryFailureV1, QueryStatus, QueryV1};
use super::service::Queries;
use crate::base::clock::Timestamp;
use crate::base::ids::{OrgId, QueryId};
use crate::base::{Error, Result};
use crate::store::System;
use crate::task::TaskContext;
use futures::future::BoxFuture;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rows of one look and one write.
const CHUNK_ROWS: usize = 500;

/// Follows the change records into the snapshots until the box drains.
pub(super) fn feed(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let queries = context.service::<Queries>();
        Arc::clone(&queries.feed).follow(context, queries.settings.freshness).await
    })
}

/// Ends statements that nobody carries any more, and removes results that are too old or nobody's.
pub(super) fn tidy(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let queries = context.service::<Queries>();
        end_abandoned(context.system(), |id| queries.live.lock().contains_key(&id)).await?;
        remove_old_results(&queries, context.system(), context.now()).await?;
        remove_stray_results(&queries, context.system())
    })
}

/// Ends every statement that was queued or running when the last process ended. For the start, before requests are
/// served.
pub async fn recover(system: &System) -> Result<()> {
    end_abandoned(system, |_| false).await
}

/// A statement that has not ended and has no driver will never end by itself. It may simply be sent again.
async fn end_abandoned(system: &System, is_live: impl Fn(QueryId) -> bool) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let entries = system.read(|tx| tx.scan_global(&QUERIES, &LIVE, &from, None, CHUNK_ROWS))?;
        let Some(last) = entries.last() else { return Ok(()) };
        from = [last.index_key.as_slice(), last.org.0.as_bytes(), last.key.0.as_bytes(), &[0]].concat();
        // A driver is listed before it writes its row, so a row without one has lost it.
        let lost: Vec<_> = entries.iter().map(|e| (e.org, e.key)).filter(|(_, id)| !is_live(*id)).collect();
        update(system, lost, |query, now| {
            if !query.status.has_ended() {
                query.status = QueryStatus::Failed;
                query.finished_at = Some(now);
                query.failure = Some(QueryFailureV1 {
                    code: "transient".to_owned(),
                    message: "The box was restarted before the statement ended; send it again.".to_owned(),
                    retriable: true,
                });
            }
        })
        .await?;
    }
}

/// The file goes first: a row that says "kept" without a file is answered like one that is too old, and is found
/// again.
async fn remove_old_results(queries: &Queries, system: &System, now: Timestamp) -> Result<()> {
    let kept_ms = i64::try_from(queries.results_kept().as_millis()).unwrap_or(i64::MAX);
    let before = time_key(Timestamp(now.millis().saturating_sub(kept_ms)));
    loop {
        let old = system.read(|tx| tx.scan_global(&QUERIES, &KEPT, &[], Some(&before), CHUNK_ROWS))?;
        if old.is_empty() {
            return Ok(());
        }
        let old: Vec<_> = old.into_iter().map(|entry| (entry.org, entry.key)).collect();
        for (org, id) in &old {
            remove_file(&queries.workers.result_path(org.0, id.0))?;
        }
        update(system, old, |query, _| {
            if let Some(result) = &mut query.result {
                result.kept = false;
            }
        })
        .await?;
    }
}

/// A process that died between a result and its row leaves a file that no row speaks of.
fn remove_stray_results(queries: &Queries, system: &System) -> Result<()> {
    for org in entries(queries.workers.results_dir())? {
        let Ok(id) = org.file_name().to_string_lossy().parse::<OrgId>() else { continue };
        for file in entries(&org.path())? {
            let path = file.path();
            let query = path.file_stem().and_then(|stem| stem.to_str()?.parse::<QueryId>().ok());
            let Some(query) = query.filter(|_| path.extension().is_some_and(|kind| kind == "arrow")) else {
                continue;
            };
            // In this order: a driver leaves the list after it wrote its row.
            if queries.live.lock().contains_key(&query) {
                continue;
            }
            let row = system.org(id).read(|tx| tx.get(&QUERIES, &query))?;
            if row.is_none_or(|row| row.result.is_none_or(|result| !result.kept)) {
                remove_file(&path)?;
            }
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect);
    listed.map_err(|e: io::Error| Error::internal("list the results", e))
}

async fn update(
    system: &System,
    queries: Vec<(OrgId, QueryId)>,
    change: fn(&mut QueryV1, Timestamp),
) -> Result<()> {
    if queries.is_empty() {
        return Ok(());
    }
    system
        .write(move |tx| {
            for (org, id) in queries {
                let rows = tx.org(org);
                if let Some(mut query) = rows.get(&QUERIES, &id)? {
                    change(&mut query, tx.now());
                    rows.put(&QUERIES, &id, &query)?;
                }
            }
            Ok(())
        })
        .await
}

/// A time as [`KEPT`] has it.
fn time_key(time: Timestamp) -> [u8; 8] {
    ((time.millis() as u64) ^ (1 << 63)).to_be_bytes()
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::internal("remove a result", error))
        }
        _ => Ok(()),
    }
}
