//! Background work: merging segments, and tidying up.

use super::exports;
use super::rows::{LIVE, QUERIES, QueryFailureV1, QueryStatus, QueryV2, SUBMISSIONS, SUBMISSIONS_BY_AGE};
use super::service::Queries;
use super::submissions;
use base::clock::{Now, Timestamp};
use base::ids::{OrgId, QueryId};
use base::{Error, Result};
use futures::future::BoxFuture;
use server::task::TaskContext;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Seek, System, readable};

/// Rows of one look and one write.
const CHUNK_ROWS: usize = 500;

/// Merges segments of the snapshots until no merge is due. It rests as long as it works, so that it takes half a core
/// at most however much comes in.
pub(super) fn merge(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let queries = context.service::<Queries>();
        while !context.stopping() {
            let began = Instant::now();
            let feed = Arc::clone(&queries.feed);
            let merged = tokio::task::spawn_blocking(move || feed.merge_next()).await;
            if !merged.map_err(|e| Error::internal("merge segments", e))?? {
                break;
            }
            tokio::select! {
                () = context.stopped() => break,
                () = tokio::time::sleep(began.elapsed()) => {}
            }
        }
        Ok(())
    })
}

/// Brings the tables up to date that are the same for every organization.
pub(super) fn share(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let feed = Arc::clone(&context.service::<Queries>().feed);
        let refreshed = tokio::task::spawn_blocking(move || feed.refresh_shared()).await;
        refreshed.map_err(|e| Error::internal("refresh the shared tables", e))?.map(drop)
    })
}

/// Ends statements that nobody carries any more, and removes what is too old or nobody's. One thing that fails does not
/// keep the others.
pub(super) fn tidy(context: TaskContext) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let queries = context.service::<Queries>();
        let ended = end_abandoned(context.system(), |id| queries.live.lock().contains_key(&id)).await;
        let pruned = prune(&queries, context.system(), &context.look()).await;
        let forgotten = forget_keys(context.system(), context.look()).await;
        let unstrayed = remove_stray_results(&queries, context.system());
        let exports = exports::tidy(&context).await;
        [ended, pruned, forgotten, unstrayed, exports].into_iter().collect()
    })
}

/// Ends every statement that was queued or running when the last process ended. For the start, before requests are
/// served.
pub async fn recover(system: &System) -> Result<()> {
    end_abandoned(system, |_| false).await
}

/// A statement that has not ended and has no driver will never end by itself. It may simply be sent again.
async fn end_abandoned(system: &System, is_live: impl Fn(QueryId) -> bool) -> Result<()> {
    let mut from = Seek::start();
    loop {
        let look = system.read(|tx| tx.scan_global(&QUERIES, &LIVE, &from, None, CHUNK_ROWS))?;
        // A driver is listed before it writes its row, so a row without one has lost it.
        let lost: Vec<_> =
            look.entries.iter().map(|e| (e.org, e.key)).filter(|(_, id)| !is_live(*id)).collect();
        let ended = system.write_each("a statement", lost, |tx, (org, id)| {
            let rows = tx.org(*org);
            let query = rows.get(&QUERIES, id)?.filter(|query| !query.status.has_ended());
            if let Some(mut query) = query {
                query.status = QueryStatus::Failed;
                query.finished_at = Some(tx.now());
                query.failure = Some(QueryFailureV1 {
                    code: "transient".to_owned(),
                    message: "The box was restarted before the statement ended; send it again.".to_owned(),
                    retriable: true,
                });
                rows.put(&QUERIES, id, &query)?;
            }
            Ok(())
        });
        ended.await?;
        if look.is_last {
            return Ok(());
        }
        from = look.next;
    }
}

/// Removes statements that ended too long ago, with their results.
async fn prune(queries: &Queries, system: &System, now: &Now) -> Result<()> {
    let (mut last, mut pruned) = (None, Ok(()));
    while let Some(org) = system.read(|tx| tx.next_org(QUERIES.name(), last))? {
        // Where the disk is full no row can be removed, but the files of every organization can.
        let of_org = prune_org(queries, system, org, now).await;
        pruned = pruned.and(of_org);
        last = Some(org);
    }
    pruned
}

/// Ids grow with time, so what is too old stands at the beginning. The file goes before its row: a row whose file is
/// missing is found again, a file without a row is somebody's data that nobody looks after. A file that cannot be removed
/// keeps its row and nothing else.
async fn prune_org(queries: &Queries, system: &System, org: OrgId, now: &Now) -> Result<()> {
    let kept = queries.results_kept();
    let mut after = None;
    loop {
        let step = system.org(org).read(|tx| tx.readable(&QUERIES, after.as_deref(), CHUNK_ROWS))?;
        let rows = &step.rows;
        let is_young = rows.last().is_some_and(|(_, newest)| now.age(newest.created_at) <= kept);
        after = step.more().filter(|_| !is_young);
        let is_old = |query: &QueryV2| query.finished_at.is_some_and(|at| now.age(at) > kept);
        let old = rows.iter().filter(|(_, query)| is_old(query)).map(|(id, _)| *id);
        let old: Vec<QueryId> = old.filter(|id| remove_result(queries, org, *id)).collect();
        if !old.is_empty() {
            let delete = move |tx: &store::OrgWrite<'_>| {
                old.iter().try_for_each(|id| tx.delete(&QUERIES, id).map(drop))
            };
            system.org(org).write(delete).await?;
        }
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Removes the file of a result; whether it is gone.
fn remove_result(queries: &Queries, org: OrgId, id: QueryId) -> bool {
    let removed = queries.kept.remove_file(org, &queries.workers.result_path(org.0, id.0));
    removed.inspect_err(|error| tracing::error!(query = %id, %error, "a result cannot be removed")).is_ok()
}

/// Removes Idempotency-Keys that may be used again anyway.
async fn forget_keys(system: &System, now: Now) -> Result<()> {
    let until = earlier(now.date, submissions::KEPT);
    let mut after = None::<Vec<u8>>;
    loop {
        let old = system.read(|tx| {
            let from = after.as_deref();
            tx.readable_global(&SUBMISSIONS, &SUBMISSIONS_BY_AGE, Some(until), from, CHUNK_ROWS)
        })?;
        after = old.more();
        // Their dates are old; where the clock was set forward they need not be.
        let over = old.rows.into_iter().filter(|(.., row)| now.age(row.created_at) >= submissions::KEPT);
        let over: Vec<_> = over.map(|(org, key, _)| (org, key)).collect();
        let forgotten = system.write_each("an Idempotency-Key", over, |tx, (org, key)| {
            // Of an organization that is being erased they go by themselves.
            if tx.is_fenced(*org) { Ok(false) } else { tx.org(*org).delete(&SUBMISSIONS, key) }
        });
        forgotten.await?;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn earlier(now: Timestamp, duration: Duration) -> Timestamp {
    let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.millis().saturating_sub(ms))
}

/// A process that died between a result and its row leaves a file that no row speaks of.
fn remove_stray_results(queries: &Queries, system: &System) -> Result<()> {
    for org in entries(queries.workers.results_dir())? {
        let Ok(id) = org.file_name().to_string_lossy().parse::<OrgId>() else { continue };
        for file in entries(&org.path())? {
            let path = file.path();
            let query = path.file_stem().and_then(|stem| stem.to_str()?.parse::<QueryId>().ok());
            // What was being copied from another disk is a part of one.
            let is_result = path.extension().is_some_and(|kind| kind == "arrow" || kind == "part");
            let Some(query) = query.filter(|_| is_result) else { continue };
            // In this order: a driver leaves the list after it wrote its row.
            if queries.live.lock().contains_key(&query) || queries.own.lock().contains(&query) {
                continue;
            }
            let row = system.org(id).read(|tx| tx.get(&QUERIES, &query));
            // What a row that cannot be read says of its file is not known: it stays.
            let Some(row) = readable("a statement", query, row)? else { continue };
            let is_kept = row.and_then(|row| row.result).is_some_and(|result| result.kept);
            if (!is_kept || path.extension().is_some_and(|kind| kind == "part"))
                && let Err(error) = queries.kept.remove_file(id, &path)
            {
                tracing::error!(path = %path.display(), %error, "a stray result cannot be removed");
            }
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect);
    listed.map_err(|e: io::Error| Error::internal("list the results", e))
}
