//! Batches: what was submitted together is asked for, canceled and submitted again as one.

mod wire;
pub(super) mod work;

use super::batch::{BATCHES, BatchRetryV1, BatchSource, BatchStage, BatchV1};
use base::audit::Action;
use base::ids::{BatchId, JobId};
use base::page::{Page, PageRequest};
use base::{Code, Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use server::permit::{JobsRead, JobsWrite, Quota};
use server::task::Signals;
use server::{Accepted, Body, Org, Path, Query};
use store::Event;
use wire::BatchView;
use work::BATCH_WORK;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BatchFilter {
    source: Option<BatchSource>,
    /// Those with jobs that have not ended, or that are still being added.
    is_open: Option<bool>,
}

pub(super) async fn list(
    org: Org<JobsRead>,
    Query(filter): Query<BatchFilter>,
    page: PageRequest,
) -> Result<Body<Page<BatchView>>> {
    let wanted = |batch: &BatchV1| {
        filter.source.is_none_or(|source| batch.source == source)
            && filter.is_open.is_none_or(|is_open| batch.has_ended() != is_open)
    };
    let now = org.look();
    let rows = org.read(|tx| tx.page(&BATCHES, &page, wanted))?;
    Ok(Body(rows.map(|batch| BatchView::new(batch, &now))))
}

pub(super) async fn get(org: Org<JobsRead>, Path(id): Path<BatchId>) -> Result<Body<BatchView>> {
    let batch = org.read(|tx| tx.require(&BATCHES, &id))?;
    Ok(Body(BatchView::new(batch, &org.look())))
}

pub(super) async fn cancel(org: Org<JobsWrite>, Path(id): Path<BatchId>) -> Result<Accepted<BatchView>> {
    let canceled = org.write(move |tx| {
        tx.needs_no_room();
        let mut batch = tx.require(&BATCHES, &id)?;
        if batch.canceled_at.is_some() {
            tx.unaudited("it was canceled before");
            return Ok(batch);
        }
        if batch.has_ended() {
            return Err(Error::new(Code::JobTerminal).message("Every job of the batch has ended."));
        }
        if let (BatchStage::Retry, Some(retry)) = (batch.stage, &mut batch.retry) {
            retry.finished_at = Some(tx.now());
            retry.message = Some("the batch was canceled".to_owned());
        }
        (batch.canceled_at, batch.stage) = (Some(tx.now()), BatchStage::Cancel);
        batch.clone().store(tx)?;
        tx.audit(Event::new(Action::BatchCanceled).of(id).with("jobs", batch.open()))?;
        Ok(batch)
    });
    let batch = canceled.await?;
    org.service::<Signals>().wake(BATCH_WORK);
    Ok(Accepted::new(BatchView::new(batch, &org.look())))
}

pub(super) async fn retry(
    org: Org<Quota<JobsWrite>>,
    Path(id): Path<BatchId>,
) -> Result<Accepted<BatchView>> {
    let retried = org.write(move |tx| {
        let mut batch = tx.require(&BATCHES, &id)?;
        batch.check_open()?;
        let is_done = batch.left_failed() == 0 && batch.retry.is_some();
        if batch.stage == BatchStage::Retry || is_done {
            tx.unaudited("it was asked for before");
            return Ok(batch);
        }
        if batch.left_failed() == 0 {
            return Err(Error::conflict("No job of the batch has failed."));
        }
        tx.audit(Event::new(Action::BatchRetried).of(id).with("jobs", batch.left_failed()))?;
        batch.stage = BatchStage::Retry;
        batch.retry = Some(BatchRetryV1 {
            requested_at: tx.now(),
            below: JobId::new(),
            place: None,
            submitted: 0,
            refused: 0,
            message: None,
            finished_at: None,
        });
        batch.clone().store(tx)?;
        Ok(batch)
    });
    let batch = retried.await?;
    org.service::<Signals>().wake(BATCH_WORK);
    Ok(Accepted::new(BatchView::new(batch, &org.look())))
}
