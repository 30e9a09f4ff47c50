//! What pages of a site are read by, taken apart again into what can be mended: the platform's schema and the own attributes.

use super::attributes::merge::{merged, of_type, own_attributes, own_head};
use super::rows::PlatformSchemaV1;
use super::schemas::{attributes_of, place_of_schema, schema_to_beat};
use super::site::Site;
use base::terms::PageType;
use base::{Error, Result};
use page::extract::{Attribute, AttributeType};
use store::{OrgRead, OrgStore, SysRead, System};

pub use super::attributes::mend as mend_own;

/// What reads pages of one type at one site.
pub struct ReadBy {
    /// All attributes, merged as extraction merges them.
    pub attributes: Vec<Attribute>,
    pub platform: Option<PlatformSchemaV1>,
    /// The site whose own attributes these are, their version, and their names.
    pub own: Option<(Site, u32, Vec<String>)>,
}

impl ReadBy {
    /// Whether an attribute is a yes or no, of which no discovery knows.
    pub fn is_boolean(&self, name: &str) -> bool {
        let is_named = |one: &&Attribute| one.name == name;
        self.attributes.iter().find(is_named).is_some_and(|one| one.kind == AttributeType::Boolean)
    }

    pub fn is_own(&self, name: &str) -> bool {
        self.own.as_ref().is_some_and(|(.., names)| names.iter().any(|own| own == name))
    }
}

/// The place whose attributes read a host's pages of a type: the host, where a schema or the organization's own attributes are for
/// it alone; else its domain.
pub fn place_read_by(
    tx: &SysRead<'_>,
    org: &OrgRead<'_>,
    (host, domain): (&str, &str),
    page_type: PageType,
) -> Result<String> {
    match own_head(org, host, domain)? {
        Some((own, head)) if own.domain == host && (head.has_untyped || head.has_of(page_type)) => {
            Ok(own.domain)
        }
        _ => place_of_schema(tx, host, domain, page_type),
    }
}

/// None where nothing reads such pages.
pub fn read_by(system: &System, org: &OrgStore, site: &Site, page_type: PageType) -> Result<Option<ReadBy>> {
    let platform = system.read(|tx| schema_to_beat(tx, &site.host, page_type))?;
    let since = platform.as_ref().map(|row| row.created_at).unwrap_or_default();
    let of_platform = platform.as_ref().map(attributes_of).transpose();
    let of_platform =
        of_platform.map_err(|e| Error::internal("read a stored schema", e))?.unwrap_or_default();
    let of_platform = of_platform.into_iter().map(|attribute| (attribute, since)).collect();
    let own = org.read(|tx| {
        let Some((key, _)) = own_head(tx, &site.host, &site.domain)? else { return Ok(None) };
        Ok(own_attributes(tx, &key.domain)?.map(|row| (key.domain, row)))
    })?;
    let (mut of_own, mut named) = (Vec::new(), None);
    if let Some((domain, row)) = own {
        of_own = of_type(&row.attributes, Some(page_type));
        let names = of_own.iter().map(|(attribute, _)| attribute.name.clone()).collect();
        named = Site::named(&domain).map(|site| (site, row.version, names));
    }
    let attributes: Vec<Attribute> =
        merged(of_platform, of_own).into_iter().map(|(attribute, _)| attribute).collect();
    Ok((!attributes.is_empty()).then_some(ReadBy { attributes, platform, own: named }))
}
