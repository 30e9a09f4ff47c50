//! The segments of a table, opened when they are needed and kept while the worker lives.
//!
//! A worker serves one organization, statement after statement, over mostly the same segments. They never change, so
//! what was opened and decoded of one (its footer, zones, dictionaries) is good until the segment is gone.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, StringArray, StringViewArray, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use parking_lot::Mutex;

use crate::protocol::{DeletionsSource, SegmentSource, TableSource};
use crate::segment::{Segment, SegmentError, holds, is_dictionary};
use crate::snapshot::manifest::read_bits;

/// Text of a dictionary up to which its rows share it. A longer one is counted by every batch that shares it, so that a
/// sort of a thousand batches would seem to hold a thousand dictionaries.
const SHARED_TEXT_BYTES_MAX: usize = 32 << 10;

/// The part of a batch's rows below which their plain text is picked out one by one, and that of the others is not even
/// checked.
const PICKED_ONE_OF: usize = 2;

/// The segments that this process has open.
static SEGMENT_CACHE: LazyLock<Mutex<HashMap<PathBuf, CachedSegment>>> = LazyLock::new(Mutex::default);

/// An open segment with what was worked out of it.
#[derive(Clone, Debug)]
struct CachedSegment {
    segment: Arc<Segment>,
    bounds: Arc<Vec<OnceLock<ColumnBounds>>>,
}

/// What the zones of a segment's column say of all its rows. Every statement asks it of every column that it reads, and it
/// takes a look at each batch: 4 ms for all columns of ten million rows.
#[derive(Clone, Debug)]
pub(super) struct ColumnBounds {
    /// NULL where there is no value.
    pub(super) least: ScalarValue,
    pub(super) most: ScalarValue,
    /// No batch holds anything that the two do not bound.
    pub(super) bounded: bool,
    pub(super) nulls: u64,
    /// The two are values that occur.
    pub(super) exact: bool,
}

/// Forgets the segments that none of these tables has.
pub(crate) fn forget_others(tables: &[TableSource]) {
    let named: HashSet<&PathBuf> =
        tables.iter().flat_map(|table| &table.segments).map(|segment| &segment.path).collect();
    SEGMENT_CACHE.lock().retain(|path, _| named.contains(path));
}

/// One segment of a table, and which of its rows live.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    pub(super) rows: usize,
    pub(super) bytes: u64,
    deletions: Option<DeletionsSource>,
    opened: OnceLock<Opened>,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) segment: Arc<Segment>,
    /// By column.
    pub(super) bounds: Arc<Vec<OnceLock<ColumnBounds>>>,
    /// One bit a row: set where the row lives.
    live: Option<BooleanBuffer>,
}

impl Source {
    pub(super) fn new(segment: SegmentSource) -> Self {
        Self {
            path: segment.path,
            rows: segment.rows,
            bytes: segment.bytes,
            deletions: segment.deletions,
            opened: OnceLock::new(),
        }
    }

    pub(super) fn live_rows(&self) -> usize {
        self.rows - self.deletions.as_ref().map_or(0, |deletions| deletions.rows)
    }

    /// Whether every row lives, so that what the segment says of its values is true of the table.
    pub(super) fn is_whole(&self) -> bool {
        self.deletions.is_none()
    }

    pub(super) fn open(&self) -> Result<&Opened, SegmentError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let known = SEGMENT_CACHE.lock().get(&self.path).cloned();
        let CachedSegment { segment, bounds } = match known {
            Some(known) => known,
            None => {
                let segment = Arc::new(Segment::open(&self.path)?);
                let bounds = segment.schema().fields().iter().map(|_| OnceLock::new()).collect();
                let known = CachedSegment { segment, bounds: Arc::new(bounds) };
                SEGMENT_CACHE.lock().insert(self.path.clone(), known.clone());
                known
            }
        };
        let live = match &self.deletions {
            None => None,
            Some(DeletionsSource { path, offset, bytes, sum, .. }) => {
                let bits = read_bits(path, (*offset, *bytes, *sum), self.rows)?;
                let deleted = BooleanBuffer::new(bits, 0, self.rows);
                Some(!&deleted)
            }
        };
        if segment.rows() != self.rows {
            return Err(SegmentError::Damaged("it has another number of rows"));
        }
        Ok(self.opened.get_or_init(|| Opened { segment, bounds, live }))
    }
}

impl Opened {
    /// Where a column of the table stands in this segment, if it does.
    pub(super) fn place(&self, field: &Field) -> Option<usize> {
        let found = self.segment.schema().fields().find(field.name());
        found.filter(|(_, own)| holds(own.data_type(), field.data_type())).map(|(index, _)| index)
    }

    /// Whether the column at `place` is stored as codes.
    pub(super) fn is_dictionary(&self, place: usize) -> bool {
        is_dictionary(self.segment.schema().field(place).data_type())
    }

    /// The rows of a batch that live; none when all do.
    pub(super) fn live(&self, batch: usize) -> Option<BooleanBuffer> {
        let (first, rows) = self.segment.batch_range(batch);
        let live = self.live.as_ref()?.slice(first, rows);
        (live.count_set_bits() < rows).then_some(live)
    }

    /// The codes of a batch's dictionary-encoded column.
    pub(super) fn codes(&self, batch: usize, place: usize) -> Result<Int32Array, SegmentError> {
        let read = self.segment.read(batch, &[place])?.remove(0);
        let codes = read.as_any().downcast_ref::<Int32Array>().cloned();
        codes.ok_or(SegmentError::Damaged("a coded column has no codes"))
    }

    /// A column of a batch as the table shows it, of the selected rows only; one that the segment lacks, or has in
    /// another type, is NULL. With `shares_dictionaries` rows of text share their dictionary, however long it is.
    pub(super) fn column(
        &self,
        batch: usize,
        field: &Field,
        selected: Option<&BooleanArray>,
        shares_dictionaries: bool,
    ) -> Result<ArrayRef, SegmentError> {
        let Some(place) = self.place(field) else {
            let rows = selected.map_or(self.segment.batch_range(batch).1, BooleanArray::true_count);
            return Ok(new_null_array(field.data_type(), rows));
        };
        if let Some(selected) = selected
            && *self.segment.schema().field(place).data_type() == DataType::Utf8
            && selected.true_count() < selected.len() / PICKED_ONE_OF
        {
            return Ok(Arc::new(self.segment.texts(batch, place, selected)?));
        }
        let mut stored = self.segment.read(batch, &[place])?.remove(0);
        if let Some(selected) = selected {
            stored = filter(&stored, selected)?;
        }
        if self.is_dictionary(place) {
            let dictionary = self.segment.dictionary(place)?;
            let rows = take(&dictionary.views, &stored, None)?;
            let views = rows.as_any().downcast_ref::<StringViewArray>();
            return Ok(match views {
                Some(views)
                    if !shares_dictionaries && dictionary.values.values().len() > SHARED_TEXT_BYTES_MAX =>
                {
                    Arc::new(views.gc())
                }
                _ => rows,
            });
        }
        match stored.as_any().downcast_ref::<StringArray>() {
            Some(texts) => Ok(Arc::new(StringViewArray::from(texts))),
            None => Ok(stored),
        }
    }
}
