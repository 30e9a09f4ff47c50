//! What pages brought is written, inside the caller's transaction: pages that are done, URLs that are kept, links that are
//! new, shapes that have brought nothing for long.

use super::super::crawl_rows::{
    CRAWL_CONTENTS, CRAWL_PAGES, CRAWL_SEEN, CRAWL_SHAPES, ContentV1, CrawlPageV2, KEPT_BY_NONE, PageState,
    SeenV1, ShapeV1, ShortDigest, TrapV1,
};
use super::pages::{FoundLink, LinksAhead, PageFailure, PageOutcome, ReadPage, TakenPage, is_news};
use super::rules::Role;
use super::{Crawling, short};
use crate::features::jobs;
use crate::features::urls::{UrlCandidate, register_each};
use base::Result;
use base::clock::Timestamp;
use base::ids::JobId;
use base::web::WebUrl;
use crawl::shape::{self, Fault};
use std::collections::HashMap;
use store::OrgWrite;

/// A shape whose last so many pages brought nothing new is closed.
const BARREN_MAX: u32 = 50;
/// Traps of a run that are named.
const TRAPS_MAX: usize = 50;
/// Bytes of what is said of one.
const TRAP_BYTES_MAX: usize = 300;
/// Pages that a frontier knows, for each that a run may ask for, and beside them.
const KNOWN_PER_PAGE: u64 = 10;
const KNOWN_BESIDE: u64 = 10_000;
/// So many pages may say that they are one and the same; what more of them say is a mistake of the site's.
const CLAIMS_MAX: u16 = 20;

/// A page's URL that is to be registered.
struct Kept {
    candidate: UrlCandidate,
    job: JobId,
    scraped_at: Timestamp,
}

/// What a page was good for.
#[derive(Clone, Copy, Default)]
struct Brought {
    /// It is kept, or has a link to a new page that is.
    kept: bool,
    /// It has a link to a new page of a shape that may bring something.
    hope: bool,
}

pub(super) struct Taking<'t, 'w> {
    tx: &'t OrgWrite<'w>,
    at: Crawling,
    kept: Vec<Kept>,
    shapes: HashMap<ShortDigest, ShapeV1>,
}

impl<'t, 'w> Taking<'t, 'w> {
    pub fn new(tx: &'t OrgWrite<'w>, at: Crawling) -> Taking<'t, 'w> {
        Taking { tx, at, kept: Vec::new(), shapes: HashMap::new() }
    }

    /// Takes a page in, unless that was done.
    pub fn page(&mut self, taken: TakenPage) -> Result<()> {
        let key = (self.at.frontier.id, taken.key);
        let Some(mut row) = self.tx.get(&CRAWL_PAGES, &key)? else { return Ok(()) };
        if row.state != PageState::UnderWay(taken.job) {
            return Ok(());
        }
        if let PageOutcome::Read(page) = &taken.outcome
            && row.kept_by.is_some()
            && page.own.is_none()
            && !page.is_led_away
        {
            // A link that was taken in just now made it one that is kept: the next step reads it as that.
            return Ok(());
        }
        self.at.frontier.under_way = self.at.frontier.under_way.saturating_sub(1);
        self.at.row.depth_reached = self.at.row.depth_reached.max(row.depth);
        let brought = match taken.outcome {
            PageOutcome::Failed(failure) => {
                row.state = PageState::Failed;
                self.tx.put(&CRAWL_PAGES, &key, &row)?;
                self.failed(failure)
            }
            PageOutcome::Read(page) => {
                row.state = PageState::Done;
                // Before its links are looked at: it may link to itself.
                self.tx.put(&CRAWL_PAGES, &key, &row)?;
                Some(self.read(taken.key, &row, taken.job, *page)?)
            }
        };
        // What a rule keeps is wanted whatever comes of it.
        if row.is_kept_by_rule() {
            return Ok(());
        }
        match (brought, WebUrl::parse(&row.url)) {
            (Some(brought), Ok(url)) => self.count_shape(&url, brought),
            _ => Ok(()),
        }
    }

    /// Takes in links of a page that has too many for one operation; it is done with the last of them.
    pub fn links_ahead(&mut self, ahead: LinksAhead) -> Result<()> {
        let frontier = self.at.frontier.id;
        let Some(row) = self.tx.get(&CRAWL_PAGES, &(frontier, ahead.key))? else { return Ok(()) };
        let leads_to_known = ahead.final_key != ahead.key
            && self.tx.get(&CRAWL_PAGES, &(frontier, ahead.final_key))?.is_some();
        let content = self.tx.get(&CRAWL_CONTENTS, &(frontier, ahead.content))?;
        let is_double = leads_to_known || content.is_some_and(|known| known.page != ahead.key);
        if row.state != PageState::UnderWay(ahead.job) || is_double {
            return Ok(());
        }
        let own_shape = WebUrl::parse(&row.url).map(|url| short(shape::shape(&url))).unwrap_or_default();
        for link in ahead.links {
            self.link(link, (ahead.key, own_shape), &mut Brought::default())?;
        }
        Ok(())
    }

    /// Counts a page that did not come. None where that says nothing of its shape: a host in trouble closes none.
    fn failed(&mut self, failure: PageFailure) -> Option<Brought> {
        if failure.is_forbidden {
            self.at.row.robots_refused += 1;
        } else {
            self.at.row.failed += 1;
        }
        let speaks = failure.is_gone || failure.is_forbidden;
        self.at.row.first_failure.get_or_insert(failure.message);
        speaks.then(Brought::default)
    }

    fn read(
        &mut self,
        key: ShortDigest,
        row: &CrawlPageV2,
        job: JobId,
        mut page: ReadPage,
    ) -> Result<Brought> {
        let found = &mut self.at.row.found;
        found.documents += 1;
        found.bytes += page.bytes;
        found.filtered += page.filtered;
        found.refused += page.refused;
        found.truncated += page.truncated;
        for (fault, url) in std::mem::take(&mut page.faults) {
            self.note_fault(fault, &url);
        }
        for url in std::mem::take(&mut page.chains) {
            let text = shape::shape(&url);
            self.note_trap(&text, shape::name_of(&text), url.as_str(), 1);
        }
        if page.is_led_away {
            self.at.row.led_away += 1;
            return Ok(Brought::default());
        }
        if self.is_double(key, row, &page)? {
            self.double(key, row)?;
            return Ok(Brought::default());
        }
        let mut brought = Brought { kept: self.keep(key, row, job, &mut page)?, hope: false };
        let own_shape = WebUrl::parse(&row.url).map(|url| short(shape::shape(&url))).unwrap_or_default();
        for link in page.links {
            self.link(link, (key, own_shape), &mut brought)?;
        }
        Ok(brought)
    }

    /// A page that is kept was read: it is not asked for again for a while.
    fn see(&self, key: ShortDigest, is_double: bool) -> Result<()> {
        self.tx.put(&CRAWL_SEEN, &(self.at.input.id, key), &SeenV1 { at: self.tx.now(), is_double })
    }

    /// Counts a page that is another one.
    fn double(&mut self, key: ShortDigest, row: &CrawlPageV2) -> Result<()> {
        self.at.row.found.duplicates += 1;
        if row.kept_by.is_some() { self.see(key, true) } else { Ok(()) }
    }

    /// Whether another page of the walk is this one: the one that it led to, or one with the same bytes.
    fn is_double(&mut self, key: ShortDigest, row: &CrawlPageV2, page: &ReadPage) -> Result<bool> {
        let frontier = self.at.frontier.id;
        if page.key != key {
            let known = self.tx.get(&CRAWL_PAGES, &(frontier, page.key))?;
            if known.is_some_and(|known| known.state != PageState::Failed) {
                return Ok(true);
            }
            self.know(page.key, &page.url, Role { kept_by: row.kept_by, follow: row.follow }, row.depth)?;
            if row.kept_by.is_some() {
                self.see(page.key, false)?;
            }
        }
        if page.bytes == 0 {
            return Ok(false);
        }
        match self.tx.get(&CRAWL_CONTENTS, &(frontier, page.content))? {
            Some(known) => Ok(known.page != key),
            None => {
                self.tx.put(&CRAWL_CONTENTS, &(frontier, page.content), &ContentV1 { page: key })?;
                Ok(false)
            }
        }
    }

    /// Notes a page that nobody needs to ask for any more.
    fn know(&mut self, key: ShortDigest, url: &WebUrl, role: Role, depth: u16) -> Result<()> {
        let order = self.next_order(depth);
        let row = CrawlPageV2 {
            frontier: self.at.frontier.id,
            url: url.as_str().to_owned(),
            depth,
            kept_by: role.kept_by,
            follow: role.follow,
            state: PageState::Done,
            order,
            claims: 1,
            found_on: None,
        };
        self.tx.put(&CRAWL_PAGES, &(self.at.frontier.id, key), &row)
    }

    fn next_order(&mut self, depth: u16) -> u64 {
        self.at.frontier.next += 1;
        u64::from(depth) << 40 | self.at.frontier.next
    }

    /// Keeps a page under the address that it says is its own; whether it is one more.
    fn keep(&mut self, key: ShortDigest, row: &CrawlPageV2, job: JobId, page: &mut ReadPage) -> Result<bool> {
        let Some(own) = page.own.take() else { return Ok(false) };
        self.see(key, page.key != key)?;
        let mut candidate = own;
        if let Some((url, target_key)) = page.canonical.take() {
            let known = self.tx.get(&CRAWL_PAGES, &(self.at.frontier.id, target_key))?;
            match known {
                // A list is not the page of its items.
                Some(target) if target.kept_by.is_none() => {}
                Some(target) if target.claims >= CLAIMS_MAX => {}
                Some(target) => {
                    let claims = target.claims + 1;
                    let target = CrawlPageV2 { claims, ..target };
                    self.tx.put(&CRAWL_PAGES, &(self.at.frontier.id, target_key), &target)?;
                    self.double(key, row)?;
                    return Ok(false);
                }
                None => {
                    if let Some(of_canonical) = page.of_canonical.take() {
                        let role = Role { kept_by: row.kept_by, follow: row.follow };
                        self.know(target_key, &url, role, row.depth)?;
                        self.see(target_key, false)?;
                        self.see(key, true)?;
                        candidate = Ok(of_canonical);
                    }
                }
            }
        }
        match candidate {
            Ok(mut candidate) => {
                candidate.index = self.kept.len();
                self.kept.push(Kept { candidate, job, scraped_at: page.scraped_at });
                Ok(true)
            }
            Err(_) => {
                self.at.row.found.refused += 1;
                Ok(false)
            }
        }
    }

    /// Takes in a link of a page, of which its key and its shape are given.
    fn link(
        &mut self,
        link: FoundLink,
        (own, own_shape): (ShortDigest, ShortDigest),
        brought: &mut Brought,
    ) -> Result<()> {
        let key = (self.at.frontier.id, link.key);
        let known = self.tx.get(&CRAWL_PAGES, &key)?;
        if !is_news(&link, known.as_ref()) {
            return Ok(());
        }
        let shape = self.shape(link.shape)?;
        if let Some(mut known) = known {
            brought.kept = true;
            known.kept_by = link.role.kept_by;
            if known.state == PageState::Done {
                // Asked for once more, as what it is now.
                known.state = PageState::Waiting;
                self.at.frontier.waiting += 1;
            }
            return self.tx.put(&CRAWL_PAGES, &key, &known);
        }
        let is_kept = link.role.kept_by.is_some();
        if shape.is_closed && link.role.kept_by.is_none_or(|rule| rule == KEPT_BY_NONE) {
            self.at.row.found.filtered += 1;
            return Ok(());
        }
        let most = u64::from(self.at.terms.max_pages) * KNOWN_PER_PAGE + KNOWN_BESIDE;
        if self.at.frontier.next >= most {
            self.at.row.found.truncated += 1;
            return Ok(());
        }
        let may_bring = shape.pages < BARREN_MAX || shape.since_kept < BARREN_MAX;
        brought.kept |= is_kept;
        brought.hope |= link.shape != own_shape && !shape.is_closed && may_bring;
        let row = CrawlPageV2 {
            frontier: self.at.frontier.id,
            url: link.url.as_str().to_owned(),
            depth: link.depth,
            kept_by: link.role.kept_by,
            follow: link.role.follow,
            state: PageState::Waiting,
            order: self.next_order(link.depth),
            claims: 1,
            found_on: Some(own),
        };
        self.at.frontier.waiting += 1;
        self.tx.put(&CRAWL_PAGES, &key, &row)
    }

    fn shape(&mut self, key: ShortDigest) -> Result<ShapeV1> {
        if let Some(known) = self.shapes.get(&key) {
            return Ok(known.clone());
        }
        let shape = self.tx.get(&CRAWL_SHAPES, &(self.at.frontier.id, key))?.unwrap_or_default();
        self.shapes.insert(key, shape.clone());
        Ok(shape)
    }

    /// Counts a page of its shape, which is closed when its last pages have brought nothing.
    fn count_shape(&mut self, url: &WebUrl, brought: Brought) -> Result<()> {
        let text = shape::shape(url);
        let key = short(&text);
        let mut shape = self.shape(key)?;
        shape.pages += 1;
        shape.barren = if brought.kept || brought.hope { 0 } else { shape.barren + 1 };
        shape.since_kept = if brought.kept { 0 } else { shape.since_kept + 1 };
        if shape.barren >= BARREN_MAX && !shape.is_closed {
            shape.is_closed = true;
            let why = shape::name_of(&text);
            self.note_trap(&text, why, url.as_str(), u64::from(shape.pages));
        } else if shape.is_closed {
            self.note_trap(&text, shape::name_of(&text), url.as_str(), 1);
        }
        self.tx.put(&CRAWL_SHAPES, &(self.at.frontier.id, key), &shape)?;
        self.shapes.insert(key, shape);
        Ok(())
    }

    fn note_fault(&mut self, fault: Fault, url: &WebUrl) {
        // What goes round in a circle has another shape each time, and is one trap of its host.
        let text = match fault {
            Fault::Calendar => shape::shape(url),
            Fault::Repeated | Fault::Long => format!("{}/…", url.authority()),
        };
        self.at.row.found.filtered += 1;
        self.note_trap(&text, fault.name(), url.as_str(), 1);
    }

    fn note_trap(&mut self, shape: &str, why: &str, example: &str, pages: u64) {
        let traps = &mut self.at.row.traps;
        let shape = cut(shape);
        if let Some(known) = traps.iter_mut().find(|trap| trap.shape == shape && trap.why == why) {
            known.pages += pages;
        } else if traps.len() < TRAPS_MAX {
            traps.push(TrapV1 { shape, why: why.to_owned(), pages, example: cut(example) });
        }
    }

    /// Registers what is kept; the crawl as it stands then.
    pub fn finish(mut self) -> Result<Crawling> {
        let mut registered = Vec::with_capacity(self.kept.len());
        let (candidates, of): (Vec<_>, Vec<_>) =
            self.kept.into_iter().map(|kept| (kept.candidate, (kept.job, kept.scraped_at))).unzip();
        let done = register_each(self.tx, candidates.iter(), |index, id, is_new| {
            registered.push((index, id, is_new));
            Ok(())
        })?;
        let found = &mut self.at.row.found;
        found.refused += done.invalid.len() as u64;
        for (index, id, is_new) in registered {
            if is_new {
                found.added += 1
            } else {
                found.unchanged += 1
            }
            let Some((job, scraped_at)) = of.get(index) else { continue };
            jobs::note_url(self.tx, *job, id, Some(*scraped_at))?;
        }
        Ok(self.at)
    }
}

/// A text that has room in a run.
fn cut(text: &str) -> String {
    if text.len() <= TRAP_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(TRAP_BYTES_MAX)])
}
