//! Results: an Arrow IPC file in batches of at most 1,000 rows, written once by the worker, paged by the server.
//!
//! A batch also holds at most some 2 MiB, unless a single row is larger, and the footer says how many rows each has, so that
//! any page takes the same short time and little memory; pages never change and the total is exact. The server reads
//! (pread) what it needs and maps nothing: a worker that held the file open for writing could shorten it, and
//! touching a mapped page that is gone ends the process that touches it. What a row and a page may become as JSON is
//! bounded (`weight.rs`).

pub(super) mod json;
mod result;
mod weight;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;
use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{BatchCoalescer, cast};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::arrow::ipc::writer::FileWriter;

pub(super) use self::result::guarded;
pub use self::result::{ResultError, ResultFile};
use super::errors::QueryError;
use super::names::unique;
use super::protocol::{Cap, Outcome};

/// Rows of a batch at most.
const BATCH_ROWS_MAX: usize = 1000;
/// Bytes of a batch at most, unless it is one row.
const BATCH_BYTES_MAX: usize = 2 << 20;
/// A larger result is on the disk when the statement ends. A smaller one may not be when the power fails, and be there in
/// part afterwards: it has a checksum, which is looked at whenever it is opened.
const CHECKED_BYTES_MAX: u64 = 1 << 20;
/// What one row may weigh as JSON.
const ROW_BYTES_MAX: u64 = 8 << 20;
/// What one row may take in the file; only types with room for values that are NULL take more than they weigh.
const ROW_READ_BYTES_MAX: usize = 16 << 20;
/// A column's name is cut here, as PostgreSQL cuts it at 63.
const NAME_BYTES_MAX: usize = 128;
/// PostgreSQL's bound on the columns of a result.
const COLUMNS_MAX: usize = 1_664;
/// How deeply the type of a column may nest: the format's own check of a schema ends at 64.
const NESTING_MAX: usize = 32;
/// Name of the footer entry with the number of rows.
const ROWS_METADATA: &str = "gleaner.rows";
/// Name of the footer entry with the rows of each batch.
const BATCH_ROWS_METADATA: &str = "gleaner.batch_rows";
/// Name of the footer entry with the checksum (CRC-32) of what comes before the footer, behind how many bytes that are.
const CHECKSUM_METADATA: &str = "gleaner.checksum";
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

/// Refuses a result with more columns than a row of anything should have, or with one that nests too deeply.
pub(super) fn check_columns(schema: &Schema) -> Result<(), QueryError> {
    let count = schema.fields().len();
    if count > COLUMNS_MAX {
        return Err(QueryError::invalid(format!(
            "The result would have {count} columns; at most {COLUMNS_MAX} are possible."
        )));
    }
    match schema.fields().iter().find(|field| nesting(field.data_type()) > NESTING_MAX) {
        Some(_) => Err(QueryError::invalid(format!(
            "A column of the result would nest arrays or rows more than {NESTING_MAX} deep."
        ))),
        None => Ok(()),
    }
}

fn nesting(data_type: &DataType) -> usize {
    let inner = match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => nesting(item.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| nesting(field.data_type())).max().unwrap_or(0),
        DataType::Dictionary(_, value) => return nesting(value),
        _ => return 0,
    };
    inner + 1
}

/// The type in which a result is stored: what counts is a `bigint`, as its column says, views are made plain, for a view drags all its buffers along, whatever few
/// rows of them are left (209 MB instead of 26), and dictionaries too.
fn stored_type(data_type: &DataType) -> DataType {
    let field =
        |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(stored_type(field.data_type())));
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::UInt64 => DataType::Int64,
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
struct CountingWriter {
    file: BufWriter<File>,
    bytes: u64,
    checksum: Hasher,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.checksum.update(&bytes[..written]);
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
    writer: FileWriter<CountingWriter>,
    rows: u64,
    batch_rows: Vec<u64>,
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
        let file = BufWriter::with_capacity(1 << 18, File::create(&part)?);
        let file = CountingWriter { file, bytes: 0, checksum: Hasher::new() };
        let writer = FileWriter::try_new(file, &schema).map_err(QueryError::internal)?;
        let batches = BatchCoalescer::new(Arc::clone(&schema), BATCH_ROWS_MAX);
        let (path, batch_rows) = (path.to_owned(), Vec::new());
        let truncated = None;
        Ok(Self { path, part, schema, batches, writer, rows: 0, batch_rows, rows_max, bytes_max, truncated })
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
            return Err(row_too_large());
        }
        self.batches.push_batch(batch).map_err(QueryError::internal)?;
        self.write_completed()?;
        Ok(self.truncated.is_none())
    }

    fn write_completed(&mut self) -> Result<(), QueryError> {
        while let Some(batch) = self.batches.next_completed_batch() {
            self.write(&batch)?;
        }
        Ok(())
    }

    /// Writes a batch, in halves of halves when it is too large for one.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let rows = batch.num_rows();
        if self.truncated == Some(Cap::Bytes) {
            self.rows -= rows as u64;
            return Ok(());
        }
        let bytes = slice_bytes(batch)?;
        if rows > 1 && bytes > BATCH_BYTES_MAX {
            self.write(&batch.slice(0, rows / 2))?;
            return self.write(&batch.slice(rows / 2, rows - rows / 2));
        }
        if bytes > ROW_READ_BYTES_MAX {
            return Err(row_too_large());
        }
        self.writer.write(batch).map_err(write_error)?;
        self.batch_rows.push(rows as u64);
        if self.writer.get_ref().bytes >= self.bytes_max {
            self.truncated = Some(Cap::Bytes);
        }
        Ok(())
    }

    /// Completes the file and gives it its name. The server brings a small one to the disk, beside what else it has to do
    /// (`pool`); a large one takes a while, which is to count as the statement's time.
    pub(super) fn finish(mut self) -> Result<Outcome, QueryError> {
        self.batches.finish_buffered_batch().map_err(QueryError::internal)?;
        self.write_completed()?;
        let batch_rows: Vec<String> = self.batch_rows.iter().map(ToString::to_string).collect();
        self.writer.write_metadata(ROWS_METADATA, self.rows.to_string());
        self.writer.write_metadata(BATCH_ROWS_METADATA, batch_rows.join(","));
        let (body_bytes, checksum) =
            (self.writer.get_ref().bytes, self.writer.get_ref().checksum.clone().finalize());
        let is_checked = body_bytes <= CHECKED_BYTES_MAX;
        if is_checked {
            self.writer.write_metadata(CHECKSUM_METADATA, format!("{body_bytes} {checksum:08x}"));
        }
        self.writer.finish().map_err(write_error)?;
        let mut file = self.writer.into_inner().map_err(write_error)?;
        file.flush()?;
        if !is_checked {
            file.file.get_ref().sync_all()?;
        }
        fs::rename(&self.part, &self.path)?;
        Ok(Outcome { rows: self.rows, bytes: file.bytes, truncated: self.truncated })
    }
}

fn row_too_large() -> QueryError {
    QueryError::failed(format!("A row of the result is larger than {} MiB.", ROW_BYTES_MAX >> 20))
}

/// The bytes of a batch's own rows.
fn slice_bytes(batch: &RecordBatch) -> Result<usize, QueryError> {
    let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    sizes.sum::<Result<usize, _>>().map_err(QueryError::internal)
}

fn write_error(error: datafusion::arrow::error::ArrowError) -> QueryError {
    match error {
        datafusion::arrow::error::ArrowError::IoError(_, error) => error.into(),
        other => QueryError::internal(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_stored_as_the_bigint_that_its_column_says() {
        let counts = |item| DataType::new_list(item, true);
        let schema = Schema::new(vec![
            Field::new("n", DataType::UInt64, false),
            Field::new("all", counts(DataType::UInt64), true),
        ]);
        let shown = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
        assert_eq!(columns(&schema), [shown("n", "bigint"), shown("all", "bigint[]")]);
        assert_eq!(stored_type(&DataType::UInt64), DataType::Int64);
        assert_eq!(stored_type(&counts(DataType::UInt64)), counts(DataType::Int64));
    }
}
