//! Which URLs a request about many of them means.

use super::UrlFilter;
use base::terms::{JobStatus, PageType};
use base::web::Domain;
use schemars::JsonSchema;
use serde::Deserialize;

/// Every URL that matches all that is given, as in listUrls.
#[derive(Default, Deserialize, JsonSchema)]
// A member that is typed wrong and ignored would widen what is meant.
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "UrlsChosenBy")]
pub(super) struct ChosenBy {
    /// Part of the normalized URL; the letters A to Z in any case.
    q: Option<String>,
    /// All must be there.
    tag: Option<Vec<String>>,
    domain: Option<String>,
    page_type: Option<PageType>,
    last_status: Option<JobStatus>,
}

impl From<ChosenBy> for UrlFilter {
    fn from(filter: ChosenBy) -> UrlFilter {
        UrlFilter {
            q: filter.q,
            tag: filter.tag.unwrap_or_default(),
            domain: filter.domain.map(Domain::of_filter),
            page_type: filter.page_type,
            last_status: filter.last_status,
        }
    }
}

impl UrlFilter {
    /// A text of nothing but spaces is in every URL, as none is ([`Needle`](super::trigrams::Needle)).
    pub(super) fn is_empty(&self) -> bool {
        self.q.as_ref().is_none_or(|q| q.trim().is_empty())
            && self.tag.is_empty()
            && self.domain.is_none()
            && self.page_type.is_none()
            && self.last_status.is_none()
    }
}
