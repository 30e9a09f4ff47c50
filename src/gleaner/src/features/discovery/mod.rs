//! Discovery and teaching: schemas that the box finds out from stored pages by itself, and attributes that it learns from examples.
//!
//! A discovery is a row that a task works off ([`task`]): [`sample`] chooses pages, [`public`] says which may teach what is everybody's, [`lesson`] what
//! they teach, and [`check`] what of it holds. With an endpoint set, a language model ([`teacher`]) proposes as well. [`learn`] is taught by its caller, at once, and what comes of it is the
//! organization's own; [`point`] is shown one element.

mod check;
mod learn;
mod lesson;
mod point;
mod public;
mod rows;
mod sample;
mod task;
mod teacher;
mod wire;

use super::Feature;
use crate::features::extraction::{
    Extractor, RESULTS, ReadingTurns, ResultV4, Site, is_document, newest_page, newest_page_of_url,
};
use base::audit::Action;
use base::ids::{DiscoveryId, JobId};
use base::page::PageRequest;
use base::terms::PageType;
use base::web::{WebUrl, host_of};
use base::{Code, Error, Result};
use blob::BlobStore;
pub use public::why_private;
use rows::{DISCOVERIES, DiscoveryV1, OWN_OPEN};
use sample::{SAMPLE_PAGES_DEFAULT, SAMPLE_PAGES_MAX};
use server::permit::{WorkflowsRead, WorkflowsWrite};
use server::task::{Signals, TaskSpec};
use server::{Accepted, Body, Handler, Need, Org, Path, Route};
use std::time::Duration;
use store::{Event, OrgRead, OrgWrite};
use wire::{DiscoveryRequest, DiscoveryView};

/// How often it is looked for discoveries that nobody has told of.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often those go whose time is over.
const REMOVE_EVERY: Duration = Duration::from_secs(3_600);
/// Discoveries of an organization that have not ended.
const OPEN_MAX: usize = 20;
/// When a client looks again.
const RETRY_AFTER_SECS: u32 = 2;

pub static FEATURE: Feature = Feature {
    name: "discovery",
    uses: &["extraction", "jobs", "llm", "providers", "schedules", "site_sessions"],
    tables: &[&DISCOVERIES],
    routes: &[
        Route::post("/api/v1/extraction/discover", "discoverSchema", &Handler::new(discover))
            .about("Lets the box find out a schema from stored pages of a domain. Nothing is fetched.")
            .fails(&[Code::NotFound, Code::RateLimited]),
        Route::get("/api/v1/extraction/discoveries/{id}", "getDiscovery", &Handler::new(get))
            .about("Where a discovery stands, and what came of it."),
        Route::post("/api/v1/extraction/learn", "learnFromExamples", &Handler::new(learn::learn))
            .about(
                "Learns attributes from two or more stored pages whose values are told. Nothing is saved unless it is asked for.",
            )
            .fails(&[Code::NotFound, Code::PayloadTooLarge, Code::RateLimited]),
        Route::post("/api/v1/extraction/propose-xpath", "proposeXpath", &Handler::new(point::propose))
            .about(
                "Proposes XPaths for an element of a stored page, with what they give on it and on other stored pages. Nothing is kept.",
            )
            .fails(&[Code::NotFound, Code::PayloadTooLarge, Code::RateLimited]),
    ],
    tasks: &[
        TaskSpec::new(task::RUN, LOOK_EVERY, |context| Box::pin(task::run_all(context))),
        TaskSpec::new("discovery.remove", REMOVE_EVERY, |context| Box::pin(task::remove_old(context))),
    ],
    needs: &[Need::of::<Extractor>(), Need::of::<BlobStore>(), Need::of::<ReadingTurns>()],
    ..Feature::NONE
};

async fn discover(
    org: Org<WorkflowsWrite>,
    Body(asked): Body<DiscoveryRequest>,
) -> Result<Accepted<DiscoveryView>> {
    let site = Site::parse("domain", &asked.domain)?;
    if asked.page_type.is_some_and(PageType::is_own) {
        let reason = "is a type of your own, and what is discovered is everybody's: teach it by examples";
        return Err(Error::invalid("pageType", reason));
    }
    let sample_size = asked.sample_size.map_or(SAMPLE_PAGES_DEFAULT, |size| size as usize);
    if !(1..=SAMPLE_PAGES_MAX).contains(&sample_size) {
        return Err(Error::invalid("sampleSize", format!("must be from 1 to {SAMPLE_PAGES_MAX}")));
    }
    let named = NamedPages::of(asked.job_ids, asked.urls)?;
    let jobs = org.read(|tx| {
        let jobs = named.jobs(tx, &site)?;
        if jobs.is_empty() && newest_page(tx, &site, is_document)?.is_none() {
            let message = "There is no stored page of the domain: collect one first.";
            return Err(Error::not_found("Page").message(message));
        }
        Ok(jobs)
    })?;
    let signals = org.service::<Signals>();
    let made = org.write(move |tx| {
        if tx.count_index(&OWN_OPEN, 1_u8, OPEN_MAX)? >= OPEN_MAX {
            let message = format!("{OPEN_MAX} discoveries of yours have not ended.");
            return Err(Error::new(Code::RateLimited).message(message).header("retry-after", "10"));
        }
        let sample_size = if jobs.is_empty() { sample_size } else { jobs.len() } as u32;
        let row = DiscoveryV1::new(site.host, asked.page_type, jobs, sample_size, tx.now());
        insert(tx, &row)?;
        tx.after_commit(move |_| signals.wake(task::RUN));
        Ok(row)
    });
    Ok(Accepted::new(DiscoveryView::new(made.await?)?).retry_after(RETRY_AFTER_SECS))
}

fn insert(tx: &OrgWrite<'_>, row: &DiscoveryV1) -> Result<()> {
    tx.insert(&DISCOVERIES, &row.id, row)?;
    tx.audit(Event::new(Action::DiscoveryStarted).of(row.id).with("domain", row.domain.as_str()))
}

/// Begins a discovery that nobody has asked for, because pages are read badly; false where one of the kind has not ended, too many
/// have not, or the type is the organization's own.
pub fn begin_anew(tx: &OrgWrite<'_>, domain: &str, page_type: PageType) -> Result<bool> {
    if page_type.is_own() || tx.count_index(&OWN_OPEN, 1_u8, OPEN_MAX)? >= OPEN_MAX {
        return Ok(false);
    }
    let page = PageRequest { limit: OPEN_MAX, cursor: None };
    let is_it = |row: &DiscoveryV1| row.domain == domain && row.page_type.is_none_or(|own| own == page_type);
    if !tx.page_by(&DISCOVERIES, &OWN_OPEN, 1_u8, &page, is_it)?.items.is_empty() {
        return Ok(false);
    }
    let sample_size = SAMPLE_PAGES_DEFAULT as u32;
    insert(tx, &DiscoveryV1::new(domain.to_owned(), Some(page_type), Vec::new(), sample_size, tx.now()))?;
    Ok(true)
}

async fn get(org: Org<WorkflowsRead>, Path(id): Path<DiscoveryId>) -> Result<Body<DiscoveryView>> {
    let row = org.read(|tx| tx.require(&DISCOVERIES, &id))?;
    Ok(Body(DiscoveryView::new(row)?))
}

/// The pages that a request names, if it names any.
enum NamedPages {
    Newest,
    Jobs(Vec<JobId>),
    Urls(Vec<WebUrl>),
}

impl NamedPages {
    fn of(jobs: Option<Vec<JobId>>, urls: Option<Vec<String>>) -> Result<NamedPages> {
        let count = |field: &str, count: usize| match (1..=SAMPLE_PAGES_MAX).contains(&count) {
            true => Ok(()),
            false => Err(Error::invalid(field, format!("must be 1 to {SAMPLE_PAGES_MAX}"))),
        };
        match (jobs, urls) {
            (None, None) => Ok(NamedPages::Newest),
            (Some(_), Some(_)) => Err(Error::invalid("urls", "cannot stand beside jobIds")),
            (Some(jobs), None) => count("jobIds", jobs.len()).map(|()| NamedPages::Jobs(jobs)),
            (None, Some(urls)) => {
                count("urls", urls.len())?;
                let parse = |(at, url): (usize, &String)| {
                    WebUrl::parse(url).map_err(|e| Error::invalid(&format!("urls[{at}]"), e))
                };
                urls.iter().enumerate().map(parse).collect::<Result<_>>().map(NamedPages::Urls)
            }
        }
    }

    /// The jobs whose pages they are.
    fn jobs(&self, tx: &OrgRead<'_>, site: &Site) -> Result<Vec<JobId>> {
        match self {
            NamedPages::Newest => Ok(Vec::new()),
            NamedPages::Jobs(jobs) => {
                let page = |(at, job): (usize, &JobId)| page_of_job(tx, site, &format!("jobIds[{at}]"), *job);
                jobs.iter().enumerate().map(page).map(|row| Ok(row?.job)).collect()
            }
            NamedPages::Urls(urls) => {
                let page = |(at, url): (usize, &WebUrl)| page_of_url(tx, site, &format!("urls[{at}]"), url);
                urls.iter().enumerate().map(page).map(|row| Ok(row?.job)).collect()
            }
        }
    }
}

/// The result of a job; `field` names it where it is of another site.
fn page_of_job(tx: &OrgRead<'_>, site: &Site, field: &str, job: JobId) -> Result<ResultV4> {
    let row = tx.require(&RESULTS, &job)?;
    of_site(site, field, row)
}

/// The newest result of a URL with a stored page.
fn page_of_url(tx: &OrgRead<'_>, site: &Site, field: &str, url: &WebUrl) -> Result<ResultV4> {
    let row = newest_page_of_url(tx, url.as_str())?;
    let missing =
        || Error::not_found("Page").message(format!("{field}: there is no stored page of this URL"));
    of_site(site, field, row.ok_or_else(missing)?)
}

fn of_site(site: &Site, field: &str, row: ResultV4) -> Result<ResultV4> {
    if site.has(&row) {
        return Ok(row);
    }
    let (host, wanted) = (host_of(&row.url), &site.host);
    Err(Error::invalid(field, format!("its page is of {host}, which is not {wanted}")))
}
