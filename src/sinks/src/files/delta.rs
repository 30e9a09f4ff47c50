//! A Delta Lake log over the Parquet files of a table (Delta transaction log protocol, reader version 1, writer version 2).
//!
//! A batch is one commit, `_delta_log/<version>.json`, which is there whole or not at all: it is written under another name, and
//! given its own by a link, which fails where somebody else has made that version. A batch that is written again adds files under
//! names that are there; the log is looked at for them, and they are not added twice.

use super::{FileFault, Place};
use crate::Batch;
use serde_json::{Map, Value, json};
use sql::{Cell, ColumnKind, ColumnSpec};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;

/// The column by which the table is partitioned.
pub const DATE_COLUMN: &str = "scraped_date";
const LOG: &str = "_delta_log";
/// The table's terms are said again after so many versions, so that they are found without going far back, and stay when somebody
/// else makes a checkpoint and removes what is old.
const METADATA_EVERY: u64 = 100;
/// Versions that are looked back for a batch's files, and at most for the table's terms.
const LOOKED_BACK: usize = 100;
const LOOKED_BACK_MAX: usize = 10_000;
/// How often another version is tried when somebody else was faster.
const TRIES: u32 = 20;
/// Columns of which the least and the greatest value are said, and characters of those that are texts.
const STATISTICS: usize = 32;
const STATISTIC_CHARS: usize = 64;

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

/// What the log says so far.
struct Known {
    next: u64,
    /// The newest terms, and the version that says them.
    metadata: Option<(u64, Value)>,
    /// The newest files, with their sizes.
    files: HashMap<String, u64>,
}

/// Adds files to the table in one commit, unless that batch is in it.
pub(super) fn commit(table: &Path, writer: &str, place: Place, adds: Vec<Add>) -> Result<(), FileFault> {
    let log = table.join(LOG);
    super::make_folders(&log)?;
    for _ in 0..TRIES {
        let known = read(&log)?;
        let adds: Vec<_> = adds.iter().filter(|add| known.files.get(&add.path) != Some(&add.bytes)).collect();
        if adds.is_empty() {
            return Ok(());
        }
        let text = actions(writer, place, &adds, &known)?;
        let (name, draft) = (log.join(version(known.next)), log.join(format!("._{writer}.part")));
        disk::write_synced(&draft, text.as_bytes(), true)?;
        let linked = fs::hard_link(&draft, &name);
        fs::remove_file(&draft)?;
        match linked {
            Ok(()) => return Ok(disk::sync_name(&name)?),
            // Somebody else has made this version: ours is the next one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(FileFault("somebody else writes into the Delta log all the time".to_owned()))
}

fn version(number: u64) -> String {
    format!("{number:020}.json")
}

/// Reads the log from its end, as far back as it must.
fn read(log: &Path) -> Result<Known, FileFault> {
    let mut versions = BTreeSet::new();
    for entry in fs::read_dir(log)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_suffix(".json").filter(|digits| digits.len() == 20);
        versions.extend(number.and_then(|digits| digits.parse::<u64>().ok()));
    }
    let next = versions.last().map_or(0, |last| last + 1);
    let mut known = Known { next, metadata: None, files: HashMap::new() };
    for (looked, number) in versions.into_iter().rev().take(LOOKED_BACK_MAX).enumerate() {
        if looked >= LOOKED_BACK && known.metadata.is_some() {
            break;
        }
        let text = fs::read_to_string(log.join(version(number)))?;
        for action in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if let (Some(path), Some(bytes)) =
                (action["add"]["path"].as_str(), action["add"]["size"].as_u64())
            {
                known.files.entry(path.to_owned()).or_insert(bytes);
            }
            if action["metaData"].is_object() && known.metadata.is_none() {
                known.metadata = Some((number, action["metaData"].clone()));
            }
        }
    }
    if next > 0 && known.metadata.is_none() {
        return Err(FileFault("the Delta log does not say what the table is".to_owned()));
    }
    Ok(known)
}

/// The lines of a commit.
fn actions(writer: &str, place: Place, adds: &[&Add], known: &Known) -> Result<String, FileFault> {
    let operation = json!({
        "timestamp": place.at_ms,
        "operation": "WRITE",
        "operationParameters": { "mode": "Append", "partitionBy": json!([DATE_COLUMN]).to_string() },
        "isBlindAppend": true,
        "engineInfo": concat!("gleaner/", env!("CARGO_PKG_VERSION")),
    });
    let mut actions = vec![json!({ "commitInfo": operation })];
    if known.next == 0 {
        actions.push(json!({ "protocol": { "minReaderVersion": 1, "minWriterVersion": 2 } }));
    }
    let before = known.metadata.as_ref().map(|(_, metadata)| metadata);
    let fields = fields(before, adds)?;
    let schema = json!({ "type": "struct", "fields": fields }).to_string();
    let is_old = known.metadata.as_ref().is_none_or(|(number, _)| known.next >= number + METADATA_EVERY);
    if is_old || before.is_some_and(|before| before["schemaString"] != schema.as_str()) {
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
    let lines: Vec<_> = actions.iter().map(Value::to_string).collect();
    Ok(lines.join("\n") + "\n")
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

/// What readers pass files over by.
fn statistics(batch: &Batch) -> Value {
    let (mut least, mut greatest, mut missing) = (Map::new(), Map::new(), Map::new());
    for (at, column) in batch.columns.iter().enumerate().take(STATISTICS) {
        let cells = || batch.rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
        missing.insert(column.name.clone(), cells().filter(|cell| **cell == Cell::Null).count().into());
        if let Some((from, to)) = ends(column.kind, cells().filter(|cell| **cell != Cell::Null)) {
            least.insert(column.name.clone(), from);
            greatest.insert(column.name.clone(), to);
        }
    }
    json!({ "numRecords": batch.rows.len(), "minValues": least, "maxValues": greatest, "nullCount": missing })
}

/// The least and the greatest of some values, where they can be said.
fn ends<'c>(kind: ColumnKind, cells: impl Iterator<Item = &'c Cell>) -> Option<(Value, Value)> {
    match kind {
        ColumnKind::Int64 => {
            let mut values: Vec<_> =
                cells.filter_map(|cell| if let Cell::Int(n) = cell { Some(*n) } else { None }).collect();
            values.sort_unstable();
            Some(((*values.first()?).into(), (*values.last()?).into()))
        }
        ColumnKind::Timestamp => {
            let mut values: Vec<_> =
                cells.filter_map(|cell| if let Cell::Time(n) = cell { Some(*n) } else { None }).collect();
            values.sort_unstable();
            let shown =
                |ms: i64| jiff::Timestamp::from_millisecond(ms).ok().map(|at| format!("{at:.3}").into());
            Some((shown(*values.first()?)?, shown(*values.last()?)?))
        }
        ColumnKind::Float64 => {
            let number = |cell: &Cell| match cell {
                Cell::Float(n) => Some(*n),
                Cell::Int(n) => Some(*n as f64),
                _ => None,
            };
            let mut values: Vec<_> = cells.filter_map(number).collect();
            if values.iter().any(|value| !value.is_finite()) {
                return None;
            }
            values.sort_unstable_by(f64::total_cmp);
            Some(((*values.first()?).into(), (*values.last()?).into()))
        }
        ColumnKind::Text => {
            let mut values: Vec<_> = cells
                .filter_map(|cell| if let Cell::Text(text) = cell { Some(&**text) } else { None })
                .collect();
            if values.iter().any(|text| text.chars().count() > STATISTIC_CHARS) {
                return None;
            }
            values.sort_unstable();
            Some(((*values.first()?).into(), (*values.last()?).into()))
        }
        ColumnKind::Bool | ColumnKind::Json => None,
    }
}
