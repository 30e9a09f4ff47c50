//! Results as tables of the SQL console.
//!
//! `readings` has a row for each result, `reading_values` one for each value, and the tables of page types have the values
//! in typed columns. Which columns an organization's page-type tables have is in its own rows ([`super::columns`]), so
//! nothing here looks beyond the organization.

use super::columns::{COMMON_COLUMNS, TYPED_TABLES, table_of};
use super::rows::{COLUMNS, ColumnKindV1, ColumnsV2, RESULTS, ResultV3, TypedColumnV2};
use crate::features::{NAMED_BY_METADATA, View, ViewRows, column, console_table, seen_by_agents, table_name};
use base::clock::Timestamp;
use base::ids::JobId;
use base::{Error, Result};
use parking_lot::Mutex;
use serde_json::Value;
use sql::{Cell, ColumnKind, ColumnSpec, NewestOf, TableSpec};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

/// How results look in the console.
pub static VIEWS: &[View] = &[View { source: RESULTS.name(), tables, rows }];

static READINGS: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    use ColumnKind::{Float64, Int64, Json, Text, Timestamp};
    let mut table = console_table(
        "readings",
        "One row for each result: what a job extracted from a page.",
        vec![
            column("result_id", Text, "The result.").required(),
            column("job_id", Text, "The job that made it.").required(),
            column("url_id", Text, "The registered URL, if it was one."),
            column("url", Text, "The URL that was asked for.").required(),
            column("domain", Text, "The URL's registrable domain.").required(),
            column("page_type", Text, "product, product_list, serp, article, job_posting or bestseller."),
            column("schema_version", Int64, "The version of the schema that read the page."),
            column("values", Json, "The extracted values by attribute.").required(),
            column("quality_composite", Float64, "0.6 completeness + 0.4 validation."),
            column("quality_completeness", Float64, "Share of attributes with a value."),
            column("quality_validation", Float64, "Share of values that passed type and validation."),
            column("provider", Text, "The provider that delivered the page.").required(),
            column("http_status", Int64, "The target's answer.").required(),
            column("content_hash", Text, "SHA-256 of the values, or of the page without a schema.")
                .required(),
            column("changed", Json, "Attributes that differ from the URL's previous result.").required(),
            column("title", Text, "The page's title."),
            column("scraped_at", Timestamp, "When the page was fetched.").required(),
            column("extracted_at", Timestamp, "When it was read.").required(),
        ],
    );
    Arc::make_mut(&mut table).newest = Some(newest_of_each_url("readings"));
    seen_by_agents(table, readings_of_agent())
});

/// An agent sees what its jobs read, and what was read of its URLs.
fn readings_of_agent() -> String {
    format!("job_id IN ({}) OR url_id IN ({})", *JOBS_OF_AGENT, *URLS_OF_AGENT)
}

static JOBS_OF_AGENT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id FROM jobs WHERE {NAMED_BY_METADATA}"));
static URLS_OF_AGENT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id FROM urls WHERE {NAMED_BY_METADATA}"));

/// That `latest_<table>` keeps a table's newest row of each URL.
fn newest_of_each_url(table: &str) -> NewestOf {
    NewestOf {
        table: table_name(&format!("latest_{table}")),
        description: format!("The newest row of {table} of each URL: the one with the latest scraped_at."),
        by: "url".to_owned(),
        at: "scraped_at".to_owned(),
    }
}

static READING_VALUES: LazyLock<Arc<TableSpec>> = LazyLock::new(|| {
    use ColumnKind::{Bool, Float64, Int64, Text, Timestamp};
    let mut table = console_table(
        "reading_values",
        "One row for each extracted value; a list has one for each member.",
        vec![
            column("result_id", Text, "The result.").required(),
            column("job_id", Text, "The job that made it.").required(),
            column("url_id", Text, "The registered URL, if it was one."),
            column("url", Text, "The URL that was asked for.").required(),
            column("domain", Text, "The URL's registrable domain.").required(),
            column("page_type", Text, "The kind of page."),
            column("attribute", Text, "The attribute's name.").required(),
            column("position", Int64, "Place in a list, from 0; 0 for a single value.").required(),
            column("value_text", Text, "The value as text.").required(),
            column("value_number", Float64, "The value, if it is a number."),
            column("value_bool", Bool, "The value, if it is a truth value."),
            column("is_changed", Bool, "Whether the attribute differs from the URL's previous result.")
                .required(),
            column("scraped_at", Timestamp, "When the page was fetched.").required(),
        ],
    );
    Arc::make_mut(&mut table).catalog_version = 2;
    let results = format!("SELECT result_id FROM readings WHERE job_id IN ({})", *JOBS_OF_AGENT);
    seen_by_agents(table, format!("url_id IN ({}) OR result_id IN ({results})", *URLS_OF_AGENT))
});

/// Every table, with the columns that all organizations have.
fn tables() -> Vec<TableSpec> {
    let typed = TYPED_TABLES.iter().map(|table| typed_table(table, &ColumnsV2::default()));
    [READINGS.clone(), READING_VALUES.clone()].into_iter().chain(typed).map(Arc::unwrap_or_clone).collect()
}

/// Grows when the common columns change.
const COMMON_VERSION: u64 = 2;

/// A page-type table with an organization's columns.
fn typed_table(name: &str, own: &ColumnsV2) -> Arc<TableSpec> {
    let mut columns: Vec<_> = COMMON_COLUMNS.iter().map(|name| common_column(name)).collect();
    columns.extend(own.columns.iter().map(|own| {
        let kind = match own.kind {
            ColumnKindV1::Text => ColumnKind::Text,
            ColumnKindV1::Number => ColumnKind::Float64,
            ColumnKindV1::Bool => ColumnKind::Bool,
            ColumnKindV1::List => ColumnKind::Json,
        };
        let about = own.description.as_ref().map(|(text, _)| text.clone());
        column(&own.column, kind, &about.unwrap_or_else(|| format!("The attribute {}.", own.attribute)))
    }));
    let about = match name {
        "products" => "Results of product pages, an attribute a column.",
        "product_lists" => "Results of product lists and bestseller lists, an attribute a column.",
        "serps" => "Results of search result pages, an attribute a column.",
        "articles" => "Results of articles, an attribute a column.",
        _ => "Results of job postings, an attribute a column.",
    };
    let mut table = Arc::unwrap_or_clone(console_table(name, about, columns));
    table.catalog_version = COMMON_VERSION + own.columns.len() as u64 + own.redescribed;
    table.newest = Some(newest_of_each_url(name));
    seen_by_agents(Arc::new(table), readings_of_agent())
}

/// The table that was last made of each name, with what it was made of: results come in runs of one organization, and
/// making a table costs more than a row of it.
static LAST_MADE: LazyLock<Mutex<HashMap<&'static str, MadeTable>>> = LazyLock::new(Mutex::default);

type MadeTable = (ColumnsV2, Arc<TableSpec>);

fn typed_table_again(name: &'static str, own: &ColumnsV2) -> Arc<TableSpec> {
    let mut last = LAST_MADE.lock();
    match last.get(name) {
        Some((columns, table)) if columns == own => Arc::clone(table),
        _ => {
            let table = typed_table(name, own);
            last.insert(name, (own.clone(), Arc::clone(&table)));
            table
        }
    }
}

fn common_column(name: &str) -> ColumnSpec {
    use ColumnKind::{Float64, Int64, Text, Timestamp};
    let described = |kind, text| column(name, kind, text);
    match name {
        "result_id" => described(Text, "The result.").required(),
        "job_id" => described(Text, "The job that made it.").required(),
        "url_id" => described(Text, "The registered URL, if it was one."),
        "url" => described(Text, "The URL that was asked for.").required(),
        "domain" => described(Text, "The URL's registrable domain.").required(),
        "page_type" => described(Text, "The kind of page.").required(),
        "schema_version" => described(Int64, "The version of the schema that read the page.").required(),
        "quality_composite" => described(Float64, "0.6 completeness + 0.4 validation.").required(),
        "extracted_at" => described(Timestamp, "When it was read, the last time.").required(),
        _ => described(Timestamp, "When the page was fetched.").required(),
    }
}

/// The console rows of the result under `key` as it is now; none in every table when it is gone.
fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let job = JobId::decode(key)
        .ok_or_else(|| Error::internal("read a change of a result", "its key is damaged"))?;
    let row = tx.get(&RESULTS, &job)?;
    let mut all = vec![
        ViewRows { table: READINGS.clone(), rows: row.iter().map(reading).collect() },
        ViewRows {
            table: READING_VALUES.clone(),
            rows: row.as_ref().map(reading_values).unwrap_or_default(),
        },
    ];
    let own = row.as_ref().filter(|row| row.schema.is_some()).and_then(|row| row.page_type).map(table_of);
    for name in TYPED_TABLES {
        let columns = tx.get(&COLUMNS, &name.to_owned())?.unwrap_or_default();
        let rows = match &row {
            Some(row) if own == Some(name) => vec![typed(row, &columns)],
            _ => Vec::new(),
        };
        all.push(ViewRows { table: typed_table_again(name, &columns), rows });
    }
    Ok(all)
}

fn reading(row: &ResultV3) -> Vec<Cell> {
    let quality = row.quality;
    vec![
        text(row.id),
        text(row.job),
        optional(row.url_id),
        Cell::from(row.url.as_str()),
        Cell::from(row.domain.as_str()),
        optional(row.page_type),
        row.schema.map_or(Cell::Null, |schema| Cell::Int(i64::from(schema.version))),
        text(&row.values.0),
        quality.map_or(Cell::Null, |quality| Cell::Float(quality.composite)),
        quality.map_or(Cell::Null, |quality| Cell::Float(quality.completeness)),
        quality.map_or(Cell::Null, |quality| Cell::Float(quality.validation)),
        Cell::from(row.provider.as_str()),
        Cell::Int(i64::from(row.http_status)),
        Cell::from(hex(&row.content_hash)),
        text(Value::from(row.changed.clone())),
        row.title.as_deref().map_or(Cell::Null, Cell::from),
        time(row.scraped_at),
        time(row.extracted_at),
    ]
}

fn reading_values(row: &ResultV3) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (attribute, value) in row.values.0.as_object().into_iter().flatten() {
        let members = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        let is_changed = row.changed.contains(attribute);
        for (position, member) in members.iter().enumerate() {
            rows.push(vec![
                text(row.id),
                text(row.job),
                optional(row.url_id),
                Cell::from(row.url.as_str()),
                Cell::from(row.domain.as_str()),
                optional(row.page_type),
                Cell::from(attribute.as_str()),
                Cell::Int(i64::try_from(position).unwrap_or(i64::MAX)),
                plain_text(member),
                member.as_f64().map_or(Cell::Null, Cell::Float),
                member.as_bool().map_or(Cell::Null, Cell::Bool),
                Cell::Bool(is_changed),
                time(row.scraped_at),
            ]);
        }
    }
    rows
}

/// The row of a page-type table: the common columns, then a cell for each of the organization's.
fn typed(row: &ResultV3, columns: &ColumnsV2) -> Vec<Cell> {
    let mut cells = vec![
        text(row.id),
        text(row.job),
        optional(row.url_id),
        Cell::from(row.url.as_str()),
        Cell::from(row.domain.as_str()),
        optional(row.page_type),
        row.schema.map_or(Cell::Null, |schema| Cell::Int(i64::from(schema.version))),
        row.quality.map_or(Cell::Null, |quality| Cell::Float(quality.composite)),
        time(row.scraped_at),
        time(row.extracted_at),
    ];
    cells.extend(columns.columns.iter().map(|column| typed_cell(row, column)));
    cells
}

/// A value stands in the column of its own kind; under another kind's column of the same attribute is NULL.
fn typed_cell(row: &ResultV3, column: &TypedColumnV2) -> Cell {
    match (column.kind, row.values.0.get(&column.attribute)) {
        (ColumnKindV1::Text, Some(Value::String(value))) => Cell::from(value.as_str()),
        (ColumnKindV1::Number, Some(Value::Number(value))) => value.as_f64().map_or(Cell::Null, Cell::Float),
        (ColumnKindV1::Bool, Some(Value::Bool(value))) => Cell::Bool(*value),
        (ColumnKindV1::List, Some(value @ Value::Array(_))) => text(value),
        _ => Cell::Null,
    }
}

fn plain_text(value: &Value) -> Cell {
    value.as_str().map_or_else(|| text(value), Cell::from)
}

fn text(value: impl ToString) -> Cell {
    Cell::from(value.to_string())
}

fn optional(value: Option<impl ToString>) -> Cell {
    value.map_or(Cell::Null, text)
}

fn time(time: Timestamp) -> Cell {
    Cell::Time(time.millis())
}

/// A digest in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}
