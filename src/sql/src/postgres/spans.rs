//! Spans of time: their parts, their multiples, and ages.
//!
//! The difference of two times is a number of milliseconds here, which PostgreSQL shows, and takes apart, as days and the
//! clock's hours, minutes and seconds. DataFusion's `date_part('hour', …)` gives all hours of it, and a year of 360 days.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, DurationMicrosecondType, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::functions::datetime::date_part as datafusion_date_part;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use jiff::Span as Days;
use jiff::civil::{Date, DateTime, Time};

const NANOS_PER_SEC: i64 = 1_000_000_000;
const NANOS_PER_DAY: i64 = 86_400 * NANOS_PER_SEC;
pub(super) const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_SEC: i64 = 1_000_000;
pub(super) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SEC;
const DAYS_PER_MONTH: f64 = 30.0;
const DAYS_PER_YEAR: f64 = 365.25;
pub(super) const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(super) fn age() -> ScalarUDF {
    ScalarUDF::from(Span { work: Work::Age, signature: Signature::any(2, Volatility::Immutable) })
}

pub(super) fn date_part() -> ScalarUDF {
    ScalarUDF::from(Part { inner: datafusion_date_part() })
}

/// The difference of two times as a span of days and the clock.
pub(crate) fn span(difference: Expr) -> Expr {
    span_function().call(vec![difference])
}

pub(super) fn span_function() -> ScalarUDF {
    ScalarUDF::from(OfDifference { signature: Signature::any(1, Volatility::Immutable) })
}

/// `to_span(difference)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDifference {
    signature: Signature,
}

impl ScalarUDFImpl for OfDifference {
    fn name(&self) -> &str {
        "to_span"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SPAN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(spans_of(&args.args[0].to_array(args.number_rows)?)?))
    }
}

/// Differences of two times, or spans, as spans of months, days and the clock.
fn spans_of(given: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(given.data_type(), DataType::Duration(_)) {
        return Ok(cast(given, &SPAN)?);
    }
    let micros = cast(given, &DataType::Duration(TimeUnit::Microsecond))?;
    let micros = micros.as_primitive::<DurationMicrosecondType>().iter();
    let spans = micros.map(|micros| {
        let Some(micros) = micros else { return Ok(None) };
        let days = i32::try_from(micros / MICROS_PER_DAY)
            .map_err(|_| ArrowError::ArithmeticOverflow("a span is out of range".to_owned()))?;
        Ok(Some(IntervalMonthDayNano::new(0, days, micros % MICROS_PER_DAY * NANOS_PER_MICRO)))
    });
    let spans: IntervalMonthDayNanoArray = spans.collect::<Result<_, ArrowError>>()?;
    Ok(Arc::new(spans))
}

/// How long a span is, for comparing it.
pub(crate) fn length(span: Expr) -> Expr {
    length_function().call(vec![span])
}

pub(super) fn length_function() -> ScalarUDF {
    ScalarUDF::from(Length { signature: Signature::any(1, Volatility::Immutable) })
}

/// `span_length(span)`: its microseconds, of 24 hours a day and 30 days a month.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "span_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let spans = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(lengths(&spans)?))
    }
}

/// How long spans, or differences of times, are.
pub(super) fn lengths(spans: &ArrayRef) -> Result<ArrayRef> {
    let lengths: Decimal128Array = match spans.data_type() {
        DataType::Duration(_) => {
            let micros = cast(spans, &DataType::Duration(TimeUnit::Microsecond))?;
            micros.as_primitive::<DurationMicrosecondType>().iter().map(|of| of.map(i128::from)).collect()
        }
        _ => {
            let spans = cast(spans, &SPAN)?;
            let spans = spans.as_primitive::<IntervalMonthDayNanoType>().iter();
            spans.map(|span| span.map(length_of)).collect()
        }
    };
    Ok(Arc::new(lengths.with_precision_and_scale(38, 0)?))
}

fn length_of(span: IntervalMonthDayNano) -> i128 {
    let days = i128::from(span.months) * 30 + i128::from(span.days);
    days * i128::from(MICROS_PER_DAY) + i128::from(span.nanoseconds / NANOS_PER_MICRO)
}

/// `greatest`, `least` and `nullif` of spans by how long they are; none for any other function.
pub(crate) fn picked(function: &str, spans: Vec<Expr>) -> Option<Expr> {
    let pick = match function {
        "greatest" => Pick::Greatest,
        "least" => Pick::Least,
        "nullif" => Pick::NullIf,
        _ => return None,
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    Some(ScalarUDF::from(Picked { pick, signature }).call(spans))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pick {
    Greatest,
    Least,
    NullIf,
}

impl Pick {
    /// Of two spans in their order.
    fn of(
        self,
        first: Option<IntervalMonthDayNano>,
        other: Option<IntervalMonthDayNano>,
    ) -> Option<IntervalMonthDayNano> {
        let (Some(left), Some(right)) = (first, other) else {
            return if self == Pick::NullIf { first } else { first.or(other) };
        };
        let (one, two) = (length_of(left), length_of(right));
        match self {
            Pick::Greatest => Some(if two > one { right } else { left }),
            Pick::Least => Some(if two < one { right } else { left }),
            Pick::NullIf => (one != two).then_some(left),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Picked {
    pick: Pick,
    signature: Signature,
}

impl ScalarUDFImpl for Picked {
    fn name(&self) -> &str {
        match self.pick {
            Pick::Greatest => "greatest",
            Pick::Least => "least",
            Pick::NullIf => "nullif",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SPAN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let spans = args.args.iter().map(|arg| Ok(cast(&arg.to_array(args.number_rows)?, &SPAN)?));
        let spans = spans.collect::<Result<Vec<_>>>()?;
        let own = |row: usize| {
            let each = spans.iter().map(|spans| {
                let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
                spans.is_valid(row).then(|| spans.value(row))
            });
            each.reduce(|first, other| self.pick.of(first, other)).flatten()
        };
        let picked: IntervalMonthDayNanoArray = (0..args.number_rows).map(own).collect();
        Ok(ColumnarValue::Array(Arc::new(picked)))
    }
}

/// A span, then a number: so many times the span.
pub(super) fn multiple() -> ScalarUDF {
    ScalarUDF::from(Span { work: Work::Multiply, signature: Signature::any(2, Volatility::Immutable) })
}

/// A span, then a number: the span divided by it.
pub(super) fn fraction() -> ScalarUDF {
    ScalarUDF::from(Span { work: Work::Divide, signature: Signature::any(2, Volatility::Immutable) })
}

/// DataFusion's `date_part`, but for the difference of two times.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Part {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Part {
    fn name(&self) -> &str {
        "date_part"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Scalar(part), time] = args.args.as_slice()
            && matches!(time.data_type(), DataType::Duration(_) | DataType::Interval(_))
            && let Some(part) = part.try_as_str().flatten()
            && let Some(of) = part_of(part)
        {
            let spans = time.to_array(args.number_rows)?;
            let parts: Float64Array = match spans.data_type() {
                DataType::Duration(_) => {
                    let micros = cast(&spans, &DataType::Duration(TimeUnit::Microsecond))?;
                    micros.as_primitive::<DurationMicrosecondType>().unary(|micros| of(difference(micros)))
                }
                _ => {
                    let spans = cast(&spans, &SPAN)?;
                    spans.as_primitive::<IntervalMonthDayNanoType>().unary(|span| {
                        of((span.months, i64::from(span.days), span.nanoseconds / NANOS_PER_MICRO))
                    })
                }
            };
            return Ok(ColumnarValue::Array(cast(&parts, args.return_field.data_type())?));
        }
        let part = match args.args.first() {
            Some(ColumnarValue::Scalar(part)) => part.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        if let Some(of) = part.as_deref().and_then(long_part) {
            // By the year, whose number DataFusion tells.
            let mut args = args;
            args.args[0] = ColumnarValue::Scalar(ScalarValue::from("year"));
            let (rows, kind) = (args.number_rows, args.return_field.data_type().clone());
            return numbered(&self.inner.inner().invoke_with_args(args)?.to_array(rows)?, of, &kind);
        }
        if let Some("year" | "years" | "isoyear") =
            part.as_deref().map(str::trim).map(str::to_ascii_lowercase).as_deref()
        {
            let (rows, kind) = (args.number_rows, args.return_field.data_type().clone());
            let years = self.inner.inner().invoke_with_args(args)?.to_array(rows)?;
            // There is no year of the number 0: before the first comes the first one before Christ.
            return numbered(&years, |year| if year > 0 { year } else { year - 1 }, &kind);
        }
        self.inner.inner().invoke_with_args(args)
    }
}

/// Numbers of years, each made another.
fn numbered(years: &ArrayRef, of: impl Fn(i64) -> i64, kind: &DataType) -> Result<ColumnarValue> {
    let parts: Int64Array = cast(years, &DataType::Int64)?.as_primitive::<Int64Type>().unary(of);
    Ok(ColumnarValue::Array(cast(&parts, kind)?))
}

/// How a part of many years is told of the year's number: the first century is that of the years 1 to 100, the first decade
/// that of 0 to 9.
fn long_part(part: &str) -> Option<fn(i64) -> i64> {
    Some(match part.trim().to_ascii_lowercase().as_str() {
        "century" | "centuries" => |year| counted_from_one(year, 100),
        "millennium" | "millennia" => |year| counted_from_one(year, 1000),
        "decade" | "decades" => |year| year.div_euclid(10),
        _ => return None,
    })
}

/// In which group of so many years a year is, when the first begins with the year 1 and there is none of the number 0.
fn counted_from_one(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// Months, days, and microseconds of the clock.
type Fields = (i32, i64, i64);

/// The difference of two times has days and a clock.
fn difference(micros: i64) -> Fields {
    (0, micros / MICROS_PER_DAY, micros % MICROS_PER_DAY)
}

/// How a part is taken of a span. A year has 365.25 days where all of it is counted in seconds, and a month that is left
/// over has 30.
fn part_of(part: &str) -> Option<fn(Fields) -> f64> {
    let part = part.trim().to_ascii_lowercase();
    let part = match part.as_str() {
        "centuries" => "century",
        "millennia" => "millennium",
        other => other.strip_suffix('s').unwrap_or(other),
    };
    Some(match part {
        // Whole ones of them, unlike those of a time, which are counted from one.
        "millennium" => |(months, ..)| f64::from(months / 12_000),
        "century" => |(months, ..)| f64::from(months / 1_200),
        "decade" => |(months, ..)| f64::from(months / 120),
        "epoch" => |(months, days, micros)| {
            let days_of_months =
                f64::from(months / 12) * DAYS_PER_YEAR + f64::from(months % 12) * DAYS_PER_MONTH;
            (days_of_months + days as f64) * 86_400.0 + micros as f64 / MICROS_PER_SEC as f64
        },
        "year" => |(months, ..)| f64::from(months / 12),
        "quarter" => |(months, ..)| f64::from(months % 12 / 3 + 1),
        "month" => |(months, ..)| f64::from(months % 12),
        "day" => |(_, days, _)| days as f64,
        "hour" => |(.., micros)| (micros / (3600 * MICROS_PER_SEC)) as f64,
        "minute" => |(.., micros)| (micros % (3600 * MICROS_PER_SEC) / (60 * MICROS_PER_SEC)) as f64,
        "second" => |(.., micros)| (micros % (60 * MICROS_PER_SEC) / MICROS_PER_SEC) as f64,
        "millisecond" => |(.., micros)| (micros % (60 * MICROS_PER_SEC)) as f64 / 1e3,
        "microsecond" => |(.., micros)| (micros % (60 * MICROS_PER_SEC)) as f64,
        _ => return None,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Multiply,
    Divide,
    Age,
}

impl Work {
    /// By the number itself: 49 times a 49th is not 1.
    fn scale(self, part: f64, by: f64) -> f64 {
        if self == Work::Divide { part / by } else { part * by }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Span {
    work: Work,
    signature: Signature,
}

impl ScalarUDFImpl for Span {
    fn name(&self) -> &str {
        match self.work {
            Work::Multiply => "*",
            Work::Divide => "/",
            Work::Age => "age",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(SPAN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays =
            args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        let [left, right] = arrays.as_slice() else { return internal_err!("a span of how many values?") };
        if self.work == Work::Age {
            return ages(left, right).map(ColumnarValue::Array);
        }
        let factors = cast(right, &DataType::Float64)?;
        let factors = factors.as_primitive::<Float64Type>().iter().map(|factor| match (self.work, factor) {
            (Work::Divide, Some(0.0)) => Err(ArrowError::DivideByZero),
            (_, factor) => Ok(factor),
        });
        let factors: Float64Array = factors.collect::<Result<_, ArrowError>>()?;
        let spans = spans_of(left)?;
        let pairs = spans.as_primitive::<IntervalMonthDayNanoType>().iter().zip(&factors);
        let product = pairs
            .map(|(span, factor)| span.zip(factor).map(|(span, f)| scaled(span, f, self.work)).transpose());
        let product: IntervalMonthDayNanoArray = product.collect::<Result<_, ArrowError>>()?;
        Ok(ColumnarValue::Array(Arc::new(product)))
    }
}

/// The nearest whole number.
fn whole(nanos: f64) -> Result<i64, ArrowError> {
    let rounded = nanos.round();
    if rounded.abs() < 9.2e18 {
        return Ok(rounded as i64);
    }
    Err(ArrowError::ArithmeticOverflow("a span is out of range".to_owned()))
}

fn scaled(span: IntervalMonthDayNano, by: f64, work: Work) -> Result<IntervalMonthDayNano, ArrowError> {
    let micros = span.nanoseconds as f64 / NANOS_PER_MICRO as f64;
    parts([f64::from(span.months), f64::from(span.days), micros], by, work)
}

/// Months, days and microseconds divided by a number.
pub(super) fn divided([months, days, micros]: [i64; 3], by: f64) -> Result<IntervalMonthDayNano, ArrowError> {
    parts([months as f64, days as f64, micros as f64], by, Work::Divide)
}

/// As PostgreSQL does it: what is left of a month goes to the days, what is left of a day to the clock.
fn parts([months, days, micros]: [f64; 3], by: f64, work: Work) -> Result<IntervalMonthDayNano, ArrowError> {
    let (months, days) = (work.scale(months, by), work.scale(days, by));
    let month_days = (months.fract() * DAYS_PER_MONTH * 1e6).round() / 1e6;
    // A clock of PostgreSQL has microseconds, and what is left of the days is rounded to them by itself.
    let rest = ((days.fract() + month_days.fract()) * MICROS_PER_DAY as f64).round_ties_even();
    let more_days = (rest / MICROS_PER_DAY as f64).trunc();
    let rest = rest - more_days * MICROS_PER_DAY as f64;
    let micros = work.scale(micros, by) + rest;
    let nanos = whole(micros.round_ties_even() * NANOS_PER_MICRO as f64)?;
    let small = |number: f64| {
        let overflow = || ArrowError::ArithmeticOverflow("a span is out of range".to_owned());
        i32::try_from(whole(number.trunc())?).map_err(|_| overflow())
    };
    let days = days.trunc() + month_days.trunc() + more_days;
    Ok(IntervalMonthDayNano::new(small(months)?, small(days)?, nanos))
}

/// `age(end, begin)` in years, months, days and the clock.
fn ages(ends: &ArrayRef, begins: &ArrayRef) -> Result<ArrayRef> {
    let micros = |times: &ArrayRef| cast(times, &DataType::Timestamp(TimeUnit::Microsecond, None));
    let (ends, begins) = (micros(ends)?, micros(begins)?);
    let (ends, begins) =
        (ends.as_primitive::<TimestampMicrosecondType>(), begins.as_primitive::<TimestampMicrosecondType>());
    let mut ages = Vec::with_capacity(ends.len());
    for pair in ends.iter().zip(begins) {
        ages.push(match pair {
            (Some(end), Some(begin)) => Some(match (civil(end), civil(begin)) {
                (Some(end), Some(begin)) if end >= begin => age_of(end, begin, 1, begin),
                (Some(end), Some(begin)) => age_of(begin, end, -1, end),
                _ => return exec_err!("a time is out of the range of age"),
            }),
            _ => None,
        });
    }
    Ok(Arc::new(ages.into_iter().collect::<IntervalMonthDayNanoArray>()))
}

fn civil(micros: i64) -> Option<DateTime> {
    let (days, clock) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    // By way of days: jiff's points in time end a day before its calendar does.
    let day = Date::constant(1970, 1, 1).checked_add(Days::new().try_days(days).ok()?).ok()?;
    let midnight = day.to_datetime(Time::midnight());
    midnight.checked_add(Days::new().try_microseconds(clock).ok()?).ok()
}

/// From an earlier to a later time; days are borrowed of the month of `lender`.
fn age_of(later: DateTime, earlier: DateTime, sign: i64, lender: DateTime) -> IntervalMonthDayNano {
    let clock = |at: DateTime| {
        let secs = i64::from(at.hour()) * 3600 + i64::from(at.minute()) * 60 + i64::from(at.second());
        secs * NANOS_PER_SEC + i64::from(at.subsec_nanosecond())
    };
    let months = |at: DateTime| i64::from(at.year()) * 12 + i64::from(at.month());
    let (mut months, mut days) =
        (months(later) - months(earlier), i64::from(later.day()) - i64::from(earlier.day()));
    let mut nanos = clock(later) - clock(earlier);
    if nanos < 0 {
        nanos += NANOS_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        days += i64::from(lender.date().days_in_month());
        months -= 1;
    }
    // Years of the calendar fit.
    IntervalMonthDayNano::new((sign * months) as i32, (sign * days) as i32, sign * nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_multiplied_as_postgresql_does() {
        let span = IntervalMonthDayNano::new;
        for (left, factor, expected) in [
            (span(0, 1, 0), 2.0, span(0, 2, 0)),
            (span(0, 1, 0), 0.5, span(0, 0, NANOS_PER_DAY / 2)),
            (span(1, 0, 0), 1.5, span(1, 15, 0)),
            (span(1, 1, NANOS_PER_SEC), -1.0, span(-1, -1, -NANOS_PER_SEC)),
            // As PostgreSQL 15 gives it.
            (span(1, 1, 0), 1.99, span(1, 31, 59_616 * NANOS_PER_SEC)),
        ] {
            assert_eq!(
                scaled(left, factor, Work::Multiply).expect("in range"),
                expected,
                "{left:?} * {factor}"
            );
        }
        assert!(scaled(span(i32::MAX, 0, 0), 2.0, Work::Multiply).is_err());
    }

    #[test]
    fn spans_are_picked_by_their_length() {
        let span = |months, days| Some(IntervalMonthDayNano::new(months, days, 0));
        for (pick, expected) in
            [(Pick::Greatest, span(0, 31)), (Pick::Least, span(1, 0)), (Pick::NullIf, span(1, 0))]
        {
            assert_eq!(pick.of(span(1, 0), span(0, 31)), expected, "{pick:?}");
        }
        assert_eq!(Pick::NullIf.of(span(1, 0), span(0, 30)), None);
        assert_eq!(Pick::Greatest.of(None, span(0, 1)), span(0, 1));
        assert_eq!(Pick::NullIf.of(None, span(0, 1)), None);
    }

    #[test]
    fn centuries_are_counted_from_one() {
        // As PostgreSQL's documentation has them.
        for (part, year, expected) in [
            ("century", 2000, 20),
            ("century", 2001, 21),
            ("century", 1, 1),
            ("century", 0, -1),
            ("century", -99, -1),
            ("century", -100, -2),
            ("millennium", 2001, 3),
            ("decade", 2001, 200),
            ("decade", -1, -1),
        ] {
            assert_eq!(long_part(part).expect("a part")(year), expected, "{part} of {year}");
        }
    }

    #[test]
    fn parts_of_a_difference_are_those_of_its_days_and_clock() {
        let micros = 99 * MICROS_PER_DAY + (23 * 3600 + 52 * 60 + 48) * MICROS_PER_SEC + 500_000;
        for (part, expected) in [
            ("day", 99.0),
            ("HOUR", 23.0),
            ("minutes", 52.0),
            ("microsecond", 48_500_000.0),
            ("epoch", 8_639_568.5),
        ] {
            assert_eq!(part_of(part).expect("a part")(difference(micros)), expected, "{part}");
        }
        for (part, fields, expected) in [
            ("epoch", (12, 0, 0), 31_557_600.0),
            ("epoch", (14, 3, 14_706_700_000), 37_015_506.7),
            ("quarter", (7, 0, 0), 3.0),
            ("year", (-25, 0, 0), -2.0),
            ("century", (1_800, 0, 0), 1.0),
            ("century", (-5, 0, 0), 0.0),
            ("decades", (-180, 0, 0), -1.0),
            ("millennium", (24_011, 0, 0), 2.0),
            ("hour", (0, 0, 30 * 3600 * MICROS_PER_SEC), 30.0),
        ] {
            assert_eq!(part_of(part).expect("a part")(fields), expected, "{part} of {fields:?}");
        }
    }
}
