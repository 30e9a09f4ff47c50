//! Sending what is due, in turns over the outputs; see `turns.rs` for whose it is.
//!
//! A try is written down when it has ended, so a box that is killed meanwhile makes it once more, under the same id.

use super::attempt::Tried;
use super::batches;
use super::disable::disable;
use super::kinds::{self, Outgoing};
use super::letters::{self, Sent};
use super::rows::{
    AttemptV1, DELIVERIES, DeliveryState, DeliveryV1, DisabledReason, OUTPUTS, OutputKind, OutputStateV1,
    OutputV2, STATES, TO_SEND, TargetV1,
};
use super::service::Deliverer;
use super::turns::{Lane, Turn};
use base::clock::Moment;
use base::ids::DeliveryId;
use base::{Code, Error, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use outputs::retry::{self, Verdict};
use secrets::random_bytes;
use server::task::TaskContext;
use std::sync::Arc;
use std::time::Duration;
use store::{OrgRead, OrgWrite, System};

/// How long it is waited before the next look at what is due: at least, because what is due may have no place yet; and at
/// most, because the box's own time may be set.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How long tries that are under way may go on when the box drains.
const DRAIN_TIME: Duration = Duration::from_secs(2);
/// How long an output rests whose turn could not be taken.
const REST: Duration = Duration::from_secs(10);
/// Tries that a delivery remembers.
const ATTEMPTS_KEPT: usize = 16;

/// Sends until the box drains.
pub(super) async fn send_all(context: TaskContext) -> Result<()> {
    let deliverer = context.service::<Deliverer>();
    let mut turns = FuturesUnordered::new();
    while !context.stopping() {
        while let Some(turn) = deliverer.turns.next(context.moment()) {
            turns.push(Box::pin(under_way(Arc::clone(&deliverer), context.system().clone(), turn)));
        }
        tokio::select! {
            Some(_) = turns.next() => {}
            () = deliverer.turns.news() => {}
            () = context.stopped() => {}
            () = due(&deliverer, &context) => {}
        }
    }
    let ended = async { while turns.next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME, ended).await.is_err() {
        tracing::debug!("messages that are under way are cut off, and sent again at the next start");
    }
    Ok(())
}

/// Waits until the next output is due; for ever when none waits.
async fn due(deliverer: &Deliverer, context: &TaskContext) {
    match deliverer.turns.next_due() {
        Some(due) => {
            let left = due.since(context.moment());
            tokio::time::sleep(left.clamp(LOOK_MIN, LOOK_MAX)).await;
        }
        None => std::future::pending().await,
    }
}

/// A turn on a task of its own, which ends with this future. One that panics gives its place back all the same.
async fn under_way(deliverer: Arc<Deliverer>, system: System, turn: Turn) {
    let (parts, own) = (Arc::clone(&deliverer), system.clone());
    let taken = server::on_own_task(async move {
        take_turn(&parts, &own, turn).await;
        Ok(())
    });
    if let Err(error) = taken.await {
        tracing::error!(org = %turn.org, output = %turn.output, error = error.for_operator(), "a turn of an output failed");
        deliverer.turns.ended(turn, Some(system.clock().moment().after(REST)), Lane::Slow);
    }
}

/// Sends some deliveries of an output, and says when there is more.
async fn take_turn(deliverer: &Arc<Deliverer>, system: &System, turn: Turn) {
    let taken = send_some(deliverer, system, turn).await;
    let (due, lane) = taken.unwrap_or_else(|error| {
        if error.code() == Code::OrgNotFound {
            deliverer.forget(turn.org);
            return (None, Lane::Slow);
        }
        tracing::warn!(org = %turn.org, output = %turn.output, %error, "nothing could be sent to an output, and is tried again");
        (Some(system.clock().moment().after(REST)), Lane::Slow)
    });
    deliverer.turns.ended(turn, due, lane);
    // One whose deliveries were too many to look further may do so now.
    deliverer.look_again(turn.org);
}

/// What a turn has to do.
enum Work {
    /// Nothing at all: it is off, or was removed.
    Off,
    /// Nothing before this moment, or at all.
    Rest(Option<Moment>),
    Send(Box<OutputV2>, Vec<DeliveryV1>),
}

async fn send_some(
    deliverer: &Arc<Deliverer>,
    system: &System,
    turn: Turn,
) -> Result<(Option<Moment>, Lane)> {
    let own = system.org(turn.org);
    if let Some(until) = deliverer.rests_until(turn.output, own.clock().moment()) {
        return Ok((Some(until), turn.lane));
    }
    let (output, due) = match own.read(|tx| work(tx, turn))? {
        Work::Off => return Ok((None, Lane::Slow)),
        Work::Rest(due) => return Ok((due, turn.lane)),
        Work::Send(output, due) => (output, due),
    };
    let sent = match output.target.batches() {
        Some(_) => batches::send(deliverer, &own, &output, &due).await?,
        None if output.target.kind() == OutputKind::Email => {
            let Some(row) = due.first() else { return Ok((None, turn.lane)) };
            match letters::send(deliverer, system, (turn.org, &output), row).await? {
                Sent::Tried(tried) => vec![tried],
                Sent::Rest(until) => return Ok((Some(until), turn.lane)),
            }
        }
        None => {
            let outgoing: Vec<_> =
                due.iter().map(|row| Outgoing { id: message_id(row.id), body: &row.body }).collect();
            kinds::send(deliverer, (turn.org, &output), &outgoing, own.clock().look()).await?
        }
    };
    let tried: Vec<_> = due.iter().map(|row| row.id).zip(sent).collect();
    let lane = match tried.iter().all(|(_, tried)| tried.verdict == Verdict::Delivered) {
        true => Lane::Fast,
        false => Lane::Slow,
    };
    let dice = dice()?;
    let (written, target) = (Arc::clone(deliverer), output.target.clone());
    let ended = system.write(move |tx| {
        let of_org = tx.org(turn.org);
        let reason = note(&of_org, turn, (&target, tried), dice)?;
        if let Some(reason) = reason {
            disable(tx, turn, reason, &written.url)?;
        }
        of_org_due(&of_org, turn)
    });
    let due = ended.await?;
    let Some(pause) = kinds::pause(&output.target) else { return Ok((due, lane)) };
    let now = system.clock().moment();
    deliverer.rest(turn.output, now.after(pause), now);
    Ok((due.map(|due| due.max(now.after(pause))), lane))
}

/// `webhook-id`: the same whenever a delivery is tried.
pub(super) fn message_id(id: DeliveryId) -> String {
    format!("msg_{}", id.0.simple())
}

fn work(tx: &OrgRead<'_>, turn: Turn) -> Result<Work> {
    let Some(output) = tx.get(&OUTPUTS, &turn.output)?.filter(|row| row.is_enabled) else {
        return Ok(Work::Off);
    };
    let state = tx.get(&STATES, &turn.output)?.unwrap_or_default();
    if let Some(not_before) = state.not_before.filter(|at| *at > tx.moment()) {
        return Ok(Work::Rest(Some(not_before)));
    }
    let limit = if kinds::pause(&output.target).is_some() { 1 } else { turn.lane.deliveries() };
    let due = tx.readable_by(&DELIVERIES, &TO_SEND, turn.output, Some(tx.moment()), None, limit)?.rows;
    match due.is_empty() {
        true => Ok(Work::Rest(of_org_due(tx, turn)?)),
        false => Ok(Work::Send(Box::new(output), due.into_iter().map(|(_, row)| row).collect())),
    }
}

/// When the next delivery of the turn's output is due.
fn of_org_due(tx: &OrgRead<'_>, turn: Turn) -> Result<Option<Moment>> {
    if tx.get(&OUTPUTS, &turn.output)?.is_none_or(|row| !row.is_enabled) {
        return Ok(None);
    }
    let not_before = tx.get(&STATES, &turn.output)?.and_then(|state| state.not_before);
    let first = tx.readable_by(&DELIVERIES, &TO_SEND, turn.output, None, None, 1)?.rows.pop();
    let due = first.and_then(|(_, row)| row.next_try_at);
    Ok(due.map(|due| not_before.map_or(due, |at| due.max(at))))
}

/// A random number from 0 to 1.
fn dice() -> Result<f64> {
    let bytes = random_bytes::<4>().map_err(|e| Error::internal("roll a die", e))?;
    Ok(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

/// Writes down what came of some tries at `target`; why the output is to be disabled, if it is.
fn note(
    tx: &OrgWrite<'_>,
    turn: Turn,
    (target, tried): (&TargetV1, Vec<(DeliveryId, Tried)>),
    dice: f64,
) -> Result<Option<DisabledReason>> {
    let Some(output) = tx.get(&OUTPUTS, &turn.output)? else { return Ok(None) };
    let is_email = output.target.kind() == OutputKind::Email;
    let is_elsewhere = output.target.is_elsewhere(target);
    let mut state = tx.get(&STATES, &turn.output)?.unwrap_or_default();
    let mut is_gone = false;
    for (id, tried) in tried {
        // One that was removed meanwhile, with its output.
        let Some(row) = tx.get(&DELIVERIES, &id)? else { continue };
        if is_elsewhere && tried.verdict != Verdict::Delivered {
            // What the place said that the output had before says nothing of the new one, which is tried at once.
            continue;
        }
        is_gone |= tried.verdict == Verdict::Gone;
        if is_email && tried.verdict == Verdict::Delivered {
            // Who redelivers it wants it sent to all of them.
            letters::forget_taken(tx, id)?;
        }
        note_one(tx, row, &tried, &mut state, dice)?;
    }
    let is_dead = state.failing_since.is_some_and(|since| retry::is_dead(tx.moment().since(since)));
    tx.put(&STATES, &turn.output, &state)?;
    Ok(match (is_gone, is_dead) {
        (true, _) if is_email => Some(DisabledReason::NoRecipients),
        (true, _) => Some(DisabledReason::Gone),
        (_, true) => Some(DisabledReason::Failing),
        _ => None,
    })
}

fn note_one(
    tx: &OrgWrite<'_>,
    mut row: DeliveryV1,
    tried: &Tried,
    state: &mut OutputStateV1,
    dice: f64,
) -> Result<()> {
    // That a server is away says nothing of this delivery.
    row.tries += u32::from(tried.verdict != Verdict::Away);
    row.attempts.push(AttemptV1 {
        at: tx.now(),
        duration_ms: u64::try_from(tried.duration.as_millis()).unwrap_or(u64::MAX),
        status: tried.status,
        told: tried.told.clone(),
    });
    let beyond = row.attempts.len().saturating_sub(ATTEMPTS_KEPT);
    row.attempts.drain(..beyond);
    let pause = retry::pause(row.tries, tried.retry_after, dice);
    if tried.verdict == Verdict::Delivered {
        state.delivered += 1;
        (state.failing_since, state.not_before, state.last_error) = (None, None, None);
        state.last_delivered_at = Some(tx.now());
    } else {
        state.failing_since.get_or_insert(tx.moment());
        let status = tried.status.map(|status| format!("{status} "));
        state.last_error =
            Some(format!("{}{}", status.unwrap_or_default(), tried.told).trim_end().to_owned());
    }
    if tried.verdict == Verdict::Throttled {
        state.not_before = Some(tx.moment().after(retry::throttle(tried.retry_after)));
    }
    if tried.verdict == Verdict::Away {
        let failing_for = state.failing_since.map_or(Duration::ZERO, |since| tx.moment().since(since));
        // The output waits as a whole, and its batches keep their order.
        state.not_before = Some(tx.moment().after(retry::away(failing_for)));
        return tx.put(&DELIVERIES, &row.id, &row);
    }
    match (tried.verdict, pause) {
        (Verdict::Failed | Verdict::Throttled | Verdict::Gone, Some(pause)) => {
            row.next_try_at = Some(tx.moment().after(pause));
        }
        (verdict, _) => {
            let is_delivered = verdict == Verdict::Delivered;
            row.state = if is_delivered { DeliveryState::Delivered } else { DeliveryState::Failed };
            state.failed += u64::from(!is_delivered);
            (row.next_try_at, row.ended_at, row.ended) = (None, Some(tx.now()), Some(tx.moment()));
        }
    }
    tx.put(&DELIVERIES, &row.id, &row)
}
