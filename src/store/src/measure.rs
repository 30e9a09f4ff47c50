//! How fast this machine writes rows: what an estimate of a migration stands on.

use super::engine::{Backing, open_database};
use super::raw::definition;
use super::writer::begin;
use base::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows of one commit, as steps of an upgrade have them.
const ROWS_PER_COMMIT: u64 = 2_000;
/// One row, bytes.
const ROW_BYTES: usize = 200;
/// How long it is tried.
const TRIED_FOR: Duration = Duration::from_secs(1);
const CACHE_BYTES: usize = 16 << 20;

/// Writes rows into a new file in `folder` for a second, in commits like those of an upgrade, and removes it. Blocks.
pub fn rows_written_per_second(folder: &Path) -> Result<f64> {
    let failed = |e: redb::Error| Error::unavailable(format!("writing could not be tried: {e}"));
    let path = folder.join("measured.redb");
    let database = open_database(&Backing::File(path.clone()), CACHE_BYTES, true)?;
    let (begun, row, mut rows) = (Instant::now(), vec![0x5A; ROW_BYTES], 0_u64);
    while begun.elapsed() < TRIED_FOR {
        let tx = begin(&database)?;
        {
            let mut table = tx.open_table(definition("measured")).map_err(|e| failed(e.into()))?;
            for _ in 0..ROWS_PER_COMMIT {
                // Keys of organizations and ids are not in order.
                let key = (rows.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes();
                table.insert(key.as_slice(), row.as_slice()).map_err(|e| failed(e.into()))?;
                rows += 1;
            }
        }
        tx.commit().map_err(|e| failed(e.into()))?;
    }
    let took = begun.elapsed();
    drop(database);
    disk::remove(&path).map_err(|e| Error::unavailable(format!("{}: {e}", path.display())))?;
    Ok(rows as f64 / took.as_secs_f64())
}
