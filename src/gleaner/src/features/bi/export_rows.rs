//! Exports as they are stored, and their files.

use super::rows::QueryFailureV1;
use base::Result;
use base::clock::{Moment, Timestamp};
use base::codec::Record;
use base::ids::{BiExportId, OrgId, QueryId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::ExportFormat;
use std::path::{Path, PathBuf};
use store::{Index, OrgStore, OrgTable};

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
pub struct ExportV1 {
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
}

impl Record for ExportV1 {}

/// Exports that have not ended, oldest first.
pub static WAITING: Index<Timestamp, ExportV1> = Index::global("bi_exports.waiting", |export, keys| {
    if !export.status.has_ended() {
        keys.add(export.created_at);
    }
});

/// The same of one organization.
pub static OPEN: Index<Timestamp, ExportV1> = Index::new("bi_exports.open", |export, keys| {
    if !export.status.has_ended() {
        keys.add(export.created_at);
    }
});

/// Exports that have ended, by when they go.
pub static EXPIRING: Index<Moment, ExportV1> = Index::global("bi_exports.expiring", |export, keys| {
    if let Some(at) = export.expires_at {
        keys.add(at);
    }
});

/// Exports of a query.
pub static BY_QUERY: Index<QueryId, ExportV1> =
    Index::new("bi_exports.query", |export, keys| keys.add(export.query));

pub static EXPORTS: OrgTable<BiExportId, ExportV1> =
    OrgTable::new("bi_exports", "Export").uncounted().indexed(&[&WAITING, &OPEN, &EXPIRING, &BY_QUERY]);

/// The file of an export in the folder of all of them.
pub(super) fn path(folder: &Path, org: OrgId, export: &ExportV1) -> PathBuf {
    folder.join(org.to_string()).join(format!("{}.{}", export.id, export.format.name()))
}

/// The oldest export of an organization that has a file.
pub(super) fn oldest(store: &OrgStore) -> Result<Option<ExportV1>> {
    store.read(|tx| {
        let mut after = None::<Vec<u8>>;
        loop {
            let step = tx.readable(&EXPORTS, after.as_deref(), CHUNK_ROWS)?;
            after = step.more();
            let has_file = |export: &ExportV1| {
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
