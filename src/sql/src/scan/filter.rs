//! Conditions that a scan checks itself, while it reads: on the columns that they name and no others, and on text
//! that is stored as codes once a value of the dictionary instead of once a row.
//!
//! What codes answer comes first, for it cannot fail and leaves fewer rows for the rest. The other conditions are checked in
//! the order in which they stand, each on the rows that the ones before have left, so that `kind = 'number' AND
//! text::float8 > 5` does not fail at a text that is no number.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, RecordBatch, UInt32Array};
use datafusion::arrow::array::{BooleanBufferBuilder, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{prep_null_mask_filter, take};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, IsNotNullExpr, IsNullExpr, Literal,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use parking_lot::Mutex;

use super::source::Opened;

/// The part of a batch's rows from which on asking all of them costs less than picking them out and putting the results back.
const EVALUATED_ONE_OF: usize = 16;

/// One condition.
#[derive(Debug)]
pub(super) struct Condition {
    /// Over the columns below, in their order.
    expr: Arc<dyn PhysicalExpr>,
    /// The table's columns that it names.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// It names one column of text, so that it can be answered once a value of a dictionary.
    by_value: bool,
    /// It changes while the statement runs: a top-k or a join rules rows out.
    dynamic: bool,
    /// It fails for no value, so that rows that are not wanted anyway may be asked too.
    infallible: bool,
    results: Mutex<DictionaryResults>,
}

/// What is known of a condition by value, as of one generation of it.
#[derive(Debug, Default)]
struct DictionaryResults {
    generation: u64,
    /// Rows that were asked one by one since it last changed.
    rows: usize,
    /// By segment (its place among the table's): for each code, and then for NULL, whether a row that holds it is wanted;
    /// none where the condition cannot be answered for some value of the dictionary.
    by_segment: HashMap<usize, Arc<OnceLock<Option<BooleanBuffer>>>>,
}

impl Condition {
    /// From an expression over the columns of `table`.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Self> {
        let columns = columns_of([expr]);
        let compact = over_columns(expr, &columns)?;
        let schema = Arc::new(table.project(&columns)?);
        let is_text = matches!(schema.fields().first().map(|f| f.data_type()), Some(DataType::Utf8View));
        let by_value = columns.len() == 1 && is_text;
        let dynamic = is_dynamic(expr);
        let infallible = !by_value && is_infallible(&compact)?;
        Ok(Self { expr: compact, columns, schema, by_value, dynamic, infallible, results: Mutex::default() })
    }

    /// The rows of a batch that are wanted, if that can be said by the codes alone.
    pub(super) fn select_by_codes(
        &self,
        source: usize,
        opened: &Opened,
        batch: usize,
    ) -> Result<Option<BooleanBuffer>> {
        if self.by_value
            && let Some(place) = opened.place(self.schema.field(0))
            && opened.is_dictionary(place)
            && let Some(results) = self.dictionary_results(source, opened, place)?
        {
            let codes = opened.codes(batch, place).map_err(external)?;
            return Ok(Some(bitmap_of_codes(&codes, &results)));
        }
        Ok(None)
    }

    /// The rows of a batch that are wanted, among those that are `selected` so far (all, if none is given).
    pub(super) fn select(
        &self,
        opened: &Opened,
        batch: usize,
        selected: Option<BooleanBuffer>,
    ) -> Result<BooleanBuffer> {
        let rows = opened.segment.batch_range(batch).1;
        if let Some(selected) = selected.as_ref().filter(|_| self.infallible)
            && selected.count_set_bits() >= rows / EVALUATED_ONE_OF
        {
            return Ok(&self.select(opened, batch, None)? & selected);
        }
        let mask = selected.map(|selected| BooleanArray::new(selected, None));
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for field in self.schema.fields() {
            arrays.push(opened.column(batch, field, mask.as_ref(), true).map_err(external)?);
        }
        let count = mask.as_ref().map_or(rows, BooleanArray::true_count);
        let wanted = self.evaluate(arrays, count)?;
        Ok(match mask {
            None => wanted,
            Some(mask) => scattered(mask.values(), &wanted),
        })
    }

    fn evaluate(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        let value = self.expr.evaluate(&batch)?;
        let ColumnarValue::Array(array) = value else {
            let array = value.into_array(rows)?;
            return true_bitmap(&array);
        };
        true_bitmap(&array)
    }

    fn dictionary_results(
        &self,
        source: usize,
        opened: &Opened,
        place: usize,
    ) -> Result<Option<BooleanBuffer>> {
        let slot = {
            let mut results = self.results.lock();
            if self.dynamic {
                let generation = snapshot_generation(&self.expr);
                if generation != results.generation {
                    *results = DictionaryResults { generation, ..DictionaryResults::default() };
                }
                // It may change again at once: the results are worked out when they would have been worth it already.
                results.rows += opened.segment.batch_range(0).1;
                if results.rows < opened.segment.dictionary(place).map_err(external)?.values.len() {
                    return Ok(None);
                }
            }
            Arc::clone(results.by_segment.entry(source).or_default())
        };
        let dictionary = opened.segment.dictionary(place).map_err(external)?;
        let ask = || {
            let count = u32::try_from(dictionary.views.len()).unwrap_or(u32::MAX);
            // All values, and NULL behind them.
            let indices: UInt32Array = (0..count).map(Some).chain([None]).collect();
            let values = take(&dictionary.views as &dyn Array, &indices, None).ok()?;
            // A value that no wanted row holds may be one at which the condition fails: then it is asked row by row.
            self.evaluate(vec![values], indices.len()).ok()
        };
        // Another partition that comes to this segment meanwhile waits, and has the results then.
        Ok(slot.get_or_init(ask).clone())
    }
}

/// The columns that expressions name, ascending.
pub(super) fn columns_of<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<usize> {
    let named = exprs.into_iter().flat_map(collect_columns);
    let columns: BTreeSet<usize> = named.map(|column| column.index()).collect();
    columns.into_iter().collect()
}

/// Gives an expression over a table's columns in terms of `columns` of it.
pub(super) fn over_columns(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let place = |column: &Column| columns.iter().position(|own| *own == column.index());
    let compact = Arc::clone(expr).transform(|node| match node.downcast_ref::<Column>() {
        None => Ok(Transformed::no(node)),
        Some(column) => match place(column) {
            Some(index) => {
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), index));
                Ok(Transformed::yes(column))
            }
            None => internal_err!("an expression names a column that it does not name"),
        },
    });
    compact.data()
}

/// Whether an expression changes while the statement runs.
pub(super) fn is_dynamic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut dynamic = false;
    // The closure never fails.
    let _ = expr.apply(|node| {
        dynamic |= node.is::<DynamicFilterPhysicalExpr>();
        Ok(if dynamic { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    dynamic
}

/// Whether an expression compares numbers, times and constants, and nothing else: nothing of that can fail.
fn is_infallible(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut infallible = true;
    expr.apply(|node| {
        infallible &= match node.downcast_ref::<BinaryExpr>() {
            Some(binary) => {
                use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
                matches!(binary.op(), And | Eq | Gt | GtEq | Lt | LtEq | NotEq | Or)
            }
            None => {
                let is_test = node.is::<IsNullExpr>() || node.is::<IsNotNullExpr>();
                is_test || node.is::<Column>() || node.is::<Literal>()
            }
        };
        Ok(if infallible { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(infallible)
}

/// NULL is not true.
fn true_bitmap(array: &ArrayRef) -> Result<BooleanBuffer> {
    let Some(array) = array.as_any().downcast_ref::<BooleanArray>() else {
        return internal_err!("a condition is neither true nor false");
    };
    Ok(match array.null_count() {
        0 => array.values().clone(),
        _ => prep_null_mask_filter(array).values().clone(),
    })
}

/// The answer for each row's code.
fn bitmap_of_codes(codes: &Int32Array, results: &BooleanBuffer) -> BooleanBuffer {
    let null = results.len() - 1;
    let rows = codes.values();
    // Codes lie in the dictionary, which was checked when they were read.
    let wanted = match only_set_bit(results).and_then(|only| i32::try_from(only).ok()) {
        Some(only) => bitmap_of(rows, |code| code == only),
        None => {
            let results: Vec<bool> = results.iter().collect();
            bitmap_of(rows, |code| results[usize::try_from(code).unwrap_or(null).min(null)])
        }
    };
    // Where there is no value, the code is any.
    match codes.nulls() {
        None => wanted,
        Some(nulls) if results.value(null) => &wanted | &!nulls.inner(),
        Some(nulls) => &wanted & nulls.inner(),
    }
}

/// The place of the only set bit.
fn only_set_bit(results: &BooleanBuffer) -> Option<usize> {
    let mut set = results.set_indices();
    set.next().filter(|_| set.next().is_none())
}

/// One bit a code. Eight at a time, so that the compiler asks several codes at once: bit by bit it was a quarter of what
/// `WHERE domain = '…'` took.
fn bitmap_of(codes: &[i32], is_wanted: impl Fn(i32) -> bool) -> BooleanBuffer {
    /// Brings the lowest bits of a number's bytes together in its highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut bits = Vec::with_capacity(codes.len().div_ceil(8));
    let (eights, rest) = codes.as_chunks::<8>();
    for eight in eights {
        let bytes = eight.map(|code| u8::from(is_wanted(code)));
        bits.push((u64::from_le_bytes(bytes).wrapping_mul(GATHER) >> 56) as u8);
    }
    if !rest.is_empty() {
        bits.push(
            rest.iter().enumerate().fold(0, |byte, (at, code)| byte | u8::from(is_wanted(*code)) << at),
        );
    }
    BooleanBuffer::new(bits.into(), 0, codes.len())
}

/// Puts the results for the selected rows at the places of those rows.
fn scattered(selected: &BooleanBuffer, wanted: &BooleanBuffer) -> BooleanBuffer {
    let mut builder = BooleanBufferBuilder::new(selected.len());
    builder.append_n(selected.len(), false);
    for (index, row) in selected.set_indices().enumerate() {
        if wanted.value(index) {
            builder.set_bit(row, true);
        }
    }
    builder.finish()
}

/// An error of a segment as DataFusion carries it.
pub(super) fn external(error: crate::segment::SegmentError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Gives an expression over `projected` columns of a table in terms of the table's columns.
pub(super) fn over_table(
    expr: Arc<dyn PhysicalExpr>,
    projection: &[usize],
    table: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform(|node| match node.downcast_ref::<Column>() {
        None => Ok(Transformed::no(node)),
        Some(column) => {
            let Some(index) = projection.get(column.index()) else {
                return internal_err!("a condition names a column that is not read");
            };
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(table.field(*index).name(), *index));
            Ok(Transformed::yes(column))
        }
    })
    .data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_spread_over_the_selected_rows() {
        let selected = BooleanBuffer::from(vec![true, false, true, true, false]);
        let wanted = BooleanBuffer::from(vec![false, true, true]);
        assert_eq!(scattered(&selected, &wanted), BooleanBuffer::from(vec![false, false, true, true, false]));
    }

    #[test]
    fn codes_take_the_answers_of_their_values() {
        let codes = Int32Array::from(vec![Some(1), None, Some(0)]);
        let results = BooleanBuffer::from(vec![false, true, true]);
        assert_eq!(bitmap_of_codes(&codes, &results), BooleanBuffer::from(vec![true, true, false]));
        // Every number of wanted values, with and without NULL, in lengths around the eight that are asked at once.
        for (length, wanted) in (0..20).flat_map(|length| (0..8_u32).map(move |wanted| (length, wanted))) {
            let rows: Vec<Option<i32>> =
                (0..length).map(|row| Some(row * 7 % 3).filter(|code| *code < 2)).collect();
            let value = |code: Option<i32>| wanted >> code.unwrap_or(2) & 1 == 1;
            let results = BooleanBuffer::collect_bool(3, |code| wanted >> code & 1 == 1);
            let expected: Vec<bool> = rows.iter().map(|code| value(*code)).collect();
            assert_eq!(bitmap_of_codes(&Int32Array::from(rows), &results), BooleanBuffer::from(expected));
        }
    }
}
