//! A Delta Lake log over the Parquet files of a table (Delta transaction log protocol, reader version 1, writer version 2).
//!
//! A batch is one commit, `_delta_log/<version>.json`, which is there whole or not at all, and which nobody else's takes the place
//! of: in a folder it gets its name by a link, in a bucket it is put under the condition that there is none (`If-None-Match: *`), on a
//! server it is renamed to a name that nobody has. A batch that is written again adds files under names that are there; the log is
//! looked at for them, and they are not added twice. Every tenth commit or so is followed by a [`checkpoint`], from which readers,
//! and the box, begin instead of reading all commits.
//!
//! **A bucket without conditional puts.** Then nothing but the box may write into the table. Of the box, one batch of an output is
//! sent at a time, and whoever opens the shelf keeps outputs that share a folder apart. A put that a process left under way when it
//! was killed, and that comes late, brings what the next one writes again: the batch is the first that is sent after a start.

mod checkpoint;
mod log;
mod statistics;

use super::{FileFault, Place, Shelf};
use crate::Batch;
use log::Log;
use serde_json::{Value, json};
use sql::{ColumnKind, ColumnSpec};
use statistics::statistics;
use std::collections::HashSet;

/// The column by which the table is partitioned.
pub const DATE_COLUMN: &str = "scraped_date";
const LOG: &str = "_delta_log";
/// How often another version is tried when somebody else was faster.
const TRIES: u32 = 20;

/// A file that a commit adds.
pub(super) struct Add {
    path: String,
    date: String,
    bytes: u64,
    statistics: Value,
    columns: Vec<ColumnSpec>,
}

impl Add {
    pub fn of(path: String, date: String, bytes: u64, batch: &Batch) -> Add {
        Add { path, date, bytes, statistics: statistics(batch), columns: batch.columns.clone() }
    }

    fn action(&self, place: Place) -> Value {
        json!({ "add": {
            "path": self.path,
            "partitionValues": { DATE_COLUMN: self.date },
            "size": self.bytes,
            "modificationTime": place.at_ms,
            "dataChange": true,
            "stats": self.statistics.to_string(),
        }})
    }
}

/// Adds files to the table in one commit, unless that batch is in it. After so many commits there is a checkpoint.
pub(super) async fn commit(
    shelf: &mut Shelf,
    table: &str,
    writer: &str,
    place: Place,
    adds: Vec<Add>,
) -> Result<(), FileFault> {
    let folder = format!("{table}/{LOG}");
    let paths: HashSet<_> = adds.iter().map(|add| add.path.clone()).collect();
    for _ in 0..TRIES {
        let mut log = Log::read(shelf, &folder, &paths).await?;
        let new: Vec<_> = adds.iter().filter(|add| !log.has(&add.path, add.bytes)).collect();
        if !new.is_empty() {
            let actions = actions(writer, place, &new, &log)?;
            let lines: Vec<_> = actions.iter().map(Value::to_string).collect();
            let text = lines.join("\n") + "\n";
            let key = format!("{folder}/{}", log::version(log.next));
            if !shelf.put_new(&key, text.into(), writer).await? {
                // Somebody else has made this version: ours is the next one. Or it is ours, and the answer was lost.
                continue;
            }
            log.next += 1;
            log.tail.extend(actions);
        }
        let Some(newest) = log.next.checked_sub(1) else { return Ok(()) };
        return checkpoint::keep(shelf, (&folder, writer), newest, (log.checkpoint, log.tail), place.at_ms)
            .await;
    }
    Err(FileFault("somebody else writes into the Delta log all the time".to_owned()))
}

/// The lines of a commit.
fn actions(writer: &str, place: Place, adds: &[&Add], log: &Log) -> Result<Vec<Value>, FileFault> {
    let operation = json!({
        "timestamp": place.at_ms,
        "operation": "WRITE",
        "operationParameters": { "mode": "Append", "partitionBy": json!([DATE_COLUMN]).to_string() },
        "isBlindAppend": true,
        "engineInfo": concat!("gleaner/", env!("CARGO_PKG_VERSION")),
    });
    let mut actions = vec![json!({ "commitInfo": operation })];
    if log.next == 0 {
        actions.push(json!({ "protocol": { "minReaderVersion": 1, "minWriterVersion": 2 } }));
    }
    let before = log.metadata.as_ref();
    let fields = fields(before, adds)?;
    let schema = json!({ "type": "struct", "fields": fields }).to_string();
    if before.is_none_or(|before| before["schemaString"] != schema.as_str()) {
        let mut metadata = before.cloned().unwrap_or_else(|| {
            json!({
                "id": id(writer, place),
                "format": { "provider": "parquet", "options": {} },
                "partitionColumns": [DATE_COLUMN],
                "configuration": {},
                "createdTime": place.at_ms,
            })
        });
        metadata["schemaString"] = schema.into();
        actions.push(json!({ "metaData": metadata }));
    }
    actions.extend(adds.iter().map(|add| add.action(place)));
    Ok(actions)
}

/// The table's own id, in the form of a UUID.
fn id(writer: &str, place: Place) -> String {
    let sum = ring::digest::digest(
        &ring::digest::SHA256,
        format!("{writer} {} {}", place.first, place.at_ms).as_bytes(),
    );
    let hex: String = sum.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The columns that the table has, and those that come to them.
fn fields(before: Option<&Value>, adds: &[&Add]) -> Result<Vec<Value>, FileFault> {
    let mut fields = match before {
        None => Vec::new(),
        Some(before) => {
            let schema =
                before["schemaString"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let fields = schema.and_then(|schema| schema["fields"].as_array().cloned());
            fields.ok_or_else(|| FileFault("the Delta log has no schema that can be read".to_owned()))?
        }
    };
    let field =
        |name: &str, kind: &str| json!({ "name": name, "type": kind, "nullable": true, "metadata": {} });
    for column in adds.iter().flat_map(|add| &add.columns) {
        let kind = match column.kind {
            ColumnKind::Text | ColumnKind::Json => "string",
            ColumnKind::Int64 => "long",
            ColumnKind::Float64 => "double",
            ColumnKind::Bool => "boolean",
            ColumnKind::Timestamp => "timestamp",
        };
        match fields.iter().find(|known| known["name"] == column.name.as_str()) {
            None => fields.push(field(&column.name, kind)),
            Some(known) if known["type"] == kind => {}
            Some(known) => {
                let told = format!(
                    "the column {} of the Delta table is of the type {}, and not {kind}",
                    column.name, known["type"]
                );
                return Err(FileFault(told));
            }
        }
    }
    if !fields.iter().any(|known| known["name"] == DATE_COLUMN) {
        fields.push(field(DATE_COLUMN, "date"));
    }
    Ok(fields)
}
