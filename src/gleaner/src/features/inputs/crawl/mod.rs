//! Crawls: a site is walked link by link, and its pages are jobs like any other.
//!
//! A step looks at the jobs that have ended, reads their pages ([`pages`]) by the crawl's rules ([`rules`]), and writes what
//! they brought ([`take`]) together with the next jobs ([`ask`]), in one operation. All that a walk knows stands in its
//! frontier, so a killed box goes on where it was and does nothing twice. A frontier keeps a bounded number of jobs open, so
//! a look at them costs little, however large the site is.

mod ask;
mod pages;
mod rules;
mod take;

use super::changes;
use super::crawl_rows::{
    CRAWL_CONTENTS, CRAWL_PAGES, CRAWL_RUNS, CRAWL_SHAPES, CRAWLS, CrawlPageV2, CrawlRunV1, CrawlV1,
    FRONTIER_TERMS, FRONTIERS, FRONTIERS_GONE, FrontierTermsV1, FrontierV1, KEPT_BY_NONE, PAGES_UNDER_WAY,
    PageState, ShortDigest,
};
use super::rows::{INPUTS, InputV1};
use super::runs::{FoundV1, GoneV1, InputRunV1, RUNS};
use super::service::{self, Ending};
use super::state::Runner;
use super::stepping::Step;
use crate::features::jobs::{self, SubmitContext};
use base::digest::sha256;
use base::ids::{InputId, InputRunId};
use base::web::WebUrl;
use base::{Code, Result};
use crawl::spelling;
use std::sync::Arc;
use std::time::Duration;
use store::{OrgRead, OrgStore, OrgWrite};
use take::Taking;

/// Jobs of a crawl that are open at once.
const WINDOW: u64 = 128;
/// Rows of one operation of removing.
const REMOVED_PER_STEP: usize = 500;

/// The beginning of the SHA-256 of a text, or of bytes.
fn short(of: impl AsRef<[u8]>) -> ShortDigest {
    let mut digest = [0; 16];
    digest.copy_from_slice(&sha256(of.as_ref())[..16]);
    digest
}

/// Under what a page stands in its frontier.
fn page_key(url: &WebUrl) -> ShortDigest {
    short(spelling::identity(url))
}

/// A run of a crawl as it stands, with its input under the terms that its frontier was begun with.
#[derive(Clone)]
struct Crawling {
    run: InputRunV1,
    input: InputV1,
    row: CrawlRunV1,
    frontier: FrontierV1,
    terms: Arc<CrawlV1>,
}

impl Crawling {
    fn new(
        run: InputRunV1,
        input: InputV1,
        row: CrawlRunV1,
        frontier: FrontierV1,
        terms: FrontierTermsV1,
    ) -> Crawling {
        let (input, terms) = terms.apply(input);
        Crawling { run, input, row, frontier, terms: Arc::new(terms) }
    }
}

/// Takes a run of a crawl further.
pub(super) async fn step(runner: &Runner, own: &OrgStore, run: InputRunV1, input: InputV1) -> Result<Step> {
    let id = run.id;
    let at = own.read(|tx| {
        let Some(row) = tx.get(&CRAWL_RUNS, &id)? else { return Ok(None) };
        let frontier = tx.get(&FRONTIERS, &input.id)?.filter(|frontier| frontier.id == row.frontier);
        let terms = tx.get(&FRONTIER_TERMS, &row.frontier)?;
        Ok(Some((row, frontier.zip(terms))))
    })?;
    let at = match at {
        None => {
            own.write(move |tx| begin(tx, id)).await?;
            return Ok(Step::More);
        }
        Some((_, None)) => {
            own.write(move |tx| end(tx, id, Some("where it was is gone"))).await?;
            return Ok(Step::Over);
        }
        Some((row, Some((frontier, terms)))) => Crawling::new(run, input, row, frontier, terms),
    };
    let is_thorough = runner.is_patient(id);
    let ended = own.read(|tx| pages::ended(tx, &at, is_thorough))?;
    if !ended.is_empty() {
        let mut taken = pages::read(runner, own, &at, ended).await?;
        for page in &mut taken {
            while let Some(ahead) = page.links_ahead() {
                own.write(move |tx| take_ahead(tx, id, ahead)).await?;
            }
        }
        let submit = Arc::clone(&runner.submit);
        own.write(move |tx| take_in(tx, &submit, id, taken)).await?;
        runner.patience(id, true);
        return Ok(Step::More);
    }
    let may_ask = at.frontier.waiting > 0 && at.row.stopped.is_none();
    if may_ask && at.frontier.under_way <= WINDOW / 2 {
        let submit = Arc::clone(&runner.submit);
        own.write(move |tx| take_in(tx, &submit, id, Vec::new())).await?;
        return Ok(Step::More);
    }
    if at.frontier.under_way == 0 && !may_ask {
        own.write(move |tx| end(tx, id, None)).await?;
        runner.patience(id, true);
        return Ok(Step::Over);
    }
    if is_thorough && own.read(|tx| under_way(tx, at.frontier.id))?.is_empty() {
        // Its rows are damaged: what is left goes on without them.
        own.write(move |tx| forget_under_way(tx, id)).await?;
    }
    Ok(Step::Later(runner.patience(id, false)))
}

fn forget_under_way(tx: &OrgWrite<'_>, id: InputRunId) -> Result<()> {
    let Some(at) = crawling(tx, id)? else { return Ok(()) };
    tx.put(&FRONTIERS, &at.input.id, &FrontierV1 { under_way: 0, ..at.frontier })
}

/// The run as the transaction has it; none where it or its input has ended.
fn crawling(tx: &OrgRead<'_>, id: InputRunId) -> Result<Option<Crawling>> {
    let Some(run) = service::open_run(tx, id)? else { return Ok(None) };
    let (Some(input), Some(row)) = (tx.get(&INPUTS, &run.input_id)?, tx.get(&CRAWL_RUNS, &id)?) else {
        return Ok(None);
    };
    let Some(frontier) = tx.get(&FRONTIERS, &input.id)?.filter(|known| known.id == row.frontier) else {
        return Ok(None);
    };
    let terms = tx.get(&FRONTIER_TERMS, &frontier.id)?;
    Ok(terms.map(|terms| Crawling::new(run, input, row, frontier, terms)))
}

/// Writes links of a page that has too many for one operation.
fn take_ahead(tx: &OrgWrite<'_>, id: InputRunId, ahead: pages::LinksAhead) -> Result<()> {
    let Some(at) = crawling(tx, id)? else { return Ok(()) };
    let mut taking = Taking::new(tx, at);
    taking.links_ahead(ahead)?;
    let at = taking.finish()?;
    tx.put(&FRONTIERS, &at.input.id, &at.frontier)?;
    tx.put(&CRAWL_RUNS, &id, &at.row)
}

/// Writes what pages brought, and asks for the next ones: one operation.
fn take_in(
    tx: &OrgWrite<'_>,
    submit: &SubmitContext,
    id: InputRunId,
    taken: Vec<pages::TakenPage>,
) -> Result<()> {
    let Some(at) = crawling(tx, id)? else { return Ok(()) };
    let mut taking = Taking::new(tx, at);
    for page in taken {
        taking.page(page)?;
    }
    let mut at = taking.finish()?;
    ask::ask(tx, submit, &mut at)?;
    tx.put(&FRONTIERS, &at.input.id, &at.frontier)?;
    tx.put(&CRAWL_RUNS, &id, &at.row)
}

/// Begins a run: where the one before it has left pages under the same terms, there.
fn begin(tx: &OrgWrite<'_>, id: InputRunId) -> Result<()> {
    let Some(mut run) = service::open_run(tx, id)? else { return Ok(()) };
    let Some(mut input) = tx.get(&INPUTS, &run.input_id)? else { return Ok(()) };
    run.started_at = Some(tx.now());
    input.last_run_at = run.started_at;
    tx.put(&RUNS, &id, &run)?;
    tx.put(&INPUTS, &input.id, &input)?;
    changes::started(tx, &run)?;
    let before = tx.get(&FRONTIERS, &input.id)?;
    let goes_on = |frontier: &FrontierV1| {
        !run.is_full && frontier.terms == input.terms && frontier.waiting + frontier.under_way > 0
    };
    let frontier = match before {
        Some(frontier) if goes_on(&frontier) => frontier.id,
        before => {
            if let Some(before) = before {
                tx.put(&FRONTIERS_GONE, &before.id, &GoneV1 { at: tx.now() })?;
            }
            begin_frontier(tx, id, &input)?;
            id
        }
    };
    let row = CrawlRunV1 {
        input_id: input.id,
        frontier,
        found: FoundV1::default(),
        asked: 0,
        failed: 0,
        robots_refused: 0,
        led_away: 0,
        depth_reached: 0,
        left: 0,
        traps: Vec::new(),
        stopped: None,
        first_failure: None,
    };
    tx.put(&CRAWL_RUNS, &id, &row)
}

/// A frontier of the start pages.
fn begin_frontier(tx: &OrgWrite<'_>, id: InputRunId, input: &InputV1) -> Result<()> {
    let Some(terms) = tx.get(&CRAWLS, &input.id)? else {
        return tx.delete(&FRONTIERS, &input.id).map(drop);
    };
    let mut frontier = FrontierV1 { id, terms: input.terms, next: 0, waiting: 0, under_way: 0 };
    for url in terms.start_urls.iter().filter_map(|url| WebUrl::parse(url).ok()) {
        let key = (id, page_key(&url));
        if tx.get(&CRAWL_PAGES, &key)?.is_some() {
            continue;
        }
        let page = CrawlPageV2 {
            frontier: id,
            url: url.as_str().to_owned(),
            depth: 0,
            kept_by: terms.rules.is_empty().then_some(KEPT_BY_NONE),
            follow: true,
            state: PageState::Waiting,
            order: frontier.next,
            claims: 0,
            found_on: None,
        };
        tx.insert(&CRAWL_PAGES, &key, &page)?;
        frontier.next += 1;
        frontier.waiting += 1;
    }
    tx.put(&FRONTIER_TERMS, &id, &FrontierTermsV1::new(input, terms))?;
    tx.put(&FRONTIERS, &input.id, &frontier)
}

/// Ends a run; what it has left the next one goes on with.
fn end(tx: &OrgWrite<'_>, id: InputRunId, broken: Option<&str>) -> Result<()> {
    let Some(mut run) = service::open_run(tx, id)? else { return Ok(()) };
    let Some(mut row) = tx.get(&CRAWL_RUNS, &id)? else { return Ok(()) };
    let frontier = tx.get(&FRONTIERS, &run.input_id)?.filter(|frontier| frontier.id == row.frontier);
    row.left = frontier.as_ref().map_or(0, |frontier| frontier.waiting);
    if let Some(frontier) = frontier.filter(|_| row.left == 0 || broken.is_some()) {
        tx.delete(&FRONTIERS, &run.input_id)?;
        tx.put(&FRONTIERS_GONE, &frontier.id, &GoneV1 { at: tx.now() })?;
    }
    tx.put(&CRAWL_RUNS, &id, &row)?;
    run.found = row.found;
    run.jobs_created = row.asked;
    run.jobs_missing = row.left;
    run.is_incomplete = row.left > 0 || row.failed > 0;
    let stopped = row.stopped.map(|why| match row.left {
        0 => why,
        left => format!("{why}; {left} pages are left, and the next run goes on with them"),
    });
    let came_to_nothing = run.found.documents + run.found.unchanged == 0;
    let failure = broken.map(str::to_owned).or_else(|| {
        let why = || stopped.clone().or(row.first_failure).unwrap_or_else(|| "no page came".to_owned());
        came_to_nothing.then(why)
    });
    let ending = match failure {
        Some(message) => Ending::failed(message),
        None => Ending::whole(stopped, Vec::new()),
    };
    service::end(tx, run, ending)
}

/// The input is deleted: what its crawl knows goes behind it.
pub(super) fn forget(tx: &OrgWrite<'_>, input: InputId) -> Result<()> {
    tx.delete(&CRAWLS, &input)?;
    if let Some(frontier) = tx.get(&FRONTIERS, &input)? {
        tx.delete(&FRONTIERS, &input)?;
        tx.put(&FRONTIERS_GONE, &frontier.id, &GoneV1 { at: tx.now() })?;
    }
    Ok(())
}

/// Cancels the jobs that a run without an input has open; those of other kinds have none here.
pub(super) fn cancel_pages(tx: &OrgWrite<'_>, submit: &SubmitContext, id: InputRunId) -> Result<()> {
    let Some(row) = tx.get(&CRAWL_RUNS, &id)? else { return Ok(()) };
    for (_, _, job) in under_way(tx, row.frontier)? {
        match jobs::cancel_job(tx, submit, job) {
            Err(error) if matches!(error.code(), Code::JobTerminal | Code::NotFound) => {}
            canceled => drop(canceled?),
        }
    }
    if let Some(mut run) = service::open_run(tx, id)? {
        (run.found, run.jobs_created) = (row.found, row.asked);
        tx.put(&RUNS, &id, &run)?;
    }
    Ok(())
}

/// Pages whose jobs have not been looked at since they were submitted.
fn under_way(
    tx: &OrgRead<'_>,
    frontier: InputRunId,
) -> Result<Vec<(ShortDigest, CrawlPageV2, base::ids::JobId)>> {
    let rows = tx.readable_by(&CRAWL_PAGES, &PAGES_UNDER_WAY, frontier, None, None, 2 * WINDOW as usize)?;
    let pages = rows.rows.into_iter().filter_map(|((_, key), page)| match page.state {
        PageState::UnderWay(job) => Some((key, page, job)),
        _ => None,
    });
    Ok(pages.collect())
}

/// Removes some of a frontier that nobody goes on with; whether nothing is left.
pub(super) fn remove_some(tx: &OrgWrite<'_>, id: InputRunId) -> Result<bool> {
    let from = tx.place(&(id, [0; 16]));
    let mut removed = 0;
    macro_rules! remove {
        ($table:expr) => {
            let found = tx.readable($table, Some(&from), REMOVED_PER_STEP)?;
            for (key, _) in found.rows.into_iter().take_while(|(key, _)| key.0 == id) {
                tx.delete($table, &key)?;
                removed += 1;
            }
        };
    }
    remove!(&CRAWL_PAGES);
    remove!(&CRAWL_SHAPES);
    remove!(&CRAWL_CONTENTS);
    if removed == 0 {
        tx.delete(&FRONTIER_TERMS, &id)?;
        tx.delete(&FRONTIERS_GONE, &id)?;
    }
    Ok(removed == 0)
}

/// How long a page that is kept is not asked for again.
fn revisit_after(terms: &CrawlV1) -> Duration {
    Duration::from_secs(terms.revisit_after_secs)
}
