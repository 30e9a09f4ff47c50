//! Results and schemas as callers see them (data/docs/api.md, "Extraction").

use super::rows::{AttributeErrorV1, DiscoveredBy, PlatformSchemaV1, RedirectV1, ResultV4};
use super::views::hex;
use base::clock::Timestamp;
use base::ids::{JobId, ResultId, SchemaId, UrlId};
use base::terms::PageType;
use base::web::host_of;
use page::extract::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// After how many seconds a caller should ask again for a result that is being indexed (data/docs/api.md, "Extraction").
pub const RETRY_AFTER_SECS: u32 = 5;

/// A result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultView {
    pub id: ResultId,
    pub job_id: JobId,
    pub url_id: Option<UrlId>,
    pub url: String,
    /// Where redirects led.
    pub final_url: String,
    /// The answers that led there, in their order; empty where there were none, or the provider does not tell them.
    pub redirects: Vec<RedirectView>,
    /// The registrable domain of the URL.
    pub domain: String,
    /// The host of the URL.
    pub host: String,
    pub page_type: Option<PageType>,
    /// The job's tags, then those that its URL had when the job ended.
    pub tags: Vec<String>,
    pub schema_id: Option<SchemaId>,
    pub schema_version: Option<u32>,
    /// The version of the organization's own attributes that were merged in; null where it had none for the page.
    pub attributes_version: Option<u32>,
    /// By attribute; attributes without a value are absent. Empty when no schema was there for the page.
    pub values: Map<String, Value>,
    /// Null when no schema was there for the page: nothing was measured.
    pub quality: Option<QualityView>,
    /// One for every attribute without a value, and for those whose value is not trusted.
    pub attribute_errors: Vec<AttributeErrorView>,
    pub provider: String,
    pub http_status: u16,
    /// SHA-256 of the values found, or of the page's bytes when no schema was there.
    pub content_hash: String,
    /// Attributes whose values differ from the URL's previous result; empty for its first.
    pub changed: Vec<String>,
    pub scraped_at: Timestamp,
    pub extracted_at: Timestamp,
    /// When it could first be found by search; null until then.
    pub indexed_at: Option<Timestamp>,
}

/// An answer that led elsewhere.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedirectView {
    /// The URL that answered so.
    pub url: String,
    pub http_status: u16,
}

impl From<RedirectV1> for RedirectView {
    fn from(row: RedirectV1) -> RedirectView {
        RedirectView { url: row.url, http_status: row.http_status }
    }
}

/// How good a result is, each from 0 to 1.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QualityView {
    pub completeness: f64,
    pub validation: f64,
    pub composite: f64,
}

/// Why an attribute has no value, or one that is not trusted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AttributeErrorView {
    pub name: String,
    pub reason: Reason,
    /// What happened at which XPath, or which limit a value misses.
    pub detail: Option<String>,
}

impl From<AttributeErrorV1> for AttributeErrorView {
    fn from(error: AttributeErrorV1) -> AttributeErrorView {
        let (reason, detail) = Reason::split(&error.reason);
        AttributeErrorView { reason, detail: detail.map(str::to_owned), name: error.name }
    }
}

impl From<page::extract::AttributeError> for AttributeErrorView {
    fn from(error: page::extract::AttributeError) -> AttributeErrorView {
        let detail = Some(error.detail).filter(|detail| !detail.is_empty());
        AttributeErrorView { name: error.name, reason: error.reason, detail }
    }
}

impl From<page::extract::Quality> for QualityView {
    fn from(quality: page::extract::Quality) -> QualityView {
        QualityView {
            completeness: quality.completeness,
            validation: quality.validation,
            composite: quality.composite,
        }
    }
}

impl ResultView {
    /// `indexed_at`: as the [`SearchFeed`](super::SearchFeed) knows it.
    pub fn new(row: ResultV4, indexed_at: Option<Timestamp>) -> ResultView {
        let values = match row.values.0 {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        ResultView {
            id: row.id,
            job_id: row.job,
            url_id: row.url_id,
            host: host_of(&row.url).to_owned(),
            url: row.url,
            final_url: row.final_url,
            redirects: row.redirects.into_iter().map(RedirectView::from).collect(),
            domain: row.domain,
            page_type: row.page_type,
            tags: row.tags,
            schema_id: row.schema.map(|schema| schema.id),
            schema_version: row.schema.map(|schema| schema.version),
            attributes_version: row.attributes_version,
            values,
            quality: row.quality.map(QualityView::from),
            attribute_errors: row.attribute_errors.into_iter().map(AttributeErrorView::from).collect(),
            provider: row.provider,
            http_status: row.http_status,
            content_hash: hex(&row.content_hash),
            changed: row.changed,
            scraped_at: row.scraped_at,
            extracted_at: row.extracted_at,
            indexed_at,
        }
    }
}

impl From<super::rows::QualityV1> for QualityView {
    fn from(quality: super::rows::QualityV1) -> Self {
        QualityView {
            completeness: quality.completeness,
            validation: quality.validation,
            composite: quality.composite,
        }
    }
}

/// What `GET /jobs/{id}/result` says of a result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultMetadata {
    pub id: ResultId,
    pub job_id: JobId,
    pub page_type: Option<PageType>,
    pub quality: Option<QualityView>,
    /// Bytes of the page as it was fetched.
    pub byte_size: u64,
    /// Bytes it takes in the blob store.
    pub stored_size: u64,
    pub content_type: Option<String>,
    pub extracted_at: Timestamp,
    pub indexed_at: Option<Timestamp>,
}

impl ResultMetadata {
    /// `indexed_at`: as the [`SearchFeed`](super::SearchFeed) knows it.
    pub fn new(row: &ResultV4, indexed_at: Option<Timestamp>) -> ResultMetadata {
        ResultMetadata {
            id: row.id,
            job_id: row.job,
            page_type: row.page_type,
            quality: row.quality.map(QualityView::from),
            byte_size: row.page.byte_size,
            stored_size: row.page.stored_size,
            content_type: row.content_type.clone(),
            extracted_at: row.extracted_at,
            indexed_at,
        }
    }
}

/// The answer while a result is extracted and not yet indexed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingView {
    /// Always true.
    pub indexing_pending: bool,
    pub retry_after_seconds: u32,
    pub job_id: JobId,
    pub id: ResultId,
    pub extracted_at: Timestamp,
}

impl PendingView {
    pub fn new(row: &ResultV4) -> PendingView {
        PendingView {
            indexing_pending: true,
            retry_after_seconds: RETRY_AFTER_SECS,
            job_id: row.job,
            id: row.id,
            extracted_at: row.extracted_at,
        }
    }
}

/// The order of a list of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SortBy {
    #[default]
    Newest,
    /// By how well they match `q`; without `q` by age.
    Relevance,
}

/// Which results, and in which order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResultFilter {
    /// Full text: words must all match; `"a phrase"`, `-without`, `begin*`, `this OR that`.
    pub q: Option<String>,
    pub domain: Option<String>,
    pub page_type: Option<PageType>,
    pub url_id: Option<UrlId>,
    /// A tag of the job, or one that its URL had when the job ended. May be repeated; all must match.
    pub tag: Vec<String>,
    /// Composite quality at least, from 0 to 1.
    pub min_quality: Option<f64>,
    /// Only those whose values did (true) or did not (false) change.
    pub changed: Option<bool>,
    /// Scraped at or after this time.
    pub from: Option<Timestamp>,
    /// Scraped before this time.
    pub to: Option<Timestamp>,
    pub sort: Option<SortBy>,
}

/// A page of results.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultList {
    pub items: Vec<FoundResult>,
    /// Hand it back as `cursor` for the next page; null on the last.
    pub next_cursor: Option<String>,
    /// Results that match, over all pages.
    pub total: u64,
    pub facets: FacetsView,
}

/// A result that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundResult {
    #[serde(flatten)]
    pub result: ResultView,
    /// Pieces of the title and the values around the words of `q`, as HTML with `<em>` marks.
    pub highlights: Vec<String>,
}

/// How what matches is distributed, the most frequent values first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FacetsView {
    pub domain: Vec<FacetCount>,
    pub page_type: Vec<FacetCount>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FacetCount {
    pub value: String,
    pub count: u64,
}

impl FacetCount {
    pub fn list(counts: Vec<(String, u64)>) -> Vec<FacetCount> {
        counts.into_iter().map(|(value, count)| FacetCount { value, count }).collect()
    }
}

/// How pages of a kind are read at a domain. Shared by all organizations; an organization's own attributes are not in it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaView {
    pub id: SchemaId,
    pub domain: String,
    pub page_type: PageType,
    pub version: u32,
    pub attributes: Vec<page::extract::Attribute>,
    pub confidence: f64,
    pub discovered_by: DiscoveredBy,
    pub sample_count: u32,
    /// When a page last confirmed it, to the hour: its quality was at least half of the schema's confidence. Null while
    /// none has.
    pub last_validated_at: Option<Timestamp>,
    /// Until when it counts as good unless another page confirms it: 90 days after the last one did, or after it was made.
    /// It is used beyond that, too; then somebody should look at it.
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
}

impl SchemaView {
    /// Fails only on a row that this release cannot read.
    pub fn new(row: PlatformSchemaV1, confirmed: Option<Timestamp>) -> base::Result<SchemaView> {
        let attributes = super::schemas::attributes_of(&row)
            .map_err(|e| base::Error::internal("read a stored schema", e))?;
        let expires_at = super::schemas::good_until(&row, confirmed);
        Ok(SchemaView {
            id: row.id,
            domain: row.domain,
            page_type: row.page_type,
            version: row.version,
            attributes,
            confidence: row.confidence,
            discovered_by: row.discovered_by,
            sample_count: row.sample_count,
            last_validated_at: confirmed,
            expires_at,
            created_at: row.created_at,
        })
    }
}

/// Which schemas.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchemaFilter {
    pub domain: Option<String>,
    pub page_type: Option<PageType>,
}

/// Schemas, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SchemaList {
    pub items: Vec<SchemaView>,
}
