//! The platform's schemas as a table of the SQL console. As in the list of the interface, every organization sees all of them:
//! they are the platform's. What one organization's readings by them come to stands beside them in its own statements alone: these
//! columns are joined to its table `drift` when a statement asks, and are in no stored row.

use super::rows::{PLATFORM_SCHEMAS, PlatformSchemaV1, SCHEMA_HEADS};
use super::schema_changes::count;
use super::schemas::{attributes_of, good_until, with_confirmed};
use crate::console::{Column, ConsoleTable, KeyedRow, SharedView, int, optional_time, text, time};
use base::Result;
use base::clock::Timestamp;
use sql::{Cell, ColumnKind, JoinedColumns};
use std::sync::LazyLock;
use store::{SysRead, readable};

/// Versions of schemas that the table has.
const ROWS_MAX: usize = 100_000;
/// Rows read at once.
const STEP_ROWS: usize = 1_000;
/// The states of drift, the worst first: of several, the first is told.
pub const DRIFT_WORST_FIRST: [&str; 8] =
    ["broken", "repairing", "blocked", "outage", "drifting", "absent", "repaired", "ok"];

/// What the organization's table `drift` says of the page types of each domain, for the version that holds: the state of the attribute
/// that is worst off, and how many are not found as they were. As in the list, none is well while
/// no pages of its registrable domain come.
fn worst_read() -> String {
    let states = || DRIFT_WORST_FIRST.iter().enumerate();
    let to_rank: String = states().map(|(rank, state)| format!(" WHEN '{state}' THEN {rank}")).collect();
    let to_state: String = states().map(|(rank, state)| format!(" WHEN {rank} THEN '{state}'")).collect();
    let known = "coalesce(CASE own.state WHEN 'ok' THEN fetches.state END, own.state)";
    format!(
        "SELECT own.domain, own.page_type, true AS is_current, \
         CASE min(CASE {known}{to_rank} END){to_state} END AS drift, \
         count(*) FILTER (WHERE own.state IN ('broken', 'drifting', 'repairing')) AS drifting_count \
         FROM drift AS own LEFT JOIN drift AS fetches ON fetches.attribute IS NULL \
             AND ends_with('.' || own.domain, '.' || fetches.domain) \
         WHERE own.attribute IS NOT NULL GROUP BY own.domain, own.page_type"
    )
}

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
            nullable(
                "drift",
                Text,
                "Beside the version that is current: how the attribute that is worst off does in your newest results, which is broken, \
                 repairing, blocked, outage, drifting, absent, repaired or ok; none where you have none. The table `drift` has each \
                 attribute, your own among them.",
                |_| Cell::Null,
            ),
            nullable(
                "drifting_count",
                Int64,
                "How many attributes are broken, drifting or being repaired there.",
                |_| Cell::Null,
            ),
        ],
    )
    .version(2)
    .joined(JoinedColumns {
        names: ["drift", "drifting_count"].map(str::to_owned).to_vec(),
        from: worst_read(),
        by: ["domain", "page_type", "is_current"].map(str::to_owned).to_vec(),
    })
});

/// What there was before anything was counted is a state of its own.
fn version(tx: &SysRead<'_>) -> Result<u64> {
    Ok(1 + count(tx)?)
}

fn all_rows(tx: &SysRead<'_>) -> Result<Vec<KeyedRow>> {
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
