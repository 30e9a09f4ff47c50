//! What goes by itself when its time is over: results with their pages, pages alone, results of a URL beyond the newest.
//!
//! Every operation removes a few rows, so that nobody's writes wait for it; search and SQL follow the change records of the
//! rows. A job's id tells when the job was submitted, and ids sort by time, so a walk begins at the oldest row and ends at the
//! first one that stays.

use super::changes::EXPIRED;
use super::feed::SearchFeed;
use super::pages;
use super::rows::{RESULTS, RESULTS_BY_URL};
use super::service::delete;
use crate::features::billing::{Retention, Terms, cutoff};
use crate::features::events::NewEvent;
use base::clock::Moment;
use base::ids::{JobId, OrgId, made_at};
use base::{Error, Result};
use blob::BlobStore;
use serde_json::json;
use server::task::TaskContext;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{Key, OrgStore, OrgWrite, Seek, System};

/// Rows removed by one operation.
const STEP_ROWS: usize = 32;
/// How much longer it is remembered when results were indexed: dates are not as exact as moments.
const TIMES_MARGIN: Duration = Duration::from_secs(3_600);
/// Those forgotten by one operation.
const TIMES_PER_STEP: usize = 512;
/// Index entries of one look at the results of URLs.
const LOOK_ENTRIES: usize = 1_000;

/// One round over all organizations.
pub(super) async fn round(context: TaskContext) -> Result<()> {
    let (retention, system) = (context.service::<Retention>(), context.system());
    let blobs = context.service::<BlobStore>();
    let stopping = || context.stopping();
    let mut last = None;
    while let Some((org, _)) = system.read(|tx| tx.next_used(last))? {
        last = Some(org);
        if context.stopping() {
            return Ok(());
        }
        let rows = system.org(org);
        let of_org = async {
            let terms = rows.read(|tx| retention.of(tx))?;
            expire(&context, &rows, terms, &retention).await
        };
        // What fails of one organization keeps no other's, and none of its other parts.
        if let Err(error) = of_org.await {
            tracing::error!(%org, %error, "results whose time is over could not be removed");
        }
        if let Err(error) = pages::sweep(system, &blobs, org, &retention.removed, &stopping).await {
            tracing::error!(%org, %error, "pages that nobody names could not be removed");
        }
    }
    forget_times(&context).await
}

/// Forgets when results were indexed that are gone, whatever they went by: a result comes after its job, so what was noted
/// before the oldest job with a result speaks of none that is left.
async fn forget_times(context: &TaskContext) -> Result<()> {
    let feed = context.service::<SearchFeed>();
    let before = oldest_result(context.system())?.before(TIMES_MARGIN);
    while !context.stopping() && feed.forget_times(before, TIMES_PER_STEP).await? == TIMES_PER_STEP {}
    Ok(())
}

/// When the oldest job was made of those that have results; the present when none has. Nobody knows of ids that are ahead of
/// it, as an earlier release made them in a year that was wrong.
pub(super) fn oldest_result(system: &System) -> Result<Moment> {
    let present = system.clock().moment();
    let (mut oldest, mut last) = (present, None);
    while let Some(org) = system.read(|tx| tx.next_org(RESULTS.name(), last))? {
        last = Some(org);
        let first = system.org(org).read(|tx| tx.keys(RESULTS.name(), None, 1))?;
        let made = first.first().and_then(|key| JobId::decode(key)).and_then(|job| made_at(job.0));
        oldest = made.map_or(oldest, |made| if made > present { Moment(i64::MIN) } else { oldest.min(made) });
        if oldest == Moment(i64::MIN) {
            break;
        }
    }
    Ok(oldest)
}

/// Looks for files that no row knows: what a job kept that was canceled, or that the process died over.
pub(super) async fn orphans(context: TaskContext) -> Result<()> {
    let (system, blobs) = (context.system(), context.service::<BlobStore>());
    let swept = blobs.sweep_unfinished(pages::by_date(&context.look(), UNFINISHED_AGE)).await;
    swept.map_err(|e| Error::internal("sweep unfinished pages", e))?;
    let mut last: Option<OrgId> = None;
    while let Some((org, _)) = system.read(|tx| tx.next_used(last))? {
        last = Some(org);
        if let Err(error) = pages::find_orphans(system, &blobs, org, &|| context.stopping()).await {
            tracing::error!(%org, %error, "an organization's pages could not be looked through");
        }
    }
    Ok(())
}

/// How old a file must be that was never finished.
const UNFINISHED_AGE: Duration = Duration::from_secs(24 * 3_600);

async fn expire(context: &TaskContext, rows: &OrgStore, terms: Terms, retention: &Retention) -> Result<()> {
    let now = context.moment();
    let removed = &retention.removed;
    let (mut results, mut pages, mut versions) = (Ok(()), Ok(()), Ok(()));
    let (gone, alone) = (AtomicU64::new(0), AtomicU64::new(0));
    if let Some(before) = cutoff(now, terms.results_days) {
        results = older(context, rows, (RESULTS.name(), before), &gone, delete).await;
    }
    if let Some(before) = cutoff(now, terms.pages_days) {
        // Pages are counted when their files go.
        let table = pages::NAMINGS.name();
        pages = older(context, rows, (table, before), &alone, release_page).await;
    }
    if terms.versions_per_url > 0 {
        let keep = usize::try_from(terms.versions_per_url).unwrap_or(usize::MAX);
        versions = surplus(context, rows, keep, &gone).await;
    }
    let mut beyond = Ok(());
    if terms.pages_mb > 0 {
        beyond = too_many(context, rows, u64::from(terms.pages_mb) << 20, &alone).await;
    }
    let (gone, alone) = (gone.into_inner(), alone.into_inner());
    removed.results.fetch_add(gone, Ordering::Relaxed);
    let told = if gone + alone > 0 { tell(rows, gone, alone).await } else { Ok(()) };
    results.and(pages).and(versions).and(beyond).and(told)
}

/// Says in the organization's log of events what went.
async fn tell(rows: &OrgStore, results: u64, pages: u64) -> Result<()> {
    let org = rows.id();
    let data = json!({ "results": results, "pages": pages });
    let told = rows.write_freeing(move |tx| {
        tx.unaudited("what goes by itself");
        NewEvent::of(&EXPIRED, org).data(data).write(tx)
    });
    told.await
}

/// Removes the oldest pages of an organization until what is left takes no more than this.
async fn too_many(context: &TaskContext, rows: &OrgStore, bytes: u64, count: &AtomicU64) -> Result<()> {
    let mut after = None::<Vec<u8>>;
    while !context.stopping() {
        let (jobs, last) = rows.read(|tx| {
            let over = tx.used(pages::PAGES.name())?.bytes.saturating_sub(bytes);
            let (mut jobs, mut last, mut sum) = (Vec::new(), None, 0);
            // No more than must go: one that others name as well takes nothing along, and the next step goes on.
            for key in tx.keys(pages::NAMINGS.name(), after.as_deref(), STEP_ROWS)? {
                if sum >= over {
                    break;
                }
                if let Some(job) = JobId::decode(&key) {
                    sum += pages::size_of(tx, job)?;
                    jobs.push(job);
                }
                last = Some(key);
            }
            Ok((jobs, last))
        })?;
        if last.is_none() {
            return Ok(());
        }
        count.fetch_add(remove_all(rows, jobs, release_page).await?, Ordering::Relaxed);
        after = last;
    }
    Ok(())
}

/// The page of a result; of a job that goes on it is needed yet.
fn release_page(tx: &OrgWrite<'_>, job: JobId) -> Result<bool> {
    match tx.get(&RESULTS, &job)? {
        Some(_) => pages::release(tx, job),
        None => Ok(false),
    }
}

type Remove = fn(&OrgWrite<'_>, JobId) -> Result<bool>;

/// Removes from the oldest on what stands in a table under jobs that were submitted before a moment.
async fn older(
    context: &TaskContext,
    rows: &OrgStore,
    (table, before): (&'static str, Moment),
    count: &AtomicU64,
    remove: Remove,
) -> Result<()> {
    let mut after = None::<Vec<u8>>;
    while !context.stopping() {
        let keys = rows.read(|tx| tx.keys(table, after.as_deref(), STEP_ROWS))?;
        // A key that is no job's says nothing of those behind it.
        let jobs: Vec<_> = keys.iter().filter_map(|key| JobId::decode(key)).collect();
        let made = |job: &JobId| made_at(job.0);
        let is_last = keys.len() < STEP_ROWS || jobs.iter().filter_map(made).any(|made| made >= before);
        let due: Vec<_> =
            jobs.into_iter().filter(|job| made(job).is_some_and(|made| made < before)).collect();
        if !due.is_empty() {
            count.fetch_add(remove_all(rows, due, remove).await?, Ordering::Relaxed);
        }
        if is_last {
            return Ok(());
        }
        after = keys.into_iter().next_back();
    }
    Ok(())
}

/// One operation, or one each where a row is damaged; how many there were.
async fn remove_all(rows: &OrgStore, jobs: Vec<JobId>, remove: Remove) -> Result<u64> {
    let removed = rows.write_each_freeing("a result", jobs, move |tx, job| remove(tx, *job)).await?;
    Ok(removed.into_iter().flatten().filter(|removed| *removed).count() as u64)
}

/// Removes the oldest results of URLs that have more than `keep`. Walks the index of results by URL, which is in the order of
/// the URLs and within one by time.
async fn surplus(context: &TaskContext, rows: &OrgStore, keep: usize, count: &AtomicU64) -> Result<()> {
    let (mut from, mut url) = (Seek::start(), None);
    let mut newest = VecDeque::new();
    while !context.stopping() {
        let look = rows.read(|tx| tx.index_entries(&RESULTS, &RESULTS_BY_URL, (), &from, LOOK_ENTRIES))?;
        let mut due = Vec::new();
        for entry in look.entries {
            let Some((of_url, _)) = entry.rest else { continue };
            if url != Some(of_url) {
                url = Some(of_url);
                newest.clear();
            }
            newest.push_back(entry.key);
            if newest.len() > keep {
                due.extend(newest.pop_front());
            }
        }
        for step in due.chunks(STEP_ROWS) {
            count.fetch_add(remove_all(rows, step.to_vec(), delete).await?, Ordering::Relaxed);
        }
        if look.is_last {
            return Ok(());
        }
        from = look.next;
    }
    Ok(())
}
