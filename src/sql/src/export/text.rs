//! CSV as RFC 4180 has it, and JSON lines.
//!
//! In CSV a NULL is an empty field and an empty text is `""`, so the two can be told apart; in a table of one column both
//! are `""`, because readers skip empty lines. Lines end with CR LF.
//!
//! A text that a spreadsheet would take for a formula (it begins with `=`, `+`, `-`, `@`, their full-width forms, a tab or
//! a line's end) gets an apostrophe in front, unless it is a plain number (OWASP, "CSV Injection"). Numbers and times are
//! ours and stay as they are.

use std::borrow::Cow;
use std::io::Write;

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use serde_json::Value;

use super::{Batches, ExportError};
use crate::spool::json;

/// Whether a column's values are texts that somebody else wrote.
pub(super) fn is_foreign(data_type: &DataType) -> bool {
    let own = data_type.is_numeric() || data_type.is_temporal();
    !own && !matches!(data_type, DataType::Boolean | DataType::Null | DataType::Interval(_))
}

/// Whether a spreadsheet may take the text for a formula.
pub(super) fn looks_like_formula(text: &str) -> bool {
    const MARKS: &[char] =
        &['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\t', '\r', '\n'];
    text.starts_with(MARKS) && !is_plain_number(text)
}

fn is_plain_number(text: &str) -> bool {
    text.parse::<f64>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
}

pub(super) fn csv(mut batches: Batches<'_>, target: &mut impl Write) -> Result<(), ExportError> {
    let schema = batches.schema();
    let only = schema.fields().len() == 1;
    let mut line = String::new();
    for field in schema.fields() {
        push(&mut line, Some(field.name()), true, only);
    }
    end(&mut line, target)?;
    let foreign: Vec<bool> = schema.fields().iter().map(|field| is_foreign(field.data_type())).collect();
    while let Some(batch) = batches.next()? {
        for row in 0..batch.num_rows() {
            for (column, foreign) in batch.columns().iter().zip(&foreign) {
                let text = cell(column.as_ref(), row);
                push(&mut line, text.as_deref(), *foreign, only);
            }
            end(&mut line, target)?;
        }
    }
    Ok(())
}

/// The text of a value; none for NULL.
fn cell(column: &dyn Array, row: usize) -> Option<String> {
    match json::value(column, row) {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// Adds one field and the comma behind it.
fn push(line: &mut String, text: Option<&str>, foreign: bool, only: bool) {
    let text = match text {
        None => Cow::Borrowed(""),
        Some(text) if foreign && looks_like_formula(text) => Cow::Owned(format!("'{text}")),
        Some("") => return line.push_str("\"\","),
        Some(text) => Cow::Borrowed(text),
    };
    if only && text.is_empty() {
        return line.push_str("\"\",");
    }
    let blank = |edge: Option<char>| edge.is_some_and(char::is_whitespace);
    let quoted =
        text.contains([',', '"', '\r', '\n']) || blank(text.chars().next()) || blank(text.chars().last());
    if quoted {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(&text);
    }
    line.push(',');
}

fn end(line: &mut String, target: &mut impl Write) -> Result<(), ExportError> {
    // The comma behind the last field.
    line.pop();
    line.push_str("\r\n");
    target.write_all(line.as_bytes())?;
    line.clear();
    Ok(())
}

/// One object a line, with the values as result pages have them.
pub(super) fn json_lines(mut batches: Batches<'_>, target: &mut impl Write) -> Result<(), ExportError> {
    while let Some(batch) = batches.next()? {
        for row in 0..batch.num_rows() {
            serde_json::to_writer(&mut *target, &json::row(&batch, row)).map_err(std::io::Error::from)?;
            target.write_all(b"\n")?;
        }
    }
    Ok(())
}
