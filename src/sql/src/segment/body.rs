//! Decoding columns out of a batch's bytes.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    StringViewArray, StringViewBuilder, TimestampMillisecondArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, TimeUnit};
use datafusion::arrow::ipc;

use super::{KEY_BYTES, SegmentError, is_dictionary};

/// A batch: what its head says of its columns, and its body.
pub(super) struct EncodedBatch<'a> {
    header: ipc::RecordBatch<'a>,
    body: Body,
    /// For each column the index of its first buffer, and one more entry with the number of all buffers.
    first_buffers: Vec<usize>,
}

/// A batch's body, out of which buffers are cut.
pub(super) struct Body {
    bytes: Bytes,
    rows: usize,
}

impl<'a> EncodedBatch<'a> {
    /// A head that fits a schema of so many columns and buffers.
    pub(super) fn new(
        header: ipc::RecordBatch<'a>,
        body: Body,
        first_buffers: Vec<usize>,
    ) -> Result<Self, SegmentError> {
        let (Some(nodes), Some(buffers)) = (header.nodes(), header.buffers()) else {
            return Err(SegmentError::Damaged("a batch's head lacks its parts"));
        };
        let expected_buffers = first_buffers.last().copied().unwrap_or(0);
        if nodes.len() + 1 != first_buffers.len() || buffers.len() != expected_buffers {
            return Err(SegmentError::Damaged("a batch's head disagrees with the schema"));
        }
        Ok(Self { header, body, first_buffers })
    }

    /// How many values of a column are NULL, and where its buffers lie.
    fn column(&self, column: usize) -> Result<(i64, Vec<(i64, i64)>), SegmentError> {
        let missing = || SegmentError::Damaged("a column is missing");
        let (nodes, buffers) = self.header.nodes().zip(self.header.buffers()).ok_or_else(missing)?;
        let ends = self.first_buffers.get(column).zip(self.first_buffers.get(column + 1));
        let (first, end) = ends.ok_or_else(missing)?;
        let span = |at: usize| (buffers.get(at).offset(), buffers.get(at).length());
        Ok((nodes.get(column).null_count(), (*first..*end).map(span).collect()))
    }

    /// The bytes that a column has of the batch.
    pub(super) fn pieces(&self, column: usize) -> Result<Vec<&[u8]>, SegmentError> {
        let (_, spans) = self.column(column)?;
        let piece = |&(offset, length): &(i64, i64)| {
            let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
            self.body.bytes.get(offset..offset.checked_add(length)?)
        };
        let piece = |span| piece(span).ok_or(SegmentError::Damaged("a buffer has an impossible place"));
        spans.iter().map(piece).collect()
    }

    /// One column; a dictionary-encoded one gives its codes.
    pub(super) fn array(&self, data_type: &DataType, column: usize) -> Result<ArrayRef, SegmentError> {
        let (null_count, spans) = self.column(column)?;
        self.body.array(data_type, null_count, &spans)
    }

    /// The selected rows of a column of plain text.
    pub(super) fn texts(
        &self,
        column: usize,
        selected: &BooleanArray,
    ) -> Result<StringViewArray, SegmentError> {
        let (null_count, spans) = self.column(column)?;
        self.body.texts(null_count, &spans, selected.values())
    }
}

impl Body {
    pub(super) fn new(bytes: Bytes, rows: usize) -> Self {
        Self { bytes, rows }
    }

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

    /// The selected rows of a column of plain text. The others are not looked at: a whole batch of text that is
    /// checked and turned into views for a few rows of it was most of the time of a search.
    fn texts(
        &self,
        null_count: i64,
        spans: &[(i64, i64)],
        selected: &BooleanBuffer,
    ) -> Result<StringViewArray, SegmentError> {
        let damaged = || SegmentError::Damaged("a column's offsets are out of order");
        let nulls = self.nulls(null_count, spans)?;
        let offsets: ScalarBuffer<i32> = self.scalars(spans.get(1), self.rows + 1)?;
        let bytes = self.buffer(spans.get(2), 0)?;
        let mut texts = StringViewBuilder::with_capacity(selected.count_set_bits());
        for row in selected.set_indices() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                texts.append_null();
                continue;
            }
            let (begin, end) =
                (offsets.get(row).ok_or_else(damaged)?, offsets.get(row + 1).ok_or_else(damaged)?);
            let range = usize::try_from(*begin).ok().zip(usize::try_from(*end).ok());
            let text = range.and_then(|(begin, end)| bytes.get(begin..end)).ok_or_else(damaged)?;
            let text = std::str::from_utf8(text);
            texts.append_value(text.map_err(|_| SegmentError::Damaged("a text is not UTF-8"))?);
        }
        Ok(texts.finish())
    }

    fn nulls(&self, null_count: i64, spans: &[(i64, i64)]) -> Result<Option<NullBuffer>, SegmentError> {
        if null_count == 0 {
            return Ok(None);
        }
        let bits = self.buffer(spans.first(), self.rows.div_ceil(8))?;
        Ok(Some(NullBuffer::new(BooleanBuffer::new(bits, 0, self.rows))))
    }

    /// One column, from its buffers in order; a dictionary-encoded one gives its codes.
    pub(super) fn array(
        &self,
        data_type: &DataType,
        null_count: i64,
        spans: &[(i64, i64)],
    ) -> Result<ArrayRef, SegmentError> {
        let rows = self.rows;
        let nulls = self.nulls(null_count, spans)?;
        let values = spans.get(1);
        Ok(match data_type {
            DataType::Boolean => {
                let bits = BooleanBuffer::new(self.buffer(values, rows.div_ceil(8))?, 0, rows);
                Arc::new(BooleanArray::new(bits, nulls))
            }
            _ if is_dictionary(data_type) => {
                Arc::new(Int32Array::try_new(self.scalars(values, rows)?, nulls)?)
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
