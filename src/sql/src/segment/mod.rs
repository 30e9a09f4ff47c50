//! A segment: an immutable, mapped Arrow IPC file of one table's rows, sorted by key.
//!
//! The first column is the hidden key (16 bytes, `KEY_COLUMN`), the others are the table's. Batches hold at most
//! `BATCH_ROWS_MAX` rows and about `BATCH_TEXT_BYTES_MAX` of text; their row counts stand in the footer's metadata, so
//! that opening a segment touches its last page and nothing else.
//!
//! Batches are decoded here rather than by arrow's reader, for two reasons that were measured. A buffer that arrow
//! slices out of a mapping reports the whole mapping to the memory pool (75 GB for 8,192 rows), so that ORDER BY
//! fails at once: here every buffer covers its own range and no more. And only the wanted columns are decoded, so
//! that text nobody asked for is never touched. Types are those of `ColumnKind` and the key, flat and uncompressed, and
//! text with few different values as codes into a sorted dictionary, one for the whole file, so that equal codes are
//! equal text and the codes' order is the text's. The layout is the one that the Arrow columnar format, "Encapsulated
//! message format", gives. `zones` says of each batch what it can hold, `checksums` whether it is what was written.

mod body;
mod checksums;
mod footer;
mod write;
mod zones;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Int32Array, StringArray, StringViewArray,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::ipc;

use self::body::{Body, EncodedBatch};
use self::checksums::{Checksums, Part};
use self::footer::{Block, fields, first_buffers, footer_of};
pub(super) use self::write::{SegmentWriter, with_key};
pub(super) use self::zones::ZoneMap;
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
/// Name of the footer entry with the zones.
const ZONES_METADATA: &str = "gleaner.zones";
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

/// The type of text that is stored as codes.
pub(super) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Whether a stored type is that of dictionary-encoded text.
pub(super) fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

/// Whether a stored column holds what a column of `wanted` type shows: itself, or text in any form.
pub(super) fn holds(stored: &DataType, wanted: &DataType) -> bool {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View);
    stored == wanted || is_text(wanted) && (is_text(stored) || is_dictionary(stored))
}

/// The different texts of a dictionary-encoded column, sorted.
#[derive(Debug)]
pub(super) struct Dictionary {
    pub(super) values: StringArray,
    /// The same as views, from which rows are made without copying text.
    pub(super) views: StringViewArray,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    bytes: Bytes,
    /// None while it is being written.
    checksums: Option<Checksums>,
    /// Where the footer begins.
    footer_at: usize,
    schema: SchemaRef,
    blocks: Vec<Block>,
    rows: usize,
    /// The key column's values by batch, decoded at first use.
    keys: Vec<OnceLock<Buffer>>,
    /// Of each dictionary-encoded column where its dictionary lies, and the dictionary once it was used.
    dictionaries: Vec<Option<(Block, OnceLock<Dictionary>)>>,
    /// Whether the codes of a batch's column were found in their dictionary, by batch and column.
    checked: Vec<AtomicBool>,
    zones_text: String,
    zones: OnceLock<Vec<Option<ZoneMap>>>,
}

impl Segment {
    /// Maps the file and reads its footer.
    pub(super) fn open(path: &Path) -> Result<Self, SegmentError> {
        let (arrow, list, sum) = checksums::split(&mapped::map(path)?)?;
        let footer_at = footer_of(&arrow)?.start;
        if !checksums::is_whole(&arrow[footer_at..], &list, sum) {
            return Err(SegmentError::Damaged("its footer is not what was written"));
        }
        let mut segment = Segment::parse(arrow)?;
        segment.checksums = Some(Checksums::new(list, segment.blocks.len(), segment.schema.fields().len())?);
        Ok(segment)
    }

    /// Reads the footer of an Arrow file.
    fn parse(bytes: Bytes) -> Result<Self, SegmentError> {
        let damaged = SegmentError::Damaged;
        let place = footer_of(&bytes)?;
        let footer_at = place.start;
        let footer = ipc::root_as_footer(&bytes[place]).map_err(|_| damaged("its footer cannot be read"))?;
        let schema = footer.schema().ok_or(damaged("it has no schema"))?;
        let (fields, ids) = fields(schema).ok_or(damaged("its schema is not a segment's"))?;
        let schema = Arc::new(Schema::new(fields));
        let metadata = |name: &str| {
            let entry = footer.custom_metadata()?.iter().find(|entry| entry.key() == Some(name))?;
            entry.value()
        };
        let batch_rows = metadata(BATCH_ROWS_METADATA)
            .and_then(|text| serde_json::from_str::<Vec<usize>>(text).ok())
            .ok_or(damaged("it does not say how many rows it has"))?;
        let zones_text = metadata(ZONES_METADATA).ok_or(damaged("it has no zones"))?.to_owned();
        let mut blocks = Vec::with_capacity(batch_rows.len());
        let mut first_row = 0;
        for (block, rows) in footer.recordBatches().iter().flatten().zip(&batch_rows) {
            let block = Block::of(block, footer_at).ok_or(damaged("a batch has an impossible place"))?;
            if *rows > BATCH_ROWS_MAX {
                return Err(damaged("a batch has an impossible place"));
            }
            blocks.push(Block { first_row, rows: *rows, ..block });
            first_row += *rows;
        }
        if blocks.len() != batch_rows.len() || schema.fields().first().is_none_or(|f| f.name() != KEY_COLUMN)
        {
            return Err(damaged("its parts disagree"));
        }
        let mut dictionaries: Vec<Option<(Block, OnceLock<Dictionary>)>> = ids.iter().map(|_| None).collect();
        for block in footer.dictionaries().iter().flatten() {
            let block = Block::of(block, footer_at).ok_or(damaged("a dictionary has an impossible place"))?;
            let id = block.dictionary_id(&bytes).ok_or(damaged("a dictionary's head cannot be read"))?;
            let column = ids.iter().position(|own| *own == Some(id));
            let column = column.ok_or(damaged("a dictionary belongs to no column"))?;
            if dictionaries[column].replace((block, OnceLock::new())).is_some() {
                return Err(damaged("a column has two dictionaries"));
            }
        }
        let keys = blocks.iter().map(|_| OnceLock::new()).collect();
        let checked = (0..blocks.len() * schema.fields().len()).map(|_| AtomicBool::new(false)).collect();
        let zones = OnceLock::new();
        Ok(Self {
            bytes,
            checksums: None,
            footer_at,
            schema,
            blocks,
            rows: first_row,
            keys,
            dictionaries,
            checked,
            zones_text,
            zones,
        })
    }

    /// What stands behind the Arrow file: the checksums of all parts.
    fn tail(&self) -> Result<Vec<u8>, SegmentError> {
        let columns = self.schema.fields().len();
        let mut sums = Vec::new();
        for batch in 0..self.blocks.len() {
            sums.push(checksums::checksum(&[self.blocks[batch].head(&self.bytes)]));
            let parts = self.encoded_batch(batch)?;
            for column in 0..columns {
                sums.push(checksums::checksum(&parts.pieces(column)?));
            }
        }
        let whole = |(block, _): &(Block, _)| checksums::checksum(&[block.whole(&self.bytes)]);
        sums.extend(self.dictionaries.iter().map(|dictionary| dictionary.as_ref().map_or(0, whole)));
        Ok(checksums::tail(&self.bytes[self.footer_at..], &sums))
    }

    /// Compares everything with its checksum.
    pub(super) fn verify(&self) -> Result<(), SegmentError> {
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        for batch in 0..self.blocks.len() {
            self.read(batch, &columns)?;
        }
        let encoded = columns.into_iter().filter(|column| self.dictionaries[*column].is_some());
        encoded.into_iter().try_for_each(|column| self.dictionary(column).map(drop))
    }

    /// Compares a part with its checksum.
    fn compare<'b>(
        &self,
        part: Part,
        pieces: impl FnOnce() -> Result<Vec<&'b [u8]>, SegmentError>,
    ) -> Result<(), SegmentError> {
        self.checksums.as_ref().map_or(Ok(()), |checksums| checksums.compare(part, pieces))
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

    /// The zones of a column, one a batch; none for the key.
    pub(super) fn zone(&self, column: usize) -> Result<Option<&ZoneMap>, SegmentError> {
        if self.zones.get().is_none() {
            let types: Vec<DataType> = self.schema.fields().iter().map(|f| f.data_type().clone()).collect();
            let parsed = zones::parse(&self.zones_text, &types, self.blocks.len())?;
            let _ = self.zones.set(parsed);
        }
        Ok(self.zones.get().and_then(|zones| zones.get(column)?.as_ref()))
    }

    /// The dictionary of a dictionary-encoded column.
    pub(super) fn dictionary(&self, column: usize) -> Result<&Dictionary, SegmentError> {
        let slot = self.dictionaries.get(column).and_then(Option::as_ref);
        let (block, slot) = slot.ok_or(SegmentError::Damaged("a dictionary is missing"))?;
        if let Some(dictionary) = slot.get() {
            return Ok(dictionary);
        }
        self.compare(Part::Dictionary { column }, || Ok(vec![block.whole(&self.bytes)]))?;
        let read = self.read_dictionary(block)?;
        Ok(slot.get_or_init(|| read))
    }

    fn read_dictionary(&self, block: &Block) -> Result<Dictionary, SegmentError> {
        let damaged = SegmentError::Damaged("a dictionary's head is not what it must be");
        let header = block.message(&self.bytes).and_then(|message| message.header_as_dictionary_batch());
        let data = header.filter(|header| !header.isDelta()).and_then(|header| header.data());
        let data = data.filter(|data| data.compression().is_none());
        let Some((data, buffers)) = data.and_then(|data| Some((data, data.buffers()?))) else {
            return Err(damaged);
        };
        let Ok(rows) = usize::try_from(data.length()) else { return Err(damaged) };
        let spans: Vec<(i64, i64)> = buffers.iter().map(|span| (span.offset(), span.length())).collect();
        let values = Body::new(block.body(&self.bytes), rows).array(&DataType::Utf8, 0, &spans)?;
        let Some(values) = values.as_any().downcast_ref::<StringArray>().cloned() else {
            return Err(damaged);
        };
        let views = StringViewArray::from(&values);
        Ok(Dictionary { values, views })
    }

    /// Decodes the named columns of a batch (indexes into `schema`); a dictionary-encoded one gives its codes, as 32-bit integers
    /// that lie in its dictionary.
    pub(super) fn read(&self, batch: usize, columns: &[usize]) -> Result<Vec<ArrayRef>, SegmentError> {
        let parts = self.encoded_batch(batch)?;
        let decode = |&column: &usize| {
            let field =
                self.schema.fields().get(column).ok_or(SegmentError::Damaged("a column is missing"))?;
            self.compare(Part::Column { batch, column }, || parts.pieces(column))?;
            let array = parts.array(field.data_type(), column)?;
            if is_dictionary(field.data_type()) {
                self.check_codes(batch, column, &array)?;
            }
            Ok(array)
        };
        columns.iter().map(decode).collect()
    }

    /// The selected rows of a batch's column of plain text.
    pub(super) fn texts(
        &self,
        batch: usize,
        column: usize,
        selected: &BooleanArray,
    ) -> Result<StringViewArray, SegmentError> {
        if self.schema.fields().get(column).is_none_or(|field| *field.data_type() != DataType::Utf8) {
            return Err(SegmentError::Damaged("a column has another type"));
        }
        let parts = self.encoded_batch(batch)?;
        self.compare(Part::Column { batch, column }, || parts.pieces(column))?;
        parts.texts(column, selected)
    }

    /// A batch, ready to be decoded.
    fn encoded_batch(&self, batch: usize) -> Result<EncodedBatch<'_>, SegmentError> {
        let block = *self.blocks.get(batch).ok_or(SegmentError::Damaged("a batch is missing"))?;
        self.compare(Part::Head { batch }, || Ok(vec![block.head(&self.bytes)]))?;
        let header = block
            .message(&self.bytes)
            .and_then(|message| message.header_as_record_batch())
            .filter(|header| header.compression().is_none() && header.length() == block.rows as i64)
            .ok_or(SegmentError::Damaged("a batch's head is not what it must be"))?;
        EncodedBatch::new(header, Body::new(block.body(&self.bytes), block.rows), first_buffers(&self.schema))
    }

    /// Whether codes lie in their dictionary; of each batch once, for the file does not change.
    fn check_codes(&self, batch: usize, column: usize, codes: &ArrayRef) -> Result<(), SegmentError> {
        let checked = self.checked.get(batch * self.schema.fields().len() + column);
        if checked.is_some_and(|checked| checked.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let codes = codes.as_any().downcast_ref::<Int32Array>();
        // A negative code is a large one without its sign.
        let largest =
            codes.map(|codes| codes.values().iter().fold(0, |most, code| code.cast_unsigned().max(most)));
        let known = self.dictionary(column)?.values.len();
        if largest.is_none_or(|largest| largest as usize >= known) {
            return Err(SegmentError::Damaged("a code is not in its dictionary"));
        }
        if let Some(checked) = checked {
            checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The text of a dictionary-encoded column's codes.
    pub(super) fn text(&self, column: usize, codes: &ArrayRef) -> Result<ArrayRef, SegmentError> {
        Ok(take(&self.dictionary(column)?.values, codes, None)?)
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

    /// The batch that holds a row.
    pub(super) fn batch_of(&self, row: usize) -> usize {
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        BooleanArray, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray,
    };
    use datafusion::arrow::datatypes::{Field, TimeUnit};

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
        let mut writer = SegmentWriter::create(path, &schema, Vec::new()).expect("create");
        writer.write(batch.slice(0, 13).columns().to_vec()).expect("write");
        writer.write(batch.slice(13, 7).columns().to_vec()).expect("write");
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
        let read = || {
            let segment = Segment::open(&other)?;
            segment.verify()?;
            let batches = (0..segment.batches()).map(|batch| segment.read(batch, &[0, 1, 2, 3, 4, 5]));
            batches.collect::<Result<Vec<_>, _>>()
        };
        std::fs::write(&other, &whole).expect("write");
        let written = read().expect("read");
        let mut refused = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&other, &bytes).expect("write");
            match read() {
                // Bytes between the parts, which nobody reads.
                Ok(read) => assert_eq!(read, written, "the byte at {at} was flipped and other values served"),
                Err(_) => refused += 1,
            }
        }
        for length in (0..whole.len()).step_by(7) {
            std::fs::write(&other, &whole[..length]).expect("write");
            assert!(Segment::open(&other).is_err(), "cut at {length}");
        }
        assert!(refused > whole.len() / 2, "{refused} of {}", whole.len());
    }

    #[test]
    fn dictionary_text_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.arrow");
        let schema = with_key([Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, true)]);
        let values = |texts: &[&str]| Some(Arc::new(StringArray::from(texts.to_vec())) as ArrayRef);
        let dictionaries = vec![None, values(&["blue", "red"]), values(&["x"])];
        let mut writer = SegmentWriter::create(&path, &schema, dictionaries).expect("create");
        for batch in 0..2_u8 {
            let keys = [[batch; KEY_BYTES], [batch; KEY_BYTES], [batch; KEY_BYTES]];
            let keys = FixedSizeBinaryArray::try_from_iter(keys.iter()).expect("keys");
            let a = Int32Array::from(vec![Some(1), None, Some(i32::from(batch))]);
            let b = Int32Array::from(vec![Some(0), Some(0), None]);
            writer.write(vec![Arc::new(keys), Arc::new(a), Arc::new(b)]).expect("write");
        }
        writer.finish().expect("finish").expect("rows");
        let segment = Segment::open(&path).expect("open");
        assert!(is_dictionary(segment.schema().field(1).data_type()));
        let codes = segment.read(1, &[1]).expect("read").remove(0);
        assert_eq!(codes.as_ref(), &Int32Array::from(vec![Some(1), None, Some(1)]) as &dyn Array);
        let dictionary = segment.dictionary(1).expect("a dictionary");
        assert_eq!(dictionary.values, StringArray::from(vec!["blue", "red"]));
        assert_eq!(segment.dictionary(2).expect("a dictionary").views.value(0), "x");
        let zone = segment.zone(1).expect("zones").expect("a zone");
        assert_eq!(zone.min.as_ref(), &Int32Array::from(vec![0, 1]) as &dyn Array);
        assert_eq!((zone.nulls.as_slice(), zone.exact), ([1, 1].as_slice(), true));
        // A code that a damaged file points out of its dictionary is an error.
        let bytes = std::fs::read(&path).expect("read");
        let mut seen = 0;
        for at in 0..bytes.len() - 3 {
            if bytes[at..at + 4] == 1_i32.to_le_bytes() {
                let mut bytes = bytes.clone();
                bytes[at] = 99;
                // As somebody may have written it: with checksums that fit.
                let (arrow, ..) = checksums::split(&Bytes::from(bytes)).expect("its parts");
                let Ok(parsed) = Segment::parse(arrow.clone()) else { continue };
                let Ok(tail) = parsed.tail() else { continue };
                let other = folder.path().join("d.arrow");
                std::fs::write(&other, [&arrow[..], &tail].concat()).expect("write");
                let read = Segment::open(&other).and_then(|s| s.read(0, &[1]).map(drop));
                seen += usize::from(matches!(
                    read,
                    Err(SegmentError::Damaged("a code is not in its dictionary"))
                ));
            }
        }
        assert!(seen > 0);
    }
}
