//! What is said of storages in the organization's log of events, and what is forgotten of one that is left.

use super::places::objects_to_go;
use super::rows::{BY_STORAGE, REMOTE, STORAGE_SUMS, STORAGES, StorageV1};
use crate::features::events::{EventKind, NewEvent};
use base::Result;
use base::permission::Permission;
use s3::S3Error;
use serde_json::{Value, json};
use store::OrgStore;

/// Rows of pages that were not there which one operation forgets.
const STEP_PAGES: usize = 64;

static FAILING: EventKind = EventKind::new(
    "storage.failing",
    Permission::IntegrationsRead,
    "The organization's storage does not work (`bucket`, `fault`, `message`): new pages are kept in the box meanwhile, and those that lie there cannot be read.",
);

static RECOVERED: EventKind = EventKind::new(
    "storage.recovered",
    Permission::IntegrationsRead,
    "A storage that did not work works again (`bucket`).",
);

static MOVED: EventKind = EventKind::new(
    "storage.moved",
    Permission::IntegrationsRead,
    "The last page has left a storage that pages are not kept in any more (`bucket`, and `missing`: how many were not there).",
);

pub(super) static KINDS: &[&EventKind] = &[&FAILING, &RECOVERED, &MOVED];

async fn write(rows: &OrgStore, kind: &'static EventKind, data: Value) -> Result<()> {
    let org = rows.id();
    let written = rows.write_freeing(move |tx| {
        tx.unaudited("an event of the box's own");
        NewEvent::of(kind, org).data(data).write(tx)
    });
    written.await
}

pub(super) async fn failing(rows: &OrgStore, row: &StorageV1, error: &S3Error) -> Result<()> {
    tracing::warn!(org = %rows.id(), bucket = row.bucket, %error, "an organization's storage does not work");
    let data = json!({ "bucket": row.bucket, "fault": error.fault.name(), "message": error.to_string() });
    write(rows, &FAILING, data).await
}

pub(super) async fn recovered(rows: &OrgStore, row: &StorageV1) -> Result<()> {
    tracing::info!(org = %rows.id(), bucket = row.bucket, "an organization's storage works again");
    write(rows, &RECOVERED, json!({ "bucket": row.bucket })).await
}

/// Forgets a storage that new pages do not go to, once nothing of the organization is in it.
pub(super) async fn retire(rows: &OrgStore, row: &StorageV1) -> Result<()> {
    let (number, bucket, org) = (row.number, row.bucket.clone(), rows.id());
    let retired = rows.write_freeing(move |tx| {
        tx.unaudited("a storage that nothing lies in");
        let left = tx.readable_by(&REMOTE, &BY_STORAGE, (number, 0), None, None, 1)?;
        let is_target = tx.get(&STORAGES, &number)?.is_none_or(|row| row.is_target);
        if is_target || !left.rows.is_empty() || !objects_to_go(tx, number, 1)?.is_empty() {
            return Ok(true);
        }
        let missing = tx.readable_by(&REMOTE, &BY_STORAGE, (number, 1), None, None, STEP_PAGES)?.rows;
        let mut sum = tx.get(&STORAGE_SUMS, &number)?.unwrap_or_default();
        // While pages lay there it counted those; from here on, those that it lacked.
        sum.pages += missing.len() as u64;
        for (key, _) in &missing {
            tx.delete(&REMOTE, key)?;
        }
        if missing.len() == STEP_PAGES {
            tx.put(&STORAGE_SUMS, &number, &sum)?;
            return Ok(false);
        }
        tx.delete(&STORAGES, &number)?;
        tx.delete(&STORAGE_SUMS, &number)?;
        NewEvent::of(&MOVED, org).data(json!({ "bucket": bucket, "missing": sum.pages })).write(tx)?;
        Ok(true)
    });
    // What is missing goes step by step.
    retired.await.map(drop)
}
