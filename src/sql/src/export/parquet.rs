//! Parquet, compressed with Zstandard (Apache Parquet format, 2.x).
//!
//! Written by hand, because a result needs little of the format (what is nested, and what others have written, is a matter of the
//! crate `parquet` in `sinks`): columns side by side, each optional, plain pages, row
//! groups of a bounded size. Types keep what they mean: times are UTC instants, decimals exact; what Parquet has no type
//! for is text as in result pages, lists and objects are JSON.

use std::io::Write;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, UInt64Type,
};
use serde_json::Value;

use super::thrift::{Struct, varint};
use super::{Batches, ExportError, Target};
use crate::spool::json;

const MAGIC: &[u8] = b"PAR1";
/// Bytes of values of a page, before compression.
const PAGE_BYTES: usize = 1 << 20;
/// A row group is whole at so many rows, or at so many bytes, which are held in memory until then.
const ROW_GROUP_ROWS: u64 = 262_144;
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Zstandard's own default.
const LEVEL: i32 = 3;
/// Numbers of the format: parquet.thrift.
const ZSTD: i32 = 6;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DATA_PAGE: i32 = 0;
const OPTIONAL: i32 = 1;

pub(super) fn file(mut batches: Batches<'_>, target: &mut Target) -> Result<(), ExportError> {
    let schema = batches.schema();
    let mut columns: Vec<Column> = schema.fields().iter().map(|field| Column::new(field)).collect();
    target.write_all(MAGIC)?;
    let mut file = File { target, at: MAGIC.len() as u64, groups: Vec::new(), rows: 0 };
    let mut rows = 0_u64;
    while let Some(batch) = batches.next()? {
        for (column, values) in columns.iter_mut().zip(batch.columns()) {
            column.add(values)?;
        }
        rows += batch.num_rows() as u64;
        let bytes: usize = columns.iter().map(|column| column.pages.len() + column.values.len()).sum();
        if rows >= ROW_GROUP_ROWS || bytes >= ROW_GROUP_BYTES {
            file.group(&mut columns, rows)?;
            rows = 0;
        }
    }
    if rows > 0 {
        file.group(&mut columns, rows)?;
    }
    file.end(&columns)
}

/// The file so far.
struct File<'a> {
    target: &'a mut Target,
    at: u64,
    groups: Vec<Struct>,
    rows: u64,
}

impl File<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        self.target.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes what the columns hold as one row group.
    fn group(&mut self, columns: &mut [Column], rows: u64) -> Result<(), ExportError> {
        let mut chunks = Vec::with_capacity(columns.len());
        let mut total = 0;
        for column in columns {
            column.page()?;
            let begin = self.at as i64;
            let pages = std::mem::take(&mut column.pages);
            let plain_bytes = std::mem::take(&mut column.plain_bytes);
            self.put(&pages)?;
            total += plain_bytes;
            let about = Struct::new()
                .i32(1, column.kind.physical())
                .i32s(2, &[PLAIN, RLE])
                .texts(3, &[&column.name])
                .i32(4, ZSTD)
                .i64(5, rows as i64)
                .i64(6, plain_bytes as i64)
                .i64(7, pages.len() as i64)
                .i64(9, begin);
            chunks.push(Struct::new().i64(2, begin).inner(3, about));
        }
        self.groups.push(Struct::new().structs(1, chunks).i64(2, total as i64).i64(3, rows as i64));
        self.rows += rows;
        Ok(())
    }

    /// Writes the footer, by which a reader finds everything.
    fn end(mut self, columns: &[Column]) -> Result<(), ExportError> {
        let root = Struct::new().text(4, "result").i32(5, columns.len() as i32);
        let schema = std::iter::once(root).chain(columns.iter().map(Column::schema)).collect();
        let footer = Struct::new()
            .i32(1, 1)
            .structs(2, schema)
            .i64(3, self.rows as i64)
            .structs(4, std::mem::take(&mut self.groups))
            .text(6, concat!("gleaner version ", env!("CARGO_PKG_VERSION")))
            .end();
        let length = u32::try_from(footer.len()).map_err(std::io::Error::other)?;
        self.put(&footer)?;
        self.put(&length.to_le_bytes())?;
        self.put(MAGIC)
    }
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    /// 32 bits, of which the values may need fewer.
    Int32,
    Int64,
    UInt64,
    Float,
    Double,
    Text,
    Json,
    Bytes,
    Date,
    /// Of a day, in microseconds.
    Time,
    Millis,
    Micros,
    Decimal(u8, i8),
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Boolean => Kind::Bool,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
                Kind::Int32
            }
            DataType::Int64 | DataType::UInt32 => Kind::Int64,
            DataType::UInt64 => Kind::UInt64,
            DataType::Float32 => Kind::Float,
            DataType::Float16 | DataType::Float64 => Kind::Double,
            DataType::Binary | DataType::LargeBinary => Kind::Bytes,
            DataType::Date32 => Kind::Date,
            DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
            DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _) => Kind::Millis,
            DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => Kind::Micros,
            DataType::Decimal128(digits, scale @ 0..) if i8::try_from(*digits).is_ok_and(|d| *scale <= d) => {
                Kind::Decimal(*digits, *scale)
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Kind::Json,
            DataType::Struct(_) | DataType::Map(..) => Kind::Json,
            _ => Kind::Text,
        }
    }

    /// The Arrow type from which the values are read; none when they are read as text.
    fn read_as(self) -> Option<DataType> {
        Some(match self {
            Kind::Bool => DataType::Boolean,
            Kind::Int32 => DataType::Int32,
            Kind::Int64 => DataType::Int64,
            Kind::UInt64 => DataType::UInt64,
            Kind::Float => DataType::Float32,
            Kind::Double => DataType::Float64,
            Kind::Bytes => DataType::Binary,
            Kind::Date => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Microsecond),
            Kind::Millis => DataType::Timestamp(TimeUnit::Millisecond, None),
            Kind::Micros => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Decimal(digits, scale) => DataType::Decimal128(digits, scale),
            Kind::Text | Kind::Json => return None,
        })
    }

    /// BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY or FIXED_LEN_BYTE_ARRAY.
    fn physical(self) -> i32 {
        match self {
            Kind::Bool => 0,
            Kind::Int32 | Kind::Date => 1,
            Kind::Int64 | Kind::UInt64 | Kind::Time | Kind::Millis | Kind::Micros => 2,
            Kind::Float => 4,
            Kind::Double => 5,
            Kind::Text | Kind::Json | Kind::Bytes => 6,
            Kind::Decimal(..) => 7,
        }
    }

    /// What the values mean: the old number (ConvertedType) and the new union (LogicalType), which readers know one of.
    fn meaning(self) -> Option<(i32, Struct)> {
        let plain = |number| Struct::new().inner(number, Struct::new());
        // TIME (7) of no zone, or TIMESTAMP (8) in UTC, by the unit's number.
        let clock = |number, is_utc, unit| {
            let unit = Struct::new().inner(unit, Struct::new());
            Struct::new().inner(number, Struct::new().bool(1, is_utc).inner(2, unit))
        };
        Some(match self {
            Kind::Text => (0, plain(1)),
            Kind::Json => (19, plain(12)),
            Kind::Date => (6, plain(6)),
            Kind::Time => (8, clock(7, false, 2)),
            Kind::Millis => (9, clock(8, true, 1)),
            Kind::Micros => (10, clock(8, true, 2)),
            Kind::UInt64 => (14, Struct::new().inner(10, Struct::new().byte(1, 64).bool(2, false))),
            Kind::Decimal(digits, scale) => {
                let about = Struct::new().i32(1, scale.into()).i32(2, digits.into());
                (5, Struct::new().inner(5, about))
            }
            Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Float | Kind::Double | Kind::Bytes => return None,
        })
    }
}

/// One column of the row group that is being gathered.
struct Column {
    name: String,
    kind: Kind,
    /// Whether each row of the page has a value.
    present: Vec<bool>,
    /// The values of the page.
    values: Vec<u8>,
    /// Of a page of truth values, which share bytes.
    bits: Vec<bool>,
    /// The row group's pages.
    pages: Vec<u8>,
    /// Their bytes before compression.
    plain_bytes: usize,
}

impl Column {
    fn new(field: &Field) -> Column {
        Column {
            name: field.name().clone(),
            kind: Kind::of(field.data_type()),
            present: Vec::new(),
            values: Vec::new(),
            bits: Vec::new(),
            pages: Vec::new(),
            plain_bytes: 0,
        }
    }

    fn schema(&self) -> Struct {
        let mut element = Struct::new().i32(1, self.kind.physical());
        if let Kind::Decimal(..) = self.kind {
            element = element.i32(2, size_of::<i128>() as i32);
        }
        element = element.i32(3, OPTIONAL).text(4, &self.name);
        let Some((converted, logical)) = self.kind.meaning() else { return element };
        element = element.i32(6, converted);
        if let Kind::Decimal(digits, scale) = self.kind {
            element = element.i32(7, scale.into()).i32(8, digits.into());
        }
        element.inner(10, logical)
    }

    fn add(&mut self, values: &ArrayRef) -> Result<(), ExportError> {
        let values = match self.kind.read_as() {
            Some(data_type) if data_type != *values.data_type() => {
                &cast(values, &data_type).map_err(std::io::Error::other)?
            }
            _ => values,
        };
        for row in 0..values.len() {
            self.present.push(!values.is_null(row));
            if !values.is_null(row) {
                self.value(values.as_ref(), row);
            }
            if self.values.len() >= PAGE_BYTES {
                self.page()?;
            }
        }
        Ok(())
    }

    fn value(&mut self, values: &dyn Array, row: usize) {
        let out = &mut self.values;
        match self.kind {
            Kind::Bool => self.bits.push(values.as_boolean().value(row)),
            Kind::Int32 => out.extend(values.as_primitive::<Int32Type>().value(row).to_le_bytes()),
            Kind::Int64 => out.extend(values.as_primitive::<Int64Type>().value(row).to_le_bytes()),
            Kind::UInt64 => out.extend(values.as_primitive::<UInt64Type>().value(row).to_le_bytes()),
            Kind::Float => out.extend(values.as_primitive::<Float32Type>().value(row).to_le_bytes()),
            Kind::Double => out.extend(values.as_primitive::<Float64Type>().value(row).to_le_bytes()),
            Kind::Date => out.extend(values.as_primitive::<Date32Type>().value(row).to_le_bytes()),
            Kind::Time => out.extend(values.as_primitive::<Time64MicrosecondType>().value(row).to_le_bytes()),
            Kind::Millis => {
                out.extend(values.as_primitive::<TimestampMillisecondType>().value(row).to_le_bytes());
            }
            Kind::Micros => {
                out.extend(values.as_primitive::<TimestampMicrosecondType>().value(row).to_le_bytes());
            }
            Kind::Decimal(..) => out.extend(values.as_primitive::<Decimal128Type>().value(row).to_be_bytes()),
            Kind::Bytes => byte_array(out, values.as_binary::<i32>().value(row)),
            Kind::Text if *values.data_type() == DataType::Utf8 => {
                byte_array(out, values.as_string::<i32>().value(row).as_bytes());
            }
            Kind::Text => match json::value(values, row) {
                Value::String(text) => byte_array(out, text.as_bytes()),
                other => byte_array(out, other.to_string().as_bytes()),
            },
            Kind::Json => byte_array(out, json::value(values, row).to_string().as_bytes()),
        }
    }

    /// Ends the page, if there is anything in it.
    fn page(&mut self) -> Result<(), ExportError> {
        if self.present.is_empty() {
            return Ok(());
        }
        let mut levels = Vec::new();
        if self.present.contains(&false) {
            packed(&mut levels, &self.present, true);
        } else {
            // One run of ones.
            varint(&mut levels, (self.present.len() as u64) << 1);
            levels.push(1);
        }
        let mut body = Vec::with_capacity(4 + levels.len() + self.values.len());
        body.extend((levels.len() as u32).to_le_bytes());
        body.append(&mut levels);
        packed(&mut body, &self.bits, false);
        body.append(&mut self.values);
        let compressed = zstd::bulk::compress(&body, LEVEL)?;
        let too_long =
            |_| ExportError::Unsupported("A value is too long for Parquet. Export it as csv.".to_owned());
        let about = Struct::new().i32(1, self.present.len() as i32).i32(2, PLAIN).i32(3, RLE).i32(4, RLE);
        let header = Struct::new()
            .i32(1, DATA_PAGE)
            .i32(2, i32::try_from(body.len()).map_err(too_long)?)
            .i32(3, i32::try_from(compressed.len()).map_err(too_long)?)
            .inner(5, about)
            .end();
        self.plain_bytes += header.len() + body.len();
        self.pages.extend(header);
        self.pages.extend(compressed);
        self.present.clear();
        self.bits.clear();
        Ok(())
    }
}

/// A text or bytes with the length in front.
fn byte_array(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Bits, eight a byte, the low ones first; as one run of the hybrid encoding with its header in front, or bare.
fn packed(out: &mut Vec<u8>, bits: &[bool], as_run: bool) {
    if as_run {
        varint(out, (bits.len().div_ceil(8) as u64) << 1 | 1);
    }
    for eight in bits.chunks(8) {
        out.push(eight.iter().enumerate().fold(0, |byte, (at, bit)| byte | u8::from(*bit) << at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Time32SecondArray, Time64NanosecondArray};
    use std::sync::Arc;

    #[test]
    fn a_time_of_day_is_one() {
        let nanos: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![Some(3_723_000_004_000), None]));
        let seconds: ArrayRef = Arc::new(Time32SecondArray::from(vec![Some(86_399), Some(0)]));
        for (values, expected) in [(nanos, vec![3_723_000_004_i64]), (seconds, vec![86_399_000_000, 0])] {
            let mut column = Column::new(&Field::new("t", values.data_type().clone(), true));
            column.add(&values).unwrap();
            let read = column.values.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()));
            assert_eq!((column.kind, read.collect::<Vec<_>>()), (Kind::Time, expected));
            assert_eq!(column.kind.physical(), 2, "INT64");
            assert_eq!(column.kind.meaning().unwrap().0, 8, "TIME_MICROS");
        }
    }
}
