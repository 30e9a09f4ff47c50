//! Crawls as they are stored: what an input walks by, where a walk is, and what it remembers of pages.
//!
//! A walk's pages stand in a *frontier*. It belongs to an input and not to a run: a run that ended with pages left, because
//! credits or its bound did, hands it to the next one.

use super::rows::InputV1;
use super::runs::{FoundV1, GoneV1};
use base::clock::Timestamp;
use base::codec::{CodecError, Record, decode_body};
use base::ids::{InputId, InputRunId, JobId, WorkflowId};
use base::terms::PageType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

/// What a link's page is registered with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAsV1 {
    pub page_type: Option<PageType>,
    pub tags: Vec<String>,
}

/// What is done with the links that it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleV1 {
    pub xpath: Option<String>,
    pub css: Option<String>,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// None where they are not registered.
    pub keep: Option<KeptAsV1>,
    /// Whether their own links are read.
    pub follow: bool,
}

/// What an input of the kind crawl has beside those of all kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlV1 {
    pub start_urls: Vec<String>,
    pub rules: Vec<RuleV1>,
    pub depth: u16,
    pub max_pages: u32,
    pub revisit_after_secs: u64,
}

impl Record for CrawlV1 {}

pub static CRAWLS: OrgTable<InputId, CrawlV1> = OrgTable::new("crawls", "Crawl");

/// What a frontier was begun with: a change of the input counts from the next one on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontierTermsV1 {
    pub crawl: CrawlV1,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub any_domain: bool,
    pub tags: Vec<String>,
    pub page_type: Option<PageType>,
    pub workflow_id: Option<WorkflowId>,
}

impl Record for FrontierTermsV1 {}

impl FrontierTermsV1 {
    pub fn new(input: &InputV1, crawl: CrawlV1) -> FrontierTermsV1 {
        FrontierTermsV1 {
            crawl,
            include: input.include.clone(),
            exclude: input.exclude.clone(),
            any_domain: input.any_domain,
            tags: input.tags.clone(),
            page_type: input.page_type,
            workflow_id: input.workflow_id,
        }
    }

    /// The input as it was then, and its crawl.
    pub fn apply(self, input: InputV1) -> (InputV1, CrawlV1) {
        let FrontierTermsV1 { crawl, include, exclude, any_domain, tags, page_type, workflow_id } = self;
        (InputV1 { include, exclude, any_domain, tags, page_type, workflow_id, ..input }, crawl)
    }
}

pub static FRONTIER_TERMS: OrgTable<InputRunId, FrontierTermsV1> = OrgTable::new("crawl_terms", "Crawl");

/// A place in a site where a walk went on for ever, or would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlTrap")]
pub struct TrapV1 {
    /// Its addresses, with what a program fills in as `{n}`, `{date}`, `{token}` and `{text}`.
    pub shape: String,
    /// `calendar`, `session`, `endless`, `barren`, `repeated` or `long`.
    pub why: String,
    /// Pages that were asked for there, or links that were not followed.
    pub pages: u64,
    pub example: String,
}

/// How far a run of a crawl is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrawlRunV1 {
    pub input_id: InputId,
    pub frontier: InputRunId,
    /// What becomes the run's own when it has ended. Pages are its documents.
    pub found: FoundV1,
    /// Pages that were asked for.
    pub asked: u64,
    pub failed: u64,
    pub robots_refused: u64,
    /// Pages that led to a login, or off the site.
    pub led_away: u64,
    pub depth_reached: u16,
    /// Pages that it left for the next one.
    pub left: u64,
    pub traps: Vec<TrapV1>,
    /// Why it asks for no more pages.
    pub stopped: Option<String>,
    /// Why the first page that failed did.
    pub first_failure: Option<String>,
}

impl Record for CrawlRunV1 {}

pub static CRAWL_RUNS: OrgTable<InputRunId, CrawlRunV1> = OrgTable::new("crawl_runs", "Crawl run");

/// Where the walk of an input is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontierV1 {
    /// The run that began it.
    pub id: InputRunId,
    /// The input's terms then.
    pub terms: u32,
    /// The number of the next page, in the order of finding.
    pub next: u64,
    /// Pages that wait for their turn.
    pub waiting: u64,
    /// Pages whose jobs have not been looked at.
    pub under_way: u64,
}

impl Record for FrontierV1 {}

pub static FRONTIERS: OrgTable<InputId, FrontierV1> = OrgTable::new("crawl_frontiers", "Frontier");

/// The beginning of the SHA-256 of a page's identity, of a shape, or of a page's bytes.
pub type ShortDigest = [u8; 16];

/// Where a page of a frontier stands.
// Stored: variants are never reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageState {
    Waiting,
    /// Its job has not been looked at since it ended.
    UnderWay(JobId),
    /// It was read, or another page is it, or nobody needs to ask for it.
    Done,
    Failed,
}

/// A page that a walk knows, as rows of version 1 have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlPageV1 {
    pub frontier: InputRunId,
    pub url: String,
    pub depth: u16,
    pub kept_by: Option<u16>,
    pub follow: bool,
    pub state: PageState,
    pub order: u64,
    pub claims: u16,
}

impl Record for CrawlPageV1 {}

/// A page that a walk knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlPageV2 {
    /// As in its key, for its indexes.
    pub frontier: InputRunId,
    pub url: String,
    pub depth: u16,
    /// By which rule it is kept: its place, or `KEPT_BY_NONE` where there are no rules.
    pub kept_by: Option<u16>,
    pub follow: bool,
    pub state: PageState,
    /// Pages of a lesser depth come first, then those that were found first.
    pub order: u64,
    /// Pages that say that they are this one.
    pub claims: u16,
    /// The page whose link led here first. None at the start, and where nobody noted it.
    pub found_on: Option<ShortDigest>,
}

impl From<CrawlPageV1> for CrawlPageV2 {
    fn from(old: CrawlPageV1) -> CrawlPageV2 {
        let CrawlPageV1 { frontier, url, depth, kept_by, follow, state, order, claims } = old;
        CrawlPageV2 { frontier, url, depth, kept_by, follow, state, order, claims, found_on: None }
    }
}

/// A page is kept as the input says, without a rule.
pub const KEPT_BY_NONE: u16 = u16::MAX;

impl CrawlPageV2 {
    /// Whether somebody said that pages like this one are wanted.
    pub fn is_kept_by_rule(&self) -> bool {
        self.kept_by.is_some_and(|rule| rule != KEPT_BY_NONE)
    }
}

impl Record for CrawlPageV2 {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => decode_body::<CrawlPageV1>(body).map(CrawlPageV2::from),
            _ => Err(CodecError(format!("row version {version} is unknown to this release"))),
        }
    }
}

type PageKey = (InputRunId, ShortDigest);

/// Pages that wait.
pub static PAGES_WAITING: Index<(InputRunId, u64), CrawlPageV2> =
    Index::new("crawl_pages.waiting", |page, keys| {
        if page.state == PageState::Waiting {
            keys.add((page.frontier, page.order));
        }
    });

pub static PAGES_UNDER_WAY: Index<InputRunId, CrawlPageV2> =
    Index::new("crawl_pages.under_way", |page, keys| {
        if matches!(page.state, PageState::UnderWay(_)) {
            keys.add(page.frontier);
        }
    });

pub static CRAWL_PAGES: OrgTable<PageKey, CrawlPageV2> =
    OrgTable::new("crawl_pages", "Page").indexed(&[&PAGES_WAITING, &PAGES_UNDER_WAY]);

/// What pages of a shape have brought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeV1 {
    pub pages: u32,
    /// Pages since the last one that brought something new.
    pub barren: u32,
    /// Pages since the last one with a link to a new page that is kept.
    pub since_kept: u32,
    pub is_closed: bool,
}

impl Record for ShapeV1 {}

pub static CRAWL_SHAPES: OrgTable<PageKey, ShapeV1> = OrgTable::new("crawl_shapes", "Shape");

/// The page that has certain bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentV1 {
    pub page: ShortDigest,
}

impl Record for ContentV1 {}

pub static CRAWL_CONTENTS: OrgTable<PageKey, ContentV1> = OrgTable::new("crawl_contents", "Content");

/// When a page that is kept was read last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenV1 {
    pub at: Timestamp,
    /// It was another page under an address of its own.
    pub is_double: bool,
}

impl Record for SeenV1 {}

pub static CRAWL_SEEN: OrgTable<(InputId, ShortDigest), SeenV1> = OrgTable::new("crawl_seen", "Page");

/// A frontier that nobody goes on with and of which there is something left to remove.
pub static FRONTIERS_GONE: OrgTable<InputRunId, GoneV1> =
    OrgTable::new("crawl_frontiers_gone", "Frontier").uncounted();

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::{decode, encode};

    #[test]
    fn a_page_of_the_release_before_is_read() {
        let old = CrawlPageV1 {
            frontier: InputRunId::new(),
            url: "https://example.com/a".into(),
            depth: 3,
            kept_by: Some(KEPT_BY_NONE),
            follow: true,
            state: PageState::UnderWay(JobId::new()),
            order: 7,
            claims: 1,
        };
        let read: CrawlPageV2 = decode(&encode(&old).unwrap()).unwrap();
        assert_eq!((&read.url, read.state, read.found_on), (&old.url, old.state, None));
        assert_eq!(read, CrawlPageV2::from(old));
    }
}
