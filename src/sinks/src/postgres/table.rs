//! The table as it is on the server: looked at for each batch, made where there is none, widened where that is allowed.
//!
//! What somebody else made is taken as it is, where its columns can hold what ours do and a unique key tells one row from another.

use super::Written;
use super::fault::{Fault, FaultKind};
use super::names::{column as column_name, quoted};
use super::settings::{Settings, WriteMode};
use crate::Batch;
use sql::{Cell, ColumnKind, ColumnSpec};
use std::collections::HashMap;
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;

/// The column that says which result a row is of.
pub(super) const RESULT_ID: &str = "result_id";
/// The column that says of which page a row is.
pub(super) const URL: &str = "url";
/// What is unique of a page: an index of whole URLs would refuse long ones.
const URL_SUM: &str = "md5(url)";

/// A column of the batch that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its place in the batch.
    pub place: usize,
    /// Its name on the server.
    pub name: String,
    pub kind: ColumnKind,
    /// Whether the server's column takes JSON as such.
    pub is_json: bool,
}

/// A table that can take a batch in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Its name with its schema, in quotes.
    pub name: String,
    pub columns: Vec<Target>,
    /// What tells one row from another, as `ON CONFLICT` takes it.
    pub key: String,
}

/// The type of a column that we make.
fn type_of(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Text => "text",
        ColumnKind::Int64 => "bigint",
        ColumnKind::Float64 => "double precision",
        ColumnKind::Bool => "boolean",
        ColumnKind::Timestamp => "timestamp with time zone",
        ColumnKind::Json => "jsonb",
    }
}

/// Types that can hold what a column has.
fn taken(kind: ColumnKind) -> &'static [&'static str] {
    match kind {
        ColumnKind::Text => &["text", "character varying", "citext"],
        ColumnKind::Int64 => &["bigint", "numeric", "integer"],
        ColumnKind::Float64 => &["double precision", "numeric", "real"],
        ColumnKind::Bool => &["boolean"],
        ColumnKind::Timestamp => &["timestamp with time zone", "timestamp without time zone"],
        ColumnKind::Json => &["jsonb", "json", "text", "character varying"],
    }
}

/// Looks at the table, and makes or widens it.
pub(super) async fn prepare(
    transaction: &Transaction<'_>,
    settings: &Settings,
    batch: &Batch,
) -> Result<(Table, Written), Fault> {
    let name = format!("{}.{}", quoted(&settings.schema), quoted(&settings.table));
    let mut written = Written::default();
    let mut there = columns_of(transaction, &name).await?;
    if there.is_empty() {
        require_schema(transaction, settings).await?;
        make(transaction, settings, &name, batch).await.map_err(while_others_do)?;
        written.is_new = true;
        there = columns_of(transaction, &name).await?;
    }
    let mut columns = Vec::with_capacity(batch.columns.len());
    let mut added = Vec::new();
    for (place, column) in batch.columns.iter().enumerate() {
        let own = column_name(&column.name).into_owned();
        match there.get(&own) {
            Some(found) => columns.push(held(place, column, own, found)?),
            None if settings.adds_columns => {
                added.push(format!("ADD COLUMN IF NOT EXISTS {} {}", quoted(&own), type_of(column.kind)));
                let is_json = column.kind == ColumnKind::Json;
                columns.push(Target { place, name: own.clone(), kind: column.kind, is_json });
                written.added.push(own);
            }
            None if batch.rows.iter().all(|row| row.get(place).is_none_or(|cell| *cell == Cell::Null)) => {}
            None => return Err(missing(&own, column, settings)),
        }
    }
    if !added.is_empty() {
        let statement = format!("ALTER TABLE {name} {}", added.join(", "));
        transaction.batch_execute(&statement).await.map_err(while_others_do)?;
    }
    let key = key_of(transaction, settings, &name).await?;
    Ok((Table { name, columns, key }, written))
}

fn missing(own: &str, column: &ColumnSpec, settings: &Settings) -> Fault {
    Fault::table(format!(
        "the table {} has no column {} of the type {}, and the output may not add one (addColumns)",
        settings.table,
        quoted(own),
        type_of(column.kind)
    ))
}

/// Two who make the same at once: one of them is told of a clash in the server's own tables, and finds it made the next time.
fn while_others_do(error: tokio_postgres::Error) -> Fault {
    let is_clash = error.code().is_some_and(|code| {
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_COLUMN].contains(code)
    });
    let fault = Fault::from(error);
    Fault { kind: if is_clash { FaultKind::Away } else { fault.kind }, told: fault.told }
}

/// The types of a table's columns, by their names; none at all when there is no such table.
async fn columns_of(transaction: &Transaction<'_>, name: &str) -> Result<HashMap<String, String>, Fault> {
    let statement = "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, NULL) \
                     FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass($1) \
                     AND a.attnum > 0 AND NOT a.attisdropped";
    let rows = transaction.query(statement, &[&name]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn require_schema(transaction: &Transaction<'_>, settings: &Settings) -> Result<(), Fault> {
    let statement = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
    match transaction.query_opt(statement, &[&settings.schema]).await? {
        Some(_) => Ok(()),
        None => Err(Fault::table(format!("there is no schema {} in the database", quoted(&settings.schema)))),
    }
}

async fn make(
    transaction: &Transaction<'_>,
    settings: &Settings,
    name: &str,
    batch: &Batch,
) -> Result<(), tokio_postgres::Error> {
    let columns = batch.columns.iter().map(|column| {
        let own = column_name(&column.name);
        let key = match (settings.mode, column.name.as_str()) {
            (WriteMode::Append, RESULT_ID) => " PRIMARY KEY",
            (WriteMode::Upsert, URL) => " NOT NULL",
            _ => "",
        };
        format!("{} {}{key}", quoted(&own), type_of(column.kind))
    });
    let columns: Vec<_> = columns.collect();
    transaction.batch_execute(&format!("CREATE TABLE {name} ({})", columns.join(", "))).await?;
    if settings.mode == WriteMode::Upsert {
        transaction.batch_execute(&format!("CREATE UNIQUE INDEX ON {name} ({URL_SUM})")).await?;
    }
    Ok(())
}

/// A column of the server's that is to hold one of ours.
fn held(place: usize, column: &ColumnSpec, name: String, found: &str) -> Result<Target, Fault> {
    // A type of an extension comes with the schema that it is in.
    let bare = found.rsplit('.').next().unwrap_or(found);
    if !taken(column.kind).contains(&bare) {
        return Err(Fault::table(format!(
            "the column {} is of the type {found}, which cannot hold what is of the type {}",
            quoted(&name),
            type_of(column.kind)
        )));
    }
    Ok(Target { place, name, kind: column.kind, is_json: matches!(bare, "jsonb" | "json") })
}

/// What is unique in the table, and tells one row of ours from another.
async fn key_of(transaction: &Transaction<'_>, settings: &Settings, name: &str) -> Result<String, Fault> {
    let statement = "SELECT a.attname::text, pg_catalog.pg_get_expr(i.indexprs, i.indrelid) \
                     FROM pg_catalog.pg_index i LEFT JOIN pg_catalog.pg_attribute a \
                     ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
                     WHERE i.indrelid = pg_catalog.to_regclass($1) AND i.indisunique AND i.indisvalid \
                     AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1";
    let wanted = match settings.mode {
        WriteMode::Append => RESULT_ID,
        WriteMode::Upsert => URL,
    };
    let mut has_sum = false;
    for row in transaction.query(statement, &[&name]).await? {
        let (column, expression): (Option<String>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        match (column, expression) {
            (Some(column), None) if column == wanted => return Ok(quoted(wanted)),
            (_, Some(expression)) => has_sum |= expression == URL_SUM || expression == "md5((url)::text)",
            _ => {}
        }
    }
    match settings.mode {
        WriteMode::Upsert if has_sum => Ok("pg_catalog.md5(\"url\")".to_owned()),
        mode => Err(Fault::table(format!(
            "the table {} has no unique index on {wanted} alone, which the mode {} needs{}",
            settings.table,
            mode.name(),
            if mode == WriteMode::Upsert { " (or on md5(url))" } else { "" }
        ))),
    }
}
