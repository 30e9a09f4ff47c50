//! A result as a file to take away: CSV, JSON lines, Parquet, Arrow, XLSX.
//!
//! The result's own file is read batch by batch (at most 1,000 rows each) and written as it goes, so an export
//! of a million rows takes the memory of some thousand. The target appears under its name when it is whole and on the
//! disk; until then it has another one, which is removed when something fails.
//!
//! Spreadsheets run what looks like a formula, and collected pages are hostile: in CSV such a text gets an apostrophe in
//! front, in XLSX its cell is marked as text; see `text.rs` and `xlsx.rs`. The other formats are data, not input for a
//! spreadsheet, and carry every value as it is.

mod parquet;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod thrift;
mod xlsx;

use std::cell::Cell;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::catalog::ColumnSpec;
use super::cells::Cell as Value;
use super::spool::{PART_EXTENSION, ResultError, ResultFile, guarded};

/// Bytes that are gathered before they go to the file.
const BUFFER_BYTES: usize = 1 << 18;

base::words! {
    /// The formats of exports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum ExportFormat: ALL {
        Csv "csv",
        Jsonl "jsonl",
        Parquet "parquet",
        Arrow "arrow",
        Xlsx "xlsx",
    }
}

impl ExportFormat {
    /// The media type; those of Arrow and Parquet are registered with IANA.
    pub fn media_type(self) -> &'static str {
        match self {
            ExportFormat::Csv => "text/csv; charset=utf-8; header=present",
            ExportFormat::Jsonl => "application/x-ndjson",
            ExportFormat::Parquet => "application/vnd.apache.parquet",
            ExportFormat::Arrow => "application/vnd.apache.arrow.file",
            ExportFormat::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        }
    }
}

/// A finished export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    pub rows: u64,
    pub bytes: u64,
}

/// Why there is no export.
#[derive(Debug)]
pub enum ExportError {
    /// The result cannot be read.
    Result(ResultError),
    /// The file cannot be written.
    Io(io::Error),
    /// The file would have more bytes than are allowed.
    TooLarge { bytes_max: u64 },
    /// The format cannot hold the result; the text is for the customer.
    Unsupported(String),
    /// Whoever asked for it wants it to end, and says why.
    Halted(Halt),
}

/// Why an export ends before it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The box drains; the export is to begin anew.
    Draining,
    /// The disk's reserve of free space is used up.
    DiskFull,
    /// Whose it is, is being erased.
    Erased,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(error) => error.fmt(f),
            Self::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
                f.write_str("There is no disk space for the export.")
            }
            Self::Io(_) => f.write_str("The export cannot be written."),
            Self::TooLarge { bytes_max } => {
                write!(
                    f,
                    "The file would be larger than the byte cap of exports ({bytes_max} bytes): select fewer columns or \
                     rows, or take a denser format (parquet)."
                )
            }
            Self::Unsupported(text) => f.write_str(text),
            Self::Halted(Halt::Draining) => f.write_str("The box is stopping."),
            Self::Halted(Halt::Erased) => f.write_str("The organization is being erased."),
            Self::Halted(Halt::DiskFull) => f.write_str("There is no disk space for the export."),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Result(error) => Some(error),
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ResultError> for ExportError {
    fn from(error: ResultError) -> Self {
        Self::Result(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl ExportFormat {
    /// Fewer bytes than this a file of the format cannot have, by what is known before it is written: the rows, the names
    /// of the columns, and the size of the result.
    fn bytes_min(self, rows: u64, columns: &[&str], result_bytes: u64) -> u64 {
        let commas = columns.len().saturating_sub(1) as u64;
        match self {
            // The result's file under another name.
            ExportFormat::Arrow => result_bytes,
            // Empty fields, and the end of the line.
            ExportFormat::Csv => rows.saturating_mul(commas + 2),
            // The braces and the end of the line; each name with its quotes and colon, and a value of one character.
            ExportFormat::Jsonl => {
                let names: u64 = columns.iter().map(|name| name.len() as u64 + 4).sum();
                rows.saturating_mul(names + commas + 3)
            }
            // What is compressed may be small, however much it is.
            ExportFormat::Parquet | ExportFormat::Xlsx => 0,
        }
    }

    /// Refuses a file that is certain to be larger than `bytes_max`.
    pub fn foresee(
        self,
        rows: u64,
        columns: &[&str],
        result_bytes: u64,
        bytes_max: u64,
    ) -> Result<(), ExportError> {
        match self.bytes_min(rows, columns, result_bytes) {
            least if least > bytes_max => Err(ExportError::TooLarge { bytes_max }),
            _ => Ok(()),
        }
    }
}

/// Asked between batches whether to go on.
pub type Halting<'a> = &'a dyn Fn() -> Option<Halt>;

/// Writes the result at `result` as `target`, of at most `bytes_max` bytes. `halt` is asked between batches. Blocking,
/// for as long as it takes.
pub fn export(
    result: &Path,
    target: &Path,
    format: ExportFormat,
    bytes_max: u64,
    halt: Halting<'_>,
) -> Result<Exported, ExportError> {
    let part = target.with_extension(PART_EXTENSION);
    let written = write(result, &part, format, bytes_max, halt).and_then(|exported| {
        disk::rename(&part, target)?;
        Ok(exported)
    });
    if written.is_err() {
        // What stays is removed with the folder's other leftovers.
        let _ = fs::remove_file(&part);
    }
    written
}

fn write(
    result: &Path,
    part: &Path,
    format: ExportFormat,
    bytes_max: u64,
    halt: Halting<'_>,
) -> Result<Exported, ExportError> {
    let source = ResultFile::open(result)?;
    let rows = source.row_count();
    if format == ExportFormat::Arrow {
        return link(result, part, rows, bytes_max);
    }
    let full = Rc::new(Cell::new(false));
    let mut target = Target::create(part, bytes_max, Rc::clone(&full))?;
    // A worker wrote the result, and a worker runs hostile statements.
    guarded(|| {
        let source = Source::Result(&source);
        Ok(written(Batches { source, next: 0, halt, full: &full, bytes_max }, &mut target, format))
    })??;
    if full.get() {
        return Err(ExportError::TooLarge { bytes_max });
    }
    target.finish().map(|bytes| Exported { rows, bytes })
}

fn written(batches: Batches<'_>, target: &mut Target, format: ExportFormat) -> Result<(), ExportError> {
    match format {
        ExportFormat::Csv => text::csv(batches, target),
        ExportFormat::Jsonl => text::json_lines(batches, target),
        ExportFormat::Xlsx => xlsx::workbook(batches, target),
        ExportFormat::Parquet | ExportFormat::Arrow => parquet::file(batches, target),
    }
}

/// Writes rows as `target`, durably; what stood there is written over. Of the formats, those that are read as data: `csv`,
/// `jsonl`, and `parquet`, which any other is written as. Blocking.
pub fn write_rows(
    columns: &[ColumnSpec],
    rows: &[Vec<Value>],
    target: &Path,
    format: ExportFormat,
) -> Result<Exported, ExportError> {
    let format = if matches!(format, ExportFormat::Csv | ExportFormat::Jsonl) {
        format
    } else {
        ExportFormat::Parquet
    };
    let (schema, batches) = rows::batches(columns, rows, format == ExportFormat::Parquet)?;
    let full = Rc::new(Cell::new(false));
    let mut file = Target::create(target, u64::MAX, Rc::clone(&full))?;
    let source = Source::Rows(schema, &batches);
    written(
        Batches { source, next: 0, halt: &|| None, full: &full, bytes_max: u64::MAX },
        &mut file,
        format,
    )?;
    file.finish().map(|bytes| Exported { rows: rows.len() as u64, bytes })
}

/// The result is an Arrow file already: the export is another name of it, or a copy where the file system has no links.
fn link(result: &Path, part: &Path, rows: u64, bytes_max: u64) -> Result<Exported, ExportError> {
    let bytes = fs::metadata(result)?.len();
    if bytes > bytes_max {
        return Err(ExportError::TooLarge { bytes_max });
    }
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    if fs::hard_link(result, part).is_err() {
        fs::copy(result, part)?;
        File::open(part)?.sync_all()?;
    }
    Ok(Exported { rows, bytes })
}

/// What is written.
#[derive(Clone)]
enum Source<'a> {
    Result(&'a ResultFile),
    Rows(SchemaRef, &'a [RecordBatch]),
}

/// The batches of what is written, in order.
struct Batches<'a> {
    source: Source<'a>,
    next: u64,
    halt: Halting<'a>,
    /// The target takes no more.
    full: &'a Cell<bool>,
    bytes_max: u64,
}

impl Batches<'_> {
    fn next(&mut self) -> Result<Option<RecordBatch>, ExportError> {
        if let Some(halt) = (self.halt)() {
            return Err(ExportError::Halted(halt));
        }
        if self.full.get() {
            return Err(ExportError::TooLarge { bytes_max: self.bytes_max });
        }
        let at = self.next;
        self.next += 1;
        match &self.source {
            Source::Result(file) if at >= file.batches() => Ok(None),
            Source::Result(file) => Ok(Some(file.batch(at)?)),
            Source::Rows(_, batches) => Ok(usize::try_from(at).ok().and_then(|at| batches.get(at)).cloned()),
        }
    }

    fn schema(&self) -> SchemaRef {
        match &self.source {
            Source::Result(file) => file.schema(),
            Source::Rows(schema, _) => Arc::clone(schema),
        }
    }
}

/// The file while it is written. Beyond its cap it takes bytes and drops them: what it is handed by (a ZIP that ends
/// itself, say) can finish in peace, and the export fails at its next batch.
struct Target {
    file: BufWriter<File>,
    at: u64,
    end: u64,
    bytes_max: u64,
    full: Rc<Cell<bool>>,
}

impl Target {
    fn create(path: &Path, bytes_max: u64, full: Rc<Cell<bool>>) -> io::Result<Target> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        Ok(Target { file, at: 0, end: 0, bytes_max, full })
    }

    /// Makes the file durable and gives its size.
    fn finish(mut self) -> Result<u64, ExportError> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        Ok(self.end)
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at.saturating_add(bytes.len() as u64) > self.bytes_max {
            self.full.set(true);
        }
        if self.full.get() {
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        self.end = self.end.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Target {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if !self.full.get() {
            self.at = self.file.seek(to)?;
        }
        Ok(self.at)
    }
}
