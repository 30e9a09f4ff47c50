//! Results: an Arrow IPC file in batches of 1,000 rows, written once by the worker, paged by the server.
//!
//! A page's rows lie in at most two batches, whatever the page, so that any page takes the same short time; pages
//! never change and the total is exact. The file is mapped, so that a page of wide rows costs no copy of its batch. What
//! a row and a page may become as JSON is bounded (`weight.rs`).

pub(super) mod json;
mod weight;

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::{BatchCoalescer, cast};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::arrow::ipc::convert::fb_to_schema;
use datafusion::arrow::ipc::reader::{FileDecoder, read_footer_length};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::arrow::ipc::{self, Block};
use serde_json::{Map, Value};

use super::errors::QueryError;
use super::gate::unique;
use super::mapped;
use super::protocol::{Cap, ColumnInfo, Outcome};

/// Rows of every batch but the last.
pub(super) const SPOOL_BATCH_ROWS: usize = 1000;
/// What one row may weigh as JSON.
const ROW_BYTES_MAX: u64 = 8 << 20;
/// What the rows of a page may weigh together; more than one row may.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// A column's name is cut here, as PostgreSQL cuts it at 63.
const NAME_BYTES_MAX: usize = 128;
/// PostgreSQL's bound on the columns of a result.
const COLUMNS_MAX: usize = 1_664;
/// Bytes of a message before its head: the mark of a message and the head's length.
const MESSAGE_PREFIX_BYTES: usize = 8;
/// Name of the footer entry with the number of rows.
const ROWS_METADATA: &str = "gleaner.rows";
/// The file's last bytes: the footer's length and the magic.
const TRAILER_BYTES: usize = 10;
/// What a result is called while it is written.
pub(super) const PART_EXTENSION: &str = "part";

/// The result's columns: unique names and the types' PostgreSQL names.
pub(super) fn columns(schema: &Schema) -> Vec<(String, String)> {
    let mut used = HashSet::new();
    let column = |field: &Arc<Field>| {
        let name = field.name();
        let cut = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        (unique(cut, &mut used), json::type_name(field.data_type()))
    };
    schema.fields().iter().map(column).collect()
}

/// Refuses a result with more columns than a row of anything should have.
pub(super) fn check_columns(schema: &Schema) -> Result<(), QueryError> {
    let count = schema.fields().len();
    if count <= COLUMNS_MAX {
        return Ok(());
    }
    Err(QueryError::invalid(format!(
        "The result would have {count} columns; at most {COLUMNS_MAX} are possible."
    )))
}

/// The type in which a result is stored: views are made plain, for a view drags all its buffers along, whatever few
/// rows of them are left (209 MB instead of 26), and dictionaries too.
fn stored_type(data_type: &DataType) -> DataType {
    let field =
        |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(stored_type(field.data_type())));
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => stored_type(value),
        DataType::RunEndEncoded(_, value) => stored_type(value.data_type()),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::ListView(item) => DataType::List(field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// Counts what goes through: the size of a result is what is written, never what arrays say they take.
struct Counted {
    file: BufWriter<File>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A result while it is written.
pub(super) struct Spool {
    path: PathBuf,
    part: PathBuf,
    schema: SchemaRef,
    batches: BatchCoalescer,
    writer: FileWriter<Counted>,
    rows: u64,
    rows_max: u64,
    bytes_max: u64,
    truncated: Option<Cap>,
}

impl Spool {
    /// Begins a result of at most `rows_max` rows and about `bytes_max` bytes, which will appear at `path`.
    pub(super) fn create(
        path: &Path,
        schema: &Schema,
        rows_max: u64,
        bytes_max: u64,
    ) -> Result<Self, QueryError> {
        let fields: Vec<Field> = columns(schema)
            .into_iter()
            .zip(schema.fields())
            .map(|((name, _), field)| Field::new(name, stored_type(field.data_type()), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let part = path.with_extension(PART_EXTENSION);
        let file = Counted { file: BufWriter::with_capacity(1 << 18, File::create(&part)?), bytes: 0 };
        let writer = FileWriter::try_new(file, &schema).map_err(QueryError::internal)?;
        let batches = BatchCoalescer::new(Arc::clone(&schema), SPOOL_BATCH_ROWS);
        let path = path.to_owned();
        Ok(Self { path, part, schema, batches, writer, rows: 0, rows_max, bytes_max, truncated: None })
    }

    /// Takes rows in; false when a cap is reached and no more are wanted.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<bool, QueryError> {
        let left = self.rows_max - self.rows;
        let mut rows = batch.num_rows();
        if rows as u64 > left {
            rows = usize::try_from(left).unwrap_or(rows);
            self.truncated = Some(Cap::Rows);
        }
        self.rows += rows as u64;
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (column, field) in batch.columns().iter().zip(self.schema.fields()) {
            let column = column.slice(0, rows);
            let same = column.data_type() == field.data_type();
            columns.push(if same {
                column
            } else {
                cast(&column, field.data_type()).map_err(QueryError::internal)?
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(QueryError::internal)?;
        if weight::at_most(&batch) > ROW_BYTES_MAX
            && (0..rows).any(|row| weight::row(&batch, row, ROW_BYTES_MAX).is_none())
        {
            return Err(QueryError::failed(format!(
                "A row of the result is larger than {} MiB.",
                ROW_BYTES_MAX >> 20
            )));
        }
        self.batches.push_batch(batch).map_err(QueryError::internal)?;
        self.write_completed()?;
        Ok(self.truncated.is_none())
    }

    fn write_completed(&mut self) -> Result<(), QueryError> {
        while let Some(batch) = self.batches.next_completed_batch() {
            if self.truncated == Some(Cap::Bytes) {
                self.rows -= batch.num_rows() as u64;
                continue;
            }
            self.writer.write(&batch).map_err(write_error)?;
            if self.writer.get_ref().bytes >= self.bytes_max {
                self.truncated = Some(Cap::Bytes);
            }
        }
        Ok(())
    }

    /// Completes the file, makes it durable and gives it its name.
    pub(super) fn finish(mut self) -> Result<Outcome, QueryError> {
        self.batches.finish_buffered_batch().map_err(QueryError::internal)?;
        self.write_completed()?;
        self.writer.write_metadata(ROWS_METADATA, self.rows.to_string());
        self.writer.finish().map_err(write_error)?;
        let mut file = self.writer.into_inner().map_err(write_error)?;
        file.flush()?;
        file.file.get_ref().sync_all()?;
        fs::rename(&self.part, &self.path)?;
        Ok(Outcome { rows: self.rows, bytes: file.bytes, truncated: self.truncated })
    }
}

fn write_error(error: datafusion::arrow::error::ArrowError) -> QueryError {
    match error {
        datafusion::arrow::error::ArrowError::IoError(_, error) => error.into(),
        other => QueryError::internal(other),
    }
}

/// A result file cannot be read.
#[derive(Debug)]
pub enum ResultError {
    /// The file system said no.
    Io(io::Error),
    /// The file is not a result; the text says in what.
    Damaged(String),
    /// The page would be larger than a page may be; fewer rows of it can be had.
    TooLarge,
}

impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("The result cannot be read."),
            Self::Damaged(_) => f.write_str("The result is damaged."),
            Self::TooLarge => {
                write!(f, "These rows are larger than {} MiB together.", PAGE_BYTES_MAX >> 20)
            }
        }
    }
}

impl std::error::Error for ResultError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Damaged(_) | Self::TooLarge => None,
        }
    }
}

impl From<io::Error> for ResultError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<datafusion::arrow::error::ArrowError> for ResultError {
    fn from(error: datafusion::arrow::error::ArrowError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// A finished result.
pub struct ResultFile {
    bytes: Bytes,
    schema: SchemaRef,
    decoder: FileDecoder,
    blocks: Vec<Block>,
    rows: u64,
}

impl fmt::Debug for ResultFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultFile")
            .field("schema", &self.schema)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl ResultFile {
    /// Opens a result that a worker finished. Blocking, but short (one page of the file is touched).
    pub fn open(path: &Path) -> Result<Self, ResultError> {
        let bytes = mapped::map(path)?;
        guarded(|| Self::from_bytes(bytes))
    }

    fn from_bytes(bytes: Bytes) -> Result<Self, ResultError> {
        let damaged = |what: &str| ResultError::Damaged(what.to_owned());
        let trailer_at = bytes.len().checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("it is too short"))?;
        let trailer = bytes[trailer_at..].try_into().map_err(|_| damaged("it is too short"))?;
        let footer_at = trailer_at
            .checked_sub(read_footer_length(trailer)?)
            .ok_or_else(|| damaged("its footer is cut"))?;
        let footer = ipc::root_as_footer(&bytes[footer_at..trailer_at])
            .map_err(|error| damaged(&error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| damaged("it has no schema"))?;
        let schema = Arc::new(fb_to_schema(schema));
        let rows = footer
            .custom_metadata()
            .and_then(|entries| entries.iter().find(|entry| entry.key() == Some(ROWS_METADATA)))
            .and_then(|entry| entry.value()?.parse().ok())
            .ok_or_else(|| damaged("it does not say how many rows it has"))?;
        let blocks = footer.recordBatches().iter().flatten().copied().collect();
        let decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        Ok(Self { bytes, schema, decoder, blocks, rows })
    }

    /// Number of rows.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// The columns, in order.
    pub fn columns(&self) -> Vec<ColumnInfo> {
        let fields = self.schema.fields().iter();
        let column = |field: &Arc<Field>| ColumnInfo {
            name: field.name().clone(),
            type_name: json::type_name(field.data_type()),
        };
        fields.map(column).collect()
    }

    /// The rows of a page (counted from 0) of `page_size` rows, each an object in the columns' order; none behind the
    /// end. The rules for values stand in `json.rs`. Blocking, for a fraction of a millisecond. [`ResultError::TooLarge`]
    /// when they are larger than a page may be.
    pub fn page(&self, page: u64, page_size: u64) -> Result<Vec<Map<String, Value>>, ResultError> {
        let first = page.saturating_mul(page_size).min(self.rows);
        let end = first.saturating_add(page_size).min(self.rows);
        guarded(|| {
            let mut rows = Vec::with_capacity(usize::try_from(end - first).unwrap_or(0));
            let (mut at, mut left) = (first, PAGE_BYTES_MAX);
            while at < end {
                let batch = self.batch(at / SPOOL_BATCH_ROWS as u64)?;
                let from = (at % SPOOL_BATCH_ROWS as u64) as usize;
                let to = batch.num_rows().min(from + usize::try_from(end - at).unwrap_or(usize::MAX));
                if to <= from {
                    return Err(ResultError::Damaged("a batch is too short".to_owned()));
                }
                left = match left.checked_sub(weight::at_most(&batch.slice(from, to - from))) {
                    Some(left) => left,
                    None => (from..to)
                        .try_fold(left, |left, row| weight::row(&batch, row, left))
                        .ok_or(ResultError::TooLarge)?,
                };
                rows.extend((from..to).map(|row| json::row(&batch, row)));
                at += (to - from) as u64;
            }
            Ok(rows)
        })
    }

    /// The first rows, as many of `count` as a page may hold by halves.
    pub fn first_rows(&self, count: u64) -> Result<Vec<Map<String, Value>>, ResultError> {
        let mut count = count;
        loop {
            match self.page(0, count) {
                Err(ResultError::TooLarge) if count > 1 => count /= 2,
                rows => return rows,
            }
        }
    }

    /// A batch of `SPOOL_BATCH_ROWS` rows (the last may be shorter); exports stream these.
    pub fn batch(&self, index: u64) -> Result<RecordBatch, ResultError> {
        let damaged = || ResultError::Damaged("a batch is missing".to_owned());
        let block =
            usize::try_from(index).ok().and_then(|index| self.blocks.get(index)).ok_or_else(damaged)?;
        let offset = usize::try_from(block.offset()).map_err(|_| damaged())?;
        let metadata = usize::try_from(block.metaDataLength()).map_err(|_| damaged())?;
        let body = usize::try_from(block.bodyLength()).map_err(|_| damaged())?;
        let end = offset.checked_add(metadata).and_then(|at| at.checked_add(body)).ok_or_else(damaged)?;
        if end > self.bytes.len() {
            return Err(damaged());
        }
        // A compressed batch says itself how much memory to take for it; we write none.
        let head = self.bytes.get(offset + MESSAGE_PREFIX_BYTES..offset + metadata).ok_or_else(damaged)?;
        let head = ipc::root_as_message(head).map_err(|error| ResultError::Damaged(error.to_string()))?;
        let is_ours = |head: &ipc::RecordBatch<'_>| {
            head.compression().is_none() && (0..=SPOOL_BATCH_ROWS as i64).contains(&head.length())
        };
        head.header_as_record_batch().filter(is_ours).ok_or_else(damaged)?;
        let bytes = Buffer::from(self.bytes.slice(offset..end));
        self.decoder.read_record_batch(block, &bytes)?.ok_or_else(damaged)
    }

    /// The columns as Arrow has them.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Number of batches.
    pub fn batches(&self) -> u64 {
        self.blocks.len() as u64
    }
}

/// The file was written by a worker, which runs hostile statements, and arrow panics on some damages.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, ResultError>) -> Result<T, ResultError> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ResultError::Damaged("reading it panicked".to_owned())))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn spooled(path: &Path, rows: i64, rows_max: u64, bytes_max: u64) -> Outcome {
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("n", DataType::Utf8View, true),
        ]);
        let mut spool = Spool::create(path, &schema, rows_max, bytes_max).expect("create");
        let schema = Arc::new(schema);
        let mut at = 0;
        while at < rows {
            let end = (at + 777).min(rows);
            let numbers = Int64Array::from_iter(at..end);
            let texts = StringViewArray::from_iter((at..end).map(|n| Some(format!("text number {n}"))));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers), Arc::new(texts)]);
            if !spool.push(&batch.expect("a batch")).expect("push") {
                break;
            }
            at = end;
        }
        spool.finish().expect("finish")
    }

    #[test]
    fn any_page_of_any_size_gives_its_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.arrow");
        let outcome = spooled(&path, 2500, 1_000_000, 1 << 30);
        assert_eq!((outcome.rows, outcome.truncated), (2500, None));
        assert_eq!(outcome.bytes, fs::metadata(&path).expect("a file").len());
        let result = ResultFile::open(&path).expect("open");
        assert_eq!((result.row_count(), result.batches()), (2500, 3));
        assert_eq!(result.columns()[1], ColumnInfo { name: "n_2".into(), type_name: "text".into() });
        for size in [1, 7, 200, 999, 1000] {
            for page in [0, 1, 2, 2500 / size, 2500 / size + 1] {
                let expected: Vec<Value> =
                    (page * size..((page + 1) * size).min(2500)).map(Value::from).collect();
                let rows = result.page(page, size).expect("a page");
                assert_eq!(rows.iter().map(|row| row["n"].clone()).collect::<Vec<_>>(), expected);
            }
        }
        assert_eq!(result.page(12, 200).expect("a page")[99]["n_2"], "text number 2499");
    }

    #[test]
    fn caps_cut_the_result_and_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.arrow");
        let outcome = spooled(&path, 5000, 1234, 1 << 30);
        assert_eq!((outcome.rows, outcome.truncated), (1234, Some(Cap::Rows)));
        assert_eq!(ResultFile::open(&path).expect("open").page(1, 1000).expect("a page").len(), 234);
        assert_eq!(spooled(&path, 1234, 1234, 1 << 30).truncated, None);
        let outcome = spooled(&path, 50_000, 1_000_000, 100_000);
        assert_eq!((outcome.rows % 1000, outcome.truncated), (0, Some(Cap::Bytes)));
        let result = ResultFile::open(&path).expect("open");
        assert_eq!(result.batches() * 1000, outcome.rows);
        assert_eq!(result.page(0, 1000).expect("a page").len(), 1000);
    }

    #[test]
    fn a_damaged_result_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.arrow");
        spooled(&path, 20, 100, 1 << 30);
        let whole = fs::read(&path).expect("read");
        for at in (0..whole.len()).step_by(5) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            let _ = guarded(|| ResultFile::from_bytes(bytes.into())).and_then(|result| result.page(0, 100));
            assert!(guarded(|| ResultFile::from_bytes(whole[..at].to_vec().into())).is_err());
        }
    }
}
