//! Dates as feeds write them: the W3C's profile of ISO 8601 (RFC 3339 among it) and RFC 822 with what is usual beside it.
//!
//! Sources: w3.org/TR/NOTE-datetime; RFC 3339; RFC 822, section 5, as RFC 5322, section 4.3, reads old dates; the forms of
//! RFC 9110, section 5.6.7 (HTTP's two old ones). What names no zone is taken as UTC.

use base::clock::Timestamp;

/// How much of a date was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    Year,
    Month,
    Day,
    Minute,
    /// A second or a fraction of it.
    Second,
}

/// A date as it was written: when it begins, and how much of it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// The first instant that it can mean.
    pub at: Timestamp,
    pub precision: Precision,
}

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

impl Date {
    /// The last instant that it can mean: a page with a `lastmod` of today may have changed up to the day's end.
    pub fn latest(self) -> Timestamp {
        let Timestamp(at) = self.at;
        let (year, month, _) = civil(at.div_euclid(DAY_MS));
        let length = match self.precision {
            Precision::Year => (days(year + 1, 1, 1) - days(year, 1, 1)) * DAY_MS,
            Precision::Month => i64::from(days_in(year, month)) * DAY_MS,
            Precision::Day => DAY_MS,
            Precision::Minute => MINUTE_MS,
            Precision::Second => SECOND_MS - at.rem_euclid(SECOND_MS),
        };
        Timestamp(at + length - 1)
    }

    /// Reads a date in any of the forms that occur in feeds and sitemaps.
    pub fn parse(text: &str) -> Option<Date> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        w3c(text).or_else(|| rfc_822(text))
    }
}

/// Longer than any date.
const TEXT_BYTES_MAX: usize = 100;

/// Days since 1970-01-01 of a day in the Gregorian calendar (H. Hinnant's `days_from_civil`).
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The other way: year, month and day.
fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month as u32, day as u32)
}

fn days_in(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// A time of day with what was said of it.
struct Time {
    ms: i64,
    precision: Precision,
}

fn date(year: i64, month: u32, day: u32, time: Option<Time>, offset_minutes: i64) -> Option<Date> {
    let is_day =
        (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !is_day {
        return None;
    }
    let (ms, precision) = time.map_or((0, Precision::Day), |time| (time.ms, time.precision));
    let at = days(year, month, day) * DAY_MS + ms - offset_minutes * MINUTE_MS;
    Some(Date { at: Timestamp(at), precision })
}

/// `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`. 24:00 is the next day's beginning, and a leap second the next minute's.
fn time(text: &str) -> Option<Time> {
    let mut parts = text.split(':');
    let hours = number(parts.next()?, 1, 2)?;
    let minutes = number(parts.next()?, 1, 2)?;
    let (seconds, fraction, precision) = match parts.next() {
        None => (0, 0, Precision::Minute),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, "0"));
            (number(whole, 1, 2)?, milliseconds(fraction)?, Precision::Second)
        }
    };
    let is_end_of_day = hours == 24 && minutes == 0 && seconds == 0;
    if parts.next().is_some() || (hours > 23 && !is_end_of_day) || minutes > 59 || seconds > 60 {
        return None;
    }
    let ms = (hours * 60 + minutes) * MINUTE_MS + seconds * SECOND_MS + fraction;
    Some(Time { ms, precision })
}

/// The first three digits of a fraction of a second.
fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digit = |at: usize| fraction.as_bytes().get(at).map_or(0, |byte| i64::from(byte - b'0'));
    Some(digit(0) * 100 + digit(1) * 10 + digit(2))
}

/// A number of so many digits.
fn number(text: &str, least: usize, most: usize) -> Option<i64> {
    let fits = (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

/// `2004`, `2004-01`, `2004-01-02`, `20040102`, and with a time behind `T` or a space.
fn w3c(text: &str) -> Option<Date> {
    let (day, rest) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(text[at + 1..].trim_start())),
        None => (text, None),
    };
    let (year, month, day) = match day.split('-').collect::<Vec<_>>()[..] {
        [year] if rest.is_none() && year.len() == 4 => (year, None, None),
        [whole] if whole.len() == 8 && whole.is_ascii() => {
            (&whole[..4], Some(&whole[4..6]), Some(&whole[6..]))
        }
        [year, month] if rest.is_none() => (year, Some(month), None),
        [year, month, day] => (year, Some(month), Some(day)),
        _ => return None,
    };
    let numbers =
        |part: Option<&str>| part.map_or(Some(1), |part| number(part, 1, 2)).map(|part| part as u32);
    let is_part = (month.is_none(), day.is_none());
    let (year, month, day) = (number(year, 4, 4)?, numbers(month)?, numbers(day)?);
    let Some(rest) = rest else {
        let found = date(year, month, day, None, 0)?;
        let precision = match is_part {
            (true, _) => Precision::Year,
            (_, true) => Precision::Month,
            _ => Precision::Day,
        };
        return Some(Date { precision, ..found });
    };
    let zone_at = rest.find(|c: char| !c.is_ascii_digit() && !":.,".contains(c)).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    date(year, month, day, Some(time(clock)?), offset(zone.trim())?)
}

/// Minutes east of Greenwich.
fn offset(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.strip_prefix('+') {
        Some(digits) => (1, digits),
        None => match zone.strip_prefix(['-', '\u{2212}']) {
            Some(digits) => (-1, digits),
            None => return named_offset(zone),
        },
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (number(hours, 1, 2)?, number(minutes, 2, 2)?),
        None if digits.len() > 2 => {
            let (hours, minutes) = digits.split_at_checked(digits.len() - 2)?;
            (number(hours, 1, 2)?, number(minutes, 2, 2)?)
        }
        None => (number(digits, 1, 2)?, 0),
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// RFC 822's names, and those of neighbours that everybody writes. Its letters of the military are all taken as UTC, because it
/// had their signs wrong (RFC 5322, section 4.3).
fn named_offset(zone: &str) -> Option<i64> {
    let zone = zone.to_ascii_uppercase();
    let hours = match zone.as_str() {
        "" | "Z" | "UT" | "UTC" | "GMT" => 0,
        "AST" => -4,
        "EST" => -5,
        "EDT" => -4,
        "CST" => -6,
        "CDT" => -5,
        "MST" => -7,
        "MDT" => -6,
        "PST" => -8,
        "PDT" => -7,
        "WET" => 0,
        "WEST" | "BST" | "CET" | "MEZ" => 1,
        "CEST" | "MESZ" | "EET" => 2,
        "EEST" | "MSK" => 3,
        "JST" | "KST" => 9,
        "AEST" => 10,
        "AEDT" => 11,
        "NZST" => 12,
        "NZDT" => 13,
        letter if letter.len() == 1 && letter != "J" => 0,
        // `GMT+0100`, `UTC-5`.
        other => {
            let behind = other.strip_prefix("GMT").or_else(|| other.strip_prefix("UTC"))?;
            return behind.starts_with(['+', '-']).then(|| offset(behind)).flatten();
        }
    };
    Some(hours * 60)
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// `Fri, 02 Jan 2004 03:04:05 GMT` and what is usual beside it: no weekday, no comma, no seconds, no zone, two digits of a
/// year, full names, the month first, dashes (RFC 850), the year last (`asctime`), comments in parentheses.
fn rfc_822(text: &str) -> Option<Date> {
    let text = without_comments(text)?;
    let (mut numbers, mut month, mut clock, mut zone) = (Vec::new(), None, None, None);
    let mut half = None;
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        let lower = word.to_ascii_lowercase();
        if clock.is_none() && word.contains(':') && word.starts_with(|c: char| c.is_ascii_digit()) {
            // A zone may stand right behind the time.
            let end = word.find(|c: char| !c.is_ascii_digit() && !":.".contains(c)).unwrap_or(word.len());
            clock = Some(time(&word[..end])?);
            zone = Some(&word[end..]).filter(|zone| !zone.is_empty());
        } else if let Some(found) = named(&MONTHS, &lower).filter(|_| month.is_none()) {
            month = Some(found);
        } else if named(&WEEKDAYS, &lower).is_some() {
        } else if matches!(lower.as_str(), "am" | "pm") && clock.is_some() {
            half = Some(lower == "pm");
        } else if let [day, name, year] = word.split('-').collect::<Vec<_>>()[..]
            && month.is_none()
            && numbers.is_empty()
        {
            month = Some(named(&MONTHS, &name.to_ascii_lowercase())?);
            numbers = vec![day, year];
        } else if word.bytes().all(|byte| byte.is_ascii_digit()) && numbers.len() < 2 {
            numbers.push(word);
        } else if zone.is_none() {
            zone = Some(word);
        } else if zone.is_some_and(|zone| named_offset(zone) == Some(0)) && word.starts_with(['+', '-']) {
            // `GMT +0100`
            zone = Some(word);
        } else {
            return None;
        }
    }
    let [first, second] = numbers[..] else { return None };
    let (day, year) = if first.len() > 2 { (second, first) } else { (first, second) };
    let (day, month) = (number(day, 1, 2)? as u32, month? as u32 + 1);
    let clock = halved(clock, half)?;
    date(full_year(year)?, month, day, clock, offset(zone.unwrap_or_default())?)
}

/// A time with `am` or `pm` behind it.
fn halved(clock: Option<Time>, is_afternoon: Option<bool>) -> Option<Option<Time>> {
    let (Some(clock), Some(is_afternoon)) = (&clock, is_afternoon) else { return Some(clock) };
    let noon = DAY_MS / 2;
    let is_known = (DAY_MS / 24..noon + DAY_MS / 24).contains(&clock.ms);
    let ms = clock.ms % noon + if is_afternoon { noon } else { 0 };
    is_known.then_some(Some(Time { ms, precision: clock.precision }))
}

/// Which of these names (of three letters) a word is, written out or not: `sep`, `sept`, `september.`.
fn named(names: &[&str], word: &str) -> Option<usize> {
    let word = word.trim_end_matches('.');
    let letters = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    names.iter().position(|name| letters && word.starts_with(name) && is_form_of(name, word))
}

/// Whether a word is the name, short or whole: `sat` and `saturday`, but not `satellite`.
fn is_form_of(name: &str, word: &str) -> bool {
    const WHOLE: [&str; 23] = [
        "january",
        "february",
        "march",
        "april",
        "june",
        "july",
        "august",
        "september",
        "sept",
        "october",
        "november",
        "december",
        "monday",
        "tuesday",
        "tues",
        "wednesday",
        "thursday",
        "thur",
        "thurs",
        "friday",
        "saturday",
        "sunday",
        "weds",
    ];
    word == name || WHOLE.contains(&word)
}

/// Years of two digits are of 1950 to 2049, of three from 1900 on (RFC 5322, section 4.3).
fn full_year(text: &str) -> Option<i64> {
    let year = number(text, 2, 4)?;
    Some(match text.len() {
        2 if year < 50 => 2000 + year,
        2 | 3 => 1900 + year,
        _ => year,
    })
}

/// Takes out what stands in parentheses, where a backslash takes away the meaning of what follows it.
fn without_comments(text: &str) -> Option<String> {
    let mut depth = 0_usize;
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '(' => {
                depth += 1;
                out.push(' ');
            }
            ')' => depth = depth.checked_sub(1)?,
            '\\' if depth > 0 => _ = characters.next(),
            _ if depth == 0 => out.push(character),
            _ => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<String> {
        Date::parse(text).map(|date| format!("{} {:?}", date.at, date.precision))
    }

    /// Each is 2004-01-02T03:04:05Z, however it is written.
    #[test]
    fn one_instant_in_every_form() {
        for text in [
            "2004-01-02T03:04:05Z",
            "2004-01-02t03:04:05z",
            "2004-01-02T03:04:05",
            "2004-01-02 03:04:05",
            "2004-01-02  03:04:05 UTC",
            "2004-01-02T03:04:05.000+00:00",
            "2004-01-02T03:04:05,0004Z",
            "2004-01-02T04:34:05+01:30",
            "2004-01-02T04:04:05+01",
            "2004-01-01T22:04:05-0500",
            "20040102T03:04:05Z",
            " \n2004-01-02T03:04:05Z ",
            "Fri, 02 Jan 2004 03:04:05 GMT",
            "Fri, 2 Jan 2004 03:04:05 +0000",
            "fri, 02 JAN 2004 03:04:05 gmt",
            "Friday, 02 January 2004 03:04:05 UT",
            "Fri 02 Jan 2004 03:04:05 Z",
            "02 Jan 2004 03:04:05",
            "2 Jan 04 03:04:05 UTC",
            "Fri, 02 Jan 104 03:04:05 GMT",
            "Thu, 01 Jan 2004 22:04:05 EST",
            "Thu, 01 Jan 2004 19:04:05 PST",
            "Fri, 02 Jan 2004 04:04:05 CET",
            "Fri, 02 Jan 2004 04:04:05 +01:00",
            "Fri, 02 Jan 2004 04:04:05+0100",
            "Fri, 02 Jan 2004 04:04:05 GMT+0100",
            "Fri, 02 Jan 2004 04:04:05 GMT +0100",
            "Fri, 02 Jan 2004 03:04:05 M",
            "Fri, 02 Jan 2004 03:04:05 GMT (Greenwich (mean))",
            "Fri, 02 (nested (comment) Mar)Jan(escaped comment\\) 2005) 2004()03:04:05 +0000",
            "Friday, 02-Jan-04 03:04:05 GMT",
            "Fri Jan  2 03:04:05 2004",
            "Fri Jan  2 03:04:05 GMT 2004",
            "Jan 2, 2004 3:04:05 AM",
            "Fri,02 Jan 2004 03:04:05.000 GMT",
            "Mon, 02 Jan 2004 03:04:05 GMT",
        ] {
            assert_eq!(at(text).as_deref(), Some("2004-01-02T03:04:05.000Z Second"), "{text}");
        }
    }

    #[test]
    fn what_was_not_said_is_not_made_up() {
        for (text, expected) in [
            ("2004", "2004-01-01T00:00:00.000Z Year"),
            ("2004-02", "2004-02-01T00:00:00.000Z Month"),
            ("2004-02-29", "2004-02-29T00:00:00.000Z Day"),
            ("20040229", "2004-02-29T00:00:00.000Z Day"),
            ("2004-2-9", "2004-02-09T00:00:00.000Z Day"),
            ("2004-02-29T24:00Z", "2004-03-01T00:00:00.000Z Minute"),
            ("2004-12-31T23:59:60Z", "2005-01-01T00:00:00.000Z Second"),
            ("2004-01-02T03:04:05.6789Z", "2004-01-02T03:04:05.678Z Second"),
            ("2 Jan 2004", "2004-01-02T00:00:00.000Z Day"),
            ("Sept. 5, 1999", "1999-09-05T00:00:00.000Z Day"),
            ("31 Dec 49 23:30 -0100", "2050-01-01T00:30:00.000Z Minute"),
            ("1 Jan 50 12:00 PM", "1950-01-01T12:00:00.000Z Minute"),
            ("1 Jan 1950 12:00 am", "1950-01-01T00:00:00.000Z Minute"),
        ] {
            assert_eq!(at(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "now",
            "0",
            "2004-13-01",
            "2004-00-01",
            "2003-02-29",
            "2004-02-30",
            "2004-01-02T25:00Z",
            "2004-01-02T",
            "2004-01-02T03:60Z",
            "2004-01-02T03:04:05Q9",
            "2004-01-02T03:04:05+2500",
            "32 Jan 2004",
            "1 Foo 2004",
            "Fri, 02 Jan 2004 03:04:05 Nowhere",
            "02/03/2004",
            "Jan 2004",
            "12:00",
            "1 Jan 2004 13:00 PM",
            "1 2 Jan 2004 3",
            "2 Jan 2004 03:04:05 )",
            "\u{2212}\u{2212}",
            "２００４",
            "99999999999999999999",
            "satellite 1 Jan 2004 x",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
        assert_eq!(at(&"1".repeat(1000)), None);
    }

    #[test]
    fn the_calendar_goes_both_ways() {
        for day in (-800_000..3_000_000).step_by(37) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1)), (0, 11_017));
    }

    #[test]
    fn a_date_lasts_as_long_as_it_is_vague() {
        for (text, latest) in [
            ("2004", "2004-12-31T23:59:59.999Z"),
            ("2004-02", "2004-02-29T23:59:59.999Z"),
            ("2004-02-28", "2004-02-28T23:59:59.999Z"),
            ("2004-02-28T10:00Z", "2004-02-28T10:00:59.999Z"),
            ("2004-02-28T10:00:00Z", "2004-02-28T10:00:00.999Z"),
            ("2004-02-28T10:00:00.5Z", "2004-02-28T10:00:00.999Z"),
        ] {
            assert_eq!(Date::parse(text).unwrap().latest().to_string(), latest, "{text}");
        }
    }
}
