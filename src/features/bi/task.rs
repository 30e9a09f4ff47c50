//! Background work: following the store, and tidying up.

use super::rows::{KEPT, LIVE, QUERIES, QueryFailureV1, QueryStatus, QueryV1};
use super::service::Bi;
use crate::base::clock::Timestamp;
use crate::base::ids::{OrgId, QueryId};
use crate::base::{Error, Result};
use crate::store::KeyWriter;
use crate::store::System;
use crate::task::TaskContext;
use futures::future::BoxFuture;
use std::io;
use std::path::Path;

/// Rows of one look and one write.
const CHUNK_ROWS: usize = 500;

/// Follows the change records into the snapshots until the box drains.
pub(super) fn feed(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let bi = context.service::<Bi>();
        std::sync::Arc::clone(bi.feed()).follow(context).await
    })
}

/// Ends statements that nobody carries any more, and removes results that are too old.
pub(super) fn tidy(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let bi = context.service::<Bi>();
        end_abandoned(&bi, context.system()).await?;
        remove_old_results(&bi, context.system(), context.now()).await
    })
}

/// A statement that was queued or running when the process died has no driver. It may simply be sent again.
pub(super) async fn end_abandoned(bi: &Bi, system: &System) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let entries = system.read(|tx| tx.scan_global(&QUERIES, &LIVE, &from, None, CHUNK_ROWS))?;
        let Some(last) = entries.last() else { return Ok(()) };
        from = [last.index_key.as_slice(), last.org.0.as_bytes(), last.key.0.as_bytes(), &[0]].concat();
        // A driver is listed before it writes its row, so a row without one has lost it.
        let listed = |id: &QueryId| bi.live.lock().contains_key(id);
        let lost: Vec<_> = entries.iter().map(|e| (e.org, e.key)).filter(|(_, id)| !listed(id)).collect();
        for (org, id) in &lost {
            remove_file(&bi.workers.result_path(org.0, id.0))?;
        }
        update(system, lost, |query, now| {
            if !query.status.has_ended() {
                query.status = QueryStatus::Failed;
                query.finished_at = Some(now);
                query.failure = Some(QueryFailureV1 {
                    code: "transient".to_owned(),
                    message: "The box was restarted while the statement ran; send it again.".to_owned(),
                    retriable: true,
                });
            }
        })
        .await?;
    }
}

/// The file goes first: a row that says "kept" without a file is answered like one that is too old, and found again.
pub(super) async fn remove_old_results(bi: &Bi, system: &System, now: Timestamp) -> Result<()> {
    let kept_ms = i64::try_from(bi.settings.results_kept.as_millis()).unwrap_or(i64::MAX);
    let mut before = KeyWriter::default();
    before.time(Timestamp(now.millis().saturating_sub(kept_ms)));
    let before = before.into_bytes();
    loop {
        let old = system.read(|tx| tx.scan_global(&QUERIES, &KEPT, &[], Some(&before), CHUNK_ROWS))?;
        if old.is_empty() {
            return Ok(());
        }
        let old: Vec<_> = old.into_iter().map(|entry| (entry.org, entry.key)).collect();
        for (org, id) in &old {
            remove_file(&bi.workers.result_path(org.0, id.0))?;
        }
        update(system, old, |query, _| {
            if let Some(result) = &mut query.result {
                result.kept = false;
            }
        })
        .await?;
    }
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

fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::internal("remove a result", error)),
        _ => Ok(()),
    }
}
