//! Which stored pages teach: those that are asked for, then the newest; for what is everybody's only those that [`super::public`] lets.

use super::public::{Private, why_private};
use super::wire::{LeftOutPage, PageUse, SampledPage};
use crate::features::extraction::{
    RESULTS, ResultV4, Site, has_page, is_document, read_stored, results_of_site,
};
use base::Result;
use base::ids::JobId;
use base::limits::{DISCOVERY_PAGES_MAX, HTML_BYTES_MAX};
use base::page::PageRequest;
use blob::OrgBlobs;
use bytes::Bytes;
use std::collections::HashSet;
use store::OrgRead;

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
            let reason = why_not(tx, site, &row)?;
            choice.take(tx, row, reason)?;
        }
    }
    choice.take_newest(tx, |row| why_not(tx, site, row))?;
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

/// Why a page may not teach what is everybody's, as it is told; none where it may.
fn why_not(tx: &OrgRead<'_>, site: &Site, row: &ResultV4) -> Result<Option<LeftOutPage>> {
    let told = |why| match why {
        Private::OtherSite => LeftOutPage::OtherSite,
        Private::JobGone => LeftOutPage::JobGone,
        Private::SignedIn => LeftOutPage::SignedIn,
        Private::OwnHeaders => LeftOutPage::OwnHeaders,
        Private::OwnWay => LeftOutPage::OwnWay,
    };
    Ok(why_private(tx, site, row)?.map(told))
}
