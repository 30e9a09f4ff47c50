//! Rows as files: JSON lines, CSV or Parquet, in folders by date and page type, with a manifest; on a [`Shelf`], which is a folder
//! of the box, a bucket, or somebody else's server.
//!
//! A batch has a name made of its places in the log, and its files have that name: who writes the same batch again writes the
//! same files over. A file is there under its name when it is whole and on the disk; until then its name begins with a point
//! and an underscore, which readers pass over; an object of a bucket is there whole or not at all. The manifest of a batch comes after its files, so what it names is there.
//! [`delta`] keeps a Delta Lake log over the files of a table.

mod delta;
mod shelf;
#[cfg(test)]
mod tests;

pub use delta::DATE_COLUMN;
pub use shelf::Shelf;

use crate::Batch;
use crate::sftp::SftpFault;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::digest::{Context, SHA256};
use s3::S3Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelf::make_folders;
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

impl From<S3Error> for FileFault {
    fn from(error: S3Error) -> FileFault {
        FileFault(error.to_string())
    }
}

impl From<SftpFault> for FileFault {
    fn from(fault: SftpFault) -> FileFault {
        FileFault(fault.to_string())
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

/// Writes a batch onto a shelf; none where it is there already. `scratch` is a folder of this batch alone for files that leave the
/// box; it is removed at the end.
pub async fn write(
    shelf: &mut Shelf,
    scratch: &Path,
    layout: &Layout,
    place: Place,
    parts: Vec<Part>,
) -> Result<Option<Vec<Entry>>, FileFault> {
    let manifest = format!("{MANIFESTS}/{}.jsonl", name(layout, place));
    // With a manifest its files are there, or somebody has taken them away.
    if shelf.has(&manifest).await? {
        return Ok(None);
    }
    let scratch = Scratch(scratch);
    let entries = write_all(shelf, scratch.0, layout, place, parts).await?;
    // It says what the files of the batch are, a line each, and is there when all of them are.
    let mut text = Vec::new();
    for entry in &entries {
        serde_json::to_writer(&mut text, entry).map_err(io::Error::from)?;
        text.push(b'\n');
    }
    shelf.put(&manifest, text.into(), &layout.writer).await?;
    Ok(Some(entries))
}

/// The folder of drafts; it goes with this, also when nobody waits for the batch any more.
struct Scratch<'s>(&'s Path);

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // There is none where the files stay in the box. What cannot be removed goes at the next start.
        let _ = fs::remove_dir_all(self.0);
    }
}

async fn write_all(
    shelf: &mut Shelf,
    scratch: &Path,
    layout: &Layout,
    place: Place,
    parts: Vec<Part>,
) -> Result<Vec<Entry>, FileFault> {
    let mut files = Vec::new();
    for part in parts {
        for (date, batch) in by_day(part.batch, place) {
            let of = (part.table.as_str(), part.page_type.as_deref(), date);
            let file = Planned::of(layout, place, of, batch);
            let draft = shelf.draft(scratch, &file.key(), files.len());
            files.push((file, draft));
        }
    }
    // All of them before the first leaves: what is held of the rows is held for as short as can be.
    let mut drafted = Vec::with_capacity(files.len());
    for (file, draft) in files {
        let made = tokio::task::spawn_blocking(move || file.written(&draft, place).map(|made| (made, draft)));
        drafted
            .push(made.await.map_err(|error| FileFault(format!("the files cannot be written: {error}")))??);
    }
    let mut entries = Vec::new();
    let mut commits: BTreeMap<String, Vec<delta::Add>> = BTreeMap::new();
    for ((entry, add), draft) in drafted {
        shelf.take(draft, &entry.file).await?;
        if let Some(add) = add {
            commits.entry(entry.table.clone()).or_default().push(add);
        }
        entries.push(entry);
    }
    for (table, adds) in commits {
        delta::commit(shelf, &segment(&table), &layout.writer, place, adds).await?;
    }
    Ok(entries)
}

/// The rows of each day.
fn by_day(batch: Batch, place: Place) -> impl Iterator<Item = (String, Batch)> {
    let at = batch.place(SCRAPED_AT);
    let mut days: BTreeMap<String, Vec<Vec<Cell>>> = BTreeMap::new();
    for row in batch.rows {
        let time = at.and_then(|at| if let Some(Cell::Time(ms)) = row.get(at) { Some(*ms) } else { None });
        days.entry(day(time.unwrap_or(place.at_ms))).or_default().push(row);
    }
    days.into_iter().map(move |(date, rows)| (date, Batch { columns: batch.columns.clone(), rows }))
}

/// A file that is to be.
struct Planned {
    /// The folder of the table, where each has one.
    within: String,
    /// Below it.
    file: String,
    format: FileFormat,
    is_delta: bool,
    table: String,
    page_type: Option<String>,
    date: String,
    batch: Batch,
}

impl Planned {
    fn of(
        layout: &Layout,
        place: Place,
        (table, page_type, date): (&str, Option<&str>, String),
        mut batch: Batch,
    ) -> Planned {
        let kind = segment(page_type.unwrap_or(NO_VALUE));
        let format = if layout.is_delta { FileFormat::Parquet } else { layout.format };
        let name = format!("{}.{}", name(layout, place), format.name());
        let (within, file) = match layout.is_delta {
            // One table has one log; what it has of two page types has two names.
            true => (segment(table), format!("{DATE_COLUMN}={date}/{kind}-{name}")),
            false => (String::new(), format!("date={date}/page_type={kind}/{name}")),
        };
        if layout.is_delta {
            without(&mut batch, DATE_COLUMN);
        }
        Planned {
            within,
            file,
            format,
            is_delta: layout.is_delta,
            table: table.to_owned(),
            page_type: page_type.map(str::to_owned),
            date,
            batch,
        }
    }

    fn key(&self) -> String {
        if self.within.is_empty() { self.file.clone() } else { format!("{}/{}", self.within, self.file) }
    }

    /// Writes it as a draft, durably. Blocking.
    fn written(self, draft: &Path, place: Place) -> Result<(Entry, Option<delta::Add>), FileFault> {
        make_folders(disk::folder_of(draft))?;
        let written = write_rows(&self.batch.columns, &self.batch.rows, draft, self.format.export());
        let finished = written.map_err(FileFault::from).and_then(|exported| Ok((exported, sum(draft)?)));
        if finished.is_err() {
            let _ = fs::remove_file(draft);
        }
        let (exported, sha256) = finished?;
        let entry = Entry {
            file: self.key(),
            table: self.table,
            page_type: self.page_type,
            date: self.date.clone(),
            rows: exported.rows,
            bytes: exported.bytes,
            sha256,
            first_seq: place.first,
            last_seq: place.last,
            last_event_at: Timestamp::from_millisecond(place.at_ms).unwrap_or_default().to_string(),
        };
        let add = || delta::Add::of(self.file, self.date, exported.bytes, &self.batch);
        Ok((entry, self.is_delta.then(add)))
    }
}

/// The name of a batch's files. Names sort as batches do.
fn name(layout: &Layout, place: Place) -> String {
    format!("part-{}-{:020}-{:020}", segment(&layout.writer), place.first, place.last)
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
