//! Rows as files in a folder: JSON lines, CSV or Parquet, in folders by date and page type, with a manifest.
//!
//! A batch has a name made of its places in the log, and its files have that name: who writes the same batch again writes the
//! same files over. A file is there under its name when it is whole and on the disk; until then its name begins with a point
//! and an underscore, which readers pass over. The manifest of a batch comes after its files, so what it names is there.
//! [`delta`] keeps a Delta Lake log over the files of a table.

mod delta;

pub use delta::DATE_COLUMN;

use crate::Batch;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::digest::{Context, SHA256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::{Cell, ExportError, ExportFormat, write_rows};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

base::words! {
    /// The formats of files.
    // Stored: variants are never reordered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum FileFormat {
        Jsonl "jsonl",
        Csv "csv",
        Parquet "parquet",
    }
}

impl FileFormat {
    fn export(self) -> ExportFormat {
        match self {
            FileFormat::Jsonl => ExportFormat::Jsonl,
            FileFormat::Csv => ExportFormat::Csv,
            FileFormat::Parquet => ExportFormat::Parquet,
        }
    }
}

/// What a page without a type is called in a path, as Hive has it.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";
/// The folder of manifests.
const MANIFESTS: &str = "_manifest";
/// The column by which rows come into folders.
const SCRAPED_AT: &str = "scraped_at";

/// Rows of one table of the console and one page type.
#[derive(Clone, Debug)]
pub struct Part {
    pub table: String,
    pub page_type: Option<String>,
    pub batch: Batch,
}

/// How files are written.
#[derive(Clone, Debug)]
pub struct Layout {
    pub format: FileFormat,
    /// Whether the files of each table have a Delta Lake log: then they are Parquet.
    pub is_delta: bool,
    /// Who writes, so that two that write into one folder do not write over each other's files.
    pub writer: String,
}

/// A batch's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub first: u64,
    pub last: u64,
    /// When its last event happened, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A file that was written, as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Below the folder.
    pub file: String,
    pub table: String,
    pub page_type: Option<String>,
    pub date: String,
    pub rows: u64,
    pub bytes: u64,
    pub sha256: String,
    pub first_seq: u64,
    pub last_seq: u64,
    pub last_event_at: String,
}

/// Why files were not written.
#[derive(Debug)]
pub struct FileFault(String);

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FileFault {}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> FileFault {
        FileFault(match error.kind() {
            io::ErrorKind::StorageFull => "there is no room on the disk".to_owned(),
            _ => format!("the files cannot be written: {error}"),
        })
    }
}

impl From<ExportError> for FileFault {
    fn from(error: ExportError) -> FileFault {
        match error {
            ExportError::Io(error) => error.into(),
            other => FileFault(other.to_string()),
        }
    }
}

/// The day of a time, in UTC.
fn day(ms: i64) -> String {
    let at = Timestamp::from_millisecond(ms).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).date().to_string()
}

/// A part of a path that is nothing else, whatever a page type is called.
fn segment(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    text.chars().map(plain).collect()
}

/// Writes a batch into a folder, which is made where it is not there; none where it is there already. Blocking.
pub fn write(
    folder: &Path,
    layout: &Layout,
    place: Place,
    parts: &[Part],
) -> Result<Option<Vec<Entry>>, FileFault> {
    if is_written(folder, layout, place) {
        return Ok(None);
    }
    let mut entries = Vec::new();
    let mut commits: BTreeMap<&str, Vec<delta::Add>> = BTreeMap::new();
    for part in parts {
        let at = part.batch.place(SCRAPED_AT);
        let mut days: BTreeMap<String, Vec<Vec<Cell>>> = BTreeMap::new();
        for row in &part.batch.rows {
            let time =
                at.and_then(|at| if let Some(Cell::Time(ms)) = row.get(at) { Some(*ms) } else { None });
            days.entry(day(time.unwrap_or(place.at_ms))).or_default().push(row.clone());
        }
        for (date, rows) in days {
            let batch = Batch { columns: part.batch.columns.clone(), rows };
            let (entry, add) = one(folder, layout, place, (part, &date, batch))?;
            entries.push(entry);
            commits.entry(&part.table).or_default().extend(add);
        }
    }
    if layout.is_delta {
        for (table, adds) in commits {
            delta::commit(&folder.join(segment(table)), &layout.writer, place, adds)?;
        }
    }
    manifest(folder, layout, place, &entries)?;
    Ok(Some(entries))
}

/// Whether the batch has a manifest: then its files are there, or somebody has taken them away.
pub fn is_written(folder: &Path, layout: &Layout, place: Place) -> bool {
    folder.join(MANIFESTS).join(format!("{}.jsonl", name(layout, place))).exists()
}

/// Writes one file.
fn one(
    folder: &Path,
    layout: &Layout,
    place: Place,
    (part, date, mut batch): (&Part, &str, Batch),
) -> Result<(Entry, Option<delta::Add>), FileFault> {
    let kind = segment(part.page_type.as_deref().unwrap_or(NO_VALUE));
    let format = if layout.is_delta { FileFormat::Parquet } else { layout.format };
    let name = format!("{}.{}", name(layout, place), format.name());
    let (within, file) = match layout.is_delta {
        // One table has one log; what it has of two page types has two names.
        true => (segment(&part.table), format!("{DATE_COLUMN}={date}/{kind}-{name}")),
        false => (String::new(), format!("date={date}/page_type={kind}/{name}")),
    };
    if layout.is_delta {
        without(&mut batch, DATE_COLUMN);
    }
    let below = Path::new(&within).join(&file);
    let target = folder.join(&below);
    let parent = disk::folder_of(&target);
    make_folders(parent)?;
    let draft = parent.join(format!("._{name}.part"));
    let written = write_rows(&batch.columns, &batch.rows, &draft, format.export());
    let finished = written.map_err(FileFault::from).and_then(|exported| {
        let sha256 = sum(&draft)?;
        disk::rename(&draft, &target)?;
        Ok((exported, sha256))
    });
    if finished.is_err() {
        let _ = fs::remove_file(&draft);
    }
    let (exported, sha256) = finished?;
    let add = layout.is_delta.then(|| delta::Add::of(file, date.to_owned(), exported.bytes, &batch));
    let entry = Entry {
        file: below.to_string_lossy().into_owned(),
        table: part.table.clone(),
        page_type: part.page_type.clone(),
        date: date.to_owned(),
        rows: exported.rows,
        bytes: exported.bytes,
        sha256,
        first_seq: place.first,
        last_seq: place.last,
        last_event_at: Timestamp::from_millisecond(place.at_ms).unwrap_or_default().to_string(),
    };
    Ok((entry, add))
}

/// The name of a batch's files. Names sort as batches do.
fn name(layout: &Layout, place: Place) -> String {
    format!("part-{}-{:020}-{:020}", segment(&layout.writer), place.first, place.last)
}

/// What the files of the batch are, a line each; there when all of them are.
fn manifest(folder: &Path, layout: &Layout, place: Place, entries: &[Entry]) -> Result<(), FileFault> {
    let manifests = folder.join(MANIFESTS);
    make_folders(&manifests)?;
    let name = format!("{}.jsonl", name(layout, place));
    let mut text = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut text, entry).map_err(io::Error::from)?;
        text.push(b'\n');
    }
    Ok(disk::put(&manifests.join(&name), &manifests.join(format!("._{name}.part")), &text)?)
}

/// A folder and those above it, each durable in the one above.
fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    make_folders(disk::folder_of(folder))?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => disk::sync_name(folder),
    }
}

fn without(batch: &mut Batch, column: &str) {
    if let Some(at) = batch.place(column) {
        batch.columns.remove(at);
        batch.rows.iter_mut().filter(|row| at < row.len()).for_each(|row| drop(row.remove(at)));
    }
}

/// SHA-256 of a file.
fn sum(path: &Path) -> io::Result<String> {
    let (mut file, mut context) = (File::open(path)?, Context::new(&SHA256));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        context.update(&buffer[..read]);
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}
