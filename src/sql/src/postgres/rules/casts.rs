//! Casts, and types that are written otherwise in PostgreSQL.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, TimezoneInfo, Value, ValueWithSpan,
};

use super::literals;
use super::written::{call, literal, number, taken, text};
use crate::postgres::without_zone;

/// `float(24)` is the widest of the narrow ones.
const FLOAT4_BITS_MAX: u64 = 24;

/// A time to the microsecond, as PostgreSQL has it. Without digits DataFusion counts nanoseconds, which end in the year 2262.
pub(super) const MOMENT: DataType = DataType::Timestamp(Some(6), TimezoneInfo::None);

/// `TYPE 'text'` of types that are written otherwise here.
pub(super) fn typed_string(expr: &mut Expr) {
    let Expr::TypedString(typed) = expr else { return };
    match &typed.data_type {
        DataType::Uuid => typed.data_type = DataType::Text,
        zoned if is_zoned(zoned) => {
            typed.data_type = MOMENT;
            *expr = call("timezone", vec![text("UTC"), taken(expr)]);
        }
        DataType::Bytea => {
            let mut bytes = Expr::Value(typed.value.clone());
            if let Some(bytes) = literals::cast(&mut bytes, &DataType::Bytea) {
                *expr = bytes;
            }
        }
        moment if is_moment(moment) => {
            typed.data_type = MOMENT;
            if let Value::SingleQuotedString(written) = &mut typed.value.value {
                *written = without_zone(written).to_owned();
            }
        }
        _ => {}
    }
}

/// Whether a type is that of points in time.
fn is_zoned(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone))
}

/// Whether a type is that of times without a zone and without a number of digits.
fn is_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone))
}

fn is_double(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) | DataType::Real | DataType::Float4
    )
}

/// Leaves casts out whose result is cast to the same type again: a chain of them is as deep as it is long.
pub(super) fn cast_once(expr: &mut Expr) {
    let is_plain = |kind: &CastKind| matches!(kind, CastKind::Cast | CastKind::DoubleColon);
    let Expr::Cast { kind, expr: inner, data_type, format: None, .. } = expr else { return };
    while is_plain(kind)
        && let Expr::Cast { kind, expr: again, data_type: own, format: None, .. } = inner.as_mut()
        && is_plain(kind)
        && own == data_type
    {
        **inner = taken(again);
    }
}

/// A cast, as a whole.
pub(super) fn cast_expr(expr: &mut Expr) {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return };
    if is_zoned(data_type) {
        *data_type = MOMENT;
        *expr = call("timezone", vec![text("UTC"), taken(expr)]);
        return;
    }
    if let Some(other) = literals::cast(inner, data_type) {
        *expr = other;
        return;
    }
    let is_written = matches!(**inner, Expr::Value(_));
    let is_json = matches!(data_type, DataType::JSON | DataType::JSONB);
    cast(inner, data_type);
    if is_json {
        *expr = call("as_json", vec![taken(expr)]);
        return;
    }
    // A text may be of a zero with a sign.
    if is_double(data_type) && !is_written {
        *expr = call("to_plain", vec![taken(expr)]);
    }
}

/// A cast to a whole number rounds; one to text writes as PostgreSQL does; JSON is text here.
fn cast(inner: &mut Expr, data_type: &mut DataType) {
    let is_literal = matches!(inner, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    match data_type {
        DataType::Int(_)
        | DataType::Integer(_)
        | DataType::BigInt(_)
        | DataType::SmallInt(_)
        | DataType::Int2(_)
        | DataType::Int4(_)
        | DataType::Int8(_)
            if !is_literal =>
        {
            *inner = call("to_whole", vec![taken(inner)]);
        }
        DataType::Text | DataType::String(_) | DataType::Varchar(None) | DataType::CharacterVarying(None)
            if !is_literal =>
        {
            *inner = call("to_text", vec![taken(inner)]);
        }
        DataType::Varchar(Some(length)) | DataType::CharacterVarying(Some(length)) => {
            let digits = length.to_string();
            let whole = call("to_text", vec![taken(inner)]);
            let length = digits.split(' ').next().filter(|digits| digits.parse::<u32>().is_ok());
            *inner = match length {
                Some(length) => call("left", vec![whole, number(length)]),
                None => whole,
            };
            *data_type = DataType::Text;
        }
        double if is_double(double) => cast_to_double(inner, double),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_)
            if !matches!(inner, Expr::Value(_)) =>
        {
            *inner = call("to_exact", vec![taken(inner)]);
        }
        DataType::Interval { .. } => {
            if let Some(words) = literal(inner).and_then(in_words) {
                *inner = text(&words);
            }
        }
        kind if is_moment(kind) => {
            *kind = MOMENT;
            *inner = match literal(inner) {
                Some(written) => text(without_zone(written)),
                None => call("to_clock", vec![taken(inner)]),
            };
        }
        // Text like any other.
        DataType::JSON | DataType::JSONB => *data_type = DataType::Text,
        // Ids are texts in the tables.
        DataType::Uuid => *data_type = DataType::Text,
        _ => {}
    }
}

/// By way of a decimal it would be another double than the one that its digits mean.
fn cast_to_double(inner: &mut Expr, double: &mut DataType) {
    // Without bits, or with more than a narrow one has, it is a wide one.
    let is_wide = match double {
        DataType::Float(ExactNumberInfo::None) => true,
        DataType::Float(ExactNumberInfo::Precision(bits)) => *bits > FLOAT4_BITS_MAX,
        _ => false,
    };
    if is_wide {
        *double = DataType::DoublePrecision;
    }
    match inner {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            *inner = text(digits.trim_end_matches('.'));
        }
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(digits), .. })
            if digits.trim().parse::<f64>().is_ok_and(|zero| zero == 0.0) =>
        {
            *inner = text("0");
        }
        _ => {}
    }
}

/// The clock's part of a span (`1 day 03:04:05`) in words, which is all that DataFusion reads; none when it has none. All of
/// one that is written as ISO 8601 has it (`P1Y2M3DT4H5M6S`).
pub(super) fn in_words(span: &str) -> Option<String> {
    if let Some(parts) = span.trim().strip_prefix('P') {
        return by_letters(parts);
    }
    let mut has_clock = false;
    let part = |part: &str| {
        let (sign, digits) = part.strip_prefix('-').map_or(("", part), |rest| ("-", rest));
        let fields: Vec<&str> = digits.trim_start_matches('+').split(':').collect();
        let is_number = |field: &&str| {
            !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        if !matches!(fields.len(), 2 | 3) || !fields.iter().all(is_number) {
            return part.to_owned();
        }
        has_clock = true;
        let units = fields.iter().zip(["hours", "minutes", "seconds"]);
        units.map(|(field, unit)| format!("{sign}{field} {unit}")).collect::<Vec<_>>().join(" ")
    };
    let words = span.split_whitespace().map(part).collect::<Vec<_>>().join(" ");
    has_clock.then_some(words)
}

/// What stands behind the `P` of a span of ISO 8601, in words; none where it is no such span.
fn by_letters(parts: &str) -> Option<String> {
    const DAYS: &[(char, &str)] = &[('Y', "years"), ('M', "months"), ('W', "weeks"), ('D', "days")];
    const CLOCK: &[(char, &str)] = &[('H', "hours"), ('M', "minutes"), ('S', "seconds")];
    let (mut words, mut units, mut rest) = (Vec::new(), DAYS, parts);
    while !rest.is_empty() {
        if let Some(clock) = rest.strip_prefix('T').filter(|_| units == DAYS) {
            (units, rest) = (CLOCK, clock);
            continue;
        }
        let end = rest.find(|char: char| char.is_ascii_alphabetic())?;
        let (number, letter) = (&rest[..end], rest[end..].chars().next()?);
        number.parse::<f64>().ok()?;
        let (_, unit) = units.iter().find(|(known, _)| *known == letter)?;
        words.push(format!("{} {unit}", number.trim_start_matches('+')));
        rest = &rest[end + 1..];
    }
    (!words.is_empty()).then(|| words.join(" "))
}
