//! Inputs on the wire: what a caller asks for, checked, and what is shown.

use super::crawl_rows::{CrawlRunV1, CrawlV1, FrontierV1};
use super::crawl_wire::{
    CheckedCrawl, CrawlRunView, CrawlTerms, CrawlView, DEPTH_MAX, REVISIT_SECS_MAX, RULES_MAX, Rule,
    START_URLS_MAX,
};
use super::patterns::{self, PATTERN_CHARS_MAX, PATTERNS_MAX};
use super::rows::{InputKind, InputV1};
use super::runs::{InputRunStatus, InputRunV1, InputTrigger, RunNoteV1};
use super::token;
use crate::features::schedules::{CRON_BYTES_MAX, Times, Unreadable, zone_name};
use base::clock::Timestamp;
use base::ids::{BatchId, InputId, InputRunId, WorkflowId};
use base::limits::{NAME_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX};
use base::name::Name;
use base::terms::PageType;
use base::web::{URL_BYTES_MAX, WebUrl};
use base::{Code, Error, Result, labels};
use fetch::AddressGuard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const TIMEZONE_DEFAULT: &str = "UTC";

/// A request with what can be said of an input beside its own members. (One flattened into another would lose which member
/// of a body was wrong.)
macro_rules! with_terms {
    ($(#[$meta:meta])* $name:ident { $($(#[$of:meta])* $member:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub(super) struct $name {
            $($(#[$of])* pub $member: $kind,)*
            /// What people call it; the host of `url`, or `webhook`, unless said otherwise.
            #[schemars(length(min = 1, max = NAME_CHARS_MAX))]
            #[serde(default)]
            pub name: Option<String>,
            /// What its URLs are registered with.
            #[schemars(length(max = TAGS_MAX), inner(length(min = 1, max = TAG_CHARS_MAX)))]
            #[serde(default)]
            pub tags: Option<Vec<String>>,
            #[serde(default)]
            pub page_type: Option<PageType>,
            #[serde(default)]
            pub workflow_id: Option<WorkflowId>,
            /// Whether URLs become jobs; false unless said otherwise.
            #[serde(default)]
            pub submit_jobs: Option<bool>,
            /// True unless said otherwise. One that is switched off takes nothing and does not run by itself.
            #[serde(default)]
            pub is_enabled: Option<bool>,
            /// A webhook's: messages must be signed with it (Standard Webhooks); `whsec_` and 24 to 64 bytes in base64.
            /// It is never shown.
            #[serde(default)]
            pub signing_secret: Option<String>,
            /// The document of sitemaps, feeds and CSV files, which they must have.
            #[schemars(length(min = 1, max = URL_BYTES_MAX))]
            #[serde(default)]
            pub url: Option<String>,
            /// URLs that are wanted: texts in which `*` stands for anything. Empty: all.
            #[schemars(length(max = PATTERNS_MAX), inner(length(min = 1, max = PATTERN_CHARS_MAX)))]
            #[serde(default)]
            pub include: Option<Vec<String>>,
            /// URLs that are not, likewise; it goes before `include`.
            #[schemars(length(max = PATTERNS_MAX), inner(length(min = 1, max = PATTERN_CHARS_MAX)))]
            #[serde(default)]
            pub exclude: Option<Vec<String>>,
            /// A sitemap's or crawl's: whether URLs of other registrable domains are meant, too; false unless said otherwise.
            #[serde(default)]
            pub any_domain: Option<bool>,
            /// When it runs by itself, as of a schedule; only when it is asked for unless said otherwise.
            #[schemars(length(min = 1, max = CRON_BYTES_MAX))]
            #[serde(default)]
            pub cron: Option<String>,
            /// An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
            #[serde(default)]
            pub timezone: Option<String>,
            /// A crawl's: where it begins. It must have some.
            #[schemars(length(min = 1, max = START_URLS_MAX), inner(length(min = 1, max = URL_BYTES_MAX)))]
            #[serde(default)]
            pub start_urls: Option<Vec<String>>,
            /// A crawl's: what is done with links. Without rules every page is kept and its links are followed.
            #[schemars(length(max = RULES_MAX))]
            #[serde(default)]
            pub rules: Option<Vec<Rule>>,
            /// A crawl's: how many links a page may be away from the start; 5 unless said otherwise.
            #[schemars(range(max = DEPTH_MAX))]
            #[serde(default)]
            pub depth: Option<u16>,
            /// A crawl's: pages that a run asks for at most; 1,000 unless said otherwise.
            #[schemars(range(min = 1))]
            #[serde(default)]
            pub max_pages: Option<u32>,
            /// A crawl's: for how long a page that is kept is not asked for again; a week unless said otherwise.
            #[schemars(range(max = REVISIT_SECS_MAX))]
            #[serde(default)]
            pub revisit_after_seconds: Option<u64>,
        }

        impl $name {
            fn terms(&self) -> InputTerms<CrawlTerms> {
                InputTerms {
                    name: self.name.clone(),
                    tags: self.tags.clone(),
                    page_type: self.page_type,
                    workflow_id: self.workflow_id,
                    submit_jobs: self.submit_jobs,
                    is_enabled: self.is_enabled,
                    signing_secret: self.signing_secret.clone(),
                    url: self.url.clone(),
                    include: self.include.clone(),
                    exclude: self.exclude.clone(),
                    any_domain: self.any_domain,
                    cron: self.cron.clone(),
                    timezone: self.timezone.clone(),
                    crawl: CrawlTerms {
                        start_urls: self.start_urls.clone(),
                        rules: self.rules.clone(),
                        depth: self.depth,
                        max_pages: self.max_pages,
                        revisit_after_secs: self.revisit_after_seconds,
                    },
                }
            }
        }
    };
}

with_terms! {
    /// An input as a caller asks for it.
    NewInput {
        kind: InputKind,
    }
}

with_terms! {
    /// What is to be different. What is left out, or null, stays as it is.
    InputUpdate {
        /// A webhook's: true ends its token; the answer has the new one.
        #[serde(default)]
        rotate_token: Option<bool>,
        /// What the input is to have none of from now on.
        #[serde(default)]
        clear: Option<Vec<Clearable>>,
    }
}

/// What null would mean if it did not mean that it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClearableOfInput")]
pub(super) enum Clearable {
    PageType,
    WorkflowId,
    Cron,
    SigningSecret,
}

/// What can be said of an input; of a crawl as it came, or checked.
struct InputTerms<C> {
    name: Option<String>,
    tags: Option<Vec<String>>,
    page_type: Option<PageType>,
    workflow_id: Option<WorkflowId>,
    submit_jobs: Option<bool>,
    is_enabled: Option<bool>,
    signing_secret: Option<String>,
    url: Option<String>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    any_domain: Option<bool>,
    cron: Option<String>,
    timezone: Option<String>,
    crawl: C,
}

/// What an input is made or changed within.
pub(super) struct Within<'w> {
    pub guard: &'w AddressGuard,
    pub now: Timestamp,
    /// Pages that a run of a crawl may ask for.
    pub pages_max: u32,
}

/// A new or changed row, with what must be done beside writing it.
pub(super) struct CheckedInput {
    pub row: InputV1,
    /// The signing secret, to be sealed.
    pub secret: Option<Vec<u8>>,
    pub times: Option<Times>,
    /// What a crawl has beside.
    pub crawl: Option<CrawlV1>,
}

impl NewInput {
    /// Whether it is checked apart from the threads that answer: expressions are compiled.
    pub fn is_heavy(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.is_empty())
    }

    pub fn checked(&self, within: &Within<'_>) -> Result<CheckedInput> {
        let now = within.now;
        let terms = self.terms();
        terms.crawl.check_numbers(within.pages_max)?;
        let terms = terms.checked(within)?;
        terms.check_kind(self.kind)?;
        if !matches!(self.kind, InputKind::Webhook | InputKind::Crawl) && self.url.is_none() {
            return Err(Error::invalid("url", format!("is missing; the kind {} has one", self.kind.name())));
        }
        let row = InputV1 {
            id: InputId::new(),
            kind: self.kind,
            name: String::new(),
            tags: Vec::new(),
            page_type: None,
            workflow_id: None,
            // The pages of a crawl are jobs.
            submit_jobs: self.kind == InputKind::Crawl,
            is_enabled: true,
            disabled_reason: None,
            token: None,
            token_shown: None,
            signing_secret: None,
            url: None,
            include: Vec::new(),
            exclude: Vec::new(),
            any_domain: false,
            cron: None,
            timezone: TIMEZONE_DEFAULT.to_owned(),
            decided_until: now,
            next_at: None,
            last_run_at: None,
            runs: 0,
            failures: 0,
            terms: 0,
            created_at: now,
            updated_at: now,
        };
        let mut checked = terms.applied(row, None, now)?;
        if checked.row.name.is_empty() {
            let first = checked.crawl.as_ref().and_then(|crawl| crawl.start_urls.first());
            let url = checked.row.url.as_ref().or(first).and_then(|url| WebUrl::parse(url).ok());
            checked.row.name = url.map_or(self.kind.name().to_owned(), |url| url.host().to_owned());
        }
        Ok(checked)
    }
}

impl InputUpdate {
    /// As of a new one.
    pub fn is_heavy(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.is_empty())
    }

    /// The same, checked as far as it can be without the row.
    pub fn checked(self, within: &Within<'_>) -> Result<CheckedUpdate> {
        let terms = self.terms();
        terms.crawl.check_numbers(within.pages_max)?;
        let clears = |field| self.clear.iter().flatten().any(|clear| *clear == field);
        for (field, name, is_given) in [
            (Clearable::PageType, "pageType", self.page_type.is_some()),
            (Clearable::WorkflowId, "workflowId", self.workflow_id.is_some()),
            (Clearable::Cron, "cron", self.cron.is_some()),
            (Clearable::SigningSecret, "signingSecret", self.signing_secret.is_some()),
        ] {
            if is_given && clears(field) {
                return Err(Error::invalid("clear", format!("names {name}, which is given as well")));
            }
        }
        let terms = terms.checked(within)?;
        let rotates = self.rotate_token == Some(true);
        Ok(CheckedUpdate { terms, rotates, clear: self.clear.unwrap_or_default() })
    }
}

/// A change that may be made of any input.
pub(super) struct CheckedUpdate {
    terms: InputTerms<CheckedCrawl>,
    /// Whether a webhook gets another token.
    pub rotates: bool,
    clear: Vec<Clearable>,
}

impl CheckedUpdate {
    /// The row as it is to be.
    pub fn applied(self, mut row: InputV1, crawl: Option<CrawlV1>, now: Timestamp) -> Result<CheckedInput> {
        let clears = |field| self.clear.contains(&field);
        if self.rotates && row.kind != InputKind::Webhook {
            return Err(not_for("rotateToken", row.kind));
        }
        row.page_type = row.page_type.filter(|_| !clears(Clearable::PageType));
        row.workflow_id = row.workflow_id.filter(|_| !clears(Clearable::WorkflowId));
        row.cron = row.cron.filter(|_| !clears(Clearable::Cron));
        row.signing_secret = row.signing_secret.filter(|_| !clears(Clearable::SigningSecret));
        self.terms.check_kind(row.kind)?;
        self.terms.applied(row, crawl, now)
    }
}

fn not_for(field: &str, kind: InputKind) -> Error {
    Error::invalid(field, format!("is not for an input of the kind {}", kind.name()))
}

impl InputTerms<CrawlTerms> {
    /// The terms as they are kept; what is wrong with one, whatever it is for.
    fn checked(self, within: &Within<'_>) -> Result<InputTerms<CheckedCrawl>> {
        let Within { guard, now, pages_max } = *within;
        let zone = self.timezone.map(|zone| {
            zone_name(&zone).map(str::to_owned).map_err(|reason| Error::invalid("timezone", reason))
        });
        let cron = self.cron.map(|cron| {
            let cron = cron.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            Times::parse(&cron, TIMEZONE_DEFAULT, now).map_err(unreadable)?;
            Ok::<_, Error>(cron)
        });
        if let Some(secret) = &self.signing_secret {
            token::secret("signingSecret", secret)?;
        }
        Ok(InputTerms {
            name: self.name.map(|name| Name::parse("name", &name)).transpose()?.map(Name::into_string),
            tags: self.tags.map(|tags| labels::tags("tags", tags)).transpose()?,
            url: self.url.map(|url| document_url("url", &url, guard)).transpose()?,
            include: self.include.map(|list| patterns::checked("include", list)).transpose()?,
            exclude: self.exclude.map(|list| patterns::checked("exclude", list)).transpose()?,
            cron: cron.transpose()?,
            timezone: zone.transpose()?,
            crawl: self.crawl.checked(pages_max, |place, url| document_url(place, url, guard))?,
            page_type: self.page_type,
            workflow_id: self.workflow_id,
            submit_jobs: self.submit_jobs,
            is_enabled: self.is_enabled,
            signing_secret: self.signing_secret,
            any_domain: self.any_domain,
        })
    }
}

impl InputTerms<CheckedCrawl> {
    /// Refuses what an input of this kind does not have.
    fn check_kind(&self, kind: InputKind) -> Result<()> {
        let (is_webhook, is_crawl) = (kind == InputKind::Webhook, kind == InputKind::Crawl);
        let wrong = [
            ("signingSecret", self.signing_secret.is_some() && !is_webhook),
            ("url", self.url.is_some() && (is_webhook || is_crawl)),
            ("submitJobs", self.submit_jobs.is_some() && is_crawl),
            ("include", self.include.is_some() && is_webhook),
            ("exclude", self.exclude.is_some() && is_webhook),
            ("cron", self.cron.is_some() && is_webhook),
            ("timezone", self.timezone.is_some() && is_webhook),
            ("anyDomain", self.any_domain.is_some() && kind != InputKind::Sitemap && !is_crawl),
            (self.crawl.first_given().unwrap_or_default(), self.crawl.first_given().is_some() && !is_crawl),
        ];
        match wrong.into_iter().find(|(_, is_wrong)| *is_wrong) {
            Some((field, _)) => Err(not_for(field, kind)),
            None => Ok(()),
        }
    }

    /// The row with these terms, which were checked. What it refers to is checked when it is written.
    fn applied(self, mut row: InputV1, crawl: Option<CrawlV1>, now: Timestamp) -> Result<CheckedInput> {
        row.name = self.name.unwrap_or(row.name);
        row.tags = self.tags.unwrap_or(row.tags);
        row.page_type = self.page_type.or(row.page_type);
        row.workflow_id = self.workflow_id.or(row.workflow_id);
        row.submit_jobs = self.submit_jobs.unwrap_or(row.submit_jobs);
        row.any_domain = self.any_domain.unwrap_or(row.any_domain);
        row.url = self.url.or(row.url);
        row.include = self.include.unwrap_or(row.include);
        row.exclude = self.exclude.unwrap_or(row.exclude);
        row.timezone = self.timezone.unwrap_or(row.timezone);
        row.cron = self.cron.or(row.cron);
        let times = row.cron.as_deref().map(|cron| Times::parse(cron, &row.timezone, now));
        let times = times.transpose().map_err(unreadable)?;
        if let Some(is_enabled) = self.is_enabled {
            row.is_enabled = is_enabled;
            row.disabled_reason = row.disabled_reason.filter(|_| !is_enabled);
        }
        let secret = self.signing_secret.as_deref().map(|text| token::secret("signingSecret", text));
        let crawl = match row.kind {
            InputKind::Crawl => Some(self.crawl.applied(crawl, &row.tags)?),
            _ => None,
        };
        Ok(CheckedInput { row, secret: secret.transpose()?, times, crawl })
    }
}

fn unreadable(unreadable: Unreadable) -> Error {
    Error::invalid(unreadable.field, unreadable.reason)
}

/// A document that may be asked for as far as its text tells. What a name resolves to is checked when it is connected to.
fn document_url(place: &str, text: &str, guard: &AddressGuard) -> Result<String> {
    let refuse = |reason: String| Error::new(Code::InvalidUrl).message(format!("{place}: {reason}"));
    let url = WebUrl::parse(text).map_err(|e| refuse(e.to_string()))?;
    guard.check_literal(&url).map_err(|refused| refuse(refused.to_string()))?;
    Ok(url.as_str().to_owned())
}

/// A source of URLs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputView {
    id: InputId,
    kind: InputKind,
    name: String,
    tags: Vec<String>,
    page_type: Option<PageType>,
    workflow_id: Option<WorkflowId>,
    submit_jobs: bool,
    is_enabled: bool,
    /// Why the box switched it off.
    disabled_reason: Option<String>,
    /// The first characters of a webhook's token.
    token_prefix: Option<String>,
    /// Whether a webhook's messages must be signed.
    is_signed: bool,
    url: Option<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    any_domain: bool,
    /// Null where it is no crawl.
    #[serde(flatten)]
    crawl: CrawlView,
    cron: Option<String>,
    timezone: String,
    /// The next tick.
    next_run_at: Option<Timestamp>,
    last_run_at: Option<Timestamp>,
    /// Runs that failed, one after the other; 0 where the last went well.
    failures: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Where a webhook is sent its URLs, with its token: in the answer that made the token, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    ingest_url: Option<String>,
}

impl InputView {
    pub fn new(row: InputV1, crawl: Option<CrawlV1>) -> InputView {
        InputView {
            crawl: CrawlView::from(crawl),
            id: row.id,
            kind: row.kind,
            name: row.name,
            tags: row.tags,
            page_type: row.page_type,
            workflow_id: row.workflow_id,
            submit_jobs: row.submit_jobs,
            is_enabled: row.is_enabled,
            disabled_reason: row.disabled_reason,
            token_prefix: row.token_shown,
            is_signed: row.signing_secret.is_some(),
            url: row.url,
            include: row.include,
            exclude: row.exclude,
            any_domain: row.any_domain,
            cron: row.cron,
            timezone: row.timezone,
            next_run_at: row.next_at.filter(|_| row.is_enabled),
            last_run_at: row.last_run_at,
            failures: row.failures,
            created_at: row.created_at,
            updated_at: row.updated_at,
            ingest_url: None,
        }
    }

    pub fn with_ingest_url(mut self, url: Option<String>) -> InputView {
        self.ingest_url = url;
        self
    }
}

/// What became of a tick, or of a request to run at once.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InputRunView")]
pub(super) struct RunView {
    id: InputRunId,
    input_id: InputId,
    trigger: InputTrigger,
    full: bool,
    scheduled_for: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    status: InputRunStatus,
    /// Why it was left out, failed, or did less.
    message: Option<String>,
    /// What the input's own document was answered with.
    http_status: Option<u16>,
    /// Who answered it, where redirects led elsewhere.
    final_url: Option<String>,
    /// What the document is, such as `RSS 2.0`.
    format: Option<String>,
    /// Documents that were read.
    documents: u64,
    /// Those that are as they were.
    not_modified: u64,
    bytes: u64,
    /// The sum of the next six.
    found: u64,
    added: u64,
    changed: u64,
    unchanged: u64,
    /// URLs that the run had found before.
    duplicates: u64,
    filtered: u64,
    /// Entries without a URL that can be registered, or of another domain.
    refused: u64,
    /// What lies beyond the bounds.
    truncated: u64,
    /// Whether a document broke off or could not be had.
    incomplete: bool,
    jobs_created: u64,
    jobs_missing: u64,
    batch_id: Option<BatchId>,
    notes: Vec<RunNoteV1>,
    /// How far a crawl is; null where it is none.
    crawl: Option<CrawlRunView>,
}

impl RunView {
    /// The run as it stands; of a crawl that goes on its row is not up to date.
    pub fn new(
        mut run: InputRunV1,
        kind: InputKind,
        crawl: Option<(CrawlRunV1, Option<FrontierV1>)>,
    ) -> RunView {
        if let Some((crawl, _)) = crawl.as_ref().filter(|_| run.status == InputRunStatus::Running) {
            (run.found, run.jobs_created) = (crawl.found.clone(), crawl.asked);
        }
        let crawl = crawl.map(|(row, frontier)| CrawlRunView::new(&row, frontier.as_ref()));
        let crawl = (kind == InputKind::Crawl).then(|| crawl.unwrap_or_default());
        let batch_id = (run.jobs_created > 0).then(|| run.batch());
        let found = run.found;
        RunView {
            id: run.id,
            input_id: run.input_id,
            trigger: run.trigger,
            full: run.is_full,
            scheduled_for: run.scheduled_for,
            started_at: run.started_at,
            finished_at: run.finished_at,
            status: run.status,
            message: run.message,
            http_status: run.http_status,
            final_url: run.final_url,
            format: run.format,
            documents: found.documents,
            not_modified: found.not_modified,
            bytes: found.bytes,
            found: found.added
                + found.changed
                + found.unchanged
                + found.duplicates
                + found.filtered
                + found.refused,
            added: found.added,
            changed: found.changed,
            unchanged: found.unchanged,
            duplicates: found.duplicates,
            filtered: found.filtered,
            refused: found.refused,
            truncated: found.truncated,
            incomplete: run.is_incomplete,
            jobs_created: run.jobs_created,
            jobs_missing: run.jobs_missing,
            batch_id,
            notes: run.notes,
            crawl,
        }
    }
}
