//! The platform's schemas as a table of the SQL console. As in the list of the interface, every organization sees all of them:
//! they are the platform's, and what somebody has read by them is not in it.

use super::rows::{PLATFORM_SCHEMAS, PlatformSchemaV1, SCHEMA_HEADS};
use super::schemas::{attributes_of, good_until, with_confirmed};
use crate::console::{Column, ConsoleTable, SharedView, int, optional_time, text, time};
use base::Result;
use base::clock::{Moment, Timestamp};
use base::codec::Record;
use serde::{Deserialize, Serialize};
use sql::{Cell, ColumnKind, Key};
use std::sync::LazyLock;
use std::time::Duration;
use store::{SysRead, SysTable, SysWrite, readable};

/// Versions of schemas that the table has.
const ROWS_MAX: usize = 100_000;
/// Rows read at once.
const STEP_ROWS: usize = 1_000;
/// How soon the table says that pages have confirmed schemas: pages come all the time, and all rows are read again.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(600);

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

/// How often the schemas have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaChangesV1 {
    count: u64,
    /// When pages have confirmed some that are not counted yet.
    confirmed_at: Option<Moment>,
}

impl Record for SchemaChangesV1 {}

pub static SCHEMA_CHANGES: SysTable<(), SchemaChangesV1> =
    SysTable::new("platform_schemas_changes", "Schema changes");

/// What there was before anything was counted is a state of its own.
fn version(tx: &SysRead<'_>) -> Result<u64> {
    let known = changes(tx)?;
    Ok(1 + known.count + u64::from(known.is_due(tx.moment())))
}

fn changes(tx: &SysRead<'_>) -> Result<SchemaChangesV1> {
    Ok(readable("how often schemas have changed", "", tx.get(&SCHEMA_CHANGES, &()))?
        .flatten()
        .unwrap_or_default())
}

impl SchemaChangesV1 {
    fn is_due(self, now: Moment) -> bool {
        self.confirmed_at.is_some_and(|at| at.after(CONFIRMED_WITHIN) <= now)
    }
}

/// Must be called wherever schemas, or which of them is the newest, are changed: the table follows.
pub(super) fn note_change(tx: &SysWrite<'_>) -> Result<()> {
    let known = changes(tx)?;
    let count = known.count + 1 + u64::from(known.is_due(tx.moment()));
    tx.put(&SCHEMA_CHANGES, &(), &SchemaChangesV1 { count, confirmed_at: None })
}

/// The same where pages have only confirmed what there is.
pub(super) fn note_confirmed(tx: &SysWrite<'_>) -> Result<()> {
    let known = changes(tx)?;
    let is_due = known.is_due(tx.moment());
    if known.confirmed_at.is_some() && !is_due {
        return Ok(());
    }
    let count = known.count + u64::from(is_due);
    tx.put(&SCHEMA_CHANGES, &(), &SchemaChangesV1 { count, confirmed_at: Some(tx.moment()) })
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
