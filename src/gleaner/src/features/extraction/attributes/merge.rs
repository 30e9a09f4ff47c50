//! What a page is read by: the platform's attributes with the organization's own among them.

use super::rows::{OWN_ATTRIBUTES, OWN_HEADS, OwnAttributeV1, OwnAttributesV1, OwnHeadV1};
use base::Result;
use base::clock::Timestamp;
use base::ids::OrgId;
use base::terms::PageType;
use page::extract::{ATTRIBUTES_MAX, Attribute};
use serde::Deserialize;
use std::collections::HashMap;
use store::{OrgRead, readable};

/// An attribute, and since when it is there.
pub type Dated = (Attribute, Timestamp);

/// A state of an organization's own attributes for a domain or host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnKey {
    pub org: OrgId,
    pub domain: String,
    pub version: u32,
}

/// The own attributes that hold for pages of `host` in `domain`: the host's, where it has any.
pub fn own_head(tx: &OrgRead<'_>, host: &str, domain: &str) -> Result<Option<(OwnKey, OwnHeadV1)>> {
    let places = if host == domain { &[domain][..] } else { &[host, domain] };
    for place in places {
        let domain = (*place).to_owned();
        let head = readable("the state of own attributes", place, tx.get(&OWN_HEADS, &domain))?.flatten();
        if let Some(head) = head.filter(|head| head.has_any()) {
            return Ok(Some((OwnKey { org: tx.org_id(), domain, version: head.version }, head)));
        }
    }
    Ok(None)
}

/// The own attributes of a domain or host, as they are now; none where there are none, or where they cannot be read.
pub fn own_attributes(tx: &OrgRead<'_>, domain: &String) -> Result<Option<OwnAttributesV1>> {
    Ok(readable("own attributes", domain, tx.get(&OWN_ATTRIBUTES, domain))?.flatten())
}

/// The organization's own page types among those that its attributes for a domain or host are for, each once.
pub fn own_types(tx: &OrgRead<'_>, domain: &String) -> Result<Vec<PageType>> {
    let own = own_attributes(tx, domain)?;
    let types = own.iter().flat_map(|own| &own.attributes).filter_map(|row| row.page_type);
    let mut types: Vec<_> = types.filter(|page_type| page_type.is_own()).collect();
    types.sort_unstable();
    types.dedup();
    Ok(types)
}

/// Those for pages of a type; without one, those for pages of every type. One that cannot be read is left out.
pub fn of_type(own: &[OwnAttributeV1], page_type: Option<PageType>) -> Vec<Dated> {
    let holds = |row: &&OwnAttributeV1| row.page_type.is_none() || row.page_type == page_type;
    let read = |row: &OwnAttributeV1| Some((Attribute::deserialize(&row.attribute.0).ok()?, row.since));
    own.iter().filter(holds).filter_map(read).collect()
}

/// The platform's attributes, each replaced by the own one of its name, then the other own ones. Where that would be too
/// many, the last of the platform's are left out: what the organization has asked for itself comes first.
pub fn merged(platform: Vec<Dated>, own: Vec<Dated>) -> Vec<Dated> {
    let mut by_name: HashMap<String, Dated> =
        own.iter().map(|own| (own.0.name.clone(), own.clone())).collect();
    let mut room = ATTRIBUTES_MAX.saturating_sub(own.len());
    let mut all = Vec::with_capacity(platform.len() + own.len());
    for attribute in platform {
        match by_name.remove(&attribute.0.name) {
            Some(own) => all.push(own),
            None if room > 0 => {
                room -= 1;
                all.push(attribute);
            }
            None => {}
        }
    }
    all.extend(own.into_iter().filter(|own| by_name.contains_key(&own.0.name)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dated(name: &str, xpath: &str) -> Dated {
        let attribute = json!({ "name": name, "xpaths": [xpath], "type": "text" });
        (serde_json::from_value(attribute).unwrap(), Timestamp(0))
    }

    fn told(all: &[Dated]) -> Vec<(&str, &str)> {
        all.iter().map(|(one, _)| (one.name.as_str(), one.xpaths[0].as_str())).collect()
    }

    #[test]
    fn an_own_attribute_replaces_the_platforms_in_its_place_or_is_added() {
        let platform = vec![dated("name", "//h1"), dated("price", "//b")];
        let own = vec![dated("color", "//i"), dated("name", "//h2")];
        let all = merged(platform, own);
        assert_eq!(told(&all), [("name", "//h2"), ("price", "//b"), ("color", "//i")]);
    }

    #[test]
    fn own_attributes_come_before_the_last_of_the_platforms() {
        let platform: Vec<_> = (0..ATTRIBUTES_MAX).map(|n| dated(&format!("p{n}"), "//b")).collect();
        let own = vec![dated("p1", "//i"), dated("own", "//i")];
        let all = merged(platform, own);
        assert_eq!(all.len(), ATTRIBUTES_MAX);
        assert_eq!((told(&all)[1], told(&all)[ATTRIBUTES_MAX - 1]), (("p1", "//i"), ("own", "//i")));
        assert!(all.iter().all(|(one, _)| one.name != format!("p{}", ATTRIBUTES_MAX - 1)));
    }
}
