//! What this slice keeps of an organization outside of the store: objects in its storages.

use super::places;
use super::service::{Storages, folder};
use crate::features::Holding;
use base::ids::OrgId;
use base::{Error, Result};
use server::task::TaskContext;
use std::time::{Duration, Instant};

/// Objects of one listing.
const LISTED: usize = 500;
/// How long it is tried to remove objects from a storage that does not answer; then what is there is left, and said so.
const TRIED_FOR: Duration = Duration::from_secs(24 * 3_600);

pub(super) static HOLDINGS: &[Holding] = &[Holding {
    name: "objects in storages of its own",
    remove: |context, org| Box::pin(remove(context, org)),
}];

async fn remove(context: TaskContext, org: OrgId) -> Result<u64> {
    let storages = context.service::<Storages>();
    storages.with(org, |state| state.is_ended = true);
    if storages.with(org, |state| state.is_running) {
        // What it puts last must not stay.
        return Err(Error::unavailable("Pages of the organization are still being moved."));
    }
    let rows = context.system().read(|tx| places::storages(&tx.behind_fence(org)))?;
    let (mut removed, mut failed) = (0, None);
    for row in rows {
        let client = storages.client(org, &row, true)?;
        loop {
            let listed = match client.list(&folder(org), None, LISTED).await {
                Ok(listed) => listed,
                Err(error) => {
                    failed = Some((row.bucket.clone(), error));
                    break;
                }
            };
            let (count, keys) = (listed.len(), listed.into_iter().map(|object| object.key).collect());
            if let Err(error) = client.delete_each(keys).await {
                failed = Some((row.bucket.clone(), error));
                break;
            }
            removed += count as u64;
            if count < LISTED || context.stopping() {
                break;
            }
        }
        if context.stopping() {
            return Err(Error::unavailable("The box stops."));
        }
    }
    let Some((bucket, error)) = failed else {
        storages.forget(org);
        return Ok(removed);
    };
    let since = storages.with(org, |state| *state.first_failed.get_or_insert_with(Instant::now));
    if since.elapsed() < TRIED_FOR {
        let message = format!("Objects in the bucket {bucket} could not be removed: {error}.");
        return Err(Error::unavailable(message));
    }
    tracing::error!(%org, bucket, %error, "objects of an erased organization are left in its own storage: it was asked for a day");
    storages.forget(org);
    Ok(removed)
}
