//! The pages of a crawl whose jobs have ended: found, loaded and read. Nothing is written here.

use super::super::crawl_rows::{CRAWL_PAGES, CrawlPageV2, KEPT_BY_NONE, KeptAsV1, PageState, ShortDigest};
use super::super::state::Runner;
use super::rules::{Role, Rules, Verdict};
use super::{Crawling, page_key, short, under_way};
use crate::features::extraction::RESULTS;
use crate::features::inputs::register::defaults;
use crate::features::jobs::{self, JOBS, JobV2};
use crate::features::urls::{EntryJudge, NewUrl, UrlCandidate, UrlDefaults};
use base::clock::Timestamp;
use base::ids::JobId;
use base::terms::JobStatus;
use base::web::WebUrl;
use base::{Error, Result};
use blob::{BlobError, BlobHash};
use bytes::Bytes;
use crawl::links::{self, PageLinks};
use crawl::shape::{self, Fault};
use crawl::spelling;
use fetch::AddressGuard;
use page::html::Document;
use page::xpath::Fuel;
use server::apart;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OrgRead, OrgStore, readable};

/// Pages that are read in one step, at most: by their number, by the bytes that are held of them, and by the time that it
/// takes. The first one is always read.
const PAGES_PER_STEP: usize = 32;
const BYTES_PER_STEP: usize = 8 << 20;
const TIME_PER_STEP: Duration = Duration::from_millis(300);
/// New links that are written in one operation: others' writes do not wait for a page of nothing but links.
const LINKS_PER_WRITE: usize = 1_000;
/// Parts of a path by which a login is known when a page leads there.
const LOGIN_WORDS: &[&str] =
    &["login", "log-in", "signin", "sign-in", "sign_in", "logon", "sso", "auth", "wp-login.php", "anmelden"];

/// A page whose job has ended.
pub(super) struct EndedPage {
    key: ShortDigest,
    page: CrawlPageV2,
    id: JobId,
    /// None where the job is gone.
    job: Option<JobV2>,
}

/// What became of a page.
pub(super) struct TakenPage {
    pub key: ShortDigest,
    pub job: JobId,
    pub outcome: PageOutcome,
}

/// Links of a page that are written before it is.
pub(super) struct LinksAhead {
    pub key: ShortDigest,
    pub final_key: ShortDigest,
    pub content: ShortDigest,
    pub job: JobId,
    pub links: Vec<FoundLink>,
}

impl TakenPage {
    /// Takes out links that have no room in the operation that writes the page, for one of their own.
    pub fn links_ahead(&mut self) -> Option<LinksAhead> {
        let PageOutcome::Read(page) = &mut self.outcome else { return None };
        if page.links.len() <= LINKS_PER_WRITE {
            return None;
        }
        let links = page.links.drain(..LINKS_PER_WRITE).collect();
        Some(LinksAhead { key: self.key, final_key: page.key, content: page.content, job: self.job, links })
    }
}

pub(super) enum PageOutcome {
    Read(Box<ReadPage>),
    Failed(PageFailure),
}

pub(super) struct PageFailure {
    pub message: String,
    /// There is no such page.
    pub is_gone: bool,
    /// robots.txt forbids it.
    pub is_forbidden: bool,
}

/// What a page says.
pub(super) struct ReadPage {
    /// What answered.
    pub url: WebUrl,
    pub key: ShortDigest,
    pub content: ShortDigest,
    pub bytes: u64,
    pub scraped_at: Timestamp,
    /// It led to a login, or off the site.
    pub is_led_away: bool,
    /// The page that it says it is, where that is another one of the site.
    pub canonical: Option<(WebUrl, ShortDigest)>,
    /// The page as a URL to be registered, where it is kept; and its canonical one.
    pub own: Option<Result<UrlCandidate, String>>,
    pub of_canonical: Option<UrlCandidate>,
    /// Links that the frontier may not know.
    pub links: Vec<FoundLink>,
    pub filtered: u64,
    pub refused: u64,
    pub truncated: u64,
    pub faults: Vec<(Fault, WebUrl)>,
    /// Links beyond the depth to pages of the page's own shape.
    pub chains: Vec<WebUrl>,
}

/// A link that is walked to.
pub(super) struct FoundLink {
    pub key: ShortDigest,
    pub url: WebUrl,
    pub role: Role,
    pub depth: u16,
    pub shape: ShortDigest,
}

/// Pages whose jobs have ended. Where no job of the batch has, they are not looked at one by one, unless that is to be done
/// all the same: somebody may have submitted jobs of the batch again.
pub(super) fn ended(tx: &OrgRead<'_>, at: &Crawling, is_thorough: bool) -> Result<Vec<EndedPage>> {
    if at.frontier.under_way == 0 {
        return Ok(Vec::new());
    }
    if !is_thorough && jobs::open_jobs(tx, at.run.batch())? >= at.frontier.under_way {
        return Ok(Vec::new());
    }
    let mut ended = Vec::new();
    for (key, page, id) in under_way(tx, at.frontier.id)? {
        let job = readable("a job of a crawl", id, tx.get(&JOBS, &id))?.flatten();
        if job.as_ref().is_none_or(|job| job.status.has_ended()) {
            ended.push(EndedPage { key, page, id, job });
        }
        if ended.len() >= PAGES_PER_STEP {
            break;
        }
    }
    Ok(ended)
}

/// A page with its bytes.
struct LoadedPage {
    ended: EndedPage,
    url: WebUrl,
    content_type: Option<String>,
    scraped_at: Timestamp,
    body: Bytes,
}

/// Reads as many of these pages as a step may.
pub(super) async fn read(
    runner: &Runner,
    own: &OrgStore,
    at: &Crawling,
    ended: Vec<EndedPage>,
) -> Result<Vec<TakenPage>> {
    let (mut taken, mut loaded, mut bytes) = (Vec::new(), Vec::new(), 0);
    for page in ended {
        if bytes >= BYTES_PER_STEP {
            break;
        }
        let (key, job) = (page.key, page.id);
        match load(runner, own, page).await? {
            Ok(page) => {
                bytes += page.body.len();
                loaded.push(page);
            }
            Err(failure) => taken.push(TakenPage { key, job, outcome: PageOutcome::Failed(failure) }),
        }
    }
    if loaded.is_empty() {
        return Ok(taken);
    }
    let reader = Reader {
        own: own.clone(),
        at: at.clone(),
        guard: Arc::clone(&runner.guard),
        defaults: own.read(|tx| defaults(tx, &at.input))?,
    };
    taken.extend(apart(move || reader.read_all(loaded)).await??);
    Ok(taken)
}

/// The page of an ended job, or why there is none.
async fn load(runner: &Runner, own: &OrgStore, ended: EndedPage) -> Result<Result<LoadedPage, PageFailure>> {
    let failure =
        |message: &str| PageFailure { message: message.to_owned(), is_gone: false, is_forbidden: false };
    let Some(job) = &ended.job else { return Ok(Err(failure("its job is gone"))) };
    if job.status != JobStatus::Succeeded {
        return Ok(Err(failure_of(job)));
    }
    let result = readable("the result of a crawl's page", job.id, own.read(|tx| tx.get(&RESULTS, &job.id)))?;
    let Some(result) = result.flatten() else {
        return Ok(Err(failure("its result is gone, or its workflow made none")));
    };
    let pages = runner.blobs.org(own.id().0);
    let body = pages.get_page(&BlobHash::from_bytes(result.page.hash)).await;
    let body = match body {
        Ok(Some(body)) => body,
        Ok(None) => return Ok(Err(failure("its page is gone"))),
        Err(BlobError::Corrupt { .. }) => return Ok(Err(failure("its page is damaged"))),
        Err(error) => return Err(Error::internal("read a page of a crawl", error)),
    };
    let Ok(url) = WebUrl::parse(&result.final_url) else {
        return Ok(Err(failure("its address cannot be read")));
    };
    Ok(Ok(LoadedPage { ended, url, content_type: result.content_type, scraped_at: result.scraped_at, body }))
}

fn failure_of(job: &JobV2) -> PageFailure {
    let last = job.attempts.last();
    let said = last.and_then(|attempt| attempt.error.as_deref()).or(job.error.as_deref()).unwrap_or_default();
    let status = last.and_then(|attempt| attempt.http_status);
    let message = match (job.status, status) {
        (JobStatus::Canceled, _) => format!("{}: canceled", job.url),
        (_, Some(status)) if said.is_empty() => format!("{}: answered {status}", job.url),
        _ => format!("{}: {said}", job.url),
    };
    PageFailure {
        message,
        is_gone: matches!(status, Some(404 | 410)),
        is_forbidden: status.is_none()
            && said.starts_with("robots.txt of ")
            && said.ends_with("disallows this path"),
    }
}

/// Reads pages on a thread of its own.
struct Reader {
    own: OrgStore,
    at: Crawling,
    guard: Arc<AddressGuard>,
    defaults: UrlDefaults,
}

impl Reader {
    fn read_all(&self, pages: Vec<LoadedPage>) -> Result<Vec<TakenPage>> {
        let year = year_of(self.own.clock().now());
        let rules = Rules::new(&self.at.input, &self.at.terms, year);
        let mut judge = EntryJudge::new(self.own.clone());
        let (begun, mut links, mut taken) = (Instant::now(), 0, Vec::with_capacity(pages.len()));
        for page in pages {
            if !taken.is_empty() && (begun.elapsed() > TIME_PER_STEP || links >= LINKS_PER_WRITE) {
                break;
            }
            let (key, job) = (page.ended.key, page.ended.id);
            let read = self.page(&rules, &mut judge, &page)?;
            links += read.links.len();
            taken.push(TakenPage { key, job, outcome: PageOutcome::Read(Box::new(read)) });
        }
        Ok(taken)
    }

    fn page(&self, rules: &Rules, judge: &mut EntryJudge, loaded: &LoadedPage) -> Result<ReadPage> {
        let row = &loaded.ended.page;
        let document = match is_document(loaded.content_type.as_deref()) {
            true => Document::parse_bytes(&loaded.body, loaded.content_type.as_deref()),
            false => Document::parse(String::new()),
        };
        let said = links::read(&document, &loaded.url);
        // The same bytes of another host have other links.
        let content = [loaded.url.authority().as_bytes(), BlobHash::of(&loaded.body).as_bytes()].concat();
        let content = short(&content);
        let is_elsewhere = page_key(&loaded.url) != loaded.ended.key;
        let is_led_away = !rules.is_of_site(&loaded.url) || is_elsewhere && is_login(&loaded.url, &said);
        let key = page_key(&loaded.url);
        let mut page = ReadPage {
            url: loaded.url.clone(),
            key,
            content,
            bytes: loaded.body.len() as u64,
            scraped_at: loaded.scraped_at,
            is_led_away,
            canonical: None,
            own: None,
            of_canonical: None,
            links: Vec::new(),
            filtered: 0,
            refused: said.refused,
            truncated: said.truncated,
            faults: Vec::new(),
            chains: Vec::new(),
        };
        if is_led_away {
            return Ok(page);
        }
        if let Some(kept_by) = row.kept_by {
            page.canonical = self.canonical(rules, &said, key);
            // Of several spellings of one page its own counts.
            let spelled = said.canonical.as_ref().filter(|url| page_key(url) == key && rules.is_meant(url));
            page.own = Some(self.candidate(judge, kept_by, spelled.unwrap_or(&loaded.url))?);
            if let Some((url, _)) = &page.canonical {
                page.of_canonical = self.candidate(judge, kept_by, url)?.ok();
            }
        }
        if row.follow && !said.is_nofollow {
            let places = rules.places(&document, &mut Fuel::for_page());
            self.judge_links(rules, row, said, &places, &mut page)?;
        }
        Ok(page)
    }

    /// The page that this one says it is, where that is another one and may be believed. A whole site that says it is its own
    /// home page is mistaken.
    fn canonical(&self, rules: &Rules, said: &PageLinks, own: ShortDigest) -> Option<(WebUrl, ShortDigest)> {
        let url = said.canonical.as_ref().map(spelling::kept)?;
        let key = page_key(&url);
        let starts = self.at.terms.start_urls.iter().filter_map(|url| WebUrl::parse(url).ok());
        let is_home = url.path_and_query() == "/" || starts.into_iter().any(|start| page_key(&start) == key);
        (key != own && !is_home && rules.is_meant(&url)).then_some((url, key))
    }

    /// A page as a URL to be registered; or why it cannot be.
    fn candidate(
        &self,
        judge: &mut EntryJudge,
        kept_by: u16,
        url: &WebUrl,
    ) -> Result<Result<UrlCandidate, String>> {
        let KeptAsV1 { page_type, tags } = kept_as(&self.at, kept_by);
        let entry = NewUrl {
            url: spelling::kept(url).as_str().to_owned(),
            tags: Some(tags),
            metadata: None,
            page_type: None,
            workflow_id: None,
        };
        let defaults = UrlDefaults { page_type, keeps_known: true, ..self.defaults.clone() };
        let judged = judge.judge(0, "", entry, &self.guard)?;
        Ok(judged.and_then(|candidate| candidate.with(&defaults)))
    }

    fn judge_links(
        &self,
        rules: &Rules,
        row: &CrawlPageV2,
        said: PageLinks,
        places: &[Option<links::Places>],
        page: &mut ReadPage,
    ) -> Result<()> {
        let mut found = HashSet::new();
        let own_shape = WebUrl::parse(&row.url).map(|url| shape::shape(&url)).unwrap_or_default();
        for link in &said.links {
            let (url, role, depth) = match rules.judge(link, places, row.depth) {
                Verdict::Walk(url, role, depth) => (url, role, depth),
                Verdict::Filtered => {
                    page.filtered += 1;
                    continue;
                }
                Verdict::TooDeep => {
                    page.truncated += 1;
                    // What leads on and on to its like ends here, and is a trap.
                    if shape::shape(&link.url) == own_shape {
                        page.chains.push(link.url.clone());
                    }
                    continue;
                }
                Verdict::Fault(fault) => {
                    page.faults.push((fault, link.url.clone()));
                    continue;
                }
            };
            if self.guard.check_literal(&url).is_err() {
                page.refused += 1;
                continue;
            }
            let key = page_key(&url);
            if found.insert(key) {
                let shape = short(shape::shape(&url));
                page.links.push(FoundLink { key, url, role, depth, shape });
            }
        }
        // Most links of a page are known: they are left out of the operation that writes.
        let frontier = self.at.frontier.id;
        let all = std::mem::take(&mut page.links);
        page.links = self.own.read(|tx| {
            let mut new = Vec::new();
            for link in all {
                if is_news(&link, tx.get(&CRAWL_PAGES, &(frontier, link.key))?.as_ref()) {
                    new.push(link);
                }
            }
            Ok(new)
        })?;
        Ok(())
    }
}

/// Whether a link says something new of the page that it leads to.
pub(super) fn is_news(link: &FoundLink, known: Option<&CrawlPageV2>) -> bool {
    match known {
        None => true,
        // It was only walked through so far.
        Some(page) => {
            page.kept_by.is_none() && link.role.kept_by.is_some() && page.state != PageState::Failed
        }
    }
}

/// What a page is registered with by its rule.
pub(super) fn kept_as(at: &Crawling, kept_by: u16) -> KeptAsV1 {
    let rule = at.terms.rules.get(usize::from(kept_by)).and_then(|rule| rule.keep.clone());
    let own = rule.filter(|_| kept_by != KEPT_BY_NONE).unwrap_or_default();
    KeptAsV1 { page_type: own.page_type.or(at.input.page_type), tags: own.tags }
}

/// Whether a page that another one led to is a login.
fn is_login(url: &WebUrl, said: &PageLinks) -> bool {
    let mut segments = url.as_url().path().split('/').map(str::to_ascii_lowercase);
    said.asks_password || segments.any(|segment| LOGIN_WORDS.contains(&segment.as_str()))
}

/// The year of a date; a day about its turn does not matter.
fn year_of(date: Timestamp) -> i32 {
    const YEAR_MS: i64 = 31_556_952_000;
    i32::try_from(1970 + date.millis().div_euclid(YEAR_MS)).unwrap_or(i32::MAX)
}

/// Whether a body of this media type has links. Servers that name none mostly send HTML.
fn is_document(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else { return true };
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media.is_empty() || media.contains("html")
}
