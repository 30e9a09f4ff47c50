//! Merging segments, so that a table has few of them and deleted rows do not pile up.
//!
//! Size-tiered: eight segments of one size class become one of the next, so that a row is rewritten about
//! log8(rows) times and a table of n rows has O(log n) segments. From `SEALED_ROWS_MIN` on a segment is left alone
//! until half of it is deleted. The merge is a k-way walk over sorted, mapped inputs that holds one batch of each
//! and one of the output, whatever the sizes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::{Field, SchemaRef};

use super::apply::{Names, finish};
use super::manifest::{SegmentEntry, Snapshot};
use crate::engine::sql::segment::{
    BATCH_ROWS_MAX, BATCH_TEXT_BYTES_MAX, KEY_COLUMN, Key, Segment, SegmentError, SegmentWriter, with_key,
};

/// Segments of one size class that make a merge due.
const MERGE_SEGMENTS: usize = 8;
/// Upper end of the smallest size class, in rows.
const TIER_ROWS_MIN: usize = 1024;
/// A segment of so many rows is merged no more.
const SEALED_ROWS_MIN: usize = 1_000_000;

fn tier(entry: &SegmentEntry) -> usize {
    let mut tier = 0;
    let mut rows = entry.live_rows();
    while rows > TIER_ROWS_MIN {
        rows /= MERGE_SEGMENTS;
        tier += 1;
    }
    tier
}

/// Merges what is due, again and again until nothing is.
pub(super) fn merge_due(names: &mut Names<'_>, entries: &mut Vec<SegmentEntry>) -> Result<(), SegmentError> {
    while let Some(due) = due(entries) {
        let mut inputs = Vec::with_capacity(due.len());
        for index in due.into_iter().rev() {
            inputs.push(entries.remove(index));
        }
        inputs.reverse();
        entries.extend(merge(names, &inputs)?);
    }
    Ok(())
}

/// Indexes, ascending, of segments to merge now.
fn due(entries: &[SegmentEntry]) -> Option<Vec<usize>> {
    let mut tiers: Vec<Vec<usize>> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        // A sealed segment, or any other, of which half is deleted is rewritten alone.
        if entry.rows > TIER_ROWS_MIN && entry.live_rows() < entry.rows / 2 {
            return Some(vec![index]);
        }
        if entry.live_rows() >= SEALED_ROWS_MIN {
            continue;
        }
        let tier = tier(entry);
        if tiers.len() <= tier {
            tiers.resize_with(tier + 1, Vec::new);
        }
        tiers[tier].push(index);
    }
    tiers.into_iter().find(|segments| segments.len() >= MERGE_SEGMENTS)
}

/// A snapshot without segments that hold deleted rows; `None` when there is none.
pub(super) fn compact(folder: &Path, old: &Snapshot) -> Result<Option<Snapshot>, SegmentError> {
    let mut new = old.clone();
    let mut names = Names::new(folder, old.next_file);
    for entries in new.tables.values_mut() {
        for index in
            (0..entries.len()).rev().filter(|&index| old_deletes(&entries[index])).collect::<Vec<_>>()
        {
            let input = entries.remove(index);
            entries.extend(merge(&mut names, std::slice::from_ref(&input))?);
        }
    }
    let changed = names.next != old.next_file;
    new.next_file = names.next;
    Ok(changed.then_some(new))
}

fn old_deletes(entry: &SegmentEntry) -> bool {
    entry.deletions.is_some()
}

/// A place in one input.
struct Cursor<'a> {
    segment: &'a Segment,
    deleted: Vec<u8>,
    /// For each output column the input's, if it has one of that type.
    columns: Vec<Option<usize>>,
    schema: SchemaRef,
    row: usize,
    batch: usize,
    rows: RecordBatch,
    /// The place of `rows` among the output's pending batches.
    pending: Option<usize>,
}

impl<'a> Cursor<'a> {
    fn new(entry: &'a SegmentEntry, schema: &SchemaRef) -> Result<Self, SegmentError> {
        let segment = entry.open()?;
        let column = |field: &Arc<Field>| {
            let found = segment.schema().fields().find(field.name());
            found.filter(|(_, own)| own.data_type() == field.data_type()).map(|(index, _)| index)
        };
        Ok(Self {
            segment,
            deleted: entry.deleted_bits()?,
            columns: schema.fields().iter().map(column).collect(),
            schema: Arc::clone(schema),
            row: 0,
            batch: usize::MAX,
            rows: RecordBatch::new_empty(Arc::clone(schema)),
            pending: None,
        })
    }

    /// Moves to the first live row at or after the current one and gives its key; `None` at the end.
    fn settle(&mut self) -> Result<Option<Key>, SegmentError> {
        while self.row < self.segment.rows() && self.deleted[self.row / 8] >> (self.row % 8) & 1 == 1 {
            self.row += 1;
        }
        if self.row >= self.segment.rows() { Ok(None) } else { self.segment.key(self.row).map(Some) }
    }

    /// The batch that holds the current row, and the row's index in it.
    fn locate(&mut self) -> Result<usize, SegmentError> {
        let (first, rows) = self.segment.batch_range(self.batch);
        if self.batch == usize::MAX || self.row >= first + rows {
            let mut batch = if self.batch == usize::MAX { 0 } else { self.batch + 1 };
            while self.row >= self.segment.batch_range(batch).0 + self.segment.batch_range(batch).1 {
                batch += 1;
            }
            let present: Vec<usize> = self.columns.iter().copied().flatten().collect();
            let mut read = self.segment.read(batch, &present)?.into_iter();
            let rows = self.segment.batch_range(batch).1;
            let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
            for (own, field) in self.columns.iter().zip(self.schema.fields()) {
                let found = own.and_then(|_| read.next());
                columns.push(found.unwrap_or_else(|| new_null_array(field.data_type(), rows)));
            }
            self.rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
            self.batch = batch;
            self.pending = None;
        }
        Ok(self.row - self.segment.batch_range(self.batch).0)
    }
}

/// The output of a merge, as far as it is not written yet.
struct Output {
    writer: SegmentWriter,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: Vec<(usize, usize)>,
    text_bytes: usize,
}

impl Output {
    fn push(&mut self, cursor: &mut Cursor<'_>) -> Result<(), SegmentError> {
        let row = cursor.locate()?;
        let pending = *cursor.pending.get_or_insert_with(|| {
            self.batches.push(cursor.rows.clone());
            self.batches.len() - 1
        });
        self.rows.push((pending, row));
        self.text_bytes += text_bytes(&cursor.rows, row);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS_MAX || self.text_bytes >= BATCH_TEXT_BYTES_MAX
    }

    fn flush(&mut self) -> Result<(), SegmentError> {
        if !self.rows.is_empty() {
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            let batch = interleave_record_batch(&batches, &self.rows)?;
            self.writer.write(&RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?)?;
        }
        self.batches.clear();
        self.rows.clear();
        self.text_bytes = 0;
        Ok(())
    }
}

fn text_bytes(batch: &RecordBatch, row: usize) -> usize {
    let texts = batch.columns().iter().filter_map(|column| column.as_any().downcast_ref::<StringArray>());
    texts.map(|text| usize::try_from(text.value_length(row)).unwrap_or(0)).sum()
}

/// Merges the live rows of the inputs (oldest first) into one segment; `None` when there are none.
fn merge(names: &mut Names<'_>, inputs: &[SegmentEntry]) -> Result<Option<SegmentEntry>, SegmentError> {
    let schema = union_schema(inputs)?;
    let file = names.file('s', "arrow");
    let mut output = Output {
        writer: SegmentWriter::create(&file.path, &schema)?,
        schema: Arc::clone(&schema),
        batches: Vec::new(),
        rows: Vec::new(),
        text_bytes: 0,
    };
    let mut cursors: Vec<Cursor<'_>> =
        inputs.iter().map(|entry| Cursor::new(entry, &schema)).collect::<Result<_, _>>()?;
    let mut heap = BinaryHeap::with_capacity(cursors.len());
    for (index, cursor) in cursors.iter_mut().enumerate() {
        heap.extend(cursor.settle()?.map(|key| Reverse((key, index))));
    }
    while let Some(Reverse((_, index))) = heap.pop() {
        output.push(&mut cursors[index])?;
        if output.is_full() {
            output.flush()?;
            cursors.iter_mut().for_each(|cursor| cursor.pending = None);
        }
        cursors[index].row += 1;
        heap.extend(cursors[index].settle()?.map(|key| Reverse((key, index))));
    }
    output.flush()?;
    finish(file, output.writer)
}

/// All columns of the inputs; where two disagree on a type the newer one counts, and the older values are lost.
fn union_schema(inputs: &[SegmentEntry]) -> Result<SchemaRef, SegmentError> {
    let mut fields: Vec<Field> = Vec::new();
    for entry in inputs.iter().rev() {
        for field in entry.open()?.schema().fields().iter().filter(|field| field.name() != KEY_COLUMN) {
            if !fields.iter().any(|known| known.name() == field.name()) {
                fields.push(field.as_ref().clone());
            }
        }
    }
    Ok(with_key(fields))
}
