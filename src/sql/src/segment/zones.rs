//! Zone maps: of every batch and column the smallest and largest value and the number of NULLs, kept in the segment's
//! footer. A scan skips the batches that cannot hold what it looks for, and `min`, `max` and `count` of a column need
//! no row at all.
//!
//! Text is cut: the smallest to its first characters, which is smaller still; the largest to its first characters with
//! the last one raised, which is larger still. Text that is dictionary-encoded has the codes' zones, which are exact, because the
//! dictionary is sorted. What has no useful order here (the key) has no zone.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::compute::{max, max_boolean, max_string, min, min_boolean, min_string};
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use super::{SegmentError, is_dictionary};

/// Characters to which text is cut.
const TEXT_CHARS_MAX: usize = 16;

/// One end of a zone.
#[derive(Clone, Debug, PartialEq)]
enum Bound {
    /// No value in the batch, or none that can be said.
    None,
    Number(u64),
    Text(String),
}

/// The zones of one column while a segment is written.
#[derive(Debug, Default)]
struct Written {
    nulls: Vec<u32>,
    min: Vec<Bound>,
    max: Vec<Bound>,
}

/// Collects the zones of a segment that is being written.
#[derive(Debug)]
pub(super) struct ZoneMapWriter(Vec<Written>);

impl ZoneMapWriter {
    /// For a segment of so many columns, the key included.
    pub(super) fn new(columns: usize) -> Self {
        Self((0..columns).map(|_| Written::default()).collect())
    }

    /// Notes one batch; dictionary-encoded columns come as their codes.
    pub(super) fn push(&mut self, columns: &[ArrayRef]) {
        for (written, column) in self.0.iter_mut().zip(columns) {
            let (min, max) = bounds(column);
            written.nulls.push(u32::try_from(column.null_count()).unwrap_or(u32::MAX));
            written.min.push(min);
            written.max.push(max);
        }
    }

    /// The text that stands in the footer.
    pub(super) fn finish(&self) -> String {
        let mut bytes = Vec::new();
        for column in &self.0 {
            for ((nulls, min), max) in column.nulls.iter().zip(&column.min).zip(&column.max) {
                bytes.extend(nulls.to_le_bytes());
                for bound in [min, max] {
                    match bound {
                        Bound::None => bytes.push(0),
                        Bound::Number(value) => {
                            bytes.push(1);
                            bytes.extend(value.to_le_bytes());
                        }
                        Bound::Text(text) => {
                            bytes.push(2);
                            bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
                            bytes.extend(text.as_bytes());
                        }
                    }
                }
            }
        }
        STANDARD.encode(bytes)
    }
}

fn bounds(column: &ArrayRef) -> (Bound, Bound) {
    let any = column.as_any();
    let number = |value: Option<u64>| value.map_or(Bound::None, Bound::Number);
    if let Some(values) = any.downcast_ref::<Int64Array>() {
        (number(min(values).map(|v| v as u64)), number(max(values).map(|v| v as u64)))
    } else if let Some(values) = any.downcast_ref::<TimestampMillisecondArray>() {
        (number(min(values).map(|v| v as u64)), number(max(values).map(|v| v as u64)))
    } else if let Some(values) = any.downcast_ref::<Int32Array>() {
        (number(min(values).map(|v| v as u64)), number(max(values).map(|v| v as u64)))
    } else if let Some(values) = any.downcast_ref::<Float64Array>() {
        (number(min(values).map(f64::to_bits)), number(max(values).map(f64::to_bits)))
    } else if let Some(values) = any.downcast_ref::<BooleanArray>() {
        (number(min_boolean(values).map(u64::from)), number(max_boolean(values).map(u64::from)))
    } else if let Some(values) = any.downcast_ref::<StringArray>() {
        let lower = min_string(values).map_or(Bound::None, |text| Bound::Text(cut(text)));
        (lower, max_string(values).and_then(raised).map_or(Bound::None, Bound::Text))
    } else {
        (Bound::None, Bound::None)
    }
}

/// The first characters: not larger than the text.
fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// Something short that is not smaller than the text; none where every character is the last one there is.
fn raised(text: &str) -> Option<String> {
    let mut short = cut(text);
    if short.len() == text.len() {
        return Some(short);
    }
    while let Some(last) = short.pop() {
        // The next character; the gap of the surrogates has none.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            short.push(next);
            return Some(short);
        }
    }
    None
}

/// The zones of one column: an entry a batch, in the column's own type (codes for dictionary-encoded text).
#[derive(Debug)]
pub(crate) struct ZoneMap {
    pub(crate) nulls: Vec<u64>,
    pub(crate) min: ArrayRef,
    pub(crate) max: ArrayRef,
    /// The bounds are values that occur, and not just bounds.
    pub(crate) exact: bool,
}

/// Reads the zones of `types` columns over `batches` batches; none for a column without.
pub(super) fn parse(
    text: &str,
    types: &[DataType],
    batches: usize,
) -> Result<Vec<Option<ZoneMap>>, SegmentError> {
    let damaged = || SegmentError::Damaged("its zones cannot be read");
    let bytes = STANDARD.decode(text).map_err(|_| damaged())?;
    let mut rest = bytes.as_slice();
    let mut take = |count: usize| -> Result<&[u8], SegmentError> {
        let (head, tail) = rest.split_at_checked(count).ok_or_else(damaged)?;
        rest = tail;
        Ok(head)
    };
    let mut zones = Vec::with_capacity(types.len());
    for data_type in types {
        let (mut nulls, mut ends) = (Vec::with_capacity(batches), [Vec::new(), Vec::new()]);
        for _ in 0..batches {
            let count = take(4)?.try_into().map_err(|_| damaged())?;
            nulls.push(u64::from(u32::from_le_bytes(count)));
            for end in &mut ends {
                end.push(match take(1)?[0] {
                    0 => Bound::None,
                    1 => Bound::Number(u64::from_le_bytes(take(8)?.try_into().map_err(|_| damaged())?)),
                    2 => {
                        let length = usize::from(take(1)?[0]);
                        let text = std::str::from_utf8(take(length)?).map_err(|_| damaged())?;
                        Bound::Text(text.to_owned())
                    }
                    _ => return Err(damaged()),
                });
            }
        }
        let [min, max] = ends;
        let arrays = array(data_type, &min).zip(array(data_type, &max));
        let exact = *data_type != DataType::Utf8;
        zones.push(arrays.map(|(min, max)| ZoneMap { nulls, min, max, exact }));
    }
    Ok(zones)
}

fn array(data_type: &DataType, bounds: &[Bound]) -> Option<ArrayRef> {
    let numbers = bounds.iter().map(|bound| match bound {
        Bound::Number(value) => Some(*value),
        _ => None,
    });
    Some(match data_type {
        _ if is_dictionary(data_type) => {
            Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32))))
        }
        DataType::Int64 => Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n as i64)))),
        DataType::Timestamp(TimeUnit::Millisecond, None) => {
            Arc::new(TimestampMillisecondArray::from_iter(numbers.map(|n| n.map(|n| n as i64))))
        }
        DataType::Float64 => Arc::new(Float64Array::from_iter(numbers.map(|n| n.map(f64::from_bits)))),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(numbers.map(|n| n.map(|n| n != 0)))),
        DataType::Utf8 => Arc::new(StringArray::from_iter(bounds.iter().map(|bound| match bound {
            Bound::Text(text) => Some(text.as_str()),
            _ => None,
        }))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_text_bounds_what_it_was_cut_from() {
        let last = char::MAX;
        let all_last: String = std::iter::repeat_n(last, 20).collect();
        for text in [
            "",
            "a",
            "0123456789abcdef",
            "0123456789abcdefg",
            "ééééééééééééééééé",
            "aaaaaaaaaaaaaaa\u{d7ff}x",
        ] {
            assert!(cut(text).as_str() <= text, "{text}");
            assert!(raised(text).expect("a bound").as_str() >= text, "{text}");
        }
        assert_eq!(raised(&all_last), None);
        let mixed = format!("a{all_last}");
        assert_eq!(raised(&mixed).as_deref(), Some("b"));
    }

    #[test]
    fn zones_are_read_as_they_were_written() {
        let first: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(-5), None, Some(7)])),
            Arc::new(StringArray::from(vec![Some("b"), Some("a"), None])),
            Arc::new(Float64Array::from(vec![f64::NAN, 1.0, -2.0])),
        ];
        let second: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![None::<i64>])),
            Arc::new(StringArray::from(vec!["z"])),
            Arc::new(Float64Array::from(vec![3.5])),
        ];
        let mut writer = ZoneMapWriter::new(3);
        writer.push(&first);
        writer.push(&second);
        let types = [DataType::Int64, DataType::Utf8, DataType::Float64];
        let zones = parse(&writer.finish(), &types, 2).expect("zones");
        let zone = |index: usize| zones[index].as_ref().expect("a zone");
        assert_eq!(zone(0).nulls, [1, 1]);
        assert_eq!(zone(0).min.as_ref(), &Int64Array::from(vec![Some(-5), None]) as &dyn Array);
        assert_eq!(zone(1).max.as_ref(), &StringArray::from(vec!["b", "z"]) as &dyn Array);
        let largest = zone(2).max.as_any().downcast_ref::<Float64Array>().expect("doubles");
        assert!(largest.value(0).is_nan(), "NaN is the largest, so that it is not skipped");
        assert!(parse("!", &types, 2).is_err());
        assert!(parse(&writer.finish(), &types, 3).is_err());
    }
}
