//! Pages out of a storage that new ones do not go to any more: into the one they go to, or back into the local folder.

use super::places;
use super::rows::{BY_STORAGE, REMOTE, RemoteV1, StorageV1};
use super::service::object_key;
use super::turn::{PAGES_AT_ONCE, STEP_PAGES, Turn, put_whole};
use crate::features::extraction::PageKey;
use base::{Error, Result};
use blob::{BlobError, BlobHash};
use bytes::Bytes;
use futures::StreamExt;
use s3::{Bucket, S3Error};

/// What became of a page.
enum Brought {
    /// It is durable where it is to lie, and takes so many bytes.
    There(BlobHash, u64),
    /// It is not there, or is not the page.
    Missing(BlobHash),
}

/// Why one could not be brought.
enum Stop {
    Source(S3Error),
    Target(S3Error),
    Here(Error),
}

/// Brings pages until none is left or the turn is over.
pub(super) async fn from(turn: &Turn<'_>, row: &StorageV1, target: Option<&StorageV1>) -> Result<()> {
    let (source, into) = (turn.client(row)?, target.map(|target| turn.client(target)).transpose()?);
    turn.storages.with(turn.org, |state| state.lacks_room = false);
    while !turn.is_over() {
        let step = turn
            .rows
            .read(|tx| tx.readable_by(&REMOTE, &BY_STORAGE, (row.number, 0), None, None, STEP_PAGES))?;
        if step.rows.is_empty() {
            return Ok(());
        }
        if target.is_none() && turn.rows.refuses_writes() {
            turn.storages.with(turn.org, |state| state.lacks_room = true);
            return Ok(());
        }
        let due: Vec<_> =
            step.rows.into_iter().map(|(key, row)| (BlobHash::from_bytes(key.0), row)).collect();
        let mut hashes = Vec::with_capacity(due.len());
        hashes.extend(due.iter().map(|(hash, _)| *hash));
        if let Some(target) = target {
            turn.intend(target.number, &hashes).await?;
        }
        let brought = futures::stream::iter(hashes)
            .map(|hash| one(turn, &source, into.as_ref(), hash))
            .buffer_unordered(PAGES_AT_ONCE)
            .collect::<Vec<_>>();
        let brought = Box::pin(brought).await;
        if !settle(turn, (row, target), due, brought).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn one(
    turn: &Turn<'_>,
    source: &Bucket,
    into: Option<&Bucket>,
    hash: BlobHash,
) -> std::result::Result<Brought, Stop> {
    let key = object_key(turn.org, &hash);
    let Some(stored) = source.get(&key).await.map_err(Stop::Source)? else {
        return Ok(Brought::Missing(hash));
    };
    let size = stored.len() as u64;
    let is_page = match into {
        Some(into) => {
            let is_page = checked(&hash, stored.clone()).await.map_err(Stop::Here)?;
            if is_page {
                put_whole(into, &key, stored).await.map_err(Stop::Target)?;
            }
            is_page
        }
        None => match turn.pages.keep_stored(&hash, stored).await {
            Ok(()) => true,
            Err(BlobError::Corrupt { .. }) => false,
            Err(error) => return Err(Stop::Here(Error::internal("bring a page back", error))),
        },
    };
    if !is_page {
        tracing::error!(org = %turn.org, %hash, "what a storage has under a page's name is not that page");
    }
    Ok(if is_page { Brought::There(hash, size) } else { Brought::Missing(hash) })
}

/// Whether these are the bytes of the page; they are inflated and hashed apart from the threads that answer.
async fn checked(hash: &BlobHash, stored: Bytes) -> Result<bool> {
    let hash = *hash;
    let looked = tokio::task::spawn_blocking(move || blob::is_page(&hash, &stored));
    looked.await.map_err(|e| Error::internal("look at a page", e))
}

/// Changes the places of what was brought; whether the next step may follow.
async fn settle(
    turn: &Turn<'_>,
    (row, target): (&StorageV1, Option<&StorageV1>),
    due: Vec<(BlobHash, RemoteV1)>,
    brought: Vec<std::result::Result<Brought, Stop>>,
) -> Result<bool> {
    let (mut there, mut missing, mut stop) = (Vec::new(), Vec::new(), None);
    for one in brought {
        match one {
            Ok(Brought::There(hash, size)) => there.push((hash, size)),
            Ok(Brought::Missing(hash)) => missing.push(hash),
            Err(why) => stop = Some(why),
        }
    }
    there.iter().for_each(|(hash, _)| turn.storages.touched.note(turn.org, *hash));
    let to = target.map(|target| target.number);
    let settled = turn.rows.write_freeing(move |tx| {
        tx.unaudited("pages lie elsewhere");
        let as_was = |hash: &BlobHash| due.iter().find(|(of, _)| of == hash).map(|(_, row)| *row);
        for (hash, size) in there {
            let key = PageKey(*hash.as_bytes());
            // One that was removed meanwhile stays so: its object here goes, as was put down.
            let Some(before) = tx.get(&REMOTE, &key)?.filter(|row| Some(*row) == as_was(&hash)) else {
                continue;
            };
            match to {
                Some(number) => places::place(tx, key, number, size)?,
                None => places::leave(tx, key, before, true)?,
            }
        }
        for hash in missing {
            as_was(&hash).map_or(Ok(()), |row| places::miss(tx, PageKey(*hash.as_bytes()), row))?;
        }
        Ok(())
    });
    settled.await?;
    match (stop, target) {
        (None, _) => return Ok(true),
        (Some(Stop::Here(error)), _) => return Err(error),
        (Some(Stop::Target(error)), Some(target)) => turn.note(target, Err(error)).await?,
        (Some(Stop::Source(error) | Stop::Target(error)), _) => turn.note(row, Err(error)).await?,
    }
    Ok(false)
}
