//! What a caller says: the parameters of each operation (data/docs/api.md, "Analytics").

use super::period::{Interval, Period};
use base::Result;
use base::clock::Timestamp;
use base::ids::ProviderId;
use base::terms::PageType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

base::words! {
    /// What a time series shows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum Metric: ALL {
        /// Jobs that were submitted.
        Jobs "jobs",
        /// Those of them that have succeeded by now.
        Succeeded "succeeded",
        /// Those of them that have failed by now.
        Failed "failed",
        /// Succeeded jobs, as a part of succeeded and failed ones.
        SuccessRate "successRate",
        /// What they were charged.
        Credits "credits",
        /// Half of the succeeded jobs took at most so many milliseconds.
        LatencyP50 "latencyP50",
        /// 95 of 100 of the succeeded jobs took at most so many milliseconds.
        LatencyP95 "latencyP95",
        /// Results, by when their page was fetched.
        Results "results",
        /// Results in which a value differs from their URL's result before.
        Changed "changed",
        /// The mean composite quality of results.
        Quality "quality",
        /// Requests that went out, by when they began.
        Attempts "attempts",
        /// Those of them that were taken for a robot's.
        Blocked "blocked",
        /// Bytes that came in.
        Bytes "bytes",
    }
}

impl Metric {
    /// Whether a bucket in which nothing was counted has 0; a rate or a percentile of nothing there is not.
    pub(super) fn is_sum(self) -> bool {
        use Metric::{LatencyP50, LatencyP95, Quality, SuccessRate};
        !matches!(self, SuccessRate | LatencyP50 | LatencyP95 | Quality)
    }
}

base::words! {
    /// By what domains are sorted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum DomainSort: ALL {
        Jobs "jobs",
        Failed "failed",
        SuccessRate "successRate",
        LatencyP95 "latencyP95",
        Credits "credits",
        Results "results",
        Quality "quality",
        Domain "domain",
    }
}

base::words! {
    /// Which end of a sorted list comes first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum SortOrder {
        Asc "asc",
        Desc "desc",
    }
}

base::words! {
    /// What credits are told apart by: time, as the ledger has them; or what ended jobs were charged, by whom or what for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum CreditsBy {
        Day "day",
        Week "week",
        Month "month",
        Provider "provider",
        Domain "domain",
    }
}

impl CreditsBy {
    /// The length of a bucket, where they are told apart by time.
    pub(super) fn interval(self) -> Option<Interval> {
        match self {
            CreditsBy::Day => Some(Interval::Day),
            CreditsBy::Week => Some(Interval::Week),
            CreditsBy::Month => Some(Interval::Month),
            CreditsBy::Provider | CreditsBy::Domain => None,
        }
    }
}

base::words! {
    /// What quality is told apart by; a domain's page types each have a row of their own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum QualityBy {
        Domain "domain",
        PageType "pageType",
        Attribute "attribute",
    }
}

/// Of which time every operation is asked, beside what it has of its own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PeriodQuery {
    /// A time, or a date: its midnight in `timezone`. 30 days before `to` unless given, at most 3,660.
    #[schemars(with = "Option<Timestamp>")]
    from: Option<String>,
    /// Likewise; not in the period any more. Now, unless given.
    #[schemars(with = "Option<Timestamp>")]
    to: Option<String>,
    /// An IANA zone, in which dates are read, and whose clocks and calendar buckets follow; UTC unless given.
    timezone: Option<String>,
}

impl PeriodQuery {
    pub(super) fn period(&self, now: Timestamp) -> Result<Period> {
        Period::parse(self.from.as_deref(), self.to.as_deref(), self.timezone.as_deref(), now)
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OverviewQuery {
    pub(super) domain: Option<String>,
    pub(super) page_type: Option<PageType>,
    /// Only jobs with this tag; results and attempts have none, and are null then.
    pub(super) tag: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TimeseriesQuery {
    /// `jobs` unless given.
    pub(super) metric: Option<Metric>,
    /// How long a bucket is; a day unless given.
    pub(super) interval: Option<Interval>,
    pub(super) domain: Option<String>,
    pub(super) page_type: Option<PageType>,
    /// Only jobs with this tag; for metrics of jobs.
    pub(super) tag: Option<String>,
    /// Jobs that ended with this provider's answer, or its attempts; not for metrics of results.
    pub(super) provider_id: Option<ProviderId>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProvidersQuery {
    pub(super) domain: Option<String>,
    pub(super) page_type: Option<PageType>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DomainsQuery {
    pub(super) page_type: Option<PageType>,
    /// Only jobs with this tag; results are counted whatever their jobs' tags.
    pub(super) tag: Option<String>,
    /// `jobs` unless given.
    pub(super) sort: Option<DomainSort>,
    /// `desc` unless given; what has no value comes last both ways.
    pub(super) order: Option<SortOrder>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CreditsQuery {
    /// `day` unless given.
    pub(super) group_by: Option<CreditsBy>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct QualityQuery {
    pub(super) domain: Option<String>,
    pub(super) page_type: Option<PageType>,
    /// `domain` unless given.
    pub(super) group_by: Option<QualityBy>,
}
