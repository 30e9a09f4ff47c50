//! Pages go where they are to lie: from the local folder into the organization's storage, from one storage into another, and
//! back; and objects go that nobody needs any more.
//!
//! Every page is kept in the local folder first, so no job ever waits for a storage and none loses its result with it. From
//! there a page leaves in three steps, each durable before the next: it is put down that an object may be there
//! ([`OBJECTS_TO_GO`]), the object is put, the page's place is changed (which takes back the first). Then the file goes. A
//! process that dies between any of them leaves a page that is found where it was, and an object that is removed or used.
//!
//! **Turns.** A turn is some pages of one organization. Organizations whose storages work have places of their own, so one
//! whose storage is dead or slow waits for its like and for nobody else.

use super::bring;
use super::places;
use super::rows::{OBJECTS_TO_GO, STORAGES, StorageV1};
use super::service::{Storages, folder, object_key};
use super::tell;
use super::turn::{PAGES_AT_ONCE, STEP_PAGES, Turn, put_whole};
use base::ids::OrgId;
use base::{Code, Error, Result};
use blob::BlobHash;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use s3::{Bucket, S3Error};
use server::task::TaskContext;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whose turn it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Turns at once: of organizations whose storages work, and of the others.
const PLACES: usize = 8;
const PLACES_OF_FAILING: usize = 4;
/// How long an organization rests that has nothing to move.
const REST: Duration = Duration::from_secs(5);
/// The longest pause after failures; the first is a second.
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// Moves pages until the box drains.
pub(super) async fn move_all(context: TaskContext) -> Result<()> {
    let storages = context.service::<Storages>();
    let mut turns = FuturesUnordered::new();
    while !context.stopping() {
        for org in due(&context, &storages)? {
            turns.push(Box::pin(under_way(context.clone(), Arc::clone(&storages), org)));
        }
        tokio::select! {
            Some(()) = turns.next() => {}
            () = context.stopped() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    // What is cut off goes on at the next start.
    Ok(())
}

/// The organizations whose turns begin now.
fn due(context: &TaskContext, storages: &Storages) -> Result<Vec<OrgId>> {
    let (mut due, mut last, now) = (Vec::new(), None, Instant::now());
    let (mut running, mut failing) = (0, 0);
    let mut waiting = Vec::new();
    while let Some(org) = context.system().read(|tx| tx.next_org(STORAGES.name(), last))? {
        last = Some(org);
        let (is_running, is_failing, not_before) =
            storages.with(org, |state| (state.is_running, state.failures > 0, state.not_before));
        match (is_running, is_failing) {
            (true, true) => failing += 1,
            (true, false) => running += 1,
            (false, _) if not_before.is_none_or(|time| time <= now) => {
                waiting.push((not_before, org, is_failing));
            }
            _ => {}
        }
    }
    // Who has waited longest goes first.
    waiting.sort_by_key(|(since, ..)| *since);
    for (_, org, is_failing) in waiting {
        let (taken, most) =
            if is_failing { (&mut failing, PLACES_OF_FAILING) } else { (&mut running, PLACES) };
        if *taken < most {
            *taken += 1;
            storages.with(org, |state| state.is_running = true);
            due.push(org);
        }
    }
    Ok(due)
}

/// A turn on a task of its own, which ends with this future.
async fn under_way(context: TaskContext, storages: Arc<Storages>, org: OrgId) {
    let running = Running { storages: Arc::clone(&storages), org };
    let taken = server::on_own_task(async move { Turn::begin(&context, &storages, org)?.take().await }).await;
    if let Err(error) = &taken
        && error.code() == Code::OrgNotFound
    {
        running.storages.with(org, |state| state.not_before = Some(Instant::now() + PAUSE_LONGEST));
        return;
    }
    running.storages.with(org, |state| {
        let is_well = taken.is_ok() && state.failing.is_empty();
        state.failures = if is_well { 0 } else { state.failures.saturating_add(1) };
        let pause = match (&taken, is_well) {
            (Ok(true), true) => Duration::ZERO,
            (_, true) => REST,
            _ => Duration::from_secs(1 << (state.failures - 1).min(10)).min(PAUSE_LONGEST),
        };
        // Who changed something meanwhile wants the next turn at once.
        let is_wanted = state.is_wanted;
        state.is_wanted = false;
        state.not_before = (!is_wanted).then(|| Instant::now() + pause);
    });
    if let Err(error) = taken {
        tracing::warn!(%org, error = error.for_operator(), "pages could not be moved, and are tried again");
    }
}

/// A turn that runs; dropping it says that it does no more.
struct Running {
    storages: Arc<Storages>,
    org: OrgId,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.storages.with(self.org, |state| state.is_running = false);
    }
}

impl Turn<'_> {
    /// Some of everything that is to be done; whether there is more.
    async fn take(self) -> Result<bool> {
        let all = self.rows.read(places::storages)?;
        self.look_after_failing(&all).await?;
        let works =
            |row: &&StorageV1| !self.storages.with(self.org, |state| state.failing.contains_key(&row.number));
        let target = all.iter().find(|row| row.is_target);
        for row in all.iter().filter(works) {
            let done = self.remove_objects(row).await?;
            self.note(row, done).await?;
        }
        if let Some(row) = target.filter(works) {
            let done = Box::pin(self.put_local(row)).await?;
            self.note(row, done).await?;
        }
        for row in all.iter().filter(|row| !row.is_target).filter(works) {
            if target.as_ref().is_some_and(|target| !works(target)) {
                break;
            }
            bring::from(&self, row, target).await?;
            tell::retire(&self.rows, row).await?;
        }
        Ok(self.is_over())
    }

    /// Asks storages that failed whether they work again, and says of both.
    async fn look_after_failing(&self, all: &[StorageV1]) -> Result<()> {
        let failing = self.storages.with(self.org, |state| state.failing.clone());
        for (number, failure) in &failing {
            let Some(row) = all.iter().find(|row| row.number == *number) else {
                self.storages.with(self.org, |state| state.failing.remove(number));
                continue;
            };
            // A failure that only a reader has met is said here, also when it is over by now.
            self.note(row, Err(failure.error.clone())).await?;
            // Within the time that a caller would wait: what is over is to be seen soon.
            let client = self.storages.client(self.org, row, true)?;
            match client.list(&folder(self.org), None, 1).await {
                Ok(_) => {
                    self.storages.with(self.org, |state| state.failing.remove(number));
                    tell::recovered(&self.rows, row).await?;
                }
                Err(error) => self.note(row, Err(error)).await?,
            }
        }
        Ok(())
    }

    /// Removes objects that nobody needs.
    async fn remove_objects(&self, row: &StorageV1) -> Result<std::result::Result<(), S3Error>> {
        let client = self.client(row)?;
        while !self.is_over() {
            let due = self.rows.read(|tx| places::objects_to_go(tx, row.number, STEP_PAGES))?;
            if due.is_empty() {
                break;
            }
            let keys = due.iter().map(|hash| object_key(self.org, &BlobHash::from_bytes(*hash)));
            if let Err(error) = client.delete_each(keys.collect()).await {
                return Ok(Err(error));
            }
            let number = row.number;
            let forget = self.rows.write_freeing(move |tx| {
                tx.unaudited("objects that nobody needs");
                due.into_iter().try_for_each(|hash| tx.delete(&OBJECTS_TO_GO, &(number, hash)).map(drop))
            });
            forget.await?;
        }
        Ok(Ok(()))
    }

    /// Puts the pages of the local folder into the target.
    async fn put_local(&self, target: &StorageV1) -> Result<std::result::Result<(), S3Error>> {
        let (client, wait) = (self.client(target)?, self.storages.upload_after);
        for shard in 0..=u8::MAX {
            let here = self.pages.older_than(shard, wait).await;
            let here = here.map_err(|e| Error::internal("look through pages", e))?;
            for step in here.chunks(STEP_PAGES) {
                if self.is_over() {
                    return Ok(Ok(()));
                }
                let hashes = step.iter().map(|(hash, _)| *hash).collect();
                if let Err(error) = Box::pin(self.put_step(&client, target.number, hashes)).await? {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(()))
    }

    async fn put_step(
        &self,
        client: &Bucket,
        number: u64,
        hashes: Vec<BlobHash>,
    ) -> Result<std::result::Result<(), S3Error>> {
        let (there, to_put) = self.rows.read(|tx| places::sorted(tx, number, hashes))?;
        for hash in there {
            // It was put and its place changed, and then the process ended; or it was brought back here from there.
            self.drop_local(&hash).await?;
        }
        if to_put.is_empty() {
            return Ok(Ok(()));
        }
        self.intend(number, &to_put).await?;
        let puts = futures::stream::iter(to_put).map(|hash| async move {
            let stored = self.pages.stored_page(&hash).await;
            // What is damaged stays: `gleaner doctor` names it.
            let Ok(Some(stored)) = stored else { return Ok(None) };
            let size = stored.len() as u64;
            put_whole(client, &object_key(self.org, &hash), stored).await.map(|()| Some((hash, size)))
        });
        let puts: Vec<std::result::Result<Option<(BlobHash, u64)>, S3Error>> =
            puts.buffer_unordered(PAGES_AT_ONCE).collect().await;
        let mut failed = Ok(());
        let mut put = Vec::new();
        for done in puts {
            match done {
                Ok(done) => put.extend(done),
                Err(error) => failed = Err(error),
            }
        }
        for hash in self.placed(number, put).await? {
            self.drop_local(&hash).await?;
        }
        Ok(failed)
    }

    async fn drop_local(&self, hash: &BlobHash) -> Result<()> {
        self.pages.drop_local(hash).await.map_err(|e| Error::internal("remove a page that lies elsewhere", e))
    }
}
