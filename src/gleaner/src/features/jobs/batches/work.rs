//! Canceling a batch and submitting again what failed of one: in parts, each one operation together with how far it came. A
//! box that is killed between two parts goes on with the next one; no job is canceled or submitted twice.

use crate::features::billing;
use crate::features::jobs::batch::{BATCHES, BatchRetryV1, BatchStage, BatchV1, WORK};
use crate::features::jobs::rows::{BY_BATCH, JOBS, JobV2};
use crate::features::jobs::signed_in;
use crate::features::jobs::submit::{SubmitContext, cancel_job, repeated};
use base::ids::{BatchId, OrgId};
use base::terms::JobStatus;
use base::{Code, Error, Result};
use server::task::TaskContext;
use std::sync::Arc;
use store::{OrgStore, OrgWrite, Seek, is_unreadable, readable};

pub(in crate::features::jobs) const BATCH_WORK: &str = "jobs.batches";

/// Jobs of one operation: others' writes do not wait for a large batch.
const PART_JOBS: usize = 50;
/// Batches that are looked at in one round; each has one part of it.
const BATCHES_PER_ROUND: usize = 64;
/// Characters of a message.
const MESSAGE_CHARS_MAX: usize = 500;

/// Does what there is to do, a part of each batch in turn.
pub(in crate::features::jobs) async fn work_all(context: TaskContext) -> Result<()> {
    let submit = context.service::<SubmitContext>();
    let mut place = None::<Vec<u8>>;
    let mut has_worked = false;
    while !context.stopping() {
        let from = place.take();
        let step = context
            .system()
            .read(|tx| tx.readable_global(&BATCHES, &WORK, None, from.as_deref(), BATCHES_PER_ROUND))?;
        place = step.more();
        for (org, id, _) in step.rows {
            has_worked |= work_or_say(&context.system().org(org), &submit, (org, id)).await;
        }
        if place.is_none() && !std::mem::take(&mut has_worked) {
            break;
        }
    }
    Ok(())
}

/// One part of a batch; whether something was done.
async fn work_or_say(org: &OrgStore, context: &Arc<SubmitContext>, (id, batch): (OrgId, BatchId)) -> bool {
    let own = Arc::clone(context);
    match org.write(move |tx| work(tx, &own, batch)).await {
        Ok(()) => true,
        Err(error) if is_unreadable(&error) => {
            tracing::error!(org = %id, %batch, %error, "work on a batch was given up");
            let given_up = org.write(move |tx| give_up(tx, batch)).await;
            given_up.is_ok()
        }
        // It is being erased: its entries go by themselves.
        Err(error) if error.code() == Code::OrgNotFound => false,
        Err(error) => {
            tracing::warn!(org = %id, %batch, %error, "work on a batch is tried again");
            false
        }
    }
}

/// One part of what there is to do with a batch.
pub(in crate::features::jobs) fn work(tx: &OrgWrite<'_>, context: &SubmitContext, id: BatchId) -> Result<()> {
    let Some(batch) = tx.get(&BATCHES, &id)? else { return Ok(()) };
    match batch.stage {
        BatchStage::Rest => Ok(()),
        BatchStage::Cancel => cancel_some(tx, context, id),
        BatchStage::Retry => retry_some(tx, context, batch),
    }
}

/// Something that the work needs is damaged: what was done stays, and the rest is left as it is.
fn give_up(tx: &OrgWrite<'_>, id: BatchId) -> Result<()> {
    let Some(mut batch) = tx.get(&BATCHES, &id)? else { return Ok(()) };
    if let (BatchStage::Retry, Some(retry)) = (batch.stage, &mut batch.retry) {
        retry.finished_at = Some(tx.now());
        retry.message = Some("the box could not read what it needs".to_owned());
    }
    batch.stage = BatchStage::Rest;
    batch.store(tx)
}

/// Cancels some of the batch's jobs; with the last of them it rests.
fn cancel_some(tx: &OrgWrite<'_>, context: &SubmitContext, id: BatchId) -> Result<()> {
    let mut canceled = 0;
    for status in [JobStatus::Queued, JobStatus::Running] {
        let mut seek = Seek::start();
        loop {
            let step = tx.index_entries(&JOBS, &BY_BATCH, (id, status as u8), &seek, PART_JOBS)?;
            for entry in step.entries {
                // One that cannot be read keeps no other from being canceled.
                let ended = readable("a job", entry.key, cancel_job(tx, context, entry.key))?;
                canceled += usize::from(ended.is_some());
            }
            if canceled >= PART_JOBS {
                return Ok(());
            }
            if step.is_last {
                break;
            }
            seek = step.next;
        }
    }
    if canceled == 0 {
        let batch = tx.require(&BATCHES, &id)?;
        BatchV1 { stage: BatchStage::Rest, ..batch }.store(tx)?;
    }
    Ok(())
}

/// What came of a part of a retry.
#[derive(Default)]
struct RetryPart {
    made: Vec<JobV2>,
    refused: u64,
    refusal: Option<String>,
    /// Why the rest cannot be submitted either.
    stopped: Option<Error>,
}

/// Submits some of the failed jobs again.
fn retry_some(tx: &OrgWrite<'_>, context: &SubmitContext, batch: BatchV1) -> Result<()> {
    let Some(mut retry) = batch.retry.clone() else { return give_up(tx, batch.id) };
    let of = (batch.id, JobStatus::Failed as u8);
    let step = tx.readable_by(&JOBS, &BY_BATCH, of, None, retry.place.as_deref(), PART_JOBS)?;
    let is_last = step.more().is_none() || step.rows.last().is_some_and(|(id, _)| *id >= retry.below);
    retry.place = step.next.clone();
    let due = step.rows.into_iter().filter(|(id, _)| *id < retry.below).map(|(_, job)| job);
    let mut part = RetryPart::default();
    for old in due {
        match retry_one(tx, context, old) {
            Ok(job) => part.made.push(job),
            Err(error) if matches!(error.code(), Code::PaymentRequired | Code::QuotaExceeded) => {
                part.stopped = Some(error);
                break;
            }
            Err(error)
                if matches!(error.code(), Code::Conflict | Code::NotFound | Code::WorkflowDisabled) =>
            {
                part.refused += 1;
                part.refusal.get_or_insert_with(|| reason(&error));
            }
            Err(error) => return Err(error),
        }
    }
    context.dispatcher.queued_after(tx, part.made.iter());
    note(tx, batch.id, retry, part, is_last)
}

/// Writes how far the retry came.
fn note(
    tx: &OrgWrite<'_>,
    id: BatchId,
    mut retry: BatchRetryV1,
    part: RetryPart,
    is_last: bool,
) -> Result<()> {
    // As it stands now: the jobs of this part are counted in it.
    let mut batch = tx.require(&BATCHES, &id)?;
    let made = part.made.len() as u64;
    retry.submitted += made;
    retry.refused += part.refused;
    batch.retried += made;
    if let Some(refusal) = part.refusal {
        retry.message.get_or_insert(refusal);
    }
    if let Some(stopped) = &part.stopped {
        let left = batch.left_failed();
        let text = format!("stopped after {} jobs, {left} are left: {}", retry.submitted, reason(stopped));
        retry.message = Some(text);
    }
    if is_last || part.stopped.is_some() {
        retry.finished_at = Some(tx.now());
        batch.stage = BatchStage::Rest;
    }
    batch.retry = Some(retry);
    batch.store(tx)
}

fn reason(error: &Error) -> String {
    let text = error.detail().unwrap_or("it cannot be submitted");
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

fn retry_one(tx: &OrgWrite<'_>, context: &SubmitContext, old: JobV2) -> Result<JobV2> {
    tx.ask_room()?;
    let (job, session) = repeated(tx, context, &old)?;
    let plan = billing::plan_of(&context.plans, &billing::account(tx)?)?;
    billing::reserve(tx, plan, &[(job.id, job.credits_reserved)])?;
    signed_in::put_new(tx, &job, session)?;
    let id = old.id;
    tx.put(&JOBS, &id, &JobV2 { retried_as: Some(job.id), ..old })?;
    Ok(job)
}
