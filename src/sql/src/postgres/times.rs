//! `date_trunc` and `date_bin` over all times that there are.
//!
//! DataFusion's go by way of nanoseconds, which begin in 1677 and end in 2262. Points in time are cut as a clock in UTC shows
//! them; for another clock they are taken there before (`rules/calls.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::zone::is_named;
use super::{per_second, refused};
use crate::dates::{date_of, first_day};
use crate::errors::quoted;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_SECS: i64 = 86_400;
const NANOS_PER_MICRO: i64 = 1_000;
const NANOS_PER_DAY: i64 = DAY_SECS * 1_000_000_000;
/// The first of January 1970 was a Thursday.
const DAYS_FROM_MONDAY: i64 = 3;

pub(super) fn date_trunc() -> ScalarUDF {
    ScalarUDF::from(Trunc { signature: Signature::user_defined(Volatility::Immutable) })
}

pub(super) fn date_bin() -> ScalarUDF {
    ScalarUDF::from(Bin { signature: Signature::user_defined(Volatility::Immutable) })
}

pub(super) fn to_clock() -> ScalarUDF {
    ScalarUDF::from(ToClock { signature: Signature::any(1, Volatility::Immutable) })
}

/// To what a time is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Micros(i64),
    Week,
    /// So many months, of years that begin at zero or, for centuries, at one.
    Months(i64),
}

impl Unit {
    fn of(name: &str) -> Option<Unit> {
        let name = name.trim().to_ascii_lowercase();
        let name = match name.as_str() {
            "centuries" => "century",
            "millennia" => "millennium",
            other => other.strip_suffix('s').unwrap_or(other),
        };
        Some(match name {
            "microsecond" => Unit::Micros(1),
            "millisecond" => Unit::Micros(1_000),
            "second" => Unit::Micros(1_000_000),
            "minute" => Unit::Micros(60_000_000),
            "hour" => Unit::Micros(3_600_000_000),
            "day" => Unit::Micros(DAY_SECS * 1_000_000),
            "week" => Unit::Week,
            "month" => Unit::Months(1),
            "quarter" => Unit::Months(3),
            "year" => Unit::Months(12),
            "decade" => Unit::Months(120),
            "century" => Unit::Months(1_200),
            "millennium" => Unit::Months(12_000),
            _ => return None,
        })
    }

    /// A time, with so many of its unit a second, cut to this.
    fn cut(self, value: i64, per_sec: i64) -> i64 {
        let per_day = DAY_SECS * per_sec;
        match self {
            Unit::Micros(micros) => {
                let step = i128::from(micros) * i128::from(per_sec) / 1_000_000;
                // Finer than the time itself.
                let step = i64::try_from(step).unwrap_or(1).max(1);
                value - value.rem_euclid(step)
            }
            Unit::Week => {
                let day = value.div_euclid(per_day);
                (day - (day + DAYS_FROM_MONDAY).rem_euclid(7)) * per_day
            }
            Unit::Months(months) => {
                let (year, month, _) = date_of(value.div_euclid(per_day));
                // The first century and the first millennium begin with the year one.
                let shift = if months >= 1_200 { 12 } else { 0 };
                let count = year * 12 + month - 1 - shift;
                let first = count - count.rem_euclid(months) + shift;
                first_day(first.div_euclid(12), first.rem_euclid(12) + 1) * per_day
            }
        }
    }
}

/// What times are cut: timestamps as they are, dates and texts as timestamps.
fn of_times(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Timestamp(..) => Some(kind.clone()),
        DataType::Date32 | DataType::Null => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        text if text.is_string() => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        _ => None,
    }
}

/// `date_trunc(unit, time)`; of a span too.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Trunc {
    signature: Signature,
}

impl ScalarUDFImpl for Trunc {
    fn name(&self) -> &str {
        "date_trunc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [_, kind] => Ok(kind.clone()),
            _ => plan_err!("the function date_trunc takes a unit and a time"),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [unit, time] = arguments else {
            return plan_err!("the function date_trunc takes a unit and a time");
        };
        let time = match time {
            DataType::Interval(_) | DataType::Duration(_) => Some(SPAN),
            other => of_times(other),
        };
        match time {
            Some(time) if unit.is_string() => Ok(vec![DataType::Utf8, time]),
            _ => plan_err!("the function date_trunc takes a unit and a time"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), time] = args.args.as_slice() else {
            return refused("date_trunc takes a unit that is written in the statement.".to_owned());
        };
        let Some(name) = unit.try_as_str().flatten() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
        };
        let Some(unit) = Unit::of(name) else {
            return refused(format!("There is no unit \"{}\" to cut times to.", quoted(name)));
        };
        let times = time.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(match times.data_type() {
            DataType::Timestamp(kept, _) => {
                let per_sec = per_second(*kept);
                mapped(&times, *kept, |value| Ok(unit.cut(value, per_sec)))?
            }
            _ => {
                let spans = cast(&times, &SPAN)?;
                let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
                let cut: IntervalMonthDayNanoArray = spans.unary(|span| cut_span(span, unit));
                Arc::new(cut)
            }
        }))
    }
}

/// A span keeps its parts down to the unit; what is left of a week is not cut (PostgreSQL refuses that one).
fn cut_span(span: IntervalMonthDayNano, unit: Unit) -> IntervalMonthDayNano {
    let step = |value: i64, step: i64| value - value % step;
    match unit {
        Unit::Micros(micros) if micros < DAY_SECS * 1_000_000 => {
            let nanos = step(span.nanoseconds, micros * NANOS_PER_MICRO);
            IntervalMonthDayNano::new(span.months, span.days, nanos)
        }
        Unit::Micros(_) => IntervalMonthDayNano::new(span.months, span.days, 0),
        Unit::Week => IntervalMonthDayNano::new(span.months, span.days - span.days % 7, 0),
        Unit::Months(months) => {
            let months = i32::try_from(step(i64::from(span.months), months)).unwrap_or(0);
            IntervalMonthDayNano::new(months, 0, 0)
        }
    }
}

/// Timestamps, each made another of the same type.
fn mapped(
    times: &ArrayRef,
    unit: TimeUnit,
    map: impl Fn(i64) -> Result<i64, ArrowError>,
) -> Result<ArrayRef> {
    let kind = times.data_type();
    let values = cast(&cast(times, &DataType::Timestamp(unit, None))?, &DataType::Int64)?;
    let values = values.as_primitive::<Int64Type>().iter();
    let mapped: Int64Array = values.map(|value| value.map(&map).transpose()).collect::<Result<_, _>>()?;
    Ok(cast(&cast(&mapped, &DataType::Timestamp(unit, None))?, kind)?)
}

/// A written time without the zone behind it, which `::timestamp` does not heed.
pub(crate) fn without_zone(text: &str) -> &str {
    let text = text.trim();
    let clock = text.find(':').unwrap_or(text.len());
    let (before, behind) = text.split_at(clock);
    let is_clock = |letter: char| letter.is_ascii_digit() || matches!(letter, ':' | '.');
    let length = behind.find(|letter: char| !is_clock(letter)).unwrap_or(behind.len());
    let zone = behind[length..].trim_start();
    let is_zone = zone.starts_with(|letter: char| letter.is_ascii_alphabetic()) && is_named(zone)
        || zone.strip_prefix(['+', '-']).is_some_and(|digits| {
            digits.starts_with(|letter: char| letter.is_ascii_digit())
                && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        });
    if is_zone { &text[..before.len() + length] } else { text }
}

/// `to_clock(time)`: a text without its zone; anything else as it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToClock {
    signature: Signature,
}

impl ScalarUDFImpl for ToClock {
    fn name(&self) -> &str {
        "to_clock"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [text] if text.is_string() => Ok(DataType::Utf8),
            [kind] => Ok(kind.clone()),
            _ => internal_err!("to_clock takes one time"),
        }
    }

    /// What is no text stands as if nothing were around it, so that conditions on it reach the table.
    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match args.pop() {
            Some(time) if !info.get_data_type(&time)?.is_string() => ExprSimplifyResult::Simplified(time),
            time => ExprSimplifyResult::Original(time.into_iter().collect()),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let times = args.args[0].to_array(args.number_rows)?;
        if !times.data_type().is_string() {
            return Ok(ColumnarValue::Array(times));
        }
        let texts = cast(&times, &DataType::Utf8)?;
        let clocks = texts.as_string::<i32>().iter().map(|text| text.map(without_zone));
        Ok(ColumnarValue::Array(Arc::new(clocks.collect::<StringArray>())))
    }
}

/// `date_bin(stride, time, origin)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bin {
    signature: Signature,
}

impl ScalarUDFImpl for Bin {
    fn name(&self) -> &str {
        "date_bin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.get(1) {
            Some(kind) => Ok(kind.clone()),
            None => internal_err!("date_bin without a time"),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        const TAKES: &str = "the function date_bin takes a span, a time and an origin";
        let [_, times @ ..] = arguments else { return plan_err!("{TAKES}") };
        let times: Option<Vec<DataType>> = times.iter().map(of_times).collect();
        let Some(mut times) = times.filter(|times| matches!(times.len(), 1 | 2)) else {
            return plan_err!("{TAKES}");
        };
        // All of it in microseconds, with the zone that the time has.
        for time in &mut times {
            if let DataType::Timestamp(_, zone) = time {
                *time = DataType::Timestamp(TimeUnit::Microsecond, zone.take());
            }
        }
        Ok(std::iter::once(SPAN).chain(times).collect())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let (strides, times) = (cast(&arrays[0], &SPAN)?, &arrays[1]);
        let strides = strides.as_primitive::<IntervalMonthDayNanoType>();
        let plain = |times: &ArrayRef| {
            cast(&cast(times, &DataType::Timestamp(TimeUnit::Microsecond, None))?, &DataType::Int64)
        };
        let values = plain(times)?;
        let origins = arrays.get(2).map(plain).transpose()?;
        let mut binned = Vec::with_capacity(rows);
        for (row, (value, stride)) in values.as_primitive::<Int64Type>().iter().zip(strides).enumerate() {
            let origin = match &origins {
                Some(origins) if origins.is_null(row) => None,
                Some(origins) => Some(origins.as_primitive::<Int64Type>().value(row)),
                None => Some(0),
            };
            binned.push(match (value, stride, origin) {
                (Some(value), Some(stride), Some(origin)) => Some(bin(value, stride, origin)?),
                _ => None,
            });
        }
        let binned = cast(&Int64Array::from(binned), &DataType::Timestamp(TimeUnit::Microsecond, None))?;
        Ok(ColumnarValue::Array(cast(&binned, times.data_type())?))
    }
}

fn bin(value: i64, stride: IntervalMonthDayNano, origin: i64) -> Result<i64> {
    let micros =
        i64::from(stride.days) * (NANOS_PER_DAY / NANOS_PER_MICRO) + stride.nanoseconds / NANOS_PER_MICRO;
    if stride.months != 0 || micros <= 0 {
        return exec_err!("date_bin takes a span above zero without months and years");
    }
    match value.checked_sub(origin) {
        Some(apart) => Ok(value - apart.rem_euclid(micros)),
        None => exec_err!("overflow: a time is out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_no_zone() {
        for (text, expected) in [
            ("2024-01-01T12:00:00+02:00", "2024-01-01T12:00:00"),
            ("2024-01-01 12:00:00.5 -0530", "2024-01-01 12:00:00.5"),
            ("2024-01-01 12:00Z", "2024-01-01 12:00"),
            ("2024-01-01 12:00 utc", "2024-01-01 12:00"),
            ("2024-07-01 12:00:00 Europe/Berlin", "2024-07-01 12:00:00"),
            ("2024-07-01 12:00 EST", "2024-07-01 12:00"),
            ("2024-07-01 12:00:00.5 america/new_york", "2024-07-01 12:00:00.5"),
            ("2024-01-01 12:00 am", "2024-01-01 12:00 am"),
            ("2024-01-01 12:00 nowhere", "2024-01-01 12:00 nowhere"),
            ("2024-01-01", "2024-01-01"),
            ("now", "now"),
        ] {
            assert_eq!(without_zone(text), expected);
        }
    }

    #[test]
    fn times_are_cut_wherever_they_are() {
        // 2024-02-29T13:14:15.678, 1582-10-15T12:00, 9999-12-31T23:59:59, 0001-01-01T00:00 in milliseconds.
        let (leap, early, late, first) =
            (1_709_212_455_678, -12_219_249_600_000, 253_402_300_799_000, -62_135_596_800_000);
        for (unit, value, expected) in [
            ("hour", leap, 1_709_211_600_000),
            ("week", leap, 1_708_905_600_000),
            ("months", leap, 1_706_745_600_000),
            ("quarter", leap, 1_704_067_200_000),
            ("decade", leap, 1_577_836_800_000),
            ("century", leap, 978_307_200_000),
            ("millennium", leap, 978_307_200_000),
            ("microsecond", leap, leap),
            ("minute", early, early),
            ("day", early, early - 12 * 3_600_000),
            ("year", late, 253_370_764_800_000),
            ("century", first, first),
            ("year", first - 1, first - 366 * 86_400_000),
            ("week", -1, -259_200_000),
        ] {
            assert_eq!(Unit::of(unit).expect("a unit").cut(value, 1000), expected, "{unit} of {value}");
        }
        let stride = IntervalMonthDayNano::new(0, 0, 900_000_000_000);
        assert_eq!(bin(-1, stride, 0).expect("in range"), -900_000_000);
        assert!(bin(0, IntervalMonthDayNano::new(1, 0, 0), 0).is_err());
    }
}
