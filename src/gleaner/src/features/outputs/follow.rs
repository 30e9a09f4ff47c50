//! Following the log of events: what an output lets through becomes a delivery, in the operation that moves its place.
//!
//! Each output has a place of its own. One whose endpoint takes nothing stops at [`DELIVERIES_PENDING_MAX`] deliveries that wait, and goes
//! on from its place when there is room; the others of its organization do not wait for it. Conditions are asked apart from
//! the threads that answer, for a bounded time in each look; organizations take turns.

use super::batches::{self, Row};
use super::filter::Results;
use super::letters::{self, News};
use super::payload::{self, Unnumbered};
use super::rows::{
    BY_EVENT, DELIVERIES, DeliveryState, DeliveryV1, FEED_ITEMS, FEED_ITEMS_MAX, FeedItemV1, OUTPUTS,
    OutputKind, OutputStateV1, OutputV2, STATES, TO_SEND,
};
use super::service::Deliverer;
use crate::features::events::{EventV1, LogEnds, events_behind, log_ends};
use base::clock::{Moment, Timestamp};
use base::digest::sha256_of;
use base::ids::{DeliveryId, EventId, OutputId};
use base::limits::{DELIVERIES_PENDING_MAX, OUTPUTS_PER_ORG_MAX};
use base::{Code, Error, Result};
use futures::StreamExt;
use futures::stream;
use server::task::TaskContext;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OrgRead, OrgStore, OrgWrite, readable};
use uuid::Uuid;

/// Events of one look.
const EVENTS_PER_LOOK: usize = 100;
/// How long a look asks filters, and bytes of messages that it makes: they are held, and written in one operation.
const LOOK_TIME: Duration = Duration::from_millis(200);
const LOOK_BYTES: usize = 8 << 20;
/// Organizations that are looked at at once.
const ORGS_AT_ONCE: usize = 4;
/// From the beginning of one look to the next.
const PACE: Duration = Duration::from_millis(100);
/// How long it sleeps at most while a batch waits, and while none does.
const BATCH_LOOK: Duration = Duration::from_secs(1);
const IDLE_MAX: Duration = Duration::from_secs(30);

/// What a look found for one output.
struct Step {
    output: OutputId,
    /// Where it was.
    from: u64,
    /// Where it is now.
    until: u64,
    missed: u64,
    passed: Vec<Passed>,
    /// Of an output that takes batches.
    rows: Vec<Row>,
    /// Of one that writes letters.
    news: Vec<News>,
}

/// An event that was let through.
struct Passed {
    seq: u64,
    id: EventId,
    kind: String,
    at: Timestamp,
    message: Unnumbered,
}

/// Looks at logs when they have grown, until the box drains. It sleeps until an organization's bell sounds (a commit wrote an
/// event there), somebody asks for a look, or a batch has waited long enough; and looks at what is named at once, but not
/// again before [`PACE`] is over, so that events that come fast are taken in together. What a lost signal might leave lying
/// is found by [`find_all`].
pub(super) async fn follow_all(context: TaskContext) -> Result<()> {
    let deliverer = context.service::<Deliverer>();
    while !context.stopping() {
        let begun = Instant::now();
        look_at_all(&context, &deliverer).await;
        tokio::select! {
            () = context.stopped() => break,
            () = tokio::time::sleep(PACE.saturating_sub(begun.elapsed())) => {}
        }
        let now = context.moment();
        // The box's own time may be set, so a moment that is far off is looked at in between.
        let left = deliverer.next_batch().map_or(IDLE_MAX, |at| at.since(now).min(BATCH_LOOK));
        tokio::select! {
            () = context.stopped() => break,
            () = deliverer.woken() => {}
            () = tokio::time::sleep(left) => {}
        }
    }
    Ok(())
}

/// Looks at the logs that have grown, and those with a batch that has waited long enough.
async fn look_at_all(context: &TaskContext, deliverer: &Arc<Deliverer>) {
    let mut due = deliverer.to_look_at();
    for org in deliverer.batches_due(context.moment()) {
        if !due.contains(&org) {
            due.push(org);
        }
    }
    for org in &due {
        // Before the log is read, so that nothing is written in between unheard.
        deliverer.listen_to(*org, || context.system().org(*org).bell());
    }
    let looks = due.into_iter().map(|org| {
        let (deliverer, own) = (Arc::clone(deliverer), context.system().org(org));
        async move {
            match look(&deliverer, &own).await {
                Ok(false) => {}
                // There is more: it goes on behind the others.
                Ok(true) => deliverer.look_again(org),
                Err(error) if error.code() == Code::OrgNotFound => deliverer.forget(org),
                Err(error) => {
                    tracing::warn!(%org, %error, "the log of an organization could not be followed for its outputs");
                    deliverer.look_again(org);
                }
            }
        }
    });
    stream::iter(looks).buffer_unordered(ORGS_AT_ONCE).collect::<Vec<()>>().await;
}

/// What a look found.
struct Looked {
    steps: Vec<Step>,
    /// Whether there is more.
    is_behind: bool,
    has_outputs: bool,
    /// Outputs with a batch or a letter that has waited long enough, and when the next one has.
    whole: Vec<OutputV2>,
    next: Option<Moment>,
}

/// Finds every organization that has outputs, and what waits to be sent: at a start, and now and then.
pub(super) async fn find_all(context: TaskContext) -> Result<()> {
    let (deliverer, mut last) = (context.service::<Deliverer>(), None);
    while let Some((org, is_fenced)) = context
        .system()
        .read(|tx| Ok(tx.next_org(OUTPUTS.name(), last)?.map(|org| (org, tx.is_fenced(org)))))?
    {
        last = Some(org);
        if context.stopping() {
            return Ok(());
        }
        if is_fenced {
            continue;
        }
        let moment = context.moment();
        let outputs = context.system().org(org).read(rows);
        // What cannot be read in one organization keeps no other's.
        let Some(outputs) = readable("the outputs of an organization", org, outputs)? else { continue };
        for row in outputs.iter().filter(|row| row.is_enabled && row.target.takes_deliveries()) {
            deliverer.turns.set_due(org, row.id, moment);
        }
        deliverer.look_again(org);
    }
    Ok(())
}

fn rows(tx: &OrgRead<'_>) -> Result<Vec<OutputV2>> {
    let rows = tx.readable(&OUTPUTS, None, OUTPUTS_PER_ORG_MAX)?.rows;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Looks at a log once, for all outputs of its organization; whether there is more.
async fn look(deliverer: &Arc<Deliverer>, org: &OrgStore) -> Result<bool> {
    let (parts, own) = (Arc::clone(deliverer), org.clone());
    let looked = tokio::task::spawn_blocking(move || own.read(|tx| steps(&parts, tx))).await;
    let Looked { steps, is_behind, has_outputs, whole, next } =
        looked.map_err(|e| Error::internal("follow a log of events", e))??;
    if !has_outputs {
        deliverer.ignore(org.id());
    }
    deliverer.expect_batch(org.id(), next);
    if steps.is_empty() && whole.is_empty() {
        return Ok(is_behind);
    }
    let has_rows = steps.iter().any(|step| !step.rows.is_empty() || !step.news.is_empty());
    let has_any = |step: &&Step| !(step.passed.is_empty() && step.rows.is_empty() && step.news.is_empty());
    let mut due: Vec<_> = steps.iter().filter(has_any).map(|step| step.output).collect();
    due.extend(whole.iter().map(|row| row.id));
    let moment = org.write(move |tx| {
        steps.into_iter().try_for_each(|step| take(tx, step))?;
        for row in whole {
            match row.target.kind() {
                OutputKind::Email => letters::end(tx, &row)?,
                _ => batches::end(tx, row.id)?,
            }
        }
        Ok(tx.moment())
    });
    let moment = moment.await?;
    for output in due {
        deliverer.turns.set_due(org.id(), output, moment);
    }
    // What waits for others is looked at again: how long it may wait is known now.
    Ok(is_behind || has_rows)
}

/// What there is for each output.
fn steps(deliverer: &Deliverer, tx: &OrgRead<'_>) -> Result<Looked> {
    let (ends, begun) = (log_ends(tx)?, Instant::now());
    let (mut logs, mut results) = (HashMap::new(), Results::default());
    let (mut steps, mut is_behind) = (Vec::new(), false);
    let (mut whole, mut next, mut bytes) = (Vec::new(), None, 0);
    let outputs = rows(tx)?;
    let has_outputs = !outputs.is_empty();
    for row in outputs.into_iter().filter(|row| row.is_enabled && row.target.takes_deliveries()) {
        let state = readable("how far an output is", row.id, tx.get(&STATES, &row.id))?.flatten();
        let (is_email, begun_one) = (row.target.kind() == OutputKind::Email, batches::ends_at(tx, &row)?);
        match begun_one.or(letters::due_at(tx, &row)?) {
            Some(at) if at <= tx.moment() => whole.push(row.clone()),
            at => next = next.into_iter().chain(at).min(),
        }
        let Some(state) = state.filter(|state| state.place != ends.last) else { continue };
        if tx.count_index(&TO_SEND, row.id, DELIVERIES_PENDING_MAX)? >= DELIVERIES_PENDING_MAX {
            continue;
        }
        let (mut step, begins) = begin(&row, &state, ends);
        let (events, until): &(Vec<EventV1>, u64) = match logs.entry(begins) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(events_behind(tx, begins, EVENTS_PER_LOOK)?)
            }
        };
        let selector = deliverer.selector(&row);
        step.until = (*until).max(begins);
        for event in events {
            // Each output gets on by one event at least.
            if (begun.elapsed() >= LOOK_TIME || bytes >= LOOK_BYTES) && event.seq > begins + 1 {
                step.until = event.seq - 1;
                break;
            }
            if selector.ask(tx, &mut results, event)?.lets_through() {
                let result = results.of(tx, event)?;
                if row.target.batches().is_some() {
                    step.rows.extend(result.and_then(|result| Row::of(event, &result)));
                    continue;
                }
                let message = payload::of_event(&deliverer.url, event, result.as_deref());
                bytes += message.bytes();
                if is_email {
                    step.news.push(News::of(event, &message.numbered(0))?);
                    continue;
                }
                step.passed.push(Passed {
                    seq: event.seq,
                    id: event.id,
                    kind: event.kind.clone(),
                    at: event.at,
                    message,
                });
            }
        }
        is_behind |= step.until < ends.last;
        steps.push(step);
    }
    Ok(Looked { steps, is_behind, has_outputs, whole, next })
}

/// Where an output goes on in a log with these ends.
fn begin(row: &OutputV2, state: &OutputStateV1, ends: LogEnds) -> (Step, u64) {
    // A box that was restored from a backup knows less than its outputs.
    let begins = state.place.clamp(ends.trimmed, ends.last);
    let missed = begins.saturating_sub(state.place);
    (
        Step {
            output: row.id,
            from: state.place,
            until: begins,
            missed,
            passed: Vec::new(),
            rows: Vec::new(),
            news: Vec::new(),
        },
        begins,
    )
}

/// Takes in what a look has found, unless the output has moved or is off meanwhile.
fn take(tx: &OrgWrite<'_>, step: Step) -> Result<()> {
    let Some(row) = tx.get(&OUTPUTS, &step.output)?.filter(|row| row.is_enabled) else { return Ok(()) };
    let Some(mut state) = tx.get(&STATES, &step.output)?.filter(|state| state.place == step.from) else {
        return Ok(());
    };
    if let Some(terms) = row.target.batches() {
        batches::gather(tx, (row.id, terms), &mut state, step.rows, step.until)?;
    }
    if row.target.kind() == OutputKind::Email {
        letters::gather(tx, &row, &mut state, step.news, step.until)?;
    }
    let is_feed = row.target.kind() == OutputKind::Feed;
    for passed in step.passed {
        if is_feed {
            show(tx, &step.output, &mut state, passed)?;
            continue;
        }
        if passed.seq <= state.recover_until
            && let Some(known) = tx.lookup(&DELIVERIES, &BY_EVENT, (step.output, passed.seq))?
        {
            if known.state == DeliveryState::Failed {
                try_anew(tx, known)?;
            }
            continue;
        }
        state.sequence += 1;
        let row = DeliveryV1 {
            id: delivery_id(step.output, passed.id),
            output: step.output,
            sequence: state.sequence,
            event_seq: passed.seq,
            event: passed.id,
            event_kind: passed.kind,
            event_at: passed.at,
            body: passed.message.numbered(state.sequence),
            state: DeliveryState::Pending,
            tries: 0,
            attempts: Vec::new(),
            next_try_at: Some(tx.moment()),
            created_at: tx.now(),
            ended_at: None,
            ended: None,
        };
        tx.insert(&DELIVERIES, &row.id, &row)?;
    }
    (state.place, state.missed) = (step.until, state.missed + step.missed);
    tx.put(&STATES, &step.output, &state)
}

/// Puts an event into a feed, in the place of the oldest.
fn show(tx: &OrgWrite<'_>, output: &OutputId, state: &mut OutputStateV1, passed: Passed) -> Result<()> {
    state.sequence += 1;
    (state.delivered, state.last_delivered_at) = (state.delivered + 1, Some(tx.now()));
    let body = passed.message.numbered(state.sequence);
    let item = FeedItemV1 { sequence: state.sequence, event: passed.id, at: passed.at, body };
    tx.put(&FEED_ITEMS, &(*output, state.sequence % FEED_ITEMS_MAX), &item)
}

/// The id of the delivery of an event to an output: the same whenever it is made, so that what is recovered after the ledger
/// has forgotten it comes under the `webhook-id` that it had. Its first half is the event's, so ids go by time.
fn delivery_id(output: OutputId, event: EventId) -> DeliveryId {
    let mut id = *event.0.as_bytes();
    let own = sha256_of(&[output.0.as_bytes(), event.0.as_bytes()]);
    id[9..].copy_from_slice(&own[..7]);
    DeliveryId(Uuid::from_bytes(id))
}

/// A delivery that has ended is tried as a new one is, under the same id.
pub(super) fn try_anew(tx: &OrgWrite<'_>, mut row: DeliveryV1) -> Result<DeliveryV1> {
    (row.state, row.tries) = (DeliveryState::Pending, 0);
    (row.next_try_at, row.ended_at, row.ended) = (Some(tx.moment()), None, None);
    tx.put(&DELIVERIES, &row.id, &row)?;
    Ok(row)
}
