//! Words of the interface that several slices share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

crate::words! {
    /// What kind of page it is, and so which extraction schema of its domain is for it.
    // A row holds the place in this list, so it only grows at its end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum PageType: ALL {
        Product "product",
        ProductList "product_list",
        Serp "serp",
        Article "article",
        JobPosting "job_posting",
        Bestseller "bestseller",
    }
}

impl PageType {
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

crate::words! {
    /// Where a job stands: it waits, runs, or has ended in one of three ways for good.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum JobStatus {
        Queued "queued",
        Running "running",
        Succeeded "succeeded",
        Failed "failed",
        Canceled "canceled",
    }
}

impl JobStatus {
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
