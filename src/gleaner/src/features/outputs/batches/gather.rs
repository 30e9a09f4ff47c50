//! From the log into batches, and from batches into the ledger.

use super::super::rows::{
    BatchTerms, DELIVERIES, DeliveryState, DeliveryV1, OutputStateV1, OutputV2, STATES,
};
use super::rows::{CHUNKS, ChunkV1, OPEN, OpenBatchV1};
use crate::features::events::EventV1;
use crate::features::extraction::ResultV4;
use base::Result;
use base::clock::{Moment, Timestamp};
use base::ids::{DeliveryId, EventId, JobId, OutputId};
use serde::{Deserialize, Serialize};
use store::{Order, OrgRead, OrgWrite};

/// Results that one row of [`CHUNKS`] names at most.
const CHUNK_ROWS: usize = 500;
/// Kinds of events whose result is a row. Others, of what is gone, say, have none.
const KINDS: &[&str] = &["result.new", "result.changed", "job.succeeded"];

/// A result on its way into a batch.
pub struct Row {
    seq: u64,
    event: EventId,
    kind: String,
    at: Timestamp,
    job: JobId,
    bytes: u64,
}

impl Row {
    pub fn of(event: &EventV1, result: &ResultV4) -> Option<Row> {
        KINDS.contains(&event.kind.as_str()).then(|| Row {
            seq: event.seq,
            event: event.id,
            kind: event.kind.clone(),
            at: event.at,
            job: result.job,
            bytes: (result.values.0.to_string().len() + result.url.len()) as u64,
        })
    }
}

/// What a delivery of a batch says instead of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchBody {
    pub first_seq: u64,
    pub last_seq: u64,
    pub rows: u32,
}

impl BatchBody {
    /// Of a delivery; none where it is no batch.
    pub fn of(row: &DeliveryV1) -> Option<BatchBody> {
        serde_json::from_str(&row.body).ok()
    }
}

/// When an output's batch has waited long enough; none where none waits.
pub fn ends_at(tx: &OrgRead<'_>, row: &OutputV2) -> Result<Option<Moment>> {
    let Some(terms) = row.target.batches() else { return Ok(None) };
    Ok(tx.get(&OPEN, &row.id)?.map(|open| open.begun.after(terms.every)))
}

/// Takes rows in, up to a place in the log.
pub fn gather(
    tx: &OrgWrite<'_>,
    (output, terms): (OutputId, BatchTerms),
    state: &mut OutputStateV1,
    rows: Vec<Row>,
    until: u64,
) -> Result<()> {
    let mut open = tx.get(&OPEN, &output)?;
    // It was off meanwhile, or goes through the log anew: a batch has no gaps that others may fill.
    if open.as_ref().is_some_and(|open| open.until != state.place) {
        seal(tx, output, state, open.take())?;
    }
    let (mut first, mut last, mut jobs) = (0, 0, Vec::new());
    for row in rows {
        // Only of what is gone through anew may there be batches between its rows.
        if open.as_ref().map_or(row.seq, |open| open.first) <= state.recover_until {
            let before = chunk_before(tx, output, row.seq)?;
            // A batch is all that lies between its ends: with one of others in between it would have their rows, too.
            if before.is_some_and(|(of, _)| open.as_ref().is_some_and(|open| of > open.last)) {
                if !jobs.is_empty() {
                    tx.put(&CHUNKS, &(output, first), &ChunkV1 { last, jobs: std::mem::take(&mut jobs) })?;
                }
                seal(tx, output, state, open.take())?;
            }
            let is_there = before.is_some_and(|(of, until)| (of..=until).contains(&row.seq));
            if is_there && row.seq <= state.recover_until {
                continue;
            }
        }
        first = if jobs.is_empty() { row.seq } else { first };
        last = row.seq;
        jobs.push(row.job);
        let batch = open.get_or_insert_with(|| OpenBatchV1 {
            first: row.seq,
            last: row.seq,
            event: row.event,
            event_kind: String::new(),
            event_at: row.at,
            until,
            rows: 0,
            bytes: 0,
            begun: tx.moment(),
        });
        (batch.last, batch.event, batch.event_kind, batch.event_at) = (row.seq, row.event, row.kind, row.at);
        (batch.rows, batch.bytes) = (batch.rows + 1, batch.bytes + row.bytes);
        let is_whole = batch.rows >= terms.rows_max || batch.bytes >= terms.bytes_max;
        if is_whole || jobs.len() >= CHUNK_ROWS {
            tx.put(&CHUNKS, &(output, first), &ChunkV1 { last, jobs: std::mem::take(&mut jobs) })?;
        }
        if is_whole {
            seal(tx, output, state, open.take())?;
        }
    }
    if !jobs.is_empty() {
        tx.put(&CHUNKS, &(output, first), &ChunkV1 { last, jobs })?;
    }
    match open {
        Some(open) => tx.put(&OPEN, &output, &OpenBatchV1 { until, ..open }),
        None => Ok(()),
    }
}

/// The newest chunk that begins no later than a place: its first and its last place. An event between them is in a batch.
fn chunk_before(tx: &OrgWrite<'_>, output: OutputId, seq: u64) -> Result<Option<(u64, u64)>> {
    let before = tx.scan(&CHUNKS, Some(&(output, seq.saturating_add(1))), Order::Descending, 1)?.pop();
    Ok(before.filter(|((of, _), _)| *of == output).map(|((_, first), chunk)| (first, chunk.last)))
}

/// Ends an output's batch, though it could take more.
pub fn end(tx: &OrgWrite<'_>, output: OutputId) -> Result<()> {
    let (Some(open), Some(mut state)) = (tx.get(&OPEN, &output)?, tx.get(&STATES, &output)?) else {
        return Ok(());
    };
    seal(tx, output, &mut state, Some(open))?;
    tx.put(&STATES, &output, &state)
}

/// A batch becomes a delivery.
fn seal(
    tx: &OrgWrite<'_>,
    output: OutputId,
    state: &mut OutputStateV1,
    open: Option<OpenBatchV1>,
) -> Result<()> {
    tx.delete(&OPEN, &output)?;
    let Some(open) = open else { return Ok(()) };
    let body = BatchBody { first_seq: open.first, last_seq: open.last, rows: open.rows };
    let body = serde_json::to_string(&body).map_err(|e| base::Error::internal("write a batch down", e))?;
    state.sequence += 1;
    let row = DeliveryV1 {
        id: DeliveryId::new(),
        output,
        sequence: state.sequence,
        event_seq: open.last,
        event: open.event,
        event_kind: open.event_kind,
        event_at: open.event_at,
        body,
        state: DeliveryState::Pending,
        tries: 0,
        attempts: Vec::new(),
        next_try_at: Some(tx.moment()),
        created_at: tx.now(),
        ended_at: None,
        ended: None,
    };
    tx.insert(&DELIVERIES, &row.id, &row)
}

/// The results of a batch are named no more: its delivery goes.
pub fn forget(tx: &OrgWrite<'_>, row: &DeliveryV1) -> Result<()> {
    let Some(body) = BatchBody::of(row) else { return Ok(()) };
    for (key, _) in chunks(tx, row.output, body)? {
        tx.delete(&CHUNKS, &key)?;
    }
    Ok(())
}

/// Forgets some of what is left of a removed output; whether nothing is.
pub fn forget_all(tx: &OrgWrite<'_>, output: OutputId, most: usize) -> Result<bool> {
    tx.delete(&OPEN, &output)?;
    let rows = tx.scan(&CHUNKS, Some(&(output, 0)), Order::Ascending, most)?;
    let own: Vec<_> = rows.iter().map(|(key, _)| *key).filter(|(of, _)| *of == output).collect();
    for key in &own {
        tx.delete(&CHUNKS, key)?;
    }
    Ok(own.len() < most)
}

/// Chunks that are read in one step; a batch may have more.
const CHUNKS_PER_STEP: usize = 64;

/// The results of a batch.
pub fn chunks(
    tx: &OrgRead<'_>,
    output: OutputId,
    body: BatchBody,
) -> Result<Vec<((OutputId, u64), ChunkV1)>> {
    let (mut found, mut after) = (Vec::new(), (output, body.first_seq.saturating_sub(1)));
    loop {
        let step = tx.scan(&CHUNKS, Some(&after), Order::Ascending, CHUNKS_PER_STEP)?;
        let is_last = step.len() < CHUNKS_PER_STEP;
        for (key, chunk) in step {
            if key.0 != output || key.1 > body.last_seq {
                return Ok(found);
            }
            after = key;
            found.push((key, chunk));
        }
        if is_last {
            return Ok(found);
        }
    }
}
