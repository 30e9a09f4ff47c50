//! Platform schemas: which one reads a page, and how an operator brings them in and out.
//!
//! A schema belongs to a registrable domain or to one host of it; for a page the host's own wins. Versions are never
//! changed. Every schema that is stored has passed [`Schema::compile`].

use super::rows::{
    DiscoveredBy, PLATFORM_SCHEMAS, PlatformSchemaV1, SCHEMA_HEADS, SCHEMAS_BY_AGE, SCHEMAS_BY_DOMAIN,
    SCHEMAS_CONFIRMED, SchemaConfirmedV1, SchemaHeadV1, SchemaKey, SchemaPair, SchemaRefV1,
};
use super::schema_changes::{note_change, note_confirmed};
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Json;
use base::ids::SchemaId;
use base::page::{Page, PageRequest};
use base::terms::PageType;
use base::{Error, Result};
use page::extract::{Attribute, Schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;
use store::{Event, Order, SysRead, SysWrite, System, readable};

/// Schemas of one import.
const IMPORT_SCHEMAS_MAX: usize = 10_000;
/// Schemas that an export reads in one transaction.
const EXPORT_ROWS: usize = 200;

/// Versions of one pair that the box makes within a day: who has pages of both kinds could go from one to the other for ever.
const VERSIONS_PER_DAY: u32 = 20;
const HOUR_MS: i64 = 3_600_000;
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// How long after a page has confirmed it a schema counts as good.
const GOOD_FOR: Duration = Duration::from_secs(90 * 24 * 3_600);

/// A schema, and when a page last confirmed it: not before there was the schema.
pub fn with_confirmed(
    tx: &SysRead<'_>,
    row: PlatformSchemaV1,
) -> Result<(PlatformSchemaV1, Option<Timestamp>)> {
    let key = SchemaKey { pair: SchemaPair::new(&row.domain, row.page_type), version: row.version };
    let confirmed = tx.get(&SCHEMAS_CONFIRMED, &key)?.map(|known| known.at.max(row.created_at));
    let at = confirmed.max(row.last_validated_at);
    Ok((row, at))
}

/// When a page has confirmed a schema is told to the hour.
pub fn hour_of(time: Timestamp) -> Timestamp {
    Timestamp(time.millis().div_euclid(HOUR_MS) * HOUR_MS)
}

/// Until when a schema counts as good that nothing else confirms.
pub fn good_until(row: &PlatformSchemaV1, confirmed: Option<Timestamp>) -> Timestamp {
    row.expires_at.unwrap_or_else(|| confirmed.unwrap_or(row.created_at).after(GOOD_FOR))
}

/// Those of a page's host and domain that have any schema: most have none, and every page asks.
pub fn places_with_schemas<'p>(tx: &SysRead<'_>, host: &'p str, domain: &'p str) -> Result<Vec<&'p str>> {
    let mut places = vec![host, domain];
    places.dedup();
    let mut known = Vec::with_capacity(places.len());
    for place in places {
        if tx.exists(&SCHEMAS_BY_DOMAIN, place.to_owned())? {
            known.push(place);
        }
    }
    Ok(known)
}

/// The newest schema of a page type at the first of these places that has any.
fn newest(tx: &SysRead<'_>, places: &[&str], page_type: PageType) -> Result<Option<SchemaKey>> {
    if page_type.is_own() {
        return Ok(None);
    }
    for place in places {
        let pair = SchemaPair::new(place, page_type);
        if let Some(head) = tx.get(&SCHEMA_HEADS, &pair)? {
            return Ok(Some(SchemaKey { pair, version: head.version }));
        }
    }
    Ok(None)
}

/// The same for the work on pages: a place that cannot be read has none.
pub fn newest_readable(tx: &SysRead<'_>, places: &[&str], page_type: PageType) -> Result<Option<SchemaKey>> {
    for place in places {
        let found = newest(tx, &[place], page_type);
        if let Some(key) = readable("the newest schema of a domain", place, found)?.flatten() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The attributes of a stored schema.
pub fn attributes_of(row: &PlatformSchemaV1) -> Result<Vec<Attribute>, serde_json::Error> {
    Vec::<Attribute>::deserialize(&row.attributes.0)
}

/// A domain or host as schemas are stored under it: lower case, ASCII, without a final dot. None when it is no host.
pub fn schema_domain(text: &str) -> Option<String> {
    let host = url::Host::parse(text.trim().trim_end_matches('.')).ok()?.to_string();
    (!host.is_empty()).then_some(host)
}

/// The newest schema of a page type for `domain` as a caller wrote it: of exactly that host, else of its registrable
/// domain.
pub fn find(tx: &SysRead<'_>, domain: &str, page_type: PageType) -> Result<PlatformSchemaV1> {
    let missing = || Error::not_found(PLATFORM_SCHEMAS.noun());
    let host = schema_domain(domain).ok_or_else(missing)?;
    let registrable = base::web::Domain::parse(&host).map_err(|_| missing())?;
    let key = newest(tx, &[&host, registrable.as_str()], page_type)?.ok_or_else(missing)?;
    tx.require(&PLATFORM_SCHEMAS, &key)
}

/// Looks of one list of schemas. Each ends with so many rows, or so many bytes of them, as a page of any list has.
const LIST_LOOKS_MAX: usize = 8;

/// Schemas of every version, newest first, at most `limit`; of a host that has none, those of its registrable domain.
pub fn list(
    tx: &SysRead<'_>,
    domain: Option<&str>,
    page_type: Option<PageType>,
    limit: usize,
) -> Result<Vec<PlatformSchemaV1>> {
    let keep = |row: &PlatformSchemaV1| page_type.is_none_or(|wanted| row.page_type == wanted);
    let Some(text) = domain else {
        return looked_through(limit, |page| tx.page_by(&PLATFORM_SCHEMAS, &SCHEMAS_BY_AGE, (), page, keep));
    };
    // What is no domain has no schemas.
    let Some(host) = schema_domain(text) else { return Ok(Vec::new()) };
    let of = |place: &String| {
        looked_through(limit, |page| tx.page_by(&PLATFORM_SCHEMAS, &SCHEMAS_BY_DOMAIN, place, page, keep))
    };
    let own = of(&host)?;
    match base::web::Domain::parse(&host) {
        Ok(registrable) if own.is_empty() && registrable.as_str() != host => {
            of(&registrable.as_str().to_owned())
        }
        _ => Ok(own),
    }
}

/// As many rows as are asked for, page after page.
fn looked_through<T>(limit: usize, mut look: impl FnMut(&PageRequest) -> Result<Page<T>>) -> Result<Vec<T>> {
    let (mut items, mut cursor) = (Vec::new(), None);
    for _ in 0..LIST_LOOKS_MAX {
        let page = look(&PageRequest { limit: limit - items.len(), cursor })?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() || items.len() >= limit {
            break;
        }
    }
    Ok(items)
}

/// The file that `gleaner admin schema import` reads and `export` writes.
#[derive(Debug, Serialize, Deserialize)]
struct SchemaFile {
    schemas: Vec<SchemaEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaEntry {
    /// May be left out when the import names a domain for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    page_type: PageType,
    attributes: Vec<Attribute>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample_count: Option<u32>,
}

/// What an import did with each schema, in the file's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportSummary {
    pub created: usize,
    pub unchanged: usize,
    pub schemas: Vec<ImportedSchema>,
}

/// One schema of an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedSchema {
    pub domain: String,
    pub page_type: PageType,
    /// The version that is the newest now.
    pub version: u32,
    /// Whether this import made that version; else it was there with the same attributes.
    pub created: bool,
}

/// A schema of a file that may be stored.
struct CheckedSchema {
    pair: SchemaPair,
    attributes: Json,
    confidence: f64,
    sample_count: u32,
}

/// Takes in the schemas of a file, all or none. Each becomes the next version of its domain and page type, unless the
/// newest one says the same already. Errors name the field: `schemas[1].attributes[2].xpaths[0]: …`.
pub async fn import_schemas(
    system: &System,
    json: &str,
    default_domain: Option<&str>,
) -> Result<ImportSummary> {
    let checked = check_file(json, default_domain)?;
    system.write(move |tx| store_all(tx, &checked)).await
}

/// Why a file cannot be read, in words of the file and not of the program.
fn unreadable(json: &str, path: &str, error: &serde_json::Error) -> Error {
    const FORM: &str = "as `gleaner admin schema export` prints them";
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return Error::invalid("the file", format!("is not JSON, or not all of it: {error}"));
    }
    if matches!(path, "." | "?") {
        let reason = format!("must be an object with a list of schemas, {{\"schemas\": [...]}}, {FORM}");
        return Error::invalid("the file", reason);
    }
    match error.to_string().contains("expected struct ") {
        true => Error::invalid(path, format!("must be an object, {FORM}")),
        false => Error::invalid(path, error),
    }
}

fn check_file(json: &str, default_domain: Option<&str>) -> Result<Vec<CheckedSchema>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let file: SchemaFile = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        unreadable(json, &path, &error.into_inner())
    })?;
    reader.end().map_err(|error| unreadable(json, "?", &error))?;
    if file.schemas.len() > IMPORT_SCHEMAS_MAX {
        return Err(Error::invalid("schemas", format!("has more than {IMPORT_SCHEMAS_MAX} entries")));
    }
    let mut seen = HashSet::new();
    let mut checked = Vec::with_capacity(file.schemas.len());
    for (number, entry) in file.schemas.into_iter().enumerate() {
        let entry = check_entry(entry, default_domain, &format!("schemas[{number}]"))?;
        if !seen.insert(entry.pair.clone()) {
            let reason = format!("is a second {} schema of {}", entry.pair.page_type, entry.pair.domain);
            return Err(Error::invalid(&format!("schemas[{number}]"), reason));
        }
        checked.push(entry);
    }
    Ok(checked)
}

fn check_entry(entry: SchemaEntry, default_domain: Option<&str>, path: &str) -> Result<CheckedSchema> {
    let field = |name: &str| format!("{path}.{name}");
    let Some(domain) = entry.domain.as_deref().or(default_domain) else {
        return Err(Error::invalid(&field("domain"), "is missing, and the import names no domain for all"));
    };
    let domain = schema_domain(domain)
        .ok_or_else(|| Error::invalid(&field("domain"), format!("\"{domain}\" is not a host name")))?;
    if entry.page_type.is_own() {
        let names: Vec<_> = PageType::ALL.iter().map(PageType::name).collect();
        return Err(Error::invalid(&field("pageType"), format!("must be one of {}", names.join(", "))));
    }
    Schema::compile(&entry.attributes).map_err(|error| Error::invalid(&field(&error.path), error.message))?;
    let confidence = entry.confidence.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&confidence) {
        return Err(Error::invalid(&field("confidence"), "must be from 0 to 1"));
    }
    let attributes = serde_json::to_value(&entry.attributes)
        .map_err(|e| Error::internal("write a schema's attributes", e))?;
    Ok(CheckedSchema {
        pair: SchemaPair::new(&domain, entry.page_type),
        attributes: Json(attributes),
        confidence,
        sample_count: entry.sample_count.unwrap_or(0),
    })
}

fn store_all(tx: &SysWrite<'_>, checked: &[CheckedSchema]) -> Result<ImportSummary> {
    let mut summary = ImportSummary::default();
    for entry in checked {
        let newest = newest(tx, &[&entry.pair.domain], entry.pair.page_type)?;
        // In the place of one that is damaged comes the next version.
        let current = match &newest {
            Some(key) => readable("a schema", &key.pair.domain, tx.require(&PLATFORM_SCHEMAS, key))?,
            None => None,
        };
        let created = current.is_none_or(|row| row.attributes != entry.attributes);
        let mut version = newest.map_or(0, |key| key.version);
        if created {
            version += 1;
            store_version(tx, entry, version, (DiscoveredBy::Manual, None))?;
            summary.created += 1;
        } else {
            summary.unchanged += 1;
        }
        let SchemaPair { domain, page_type } = entry.pair.clone();
        summary.schemas.push(ImportedSchema { domain, page_type, version, created });
    }
    if let Some(first) = summary.schemas.iter().find(|schema| schema.created) {
        let event = Event::new(Action::SchemaImported).named(first.domain.clone());
        tx.audit(event.with("created", summary.created).with("unchanged", summary.unchanged))?;
    }
    Ok(summary)
}

/// Writes a version and makes it the one that holds. What the box has come to itself, an operator's that it mended among it, was
/// checked on pages; what is imported was not.
fn store_version(
    tx: &SysWrite<'_>,
    entry: &CheckedSchema,
    version: u32,
    (discovered_by, adopted): (DiscoveredBy, Option<Adopted>),
) -> Result<SchemaId> {
    let row = PlatformSchemaV1 {
        id: SchemaId::new(),
        domain: entry.pair.domain.clone(),
        page_type: entry.pair.page_type,
        version,
        attributes: entry.attributes.clone(),
        confidence: entry.confidence,
        discovered_by,
        sample_count: entry.sample_count,
        last_validated_at: adopted.is_some().then(|| tx.now()),
        // Pages that confirm it put its end off, which a date in the row could not be.
        expires_at: None,
        created_at: tx.now(),
    };
    tx.put(&PLATFORM_SCHEMAS, &SchemaKey { pair: entry.pair.clone(), version }, &row)?;
    tx.put(&SCHEMA_HEADS, &entry.pair, &SchemaHeadV1 { version })?;
    note_change(tx)?;
    Ok(row.id)
}

/// A schema that the box itself has made, and checked on stored pages.
#[derive(Clone, Debug)]
pub struct ProposedSchema {
    /// A registrable domain, or one host of it.
    pub domain: String,
    pub page_type: PageType,
    pub attributes: Vec<Attribute>,
    /// The share of values on held-back pages that it reproduced.
    pub confidence: f64,
    pub discovered_by: DiscoveredBy,
    /// Pages that it was learned from and checked on.
    pub sample_count: u32,
    /// What [`schema_to_beat`] gave and this one did better than on the same held-back pages; none where there was none.
    pub beaten: Option<SchemaRefV1>,
}

/// What became of a proposed schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It is the version that holds now.
    Current(SchemaRefV1),
    /// The one that holds says the same; its pages have confirmed it.
    Same(SchemaRefV1),
    /// The one that holds was imported by the operator, and stays.
    Manual(SchemaRefV1),
    /// Another one holds than that which was beaten: compare again.
    Overtaken,
    /// The box has made [`VERSIONS_PER_DAY`] versions of the pair within a day.
    TooOften,
}

/// The schema that pages of `domain` (a registrable domain, or one host of it) are read by now, which a proposed one has to beat:
/// a host's own, else its domain's.
pub fn schema_to_beat(
    tx: &SysRead<'_>,
    domain: &str,
    page_type: PageType,
) -> Result<Option<PlatformSchemaV1>> {
    let registrable = base::web::Domain::parse(domain).map_err(|e| Error::invalid("domain", e))?;
    let Some(key) = newest_readable(tx, &[domain, registrable.as_str()], page_type)? else { return Ok(None) };
    // In the place of one that is damaged comes the next version.
    Ok(readable("a schema", &key.pair.domain, tx.get(&PLATFORM_SCHEMAS, &key))?.flatten())
}

/// The place whose schema reads pages of a type at a host: the host's own, else its domain's; the domain where there is none.
pub fn place_of_schema(tx: &SysRead<'_>, host: &str, domain: &str, page_type: PageType) -> Result<String> {
    let key = newest_readable(tx, &[host, domain], page_type)?;
    Ok(key.map_or_else(|| domain.to_owned(), |key| key.pair.domain))
}

/// Makes a proposed schema the next version of its domain and page type, in one operation: only if the schema that it has beaten
/// is still the one that holds, and never in the place of one that the operator imported. Whether it is better its caller has
/// found out.
pub async fn adopt_schema(system: &System, proposed: ProposedSchema) -> Result<Adoption> {
    propose(system, proposed, Adopted::Discovered).await
}

/// The same for the schema that holds with other expressions for what its site has outrun. The operator's are mended too: what
/// they ask for stays, and so does who proposed them.
pub async fn adopt_repair(system: &System, proposed: ProposedSchema) -> Result<Adoption> {
    propose(system, proposed, Adopted::Repaired).await
}

/// How the box came to a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adopted {
    Discovered,
    Repaired,
}

async fn propose(system: &System, proposed: ProposedSchema, adopted: Adopted) -> Result<Adoption> {
    if proposed.page_type.is_own() {
        return Err(Error::internal("adopt a schema", "its page type is an organization's own"));
    }
    Schema::compile(&proposed.attributes).map_err(|e| Error::internal("compile a proposed schema", e))?;
    let attributes = serde_json::to_value(&proposed.attributes)
        .map_err(|e| Error::internal("write a schema's attributes", e))?;
    let entry = CheckedSchema {
        pair: SchemaPair::new(&proposed.domain, proposed.page_type),
        attributes: Json(attributes),
        confidence: proposed.confidence.clamp(0.0, 1.0),
        sample_count: proposed.sample_count,
    };
    let (beaten, discovered_by) = (proposed.beaten, proposed.discovered_by);
    system.write(move |tx| adopt(tx, &entry, beaten, discovered_by, adopted)).await
}

fn adopt(
    tx: &SysWrite<'_>,
    entry: &CheckedSchema,
    beaten: Option<SchemaRefV1>,
    discovered_by: DiscoveredBy,
    adopted: Adopted,
) -> Result<Adoption> {
    let SchemaPair { domain, page_type } = &entry.pair;
    let holds = schema_to_beat(tx, domain, *page_type)?;
    if let Some(row) = &holds {
        let held = SchemaRefV1 { id: row.id, version: row.version };
        if row.discovered_by == DiscoveredBy::Manual && adopted == Adopted::Discovered {
            tx.unaudited("that an imported schema stays");
            return Ok(Adoption::Manual(held));
        }
        if row.attributes == entry.attributes {
            tx.unaudited("that pages confirm a schema");
            let key = SchemaKey { pair: SchemaPair::new(&row.domain, *page_type), version: row.version };
            tx.put(&SCHEMAS_CONFIRMED, &key, &SchemaConfirmedV1 { at: hour_of(tx.now()) })?;
            note_confirmed(tx)?;
            return Ok(Adoption::Same(held));
        }
    }
    if holds.as_ref().map(|row| row.id) != beaten.map(|beaten| beaten.id) {
        tx.unaudited("that a schema is compared anew");
        return Ok(Adoption::Overtaken);
    }
    let newest = newest(tx, &[domain.as_str()], *page_type)?.map_or(0, |key| key.version);
    if let Some(version) = (newest + 1).checked_sub(VERSIONS_PER_DAY).filter(|version| *version > 0) {
        let key = SchemaKey { pair: entry.pair.clone(), version };
        let earlier = readable("a schema", domain, tx.get(&PLATFORM_SCHEMAS, &key))?.flatten();
        if earlier.is_some_and(|row| row.created_at > tx.now().before(DAY)) {
            tx.unaudited("that schemas change too often");
            return Ok(Adoption::TooOften);
        }
    }
    let id = store_version(tx, entry, newest + 1, (discovered_by, Some(adopted)))?;
    let action = match adopted {
        Adopted::Discovered => Action::SchemaDiscovered,
        Adopted::Repaired => Action::SchemaRepaired,
    };
    let event = Event::new(action).named(domain.clone());
    tx.audit(event.with("pageType", page_type.name()).with("version", newest + 1))?;
    Ok(Adoption::Current(SchemaRefV1 { id, version: newest + 1 }))
}

/// The newest schemas of every domain, as the content of a file that [`import_schemas`] reads.
pub fn export_schemas(system: &System) -> Result<Value> {
    let mut schemas = Vec::new();
    let mut after: Option<SchemaPair> = None;
    loop {
        let (last, rows) = system.read(|tx| {
            let heads = tx.scan(&SCHEMA_HEADS, after.as_ref(), Order::Ascending, EXPORT_ROWS)?;
            let last = heads.last().map(|(pair, _)| pair.clone());
            let row = |(pair, head): (SchemaPair, SchemaHeadV1)| {
                tx.require(&PLATFORM_SCHEMAS, &SchemaKey { pair, version: head.version })
            };
            Ok((last, heads.into_iter().map(row).collect::<Result<Vec<_>>>()?))
        })?;
        let Some(last) = last else { break };
        after = Some(last);
        for row in rows {
            schemas.push(SchemaEntry {
                attributes: attributes_of(&row).map_err(|e| Error::internal("read a stored schema", e))?,
                domain: Some(row.domain),
                page_type: row.page_type,
                confidence: Some(row.confidence),
                sample_count: Some(row.sample_count),
            });
        }
    }
    serde_json::to_value(SchemaFile { schemas }).map_err(|e| Error::internal("write the schemas", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_refused_in_words_of_the_file() {
        let refusal = |json: &str| check_file(json, None).err().unwrap().detail().unwrap().to_owned();
        for (json, reason) in [
            ("{", "the file: is not JSON, or not all of it: EOF"),
            ("", "the file: is not JSON, or not all of it: EOF"),
            ("{\"schemas\": []} x", "the file: is not JSON, or not all of it: trailing characters"),
            ("[]", "the file: must be an object with a list of schemas, {\"schemas\": [...]}"),
            ("{}", "the file: must be an object with a list of schemas"),
            ("7", "the file: must be an object with a list of schemas"),
            (
                "{\"schemas\": [7]}",
                "schemas[0]: must be an object, as `gleaner admin schema export` prints them",
            ),
            ("{\"schemas\": [[]]}", "schemas[0]: must be an object"),
            ("{\"schemas\": [{\"pageType\": 7}]}", "schemas[0].pageType: "),
        ] {
            let refused = refusal(json);
            assert!(refused.starts_with(reason), "{json}: {refused}");
            assert!(!refused.contains("struct"), "{json}: {refused}");
        }
    }
}
