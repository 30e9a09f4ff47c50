//! Which pages somebody means who names a domain: all of a registrable domain, or those of one host of it.

use super::body::is_readable;
use super::pages::NAMINGS;
use super::rows::{RESULTS, RESULTS_BY_DOMAIN, RESULTS_BY_URL, ResultV4, url_digest};
use super::schemas::schema_domain;
use base::codec::Record;
use base::ids::{JobId, OrgId};
use base::page::{Page, PageRequest, encode_cursor};
use base::web::{Domain, host_of};
use base::{Error, Result};
use serde::{Deserialize, Serialize};
use store::{KeyPart, OrgRead, SysRead, SysTable, System, readable};

/// How often a look for the newest stored page goes on after a page of results without one.
const LOOKS_MAX: usize = 8;
/// Results that one operation enters into the index of domains at the first start after an upgrade.
const FILLED_PER_WRITE: usize = 2_000;

/// A registrable domain, or one host of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Lower case, ASCII, without a final dot.
    pub host: String,
    pub domain: String,
}

impl Site {
    /// None when the text is no host.
    pub fn named(text: &str) -> Option<Site> {
        let host = schema_domain(text)?;
        let domain = Domain::parse(&host).ok()?.as_str().to_owned();
        Some(Site { host, domain })
    }

    /// The site that a request names in `field`.
    pub fn parse(field: &str, text: &str) -> Result<Site> {
        let shown: String = text.chars().take(100).collect();
        Site::named(text).ok_or_else(|| Error::invalid(field, format!("\"{shown}\" is not a host name")))
    }

    /// Whether a result is of the site.
    pub fn has(&self, row: &ResultV4) -> bool {
        row.domain == self.domain && (self.host == self.domain || host_of(&row.url) == self.host)
    }
}

/// A page of the results of a site, newest first, of those that `keep` accepts.
pub fn results_of_site(
    tx: &OrgRead<'_>,
    site: &Site,
    page: &PageRequest,
    mut keep: impl FnMut(&ResultV4) -> bool,
) -> Result<Page<ResultV4>> {
    tx.page_by(&RESULTS, &RESULTS_BY_DOMAIN, &site.domain, page, |row| site.has(row) && keep(row))
}

/// The cursor behind a result of its site.
pub fn place_of_result(row: &ResultV4) -> String {
    let mut place = Vec::new();
    row.domain.write_part(&mut place);
    row.place.write_part(&mut place);
    row.job.write_part(&mut place);
    encode_cursor(RESULTS_BY_DOMAIN.name(), &place)
}

/// Whether the page of a result is kept.
pub fn has_page(tx: &OrgRead<'_>, row: &ResultV4) -> Result<bool> {
    Ok(readable("that a page is kept", row.job, tx.get(&NAMINGS, &row.job))?.is_none_or(|row| row.is_some()))
}

/// The newest result of a site whose page is kept, of a media type that serves.
pub fn newest_page(
    tx: &OrgRead<'_>,
    site: &Site,
    serves: fn(Option<&str>) -> bool,
) -> Result<Option<ResultV4>> {
    let mut page = PageRequest { limit: 1, cursor: None };
    for _ in 0..LOOKS_MAX {
        let keep = |row: &ResultV4| {
            serves(row.content_type.as_deref()) && has_page(tx, row).is_ok_and(|is_kept| is_kept)
        };
        let mut found = results_of_site(tx, site, &page, keep)?;
        match (found.items.pop(), found.next_cursor) {
            (None, Some(next)) => page.cursor = Some(next),
            (found, _) => return Ok(found),
        }
    }
    Ok(None)
}

/// The newest result of a normalized URL whose page is kept and can be read.
pub fn newest_page_of_url(tx: &OrgRead<'_>, url: &str) -> Result<Option<ResultV4>> {
    let newest = PageRequest { limit: 1, cursor: None };
    let found = tx.page_by(&RESULTS, &RESULTS_BY_URL, url_digest(url), &newest, |row| {
        is_readable(row.content_type.as_deref()) && has_page(tx, row).is_ok_and(|is_kept| is_kept)
    })?;
    Ok(found.items.into_iter().next())
}

/// How far the index of domains is filled with results of a release that had none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DomainsFilledV1 {
    after: Option<(OrgId, JobId)>,
    is_done: bool,
}

impl Record for DomainsFilledV1 {}

pub static DOMAINS_FILLED: SysTable<(), DomainsFilledV1> =
    SysTable::new("result_domains_filled", "State of results");

/// Whether the first start of this release has yet to file results by their domains.
pub fn domains_to_fill(tx: &SysRead<'_>) -> Result<bool> {
    Ok(!tx.get(&DOMAINS_FILLED, &())?.is_some_and(|at| at.is_done))
}

/// Enters the results of an older release into the index of domains; once in the life of a data folder, before anything is
/// served. Goes on where a crash cut it off.
pub async fn fill_domains(system: &System) -> Result<()> {
    let stands = system.read(|tx| tx.get(&DOMAINS_FILLED, &()));
    let mut at = readable("how far results are filed by domain", "", stands)?.flatten().unwrap_or_default();
    while !at.is_done {
        let from = at.after.map(|(org, job)| RESULTS.place(org, &job));
        let step = system.read(|tx| tx.readable_all(&RESULTS, from.as_deref(), FILLED_PER_WRITE))?;
        match &step.next {
            Some(next) => at.after = Some(RESULTS.owner(next)?),
            None => at.is_done = true,
        }
        let row = at.clone();
        let filling = system.write(move |tx| {
            for (org, job, row) in step.rows {
                if !tx.is_fenced(org) {
                    tx.org(org).fill_index(&RESULTS_BY_DOMAIN, &job, &row);
                }
            }
            tx.put(&DOMAINS_FILLED, &(), &row)
        });
        filling.await?;
    }
    Ok(())
}
