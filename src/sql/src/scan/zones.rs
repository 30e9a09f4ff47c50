//! What the zones of a table's segments say: which batches a condition cannot be true in, and the smallest and
//! largest value of a column.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StringArray, StringViewArray, UInt64Array};
use datafusion::arrow::compute::{SortOptions, concat, sort_to_indices, take};
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ColumnStatistics, Result, ScalarValue};
use datafusion::physical_optimizer::pruning::PruningPredicate;

use super::filter::external;
use super::source::{ColumnBounds, Opened, Source};
use crate::segment::SegmentError;

/// The zones of one segment, for a predicate to be held against.
struct ZoneStatistics<'a> {
    opened: &'a Opened,
    table: &'a SchemaRef,
}

impl ZoneStatistics<'_> {
    fn field(&self, column: &Column) -> Option<&Field> {
        self.table.fields().find(&column.name).map(|(_, field)| field.as_ref())
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        batch_bounds(self.opened, self.field(column)?).ok()?.map(|(min, _)| min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        batch_bounds(self.opened, self.field(column)?).ok()?.map(|(_, max)| max)
    }

    fn num_containers(&self) -> usize {
        self.opened.segment.batches()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let Some(place) = self.opened.place(self.field(column)?) else {
            // A column that the segment lacks is NULL in every row.
            return self.row_counts();
        };
        let zone = self.opened.segment.zone(place).ok()??;
        Some(Arc::new(UInt64Array::from(zone.nulls.clone())))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let segment = &self.opened.segment;
        let rows = (0..segment.batches()).map(|batch| segment.batch_range(batch).1 as u64);
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The smallest and largest value of a column in each batch of a segment, as the table shows them.
fn batch_bounds(opened: &Opened, field: &Field) -> Result<Option<(ArrayRef, ArrayRef)>, SegmentError> {
    let Some(place) = opened.place(field) else { return Ok(None) };
    let Some(zone) = opened.segment.zone(place)? else { return Ok(None) };
    let shown = |end: &ArrayRef| -> Result<ArrayRef, SegmentError> {
        if opened.is_dictionary(place) {
            return Ok(take(&opened.segment.dictionary(place)?.views, end, None)?);
        }
        Ok(match end.as_any().downcast_ref::<StringArray>() {
            Some(texts) => Arc::new(StringViewArray::from(texts)),
            None => Arc::clone(end),
        })
    };
    Ok(Some((shown(&zone.min)?, shown(&zone.max)?)))
}

/// The batches of a segment in which the predicate may be true.
pub(super) fn kept(predicate: &PruningPredicate, opened: &Opened, table: &SchemaRef) -> Vec<bool> {
    let kept = predicate.prune(&ZoneStatistics { opened, table });
    // A predicate that cannot be held against the zones skips nothing.
    kept.unwrap_or_else(|_| vec![true; opened.segment.batches()])
}

/// Every batch of the table (segment and batch), those with the largest values of a column first, or with the smallest.
pub(super) fn by_values(
    sources: &[Arc<Source>],
    field: &Field,
    descending: bool,
) -> Result<Vec<(usize, usize)>> {
    let mut places = Vec::new();
    let mut values: Vec<ArrayRef> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let opened = source.open().map_err(external)?;
        let batches = opened.segment.batches();
        places.extend((0..batches).rev().map(|batch| (index, batch)));
        let end = batch_bounds(opened, field).map_err(external)?;
        let end = end.map(|(min, max)| if descending { max } else { min });
        // Newest first within a segment, so that equal batches stay in that order.
        values.push(match end {
            Some(end) => {
                let reversed = UInt64Array::from_iter_values((0..batches as u64).rev());
                take(&end, &reversed, None)?
            }
            None => datafusion::arrow::array::new_null_array(field.data_type(), batches),
        });
    }
    if values.is_empty() {
        return Ok(places);
    }
    let values = concat(&values.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?;
    // What is not known may be anything: it comes first.
    let options = SortOptions { descending, nulls_first: true };
    let order = sort_to_indices(&values, Some(options), None)?;
    Ok(order.values().iter().map(|index| places[*index as usize]).collect())
}

/// What the zones say of a column of a segment; none where it has no zones.
fn column_bounds<'a>(opened: &'a Opened, field: &Field, place: usize) -> Result<Option<&'a ColumnBounds>> {
    let slot = opened.bounds.get(place);
    if let Some(known) = slot.and_then(OnceLock::get) {
        return Ok(Some(known));
    }
    let Some(zone) = opened.segment.zone(place).map_err(external)? else { return Ok(None) };
    let Some((min, max)) = batch_bounds(opened, field).map_err(external)? else { return Ok(None) };
    let null = ScalarValue::try_new_null(field.data_type())?;
    let mut found = ColumnBounds {
        least: null.clone(),
        most: null,
        bounded: true,
        nulls: zone.nulls.iter().sum(),
        exact: zone.exact,
    };
    for batch in 0..opened.segment.batches() {
        let (low, high) =
            (ScalarValue::try_from_array(&min, batch)?, ScalarValue::try_from_array(&max, batch)?);
        if low.is_null() || high.is_null() {
            // All values are NULL, or nothing could be said of them.
            found.bounded &= zone.nulls[batch] == opened.segment.batch_range(batch).1 as u64;
            continue;
        }
        if found.least.is_null() || low < found.least {
            found.least = low;
        }
        if found.most.is_null() || high > found.most {
            found.most = high;
        }
    }
    Ok(slot.map(|slot| slot.get_or_init(|| found)))
}

/// What is known of a column over the whole table.
pub(super) fn statistics(sources: &[Arc<Source>], field: &Field) -> Result<ColumnStatistics> {
    let mut found = ColumnStatistics::new_unknown();
    let (mut nulls, mut distinct, mut whole, mut bounded) = (0, 0, true, true);
    let (mut least, mut most): (Option<ScalarValue>, Option<ScalarValue>) = (None, None);
    for source in sources {
        whole &= source.is_whole();
        let opened = source.open().map_err(external)?;
        let Some(place) = opened.place(field) else {
            nulls += source.rows;
            continue;
        };
        let Some(bounds) = column_bounds(opened, field, place)? else { return Ok(found) };
        whole &= bounds.exact;
        bounded &= bounds.bounded;
        nulls += usize::try_from(bounds.nulls).unwrap_or(usize::MAX);
        if opened.is_dictionary(place) {
            distinct = distinct.max(opened.segment.dictionary(place).map_err(external)?.values.len());
        }
        if bounds.least.is_null() || bounds.most.is_null() {
            continue;
        }
        if least.as_ref().is_none_or(|least| bounds.least < *least) {
            least = Some(bounds.least.clone());
        }
        if most.as_ref().is_none_or(|most| bounds.most > *most) {
            most = Some(bounds.most.clone());
        }
    }
    let precision = |value: Option<ScalarValue>| match value {
        Some(value) if bounded && whole => Precision::Exact(value),
        Some(value) if bounded => Precision::Inexact(value),
        _ => Precision::Absent,
    };
    found.min_value = precision(least);
    found.max_value = precision(most);
    let only_live = sources.iter().all(|source| source.is_whole());
    found.null_count = if only_live { Precision::Exact(nulls) } else { Precision::Inexact(nulls) };
    if distinct > 0 {
        found.distinct_count = Precision::Inexact(distinct);
    }
    Ok(found)
}
