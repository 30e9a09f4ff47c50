//! What goes over the wire about discoveries. The outcome of one is kept as it is told.

use super::rows::{DiscoveryStatus, DiscoveryV1};
use crate::features::extraction::{DiscoveredBy, ResultV4};
use base::clock::Timestamp;
use base::ids::{DiscoveryId, JobId, SchemaId};
use base::terms::PageType;
use base::{Error, Result};
use page::extract::Attribute;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiscoveryRequest {
    /// A registrable domain, or one host of it.
    pub domain: String,
    /// Null where the pages are to say what they are.
    #[serde(default)]
    pub page_type: Option<PageType>,
    /// The jobs whose pages are to teach (20 at most); without them, and without `urls`, the newest pages of the domain.
    #[serde(default)]
    pub job_ids: Option<Vec<JobId>>,
    /// The same by URLs: the newest stored page of each.
    #[serde(default)]
    pub urls: Option<Vec<String>>,
    /// How many pages are to teach, where none are named: 1 to 20.
    #[serde(default)]
    pub sample_size: Option<u32>,
}

/// A discovery and where it stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiscoveryView {
    id: DiscoveryId,
    status: DiscoveryStatus,
    domain: String,
    /// What was asked for, else what the pages say; null until they have said it.
    page_type: Option<PageType>,
    sample_size: u32,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    #[serde(flatten)]
    outcome: Outcome,
}

/// What came of a discovery; empty until it has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Outcome {
    /// Why the pages have taught nothing; null where they have.
    pub error: Option<String>,
    /// Who has proposed what was kept.
    pub discovered_by: Option<DiscoveredBy>,
    /// The type that the pages say they are of.
    #[serde(rename = "foundPageType")]
    pub page_type: Option<PageType>,
    /// The pages that were looked at, and what for.
    pub sample: Vec<SampledPage>,
    /// What the pages have taught, whether it became a schema or not.
    pub attributes: Vec<FoundAttribute>,
    /// What pages say of themselves, and nothing on them shows in a way that holds.
    pub left_out: Vec<LeftOutAttribute>,
    /// The share of values on held-back pages that the attributes reproduce.
    pub confidence: Option<f64>,
    /// The schema that holds with it, new or not; null where there is none.
    pub schema: Option<SchemaVersion>,
    /// Why no new version was made; null where one was.
    pub not_saved: Option<NotSaved>,
    /// What else is to be said, as that a language model did not answer.
    pub notes: Vec<String>,
}

/// A version of a schema.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DiscoveredSchemaVersion")]
pub(super) struct SchemaVersion {
    pub id: SchemaId,
    pub domain: String,
    pub page_type: PageType,
    pub version: u32,
}

base::words! {
    /// Why a discovery made no new version of a schema.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum NotSaved {
        /// The schema that holds says the same.
        Same "same",
        /// The schema that holds reads the held-back pages as well or better.
        NotBetter "not_better",
        /// The schema that holds was imported by the operator.
        Manual "manual",
        /// Fewer pages than it takes to replace a schema, or fewer attributes than tell a page of the type from others.
        TooLittle "too_little",
        /// Too many versions were made within a day.
        TooOften "too_often",
        /// The schema changed each time while the pages were read.
        Overtaken "overtaken",
    }
}

base::words! {
    /// What a page was taken for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum PageUse {
        /// It was learned from, and held back from what the others have taught.
        Taught "taught",
        /// It was only checked on.
        HeldBack "held_back",
        /// It was not looked at; `reason` says why.
        LeftOut "left_out",
    }
}

base::words! {
    /// Why a page was left out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum LeftOutPage {
        /// It was fetched with a site session: what is private teaches nobody else.
        SignedIn "signed_in",
        /// It was fetched with headers of the caller's own.
        OwnHeaders "own_headers",
        /// It came through proxies, or from a vendor's address, of the organization's own.
        OwnWay "own_way",
        /// Its job is not kept any more, so nobody can say how it was fetched.
        JobGone "job_gone",
        /// It was redirected to another site.
        OtherSite "other_site",
        /// It is not kept any more, or is no page.
        NoPage "no_page",
        /// It is too large, alone or with the others.
        TooLarge "too_large",
        /// It says that it is of another type than most.
        OtherType "other_type",
        /// It says nothing of itself that could be learned from.
        NoAnswers "no_answers",
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SampledPage {
    pub job_id: JobId,
    pub url: String,
    #[serde(rename = "use")]
    pub used_as: PageUse,
    pub reason: Option<LeftOutPage>,
}

impl SampledPage {
    pub fn new(row: &ResultV4, used_as: PageUse, reason: Option<LeftOutPage>) -> SampledPage {
        SampledPage { job_id: row.job, url: row.url.clone(), used_as, reason }
    }
}

/// An attribute with what speaks for it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundAttribute {
    #[serde(flatten)]
    pub attribute: Attribute,
    /// The share of values on held-back pages that it reproduces.
    pub confidence: f64,
    /// The share of the pages on which it gives a value.
    pub coverage: f64,
    /// Whether the values differ from page to page and its first expression is right on all of them, so that it did not come about
    /// by chance.
    pub is_firm: bool,
}

/// An attribute that was not kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftOutAttribute {
    pub name: String,
    pub reason: LeftOutReason,
    /// The share of values that it would have reproduced; null where nothing was found.
    pub confidence: Option<f64>,
}

base::words! {
    /// Why an attribute was not kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub(super) enum LeftOutReason {
        /// Fewer than two of the pages have a value.
        TooFewPages "too_few_pages",
        /// No expression gives the values: the pages do not show them, or each in another way.
        NotShown "not_shown",
        /// Expressions were found, and less than half of the values on held-back pages came out right.
        NotReproduced "not_reproduced",
    }
}

impl DiscoveryView {
    pub fn new(row: DiscoveryV1) -> Result<DiscoveryView> {
        let outcome = row.outcome.map(|outcome| Outcome::deserialize(outcome.0)).transpose();
        let outcome = outcome.map_err(|e| Error::internal("read what came of a discovery", e))?;
        let outcome = outcome.unwrap_or_default();
        Ok(DiscoveryView {
            id: row.id,
            status: row.status,
            domain: row.domain,
            page_type: row.page_type.or(outcome.page_type),
            sample_size: row.sample_size,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            outcome,
        })
    }
}
