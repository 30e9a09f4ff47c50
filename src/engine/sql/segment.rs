//! A segment: an immutable, mapped Arrow IPC file of one table's rows, sorted by key.
//!
//! The first column is the hidden key (16 bytes, `KEY_COLUMN`), the others are the table's. Batches hold at most
//! `BATCH_ROWS_MAX` rows and about `BATCH_TEXT_BYTES_MAX` of text; their row counts stand in the footer's metadata, so
//! that opening a segment touches its last page and nothing else.
//!
//! Batches are decoded here rather than by arrow's reader, for two reasons that were measured. A buffer that arrow
//! slices out of a mapping reports the whole mapping to the memory pool (75 GB for 8,192 rows), so that ORDER BY
//! fails at once: here every buffer covers its own range and no more. And only the wanted columns are decoded, so
//! that text nobody asked for is never touched. Types are those of `ColumnKind` and the key, all of them flat, uncompressed:
//! the layout is the one that the Arrow columnar format, "Encapsulated message format", gives.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::arrow::ipc::{self, reader::read_footer_length};

use super::mapped;

/// The hidden key's column; no statement can name it, for the catalogue does not list it.
pub(super) const KEY_COLUMN: &str = "\u{1}key";
/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Rows in a batch at most; DataFusion's own batch size, so that a scan hands batches on as they are.
pub(super) const BATCH_ROWS_MAX: usize = 8192;
/// Text in a batch at most, unless one row alone holds more: 32-bit offsets end at 2 GiB.
pub(super) const BATCH_TEXT_BYTES_MAX: usize = 8 << 20;
/// Name of the footer entry with the rows of each batch.
const BATCH_ROWS_METADATA: &str = "gleaner.batch_rows";
/// The file's last bytes: the footer's length and the magic.
const TRAILER_BYTES: usize = 10;
/// A message starts with a continuation mark and its length.
const MESSAGE_PREFIX_BYTES: usize = 8;

/// A row's key.
pub type Key = [u8; KEY_BYTES];

/// A segment could not be read or written.
#[derive(Debug)]
pub enum SegmentError {
    /// The file system said no.
    Io(io::Error),
    /// The file is not what a segment must be; the text says in what.
    Damaged(&'static str),
    /// Arrow refused to write or combine.
    Arrow(datafusion::arrow::error::ArrowError),
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("A file of the SQL snapshots could not be read or written."),
            Self::Damaged(what) => write!(f, "A file of the SQL snapshots is damaged: {what}."),
            Self::Arrow(_) => f.write_str("A file of the SQL snapshots could not be built."),
        }
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Damaged(_) => None,
            Self::Arrow(error) => Some(error),
        }
    }
}

impl From<io::Error> for SegmentError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<datafusion::arrow::error::ArrowError> for SegmentError {
    fn from(error: datafusion::arrow::error::ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// Where one batch lies in the file.
#[derive(Clone, Copy, Debug)]
struct Block {
    offset: usize,
    metadata_bytes: usize,
    body_bytes: usize,
    /// Rows of all batches before this one.
    first_row: usize,
    rows: usize,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    bytes: Bytes,
    schema: SchemaRef,
    blocks: Vec<Block>,
    rows: usize,
    /// The key column's values by batch, decoded at first use.
    keys: Vec<OnceLock<Buffer>>,
}

impl Segment {
    /// Maps the file and reads its footer.
    pub(super) fn open(path: &Path) -> Result<Self, SegmentError> {
        let bytes = mapped::map(path)?;
        let damaged = SegmentError::Damaged;
        let trailer_at = bytes.len().checked_sub(TRAILER_BYTES).ok_or(damaged("it is too short"))?;
        let trailer: [u8; TRAILER_BYTES] =
            bytes[trailer_at..].try_into().map_err(|_| damaged("it is too short"))?;
        let footer_bytes = read_footer_length(trailer).map_err(|_| damaged("it has no footer"))?;
        let footer_at = trailer_at.checked_sub(footer_bytes).ok_or(damaged("its footer is cut"))?;
        let footer = ipc::root_as_footer(&bytes[footer_at..trailer_at])
            .map_err(|_| damaged("its footer cannot be read"))?;
        let schema = footer.schema().ok_or(damaged("it has no schema"))?;
        let schema = Arc::new(Schema::new(fields(schema).ok_or(damaged("its schema is not a segment's"))?));
        let batch_rows = footer
            .custom_metadata()
            .and_then(|entries| entries.iter().find(|entry| entry.key() == Some(BATCH_ROWS_METADATA)))
            .and_then(|entry| serde_json::from_str::<Vec<usize>>(entry.value()?).ok())
            .ok_or(damaged("it does not say how many rows it has"))?;
        let mut blocks = Vec::with_capacity(batch_rows.len());
        let mut first_row = 0;
        for (block, rows) in footer.recordBatches().iter().flatten().zip(&batch_rows) {
            let (Ok(offset), Ok(metadata_bytes), Ok(body_bytes)) = (
                usize::try_from(block.offset()),
                usize::try_from(block.metaDataLength()),
                usize::try_from(block.bodyLength()),
            ) else {
                return Err(damaged("a batch has an impossible place"));
            };
            let end = offset.checked_add(metadata_bytes).and_then(|at| at.checked_add(body_bytes));
            let fits = end.is_some_and(|end| end <= footer_at) && metadata_bytes >= MESSAGE_PREFIX_BYTES;
            if !fits || *rows > BATCH_ROWS_MAX {
                return Err(damaged("a batch has an impossible place"));
            }
            blocks.push(Block { offset, metadata_bytes, body_bytes, first_row, rows: *rows });
            first_row += *rows;
        }
        if blocks.len() != batch_rows.len() || schema.fields().first().is_none_or(|f| f.name() != KEY_COLUMN)
        {
            return Err(damaged("its parts disagree"));
        }
        let keys = blocks.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { bytes, schema, blocks, rows: first_row, keys })
    }

    /// The file's schema, the hidden key first.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows, deleted ones included.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of batches.
    pub(super) fn batches(&self) -> usize {
        self.blocks.len()
    }

    /// The first row and the number of rows of a batch.
    pub(super) fn batch_range(&self, batch: usize) -> (usize, usize) {
        self.blocks.get(batch).map_or((self.rows, 0), |block| (block.first_row, block.rows))
    }

    /// Decodes the named columns of a batch (indexes into `schema`).
    pub(super) fn read(&self, batch: usize, columns: &[usize]) -> Result<Vec<ArrayRef>, SegmentError> {
        let block = *self.blocks.get(batch).ok_or(SegmentError::Damaged("a batch is missing"))?;
        let body_at = block.offset + block.metadata_bytes;
        let message = ipc::root_as_message(&self.bytes[block.offset + MESSAGE_PREFIX_BYTES..body_at])
            .map_err(|_| SegmentError::Damaged("a batch's head cannot be read"))?;
        let header = message
            .header_as_record_batch()
            .filter(|header| header.compression().is_none() && header.length() == block.rows as i64)
            .ok_or(SegmentError::Damaged("a batch's head is not what it must be"))?;
        let (Some(nodes), Some(buffers)) = (header.nodes(), header.buffers()) else {
            return Err(SegmentError::Damaged("a batch's head lacks its parts"));
        };
        let body = Body { bytes: self.bytes.slice(body_at..body_at + block.body_bytes), rows: block.rows };
        let first_buffers = first_buffers(&self.schema);
        let expected_buffers = first_buffers.last().copied().unwrap_or(0);
        if nodes.len() != self.schema.fields().len() || buffers.len() != expected_buffers {
            return Err(SegmentError::Damaged("a batch's head disagrees with the schema"));
        }
        let decode = |&column: &usize| {
            let field =
                self.schema.fields().get(column).ok_or(SegmentError::Damaged("a column is missing"))?;
            let spans: Vec<(i64, i64)> = (first_buffers[column]..first_buffers[column + 1])
                .map(|at| (buffers.get(at).offset(), buffers.get(at).length()))
                .collect();
            body.array(field.data_type(), nodes.get(column).null_count(), &spans)
        };
        columns.iter().map(decode).collect()
    }

    /// The key of a row.
    pub(super) fn key(&self, row: usize) -> Result<Key, SegmentError> {
        let batch = self.batch_of(row);
        let (first_row, rows) = self.batch_range(batch);
        let keys = self.keys(batch)?;
        let at = row.checked_sub(first_row).filter(|at| *at < rows).map(|at| at * KEY_BYTES);
        at.and_then(|at| keys.get(at..at + KEY_BYTES))
            .and_then(|key| key.try_into().ok())
            .ok_or(SegmentError::Damaged("a key is missing"))
    }

    /// The rows that hold `key`, looked for from row `from` on.
    pub(super) fn find(&self, key: &Key, from: usize) -> Result<std::ops::Range<usize>, SegmentError> {
        let (mut low, mut high) = (from, self.rows);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle)? < *key { low = middle + 1 } else { high = middle }
        }
        let first = low;
        while low < self.rows && self.key(low)? == *key {
            low += 1;
        }
        Ok(first..low)
    }

    fn batch_of(&self, row: usize) -> usize {
        self.blocks.partition_point(|block| block.first_row + block.rows <= row)
    }

    fn keys(&self, batch: usize) -> Result<&Buffer, SegmentError> {
        let slot = self.keys.get(batch).ok_or(SegmentError::Damaged("a key is missing"))?;
        if let Some(keys) = slot.get() {
            return Ok(keys);
        }
        let array = self.read(batch, &[0])?.swap_remove(0);
        let array = array
            .as_any()
            .downcast_ref::<FixedSizeBinaryArray>()
            .ok_or(SegmentError::Damaged("the key has another type"))?;
        Ok(slot.get_or_init(|| array.values().clone()))
    }
}

/// The schema's fields, if all have types that segments have. (arrow's own conversion panics on a damaged file.)
fn fields(schema: ipc::Schema<'_>) -> Option<Vec<Field>> {
    let field = |field: ipc::Field<'_>| {
        let data_type = match field.type_type() {
            ipc::Type::Utf8 => DataType::Utf8,
            ipc::Type::Bool => DataType::Boolean,
            ipc::Type::Int => {
                let int = field.type_as_int()?;
                (int.bitWidth() == 64 && int.is_signed()).then_some(DataType::Int64)?
            }
            ipc::Type::FloatingPoint => {
                let float = field.type_as_floating_point()?;
                (float.precision() == ipc::Precision::DOUBLE).then_some(DataType::Float64)?
            }
            ipc::Type::Timestamp => {
                let time = field.type_as_timestamp()?;
                let plain = time.unit() == ipc::TimeUnit::MILLISECOND && time.timezone().is_none();
                plain.then_some(DataType::Timestamp(TimeUnit::Millisecond, None))?
            }
            ipc::Type::FixedSizeBinary => {
                let width = field.type_as_fixed_size_binary()?.byteWidth();
                (width == KEY_BYTES as i32).then_some(DataType::FixedSizeBinary(width))?
            }
            _ => return None,
        };
        Some(Field::new(field.name()?, data_type, field.nullable()))
    };
    schema.fields()?.iter().map(field).collect()
}

/// For each column the index of its first buffer, and one more entry with the number of all buffers.
fn first_buffers(schema: &Schema) -> Vec<usize> {
    let mut at = 0;
    let mut firsts = Vec::with_capacity(schema.fields().len() + 1);
    for field in schema.fields() {
        firsts.push(at);
        at += if *field.data_type() == DataType::Utf8 { 3 } else { 2 };
    }
    firsts.push(at);
    firsts
}

/// A batch's body, out of which buffers are cut.
struct Body {
    bytes: Bytes,
    rows: usize,
}

impl Body {
    /// One buffer over exactly its own range, which is what it then reports to the memory pool.
    fn buffer(&self, span: Option<&(i64, i64)>, bytes_min: usize) -> Result<Buffer, SegmentError> {
        let &(offset, length) = span.ok_or(SegmentError::Damaged("a buffer is missing"))?;
        let (Ok(offset), Ok(length)) = (usize::try_from(offset), usize::try_from(length)) else {
            return Err(SegmentError::Damaged("a buffer has an impossible place"));
        };
        match offset.checked_add(length) {
            Some(end) if end <= self.bytes.len() && length >= bytes_min => {
                Ok(Buffer::from(self.bytes.slice(offset..end)))
            }
            _ => Err(SegmentError::Damaged("a buffer has an impossible place")),
        }
    }

    fn scalars<T: ArrowNativeType>(
        &self,
        span: Option<&(i64, i64)>,
        count: usize,
    ) -> Result<ScalarBuffer<T>, SegmentError> {
        let buffer = self.buffer(span, count * size_of::<T>())?;
        if !(buffer.as_ptr() as usize).is_multiple_of(align_of::<T>()) {
            return Err(SegmentError::Damaged("a buffer is not aligned"));
        }
        Ok(ScalarBuffer::new(buffer, 0, count))
    }

    fn array(
        &self,
        data_type: &DataType,
        null_count: i64,
        spans: &[(i64, i64)],
    ) -> Result<ArrayRef, SegmentError> {
        let rows = self.rows;
        let nulls = match null_count {
            0 => None,
            _ => {
                let bits = self.buffer(spans.first(), rows.div_ceil(8))?;
                Some(NullBuffer::new(BooleanBuffer::new(bits, 0, rows)))
            }
        };
        let values = spans.get(1);
        Ok(match data_type {
            DataType::Boolean => {
                let bits = BooleanBuffer::new(self.buffer(values, rows.div_ceil(8))?, 0, rows);
                Arc::new(BooleanArray::new(bits, nulls))
            }
            DataType::Int64 => Arc::new(Int64Array::try_new(self.scalars(values, rows)?, nulls)?),
            DataType::Float64 => Arc::new(Float64Array::try_new(self.scalars(values, rows)?, nulls)?),
            DataType::Timestamp(TimeUnit::Millisecond, None) => {
                Arc::new(TimestampMillisecondArray::try_new(self.scalars(values, rows)?, nulls)?)
            }
            DataType::FixedSizeBinary(width) if *width as usize == KEY_BYTES => {
                let values = self.buffer(values, rows * KEY_BYTES)?;
                Arc::new(FixedSizeBinaryArray::try_new(*width, values, nulls)?)
            }
            DataType::Utf8 => {
                let offsets: ScalarBuffer<i32> = self.scalars(values, rows + 1)?;
                // `OffsetBuffer::new` panics on what a damaged file may hold.
                if offsets.first().is_none_or(|first| *first < 0) || !offsets.is_sorted() {
                    return Err(SegmentError::Damaged("a column's offsets are out of order"));
                }
                Arc::new(StringArray::try_new(
                    OffsetBuffer::new(offsets),
                    self.buffer(spans.get(2), 0)?,
                    nulls,
                )?)
            }
            _ => return Err(SegmentError::Damaged("a column has an unknown type")),
        })
    }
}

/// What a finished segment is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) rows: usize,
    pub(super) bytes: u64,
    pub(super) min_key: Key,
    pub(super) max_key: Key,
}

/// Writes a segment; the caller gives batches in key order.
pub(super) struct SegmentWriter {
    writer: FileWriter<BufWriter<File>>,
    batch_rows: Vec<usize>,
    min_key: Option<Key>,
    max_key: Option<Key>,
}

impl SegmentWriter {
    /// Creates the file; it must not exist.
    pub(super) fn create(path: &Path, schema: &Schema) -> Result<Self, SegmentError> {
        let file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
        let writer = FileWriter::try_new(file, schema)?;
        Ok(Self { writer, batch_rows: Vec::new(), min_key: None, max_key: None })
    }

    /// Appends a batch whose first column is the key, sorted, and not before the keys already written.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), SegmentError> {
        let keys = batch.column(0).as_any().downcast_ref::<FixedSizeBinaryArray>();
        let keys = keys.ok_or(SegmentError::Damaged("the key has another type"))?;
        if keys.is_empty() {
            return Ok(());
        }
        self.min_key = self.min_key.or_else(|| keys.value(0).try_into().ok());
        self.max_key = keys.value(keys.len() - 1).try_into().ok();
        self.batch_rows.push(batch.num_rows());
        Ok(self.writer.write(batch)?)
    }

    /// Writes the footer and makes the file durable; `None` when no row was written.
    pub(super) fn finish(mut self) -> Result<Option<Written>, SegmentError> {
        let batch_rows = serde_json::to_string(&self.batch_rows).map_err(io::Error::other)?;
        self.writer.write_metadata(BATCH_ROWS_METADATA, batch_rows);
        self.writer.finish()?;
        let mut file = self.writer.into_inner()?;
        file.flush()?;
        let file = file.get_ref();
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        let rows = self.batch_rows.iter().sum();
        Ok(self.min_key.zip(self.max_key).map(|(min_key, max_key)| Written { rows, bytes, min_key, max_key }))
    }
}

/// A segment's schema: the hidden key, then the given fields.
pub(super) fn with_key(fields: impl IntoIterator<Item = Field>) -> SchemaRef {
    let key = Field::new(KEY_COLUMN, DataType::FixedSizeBinary(KEY_BYTES as i32), false);
    Arc::new(Schema::new(std::iter::once(key).chain(fields).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &Path) -> RecordBatch {
        let schema = with_key([
            Field::new("t", DataType::Utf8, true),
            Field::new("n", DataType::Int64, true),
            Field::new("f", DataType::Float64, true),
            Field::new("b", DataType::Boolean, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        ]);
        let keys: Vec<Key> = (0..20u8).map(|n| [n / 2; KEY_BYTES]).collect();
        let keys = FixedSizeBinaryArray::try_from_iter(keys.iter()).expect("keys");
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(keys),
                Arc::new(StringArray::from_iter((0..20).map(|n| (n % 3 != 0).then(|| format!("é{n}"))))),
                Arc::new(Int64Array::from_iter((0..20).map(|n| (n % 4 != 0).then_some(n)))),
                Arc::new(Float64Array::from_iter((0..20).map(|n| Some(f64::from(n))))),
                Arc::new(BooleanArray::from_iter((0..20).map(|n| (n != 7).then_some(n % 2 == 0)))),
                Arc::new(TimestampMillisecondArray::from_iter((0..20).map(|n| (n != 2).then_some(n * 1000)))),
            ],
        )
        .expect("a batch");
        let mut writer = SegmentWriter::create(path, &schema).expect("create");
        writer.write(&batch.slice(0, 13)).expect("write");
        writer.write(&batch.slice(13, 7)).expect("write");
        let written = writer.finish().expect("finish").expect("rows");
        assert_eq!((written.rows, written.min_key[0], written.max_key[0]), (20, 0, 9));
        batch
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.arrow");
        let batch = sample(&path);
        let segment = Segment::open(&path).expect("open");
        assert_eq!((segment.rows(), segment.batches(), segment.batch_range(1)), (20, 2, (13, 7)));
        for (index, (from, rows)) in [(0, 13), (13, 7)].into_iter().enumerate() {
            let columns = segment.read(index, &[0, 1, 2, 3, 4, 5]).expect("read");
            assert_eq!(
                RecordBatch::try_new(segment.schema().clone(), columns).expect("same"),
                batch.slice(from, rows)
            );
        }
        let text = segment.read(0, &[1]).expect("read").remove(0);
        assert!(
            text.get_buffer_memory_size() < 4096,
            "a buffer reports its own range, not the whole mapping"
        );
    }

    #[test]
    fn keys_are_found_across_batches() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.arrow");
        sample(&path);
        let segment = Segment::open(&path).expect("open");
        for n in 0..10u8 {
            let first = usize::from(n) * 2;
            assert_eq!(segment.find(&[n; KEY_BYTES], 0).expect("find"), first..first + 2);
        }
        assert!(segment.find(&[77; KEY_BYTES], 0).expect("find").is_empty());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.arrow");
        sample(&path);
        let whole = std::fs::read(&path).expect("read");
        let other = folder.path().join("d.arrow");
        let mut refused = 0;
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            std::fs::write(&other, &bytes).expect("write");
            let read = Segment::open(&other)
                .and_then(|s| (0..s.batches()).try_for_each(|b| s.read(b, &[0, 1, 2, 3, 4, 5]).map(drop)));
            refused += usize::from(read.is_err());
        }
        for length in (0..whole.len()).step_by(7) {
            std::fs::write(&other, &whole[..length]).expect("write");
            assert!(Segment::open(&other).is_err(), "cut at {length}");
        }
        assert!(refused > 100, "{refused}");
    }
}
