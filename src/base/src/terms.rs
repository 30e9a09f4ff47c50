//! Words of the interface that several slices share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of page it is, and so which extraction schema of its domain is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageType {
    Product,
    ProductList,
    Serp,
    Article,
    JobPosting,
    Bestseller,
}

impl PageType {
    /// Every page type. A row holds the place in this list, so it only grows at its end.
    pub const ALL: &'static [PageType] = &[
        PageType::Product,
        PageType::ProductList,
        PageType::Serp,
        PageType::Article,
        PageType::JobPosting,
        PageType::Bestseller,
    ];

    pub fn name(self) -> &'static str {
        match self {
            PageType::Product => "product",
            PageType::ProductList => "product_list",
            PageType::Serp => "serp",
            PageType::Article => "article",
            PageType::JobPosting => "job_posting",
            PageType::Bestseller => "bestseller",
        }
    }

    /// The page type of this name on the wire.
    pub fn named(name: &str) -> Option<PageType> {
        PageType::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for PageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a job stands: it waits, runs, or has ended in one of three ways for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
    Canceled,
}

impl JobStatus {
    pub fn name(self) -> &'static str {
        match self {
            JobStatus::Queued => "queued",
            JobStatus::Running => "running",
            JobStatus::Succeeded => "succeeded",
            JobStatus::Failed => "failed",
            JobStatus::Canceled => "canceled",
        }
    }

    /// Whether nothing will change any more.
    pub fn has_ended(self) -> bool {
        matches!(self, JobStatus::Succeeded | JobStatus::Failed | JobStatus::Canceled)
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
