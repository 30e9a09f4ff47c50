//! What extraction stores: results and platform schemas. The typed columns that page types have grown are in `column_rows`.
//!
//! A result stands under its job's id, so a job that runs twice can never leave two of them. What the SQL console and the
//! search index need of a result is all in its row, so both can be rebuilt from the rows alone.

use base::clock::{Moment, Timestamp};
use base::codec::{self, CodecError, Json, Record, decode_body};
use base::ids::{JobId, ResultId, SchemaId, UrlId};
use base::terms::PageType;
use base::{Error, Result};
use ring::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Index, Key, LastText, Name, OrgTable, SysTable};

pub use super::column_rows::{
    COLUMNS, ColumnKindV1, ColumnsV2, DOMAIN_COLUMNS, DomainTable, EndedColumnV1, LATE_COLUMNS, LateColumnV1,
    LateColumnsV1, TypedColumnV2,
};

/// What one job extracted from one page, as it was kept before redirects were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultV1 {
    pub id: ResultId,
    pub job: JobId,
    pub url_id: Option<UrlId>,
    pub url: String,
    pub final_url: String,
    pub domain: String,
    pub page_type: Option<PageType>,
    pub schema: Option<SchemaRefV1>,
    pub values: Json,
    pub quality: Option<QualityV1>,
    pub attribute_errors: Vec<AttributeErrorV1>,
    pub provider: String,
    pub http_status: u16,
    pub content_type: Option<String>,
    pub page: PageRefV1,
    pub content_hash: [u8; 32],
    pub changed: Vec<String>,
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub scraped_at: Timestamp,
    pub extracted_at: Timestamp,
    pub sequence: u64,
}

impl Record for ResultV1 {}

/// What one job extracted from one page, as it was kept while readings were in the order of their dates; and a draft of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultV2 {
    pub id: ResultId,
    pub job: JobId,
    pub url_id: Option<UrlId>,
    /// The URL that was asked for, normalized.
    pub url: String,
    /// The URL that answered, after redirects.
    pub final_url: String,
    pub domain: String,
    pub page_type: Option<PageType>,
    /// The platform schema that was used; none when there was none for the page.
    pub schema: Option<SchemaRefV1>,
    /// An object from attribute to value, in the schema's order, of what was found. Empty without a schema.
    pub values: Json,
    /// None without a schema: nothing was measured.
    pub quality: Option<QualityV1>,
    pub attribute_errors: Vec<AttributeErrorV1>,
    /// The provider that delivered the page.
    pub provider: String,
    pub http_status: u16,
    pub content_type: Option<String>,
    pub page: PageRefV1,
    /// SHA-256 of what the result says: of the values that were found when a schema applied, else of the page's bytes.
    pub content_hash: [u8; 32],
    /// Attributes whose values differ from the URL's previous result.
    pub changed: Vec<String>,
    /// The page's own title.
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub scraped_at: Timestamp,
    pub extracted_at: Timestamp,
    /// The number of the change record that told of this row.
    pub sequence: u64,
    /// The answers that led from `url` to `final_url`, in their order; empty where the provider does not tell.
    pub redirects: Vec<RedirectV1>,
}

/// An answer that led elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectV1 {
    /// The URL that answered so.
    pub url: String,
    pub http_status: u16,
}

impl From<ResultV1> for ResultV2 {
    fn from(old: ResultV1) -> ResultV2 {
        ResultV2 {
            id: old.id,
            job: old.job,
            url_id: old.url_id,
            url: old.url,
            final_url: old.final_url,
            domain: old.domain,
            page_type: old.page_type,
            schema: old.schema,
            values: old.values,
            quality: old.quality,
            attribute_errors: old.attribute_errors,
            provider: old.provider,
            http_status: old.http_status,
            content_type: old.content_type,
            page: old.page,
            content_hash: old.content_hash,
            changed: old.changed,
            title: old.title,
            tags: old.tags,
            scraped_at: old.scraped_at,
            extracted_at: old.extracted_at,
            sequence: old.sequence,
            redirects: Vec::new(),
        }
    }
}

impl Record for ResultV2 {
    const VERSION: u8 = 2;
}

/// What one job extracted from one page, as it was kept before organizations had attributes of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultV3 {
    pub id: ResultId,
    pub job: JobId,
    pub url_id: Option<UrlId>,
    pub url: String,
    pub final_url: String,
    pub domain: String,
    pub page_type: Option<PageType>,
    pub schema: Option<SchemaRefV1>,
    pub values: Json,
    pub quality: Option<QualityV1>,
    pub attribute_errors: Vec<AttributeErrorV1>,
    pub provider: String,
    pub http_status: u16,
    pub content_type: Option<String>,
    pub page: PageRefV1,
    pub content_hash: [u8; 32],
    pub changed: Vec<String>,
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub scraped_at: Timestamp,
    pub extracted_at: Timestamp,
    pub sequence: u64,
    pub redirects: Vec<RedirectV1>,
    pub place: Moment,
}

impl From<ResultV2> for ResultV3 {
    fn from(old: ResultV2) -> ResultV3 {
        ResultV3 {
            place: Moment(old.scraped_at.millis()),
            id: old.id,
            job: old.job,
            url_id: old.url_id,
            url: old.url,
            final_url: old.final_url,
            domain: old.domain,
            page_type: old.page_type,
            schema: old.schema,
            values: old.values,
            quality: old.quality,
            attribute_errors: old.attribute_errors,
            provider: old.provider,
            http_status: old.http_status,
            content_type: old.content_type,
            page: old.page,
            content_hash: old.content_hash,
            changed: old.changed,
            title: old.title,
            tags: old.tags,
            scraped_at: old.scraped_at,
            extracted_at: old.extracted_at,
            sequence: old.sequence,
            redirects: old.redirects,
        }
    }
}

/// What one job extracted from one page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultV4 {
    pub id: ResultId,
    pub job: JobId,
    pub url_id: Option<UrlId>,
    /// The URL that was asked for, normalized.
    pub url: String,
    /// The URL that answered, after redirects.
    pub final_url: String,
    pub domain: String,
    pub page_type: Option<PageType>,
    /// The platform schema that was used; none when there was none for the page. Own attributes may have been used without.
    pub schema: Option<SchemaRefV1>,
    /// An object from attribute to value, in the schema's order, of what was found. Empty without a schema.
    pub values: Json,
    /// None without a schema: nothing was measured.
    pub quality: Option<QualityV1>,
    pub attribute_errors: Vec<AttributeErrorV1>,
    /// The provider that delivered the page.
    pub provider: String,
    pub http_status: u16,
    pub content_type: Option<String>,
    pub page: PageRefV1,
    /// SHA-256 of what the result says: of the values that were found when a schema applied, else of the page's bytes.
    pub content_hash: [u8; 32],
    /// Attributes whose values differ from the URL's previous result.
    pub changed: Vec<String>,
    /// The page's own title.
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub scraped_at: Timestamp,
    pub extracted_at: Timestamp,
    /// The number of the change record that told of this row.
    pub sequence: u64,
    /// The answers that led from `url` to `final_url`, in their order; empty where the provider does not tell.
    pub redirects: Vec<RedirectV1>,
    /// Its place among the readings of its URL: when its page was fetched, by the box's own time. Dates follow the machine's
    /// clock and say nothing of an order.
    pub place: Moment,
    /// The version of the organization's own attributes that were merged in; none where it had none for the page.
    pub attributes_version: Option<u32>,
}

impl From<ResultV3> for ResultV4 {
    fn from(old: ResultV3) -> ResultV4 {
        ResultV4 {
            attributes_version: None,
            id: old.id,
            job: old.job,
            url_id: old.url_id,
            url: old.url,
            final_url: old.final_url,
            domain: old.domain,
            page_type: old.page_type,
            schema: old.schema,
            values: old.values,
            quality: old.quality,
            attribute_errors: old.attribute_errors,
            provider: old.provider,
            http_status: old.http_status,
            content_type: old.content_type,
            page: old.page,
            content_hash: old.content_hash,
            changed: old.changed,
            title: old.title,
            tags: old.tags,
            scraped_at: old.scraped_at,
            extracted_at: old.extracted_at,
            sequence: old.sequence,
            redirects: old.redirects,
            place: old.place,
        }
    }
}

impl ResultV4 {
    /// Whether the page was read by anything: by a schema, or by own attributes.
    pub fn was_read(&self) -> bool {
        self.schema.is_some() || self.attributes_version.is_some()
    }

    /// Whether its body was not what it said it was, such as JSON that breaks off.
    pub fn is_unreadable(&self) -> bool {
        !self.was_read() && !self.attribute_errors.is_empty()
    }
}

impl Record for ResultV3 {
    const VERSION: u8 = 3;
}

impl Record for ResultV4 {
    const VERSION: u8 = 4;

    fn upgrade(version: u8, body: &[u8]) -> std::result::Result<Self, CodecError> {
        match version {
            1 => decode_body::<ResultV1>(body).map(ResultV2::from).map(ResultV3::from).map(ResultV4::from),
            2 => decode_body::<ResultV2>(body).map(ResultV3::from).map(ResultV4::from),
            3 => decode_body::<ResultV3>(body).map(ResultV4::from),
            _ => Err(CodecError(format!("a result of version {version} is unknown to this release"))),
        }
    }
}

/// Which schema made a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRefV1 {
    pub id: SchemaId,
    pub version: u32,
}

/// How good a result is, each from 0 to 1 (data/docs/api.md, "Extraction").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityV1 {
    /// Share of attributes with a value.
    pub completeness: f64,
    /// Share of the values found that pass type and validation.
    pub validation: f64,
    /// 0.6 · completeness + 0.4 · validation.
    pub composite: f64,
}

/// Why an attribute has no value, or one that is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeErrorV1 {
    pub name: String,
    pub reason: String,
}

/// The page in the blob store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRefV1 {
    /// SHA-256 of the page's bytes; its name in the blob store.
    pub hash: [u8; 32],
    pub byte_size: u64,
    /// Compressed, as it lies on the disk.
    pub stored_size: u64,
}

/// Under what the results of a URL stand together: a hash, so that a key is short whatever the URL.
pub type UrlDigest = [u8; 16];

/// The part of a [`RESULTS_BY_URL`] key that all results of `url` (normalized) share.
///
/// The URL's text and not its id decides, because a URL that was removed and registered again is the same page, and a job
/// may name a URL that is not registered.
pub fn url_digest(url: &str) -> UrlDigest {
    let mut key = [0; 16];
    key.copy_from_slice(&digest(&SHA256, url.as_bytes()).as_ref()[..16]);
    key
}

/// Results by their own id.
pub static RESULTS_BY_ID: Index<ResultId, ResultV4> =
    Index::unique("results.by_id", |row, keys| keys.add(row.id));

/// Results of a URL, oldest first; see [`url_digest`]. A row of an earlier release stands where its date had put it.
pub static RESULTS_BY_URL: Index<(UrlDigest, Moment), ResultV4> =
    Index::new("results.by_url", |row, keys| {
        keys.add((url_digest(&row.url), row.place));
    });

/// Results of a registrable domain, oldest first, as those of a URL are.
pub static RESULTS_BY_DOMAIN: Index<(String, Moment), ResultV4> =
    Index::new("results.by_domain", |row, keys| {
        keys.add((&row.domain, row.place));
    });

/// The results of an organization.
pub static RESULTS: OrgTable<JobId, ResultV4> =
    OrgTable::new("results", "Result").indexed(&[&RESULTS_BY_ID, &RESULTS_BY_URL, &RESULTS_BY_DOMAIN]).fed();

base::words! {
    /// Who proposed a schema: a language model from one page or from several, the operator, or the box from what pages of the
    /// kind have in common.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum DiscoveredBy {
        Llm "llm",
        LlmMultiSample "llm_multi_sample",
        Manual "manual",
        ReverseEngineered "reverse_engineered",
    }
}

/// One version of how a page type of a domain is read; shared by all organizations and never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlatformSchemaV1 {
    pub id: SchemaId,
    /// A registrable domain, or one host of it.
    pub domain: String,
    pub page_type: PageType,
    /// 1 and up, without gaps.
    pub version: u32,
    /// The attributes as the interface writes them; [`super::schemas`] parses and compiles them.
    pub attributes: Json,
    pub confidence: f64,
    pub discovered_by: DiscoveredBy,
    pub sample_count: u32,
    pub last_validated_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl Record for PlatformSchemaV1 {}

/// A page type of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaPair {
    pub domain: String,
    pub page_type: PageType,
}

impl SchemaPair {
    pub fn new(domain: &str, page_type: PageType) -> SchemaPair {
        SchemaPair { domain: domain.to_owned(), page_type }
    }
}

impl Key for SchemaPair {
    fn encode(&self, out: &mut Vec<u8>) {
        let domain = Name(self.domain.clone());
        match self.page_type.place() {
            Some(place) => (domain, place).encode(out),
            None => (domain, OWN_PLACE, LastText(self.page_type.name().to_owned())).encode(out),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if let Some((Name(domain), place)) = Key::decode(bytes) {
            return Some(SchemaPair { domain, page_type: page_type_at(place)? });
        }
        let (Name(domain), OWN_PLACE, LastText(name)) = Key::decode(bytes)? else { return None };
        let page_type = PageType::parse(&name).ok().filter(|page_type| page_type.is_own())?;
        Some(SchemaPair { domain, page_type })
    }
}

/// In the place of a page type that is an organization's own; its name comes behind it.
const OWN_PLACE: u8 = u8::MAX;

fn page_type_at(place: u8) -> Option<PageType> {
    PageType::ALL.get(usize::from(place)).copied()
}

/// A page type of a domain, and a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaKey {
    pub pair: SchemaPair,
    pub version: u32,
}

impl Key for SchemaKey {
    fn encode(&self, out: &mut Vec<u8>) {
        // The platform has no schemas for others' page types.
        let place = self.pair.page_type.place().unwrap_or(OWN_PLACE);
        (Name(self.pair.domain.clone()), place, self.version).encode(out);
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (Name(domain), page_type, version) = Key::decode(bytes)?;
        Some(SchemaKey { pair: SchemaPair { domain, page_type: page_type_at(page_type)? }, version })
    }
}

/// Schemas in the order in which they came.
pub static SCHEMAS_BY_AGE: Index<Timestamp, PlatformSchemaV1> =
    Index::new("platform_schemas.by_age", |row, keys| {
        keys.add(row.created_at);
    });

/// Schemas of a domain in the order in which they came.
pub static SCHEMAS_BY_DOMAIN: Index<(String, Timestamp), PlatformSchemaV1> =
    Index::new("platform_schemas.by_domain", |row, keys| {
        keys.add((&row.domain, row.created_at));
    });

/// The schemas of the platform, every version of them.
pub static PLATFORM_SCHEMAS: SysTable<SchemaKey, PlatformSchemaV1> =
    SysTable::new("platform_schemas", "Schema").indexed(&[&SCHEMAS_BY_AGE, &SCHEMAS_BY_DOMAIN]);

/// The newest version of a pair: what extraction asks for at every page, so it is a row of its own and small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaHeadV1 {
    pub version: u32,
}

impl Record for SchemaHeadV1 {}

/// When a page last confirmed a schema; a row of its own, since versions are never changed. To the hour: schemas are
/// everybody's, and when exactly somebody has read a page is nobody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaConfirmedV1 {
    pub at: Timestamp,
}

impl Record for SchemaConfirmedV1 {}

pub static SCHEMAS_CONFIRMED: SysTable<SchemaKey, SchemaConfirmedV1> =
    SysTable::new("platform_schemas_confirmed", "Schema");

pub static SCHEMA_HEADS: SysTable<SchemaPair, SchemaHeadV1> =
    SysTable::new("platform_schema_heads", "Schema");

/// A result of a backup as this store may have it: its change record is one that there has been here.
pub(super) fn as_of_now(row: &[u8], newest: u64) -> Result<Vec<u8>> {
    let damaged = |e: CodecError| Error::conflict(format!("a result of the backup cannot be read: {e}"));
    let mut result: ResultV4 = codec::decode(row).map_err(damaged)?;
    if result.sequence <= newest {
        return Ok(row.to_vec());
    }
    result.sequence = newest;
    codec::encode(&result).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_types_keep_their_places_in_keys() {
        for (place, page_type) in PageType::ALL.iter().enumerate() {
            assert_eq!(page_type.place().map(usize::from), Some(place));
            assert_eq!(PageType::named(page_type.name()), Some(*page_type));
        }
        assert_eq!((PageType::ALL[0], PageType::ALL[5]), (PageType::Product, PageType::Bestseller));
    }

    #[test]
    fn domain_keys_come_back() {
        let key = DomainTable { table: "products".into(), domain: "a.example".into() };
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        assert_eq!(DomainTable::decode(&bytes), Some(key));
        assert_eq!(DomainTable::decode(b"products"), None);
    }

    #[test]
    fn schema_keys_come_back_and_sort_by_version() {
        let key = |domain: &str, version| {
            let pair = SchemaPair::new(domain, PageType::Article);
            let mut bytes = Vec::new();
            SchemaKey { pair, version }.encode(&mut bytes);
            bytes
        };
        assert!(key("a.example", 2) < key("a.example", 300));
        let read = SchemaKey::decode(&key("a.example", 300)).unwrap();
        assert_eq!(
            (read.pair.domain.as_str(), read.pair.page_type, read.version),
            ("a.example", PageType::Article, 300)
        );
        assert!(SchemaKey::decode(b"short").is_none());
        assert!(SchemaPair::decode(b"a.example\0\x63").is_none());
        for page_type in ["serp", "real_estate", "a"] {
            let pair = SchemaPair::new("a.example", PageType::parse(page_type).unwrap());
            let mut bytes = Vec::new();
            pair.encode(&mut bytes);
            assert_eq!(SchemaPair::decode(&bytes), Some(pair));
        }
    }
}
