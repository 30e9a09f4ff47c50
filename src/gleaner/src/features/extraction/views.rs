//! Results as tables of the SQL console.
//!
//! `readings` has a row for each result, `reading_values` one for each value, and the tables of page types have the values
//! in typed columns. Which columns an organization's page-type tables have is in its own rows ([`super::columns`]), so
//! nothing here looks beyond the organization.

use super::columns::{COMMON, all_typed_tables, table_of, typed_tables};
use super::rows::{COLUMNS, ColumnKindV1, ColumnsV2, RESULTS, ResultV4, TypedColumnV2};
use super::text_rows::{TEXTS, text_of};
use crate::console::{
    BOUND_TO_AGENT, Column, ConsoleTable, View, ViewRows, column, console_table, optional_int, optional_text,
    seen_by_agents, table_name, text, time,
};
use crate::features::urls::has_page_type;
use base::ids::JobId;
use base::{Error, Result};
use parking_lot::Mutex;
use serde_json::Value;
use sql::{Cell, ColumnKind, ColumnSpec, NewestOf, TableSpec};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use store::{Key, OrgRead};

/// How results look in the console.
pub static VIEWS: &[View] = &[
    View { source: RESULTS.name(), tables, rows },
    View { source: COLUMNS.name(), tables: widest, rows: widened },
    View { source: TEXTS.name(), tables: || vec![READINGS.spec()], rows: with_text },
];

/// A result with the main text of its page.
struct ReadResult {
    row: Arc<ResultV4>,
    text: Option<String>,
}

impl Deref for ReadResult {
    type Target = ResultV4;

    fn deref(&self) -> &ResultV4 {
        &self.row
    }
}

static READINGS: LazyLock<ConsoleTable<ReadResult>> = LazyLock::new(|| {
    use ColumnKind::{Float64, Int64, Json, Text, Timestamp};
    let table = ConsoleTable::<ReadResult>::new(
        "readings",
        "One row for each result: what a job extracted from a page.",
        [
            Column::required("result_id", Text, "The result.", |row| text(row.id)),
            Column::required("job_id", Text, "The job that made it.", |row| text(row.job)),
            Column::nullable("url_id", Text, "The registered URL, if it was one.", |row| {
                optional_text(row.url_id)
            }),
            Column::required("url", Text, "The URL that was asked for.", |row| Cell::from(row.url.as_str())),
            Column::required("domain", Text, "The URL's registrable domain.", |row| {
                Cell::from(row.domain.as_str())
            }),
            Column::nullable(
                "page_type",
                Text,
                "product, product_list, serp, article, job_posting, bestseller, or one of your own.",
                |row| optional_text(row.page_type),
            ),
            Column::nullable(
                "schema_version",
                Int64,
                "The version of the schema that read the page.",
                |row| optional_int(row.schema.map(|schema| schema.version)),
            ),
            Column::required("values", Json, "The extracted values by attribute.", |row| text(&row.values.0)),
            Column::nullable("quality_composite", Float64, "0.6 completeness + 0.4 validation.", |row| {
                row.quality.map_or(Cell::Null, |quality| Cell::Float(quality.composite))
            }),
            Column::nullable("quality_completeness", Float64, "Share of attributes with a value.", |row| {
                row.quality.map_or(Cell::Null, |quality| Cell::Float(quality.completeness))
            }),
            Column::nullable(
                "quality_validation",
                Float64,
                "Share of values that passed type and validation.",
                |row| row.quality.map_or(Cell::Null, |quality| Cell::Float(quality.validation)),
            ),
            Column::required("provider", Text, "The provider that delivered the page.", |row| {
                Cell::from(row.provider.as_str())
            }),
            Column::required("http_status", Int64, "The target's answer.", |row| {
                Cell::Int(i64::from(row.http_status))
            }),
            Column::required(
                "content_hash",
                Text,
                "SHA-256 of the values, or of the page without a schema.",
                |row| Cell::from(hex(&row.content_hash)),
            ),
            Column::required(
                "changed",
                Json,
                "Attributes that differ from the URL's previous result.",
                |row| text(Value::from(row.changed.clone())),
            ),
            Column::nullable("title", Text, "The page's title.", |row| optional_text(row.title.as_ref())),
            Column::required("scraped_at", Timestamp, "When the page was fetched.", |row| {
                time(row.scraped_at)
            }),
            Column::required("extracted_at", Timestamp, "When it was read.", |row| time(row.extracted_at)),
            Column::nullable(
                "text",
                Text,
                "The main text of the page, the first 16 KiB; it comes some seconds after the row.",
                |row| optional_text(row.text.as_ref()),
            ),
        ],
    );
    table.version(2).newest(newest_of_each_url("readings")).seen_by_agents(readings_of_agent())
});

/// An agent sees what its jobs read, and what was read of its URLs.
fn readings_of_agent() -> String {
    format!("job_id IN ({}) OR url_id IN ({})", *JOBS_OF_AGENT, *URLS_OF_AGENT)
}

static JOBS_OF_AGENT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id FROM jobs WHERE {BOUND_TO_AGENT}"));
static URLS_OF_AGENT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id FROM urls WHERE {BOUND_TO_AGENT}"));

/// That `latest_<table>` keeps a table's newest row of each URL.
fn newest_of_each_url(table: &str) -> NewestOf {
    NewestOf {
        table: table_name(&format!("latest_{table}")),
        description: format!("The newest row of {table} of each URL: the one with the latest scraped_at."),
        by: "url".to_owned(),
        at: "scraped_at".to_owned(),
    }
}

/// An extracted value.
struct ReadingValue {
    result: Arc<ResultV4>,
    attribute: String,
    position: usize,
    value: Value,
    is_changed: bool,
}

static READING_VALUES: LazyLock<ConsoleTable<ReadingValue>> = LazyLock::new(|| {
    use ColumnKind::{Bool, Float64, Int64, Text, Timestamp};
    let table = ConsoleTable::<ReadingValue>::new(
        "reading_values",
        "One row for each extracted value; a list has one for each member.",
        [
            Column::required("result_id", Text, "The result.", |row| text(row.result.id)),
            Column::required("job_id", Text, "The job that made it.", |row| text(row.result.job)),
            Column::nullable("url_id", Text, "The registered URL, if it was one.", |row| {
                optional_text(row.result.url_id)
            }),
            Column::required("url", Text, "The URL that was asked for.", |row| {
                Cell::from(row.result.url.as_str())
            }),
            Column::required("domain", Text, "The URL's registrable domain.", |row| {
                Cell::from(row.result.domain.as_str())
            }),
            Column::nullable("page_type", Text, "The kind of page.", |row| {
                optional_text(row.result.page_type)
            }),
            Column::required("attribute", Text, "The attribute's name.", |row| {
                Cell::from(row.attribute.as_str())
            }),
            Column::required("position", Int64, "Place in a list, from 0; 0 for a single value.", |row| {
                Cell::Int(i64::try_from(row.position).unwrap_or(i64::MAX))
            }),
            Column::required("value_text", Text, "The value as text.", |row| plain_text(&row.value)),
            Column::nullable("value_number", Float64, "The value, if it is a number.", |row| {
                row.value.as_f64().map_or(Cell::Null, Cell::Float)
            }),
            Column::nullable("value_bool", Bool, "The value, if it is a truth value.", |row| {
                row.value.as_bool().map_or(Cell::Null, Cell::Bool)
            }),
            Column::required(
                "is_changed",
                Bool,
                "Whether the attribute differs from the URL's previous result.",
                |row| Cell::Bool(row.is_changed),
            ),
            Column::required("scraped_at", Timestamp, "When the page was fetched.", |row| {
                time(row.result.scraped_at)
            }),
        ],
    );
    let results = format!("SELECT result_id FROM readings WHERE job_id IN ({})", *JOBS_OF_AGENT);
    table.version(2).seen_by_agents(format!("url_id IN ({}) OR result_id IN ({results})", *URLS_OF_AGENT))
});

/// Every table, with the columns that all organizations have.
fn tables() -> Vec<TableSpec> {
    let typed = typed_tables().into_iter().map(|table| typed_table(&table, &ColumnsV2::default()));
    [READINGS.spec(), READING_VALUES.spec()].into_iter().chain(typed.map(Arc::unwrap_or_clone)).collect()
}

/// The tables that columns are added to.
fn widest() -> Vec<TableSpec> {
    let table = |name: Cow<'_, str>| Arc::unwrap_or_clone(typed_table(&name, &ColumnsV2::default()));
    typed_tables().into_iter().map(table).collect()
}

/// A table as wide as its list of columns says, without a row: a column is there as soon as its attribute is saved.
fn widened(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let name = String::decode(key)
        .ok_or_else(|| Error::internal("read a change of a column list", "its key is damaged"))?;
    if !all_typed_tables(tx)?.contains(&Cow::Borrowed(name.as_str())) {
        return Ok(Vec::new());
    }
    let columns = tx.get(&COLUMNS, &name)?.unwrap_or_default();
    Ok(vec![ViewRows { table: typed_table_again(&name, &columns), rows: Vec::new() }])
}

/// The table of an organization's own page type as statements see it, for as long as there is the page type. Its rows stay
/// when that ends, and are there again when it begins again.
pub fn own_table(tx: &OrgRead<'_>, table: TableSpec) -> Result<Option<TableSpec>> {
    let name = table.name.as_str().to_owned();
    let newest = Some(newest_of_each_url(&name));
    let agent_rows = Some(readings_of_agent());
    Ok(has_page_type(tx, &name)?.then_some(TableSpec { newest, agent_rows, ..table }))
}

/// Grows when the common columns change.
const COMMON_VERSION: u64 = 3;

/// A page-type table with an organization's columns.
fn typed_table(name: &str, own: &ColumnsV2) -> Arc<TableSpec> {
    let mut columns: Vec<_> = COMMON.iter().map(|column| column.spec().clone()).collect();
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
        "job_postings" => "Results of job postings, an attribute a column.",
        own => &format!("Results of pages of your own type {own}, an attribute a column."),
    };
    let mut table = Arc::unwrap_or_clone(console_table(name, about, columns));
    table.catalog_version = COMMON_VERSION + own.columns.len() as u64 + own.redescribed;
    table.newest = Some(newest_of_each_url(name));
    seen_by_agents(Arc::new(table), readings_of_agent())
}

/// The table that was last made of each name, with what it was made of: results come in runs of one organization, and
/// making a table costs more than a row of it.
static LAST_MADE: LazyLock<Mutex<HashMap<String, MadeTable>>> = LazyLock::new(Mutex::default);

/// Names of which one is remembered; organizations make theirs up.
const LAST_MADE_MAX: usize = 64;

type MadeTable = (ColumnsV2, Arc<TableSpec>);

fn typed_table_again(name: &str, own: &ColumnsV2) -> Arc<TableSpec> {
    let mut last = LAST_MADE.lock();
    match last.get(name) {
        Some((columns, table)) if columns == own => Arc::clone(table),
        _ => {
            let table = typed_table(name, own);
            if last.len() >= LAST_MADE_MAX {
                last.clear();
            }
            last.insert(name.to_owned(), (own.clone(), Arc::clone(&table)));
            table
        }
    }
}

/// The reading of the result whose text is under `key`.
fn with_text(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let job =
        JobId::decode(key).ok_or_else(|| Error::internal("read a change of a text", "its key is damaged"))?;
    let row = tx.get(&RESULTS, &job)?.map(Arc::new);
    Ok(vec![reading(tx, job, row.as_ref())?])
}

fn reading(tx: &OrgRead<'_>, job: JobId, row: Option<&Arc<ResultV4>>) -> Result<ViewRows> {
    let read = |row: &Arc<ResultV4>| Ok(ReadResult { row: Arc::clone(row), text: text_of(tx, job)? });
    Ok(READINGS.rows(&row.map(read).transpose()?))
}

/// The console rows of the result under `key` as it is now; none in every table when it is gone.
fn rows(tx: &OrgRead<'_>, key: &[u8]) -> Result<Vec<ViewRows>> {
    let job = JobId::decode(key)
        .ok_or_else(|| Error::internal("read a change of a result", "its key is damaged"))?;
    let row = tx.get(&RESULTS, &job)?.map(Arc::new);
    let values = row.as_ref().map(reading_values).unwrap_or_default();
    let mut all = vec![reading(tx, job, row.as_ref())?, READING_VALUES.rows(&values)];
    let own = row.as_ref().filter(|row| row.was_read()).and_then(|row| row.page_type).map(table_of);
    for name in tables_of_row(tx, row.as_deref())? {
        let columns = tx.get(&COLUMNS, &name.clone().into_owned())?.unwrap_or_default();
        let rows = match &row {
            Some(row) if own.as_ref() == Some(&name) => vec![typed(row, &columns)],
            _ => Vec::new(),
        };
        all.push(ViewRows { table: typed_table_again(&name, &columns), rows });
    }
    Ok(all)
}

/// The page types' tables in which a result may stand, or may have stood. One that has a page type of the organization's own
/// keeps it, so the tables of others concern only what is gone.
fn tables_of_row(tx: &OrgRead<'_>, row: Option<&ResultV4>) -> Result<Vec<Cow<'static, str>>> {
    let Some(row) = row else { return all_typed_tables(tx) };
    let own = row.page_type.filter(|page_type| page_type.is_own()).map(table_of);
    Ok(typed_tables().into_iter().chain(own).collect())
}

fn reading_values(row: &Arc<ResultV4>) -> Vec<ReadingValue> {
    let mut values = Vec::new();
    for (attribute, value) in row.values.0.as_object().into_iter().flatten() {
        let members = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        let is_changed = row.changed.contains(attribute);
        values.extend(members.iter().enumerate().map(|(position, member)| ReadingValue {
            result: Arc::clone(row),
            attribute: attribute.clone(),
            position,
            value: member.clone(),
            is_changed,
        }));
    }
    values
}

/// The row of a page-type table: the common columns, then a cell for each of the organization's.
fn typed(row: &ResultV4, columns: &ColumnsV2) -> Vec<Cell> {
    let mut cells: Vec<_> = COMMON.iter().map(|column| column.cell(row)).collect();
    cells.extend(columns.columns.iter().map(|column| typed_cell(row, column)));
    cells
}

/// Results as they stand in the console's table of their page type, which has the columns that it has now; those that stand
/// in no such table, or in another one, are left out.
pub fn typed_rows(
    tx: &OrgRead<'_>,
    table: &str,
    results: &[ResultV4],
) -> Result<(Vec<ColumnSpec>, Vec<Vec<Cell>>)> {
    let columns = tx.get(&COLUMNS, &table.to_owned())?.unwrap_or_default();
    let stands =
        |row: &&ResultV4| row.was_read() && row.page_type.is_some_and(|kind| table_of(kind) == table);
    let rows = results.iter().filter(stands).map(|row| typed(row, &columns)).collect();
    Ok((typed_table_again(table, &columns).columns.clone(), rows))
}

/// Results of any page type: the columns that all of them have, and the values as one object.
pub fn plain_rows(results: &[ResultV4]) -> (Vec<ColumnSpec>, Vec<Vec<Cell>>) {
    let mut columns: Vec<_> = COMMON.iter().map(|column| column.spec().clone()).collect();
    columns.push(column("values", ColumnKind::Json, "The extracted values by attribute."));
    let row = |row: &ResultV4| {
        let cells = COMMON.iter().map(|column| column.cell(row));
        cells.chain(std::iter::once(text(&row.values.0))).collect()
    };
    (columns, results.iter().map(row).collect())
}

/// A value stands in the column of its own kind; under another kind's column of the same attribute is NULL.
fn typed_cell(row: &ResultV4, column: &TypedColumnV2) -> Cell {
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

/// A digest in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}
