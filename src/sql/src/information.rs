//! `information_schema.tables` and `information_schema.columns`, of the tables that the statement may read and no others.
//!
//! They are made from the session's own list when a statement names them, so an organization sees its tables and an agent's
//! statement those of the agent. Names and types are PostgreSQL's; `description` is what the tables say of themselves, which
//! PostgreSQL keeps elsewhere. Of DataFusion's own information schema, which tells about the box too, there is nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::MemTable;

use super::catalog::{CATALOG, SCHEMA, TableMap, TableSpec};
use super::spool;

/// The schema's name.
pub(super) const INFORMATION: &str = "information_schema";
/// Its tables.
pub(super) const TABLES: &str = "tables";
pub(super) const COLUMNS: &str = "columns";

/// What the tables of a session say of themselves, by their names.
pub(super) type Specs = BTreeMap<String, Arc<TableSpec>>;

/// One of its tables over the tables of a session; none for any other name.
pub(super) fn table(name: &str, tables: &TableMap, specs: &Specs) -> Result<Option<Arc<dyn TableProvider>>> {
    let columns = match name {
        TABLES => of_tables(tables, specs),
        COLUMNS => of_columns(tables, specs),
        _ => return Ok(None),
    };
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    Ok(Some(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?)))
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn texts<T: Into<String>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.map(|value| value.map(Into::into)).collect::<StringArray>())
}

fn of_tables(tables: &TableMap, specs: &Specs) -> Columns {
    let same = |text: &'static str| texts(tables.keys().map(|_| Some(text)));
    let about = tables.keys().map(|name| specs.get(name).map(|spec| spec.description.clone()));
    vec![
        ("table_catalog", same(CATALOG)),
        ("table_schema", same(SCHEMA)),
        ("table_name", texts(tables.keys().map(|name| Some(name.as_str())))),
        ("table_type", same("BASE TABLE")),
        ("is_insertable_into", same("NO")),
        ("is_typed", same("NO")),
        ("description", texts(about)),
    ]
}

/// A column of a table of the session.
struct Described<'a> {
    table: &'a str,
    name: String,
    position: i64,
    kind: DataType,
    nullable: bool,
    is_json: bool,
    description: Option<String>,
}

fn of_columns(tables: &TableMap, specs: &Specs) -> Columns {
    let mut all = Vec::new();
    for (table, provider) in tables {
        let spec = specs.get(table);
        for (place, field) in provider.schema().fields().iter().enumerate() {
            let own = spec.and_then(|spec| spec.columns.iter().find(|own| own.name == *field.name()));
            all.push(Described {
                table,
                name: field.name().clone(),
                position: i64::try_from(place + 1).unwrap_or(i64::MAX),
                kind: field.data_type().clone(),
                nullable: own.is_none_or(|own| own.nullable),
                is_json: own.is_some_and(|own| own.kind.type_name() == "json"),
                description: own.and_then(|own| own.description.clone()),
            });
        }
    }
    let same = |text: &'static str| texts(all.iter().map(|_| Some(text)));
    let type_name = |column: &Described<'_>| match spool::json::type_name(&column.kind).as_str() {
        _ if column.is_json => "json".to_owned(),
        "timestamp" => "timestamp without time zone".to_owned(),
        other => other.to_owned(),
    };
    let short_name = |column: &Described<'_>| match type_name(column).as_str() {
        "bigint" => "int8".to_owned(),
        "boolean" => "bool".to_owned(),
        "double precision" => "float8".to_owned(),
        "timestamp without time zone" => "timestamp".to_owned(),
        other => other.to_owned(),
    };
    vec![
        ("table_catalog", same(CATALOG)),
        ("table_schema", same(SCHEMA)),
        ("table_name", texts(all.iter().map(|column| Some(column.table)))),
        ("column_name", texts(all.iter().map(|column| Some(column.name.as_str())))),
        (
            "ordinal_position",
            Arc::new(all.iter().map(|column| Some(column.position)).collect::<Int64Array>()),
        ),
        ("column_default", texts(all.iter().map(|_| None::<&str>))),
        ("is_nullable", texts(all.iter().map(|column| Some(if column.nullable { "YES" } else { "NO" })))),
        ("data_type", texts(all.iter().map(|column| Some(type_name(column))))),
        ("udt_name", texts(all.iter().map(|column| Some(short_name(column))))),
        ("description", texts(all.iter().map(|column| column.description.clone()))),
    ]
}
