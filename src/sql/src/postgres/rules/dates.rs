//! Calls of functions of times: what the clock says, spans and times by their parts, parts of times, times cut as a clock elsewhere
//! shows them.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Interval,
};

use super::casts::MOMENT;
use super::written::{binary, call, nested, number, taken, text};

/// `now()` to the microsecond, as a point in time or as what a clock in UTC shows.
pub(super) fn now(zoned: bool) -> Expr {
    let now = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("now", Vec::new())),
        data_type: MOMENT,
        array: false,
        format: None,
    };
    if zoned { call("timezone", vec![text("UTC"), now]) } else { now }
}

/// `date_trunc(unit, time, zone)`: as the clocks there show it, cut, and back.
pub(super) fn cut_there(unit: &mut Expr, time: &mut Expr, zone: &mut Expr) -> Expr {
    let time = call("timezone", vec![zone.clone(), zoned(taken(time))]);
    let cut = call("date_trunc", vec![taken(unit), time]);
    call("timezone", vec![taken(zone), cut])
}

/// `make_timestamp(year, month, day, hour, minute, second)`.
pub(super) fn timestamp(parts: &mut [&mut Expr; 6]) -> Option<Expr> {
    let [year, month, day, hour, minute, second] = parts;
    let date = call("make_date", vec![taken(year), taken(month), taken(day)]);
    let midnight = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(date),
        data_type: MOMENT,
        array: false,
        format: None,
    };
    let clock = [(hour, "1 hour", "24"), (minute, "1 minute", "59"), (second, "1 second", "60")];
    let parts = clock.into_iter().map(|(value, unit, most)| {
        times(unit, call("to_within", vec![taken(value), number("0"), number(most)]))
    });
    parts
        .reduce(|sum, part| binary(sum, BinaryOperator::Plus, part))
        .map(|clock| nested(binary(midnight, BinaryOperator::Plus, nested(clock))))
}

/// `INTERVAL 'unit' * (value)`.
fn times(unit: &str, value: Expr) -> Expr {
    let unit = Expr::Interval(Interval {
        value: Box::new(text(unit)),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    });
    nested(binary(unit, BinaryOperator::Multiply, nested(value)))
}

/// A time as a point in time.
fn zoned(time: Expr) -> Expr {
    let data_type = MOMENT;
    let expr = Box::new(time);
    let time = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
    call("timezone", vec![text("UTC"), time])
}

/// `make_interval(days => 3, hours => n)` as `INTERVAL '1 day' * 3 + INTERVAL '1 hour' * n`.
pub(super) fn span(args: &[FunctionArg]) -> Option<Expr> {
    const PLACES: &[&str] = &["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let parts = args.iter().enumerate().map(|(place, argument)| {
        let (name, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => ((*PLACES.get(place)?).to_owned(), value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name.value.clone(), value),
            FunctionArg::ExprNamed { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (name.to_string(), value)
            }
            _ => return None,
        };
        let unit = match name.to_ascii_lowercase().as_str() {
            "years" => "1 year",
            "months" => "1 month",
            "weeks" => "7 days",
            "days" => "1 day",
            "hours" => "1 hour",
            "mins" => "1 minute",
            "secs" => "1 second",
            _ => return None,
        };
        Some(times(unit, value.clone()))
    });
    let parts: Vec<Expr> = parts.collect::<Option<_>>()?;
    parts.into_iter().reduce(|sum, part| binary(sum, BinaryOperator::Plus, part)).map(nested)
}

/// PostgreSQL's other names of the parts of times.
const PARTS: &[(&str, &str)] = &[
    ("c", "century"),
    ("cent", "century"),
    ("centuries", "century"),
    ("d", "day"),
    ("days", "day"),
    ("dec", "decade"),
    ("decades", "decade"),
    ("decs", "decade"),
    ("h", "hour"),
    ("hours", "hour"),
    ("hr", "hour"),
    ("hrs", "hour"),
    ("m", "minute"),
    ("mil", "millennium"),
    ("millennia", "millennium"),
    ("mils", "millennium"),
    ("min", "minute"),
    ("mins", "minute"),
    ("minutes", "minute"),
    ("mon", "month"),
    ("mons", "month"),
    ("months", "month"),
    ("qtr", "quarter"),
    ("w", "week"),
    ("weeks", "week"),
    ("y", "year"),
    ("years", "year"),
    ("yr", "year"),
    ("yrs", "year"),
];

/// `extract(part FROM time)`: seconds and milliseconds with their fractions, of which DataFusion gives whole ones; other parts
/// under the names that it knows. None of one that stays as it is.
pub(super) fn part_of_time(part: &str, time: &mut Expr) -> Option<Expr> {
    let part = part.trim().to_ascii_lowercase();
    let microseconds = |time: &mut Expr| call("date_part", vec![text("microsecond"), taken(time)]);
    match part.as_str() {
        "s" | "sec" | "second" | "seconds" | "secs" => Some(fraction(microseconds(time), "1000000")),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => {
            Some(fraction(microseconds(time), "1000"))
        }
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Some(microseconds(time)),
        other => {
            let place = PARTS.binary_search_by_key(&other, |(name, _)| name).ok()?;
            Some(call("date_part", vec![text(PARTS[place].1), taken(time)]))
        }
    }
}

/// A count as a fraction of something larger.
fn fraction(count: Expr, per: &str) -> Expr {
    let double = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(count),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    };
    nested(binary(double, BinaryOperator::Divide, number(per)))
}
