//! Which stored pages teach.
//!
//! A platform schema is everybody's, so what teaches one is what everybody can see: a page that the box has fetched as nobody.
//! Left out are pages of site sessions and of headers of the caller's own, because label texts and classes of a private page would
//! stand in XPaths that all can read; and pages that came by a way which the organization controls (its own proxies, a
//! vendor's address that it has replaced), because there it could say of any site what it likes. What cannot be told any more
//! (the job is gone) is left out as well.

use super::wire::{LeftOutPage, PageUse, SampledPage};
use crate::features::extraction::{
    RESULTS, ResultV4, Site, has_page, is_document, read_stored, results_of_site,
};
use crate::features::jobs::{JOBS, JobV2};
use crate::features::providers::{PROVIDERS, PROXY, visits_itself};
use crate::features::site_sessions::{self, JOB_SESSIONS};
use base::Result;
use base::ids::JobId;
use base::limits::{DISCOVERY_PAGES_MAX, HTML_BYTES_MAX};
use base::page::PageRequest;
use base::web::{Domain, host_of};
use blob::OrgBlobs;
use bytes::Bytes;
use fetch::Outcome;
use std::collections::HashSet;
use store::{OrgRead, readable};

/// Pages of one sample at most, and unless the request says otherwise.
pub const SAMPLE_PAGES_MAX: usize = DISCOVERY_PAGES_MAX;
pub const SAMPLE_PAGES_DEFAULT: usize = 5;
/// Pages beyond the sample on which is checked what it has taught.
pub const HELD_BACK_PAGES_MAX: usize = 5;
/// Pages that are left out and told of.
pub const LEFT_OUT_MAX: usize = 20;
/// Bytes of all pages that one discovery, or one lesson, holds: a parsed page takes several times its size.
pub const SAMPLE_BYTES_MAX: u64 = 24 << 20;
/// Rows of one look, and looks.
const LOOK_ROWS: usize = 50;
const LOOKS_MAX: usize = 8;

/// Pages that were chosen, and those that were not.
#[derive(Default)]
pub struct Chosen {
    /// Those that were asked for, or the newest; in this order.
    pub rows: Vec<ResultV4>,
    pub left_out: Vec<SampledPage>,
}

/// A page with its bytes.
pub struct StoredPage {
    pub row: ResultV4,
    pub bytes: Bytes,
}

/// Chooses at most `count` pages that may teach a shared schema: those of `jobs`, then the newest of the site; each URL and each
/// content once.
pub fn choose(tx: &OrgRead<'_>, site: &Site, jobs: &[JobId], count: usize) -> Result<Chosen> {
    let mut choice = Choice::new(site, count);
    for job in jobs {
        if let Some(row) = tx.get(&RESULTS, job)? {
            let reason = why_private(tx, site, &row)?;
            choice.take(tx, row, reason)?;
        }
    }
    choice.take_newest(tx, |row| why_private(tx, site, row))?;
    Ok(choice.chosen)
}

/// Chooses the newest pages of the site for what stays within the organization: any but those of `but`.
pub fn choose_own(tx: &OrgRead<'_>, site: &Site, but: &[ResultV4], count: usize) -> Result<Chosen> {
    let mut choice = Choice::new(site, count);
    for row in but {
        choice.note(row);
    }
    choice.take_newest(tx, |_| Ok(None))?;
    Ok(choice.chosen)
}

/// Reads pages, in their order; those that are gone are left out.
pub async fn read_pages(pages: &OrgBlobs, rows: Vec<ResultV4>) -> Result<Vec<StoredPage>> {
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(bytes) = read_stored(pages, &row.page).await? {
            read.push(StoredPage { row, bytes });
        }
    }
    Ok(read)
}

struct Choice<'a> {
    site: &'a Site,
    count: usize,
    chosen: Chosen,
    urls: HashSet<String>,
    contents: HashSet<[u8; 32]>,
    bytes: u64,
}

impl Choice<'_> {
    fn new(site: &Site, count: usize) -> Choice<'_> {
        let chosen = Chosen::default();
        Choice { site, count, chosen, urls: HashSet::new(), contents: HashSet::new(), bytes: 0 }
    }

    /// Remembers a page; whether it is new.
    fn note(&mut self, row: &ResultV4) -> bool {
        let is_new_url = self.urls.insert(row.url.clone());
        is_new_url && self.contents.insert(row.page.hash)
    }

    fn take_newest(
        &mut self,
        tx: &OrgRead<'_>,
        why_not: impl Fn(&ResultV4) -> Result<Option<LeftOutPage>>,
    ) -> Result<()> {
        let mut page = PageRequest { limit: LOOK_ROWS, cursor: None };
        for _ in 0..LOOKS_MAX {
            let found = results_of_site(tx, self.site, &page, |_| true)?;
            for row in found.items {
                if self.chosen.rows.len() >= self.count {
                    return Ok(());
                }
                let reason = why_not(&row)?;
                self.take(tx, row, reason)?;
            }
            match found.next_cursor {
                Some(next) => page.cursor = Some(next),
                None => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, tx: &OrgRead<'_>, row: ResultV4, reason: Option<LeftOutPage>) -> Result<()> {
        let is_page = is_document(row.content_type.as_deref()) && (200..300).contains(&row.http_status);
        let is_large = row.page.byte_size > (HTML_BYTES_MAX as u64).min(SAMPLE_BYTES_MAX - self.bytes);
        let reason = match reason {
            Some(reason) => Some(reason),
            None if !is_page || !has_page(tx, &row)? => Some(LeftOutPage::NoPage),
            None if is_large => Some(LeftOutPage::TooLarge),
            None => None,
        };
        let is_known = self.urls.contains(&row.url) || self.contents.contains(&row.page.hash);
        match reason {
            _ if is_known => {}
            None => {
                self.note(&row);
                self.bytes += row.page.byte_size;
                self.chosen.rows.push(row);
            }
            Some(reason) => {
                self.urls.insert(row.url.clone());
                if self.chosen.left_out.len() < LEFT_OUT_MAX {
                    self.chosen.left_out.push(SampledPage::new(&row, PageUse::LeftOut, Some(reason)));
                }
            }
        }
        Ok(())
    }
}

/// Why a page may not teach what is everybody's; none where it may.
fn why_private(tx: &OrgRead<'_>, site: &Site, row: &ResultV4) -> Result<Option<LeftOutPage>> {
    let answered = host_of(&row.final_url);
    let is_of_site = match site.host == site.domain {
        true => Domain::parse(answered).is_ok_and(|domain| domain.as_str() == site.domain),
        false => answered == site.host,
    };
    if !is_of_site {
        return Ok(Some(LeftOutPage::OtherSite));
    }
    let job = readable("a job", row.job, tx.get(&JOBS, &row.job))?.flatten();
    let Some(job) = job else { return Ok(Some(LeftOutPage::JobGone)) };
    // One that cannot be read is one that there is.
    let session = site_sessions::named(tx, &JOB_SESSIONS, &row.job);
    if readable("which site session a job names", row.job, session)?.is_none_or(|session| session.is_some()) {
        return Ok(Some(LeftOutPage::SignedIn));
    }
    if !job.options.headers.is_empty() {
        return Ok(Some(LeftOutPage::OwnHeaders));
    }
    Ok((!is_vouched_for(tx, row, &job)?).then_some(LeftOutPage::OwnWay))
}

/// Whether the page came by a way that the organization does not control: the box's own, or a vendor at the vendor's address, which
/// was not changed since.
fn is_vouched_for(tx: &OrgRead<'_>, row: &ResultV4, job: &JobV2) -> Result<bool> {
    if visits_itself(&row.provider) {
        return Ok(true);
    }
    if row.provider == PROXY {
        return Ok(false);
    }
    let delivered = job.attempts.iter().rfind(|attempt| attempt.outcome == Outcome::Success);
    let Some(attempt) = delivered else { return Ok(false) };
    let Ok(id) = attempt.provider_id.parse() else { return Ok(false) };
    let provider = readable("a provider", &attempt.provider_id, tx.get(&PROVIDERS, &id))?.flatten();
    Ok(provider.is_some_and(|provider| {
        let is_unchanged = provider.updated_at <= attempt.started_at;
        provider.adapter == row.provider && provider.base_url.is_none() && is_unchanged
    }))
}
