//! Which results name which pages, so that a page goes when nobody names it any more.
//!
//! A result, and a draft that is kept with a job that goes on, each name one page. The naming is a row of its own under the
//! job's id, so that a page can go before its result does and nothing is ever counted twice. A page that has a row here is
//! on the disk; its bytes count as what the organization stores. When its last naming goes the page is put down in
//! [`UNNAMED`], in the same transaction, and [`sweep`] removes the file.
//!
//! **A page is never removed under a result that is on its way.** A job keeps its page first and names it when it ends; so a
//! file is removed only when it was not kept (again) for [`UNTOUCHED_MIN`], which the page store checks under a lock of its
//! own. A page that a job kept and nobody ever named (the job was canceled, the process died) is found by its folder and
//! goes after [`ORPHAN_AGE`]. Files have the machine's dates, which say nothing while its clock has just been set: as much as
//! it was set by is added to these ages, for as long as they are.

use super::held_rows::HELD;
use super::rows::{PageRefV1, RESULTS, ResultV4};
use super::text_rows;
use crate::features::billing::Removed;
use base::clock::{Now, Timestamp};
use base::codec::Record;
use base::ids::{JobId, OrgId};
use base::{Error, Result};
use blob::{BlobHash, BlobStore};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{Index, Key, OrgRead, OrgTable, OrgWrite, SysRead, SysTable, System, readable};

/// How long a file must not have been kept again before it is removed: longer than any job is on its way to its end.
const UNTOUCHED_MIN: Duration = Duration::from_secs(3_600);
/// How old a file must be that no row knows.
const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Rows of one operation.
const STEP_ROWS: usize = 64;
/// Rows whose pages one operation names at the first start after an upgrade; each commit is a sync.
const ADOPTED_PER_WRITE: usize = 2_000;

/// A page's hash as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKey(pub [u8; 32]);

impl std::fmt::Display for PageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Key for PageKey {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Key::decode(bytes).map(PageKey)
    }
}

/// A page that something names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageV1 {
    /// Compressed, as it lies on the disk.
    pub stored_size: u64,
}

impl Record for PageV1 {}

/// The pages of an organization; each counts with its file.
pub static PAGES: OrgTable<PageKey, PageV1> =
    OrgTable::new("kept_pages", "Page").weighing(|page| page.stored_size);

/// That a job's result, or its draft, names a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamingV1 {
    pub page: [u8; 32],
}

impl Record for NamingV1 {}

static BY_PAGE: Index<[u8; 32], NamingV1> =
    Index::new("page_namings.by_page", |row, keys| keys.add(row.page));

pub static NAMINGS: OrgTable<JobId, NamingV1> = OrgTable::new("page_namings", "Page").indexed(&[&BY_PAGE]);

/// A page that nobody names any more and whose file is to be removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnnamedV1 {
    pub since: Timestamp,
    pub stored_size: u64,
}

impl Record for UnnamedV1 {}

pub static UNNAMED: OrgTable<PageKey, UnnamedV1> = OrgTable::new("unnamed_pages", "Page").uncounted();

/// Notes that the job's result (or draft) names a page, in the place of one that it named before.
pub(super) fn name(tx: &OrgWrite<'_>, job: JobId, page: &PageRefV1) -> Result<()> {
    match tx.get(&NAMINGS, &job)? {
        Some(before) if before.page == page.hash => return Ok(()),
        Some(_) => drop(release(tx, job)?),
        None => {}
    }
    let key = PageKey(page.hash);
    // One whose row cannot be read is there, and stays.
    if readable("a kept page", key, tx.get(&PAGES, &key))?.is_some_and(|row| row.is_none()) {
        tx.put(&PAGES, &key, &PageV1 { stored_size: page.stored_size })?;
        tx.delete(&UNNAMED, &key)?;
    }
    tx.put(&NAMINGS, &job, &NamingV1 { page: page.hash })
}

/// The job's result names its page no more; whether it did. The last one to name a page takes it along.
pub(super) fn release(tx: &OrgWrite<'_>, job: JobId) -> Result<bool> {
    let Some(naming) = tx.get(&NAMINGS, &job)? else { return Ok(false) };
    tx.delete(&NAMINGS, &job)?;
    text_rows::forget(tx, job)?;
    if !tx.exists(&BY_PAGE, naming.page)? {
        let key = PageKey(naming.page);
        let Some(page) = readable("a kept page", key, tx.get(&PAGES, &key))? else { return Ok(true) };
        let stored_size = page.map_or(0, |page| page.stored_size);
        tx.delete(&PAGES, &key)?;
        tx.put(&UNNAMED, &key, &UnnamedV1 { since: tx.now(), stored_size })?;
    }
    Ok(true)
}

/// What the page that a job's result names takes; nothing where that cannot be read.
pub(super) fn size_of(tx: &OrgRead<'_>, job: JobId) -> Result<u64> {
    let naming = readable("the naming of a page", job, tx.get(&NAMINGS, &job))?.flatten();
    let Some(key) = naming.map(|naming| PageKey(naming.page)) else { return Ok(0) };
    let page = readable("a kept page", key, tx.get(&PAGES, &key))?.flatten();
    Ok(page.map_or(0, |page| page.stored_size))
}

/// Where naming the pages of results from before there were namings stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdoptionV1 {
    results_after: Option<(OrgId, JobId)>,
    drafts_after: Option<(OrgId, JobId)>,
    done: bool,
}

impl Record for AdoptionV1 {}

pub static ADOPTION: SysTable<(), AdoptionV1> = SysTable::new("page_adoption", "Page");

/// Names the pages of every result and draft that a release without namings has written; once in the life of a data
/// folder, before anything is served. Goes on where a crash cut it off.
pub async fn adopt(system: &System) -> Result<()> {
    // Begun anew it finds the same ones.
    let stands = readable("where naming pages stands", "", system.read(|tx| tx.get(&ADOPTION, &())))?;
    let mut at = stands.flatten().unwrap_or_default();
    if at.done {
        return Ok(());
    }
    tracing::info!("the pages of earlier results are named, once; with very many results this takes minutes");
    loop {
        let (named, next) = next_unnamed(system, at)?;
        at = next;
        let row = at.clone();
        let naming = system.write_each("the page of a result", named, |tx, (org, job, page)| {
            if tx.is_fenced(*org) { Ok(()) } else { name(&tx.org(*org), *job, page) }
        });
        naming.await?;
        system.write(move |tx| tx.put(&ADOPTION, &(), &row)).await?;
        if at.done {
            return Ok(());
        }
    }
}

/// Whether the page of a result should be on the disk, or in a storage of the organization's own. Of a folder whose pages no
/// release has named yet, each result's is.
pub fn keeps_page(tx: &SysRead<'_>, org: OrgId, row: &ResultV4) -> Result<bool> {
    let adoption = readable("where naming pages stands", "", tx.get(&ADOPTION, &()))?.flatten();
    let is_adopted = adoption.is_some_and(|at| at.done);
    let naming = readable("that a page is kept", row.job, tx.org(org).get(&NAMINGS, &row.job))?;
    Ok(!is_adopted || naming.is_none_or(|naming| naming.is_some_and(|naming| naming.page == row.page.hash)))
}

/// Whether any row knows a page; also one that is to go, and one whose row cannot be read.
pub fn is_known_page(tx: &SysRead<'_>, org: OrgId, hash: [u8; 32]) -> Result<bool> {
    let (own, key) = (tx.org(org), PageKey(hash));
    let adoption = readable("where naming pages stands", "", tx.get(&ADOPTION, &()))?.flatten();
    if !adoption.is_some_and(|at| at.done) {
        return Ok(true);
    }
    let named = readable("a kept page", key, own.get(&PAGES, &key))?;
    let unnamed = readable("a page that nobody names", key, own.get(&UNNAMED, &key))?;
    Ok(!matches!((named, unnamed), (Some(None), Some(None))))
}

/// Results whose pages the first start of this release names, and drafts; none of a folder that has had it.
pub fn pages_to_adopt(tx: &SysRead<'_>) -> Result<bool> {
    Ok(!tx.get(&ADOPTION, &())?.is_some_and(|at| at.done))
}

type Named = Vec<(OrgId, JobId, PageRefV1)>;

/// The next results, or drafts when those are through, and where that leads.
fn next_unnamed(system: &System, mut at: AdoptionV1) -> Result<(Named, AdoptionV1)> {
    system.read(|tx| {
        let results =
            tx.readable_all(&RESULTS, place(&RESULTS, at.results_after).as_deref(), ADOPTED_PER_WRITE)?;
        if let Some(next) = results.next {
            at.results_after = Some(RESULTS.owner(&next)?);
            let named = results.rows.into_iter().map(|(org, job, row)| (org, job, row.page)).collect();
            return Ok((named, at));
        }
        let drafts = tx.readable_all(&HELD, place(&HELD, at.drafts_after).as_deref(), ADOPTED_PER_WRITE)?;
        match drafts.next {
            Some(next) => at.drafts_after = Some(HELD.owner(&next)?),
            None => at.done = true,
        }
        Ok((drafts.rows.into_iter().map(|(org, job, held)| (org, job, held.row.page)).collect(), at))
    })
}

/// A result's place in the walk through those of all organizations.
fn place<V>(table: &OrgTable<JobId, V>, at: Option<(OrgId, JobId)>) -> Option<Vec<u8>> {
    at.map(|(org, job)| table.place(org, &job))
}

/// Removes the files of an organization's pages that nobody names; what was kept again lately stays for the next time.
pub(super) async fn sweep(
    system: &System,
    blobs: &BlobStore,
    org: OrgId,
    removed: &Removed,
    stopping: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let (rows, pages) = (system.org(org), blobs.org(org.0));
    let mut after = None::<Vec<u8>>;
    while !stopping() {
        let step = rows.read(|tx| tx.readable(&UNNAMED, after.as_deref(), STEP_ROWS))?;
        let Some(next) = step.next else { return Ok(()) };
        after = Some(next);
        let mut gone = Vec::new();
        for (key, row) in step.rows {
            // One that is named again has lost its row here with that.
            let named = readable("a kept page", key, rows.read(|tx| tx.get(&PAGES, &key)))?;
            if named.is_none_or(|row| row.is_some()) {
                continue;
            }
            let by_date = by_date(&system.clock().look(), UNTOUCHED_MIN);
            let untouched = pages.remove_untouched(&BlobHash::from_bytes(key.0), by_date).await;
            let untouched = untouched.map_err(|e| Error::internal("remove a page", e));
            if readable("a page", key, untouched)? == Some(true) {
                removed.pages.fetch_add(1, Ordering::Relaxed);
                removed.page_bytes.fetch_add(row.stored_size, Ordering::Relaxed);
                gone.push(key);
            }
        }
        let forget =
            rows.write_freeing(move |tx| gone.iter().try_for_each(|key| tx.delete(&UNNAMED, key).map(drop)));
        forget.await?;
    }
    Ok(())
}

/// How far a file's date must be from the present for the file to be as old as that, whatever the clock was set to meanwhile.
pub(super) fn by_date(now: &Now, age: Duration) -> Duration {
    age.saturating_add(now.off_within(age))
}

/// Puts down the pages that lie in an organization's folder and that no row knows, so that the next [`sweep`] removes them.
pub(super) async fn find_orphans(
    system: &System,
    blobs: &BlobStore,
    org: OrgId,
    stopping: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let (rows, pages) = (system.org(org), blobs.org(org.0));
    for shard in 0..=u8::MAX {
        if stopping() {
            return Ok(());
        }
        let old = pages.older_than(shard, by_date(&system.clock().look(), ORPHAN_AGE)).await;
        for step in old.map_err(|e| Error::internal("look through pages", e))?.chunks(STEP_ROWS) {
            let step: Vec<_> = step.iter().map(|(hash, size)| (PageKey(*hash.as_bytes()), *size)).collect();
            let unknown = rows.read(|tx| {
                let mut unknown = Vec::new();
                for (key, size) in step {
                    let named = readable("a kept page", key, tx.get(&PAGES, &key))?;
                    let unnamed = readable("a page that nobody names", key, tx.get(&UNNAMED, &key))?;
                    if matches!((named, unnamed), (Some(None), Some(None))) {
                        unknown.push((key, size));
                    }
                }
                Ok(unknown)
            })?;
            if unknown.is_empty() {
                continue;
            }
            let put_down = rows.write_freeing(move |tx| {
                for (key, stored_size) in unknown {
                    // It may have been named meanwhile.
                    let named = readable("a kept page", key, tx.get(&PAGES, &key))?;
                    if named.is_some_and(|row| row.is_none()) {
                        tx.put(&UNNAMED, &key, &UnnamedV1 { since: tx.now(), stored_size })?;
                    }
                }
                Ok(())
            });
            put_down.await?;
        }
    }
    Ok(())
}
