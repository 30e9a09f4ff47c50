//! The platform's schemas as a table of the SQL console. As in the list of the interface, every organization sees all of them:
//! they are the platform's, and what somebody has read by them is not in it.

use super::rows::{PLATFORM_SCHEMAS, PlatformSchemaV1, SCHEMA_HEADS};
use super::schema_changes::count;
use super::schemas::{attributes_of, good_until, with_confirmed};
use crate::console::{Column, ConsoleTable, SharedView, int, optional_time, text, time};
use base::Result;
use base::clock::Timestamp;
use sql::{Cell, ColumnKind, Key};
use std::sync::LazyLock;
use store::{SysRead, readable};

/// Versions of schemas that the table has.
const ROWS_MAX: usize = 100_000;
/// Rows read at once.
const STEP_ROWS: usize = 1_000;

pub(super) static SHARED_VIEWS: &[SharedView] =
    &[SharedView { table: || TABLE.spec(), version, rows: all_rows }];

struct ShownSchema {
    row: PlatformSchemaV1,
    is_current: bool,
    attributes: Vec<String>,
    confirmed: Option<Timestamp>,
}

static TABLE: LazyLock<ConsoleTable<ShownSchema>> = LazyLock::new(|| {
    use ColumnKind::{Bool, Float64, Int64, Json, Text, Timestamp};
    let (required, nullable) = (Column::<ShownSchema>::required, Column::<ShownSchema>::nullable);
    ConsoleTable::<ShownSchema>::new(
        "schemas",
        "One row for each version of the platform's schemas: how a page type of a domain is read.",
        [
            required("id", Text, "The schema.", |schema| text(schema.row.id)),
            required("domain", Text, "A registrable domain, or one host of it.", |schema| {
                Cell::from(schema.row.domain.as_str())
            }),
            required("page_type", Text, "The kind of page that it reads.", |schema| {
                text(schema.row.page_type)
            }),
            required("version", Int64, "1 and up for each domain and page type.", |schema| {
                int(u64::from(schema.row.version))
            }),
            required("is_current", Bool, "Whether pages are read by this version now.", |schema| {
                Cell::Bool(schema.is_current)
            }),
            required("attributes", Json, "The names of its attributes, in order.", |schema| {
                text(serde_json::Value::from(schema.attributes.clone()))
            }),
            required("attribute_count", Int64, "How many they are.", |schema| {
                int(schema.attributes.len() as u64)
            }),
            required("confidence", Float64, "From 0 to 1.", |schema| Cell::Float(schema.row.confidence)),
            required(
                "discovered_by",
                Text,
                "Who proposed it: llm, llm_multi_sample, manual or reverse_engineered.",
                |schema| Cell::from(schema.row.discovered_by.name()),
            ),
            required("sample_count", Int64, "Pages that it was made from.", |schema| {
                int(u64::from(schema.row.sample_count))
            }),
            required("created_at", Timestamp, "When it was made.", |schema| time(schema.row.created_at)),
            nullable(
                "last_validated_at",
                Timestamp,
                "When a page last confirmed it, to the hour; none while none has.",
                |schema| optional_time(schema.confirmed),
            ),
            required(
                "expires_at",
                Timestamp,
                "Until when it counts as good unless another page confirms it.",
                |schema| time(good_until(&schema.row, schema.confirmed)),
            ),
        ],
    )
});

/// What there was before anything was counted is a state of its own.
fn version(tx: &SysRead<'_>) -> Result<u64> {
    Ok(1 + count(tx)?)
}

fn all_rows(tx: &SysRead<'_>) -> Result<Vec<(Key, Vec<Cell>)>> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let step = tx.readable(&PLATFORM_SCHEMAS, after.as_deref(), STEP_ROWS)?;
        for (key, row) in step.rows {
            let head = readable("the newest schema", &row.domain, tx.get(&SCHEMA_HEADS, &key.pair))?;
            let is_current = head.flatten().is_some_and(|head| head.version == key.version);
            // One that this release cannot read has no attributes to show.
            let attributes = attributes_of(&row).unwrap_or_default();
            let attributes = attributes.into_iter().map(|attribute| attribute.name).collect();
            let (row, confirmed) = with_confirmed(tx, row)?;
            let id = *row.id.0.as_bytes();
            rows.push((id, TABLE.row(&ShownSchema { row, is_current, attributes, confirmed })));
        }
        match step.next {
            Some(next) if rows.len() < ROWS_MAX => after = Some(next),
            _ => return Ok(rows),
        }
    }
}
