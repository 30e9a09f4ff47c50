//! Cron expressions: what may stand in one.
//!
//! croner reads and steps them, but it passes over some things that are mostly mistakes: empty members of a list, letters
//! behind a `W`, a step beyond the end of its field, a lone `L` among the weekdays. So each field is read here first, by a
//! grammar that says where it does not fit.

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Bytes of an expression.
pub const CRON_BYTES_MAX: usize = 200;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Short forms. The box's `@reboot` is none: a box that starts anew has done nothing that a page would want.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// One field of an expression.
struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// Names that may stand for numbers from `min` on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 6] = [
    Field { name: "second", min: 0, max: 59, names: &[] },
    Field { name: "minute", min: 0, max: 59, names: &[] },
    Field { name: "hour", min: 0, max: 23, names: &[] },
    Field { name: "day of the month", min: 1, max: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, names: &MONTHS },
    Field { name: "weekday", min: 0, max: 7, names: &WEEKDAYS },
];
const HOUR: usize = 2;
const DAY: usize = 3;
const WEEKDAY: usize = 5;

/// An expression that was read.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    pattern: croner::Cron,
    /// Whether seconds, minutes or hours go on at a pace (`*`, `*/10`) rather than name times of the day.
    pub is_interval: bool,
}

impl Cron {
    /// Reads an expression of 5 fields, of 6 with seconds in front, or a short form.
    pub fn parse(text: &str) -> Result<Cron, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("is empty; an example is \"0 6 * * MON-FRI\"".to_owned());
        }
        if text.len() > CRON_BYTES_MAX || !text.is_ascii() {
            return Err(format!("must be at most {CRON_BYTES_MAX} characters of ASCII"));
        }
        let text = match text.strip_prefix('@') {
            None => text.to_owned(),
            Some(_) => nickname(text)?.to_owned(),
        };
        let mut fields: Vec<_> = text.split_ascii_whitespace().map(str::to_ascii_uppercase).collect();
        match fields.len() {
            5 => fields.insert(0, "0".to_owned()),
            6 => {}
            n => return Err(format!("has {n} fields; 5 are needed, or 6 with seconds in front")),
        }
        for (field, text) in FIELDS.iter().zip(&fields) {
            check(field, text)?;
        }
        let is_interval = fields[..=HOUR].iter().any(|text| text.contains('*'));
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let pattern = parser.parse(&fields.join(" ")).map_err(|e| e.to_string())?;
        Ok(Cron { pattern, is_interval })
    }

    /// The first date and time of the calendar that it names behind `from`, or from there on; summer time is unknown here.
    /// None when there is none to be found any more.
    pub fn next(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        // Among times that all exist once croner only counts.
        let from = from.to_zoned(TimeZone::UTC).ok()?;
        self.pattern.find_next_occurrence(&from, inclusive).ok().map(|found| found.datetime())
    }
}

fn nickname(text: &str) -> Result<&'static str, String> {
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<_> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        format!("\"{text}\" is no short form; there are {}", names.join(", "))
    })
}

fn check(field: &Field, text: &str) -> Result<(), String> {
    let parts: Vec<_> = text.split(',').collect();
    for part in &parts {
        check_part(field, part, parts.len() == 1)
            .map_err(|reason| format!("the {} \"{text}\" {reason}", field.name))?;
    }
    // croner would take the two together for the second one.
    if parts.contains(&"L") && parts.contains(&"LW") {
        return Err(format!("the {} \"{text}\" names both L and LW", field.name));
    }
    Ok(())
}

fn check_part(field: &Field, part: &str, is_alone: bool) -> Result<(), String> {
    let is_day = field.name == FIELDS[DAY].name;
    let is_weekday = field.name == FIELDS[WEEKDAY].name;
    match part {
        "" => return Err("has an empty member".to_owned()),
        "?" if (is_day || is_weekday) && is_alone => return Ok(()),
        "L" | "LW" if is_day => return Ok(()),
        "L" if is_weekday => {
            return Err("needs a weekday before the L, as in 5L (the last Friday)".to_owned());
        }
        _ => {}
    }
    if is_day && let Some(day) = part.strip_suffix('W') {
        return value(field, day, false).map(drop);
    }
    if is_weekday && let Some(day) = part.strip_suffix('L') {
        return value(field, day, false).map(drop);
    }
    if is_weekday && let Some((day, nth)) = part.split_once('#') {
        value(field, day, false)?;
        return match nth {
            "1" | "2" | "3" | "4" | "5" => Ok(()),
            _ => Err("must have a number from 1 to 5 behind the #".to_owned()),
        };
    }
    let (range, step) = match part.split_once('/') {
        None => (part, None),
        Some((range, step)) => (range, Some(step)),
    };
    let (first, last) = match (range, range.split_once('-')) {
        ("*", _) => (field.min, field.max),
        (_, Some((first, last))) => (value(field, first, false)?, value(field, last, true)?),
        (one, None) if step.is_none() => return value(field, one, false).map(drop),
        (one, None) => return Err(format!("must say where the steps end, as in {one}-{}", field.max)),
    };
    if first > last {
        return Err(format!("has a range that goes backwards ({range})"));
    }
    let Some(step) = step else { return Ok(()) };
    let parsed = step.parse::<u16>().ok().filter(|_| is_number(step));
    match parsed {
        Some(n) if n >= 1 && n <= (last - first).max(1) => Ok(()),
        Some(n) => Err(format!("has a step of {n}, which does not fit into {first} to {last}")),
        None => Err(format!("has \"{step}\" as a step, which is no number")),
    }
}

/// Digits alone: the standard library would read a sign as well.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn value(field: &Field, text: &str, is_end: bool) -> Result<u16, String> {
    let named = field.names.iter().position(|name| *name == text).and_then(|at| u16::try_from(at).ok());
    if let Some(at) = named {
        // The week may end with its Sunday.
        return Ok(if is_end && text == WEEKDAYS[0] { 7 } else { field.min + at });
    }
    let number = text.parse::<u16>().ok().filter(|_| is_number(text));
    match number {
        Some(n) if (field.min..=field.max).contains(&n) => Ok(n),
        Some(_) => Err(format!("is not within {} to {}", field.min, field.max)),
        None => Err(format!("has \"{text}\", which is no {}", field.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, part) in [
            ("", "is empty"),
            ("* * * *", "has 4 fields"),
            ("* * * * * * *", "has 7 fields"),
            ("60 * * * *", "the minute \"60\" is not within 0 to 59"),
            ("* 24 * * *", "the hour \"24\" is not within 0 to 23"),
            ("* * 0 * *", "the day of the month \"0\" is not within 1 to 31"),
            ("* * 32 * *", "the day of the month \"32\""),
            ("* * * 13 *", "the month \"13\" is not within 1 to 12"),
            ("* * * * 8", "the weekday \"8\" is not within 0 to 7"),
            ("61 * * * * *", "the second \"61\""),
            ("1,,2 * * * *", "has an empty member"),
            (", * * * *", "has an empty member"),
            ("*/0 * * * *", "has a step of 0"),
            ("*/90 * * * *", "has a step of 90, which does not fit into 0 to 59"),
            ("5/10 * * * *", "must say where the steps end, as in 5-59"),
            ("30-10 * * * *", "has a range that goes backwards (30-10)"),
            ("* * * * FRI-MON", "has a range that goes backwards (FRI-MON)"),
            ("MON * * * *", "has \"MON\", which is no minute"),
            ("* * * MARCH *", "has \"MARCH\", which is no month"),
            ("* * * * L", "needs a weekday before the L"),
            ("* * * * 1#6", "a number from 1 to 5 behind the #"),
            ("* * * * 1#", "a number from 1 to 5 behind the #"),
            ("* * 15W3 * *", "is no day of the month"),
            ("* * 3L * *", "is no day of the month"),
            ("* * L,LW * *", "names both L and LW"),
            ("* * ?,1 * *", "has \"?\""),
            ("? * * * *", "has \"?\", which is no minute"),
            ("* * * * +1", "is no weekday"),
            ("@reboot", "\"@reboot\" is no short form; there are @yearly"),
            ("@hourly 1", "is no short form"),
            ("+5 * * * *", "which is no minute"),
            ("*/+5 * * * *", "which is no number"),
            ("0 0 * * *\u{fc}", "of ASCII"),
            ("99999 * * * *", "which is no minute"),
        ] {
            let error = Cron::parse(text).map(|_| "it was read").unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = format!("{} * * * *", vec!["1"; 150].join(","));
        assert!(Cron::parse(&long).unwrap_err().contains("at most 200"));
    }

    #[test]
    fn what_is_meant_is_read() {
        for text in [
            "* * * * *",
            "*/10 * * * * *",
            "0 6 * * mon-fri",
            "0 0 L * ?",
            "0 0 LW * *",
            "0 0 15W,1W * *",
            "0 0 * JAN,jul *",
            "0 0 * * 5L",
            "0 0 * * FRIL",
            "0 0 * * 1#1,WED#3",
            "0 0 * * SAT-SUN",
            "0 0 * * 7",
            "0-30/5 8-18/2 1-15 */3 1-5",
            "@Daily",
            "@midnight",
            " 5  4 * * * ",
        ] {
            Cron::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }

    #[test]
    fn a_pace_is_told_from_times_of_the_day() {
        for (text, is_interval) in [
            ("*/10 * * * *", true),
            ("30 * * * *", true),
            ("*/10 2 * * *", true),
            ("0 */2 * * *", true),
            ("* 0 2 * * *", true),
            ("30 2 * * *", false),
            ("0,30 2,3 * * *", false),
            ("0-59/10 2 * * *", false),
            ("0 0 */2 * *", false),
            ("@hourly", true),
            ("@daily", false),
        ] {
            assert_eq!(Cron::parse(text).unwrap().is_interval, is_interval, "{text}");
        }
    }
}
