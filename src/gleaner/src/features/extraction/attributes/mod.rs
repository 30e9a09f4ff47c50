//! An organization's own attributes: saved for a domain (or one host of it), merged into the platform's when a page is read,
//! and nobody else's business.

pub mod merge;
mod rows;

pub use rows::{OWN_ATTRIBUTES, OWN_HEADS, OwnAttributeV1, OwnAttributesV1, OwnHeadV1};

use super::columns::{self, Filled, typed};
use super::site::Site;
use super::turns::ReadingTurns;
use crate::features::urls::{count_attributes, reserved};
use base::audit::Action;
use base::clock::Timestamp;
use base::codec::Json;
use base::page::{Page, PageRequest};
use base::terms::PageType;
use base::{Error, Result};
use page::extract::{Attribute, AttributeType, Schema, SemanticType, Validation};
use rows::OWN_BY_DOMAIN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::permit::{WorkflowsRead, WorkflowsWrite};
use server::{Body, Created, NoContent, Org, Path};
use store::{Event, OrgWrite, readable};

/// Own attributes of one domain or host.
pub const OWN_ATTRIBUTES_MAX: usize = 100;
/// Regular expressions in those: each takes up to half a megabyte for as long as they are in use.
pub const OWN_PATTERNS_MAX: usize = 100;
/// Bytes of those as JSON.
const OWN_BYTES_MAX: usize = 256 << 10;
/// Domains and hosts of one organization.
const OWN_DOMAINS_MAX: usize = 10_000;

/// An attribute of the organization's own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OwnAttribute")]
pub(super) struct OwnAttribute {
    /// Unique within the domain: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most. One that the
    /// platform's schema has replaces that one.
    name: String,
    /// XPath 1.0 expressions, tried in order until one yields a value.
    #[serde(default)]
    xpaths: Vec<String>,
    /// JSONPath queries (RFC 9535), tried behind the XPaths, as in a schema. At least one of the two.
    #[serde(default)]
    json_paths: Option<Vec<String>>,
    /// What the found text is made into.
    #[serde(rename = "type")]
    kind: AttributeType,
    #[serde(default)]
    description: Option<String>,
    /// Regular expressions (case-insensitive); a text that matches one is treated as not found.
    #[serde(default)]
    anti_patterns: Option<Vec<String>>,
    #[serde(default)]
    semantic_type: Option<SemanticType>,
    /// What a value must satisfy to count as valid.
    #[serde(default)]
    validation: Option<Validation>,
    /// Pages of this type alone; null for pages of every type. A name that is not the platform's begins a page type of your own.
    #[serde(default)]
    page_type: Option<PageType>,
}

impl OwnAttribute {
    fn attribute(&self) -> Attribute {
        Attribute {
            name: self.name.clone(),
            xpaths: self.xpaths.clone(),
            json_paths: self.json_paths.clone(),
            kind: self.kind,
            description: self.description.clone(),
            anti_patterns: self.anti_patterns.clone(),
            semantic_type: self.semantic_type,
            validation: self.validation.clone(),
        }
    }

    fn of(row: &OwnAttributeV1) -> Result<OwnAttribute> {
        let attribute = Attribute::deserialize(&row.attribute.0);
        let attribute = attribute.map_err(|e| Error::internal("read an own attribute", e))?;
        Ok(OwnAttribute::new(attribute, row.page_type))
    }

    fn new(attribute: Attribute, page_type: Option<PageType>) -> OwnAttribute {
        OwnAttribute {
            name: attribute.name,
            xpaths: attribute.xpaths,
            json_paths: attribute.json_paths,
            kind: attribute.kind,
            description: attribute.description,
            anti_patterns: attribute.anti_patterns,
            semantic_type: attribute.semantic_type,
            validation: attribute.validation,
            page_type,
        }
    }
}

/// The organization's own attributes for a domain.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnAttributesView {
    /// A registrable domain, or one host of it.
    domain: String,
    /// Grows with each change; results say it as `attributesVersion`. 0 where nothing was ever saved.
    version: u32,
    /// Null where nothing was ever saved.
    updated_at: Option<Timestamp>,
    attributes: Vec<OwnAttribute>,
}

impl OwnAttributesView {
    fn new(row: OwnAttributesV1) -> Result<OwnAttributesView> {
        Ok(OwnAttributesView {
            attributes: row.attributes.iter().map(OwnAttribute::of).collect::<Result<_>>()?,
            domain: row.domain,
            version: row.version,
            updated_at: Some(row.updated_at),
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewOwnAttributes {
    /// All of them: what is not among them is removed.
    attributes: Vec<OwnAttribute>,
}

pub(super) async fn list(
    org: Org<WorkflowsRead>,
    page: PageRequest,
) -> Result<Body<Page<OwnAttributesView>>> {
    let found = org.read(|tx| tx.page_by_oldest(&OWN_ATTRIBUTES, &OWN_BY_DOMAIN, (), &page, |_| true))?;
    let items = found.items.into_iter().map(OwnAttributesView::new).collect::<Result<_>>()?;
    Ok(Body(Page { items, next_cursor: found.next_cursor }))
}

pub(super) async fn get(
    org: Org<WorkflowsRead>,
    Path(domain): Path<String>,
) -> Result<Body<OwnAttributesView>> {
    let site = named(&domain)?;
    let row = org.read(|tx| tx.require(&OWN_ATTRIBUTES, &site.host))?;
    Ok(Body(OwnAttributesView::new(row)?))
}

pub(super) async fn put(
    org: Org<WorkflowsWrite>,
    Path(domain): Path<String>,
    Body(new): Body<NewOwnAttributes>,
) -> Result<Body<OwnAttributesView>> {
    let site = named(&domain)?;
    let domain = site.host.clone();
    let checked = check(&org, "attributes", new.attributes).await?;
    let saved = org.write(move |tx| {
        let now = tx.now();
        let known = known(tx, &site)?;
        let rows = checked.into_iter().map(|new| new.row(known.as_ref(), now)).collect::<Vec<_>>();
        if known.as_ref().map_or(rows.is_empty(), |known| known.attributes == rows) {
            return Ok(known);
        }
        save(tx, &site, known, rows).map(Some)
    });
    Ok(Body(match saved.await? {
        Some(row) => OwnAttributesView::new(row)?,
        None => OwnAttributesView { domain, version: 0, updated_at: None, attributes: Vec::new() },
    }))
}

pub(super) async fn add(
    org: Org<WorkflowsWrite>,
    Path(domain): Path<String>,
    Body(new): Body<OwnAttribute>,
) -> Result<Created<OwnAttributesView>> {
    let site = named(&domain)?;
    let mut checked = check(&org, "", vec![new]).await?;
    let new = checked.pop().ok_or_else(|| Error::internal("add an attribute", "there is none"))?;
    let saved = org.write(move |tx| {
        let known = known(tx, &site)?;
        let mut rows = known.as_ref().map(|known| known.attributes.clone()).unwrap_or_default();
        if rows.iter().any(|row| name_of(row) == new.attribute.name) {
            let name = &new.attribute.name;
            return Err(Error::conflict(format!("name: there is an attribute `{name}` already")));
        }
        rows.push(new.row(None, tx.now()));
        save(tx, &site, known, rows)
    });
    Ok(Created(OwnAttributesView::new(saved.await?)?))
}

pub(super) async fn remove(
    org: Org<WorkflowsWrite>,
    Path((domain, name)): Path<(String, String)>,
) -> Result<NoContent> {
    let missing = || Error::not_found("Attribute");
    let site = Site::named(&domain).ok_or_else(missing)?;
    let removed = org.write_freeing(move |tx| {
        let known = known(tx, &site)?.ok_or_else(missing)?;
        let mut rows = known.attributes.clone();
        rows.retain(|row| name_of(row) != name);
        if rows.len() == known.attributes.len() {
            return Err(missing());
        }
        save(tx, &site, Some(known), rows).map(drop)
    });
    removed.await.map(|()| NoContent)
}

/// Puts attributes of a page type beside the organization's own for a site. One of a name that is taken takes its place.
pub async fn save_beside(
    org: &Org<WorkflowsWrite>,
    site: Site,
    page_type: PageType,
    new: Vec<Attribute>,
) -> Result<()> {
    let new = new.into_iter().map(|attribute| OwnAttribute::new(attribute, Some(page_type)));
    let checked = check(org, "attributes", new.collect()).await?;
    let saved = org.write(move |tx| {
        let known = known(tx, &site)?;
        let mut rows = known.as_ref().map(|known| known.attributes.clone()).unwrap_or_default();
        for new in checked {
            let taken = rows.iter().position(|row| name_of(row) == new.attribute.name);
            let row = new.row(known.as_ref(), tx.now());
            match taken {
                Some(at) => rows[at] = row,
                None => rows.push(row),
            }
        }
        save(tx, &site, known, rows)
    });
    saved.await.map(drop)
}

/// Gives some attributes of a site other expressions, if nobody has changed them since `version`; gives the version that holds then.
pub fn mend(tx: &OrgWrite<'_>, site: &Site, version: u32, mended: &[Attribute]) -> Result<Option<u32>> {
    let Some(known) = known(tx, site)?.filter(|known| known.version == version) else { return Ok(None) };
    let mut rows = known.attributes.clone();
    for row in &mut rows {
        let Some(attribute) = mended.iter().find(|attribute| attribute.name == name_of(row)) else {
            continue;
        };
        let json = serde_json::to_value(attribute).map_err(|e| Error::internal("write an attribute", e))?;
        row.attribute = Json(json);
    }
    let schema: Vec<Attribute> =
        rows.iter().filter_map(|row| Attribute::deserialize(&row.attribute.0).ok()).collect();
    Schema::compile_within(&schema, OWN_PATTERNS_MAX)
        .map_err(|e| Error::internal("compile mended attributes", e))?;
    save(tx, site, Some(known), rows).map(|row| Some(row.version))
}

/// A domain in a path: what is none has no attributes.
fn named(domain: &str) -> Result<Site> {
    Site::named(domain).ok_or_else(|| Error::not_found(OWN_ATTRIBUTES.noun()))
}

fn name_of(row: &OwnAttributeV1) -> &str {
    row.attribute.0["name"].as_str().unwrap_or_default()
}

/// The attributes of a site. Ones that cannot be read count as none: what is saved now takes their place.
fn known(tx: &OrgWrite<'_>, site: &Site) -> Result<Option<OwnAttributesV1>> {
    Ok(readable("own attributes", &site.host, tx.get(&OWN_ATTRIBUTES, &site.host))?.flatten())
}

/// An attribute that may be saved.
struct CheckedAttribute {
    attribute: Attribute,
    json: Json,
    page_type: Option<PageType>,
    patterns: u32,
}

impl CheckedAttribute {
    /// One that there was under the same name and with the same type keeps its time.
    fn row(self, known: Option<&OwnAttributesV1>, now: Timestamp) -> OwnAttributeV1 {
        let same = |row: &&OwnAttributeV1| {
            name_of(row) == self.attribute.name && row.attribute.0["type"] == self.json.0["type"]
        };
        let before = known.into_iter().flat_map(|known| &known.attributes).find(same);
        OwnAttributeV1 {
            since: before.map_or(now, |row| row.since),
            attribute: self.json,
            page_type: self.page_type,
            patterns: self.patterns,
        }
    }
}

/// Compiles each attribute, apart from the threads that answer. Errors name the field, behind `list` where there is one.
async fn check(
    org: &Org<WorkflowsWrite>,
    list: &str,
    new: Vec<OwnAttribute>,
) -> Result<Vec<CheckedAttribute>> {
    if new.len() > OWN_ATTRIBUTES_MAX {
        return Err(Error::invalid(list, format!("has more than {OWN_ATTRIBUTES_MAX} entries")));
    }
    let turn = org.service::<ReadingTurns>().next(org.id()).await?;
    let list = list.to_owned();
    let checked = tokio::task::spawn_blocking(move || {
        let checked = check_all(&list, new);
        drop(turn);
        checked
    });
    checked.await.map_err(|e| Error::internal("check attributes", e))?
}

fn check_all(list: &str, new: Vec<OwnAttribute>) -> Result<Vec<CheckedAttribute>> {
    let attributes: Vec<_> = new.iter().map(OwnAttribute::attribute).collect();
    if attributes.is_empty() {
        return Ok(Vec::new());
    }
    let schema = Schema::compile_within(&attributes, OWN_PATTERNS_MAX).map_err(|error| {
        let path = if list.is_empty() { error.path.trim_start_matches("attributes[0]") } else { &error.path };
        let path = path.trim_start_matches('.');
        Error::invalid(if path.is_empty() { "xpaths" } else { path }, error.message)
    })?;
    for (at, own) in new.iter().enumerate() {
        if let Some(reason) = own.page_type.and_then(reserved) {
            let field =
                if list.is_empty() { "pageType".to_owned() } else { format!("{list}[{at}].pageType") };
            return Err(Error::invalid(&field, reason));
        }
    }
    let patterns = schema.pattern_counts();
    let rows = attributes.into_iter().zip(new).zip(patterns).map(|((attribute, new), patterns)| {
        let json = serde_json::to_value(&attribute).map_err(|e| Error::internal("write an attribute", e))?;
        let patterns = u32::try_from(patterns).unwrap_or(u32::MAX);
        Ok(CheckedAttribute { attribute, json: Json(json), page_type: new.page_type, patterns })
    });
    rows.collect()
}

/// Puts the attributes of a site in the place of those that were there, and begins their columns.
fn save(
    tx: &OrgWrite<'_>,
    site: &Site,
    known: Option<OwnAttributesV1>,
    attributes: Vec<OwnAttributeV1>,
) -> Result<OwnAttributesV1> {
    check_room(tx, known.is_none(), &attributes)?;
    let head = readable("the state of own attributes", &site.host, tx.get(&OWN_HEADS, &site.host))?.flatten();
    let before = head.map_or(0, |head| head.version).max(known.as_ref().map_or(0, |known| known.version));
    let types = |rows: &[OwnAttributeV1]| rows.iter().filter_map(|row| row.page_type).collect::<Vec<_>>();
    let had = known.map(|known| known.attributes).unwrap_or_default();
    count_attributes(tx, "pageType", &types(&had), &types(&attributes))?;
    let row = OwnAttributesV1 {
        domain: site.host.clone(),
        version: before.saturating_add(1),
        attributes,
        updated_at: tx.now(),
    };
    tx.put(&OWN_HEADS, &site.host, &OwnHeadV1::of(row.version, &row.attributes))?;
    if row.attributes.is_empty() {
        tx.delete(&OWN_ATTRIBUTES, &site.host)?;
    } else {
        tx.put(&OWN_ATTRIBUTES, &site.host, &row)?;
    }
    begin_columns(tx, site, &had, &row.attributes)?;
    let event = Event::new(Action::AttributesSaved).named(site.host.clone());
    tx.audit(event.with("version", row.version).with("count", row.attributes.len()))?;
    Ok(row)
}

fn check_room(tx: &OrgWrite<'_>, is_new: bool, attributes: &[OwnAttributeV1]) -> Result<()> {
    if attributes.len() > OWN_ATTRIBUTES_MAX {
        let reason = format!("a domain has at most {OWN_ATTRIBUTES_MAX} attributes");
        return Err(Error::invalid("attributes", reason));
    }
    let bytes: usize = attributes.iter().map(|row| row.attribute.0.to_string().len()).sum();
    if bytes > OWN_BYTES_MAX {
        let reason = format!("take {bytes} bytes as JSON, more than the {OWN_BYTES_MAX} of a domain");
        return Err(Error::invalid("attributes", reason));
    }
    let patterns: usize = attributes.iter().map(|row| row.patterns as usize).sum();
    if patterns > OWN_PATTERNS_MAX {
        let reason = format!("have more than {OWN_PATTERNS_MAX} regular expressions in all");
        return Err(Error::invalid("attributes", reason));
    }
    if is_new && tx.count(&OWN_ATTRIBUTES, OWN_DOMAINS_MAX)? >= OWN_DOMAINS_MAX {
        let reason = format!("there are attributes for {OWN_DOMAINS_MAX} domains already");
        return Err(Error::invalid("domain", reason));
    }
    Ok(())
}

/// Gives each attribute its column in the console's tables: in that of its page type, or in all in which the domain has rows.
fn begin_columns(
    tx: &OrgWrite<'_>,
    site: &Site,
    before: &[OwnAttributeV1],
    after: &[OwnAttributeV1],
) -> Result<()> {
    for table in columns::all_typed_tables(tx)? {
        let has_rows = columns::has_rows(tx, &table, &site.domain)?;
        let belongs = |own: &&OwnAttributeV1| match own.page_type {
            Some(page_type) => columns::table_of(page_type) == table,
            None => has_rows,
        };
        let attribute =
            |own: &OwnAttributeV1| Some(typed(Attribute::deserialize(&own.attribute.0).ok()?, own.since));
        let of_table = |rows: &[OwnAttributeV1]| rows.iter().filter(belongs).filter_map(attribute).collect();
        let filled = Filled { before: of_table(before), after: of_table(after) };
        if !filled.before.is_empty() || !filled.after.is_empty() {
            columns::change(tx, &table, &site.domain, &site.host, &filled)?;
        }
    }
    Ok(())
}
