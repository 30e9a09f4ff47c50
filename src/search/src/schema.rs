//! What the index holds, and what a document is to its caller.
//!
//! The rows live in redb: the index stores no text and gives back ids only. Per document it keeps
//! - terms: `org`, `key` (organization and id, for deletion), `url_id`, `job_id`, `tag`, `domain`,
//!   `page_type`;
//! - text: `body` (title, values and address, with positions) and `title` once more, for its weight in the
//!   ranking;
//! - columns: the organization, the id as two integers, time, quality, changed, and the two facets.
//!
//! `id` is two `u64` columns rather than a bytes column: UUIDv7 ids are near one another, so they pack into a
//! few bytes, whereas a bytes column would build a dictionary of unique values.

use tantivy::schema::{
    BytesOptions, FAST, Field, IndexRecordOption, STRING, Schema, TantivyDocument, TextFieldIndexing,
    TextOptions,
};
use tantivy::{Index, Term};
use uuid::Uuid;

use super::analyze;

/// Raised whenever the fields below or the rules in `analyze.rs` change: an index of another version is wiped
/// and rebuilt.
pub(super) const SCHEMA_VERSION: u32 = 3;

/// What of one text is indexed, in bytes; the rest of a longer one cannot be found. Bounds the writer's
/// memory.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Longest domain, page type or tag that can be told apart, in bytes.
pub const KEYWORD_BYTES_MAX: usize = 255;
/// Tags of one document that are indexed.
pub const TAGS_MAX: usize = 256;

/// One extraction result as the index sees it. Everything but the text is filtered or counted exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchDocument {
    pub job_id: Uuid,
    pub url_id: Option<Uuid>,
    pub url: String,
    /// Compared without regard to case.
    pub domain: String,
    pub page_type: Option<String>,
    pub tags: Vec<String>,
    /// The composite quality, 0 to 1.
    pub quality: f64,
    /// Whether any attribute differs from the URL's previous result.
    pub changed: bool,
    /// Milliseconds since 1970 UTC; the order of `newest`.
    pub scraped_at_ms: i64,
    pub title: String,
    /// All values as text, one a line: a phrase is looked for within a line.
    pub text: String,
}

/// One step of the outbox: the document's new state, or `None` when the row is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchChange {
    pub org: Uuid,
    /// The result's id; unique within the organization.
    pub id: Uuid,
    pub document: Option<SearchDocument>,
}

/// The fields by handle. The names of the columns are here too, since tantivy opens columns by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub org: Field,
    key: Field,
    pub url_id: Field,
    pub job_id: Field,
    pub tag: Field,
    pub domain: Field,
    pub page_type: Field,
    pub body: Field,
    pub title: Field,
    id_high: Field,
    id_low: Field,
    scraped_at: Field,
    quality: Field,
    changed: Field,
}

pub(super) const ORG: &str = "org";
pub(super) const ID_HIGH: &str = "id_high";
pub(super) const ID_LOW: &str = "id_low";
pub(super) const SCRAPED_AT: &str = "scraped_at";
pub(super) const QUALITY: &str = "quality";
pub(super) const CHANGED: &str = "changed";
pub(super) const DOMAIN: &str = "domain";
pub(super) const PAGE_TYPE: &str = "page_type";

impl Fields {
    /// The schema and its handles. Field numbers are those of creation, so they hold for every index of this
    /// version.
    pub fn build() -> (Schema, Fields) {
        let mut schema = Schema::builder();
        let term = || BytesOptions::default().set_indexed();
        let text = |positions| {
            let indexing = TextFieldIndexing::default()
                .set_tokenizer(analyze::ANALYZER_NAME)
                .set_index_option(positions);
            TextOptions::default().set_indexing_options(indexing)
        };
        let fields = Fields {
            org: schema.add_bytes_field(ORG, term().set_fast()),
            key: schema.add_bytes_field("key", term()),
            url_id: schema.add_bytes_field("url_id", term()),
            job_id: schema.add_bytes_field("job_id", term()),
            tag: schema.add_text_field("tag", STRING),
            domain: schema.add_text_field(DOMAIN, STRING | FAST),
            page_type: schema.add_text_field(PAGE_TYPE, STRING | FAST),
            body: schema.add_text_field("body", text(IndexRecordOption::WithFreqsAndPositions)),
            title: schema.add_text_field("title", text(IndexRecordOption::WithFreqs)),
            id_high: schema.add_u64_field(ID_HIGH, FAST),
            id_low: schema.add_u64_field(ID_LOW, FAST),
            scraped_at: schema.add_i64_field(SCRAPED_AT, FAST),
            quality: schema.add_f64_field(QUALITY, FAST),
            changed: schema.add_bool_field(CHANGED, FAST),
        };
        (schema.build(), fields)
    }

    /// The term that every document of an organization carries, and every query asks for.
    pub fn org_term(&self, org: Uuid) -> Term {
        Term::from_field_bytes(self.org, org.as_bytes())
    }

    /// The term that only this document of this organization carries.
    pub fn key_term(&self, org: Uuid, id: Uuid) -> Term {
        Term::from_field_bytes(self.key, &key(org, id))
    }

    /// The document as tantivy takes it.
    pub fn document(&self, org: Uuid, id: Uuid, document: &SearchDocument) -> TantivyDocument {
        let mut out = TantivyDocument::new();
        out.add_bytes(self.org, org.as_bytes());
        out.add_bytes(self.key, &key(org, id));
        out.add_bytes(self.job_id, document.job_id.as_bytes());
        if let Some(url_id) = document.url_id {
            out.add_bytes(self.url_id, url_id.as_bytes());
        }
        for tag in document.tags.iter().take(TAGS_MAX) {
            out.add_text(self.tag, cut(tag, KEYWORD_BYTES_MAX));
        }
        out.add_text(self.domain, domain_keyword(&document.domain));
        // A column of which every document has one value is read twice as fast, so without one it is an empty one.
        out.add_text(
            self.page_type,
            cut(document.page_type.as_deref().unwrap_or_default(), KEYWORD_BYTES_MAX),
        );
        // Separate values of one field: tantivy leaves a gap between them, so no phrase runs from one into
        // the next.
        out.add_text(self.body, cut(&document.title, TEXT_BYTES_MAX));
        for value in cut(&document.text, TEXT_BYTES_MAX).lines() {
            out.add_text(self.body, value);
        }
        out.add_text(self.body, cut(&document.url, TEXT_BYTES_MAX));
        out.add_text(self.title, cut(&document.title, TEXT_BYTES_MAX));
        let (high, low) = id.as_u64_pair();
        out.add_u64(self.id_high, high);
        out.add_u64(self.id_low, low);
        out.add_i64(self.scraped_at, document.scraped_at_ms);
        // A column of numbers has no place for NaN: an unknown quality counts as none.
        out.add_f64(self.quality, if document.quality.is_nan() { 0.0 } else { document.quality });
        out.add_bool(self.changed, document.changed);
        out
    }
}

/// The domain in the form in which it is indexed and filtered.
pub(super) fn domain_keyword(domain: &str) -> String {
    cut(domain, KEYWORD_BYTES_MAX).to_lowercase()
}

/// The longest prefix of `text` that has at most `bytes_max` bytes and ends on a character.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Makes the analyzer known to an opened index; tantivy keeps its name only.
pub(super) fn register_analyzer(index: &Index) {
    index.tokenizers().register(analyze::ANALYZER_NAME, analyze::analyzer(analyze::TextRole::Document));
}

fn key(org: Uuid, id: Uuid) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(org.as_bytes());
    key[16..].copy_from_slice(id.as_bytes());
    key
}
