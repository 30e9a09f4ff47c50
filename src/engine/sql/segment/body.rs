//! Decoding columns out of a batch's bytes.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, TimeUnit};

use super::{KEY_BYTES, SegmentError, is_coded};

/// A batch's body, out of which buffers are cut.
pub(super) struct Body {
    bytes: Bytes,
    rows: usize,
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

    /// One column, from its buffers in order; a coded one gives its codes.
    pub(super) fn array(
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
            _ if is_coded(data_type) => Arc::new(Int32Array::try_new(self.scalars(values, rows)?, nulls)?),
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
