//! What readers pass files over by: how many rows a file has, and between which values its columns lie.

use crate::Batch;
use serde_json::{Map, Value, json};
use sql::{Cell, ColumnKind};

/// Columns of which the least and the greatest value are said, and characters of those that are texts.
const STATISTICS: usize = 32;
const STATISTIC_CHARS: usize = 64;

/// What readers pass files over by.
pub(super) fn statistics(batch: &Batch) -> Value {
    let (mut least, mut greatest, mut missing) = (Map::new(), Map::new(), Map::new());
    for (at, column) in batch.columns.iter().enumerate().take(STATISTICS) {
        let cells = || batch.rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
        missing.insert(column.name.clone(), cells().filter(|cell| **cell == Cell::Null).count().into());
        if let Some((from, to)) = ends(column.kind, cells().filter(|cell| **cell != Cell::Null)) {
            least.insert(column.name.clone(), from);
            greatest.insert(column.name.clone(), to);
        }
    }
    json!({ "numRecords": batch.rows.len(), "minValues": least, "maxValues": greatest, "nullCount": missing })
}

/// The least and the greatest of some values, where they can be said.
fn ends<'c>(kind: ColumnKind, cells: impl Iterator<Item = &'c Cell>) -> Option<(Value, Value)> {
    match kind {
        ColumnKind::Int64 => {
            let mut values: Vec<_> =
                cells.filter_map(|cell| if let Cell::Int(n) = cell { Some(*n) } else { None }).collect();
            values.sort_unstable();
            Some(((*values.first()?).into(), (*values.last()?).into()))
        }
        ColumnKind::Timestamp => {
            let mut values: Vec<_> =
                cells.filter_map(|cell| if let Cell::Time(n) = cell { Some(*n) } else { None }).collect();
            values.sort_unstable();
            let shown =
                |ms: i64| jiff::Timestamp::from_millisecond(ms).ok().map(|at| format!("{at:.3}").into());
            Some((shown(*values.first()?)?, shown(*values.last()?)?))
        }
        ColumnKind::Float64 => {
            let number = |cell: &Cell| match cell {
                Cell::Float(n) => Some(*n),
                Cell::Int(n) => Some(*n as f64),
                _ => None,
            };
            let mut values: Vec<_> = cells.filter_map(number).collect();
            if values.iter().any(|value| !value.is_finite()) {
                return None;
            }
            values.sort_unstable_by(f64::total_cmp);
            Some(((*values.first()?).into(), (*values.last()?).into()))
        }
        ColumnKind::Text => {
            let mut values: Vec<_> = cells
                .filter_map(|cell| if let Cell::Text(text) = cell { Some(&**text) } else { None })
                .collect();
            if values.iter().any(|text| text.chars().count() > STATISTIC_CHARS) {
                return None;
            }
            values.sort_unstable();
            Some(((*values.first()?).into(), (*values.last()?).into()))
        }
        ColumnKind::Bool | ColumnKind::Json => None,
    }
}
