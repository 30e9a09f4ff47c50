//! Values as JSON.
//!
//! | value | JSON |
//! |---|---|
//! | text, JSON columns | string |
//! | boolean | `true`, `false` |
//! | integers | number; as a string beyond 2^53, which JavaScript cannot hold |
//! | doubles | number; `"NaN"`, `"Infinity"`, `"-Infinity"` as strings |
//! | decimals | string with all digits; also `0.1 + 0.2`, whose literals are exact decimals |
//! | timestamps | RFC 3339 in UTC with milliseconds: `"2026-01-31T09:05:00.000Z"` |
//! | dates, times | `"2026-01-31"`, `"09:05:00"` |
//! | intervals, time spans | text as PostgreSQL prints it: `"1 mon 3 days 04:05:06"` |
//! | binary | `"\x"` and hexadecimal digits |
//! | lists, structs, maps | array, object, object |
//! | NULL | `null` |

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::array_value_to_string;
use serde_json::{Map, Number, Value};

use crate::dates::date_of;

/// The largest integer up to which every integer is a double.
const EXACT_INTEGER_MAX: u64 = 1 << 53;
const MS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_SEC: i128 = 1_000_000_000;

/// One row as an object, in the columns' order.
pub(crate) fn row(batch: &RecordBatch, row: usize) -> Map<String, Value> {
    let schema = batch.schema_ref();
    let pair = |(index, array): (usize, &dyn Array)| (schema.field(index).name().clone(), value(array, row));
    batch.columns().iter().map(AsRef::as_ref).enumerate().map(pair).collect()
}

/// The PostgreSQL name of an Arrow type.
pub(crate) fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 => "smallint",
        DataType::Int32 | DataType::UInt8 | DataType::UInt16 => "integer",
        // What counts (`row_number`) has no sign in the engine; it is stored with one.
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "bigint",
        DataType::Decimal32(..) | DataType::Decimal64(..) => "numeric",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Duration(_) | DataType::Interval(_) => "interval",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "bytea"
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            return format!("{}[]", type_name(item.data_type()));
        }
        DataType::Struct(_) | DataType::Map(..) => "json",
        DataType::Dictionary(_, value) => return type_name(value),
        // Utf8 in its three forms; and NULL, which is text in PostgreSQL too.
        _ => "text",
    };
    name.to_owned()
}

fn integer(value: i128) -> Value {
    let exact = value.unsigned_abs() <= u128::from(EXACT_INTEGER_MAX);
    match i64::try_from(value) {
        Ok(small) if exact => Value::from(small),
        _ => Value::from(value.to_string()),
    }
}

fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None => Value::from(if value > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

/// A narrow double in the fewest digits that lead back to it: 0.1, and not the 0.10000000149011612 of the wide one.
fn narrow(value: f32) -> Value {
    float(value.to_string().parse().unwrap_or_else(|_| value.into()))
}

/// One value; `array` is of a type that the spool stores.
pub(crate) fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::from(array.as_boolean().value(row)),
        DataType::Int8 => integer(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => integer(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => integer(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt8 => integer(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => integer(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => integer(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Float16 => float(array.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => narrow(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Value::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Value::from(array.as_string::<i64>().value(row)),
        DataType::Binary => binary(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => binary(array.as_binary::<i64>().value(row)),
        DataType::FixedSizeBinary(_) => binary(array.as_fixed_size_binary().value(row)),
        DataType::List(_) => list(array.as_list::<i32>().value(row).as_ref()),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row).as_ref()),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row).as_ref()),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            fields
                .iter()
                .zip(columns)
                .map(|(field, column)| (field.name().clone(), value(column, row)))
                .collect()
        }
        DataType::Map(..) => map(array, row),
        DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_) => Value::from(moment(array, row)),
        DataType::Duration(_) | DataType::Interval(_) => Value::from(span(array, row)),
        // Decimals among others: arrow's own text has all digits.
        _ => Value::from(array_value_to_string(array, row).unwrap_or_default()),
    }
}

fn binary(bytes: &[u8]) -> Value {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Value::from(text)
}

fn list(items: &dyn Array) -> Value {
    (0..items.len()).map(|row| value(items, row)).collect()
}

fn map(array: &dyn Array, row: usize) -> Value {
    let entries = array.as_map().value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    let key = |row| match value(keys, row) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Value::Object((0..entries.len()).map(|row| (key(row), value(values, row))).collect())
}

/// A timestamp in milliseconds since 1970; none for any other type.
pub(crate) fn timestamp_ms(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            array.as_primitive::<TimestampSecondType>().value(row).saturating_mul(1000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            array.as_primitive::<TimestampMillisecondType>().value(row)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).div_euclid(1000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000_000)
        }
        _ => return None,
    })
}

/// Timestamps, dates and times of day.
fn moment(array: &dyn Array, row: usize) -> String {
    let ms = match array.data_type() {
        DataType::Date32 => {
            return date(i64::from(array.as_primitive::<Date32Type>().value(row)) * MS_PER_DAY);
        }
        DataType::Date64 => return date(array.as_primitive::<Date64Type>().value(row)),
        _ => timestamp_ms(array, row),
    };
    let Some(ms) = ms else { return clock(time_nanos(array, row)) };
    let (day, era) = calendar(ms.div_euclid(MS_PER_DAY));
    let ms = ms.rem_euclid(MS_PER_DAY);
    let (seconds, rest) = (ms / 1000, ms % 1000);
    format!("{day}T{:02}:{:02}:{:02}.{rest:03}Z{era}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn date(ms: i64) -> String {
    let (day, era) = calendar(ms.div_euclid(MS_PER_DAY));
    format!("{day}{era}")
}

/// Year, month and day of a day since 1970, and ` BC` where that is; years have as many digits as they need, four at least.
fn calendar(days: i64) -> (String, &'static str) {
    let (year, month, day) = date_of(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

fn time_nanos(array: &dyn Array, row: usize) -> i128 {
    match array.data_type() {
        DataType::Time32(TimeUnit::Second) => {
            i128::from(array.as_primitive::<Time32SecondType>().value(row)) * NANOS_PER_SEC
        }
        DataType::Time32(_) => {
            i128::from(array.as_primitive::<Time32MillisecondType>().value(row)) * 1_000_000
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            i128::from(array.as_primitive::<Time64MicrosecondType>().value(row)) * 1000
        }
        _ => i128::from(array.as_primitive::<Time64NanosecondType>().value(row)),
    }
}

fn span(array: &dyn Array, row: usize) -> String {
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            interval_text(array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let span = array.as_primitive::<IntervalDayTimeType>().value(row);
            interval_text(0, span.days.into(), i128::from(span.milliseconds) * 1_000_000)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let span = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            interval_text(span.months, span.days.into(), span.nanoseconds.into())
        }
        DataType::Duration(unit) => {
            let nanos = match unit {
                TimeUnit::Second => {
                    i128::from(array.as_primitive::<DurationSecondType>().value(row)) * NANOS_PER_SEC
                }
                TimeUnit::Millisecond => {
                    i128::from(array.as_primitive::<DurationMillisecondType>().value(row)) * 1_000_000
                }
                TimeUnit::Microsecond => {
                    i128::from(array.as_primitive::<DurationMicrosecondType>().value(row)) * 1000
                }
                TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().value(row).into(),
            };
            // PostgreSQL's difference of two timestamps counts in days and hours.
            let day = 86_400 * NANOS_PER_SEC;
            interval_text(0, (nanos / day) as i64, nanos % day)
        }
        _ => String::new(),
    }
}

/// An interval in PostgreSQL's default style: behind a part below zero, one above it has its sign.
fn interval_text(months: i32, days: i64, nanos: i128) -> String {
    let mut parts = Vec::new();
    let mut below = false;
    let (years, months) = (i64::from(months / 12), i64::from(months % 12));
    for (count, one) in [(years, "year"), (months, "mon"), (days, "day")] {
        if count != 0 {
            let (sign, plural) =
                (if below && count > 0 { "+" } else { "" }, if count == 1 { "" } else { "s" });
            parts.push(format!("{sign}{count} {one}{plural}"));
            below = count < 0;
        }
    }
    if nanos != 0 || parts.is_empty() {
        let sign = if below && nanos > 0 { "+" } else { "" };
        parts.push(format!("{sign}{}", clock(nanos)));
    }
    parts.join(" ")
}

fn clock(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let per_sec = NANOS_PER_SEC.unsigned_abs();
    let (seconds, fraction) = (nanos / per_sec, nanos % per_sec);
    let whole = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 {
        return whole;
    }
    let digits = format!("{fraction:09}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, Decimal128Array, DurationMillisecondArray, Float64Array, Int64Array,
        TimestampMillisecondArray, UInt64Array,
    };

    use super::*;

    fn first(array: impl Array + 'static) -> Value {
        let array: ArrayRef = Arc::new(array);
        value(&array, 0)
    }

    #[test]
    fn values_follow_the_table() {
        let exact = 1_i64 << 53;
        assert_eq!(first(Int64Array::from(vec![exact])), Value::from(exact));
        assert_eq!(first(Int64Array::from(vec![-exact - 1])), "-9007199254740993");
        assert_eq!(first(UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
        assert_eq!(first(Float64Array::from(vec![1.5])), Value::from(1.5));
        assert_eq!(first(Float64Array::from(vec![f64::NAN])), "NaN");
        assert_eq!(first(Float64Array::from(vec![f64::NEG_INFINITY])), "-Infinity");
        let decimal = Decimal128Array::from(vec![1230]).with_precision_and_scale(10, 2).expect("a decimal");
        assert_eq!(first(decimal), "12.30");
        let time = TimestampMillisecondArray::from(vec![1_700_000_000_007]);
        assert_eq!(first(time), "2023-11-14T22:13:20.007Z");
        assert_eq!(first(TimestampMillisecondArray::from(vec![-1])), "1969-12-31T23:59:59.999Z");
        assert_eq!(
            first(DurationMillisecondArray::from(vec![31 * MS_PER_DAY + 61_500])),
            "31 days 00:01:01.5"
        );
        assert_eq!(interval_text(14, 1, -3 * NANOS_PER_SEC), "1 year 2 mons 1 day -00:00:03");
        assert_eq!(interval_text(-14, 1, 3 * NANOS_PER_SEC), "-1 years -2 mons +1 day 00:00:03");
        assert_eq!(interval_text(0, -1, 3 * NANOS_PER_SEC), "-1 days +00:00:03");
        for (day, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "10000-01-01"),
            (11_016, "2000-02-29"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
        ] {
            assert_eq!(first(datafusion::arrow::array::Date32Array::from(vec![day])), expected, "{day}");
        }
        assert_eq!(
            first(TimestampMillisecondArray::from(vec![253_402_300_799_999])),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(first(datafusion::arrow::array::Float32Array::from(vec![0.1])), Value::from(0.1));
        assert_eq!(first(Int64Array::from(vec![None::<i64>])), Value::Null);
    }
}
