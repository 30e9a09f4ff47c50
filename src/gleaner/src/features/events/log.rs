//! Writing into the log and reading from it, inside the caller's transaction.
//!
//! An event is written by the operation that causes it, so what is in the log has happened, and what has happened is in the
//! log. A log that is damaged keeps nothing from happening.

use super::kind::EventKind;
use super::rows::{EVENTS, EventLogV1, EventV1, LOGS};
use base::Result;
use base::clock::Moment;
use base::codec::Json;
use base::ids::{EventId, made_at};
use serde_json::{Value, json};
use store::{Key, OrgRead, OrgWrite, readable};
use uuid::Uuid;

/// Bytes of an event's data, as JSON.
pub const DATA_BYTES_MAX: usize = 16 << 10;
/// Rows that one operation of trimming removes.
const TRIMMED_PER_WRITE: usize = 500;

/// An event that is to be written.
#[must_use = "an event is written by `write`"]
pub struct NewEvent<'e> {
    kind: &'static EventKind,
    subject: Uuid,
    domain: Option<&'e str>,
    tags: &'e [String],
    data: Value,
}

impl<'e> NewEvent<'e> {
    pub fn of(kind: &'static EventKind, subject: impl Into<Uuid>) -> NewEvent<'e> {
        NewEvent { kind, subject: subject.into(), domain: None, tags: &[], data: json!({}) }
    }

    /// What it is filtered by, beside its kind and subject.
    pub fn about(mut self, domain: &'e str, tags: &'e [String]) -> NewEvent<'e> {
        (self.domain, self.tags) = (Some(domain), tags);
        self
    }

    /// More about it: an object, of 16 KiB at most. One that is larger is left out.
    pub fn data(mut self, data: Value) -> NewEvent<'e> {
        self.data = data;
        self
    }

    /// Writes it into the organization's log; whoever listens is woken when the operation is committed.
    pub fn write(self, tx: &OrgWrite<'_>) -> Result<()> {
        let mut log = log(tx)?;
        log.last += 1;
        let is_short = self.data.to_string().len() <= DATA_BYTES_MAX;
        let row = EventV1 {
            seq: log.last,
            id: EventId::new(),
            kind: self.kind.name.to_owned(),
            at: tx.now(),
            subject: self.subject,
            domain: self.domain.map(str::to_owned),
            tags: self.tags.to_vec(),
            data: Json(if is_short { self.data } else { json!({ "truncated": true }) }),
        };
        tx.put(&EVENTS, &row.seq, &row)?;
        tx.put_over(&LOGS, &(), &log)?;
        tx.ring();
        Ok(())
    }
}

/// Where the log begins and ends; where that cannot be read, what its rows say.
pub(super) fn log(tx: &OrgRead<'_>) -> Result<EventLogV1> {
    if let Some(log) = readable("where a log of events ends", tx.org_id(), tx.get(&LOGS, &()))?.flatten() {
        return Ok(log);
    }
    let last = tx.last_key(&EVENTS)?.unwrap_or(0);
    let first = tx.keys(EVENTS.name(), None, 1)?.pop().and_then(|key| u64::decode(&key));
    Ok(EventLogV1 { last, trimmed: first.map_or(last, |first| first.saturating_sub(1)) })
}

/// Some of the events behind a place, oldest first, and the place up to which was looked.
pub(super) fn behind(tx: &OrgRead<'_>, place: u64, limit: usize) -> Result<(Vec<EventV1>, Option<u64>)> {
    let step = tx.readable(&EVENTS, Some(&tx.place(&place)), limit)?;
    let until = step.next.as_deref().and_then(|next| EVENTS.owner(next).ok()).map(|(_, place)| place);
    Ok((step.rows.into_iter().map(|(_, row)| row).collect(), until))
}

/// Removes some of the oldest events: those from before a moment, and those beyond `rows_max`. Whether there may be more.
pub(super) fn trim(tx: &OrgWrite<'_>, before: Moment, rows_max: u64) -> Result<bool> {
    let mut log = log(tx)?;
    let beyond = log.last.saturating_sub(rows_max);
    let (mut removed, keys) = (0, tx.keys(EVENTS.name(), None, TRIMMED_PER_WRITE)?);
    for place in keys.iter().filter_map(|key| u64::decode(key)) {
        // One that cannot be read says nothing to anybody.
        let row = readable("an event", place, tx.get(&EVENTS, &place))?.flatten();
        let is_old = row.is_none_or(|row| made_at(row.id.0).is_none_or(|made| made < before));
        if place > beyond && !is_old {
            break;
        }
        tx.delete(&EVENTS, &place)?;
        log.trimmed = log.trimmed.max(place);
        removed += 1;
    }
    if removed > 0 {
        tx.put_over(&LOGS, &(), &log)?;
    }
    Ok(removed == TRIMMED_PER_WRITE)
}
