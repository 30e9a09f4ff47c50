//! From the log into letters that wait, and from those into the ledger.
//!
//! Each kind of `when` is a digest: one that is sent immediately is whole at once, unless a letter went out within the last
//! minute; then what happens until that minute is over comes together. So a flood of events is a letter a minute.

use super::super::kinds::email;
use super::super::rows::{
    DELIVERIES, DeliveryState, DeliveryV1, EmailV1, EmailWhen, OutputStateV1, OutputV2, STATES, TargetV1,
};
use super::recipients;
use super::rows::{BY_LETTER, DIGESTS, DigestItemV1, DigestV1, ITEMS, OpenDigestV1, TAKEN};
use crate::features::events::EventV1;
use base::clock::{Moment, Timestamp};
use base::ids::{DeliveryId, EventId, OutputId};
use base::{Error, Result};
use outputs::Told;
use outputs::letter::EVENTS_MAX;
use std::time::Duration;
use store::{Order, OrgRead, OrgWrite, readable};
use uuid::Uuid;

/// Between two letters of an output that are sent immediately.
const BETWEEN_LETTERS: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// How far ahead a date is relied upon: the machine's clock may be set.
const DATE_STEP: Duration = Duration::from_secs(30);
/// No two days are further apart, also where a calendar left one out; what lies further ahead comes of a clock that was set.
const DAY_MAX: Duration = Duration::from_secs(50 * 3_600);
/// Rows that one look takes.
const ROWS_PER_STEP: usize = 256;

/// An event on its way into a letter.
pub struct News {
    seq: u64,
    event: EventId,
    kind: String,
    at: Timestamp,
    told: String,
}

impl News {
    /// What `message`, as a webhook would send it, tells.
    pub fn of(event: &EventV1, message: &str) -> Result<News> {
        let message = serde_json::from_str(message).map_err(|e| Error::internal("read a message", e))?;
        let told = serde_json::to_string(&Told::of(&message));
        Ok(News {
            seq: event.seq,
            event: event.id,
            kind: event.kind.clone(),
            at: event.at,
            told: told.map_err(|e| Error::internal("write an event down", e))?,
        })
    }
}

/// What waits of an output; nothing where that cannot be read.
pub fn waiting(tx: &OrgRead<'_>, output: OutputId) -> Result<DigestV1> {
    let row = readable("what waits to become a letter", output, tx.get(&DIGESTS, &output))?;
    Ok(row.flatten().unwrap_or_default())
}

/// When what waits of an output becomes a letter; none where nothing waits, or the output is of another kind.
pub fn due_at(tx: &OrgRead<'_>, row: &OutputV2) -> Result<Option<Moment>> {
    let TargetV1::Email(target) = &row.target else { return Ok(None) };
    let digest = waiting(tx, row.id)?;
    Ok(digest.open.as_ref().map(|open| due(target, digest.ended, open, tx.now(), tx.moment())))
}

/// A moment that is over where it is time; one that lies ahead may be of a look in between.
fn due(
    target: &EmailV1,
    ended: Option<Moment>,
    open: &OpenDigestV1,
    now: Timestamp,
    moment: Moment,
) -> Moment {
    match target.when {
        EmailWhen::Immediately => ended.map_or(open.begun, |ended| ended.after(BETWEEN_LETTERS)),
        EmailWhen::Hourly => open.begun.after(HOUR),
        EmailWhen::Daily => match email::next_of_day(target, open.begun_at) {
            Some(date) if date > now && moment.since(open.begun) < DAY_MAX => {
                moment.after(date.since(now).min(DATE_STEP))
            }
            _ => moment,
        },
    }
}

/// Takes news in, up to a place in the log.
pub fn gather(
    tx: &OrgWrite<'_>,
    row: &OutputV2,
    state: &mut OutputStateV1,
    news: Vec<News>,
    until: u64,
) -> Result<()> {
    let TargetV1::Email(target) = &row.target else { return Ok(()) };
    let mut digest = waiting(tx, row.id)?;
    if news.is_empty() && digest.open.is_none() {
        return Ok(());
    }
    if digest.until != state.place
        && let Some(open) = &mut digest.open
    {
        // The output was off, or goes through the log anew: what lies between is not counted with it.
        open.counted_from = None;
    }
    for one in news {
        if one.seq <= state.recover_until && is_covered(tx, row.id, one.seq)? {
            if let Some(open) = &mut digest.open {
                open.counted_from = None;
            }
            continue;
        }
        add(tx, row.id, &mut digest, one)?;
    }
    digest.until = until;
    if let Some(open) = &digest.open
        && due(target, digest.ended, open, tx.now(), tx.moment()) <= tx.moment()
    {
        seal(tx, row.id, state, &mut digest)?;
    }
    tx.put(&DIGESTS, &row.id, &digest)
}

fn add(tx: &OrgWrite<'_>, output: OutputId, digest: &mut DigestV1, one: News) -> Result<()> {
    let open = digest.open.get_or_insert_with(|| OpenDigestV1 {
        delivery: DeliveryId::new(),
        events: 0,
        shown: 0,
        counted_from: None,
        last_seq: one.seq,
        last_event: one.event,
        last_kind: String::new(),
        last_at: one.at,
        begun_at: tx.now(),
        begun: tx.moment(),
    });
    open.events += 1;
    (open.last_seq, open.last_event, open.last_kind, open.last_at) = (one.seq, one.event, one.kind, one.at);
    let is_shown = open.shown < EVENTS_MAX as u64;
    open.shown += u64::from(is_shown);
    let first = if is_shown { one.seq } else { *open.counted_from.get_or_insert(one.seq) };
    let told = is_shown.then_some(one.told);
    tx.put(&ITEMS, &(output, first), &DigestItemV1 { delivery: open.delivery, last_seq: one.seq, told })
}

/// Whether an event is in a letter already.
pub fn is_covered(tx: &OrgRead<'_>, output: OutputId, seq: u64) -> Result<bool> {
    let before = tx.scan(&ITEMS, Some(&(output, seq.saturating_add(1))), Order::Descending, 1)?.pop();
    Ok(before.is_some_and(|((of, first), item)| of == output && (first..=item.last_seq).contains(&seq)))
}

/// Makes what waits of an output a letter, if it is time.
pub fn end(tx: &OrgWrite<'_>, row: &OutputV2) -> Result<()> {
    let mut digest = waiting(tx, row.id)?;
    let (Some(mut state), true) =
        (tx.get(&STATES, &row.id)?, due_at(tx, row)?.is_some_and(|at| at <= tx.moment()))
    else {
        return Ok(());
    };
    seal(tx, row.id, &mut state, &mut digest)?;
    tx.put(&STATES, &row.id, &state)?;
    tx.put(&DIGESTS, &row.id, &digest)
}

/// What waits becomes a delivery.
fn seal(tx: &OrgWrite<'_>, output: OutputId, state: &mut OutputStateV1, digest: &mut DigestV1) -> Result<()> {
    let Some(open) = digest.open.take() else { return Ok(()) };
    digest.ended = Some(tx.moment());
    state.sequence += 1;
    let row = DeliveryV1 {
        id: open.delivery,
        output,
        sequence: state.sequence,
        event_seq: open.last_seq,
        event: open.last_event,
        event_kind: open.last_kind,
        event_at: open.last_at,
        // What it shows stands in `ITEMS`.
        body: serde_json::json!({ "events": open.events }).to_string(),
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

/// What a letter is about, oldest first, and of how many events it is.
pub fn content(tx: &OrgRead<'_>, row: &DeliveryV1) -> Result<(Vec<Told>, u64)> {
    let body: serde_json::Value = serde_json::from_str(&row.body).unwrap_or_default();
    let items = tx.readable_by(&ITEMS, &BY_LETTER, row.id, None, None, EVENTS_MAX * 2)?.rows;
    let told = items.iter().filter_map(|(_, item)| serde_json::from_str(item.told.as_deref()?).ok());
    let told: Vec<_> = told.take(EVENTS_MAX).collect();
    Ok((told, body["events"].as_u64().unwrap_or(1)))
}

/// A letter is named no more: its delivery goes.
pub fn forget(tx: &OrgWrite<'_>, row: &DeliveryV1) -> Result<()> {
    forget_taken(tx, row.id)?;
    loop {
        let items = tx.readable_by(&ITEMS, &BY_LETTER, row.id, None, None, ROWS_PER_STEP)?.rows;
        for (key, _) in &items {
            tx.delete(&ITEMS, key)?;
        }
        if items.len() < ROWS_PER_STEP {
            return Ok(());
        }
    }
}

/// Who has a letter is not asked any more.
pub fn forget_taken(tx: &OrgWrite<'_>, letter: DeliveryId) -> Result<()> {
    for key in taken(tx, letter)?.into_iter().map(|(id, _)| (letter, id)) {
        tx.delete(&TAKEN, &key)?;
    }
    Ok(())
}

/// To whom a letter went, and who refused it.
pub fn taken(tx: &OrgRead<'_>, letter: DeliveryId) -> Result<Vec<(Uuid, bool)>> {
    let rows = tx.scan(&TAKEN, Some(&(letter, Uuid::nil())), Order::Ascending, recipients::PER_OUTPUT_MAX)?;
    let own = rows.into_iter().take_while(|((of, _), _)| *of == letter);
    Ok(own.map(|((_, id), row)| (id, row.is_taken)).collect())
}

/// Forgets some of what is left of a removed output; whether nothing is.
pub fn forget_all(tx: &OrgWrite<'_>, output: OutputId, most: usize) -> Result<bool> {
    tx.delete(&DIGESTS, &output)?;
    recipients::drop_all(tx, output)?;
    let rows = tx.scan(&ITEMS, Some(&(output, 0)), Order::Ascending, most)?;
    let own: Vec<_> = rows.iter().map(|(key, _)| *key).filter(|(of, _)| *of == output).collect();
    for key in &own {
        tx.delete(&ITEMS, key)?;
    }
    Ok(own.len() < most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(begun_at: Timestamp, begun: Moment) -> OpenDigestV1 {
        OpenDigestV1 {
            delivery: DeliveryId::new(),
            events: 1,
            shown: 1,
            counted_from: None,
            last_seq: 1,
            last_event: EventId::new(),
            last_kind: "job.queued".to_owned(),
            last_at: begun_at,
            begun_at,
            begun,
        }
    }

    fn target(when: EmailWhen, hour: u8, timezone: &str) -> EmailV1 {
        EmailV1 { when, hour, timezone: timezone.to_owned() }
    }

    #[test]
    fn a_letter_is_due_at_once_or_a_minute_behind_the_last_one() {
        let (now, moment) = (Timestamp(1_000_000), Moment(50_000));
        let (at_once, hourly) =
            (target(EmailWhen::Immediately, 0, "UTC"), target(EmailWhen::Hourly, 0, "UTC"));
        let open = open(now, moment);
        assert_eq!(due(&at_once, None, &open, now, moment), moment);
        assert_eq!(due(&at_once, Some(Moment(45_000)), &open, now, moment), Moment(105_000));
        assert_eq!(due(&hourly, Some(Moment(45_000)), &open, now, moment), Moment(50_000 + 3_600_000));
    }

    #[test]
    fn a_day_has_one_hour_of_each_name_whatever_clocks_do() {
        let berlin = target(EmailWhen::Daily, 2, "Europe/Berlin");
        let date = |text: &str| text.parse::<Timestamp>().unwrap();
        let next = |at: &str| email::next_of_day(&berlin, date(at)).unwrap().to_string();
        // In March there is no 02:00: it comes when the clocks go on, at 03:00. In October 02:00 is twice: the first one counts.
        assert_eq!(next("2027-03-27T00:30:00Z"), "2027-03-27T01:00:00.000Z");
        assert_eq!(next("2027-03-27T12:00:00Z"), "2027-03-28T01:00:00.000Z");
        assert_eq!(next("2027-03-28T01:00:00Z"), "2027-03-29T00:00:00.000Z");
        assert_eq!(next("2027-10-30T12:00:00Z"), "2027-10-31T00:00:00.000Z");
        assert_eq!(next("2027-10-31T00:00:00Z"), "2027-11-01T01:00:00.000Z");
        // A date ahead is looked at again and again, since the clock may be set.
        let (now, moment) = (date("2027-03-27T12:00:00Z"), Moment(7));
        assert_eq!(due(&berlin, None, &open(now, moment), now, moment), moment.after(DATE_STEP));
        let later = date("2027-03-28T01:00:00Z");
        assert_eq!(due(&berlin, None, &open(now, moment), later, Moment(9)), Moment(9));
    }
}
