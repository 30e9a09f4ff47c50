//! Times, dates and spans.

use super::{Check, Row, Rule, form, scalar};
use crate::postgres::{moments, spans, times, zone};

#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    scalar("age", "timestamp → interval; timestamp, timestamp → interval").own(spans::age).rule(Rule::Age),
    scalar("clock_timestamp", "→ timestamptz").written().rule(Rule::Now),
    form("current_date", "current_date → date").engine().also(&["today"]),
    form("current_time", "current_time → time").engine(),
    form("current_timestamp", "current_timestamp → timestamptz").rule(Rule::Now),
    scalar("date_bin", "interval, timestamp, timestamp → timestamp").own(times::date_bin).takes_dates(),
    scalar("date_format", "timestamp, format → text").written().calls("to_char").rule(Rule::TimePattern).check(Check::ToChar)
        .extra(),
    scalar("date_part", "field, timestamp → number; field, interval → number")
        .own(spans::date_part).rule(Rule::DatePart).takes_differences().said("extract"),
    scalar("date_trunc", "field, timestamp → timestamp; field, timestamptz → timestamptz; field, timestamptz, zone → timestamptz")
        .own(times::date_trunc).rule(Rule::DateTrunc).takes_dates(),
    form("extract", "extract(field FROM timestamp) → number"),
    scalar("from_unixtime", "bigint → timestamp").extra(),
    form("localtimestamp", "localtimestamp → timestamp").rule(Rule::LocalNow),
    scalar("make_date", "bigint, bigint, bigint → date"),
    scalar("make_interval", "years => bigint, months, weeks, days, hours, mins, secs → interval").written().rule(Rule::MakeInterval),
    scalar("make_time", "bigint, bigint, bigint → time"),
    scalar("make_timestamp", "bigint, bigint, bigint, bigint, bigint, number → timestamp")
        .written().rule(Rule::MakeTimestamp),
    scalar("now", "→ timestamptz").rule(Rule::Now),
    scalar("statement_timestamp", "→ timestamptz").written().rule(Rule::Now),
    scalar("timezone", "zone, timestamp → timestamptz; zone, timestamptz → timestamp").own(zone::function).said("AT TIME ZONE"),
    scalar("to_char", "timestamp, format → text; number, picture → text").rule(Rule::TimePattern).check(Check::ToChar),
    scalar("to_date", "text, format → date").rule(Rule::TimePattern),
    scalar("to_local_time", "timestamp → timestamp").extra(),
    scalar("to_time", "text → time").extra(),
    scalar("to_timestamp", "double precision → timestamp; text, format → timestamp").own(moments::to_timestamp).rule(Rule::TimePattern),
    scalar("to_timestamp_micros", "bigint → timestamp").extra(),
    scalar("to_timestamp_millis", "bigint → timestamp").extra(),
    scalar("to_timestamp_nanos", "bigint → timestamp").extra(),
    scalar("to_timestamp_seconds", "bigint → timestamp").extra(),
    scalar("to_unixtime", "timestamp → bigint").extra(),
    scalar("transaction_timestamp", "→ timestamptz").written().rule(Rule::Now),
];
