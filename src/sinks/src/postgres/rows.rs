//! The statement that takes a batch in.

use super::fault::Fault;
use super::names::quoted;
use super::settings::{Settings, WriteMode};
use super::table::{RESULT_ID, Table, Target, URL};
use crate::Batch;
use jiff::Timestamp;
use sql::{Cell, ColumnKind};
use std::collections::HashMap;
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

/// The column by which the newer of two rows of a page is known.
const SCRAPED_AT: &str = "scraped_at";
/// What stands for a character that PostgreSQL has no place for.
const NO_NUL: &str = "\u{fffd}";

/// The values of a column, as a parameter.
enum Values {
    Texts(Vec<Option<String>>),
    Ints(Vec<Option<i64>>),
    Floats(Vec<Option<f64>>),
    Bools(Vec<Option<bool>>),
}

impl Values {
    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Values::Texts(values) => values,
            Values::Ints(values) => values,
            Values::Floats(values) => values,
            Values::Bools(values) => values,
        }
    }
}

/// Writes the rows; how many the server has written.
pub(super) async fn write(
    transaction: &Transaction<'_>,
    settings: &Settings,
    table: &Table,
    batch: &Batch,
) -> Result<u64, Fault> {
    let rows = once(settings, batch);
    if rows.is_empty() {
        return Ok(0);
    }
    let values: Vec<_> = table.columns.iter().map(|target| values(target, &rows)).collect();
    let parameters: Vec<_> = values.iter().map(Values::parameter).collect();
    Ok(transaction.execute(&statement(settings, table), &parameters).await?)
}

/// One row of each key: the newest, or the last where they are of one time. The rest would be a clash inside the statement.
fn once<'b>(settings: &Settings, batch: &'b Batch) -> Vec<&'b Vec<Cell>> {
    let key = match settings.mode {
        WriteMode::Append => RESULT_ID,
        WriteMode::Upsert => URL,
    };
    let (Some(key), at) = (batch.place(key), batch.place(SCRAPED_AT)) else {
        return batch.rows.iter().collect();
    };
    let time = |row: &[Cell]| {
        at.and_then(|at| if let Some(Cell::Time(time)) = row.get(at) { Some(*time) } else { None })
    };
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut kept: Vec<&Vec<Cell>> = Vec::with_capacity(batch.rows.len());
    for row in &batch.rows {
        let Some(Cell::Text(text)) = row.get(key) else { continue };
        match places.get(&**text) {
            Some(place) if settings.mode == WriteMode::Upsert && time(row) < time(kept[*place]) => {}
            Some(place) => kept[*place] = row,
            None => {
                places.insert(text, kept.len());
                kept.push(row);
            }
        }
    }
    kept
}

/// One parameter a column, each a list: so the statement is the same for any number of rows.
fn statement(settings: &Settings, table: &Table) -> String {
    let names: Vec<_> = table.columns.iter().map(|target| quoted(&target.name)).collect();
    let mut lists = Vec::with_capacity(names.len());
    let mut read = Vec::with_capacity(names.len());
    for (at, target) in table.columns.iter().enumerate() {
        let (of, cast) = match target.kind {
            ColumnKind::Text => ("text", ""),
            ColumnKind::Json if !target.is_json => ("text", ""),
            ColumnKind::Json => ("text", "::pg_catalog.jsonb"),
            ColumnKind::Timestamp => ("text", "::pg_catalog.timestamptz"),
            ColumnKind::Int64 => ("int8", ""),
            ColumnKind::Float64 => ("float8", ""),
            ColumnKind::Bool => ("bool", ""),
        };
        lists.push(format!("pg_catalog.unnest(${}::pg_catalog.{of}[])", at + 1));
        read.push(format!("v.c{at}{cast}"));
    }
    let columns: Vec<_> = (0..names.len()).map(|at| format!("c{at}")).collect();
    let set: Vec<_> = names.iter().map(|name| format!("{name} = EXCLUDED.{name}")).collect();
    // A page's row is never replaced by an older one, in whichever order batches come.
    let newer = match settings.mode {
        WriteMode::Upsert if table.columns.iter().any(|target| target.name == SCRAPED_AT) => {
            format!(" WHERE t.{SCRAPED_AT} IS NULL OR t.{SCRAPED_AT} <= EXCLUDED.{SCRAPED_AT}")
        }
        _ => String::new(),
    };
    format!(
        "INSERT INTO {} AS t ({}) SELECT {} FROM ROWS FROM ({}) AS v({}) ON CONFLICT ({}) DO UPDATE SET {}{newer}",
        table.name,
        names.join(", "),
        read.join(", "),
        lists.join(", "),
        columns.join(", "),
        table.key,
        set.join(", "),
    )
}

fn values(target: &Target, rows: &[&Vec<Cell>]) -> Values {
    let cells = rows.iter().map(|row| row.get(target.place).unwrap_or(&Cell::Null));
    match target.kind {
        ColumnKind::Text => Values::Texts(cells.map(|cell| text(cell).map(without_nul)).collect()),
        ColumnKind::Json => Values::Texts(cells.map(|cell| text(cell).map(json_without_nul)).collect()),
        ColumnKind::Timestamp => Values::Texts(cells.map(time).collect()),
        ColumnKind::Int64 => {
            let int = |cell: &Cell| if let Cell::Int(value) = cell { Some(*value) } else { None };
            Values::Ints(cells.map(int).collect())
        }
        ColumnKind::Float64 => {
            let float = |cell: &Cell| match cell {
                Cell::Float(value) => Some(*value),
                Cell::Int(value) => Some(*value as f64),
                _ => None,
            };
            Values::Floats(cells.map(float).collect())
        }
        ColumnKind::Bool => {
            let bool = |cell: &Cell| if let Cell::Bool(value) = cell { Some(*value) } else { None };
            Values::Bools(cells.map(bool).collect())
        }
    }
}

fn text(cell: &Cell) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

fn time(cell: &Cell) -> Option<String> {
    let Cell::Time(millis) = cell else { return None };
    Timestamp::from_millisecond(*millis).ok().map(|at| at.to_string())
}

fn without_nul(text: &str) -> String {
    text.replace('\0', NO_NUL)
}

/// JSON says it by an escape, which PostgreSQL refuses, too.
fn json_without_nul(text: &str) -> String {
    if !text.contains("\\u0000") {
        return text.to_owned();
    }
    let Ok(mut value) = serde_json::from_str(text) else { return text.to_owned() };
    replace_nul(&mut value);
    value.to_string()
}

fn replace_nul(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => *text = without_nul(text),
        Value::Array(members) => members.iter_mut().for_each(replace_nul),
        Value::Object(members) => {
            let named = std::mem::take(members).into_iter().map(|(name, mut value)| {
                replace_nul(&mut value);
                (without_nul(&name), value)
            });
            *members = named.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
