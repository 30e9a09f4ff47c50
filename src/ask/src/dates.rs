//! Spans of time in words: "last 7 days", "yesterday", "in October", "since Monday", "from 2026-10-01 to 2026-10-15".
//!
//! Everything is in UTC, a week begins on Monday. "Last 7 days" ends now; "last week" is the calendar's.

use crate::numbers;
use crate::words::Word;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use serde::{Deserialize, Serialize};

/// From this millisecond on, to before that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub from: Option<i64>,
    pub to: Option<i64>,
}

/// A span of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    pub(crate) const WORDS: [(&'static str, Unit); 13] = [
        ("hour", Unit::Hour),
        ("hours", Unit::Hour),
        ("hourly", Unit::Hour),
        ("day", Unit::Day),
        ("days", Unit::Day),
        ("daily", Unit::Day),
        ("week", Unit::Week),
        ("weeks", Unit::Week),
        ("weekly", Unit::Week),
        ("month", Unit::Month),
        ("months", Unit::Month),
        ("monthly", Unit::Month),
        ("year", Unit::Year),
    ];

    pub(crate) fn of(word: &Word) -> Option<Unit> {
        if word.quoted {
            return None;
        }
        if word.is_in(&["years", "yearly", "annually"]) {
            return Some(Unit::Year);
        }
        Unit::WORDS.iter().find(|(name, _)| *name == word.lower).map(|(_, unit)| *unit)
    }

    pub fn name(self) -> &'static str {
        match self {
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        }
    }

    /// The beginning of the span in which a time lies.
    fn start(self, at: DateTime) -> DateTime {
        let day = at.date();
        match self {
            Unit::Hour => day.at(at.hour(), 0, 0, 0),
            Unit::Day => midnight(day),
            Unit::Week => midnight(back(day, i64::from(day.weekday().to_monday_zero_offset()))),
            Unit::Month => midnight(day.first_of_month()),
            Unit::Year => midnight(day.first_of_year()),
        }
    }

    /// So many of them before (or, below zero, after) a time.
    fn before(self, at: DateTime, count: i64) -> DateTime {
        let count = count.clamp(-20_000, 20_000);
        let span = match self {
            Unit::Hour => count.hours(),
            Unit::Day => count.days(),
            Unit::Week => count.weeks(),
            Unit::Month => count.months(),
            Unit::Year => count.clamp(-500, 500).years(),
        };
        at.saturating_sub(span)
    }
}

fn midnight(day: Date) -> DateTime {
    day.at(0, 0, 0, 0)
}

fn back(day: Date, days: i64) -> Date {
    day.saturating_sub(days.days())
}

fn millis(at: DateTime) -> Option<i64> {
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp().as_millisecond())
}

/// A time as it is written in a query.
pub(crate) fn written(ms: i64) -> String {
    let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// A time as people read it.
pub(crate) fn told(ms: i64) -> String {
    let text = written(ms);
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    match time.get(..5) {
        Some("00:00") | None => date.to_owned(),
        Some(time) => format!("{date} {time}"),
    }
}

/// A span that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) window: Window,
    /// Words that it takes.
    pub(crate) used: usize,
    /// What it is one of, if it is one of the calendar.
    pub(crate) unit: Option<Unit>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Every word that belongs to times, for typos.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    let others = [
        "today",
        "yesterday",
        "last",
        "past",
        "previous",
        "this",
        "current",
        "since",
        "until",
        "before",
        "after",
        "between",
        "during",
        "within",
        "ago",
        "from",
        "years",
        "hours",
        "minutes",
    ];
    MONTHS.into_iter().chain(DAYS).chain(others).chain(Unit::WORDS.map(|(word, _)| word))
}

/// Reads spans against one moment.
pub(crate) struct Reader {
    now: DateTime,
}

impl Reader {
    pub(crate) fn new(now_ms: i64) -> Reader {
        let now = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        Reader { now: now.to_zoned(TimeZone::UTC).datetime() }
    }

    /// The span that these words begin with, the words before it ("in the") included.
    pub(crate) fn read(&self, words: &[Word]) -> Option<Span> {
        let first = words.first()?;
        if first.is_in(&["since", "after"]) {
            let (span, used) = self.place(&words[1..])?;
            let from = if first.is("after") { span.to.or(span.from) } else { span.from };
            return Some(Span { window: Window { from, to: None }, used: used + 1, unit: None });
        }
        if first.is_in(&["until", "before", "till"]) {
            let (span, used) = self.place(&words[1..])?;
            let to = if first.is("before") { span.from } else { span.to };
            return Some(Span { window: Window { from: None, to }, used: used + 1, unit: None });
        }
        if first.is_in(&["from", "between"]) {
            let (begin, used) = self.place(&words[1..])?;
            let joint = words.get(1 + used)?;
            if !joint.is_in(&["to", "until", "and", "till"]) {
                return None;
            }
            let (end, more) = self.place(&words[used + 2..])?;
            let window = Window { from: begin.from, to: end.to };
            return Some(Span { window, used: used + more + 2, unit: None });
        }
        let lead = words
            .iter()
            .take(2)
            .take_while(|word| word.is_in(&["in", "on", "during", "within", "over", "the"]));
        let lead = lead.count();
        let mut span = self.bare(&words[lead..], lead > 0)?;
        span.used += lead;
        Some(span)
    }

    /// A place in time: a span whose beginning or end is meant.
    fn place(&self, words: &[Word]) -> Option<(Window, usize)> {
        let skipped = usize::from(words.first()?.is("the"));
        let span = self.bare(&words[skipped..], true)?;
        Some((span.window, span.used + skipped))
    }

    fn bare(&self, words: &[Word], is_led: bool) -> Option<Span> {
        let first = words.first().filter(|word| !word.quoted)?;
        match first.lower.as_str() {
            "today" => return self.calendar(Unit::Day, 0, 1),
            "yesterday" => return self.calendar(Unit::Day, 1, 1),
            "this" | "current" => {
                let unit = words.get(1).and_then(Unit::of)?;
                return self.calendar(unit, 0, 2);
            }
            "last" | "past" | "previous" => return self.last(words),
            _ => {}
        }
        if let Some((count, used)) = numbers::read(words) {
            // "7 days ago": the day, or for hours the time.
            let unit = words.get(used).and_then(Unit::of);
            if let Some(unit) = unit
                && words.get(used + 1).is_some_and(|word| word.is("ago"))
            {
                let at = unit.before(self.now, count as i64);
                let start = if unit == Unit::Hour { at } else { Unit::Day.start(at) };
                let end = if unit == Unit::Hour { at } else { Unit::Day.before(start, -1) };
                return Some(Span { window: window(start, Some(end))?, used: used + 2, unit: None });
            }
        }
        if let Some(span) = self.named_day(first) {
            return Some(span);
        }
        if let Some(span) = self.month(words, is_led) {
            return Some(span);
        }
        self.date(&first.lower, is_led)
    }

    /// The calendar's span so many before the current one; the current one has no end yet.
    fn calendar(&self, unit: Unit, back: i64, used: usize) -> Option<Span> {
        let current = unit.start(self.now);
        let start = unit.before(current, back);
        let end = (back > 0).then(|| unit.before(start, -1));
        Some(Span { window: window(start, end)?, used, unit: Some(unit) })
    }

    /// "last week", "last 7 days", "past three hours".
    fn last(&self, words: &[Word]) -> Option<Span> {
        let is_past = words[0].is("past");
        let next = words.get(1)?;
        if let Some(unit) = Unit::of(next) {
            // An hour or a day that has just gone by is meant as such.
            return match unit {
                Unit::Hour | Unit::Day => self.rolling(unit, 1.0, 2),
                _ if is_past => self.rolling(unit, 1.0, 2),
                _ => self.calendar(unit, 1, 2),
            };
        }
        if let Some(span) = self.named_day(next) {
            return Some(Span { used: 2, ..span });
        }
        if MONTHS.contains(&next.lower.as_str()) {
            let span = self.month(&words[1..], true)?;
            return Some(Span { used: span.used + 1, ..span });
        }
        let couple = next.is("couple") && words.get(2).is_some_and(|word| word.is("of"));
        let (count, used) = if couple { (2.0, 2) } else { numbers::read(&words[1..])? };
        let unit = words.get(1 + used)?;
        if unit.is_in(&["minutes", "minute"]) {
            let from = self.now.saturating_sub((count.clamp(0.0, 1e6) as i64).minutes());
            return Some(Span { window: window(from, None)?, used: used + 2, unit: None });
        }
        self.rolling(Unit::of(unit)?, count, used + 2)
    }

    fn rolling(&self, unit: Unit, count: f64, used: usize) -> Option<Span> {
        let whole = count.fract() == 0.0 && (1.0..=20_000.0).contains(&count);
        if !whole {
            return None;
        }
        let from = unit.before(self.now, count as i64);
        Some(Span { window: window(from, None)?, used, unit: None })
    }

    /// A day of the week: the newest that is not to come.
    fn named_day(&self, word: &Word) -> Option<Span> {
        let at = DAYS.iter().position(|day| word.is(day))?;
        let wanted = Weekday::from_monday_zero_offset(at as i8).ok()?;
        let today = self.now.date();
        let days = i64::from(today.weekday().since(wanted));
        let start = midnight(back(today, days));
        let end = Unit::Day.before(start, -1);
        Some(Span { window: window(start, Some(end))?, used: 1, unit: Some(Unit::Day) })
    }

    /// A month, with its day or year where they are said: the newest that is not to come.
    fn month(&self, words: &[Word], is_led: bool) -> Option<Span> {
        let at = MONTHS.iter().position(|month| words[0].is(month))?;
        // "may" is a word of its own; a month where something leads to it.
        if MONTHS[at] == "may" && !is_led {
            return None;
        }
        let month = at as i8 + 1;
        let year_of = |word: Option<&Word>| word.and_then(|word| year(&word.lower));
        let day = words.get(1).and_then(|word| day_of_month(&word.lower));
        let (year, used) = match (day, year_of(words.get(1)), year_of(words.get(2))) {
            (None, Some(year), _) => (year, 2),
            (Some(_), _, Some(year)) => (year, 3),
            _ => {
                let this = self.now.year();
                let is_to_come = (month, day.unwrap_or(1)) > (self.now.month(), self.now.day());
                (if is_to_come { this - 1 } else { this }, 1 + usize::from(day.is_some()))
            }
        };
        let unit = if day.is_some() { Unit::Day } else { Unit::Month };
        let start = midnight(Date::new(year, month, day.unwrap_or(1)).ok()?);
        let end = unit.before(start, -1);
        Some(Span { window: window(start, Some(end))?, used, unit: Some(unit) })
    }

    /// "2026-10-05", "2026-10", and, where something leads to it, "2026".
    fn date(&self, text: &str, is_led: bool) -> Option<Span> {
        let parts: Vec<&str> = text.split('-').collect();
        let (unit, start) = match parts[..] {
            [year_text] if is_led => (Unit::Year, Date::new(year(year_text)?, 1, 1)),
            [year_text, month] => (Unit::Month, Date::new(year(year_text)?, month.parse().ok()?, 1)),
            [year_text, month, day] => {
                (Unit::Day, Date::new(year(year_text)?, month.parse().ok()?, day.parse().ok()?))
            }
            _ => return None,
        };
        let start = midnight(start.ok()?);
        let end = unit.before(start, -1);
        Some(Span { window: window(start, Some(end))?, used: 1, unit: Some(unit) })
    }
}

fn window(from: DateTime, to: Option<DateTime>) -> Option<Window> {
    let to = match to {
        Some(to) => Some(millis(to)?),
        None => None,
    };
    Some(Window { from: Some(millis(from)?), to })
}

fn year(text: &str) -> Option<i16> {
    let year: i16 = text.parse().ok().filter(|_| text.len() == 4)?;
    (1970..=2200).contains(&year).then_some(year)
}

fn day_of_month(text: &str) -> Option<i8> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let day: i8 = digits.parse().ok()?;
    let ending = &text[digits.len()..];
    ((1..=31).contains(&day) && matches!(ending, "" | "st" | "nd" | "rd" | "th")).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split;

    /// Friday, 2026-11-20T12:00:00Z.
    const NOW: i64 = 1_795_176_000_000;

    fn read(text: &str) -> Option<(String, String, usize)> {
        let span = Reader::new(NOW).read(&split(text))?;
        let told = |ms: Option<i64>| ms.map_or(String::new(), told);
        Some((told(span.window.from), told(span.window.to), span.used))
    }

    #[test]
    fn spans_of_time_are_read() {
        for (text, from, to, used) in [
            ("last 7 days", "2026-11-13 12:00", "", 3),
            ("in the last two weeks", "2026-11-06 12:00", "", 5),
            ("last week", "2026-11-09", "2026-11-16", 2),
            ("this week", "2026-11-16", "", 2),
            ("yesterday", "2026-11-19", "2026-11-20", 1),
            ("last hour", "2026-11-20 11:00", "", 2),
            ("past 90 minutes", "2026-11-20 10:30", "", 3),
            ("in october", "2026-10-01", "2026-11-01", 2),
            ("in december", "2025-12-01", "2026-01-01", 2),
            ("in may 2025", "2025-05-01", "2025-06-01", 3),
            ("on november 5th", "2026-11-05", "2026-11-06", 3),
            ("since monday", "2026-11-16", "", 2),
            ("since september", "2026-09-01", "", 2),
            ("before 2026-11-01", "", "2026-11-01", 2),
            ("from 2026-10-01 to 2026-10-15", "2026-10-01", "2026-10-16", 4),
            ("between october and november", "2026-10-01", "2026-12-01", 4),
            ("in 2026", "2026-01-01", "2027-01-01", 2),
            ("3 days ago", "2026-11-17", "2026-11-18", 3),
            ("last month", "2026-10-01", "2026-11-01", 2),
        ] {
            assert_eq!(read(text), Some((from.to_owned(), to.to_owned(), used)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_left() {
        for text in [
            "may be",
            "2026",
            "jobs",
            "last",
            "last 0 days",
            "since",
            "from shop.example",
            "2026-13-45",
            "the",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let huge = format!("last {} years", "9".repeat(15));
        assert_eq!(read(&huge), None);
    }
}
