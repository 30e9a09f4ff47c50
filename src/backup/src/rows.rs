//! Rows of the store as objects.
//!
//! An object is a run of rows, compressed. Where one ends is decided by the keys and not by a count, so rows that came or went
//! change the objects around them, and all others are the same bytes as in the last backup.

use crate::object::{ObjectId, Reader, malformed, put_sized};
use base::Result;

/// Rows of one table, in the order in which they are to be put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsOf {
    pub table: String,
    pub rows: Vec<Row>,
}

/// Key and value; no value where the row is gone.
pub type Row = (Vec<u8>, Option<Vec<u8>>);

/// An object has at least so many bytes of rows, before they are compressed (but for the last).
const RUN_BYTES_MIN: usize = 512 << 10;
/// And at most about so many, where no key ends it.
const RUN_BYTES_MAX: usize = 8 << 20;
/// One key in so many ends a run that is long enough.
const RUN_ENDS_EVERY: u32 = 2_048;
/// zstd's level.
const ZSTD_LEVEL: i32 = 3;

/// Says that the row is gone, where a value's length stands.
const GONE: u32 = u32::MAX;

/// Makes runs of rows.
#[derive(Default)]
pub(crate) struct RowsWriter {
    bytes: Vec<u8>,
    /// The table of the part that is being written, and where its count stands.
    part: Option<(String, usize, u32)>,
}

impl RowsWriter {
    /// Adds a row; the run that it ends, if it does, compressed.
    pub fn add(&mut self, table: &str, row: &Row) -> Result<Option<Vec<u8>>> {
        if self.part.as_ref().is_none_or(|(known, ..)| known != table) {
            self.end_part();
            put_sized(&mut self.bytes, table.as_bytes());
            self.part = Some((table.to_owned(), self.bytes.len(), 0));
            self.bytes.extend_from_slice(&[0; 4]);
        }
        let (key, value) = row;
        put_sized(&mut self.bytes, key);
        match value {
            Some(value) => put_sized(&mut self.bytes, value),
            None => self.bytes.extend_from_slice(&GONE.to_be_bytes()),
        }
        if let Some((.., count)) = &mut self.part {
            *count += 1;
        }
        let is_long = self.bytes.len() >= RUN_BYTES_MIN;
        if self.bytes.len() >= RUN_BYTES_MAX || (is_long && ends(key)) { self.end() } else { Ok(None) }
    }

    /// The last run, unless there is nothing left.
    pub fn end(&mut self) -> Result<Option<Vec<u8>>> {
        self.end_part();
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let run = deflate(&self.bytes)?;
        self.bytes.clear();
        Ok(Some(run))
    }

    fn end_part(&mut self) {
        if let Some((_, at, count)) = self.part.take() {
            self.bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
        }
    }
}

/// Bytes compressed; the same bytes give the same.
pub(crate) fn deflate(bytes: &[u8]) -> Result<Vec<u8>> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL)
        .map_err(|e| base::Error::internal("compress a part of a backup", e))
}

/// Whether a run that is long enough ends behind this key.
fn ends(key: &[u8]) -> bool {
    let id = ObjectId::of(key).0;
    u32::from_be_bytes([id[0], id[1], id[2], id[3]]).is_multiple_of(RUN_ENDS_EVERY)
}

/// The rows of a run, part after part.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<RowsOf>> {
    let mut reader = Reader(bytes);
    let mut parts = Vec::new();
    while !reader.is_done() {
        let table = std::str::from_utf8(reader.sized()?).map_err(|_| malformed())?.to_owned();
        let count = reader.u32()?;
        let mut rows = Vec::new();
        for _ in 0..count {
            let key = reader.sized()?.to_vec();
            let value = match reader.u32()? {
                GONE => None,
                bytes => Some(reader.bytes(bytes as usize)?.to_vec()),
            };
            rows.push((key, value));
        }
        parts.push(RowsOf { table, rows });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rows: &[(String, Row)]) -> Vec<Vec<u8>> {
        let mut writer = RowsWriter::default();
        let mut runs = Vec::new();
        for (table, row) in rows {
            runs.extend(writer.add(table, row).unwrap());
        }
        runs.extend(writer.end().unwrap());
        runs
    }

    fn some(count: u64) -> Vec<(String, Row)> {
        let row = |n: u64| {
            let noise: Vec<u8> = (0..40).flat_map(|i| ObjectId::of(&(n * 64 + i).to_be_bytes()).0).collect();
            let table = if n < count / 2 { "one" } else { "two" };
            (table.to_owned(), (n.to_be_bytes().to_vec(), (!n.is_multiple_of(9)).then_some(noise)))
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let rows = some(20_000);
        let mut found = Vec::new();
        for run in written(&rows) {
            for part in read(&zstd::stream::decode_all(&*run).unwrap()).unwrap() {
                found.extend(part.rows.into_iter().map(|row| (part.table.clone(), row)));
            }
        }
        assert_eq!(found, rows);
        assert!(written(&[]).is_empty());
        assert!(read(&[0, 0, 0, 9, 1]).is_err() && read(&[0, 0, 0, 1, b'a', 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn a_row_more_changes_the_objects_around_it_and_no_others() {
        let rows = some(20_000);
        let before = written(&rows);
        assert!(before.len() > 5, "{}", before.len());
        let mut more = rows.clone();
        more.insert(10_100, ("two".to_owned(), (b"\0\0\0\0\0\0\x27\x73+".to_vec(), Some(vec![7; 300]))));
        let after = written(&more);
        let shared = after.iter().filter(|run| before.contains(run)).count();
        assert!(shared + 3 >= after.len(), "{shared} of {}", after.len());
    }
}
