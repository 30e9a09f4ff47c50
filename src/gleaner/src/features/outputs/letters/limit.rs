//! How many letters an organization sends in an hour, and how many people it asks in a day.

use super::rows::{HOURS, HourV1};
use base::Result;
use base::clock::Moment;
use base::limits::RECIPIENTS_ASKED_PER_DAY_MAX;
use std::time::Duration;
use store::{OrgRead, OrgWrite, readable};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

fn counted(tx: &OrgRead<'_>) -> Result<HourV1> {
    let row = readable("how many letters were sent", tx.org_id(), tx.get(&HOURS, &()))?;
    Ok(row.flatten().unwrap_or_default())
}

/// Until when the organization sends no more; none where it may.
pub fn full_until(tx: &OrgRead<'_>, per_hour: u32) -> Result<Option<Moment>> {
    let hour = counted(tx)?;
    let end = hour.begun.after(HOUR);
    Ok((hour.letters >= per_hour && end > tx.moment()).then_some(end))
}

/// Counts a letter before it is sent; when the next one may be, where this one may not.
pub fn count(tx: &OrgWrite<'_>, per_hour: u32) -> Result<Option<Moment>> {
    if let Some(end) = full_until(tx, per_hour)? {
        return Ok(Some(end));
    }
    let hour = counted(tx)?;
    let is_over = hour.begun.after(HOUR) <= tx.moment();
    let (begun, letters) = if is_over { (tx.moment(), 0) } else { (hour.begun, hour.letters) };
    tx.put_over(&HOURS, &(), &HourV1 { begun, letters: letters + 1, ..hour })?;
    Ok(None)
}

/// Counts somebody who is asked; whether there is room for it today.
pub fn count_asked(tx: &OrgWrite<'_>) -> Result<bool> {
    let hour = counted(tx)?;
    let is_over = hour.day_begun.after(DAY) <= tx.moment();
    let (day_begun, asked) = if is_over { (tx.moment(), 0) } else { (hour.day_begun, hour.asked) };
    if asked >= RECIPIENTS_ASKED_PER_DAY_MAX {
        return Ok(false);
    }
    tx.put_over(&HOURS, &(), &HourV1 { day_begun, asked: asked + 1, ..hour })?;
    Ok(true)
}
