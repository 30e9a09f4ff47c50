//! What a provider is to the dispatcher: something that is given a [`FetchRequest`] and gives an [`Attempt`].
//!
//! The box itself ([`DirectProvider`]), a list of proxies, a browser on the box and every hosted service are one thing
//! from here up. A provider never fails and never retries by itself: whatever happens is an outcome, and what follows
//! from it is the caller's to decide, because only the caller knows the other providers.
//!
//! **Costs.** Each provider has a [`CreditMatrix`]: what a delivery costs by tier and rendering. `credits` of an attempt
//! is what the provider says that the attempt cost ([`CostSource::Reported`]) or, where it says nothing, what the
//! matrix says ([`CostSource::Table`]); `charge` is what the organization pays if this is the attempt that delivers,
//! and is the matrix's alone: a hold that was made by the matrix then always covers it, and credits of unlike vendors
//! are never added up.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::direct::Direct;
use super::outcome::{Fault, Outcome};
use super::politeness::Politeness;
use super::proxy::ProxyFailure;
use super::{CrawlDelays, FetchReport, FetchRequest, Hop, PageHeaders};
use base::health::Part;
use base::web::WebUrl;

/// The tier of a request that asks for nothing better.
pub const TIER_STANDARD: &str = "standard";
/// The tier of a request that asks for `premium`, unless the account's settings name another.
pub const TIER_PREMIUM: &str = "premium";

/// The rule of attempts that a redirect led to a host which is left alone for a while.
pub const LEFT_ALONE: &str = "left_alone";
/// What stands in the place of a detection rule where a provider was not asked at all.
pub const NOT_ASKED: &str = "not_asked";

/// Brings pages. Implementations are cheap to share and hold no state of a single request.
pub trait Provider: Send + Sync {
    /// Fetches one page. Never fails, never takes noticeably longer than the request's time limit once it has a place;
    /// for that it waits where the box has few, as long as the request has patience, and says so ([`Stage`]). Dropping
    /// the future ends the attempt and closes what it had open.
    ///
    /// [`Stage`]: super::Stage
    fn fetch<'a>(&'a self, request: &'a FetchRequest) -> BoxFuture<'a, Attempt>;
}

/// What came of one attempt.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub outcome: Outcome,
    /// What is wrong with the account; with [`Outcome::ProviderError`] and never without.
    pub fault: Option<Fault>,
    /// The target's own status, as far as it is known.
    pub http_status: Option<u16>,
    /// Bytes received on the wire, the provider's own wrapping among them.
    pub bytes: u64,
    /// What the attempt cost.
    pub credits: u64,
    pub cost_source: CostSource,
    /// What the organization is charged if this is the attempt that delivers.
    pub charge: u64,
    /// The rule that decided the outcome, of `data/detection.toml` or of the provider's template.
    pub rule: Option<String>,
    /// What went wrong, in words fit for a customer. None on success.
    pub error: Option<String>,
    /// The page; with [`Outcome::Success`] and never without.
    pub page: Option<Page>,
    pub duration: Duration,
    /// How long the target, or on a fault the provider, asked to be left alone, from now.
    pub retry_after: Option<Duration>,
    /// The host that answered last: the one that asks for `retry_after`, unless that is the provider.
    pub answered_by: Option<String>,
    /// The least pauses between two visits that hosts ask for in their robots.txt.
    pub crawl_delays: CrawlDelays,
    /// What the box itself had none of: it was no attempt, and says nothing about anybody.
    pub lack: Option<Part>,
    /// A redirect led to a host that is not to be visited before this moment, which says nothing about the provider; its
    /// rule is [`LEFT_ALONE`].
    pub left_alone_until: Option<Instant>,
}

/// A page that was delivered.
#[derive(Debug, Clone)]
pub struct Page {
    /// The URL that answered in the end.
    pub url: WebUrl,
    /// The answers that led there; empty where the provider does not tell.
    pub redirects: Vec<Hop>,
    pub headers: PageHeaders,
    /// The body after content decoding, in the charset that its headers or itself name.
    pub body: Bytes,
}

/// Where an attempt's cost comes from.
// Stored with jobs: variants are never reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The provider said it.
    Reported,
    /// The provider's credit matrix says it.
    Table,
}

impl Attempt {
    /// An attempt that failed before anything was received.
    pub fn failed(outcome: Outcome, error: impl Into<String>) -> Self {
        Self {
            outcome,
            fault: None,
            http_status: None,
            bytes: 0,
            credits: 0,
            cost_source: CostSource::Table,
            charge: 0,
            rule: None,
            error: Some(error.into()),
            page: None,
            duration: Duration::ZERO,
            retry_after: None,
            answered_by: None,
            crawl_delays: CrawlDelays::new(),
            lack: None,
            left_alone_until: None,
        }
    }

    /// Tells what hosts said about the pace, each for itself. What a provider asks for itself is its own breaker's.
    pub fn tell(&self, polite: &Politeness, now: Instant) {
        if let (Some(host), Some(pause), None) = (&self.answered_by, self.retry_after, self.fault) {
            polite.hold(host, now, now + pause);
        }
        for (host, delay) in &self.crawl_delays {
            polite.set_crawl_delay(host, now, *delay);
        }
    }

    /// An attempt that failed by the account's or the provider's own fault.
    pub fn faulty(fault: Fault, error: impl Into<String>) -> Self {
        Self { fault: Some(fault), ..Self::failed(Outcome::ProviderError, error) }
    }

    /// Whether a delivery's price is due: for the page, and for the target's own final answer, which vendors bill too
    /// (data/docs/api.md, "Credits"). A failure without an answer of the target never is.
    pub fn is_billable(&self) -> bool {
        match self.outcome {
            Outcome::Success => true,
            Outcome::TargetError => self.is_final() && self.http_status.is_some_and(|status| status >= 400),
            _ => false,
        }
    }

    /// Whether no other provider can do better.
    pub fn is_final(&self) -> bool {
        self.outcome.is_final(self.http_status)
    }

    /// Enters the price: `table` by the matrix, `reported` by the provider.
    #[must_use]
    pub fn priced(mut self, table: u64, reported: Option<u64>) -> Self {
        self.charge = if self.is_billable() { table } else { 0 };
        (self.credits, self.cost_source) = match reported {
            Some(credits) => (credits, CostSource::Reported),
            None => (self.charge, CostSource::Table),
        };
        self
    }
}

impl From<FetchReport> for Attempt {
    fn from(report: FetchReport) -> Self {
        let answered_by = report.status.is_some().then(|| report.final_url.host().to_owned());
        let page = (report.outcome == Outcome::Success).then_some(Page {
            url: report.final_url,
            redirects: report.redirects,
            headers: report.headers,
            body: report.body,
        });
        Self {
            outcome: report.outcome,
            fault: match report.trouble.and_then(ProxyFailure::fault) {
                // Another provider may take it, and this one other pages.
                None if report.is_beyond_limits => Some(Fault::Unsupported),
                None if report.outcome == Outcome::ProviderError => Some(Fault::Down),
                fault => fault,
            },
            http_status: report.status,
            bytes: report.bytes_received,
            credits: 0,
            cost_source: CostSource::Table,
            charge: 0,
            rule: report.rule.or_else(|| report.left_alone_until.map(|_| LEFT_ALONE.to_owned())),
            error: report.error,
            page,
            duration: report.duration,
            retry_after: report.retry_after,
            answered_by,
            crawl_delays: report.crawl_delays,
            lack: report.lack,
            left_alone_until: report.left_alone_until,
        }
    }
}

/// What a delivery costs by tier and rendering. Neither sums nor products: each pair has its own price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditMatrix(Vec<TierPrice>);

/// One row of a [`CreditMatrix`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierPrice {
    pub tier: String,
    /// Without rendering.
    pub plain: u64,
    pub render: u64,
}

impl CreditMatrix {
    /// A matrix of these rows; the first is what an unknown tier costs.
    pub fn new(tiers: Vec<TierPrice>) -> Self {
        Self(tiers)
    }

    /// One tier at one price.
    pub fn flat(plain: u64, render: u64) -> Self {
        Self(vec![TierPrice { tier: TIER_STANDARD.to_owned(), plain, render }])
    }

    pub fn tiers(&self) -> &[TierPrice] {
        &self.0
    }

    pub fn has(&self, tier: &str) -> bool {
        self.0.iter().any(|row| row.tier == tier)
    }

    /// The price of a delivery.
    pub fn price(&self, tier: &str, render: bool) -> u64 {
        let row = self.0.iter().find(|row| row.tier == tier).or(self.0.first());
        row.map_or(0, |row| if render { row.render } else { row.plain })
    }

    /// This matrix with the rows of `over` in the place of its own.
    #[must_use]
    pub fn overlaid(&self, over: &[TierPrice]) -> Self {
        let pick = |row: &TierPrice| over.iter().find(|other| other.tier == row.tier).unwrap_or(row).clone();
        Self(self.0.iter().map(pick).collect())
    }
}

/// The box itself as a provider.
pub struct DirectProvider {
    direct: Arc<Direct>,
    credits: CreditMatrix,
}

impl DirectProvider {
    pub fn new(direct: Arc<Direct>, credits: CreditMatrix) -> Self {
        Self { direct, credits }
    }
}

impl Provider for DirectProvider {
    fn fetch<'a>(&'a self, request: &'a FetchRequest) -> BoxFuture<'a, Attempt> {
        async move {
            let report = self.direct.fetch(request.clone()).await;
            let mut attempt = Attempt::from(report);
            // Nobody stands between: what reads as a proxy's word is the target's own, and no fault of this provider's.
            if attempt.outcome == Outcome::ProviderError && attempt.fault != Some(Fault::Unsupported) {
                (attempt.outcome, attempt.fault) = (Outcome::TargetError, None);
            }
            attempt.priced(self.credits.price(TIER_STANDARD, request.render), None)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_the_target_is_charged() {
        let with = |outcome, http_status| Attempt { outcome, http_status, ..Attempt::failed(outcome, "") };
        for (outcome, status, charge) in [
            (Outcome::Success, Some(200), 10),
            (Outcome::TargetError, Some(404), 10),
            (Outcome::TargetError, Some(302), 0),
            (Outcome::TargetError, Some(500), 0),
            (Outcome::TargetError, Some(425), 0),
            (Outcome::TargetError, None, 0),
            (Outcome::Blocked, Some(403), 0),
            (Outcome::Timeout, None, 0),
            (Outcome::ProviderError, None, 0),
        ] {
            let by_table = with(outcome, status).priced(10, None);
            assert_eq!((by_table.charge, by_table.credits), (charge, charge), "{outcome:?} {status:?}");
            assert_eq!(by_table.cost_source, CostSource::Table);
            let reported = with(outcome, status).priced(10, Some(7));
            assert_eq!((reported.charge, reported.credits), (charge, 7));
            assert_eq!(reported.cost_source, CostSource::Reported);
        }
    }

    #[test]
    fn a_matrix_gives_each_pair_its_own_price() {
        let row = |tier: &str, plain, render| TierPrice { tier: tier.to_owned(), plain, render };
        let matrix = CreditMatrix::new(vec![row("standard", 1, 10), row("premium", 10, 25)]);
        assert_eq!(matrix.price("premium", true), 25);
        assert_eq!(matrix.price("unknown", true), 10, "as the first row has it");
        let over = matrix.overlaid(&[row("premium", 3, 4), row("ultra", 9, 9)]);
        assert_eq!((over.price("premium", false), over.price("standard", true)), (3, 10));
        assert!(!over.has("ultra"), "a tier that the adapter does not have cannot be priced");
    }
}
