//! Merging segments, so that a table has few of them and deleted rows do not pile up.
//!
//! Size-tiered: eight segments of one size class become one of the next, so that a row is rewritten about
//! log8(rows) times and a table of n rows has O(log n) segments. From `SEALED_ROWS_MIN` on a segment is left alone
//! until half of it is deleted. The merge is a k-way walk over sorted, mapped inputs that holds one batch of each
//! and one of the output, and the dictionaries, whatever the sizes.
//!
//! It runs beside the feed and not in it: inputs are immutable, so a merge needs the organization's lock only to put
//! its output in their place. What was deleted in them meanwhile is marked in the output then, by key. If an input is
//! gone by then, the output is thrown away.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::coding::{self, Coded, Recode, is_set};
use super::files::{DeletionMarks, FileNames, finish};
use super::manifest::{SegmentEntry, Snapshot};
use crate::segment::{
    BATCH_ROWS_MAX, BATCH_TEXT_BYTES_MAX, KEY_COLUMN, Key, Segment, SegmentError, SegmentWriter,
    is_dictionary, with_key,
};

/// Segments of one size class that make a merge due.
const MERGE_SEGMENTS: usize = 8;
/// Segments of one size class from which the feed waits for the merge: it does it itself.
const OVERDUE_SEGMENTS: usize = 64;
/// Upper end of the smallest size class, in rows.
const TIER_ROWS_MIN: usize = 1024;
/// A segment of so many rows is merged no more.
const SEALED_ROWS_MIN: usize = 2_000_000;

fn tier(entry: &SegmentEntry) -> usize {
    let mut tier = 0;
    let mut rows = entry.live_rows();
    while rows > TIER_ROWS_MIN {
        rows /= MERGE_SEGMENTS;
        tier += 1;
    }
    tier
}

/// Merges where far too many segments have piled up, because nobody merges or merging cannot keep up.
pub(super) fn merge_overdue(
    names: &FileNames<'_>,
    entries: &mut Vec<SegmentEntry>,
) -> Result<(), SegmentError> {
    while let Some(due) = due(entries, OVERDUE_SEGMENTS) {
        let mut inputs = Vec::with_capacity(due.len());
        for index in due.into_iter().rev() {
            inputs.push(entries.remove(index));
        }
        inputs.reverse();
        entries.extend(merge(names, &inputs)?);
    }
    Ok(())
}

/// A merge that is due in a snapshot: the table and its inputs.
pub(super) fn next_due(snapshot: &Snapshot) -> Option<(String, Vec<SegmentEntry>)> {
    snapshot.tables.iter().find_map(|(table, entries)| {
        let due = due(entries, MERGE_SEGMENTS)?;
        Some((table.clone(), due.into_iter().map(|index| entries[index].clone()).collect()))
    })
}

/// The snapshot `old` with `merged` in the place of `inputs`; none when one of those is not there any more.
pub(super) fn put_in_place(
    names: &FileNames<'_>,
    old: &Snapshot,
    table: &str,
    inputs: &[SegmentEntry],
    merged: Option<SegmentEntry>,
) -> Result<Option<Snapshot>, SegmentError> {
    let mut new = old.clone();
    let Some(entries) = new.tables.get_mut(table) else { return Ok(None) };
    let mut gone: BTreeSet<Key> = BTreeSet::new();
    for input in inputs {
        let Some(index) = entries.iter().position(|entry| Arc::ptr_eq(&entry.file, &input.file)) else {
            return Ok(None);
        };
        let now = entries.remove(index);
        let (before, after) = (input.deleted_bits()?, now.deleted_bits()?);
        for row in (0..now.rows).filter(|row| is_set(&after, *row) && !is_set(&before, *row)) {
            gone.insert(now.open()?.key(row)?);
        }
    }
    let mut deleted = DeletionMarks::default();
    if let Some(merged) = merged {
        deleted.mark(std::slice::from_ref(&merged), &gone.into_iter().collect::<Vec<_>>())?;
        entries.push(merged);
    }
    deleted.store(names, &mut new)?;
    if let Some(entries) = new.tables.get_mut(table) {
        entries.retain(|entry| entry.live_rows() > 0);
    }
    Ok(Some(new))
}

/// Indexes, ascending, of segments to merge now.
fn due(entries: &[SegmentEntry], segments: usize) -> Option<Vec<usize>> {
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
    tiers.into_iter().find(|tier| tier.len() >= segments)
}

/// A snapshot without segments that hold deleted rows; `None` when there is none.
pub(super) fn compact(names: &FileNames<'_>, old: &Snapshot) -> Result<Option<Snapshot>, SegmentError> {
    let mut new = old.clone();
    let mut changed = false;
    for entries in new.tables.values_mut() {
        for index in
            (0..entries.len()).rev().filter(|&index| old_deletes(&entries[index])).collect::<Vec<_>>()
        {
            let input = entries.remove(index);
            entries.extend(merge(names, std::slice::from_ref(&input))?);
            changed = true;
        }
    }
    Ok(changed.then_some(new))
}

fn old_deletes(entry: &SegmentEntry) -> bool {
    entry.deletions.is_some()
}

/// One column of the output, as one input has it.
enum InputColumn<'a> {
    /// The input has no such column.
    Missing,
    /// Plain in both, or codes of the input that become text again.
    Plain(usize),
    /// Becomes codes.
    Coded(Option<usize>, Recode<'a>),
}

/// A place in one input.
struct Cursor<'a> {
    segment: &'a Segment,
    deleted: &'a [u8],
    columns: Vec<InputColumn<'a>>,
    /// The schema of `rows`: the output's, with codes where it is coded.
    schema: SchemaRef,
    row: usize,
    batch: usize,
    rows: RecordBatch,
    /// The place of `rows` among the output's pending batches.
    pending: Option<usize>,
}

impl<'a> Cursor<'a> {
    fn new(
        segment: &'a Segment,
        deleted: &'a [u8],
        columns: Vec<InputColumn<'a>>,
        schema: &SchemaRef,
    ) -> Self {
        Self {
            segment,
            deleted,
            columns,
            schema: Arc::clone(schema),
            row: 0,
            batch: usize::MAX,
            rows: RecordBatch::new_empty(Arc::clone(schema)),
            pending: None,
        }
    }

    /// Moves to the first live row at or after the current one and gives its key; `None` at the end.
    fn settle(&mut self) -> Result<Option<Key>, SegmentError> {
        while self.row < self.segment.rows() && is_set(self.deleted, self.row) {
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
            self.rows = self.read(batch)?;
            self.batch = batch;
            self.pending = None;
        }
        Ok(self.row - self.segment.batch_range(self.batch).0)
    }

    fn read(&self, batch: usize) -> Result<RecordBatch, SegmentError> {
        let rows = self.segment.batch_range(batch).1;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (source, field) in self.columns.iter().zip(self.schema.fields()) {
            let stored = |column: usize| self.segment.read(batch, &[column]).map(|mut read| read.remove(0));
            columns.push(match source {
                InputColumn::Missing => new_null_array(field.data_type(), rows),
                InputColumn::Plain(column)
                    if is_dictionary(self.segment.schema().field(*column).data_type()) =>
                {
                    self.segment.text(*column, &stored(*column)?)?
                }
                InputColumn::Plain(column) => stored(*column)?,
                InputColumn::Coded(column, recode) => {
                    let stored = column.map(stored).transpose()?;
                    recode.column(stored.as_ref(), rows)
                }
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// The output of a merge, as far as it is not written yet.
struct MergeOutput {
    writer: SegmentWriter,
    /// The columns that are plain text.
    text_columns: Vec<usize>,
    batches: Vec<RecordBatch>,
    rows: Vec<(usize, usize)>,
    text_bytes: usize,
}

impl MergeOutput {
    fn push(&mut self, cursor: &mut Cursor<'_>) -> Result<(), SegmentError> {
        let row = cursor.locate()?;
        let pending = *cursor.pending.get_or_insert_with(|| {
            self.batches.push(cursor.rows.clone());
            self.batches.len() - 1
        });
        self.rows.push((pending, row));
        for column in &self.text_columns {
            if let Some(text) = cursor.rows.column(*column).as_any().downcast_ref::<StringArray>() {
                self.text_bytes += usize::try_from(text.value_length(row)).unwrap_or(0);
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS_MAX || self.text_bytes >= BATCH_TEXT_BYTES_MAX
    }

    fn flush(&mut self) -> Result<(), SegmentError> {
        if !self.rows.is_empty() {
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            let batch = interleave_record_batch(&batches, &self.rows)?;
            self.writer.write(batch.columns().to_vec())?;
        }
        self.batches.clear();
        self.rows.clear();
        self.text_bytes = 0;
        Ok(())
    }
}

/// Merges the live rows of the inputs (oldest first) into one segment; `None` when there are none.
pub(super) fn merge(
    names: &FileNames<'_>,
    inputs: &[SegmentEntry],
) -> Result<Option<SegmentEntry>, SegmentError> {
    let schema = union_schema(inputs)?;
    let deleted: Vec<Vec<u8>> =
        inputs.iter().map(SegmentEntry::deleted_bits).collect::<Result<_, SegmentError>>()?;
    let texts = coding::texts(inputs, &schema)?;
    let mut coded: Vec<Option<Coded<'_>>> = Vec::with_capacity(texts.len());
    for (texts, field) in texts.iter().zip(schema.fields()) {
        coded.push(match texts {
            Some(texts) => Coded::build(inputs, &deleted, field.name(), texts)?,
            None => None,
        });
    }
    let working = working_schema(&schema, &coded);
    let file = names.file('s', "arrow");
    let dictionaries = coded.iter().map(|own| own.as_ref().map(|own| Arc::clone(&own.values))).collect();
    let is_text = |&index: &usize| *working.field(index).data_type() == DataType::Utf8;
    let mut output = MergeOutput {
        writer: SegmentWriter::create(&file.path, &schema, dictionaries)?,
        text_columns: (0..working.fields().len()).filter(is_text).collect(),
        batches: Vec::new(),
        rows: Vec::new(),
        text_bytes: 0,
    };
    let mut cursors = Vec::with_capacity(inputs.len());
    for (input, entry) in inputs.iter().enumerate() {
        let segment = entry.open()?;
        let source = |(index, field): (usize, &Arc<Field>)| {
            let found = segment.schema().fields().find(field.name());
            let found = found.filter(|(_, own)| logical(own.data_type()) == *field.data_type());
            match (&coded[index], found) {
                (Some(own), found) => {
                    let texts = texts[index].as_ref().and_then(|texts| texts[input].as_ref());
                    InputColumn::Coded(found.map(|(column, _)| column), own.recode(texts))
                }
                (None, Some((column, _))) => InputColumn::Plain(column),
                (None, None) => InputColumn::Missing,
            }
        };
        let columns = schema.fields().iter().enumerate().map(source).collect();
        cursors.push(Cursor::new(segment, &deleted[input], columns, &working));
    }
    walk(&mut cursors, &mut output)?;
    finish(file, output.writer)
}

/// Takes the rows of all inputs in the order of their keys.
fn walk(cursors: &mut [Cursor<'_>], output: &mut MergeOutput) -> Result<(), SegmentError> {
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
    output.flush()
}

/// The type of a column's values, however they are stored.
pub(super) fn logical(stored: &DataType) -> DataType {
    if is_dictionary(stored) { DataType::Utf8 } else { stored.clone() }
}

/// All columns of the inputs; where two disagree on a type the newer one counts, and the older values are lost.
fn union_schema(inputs: &[SegmentEntry]) -> Result<SchemaRef, SegmentError> {
    let mut fields: Vec<Field> = Vec::new();
    for entry in inputs.iter().rev() {
        for field in entry.open()?.schema().fields().iter().filter(|field| field.name() != KEY_COLUMN) {
            if !fields.iter().any(|known| known.name() == field.name()) {
                fields.push(field.as_ref().clone().with_data_type(logical(field.data_type())));
            }
        }
    }
    Ok(with_key(fields))
}

/// The schema of the rows on their way: codes where the output is coded.
fn working_schema(schema: &SchemaRef, coded: &[Option<Coded<'_>>]) -> SchemaRef {
    let field = |(field, coded): (&Arc<Field>, &Option<Coded<'_>>)| match coded {
        Some(_) => Arc::new(field.as_ref().clone().with_data_type(DataType::Int32)),
        None => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().zip(coded).map(field).collect::<Vec<_>>()))
}
