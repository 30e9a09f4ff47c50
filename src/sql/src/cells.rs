//! Values on their way into a segment, and the columns built from them.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};

use super::catalog::{ColumnKind, ColumnSpec};

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer; a `Float64` column takes it too.
    Int(i64),
    /// A double.
    Float(f64),
    /// Text, or JSON in its text form.
    Text(Box<str>),
    /// Milliseconds since 1970, UTC.
    Time(i64),
}

impl Cell {
    /// Whether a column of `kind` can hold this value.
    pub fn fits(&self, kind: ColumnKind) -> bool {
        matches!(
            (self, kind),
            (Self::Null, _)
                | (Self::Bool(_), ColumnKind::Bool)
                | (Self::Int(_), ColumnKind::Int64 | ColumnKind::Float64)
                | (Self::Float(_), ColumnKind::Float64)
                | (Self::Text(_), ColumnKind::Text | ColumnKind::Json)
                | (Self::Time(_), ColumnKind::Timestamp)
        )
    }

    /// Bytes of text this value adds to a batch.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            _ => 0,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text.into_boxed_str())
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Builds one column from `cells`; a value that does not fit its column becomes NULL (callers check `fits` before).
pub(super) fn column<'a>(spec: &ColumnSpec, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    match spec.kind {
        ColumnKind::Text | ColumnKind::Json => {
            let mut builder = StringBuilder::new();
            for cell in cells {
                builder.append_option(if let Cell::Text(text) = cell { Some(text) } else { None });
            }
            Arc::new(builder.finish())
        }
        ColumnKind::Int64 => {
            let mut builder = Int64Builder::new();
            for cell in cells {
                builder.append_option(if let Cell::Int(value) = cell { Some(*value) } else { None });
            }
            Arc::new(builder.finish())
        }
        ColumnKind::Float64 => {
            let mut builder = Float64Builder::new();
            for cell in cells {
                builder.append_option(match cell {
                    // One kind of zero and one NaN, so that equal ones are grouped and joined.
                    Cell::Float(value) if value.is_nan() => Some(f64::NAN),
                    Cell::Float(value) => Some(*value + 0.0),
                    Cell::Int(value) => Some(*value as f64),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        ColumnKind::Bool => {
            let mut builder = BooleanBuilder::new();
            for cell in cells {
                builder.append_option(if let Cell::Bool(value) = cell { Some(*value) } else { None });
            }
            Arc::new(builder.finish())
        }
        ColumnKind::Timestamp => {
            let mut builder = TimestampMillisecondBuilder::new();
            for cell in cells {
                builder.append_option(if let Cell::Time(value) = cell { Some(*value) } else { None });
            }
            Arc::new(builder.finish())
        }
    }
}
