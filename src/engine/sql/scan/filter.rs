//! Conditions that a scan checks itself, while it reads: on the columns that they name and no others, and on text
//! that is stored as codes once a value of the dictionary instead of once a row.
//!
//! Conditions are checked in the order in which they stand, each on the rows that the ones before have left, so that
//! `kind = 'number' AND text::float8 > 5` does not fail at a text that is no number.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, RecordBatch, StringViewArray, UInt32Array,
};
use datafusion::arrow::array::{BooleanBufferBuilder, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{prep_null_mask_filter, take};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;

use super::source::Opened;

/// One condition.
#[derive(Debug)]
pub(super) struct Condition {
    /// Over the columns below, in their order.
    expr: Arc<dyn PhysicalExpr>,
    /// The table's columns that it names.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// It names one column of text and never changes, so that it can be answered once a value of a dictionary.
    by_value: bool,
    /// The answers, by segment (its place among the table's).
    answers: Answers,
}

/// By segment: for each code, and then for NULL, whether a row that holds it is wanted; none where the condition cannot
/// be answered for some value of the dictionary.
type Answers = parking_lot::Mutex<HashMap<usize, Arc<OnceLock<Option<BooleanBuffer>>>>>;

impl Condition {
    /// From an expression over the columns of `table`.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let place = |column: &Column| columns.iter().position(|own| *own == column.index());
        let compact = Arc::clone(expr).transform(|node| match node.downcast_ref::<Column>() {
            None => Ok(Transformed::no(node)),
            Some(column) => match place(column) {
                Some(index) => {
                    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), index));
                    Ok(Transformed::yes(column))
                }
                None => internal_err!("a condition names a column that it does not name"),
            },
        });
        let schema = Arc::new(table.project(&columns)?);
        let is_text = matches!(schema.fields().first().map(|f| f.data_type()), Some(DataType::Utf8View));
        let by_value = columns.len() == 1 && is_text && !is_dynamic(expr);
        Ok(Self { expr: compact.data()?, columns, schema, by_value, answers: Answers::default() })
    }

    /// The rows of a batch that are wanted, among those that are `selected` so far (all, if none is given).
    pub(super) fn select(
        &self,
        source: usize,
        opened: &Opened,
        batch: usize,
        selected: Option<BooleanBuffer>,
    ) -> Result<BooleanBuffer> {
        if self.by_value
            && let Some(place) = opened.place(self.schema.field(0))
            && opened.is_coded(place)
            && let Some(answers) = self.answers(source, opened, place)?
        {
            let codes = opened.codes(batch, place).map_err(external)?;
            let wanted = by_code(&codes, &answers);
            return Ok(match selected {
                Some(selected) => &wanted & &selected,
                None => wanted,
            });
        }
        let rows = opened.segment.batch_range(batch).1;
        let mask = selected.map(|selected| BooleanArray::new(selected, None));
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for field in self.schema.fields() {
            arrays.push(opened.column(batch, field, mask.as_ref(), true).map_err(external)?);
        }
        let count = mask.as_ref().map_or(rows, BooleanArray::true_count);
        let wanted = self.evaluate(arrays, count)?;
        Ok(match mask {
            None => wanted,
            Some(mask) => spread(mask.values(), &wanted),
        })
    }

    fn evaluate(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        let value = self.expr.evaluate(&batch)?;
        let ColumnarValue::Array(array) = value else {
            let array = value.into_array(rows)?;
            return truths(&array);
        };
        truths(&array)
    }

    fn answers(&self, source: usize, opened: &Opened, place: usize) -> Result<Option<BooleanBuffer>> {
        let slot = Arc::clone(self.answers.lock().entry(source).or_default());
        if let Some(answers) = slot.get() {
            return Ok(answers.clone());
        }
        let dictionary = opened.segment.dictionary(place).map_err(external)?;
        let count = u32::try_from(dictionary.views.len()).unwrap_or(u32::MAX);
        // All values, and NULL behind them.
        let indices: UInt32Array = (0..count).map(Some).chain([None]).collect();
        let values = take(&dictionary.views as &dyn Array, &indices, None)?;
        debug_assert!(values.as_any().is::<StringViewArray>());
        // A value that no wanted row holds may be one at which the condition fails: then it is asked row by row.
        let answers = self.evaluate(vec![values], indices.len()).ok();
        Ok(slot.get_or_init(|| answers).clone())
    }
}

/// Whether an expression changes while the statement runs.
fn is_dynamic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut dynamic = false;
    // The closure never fails.
    let _ = expr.apply(|node| {
        dynamic |= node.is::<DynamicFilterPhysicalExpr>();
        Ok(if dynamic { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    dynamic
}

/// NULL is not true.
fn truths(array: &ArrayRef) -> Result<BooleanBuffer> {
    let Some(array) = array.as_any().downcast_ref::<BooleanArray>() else {
        return internal_err!("a condition is neither true nor false");
    };
    Ok(match array.null_count() {
        0 => array.values().clone(),
        _ => prep_null_mask_filter(array).values().clone(),
    })
}

/// The answer for each row's code.
fn by_code(codes: &Int32Array, answers: &BooleanBuffer) -> BooleanBuffer {
    let null = answers.len() - 1;
    // Codes lie in the dictionary, which was checked when they were read.
    let answer = |code: i32| answers.value(usize::try_from(code).unwrap_or(null).min(null));
    match codes.nulls() {
        None => BooleanBuffer::collect_bool(codes.len(), |row| answer(codes.values()[row])),
        Some(nulls) => BooleanBuffer::collect_bool(codes.len(), |row| {
            if nulls.is_valid(row) { answer(codes.values()[row]) } else { answers.value(null) }
        }),
    }
}

/// Puts the answers for the selected rows at the places of those rows.
fn spread(selected: &BooleanBuffer, wanted: &BooleanBuffer) -> BooleanBuffer {
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
pub(super) fn external(error: crate::engine::sql::segment::SegmentError) -> DataFusionError {
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
        assert_eq!(spread(&selected, &wanted), BooleanBuffer::from(vec![false, false, true, true, false]));
    }

    #[test]
    fn codes_take_the_answers_of_their_values() {
        let codes = Int32Array::from(vec![Some(1), None, Some(0)]);
        let answers = BooleanBuffer::from(vec![false, true, true]);
        assert_eq!(by_code(&codes, &answers), BooleanBuffer::from(vec![true, true, false]));
    }
}
