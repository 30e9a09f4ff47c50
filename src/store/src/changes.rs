//! Change records: what search, snapshots, deliveries and mail are fed from.
//!
//! Each is written in the transaction of the row it speaks of, under the next number, so a consumer that stores the
//! number it has applied catches up after a crash, never misses and never doubles. A record names the row and not
//! its content: a consumer reads the row as it is now, so applying a record twice, or late, does no harm.

use super::passed::pass_over;
use super::raw::View;
use super::view::WriteView;
use base::clock::Timestamp;
use base::ids::OrgId;
use base::{Error, Result};
use std::ops::Bound;
use uuid::Uuid;

pub(super) const TABLE: &str = "changes";

/// One change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Grows by one from record to record, over all organizations.
    pub sequence: u64,
    /// When the operation that made it began.
    pub at: Timestamp,
    /// Nil, with no table and no key, where the organization was erased: the record keeps its number and nothing else.
    pub org: OrgId,
    /// The table's name.
    pub table: String,
    /// The row's key, as [`super::Key`] writes it.
    pub key: Vec<u8>,
    pub deleted: bool,
}

/// at (8) | org (16) | deleted (1) | length of the table's name (1) | name | key
fn encode(org: OrgId, table: &str, key: &[u8], deleted: bool, at: Timestamp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(26 + table.len() + key.len());
    bytes.extend_from_slice(&at.0.to_be_bytes());
    bytes.extend_from_slice(org.0.as_bytes());
    bytes.push(u8::from(deleted));
    bytes.push(u8::try_from(table.len()).expect("a table's name is a short literal"));
    bytes.extend_from_slice(table.as_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// A record without what it told, if it told of `org`.
pub(super) fn blanked(bytes: &[u8], org: OrgId) -> Option<Vec<u8>> {
    let change = decode(0, bytes).filter(|change| change.org == org)?;
    Some(encode(OrgId(Uuid::nil()), "", &[], true, change.at))
}

fn decode(sequence: u64, bytes: &[u8]) -> Option<Change> {
    let (at, rest) = bytes.split_first_chunk::<8>()?;
    let (org, rest) = rest.split_first_chunk::<16>()?;
    let (&[deleted, length], rest) = rest.split_first_chunk::<2>()?;
    let (table, key) = rest.split_at_checked(usize::from(length))?;
    Some(Change {
        sequence,
        at: Timestamp(i64::from_be_bytes(*at)),
        org: OrgId(Uuid::from_bytes(*org)),
        table: std::str::from_utf8(table).ok()?.to_owned(),
        key: key.to_vec(),
        deleted: deleted != 0,
    })
}

fn number(key: &[u8]) -> Result<u64> {
    key.try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| Error::internal("read a change record", "its number is damaged"))
}

/// Adds a change record to an operation.
pub(super) fn tell(
    view: &WriteView<'_>,
    org: OrgId,
    table: &'static str,
    key: &[u8],
    deleted: bool,
    at: Timestamp,
) {
    let sequence = view.take_sequence();
    view.set(TABLE, sequence.to_be_bytes().to_vec(), Some(encode(org, table, key, deleted, at)));
}

pub(super) fn read(view: &dyn View, after: u64, limit: usize) -> Result<Vec<Change>> {
    let low = after.to_be_bytes();
    view.scan(TABLE, Bound::Excluded(&low), Bound::Unbounded, false, limit)?
        .into_iter()
        .map(|(key, value)| {
            let sequence = number(&key)?;
            Ok(decode(sequence, &value).unwrap_or_else(|| {
                // Whatever follows the changes goes on behind it: what it told of is told anew with its next change.
                pass_over("a change record", sequence, &Error::internal("read it", "it is damaged"));
                let org = OrgId(Uuid::nil());
                Change {
                    sequence,
                    at: Timestamp(0),
                    org,
                    table: String::new(),
                    key: Vec::new(),
                    deleted: true,
                }
            }))
        })
        .collect()
}

/// The number of the last record, or of the last one that was forgotten.
pub(super) fn last(view: &dyn View) -> Result<u64> {
    let newest = view.scan(TABLE, Bound::Unbounded, Bound::Unbounded, true, 1)?;
    let forgotten = view.get(super::META, FORGOTTEN)?.map_or(Ok(0), |bytes| number(&bytes))?;
    newest.first().map_or(Ok(forgotten), |(key, _)| number(key))
}

pub(super) fn begin(view: &dyn View) -> Result<u64> {
    let oldest = view.scan(TABLE, Bound::Unbounded, Bound::Unbounded, false, 1)?;
    match oldest.first() {
        Some((key, _)) => number(key),
        None => Ok(last(view)? + 1),
    }
}

/// Where the number of the newest forgotten record is kept, so that numbers go on after it.
const FORGOTTEN: &[u8] = b"changes_forgotten";

pub(super) fn forget(view: &WriteView<'_>, sequence: u64, limit: usize) -> Result<usize> {
    let high = sequence.to_be_bytes();
    let rows = view.scan(TABLE, Bound::Unbounded, Bound::Included(&high), false, limit)?;
    let count = rows.len();
    if let Some((newest, _)) = rows.last() {
        view.set(super::META, FORGOTTEN.to_vec(), Some(newest.clone()));
    }
    for (key, _) in rows {
        view.set(TABLE, key, None);
    }
    Ok(count)
}
