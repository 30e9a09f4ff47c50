//! A finished result, as the server reads it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::arrow::ipc::convert::fb_to_schema;
use datafusion::arrow::ipc::reader::{FileDecoder, read_footer_length};
use datafusion::arrow::ipc::{self, Block};
use serde_json::{Map, Value};

use super::{
    BATCH_ROWS_MAX, BATCH_ROWS_METADATA, CHECKED_BYTES_MAX, CHECKSUM_METADATA, ROWS_METADATA, json, weight,
};
use crate::protocol::ColumnInfo;

/// What the server reads of a batch: a row is bounded by its weight, which is never less than its bytes.
const BATCH_READ_BYTES_MAX: usize = 32 << 20;
/// What the server reads of a footer: 2,000 batches take 50 KB, the widest schema some megabyte.
const FOOTER_READ_BYTES_MAX: usize = 16 << 20;
/// What the rows of a page may weigh together; more than one row may.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a message before its head: the mark of a message and the head's length.
const MESSAGE_PREFIX_BYTES: usize = 8;
/// The file's last bytes: the footer's length and the magic.
const TRAILER_BYTES: usize = 10;

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
    file: File,
    /// Its length when it was opened.
    bytes: usize,
    schema: SchemaRef,
    decoder: FileDecoder,
    batches: Vec<BatchLocation>,
    rows: u64,
}

/// Where a batch lies, and of which rows it is.
#[derive(Clone, Copy, Debug)]
struct BatchLocation {
    block: Block,
    first_row: u64,
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

fn damaged(what: &str) -> ResultError {
    ResultError::Damaged(what.to_owned())
}

/// A piece of a file, in memory as arrow wants it.
fn read(file: &File, at: usize, bytes: usize) -> io::Result<Buffer> {
    let mut buffer = MutableBuffer::from_len_zeroed(bytes);
    file.read_exact_at(buffer.as_slice_mut(), at as u64)?;
    Ok(buffer.into())
}

/// Compares what comes before the footer with its checksum.
fn check(file: &File, footer_at: usize, checksum: &str) -> Result<(), ResultError> {
    let parts = checksum.split_once(' ');
    let told = parts.and_then(|(bytes, sum)| Some((bytes.parse().ok()?, u32::from_str_radix(sum, 16).ok()?)));
    let (bytes, sum): (usize, u32) = told.ok_or_else(|| damaged("its checksum cannot be understood"))?;
    if bytes > footer_at || bytes as u64 > CHECKED_BYTES_MAX {
        return Err(damaged("its checksum is of something else"));
    }
    let mut body = vec![0; bytes];
    file.read_exact_at(&mut body, 0)?;
    match crc32fast::hash(&body) == sum {
        true => Ok(()),
        false => Err(damaged("it is not what was written")),
    }
}

/// What of `left` remains after rows. What is sure not to matter is not weighed row by row.
fn remaining(rows: &RecordBatch, left: u64) -> Option<u64> {
    let most = weight::at_most(rows);
    if most <= PAGE_BYTES_MAX / 16
        && let Some(left) = left.checked_sub(most)
    {
        return Some(left);
    }
    (0..rows.num_rows()).try_fold(left, |left, row| weight::row(rows, row, left))
}

impl ResultFile {
    /// Opens a result that a worker finished. Blocking, but short (the end of the file is read).
    pub fn open(path: &Path) -> Result<Self, ResultError> {
        let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(damaged("it is no file"));
        }
        let bytes = usize::try_from(metadata.len()).map_err(|_| damaged("it is too long"))?;
        guarded(|| Self::of(file, bytes))
    }

    fn of(file: File, bytes: usize) -> Result<Self, ResultError> {
        let trailer_at = bytes.checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("it is too short"))?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at as u64)?;
        let footer_bytes = read_footer_length(trailer)?;
        let footer_at = trailer_at
            .checked_sub(footer_bytes)
            .filter(|_| footer_bytes <= FOOTER_READ_BYTES_MAX)
            .ok_or_else(|| damaged("its footer is cut"))?;
        let footer = read(&file, footer_at, footer_bytes)?;
        let footer = ipc::root_as_footer(&footer).map_err(|error| damaged(&error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| damaged("it has no schema"))?;
        let schema = Arc::new(fb_to_schema(schema));
        let entry = |key: &str| {
            let entries = footer.custom_metadata();
            entries.and_then(|entries| entries.iter().find(|entry| entry.key() == Some(key))?.value())
        };
        if let Some(checksum) = entry(CHECKSUM_METADATA) {
            check(&file, footer_at, checksum)?;
        }
        let rows = entry(ROWS_METADATA)
            .and_then(|rows| rows.parse().ok())
            .ok_or_else(|| damaged("it does not say how many rows it has"))?;
        let batch_rows = entry(BATCH_ROWS_METADATA).unwrap_or_default().split_terminator(',');
        let mut batches = Vec::new();
        let mut first_row = 0;
        for (block, rows) in footer.recordBatches().iter().flatten().zip(batch_rows) {
            let rows = rows.parse().ok().filter(|rows| (1..=BATCH_ROWS_MAX as u64).contains(rows));
            let rows = rows.ok_or_else(|| damaged("it does not say how many rows a batch has"))?;
            batches.push(BatchLocation { block: *block, first_row, rows });
            first_row += rows;
        }
        if first_row != rows {
            return Err(damaged("its batches have another number of rows"));
        }
        let decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        Ok(Self { file, bytes, schema, decoder, batches, rows })
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
                let index = self.batches.partition_point(|place| place.first_row + place.rows <= at);
                let batch = self.batch(index as u64)?;
                let from = (at - self.batches[index].first_row) as usize;
                let to = batch.num_rows().min(from + usize::try_from(end - at).unwrap_or(usize::MAX));
                if to <= from {
                    return Err(ResultError::Damaged("a batch is too short".to_owned()));
                }
                left = remaining(&batch.slice(from, to - from), left).ok_or(ResultError::TooLarge)?;
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

    /// A batch of at most 1,000 rows, read into memory; exports stream these.
    pub fn batch(&self, index: u64) -> Result<RecordBatch, ResultError> {
        let missing = || damaged("a batch is missing");
        let index = usize::try_from(index).map_err(|_| missing())?;
        let BatchLocation { block, rows, .. } = *self.batches.get(index).ok_or_else(missing)?;
        let offset = usize::try_from(block.offset()).map_err(|_| missing())?;
        let metadata = usize::try_from(block.metaDataLength()).map_err(|_| missing())?;
        let body = usize::try_from(block.bodyLength()).map_err(|_| missing())?;
        let length = metadata.checked_add(body).filter(|length| *length <= BATCH_READ_BYTES_MAX);
        let length = length.ok_or_else(|| damaged("a batch is too large"))?;
        if offset.checked_add(length).is_none_or(|end| end > self.bytes) {
            return Err(missing());
        }
        let bytes = read(&self.file, offset, length)?;
        // A compressed batch says itself how much memory to take for it; we write none.
        let head = bytes.get(MESSAGE_PREFIX_BYTES..metadata).ok_or_else(missing)?;
        let head = ipc::root_as_message(head).map_err(|error| damaged(&error.to_string()))?;
        let is_ours =
            |head: &ipc::RecordBatch<'_>| head.compression().is_none() && head.length() == rows as i64;
        head.header_as_record_batch().filter(is_ours).ok_or_else(missing)?;
        self.decoder.read_record_batch(&block, &bytes)?.ok_or_else(missing)
    }

    /// The columns as Arrow has them.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Number of batches.
    pub fn batches(&self) -> u64 {
        self.batches.len() as u64
    }
}

/// The file was written by a worker, which runs hostile statements, and arrow panics on some damages.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, ResultError>) -> Result<T, ResultError> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ResultError::Damaged("reading it panicked".to_owned())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Schema};

    use super::*;
    use crate::protocol::{Cap, Outcome};
    use crate::spool::{BATCH_BYTES_MAX, NESTING_MAX, Spool, check_columns};

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
        let trailer = whole.last_chunk::<TRAILER_BYTES>().expect("a trailer");
        let footer_at = whole.len() - TRAILER_BYTES - read_footer_length(*trailer).expect("a length");
        for at in (0..whole.len()).step_by(5) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            fs::write(&path, &bytes).expect("write");
            let read = ResultFile::open(&path).and_then(|result| result.page(0, 100));
            // Before the footer stands the mark of the end, which nobody looks at.
            assert!(read.is_err() || at >= footer_at - MESSAGE_PREFIX_BYTES, "a wrong byte at {at}");
            fs::write(&path, &whole[..at]).expect("write");
            assert!(ResultFile::open(&path).is_err());
        }
    }

    #[test]
    fn a_result_that_is_shortened_under_a_reader_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.arrow");
        spooled(&path, 5_000, 10_000, 1 << 30);
        let result = ResultFile::open(&path).expect("open");
        assert_eq!(result.page(4, 1000).expect("a page").len(), 1000);
        File::options().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("shortened");
        assert!(result.page(4, 1000).is_err());
        std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("a link");
        assert!(ResultFile::open(&folder.path().join("link")).is_err(), "links are not followed");
        assert!(ResultFile::open(folder.path()).is_err(), "a folder is no result");
    }

    #[test]
    fn wide_rows_come_in_small_batches() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.arrow");
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("t", DataType::Utf8View, true),
        ]));
        let mut spool = Spool::create(&path, &schema, u64::MAX, u64::MAX).expect("create");
        // The rows grow: small ones at first, one of some megabytes at the end.
        let width = |n: i64| if n == 1499 { 3 << 20 } else { n as usize * 8 };
        let texts = StringViewArray::from_iter((0..1500).map(|n| Some("x".repeat(width(n)))));
        let batch =
            RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter(0..1500)), Arc::new(texts)]);
        spool.push(&batch.expect("a batch")).expect("push");
        let outcome = spool.finish().expect("finish");
        let result = ResultFile::open(&path).expect("open");
        assert_eq!((outcome.rows, result.row_count()), (1500, 1500));
        let sizes: Vec<_> = result.batches.iter().map(|place| place.block.bodyLength()).collect();
        let large: Vec<_> = sizes.iter().filter(|bytes| **bytes > BATCH_BYTES_MAX as i64 + 4096).collect();
        assert_eq!(large.len(), 1, "only the one row that is larger alone: {sizes:?}");
        let mut seen = 0;
        for page in 0..15 {
            for row in result.page(page, 100).expect("a page") {
                assert_eq!(row["n"], seen);
                assert_eq!(row["t"].as_str().map(str::len), Some(width(seen)));
                seen += 1;
            }
        }
        assert_eq!(seen, 1500);
    }

    #[test]
    fn a_type_that_nests_too_deeply_is_refused() {
        let nested = |depth: usize| {
            let list = |inner: DataType, _| DataType::List(Arc::new(Field::new("item", inner, true)));
            let field = Field::new("a", (0..depth).fold(DataType::Int64, list), true);
            check_columns(&Schema::new(vec![field]))
        };
        nested(NESTING_MAX).expect("it fits");
        assert!(nested(NESTING_MAX + 1).expect_err("too deep").message.contains("32 deep"));
    }
}
