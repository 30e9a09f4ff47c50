use super::*;

fn date(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The first times behind `from`, in the zone's own clocks with their offset.
fn fires(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let times = Times::read(cron, zone).unwrap_or_else(|e| panic!("{cron}: {e:?}"));
    let mut at = date(from);
    let mut all = Vec::new();
    for _ in 0..count {
        at = times.after(at).unwrap_or_else(|| panic!("{cron} has no time behind {at}"));
        let instant = Instant::from_millisecond(at.millis()).unwrap();
        let (time, offset) = (times.zone.to_datetime(instant), times.zone.to_offset(instant));
        all.push(format!("{}{offset}", time.strftime("%m-%dT%H:%M")));
    }
    all
}

/// Each line: the expression, the zone, an instant, and the times behind it.
///
/// Gaps and overlaps of 2026: Berlin 03-29 02:00 → 03:00 and 10-25 03:00 → 02:00; New York 03-08 and 11-01, at 02:00; Lord
/// Howe by half an hour, 04-05 02:00 → 01:30 and 10-04 02:00 → 02:30; Santiago 09-06 00:00 → 01:00, so that the day has no
/// midnight, and 04-05 00:00 → 23:00; Casablanca 02-15 03:00 → 02:00 and 03-22 02:00 → 03:00, for Ramadan; Cairo 04-24
/// 00:00 → 01:00; Apia had no 30th of December 2011; São Paulo had no midnight on 2018-11-04; Dublin as London.
const TABLE: &[(&str, &str, &str, &[&str])] = &[
    // A time in a gap comes at its end, once; the next day it is where it was.
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", &["03-29T03:00+02", "03-30T02:30+02"]),
    ("0 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", &["03-29T03:00+02", "03-30T02:00+02"]),
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", &["03-29T03:00+02", "03-30T02:00+02"]),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", &["03-29T03:00+02", "03-30T02:00+02"]),
    (
        "30 1,2,3 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00Z",
        &["03-29T01:30+01", "03-29T03:00+02", "03-29T03:30+02"],
    ),
    ("0-59/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", &["03-29T03:00+02", "03-30T02:00+02"]),
    ("30 2 29 3 *", "Europe/Berlin", "2026-01-01T00:00Z", &["03-29T03:00+02"]),
    ("30 2 * * 0", "America/New_York", "2026-03-07T12:00Z", &["03-08T03:00-04", "03-15T02:30-04"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", &["10-04T02:30+11", "10-05T02:15+11"]),
    ("0 0 * * *", "America/Santiago", "2026-09-05T12:00Z", &["09-06T01:00-03", "09-07T00:00-03"]),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00Z", &["04-24T01:00+03", "04-25T00:00+03"]),
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", &["11-04T01:00-02", "11-05T00:00-02"]),
    ("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00Z", &["03-22T03:00+01", "03-23T02:30+01"]),
    (
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-29T12:00Z",
        &["12-29T12:00-10", "12-31T00:00+14", "12-31T12:00+14"],
    ),
    ("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00Z", &["12-31T00:00+14", "12-30T12:00+14"]),
    ("30 1 * * *", "Europe/Dublin", "2026-03-28T12:00Z", &["03-29T02:00+01", "03-30T01:30+01"]),
    // In an overlap it comes once, the first time.
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", &["10-25T02:30+02", "10-26T02:30+01"]),
    ("0,30 2 * * *", "Europe/Berlin", "2026-10-25T00:29Z", &["10-25T02:30+02", "10-26T02:00+01"]),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", &["10-26T02:30+01"]),
    ("0 3 * * *", "Europe/Berlin", "2026-10-25T01:10Z", &["10-25T03:00+01"]),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00Z", &["11-01T01:30-04", "11-02T01:30-05"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", &["04-05T01:45+11", "04-06T01:45+10:30"]),
    ("30 23 * * *", "America/Santiago", "2026-04-04T12:00Z", &["04-04T23:30-03", "04-05T23:30-04"]),
    ("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00Z", &["02-15T02:30+01", "02-16T02:30+00"]),
    // A pace keeps real time: nothing comes late in a gap, and an overlap has both passes.
    (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:20Z",
        &["03-29T01:30+01", "03-29T03:00+02", "03-29T03:30+02"],
    ),
    (
        "0 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:30Z",
        &["10-25T02:00+02", "10-25T02:00+01", "10-25T03:00+01"],
    ),
    (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T00:00Z",
        &["10-25T02:30+02", "10-25T02:00+01", "10-25T02:30+01"],
    ),
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", &["03-30T02:00+02", "03-30T02:30+02"]),
    (
        "*/30 2 * * *",
        "Europe/Berlin",
        "2026-10-25T00:10Z",
        &["10-25T02:30+02", "10-25T02:00+01", "10-25T02:30+01", "10-26T02:00+01"],
    ),
    ("0 */2 * * *", "Europe/Berlin", "2026-03-28T23:30Z", &["03-29T04:00+02", "03-29T06:00+02"]),
    (
        "*/15 * * * *",
        "Australia/Lord_Howe",
        "2026-10-03T15:10Z",
        &["10-04T01:45+10:30", "10-04T02:30+11", "10-04T02:45+11"],
    ),
    (
        "*/15 * * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:40Z",
        &["04-05T01:45+11", "04-05T01:30+10:30", "04-05T01:45+10:30", "04-05T02:00+10:30"],
    ),
    (
        "0 * * * *",
        "Pacific/Apia",
        "2011-12-30T08:30Z",
        &["12-29T23:00-10", "12-31T00:00+14", "12-31T01:00+14"],
    ),
    ("30 * * * *", "Asia/Kathmandu", "2026-01-01T00:00Z", &["01-01T06:30+05:45", "01-01T07:30+05:45"]),
    // The calendar.
    ("0 0 29 2 *", "UTC", "2026-01-01T00:00Z", &["02-29T00:00+00", "02-29T00:00+00"]),
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00Z", &["02-29T00:00+00"]),
    (
        "0 0 L * *",
        "UTC",
        "2028-01-15T00:00Z",
        &["01-31T00:00+00", "02-29T00:00+00", "03-31T00:00+00", "04-30T00:00+00"],
    ),
    ("0 0 31 * *", "UTC", "2026-03-01T00:00Z", &["03-31T00:00+00", "05-31T00:00+00", "07-31T00:00+00"]),
    // 2026-08-15 is a Saturday, 11-15 a Sunday, 2026-08-01 a Saturday whose Friday is another month's.
    (
        "0 0 15W * *",
        "UTC",
        "2026-08-01T00:00Z",
        &["08-14T00:00+00", "09-15T00:00+00", "10-15T00:00+00", "11-16T00:00+00"],
    ),
    ("0 0 1W 8 *", "UTC", "2026-07-01T00:00Z", &["08-03T00:00+00"]),
    // 2026-05-31 is a Sunday.
    ("0 0 LW * *", "UTC", "2026-05-01T00:00Z", &["05-29T00:00+00", "06-30T00:00+00"]),
    ("0 0 31W 5 *", "UTC", "2026-05-01T00:00Z", &["05-29T00:00+00"]),
    // Fridays of October 2026: 2, 9, 16, 23, 30.
    ("0 0 * * 5L", "UTC", "2026-10-01T00:00Z", &["10-30T00:00+00", "11-27T00:00+00"]),
    ("0 0 * * FRI#5", "UTC", "2026-10-01T00:00Z", &["10-30T00:00+00", "01-29T00:00+00"]),
    ("0 0 * * 5#1,5#3", "UTC", "2026-10-01T00:00Z", &["10-02T00:00+00", "10-16T00:00+00", "11-06T00:00+00"]),
    ("0 0 * * SUN", "UTC", "2026-10-01T00:00Z", &["10-04T00:00+00", "10-11T00:00+00"]),
    ("0 0 * * 7", "UTC", "2026-10-01T00:00Z", &["10-04T00:00+00", "10-11T00:00+00"]),
    ("0 0 * * SAT-SUN", "UTC", "2026-10-01T00:00Z", &["10-03T00:00+00", "10-04T00:00+00", "10-10T00:00+00"]),
    // Both days restricted: either is enough, as in every cron since 1979.
    ("0 0 13 * 5", "UTC", "2026-11-01T00:00Z", &["11-06T00:00+00", "11-13T00:00+00", "11-20T00:00+00"]),
    ("0 0 1 * 1", "UTC", "2026-10-28T00:00Z", &["11-01T00:00+00", "11-02T00:00+00", "11-09T00:00+00"]),
    ("0 0 ? * MON", "UTC", "2026-10-28T00:00Z", &["11-02T00:00+00"]),
    ("@weekly", "UTC", "2026-10-01T00:00Z", &["10-04T00:00+00"]),
    ("@monthly", "Europe/Berlin", "2026-10-01T00:00Z", &["11-01T00:00+01"]),
    ("@yearly", "Pacific/Kiritimati", "2026-10-01T00:00Z", &["01-01T00:00+14"]),
    ("@hourly", "Asia/Kolkata", "2026-10-01T00:00Z", &["10-01T06:00+05:30"]),
];

#[test]
fn gaps_overlaps_and_the_calendar() {
    for (cron, zone, from, expected) in TABLE {
        let found = fires(cron, zone, &from.replace("Z", ":00Z"), expected.len());
        assert_eq!(found, *expected, "{cron} in {zone} behind {from}");
    }
}

#[test]
fn seconds_are_kept() {
    let times = Times::read("*/20 * * * * *", "UTC").unwrap();
    let mut at = date("2026-01-01T00:00:30.500Z");
    for expected in ["2026-01-01T00:00:40.000Z", "2026-01-01T00:01:00.000Z"] {
        at = times.after(at).unwrap();
        assert_eq!(at.to_string(), expected);
    }
    // A whole second that is there is behind nothing but the one before.
    assert_eq!(times.after(date("2026-01-01T00:00:39.999Z")), Some(date("2026-01-01T00:00:40Z")));
    assert_eq!(times.after(date("2026-01-01T00:00:40Z")), Some(date("2026-01-01T00:01:00Z")));
}

#[test]
fn what_never_comes_and_unknown_zones_are_refused() {
    let now = date("2026-01-01");
    let refused = |cron, zone| Times::parse(cron, zone, now).unwrap_err();
    assert_eq!(refused("0 0 30 2 *", "UTC").field, "cron");
    assert_eq!(refused("0 0 31 4,6 *", "UTC").field, "cron");
    for zone in ["Europe/Atlantis", "", "CEST+1", "../etc/passwd", "Europe/Berlin\0"] {
        assert_eq!(refused("@daily", zone).field, "timezone", "{zone}");
    }
    assert_eq!(zone_name("europe/berlin"), Ok("Europe/Berlin"));
    assert!(Times::parse("@daily", "utc", now).is_ok());
}

#[test]
fn the_newest_times_are_found_without_a_walk_over_all() {
    let times = Times::read("* * * * * *", "UTC").unwrap();
    let (low, high) = (date("2025-01-01"), date("2026-01-01"));
    let (newest, all) = times.newest(low, high, 3);
    let texts: Vec<_> = newest.iter().map(Timestamp::to_string).collect();
    assert_eq!(texts, ["2025-12-31T23:59:58.000Z", "2025-12-31T23:59:59.000Z", "2026-01-01T00:00:00.000Z"]);
    assert!(!all);
    let times = Times::read("0 0 1 1 *", "UTC").unwrap();
    assert_eq!(times.newest(low, high, 5), (vec![high], true));
    let (newest, all) = times.newest(date("2020-01-01"), high, 5);
    assert_eq!((newest.len(), newest[0], all), (5, date("2022-01-01"), false));
    assert_eq!(times.newest(high, high, 5), (vec![], true));
}

/// Where we fire otherwise than `facts.txt` says: the question, and what we answer.
///
/// All three are of clocks that are not set by whole hours: cronsim steps by hours of real time and passes over the first time
/// behind the change, which exists and is named (03:00 on Lord Howe, 01:30 in St. John's).
const DIFFERENT: &[(&str, &str)] = &[
    (
        "0 */3 * * * | Australia/Lord_Howe | 2026-04-04T15:20",
        "2026-04-04T16:30 2026-04-04T19:30 2026-04-04T22:30 2026-04-05T01:30 2026-04-05T04:30",
    ),
    (
        "0 */3 * * * | Australia/Lord_Howe | 2026-10-03T15:50",
        "2026-10-03T16:00 2026-10-03T19:00 2026-10-03T22:00 2026-10-04T01:00 2026-10-04T04:00",
    ),
    (
        "*/30 1-3 * * * | America/St_Johns | 2011-03-13T03:21",
        "2011-03-13T04:00 2011-03-13T04:30 2011-03-13T05:00 2011-03-13T05:30 2011-03-13T06:00",
    ),
];

/// What an independent implementation answers (`facts.py` says which and how), in sixteen zones around each change of clocks.
#[test]
fn another_implementation_agrees() {
    let instant = |text: &str| date(&format!("{text}:00Z"));
    let mut different = Vec::new();
    let facts: Vec<_> = include_str!("facts.txt").lines().collect();
    for line in &facts {
        let (question, expected) = line.rsplit_once(" | ").unwrap();
        let [cron, zone, from] = question.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let times = Times::read(cron, zone).unwrap_or_else(|e| panic!("{line}: {e:?}"));
        let mut at = instant(from);
        let found = expected.split(' ').map(|_| {
            at = times.after(at).unwrap_or_else(|| panic!("{line}: no time behind {at}"));
            at.to_string().trim_end_matches(":00.000Z").to_owned()
        });
        let found = found.collect::<Vec<_>>().join(" ");
        if found != expected {
            different.push((question, found));
        }
    }
    let known: Vec<_> = DIFFERENT.iter().map(|(question, ours)| (*question, (*ours).to_owned())).collect();
    assert_eq!(different, known, "of {} facts", facts.len());
    assert!(facts.len() > 400);
}

/// One field as a plain list of what it names.
fn plain(text: &str, min: i8, max: i8) -> Vec<i8> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (range, step) =
            part.split_once('/').map_or((part, 1), |(range, step)| (range, step.parse().unwrap()));
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        };
        all.extend((first..=last).step_by(step));
    }
    all
}

/// Cron as its manual says it, for expressions of numbers.
struct Plain {
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Option<Vec<i8>>,
    months: Vec<i8>,
    weekdays: Option<Vec<i8>>,
    is_interval: bool,
}

impl Plain {
    fn new(cron: &str) -> Plain {
        let fields: Vec<_> = cron.split(' ').collect();
        let unless_any = |text: &str, min, max| (text != "*").then(|| plain(text, min, max));
        Plain {
            minutes: plain(fields[0], 0, 59),
            hours: plain(fields[1], 0, 23),
            days: unless_any(fields[2], 1, 31),
            months: plain(fields[3], 1, 12),
            weekdays: unless_any(fields[4], 0, 7),
            is_interval: fields[0].contains('*') || fields[1].contains('*'),
        }
    }

    fn names(&self, time: DateTime) -> bool {
        if !self.minutes.contains(&time.minute())
            || !self.hours.contains(&time.hour())
            || !self.months.contains(&time.month())
        {
            return false;
        }
        let weekday = time.weekday().to_sunday_zero_offset();
        let on_weekday = |all: &Vec<i8>| all.contains(&weekday) || weekday == 0 && all.contains(&7);
        match (&self.days, &self.weekdays) {
            (None, None) => true,
            (Some(days), None) => days.contains(&time.day()),
            (None, Some(weekdays)) => on_weekday(weekdays),
            (Some(days), Some(weekdays)) => days.contains(&time.day()) || on_weekday(weekdays),
        }
    }
}

/// An instant, what clocks show then, and that time as minutes since some day.
type Shown = (Instant, DateTime, i64);

/// What a person with a clock on the wall would do, minute by minute.
fn walked(cron: &Plain, shown: &[Shown]) -> Vec<Instant> {
    let mut fired = Vec::new();
    // The latest time that the clock has shown; what it shows again is not new.
    let mut reached = shown[0].2 - 1;
    for (instant, time, minutes) in shown {
        let is_due = if cron.is_interval {
            cron.names(*time)
        } else {
            let mut came = false;
            // More than one minute where the clock was set forward.
            for back in 0..(minutes - reached).max(0) {
                came |= cron.names(time.checked_sub(SignedDuration::from_mins(back)).unwrap());
            }
            reached = reached.max(*minutes);
            came
        };
        if is_due {
            fired.push(*instant);
        }
    }
    fired
}

/// Two years of clocks on the wall in a zone; they are set at quarters of an hour only.
fn clocks(zone: &str, first: &str) -> (TimeZone, Vec<Shown>) {
    let (_, zone) = super::zone(zone).unwrap();
    let first = Instant::from_millisecond(date(first).millis()).unwrap();
    let day = DateTime::constant(2000, 1, 1, 0, 0, 0, 0);
    let mut shown = Vec::new();
    for quarter in 0..2 * 366 * 96 {
        let at = first.checked_add(SignedDuration::from_mins(15 * quarter)).unwrap();
        let time = zone.to_datetime(at);
        let minutes = time.duration_since(day).as_mins();
        for minute in 0..15 {
            let on = SignedDuration::from_mins(minute);
            shown.push((at.checked_add(on).unwrap(), time.checked_add(on).unwrap(), minutes + minute));
        }
    }
    (zone, shown)
}

/// A small generator with a seed, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn field(&mut self, min: u64, max: u64, any: u64) -> String {
        let span = max - min;
        match self.below(4 + any) {
            0 => (min + self.below(span + 1)).to_string(),
            1 => {
                let first = min + self.below(span);
                format!("{first}-{}", first + 1 + self.below(max - first))
            }
            2 => format!("{},{}", min + self.below(span + 1), min + self.below(span + 1)),
            3 => format!("*/{}", 1 + self.below(span)),
            _ => "*".to_owned(),
        }
    }

    fn cron(&mut self) -> String {
        // Hours of the night are where clocks are set.
        let hour = if self.below(2) == 0 { self.field(0, 4, 1) } else { self.field(0, 23, 2) };
        [self.field(0, 59, 2), hour, self.field(1, 31, 8), self.field(1, 12, 8), self.field(0, 7, 8)]
            .join(" ")
    }
}

/// Two simulated years in zones with every kind of change, against the walk above.
#[test]
fn two_years_agree_with_a_walk_minute_by_minute() {
    let fixed = ["*/30 * * * *", "30 2 * * *", "0 0 * * *", "15,45 1-3 * * *"];
    let mut dice = Dice(0x5EED_0E14);
    let (mut compared, mut gaps) = (0, 0);
    for (zone, first) in [
        ("Europe/Berlin", "2025-06-01"),
        ("America/New_York", "2026-01-01"),
        ("Australia/Lord_Howe", "2026-01-01"),
        ("America/Santiago", "2026-01-01"),
        ("Africa/Casablanca", "2026-01-01"),
        ("Africa/Cairo", "2026-01-01"),
        ("America/Sao_Paulo", "2017-06-01"),
        ("Pacific/Apia", "2011-01-01"),
        ("Antarctica/Troll", "2026-01-01"),
        ("Asia/Kathmandu", "2026-01-01"),
    ] {
        let (zone_of, shown) = clocks(zone, first);
        gaps += shown.windows(2).filter(|pair| pair[1].2 > pair[0].2 + 1).count();
        let random: Vec<_> = (0..2).map(|_| dice.cron()).collect();
        for cron in fixed.iter().map(|cron| (*cron).to_owned()).chain(random) {
            let expected = walked(&Plain::new(&cron), &shown);
            let times = Times { cron: Cron::parse(&cron).unwrap(), zone: zone_of.clone() };
            let last = shown.last().unwrap().0;
            let mut at = Timestamp(shown[0].0.as_millisecond() - 1_000);
            for instant in &expected {
                let next = times.after(at).map(Timestamp::millis);
                assert_eq!(next, Some(instant.as_millisecond()), "{cron} in {zone} behind {at}");
                at = Timestamp(instant.as_millisecond());
            }
            let beyond = times.after(at);
            assert!(beyond.is_none_or(|next| next.millis() > last.as_millisecond()), "{cron} in {zone}");
            compared += expected.len();
        }
    }
    assert!(compared > 150_000 && gaps > 15, "{compared} times, {gaps} gaps");
}
