//! Writing segments.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, Int32Array, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::arrow::ipc::writer::FileWriter;

use super::zones::ZoneMapWriter;
use super::{
    BATCH_ROWS_METADATA, KEY_BYTES, KEY_COLUMN, Key, Segment, SegmentError, ZONES_METADATA, dictionary_type,
};
use crate::mapped;

/// What a finished segment is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
    pub(crate) min_key: Key,
    pub(crate) max_key: Key,
}

/// Writes a segment; the caller gives batches in key order.
pub(crate) struct SegmentWriter {
    writer: FileWriter<BufWriter<File>>,
    path: PathBuf,
    schema: SchemaRef,
    /// Of each column its dictionary, if it is dictionary-encoded.
    dictionaries: Vec<Option<ArrayRef>>,
    zones: ZoneMapWriter,
    batch_rows: Vec<usize>,
    min_key: Option<Key>,
    max_key: Option<Key>,
}

impl SegmentWriter {
    /// Creates the file, which must not exist. `schema` begins with the key; a column that has a sorted dictionary is
    /// stored as codes, whatever the schema says.
    pub(crate) fn create(
        path: &Path,
        schema: &Schema,
        dictionaries: Vec<Option<ArrayRef>>,
    ) -> Result<Self, SegmentError> {
        let mut dictionaries = dictionaries;
        dictionaries.resize(schema.fields().len(), None);
        let field = |(field, dictionary): (&Arc<Field>, &Option<ArrayRef>)| match dictionary {
            Some(_) => Arc::new(field.as_ref().clone().with_data_type(dictionary_type())),
            None => Arc::clone(field),
        };
        let fields: Vec<Arc<Field>> = schema.fields().iter().zip(&dictionaries).map(field).collect();
        let schema = Arc::new(Schema::new(fields));
        let file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
        let writer = FileWriter::try_new(file, &schema)?;
        let zones = ZoneMapWriter::new(schema.fields().len());
        let path = path.to_owned();
        Ok(Self {
            writer,
            path,
            schema,
            dictionaries,
            zones,
            batch_rows: Vec::new(),
            min_key: None,
            max_key: None,
        })
    }

    /// Appends a batch: the columns in the schema's order, dictionary-encoded ones as their codes. The first is the key, sorted, and
    /// not before the keys already written.
    pub(crate) fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), SegmentError> {
        let keys = columns.first().and_then(|keys| keys.as_any().downcast_ref::<FixedSizeBinaryArray>());
        let keys = keys.ok_or(SegmentError::Damaged("the key has another type"))?;
        let rows = keys.len();
        if rows == 0 {
            return Ok(());
        }
        self.min_key = self.min_key.or_else(|| keys.value(0).try_into().ok());
        self.max_key = keys.value(rows - 1).try_into().ok();
        self.batch_rows.push(rows);
        self.zones.push(&columns);
        let mut stored = Vec::with_capacity(columns.len());
        for (column, dictionary) in columns.into_iter().zip(&self.dictionaries) {
            stored.push(match dictionary {
                None => column,
                Some(values) => {
                    let codes = column.as_any().downcast_ref::<Int32Array>();
                    let codes = codes.ok_or(SegmentError::Damaged("a coded column has no codes"))?.clone();
                    Arc::new(DictionaryArray::<Int32Type>::try_new(codes, Arc::clone(values))?)
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), stored, &options)?;
        Ok(self.writer.write(&batch)?)
    }

    /// Writes the footer and makes the file durable; `None` when no row was written.
    pub(crate) fn finish(mut self) -> Result<Option<Written>, SegmentError> {
        let batch_rows = serde_json::to_string(&self.batch_rows).map_err(io::Error::other)?;
        self.writer.write_metadata(BATCH_ROWS_METADATA, batch_rows);
        self.writer.write_metadata(ZONES_METADATA, self.zones.finish());
        self.writer.finish()?;
        let mut file = self.writer.into_inner()?;
        file.flush()?;
        // What is mapped does not change: the checksums go behind it.
        let tail = Segment::parse(mapped::map(&self.path)?)?.tail()?;
        file.write_all(&tail)?;
        file.flush()?;
        let file = file.get_ref();
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        let rows = self.batch_rows.iter().sum();
        Ok(self.min_key.zip(self.max_key).map(|(min_key, max_key)| Written { rows, bytes, min_key, max_key }))
    }
}

/// A segment's schema: the hidden key, then the given fields.
pub(crate) fn with_key(fields: impl IntoIterator<Item = Field>) -> SchemaRef {
    let key = Field::new(KEY_COLUMN, DataType::FixedSizeBinary(KEY_BYTES as i32), false);
    Arc::new(Schema::new(std::iter::once(key).chain(fields).collect::<Vec<_>>()))
}
