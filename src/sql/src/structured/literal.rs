//! A caller's values and names as they stand in a statement.
//!
//! A text goes between quotes with its own quotes doubled; that is all there is to escape, because neither dialect reads
//! a backslash inside `'…'` (PostgreSQL's `standard_conforming_strings`, on since 9.1). Every other value is parsed into
//! its type first and written anew, so nothing of the caller's text is left in it.

use serde_json::Value;

use crate::catalog::ColumnKind;
use base::clock::Timestamp;

/// Bytes of a name in the result: PostgreSQL cuts longer ones.
pub(super) const NAME_BYTES_MAX: usize = 63;

/// A name between double quotes.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Text between single quotes. Zero bytes, which PostgreSQL does not know, are the caller's to refuse.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A time as a literal without a zone, to the millisecond.
pub(super) fn time(time: Timestamp) -> String {
    let wire = time.to_string();
    format!("CAST('{}' AS timestamp(3))", wire.trim_end_matches('Z').replace('T', " "))
}

/// The literal of a value in a column of `kind`, or what is wrong with it.
pub(super) fn value(kind: ColumnKind, value: &Value) -> Result<String, String> {
    match kind {
        ColumnKind::Text | ColumnKind::Json => match value {
            Value::String(given) if given.contains('\0') => Err("must not contain a zero byte".to_owned()),
            Value::String(given) => Ok(text(given)),
            _ => Err(format!("must be a string, not {value}")),
        },
        ColumnKind::Int64 => integer(value),
        ColumnKind::Float64 => double(value),
        ColumnKind::Bool => match value {
            Value::Bool(true) => Ok("TRUE".to_owned()),
            Value::Bool(false) => Ok("FALSE".to_owned()),
            _ => Err(format!("must be true or false, not {value}")),
        },
        ColumnKind::Timestamp => {
            let given = value.as_str().ok_or_else(|| format!("must be a time as text, not {value}"))?;
            let parsed: Timestamp = given.parse()?;
            // The years 0 to 9999 are written with four digits, and only those.
            if parsed.to_string().len() != "2026-11-20T09:30:00.000Z".len() {
                return Err("is not a time between the years 0 and 9999".to_owned());
            }
            Ok(time(parsed))
        }
    }
}

fn integer(value: &Value) -> Result<String, String> {
    let parsed = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number: i64 = parsed.ok_or_else(|| format!("must be a whole number of 64 bits, not {value}"))?;
    // As text, because the smallest one has no literal: it would be the negation of one that is too large.
    Ok(match i32::try_from(number) {
        Ok(small @ 0..) => small.to_string(),
        _ => format!("CAST('{number}' AS bigint)"),
    })
}

fn double(value: &Value) -> Result<String, String> {
    let parsed = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number: f64 = parsed.ok_or_else(|| format!("must be a number, not {value}"))?;
    let text = if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        (if number > 0.0 { "Infinity" } else { "-Infinity" }).to_owned()
    } else {
        Value::from(number).to_string()
    };
    Ok(format!("CAST('{text}' AS double precision)"))
}
