//! Which text columns of a merged segment are stored as codes, and their dictionaries.
//!
//! A column is coded when it holds few different values: domains, kinds, and URLs that are collected again and again. A
//! code is four bytes instead of a whole URL, and whatever looks at the text of a column (LIKE, a comparison, a
//! function) does so once a value and not once a row. How many different values there are is estimated first
//! (HyperLogLog, Flajolet et al. 2007), for collecting them of a column of identifiers would cost more than the
//! merge. A dictionary holds what live rows hold and nothing else: what was deleted is gone from it too.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int32Array, StringArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::hash_utils::{HLL_RANDOM_STATE, create_hashes};

use super::manifest::SegmentEntry;
use crate::segment::{Segment, SegmentError, is_dictionary};

/// A segment of fewer rows is not worth a dictionary.
const ROWS_MIN: usize = 4096;
/// Rows for each different value from which a column is coded.
const ROWS_PER_VALUE_MIN: usize = 4;
/// Most values of a dictionary.
const VALUES_MAX: usize = 1 << 18;
/// Most text of a dictionary, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Registers of the estimate: an error of 1.6 %.
const REGISTERS: usize = 1 << 12;

/// The texts of one column of one input: of a coded one its dictionary, of a plain one its batches.
pub(super) struct Texts {
    arrays: Vec<StringArray>,
    is_dictionary: bool,
}

/// How one input's values become the merged segment's codes.
pub(super) enum Recode<'a> {
    /// The input lacks the column.
    Missing,
    /// By its own code.
    Code(Vec<i32>),
    /// By the text.
    Text(&'a HashMap<&'a str, i32>),
}

/// A coded column of the merged segment.
pub(super) struct Coded<'a> {
    /// The dictionary, sorted.
    pub(super) values: ArrayRef,
    codes: HashMap<&'a str, i32>,
}

/// The texts of the inputs' columns that could be coded, by column of `schema` and input.
pub(super) fn texts(
    inputs: &[SegmentEntry],
    schema: &SchemaRef,
) -> Result<Vec<Option<Vec<Option<Texts>>>>, SegmentError> {
    let rows: usize = inputs.iter().map(SegmentEntry::live_rows).sum();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        if rows < ROWS_MIN || *field.data_type() != DataType::Utf8 {
            columns.push(None);
            continue;
        }
        let mut found = Vec::with_capacity(inputs.len());
        for entry in inputs {
            found.push(texts_of(entry.open()?, field.name())?);
        }
        let few = estimate(&found)?.saturating_mul(ROWS_PER_VALUE_MIN) <= rows;
        columns.push(few.then_some(found));
    }
    Ok(columns)
}

fn texts_of(segment: &Segment, name: &str) -> Result<Option<Texts>, SegmentError> {
    let Some((column, field)) = segment.schema().fields().find(name) else { return Ok(None) };
    if is_dictionary(field.data_type()) {
        let values = segment.dictionary(column)?.values.clone();
        return Ok(Some(Texts { arrays: vec![values], is_dictionary: true }));
    }
    if *field.data_type() != DataType::Utf8 {
        return Ok(None);
    }
    let mut arrays = Vec::with_capacity(segment.batches());
    for batch in 0..segment.batches() {
        let column = segment.read(batch, &[column])?.remove(0);
        arrays.extend(column.as_any().downcast_ref::<StringArray>().cloned());
    }
    Ok(Some(Texts { arrays, is_dictionary: false }))
}

/// About how many different texts there are.
fn estimate(inputs: &[Option<Texts>]) -> Result<usize, SegmentError> {
    let mut registers = vec![0_u8; REGISTERS];
    let mut hashes = Vec::new();
    for array in inputs.iter().flatten().flat_map(|texts| &texts.arrays) {
        hashes.clear();
        hashes.resize(array.len(), 0);
        create_hashes([array as &dyn Array], &HLL_RANDOM_STATE, &mut hashes)
            .map_err(|_| SegmentError::Damaged("its text cannot be hashed"))?;
        for hash in &hashes {
            let register = &mut registers[(hash >> 52) as usize % REGISTERS];
            *register = (*register).max(((hash << 12).leading_zeros() as u8).min(52) + 1);
        }
    }
    let count = REGISTERS as f64;
    let sum: f64 = registers.iter().map(|register| 2_f64.powi(-i32::from(*register))).sum();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let empty = registers.iter().filter(|register| **register == 0).count();
    let estimate = if raw <= 2.5 * count && empty > 0 { count * (count / empty as f64).ln() } else { raw };
    Ok(estimate as usize)
}

impl<'a> Coded<'a> {
    /// Collects what the live rows hold; none when that is too much after all, or nothing.
    pub(super) fn build(
        inputs: &[SegmentEntry],
        deleted: &[Vec<u8>],
        name: &str,
        texts: &'a [Option<Texts>],
    ) -> Result<Option<Self>, SegmentError> {
        let mut codes: HashMap<&'a str, i32> = HashMap::new();
        let mut bytes = 0;
        for ((entry, deleted), texts) in inputs.iter().zip(deleted).zip(texts) {
            let Some(texts) = texts else { continue };
            let used =
                if texts.is_dictionary { Some(used_codes(entry.open()?, deleted, name)?) } else { None };
            let mut row = 0;
            for array in &texts.arrays {
                for index in 0..array.len() {
                    let lives = match &used {
                        Some(used) => used[index],
                        None => array.is_valid(index) && !is_set(deleted, row + index),
                    };
                    if lives && codes.insert(array.value(index), 0).is_none() {
                        bytes += array.value(index).len();
                    }
                }
                row += array.len();
                if codes.len() > VALUES_MAX || bytes > TEXT_BYTES_MAX {
                    return Ok(None);
                }
            }
        }
        let mut sorted: Vec<&'a str> = codes.keys().copied().collect();
        sorted.sort_unstable();
        for (code, text) in sorted.iter().enumerate() {
            codes.insert(text, i32::try_from(code).unwrap_or(i32::MAX));
        }
        let values: ArrayRef = Arc::new(StringArray::from(sorted));
        Ok((!values.is_empty()).then_some(Self { values, codes }))
    }

    /// How one input's values become codes.
    pub(super) fn recode(&'a self, texts: Option<&Texts>) -> Recode<'a> {
        match texts {
            None => Recode::Missing,
            Some(texts) if texts.is_dictionary => {
                let code = |text: Option<&str>| self.codes.get(text?).copied();
                let values = texts.arrays.iter().flat_map(StringArray::iter);
                // A value that no live row holds has no code, and nobody will ask for it.
                Recode::Code(values.map(|text| code(text).unwrap_or(0)).collect())
            }
            Some(_) => Recode::Text(&self.codes),
        }
    }
}

impl Recode<'_> {
    /// The codes of one batch of the input, whose column is given as it is stored.
    pub(super) fn column(&self, stored: Option<&ArrayRef>, rows: usize) -> ArrayRef {
        let any = stored.map(|array| array.as_any());
        Arc::new(match self {
            Self::Missing => Int32Array::new_null(rows),
            Self::Code(map) => match any.and_then(|any| any.downcast_ref::<Int32Array>()) {
                Some(codes) => codes.iter().map(|code| Some(map[usize::try_from(code?).ok()?])).collect(),
                None => Int32Array::new_null(rows),
            },
            Self::Text(map) => match any.and_then(|any| any.downcast_ref::<StringArray>()) {
                // A text without a code stands in a deleted row.
                Some(texts) => texts.iter().map(|text| Some(map.get(text?).copied().unwrap_or(0))).collect(),
                None => Int32Array::new_null(rows),
            },
        })
    }
}

/// Which codes live rows hold.
fn used_codes(segment: &Segment, deleted: &[u8], name: &str) -> Result<Vec<bool>, SegmentError> {
    let column = segment.schema().index_of(name)?;
    let mut used = vec![false; segment.dictionary(column)?.values.len()];
    for batch in 0..segment.batches() {
        let first = segment.batch_range(batch).0;
        let codes = segment.read(batch, &[column])?.remove(0);
        let Some(codes) = codes.as_any().downcast_ref::<Int32Array>() else { continue };
        for (row, code) in codes.iter().enumerate() {
            if let Some(code) = code.and_then(|code| usize::try_from(code).ok())
                && !is_set(deleted, first + row)
            {
                used[code] = true;
            }
        }
    }
    Ok(used)
}

/// Whether a bit of a deletion bitmap is set.
pub(super) fn is_set(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_near() {
        for distinct in [1_usize, 10, 1000, 100_000] {
            let array =
                StringArray::from_iter_values((0..200_000).map(|n| format!("value {}", n % distinct)));
            let texts = [Some(Texts { arrays: vec![array], is_dictionary: false })];
            let found = estimate(&texts).expect("an estimate");
            assert!(found.abs_diff(distinct) <= distinct / 10 + 1, "{found} for {distinct}");
        }
    }
}
