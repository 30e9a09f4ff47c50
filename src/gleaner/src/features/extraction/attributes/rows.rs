//! An organization's own attributes, as they are stored.

use base::clock::Timestamp;
use base::codec::{Json, Record};
use base::terms::PageType;
use serde::{Deserialize, Serialize};
use store::{Index, OrgTable};

/// One attribute of an organization's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnAttributeV1 {
    /// As the interface writes it.
    pub attribute: Json,
    /// None for pages of every type.
    pub page_type: Option<PageType>,
    /// When it was saved under this name and with this type.
    pub since: Timestamp,
    /// Regular expressions that it holds.
    pub patterns: u32,
}

/// The attributes that an organization has saved for a domain, or for one host of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnAttributesV1 {
    pub domain: String,
    /// Grows with each change; goes on where it was when all were removed in between.
    pub version: u32,
    /// At least one.
    pub attributes: Vec<OwnAttributeV1>,
    pub updated_at: Timestamp,
}

impl Record for OwnAttributesV1 {}

/// What is asked for at every page: a row of its own, and small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnHeadV1 {
    pub version: u32,
    /// Whether there are any for pages of every type.
    pub has_untyped: bool,
    /// The page types for which there are some of their own, a bit each; the highest for all of the organization's own.
    pub page_types: u8,
}

impl OwnHeadV1 {
    pub fn of(version: u32, attributes: &[OwnAttributeV1]) -> OwnHeadV1 {
        let types = attributes.iter().filter_map(|row| row.page_type);
        OwnHeadV1 {
            version,
            has_untyped: attributes.iter().any(|row| row.page_type.is_none()),
            page_types: types.fold(0, |mask, page_type| mask | bit(page_type)),
        }
    }

    pub fn has_any(self) -> bool {
        self.has_untyped || self.page_types != 0
    }

    /// Whether there are some that are for pages of this type alone.
    pub fn has_of(self, page_type: PageType) -> bool {
        self.page_types & bit(page_type) != 0
    }

    /// Whether there are some for page types of the organization's own.
    pub fn has_of_own(self) -> bool {
        self.page_types & OWN_BIT != 0
    }
}

const OWN_BIT: u8 = 1 << 7;

fn bit(page_type: PageType) -> u8 {
    page_type.place().map_or(OWN_BIT, |place| 1 << place)
}

impl Record for OwnHeadV1 {}

/// In the order of the domains' letters.
pub static OWN_BY_DOMAIN: Index<String, OwnAttributesV1> =
    Index::new("extraction_attributes.by_domain", |row, keys| keys.add(&row.domain));

/// By domain or host.
pub static OWN_ATTRIBUTES: OrgTable<String, OwnAttributesV1> =
    OrgTable::new("extraction_attributes", "Attributes").indexed(&[&OWN_BY_DOMAIN]);

/// By domain or host; stays when all attributes are removed.
pub static OWN_HEADS: OrgTable<String, OwnHeadV1> = OrgTable::new("extraction_attribute_heads", "Attributes");
