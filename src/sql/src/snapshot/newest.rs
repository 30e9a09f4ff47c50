//! Tables that hold the newest row of another: `latest_readings` beside `readings`.
//!
//! Which row of a URL is its newest is asked all the time, and costs a pass over all rows each time it is asked. Here it
//! is kept: the derived table has one row a value of the `by` column, under a key made of that value, and each change
//! of the source table brings along what it changes there. A new row is compared with the one that is kept. Only when
//! the kept row itself goes, or becomes older, its successor is looked for in the source table, in one pass for all
//! such values of a change.
//!
//! Of two rows of one time the one with the larger key counts, as far as both are seen at once; NULL is no time, and a
//! row without a value of `by` is nobody's newest.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMillisecondArray,
};
use ring::digest::{SHA256, digest};

use super::change::TableChange;
use super::coding::is_set;
use super::manifest::{SegmentEntry, Snapshot};
use super::{SnapshotError, merge};
use crate::catalog::{NewestOf, TableSpec};
use crate::cells::Cell;
use crate::segment::{KEY_BYTES, Key, Segment, SegmentError, is_dictionary};

/// A row that may be the newest: its time, its key, and itself.
type Candidate<'a> = (i64, Key, &'a [Cell]);

/// What the derived tables need in addition to `changes`.
pub(super) fn derive(old: &Snapshot, changes: &[TableChange]) -> Result<Vec<TableChange>, SnapshotError> {
    let mut sources: BTreeMap<&str, (&Arc<TableSpec>, BTreeMap<Key, &TableChange>)> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.table.newest.is_some()) {
        let (table, changed) =
            sources.entry(change.table.name.as_str()).or_insert_with(|| (&change.table, BTreeMap::new()));
        // A change that brings nothing may be of a narrower table than one that does.
        if table.catalog_version < change.table.catalog_version {
            *table = &change.table;
        }
        changed.insert(change.key, change);
    }
    let mut derived = Vec::new();
    for (table, changed) in sources.into_values() {
        if let (Some(newest), Some(kept)) = (&table.newest, table.newest_table()) {
            derived.extend(NewestDerivation::new(old, table, newest, Arc::new(kept))?.changes(&changed)?);
        }
    }
    Ok(derived)
}

struct NewestDerivation<'a> {
    source: &'a [SegmentEntry],
    kept: &'a [SegmentEntry],
    /// Which rows of each of those are deleted, read when it is first asked.
    kept_deleted: Vec<OnceCell<Vec<u8>>>,
    table: &'a Arc<TableSpec>,
    kept_table: Arc<TableSpec>,
    newest: &'a NewestOf,
    /// Where `by` and `at` stand in a row.
    by: usize,
    at: usize,
}

impl<'a> NewestDerivation<'a> {
    fn new(
        old: &'a Snapshot,
        table: &'a Arc<TableSpec>,
        newest: &'a NewestOf,
        kept_table: Arc<TableSpec>,
    ) -> Result<Self, SnapshotError> {
        let place = |name: &str| {
            let missing = || SnapshotError::Shape { table: table.name.to_string(), column: name.to_owned() };
            table.columns.iter().position(|column| column.name == name).ok_or_else(missing)
        };
        let entries = |name: &str| old.tables.get(name).map_or(&[][..], Vec::as_slice);
        let kept = entries(newest.table.as_str());
        Ok(Self {
            source: entries(table.name.as_str()),
            kept,
            kept_deleted: kept.iter().map(|_| OnceCell::new()).collect(),
            table,
            newest,
            by: place(&newest.by)?,
            at: place(&newest.at)?,
            kept_table,
        })
    }

    fn changes(&self, changed: &BTreeMap<Key, &TableChange>) -> Result<Vec<TableChange>, SnapshotError> {
        let mut candidates: BTreeMap<&str, Candidate<'_>> = BTreeMap::new();
        for change in changed.values() {
            for row in &change.rows {
                let (Some(Cell::Text(by)), Some(Cell::Time(at))) = (row.get(self.by), row.get(self.at))
                else {
                    continue;
                };
                let candidate = (*at, change.key, row.as_slice());
                let best = candidates.entry(by).or_insert(candidate);
                if (candidate.0, candidate.1) >= (best.0, best.1) {
                    *best = candidate;
                }
            }
        }
        let going = self.going(changed)?;
        let mut result = Vec::new();
        let mut orphans: BTreeSet<&str> = BTreeSet::new();
        let values: BTreeSet<&str> =
            candidates.keys().copied().chain(going.keys().map(String::as_str)).collect();
        for by in values {
            let candidate = candidates.get(by).copied();
            let kept = self.kept_time(by)?;
            let best = candidate.filter(|(at, ..)| kept.is_none_or(|kept| *at >= kept));
            if let Some((.., row)) = best {
                result.push(self.put(by, row.to_vec()));
            } else if kept.is_some() && going.get(by).is_some_and(|times| times.contains(&kept)) {
                // What goes may be the very row that is kept, and nothing as new comes.
                orphans.insert(by);
            }
        }
        result.extend(self.successors(&orphans, &candidates, changed)?);
        Ok(result)
    }

    /// The row of a value; of a narrower table it lacks the columns that came last.
    fn put(&self, by: &str, mut row: Vec<Cell>) -> TableChange {
        row.resize(self.kept_table.columns.len().max(row.len()), Cell::Null);
        TableChange { table: Arc::clone(&self.kept_table), key: key_of(by), rows: vec![row] }
    }

    /// Of the rows that the changes replace or remove, their values of `by` with their times.
    fn going(
        &self,
        changed: &BTreeMap<Key, &TableChange>,
    ) -> Result<HashMap<String, HashSet<Option<i64>>>, SegmentError> {
        let mut going: HashMap<String, HashSet<Option<i64>>> = HashMap::new();
        for entry in self.source {
            let mut columns = None;
            for key in changed.range(entry.min_key..=entry.max_key).map(|(key, _)| key) {
                let segment = entry.open()?;
                let found = segment.find(key, 0)?;
                if found.is_empty() {
                    continue;
                }
                let Some((by, at)) = *columns.get_or_insert_with(|| self.places(segment)) else { break };
                let deleted = entry.deleted_bits()?;
                for row in found.filter(|row| !is_set(&deleted, *row)) {
                    if let Cell::Text(value) = cell(segment, by, row)? {
                        let time = time_of(&cell(segment, at, row)?);
                        going.entry(value.into()).or_default().insert(time);
                    }
                }
            }
        }
        Ok(going)
    }

    /// Where `by` and `at` stand in a segment of the source or of the derived table.
    fn places(&self, segment: &Segment) -> Option<(usize, usize)> {
        let place = |name: &str| segment.schema().index_of(name).ok();
        place(&self.newest.by).zip(place(&self.newest.at))
    }

    /// The time of the row that is kept for a value.
    fn kept_time(&self, by: &str) -> Result<Option<i64>, SegmentError> {
        let key = key_of(by);
        for (entry, bits) in self.kept.iter().zip(&self.kept_deleted) {
            if !(entry.min_key..=entry.max_key).contains(&key) {
                continue;
            }
            let segment = entry.open()?;
            let found = segment.find(&key, 0)?;
            if found.is_empty() {
                continue;
            }
            let deleted = match bits.get() {
                Some(deleted) => deleted,
                None => {
                    let read = entry.deleted_bits()?;
                    bits.get_or_init(|| read)
                }
            };
            for row in found {
                if !is_set(deleted, row)
                    && let Some((_, at)) = self.places(segment)
                {
                    return Ok(time_of(&cell(segment, at, row)?));
                }
            }
        }
        Ok(None)
    }

    /// For each of `orphans` the newest row that is left, in the source table without `changed` and among what comes.
    fn successors(
        &self,
        orphans: &BTreeSet<&str>,
        candidates: &BTreeMap<&str, Candidate<'_>>,
        changed: &BTreeMap<Key, &TableChange>,
    ) -> Result<Vec<TableChange>, SegmentError> {
        if orphans.is_empty() {
            return Ok(Vec::new());
        }
        let mut best: HashMap<&str, (i64, Key, usize, usize)> = HashMap::new();
        for (index, entry) in self.source.iter().enumerate() {
            let segment = entry.open()?;
            let Some((by, at)) = self.places(segment) else { continue };
            let deleted = entry.deleted_bits()?;
            for batch in 0..segment.batches() {
                let (first, rows) = segment.batch_range(batch);
                let wanted = RowSelection::read(segment, batch, by, orphans)?;
                if wanted.is_none() {
                    continue;
                }
                let times = segment.read(batch, &[at])?.remove(0);
                let times = times.as_any().downcast_ref::<TimestampMillisecondArray>();
                let Some(times) = times else { continue };
                for row in 0..rows {
                    let Some(value) = wanted.value(row).filter(|_| !is_set(&deleted, first + row)) else {
                        continue;
                    };
                    let key = segment.key(first + row)?;
                    if times.is_null(row) || changed.contains_key(&key) {
                        continue;
                    }
                    let found = (times.value(row), key, index, first + row);
                    let best = best.entry(value).or_insert(found);
                    if (found.0, found.1) > (best.0, best.1) {
                        *best = found;
                    }
                }
            }
        }
        let mut result = Vec::new();
        for by in orphans {
            let coming = candidates.get(by).copied();
            result.push(match best.get(by).copied() {
                Some((at, key, ..)) if coming.is_some_and(|own| (own.0, own.1) > (at, key)) => {
                    self.put(by, coming.map(|(.., row)| row.to_vec()).unwrap_or_default())
                }
                Some((_, _, index, row)) => self.put(by, self.row(self.source[index].open()?, row)?),
                None => match coming {
                    Some((.., row)) => self.put(by, row.to_vec()),
                    None => {
                        TableChange { table: Arc::clone(&self.kept_table), key: key_of(by), rows: Vec::new() }
                    }
                },
            });
        }
        Ok(result)
    }

    /// A whole row of the source table.
    fn row(&self, segment: &Segment, row: usize) -> Result<Vec<Cell>, SegmentError> {
        let cell_of = |column: &crate::catalog::ColumnSpec| {
            let found = segment.schema().fields().find(&column.name);
            let found = found.filter(|(_, own)| merge::logical(own.data_type()) == column.kind.arrow_type());
            found.map_or(Ok(Cell::Null), |(index, _)| cell(segment, index, row))
        };
        self.table.columns.iter().map(cell_of).collect()
    }
}

/// The rows of a batch whose value is asked for.
enum RowSelection<'a> {
    None,
    Codes(Int32Array, HashMap<i32, &'a str>),
    Texts(StringArray, &'a BTreeSet<&'a str>),
}

impl<'a> RowSelection<'a> {
    fn read(
        segment: &Segment,
        batch: usize,
        column: usize,
        values: &'a BTreeSet<&'a str>,
    ) -> Result<Self, SegmentError> {
        let stored = segment.read(batch, &[column])?.remove(0);
        if is_dictionary(segment.schema().field(column).data_type()) {
            let dictionary = &segment.dictionary(column)?.values;
            let code = |value: &&'a str| Some((code_of(dictionary, value)?, *value));
            let codes: HashMap<i32, &'a str> = values.iter().filter_map(code).collect();
            let array = stored.as_any().downcast_ref::<Int32Array>().cloned();
            return Ok(match array {
                Some(array) if !codes.is_empty() => Self::Codes(array, codes),
                _ => Self::None,
            });
        }
        let array = stored.as_any().downcast_ref::<StringArray>().cloned();
        Ok(array.map_or(Self::None, |array| Self::Texts(array, values)))
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    fn value(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Codes(codes, values) if codes.is_valid(row) => values.get(&codes.value(row)).copied(),
            Self::Texts(texts, values) if texts.is_valid(row) => values.get(texts.value(row)).copied(),
            _ => None,
        }
    }
}

/// The code of a text in a sorted dictionary.
fn code_of(dictionary: &StringArray, text: &str) -> Option<i32> {
    let (mut low, mut high) = (0, dictionary.len());
    while low < high {
        let middle = low.midpoint(high);
        if dictionary.value(middle) < text { low = middle + 1 } else { high = middle }
    }
    let found = low < dictionary.len() && dictionary.value(low) == text;
    if found { i32::try_from(low).ok() } else { None }
}

fn key_of(value: &str) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&digest(&SHA256, value.as_bytes()).as_ref()[..KEY_BYTES]);
    key
}

fn time_of(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Time(time) => Some(*time),
        _ => None,
    }
}

/// One stored value.
fn cell(segment: &Segment, column: usize, row: usize) -> Result<Cell, SegmentError> {
    let batch = segment.batch_of(row);
    let row = row - segment.batch_range(batch).0;
    let stored = segment.read(batch, &[column])?.remove(0);
    if stored.is_null(row) {
        return Ok(Cell::Null);
    }
    let value = stored.slice(row, 1);
    let value: ArrayRef = if is_dictionary(segment.schema().field(column).data_type()) {
        segment.text(column, &value)?
    } else {
        value
    };
    let any = value.as_any();
    Ok(if let Some(texts) = any.downcast_ref::<StringArray>() {
        Cell::from(texts.value(0))
    } else if let Some(times) = any.downcast_ref::<TimestampMillisecondArray>() {
        Cell::Time(times.value(0))
    } else if let Some(numbers) = any.downcast_ref::<Int64Array>() {
        Cell::Int(numbers.value(0))
    } else if let Some(numbers) = any.downcast_ref::<Float64Array>() {
        Cell::Float(numbers.value(0))
    } else if let Some(truths) = any.downcast_ref::<BooleanArray>() {
        Cell::Bool(truths.value(0))
    } else {
        Cell::Null
    })
}
