//! How long things are kept, as the configuration and the plans say it.

use crate::config::{Bounds, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Terms; 0 is for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// Days that pages are kept after they were fetched; their results stay.
    pub pages_days: u32,
    /// Results of one URL that are kept: the newest ones.
    pub versions_per_url: u32,
    /// Days that jobs are kept after they were submitted, once they have ended.
    pub jobs_days: u32,
    /// Days that results are kept, with their pages.
    pub results_days: u32,
    /// MiB that an organization's pages take, compressed; beyond it the oldest go, and their results stay.
    pub pages_mb: u32,
}

impl Section for Terms {
    const NAME: &'static str = "retention";
    const BOUNDS: Bounds = &[
        ("pages_days", 0..=36_500),
        ("versions_per_url", 0..=1_000_000),
        ("jobs_days", 0..=36_500),
        ("results_days", 0..=36_500),
        ("pages_mb", 0..=4_294_967_295),
    ];
}

impl Terms {
    /// The shorter of each.
    pub(super) fn within(self, other: Terms) -> Terms {
        let shorter = |one: u32, two: u32| match (one, two) {
            (0, term) | (term, 0) => term,
            (one, two) => one.min(two),
        };
        Terms {
            pages_days: shorter(self.pages_days, other.pages_days),
            versions_per_url: shorter(self.versions_per_url, other.versions_per_url),
            jobs_days: shorter(self.jobs_days, other.jobs_days),
            results_days: shorter(self.results_days, other.results_days),
            pages_mb: shorter(self.pages_mb, other.pages_mb),
        }
    }
}

/// The terms on the wire; 0 is for good.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TermsView {
    /// Days that pages are kept; their results stay.
    pages_days: u32,
    /// Results of one URL that are kept: the newest ones.
    versions_per_url: u32,
    /// Days that jobs are kept once they have ended.
    jobs_days: u32,
    /// Days that results are kept, with their pages.
    results_days: u32,
    /// MiB that pages take, compressed; beyond it the oldest go.
    pages_mb: u32,
}

impl From<Terms> for TermsView {
    fn from(terms: Terms) -> TermsView {
        TermsView {
            pages_days: terms.pages_days,
            versions_per_url: terms.versions_per_url,
            jobs_days: terms.jobs_days,
            results_days: terms.results_days,
            pages_mb: terms.pages_mb,
        }
    }
}
