//! `AT TIME ZONE`: a time without a zone is the time of a clock there, which makes it a point in time; a point in time
//! becomes what the clock there shows. DataFusion only ever does the first, and keeps the zone as part of the type, so that
//! whatever is computed with the point in time is that clock's again. Here a point in time has no zone but UTC, which is that
//! of PostgreSQL's session in the tests and of every answer.
//!
//! Zones are named as in PostgreSQL: an abbreviation goes before a name that is spelled alike (`CET` has no summer), letters
//! may be of any case, and in `+02:00` or `UTC+2` the sign is that of POSIX, west of Greenwich.

use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit, TimestampSecondType};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::days::{date_of, first_day};
use super::{per_second, refused};
use crate::errors::quoted;

/// How the type of points in time names its zone, which is that of DataFusion's `now()`.
const UTC: &str = "+00:00";
const DAY_SECS: i64 = 86_400;
/// Most hours either side that PostgreSQL takes in a zone of digits.
const HOURS_MAX: i64 = 167;

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(TimeZone { signature: Signature::any(2, Volatility::Immutable) })
}

/// The type of points in time.
pub(super) fn instant(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some(Arc::from(UTC)))
}

/// `timezone(zone, time)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeZone {
    signature: Signature,
}

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of a time in a zone depends on the zone")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [Some(zone), _] = args.scalar_arguments else {
            return refused("AT TIME ZONE takes a zone that is written in the statement.".to_owned());
        };
        Zone::of(zone)?;
        let kind = match args.arg_fields[1].data_type() {
            // A date is midnight in UTC.
            DataType::Date32 => DataType::Timestamp(TimeUnit::Millisecond, None),
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
            DataType::Timestamp(unit, None) => instant(*unit),
            DataType::Null => instant(TimeUnit::Microsecond),
            _ => return refused("AT TIME ZONE is for timestamps: cast what stands before it.".to_owned()),
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(zone), time] = args.args.as_slice() else {
            return internal_err!("the zone is no constant");
        };
        let zone = Zone::of(zone)?;
        let times = time.to_array(args.number_rows)?;
        let kind = args.return_field.data_type();
        let DataType::Timestamp(unit, there) = kind else {
            return internal_err!("a time in a zone is no timestamp");
        };
        let values = cast(&cast(&times, &DataType::Timestamp(*unit, None))?, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>().iter();
        let per_sec = per_second(*unit);
        let moved = values.map(|value| {
            value
                .map(|value| match there {
                    Some(_) => zone.to_instant(value, per_sec),
                    None => zone.to_clock(value, per_sec),
                })
                .transpose()
        });
        let moved: Int64Array = moved.collect::<Result<_, ArrowError>>()?;
        let moved: ArrayRef = Arc::new(moved);
        Ok(ColumnarValue::Array(cast(&cast(&moved, &DataType::Timestamp(*unit, None))?, kind)?))
    }
}

/// Whether it is the name of a zone.
pub(super) fn is_named(name: &str) -> bool {
    Zone::named(name.trim()).is_some()
}

/// How far a place's clocks are before UTC.
#[derive(Debug)]
enum Zone {
    /// Always by so many seconds.
    Fixed(i64),
    Named(Tz),
}

impl Zone {
    fn of(zone: &ScalarValue) -> Result<Zone> {
        if let ScalarValue::IntervalMonthDayNano(Some(span)) = zone {
            return match (span.months, span.days) {
                (0, 0) => Ok(Zone::Fixed(span.nanoseconds / 1_000_000_000)),
                _ => refused("A span that is a time zone may not have months or days.".to_owned()),
            };
        }
        let Some(text) = zone.try_as_str().flatten() else {
            return refused("AT TIME ZONE takes the name of a zone, like 'Europe/Berlin'.".to_owned());
        };
        let found = Zone::named(text.trim());
        found.map_or_else(|| refused(format!("There is no time zone \"{}\" here.", quoted(text))), Ok)
    }

    fn named(text: &str) -> Option<Zone> {
        let upper = text.to_ascii_uppercase();
        if let Ok(place) = ABBREVIATIONS.binary_search_by_key(&upper.as_str(), |(name, _)| name) {
            return Some(Zone::Fixed(ABBREVIATIONS[place].1 * 60));
        }
        if let Some(west) = posix(&upper) {
            return Some(Zone::Fixed(-west));
        }
        let first = upper.chars().next()?;
        // Arrow takes offsets too, with the other sign.
        if !first.is_ascii_alphabetic() {
            return None;
        }
        let spelled = [text.to_owned(), capitals(text), upper];
        spelled.iter().find_map(|name| Tz::from_str(name).ok()).map(Zone::Named)
    }

    /// Seconds before UTC at a point in time, in seconds since 1970.
    fn offset(&self, at: i64) -> Result<i64, ArrowError> {
        match self {
            Zone::Fixed(offset) => Ok(*offset),
            Zone::Named(zone) => {
                let at = alike(at);
                match as_datetime_with_timezone::<TimestampSecondType>(at, *zone) {
                    Some(there) => Ok(there.naive_local().and_utc().timestamp() - at),
                    None => Err(out_of_range()),
                }
            }
        }
    }

    /// What the clock shows at a point in time.
    fn to_clock(&self, value: i64, per_sec: i64) -> Result<i64, ArrowError> {
        let offset = self.offset(value.div_euclid(per_sec))?;
        value.checked_add(offset * per_sec).ok_or_else(out_of_range)
    }

    /// When the clock shows it. Of an hour that comes twice it is the second; what a clock never shows is read as if it had not
    /// been put on: both times the later of the two points that the offsets before and after lead to (PostgreSQL's
    /// `DetermineTimeZoneOffset`).
    fn to_instant(&self, value: i64, per_sec: i64) -> Result<i64, ArrowError> {
        let shown = value.div_euclid(per_sec);
        let (before, after) = (self.offset(shown - DAY_SECS)?, self.offset(shown + DAY_SECS)?);
        let mut offset = before;
        if before != after {
            let holds = |offset: i64| Ok::<bool, ArrowError>(self.offset(shown - offset)? == offset);
            offset = match (holds(before)?, holds(after)?) {
                (true, false) => before,
                (false, true) => after,
                _ => before.min(after),
            };
        }
        value.checked_sub(offset * per_sec).ok_or_else(out_of_range)
    }
}

fn out_of_range() -> ArrowError {
    ArrowError::ArithmeticOverflow("a time is out of range".to_owned())
}

/// The tables of zones end with this year; PostgreSQL's go on by each zone's last rule.
const YEAR_LAST: i64 = 2099;
/// From this year on every zone goes by such a rule (Morocco's and Palestine's are tables of Ramadans before). The years from
/// here to the last, without those of 366 days, begin with every day of the week.
const YEAR_RULED: i64 = 2089;

/// A point in time of the years that are known, at which all clocks show what they show at this one, but for the date. Rules name a
/// day of the week in a month, so that is one that is whole weeks away and as far from the beginning of its year or, behind
/// February, from the beginning of its March.
fn alike(at: i64) -> i64 {
    let (year, month, _) = date_of(at.div_euclid(DAY_SECS));
    if year <= YEAR_LAST {
        return at;
    }
    let begins = |year: i64| first_day(year, if month <= 2 { 1 } else { 3 });
    let begin = begins(year);
    let ruled = (YEAR_RULED..=YEAR_LAST).filter(|year| year % 4 != 0).map(begins);
    let other = ruled.into_iter().find(|other| (begin - other) % 7 == 0);
    at - other.map_or(0, |other| (begin - other) * DAY_SECS)
}

/// `europe/new_york` as `Europe/New_York`.
fn capitals(name: &str) -> String {
    let mut begins = true;
    let letter = |letter: char| {
        let own = if begins { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        begins = !letter.is_ascii_alphabetic();
        own
    };
    name.chars().map(letter).collect()
}

/// Seconds west of Greenwich of `UTC+2`, `+02:00` or `5`; none when it is no such name.
fn posix(name: &str) -> Option<i64> {
    let digits = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let mut parts = digits.split(':').map(|part| {
        let is_number = matches!(part.len(), 1..=3) && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse::<i64>().ok() } else { None }
    });
    let hours = parts.next()??;
    let (minutes, seconds) = (parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
    let known = hours <= HOURS_MAX && minutes < 60 && seconds < 60 && parts.next().is_none();
    known.then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// Abbreviations and their minutes before UTC (PostgreSQL's default list), sorted.
#[rustfmt::skip]
const ABBREVIATIONS: &[(&str, i64)] = &[
    ("ACDT", 630), ("ACST", 570), ("ADT", -180), ("AEDT", 660), ("AEST", 600), ("AKDT", -480),
    ("AKST", -540), ("AST", -240), ("AWST", 480), ("BRST", -120), ("BRT", -180), ("BST", 60),
    ("CAST", 570), ("CDT", -300), ("CEST", 120), ("CET", 60), ("CETDST", 120), ("CST", -360),
    ("EAT", 180), ("EDT", -240), ("EEST", 180), ("EET", 120), ("EETDST", 180), ("EST", -300),
    ("GMT", 0), ("HKT", 480), ("HST", -600), ("IDT", 180), ("IST", 120), ("JST", 540), ("KST", 540),
    ("MDT", -360), ("MEST", 120), ("MESZ", 120), ("MET", 60), ("METDST", 120), ("MEZ", 60),
    ("MST", -420), ("NDT", -150), ("NST", -210), ("NZDT", 780), ("NZST", 720), ("PDT", -420),
    ("PHT", 480), ("PKT", 300), ("PST", -480), ("SAST", 120), ("UCT", 0), ("UT", 0), ("UTC", 0),
    ("WAT", 60), ("WET", 0), ("WETDST", 60), ("Z", 0), ("ZULU", 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_named_as_in_postgresql() {
        assert!(ABBREVIATIONS.is_sorted());
        for (name, hours) in [
            ("+02:00", -2.0),
            ("-05", 5.0),
            ("5", -5.0),
            ("UTC+2", -2.0),
            ("gmt-3:30", 3.5),
            ("cest", 2.0),
            ("CET", 1.0),
            ("z", 0.0),
            ("europe/berlin", 2.0),
            ("America/New_York", -4.0),
            ("est5edt", -4.0),
        ] {
            let zone = Zone::named(name).unwrap_or_else(|| panic!("{name}"));
            // 2026-06-30T12:00:00Z
            assert_eq!(zone.offset(1_782_820_800).expect("in range") as f64 / 3600.0, hours, "{name}");
        }
        for unknown in ["", "Nowhere/Here", "+", "UTC+200", "+02:00:00:00", "+02:60", "12:30:99"] {
            assert!(Zone::named(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn a_clock_that_is_changed_shows_every_point_once_or_as_postgresql_reads_it() {
        let zone = Zone::named("Europe/Berlin").expect("a zone");
        // 2026-03-29T02:30 does not exist, 2026-10-25T02:30 comes twice.
        for (shown, instant) in [
            (1_774_751_400, 1_774_747_800),
            (1_792_895_400, 1_792_891_800),
            (1_774_747_799, 1_774_744_199),
            (1_774_753_200, 1_774_746_000),
            (1_767_225_600, 1_767_222_000),
        ] {
            assert_eq!(zone.to_instant(shown, 1).expect("in range"), instant, "{shown}");
        }
        assert_eq!(zone.to_clock(1_774_746_000_500, 1000).expect("in range"), 1_774_753_200_500);
        assert!(Zone::Fixed(3600).to_clock(i64::MAX, 1).is_err());
    }

    #[test]
    fn summers_go_on_behind_the_tables() {
        for (zone, at, hours) in [
            // 2300-07-04, 2300-01-01, 9999-12-31, 2104-02-29 and 2300-03-25T01:00, a Sunday, when summer begins.
            ("Europe/Berlin", 10_429_689_600, 2),
            ("Europe/Berlin", 10_413_792_000, 1),
            ("Australia/Sydney", 253_402_214_400, 11),
            ("America/New_York", 253_402_214_400, -5),
            ("America/New_York", 4_233_686_400, -5),
            ("Europe/Berlin", 10_420_966_800 - 1, 1),
            ("Europe/Berlin", 10_420_966_800, 2),
            ("Africa/Casablanca", 10_429_689_600, 1),
        ] {
            let offset = Zone::named(zone).and_then(|zone| zone.offset(at).ok()).expect("in range");
            assert_eq!(offset, hours * 3600, "{zone} at {at}");
        }
        let begins: std::collections::BTreeSet<i64> = (YEAR_RULED..=YEAR_LAST)
            .filter(|year| year % 4 != 0)
            .map(|year| first_day(year, 1) % 7)
            .collect();
        assert_eq!(begins.len(), 7);
    }
}
