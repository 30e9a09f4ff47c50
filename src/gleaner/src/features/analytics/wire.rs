//! Answers on the wire (data/docs/api.md, "Analytics").

use super::parameters::{CreditsBy, Metric, QualityBy};
use super::period::{Interval, Period};
use super::rows::{Row, rounded, share};
use base::clock::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The time that an answer is about.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PeriodView {
    from: Timestamp,
    /// Not in it any more.
    to: Timestamp,
    timezone: String,
}

impl From<&Period> for PeriodView {
    fn from(period: &Period) -> PeriodView {
        PeriodView { from: period.from, to: period.to, timezone: period.zone_name.to_owned() }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OverviewView {
    pub(super) period: PeriodView,
    pub(super) totals: TotalsView,
    /// The time of the same length before.
    pub(super) previous_period: PeriodView,
    pub(super) previous: TotalsView,
    pub(super) change: ChangeView,
    /// An upper bound on how old the tables are that this was computed from.
    pub(super) freshness_sec: u64,
}

/// What a period comes to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TotalsView {
    /// Jobs that were submitted in it.
    jobs: u64,
    by_status: ByStatusView,
    /// Succeeded jobs, as a part of succeeded and failed ones; null where there is neither.
    success_rate: Option<f64>,
    /// What these jobs were charged.
    credits: u64,
    /// Different URLs of these jobs.
    urls: u64,
    domains: u64,
    /// How long the succeeded ones took, from the beginning of their last run to its end; null where there are none.
    latency_p50_ms: Option<f64>,
    latency_p95_ms: Option<f64>,
    /// Results whose page was fetched in it; null beside a tag, as what follows.
    results: Option<u64>,
    /// Those in which a value differs from their URL's result before.
    changed: Option<u64>,
    /// Mean composite quality of these results, where they have one.
    quality: Option<f64>,
    /// Requests that went out.
    attempts: Option<u64>,
    /// Bytes that came in with them.
    bytes: Option<u64>,
}

/// Where the jobs stand now.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ByStatusView {
    queued: u64,
    running: u64,
    succeeded: u64,
    failed: u64,
    canceled: u64,
}

/// How the period differs from the one before: as a part of that, so 0.5 is half as much again. Null where that had nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeView {
    jobs: Option<f64>,
    results: Option<f64>,
    credits: Option<f64>,
    latency_p95_ms: Option<f64>,
    /// The difference of the two rates.
    success_rate: Option<f64>,
    /// The difference of the two means.
    quality: Option<f64>,
}

impl ChangeView {
    pub(super) fn between(now: &TotalsView, before: &TotalsView) -> ChangeView {
        let relative = |now: Option<f64>, before: Option<f64>| {
            let (now, before) = now.zip(before)?;
            (before != 0.0).then(|| rounded((now - before) / before))
        };
        let count = |now: Option<u64>, before: Option<u64>| {
            relative(now.map(|count| count as f64), before.map(|count| count as f64))
        };
        let difference = |now: Option<f64>, before: Option<f64>| {
            now.zip(before).map(|(now, before)| rounded(now - before))
        };
        ChangeView {
            jobs: count(Some(now.jobs), Some(before.jobs)),
            results: count(now.results, before.results),
            credits: count(Some(now.credits), Some(before.credits)),
            latency_p95_ms: relative(now.latency_p95_ms, before.latency_p95_ms),
            success_rate: difference(now.success_rate, before.success_rate),
            quality: difference(now.quality, before.quality),
        }
    }
}

impl TotalsView {
    /// Takes in one row of the statement.
    pub(super) fn add(&mut self, row: &Row<'_>) {
        let (a, b) = (row.count("a"), row.count("b"));
        match row.text("what").as_deref() {
            Some("latency") => {
                (self.latency_p50_ms, self.latency_p95_ms) = (row.float("x"), row.float("y"));
            }
            Some("urls") => self.urls = a,
            Some("domains") => self.domains = a,
            Some("results") => {
                (self.results, self.changed, self.quality) = (Some(a), Some(b), row.float("x"));
            }
            Some("attempts") => (self.attempts, self.bytes) = (Some(a), Some(b)),
            Some(status) => {
                let of = &mut self.by_status;
                let known = match status {
                    "queued" => &mut of.queued,
                    "running" => &mut of.running,
                    "succeeded" => &mut of.succeeded,
                    "failed" => &mut of.failed,
                    _ => &mut of.canceled,
                };
                *known += a;
                self.jobs += a;
                self.credits += b;
                self.success_rate =
                    share(self.by_status.succeeded, self.by_status.succeeded + self.by_status.failed);
            }
            None => {}
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TimeseriesView {
    pub(super) metric: Metric,
    pub(super) interval: Interval,
    pub(super) period: PeriodView,
    /// Every bucket that the period touches, oldest first.
    pub(super) points: Vec<PointView>,
    /// An upper bound on how old the table is that this was computed from.
    pub(super) freshness_sec: u64,
}

/// One bucket. Of the first and last what lies in the period counts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PointView {
    /// When it begins.
    pub(super) at: Timestamp,
    /// When the next one begins.
    pub(super) ends_at: Timestamp,
    /// Null for a rate, mean or percentile of nothing.
    pub(super) value: Option<f64>,
    /// How many jobs, results or attempts it was made of.
    pub(super) count: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProvidersView {
    pub(super) period: PeriodView,
    /// At most 200, who was asked most first.
    pub(super) items: Vec<ProviderFiguresView>,
    /// An upper bound on how old the tables are that this was computed from.
    pub(super) freshness_sec: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProviderFiguresView {
    provider_id: String,
    /// Null for one that is not connected any more.
    name: Option<String>,
    adapter: Option<String>,
    /// Requests that went out through it in the period.
    attempts: u64,
    /// Those that brought the page.
    succeeded: u64,
    blocked: u64,
    timeouts: u64,
    /// Those to which the target answered something else, such as 404: that is no fault of the provider.
    target_errors: u64,
    /// `succeeded`, as a part of the attempts that were not `targetErrors`.
    success_rate: Option<f64>,
    /// `blocked`, as a part of all attempts.
    block_rate: Option<f64>,
    /// How long those took that brought the page.
    latency_p50_ms: Option<f64>,
    latency_p95_ms: Option<f64>,
    bytes: u64,
    /// Jobs of the period that ended with its answer.
    jobs: u64,
    /// What those jobs were charged.
    credits: u64,
    credits_per_job: Option<f64>,
    /// What it says that its attempts cost, in units of its own.
    billed: u64,
}

impl From<&Map<String, Value>> for ProviderFiguresView {
    fn from(row: &Map<String, Value>) -> ProviderFiguresView {
        let row = Row(row);
        let (attempts, succeeded, blocked) =
            (row.count("attempts"), row.count("succeeded"), row.count("blocked"));
        let (target_errors, jobs, credits) =
            (row.count("target_errors"), row.count("jobs"), row.count("credits"));
        ProviderFiguresView {
            provider_id: row.text("provider_id").unwrap_or_default(),
            name: row.text("name"),
            adapter: row.text("adapter"),
            attempts,
            succeeded,
            blocked,
            timeouts: row.count("timeouts"),
            target_errors,
            success_rate: share(succeeded, attempts.saturating_sub(target_errors)),
            block_rate: share(blocked, attempts),
            latency_p50_ms: row.float("p50"),
            latency_p95_ms: row.float("p95"),
            bytes: row.count("bytes"),
            jobs,
            credits,
            credits_per_job: share(credits, jobs),
            billed: row.count("billed"),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DomainsView {
    pub(super) period: PeriodView,
    pub(super) items: Vec<DomainFiguresView>,
    /// Hand it back as `cursor` for the next page, with the other parameters as they were; null on the last.
    pub(super) next_cursor: Option<String>,
    /// Domains of all pages.
    pub(super) total: u64,
    /// An upper bound on how old the tables are that this was computed from.
    pub(super) freshness_sec: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DomainFiguresView {
    domain: String,
    /// Jobs that were submitted in the period.
    jobs: u64,
    succeeded: u64,
    failed: u64,
    success_rate: Option<f64>,
    latency_p50_ms: Option<f64>,
    latency_p95_ms: Option<f64>,
    /// What these jobs were charged.
    credits: u64,
    /// Results whose page was fetched in the period.
    results: u64,
    changed: u64,
    /// Their mean composite quality.
    quality: Option<f64>,
}

impl From<&Map<String, Value>> for DomainFiguresView {
    fn from(row: &Map<String, Value>) -> DomainFiguresView {
        let row = Row(row);
        DomainFiguresView {
            domain: row.text("domain").unwrap_or_default(),
            jobs: row.count("jobs"),
            succeeded: row.count("succeeded"),
            failed: row.count("failed"),
            success_rate: row.float("success_rate"),
            latency_p50_ms: row.float("p50"),
            latency_p95_ms: row.float("p95"),
            credits: row.count("credits"),
            results: row.count("results"),
            changed: row.count("changed"),
            quality: row.float("quality"),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreditsView {
    pub(super) period: PeriodView,
    pub(super) group_by: CreditsBy,
    /// All of the period, whatever it is grouped by.
    pub(super) totals: BalanceView,
    /// Every day, week or month of the period, oldest first; empty where it is grouped by something else.
    pub(super) buckets: Vec<CreditsBucketView>,
    /// What jobs that ended in the period were charged, the dearest 200 providers or domains first; empty where it is grouped
    /// by time. Pages of benchmarks are not among them.
    pub(super) items: Vec<ChargeView>,
    /// An upper bound on how old the tables are that this was computed from.
    pub(super) freshness_sec: u64,
}

/// What the ledger's rows come to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BalanceView {
    /// What jobs reserved, less what they gave back: negative where more came back than was reserved.
    used: i64,
    /// Credits of the plan.
    granted: i64,
    recharged: i64,
    /// Credits that lapsed, and corrections; negative out of the balance.
    adjusted: i64,
}

impl BalanceView {
    pub(super) fn add(&mut self, row: &Row<'_>) {
        let amount = row.int("amount");
        match row.text("kind").as_deref() {
            Some("used") => self.used -= amount,
            Some("grant") => self.granted += amount,
            Some("recharge") => self.recharged += amount,
            _ => self.adjusted += amount,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreditsBucketView {
    /// When it begins.
    pub(super) at: Timestamp,
    /// When the next one begins.
    pub(super) ends_at: Timestamp,
    #[serde(flatten)]
    pub(super) balance: BalanceView,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChargeView {
    /// The domain, or the provider's id; null where no provider is known.
    key: Option<String>,
    /// The domain, or what the provider is called.
    name: Option<String>,
    /// Jobs that were charged.
    jobs: u64,
    credits: u64,
}

impl From<&Map<String, Value>> for ChargeView {
    fn from(row: &Map<String, Value>) -> ChargeView {
        let row = Row(row);
        ChargeView {
            key: row.text("key"),
            name: row.text("name"),
            jobs: row.count("jobs"),
            credits: row.count("credits"),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QualityFiguresView {
    pub(super) period: PeriodView,
    pub(super) group_by: QualityBy,
    /// By domain and page type, or page type: at most 200, those with the most results first. Empty for attributes.
    pub(super) items: Vec<QualityRowView>,
    /// By page type and attribute: at most 500. Empty for anything else.
    pub(super) attributes: Vec<AttributeCoverageView>,
    /// An upper bound on how old the tables are that this was computed from.
    pub(super) freshness_sec: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QualityRowView {
    /// Null where it is grouped by page types alone.
    domain: Option<String>,
    /// Null for pages of no known type.
    page_type: Option<String>,
    results: u64,
    /// Those that were read by a schema, of which what follows are the means.
    scored: u64,
    /// 0.6 completeness + 0.4 validation.
    composite: Option<f64>,
    completeness: Option<f64>,
    validation: Option<f64>,
    /// Results in which a value differs from their URL's result before.
    changed: u64,
}

impl From<&Map<String, Value>> for QualityRowView {
    fn from(row: &Map<String, Value>) -> QualityRowView {
        let row = Row(row);
        QualityRowView {
            domain: row.text("domain"),
            page_type: row.text("page_type"),
            results: row.count("results"),
            scored: row.count("scored"),
            composite: row.float("composite"),
            completeness: row.float("completeness"),
            validation: row.float("validation"),
            changed: row.count("changed"),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttributeCoverageView {
    page_type: String,
    attribute: String,
    /// Results of the page type in the period that were read by a schema.
    results: u64,
    /// Those in which the attribute has a value.
    found: u64,
    /// `found`, as a part of `results`: null where there are none.
    coverage: Option<f64>,
    /// The same in the time of the same length before. An attribute that was found then is listed also when it is not now.
    previous_coverage: Option<f64>,
    /// Those in which its value differs from the URL's result before.
    changed: u64,
}

impl From<&Map<String, Value>> for AttributeCoverageView {
    fn from(row: &Map<String, Value>) -> AttributeCoverageView {
        let row = Row(row);
        let (results, found) = (row.count("results"), row.count("found"));
        AttributeCoverageView {
            page_type: row.text("page_type").unwrap_or_default(),
            attribute: row.text("attribute").unwrap_or_default(),
            results,
            found,
            coverage: share(found, results),
            previous_coverage: share(row.count("found_before"), row.count("results_before")),
            changed: row.count("changed"),
        }
    }
}
