//! Exports as they are stored, and their files.

use super::rows::QueryFailureV1;
use base::Result;
use base::clock::{Moment, Timestamp};
use base::codec::{CodecError, Record, decode_body};
use base::ids::{BiExportId, OrgId, QueryId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::ExportFormat;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use store::{Index, OrgStore, OrgTable};

/// Bytes of a file that are held at once while it is read.
const PART_BYTES: usize = 256 << 10;
/// Rows of one look for the oldest.
const CHUNK_ROWS: usize = 64;

base::words! {
    /// Where an export stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum ExportStatus {
        Queued "queued",
        Running "running",
        Success "success",
        Failed "failed",
    }
}

impl ExportStatus {
    pub fn has_ended(self) -> bool {
        matches!(self, ExportStatus::Success | ExportStatus::Failed)
    }
}

/// A file made of a result, or to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportV2 {
    pub id: BiExportId,
    pub query: QueryId,
    pub format: ExportFormat,
    pub status: ExportStatus,
    /// Rows of the result.
    pub rows: u64,
    /// Bytes of the file, once there is one.
    pub bytes: Option<u64>,
    pub failure: Option<QueryFailureV1>,
    /// How often it was begun: one that takes the process down with it is not begun for ever.
    pub attempts: u32,
    pub requested_by: UserId,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// When it goes, the file with it; known when it has ended.
    pub expires_at: Option<Moment>,
    /// The CRC-32 of the file, once there is one; none of one that an earlier release made.
    pub sum: Option<u32>,
}

impl Record for ExportV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> std::result::Result<ExportV2, CodecError> {
        match version {
            1 => decode_body::<ExportV1>(body).map(ExportV2::from),
            other => Err(CodecError(format!("an export of version {other} is unknown to this release"))),
        }
    }
}

/// The shape before files had a checksum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportV1 {
    pub id: BiExportId,
    pub query: QueryId,
    pub format: ExportFormat,
    pub status: ExportStatus,
    pub rows: u64,
    pub bytes: Option<u64>,
    pub failure: Option<QueryFailureV1>,
    pub attempts: u32,
    pub requested_by: UserId,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub expires_at: Option<Moment>,
}

impl Record for ExportV1 {}

impl From<ExportV1> for ExportV2 {
    fn from(old: ExportV1) -> ExportV2 {
        let ExportV1 { id, query, format, status, rows, bytes, failure, attempts, .. } = old;
        let ExportV1 { requested_by, created_at, finished_at, expires_at, .. } = old;
        ExportV2 {
            id,
            query,
            format,
            status,
            rows,
            bytes,
            failure,
            attempts,
            requested_by,
            created_at,
            finished_at,
            expires_at,
            sum: None,
        }
    }
}

/// Exports that have not ended, oldest first.
pub static WAITING: Index<Timestamp, ExportV2> = Index::global("bi_exports.waiting", |export, keys| {
    if !export.status.has_ended() {
        keys.add(export.created_at);
    }
});

/// The same of one organization.
pub static OPEN: Index<Timestamp, ExportV2> = Index::new("bi_exports.open", |export, keys| {
    if !export.status.has_ended() {
        keys.add(export.created_at);
    }
});

/// Exports that have ended, by when they go.
pub static EXPIRING: Index<Moment, ExportV2> = Index::global("bi_exports.expiring", |export, keys| {
    if let Some(at) = export.expires_at {
        keys.add(at);
    }
});

/// Exports of a query.
pub static BY_QUERY: Index<QueryId, ExportV2> =
    Index::new("bi_exports.query", |export, keys| keys.add(export.query));

pub static EXPORTS: OrgTable<BiExportId, ExportV2> =
    OrgTable::new("bi_exports", "Export").uncounted().indexed(&[&WAITING, &OPEN, &EXPIRING, &BY_QUERY]);

/// The file of an export in the folder of all of them.
pub(super) fn path(folder: &Path, org: OrgId, export: &ExportV2) -> PathBuf {
    folder.join(org.to_string()).join(format!("{}.{}", export.id, export.format.name()))
}

/// The CRC-32 of a file. Blocking: all of it is read.
pub(super) fn sum_of(path: &Path) -> io::Result<u32> {
    let (mut file, mut part, mut sum) = (File::open(path)?, vec![0; PART_BYTES], crc32fast::Hasher::new());
    loop {
        match file.read(&mut part)? {
            0 => return Ok(sum.finalize()),
            read => sum.update(&part[..read]),
        }
    }
}

/// Whether the file of an export is what was written. Blocking.
pub fn is_whole(path: &Path, sum: u32) -> io::Result<bool> {
    sum_of(path).map(|found| found == sum)
}

/// The oldest export of an organization that has a file.
pub(super) fn oldest(store: &OrgStore) -> Result<Option<ExportV2>> {
    store.read(|tx| {
        let mut after = None::<Vec<u8>>;
        loop {
            let step = tx.readable(&EXPORTS, after.as_deref(), CHUNK_ROWS)?;
            after = step.more();
            let has_file = |export: &ExportV2| {
                export.status == ExportStatus::Success && export.expires_at.is_some_and(|at| at > tx.moment())
            };
            let found = step.rows.into_iter().find(|(_, export)| has_file(export));
            if found.is_some() || after.is_none() {
                return Ok(found.map(|(_, export)| export));
            }
        }
    })
}

/// Lets an export be gone from now on: its file was given up.
pub(super) async fn expire(store: &OrgStore, id: BiExportId) -> Result<()> {
    store
        .write(move |tx| {
            if let Some(mut export) = tx.get(&EXPORTS, &id)? {
                export.expires_at = Some(tx.moment());
                tx.put(&EXPORTS, &id, &export)?;
            }
            tx.unaudited("a file that makes room goes by itself, as those do that are too old");
            Ok(())
        })
        .await
}
