//! How large a row becomes as JSON, without making it.
//!
//! A result file may be small and its rows enormous: a NULL in a list takes a bit in the file and 32 bytes as a value of
//! the server's, a control character becomes six. So rows are weighed, first by the worker that writes them and then by
//! the server that makes a page of them. A weight is at least the bytes of the text and at least the memory of the values.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;

/// The longest number, time or interval; and what a value of any kind takes in memory.
const SCALAR_BYTES: u64 = 40;
/// A key of an object in memory, beside its text.
const ENTRY_BYTES: u64 = 64;

/// What of `left` remains after a row; none when the row is heavier.
pub(super) fn row(batch: &RecordBatch, row: usize, left: u64) -> Option<u64> {
    let fields = batch.schema_ref().fields().iter();
    fields.zip(batch.columns()).try_fold(left, |left, (field, column)| {
        let left = left.checked_sub(ENTRY_BYTES + field.name().len() as u64)?;
        value(column, row, left)
    })
}

/// At least what any run of the batch's rows weighs; for most batches all that has to be looked at.
pub(super) fn at_most(batch: &RecordBatch) -> u64 {
    let rows = batch.num_rows() as u64;
    let fields = batch.schema_ref().fields().iter();
    let columns = fields.zip(batch.columns()).map(|(field, column)| {
        let bytes = match column.data_type() {
            DataType::Utf8 => span(column.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => span(column.as_string::<i64>().value_offsets()),
            DataType::Binary => span(column.as_binary::<i32>().value_offsets()),
            DataType::LargeBinary => span(column.as_binary::<i64>().value_offsets()),
            other if other.is_nested() || matches!(other, DataType::FixedSizeBinary(_)) => return u64::MAX,
            _ => 0,
        };
        // Six characters for one, where it is a control character.
        rows * (SCALAR_BYTES + ENTRY_BYTES + field.name().len() as u64) + 6 * bytes
    });
    columns.fold(0, u64::saturating_add)
}

fn span<O: Copy + TryInto<u64>>(offsets: &[O]) -> u64 {
    let at = |offset: Option<&O>| offset.and_then(|offset| (*offset).try_into().ok()).unwrap_or(0);
    at(offsets.last()) - at(offsets.first())
}

fn value(array: &dyn Array, row: usize, left: u64) -> Option<u64> {
    let left = left.checked_sub(SCALAR_BYTES)?;
    if array.is_null(row) {
        return Some(left);
    }
    match array.data_type() {
        DataType::Utf8 => left.checked_sub(text(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => left.checked_sub(text(array.as_string::<i64>().value(row))),
        DataType::Binary => left.checked_sub(2 * array.as_binary::<i32>().value(row).len() as u64),
        DataType::LargeBinary => left.checked_sub(2 * array.as_binary::<i64>().value(row).len() as u64),
        DataType::FixedSizeBinary(bytes) => left.checked_sub(2 * u64::from(bytes.unsigned_abs())),
        DataType::List(_) => items(array.as_list::<i32>().value(row).as_ref(), left),
        DataType::LargeList(_) => items(array.as_list::<i64>().value(row).as_ref(), left),
        DataType::FixedSizeList(..) => items(array.as_fixed_size_list().value(row).as_ref(), left),
        DataType::Map(..) => items(&array.as_map().value(row), left),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            fields.iter().zip(columns).try_fold(left, |left, (field, column)| {
                value(column, row, left.checked_sub(ENTRY_BYTES + field.name().len() as u64)?)
            })
        }
        _ => Some(left),
    }
}

fn items(items: &dyn Array, left: u64) -> Option<u64> {
    (0..items.len()).try_fold(left, |left, row| value(items, row, left))
}

/// The text between its quotes, escaped.
fn text(text: &str) -> u64 {
    let escaped = |byte: u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::json;
    use datafusion::arrow::array::{ArrayRef, Int64Array, ListArray, NullArray, StringArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
    }

    fn weight(batch: &RecordBatch, at: usize) -> u64 {
        1_000_000_000 - row(batch, at, 1_000_000_000).unwrap()
    }

    #[test]
    fn a_row_weighs_at_least_its_json_and_a_batch_at_least_its_rows() {
        let texts = ["plain", "with \"quotes\" and \\", "\u{1}\u{2}\u{3}\n", "größer", ""];
        let flat = batch(vec![
            ("text", Arc::new(StringArray::from(texts.to_vec()))),
            ("number", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(1), Some(2), Some(3)]))),
        ]);
        let mut sum = 0;
        for at in 0..texts.len() {
            let json = serde_json::to_string(&json::row(&flat, at)).unwrap();
            assert!(weight(&flat, at) >= json.len() as u64, "{json}");
            sum += weight(&flat, at);
        }
        assert!(at_most(&flat) >= sum);
        let slice = flat.slice(1, 3);
        assert!(
            at_most(&slice) < at_most(&flat) && at_most(&slice) >= (0..3).map(|at| weight(&slice, at)).sum()
        );
    }

    #[test]
    fn a_list_of_nothing_is_heavy() {
        let items = Arc::new(NullArray::new(1_000_000));
        let field = Arc::new(Field::new("item", DataType::Null, true));
        let list = ListArray::new(field, OffsetBuffer::from_lengths([1_000_000]), items, None);
        let list = batch(vec![("list", Arc::new(list))]);
        assert_eq!(at_most(&list), u64::MAX);
        assert!(weight(&list, 0) >= 32_000_000);
        assert_eq!(row(&list, 0, 8 << 20), None);
    }
}
