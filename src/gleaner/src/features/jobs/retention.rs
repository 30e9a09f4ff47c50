//! Jobs that go by themselves when their time is over, and with them the versions of workflows that none but they used.
//!
//! A job that has not ended stays, and so do the probes of benchmarks: they are what a benchmark says. Results have terms of
//! their own, and the ledger keeps what a job cost.

use super::batch::BATCHES;
use super::rows::JOBS;
use super::walks::{self, JOB_OUTPUTS};
use crate::features::billing::{Retention, cutoff};
use crate::features::site_sessions::JOB_SESSIONS;
use crate::features::workflows;
use base::Result;
use base::clock::Moment;
use base::ids::{BatchId, JobId, made_at};
use server::task::TaskContext;
use std::sync::atomic::Ordering;
use store::{OrgStore, OrgWrite};

/// Rows of one operation.
const STEP_ROWS: usize = 32;

/// One round over all organizations.
pub(super) async fn round(context: TaskContext) -> Result<()> {
    let (retention, system) = (context.service::<Retention>(), context.system());
    let mut last = None;
    while let Some((org, _)) = system.read(|tx| tx.next_used(last))? {
        last = Some(org);
        // What fails of one organization keeps no other's.
        if let Err(error) = round_of(&context, &system.org(org), &retention).await {
            tracing::error!(%org, %error, "jobs whose time is over could not be removed");
        }
    }
    Ok(())
}

async fn round_of(context: &TaskContext, rows: &OrgStore, retention: &Retention) -> Result<()> {
    let terms = rows.read(|tx| retention.of(tx))?;
    let Some(before) = cutoff(context.moment(), terms.jobs_days) else { return Ok(()) };
    let through = jobs(context, rows, before, retention).await?;
    batches(context, rows, before).await?;
    // A version may be needed by a job that is under way yet. One that cannot be read runs no more.
    if through { versions(context, rows, before, retention).await } else { Ok(()) }
}

/// Removes what was submitted before that moment and has ended; whether nothing else is left from before it.
async fn jobs(context: &TaskContext, rows: &OrgStore, before: Moment, retention: &Retention) -> Result<bool> {
    let (mut after, mut through) = (None::<Vec<u8>>, true);
    while !context.stopping() {
        let step = rows.read(|tx| tx.readable(&JOBS, after.as_deref(), STEP_ROWS))?;
        let (seen, more) = (step.rows.len(), step.more());
        let is_old = |id: JobId| made_at(id.0).is_some_and(|made| made < before);
        let old: Vec<_> = step.rows.into_iter().take_while(|(id, _)| is_old(*id)).collect();
        after = more.filter(|_| old.len() == seen);
        through &= old.iter().all(|(_, job)| job.status.has_ended());
        let over = old.into_iter().filter(|(_, job)| job.status.has_ended() && job.benchmark_id.is_none());
        let over: Vec<_> = over.map(|(id, _)| id).collect();
        let gone = rows.write_each_freeing("a job", over, |tx, id| remove(tx, *id)).await?;
        let gone = gone.into_iter().flatten().filter(|gone| *gone).count() as u64;
        retention.removed.jobs.fetch_add(gone, Ordering::Relaxed);
        if after.is_none() {
            return Ok(through);
        }
    }
    Ok(false)
}

/// Removes batches from before that moment whose jobs have ended.
async fn batches(context: &TaskContext, rows: &OrgStore, before: Moment) -> Result<()> {
    let mut after = None::<Vec<u8>>;
    while !context.stopping() {
        let step = rows.read(|tx| tx.readable(&BATCHES, after.as_deref(), STEP_ROWS))?;
        let (seen, more) = (step.rows.len(), step.more());
        let is_old = |id: BatchId| made_at(id.0).is_some_and(|made| made < before);
        let old: Vec<_> = step.rows.into_iter().take_while(|(id, _)| is_old(*id)).collect();
        after = more.filter(|_| old.len() == seen);
        let over = old.into_iter().filter(|(_, batch)| batch.has_ended()).map(|(id, _)| id).collect();
        rows.write_each_freeing("a batch", over, |tx, id| tx.delete(&BATCHES, id)).await?;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

fn remove(tx: &OrgWrite<'_>, id: JobId) -> Result<bool> {
    walks::forget(tx, id)?;
    tx.delete(&JOB_OUTPUTS, &id)?;
    tx.delete(&JOB_SESSIONS, &id)?;
    tx.delete(&JOBS, &id)
}

async fn versions(
    context: &TaskContext,
    rows: &OrgStore,
    before: Moment,
    retention: &Retention,
) -> Result<()> {
    let mut after = None;
    while !context.stopping() {
        let place = after;
        let (gone, next) =
            rows.write_freeing(move |tx| workflows::forget_versions(tx, before, place)).await?;
        retention.removed.workflow_versions.fetch_add(gone, Ordering::Relaxed);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
    Ok(())
}
