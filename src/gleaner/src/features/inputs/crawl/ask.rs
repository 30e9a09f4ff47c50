//! The next pages of a crawl are asked for, inside the caller's transaction.

use super::super::crawl_rows::{
    CRAWL_PAGES, CRAWL_SEEN, CRAWL_SHAPES, CrawlPageV2, PAGES_WAITING, PageState, ShortDigest,
};
use super::pages::kept_as;
use super::{Crawling, WINDOW, revisit_after, short};
use crate::features::jobs::{self, BatchSource, NewOptions, PageJob, RunJobs, SubmitContext, submit_pages};
use crate::features::urls;
use base::Result;
use base::web::WebUrl;
use crawl::{shape, spelling};
use store::{OrgRead, OrgWrite};

/// Jobs of one operation: others' writes do not wait for a crawl.
const JOBS_PER_WRITE: u64 = 64;
/// Pages that one operation looks at.
const LOOKS_PER_WRITE: usize = 400;
const LOOKS_AT_ONCE: usize = 100;

/// Asks for as many pages as there is room for, in their order.
pub(super) fn ask(tx: &OrgWrite<'_>, context: &SubmitContext, at: &mut Crawling) -> Result<()> {
    if at.row.stopped.is_some() || at.frontier.waiting == 0 {
        return Ok(());
    }
    let left = u64::from(at.terms.max_pages).saturating_sub(at.row.asked);
    let room = WINDOW.saturating_sub(at.frontier.under_way).min(JOBS_PER_WRITE).min(left);
    let (picked, is_end) = pick(tx, at, usize::try_from(room).unwrap_or(0))?;
    if is_end && picked.is_empty() {
        // Also where a row is damaged, and passed over.
        at.frontier.waiting = 0;
    }
    if left == 0 && at.frontier.waiting > 0 {
        at.row.stopped = Some(format!("asked for {} pages, as many as it may", at.terms.max_pages));
        return Ok(());
    }
    if picked.is_empty() {
        return Ok(());
    }
    submit(tx, context, at, picked)
}

type Picked = (ShortDigest, CrawlPageV2, WebUrl);

/// The first pages that are to be asked for, and whether there are no others; those in front of them that need not be have
/// had their turn.
fn pick(tx: &OrgWrite<'_>, at: &mut Crawling, room: usize) -> Result<(Vec<Picked>, bool)> {
    let (mut picked, mut after, mut looked) = (Vec::new(), None::<Vec<u8>>, 0);
    while looked < LOOKS_PER_WRITE {
        let frontier = at.frontier.id;
        let step =
            tx.readable_by(&CRAWL_PAGES, &PAGES_WAITING, frontier, None, after.as_deref(), LOOKS_AT_ONCE)?;
        let Some(next) = step.next else { return Ok((picked, true)) };
        after = Some(next);
        looked += LOOKS_AT_ONCE;
        for ((_, key), mut page) in step.rows {
            let url = WebUrl::parse(&page.url).ok();
            let url = match url {
                Some(url) if needs_asking(tx, at, key, &page, &url)? => url,
                _ => {
                    page.state = PageState::Done;
                    at.frontier.waiting -= 1;
                    tx.put(&CRAWL_PAGES, &(frontier, key), &page)?;
                    continue;
                }
            };
            if picked.len() >= room {
                return Ok((picked, false));
            }
            picked.push((key, page, url));
        }
    }
    Ok((picked, false))
}

/// Whether a page is to be asked for; if not, it is counted.
fn needs_asking(
    tx: &OrgRead<'_>,
    at: &mut Crawling,
    key: ShortDigest,
    page: &CrawlPageV2,
    url: &WebUrl,
) -> Result<bool> {
    let shape = short(shape::shape(url));
    if !page.is_kept_by_rule()
        && tx.get(&CRAWL_SHAPES, &(at.frontier.id, shape))?.is_some_and(|s| s.is_closed)
    {
        at.row.found.filtered += 1;
        return Ok(false);
    }
    if page.kept_by.is_none() || page.depth == 0 || at.run.is_full {
        return Ok(true);
    }
    match known(tx, at, key, url)? {
        None => return Ok(true),
        Some(KnownAs::Itself) => at.row.found.unchanged += 1,
        Some(KnownAs::Double) => at.row.found.duplicates += 1,
    }
    Ok(false)
}

/// What a page is known as that was read lately.
enum KnownAs {
    Itself,
    Double,
}

/// What a page is known as, if it was read lately, by this crawl or for whomever.
fn known(tx: &OrgRead<'_>, at: &Crawling, key: ShortDigest, url: &WebUrl) -> Result<Option<KnownAs>> {
    let lately = |date| tx.age(date) < revisit_after(&at.terms);
    if let Some(seen) = tx.get(&CRAWL_SEEN, &(at.input.id, key))?.filter(|seen| lately(seen.at)) {
        return Ok(Some(if seen.is_double { KnownAs::Double } else { KnownAs::Itself }));
    }
    let row = urls::find(tx, &spelling::kept(url))?;
    Ok(row.and_then(|row| row.last_scraped_at).is_some_and(lately).then_some(KnownAs::Itself))
}

/// The address of the page whose link led to this one first.
fn found_on(tx: &OrgRead<'_>, page: &CrawlPageV2) -> Result<Option<String>> {
    let Some(key) = page.found_on else { return Ok(None) };
    Ok(tx.get(&CRAWL_PAGES, &(page.frontier, key))?.map(|from| from.url))
}

fn submit(tx: &OrgWrite<'_>, context: &SubmitContext, at: &mut Crawling, picked: Vec<Picked>) -> Result<()> {
    let run = RunJobs {
        batch: at.run.batch(),
        source: BatchSource::Crawl,
        schedule: None,
        workflow_id: at.input.workflow_id,
        options: jobs::options("options", NewOptions::default())?,
        session: None,
    };
    let job = |(_, page, url): &Picked| {
        let (url, found_on) = (url.clone(), found_on(tx, page)?);
        Ok(match page.kept_by {
            None => PageJob { url, page_type: None, tags: Vec::new(), found_on },
            Some(kept_by) => {
                let own = kept_as(at, kept_by);
                let more = at.input.tags.iter().filter(|tag| !own.tags.contains(tag));
                let tags = own.tags.iter().chain(more).cloned().collect();
                PageJob { url, page_type: own.page_type, tags, found_on }
            }
        })
    };
    let pages: Vec<_> = picked.iter().map(job).collect::<Result<_>>()?;
    let (part, ids) = submit_pages(tx, context, &run, &pages)?;
    for ((key, mut page, _), id) in picked.into_iter().zip(ids) {
        at.frontier.waiting -= 1;
        match id {
            Some(id) => {
                page.state = PageState::UnderWay(id);
                at.frontier.under_way += 1;
                at.row.asked += 1;
            }
            None => {
                page.state = PageState::Failed;
                at.row.failed += 1;
            }
        }
        tx.put(&CRAWL_PAGES, &(at.frontier.id, key), &page)?;
    }
    at.row.first_failure = at.row.first_failure.take().or(part.refusal);
    at.row.stopped = part.stopped.map(|why| why.detail().unwrap_or(why.sentence()).to_owned());
    Ok(())
}
