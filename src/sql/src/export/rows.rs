//! Rows that are no result of a statement, as Arrow has them.

use super::ExportError;
use crate::catalog::{ColumnKind, ColumnSpec};
use crate::cells::{Cell, column};
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::io;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 1_000;

/// `in_micros`: times in microseconds, which is how tables of files have them (Delta knows no other).
pub(super) fn batches(
    columns: &[ColumnSpec],
    rows: &[Vec<Cell>],
    in_micros: bool,
) -> Result<(SchemaRef, Vec<RecordBatch>), ExportError> {
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let kind = |column: &ColumnSpec| match column.kind {
        ColumnKind::Timestamp if in_micros => micros.clone(),
        kind => kind.arrow_type(),
    };
    let fields: Vec<_> = columns.iter().map(|column| Field::new(&column.name, kind(column), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::with_capacity(rows.len().div_ceil(BATCH_ROWS));
    for some in rows.chunks(BATCH_ROWS) {
        let array = |(at, spec): (usize, &ColumnSpec)| -> Result<ArrayRef, ExportError> {
            let cells = some.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
            let array = column(spec, cells);
            match spec.kind {
                ColumnKind::Timestamp if in_micros => Ok(cast(&array, &micros).map_err(io::Error::other)?),
                _ => Ok(array),
            }
        };
        let arrays = columns.iter().enumerate().map(array).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(some.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options);
        batches.push(batch.map_err(io::Error::other)?);
    }
    Ok((schema, batches))
}
