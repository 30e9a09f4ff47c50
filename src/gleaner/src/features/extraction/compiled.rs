//! Which schema reads a page, ready to run: the platform's, the organization's own attributes, or both merged.
//!
//! Versions of schemas and states of own attributes never change, so what is compiled of them is kept for as long as there is
//! room. What is merged is an organization's and no other's: it is kept under its id, and pages that are read by it confirm no
//! schema, because what others see of a schema must not depend on it. A schema that a later release refuses is left out with a
//! line in the log, never an error of the page.

use super::attributes::merge::{Dated, OwnKey, merged, of_type, own_attributes, own_head, own_types};
use super::attributes::{OWN_PATTERNS_MAX, OwnAttributesV1};
use super::columns::{TypedAttribute, typed};
use super::rows::{
    PLATFORM_SCHEMAS, PlatformSchemaV1, SCHEMAS_CONFIRMED, SchemaConfirmedV1, SchemaKey, SchemaRefV1,
};
use super::schema_changes::note_confirmed;
use super::schemas::{attributes_of, newest_readable, places_with_schemas};
use base::Result;
use base::clock::Timestamp;
use base::ids::SchemaId;
use base::terms::PageType;
use page::extract::{Attribute, Extraction, PATTERNS_MAX, Schema};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use store::{OrgStore, SysRead, System, readable};

/// Compiled platform schemas that are kept; beyond that all are dropped and compiled anew as pages ask for them.
const COMPILED_MAX: usize = 2_000;
/// The same of merged ones. A tenant writes these, and a regular expression takes up to half a megabyte: each weighs 1 and its
/// regular expressions.
const MERGED_WEIGHT_MAX: usize = 1_000;
/// A page confirms a schema when its quality is at least this part of the schema's confidence: under it the schema drifts
/// (data/docs/api.md, "Extraction").
const CONFIRMING_PART: f64 = 0.5;
const HOUR_MS: i64 = 3_600_000;

/// A schema ready to run.
#[derive(Debug)]
pub struct CompiledSchema {
    /// None where the organization's own attributes are all there is.
    pub platform: Option<PlatformPart>,
    /// The state of the own attributes that are merged in.
    pub own_version: Option<u32>,
    /// None for own attributes of pages of every type, where nothing else tells a page's type.
    pub page_type: Option<PageType>,
    pub attributes: Arc<[TypedAttribute]>,
    pub schema: Schema,
}

/// What a compiled schema has of the platform's.
#[derive(Clone, Debug)]
pub struct PlatformPart {
    pub key: SchemaKey,
    pub id: SchemaId,
    pub confidence: f64,
}

impl CompiledSchema {
    /// What results say of the platform's schema.
    pub fn schema_ref(&self) -> Option<SchemaRefV1> {
        self.platform.as_ref().map(|part| SchemaRefV1 { id: part.id, version: part.key.version })
    }
}

/// A platform schema (or none) with the own attributes for a page type (or for those of every type).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MergedKey {
    platform: Option<SchemaKey>,
    own: OwnKey,
    page_type: Option<PageType>,
}

/// Merged schemas that are kept; none for one that cannot be compiled.
#[derive(Default)]
struct MergedSchemas {
    by_key: HashMap<MergedKey, Option<Arc<CompiledSchema>>>,
    weight: usize,
}

/// The schemas of all pages, compiled when a page first needs them.
pub struct Schemas {
    system: System,
    /// None for one that cannot be compiled any more.
    compiled: Mutex<HashMap<SchemaKey, Option<Arc<CompiledSchema>>>>,
    merged: Mutex<MergedSchemas>,
    /// The hours in which pages last confirmed them, as far as that is not stored yet.
    confirmed: Mutex<HashMap<SchemaKey, Timestamp>>,
}

impl Schemas {
    pub fn new(system: System) -> Schemas {
        Schemas { system, compiled: Mutex::default(), merged: Mutex::default(), confirmed: Mutex::default() }
    }

    /// Notes a page that confirms its schema.
    pub fn confirm(&self, found: Option<&(Arc<CompiledSchema>, Extraction)>, now: Timestamp) {
        let Some((schema, read)) = found else { return };
        let Some(part) = schema.platform.as_ref().filter(|_| schema.own_version.is_none()) else { return };
        if read.values.is_empty() || read.quality.composite < CONFIRMING_PART * part.confidence {
            return;
        }
        let hour = Timestamp(now.millis().div_euclid(HOUR_MS) * HOUR_MS);
        self.confirmed.lock().insert(part.key.clone(), hour);
    }

    /// Stores what was noted.
    pub async fn keep_confirmed(&self) -> Result<()> {
        let noted = std::mem::take(&mut *self.confirmed.lock());
        let news = self.system.read(|tx| {
            let mut news = Vec::new();
            for (key, at) in noted {
                let known = tx.get(&SCHEMAS_CONFIRMED, &key);
                let known = readable("when a schema was confirmed", &key.pair.domain, known)?.flatten();
                if known.is_none_or(|known| known.at < at) {
                    news.push((key, SchemaConfirmedV1 { at }));
                }
            }
            Ok(news)
        })?;
        if news.is_empty() {
            return Ok(());
        }
        let write = self.system.write(move |tx| {
            tx.unaudited("that pages confirm a schema");
            news.iter().try_for_each(|(key, row)| tx.put(&SCHEMAS_CONFIRMED, key, row))?;
            note_confirmed(tx)
        });
        write.await
    }

    /// Reads platform schemas, which are the same for every organization.
    pub fn read<T>(&self, look: impl FnOnce(&SysRead<'_>) -> Result<T>) -> Result<T> {
        self.system.read(look)
    }

    /// What reads a page of this type at `host` in `domain`.
    pub fn of_type(
        &self,
        org: &OrgStore,
        host: &str,
        domain: &str,
        page_type: PageType,
    ) -> Result<Option<Arc<CompiledSchema>>> {
        Ok(self.of_page(org, host, domain, Some(page_type))?.pop())
    }

    /// What may read a page of `host` in `domain`: for the page type that is wanted; or one for each page type of which there
    /// is any, and in front of them, for pages that are of none of these, the own attributes of pages of every type.
    pub fn of_page(
        &self,
        org: &OrgStore,
        host: &str,
        domain: &str,
        wanted: Option<PageType>,
    ) -> Result<Vec<Arc<CompiledSchema>>> {
        let host = host.trim_end_matches('.');
        let types = wanted.as_ref().map_or(PageType::ALL, std::slice::from_ref);
        let keys = self.system.read(|tx| {
            let (mut keys, places) = (Vec::new(), places_with_schemas(tx, host, domain)?);
            for page_type in types {
                keys.push((*page_type, newest_readable(tx, &places, *page_type)?));
            }
            Ok(keys)
        })?;
        let Some((own, head)) = org.read(|tx| own_head(tx, host, domain))? else {
            let keys = keys.into_iter().filter_map(|(_, key)| key);
            return keys.filter_map(|key| self.compiled(key).transpose()).collect();
        };
        let of_own = match wanted {
            None if head.has_of_own() => org.read(|tx| own_types(tx, &own.domain))?,
            _ => Vec::new(),
        };
        let keys = keys.into_iter().chain(of_own.into_iter().map(|page_type| (page_type, None)));
        let mut all = Vec::new();
        if wanted.is_none() && head.has_untyped {
            all.push(MergedKey { platform: None, own: own.clone(), page_type: None });
        }
        for (page_type, platform) in keys {
            // What is for every type makes no page one of a type for which there is nothing else.
            if platform.is_some() || head.has_of(page_type) || (wanted.is_some() && head.has_untyped) {
                all.push(MergedKey { platform, own: own.clone(), page_type: Some(page_type) });
            }
        }
        all.into_iter().filter_map(|key| self.merged(org, key).transpose()).collect()
    }

    fn compiled(&self, key: SchemaKey) -> Result<Option<Arc<CompiledSchema>>> {
        if let Some(known) = self.compiled.lock().get(&key) {
            return Ok(known.clone());
        }
        // Two pages may compile the same schema at once; both come to the same.
        let Some(row) = self.platform_row(&key)? else { return Ok(None) };
        let compiled = platform_attributes(&row)
            .and_then(|attributes| compile(Some((&key, &row)), None, Some(row.page_type), attributes))
            .inspect_err(|reason| {
                tracing::warn!(schema = %row.id, domain = row.domain, reason, "a stored schema is not used");
            })
            .ok()
            .map(Arc::new);
        let mut all = self.compiled.lock();
        if all.len() >= COMPILED_MAX {
            all.clear();
        }
        all.insert(key, compiled.clone());
        Ok(compiled)
    }

    fn platform_row(&self, key: &SchemaKey) -> Result<Option<PlatformSchemaV1>> {
        let row = self.system.read(|tx| tx.get(&PLATFORM_SCHEMAS, key));
        // Pages are kept without what it would have read of them; the operator imports it again.
        Ok(readable("a schema", &key.pair.domain, row)?.flatten())
    }

    /// The platform's schema with the own attributes. Where they have just been changed, with those that there are now.
    fn merged(&self, org: &OrgStore, key: MergedKey) -> Result<Option<Arc<CompiledSchema>>> {
        if let Some(known) = self.merged.lock().by_key.get(&key) {
            return Ok(known.clone());
        }
        let own = org.read(|tx| own_attributes(tx, &key.own.domain))?;
        let platform = match &key.platform {
            Some(platform) => self.platform_row(platform)?.map(|row| (platform, row)),
            None => None,
        };
        let compiled = merge(&key, platform.as_ref().map(|(key, row)| (*key, row)), own.as_ref());
        let compiled = compiled
            .inspect_err(|reason| {
                tracing::warn!(org = %key.own.org, domain = key.own.domain, reason, "attributes are not used");
            })
            .unwrap_or_default()
            .map(Arc::new);
        // What was changed in between is asked for under its own key from now on.
        if own.is_some_and(|own| own.version == key.own.version) {
            self.merged.lock().keep(key, compiled.clone());
        }
        Ok(compiled)
    }
}

impl MergedSchemas {
    fn keep(&mut self, key: MergedKey, compiled: Option<Arc<CompiledSchema>>) {
        let patterns: usize = compiled.as_ref().map_or(0, |compiled| compiled.schema.pattern_counts().sum());
        if self.weight + patterns >= MERGED_WEIGHT_MAX {
            self.by_key.clear();
            self.weight = 0;
        }
        self.weight += 1 + patterns;
        self.by_key.insert(key, compiled);
    }
}

/// None when there is nothing to read a page by.
fn merge(
    key: &MergedKey,
    platform: Option<(&SchemaKey, &PlatformSchemaV1)>,
    own: Option<&OwnAttributesV1>,
) -> Result<Option<CompiledSchema>, String> {
    let of_platform = platform.map(|(_, row)| platform_attributes(row)).transpose()?.unwrap_or_default();
    let of_own = own.map(|own| of_type(&own.attributes, key.page_type)).unwrap_or_default();
    // Where none is for the type the platform's alone are all there is.
    let own_version = own.filter(|_| !of_own.is_empty()).map(|own| own.version);
    let attributes = merged(of_platform, of_own);
    if attributes.is_empty() {
        return Ok(None);
    }
    compile(platform, own_version, key.page_type, attributes).map(Some)
}

fn platform_attributes(row: &PlatformSchemaV1) -> Result<Vec<Dated>, String> {
    let attributes = attributes_of(row).map_err(|e| e.to_string())?;
    Ok(attributes.into_iter().map(|attribute| (attribute, row.created_at)).collect())
}

fn compile(
    platform: Option<(&SchemaKey, &PlatformSchemaV1)>,
    own_version: Option<u32>,
    page_type: Option<PageType>,
    attributes: Vec<Dated>,
) -> Result<CompiledSchema, String> {
    let (attributes, since): (Vec<Attribute>, Vec<Timestamp>) = attributes.into_iter().unzip();
    let schema = Schema::compile_within(&attributes, PATTERNS_MAX + OWN_PATTERNS_MAX);
    let schema = schema.map_err(|e| e.to_string())?;
    Ok(CompiledSchema {
        platform: platform.map(|(key, row)| PlatformPart {
            key: key.clone(),
            id: row.id,
            confidence: row.confidence,
        }),
        own_version,
        page_type,
        attributes: attributes.into_iter().zip(since).map(|(one, since)| typed(one, since)).collect(),
        schema,
    })
}
