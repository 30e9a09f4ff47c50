//! Checkpoints: all that a table's log says up to a version, in one Parquet file, so that nobody reads every commit.
//!
//! A checkpoint is made of the one before and of the commits since. What another program wrote is read as well: of one part or
//! several, compressed with Snappy or not at all, with columns that this box knows nothing of.

use super::super::shelf::READ_BYTES_MAX;
use super::super::{FileFault, Shelf};
use arrow_json::{LineDelimitedWriter, ReaderBuilder};
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// There is a checkpoint after so many commits (Delta's own default).
const EVERY: u64 = 10;
/// Which is the newest.
const LAST: &str = "_last_checkpoint";
/// How long it is said of a file that it was taken out, in milliseconds: for who still reads an older version (Delta's default).
const TAKEN_OUT_KEPT_MS: i64 = 7 * 24 * 3_600_000;
/// Actions of a checkpoint, parts of one, and rows that are looked at together: a hostile file must not fill the memory.
const ACTIONS_MAX: i64 = 2_000_000;
const PARTS_MAX: u64 = 100;
const ROWS: usize = 128;

/// A checkpoint that somebody says is there.
pub(super) struct Named {
    pub version: u64,
    parts: Option<u64>,
}

/// A checkpoint's bytes, part by part.
#[derive(Clone)]
pub(super) struct Checkpoint {
    pub version: u64,
    parts: Vec<Bytes>,
}

/// The newest checkpoint, where there is one.
pub(super) async fn last(shelf: &mut Shelf, folder: &str) -> Result<Option<Named>, FileFault> {
    let Some(bytes) = shelf.get(&format!("{folder}/{LAST}")).await? else { return Ok(None) };
    // One that cannot be read is as good as none.
    let Ok(said) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
    Ok(said["version"].as_u64().map(|version| Named { version, parts: said["parts"].as_u64() }))
}

impl Named {
    pub async fn read(&self, shelf: &mut Shelf, folder: &str) -> Result<Checkpoint, FileFault> {
        let version = self.version;
        let names = match self.parts {
            None => vec![format!("{version:020}.checkpoint.parquet")],
            Some(count @ 1..=PARTS_MAX) => (1..=count)
                .map(|part| format!("{version:020}.checkpoint.{part:010}.{count:010}.parquet"))
                .collect(),
            Some(count) => return Err(FileFault(format!("a checkpoint of {folder} has {count} parts"))),
        };
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for name in names {
            let found = shelf.get(&format!("{folder}/{name}")).await?;
            let found = found.ok_or_else(|| FileFault(format!("{folder}/{name} is not there")))?;
            bytes += found.len() as u64;
            if bytes > READ_BYTES_MAX {
                return Err(FileFault(format!("a checkpoint of {folder} is too large to be read")));
            }
            parts.push(found);
        }
        Ok(Checkpoint { version, parts })
    }
}

impl Checkpoint {
    /// The table's terms, its protocol, and what is said of some files. Blocking.
    pub fn what_matters(&self, paths: &HashSet<String>) -> Result<Vec<Value>, String> {
        let columns = ["add.path", "add.size", "remove.path", "metaData", "protocol"];
        // A row each, the last one of a kind or of a file: what somebody else wrote may say the same a million times.
        let (mut metadata, mut protocol, mut files) = (None, None, BTreeMap::new());
        self.each(&columns, &mut |action| {
            if action["metaData"].is_object() {
                metadata = Some(action);
            } else if action["protocol"].is_object() {
                protocol = Some(action);
            } else if let Some(path) = path_of(&action).filter(|path| paths.contains(path)) {
                files.insert(path, action);
            }
            Ok(())
        })?;
        Ok(metadata.into_iter().chain(protocol).chain(files.into_values()).collect())
    }

    /// Hands out every action, with what these columns have of it.
    fn each(
        &self,
        columns: &[&str],
        take: &mut dyn FnMut(Value) -> Result<(), String>,
    ) -> Result<(), String> {
        for part in &self.parts {
            let reader = ParquetRecordBatchReaderBuilder::try_new(part.clone()).map_err(|e| e.to_string())?;
            if reader.metadata().file_metadata().num_rows() > ACTIONS_MAX {
                return Err(format!("it has more than {ACTIONS_MAX} actions"));
            }
            let mask = ProjectionMask::columns(reader.parquet_schema(), columns.iter().copied());
            let batches = reader.with_projection(mask).with_batch_size(ROWS).build();
            for batch in batches.map_err(|e| e.to_string())? {
                let batch = batch.map_err(|e| e.to_string())?;
                let mut lines = LineDelimitedWriter::new(Vec::new());
                lines.write(&batch).and_then(|()| lines.finish()).map_err(|e| e.to_string())?;
                let lines = lines.into_inner();
                for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    take(serde_json::from_slice(line).map_err(|e| e.to_string())?)?;
                }
            }
        }
        Ok(())
    }
}

/// Makes a checkpoint of a version, where the last one is long ago; of that one, and of the actions since.
pub(super) async fn keep(
    shelf: &mut Shelf,
    (folder, writer): (&str, &str),
    version: u64,
    (before, tail): (Option<Checkpoint>, Vec<Value>),
    now_ms: i64,
) -> Result<(), FileFault> {
    if version < before.as_ref().map_or(0, |checkpoint| checkpoint.version) + EVERY {
        return Ok(());
    }
    let made = tokio::task::spawn_blocking(move || made(before.as_ref(), &tail, now_ms)).await;
    let (bytes, count) = match made.map_err(|error| error.to_string()).and_then(|made| made) {
        Ok((bytes, _)) if bytes.len() as u64 > READ_BYTES_MAX => {
            tracing::warn!(
                folder,
                "a table's checkpoint would be too large to be read back, and is not made"
            );
            return Ok(());
        }
        Ok(made) => made,
        // The rows are there, and readers go without it.
        Err(why) => {
            tracing::warn!(folder, why, "a table's checkpoint cannot be made");
            return Ok(());
        }
    };
    let last = json!({ "version": version, "size": count, "sizeInBytes": bytes.len() });
    shelf.put(&format!("{folder}/{version:020}.checkpoint.parquet"), bytes.into(), writer).await?;
    shelf.put(&format!("{folder}/{LAST}"), last.to_string().into(), writer).await
}

/// What holds of what the commits since the last checkpoint say: the newest of everything.
#[derive(Default)]
struct Newest {
    protocol: Option<Value>,
    metadata: Option<Value>,
    transactions: BTreeMap<String, Value>,
    /// By path, what was last said of it.
    files: BTreeMap<String, Value>,
}

impl Newest {
    fn of(tail: &[Value]) -> Newest {
        let mut newest = Newest::default();
        for action in tail {
            match () {
                () if action["protocol"].is_object() => newest.protocol = Some(action.clone()),
                () if action["metaData"].is_object() => newest.metadata = Some(action.clone()),
                () => {}
            }
            if let Some(app) = action["txn"]["appId"].as_str() {
                newest.transactions.insert(app.to_owned(), action.clone());
            }
            if let Some(path) = path_of(action) {
                let mut action = action.clone();
                for kind in ["add", "remove"] {
                    if action[kind].is_object() {
                        action[kind]["dataChange"] = false.into();
                    }
                }
                newest.files.insert(path, action);
            }
        }
        newest
    }

    /// Whether something newer is said of what an older action speaks of.
    fn is_about(&self, action: &Value) -> bool {
        (action["protocol"].is_object() && self.protocol.is_some())
            || (action["metaData"].is_object() && self.metadata.is_some())
            || action["txn"]["appId"].as_str().is_some_and(|app| self.transactions.contains_key(app))
            || path_of(action).is_some_and(|path| self.files.contains_key(&path))
    }

    fn actions(self) -> impl Iterator<Item = Value> {
        let terms = self.protocol.into_iter().chain(self.metadata);
        terms.chain(self.transactions.into_values()).chain(self.files.into_values())
    }
}

fn path_of(action: &Value) -> Option<String> {
    let path = action["add"]["path"].as_str().or_else(|| action["remove"]["path"].as_str());
    path.map(str::to_owned)
}

/// A checkpoint of the one before and what came since, and how many actions it has. Blocking.
fn made(before: Option<&Checkpoint>, tail: &[Value], now_ms: i64) -> Result<(Vec<u8>, u64), String> {
    let newest = Newest::of(tail);
    let is_over = |action: &Value| {
        action["remove"]["deletionTimestamp"].as_i64().is_some_and(|at| at + TAKEN_OUT_KEPT_MS < now_ms)
    };
    let mut file = Target::new()?;
    if let Some(before) = before {
        let columns: Vec<_> = file.schema.fields().iter().map(|field| field.name().clone()).collect();
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        before.each(&columns, &mut |action| {
            if newest.is_about(&action) || is_over(&action) { Ok(()) } else { file.add(action) }
        })?;
    }
    for action in newest.actions().filter(|action| !is_over(action)) {
        file.add(action)?;
    }
    file.end()
}

/// A checkpoint while it is written.
struct Target {
    schema: Arc<Schema>,
    writer: ArrowWriter<Vec<u8>>,
    waiting: Vec<Value>,
    count: u64,
}

impl Target {
    fn new() -> Result<Target, String> {
        let schema = Arc::new(schema());
        let terms = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("gleaner ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(terms));
        Ok(Target { schema, writer: writer.map_err(|e| e.to_string())?, waiting: Vec::new(), count: 0 })
    }

    fn add(&mut self, action: Value) -> Result<(), String> {
        // `commitInfo` and the like are no part of what holds.
        if !self.schema.fields().iter().any(|field| action[field.name().as_str()].is_object()) {
            return Ok(());
        }
        self.count += 1;
        self.waiting.push(action);
        if self.waiting.len() >= 1_024 { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), String> {
        let mut decoder =
            ReaderBuilder::new(Arc::clone(&self.schema)).build_decoder().map_err(|e| e.to_string())?;
        decoder.serialize(&self.waiting).map_err(|e| e.to_string())?;
        self.waiting.clear();
        while let Some(batch) = decoder.flush().map_err(|e| e.to_string())? {
            self.writer.write(&batch).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<(Vec<u8>, u64), String> {
        self.write()?;
        let count = self.count;
        self.writer.into_inner().map(|bytes| (bytes, count)).map_err(|e| e.to_string())
    }
}

/// The columns of a checkpoint: an action a row, so each of them may be missing.
fn schema() -> Schema {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let long = |name: &str| Field::new(name, DataType::Int64, true);
    let int = |name: &str| Field::new(name, DataType::Int32, true);
    let flag = |name: &str| Field::new(name, DataType::Boolean, true);
    let map = |name: &str| {
        let pair = Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, true),
        ]);
        let pairs = Field::new("key_value", DataType::Struct(pair), false);
        Field::new(name, DataType::Map(Arc::new(pairs), false), true)
    };
    let list = |name: &str| Field::new(name, DataType::List(Arc::new(text("element"))), true);
    let group = |name: &str, fields: Vec<Field>| Field::new(name, DataType::Struct(fields.into()), true);
    Schema::new(vec![
        group("txn", vec![text("appId"), long("version"), long("lastUpdated")]),
        group(
            "add",
            vec![
                text("path"),
                map("partitionValues"),
                long("size"),
                long("modificationTime"),
                flag("dataChange"),
                text("stats"),
                map("tags"),
            ],
        ),
        group(
            "remove",
            vec![
                text("path"),
                long("deletionTimestamp"),
                flag("dataChange"),
                flag("extendedFileMetadata"),
                map("partitionValues"),
                long("size"),
            ],
        ),
        group(
            "metaData",
            vec![
                text("id"),
                text("name"),
                text("description"),
                group("format", vec![text("provider"), map("options")]),
                text("schemaString"),
                list("partitionColumns"),
                long("createdTime"),
                map("configuration"),
            ],
        ),
        group("protocol", vec![int("minReaderVersion"), int("minWriterVersion")]),
    ])
}
