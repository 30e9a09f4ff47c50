//! Changing where a page lies, inside the caller's transaction: row, sum, and what is to go for it.

use super::rows::{OBJECTS_TO_GO, ObjectToGoV1, REMOTE, RemoteV1, STORAGE_SUMS, STORAGES, StorageV1};
use crate::features::extraction::{PAGES, PageKey};
use base::Result;
use base::limits::PAGE_STORAGES_MAX;
use blob::BlobHash;
use store::{Key, OrgRead, OrgWrite, readable};

/// The storages of an organization, oldest first; what is damaged is left out.
pub(super) fn storages(tx: &OrgRead<'_>) -> Result<Vec<StorageV1>> {
    // Numbers of storages that are gone are not used again, so there are few rows whatever the numbers.
    Ok(tx.readable(&STORAGES, None, PAGE_STORAGES_MAX + 1)?.rows.into_iter().map(|(_, row)| row).collect())
}

/// Whether something names the page. One whose row cannot be read is named.
pub(super) fn is_named(tx: &OrgRead<'_>, key: PageKey) -> Result<bool> {
    Ok(readable("a kept page", key, tx.get(&PAGES, &key))?.is_none_or(|row| row.is_some()))
}

/// The page is durable in a storage: from now on it is looked for there.
pub(super) fn place(tx: &OrgWrite<'_>, key: PageKey, storage: u64, stored_size: u64) -> Result<()> {
    if let Some(before) = tx.get(&REMOTE, &key)? {
        leave(tx, key, before, storage != before.storage)?;
    }
    tx.put(&REMOTE, &key, &RemoteV1 { storage, stored_size, is_missing: false })?;
    add(tx, storage, 1, stored_size)?;
    tx.delete(&OBJECTS_TO_GO, &(storage, key.0)).map(drop)
}

/// The page lies in its storage no more; its object goes if it `goes`.
pub(super) fn leave(tx: &OrgWrite<'_>, key: PageKey, row: RemoteV1, goes: bool) -> Result<()> {
    tx.delete(&REMOTE, &key)?;
    if !row.is_missing {
        take(tx, row.storage, row.stored_size)?;
    }
    if goes {
        tx.put(&OBJECTS_TO_GO, &(row.storage, key.0), &ObjectToGoV1 { since: tx.now() })?;
    }
    Ok(())
}

/// The page was looked for and is not there.
pub(super) fn miss(tx: &OrgWrite<'_>, key: PageKey, row: RemoteV1) -> Result<()> {
    if tx.get(&REMOTE, &key)? == Some(row) && !row.is_missing {
        tx.put(&REMOTE, &key, &RemoteV1 { is_missing: true, ..row })?;
        take(tx, row.storage, row.stored_size)?;
    }
    Ok(())
}

fn add(tx: &OrgWrite<'_>, storage: u64, pages: u64, bytes: u64) -> Result<()> {
    let mut sum = tx.get(&STORAGE_SUMS, &storage)?.unwrap_or_default();
    (sum.pages, sum.bytes) = (sum.pages + pages, sum.bytes + bytes);
    tx.put(&STORAGE_SUMS, &storage, &sum)
}

fn take(tx: &OrgWrite<'_>, storage: u64, bytes: u64) -> Result<()> {
    let mut sum = tx.get(&STORAGE_SUMS, &storage)?.unwrap_or_default();
    (sum.pages, sum.bytes) = (sum.pages.saturating_sub(1), sum.bytes.saturating_sub(bytes));
    tx.put(&STORAGE_SUMS, &storage, &sum)
}

/// Puts down that an object of this page may be in a storage; whoever finds that nothing came of it removes it.
pub(super) fn intend(tx: &OrgWrite<'_>, storage: u64, hash: [u8; 32]) -> Result<()> {
    tx.put(&OBJECTS_TO_GO, &(storage, hash), &ObjectToGoV1 { since: tx.now() })
}

/// Of pages that lie in the local folder: those that lie in a storage as well, and those that are to go to this one. What
/// nobody names yet stays where it is, and so does what still has an object there that is to go.
pub(super) fn sorted(
    tx: &OrgRead<'_>,
    storage: u64,
    hashes: Vec<BlobHash>,
) -> Result<(Vec<BlobHash>, Vec<BlobHash>)> {
    let (mut there, mut to_put) = (Vec::new(), Vec::new());
    for hash in hashes {
        let key = PageKey(*hash.as_bytes());
        match tx.get(&REMOTE, &key)? {
            Some(row) if !row.is_missing => there.push(hash),
            _ if is_named(tx, key)? && tx.get(&OBJECTS_TO_GO, &(storage, key.0))?.is_none() => {
                to_put.push(hash)
            }
            _ => {}
        }
    }
    Ok((there, to_put))
}

/// Objects of a storage that are to go.
pub(super) fn objects_to_go(tx: &OrgRead<'_>, number: u64, max: usize) -> Result<Vec<[u8; 32]>> {
    let mut before = Vec::new();
    (number, [0u8; 32]).encode(&mut before);
    let keys = tx.keys(OBJECTS_TO_GO.name(), Some(&before), max)?;
    let decoded = keys.iter().filter_map(|key| <(u64, [u8; 32])>::decode(key));
    Ok(decoded.take_while(|(of, _)| *of == number).map(|(_, hash)| hash).collect())
}
